"""The samples that are not in play, because all of their variables are sure to stay at a bound."""

from __future__ import annotations

import numpy as np

from maxmargin.problems.box_qp import BoxQP
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.decomposition.variables import Active, GapNear, Order


class LeftOut:
    """Which samples are left out, the scores of them that were last known, and what they add to the values."""

    def __init__(self, qp: BoxQP, f: Float) -> None:
        self.qp = qp
        self.f = f  # of every sample; of those in play it may be old
        self.clear()

    def clear(self) -> None:
        """Nothing is left out. Sets: everything but the scores."""
        self.generations: list[tuple[Index, Float]] = []  # samples, and the expansion to which their scores belong
        self.known: GapNear | None = None  # since the last look at the variables that are left out
        self.gap = 0.0  # the part of the variables that are left out in the duality gap

    def __bool__(self) -> bool:
        return bool(self.generations)

    @property
    def samples(self) -> Index:
        """All samples that are left out, ascending."""
        return np.sort(np.concatenate([samples for samples, _ in self.generations]))

    def add(self, samples: Index, a: Float, beta: Float) -> None:
        """Leave out more samples. Their scores belong to the expansion ``beta`` of the variables ``a``."""
        self.generations.append((samples, beta))
        self.others, self.known = self._variables(a), None

    def forget_scores(self) -> None:
        """Let the next update compute the scores from scratch, as those of an expansion of zeros."""
        out = self.samples
        self.f[out] = 0.0
        self.generations = [(out, np.zeros(self.f.size))]

    def release(self, a: Float, beta: Float, order: Order) -> Index:
        """The samples that may have to move, which are no longer left out. The scores belong to ``beta``."""
        others = self._variables(a)
        e = self._slopes(others)
        back = np.unique(others.column[~others.settled(order, e)])
        rest = np.setdiff1d(self.samples, back)
        self.clear()
        if rest.size:
            self.add(rest, a, beta)
        return back

    def account(self, b: Float) -> None:
        """Let the multipliers be ``b``. Sets: ``gap``.

        The variables are looked at only where ``b`` has left the piece on which their gap is known.
        """
        if not self.generations:
            return
        if self.known is None or not self.known.reaches(b):
            self.known = self.others.gap_near(self._slopes(self.others), b)
        self.gap = self.known.at(b)

    @property
    def dual(self) -> float:
        """Their part of the dual value, if their scores are up to date."""
        return self.others.dual(self._slopes(self.others)) if self.generations else 0.0

    def _slopes(self, others: Active) -> Float:
        """Minus the gradient at the scores that were last known."""
        return others.q - others.D * others.a - self.f[others.column]

    def _variables(self, a: Float) -> Active:
        column = np.full(self.f.size, -1)
        column[self.samples] = self.samples
        return Active.of(self.qp, a, column)
