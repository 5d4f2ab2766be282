"""Where a function is smallest along a direction, found through its slope."""

from __future__ import annotations

from collections.abc import Callable

FLAT_ENOUGH = 0.03  # of the slope at the beginning: there is its zero
FULL_ENOUGH = 0.5  # of it, if the slope is still falling after a full step: that one will do
SEARCH_LIMIT = 60  # slopes that are computed
HALVINGS = 39  # of a whole step: it is found to within 2e-12


def step_to_zero(slope_at: Callable[[float], float], start: float) -> float:
    """Where a slope that rises from ``start < 0`` vanishes, nearly; 1 if that is good enough.

    The Illinois form of false position: two ends around the zero, where an end that stays counts half.
    """
    end, enough = slope_at(1.0), FLAT_ENOUGH * abs(start)
    if -FULL_ENOUGH * abs(start) <= end <= enough:  # beyond the zero the function may have risen
        return 1.0
    left, at_left, right, at_right = 0.0, start, 1.0, end
    for _ in range(SEARCH_LIMIT):
        if at_right >= 0.0:
            break
        left, at_left = right, at_right
        right *= 4.0
        at_right = slope_at(right)
    side = 0
    for _ in range(SEARCH_LIMIT):
        if not at_right > at_left:
            break
        t = (left * at_right - right * at_left) / (at_right - at_left)
        if not left < t < right:
            t = 0.5 * (left + right)
        slope = slope_at(t)
        if abs(slope) <= enough or not left < t < right:
            return t
        if slope < 0.0:
            left, at_left = t, slope
            at_right *= 0.5 if side == -1 else 1.0
            side = -1
        else:
            right, at_right = t, slope
            at_left *= 0.5 if side == 1 else 1.0
            side = 1
    return left if left > 0.0 else right


def last_descent(slope_at: Callable[[float], float]) -> float:
    """The end of a step between 0 and 1 along which a rising slope is not positive, by bisection."""
    low, high = 0.0, 1.0
    if slope_at(high) <= 0.0:
        return high
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        low, high = (t, high) if slope_at(t) <= 0.0 else (low, t)
    return low
