"""Rows with a column for the intercept, whose other columns are centred if that has no penalty."""

from __future__ import annotations

import numpy as np

from maxmargin.operators.bordered import Bordered
from maxmargin.protocols import Float

CONSTANT = 1e-8  # of the squares of a column: what centring leaves of one that is constant is only rounding


class Centred:
    """The map from ``theta`` to the scores ``(X - 1 m^T) w + b'`` with the weighted means ``m`` of the columns.

    It is that of `Bordered` with ``b' = b + m.w`` in the place of ``b``, so the functions are the same. But gradients
    with respect to ``w`` and ``b'`` hardly depend on each other, wherever the rows lie. Columns are centred only if
    the intercept is free; nothing is stored, and sparse rows stay sparse.

    Parameters
    ----------
    bordered : Bordered
        The rows, with the column of an intercept of any kind.
    s : array of shape (n_samples,)
        Weights of our own samples.

    Attributes
    ----------
    total : float
        Of the weights of all samples.
    means : array of shape (size,)
        Of the columns; zero if they are not centred.

    """

    def __init__(self, bordered: Bordered, s: Float) -> None:
        self.bordered, self.size, self.penalised = bordered, bordered.size, bordered.penalised
        self.total = float(bordered.communicator.allreduce(np.array([s.sum()]))[0])
        self.means = np.zeros(self.size)
        if self.penalised < self.size and self.total > 0.0:
            self.means[:-1] = bordered.adjoint(s)[:-1] / self.total

    def join(self, w: Float, b: float) -> Float:
        """The coefficients ``theta`` of a point."""
        theta = self.bordered.join(w, b)
        theta[-1:] += float(self.means @ theta)
        return theta

    def split(self, theta: Float) -> tuple[Float, float]:
        """``w`` and the intercept of the rows as they were given."""
        return self.bordered.split(self._uncentred(theta))

    def apply(self, theta: Float) -> Float:
        """The scores of our own rows."""
        return self.bordered.apply(self._uncentred(theta))

    def adjoint(self, alpha: Float) -> Float:
        """The adjoint of `apply`, for the rows of all clients."""
        v = self.bordered.adjoint(alpha)
        return v - v[-1:] * self.means

    def column_squares(self, s: Float) -> Float:
        """The sum of the squares of each column with the weights that its means have; larger than that, if at all."""
        squares = self.bordered.column_squares(s)
        return np.maximum(squares - self.total * self.means**2, CONSTANT * squares)

    def _uncentred(self, theta: Float) -> Float:
        out = theta.copy()
        out[-1:] -= float(self.means @ theta)
        return out
