"""Least squares with a penalty on the norms of groups of coefficients, for one target or several at once.

    P(W, b) = sum_i s_i/2 |Y_i - W x_i - b|^2 + sum_g R_g(|W_g|)
    D(A)    = sum_i (A_i.Y_i - |A_i|^2 / (2 s_i)) - sum_g R_g*(|V_g|),  V = A X

The features are divided into groups, and ``W_g`` are the coefficients of the features of a group for all targets. Each
feature by itself is a group of the multi-task LASSO; with one target it is the group LASSO. A free intercept, one for
each target, adds the constraint that every row of ``A`` has the sum zero.

In a `Point` of this problem, ``w`` holds ``W``, one row per target, raveled, and behind it the intercepts if there are
any; ``alpha`` is ``A`` raveled, and ``b`` is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.numerics.balance import balanced
from maxmargin.numerics.rounding import growth
from maxmargin.operators import Columns, Rows
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import Groups
from maxmargin.problems.point import UNKNOWN, Certificate, ConvexProblem, Point
from maxmargin.problems.rounding import (
    SampleSums,
    certificate_of,
    conjugate_costs,
    dual_excess,
    error_of_conjugate_penalty,
    error_of_conjugates,
    error_of_losses,
    imbalance,
    sample_sums,
)
from maxmargin.protocols import Float, Index


@dataclass(frozen=True, eq=False)
class GroupProblem(ConvexProblem):
    """Minimise ``sum_i s_i/2 |Y_i - W x_i - b|^2 + sum_g R_g(|W_g|)``.

    ``Y`` has a row for each target, ``groups`` the number of the group of each feature.
    """

    operator: Columns | Rows
    Y: Float
    penalty: Groups
    groups: Index
    s: Float
    free_intercept: bool = True

    def __post_init__(self) -> None:
        d, count = self.operator.n_features, self.penalty.prices.size
        if self.groups.shape != (d,) or (d and not 0 <= self.groups.min() <= self.groups.max() < count):
            raise ValueError(f"Each of the {d} features needs the number of its group, from 0 to {count - 1}.")

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return len(self.Y)

    def fits(self, point: Point) -> bool:
        """Whether a point has as many coefficients and dual variables as this problem."""
        size = self.n_targets * (self.operator.n_features + self.free_intercept)
        return point.w.size == size and point.alpha is not None and point.alpha.size == self.Y.size

    def split(self, w: Float) -> tuple[Float, Float]:
        """Coefficients, a row per target, and intercepts of a point."""
        T, d = self.n_targets, self.operator.n_features
        return w[: T * d].reshape(T, d), w[T * d :] if self.free_intercept else np.zeros(T)

    def norms(self, V: Float) -> Float:
        """Norms of the groups of a matrix with a row per target and a column per feature."""
        squares = np.bincount(self.groups, (V * V).sum(axis=0), minlength=self.penalty.prices.size)
        return np.asarray(np.sqrt(squares))

    def cost(self, norms: Float) -> float:
        """The penalty of coefficients whose groups have these norms."""
        p = self.penalty
        return float(p.prices @ norms + 0.5 * p.mu * norms @ norms)

    def feasible(self, A: Float) -> tuple[Float, Float]:
        """Dual feasible variables near ``A``, and their products with the columns, a row per target."""
        A = np.where(self.s > 0.0, A, 0.0)
        if self.free_intercept:
            A = np.array([balanced(row) for row in A])
        V = np.array([self.operator.adjoint(row) for row in A])
        excess = dual_excess(self.penalty, self.norms(V))
        share = max(0.0, 1.0 / excess - 1e-14) if excess > 1.0 else 1.0
        return share * A, share * V

    def certify(self, point: Point) -> Certificate:
        """Primal and dual value at a point, recomputed from the data."""
        if not np.isfinite(point.w).all():
            return UNKNOWN
        W, b = self.split(point.w)
        Z = np.array([self.operator.apply(row) for row in W])
        A = self.s * (self.Y - Z - b[:, None]) if point.alpha is None else point.alpha.reshape(self.Y.shape)
        A, V = self.feasible(A)
        n, lengths, (of_scores, of_coefficients) = self.s.size, self.operator.column_lengths(), self.operator.terms()
        primal = dual = primal_error = dual_error = least = sizes = 0.0
        errors = np.empty_like(V)
        for t in range(self.n_targets):
            sums = self._sums(Z[t], A[t], self.Y[t], growth(of_scores) * float(np.abs(W[t]) @ lengths), b[t])
            share = imbalance(sums, n) if self.free_intercept else 0.0
            errors[t] = (growth(of_coefficients) + share) * sums.length * lengths
            primal, dual, least = primal + sums.losses, dual - sums.conjugates, least + sums.least
            primal_error += error_of_losses(sums, sums.drift, n)
            dual_error += error_of_conjugates(sums, share, n)
            sizes += sums.conjugate_sizes
        norms, cost = self.norms(V), self.cost(self.norms(W))
        of_norms = self.norms(errors) + growth(V.size + 2) * norms
        dual_error += error_of_conjugate_penalty(self.penalty, norms, of_norms, sizes)
        primal_error += growth(self.n_targets) * primal + growth(W.size + 4) * cost
        dual_error += growth(self.n_targets) * sizes
        dual -= float(conjugate_costs(self.penalty, norms))
        return certificate_of(primal + cost, dual, primal_error, dual_error, 2.0 * self.n_targets, least)

    def _sums(self, z: Float, alpha: Float, y: Float, reach: float, b: float) -> SampleSums:
        """Sums over the samples for one target, from scores without the intercept."""
        own = sample_sums(Squared(), z, alpha, y, self.s, np.array([reach]), float(b), True)
        return SampleSums(*np.append(own, 0.5 * float(self.s @ (y * y))))
