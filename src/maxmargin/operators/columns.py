"""A matrix seen as columns: the rows of its transpose, so the same loops serve both."""

from __future__ import annotations

from maxmargin.operators.rows import Matrix, combination, is_sparse, products_with, squared_lengths, vectors_of
from maxmargin.protocols import Float


class Columns:
    """The map ``w -> X w`` for a matrix stored by columns (Fortran order or CSC)."""

    def __init__(self, X: Matrix) -> None:
        self.vectors = vectors_of(X.tocsc().T if is_sparse(X) else X.T)
        self.n_samples, self.n_features = X.shape

    def apply(self, w: Float) -> Float:
        """``X w``."""
        return combination(self.vectors, w, self.n_samples)

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``."""
        return products_with(self.vectors, self.n_features, alpha)

    def squared_lengths(self) -> Float:
        """Squared norms of the columns."""
        return squared_lengths(self.vectors, self.n_features)

    def passes(self, w: Float) -> float:
        """One product reads the matrix once."""
        return 1.0
