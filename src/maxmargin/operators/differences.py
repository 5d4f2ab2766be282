"""What rounding does to kernel values, and the sums of differences where it would do too much.

The squared distance of two points is the sum of their squared lengths minus twice their inner product. Where points
are much longer than their difference, few of its digits are left, or none. A bound on what is lost costs almost
nothing, and pairs for which it is too large are measured again: by sums of the differences of the rows as they were
given, which are right to the last digits.

All bounds are those of the worst case, and hold for any order of the sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, SINGLE, roundings
from maxmargin.operators.points import DensePoints, Points
from maxmargin.operators.rows import vectors_of
from maxmargin.protocols import Array, Float, Index, Kernel

# Relative error of a kernel value by cancellation, up to which it is left as it is. The value of a fit is then still
# known to 1e-10 times the square of the sum of its coefficients, and samples with usual features never come near.
CANCELLED = 1e-10
NO_VALUE = 1e-300  # a kernel value that is smaller is zero beside 1, whatever the error of its distance
UNDERFLOW = {DOUBLE: 1e-290, SINGLE: 1e-30}  # of a squared length, for each term: below, products are lost altogether


class Measuring(NamedTuple):
    """How the pairs of some points are measured for a kernel, and what that costs in precision."""

    kernel: Kernel
    dense: bool
    terms: float  # of the sums
    unit: float  # unit roundoff of the precision

    @classmethod
    def of(cls, kernel: Kernel, *points: Points) -> Measuring:
        """Of pairs of points from two sides."""
        terms = float(max(side.terms for side in points))
        unit = SINGLE if points[0].dtype == np.float32 else DOUBLE
        return cls(kernel, isinstance(points[0], DensePoints), terms, unit)

    def lost(self, sq: Any) -> Any:
        """The error of a measurement by cancellation is at most the sum of this for both squared lengths.

        It is that of the inner product minus half of the squared lengths. The product is wrong by ``terms`` roundings
        of as much, and each half by as many of itself unless it was rounded from float64; the others are those of the
        sums of the three, of what the kernel does next, and of the entries when they were converted and centred.

        A distance is a sum of differences, of rows as they were given or rounded. That of sparse rows adds lengths
        first and corrects them: in ``3 terms`` steps, through three times as much.
        """
        if not self.kernel.traits.by_distance:
            steps = (1.0 if self.unit == DOUBLE else 0.5) * self.terms + 7.0
            return roundings(steps, self.unit) * self._safe(sq)
        steps = (0.0 if self.unit == DOUBLE else 2.0) if self.dense else 9.0 * self.terms + 10.0
        return roundings(steps, self.unit) * np.sqrt(self.terms * self._safe(sq))

    def cancelled(self, sq: Any, largest: float) -> Any:
        """The relative error of values by cancellation, if one point has ``sq`` and the other at most ``largest``."""
        steepness = self.kernel.traits.steepness
        with np.errstate(all="ignore"):
            return steepness * (self.lost(sq) + self.lost(largest)) if steepness > 0.0 else np.zeros_like(sq)

    def cancels(self, largest_left: float, largest_right: float) -> bool:
        """Whether some value of points of these squared lengths at most has to be measured again."""
        return self.unit == DOUBLE and not float(self.cancelled(largest_left, largest_right)) <= CANCELLED

    def error(self, sq: Float, largest: float) -> Float:
        """The error of values relative to their magnitudes, after what cancelled has been measured again."""
        with np.errstate(all="ignore"):
            own = self.kernel.roundings(self._safe(sq), self._safe(largest), self.terms)
            return np.asarray(roundings(own, self.unit) + np.minimum(self.cancelled(sq, largest), CANCELLED))

    def error_as_measured(self, sq: Float, largest: float) -> Float:
        """The same if nothing is measured again."""
        with np.errstate(all="ignore"):
            own = self.kernel.roundings(self._safe(sq), self._safe(largest), self.terms)
            return np.asarray(roundings(own, self.unit) + self.cancelled(sq, largest))

    def magnitude(self, sq: Float) -> Float:
        """A value is at most the product of this for both points."""
        with np.errstate(all="ignore"):
            return self.kernel.magnitude(self._safe(sq))

    def as_sums(self, sq: Any, largest: float, rows: float) -> Any:
        """The relative error of sums of positive values over at most so many rows, relative to the computed sum.

        Of values of kernels of differences, of which none is measured again.
        """
        with np.errstate(all="ignore"):
            own = self.kernel.roundings(self._safe(sq), self._safe(largest), 0.0) + rows + 4.0
            error = roundings(own, self.unit) + self.cancelled(sq, largest)
            return np.where(error < 0.25, error / (1.0 - 2.0 * np.minimum(error, 0.25)), np.inf)[()]

    def usual_in_single(self, largest: float) -> float:
        """About how wrong float32 values are, relative to their magnitudes, for points of at most this squared length.

        This is no bound: errors of many terms have random signs, so that they grow like a root.
        """
        usual = self._replace(unit=SINGLE, terms=min(self.terms, 4.0 * self.terms**0.5))
        with np.errstate(all="ignore"):
            own = self.kernel.roundings(np.full(1, largest), largest, usual.terms)[0]
            return float(SINGLE * own + usual.cancelled(largest, largest))

    def _safe(self, sq: Any) -> Any:
        return sq + UNDERFLOW[self.unit] * self.terms


def sum_differences(
    measuring: Measuring, left: Points, samples: Index | slice, columns: Points, stretch: slice, m: Array
) -> None:
    """Measure those pairs of a tile again whose values cancelled and are not zero in any case.

    Afterwards measurements count as those of points without length: ``m`` is half of minus the squared distance.
    """
    sq_left, sq_right, traits = left.sq[samples], columns.sq[stretch], measuring.kernel.traits
    half = 0.0 if traits.by_distance else 0.5
    with np.errstate(all="ignore"):
        _sum_differences(
            measuring.kernel,
            vectors_of(left.X[samples]),
            vectors_of(columns.X[stretch]),
            half * sq_left,
            half * sq_right,
            measuring.lost(sq_left),
            measuring.lost(sq_right),
            CANCELLED / traits.steepness,
            traits.by_distance,
            m,
        )


@compiled
def _sum_differences(
    kernel: Kernel,
    left: Any,
    right: Any,
    half_left: Float,
    half_right: Float,
    lost_left: Float,
    lost_right: Float,
    limit: float,
    by_distance: bool,
    m: Array,
) -> None:
    """Sets: ``m``, as above."""
    nearer = -1.0 if by_distance else 1.0
    likely = np.empty(m.shape[1])
    for i in range(m.shape[0]):
        row = m[i]
        for j in range(m.shape[1]):  # the value if the pair is as near as its measurement allows
            row[j] -= half_left[i] + half_right[j]
            likely[j] = kernel.similarity(row[j] + nearer * (lost_left[i] + lost_right[j]), 0.0, 0.0)
        for j in range(m.shape[1]):
            lost = lost_left[i] + lost_right[j]
            if lost > limit and (likely[j] > NO_VALUE or lost == np.inf):
                distance, square = left.differences(i, right, j)
                row[j] = distance if by_distance else -0.5 * square
