"""Logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import MOST_COLUMNS, solve_all_classes, solve_linear_machine
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.linear import (
    DUAL_AND_LIMITS,
    LIMIT_CONSTRAINTS,
    LINEAR_CONSTRAINTS,
    LinearClassifier,
)
from maxmargin.estimators._machinery.logistic import LogisticProbabilities
from maxmargin.estimators._machinery.names import AnyNorm, InterceptName
from maxmargin.estimators._machinery.plan import Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import l1_share, logistic_problem, penalty_of, softmax_problem
from maxmargin.estimators._machinery.results import AtOnce, Results
from maxmargin.operators import ChunkedMatrix, Matrix, Rows
from maxmargin.parts.losses import Logistic
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Array, LocalRows, Operator
from maxmargin.solvers import DualCoordinate, SoftmaxNewton
from maxmargin.solvers.choice import AnyProblem, Choice, choose

# Names of methods, not of problems: all of these minimise the same function, liblinear with a penalised intercept.
SCIKIT_LEARN_SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")


@dataclass(eq=False, repr=False)
class LogisticRegression(LogisticProbabilities, LinearClassifier):
    """Logistic regression with an L2, L1 or elastic-net penalty.

    Minimises, for two classes,

    ``R(w) + C sum_i c_i log(1 + exp(-y_i (w.x_i + b)))`` with ``R(w) = l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2``

    and for more, all of them at once,

    ``1/2 |W|^2 + C sum_i c_i (log sum_k exp(w_k.x_i + b_k) - (w_y.x_i + b_y))`` with ``y = y_i``,

    where ``c_i`` is the class weight times the sample weight, and proves how close it came: `duality_gap_`. The
    intercepts are free, that is, not penalised; ``intercept="penalised"`` adds ``R(b / intercept_scaling)``.

    Parameters
    ----------
    penalty : {"auto", "l2", "l1", "elasticnet"} or None, default="auto"
        Norm of the coefficients. "auto" and "elasticnet" are what `l1_ratio` says, and None is ``C=inf``. An L1
        norm is for two classes or ``multi_class="ovr"``.
    C : float, default=1.0
        Weight of the losses against the norm. ``inf`` stands for 1e10, and the certificate is about that: where no
        hyperplane separates the classes, nothing is seen of so small a penalty; where one does, there is no optimum
        without a penalty, and the hyperplane found is that of nearly the widest margin.
    l1_ratio : float, default=0.0
        Share of the L1 norm: 0 is the L2 penalty, 1 the L1 penalty, anything between the elastic net.
    dual : bool, default=False
        True is "dual_coordinate", for the L2 penalty and two classes or one against the rest. The problem is the same.
    solver : str, default="auto"
        Name of a solver; "auto" is "softmax_newton" for more than two classes at once; otherwise `explain_solver`
        says. scikit-learn's names ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga") are taken for
        "auto": they solve the same problem.
    max_iter : int, default=-1
        Limit on the solver's iterations (epochs or Newton steps); -1 for none.
    n_jobs : int, default=None
        Number of threads for one-against-the-rest problems; None is as many as BLAS may use. Results are the same for
        any number.
    multi_class : {"multinomial", "ovr"}, default="multinomial"
        For more than two classes: all at once (softmax), or each against the rest.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "free" if `fit_intercept`, or "penalised" with ``solver="liblinear"``.
    positive : bool, default=False
        Whether coefficients must not be negative. The intercept may be. For two classes or ``multi_class="ovr"``.
    bounds : pair of float or array-like of shape (n_features,), default=None
        Smallest and largest value of each coefficient, at most and at least 0; for the same.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVC`. The dual variables are in the solutions; of the softmax problem ``s_i (onehot(y_i) - p_i)``, a row
        per sample, raveled.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LogisticRegression
    >>> model = LogisticRegression(tol=1e-8).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-8
    True

    """

    penalty: AnyNorm | Literal["auto", "deprecated"] | None = "auto"
    _: KW_ONLY
    C: float = 1.0
    l1_ratio: float | None = 0.0
    dual: bool = False
    intercept: InterceptName | None = "auto"
    intercept_scaling: float = 1
    class_weight: ClassWeight = None
    multi_class: Literal["multinomial", "ovr"] = "multinomial"
    positive: bool = False
    bounds: tuple[ArrayLike, ArrayLike] | None = None

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **{name: rule for name, rule in LINEAR_CONSTRAINTS.items() if name != "shrinking"},
        # "deprecated" is what scikit-learn 1.9 calls "auto".
        "penalty": [StrOptions({"auto", "l2", "l1", "elasticnet", "deprecated"}), None],
        "C": [Interval(Real, 0, None, closed="right")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "dual": ["boolean"],
        "class_weight": CLASS_WEIGHT_CONSTRAINT,
        **LIMIT_CONSTRAINTS,
        "multi_class": [StrOptions({"multinomial", "ovr"})],
    }

    @property
    def _all_at_once(self) -> bool:
        """Whether one problem has more than two classes."""
        return self.classes_.size > 2 and self.multi_class == "multinomial"

    @property
    def _strategy(self) -> str:
        return "ovr"

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for all classes at once, or one per class. Sets: ``classes_``."""
        plan = super()._divide(X, y, sample_weight)
        self._refuse_what_classes_exclude()
        if self._all_at_once:
            plan.tasks = Tasks.alone("all classes", plan.codes.astype(np.float64), plan.tasks[0].s)
        return plan

    def _at_once(self, plan: Plan) -> Callable[[], AtOnce | None] | None:
        size = (plan.X.shape[1] + 1) * (self.classes_.size if self._all_at_once else 1)
        if l1_share(self) > 0.0 or self.dual or self._limited or size > MOST_COLUMNS:
            return None
        if not self._all_at_once:
            kind = check.check_intercept(self, "free")
            return partial(solve_linear_machine, self, plan, Logistic(), kind, float(self.intercept_scaling))
        problem = self._problem(Rows(plan.X), plan.tasks[0], plan)
        assert isinstance(problem, SoftmaxProblem)
        return partial(solve_all_classes, self, plan, problem)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        """What one task minimises."""
        kind = check.check_intercept(self, "penalised" if self.solver == "liblinear" else "free")
        scale = float(self.intercept_scaling)
        if self._all_at_once:
            assert isinstance(operator, LocalRows)
            return softmax_problem(operator, task.y.astype(np.int64), self.classes_.size, task.s, kind, scale)
        return logistic_problem(operator, task.y, task.s, penalty_of(self, plan.X.shape[1]), kind, scale)

    def _choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        if self.solver != "auto" and self.solver not in SCIKIT_LEARN_SOLVERS:
            return super()._choice(problem, clients)
        if self.dual:
            return Choice(DualCoordinate.name, "dual=True was asked for")
        return choose(problem, self.max_time)

    def _refuse_contradictions(self) -> None:
        if self.penalty is None and self.C != 1.0:
            warnings.warn("Setting penalty=None will ignore the C parameter", stacklevel=6)
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("penalty='elasticnet' needs an l1_ratio between 0 and 1; it is None.")
        if self.penalty in ("l2", "l1") and self.l1_ratio not in (0, None, l1_share(self)):
            warnings.warn(
                f"Inconsistent values: penalty={self.penalty} with l1_ratio={self.l1_ratio}, and penalty counts. The "
                f"l1_ratio parameter is only used when penalty is 'elasticnet'. Got (penalty={self.penalty})",
                stacklevel=6,
            )

    def _refuse_what_classes_exclude(self) -> None:
        """Refuse parameters that exclude each other for so many classes."""
        if l1_share(self) > 0.0 and self.dual:
            raise ValueError("dual=True contradicts an L1 norm, which is minimised in the primal; use dual=False.")
        if l1_share(self) > 0.0 and self._all_at_once:
            raise ValueError(
                f"An L1 norm has no solver in this version for {self.classes_.size} classes at once; use "
                f"multi_class='ovr', or the L2 penalty (l1_ratio=0)."
            )
        if self._limited and self.dual:
            raise ValueError(DUAL_AND_LIMITS)
        if self._limited and self._all_at_once:
            raise ValueError(
                f"positive=True and bounds have no solver in this version for {self.classes_.size} classes at once; "
                f"use multi_class='ovr'."
            )
        if self.dual and self.solver not in {"auto", "liblinear", DualCoordinate.name}:
            raise ValueError(f"dual=True contradicts solver={self.solver!r}; leave one of them at its default.")
        one_score = self.dual or self.solver not in {"auto", SoftmaxNewton.name, *SCIKIT_LEARN_SOLVERS}
        if self._all_at_once and one_score:
            given = "dual=True" if self.dual else f"solver={self.solver!r}"
            raise ValueError(
                f"{given} solves problems of two classes, and y has {self.classes_.size}; use multi_class='ovr', or "
                f"leave it at its default for all classes at once."
            )

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: the fitted attributes."""
        self.coef_, self.intercept_ = solved.coefficients, solved.intercepts
        if self._all_at_once:
            theta = self.coef_.reshape(self.classes_.size, -1)
            self.coef_ = np.ascontiguousarray(theta[:, : self.n_features_in_])
            self.intercept_ = np.append(theta, np.zeros((theta.shape[0], 1)), axis=1)[:, self.n_features_in_]
        solved.keep(self)
        self.n_iter_ = solved.iterations
