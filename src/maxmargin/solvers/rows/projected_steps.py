"""Projected stochastic subgradient steps over a ball."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float, Index, Loss, Vectors
from maxmargin.solvers.pegasos_steps import LARGEST_SHARE, SMALLEST_SCALE


@compiled
def projected_steps(
    vectors: Vectors, loss: Loss, y: Float, visited: Index, step: float, radius: float, d: int
) -> tuple[Float, Float, Float]:
    """The mean of the points before each step, and the sum of the slopes and the number of visits of each sample.

    ``w = a v``, so that a projection costs nothing, and ``total + c v`` is the sum of the points, so that a step costs
    as much as its row. The squared length of ``w`` follows from each step.
    """
    v, total = np.zeros(d), np.zeros(d)
    slopes, visits = np.zeros(y.shape[0]), np.zeros(y.shape[0])
    a, c, square = 1.0, 0.0, 0.0
    for t in range(visited.shape[0]):
        i = visited[t]
        c += a
        z = a * vectors.dot(i, v)
        slope = loss.slope(z, y[i])
        slopes[i] += slope
        visits[i] += 1.0
        if slope != 0.0:
            move = -step * slope
            square += move * (2.0 * z + move * vectors.squared_length(i))
            vectors.add(i, move / a, v)
            vectors.add(i, -c * move / a, total)
        if square > radius * radius:
            a *= radius / math.sqrt(square)
            square = radius * radius
        if a < SMALLEST_SCALE or c > LARGEST_SHARE * a * (t + 2.0):
            total += c * v
            v *= a
            a, c = 1.0, 0.0
    return (total + c * v) / visited.shape[0], slopes, visits
