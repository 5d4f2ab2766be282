"""Samples in one precision, as kernels see them: pairs are measured in tiles, by matrix products where possible.

A tile holds the measurements of a few samples (``left``) with a stretch of the others. Dense samples are multiplied by
BLAS. Sparse ones are never made dense: a few rows are laid out as columns of a small dense table of the features that
they use, and every other row is swept over it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from maxmargin._jit import compiled
from maxmargin.operators.rows import Matrix, Sparse, _as_float, is_sparse, squared_lengths, vectors_of
from maxmargin.protocols import Array, Float, Index

STRETCH = 4096  # rows converted at a time
TABLE_COLUMNS = 64  # a constant, so that the innermost loops have no remainder
SWEPT = 16  # rows whose results are written together


class DensePoints:
    """Rows of a dense matrix, minus ``centre``.

    Distances lose their digits where the points are far from the origin, so kernels of distances move it.
    """

    rows_per_tile = 512

    def __init__(self, X: Array, centre: Float | None, dtype: DTypeLike, sq: Array | None = None) -> None:
        self.X, self.centre = X, centre
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.sq = self._squared_lengths() if sq is None else sq

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def terms(self) -> int:
        """Of an inner product."""
        return int(self.X.shape[1])

    @cached_property
    def largest(self) -> float:
        """Squared length."""
        return float(self.sq.max(initial=0.0))

    @property
    def converted(self) -> bool:
        """Whether the rows are stored as they are used."""
        return self.centre is None and self.X.dtype == self.dtype

    def stored(self) -> DensePoints:
        """The same points with every row converted: for many tiles of few rows."""
        if self.converted:
            return self
        X = np.empty(self.X.shape, dtype=self.dtype)
        for start in range(0, len(self), STRETCH):
            X[start : start + STRETCH] = self._tile(start, start + STRETCH)
        return DensePoints(X, None, self.dtype, self.sq)

    def take(self, samples: Index) -> DensePoints:
        """Some of the points."""
        return DensePoints(self.X[samples], self.centre, self.dtype, self.sq[samples])

    def left(self, samples: Index) -> Array:
        """Points for one side of a tile."""
        return self._convert(self.X[samples])

    def products(self, left: Array, start: int, stop: int, out: Array) -> None:
        """Inner products of ``left`` with a stretch of the points. Sets: ``out``."""
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(left, self._tile(start, stop).T, out=out)

    def distances(self, left: Array, start: int, stop: int, out: Array) -> None:
        """Manhattan distances of ``left`` to a stretch of the points. Sets: ``out``."""
        _manhattan(left, np.ascontiguousarray(self._tile(start, stop)), out)

    def _tile(self, start: int, stop: int) -> Array:
        return self._convert(self.X[start:stop])

    def _convert(self, X: Array) -> Array:
        if self.centre is not None:
            X = X - self.centre
        return X.astype(self.dtype, copy=False)

    def _squared_lengths(self) -> Array:
        sq = np.empty(len(self))
        for start in range(0, len(self), STRETCH):
            tile = np.ascontiguousarray(self._tile(start, start + STRETCH))
            sq[start : start + STRETCH] = squared_lengths(vectors_of(tile), tile.shape[0])
        return sq.astype(self.dtype)


class _Table(NamedTuple):
    """A few sparse rows as columns of a dense table of the features that they use."""

    values: Array
    row_of_feature: Array  # -1 for features that none of them has


class SparsePoints:
    """Rows of a CSR matrix."""

    rows_per_tile = TABLE_COLUMNS
    converted = True

    def __init__(self, X: Sparse, dtype: DTypeLike, sq: Array | None = None) -> None:
        if not X.has_canonical_format:  # tables need each entry once; the user's matrix is left as it is
            X = X.copy()
            X.sum_duplicates()
        self.X = X
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        vectors = vectors_of(X)
        self.data = vectors.data.astype(dtype, copy=False)  # type: ignore[union-attr]
        self.indices, self.indptr = vectors.indices, vectors.indptr  # type: ignore[union-attr]
        self.sq = squared_lengths(vectors, X.shape[0]).astype(dtype) if sq is None else sq

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def terms(self) -> int:
        """Of an inner product, at most."""
        return int(np.diff(self.X.indptr).max(initial=0))

    @cached_property
    def largest(self) -> float:
        """Squared length."""
        return float(self.sq.max(initial=0.0))

    def stored(self) -> SparsePoints:
        """Nothing to convert."""
        return self

    def take(self, samples: Index) -> SparsePoints:
        """Some of the points."""
        return SparsePoints(self.X[samples], self.dtype, self.sq[samples])

    def left(self, samples: Index) -> _Table:
        """Points for one side of a tile."""
        few = self.X[samples].tocsc()
        used = np.flatnonzero(np.diff(few.indptr))
        row_of_feature = np.full(few.shape[1], -1, dtype=np.int32)
        row_of_feature[used] = np.arange(used.size, dtype=np.int32)
        # As many columns as a full tile, so that the sweep always has the same inner loop.
        values = np.zeros((used.size, self.rows_per_tile), dtype=self.dtype)
        values[np.repeat(np.arange(used.size), np.diff(few.indptr)[used]), few.indices] = few.data
        return _Table(values, row_of_feature)

    def products(self, left: _Table, start: int, stop: int, out: Array) -> None:
        """Inner products of ``left`` with a stretch of the points. Sets: ``out``."""
        _sweep(left.values, left.row_of_feature, self.data, self.indices, self.indptr, start, stop, out)

    def distances(self, left: _Table, start: int, stop: int, out: Array) -> None:
        """Manhattan distances of ``left`` to a stretch of the points. Sets: ``out``."""
        _sweep_distances(left.values, left.row_of_feature, self.data, self.indices, self.indptr, start, stop, out)


Points: TypeAlias = DensePoints | SparsePoints


def points_of(X: Matrix, centre: Float | None, dtype: DTypeLike) -> Points:
    """The rows of ``X`` in a precision; only dense ones can be centred."""
    if is_sparse(X):
        return SparsePoints(X.tocsr(), dtype)
    return DensePoints(_as_float(np.asarray(X)), centre, dtype)


@compiled
def _manhattan(left: Array, right: Array, out: Array) -> None:
    for i in range(left.shape[0]):
        x = left[i]
        for j in range(right.shape[0]):
            z = right[j]
            total = x[0] - x[0]  # zero in the precision of the data
            for k in range(x.shape[0]):
                total += abs(x[k] - z[k])
            out[i, j] = total


@compiled
def _sweep(
    values: Array, row_of_feature: Array, data: Array, indices: Array, indptr: Array, start: int, stop: int, out: Array
) -> None:
    """Inner products of the columns of the table ``values`` with sparse rows."""
    zero = values.dtype.type(0.0)
    totals = np.empty((SWEPT, TABLE_COLUMNS), dtype=values.dtype)
    for first in range(start, stop, SWEPT):
        count = min(SWEPT, stop - first)
        for s in range(count):
            total = totals[s]
            for i in range(TABLE_COLUMNS):
                total[i] = 0
            # Four entries at a time: the totals are read and written a quarter as often.
            waiting, r0, r1, r2, v0, v1, v2 = 0, 0, 0, 0, zero, zero, zero
            for k in range(indptr[first + s], indptr[first + s + 1]):
                row = row_of_feature[indices[k]]
                if row < 0:
                    continue
                if waiting < 3:
                    r0, r1, r2, v0, v1, v2, waiting = r1, r2, row, v1, v2, data[k], waiting + 1
                    continue
                c0, c1, c2, c3, v3 = values[r0], values[r1], values[r2], values[row], data[k]
                for i in range(TABLE_COLUMNS):
                    total[i] += (v0 * c0[i] + v1 * c1[i]) + (v2 * c2[i] + v3 * c3[i])
                waiting, v0, v1, v2 = 0, zero, zero, zero
            if waiting:
                c0, c1, c2 = values[r0], values[r1], values[r2]
                for i in range(TABLE_COLUMNS):
                    total[i] += (v0 * c0[i] + v1 * c1[i]) + v2 * c2[i]
        _write_columns(totals, count, out, first - start)


@compiled
def _sweep_distances(
    values: Array, row_of_feature: Array, data: Array, indices: Array, indptr: Array, start: int, stop: int, out: Array
) -> None:
    """Manhattan distances of the columns of the table ``values`` to sparse rows.

    Every feature counts ``|x|`` at first; those that the row has are corrected to ``|z - x|``.
    """
    lengths = np.zeros(TABLE_COLUMNS, dtype=values.dtype)
    for row in range(values.shape[0]):
        for i in range(TABLE_COLUMNS):
            lengths[i] += abs(values[row, i])
    totals = np.empty((SWEPT, TABLE_COLUMNS), dtype=values.dtype)
    for first in range(start, stop, SWEPT):
        count = min(SWEPT, stop - first)
        for s in range(count):
            total = totals[s]
            total[:] = lengths
            for k in range(indptr[first + s], indptr[first + s + 1]):
                row = row_of_feature[indices[k]]
                v = data[k]
                if row >= 0:
                    column = values[row]
                    for i in range(TABLE_COLUMNS):
                        total[i] += abs(v - column[i]) - abs(column[i])
                else:
                    for i in range(TABLE_COLUMNS):
                        total[i] += abs(v)
        _write_columns(totals, count, out, first - start)


@compiled
def _write_columns(totals: Array, count: int, out: Array, start: int) -> None:
    """``out[:, start : start + count] = totals.T``, a few at a time: single writes far apart would be slow."""
    for i in range(out.shape[0]):
        row = out[i, start : start + count]
        for s in range(count):
            row[s] = totals[s, i]
