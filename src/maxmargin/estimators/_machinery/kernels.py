"""From an estimator's kernel parameters to kernels, kernel matrices and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import DTypeLike

from maxmargin._jit import compiled
from maxmargin.estimators._machinery.plan import Task
from maxmargin.operators import CallableGram, Gram, KernelGram, Matrix, PrecomputedGram, Rows, StoredGram, kernel_sums
from maxmargin.operators.few import are_few, few_sums
from maxmargin.operators.given import values_of
from maxmargin.operators.rows import TILE_ROWS, checked_values, dense64, is_sparse, vectors_of
from maxmargin.operators.tiles import single_errors
from maxmargin.operators.vectors import SparseVectors
from maxmargin.parts.kernels import KERNELS, kernel_of
from maxmargin.protocols import Float, Index, Kernel, Operator
from maxmargin.threads import Workers, workers_for

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.kernel_machine import KernelMachine

SMALL_PREDICTION = 1_000_000  # kernel values: fewer are computed in float64 at once
SMALL = 2**20  # entries whose variance is computed without the threads and the copies that NumPy makes
GIVEN_VALUES = 2_000_000  # at a time, of kernels that are not ours
SAME_NUMBER = 1.0 - 1e-9  # of the squares, if the mean explains that much, they come from its own rounding
KERNEL_NAMES = (*KERNELS, "precomputed")


def bandwidth(estimator: KernelMachine, X: Matrix, weights: Float) -> float:
    """The value that ``gamma`` stands for.

    The variance behind "scale" counts a sample as often as its weight says, so that weight 2 and two copies agree.
    """
    if estimator.kernel == "precomputed" or X.dtype == object:
        return 0.0
    if estimator.gamma == "auto":
        return 1.0 / X.shape[1]
    if estimator.gamma != "scale":
        return float(estimator.gamma)
    variance = _variance(X, weights / (float(weights.sum()) * X.shape[1]))
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def _variance(X: Matrix, share: Float) -> float:
    """Variance of the entries of ``X``, where those of row i count ``share_i``.

    In two passes, since one would cancel. The second corrects the mean of the first, which was rounded.
    """
    if not is_sparse(X) and X.dtype == np.float64 and X.size <= SMALL and X.flags.c_contiguous:
        return _difference(*_squares_around_mean(X, share))
    mean = float((share @ X).sum())
    if is_sparse(X):
        vectors = cast("SparseVectors", vectors_of(X))
        counts: Index = np.diff(vectors.indptr).astype(np.int64)
        row, moved = np.repeat(share, counts), vectors.data.astype(np.float64) - mean
        zeros = float(share @ (X.shape[1] - counts))
        residual, square = float(row @ moved) - zeros * mean, float(row @ moved**2) + zeros * mean**2
        return _difference(square, residual**2)
    residual = square = 0.0
    for start in range(0, X.shape[0], TILE_ROWS):
        some = slice(start, start + TILE_ROWS)
        moved = X[some].astype(np.float64) - mean
        residual += float((share[some] @ moved).sum())
        square += float((share[some] @ moved**2).sum())
    return _difference(square, residual**2)


@compiled
def _squares_around_mean(X: Float, share: Float) -> tuple[float, float]:
    """The same two passes over a few rows: the sum of the squares, and the square of the rounding error of the mean."""
    mean = residual = square = 0.0
    for i in range(X.shape[0]):
        row, total = X[i], 0.0
        for j in range(row.shape[0]):
            total += row[j]
        mean += share[i] * total
    for i in range(X.shape[0]):
        row, total, squares = X[i], 0.0, 0.0
        for j in range(row.shape[0]):
            moved = row[j] - mean
            total += moved
            squares += moved * moved
        residual += share[i] * total
        square += share[i] * squares
    return square, residual * residual


def _difference(square: float, correction: float) -> float:
    """What is left of a sum of squares; nothing if that may be rounding, as where all entries are the same."""
    return square - correction if correction < SAME_NUMBER * square else 0.0


def make_kernel(estimator: KernelMachine) -> Kernel:
    """The kernel of vectors that the parameters describe."""
    known = {"degree": int(estimator.degree), "gamma": estimator._gamma, "coef0": float(estimator.coef0)}
    return kernel_of(str(estimator.kernel), **known)


def training_operator(estimator: KernelMachine, X: Matrix, workers: Workers | None = None) -> Gram:
    """The kernel matrix of the training samples."""
    workers = workers or workers_for(getattr(estimator, "n_jobs", None))
    if estimator.kernel == "precomputed":
        return PrecomputedGram(X, workers)
    if callable(estimator.kernel):
        return CallableGram(estimator.kernel, X, workers)
    return KernelGram(make_kernel(estimator), X, workers)


def task_operator(estimator: KernelMachine, X: Matrix, task: Task, *, as_rows: bool) -> Operator:
    """The samples of a task as a kernel matrix, or as rows of features, which is the linear kernel without a matrix."""
    part = members_of(estimator, X, task)
    return Rows(part) if as_rows else training_operator(estimator, part)


class KernelView:
    """Samples through the kernel of an estimator.

    What tasks with all samples have in common is made once: one operator and, if there are many such tasks and it fits
    half of ``cache_size``, one matrix of all values.
    """

    def __init__(self, estimator: KernelMachine, X: Matrix, tasks: Sequence[Task], workers: Workers) -> None:
        self.estimator, self.X, self.workers, self.tasks = estimator, X, workers, tasks
        self.shared: Gram | None = None

    def of(self, task: Task) -> Gram:
        """The kernel matrix of the samples of a task."""
        if task.members.size < self.X.shape[0]:
            return training_operator(self.estimator, members_of(self.estimator, self.X, task), self.workers)
        if self.shared is None:
            gram = training_operator(self.estimator, self.X, self.workers)
            self.shared = gram
            whole = sum(task.members.size == self.X.shape[0] for task in self.tasks)
            if whole > 2 and isinstance(gram, KernelGram) and gram.fits_single:
                fits = StoredGram.megabytes(self.X.shape[0]) <= 0.5 * self.estimator.cache_size
                self.shared = StoredGram(gram) if fits else gram
        return self.shared


def members_of(estimator: KernelMachine, X: Matrix, task: Task) -> Matrix:
    """The samples of a task, or its part of a precomputed kernel matrix."""
    if task.members.size == X.shape[0]:
        return X
    part = X[task.members]
    return part[:, task.members] if estimator.kernel == "precomputed" else part


def single_error(estimator: KernelMachine, X: Matrix) -> Float | None:
    """A bound on what float32 kernel values change in the score of each sample; ``None`` if they are not to be used.

    Only for the Gaussian kernel, whose values are at most 1.
    """
    if estimator.kernel != "rbf" or X.shape[0] * estimator.support_.size < SMALL_PREDICTION:
        return None
    total = float(np.abs(estimator._expansions()).sum(axis=1).max(initial=0.0))
    error = single_errors(make_kernel(estimator), X, estimator.support_vectors_) * total
    return error if np.isfinite(error).all() else None


def kernel_scores(estimator: KernelMachine, X: Matrix, expansions: Float, dtype: DTypeLike = np.float64) -> Float:
    """``K(X, support vectors) @ expansions.T`` with kernel values in a precision, in constant memory."""
    Z, kernel = estimator.support_vectors_, estimator.kernel
    ours = kernel != "precomputed" and not callable(kernel)
    if ours and are_few(X, Z):
        return few_sums(make_kernel(estimator), np.asarray(X), np.asarray(Z), expansions)
    if ours:
        return kernel_sums(make_kernel(estimator), X, Z, expansions, dtype, workers_for(estimator.n_jobs))
    out = np.empty((X.shape[0], expansions.shape[0]))
    step = max(1, GIVEN_VALUES // max(1, expansions.shape[1]))
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        if isinstance(kernel, str):
            K = dense64(part[:, estimator.support_])
        else:
            K = checked_values(values_of(kernel, part, Z), (part.shape[0], Z.shape[0]))
        out[start : start + step] = K @ expansions.T
    return out
