"""The state of a path: the support at some strength of the penalty, its factor, and the way to the next breakpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from maxmargin.numerics.balance import balanced
from maxmargin.numerics.growing_cholesky import append_row, remove_row, solve_in_place, solve_lower, solve_upper
from maxmargin.numerics.rounding import DOUBLE
from maxmargin.operators import Columns
from maxmargin.operators.column_gram import ColumnGram
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.columns.homotopy.loops import (
    combination,
    most_eager,
    next_arrival,
    next_departure,
    some_products,
    walk,
)
from maxmargin.solvers.solver import State

TIE = 1e-10  # relative: columns that reach the limit within this of each other reach it together
SLACK = 1e-9  # of the rate at which a column passes the limit: less is rounding
PIVOT = 1e-8  # of the length of a column: what is less than that beside the support lies in its span
CLOSE = 1e-4  # of the square of a column: what is less than that beside the support is computed again, as a vector
CONSTANT = 1e-14  # of the square of a column: what is less than that after centring is rounding
REFRESH = 8  # breakpoints after which slopes are computed anew
LOST = 1e-4  # of these rates: if more is left than this, rounding decides what enters and what leaves
STILL = 1e-13  # of the largest rate of a coefficient, times the lengths of columns: less is rounding of none
SETTLED = 1e-11  # of the rates of the support, which should be 1 or -1: what is farther off is corrected
CORRECTIONS = 2
ORTHOGONALISATIONS = 2
END = 1e-12  # of the first strength: what is below is zero
LEFT, LEFT_OF_TARGETS = 1e-6, 1e-12  # of the lengths of residuals and of targets: slopes at the end are rounding
MOST_PAUSES = 16  # steps of length zero, after which columns that leave are left out
ROOM = 64  # columns in the support, at first
MOST_CHANGES = 8  # times the columns at the limit: so many changes at one breakpoint are a circle made by rounding


@dataclass(kw_only=True)
class PathState(State):
    """Where a path is.

    With ``q(w) = 1/2 sum_i h_i (y_i - b - x_i.w)^2 + mu/2 |w|^2``, its point minimises ``q(w) + lam |w|_1``. Columns
    that depend on those of the support never have to enter: where these are at the limit, so is every combination of
    them. Several columns may arrive at once, and then those enter with which all conditions hold a little farther on:
    a small problem of non-negative least squares, solved as Lawson and Hanson do.
    """

    columns: Columns
    gram: ColumnGram
    centred: bool
    at_zero: Float  # dual variables at coefficients of zero: the weighted targets, centred if columns are
    mu: float
    up: Array
    down: Array
    lam: float = 0.0
    size: int = 0
    support: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    w: Float = field(default_factory=lambda: np.empty(0))
    u: Float = field(default_factory=lambda: np.empty(0))
    signs: Float = field(default_factory=lambda: np.empty(0))
    L: Float = field(default_factory=lambda: np.empty((0, 0)))
    alpha: Float = field(default_factory=lambda: np.empty(0))
    c: Float = field(default_factory=lambda: np.empty(0))  # slopes of all columns, without those of the ridge
    a: Float = field(default_factory=lambda: np.empty(0))  # their rates
    member: Array = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    barred: Array = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    stale: bool = True  # whether the rates are those of another support
    lost: bool = False  # whether rounding has decided
    first: float = 0.0

    def __post_init__(self) -> None:
        d = self.columns.n_features
        self.member, self.barred = np.zeros(d, dtype=np.bool_), np.zeros(d, dtype=np.bool_)
        self.a, self._v, self._pauses = np.zeros(d), np.zeros(self.at_zero.size), 0
        self._make_room(ROOM)
        self.lengths = self.columns.column_lengths() * math.sqrt(float(self.gram.h.max(initial=0.0)))
        self.alpha = self.at_zero.copy()
        self.c = self.columns.first_products(self._balanced(self.alpha)).copy()
        self.lam = max(float(self.c[self.up].max(initial=0.0)), float(-self.c[self.down].min(initial=0.0)))
        if self.lam <= float(self._blur().max(initial=0.0)):
            self.lam = 0.0  # nothing but rounding
        self.first = self.lam
        self.passes = self.columns.read

    @property
    def finished(self) -> bool:
        """Whether there is nothing left of the penalty, or rounding keeps the path from going on."""
        return self.lam <= 0.0 or self.lost

    @property
    def exhausted(self) -> bool:
        """Whether the path has ended."""
        return self.finished

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the size of the support."""
        return {"passes": self.passes, "support": float(self.size)}

    @property
    def features(self) -> Index:
        """The columns of the support, in the order in which they came."""
        return self.support[: self.size]

    @property
    def coefficients(self) -> Float:
        """Their coefficients."""
        return self.w[: self.size]

    def settle(self) -> None:
        """Find the support, and the direction, for a ``lam`` that is a little smaller. Sets: nearly everything."""
        self._let_zeros_go()
        changes, most = 0, 0
        while not self.lost:
            if self.stale:
                self._turn()
            if self._unsettled() > LOST:
                self._refuse_the_newest()
                continue
            j, sign = self._most_eager()
            if j < 0:
                return
            most = max(most, MOST_CHANGES * (self._at_the_limit() + 8))
            changes += 1
            self.lost = changes > most
            self._enter(j, sign)

    def go(self, until: float = 0.0) -> None:
        """Follow the direction to the next breakpoint, or until ``lam`` has some value. Sets: the point."""
        size = self.size
        left_out = self.member | self.barred
        step = next_arrival(self.c, self.a, self.lam, left_out, self.up, self.down, SLACK)
        step = min(step, next_departure(self.w, self.u, self.signs, size))
        if step >= self.lam * (1.0 - TIE) or self.lam - step <= END * self.first:
            step = self.lam
        whole = step < self.lam - until or step == self.lam
        step = min(step, self.lam - until)
        walk(self.w, self.u, self.signs, size, step, TIE if whole and step < self.lam else 0.0)
        self.lam = until if not whole else self.lam - step
        self.c -= step * self.a
        self.alpha -= step * self._v
        self.iterations += 1
        self._pauses = self._pauses + 1 if step == 0.0 else 0
        self.lost = self._pauses > MOST_PAUSES + MOST_CHANGES * (self.size + 8)
        if self.iterations % REFRESH == 0 or self.lam <= until or self._unsettled() > SLACK:
            self.refresh()
        if self.lam == 0.0 and not self._nothing_is_left():  # more columns would have come before the end
            self.lam, self.lost = END * self.first, True
        self.passes = self.columns.read

    def _nothing_is_left(self) -> bool:
        """Whether no slope is larger than rounding, as it has to be without a penalty."""
        slopes = self.c.copy()
        slopes[self.features] -= self.mu * self.coefficients
        level = LEFT * float(np.linalg.norm(self.alpha)) + LEFT_OF_TARGETS * float(np.linalg.norm(self.at_zero))
        most = level * self.columns.column_lengths()
        return not (((slopes > most) & self.up) | ((-slopes > most) & self.down)).any()

    def refresh(self) -> None:
        """Correct what rounding did to the point. Sets: ``w, alpha, c``."""
        for _ in range(CORRECTIONS):
            self._let_zeros_go()
            self._residuals()
            missing = np.empty(self.size)
            some_products(self.columns.vectors, self.features, self._balanced(self.alpha), missing)
            missing -= self.mu * self.coefficients + self.lam * self.signs[: self.size]
            if np.abs(missing).max(initial=0.0) <= 4.0 * DOUBLE * self.lam:
                break
            solve_in_place(self.L, self.size, missing)
            w = self.coefficients + missing
            self.w[: self.size] = np.where(w * self.signs[: self.size] > 0.0, w, 0.0)
        self._residuals()
        self.c = self.columns.adjoint(self._balanced(self.alpha))

    def _refuse_the_newest(self) -> None:
        """Take out the column that has just entered, and leave it out, if it makes the support nearly dependent."""
        k = self.size - 1
        if k < 0 or self.w[k] != 0.0 or self.L[k, k] ** 2 > CLOSE * float(self.lengths[self.support[k]]) ** 2:
            self.lost = True
            return
        j = self.support[k]
        self._leave(k)
        self.barred[j] = True

    def _let_zeros_go(self) -> None:
        """Take out the columns whose coefficients are zero. Sets: the support and its factor."""
        for i in range(self.size - 1, -1, -1):
            if self.w[i] == 0.0:
                self._leave(i)

    def _residuals(self) -> None:
        """Sets: ``alpha``."""
        vectors, h = self.columns.vectors, self.gram.h
        combination(vectors, self.features, self.coefficients, h, self.centred, self.alpha)
        np.subtract(self.at_zero, self.alpha, out=self.alpha)

    def _balanced(self, alpha: Float) -> Float:
        return balanced(alpha) if self.centred else alpha

    def _make_room(self, room: int) -> None:
        """Sets: all arrays of the support, with what is in them."""
        k = self.size
        L, support = np.zeros((room, room)), np.zeros(room, dtype=np.int64)
        w, u, signs = np.zeros((3, room))
        L[:k, :k], support[:k] = self.L[:k, :k], self.support[:k]
        w[:k], u[:k], signs[:k] = self.w[:k], self.u[:k], self.signs[:k]
        self.L, self.support, self.w, self.u, self.signs = L, support, w, u, signs

    def _blur(self) -> Float:
        """How far rounding may have moved the slope of each column."""
        return 8.0 * DOUBLE * float(np.linalg.norm(self.alpha)) * self.columns.column_lengths()

    def _most_eager(self) -> tuple[int, float]:
        left_out = self.member | self.barred
        slack = max(SLACK, 10.0 * self._unsettled())
        return most_eager(self.c, self.a, self.lam, left_out, self.up, self.down, TIE, self._blur(), slack)

    def _at_the_limit(self) -> int:
        return int(np.count_nonzero(np.abs(self.c) >= self.lam * (1.0 - TIE) - self._blur()))

    def _unsettled(self) -> float:
        """How far the rates of the support are from 1 and -1."""
        k = self.size
        return float(np.abs(self.a[self.features] + self.mu * self.u[:k] - self.signs[:k]).max(initial=0.0))

    def _turn(self) -> None:
        """The direction of the support as it is. Sets: ``u, a``, and what the residuals lose on the way."""
        k, vectors = self.size, self.columns.vectors
        u = self.signs[:k].copy()
        solve_in_place(self.L, k, u)
        self.u[:k] = u
        for attempt in range(CORRECTIONS + 1):
            combination(vectors, self.features, self.u[:k], self.gram.h, self.centred, self._v)
            balanced_v = self._balanced(self._v)
            missing = np.empty(k)
            some_products(vectors, self.features, balanced_v, missing)
            np.subtract(self.signs[:k] - self.mu * self.u[:k], missing, out=missing)
            if attempt == CORRECTIONS or np.abs(missing).max(initial=0.0) <= SETTLED:
                break
            solve_in_place(self.L, k, missing)
            self.u[:k] += missing
        self.a = self.columns.adjoint(balanced_v) if k else np.zeros(self.c.size)
        self.stale = False

    def _enter(self, j: int, sign: float) -> None:
        """Let a column in, and those out that cannot stay with it. Sets: the support, its factor and the direction."""
        if not self._append(j, sign):
            self.barred[j] = True
            return
        refused = False
        while True:
            k = self.size
            new = self.signs[:k].copy()
            solve_in_place(self.L, k, new)
            sizes = np.abs(new) * self.lengths[self.features]
            still = sizes <= STILL * float(sizes.max(initial=0.0))
            wrong = (self.w[:k] == 0.0) & ((new * self.signs[:k] <= 0.0) | still)
            if not wrong.any():
                self.u[:k] = new
                break
            old, falling = self.u[:k], np.flatnonzero(wrong)
            fall = old[falling] - new[falling]
            shares = np.divide(old[falling], fall, out=np.zeros(falling.size), where=fall != 0.0)
            first = int(falling[np.argmin(shares)])
            self.u[:k] += float(shares.min()) * (new - old)
            refused = refused or int(self.support[first]) == j
            self._leave(first)
            self.barred[j] = refused
        self.stale = True

    def _append(self, j: int, sign: float) -> bool:
        """Make a column the last of the support, unless it depends on the others."""
        if self.size == self.support.size:
            self._make_room(2 * self.size)
        if self.gram.place[j] < 0:
            self.gram.add(np.array([j], dtype=np.int64))
        row = self.gram.G[self.gram.place[j]]
        products, own, k = row[self.gram.place[self.features]], float(row[self.gram.place[j]]), self.size
        if own <= CONSTANT * float(self.lengths[j]) ** 2:
            return False
        self.support[k], self.w[k], self.u[k], self.signs[k] = j, 0.0, 0.0, sign
        square = append_row(self.L, k, products, own + self.mu)
        if square <= CLOSE * (own + self.mu):
            square = self._beside_the_support(k, products)
        if square <= PIVOT**2 * (own + self.mu):
            return False
        self.member[j] = True
        self.size += 1
        return True

    def _beside_the_support(self, k: int, products: Float) -> float:
        """The square of what the others leave of column ``k`` of the support, from the vector that is left.

        Products alone have lost half of the digits. The vector tells how far from orthogonal it is to the others, and
        that corrects the row of the factor, as in the method of semi-normal equations (Bjoerck). Sets: row ``k``.
        """
        row, h, columns = self.L[k], self.gram.h, self.support[: k + 1]
        row[:k] = products
        solve_lower(self.L, k, row)
        shares = np.ones(k + 1)
        shares[:k] = -row[:k]
        solve_upper(self.L, k, shares)
        left, missing = np.empty(h.size), np.empty(k)
        for attempt in range(ORTHOGONALISATIONS + 1):
            combination(self.columns.vectors, columns, shares, h, self.centred, left)
            if attempt == ORTHOGONALISATIONS:
                break
            some_products(self.columns.vectors, columns[:k], self._balanced(left), missing)
            missing += self.mu * shares[:k]
            solve_lower(self.L, k, missing)
            row[:k] += missing
            solve_upper(self.L, k, missing)
            shares[:k] -= missing
        used = h > 0.0
        square = float(left[used] @ (left[used] / h[used])) + self.mu * float(shares @ shares)
        row[k] = math.sqrt(square)
        return square

    def _leave(self, i: int) -> None:
        """Take out a column of the support. What depended on it may be needed now. Sets: the support and its factor."""
        k, gone = self.size, self.support[i]
        self.member[gone] = False
        remove_row(self.L, k, i)
        for array in (self.support, self.w, self.u, self.signs):
            array[i : k - 1] = array[i + 1 : k]
        self.size -= 1
        if self._pauses <= MOST_PAUSES:
            self.barred[:] = False
        else:  # they take turns without getting anywhere: what leaves stays out
            self.barred[gone] = True
        self.stale = True
