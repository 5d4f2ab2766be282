"""How wrong float64 sums can be at worst, whatever the order in which their terms are added.

The bounds are the usual ones of numerical analysis (Higham, "Accuracy and stability of numerical algorithms", 2002,
chapters 2 to 4): a sum of ``k`` terms, or an inner product of length ``k``, is wrong by at most ``growth(k)`` times the
sum of the sizes of its terms, with or without fused operations and partial sums. A bound is itself a float64 number,
formed by a few operations: every count of terms is rounded up by some, which covers that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

DOUBLE, SINGLE = 2.0**-53, 2.0**-24  # unit roundoff: the largest relative error of one operation
SPARE = 3  # operations more than the terms of a sum: those before and after it


def roundings(count: Any, unit: float = DOUBLE) -> Any:
    """The relative error of so many operations one after the other; infinite if they can spoil every digit."""
    error = np.asarray(count * unit, dtype=np.float64)
    return np.where(error < 0.5, error / (1.0 - np.minimum(error, 0.5)), np.inf)[()]


def growth(terms: float) -> float:
    """The largest relative error of a float64 sum of so many terms of one sign."""
    error = (terms + SPARE) * DOUBLE
    return error / (1.0 - error) if error < 0.5 else math.inf
