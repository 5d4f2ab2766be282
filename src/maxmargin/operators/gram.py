"""The kernel matrix, evaluated in tiles and never stored whole unless the user gave it.

Certificates are made of float64 tiles. Solvers may ask for rows in float32, which cost half as much.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin._jit import compiled
from maxmargin.operators.points import DensePoints, Points, points_of
from maxmargin.operators.rows import Matrix, is_sparse
from maxmargin.parts.kernels import RBF, in_precision
from maxmargin.protocols import Array, Float, Index, Kernel
from maxmargin.threads import Workers

TILE_BYTES = 2**21  # stays near the processor between product and kernel map
WIDEST_TILE = 4096
NARROW_TILE = 256  # columns; not narrowed further
LEAST_TILES = 4
FEW_SUMS = 4
LEFT_VALUES = 2**22  # of the samples that are laid out for tiles at a time
POSITIVITY_SAMPLES = 1500
PREDICTED_AT_A_TIME = 2**14  # samples
SCREENED_VALUES = 2_000_000  # kernel values: fewer are computed in float64 at once
SYMMETRIC_TILE, SYMMETRIC_TABLE = (480, 240), (64, 1920)  # rows and columns of a tile; multiples of each other
LAID_OUT = 4  # times as much as for tiles in general, if that halves the work
SINGLE_ROUNDING = 6e-8
SINGLE_RANGE = 1e-30, 1e30  # of kernel values and squared lengths that float32 can hold with room to spare


# Given samples, their scores and a bound on the error of each: whether the error could change anything.
Matters: TypeAlias = Callable[[Index, Float, Float], Array]


class Gram(Protocol):
    """A symmetric kernel matrix ``K`` as an operator on expansions ``beta`` over the samples."""

    n_samples: int
    workers: Workers

    @property
    def positive(self) -> bool:
        """Whether the matrix is positive semi-definite, as far as can be known: certificates rest on it."""

    @property
    def fits_single(self) -> bool:
        """Whether its values can be held in float32."""

    def diagonal(self) -> Float:
        """``K[i, i]`` for every ``i``."""

    def columns(self, samples: Index | None, dtype: Any) -> Any:
        """Samples prepared as columns of the blocks below; ``None`` is all of them."""

    def write_rows(self, samples: Index, columns: Any, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""

    def sums(self, weights: Float, columns: Any) -> Float:
        """``K[columns, :] @ weights`` with float64 sums of values in the precision of the columns."""

    def block(self, rows: Index) -> Float:
        """``K[rows, :]`` in float64."""

    def apply(self, w: Float) -> Float:
        """``K w`` in float64."""

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """``K w``, in float64 where ``w`` is not zero or it matters, and at most an error away from it elsewhere."""

    def adjoint(self, alpha: Float) -> Float:
        """``alpha``: it is already the expansion of ``sum_i alpha_i phi(x_i)``."""

    def passes(self, w: Float) -> float:
        """Cost of ``apply(w)`` in units of the whole matrix."""


class _AnyGram:
    """What follows from rows and sums for every kernel matrix."""

    n_samples: int
    workers: Workers

    def columns(self, samples: Index | None, dtype: Any) -> Any:
        raise NotImplementedError

    def write_rows(self, samples: Index, columns: Any, scale: float, shift: float, out: Array, slots: Index) -> None:
        raise NotImplementedError

    def sums(self, weights: Float, columns: Any) -> Float:
        raise NotImplementedError

    def diagonal(self) -> Float:
        raise NotImplementedError

    def block(self, rows: Index) -> Float:
        """``K[rows, :]`` in float64."""
        out = np.empty((len(rows), self.n_samples))
        self.write_rows(np.asarray(rows), self._all_columns, 1.0, 0.0, out, np.arange(len(rows)))
        return out

    def apply(self, w: Float) -> Float:
        """``K w`` from the rows where ``w`` is not zero; ``K`` is symmetric."""
        return self.sums(w, self._all_columns)

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """``K w`` in float64, whatever matters."""
        return self.apply(w)

    def adjoint(self, alpha: Float) -> Float:
        """The expansion of ``sum_i alpha_i phi(x_i)``."""
        return alpha.copy()

    def passes(self, w: Float) -> float:
        """Share of the rows that ``apply`` has to evaluate."""
        return float(np.count_nonzero(w)) / max(1, self.n_samples)

    @cached_property
    def fits_single(self) -> bool:
        """Whether the diagonal, which bounds all values, can be held in float32."""
        return _is_moderate(self.diagonal())

    @cached_property
    def positive(self) -> bool:
        """Whether the matrix is symmetric and positive semi-definite.

        Tested by a Cholesky factorisation on up to ``POSITIVITY_SAMPLES`` samples, spread evenly.
        """
        rows = np.unique(np.linspace(0, self.n_samples - 1, min(self.n_samples, POSITIVITY_SAMPLES)).astype(np.int64))
        K = np.empty((rows.size, rows.size))
        self.write_rows(rows, self.columns(rows, np.float64), 1.0, 0.0, K, np.arange(rows.size))
        size = float(np.abs(K).max(initial=0.0))
        if float(np.abs(K - K.T).max(initial=0.0)) > 1e-8 * size:
            return False
        try:
            np.linalg.cholesky(0.5 * (K + K.T) + 1e-10 * (size + 1e-300) * np.eye(rows.size))
        except np.linalg.LinAlgError:
            return False
        return True

    @cached_property
    def _all_columns(self) -> Any:
        return self.columns(None, np.float64)


class KernelGram(_AnyGram):
    """Kernel matrix of the rows of ``X``."""

    def __init__(self, kernel: Kernel, X: Matrix, workers: Workers | None = None) -> None:
        self.kernel = kernel
        self.X = X.tocsr() if is_sparse(X) else X
        self.n_samples = X.shape[0]
        self.workers = workers or Workers()
        self.tiles = Tiles(kernel, self.workers)

    @cached_property
    def positive(self) -> bool:
        """Known for most kernels, tested for the others."""
        return self.kernel.traits.positive or super().positive

    @cached_property
    def fits_single(self) -> bool:
        """Whether neither squared lengths nor kernel values leave the range of float32."""
        return _is_moderate(self._all_columns.sq) and _is_moderate(self.diagonal())

    def diagonal(self) -> Float:
        """``k(x_i, x_i)``."""
        sq = self._all_columns.sq
        values = np.zeros(self.n_samples) if self.kernel.traits.by_distance else sq.copy()
        _map_diagonal(self.kernel, values, sq)
        return values

    def columns(self, samples: Index | None, dtype: Any) -> Points:
        """The samples as points; float32 ones are converted once, float64 ones as they are used."""
        points = self._singles if np.dtype(dtype) == np.float32 else self._doubles
        return points if samples is None else points.take(samples)

    def write_rows(self, samples: Index, columns: Points, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        self.tiles.write_rows(self.columns(None, columns.dtype), samples, columns, scale, shift, out, slots)

    def sums(self, weights: Float, columns: Points) -> Float:
        """``K[columns, :] @ weights``."""
        return self.tiles.sums(self.columns(None, columns.dtype), weights[None, :], columns)[0]

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """``K w``: among the support vectors from one half of the matrix, elsewhere first in float32.

        Only for the Gaussian kernel, where the rounding of float32 is known relative to each value.
        """
        support, rest = np.flatnonzero(w), np.flatnonzero(w == 0.0)
        if not isinstance(self.kernel, RBF) or support.size * rest.size < SCREENED_VALUES or not self.fits_single:
            return self.apply(w)
        z = np.empty(self.n_samples)
        z[support] = self.tiles.symmetric_sums(self._doubles.take(support), w[support])
        z[rest], size = self.tiles.sums(self._singles, np.stack([w, np.abs(w)]), self._singles.take(rest))
        sq = self._doubles.sq
        error = rounding_of_rbf(self.kernel, self.X.shape[1], sq[rest], float(sq[support].max(initial=0.0))) * size
        doubtful = rest[matters(rest, z[rest], error)]
        if doubtful.size:
            z[doubtful] = self.sums(w, self._doubles.take(doubtful))
        return z

    @cached_property
    def _doubles(self) -> Points:
        return points_of(self.X, centre_for(self.kernel, self.X), np.float64)

    @cached_property
    def _singles(self) -> Points:
        return points_of(self.X, centre_for(self.kernel, self.X), np.float32).stored()

    @cached_property
    def _all_columns(self) -> Any:
        return self._doubles


class _GivenGram(_AnyGram):
    """A kernel matrix of which float64 blocks of any rows and columns can be had."""

    def between(self, rows: Index, columns: Index) -> Float:
        raise NotImplementedError

    def columns(self, samples: Index | None, dtype: Any) -> Index:
        """The samples' numbers."""
        return np.arange(self.n_samples) if samples is None else samples

    def write_rows(self, samples: Index, columns: Index, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        for part in _stretches(samples.size, max(1, LEFT_VALUES // max(1, columns.size))):
            out[slots[part]] = scale * self.between(samples[part], columns) + shift

    def sums(self, weights: Float, columns: Index) -> Float:
        """``K[columns, :] @ weights``."""
        support = np.flatnonzero(weights)
        out = np.zeros(columns.size)
        for part in _stretches(support.size, max(1, LEFT_VALUES // max(1, columns.size))):
            out += weights[support[part]] @ self.between(support[part], columns)
        return out


class PrecomputedGram(_GivenGram):
    """A kernel matrix that the user computed."""

    def __init__(self, K: Array, workers: Workers | None = None) -> None:
        self.K = K
        self.n_samples = K.shape[0]
        self.workers = workers or Workers()

    def between(self, rows: Index, columns: Index) -> Float:
        """``K[rows, columns]``."""
        part = self.K[rows]
        return dense64(part if columns.size == self.n_samples else part[:, columns])

    def diagonal(self) -> Float:
        """``K[i, i]``."""
        return np.asarray(self.K.diagonal(), dtype=np.float64)


class CallableGram(_GivenGram):
    """A kernel matrix from a Python function ``kernel(A, B)`` that returns one row per row of ``A``."""

    def __init__(self, function: Callable[[Any, Any], Any], X: Matrix, workers: Workers | None = None) -> None:
        self.function = function
        self.X = X
        self.n_samples = X.shape[0]
        self.workers = workers or Workers()

    def between(self, rows: Index, columns: Index) -> Float:
        """``K[rows, columns]``."""
        right = self.X if columns.size == self.n_samples else self.X[columns]
        return checked_values(self.function(self.X[rows], right), (len(rows), columns.size))

    def diagonal(self) -> Float:
        """``k(x_i, x_i)``, one call per stretch of rows."""
        out = np.empty(self.n_samples)
        for part in _stretches(self.n_samples, 1024):
            X = self.X[part]
            out[part] = checked_values(self.function(X, X), (X.shape[0],) * 2).diagonal()
        return out


class StoredGram(_AnyGram):
    """A kernel matrix that is computed once, in float32, because several problems share it.

    Float64 values, which certificates need, are still evaluated.
    """

    def __init__(self, gram: KernelGram) -> None:
        self.gram, self.n_samples, self.workers = gram, gram.n_samples, gram.workers
        everything = np.arange(gram.n_samples)
        self.K = np.empty((gram.n_samples, gram.n_samples), dtype=np.float32)
        gram.write_rows(everything, gram.columns(None, np.float32), 1.0, 0.0, self.K, everything)

    @staticmethod
    def megabytes(n_samples: int) -> float:
        """Size of the matrix."""
        return n_samples * n_samples * 4 / 2**20

    @property
    def positive(self) -> bool:
        """That of the matrix itself."""
        return self.gram.positive

    @property
    def fits_single(self) -> bool:
        """It is stored in float32."""
        return True

    def diagonal(self) -> Float:
        """In float64."""
        return self.gram.diagonal()

    def columns(self, samples: Index | None, dtype: Any) -> Any:
        """Numbers of samples for float32, where everything is stored."""
        if np.dtype(dtype) != np.float32:
            return self.gram.columns(samples, dtype)
        return np.arange(self.n_samples) if samples is None else samples

    def write_rows(self, samples: Index, columns: Any, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        if not isinstance(columns, np.ndarray):
            self.gram.write_rows(samples, columns, scale, shift, out, slots)
            return

        def work(parts: Iterator[slice]) -> None:
            for part in parts:
                out[slots[part]] = np.float32(scale) * self.K[samples[part]][:, columns] + np.float32(shift)

        self.workers.run(work, list(_stretches(samples.size, 32)))

    def sums(self, weights: Float, columns: Any) -> Float:
        """``K[columns, :] @ weights``."""
        if not isinstance(columns, np.ndarray):
            return self.gram.sums(weights, columns)
        support = np.flatnonzero(weights)
        out = np.zeros(columns.size)
        for part in _stretches(support.size, max(1, LEFT_VALUES // max(1, columns.size))):
            out += weights[support[part]] @ self.K[support[part]][:, columns].astype(np.float64)
        return out


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

        for group in _stretches(samples.size, _rows_at_a_time(left)):
            tiles = []
            for rows in _stretches(group.stop - group.start, left.rows_per_tile, group.start):
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
                    if w.shape[0] <= FEW_SUMS:  # faster one by one: a matrix product would first copy the tile
                        for total, part in zip(out, w, strict=True):
                            total[stretch] += part[rows] @ m
                    else:
                        out[:, stretch] += w[:, rows] @ m

        for group in _stretches(support.size, _rows_at_a_time(left)):
            chunks = list(_stretches(group.stop - group.start, left.rows_per_tile, group.start))
            lefts = [(rows, left.left(support[rows])) for rows in chunks]
            self.workers.run(work, [(lefts, part) for part in self._tiles_for(tall, columns)])
        return out

    def symmetric_sums(self, points: Points, w: Float) -> Float:
        """``k(points, points) @ w`` in float64: the values of one half of the matrix serve both."""
        n = len(points)
        if n > LAID_OUT * _rows_at_a_time(points):
            return self.sums(points, w[None, :], points)[0]
        height, width = SYMMETRIC_TILE if isinstance(points, DensePoints) else SYMMETRIC_TABLE
        lefts = [(rows, points.left(np.arange(rows.start, rows.stop))) for rows in _stretches(n, height)]
        units = list(_stretches(n, max(height, width)))  # whose columns see each other twice
        out, mirrored = np.zeros(n), [np.zeros(unit.start) for unit in units]

        def work(numbers: Iterator[int]) -> None:
            for number in numbers:
                unit, back = units[number], mirrored[number]
                for stretch in _stretches(unit.stop - unit.start, width, unit.start):
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
        return list(_stretches(len(columns), min(width, max(share, NARROW_TILE))))

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


def checked_values(values: Any, shape: tuple[int, int]) -> Float:
    """What a user's kernel returned, if it is a finite matrix of the right shape."""
    given = values
    try:
        values = np.asarray(values.toarray() if is_sparse(values) else values)
        if np.iscomplexobj(values):
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"The callable kernel returned {type(given).__name__} with values that are not real numbers; it must "
            f"return a matrix of real numbers of shape {shape}."
        ) from None
    if values.shape != shape:
        raise ValueError(
            f"The callable kernel returned an array of shape {values.shape} for {shape[0]} and {shape[1]} samples; "
            f"it must return one of shape {shape}, row i for sample i of its first argument."
        )
    if not np.isfinite(values).all():
        raise ValueError("The callable kernel returned NaN or infinity; a kernel must be finite for every pair.")
    return values


def kernel_sums(kernel: Kernel, X: Matrix, Z: Matrix, weights: Float, dtype: Any, workers: Workers) -> Float:
    """``k(X, Z) @ weights.T`` with kernel values in a precision: prediction."""
    centre, tiles = centre_for(kernel, Z), Tiles(kernel, workers)
    left = points_of(Z, centre, dtype)
    out = np.empty((X.shape[0], weights.shape[0]))
    for part in _stretches(X.shape[0], PREDICTED_AT_A_TIME):
        out[part] = tiles.sums(left, weights, points_of(_alike(X[part], Z), centre, dtype)).T
    return out


def cross_gram(kernel: Kernel, X: Matrix, Z: Matrix) -> Float:
    """``k(x_i, z_j)`` for every row of ``X`` and ``Z``, in float64."""
    centre, rows = centre_for(kernel, Z), np.arange(X.shape[0])
    out = np.empty((X.shape[0], Z.shape[0]))
    left, columns = points_of(_alike(X, Z), centre, np.float64), points_of(Z, centre, np.float64)
    Tiles(kernel, Workers()).write_rows(left, rows, columns, 1.0, 0.0, out, rows)
    return out


def _alike(X: Matrix, Z: Matrix) -> Matrix:
    """``X``, dense or sparse as ``Z`` is."""
    if is_sparse(X) == is_sparse(Z):
        return X
    return X.toarray() if is_sparse(X) else sp.csr_array(X)


def dense64(X: Matrix) -> Float:
    """A matrix as a dense float64 array."""
    return np.ascontiguousarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def _is_moderate(values: Float) -> bool:
    largest = float(np.abs(values).max(initial=0.0))
    return largest == 0.0 or SINGLE_RANGE[0] < largest < SINGLE_RANGE[1]


def _rows_at_a_time(left: Points) -> int:
    """How many samples may be laid out for tiles at once."""
    width = left.X.shape[1] if isinstance(left, DensePoints) else 8 * left.rows_per_tile
    return max(left.rows_per_tile, LEFT_VALUES // max(1, width))


def _stretches(length: int, step: int, start: int = 0) -> Iterator[slice]:
    """Slices of at most ``step`` that cover ``start .. start + length``."""
    stop = start + length
    return (slice(first, min(first + step, stop)) for first in range(start, stop, step))


@compiled
def _to_rows(
    kernel: Any, m: Array, sq_left: Array, sq_right: Array, scale: Any, shift: Any, out: Array, slots: Index, start: int
) -> None:
    """Turn measurements into kernel values, scaled and shifted, in rows of ``out``."""
    for i in range(m.shape[0]):
        measured, sq = m[i], sq_left[i]
        row = out[slots[i], start : start + m.shape[1]]
        for j in range(m.shape[1]):
            row[j] = scale * kernel.similarity(measured[j], sq, sq_right[j]) + shift


@compiled
def _map(kernel: Any, m: Array, sq_left: Array, sq_right: Array) -> None:
    """Turn measurements into kernel values in place."""
    for i in range(m.shape[0]):
        row, sq = m[i], sq_left[i]
        for j in range(m.shape[1]):
            row[j] = kernel.similarity(row[j], sq, sq_right[j])


@compiled
def _map_diagonal(kernel: Any, values: Float, sq: Float) -> None:
    """Turn the measurements of each point with itself into kernel values in place."""
    for i in range(values.shape[0]):
        values[i] = kernel.similarity(values[i], sq[i], sq[i])
