"""Penalties on the coefficients: ridge, LASSO, their sum, these within bounds, and norms of groups.

All are separable, so each is given for one coefficient ``w``, whose number is ``j``, or for the norm of one group;
``lam`` is the strength.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin._jit import compiled_methods
from maxmargin.protocols import Float, Index, Penalty


@compiled_methods
class L2(NamedTuple):
    """``lam w^2 / 2``."""

    lam: float = 1.0

    def cost(self, w: float, j: int) -> float:
        return 0.5 * self.lam * w * w

    def conjugate_cost(self, v: float, j: int) -> float:
        return 0.5 * v * (v / self.lam)  # the square may underflow

    def dual_limits(self, j: int) -> tuple[float, float]:
        return -math.inf, math.inf

    def prox(self, v: float, step: float, j: int) -> float:
        return v / (1.0 + step * self.lam)


@compiled_methods
class L1(NamedTuple):
    """``lam |w|``."""

    lam: float = 1.0

    def cost(self, w: float, j: int) -> float:
        return self.lam * abs(w)

    def conjugate_cost(self, v: float, j: int) -> float:
        return 0.0 if abs(v) <= self.lam else math.inf

    def dual_limits(self, j: int) -> tuple[float, float]:
        return -self.lam, self.lam

    def prox(self, v: float, step: float, j: int) -> float:
        return math.copysign(max(abs(v) - step * self.lam, 0.0), v)


@compiled_methods
class ElasticNet(NamedTuple):
    """``lam (ratio |w| + (1 - ratio) w^2 / 2)`` with ``0 <= ratio < 1``."""

    lam: float = 1.0
    ratio: float = 0.5

    def cost(self, w: float, j: int) -> float:
        return self.lam * self.ratio * abs(w) + 0.5 * (self.lam * (1.0 - self.ratio)) * w * w

    def conjugate_cost(self, v: float, j: int) -> float:
        excess = max(abs(v) - self.lam * self.ratio, 0.0)
        return 0.5 * excess * (excess / (self.lam * (1.0 - self.ratio)))

    def dual_limits(self, j: int) -> tuple[float, float]:
        return -math.inf, math.inf

    def prox(self, v: float, step: float, j: int) -> float:
        shrunk = max(abs(v) - step * (self.lam * self.ratio), 0.0)
        return math.copysign(shrunk / (1.0 + step * (self.lam * (1.0 - self.ratio))), v)


@compiled_methods
class Bounded(NamedTuple):
    """``lam (ratio |w| + (1 - ratio) w^2 / 2)`` where ``low_j <= w <= high_j``, and infinite elsewhere.

    ``0 <= ratio <= 1``, and ``lam`` may be zero. Zero has to be within the bounds, which may be infinite, so that it
    costs nothing. Coefficients after the last bound, such as a penalised intercept, have none.
    """

    lam: float
    ratio: float
    low: Float
    high: Float

    def cost(self, w: float, j: int) -> float:
        if j < self.low.shape[0] and not (self.low[j] <= w <= self.high[j]):
            return math.inf
        return self.lam * self.ratio * abs(w) + 0.5 * (self.lam * (1.0 - self.ratio)) * w * w

    def conjugate_cost(self, v: float, j: int) -> float:
        excess, ridge, end = max(abs(v) - self.lam * self.ratio, 0.0), self.lam * (1.0 - self.ratio), math.inf
        if excess == 0.0:
            return 0.0
        if j < self.low.shape[0]:
            end = self.high[j] if v > 0.0 else -self.low[j]
        if ridge == 0.0:
            return excess * end if end > 0.0 else 0.0
        # The maximiser is excess / ridge, or the bound before it.
        return 0.5 * excess * (excess / ridge) if excess <= ridge * end else end * (excess - 0.5 * ridge * end)

    def dual_limits(self, j: int) -> tuple[float, float]:
        if self.lam * (1.0 - self.ratio) > 0.0:
            return -math.inf, math.inf
        least, most = -self.lam, self.lam
        if j < self.low.shape[0]:
            least = -math.inf if self.low[j] > -math.inf else least
            most = math.inf if self.high[j] < math.inf else most
        return least, most

    def prox(self, v: float, step: float, j: int) -> float:
        shrunk = max(abs(v) - step * (self.lam * self.ratio), 0.0)
        w = math.copysign(shrunk / (1.0 + step * (self.lam * (1.0 - self.ratio))), v)
        return min(max(w, self.low[j]), self.high[j]) if j < self.low.shape[0] else w


@compiled_methods
class Groups(NamedTuple):
    """``prices_j r + mu r^2 / 2`` where ``r`` is the norm of the coefficients of group ``j``: the group LASSO.

    It is a function of norms instead of coefficients, and its conjugate one of the norms of what belongs to the groups.
    The proximal step of a group shortens it to what ``prox`` says of its norm, and leaves its direction.
    """

    prices: Float
    mu: float = 0.0

    @property
    def lam(self) -> float:
        return float(self.prices.max(initial=0.0))

    def cost(self, w: float, j: int) -> float:
        return self.prices[j] * abs(w) + 0.5 * self.mu * w * w

    def conjugate_cost(self, v: float, j: int) -> float:
        excess = max(abs(v) - self.prices[j], 0.0)
        if self.mu > 0.0:
            return 0.5 * excess * excess / self.mu
        return 0.0 if excess == 0.0 else math.inf

    def dual_limits(self, j: int) -> tuple[float, float]:
        end = math.inf if self.mu > 0.0 else self.prices[j]
        return -end, end

    def prox(self, v: float, step: float, j: int) -> float:
        return math.copysign(max(abs(v) - step * self.prices[j], 0.0) / (1.0 + step * self.mu), v)


@compiled_methods
class Unpenalised(NamedTuple):
    """Nothing where ``|w| <= reach_j``, and infinite elsewhere: what stands for no penalty at all.

    Without a limit the conjugate would be infinite but at zero, which no computed sum of products ever is. With it, a
    gap is proven among all coefficients within their reach; and since the problem is convex, one that is ``k`` times as
    large among those that are ``k`` times as far away from the point as the limits are.
    """

    reach: Float

    @property
    def lam(self) -> float:
        return 0.0

    def cost(self, w: float, j: int) -> float:
        return 0.0 if abs(w) <= self.reach[j] else math.inf

    def conjugate_cost(self, v: float, j: int) -> float:
        return self.reach[j] * abs(v)

    def dual_limits(self, j: int) -> tuple[float, float]:
        return -math.inf, math.inf

    def prox(self, v: float, step: float, j: int) -> float:
        return min(max(v, -self.reach[j]), self.reach[j])


def strengths(penalty: Penalty) -> tuple[float, float]:
    """Strength of ``|w|_1`` and of ``|w|^2 / 2``, without bounds."""
    if isinstance(penalty, (ElasticNet, Bounded)):
        return penalty.lam * penalty.ratio, penalty.lam * (1.0 - penalty.ratio)
    return (penalty.lam, 0.0) if isinstance(penalty, L1) else (0.0, penalty.lam)


def restricted(penalty: Penalty, some: Index) -> Penalty:
    """The same for some of the coefficients, numbered anew."""
    if isinstance(penalty, Bounded):
        return penalty._replace(low=penalty.low[some], high=penalty.high[some])
    return penalty._replace(reach=penalty.reach[some]) if isinstance(penalty, Unpenalised) else penalty
