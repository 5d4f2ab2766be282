"""What all kernel machines share: parameters, how samples are seen, support vectors and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE, CertifiedEstimator
from maxmargin.estimators._machinery.fit import Solved
from maxmargin.estimators._machinery.kernels import KERNEL_NAMES, KernelView, bandwidth, kernel_scores
from maxmargin.estimators._machinery.plan import Function, Plan, RowsView, View, regression_task
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.precise import linear_coefficients
from maxmargin.protocols import Array, Float
from maxmargin.threads import workers_for

KERNEL_CONSTRAINTS: dict[str, list[object]] = {
    **FIT_CONSTRAINTS,
    "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "shrinking": ["boolean"],
    "cache_size": [POSITIVE],
    "n_jobs": [Integral, None],
}


class KernelMachine(CertifiedEstimator):
    """An estimator whose functions are expansions over support vectors."""

    _has_form_of_rows: ClassVar[bool] = True  # whether its problem can be posed without a kernel, if that is linear

    def _views(self, plan: Plan) -> Sequence[View]:
        """Through the kernel; if it is linear, as rows of features where a problem can be posed so."""
        if self.kernel == "precomputed":
            check.check_kernel_matrix(plan.X)
        self._gamma = bandwidth(self, plan.X, plan.weights)
        if self.kernel == "poly":
            check.check_polynomial(self.degree, self._gamma, self.coef0, plan.X)
        kernel = KernelView(self, plan.X, plan.tasks, plan.workers)
        as_rows = self._has_form_of_rows and self.kernel == "linear"
        return [RowsView(plan.X), kernel] if as_rows else [kernel]

    def _hints(self) -> Mapping[str, object]:
        return {**super()._hints(), "tol": self.tol, "max_memory": self.cache_size}

    def _function(self, problem: Any, solution: Solution) -> Function:
        """The function that was certified. Over a kernel its expansion is ``w``: the dual point may be another one."""
        point = solution.point
        return Function(point.w, point.b, point.w if problem.kernelised else point.alpha)

    def _keep(self, plan: Plan, solved: Sequence[Solved]) -> None:
        """Sets: ``support_, support_vectors_, dual_coef_, intercept_, shape_fit_``, certificates, and ``coef_``."""
        X, functions = plan.X, [one.function for one in solved]
        expansions = np.zeros((len(functions), X.shape[0]))
        for expansion, task, function in zip(expansions, plan.tasks, functions, strict=True):
            expansion[task.members] = function.alpha
        used = np.flatnonzero(expansions.any(axis=0))
        self.support_ = used[np.argsort(plan.codes[used], kind="stable")].astype(np.int32)
        empty = np.empty((0, 0), dtype=X.dtype)
        self.support_vectors_ = empty if self.kernel == "precomputed" else X[self.support_]
        self.dual_coef_ = expansions[:, self.support_]
        self.intercept_ = np.array([function.b for function in functions])
        self.shape_fit_ = X.shape
        if self.kernel == "linear":
            # Of rows, the coefficients that were certified: before the optimum they are not the sum over the samples.
            as_rows = isinstance(plan.view, RowsView)
            w = np.array([function.w for function in functions]) if as_rows else None
            self._coef = self._summed(plan, functions) if w is None else w
        self._keep_certificates([one.solution for one in solved])

    def _summed(self, plan: Plan, functions: Sequence[Function]) -> Float:
        """Coefficients of the features from expansions over rows, which may be far from zero and cancel.

        The expansion that was certified is summed, and the sum divided: to divide its terms would round each of them.
        """
        expansions, margins = np.zeros((len(functions), plan.X.shape[0])), np.ones((len(functions), 1))
        for k, (task, function) in enumerate(zip(plan.tasks, functions, strict=True)):
            expansions[k, task.members] = function.alpha
            if function.undivided is not None:
                expansions[k, task.members], margins[k] = function.undivided, function.width
        return linear_coefficients(self.support_vectors_, expansions[:, self.support_]) / margins

    def _keep_certificates(self, solutions: list[Solution]) -> None:
        super()._keep_certificates(solutions)
        self.fit_status_ = int(not all(s.certificate.relative_gap <= self.tol for s in solutions))

    def _expansions(self) -> Float:
        """Coefficients of the support vectors in each problem."""
        return self.dual_coef_

    def _scores(self, X: Matrix | ChunkedMatrix) -> Float:
        """One column per problem."""
        assert not isinstance(X, ChunkedMatrix)  # it is refused where samples are checked
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused
            scores = X @ self._coef.T if self.kernel == "linear" else kernel_scores(self, X, self._expansions())
            return check.finite_scores(X, np.asarray(scores, dtype=np.float64) + self.intercept_)

    @property
    def coef_(self) -> Float:
        """Coefficients of the features, one row per problem; for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with the linear kernel; the others have dual_coef_.")
        check_is_fitted(self)
        return self._coef

    @property
    def n_support_(self) -> Array:
        """Number of support vectors (of each class, if there are classes)."""
        check_is_fitted(self)
        return np.array([self.support_.size], dtype=np.int32)


class KernelRegressor(RegressorMixin, KernelMachine):
    """A kernel machine whose scores are the predictions."""

    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> KernelRegressor:
        """Fit the model and certify it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: MatrixLike) -> Float:
        """Targets of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.

        """
        check_is_fitted(self)
        return self._scores(check.check_prediction_data(self, X))[:, 0]

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        weights = check.check_sample_weight(self, X, sample_weight)
        codes = np.zeros(weights.size, dtype=np.int64)
        return Plan(
            X,
            y,
            [regression_task(check.check_targets(self, y), self.C * weights)],
            weights,
            codes,
            workers_for(self.n_jobs),
        )
