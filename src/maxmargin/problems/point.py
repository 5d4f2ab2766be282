"""A point of a problem, what it is worth, and what follows from that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from maxmargin.protocols import Float


class Status(Enum):
    """Why a fit stopped. The value is the sentence that a user reads."""

    CONVERGED = "Converged: the certified relative duality gap is within the tolerance"
    MAX_ITER = "Stopped at the iteration limit before the tolerance was reached"
    MAX_TIME = "Stopped at the time limit before the tolerance was reached"
    INTERRUPTED = "Stopped by Ctrl-C; the best point so far was kept"
    CALLBACK = "Stopped by a callback; the best point so far was kept"
    STALLED = "Stopped because rounding errors or ill conditioning prevent further progress"
    NOT_SEPARABLE = "Stopped with a proof: the convex hulls of two classes meet, so there is no margin between them"
    NOT_CONVEX = "Stopped without a proof: the kernel is not positive semi-definite on these samples"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, repr=False)
class Point:
    """A primal point and a dual point.

    ``w`` are the coefficients (for kernels the expansion over the samples), ``b`` the intercept, and ``alpha`` the
    signed dual variables, one per sample; ``None`` lets the certificate derive them from the slopes of the losses.
    """

    w: Float
    b: float
    alpha: Float | None = None

    def __repr__(self) -> str:
        return f"Point(w={_in_short(self.w)}, b={self.b:g}, alpha={_in_short(self.alpha)})"


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


class Certifiable(Protocol):
    """What the loop asks of a problem, of whatever kind."""

    @property
    def separable(self) -> bool:
        """Whether coefficients and dual variables of a point are judged independently of each other."""

    def certify(self, point: Point) -> Certificate:
        """Primal and dual value at a point, recomputed from the data."""

    def conclusion(self, certificate: Certificate) -> Status | None:
        """What these values prove beside their gap, if anything: there is nothing to go on with then."""

    def fits(self, point: Point) -> bool:
        """Whether a point has as many numbers as this problem has variables."""


def _in_short(x: Float | None) -> str:
    """An array by its shape and its norm, for people: it may have millions of numbers."""
    return "None" if x is None else f"<array of shape {np.shape(x)}, norm {np.linalg.norm(x):.6g}>"
