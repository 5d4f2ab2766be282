"""The LASSO, whose strength is chosen by cross-validation."""

from __future__ import annotations

from typing import ClassVar

from maxmargin.estimators._machinery.cross_validation import CV_CONSTRAINTS, CrossValidatedSparseRegressor
from maxmargin.estimators._machinery.plan import Plan
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators.elastic_net import ElasticNet


class LassoCV(CrossValidatedSparseRegressor):
    """The LASSO with its strength chosen by cross-validation.

    Each fold is fitted with all strengths, one after another from the largest on, and each of these fits is certified.
    The strength with the least mean squared error on samples that were left out is that of the last fit, to all
    samples, as by `Lasso`.

    Parameters
    ----------
    precompute, copy_X, selection, random_state
        Without effect, as in `ElasticNet`.
    eps, alphas, fit_intercept, max_iter, tol, cv, verbose, n_jobs, max_time
        As in `ElasticNetCV`.

    Attributes
    ----------
    alpha_ : float
        The strength that was chosen.
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `Lasso`, of the last fit.
    alphas_ : ndarray of shape (n_alphas,)
        The strengths.
    mse_path_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors on samples that were left out.
    duality_gap_path_, objective_path_, dual_objective_path_ : ndarray of shape (n_alphas, n_folds)
        Certified relative gap, primal and dual value of each fit.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        Of the last fit, as in `Lasso`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LassoCV
    >>> model = LassoCV().fit(*load_diabetes(return_X_y=True))
    >>> model.mse_path_.shape, (model.duality_gap_path_ <= 1e-4).all().item()
    ((100, 5), True)

    """

    _parameter_constraints: ClassVar[Constraints] = {**CV_CONSTRAINTS}

    def _ratios(self) -> list[float]:
        return [1.0]

    def _without_l1(self) -> ElasticNet:
        return ElasticNet(fit_intercept=self.fit_intercept, tol=self.tol, n_jobs=1)

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        del self._chosen_ratio, self._deadline
