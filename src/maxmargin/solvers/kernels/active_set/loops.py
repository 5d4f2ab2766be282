"""One change of the partition at a time, with a factor of the free variables' matrix that is updated.

The variables at their lower bound, at their upper bound and between them are the sets ``I_0`` and ``I_c`` (together)
and ``I_s`` of the textbooks; of signed variables, those at the bound 0 are ``I_0``. Instead of the bordered matrix
``[[Q_ss, 1], [1^T, 0]]`` the factor is that of ``M = Q_ss + ridge 1 1^T`` (one such term for each group whose sum is
fixed): along directions that keep the sums it is the same, and it is positive wherever the bordered matrix can be
solved with, also where ``Q_ss`` alone cannot, as of a linear kernel with one support vector more than features.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled, inlined
from maxmargin.numerics.updated_cholesky import append_row, delete_row, pivot_of, solve_both, solve_triangle
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.active_set.face import DEPENDENT, FREE, HIGH, LOW, Face, Program, bring_up_to_date, entry

GOING_ON, OPTIMAL, STUCK = 0, 1, 2  # what an exchange ended with
NEGATIVE = 1e-9  # the same: with less than minus this, the kernel is not positive semi-definite
ROUNDING_OF_STEPS = 1e-14  # relative to what is subtracted
NOTHING_LEFT = 1e-15  # the same: only rounding
CANDIDATES = 64  # that are looked at again before all variables are
PROMISING = 0.1  # of the largest violation: others are no candidates
IDLE_CHANGES = 30  # without a step; then the first index counts instead of the largest violation, which cannot cycle
MOST_IDLE = 20  # times the free variables and IDLE_CHANGES: then rounding decides, and nothing is left to gain


@compiled
def exchange(
    p: Program, face: Face, a: Float, f: Float, status: Array, m: int, least: float, worthless: float, limit: int,
    idle: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Change after change. Returns the free variables, the changes, the verdict, and the changes since the last step.

    Step 1 of the textbook goes to the minimum over the free variables, which lose one at each bound that is in the
    way. Step 2 prices the others: the one that violates optimality most, by more than ``least``, becomes free. A step
    that gains no more than ``worthless`` counts as none.
    Sets: ``a, f, status``, the face.
    """
    changes, verdict, entered, retried = 0, GOING_ON, -1, False
    candidates, count = np.empty(CANDIDATES, dtype=np.int64), 0
    bring_up_to_date(p, face, m, a, f)
    while changes < limit:
        m, drops, stepped = _minimise_over_face(p, face, a, status, m, worthless, idle > IDLE_CHANGES)
        changes += drops
        idle = 0 if stepped else idle + drops
        if stepped:
            face.barred[:] = False
            retried = False
        elif entered >= 0 and status[entered] != FREE:  # it came and went: rounding, or others have to leave first
            face.barred[entered] = True
        v, slope, entered = -1, 0.0, -1
        if count and idle <= IDLE_CHANGES:
            v, slope = _price(p, face, a, f, status, candidates[:count], least)
        if v < 0:
            bring_up_to_date(p, face, m, a, f)
            _middle_of_empty_groups(p, face, a, f, status, m)
            count = _look_at_all(p, face, a, f, status, least, candidates, idle > IDLE_CHANGES)
            if count == 0 and face.barred.any() and not retried:  # others have left since they were barred, perhaps
                face.barred[:] = False
                retried = True
                continue
            if count == 0:
                verdict = OPTIMAL
                break
            v, slope = _price(p, face, a, f, status, candidates[:count], least)
        m, drops, stepped = _admit(p, face, a, status, m, v, slope, worthless)
        entered = v
        changes += 1 + drops
        if stepped:
            face.barred[:] = False
            retried = False
        idle = 0 if stepped else idle + 1 + drops
        if idle > MOST_IDLE * (m + IDLE_CHANGES):
            verdict = STUCK
            break
    bring_up_to_date(p, face, m, a, f)
    return m, changes, verdict, idle


@compiled
def _minimise_over_face(
    p: Program, face: Face, a: Float, status: Array, m: int, worthless: float, first_index: bool
) -> tuple[int, int, bool]:
    """To the minimum over the free variables; those at whose bound a step ends leave. Sets: ``a, status``, the face."""
    drops, stepped = 0, False
    while m > 0:
        newton_step(p, face, m)
        length, hit = 1.0, -1
        for i in range(m):
            v, x = face.free[i], face.step[i]
            room = np.inf
            if x > 0.0:
                room = (p.high[v] - a[v]) / x
            elif x < 0.0:
                room = (p.low[v] - a[v]) / x
            if room < length or (first_index and hit >= 0 and room == length and v < face.free[hit]):
                length, hit = room, i
        length = max(length, 0.0)
        gain = 0.0
        for i in range(m):
            gain += face.pull[i] * face.step[i]
        stepped = stepped or length * gain > worthless
        _move(p, face, a, m, length)
        for i in range(m):
            b = face.b[p.group[face.free[i]]] if p.totals.shape[0] > 0 else 0.0
            face.pull[i] -= length * (face.pull[i] - b)
        face.missing[:] *= 1.0 - length
        if hit < 0:
            break
        m = _drop(p, face, a, status, m, hit, face.step[hit] > 0.0)
        drops += 1
    return m, drops, stepped


@compiled
def newton_step(p: Program, face: Face, m: int) -> None:
    """The way to the minimum over the free variables, and the multipliers there. Sets: ``step, sums, b``."""
    groups = p.totals.shape[0]
    for i in range(m):
        face.step[i] = face.pull[i]
    solve_both(face.R, m, face.step)
    if groups == 0:
        return
    ahead = np.zeros(groups)
    for i in range(m):
        ahead[p.group[face.free[i]]] += face.step[i]
    _solve_for_groups(p, face, m)
    _multipliers(p, face, m, ahead - face.missing, face.b)
    for i in range(m):
        size = abs(face.step[i])
        for g in range(groups):
            face.step[i] -= face.b[g] * face.sums[g, i]
            size += abs(face.b[g] * face.sums[g, i])
        if abs(face.step[i]) <= ROUNDING_OF_STEPS * size:  # such as that of a variable that is alone in its group
            face.step[i] = 0.0


@compiled
def _solve_for_groups(p: Program, face: Face, m: int) -> None:
    """Sets: ``sums``."""
    for g in range(p.totals.shape[0]):
        for i in range(m):
            face.sums[g, i] = 1.0 if p.group[face.free[i]] == g else 0.0
        solve_both(face.R, m, face.sums[g])


@compiled
def _multipliers(p: Program, face: Face, m: int, wanted: Float, b: Float) -> None:
    """``b`` such that ``sum_g b_g M^-1 1_g`` has the wanted sums; groups without free variables keep theirs."""
    groups = p.totals.shape[0]
    A = np.zeros((groups, groups))
    for i in range(m):
        for g in range(groups):
            A[p.group[face.free[i]], g] += face.sums[g, i]
    if groups == 1:
        b[0] = wanted[0] / A[0, 0]
        return
    for g in range(groups):
        if A[g, g] == 0.0:  # no free variable in this group
            if A[1 - g, 1 - g] > 0.0:
                b[1 - g] = wanted[1 - g] / A[1 - g, 1 - g]
            return
    lower = A[1, 0] / A[0, 0]
    b[1] = (wanted[1] - lower * wanted[0]) / (A[1, 1] - lower * A[0, 1])
    b[0] = (wanted[0] - A[0, 1] * b[1]) / A[0, 0]


@compiled
def _move(p: Program, face: Face, a: Float, m: int, length: float) -> None:
    """Along the step, not beyond the box. Sets: ``a, moved``."""
    for i in range(m):
        v = face.free[i]
        target = min(max(a[v] + length * face.step[i], p.low[v]), p.high[v])
        face.moved[v] += target - a[v]
        a[v] = target


@compiled
def _drop(p: Program, face: Face, a: Float, status: Array, m: int, i: int, upwards: bool) -> int:
    """A free variable stays at its bound from now on; how many are left. Sets: ``a, status``, the face."""
    v = face.free[i]
    bound = p.high[v] if upwards else p.low[v]
    face.moved[v] += bound - a[v]
    a[v] = bound
    status[v] = HIGH if upwards else LOW
    return delete_at(face, m, i)


@compiled
def delete_at(face: Face, m: int, i: int) -> int:
    """One variable less in the face; how many are left. Sets: the face."""
    delete_row(face.R, m, i)
    for k in range(i, m - 1):
        face.free[k] = face.free[k + 1]
        face.pull[k] = face.pull[k + 1]
    return m - 1


@compiled
def _middle_of_empty_groups(p: Program, face: Face, a: Float, f: Float, status: Array, m: int) -> None:
    """Where no variable of a group is free, any multiplier between its two sides is right. Sets: ``b``.

    If the sides overlap, it is the end of the lower side, so that the end of the other one violates most.
    """
    for g in range(p.totals.shape[0]):
        found = False
        for i in range(m):
            found = found or p.group[face.free[i]] == g
        if found:
            continue
        highest, lowest = -np.inf, np.inf
        for v in range(a.shape[0]):
            if p.group[v] == g and p.low[v] < p.high[v]:
                e = p.q[v] - f[p.sample[v]] - p.D[v] * a[v]
                if status[v] == LOW:
                    highest = max(highest, e)
                else:
                    lowest = min(lowest, e)
        if highest > -np.inf and lowest < np.inf:
            face.b[g] = lowest if highest > lowest else 0.5 * (highest + lowest)
        elif highest > -np.inf or lowest < np.inf:
            face.b[g] = highest if highest > -np.inf else lowest


@inlined
def _violation(p: Program, face: Face, status: Array, v: int, e: float) -> float:
    """By how much a variable at a bound wants to leave it."""
    if status[v] == FREE or p.low[v] == p.high[v] or face.barred[v]:
        return -np.inf
    b = face.b[p.group[v]] if p.totals.shape[0] > 0 else 0.0
    return e - b if status[v] == LOW else b - e


@compiled
def _look_at_all(
    p: Program, face: Face, a: Float, f: Float, status: Array, least: float, candidates: Index, first_index: bool
) -> int:
    """Candidates: variables that violate optimality nearly as much as the worst, or the first one. Sets: them."""
    worst, size = least, a.shape[0]
    for v in range(size):
        amount = _violation(p, face, status, v, p.q[v] - f[p.sample[v]] - p.D[v] * a[v])
        if first_index and amount > least:
            candidates[0] = v
            return 1
        worst = max(worst, amount)
    if worst <= least:
        return 0
    count, enough = 0, PROMISING * worst
    for v in range(size):
        amount = _violation(p, face, status, v, p.q[v] - f[p.sample[v]] - p.D[v] * a[v])
        if amount >= worst:  # is always there
            candidates[min(count, candidates.shape[0] - 1)] = v
            count = min(count + 1, candidates.shape[0])
        elif amount > max(enough, least) and count < candidates.shape[0] - 1:
            candidates[count] = v
            count += 1
    return count


@compiled
def _price(
    p: Program, face: Face, a: Float, f: Float, status: Array, candidates: Index, least: float
) -> tuple[int, float]:
    """The candidate that violates optimality most, with its slope; -1 if none does. Its score is brought up to date."""
    rows = np.flatnonzero(face.moved)
    best, where, slope = least, -1, 0.0
    for v in candidates:
        source, score = p.K[p.sample[v]], f[p.sample[v]]
        for u in rows:
            score += face.moved[u] * source[p.sample[u]]
        e = p.q[v] - score - p.D[v] * a[v]
        amount = _violation(p, face, status, v, e)
        if amount > best:
            best, where, slope = amount, v, e
    return where, slope


@compiled
def _admit(
    p: Program, face: Face, a: Float, status: Array, m: int, v: int, slope: float, worthless: float
) -> tuple[int, int, bool]:
    """Make a variable free, if the matrix of the free ones stays regular.

    Otherwise it moves along the direction in which nothing is curved, together with the free ones on which it depends,
    until one of them, or it, meets a bound. Sets: ``a, status``, the face.
    """
    drops, stepped = 0, False
    while True:
        diagonal = entry(p, v, v)
        for i in range(m):
            face.column[i] = entry(p, face.free[i], v)
        pivot = pivot_of(face.R, m, face.column, diagonal)
        regular = pivot > DEPENDENT * abs(diagonal)
        if not regular:
            rise, curvature = _flat_direction(p, face, m, v, slope)
            if curvature < -NEGATIVE * abs(diagonal):
                face.least_curvature[0] = min(face.least_curvature[0], curvature / abs(diagonal))
            upwards = rise > 0.0
            if (status[v] == LOW and not upwards) or (status[v] == HIGH and upwards):
                face.barred[v] = True
                return m, drops, stepped
            length, hit = _room(p, face, a, m, v, upwards)
            regular = pivot > NOTHING_LEFT * abs(diagonal) and abs(rise) < curvature * length
        if regular:
            append_row(face.R, m, face.column, pivot)
            face.free[m], face.pull[m] = v, slope
            status[v] = FREE
            return m + 1, drops, stepped
        if length == np.inf:  # only rounding can say so
            face.barred[v] = True
            return m, drops, stepped
        stepped = stepped or length * abs(rise) > worthless
        sign = 1.0 if upwards else -1.0
        _move(p, face, a, m, sign * length)
        target = min(max(a[v] + sign * length, p.low[v]), p.high[v])
        if hit < 0:
            target = p.high[v] if upwards else p.low[v]
            status[v] = HIGH if upwards else LOW
        face.moved[v] += target - a[v]
        a[v] = target
        if hit < 0:
            return m, drops, stepped
        m = _drop(p, face, a, status, m, hit, sign * face.step[hit] > 0.0)
        drops += 1


@compiled
def _flat_direction(p: Program, face: Face, m: int, v: int, slope: float) -> tuple[float, float]:
    """How fast the objective falls, and its curvature, if a variable rises by 1 and the free ones make up for it.

    The sums stay what they are. On entry ``column`` is that of `pivot_of`. Sets: ``step``, of the free variables.
    """
    groups = p.totals.shape[0]
    for i in range(m):
        face.step[i] = face.column[i]
    solve_triangle(face.R, m, face.step)
    shift = np.zeros(groups)
    if groups > 0:
        sums = np.zeros(groups)
        for i in range(m):
            sums[p.group[face.free[i]]] += face.step[i]
        sums[p.group[v]] -= 1.0
        _solve_for_groups(p, face, m)
        _multipliers(p, face, m, sums, shift)
    rise, curvature = slope, entry(p, v, v) - (shift[p.group[v]] if groups > 0 else 0.0)
    for i in range(m):
        x = -face.step[i]
        for g in range(groups):
            x += shift[g] * face.sums[g, i]
        face.step[i] = x
        rise += face.pull[i] * x
        curvature += x * entry(p, face.free[i], v)
    return rise, curvature


@compiled
def _room(p: Program, face: Face, a: Float, m: int, v: int, upwards: bool) -> tuple[float, int]:
    """How far a variable and the free ones can go along a direction, and which free one is in the way, or -1."""
    sign = 1.0 if upwards else -1.0
    length, hit = (p.high[v] - a[v] if upwards else a[v] - p.low[v]), -1
    for i in range(m):
        u, x = face.free[i], sign * face.step[i]
        room = np.inf
        if x > 1e-12:
            room = (p.high[u] - a[u]) / x
        elif x < -1e-12:
            room = (p.low[u] - a[u]) / x
        if room < length:
            length, hit = room, i
    return max(length, 0.0), hit


@compiled
def admit_all(p: Program, face: Face, a: Float, f: Float, status: Array, members: Index) -> int:
    """Make variables free one by one, from none; those that depend on others go to a bound. Sets: ``a, f, status``."""
    m = 0
    for v in members:
        status[v] = FREE  # inside of its box: it may go either way
        bring_up_to_date(p, face, m, a, f)
        if p.low[v] < a[v] < p.high[v]:
            m, _, _ = _admit(p, face, a, status, m, v, p.q[v] - f[p.sample[v]] - p.D[v] * a[v], 0.0)
        else:
            status[v] = HIGH if a[v] >= p.high[v] else LOW
    return m
