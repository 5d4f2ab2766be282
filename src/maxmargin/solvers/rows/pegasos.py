"""Pegasos: stochastic subgradient steps on the primal, for rows of features and for kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from mmap import mmap
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.numerics.sampling import ORDERS, draw_batches
from maxmargin.operators import Gram, Rows
from maxmargin.operators.row_cache import BATCH, RowCache
from maxmargin.operators.rows import DenseVectors, add_four, four_products
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 100_000
STEP_WORK = 20  # multiplications that one visit costs besides those with the row
AVERAGES = ("uniform", "suffix", "last")
PROBED, PROBED_KERNEL = 1000, 250  # samples on which the first step is tried; visits as many as the first
MAX_TRIALS = 40  # doublings or halvings of the first step
SMALLEST_SCALE = 1e-100  # of `a`; below it all coefficients are multiplied
LARGEST_SHARE = 1e3  # of `c q` against the sum of the iterates: more would cancel against `total`
ALL_PRESENT = np.zeros(0, dtype=np.int64)  # slots, where no vector is ever missing
LARGE = 100_000  # samples from which on the memory of a window is asked of the system
FETCHED = 64  # kernel rows at a time
A, C, H, H_TOTAL, SQ, COUNT, ADDED, FOLDS = range(8)  # places of the scalars of an `_Iterate`
GAIN, VISITS = range(2)  # columns of what a window has seen: side by side, since a random visit waits for memory
Y, FACTOR = range(2)  # columns of what is known of the samples


@dataclass(frozen=True)
class Pegasos(Solver[Problem, "PegasosState"]):
    """Pegasos (primal estimated subgradient solver) for rows of features.

    Problem: ``f(w) = lam |w|^2 / 2 + sum_i p_i loss(x_i.w + b, y_i)`` with ``p_i = s_i / sum_j s_j``. That is
    ``sum_i s_i loss(...) + ...`` divided by ``sum_i s_i``, and ``lam`` is divided with it. The slopes of the loss must
    be bounded: hinge, Huber hinge, logistic, epsilon-insensitive. Any intercept.

    Method: step ``t`` looks at a batch ``A_t`` of ``k = batch_size`` different samples (all, if there are fewer):

        w <- (1 - eta_t lam) w - (eta_t / k) sum_(i in A_t) c_i slope(x_i.w + b, y_i) x_i,  eta_t = 1 / (lam (t_0 + t))

    and with ``projection`` scales ``w`` into the ball that holds the optimum, of radius ``sqrt(f(0) / lam)``, which is
    ``1 / sqrt(lam)`` for the hinge. ``step0=None`` is the textbook's ``t_0 = 0``. With ``"probe"``, the practical form,
    ``eta_0 = 1 / (lam t_0)`` is the step with which a thousand visits of some samples end best. ``order="uniform"``
    with ``k = 1`` draws sample ``i`` with probability ``p_i`` and has ``c_i = 1``; the others visit every sample
    equally often, so that it has to count ``c_i = n p_i`` times. The point is the last iterate, or the average of all
    ``w_1, ..., w_t``, or of the last half to three quarters of them (``"suffix"``).

    A penalised intercept is one more column. A free one is a penalised one around a centre that follows whenever ``t``
    has doubled; in the end the best intercept for ``w`` is taken. The dual variable of a sample is ``s_i`` times the
    mean of ``-slope`` over its visits in the last half to three quarters of the steps: it is in its box whatever the
    order, approaches the optimum as ``lam w = X^T alpha`` holds in the mean, and forgets the first steps, unlike the
    coefficients of ``w`` over the rows. Where the slopes at the final point have a higher dual value, as they may have
    for smooth losses, they are taken instead.

    Cost: one iteration is one step, ``O(non-zeros of the batch)`` because ``w`` is kept as a number times a vector, and
    their sum as another vector plus a number times it; memory ``O(n + d)``. The error falls like ``1 / (lam t)``: see
    `maxmargin.bounds`.

    Reference: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 2011, figures 1 and 2; Bottou, "Stochastic gradient descent tricks", 2012, for the probed
    step; Rakhlin, Shamir, Sridharan, "Making gradient descent optimal", ICML 2012, for the suffix.
    """

    batch_size: int = 1
    projection: bool = False
    average: str = "suffix"
    order: str = "permutation"
    step0: str | None = "probe"
    seed: int = 0

    name: ClassVar[str] = "pegasos"
    needs: ClassVar[Needs] = Needs("rows", l2=True)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size!r} must be at least 1.")
        for option, value, known in (
            ("average", self.average, AVERAGES),
            ("order", self.order, tuple(ORDERS)),
            ("step0", self.step0, (None, "probe")),
        ):
            if value not in known:
                raise ValueError(f"{option}={value!r} is unknown; choose one of {', '.join(map(repr, known))}.")

    def supports(self, problem: object) -> str | None:
        """``None``, or why not."""
        if (reason := super().supports(problem)) is not None:
            return reason
        assert isinstance(problem, Problem)
        return self._obstacle(problem)

    def start(self, problem: Problem, warm: Point | None) -> PegasosState:
        """Zero, or the dual variables of a point."""
        n, rows = problem.y.size, np.flatnonzero(problem.s > 0.0)
        k = max(1, min(self.batch_size, rows.size))
        proportional = self.order == "uniform" and k == 1
        squares, width = self._squares_and_width(problem)
        if problem.intercept == "free":
            kappa = math.sqrt(float(np.abs(squares).mean())) or 1.0
        else:
            kappa = float(problem.intercept_scale) if problem.intercept == "penalised" else 0.0
        weight = float(problem.s.sum()) or 1.0
        state = PegasosState(
            task=_Task(
                loss=problem.loss,
                known=_side_by_side(problem.y, 1.0 if proportional else rows.size * problem.s / weight),
                squares=squares + kappa**2,
                lam=problem.lam / weight,
                t0=0.0,
                kappa=kappa,
                centre=_first_intercept(problem, rows) if problem.intercept == "free" else 0.0,
                radius=math.sqrt(problem.losses(np.zeros(n)) / problem.lam) if self.projection else math.inf,
            ),
            iterate=_Iterate.at_zero(n, width, expanded=problem.kernelised),
            rows=rows,
            sums=_cumulative(problem.s[rows]) if proportional else np.zeros(0),
            k=k,
            position=rows.size,
            random=np.array([self.seed], dtype=np.uint64),
            earlier=_Window(np.zeros(width), 0.0, 0.0, _unseen(n)),
            alpha=np.zeros(n),
        )
        if rows.size == 0:
            return state
        if warm is not None and warm.alpha is not None:
            self._begin_at(problem, state, problem.feasible(warm.alpha), warm.b)
        if self.step0 == "probe":
            state.task = state.task._replace(t0=self._probe(problem, state))
        return state

    def advance(self, problem: Problem, state: PegasosState, limit: int) -> PegasosState:
        """Steps until the round's work is spent. At powers of two the windows of averages end and the centre moves."""
        if state.rows.size == 0:
            return state
        left = min(limit, MAX_STEPS_PER_ROUND, max(1, int(ROUND_WORK / (state.k * self._visit_work(problem)))))
        while left > 0:
            batches = np.empty((min(left, state.window_end - state.iterations), state.k), dtype=np.int64)
            state.position = draw_batches(
                ORDERS[self.order], state.rows, state.sums, state.position, state.random, batches
            )
            self._run(problem, state, batches)
            left -= batches.shape[0]
            state.iterations += batches.shape[0]
            if state.iterations == state.window_end:
                state.end_window(keep_sum=self.average == "uniform")
                if problem.intercept == "free":
                    state.move_centre()
        return state

    def point(self, problem: Problem, state: PegasosState) -> Point:
        """The average of the iterates or the last, and the better of two dual points."""
        w, h = state.mean() if self.average != "last" and state.iterations else state.last()
        kappa, z = state.task.kappa, problem.operator.apply(w)
        b = problem.best_intercept(z) if problem.intercept == "free" else kappa * h
        carried = problem.s * state.mean_gains() if state.iterations else state.alpha

        def dual_value(alpha: Float) -> float:
            v = problem.operator.adjoint(alpha)
            square = float(v @ (problem.operator.apply(v) if problem.kernelised else v))
            return -problem.conjugates(alpha) - 0.5 * (square + (kappa * float(alpha.sum())) ** 2) / problem.lam

        return Point(w, b, max(map(problem.feasible, (carried, problem.slopes(z + b))), key=dual_value))

    def _obstacle(self, problem: Problem) -> str | None:
        """Why not, whether rows or kernel."""
        if math.isinf(max(map(abs, problem.loss.dual_range(1.0)))):
            return f"its steps need a loss whose slopes are bounded; those of {type(problem.loss).__name__} are not"
        if problem.intercept == "free" and self.step0 is None:
            return "the textbook's step 1 / (lam t) needs a penalised intercept or none; use step0='probe'"
        if problem.intercept == "free" and self.projection:
            return "the projection needs a penalised intercept or none: the ball does not bound a free one"
        return None

    def _begin_at(self, problem: Problem, state: PegasosState, alpha: Float, b: float) -> None:
        """Sets: ``alpha, iterate`` and, for a free intercept, the ``centre``."""
        state.alpha[:] = alpha
        q, operator, scalars = alpha / problem.lam, problem.operator, state.iterate.scalars
        z = operator.apply(operator.adjoint(q))
        state.iterate.v[:] = z if problem.kernelised else operator.adjoint(q)
        state.iterate.q[:] = q if problem.kernelised else ()
        if problem.intercept == "free":
            state.task = state.task._replace(centre=b)
        else:
            scalars[H] = state.task.kappa * float(q.sum())
        scalars[SQ] = float(q @ z) + scalars[H] ** 2

    def _squares_and_width(self, problem: Problem) -> tuple[Float, int]:
        """Squared length of every sample, and the length of ``v``."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        return rows.squared_lengths(), rows.n_features

    def _visit_work(self, problem: Problem) -> float:
        """Multiplications of one visit."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        return STEP_WORK + rows.vectors[0].size / max(1, rows.n_samples)

    def _run(self, problem: Problem, state: PegasosState, batches: Index) -> None:
        """Sets: ``iterate, passes``."""
        vectors = problem.operator.vectors  # type: ignore[attr-defined]
        if isinstance(vectors, DenseVectors) and state.k == 1 and not self.projection:
            _steps_by_four(vectors, state.task, state.iterate, batches, state.iterations, self._averaging)
        else:
            _steps(vectors, ALL_PRESENT, state.task, state.iterate, batches, 0, state.iterations, self._averaging)
        state.passes += batches.size / state.rows.size

    @property
    def _averaging(self) -> float:
        return 0.0 if self.average == "last" else 1.0

    def _probe(self, problem: Problem, state: PegasosState) -> float:
        """``t_0`` of the practical form."""
        batches = self._probe_batches(problem, state, PROBED)
        vectors = problem.operator.vectors  # type: ignore[attr-defined]
        return _best_offset(vectors, state.task, state.iterate, batches)

    def _probe_batches(self, problem: Problem, state: PegasosState, count: int) -> Index:
        """Batches of some samples, chosen at random even if the order is not: they may be sorted by their labels."""
        size = min(max(count, state.k), state.rows.size)
        some = np.random.default_rng(self.seed).choice(state.rows, size, replace=False)
        sums = _cumulative(problem.s[some]) if state.sums.size else state.sums
        batches = np.empty((max(PROBED // state.k, 8), state.k), dtype=np.int64)
        draw_batches(ORDERS[self.order], some, sums, some.size, state.random.copy(), batches)
        return batches


@dataclass(frozen=True)
class KernelPegasos(Pegasos):
    """Pegasos for kernels: the same steps on an expansion over the samples.

    Problem: ``f(w) = lam |w|^2 / 2 + sum_i p_i loss(<w, phi(x_i)> + b, y_i)`` as for `Pegasos`, where
    ``<phi(x_i), phi(x_j)> = K_ij``.

    Method: as `Pegasos`, which never needs ``w`` itself: with ``w = sum_j q_j phi(x_j)``, a step changes ``q_i`` for
    those samples of the batch whose slope is not zero. The scores ``K q`` of all samples are kept, so that a sample of
    slope zero costs nothing and another one row of ``K``, from a cache of ``max_memory`` MB. With ``k = 1``, the hinge
    and the textbook's step, ``q_i`` is ``y_i`` times the number of visits that found sample ``i`` inside the margin,
    divided by ``lam t``.

    Cost: one iteration is one step, ``O(n)`` for each sample of the batch that is inside the margin, plus ``O(n d)`` if
    its row is not in the cache; memory ``O(n)`` and the cache.

    Reference: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 2011, figure 3 (which prints ``y_i`` for ``y_j`` in the sum).
    """

    max_memory: float = 200.0

    name: ClassVar[str] = "pegasos_kernel"
    needs: ClassVar[Needs] = Needs("kernel")

    def supports(self, problem: Any) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem) or not problem.kernelised:
            return "it needs a problem of losses with a kernel matrix"
        return self._obstacle(problem)

    def start(self, problem: Problem, warm: Point | None) -> PegasosState:
        """Zero, or the dual variables of a point."""
        state = super().start(problem, warm)
        gram: Gram = problem.operator  # type: ignore[assignment]
        state.cache = RowCache(gram, self.max_memory, least_rows=max(4 * BATCH, state.k))
        return state

    def _squares_and_width(self, problem: Problem) -> tuple[Float, int]:
        gram: Gram = problem.operator  # type: ignore[assignment]
        return gram.diagonal(), gram.n_samples

    def _visit_work(self, problem: Problem) -> float:
        return STEP_WORK + problem.operator.n_samples

    def _run(self, problem: Problem, state: PegasosState, batches: Index) -> None:
        """Steps, interrupted to fetch kernel rows. Sets: ``iterate, passes``."""
        cache, scalars, n = state.cache, state.iterate.scalars, problem.y.size
        assert cache is not None
        added, evaluations, done = scalars[ADDED], cache.evaluations, 0
        vectors = GramVectors(cache.rows, cache.slot)
        while done < batches.shape[0]:
            done, waiting = _steps(
                vectors, cache.slot, state.task, state.iterate, batches, done, state.iterations, self._averaging
            )
            if waiting >= 0:
                cache.fetch(self._wanted(problem, state, cache, waiting, batches[done : done + FETCHED]))
        state.passes += (scalars[ADDED] - added) / n + (cache.evaluations - evaluations) / n**2

    def _wanted(self, problem: Problem, state: PegasosState, cache: RowCache, waiting: int, batches: Index) -> Index:
        """Samples of the first batch that need their row, and those of the next ones that would need it now."""
        scalars, task = state.iterate.scalars, state.task
        z = scalars[A] * (state.iterate.v + task.kappa * scalars[H]) + task.centre
        inside = problem.slopes(z) != 0.0
        now, soon = batches[0], np.unique(batches[1:])
        now = np.union1d(now[inside[now]], waiting)  # in doubt the loop knows: on the margin, rounding decides
        soon = soon[inside[soon] & (cache.slot[soon] < 0) & ~np.isin(soon, now)]
        return np.concatenate([now, soon[: max(0, min(FETCHED, cache.capacity) - now.size)]])

    def _probe(self, problem: Problem, state: PegasosState) -> float:
        """On the kernel matrix of a few samples, whose scores begin where they are now."""
        gram: Gram = problem.operator  # type: ignore[assignment]
        batches = self._probe_batches(problem, state, PROBED_KERNEL)
        some, local = np.unique(batches, return_inverse=True)
        K = np.empty((some.size, some.size))
        gram.write_rows(some, gram.columns(some, np.float64), 1.0, 0.0, K, np.arange(some.size))
        task = state.task._replace(known=state.task.known[some], squares=state.task.squares[some])
        q, v, total, seen, scalars = state.iterate
        part = _Iterate(q[some], v[some], total[some], seen[some], scalars)
        batches = local.reshape(batches.shape).astype(np.int64)
        return _best_offset(GramVectors(K, np.arange(some.size)), task, part, batches)


@dataclass
class PegasosState(State):
    """The iterate, where the order is, and the windows of the average."""

    task: _Task
    iterate: _Iterate
    rows: Index  # samples of positive weight, in their present order
    sums: Float  # of their weights, if they are drawn in proportion
    k: int
    position: int
    random: Array
    earlier: _Window  # what was gathered before the present window
    alpha: Float  # dual variables at the start
    window_end: int = 1  # a power of two
    cache: RowCache | None = None  # of a kernel

    @property
    def certificate_passes(self) -> float:
        """Products with the matrix for the point, its two dual values and its certificate."""
        return 6.0 if self.cache is None else 5.0 * self.cache.gram.passes(self.iterate.q)

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing to do."""
        return self.rows.size == 0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data; how often all coefficients had to be multiplied."""
        return {"passes": self.passes, "rescalings": float(self.iterate.scalars[FOLDS])}

    def last(self) -> tuple[Float, float]:
        """The last iterate, and its entry in the column of the intercept."""
        iterate = self.iterate
        return iterate.scalars[A] * iterate.coefficients, float(iterate.scalars[A] * iterate.scalars[H])

    def mean(self) -> tuple[Float, float]:
        """The average of the iterates, likewise."""
        total, h_total = self._sum()
        steps = self.earlier.steps + self.iterate.scalars[COUNT]
        return (self.earlier.total + total) / steps, float(self.earlier.h_total + h_total) / steps

    def mean_gains(self) -> Float:
        """Mean of ``-slope`` over the visits of each sample; zero for those that were not visited."""
        return _means(self.iterate.seen, self.earlier.seen)

    def end_window(self, keep_sum: bool) -> None:
        """Begin a new window, twice as long. Sets: ``earlier, window_end``, and what the iterate gathers."""
        scalars = self.iterate.scalars
        (total, h_total), steps = self._sum(), float(scalars[COUNT])
        if keep_sum:
            total, h_total = total + self.earlier.total, h_total + self.earlier.h_total
            steps += self.earlier.steps
        self.earlier = _Window(total, h_total, steps, self.iterate.seen)
        self.iterate.total[:] = 0.0
        # New memory, not zeros over the old: the many short windows of the beginning touch little of it.
        self.iterate = self.iterate._replace(seen=_unseen(self.alpha.size))
        scalars[C] = scalars[COUNT] = scalars[H_TOTAL] = 0.0
        self.window_end *= 2

    def _sum(self) -> tuple[Float, float]:
        """Of the iterates of the present window."""
        iterate, c = self.iterate, self.iterate.scalars[C]
        return iterate.total + c * iterate.coefficients, float(iterate.scalars[H_TOTAL] + c * iterate.scalars[H])

    def move_centre(self) -> None:
        """Let the intercept be penalised around its present value. Sets: ``task.centre``."""
        scalars = self.iterate.scalars
        self.task = self.task._replace(centre=self.task.centre + self.task.kappa * float(scalars[A] * scalars[H]))
        scalars[H] = 0.0


class _Window(NamedTuple):
    """Sum and number of its iterates (of all before it, for the uniform average), and what it saw of the samples."""

    total: Float
    h_total: float
    steps: float
    seen: Array


class _Task(NamedTuple):
    """What stays the same during a round."""

    loss: Any
    known: Float  # y_i and c_i
    squares: Float  # squared length of every sample, its entry in the column of the intercept included
    lam: float
    t0: float
    kappa: float  # entry in the column of the intercept
    centre: float  # of the intercept
    radius: float  # infinite without projection


class _Iterate(NamedTuple):
    """``w = a v`` for rows. For kernels, ``w = a q`` is an expansion over the samples with the scores ``a v``.

    The sum of the iterates is ``total + c v``, or ``total + c q``. With an intercept, ``a h`` is the coefficient of its
    column and ``h_total + c h`` the sum.
    """

    q: Float  # empty for rows
    v: Float
    total: Float
    seen: Array  # sum of -slope and number of visits of each sample, in float32: a pass is bound by memory
    scalars: Float

    @classmethod
    def at_zero(cls, n: int, width: int, expanded: bool) -> _Iterate:
        """The iterate of which everything is zero, and ``a`` is one."""
        scalars = np.zeros(8)
        scalars[A] = 1.0
        return cls(np.zeros(n if expanded else 0), np.zeros(width), np.zeros(width), _unseen(n), scalars)

    @property
    def coefficients(self) -> Float:
        """What ``a`` and ``c`` multiply."""
        return self.q if self.q.size else self.v


def _first_intercept(problem: Problem, rows: Index) -> float:
    """The best free intercept where all other scores are zero, for some of the samples if there are many."""
    some = rows[:: max(1, rows.size // PROBED)]
    return replace(problem, y=problem.y[some], s=problem.s[some]).best_intercept(np.zeros(some.size))


def _side_by_side(y: Float, factors: Float | float) -> Float:
    known = np.empty((y.size, 2))
    known[:, Y], known[:, FACTOR] = y, factors
    return known


def _cumulative(weights: Float) -> Float:
    """Cumulative weights; none if they are equal, since drawing by them would only take longer."""
    return np.cumsum(weights) if (weights != weights[:1]).any() else np.zeros(0)


def _unseen(n: int) -> Array:
    """What a window has seen before it begins: pages that cost nothing until a sample of theirs is visited."""
    if n < LARGE:
        return np.zeros((n, 2), dtype=np.float32)
    return np.frombuffer(mmap(-1, 8 * n), dtype=np.float32).reshape(n, 2)  # `np.zeros` may take, and wipe, old memory


@compiled_methods
class GramVectors(NamedTuple):
    """The samples as a kernel sees them, where the vector ``w`` stands for the scores of all samples."""

    stored: Array  # rows of the kernel matrix
    slot: Index  # of each sample

    def dot(self, i: int, w: Float) -> float:
        """Score of sample ``i``."""
        return w[i]

    def add(self, i: int, step: float, w: Float) -> None:
        """Scores after ``step`` times sample ``i`` was added to the expansion."""
        row = self.stored[self.slot[i]]
        for j in range(w.shape[0]):
            w[j] += step * row[j]


@compiled
def _steps(
    vectors: Any, slot: Index, task: Any, iterate: Any, batches: Index, first: int, t: int, averaging: float
) -> tuple[int, int]:
    """Steps on ``batches[first:]``, where ``t`` steps were made before ``batches[0]``.

    Returns the batch and the sample that waits for a slot, or the number of batches and -1. Sets: ``iterate``.
    """
    q, v, total, seen, scalars = iterate
    known, kappa, measured = task.known, task.kappa, task.radius < np.inf
    a, c, h, sq, count = scalars[A], scalars[C], scalars[H], scalars[SQ], scalars[COUNT]
    k = batches.shape[1]
    g = np.empty(k)
    done, waiting = first, -1
    while done < batches.shape[0]:
        for j in range(k):
            i = batches[done, j]
            z = a * (vectors.dot(i, v) + kappa * h) + task.centre
            g[j] = -task.loss.slope(z, known[i, Y])
            if slot.shape[0] > 0 and g[j] != 0.0 and slot[i] < 0:
                waiting = i
        if waiting >= 0:
            break
        c += averaging * a
        count += averaging
        done += 1
        time = task.t0 + t + done
        eta, shrink = 1.0 / (task.lam * time), 1.0 - 1.0 / time
        a *= shrink
        sq *= shrink * shrink
        if a < SMALLEST_SCALE or c > LARGEST_SHARE * a * (count + 1.0):
            _fold(q, v, total, a, c)
            scalars[H_TOTAL] += c * h
            h *= a
            a, c = 1.0, 0.0
            scalars[FOLDS] += 1.0
        for j in range(k):
            i = batches[done - 1, j]
            seen[i, VISITS] += 1.0
            if g[j] == 0.0:
                continue
            seen[i, GAIN] += g[j]
            move = eta * known[i, FACTOR] * g[j] / k
            if measured:
                sq += move * (2.0 * a * (vectors.dot(i, v) + kappa * h) + move * task.squares[i])
            step = move / a
            vectors.add(i, step, v)
            # The sum of the iterates so far does not change.
            if q.shape[0] > 0:
                q[i] += step
                total[i] -= c * step
            else:
                vectors.add(i, -c * step, total)
            h += step * kappa
            scalars[H_TOTAL] -= c * step * kappa
            scalars[ADDED] += 1.0
        if measured and sq > task.radius * task.radius:
            a *= task.radius / math.sqrt(sq)
            sq = task.radius * task.radius
    scalars[A], scalars[C], scalars[H], scalars[SQ], scalars[COUNT] = a, c, h, sq, count
    return done, waiting


@compiled
def _steps_by_four(vectors: DenseVectors, task: Any, iterate: Any, batches: Index, t: int, averaging: float) -> None:
    """What `_steps` does with single samples and without projection, as long as nothing has to be folded.

    A step has to wait for the one before. But four of them need only the products of their rows with the present ``v``
    and with each other, which wait for nothing: how the first steps change the scores of the next follows by a
    multiplication. Sets: ``iterate``.
    """
    X, known, v, total, seen, scalars = vectors.X, task.known, iterate.v, iterate.total, iterate.seen, iterate.scalars
    loss, kappa, centre = task.loss, task.kappa, task.centre
    column, lam = kappa * kappa, task.lam
    done, steps = 0, batches.shape[0]
    while done < steps:
        a0, c0, h, h_total, count = scalars[A], scalars[C], scalars[H], scalars[H_TOTAL], scalars[COUNT]
        added = 0
        while done + 4 <= steps:
            time = task.t0 + t + done
            r1, r2, r3, r4 = 1.0 / (time + 1.0), 1.0 / (time + 2.0), 1.0 / (time + 3.0), 1.0 / (time + 4.0)
            a1 = a0 * (1.0 - r1)
            a2 = a1 * (1.0 - r2)
            a3 = a2 * (1.0 - r3)
            a4 = a3 * (1.0 - r4)
            c1 = c0 + averaging * a0
            c2 = c1 + averaging * a1
            c3 = c2 + averaging * a2
            c4 = c3 + averaging * a3
            if a4 < SMALLEST_SCALE or c4 > LARGEST_SHARE * a4 * (count + 1.0):
                break
            i1, i2, i3, i4 = batches[done, 0], batches[done + 1, 0], batches[done + 2, 0], batches[done + 3, 0]
            z1, z2, z3, z4, x12, x13, x14, x23, x24, x34 = four_products(X, i1, i2, i3, i4, v)
            u1, u2 = r1 * known[i1, FACTOR] / (lam * a1), r2 * known[i2, FACTOR] / (lam * a2)
            u3, u4 = r3 * known[i3, FACTOR] / (lam * a3), r4 * known[i4, FACTOR] / (lam * a4)
            base = kappa * h
            g1 = -loss.slope(a0 * (z1 + base) + centre, known[i1, Y])
            z2, z3, z4 = a1 * (z2 + base) + centre, a2 * (z3 + base) + centre, a3 * (z4 + base) + centre
            g2 = -loss.slope(z2 + g1 * (a1 * u1 * (x12 + column)), known[i2, Y])
            z3 += g1 * (a2 * u1 * (x13 + column))
            g3 = -loss.slope(z3 + g2 * (a2 * u2 * (x23 + column)), known[i3, Y])
            z4 += g1 * (a3 * u1 * (x14 + column)) + g2 * (a3 * u2 * (x24 + column))
            g4 = -loss.slope(z4 + g3 * (a3 * u3 * (x34 + column)), known[i4, Y])
            s1, s2, s3, s4 = u1 * g1, u2 * g2, u3 * g3, u4 * g4
            add_four(X, i1, i2, i3, i4, s1, s2, s3, s4, v)
            if averaging > 0.0:  # the sum of the iterates so far does not change
                add_four(X, i1, i2, i3, i4, -c1 * s1, -c2 * s2, -c3 * s3, -c4 * s4, total)
            h += kappa * ((s1 + s2) + (s3 + s4))
            h_total -= kappa * ((c1 * s1 + c2 * s2) + (c3 * s3 + c4 * s4))
            seen[i1, GAIN] += g1
            seen[i1, VISITS] += 1.0
            seen[i2, GAIN] += g2
            seen[i2, VISITS] += 1.0
            seen[i3, GAIN] += g3
            seen[i3, VISITS] += 1.0
            seen[i4, GAIN] += g4
            seen[i4, VISITS] += 1.0
            added += int(g1 != 0.0) + int(g2 != 0.0) + int(g3 != 0.0) + int(g4 != 0.0)
            a0, c0 = a4, c4
            count += 4.0 * averaging
            done += 4
        scalars[A], scalars[C], scalars[H], scalars[H_TOTAL], scalars[COUNT] = a0, c0, h, h_total, count
        scalars[ADDED] += added
        if done < steps:
            _steps(vectors, ALL_PRESENT, task, iterate, batches[: done + 1], done, t, averaging)
            done += 1


@compiled
def _fold(q: Float, v: Float, total: Float, a: float, c: float) -> None:
    """Multiply all coefficients by ``a`` and add their share to the sum of the iterates. Sets: ``q, v, total``."""
    coefficients = q if q.shape[0] > 0 else v
    for j in range(total.shape[0]):
        total[j] += c * coefficients[j]
    for j in range(q.shape[0]):
        q[j] *= a
    for j in range(v.shape[0]):
        v[j] *= a


@compiled
def _means(recent: Array, earlier: Array) -> Float:
    """Mean of ``-slope`` over the visits of each sample in two windows."""
    out = np.zeros(recent.shape[0])
    for i in range(out.shape[0]):
        visits = recent[i, VISITS] + earlier[i, VISITS]
        if visits > 0.0:
            out[i] = (np.float64(recent[i, GAIN]) + earlier[i, GAIN]) / visits
    return out


def _best_offset(vectors: Any, task: Any, iterate: Any, batches: Index) -> float:
    """``t_0 = 1 / (lam eta_0)`` for the ``eta_0`` with which steps on the batches end at the lowest value."""
    task = task._replace(radius=1e150)  # so large that nothing is projected; but the norm is measured
    unused = [np.zeros_like(array) for array in (iterate.q, iterate.total, iterate.seen)]  # only written to

    def value(eta: float) -> float:
        trial = _Iterate(unused[0], iterate.v.copy(), unused[1], unused[2], iterate.scalars.copy())
        tried = task._replace(t0=1.0 / (task.lam * eta))
        _steps(vectors, ALL_PRESENT, tried, trial, batches, 0, 0, 0.0)
        return float(_value(vectors, tried, trial, batches))

    size = float(task.squares[batches].mean()) * float(task.known[batches, FACTOR].mean())
    eta = 1.0 / size if size > 0.0 else 1.0 / task.lam
    best = value(eta)
    for factor in (2.0, 0.5):
        better = 0
        while better < MAX_TRIALS and (tried := value(eta * factor)) < best * (1.0 - 1e-4):
            eta, best, better = eta * factor, tried, better + 1
        if better:
            break
    return 1.0 / (task.lam * eta)


@compiled
def _value(vectors: Any, task: Any, iterate: Any, batches: Index) -> float:
    """Objective on some of the samples."""
    scalars, losses = iterate.scalars, 0.0
    for m in range(batches.shape[0]):
        for j in range(batches.shape[1]):
            i = batches[m, j]
            z = scalars[A] * (vectors.dot(i, iterate.v) + task.kappa * scalars[H]) + task.centre
            losses += task.known[i, FACTOR] * task.loss.value(z, task.known[i, Y])
    return 0.5 * task.lam * scalars[SQ] + losses / batches.size
