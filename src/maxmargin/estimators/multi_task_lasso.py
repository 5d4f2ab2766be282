"""The LASSO of several targets at once."""

from __future__ import annotations

from typing import ClassVar

from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery.estimator import POSITIVE
from maxmargin.estimators._machinery.grouped import GROUP_CONSTRAINTS, MultiTaskLeastSquares


class MultiTaskLasso(MultiTaskLeastSquares):
    """Least squares of several targets with a penalty on the norms of the features' coefficients.

    Minimises ``1/(2n) sum_i |Y_i - W x_i - b|^2 + alpha sum_j |w_j|``

    for a target in each column of ``Y``; ``w_j`` are the coefficients of feature ``j`` for all targets, so that a
    feature is used for all of them or for none. `duality_gap_` proves how close the fit came, for all targets together.
    Sample weights replace ``1/n`` by their shares.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty.
    fit_intercept, random_state, selection, solver
        As in `MultiTaskElasticNet`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_targets, n_features)
        Coefficients.
    dual_gap_ : float
        The certified gap, in units of what is minimised.
    intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`: one solution for all targets.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import MultiTaskLasso
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.normal(size=(50, 20)), np.zeros((20, 2))
    >>> W[:3] = 1.0
    >>> model = MultiTaskLasso(0.1).fit(X, X @ W)
    >>> model.duality_gap_ <= 1e-4, np.flatnonzero(model.coef_.any(axis=0)).tolist()
    (True, [0, 1, 2])

    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **GROUP_CONSTRAINTS,
        "alpha": [POSITIVE],
        "selection": [StrOptions({"cyclic", "random"})],
    }
