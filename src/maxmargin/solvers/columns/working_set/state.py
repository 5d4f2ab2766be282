"""What `WorkingSet` carries from round to round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self, cast

import numpy as np
from scipy.linalg.lapack import dpotrf

from maxmargin.operators.column_gram import ColumnGram
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, Bounded, ElasticNet, strengths
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index
from maxmargin.solvers.columns.quadratic import GramHeld, ResidualHeld
from maxmargin.solvers.columns.set_loops import (
    CYCLE,
    FACTOR,
    MEMORY,
    SUPPORT,
    USABLE,
    solve_on_set,
)
from maxmargin.solvers.solver import State
from maxmargin.threads import go_on

SWEEPS = 4  # of all coefficients, where nothing is known of them yet
GATHERED = 0.1  # of the rows of a matrix
CYCLES = 100  # of sweeps and Newton's method in a round


class Terms(NamedTuple):
    """The problem in numbers: ``1/2 sum_i h_i (..)^2 + lam |w|_1 + mu/2 |w|^2`` over ``low <= w <= high``."""

    h: Float
    lam: float
    mu: float
    low: Float
    high: Float

    @classmethod
    def of(cls, problem: Problem, earlier: Self | None = None) -> Self | None:
        """Those of a problem with the squared loss, if its penalty has an L1 part or bounds.

        Of an ``earlier`` one that differs in the strength only, all else is taken.
        """
        penalty, d = problem.penalty, problem.operator.n_features  # type: ignore[attr-defined]
        if not isinstance(penalty, (L1, ElasticNet, Bounded)):
            return None
        if earlier is not None:
            return cls(earlier.h, *strengths(penalty), earlier.low, earlier.high)
        h = problem.s * cast("Squared", problem.loss).curvature
        if isinstance(penalty, Bounded):
            return cls(h, *strengths(penalty), penalty.low, penalty.high)
        return cls(h, *strengths(penalty), np.full(d, -np.inf), np.full(d, np.inf))


@dataclass(kw_only=True)
class SetState(State):
    """The coefficients and slopes of the set, and what is known of all columns."""

    inner_share: ClassVar[float] = 0.01  # of the last gap over all columns: to what the gap on the set is lowered
    fewest: ClassVar[int] = 50  # columns that are added at a time, or as many as are in the support

    terms: Terms
    gram: ColumnGram
    c: Float  # slopes of all columns at zero
    alpha: Float
    b: float
    loss: float
    yy: float = 0.0  # twice the loss at zero
    gap: float = np.inf  # over all columns
    w: Float = field(default_factory=lambda: np.empty(0))  # of the columns in the set
    slopes: Float = field(default_factory=lambda: np.empty(0))
    violators: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    idle: int = 0
    warm: bool = False
    memory: Index = field(default_factory=lambda: np.zeros(MEMORY, dtype=np.int64))
    A: Float = field(default_factory=lambda: np.empty(0))
    index: Index = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    numbers: Float = field(default_factory=lambda: np.empty((4, 0)))

    @property
    def exhausted(self) -> bool:
        """Whether the last rounds changed nothing."""
        return self.idle > 2

    @property
    def support(self) -> int:
        """Coefficients that are not zero."""
        return int(np.count_nonzero(self.w))

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the size of the set and of the support."""
        return {"passes": self.passes, "set": float(self.w.size), "support": float(self.support)}

    def add(self, new: Index) -> None:
        """Add columns to the set. Sets: all arrays of the set."""
        self.gram.add(new)
        self.put(np.append(self.w, np.zeros(self.gram.size - self.w.size)))

    def put(self, w: Float) -> None:
        """Begin at coefficients of the set. Sets: all arrays of the set."""
        m, room = w.size, self.gram.W.size
        S = np.flatnonzero(w)
        self.w = np.zeros(room)[:m]
        self.w[:] = w
        G = self.gram.G[:m, :m]  # rows are gathered only where that is less work than to multiply all of them
        self.slopes = self.c[self.gram.W[:m]] - (w[S] @ G[S] if S.size < GATHERED * m else G @ w)
        if room * room > self.A.size:
            self.A, self.memory[SUPPORT] = np.empty(room * room), 0
            self.numbers, self.index = np.empty((4, room)), np.empty((2, room), dtype=np.int64)
        self.warm = self.warm or bool(S.size)

    def solve(self, stop: float) -> None:
        """Solve the problem on the set. Sets: ``w``, ``slopes``."""
        self._solve_held(GramHeld(self.gram.G, self.slopes), np.empty(self.w.size), SWEEPS, self.warm, stop)
        self.warm = True

    def _solve_held(self, held: GramHeld | ResidualHeld, v: Float, sweeps: int, warm: bool, stop: float) -> None:
        """The same for what is held of the columns. ``v`` is room for slopes. Sets: ``w``, and what is held."""
        terms, W = self.terms, self.gram.W[: self.w.size]
        c, low, high = self.c[W], terms.low[W], terms.high[W]
        b, steps, targets, work = self.numbers
        S, of_factor = self.index
        while True:
            what, _, _ = solve_on_set(
                held, self.w, v, c, terms.lam, terms.mu, low, high, self.yy, stop, sweeps, CYCLES, warm, self.A,
                b, steps, targets, work, S, of_factor, self.memory,
            )  # fmt: skip
            if what != FACTOR:
                break
            go_on()
            self._factorise()
        self.memory[CYCLE] = 0

    def _factorise(self) -> None:
        """Factorise the matrix that the loop waits for. Sets: ``A`` and ``memory``."""
        size = int(self.memory[SUPPORT])
        A = self.A[: size * size].reshape(size, size)
        _, info = dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        self.memory[USABLE] = size if info == 0 else info - 1
