"""Semismooth Newton for linear models with few features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin._jit import compiled
from maxmargin.numerics.sampling import chances
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Communicator, Features, Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

MAX_FEATURES = 1000
FIRST_WIDTH = 2.0  # of the smoothing, relative to the targets; at 1 every row sits on a kink when w = 0
NARROWER = 0.3
WARM_WIDTH = 0.003  # of the first, from a point like that of a neighbouring C; a wider one would forget it
INNER_SHARE = 0.01  # of the proximal term that the Newton decrement must fall below before the centre moves
FIRST_DAMPING, MAX_DAMPING = 1e-4, 1e-3  # the last five numbers solved spambase, raw and scaled, with C up to 100
FLAT_ENOUGH = 0.03  # of the slope along a direction at its beginning: there is its zero
FULL_ENOUGH = 0.5  # of it, if the slope is still falling after a full step: that one will do
SEARCH_LIMIT = 60  # slopes computed along a direction
COARSER = 12  # times fewer rows
COARSE_ENTRIES = 200_000  # of a matrix that is worth solving on fewer rows first
COARSE_SAMPLES = 600  # per feature, of such a matrix
HEAVY, HEAVY_SAMPLES = (
    1e9,
    75,
)  # multiplications for the Hessian that make it worth while from fewer samples per feature
LEAST_SAMPLES = 8  # per feature, that are left
COARSE_GAP = 1e-2  # relative, on fewer rows: about what they differ from all rows
COARSE_WIDTH = 0.1  # of the first: at a narrower one, fewer rows say little
FEW_SAMPLES = 50  # per feature: these say little at any width but the first
COARSE_STEPS = 30  # on fewer rows, at most
EXACT_EVERY = 20  # steps after which the scores are computed anew
MAX_UPDATES = 10  # of a matrix of products, before rounding would show
NEAR = 8.0  # widths of the smoothing: how far from reacting a row may be, to be looked at in every step
NEAR_ENTRIES = 200_000  # of a matrix of which it is worth looking at some rows only
NEAR_SHARE = 1 / 3  # of the rows, at most
NEAR_STEPS = 20  # before the others are looked at again
OUTLYING = 10.0  # times the root mean square of a column


@dataclass(frozen=True)
class Newton(Solver[Problem, "NewtonState"]):
    """Semismooth Newton on the primal, inside a proximal method on the dual for losses with kinks.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2`` with few features, any loss, any intercept.

    Method: the dual variable that answers to a score ``z_i`` is ``a_i = loss.dual_step(c_i, y_i, s_i, z_i, q_i)``, the
    maximiser of the dual term minus ``q_i (a - c_i)^2 / 2``. For smooth losses ``q = 0`` and ``a_i = -s_i slope_i``.
    For losses with kinks this is the augmented Lagrangian around the centre ``c``. The gradient is
    ``lam w - X^T a``, a generalised Hessian ``lam I + X^T diag(h) X`` with ``h = 1 / (q + loss.dual_curvature)``.
    Newton's direction is followed for a full step if that is good enough, else to the minimum along it. When the
    decrement is small against the gap, the centre moves to ``a`` and ``q`` shrinks. Column scales do not matter.

    Large problems are solved roughly on a twelfth of their rows first. Sums over rows are updated by what changed since
    the last step. With kinks, most rows are at a bound and stay there: while they are a majority, a step on all rows is
    preceded by several on those that are near a kink or have an extreme entry (a rare column moves those alone).

    Rows of several clients: all make the same steps. A step sends the products ``d (d + 1) / 2`` in one round, their
    combination ``d`` and all other sums in another, and one number for each slope along the direction.

    Cost: one step is ``O(n d + rows that react * d^2 + d^3)``; memory ``O(n + d^2)`` and up to a third of the rows.

    Reference: Yin, Li, "A semismooth Newton method for support vector classification and regression", 2019;
    Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm", 1976.
    """

    multilevel: bool = True

    name: ClassVar[str] = "newton"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, l2=True, most_features=MAX_FEATURES)

    def start(self, problem: Problem, warm: Point | None) -> NewtonState:
        """Zero on the fewest rows, or a given point on all."""
        levels = [problem]
        while warm is None and self.multilevel and _is_large(levels[-1]):
            levels.append(_thinned(levels[-1]))
        state = _first_state(levels.pop())
        state.finer, state.all_samples = levels, _total_samples(problem)
        if warm is not None:
            d = problem.operator.n_features  # type: ignore[attr-defined]
            state.theta[:d] = warm.w
            state.theta[d:] = warm.b
            if warm.alpha is not None:
                state.centre = problem.feasible(warm.alpha)
        state.score()
        if warm is not None and state.kinked and _is_close(problem, state):
            state.width *= WARM_WIDTH
        state.respond()
        return state

    def advance(self, problem: Problem, state: NewtonState, limit: int) -> NewtonState:
        """One Newton step on all rows, before it several on few if that pays.

        If the inner problem was solved well enough before, the centre moves; after the step perhaps to more rows.
        """
        if state.solved:
            self._recentre(state)
        near = state.near_rows()
        if near is not None:
            self._advance_near(state, near)
        direction = state.direction()
        decrement = -float(state.gradient @ direction)
        exact = decrement <= 1e-16 * abs(state.primal)
        state.solved = state.kinked and (exact or decrement <= INNER_SHARE * state.proximity)
        if decrement > 0.0 and not (state.solved and near is not None):
            self._move(state, direction)
        state.iterations += 1
        if exact and not state.kinked:
            state.stuck += 1
        narrow = 1.0 if state.samples < FEW_SAMPLES * state.theta.size else COARSE_WIDTH
        enough = (
            state.stuck
            or state.iterations >= state.first_step + COARSE_STEPS
            or state.relative_gap <= COARSE_GAP
            or (state.solved and state.width <= narrow * _first_width(state.problem))
        )
        if state.finer and enough:
            return self._refine(state)
        return state

    def point(self, problem: Problem, state: NewtonState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables that react to them."""
        d = problem.operator.n_features  # type: ignore[attr-defined]
        w = state.theta[:d].copy()
        b = float(state.theta[d]) if problem.intercept is not None else 0.0
        if state.finer:  # the dual variables of a few rows say nothing about all of them
            return Point(w, b, np.zeros(problem.y.size))
        if problem.intercept == "free":
            return Point(w, problem.best_intercept(state.z - b), problem.feasible(state.a))
        return Point(w, b, state.a.copy())

    def _recentre(self, state: NewtonState) -> None:
        """Move the centre to the present dual variables and narrow the smoothing.

        While few rows react, a narrower smoothing would leave the Hessian without information; it is kept unless the
        gap has come to rest (on separable data few rows ever react). Sets: ``centre, width, gap`` and as `respond`.
        """
        gap = state.primal - state.dual
        if state.reacting >= 4 * state.theta.size or gap > 0.25 * state.gap:
            state.width *= NARROWER
        state.gap = gap
        state.centre = state.problem.feasible(state.a)
        state.respond()

    def _refine(self, state: NewtonState) -> NewtonState:
        """The same coefficients on more rows."""
        finer, passes = _first_state(state.finer[-1]), state.passes * state.share
        finer.finer, finer.theta, finer.damping = state.finer[:-1], state.theta, state.damping
        finer.iterations = finer.first_step = state.iterations
        finer.all_samples = state.all_samples
        finer.passes = passes / finer.share
        finer.score()
        if finer.kinked:
            finer.width = NARROWER * state.width if state.solved else state.width
            finer.centre = 0.5 * np.add(*finer.problem.dual_box())
            finer.respond()  # from the middle: rows far from their kinks go all the way
            finer.centre = finer.problem.feasible(finer.a)
        finer.respond()
        return finer

    def _advance_near(self, state: NewtonState, near: Index) -> None:
        """Newton steps that look at some rows only, as if the others answered as they do now. Sets: as `respond`.

        They end when the inner problem is solved or rows have moved so far that others might answer differently. What
        others do in truth is seen afterwards, so that a wrong guess costs time and nothing else.
        """
        inner, usual = state.narrowed(near), ~state.scales.outlying[near]
        others = state.proximity - inner.proximity
        solved = False
        while inner.iterations < NEAR_STEPS:
            theta, direction = inner.theta, inner.direction()
            decrement = -float(inner.gradient @ direction)
            if solved or not decrement > 0.0:
                break
            solved = decrement <= INNER_SHARE * (inner.proximity + others)
            self._move(inner, direction)
            if inner.problem.largest((inner.z - state.z[near])[usual])[0] > NEAR * state.width:
                inner.theta = theta
                break
            inner.iterations += 1
        state.damping = inner.damping
        state.passes += inner.passes * inner.samples / state.samples
        state.unshared_passes += inner.unshared_passes * near.size / max(1, state.z.size)
        if inner.iterations:
            state.theta, state.near_steps = inner.theta, state.near_steps + inner.iterations
            state.score()
            state.respond()

    def _move(self, state: NewtonState, direction: Float) -> None:
        """A full step if the slope along the direction falls enough, else to its zero. Sets: as `respond`."""
        dz = _scores(state.rows, direction)
        slope = float(state.theta @ (state.ridge * direction)) - float(state.fixed @ direction)
        curvature = float(direction @ (state.ridge * direction))

        def slope_at(t: float) -> float:
            return slope + t * curvature - state.pull(dz, t)

        t = _zero_of(slope_at, float(state.gradient @ direction))
        state.damping = max(0.2 * state.damping, 1e-12) if t >= 1.0 else min(10.0 * state.damping, MAX_DAMPING)
        state.theta = state.theta + t * direction
        state.z = state.z + t * dz
        state.passes += 1.0
        if state.iterations % EXACT_EVERY == EXACT_EVERY - 1:
            state.score()
            state.v, state.anew = np.zeros_like(state.v), True
        state.respond()


@dataclass
class NewtonState(State):
    """``theta`` is ``w`` and, if there is one, the intercept; ``z`` are its scores and ``a`` what answers to them.

    Whatever has an entry for each row is local, as is ``products``; all other numbers are shared by all clients.
    """

    problem: Problem  # on the rows of the present level
    samples: int  # of the present level
    theta: Float
    centre: Float
    width: float
    ridge: Float  # lam for coefficients, lam / scale^2 for a penalised intercept, 0 for a free one
    scales: Scales  # of the columns of the present level
    z: Float
    a: Float
    h: Float  # how strongly each dual variable reacts to its score
    v: Float  # [X 1]^T a; few of the dual variables change in a step
    mean_weight: float  # of all rows of the level, where none counts as 1
    fixed: Float  # [X 1]^T a of rows that are left out
    multiplied: Float  # the weights of `products`; few of them change in a step
    products: Float  # [X 1]^T diag(multiplied) [X 1] of our own rows
    all_samples: int = 0  # of the last level
    updates: int = 0  # of `products`
    finer: list[Problem] = field(default_factory=list)  # with more rows; the last one is next
    gram: Callable[[], Float] = None  # type: ignore[assignment]  # [X 1]^T diag(h) [X 1]
    gradient: Float = None  # type: ignore[assignment]
    proximity: float = 0.0  # the proximal term: how far the dual variables are from their centre
    reacting: int = 0  # rows whose dual variables would follow their scores
    anew: bool = True  # whether `v` is to be computed from all dual variables, not from their changes
    unshared_passes: float = 0.0  # over our own rows, of which the others do not know yet
    near_steps: int = 0  # on some
    first_step: int = 0  # of this level
    stuck: int = 0
    solved: bool = False  # well enough for the centre to move
    damping: float = FIRST_DAMPING
    gap: float = math.inf  # when the centre moved last

    @property
    def rows(self) -> Features:
        """The samples of the present level, those of this client."""
        rows: Features = getattr(self.problem.operator, "rows", self.problem.operator)  # type: ignore[arg-type]
        return rows

    @property
    def kinked(self) -> bool:
        """Whether the loss needs smoothing."""
        return self.problem.loss.traits.kinked

    @property
    def share(self) -> float:
        """Cost of a pass over this level, in passes over all rows."""
        return self.samples / max(1, self.all_samples)

    @property
    def relative_gap(self) -> float:
        """Of the present level."""
        return Certificate(self.primal, self.dual).relative_gap

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value of the present point; nothing is known about all rows before the last level."""
        return (math.inf, -math.inf) if self.finer else (self.primal, self.dual)

    @property
    def exhausted(self) -> bool:
        """Whether Newton's method cannot move any more."""
        return self.stuck >= 3

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, width of the smoothing, rows of the present level, and steps on some of them."""
        return {
            "passes": self.passes * self.share,
            "smoothing": self.width,
            "rows": float(self.samples),
            "near_steps": float(self.near_steps),
        }

    def score(self) -> None:
        """Sets: ``z``, from the coefficients."""
        self.z = _scores(self.rows, self.theta)
        self.passes += 1.0

    def respond(self) -> None:
        """Sets: ``a, h, gram, gradient, primal, dual, proximity`` for the present scores, centre and width."""
        problem, rows = self.problem, self.rows
        width, kept = self.width if self.kinked else 0.0, 0.0 if self.anew else 1.0
        sums, change = np.zeros((len(rows.parts), 4)), np.empty(self.z.size)

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                first, last = rows.parts[k].start, rows.parts[k].stop
                sums[k] = _answer(
                    problem.loss, self.centre, problem.y, problem.s, self.z, width, kept, first, last,
                    self.a, self.h, change,
                )  # fmt: skip

        rows.workers.run(work, range(len(rows.parts)))
        self.anew = False
        v, self.gram = rows.adjoint_and_gram(change, self.h, self.theta.size - rows.n_features)
        passes = self.unshared_passes + rows.adjoint_passes(change)
        own = [change.sum(), *sums.sum(axis=0), passes * rows.n_samples]
        shared = problem.communicator.allreduce(np.append(v, own))
        losses, conjugates, self.proximity, reacting, read = map(float, shared[-5:])
        self.reacting = int(reacting)
        self.passes, self.unshared_passes = self.passes + read / max(1, self.samples), 0.0
        self.v = self.v + shared[: self.theta.size]
        v = self.v + self.fixed
        self.gradient = self.ridge * self.theta - v
        quadratic = self.ridge > 0.0
        self.primal = losses + 0.5 * float(self.theta @ (self.ridge * self.theta))
        self.dual = -conjugates - 0.5 * float((v[quadratic] ** 2 / self.ridge[quadratic]).sum())

    def near_rows(self) -> Index | None:
        """Rows whose dual variables would change if their scores changed a little; ``None`` if that does not pay."""
        if not self.kinked or self.problem.operator.entries < NEAR_ENTRIES:  # type: ignore[attr-defined]
            return None
        problem, width = self.problem, self.width
        near = _may_react(problem.loss, self.centre, problem.y, problem.s, self.z, width, NEAR * width, self.a)
        rows = np.flatnonzero(near | self.scales.outlying)
        total, crowded = problem.communicator.allreduce(np.array([rows.size, rows.size > self.rows.room], dtype=float))
        return rows if total <= NEAR_SHARE * self.samples and not crowded else None

    def narrowed(self, near: Index) -> NewtonState:
        """The problem of some rows, while the others answer as they do now."""
        none, some = np.zeros(near.size), _some(self.problem, near)
        inner = replace(
            self,
            problem=some,
            samples=_total_samples(some),
            centre=self.centre[near],
            z=self.z[near],
            a=none,
            h=none.copy(),
            multiplied=none.copy(),
            v=np.zeros_like(self.v),
            anew=True,
            fixed=np.zeros_like(self.v),
            iterations=0,
            passes=0.0,
            unshared_passes=0.0,
        )
        inner.respond()
        inner.fixed = self.v - inner.v
        inner.gradient = self.gradient
        return inner

    def direction(self) -> Float:
        """Newton's."""
        return _solve(self.damped_hessian(), -self.gradient)

    def pull(self, dz: Float, t: float) -> float:
        """``sum_i a_i dz_i`` for the dual variables that would answer to the scores ``z + t dz``."""
        problem, rows = self.problem, self.rows
        width = self.width if self.kinked else 0.0
        sums = np.zeros(len(rows.parts))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                first, last = rows.parts[k].start, rows.parts[k].stop
                sums[k] = _pull(problem.loss, self.centre, problem.y, problem.s, self.z, dz, t, width, first, last)

        rows.workers.run(work, range(len(rows.parts)))
        return float(problem.communicator.allreduce(sums.sum(keepdims=True))[0])

    def damped_hessian(self) -> Float:
        """``diag(ridge) + [X 1]^T diag(h) [X 1]``, and some more on the diagonal.

        Columns without reacting rows would otherwise make the steps wild, or the Hessian singular.
        """
        H = self._products()
        if self.kinked:
            strength = self.damping * max(1, self.reacting) * self.mean_weight / self.width
        else:
            strength = 1e-12 * self.mean_weight * self.samples
        H[np.diag_indices_from(H)] += self.ridge + strength * self.scales.squares[: self.theta.size]
        return H

    def _products(self) -> Float:
        """``[X 1]^T diag(h) [X 1]``, from that of the last step where most of our rows react as they did then."""
        rows, change = self.rows, self.h - self.multiplied
        cost, update_cost = rows.gram_passes(self.h), rows.gram_passes(change)
        if 4.0 * update_cost < cost and self.updates < MAX_UPDATES:
            ones = self.theta.size - rows.n_features
            more, less = np.maximum(change, 0.0), np.maximum(-change, 0.0)
            self.products = self.products + rows.bordered_gram(more, ones) - rows.bordered_gram(less, ones)
            self.updates, cost = self.updates + 1, update_cost
        else:
            self.products, self.updates = self.gram(), 0
        self.unshared_passes += cost
        self.multiplied = self.h.copy()
        return _sum_of_symmetric(self.products, self.problem.communicator)


@dataclass
class Scales:
    """How large the entries of the columns are. Read from the rows when somebody asks: a good start needs no step.

    Not with ``cached_property``: before Python 3.12 it has one lock for all, and clients that are threads would wait
    for it while they wait for each other.
    """

    rows: Features
    samples: int  # of all clients
    _squares: Float | None = None
    _outlying: Array | None = None

    @property
    def squares(self) -> Float:
        """Mean square of each column, and of a column of ones behind them."""
        if self._squares is None:
            weights = np.full(self.rows.n_samples, 1.0 / max(1, self.samples))
            self._squares = np.append(self.rows.column_squares(weights), 1.0)
        return self._squares

    @property
    def outlying(self) -> Array:
        """Whether each row is far out in some column."""
        if self._outlying is None:
            self._outlying = self.rows.beyond(OUTLYING * np.sqrt(self.squares[:-1]))
        return self._outlying


def _is_large(problem: Problem) -> bool:
    """Whether a twelfth of the rows says much about all of them, and is much cheaper."""
    rows: Features = problem.operator  # type: ignore[assignment]
    return worth_thinning(rows.entries, _total_samples(problem), rows.n_features)


def worth_thinning(entries: int, n_samples: int, n_features: int) -> bool:
    """Whether a matrix is so large that a part of its rows is solved first."""
    heavy = entries**2 >= HEAVY * n_samples
    least = HEAVY_SAMPLES if heavy else COARSE_SAMPLES
    return entries >= COARSE_ENTRIES and n_samples >= least * n_features


def _thinned(problem: Problem) -> Problem:
    """A twelfth of the rows, or what fits into memory, chosen by chance; their weights add up to that of all.

    A row's chance follows from its number among the rows of all clients: it is the same however these are spread.
    """
    rows: Features = problem.operator  # type: ignore[assignment]
    communicator = problem.communicator
    counts, rooms = communicator.allgather(np.array([rows.n_samples, rows.room], dtype=float)).T
    room = float((rooms[counts > 0.0] / counts[counts > 0.0]).min(initial=1.0))
    share = min(max(1.0 / COARSER, LEAST_SAMPLES * rows.n_features / float(counts.sum())), room)
    first = int(counts[: communicator.rank].sum())
    some = np.flatnonzero(chances(first, first + rows.n_samples) < share)[: rows.room]
    coarse = _some(problem, some)
    weight, part = communicator.allreduce(np.array([problem.s.sum(), coarse.s.sum()]))
    return replace(coarse, s=coarse.s * (float(weight) / (float(part) or 1.0)))


def _some(problem: Problem, some: Index) -> Problem:
    """The problem of some of our rows."""
    rows: Features = problem.operator  # type: ignore[assignment]
    return replace(problem, operator=rows.take(some), y=problem.y[some], s=problem.s[some])


def _total_samples(problem: Problem) -> int:
    """Rows of all clients."""
    return int(getattr(problem.operator, "total_samples", problem.operator.n_samples))


def _mean_weight(problem: Problem) -> float:
    """Of the rows of all clients, where none counts as 1."""
    own = np.where(problem.s > 0.0, problem.s, 1.0).sum(keepdims=True)
    return float(problem.communicator.allreduce(own)[0]) / max(1, _total_samples(problem))


def _first_state(problem: Problem) -> NewtonState:
    """Zero coefficients and dual variables."""
    rows: Features = problem.operator  # type: ignore[assignment]
    n, d, total = rows.n_samples, rows.n_features, _total_samples(problem)
    size = d + (problem.intercept is not None)
    ridge = np.full(size, problem.lam)
    if problem.intercept is not None:
        ridge[d] = problem.lam / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    return NewtonState(
        problem=problem,
        samples=total,
        theta=np.zeros(size),
        centre=np.zeros(n),
        width=_first_width(problem),
        ridge=ridge,
        scales=Scales(rows, total),
        z=np.zeros(n),
        a=np.zeros(n),
        h=np.zeros(n),
        v=np.zeros(size),
        mean_weight=_mean_weight(problem),
        fixed=np.zeros(size),
        multiplied=np.zeros(n),
        products=np.zeros((size, size)),
    )


def _is_close(problem: Problem, state: NewtonState) -> bool:
    """Whether a given point is much better than none; its gap is not computed but guessed from ``lam w = X^T c``."""
    penalty = 0.5 * float(state.theta @ (state.ridge * state.theta))
    primal, dual = problem.losses(state.z) + penalty, -problem.conjugates(state.centre) - penalty
    return primal - dual < 0.5 * abs(primal)


def _first_width(problem: Problem) -> float:
    """Of the smoothing."""
    return FIRST_WIDTH * max(problem.largest(problem.y)[0], 1e-300)


def _scores(rows: Features, theta: Float) -> Float:
    """``X w + b`` for ``theta = (w, b)``."""
    d = rows.n_features
    return rows.apply(theta[:d]) + (theta[d] if theta.size > d else 0.0)


def _sum_of_symmetric(own: Float, communicator: Communicator) -> Float:
    """The sum of the matrices of all clients, of which only the lower triangles are sent."""
    if communicator.size == 1:
        return own.copy()
    lower = np.tril_indices_from(own)
    total = np.zeros_like(own)
    total[lower] = communicator.allreduce(own[lower])
    return total + np.tril(total, -1).T


def _solve(H: Float, g: Float) -> Float:
    """``H^-1 g`` after scaling the diagonal to one; a growing ridge helps where rounding made ``H`` indefinite."""
    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = (H * scale[:, None] * scale).T  # symmetric, and in Fortran's order without a copy
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        damped = scaled.copy(order="F")
        damped[np.diag_indices_from(damped)] += ridge
        try:
            factor = cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        if factor[0].diagonal().min(initial=1.0) > 3e-8:  # a pivot of 1e-15
            return np.asarray(scale * cho_solve(factor, scale * g, check_finite=False))
    return scale * scale * g


def _zero_of(slope_at: Any, start: float) -> float:
    """Where a slope that rises from ``start < 0`` vanishes, nearly; 1 if that is good enough.

    The Illinois form of false position: two ends around the zero, where an end that stays counts half.
    """
    end, enough = slope_at(1.0), FLAT_ENOUGH * abs(start)
    if -FULL_ENOUGH * abs(start) <= end <= enough:  # beyond the zero the function may have risen
        return 1.0
    left, at_left, right, at_right = 0.0, start, 1.0, end
    for _ in range(SEARCH_LIMIT):
        if at_right >= 0.0:
            break
        left, at_left = right, at_right
        right *= 4.0
        at_right = slope_at(right)
    side = 0
    for _ in range(SEARCH_LIMIT):
        if not at_right > at_left:
            break
        t = (left * at_right - right * at_left) / (at_right - at_left)
        if not left < t < right:
            t = 0.5 * (left + right)
        slope = slope_at(t)
        if abs(slope) <= enough or not left < t < right:
            return t
        if slope < 0.0:
            left, at_left = t, slope
            at_right *= 0.5 if side == -1 else 1.0
            side = -1
        else:
            right, at_right = t, slope
            at_left *= 0.5 if side == 1 else 1.0
            side = 1
    return left if left > 0.0 else right


@compiled
def _answer(
    loss: Any, centre: Float, y: Float, s: Float, z: Float, width: float, kept: float, start: int, stop: int,
    a: Float, h: Float, change: Float,
) -> tuple[float, float, float, int]:  # fmt: skip
    """The dual variables that answer to the scores, and how strongly. Sets: ``a, h, change`` of some rows.

    Changes are those from ``kept`` times the dual variables so far. Returns the losses of the rows, their conjugates,
    their proximal term, and how many react.
    """
    losses, conjugates, proximity, reacting = 0.0, 0.0, 0.0, 0
    for i in range(start, stop):
        before = kept * a[i]
        a[i] = 0.0
        h[i] = 0.0
        if s[i] > 0.0:
            q = width / s[i]
            a[i] = loss.dual_step(centre[i], y[i], s[i], z[i], q)
            curvature = q + loss.dual_curvature(a[i], y[i], s[i])
            if curvature < math.inf:
                h[i] = 1.0 / curvature if curvature > 0.0 else 0.0
                reacting += h[i] > 0.0
            losses += s[i] * loss.value(z[i], y[i])
            conjugates += s[i] * loss.conjugate(-a[i] / s[i], y[i])
            proximity += 0.5 * q * (a[i] - centre[i]) ** 2
        change[i] = a[i] - before
    return losses, conjugates, proximity, reacting


@compiled
def _may_react(loss: Any, centre: Float, y: Float, s: Float, z: Float, width: float, band: float, a: Float) -> Array:
    """Whether each dual variable would change if its score did, by up to ``band``."""
    out = np.zeros(z.shape[0], dtype=np.bool_)
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            q = width / s[i]
            low = loss.dual_step(centre[i], y[i], s[i], z[i] - band, q)
            high = loss.dual_step(centre[i], y[i], s[i], z[i] + band, q)
            out[i] = low != a[i] or high != a[i]
    return out


@compiled
def _pull(
    loss: Any, centre: Float, y: Float, s: Float, z: Float, dz: Float, t: float, width: float, start: int, stop: int
) -> float:
    """``sum_i a_i dz_i`` over some rows, where ``a`` answers to the scores ``z + t dz``."""
    total = 0.0
    for i in range(start, stop):
        if s[i] > 0.0:
            total += loss.dual_step(centre[i], y[i], s[i], z[i] + t * dz[i], width / s[i]) * dz[i]
    return total
