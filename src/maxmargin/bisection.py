"""Where a convex function of one variable is smallest, found through its derivative alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin._jit import compiled


@compiled
def middle_minimiser(function: Any, scale: float) -> float:
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
