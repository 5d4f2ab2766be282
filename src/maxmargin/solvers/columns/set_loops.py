"""Exact solution of a problem over the columns of a working set: coordinate descent, then Newton's method.

``min 1/2 |y - X_W w|_h^2 + lam |w|_1 + mu/2 |w|^2`` over ``low <= w <= high``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float, Index

DONE, FACTOR, LEFT = 0, 1, 2  # the gap is small; somebody has to factorise a matrix; enough for now
OWN_FACTOR = 64  # coefficients: a matrix of this size is factorised here, a larger one by LAPACK
LARGE = 400  # coefficients: then a step of Newton's method costs more than sweeps, and only two of them are made
FEW_STEPS, MANY_STEPS = 2, 30
CLIPS = 3  # attempts with steps of 1, 1/4, 1/16, cut where coefficients change their sign; then the first that does
SPARE_CYCLES = 8  # warm ones; then all coefficients are swept again
PATIENCE = 12  # cycles without a smaller gap: what is left of it is rounding
ROUNDING = 1e-15  # relative: what is nearer to a limit is at it
PIVOT = 1e-12  # relative to the diagonal: what is added to it
# What the loop remembers while somebody else factorises: entries of `memory`.
SUPPORT, USABLE, CYCLE, STEP, HARD, WAITING, SWEEPS, FACTORS = 0, 1, 2, 3, 4, 5, 6, 7
MEMORY = 8


def worst_of(columns: Index, excesses: Float, count: int) -> Index:
    """Those columns that violate the conditions most."""
    if columns.size <= count:
        return columns
    return columns[np.argpartition(-excesses, count)[:count]]


@compiled
def slopes_of(held: Any, v: Float) -> None:
    """All slopes of what is held. Sets: ``v``."""
    held.refresh(v)


@compiled
def gap_on_set(
    w: Float, v: Float, lam: float, mu: float, low: Float, high: Float, yy: float, qw: float
) -> tuple[float, float]:
    """Primal value and duality gap of the problem on the set, at the residuals scaled into the dual's domain.

    With both penalties that of the L1 norm alone, for ``sqrt(mu) I`` below the columns: it is the larger of two gaps,
    and demands that slopes are right, not only values. No part of the gap is a difference of large numbers.
    """
    cost, vw, ww, excess = 0.0, 0.0, 0.0, 1.0
    below, ridge = (mu, 0.0) if lam > 0.0 else (0.0, mu)
    for a in range(w.shape[0]):
        u = v[a] - below * w[a]
        cost += lam * abs(w[a]) + 0.5 * ridge * w[a] * w[a]
        vw += v[a] * w[a]
        ww += w[a] * w[a]
        if ridge == 0.0 and abs(u) > lam and (high[a] if u > 0.0 else -low[a]) == math.inf:
            excess = max(excess, abs(u) / lam if lam > 0.0 else math.inf)
    loss = 0.5 * (max(yy - qw - vw, 0.0) + below * ww)
    t = 1.0 / excess
    conjugate = 0.0
    for a in range(w.shape[0]):
        u = v[a] - below * w[a]
        beyond = t * abs(u) - lam
        if beyond > 0.0:
            end = high[a] if u > 0.0 else -low[a]
            if ridge > 0.0:
                end = min(end, beyond / ridge)
            if end < math.inf:  # or rounding is left of a product that was scaled to the limit
                conjugate += end * (beyond - 0.5 * ridge * end)
    return loss + cost, max(loss * (1.0 - t) ** 2 + cost - t * (vw - below * ww) + conjugate, 0.0)


@compiled
def sweep(held: Any, w: Float, lam: float, mu: float, low: Float, high: Float, light: bool) -> None:
    """Set one coefficient after another to its best value; a light sweep visits those that want to leave a limit."""
    for a in range(w.shape[0]):
        old = w[a]
        inside = old != 0.0 and low[a] < old < high[a]
        if light and inside:
            continue
        v = held.slope_of(a)
        if old == 0.0 and abs(v) <= lam:
            continue
        curvature = held.curvature_of(a)
        if curvature + mu <= 0.0:
            continue
        u = v + curvature * old
        new = math.copysign(max(abs(u) - lam, 0.0), u) / (curvature + mu)
        new = min(max(new, low[a]), high[a])
        if new != old:
            w[a] = new
            held.move(a, new - old)


@compiled
def factorised(A: Float, size: int) -> int:
    """Cholesky's factor of the lower triangle, row by row, in place; as many rows as are positive definite."""
    for i in range(size):
        row = A[i * size : (i + 1) * size]
        for j in range(i):
            other, total = A[j * size : j * size + j], row[j]
            for k in range(j):
                total -= row[k] * other[k]
            row[j] = total / A[j * size + j]
        total = row[i]
        for k in range(i):
            total -= row[k] * row[k]
        if not total > 0.0:
            return i
        row[i] = math.sqrt(total)
    return size


@compiled
def solve(A: Float, size: int, usable: int, b: Float) -> None:
    """``b <- (L L^T)^-1 b`` for the first coefficients, zero for the others."""
    for i in range(usable):
        row, total = A[i * size : i * size + i], b[i]
        for k in range(i):
            total -= row[k] * b[k]
        b[i] = total / A[i * size + i]
    for i in range(usable - 1, -1, -1):
        b[i] /= A[i * size + i]
        row, x = A[i * size : i * size + i], b[i]
        for k in range(i):
            b[k] -= x * row[k]
    b[usable:size] = 0.0


@compiled
def newton_step(
    held: Any, w: Float, lam: float, mu: float, low: Float, high: Float, S: Index, size: int, b: Float, steps: Float,
    targets: Float, work: Float,
) -> tuple[int, bool]:  # fmt: skip
    """Go along ``b``: as far as it descends if coefficients are cut at their limits, else to the first limit.

    Returns how many coefficients met a limit, and whether it was the first limit that ended the step.
    """
    crossing, first = 0, 1.0
    for i in range(size):
        old, new = w[S[i]], w[S[i]] + b[i]
        limit = old
        if new * old <= 0.0:
            limit = 0.0
        elif new > high[S[i]]:
            limit = high[S[i]]
        elif new < low[S[i]]:
            limit = low[S[i]]
        if limit != old:
            crossing += 1
            first = min(first, (limit - old) / b[i])
    step, cut = 1.0, False
    for attempt in range(CLIPS + 1):
        if attempt == CLIPS or step <= first:
            step, cut = first, True
        linear = 0.0
        for i in range(size):
            a = S[i]
            old, new = w[a], w[a] + step * b[i]
            if new * old <= 0.0 or (cut and abs(new) <= ROUNDING * abs(old)):
                new = 0.0
            elif new >= high[a] - ROUNDING * abs(high[a]):
                new = high[a]
            elif new <= low[a] + ROUNDING * abs(low[a]):
                new = low[a]
            targets[i] = new
            steps[i] = new - old
            linear += lam * (abs(new) - abs(old)) + 0.5 * mu * (new * new - old * old) - held.slope_of(a) * steps[i]
        curvature = held.turn(S, size, steps, work)
        if crossing == 0 or cut or linear + 0.5 * curvature < 0.0:
            break
        step *= 0.25
    for i in range(size):
        w[S[i]] = targets[i]
    held.accept(work)
    return crossing, cut and crossing > 0


@compiled
def _support_of(w: Float, low: Float, high: Float, S: Index, of_factor: Index) -> tuple[int, bool]:
    """How many coefficients are neither zero nor at a bound, and whether they are those of the factor. Sets: ``S``."""
    size, same = 0, True
    for a in range(w.shape[0]):
        if w[a] != 0.0 and low[a] < w[a] < high[a]:
            S[size] = a
            same = same and of_factor[size] == a
            size += 1
    return size, same


@compiled
def solve_on_set(
    held: Any, w: Float, v: Float, c: Float, lam: float, mu: float, low: Float, high: Float, yy: float, stop: float,
    sweeps: int, cycles: int, light: bool, A: Float, b: Float, steps: Float, targets: Float, work: Float, S: Index,
    of_factor: Index, memory: Index,
) -> tuple[int, float, float]:  # fmt: skip
    """Solve the problem on the set until its gap is at most ``stop``.

    Returns what to do next, the primal value and the gap. If that is ``FACTOR``, ``A`` holds the lower triangle of a
    matrix of ``memory[SUPPORT]`` rows: whoever factorises it sets ``memory[USABLE]`` and calls again. ``c`` are the
    slopes at zero. Sets: ``w``, what is held, ``v`` and all that is behind it.
    """
    value, gap, least, idle = 0.0, math.inf, math.inf, 0
    while True:
        if memory[WAITING] == 0:
            held.refresh(v)
            qw = 0.0
            for a in range(w.shape[0]):
                qw += c[a] * w[a]
            value, gap = gap_on_set(w, v, lam, mu, low, high, yy, qw)
            idle = 0 if gap < 0.9 * least else idle + 1
            least = min(least, gap)
            if gap <= stop or memory[CYCLE] >= cycles or idle > PATIENCE:
                done = gap <= stop or idle > PATIENCE
                memory[CYCLE] = 0
                return DONE if done else LEFT, value, gap
            gentle = light and memory[HARD] == 0 and memory[SUPPORT] < LARGE
            for _ in range(1 if gentle else sweeps):
                sweep(held, w, lam, mu, low, high, gentle)
            memory[SWEEPS] += 1 if gentle else sweeps
            memory[HARD] = int(memory[CYCLE] > SPARE_CYCLES)
            memory[CYCLE] += 1
            memory[STEP] = 0
        while memory[STEP] < (MANY_STEPS if memory[SUPPORT] < LARGE else FEW_STEPS):
            size, same = _support_of(w, low, high, S, of_factor)
            if size == 0 or size * size > A.shape[0]:
                break
            if memory[WAITING] == 1:
                memory[WAITING] = 0
            elif not (same and memory[SUPPORT] == size):
                held.pairs(S, size, A)
                for i in range(size):
                    A[i * size + i] += mu + PIVOT * A[i * size + i]
                    of_factor[i] = S[i]
                memory[SUPPORT] = size
                memory[FACTORS] += 1
                if size > OWN_FACTOR:
                    memory[WAITING] = 1
                    return FACTOR, value, gap
                memory[USABLE] = factorised(A, size)
            if memory[USABLE] == 0:
                break
            for i in range(size):
                o = w[S[i]]
                b[i] = held.slope_of(S[i]) - mu * o - math.copysign(lam, o)
            solve(A, size, memory[USABLE], b)
            crossing, blocked = newton_step(held, w, lam, mu, low, high, S, size, b, steps, targets, work)
            if blocked:
                memory[HARD] = 1
            memory[STEP] += 1
            if crossing == 0:
                break
        memory[STEP] = 0


@compiled
def residuals(vectors: Any, W: Index, w: Float, y: Float, h: Float, centred: bool) -> tuple[Float, float, float]:
    """Dual variables ``h (y - X w - b)`` with the best intercept ``b``, that intercept, and the squared loss."""
    r, b, total = y.copy(), 0.0, 0.0
    for a in range(w.shape[0]):
        if w[a] != 0.0:
            vectors.add(W[a], -w[a], r)
    if centred:
        for i in range(r.shape[0]):
            b += h[i] * r[i]
            total += h[i]
        b = b / total if total > 0.0 else 0.0
    loss = 0.0
    for i in range(r.shape[0]):
        e = r[i] - b
        loss += h[i] * e * e
        r[i] = h[i] * e
    return r, b, 0.5 * loss


@compiled
def judged(
    w: Float, slopes: Float, v: Float, certain: Any, place: Index, loss: float, lam: float, mu: float, low: Float,
    high: Float, violators: Index, excesses: Float, lengths: Float,
) -> tuple[int, float, float]:  # fmt: skip
    """Columns outside of the set that would change their coefficient, how many, the primal value and the gap.

    ``w`` and ``slopes`` are those of the set, all else is of every column. Sets: ``violators``, and by how far the
    zeros are passed, in ``excesses``.
    """
    below, ridge = (mu, 0.0) if lam > 0.0 else (0.0, mu)  # as in `gap_on_set`
    cost, vw, ww, excess, count, paying = 0.0, 0.0, 0.0, 1.0, 0, ridge > 0.0
    for a in range(w.shape[0]):
        cost += lam * abs(w[a]) + 0.5 * ridge * w[a] * w[a]
        vw += slopes[a] * w[a]
        ww += w[a] * w[a]
    loss += 0.5 * below * ww
    for j in range(v.shape[0]):
        if certain[j]:
            continue
        u = v[j] - (below * w[place[j]] if place[j] >= 0 else 0.0)
        beyond = abs(u) - lam
        if beyond <= 0.0:
            continue
        end = high[j] if u > 0.0 else -low[j]
        if ridge == 0.0 and end == math.inf:
            excess = max(excess, abs(u) / lam if lam > 0.0 else math.inf)
        else:
            paying = True
        if place[j] < 0 and end > 0.0:
            violators[count], excesses[count] = j, beyond / lengths[j]
            count += 1
    t, conjugate = 1.0 / excess, 0.0
    for j in range(v.shape[0] if paying else 0):  # else nothing is left of what is scaled into the domain
        if certain[j]:
            continue
        u = v[j] - (below * w[place[j]] if place[j] >= 0 else 0.0)
        beyond = t * abs(u) - lam
        if beyond > 0.0:
            end = high[j] if u > 0.0 else -low[j]
            if ridge > 0.0:
                end = min(end, beyond / ridge)
            if end < math.inf:
                conjugate += end * (beyond - 0.5 * ridge * end)
    return count, loss + cost, loss * (1.0 - t) ** 2 + cost - t * (vw - below * ww) + conjugate


@compiled
def nearly(
    estimate: Float, level: float, place: Index, low: Float, high: Float, lengths: Float, near: Index, excesses: Float
) -> int:
    """Columns outside of the set whose slope may be beyond a level, and how many. Sets: ``near, excesses``."""
    count = 0
    for j in range(estimate.shape[0]):
        beyond = abs(estimate[j]) - level
        if beyond > 0.0 and place[j] < 0 and (high[j] if estimate[j] > 0.0 else -low[j]) > 0.0:
            near[count], excesses[count] = j, beyond / lengths[j]
            count += 1
    return count
