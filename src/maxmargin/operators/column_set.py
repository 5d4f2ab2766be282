"""Some of the columns of a matrix, in the order in which they were asked for."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators.columns import Columns
from maxmargin.operators.vectors import SparseVectors
from maxmargin.protocols import Float, Index

LEAST_ROOM = 128  # columns


class ColumnSet:
    """Sparse columns with their means and their products with themselves; none is ever taken out.

    Attributes
    ----------
    size : int
        Number of columns.
    W : array of shape (room,)
        Their numbers.
    place : array of shape (n_features,)
        The position of each column of the matrix, or -1.
    means, curvatures : array of shape (room,)
        Weighted means, or zero if columns are not centred, and weighted squares of the centred columns.

    """

    def __init__(self, columns: Columns, h: Float, centred: bool) -> None:
        self.columns, self.h, self.centred = columns, h, centred
        self.total = float(h.sum())
        self.size = 0
        self.place = np.full(columns.n_features, -1, dtype=np.int64)
        self.W, self.means, self.curvatures = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)

    def add(self, new: Index) -> None:
        """Add columns that are not there yet. Sets: everything."""
        new = new[self.place[new] < 0]
        start, m = self.size, self.size + new.size
        if m > self.W.size:
            more = max(m, 2 * self.W.size, LEAST_ROOM) - self.W.size
            self.W = np.append(self.W, np.zeros(more, dtype=np.int64))
            self.means, self.curvatures = (
                np.append(self.means, np.zeros(more)),
                np.append(self.curvatures, np.zeros(more)),
            )
        self.W[start:m], self.place[new], self.size = new, np.arange(start, m), m
        vectors = self.columns.vectors
        assert isinstance(vectors, SparseVectors)
        total = self.total if self.centred else 0.0
        _moments(vectors, new, self.h, total, self.means[start:m], self.curvatures[start:m])


@compiled
def _moments(vectors: SparseVectors, some: Index, h: Float, total: float, means: Float, curvatures: Float) -> None:
    """Means, and squares of the centred columns; of the columns as they are if the total is zero. Sets: both."""
    for k in range(some.shape[0]):
        square, moment = 0.0, 0.0
        for e in range(vectors.indptr[some[k]], vectors.indptr[some[k] + 1]):
            x, weight = vectors.data[e], h[vectors.indices[e]]
            square += weight * x * x
            moment += weight * x
        means[k] = moment / total if total > 0.0 else 0.0
        curvatures[k] = max(square - total * means[k] * means[k], 0.0)
