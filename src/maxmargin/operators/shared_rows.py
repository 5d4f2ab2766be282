"""A kernel matrix whose rows are kept, for several problems over the same samples."""

from __future__ import annotations

import threading
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.numerics.rounding import SINGLE
from maxmargin.operators.gram import Gram, Prepared, rounding_of_sums
from maxmargin.protocols import Array, Float, Index

DOUBLE_SAMPLES = 1024  # up to here float64 costs little
SINGLE_ERROR = 1e-2  # of a score, that float32 kernel values may cause at most


class SharedRows(Gram):
    """A kernel matrix whose rows are kept for the problems to come, in at most ``megabytes``.

    They are float32 if that is precise enough for sums whose weights have the absolute sum ``total``.
    """

    def __init__(self, gram: Gram, megabytes: float, total: float) -> None:
        self.gram, self.n_samples, self.workers = gram, gram.n_samples, gram.workers
        self._diagonal = gram.diagonal()
        error = float(np.finfo(np.float32).eps * np.abs(self._diagonal).max(initial=0.0) * total)
        self.fits_single = self.n_samples > DOUBLE_SAMPLES and error <= SINGLE_ERROR and gram.fits_single
        self.dtype = np.dtype(np.float32 if self.fits_single else np.float64)
        room = int(megabytes * 2**20 / (self.n_samples * self.dtype.itemsize))
        self.stored = np.empty((min(self.n_samples, room), self.n_samples), dtype=self.dtype)
        self.slot: Index = np.full(self.n_samples, -1)
        self.sample: Index = np.empty(0, dtype=np.int64)  # in each slot
        self._lock = threading.Lock()  # several classes may be learnt at the same time

    @property
    def positive(self) -> bool:
        """Whether the matrix whose rows are kept is positive semi-definite."""
        return self.gram.positive

    def diagonal(self) -> Float:
        """``K[i, i]``."""
        return self._diagonal

    def columns(self, samples: Index | None, dtype: DTypeLike) -> Index:
        """The samples' numbers."""
        return np.arange(self.n_samples) if samples is None else samples

    def write_rows(self, samples: Index, columns: Index, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        stored = self._store(samples)
        source, target, plain = self.slot[samples[stored]], slots[stored], (scale, shift) == (1.0, 0.0)
        if columns.size < self.n_samples:
            values = self.stored[source[:, None], columns]
            out[target] = values if plain else scale * values + shift
        else:
            for row, place in zip(source, target, strict=True):  # a copy of many rows at once would be another one
                out[place] = self.stored[row] if plain else scale * self.stored[row] + shift
        if not stored.all():
            some = self.gram.columns(columns, self.dtype)
            self.gram.write_rows(samples[~stored], some, scale, shift, out, slots[~stored])

    def sums(self, weights: Float, columns: Index) -> Float:
        """``K[columns, :] @ weights``."""
        return self.many_sums(weights[None], columns)[0]

    def many_sums(self, weights: Float, columns: Index) -> Float:
        """``weights @ K[:, columns]``."""
        self._store(np.flatnonzero(weights.any(axis=0)))
        known = self.sample
        out = (weights[:, known].astype(self.dtype) @ self.stored[: known.size]).astype(np.float64)
        rest = weights.copy()
        rest[:, known] = 0.0
        for k in np.flatnonzero(rest.any(axis=1)):
            out[k] += self.gram.sums(rest[k], self._all)
        return out if columns.size == self.n_samples else out[:, columns]

    def rounding(self, w: Float) -> Float:
        """A bound on the error of each entry of ``apply(w)``, of the kernel itself and not of its float32 values."""
        if self.dtype == np.float64:
            return self.gram.rounding(w)
        magnitudes, errors = self.gram.single_values()
        return rounding_of_sums(w, magnitudes, errors, SINGLE)

    @cached_property
    def _all(self) -> Prepared:
        return self.gram.columns(None, self.dtype)

    def _store(self, samples: Index) -> Array:
        """Evaluate rows that are missing, as long as there is room; which ones are stored now."""
        with self._lock:
            first = self.sample.size
            missing = samples[self.slot[samples] < 0][: self.stored.shape[0] - first]
            if missing.size:
                slots = np.arange(first, first + missing.size)
                self.gram.write_rows(missing, self._all, 1.0, 0.0, self.stored, slots)
                self.sample, self.slot[missing] = np.concatenate([self.sample, missing]), slots
            return np.asarray(self.slot[samples] >= 0)
