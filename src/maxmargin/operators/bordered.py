"""The rows of a matrix with one more column, that of the intercept."""

from __future__ import annotations

import numpy as np

from maxmargin.communicators import ALONE
from maxmargin.operators.sharded import Sharded, sum_of_symmetric
from maxmargin.protocols import Communicator, Float, LocalRows


class Bordered:
    """The map from ``theta = [w, b / h]`` to the scores ``X w + b``: the matrix ``[X h]``.

    The last column has the height ``h`` everywhere, and there is none if that is 0. So a method that knows nothing of
    intercepts serves a penalised one, which is a coefficient like the others, a free one, which is a coefficient
    without a penalty, and none. Scores are those of our own rows. Sums over rows are those of all clients, cost one
    round each, and are the same bits everywhere.

    Parameters
    ----------
    rows : LocalRows or Sharded
        The matrix ``X``.
    height : float
        Of the column of the intercept.
    free : bool
        Whether that column has no penalty.

    Attributes
    ----------
    own : LocalRows
        The rows of this client.
    size : int
        Number of coefficients.
    penalised : int
        How many of them have a penalty: all, or all but the last one.

    """

    def __init__(self, rows: LocalRows | Sharded, height: float = 0.0, free: bool = False) -> None:
        self.own = rows.rows if isinstance(rows, Sharded) else rows
        self.communicator: Communicator = rows.communicator if isinstance(rows, Sharded) else ALONE
        self.height, self.n_features = height, rows.n_features
        self.size = self.n_features + (height != 0.0)
        self.penalised = self.size - free

    def ridge(self, lam: float) -> Float:
        """The strength of an L2 penalty on each coefficient: 0 for a free intercept."""
        return np.append(np.full(self.penalised, lam), np.zeros(self.size - self.penalised))

    def join(self, w: Float, b: float) -> Float:
        """The coefficients ``theta`` of a point; without a column for it, the intercept is dropped."""
        return np.append(w, b / self.height) if self.height else w.copy()

    def split(self, theta: Float) -> tuple[Float, float]:
        """``w`` and ``b``."""
        return theta[: self.n_features].copy(), self.height * float(theta[-1]) if self.height else 0.0

    def apply(self, theta: Float) -> Float:
        """``[X h] theta`` for our own rows."""
        z = self.own.apply(theta[: self.n_features])
        return z + self.height * theta[-1] if self.height else z

    def adjoint(self, alpha: Float) -> Float:
        """``[X h]^T alpha``."""
        return self.communicator.allreduce(self.with_border(self.own.adjoint(alpha), alpha.sum()))

    def gram(self, h: Float) -> Float:
        """``[X h]^T diag(h) [X h]`` for weights of the rows that are not negative."""
        return sum_of_symmetric(self.own.weighted_gram(h, self.height), self.communicator)

    def column_squares(self, s: Float) -> Float:
        """The sum of the squares of each column, where every row has a weight."""
        own = self.with_border(self.own.column_squares(s), self.height * s.sum())
        return self.communicator.allreduce(own)

    def with_border(self, v: Float, total: float) -> Float:
        """``[X h]^T alpha`` from ``v = X^T alpha`` and the sum of ``alpha``."""
        return np.append(v, self.height * total) if self.height else v
