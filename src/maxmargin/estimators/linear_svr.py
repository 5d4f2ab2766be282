"""Linear support vector regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import MOST_COLUMNS, solve_linear_machine
from maxmargin.estimators._machinery.linear import LIMIT_CONSTRAINTS, LINEAR_CONSTRAINTS, DualOrPrimal, LinearRegressor
from maxmargin.estimators._machinery.names import Tubes
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.estimators._machinery.problems import penalty_of, tube_problem
from maxmargin.estimators._machinery.results import AtOnce
from maxmargin.parts.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Operator


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVR(DualOrPrimal, LinearRegressor):
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
    C : float, default=1.0
        Weight of the losses against the norm.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Of the errors.
    dual : "auto" or bool, default="auto"
        True is "dual_coordinate", False is "newton", whatever the number of features. The problem is the same.
    positive : bool, default=False
        Whether coefficients must not be negative. The intercept may be. With "epsilon_insensitive" and more than 1000
        features, limits are for "smoothed", whose proofs of such problems are rough.
    max_iter, intercept, shrinking
        As in `LinearSVC`.

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

    epsilon: float = 0.0
    loss: Tubes = "epsilon_insensitive"

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LINEAR_CONSTRAINTS,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        **LIMIT_CONSTRAINTS,
        "loss": [StrOptions({"epsilon_insensitive", "squared_epsilon_insensitive"})],
    }

    def _at_once(self, plan: Plan) -> Callable[[], AtOnce | None] | None:
        if self.dual != "auto" or self._limited or plan.X.shape[1] > MOST_COLUMNS:
            return None
        kind = EpsilonInsensitive if self.loss == "epsilon_insensitive" else SquaredEpsilonInsensitive
        intercept, scale = check.check_intercept(self, "penalised"), float(self.intercept_scaling)
        return partial(solve_linear_machine, self, plan, kind(float(self.epsilon)), intercept, scale)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises."""
        kind, scale = check.check_intercept(self, "penalised"), float(self.intercept_scaling)
        penalty = penalty_of(self, plan.X.shape[1])
        return tube_problem(operator, task.y, task.s, self.loss, self.epsilon, kind, scale, penalty)
