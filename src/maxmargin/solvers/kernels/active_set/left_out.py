"""Every sample left out once, exactly, from one solution.

One factorisation gives the tableau of principal pivots of the optimality conditions: how free variables and the slopes
of the others answer to changes of each other. To leave a sample out is then a small problem of the active-set kind: its
variable is sent to zero, and only the few variables that change sides for it appear in the equations.

Reference: Cauwenberghs and Poggio, "Incremental and decremental support vector machine learning", NIPS 2000; block
principal pivoting as of Portugal, Judice, Vicente, Math. Comp. 1994.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.active_set.face import FREE, HIGH, LOW, Program, gather
from maxmargin.solvers.kernels.active_set.path import multiplier_at
from maxmargin.solvers.kernels.active_set.state import ActiveSetState

MOST_CHANGES = 300  # of the partition for one sample; with more it is solved anew
MOST_ROUNDS = 300
PATIENCE = 5  # rounds in which the number of changes does not fall; then one change at a time, which cannot cycle
SMALLEST_PIVOT = 1e-10
SLOPE_ROUNDING, BOX_ROUNDING = 1e-9, 1e-11  # what is no violation; the latter of the largest bound
STAYS, TO_LOW, TO_HIGH, TO_FREE = 0, 1, 2, 3  # what a row in the wrong place is to do
OUTSIDE, SKIPPED = -1, -2  # of the small problem; a skipped row depends on the free ones


class Tableau(NamedTuple):
    """The conditions in the order of basic rows (the multiplier, if there is one, and free variables) and others.

    ``G = [[R, T], [T^T, S]]`` with the inverse ``R`` of the basic matrix, ``T = R B`` and ``S = K_NN - B^T T``.
    """

    G: Float
    basic: int
    multipliers: int
    at: Float  # the value of the multiplier and of each variable
    pull: Float  # minus the gradient less the multiplier: zero in basic rows
    low: Float
    high: Float
    status: Array
    twin: Index  # the other variable of the same sample, or -1


def slopes_without(state: ActiveSetState) -> Float:
    """For each variable, minus its gradient less the multiplier in the solution without its sample.

    NaN where that was not found in this way. The state is at the optimum and has a factor of its free variables; at
    most one group has a fixed sum.
    """
    p = state.program
    if state.m == 0 and p.totals.size:  # no free variable tells the multiplier
        e = p.q - state.f[p.sample] - p.D * state.a
        known = e - multiplier_at(p, state.face_of_free(), state.status, 0, e)
        has_part = np.bincount(p.sample, weights=np.abs(state.a), minlength=p.K.shape[0])[p.sample] > 0.0
        return np.where(has_part, np.nan, known)
    tableau, order = _tableau(state)
    out = np.empty(tableau.at.size)
    _leave_out_each(tableau, out)
    slopes = np.empty(order.size)
    slopes[order] = out[tableau.multipliers :]
    return slopes


def _tableau(state: ActiveSetState) -> tuple[Tableau, Index]:
    """The tableau of a solution, and the order of its variables."""
    p, face, m = state.program, state.face_of_free(), state.m
    free = np.sort(face.free[:m])
    rest = np.setdiff1d(np.arange(state.a.size), free)
    order, groups = np.concatenate([free, rest]), p.totals.size
    R = _inverse(p, free)
    basic = m + groups
    B = np.ones((basic, rest.size))
    B[groups:] = p.K[np.ix_(p.sample[free], p.sample[rest])]
    T = R @ B
    S = p.K[np.ix_(p.sample[rest], p.sample[rest])] - B.T @ T
    S[np.diag_indices_from(S)] += p.D[rest]
    e = p.q - state.f[p.sample] - p.D * state.a
    b = multiplier_at(p, face, state.status, m, e)
    slope = np.where(state.status == FREE, 0.0, e - b)
    ahead = np.full(groups, b)

    def ordered(values: Float, first: float) -> Float:
        return np.concatenate([np.full(groups, first), values[order]])

    tableau = Tableau(
        np.block([[R, T], [T.T, S]]), basic, groups, np.concatenate([ahead, state.a[order]]), ordered(slope, 0.0),
        ordered(p.low, -np.inf), ordered(p.high, np.inf),
        np.concatenate([np.full(groups, FREE, dtype=np.int8), state.status[order]]), _twins(p, order, groups),
    )  # fmt: skip
    return tableau, order


def _inverse(p: Program, free: Index) -> Float:
    """Of the matrix of the free variables, bordered if their sum is fixed."""
    M = np.zeros((free.size, free.size))
    gather(p, free, M)
    inverse, _ = dpotri(cholesky(M, lower=False), lower=0)
    inverse = np.triu(inverse) + np.triu(inverse, 1).T
    if not p.totals.size:
        return inverse
    sums = inverse.sum(axis=1)
    total = sums.sum()
    R = np.empty((free.size + 1, free.size + 1))
    R[0, 0] = p.ridge - 1.0 / total
    R[0, 1:] = R[1:, 0] = sums / total
    R[1:, 1:] = inverse - np.outer(sums, sums) / total
    return R


def _twins(p: Program, order: Index, groups: int) -> Index:
    """Of the rows of the tableau."""
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size) + groups
    twin, first = np.full(order.size + groups, -1), np.full(p.K.shape[0], -1)
    for v, sample in enumerate(p.sample.tolist()):
        if first[sample] < 0:
            first[sample] = v
        else:
            twin[place[v]], twin[place[first[sample]]] = place[first[sample]], place[v]
    return twin


@compiled
def _leave_out_each(t: Tableau, out: Float) -> None:
    """Sets: ``out``, the slope of each row when it, and its twin, are zero."""
    size = t.at.shape[0]
    A, r = np.empty((MOST_CHANGES, MOST_CHANGES)), np.empty(MOST_CHANGES)
    changed, target = np.empty(MOST_CHANGES, dtype=np.int64), np.empty(MOST_CHANGES)
    place, new = np.full(size, OUTSIDE), np.empty(size)
    wrong, what = np.empty(2 * size, dtype=np.int64), np.empty(2 * size, dtype=np.int64)
    largest = 0.0
    for v in range(t.multipliers, size):
        largest = max(largest, abs(t.at[v]))
    out[: t.multipliers] = 0.0
    for i in range(t.multipliers, size):
        if t.at[i] == 0.0:
            out[i] = t.pull[i]
        else:
            out[i] = _leave_out(t, i, A, r, changed, target, place, new, wrong, what, BOX_ROUNDING * largest)
    for i in range(t.multipliers, size):  # the twin of a row with a part knows nothing
        j = t.twin[i]
        if j >= 0 and t.at[i] == 0.0 and t.at[j] != 0.0:
            out[i] = np.nan


@compiled
def _leave_out(
    t: Tableau, i: int, A: Float, r: Float, changed: Index, target: Float, place: Index, new: Float, wrong: Index,
    what: Index, box: float,
) -> float:  # fmt: skip
    """The slope of row ``i`` when it is zero and all others are optimal; NaN if that was not found."""
    changed[0], target[0], place[i], k = i, 0.0, 0, 1
    best, patience, found = t.at.shape[0], PATIENCE, np.nan
    for _ in range(MOST_ROUNDS):
        _equations(t, i, A, r, changed, target, k)
        solved = _eliminate(A, r, k)
        if solved < k:
            if changed[solved] < t.basic:
                break
            place[changed[solved]] = SKIPPED  # it depends on the free ones
            k = _take_out(changed, target, place, k, solved)
            continue
        _answer(t, r, changed, k, new)
        bad = _misplaced(t, i, r, changed, target, k, place, new, wrong, what, box)
        if bad == 0:
            found = r[0] if i < t.basic else new[i]
            break
        if bad < best:
            best, patience = bad, PATIENCE
        else:
            patience -= 1
        if patience < 0:
            last = np.argmax(wrong[:bad])
            wrong[0], what[0], bad = wrong[last], what[last], 1
        k = _rearrange(t, changed, target, place, k, wrong, what, bad)
        if k < 0:
            break
    place[:] = OUTSIDE
    return found


@compiled
def _equations(t: Tableau, i: int, A: Float, r: Float, changed: Index, target: Float, k: int) -> None:
    """Basic rows are to have their target and get a slope, others are to have the slope 0 and get a value."""
    for c in range(k):
        d = changed[c]
        if d == i and d >= t.basic:  # its value is known to become 0
            A[c, :k] = 0.0
            A[c, c], r[c] = 1.0, -t.at[i]
            continue
        for q in range(k):
            g = t.G[d, changed[q]]
            A[c, q] = -g if d >= t.basic and changed[q] >= t.basic else g
        r[c] = t.at[d] - target[c] if d < t.basic else -t.pull[d]


@compiled
def _eliminate(A: Float, r: Float, k: int) -> int:
    """Solve a small quasi-definite system by diagonal pivots. Returns ``k``, or the row whose pivot vanishes."""
    for c in range(k):
        pivot = A[c, c]
        if abs(pivot) < SMALLEST_PIVOT:
            return c
        for i in range(c + 1, k):
            factor = A[i, c] / pivot
            if factor != 0.0:
                for j in range(c + 1, k):
                    A[i, j] -= factor * A[c, j]
                r[i] -= factor * r[c]
    for c in range(k - 1, -1, -1):
        for j in range(c + 1, k):
            r[c] -= A[c, j] * r[j]
        r[c] /= A[c, c]
    return k


@compiled
def _answer(t: Tableau, r: Float, changed: Index, k: int, new: Float) -> None:
    """The values of basic rows and the slopes of others. Sets: ``new``."""
    for v in range(new.shape[0]):
        new[v] = t.at[v] if v < t.basic else t.pull[v]
    for c in range(k):
        x, row = r[c], t.G[changed[c]]
        sign = x if changed[c] < t.basic else -x
        for v in range(t.basic):
            new[v] -= x * row[v]
        for v in range(t.basic, new.shape[0]):
            new[v] += sign * row[v]


@compiled
def _misplaced(
    t: Tableau, i: int, r: Float, changed: Index, target: Float, k: int, place: Index, new: Float, wrong: Index,
    what: Index, box: float,
) -> int:  # fmt: skip
    """How many rows are on the wrong side. Sets: ``wrong, what``."""
    bad = 0
    for c in range(k):
        d, x = changed[c], r[c]
        if d == i:
            continue
        if d < t.basic:
            fits = x >= -SLOPE_ROUNDING if target[c] == t.high[d] else x <= SLOPE_ROUNDING
        else:
            fits = t.low[d] - box <= t.at[d] + x <= t.high[d] + box
        if not fits:
            wrong[bad], what[bad] = d, STAYS
            bad += 1
    for v in range(t.multipliers, t.basic):
        if place[v] == OUTSIDE and not t.low[v] - box <= new[v] <= t.high[v] + box:
            wrong[bad], what[bad] = v, TO_LOW if new[v] < t.low[v] else TO_HIGH
            bad += 1
    for v in range(t.basic, new.shape[0]):
        if v == t.twin[i] or t.low[v] == t.high[v] or place[v] >= 0 or (place[v] == SKIPPED and abs(new[v]) < 1e-7):
            continue
        if (t.status[v] == LOW and new[v] > SLOPE_ROUNDING) or (t.status[v] == HIGH and new[v] < -SLOPE_ROUNDING):
            wrong[bad], what[bad] = v, TO_FREE
            bad += 1
    return bad


@compiled
def _take_out(changed: Index, target: Float, place: Index, k: int, c: int) -> int:
    """One row less in the small problem. Sets: ``changed, target, place``."""
    if place[changed[c]] >= 0:
        place[changed[c]] = OUTSIDE
    k -= 1
    if c != k:
        changed[c], target[c] = changed[k], target[k]
        place[changed[c]] = c
    return k


@compiled
def _rearrange(
    t: Tableau, changed: Index, target: Float, place: Index, k: int, wrong: Index, what: Index, bad: int
) -> int:
    """Put rows where they belong; the size of the small problem, -1 if it is too large. Sets: the problem."""
    for j in range(bad):
        v = wrong[j]
        if what[j] == STAYS:
            k = _take_out(changed, target, place, k, place[v])
        elif k == MOST_CHANGES:
            return -1
        else:
            changed[k], place[v] = v, k
            target[k] = t.low[v] if what[j] == TO_LOW else t.high[v]
            k += 1
    return k
