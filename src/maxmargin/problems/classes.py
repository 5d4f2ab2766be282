"""Problems of several classes at once: what all of them share, whatever the loss of the scores of a sample.

    P(W, b) = sum_i s_i loss(z_i, y_i) + lam / 2 |W|^2,  z_i = W x_i + b
    D(A)    = -sum_i s_i loss*(-a_i / s_i, y_i) - |A^T X|^2 / (2 lam)

The losses depend on differences of scores only. So rows of the dual variables ``A``, which has a row per sample and a
column per class, have the sum zero: ``a_i = s_i (onehot(y_i) - p_i)`` with ``p_i`` in the simplex. At the optimum
``lam W = A^T X``. A free intercept adds the constraint that every column of ``A`` has the sum zero. A penalised one is
the coefficient ``b / scale`` of a column that holds ``scale`` everywhere.

In a `Point` of such a problem, ``w`` is the matrix ``[W b]`` (``W`` without an intercept), one row per class, raveled;
``alpha`` is ``A`` raveled, and ``b`` is 0: the intercepts are the last column of ``w``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.problems.point import UNKNOWN, Certificate, ConvexProblem, Point
from maxmargin.problems.rounding import CONJUGATE_UNITS, SCORE_UNITS, certificate_of
from maxmargin.protocols import Float, Index, Intercept, LocalRows


@dataclass(frozen=True, eq=False)
class ClassesProblem(ABC, ConvexProblem):
    """Minimise ``sum_i s_i loss(z_i, y_i) + lam / 2 |W|^2``, where ``Z = X W^T + b`` has a score for each class.

    ``y`` holds the class of each sample as a number from 0 to ``n_classes - 1``.
    """

    operator: LocalRows
    y: Index
    n_classes: int
    lam: float
    s: Float
    intercept: Intercept = "free"
    intercept_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.y.size and not 0 <= self.y.min() <= self.y.max() < self.n_classes:
            raise ValueError(
                f"Classes are numbered from 0 to {self.n_classes - 1}; y has values from {self.y.min()} to "
                f"{self.y.max()}."
            )

    @abstractmethod
    def losses(self, Z: Float) -> float:
        """``sum_i s_i loss(z_i, y_i)``."""

    @abstractmethod
    def slopes(self, Z: Float) -> Float:
        """Minus a subgradient of the losses: the dual variables that the scores suggest."""

    @abstractmethod
    def conjugates(self, A: Float) -> float:
        """``sum_i s_i loss*`` at minus feasible dual variables, without the own score; at most zero."""

    @abstractmethod
    def steepest(self, Z: Float, slack: Float) -> Float:
        """The largest weighted slope of each score, where those of sample ``i`` may be wrong by ``slack_i``."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """What minus the conjugate of one sample of weight 1 is at most."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix of coefficients: a row per class, a column per feature and one for the intercept, if any."""
        return self.n_classes, self.operator.n_features + (self.intercept is not None)

    @property
    def ridge(self) -> Float:
        """Strength of the penalty on each column of the coefficients: zero for a free intercept."""
        ridge = np.full(self.shape[1], self.lam)
        if self.intercept is not None:
            ridge[-1] = 0.0 if self.free_intercept else self.lam / self.intercept_scale**2
        return ridge

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept without a penalty, which balances the dual variables of every class."""
        return self.intercept == "free"

    def fits(self, point: Point) -> bool:
        """Whether a point has as many coefficients and dual variables as this problem."""
        variables = self.y.size * self.n_classes
        return point.w.size == math.prod(self.shape) and point.alpha is not None and point.alpha.size == variables

    def certify(self, point: Point) -> Certificate:
        """Primal and dual value at a point, recomputed from the data."""
        if not np.isfinite(point.w).all():
            return UNKNOWN
        theta = point.w.reshape(self.shape)
        Z = self.scores(theta)
        A = self.feasible(self.slopes(Z) if point.alpha is None else point.alpha.reshape(Z.shape))
        losses, penalty = self.losses(Z), 0.5 * float((self.ridge * theta * theta).sum())
        V, penalised = self.coefficients(A), self.ridge > 0.0
        conjugate = 0.5 * float((V[:, penalised] * (V[:, penalised] / self.ridge[penalised])).sum())
        conjugates = self.conjugates(A)
        primal_error = self._error_of_losses(theta, Z, losses) + growth(theta.size) * penalty
        dual_error = self._dual_error(A, np.abs(V), abs(conjugates), conjugate)
        return certificate_of(losses + penalty, -conjugates - conjugate, primal_error, dual_error, 2.0)

    def _error_of_losses(self, theta: Float, Z: Float, losses: float) -> float:
        """As `problems.rounding` bounds that of one score per sample: each class has a score, and a slope in it."""
        lengths, size = self._column_lengths, np.abs(Z).max(axis=1, initial=0.0) + np.abs(theta).max(initial=0.0)
        reach = growth(self.operator.terms()[0]) * (np.abs(theta) @ lengths)
        units = SCORE_UNITS * DOUBLE * size
        steepest = self.steepest(Z, reach.max(initial=0.0) + units)
        from_scores = float(np.linalg.norm(steepest, axis=0) @ reach)
        return from_scores + float(steepest.sum(axis=1) @ units) + growth(Z.size) * losses

    def _dual_error(self, A: Float, V: Float, conjugates: float, conjugate: float) -> float:
        """Of the losses' conjugates and the penalty's, whose coefficients ``V`` have no sign here.

        Where the columns of ``A`` have to be balanced, what is missing can be had by mixing with variables that are
        balanced, a share of them as large as what is missing in the weight of a class.
        """
        sizes, n = np.abs(A), self.y.size
        missing = 0.0
        if self.free_intercept and n:
            weight = np.bincount(self.y, weights=self.s, minlength=self.n_classes)
            lacking = np.abs(A.sum(axis=0)) + growth(n) * sizes.sum(axis=0)
            missing = float((lacking / np.where(weight > 0.0, weight, math.inf)).max(initial=0.0))
        of_sums = (growth(n) + missing) * np.outer(np.linalg.norm(A, axis=0), self._column_lengths)
        of_mixing = missing * float(np.linalg.norm(self.s)) * self._column_lengths
        penalised = self.ridge > 0.0
        errors, inverse = (of_sums + of_mixing)[:, penalised], 1.0 / self.ridge[penalised]
        error = float(((V[:, penalised] + 0.5 * errors) * errors * inverse).sum())
        error += (growth(A.size) + missing) * (conjugates + conjugate) + CONJUGATE_UNITS * DOUBLE * float(sizes.sum())
        return error + missing * self.reach * float(self.s.sum())

    @property
    def _column_lengths(self) -> Float:
        """Norms of the columns, with that of the intercept's if there is one."""
        lengths = self.operator.column_lengths()
        return np.append(lengths, math.sqrt(self.y.size)) if self.intercept is not None else lengths

    def scores(self, theta: Float) -> Float:
        """``Z``: a row per sample, a column per class."""
        d = self.operator.n_features
        Z = self.operator.apply_each(theta[:, :d])
        return Z + theta[:, d] if self.intercept is not None else Z

    def coefficients(self, A: Float) -> Float:
        """``A^T X``, with a column for the sums of ``A`` if there is an intercept."""
        V = self.operator.adjoint_each(A)
        return np.column_stack([V, A.sum(axis=0)]) if self.intercept is not None else V

    def feasible(self, A: Float) -> Float:
        """A dual feasible point near ``A``: each row in its simplex and, if the intercept is free, columns of sum zero.

        Columns are balanced by mixing the probabilities with the same ones for all samples: just as much of them, and
        of each class, that every class has its share of the weight in the end. A class without weight has no share.
        """
        if not self.free_intercept:
            return _into_simplex(A, self.y, self.s)
        weight = np.bincount(self.y, weights=self.s, minlength=self.n_classes)
        A = _into_simplex(A if weight.all() else np.where(weight > 0.0, A, 0.0), self.y, self.s)
        excess = A.sum(axis=0)
        rounding = 1e-14 * math.sqrt(A.shape[0]) * np.abs(A).sum(axis=0)
        if (np.abs(excess) <= rounding).all():
            return A
        share = float((np.maximum(-excess, 0.0) / np.maximum(weight - excess, 1e-300)).max())  # of the mixture
        common = np.maximum(share * weight + (1.0 - share) * excess, 0.0) / weight.sum()
        return _into_simplex((1.0 - share) * A - self.s[:, None] * common, self.y, self.s)


@compiled
def _into_simplex(A: Float, y: Index, s: Float) -> Float:
    """The entries of the other classes cut at zero and, if their sum is too large, scaled; the own one follows."""
    out = np.zeros(A.shape)
    for i in range(A.shape[0]):
        if s[i] > 0.0:
            rest = 0.0
            for c in range(A.shape[1]):
                if c != y[i]:
                    out[i, c] = min(A[i, c], 0.0)
                    rest -= out[i, c]
            if rest > s[i]:
                for c in range(A.shape[1]):
                    out[i, c] *= s[i] / rest
                rest = s[i]
            out[i, y[i]] = rest
    return out
