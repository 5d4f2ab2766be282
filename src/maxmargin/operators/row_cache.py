"""A bounded store of kernel rows: one arena, the least recently used rows make room.

The rows may be restricted to the columns that are still of interest; then more of them fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from maxmargin._jit import compiled
from maxmargin.operators.arena import memory_for
from maxmargin.operators.gram import Gram
from maxmargin.protocols import Array, Float, Index

BATCH = 8  # rows fetched together. More make each cheaper, but fewer of them are used (a9a: 8 was best of 2 to 32)
ADDED_COLUMNS = 2048  # at a time, in sums of rows
WIDENED_ROWS = 512  # at a time
FIRST_SHARE = 0.2  # of the arena that is used at first: fresh memory costs more than rows that are wanted only once


class RowCache:
    """Rows of ``scale K + shift``, in the columns ``columns``, in one block of at most ``megabytes``.

    A part of it is used at first, and twice as much whenever many rows had to be evaluated again.
    It always has room for ``least_rows`` rows.
    """

    def __init__(
        self,
        gram: Gram,
        megabytes: float,
        scale: float = 1.0,
        shift: float = 0.0,
        dtype: DTypeLike = np.float64,
        least_rows: int = 4 * BATCH,
    ) -> None:
        n = gram.n_samples
        self.gram, self.scale, self.shift, self.least_rows = gram, scale, shift, min(n, least_rows)
        values = int(megabytes * 2**20 / np.dtype(dtype).itemsize)
        self.arena = memory_for(self, min(n * n, max(values, self.least_rows * n)), dtype)
        self.slot: Index = np.full(n, -1)  # of each sample, or -1
        self.clock: Index = np.zeros(1, dtype=np.int64)
        self.evaluations = 0
        self.hits = 0
        self.misses = 0
        self.regrets = 0  # rows that were evaluated again since more of the arena was opened
        self.known = np.zeros(n, dtype=bool)  # samples whose row was evaluated before
        self.open_values = min(self.arena.size, max(int(FIRST_SHARE * values), self.least_rows * n))
        self._see(np.arange(n))
        self.rows = self._rows()
        self.sample: Index = np.full(self.rows.shape[0], -1)  # in each slot, or -1
        self.used: Index = np.arange(-self.rows.shape[0], 0)  # when each slot was last wanted; the free ones in order

    @property
    def nbytes(self) -> int:
        """Size of the arena, as far as it is open."""
        return min(self.open_values, self.arena.size) * self.arena.itemsize

    def fetch(self, samples: Index) -> Index:
        """Slots of the rows of up to ``capacity`` different samples; those that are missing are evaluated together."""
        if samples.size > self.capacity:  # some would make room for the others
            raise ValueError(f"{samples.size} rows were asked for at once; the cache holds {self.capacity}.")
        self.clock[0] += 1
        present = self.slot[samples] >= 0
        self.used[self.slot[samples[present]]] = self.clock[0]  # not to be evicted for the others
        missing = samples[~present]
        self.hits, self.misses = self.hits + samples.size - missing.size, self.misses + missing.size
        if missing.size:
            self._consider_growth(missing)
            slots = self._oldest(missing.size)
            self.slot[self.sample[slots][self.sample[slots] >= 0]] = -1
            self._evaluate(missing, slots)
            self.sample[slots], self.slot[missing] = missing, slots
            self.used[slots] = self.clock[0]
        return self.slot[samples]

    def narrow(self, keep: Array) -> None:
        """Restrict the matrix to some of the present columns, given as a mask, and to the rows of the same samples."""
        kept, old = np.flatnonzero(keep), self.columns.size
        stored = np.flatnonzero(self.sample >= 0)
        stored = stored[keep[self.column[self.sample[stored]]]] if stored.size else stored
        _compact(self.arena, stored, old, kept)
        self._see(self.columns[kept])
        self._keep_rows(stored)

    def widen(self, samples: Index) -> None:
        """Add columns, evaluated for the stored rows; the least recently used rows may have to go."""
        old = self.columns.size
        self._see(np.concatenate([self.columns, samples]))
        room = min(self.arena.size // self.columns.size, self.gram.n_samples)
        stored = np.flatnonzero(self.sample >= 0)
        stored = np.sort(stored[np.argsort(self.used[stored], kind="stable")[-room:]])
        _compact(self.arena, stored, old, np.arange(old))
        _spread(self.arena, stored.size, old, self.columns.size)
        self._keep_rows(stored)
        added = self.gram.columns(samples, self.arena.dtype)
        for start in range(0, stored.size, WIDENED_ROWS):
            part = self.sample[start : min(start + WIDENED_ROWS, stored.size)]
            block = np.empty((part.size, samples.size), dtype=self.arena.dtype)
            self.gram.write_rows(part, added, self.scale, self.shift, block, np.arange(part.size))
            self.rows[start : start + part.size, old:] = block
        self.evaluations += stored.size * samples.size

    def combine(self, weights: Float) -> Float:
        """``sum_i weights_i * row i`` in the present columns, from stored rows where there are any."""
        wanted = np.flatnonzero(weights)
        stored = wanted[self.slot[wanted] >= 0]
        out = np.zeros(self.columns.size)
        self.add_rows(self.slot[stored], weights[stored], out)
        missing = weights.copy()
        missing[stored] = 0.0
        count = wanted.size - stored.size
        if count:
            self.evaluations += count * self.columns.size
            out += self.scale * self.gram.sums(missing, self._prepared) + self.shift * missing.sum()
        return out

    def add_rows(self, slots: Index, weights: Float, out: Float) -> None:
        """``out += sum_k weights_k * rows[slots_k]``."""

        def work(parts: Iterator[int]) -> None:
            for start in parts:
                _add_rows(self.rows, slots, weights, out, start, min(start + ADDED_COLUMNS, out.size))

        if slots.size:
            self.gram.workers.run(work, range(0, out.size, ADDED_COLUMNS))

    def _see(self, columns: Index) -> None:
        """Sets: ``columns``, what the kernel matrix needs to evaluate them, and the ``column`` of each sample."""
        self.columns = columns
        everything = np.array_equal(columns, np.arange(self.gram.n_samples))
        self._prepared = self.gram.columns(None if everything else columns, self.arena.dtype)
        self.column: Index = np.full(self.gram.n_samples, -1)
        self.column[columns] = np.arange(columns.size)

    def _rows(self) -> Array:
        width = max(1, self.columns.size)
        slots = min(self.arena.size // width, self.gram.n_samples)
        return self.arena[: slots * width].reshape(slots, width)

    def _keep_rows(self, stored: Index) -> None:
        """After the width has changed and some rows were moved to the front. Sets: ``rows, slot, sample, used``."""
        self.rows = self._rows()
        free = self.rows.shape[0] - stored.size
        self.sample = np.concatenate([self.sample[stored], np.full(free, -1)])
        self.used = np.concatenate([self.used[stored], np.arange(-free, 0)])
        self.slot[:] = -1
        self.slot[self.sample[: stored.size]] = np.arange(stored.size)

    def _consider_growth(self, missing: Index) -> None:
        """Open more of the arena once as many rows as it holds were evaluated again. Sets: ``open_values, regrets``."""
        self.regrets += int(self.known[missing].sum())
        self.known[missing] = True
        if self.regrets > self.capacity and self.open_values < self.arena.size:
            self.open_values, self.regrets = 2 * self.open_values, 0

    @property
    def capacity(self) -> int:
        """How many rows may be stored now."""
        return min(self.rows.shape[0], max(self.least_rows, self.open_values // max(1, self.columns.size)))

    def _oldest(self, count: int) -> Index:
        """The slots to use next: the free ones from the front, then those that were not wanted for the longest time."""
        return np.sort(np.argpartition(self.used[: self.capacity], count - 1)[:count])

    def _evaluate(self, samples: Index, slots: Index) -> None:
        self.evaluations += samples.size * self.columns.size
        self.gram.write_rows(samples, self._prepared, self.scale, self.shift, self.rows, slots)


@compiled
def _add_rows(rows: Array, slots: Index, weights: Float, out: Float, start: int, stop: int) -> None:
    """``out[start:stop] += sum_k weights_k * rows[slots_k, start:stop]``, four rows at a time."""
    target = out[start:stop]
    k = 0
    while k + 4 <= slots.shape[0]:
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        r0, r1 = rows[slots[k], start:stop], rows[slots[k + 1], start:stop]
        r2, r3 = rows[slots[k + 2], start:stop], rows[slots[k + 3], start:stop]
        for j in range(stop - start):
            target[j] += (w0 * r0[j] + w1 * r1[j]) + (w2 * r2[j] + w3 * r3[j])
        k += 4
    while k < slots.shape[0]:
        w0, r0 = weights[k], rows[slots[k], start:stop]
        for j in range(stop - start):
            target[j] += w0 * r0[j]
        k += 1


@compiled
def _compact(arena: Array, rows: Index, width: int, columns: Index) -> None:
    """Keep some rows and columns, both ascending: they only move towards the front, so nothing is lost on the way."""
    for i in range(rows.shape[0]):
        source, target = rows[i] * width, i * columns.shape[0]
        for k in range(columns.shape[0]):
            arena[target + k] = arena[source + columns[k]]


@compiled
def _spread(arena: Array, rows: int, old: int, new: int) -> None:
    """Make every row wider, from the last to the first, so that nothing is overwritten early."""
    for i in range(rows - 1, -1, -1):
        for k in range(old - 1, -1, -1):
            arena[i * new + k] = arena[i * old + k]
