"""Cholesky's factor of a small matrix in plain loops: a call of LAPACK from compiled code takes seconds to compile."""

from __future__ import annotations

import math

from maxmargin._jit import compiled
from maxmargin.protocols import Float

LEAST_PIVOT = 1e-13  # relative: smaller ones are rounding, and raised to this


@compiled
def factorise_small(H: Float) -> None:
    """Cholesky's factor in the lower half. Sets: ``H``. Pivots that rounding left are raised."""
    d = H.shape[0]
    for j in range(d):
        row, largest = H[j], H[j, j]
        for k in range(j):
            other, total = H[k], row[k]
            left, right = row[:k], other[:k]
            for t in range(left.shape[0]):
                total -= left[t] * right[t]
            row[k] = total / other[k]
        pivot, left = row[j], row[:j]
        for t in range(left.shape[0]):
            pivot -= left[t] * left[t]
        row[j] = math.sqrt(max(pivot, LEAST_PIVOT * max(largest, 1e-200)))


@compiled
def solve_small(L: Float, g: Float) -> Float:
    """``(L L^T)^-1 g``."""
    x, d = g.copy(), g.shape[0]
    for j in range(d):
        row, total = L[j], x[j]
        for k in range(j):
            total -= row[k] * x[k]
        x[j] = total / row[j]
    for back in range(d):
        j = d - 1 - back
        x[j] /= L[j, j]
        row = L[j]
        for k in range(j):
            x[k] -= row[k] * x[j]
    return x
