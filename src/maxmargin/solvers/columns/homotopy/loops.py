"""What happens next on a path: which column begins to count, and where the next one does, or ceases to.

At strength ``lam`` the support has ``s_j (c_j - mu w_j) = lam``, and no other column has more. When ``lam`` falls by
``g``, the slopes ``c`` become ``c - g a``, and the coefficients of the support ``w + g u``. ``up`` and ``down`` tell
which coefficients may be positive and negative.
"""

from __future__ import annotations

import math

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float, Index, Vectors


@compiled
def combination(vectors: Vectors, support: Index, w: Float, h: Float, centred: bool, out: Float) -> float:
    """``out = h (X w - mean)``, with the weighted mean of ``X w`` if columns are centred. Returns the mean."""
    out[:] = 0.0
    for a in range(support.shape[0]):
        if w[a] != 0.0:
            vectors.add(support[a], w[a], out)
    mean, total = 0.0, 0.0
    if centred:
        for i in range(out.shape[0]):
            mean += h[i] * out[i]
            total += h[i]
        mean = mean / total if total > 0.0 else 0.0
    for i in range(out.shape[0]):
        out[i] = h[i] * (out[i] - mean)
    return mean


@compiled
def some_products(vectors: Vectors, support: Index, alpha: Float, out: Float) -> None:
    """Sets: ``out`` to the products of some columns with ``alpha``."""
    for a in range(support.shape[0]):
        out[a] = vectors.dot(support[a], alpha)


@compiled
def most_eager(
    c: Float, a: Float, lam: float, left_out: Array, up: Array, down: Array, tie: float, blur: Float, slack: float
) -> tuple[int, float]:
    """Of the columns at the limit, that which would pass it by most if left out, and its sign; -1 if none would."""
    best, sign, most = -1, 1.0, slack
    for j in range(c.shape[0]):
        if left_out[j]:
            continue
        near = lam * (1.0 - tie) - blur[j]
        if up[j] and c[j] >= near and 1.0 - a[j] > most:
            best, sign, most = j, 1.0, 1.0 - a[j]
        if down[j] and -c[j] >= near and 1.0 + a[j] > most:
            best, sign, most = j, -1.0, 1.0 + a[j]
    return best, sign


@compiled
def next_arrival(c: Float, a: Float, lam: float, left_out: Array, up: Array, down: Array, slack: float) -> float:
    """By how much ``lam`` falls until another column is at the limit; infinite if none ever is."""
    least = math.inf
    for j in range(c.shape[0]):
        if left_out[j]:
            continue
        if up[j] and 1.0 - a[j] > slack:
            least = min(least, max(lam - c[j], 0.0) / (1.0 - a[j]))
        if down[j] and 1.0 + a[j] > slack:
            least = min(least, max(lam + c[j], 0.0) / (1.0 + a[j]))
    return least


@compiled
def next_departure(w: Float, u: Float, signs: Float, size: int) -> float:
    """By how much ``lam`` falls until a coefficient of the support is zero; infinite if none ever is."""
    least = math.inf
    for i in range(size):
        if signs[i] * u[i] < 0.0:
            least = min(least, max(signs[i] * w[i], 0.0) / (-signs[i] * u[i]))
    return least


@compiled
def walk(w: Float, u: Float, signs: Float, size: int, step: float, tie: float) -> int:
    """Go along the direction; what comes within rounding of zero is zero. Returns how many did. Sets: ``w``."""
    zeros = 0
    for i in range(size):
        old, move = w[i], step * u[i]
        w[i] = old + move
        if signs[i] * w[i] <= tie * abs(old) and signs[i] * u[i] < 0.0:
            w[i] = 0.0
            zeros += 1
    return zeros
