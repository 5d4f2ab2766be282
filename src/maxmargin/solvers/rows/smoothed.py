"""Accelerated gradient descent on the smoothed primal of linear models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators import Centred
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.problems.rounding import dual_excess
from maxmargin.protocols import Float, Loss, Penalty
from maxmargin.solvers.rows.proximal_steps import proximal_step
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 20_000_000  # multiplications per round: some ten milliseconds. Plateaus of L1 outlast shorter rounds
MAX_STEPS_PER_ROUND = 50
INNER_SHARE = 0.05  # of the proximal term that the gap of the smoothed problem must fall below before the centre moves
NARROWER, WIDER = 0.5, 2.0
SLOW = 0.25  # the proximal term must fall below this share of the last one
FEW_STEPS, MANY_STEPS = 20, 100  # of descent between two centres
RELAX = 0.7  # of the Lipschitz constant, at every restart
ROUNDING = 1e-16
LEAST, MOST = 1e-100, 1e100  # of the width and its inverse, and of a column's metric: their products must not overflow


@dataclass(frozen=True)
class Smoothed(Solver[Problem, "SmoothedState"]):
    """Nesterov's accelerated gradient on the smoothed loss, with restarts and a smoothing that vanishes.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + penalty(w)``, any loss, any penalty with a proximal step, any
    intercept.

    Method: a loss with a kink is replaced by ``max_a -a z - s loss*(-a/s) - q (a - c)^2 / 2`` with ``q = mu / s``. For
    the hinge and centre ``c = 0`` that is the Huber hinge of width ``mu``, between 0 and ``mu / 2`` below the hinge;
    its maximiser ``a = loss.dual_step(c, y, s, z, q)`` is minus the gradient and the dual point. Descent is FISTA in
    the metric of the column squares, columns centred if the intercept is free; the Lipschitz constant grows by
    backtracking and shrinks at restarts, which happen when the momentum points uphill (they use what strong convexity
    there is). When the gap of the smoothed problem is a small share of ``q |a - c|^2 / 2``, the centre moves to ``a``:
    this is the augmented Lagrangian, whose error vanishes at a fixed width, so that ``mu`` never has to be as small as
    the tolerance, which keeps the condition number bounded. It is narrowed when the centre moves slowly and widened
    when descent takes long.

    Cost: one iteration is one gradient step, two passes over the data, one more per backtracking; memory ``O(n + d)``.
    ``O(R |w| / eps)`` iterations with ``mu = eps`` and ``c = 0``; plain descent does not have that rate.

    Reference: Nesterov, "Smooth minimization of non-smooth functions", 2005; Beck, Teboulle, "A fast iterative
    shrinkage-thresholding algorithm", 2009; O'Donoghue, Candes, "Adaptive restart for accelerated gradient schemes",
    2015; Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm", 1976.
    """

    name: ClassVar[str] = "smoothed"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True)

    def start(self, problem: Problem, warm: Point | None) -> SmoothedState:
        """Zero, or a given point."""
        columns = Centred(problem.bordered, problem.s)
        squares = columns.column_squares(problem.s)
        theta, a = np.zeros(columns.size), np.zeros(problem.y.size)
        if warm is not None:
            theta = columns.join(warm.w, warm.b)
            a = a if warm.alpha is None else problem.feasible(warm.alpha)
        kinked = problem.loss.traits.kinked
        width = _first_width(problem) if kinked else 0.0
        state = SmoothedState(
            columns=columns,
            theta=theta,
            before=theta,
            metric=np.where(squares > 0.0, np.maximum(squares, LEAST), 1.0),
            width=width,
            inverse_s=1.0 / np.where(problem.s > 0.0, problem.s, 1.0),
            a=a,
            centre=a if kinked else np.zeros_like(a),
            z=a,
            z_before=a,
            v=np.zeros_like(theta),
            L=1.0 / width if width > 0.0 else 1.0,
        )
        state.z = state.z_before = columns.apply(theta)
        return state

    def advance(self, problem: Problem, state: SmoothedState, limit: int) -> SmoothedState:
        """Some gradient steps; after each the centre may move."""
        entries = max(1, problem.features.entries)
        for _ in range(min(max(ROUND_WORK // entries, 1), MAX_STEPS_PER_ROUND, limit)):
            inner_gap = self._step(problem, state)
            state.iterations += 1
            self._maybe_recentre(problem, state, inner_gap)
            if state.exhausted:
                break
        self._estimate(problem, state)
        return state

    def point(self, problem: Problem, state: SmoothedState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables that answer to them."""
        w, b = state.columns.split(state.theta)
        if problem.free_intercept:
            b = problem.best_intercept(state.z - b)
        return Point(w, b, state.a.copy())

    def _step(self, problem: Problem, state: SmoothedState) -> float:
        """One step of FISTA. Returns the gap of the smoothed problem between ``theta`` and ``a``.

        Backtracking compares the Bregman divergence of the losses with its bound; summed sample by sample, and each
        term held between 0 and ``da dz``, it does not suffer from cancellation near the optimum.
        Sets: ``theta, before, z, z_before, a, v, momentum, t, L, passes``.
        """
        q, penalised = state.q, state.columns.penalised
        origin = state.theta + state.momentum * (state.theta - state.before)
        z_origin = state.z + state.momentum * (state.z - state.z_before)
        a, value = _respond(problem.loss, state.centre, problem.y, problem.s, z_origin, q)
        v = state.columns.adjoint(a)
        size = float(np.abs(value).sum())
        state.passes += 1.0
        for _ in range(100):
            steps = state.steps
            theta = proximal_step(problem.penalty, penalised, origin + steps * v, steps)
            z = state.columns.apply(theta)
            state.passes += 1.0
            a_there, value_there = _respond(problem.loss, state.centre, problem.y, problem.s, z, q)
            dz, move = z - z_origin, theta - origin
            own = float(np.clip(value_there - value + a * dz, 0.0, np.maximum((a - a_there) * dz, 0.0)).sum())
            divergence, values = problem.sums(own, size)
            if divergence <= 0.5 * state.L * float(move @ (state.metric * move)) + ROUNDING * values:
                break
            state.L *= 2.0
        uphill = float((state.metric * move) @ (theta - state.theta)) < 0.0
        state.before, state.z_before, state.theta, state.z, state.a, state.v = state.theta, state.z, theta, z, a, v
        if uphill:
            state.restart()
            state.L = max(RELAX * state.L, LEAST)
        else:
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.momentum, state.t = (state.t - 1.0) / following, following
        return divergence + _penalty_gap(problem.penalty, penalised, theta, v, steps)[2]

    def _maybe_recentre(self, problem: Problem, state: SmoothedState, inner_gap: float) -> None:
        """Move the centre to the dual point if the smoothed problem is solved well enough, and adapt the width.

        Sets: ``centre, width, L, proximity, recentred, stuck`` and as `restart`.
        """
        a = state.a
        own = (a * state.z).sum(), np.abs(a).sum(), (state.q * (a - state.centre) ** 2).sum(), a.sum()
        product, size, square, total = problem.sums(*own)
        noise, proximity = ROUNDING * (abs(product) + size), 0.5 * square
        unbalanced = abs(state.intercept * total) if problem.free_intercept else 0.0
        if max(inner_gap, proximity, unbalanced) <= noise:
            state.stuck += 1
            return
        if state.width == 0.0 or inner_gap > max(INNER_SHARE * proximity, noise):
            return
        steps = state.iterations - state.recentred
        if proximity > SLOW * state.proximity or steps <= FEW_STEPS:
            factor = NARROWER
        else:
            factor = WIDER if steps >= MANY_STEPS else 1.0
        state.width = max(factor * state.width, LEAST)
        state.L = max(state.L / factor, LEAST)
        state.centre, state.proximity, state.recentred = state.a, proximity, state.iterations
        state.restart()

    def _estimate(self, problem: Problem, state: SmoothedState) -> None:
        """Sets: ``primal``, ``dual`` of the variables scaled to the limit, less what balancing them may cost."""
        steps = state.steps
        penalised = state.columns.penalised
        factor = 1.0 / max(1.0, dual_excess(problem.penalty, state.v[:penalised]))
        a = factor * state.a
        cost, conjugate, _ = _penalty_gap(problem.penalty, penalised, state.theta, factor * state.v, steps)
        state.primal = problem.losses(state.z) + cost
        state.dual = -problem.conjugates(a) - conjugate
        if problem.free_intercept:
            state.dual -= abs(state.intercept * problem.sums(a.sum())[0])


@dataclass
class SmoothedState(State):
    """``theta`` are the coefficients of the centred columns; ``z`` are their scores."""

    columns: Centred
    theta: Float
    before: Float
    metric: Float
    width: float  # mu; 0 for smooth losses
    inverse_s: Float
    a: Float  # answers to the point at which the last gradient was taken
    centre: Float
    z: Float
    z_before: Float
    v: Float  # minus the gradient of the losses
    L: float = 1.0
    t: float = 1.0
    momentum: float = 0.0
    proximity: float = math.inf  # when the centre moved last
    recentred: int = 0  # iterations when the centre moved last
    stuck: int = 0

    @property
    def q(self) -> Float:
        """Curvature of the proximal term of each dual variable."""
        return self.width * self.inverse_s

    @property
    def steps(self) -> Float:
        """Of each coefficient; none where the inverse would overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (self.L * self.metric))

    @property
    def intercept(self) -> float:
        """The intercept that belongs to columns that are not centred."""
        return self.columns.split(self.theta)[1]

    def restart(self) -> None:
        """Forget the momentum. Sets: ``momentum, t``."""
        self.momentum, self.t = 0.0, 1.0

    @property
    def exhausted(self) -> bool:
        """Whether all that is left to gain is rounding."""
        return self.stuck >= 3

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the width of the smoothing."""
        return {"passes": self.passes, "smoothing": self.width}


def _first_width(problem: Problem) -> float:
    """The width at which the proximal term is as curved as the dual along one variable."""
    rows = problem.features
    weight, squares = problem.sums(problem.s.sum(), rows.squared_lengths().sum())
    width = weight * squares / rows.total_samples**2 / max(problem.lam, LEAST)
    return min(max(width, LEAST), MOST) if width > 0.0 else 1.0


@compiled
def _respond(loss: Loss, centre: Float, y: Float, s: Float, z: Float, q: Float) -> tuple[Float, Float]:
    """The dual variables that answer to the scores, and the value of every smoothed loss."""
    a, value = np.zeros(z.shape[0]), np.zeros(z.shape[0])
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            a[i] = loss.dual_step(centre[i], y[i], s[i], z[i], q[i])
            if q[i] > 0.0:
                away = a[i] - centre[i]
                value[i] = -a[i] * z[i] - s[i] * loss.conjugate(-a[i] / s[i], y[i]) - 0.5 * q[i] * away * away
            else:
                value[i] = s[i] * loss.value(z[i], y[i])
    return a, value


@compiled
def _penalty_gap(penalty: Penalty, penalised: int, theta: Float, v: Float, steps: Float) -> tuple[float, float, float]:
    """``penalty(theta)``, ``penalty*(v)`` and their Fenchel gap.

    What of ``v`` lies outside of the domain of the conjugate, for a free intercept all of it, counts in the gap as what
    a gradient step would gain.
    """
    cost, conjugate, gap = 0.0, 0.0, 0.0
    for j in range(theta.shape[0]):
        inside = 0.0
        if j < penalised:
            low, high = penalty.dual_limits(j)
            inside = min(max(v[j], low), high)
            c, f = penalty.cost(theta[j], j), penalty.conjugate_cost(inside, j)
            cost += c
            conjugate += f
            gap += max(c + f - theta[j] * inside, 0.0)
        gap += 0.5 * steps[j] * (v[j] - inside) ** 2
    return cost, conjugate, gap
