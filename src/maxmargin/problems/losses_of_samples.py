"""Losses of samples: their sums, slopes and conjugates, and the box of their dual variables, in compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.protocols import Array, Float, Loss

SLOPE_ROUNDING = 1e-13  # of the sum of the absolute slopes: a sum of slopes that is smaller is zero


@compiled
def clipped(loss: Loss, alpha: Float, y: Float, s: Float) -> Float:
    """Dual variables in their box: several times faster than `box_of_duals` and ``clip``."""
    out = np.zeros(y.shape[0])
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            low, high = loss.dual_range(y[i])
            out[i] = min(max(alpha[i], s[i] * low), s[i] * high)
    return out


@compiled
def sum_of_losses(loss: Loss, z: Float, y: Float, s: Float) -> float:
    """``sum_i s_i loss(z_i, y_i)``."""
    total = 0.0
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            total += s[i] * loss.value(z[i], y[i])
    return total


@compiled
def may_cost(loss: Loss, z: Float, error: Float, y: Float, s: Float) -> Array:
    """Whether each loss could be other than zero; it is convex, and zero between two zeros."""
    out = np.empty(z.shape[0], dtype=np.bool_)
    for i in range(z.shape[0]):
        ends = loss.value(z[i] - error[i], y[i]) + loss.value(z[i] + error[i], y[i])
        out[i] = s[i] > 0.0 and ends != 0.0
    return out


@compiled
def weighted_slopes(loss: Loss, z: Float, y: Float, s: Float) -> Float:
    """``-s_i loss'(z_i, y_i)`` of each sample: dual variables that belong to the scores."""
    out = np.empty(z.shape[0])
    for i in range(z.shape[0]):
        out[i] = -s[i] * loss.slope(z[i], y[i])
    return out


@compiled
def sum_of_conjugates(loss: Loss, alpha: Float, y: Float, s: Float) -> float:
    """``sum_i s_i loss*(-alpha_i / s_i, y_i)``."""
    total = 0.0
    for i in range(alpha.shape[0]):
        if s[i] > 0.0:
            total += s[i] * loss.conjugate(-alpha[i] / s[i], y[i])
    return total


@compiled
def box_of_duals(loss: Loss, y: Float, s: Float) -> tuple[Float, Float]:
    """Between which values the dual variable of each sample lies."""
    low, high = np.zeros(y.shape[0]), np.zeros(y.shape[0])
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            least, most = loss.dual_range(y[i])
            low[i], high[i] = s[i] * least, s[i] * most
    return low, high


@compiled_methods
class InterceptSlope(NamedTuple):
    """The sum of the losses as a function of the intercept."""

    loss: Loss
    z: Float
    y: Float
    s: Float

    def derivative(self, b: float) -> float:
        """The sum of the slopes at ``b``, or zero where it is rounding."""
        total, size = 0.0, 0.0
        for i in range(self.z.shape[0]):
            g = self.s[i] * self.loss.slope(self.z[i] + b, self.y[i])
            total += g
            size += abs(g)
        return 0.0 if abs(total) <= SLOPE_ROUNDING * size else total


@compiled
def intercept_slopes(losses: InterceptSlope, points: Float) -> Float:
    """For every intercept, the sum of the slopes and of their absolute values."""
    out = np.zeros((2, points.shape[0]))
    for i in range(losses.z.shape[0]):
        for k in range(points.shape[0]):
            g = losses.s[i] * losses.loss.slope(losses.z[i] + points[k], losses.y[i])
            out[0, k] += g
            out[1, k] += abs(g)
    return out
