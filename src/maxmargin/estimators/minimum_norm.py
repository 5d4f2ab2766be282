"""The shortest solution of linear equations, by the pseudo-inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg
from numpy.typing import ArrayLike
from scipy.linalg import svd

from maxmargin.estimators._machinery.recovery import Recovery, System
from maxmargin.estimators._machinery.systems import check_system
from maxmargin.operators import Columns, Matrix
from maxmargin.operators.rows import dense64, is_sparse
from maxmargin.protocols import Float
from maxmargin.threads import one_blas_thread, workers_for

EXACT = 1e-10  # of the targets: residuals of this size are rounding, and equations are solved
ORTHOGONAL = 1e-6  # relative: residuals that no column could lower
DENSE = 10**7  # entries that a sparse matrix may have when its zeros are stored, so that it is decomposed
STEPS = 10  # of LSQR, times the smaller dimension


def minimum_norm(A: Any, d: ArrayLike, *, n_jobs: int | None = None) -> Recovery:
    """The smallest ``|w|_2`` with ``A w = d``: ``w = A^+ d``, with a proof.

    The proof is a vector ``z`` with ``A^T z = w``: whatever can be added to ``w`` is orthogonal to it. The smallest
    ``|w|_1``, which has far fewer coefficients as a rule, is found by `basis_pursuit`.

    Parameters
    ----------
    A : array-like or sparse matrix of shape (n_samples, n_features)
        Matrix of any rank.
    d : array-like of shape (n_samples,)
        Targets.
    n_jobs : int, optional
        Number of threads; None is as many as BLAS may use.

    Returns
    -------
    Recovery
        Coefficients and certificate.

    Raises
    ------
    ValueError
        If the equations have no solution; with the smallest error that there is.

    Examples
    --------
    >>> from maxmargin import minimum_norm
    >>> minimum_norm([[1.0, 2.0, 0.0], [1.0, 0.0, 3.0]], [2.0, 0.0]).w.round(4)
    array([ 0.3673,  0.8163, -0.1224])

    """
    A, d = check_system(A, d, ("A", "d"))
    columns = Columns(A, workers_for(n_jobs))
    with one_blas_thread, np.errstate(over="ignore", invalid="ignore"):  # what is no number is refused below
        inverse = _Inverse(A) if not is_sparse(A) or A.shape[0] * A.shape[1] <= DENSE else _Iterated(A)
        w = inverse.solve(d)
        w += inverse.solve(d - columns.apply(w))  # what rounding has left of the residuals
        z = inverse.preimage(w)
    if not (np.isfinite(w).all() and np.isfinite(z).all()):
        raise ValueError(
            "The shortest solution of Aw = d, or the proof of it, has numbers that overflow: scale A and d to a common "
            "range."
        )
    _refuse_impossible(columns, d, w)
    return System(columns, d).shortest(w, [z])


def _refuse_impossible(columns: Columns, d: Float, w: Float) -> None:
    """Refuse equations of which something is left."""
    r = d - columns.apply(w)
    missing = float(np.linalg.norm(r))
    if missing <= EXACT * (float(np.linalg.norm(d)) + float(np.abs(w) @ columns.column_lengths())):
        return
    if (np.abs(columns.adjoint(r)) <= ORTHOGONAL * missing * columns.column_lengths()).all():
        raise ValueError(
            f"Aw = d has no solution: |Aw - d|^2 is at least {missing**2:.6g} for every w. The best approximation is "
            f"found by Ridge and LinearRegression."
        )
    raise ValueError(
        f"No solution of Aw = d was found up to rounding errors: |Aw - d|^2 is still {missing**2:.6g}, and columns of "
        f"A could lower that. Scale them, or pass a large sparse A as a dense array."
    )


class _Inverse:
    """The pseudo-inverse, by singular values."""

    def __init__(self, A: Matrix) -> None:
        U, values, V = svd(dense64(A), full_matrices=False, check_finite=False)
        kept = values > max(A.shape) * np.finfo(np.float64).eps * values.max(initial=0.0)
        self.U, self.values, self.V = U[:, kept], values[kept], V[kept]

    def solve(self, d: Float) -> Float:
        """``A^+ d``."""
        return np.asarray(self.V.T @ ((self.U.T @ d) / self.values))

    def preimage(self, w: Float) -> Float:
        """A ``z`` with ``A^T z = w``."""
        return np.asarray(self.U @ ((self.V @ w) / self.values))


class _Iterated:
    """The same for a large sparse matrix, by LSQR."""

    def __init__(self, A: Matrix) -> None:
        self.A, self.steps = A, STEPS * min(A.shape)

    def solve(self, d: Float) -> Float:
        """``A^+ d``."""
        return self._lsqr(self.A, d)

    def preimage(self, w: Float) -> Float:
        """A ``z`` with ``A^T z = w``."""
        return self._lsqr(self.A.T, w)

    def _lsqr(self, A: Any, b: Float) -> Float:
        return np.asarray(scipy.sparse.linalg.lsqr(A, b, atol=1e-15, btol=1e-15, conlim=0.0, iter_lim=self.steps)[0])
