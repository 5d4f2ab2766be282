"""Saddle-SVC: primal-dual steps for the distance of two hulls."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.capped_simplex import looped_shift
from maxmargin.numerics.sampling import below
from maxmargin.numerics.selection import Scale, SoftLeast, settled
from maxmargin.operators import Columns, Rows, Sharded
from maxmargin.operators.hadamard import RandomisedHadamard
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Features, Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 50
FIRST_GAMMA = 0.25  # times the gap over log n
LEAST_GAMMA = 1e-16  # times the squared radius of the rows
READY, COOLED = 0.9, 0.4  # gamma falls to this share when the regularised gap is below that share of the gap
SHORTENED, LENGTHENED, LENGTHENED_A_LITTLE = 1.1, 0.8, 0.98  # factors of the Lipschitz constant that a step is made for
WELL_BELOW = 0.7  # of it: what has to be shown for a much longer step
LEAST_MOVE = 1e-15  # relative entropies below are rounding
HALVED = 0.5  # a gap worth a look at all rows, a number of rows worth a copy of them
PATIENCE, PATIENCE_WITH_ALL = 50, 4  # steps between two looks at all rows; while all take part, a look is cheap
BAND = 0.01  # a row stays whose score is this near to the street; 1 would be safe
PROGRESS = 0.95  # of the gap at the last look: a smaller one allows to leave rows out
LEFT_OUT = 5.0  # rows that are left out had at most exp(-5) of their class together
NEGLIGIBLE = 25.0  # a row of a warm start has at least exp(-25) of an equal share
NEWCOMER = 3.0  # rows that come back have at most exp(-3) of their class together
ABSENT = -1e300  # logarithm of the share of a row that takes no part
REBUILT = ("game", "log_caps", "rotation", "columns")  # from the problem, not saved
FIRST_PROOF = 8  # steps before a common point is tried for, then after twice as many


@dataclass(frozen=True)
class Saddle(Solver[HullDistance, "SaddleState"]):
    """Saddle-SVC, as published or with what makes it fast.

    Problem: ``max_w min_{eta, xi} w.(A eta - B xi) - |w|^2 / 2 + gamma H(eta) + gamma H(xi)`` over two simplices, with
    caps for nu-SVM; the rows of ``A`` and ``B`` are those of the two classes, and ``H(u) = sum u log u``. For
    ``gamma = 0`` it is half of the squared distance of the hulls, and otherwise at most ``gamma log(n1 n2)`` less.

    Method: a step on a block of ``B`` of the ``d`` coordinates of ``w``, then one on ``eta`` and ``xi``, each with
    momentum: with ``z = A eta - B xi`` and a bound ``R`` on the rows within a block,

    ``w_J <- (w_J + sigma (z + theta (z - z_before))_J) / (1 + sigma)``,
    ``log eta <- (kappa log eta - A^T u) / (gamma + kappa) + const``, cut at the caps, ``u = w + (d/B) change(w)``,
    ``sigma = sqrt(gamma) / (2 R)``, ``kappa = 2 R sqrt(gamma) d / B``, ``theta = 1 - 1 / (d/B (1 + R / sqrt(gamma)))``.

    For ``block_size=1``, ``continuation=False`` and a given `gamma` that is the paper's rule, with ``q = R sqrt(d)``
    and ``tau = d / kappa``. By default all coordinates move at once and

    - `adaptive`: ``2 R`` is replaced by the Lipschitz constant that the last step has shown,
      ``|change(z)|^2 / (2 KL)``; a step that shows a larger one than it was made for is taken back (blocks of all
      coordinates only);
    - `continuation`: ``gamma`` begins large and falls whenever the gap of the regularised problem is below the gap, and
      the steps go on from where they are;
    - `shrinking`: rows whose weight is negligible are left out of the steps and looked at now and then (blocks of all
      coordinates only);
    - `incremental`: ``X w`` is updated with ``X z`` or the columns of the block instead of computed;
    - `log_domain`: weights may be as small as they like; otherwise not below the smallest float;
    - `selection`: caps are met exactly by selection in ``O(n)``, not by the paper's loop.

    `hadamard` rotates the rows first, which keeps their entries small as the paper's analysis asks; the answer is
    rotated back. If no direction separates the hulls, a common point of them is tried for.

    Saddle-DSVC is the same with rows spread over clients (`Sharded`). A step on all coordinates is three rounds: the
    sums of the shares (4 numbers), ``z`` (``d + 2``), the street and the regularised one (6). A step on a block is one
    round of ``4 + 3 B`` numbers, and the gap is looked at as before. Caps add a few rounds for each selection.

    Cost: one iteration is one step: two passes over the rows that take part (``2 B / d`` for blocks) and ``O(n)``.
    Memory ``O(n + d)``, a copy of the matrix by columns for blocks, of some rows for shrinking.

    Reference: Huang, Jin, Li, "SVM via saddle point optimization: new bounds and distributed algorithms", SWAT 2018;
    Zhang, Xiao, "Stochastic primal-dual coordinate method", JMLR 2017; Malitsky, Pock, "A first-order primal-dual
    algorithm with linesearch", SIAM J. Optim. 2018.
    """

    block_size: int | None = None  # None: all
    adaptive: bool = True
    continuation: bool = True
    shrinking: bool = True
    incremental: bool = True
    log_domain: bool = True
    selection: bool = True
    hadamard: bool = False
    gamma: float | None = None
    seed: int = 0

    name: ClassVar[str] = "saddle"
    needs: ClassVar[Needs] = Needs("hulls", clients=True)

    def __post_init__(self) -> None:
        if self.block_size is not None and self.block_size < 1:
            raise ValueError(f"block_size={self.block_size} must be at least 1, or None for all coordinates.")
        if self.gamma is None and not self.continuation:
            raise ValueError("continuation=False needs a gamma to stay at.")
        if self.gamma is not None and not 0.0 < self.gamma < math.inf:
            raise ValueError(f"gamma={self.gamma} must be positive and finite.")

    def supports(self, problem: object) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, HullDistance):
            return "it needs the distance of two hulls (HullDistance)"
        rows = _local(problem.operator)
        if (self.block_size is not None or self.hadamard) and not isinstance(rows, Rows):
            return "blocks of coordinates and rotations need the rows in memory"
        if self.hadamard and is_sparse(rows.matrix):  # type: ignore[attr-defined]
            return "a rotation would make these sparse rows dense"
        if not self.selection and problem.communicator.size > 1:
            return "the paper's loop would need a round for each of its cuts; selection=True needs a few"
        return None

    def start(self, problem: HullDistance, warm: Point | None) -> SaddleState:
        """Equal shares, and no direction for blocks, as published, else that between the means; or those of a point."""
        state = self._posed(problem)
        rows, game = state.rows, state.game
        logs = np.zeros(problem.y.size)
        if warm is not None and warm.alpha is not None:
            shares = np.abs(problem.feasible(warm.alpha)) / problem.total
            logs = np.log(np.maximum(shares, math.exp(-NEGLIGIBLE) / problem.total_samples))
        state.logs = self._projected(state, logs)
        self._measure(problem, state)
        if state.columns is not None:
            state.w, state.s = np.zeros(rows.n_features), np.zeros(problem.y.size)
            state.block = _drawn(state.order, self.block_size or 1, state.random)
            state.signed = state.a
            products = _products(state.columns.vectors, state.block, state.signed[None])
            state.products = np.repeat(game.communicator.allreduce(products), 2, axis=0)
        elif warm is not None and warm.w.any() and state.rotation is None:
            state.w, state.s = warm.w, rows.apply(warm.w)
            state.passes += 1.0
            size, street = float(warm.w @ warm.w), game.street(state.s)
            if street > 0.0:  # the best length of this direction
                state.w, state.s = street / size * state.w, street / size * state.s
        self._judge(problem, state)
        first = FIRST_GAMMA * state.gap / math.log(1.0 + problem.total_samples)
        state.gamma = self.gamma if self.gamma is not None else max(first, LEAST_GAMMA * state.radius**2)
        return state

    def _posed(self, problem: HullDistance) -> SaddleState:
        """The state before anything is known, with all rows."""
        rotation, rows = None, problem.operator
        if self.hadamard:
            local = _local(rows)
            rotation = RandomisedHadamard(rows.n_features, self.seed)
            rotated = Rows(rotation.apply(local.matrix), local.workers)  # type: ignore[attr-defined]
            rows = Sharded(rotated, problem.communicator) if isinstance(rows, Sharded) else rotated
        game = HullDistance(rows, problem.y, np.minimum(problem.cap / problem.total, 1.0))
        state = SaddleState(game, np.arange(problem.y.size), _log_caps(game), rotation, total=problem.total)
        state.active = problem.total_samples
        if self.block_size is not None and self.block_size < rows.n_features:
            state.columns = Columns(_local(rows).matrix, rows.workers)  # type: ignore[attr-defined]
            state.order, state.random = np.arange(rows.n_features), np.array([self.seed], dtype=np.uint64)
        return state

    def saved(self, state: SaddleState) -> dict[str, Array]:
        """All numbers of a state; the rows that take part by their numbers."""
        named = {part.name: getattr(state, part.name) for part in fields(state) if part.name not in REBUILT}
        named["best_members"], named["best_shares"] = state.best_shares
        return {name: np.asarray(value) for name, value in named.items() if value is not None}

    def restored(self, problem: HullDistance, saved: dict[str, Array]) -> SaddleState:
        """The state from its numbers."""
        state = self._posed(problem)
        state.active = int(saved["active"])
        self._choose(problem, state, saved["members"])
        for part in fields(state):
            if part.name in saved:
                value = saved[part.name]
                setattr(state, part.name, value if value.ndim else value.item())
        state.best_shares = saved["best_members"], saved["best_shares"]
        return state

    def advance(self, problem: HullDistance, state: SaddleState, limit: int) -> SaddleState:
        """Some steps; blocks look at the gap once they have seen as many coordinates as there are."""
        share = 1.0 if state.columns is None else self.block_size / state.w.size  # type: ignore[operator]
        steps = int(ROUND_WORK / max(1.0, share * state.game.operator.entries))
        for _ in range(min(max(1, steps), MAX_STEPS_PER_ROUND, limit)):
            if state.exhausted:
                break
            state.iterations += 1
            state.since_look += 1
            if state.columns is None:
                self._step(state)
            else:
                self._block_step(state, share)
                if state.iterations % math.ceil(1.0 / share) != 0:
                    continue
                self._difference(state)
                state.passes += 1.0
            self._judge(problem, state)
            if self.continuation and state.regularised_gap < READY * state.gap:
                state.gamma = max(COOLED * state.gamma, LEAST_GAMMA * state.radius**2)
            if self.shrinking and state.columns is None and state.look_is_due:
                self._look(problem, state)
            if state.width <= 0.0 and state.iterations >= state.next_proof:
                self._try_to_meet(problem, state)
        return state

    def point(self, problem: HullDistance, state: SaddleState) -> Point:
        """The best direction at its best length, the middle of its street, and the best points so far."""
        w, s, size = state.best_w, state.best_s, float(np.linalg.norm(state.best_w))
        if state.rotation is not None:
            w = state.rotation.inverse(w)
        scale = problem.total * state.width / size if state.width > 0.0 else 1.0
        first, last = problem.edges(s)
        members, shares = state.best_shares
        a = np.zeros(problem.y.size)
        a[members] = problem.total * problem.y[members] * shares
        return Point(scale * w, -0.5 * scale * (first + last), a)

    def _step(self, state: SaddleState) -> None:
        """All coordinates of ``w``, then all shares; shorter until the step was not too long for what it met.

        Sets: ``w, s, z, p, logs``, their predecessors, and ``lipschitz``.
        """
        rows, y, root = state.game.operator, state.game.y, math.sqrt(state.gamma)
        while True:
            L = state.lipschitz if self.adaptive else 2.0 * state.radius
            sigma, kappa, theta = root / L, root * L, L / (L + 2.0 * root)
            w = (state.w + sigma * (state.z + theta * (state.z - state.z_before))) / (1.0 + sigma)
            if self.incremental:
                s = (state.s + sigma * (state.p + theta * (state.p - state.p_before))) / (1.0 + sigma)
            else:
                s = rows.apply(w)
                state.passes += state.portion
            logs = self._projected(state, (kappa * state.logs - y * s) / (state.gamma + kappa))
            shares = np.exp(logs)
            sums = np.array([_relative_entropy(shares, logs, state.logs), shares @ logs])
            z, (moved, entropy) = state.game.adjoint_and_sums(y * shares, sums)
            state.passes += state.portion
            change = float(np.linalg.norm(z - state.z))
            shown = _coarse(change / math.sqrt(2.0 * moved)) if moved > LEAST_MOVE else 0.0
            if not self.adaptive or shown <= L * (1.0 + 1e-6):
                break
            state.lipschitz = SHORTENED * max(shown, L)
        lengthened = LENGTHENED if shown < WELL_BELOW * L else LENGTHENED_A_LITTLE
        state.lipschitz = min(max(lengthened * L, shown), 2.0 * state.radius)
        state.z_before, state.p_before = state.z, state.p
        state.w, state.s, state.z, state.logs, state.entropy = w, s, z, logs, float(entropy)
        if self.incremental:
            state.p = rows.apply(z)
            state.passes += state.portion

    def _block_step(self, state: SaddleState, share: float) -> None:
        """The step of the paper on a block of coordinates. Sets: ``w, s, block`` and all about shares."""
        root, epoch = math.sqrt(state.gamma), 1.0 / share
        sigma, kappa = root / (2.0 * state.radius), 2.0 * state.radius * root * epoch
        theta = 1.0 - 1.0 / (epoch * (1.0 + state.radius / root))
        J, (present, before) = state.block, state.products
        change = (state.w[J] + sigma * (present + theta * (present - before))) / (1.0 + sigma) - state.w[J]
        scores = np.zeros(state.s.size)
        _add_columns(state.columns.vectors, J, change, scores)  # type: ignore[union-attr]
        t = state.game.y * (state.s + epoch * scores)
        state.w = state.w.copy()
        state.w[J] += change
        state.s = state.s + scores
        if not self.incremental:
            state.s = state.game.operator.apply(state.w)
            state.passes += 1.0
        state.block = _drawn(state.order, J.size, state.random)
        self._share(state, (kappa * state.logs - t) / (state.gamma + kappa))
        state.passes += 2.0 * share

    def _share(self, state: SaddleState, logs: Float) -> None:
        """Shares in proportion to ``exp(logs)``, and what the next block needs of them and of those before.

        Without caps that is one round: every client names its weights beside its largest, and their products with the
        columns. Sets: ``logs, signed, products``.
        """
        game, columns, J = state.game, state.columns.vectors, state.block  # type: ignore[union-attr]
        if not game.hard:
            state.logs, before = self._projected(state, logs), state.signed
            state.signed = state.a
            state.products = game.communicator.allreduce(_products(columns, J, np.stack([state.signed, before])))
            return
        signs = np.where(game.cap > 0.0, game.y, 0.0)
        weights = np.empty((3, logs.size))
        tops, own_sums = _weights_of(logs, signs, weights)
        weights[2] = state.signed
        own = np.concatenate([tops, own_sums, _products(columns, J, weights).ravel()])
        everybody = game.communicator.allgather(own)
        top = everybody[:, :2].max(axis=0)
        factors = np.exp(everybody[:, :2] - top)
        sums = (factors * everybody[:, 2:4]).sum(axis=0)
        products = everybody[:, 4:].reshape(-1, 3, J.size)
        first, second = (factors[:, :, None] * products[:, :2]).sum(axis=0) / sums[:, None]
        state.products = np.stack([first - second, products[:, 2].sum(axis=0)])
        scales = top + np.log(sums)
        state.logs = self._representable(np.where(signs > 0.0, logs - scales[0], logs - scales[1]))
        state.logs[signs == 0.0] = ABSENT
        first_scale, second_scale = np.exp(tops - scales)
        state.signed = first_scale * weights[0] - second_scale * weights[1]

    def _projected(self, state: SaddleState, logs: Float) -> Float:
        """The logarithms of shares in proportion to ``exp(logs)``, cut at the caps, of sum 1 in each class."""
        game, out = state.game, np.full(logs.size, ABSENT)
        if game.hard or self.selection:
            scales = [Scale(logs[side], state.log_caps[side], game.hard) for side in game.sides]
            shifts = settled(game.communicator, scales)
        else:
            shifts = [looped_shift(logs[side], state.log_caps[side]) for side in game.sides]
        for side, shift in zip(game.sides, shifts, strict=True):
            own = logs[side] + shift
            out[side] = self._representable(own if game.hard else np.minimum(own, state.log_caps[side]))
        return out

    def _representable(self, logs: Float) -> Float:
        """Logarithms of shares, whether or not these are floats themselves."""
        return logs if self.log_domain else np.maximum(logs, math.log(np.finfo(float).tiny))

    def _difference(self, state: SaddleState) -> None:
        """Of the two points. Sets: ``z, entropy``."""
        shares = np.exp(state.logs)
        state.z, sums = state.game.adjoint_and_sums(state.game.y * shares, np.array([shares @ state.logs]))
        state.entropy = float(sums[0])

    def _measure(self, problem: HullDistance, state: SaddleState) -> None:
        """Both points, what is between them, and how far rows lie from the middle. Sets: ``z, p, w, s, radius``."""
        rows, y = state.game.operator, problem.y
        means = rows.adjoint_each(np.exp(state.logs)[:, None] * np.column_stack([y > 0.0, y < 0.0]))
        state.z, middle = means[0] - means[1], 0.5 * (means[0] + means[1])
        products = rows.apply_each(np.stack([state.z, middle]))
        state.p, around = np.ascontiguousarray(products[:, 0]), products[:, 1]
        squares = problem.squared_lengths - 2.0 * around + float(middle @ middle)
        state.radius = math.sqrt(max(problem.largest(float(squares[problem.cap > 0.0].max(initial=0.0))), 0.0))
        if state.columns is not None:
            largest = problem.largest(float(np.abs(_local(rows).vectors[0]).max(initial=0.0)))  # type: ignore[attr-defined]
            state.radius = min(math.sqrt(self.block_size) * largest, problem.reach)  # type: ignore[arg-type]
        state.radius = state.radius or 1.0
        size = float(np.linalg.norm(state.z))
        spread = max(self._deviations(state)) / size if size > 0.0 else 0.0
        state.lipschitz = max(spread, 1e-3 * state.radius)
        state.z_before, state.p_before = state.z, state.p
        state.w, state.s, state.best_w, state.best_s = state.z, state.p, state.z, state.p
        state.passes += 3.0

    def _deviations(self, state: SaddleState) -> list[float]:
        """Standard deviation of ``p`` in each class."""
        game, sizes = state.game, np.array(state.game.sizes)
        own = [state.p[side] for side in game.sides]
        means = game.communicator.allreduce(np.array([p.sum() for p in own])) / sizes
        squares = [((p - mean) ** 2).sum() for p, mean in zip(own, means, strict=True)]
        return np.sqrt(game.communicator.allreduce(np.array(squares)) / sizes).tolist()

    def _judge(self, problem: HullDistance, state: SaddleState) -> None:
        """Distance of the present points, width of the street along ``w``, and the gap between them.

        Sets: ``gap``, and that of the problem with ``gamma``: zero once the steps have nothing more to do at this one;
        what is known of the rows that take part, and the best of both if all rows do.
        """
        distance, size = float(np.linalg.norm(state.z)), float(np.linalg.norm(state.w))
        requests: list[Any] = [*state.game.nearest(state.s)]
        if self.continuation and state.gamma > 0.0:
            t = state.game.y * state.s
            sides = state.game.sides
            requests += [SoftLeast(t[side], state.log_caps[side], state.gamma, state.game.hard) for side in sides]
        (first, edge), (second, other_edge), *soft = settled(state.game.communicator, requests)
        street, state.edges = first + second, (edge, other_edge)
        state.regularised_gap = 0.5 * (distance**2 + size**2) + state.gamma * state.entropy - sum(soft)
        width = street / size if size > 0.0 else 0.0
        state.gap = 0.5 * distance**2 + 0.5 * size**2 - street
        state.inner_width, state.inner_distance = max(state.inner_width, width), min(state.inner_distance, distance)
        if distance < state.distance:
            state.distance = 0.0 if problem.vanishes(problem.total * state.z) else distance
            state.best_shares = state.members, np.exp(state.logs)
        if state.complete and width > state.width:
            state.width, state.best_w, state.best_s = width, state.w, state.s

    def _look(self, problem: HullDistance, state: SaddleState) -> None:
        """Look at all rows, and choose those that go on: near the street, or with some weight.

        Without progress since the last look none is left out, or some might go and come for ever. Sets: the best
        direction; ``game`` and what belongs to it if rows were left out or came back.
        """
        s = state.s
        if not state.complete:
            s = state.rows.apply(state.w)
            state.passes += 1.0
        nearest = settled(problem.communicator, problem.nearest(s))
        if not state.complete:
            street, size = sum(value for value, _ in nearest) / problem.total, float(np.linalg.norm(state.w))
            if street > state.width * size:
                state.width, state.best_w, state.best_s = street / size, state.w, s
        relative = state.relative_gap
        progress = relative < PROGRESS * state.gap_at_look
        state.gap_at_look, state.since_look = relative, 0
        state.inner_width, state.inner_distance = -math.inf, math.inf
        far = LEFT_OUT + math.log(problem.total_samples)
        band = max(far * state.gamma, BAND * state.radius * math.sqrt(relative) * state.distance)
        logs = np.full(problem.y.size, ABSENT)
        logs[state.members] = state.logs
        stays, t = logs > (-far if progress else ABSENT), problem.y * s
        for side, count, (_, border), edge in zip(problem.sides, problem.sizes, nearest, state.edges, strict=True):
            beyond = t[side] - border
            stays[side] |= t[side] <= edge + band
            share = np.minimum(np.log(problem.cap[side] / problem.total), -math.log(count)) - NEWCOMER
            logs[side] = np.maximum(logs[side], share - np.maximum(beyond, 0.0) / state.gamma)
        members = np.flatnonzero(stays)
        changed = not np.array_equal(members, state.members)
        active, changes = problem.communicator.allreduce(np.array([float(members.size), float(changed)]))
        if active > HALVED * problem.total_samples:
            members, active, changes = np.arange(problem.y.size), problem.total_samples, not state.complete
        if changes:
            state.active = int(active)
            self._choose(problem, state, members)
            self._continue(state, logs[members])

    def _choose(self, problem: HullDistance, state: SaddleState, members: Index) -> None:
        """Go on with some of the rows. Sets: ``game, members, log_caps, portion``."""
        cap = np.minimum(problem.cap[members] / problem.total, 1.0)
        rows = state.rows.take(members) if state.active < problem.total_samples else state.rows
        state.game = HullDistance(rows, problem.y[members], cap)
        state.members, state.log_caps = members, _log_caps(state.game)
        state.portion = state.game.operator.entries / max(1, state.rows.entries)

    def _continue(self, state: SaddleState, logs: Float) -> None:
        """Steps with these rows begin anew. Sets: ``logs``, and what follows from them and from ``w``."""
        state.logs = self._projected(state, logs)
        self._difference(state)
        products = state.game.operator.apply_each(np.stack([state.z, state.w]))
        state.p, state.s = np.ascontiguousarray(products[:, 0]), np.ascontiguousarray(products[:, 1])
        state.z_before, state.p_before = state.z, state.p
        state.passes += 2.0 * state.portion

    def _try_to_meet(self, problem: HullDistance, state: SaddleState) -> None:
        """Find a common point of the hulls near the present ones. Sets: the best points, if there is one."""
        state.next_proof = 2 * state.iterations
        a = np.zeros(problem.y.size)
        a[state.members] = problem.total * state.a
        common, passes = problem.common_point(a)
        state.passes += passes
        if common is not None:
            everyone = np.arange(problem.y.size)
            state.distance, state.best_shares = 0.0, (everyone, np.abs(common) / problem.total)


@dataclass
class SaddleState(State):
    """The rows that take part, their shares, and the direction. ``s = X w``, ``z = X^T a``, ``p = X z`` on these rows.

    With several clients, ``w, z`` and all numbers are the same for each; what has an entry for each row is local.
    """

    game: HullDistance  # with sums of 1
    members: Index
    log_caps: Float
    rotation: RandomisedHadamard | None
    logs: Float = None  # type: ignore[assignment]
    w: Float = None  # type: ignore[assignment]
    s: Float = None  # type: ignore[assignment]
    z: Float = None  # type: ignore[assignment]
    p: Float = None  # type: ignore[assignment]
    z_before: Float = None  # type: ignore[assignment]
    p_before: Float = None  # type: ignore[assignment]
    entropy: float = 0.0  # sum of shares and their logarithms
    columns: Columns | None = None  # for blocks
    signed: Float = None  # type: ignore[assignment]  # shares
    order: Index = None  # type: ignore[assignment]
    random: Array = None  # type: ignore[assignment]
    block: Index = None  # type: ignore[assignment]
    products: Float = None  # type: ignore[assignment]  # of the columns of the block with the shares, and those before
    gamma: float = 0.0
    lipschitz: float = 0.0
    radius: float = 0.0  # of the rows around the middle; for blocks, of the rows within a block
    gap: float = math.inf  # of the present pair, not scaled
    regularised_gap: float = math.inf  # the same with gamma
    edges: tuple[float, float] = (0.0, 0.0)  # of the street between the rows that take part, in scores of either class
    width: float = -math.inf  # of the best street
    distance: float = math.inf  # of the best points
    best_w: Float = None  # type: ignore[assignment]
    best_s: Float = None  # type: ignore[assignment]
    best_shares: tuple[Index, Float] = None  # type: ignore[assignment]
    inner_width: float = -math.inf  # the same on the rows that take part, since all were looked at
    inner_distance: float = math.inf
    gap_at_look: float = 1.0
    since_look: int = 0
    next_proof: int = FIRST_PROOF
    active: int = 0  # rows that take part
    portion: float = 1.0  # of the data that takes part
    total: float = 1.0

    def __post_init__(self) -> None:
        self.rows = self.game.operator

    @property
    def a(self) -> Float:
        """Signed shares."""
        return self.game.y * np.exp(self.logs)

    @property
    def complete(self) -> bool:
        """Whether all rows take part."""
        return self.game.operator is self.rows

    @property
    def relative_gap(self) -> float:
        """Between the squares of the best width and the best distance."""
        return _relative(self.width, self.distance)

    @property
    def look_is_due(self) -> bool:
        """Whether the gap has halved on the rows that take part, or they have been among themselves for long."""
        tired = self.since_look >= (PATIENCE_WITH_ALL if self.complete else PATIENCE)
        return tired or _relative(self.inner_width, self.inner_distance) <= HALVED * self.gap_at_look

    @property
    def estimate(self) -> tuple[float, float]:
        """Minus half of the squares of the best width and the best distance."""
        return -0.5 * (self.total * max(self.width, 0.0)) ** 2, -0.5 * (self.total * self.distance) ** 2

    @property
    def exhausted(self) -> bool:
        """Whether the hulls have been found to meet."""
        return self.distance == 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, the present gamma and the rows that take part."""
        return {"passes": self.passes, "gamma": self.gamma, "active": float(self.active)}


def _local(rows: Features) -> Features:
    """The rows of this client."""
    return rows.rows if isinstance(rows, Sharded) else rows


def _relative(width: float, distance: float) -> float:
    return max(1.0 - (max(width, 0.0) / distance) ** 2, 0.0) if distance > 0.0 else 0.0


def _log_caps(game: HullDistance) -> Float:
    return np.log(np.maximum(game.cap, math.exp(-700.0)))


def _coarse(x: float) -> float:
    """``x`` to 12 bits, so that fits which differ in rounding errors still take the same steps."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(4096.0 * mantissa), exponent - 12)


@compiled
def _relative_entropy(shares: Float, logs: Float, before: Float) -> float:
    """``sum_i p_i (log p_i - log q_i)`` for shares ``p`` and those before.

    As both have the same sum, it is also one of ``p_i (u + exp(-u) - 1)`` with ``u = log p_i - log q_i``. These are not
    negative, and do not cancel each other: the entropy of the smallest moves is known to many digits too.
    """
    total = 0.0
    for i in range(shares.shape[0]):
        u = logs[i] - before[i]
        if abs(u) < 1e-2:
            total += shares[i] * (u * u) * (0.5 - u * (1.0 / 6.0 - u * (1.0 / 24.0 - u * (1.0 / 120.0 - u / 720.0))))
        elif shares[i] > 0.0:
            total += shares[i] * (u + math.expm1(-u))
    return total


@compiled
def _weights_of(logs: Float, signs: Float, weights: Float) -> tuple[Float, Float]:
    """``exp(logs)`` of the rows of either class beside the largest: logarithms of these, and the sums of the others.

    Sets: the first two rows of ``weights``.
    """
    tops, sums = np.full(2, -np.inf), np.zeros(2)
    for i in range(logs.shape[0]):
        if signs[i] != 0.0:
            k = 0 if signs[i] > 0.0 else 1
            tops[k] = max(tops[k], logs[i])
    for i in range(logs.shape[0]):
        weights[0, i], weights[1, i] = 0.0, 0.0
        if signs[i] != 0.0:
            k = 0 if signs[i] > 0.0 else 1
            weights[k, i] = math.exp(logs[i] - tops[k])
            sums[k] += weights[k, i]
    return tops, sums


@compiled
def _drawn(order: Index, count: int, random: Array) -> Index:
    """A block of coordinates, each as likely as any other. Sets: ``order, random``."""
    for k in range(count):
        other = k + below(order.shape[0] - k, random)
        order[k], order[other] = order[other], order[k]
    return order[:count].copy()


@compiled
def _products(columns: Any, J: Index, A: Float) -> Float:
    """Inner products of each row of ``A`` with some columns."""
    out = np.empty((A.shape[0], J.shape[0]))
    for k in range(J.shape[0]):
        for r in range(A.shape[0]):
            out[r, k] = columns.dot(J[k], A[r])
    return out


@compiled
def _add_columns(columns: Any, J: Index, steps: Float, s: Float) -> None:
    """``s += sum_k steps_k * column J_k``."""
    for k in range(J.shape[0]):
        columns.add(J[k], steps[k], s)
