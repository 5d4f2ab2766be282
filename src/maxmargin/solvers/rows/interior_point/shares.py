"""Coefficients with limits or an L1 penalty as differences of two shares, which have a box as dual variables have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.operators import Bordered
from maxmargin.parts.penalties import L2, Bounded, strengths
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float
from maxmargin.solvers.rows.interior_point import loops
from maxmargin.solvers.rows.interior_point.loops import Box, Inside

NEGLIGIBLE = 1e-2  # of the first products: the least curvature with which shares that have none begin


@dataclass
class Shares:
    """``theta_j = q_1j - q_2j`` where ``0 <= q <= cap``, with ``D q^2 / 2 - reward q`` for each share.

    Coefficients whose penalty is a parabola without an end, and a free intercept, have none. With an L2 penalty there
    are no shares at all, and every array is empty.
    """

    box: Box
    inside: Inside
    divided: Array  # whether a coefficient has shares
    fixed: Array  # whether its limits leave it no room but zero
    along: Float  # the curvature of the losses along each coefficient, at the last step

    @classmethod
    def of(cls, problem: Problem, bordered: Bordered) -> Shares:
        """Those of a problem, all of them zero."""
        size, penalised = bordered.size, bordered.penalised
        l1, ridge = strengths(problem.penalty)
        ends = np.full((0 if isinstance(problem.penalty, L2) else 2, size), np.inf)
        ends[:, penalised:] = 0.0
        if isinstance(problem.penalty, Bounded):
            d = problem.penalty.low.size
            ends[0, :d], ends[1, :d] = problem.penalty.high, -problem.penalty.low
        fixed = np.zeros(size, dtype=np.bool_)
        if len(ends):
            fixed[:penalised] = (ends[:, :penalised] == 0.0).all(axis=0)
            if l1 == 0.0:
                ends[:, (ends == np.inf).all(axis=0)] = 0.0
        sign = np.ones_like(ends)
        sign[1:] = -1.0
        box = Box(sign, np.full_like(ends, -l1), np.full_like(ends, ridge), ends)
        inside = Inside(*(np.zeros_like(ends) for _ in range(4)))
        divided = np.asarray((ends > 0.0).any(axis=0))
        return cls(box, inside, divided, fixed, np.zeros(size))

    @property
    def bounds(self) -> int:
        """Bounds of the box that have a price."""
        cap = self.box.cap
        return int(np.count_nonzero(cap) + np.count_nonzero((cap > 0.0) & np.isfinite(cap)))

    def begin(self, theta: Float, v: Float, mu: float) -> None:
        """Near given coefficients, with ``v = X^T alpha``. Sets: the shares, and ``theta``."""
        np.minimum(np.maximum(self.box.sign * theta, 0.0), self.box.cap, out=self.inside.p)
        least = NEGLIGIBLE * self.box.reward**2 / mu
        loops.settle(self.box._replace(D=np.maximum(self.box.D, least)), self.inside, -v, mu)
        self.join(theta)

    def join(self, theta: Float, q: Float | None = None) -> None:
        """The coefficients that are divided, as the differences of their shares. Sets: ``theta``."""
        theta[self.divided] = (self.box.sign * (self.inside.p if q is None else q)).sum(axis=0)[self.divided]
        theta[self.fixed] = 0.0

    def rounded(self, theta: Float) -> Float:
        """The coefficients, with shares at zero or at their end that the minimum along them alone would bring there."""
        theta = theta.copy()
        self.join(theta, loops.rounded(self.box, self.inside, self.along))
        return theta
