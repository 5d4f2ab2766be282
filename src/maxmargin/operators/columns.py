"""A matrix seen as columns: the rows of its transpose, so the same loops serve both."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators.rows import TILE_ROWS, VANISHING_SQUARE, Matrix, Rows, Sparse, is_sparse
from maxmargin.operators.vectors import BLOCK, DenseVectors, SparseVectors
from maxmargin.protocols import Array, Float, Index, Vectors
from maxmargin.threads import Workers

BALANCED = 1e-12  # relative, and a root of samples more: by how much variables may be changed to have the sum zero
MOST_ANCHORS = 4
TOGETHER, PIECES = 2.0**19, 8  # entries: fewer are read before another thread has woken up
STRETCH = 4096  # samples at a time, where columns are few and long
COLUMN_WORK = 4  # entries: what it takes to begin with a sparse column, beside its own


class Beyond(NamedTuple):
    """The products of columns with a vector, as far as they may be larger than a level.

    What is certain holds for the exact products, and if rounding is taken from the vector that kept its sum from zero.
    """

    v: Float  # ``X^T alpha``, zero where that is certainly within the level
    certain: Array  # where it is
    estimate: Float  # the same, but what earlier products suggest where they are certain

    def scaled(self, share: float) -> Beyond:
        """The same for a vector that is scaled down."""
        return Beyond(self.v * share, self.certain, self.estimate * share)


class _Anchors(NamedTuple):
    """Vectors of which all products are known: the first and the last ones."""

    U: Float  # a row for each
    V: Float  # its products

    @classmethod
    def none(cls, columns: Columns) -> _Anchors:
        """Of columns whose products nobody knows."""
        return cls(np.empty((0, columns.n_samples)), np.empty((0, columns.n_features)))

    def and_one_more(self, alpha: Float, v: Float) -> _Anchors:
        """The first, the last ones, and this."""
        kept = [*range(len(self.U[:1])), *range(max(1, len(self.U) + 2 - MOST_ANCHORS), len(self.U))]
        return _Anchors(np.vstack([self.U[kept], alpha]), np.vstack([self.V[kept], v]))


class _Answer(NamedTuple):
    """What was asked last, and the answer."""

    alpha: Float
    level: float
    beyond: Beyond


class Columns:
    """The map ``w -> X w`` for a matrix stored by columns (Fortran order or CSC).

    It remembers the products of all columns with a few vectors, the first and the last ones: ``x_j.alpha`` for another
    ``alpha = p u + q v + ... + e`` is at most ``|p x_j.u + q x_j.v + ...| + ||x_j|| ||e||`` in size. Who only asks
    which products are beyond some level (`beyond`) therefore has to compute few of them.
    """

    products_passes = 2.0

    def __init__(self, X: Matrix, workers: Workers | None = None) -> None:
        self.transposed = Rows(_transposed(X), workers)
        self.vectors = self.transposed.vectors
        self.n_samples, self.n_features = X.shape
        self.total_samples, self.entries = self.n_samples, self.transposed.entries
        self.read = 0.0  # passes over the data so far
        self.kept: object = None  # products of its columns with each other, by whoever needs them again
        self._anchors = _Anchors.none(self)
        self._answer: _Answer | None = None
        self._spent = 0.0  # on products since the last anchor

    def separate(self) -> Columns:
        """The same columns, without what is known of their products."""
        other = copy.copy(self)
        other.read, other.kept, other._anchors, other._answer, other._spent = 0.0, None, _Anchors.none(self), None, 0.0
        return other

    def apply(self, w: Float) -> Float:
        """``X w``."""
        used = np.flatnonzero(w)
        z = np.zeros(self.n_samples)
        if used.size * self.n_samples > TOGETHER and used.size <= BLOCK and isinstance(self.vectors, DenseVectors):
            self._add_stretches(self.vectors, used, w, z)
            return z
        if used.size * self.n_samples > TOGETHER or used.size > TILE_ROWS:
            return self.transposed.adjoint(w)
        _combination(self.vectors, used, w, z)
        return z

    def _add_stretches(self, vectors: DenseVectors, used: Index, w: Float, z: Float) -> None:
        """``z += sum_j w_j x_j`` for few long columns, a stretch of samples at a time. Sets: ``z``."""

        def work(starts: Iterator[int]) -> None:
            for first in starts:
                _add_stretch(vectors.X, used, w, first, min(first + STRETCH, z.size), z)

        self.transposed.workers.run(work, range(0, z.size, STRETCH))

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        self.read += 1.0
        return self.transposed.apply(alpha)

    def beyond(self, alpha: Float, level: float) -> Beyond:
        """Which products of the columns with ``alpha`` may be larger than the level in size, and these products."""
        last = self._answer
        if last is not None and last.level <= level and np.array_equal(last.alpha, alpha):
            return last.beyond
        found = self._screened(alpha, level) if len(self._anchors.U) and level > 0.0 else None
        if found is None:
            v = self.adjoint(alpha)
            self._anchors, self._spent = self._anchors.and_one_more(alpha, v), 0.0
            found = Beyond(v, np.zeros(v.size, dtype=np.bool_), v)
        self._answer = _Answer(alpha.copy(), level, found)
        return found

    def first_products(self, alpha: Float) -> Float:
        """``X^T alpha`` for the vector with which a fit begins: known if the last fit began with it too."""
        if not len(self._anchors.U) or not np.array_equal(self._anchors.U[0], alpha):
            v = self.adjoint(alpha) if "_squares" in vars(self) else self._products_with_squares(alpha)
            self._anchors, self._spent = _Anchors(alpha[None].copy(), v[None].copy()), 0.0
            self._answer = _Answer(alpha.copy(), 0.0, Beyond(v, np.zeros(v.size, dtype=np.bool_), v))
        return self._anchors.V[0]

    def _screened(self, alpha: Float, level: float) -> Beyond | None:
        """The same from products that are known, unless that costs as much as new ones for all. Sets: `_spent`."""
        rounding = growth(self.terms()[1]) + 8.0 * DOUBLE + BALANCED + 2e-14 * math.sqrt(self.n_samples)
        v, estimate = np.empty((2, self.n_features))
        certain, left = np.empty(self.n_features, dtype=np.bool_), self._work - self._spent
        work = _screen(
            self.vectors, alpha, *self._anchors, rounding, self.column_lengths(), level, self._costs,
            min(left, TOGETHER), v, certain, estimate,
        )  # fmt: skip
        if work > left:
            return None
        self._spent += work

        def take(some: Iterator[slice]) -> None:
            for part in some:
                _products_of_others(self.vectors, alpha, certain, part.start, part.stop, v, estimate)

        if work > TOGETHER:
            self.transposed.workers.run(take, _halved(self._costs, certain))
        self.read += work / self._work
        return Beyond(v, certain, estimate)

    @cached_property
    def _costs(self) -> Float:
        """What the product with each column costs."""
        if isinstance(self.vectors, SparseVectors):
            return np.diff(self.vectors.indptr.view(np.int64)).astype(np.float64) + COLUMN_WORK
        return np.full(self.n_features, float(self.n_samples))

    @cached_property
    def _work(self) -> float:
        return float(self._costs.sum())

    def products(self, w: Float, alpha: Float) -> tuple[Float, Float]:
        """``X w`` and ``X^T alpha``."""
        return self.apply(w), self.adjoint(alpha)

    def _products_with_squares(self, alpha: Float) -> Float:
        """``X^T alpha``, from a reading that also tells the norms of the columns. Sets: these."""
        v, squares = np.empty(self.n_features), np.empty(self.n_features)

        def work(parts: Iterator[slice]) -> None:
            for part in parts:
                products_and_squares(self.vectors, alpha, part.start, part.stop, v, squares)

        self.transposed.workers.run(work, self.transposed.parts)
        self._squares = squares
        self.read += 1.0
        return v

    @cached_property
    def _squares(self) -> Float:
        return self.transposed.squared_lengths()

    def squared_lengths(self) -> Float:
        """Squared norms of the columns."""
        return self._squares

    @cached_property
    def _column_lengths(self) -> Float:
        return np.sqrt(self._squares + self.n_samples * VANISHING_SQUARE)

    def column_lengths(self) -> Float:
        """Norms of the columns, not smaller than they are."""
        return self._column_lengths

    @cached_property
    def _terms(self) -> tuple[int, int]:
        of_scores, of_coefficients = self.transposed.terms()
        return max(of_coefficients, min(self.n_features, BLOCK)), of_scores

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient, in one sum after another."""
        return self._terms

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0


def _transposed(X: Matrix) -> Matrix:
    """The columns of ``X`` as rows. Whether sparse ones are sorted ``X`` may know: nobody looks at that again."""
    if not is_sparse(X):
        return X.T
    columns = X.tocsc()
    rows: Sparse = columns.T
    rows.has_canonical_format = columns.has_canonical_format
    return rows


@compiled
def _combination(vectors: Vectors, some: Index, w: Float, z: Float) -> None:
    """``z += sum_j w_j vector j`` for some vectors."""
    vectors.add_each(some, w, z)


@compiled
def _add_stretch(X: Array, some: Index, w: Float, first: int, last: int, z: Float) -> None:
    """``z += sum_j w_j X_j`` for some rows of ``X``, four at a time, between two columns of it. Sets: ``z``."""
    target, whole = z[first:last], some.shape[0] - some.shape[0] % 4
    for n in range(0, whole, 4):
        i, j, k, m = some[n], some[n + 1], some[n + 2], some[n + 3]
        a, b, c, d = X[i, first:last], X[j, first:last], X[k, first:last], X[m, first:last]
        for t in range(target.shape[0]):
            target[t] += (w[i] * a[t] + w[j] * b[t]) + (w[k] * c[t] + w[m] * d[t])
    for n in range(whole, some.shape[0]):
        a, own = X[some[n], first:last], w[some[n]]
        for t in range(target.shape[0]):
            target[t] += own * a[t]


def _halved(costs: Float, certain: Array) -> list[slice]:
    """Parts of the columns, in each of which those that are not certain cost about as much."""
    total = np.cumsum(np.where(certain, 0.0, costs))
    ends = np.searchsorted(total, np.arange(1, PIECES) / PIECES * total[-1])
    edges = [0, *ends.tolist(), costs.size]
    return [slice(first, last) for first, last in pairwise(edges)]


@compiled
def _screen(
    vectors: Vectors, alpha: Float, U: Float, V: Float, rounding: float, lengths: Float, level: float, costs: Float,
    most: float, v: Float, certain: Array, estimate: Float,
) -> float:  # fmt: skip
    """Which products are certainly within the level, and the others, unless they cost more than ``most``.

    Returns what they cost. Sets: ``v, certain, estimate``.
    """
    parts = np.empty(U.shape[0])
    rest, size = _decomposed(alpha, U, parts)
    reach = (rest + rounding * size) * (1.0 + 8.0 * DOUBLE)
    work = _inside(V, parts, reach, lengths, level, costs, certain, estimate)
    v[:] = 0.0
    if work <= most:
        _products_of_others(vectors, alpha, certain, 0, v.shape[0], v, estimate)
    return work


@compiled
def _decomposed(alpha: Float, U: Float, parts: Float) -> tuple[float, float]:
    """About the combination of some vectors that is nearest to ``alpha``. Sets: its coefficients, ``parts``.

    Returns the norm of what is left, and the norms of ``alpha`` and of all parts together.
    """
    m, n = U.shape
    A, g, rest = np.zeros((m, m)), np.zeros(m), alpha.copy()
    parts[:] = 0.0
    for a in range(m):
        u = U[a]
        for b in range(a + 1):
            other, total = U[b], 0.0
            for i in range(n):
                total += u[i] * other[i]
            A[a, b] = total
    size = 0.0
    for i in range(n):
        size += alpha[i] * alpha[i]
    size = math.sqrt(size)
    lengths, usable = np.empty(m), np.empty(m, dtype=np.bool_)
    for a in range(m):
        lengths[a] = A[a, a]
        for b in range(a + 1):
            total = A[a, b]
            for c in range(b):
                if usable[c]:
                    total -= A[a, c] * A[b, c]
            if b < a:
                A[a, b] = total / A[b, b] if usable[b] else 0.0
            else:
                usable[a] = total > 1e-9 * lengths[a]
                A[a, a] = math.sqrt(total) if usable[a] else 1.0
    for a in range(m):
        u, total = U[a], 0.0
        for i in range(n):
            total += u[i] * alpha[i]
        for c in range(a):
            if usable[c]:
                total -= A[a, c] * g[c]
        g[a] = total / A[a, a] if usable[a] else 0.0
    for a in range(m - 1, -1, -1):
        if usable[a]:
            total = g[a]
            for c in range(a + 1, m):
                if usable[c]:
                    total -= A[c, a] * parts[c]
            parts[a] = total / A[a, a]
    for a in range(m):
        u, p = U[a], parts[a]
        for i in range(n):
            rest[i] -= p * u[i]
        size += abs(p) * math.sqrt(lengths[a])
    left = 0.0
    for i in range(n):
        left += rest[i] * rest[i]
    return math.sqrt(left), size


@compiled
def _inside(
    V: Float, parts: Float, reach: float, lengths: Float, level: float, costs: Float, certain: Array, estimate: Float
) -> float:
    """Which products are certainly within the level, from those with some anchors. Sets: ``certain, estimate``.

    Returns what the others cost.
    """
    work = 0.0
    estimate[:] = 0.0
    for a in range(V.shape[0]):
        p, v = parts[a], V[a]
        for j in range(v.shape[0]):
            estimate[j] += p * v[j]
    for j in range(certain.shape[0]):
        inside = abs(estimate[j]) + reach * lengths[j] <= level
        certain[j] = inside
        work += 0.0 if inside else costs[j]
    return work


@compiled
def _products_of_others(
    vectors: Vectors, alpha: Float, certain: Array, start: int, stop: int, v: Float, estimate: Float
) -> None:
    """Products of some vectors that are not certain. Sets: ``v`` and ``estimate`` there."""
    for j in range(start, stop):
        if not certain[j]:
            v[j] = estimate[j] = vectors.dot(j, alpha)


@compiled
def products_and_squares(vectors: Vectors, alpha: Float, start: int, stop: int, v: Float, squares: Float) -> None:
    """Inner products of some vectors with another, and their squared lengths, from one reading. Sets: the last two."""
    for j in range(start, stop):
        v[j] = vectors.dot(j, alpha)
        squares[j] = vectors.squared_length(j)
