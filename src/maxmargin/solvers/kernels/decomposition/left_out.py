"""The samples that are not in play, because all of their variables are sure to stay at a bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.problems.box_qp import BoxQP
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.decomposition.variables import Active, Order


class GapNear(NamedTuple):
    """A part of the duality gap as a function of the multipliers, exact as long as no loss changes its piece.

    The losses are lines and parabolas, each from one end of its box to the other, and so is their sum between two kinks.
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


class LeftOut:
    """Which samples are left out, the scores of them that were last known, and what they add to the values."""

    def __init__(self, qp: BoxQP, f: Float) -> None:
        self.qp = qp
        self.f = f  # of every sample; of those in play it may be old
        self.clear()

    def clear(self) -> None:
        """Nothing is left out. Sets: everything but the scores."""
        self.generations: list[tuple[Index, Float]] = []  # samples, and the expansion to which their scores belong
        self.primal = self.dual = 0.0  # part of the variables that are left out in both values
        self.gap = 0.0  # their part of the duality gap

    def __bool__(self) -> bool:
        return bool(self.generations)

    @property
    def samples(self) -> Index:
        """All samples that are left out, ascending."""
        return np.sort(np.concatenate([samples for samples, _ in self.generations]))

    def add(self, samples: Index, a: Float, beta: Float) -> None:
        """Leave out more samples. Their scores belong to the expansion ``beta`` of the variables ``a``."""
        self.generations.append((samples, beta))
        self._add_up(a)

    def forget_scores(self) -> None:
        """Let the next update compute the scores from scratch, as those of an expansion of zeros."""
        out = self.samples
        self.f[out] = 0.0
        self.generations = [(out, np.zeros(self.f.size))]

    def release(self, a: Float, beta: Float, order: Order) -> Index:
        """The samples that may have to move, which are no longer left out. The scores belong to ``beta``."""
        others = self._variables(a)
        e = others.q - others.D * others.a - self.f[others.column]
        back = np.unique(others.column[~others.settled(order, e)])
        rest = np.setdiff1d(self.samples, back)
        self.clear()
        if rest.size:
            self.add(rest, a, beta)
        return back

    def account(self, b: Float) -> None:
        """Let the multipliers be ``b``. Sets: ``primal, gap``.

        The variables are looked at only where ``b`` has left the piece on which their gap is known.
        """
        if not self.generations:
            return
        if self.known is None or not self.known.reaches(b):
            self.known = GapNear(b, *self.others.gap_near(self.pull, b))
        self.gap = self.known.at(b)
        # The gap that each group shares with the variables in play is its multiplier times its sum.
        self.primal = self.dual + self.gap - float(b @ self.sums)

    def _add_up(self, a: Float) -> None:
        """Look at the variables that are left out. Sets: ``others, pull, sums, dual, known``."""
        self.others = t = self._variables(a)
        self.pull = t.q - self.f[t.column]
        self.sums = np.bincount(t.group, weights=t.a, minlength=max(1, t.groups))
        self.dual = 0.5 * float(t.a @ (t.q + self.pull) - t.D @ t.a**2)
        self.known: GapNear | None = None

    def _variables(self, a: Float) -> Active:
        column = np.full(self.f.size, -1)
        column[self.samples] = self.samples
        return Active.of(self.qp, a, column)
