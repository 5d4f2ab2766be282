"""Least squares with few dense features: solutions with certificates for one penalty or a list, in one compiled call.

`minimize` runs solvers whose rounds take a millisecond. Here everything takes some ten microseconds, of which only the
certificate is the loop's own affair: `solve_few` computes it from the samples, with the bound on its rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin._jit import seconds_compiling, seconds_working
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.problems.rounding import EXACT_FIT
from maxmargin.protocols import Float
from maxmargin.solvers import Cholesky, WorkingSet
from maxmargin.solvers.columns.few import DUAL, DUAL_ERROR, LEAST, NUMBERS, PRIMAL, PRIMAL_ERROR, solve_few

MOST_FEATURES, MOST_ENTRIES = 128, 2**16  # beyond that the frame of a fit does not count


@dataclass(frozen=True)
class FewSolutions:
    """Solutions for a list of penalties, and what proves them."""

    W: Float  # a row of coefficients for each
    b: Float
    alpha: Float  # dual variables of the last one
    numbers: Float  # a row for each certificate
    factor: Float  # Cholesky's, of the last matrix that was factorised
    solver: str
    tol: float
    seconds: float
    compiling: float

    def certificate(self, k: int) -> Certificate:
        """What proves one of them."""
        own = self.numbers[k].tolist()
        return Certificate(own[PRIMAL], own[DUAL], own[PRIMAL_ERROR], own[DUAL_ERROR], 2.0, own[LEAST])

    @property
    def proofs(self) -> Float:
        """Relative gap, primal and dual value of each."""
        primal, dual, least = (self.numbers[:, k] for k in (PRIMAL, DUAL, LEAST))
        errors = self.numbers[:, PRIMAL_ERROR] + self.numbers[:, DUAL_ERROR]
        scale = np.maximum(np.maximum(np.abs(primal), np.abs(dual)), least)
        gaps = np.divide(primal - dual + errors, scale, out=np.zeros_like(scale), where=scale > 0.0)
        return np.column_stack([gaps, primal, dual])

    def solutions(self) -> list[Solution]:
        """All of them."""
        return [self.solution(k) for k in range(len(self.b))]

    def solution(self, k: int) -> Solution:
        """One of them, as every fit returns it."""
        own = self.certificate(k)
        alpha = self.alpha if k == len(self.b) - 1 else None
        point = Point(self.W[k], float(self.b[k]), alpha)
        record = Record(self.seconds, 1, own.primal, own.dual, True, {"passes": 2.0}, own.error, own.least)
        return Solution(
            point, own, Status.CONVERGED, self.solver, self.tol, 1, self.seconds, (record,), point, self.compiling
        )


def are_few(X: Any) -> bool:
    """Whether samples are dense, and few enough for all of this."""
    if not isinstance(X, np.ndarray) or X.dtype != np.float64 or X.ndim != 2:
        return False
    return X.size <= MOST_ENTRIES and 0 < X.shape[1] <= MOST_FEATURES


def few_solutions(
    X: Float,
    y: Float,
    s: Float,
    free: bool,
    alphas: Float,
    ratio: float,
    limits: tuple[Float, Float] | None,
    tol: float,
) -> FewSolutions | None:
    """The solutions for all strengths, within the tolerance; ``None`` if one of them is not, for whatever reason.

    ``X`` has few dense rows, and ``alphas`` fall.
    """
    began, compiled = seconds_working(), seconds_compiling()
    (n, d), count = X.shape, alphas.size
    low, high = no_limits(d) if limits is None else limits
    W, b, alpha, factor = np.empty((count, d)), np.empty(count), np.empty(n), np.empty(d * d)
    numbers = np.empty((count, NUMBERS))
    done = solve_few(
        np.ascontiguousarray(X), y, s, free, alphas, ratio, low, high, tol, EXACT_FIT, W, b, alpha, factor, numbers
    )
    if done < count:
        return None
    solver = WorkingSet.name if ratio > 0.0 and alphas[0] > 0.0 else Cholesky.name
    seconds = seconds_working() - began
    return FewSolutions(W, b, alpha, numbers, factor, solver, tol, seconds, seconds_compiling() - compiled)


def no_limits(d: int) -> tuple[Float, Float]:
    """Bounds that are never felt."""
    return np.full(d, -np.inf), np.full(d, np.inf)
