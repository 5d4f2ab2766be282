"""From an estimator's kernel parameters to kernels, kernel matrices and scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators._multiclass import BinaryTask
from maxmargin.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid
from maxmargin.losses import Hinge
from maxmargin.operators import CallableGram, Gram, KernelGram, PrecomputedGram, Rows, cross_gram
from maxmargin.operators.gram import BLOCK_VALUES, TILE_ROWS, checked_values
from maxmargin.operators.rows import is_sparse
from maxmargin.penalties import L2
from maxmargin.problem import Problem
from maxmargin.protocols import Float, Intercept, Kernel

KERNEL_NAMES = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")


def bandwidth(estimator: Any, X: Any, weights: Float) -> float:
    """The value that ``gamma`` stands for.

    The variance behind "scale" counts a sample as often as its weight says, so that weight 2 and two copies agree.
    """
    if estimator.kernel == "precomputed":
        return 0.0
    if estimator.gamma == "auto":
        return 1.0 / X.shape[1]
    if estimator.gamma != "scale":
        return float(estimator.gamma)
    variance = _variance(X, weights / (weights.sum() * X.shape[1]))
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def _variance(X: Any, share: Float) -> float:
    """Variance of the entries of ``X``, where those of row i count ``share_i``. In two passes: one would cancel."""
    mean = float((share @ X).sum())
    if is_sparse(X):
        row = np.repeat(share, np.diff(X.indptr))
        zeros = 1.0 - float(row.sum())
        return float(row @ (X.data.astype(np.float64) - mean) ** 2) + zeros * mean**2
    total = 0.0
    for start in range(0, X.shape[0], TILE_ROWS):
        tile = X[start : start + TILE_ROWS].astype(np.float64) - mean
        total += float((share[start : start + TILE_ROWS] @ tile**2).sum())
    return total


def make_kernel(estimator: Any) -> Kernel:
    """The kernel of vectors that the parameters describe."""
    kernels: dict[str, Kernel] = {
        "linear": Linear(),
        "poly": Polynomial(int(estimator.degree), estimator._gamma, float(estimator.coef0)),
        "rbf": RBF(estimator._gamma),
        "sigmoid": Sigmoid(estimator._gamma, float(estimator.coef0)),
        "laplacian": Laplacian(estimator._gamma),
    }
    return kernels[estimator.kernel]


def training_operator(estimator: Any, X: Any) -> Gram:
    """The kernel matrix of the training samples."""
    if estimator.kernel == "precomputed":
        return PrecomputedGram(X)
    if callable(estimator.kernel):
        return CallableGram(estimator.kernel, X)
    return KernelGram(make_kernel(estimator), X)


def members_of(estimator: Any, X: Any, task: BinaryTask) -> Any:
    """The samples of a binary task, or its part of a precomputed kernel matrix."""
    if task.members.size == X.shape[0]:
        return X
    part = X[task.members]
    return part[:, task.members] if estimator.kernel == "precomputed" else part


def hinge_problem(
    estimator: Any, X: Any, task: BinaryTask, s: Float, intercept: Intercept, *, as_rows: bool
) -> Problem:
    """The C-SVM problem of a binary task; a linear kernel may be posed with rows of features instead."""
    part = members_of(estimator, X, task)
    operator = Rows(part) if as_rows else training_operator(estimator, part)
    return Problem(operator, task.y, Hinge(), L2(1.0), s[task.members], intercept)


def kernel_scores(estimator: Any, X: Any, expansions: Float) -> Float:
    """``K(X, support vectors) @ expansions.T``, a block of samples at a time."""
    step = max(1, BLOCK_VALUES // max(1, expansions.shape[1]))
    out = np.empty((X.shape[0], expansions.shape[0]))
    for start in range(0, X.shape[0], step):
        part = X[start : start + step]
        out[start : start + step] = _kernel_values(estimator, part) @ expansions.T
    return out


def _kernel_values(estimator: Any, X: Any) -> Float:
    if estimator.kernel == "precomputed":
        K = X[:, estimator.support_]
        return np.asarray(K.toarray() if is_sparse(K) else K, dtype=np.float64)
    if callable(estimator.kernel):
        Z = estimator.support_vectors_
        return checked_values(estimator.kernel(X, Z), (X.shape[0], Z.shape[0]))
    return cross_gram(make_kernel(estimator), X, estimator.support_vectors_)
