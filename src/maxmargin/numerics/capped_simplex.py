"""The entropic projection onto a simplex with caps: ``min(cap_i, scale weight_i)`` of sum 1, in logarithms.

It is the point of ``{0 <= eta <= cap, sum eta = 1}`` whose relative entropy to given weights is smallest. One number
has to be found, the logarithm of the scale.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float


@compiled
def selected_shift(logs: Float, log_caps: Float) -> float:
    """The ``shift`` for which ``sum_i min(cap_i, exp(logs_i + shift)) = 1``, by selection: ``O(n)``, exactly.

    Row ``i`` is capped from the shift ``log_caps_i - logs_i`` on. A pivot splits the rows that are undecided into those
    that are capped earlier and later; the sum at the pivot tells which half remains.
    """
    order = np.arange(logs.shape[0])
    low, high = 0, logs.shape[0]
    capped, free, at = 0.0, 0.0, math.inf  # the sum of decided rows: their caps, or their weights at the shift `at`
    while low < high:
        a, b, c = order[low], order[(low + high) // 2], order[high - 1]
        first, middle, last = log_caps[a] - logs[a], log_caps[b] - logs[b], log_caps[c] - logs[c]
        pivot = max(min(first, middle), min(max(first, middle), last))
        early, late, k = low, high, low
        caps, weights, equal = 0.0, 0.0, 0.0
        while k < late:
            i = order[k]
            key = log_caps[i] - logs[i]
            if key < pivot:
                order[k], order[early] = order[early], i
                caps += math.exp(log_caps[i])
                early += 1
                k += 1
            elif key > pivot:
                late -= 1
                order[k], order[late] = order[late], i
                weights += math.exp(logs[i] + pivot)
            else:
                equal += math.exp(log_caps[i])
                k += 1
        if free > 0.0:
            weights += free * math.exp(pivot - at)
        if capped + caps + equal + weights >= 1.0:  # the pivot is too far
            high = early
            free, at = weights + equal, pivot
        else:
            low = late
            capped += caps + equal
    return at + math.log((1.0 - capped) / free) if free > 0.0 else math.inf  # infinite: all are needed in full


def excess(logs: Float, log_caps: Float, shift: float, before: float) -> tuple[float, float]:
    """What exceeds the caps at a shift among the rows that did not before, and the sum of the others below theirs.

    These are the paper's two sums of a client.
    """
    weights, above = np.exp(logs + shift), logs + shift > log_caps
    newly = above & ~(logs + before > log_caps)
    return float((weights[newly] - np.exp(log_caps[newly])).sum()), float(weights[~above].sum())
