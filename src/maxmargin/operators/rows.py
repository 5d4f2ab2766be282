"""A matrix seen as rows, dense or sparse, float32 or float64, without copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin._jit import compiled, compiled_in_place
from maxmargin.operators.vectors import BLOCK, DenseVectors, SparseVectors
from maxmargin.protocols import Array, Float, Index, Vectors
from maxmargin.threads import Workers, go_on

if TYPE_CHECKING:
    from typing_extensions import TypeIs

LARGEST_VALUE = 1e100  # of a kernel that the user computes: larger ones leave no room for coefficients
TILE_ROWS = 2048  # at a time, where a copy of rows is needed
TILE_ENTRIES = 2**16  # at least, in such a copy: about what a core keeps at hand
PART_WORK = 2**20  # entries, for one thread at a time: about a millisecond; a thread wakes up in a tenth of that
ROW_WORK = 8  # entries: a row's loss, and what else is computed for each row, takes about as long as these
MOST_PARTS = 16  # of a matrix
VANISHING_SQUARE = 1e-307  # more than what a square can lose by falling below the normal numbers
SMALL = 2**13  # entries that BLAS reads in some microseconds, and always by one thread
GRAM_GROUPS = 8  # sums of products, each of the size of the features squared
Sparse: TypeAlias = sp.csr_array | sp.csr_matrix  # what other formats are brought into
Matrix: TypeAlias = Array | Sparse


def is_sparse(X: object) -> TypeIs[Sparse]:
    """Whether ``X`` is a scipy sparse array or matrix."""
    return bool(sp.issparse(X))


def dense64(X: Matrix) -> Float:
    """A matrix as a dense float64 array."""
    return np.ascontiguousarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def asymmetry(K: Matrix) -> float:
    """The largest difference of two entries of a square matrix that should be equal; some rows at a time."""
    if is_sparse(K):
        return float(abs(K - K.T).data.max(initial=0.0))
    most, step = 0.0, max(1, PART_WORK // max(1, len(K)))
    for first in range(0, len(K), step):
        go_on()
        part = slice(first, first + step)
        most = max(most, float(np.abs(K[part] - K[:, part].T).max(initial=0.0)))
    return most


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
    if float(np.abs(values).max(initial=0.0)) > LARGEST_VALUE:
        raise ValueError(
            f"The callable kernel returned values beyond {LARGEST_VALUE:g}, whose products overflow: scale them down."
        )
    return values


def rows_as_bytes(X: Matrix) -> set[bytes]:
    """Every row as something that is equal for equal rows: zeros have no sign, and sparse ones are not stored."""
    if not is_sparse(X):
        return {row.tobytes() for row in X + 0.0}
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return {X[[i]].indices.tobytes() + X[[i]].data.tobytes() for i in range(X.shape[0])}


def vectors_of(X: Matrix) -> DenseVectors | SparseVectors:
    """The rows of ``X`` for compiled loops. Copies only what is not float32/float64, C-contiguous or CSR already."""
    if is_sparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # norms need each entry once; the user's matrix is left as it is
            X = X.copy()
            X.sum_duplicates()
        indices = X.indices.view(f"u{X.indices.itemsize}")
        return SparseVectors(_as_float(X.data), indices, X.indptr.astype(np.uint64))
    return DenseVectors(np.ascontiguousarray(_as_float(np.asarray(X))))


def scores_of(X: Matrix, W: Float) -> Float:
    """``X W^T``. Dense rows are converted a few at a time, so that no copy is made of a whole float32 matrix."""
    if not isinstance(X, np.ndarray) or X.dtype == W.dtype:
        return np.asarray(X @ W.T, dtype=np.float64)
    out = np.empty((X.shape[0], W.shape[0]))
    for start in range(0, X.shape[0], TILE_ROWS):
        out[start : start + TILE_ROWS] = X[start : start + TILE_ROWS] @ W.T
    return out


def _as_float(values: Array) -> Array:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


class Rows:
    """The map ``w -> X w`` for a matrix stored by rows, in parts that several threads can share.

    The parts depend on the matrix alone, so that results are the same bits for any number of threads.
    """

    products_passes = 2.0

    def __init__(self, X: Matrix, workers: Workers | None = None) -> None:
        self.vectors = vectors_of(X)
        self.n_samples, self.n_features = X.shape
        self.workers = workers or Workers()
        self.entries = int(self.vectors[0].size)
        self.parts = even_parts(self.n_samples, self.entries)
        self.room = self.total_samples = self.n_samples
        self._column_squares: Float | None = None
        # Products of a small matrix take less time than it takes to call a loop.
        dense = self.vectors.X if isinstance(self.vectors, DenseVectors) else None
        self._small = dense if dense is not None and dense.size <= SMALL and dense.dtype == np.float64 else None

    @property
    def matrix(self) -> Matrix:
        """The matrix, dense or CSR, without a copy."""
        if isinstance(self.vectors, DenseVectors):
            return self.vectors.X
        data, indices, indptr = self.vectors
        signed = indices.view(f"i{indices.itemsize}"), indptr.view(np.int64)
        return sp.csr_array((data, *signed), shape=(self.n_samples, self.n_features))

    def take(self, samples: Index) -> Rows:
        """Some of the rows, copied."""
        return Rows(self.matrix[samples], self.workers)

    def apply(self, w: Float) -> Float:
        """``X w``."""
        if self._small is not None:
            return np.asarray(self._small @ w)
        if not w.any():  # where most fits begin
            return np.zeros(self.n_samples)
        out = np.empty(self.n_samples)

        def work(parts: Iterator[slice]) -> None:
            for part in parts:
                products_with(self.vectors, part.start, part.stop, w, out)

        self.workers.run(work, self.parts)
        return out

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        if self._small is not None:
            return np.asarray(alpha @ self._small)
        return self._sum_over_rows(add_combination, alpha)

    @property
    def _summed_parts(self) -> list[slice]:
        """Every part has a sum of its own, so these must be much smaller than the parts."""
        return even_parts(self.n_samples, self.entries, least=4 * self.n_features)

    def _sum_over_rows(self, add: Callable[[Vectors, int, int, Float, Float], None], weights: Float) -> Float:
        """What ``add`` adds up of all rows."""
        parts = self._summed_parts
        sums = np.zeros((len(parts), self.n_features))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                add(self.vectors, parts[k].start, parts[k].stop, weights, sums[k])

        self.workers.run(work, range(len(parts)))
        return sums.sum(axis=0)

    def products(self, w: Float, alpha: Float) -> tuple[Float, Float]:
        """``X w`` and ``X^T alpha``."""
        return self.apply(w), self.adjoint(alpha)

    def squared_lengths(self) -> Float:
        """Squared norms of the rows."""
        return squared_lengths(self.vectors, self.n_samples)

    def column_lengths(self) -> Float:
        """Norms of the columns, not smaller than they are: squares of tiny numbers vanish."""
        return np.sqrt(self.column_squares(np.ones(self.n_samples)) + self.n_samples * VANISHING_SQUARE)

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient of `adjoint`, in one sum after another."""
        parts, longest = self._summed_parts, self.n_features
        added = max((part.stop - part.start for part in parts), default=0)
        if isinstance(self.vectors, SparseVectors):
            longest = int(np.diff(self.vectors.indptr.view(np.int64)).max(initial=0))
        elif self._small is None:
            added = min(added, BLOCK + -(-added // BLOCK) + -(-added // TILE_ROWS))
        return longest, added + len(parts)

    def column_squares(self, s: Float) -> Float:
        """``sum_i s_i x_ij^2`` for every column ``j``; for equal weights, which solvers and certificates have, once."""
        if not s.size or not (s == s[0]).all():
            return self._weighted_squares(s)
        if self._column_squares is None:
            self._column_squares = self._weighted_squares(np.ones(self.n_samples))
        return np.asarray(s[0] * self._column_squares)

    def _weighted_squares(self, s: Float) -> Float:
        if isinstance(self.matrix, np.ndarray) and self.matrix.size <= SMALL:
            X = np.asarray(self.matrix, dtype=np.float64)
            with np.errstate(over="ignore"):  # as compiled loops do
                return np.asarray(s @ (X * X))
        return self._sum_over_rows(add_squares, s)

    def beyond(self, limits: Float) -> Array:
        """Whether each row has an entry that is larger, without its sign, than the limit of its column."""
        return rows_beyond(self.vectors, self.n_samples, limits)

    def weighted_gram(self, h: Float, height: float = 0.0) -> Float:
        """``[X c]^T diag(h) [X c]`` for weights ``h >= 0``; ``c`` has this height, and is left out if that is 0.

        Rows of weight zero cost nothing.
        """
        d, used = self.n_features, np.flatnonzero(h)
        length = max(TILE_ROWS, TILE_ENTRIES // max(1, d))
        groups = [slice(k, None, GRAM_GROUPS) for k in range(min(GRAM_GROUPS, -(-used.size // length)))]
        tiles = [used[start : start + length] for start in range(0, used.size, length)]
        sums = np.zeros((len(groups), d, d))

        def work(numbers: Iterator[int]) -> None:
            dense = isinstance(self.vectors, DenseVectors)
            tile = np.empty((length, d) if dense else (0, 0))
            for k in numbers:
                for some in tiles[groups[k]]:
                    if isinstance(self.vectors, DenseVectors):  # many times faster than outer products
                        copied = tile[: some.size]
                        scaled_rows(self.vectors.X, some, h, copied)
                        with np.errstate(over="ignore"):  # as where rows are sparse: who solves with it will see
                            sums[k] += copied.T @ copied
                    else:
                        add_outer_products(self.vectors, some, h, sums[k])

        self.workers.run(work, range(len(groups)))
        H = sums[0] if len(groups) == 1 else sums.sum(axis=0)
        if isinstance(self.vectors, SparseVectors):
            mirror(H)
        if not height:
            return H
        bordered = np.empty((d + 1, d + 1))
        bordered[:d, :d] = H
        bordered[d, :d] = bordered[:d, d] = height * self.adjoint(h)
        bordered[d, d] = height**2 * h.sum()
        return bordered

    def row_gram(self) -> Float:
        """``X X^T``: the inner products of all pairs of rows."""
        X, n, step = self.matrix, self.n_samples, max(1, -(-self.n_features // GRAM_GROUPS))
        if is_sparse(X):
            return np.asarray((X.astype(np.float64) @ X.T.astype(np.float64)).toarray())
        columns = [slice(first, first + step) for first in range(0, self.n_features, step)]
        sums = np.zeros((len(columns), n, n))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                part = np.asarray(X[:, columns[k]], dtype=np.float64)
                sums[k] = part @ part.T

        self.workers.run(work, range(len(columns)))
        return np.asarray(sums.sum(axis=0))

    def adjoint_and_gram(self, alpha: Float, h: Float, height: float) -> tuple[Float, Callable[[], Float]]:
        """``X^T alpha``, and ``weighted_gram(h, height)`` when somebody asks for it."""
        return self.adjoint(alpha), lambda: self.weighted_gram(h, height)

    def adjoint_passes(self, alpha: Float) -> float:
        """What an adjoint costs: rows of weight zero are not read."""
        return np.count_nonzero(alpha) / max(1, alpha.size)

    def gram_passes(self, h: Float) -> float:
        """What a gram costs beside the adjoint that it comes with."""
        return np.count_nonzero(h) / max(1, h.size)

    def apply_each(self, W: Float) -> Float:
        """``X W^T``: a column of scores for each row of ``W``, reading the matrix once."""
        if isinstance(self.vectors, SparseVectors):
            return products_with_each(self.vectors, self.n_samples, np.ascontiguousarray(W.T))
        out = np.empty((self.n_samples, W.shape[0]))
        for some, tile in _tiles(self.vectors.X):
            out[some] = tile @ W.T
        return out

    def adjoint_each(self, A: Float) -> Float:
        """``A^T X``: a row of coefficients for each column of ``A``, reading the matrix once."""
        if isinstance(self.vectors, SparseVectors):
            return np.ascontiguousarray(combinations_of(self.vectors, A, self.n_features).T)
        out = np.zeros((A.shape[1], self.n_features))
        for some, tile in _tiles(self.vectors.X):
            out += A[some].T @ tile
        return out

    def squares_each(self, H: Float) -> Float:
        """``H^T X^2``: a row of weighted sums of squares of the features for each column of ``H``."""
        if isinstance(self.vectors, SparseVectors):
            squares = self.vectors._replace(data=self.vectors.data.astype(np.float64) ** 2)
            return np.ascontiguousarray(combinations_of(squares, H, self.n_features).T)
        out = np.zeros((H.shape[1], self.n_features))
        for some, tile in _tiles(self.vectors.X):
            out += H[some].T @ (tile * tile)
        return out

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0


def _tiles(X: Array) -> Iterator[tuple[slice, Float]]:
    """Stretches of dense rows in float64, for matrix products: many times faster than loops."""
    for start in range(0, X.shape[0], TILE_ROWS):
        some = slice(start, start + TILE_ROWS)
        yield some, X[some].astype(np.float64, copy=False)


def even_parts(n_samples: int, entries: int, least: int = 0) -> list[slice]:
    """Consecutive rows of a matrix of so many entries, for one thread at a time, with at least so many in each part."""
    total = entries + ROW_WORK * n_samples
    step = max(1, max(PART_WORK, total // MOST_PARTS, least) * n_samples // max(1, total))
    return [slice(first, min(first + step, n_samples)) for first in range(0, n_samples, step)]


@compiled_in_place
def products_with(vectors: Vectors, start: int, stop: int, w: Float, out: Float) -> None:
    """Inner products of some vectors with ``w``. Sets: ``out[start:stop]``."""
    vectors.multiply(start, stop, w, out)


@compiled_in_place
def scaled_rows(X: Array, some: Index, h: Float, out: Float) -> None:
    """Some rows of ``X``, each times the root of its weight. Sets: ``out``."""
    for k in range(some.shape[0]):
        x, to, scale = X[some[k]], out[k], math.sqrt(h[some[k]])
        for j in range(x.shape[0]):
            to[j] = scale * x[j]


@compiled_in_place
def add_outer_products(vectors: SparseVectors, some: Index, h: Float, H: Float) -> None:
    """Lower triangle of ``H += sum_i h_i (vector i) (vector i)^T`` for some sparse vectors."""
    data, indices, indptr = vectors.data, vectors.indices, vectors.indptr
    for i in some:
        for k in range(indptr[i], indptr[i + 1]):
            scaled = h[i] * data[k]
            for m in range(indptr[i], k + 1):  # indices ascend: the lower triangle
                H[indices[k], indices[m]] += scaled * data[m]


@compiled_in_place
def mirror(H: Float) -> None:
    """Sets: the upper triangle of a symmetric matrix, from the lower one."""
    for i in range(H.shape[0]):
        for j in range(i):
            H[j, i] = H[i, j]


@compiled
def add_combination(vectors: Vectors, start: int, stop: int, weights: Float, out: Float) -> None:
    """``out += sum_i weights_i * vector i`` over some vectors.

    Those of weight zero are left out beforehand, by a sum: where they are many, no processor foresees which.
    """
    some = np.empty(TILE_ROWS, dtype=np.int64)
    for first in range(start, stop, TILE_ROWS):
        count = 0
        for i in range(first, min(first + TILE_ROWS, stop)):
            some[count] = i
            count += int(weights[i] != 0.0)
        vectors.add_each(some[:count], weights, out)


@compiled
def products_with_each(vectors: SparseVectors, count: int, W: Float) -> Float:
    """Inner product of every sparse vector with every column of ``W``: the entries of a feature lie side by side."""
    out = np.zeros((count, W.shape[1]))
    for i in range(count):
        row = out[i]
        for e in range(vectors.indptr[i], vectors.indptr[i + 1]):
            w = W[vectors.indices[e]]
            for c in range(w.shape[0]):
                row[c] += vectors.data[e] * w[c]
    return out


@compiled
def combinations_of(vectors: SparseVectors, A: Float, length: int) -> Float:
    """``sum_i A_ic * vector i`` for sparse vectors as column ``c``, for every column of ``A``."""
    out = np.zeros((length, A.shape[1]))
    for i in range(A.shape[0]):
        a = A[i]
        for e in range(vectors.indptr[i], vectors.indptr[i + 1]):
            w = out[vectors.indices[e]]
            for c in range(a.shape[0]):
                w[c] += vectors.data[e] * a[c]
    return out


@compiled_in_place
def sum_of_squares(values: Float) -> float:
    """The sum of the squares: without the threads that BLAS would wake up for it."""
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i] * values[i]
    return total


@compiled
def squared_lengths(vectors: Vectors, count: int) -> Float:
    """Squared norm of every vector."""
    out = np.empty(count)
    for i in range(count):
        out[i] = vectors.squared_length(i)
    return out


@compiled
def rows_beyond(vectors: Vectors, count: int, limits: Float) -> Array:
    """Whether each vector has an entry beyond its limit."""
    out = np.empty(count, dtype=np.bool_)
    for i in range(count):
        out[i] = vectors.beyond(i, limits)
    return out


@compiled_in_place
def add_squares(vectors: Vectors, start: int, stop: int, weights: Float, out: Float) -> None:
    """``out += sum_i weights_i * (vector i)^2`` over some vectors, entry by entry."""
    for i in range(start, stop):
        vectors.add_squares(i, weights[i], out)
