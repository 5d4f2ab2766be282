"""Least squares with few dense features: solved for a list of penalties, and judged, in one compiled call.

Where all of the work takes some microseconds, the frame around it counts: what is computed of the samples serves all
penalties, and nothing goes back to Python in between. The problem is the one of `WorkingSet` with all columns in the
set; without an L1 part and without bounds that are felt, it is a system of linear equations.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.balance import scaled_sides, sides
from maxmargin.numerics.rounding import growth
from maxmargin.operators.rows import LARGEST_VALUE, VANISHING_SQUARE
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import Bounded
from maxmargin.problems.rounding import dual_excess, sample_sums, values_and_errors
from maxmargin.protocols import Float
from maxmargin.solvers.columns.quadratic import GramHeld
from maxmargin.solvers.columns.set_loops import (
    CYCLE,
    DONE,
    FACTOR,
    MEMORY,
    SUPPORT,
    USABLE,
    factorised,
    solve,
    solve_on_set,
)

INNER_SHARE = 0.1  # of the tolerance: to what the gap on the products is lowered before the samples are looked at
AGAIN = 1e-3  # of that, if rounding or the intercept spoilt the first
SWEEPS, CYCLES = 4, 500
LEAST_PIVOT = 1e-8  # of a scaled diagonal: below it columns depend on each other, or nearly
REACH = 10.0  # as in the estimators of least squares
PRIMAL, DUAL, PRIMAL_ERROR, DUAL_ERROR, LEAST, ROUNDS = 0, 1, 2, 3, 4, 5
NUMBERS = 6

_growth = compiled(growth)


@compiled
def columns_of(X: Float) -> Float:
    """The columns of a few rows, one after another."""
    n, d = X.shape
    columns = np.empty((d, n))
    for i in range(n):
        x = X[i]
        for j in range(d):
            columns[j, i] = x[j]
    return columns


@compiled
def moments(X: Float, y: Float, s: Float, free: bool, means: Float, G: Float, c: Float, lengths: Float) -> Float:
    """Products of the columns, the rows of ``X``, weighted and centred. Sets: the last four.

    Returns the mean of ``y``, the square of the centred targets, and that of ``y`` itself.
    """
    d, n = X.shape
    out, total = np.zeros(3), 0.0
    for i in range(n):
        total += s[i]
        out[0] += s[i] * y[i]
        out[2] += s[i] * y[i] * y[i]
    out[0] = out[0] / total if free else 0.0
    t, Z = np.empty(n), np.empty((d, n))
    for i in range(n):
        t[i] = y[i] - out[0]
        out[1] += s[i] * t[i] * t[i]
    for j in range(d):
        x, z, square, mean, product = X[j], Z[j], 0.0, 0.0, 0.0
        for i in range(n):
            square += x[i] * x[i]
            mean += s[i] * x[i]
        means[j] = mean / total if free else 0.0
        lengths[j] = math.sqrt(square + n * VANISHING_SQUARE)
        for i in range(n):
            z[i] = x[i] - means[j]
            product += s[i] * z[i] * t[i]
        c[j] = product
    weighted = np.empty((2, n))
    for j in range(0, d, 2):  # two at a time: half of the reading
        last = min(j + 1, d - 1)
        z0, z1, h0, h1 = Z[j], Z[last], weighted[0], weighted[1]
        for i in range(n):
            h0[i] = s[i] * z0[i]
            h1[i] = s[i] * z1[i]
        for k in range(last + 1):
            x, one, other = Z[k], 0.0, 0.0
            for i in range(n):
                one += h0[i] * x[i]
                other += h1[i] * x[i]
            G[j, k] = G[k, j] = one
            G[last, k] = G[k, last] = other
    return out


@compiled
def solve_directly(G: Float, c: Float, mu: float, low: Float, high: Float, A: Float, w: Float) -> bool:
    """The solution of ``(G + mu I) w = c``, if there is one that rounding leaves alone, well within the bounds.

    Sets: ``w``, and the Cholesky factor of the matrix in ``A``.
    """
    d = w.shape[0]
    for i in range(d):
        for k in range(i + 1):
            A[i * d + k] = G[i, k]
        A[i * d + i] += mu
    if factorised(A, d) < d:
        return False
    for i in range(d):
        if not A[i * d + i] * A[i * d + i] > LEAST_PIVOT * (G[i, i] + mu):
            return False
        w[i] = c[i]
    solve(A, d, d, w)
    step = np.empty(d)
    for i in range(d):  # once more, by what is missing
        step[i] = c[i] - mu * w[i]
        row = G[i]
        for k in range(d):
            step[i] -= row[k] * w[k]
    solve(A, d, d, step)
    inside = True
    for i in range(d):
        w[i] += step[i]
        inside = inside and low[i] <= 2.0 * w[i] <= high[i]
    return inside


@compiled
def judged(
    X: Float, y: Float, s: Float, free: bool, penalty: Bounded, w: Float, b: float, lengths: Float, alpha: Float,
    numbers: Float,
) -> None:  # fmt: skip
    """The certificate of a point, recomputed from the columns ``X``. Sets: the dual variables and the numbers."""
    d, n = X.shape
    z, reach = np.zeros(n), 0.0
    for j in range(d):
        reach += abs(w[j]) * lengths[j]
    reach *= _growth(d)
    for j in range(d):
        if w[j] != 0.0:
            x, u = X[j], w[j]
            for i in range(n):
                z[i] += u * x[i]
    for i in range(n):
        alpha[i] = s[i] * (y[i] - (z[i] + b))
    if free:
        up, down = sides(alpha)
        if abs(up - down) > 1e-14 * math.sqrt(n) * (up + down):
            alpha[:] = (
                scaled_sides(alpha, min(1.0, down / up), 1.0) if up > down else scaled_sides(alpha, 1.0, up / down)
            )
    v = np.zeros(d)
    for j in range(d):
        x, product = X[j], 0.0
        for i in range(n):
            product += alpha[i] * x[i]
        v[j] = product
    excess = dual_excess(penalty, v)
    if excess > 1.0:
        share = max(0.0, 1.0 / excess - 1e-14)
        for i in range(n):
            alpha[i] *= share
        for j in range(d):
            v[j] *= share
    sums = sample_sums(Squared(1.0), z, alpha, y, s, np.array([reach]), b, True)
    primal, dual, primal_error, dual_error = values_and_errors(
        penalty, sums, w, b, 0.0, v, lengths, np.empty(0, dtype=np.bool_), reach, n, n, free
    )
    numbers[PRIMAL], numbers[DUAL] = primal, dual
    numbers[PRIMAL_ERROR], numbers[DUAL_ERROR] = primal_error, dual_error


@compiled
def relative_gap(numbers: Float) -> float:
    """The proven quality of a point: that of `Certificate`."""
    scale = max(abs(numbers[PRIMAL]), abs(numbers[DUAL]), numbers[LEAST])
    sure = numbers[PRIMAL] - numbers[DUAL] + numbers[PRIMAL_ERROR] + numbers[DUAL_ERROR]
    if not (abs(sure) < math.inf) or sure < 0.0:
        return math.inf
    return sure / scale if scale > 0.0 else (0.0 if sure == 0.0 else math.inf)


@compiled
def largest_slope(X: Float, y: Float, s: Float, free: bool, low: Float, high: Float) -> float:
    """The largest slope at zero of a coefficient that may change in its direction."""
    d = X.shape[1]
    means, G, c, lengths = np.empty(d), np.empty((d, d)), np.empty(d), np.empty(d)
    moments(columns_of(X), y, s, free, means, G, c, lengths)
    largest = 0.0
    for j in range(d):
        if (high[j] if c[j] > 0.0 else -low[j]) > 0.0:
            largest = max(largest, abs(c[j]))
    return largest


@compiled
def solve_few(
    X: Float, y: Float, s: Float, free: bool, alphas: Float, ratio: float, low: Float, high: Float, tol: float,
    least_share: float, W: Float, B: Float, alpha: Float, A: Float, numbers: Float,
) -> int:  # fmt: skip
    """``1/2 sum_i s_i (..)^2 + alpha (ratio |w|_1 + (1 - ratio) |w|^2 / 2)`` for a list of strengths in falling order.

    Each solution starts from the last one. Returns for how many of them the certificate is within the tolerance: the
    first that is not ends the call. Sets: all that is behind ``least_share``; ``alpha`` are the last dual variables.
    If the strength is zero, the bounds too: to the reach within which such a fit is certified.
    """
    d, X = X.shape[1], columns_of(X)
    means, G, c, lengths = np.empty(d), np.empty((d, d)), np.empty(d), np.empty(d)
    of_targets = moments(X, y, s, free, means, G, c, lengths)
    if alphas[0] == 0.0:
        for j in range(d):
            high[j] = min(REACH * math.sqrt(of_targets[1] / G[j, j]) if G[j, j] > 0.0 else math.inf, LARGEST_VALUE)
            low[j] = -high[j]
    w, v, products = np.zeros(d), c.copy(), np.empty(d)
    b, steps, targets, work = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    S, of_factor, memory = np.empty(d, dtype=np.int64), np.empty(d, dtype=np.int64), np.zeros(MEMORY, dtype=np.int64)
    held, value = GramHeld(G, v), 0.5 * of_targets[1]
    for k in range(alphas.shape[0]):
        lam, mu, own = alphas[k] * ratio, alphas[k] * (1.0 - ratio), numbers[k]
        own[LEAST], own[ROUNDS] = least_share * 0.5 * of_targets[2], 1.0
        penalty, share = Bounded(alphas[k], ratio, low, high), INNER_SHARE
        for attempt in range(2):
            if lam == 0.0:
                if attempt == 1 or not solve_directly(G, c, mu, low, high, A, w):
                    return k
            else:
                if mu > 0.0:
                    memory[SUPPORT] = 0  # the last factor had another one on its diagonal
                for _ in range(2):
                    what = FACTOR
                    while what == FACTOR:
                        what, value, gap = solve_on_set(
                            held, w, products, c, lam, mu, low, high, of_targets[1], share * tol * value, SWEEPS,
                            CYCLES, k > 0, A, b, steps, targets, work, S, of_factor, memory,
                        )  # fmt: skip
                        if what == FACTOR:
                            memory[USABLE] = factorised(A, memory[SUPPORT])
                    memory[CYCLE] = 0
                    if what != DONE or gap <= share * tol * value:
                        break
            intercept = of_targets[0]
            for j in range(d):
                intercept -= means[j] * w[j]
                W[k, j] = w[j]
            B[k] = intercept
            judged(X, y, s, free, penalty, w, intercept, lengths, alpha, own)
            if relative_gap(own) <= tol:
                break
            share *= AGAIN
            if attempt == 1:
                return k
    return alphas.shape[0]
