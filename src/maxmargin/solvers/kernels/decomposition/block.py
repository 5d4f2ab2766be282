"""A block: which variables form it, and its own small problem."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.operators.row_cache import RowCache
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels import block_loops as loops
from maxmargin.solvers.kernels.block_loops import CHUNK
from maxmargin.solvers.kernels.decomposition.variables import Active, Order

FIRST_BLOCK = 64  # variables at first, while all violations look alike; twice as many after every other block
GROWING_BLOCKS = 16  # after so many blocks the size is the one that was asked for
FAR = 1e30  # stands for infinity in the block's arithmetic, which may be float32
PADDING = 16  # values between rows of a block: without it rows of 4096 bytes compete for the same cache lines
STEPS_PER_VARIABLE = 50  # of a block, at most
GATHERED_TOGETHER = 128  # new rows of a block's matrix, from which on several threads copy them


class Blocks:
    """Chooses blocks and solves them. Half of a block's matrix is known from the last one, which is kept."""

    def __init__(self, variables: int, size: int, dtype: DTypeLike) -> None:
        self.size = size
        self.last: Index = np.empty(0, dtype=np.int64)  # variables of the last block, the newest at the end
        self.place: Index = np.full(variables, -1)  # of each variable in the last matrix, or -1
        self.stored: Index = np.empty(0, dtype=np.int64)  # those that have one
        self.matrix = self.spare = np.empty((0, 0), dtype=dtype)

    def choose(self, active: Active, order: Order, iterations: int) -> Index:
        """Places of the next block: the newer half of the last one, and the steepest direction of the other variables.

        The pair that violates optimality most is always in the block: on that rests the convergence of the method.
        """
        size = min(self.size, active.variable.size)
        if size == active.variable.size:
            return np.arange(size)
        if iterations < GROWING_BLOCKS:
            size = min(size, FIRST_BLOCK << (iterations // 2))
        place = np.minimum(np.searchsorted(active.variable, self.last), active.variable.size - 1)
        last = place[active.variable[place] == self.last]
        last = last[max(0, last.size - min(size // 2, size - 2)) :]
        others = np.ones(active.variable.size, dtype=bool)
        others[last] = False
        fresh = steepest_direction(order.e, active, size - last.size, others)
        others[fresh] = False
        worst = steepest_direction(order.e, active, 2)
        missing = worst[others[worst]]
        return np.concatenate([last, fresh[: size - last.size - missing.size], missing])

    def solve(
        self, active: Active, order: Order, cache: RowCache, block: Index, slots: Index, tolerance: float, flat: float
    ) -> int:
        """Minimise over the variables of a block by steps on pairs; the number of steps. Sets: ``active.a, last``.

        ``slots`` are those of the variables' rows in the cache. A pair with less curvature than ``flat`` counts as
        flat.
        """
        t, number, newest = active, cache.arena.dtype.type, active.variable[block]
        groups = max(1, t.groups)
        # By group, because pairs are taken within a group; then by column, because memory is read in that order.
        by = np.lexsort((t.column[block], t.group[block])) if groups > 1 else np.argsort(t.column[block])
        block, slots = block[by], slots[by]
        counts = np.bincount(t.group[block], minlength=groups)
        chunks = np.concatenate([[0], np.cumsum(-(-counts // CHUNK))])  # a group fills whole chunks
        place = np.arange(block.size) + np.repeat(CHUNK * chunks[:-1] - np.cumsum(counts) + counts, counts)
        K = self._fill_matrix(active, cache, block, slots, place, int(CHUNK * chunks[-1]))
        g = np.zeros(K.shape[0], dtype=K.dtype)
        g[place] = order.e[block] - order.middle[t.group[block]]
        a, low, high = (_placed(part[block], place, K.shape[0]) for part in (t.a, t.low, t.high))
        closed_up = np.where(a < high, number(0.0), number(-FAR))
        closed_down = np.where(a > low, number(0.0), number(FAR))
        ends = np.empty((2, K.shape[0] // CHUNK), dtype=K.dtype)
        steps = loops.pair_steps(
            K, g, a, low, high, closed_up, closed_down, np.diagonal(K).copy(), np.empty_like(g),
            np.zeros(K.shape[1], dtype=K.dtype), ends, chunks, t.groups, number(tolerance),
            STEPS_PER_VARIABLE * block.size, number(flat), number(FAR),
        )  # fmt: skip
        t.a[block] = a[place]
        self.last = newest
        return int(steps)

    def _fill_matrix(
        self, active: Active, cache: RowCache, block: Index, slots: Index, place: Index, size: int
    ) -> Array:
        """The matrix of a block, with what the last block's matrix already has. Sets: ``matrix, spare, place``.

        The memory of the last but one is used again.
        """
        K, last, variables = self.spare, self.matrix, active.variable[block]
        if K.shape[0] != size:
            K = np.empty((size, size + PADDING), dtype=last.dtype)
        K[:] = 0.0
        known = self.place[variables]
        old, new = np.flatnonzero(known >= 0), np.flatnonzero(known < 0)
        rows, columns, D = cache.rows, active.column[block], active.D[block]

        def work(parts: Iterator[Index]) -> None:
            for part in parts:
                loops.gather(rows, slots, columns, D, place, part, K)

        cache.gram.workers.run(work, np.array_split(new, 4) if new.size >= GATHERED_TOGETHER else [new])
        loops.copy_block(last, known, old, new, place, K)
        self.place[self.stored] = -1
        self.place[variables], self.stored = place, variables
        self.matrix, self.spare = K, last
        return K


def steepest_direction(e: Float, active: Active, count: int, among: Array | None = None) -> Index:
    """Where a direction ``d`` with entries -1, 0, 1 is not zero, for which ``e^T d`` is as large as possible.

    It has at most ``count`` non-zero entries, all ``among`` some of the variables if these are given, respects the
    bounds and keeps the sum of every group. So within a group it takes pairs: the variable that wants to rise most
    against the one that wants to fall most, the second against the second, and so on, as long as they want to move
    apart. Over all groups the best pairs are taken. Without groups the variables move alone.
    """
    rises, falls = active.rises, active.falls
    if among is not None:
        rises, falls = rises & among, falls & among
    if active.groups == 0:
        gain = np.where(e > 0.0, rises, falls) * np.abs(e)
        return _first(np.flatnonzero(gain > 0.0), -gain, count)
    pairs = []
    for g in range(active.groups):
        members = active.group == g if active.groups > 1 else True
        up = _first(np.flatnonzero(rises & members), -e, count // 2)
        down = _first(np.flatnonzero(falls & members), e, count // 2)
        both = min(up.size, down.size)
        pairs.append(np.stack([up[:both], down[:both]]))
    up, down = np.concatenate(pairs, axis=1)
    gain = e[up] - e[down]
    best = _first(np.flatnonzero(gain > 0.0), -gain, count // 2)
    return np.concatenate([up[best], down[best]])


def _first(places: Index, key: Float, count: int) -> Index:
    """Of some places, the ``count`` with the smallest keys, in ascending order of these."""
    if places.size > count:
        places = places[np.argpartition(key[places], count - 1)[:count]]
    return places[np.argsort(key[places], kind="stable")]


def _placed(part: Float, place: Index, size: int) -> Float:
    """Values at their places in a padded array."""
    out = np.zeros(size)
    out[place] = part
    return out
