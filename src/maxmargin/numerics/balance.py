"""Dual variables whose sum is what a free intercept asks for."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.communicators import ALONE
from maxmargin.protocols import Communicator, Float


def balanced(alpha: Float, communicator: Communicator = ALONE, total: float = 0.0) -> Float:
    """``alpha`` with its heavier side, the positive or the negative entries, scaled down until the sum is ``total``.

    Up to rounding: what this function returns it leaves as it is, so that a solver can hand in a balanced point.
    """
    up, down, size = communicator.allreduce(np.array([*sides(alpha), alpha.size]))
    if abs(up - down - total) <= 1e-14 * math.sqrt(size) * (up + down):
        return alpha
    if up - down > total:
        return scaled_sides(alpha, max(0.0, down + total) / up, 1.0) if up > 0.0 else alpha
    return scaled_sides(alpha, 1.0, max(0.0, up - total) / down) if down > 0.0 else alpha


@compiled
def sides(alpha: Float) -> tuple[float, float]:
    """Sums of the positive and of the negative entries, both without their sign."""
    up, down = 0.0, 0.0
    for i in range(alpha.shape[0]):
        up += alpha[i] if alpha[i] > 0.0 else 0.0
        down -= alpha[i] if alpha[i] < 0.0 else 0.0
    return up, down


@compiled
def scaled_sides(alpha: Float, positive: float, negative: float) -> Float:
    """The positive and the negative entries, each times a factor of their own."""
    out = np.empty(alpha.shape[0])
    for i in range(alpha.shape[0]):
        out[i] = alpha[i] * (positive if alpha[i] > 0.0 else negative)
    return out
