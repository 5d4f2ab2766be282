"""Block after block of variables of a program whose kernel matrix is stored whole, in one compiled call.

Each block has its free variables of the last one and those that violate optimality most, and is solved pair by pair.
"""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled, inlined
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.block_loops import CHUNK, gap_at, order, pair_steps

GROWING_BLOCKS = 12  # after so many blocks the size doubles: many free variables need large blocks
ROUND_WORK = 30_000_000  # kernel values that are read in a round: some tens of milliseconds
INNER_SHARE = 0.3  # of the violation at which a block's own problem counts as solved
PRECISION = 1e-14  # of the gradient, relative to its size: no step is worth less
FLAT = 1e-12  # of the largest diagonal entry: a pair with less curvature counts as flat
FAR = 1e30  # stands for infinity where a variable cannot move


@compiled
def solve_blocks(
    K: Float, sample: Index, q: Float, D: Float, low: Float, high: Float, group: Index, groups: int, totals: Float,
    a: Float, f: Float, last: Array, aim: float, size: int, largest: int, blocks: int, steps: int, limit: int,
) -> tuple[int, int, int, float, float, bool]:  # fmt: skip
    """Block after block. Returns their number, the next size, the steps, primal and dual value, and whether it stands.

    Sets: ``a, f, last``.
    """
    m, work, last_block = a.shape[0], 0, blocks + limit
    slope_size, diagonal = 0.0, 0.0
    for v in range(m):
        slope_size = max(slope_size, abs(q[v]))
        diagonal = max(diagonal, K[sample[v], sample[v]] + D[v])
    while True:
        e, up, down = order(a, f, sample, q, D, low, high, group, groups)
        middle, violation = np.zeros(max(groups, 1)), 0.0
        for g in range(max(groups, 1)):
            if groups:
                violation = max(violation, up[g] - down[g])
                middle[g] = 0.5 * (up[g] + down[g]) if up[g] > -np.inf and down[g] < np.inf else 0.0
            else:
                violation = max(up[g], -down[g])
        primal, dual, gap = values_at(a, e, q, D, low, high, group, groups, middle, totals)
        rest = violation <= PRECISION * max(slope_size, np.abs(f).max())
        if gap <= aim * max(abs(primal), abs(dual)) or rest or blocks >= last_block or work >= ROUND_WORK:
            return blocks, size, steps, primal, dual, rest
        block = _chosen(a, e, low, high, group, groups, middle, last, min(size, m))
        flat = FLAT * diagonal if diagonal > 0.0 else FLAT
        moved = _solve_block(K, sample, D, low, high, group, groups, block, e, middle, a, f, violation, flat)
        if moved == 0:  # the worst pair is in the block, and nothing is gained by moving it
            return blocks, size, steps, primal, dual, True
        steps += moved
        blocks += 1
        work += (K.shape[0] + moved) * block.shape[0]
        if blocks % GROWING_BLOCKS == 0:
            size = min(2 * size, largest)


@compiled
def values_at(
    a: Float, e: Float, q: Float, D: Float, low: Float, high: Float, group: Index, groups: int, middle: Float,
    totals: Float,
) -> tuple[float, float, float]:  # fmt: skip
    """Primal value, dual value and gap, at the middle of the ends or the mean of free variables. Sets: ``middle``."""
    gap, dual = gap_at(a, e, low, high, D, group if groups > 1 else np.zeros_like(group), middle), 0.0
    sums, counts = np.zeros(middle.shape[0]), np.zeros(middle.shape[0])
    for v in range(a.shape[0]):
        dual += 0.5 * a[v] * (q[v] + e[v])
        if groups and low[v] < a[v] < high[v]:
            g = group[v] if groups > 1 else 0
            sums[g] += e[v]
            counts[g] += 1.0
    if counts.any():
        means = np.where(counts > 0.0, sums / np.maximum(counts, 1.0), middle)
        other = gap_at(a, e, low, high, D, group if groups > 1 else np.zeros_like(group), means)
        if other < gap:
            gap = other
            middle[:] = means
    return dual + gap, dual, gap


@compiled
def _chosen(
    a: Float, e: Float, low: Float, high: Float, group: Index, groups: int, middle: Float, last: Array, size: int
) -> Index:
    """The variables of the next block, in the order of their groups. Sets: ``last``."""
    m, parts = a.shape[0], max(groups, 1)
    taken = np.zeros(m, dtype=np.bool_)
    if size >= m:
        taken[:] = True
    else:
        kept = 0
        for v in range(m):
            if last[v] and low[v] < a[v] < high[v] and kept < size // 2:
                taken[v] = True
                kept += 1
        share, pull = max(1, (size - kept) // (2 * parts)), np.empty(m)
        for side in range(2 * parts):
            g, sign = side // 2, 1.0 - 2.0 * (side % 2)
            for v in range(m):
                can = a[v] < high[v] if sign > 0.0 else a[v] > low[v]
                own = groups < 2 or group[v] == g
                pull[v] = sign * (e[v] - middle[g]) if can and own and not taken[v] else -np.inf
            _take_largest(pull, share, taken)
        for g in range(parts):  # the pair that violates optimality most is always there
            _take_ends(a, e, low, high, group, groups, g, taken)
    last[:] = taken
    block = np.flatnonzero(taken)
    return block[np.argsort(group[block], kind="mergesort")] if groups > 1 else block


@inlined
def _take_ends(a: Float, e: Float, low: Float, high: Float, group: Index, groups: int, g: int, taken: Array) -> None:
    """Take the variable of a group that wants to rise most, and the one that wants to fall most. Sets: ``taken``."""
    highest, lowest = -1, -1
    for v in range(a.shape[0]):
        if groups < 2 or group[v] == g:
            if a[v] < high[v] and (highest < 0 or e[v] > e[highest]):
                highest = v
            if a[v] > low[v] and (lowest < 0 or e[v] < e[lowest]):
                lowest = v
    if highest >= 0:
        taken[highest] = True
    if lowest >= 0:
        taken[lowest] = True


@compiled
def _take_largest(pull: Float, count: int, taken: Array) -> None:
    """Take those with the largest pulls, if these are positive. Sets: ``taken``."""
    # They are in a heap, with the smallest on top.
    heap, where = np.zeros(count), np.full(count, -1)
    for v in range(pull.shape[0]):
        if pull[v] <= heap[0]:
            continue
        place, child = 0, 1
        while child < count:
            if child + 1 < count and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= pull[v]:
                break
            heap[place], where[place] = heap[child], where[child]
            place, child = child, 2 * child + 1
        heap[place], where[place] = pull[v], v
    for v in where:
        if v >= 0:
            taken[v] = True


@compiled
def _solve_block(
    K: Float, sample: Index, D: Float, low: Float, high: Float, group: Index, groups: int, block: Index, e: Float,
    middle: Float, a: Float, f: Float, violation: float, flat: float,
) -> int:  # fmt: skip
    """Minimise over the variables of a block; the number of steps. Sets: ``a, f``."""
    parts, q = max(groups, 1), block.shape[0]
    chunks, place, next_one = np.zeros(parts + 1, dtype=np.int64), np.empty(q, dtype=np.int64), 0
    for g in range(parts):
        at = CHUNK * chunks[g]
        while next_one < q and (groups < 2 or group[block[next_one]] == g):
            place[next_one] = at
            at += 1
            next_one += 1
        chunks[g + 1] = -(-at // CHUNK)  # a group fills whole chunks
    width = CHUNK * chunks[parts]
    Q, g_, own, least, most = (
        np.zeros((width, width)),
        np.zeros(width),
        np.zeros(width),
        np.zeros(width),
        np.zeros(width),
    )
    closed_up, closed_down, diagonal = np.full(width, -FAR), np.full(width, FAR), np.zeros(width)
    for i in range(q):
        v, to = block[i], place[i]
        row, target = K[sample[v]], Q[to]
        for j in range(q):
            target[place[j]] = row[sample[block[j]]]
        target[to] += D[v]
        diagonal[to] = target[to]
        g_[to] = e[v] - middle[group[v] if groups > 1 else 0]
        own[to], least[to], most[to] = a[v], low[v], high[v]
        if a[v] < high[v]:
            closed_up[to] = 0.0
        if a[v] > low[v]:
            closed_down[to] = 0.0
    steps = pair_steps(
        Q, g_, own, least, most, closed_up, closed_down, diagonal, np.empty(width), np.zeros(width),
        np.empty((2, width // CHUNK)), chunks, groups, INNER_SHARE * violation, 50 * q, flat, FAR,
    )  # fmt: skip
    for i in range(q):
        v, change = block[i], own[place[i]] - a[block[i]]
        if change != 0.0:
            a[v] = own[place[i]]
            row = K[sample[v]]
            for k in range(f.shape[0]):
                f[k] += change * row[k]
    return steps
