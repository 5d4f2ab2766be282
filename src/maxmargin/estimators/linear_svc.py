"""The linear support vector classifier."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import MOST_COLUMNS, solve_linear_machine
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.linear import LIMIT_CONSTRAINTS, LINEAR_CONSTRAINTS, DualOrPrimal, LinearClassifier
from maxmargin.estimators._machinery.margins import Margins
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.estimators._machinery.probability import Probabilities, calibrate
from maxmargin.estimators._machinery.problems import penalty_of
from maxmargin.estimators._machinery.results import AtOnce, Results
from maxmargin.estimators._machinery.training import Training
from maxmargin.loop.minimize import Callback
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Operator


class LinearSVC(Probabilities, DualOrPrimal, LinearClassifier, Margins):
    """Linear support vector classifier.

    Minimises, for every class against the rest (or every pair),

    ``1/2 |w|^2 + C sum_i c_i loss(y_i (w.x_i + b))`` with the squared hinge or the hinge,

    where ``c_i`` is the class weight times the sample weight; ``penalty="l1"`` has ``|w|_1`` instead of ``1/2 |w|^2``.
    By default the intercept is penalised as in LIBLINEAR: ``b^2 / (2 intercept_scaling^2)`` is added, or
    ``|b| / intercept_scaling``. ``intercept="free"`` gives, with "l2", the problem of ``SVC(kernel="linear")``.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        Norm of the coefficients; "l1" sets many of them to exactly zero. With the hinge, "l1" is a linear program
        and refused unless a solver is named: "smoothed" ends with rough proofs there.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a margin.
    dual : "auto" or bool, default="auto"
        True is "dual_coordinate", False is "newton", whatever the number of features. The problem is the same.
        "l1" has no dual method: True is refused.
    C : float, default=1.0
        Weight of the losses against the norm.
    multi_class : {"ovr", "ovo"}, default="ovr"
        Which binary problems are solved for more than two classes.
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
        Whether coefficients must not be negative. The intercept may be. With the hinge, limits are for "smoothed",
        whose proofs of such problems are rough.
    tol, fit_intercept, intercept_scaling, class_weight, verbose, solver, solver_options, max_time, warm_start, callback
        As in every estimator: see `_machinery/parameters.py`.
    n_jobs, bounds
        As in every estimator: see `_machinery/parameters.py`.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    support_, dual_coef_ : ndarray
        The samples with a non-zero dual variable, and these variables, one row per binary problem.
    margin_, slacks_, solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVC`; the margin is that of ``w`` alone.
    probability_slopes_ : ndarray
        With ``probability=True``: the slopes of the curve from scores to probabilities. Of two classes, below and above
        0; of more, one of the scores (one against the rest), or of the pairs won and of the mean score in them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> model = LinearSVC(tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True

    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LINEAR_CONSTRAINTS,
        "penalty": [StrOptions({"l2", "l1"})],
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "multi_class": [StrOptions({"ovr", "ovo", "crammer_singer"})],
        "class_weight": CLASS_WEIGHT_CONSTRAINT,
        "probability": ["boolean"],
        **LIMIT_CONSTRAINTS,
    }

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: ClassWeight = None,
        verbose: bool | int = 0,
        random_state: int | np.random.RandomState | None = None,
        max_iter: int = -1,
        intercept: str | None = "auto",
        shrinking: bool = True,
        solver: str = "auto",
        solver_options: dict[str, object] | None = None,
        max_time: float | None = None,
        warm_start: bool = False,
        callback: Callback | None = None,
        n_jobs: int | None = None,
        probability: bool = False,
        positive: bool = False,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self._store(locals())

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task per binary problem. Sets: ``classes_``."""
        if self.probability:
            check.refuse_chunks(X, "probability=True", "leave it out, or use LogisticRegression")
        if self.multi_class == "ovo":
            check.refuse_chunks(X, "multi_class='ovo'", "use 'ovr'")
        return super()._divide(X, y, sample_weight)

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        self._training = Training.of(plan)
        calibrate(self, plan, solved)

    def _lengths(self) -> Float:
        return np.linalg.norm(self.coef_, axis=1)

    def _at_once(self, plan: Plan) -> Callable[[], AtOnce | None] | None:
        if self.penalty != "l2" or self.dual != "auto" or self._limited or plan.X.shape[1] > MOST_COLUMNS:
            return None
        loss = Hinge() if self.loss == "hinge" else SquaredHinge()
        kind, scale = check.check_intercept(self, "penalised"), float(self.intercept_scaling)
        return partial(solve_linear_machine, self, plan, loss, kind, scale)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What one task minimises."""
        loss = Hinge() if self.loss == "hinge" else SquaredHinge()
        intercept = check.check_intercept(self, "penalised")
        penalty = penalty_of(self, plan.X.shape[1])
        return Problem(operator, task.y, loss, penalty, task.s, intercept, float(self.intercept_scaling))

    def _refuse_contradictions(self) -> None:
        if self.penalty == "l1" and self.dual is True:
            raise ValueError("dual=True contradicts penalty='l1', which is minimised in the primal; use dual=False.")
        if self.penalty == "l1" and self.loss == "hinge" and self.solver == "auto":
            raise ValueError(
                "penalty='l1' with loss='hinge' is a linear program, which no solver of this version proves well; use "
                "loss='squared_hinge', or solver='smoothed' with a tol from 1e-3 on."
            )
        if self.multi_class == "crammer_singer":
            raise ValueError("multi_class='crammer_singer' has no solver in this version; use 'ovr' or 'ovo'.")
        super()._refuse_contradictions()
