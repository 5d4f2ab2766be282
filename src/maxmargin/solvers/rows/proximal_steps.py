"""Steps down a majoriser: what proximal gradient descent with and without momentum have in common.

The losses are smooth, so that around any point they are below a parabola of curvature ``L``; the penalty is kept as it
is. The sum of both is smallest at a proximal step from where the gradient alone would lead.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.lanczos import Spectrum, ends_of_spectrum
from maxmargin.operators import Centred
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.problems.rounding import conjugate_costs, dual_excess
from maxmargin.protocols import Float, Loss, Penalty
from maxmargin.solvers.solver import Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 50
STEEPER = 2.0  # times the curvature, where the parabola is not above the losses
MOST_DOUBLINGS = 100
ROUNDING = 1e-16
REST = 3  # steps that change nothing


@dataclass
class ProximalState(State):
    """``theta`` are the coefficients of the centred columns, ``z`` their scores.

    ``a`` answers to the scores where the last gradient ``-v`` was taken, and is the dual point.
    """

    columns: Centred
    h: Float  # the most that each loss can curve, times the weight
    metric: Float  # 1, but for a free intercept, whose column has another size
    L: float  # curvature of the parabola
    theta: Float
    before: Float
    z: Float
    z_before: Float
    a: Float
    v: Float
    momentum: float = 0.0
    t: float = 1.0
    length: float = math.inf  # of the last step
    resting: int = 0  # steps that changed nothing
    done: bool = False

    @property
    def steps(self) -> Float:
        """Of each coefficient."""
        return np.asarray(1.0 / (self.L * self.metric))

    @property
    def exhausted(self) -> bool:
        """Whether the last step was short enough for the rule, or steps change nothing any more."""
        return self.done or self.resting >= REST

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the step."""
        return {"passes": self.passes, "step": 1.0 / self.L}


class ProximalMethod(Solver[Problem, ProximalState]):
    """A method whose every step is one down a majoriser."""

    shortest_step: float

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if problem.loss.traits.kinked:
            return f"it needs a smooth loss; {type(problem.loss).__name__} has a kink"
        return None

    @abstractmethod
    def first_curvature(self, columns: Centred, h: Float) -> tuple[float, float]:
        """The curvature of the parabola to begin with, and the passes over the data that finding it took."""

    @abstractmethod
    def move(self, problem: Problem, state: ProximalState) -> None:
        """One step. Sets: everything that moves."""

    def start(self, problem: Problem, warm: Point | None) -> ProximalState:
        """Zero, or a given point."""
        h = _steepest(problem.loss, problem.y, problem.s)
        columns = Centred(problem.bordered, h)
        L, passes = self.first_curvature(columns, h)
        L = L if L > 0.0 else 1.0
        metric = np.ones(columns.size)
        if problem.free_intercept and columns.total > 0.0:
            metric[-1] = columns.total / L
        theta, a = np.zeros(columns.size), np.zeros(problem.y.size)
        if warm is not None:
            theta = columns.join(warm.w, warm.b)
            a = a if warm.alpha is None else problem.feasible(warm.alpha)
        z = columns.apply(theta)
        return ProximalState(
            columns, h, metric, L, theta, theta, z, z, a, np.zeros_like(theta), passes=passes + 1.0
        )  # fmt: skip

    def advance(self, problem: Problem, state: ProximalState, limit: int) -> ProximalState:
        """Some steps."""
        entries = max(1, problem.features.entries)
        for _ in range(min(max(ROUND_WORK // entries, 1), MAX_STEPS_PER_ROUND, limit)):
            self.move(problem, state)
            state.iterations += 1
            state.done = state.length < self.shortest_step
            if state.exhausted:
                break
        self._estimate(problem, state)
        return state

    def point(self, problem: Problem, state: ProximalState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables."""
        w, b = state.columns.split(state.theta)
        if problem.free_intercept:
            b = problem.best_intercept(state.z - b)
        return Point(w, b, state.a.copy())

    def descend(
        self, problem: Problem, state: ProximalState, origin: Float, z_origin: Float, checked: bool
    ) -> tuple[Float, Float]:
        """To the minimum of the majoriser at a point with known scores; returns the way there, and its scores.

        If it is checked that the parabola lies above the losses there, their distance from the tangent is summed
        sample by sample, each held between its limits 0 and ``da dz``, so that nothing is lost where large numbers
        cancel. Sets: ``a, v, L, passes``.
        """
        columns, penalty = state.columns, problem.penalty
        state.a = problem.slopes(z_origin)
        state.v = columns.adjoint(state.a)
        state.passes += 1.0
        for _ in range(MOST_DOUBLINGS):
            steps = state.steps
            theta = proximal_step(penalty, columns.penalised, origin + steps * state.v, steps)
            z = columns.apply(theta)
            state.passes += 1.0
            if not checked:
                break
            move = theta - origin
            divergence, values = problem.sums(*_divergence(problem.loss, problem.y, problem.s, z_origin, state.a, z))
            if divergence <= 0.5 * state.L * float(move @ (state.metric * move)) + ROUNDING * values:
                break
            state.L *= STEEPER
        return theta, z

    def arrive(self, state: ProximalState, theta: Float, z: Float) -> None:
        """Sets: ``theta, z``, those before, and how long and how idle the step was."""
        state.length = float(np.linalg.norm(theta - state.theta))
        state.resting = state.resting + 1 if state.length <= ROUNDING * float(np.linalg.norm(theta)) else 0
        state.before, state.z_before, state.theta, state.z = state.theta, state.z, theta, z

    def _estimate(self, problem: Problem, state: ProximalState) -> None:
        """Sets: ``primal``, ``dual`` of the variables scaled to the limit, less what balancing them may cost."""
        penalised = state.columns.penalised
        factor = 1.0 / max(1.0, dual_excess(problem.penalty, state.v[:penalised]))
        state.primal = problem.losses(state.z) + _cost(problem.penalty, penalised, state.theta)
        state.dual = -problem.conjugates(factor * state.a)
        state.dual -= float(conjugate_costs(problem.penalty, factor * state.v[:penalised]))
        if problem.free_intercept:
            state.dual -= abs(state.columns.split(state.theta)[1] * factor * float(state.v[-1]))


def spectrum_of(columns: Centred, h: Float, most_steps: int) -> Spectrum:
    """The ends of the spectrum of ``A^T diag(h) A``, without the column of a free intercept; clients find the same."""

    def apply(v: Float) -> Float:
        theta = np.zeros(columns.size)
        theta[: columns.penalised] = v
        return columns.adjoint(h * columns.apply(theta))[: columns.penalised]

    start = np.random.default_rng(0).normal(size=columns.penalised)
    return ends_of_spectrum(apply, start, most_steps)


@compiled
def _steepest(loss: Loss, y: Float, s: Float) -> Float:
    """The most that each loss curves, times the weight: where its conjugate curves least.

    That is taken to be in the middle of the dual variable's range, or anywhere if that has no end, as it is for all
    smooth losses of the library.
    """
    out = np.zeros(y.shape[0])
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            low, high = loss.dual_range(y[i])
            least, most = max(low, -2.0), min(high, 3.0)
            out[i] = s[i] / loss.dual_curvature(0.5 * (least + most), y[i], 1.0)
    return out


@compiled
def _divergence(loss: Loss, y: Float, s: Float, z: Float, a: Float, there: Float) -> tuple[float, float]:
    """By how much losses at new scores are above their tangents, whose slopes are ``-a``; and the sum of the losses."""
    total, size = 0.0, 0.0
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            value, dz = s[i] * loss.value(z[i], y[i]), there[i] - z[i]
            most = (a[i] + s[i] * loss.slope(there[i], y[i])) * dz
            total += min(max(s[i] * loss.value(there[i], y[i]) - value + a[i] * dz, 0.0), max(most, 0.0))
            size += value
    return total, size


@compiled
def proximal_step(penalty: Penalty, penalised: int, theta: Float, steps: Float) -> Float:
    """The proximal step of the penalty from ``theta``; coefficients without a penalty stay."""
    out = theta.copy()
    for j in range(penalised):
        out[j] = penalty.prox(theta[j], steps[j], j)
    return out


@compiled
def _cost(penalty: Penalty, penalised: int, theta: Float) -> float:
    total = 0.0
    for j in range(penalised):
        total += penalty.cost(theta[j], j)
    return total
