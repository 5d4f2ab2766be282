"""The exact solutions for all nu, where the sums of the groups move and the box stays: compiled loops.

The sums are in proportion to nu. Variables at a bound rest there, the free ones and the multipliers move by linear
equations, until a free variable meets a bound or one at a bound wants to leave. Every group needs a free variable then:
where it has none, the one that wants to move first becomes free.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.updated_cholesky import solve_both
from maxmargin.protocols import Array, Float
from maxmargin.solvers.kernels.active_set.face import FREE, HIGH, LOW, Face, Program
from maxmargin.solvers.kernels.active_set.loops import delete_at
from maxmargin.solvers.kernels.active_set.path import (
    CORRECTIONS,
    FLAT,
    GOES_ON,
    REACHED,
    STUCK,
    add_to_slopes,
    make_free,
    rate_of_slopes,
    slopes_from_scratch,
)

SAME_NU = 1e-9  # relative
MET = 3  # the hulls of the groups have met: there is no margin for smaller nu


@compiled
def follow_nu(
    p: Program, face: Face, a: Float, e: Float, status: Array, m: int, b: Float, nu: float, end: float, least: float,
    nus: Float, bs: Float, variables: Float,
) -> tuple[int, float, int, int]:  # fmt: skip
    """Follow the path to ``end``, upwards or downwards, until the width ``b[1] - b[0]`` of the street is the least, or
    until there is no place for another breakpoint.

    ``p`` has the sums for ``nu = 1``. On entry ``a`` is optimal for ``nu``, with the multipliers ``b`` and minus the
    gradient ``e``. Returns the free variables, nu, the number of breakpoints and what it ended with. Sets: ``a, b, e,
    status``, the face, ``nus, bs, variables``.
    """
    size, groups, count, since, last_out = a.shape[0], p.totals.shape[0], 0, CORRECTIONS, -1
    direction = 1.0 if end > nu else -1.0
    rate, e_rate, b_rate = np.zeros(size), np.empty(size), np.empty(groups)
    while count < nus.shape[0]:
        if since >= CORRECTIONS:
            _correct(p, face, a, e, m, b, nu)
            since = 0
        m = _occupy_groups(p, face, e, status, m, b, direction)
        if m < 0:
            there = abs(end - nu) <= SAME_NU * nu  # where all variables of a group are at their bound
            return -m - 1, nu, count, REACHED if there else STUCK
        _rates(p, face, m, b_rate, direction)
        rate[:] = 0.0
        for i in range(m):
            rate[face.free[i]] = face.step[i]
        rate_of_slopes(p, rate, e_rate)
        most = abs(end - nu)
        narrows = groups == 2 and (b[1] - b[0]) + most * (b_rate[1] - b_rate[0]) < least
        if narrows:
            most = max(0.0, (b[1] - b[0] - least) / (b_rate[0] - b_rate[1]))
        step, hit, v = _next_event(p, face, a, e, status, m, b, e_rate, b_rate, most, last_out)
        nu += direction * step
        for g in range(groups):
            b[g] += step * b_rate[g]
        for i in range(m):
            a[face.free[i]] += step * face.step[i]
        add_to_slopes(step, e_rate, e)
        last_out = -1
        if hit >= 0:
            last_out = face.free[hit]
            status[last_out] = HIGH if face.step[hit] > 0.0 else LOW
            a[last_out] = p.high[last_out] if face.step[hit] > 0.0 else p.low[last_out]
            face.barred[:] = False
            m = delete_at(face, m, hit)
        elif v >= 0:
            m = make_free(p, face, status, m, v)
            if status[v] != FREE:  # it depends on the free ones, and stays where it is until one of these leaves
                face.barred[v] = True
                continue
        nus[count], variables[count] = nu, a
        bs[count] = b
        count += 1
        since += 1
        if hit < 0 and v < 0:
            return m, nu, count, MET if narrows else REACHED
    return m, nu, count, GOES_ON


@compiled
def _occupy_groups(p: Program, face: Face, e: Float, status: Array, m: int, b: Float, direction: float) -> int:
    """Free a variable of each group that has none; how many there are, or minus that and one. Sets: ``b``, the face."""
    for g in range(p.totals.shape[0]):
        occupied = False
        for i in range(m):
            occupied = occupied or p.group[face.free[i]] == g
        if occupied:
            continue
        rising = p.totals[g] * direction > 0.0
        best, first = -np.inf, -1
        for v in range(e.shape[0]):
            if p.group[v] == g and p.low[v] < p.high[v] and status[v] == (LOW if rising else HIGH):
                x = e[v] if rising else -e[v]
                if x > best:
                    best, first = x, v
        if first < 0:
            return -m - 1
        m = make_free(p, face, status, m, first)
        if status[first] != FREE:
            return -m - 1
        b[g] = e[first]
    return m


@compiled
def _solved_sums(p: Program, face: Face, m: int) -> Float:
    """What the multipliers do to the sums. Sets: ``face.sums``, to the inverse matrix times each group's indicator."""
    groups = p.totals.shape[0]
    A = np.zeros((groups, groups))
    for g in range(groups):
        column = face.sums[g]
        for i in range(m):
            column[i] = 1.0 if p.group[face.free[i]] == g else 0.0
        solve_both(face.R, m, column)
        for i in range(m):
            A[p.group[face.free[i]], g] += column[i]
    return A


@compiled
def _solved(A: Float, right: Float) -> Float:
    """``A^-1 right`` of one or two equations."""
    if right.shape[0] == 1:
        return right / A[0, 0]
    x, determinant = np.empty(2), A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]
    x[0] = (right[0] * A[1, 1] - right[1] * A[0, 1]) / determinant
    x[1] = (right[1] * A[0, 0] - right[0] * A[1, 0]) / determinant
    return x


@compiled
def _rates(p: Program, face: Face, m: int, b_rate: Float, direction: float) -> None:
    """How free variables and multipliers move. Sets: ``face.step, face.sums, b_rate``."""
    shift = _solved(_solved_sums(p, face, m), -direction * p.totals)
    for i in range(m):
        face.step[i] = 0.0
        for g in range(shift.shape[0]):
            face.step[i] -= shift[g] * face.sums[g, i]
    for g in range(shift.shape[0]):
        b_rate[g] = shift[g] + p.ridge * direction * p.totals[g]


@compiled
def _next_event(
    p: Program, face: Face, a: Float, e: Float, status: Array, m: int, b: Float, e_rate: Float, b_rate: Float,
    most: float, last_out: int,
) -> tuple[float, int, int]:  # fmt: skip
    """How far nu can move, and which free variable meets a bound then (its place), or which variable leaves one."""
    step, hit, enters, largest = most, -1, -1, 1e-300
    for i in range(m):
        v, x = face.free[i], face.step[i]
        room = (p.high[v] - a[v]) / x if x > 0.0 else (p.low[v] - a[v]) / x if x < 0.0 else np.inf
        if room < step:
            step, hit = max(room, 0.0), i
    for v in range(a.shape[0]):
        largest = max(largest, abs(e_rate[v]))
    for v in range(a.shape[0]):
        if status[v] == FREE or v == last_out or face.barred[v] or p.low[v] == p.high[v]:
            continue
        g = p.group[v]
        speed, distance = e_rate[v] - b_rate[g], b[g] - e[v]
        if status[v] == HIGH:
            speed, distance = -speed, -distance
        if speed > FLAT * largest:
            room = max(distance, 0.0) / speed
            if room < step:
                step, hit, enters = room, -1, v
    return step, hit, enters


@compiled
def _correct(p: Program, face: Face, a: Float, e: Float, m: int, b: Float, nu: float) -> None:
    """Slopes from scratch, and the free variables from their equations. Sets: ``a, b, e``."""
    groups = p.totals.shape[0]
    for _ in range(2):
        slopes_from_scratch(p, a, e)
        missing, occupied = nu * p.totals, np.zeros(groups, dtype=np.bool_)
        for v in range(a.shape[0]):
            missing[p.group[v]] -= a[v]
        for i in range(m):
            occupied[p.group[face.free[i]]] = True
        if not occupied.all():
            return
        A = _solved_sums(p, face, m)
        for i in range(m):
            face.step[i] = e[face.free[i]]
        solve_both(face.R, m, face.step)
        right = -missing
        for i in range(m):
            right[p.group[face.free[i]]] += face.step[i]
        shift = _solved(A, right)
        for g in range(groups):
            b[g] = shift[g] + p.ridge * missing[g]
        for i in range(m):
            v = face.free[i]
            for g in range(groups):
                face.step[i] -= shift[g] * face.sums[g, i]
            a[v] = min(max(a[v] + face.step[i], p.low[v]), p.high[v])
    slopes_from_scratch(p, a, e)
