"""A matrix seen as rows, dense or sparse, float32 or float64, without copies.

Compiled loops see ``DenseVectors`` or ``SparseVectors`` and call ``dot``, ``add`` and ``squared_length`` on either, so
that each loop is written once. Results are accumulated in float64 whatever the matrix holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin._jit import compiled, compiled_methods
from maxmargin.protocols import Array, Float

TILE_ROWS = 4096  # at a time, where a copy of rows is needed
Matrix: TypeAlias = Any  # a 2-d ndarray or a scipy sparse array or matrix


@compiled_methods
class DenseVectors(NamedTuple):
    """The rows of a C-contiguous matrix."""

    X: Array

    def dot(self, i: int, w: Float) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            total += x[k] * w[k]
        return total

    def add(self, i: int, step: float, w: Float) -> None:
        x = self.X[i]
        for k in range(x.shape[0]):
            w[k] += step * x[k]

    def add_squares(self, i: int, weight: float, w: Float) -> None:
        x = self.X[i]
        for k in range(x.shape[0]):
            w[k] += weight * x[k] * x[k]

    def squared_length(self, i: int) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            v = np.float64(x[k])
            total += v * v
        return total


@compiled_methods
class SparseVectors(NamedTuple):
    """The rows of a CSR matrix."""

    data: Array
    indices: Array
    indptr: Array

    def dot(self, i: int, w: Float) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[k] * w[self.indices[k]]
        return total

    def add(self, i: int, step: float, w: Float) -> None:
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += step * self.data[k]

    def add_squares(self, i: int, weight: float, w: Float) -> None:
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += weight * self.data[k] * self.data[k]

    def squared_length(self, i: int) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            v = np.float64(self.data[k])
            total += v * v
        return total


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse array or matrix."""
    return bool(sp.issparse(X))


def vectors_of(X: Matrix) -> DenseVectors | SparseVectors:
    """The rows of ``X`` for compiled loops. Copies only what is not float32/float64, C-contiguous or CSR already."""
    if is_sparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # norms need each entry once; the user's matrix is left as it is
            X = X.copy()
            X.sum_duplicates()
        return SparseVectors(_as_float(X.data), X.indices, X.indptr.astype(np.int64, copy=False))
    return DenseVectors(np.ascontiguousarray(_as_float(np.asarray(X))))


def _as_float(values: Array) -> Array:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


class Rows:
    """The map ``w -> X w`` for a matrix stored by rows."""

    def __init__(self, X: Matrix) -> None:
        self.vectors = vectors_of(X)
        self.n_samples, self.n_features = X.shape

    def apply(self, w: Float) -> Float:
        """``X w``."""
        return products_with(self.vectors, self.n_samples, w)

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        return combination(self.vectors, alpha, self.n_features)

    def squared_lengths(self) -> Float:
        """Squared norms of the rows."""
        return squared_lengths(self.vectors, self.n_samples)

    def weighted_gram(self, h: Float) -> Float:
        """``X^T diag(h) X`` for weights ``h >= 0``; rows of weight zero cost nothing."""
        if isinstance(self.vectors, DenseVectors):  # matrix products are many times faster than outer products
            out = np.zeros((self.n_features, self.n_features))
            used = np.flatnonzero(h)
            for start in range(0, used.size, TILE_ROWS):
                some = used[start : start + TILE_ROWS]
                tile = self.vectors.X[some] * np.sqrt(h[some])[:, None]
                out += tile.T @ tile
            return out
        lower = outer_products(self.vectors, h, self.n_features)
        return lower + np.tril(lower, -1).T

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0


@compiled
def products_with(vectors: Any, count: int, w: Float) -> Float:
    """Inner product of every vector with ``w``."""
    out = np.empty(count)
    for i in range(count):
        out[i] = vectors.dot(i, w)
    return out


@compiled
def outer_products(vectors: SparseVectors, h: Float, d: int) -> Float:
    """Lower triangle of ``sum_i h_i (vector i) (vector i)^T`` for sparse vectors."""
    H = np.zeros((d, d))
    data, indices, indptr = vectors.data, vectors.indices, vectors.indptr
    for i in range(h.shape[0]):
        if h[i] > 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                scaled = h[i] * data[k]
                for m in range(indptr[i], k + 1):  # indices ascend: the lower triangle
                    H[indices[k], indices[m]] += scaled * data[m]
    return H


@compiled
def combination(vectors: Any, weights: Float, length: int) -> Float:
    """``sum_i weights_i * vector i``."""
    out = np.zeros(length)
    for i in range(weights.shape[0]):
        if weights[i] != 0.0:
            vectors.add(i, weights[i], out)
    return out


@compiled
def squared_lengths(vectors: Any, count: int) -> Float:
    """Squared norm of every vector."""
    out = np.empty(count)
    for i in range(count):
        out[i] = vectors.squared_length(i)
    return out
