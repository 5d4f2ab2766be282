"""Losses: hinge and its smooth relatives, logistic, squared, Huber's, and the insensitive losses of regression.

Each is a convex function of the score ``z`` and the target ``y`` (``y`` is -1 or +1 for the classification losses).
Dual variables are signed: ``alpha_i = -s_i slope(z_i, y_i)``, which for classification is the textbook's
``y_i alpha_i``. With the conjugate ``l*``, the dual of ``sum_i s_i l(z_i, y_i) + ...`` contains
``-sum_i s_i l*(-alpha_i / s_i, y_i)``.

A loss is one class: the methods of `protocols.Loss`, and ``traits`` that say what a solver has to know beforehand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin._jit import compiled, compiled_methods
from maxmargin.protocols import LossTraits


@compiled_methods
class Hinge(NamedTuple):
    """``max(0, margin - y z)``."""

    margin: float = 1.0

    @property
    def traits(self) -> LossTraits:
        return LossTraits(classes=True, kinked=True, dual_pieces=1)

    def value(self, z: float, y: float) -> float:
        return max(0.0, self.margin - y * z)

    def slope(self, z: float, y: float) -> float:
        return -y if y * z < self.margin else 0.0

    def conjugate(self, u: float, y: float) -> float:
        return self.margin * u * y if -1.0 <= u * y <= 0.0 else math.inf

    def dual_range(self, y: float) -> tuple[float, float]:
        return min(0.0, y), max(0.0, y)

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -self.margin * y

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return 0.0 if 0.0 < y * a < s else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        slack = self.margin - y * z
        if q > 0.0:
            return y * min(max(y * a + slack / q, 0.0), s)
        return y * s if slack > 0.0 else (0.0 if slack < 0.0 else a)


@compiled_methods
class SquaredHinge(NamedTuple):
    """``max(0, margin - y z)^2``."""

    margin: float = 1.0

    @property
    def traits(self) -> LossTraits:
        return LossTraits(classes=True, dual_pieces=1)

    def value(self, z: float, y: float) -> float:
        return max(0.0, self.margin - y * z) ** 2

    def slope(self, z: float, y: float) -> float:
        return -2.0 * y * max(0.0, self.margin - y * z)

    def conjugate(self, u: float, y: float) -> float:
        return self.margin * u * y + 0.25 * u * u if u * y <= 0.0 else math.inf

    def dual_range(self, y: float) -> tuple[float, float]:
        return (0.0, math.inf) if y > 0.0 else (-math.inf, 0.0)

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -self.margin * y + 0.5 * a / s

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return 0.5 / s if y * a > 0.0 else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        return y * max((self.margin - y * z + q * y * a) / (q + 0.5 / s), 0.0)


@compiled_methods
class HuberHinge(NamedTuple):
    """The hinge smoothed by a parabola of width ``mu`` below the margin: within ``mu / 2`` of the hinge."""

    mu: float = 0.5

    @property
    def traits(self) -> LossTraits:
        return LossTraits(classes=True, dual_pieces=1)

    def value(self, z: float, y: float) -> float:
        slack = 1.0 - y * z
        if slack >= self.mu:
            return slack - 0.5 * self.mu
        return 0.5 * max(0.0, slack) ** 2 / self.mu

    def slope(self, z: float, y: float) -> float:
        return -y * min(max((1.0 - y * z) / self.mu, 0.0), 1.0)

    def conjugate(self, u: float, y: float) -> float:
        return u * y + 0.5 * self.mu * u * u if -1.0 <= u * y <= 0.0 else math.inf

    def dual_range(self, y: float) -> tuple[float, float]:
        return min(0.0, y), max(0.0, y)

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -y + self.mu * a / s

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return self.mu / s if 0.0 < y * a < s else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        return y * min(max((1.0 - y * z + q * y * a) / (q + self.mu / s), 0.0), s)


@compiled_methods
class Logistic(NamedTuple):
    """``T log(1 + exp(-y z / T))``: the logistic loss at temperature ``T``."""

    temperature: float = 1.0

    @property
    def traits(self) -> LossTraits:
        return LossTraits(classes=True)

    def value(self, z: float, y: float) -> float:
        t = -y * z / self.temperature
        return self.temperature * (max(t, 0.0) + math.log1p(math.exp(-abs(t))))

    def slope(self, z: float, y: float) -> float:
        return -y * _sigmoid(-y * z / self.temperature)

    def conjugate(self, u: float, y: float) -> float:
        t = -u * y
        if t < 0.0 or t > 1.0:
            return math.inf
        # With log(1 - t) a small t would lose all its digits, which a large weight brings to light.
        return self.temperature * (t * math.log(t) + (1.0 - t) * math.log1p(-t)) if 0.0 < t < 1.0 else 0.0

    def dual_range(self, y: float) -> tuple[float, float]:
        return min(0.0, y), max(0.0, y)

    def dual_slope(self, a: float, y: float, s: float) -> float:
        t = y * a / s
        return self.temperature * y * (math.log(t) - math.log1p(-t))

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return self.temperature * s / (y * a * (s - y * a)) if 0.0 < y * a < s else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        """Newton's method in ``t = logit(alpha / s)``, with bisection where it does not halve its step.

        The optimality condition ``T t + y z + q (s sigmoid(t) - y a) = 0`` has a slope of at least ``T`` however close
        ``alpha`` is to its bounds; but alone, Newton's method goes to and fro between the flat ends of the sigmoid.
        """
        low = -(y * z + q * (s - y * a)) / self.temperature
        high = -(y * z - q * y * a) / self.temperature
        t = 0.5 * (low + high)
        last = high - low
        for _ in range(200):
            p = _sigmoid(t)
            residual = self.temperature * t + y * z + q * (s * p - y * a)
            if residual > 0.0:
                high = t
            else:
                low = t
            step = residual / (self.temperature + q * s * p * (1.0 - p))
            if low <= t - step <= high and abs(step) <= 0.5 * last:
                t -= step
                last = abs(step)
                if last <= 1e-15 * (1.0 + abs(t)):
                    break
            else:
                t = 0.5 * (low + high)
                last = high - low
                if last <= 1e-15 * (abs(low) + abs(high)):
                    break
        return y * s * _sigmoid(t)


@compiled_methods
class Squared(NamedTuple):
    """``curvature (z - y)^2 / 2``."""

    curvature: float = 1.0

    @property
    def traits(self) -> LossTraits:
        return LossTraits(dual_pieces=1)

    def value(self, z: float, y: float) -> float:
        return 0.5 * self.curvature * (z - y) ** 2

    def slope(self, z: float, y: float) -> float:
        return self.curvature * (z - y)

    def conjugate(self, u: float, y: float) -> float:
        return u * y + 0.5 * u * u / self.curvature

    def dual_range(self, y: float) -> tuple[float, float]:
        return -math.inf, math.inf

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -y + a / (self.curvature * s)

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return 1.0 / (self.curvature * s)

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        return (y - z + q * a) / (q + 1.0 / (self.curvature * s))


@compiled_methods
class Huber(NamedTuple):
    """``(z - y)^2 / 2`` up to the distance ``delta``, and ``delta (|z - y| - delta / 2)`` beyond."""

    delta: float = 0.1

    @property
    def traits(self) -> LossTraits:
        return LossTraits(dual_pieces=1)

    def value(self, z: float, y: float) -> float:
        away = abs(z - y)
        return 0.5 * away * away if away <= self.delta else self.delta * (away - 0.5 * self.delta)

    def slope(self, z: float, y: float) -> float:
        return min(max(z - y, -self.delta), self.delta)

    def conjugate(self, u: float, y: float) -> float:
        return u * y + 0.5 * u * u if abs(u) <= self.delta else math.inf

    def dual_range(self, y: float) -> tuple[float, float]:
        return -self.delta, self.delta

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -y + a / s

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return 1.0 / s if abs(a) < self.delta * s else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        return min(max((y - z + q * a) / (q + 1.0 / s), -self.delta * s), self.delta * s)


@compiled_methods
class EpsilonInsensitive(NamedTuple):
    """``max(0, |z - y| - epsilon)``."""

    epsilon: float = 0.1

    @property
    def traits(self) -> LossTraits:
        return LossTraits(kinked=True, dual_pieces=2)

    def value(self, z: float, y: float) -> float:
        return max(0.0, abs(z - y) - self.epsilon)

    def slope(self, z: float, y: float) -> float:
        if abs(z - y) <= self.epsilon:
            return 0.0
        return 1.0 if z > y else -1.0

    def conjugate(self, u: float, y: float) -> float:
        return u * y + self.epsilon * abs(u) if abs(u) <= 1.0 else math.inf

    def dual_range(self, y: float) -> tuple[float, float]:
        return -1.0, 1.0

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -y + math.copysign(self.epsilon, a)

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return 0.0 if 0.0 < abs(a) < s else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        if q > 0.0:
            return min(max(_soft_threshold(a + (y - z) / q, self.epsilon / q), -s), s)
        if abs(y - z) <= self.epsilon:
            return 0.0
        return s if y > z else -s


@compiled_methods
class SquaredEpsilonInsensitive(NamedTuple):
    """``max(0, |z - y| - epsilon)^2``."""

    epsilon: float = 0.1

    @property
    def traits(self) -> LossTraits:
        return LossTraits(dual_pieces=2)

    def value(self, z: float, y: float) -> float:
        return max(0.0, abs(z - y) - self.epsilon) ** 2

    def slope(self, z: float, y: float) -> float:
        return 2.0 * _soft_threshold(z - y, self.epsilon)

    def conjugate(self, u: float, y: float) -> float:
        return u * y + self.epsilon * abs(u) + 0.25 * u * u

    def dual_range(self, y: float) -> tuple[float, float]:
        return -math.inf, math.inf

    def dual_slope(self, a: float, y: float, s: float) -> float:
        return -y + math.copysign(self.epsilon, a) + 0.5 * a / s

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        return 0.5 / s if a != 0.0 else math.inf

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        return _soft_threshold(y - z + q * a, self.epsilon) / (q + 0.5 / s)


@compiled
def _sigmoid(t: float) -> float:
    e = math.exp(-abs(t))
    return 1.0 / (1.0 + e) if t >= 0.0 else e / (1.0 + e)


@compiled
def _soft_threshold(v: float, threshold: float) -> float:
    if v > threshold:
        return v - threshold
    return v + threshold if v < -threshold else 0.0
