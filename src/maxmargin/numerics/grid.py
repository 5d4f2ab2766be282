"""The lowest value on a geometric grid, for numbers of which not even the order of magnitude is known."""

from __future__ import annotations

from collections.abc import Callable

MOST_STEPS = 40


def lowest_on_grid(value: Callable[[float], float], first: float, factor: float, least_gain: float = 0.0) -> float:
    """The number ``first * factor^k`` up to which ``value``, which is positive, falls by a share of ``least_gain``.

    Larger numbers are tried first, and smaller ones if there was nothing to gain.
    """
    best, lowest = first, value(first)
    for ratio in (factor, 1.0 / factor):
        for _ in range(MOST_STEPS):
            found = value(ratio * best)
            if not found < (1.0 - least_gain) * lowest:
                break
            best, lowest = ratio * best, found
        if best != first:
            break
    return best
