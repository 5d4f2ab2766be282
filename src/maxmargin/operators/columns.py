"""A matrix seen as columns: the rows of its transpose, so the same loops serve both."""

from __future__ import annotations

import numpy as np

from maxmargin.operators.rows import VANISHING_SQUARE, Matrix, Rows, is_sparse
from maxmargin.protocols import Float
from maxmargin.threads import Workers


class Columns:
    """The map ``w -> X w`` for a matrix stored by columns (Fortran order or CSC)."""

    products_passes = 2.0

    def __init__(self, X: Matrix, workers: Workers | None = None) -> None:
        self.transposed = Rows(X.tocsc().T if is_sparse(X) else X.T, workers)
        self.vectors = self.transposed.vectors
        self.n_samples, self.n_features = X.shape
        self.total_samples, self.entries = self.n_samples, self.transposed.entries

    def apply(self, w: Float) -> Float:
        """``X w``."""
        return self.transposed.adjoint(w)

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        return self.transposed.apply(alpha)

    def products(self, w: Float, alpha: Float) -> tuple[Float, Float]:
        """``X w`` and ``X^T alpha``."""
        return self.apply(w), self.adjoint(alpha)

    def squared_lengths(self) -> Float:
        """Squared norms of the columns."""
        return self.transposed.squared_lengths()

    def column_lengths(self) -> Float:
        """Norms of the columns, not smaller than they are."""
        return np.sqrt(self.squared_lengths() + self.n_samples * VANISHING_SQUARE)

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient, in one sum after another."""
        of_scores, of_coefficients = self.transposed.terms()
        return of_coefficients, of_scores

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0
