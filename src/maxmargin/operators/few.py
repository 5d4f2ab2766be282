"""Sums of kernel values for a few samples, in one compiled call: laying them out for matrix products takes longer."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled, inlined
from maxmargin.operators.rows import Matrix
from maxmargin.protocols import Float, Kernel

FEW = 2**19  # products of two entries: about a quarter of a millisecond


def are_few(X: Matrix, Z: Matrix) -> bool:
    """Whether both are dense float64 rows, and measuring all their pairs takes less than laying them out."""
    dense = isinstance(X, np.ndarray) and isinstance(Z, np.ndarray) and X.dtype == Z.dtype == np.float64
    return dense and X.shape[0] * Z.shape[0] * Z.shape[1] <= FEW


def few_sums(kernel: Kernel, X: Float, Z: Float, weights: Float) -> Float:
    """``k(X, Z) @ weights.T``; kernels of differences are measured by these, which cannot cancel."""
    traits = kernel.traits
    return _few_sums(kernel, X, Z, weights, traits.by_distance, traits.of_differences)


@compiled
def _few_sums(kernel: Kernel, X: Float, Z: Float, weights: Float, by_distance: bool, of_differences: bool) -> Float:
    out, values, squares = np.zeros((X.shape[0], weights.shape[0])), np.empty(Z.shape[0]), np.zeros(Z.shape[0])
    if not of_differences:  # those are measured from one point to the other, which has no length then
        for j in range(Z.shape[0]):
            squares[j] = _squared_length(Z[j])
    for i in range(X.shape[0]):
        x = X[i]
        square = 0.0 if of_differences else _squared_length(x)
        for j in range(Z.shape[0]):
            z, m = Z[j], 0.0
            if by_distance:
                for k in range(x.shape[0]):
                    m += abs(x[k] - z[k])
            elif of_differences:
                for k in range(x.shape[0]):
                    m -= 0.5 * (x[k] - z[k]) * (x[k] - z[k])
            else:
                for k in range(x.shape[0]):
                    m += x[k] * z[k]
            values[j] = m
        for j in range(Z.shape[0]):
            values[j] = kernel.similarity(values[j], square, squares[j])
        for c in range(weights.shape[0]):
            w, total = weights[c], 0.0
            for j in range(w.shape[0]):
                total += w[j] * values[j]
            out[i, c] = total
    return out


@inlined
def _squared_length(x: Float) -> float:
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
    return total
