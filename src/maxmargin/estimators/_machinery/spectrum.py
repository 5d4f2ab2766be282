"""Ridge regression for all strengths at once, from one decomposition, and its predictions of samples left out."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, svd

from maxmargin.operators import Rows
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.normal_equations import NormalEquations

LARGEST = 10_000  # smaller dimension


class Spectrum:
    """The eigenvectors of ``S^(1/2) A A^T S^(1/2)`` for the centred rows ``A`` of a problem, or of ``A^T S A``.

    The residuals of a fit with the strength ``alpha`` are ``c = u - Q diag(1 / (e + alpha)) Q^T u`` times ``S^(-1/2)``,
    with ``u = S^(1/2) t``. A sample that is left out has ``c_i / (1 - h_i)`` instead, where ``h`` is the diagonal of
    the map from targets to fitted values: no fit has to be repeated.

    Reference: Golub, Heath, Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter",
    1979; Rifkin, Lippert, "Notes on regularized least squares", 2007.
    """

    def __init__(self, problem: Problem, *, of_rows: bool = False) -> None:
        self.equations = e = NormalEquations.of(problem)
        n, d = problem.y.size, e.bordered.size
        self.share = problem.s / problem.s.sum() if e.mean_x is not None else np.zeros(n)  # of each sample in the mean
        self.root = np.sqrt(e.s)
        self.wide = not of_rows and n < d
        if min(n, d) > LARGEST:
            raise ValueError(
                f"A decomposition of {min(n, d)} samples and features at once takes too long; use fits of their own, "
                f"with cv=5 for example. Up to {LARGEST} are taken."
            )
        if self.wide:
            K = self.root[:, None] * e.row_gram() * self.root
            if e.mean_x is not None:  # the direction that centring takes away becomes the last one, far from all others
                K += (float(K.trace()) or 1.0) * np.sqrt(self.share)[:, None] * np.sqrt(self.share)
            self.values, self.Q = eigh(K, check_finite=False)
            self.values = np.maximum(self.values, 0.0)
            return
        if of_rows:
            _, sigma, Vt = svd(e.matrix() * self.root[:, None], full_matrices=False, check_finite=False)
            self.values, self.V = sigma**2, Vt.T
        else:
            self.values, self.V = eigh(e.gram(), check_finite=False)
            self.values = np.maximum(self.values, 0.0)
        rows = problem.operator
        assert isinstance(rows, Rows)
        self.Q = np.asarray(rows.matrix @ self.V)
        if e.mean_x is not None:
            self.Q = self.Q - e.mean_x @ self.V
        self.Q *= self.root[:, None]

    def coefficients(self, T: Float, alpha: float) -> Float:
        """The coefficients for centred targets, a column of ``T`` for each, as rows. ``alpha`` is positive."""
        U = self.root[:, None] * T
        if self.wide:
            A = self.root[:, None] * (self.Q @ ((self.Q.T @ U) / (self.values + alpha)[:, None]))
            return np.array([self.equations.adjoint(a) for a in np.ascontiguousarray(A.T)])
        return np.asarray((self.V @ ((self.Q.T @ U) / (self.values + alpha)[:, None])).T)

    def left_out(self, T: Float, alpha: float) -> Float:
        """The errors of centred targets, times the roots of the weights, if each sample is left out in its turn."""
        U = self.root[:, None] * T
        if self.wide:
            rest = alpha / (self.values + alpha)
            if self.equations.mean_x is not None:
                rest[-1] = 0.0  # where 1 - 1 would be all that small strengths leave
            errors, kept = self.Q @ (rest[:, None] * (self.Q.T @ U)), (self.Q * self.Q) @ rest
        else:
            inverse = 1.0 / (self.values + alpha)
            errors = U - self.Q @ (inverse[:, None] * (self.Q.T @ U))
            kept = 1.0 - (self.Q * self.Q) @ inverse - self.share
        with np.errstate(all="ignore"):  # a sample that alone decides its own fitted value
            return np.where(errors == 0.0, 0.0, errors / np.maximum(kept, np.finfo(float).tiny)[:, None])
