"""Support vector regression with kernels."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import of_loss
from maxmargin.estimators._machinery.estimator import INTERCEPT_CONSTRAINT
from maxmargin.estimators._machinery.kernel_machine import (
    APPROXIMATION_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    KernelRegressor,
)
from maxmargin.estimators._machinery.names import Approximation, InterceptName, Tubes
from maxmargin.estimators._machinery.plan import Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import tube_problem
from maxmargin.parts.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.problems.problem import Problem
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Loss, Operator


@dataclass(kw_only=True, eq=False, repr=False)
class SVR(KernelRegressor):
    """Support vector regression with kernels.

    Minimises

    ``1/2 |f|^2 + C sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon)``

    (or the squares of the losses) over functions ``f`` of the kernel's space and the intercept ``b``, where ``s_i`` is
    the sample weight, and proves how close it came: `duality_gap_`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm.
    epsilon : float, default=0.1
        Half the width of the tube in which errors cost nothing.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Of the errors. scikit-learn's ``SVR`` has the first only.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "free", as in LIBSVM.
    approximation, rank
        As in `SVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, fit_status_, shape_fit_, n_features_in_, \
feature_names_in_
        As in scikit-learn.
    coef_ : ndarray of shape (1, n_features)
        Coefficients, for the linear kernel only.
    partition_ : Partition
        The samples whose dual variable is zero, free and at its bound.
    solution_ : Solution
        Of the problem above; `solutions_` is the list of it alone.
    duality_gap_ : float
        Relative duality gap, recomputed from scratch at the end.
    objective_, dual_objective_ : float
        Primal and dual value of the problem above.
    status_ : Status
        Why the fit stopped, as a sentence.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import SVR
    >>> model = SVR(C=100.0, tol=1e-6).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True

    """

    C: float = 1.0
    epsilon: float = 0.1
    loss: Tubes = "epsilon_insensitive"
    intercept: InterceptName | None = "auto"
    approximation: Approximation | None = None
    rank: int = 500
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **KERNEL_CONSTRAINTS,
        **APPROXIMATION_CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="right")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "loss": [StrOptions({"epsilon_insensitive", "squared_epsilon_insensitive"})],
        "random_state": ["random_state"],
        "intercept": INTERCEPT_CONSTRAINT,
    }

    def _loss(self) -> Loss:
        kind = EpsilonInsensitive if self.loss == "epsilon_insensitive" else SquaredEpsilonInsensitive
        return kind(float(self.epsilon))

    def _programs(self, plan: Plan) -> Programs | None:
        assert isinstance(plan.tasks, Tasks)
        return of_loss(plan.tasks, self._loss(), check.check_intercept(self, "free"))

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        kind = check.check_intercept(self, "free")
        return tube_problem(operator, task.y, task.s, self.loss, self.epsilon, kind)
