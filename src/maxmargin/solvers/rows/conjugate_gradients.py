"""Ridge regression and least squares by conjugate gradients, for sparse and huge data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.parts.penalties import L2
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.normal_equations import NormalEquations, rounds_at_once
from maxmargin.solvers.solver import Needs, Solver, State

STUCK = 50  # iterations without a smaller gap, after the residuals were computed again: rounding
NEGLIGIBLE = 1e-30  # times the first gradient: nothing is left
NO_RIDGE = 1e-14  # times the largest square of a column: a penalty that chooses among exact fits, and does nothing else


@dataclass(frozen=True)
class ConjugateGradients(Solver[Problem, "ConjugateGradientsState"]):
    """Conjugate gradients on the normal equations, which are never formed (CGLS).

    Problem: ``min 1/2 sum_i s_i (x_i.w + b - y_i)^2 + lam |w|^2 / 2`` with any intercept, or without a penalty
    (`Unpenalised`): then the solution of least norm.

    Method: each step goes to the minimum along a direction that is conjugate to all earlier ones. With a penalty the
    gradient is divided by the diagonal of ``A^T S A + lam I`` first, so that the scales of the columns do not count;
    without one, or with one that is lost in rounding where there are fewer samples than features, it is not, since only
    multiples of the rows lead to the shortest solution. Rows are centred implicitly.
    The residuals give a dual point whose gap is ``|gradient|^2 / (2 lam)``, so that the solver knows its own gap. If
    the certificate disagrees, the residuals are computed from the data and the directions start anew.

    Cost: one iteration is two passes over the data; memory ``O(n + d)``. Clients send ``d`` numbers in each.

    Reference: Hestenes, Stiefel, "Methods of conjugate gradients for solving linear systems", 1952; Bjorck, "Numerical
    methods for least squares problems", 1996, algorithm 7.4.1.
    """

    name: ClassVar[str] = "conjugate_gradients"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, linear=True)

    def start(self, problem: Problem, warm: Point | None) -> ConjugateGradientsState:
        """Zero, or a given point."""
        equations = NormalEquations.of(problem)
        theta = np.zeros(equations.bordered.size) if warm is None else equations.theta(warm)
        diagonal = np.ones(theta.size)
        if isinstance(problem.penalty, L2):
            fits_exactly = problem.total_samples < theta.size
            squares = equations.bordered.column_squares(equations.s)
            if equations.mean_x is not None:
                squares = np.maximum(squares - equations.total * equations.mean_x**2, 0.0)
            if not (fits_exactly and equations.lam <= NO_RIDGE * squares.max(initial=0.0)):
                diagonal = squares + equations.lam
        state = ConjugateGradientsState(
            equations=equations,
            theta=theta,
            diagonal=diagonal,
            residual=equations.t,
            gradient=theta,
            direction=theta,
            passes=2.0,
        )
        _begin(state)
        state.first = state.size
        return state

    def advance(self, problem: Problem, state: ConjugateGradientsState, limit: int) -> ConjugateGradientsState:
        """Some iterations."""
        if state.doubted:
            state.doubted = False
            _begin(state)
        for _ in range(min(limit, rounds_at_once(problem.features.entries))):
            if not state.size > NEGLIGIBLE * state.first:
                state.stuck = STUCK + 1
                break
            _step(state)
        return state

    def point(self, problem: Problem, state: ConjugateGradientsState) -> Point:
        """The coefficients, and the weighted residuals as dual variables."""
        if not state.iterations:
            point = state.equations.point(state.theta)
            return Point(point.w, point.b, problem.feasible(state.equations.s * state.residual))
        return state.equations.point(state.theta)


@dataclass(kw_only=True)
class ConjugateGradientsState(State):
    """``residual = t - A theta`` and ``gradient = A^T S residual - lam theta``, but for rounding."""

    equations: NormalEquations
    theta: Float
    diagonal: Float  # by which the gradient is divided
    residual: Float
    gradient: Float
    direction: Float
    size: float = 0.0  # of the gradient, in the metric of the diagonal
    first: float = 0.0  # the same, at the start
    smallest: float = np.inf  # gap so far
    stuck: int = 0  # iterations without a smaller one

    @property
    def exhausted(self) -> bool:
        """Whether steps no longer help."""
        return self.stuck > STUCK


def _begin(state: ConjugateGradientsState) -> None:
    """Compute residuals and gradient from the data, and start with the steepest direction. Sets: all but ``theta``."""
    e = state.equations
    state.residual = e.t - e.apply(state.theta) if state.theta.any() else e.t.copy()
    _judge(state)
    state.direction = state.gradient / state.diagonal
    state.passes += 2.0


def _judge(state: ConjugateGradientsState) -> None:
    """Sets: ``gradient``, its size, and the values."""
    e = state.equations
    state.gradient = e.adjoint(e.s * state.residual) - e.lam * state.theta
    state.size = float(state.gradient @ (state.gradient / state.diagonal))
    state.primal = e.value(state.residual, state.theta)
    gap = e.gap(state.gradient, state.theta)
    state.dual = state.primal - gap
    state.stuck = 0 if gap < state.smallest else state.stuck + 1
    state.smallest = min(gap, state.smallest)


def _step(state: ConjugateGradientsState) -> None:
    """To the minimum along the direction, and the next direction."""
    e, p, size = state.equations, state.direction, state.size
    q = e.apply(p)
    curvature = e.problem.sums(float(e.s @ (q * q)))[0] + e.lam * float(p @ p)
    step = size / curvature if curvature > 0.0 else 0.0
    state.theta = state.theta + step * p
    state.residual = state.residual - step * q
    _judge(state)
    state.direction = state.gradient / state.diagonal + (state.size / size) * p
    state.iterations += 1
    state.passes += 2.0
