"""Least squares with an L1 penalty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators.elastic_net import ElasticNet


@dataclass(eq=False, repr=False)
class Lasso(ElasticNet):
    """Linear regression with an L1 penalty, which makes most coefficients exactly zero.

    Minimises

    ``sum_i s_i (y_i - w.x_i - b)^2 / (2 sum_i s_i) + alpha |w|_1``

    where ``s_i`` is the sample weight, and proves how close it came: `duality_gap_`. The intercept has no penalty.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty. With 0 the fit is that of `LinearRegression`; above some largest value all
        coefficients are exactly zero.
    precompute : bool, "auto" or array-like of shape (n_features, n_features), default=False
        Without effect, as in `ElasticNet`.
    selection : {"cyclic", "random"}, default="cyclic"
        Without effect, as in `ElasticNet`.
    debias : bool, default=False
        Whether to fit those coefficients that are not zero again without a penalty, which shrinks them. The
        certificates are about the fit before that, whose coefficients are kept too.
    solver, solver_options, max_time, verbose, callback, n_jobs
        As in `ElasticNet`.

    Attributes
    ----------
    coef_, intercept_, shrunken_coef_, shrunken_intercept_, dual_gap_
        As in `ElasticNet`.
    sparse_coef_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; there is a solution for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import Lasso
    >>> model = Lasso(alpha=1.0, tol=1e-8).fit(*load_diabetes(return_X_y=True))
    >>> model.coef_.astype(bool).sum().item(), model.duality_gap_ <= 1e-8
    (3, True)

    """

    l1_ratio: float = field(default=1.0, init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        name: rule for name, rule in ElasticNet._parameter_constraints.items() if name != "l1_ratio"
    }
