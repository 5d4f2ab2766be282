"""A point of a problem, and what it is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxmargin.protocols import Float


@dataclass(frozen=True)
class Point:
    """A primal point and a dual point.

    ``w`` are the coefficients (for kernels the expansion over the samples), ``b`` the intercept, and ``alpha`` the
    signed dual variables, one per sample; ``None`` lets the certificate derive them from the slopes of the losses.
    """

    w: Float
    b: float
    alpha: Float | None = None


@dataclass(frozen=True)
class Certificate:
    """Primal and dual value at a point, recomputed from the data. The optimum lies between them."""

    primal: float
    dual: float
    passes: float = 0.0  # over the data, to compute it

    @property
    def gap(self) -> float:
        """Duality gap: no point is better than this one by more."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """Duality gap divided by the larger of the two absolute values."""
        if math.isinf(self.gap):
            return math.inf
        scale = max(abs(self.primal), abs(self.dual))
        if self.gap < -1e-9 * scale:  # more than rounding: a pair below its own bound proves nothing
            return math.inf
        return max(self.gap, 0.0) / scale if scale > 0.0 else 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: the relative gap; from 1 on, where a value far below zero hides the other one, the gap."""
        if not self.relative_gap < math.inf:
            return math.inf, math.inf
        return (self.relative_gap, 0.0) if self.relative_gap < 1.0 else (1.0, self.gap)
