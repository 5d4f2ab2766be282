"""A matrix that is read chunk by chunk from files or from wherever it lies, because memory does not hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike

from maxmargin.operators.rows import VANISHING_SQUARE, Matrix, Rows, even_parts, is_sparse, scores_of
from maxmargin.protocols import Array, Float, Index, LocalRows
from maxmargin.threads import Workers

PAGE = 4096  # bytes; larger ones are only looked at more often than needed


class ChunkedMatrix:
    """A matrix of which at most two chunks of rows are in memory: the one in use, and the next, which a thread reads.

    Parameters
    ----------
    load : callable
        ``load(k)`` reads chunk ``k``, a dense array or a CSR matrix of float32 or float64. It is called from a thread,
        and must return the same numbers each time.
    sizes : sequence of int
        Rows of each chunk.
    n_features : int
        Columns.
    dtype : dtype
        Of the entries.
    entries : int
        Stored entries, zeros of sparse matrices not counted.
    feature_names : list of str or None
        Names of the columns.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    sweeps : int
        How often all chunks have been read, or the part of them that was needed.

    """

    ndim = 2

    def __init__(
        self,
        load: Callable[[int], Matrix],
        sizes: Sequence[int],
        n_features: int,
        dtype: DTypeLike,
        entries: int,
        feature_names: list[str] | None = None,
    ) -> None:
        bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).tolist()
        self.stretches = [slice(start, stop) for start, stop in pairwise(bounds)]
        self.shape = (int(bounds[-1]), int(n_features))
        self.dtype, self.entries, self.feature_names = np.dtype(dtype), int(entries), feature_names
        self.sweeps = 0
        self._load = load

    def chunks(self) -> Iterator[Matrix]:
        """The chunks one after the other."""
        self.sweeps += 1
        for k in range(len(self.stretches)):
            yield self._read(k)

    def sweep(self, work: Callable[[slice, Matrix], None]) -> None:
        """Call ``work`` with each chunk and the rows that it holds. Meanwhile a thread reads the next one."""
        self.sweeps += 1
        with ThreadPoolExecutor(1, thread_name_prefix="maxmargin-reader") as reader:
            following = reader.submit(self._read, 0)
            for k, some in enumerate(self.stretches):
                chunk = following.result()
                if k + 1 < len(self.stretches):
                    following = reader.submit(self._read, k + 1)
                work(some, chunk)

    def filled(self, out: Array, part: Callable[[slice, Matrix], Array]) -> Array:
        """What ``part`` says of the rows of each chunk. Sets: ``out``."""

        def work(some: slice, chunk: Matrix) -> None:
            out[some] = part(some, chunk)

        self.sweep(work)
        return out

    def added(self, shape: int | tuple[int, int], part: Callable[[slice, Matrix], Float]) -> Float:
        """The sum of what ``part`` says of each chunk."""
        total = np.zeros(shape)

        def work(some: slice, chunk: Matrix) -> None:
            total[:] += part(some, chunk)

        self.sweep(work)
        return total

    @cached_property
    def column_squares(self) -> Float:
        """Sum of the squares of every column; not finite where an entry is not."""
        return self.added(self.shape[1], lambda _, chunk: Rows(chunk).column_squares(np.ones(chunk.shape[0])))

    def __matmul__(self, W: Float) -> Float:
        return self.filled(np.empty((self.shape[0], W.shape[1])), lambda _, chunk: scores_of(chunk, W.T))

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "This matrix is read chunk by chunk and does not become an array as a whole; loop over its chunks(), or "
            "fit a linear estimator of maxmargin to it."
        )

    def __repr__(self) -> str:
        return f"<{self.shape[0]} x {self.shape[1]} matrix of {self.dtype} in {len(self.stretches)} chunks>"

    def _read(self, k: int) -> Matrix:
        chunk, some = self._load(k), self.stretches[k]
        announced = (some.stop - some.start, self.shape[1])
        if chunk.shape != announced:
            raise ValueError(
                f"Chunk {k} has {chunk.shape[0]} rows and {chunk.shape[1]} columns, but it had {announced[0]} and "
                f"{announced[1]} when the data were opened; open them again, and leave the files alone during a fit."
            )
        return chunk


# Samples as users pass them; data frames and collections of Dask are array-like.
MatrixLike: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix | ChunkedMatrix


class Chunks:
    """The map ``w -> X w`` for a matrix that is read chunk by chunk.

    Each method reads the matrix once at most. Memory: two chunks, and what is returned.
    """

    products_passes = 1.0

    def __init__(self, X: ChunkedMatrix, workers: Workers | None = None) -> None:
        self.matrix, self.workers = X, workers or Workers()
        self.n_samples, self.n_features = X.shape
        self.total_samples, self.entries = self.n_samples, X.entries
        self.parts = even_parts(self.n_samples, self.entries)
        self.longest = max(some.stop - some.start for some in X.stretches)
        self.room = max(1, self.longest // 2)  # they are copied twice

    def take(self, samples: Index) -> Rows:
        """Some of the rows, copied into memory."""
        order = np.argsort(samples, kind="stable")
        ascending, found = samples[order], []

        def work(some: slice, chunk: Matrix) -> None:
            first, last = np.searchsorted(ascending, [some.start, some.stop])
            found.append(chunk[ascending[first:last] - some.start])

        self.matrix.sweep(work)
        X = sp.vstack(found, format="csr") if is_sparse(found[0]) else np.vstack(found)
        return Rows(X[np.argsort(order)], self.workers)

    def apply(self, w: Float) -> Float:
        """``X w``."""
        out = np.zeros(self.n_samples)
        if not w.any():  # the first point of most solvers is zero
            return out
        return self.matrix.filled(out, lambda _, chunk: self._rows(chunk).apply(w))

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        if not alpha.any():
            return np.zeros(self.n_features)
        return self.matrix.added(self.n_features, lambda some, chunk: self._rows(chunk).adjoint(alpha[some]))

    def products(self, w: Float, alpha: Float) -> tuple[Float, Float]:
        """``X w`` and ``X^T alpha``."""
        out, total = np.empty(self.n_samples), np.zeros(self.n_features)

        def work(some: slice, chunk: Matrix) -> None:
            rows = self._rows(chunk)
            out[some] = rows.apply(w)
            total[:] += rows.adjoint(alpha[some])

        if not w.any():
            return np.zeros(self.n_samples), self.adjoint(alpha)
        self.matrix.sweep(work)
        return out, total

    def squared_lengths(self) -> Float:
        """Squared norms of the rows."""
        return self.matrix.filled(np.empty(self.n_samples), lambda _, chunk: self._rows(chunk).squared_lengths())

    def column_lengths(self) -> Float:
        """Norms of the columns, not smaller than they are."""
        return np.sqrt(self.matrix.column_squares + self.n_samples * VANISHING_SQUARE)

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient, in one sum after another."""
        return self.n_features, self.longest + len(self.matrix.stretches)

    def column_squares(self, s: Float) -> Float:
        """``sum_i s_i x_ij^2`` for every column ``j``."""
        if s.size and (s == s[0]).all():  # known from the check for values that are not finite
            return s[0] * self.matrix.column_squares
        return self.matrix.added(self.n_features, lambda some, chunk: self._rows(chunk).column_squares(s[some]))

    def beyond(self, limits: Float) -> Array:
        """Whether each row has an entry that is larger, without its sign, than the limit of its column."""
        out = np.empty(self.n_samples, dtype=np.bool_)
        return self.matrix.filled(out, lambda _, chunk: self._rows(chunk).beyond(limits))

    def weighted_gram(self, h: Float, height: float = 0.0) -> Float:
        """``[X c]^T diag(h) [X c]``; ``c`` has this height everywhere, and is left out if it is 0."""
        return self.adjoint_and_gram(np.zeros(self.n_samples), h, height)[1]()

    def adjoint_and_gram(self, alpha: Float, h: Float, height: float) -> tuple[Float, Callable[[], Float]]:
        """``X^T alpha``, and ``weighted_gram(h, height)`` from the same reading for whoever asks."""
        total, size = np.zeros(self.n_features), self.n_features + (height != 0.0)
        H = np.zeros((size, size))

        def work(some: slice, chunk: Matrix) -> None:
            rows = self._rows(chunk)
            total[:] += rows.adjoint(alpha[some])
            H[:] += rows.weighted_gram(h[some], height)

        self.matrix.sweep(work)
        return total, H.copy

    def adjoint_passes(self, alpha: Float) -> float:
        """What an adjoint costs."""
        return 1.0

    def gram_passes(self, h: Float) -> float:
        """What a gram costs beside the adjoint that it comes with."""
        return 0.0

    def apply_each(self, W: Float) -> Float:
        """``X W^T``."""
        out = np.zeros((self.n_samples, W.shape[0]))
        return self.matrix.filled(out, lambda _, chunk: self._rows(chunk).apply_each(W)) if W.any() else out

    def adjoint_each(self, A: Float) -> Float:
        """``A^T X``."""
        shape = A.shape[1], self.n_features
        return self.matrix.added(shape, lambda some, chunk: self._rows(chunk).adjoint_each(A[some]))

    def squares_each(self, H: Float) -> Float:
        """``H^T X^2``."""
        shape = H.shape[1], self.n_features
        return self.matrix.added(shape, lambda some, chunk: self._rows(chunk).squares_each(H[some]))

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0

    def _rows(self, chunk: Matrix) -> Rows:
        return Rows(chunk, self.workers)


def rows_of(X: Matrix | ChunkedMatrix, workers: Workers | None = None) -> LocalRows:
    """The operator of a matrix of samples, wherever it is."""
    return Chunks(X, workers) if isinstance(X, ChunkedMatrix) else Rows(X, workers)


def page_in(view: Array) -> None:
    """Let the system read the pages of a memory map, by a look at one byte of each: disk and compute overlap."""
    if isinstance(view, np.memmap) and view.size and view.flags.c_contiguous:
        view.reshape(-1).view(np.uint8)[::PAGE].max()
