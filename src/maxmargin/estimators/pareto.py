"""Few coefficients against small errors: the curve of all best compromises, and the constrained problems on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.drawing import new_axes
from maxmargin.estimators._machinery.recovery import Recovery, System
from maxmargin.estimators._machinery.systems import check_number, check_system
from maxmargin.estimators.homotopy_path import HomotopyPath, Limits, path_of
from maxmargin.numerics.rounding import growth
from maxmargin.operators import Columns, MatrixLike
from maxmargin.operators.rows import dense64
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, Bounded
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float
from maxmargin.solvers.columns.homotopy import PathState
from maxmargin.threads import workers_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXACT = 1e-10  # of the targets: residuals of this size are rounding, and equations are solved
NUDGES = 40  # towards a smaller error, doubled each time, until a constraint certainly holds
TINY, SMALLEST = 1e-15, 1e-300


@dataclass(frozen=True, eq=False)
class ParetoCurve:
    """The smallest ``|A w - d|^2`` for every ``|w|_1``: convex, falling, and made of parabolas.

    Its slope at a point is ``-lam``, where ``lam`` is the strength for which the same coefficients minimise
    ``|A w - d|^2 + lam |w|_1``. So the three forms of the LASSO, with a bound on the error, with a bound on the norm
    and with a price, have the same solutions, and all of them are read off one path.

    Attributes
    ----------
    norms, errors : ndarray of shape (n_breakpoints,)
        ``|w|_1`` and ``|A w - d|^2`` at the ends of the parabolas, from ``w = 0`` on.
    lambdas : ndarray of shape (n_breakpoints,)
        Strengths there, from the largest down.
    path : HomotopyPath
        The coefficients, whose strengths are the same ``lambdas``.

    """

    norms: Float
    errors: Float
    lambdas: Float
    path: HomotopyPath
    system: System

    def __repr__(self) -> str:
        return (
            f"ParetoCurve({self.norms.size} breakpoints; |w|_1 from 0 to {self.norms[-1]:.6g}, |Aw - d|^2 from "
            f"{self.errors[0]:.6g} to {self.errors[-1]:.6g})"
        )

    def error_at(self, norm: ArrayLike) -> Any:
        """The smallest ``|A w - d|^2`` with ``|w|_1 <= norm``, for one number or many."""
        t = np.asarray(norm, dtype=np.float64)
        if not (t >= 0.0).all():
            raise ValueError(f"norm must be at least 0; got {norm!r}.")
        self._refuse_beyond(bool((t > self.norms[-1]).any()))
        found = np.full(t.shape, self.errors[-1])
        if self.norms.size > 1:
            k, left = self._piece(np.minimum(t, self.norms[-1]))
            found = self.errors[k + 1] + left * (self.lambdas[k + 1] + 0.5 * self._bend(k) * left)
        return float(found) if t.ndim == 0 else found

    def norm_at(self, error: ArrayLike) -> Any:
        """The smallest ``|w|_1`` with ``|A w - d|^2 <= error``, for one number or many; infinite if there is none."""
        eps = np.asarray(error, dtype=np.float64)
        if not (eps >= 0.0).all():
            raise ValueError(f"error must be at least 0; got {error!r}.")
        self._refuse_beyond(bool((eps < self.errors[-1]).any()))
        found = np.where(eps >= self.errors[0], 0.0, np.inf)
        inside = (eps < self.errors[0]) & (eps >= self.errors[-1])
        if inside.any():
            k = np.clip(np.searchsorted(-self.errors, -eps, side="left") - 1, 0, self.norms.size - 2)
            found = np.where(inside, self.norms[k + 1] - self._left_at(k, eps), found)
        return float(found) if eps.ndim == 0 else found

    def within_error(self, eps: float) -> Recovery:
        """``min |w|_1`` subject to ``|A w - d|^2 <= eps``; with ``eps=0``, subject to ``A w = d``."""
        eps = check_number("eps", eps)
        system, last = self.system, self.errors.size - 1
        if eps >= self.errors[0]:
            return system.within_error(self._coefficients(0, 0.0), eps, float(self.lambdas[0]), [])
        scale = EXACT * self._scale()
        if math.sqrt(self.errors[-1]) > math.sqrt(eps) + scale:
            self._refuse_beyond(True)
            self._refuse_impossible(eps)
        proofs = [self._residuals(last - 1), self._limit()]
        if eps <= self.errors[-1] or eps <= scale**2:
            return system.within_error(self._coefficients(last - 1, 1.0), eps, float(self.lambdas[-1]), proofs)
        target, step = eps, TINY * self.errors[0]
        for _ in range(NUDGES):
            k = int(np.clip(np.searchsorted(-self.errors, -target, side="left") - 1, 0, last - 1))
            share = 1.0 - float(self._left_at(np.asarray(k), np.asarray(target))) / self._width(k)
            lam = (1.0 - share) * self.lambdas[k] + share * self.lambdas[k + 1]
            found = system.within_error(self._coefficients(k, share), eps, float(lam), [self._residuals(k)])
            if found.excess == 0.0 or target <= self.errors[-1]:
                break
            target, step = max(eps - step, float(self.errors[-1])), 4.0 * step
        return found

    def within_norm(self, t: float) -> Recovery:
        """``min |A w - d|^2`` subject to ``|w|_1 <= t``."""
        t, last = check_number("t", t), self.norms.size - 1
        if t >= self.norms[-1]:
            self._refuse_beyond(t > self.norms[-1])
            w = self._coefficients(max(last - 1, 0), 1.0 if last else 0.0)
            return self.system.within_norm(w, t, float(self.lambdas[-1]), [])
        k = int(self._piece(np.asarray(t))[0])
        share = (t - self.norms[k]) / self._width(k)
        w, inside = self._coefficients(k, share), t * (1.0 - 2.0 * growth(self.path.coefs.shape[1] + 8))
        w *= min(1.0, inside / max(float(np.abs(w).sum()), SMALLEST))
        lam = (1.0 - share) * self.lambdas[k] + share * self.lambdas[k + 1]
        return self.system.within_norm(w, t, float(lam), [self._residuals(k)])

    def penalised(self, lam: float) -> Recovery:
        """``min |w|_1 + |A w - d|^2 / lam``, which is ``min |A w - d|^2 + lam |w|_1`` divided by ``lam``."""
        lam = check_number("lam", lam)
        if lam == 0.0:
            raise ValueError("lam must be positive: |Aw - d|^2 is divided by it. The limit is within_error(0).")
        return self.system.weighed(self.path.at(lam)[0], lam, [])

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the curve, with a dot at each breakpoint.

        Parameters
        ----------
        axes : matplotlib axes, optional
            Where to draw; new ones if there are none. Needs matplotlib.

        Returns
        -------
        matplotlib axes
            With the drawing.

        """
        axes = axes if axes is not None else new_axes()
        t = np.unique(np.concatenate([np.linspace(0.0, self.norms[-1], 400), self.norms]))
        (line,) = axes.plot(t, self.error_at(t))
        axes.plot(self.norms, self.errors, "o", markersize=3, color=line.get_color())
        axes.set(xlabel="|w|_1", ylabel="|Aw - d|^2", xlim=(0.0, None), ylim=(0.0, None))
        return axes

    def _piece(self, t: Array) -> tuple[Array, Array]:
        """On which parabola a norm is, and how far from its end."""
        k = np.clip(np.searchsorted(self.norms, t, side="right") - 1, 0, max(self.norms.size - 2, 0))
        return k, self.norms[np.minimum(k + 1, self.norms.size - 1)] - t

    def _width(self, k: Any) -> Any:
        return self.norms[k + 1] - self.norms[k]

    def _bend(self, k: Any) -> Any:
        """The second derivative of a parabola."""
        return (self.lambdas[k] - self.lambdas[k + 1]) / self._width(k)

    def _left_at(self, k: Array, eps: Array) -> Array:
        """How far from the end of its parabola the norm is where the error has a value: a root without cancellation."""
        more, end = np.maximum(eps - self.errors[k + 1], 0.0), self.lambdas[k + 1]
        steep = end + np.sqrt(end**2 + 2.0 * self._bend(k) * more)
        left = np.divide(2.0 * more, steep, out=np.zeros_like(more), where=steep > 0.0)
        return np.minimum(left, self._width(k))

    def _coefficients(self, k: int, share: float) -> Float:
        """Between two breakpoints."""
        coefs, after = self.path.coefs, min(k + 1, self.norms.size - 1)
        return np.asarray((1.0 - share) * coefs[[k]].toarray()[0] + share * coefs[[after]].toarray()[0])

    def _residuals(self, k: int) -> Float:
        """At a breakpoint."""
        return self.system.d - self.system.columns.apply(self._coefficients(k, 0.0))

    def _limit(self) -> Float:
        """The direction of the residuals at the end: its products with the support's columns are their signs."""
        ends = self.path.coefs[[-2, -1]].toarray()
        support = np.flatnonzero(ends.any(axis=0))
        signs = np.sign(ends.sum(axis=0)[support])
        columns = dense64(self.system.columns.transposed.matrix[support])
        return np.asarray(np.linalg.lstsq(columns, signs, rcond=None)[0])

    def _scale(self) -> float:
        """The size of what has to cancel where equations are solved."""
        w = self._coefficients(self.norms.size - 1, 0.0)
        return float(np.linalg.norm(self.system.d) + np.abs(w) @ self.system.columns.column_lengths())

    def _refuse_beyond(self, beyond: bool) -> None:
        """Refuse what lies beyond the end of a curve that ended early."""
        if beyond and self.lambdas[-1] > 0.0:
            raise ValueError(
                f"This curve ends at |w|_1 = {self.norms[-1]:.6g} and |Aw - d|^2 = {self.errors[-1]:.6g}, because "
                f"{self.path.ending}. Raise that limit; against rounding errors, centre and scale the columns of A."
            )

    def _refuse_impossible(self, eps: float) -> None:
        """Refuse a bound on the error that no coefficients keep."""
        who, least = "w >= 0" if self.system.positive else "w", float(self.errors[-1])
        if eps == 0.0:
            raise ValueError(
                f"Aw = d has no solution{' with w >= 0' if self.system.positive else ''}: |Aw - d|^2 is at least "
                f"{least:.6g} for every {who}. Allow an error of at least that, such as eps={1.01 * least:.3g}."
            )
        raise ValueError(
            f"No {who} has |Aw - d|^2 <= eps={eps:.6g}: it is at least {least:.10g}. Raise eps to that or more."
        )


def pareto_curve(
    A: MatrixLike,
    d: ArrayLike,
    *,
    positive: bool = False,
    max_breakpoints: int | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> ParetoCurve:
    """All best compromises between the error ``|A w - d|^2`` and the norm ``|w|_1``, exactly.

    Parameters
    ----------
    A : array-like or sparse matrix of shape (n_samples, n_features)
        Matrix. There is no intercept: add a column of ones, which has a price then, or centre columns and targets.
    d : array-like of shape (n_samples,)
        Targets.
    positive : bool, default=False
        Whether no coefficient may be negative.
    max_breakpoints, max_time, n_jobs
        As in `lasso_homotopy`.

    Returns
    -------
    ParetoCurve
        The curve, and the constrained problems that it answers.

    Examples
    --------
    >>> from maxmargin import pareto_curve
    >>> curve = pareto_curve([[2.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> curve.norms, curve.errors, curve.lambdas
    (array([0. , 0.5, 3. ]), array([8., 5., 0.]), array([8., 4., 0.]))

    """
    return _curve(A, d, positive, max_breakpoints, max_time, n_jobs, None)


def basis_pursuit(
    A: MatrixLike,
    d: ArrayLike,
    eps: float = 0.0,
    *,
    positive: bool = False,
    max_breakpoints: int | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> Recovery:
    """The smallest ``|w|_1`` with ``|A w - d|^2 <= eps``, or with ``A w = d`` if ``eps`` is zero.

    Parameters
    ----------
    A, d, positive, max_breakpoints, max_time, n_jobs
        As in `pareto_curve`.
    eps : float, default=0.0
        The largest error that is allowed.

    Returns
    -------
    Recovery
        Coefficients and certificate.

    Raises
    ------
    ValueError
        If no coefficients have so small an error; with the smallest one that there is.

    Examples
    --------
    >>> from maxmargin import basis_pursuit
    >>> basis_pursuit([[1.0, 2.0, 0.0], [1.0, 0.0, 3.0]], [2.0, 0.0]).w
    array([0., 1., 0.])

    """
    eps = check_number("eps", eps)
    return _curve(A, d, positive, max_breakpoints, max_time, n_jobs, eps).within_error(eps)


def lasso_within_norm(
    A: MatrixLike,
    d: ArrayLike,
    t: float,
    *,
    positive: bool = False,
    max_breakpoints: int | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> Recovery:
    """The smallest ``|A w - d|^2`` with ``|w|_1 <= t``: the LASSO as it was first written.

    Parameters
    ----------
    A, d, positive, max_breakpoints, max_time, n_jobs
        As in `pareto_curve`.
    t : float
        The largest norm that is allowed.

    Returns
    -------
    Recovery
        Coefficients and certificate.

    Examples
    --------
    >>> from maxmargin import lasso_within_norm
    >>> found = lasso_within_norm([[1.0, 0.0], [0.0, 1.0]], [3.0, 1.0], 2.0)
    >>> found.w.round(12), round(found.error, 12), round(found.lam, 12)
    (array([2., 0.]), 2.0, 2.0)

    """
    return _curve(A, d, positive, max_breakpoints, max_time, n_jobs, None, check_number("t", t)).within_norm(t)


def _curve(
    A: MatrixLike,
    d: ArrayLike,
    positive: bool,
    max_breakpoints: int | None,
    max_time: float | None,
    n_jobs: int | None,
    eps: float | None,
    t: float = math.inf,
) -> ParetoCurve:
    """The curve, as far as it is needed for an error or a norm."""
    matrix, d = check_system(A, d, ("A", "d"))
    limits = Limits.of(matrix.shape, max_breakpoints=max_breakpoints, max_time=max_time)
    columns = Columns(matrix, workers_for(n_jobs))
    least = -1.0 if eps is None else eps

    def enough(state: PathState) -> bool:
        if state.coefficients.size and float(np.abs(state.coefficients).sum()) > t:
            return True
        return 0.25 * float(state.alpha @ state.alpha) < least  # dual variables are twice the residuals

    penalty = Bounded(1.0, 1.0, np.zeros(matrix.shape[1]), np.full(matrix.shape[1], np.inf)) if positive else L1(1.0)
    problem = Problem(columns, d, Squared(), penalty, np.full(d.size, 2.0), None)
    path = path_of(problem, 0.0, limits._replace(enough=enough))
    system = System(columns, d, positive)
    residuals = [d - columns.apply(row) for row in _rows(path)]
    errors = np.minimum.accumulate([float(r @ r) for r in residuals])
    return ParetoCurve(np.maximum.accumulate(path.norms), errors, path.alphas, path, system)


def _rows(path: HomotopyPath) -> Any:
    """Coefficients at one breakpoint after the other."""
    for k in range(path.alphas.size):
        yield path.coefs[[k]].toarray()[0]
