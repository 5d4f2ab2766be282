"""LASSO and elastic net by their path: from breakpoint to breakpoint, until the strength of the penalty is reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from maxmargin.operators import Columns
from maxmargin.operators.column_gram import gram_of
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, Bounded, ElasticNet, strengths
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float
from maxmargin.solvers.columns.homotopy.loops import combination
from maxmargin.solvers.columns.homotopy.path import PathState
from maxmargin.solvers.solver import Needs, Solver

BREAKPOINTS = 16  # of a round


@dataclass(frozen=True)
class Homotopy(Solver[Problem, PathState]):
    """The path of solutions for a falling strength of the penalty, from zero coefficients on.

    Problem: ``min 1/2 sum_i h_i (x_i.w + b - y_i)^2 + lam |w|_1 + mu/2 |w|^2``, perhaps with coefficients of one sign;
    ``b`` is free or zero; columns in memory, dense or sparse, that are never centred or scaled themselves.

    Method: between two breakpoints the support and its signs stay, and coefficients are linear in ``lam``: the
    direction solves the normal equations of the support for its signs. A breakpoint is where a column reaches the
    limit and enters, or a coefficient reaches zero and leaves; a growing and shrinking Cholesky factor follows. Of
    several columns that arrive together, a small problem of non-negative least squares says which ones enter.

    Cost: an iteration is a breakpoint, one pass over the data, and the square of the support's size in operations.
    The number of breakpoints is rarely much more than the size of the last support, and the answer is exact. There
    are problems made on purpose that have exponentially many.

    Reference: Osborne, Presnell, Turlach, "A new approach to variable selection in least squares problems", IMA
    Journal of Numerical Analysis 20, 2000; Efron, Hastie, Johnstone, Tibshirani, "Least angle regression", Annals of
    Statistics 32, 2004, section 3; Mairal, Yu, "Complexity analysis of the lasso regularization path", ICML 2012.
    """

    name: ClassVar[str] = "homotopy"
    needs: ClassVar[Needs] = Needs("columns", squared=True)

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if problem.penalised_column:
            return "its intercept is free or zero, not penalised"
        if not isinstance(problem.penalty, (L1, ElasticNet, Bounded)) or strengths(problem.penalty)[0] == 0.0:
            return f"it needs a penalty with an L1 part; this problem has {type(problem.penalty).__name__}"
        if isinstance(problem.penalty, Bounded) and not _one_sided(problem.penalty):
            return "coefficients may have one sign only, but no other bounds"
        return None

    def start(self, problem: Problem, warm: Point | None) -> PathState:
        """Zero coefficients: a path begins nowhere else."""
        lam, mu = strengths(problem.penalty)
        state = start_of_path(problem, mu)
        if state.lam <= lam:
            self._arrive(problem, state)
        return state

    def advance(self, problem: Problem, state: PathState, limit: int) -> PathState:
        """Some breakpoints."""
        lam, _ = strengths(problem.penalty)
        if state.lam > lam:
            for _ in range(min(limit, BREAKPOINTS)):
                state.settle()
                if state.finished:
                    break
                state.go(lam)
                if state.lam <= lam:
                    break
        else:
            state.refresh()
            state.iterations += 1
            state.lost = True  # nothing else can be done
        if state.lam <= lam:
            self._arrive(problem, state)
        return state

    def point(self, problem: Problem, state: PathState) -> Point:
        """The coefficients, with the residuals as dual variables."""
        w = np.zeros(state.columns.n_features)
        w[state.features] = state.coefficients
        return Point(w, intercept_of(state, problem.y), state.alpha.copy())

    def _arrive(self, problem: Problem, state: PathState) -> None:
        """The path is where it should be: the gap is nothing but rounding. Sets: the values of the state."""
        point = self.point(problem, state)
        state.primal = problem.losses(state.columns.apply(point.w) + point.b) + _cost(problem, point.w)
        state.dual = state.primal


def start_of_path(problem: Problem, mu: float) -> PathState:
    """The beginning of the path: zero coefficients, at the smallest strength for which they are optimal."""
    columns, penalty = cast("Columns", problem.operator), problem.penalty
    h = problem.s * cast("Squared", problem.loss).curvature
    everywhere = np.ones(columns.n_features, dtype=np.bool_)
    up, down = everywhere, everywhere
    if isinstance(penalty, Bounded):
        up, down = penalty.high > 0.0, penalty.low < 0.0
    centred = problem.free_intercept
    mean = float(h @ problem.y / h.sum()) if centred else 0.0
    return PathState(
        columns=columns,
        gram=gram_of(columns, h, centred),
        centred=centred,
        at_zero=h * (problem.y - mean),
        mu=mu,
        up=up,
        down=down,
    )


def intercept_of(state: PathState, y: Float) -> float:
    """The best intercept for the coefficients of a state."""
    if not state.centred:
        return 0.0
    h, scratch = state.gram.h, np.empty(y.size)
    mean = combination(state.columns.vectors, state.features, state.coefficients, h, True, scratch)
    return float(h @ y / h.sum()) - mean


def _cost(problem: Problem, w: Float) -> float:
    lam, mu = strengths(problem.penalty)
    return lam * float(np.abs(w).sum()) + 0.5 * mu * float(w @ w)


def _one_sided(penalty: Bounded) -> bool:
    def free_or_shut(ends: Array) -> bool:
        return bool(((ends == 0.0) | np.isinf(ends)).all())

    return free_or_shut(penalty.low) and free_or_shut(penalty.high)
