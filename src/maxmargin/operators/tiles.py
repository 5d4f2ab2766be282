"""Kernel values of points in tiles, which stay near the processor between a matrix product and the kernel's map."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, roundings
from maxmargin.operators.differences import Measuring, sum_differences
from maxmargin.operators.points import DensePoints, Points, SparsePoints, points_of
from maxmargin.operators.rows import Matrix, is_sparse, scores_of, squared_lengths, vectors_of
from maxmargin.operators.vectors import SparseVectors
from maxmargin.parts.kernels import in_precision
from maxmargin.protocols import Array, Float, Index, Kernel
from maxmargin.threads import Workers

TILE_BYTES = 2**21  # of a tile, so that it stays in the processor's cache
WIDEST_TILE = 4096  # columns
NARROW_TILE = 256  # columns; tiles are not narrowed further to have one for each thread
LEAST_TILES = 4  # into which the columns are divided, if that does not make them too narrow
FEW_SUMS = 4  # up to so many are added one by one, because a matrix product would first copy the tile
LEFT_VALUES = 2**22  # of the samples that are laid out for tiles at a time
PREDICTED_AT_A_TIME = 2**14  # samples
SYMMETRIC_TILE, SYMMETRIC_TABLE = (480, 240), (64, 1920)  # rows and columns of a tile; multiples of each other
SUMMED = 120  # values in a row: shorter sums, which are added up then, round less
LAID_OUT = 4  # times as much as for tiles in general may be laid out, if that halves the work


class Tiles:
    """Kernel values of points, a tile at a time: measured by matrix products, mapped in place, used at once."""

    def __init__(self, kernel: Kernel, workers: Workers) -> None:
        self.kernel, self.workers = kernel, workers
        self._scratch = threading.local()

    def write_rows(
        self, left: Points, samples: Index, columns: Points, scale: float, shift: float, out: Array, slots: Index
    ) -> None:
        """``out[slots] = scale * k(left[samples], columns) + shift``."""
        kernel, number = in_precision(self.kernel, columns.dtype.type), columns.dtype.type
        pairs = self._pairs(left, columns)

        def work(tiles: Iterator[tuple[slice, Any, slice]]) -> None:
            for rows, some, stretch in tiles:
                m, sq_left, sq_right = pairs.measure(some, samples[rows], stretch)
                _to_rows(kernel, m, sq_left, sq_right, number(scale), number(shift), out, slots[rows], stretch.start)

        for group in stretches(samples.size, _rows_at_a_time(left)):
            tiles = []
            for rows in stretches(group.stop - group.start, left.rows_per_tile, group.start):
                some = left.left(samples[rows])
                tiles += [(rows, some, part) for part in self._tiles_for(rows, columns)]
            self.workers.run(work, tiles)

    def sums(self, left: Points, weights: Float, columns: Points) -> Float:
        """``weights @ k(left, columns)``: one row per row of ``weights``."""
        kernel = in_precision(self.kernel, columns.dtype.type)
        support = np.flatnonzero(weights.any(axis=0))
        w, pairs = weights[:, support].astype(columns.dtype), self._pairs(left, columns)
        out = np.zeros((weights.shape[0], len(columns)))
        tall = slice(0, min(left.rows_per_tile, max(1, support.size)))

        def work(tiles: Iterator[tuple[list[tuple[slice, Any]], slice]]) -> None:
            for lefts, stretch in tiles:
                for rows, some in lefts:
                    m, *sq = pairs.measure(some, support[rows], stretch)
                    _map(kernel, m, *sq)
                    if w.shape[0] <= FEW_SUMS:
                        for total, part in zip(out, w, strict=True):
                            total[stretch] += _summed(part[rows], m)
                    else:
                        out[:, stretch] += w[:, rows] @ m

        for group in stretches(support.size, _rows_at_a_time(left)):
            chunks = list(stretches(group.stop - group.start, left.rows_per_tile, group.start))
            lefts = [(rows, left.left(support[rows])) for rows in chunks]
            self.workers.run(work, [(lefts, part) for part in self._tiles_for(tall, columns)])
        return out

    def symmetric_sums(self, points: Points, w: Float) -> Float:
        """``k(points, points) @ w`` in float64: the values of one half of the matrix serve both."""
        n = len(points)
        if n > LAID_OUT * _rows_at_a_time(points):
            return self.sums(points, w[None, :], points)[0]
        height, width = SYMMETRIC_TILE if isinstance(points, DensePoints) else SYMMETRIC_TABLE
        lefts = [(rows, points.left(np.arange(rows.start, rows.stop))) for rows in stretches(n, height)]
        units = list(stretches(n, max(height, width)))  # whose columns see each other twice
        out, mirrored = np.zeros(n), [np.zeros(unit.start) for unit in units]
        pairs = self._pairs(points, points)

        def work(numbers: Iterator[int]) -> None:
            for number in numbers:
                unit, back = units[number], mirrored[number]
                for stretch in stretches(unit.stop - unit.start, width, unit.start):
                    for rows, some in lefts[: -(-unit.stop // height)]:
                        m, *sq = pairs.measure(some, rows, stretch)
                        _map(self.kernel, m, *sq)
                        out[stretch] += _summed(w[rows], m)
                        if rows.start < unit.start:
                            back[rows] += _summed(w[stretch], m.T)

        self.workers.run(work, range(len(units) - 1, -1, -1))  # the longest first
        for part in mirrored:
            out[: part.size] += part
        return out

    @staticmethod
    def depth(left: Points, terms: int) -> float:
        """How many roundings a term of a float64 sum over so many samples goes through at most, in any of these sums.

        It is multiplied, and added to others of its piece, of its tile, and of all tiles on both sides of the diagonal.
        """
        tile = max(left.rows_per_tile, *SYMMETRIC_TILE) if isinstance(left, DensePoints) else max(SYMMETRIC_TABLE)
        tiles = terms / min(left.rows_per_tile, *(SYMMETRIC_TILE if isinstance(left, DensePoints) else SYMMETRIC_TABLE))
        return SUMMED + tile / SUMMED + 3.0 * (tiles + 1.0) + 8.0

    def _tiles_for(self, rows: slice, columns: Points) -> list[slice]:
        width = min(WIDEST_TILE, TILE_BYTES // (columns.dtype.itemsize * max(1, rows.stop - rows.start)))
        width -= 16 if width > 64 else 0  # rows whose length is a power of two compete for the same cache lines
        share = -(-len(columns) // (16 * LEAST_TILES)) * 16  # or some threads would have nothing to do
        return list(stretches(len(columns), min(width, max(share, NARROW_TILE))))

    def _pairs(self, left: Points, columns: Points) -> _Pairs:
        return _Pairs(Measuring.of(self.kernel, columns, left), left, columns, self._scratch)


class _Pairs:
    """Points of two sides, to be measured in tiles."""

    def __init__(self, measuring: Measuring, left: Points, columns: Points, scratch: threading.local) -> None:
        self.measuring, self.left, self.columns, self._scratch = measuring, left, columns, scratch
        self.cancel = measuring.cancels(left.largest, columns.largest)

    def measure(self, some: Any, samples: Index | slice, stretch: slice) -> tuple[Array, Array, Array]:
        """The measurements of a tile and the squared lengths of both sides that belong to them.

        Where measurements cancel, squared distances are summed from differences, and the lengths are zero.
        """
        sq_left, sq_right = self.left.sq[samples], self.columns.sq[stretch]
        m = self._memory(sq_left.size, sq_right.size)
        by_distance = self.measuring.kernel.traits.by_distance
        (self.columns.distances if by_distance else self.columns.products)(some, stretch.start, stretch.stop, m)
        if self.cancel and self.measuring.cancels(sq_left.max(initial=0.0), sq_right.max(initial=0.0)):
            sum_differences(self.measuring, self.left, samples, self.columns, stretch, m)
            return m, np.zeros_like(sq_left), np.zeros_like(sq_right)
        return m, sq_left, sq_right

    def _memory(self, height: int, width: int) -> Array:
        """Room for a tile, which this thread uses again and again."""
        dtype = self.columns.dtype
        memory = getattr(self._scratch, dtype.name, None)
        if memory is None or memory.size < height * width:
            memory = np.empty(max(TILE_BYTES // dtype.itemsize, height * width), dtype=dtype)
            setattr(self._scratch, dtype.name, memory)
        out: Array = memory[: height * width].reshape(height, width)
        return out


def single_errors(kernel: Kernel, X: Matrix, Z: Matrix) -> Float:
    """For every row of ``X``, a bound on the error of float32 sums of ``k(X, Z)``, relative to the sums of the weights.

    For kernels of differences with values up to 1. Points are centred by the mean of ``Z``, which may make some longer.
    """
    centre = centre_for(kernel, Z, np.float32)
    left, vectors = points_of(Z, centre, np.float32), vectors_of(X)
    sq, terms = squared_lengths(vectors, X.shape[0]), X.shape[1]
    if isinstance(left, SparsePoints) and isinstance(vectors, SparseVectors):
        terms = max(left.terms, int(np.diff(vectors.indptr).max(initial=0)))
    if centre is not None:
        sizes = sq + float(centre @ centre)
        sq = np.maximum(sizes - 2.0 * scores_of(X, centre[None])[:, 0], 0.0)
        sq += roundings(2.0 * terms + 8.0, DOUBLE) * 2.0 * sizes
    measuring = Measuring.of(kernel, left)._replace(terms=float(terms))
    return np.asarray(measuring.as_sums(sq, left.largest, left.rows_per_tile))


def centre_for(kernel: Kernel, X: Matrix, dtype: DTypeLike) -> Float | None:
    """The mean of dense samples, for kernels that do not notice a translation but whose rounding errors do.

    Distances in float64 are sums of differences of the samples as they are: to centre them first would only round.
    """
    exact = kernel.traits.by_distance and np.dtype(dtype) == np.float64
    if is_sparse(X) or not kernel.traits.of_differences or exact or X.shape[0] == 0:
        return None
    with np.errstate(over="ignore"):
        mean = np.asarray(X.mean(axis=0, dtype=np.float64))
    return mean if np.isfinite(mean).all() else None


def kernel_sums(kernel: Kernel, X: Matrix, Z: Matrix, weights: Float, dtype: DTypeLike, workers: Workers) -> Float:
    """``k(X, Z) @ weights.T`` with kernel values in a precision: prediction."""
    centre, tiles = centre_for(kernel, Z, dtype), Tiles(kernel, workers)
    left = points_of(Z, centre, dtype)
    out = np.empty((X.shape[0], weights.shape[0]))
    for part in stretches(X.shape[0], PREDICTED_AT_A_TIME):
        out[part] = tiles.sums(left, weights, points_of(_alike(X[part], Z), centre, dtype)).T
    return out


def _alike(X: Matrix, Z: Matrix) -> Matrix:
    """``X``, dense or sparse as ``Z`` is."""
    if is_sparse(X) == is_sparse(Z):
        return X
    return X.toarray() if is_sparse(X) else sp.csr_array(X)


def _rows_at_a_time(left: Points) -> int:
    """How many samples may be laid out for tiles at once."""
    width = left.X.shape[1] if isinstance(left, DensePoints) else 8 * left.rows_per_tile
    return max(left.rows_per_tile, LEFT_VALUES // max(1, width))


def stretches(length: int, step: int, start: int = 0) -> Iterator[slice]:
    """Slices of at most ``step`` that cover ``start .. start + length``."""
    stop = start + length
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))


def _summed(weights: Array, m: Array) -> Array:
    """``weights @ m``, as a sum of sums of ``SUMMED`` terms."""
    if weights.size <= SUMMED:
        return np.asarray(weights @ m)
    total = weights[:SUMMED] @ m[:SUMMED]
    for part in stretches(weights.size - SUMMED, SUMMED, SUMMED):
        total += weights[part] @ m[part]
    return np.asarray(total)


@compiled
def _to_rows(
    kernel: Kernel,
    m: Array,
    sq_left: Array,
    sq_right: Array,
    scale: float,
    shift: float,
    out: Array,
    slots: Index,
    start: int,
) -> None:
    """Turn measurements into kernel values, scaled and shifted, in rows of ``out``."""
    for i in range(m.shape[0]):
        measured, sq = m[i], sq_left[i]
        row = out[slots[i], start : start + m.shape[1]]
        for j in range(m.shape[1]):
            row[j] = scale * kernel.similarity(measured[j], sq, sq_right[j]) + shift


@compiled
def _map(kernel: Kernel, m: Array, sq_left: Array, sq_right: Array) -> None:
    """Turn measurements into kernel values in place."""
    for i in range(m.shape[0]):
        row, sq = m[i], sq_left[i]
        for j in range(m.shape[1]):
            row[j] = kernel.similarity(row[j], sq, sq_right[j])
