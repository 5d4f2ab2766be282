"""The softmax problem: logistic regression of several classes at once, with its primal and dual value.

    P(W, b) = sum_i s_i [log sum_c exp(z_ic) - z_i,y_i] + lam / 2 |W|^2,  z_i = W x_i + b
    D(A)    = sum_i s_i H(p_i) - |A^T X|^2 / (2 lam),  p_i = onehot(y_i) - a_i / s_i in the simplex

``H`` is the entropy. At the optimum ``p_i`` are the probabilities of the classes. What a point of it holds, and what
intercepts are, is that of all `ClassesProblem`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin._jit import compiled
from maxmargin.problems.classes import ClassesProblem
from maxmargin.protocols import Float, Index


@dataclass(frozen=True, eq=False)
class SoftmaxProblem(ClassesProblem):
    """Minimise ``sum_i s_i (log sum_c exp(z_ic) - z_i,y_i) + lam / 2 |W|^2``, where ``Z = X W^T + b``.

    ``y`` holds the class of each sample as a number from 0 to ``n_classes - 1``.
    """

    def losses(self, Z: Float) -> float:
        """``sum_i s_i (log sum_c exp(z_ic) - z_i,y_i)``."""
        return float(_losses(Z, self.y, self.s))

    def slopes(self, Z: Float) -> Float:
        """``s_i (onehot(y_i) - p_i)`` with the probabilities of the scores."""
        return _slopes(Z, self.y, self.s)

    def conjugates(self, A: Float) -> float:
        """Minus the entropies."""
        return -float(_entropies(A, self.y, self.s))

    def steepest(self, Z: Float, slack: Float) -> Float:
        """Slopes change by at most twice the weight times the largest change of a score."""
        return np.abs(self.slopes(Z)) + (2.0 * self.s * np.minimum(slack, 1.0))[:, None]

    @property
    def reach(self) -> float:
        """The largest entropy."""
        return math.log(self.n_classes)


@compiled
def _losses(Z: Float, y: Index, s: Float) -> float:
    total = 0.0
    for i in range(Z.shape[0]):
        if s[i] > 0.0:
            z, own = Z[i], Z[i, y[i]]
            top = 0.0
            for c in range(z.shape[0]):
                top = max(top, z[c] - own)
            rest = 0.0  # of the other classes
            for c in range(z.shape[0]):
                if c != y[i]:
                    rest += math.exp(z[c] - own - top)
            if top == 0.0:  # small losses keep their digits
                total += s[i] * math.log1p(rest)
            else:
                total += s[i] * (top + math.log(math.exp(-top) + rest))
    return total


@compiled
def _slopes(Z: Float, y: Index, s: Float) -> Float:
    A = np.zeros(Z.shape)
    for i in range(Z.shape[0]):
        if s[i] > 0.0:
            z, a, own = Z[i], A[i], Z[i, y[i]]
            top = 0.0
            for c in range(z.shape[0]):
                top = max(top, z[c] - own)
            rest = 0.0
            for c in range(z.shape[0]):
                if c != y[i]:
                    a[c] = math.exp(z[c] - own - top)
                    rest += a[c]
            scale = s[i] / (math.exp(-top) + rest)
            for c in range(z.shape[0]):
                a[c] *= -scale
            a[y[i]] = scale * rest
    return A


@compiled
def _entropies(A: Float, y: Index, s: Float) -> float:
    """``sum_i s_i H(onehot(y_i) - a_i / s_i)``."""
    total = 0.0
    for i in range(A.shape[0]):
        if s[i] > 0.0:
            rest = 0.0
            for c in range(A.shape[1]):
                p = -A[i, c] / s[i]
                if c != y[i] and p > 0.0:
                    total -= s[i] * p * math.log(p)
                    rest += p
            if rest < 1.0:
                total -= s[i] * (1.0 - rest) * math.log1p(-rest)
    return total
