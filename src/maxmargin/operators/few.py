"""Sums of kernel values for a few samples, in one compiled call: laying them out for matrix products takes longer."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators.rows import Matrix
from maxmargin.protocols import Float, Index, Kernel

FEW = 2**20  # products of two entries: about half a millisecond

COPIED_FROM, LONG_ROW = 8, 16  # points, from which on the columns of the others are copied; or of short rows


def are_few(X: Matrix, Z: Matrix) -> bool:
    """Whether both are dense float64 rows, and measuring all their pairs takes less than laying them out."""
    dense = isinstance(X, np.ndarray) and isinstance(Z, np.ndarray) and X.dtype == Z.dtype == np.float64
    return dense and X.shape[0] * Z.shape[0] * Z.shape[1] <= FEW


def few_sums(kernel: Kernel, X: Float, Z: Float, weights: Float) -> Float:
    """``k(X, Z) @ weights.T``; kernels of differences are measured by these, which cannot cancel."""
    traits = kernel.traits
    return _few_sums(kernel, X, Z, weights, traits.by_distance, traits.of_differences)


def few_pair_sums(kernel: Kernel, X: Float, Z: Float, weights: Float, counts: Index) -> Float:
    """The sums of all pairs of classes, a row for each of ``X``.

    ``Z`` has the points class by class, ``counts`` says how many of each, and ``weights`` are in LIBSVM's layout: a
    point has one weight for each of the other classes.
    """
    traits = kernel.traits
    return _few_pair_sums(kernel, X, Z, weights, counts, traits.by_distance, traits.of_differences)


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
    out, values = np.empty((X.shape[0], weights.shape[0])), _between(kernel, X, Z, by_distance, of_differences)
    for i in range(X.shape[0]):
        for c in range(weights.shape[0]):
            out[i, c] = _product(weights[c], values[i])
    return out


@compiled
def _few_pair_sums(
    kernel: Kernel, X: Float, Z: Float, weights: Float, counts: Index, by_distance: bool, of_differences: bool
) -> Float:
    classes, values = counts.shape[0], _between(kernel, X, Z, by_distance, of_differences)
    out, start = np.zeros((X.shape[0], classes * (classes - 1) // 2)), 0
    for c in range(classes):
        own = slice(start, start + counts[c])
        start += counts[c]
        for row in range(classes - 1):  # rows from c on are those of the next class
            other = row + 1 if row >= c else row
            first, second = min(c, other), max(c, other)
            pair = first * classes - first * (first + 1) // 2 + second - first - 1
            for i in range(X.shape[0]):
                out[i, pair] += _product(weights[row][own], values[i][own])
    return out


@compiled
def _product(u: Float, v: Float) -> float:
    total = 0.0
    for j in range(u.shape[0]):
        total += u[j] * v[j]
    return total


@compiled
def _between(kernel: Kernel, X: Float, Z: Float, by_distance: bool, of_differences: bool) -> Float:
    """Kernel values of the rows of two matrices: row by row, or feature by feature if that is worth a copy."""
    values, squares, lengths = np.empty((X.shape[0], Z.shape[0])), np.zeros(Z.shape[0]), np.zeros(X.shape[0])
    if not of_differences:
        for j in range(Z.shape[0]):
            squares[j] = _product(Z[j], Z[j])
        for i in range(X.shape[0]):
            lengths[i] = _product(X[i], X[i])
    in_rows = X.shape[0] < COPIED_FROM and Z.shape[1] >= LONG_ROW
    columns = Z[:0] if in_rows else Z.T.copy()
    for i in range(X.shape[0]):
        if in_rows:
            _measure_rows(X[i], Z, by_distance, of_differences, values[i])
        else:
            _measure(X[i], columns, by_distance, of_differences, values[i])
        row, own = values[i], lengths[i]
        for j in range(row.shape[0]):
            row[j] = kernel.similarity(row[j], own, squares[j])
    return values


@compiled
def _measure_rows(x: Float, Z: Float, by_distance: bool, of_differences: bool, out: Float) -> None:
    """As below, point by point. Sets: ``out``."""
    for j in range(Z.shape[0]):
        z, total = Z[j], 0.0
        if by_distance:
            for k in range(z.shape[0]):
                total += abs(x[k] - z[k])
        elif of_differences:
            for k in range(z.shape[0]):
                total -= 0.5 * (x[k] - z[k]) * (x[k] - z[k])
        else:
            for k in range(z.shape[0]):
                total += x[k] * z[k]
        out[j] = total


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
