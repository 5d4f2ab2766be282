"""A copy of some columns of a matrix, whose products with weights that change all the time are computed afresh."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators.columns import Columns
from maxmargin.operators.vectors import DenseVectors, SparseVectors
from maxmargin.protocols import Array, Float, Index

SAMPLES = 1024  # of dense columns that are scaled and multiplied together


class ColumnCopy:
    """Some columns in float64, perhaps with a constant one, the longest first.

    Attributes
    ----------
    W : array of shape (size,)
        Their numbers. One behind the last column of the matrix stands for a column that is ``height`` everywhere.
    vectors : DenseVectors or SparseVectors
        The columns.

    """

    def __init__(self, columns: Columns, W: Index, height: float) -> None:
        self.n_samples, own, n, d = columns.n_samples, columns.vectors, columns.n_samples, columns.n_features
        self.vectors: DenseVectors | SparseVectors
        if isinstance(own, DenseVectors):
            self.W = W
            copied = np.empty((W.size, n))
            _copy_dense(own.X, W, height, copied)
            self.vectors = DenseVectors(copied)
        else:
            lengths = np.append(np.diff(own.indptr.view(np.int64)), n)[W]
            order = np.argsort(-lengths, kind="stable")
            self.W, starts = W[order], np.append(0, np.cumsum(lengths[order]))
            self.vectors = SparseVectors(
                np.empty(starts[-1]), np.empty(starts[-1], dtype=np.uint32), starts.view(np.uint64)
            )
            self._rows = np.zeros(n + 1, dtype=np.int64)
            self._columns, self._values = np.empty(starts[-1], dtype=np.uint32), np.empty(starts[-1])
            _copy_sparse(own, self.W, d, height, self.vectors, self._rows, self._columns, self._values)

    def apply(self, w: Float) -> Float:
        """The sum of the columns times these numbers."""
        out = np.zeros(self.n_samples)
        _add_columns(self.vectors, w, out)
        return out

    def means_and_curvatures(self, h: Float, centred: bool) -> tuple[Float, Float]:
        """The weighted means of the columns, zero if not centred, and the diagonal of `gram`."""
        means, squares, total = np.zeros(self.W.size), np.zeros(self.W.size), float(h.sum())
        if centred and total > 0.0:
            _means(self.vectors, h, total, means)
        _squares(self.vectors, h, squares)
        return means, np.maximum(squares - total * means * means, 0.0)

    def gram(self, h: Float, centred: bool) -> tuple[Float, Float]:
        """``(X_W - 1 m^T)^T diag(h) (X_W - 1 m^T)`` and the weighted means ``m``, which are zero if not centred."""
        m, n = self.W.size, self.n_samples
        G, means, total = np.zeros((m, m)), np.zeros(m), float(h.sum())
        if centred and total > 0.0:
            _means(self.vectors, h, total, means)
        if isinstance(self.vectors, DenseVectors):
            roots = np.sqrt(h)
            for start in range(0, n, SAMPLES):
                stop = min(start + SAMPLES, n)
                scaled = (self.vectors.X[:, start:stop] - means[:, None]) * roots[start:stop]
                G += scaled @ scaled.T
            return G, means
        _weighted_gram(self._rows, self._columns, self._values, h, means, total, G)
        return G, means


@compiled
def _copy_dense(X: Array, W: Index, height: float, out: Float) -> None:
    """Sets: ``out``."""
    for k in range(W.shape[0]):
        if W[k] < X.shape[0]:
            out[k] = X[W[k]]
        else:
            out[k] = height


@compiled
def _copy_sparse(
    own: SparseVectors, W: Index, d: int, height: float, to: SparseVectors, rows: Index, columns: Array, values: Float
) -> None:
    """Copy columns, and sort them by rows too: each row has its columns in their order. Sets: the last four."""
    at = 0
    for k in range(W.shape[0]):
        if W[k] < d:
            for e in range(own.indptr[W[k]], own.indptr[W[k] + 1]):
                to.data[at], to.indices[at] = own.data[e], own.indices[e]
                rows[own.indices[e] + 1] += 1
                at += 1
        else:
            for i in range(rows.shape[0] - 1):
                to.data[at], to.indices[at] = height, i
                rows[i + 1] += 1
                at += 1
    for i in range(rows.shape[0] - 1):
        rows[i + 1] += rows[i]
    for k in range(W.shape[0]):
        for e in range(to.indptr[k], to.indptr[k + 1]):
            i = to.indices[e]
            columns[rows[i]], values[rows[i]] = k, to.data[e]
            rows[i] += 1
    for i in range(rows.shape[0] - 1, 0, -1):
        rows[i] = rows[i - 1]
    rows[0] = 0


@compiled
def _add_columns(vectors: DenseVectors | SparseVectors, w: Float, out: Float) -> None:
    """Sets: ``out``."""
    for a in range(w.shape[0]):
        if w[a] != 0.0:
            vectors.add(a, w[a], out)


@compiled
def _means(vectors: DenseVectors | SparseVectors, h: Float, total: float, means: Float) -> None:
    """Weighted means of the columns. Sets: ``means``."""
    for a in range(means.shape[0]):
        means[a] = vectors.dot(a, h) / total


@compiled
def _squares(vectors: DenseVectors | SparseVectors, h: Float, squares: Float) -> None:
    """Weighted sums of squares of the columns. Sets: ``squares``."""
    for a in range(squares.shape[0]):
        squares[a] = vectors.weighted_square(a, h)


@compiled
def _weighted_gram(rows: Index, columns: Array, values: Float, h: Float, means: Float, total: float, G: Float) -> None:
    """Products of sparse columns: the lower triangle, row by row, and then the rest. Sets: ``G``, which was zero."""
    for i in range(h.shape[0]):
        if h[i] > 0.0:
            ours, theirs = columns[rows[i] : rows[i + 1]], values[rows[i] : rows[i + 1]]
            for k in range(ours.shape[0]):
                x, row = h[i] * theirs[k], G[ours[k]]
                for e in range(k + 1):
                    row[ours[e]] += x * theirs[e]
    for a in range(means.shape[0]):
        shift, row = total * means[a], G[a]
        for b in range(a + 1):
            row[b] -= shift * means[b]
            G[b, a] = row[b]
