"""Linear regression by stochastic gradient descent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.fit import all_or_nothing
from maxmargin.estimators._machinery.linear import LinearRegressor
from maxmargin.estimators._machinery.plan import regression_task
from maxmargin.estimators._machinery.stochastic import REGRESSION_LOSSES, STOCHASTIC_CONSTRAINTS, StochasticEstimator
from maxmargin.operators import MatrixLike


@dataclass(eq=False, repr=False)
class SGDRegressor(StochasticEstimator, LinearRegressor):
    """Linear regression, fitted by stochastic gradient descent.

    Minimises

    ``1/S sum_i c_i loss(y_i, x_i.w + b) + alpha R(w)``

    where ``c_i`` is the sample weight, ``S`` the sum of the sample weights, and ``R(w)`` one of ``|w|^2 / 2``,
    ``|w|_1`` and ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``. `fit` minimises it over given samples and proves how
    close it came; `partial_fit` makes one pass over fresh samples of a stream.

    Parameters
    ----------
    loss : {"squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"}, default="squared_error"
        "squared_error" is half the square, "huber" the same up to `epsilon`.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        ``R(w)``. None is no penalty, as is ``alpha=0``: see `SGDClassifier`.
    alpha : float, default=0.0001
        Strength of the penalty; from 0 on, and above 0 for ``learning_rate="optimal"``.
    l1_ratio : float, default=0.15
        Share of the L1 norm, for "elasticnet"; otherwise it may be None.
    learning_rate : {"optimal", "invscaling", "constant", "adaptive", "pa1", "pa2"}, default="optimal"
        As in `SGDClassifier`; "pa1" and "pa2" are for the loss "epsilon_insensitive" only. scikit-learn's default is
        "invscaling" with the power 1/4, under which the noise hardly dies out.
    fit_intercept, max_iter, shuffle, epsilon, random_state, eta0, power_t, early_stopping, validation_fraction
        As in `SGDClassifier`.
    n_iter_no_change, warm_start, average, order, solver, max_time, callback
        As in `SGDClassifier`.
    tol : float, default=0.001
        By how much the mean objective of an epoch has to be smaller than the smallest one before, or the score of
        samples that are held out larger: if it is not in `n_iter_no_change` epochs one after another, the fit ends.
        None makes all `max_iter` epochs. With ``stop="gap"`` and other solvers it is the certified gap to reach.
    stop : {"objective", "gap"}, default="objective"
        "objective" ends a fit when the objective no longer falls by `tol`, as scikit-learn does; `duality_gap_` says
        how far from the optimum that was. "gap" ends it when the certified relative gap is at most `tol`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, t_, n_features_in_, feature_names_in_
        As in scikit-learn.
    support_, dual_coef_ : ndarray
        The samples with a non-zero dual variable, and these variables.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; the two objectives are ``S`` times the values of the formula above. After `partial_fit` they judge
        the model on the last samples alone.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import SGDRegressor
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = SGDRegressor(alpha=0.1, stop="gap").fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> model.duality_gap_ <= 1e-3
    True

    """

    loss: str = "squared_error"
    _: KW_ONLY
    n_jobs: None = field(default=None, init=False)

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **STOCHASTIC_CONSTRAINTS,
        "loss": [StrOptions(set(REGRESSION_LOSSES))],
    }

    loss_functions: ClassVar[dict[str, tuple[object, ...]]] = REGRESSION_LOSSES

    def partial_fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SGDRegressor:
        """Learn from one pass over fresh samples.

        The step goes on shrinking from call to call. The certificate is that of the objective over these samples
        alone: a model that has learnt much from others may well have a large gap on them, and no warning is given.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss.

        Returns
        -------
        self : SGDRegressor
            The estimator, one pass wiser.

        """
        with all_or_nothing(self):
            X, y = self._prepare(X, y, reset=not self.__sklearn_is_fitted__())
            s = check.check_sample_weight(self, X, sample_weight)
            self._learn(X, y, [regression_task(check.check_targets(self, y), s)], s)
        return self
