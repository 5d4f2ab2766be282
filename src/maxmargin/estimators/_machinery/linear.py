"""What all linear estimators share: parameters, tasks, coefficients and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check, multiclass
from maxmargin.estimators._machinery.estimator import (
    FIT_CONSTRAINTS,
    INTERCEPT_CONSTRAINT,
    POSITIVE,
    CertifiedEstimator,
)
from maxmargin.estimators._machinery.foreign import like
from maxmargin.estimators._machinery.names import InterceptName
from maxmargin.estimators._machinery.plan import ColumnsView, Plan, RowsView, View, regression_tasks
from maxmargin.estimators._machinery.problems import l1_share, limits_of
from maxmargin.estimators._machinery.results import Results, support_of
from maxmargin.estimators._machinery.typed import ClassifierMixin, RegressorMixin
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import is_sparse, scores_of
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers import DualCoordinate, Newton
from maxmargin.solvers.choice import AnyProblem, Choice
from maxmargin.threads import workers_for

LINEAR_CONSTRAINTS: dict[str, list[object]] = {
    **FIT_CONSTRAINTS,
    "C": [POSITIVE],
    "dual": ["boolean", StrOptions({"auto"})],
    "fit_intercept": ["boolean"],
    "intercept_scaling": [Interval(Real, 0, 1e100, closed="right")],
    "random_state": ["random_state"],
    "intercept": INTERCEPT_CONSTRAINT,
    "shrinking": ["boolean"],
    "n_jobs": [Integral, None],
}
DUAL_AND_LIMITS = "dual=True contradicts positive=True and bounds, which limit coefficients; leave it out."
LIMIT_CONSTRAINTS: dict[str, list[object]] = {"positive": ["boolean"], "bounds": [tuple, list, None]}


def dense_coefficients(model: LinearMachine) -> Float:
    """The coefficients of a model as an array, however it holds them."""
    return np.asarray(model.coef_.toarray()) if is_sparse(model.coef_) else model.coef_


@dataclass(kw_only=True, eq=False, repr=False)
class LinearMachine(CertifiedEstimator):
    """An estimator whose functions are coefficients of the features."""

    fit_intercept: bool = True
    random_state: int | np.random.RandomState | None = None

    _reads_chunks = True

    @property
    def _limited(self) -> bool:
        """Whether there are limits of the coefficients."""
        return getattr(self, "positive", False) or getattr(self, "bounds", None) is not None

    @property
    def _by_columns(self) -> bool:  # type: ignore[override]
        return l1_share(self) > 0.0 or self._limited

    def _limits(self, d: int) -> tuple[Float, Float] | None:
        """The smallest and the largest value of each coefficient, if there are limits."""
        return limits_of(self, d)

    def _views(self, plan: Plan) -> Sequence[View]:
        """As rows; as columns first where many coefficients may be zero or at a limit."""
        rows = RowsView(plan.X, plan.workers)
        by_columns = self._by_columns and not isinstance(plan.X, ChunkedMatrix)
        return [ColumnsView(plan.X, plan.workers), rows] if by_columns else [rows]

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: ``coef_, intercept_, support_, dual_coef_, n_iter_`` and what is known about the quality of the fit."""
        self.coef_, self.intercept_ = solved.coefficients, solved.intercepts
        n = plan.weights.size
        alpha = solved.expansions(plan.tasks, n)
        self.support_, _, self.dual_coef_ = support_of(alpha, np.zeros(n, dtype=np.int64), 1)
        solved.keep(self)

    def sparsify(self) -> Self:
        """Hold `coef_` as a sparse matrix: less memory if many coefficients are zero. Predictions stay the same.

        Returns
        -------
        self : estimator

        """
        check_is_fitted(self)
        if not is_sparse(self.coef_):
            held = sp.csr_array(self.coef_) if np.ndim(self.coef_) == 1 else sp.csr_matrix(self.coef_)
            self.__dict__["coef_"] = held
        return self

    def densify(self) -> Self:
        """Hold `coef_` as an array again, as after a fit.

        Returns
        -------
        self : estimator

        """
        check_is_fitted(self)
        self.coef_ = dense_coefficients(self)
        return self

    def _scores(self, X: Matrix | ChunkedMatrix) -> Float:
        """One column per problem."""
        coef = self.coef_ if type(self.coef_) is np.ndarray else dense_coefficients(self)
        W = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused
            scores = X @ W.T if isinstance(X, ChunkedMatrix) else scores_of(X, W)
            return check.finite_scores(X, scores + np.asarray(self.intercept_, dtype=np.float64))


class LinearClassifier(ClassifierMixin, LinearMachine):
    """A linear estimator of classes, for two of them or, by several binary problems, for more."""

    classes_: Array

    def decision_function(self, X: MatrixLike) -> Float:
        """Scores of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive for the second class of two; one score per class otherwise.

        """
        check_is_fitted(self)
        scores = self._scores(check.check_prediction_data(self, X))
        if self.classes_.size == 2:
            return like(X, scores[:, 0])
        scores = multiclass.votes(scores, self.classes_.size) if self._strategy == "ovo" else scores
        return like(X, scores)

    def _decoded(self, scores: Float) -> Array:
        return np.asarray(self.classes_[self._codes(scores)])

    @property
    def _strategy(self) -> str:
        """Which binary problems are solved for more than two classes."""
        return str(getattr(self, "multi_class", "ovr"))

    def _codes(self, scores: Float) -> Index:
        """The predicted class of each row of scores."""
        if self.classes_.size == 2:
            return (scores[:, 0] > 0.0).astype(int)
        per_class = multiclass.votes(scores, self.classes_.size) if self._strategy == "ovo" else scores
        return np.asarray(per_class.argmax(axis=1))

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task per binary problem. Sets: ``classes_``."""
        self.classes_, codes = check.check_classes(self, y)
        weights, _, s = check.check_weights(self, X, self.classes_, codes, sample_weight)
        tasks = multiclass.binary_tasks(codes, self.classes_, self._strategy, s)
        return Plan(X, y, tasks, weights, codes, workers_for(getattr(self, "n_jobs", 1)))


class LinearRegressor(RegressorMixin, LinearMachine):
    """A linear estimator whose scores are the predictions."""

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        weights = check.check_sample_weight(self, X, sample_weight)
        tasks = regression_tasks(check.check_targets(self, y), getattr(self, "C", 1.0) * weights)
        return Plan(
            X, y, tasks, weights, np.zeros(weights.size, dtype=np.int64), workers_for(getattr(self, "n_jobs", 1))
        )

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        self.coef_ = self.coef_[0]  # as in scikit-learn


@dataclass(kw_only=True, eq=False, repr=False)
class DualOrPrimal(LinearMachine):
    """A linear machine with LIBLINEAR's parameter ``dual``."""

    dual: bool | str = "auto"
    C: float = 1.0
    intercept: InterceptName | None = "auto"
    intercept_scaling: float = 1
    shrinking: bool = True
    positive: bool = False
    bounds: tuple[ArrayLike, ArrayLike] | None = None

    def _refuse_contradictions(self) -> None:
        asks_for_dual = self.solver == DualCoordinate.name
        if self.solver != "auto" and self.dual != "auto" and bool(self.dual) != asks_for_dual:
            raise ValueError(f"dual={self.dual} contradicts solver={self.solver!r}; leave one of them at its default.")
        if self.dual is True and self._limited:
            raise ValueError(DUAL_AND_LIMITS)

    def _choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        if self.solver != "auto" or self.dual == "auto" or self._by_columns:
            return super()._choice(problem, clients)
        return Choice(DualCoordinate.name if self.dual else Newton.name, f"dual={self.dual} was asked for")
