"""A point inside of a box with prices of its bounds, and Newton's steps to the central path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from maxmargin.problems.box_qp import BoxQP
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.interior_point.matrices import KernelMatrix, Solve

_Response: TypeAlias = tuple[Float, Float, Float]  # of variables, scores and multipliers

KEPT_DISTANCE = 0.005  # share of the way to the nearest bound that a step leaves
ROOM, LEAST_ROOM = 0.1, 1e-3  # of what is usual, at the start, and for a given point that is pulled inside
WEAK = 1e-8  # of the kernel: squares in place of bounds at infinity


@dataclass(frozen=True)
class Aims:
    """What the products of rooms and prices should become, to first order."""

    low: Float | float
    high: Float | float


@dataclass(frozen=True)
class Step:
    """Changes of the variables, of the scores of the samples, of the multipliers, and of the prices."""

    a: Float
    f: Float
    b: Float
    price_low: Float
    price_high: Float


class Inside:
    """Variables that can move, strictly inside of their box; ``below`` and ``above`` are their distances to the bounds.

    A bound at infinity has an infinite distance, and the price zero. At the optimum ``price_low below`` and
    ``price_high above`` are zero, and ``q - f - D a - b + price_low - price_high`` is. ``f`` are the scores of all
    samples, those of variables that cannot move included.
    """

    def __init__(self, qp: BoxQP, matrix: KernelMatrix, a: Float, given: bool) -> None:
        self.qp, self.matrix = qp, matrix
        self.movable: Index = np.flatnonzero(qp.low < qp.high)
        m = self.movable
        self.low, self.high, self.q, self.D, self.sample = qp.low[m], qp.high[m], qp.q[m], qp.D[m], qp.sample[m]
        groups = qp.totals.size
        self.members = np.array([qp.group[m] == g for g in range(groups)], dtype=np.float64).reshape(groups, m.size)
        self.resting = np.where(qp.low < qp.high, 0.0, qp.low)
        self.totals = np.array([t - self.resting[qp.group == g].sum() for g, t in enumerate(qp.totals)])
        self.b = np.zeros(groups)
        self.a, self.below, self.above, self.f = (np.empty(0),) * 4
        self.price_low, self.price_high = np.empty(0), np.empty(0)
        if m.size:
            self._begin(np.asarray(a[m]), given)

    def everything(self, a: Float) -> Float:
        """All variables."""
        out = self.resting.copy()
        out[self.movable] = a
        return out

    def _begin(self, a: Float, given: bool) -> None:
        """A point with room to all sides, and prices to match. Sets: all."""
        half = 0.5 * (self.high - self.low)
        found = self._squares(half)
        size = float(np.minimum(np.abs(found), half).mean()) if half.size else 0.0
        size = size if size > 0.0 else 1.0
        a = a if given else found
        least = np.minimum((LEAST_ROOM if given else ROOM) * size, half)
        low_end = np.where(np.isfinite(self.low), self.low + least, -math.inf)
        high_end = np.where(np.isfinite(self.high), self.high - least, math.inf)
        self.a = np.clip(a, low_end, high_end)
        self.below, self.above = np.maximum(self.a - self.low, least), np.maximum(self.high - self.a, least)
        self.f = self.matrix.times(self.qp.expansion(self.everything(self.a)))
        slope = self.f[self.sample] + self.D * self.a - self.q
        rooms = np.minimum(self.below, self.above)
        rooms = rooms[np.isfinite(rooms)]
        product = max(float(np.abs(slope).mean() * rooms.mean()), 1e-300) if rooms.size else 0.0
        self.price_low, self.price_high = product / self.below, product / self.above

    def _squares(self, half: Float) -> Float:
        """The solution of a problem of squares in place of the bounds: how large variables will be. Sets: all.

        Where functions can follow the targets it does not depend on the box, and elsewhere it grows with that.
        """
        self.a = np.clip(0.0, self.low, self.high)
        self.f = self.matrix.times(self.qp.expansion(self.everything(self.a)))
        self.below = self.above = np.full(self.a.size, math.inf)
        self.price_low = self.price_high = np.zeros(self.a.size)
        d = self.D + np.where(np.isfinite(half) | (self.D > 0.0), 1.0 / half, WEAK * (self._diagonal().mean() or 1.0))
        s = np.sqrt(np.bincount(self.sample, 1.0 / d, self.qp.gram.n_samples))
        solve = self.matrix.solver(s)
        step = None if solve is None else self.step(Aims(0.0, 0.0), solve, s, d)
        return np.zeros(self.a.size) if step is None else self.a + step.a

    def _diagonal(self) -> Float:
        return self.qp.gram.diagonal()[self.sample] / self.qp.lam + self.qp.shift

    @property
    def bounds(self) -> int:
        """How many finite ones there are."""
        return int(np.isfinite(self.low).sum() + np.isfinite(self.high).sum())

    @property
    def product(self) -> float:
        """Mean product of a room and its price."""
        return self.product_after(None, 0.0)

    def product_after(self, step: Step | None, t: float) -> float:
        """The same after ``t`` times a step."""
        total = 0.0
        sides = (
            (self.below, self.price_low, 1.0, None if step is None else step.price_low),
            (self.above, self.price_high, -1.0, None if step is None else step.price_high),
        )
        for room, price, sign, change in sides:
            used = np.isfinite(room)
            if step is None or change is None:
                total += float(room[used] @ price[used])
            else:
                total += float((room + t * sign * step.a)[used] @ (price + t * change)[used])
        return total / max(1, self.bounds)

    @property
    def infeasibility(self) -> float:
        """How far the slopes are from the prices, and the sums from their totals, relative to their sizes."""
        offset = self.b @ self.members if self.b.size else 0.0
        given = self.q - self.f[self.sample] - self.D * self.a - offset
        missing = np.abs(self.totals - self.members @ self.a).sum() / max(float(np.abs(self.a).sum()), 1e-300)
        left, size = given + self.price_low - self.price_high, np.abs(given) + self.price_low + self.price_high
        return float(np.abs(left).sum() / max(float(size.sum()), 1e-300) + missing)

    def stiffness(self) -> Float:
        """Of each variable, from its own part of the program and from the bounds."""
        return np.asarray(self.D + self.price_low / self.below + self.price_high / self.above)

    def step(self, aims: Aims, solve: Solve, s: Float, d: Float) -> Step | None:
        """Newton's step to the products that are aimed at; ``None`` if it is lost in rounding.

        ``solve`` is for ``1 + S K S`` with the square roots ``s`` of the sums of ``1 / d`` over each sample.
        """
        offset = self.b @ self.members if self.b.size else 0.0
        force = self.q - self.f[self.sample] - self.D * self.a - offset + aims.low / self.below - aims.high / self.above
        found = self._response(force, self.totals - self.members @ self.a, solve, s, d)
        if found is None:
            return None
        a, f, b = found
        low = (aims.low - self.price_low * a) / self.below - self.price_low
        high = (aims.high + self.price_high * a) / self.above - self.price_high
        return Step(a, f, b, low, high) if np.isfinite(low).all() and np.isfinite(high).all() else None

    def _response(self, force: Float, missing: Float, solve: Solve, s: Float, d: Float) -> _Response | None:
        """What a force does: ``(K + d) a + b = force`` with given sums. ``None`` if it is lost in rounding."""
        n, right = s.size, np.array([force, *self.members])
        x = np.zeros((right.shape[0], n))
        for row, one in zip(x, right, strict=True):
            r = np.bincount(self.sample, one / d, n)
            row[:] = s * solve(np.divide(r, s, out=np.zeros(n), where=s > 0.0))  # how the expansion changes
        t = np.array([self.matrix.times(row) for row in x])
        alone = self._shared(right, t, x, s, d)
        b = np.zeros(self.b.size)
        if b.size:
            try:
                b = np.linalg.solve(self.members @ alone[1:].T, self.members @ alone[0] - missing)
            except np.linalg.LinAlgError:
                return None
        a = alone[0] - b @ alone[1:]
        return (a, t[0] - b @ t[1:], b) if np.isfinite(a).all() and np.isfinite(b).all() else None

    def _shared(self, forces: Float, t: Float, x: Float, s: Float, d: Float) -> Float:
        """The changes of the variables, for some forces each, that go with changes ``x`` of the expansion.

        They follow from the changes ``t`` of the scores too, but a free variable moves by many times the rounding of
        its score. So what they miss of ``x`` is added in the end.
        """
        changes = (forces - t[:, self.sample]) / d
        for change, wanted in zip(changes, x, strict=True):
            missing = wanted - np.bincount(self.sample, change, s.size)
            change += np.divide(missing, s * s, out=np.zeros_like(missing), where=s > 0.0)[self.sample] / d
        return changes

    def longest(self, step: Step) -> float:
        """The largest multiple of a step, up to 1, that stays inside."""
        fall = 0.0
        for value, change in (
            (self.below, step.a),
            (self.above, -step.a),
            (self.price_low, step.price_low),
            (self.price_high, step.price_high),
        ):
            used = np.isfinite(value) & (value > 0.0)
            fall = max(fall, float((-change[used] / value[used]).max(initial=0.0)))
        return min(1.0, (1.0 - KEPT_DISTANCE) / fall) if fall > 0.0 else 1.0

    def move(self, step: Step, t: float) -> None:
        """Take ``t`` times a step. Sets: all."""
        self.a, self.below, self.above = self.a + t * step.a, self.below + t * step.a, self.above - t * step.a
        self.price_low, self.price_high = self.price_low + t * step.price_low, self.price_high + t * step.price_high
        self.b = self.b + t * step.b
        # Larger numbers round; of a variable and its two distances, the smaller distance counts.
        near_low = self.below <= self.above
        with np.errstate(invalid="ignore"):
            self.a = np.where(near_low & np.isfinite(self.low), self.low + self.below, self.a)
            self.a = np.where(~near_low & np.isfinite(self.high), self.high - self.above, self.a)
            self.below = np.where(near_low | np.isinf(self.low), self.below, self.a - self.low)
            self.above = np.where(near_low & np.isfinite(self.high), self.high - self.a, self.above)
        self.f = self.matrix.times(self.qp.expansion(self.everything(self.a)))

    def rounded(self, solve: Solve, s: Float, d: Float) -> Float:
        """All variables: those on a bound that the minimum along them alone would bring there, and the others after.

        What is rounded away is felt by all scores, and the free variables answer to that.
        """
        pressure, stiffness = self.price_low - self.price_high, self.D + self._diagonal()
        at_low, at_high = pressure > stiffness * self.below, -pressure > stiffness * self.above
        a = np.where(at_low, self.low, np.where(at_high, self.high, self.a))
        change = a - self.a
        felt = self.matrix.times(self.qp.expansion(self.everything(a)) - self.qp.expansion(self.everything(self.a)))
        found = self._response(-(felt[self.sample] + self.D * change), -(self.members @ change), solve, s, d)
        answer = 0.0 if found is None else found[0]
        return self.everything(np.where(at_low | at_high, a, np.clip(a + answer, self.low, self.high)))
