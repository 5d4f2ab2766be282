"""The solutions for all sizes of the box, as one piecewise linear function: an active-set method without any search.

Let the box of a program be ``C low <= a <= C high``. Between two values of ``C`` at which the partition changes,
variables at a bound move in proportion to ``C``, and the free ones and the multiplier solve linear equations, so that
they are linear in ``C`` too. Each change is found from where the first variable meets a bound, or leaves one.

Reference: Hastie, Rosset, Tibshirani, Zhu, "The entire regularization path for the support vector machine", JMLR 2004.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.updated_cholesky import append_row, pivot_of, solve_both, solve_two
from maxmargin.protocols import Array, Float
from maxmargin.solvers.kernels.active_set.face import DEPENDENT, FREE, HIGH, LOW, Face, Program, add_rows, entry
from maxmargin.solvers.kernels.active_set.loops import delete_at

GOES_ON, REACHED, STUCK = 0, 1, 2
CORRECTIONS = 32  # changes between two looks at what rounding has done to scores and equations
FLAT = 1e-11  # of the largest rate: slower scores do not meet the multiplier, as those of duplicates
CROSSINGS = 100  # looks for the pair that meets first, where no variable is free


@compiled
def follow(
    p: Program, face: Face, a: Float, e: Float, status: Array, m: int, b: float, C: float, C_end: float,
    Cs: Float, bs: Float, variables: Float,
) -> tuple[int, float, float, int, int]:  # fmt: skip
    """Follow the path until ``C_end``, or until there is no place for another breakpoint.

    ``p`` has the box for ``C = 1``. On entry ``a`` is optimal for ``C``, with the multiplier ``b`` and minus the
    gradient ``e``. Returns the free variables, the multiplier, ``C``, the number of breakpoints and what it ended with.
    Sets: ``a, e, status``, the face, ``Cs, bs, variables``.
    """
    size, count, since, last_out = a.shape[0], 0, CORRECTIONS, -1
    rate, e_rate = np.zeros(size), np.empty(size)
    known, f_bound = np.zeros(size), np.zeros(p.K.shape[0])
    while count < Cs.shape[0]:
        if since >= CORRECTIONS:
            b = _correct(p, face, a, e, status, m, b, C)
            known[:], f_bound[:], since = 0.0, 0.0, 0
        surplus = _rates_at_bounds(p, status, rate)
        _bring_bounds_up_to_date(p, rate, known, f_bound)
        if m == 0 and p.totals.shape[0] > 0:
            if abs(surplus) <= 1e-12 * np.abs(rate).sum():
                b, step, i, j = _to_crossing(p, a, e, status, rate, e_rate, C_end - C)
                C += step
                _stretch(p, a, status, C)
                add_to_slopes(step, e_rate, e)
                if i < 0:
                    return m, b, C, count, REACHED
                b = e[i]
                m = make_free(p, face, status, m, i)
                m = make_free(p, face, status, m, j)
            else:
                v = _partner(p, e, status, surplus)
                if v < 0:
                    return m, b, C, count, STUCK
                b = e[v]
                m = make_free(p, face, status, m, v)
            Cs[count], bs[count] = C, b
            variables[count] = a
            count += 1
            continue
        b_rate = _free_rates(p, face, m, surplus, f_bound)
        _slope_rates(p, face, m, rate, f_bound, e_rate)
        step, hit, v = _next_change(p, face, a, e, status, m, b, C, e_rate, b_rate, C_end - C, last_out)
        C += step
        b += step * b_rate
        for i in range(m):
            a[face.free[i]] += step * face.step[i]
        add_to_slopes(step, e_rate, e)
        _stretch(p, a, status, C)
        last_out = -1
        if hit >= 0:
            v = last_out = face.free[hit]
            m = _stop_at_bound(p, face, a, status, m, hit, C)
        elif v >= 0:
            m = make_free(p, face, status, m, v)
            if status[v] != FREE:  # it depends on the free ones, and stays where it is until one of these leaves
                face.barred[v] = True
                continue
        Cs[count], bs[count] = C, b
        variables[count] = a
        count += 1
        since += 1
        if hit < 0 and v < 0:
            return m, b, C, count, REACHED
    return m, b, C, count, GOES_ON


@compiled
def add_to_slopes(step: float, rate: Float, e: Float) -> None:
    """Sets: ``e``."""
    for v in range(e.shape[0]):
        e[v] += step * rate[v]


@compiled
def _stop_at_bound(p: Program, face: Face, a: Float, status: Array, m: int, hit: int, C: float) -> int:
    """Leave a free variable at the bound that it has met; how many are free then. Sets: ``a, status``, the face."""
    v = face.free[hit]
    upwards = face.step[hit] > p.high[v]
    status[v] = HIGH if upwards else LOW
    a[v] = C * p.high[v] if upwards else C * p.low[v]
    face.barred[:] = False
    return delete_at(face, m, hit)


@compiled
def _rates_at_bounds(p: Program, status: Array, rate: Float) -> float:
    """How variables at a bound move with ``C``, and the sum of that. Sets: ``rate``; 0 for free variables."""
    surplus = 0.0
    for v in range(rate.shape[0]):
        rate[v] = 0.0 if status[v] == FREE else (p.high[v] if status[v] == HIGH else p.low[v])
        surplus += rate[v]
    return surplus


@compiled
def _stretch(p: Program, a: Float, status: Array, C: float) -> None:
    """Variables at a bound are exactly there. Sets: ``a``."""
    for v in range(a.shape[0]):
        if status[v] == HIGH:
            a[v] = C * p.high[v]
        elif status[v] == LOW:
            a[v] = C * p.low[v]
        else:
            a[v] = min(max(a[v], C * p.low[v]), C * p.high[v])


@compiled
def rate_of_slopes(p: Program, rate: Float, e_rate: Float) -> None:
    """How minus the gradient moves with ``C``. Sets: ``e_rate``."""
    moving = np.flatnonzero(rate)
    f = np.zeros(p.K.shape[0])
    add_rows(p.K, p.sample[moving], rate[moving], f)
    for v in range(rate.shape[0]):
        e_rate[v] = -f[p.sample[v]] - p.D[v] * rate[v]


@compiled
def _bring_bounds_up_to_date(p: Program, rate: Float, known: Float, f_bound: Float) -> None:
    """How scores move with the variables at bounds, from what is known of some rates. Sets: ``known, f_bound``."""
    changed = np.flatnonzero(rate != known)
    add_rows(p.K, p.sample[changed], rate[changed] - known[changed], f_bound)
    known[changed] = rate[changed]
    if not known.any():  # rounding would be multiplied by C
        f_bound[:] = 0.0


@compiled
def _slope_rates(p: Program, face: Face, m: int, rate: Float, f_bound: Float, e_rate: Float) -> None:
    """How minus the gradient moves with ``C``, by the rates of the free variables. Sets: ``rate, e_rate``."""
    free = face.free[:m]
    f = f_bound.copy()
    add_rows(p.K, p.sample[free], face.step[:m], f)
    for i in range(m):
        rate[free[i]] = face.step[i]
    for v in range(rate.shape[0]):
        e_rate[v] = -f[p.sample[v]] - p.D[v] * rate[v]


@compiled
def _free_rates(p: Program, face: Face, m: int, surplus: float, f_bound: Float) -> float:
    """How free variables and the multiplier move with ``C``. Sets: ``step, sums``."""
    for i in range(m):
        face.step[i] = -f_bound[p.sample[face.free[i]]]
        face.sums[0, i] = 1.0
    if p.totals.shape[0] == 0:
        solve_both(face.R, m, face.step)
        return 0.0
    solve_two(face.R, m, face.step, face.sums[0])
    ahead, total = 0.0, 0.0
    for i in range(m):
        ahead += face.step[i]
        total += face.sums[0, i]
    shift = (ahead + surplus) / total
    for i in range(m):
        face.step[i] -= shift * face.sums[0, i]
    return shift - p.ridge * surplus


@compiled
def _next_change(
    p: Program, face: Face, a: Float, e: Float, status: Array, m: int, b: float, C: float, e_rate: Float,
    b_rate: float, most: float, last_out: int,
) -> tuple[float, int, int]:  # fmt: skip
    """How far ``C`` can grow, and which free variable meets a bound then (its place), or which variable leaves one."""
    step, hit, enters, largest = most, -1, -1, 0.0
    for i in range(m):
        v, x = face.free[i], face.step[i]
        if x > p.high[v]:
            room = (C * p.high[v] - a[v]) / (x - p.high[v])
        elif x < p.low[v]:
            room = (a[v] - C * p.low[v]) / (p.low[v] - x)
        else:
            continue
        if room < step:
            step, hit = max(room, 0.0), i
    for v in range(a.shape[0]):
        largest = max(largest, abs(e_rate[v]))
    flat = FLAT * max(largest, 1e-300)
    for v in range(a.shape[0]):
        if status[v] == FREE or v == last_out or face.barred[v] or p.low[v] == p.high[v]:
            continue
        speed, distance = e_rate[v] - b_rate, b - e[v]
        if status[v] == HIGH:
            speed, distance = -speed, -distance
        if speed > flat:
            room = max(distance, 0.0) / speed
            if room < step:
                step, hit, enters = room, -1, v
    return step, hit, enters


@compiled
def make_free(p: Program, face: Face, status: Array, m: int, v: int) -> int:
    """Make a variable free unless it depends on those that are; how many there are. Sets: ``status``, the face."""
    diagonal = entry(p, v, v)
    for i in range(m):
        face.column[i] = entry(p, face.free[i], v)
    pivot = pivot_of(face.R, m, face.column, diagonal)
    if pivot <= DEPENDENT * abs(diagonal):
        return m
    append_row(face.R, m, face.column, pivot)
    face.free[m] = v
    status[v] = FREE
    return m + 1


@compiled
def _partner(p: Program, e: Float, status: Array, surplus: float) -> int:
    """Where no variable is free: the one that takes up the change of the sum, at the end of the multiplier's range."""
    best, where = np.inf, -1
    for v in range(e.shape[0]):
        if p.low[v] < p.high[v]:
            x = -e[v] if surplus < 0.0 else e[v]
            if status[v] == (LOW if surplus < 0.0 else HIGH) and x < best:
                best, where = x, v
    return where


@compiled
def _to_crossing(
    p: Program, a: Float, e: Float, status: Array, rate: Float, e_rate: Float, most: float
) -> tuple[float, float, int, int]:
    """Where no variable is free and the sum keeps itself: how far until a pair wants to move, and which one.

    Until then any multiplier between the two sides is right. Sets: ``e_rate``.
    """
    rate_of_slopes(p, rate, e_rate)
    step, i, j, b = most, -1, -1, 0.0
    for _ in range(CROSSINGS):
        highest, lowest, u, v = -np.inf, np.inf, -1, -1
        for k in range(e.shape[0]):
            if p.low[k] < p.high[k]:
                x = e[k] + step * e_rate[k]
                if status[k] == LOW and x > highest:
                    highest, u = x, k
                elif status[k] == HIGH and x < lowest:
                    lowest, v = x, k
        if u < 0 or v < 0:
            return highest if u >= 0 else lowest if v >= 0 else 0.0, step, -1, -1
        b = 0.5 * (highest + lowest)
        if highest - lowest <= 1e-14 * (abs(highest) + abs(lowest)):
            break
        closing = e_rate[u] - e_rate[v]
        i, j = u, v
        step = max((e[v] - e[u]) / closing, 0.0) if closing > 0.0 else 0.0
        if step == 0.0:
            break
    return b, step, i, j


@compiled
def multiplier_at(p: Program, face: Face, status: Array, m: int, e: Float) -> float:
    """The mean slope of the free variables or, if there are none, the middle of what the others allow."""
    if p.totals.shape[0] == 0:
        return 0.0
    if m > 0:
        total = 0.0
        for i in range(m):
            total += e[face.free[i]]
        return total / m
    highest, lowest = -np.inf, np.inf
    for v in range(e.shape[0]):
        if p.low[v] < p.high[v]:
            if status[v] == LOW:
                highest = max(highest, e[v])
            else:
                lowest = min(lowest, e[v])
    if highest > -np.inf and lowest < np.inf:
        return 0.5 * (highest + lowest)
    return highest if highest > -np.inf else lowest if lowest < np.inf else 0.0


@compiled
def slopes_from_scratch(p: Program, a: Float, e: Float) -> None:
    """Sets: ``e``, minus the gradient."""
    used = np.flatnonzero(a)
    f = np.zeros(p.K.shape[0])
    add_rows(p.K, p.sample[used], a[used], f)
    for v in range(a.shape[0]):
        e[v] = p.q[v] - f[p.sample[v]] - p.D[v] * a[v]


@compiled
def _correct(p: Program, face: Face, a: Float, e: Float, status: Array, m: int, b: float, C: float) -> float:
    """Scores from scratch, and the free variables from their equations; the multiplier. Sets: ``a, e``."""
    for _ in range(2):
        slopes_from_scratch(p, a, e)
        missing = p.totals[0] if p.totals.shape[0] > 0 else 0.0
        for v in range(a.shape[0]):
            missing -= a[v]
        if m == 0:
            return b
        for i in range(m):
            face.step[i] = e[face.free[i]]
            face.sums[0, i] = 1.0
        solve_both(face.R, m, face.step)
        if p.totals.shape[0] > 0:
            solve_both(face.R, m, face.sums[0])
            b = (face.step[:m].sum() - missing) / face.sums[0, :m].sum()
            for i in range(m):
                face.step[i] -= b * face.sums[0, i]
            b += p.ridge * missing
        for i in range(m):
            v = face.free[i]
            change = face.step[i]
            a[v] = min(max(a[v] + change, C * p.low[v]), C * p.high[v])
    slopes_from_scratch(p, a, e)
    return b
