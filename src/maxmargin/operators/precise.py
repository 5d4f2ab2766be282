"""Sums over samples with twice the digits of float64, for the certificates that rounding would decide.

They take tens of times as long as the usual ones, so they are used only where those leave a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from maxmargin.numerics.doubled import DOUBLED, add_parts, add_rows, products_of_rows, sums_of_decay, sums_of_powers
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators.given import GivenGram
from maxmargin.operators.gram import Gram, KernelGram, Matters
from maxmargin.operators.rows import Matrix, Rows, dense64, is_sparse, scores_of
from maxmargin.operators.wrapped import WrappedGram, evaluated
from maxmargin.parts.kernels import RBF, Laplacian, Linear, Polynomial
from maxmargin.protocols import Array, Float, Index
from maxmargin.threads import go_on

TILE_ENTRIES = 2**16  # of a matrix at a time
TILE_PAIRS = 2**12  # of samples at a time
MOST_STEPS = 4e8  # of ten nanoseconds each: some seconds
SHARED_STEPS = 1e7  # fewer take less time than to wake a thread
VALUE_STEPS = 40  # that a kernel value takes beside its measurement
UNDERFLOW = 1e-290  # for each term: products that are smaller may lose all digits


class Sums(NamedTuple):
    """Numbers in two parts, and how far their sum may be from the truth."""

    high: Float
    low: Float
    error: Float

    @property
    def slack(self) -> Float:
        """How far ``high`` alone may be from the truth; infinite where something overflowed."""
        slack = np.abs(self.low) + self.error
        return np.where(np.isfinite(self.high + slack), slack, np.inf)


def products(X: Matrix, w: Float, w_low: Float | None = None, w_error: Float | None = None) -> Sums:
    """``X w`` for a ``w`` that may have a second part, and an error."""
    w_low = np.zeros_like(w) if w_low is None else w_low
    terms, out = _longest(X), np.empty((3, X.shape[0]))
    for part, entries in _tiles(X):
        products_of_rows(*entries, w, w_low, out[:, part])
    high, low, size = out
    error: Float = 2.0 * growth(terms) ** 2 * size + terms * UNDERFLOW
    if w_error is not None:
        error += scores_of(magnitudes(X), w_error[None])[:, 0] * (1.0 + growth(terms))
    return Sums(high, low, error)


def combination(X: Matrix, weights: Float) -> Sums:
    """``X^T weights``."""
    out, terms = np.zeros((3, X.shape[1])), int(np.count_nonzero(weights))
    for part, entries in _tiles(X):
        add_rows(*entries, weights[part], out)
    high, low, size = out
    total = high + low
    return Sums(total, (high - total) + low, 2.0 * growth(terms) ** 2 * size + terms * UNDERFLOW)


def linear_coefficients(X: Matrix, expansions: Float) -> Float:
    """``expansions @ X``, each number as near as float64 allows."""
    return np.array([combination(X, weights).high for weights in np.ascontiguousarray(expansions, dtype=np.float64)])


class Product(NamedTuple):
    """``K w`` with a bound on the error of each entry, and whether all of them have twice the digits."""

    w: Float
    scores: Float
    errors: Float
    whole: bool


class PreciseGram(WrappedGram):
    """A kernel matrix whose products with vectors are computed with twice the digits.

    If users get the vectors ``divided`` by a number, the rounding of that counts as error of the products.
    """

    def __init__(self, gram: Gram, divided: bool = False) -> None:
        self.divided = 2.0 * DOUBLE if divided else 0.0
        super().__init__(gram)
        self._last: Product | None = None

    @staticmethod
    def can(gram: Gram) -> bool:
        """Whether products of a matrix can be computed so, in seconds."""
        gram = evaluated(gram)
        pairs = float(gram.n_samples) ** 2
        if isinstance(gram, GivenGram):
            return pairs <= MOST_STEPS
        if not isinstance(gram, KernelGram):
            return False
        if isinstance(gram.kernel, Linear):
            return _size(gram.X) <= MOST_STEPS
        values = isinstance(gram.kernel, RBF | Laplacian | Polynomial)
        return values and pairs * (VALUE_STEPS + gram.X.shape[1]) <= MOST_STEPS

    def apply(self, w: Float) -> Float:
        """``K w``, rounded."""
        return self._product(w)[0]

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """``K w`` with twice the digits where ``w`` is not zero or it matters, and as the matrix itself elsewhere."""
        gram = self.gram
        if not isinstance(gram, KernelGram) or isinstance(gram.kernel, Linear):
            return self.apply(w)
        if self._last is None or not np.array_equal(self._last.w, w):
            z, errors, rest = gram.apply(w), gram.rounding(w), np.flatnonzero(w == 0.0)
            rows = np.union1d(np.flatnonzero(w), rest[matters(rest, z[rest], errors[rest])])
            with np.errstate(all="ignore"):
                z[rows], errors[rows] = self._of_pairs(gram, w, rows)
            self._last = Product(w.copy(), z, errors, rows.size == w.size)
        return self._last.scores

    def rounding(self, w: Float) -> Float:
        """A bound on the error of each entry of the last product with ``w``."""
        if self._last is not None and np.array_equal(self._last.w, w):
            return self._last.errors
        return self._product(w)[1]

    def _product(self, w: Float) -> tuple[Float, Float]:
        """``K w`` and its error, remembered. Sets: ``_last``."""
        if self._last is None or not self._last.whole or not np.array_equal(self._last.w, w):
            with np.errstate(all="ignore"):
                self._last = Product(w.copy(), *self._computed(w), True)
        return self._last.scores, self._last.errors

    def _computed(self, w: Float) -> tuple[Float, Float]:
        gram = self.gram
        if isinstance(gram, GivenGram):
            return self._of_given(gram, w)
        assert isinstance(gram, KernelGram)
        if isinstance(gram.kernel, Linear):
            return self._of_rows(gram, gram.kernel.scale, w)
        return self._of_pairs(gram, w, np.arange(self.n_samples))

    def _of_given(self, gram: GivenGram, w: Float) -> tuple[Float, Float]:
        everything, support = np.arange(self.n_samples), np.flatnonzero(w)
        out = np.zeros((3, self.n_samples))
        for part in _stretches(support.size, max(1, TILE_ENTRIES // max(1, self.n_samples))):
            add_rows(*_entries(gram.between(support[part], everything)), w[support[part]], out)
        error = (2.0 * growth(support.size) ** 2 + self.divided) * out[2] + support.size * UNDERFLOW
        high = out[0] + out[1]
        sums = Sums(high, (out[0] - high) + out[1], error)
        return sums.high, sums.slack + 0.5 * gram._asymmetry * float(np.abs(w).sum())

    def _of_rows(self, gram: KernelGram, scale: float, w: Float) -> tuple[Float, Float]:
        """Through the coefficients ``X^T w``; users get these rounded, which changes the scores a little more.

        What users get divided are the coefficients.
        """
        v = combination(gram.X, w)
        z = products(gram.X, v.high, v.low, 2.0 * v.error + 2.0 * DOUBLE * np.abs(v.high))
        return scale * z.high, abs(scale) * (z.slack + 2.0 * DOUBLE * np.abs(z.high))

    def _of_pairs(self, gram: KernelGram, w: Float, rows: Index) -> tuple[Float, Float]:
        """Value by value, in tiles of pairs; many of them by several threads. ``rows`` have all where ``w`` is not 0.

        A value of two of these serves both.
        """
        support, d = np.flatnonzero(w), gram.X.shape[1]
        ordered = np.concatenate([support, np.setdiff1d(rows, support, assume_unique=True)])
        step = max(1, int((TILE_PAIRS * 64 / max(1, d)) ** 0.5))
        inner = list(_stretches(support.size, step))
        outer = _stretches(ordered.size - support.size, step)
        parts = [*inner, *(slice(support.size + part.start, support.size + part.stop) for part in outer)]
        shares = [np.zeros((3, 0)) for _ in parts]

        def work(numbers: Iterator[int]) -> None:
            for number in numbers:
                shares[number] = self._share(gram, w, ordered, support.size, parts[number], inner)

        pairs = support.size * (0.5 * support.size + ordered.size - support.size)
        if pairs * (d + VALUE_STEPS) < SHARED_STEPS:
            work(iter(range(len(parts))))
        else:
            self.workers.run(work, range(len(parts)))
        out = np.zeros((3, ordered.size))
        for part, share in zip(parts, shares, strict=True):  # in one order, whoever computed them
            if part.start < support.size:
                add_parts(out[:, part.start : support.size], share)
            else:
                out[:, part] = share
        kernel = gram.kernel
        degree = max(1, kernel.degree) if isinstance(kernel, Polynomial) else 1
        terms = support.size + len(inner)
        relative = degree * (DOUBLED + 4.0 * growth(d) ** 2) + 2.0 * growth(terms) ** 2 + self.divided
        error = relative * out[2] + UNDERFLOW * (terms + float(np.abs(w).sum()))
        high = out[0] + out[1]
        sums = Sums(high, (out[0] - high) + out[1], error)
        back = np.argsort(ordered)
        return sums.high[back], sums.slack[back]

    def _share(
        self, gram: KernelGram, w: Float, ordered: Index, support: int, part: slice, inner: list[slice]
    ) -> Float:
        """The sums of some rows and, if they are support vectors, what they add to those of all after them."""
        kernel, left = gram.kernel, dense64(gram.X[ordered[part]])
        first = part.start if part.start < support else 0
        share = np.zeros((3, support - first if part.start < support else part.stop - part.start))
        own = np.zeros((3, part.stop - part.start))
        for some in inner:
            if some.start < first:
                continue
            go_on()
            right, weights = dense64(gram.X[ordered[some]]), w[ordered[some]]
            later = part.start < support and some.start > part.start
            of_left = w[ordered[part]] if later else np.zeros(0)
            back = np.zeros((3, some.stop - some.start))
            if isinstance(kernel, Polynomial):
                parameters = kernel.gamma, kernel.coef0, kernel.degree
                sums_of_powers(left, right, weights, *parameters, own, of_left, back)
            else:
                assert isinstance(kernel, RBF | Laplacian)
                sums_of_decay(left, right, weights, kernel.gamma, isinstance(kernel, RBF), own, of_left, back)
            if later:
                share[:, some.start - first : some.stop - first] = back
        share[:, : own.shape[1]] = own
        return share


def magnitudes(X: Matrix) -> Matrix:
    """The numbers without their signs."""
    return cast("Matrix", abs(X))


def precise_in_seconds(rows: Rows) -> bool:
    """Whether products with all rows can be computed so."""
    return rows.entries <= MOST_STEPS


def _size(X: Matrix) -> int:
    return int(X.nnz if is_sparse(X) else X.size)


def _longest(X: Matrix) -> int:
    return int(np.diff(X.indptr).max(initial=0)) if is_sparse(X) else X.shape[1]


def _entries(X: Matrix) -> tuple[Array, Index, Index]:
    """The numbers of a few rows as those of a CSR matrix."""
    if is_sparse(X):
        X = X.tocsr()
        return X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)
    n, d = X.shape
    return np.ravel(X), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d) if d else np.zeros(n + 1, dtype=np.int64)


def _tiles(X: Matrix) -> Iterator[tuple[slice, tuple[Array, Index, Index]]]:
    """A few rows after the other."""
    if is_sparse(X):
        X = X.tocsr()
    step = max(1, TILE_ENTRIES * X.shape[0] // max(1, _size(X)))
    for part in _stretches(X.shape[0], step):
        go_on()
        yield part, _entries(X[part])


def _stretches(length: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, length)) for first in range(0, length, step))
