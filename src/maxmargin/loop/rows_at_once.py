"""The loop for small problems over rows with smooth losses: Newton's method and certificates in one compiled call."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.loop.at_once import Found, relative_gap_of
from maxmargin.problems.row_values import balance, values_of_rows
from maxmargin.protocols import Float, Index, Loss
from maxmargin.solvers.rows.newton_steps import factorise_small, hessian, responses, solve_small, step_length

SAFETY, DOUBTED = 0.9, 0.1  # of the wanted gap: the first aim, and each further one that of the last
MOST_STEPS = 60  # of Newton: then something is wrong, and the loop knows more


def solve_rows(
    X: Float, loss: Loss, stretches: Index, first: Index, y: Float, s: Float, order: Index, free: bool, tol: float
) -> Found:
    """Solve problems over runs of the rows ``X``, as in `Tasks`, to a certified relative gap of ``tol``.

    The last column of ``X`` is that of a free intercept, if there is one. ``order`` has the numbers of the rows.
    """
    count, d = stretches.shape[0], X.shape[1]
    alpha, expansions, theta = np.zeros(y.size), np.zeros((count, order.size)), np.zeros((count, d))
    values, gaps, steps = np.empty((count, 4)), np.full(count, math.inf), np.zeros(count, dtype=np.int64)
    solved = _solve_rows(
        loss, X, stretches, first, y, s, order, free, not loss.traits.classes, tol, alpha, expansions, theta, values,
        gaps, steps,
    )  # fmt: skip
    return Found(solved, alpha, expansions, theta[:, -1:], theta, values, gaps, steps)


@compiled
def _solve_rows(
    loss: Loss, X: Float, stretches: Index, first: Index, y: Float, s: Float, order: Index, free: bool,
    differences: bool, tol: float, alpha: Float, expansions: Float, theta: Float, values: Float, gaps: Float,
    steps: Index,
) -> bool:  # fmt: skip
    """Sets: all from ``alpha`` on. Whether all were solved; the first that was not ends it."""
    at_zero = np.empty((0, 0))
    for k in range(steps.shape[0]):
        start, count, second, more = stretches[k]
        own, whole = slice(first[k], first[k + 1]), count == X.shape[0]
        rows = X if whole else np.concatenate((X[start : start + count], X[second : second + more]))
        lengths = np.empty(X.shape[1])
        for j in range(lengths.shape[0]):
            square = 0.0
            for i in range(rows.shape[0]):
                square += rows[i, j] * rows[i, j]
            lengths[j] = math.sqrt(square) * 1.000001 + 1e-150
        steps[k], at_zero = _solve_one(
            loss, rows, lengths, y[own], s[own], free, differences, tol, theta[k], alpha[own], values[k],
            at_zero if whole else np.empty((0, 0)),
        )  # fmt: skip
        gaps[k] = relative_gap_of(values[k])
        if not gaps[k] <= tol:
            return False
        for i in range(rows.shape[0]):
            expansions[k, order[i + (start if i < count else second - count)]] = alpha[first[k] + i]
    return True


@compiled
def _solve_one(
    loss: Loss, X: Float, lengths: Float, y: Float, s: Float, free: bool, differences: bool, tol: float, theta: Float,
    alpha: Float, values: Float, at_zero: Float,
) -> tuple[int, Float]:  # fmt: skip
    """Newton's steps and the matrix of the first one, which tasks share. Sets: ``theta, alpha, values``."""
    n, d = X.shape
    penalised, z, h, aim = d - 1 if free else d, np.zeros(n), np.empty(n), SAFETY * tol
    for step in range(MOST_STEPS):
        losses = responses(loss, z, y, s, alpha, h)
        gradient, penalty, gap = -np.dot(alpha, X), 0.0, 0.0
        for j in range(penalised):
            penalty += 0.5 * theta[j] * theta[j]
            gradient[j] += theta[j]
            gap += 0.5 * gradient[j] * gradient[j]
        if free:  # what balancing the dual variables costs, roughly
            gap += abs(gradient[d - 1])
        if gap <= aim * (losses + penalty):
            if free:
                balance(alpha)
            found = values_of_rows(loss, X, lengths, theta, alpha, y, s, free, differences)
            values[0], values[1], values[2], values[3] = found.primal, found.dual, found.primal_error, found.dual_error
            if relative_gap_of(values) <= tol:
                return step, at_zero
            aim *= DOUBTED
            losses = responses(loss, z, y, s, alpha, h)
        if step == 0 and at_zero.shape[0]:
            H = at_zero.copy()
        else:
            H = hessian(X, h, penalised)
            if step == 0:
                at_zero = H.copy()
        factorise_small(H)
        direction = -solve_small(H, gradient)
        linear, square = 0.0, 0.0
        for j in range(penalised):
            linear += theta[j] * direction[j]
            square += direction[j] * direction[j]
        dz = np.dot(X, direction)
        t = step_length(loss, z, dz, y, s, linear, square)
        for j in range(d):
            theta[j] += t * direction[j]
        z = np.dot(X, theta)
    values[:] = np.nan
    return MOST_STEPS, at_zero
