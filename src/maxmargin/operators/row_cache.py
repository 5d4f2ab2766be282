"""A bounded store of kernel rows: one arena, the least recently used rows make room."""

from __future__ import annotations

import numpy as np

from maxmargin.operators.gram import Gram
from maxmargin.protocols import Float, Index

BATCH = 8  # rows fetched together. More make each cheaper, but fewer of them are used (a9a: 8 was best of 2 to 32)


class RowCache:
    """Rows of ``K / lam + shift`` in one block of memory of at most ``megabytes``."""

    def __init__(self, gram: Gram, megabytes: float, lam: float = 1.0, shift: float = 0.0) -> None:
        n = gram.n_samples
        self.gram, self.lam, self.shift = gram, lam, shift
        slots = int(megabytes * 2**20 / (8 * max(1, n)))
        self.rows: Float = np.empty((min(n, max(4 * BATCH, slots)), n))
        self.slot: Index = np.full(n, -1)  # of each sample, or -1
        self.sample: Index = np.full(self.rows.shape[0], -1)  # in each slot, or -1
        self.used: Index = np.full(self.rows.shape[0], -1)  # when each slot was last wanted
        self.clock: Index = np.zeros(1, dtype=np.int64)
        self.evaluations = 0

    @property
    def nbytes(self) -> int:
        """Size of the arena."""
        return self.rows.nbytes

    def fetch(self, samples: Index) -> None:
        """Make the rows of a few different samples available; ``samples`` fit into a quarter of the arena."""
        present = self.slot[samples] >= 0
        self.used[self.slot[samples[present]]] = self.clock[0]  # not to be evicted for the others
        missing = samples[~present]
        if not missing.size:
            return
        # Stable order among equals, so that the same fit evicts the same rows.
        slots = np.argsort(self.used, kind="stable")[: missing.size]
        self.slot[self.sample[slots][self.sample[slots] >= 0]] = -1
        self.rows[slots] = self.evaluate(missing)
        self.sample[slots], self.slot[missing] = missing, slots
        self.used[slots] = self.clock[0]

    def evaluate(self, samples: Index) -> Float:
        """Rows from the kernel, past the cache."""
        self.evaluations += samples.size * self.gram.n_samples
        block = self.gram.block(samples)
        if self.lam != 1.0:
            block /= self.lam
        if self.shift != 0.0:
            block += self.shift
        return block

    def combine(self, weights: Float) -> Float:
        """``sum_i weights_i * row i``, from stored rows where there are any."""
        out = np.zeros(self.gram.n_samples)
        wanted = np.flatnonzero(weights)
        stored = self.slot[wanted] >= 0
        for samples in _stretches(wanted[stored]):
            out += weights[samples] @ self.rows[self.slot[samples]]
        for samples in _stretches(wanted[~stored]):
            out += weights[samples] @ self.evaluate(samples)
        return out


def _stretches(samples: Index, size: int = 64) -> list[Index]:
    """A few samples at a time, so that the blocks of their rows stay small."""
    return [samples[start : start + size] for start in range(0, samples.size, size)]
