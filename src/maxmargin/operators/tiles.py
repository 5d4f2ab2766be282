"""Kernel values of points in tiles, which stay near the processor between a matrix product and the kernel's map."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from maxmargin._jit import compiled
from maxmargin.operators.points import DensePoints, Points, points_of
from maxmargin.operators.rows import Matrix, is_sparse
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
LAID_OUT = 4  # times as much as for tiles in general may be laid out, if that halves the work
SINGLE_ROUNDING = 6e-8  # unit roundoff of float32


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

        def work(tiles: Iterator[tuple[slice, Any, slice]]) -> None:
            for rows, some, stretch in tiles:
                m = self._measure(some, rows, columns, stretch)
                sq_left, sq_right = left.sq[samples[rows]], columns.sq[stretch]
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
        sq_left, w = left.sq[support], weights[:, support].astype(columns.dtype)
        out = np.zeros((weights.shape[0], len(columns)))
        tall = slice(0, min(left.rows_per_tile, max(1, support.size)))

        def work(tiles: Iterator[tuple[list[tuple[slice, Any]], slice]]) -> None:
            for lefts, stretch in tiles:
                for rows, some in lefts:
                    m = self._measure(some, rows, columns, stretch)
                    _map(kernel, m, sq_left[rows], columns.sq[stretch])
                    if w.shape[0] <= FEW_SUMS:
                        for total, part in zip(out, w, strict=True):
                            total[stretch] += part[rows] @ m
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

        def work(numbers: Iterator[int]) -> None:
            for number in numbers:
                unit, back = units[number], mirrored[number]
                for stretch in stretches(unit.stop - unit.start, width, unit.start):
                    for rows, some in lefts[: -(-unit.stop // height)]:
                        m = self._measure(some, rows, points, stretch)
                        _map(self.kernel, m, points.sq[rows], points.sq[stretch])
                        out[stretch] += w[rows] @ m
                        if rows.start < unit.start:
                            back[rows] += m @ w[stretch]

        self.workers.run(work, range(len(units) - 1, -1, -1))  # the longest first
        for part in mirrored:
            out[: part.size] += part
        return out

    def _tiles_for(self, rows: slice, columns: Points) -> list[slice]:
        width = min(WIDEST_TILE, TILE_BYTES // (columns.dtype.itemsize * max(1, rows.stop - rows.start)))
        width -= 16 if width > 64 else 0  # rows whose length is a power of two compete for the same cache lines
        share = -(-len(columns) // (16 * LEAST_TILES)) * 16  # or some threads would have nothing to do
        return list(stretches(len(columns), min(width, max(share, NARROW_TILE))))

    def _measure(self, some: Any, rows: slice, columns: Points, stretch: slice) -> Array:
        """The measurements of a tile, in memory that this thread uses again and again."""
        shape = rows.stop - rows.start, stretch.stop - stretch.start
        memory = getattr(self._scratch, columns.dtype.name, None)
        if memory is None or memory.size < shape[0] * shape[1]:
            memory = np.empty(max(TILE_BYTES // columns.dtype.itemsize, shape[0] * shape[1]), dtype=columns.dtype)
            setattr(self._scratch, columns.dtype.name, memory)
        out = memory[: shape[0] * shape[1]].reshape(shape)
        measure = columns.distances if self.kernel.traits.by_distance else columns.products
        measure(some, stretch.start, stretch.stop, out)
        return out


def rounding_of_rbf(kernel: Any, d: int, sq: Float, largest_sq: float) -> Float:
    """A bound on the relative error of float32 values, and of float32 sums of a tile's rows, for points of some size.

    A value's error is that of its exponent: the rounding of a sum of ``d`` products. Those errors have random signs,
    hence the root; over different rows they are counted as if all had the same sign.
    """
    return SINGLE_ROUNDING * (32.0 + kernel.gamma * (sq + largest_sq) * (4.0 + min(float(d), 4.0 * math.sqrt(d))))


def centre_for(kernel: Kernel, X: Matrix) -> Float | None:
    """The mean of dense samples, for kernels that do not notice a translation but whose rounding errors do."""
    if is_sparse(X) or not kernel.traits.of_differences or X.shape[0] == 0:
        return None
    return np.asarray(X.mean(axis=0, dtype=np.float64))


def kernel_sums(kernel: Kernel, X: Matrix, Z: Matrix, weights: Float, dtype: DTypeLike, workers: Workers) -> Float:
    """``k(X, Z) @ weights.T`` with kernel values in a precision: prediction."""
    centre, tiles = centre_for(kernel, Z), Tiles(kernel, workers)
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
