"""Least squares with an L1 and an L2 penalty."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.check import refuse_chunks
from maxmargin.estimators._machinery.plan import Plan
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators._machinery.sparse_least_squares import (
    RATIO,
    SPARSE_CONSTRAINTS,
    STRENGTH,
    SparseLeastSquaresRegressor,
)
from maxmargin.estimators.linear_regression import LinearRegression
from maxmargin.loop.solution import Solution
from maxmargin.operators import MatrixLike
from maxmargin.protocols import Float


@dataclass(eq=False, repr=False)
class ElasticNet(SparseLeastSquaresRegressor):
    """Linear regression with an L1 and an L2 penalty.

    Minimises

    ``sum_i s_i (y_i - w.x_i - b)^2 / (2 sum_i s_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)``

    where ``s_i`` is the sample weight, and proves how close it came: `duality_gap_`. The intercept has no penalty.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty. With 0 the fit is that of `LinearRegression`; above some largest value all
        coefficients are exactly zero.
    l1_ratio : float, default=0.5
        Share of the L1 penalty, from 0 (ridge regression) to 1 (the LASSO).
    precompute : bool, "auto" or array-like of shape (n_features, n_features), default=False
        Whether the products of all columns with each other are wanted, or these products. Without effect: the solver
        computes those of the columns that it needs. An array that cannot be that of the samples is refused.
    selection : {"cyclic", "random"}, default="cyclic"
        The order of coefficients in scikit-learn's coordinate descent. Without effect: the optimum does not depend on
        it, and the solvers have orders of their own.
    debias : bool, default=False
        Whether to fit those coefficients that are not zero again without a penalty, which shrinks them. The
        certificates are about the fit before that, whose coefficients are kept too.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept.
    shrunken_coef_, shrunken_intercept_
        With `debias`, coefficients and intercept before they were fitted again.
    dual_gap_ : float or ndarray of shape (n_targets,)
        The certified gap, in units of what is minimised.
    sparse_coef_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; there is a solution for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import ElasticNet
    >>> model = ElasticNet(alpha=0.01, tol=1e-8).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-8
    True

    """

    alpha: float = 1.0
    _: KW_ONLY
    l1_ratio: float = 0.5
    debias: bool = False

    _parameter_constraints: ClassVar[Constraints] = {
        **SPARSE_CONSTRAINTS,
        "alpha": STRENGTH,
        "l1_ratio": RATIO,
        "debias": ["boolean"],
    }

    @with_callbacks
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, check_input: bool = True
    ) -> ElasticNet:
        """Fit the model to all samples and certify it.

        Parameters
        ----------
        X : array-like, sparse matrix or ChunkedMatrix of shape (n_samples, n_features)
            Samples; those of `maxmargin.io.open_chunks` need not fit into memory. Columns in memory one after another
            (Fortran order, CSC) are not copied.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight of each sample's error: weight 2 is the same as the sample twice.
        check_input : bool, default=True
            As in scikit-learn, and without effect: samples are always checked.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        if sample_weight is None and self._fit_at_once(X, y):
            return self
        return self._fit(X, y, sample_weight)

    @property
    def _strengths(self) -> tuple[float, float]:
        return float(self.alpha), float(self.l1_ratio)

    def _few_terms(self, n: int, d: int) -> tuple[float, float, tuple[Float, Float] | None, float] | None:
        return None if self.debias else super()._few_terms(n, d)

    def _keep_one(self, solution: Solution) -> None:
        super()._keep_one(solution)
        self._forget_refit()

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        self._forget_refit()
        if self.debias:
            self._refit(plan)

    def _forget_refit(self) -> None:
        for name in ("shrunken_coef_", "shrunken_intercept_"):
            self.__dict__.pop(name, None)

    def _refit(self, plan: Plan) -> None:
        """Fit the coefficients that are not zero without a penalty. Sets: ``coef_, intercept_`` and what they were."""
        self.shrunken_coef_, self.shrunken_intercept_ = self.coef_, self.intercept_
        W = np.zeros((len(plan.tasks), plan.X.shape[1]))
        biases = np.zeros(len(W))
        X = refuse_chunks(plan.X, "debias=True", "load the columns of the coefficients, and fit LinearRegression")
        limits = self._limits(W.shape[1])
        for k, (task, w) in enumerate(zip(plan.tasks, np.atleast_2d(self.coef_), strict=True)):
            S = np.flatnonzero(w)
            if S.size:
                bounds = None if limits is None else (limits[0][S], limits[1][S])
                model = LinearRegression(fit_intercept=self.fit_intercept, bounds=bounds, n_jobs=self.n_jobs)
                model.fit(X[:, S], task.y, plan.weights)
                W[k, S], biases[k] = model.coef_, model.intercept_
            elif self.fit_intercept:
                biases[k] = float(task.s @ task.y)
        self.coef_ = W.reshape(np.shape(self.coef_))
        self.intercept_ = biases if np.ndim(self.intercept_) else float(biases[0])
