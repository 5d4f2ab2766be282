"""Least squares for a whole list of penalties: a chain of fits, each of which starts where the last ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.loop.few import FewSolutions, are_few, few_solutions, no_limits
from maxmargin.loop.path import follow
from maxmargin.loop.solution import Solution
from maxmargin.operators import Columns, Matrix
from maxmargin.operators.rows import LARGEST_VALUE
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, Bounded, ElasticNet
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Intercept, Penalty
from maxmargin.solvers import WorkingSet, make_solver
from maxmargin.solvers.choice import choose
from maxmargin.solvers.columns.few import largest_slope
from maxmargin.solvers.solver import AnySolver
from maxmargin.threads import Workers

LEAST_ALPHA = 1e-15  # as scikit-learn's grid has where no penalty is needed to have all coefficients zero


@dataclass
class Chain:
    """Samples, weights whose sum is 1, and how to fit them; what a fit leaves behind the next one finds."""

    X: Matrix
    y: Float
    s: Float
    ratio: float  # share of the L1 norm
    intercept: Intercept
    limits: tuple[Float, Float] | None
    tol: float
    solver: str = "auto"
    max_iter: int | None = None
    deadline: float = math.inf  # on the clock of `seconds_working`
    verbose: int = 0
    options: Mapping[str, object] = field(default_factory=dict)  # of the solver, if it is named
    workers: Workers | None = None

    @cached_property
    def columns(self) -> Columns:
        """The samples as columns; what one fit computes of them the next one finds."""
        return Columns(self.X, self.workers)

    def penalty(self, alpha: float) -> Penalty:
        """The penalty of a strength."""
        return sparse_penalty(alpha, self.ratio, self.limits)

    def pose(self, alpha: float) -> Problem:
        """The problem of a strength."""
        return Problem(self.columns, self.y, Squared(), self.penalty(alpha), self.s, self.intercept)

    def top(self) -> float:
        """From which strength on all coefficients are zero."""
        if are_few(self.X):
            low, high = self.limits or no_limits(self.X.shape[1])
            slope = largest_slope(np.ascontiguousarray(self.X), self.y, self.s, self.intercept is not None, low, high)
            return slope / self.ratio
        v = WorkingSet().start(self.pose(1.0), None).c
        if self.limits is not None:
            low, high = self.limits
            v = np.where(v > 0.0, np.where(high > 0.0, v, 0.0), np.where(low < 0.0, v, 0.0))
        return float(np.abs(v).max(initial=0.0)) / self.ratio

    def grid(self, count: int, eps: float) -> Float:
        """Strengths from the largest that makes sense down to a share ``eps`` of it, as scikit-learn chooses them."""
        if self.ratio == 0.0:
            raise ValueError(
                "Automatic alpha grid generation is not supported for l1_ratio=0. Please supply a grid by providing "
                "your estimator with the appropriate `alphas=` argument."
            )
        top = self.top()
        return np.full(count, LEAST_ALPHA) if top <= LEAST_ALPHA else np.geomspace(top, top * eps, num=count)

    def few(self, alphas: Float) -> FewSolutions | None:
        """The solutions for all strengths at once, if the samples are few and nothing else is asked for."""
        plain = self.solver == "auto" and self.max_iter is None and self.deadline == math.inf and not self.verbose
        if not plain or not isinstance(self.X, np.ndarray) or not are_few(self.X):
            return None
        if not (alphas * self.ratio > 0.0).all():
            return None
        free = self.intercept is not None
        return few_solutions(self.X, self.y, self.s, free, alphas, self.ratio, self.limits, self.tol)

    def solve(self, alphas: Float, start: Float | None, unpenalised: Callable[[float], Solution]) -> list[Solution]:
        """A solution for each of the strengths, which fall; ``unpenalised`` finds those that have no L1 part.

        When the time is over, the others are only started, so that every part of the path is defined.
        """
        warm = None if start is None else Point(start, 0.0)
        if self.limits is None and (alphas * self.ratio == 0.0).any():
            last = np.flatnonzero(alphas * self.ratio > 0.0)
            some = alphas[: last.size]
            solutions = self.solve(some, start, unpenalised) if some.size else []
            return solutions + [unpenalised(alpha) for alpha in alphas[last.size :].tolist()]
        problems = (self.pose(alpha) for alpha in alphas.tolist())
        solver = self._solver(self.pose(float(alphas[0])))
        return list(
            follow(
                problems, solver, tol=self.tol, max_iter=self.max_iter, deadline=self.deadline, warm=warm,
                verbose=self.verbose,
            )
        )  # fmt: skip

    def solve_one(self, alpha: float) -> Solution:
        """The solution for one strength."""
        problem = self.pose(alpha)
        (solution,) = follow(iter([problem]), self._solver(problem), tol=self.tol)
        return solution

    def _solver(self, problem: Problem) -> AnySolver:
        return choose(problem).make() if self.solver == "auto" else make_solver(self.solver, **self.options)


def coefficients(solutions: Sequence[Solution]) -> Float:
    """Coefficients, a column for each solution."""
    return np.array([solution.point.w for solution in solutions]).T


def sparse_penalty(alpha: float, ratio: float, limits: tuple[Float, Float] | None) -> Penalty:
    """``alpha (ratio |w|_1 + (1 - ratio) |w|^2 / 2)``, perhaps within limits."""
    if limits is not None:
        return Bounded(alpha, ratio, *limits)
    return L1(alpha) if ratio == 1.0 else ElasticNet(alpha, ratio)


def falling(alphas: Any) -> Float:
    """Strengths that somebody chose, in falling order."""
    return np.sort(checked_strengths(alphas))[::-1]


def checked_strengths(alphas: Any, positive: bool = False) -> Float:
    """Strengths that somebody chose: numbers, none of them negative, or all of them positive."""
    values = list(np.atleast_1d(np.asarray(alphas, dtype=object)).ravel())
    for k, value in enumerate(values):
        if not isinstance(value, Real):
            raise TypeError(f"alphas[{k}] must be an instance of float, not {type(value).__name__}.")
        if not 0.0 <= float(value) <= LARGEST_VALUE or (positive and value == 0.0):
            bound = "> 0.0" if positive else ">= 0.0"
            raise ValueError(f"alphas[{k}] == {value}, must be {bound}. It may be at most {LARGEST_VALUE:.0e}.")
    if not values:
        raise ValueError("alphas must hold at least one strength; got none.")
    return np.array(values, dtype=np.float64)
