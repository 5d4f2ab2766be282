"""Where a convex function of one variable is smallest, found through its derivative alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float

SECTIONS = 16  # of an interval, where derivatives come in bundles


class Sloped(Protocol):
    """A function of one variable, as compiled loops see it."""

    def derivative(self, b: float) -> float:
        """Non-decreasing; exactly 0 where it is only rounding."""


@compiled
def middle_minimiser(function: Sloped, scale: float) -> float:
    """Middle of the interval where ``function.derivative`` changes its sign from negative to positive.

    The derivative is non-decreasing and may jump; it must return exactly 0 where it is only rounding. ``scale`` is the
    size of a typical argument: the ends of the interval are found to within ``1e-17 scale``, or to the last bit.
    """
    reach = 1.0 + scale
    while function.derivative(-reach) > 0.0 and reach < 1e300:
        reach *= 4.0
    left = -reach
    while function.derivative(reach) < 0.0 and reach < 1e300:
        reach *= 4.0
    ends = np.empty(2)
    for side in range(2):  # the last argument with a negative derivative, then the first with a positive one
        low, high = left, reach
        for _ in range(2100):  # from 1e300 to the last bit
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high or high - low <= 1e-17 * scale:
                break
            g = function.derivative(middle)
            if g < 0.0 or (side == 1 and g == 0.0):
                low = middle
            else:
                high = middle
        ends[side] = high if side == 0 else low
    return 0.5 * float(ends[0] + ends[1])


def middle_minimiser_of_many(derivatives: Callable[[Float], Float], scale: float) -> float:
    """`middle_minimiser` for a function that is asked for its derivatives at several arguments at once.

    This is for sums over clients, where every question costs a round: there are about fourteen.
    """
    reach = 1.0 + scale
    while reach < 1e300:
        below, above = derivatives(np.array([-reach, reach]))
        if below <= 0.0 <= above:
            break
        reach *= 4.0
    lows, highs = np.full(2, -reach), np.full(2, reach)  # around the last negative and the first positive derivative
    while True:
        cuts = lows + np.arange(1, SECTIONS)[:, None] / SECTIONS * (highs - lows)
        inside = (lows < cuts) & (cuts < highs) & (highs - lows > 1e-17 * scale)
        points = np.unique(cuts[inside])
        if points.size == 0:
            break
        g = derivatives(points)
        for side, left in enumerate((g < 0.0, g <= 0.0)):
            lows[side] = points[left].max(initial=lows[side])
            highs[side] = points[~left & (points > lows[side])].min(initial=highs[side])
    return 0.5 * float(highs[0] + lows[1])
