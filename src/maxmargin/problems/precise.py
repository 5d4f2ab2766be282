"""Certificates with twice the digits, for points of which the usual one cannot tell whether they are good enough.

The usual bounds on rounding hold for every order of a sum, so they are many times larger than what happens. Where they
alone stand between a gap and its tolerance, scores and coefficients are computed again as sums of two numbers each.
What is left is the last digit of each score, and of the sums over the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import cast

import numpy as np

from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators import Columns, Gram, Matrix, Rows
from maxmargin.operators.measured import MeasuredGram
from maxmargin.operators.precise import PreciseGram, combination, magnitudes, precise_in_seconds, products
from maxmargin.operators.rows import dense64, is_sparse
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Certifiable, Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.problems.rounding import (
    certificate_of,
    conjugate_costs,
    depth,
    error_of_conjugate_penalty,
    error_of_conjugates,
    error_of_losses,
)
from maxmargin.protocols import Float

PASSES = 30.0  # that a product takes, of the usual ones


@dataclass(frozen=True, eq=False)
class PreciseProblem(Problem):
    """A problem over rows in memory whose points are certified with twice the digits."""

    def certify(self, point: Point) -> Certificate:
        """As that of the problem itself."""
        n = self.y.size
        with np.errstate(all="ignore"):
            z = products(self.matrix, point.w) if self.by_rows else combination(self.matrix, point.w)
            high = z.high + point.b
            moved = high - z.high
            lost = (z.high - (high - moved)) + (point.b - moved)  # by adding the intercept
            reach = (np.abs(lost + z.low) + z.error) * (1.0 + 4.0 * DOUBLE)
        alpha = self.feasible(self.slopes(high) if point.alpha is None else point.alpha)
        sums = self._sample_sums(high, alpha, np.where(np.isfinite(high + reach), reach, np.inf), 0.0)
        sums = sums._replace(balance=math.fsum(alpha))
        penalty = self._penalty(point, high)
        primal_error = error_of_losses(sums, sums.drift, n) + growth(point.w.size) * penalty
        share = 0.0
        if self.free_intercept and (heavier := max(sums.up, sums.down)) > 0.0:
            share = (abs(sums.balance) + 2.0 * DOUBLE * heavier) * (1.0 + 2.0 * growth(depth(n))) / heavier
        v, errors = self._coefficients(alpha, share)
        if column := self.penalised_column:
            v, errors = (
                np.append(v, column * sums.balance),
                np.append(errors, 4.0 * DOUBLE * abs(column * sums.balance)),
            )
        dual = -sums.conjugates - float(conjugate_costs(self.penalty, v))
        dual_error = error_of_conjugates(sums, share, n)
        dual_error += error_of_conjugate_penalty(self.penalty, v, errors, sums.conjugate_sizes)
        return certificate_of(sums.losses + penalty, dual, primal_error, dual_error, 2.0 * PASSES)

    def _coefficients(self, alpha: Float, share: float) -> tuple[Float, Float]:
        """``X^T alpha`` and its error, for variables of which the heavier side is to be scaled down by a share.

        A free intercept makes ``X^T alpha`` that of the rows without their middle, as the variables sum to zero after
        that: then the share counts the distances from the middle, not those from the origin.
        """
        v = combination(self.matrix, alpha) if self.by_rows else products(self.matrix, alpha)
        if share == 0.0:
            return v.high, v.slack
        sizes, excess = np.abs(alpha), math.fsum(alpha)
        middle, spread = self._spread(sizes)
        moved = v.high - excess * middle
        roundings = 2.0 * DOUBLE * (np.abs(moved) + 2.0 * np.abs(excess * middle))
        error = v.slack + roundings + share * (1.0 + 2.0 * growth(sizes.size)) * spread
        return moved, np.where(np.isfinite(moved + error), error, np.inf)

    def _spread(self, sizes: Float) -> tuple[Float, Float]:
        """The middle of dense rows, and the weighted sums of their distances from it; 0 is the middle of others."""
        if not self.by_rows or is_sparse(self.matrix):
            rows = self.matrix if self.by_rows else cast("Matrix", self.matrix.T)
            return np.zeros(rows.shape[1]), np.asarray(sizes @ magnitudes(rows), dtype=np.float64)
        middle = np.asarray(self.matrix.mean(axis=0, dtype=np.float64))
        middle, spread = np.where(np.isfinite(middle), middle, 0.0), np.zeros(middle.size)
        for part in self.rows.parts:
            spread += sizes[part] @ np.abs(dense64(self.matrix[part]) - middle)
        return middle, spread

    @property
    def by_rows(self) -> bool:
        """Whether the matrix is stored by rows."""
        return isinstance(self.operator, Rows)

    @cached_property
    def matrix(self) -> Matrix:
        """The samples as rows; if they are stored by columns, these."""
        return self.operator.transposed.matrix if isinstance(self.operator, Columns) else self.rows.matrix


def precise(problem: Certifiable) -> Certifiable | None:
    """The same problem with certificates that rounding hardly touches; ``None`` if they would take too long."""
    operator = getattr(problem, "operator", None)
    rows = operator.transposed if isinstance(operator, Columns) else operator
    if isinstance(problem, Problem) and isinstance(rows, Rows) and precise_in_seconds(rows):
        return PreciseProblem(*(getattr(problem, field.name) for field in fields(problem)))
    if isinstance(problem, Problem) and isinstance(problem.operator, Gram) and PreciseGram.can(problem.operator):
        return replace(problem, operator=PreciseGram(problem.operator))
    if isinstance(problem, BoxQP) and PreciseGram.can(problem.gram):
        return replace(problem, gram=PreciseGram(problem.gram, divided=problem.of_street))
    if isinstance(problem, Problem) and isinstance(problem.operator, Gram) and MeasuredGram.can(problem.operator):
        return replace(problem, operator=MeasuredGram(problem.operator))
    if isinstance(problem, BoxQP) and MeasuredGram.can(problem.gram):
        return replace(problem, gram=MeasuredGram(problem.gram))
    return None


def certify_precisely(problem: Certifiable, point: Point) -> Certificate | None:
    """The certificate of a point with twice the digits, or ``None`` if that would take too long.

    Programs over a kernel remember it, so that multipliers are found for the same scores.
    """
    again = vars(problem).get("_precise") or precise(problem)
    if again is None:
        return None
    certificate = again.certify(point)
    if isinstance(problem, BoxQP):
        vars(problem)["_precise"] = again
        vars(problem)["_judged"] = vars(again)["_judged"]
    return certificate
