"""The linear support vector classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import MOST_COLUMNS, solve_linear_machine
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.linear import (
    LIMIT_CONSTRAINTS,
    LINEAR_CONSTRAINTS,
    DualOrPrimal,
    LinearClassifier,
    dense_coefficients,
)
from maxmargin.estimators._machinery.margins import Margins
from maxmargin.estimators._machinery.names import Hinges, Norm, Pairing
from maxmargin.estimators._machinery.plan import Plan, Task, Tasks
from maxmargin.estimators._machinery.probability import Probabilities, calibrate
from maxmargin.estimators._machinery.problems import penalty_of
from maxmargin.estimators._machinery.results import AtOnce, Results
from maxmargin.estimators._machinery.training import Training
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.problems.crammer_singer import CrammerSingerProblem
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, LocalRows, Operator
from maxmargin.solvers.choice import AnyProblem, Choice


@dataclass(eq=False, repr=False)
class LinearSVC(Probabilities, DualOrPrimal, LinearClassifier, Margins):
    """Linear support vector classifier.

    Minimises, for every class against the rest (or every pair),

    ``1/2 |w|^2 + C sum_i c_i loss(y_i (w.x_i + b))`` with the squared hinge or the hinge,

    where ``c_i`` is the class weight times the sample weight; ``penalty="l1"`` has ``|w|_1`` instead of ``1/2 |w|^2``.
    By default the intercept is penalised as in LIBLINEAR: ``b^2 / (2 intercept_scaling^2)`` is added, or
    ``|b| / intercept_scaling``. ``intercept="free"`` gives, with "l2", the problem of ``SVC(kernel="linear")``.

    ``multi_class="crammer_singer"`` is one problem for all classes, also for two, as in LIBLINEAR:

    ``1/2 |W|^2 + C sum_i c_i max_k (w_k.x_i + b_k - w_y.x_i - b_y + [k != y])`` with ``y = y_i``,

    whatever `loss` says, and with the intercepts as above.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        Norm of the coefficients; "l1" sets many of them to exactly zero. With the hinge, "l1" is a linear program
        and refused unless a solver is named: "interior_point" takes up to 1000 features, and "smoothed" ends with
        rough proofs.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a margin.
    dual : "auto" or bool, default="auto"
        True is "dual_coordinate", False is "newton", whatever the number of features. The problem is the same.
        "l1" has no dual method: True is refused.
    C : float, default=1.0
        Weight of the losses against the norm.
    multi_class : {"ovr", "ovo", "crammer_singer"}, default="ovr"
        Which binary problems are solved for more than two classes; or all classes at once.
    random_state : int, RandomState or None, default=None
        Seed of the solver's permutations, and of the split for probabilities; None is a fixed seed.
    max_iter : int, default=-1
        Limit on the solver's iterations (epochs or Newton steps); -1 for none.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "penalised" if `fit_intercept`, as in LIBLINEAR.
    shrinking : bool, default=True
        Whether to skip samples whose dual variable has come to rest. The result is checked on all of them.
    probability : bool, default=False
        Whether to fit `predict_proba` too, from scores of samples that three further models, each fitted to about two
        thirds of the samples, had not seen. Their fits are rough and start from this one: together they take once to
        twice as long. The score of a class's only sample is that of the fit. They never contradict `predict`.
    positive : bool, default=False
        Whether coefficients must not be negative. The intercept may be. With the hinge and more than 1000 features,
        limits are for "smoothed", whose proofs of such problems are rough.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    support_, dual_coef_ : ndarray
        The samples with a non-zero dual variable, and these variables, one row per binary problem; of all classes at
        once, one row per class.
    margin_, slacks_, solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, probability_curves_
        As in `SVC`; the margin is that of ``w`` alone, and both are for binary problems.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> model = LinearSVC(tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True

    """

    penalty: Norm = "l2"
    loss: Hinges = "squared_hinge"
    _: KW_ONLY
    multi_class: Pairing | Literal["crammer_singer"] = "ovr"
    class_weight: ClassWeight = None
    probability: bool = False

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LINEAR_CONSTRAINTS,
        "penalty": [StrOptions({"l2", "l1"})],
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "multi_class": [StrOptions({"ovr", "ovo", "crammer_singer"})],
        "class_weight": CLASS_WEIGHT_CONSTRAINT,
        "probability": ["boolean"],
        **LIMIT_CONSTRAINTS,
    }

    @property
    def _all_at_once(self) -> bool:
        """Whether there is one problem for all classes."""
        return self.multi_class == "crammer_singer"

    @property
    def _strategy(self) -> str:
        return "ovr" if self._all_at_once else str(self.multi_class)

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task per binary problem, or one for all classes. Sets: ``classes_``."""
        if self.probability:
            check.refuse_chunks(X, "probability=True", "leave it out, or use LogisticRegression")
        if self.multi_class != "ovr":
            check.refuse_chunks(X, f"multi_class={self.multi_class!r}", "use 'ovr'")
        plan = super()._divide(X, y, sample_weight)
        if self._all_at_once:
            plan.tasks = Tasks.alone("all classes", plan.codes.astype(np.float64), plan.tasks[0].s)
        return plan

    def _keep(self, plan: Plan, solved: Results) -> None:
        if self._all_at_once:
            self._keep_all_classes(solved)
            return
        super()._keep(plan, solved)
        self._training = Training.of(plan)
        calibrate(self, plan, solved)

    def _lengths(self) -> Float:
        return np.linalg.norm(dense_coefficients(self), axis=1)

    def _refuse_unfitted(self, attribute: str) -> None:
        super()._refuse_unfitted(attribute)
        if self._all_at_once:
            raise AttributeError(
                f"{attribute} is for binary problems, and multi_class='crammer_singer' is one problem for all classes."
            )

    def _keep_all_classes(self, solved: Results) -> None:
        """Of two classes, the difference is what counts, as in scikit-learn. Sets: the fitted attributes."""
        k, (one,) = self.classes_.size, solved
        theta, A = one.function.w.reshape(k, -1), np.asarray(one.function.alpha).reshape(-1, k).T
        if k == 2:
            theta, A = theta[1:] - theta[:1], A[1:] - A[:1]
        self.coef_ = np.ascontiguousarray(theta[:, : self.n_features_in_])
        self.intercept_ = np.append(theta, np.zeros((theta.shape[0], 1)), axis=1)[:, self.n_features_in_]
        self.support_ = np.flatnonzero(A.any(axis=0)).astype(np.int32)
        self.dual_coef_ = A[:, self.support_]
        solved.keep(self)

    def _choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        if self._all_at_once and self.solver == "auto":
            return self._automatic_choice(problem, clients)
        return super()._choice(problem, clients)

    def _at_once(self, plan: Plan) -> Callable[[], AtOnce | None] | None:
        if (
            self._all_at_once
            or self.penalty != "l2"
            or self.dual != "auto"
            or self._limited
            or plan.X.shape[1] > MOST_COLUMNS
        ):
            return None
        loss = Hinge() if self.loss == "hinge" else SquaredHinge()
        kind, scale = check.check_intercept(self, "penalised"), float(self.intercept_scaling)
        return partial(solve_linear_machine, self, plan, loss, kind, scale)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        """What one task minimises."""
        intercept = check.check_intercept(self, "penalised")
        if self._all_at_once:
            assert isinstance(operator, LocalRows)
            codes, scale = task.y.astype(np.int64), float(self.intercept_scaling)
            return CrammerSingerProblem(operator, codes, self.classes_.size, 1.0, task.s, intercept, scale)
        loss = Hinge() if self.loss == "hinge" else SquaredHinge()
        penalty = penalty_of(self, plan.X.shape[1])
        return Problem(operator, task.y, loss, penalty, task.s, intercept, float(self.intercept_scaling))

    def _refuse_contradictions(self) -> None:
        if self.penalty == "l1" and self.dual is True:
            raise ValueError("dual=True contradicts penalty='l1', which is minimised in the primal; use dual=False.")
        if self.penalty == "l1" and self.loss == "hinge" and self.solver == "auto":
            raise ValueError(
                "penalty='l1' with loss='hinge' is a linear program, which 'auto' does not choose a solver for; use "
                "loss='squared_hinge', or solver='interior_point' with up to 1000 features."
            )
        if self._all_at_once:
            self._refuse_for_all_classes()
        else:
            super()._refuse_contradictions()

    def _refuse_for_all_classes(self) -> None:
        """Refuse what there is for binary problems only."""
        binary = {
            "penalty='l1'": self.penalty == "l1",
            "dual=False": self.dual is False,
            "probability=True": self.probability,
            "positive=True and bounds": self._limited,
        }
        for what, given in binary.items():
            if given:
                raise ValueError(
                    f"{what} has no solver in this version for multi_class='crammer_singer', which is one problem for "
                    f"all classes; use 'ovr' or 'ovo'."
                )
