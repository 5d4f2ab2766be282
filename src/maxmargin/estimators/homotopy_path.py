"""The exact path of LASSO solutions: all of them, for every strength of the penalty, with a certificate at each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery.drawing import new_axes
from maxmargin.estimators._machinery.least_squares import LONGER, reach_of
from maxmargin.estimators._machinery.systems import check_count, check_number, check_system, check_weights
from maxmargin.loop.certificate import certify_point
from maxmargin.operators import Columns
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, L2, Bounded, ElasticNet, Unpenalised
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Penalty
from maxmargin.solvers.columns.homotopy import PathState
from maxmargin.solvers.columns.homotopy.solver import intercept_of, start_of_path
from maxmargin.threads import one_blas_thread, workers_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRECISE = 1e-9  # a relative gap that only rounding makes larger than this is computed with twice the digits
LONG_PATH = 100  # breakpoints for each column that can count at once: far more than data ever had that nobody made up


class Breakpoint(NamedTuple):
    """Where the support changes: what enters and what leaves when the strength falls below ``alpha``."""

    alpha: float
    entering: Index
    leaving: Index


ROUNDING_DECIDES = (
    "the columns that count are so nearly dependent, or of such different sizes, that rounding errors would decide"
)


@dataclass(frozen=True, eq=False)
class HomotopyPath:
    """All solutions of ``1/2 sum_i s_i (y_i - w.x_i - b)^2 + alpha |w|_1 + ridge/2 |w|^2``, weights ``s`` of sum 1.

    Coefficients are linear in ``alpha`` between the breakpoints, and zero above the first.

    Attributes
    ----------
    alphas : ndarray of shape (n_breakpoints,)
        The breakpoints, from the largest down. The last one is where the path ends.
    coefs : sparse array of shape (n_breakpoints, n_features)
        Coefficients there.
    intercepts : ndarray of shape (n_breakpoints,)
        Intercepts there.
    ending : str
        Why the path ended where it did.
    ridge : float
        Strength of the squared norm, the same everywhere on the path.
    positive : bool
        Whether no coefficient may be negative.
    problem : Problem
        What is minimised at the first breakpoint; the samples are in it.

    """

    alphas: Float
    coefs: sp.csr_array
    intercepts: Float
    ending: str
    ridge: float
    positive: bool
    problem: Problem

    def __repr__(self) -> str:
        return (
            f"HomotopyPath({self.alphas.size} breakpoints from alpha={self.alphas[0]:.6g} to {self.alphas[-1]:.6g}, "
            f"{self.support_sizes.max(initial=0)} of {self.coefs.shape[1]} features at most)"
        )

    @cached_property
    def support_sizes(self) -> Index:
        """How many coefficients are not zero at each breakpoint."""
        return np.diff(self.coefs.indptr).astype(np.int64)

    @cached_property
    def norms(self) -> Float:
        """The sum of the coefficients' sizes at each breakpoint."""
        return np.asarray(abs(self.coefs).sum(axis=1), dtype=np.float64).ravel()

    def at(self, alpha: ArrayLike) -> tuple[Float, Any]:
        """Coefficients and intercept at any strength, or at many at once.

        Parameters
        ----------
        alpha : float or array-like of shape (n_alphas,)
            Strengths, in any order, from where the path ends on.

        Returns
        -------
        coef : ndarray of shape (n_features,) or (n_alphas, n_features)
            Coefficients.
        intercept : float or ndarray of shape (n_alphas,)
            Intercepts.

        """
        wanted = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        last = float(self.alphas[-1])
        if wanted.ndim != 1 or not ((wanted >= last) & (wanted < np.inf)).all():
            raise ValueError(
                f"alpha must be a finite number, or a list of them, of at least {last:.10g}, where this path ended "
                f"because {self.ending}; got {alpha!r}."
            )
        left = np.searchsorted(-self.alphas, -wanted, side="right") - 1
        left = np.clip(left, 0, max(self.alphas.size - 2, 0))
        right = np.minimum(left + 1, self.alphas.size - 1)
        spans = self.alphas[left] - self.alphas[right]
        gone = np.divide(self.alphas[left] - wanted, spans, out=np.zeros(wanted.size), where=spans > 0.0)
        gone = np.clip(gone, 0.0, 1.0)
        before, after = self.coefs[left].toarray(), self.coefs[right].toarray()
        coefs = (1.0 - gone)[:, None] * before + gone[:, None] * after
        intercepts = (1.0 - gone) * self.intercepts[left] + gone * self.intercepts[right]
        if np.ndim(alpha) == 0:
            return coefs[0], float(intercepts[0])
        return coefs, intercepts

    def certificate(self, alpha: float) -> Certificate:
        """Primal value, dual value and gap at any strength, recomputed from the samples."""
        coef, intercept = self.at(float(alpha))
        posed = self.problem
        z = posed.operator.apply(coef)
        residuals = posed.s * (posed.y - z - intercept)
        problem = Problem(
            posed.operator, posed.y, posed.loss, self._penalty(float(alpha), coef), posed.s, posed.intercept
        )
        certificate = certify_point(problem, Point(coef, intercept, residuals), PRECISE)
        if alpha == 0.0 and certificate.relative_gap > PRECISE:  # an exact fit is proven by dual variables of zero
            exact = certify_point(problem, Point(coef, intercept, np.zeros_like(residuals)))
            return min(certificate, exact, key=lambda one: one.relative_gap)
        return certificate

    def _penalty(self, alpha: float, coef: Float) -> Penalty:
        """That of the problem at a strength; without any, one that keeps coefficients within a long reach."""
        d, total = coef.size, alpha + self.ridge
        reach = np.full(d, np.inf)
        if total == 0.0:
            operator: Any = self.problem.operator
            reach = np.maximum(reach_of(operator, self.problem.y, self.problem.intercept), LONGER * np.abs(coef))
        if self.positive:
            return Bounded(total, alpha / total if total > 0.0 else 1.0, np.zeros(d), reach)
        if total == 0.0:
            return Unpenalised(reach)
        if self.ridge == 0.0:
            return L1(alpha)
        return ElasticNet(total, alpha / total) if alpha > 0.0 else L2(self.ridge)

    def breakpoints(self) -> list[Breakpoint]:
        """What enters and leaves the support where, in the order in which it happens."""
        supports = [self.coefs.indices[a:b] for a, b in zip(self.coefs.indptr, self.coefs.indptr[1:], strict=False)]
        none = np.empty(0, dtype=np.int64)
        return [
            Breakpoint(
                float(alpha),
                np.setdiff1d(after, before).astype(np.int64) if after is not None else none,
                np.setdiff1d(earlier, before).astype(np.int64) if earlier is not None else none,
            )
            for alpha, before, after, earlier in zip(
                self.alphas, supports, [*supports[1:], None], [None, *supports[:-1]], strict=True
            )
        ]

    def with_features(self, count: int) -> float:
        """The smallest strength down to which the path has at most so many features: from there on it has more."""
        most = check_count("count", count, least=0)
        assert most is not None
        # Between two breakpoints those features count that do so at either of them.
        sizes = abs(self.coefs)
        between = np.diff((sizes[:-1] + sizes[1:]).indptr)
        over = np.flatnonzero(between > most)
        return float(self.alphas[over[0] if over.size else -1])

    def plot(self, axes: Axes | None = None, names: ArrayLike | None = None) -> Axes:
        """Draw every coefficient against the sum of their sizes, with a fine line at each breakpoint.

        Parameters
        ----------
        axes : matplotlib axes, optional
            Where to draw; new ones if there are none. Needs matplotlib.
        names : array-like of shape (n_features,), optional
            Names of the features, which are written at the ends of their lines.

        Returns
        -------
        matplotlib axes
            With the drawing.

        """
        axes = axes if axes is not None else new_axes()
        used = np.unique(self.coefs.indices)
        lines = self.coefs[:, used].toarray()
        for norm in self.norms:
            axes.axvline(norm, color="0.92", linewidth=0.6, zorder=-1)
        for j, line in zip(used, lines.T, strict=True):
            (drawn,) = axes.plot(self.norms, line)
            if names is not None:
                label = str(np.asarray(names)[j])
                axes.annotate(label, (self.norms[-1], line[-1]), color=drawn.get_color(), va="center", fontsize=8)
        axes.set(xlabel="|w|_1", ylabel="coefficients")
        return axes


def lasso_homotopy(
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    positive: bool = False,
    ridge: float = 0.0,
    alpha_min: float = 0.0,
    max_features: int | None = None,
    max_breakpoints: int | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> HomotopyPath:
    """All LASSO solutions at once: the exact path from the strength that leaves no feature to ``alpha_min``.

    It is the algorithm LARS in its LASSO form, for dense and sparse samples, which are never centred or scaled. Columns
    that are equal, or depend on each other, and features that enter together are no difficulty: one of the solutions
    is found, and each has its certificate.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Targets.
    sample_weight : array-like of shape (n_samples,), optional
        Weights; only their proportions count.
    fit_intercept : bool, default=True
        Whether there is an intercept, without a penalty.
    positive : bool, default=False
        Whether no coefficient may be negative.
    ridge : float, default=0.0
        Strength of ``|w|^2 / 2``, the same everywhere: a path of elastic nets. It is not the share of a sum of
        penalties that scikit-learn's ``l1_ratio`` fixes.
    alpha_min : float, default=0.0
        Where to stop; 0 is least squares, with the smallest sum of coefficients' sizes if several fit equally well.
    max_features : int, optional
        Stop before more features than this have a coefficient.
    max_breakpoints : int, optional
        Stop after as many breakpoints; 100 for each feature that can count at once if there is no limit given.
    max_time : float, optional
        Stop after so many seconds.
    n_jobs : int, optional
        Number of threads; None is as many as BLAS may use. Results are the same for any number.

    Returns
    -------
    HomotopyPath
        Breakpoints, coefficients there and anywhere between, and certificates.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import lasso_homotopy
    >>> path = lasso_homotopy(*load_diabetes(return_X_y=True))
    >>> path
    HomotopyPath(13 breakpoints from alpha=2.14804 to 0, 10 of 10 features at most)
    >>> coef, intercept = path.at(1.0)
    >>> coef.astype(bool).sum().item(), path.certificate(1.0).relative_gap < 1e-9
    (3, True)

    """
    X, y = check_system(X, y)
    ridge, least = check_number("ridge", ridge), check_number("alpha_min", alpha_min)
    limits = Limits.of(X.shape, least, max_features, max_breakpoints, max_time)
    columns, d = Columns(X, workers_for(n_jobs)), X.shape[1]
    penalty = Bounded(1.0, 1.0, np.zeros(d), np.full(d, np.inf)) if positive else L1(1.0)
    s = check_weights(sample_weight, X)
    return path_of(
        Problem(columns, y, Squared(), penalty, s / s.sum(), "free" if fit_intercept else None), ridge, limits
    )


class Limits(NamedTuple):
    """Where a path ends at the latest."""

    alpha: float
    features: int
    breakpoints: int
    clock: float
    enough: Callable[[PathState], bool] = lambda state: False

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        alpha: float = 0.0,
        max_features: int | None = None,
        max_breakpoints: int | None = None,
        max_time: float | None = None,
    ) -> Limits:
        """Checked limits of a user."""
        features = check_count("max_features", max_features)
        breakpoints = check_count("max_breakpoints", max_breakpoints)
        seconds = np.inf if max_time is None else check_number("max_time", max_time)
        return cls(
            alpha,
            shape[1] if features is None else features,
            LONG_PATH * (min(shape) + 1) if breakpoints is None else breakpoints,
            seconds_working() + seconds,
        )


def path_of(problem: Problem, ridge: float, limits: Limits) -> HomotopyPath:
    """The path of a posed problem, whose penalty says no more than which signs coefficients may have."""
    with one_blas_thread:
        state, record = start_of_path(problem, ridge), _Record(problem.y, [], [], [])
        ending = _follow(state, record, limits)
    coefs = record.coefficients(state.columns.n_features)
    positive = isinstance(problem.penalty, Bounded)
    return HomotopyPath(np.array(record.alphas), coefs, np.array(record.intercepts), ending, ridge, positive, problem)


class _Record(NamedTuple):
    """What is kept of the breakpoints."""

    y: Float
    alphas: list[float]
    rows: list[tuple[Index, Float]]
    intercepts: list[float]

    def add(self, state: PathState) -> None:
        """Keep a point of the path. A step of length zero replaces the last one."""
        if self.alphas and self.alphas[-1] == state.lam:
            for kept in (self.alphas, self.rows, self.intercepts):
                kept.pop()
        used = state.coefficients != 0.0
        self.alphas.append(state.lam)
        self.rows.append((state.features[used].copy(), state.coefficients[used].copy()))
        self.intercepts.append(intercept_of(state, self.y))

    def coefficients(self, d: int) -> sp.csr_array:
        """A row for each point."""
        ends = np.cumsum([0, *(features.size for features, _ in self.rows)])
        columns, values = (np.concatenate(parts) for parts in zip(*self.rows, strict=True))
        found = sp.csr_array((values, columns, ends), shape=(len(self.rows), d))
        found.sort_indices()
        return found


def _follow(state: PathState, record: _Record, limits: Limits) -> str:
    """Go from breakpoint to breakpoint. Returns why that ended. Sets: the state and the record."""
    record.add(state)
    while state.lam > limits.alpha:
        if len(record.alphas) > limits.breakpoints:
            return f"there was a limit of {limits.breakpoints} breakpoints"
        if seconds_working() > limits.clock:
            return "there was a time limit"
        if limits.enough(state):
            return "it was long enough"
        state.settle()
        if state.lost:
            return ROUNDING_DECIDES
        if state.size > limits.features:
            return f"a feature more than {limits.features} would enter"
        state.go(limits.alpha)
        record.add(state)
    if state.lost:
        return ROUNDING_DECIDES
    return "alpha_min was reached" if limits.alpha > 0.0 else "nothing is left of the penalty"
