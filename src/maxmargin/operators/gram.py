"""The kernel matrix, evaluated in tiles and never stored whole unless the user gave it.

Certificates are made of float64 tiles. Solvers may ask for rows in float32, which cost half as much.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg.blas import dsyrk

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, SINGLE, roundings
from maxmargin.operators.arena import memory_for
from maxmargin.operators.differences import Measuring
from maxmargin.operators.few import are_few, few_values
from maxmargin.operators.points import DensePoints, Points, points_of
from maxmargin.operators.rows import Matrix, is_sparse, rows_as_bytes
from maxmargin.operators.tiles import LEFT_VALUES, Tiles, centre_for, stretches
from maxmargin.parts.kernels import RBF, Linear
from maxmargin.protocols import Array, Float, Index, Kernel
from maxmargin.threads import Workers

POSITIVITY_SAMPLES = 1500  # of a kernel that is not known to be positive are tested: a factorisation of about a GFLOP
ASYMMETRY = 1e-8  # of the largest value: a matrix that is farther from its transpose is not symmetric
MIRRORED = 32  # rows at a time, whose other halves stay in the processor's cache
SCREENED_VALUES = 2_000_000  # kernel values: fewer are computed in float64 at once
SINGLE_RANGE = 1e-30, 1e30  # of kernel values and squared lengths that float32 can hold with room to spare
SINGLE_ERROR = 1e-2  # of float32 values relative to their magnitudes: with more of it, rows are of no use to solvers
NO_SINGLE_VALUE = 1e-37  # a float32 value that is smaller may be lost altogether
SECOND_ORDER = 1.0 + 1e-6  # times a bound, for products of rounding errors and for those of the bound itself


# Samples as a kind of matrix likes them for columns: as points, or by their numbers.
Prepared: TypeAlias = Points | Index
# Given samples, their scores and a bound on the error of each: whether the error could change anything.
Matters: TypeAlias = Callable[[Index, Float, Float], Array]


class Screened(NamedTuple):
    """``K w``, roughly and only for the samples whose ``w`` is zero."""

    w: Float
    scores: Float
    errors: Float  # bounds; infinite for the other samples


class Gram(ABC):
    """A symmetric kernel matrix ``K`` as an operator on expansions ``beta`` over the samples.

    A kind of matrix says how its rows and sums are evaluated; the rest follows from these.
    """

    n_samples: int
    workers: Workers

    @abstractmethod
    def diagonal(self) -> Float:
        """``K[i, i]`` for every ``i``."""

    @abstractmethod
    def columns(self, samples: Index | None, dtype: DTypeLike) -> Prepared:
        """Samples prepared as columns for the two methods below, of this matrix only; ``None`` is all of them."""

    @abstractmethod
    def write_rows(self, samples: Index, columns: Any, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""

    @abstractmethod
    def sums(self, weights: Float, columns: Any) -> Float:
        """``K[columns, :] @ weights`` with float64 sums of values in the precision of the columns."""

    @abstractmethod
    def rounding(self, w: Float) -> Float:
        """How far each entry of ``apply(w)`` may be from ``K w`` in exact arithmetic: a bound for the worst case.

        ``K`` is the kernel of the samples exactly as they are stored, or the matrix that was given. For the latter the
        bound holds if it is positive semi-definite.
        """

    def single_values(self) -> tuple[Float, Float]:
        """Numbers for the samples whose products bound float32 values, and the errors of each row relative to them."""
        return np.sqrt(np.maximum(self.diagonal(), 0.0)), np.full(self.n_samples, SINGLE)

    def block(self, rows: Index) -> Float:
        """``K[rows, :]`` in float64."""
        out = np.empty((len(rows), self.n_samples))
        self.write_rows(np.asarray(rows), self._all_columns, 1.0, 0.0, out, np.arange(len(rows)))
        return out

    def apply(self, w: Float) -> Float:
        """``K w`` from the rows where ``w`` is not zero; ``K`` is symmetric."""
        whole: Float | None = vars(self).get("whole")
        return self.sums(w, self._all_columns) if whole is None else np.asarray(w @ whole)

    def within(self, w: Float) -> Float:
        """``K w`` where ``w`` is not zero, perhaps zero elsewhere: ``w^T K w`` takes half of a part of the matrix."""
        return self.apply(w)

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """``K w``, in float64 where ``w`` is not zero or it matters, and at most an error away from it elsewhere."""
        return self.apply(w)

    def screened(self, w: Float) -> Screened | None:
        """``K w`` in float32 for the samples whose ``w`` is zero, with errors; ``None`` if float64 is cheap enough.

        A certificate of the same ``w`` does not compute it again.
        """
        return None

    def adjoint(self, alpha: Float) -> Float:
        """The expansion of ``sum_i alpha_i phi(x_i)``."""
        return alpha.copy()

    def passes(self, w: Float) -> float:
        """Share of the rows that ``apply`` has to evaluate."""
        return float(np.count_nonzero(w)) / max(1, self.n_samples)

    def may_meet(self, some: Index, others: Index) -> bool:
        """Whether the hulls of some samples and of others, as the kernel sees them, can have a common point."""
        return True

    @cached_property
    def fits_single(self) -> bool:
        """Whether the diagonal, which bounds all values, can be held in float32."""
        return is_moderate(self.diagonal())

    @cached_property
    def positive(self) -> bool:
        """Whether the matrix is symmetric and positive semi-definite.

        Tested by a Cholesky factorisation on up to ``POSITIVITY_SAMPLES`` samples, spread evenly.
        """
        K, size = self._tested()
        if float(np.abs(K - K.T).max(initial=0.0)) > ASYMMETRY * size:
            return False
        try:
            np.linalg.cholesky(0.5 * (K + K.T) + 1e-10 * (size + 1e-300) * np.eye(K.shape[0]))
        except np.linalg.LinAlgError:
            return False
        return True

    @cached_property
    def flaw(self) -> str | None:
        """Why the matrix is not positive semi-definite, in words; ``None`` if it is, as far as it was tested."""
        if self.positive:
            return None
        K, size = self._tested()
        apart = float(np.abs(K - K.T).max(initial=0.0))
        if apart > ASYMMETRY * size:
            return f"it is not symmetric, and values of the same two samples differ by {apart:.2g}"
        least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
        return f"it has a direction of negative curvature, {least:.2g}, where its largest value is {size:.2g}"

    def _tested(self) -> tuple[Float, float]:
        """The values of some samples, spread evenly, and the largest size of these."""
        rows = np.unique(np.linspace(0, self.n_samples - 1, min(self.n_samples, POSITIVITY_SAMPLES)).astype(np.int64))
        K = np.empty((rows.size, rows.size))
        self.write_rows(rows, self.columns(rows, np.float64), 1.0, 0.0, K, np.arange(rows.size))
        return K, float(np.abs(K).max(initial=0.0))

    @cached_property
    def whole(self) -> Float:
        """All of ``K`` in float64, for few samples: computed once, and used from then on."""
        return self.block(np.arange(self.n_samples))

    @cached_property
    def _all_columns(self) -> Prepared:
        return self.columns(None, np.float64)


class KernelGram(Gram):
    """Kernel matrix of the rows of ``X``."""

    def __init__(self, kernel: Kernel, X: Matrix, workers: Workers | None = None) -> None:
        self.kernel = kernel
        self.X = X.tocsr() if is_sparse(X) else X
        self.n_samples = X.shape[0]
        self.workers = workers or Workers()
        self.tiles = Tiles(kernel, self.workers)
        self._screened: Screened | None = None

    @cached_property
    def positive(self) -> bool:
        """Known for most kernels, tested for the others."""
        return self.kernel.traits.positive or super().positive

    @cached_property
    def fits_single(self) -> bool:
        """Whether neither squared lengths nor kernel values leave the range of float32, or lose most of its digits."""
        sq = self.doubles.sq
        if self.kernel.traits.by_distance:  # float64 samples are not centred for distances, float32 ones are
            sq = points_of(self.X, centre_for(self.kernel, self.X, np.float32), np.float64).sq
        error = Measuring.of(self.kernel, self.doubles).usual_in_single(float(sq.max(initial=0.0)))
        return is_moderate(sq) and is_moderate(self.diagonal()) and error < SINGLE_ERROR

    def may_meet(self, some: Index, others: Index) -> bool:
        """Kernels of differences make distinct samples independent: only samples that are equal can meet.

        With a kernel that is not positive, a distance of zero proves nothing. That samples are equal does.
        """
        if self.kernel.traits.positive and not self.kernel.traits.of_differences:
            return True
        return not rows_as_bytes(self.X[some]).isdisjoint(rows_as_bytes(self.X[others]))

    def diagonal(self) -> Float:
        """``k(x_i, x_i)``."""
        sq = self._all_columns.sq
        values = np.zeros(self.n_samples) if self.kernel.traits.by_distance else sq.copy()
        _map_diagonal(self.kernel, values, sq)
        return values

    def columns(self, samples: Index | None, dtype: DTypeLike) -> Points:
        """The samples as points; float32 ones are converted once, float64 ones as they are used."""
        points = self.singles if np.dtype(dtype) == np.float32 else self.doubles
        return points if samples is None else points.take(samples)

    def write_rows(self, samples: Index, columns: Points, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        self.tiles.write_rows(self.columns(None, columns.dtype), samples, columns, scale, shift, out, slots)

    def sums(self, weights: Float, columns: Points) -> Float:
        """``K[columns, :] @ weights``."""
        return self.tiles.sums(self.columns(None, columns.dtype), weights[None, :], columns)[0]

    def rounding(self, w: Float) -> Float:
        """A bound on the error of each entry of ``apply(w)``, from the errors of kernel values and of their sums."""
        bound = rounding_of_sums(w, *self._double_values, depth=self.depth(w))
        return 2.0 * bound if isinstance(self.kernel, Linear) else bound  # `coef_` is another sum of the same products

    def depth(self, w: Float) -> float:
        """How many roundings a term of ``apply(w)`` goes through at most while it is added to the others."""
        terms = np.count_nonzero(w) + 4.0
        return terms if "whole" in vars(self) else min(terms, self.tiles.depth(self.doubles, int(terms)))

    @cached_property
    def _double_values(self) -> tuple[Float, Float]:
        """As `single_values` of float64 values."""
        measuring, sq = Measuring.of(self.kernel, self.doubles), self.doubles.sq
        return measuring.magnitude(sq), measuring.error(sq, float(sq.max(initial=0.0)))

    def single_values(self) -> tuple[Float, Float]:
        """As above; float32 values that cancel are not measured again."""
        measuring, sq = Measuring.of(self.kernel, self.singles), self.singles.sq.astype(np.float64)
        return measuring.magnitude(sq), measuring.error_as_measured(sq, float(sq.max(initial=0.0)))

    @cached_property
    def whole(self) -> Float:
        """All of ``K`` in float64: of very few samples pair by pair, else by one matrix product unless it cancels."""
        if are_few(self.X, self.X):
            return few_values(self.kernel, np.asarray(self.X))
        points = self.doubles
        largest = float(points.sq.max(initial=0.0))
        cancels = Measuring.of(self.kernel, points).cancels(largest, largest)
        if cancels or self.kernel.traits.by_distance or not isinstance(points, DensePoints):
            return super().whole
        n, X = self.n_samples, points.stored().X
        K = memory_for(None, n * n, np.float64).reshape(n, n)
        dsyrk(1.0, X.T, trans=1, lower=1, c=K.T, overwrite_c=1)  # the upper half, which is enough
        map_all(self.kernel, K, points.sq)
        return K

    def within(self, w: Float) -> Float:
        """Among the samples with a coefficient, from one half of their matrix."""
        if "whole" in vars(self):
            return self.apply(w)
        z, support = np.zeros(self.n_samples), np.flatnonzero(w)
        z[support] = self.tiles.symmetric_sums(self.doubles.take(support), w[support])
        return z

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """``K w``: among the support vectors from one half of the matrix, elsewhere first in float32.

        Only for the Gaussian kernel, where the rounding of float32 is known relative to each value.
        """
        screened = None if "whole" in vars(self) else self.screened(w)
        if screened is None:
            return self.apply(w)
        z, error = screened.scores.copy(), screened.errors
        support, rest = np.flatnonzero(w), np.flatnonzero(w == 0.0)
        z[support] = self.tiles.symmetric_sums(self.doubles.take(support), w[support])
        doubtful = rest[matters(rest, z[rest], error[rest])]
        if doubtful.size:
            z[doubtful] = self.sums(w, self.doubles.take(doubtful))
        return z

    def screened(self, w: Float) -> Screened | None:
        """Scores in float32 of the samples without a coefficient, remembered until they are asked for another ``w``.

        Sets: ``_screened``. Threads that share the matrix may overwrite it at any time; what is in it stays true.
        """
        last = self._screened
        if last is not None and np.array_equal(last.w, w):
            return last
        support, rest = np.flatnonzero(w), np.flatnonzero(w == 0.0)
        few = support.size * rest.size < SCREENED_VALUES
        if few or not isinstance(self.kernel, RBF) or not self.fits_single or not is_moderate(w):
            return None
        singles, scores, errors = self.singles, np.zeros(self.n_samples), np.full(self.n_samples, np.inf)
        scores[rest], size = self.tiles.sums(singles, np.stack([w, np.abs(w)]), singles.take(rest))
        largest = float(singles.sq[support].max(initial=0.0))
        relative = Measuring.of(self.kernel, singles).as_sums(singles.sq[rest], largest, singles.rows_per_tile)
        errors[rest] = relative * size + NO_SINGLE_VALUE * float(np.abs(w).sum())
        self._screened = last = Screened(w.copy(), scores, errors)
        return last

    @cached_property
    def doubles(self) -> Points:
        """The samples in float64."""
        return points_of(self.X, centre_for(self.kernel, self.X, np.float64), np.float64)

    @cached_property
    def singles(self) -> Points:
        """The samples in float32."""
        return points_of(self.X, centre_for(self.kernel, self.X, np.float32), np.float32).stored()

    @cached_property
    def _all_columns(self) -> Points:
        return self.doubles


class StoredGram(Gram):
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
        """Whether the matrix whose rows are kept is positive semi-definite."""
        return self.gram.positive

    @property
    def fits_single(self) -> bool:
        """It is stored in float32."""
        return True

    def diagonal(self) -> Float:
        """In float64."""
        return self.gram.diagonal()

    def columns(self, samples: Index | None, dtype: DTypeLike) -> Prepared:
        """Numbers of samples for float32, where everything is stored."""
        if np.dtype(dtype) != np.float32:
            return self.gram.columns(samples, dtype)
        return np.arange(self.n_samples) if samples is None else samples

    def write_rows(
        self, samples: Index, columns: Prepared, scale: float, shift: float, out: Array, slots: Index
    ) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        if not isinstance(columns, np.ndarray):
            self.gram.write_rows(samples, columns, scale, shift, out, slots)
            return

        def work(parts: Iterator[slice]) -> None:
            for part in parts:
                out[slots[part]] = np.float32(scale) * self.K[samples[part]][:, columns] + np.float32(shift)

        self.workers.run(work, list(stretches(samples.size, 32)))

    def sums(self, weights: Float, columns: Prepared) -> Float:
        """``K[columns, :] @ weights``."""
        if not isinstance(columns, np.ndarray):
            return self.gram.sums(weights, columns)
        support = np.flatnonzero(weights)
        out = np.zeros(columns.size)
        for part in stretches(support.size, max(1, LEFT_VALUES // max(1, columns.size))):
            out += weights[support[part]] @ self.K[support[part]][:, columns].astype(np.float64)
        return out

    def rounding(self, w: Float) -> Float:
        """A bound on the error of each entry of ``apply(w)``, which evaluates float64 values."""
        return self.gram.rounding(w)


def rounding_of_sums(
    w: Float, magnitudes: Float, errors: Float | float, unit: float = DOUBLE, depth: float = np.inf
) -> Float:
    """A bound on the error of ``K w`` if no value is larger than the product of the magnitudes of its two samples.

    ``errors`` are those of the values of each row, relative to these products; ``unit`` is that of the sums, which may
    have any order, or one in which no term goes through more than ``depth`` roundings.
    """
    support = np.flatnonzero(w)
    if not support.size:
        return np.zeros(magnitudes.size)
    with np.errstate(all="ignore"):
        weights = np.abs(w[support])
        total = float((magnitudes[support] * weights).sum())
        bound = SECOND_ORDER * (errors + roundings(min(depth, support.size + 4.0), unit)) * magnitudes * total
        bound += 1e-300 * (1.0 + weights.sum())  # for products that are too small for normal numbers
    return np.where(np.isnan(bound), np.inf, bound)


def is_moderate(values: Float) -> bool:
    """Whether the largest of some numbers is zero, or neither very small nor very large in float32."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest == 0.0 or SINGLE_RANGE[0] < largest < SINGLE_RANGE[1]


@compiled
def map_all(kernel: Kernel, K: Float, sq: Float) -> None:
    """Turn inner products of all pairs into kernel values in place: one half of them, which is copied to the other."""
    n = K.shape[0]
    for first in range(0, n, MIRRORED):
        last = min(first + MIRRORED, n)
        for i in range(first, last):
            row, lengths, length = K[i, i:], sq[i:], sq[i]
            for j in range(row.shape[0]):
                row[j] = kernel.similarity(row[j], length, lengths[j])
        for start in range(first, n, MIRRORED):
            for j in range(start, min(start + MIRRORED, n)):
                column = K[j]
                for i in range(first, min(last, j)):
                    column[i] = K[i, j]


@compiled
def _map_diagonal(kernel: Kernel, values: Float, sq: Float) -> None:
    """Turn the measurements of each point with itself into kernel values in place."""
    for i in range(values.shape[0]):
        values[i] = kernel.similarity(values[i], sq[i], sq[i])
