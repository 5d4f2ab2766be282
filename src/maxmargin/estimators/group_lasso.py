"""The group LASSO."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import ClassVar

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from maxmargin.estimators._machinery.estimator import POSITIVE
from maxmargin.estimators._machinery.grouped import GROUP_CONSTRAINTS, GroupedLeastSquares


@dataclass(eq=False, repr=False)
class GroupLasso(GroupedLeastSquares):
    """Least squares with a penalty on the norms of groups of coefficients.

    Minimises ``1/(2n) sum_i (y_i - w.x_i - b)^2 + alpha (l1_ratio sum_g weight_g |w_g| + (1 - l1_ratio)/2 |w|^2)``

    where ``w_g`` are the coefficients of a group of features: the features of a group are used together or not at all.
    `duality_gap_` proves how close the fit came. Sample weights replace ``1/n`` by their shares. With several targets
    the coefficients of a group are those for all of them, in one problem.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty.
    groups : int, array-like of shape (n_features,) or list of lists of int, default=None
        The size of every group, if features that follow each other belong together; or a label for each feature; or the
        features of each group, each in one of them. None has each feature by itself, as the LASSO.
    weights : array-like of shape (n_groups,), default=None
        Of the norm of each group, in the order of the lists or of the sorted labels. None is the root of the number of
        its features.
    l1_ratio : float, default=1.0
        Share of the norms of the groups; the rest is half of the sum of all squares.
    fit_intercept : bool, default=True
        Whether there is an intercept; it is not penalised.
    random_state : int, RandomState or None, default=None
        Without effect: nothing is drawn at random.
    solver : str, default="auto"
        Name of a solver: "group_descent" is what there is.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
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
    >>> from maxmargin import GroupLasso
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.normal(size=(50, 20)), np.zeros((20, 1))
    >>> W[:3] = 1.0
    >>> model = GroupLasso(0.1, groups=4).fit(X, X @ W[:, 0])
    >>> model.duality_gap_ <= 1e-4, np.flatnonzero(model.coef_).tolist()
    (True, [0, 1, 2, 3])

    """

    groups: int | ArrayLike | list[list[int]] | None = None
    _: KW_ONLY
    weights: ArrayLike | None = None
    l1_ratio: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **GROUP_CONSTRAINTS,
        "alpha": [POSITIVE],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "groups": ["array-like", Integral, None],
        "weights": ["array-like", None],
    }
