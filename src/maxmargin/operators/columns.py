"""A matrix seen as columns: the rows of its transpose, so the same loops serve both."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators.rows import VANISHING_SQUARE, Matrix, Rows, is_sparse
from maxmargin.operators.vectors import SparseVectors
from maxmargin.protocols import Array, Float, Vectors
from maxmargin.threads import Workers

BALANCED = 1e-12  # relative, and a root of samples more: by how much variables may be changed to have the sum zero
COLUMN_WORK = 4  # entries: what it takes to begin with a sparse column, beside its own


class Beyond(NamedTuple):
    """The products of columns with a vector, as far as they may be larger than a level.

    What is certain holds for the exact products, and if rounding is taken from the vector that kept its sum from zero.
    """

    v: Float  # ``X^T alpha``, zero where that is certainly within the level
    certain: Array  # where it is

    def scaled(self, share: float) -> Beyond:
        """The same for a vector that is scaled down."""
        return Beyond(self.v * share, self.certain)


class _Anchor(NamedTuple):
    """A vector of which all products are known."""

    alpha: Float
    v: Float


class _Answer(NamedTuple):
    """What was asked last, and the answer."""

    alpha: Float
    level: float
    beyond: Beyond


class Columns:
    """The map ``w -> X w`` for a matrix stored by columns (Fortran order or CSC).

    It remembers the products of all columns with two vectors, the first and the last one: ``x_j.alpha`` for another
    ``alpha = p u + q v + e`` is at most ``|p x_j.u + q x_j.v| + ||x_j|| ||e||`` in size. Who only asks which products
    are beyond some level (`beyond`) therefore has to compute few of them.
    """

    products_passes = 2.0

    def __init__(self, X: Matrix, workers: Workers | None = None) -> None:
        self.transposed = Rows(X.tocsc().T if is_sparse(X) else X.T, workers)
        self.vectors = self.transposed.vectors
        self.n_samples, self.n_features = X.shape
        self.total_samples, self.entries = self.n_samples, self.transposed.entries
        self.read = 0.0  # passes over the data so far
        self.kept: object = None  # products of its columns with each other, by whoever needs them again
        self._anchors: tuple[_Anchor, ...] = ()
        self._answer: _Answer | None = None
        self._spent = 0.0  # on products since the last anchor

    def separate(self) -> Columns:
        """The same columns, without what is known of their products."""
        other = copy.copy(self)
        other.read, other.kept, other._anchors, other._answer, other._spent = 0.0, None, (), None, 0.0
        return other

    def apply(self, w: Float) -> Float:
        """``X w``."""
        return self.transposed.adjoint(w)

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        self.read += 1.0
        return self.transposed.apply(alpha)

    def beyond(self, alpha: Float, level: float) -> Beyond:
        """Which products of the columns with ``alpha`` may be larger than the level in size, and these products."""
        last = self._answer
        if last is not None and last.level <= level and np.array_equal(last.alpha, alpha):
            return last.beyond
        anchors = self._anchors
        found = self._screened(alpha, level, anchors) if anchors and level > 0.0 else None
        if found is None:
            v = self.adjoint(alpha)
            self._anchors, self._spent = (*anchors[:1], _Anchor(alpha.copy(), v)), 0.0
            found = Beyond(v, np.zeros(v.size, dtype=np.bool_))
        self._answer = _Answer(alpha.copy(), level, found)
        return found

    def first_products(self, alpha: Float) -> Float:
        """``X^T alpha`` for the vector with which a fit begins: known if the last fit began with it too."""
        if not self._anchors or not np.array_equal(self._anchors[0].alpha, alpha):
            v = self.adjoint(alpha)
            self._anchors, self._spent = (_Anchor(alpha.copy(), v),), 0.0
            self._answer = _Answer(self._anchors[0].alpha, 0.0, Beyond(v, np.zeros(v.size, dtype=np.bool_)))
        return self._anchors[0].v

    def _screened(self, alpha: Float, level: float, anchors: tuple[_Anchor, ...]) -> Beyond | None:
        """The same from products that are known, unless that costs as much as new ones for all. Sets: `_spent`."""
        first, second = anchors[0], anchors[-1]
        p, q, rest, size = _decomposed(alpha, first.alpha, second.alpha)
        rounding = growth(self.terms()[1]) + 8.0 * DOUBLE + BALANCED + 2e-14 * math.sqrt(self.n_samples)
        reach = (rest + rounding * size) * (1.0 + 8.0 * DOUBLE)
        v, certain = np.empty(self.n_features), np.empty(self.n_features, dtype=np.bool_)
        left = self._work - self._spent
        lengths = self.column_lengths()
        work = _screen(
            self.vectors, alpha, first.v, second.v, p, q, reach, lengths, level, self._costs, left, v, certain
        )
        self._spent += work
        if work > left:
            return None
        self.read += work / self._work
        return Beyond(v, certain)

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

    def squared_lengths(self) -> Float:
        """Squared norms of the columns."""
        return self.transposed.squared_lengths()

    @cached_property
    def _column_lengths(self) -> Float:
        return np.sqrt(self.squared_lengths() + self.n_samples * VANISHING_SQUARE)

    def column_lengths(self) -> Float:
        """Norms of the columns, not smaller than they are."""
        return self._column_lengths

    @cached_property
    def _terms(self) -> tuple[int, int]:
        of_scores, of_coefficients = self.transposed.terms()
        return of_coefficients, of_scores

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient, in one sum after another."""
        return self._terms

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0


@compiled
def _decomposed(alpha: Float, u: Float, v: Float) -> tuple[float, float, float, float]:
    """``p, q`` and the norm of ``alpha - p u - q v``, about the smallest; and the norms of all three parts together."""
    aa, uu, vv, au, av, uv = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(alpha.shape[0]):
        aa += alpha[i] * alpha[i]
        uu += u[i] * u[i]
        vv += v[i] * v[i]
        au += alpha[i] * u[i]
        av += alpha[i] * v[i]
        uv += u[i] * v[i]
    p, q, determinant = 0.0, 0.0, uu * vv - uv * uv
    if determinant > 1e-8 * uu * vv:
        p, q = (au * vv - av * uv) / determinant, (av * uu - au * uv) / determinant
    elif vv > 0.0:
        q = av / vv
    rest = 0.0
    for i in range(alpha.shape[0]):
        e = alpha[i] - p * u[i] - q * v[i]
        rest += e * e
    return p, q, math.sqrt(rest), math.sqrt(aa) + abs(p) * math.sqrt(uu) + abs(q) * math.sqrt(vv)


@compiled
def _screen(
    vectors: Vectors,
    alpha: Float,
    c: Float,
    d: Float,
    p: float,
    q: float,
    reach: float,
    lengths: Float,
    level: float,
    costs: Float,
    left: float,
    v: Float,
    certain: Array,
) -> float:
    """Products that may be beyond the level, from those with two anchors; nothing if that costs more than is left.

    Sets: ``v, certain``. Returns the cost.
    """
    work = 0.0
    for j in range(v.shape[0]):
        inside = abs(p * c[j] + q * d[j]) + reach * lengths[j] <= level
        certain[j] = inside
        v[j] = 0.0
        work += 0.0 if inside else costs[j]
    if work <= left:
        for j in range(v.shape[0]):
            if not certain[j]:
                v[j] = vectors.dot(j, alpha)
    return work
