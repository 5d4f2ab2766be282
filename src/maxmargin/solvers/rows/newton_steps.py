"""Compiled steps of Newton's method on few rows: the whole method in one call, for problems that are done in no time.

`Newton` is for many rows, kinks and clients, and one of its steps is hundreds of calls. Here a loss is smooth, and the
matrix of second derivatives is small enough to be factorised by plain loops.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float, Loss

ENOUGH = 0.1  # of the slope at the beginning of a line, where a zero of it is looked for
HALVINGS = 40
LEAST_PIVOT = 1e-13  # relative: smaller ones are rounding, and raised to this


@compiled
def responses(loss: Loss, z: Float, y: Float, s: Float, a: Float, h: Float) -> float:
    """The sum of the losses. Sets: ``a``, the dual variables that answer to the scores, and how fast they change."""
    total = 0.0
    for i in range(z.shape[0]):
        a[i], h[i] = 0.0, 0.0
        if s[i] > 0.0:
            total += s[i] * loss.value(z[i], y[i])
            a[i] = -s[i] * loss.slope(z[i], y[i])
            if a[i] != 0.0:
                curvature = loss.dual_curvature(a[i], y[i], s[i])
                h[i] = 1.0 / curvature if curvature > 0.0 else 0.0
    return total


@compiled
def hessian(X: Float, h: Float, penalised: int) -> Float:
    """``X^T diag(h) X`` of the rows that react, with ones added for the penalised coefficients."""
    n, d = X.shape
    count = 0
    for i in range(n):
        count += h[i] > 0.0
    B, at = np.empty((count, d)), 0
    for i in range(n):
        if h[i] > 0.0:
            root, row, target = math.sqrt(h[i]), X[i], B[at]
            for j in range(d):
                target[j] = root * row[j]
            at += 1
    H = np.dot(B.T, B)
    for j in range(penalised):
        H[j, j] += 1.0
    return H


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


@compiled
def slope_along(loss: Loss, z: Float, dz: Float, y: Float, s: Float, t: float, linear: float, square: float) -> float:
    """Of losses and penalty, ``t`` steps along a line."""
    total = linear + t * square
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            total += s[i] * loss.slope(z[i] + t * dz[i], y[i]) * dz[i]
    return total


@compiled
def step_length(loss: Loss, z: Float, dz: Float, y: Float, s: Float, linear: float, square: float) -> float:
    """A full step if the slope still falls behind it, or nearly; else to where the slope is small."""
    start, end = (
        slope_along(loss, z, dz, y, s, 0.0, linear, square),
        slope_along(loss, z, dz, y, s, 1.0, linear, square),
    )
    if end <= -0.5 * start:
        return 1.0
    low, high, below, above = 0.0, 1.0, start, end
    t = 1.0
    for _ in range(HALVINGS):
        t = low - below * (high - low) / (above - below)
        t = min(max(t, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        slope = slope_along(loss, z, dz, y, s, t, linear, square)
        if abs(slope) <= ENOUGH * abs(start):
            break
        if slope > 0.0:
            high, above = t, slope
        else:
            low, below = t, slope
    return t
