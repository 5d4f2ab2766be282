"""What `WorkingSet` carries from round to round where columns are short: no products of pairs of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.operators.column_set import ColumnSet
from maxmargin.operators.vectors import SparseVectors
from maxmargin.protocols import Float, Index
from maxmargin.solvers.columns.quadratic import ResidualHeld
from maxmargin.solvers.columns.set_loops import SUPPORT, slopes_of
from maxmargin.solvers.columns.working_set.state import SetState

PAIR, ENTRY = 0.03, 4.0  # of an entry's time: a multiplication of a factorisation; what a sweep does with an entry
FEWEST_SWEEPS, MOST_SWEEPS = 4, 200
FEW_SAMPLES = 500  # up to here, a factor of any size costs little
MOST_FACTORISED = 4000  # coefficients: beyond that there are only sweeps


@dataclass(kw_only=True)
class ResidualState(SetState):
    """The same with the residuals as what all slopes follow from.

    A sweep costs a few operations for each entry of the set's columns, a factorisation many thousand times as much:
    as many sweeps are made between two of these as take as long as one.
    """

    inner_share: ClassVar[float] = 0.2  # to look at all columns costs little more than some sweeps
    fewest: ClassVar[int] = 200

    gram: ColumnSet  # type: ignore[assignment]
    y: Float

    def put(self, w: Float) -> None:
        """Begin at coefficients of the set. Sets: all arrays of the set."""
        n, room = self.y.size, self.gram.W.size
        self.w = np.zeros(room)[: w.size]
        self.w[:] = w
        if room > self.index.shape[1]:
            self.numbers, self.index = np.empty((4, max(room, n + 1))), np.empty((2, room), dtype=np.int64)
            self.memory[SUPPORT] = 0
        self.warm = self.warm or bool(w.any())
        self.slopes = np.zeros(w.size)
        slopes_of(self._held(), self.slopes)

    def _make_room(self) -> None:
        """For a factor. Sets: ``A``.

        Without a ridge, more columns than samples depend on each other, and sweeps get rid of some: usually.
        """
        n = self.y.size
        any_size = self.terms.mu > 0.0 or self.idle > 0 or n <= FEW_SAMPLES
        largest = min(self.gram.W.size, MOST_FACTORISED if any_size else n + 1)
        if largest * largest > self.A.size:
            self.A, self.memory[SUPPORT] = np.empty(largest * largest), 0

    def _held(self) -> ResidualHeld:
        """The problem on the set at its coefficients."""
        m, vectors, terms = self.w.size, self.gram.columns.vectors, self.terms
        assert isinstance(vectors, SparseVectors)
        R = terms.h * (self.y - self.gram.columns.apply(self._whole()))
        sums = np.array([R.sum(), self.gram.total if self.gram.centred else 0.0])
        return ResidualHeld(vectors, self.gram.W[:m], self.gram.means[:m], self.gram.curvatures[:m], terms.h, R, sums)

    def solve(self, stop: float) -> None:
        """Solve the problem on the set. Sets: ``w``, ``slopes``."""
        held = self._held()
        self._make_room()
        self._solve_held(held, self.slopes, self._sweeps(self.gram.W[: self.w.size]), False, stop)

    def _whole(self) -> Float:
        """The coefficients of all columns."""
        w = np.zeros(self.c.size)
        w[self.gram.W[: self.w.size]] = self.w
        return w

    def _sweeps(self, W: Index) -> int:
        """How many sweeps take as long as a factorisation."""
        vectors = self.gram.columns.vectors
        assert isinstance(vectors, SparseVectors)
        indptr = vectors.indptr.view(np.int64)
        entries = float((indptr[W + 1] - indptr[W]).sum()) + W.size
        return int(min(max(FEWEST_SWEEPS, PAIR * self.support**3 / 3.0 / (ENTRY * entries)), MOST_SWEEPS))
