"""The support vector classifier with kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import of_loss
from maxmargin.estimators._machinery.estimator import INTERCEPT_CONSTRAINT
from maxmargin.estimators._machinery.kernel_classifier import KERNEL_CLASSIFIER_CONSTRAINTS, KernelClassifier
from maxmargin.estimators._machinery.kernel_machine import APPROXIMATION_CONSTRAINTS
from maxmargin.estimators._machinery.names import Approximation, Hinges, InterceptName
from maxmargin.estimators._machinery.plan import Function, Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import hard_margin, hard_margin_function, hinge_problem
from maxmargin.loop.solution import Solution
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Array, Loss, Operator
from maxmargin.solvers.choice import AnyProblem


@dataclass(kw_only=True, eq=False, repr=False)
class SVC(KernelClassifier):
    """Support vector classifier with kernels.

    Minimises, for every pair of classes (or every class against the rest),

    ``1/2 |f|^2 + C sum_i c_i max(0, 1 - y_i (f(x_i) + b))``

    (or the squares of the losses) over functions ``f`` of the kernel's space and the intercept ``b``, where ``c_i`` is
    the class weight times the sample weight, and proves how close it came: `duality_gap_`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm. ``inf`` is the hard margin: `solution_` then holds two convex
        combinations, one of each class, as close as possible; their common point proves it if no function separates
        the classes. `objective_` is minus half of their squared distance.
    probability : bool, default=False
        Whether to fit `predict_proba` too, from scores of samples that three further models, each fitted to about two
        thirds of the samples, had not seen. Their fits are rough and start from this one: together they take once to
        twice as long, three times for many small classes, and up to `cache_size` for kernel rows once more. The score
        of a class's only sample is that of the fit. Unlike scikit-learn's, they never contradict `predict`.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For more than two classes: scores per class, or per pair.
    break_ties : bool, default=False
        Whether equal votes are decided by the scores (needs ``decision_function_shape="ovr"``).
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers, and of the split for probabilities; None is a fixed seed.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Which binary problems are solved for more than two classes.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Of the margins. scikit-learn's ``SVC`` has the hinge only.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "free", as in LIBSVM.
    approximation : {"nystroem"}, default=None
        "nystroem" looks for the best function among those of `rank` samples, which are drawn by the kernel matrix, and
        certifies it among all functions: for 100,000 samples and more. `support_` are these samples, so a prediction
        takes `rank` kernel values. The gap says what the rank costs, and `status_` is ``LOW_RANK`` where it is above
        `tol`, the tolerance among these functions. Solvers see the factor as rows of features.
    rank : int, default=500
        Of an approximation, at most the number of samples; the factor takes 8 or, above half of `cache_size`, 4 bytes
        for each sample and column.
    solver : str, default="auto"
        Name of a solver; what "auto" stands for depends on the samples: `explain_solver` says. "saddle", "gilbert" and
        "frank_wolfe" find the hard margin (``C=inf``) of the linear kernel as the distance of two hulls; for other `C`
        they are in `NuSVC`, whose ``C`` is ``1 / rho_``.

    Attributes
    ----------
    classes_, class_weight_, support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, fit_status_, \
shape_fit_, n_features_in_, feature_names_in_
        As in scikit-learn. With ``multi_class="ovr"`` and more than two classes, `dual_coef_` has one row per class.
    coef_ : ndarray
        Coefficients, for the linear kernel only.
    margin_ : Margin
        Half and full width of the margin, ``1 / |f|`` and ``2 / |f|``; a list for several problems.
    slacks_ : ndarray
        By how much each training sample misses the margin, ``max(0, 1 - y (f(x) + b))``; a row for each of several
        problems.
    partition_ : Partition
        The samples whose dual variable is zero, free and at its bound; a list for several problems.
    solution_ : Solution
        Of the binary problem with the largest gap; `solutions_` is the list of all.
    duality_gap_ : float
        Relative duality gap, recomputed from scratch at the end.
    objective_, dual_objective_ : float
        Primal and dual value.
    status_ : Status
        Why the fit stopped, as a sentence.
    probability_curves_ : ndarray of shape (n_problems, 3)
        With ``probability=True``: of the curve from scores to probabilities of each binary problem, the slopes below
        and above 0, and a shift.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> model = SVC(C=1.0, tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True
    >>> print(model.status_)
    Converged: the certified relative duality gap is within the tolerance

    """

    C: float = 1.0
    loss: Hinges = "hinge"
    intercept: InterceptName | None = "auto"
    approximation: Approximation | None = None
    rank: int = 500

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **KERNEL_CLASSIFIER_CONSTRAINTS,
        **APPROXIMATION_CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="right")],
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "intercept": INTERCEPT_CONSTRAINT,
    }

    _has_hard_margin: ClassVar[bool] = True  # which an infinite C asks for

    @property
    def _hard(self) -> bool:
        """Whether the margin is hard."""
        return math.isinf(self.C)

    @property
    def _bounded(self) -> bool:
        return super()._bounded and not self._hard

    def _refuse_contradictions(self) -> None:
        super()._refuse_contradictions()
        if self._hard and (self.intercept not in ("auto", "free") or self.loss != "hinge"):
            raise ValueError(
                f"C=inf, the hard margin, has a free intercept and no loss; got intercept={self.intercept!r} and "
                f"loss={self.loss!r}. Leave both at their defaults, or pass a finite C."
            )

    def _refuse_empty_classes(self, totals: Array) -> None:
        if np.count_nonzero(totals) < 2:
            raise ValueError(
                f"Invalid input - all samples with positive weights belong to the same class: SVC separates at least "
                f"2, and {np.count_nonzero(totals == 0.0)} of the {totals.size} have none. Give samples of a second "
                f"class a positive weight."
            )
        if self._hard:
            check.refuse_empty_classes(self, self.classes_, totals)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        if self._hard:
            return hard_margin(operator, task.y, task.s)
        return hinge_problem(operator, task.y, task.s, self.loss, check.check_intercept(self, "free"))

    def _loss(self) -> Loss:
        return Hinge() if self.loss == "hinge" else SquaredHinge()

    def _programs(self, plan: Plan) -> Programs | None:
        if self._hard or not isinstance(plan.tasks, Tasks):
            return None
        return of_loss(plan.tasks, self._loss(), check.check_intercept(self, "free"))

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        """The function of a solution; with a hard margin, scaled to the margins -1 and 1."""
        if isinstance(problem, (BoxQP, HullDistance)):
            return hard_margin_function(problem, solution.point)
        return super()._function(problem, solution)
