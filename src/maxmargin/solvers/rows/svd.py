"""Ridge regression and least squares by the singular values of the data: for columns that depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh, svd

from maxmargin.operators import Rows
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.normal_equations import DirectSolver, Factor, NormalEquations
from maxmargin.solvers.solver import Needs

LARGEST = 5000  # smaller dimension
DENSE_ENTRIES = 2**27  # of a matrix that is made dense: a gigabyte
DOUBLE_EPS = 2.0**-52


@dataclass(frozen=True)
class SVD(DirectSolver):
    """Least squares of the least norm, by singular values.

    Problem: ``min 1/2 sum_i s_i (x_i.w + b - y_i)^2 + lam |w|^2 / 2`` with any intercept, or without a penalty
    (`Unpenalised`), for columns and rows that may depend on each other: of several solutions, the shortest.

    Method: with the singular values of the weighted and centred rows, ``S^(1/2) A = U diag(sigma) V^T``,
    ``w = V diag(sigma / (sigma^2 + lam)) U^T S^(1/2) t``, where singular values below rounding, ``max(n, d)`` units in
    the last place of the largest, count as zero. Rows that are in chunks or spread over clients are seen through
    ``A^T S A``, whose eigenvalues are ``sigma^2``: singular values below about 1e-7 of the largest are lost there.
    Corrections are found as by `Cholesky`.

    Cost: one iteration with about ``4 n d min(n, d)`` operations, or ``n d^2 + 9 d^3`` through the eigenvalues.

    Reference: Golub, Van Loan, "Matrix computations", 2013, sections 5.5 and 6.1.
    """

    name: ClassVar[str] = "svd"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, linear=True)

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        size = problem.penalised.size
        if _fits(problem):
            size = min(size, problem.features.n_samples)
        if size > LARGEST:
            return f"it decomposes a matrix of size {size} here, and takes up to {LARGEST}"
        return None

    def factor(self, equations: NormalEquations) -> Factor:
        """The decomposition."""
        return _OfRows(equations) if _fits(equations.problem) else _OfProducts(equations)


def _fits(problem: Problem) -> bool:
    """Whether the rows are in memory, and few enough for a dense copy."""
    rows = problem.operator
    return isinstance(rows, Rows) and rows.n_samples * rows.n_features <= DENSE_ENTRIES


class _OfRows:
    """Singular vectors of the rows themselves."""

    def __init__(self, equations: NormalEquations) -> None:
        self.equations, self.root = equations, np.sqrt(equations.s)
        A = equations.matrix() * self.root[:, None]
        U, sigma, Vt = svd(A, full_matrices=False, overwrite_a=True, check_finite=False)
        kept = sigma > max(A.shape) * DOUBLE_EPS * float(sigma.max(initial=0.0))
        self.U, self.sigma, self.Vt = U[:, kept], sigma[kept], Vt[kept]
        self.first = self.correction(equations.t, np.zeros(A.shape[1]))

    def correction(self, residual: Float, theta: Float) -> Float:
        """The share of the residuals in each direction, and what the penalty takes from it."""
        share = self.sigma * (self.U.T @ (self.root * residual)) - self.equations.lam * (self.Vt @ theta)
        return np.asarray(self.Vt.T @ (share / (self.sigma**2 + self.equations.lam)))


class _OfProducts:
    """Eigenvectors of ``A^T S A``."""

    def __init__(self, equations: NormalEquations) -> None:
        self.equations = equations
        G, moments = equations.gram_and_moments()
        values, self.V = eigh(G, overwrite_a=True, check_finite=False)
        kept = values > max(1, len(G)) * DOUBLE_EPS * float(values.max(initial=0.0))
        self.values, self.V = values[kept], self.V[:, kept]
        self.first = self.V @ ((self.V.T @ moments) / (self.values + equations.lam))

    def correction(self, residual: Float, theta: Float) -> Float:
        """The gradient in each direction, divided by the curvature there."""
        gradient = self.equations.adjoint(self.equations.s * residual) - self.equations.lam * theta
        return np.asarray(self.V @ ((self.V.T @ gradient) / (self.values + self.equations.lam)))
