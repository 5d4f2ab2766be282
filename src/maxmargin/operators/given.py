"""Kernel matrices that users computed, or compute by a function of theirs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.operators.gram import Gram, rounding_of_sums
from maxmargin.operators.rows import Matrix, asymmetry, checked_values, dense64
from maxmargin.operators.tiles import LEFT_VALUES, stretches
from maxmargin.protocols import Array, Float, Index
from maxmargin.threads import Workers, go_on


class GivenGram(Gram):
    """A kernel matrix of which float64 blocks of any rows and columns can be had."""

    @abstractmethod
    def between(self, rows: Index, columns: Index) -> Float:
        """``K[rows, columns]``."""

    def columns(self, samples: Index | None, dtype: DTypeLike) -> Index:
        """The samples' numbers."""
        return np.arange(self.n_samples) if samples is None else samples

    def write_rows(self, samples: Index, columns: Index, scale: float, shift: float, out: Array, slots: Index) -> None:
        """``out[slots] = scale * K[samples, columns] + shift``."""
        for part in stretches(samples.size, max(1, LEFT_VALUES // max(1, columns.size))):
            go_on()
            out[slots[part]] = scale * self.between(samples[part], columns) + shift

    def sums(self, weights: Float, columns: Index) -> Float:
        """``K[columns, :] @ weights``."""
        support = np.flatnonzero(weights)
        out = np.zeros(columns.size)
        for part in stretches(support.size, max(1, LEFT_VALUES // max(1, columns.size))):
            go_on()
            out += weights[support[part]] @ self.between(support[part], columns)
        return out

    def rounding(self, w: Float) -> Float:
        """A bound on the error of each entry of ``apply(w)``: that of a sum, since the values are what they are."""
        sizes = np.maximum(self.diagonal(), 0.0) if self.positive else np.full(self.n_samples, self._largest)
        return rounding_of_sums(w, np.sqrt(sizes), 0.0) + 0.5 * self._asymmetry * float(np.abs(w).sum())

    @cached_property
    def _asymmetry(self) -> float:
        """The largest difference of two values that should be equal."""
        everything, most = np.arange(self.n_samples), 0.0
        for part in stretches(self.n_samples, max(1, LEFT_VALUES // max(1, self.n_samples))):
            go_on()
            differences = self.between(everything[part], everything) - self.between(everything, everything[part]).T
            most = max(most, float(np.abs(differences).max(initial=0.0)))
        return most

    @cached_property
    def _largest(self) -> float:
        """The largest value without its sign."""
        everything, step = np.arange(self.n_samples), max(1, LEFT_VALUES // max(1, self.n_samples))
        blocks = (self.between(everything[some], everything) for some in stretches(self.n_samples, step))
        return max((float(np.abs(block).max(initial=0.0)) for block in blocks), default=0.0)


class PrecomputedGram(GivenGram):
    """A kernel matrix that the user computed."""

    def __init__(self, K: Matrix, workers: Workers | None = None) -> None:
        self.K = K
        self.n_samples = K.shape[0]
        self.workers = workers or Workers()

    def between(self, rows: Index, columns: Index) -> Float:
        """``K[rows, columns]``."""
        part = self.K[rows]
        return dense64(part if columns.size == self.n_samples else part[:, columns])

    @cached_property
    def _asymmetry(self) -> float:
        return asymmetry(self.K)

    def diagonal(self) -> Float:
        """``K[i, i]``."""
        return np.asarray(self.K.diagonal(), dtype=np.float64)


def values_of(function: Callable[[Any, Any], Any], X: Matrix, Z: Matrix) -> Any:
    """What a kernel of the user returns, who sees a column of objects as the list that it was."""
    return function(*(list(A[:, 0]) if A.dtype == object else A for A in (X, Z)))


class CallableGram(GivenGram):
    """A kernel matrix from a Python function ``kernel(A, B)`` that returns one row per row of ``A``."""

    def __init__(self, function: Callable[[Any, Any], Any], X: Matrix, workers: Workers | None = None) -> None:
        self.function = function
        self.X = X
        self.n_samples = X.shape[0]
        self.workers = workers or Workers()

    def between(self, rows: Index, columns: Index) -> Float:
        """``K[rows, columns]``."""
        right = self.X if columns.size == self.n_samples else self.X[columns]
        return checked_values(values_of(self.function, self.X[rows], right), (len(rows), columns.size))

    def diagonal(self) -> Float:
        """``k(x_i, x_i)``, one call per stretch of rows."""
        out = np.empty(self.n_samples)
        for part in stretches(self.n_samples, 1024):
            X = self.X[part]
            out[part] = checked_values(values_of(self.function, X, X), (X.shape[0],) * 2).diagonal()
        return out
