"""The variables in play, and their order by the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.problems.box_qp import BoxQP
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels import block_loops as loops


class Order(NamedTuple):
    """Where the variables would like to go, and by how much the point violates optimality."""

    e: Float  # minus the gradient
    up: Float  # of each group, the largest ``e`` of a variable that may rise
    down: Float  # of each group, the smallest ``e`` of a variable that may fall
    middle: Float  # of each group, between these two: the multiplier of its sum
    violation: float


class Anchor(NamedTuple):
    """A point of the variables in play whose dual value is known, that of the others included.

    The slope of the dual changes evenly on a straight way. So as long as the others rest, the value elsewhere follows
    from the slopes at both ends, whatever the scores of the others are by now.
    """

    a: Float
    e: Float
    dual: float

    def dual_at(self, a: Float, e: Float) -> float:
        """The dual value where the variables in play are ``a`` and minus the gradient is ``e``."""
        return self.dual + 0.5 * float((a - self.a) @ (self.e + e))


class GapNear(NamedTuple):
    """A part of the duality gap as a function of the multipliers, exact as long as no loss changes its piece.

    The losses consist of lines and parabolas, and so does their sum: between two kinks it is one parabola.
    """

    b: Float  # the multipliers that were looked at
    value: float  # there
    slope: Float  # of each group
    curvature: Float
    fall: Float  # how much smaller each multiplier may be
    rise: Float  # and how much larger

    def reaches(self, b: Float) -> bool:
        """Whether the function is known at ``b``."""
        return bool(np.all((b - self.b <= self.rise) & (self.b - b <= self.fall)))

    def at(self, b: Float) -> float:
        """The part at ``b``."""
        change = b - self.b
        return self.value + float(change @ (self.slope + 0.5 * self.curvature * change))


@dataclass
class Active:
    """Some variables, side by side in memory: scans over them are what a block costs if no row is missing."""

    variable: Index  # their numbers, ascending
    column: Index  # the place of each one's sample among the scores
    a: Float
    q: Float
    low: Float
    high: Float
    D: Float
    group: Index  # 0 everywhere if there are no groups
    groups: int  # how many of them have a fixed sum
    age: Index  # for how many blocks each variable has been settled

    @classmethod
    def of(cls, qp: BoxQP, a: Float, column: Index) -> Active:
        """The variables whose sample has a column; the others have -1."""
        v, groups = np.flatnonzero(column[qp.sample] >= 0), qp.totals.size
        group, age = qp.group[v] if groups > 1 else np.zeros(v.size, dtype=np.int64), np.zeros(v.size, dtype=np.int64)
        return cls(v, column[qp.sample[v]], a[v], qp.q[v], qp.low[v], qp.high[v], qp.D[v], group, groups, age)

    @property
    def rises(self) -> Array:
        """Whether each variable may rise."""
        return np.asarray(self.a < self.high)

    @property
    def falls(self) -> Array:
        """Whether each variable may fall."""
        return np.asarray(self.a > self.low)

    def order(self, f: Float) -> Order:
        """The order at the scores ``f``."""
        e, up, down = loops.order(self.a, f, self.column, self.q, self.D, self.low, self.high, self.group, self.groups)
        if self.groups == 0:
            return Order(e, up, down, np.zeros(1), max(0.0, float(up[0]), -float(down[0])))
        # Where no variable can rise, or none can fall, the other end serves as the multiplier.
        ends = [[end for end in pair if math.isfinite(end)] or [0.0] for pair in zip(up, down, strict=True)]
        return Order(e, up, down, np.array([np.mean(pair) for pair in ends]), max(0.0, float((up - down).max())))

    def settled(self, order: Order, e: Float) -> Array:
        """Whether each variable is sure to stay at its bound, as the ends of an order tell."""
        return loops.settled(self.a, e, self.low, self.high, self.group, order.up, order.down)

    def dual(self, e: Float) -> float:
        """The part of these variables in the dual value."""
        return 0.5 * float(self.a @ (self.q + e))

    def gap(self, e: Float, b: Float) -> float:
        """The part of these variables in the duality gap at the multipliers ``b``."""
        return loops.gap_at(self.a, e, self.low, self.high, self.D, self.group, b)

    def gap_near(self, e: Float, b: Float) -> GapNear:
        """That part as a function of the multipliers near ``b``."""
        rest = loops.gap_near(self.a, e, self.low, self.high, self.D, self.group, b)
        return GapNear(b, self.gap(e, b), *rest)
