"""Inner products of some of the columns of a matrix, weighted and centred: a matrix that grows with its columns."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from maxmargin._jit import compiled, compiled_in_place
from maxmargin.operators.columns import Columns
from maxmargin.operators.vectors import DenseVectors, SparseVectors
from maxmargin.protocols import Array, Float, Index

LEAST_ROOM = 128  # columns
TALL, STRETCH, TALL_GROUPS = 2**15, 2048, 16  # samples, of which so many are multiplied at a time, for so many sums
PIECE = 16  # columns whose products one thread computes at a time
REBUILD = 64, 0.25  # columns that are added before all are sorted by rows again: so many, or this share


class _ByRows:
    """Some sparse columns, sorted by rows; ``upto`` says, column by column, where each entry's part of its row ends."""

    def __init__(self, vectors: SparseVectors, some: Index, n_samples: int) -> None:
        ends = vectors.indptr.view(np.int64)
        entries = int((ends[some + 1] - ends[some]).sum())
        self.starts = np.zeros(n_samples + 1, dtype=np.int64)
        self.columns, self.values = np.empty(entries, dtype=np.int32), np.empty(entries)
        self.upto, self.places = np.empty(entries, dtype=np.int64), np.append(0, np.cumsum(ends[some + 1] - ends[some]))
        _by_rows(vectors, some, self.starts, self.columns, self.values, self.upto)


class ColumnGram:
    """``(X_W - 1 m^T)^T diag(h) (X_W - 1 m^T)`` for the columns ``W`` that somebody asked for.

    ``m`` are the weighted means of these columns, or zero if they are not centred. Columns are added at the end, and
    none is ever taken out; sparse ones are centred without being filled.

    Attributes
    ----------
    size : int
        Number of columns.
    W : array of shape (room,)
        Their numbers.
    place : array of shape (n_features,)
        The position of each column of the matrix, or -1.
    G : array of shape (room, room)
        Their products.
    means : array of shape (room,)
        Of the columns.

    """

    def __init__(self, columns: Columns, h: Float, centred: bool) -> None:
        self.columns, self.h, self.centred = columns, h, centred
        self.total = float(h.sum())
        self.size = 0
        self.place = np.full(columns.n_features, -1, dtype=np.int64)
        self.dense = isinstance(columns.vectors, DenseVectors)
        self.tall = self.dense and columns.n_samples >= TALL
        self.roots = np.sqrt(h)
        self._lock = threading.Lock()
        self._sorted: _ByRows | None = None
        self._sorted_size = 0
        self.G, self.W, self.means = np.empty((0, 0)), np.empty(0, dtype=np.int64), np.empty(0)
        self._scaled = np.empty((0, columns.n_samples))

    def _make_room(self, room: int) -> None:
        """Sets: all arrays, with what is in them."""
        m, n = self.size, self.columns.n_samples
        G, W, means = np.empty((room, room)), np.empty(room, dtype=np.int64), np.zeros(room)
        scaled = np.empty((room if self.dense and not self.tall else 0, n))
        if m:
            G[:m, :m], W[:m], means[:m] = self.G[:m, :m], self.W[:m], self.means[:m]
            scaled[:m] = self._scaled[:m]  # none of tall ones
        self.G, self.W, self.means, self._scaled = G, W, means, scaled

    def add(self, new: Index) -> None:
        """Add columns that are not there yet. Sets: everything."""
        with self._lock:
            new = new[self.place[new] < 0]
            m = self.size + new.size
            if m > self.W.size:
                self._make_room(max(m, 2 * self.W.size, LEAST_ROOM))
            start, self.size = self.size, m
            self.W[start:m] = new
            self.place[new] = np.arange(start, m)
            vectors = self.columns.vectors
            if self.tall and isinstance(vectors, DenseVectors):
                self._add_tall(vectors.X, start)
            elif isinstance(vectors, DenseVectors):
                scaled, means = self._scaled[start:m], self.means[start:m]
                centred_columns(vectors.X, new, self.h, self.roots, self.centred, scaled, means)
                block = self._scaled[start:m] @ self._scaled[:m].T
                self.G[start:m, :m], self.G[:start, start:m] = block, block[:, :start].T
            else:
                self._add_sparse(vectors, start)

    def _add_tall(self, X: Array, start: int) -> None:
        """Products of long columns, a stretch of samples at a time: no copy of whole columns. Sets: ``G, means``."""
        m, n = self.size, self.columns.n_samples
        stretches = range(0, n, STRETCH)
        if self.centred:
            sums = np.zeros((len(stretches), m - start))

            def add_up(starts: Iterator[int]) -> None:
                for first in starts:
                    some = slice(first, min(first + STRETCH, n))
                    sums[first // STRETCH] = X[self.W[start:m], some] @ self.h[some]

            self.columns.transposed.workers.run(add_up, stretches)
            self.means[start:m] = sums.sum(axis=0) / self.total
        groups = [stretches[k::TALL_GROUPS] for k in range(min(TALL_GROUPS, len(stretches)))]
        blocks = np.zeros((len(groups), m - start, m))

        def multiply(numbers: Iterator[int]) -> None:
            scaled = np.empty((m, STRETCH))
            for k in numbers:
                for first in groups[k]:
                    part = scaled[:, : min(STRETCH, n - first)]
                    _scaled_part(X, self.W[:m], self.means, self.roots, first, part)
                    blocks[k] += part[start:] @ part.T

        self.columns.transposed.workers.run(multiply, range(len(groups)))
        block = blocks.sum(axis=0)
        self.G[start:m, :m], self.G[:start, start:m] = block, block[:, :start].T

    def _add_sparse(self, vectors: SparseVectors, start: int) -> None:
        m, n = self.size, self.columns.n_samples
        if self.centred:
            _means(vectors, self.W[start:m], self.h, self.total, self.means[start:m])
        if self._sorted is None or m - self._sorted_size > max(REBUILD[0], REBUILD[1] * self._sorted_size):
            self._sorted, self._sorted_size = _ByRows(vectors, self.W[:m], n), m
        known = self._sorted_size
        parts = [(0, known, self._sorted)]
        if m > known:
            parts.append((known, m, _ByRows(vectors, self.W[known:m], n)))

        def work(pieces: Iterator[slice]) -> None:
            for some in pieces:
                for low, high, part in parts:
                    by_rows = part.starts, part.columns, part.values, part.upto, part.places
                    _products(vectors, self.W, some.start, some.stop, low, high, self.h, *by_rows, self.G)

        pieces = [slice(first, min(first + PIECE, m)) for first in range(start, m, PIECE)]
        self.columns.transposed.workers.run(work, pieces)
        _finish(self.G, start, m, self.means, self.total if self.centred else 0.0)


def gram_of(columns: Columns, h: Float, centred: bool) -> ColumnGram:
    """That which the last fit with the same weights left behind, or an empty one."""
    kept = columns.kept
    if isinstance(kept, ColumnGram) and kept.centred == centred and np.array_equal(kept.h, h):
        return kept
    columns.kept = gram = ColumnGram(columns, h, centred)
    return gram


@compiled
def _scaled_part(X: Array, some: Index, means: Float, roots: Float, first: int, out: Float) -> None:
    """Entries of some rows of ``X`` from one column of it on, minus a mean, times roots of weights. Sets: ``out``."""
    root = roots[first : first + out.shape[1]]
    for k in range(some.shape[0]):
        x, to, mean = X[some[k], first : first + out.shape[1]], out[k], means[k]
        for i in range(x.shape[0]):
            to[i] = root[i] * (x[i] - mean)


@compiled
def centred_columns(X: Array, some: Index, h: Float, roots: Float, centred: bool, out: Float, means: Float) -> None:
    """Rows of ``out``: some rows of ``X`` minus their weighted means, times roots of the weights. Sets: ``means``."""
    total = 0.0
    for i in range(h.shape[0]):
        total += h[i]
    for k in range(some.shape[0]):
        x, to, mean = X[some[k]], out[k], 0.0
        if centred:
            for i in range(x.shape[0]):
                mean += h[i] * x[i]
            mean /= total
        means[k] = mean
        for i in range(x.shape[0]):
            to[i] = roots[i] * (x[i] - mean)


@compiled
def _means(vectors: SparseVectors, some: Index, h: Float, total: float, means: Float) -> None:
    """Weighted means of some sparse columns. Sets: ``means``."""
    for k in range(some.shape[0]):
        means[k] = vectors.dot(some[k], h) / total


@compiled
def _by_rows(vectors: SparseVectors, some: Index, starts: Index, columns: Array, values: Float, upto: Index) -> None:
    """Sort the entries of some columns by rows, with the columns' positions. Sets: the last four."""
    indices, indptr, place = vectors.indices, vectors.indptr, 0
    for k in range(some.shape[0]):
        for e in range(indptr[some[k]], indptr[some[k] + 1]):
            starts[indices[e] + 1] += 1
    for i in range(starts.shape[0] - 1):
        starts[i + 1] += starts[i]
    for k in range(some.shape[0]):
        for e in range(indptr[some[k]], indptr[some[k] + 1]):
            to = starts[indices[e]]
            columns[to], values[to] = k, vectors.data[e]
            starts[indices[e]] = upto[place] = to + 1
            place += 1
    for i in range(starts.shape[0] - 1, 0, -1):
        starts[i] = starts[i - 1]
    starts[0] = 0


@compiled_in_place
def _products(
    vectors: SparseVectors,
    W: Index,
    start: int,
    stop: int,
    low: int,
    high: int,
    h: Float,
    starts: Index,
    columns: Array,
    values: Float,
    upto: Index,
    places: Index,
    G: Float,
) -> None:
    """Weighted products of the columns at ``start:stop`` with those at ``low:high`` before them, sorted by rows."""
    for a in range(start, stop):
        row = G[a, low:high]
        row[:] = 0.0
        first, among = np.int64(vectors.indptr[W[a]]), a < high
        for e in range(first, np.int64(vectors.indptr[W[a] + 1])):
            i = vectors.indices[e]
            x = h[i] * vectors.data[e]
            end = upto[places[a - low] + e - first] if among else starts[i + 1]
            others, theirs = columns[starts[i] : end], values[starts[i] : end]
            for k in range(others.shape[0]):
                row[np.uint32(others[k])] += x * theirs[k]


@compiled
def _finish(G: Float, start: int, stop: int, means: Float, total: float) -> None:
    """Centre new rows, and copy them to the columns. Sets: ``G``."""
    for a in range(start, stop):
        shift, row = total * means[a], G[a]
        if shift != 0.0:
            for b in range(a + 1):
                row[b] -= shift * means[b]
    for a in range(start, stop):
        for b in range(a):
            G[b, a] = G[a, b]
