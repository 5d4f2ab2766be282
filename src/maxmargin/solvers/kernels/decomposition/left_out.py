"""The samples that are not in play, because all of their variables are sure to stay at a bound."""

from __future__ import annotations

import numpy as np

from maxmargin.problems.box_qp import BoxQP
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.decomposition.variables import Active, Order


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
        self.generations = [(rest, beta)] if rest.size else []
        return back

    def account(self, a: Float, middle: Float) -> None:
        """Look at the variables that are left out, at some multipliers. Sets: ``primal, dual, gap``."""
        if not self.generations:
            self.clear()
            return
        others = self._variables(a)
        pull = others.q - self.f[others.column]
        quadratic, linear, support = others.values(pull - others.D * others.a, middle)
        self.primal, self.dual = quadratic + support, linear - quadratic
        pull -= middle[others.group]
        self.gap = float(support - pull @ others.a + 0.5 * (others.D @ others.a**2))

    def _variables(self, a: Float) -> Active:
        column = np.full(self.f.size, -1)
        column[self.samples] = self.samples
        return Active.of(self.qp, a, column)
