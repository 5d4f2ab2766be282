"""The compiled loops of methods that solve blocks of variables, pair by pair.

A block's own arrays are in the precision of its kernel rows, float32 or float64, and padded so that each group of
variables fills whole chunks. Scalars that meet them, such as ``far``, have the same precision.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled, compiled_in_place, larger, smaller
from maxmargin.problems.box_qp import response
from maxmargin.protocols import Array, Float, Index

CHUNK = 64  # variables of a block are scanned in chunks of this size, so that the search for an index is short


@compiled
def order(
    a: Float, f: Float, column: Index, q: Float, D: Float, low: Float, high: Float, group: Index, groups: int
) -> tuple[Float, Float, Float]:
    """Minus the gradient, and per group its largest value where a variable may rise and smallest where it may fall."""
    e = np.empty(a.shape[0])
    up, down = np.full(max(groups, 1), -np.inf), np.full(max(groups, 1), np.inf)
    for v in range(a.shape[0]):
        e[v] = q[v] - D[v] * a[v] - f[column[v]]
        g = group[v] if groups > 1 else 0
        if a[v] < high[v] and e[v] > up[g]:
            up[g] = e[v]
        if a[v] > low[v] and e[v] < down[g]:
            down[g] = e[v]
    return e, up, down


@compiled
def gap_at(a: Float, e: Float, low: Float, high: Float, D: Float, group: Index, b: Float) -> float:
    """What variables add to the duality gap at the multipliers ``b``: exactly nothing if they are the best response."""
    gap = 0.0
    for v in range(a.shape[0]):
        r = e[v] + D[v] * a[v] - b[group[v]]  # q - f - b
        best = response(r, low[v], high[v], D[v])
        if best != a[v]:
            gap += (best - a[v]) * r
            if D[v] > 0.0:  # the box may be infinite otherwise
                gap -= 0.5 * D[v] * (best - a[v]) * (best + a[v])
    return gap


@compiled
def gap_near(
    a: Float, e: Float, low: Float, high: Float, D: Float, group: Index, b: Float
) -> tuple[Float, Float, Float, Float]:
    """The first and second derivatives of `gap_at` by the multipliers, and how far these may fall and rise.

    So far both hold: no best response of a variable meets a bound or leaves one.
    """
    groups = b.shape[0]
    slope, curvature = np.zeros(groups), np.zeros(groups)
    fall, rise = np.full(groups, np.inf), np.full(groups, np.inf)
    for v in range(a.shape[0]):
        g = group[v]
        r = e[v] + D[v] * a[v] - b[g]
        best = response(r, low[v], high[v], D[v])
        if math.isinf(best):  # the gap is infinite and has no slope
            fall[g], rise[g] = 0.0, 0.0
            continue
        slope[g] -= best - a[v]
        if low[v] == high[v]:
            continue
        at_low, at_high = r, r  # what would pull the variable away from either bound
        if D[v] > 0.0:
            at_low, at_high = r - D[v] * low[v], r - D[v] * high[v]
            if at_low > 0.0 and at_high < 0.0:
                curvature[g] += 1.0 / D[v]
        for pull in (at_low, at_high):
            if pull >= 0.0:
                rise[g] = min(rise[g], pull)
            if pull <= 0.0:
                fall[g] = min(fall[g], -pull)
    return slope, curvature, fall, rise


@compiled
def settled(a: Float, e: Float, low: Float, high: Float, group: Index, up: Float, down: Float) -> Array:
    """Whether each variable is at a bound and pushed against it by more than any variable that can move."""
    out = np.empty(a.shape[0], dtype=np.bool_)
    for v in range(a.shape[0]):
        g = group[v] if up.shape[0] > 1 else 0
        stays_low = a[v] <= low[v] and e[v] < min(down[g], up[g])
        stays_high = a[v] >= high[v] and e[v] > max(up[g], down[g])
        out[v] = stays_low or stays_high or low[v] == high[v]
    return out


@compiled
def gather(rows: Array, slots: Index, columns: Index, D: Float, place: Index, new: Index, K: Array) -> None:
    """The rows of a block's matrix that are new, each variable at its place. Sets: ``K``."""
    for i in new:
        source, target = rows[slots[i]], K[place[i]]
        for j in range(slots.shape[0]):
            target[place[j]] = source[columns[j]]
        target[place[i]] += D[i]


@compiled
def copy_block(last: Array, known: Index, old: Index, new: Index, place: Index, K: Array) -> None:
    """The other rows, from the last block's matrix and by symmetry. Sets: ``K``.

    Reading a few columns of a stored row would bring most of it from memory.
    """
    for i in old:
        source, target = last[known[i]], K[place[i]]
        for k in old:
            target[place[k]] = source[known[k]]
        for k in new:
            target[place[k]] = K[place[k], place[i]]


@compiled_in_place
def pair_steps(
    K: Array, g: Array, a: Float, low: Float, high: Float, closed_up: Array, closed_down: Array, diagonal: Array,
    gain: Array, nothing: Array, ends: Array, chunks: Index, groups: int, tolerance: float, limit: int, flat: float,
    far: float,
) -> int:  # fmt: skip
    """Steps on pairs (single variables without groups) until the block is optimal. Sets: ``a, g``.

    ``g`` is minus the gradient, in the precision of ``K``; the variables themselves are float64. ``closed_up`` is
    hugely negative where a variable cannot rise and ``closed_down`` hugely positive where it cannot fall, so that the
    scans need no branches. ``nothing`` is a row of zeros; ``gain`` and ``ends`` are memory to work in.
    """
    zero = far - far
    top, bottom = ends[0], ends[1]
    _move(g, nothing, nothing, zero, closed_up, closed_down, top, bottom, far)
    for step in range(limit):
        against = nothing
        if groups == 0:
            i = _worst_single(g, closed_up, closed_down, tolerance)
            if i < 0:
                return step
            change = min(max(np.float64(g[i] / larger(diagonal[i], flat)), low[i] - a[i]), high[i] - a[i])
        else:
            i, group = _first_of_pair(g, closed_up, top, bottom, chunks, groups, tolerance, far)
            if i < 0:
                return step
            first, last = chunks[group], chunks[group + 1]
            j = _best_partner(g, K[i], g[i], diagonal[i], diagonal, closed_down, first, last, flat, gain)
            if j < 0:
                return step
            against = K[j]
            curvature = larger(diagonal[i] + diagonal[j] - (against[i] + against[i]), flat)
            change = min(np.float64((g[i] - g[j]) / curvature), min(high[i] - a[i], a[j] - low[j]))
            a[j] = low[j] if change >= a[j] - low[j] else a[j] - change
            closed_up[j] = zero
            closed_down[j] = zero if a[j] > low[j] else far
        target = a[i] + change
        a[i] = high[i] if change >= high[i] - a[i] else (low[i] if change <= low[i] - a[i] else target)
        closed_up[i] = zero if a[i] < high[i] else -far
        closed_down[i] = zero if a[i] > low[i] else far
        _move(g, K[i], against, g.dtype.type(change), closed_up, closed_down, top, bottom, far)
    return limit


@compiled_in_place
def _first_of_pair(
    g: Array, closed_up: Array, top: Array, bottom: Array, chunks: Index, groups: int, tolerance: float, far: float
) -> tuple[int, int]:
    """The variable that wants to rise most, in the group whose ends are farthest apart, and the group; or -1."""
    group, chunk, worst = 0, 0, -far
    for k in range(groups):
        highest, lowest, where = -far, far, 0
        for c in range(chunks[k], chunks[k + 1]):
            if top[c] > highest:
                highest, where = top[c], c
            lowest = smaller(lowest, bottom[c])
        if highest - lowest > worst:
            group, chunk, worst = k, where, highest - lowest
    if worst <= tolerance:
        return -1, group
    i, end = CHUNK * chunk, CHUNK * chunk + CHUNK
    for t in range(i, end):
        if g[t] + closed_up[t] >= top[chunk]:
            return t, group
    for t in range(i + 1, end):  # sums may be rounded in another way where they are formed in vectors
        if g[t] + closed_up[t] > g[i] + closed_up[i]:
            i = t
    return i, group


@compiled_in_place
def _move(
    g: Array, row: Array, against: Array, move: float, closed_up: Array, closed_down: Array, top: Array, bottom: Array,
    far: float,
) -> None:  # fmt: skip
    """``g -= move (row - against)`` and, per chunk, its ends. Sets: ``g, top, bottom``."""
    for c in range(top.shape[0]):
        some = slice(CHUNK * c, CHUNK * c + CHUNK)  # of which every loop begins at 0: only such become vector code
        own, plus, minus, up, down = g[some], row[some], against[some], closed_up[some], closed_down[some]
        highest, lowest = -far, far
        for t in range(own.shape[0]):
            value = own[t] - move * (plus[t] - minus[t])
            own[t] = value
            highest = larger(highest, value + up[t])
            lowest = smaller(lowest, value + down[t])
        top[c], bottom[c] = highest, lowest


@compiled_in_place
def _best_partner(
    g: Array, row: Array, g_i: float, diagonal_i: float, diagonal: Array, closed_down: Array, first: int, last: int,
    flat: float, gain: Array,
) -> int:  # fmt: skip
    """The variable that, moved against the chosen one, lowers the objective most; -1 if none does. Sets: ``gain``."""
    zero = g_i - g_i
    best, where = zero, -1
    for c in range(first, last):
        some, most = slice(CHUNK * c, CHUNK * c + CHUNK), zero
        own, down, squares, products, gains = g[some], closed_down[some], diagonal[some], row[some], gain[some]
        for t in range(own.shape[0]):
            difference = larger(g_i - (own[t] + down[t]), zero)
            curvature = larger(diagonal_i + squares[t] - (products[t] + products[t]), flat)
            value = difference * difference / curvature
            gains[t] = value
            most = larger(most, value)
        if most > best:
            best, where = most, c
    if where < 0:
        return -1
    j, end = CHUNK * where, CHUNK * where + CHUNK
    for t in range(j, end):
        if gain[t] >= best:
            return t
    for t in range(j + 1, end):
        if gain[t] > gain[j]:
            j = t
    return j


@compiled_in_place
def _worst_single(g: Array, closed_up: Array, closed_down: Array, tolerance: float) -> int:
    """The variable that violates optimality most; -1 if all are optimal."""
    worst, where = tolerance, -1
    for t in range(g.shape[0]):
        amount = larger(g[t] + closed_up[t], -(g[t] + closed_down[t]))
        if amount > worst:
            worst, where = amount, t
    return where
