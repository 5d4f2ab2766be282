"""The loop for small problems over rows: Newton's method and certificates in one compiled call."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.loop.at_once import PRECISE_SAMPLES, SURELY, Found, relative_gap_of
from maxmargin.numerics.small_factors import factorise_small, solve_small
from maxmargin.problems.losses_of_samples import sum_of_conjugates, sum_of_losses
from maxmargin.problems.row_values import balance, values_of_rows
from maxmargin.protocols import Float, Index, Loss
from maxmargin.solvers.rows.newton_steps import hessian, respond, step_length

SAFETY, DOUBTED = 0.9, 0.1  # of the wanted gap: the first aim, and each further one that of the last
MOST_ROUNDS = 120  # of Newton: then something is wrong, and the loop knows more
FIRST_WIDTH, NARROWER = 1.0, 0.1  # of the envelopes of kinks, in targets; and each further one, of the one before
TO_THE_LAST_DIGIT = 1e-13
REACH = 4.0  # of targets: a free intercept does not move farther in one step
INNER_SHARE = 0.1  # of the gap that the decrement must fall below before the envelopes become narrower


def solve_rows(
    X: Float, loss: Loss, stretches: Index, first: Index, y: Float, s: Float, order: Index, free: bool, tol: float
) -> Found:
    """Solve problems over runs of the rows ``X``, as in `Tasks`, to a certified relative gap of ``tol``.

    The last column of ``X`` is that of a free intercept, if there is one. ``order`` has the numbers of the rows.
    """
    count, d = stretches.shape[0], X.shape[1]
    alpha, expansions, theta = np.zeros(y.size), np.zeros((count, order.size)), np.zeros((count, d))
    values, gaps, steps = np.empty((count, 4)), np.full(count, math.inf), np.zeros(count, dtype=np.int64)
    kinked, differences = loss.traits.kinked, not loss.traits.classes
    solved = _solve_rows(
        loss, X, stretches, first, y, s, order, free, kinked, differences, tol, alpha, expansions, theta, values, gaps,
        steps,
    )  # fmt: skip
    return Found(solved, alpha, expansions, theta[:, -1:], theta, values, gaps, steps)


@compiled
def _solve_rows(
    loss: Loss, X: Float, stretches: Index, first: Index, y: Float, s: Float, order: Index, free: bool, kinked: bool,
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
            loss, rows, lengths, y[own], s[own], free, kinked, differences, tol, theta[k], alpha[own], values[k],
            at_zero if whole else np.empty((0, 0)),
        )  # fmt: skip
        gaps[k] = relative_gap_of(values[k])
        if not gaps[k] <= tol * SURELY:
            return False
        for i in range(rows.shape[0]):
            expansions[k, order[i + (start if i < count else second - count)]] = alpha[first[k] + i]
    return True


@compiled
def _is_proved(
    loss: Loss, X: Float, lengths: Float, y: Float, s: Float, free: bool, differences: bool, tol: float, theta: Float,
    alpha: Float, values: Float,
) -> bool:  # fmt: skip
    """Whether the certificate of a point is good enough; its variables are balanced then. Sets: ``alpha, values``."""
    found = alpha.copy()
    if free:
        balance(found)
    proved = values_of_rows(loss, X, lengths, theta, found, y, s, free, differences)
    values[0], values[1], values[2], values[3] = proved.primal, proved.dual, proved.primal_error, proved.dual_error
    good = relative_gap_of(values) <= tol * SURELY
    if good:
        alpha[:] = found
    return good


@compiled
def _account(
    loss: Loss, z: Float, alpha: Float, y: Float, s: Float, penalty: float, conjugate: float, imbalance: float
) -> tuple[float, float]:
    """The gap, with what balancing the dual variables costs, roughly, and the values that it is compared with."""
    primal, dual = sum_of_losses(loss, z, y, s) + penalty, -sum_of_conjugates(loss, alpha, y, s) - conjugate
    return max(primal - dual, 0.0) + imbalance, max(abs(primal), abs(dual))


@compiled
def _solve_one(
    loss: Loss, X: Float, lengths: Float, y: Float, s: Float, free: bool, kinked: bool, differences: bool, tol: float,
    theta: Float, alpha: Float, values: Float, at_zero: Float,
) -> tuple[int, Float]:  # fmt: skip
    """Newton's steps and the matrix of the first one, which tasks share. Sets: ``theta, alpha, values``."""
    n, d = X.shape
    penalised, z, h, aim, steps = d - 1 if free else d, np.zeros(n), np.empty(n), SAFETY * tol, 0
    aim = min(aim, TO_THE_LAST_DIGIT) if n <= PRECISE_SAMPLES else aim
    size = max(np.abs(y).mean(), 1e-100)
    centre, width = np.zeros(n), FIRST_WIDTH * size if kinked else 0.0
    at_first = sum_of_losses(loss, z, y, s)
    for _ in range(MOST_ROUNDS):
        respond(loss, z, y, s, centre, width, alpha, h)
        v, penalty, conjugate, decrement = np.dot(alpha, X), 0.0, 0.0, 0.0
        gradient = -v
        for j in range(penalised):
            gradient[j] += theta[j]
            penalty += 0.5 * theta[j] * theta[j]
            conjugate += 0.5 * v[j] * v[j]
            decrement += 0.5 * gradient[j] * gradient[j]
        if free:  # what balancing the dual variables costs, roughly
            decrement += abs(gradient[d - 1])
        imbalance, height = (abs(gradient[d - 1]), abs(theta[d - 1])) if free else (0.0, 0.0)
        if kinked:
            gap, scale = _account(loss, z, alpha, y, s, penalty, conjugate, imbalance)
        else:  # the losses and their conjugates add up to products of slopes and scores
            gap, scale = decrement + height * imbalance, at_first
            if gap <= aim * scale:
                scale = sum_of_losses(loss, z, y, s) + penalty
        if gap <= aim * scale:
            if _is_proved(loss, X, lengths, y, s, free, differences, tol, theta, alpha, values):
                return steps, at_zero
            aim *= DOUBTED
        if kinked and decrement <= INNER_SHARE * gap:
            centre[:] = alpha
            width *= NARROWER
            continue
        H = at_zero.copy() if steps == 0 and at_zero.shape[0] else hessian(X, h, penalised)
        if steps == 0:
            at_zero = H.copy()
        if free:  # where no row reacts, nothing else holds a step of the intercept
            H[d - 1, d - 1] += abs(gradient[d - 1]) / (REACH * size)
        factorise_small(H)
        direction = -solve_small(H, gradient)
        linear, square, slope = 0.0, 0.0, 0.0
        for j in range(d):
            slope += gradient[j] * direction[j]
            if j < penalised:
                linear += theta[j] * direction[j]
                square += direction[j] * direction[j]
        if not slope < 0.0:
            break
        dz = np.dot(X, direction)
        t = step_length(loss, z, dz, y, s, centre, width, slope, linear, square)
        steps += 1
        for j in range(d):
            theta[j] += t * direction[j]
        z += t * dz
    _is_proved(loss, X, lengths, y, s, free, differences, tol, theta, alpha, values)
    return steps, at_zero
