"""Penalties on the coefficients: ridge, LASSO and their sum.

All are separable, so each is given for one coefficient ``w``; ``lam`` is the strength.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin._jit import compiled_methods


@compiled_methods
class L2(NamedTuple):
    """``lam w^2 / 2``."""

    lam: float = 1.0

    def cost(self, w: float) -> float:
        return 0.5 * self.lam * w * w

    def conjugate_cost(self, v: float) -> float:
        return 0.5 * v * v / self.lam

    def dual_limit(self) -> float:
        return math.inf

    def prox(self, v: float, step: float) -> float:
        return v / (1.0 + step * self.lam)


@compiled_methods
class L1(NamedTuple):
    """``lam |w|``."""

    lam: float = 1.0

    def cost(self, w: float) -> float:
        return self.lam * abs(w)

    def conjugate_cost(self, v: float) -> float:
        return 0.0 if abs(v) <= self.lam else math.inf

    def dual_limit(self) -> float:
        return self.lam

    def prox(self, v: float, step: float) -> float:
        return math.copysign(max(abs(v) - step * self.lam, 0.0), v)


@compiled_methods
class ElasticNet(NamedTuple):
    """``lam (ratio |w| + (1 - ratio) w^2 / 2)`` with ``0 <= ratio < 1``."""

    lam: float = 1.0
    ratio: float = 0.5

    def cost(self, w: float) -> float:
        return self.lam * (self.ratio * abs(w) + 0.5 * (1.0 - self.ratio) * w * w)

    def conjugate_cost(self, v: float) -> float:
        return 0.5 * max(abs(v) - self.lam * self.ratio, 0.0) ** 2 / (self.lam * (1.0 - self.ratio))

    def dual_limit(self) -> float:
        return math.inf

    def prox(self, v: float, step: float) -> float:
        shrunk = max(abs(v) - step * self.lam * self.ratio, 0.0)
        return math.copysign(shrunk / (1.0 + step * self.lam * (1.0 - self.ratio)), v)
