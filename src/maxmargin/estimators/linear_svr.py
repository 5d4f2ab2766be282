"""Linear support vector regression."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import FitTasks, with_callbacks
from maxmargin.estimators._machinery.fit import all_or_nothing
from maxmargin.estimators._machinery.linear_machine import LINEAR_CONSTRAINTS, LinearMachine
from maxmargin.estimators._machinery.problems import tube_problem
from maxmargin.estimators._machinery.task import Task
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Features, Float


class LinearSVR(RegressorMixin, LinearMachine):
    """Linear support vector regression.

    Minimises

    ``1/2 |w|^2 + C sum_i s_i max(0, |y_i - w.x_i - b| - epsilon)``

    or the same with squares of the losses, where ``s_i`` is the sample weight. By default the intercept is penalised as
    in LIBLINEAR: ``b^2 / (2 intercept_scaling^2)`` is added. ``intercept="free"`` gives the problem of
    ``SVR(kernel="linear")``.

    Parameters
    ----------
    epsilon : float, default=0.0
        Half the width of the tube in which errors cost nothing.
    tol : float, default=1e-4
        Relative duality gap at which to stop.
    C : float, default=1.0
        Weight of the losses against the norm.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Of the errors.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    intercept_scaling : float, default=1.0
        Height of the constant column whose coefficient a penalised intercept is.
    dual : "auto" or bool, default="auto"
        True is "dual_coordinate", False is "newton", whatever the number of features. The problem is the same.
    verbose : int, default=0
        Whether to show a progress line on standard error.
    random_state : int, RandomState or None, default=None
        Seed of the solver's permutations; None is a fixed seed.
    max_iter : int, default=-1
        Limit on the solver's iterations (epochs or Newton steps); -1 for none.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "penalised" if `fit_intercept`, as in LIBLINEAR.
    shrinking : bool, default=True
        Whether to skip samples whose dual variable has come to rest. The result is checked on all of them.
    solver : str, default="auto"
        Name of a solver; what "auto" stands for depends on the samples: `explain_solver` says.
    max_time : float, default=None
        Limit in seconds; the best point so far is kept.
    warm_start : bool, default=False
        Whether to start from the last fit.
    callback : callable, default=None
        Called with a `Record` after every round; a true value stops the fit.
    n_jobs : int, default=None
        Threads; None is as many as BLAS may use, -1 all processors. The result is the same bits for any number.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients.
    intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    support_, dual_coef_ : ndarray
        The samples with a non-zero dual variable, and these variables as a matrix of one row.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LinearSVR
    >>> model = LinearSVR(C=10.0, tol=1e-6).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LINEAR_CONSTRAINTS,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "loss": [StrOptions({"epsilon_insensitive", "squared_epsilon_insensitive"})],
    }

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-4,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: Any = "auto",
        verbose: Any = 0,
        random_state: Any = None,
        max_iter: int = -1,
        intercept: Any = "auto",
        shrinking: bool = True,
        solver: str = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        callback: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.intercept = intercept
        self.shrinking = shrinking
        self.solver = solver
        self.max_time = max_time
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVR:
        """Fit the model and certify it.

        Parameters
        ----------
        X : array-like, sparse matrix or ChunkedMatrix of shape (n_samples, n_features)
            Samples; those of `maxmargin.io.open_chunks` need not fit into memory.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : LinearSVR
            The fitted estimator.

        """
        with all_or_nothing(self):
            X = self._fit(X, y, sample_weight)
        check.warn_unless_converged(self, X)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Fit, and return the samples as they were used. Sets: the fitted attributes."""
        self._validate_params()
        self._refuse_contradictions()
        X, y = check.check_training_data(self, X, y)
        s = self.C * check.check_sample_weight(self, X, sample_weight)
        tasks = [Task("regression", np.arange(s.size), np.asarray(y, dtype=np.float64))]
        listeners = FitTasks(self, X, y, len(tasks))
        self._keep_functions(s.size, tasks, self._solve(X, tasks, s, listeners))
        self.coef_ = self.coef_[0]
        listeners.end(dict(vars(self)))
        return X

    def predict(self, X: Any) -> Float:
        """Targets of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.

        """
        check_is_fitted(self)
        return self._scores(check.check_prediction_data(self, X))[:, 0]

    def _problem(self, operator: Features, y: Float, s: Float) -> Problem:
        """What the fit minimises."""
        intercept = check.check_intercept(self, "penalised")
        return tube_problem(operator, y, s, self.loss, self.epsilon, intercept, float(self.intercept_scaling))
