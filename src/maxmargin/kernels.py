"""Mercer kernels of vectors, as functions of one measurement of a pair and of two squared norms.

The measurement ``m`` is the inner product or, for the kernels in ``MEASURED_BY_DISTANCE``, the Manhattan distance.
Precomputed matrices and Python callables
are not kernels of vectors: see ``operators.gram``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods


@compiled_methods
class Linear(NamedTuple):
    """``scale x.z``."""

    scale: float = 1.0

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return self.scale * m


@compiled_methods
class RBF(NamedTuple):
    """``exp(-gamma |x - z|^2)``."""

    gamma: float = 1.0

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        # Rounding can make the squared distance of two equal points slightly negative.
        return exp_of_negative(-self.gamma * max(sq_left + sq_right - 2.0 * m, 0.0))


@compiled_methods
class Polynomial(NamedTuple):
    """``(gamma x.z + coef0)^degree``."""

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 0.0

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return (self.gamma * m + self.coef0) ** self.degree


@compiled_methods
class Sigmoid(NamedTuple):
    """``tanh(gamma x.z + coef0)``: not positive semi-definite for most parameters."""

    gamma: float = 1.0
    coef0: float = 0.0

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return math.tanh(self.gamma * m + self.coef0)


@compiled_methods
class Laplacian(NamedTuple):
    """``exp(-gamma |x - z|_1)``."""

    gamma: float = 1.0

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return exp_of_negative(-self.gamma * m)


MEASURED_BY_DISTANCE = (Laplacian,)


@compiled
def exp_of_negative(x: float) -> float:
    """``exp(x)`` for ``x <= 0``, within 3e-14, in a form that compilers turn into vector instructions.

    ``x = k log 2 + r`` with ``|r| <= log(2) / 2``: a Taylor series of degree 13 for ``r``, the exponent bits for ``k``.
    """
    x = max(x, -708.0)  # below this, the result is no longer a normal number
    k = np.floor(x * 1.4426950408889634 + 0.5)
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.int64(k) + np.int64(1023)) << np.int64(52))
    return p * power.view(np.float64)
