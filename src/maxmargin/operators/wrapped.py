"""A kernel matrix that is judged otherwise: a base for those whose certificates round less."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.operators.gram import Gram, Matters, Prepared, StoredGram
from maxmargin.protocols import Array, Float, Index


class WrappedGram(Gram):
    """The values of another matrix, evaluated again where that one has stored them in float32."""

    def __init__(self, gram: Gram) -> None:
        self.gram = evaluated(gram)
        self.n_samples, self.workers = gram.n_samples, gram.workers

    @property
    def positive(self) -> bool:
        """As the matrix itself."""
        return self.gram.positive

    def may_meet(self, some: Index, others: Index) -> bool:
        """As the matrix itself."""
        return self.gram.may_meet(some, others)

    def diagonal(self) -> Float:
        """In float64."""
        return self.gram.diagonal()

    def columns(self, samples: Index | None, dtype: DTypeLike) -> Prepared:
        """As the matrix itself."""
        return self.gram.columns(samples, dtype)

    def write_rows(
        self, samples: Index, columns: Prepared, scale: float, shift: float, out: Array, slots: Index
    ) -> None:
        """As the matrix itself."""
        self.gram.write_rows(samples, columns, scale, shift, out, slots)

    def sums(self, weights: Float, columns: Prepared) -> Float:
        """As the matrix itself."""
        return self.gram.sums(weights, columns)

    def apply(self, w: Float) -> Float:
        """As the matrix itself."""
        return self.gram.apply(w)

    def within(self, w: Float) -> Float:
        """As `apply`, which remembers its last product perhaps."""
        return self.apply(w)

    def apply_where(self, w: Float, matters: Matters) -> Float:
        """As the matrix itself."""
        return self.gram.apply_where(w, matters)

    def rounding(self, w: Float) -> Float:
        """As the matrix itself."""
        return np.asarray(self.gram.rounding(w))


def evaluated(gram: Gram) -> Gram:
    """The matrix whose float64 values are used."""
    return gram.gram if isinstance(gram, StoredGram) else gram
