"""Compiled steps of Newton's method on few rows: the whole method in one call, for problems that are done in no time.

`Newton` is for many rows and for clients, and one of its steps is hundreds of calls. Here the matrix of second
derivatives is small enough to be factorised by plain loops. Losses with kinks are made smooth in the same way as there,
by a proximal method on the dual.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float, Loss

ENOUGH = 0.1  # of the slope at the beginning of a line, where a zero of it is looked for
HALVINGS = 40


@compiled
def response_to(loss: Loss, z: float, y: float, s: float, centre: float, width: float) -> float:
    """The dual variable that answers to a score: minus the slope or, around a centre, the slope of an envelope."""
    if s <= 0.0:
        return 0.0
    return loss.dual_step(centre, y, s, z, width / s) if width > 0.0 else -s * loss.slope(z, y)


@compiled
def respond(loss: Loss, z: Float, y: Float, s: Float, centre: Float, width: float, a: Float, h: Float) -> None:
    """Sets: ``a``, the answers to the scores, and ``h``, how fast they change.

    A loss with kinks is replaced by its envelope: the maximum over ``a`` of the dual term less
    ``width (a - centre)^2 / (2 s)``.
    """
    for i in range(z.shape[0]):
        a[i] = response_to(loss, z[i], y[i], s[i], centre[i], width)
        h[i] = 0.0
        if s[i] > 0.0 and (a[i] != 0.0 or width > 0.0):
            h[i] = 1.0 / (width / s[i] + loss.dual_curvature(a[i], y[i], s[i]))


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
def slope_along(
    loss: Loss, z: Float, dz: Float, y: Float, s: Float, centre: Float, width: float, t: float, linear: float,
    square: float,
) -> float:  # fmt: skip
    """Of losses, or their envelopes, and penalty, ``t`` steps along a line."""
    total = linear + t * square
    for i in range(z.shape[0]):
        total -= response_to(loss, z[i] + t * dz[i], y[i], s[i], centre[i], width) * dz[i]
    return total


@compiled
def step_length(
    loss: Loss, z: Float, dz: Float, y: Float, s: Float, centre: Float, width: float, start: float, linear: float,
    square: float,
) -> float:  # fmt: skip
    """A full step if the slope, ``start`` at first, still falls behind it, or nearly; else to where it is small."""
    end = slope_along(loss, z, dz, y, s, centre, width, 1.0, linear, square)
    if not end > -0.5 * start:
        return 1.0
    low, high, below, above, t = 0.0, 1.0, start, end, 1.0
    for _ in range(HALVINGS):
        t = low - below * (high - low) / (above - below)
        t = min(max(t, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        slope = slope_along(loss, z, dz, y, s, centre, width, t, linear, square)
        if abs(slope) <= ENOUGH * abs(start):
            break
        if slope > 0.0:
            high, above = t, slope
        else:
            low, below = t, slope
    return t
