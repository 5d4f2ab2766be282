"""How wrong float64 sums can be at worst, whatever the order in which their terms are added.

The bounds are the usual ones of numerical analysis (Higham, "Accuracy and stability of numerical algorithms", 2002,
chapters 2 to 4): a sum of ``k`` terms, or an inner product of length ``k``, is wrong by at most ``growth(k)`` times the
sum of the sizes of its terms, with or without fused operations and partial sums. A bound is itself a float64 number,
formed by a few operations: every count of terms is rounded up by some, which covers that.
"""

from __future__ import annotations

import math

UNIT = 2.0**-53  # the largest relative error of one operation
SPARE = 3  # operations more than the terms of a sum: those before and after it, and those of the bound


def growth(terms: float) -> float:
    """The largest relative error of a sum of so many terms of one sign; infinite for 2^53 of them."""
    share = (terms + SPARE) * UNIT
    return share / (1.0 - share) if share < 1.0 else math.inf
