"""How far two sets of points are apart: the distance of their convex hulls, or of reduced ones, with a proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Solution
from maxmargin.operators import Rows
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Status
from maxmargin.protocols import Array, Float
from maxmargin.solvers import make_solver
from maxmargin.threads import workers_for

MOST_ITERATIONS = 100_000


@dataclass(frozen=True)
class Separation:
    """The nearest points of two hulls, and the street between them that proves it.

    Attributes
    ----------
    distance : float
        Of the two points that were found: the hulls are not farther apart.
    width : float
        Of the street: the hulls are not nearer. 0 if no street was found.
    eta, xi : ndarray
        Shares of the rows of A and of B in the two points.
    nearest : tuple of ndarray
        The two points, ``A.T @ eta`` and ``B.T @ xi``.
    w, b, rho : ndarray, float, float
        Rows x of A have ``x @ w + b >= rho``, rows of B ``x @ w + b <= -rho``; of reduced hulls, all but those that
        have the share `nu` at the optimum.
    solution : Solution
        With certificate, status and history. The primal value is ``-width**2 / 2``, the dual one ``-distance**2 / 2``.

    """

    distance: float
    width: float
    eta: Float
    xi: Float
    nearest: tuple[Float, Float]
    w: Float
    b: float
    rho: float
    solution: Solution
    nu: float = 1.0

    @property
    def status(self) -> Status:
        """Why the search ended; `Status.NOT_SEPARABLE` if the two points are the same."""
        return self.solution.status

    @property
    def C(self) -> float:
        """The C-SVM of the same boundary: ``C = nu / rho``; infinite if there is no margin.

        Its solution is ``w / rho``, its dual variables are ``eta / rho`` and ``xi / rho``, at most ``nu / rho``.
        """
        return self.nu / self.rho if self.rho > 0.0 else np.inf


def hull_distance(
    A: Any,
    B: Any,
    *,
    nu: float = 1.0,
    tol: float = 1e-6,
    solver: str = "saddle",
    max_iter: int | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Separation:
    """Distance of the convex hulls of the rows of two matrices, with a proof.

    It is the hard margin of a support vector machine, and with ``nu < 1`` that of nu-SVM.

    Parameters
    ----------
    A, B : array-like or sparse matrix of shape (n, d) and (m, d)
        The two sets of points.
    nu : float, default=1.0
        The largest share that a row may have in a point of its reduced hull: from ``1 / min(n, m)``, which leaves only
        the means, to 1, the hulls themselves.
    tol : float, default=1e-6
        Relative gap between the squares of the distance and of the width of the street at which to stop.
    solver : {"saddle", "gilbert", "frank_wolfe"}, default="saddle"
        How.
    max_iter : int, optional
        Limit on the solver's iterations; 100,000 if neither it nor `max_time` is given, as hulls that nearly meet may
        take any number.
    max_time : float, optional
        Limit in seconds; the best points so far are kept.
    n_jobs : int, optional
        Number of threads; None is as many as BLAS may use. Results are the same for any number.
    **options
        Of the solver, such as ``block_size=1``.

    Returns
    -------
    Separation
        Distance, bound, points, direction and certificate.

    Examples
    --------
    >>> from maxmargin import hull_distance
    >>> found = hull_distance([[0.0, 1.0], [0.0, -1.0]], [[2.0, 5.0], [2.0, -5.0]])
    >>> round(found.distance, 4), round(found.width, 4)
    (2.0, 2.0)
    >>> hull_distance([[0.0], [2.0]], [[1.0]]).status.name
    'NOT_SEPARABLE'

    """
    A, B = _matrix(A, "A"), _matrix(B, "B")
    if A.shape[1] != B.shape[1]:
        raise ValueError(f"Both sets need points of the same space: A has {A.shape[1]} columns, B has {B.shape[1]}.")
    n, m = A.shape[0], B.shape[0]
    least = 1.0 / min(n, m)
    if not least * (1.0 - 1e-12) <= nu <= 1.0:
        raise ValueError(f"nu={nu:g} must be at least {least:g}, equal shares for the smaller set, and at most 1.")
    X = sp.vstack([A, B], format="csr") if is_sparse(A) or is_sparse(B) else np.concatenate([A, B])
    y = np.repeat([1.0, -1.0], [n, m])
    problem = HullDistance(Rows(X, workers_for(n_jobs)), y, np.full(n + m, float(nu)))
    if max_iter is None and max_time is None:
        max_iter = MOST_ITERATIONS
    solution = minimize(problem, make_solver(solver, **options), tol=tol, max_iter=max_iter, max_time=max_time)
    certificate, point = solution.certificate, solution.point
    assert point.alpha is not None  # it was certified
    a = problem.feasible(point.alpha)
    first, last = problem.edges(problem.operator.apply(point.w))
    nearest = problem.operator.adjoint(np.maximum(a, 0.0)), problem.operator.adjoint(np.maximum(-a, 0.0))
    return Separation(
        distance=float(np.sqrt(2.0 * abs(certificate.dual))),
        width=float(np.sqrt(2.0 * abs(certificate.primal))),
        eta=a[:n],
        xi=-a[n:],
        nearest=nearest,
        w=point.w,
        b=point.b,
        rho=0.5 * (first - last),
        solution=solution,
        nu=float(nu),
    )


def _matrix(X: Any, name: str) -> Array:
    """A matrix of finite numbers with at least one row."""
    X = X.tocsr() if is_sparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] < 1:
        raise ValueError(f"{name} must be a matrix with at least one row and one column; it has the shape {X.shape}.")
    values = X.data if is_sparse(X) else X
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise ValueError(f"{name} must hold finite numbers only.")
    return X
