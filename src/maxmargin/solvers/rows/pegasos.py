"""Pegasos: stochastic subgradient steps on the primal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from maxmargin.numerics.sampling import BATCH_ORDERS, cumulative, draw_batches, seeded
from maxmargin.operators.row_cache import RowCache
from maxmargin.operators.vectors import DenseVectors
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.pegasos_steps import (
    ALL_PRESENT,
    FOLDS,
    SQ,
    H,
    Iterate,
    Setting,
    best_offset,
    take_steps,
    take_steps_by_four,
)
from maxmargin.solvers.solver import Needs, Solver, State, check_options
from maxmargin.solvers.windows import Window, mean_slopes

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 100_000
STEP_WORK = 20  # multiplications that one visit costs besides those with the row
AVERAGES = ("uniform", "weighted", "suffix", "last")
MOST_HALVINGS = 100  # of dual variables that are too large
PROBED = 1000  # samples on which the first step is tried, and the visits of a trial


@dataclass(frozen=True)
class Pegasos(Solver[Problem, "PegasosState"]):
    """Pegasos (primal estimated subgradient solver) for rows of features.

    Problem: ``f(w) = lam |w|^2 / 2 + sum_i p_i loss(x_i.w + b, y_i)`` with ``p_i = s_i / sum_j s_j``. That is
    ``sum_i s_i loss(...) + ...`` divided by ``sum_i s_i``, and ``lam`` is divided with it. The slopes of the loss must
    be bounded: hinge, Huber hinge, logistic, epsilon-insensitive. Any intercept.

    Method: step ``t`` looks at a batch ``A_t`` of ``k = batch_size`` samples, different ones (all, if there are fewer)
    unless they are drawn independently of each other:

        w <- (1 - eta_t lam) w - (eta_t / k) sum_(i in A_t) c_i slope(x_i.w + b, y_i) x_i,  eta_t = 1 / (lam (t_0 + t))

    and with ``projection`` scales ``w`` into the ball that holds the optimum, of radius ``sqrt(f(0) / lam)``, which is
    ``1 / sqrt(lam)`` for the hinge. ``step0=None`` is the textbook's ``t_0 = 0``. With ``"probe"``, the practical form,
    ``eta_0 = 1 / (lam t_0)`` is the step with which a thousand visits of some samples end best.
    ``order="independent"`` draws every member of a batch anew, sample ``i`` with probability ``p_i``, so that it may
    occur twice, and has ``c_i = 1``: the i.i.d. batches of the theory. With ``k = 1``, ``order="uniform"`` is the same;
    the others visit every sample equally often, so that it has to count ``c_i = n p_i`` times. The point is the last
    iterate, or the average of all ``w_1, ..., w_t``, in equal parts (``"uniform"``) or ``w_t`` in proportion to
    ``t_0 + t`` (``"weighted"``), or of the last half to three quarters of them (``"suffix"``).

    A penalised intercept is one more column. A free one is a penalised one around a centre that follows whenever ``t``
    has doubled; in the end the best intercept for ``w`` is taken. The dual variable of a sample is ``s_i`` times the
    mean of ``-slope`` over its visits in the last half to three quarters of the steps: it is in its box whatever the
    order, approaches the optimum as ``lam w = X^T alpha`` holds in the mean, and forgets the first steps, unlike the
    coefficients of ``w`` over the rows. Where the slopes at the final point have a higher dual value, as they may have
    for smooth losses, they are taken instead. Far from the optimum both may be much too large: they are halved as long
    as that raises the dual value, which is then never below that of zero.

    Cost: one iteration is one step, ``O(non-zeros of the batch)`` because ``w`` is kept as a number times a vector, and
    their sum as another vector plus a number times it; memory ``O(n + d)``. The error falls like ``1 / (lam t)``: see
    `maxmargin.bounds`.

    Reference: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 2011, figures 1 and 2; Bottou, "Stochastic gradient descent tricks", 2012, for the probed
    step; Rakhlin, Shamir, Sridharan, "Making gradient descent optimal", ICML 2012, for the suffix; Lacoste-Julien,
    Schmidt, Bach, "A simpler approach to obtaining an O(1/t) convergence rate", 2012, for weights that grow.
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
        check_options(self, average=AVERAGES, order=BATCH_ORDERS, step0=(None, "probe"))

    @classmethod
    def with_hints(cls, hints: Mapping[str, object]) -> Self:
        """The solver with those of the hints that are options of it.

        Whether to average at all, as estimators say it, is the suffix or the last iterate; ``None`` leaves the default.
        """
        average = hints.get("average")
        known = {**hints, "average": "suffix" if average else "last"} if isinstance(average, bool) else dict(hints)
        if average is None:
            known.pop("average", None)
        return super().with_hints(known)

    def start(self, problem: Problem, warm: Point | None) -> PegasosState:
        """Zero, or the dual variables of a point."""
        n, rows = problem.y.size, np.flatnonzero(problem.s > 0.0)
        independent = self.order == "independent"
        k = self.batch_size if independent else max(1, min(self.batch_size, rows.size))
        proportional = independent or (self.order == "uniform" and k == 1)
        squares, width = self._squares_and_width(problem)
        free, kappa = problem.free_intercept, problem.penalised_column
        if free:
            kappa = math.sqrt(float(np.abs(squares).mean())) or 1.0
        weight = float(problem.s.sum()) or 1.0
        state = PegasosState(
            setting=Setting(
                loss=problem.loss,
                known=np.column_stack((problem.y, np.ones(n) if proportional else rows.size * problem.s / weight)),
                squares=squares + kappa**2,
                lam=problem.lam / weight,
                t0=0.0,
                kappa=kappa,
                centre=_first_intercept(problem, rows) if free else 0.0,
                radius=math.sqrt(problem.losses(np.zeros(n)) / problem.lam) if self.projection else math.inf,
                share=float(self.average in ("uniform", "suffix")),
                growth=float(self.average == "weighted"),
            ),
            iterate=Iterate.at_zero(n, width, expanded=problem.kernelised),
            rows=rows,
            sums=cumulative(problem.s[rows]) if proportional else np.zeros(0),
            k=k,
            position=rows.size,
            random=seeded(self.seed),
            earlier=Window.empty(width, n),
            alpha=np.zeros(n),
        )
        if rows.size == 0:
            return state
        if warm is not None and warm.alpha is not None:
            self._begin_at(problem, state, problem.feasible(warm.alpha), warm.b)
        if self.step0 == "probe":
            state.setting = state.setting._replace(t0=self._probe(problem, state))
        return state

    def advance(self, problem: Problem, state: PegasosState, limit: int) -> PegasosState:
        """Steps until the round's work is spent. At powers of two the windows of averages end and the centre moves."""
        if state.rows.size == 0:
            return state
        left = min(limit, MAX_STEPS_PER_ROUND, max(1, int(ROUND_WORK / (state.k * self._visit_work(problem)))))
        while left > 0:
            batches = np.empty((min(left, state.window_end - state.iterations), state.k), dtype=np.int64)
            state.position = draw_batches(
                BATCH_ORDERS[self.order], state.rows, state.sums, state.position, state.random, batches
            )
            self._run(problem, state, batches)
            left -= batches.shape[0]
            state.iterations += batches.shape[0]
            if state.iterations == state.window_end:
                state.end_window(keep_sum=self.average in ("uniform", "weighted"))
                if problem.free_intercept:
                    state.move_centre()
        return state

    def point(self, problem: Problem, state: PegasosState) -> Point:
        """The average of the iterates or the last, and the better of two dual points."""
        w, h = state.mean() if self.average != "last" and state.iterations else state.iterate.last()
        kappa, z = state.setting.kappa, problem.operator.apply(w)
        b = problem.best_intercept(z) if problem.free_intercept else kappa * h
        carried = state.mean_slopes(problem.s) if state.iterations else state.alpha

        candidates = [_part_of(problem, problem.feasible(alpha), kappa) for alpha in (carried, problem.slopes(z + b))]
        return Point(w, b, max(candidates, key=lambda candidate: candidate[0])[1])

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if math.isinf(max(map(abs, problem.loss.dual_range(1.0)))):
            return f"its steps need a loss whose slopes are bounded; those of {type(problem.loss).__name__} are not"
        if problem.free_intercept and self.step0 is None:
            return "the textbook's step 1 / (lam t) needs a penalised intercept or none; use step0='probe'"
        if problem.free_intercept and self.projection:
            return "the projection needs a penalised intercept or none: the ball does not bound a free one"
        return None

    def _begin_at(self, problem: Problem, state: PegasosState, alpha: Float, b: float) -> None:
        """Sets: ``alpha, iterate`` and, for a free intercept, the ``centre``."""
        state.alpha[:] = alpha
        q, operator, scalars = alpha / problem.lam, problem.operator, state.iterate.scalars
        z = operator.apply(operator.adjoint(q))
        state.iterate.v[:] = z if problem.kernelised else operator.adjoint(q)
        state.iterate.q[:] = q if problem.kernelised else ()
        if problem.free_intercept:
            state.setting = state.setting._replace(centre=b)
        else:
            scalars[H] = state.setting.kappa * float(q.sum())
        scalars[SQ] = float(q @ z) + scalars[H] ** 2

    def _squares_and_width(self, problem: Problem) -> tuple[Float, int]:
        """Squared length of every sample, and the length of ``v``."""
        return problem.rows.squared_lengths(), problem.rows.n_features

    def _visit_work(self, problem: Problem) -> float:
        """Multiplications of one visit."""
        return STEP_WORK + problem.rows.entries / max(1, problem.rows.n_samples)

    def _run(self, problem: Problem, state: PegasosState, batches: Index) -> None:
        vectors = problem.rows.vectors
        if isinstance(vectors, DenseVectors) and state.k == 1 and not self.projection:
            take_steps_by_four(vectors, state.setting, state.iterate, batches, state.iterations)
        else:
            take_steps(vectors, ALL_PRESENT, state.setting, state.iterate, batches, 0, state.iterations)
        state.passes += batches.size / state.rows.size

    def _probe(self, problem: Problem, state: PegasosState) -> float:
        """``t_0`` of the practical form."""
        batches = self._probe_batches(problem, state, PROBED)
        return best_offset(problem.rows.vectors, state.setting, state.iterate, batches)

    def _probe_batches(self, problem: Problem, state: PegasosState, count: int) -> Index:
        """Batches of some samples, chosen at random even if the order is not: they may be sorted by their labels."""
        size = min(max(count, state.k), state.rows.size)
        some = np.random.default_rng(self.seed).choice(state.rows, size, replace=False)
        sums = cumulative(problem.s[some]) if state.sums.size else state.sums
        batches = np.empty((max(PROBED // state.k, 8), state.k), dtype=np.int64)
        draw_batches(BATCH_ORDERS[self.order], some, sums, some.size, state.random.copy(), batches)
        return batches


@dataclass
class PegasosState(State):
    """The iterate, where the order is, and the windows of the average."""

    setting: Setting
    iterate: Iterate
    rows: Index  # samples of positive weight, in their present order
    sums: Float  # of their weights, if they are drawn in proportion
    k: int
    position: int
    random: Array
    earlier: Window  # what was gathered before the present window
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

    def mean(self) -> tuple[Float, float]:
        """The average of the iterates, and of their entry in the column of the intercept."""
        return self.iterate.window().with_coefficients_of(self.earlier).mean()

    def mean_slopes(self, s: Float) -> Float:
        """``-s_i slope`` in the mean over the visits of each sample; zero for those that were not visited."""
        return mean_slopes(s, self.iterate.seen, self.earlier.seen, np.zeros(s.size))

    def end_window(self, keep_sum: bool) -> None:
        """Begin a new window, twice as long. Sets: ``earlier, window_end``, and what the iterate gathers."""
        recent = self.iterate.window()
        self.earlier = recent.with_coefficients_of(self.earlier) if keep_sum else recent
        self.iterate = self.iterate.with_new_sums()
        self.window_end *= 2

    def move_centre(self) -> None:
        """Let the intercept be penalised around its present value. Sets: ``setting.centre``."""
        setting, (_, h) = self.setting, self.iterate.last()
        self.setting = setting._replace(centre=setting.centre + setting.kappa * h)
        self.iterate.scalars[H] = 0.0


def _part_of(problem: Problem, alpha: Float, kappa: float) -> tuple[float, Float]:
    """A dual feasible point, halved as long as that raises the dual value, and this value before it."""
    v, share = problem.operator.adjoint(alpha), 1.0
    square = float(v @ (problem.operator.apply(v) if problem.kernelised else v)) + (kappa * float(alpha.sum())) ** 2

    def value(share: float) -> float:
        return -problem.conjugates(share * alpha) - 0.5 * share**2 * square / problem.lam

    reached = value(share)
    for _ in range(MOST_HALVINGS):
        half = value(0.5 * share)
        if not half > reached:
            break
        share, reached = 0.5 * share, half
    return reached, share * alpha


def _first_intercept(problem: Problem, rows: Index) -> float:
    """The best free intercept where all other scores are zero, for some of the samples if there are many."""
    some = rows[:: max(1, rows.size // PROBED)]
    return replace(problem, y=problem.y[some], s=problem.s[some]).best_intercept(np.zeros(some.size))
