"""Cholesky's factor of a matrix that gains and loses rows, kept up to date in a number of operations per change.

The factor ``R`` of ``M = R^T R`` is upper triangular and its rows are contiguous, so every loop below runs along rows.
It lies in the upper left corner of a larger array; ``m`` is its size.
"""

from __future__ import annotations

import math

from maxmargin._jit import compiled
from maxmargin.protocols import Float


@compiled
def solve_transposed(R: Float, m: int, b: Float) -> None:
    """``R^T x = b``. Sets: ``b``, to ``x``."""
    for k in range(m):
        x = b[k] / R[k, k]
        b[k] = x
        row, rest = R[k, k + 1 : m], b[k + 1 : m]
        for j in range(rest.shape[0]):
            rest[j] -= x * row[j]


@compiled
def solve_triangle(R: Float, m: int, b: Float) -> None:
    """``R x = b``. Sets: ``b``, to ``x``."""
    for k in range(m - 1, -1, -1):
        row, rest, total = R[k, k + 1 : m], b[k + 1 : m], b[k]
        for j in range(rest.shape[0]):
            total -= row[j] * rest[j]
        b[k] = total / R[k, k]


@compiled
def solve_both(R: Float, m: int, b: Float) -> None:
    """``M x = b``. Sets: ``b``, to ``x``."""
    solve_transposed(R, m, b)
    solve_triangle(R, m, b)


@compiled
def solve_two(R: Float, m: int, b: Float, c: Float) -> None:
    """``M x = b`` and ``M z = c``, with one reading of the factor for both. Sets: ``b, c``, to ``x`` and ``z``."""
    for k in range(m):
        first, second, row = b[k] / R[k, k], c[k] / R[k, k], R[k, k + 1 : m]
        rest, others = b[k + 1 : m], c[k + 1 : m]
        for j in range(row.shape[0]):
            rest[j] -= first * row[j]
            others[j] -= second * row[j]
        b[k], c[k] = first, second
    for k in range(m - 1, -1, -1):
        row, rest, others = R[k, k + 1 : m], b[k + 1 : m], c[k + 1 : m]
        first, second = b[k], c[k]
        for j in range(row.shape[0]):
            first -= row[j] * rest[j]
            second -= row[j] * others[j]
        b[k], c[k] = first / R[k, k], second / R[k, k]


@compiled
def pivot_of(R: Float, m: int, column: Float, diagonal: float) -> float:
    """What would be the square of the new diagonal entry if a row were appended. Sets: ``column``, to ``R^-T column``.

    A new row that depends on the others has the pivot zero, up to rounding.
    """
    solve_transposed(R, m, column)
    pivot = diagonal
    for k in range(m):
        pivot -= column[k] * column[k]
    return pivot


@compiled
def append_row(R: Float, m: int, column: Float, pivot: float) -> None:
    """Append the row for which `pivot_of` was asked. Sets: column ``m`` of ``R``."""
    for k in range(m):
        R[k, m] = column[k]
    R[m, m] = math.sqrt(pivot)


@compiled
def delete_row(R: Float, m: int, q: int) -> None:
    """Delete row and column ``q`` of ``M``: rotations of neighbouring rows of the factor. Sets: ``R``."""
    for i in range(q):
        row = R[i]
        for j in range(q, m - 1):
            row[j] = row[j + 1]
    carried = R[q, q + 1 : m].copy()  # the row that is rotated with the next one
    for k in range(q, m - 1):
        below, target = R[k + 1], R[k]
        first, second = carried[k - q], below[k + 1]
        length = math.hypot(first, second)
        c, s = first / length, second / length
        target[k] = length
        for j in range(k + 1, m - 1):
            x, z = carried[j - q], below[j + 1]
            target[j] = c * x + s * z
            carried[j - q] = c * z - s * x
