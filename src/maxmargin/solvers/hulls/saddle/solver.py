"""Saddle-SVC: primal-dual steps for the distance of two hulls."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from maxmargin.numerics.sampling import draw, seeded
from maxmargin.numerics.selection import Scale, looped, settled
from maxmargin.operators import Columns, Rows, Sharded
from maxmargin.operators.hadamard import RandomisedHadamard
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Features, Float
from maxmargin.solvers.hulls.saddle.loops import add_columns, products, relative_entropy, weights_of
from maxmargin.solvers.hulls.saddle.state import ABSENT, Block, SaddleState, moved
from maxmargin.solvers.solver import Needs, Solver

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 50
FIRST_GAMMA = 0.25  # times the gap over log n
LEAST_GAMMA = 1e-16  # times the squared radius of the rows
READY, COOLED = 0.9, 0.4  # gamma falls to this share when the regularised gap is below that share of the gap
SHORTENED, LENGTHENED, LENGTHENED_A_LITTLE = 1.1, 0.8, 0.98  # factors of the Lipschitz constant that a step is made for
WELL_BELOW = 0.7  # of it: what has to be shown for a much longer step
LEAST_MOVE = 1e-15  # relative entropies below are rounding
BAND = 0.01  # a row stays whose score is this near to the street; 1 would be safe
PROGRESS = 0.95  # of the gap at the last look: a smaller one allows to leave rows out
LEFT_OUT = 5.0  # rows that are left out had at most exp(-5) of their class together
NEGLIGIBLE = 25.0  # a row of a warm start has at least exp(-25) of an equal share
NEWCOMER = 3.0  # rows that come back have at most exp(-3) of their class together
REBUILT = ("game", "rotation", "log_caps", "block", "columns")  # from the problem, not saved


@dataclass(frozen=True)
class Saddle(Solver[HullDistance, "SaddleState"]):
    """Saddle-SVC, as published or with what makes it fast.

    Problem: ``max_w min_{eta, xi} w.(A eta - B xi) - |w|^2 / 2 + gamma H(eta) + gamma H(xi)`` over two simplices, with
    caps for nu-SVM; the rows of ``A`` and ``B`` are those of the two classes, and ``H(u) = sum u log u``. For
    ``gamma = 0`` it is half of the squared distance of the hulls, and otherwise at most ``gamma log(n1 n2)`` less.

    Method: a step on a block of ``B`` of the ``d`` coordinates of ``w``, then one on ``eta`` and ``xi``, each with
    momentum: with ``v = A eta - B xi`` and a bound ``R`` on the rows within a block,

    ``w_J <- (w_J + sigma (v + theta (v - v_before))_J) / (1 + sigma)``,
    ``log eta <- (kappa log eta - A^T u) / (gamma + kappa) + const``, cut at the caps, ``u = w + (d/B) change(w)``,
    ``sigma = sqrt(gamma) / (2 R)``, ``kappa = 2 R sqrt(gamma) d / B``, ``theta = 1 - 1 / (d/B (1 + R / sqrt(gamma)))``.

    For ``block_size=1``, ``continuation=False`` and a given `gamma` that is the paper's rule, with ``q = R sqrt(d)``
    and ``tau = d / kappa``. By default all coordinates move at once and

    - `adaptive`: ``2 R`` is replaced by the Lipschitz constant that the last step has shown,
      ``|change(v)|^2 / (2 KL)``; a step that shows a larger one than it was made for is taken back (blocks of all
      coordinates only);
    - `continuation`: ``gamma`` begins large and falls whenever the gap of the regularised problem is below the gap, and
      the steps go on from where they are;
    - `shrinking`: rows whose weight is negligible are left out of the steps and looked at now and then (blocks of all
      coordinates only); the others are copied, so none is left out before they are as few as the share `copied`;
    - `incremental`: ``X w`` is updated with ``X v`` or the columns of the block instead of computed;
    - `log_domain`: weights may be as small as they like; otherwise not below the smallest float;
    - `selection`: caps are met exactly by selection in ``O(n)``, not by the paper's loop.

    `hadamard` rotates the rows first, which keeps their entries small as the paper's analysis asks; the answer is
    rotated back. If no direction separates the hulls, a common point of them is tried for.

    Saddle-DSVC is the same with rows spread over clients (`Sharded`). A step on all coordinates is three rounds: the
    sums of the shares (4 numbers), ``v`` (``d + 2``), the street and the regularised one (6). A step on a block is one
    round of ``4 + 3 B`` numbers, and the gap is looked at as before. With caps the products (``2 B``) are a round of
    their own, and a selection is usually two or three rounds of 8 numbers; the paper's loop is a round of 4 and one
    more for each of its projections.

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
    copied: float = 0.5  # of the rows, at most: those that take part once others are left out
    gamma: float | None = None
    seed: int = 0

    name: ClassVar[str] = "saddle"
    needs: ClassVar[Needs] = Needs("hulls", clients=True)

    def __post_init__(self) -> None:
        if self.block_size is not None and self.block_size < 1:
            raise ValueError(f"block_size={self.block_size} must be at least 1, or None for all coordinates.")
        if self.gamma is None and not self.continuation:
            raise ValueError("continuation=False needs a gamma to stay at.")
        if not 0.0 <= self.copied <= 1.0:
            raise ValueError(f"copied={self.copied} is a share of the rows; it must be between 0 and 1.")
        if self.gamma is not None and not 0.0 < self.gamma < math.inf:
            raise ValueError(f"gamma={self.gamma} must be positive and finite.")

    def obstacle(self, problem: HullDistance) -> str | None:
        """``None``, or why not."""
        rows = _local(problem.operator)
        if self.block_size is not None or self.hadamard:
            if not isinstance(rows, Rows):
                return "blocks of coordinates and rotations need the rows in memory"
            if self.hadamard and is_sparse(rows.matrix):
                return "a rotation would make these sparse rows dense"
        return None

    def start(self, problem: HullDistance, warm: Point | None) -> SaddleState:
        """Equal shares, and no direction for blocks, as published, else that between the means; or those of a point."""
        state = self._posed(problem)
        game, block = state.game, state.block
        logs = np.zeros(problem.y.size)
        if warm is not None and warm.alpha is not None:
            shares = np.abs(problem.feasible(warm.alpha)) / problem.total
            logs = np.log(np.maximum(shares, math.exp(-NEGLIGIBLE) / problem.total_samples))
        state.logs = self._projected(state, logs)
        state.measure(problem)
        if block is not None:
            state.w, state.z = np.zeros(state.rows.n_features), np.zeros(problem.y.size)
            block.signed = state.a
            own = products(block.columns.vectors, block.coordinates, block.signed[None])
            block.products = np.repeat(game.communicator.allreduce(own), 2, axis=0)
        elif warm is not None and warm.w.any() and state.rotation is None:
            state.w, state.z = warm.w, state.rows.apply(warm.w)
            state.passes += 1.0
            size, street = float(warm.w @ warm.w), game.street(state.z)
            if street > 0.0:  # the best length of this direction
                state.w, state.z = street / size * state.w, street / size * state.z
        state.judge(problem, self.continuation)
        first = FIRST_GAMMA * state.gap / math.log(1.0 + problem.total_samples)
        state.gamma = self.gamma if self.gamma is not None else max(first, LEAST_GAMMA * state.radius**2)
        return state

    def _posed(self, problem: HullDistance) -> SaddleState:
        """The state before anything is known, with all rows."""
        rotation, rows, block = None, problem.operator, None
        if self.hadamard:
            local = _in_memory(rows)
            rotation = RandomisedHadamard(rows.n_features, self.seed)
            rotated = Rows(rotation.apply(np.asarray(local.matrix)), local.workers)
            rows = Sharded(rotated, problem.communicator) if isinstance(rows, Sharded) else rotated
        if self.block_size is not None and self.block_size < rows.n_features:
            columns = Columns(_in_memory(rows).matrix, rows.workers)
            block = Block(columns, np.arange(rows.n_features), seeded(self.seed))
            block.coordinates = draw(block.order, self.block_size, block.random).copy()
        game = HullDistance(rows, problem.y, np.minimum(problem.cap / problem.total, 1.0))
        everyone = np.arange(problem.y.size)
        return SaddleState(game, everyone, rotation, problem.total, problem.total_samples, block)

    def saved(self, state: SaddleState) -> dict[str, Array]:
        """All numbers of a state; the rows that take part by their numbers."""
        return {name: np.asarray(getattr(owner, name)) for name, owner in _numbers(state).items()}

    def restored(self, problem: HullDistance, saved: dict[str, Array]) -> SaddleState:
        """The state from its numbers."""
        state = self._posed(problem)
        if saved.keys() != _numbers(state).keys():
            raise ValueError("The checkpoint was written by another version of saddle: remove it to begin anew.")
        state.active = int(saved["active"])
        state.choose(problem, saved["members"])
        for name, owner in _numbers(state).items():
            setattr(owner, name, saved[name] if saved[name].ndim else saved[name].item())
        return state

    def advance(self, problem: HullDistance, state: SaddleState, limit: int) -> SaddleState:
        """Some steps; blocks look at the gap once they have seen as many coordinates as there are."""
        share = 1.0 if state.block is None else state.block.coordinates.size / state.w.size
        steps = int(ROUND_WORK / max(1.0, share * state.game.operator.entries))
        for _ in range(min(max(1, steps), MAX_STEPS_PER_ROUND, limit)):
            if state.exhausted:
                break
            state.iterations += 1
            state.since_look += 1
            if state.block is None:
                with np.errstate(over="ignore", invalid="ignore"):
                    self._step(state)
                if not np.isfinite(state.w).all():  # rows of very different lengths can make that happen
                    state.lost = True
                    break
            else:
                self._block_step(state, state.block, share)
                if state.iterations % math.ceil(1.0 / share) != 0:
                    continue
                state.difference()
                state.passes += 1.0
            state.judge(problem, self.continuation)
            if self.continuation and state.regularised_gap < READY * state.gap:
                state.gamma = max(COOLED * state.gamma, LEAST_GAMMA * state.radius**2)
            if self.shrinking and state.block is None and state.look_is_due:
                self._look(problem, state)
            if state.width <= 0.0 and state.iterations >= state.next_proof:
                state.try_to_meet(problem)
        return state

    def point(self, problem: HullDistance, state: SaddleState) -> Point:
        """The best direction at its best length, the middle of its street, and the best points so far."""
        w, size = state.best_w, float(np.linalg.norm(state.best_w))
        if state.rotation is not None:
            w = state.rotation.inverse(w)
        scale = problem.total * state.width / size if state.width > 0.0 else 1.0
        first, last = problem.edges(state.best_z)
        members, a = state.best_members, np.zeros(problem.y.size)
        a[members] = problem.total * problem.y[members] * state.best_shares
        return Point(scale * w, -0.5 * scale * (first + last), a)

    def _step(self, state: SaddleState) -> None:
        """All coordinates of ``w``, then all shares; shorter until the step was not too long for what it met.

        Sets: ``w, z, v, p, logs``, their predecessors, and ``lipschitz``.
        """
        rows, y, root = state.game.operator, state.game.y, math.sqrt(state.gamma)
        while True:
            L = state.lipschitz if self.adaptive else 2.0 * state.radius
            sigma, kappa, theta = root / L, root * L, L / (L + 2.0 * root)
            w = (state.w + sigma * (state.v + theta * (state.v - state.v_before))) / (1.0 + sigma)
            if self.incremental:
                z = (state.z + sigma * (state.p + theta * (state.p - state.p_before))) / (1.0 + sigma)
            else:
                z = rows.apply(w)
                state.passes += state.portion
            logs = self._projected(state, (kappa * state.logs - y * z) / (state.gamma + kappa))
            shares = np.exp(logs)
            sums = np.array([relative_entropy(shares, logs, state.logs), shares @ logs])
            v, (moved, entropy) = state.game.adjoint_and_sums(y * shares, sums)
            state.passes += state.portion
            change = float(np.linalg.norm(v - state.v))
            shown = _coarse(change / math.sqrt(2.0 * moved)) if moved > LEAST_MOVE else 0.0
            if not (self.adaptive and shown > L * (1.0 + 1e-6)):  # which no number is that has overflown
                break
            state.lipschitz = SHORTENED * max(shown, L)
        lengthened = LENGTHENED if shown < WELL_BELOW * L else LENGTHENED_A_LITTLE
        state.lipschitz = min(max(lengthened * L, shown), 2.0 * state.radius)
        state.v_before, state.p_before = state.v, state.p
        state.w, state.z, state.v, state.logs, state.entropy = w, z, v, logs, float(entropy)
        if self.incremental:
            state.p = rows.apply(v)
            state.passes += state.portion

    def _block_step(self, state: SaddleState, block: Block, share: float) -> None:
        """The step of the paper on a block of coordinates. Sets: ``w, z``, the next block and all about shares."""
        root, epoch = math.sqrt(state.gamma), 1.0 / share
        sigma, kappa = root / (2.0 * state.radius), 2.0 * state.radius * root * epoch
        theta = 1.0 - 1.0 / (epoch * (1.0 + state.radius / root))
        J, (present, before) = block.coordinates, block.products
        change = (state.w[J] + sigma * (present + theta * (present - before))) / (1.0 + sigma) - state.w[J]
        scores = np.zeros(state.z.size)
        add_columns(block.columns.vectors, J, change, scores)
        t = state.game.y * (state.z + epoch * scores)
        state.w = state.w.copy()
        state.w[J] += change
        state.z = state.z + scores
        if not self.incremental:
            state.z = state.game.operator.apply(state.w)
            state.passes += 1.0
        block.coordinates = draw(block.order, J.size, block.random).copy()
        self._share(state, block, (kappa * state.logs - t) / (state.gamma + kappa))
        state.passes += 2.0 * share

    def _share(self, state: SaddleState, block: Block, logs: Float) -> None:
        """Shares in proportion to ``exp(logs)``, and what the next block needs of them and of those before.

        Without caps that is one round: every client names its weights beside its largest, and their products with the
        columns. Sets: ``logs``, and ``signed, products`` of the block.
        """
        game, columns, J = state.game, block.columns.vectors, block.coordinates
        if not game.hard:
            state.logs, before = self._projected(state, logs), block.signed
            block.signed = state.a
            block.products = game.communicator.allreduce(products(columns, J, np.stack([block.signed, before])))
            return
        signs = np.where(game.cap > 0.0, game.y, 0.0)
        weights = np.empty((3, logs.size))
        tops, own_sums = weights_of(logs, signs, weights)
        weights[2] = block.signed
        own = np.concatenate([tops, own_sums, products(columns, J, weights).ravel()])
        answer = game.communicator.combined(own, _scales_and_products, 2 + 2 * J.size)
        scales, block.products = answer[:2], answer[2:].reshape(2, J.size)
        state.logs = self._representable(np.where(signs > 0.0, logs - scales[0], logs - scales[1]))
        state.logs[signs == 0.0] = ABSENT
        first_scale, second_scale = np.exp(tops - scales)
        block.signed = first_scale * weights[0] - second_scale * weights[1]

    def _projected(self, state: SaddleState, logs: Float) -> Float:
        """The logarithms of shares in proportion to ``exp(logs)``, cut at the caps, of sum 1 in each class."""
        game, out = state.game, np.full(logs.size, ABSENT)
        own_logs, log_caps = ([part[side] for side in game.sides] for part in (logs, state.log_caps))
        if game.hard or self.selection:
            cases = zip(own_logs, log_caps, state.guesses(state.shifts), strict=True)
            scales = [Scale(own, caps, game.hard, guess) for own, caps, guess in cases]
            shifts = settled(game.communicator, scales, state.tries)
        else:
            shifts = looped(game.communicator, own_logs, log_caps)
        state.shifts = moved(state.shifts, shifts)
        for side, shift in zip(game.sides, shifts, strict=True):
            own = logs[side] + shift
            out[side] = self._representable(own if game.hard else np.minimum(own, state.log_caps[side]))
        return out

    def _representable(self, logs: Float) -> Float:
        """Logarithms of shares, whether or not these are floats themselves."""
        return logs if self.log_domain else np.maximum(logs, math.log(np.finfo(float).tiny))

    def _look(self, problem: HullDistance, state: SaddleState) -> None:
        """Look at all rows, and choose those that go on: near the street, or with some weight.

        Without progress since the last look none is left out, or some might go and come for ever. Sets: the best
        direction; ``game`` and what belongs to it if rows were left out or came back.
        """
        z = state.z
        if not state.complete:
            z = state.rows.apply(state.w)
            state.passes += 1.0
        nearest = settled(problem.communicator, problem.nearest(z, state.guesses(state.borders)))
        if not state.complete:
            street, size = sum(value for value, _ in nearest) / problem.total, float(np.linalg.norm(state.w))
            if street > state.width * size:
                state.width, state.best_w, state.best_z = street / size, state.w, z
        relative = state.relative_gap
        progress = relative < PROGRESS * state.gap_at_look
        state.gap_at_look, state.since_look = relative, 0
        state.inner_width, state.inner_distance = -math.inf, math.inf
        far = LEFT_OUT + math.log(problem.total_samples)
        band = max(far * state.gamma, BAND * state.radius * math.sqrt(relative) * state.distance)
        logs = np.full(problem.y.size, ABSENT)
        logs[state.members] = state.logs
        stays, t = logs > (-far if progress else ABSENT), problem.y * z
        for side, count, (_, border), edge in zip(problem.sides, problem.sizes, nearest, state.borders[0], strict=True):
            beyond = t[side] - border
            stays[side] |= t[side] <= edge + band
            share = np.minimum(np.log(problem.cap[side] / problem.total), -math.log(count)) - NEWCOMER
            logs[side] = np.maximum(logs[side], share - np.maximum(beyond, 0.0) / state.gamma)
        members = np.flatnonzero(stays)
        changed = not np.array_equal(members, state.members)
        active, changes = problem.communicator.allreduce(np.array([float(members.size), float(changed)]))
        if active > self.copied * problem.total_samples:
            members, active, changes = np.arange(problem.y.size), problem.total_samples, not state.complete
        if changes:
            state.active = int(active)
            state.choose(problem, members)
            state.logs = self._projected(state, logs[members])
            state.begin_anew()


def _scales_and_products(everybody: Float) -> Float:
    """Of all clients: the logarithms of the sums of the weights of both classes, and the products with the shares."""
    top = everybody[:, :2].max(axis=0)
    factors = np.exp(everybody[:, :2] - top)
    sums = (factors * everybody[:, 2:4]).sum(axis=0)
    named = everybody[:, 4:].reshape(len(everybody), 3, -1)
    first, second = (factors[:, :, None] * named[:, :2]).sum(axis=0) / sums[:, None]
    return np.concatenate([top + np.log(sums), first - second, named[:, 2].sum(axis=0)])


def _local(rows: Features) -> Features:
    """The rows of this client."""
    return rows.rows if isinstance(rows, Sharded) else rows


def _in_memory(rows: Features) -> Rows:
    """The same where `supports` has seen them in memory."""
    local = _local(rows)
    assert isinstance(local, Rows)
    return local


def _numbers(state: SaddleState) -> dict[str, SaddleState | Block]:
    """The names of the numbers that a checkpoint keeps, and whose they are."""
    owners: list[SaddleState | Block] = [state] if state.block is None else [state, state.block]
    return {part.name: owner for owner in owners for part in fields(owner) if part.name not in REBUILT}


def _coarse(x: float) -> float:
    """``x`` to 12 bits, so that fits which differ in rounding errors still take the same steps."""
    if not math.isfinite(x):
        return math.nan
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(4096.0 * mantissa), exponent - 12)
