"""A point of a problem, what it is worth, and what follows from that."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import numpy as np

from maxmargin.protocols import Float

NEGLIGIBLE = 1e-9  # of the values: by so much a solver's own account, which knows no errors, may contradict itself


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

    SETTLED = "Stopped because the objective no longer falls"
    PASSED = "Made the passes over the samples that were asked for"
    LOW_RANK = "Stopped at the optimum among the functions of the given rank; the gap is to the best of all functions"

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

    def or_zero(self) -> Point:
        """The point itself, or zero in its place if some of its numbers are none."""
        alpha = np.zeros(0) if self.alpha is None else self.alpha
        if np.isfinite(self.w).all() and math.isfinite(self.b) and np.isfinite(alpha).all():
            return self
        return Point(np.zeros_like(self.w), 0.0, None if self.alpha is None else np.zeros_like(alpha))

    def __repr__(self) -> str:
        return f"Point(w={_in_short(self.w)}, b={self.b:g}, alpha={_in_short(self.alpha)})"


@dataclass(frozen=True)
class Certificate:
    """Primal and dual value at a point, recomputed from the data, and how wrong rounding can have made each of them.

    The optimum lies between ``dual - error`` and ``primal + error``, in exact arithmetic. Where an optimum of zero says
    that a fit is exact, no gap is small beside it: the relative gap is measured by ``least`` at least.
    """

    primal: float
    dual: float
    primal_error: float = 0.0
    dual_error: float = 0.0
    passes: float = 0.0  # over the data, to compute it
    least: float = 0.0  # what smaller values count as, where the gap is compared with them

    @property
    def error(self) -> float:
        """A bound on the rounding errors of both values together."""
        return self.primal_error + self.dual_error

    @property
    def gap(self) -> float:
        """Duality gap: no point is better than this one by more, but for rounding."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """Duality gap and rounding error divided by the larger of the two absolute values: the proven quality."""
        return relative_gap(self.primal, self.dual, self.primal_error, self.dual_error, self.least)

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: the relative gap; from 1 on, where a value far below zero hides the other one, the gap.

        Where there is no bound at all, the primal value.
        """
        if not self.relative_gap < math.inf:
            return math.inf, self.primal + self.primal_error if self.dual == -math.inf else math.inf
        return (self.relative_gap, 0.0) if self.relative_gap < 1.0 else (1.0, self.gap + self.error)

    @property
    def lost_in_rounding(self) -> bool:
        """Whether what is left of the gap may be nothing but rounding."""
        return self.gap <= self.error

    def blurred(self, tol: float) -> bool:
        """Whether only rounding may stand between this gap and a tolerance."""
        scale = max(abs(self.primal), abs(self.dual))
        return self.relative_gap > tol and (self.lost_in_rounding or self.gap <= tol * scale) and self.gap < math.inf


def relative_gap(primal: float, dual: float, primal_error: float, dual_error: float, least: float = 0.0) -> float:
    """That of a certificate with these numbers."""
    scale, sure = max(abs(primal), abs(dual), least), primal - dual + (primal_error + dual_error)
    if not 0.0 <= sure < math.inf:  # a pair that contradicts itself, however little, proves nothing
        return math.inf
    if scale == 0.0:
        return 0.0 if sure == 0.0 else math.inf
    return sure / scale


UNKNOWN = Certificate(math.inf, -math.inf)  # of a point with coefficients that are not finite


def estimated_gap(primal: float, dual: float, least: float = 0.0) -> float:
    """The relative gap by a solver's own account, which proves nothing.

    Such values are not bounded but maintained, so that one may be a little on the wrong side of the other.
    """
    own = Certificate(primal, dual, least=least)
    contradiction = -own.gap if 0.0 < -own.gap <= NEGLIGIBLE * max(abs(primal), abs(dual), least) else 0.0
    return replace(own, primal_error=contradiction).relative_gap


class Certifiable(Protocol):
    """What the loop asks of a problem, of whatever kind."""

    @property
    def convex(self) -> bool:
        """Whether dual values bound anything."""

    @property
    def separable(self) -> bool:
        """Whether coefficients and dual variables of a point are judged independently of each other."""

    def certify(self, point: Point) -> Certificate:
        """Primal and dual value at a point, recomputed from the data."""

    def conclusion(self, certificate: Certificate) -> Status | None:
        """What these values prove beside their gap, if anything: there is nothing to go on with then."""

    def fits(self, point: Point) -> bool:
        """Whether a point has as many numbers as this problem has variables."""


class ConvexProblem:
    """What the loop is told by problems that always have a bound and an optimum, in two parts that do not interfere."""

    @property
    def convex(self) -> bool:
        """Whether dual values bound anything: always."""
        return True

    @property
    def separable(self) -> bool:
        """Whether coefficients and dual variables of a point are judged independently of each other."""
        return True

    def conclusion(self, certificate: Certificate) -> Status | None:
        """Nothing: the gap says how far away the optimum is."""
        return None


def _in_short(x: Float | None) -> str:
    """An array by its shape and its norm, for people: it may have millions of numbers."""
    return "None" if x is None else f"<array of shape {np.shape(x)}, norm {np.linalg.norm(x):.6g}>"
