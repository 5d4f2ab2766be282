"""What the estimators of stochastic gradient descent share: the objective, the solver, and learning from a stream.

The objective of scikit-learn's estimators is, in this one place,

``1/S sum_i c_i loss(x_i.w + b, y_i) + alpha R(w)``

with the class weight times the sample weight ``c_i``, the sum ``S`` of the sample weights, and ``R(w)`` one of
``|w|^2 / 2``, ``|w|_1`` and ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``. The library minimises ``S`` times that, a
`Problem` with the weights ``c_i`` and a penalty of strength ``alpha S``; ``objective_`` and ``dual_objective_`` are
values of the latter.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin._jit import seconds_compiling, seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE
from maxmargin.estimators._machinery.fit import solve
from maxmargin.estimators._machinery.linear import LinearMachine, dense_coefficients
from maxmargin.estimators._machinery.names import AnyNorm
from maxmargin.estimators._machinery.plan import Function, Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import penalty_of
from maxmargin.estimators._machinery.results import Results, Solved
from maxmargin.loop.certificate import complete
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike, Rows
from maxmargin.parts.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.parts.penalties import Unpenalised
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Features, Float, Intercept, Loss, Operator, Penalty
from maxmargin.solvers import SGD, solver_class
from maxmargin.solvers.choice import AnyProblem
from maxmargin.solvers.rows.sgd import LEARNING_RATES, NEVER, ORDERS, HeldOut, SGDState
from maxmargin.threads import NO_OTHERS

BALANCED_STREAM = (  # in scikit-learn's words
    "class_weight 'balanced' is not supported for partial_fit. In order to use 'balanced' weights, use "
    "compute_class_weight('balanced', classes=classes, y=y). In place of y you can use a large enough sample of the "
    "full training set target to properly estimate the class frequency distributions. Pass the resulting weights as "
    "the class_weight parameter."
)
NO_VALIDATION = "The sample weights for validation set are all zero, consider using a different random state."
QUICK = 2**20  # numbers of the rows of all tasks: so few are walked over without a look at the clock
DEFAULT_EPSILON = 0.1
FARTHEST, REACH = 1e100, 10.0  # limits of coefficients without a penalty: while they are looked for, and when found
MODIFIED_HUBER = 4.0  # times the Huber hinge of width 2
# What each name stands for: the loss and its arguments; `epsilon` of an estimator takes the place of the default.
REGRESSION_LOSSES: dict[str, tuple[object, ...]] = {
    "squared_error": (Squared,),
    "huber": (Huber, DEFAULT_EPSILON),
    "epsilon_insensitive": (EpsilonInsensitive, DEFAULT_EPSILON),
    "squared_epsilon_insensitive": (SquaredEpsilonInsensitive, DEFAULT_EPSILON),
}
CLASSIFICATION_LOSSES: dict[str, tuple[object, ...]] = {
    "hinge": (Hinge, 1.0),
    "squared_hinge": (SquaredHinge, 1.0),
    "huber_hinge": (HuberHinge, 0.5),
    "modified_huber": (HuberHinge, 2.0),
    "log_loss": (Logistic,),
    "perceptron": (Hinge, 0.0),
    **REGRESSION_LOSSES,
}
PASSIVE_LOSSES = {True: "hinge", False: "epsilon_insensitive"}  # of classifiers and of regressors
OPTIONS_OF_SOLVERS: dict[str, tuple[str, object]] = {  # by parameters of the estimators, with the defaults of these
    "shuffle": ("order", True),
    "order": ("order", "auto"),
    "learning_rate": ("learning_rate", "optimal"),
    "eta0": ("eta0", None),
    "power_t": ("power_t", 0.5),
    "n_iter_no_change": ("patience", 5),
    "average": ("average", "auto"),
    "early_stopping": ("held_out", False),
}
STOCHASTIC_CONSTRAINTS: dict[str, list[object]] = {
    **FIT_CONSTRAINTS,
    "penalty": [StrOptions({"l2", "l1", "elasticnet"}), None],
    "alpha": [Interval(Real, 0, None, closed="left")],
    "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
    "tol": [Interval(Real, 0, None, closed="left"), None],
    "stop": [StrOptions({"objective", "gap"})],
    "fit_intercept": ["boolean"],
    "shuffle": ["boolean"],
    "epsilon": [Interval(Real, 0, None, closed="left")],
    "random_state": ["random_state"],
    "learning_rate": [StrOptions(set(LEARNING_RATES))],
    "eta0": [POSITIVE, None],
    "power_t": [Interval(Real, None, None, closed="neither")],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "average": ["boolean", Interval(Integral, 0, None, closed="neither"), StrOptions({"auto"})],
    "order": [StrOptions({"auto", *ORDERS})],
}


def linear_problem(model: StochasticEstimator, rows: Features, y: Float, s: Float, total: float) -> Problem:
    """What one task of a model minimises; ``total`` is the sum ``S`` of the sample weights."""
    intercept: Intercept = "free" if model.fit_intercept else None
    kind, *arguments = CLASSIFICATION_LOSSES[model.loss]
    if model.loss in REGRESSION_LOSSES and arguments:
        arguments = [float(model.epsilon)]
    loss: Loss = kind(*arguments)  # type: ignore[operator]
    strength, d = float(model.alpha) * total, rows.n_features
    none = model.penalty is None or strength == 0.0
    penalty: Penalty = Unpenalised(np.full(d, FARTHEST)) if none else penalty_of(model, d, strength)
    if model.loss == "modified_huber":
        s = MODIFIED_HUBER * s
    return Problem(rows, y, loss, penalty, s, intercept)


@dataclass(kw_only=True, eq=False, repr=False)
class StochasticEstimator(LinearMachine):
    """A linear model that is fitted to given samples, or learns from a stream of them."""

    penalty: AnyNorm | None = "l2"
    alpha: float = 0.0001
    l1_ratio: float | None = 0.15
    max_iter: int | None = 1000
    tol: float | None = 1e-3  # type: ignore[assignment]
    stop: str = "objective"
    shuffle: bool = True
    epsilon: float = 0.1
    learning_rate: str = "optimal"
    eta0: float | None = None
    power_t: float = 0.5
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    average: bool | int | str = "auto"
    order: str = "auto"
    solver: str = "sgd"

    _by_columns = False
    loss_functions: ClassVar[dict[str, tuple[object, ...]]]

    t_: float = field(init=False)
    _streams: list[SGDState] = field(init=False)
    _held_out: HeldOut = field(init=False)
    _starts: tuple[ArrayLike | None, ArrayLike | None] = field(init=False)

    @with_callbacks
    def fit(  # type: ignore[override]  # the order is scikit-learn's
        self,
        X: MatrixLike,
        y: ArrayLike,
        coef_init: ArrayLike | None = None,
        intercept_init: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model to all samples and certify it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels or targets.
        coef_init : array-like of the shape of `coef_`, default=None
            Coefficients to start from.
        intercept_init : array-like of the shape of `intercept_`, default=None
            Intercepts to start from.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        self._starts = coef_init, intercept_init
        try:
            return self._fit(X, y, sample_weight)
        finally:
            self.__dict__.pop("_starts", None)

    @property
    def _settles(self) -> bool:
        """Whether the objective along the path decides when to stop, and not the certificate."""
        return self.stop == "objective" and self.solver == SGD.name

    def _refuse_contradictions(self) -> None:
        """Refuse parameters that exclude each other."""
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("l1_ratio must be set when penalty is 'elasticnet'; it is None.")
        if self.alpha == 0.0 and self.learning_rate == "optimal" and self.solver == SGD.name:
            raise ValueError(
                "alpha must be > 0 since learning_rate is 'optimal', whose step shrinks with it; use another one."
            )
        passive = PASSIVE_LOSSES[is_classifier(self)]
        if self.learning_rate in ("pa1", "pa2") and self.loss != passive:
            raise ValueError(f"Learning rate {self.learning_rate!r} only works with loss {passive!r}.")
        if not self._settles and not self.tol:
            raise ValueError(
                f"tol={self.tol} is for solver='sgd' with stop='objective': a certified gap is never zero. Pass a "
                f"positive tol."
            )
        if self.early_stopping and not self._settles:
            raise ValueError(
                "early_stopping=True stops by the score of held-out samples, and this fit stops by its certificate; "
                "use solver='sgd' and stop='objective'."
            )
        if not self.shuffle and self.order not in {"auto", "cyclic"}:
            raise ValueError(f"shuffle=False contradicts order={self.order!r}; leave one of them at its default.")
        if self.power_t < 0.0:
            warnings.warn(
                "Negative values for `power_t` are deprecated in version 1.8 of scikit-learn and will raise an error "
                "in 1.10. Use values in the range [0.0, inf) instead.",
                FutureWarning,
                stacklevel=6,
            )
        self._refuse_options_of_others()

    def _refuse_options_of_others(self) -> None:
        """Refuse what the solver that was asked for does not have, and would ignore."""
        if self.solver in {"auto", SGD.name}:
            return
        options = solver_class(self.solver).options()
        for name, (option, default) in OPTIONS_OF_SOLVERS.items():
            value = getattr(self, name)
            if option not in options and value != default:
                raise ValueError(
                    f"{name}={value!r} has no effect on solver={self.solver!r}, which has no such option; leave it at "
                    f"its default, or use solver={SGD.name!r}."
                )

    def _hints(self) -> Mapping[str, object]:
        order = ("permutation" if self.shuffle else "cyclic") if self.order == "auto" else self.order
        return {
            "order": order,
            "learning_rate": self.learning_rate,
            "eta0": None if self.learning_rate == "optimal" else self.eta0,
            "power_t": float(self.power_t),
            "patience": int(self.n_iter_no_change),
            "average": None if self.average == "auto" else self.average,
            "seed": self._seed(),
            "settle": self._threshold,
        }

    @property
    def _threshold(self) -> float | None:
        """By how much the objective has to fall, if it decides when to stop."""
        if not self._settles:
            return None
        scale = MODIFIED_HUBER if self.loss == "modified_huber" else 1.0
        return -math.inf if self.tol is None else float(self.tol) / scale

    def _plan(self, X: MatrixLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> Plan:
        plan = super()._plan(X, y, sample_weight)
        hints = dict(plan.hints)
        if self.early_stopping:
            hints["held_out"] = self.__dict__.pop("_held_out")
        if self.penalty is None and self.solver == SGD.name:
            hints["decay"] = float(self.alpha) * float(plan.weights.sum()) / max(1, int((plan.weights > 0.0).sum()))
        plan.hints, plan.starts = hints, self._given_starts(plan)
        if self._settles:
            plan.tol, plan.shortcut = 0.0, self._walked
        return plan

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        if self.early_stopping and sample_weight is not None and not np.any(sample_weight):
            raise ValueError(NO_VALIDATION)
        plan = super()._divide(X, y, sample_weight)
        if self.early_stopping:  # before any random number is drawn for something else
            self._held_out = self._hold_out(plan)
        return plan

    def _hold_out(self, plan: Plan) -> HeldOut:
        """Take samples away from all tasks, and keep them to be scored. Sets: the weights of the plan."""
        kind = StratifiedShuffleSplit if is_classifier(self) else ShuffleSplit
        split = kind(test_size=self.validation_fraction, random_state=self.random_state)
        n, y = plan.weights.size, plan.codes if is_classifier(self) else np.zeros(plan.weights.size)
        held = next(iter(split.split(np.zeros((n, 1)), y)))[1]
        weights = plan.weights[held]
        if not weights.any():
            raise ValueError(NO_VALIDATION)
        assert isinstance(plan.tasks, Tasks)
        plan.tasks.s.reshape(-1, n)[:, held] = 0.0
        plan.weights = plan.weights.copy()
        plan.weights[held] = 0.0
        return HeldOut(np.sort(held), weights[np.argsort(held)], is_classifier(self))

    def _given_starts(self, plan: Plan) -> list[Point]:
        """Points to start from: what `fit` was given, or the last fit with ``warm_start=True``."""
        coef, intercept = getattr(self, "_starts", (None, None))
        d, tasks, n = plan.X.shape[1], len(plan.tasks), plan.weights.size
        if self.warm_start and self.__sklearn_is_fitted__():
            earlier = np.atleast_2d(dense_coefficients(self))
            coef = earlier if coef is None and earlier.shape == (tasks, d) else coef
            intercept = self.intercept_ if intercept is None and np.size(self.intercept_) == tasks else intercept
        if coef is None and intercept is None:
            return []
        W = np.zeros((tasks, d)) if coef is None else np.asarray(coef, dtype=np.float64)
        b = np.zeros(tasks) if intercept is None else np.asarray(intercept, dtype=np.float64)
        if W.shape not in {(tasks, d), *([(d,)] if tasks == 1 else [])}:
            raise ValueError(f"Provided coef_init does not match dataset: {W.shape} instead of {(tasks, d)}.")
        if b.shape not in {(tasks,), *([()] if tasks == 1 else [])}:
            raise ValueError(f"Provided intercept_init does not match dataset: {b.shape} instead of {(tasks,)}.")
        return [Point(w, float(c), np.zeros(n)) for w, c in zip(W.reshape(tasks, d), b.reshape(tasks), strict=True)]

    def _earlier_solutions(self, plan: Plan) -> Sequence[Solution | None]:
        return [None] * len(plan.tasks)  # they are among the starts

    def _walked(self, plan: Plan) -> Results:
        """As `solve`, with which it ends; but small fits that the objective stops are walked to their end at once."""
        asked = plan.listeners.listening or self.verbose or self.max_time is not None
        large = isinstance(plan.X, ChunkedMatrix) or plan.X.shape[0] * plan.X.shape[1] * len(plan.tasks) > QUICK
        if not self._settles or asked or large:
            return solve(self, plan)
        solver, view = SGD.with_hints(plan.hints), plan.views[0]
        solved = []
        for k, task in enumerate(plan.tasks):
            began, compiled = seconds_working(), seconds_compiling()
            problem = self._problem(view.of(task), task, plan)
            state = solver.start(problem, plan.starts[k] if plan.starts else None)
            limit = NEVER if self.max_iter in (-1, None) else int(self.max_iter or 0)
            while state.iterations < limit and not state.exhausted:
                state = solver.advance(problem, state, limit - state.iterations)
            point, certificate = self._judged(problem, solver.point(problem, state))
            status = state.at_rest if state.exhausted else Status.MAX_ITER
            solution = Solution(
                point, certificate, self._named(status), solver.name, 0.0, state.iterations,
                seconds_working() - began, last=point, compiling=seconds_compiling() - compiled,
            )  # fmt: skip
            solved.append(Solved(solution, self._function(problem, solution)))
        return Results(solved)

    def _named(self, status: Status) -> Status:
        """Who asks for a number of passes has nothing else to expect."""
        return Status.PASSED if status is Status.MAX_ITER and self._settles and self.tol is None else status

    def _proven(self, problem: AnyProblem, solution: Solution) -> Solution:
        """The last point of the path, where it was to be followed to its end, and what that is worth."""
        assert isinstance(problem, Problem)
        if not self._settles:
            return solution
        point, certificate = self._judged(problem, solution.last or solution.point)
        return replace(solution, point=point, certificate=certificate, status=self._named(solution.status))

    def _judged(self, problem: Problem, point: Point) -> tuple[Point, Certificate]:
        """A point with the precision of the samples, and its certificate."""
        if problem.rows.matrix.dtype == np.float32:
            point = replace(point, w=point.w.astype(np.float32).astype(np.float64), b=float(np.float32(point.b)))
        if isinstance(problem.penalty, Unpenalised):
            reach = REACH * max(float(np.abs(point.w).max(initial=0.0)), 1e-100)
            problem = replace(problem, penalty=Unpenalised(np.full(point.w.size, reach)))
        return complete(problem, point)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        assert isinstance(operator, Features)
        return linear_problem(self, operator, task.y, task.s, float(plan.weights.sum()))

    def _keep(self, plan: Plan, solved: Results) -> None:
        self.__dict__.pop("_streams", None)
        super()._keep(plan, solved)
        coef, intercept = (values.astype(plan.X.dtype, copy=False) for values in (self.coef_, self.intercept_))
        if np.array_equal(coef, self.coef_) and np.array_equal(intercept, self.intercept_):  # or they are not certified
            self.coef_, self.intercept_ = coef, intercept
        self.t_ = float(self.n_iter_ * plan.X.shape[0] + 1)

    def _learn(self, X: Matrix | ChunkedMatrix, y: Array, tasks: Sequence[Task], s: Float) -> None:
        """One pass over fresh samples. Sets: the fitted attributes."""
        X = check.refuse_chunks(X, "partial_fit", "call it with each chunk of the data's chunks()")
        if self.solver != SGD.name:
            raise ValueError(f"partial_fit needs solver='sgd', which learns from a stream; got {self.solver!r}.")
        solver = SGD.with_hints(self._options())
        rows, used = Rows(X), float(np.count_nonzero(s))
        streams: list[SGDState] = []
        solved: list[Solved] = []
        for k, task in enumerate(tasks):
            began, compiled = seconds_working(), seconds_compiling()
            problem = linear_problem(self, rows, task.y, s, used)
            state = solver.learn(problem, self._stream(solver, problem, k))
            point, certificate = self._judged(problem, Point(*solver.model(problem, state)))
            solution = Solution(
                point, certificate, Status.PASSED, solver.name, 0.0, state.iterations, seconds_working() - began,
                compiling=seconds_compiling() - compiled,
            )  # fmt: skip
            streams.append(state)
            solved.append(Solved(solution, Function(point.w, point.b, point.alpha)))
        steps = getattr(self, "t_", 1.0) + X.shape[0]
        self._keep(Plan(X, y, tasks, s, np.zeros(0), NO_OTHERS), Results(solved))
        self._streams, self.t_ = streams, steps

    def _stream(self, solver: SGD, problem: Problem, k: int) -> SGDState:
        """The state of a task's stream for the next samples; of a fit, its coefficients and the number of its steps."""
        if hasattr(self, "_streams"):
            return solver.carry_on(problem, self._streams[k])
        if not self.__sklearn_is_fitted__():
            return solver.start(problem, None)
        state = solver.start(problem, Point(np.atleast_2d(dense_coefficients(self))[k], float(self.intercept_[k])))
        state.t = int(self.t_) - 1
        return state

    def _prepare(self, X: MatrixLike, y: ArrayLike, *, reset: bool) -> tuple[Matrix | ChunkedMatrix, Array]:
        """Checked parameters and samples of a stream."""
        self._validate_params()
        if self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit, which makes one pass and stops.")
        if getattr(self, "class_weight", None) == "balanced":
            raise ValueError(BALANCED_STREAM)
        self._refuse_contradictions()
        return check.check_training_data(self, X, y, reset=reset)
