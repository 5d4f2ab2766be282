"""Cholesky's factor of a matrix that gains and loses rows with their columns, one at a time.

``A = L L^T`` is the matrix of the first ``size`` of them; ``L`` is a lower triangle, and what is above it does not
count. A new row costs as many operations as there are entries in the triangle, one that leaves at most six times that.
"""

from __future__ import annotations

import math

from maxmargin._jit import compiled
from maxmargin.protocols import Float


@compiled
def append_row(L: Float, size: int, products: Float, diagonal: float) -> float:
    """Add a row: its products with the others, and with itself. Returns the square of its pivot.

    That is what of the diagonal entry the other rows do not explain. Only if it is positive, row ``size`` is usable.
    Sets: row ``size`` of ``L``.
    """
    new, left = L[size], diagonal
    new[:size] = products[:size]
    solve_lower(L, size, new)
    for i in range(size):
        left -= new[i] * new[i]
    if left > 0.0:
        new[size] = math.sqrt(left)
    return left


@compiled
def remove_row(L: Float, size: int, gone: int) -> None:
    """Take out a row: those below move up, and rotations make the rest a triangle again. Sets: ``L``."""
    for i in range(gone, size - 1):
        L[i, : i + 2] = L[i + 1, : i + 2]
    for j in range(gone, size - 1):
        x, z = L[j, j], L[j, j + 1]
        length = math.hypot(x, z)
        cosine, sine = x / length, z / length
        L[j, j] = length
        for i in range(j + 1, size - 1):
            x, z = L[i, j], L[i, j + 1]
            L[i, j], L[i, j + 1] = cosine * x + sine * z, cosine * z - sine * x


@compiled
def solve_lower(L: Float, size: int, b: Float) -> None:
    """Sets: ``b`` to ``L^-1 b``."""
    for i in range(size):
        row, total = L[i], b[i]
        for k in range(i):
            total -= row[k] * b[k]
        b[i] = total / row[i]


@compiled
def solve_upper(L: Float, size: int, b: Float) -> None:
    """Sets: ``b`` to ``L^-T b``."""
    for i in range(size - 1, -1, -1):
        row = L[i]
        b[i] /= row[i]
        x = b[i]
        for k in range(i):
            b[k] -= x * row[k]


@compiled
def solve_in_place(L: Float, size: int, b: Float) -> None:
    """Sets: ``b`` to ``(L L^T)^-1 b``."""
    solve_lower(L, size, b)
    solve_upper(L, size, b)
