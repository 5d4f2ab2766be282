"""What `WorkingSet` carries from round to round where columns are short: no products of pairs of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.operators.column_set import ColumnSet
from maxmargin.operators.vectors import SparseVectors
from maxmargin.protocols import Float, Index
from maxmargin.solvers.columns.quadratic import ResidualHeld
from maxmargin.solvers.columns.set_loops import CYCLE, FACTOR, SUPPORT, solve_on_set
from maxmargin.solvers.columns.working_set.state import CYCLES, SetState
from maxmargin.threads import go_on

PAIR, ENTRY = 0.03, 4.0  # of an entry's time: a multiplication of a factorisation; what a sweep does with an entry
FEWEST_SWEEPS, MOST_SWEEPS = 4, 200


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
        self.slopes = np.zeros(w.size)
        if room > self.index.shape[1]:
            self.numbers, self.index = np.empty((4, max(room, n + 1))), np.empty((2, room), dtype=np.int64)
            self.memory[SUPPORT] = 0
        if not self.A.size:
            self.A = np.empty((n + 1) * (n + 1))
        self.warm = self.warm or bool(w.any())

    def solve(self, stop: float) -> None:
        """Solve the problem on the set. Sets: ``w``, ``slopes``."""
        m, terms, vectors = self.w.size, self.terms, self.gram.columns.vectors
        assert isinstance(vectors, SparseVectors)
        W: Index = self.gram.W[:m]
        c, low, high = self.c[W], terms.low[W], terms.high[W]
        R = terms.h * (self.y - self.gram.columns.apply(self._whole()))
        sums = np.array([R.sum(), self.gram.total if self.gram.centred else 0.0])
        held = ResidualHeld(vectors, W, self.gram.means[:m], self.gram.curvatures[:m], terms.h, R, sums)
        b, steps, targets, work = self.numbers
        S, of_factor = self.index
        while True:
            what, _, _ = solve_on_set(
                held, self.w, self.slopes, c, terms.lam, terms.mu, low, high, self.yy, stop, self._sweeps(W), CYCLES,
                False, self.A, b, steps, targets, work, S, of_factor, self.memory,
            )  # fmt: skip
            if what != FACTOR:
                break
            go_on()
            self._factorise()
        self.memory[CYCLE] = 0

    def _whole(self) -> Float:
        """The coefficients of all columns."""
        w = np.zeros(self.c.size)
        w[self.gram.W[: self.w.size]] = self.w
        return w

    def _sweeps(self, W: Index) -> int:
        """How many sweeps take as long as a factorisation."""
        indptr = self.gram.columns.vectors.indptr.view(np.int64)
        entries = float((indptr[W + 1] - indptr[W]).sum()) + W.size
        return int(min(max(FEWEST_SWEEPS, PAIR * self.support**3 / 3.0 / (ENTRY * entries)), MOST_SWEEPS))
