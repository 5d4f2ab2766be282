"""Dual coordinate descent for linear models with an L2 penalty."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin.dual_epochs import Course, dual_epochs
from maxmargin.operators import Rows
from maxmargin.penalties import L2
from maxmargin.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solution import Point
from maxmargin.threads import Workers

ROUND_WORK = 1_000_000  # entries visited in a round, about: a millisecond or more
ROUND_SHARE = 0.1  # of the work so far, in one round: a late round is long, and a fit not much longer than it must be
LONGEST_ROUND = 10.0  # epochs' worth of work: whether a fit has stalled is told from its rounds
MAX_EPOCHS_PER_ROUND = 20_000
EXTRAPOLATE_AFTER = 20.0  # epochs' worth of work: easy problems are solved before it pays
REFRESH_AFTER = 20.0  # epochs' worth of work; rounding errors of so many do not show
STALLED_ROUNDS = 3  # of several threads, after which one goes on alone


@dataclass(frozen=True)
class DualCoordinate:
    """Dual coordinate descent.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss, intercept free, penalised or absent.

    Method: maximise the dual over one variable at a time, in random order. With ``w = X^T alpha / lam`` at hand, one
    step needs only ``x_i.w``; ``loss.dual_step`` solves it exactly. A penalised intercept is one more column. A free
    one is the multiplier of ``sum_i alpha_i = 0``: an augmented Lagrangian with penalty ``tau`` treats it as a column
    of height ``sqrt(tau)`` around a centre that moves after every epoch.

    Shrinking: a variable at a bound is left out if it would stay there even if its score changed by as much as scores
    were wrong in the epoch before, as a root of the mean square. All rows are visited again when the others have cost
    five epochs' worth of work, and after every point that was judged.

    Extrapolation: after ``extrapolation + 2`` rounds in one order, Anderson's combination of their dual variables,
    clipped to the box, is tried; it is kept only if it raises the dual value. 0 is never.

    Threads: with ``threads > 1`` each has its own rows, and all write to one ``w`` without locks. What is lost that way
    is put right after every round, when ``w`` is computed from ``alpha``, so certificates are as true as ever; but
    results differ from run to run. One thread goes on alone when the gap has not fallen for three rounds, and works
    alone if the intercept is free: its multiplier belongs to all rows.

    Cost: one epoch reads the active rows once, each while the one before is worked on; memory ``O(n + d)``, and
    ``extrapolation + 2`` copies of ``alpha``.

    Reference: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale linear SVM",
    ICML 2008, algorithm 3 (there for the hinge and squared hinge without a free intercept). Bertrand, Massias,
    "Anderson acceleration of coordinate descent", AISTATS 2021, algorithm 2. Hsieh, Yu, Dhillon, "PASSCoDe: parallel
    asynchronous stochastic dual coordinate descent", ICML 2015, algorithm 2 (the "wild" one).
    """

    shrinking: bool = True
    extrapolation: int = 5  # points that are combined
    threads: int = 1
    seed: int = 0

    name: ClassVar[str] = "dual_coordinate"

    def __post_init__(self) -> None:
        if self.threads < 1 or self.extrapolation < 0:
            raise ValueError(
                f"threads={self.threads} must be at least 1, and extrapolation={self.extrapolation} at least 0 (never)."
            )

    def supports(self, problem: Any) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem) or not isinstance(problem.operator, Rows):
            return "it needs the samples as rows of features, not a kernel, and in memory, not in chunks"
        if not isinstance(problem.penalty, L2):
            return f"it needs an L2 penalty; this problem has {type(problem.penalty).__name__}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> DualCoordinateState:
        """Zero, or the dual variables of a point."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        n = rows.n_samples
        sq = rows.squared_lengths()
        if problem.intercept == "free":
            tau = float(sq.mean()) / problem.lam or 1.0 / float(problem.s.mean() or 1.0)
        else:
            tau = problem.intercept_scale**2 / problem.lam if problem.intercept == "penalised" else 0.0
        state = DualCoordinateState(
            alpha=np.zeros(n),
            w=np.zeros(rows.n_features),
            tau=tau,
            q=sq / problem.lam + tau,
            tours=self._tours(np.flatnonzero(problem.s > 0.0), 1 if problem.intercept == "free" else self.threads),
        )
        if warm is not None and warm.alpha is not None:
            state.alpha = problem.feasible(warm.alpha)
            state.b[0] = warm.b
            self._refresh(problem, state)
        return state

    def advance(self, problem: Problem, state: DualCoordinateState, limit: int) -> DualCoordinateState:
        """Epochs over the active rows, and now and then over all of them; then perhaps a leap."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        if not state.trail:  # rounds between two leaps are of equal length
            work = max(ROUND_WORK / max(1, rows.entries), min(ROUND_SHARE * state.passes, LONGEST_ROUND))
            state.epochs = int(min(max(1.0, work / max(state.active_share, 1e-9)), MAX_EPOCHS_PER_ROUND))
        epochs = min(state.epochs, limit)

        def work_on(tours: Iterator[Tour]) -> None:
            for tour in tours:
                tour.course, tour.epochs, tour.visited, tour.gap = dual_epochs(
                    rows.vectors, problem.loss, problem.y, problem.s, state.q, 1.0 / problem.lam, state.tau,
                    problem.intercept == "free", state.alpha, state.w, state.b, tour.order, tour.course,
                    self.shrinking, tour.random, epochs, not state.trail,
                )  # fmt: skip

        Workers(len(state.tours)).run(work_on, state.tours)
        state.iterations += max(tour.epochs for tour in state.tours)
        state.passes += sum(tour.visited for tour in state.tours) / max(1, state.n_rows)
        if len(state.tours) > 1 or state.passes >= state.refreshed_at + REFRESH_AFTER:
            self._refresh(problem, state)
        self._estimate(problem, state, sum(tour.gap for tour in state.tours))
        if len(state.tours) > 1:
            self._watch(state)
        elif self.extrapolation:
            self._leap(problem, state)
        return state

    def point(self, problem: Problem, state: DualCoordinateState) -> Point:
        """The coefficients, with the best intercept for them if it is free and dual variables whose sum is zero.

        Whoever asks for a point believes in it: if that was wrong, rows that were left out are to blame. So all of them
        are visited next. Sets: the courses of the state.
        """
        for tour in state.tours:
            tour.course = tour.course._replace(spent=math.inf)
        if problem.intercept != "free":
            return Point(state.w.copy(), float(state.b[0]), state.alpha.copy())
        b = problem.best_intercept(problem.operator.apply(state.w))
        return Point(state.w.copy(), b, problem.feasible(state.alpha))

    def _tours(self, rows: Index, threads: int) -> list[Tour]:
        """The rows of each thread, with random numbers of its own."""
        parts = [rows[k::threads] for k in range(threads)]
        return [
            Tour(part.copy(), Course(part.size), np.array([self.seed + (k << 32)], dtype=np.uint64))
            for k, part in enumerate(parts)
        ]

    def _watch(self, state: DualCoordinateState) -> None:
        """Go on with one thread when several no longer help. Sets: ``tours, gap, stalled``."""
        gap = state.primal - state.dual
        state.stalled = 0 if gap < 0.9 * state.gap else state.stalled + 1
        state.gap = min(gap, state.gap)
        if state.stalled >= STALLED_ROUNDS:
            order = np.concatenate([tour.order for tour in state.tours])
            state.tours = [Tour(order, Course(order.size), state.tours[0].random)]

    def _leap(self, problem: Problem, state: DualCoordinateState) -> None:
        """Try the combination of the last points that Anderson's method suggests. Sets: ``alpha, w, b, dual, trail``.

        It is kept only if the dual rises. After one in vain the next attempt has to wait twice as long.
        """
        if state.passes < EXTRAPOLATE_AFTER or state.rest > 0:
            state.rest = max(0, state.rest - 1)
            return
        state.trail.append(state.alpha.copy())
        if len(state.trail) < self.extrapolation + 2:
            return
        before = state.alpha, state.w, state.b, state.dual
        gap, height = state.primal - state.dual, self._height(problem, state)
        low, high = problem.dual_box()
        state.alpha = np.clip(extrapolated(np.array(state.trail)), low, high)
        state.b = state.b + state.tau * float(state.alpha.sum() - before[0].sum())
        state.trail = []
        self._refresh(problem, state)
        self._estimate(problem, state, gap)
        if self._height(problem, state) > height:
            state.waiting = 1
        else:
            state.alpha, state.w, state.b, state.dual = before
            state.rest, state.waiting = state.waiting, 2 * state.waiting
        state.primal = state.dual + gap

    def _height(self, problem: Problem, state: DualCoordinateState) -> float:
        """What the steps of an epoch raise: the dual value, or for a free intercept the augmented Lagrangian."""
        if problem.intercept != "free":
            return state.dual
        total = float(state.alpha.sum())
        return state.dual - float(state.b[0]) * total + 0.5 * state.tau * total**2

    def _refresh(self, problem: Problem, state: DualCoordinateState) -> None:
        """Recompute what was maintained. Sets: ``w``, ``b`` of a penalised intercept, ``passes``."""
        state.w = problem.operator.adjoint(state.alpha) / problem.lam
        if problem.intercept != "free":
            state.b[0] = state.tau * float(state.alpha.sum())
        state.passes += 1.0
        state.refreshed_at = state.passes

    def _estimate(self, problem: Problem, state: DualCoordinateState, gap: float) -> None:
        """Sets: ``dual, primal``, from what the last epoch saw of the gap."""
        b = float(state.b[0])
        penalty = 0.5 * problem.lam * float(state.w @ state.w)
        if problem.intercept == "penalised":
            penalty += 0.5 * b**2 / state.tau
        elif problem.intercept == "free":
            gap -= b * float(state.alpha.sum())
        state.dual = -problem.conjugates(state.alpha) - penalty
        state.primal = state.dual + gap


@dataclass
class Tour:
    """The rows of one thread, and how far it is."""

    order: Index
    course: Course
    random: Array
    epochs: int = 0  # of the last round, as the following two
    visited: int = 0
    gap: float = math.inf


@dataclass
class DualCoordinateState:
    """On entry and exit of a round ``w == X.T @ alpha / lam``."""

    alpha: Float
    w: Float
    tau: float
    q: Float  # curvature of the dual along each variable
    tours: list[Tour]
    b: Float = field(default_factory=lambda: np.zeros(1))
    epochs: int = 1  # of a round
    iterations: int = 0
    passes: float = 0.0
    refreshed_at: float = 0.0
    primal: float = math.inf
    dual: float = -math.inf
    trail: list[Float] = field(default_factory=list)  # dual variables after the last rounds
    rest: int = 0  # rounds until the next attempt to extrapolate may begin
    waiting: int = 1  # rounds to rest after an attempt in vain
    gap: float = math.inf  # the least that several threads reached
    stalled: int = 0  # rounds in which they did not make it smaller
    certificate_passes: float = field(default=2.0, init=False)

    @property
    def n_rows(self) -> int:
        """Rows with a positive weight."""
        return sum(tour.order.size for tour in self.tours)

    @property
    def active_share(self) -> float:
        """Share of the rows that are not shrunk away."""
        return sum(tour.course.active for tour in self.tours) / max(1, self.n_rows)

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value as seen during the last epoch."""
        return self.primal, self.dual

    @property
    def exhausted(self) -> bool:
        """Whether no variable moved in an epoch over all rows."""
        return len(self.tours) == 1 and self.tours[0].course.violation == 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and rows that are not shrunk away."""
        return {"passes": self.passes, "active": float(sum(tour.course.active for tour in self.tours))}


def extrapolated(points: Float) -> Float:
    """The affine combination of the last points whose steps, combined in the same way, have the least length."""
    steps = np.diff(points, axis=0)
    gram = steps @ steps.T
    gram += 1e-12 * np.trace(gram) * np.eye(len(steps)) + np.finfo(float).tiny * np.eye(len(steps))
    weights = np.linalg.solve(gram / max(np.trace(gram), np.finfo(float).tiny), np.ones(len(steps)))
    return (weights / weights.sum()) @ points[1:]
