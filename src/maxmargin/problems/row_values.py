"""Primal and dual value of a problem over few rows in compiled code, with bounds on what rounding did to them.

What is computed here is what `Problem.certify` computes for dense rows and an L2 penalty of strength 1. An intercept is
a column of the rows, as in `Bordered`: penalised like the others, or free, in which case it is the last coefficient.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.problems.programs import Values
from maxmargin.problems.rounding import BLOCK, CONJUGATE_UNITS, SCORE_UNITS, UNDERFLOW, sample_sums
from maxmargin.protocols import Float, Loss

_growth = compiled(growth)


@compiled
def balance(alpha: Float) -> None:
    """Scale the heavier side down until the sum is zero, but for rounding. Sets: ``alpha``."""
    up, down = 0.0, 0.0
    for i in range(alpha.shape[0]):
        up += max(alpha[i], 0.0)
        down += max(-alpha[i], 0.0)
    of_up, of_down = 1.0, 1.0
    if up > down:
        of_up = down / up
    elif down > up:
        of_down = up / down
    for i in range(alpha.shape[0]):
        alpha[i] *= of_up if alpha[i] > 0.0 else of_down


@compiled
def values_of_rows(
    loss: Loss, X: Float, lengths: Float, theta: Float, alpha: Float, y: Float, s: Float, free: bool, differences: bool
) -> Values:
    """At coefficients, the last of which is a free intercept if there is one, and at balanced dual variables.

    ``lengths`` are those of the columns, not smaller than they are; ``differences`` is as in `sample_sums`.
    """
    n, d = X.shape
    penalised = d - 1 if free else d
    z, v, reach, penalty = np.dot(X, theta), np.dot(alpha, X), 0.0, 0.0
    for j in range(d):
        reach += abs(theta[j]) * lengths[j]
        if j < penalised:
            penalty += 0.5 * theta[j] * theta[j]
    reach *= _growth(float(d))
    sums = sample_sums(loss, z, alpha, y, s, np.array([reach]), 0.0, differences)
    losses, conjugates, balance, up, down, squares, sizes, pull, steepness, drift, arguments = sums
    of_sums = _growth(float(min(n, BLOCK) + n // BLOCK + 1))
    change = np.sqrt(steepness) * reach if steepness > UNDERFLOW else drift
    primal_error = change + SCORE_UNITS * DOUBLE * arguments
    primal_error += of_sums * abs(losses) + _growth(float(d)) * penalty
    share = 0.0
    if free and max(up, down) > 0.0:
        share = (abs(balance) + of_sums * (up + down)) / max(up, down)
    cost, more, own = 0.0, 0.0, (_growth(float(n)) + share) * (np.sqrt(squares) if squares > UNDERFLOW else up + down)
    for j in range(penalised):
        error = own * lengths[j]
        cost += 0.5 * v[j] * v[j]
        more += (abs(v[j]) + 0.5 * error) * error
    dual_error = (share + of_sums) * sizes + CONJUGATE_UNITS * DOUBLE * pull
    dual_error += more + _growth(float(d + 4)) * (cost + more)
    return Values(losses + penalty, -conjugates - cost, primal_error, dual_error)
