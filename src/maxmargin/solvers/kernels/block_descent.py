"""The compiled loops of block SMO: variables that violate optimality most are taken together and solved by pairs.

They serve `BlockSMO`, and the call that solves all small problems of a fit at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.problems.programs import Program, best_multipliers
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.block_loops import CHUNK, pair_steps

FIRST_BLOCK = 64  # variables
WHOLE = 128  # variables: so few are one block
GROWING_BLOCKS = 8  # after so many blocks the size doubles: many free variables need large blocks
INNER_SHARE = 0.3  # of the violation at which a block's own problem counts as solved
WHOLE_SHARE = 1e-3  # the same, if the block is the whole problem
PRECISION = 1e-14  # of the gradient, relative to its size: no step is worth less
FLAT = 1e-12  # of the largest diagonal entry: a pair with less curvature counts as flat
FAR = 1e30  # stands for infinity where a variable cannot move


class Course(NamedTuple):
    """How far a descent has come."""

    blocks: int
    size: int  # of the next block
    steps: int
    work: float  # kernel values, or entries of rows, that were read
    primal: float
    dual: float
    rests: bool  # nothing moves any more


@compiled
def room_for(variables: int, parts: int) -> int:
    """How many numbers the matrices of the first blocks need: fresh memory for each costs more than small blocks do.

    It begins as zeros. Where a block has no variables its matrix holds the numbers of an earlier one, which scans see
    and never choose.
    """
    width = CHUNK * (-(-min(variables, WHOLE) // CHUNK) + parts - 1)
    return width * width


@compiled
def descend(
    samples: Any, program: Program, a: Float, f: Float, last: Array, b: Float, aim: float, course: Course,
    largest: int, last_block: int, most_work: float, room: Float, enough: float,
) -> Course:  # fmt: skip
    """Block after block, until a relative gap seems to be reached or the work is spent. Sets: ``a, f, last, b``.

    Or until no variables of a group disagree about their multiplier by more than ``enough``.

    On entry and exit ``f`` are the scores of ``a``, but for rounding. ``room`` is for matrices.
    """
    blocks, size, steps, work = course.blocks, course.size, course.steps, course.work
    m, slope_size, diagonal = a.shape[0], 0.0, 0.0
    for v in range(m):
        slope_size = max(slope_size, abs(program.q[v]))
        diagonal = max(diagonal, samples.own_similarity(program.row[v]) + program.D[v])
    flat, e = FLAT * diagonal if diagonal > 0.0 else FLAT, np.empty(m)
    while True:
        dual, largest_score = 0.0, 0.0
        for v in range(m):
            fa = f[program.sample[v]]
            e[v] = program.q[v] - program.D[v] * a[v] - fa
            dual += 0.5 * a[v] * (program.q[v] + e[v])
            largest_score = max(largest_score, abs(fa))
        gap, violation = best_multipliers(program, a, e, b)
        rests = violation <= max(enough, PRECISION * max(slope_size, largest_score))
        reached = gap <= aim * max(abs(dual + gap), abs(dual))
        if reached or rests or blocks >= last_block or work >= most_work:
            return Course(blocks, size, steps, work, dual + gap, dual, rests)
        block = _chosen(program, a, e, b, last, min(size, m))
        share = WHOLE_SHARE if block.shape[0] == m else INNER_SHARE
        inner = max(share * violation, 0.5 * enough)
        moved = _solve_block(samples, program, block, e, b, a, f, inner, flat, room)
        if moved == 0:  # the worst pair is in the block, and nothing is gained by moving it
            return Course(blocks, size, steps, work, dual + gap, dual, True)
        steps += moved
        blocks += 1
        work += float((f.shape[0] + block.shape[0] + moved) * block.shape[0])
        if blocks % GROWING_BLOCKS == 0:
            size = min(2 * size, largest)


@compiled
def _chosen(program: Program, a: Float, e: Float, middle: Float, last: Array, size: int) -> Index:
    """The variables of the next block, in the order of their groups. Sets: ``last``."""
    m, parts, low, high, group = a.shape[0], middle.shape[0], program.low, program.high, program.group
    if m <= WHOLE or size >= m:
        last[:] = True
        block = np.arange(m)
    else:
        taken, kept = np.zeros(m, dtype=np.bool_), 0
        for v in range(m):
            if last[v] and low[v] < a[v] < high[v] and kept < size // 2:
                taken[v] = True
                kept += 1
        share, pull = max(1, (size - kept) // (2 * parts)), np.empty(m)
        for side in range(2 * parts):
            g, sign = side // 2, 1.0 - 2.0 * (side % 2)
            for v in range(m):
                can = a[v] < high[v] if sign > 0.0 else a[v] > low[v]
                own = parts < 2 or group[v] == g
                pull[v] = sign * (e[v] - middle[g]) if can and own and not taken[v] else -np.inf
            _take_largest(pull, share, taken)
        for g in range(parts):  # the pair that violates optimality most is always there
            _take_ends(program, a, e, parts, g, taken)
        last[:] = taken
        block = np.flatnonzero(taken)
    if parts < 2:
        return block
    ordered, count = np.empty_like(block), 0
    for g in range(parts):
        for t in range(block.shape[0]):
            if group[block[t]] == g:
                ordered[count] = block[t]
                count += 1
    return ordered


@compiled
def _take_ends(program: Program, a: Float, e: Float, parts: int, g: int, taken: Array) -> None:
    """Take the variable of a group that wants to rise most, and the one that wants to fall most. Sets: ``taken``."""
    highest, lowest = -1, -1
    for v in range(a.shape[0]):
        if parts < 2 or program.group[v] == g:
            if a[v] < program.high[v] and (highest < 0 or e[v] > e[highest]):
                highest = v
            if a[v] > program.low[v] and (lowest < 0 or e[v] < e[lowest]):
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
    samples: Any, program: Program, block: Index, e: Float, middle: Float, a: Float, f: Float, tolerance: float,
    flat: float, room: Float,
) -> int:  # fmt: skip
    """Minimise over the variables of a block; the number of steps. Sets: ``a, f``."""
    groups, parts, q = program.totals.shape[0], middle.shape[0], block.shape[0]
    chunks, place, next_one = np.zeros(parts + 1, dtype=np.int64), np.empty(q, dtype=np.int64), 0
    for g in range(parts):
        at = CHUNK * chunks[g]
        while next_one < q and (parts < 2 or program.group[block[next_one]] == g):
            place[next_one] = at
            at += 1
            next_one += 1
        chunks[g + 1] = -(-at // CHUNK)  # a group fills whole chunks
    width = CHUNK * chunks[parts]
    memory = room if width * width <= room.shape[0] else np.zeros(width * width)
    Q = memory[: width * width].reshape((width, width))
    work = np.zeros((7, width))
    slopes, own, least, most, diagonal, gain = work[0], work[1], work[2], work[3], work[4], work[5]
    closed_up, closed_down = np.full(width, -FAR), np.full(width, FAR)
    samples.copy_block(program.row[block], place, Q)
    for i in range(q):
        v, to = block[i], place[i]
        Q[to, to] += program.D[v]
        diagonal[to] = Q[to, to]
        slopes[to] = e[v] - middle[program.group[v] if parts > 1 else 0]
        own[to], least[to], most[to] = a[v], program.low[v], program.high[v]
        if a[v] < program.high[v]:
            closed_up[to] = 0.0
        if a[v] > program.low[v]:
            closed_down[to] = 0.0
    steps = pair_steps(
        Q, slopes, own, least, most, closed_up, closed_down, diagonal, gain, work[6],
        np.empty((2, width // CHUNK)), chunks, groups, tolerance, 50 * q, flat, FAR,
    )  # fmt: skip
    changed, changes, count = np.empty(q, dtype=np.int64), np.empty(q), 0
    for i in range(q):
        v, change = block[i], own[place[i]] - a[block[i]]
        if change != 0.0:
            a[v] = own[place[i]]
            changed[count], changes[count] = program.row[v], change
            count += 1
    samples.add_scores(changed[:count], changes[:count], program.stretch, f)
    return steps
