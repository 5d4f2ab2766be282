"""Ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.fit import Solved
from maxmargin.estimators._machinery.least_squares import (
    ALPHA_CONSTRAINT,
    LEAST_SQUARES_CONSTRAINTS,
    LeastSquaresRegressor,
    strengths_of,
)
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.loop.minimize import Callback
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Operator


class Ridge(LeastSquaresRegressor):
    """Ridge regression.

    Minimises

    ``sum_i s_i (y_i - w.x_i - b)^2 + alpha |w|^2``

    where ``s_i`` is the sample weight, and proves how close it came: `duality_gap_`. The intercept has no penalty.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Strength of the penalty, one for all targets or one for each. With 0 the fit is that of `LinearRegression`.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    copy_X : bool, default=True
        Without effect: samples are never overwritten.
    max_iter : int, default=None
        Limit on the solver's iterations; None or -1 for none.
    tol : float, default=1e-4
        Relative duality gap at which to stop.
    solver : str, default="auto"
        Name of a solver; what "auto" stands for depends on the samples: `explain_solver` says. "cholesky", "svd" and
        "conjugate_gradients" are for this problem; scikit-learn's "lsqr" and "sparse_cg" are the last of them.
    positive : bool, default=False
        Whether coefficients must not be negative.
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers; None is a fixed seed.
    bounds : pair of float or array-like of shape (n_features,), default=None
        Smallest and largest value of each coefficient, at most and at least 0.
    max_time : float, default=None
        Limit in seconds; the best point so far is kept.
    verbose : int, default=0
        Whether to show a progress line on standard error.
    warm_start : bool, default=False
        Whether to start from the last fit.
    callback : callable, default=None
        Called with a `Record` after every round; a true value stops the fit.
    n_jobs : int, default=None
        Threads; None is as many as BLAS may use, -1 all processors. The result is the same bits for any number.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept.
    solver_ : str
        The solver that made the last steps.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; there is a solution for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import Ridge
    >>> model = Ridge(alpha=0.1, tol=1e-8).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-8
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LEAST_SQUARES_CONSTRAINTS,
        "alpha": ALPHA_CONSTRAINT,
    }

    def __init__(
        self,
        alpha: float | ArrayLike = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: str = "auto",
        positive: bool = False,
        random_state: int | np.random.RandomState | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        max_time: float | None = None,
        verbose: bool | int = 0,
        warm_start: bool = False,
        callback: Callback | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._store(locals())

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        plan = super()._divide(X, y, sample_weight)
        self._alphas = strengths_of(self.alpha, len(plan.tasks))
        return plan

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises for one target."""
        k = next(k for k, one in enumerate(plan.tasks) if one is task)
        intercept = "free" if self.fit_intercept else None
        return self._least_squares(operator, task.y, task.s, float(self._alphas[k]), intercept)

    def _keep(self, plan: Plan, solved: Sequence[Solved]) -> None:
        super()._keep(plan, solved)
        del self._alphas
        if self.coef_.ndim == 2 and len(self.coef_) == 1:
            self.coef_ = self.coef_[0]  # as in scikit-learn
        self.solver_ = self.solution_.solver
