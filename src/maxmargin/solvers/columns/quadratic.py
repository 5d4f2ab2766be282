"""The squared loss as a function of the coefficients of a set of columns, held in one of two ways.

``q(w) = 1/2 sum_i h_i (y_i - sum_a w_a (x_ia - m_a))^2``; its negative slopes are ``v_a = x_a^T alpha``.

* `GramHeld` keeps the matrix of all products of the columns and all slopes: a change of one coefficient costs as many
  operations as there are columns in the set.
* `ResidualHeld` keeps the residuals, and computes a slope when it is asked for: a change costs twice the entries of its
  column. It is for sparse columns with fewer entries than the set has columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled_methods
from maxmargin.operators.vectors import SparseVectors
from maxmargin.protocols import Float, Index


@compiled_methods
class GramHeld(NamedTuple):
    """By the products of all pairs of columns."""

    G: Float  # of which the first entries of each row and column count
    v: Float

    def refresh(self, v: Float) -> None:
        """All slopes. Sets: ``v``."""
        for a in range(v.shape[0]):
            v[a] = self.v[a]

    def slope_of(self, a: int) -> float:
        """The negative slope of a coefficient."""
        return self.v[a]

    def curvature_of(self, a: int) -> float:
        """The second derivative."""
        return self.G[a, a]

    def move(self, a: int, step: float) -> None:
        """Change a coefficient."""
        v = self.v
        row = self.G[a, : v.shape[0]]
        for k in range(v.shape[0]):
            v[k] -= step * row[k]

    def pairs(self, some: Index, size: int, A: Float) -> None:
        """Lower triangle of the products of some columns. Sets: ``A``, row by row."""
        for i in range(size):
            row, to = self.G[some[i]], A[i * size : (i + 1) * size]
            for k in range(i + 1):
                to[k] = row[some[k]]

    def turn(self, some: Index, size: int, steps: Float, work: Float) -> float:
        """The curvature along steps of some coefficients. Sets: ``work``, what they change."""
        m = self.v.shape[0]
        change = work[:m]
        change[:] = 0.0
        for i in range(size):
            step, row = steps[i], self.G[some[i], :m]
            if step != 0.0:
                for k in range(m):
                    change[k] += step * row[k]
        total = 0.0
        for i in range(size):
            total += steps[i] * change[some[i]]
        return total

    def accept(self, work: Float) -> None:
        """Make the steps of the last `turn`."""
        v = self.v
        for k in range(v.shape[0]):
            v[k] -= work[k]


@compiled_methods
class ResidualHeld(NamedTuple):
    """By the weighted residuals ``R_i = h_i (y_i - sum_a w_a x_ia)``, before centring, and their sum."""

    vectors: SparseVectors
    W: Index
    means: Float
    curvatures: Float
    h: Float
    R: Float
    sums: Float  # of R; of h if columns are centred, or 0

    def refresh(self, v: Float) -> None:
        """All slopes. Sets: ``v``."""
        for a in range(v.shape[0]):
            v[a] = self.slope_of(a)

    def slope_of(self, a: int) -> float:
        """The negative slope of a coefficient."""
        return self.vectors.dot(self.W[a], self.R) - self.means[a] * self.sums[0]

    def curvature_of(self, a: int) -> float:
        """The second derivative."""
        return self.curvatures[a]

    def move(self, a: int, step: float) -> None:
        """Change a coefficient."""
        data, indices, indptr = self.vectors.data, self.vectors.indices, self.vectors.indptr
        for e in range(indptr[self.W[a]], indptr[self.W[a] + 1]):
            self.R[indices[e]] -= step * self.h[indices[e]] * data[e]
        self.sums[0] -= step * self.sums[1] * self.means[a]

    def pairs(self, some: Index, size: int, A: Float) -> None:
        """Lower triangle of the products of some columns. Sets: ``A``, row by row.

        Of their entries sorted by samples: few columns have an entry in the same sample.
        """
        data, indices, indptr = self.vectors.data, self.vectors.indices, self.vectors.indptr
        n, total = self.R.shape[0], self.sums[1]
        starts = np.zeros(n + 1, dtype=np.int64)
        for i in range(size):
            for e in range(indptr[self.W[some[i]]], indptr[self.W[some[i]] + 1]):
                starts[indices[e] + 1] += 1
        for r in range(n):
            starts[r + 1] += starts[r]
        filled, owners, values = starts.copy(), np.empty(starts[n], dtype=np.int64), np.empty(starts[n])
        for i in range(size):
            to = A[i * size : i * size + i + 1]
            for k in range(i + 1):
                to[k] = -total * self.means[some[i]] * self.means[some[k]]
            for e in range(indptr[self.W[some[i]]], indptr[self.W[some[i]] + 1]):
                r = indices[e]
                owners[filled[r]], values[filled[r]] = i, data[e]
                filled[r] += 1
                x = self.h[r] * data[e]
                for k in range(starts[r], filled[r]):
                    to[owners[k]] += x * values[k]

    def turn(self, some: Index, size: int, steps: Float, work: Float) -> float:
        """The curvature along steps of some coefficients. Sets: ``work``, what they change."""
        n = self.R.shape[0]
        change, shift, total = work[:n], 0.0, 0.0
        change[:] = 0.0
        for i in range(size):
            if steps[i] != 0.0:
                self.vectors.add(self.W[some[i]], steps[i], change)
                shift += steps[i] * self.means[some[i]]
        for i in range(n):
            total += self.h[i] * change[i] * change[i]
        work[n] = shift
        return total - self.sums[1] * shift * shift

    def accept(self, work: Float) -> None:
        """Make the steps of the last `turn`."""
        for i in range(self.R.shape[0]):
            self.R[i] -= self.h[i] * work[i]
        self.sums[0] -= self.sums[1] * work[self.R.shape[0]]
