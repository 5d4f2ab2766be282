"""The elastic net, whose penalties are chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.estimators._machinery.cross_validation import CV_CONSTRAINTS, CrossValidatedSparseRegressor
from maxmargin.estimators._machinery.plan import Plan
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators._machinery.sparse_least_squares import RATIO
from maxmargin.estimators.elastic_net import ElasticNet


@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNetCV(CrossValidatedSparseRegressor):
    """The elastic net with strength and share of the L1 penalty chosen by cross-validation.

    Each fold is fitted with all strengths, one after another from the largest on, and each of these fits is certified.
    The strength with the least mean squared error on samples that were left out is that of the last fit, to all
    samples, as by `ElasticNet`.

    Parameters
    ----------
    l1_ratio : float or list of float, default=0.5
        Share of the L1 penalty, or several to choose from.
    eps : float, default=1e-3
        Ratio of the smallest and the largest strength, if `alphas` is a number.
    alphas : int or array-like of shape (n_alphas,), default=100
        Strengths to try, or how many; the largest of these makes all coefficients zero.
    fit_intercept : bool, default=True
        Whether there is an intercept, which has no penalty.
    precompute, copy_X, selection, random_state
        Without effect, as in `ElasticNet`.
    max_iter : int, default=None
        Limit on the iterations of each fit; None or -1 for none.
    tol : float, default=1e-4
        Relative duality gap at which each fit stops.
    cv : int, splitter or iterable, default=None
        As in scikit-learn; None is 5 folds.
    verbose : int, default=0
        Whether to show a progress line of the last fit on standard error.
    n_jobs : int, default=None
        Threads that share the folds; None is as many as BLAS may use, -1 all processors. The result is the same bits
        for any number.
    max_time : float, default=None
        Limit in seconds for the paths together, and once more for the last fit; the best points so far are kept.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        What was chosen.
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `ElasticNet`, of the last fit.
    alphas_ : ndarray of shape (n_alphas,) or (n_l1_ratio, n_alphas)
        The strengths.
    mse_path_ : ndarray of shape (n_alphas, n_folds) or (n_l1_ratio, n_alphas, n_folds)
        Mean squared errors on samples that were left out.
    duality_gap_path_, objective_path_, dual_objective_path_ : ndarray of the same shape
        Certified relative gap, primal and dual value of each fit.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        Of the last fit, as in `ElasticNet`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import ElasticNetCV
    >>> model = ElasticNetCV(l1_ratio=[0.5, 1.0]).fit(*load_diabetes(return_X_y=True))
    >>> model.l1_ratio_, (model.duality_gap_path_ <= 1e-4).all().item()
    (1.0, True)

    """

    l1_ratio: float | Sequence[float] = 0.5

    _parameter_constraints: ClassVar[Constraints] = {**CV_CONSTRAINTS, "l1_ratio": [*RATIO, "array-like"]}

    def _ratios(self) -> list[float]:
        ratios = np.atleast_1d(np.asarray(self.l1_ratio, dtype=np.float64))
        if ratios.ndim != 1 or not ((ratios >= 0.0) & (ratios <= 1.0)).all():
            raise ValueError(f"l1_ratio must be a number from 0 to 1, or a list of such; got {self.l1_ratio!r}.")
        return [float(ratio) for ratio in ratios]

    def _without_l1(self) -> ElasticNet:
        return ElasticNet(fit_intercept=self.fit_intercept, tol=self.tol, n_jobs=1)

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        self.l1_ratio_ = self._chosen_ratio
        del self._chosen_ratio, self._deadline
