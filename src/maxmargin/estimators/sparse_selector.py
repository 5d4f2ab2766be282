"""The features that a sparse linear model keeps, as a step of a pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import worst
from maxmargin.estimators.homotopy_path import Limits, path_of
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Solution
from maxmargin.operators import Columns, Matrix, rows_of
from maxmargin.parts.losses import Logistic, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, ElasticNet
from maxmargin.problems.point import Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Intercept, Loss, Operator, Penalty
from maxmargin.solvers.choice import choose
from maxmargin.solvers.columns.homotopy import Homotopy
from maxmargin.threads import one_blas_thread, workers_for

LOSSES: dict[str, Loss] = {"squared_error": Squared(), "log_loss": Logistic(), "squared_hinge": SquaredHinge()}
SHARE = 0.1  # of the strength that leaves no feature, if the user names none
LEAST_SHARE = 1e-3  # down to which features are looked for, as in scikit-learn's paths
STEP = 0.8  # from one strength to the next
BISECTIONS = 8  # between the last two: to a part in a thousand
ROUNDING = 1e-13  # of the products of columns and targets


@dataclass(eq=False, repr=False)
class SparseSelector(SelectorMixin, BaseEstimator):
    """Selects the features to which a sparse linear model gives a coefficient.

    The model minimises, with shares ``s_i`` of the samples, whose sum is 1,

    ``sum_i s_i loss(y_i, w.x_i + b) + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)``

    and the features with ``w_j != 0`` are kept. It is the LASSO or elastic net with the squared error, for one target
    or several, and logistic regression or a linear SVM with the losses of classification, of each class against the
    rest if there are more than two. A feature is kept if any target or class needs it.

    Parameters
    ----------
    loss : {"squared_error", "log_loss", "squared_hinge"}, default="squared_error"
        ``(y - z)^2 / 2`` for targets that are numbers, ``log(1 + exp(-y z))`` or ``max(0, 1 - y z)^2`` for classes.
    alpha : float, default=None
        Strength of the penalty. ``C`` of a classifier is ``1 / (n alpha)``. None is a tenth of the strength that leaves
        no feature, or with `max_features` a thousandth.
    l1_ratio : float, default=1.0
        The share of the L1 norm, above 0.
    max_features : int, default=None
        How many features to keep at most: the smallest strength is used, but not below `alpha`, down to which there are
        no more. For the LASSO with one target it is a breakpoint of the exact path (`lasso_homotopy`), otherwise it is
        found to a part in a thousand.
    fit_intercept : bool, default=True
        Whether there is an intercept, without a penalty.
    tol : float, default=1e-6
        Relative duality gap at which to stop.
    max_time : float, default=None
        Limit in seconds; the best coefficients so far are used, with a warning.
    n_jobs : int, default=None
        Number of threads; None is as many as BLAS may use. Results are the same for any number.

    Attributes
    ----------
    alpha_ : float
        The strength that was used.
    alpha_max_ : float
        The smallest strength that leaves no feature.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients of the model; of more than two classes, a row for each in the order of the sorted labels.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `LinearSVC`; there is a solution for each target, or for each class if there are more than two.

    See Also
    --------
    lasso_homotopy : All supports of the LASSO at once.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import SparseSelector
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> selector = SparseSelector(max_features=4).set_output(transform="pandas").fit(X, y)
    >>> list(selector.transform(X).columns)
    ['bmi', 'bp', 's3', 's5']

    """

    loss: str = "squared_error"
    _: KW_ONLY
    alpha: float | None = None
    l1_ratio: float = 1.0
    max_features: int | None = None
    fit_intercept: bool = True
    tol: float = 1e-6
    max_time: float | None = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "loss": [StrOptions(set(LOSSES))],
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "l1_ratio": [Interval(Real, 0, 1, closed="right")],
        "max_features": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_time": [Interval(Real, 0, None, closed="left"), None],
        "n_jobs": [Integral, None],
    }

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the features that count.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets, or labels of classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample: weight 2 is the same as the sample twice.

        Returns
        -------
        self : SparseSelector
            The fitted selector.

        """
        self._validate_params()
        regression = self.loss == "squared_error"
        with np.errstate(invalid="ignore"):  # infinities are refused
            X, y = validate_data(self, X, y, multi_output=regression, **(check.COLUMNS if regression else check.ROWS))
        check.refuse_huge_values(self, X)
        weights = check.check_sample_weight(self, X, sample_weight)
        tasks = tasks_of_selector(self, y, weights / weights.sum())
        with one_blas_thread:
            search = _Search(self, X, tasks)
            self.alpha_max_ = search.alpha_max
            self.alpha_, self.solutions_ = search.found()
        self._keep(np.ndim(y) > 1 or len(tasks) > 1)
        return self

    def _keep(self, several: bool) -> None:
        """Sets: the fitted attributes. Warns of what did not converge."""
        coef = np.array([solution.point.w for solution in self.solutions_])
        intercept = np.array([solution.point.b for solution in self.solutions_])
        self.coef_: Float = coef if several else coef[0]
        self.intercept_: Any = intercept if several else float(intercept[0])
        last = worst(self.solutions_)
        self.solution_, self.duality_gap_ = last, last.certificate.relative_gap
        self.objective_, self.dual_objective_ = last.certificate.primal, last.certificate.dual
        if self.status_ is not Status.CONVERGED:
            warnings.warn(
                f"SparseSelector: {last.message} Raise max_time or tol; features may be missing.",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def status_(self) -> Status:
        """Why the fit stopped; of several problems, that of the worst one that did not converge."""
        check_is_fitted(self)
        unfinished = [solution for solution in self.solutions_ if solution.status is not Status.CONVERGED]
        return worst(unfinished).status if unfinished else Status.CONVERGED

    def _get_support_mask(self) -> Array:
        check_is_fitted(self)
        return np.asarray(np.atleast_2d(self.coef_).any(axis=0))

    def __sklearn_is_fitted__(self) -> bool:
        # Validation sets n_features_in_, which alone would count as fitted.
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = self.loss == "squared_error"
        return tags


def problem_of_selector(selector: SparseSelector, operator: Operator, task: Task, alpha: float) -> Problem:
    """What a selector minimises for one target or class."""
    ratio = float(selector.l1_ratio)
    penalty: Penalty = L1(alpha) if ratio == 1.0 else ElasticNet(alpha, ratio)
    intercept: Intercept = "free" if selector.fit_intercept else None
    return Problem(operator, task.y, LOSSES[selector.loss], penalty, task.s, intercept)


def tasks_of_selector(selector: SparseSelector, y: Any, shares: Float) -> Sequence[Task]:
    """A task for each target, or for each class."""
    if selector.loss == "squared_error":
        columns = np.atleast_2d(check.check_targets(selector, y).T)
        return [
            Task(f"target {k}", np.arange(shares.size), np.ascontiguousarray(column), shares)
            for k, column in enumerate(columns)
        ]
    classes, codes = check.check_classes(selector, y)
    return binary_tasks(codes, classes, "ovr", shares)


class _Search:
    """The problems of a selector, for any strength, and the strength that keeps so many features."""

    def __init__(self, selector: SparseSelector, X: Matrix, tasks: Sequence[Task]) -> None:
        self.selector, self.tasks = selector, tasks
        workers = workers_for(selector.n_jobs)
        squares = selector.loss == "squared_error"
        self.operator: Operator = Columns(X, workers) if squares else rows_of(X, workers)
        self.deadline = None if selector.max_time is None else seconds_working() + selector.max_time
        self.alpha_max = max(self._alpha_max(self.problem(task, 1.0)) for task in tasks) / selector.l1_ratio

    def problem(self, task: Task, alpha: float) -> Problem:
        """What is minimised for one target or class."""
        return problem_of_selector(self.selector, self.operator, task, alpha)

    def found(self) -> tuple[float, list[Solution]]:
        """The strength, and the solutions at it."""
        selector, most = self.selector, self.selector.max_features
        share = SHARE if most is None else LEAST_SHARE
        least = float(selector.alpha) if selector.alpha is not None else share * self.alpha_max
        if least <= 0.0 or most is None or least >= self.alpha_max:
            alpha = least if least > 0.0 else 1.0  # targets that do not depend on any feature
            return alpha, self._solutions(alpha)
        if selector.loss == "squared_error" and selector.l1_ratio == 1.0 and len(self.tasks) == 1:
            return self._by_path(least, int(most))
        return self._by_bisection(least, int(most))

    def _solutions(self, alpha: float, warm: list[Solution] | None = None) -> list[Solution]:
        """Of all tasks."""
        solved = []
        for k, task in enumerate(self.tasks):
            problem = self.problem(task, alpha)
            solver, left = choose(problem).make(), None
            if self.deadline is not None:
                left = max(0.0, self.deadline - seconds_working()) / (len(self.tasks) - k)
            start = None if warm is None else warm[k].point
            solved.append(minimize(problem, solver, tol=self.selector.tol, max_time=left, warm=start))
        return solved

    def _by_path(self, least: float, most: int) -> tuple[float, list[Solution]]:
        """At the breakpoint where one feature too many would enter: the same path leads there once more."""
        problem = self.problem(self.tasks[0], 1.0)
        columns: Any = self.operator
        limits = Limits.of((columns.n_samples, columns.n_features), least, most, None, self.selector.max_time)
        path = path_of(problem, 0.0, limits)
        alpha = float(path.alphas[-1])
        solution = minimize(self.problem(self.tasks[0], alpha), Homotopy(), tol=self.selector.tol)
        return alpha, [solution]

    def _by_bisection(self, least: float, most: int) -> tuple[float, list[Solution]]:
        """The smallest strength with few enough features, as far as their number falls with it."""
        good, bad = self.alpha_max, 0.0
        best = latest = self._solutions(good)
        while bad == 0.0 and good > least:
            alpha = max(STEP * good, least)
            latest = self._solutions(alpha, latest)
            if _count(latest) > most:
                bad = alpha
            else:
                good, best = alpha, latest
        for _ in range(BISECTIONS if bad > 0.0 else 0):
            alpha = float(np.sqrt(good * bad))
            latest = self._solutions(alpha, latest)
            if _count(latest) > most:
                bad = alpha
            else:
                good, best = alpha, latest
        return good, best

    @staticmethod
    def _alpha_max(problem: Problem) -> float:
        """The smallest strength of the L1 norm for which zero coefficients are optimal; 0 if it is rounding."""
        operator: Any = problem.operator
        z = np.zeros(problem.y.size)
        alpha = problem.answers(z, problem.missing_intercept(z))
        largest = float(np.abs(operator.adjoint(alpha)).max(initial=0.0))
        size = float(np.linalg.norm(problem.s * np.abs(problem.y))) * float(operator.column_lengths().max(initial=0.0))
        return largest if largest > ROUNDING * size else 0.0


def _count(solutions: list[Solution]) -> int:
    """How many features any of the solutions needs."""
    return int(np.any([solution.point.w != 0.0 for solution in solutions], axis=0).sum())
