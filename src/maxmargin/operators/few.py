"""Sums of kernel values for a few samples, in one compiled call: laying them out for matrix products takes longer."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
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


def few_values(kernel: Kernel, X: Float) -> Float:
    """The kernel matrix of a few samples."""
    traits = kernel.traits
    return few_values_of(kernel, X, traits.by_distance, traits.of_differences)


@compiled
def few_values_of(kernel: Kernel, X: Float, by_distance: bool, of_differences: bool) -> Float:
    """The same, for compiled loops."""
    n, columns = X.shape[0], X.T.copy()
    K, squares = np.empty((n, n)), _squared_lengths(columns, of_differences)
    for i in range(n):
        row = K[i, : i + 1]
        _measure(X[i], columns, by_distance, of_differences, row)
        for j in range(row.shape[0]):
            row[j] = kernel.similarity(row[j], squares[i], squares[j])
        for j in range(i):
            K[j, i] = row[j]
    return K


@compiled
def _few_sums(kernel: Kernel, X: Float, Z: Float, weights: Float, by_distance: bool, of_differences: bool) -> Float:
    out, values, columns = np.zeros((X.shape[0], weights.shape[0])), np.empty(Z.shape[0]), Z.T.copy()
    squares, lengths = _squared_lengths(columns, of_differences), _squared_lengths(X.T.copy(), of_differences)
    for i in range(X.shape[0]):
        _measure(X[i], columns, by_distance, of_differences, values)
        for j in range(values.shape[0]):
            values[j] = kernel.similarity(values[j], lengths[i], squares[j])
        for c in range(weights.shape[0]):
            w, total = weights[c], 0.0
            for j in range(w.shape[0]):
                total += w[j] * values[j]
            out[i, c] = total
    return out


@compiled
def _measure(x: Float, columns: Float, by_distance: bool, of_differences: bool, out: Float) -> None:
    """What kernels are functions of, for a point and some others, of which the columns are given. Sets: ``out``.

    Feature by feature, so that the loops over the points become vector code however few features there are.
    """
    out[:] = 0.0
    for k in range(x.shape[0]):
        column, value = columns[k], x[k]
        if by_distance:
            for j in range(out.shape[0]):
                out[j] += abs(value - column[j])
        elif of_differences:
            for j in range(out.shape[0]):
                out[j] -= 0.5 * (value - column[j]) * (value - column[j])
        else:
            for j in range(out.shape[0]):
                out[j] += value * column[j]


@compiled
def _squared_lengths(columns: Float, of_differences: bool) -> Float:
    """Squared lengths of points; zeros if they are measured from one point to the other, which has no length then."""
    out = np.zeros(columns.shape[1])
    if not of_differences:
        for k in range(columns.shape[0]):
            for j in range(out.shape[0]):
                out[j] += columns[k, j] * columns[k, j]
    return out
