"""The machine of Crammer and Singer: a hinge for several classes at once, with its primal and dual value.

    P(W, b) = sum_i s_i max_c (z_ic - z_i,y_i + [c != y_i]) + lam / 2 |W|^2,  z_i = W x_i + b
    D(A)    = sum_i a_i,y_i - |A^T X|^2 / (2 lam),  a_ic <= 0 for c != y_i, a_i,y_i <= s_i, row sums zero

The own class of a sample has to be ahead of all others by a margin of 1. What a point of it holds, and what intercepts
are, is that of all `ClassesProblem`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.problems.classes import ClassesProblem
from maxmargin.protocols import Float


@dataclass(frozen=True, eq=False)
class CrammerSingerProblem(ClassesProblem):
    """Minimise ``sum_i s_i max_c (z_ic - z_i,y_i + [c != y_i]) + lam / 2 |W|^2``, where ``Z = X W^T + b``.

    ``y`` holds the class of each sample as a number from 0 to ``n_classes - 1``.
    """

    def losses(self, Z: Float) -> float:
        """``sum_i s_i max_c (z_ic - z_i,y_i + [c != y_i])``."""
        return float(self.s @ self._behind(Z).max(axis=1, initial=0.0))

    def slopes(self, Z: Float) -> Float:
        """All weight on the class that is ahead with its margin, on none if that is the own one."""
        behind, A = self._behind(Z), np.zeros(Z.shape)
        ahead = behind.argmax(axis=1)
        late = np.flatnonzero(behind[np.arange(self.y.size), ahead] > 0.0)
        A[late, ahead[late]] -= self.s[late]
        A[late, self.y[late]] += self.s[late]
        return A

    def conjugates(self, A: Float) -> float:
        """Minus the weight that is on other classes."""
        return -float(A[np.arange(self.y.size), self.y].sum())

    def steepest(self, Z: Float, slack: Float) -> Float:
        """The weight, wherever a class may be the one that counts."""
        behind, rows = self._behind(Z), np.arange(self.y.size)
        near = behind >= behind.max(axis=1, initial=0.0)[:, None] - 4.0 * slack[:, None]
        near[rows, self.y] = False
        near[rows, self.y] = near.any(axis=1)
        return np.where(near, self.s[:, None], 0.0)

    @property
    def reach(self) -> float:
        """The margin."""
        return 1.0

    def _behind(self, Z: Float) -> Float:
        """How far the own class is behind each other one with its margin; zero for itself."""
        rows = np.arange(self.y.size)
        behind = Z - Z[rows, self.y][:, None] + 1.0
        behind[rows, self.y] = 0.0
        return behind
