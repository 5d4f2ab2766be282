"""Loops of Newton's method over the rows."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float, Loss


@compiled
def answer(
    loss: Loss, centre: Float, y: Float, s: Float, z: Float, width: float, kept: float, start: int, stop: int,
    a: Float, h: Float, change: Float,
) -> tuple[float, float, float, int]:  # fmt: skip
    """The dual variables that answer to the scores, and how strongly. Sets: ``a, h, change`` of some rows.

    Changes are those from ``kept`` times the dual variables so far. Returns the losses of the rows, their conjugates,
    their proximal term, and how many react.
    """
    losses, conjugates, proximity, reacting = 0.0, 0.0, 0.0, 0
    for i in range(start, stop):
        before = kept * a[i]
        a[i] = 0.0
        h[i] = 0.0
        if s[i] > 0.0:
            q = width / s[i]
            a[i] = loss.dual_step(centre[i], y[i], s[i], z[i], q)
            curvature = q + loss.dual_curvature(a[i], y[i], s[i])
            if curvature < math.inf:
                h[i] = 1.0 / curvature if curvature > 0.0 else 0.0
                reacting += h[i] > 0.0
            losses += s[i] * loss.value(z[i], y[i])
            conjugates += s[i] * loss.conjugate(-a[i] / s[i], y[i])
            proximity += 0.5 * q * (a[i] - centre[i]) ** 2
        change[i] = a[i] - before
    return losses, conjugates, proximity, reacting


@compiled
def may_react(loss: Loss, centre: Float, y: Float, s: Float, z: Float, width: float, band: float, a: Float) -> Array:
    """Whether each dual variable would change if its score did, by up to ``band``."""
    out = np.zeros(z.shape[0], dtype=np.bool_)
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            q = width / s[i]
            low = loss.dual_step(centre[i], y[i], s[i], z[i] - band, q)
            high = loss.dual_step(centre[i], y[i], s[i], z[i] + band, q)
            out[i] = low != a[i] or high != a[i]
    return out


@compiled
def pull(
    loss: Loss, centre: Float, y: Float, s: Float, z: Float, dz: Float, t: float, width: float, start: int, stop: int
) -> float:
    """``sum_i a_i dz_i`` over some rows, where ``a`` answers to the scores ``z + t dz``."""
    total = 0.0
    for i in range(start, stop):
        if s[i] > 0.0:
            total += loss.dual_step(centre[i], y[i], s[i], z[i] + t * dz[i], width / s[i]) * dz[i]
    return total
