"""Support vector regression with kernels."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import of_loss
from maxmargin.estimators._machinery.estimator import INTERCEPT_CONSTRAINT, POSITIVE
from maxmargin.estimators._machinery.kernel_machine import KERNEL_CONSTRAINTS, KernelRegressor
from maxmargin.estimators._machinery.plan import Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import tube_problem
from maxmargin.loop.minimize import Callback
from maxmargin.parts.losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.problems.problem import Problem
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Array, Loss, Operator


class SVR(KernelRegressor):
    """Support vector regression with kernels.

    Minimises

    ``1/2 |f|^2 + C sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon)``

    (or the squares of the losses) over functions ``f`` of the kernel's space and the intercept ``b``, where ``s_i`` is
    the sample weight, and proves how close it came: `duality_gap_`.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        A callable receives two arrays of samples and returns their kernel values.
    degree : int, default=3
        Of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is ``1 / (n_features * X.var())`` with the samples counted by their weights, "auto" is
        ``1 / n_features``.
    coef0 : float, default=0.0
        Of the polynomial and the sigmoid kernel.
    tol : float, default=1e-3
        Relative duality gap at which to stop.
    C : float, default=1.0
        Weight of the losses against the norm.
    epsilon : float, default=0.1
        Half the width of the tube in which errors cost nothing.
    shrinking : bool, default=True
        Whether to leave out variables that are sure to stay at a bound. The result is checked on all of them.
    cache_size : float, default=1000
        Megabytes for kernel rows, at most; a fifth of it unless rows are needed again and again.
    verbose : bool or int, default=False
        Whether to show a progress line on standard error.
    max_iter : int, default=-1
        Limit on the solver's iterations; -1 for none.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Of the errors. scikit-learn's ``SVR`` has the first only.
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers; None is a fixed seed.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "free", as in LIBSVM.
    solver : str, default="auto"
        Name of a solver; what "auto" stands for depends on the samples: `explain_solver` says.
    solver_options : dict, default=None
        Options of a named solver; wrong ones are refused, and the right ones listed.
    max_time : float, default=None
        Limit in seconds; the best point so far is kept.
    warm_start : bool, default=False
        Whether to start from the last fit.
    callback : callable, default=None
        Called with a `Record` after every round; a true value stops the fit.
    n_jobs : int, default=None
        Number of threads; None is as many as BLAS may use. Results are the same for any number.

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

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **KERNEL_CONSTRAINTS,
        "C": [POSITIVE],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "loss": [StrOptions({"epsilon_insensitive", "squared_epsilon_insensitive"})],
        "random_state": ["random_state"],
        "intercept": INTERCEPT_CONSTRAINT,
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Array] = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 1000,
        verbose: bool | int = False,
        max_iter: int = -1,
        loss: str = "epsilon_insensitive",
        random_state: int | np.random.RandomState | None = None,
        intercept: str | None = "auto",
        solver: str = "auto",
        solver_options: dict[str, object] | None = None,
        max_time: float | None = None,
        warm_start: bool = False,
        callback: Callback | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._store(locals())

    def _loss(self) -> Loss:
        kind = EpsilonInsensitive if self.loss == "epsilon_insensitive" else SquaredEpsilonInsensitive
        return kind(float(self.epsilon))

    def _programs(self, plan: Plan) -> Programs | None:
        assert isinstance(plan.tasks, Tasks)
        return of_loss(plan.tasks, self._loss(), check.check_intercept(self, "free"))

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        kind = check.check_intercept(self, "free")
        return tube_problem(operator, task.y, task.s, self.loss, self.epsilon, kind)
