"""From an estimator's kernel parameters to kernels, kernel matrices and scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid
from maxmargin.operators import CallableGram, Gram, KernelGram, PrecomputedGram, cross_gram
from maxmargin.operators.gram import BLOCK_VALUES, checked_values
from maxmargin.operators.rows import is_sparse
from maxmargin.protocols import Float, Kernel

KERNEL_NAMES = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")


def bandwidth(estimator: Any, X: Any, sample_weight: Any) -> float:
    """The value that ``gamma`` stands for.

    The variance behind "scale" counts a sample as often as its weight says, so that weight 2 and two copies agree.
    """
    if estimator.kernel == "precomputed":
        return 0.0
    if estimator.gamma == "auto":
        return 1.0 / X.shape[1]
    if estimator.gamma != "scale":
        return float(estimator.gamma)
    share = np.full(X.shape[0], 1.0) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    share = share / (share.sum() * X.shape[1])
    mean = float((share @ X).sum())
    squares = X.multiply(X) if is_sparse(X) else np.square(X, dtype=np.float64)
    variance = float((share @ squares).sum()) - mean**2
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


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
