"""Least squares from sums over the samples alone: exact recursion over data that come bit by bit.

With the weighted means, the centred sums ``G = sum s (x - m)(x - m)^T``, ``V = sum s (x - m)(y - n)^T`` and
``q = sum s (y - n)^2`` (and means of zero if there is no intercept), the function of ridge regression is

    P(w) = q - 2 w.v + w.G w + alpha |w|^2,      D = P(w) - |v - G w - alpha w|^2 / alpha,

where ``D`` is the dual value of the residuals at ``w``. So the best coefficients for all samples that were ever seen,
and a proof of that, cost no look at any of them. Both are differences of large sums where the fit is good, so that
rounding counts: every sum is made of products that the sums of squares bound. With an intercept all samples are taken
relative to an origin, the mean of the first ones, so that data far away from zero do not lose their digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators import Matrix, Rows
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.point import Certificate
from maxmargin.problems.rounding import EXACT_FIT
from maxmargin.protocols import Float

OPERATIONS = 8.0  # roundings of a term at most, beside those of its sums: centring twice, the weight, merging
REFINEMENTS = 3


@dataclass
class Moments:
    """Sums over all samples seen so far, of ``t`` targets."""

    terms: Float  # one number: how many terms each sum has, at most
    total: Float  # one number: the sum of the weights
    mean_x: Float  # d numbers
    mean_y: Float  # t numbers
    G: Float  # d x d
    V: Float  # d x t
    q: Float  # t numbers
    origin_x: Float  # d numbers
    origin_y: Float  # t numbers
    near_x: Float  # d numbers: sums of squares from the origin
    near_y: Float  # t numbers
    far_x: Float  # d numbers: sums of squares of the samples as they are
    far_y: Float  # t numbers

    @classmethod
    def nothing(cls, d: int, t: int) -> Moments:
        """No samples."""
        sizes = (1,), (1,), (d,), (t,), (d, d), (d, t), (t,), (d,), (t,), (d,), (t,), (d,), (t,)
        return cls(*(np.zeros(size) for size in sizes))

    def add(self, X: Matrix, Y: Float, s: Float, centred: bool) -> None:
        """More samples, with their weights. Sets: all sums."""
        total = float(s.sum())
        if total <= 0.0:
            return
        self.far_x += Rows(X).column_squares(s)
        self.far_y += s @ (Y * Y)
        if centred and not self.total[0] and not is_sparse(X):
            self.origin_x, self.origin_y = (s @ X) / total, (s @ Y) / total
        if self.origin_x.any():
            X = (X.toarray() if is_sparse(X) else X) - self.origin_x
        Y = Y - self.origin_y
        rows, n = Rows(X), float(self.total[0])
        mean_x = rows.adjoint(s) / total if centred else np.zeros(X.shape[1])
        mean_y = (s @ Y) / total if centred else np.zeros(Y.shape[1])
        G, T = _centred_products(X, rows, s, mean_x), Y - mean_y
        V = rows.adjoint_each(s[:, None] * T).T  # the targets are centred, so that the samples need not be
        self.near_x += rows.column_squares(s)
        self.near_y += s @ (Y * Y)
        if centred:
            V -= np.outer(mean_x, s @ T)
            apart, of_y, share = mean_x - self.mean_x, mean_y - self.mean_y, n * total / (n + total)
            G += share * np.outer(apart, apart)
            V += share * np.outer(apart, of_y)
            self.q += share * of_y**2
            self.mean_x += apart * (total / (n + total))
            self.mean_y += of_y * (total / (n + total))
        self.G += G
        self.V += V
        self.q += s @ (T * T)
        self.total += total
        self.terms += len(Y) + OPERATIONS

    def coefficients(self, alpha: float, k: int) -> tuple[Float, float]:
        """The best coefficients and intercept for target ``k``; of the least norm without a penalty."""
        H = self.G + alpha * np.eye(len(self.G))
        v = np.ascontiguousarray(self.V[:, k])
        try:
            factor = cho_factor(H, check_finite=False)
        except LinAlgError:
            w = np.asarray(np.linalg.lstsq(H, v, rcond=None)[0], dtype=np.float64)
        else:
            w = cho_solve(factor, v, check_finite=False)
            for _ in range(REFINEMENTS):
                w = w + cho_solve(factor, v - self.G @ w - alpha * w, check_finite=False)
        return w, float(self.origin_y[k] + self.mean_y[k] - (self.origin_x + self.mean_x) @ w)

    def certificate(self, w: Float, alpha: float, k: int) -> Certificate:
        """Of coefficients with their best intercept, and a positive penalty."""
        lost = growth(OPERATIONS * float(self.terms[0]) + w.size)
        gradient = self.V[:, k] - self.G @ w - alpha * w
        penalty = alpha * float(w @ w)
        primal = float(self.q[k]) - 2.0 * float(w @ self.V[:, k]) + float(w @ (self.G @ w)) + penalty
        near, far = np.sqrt(self.near_x), np.sqrt(self.far_x)
        size = float(np.sqrt(self.near_y[k]) + np.abs(w) @ near)
        moved = 2.0 * DOUBLE * float(np.sqrt(self.far_y[k]) + np.abs(w) @ far)  # what taking differences has lost
        primal_error = lost * (size**2 + penalty) + 2.0 * moved * size + moved**2
        wrong = lost * (near * size + alpha * np.abs(w)) + near * moved + 2.0 * DOUBLE * far * (size + moved)
        gap = float(gradient @ gradient) / alpha
        gap_error = float(2.0 * np.abs(gradient) @ wrong + wrong @ wrong) / alpha + lost * gap
        least = EXACT_FIT * float(self.far_y[k])
        return Certificate(
            max(primal, 0.0), max(primal - gap, 0.0), primal_error, primal_error + gap_error, least=least
        )


def _centred_products(X: Matrix, rows: Rows, s: Float, mean: Float) -> Float:
    """``sum s (x - m)(x - m)^T``: of dense samples from centred ones, which saves digits."""
    if not is_sparse(X):
        A = (X - mean) * np.sqrt(s)[:, None]
        G = A.T @ A
        missing = np.sqrt(s) @ A  # of a mean that was rounded
        return np.asarray(G - np.outer(missing, missing) / s.sum() if mean.any() else G)
    return rows.weighted_gram(s) - s.sum() * np.outer(mean, mean)
