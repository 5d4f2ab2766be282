"""What the estimators of stochastic gradient descent share: the objective, the solver, and learning from a stream.

The objective of scikit-learn's estimators is, in this one place,

``1/S sum_i c_i loss(x_i.w + b, y_i) + alpha R(w)``

with the class weight times the sample weight ``c_i``, the sum ``S`` of the sample weights, and ``R(w)`` one of
``|w|^2 / 2``, ``|w|_1`` and ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``. The library minimises ``S`` times that, a
`Problem` with the weights ``c_i`` and a penalty of strength ``alpha S``; ``objective_`` and ``dual_objective_`` are
values of the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin._jit import seconds_compiling, seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE
from maxmargin.estimators._machinery.linear import LinearMachine
from maxmargin.estimators._machinery.names import AnyNorm
from maxmargin.estimators._machinery.plan import Function, Plan, Task
from maxmargin.estimators._machinery.problems import penalty_of
from maxmargin.estimators._machinery.results import Results, Solved
from maxmargin.loop.certificate import complete
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike, Rows
from maxmargin.parts.losses import (
    EpsilonInsensitive,
    Hinge,
    HuberHinge,
    Logistic,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.problems.point import Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Features, Float, Intercept, Loss, Operator
from maxmargin.solvers import SGD, solver_class
from maxmargin.solvers.rows.sgd import LEARNING_RATES, ORDERS, SGDState
from maxmargin.threads import NO_OTHERS

DEFAULT_FRACTION = 0.1  # of the samples that scikit-learn holds out for early stopping
REGRESSION_LOSSES = {"squared_error", "epsilon_insensitive", "squared_epsilon_insensitive"}
CLASSIFICATION_LOSSES = {"hinge", "squared_hinge", "huber_hinge", "log_loss", "perceptron"} | REGRESSION_LOSSES
OPTIONS_OF_SOLVERS: dict[str, tuple[str, object]] = {  # by parameters of the estimators, with the defaults of these
    "shuffle": ("order", True),
    "order": ("order", "auto"),
    "learning_rate": ("learning_rate", "optimal"),
    "eta0": ("eta0", None),
    "power_t": ("power_t", 0.5),
    "n_iter_no_change": ("patience", 5),
    "average": ("average", "auto"),
}
STOCHASTIC_CONSTRAINTS: dict[str, list[object]] = {
    **FIT_CONSTRAINTS,
    "penalty": [StrOptions({"l2", "l1", "elasticnet"})],
    "alpha": [POSITIVE],
    "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    "fit_intercept": ["boolean"],
    "shuffle": ["boolean"],
    "epsilon": [Interval(Real, 0, None, closed="left")],
    "random_state": ["random_state"],
    "learning_rate": [StrOptions(set(LEARNING_RATES))],
    "eta0": [POSITIVE, None],
    "power_t": [Interval(Real, 0, None, closed="left")],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "average": ["boolean", StrOptions({"auto"})],
    "order": [StrOptions({"auto", *ORDERS})],
}


def linear_problem(model: StochasticEstimator, rows: Features, y: Float, s: Float, total: float) -> Problem:
    """What one task of a model minimises; ``total`` is the sum ``S`` of the sample weights."""
    intercept: Intercept = "free" if model.fit_intercept else None
    losses: dict[str, Loss] = {
        "hinge": Hinge(),
        "perceptron": Hinge(0.0),
        "squared_hinge": SquaredHinge(),
        "huber_hinge": HuberHinge(),
        "log_loss": Logistic(),
        "squared_error": Squared(),
        "epsilon_insensitive": EpsilonInsensitive(float(model.epsilon)),
        "squared_epsilon_insensitive": SquaredEpsilonInsensitive(float(model.epsilon)),
    }
    penalty = penalty_of(model, rows.n_features, float(model.alpha) * total)
    return Problem(rows, y, losses[model.loss], penalty, s, intercept)


@dataclass(kw_only=True, eq=False, repr=False)
class StochasticEstimator(LinearMachine):
    """A linear model that is fitted to given samples, or learns from a stream of them."""

    penalty: AnyNorm = "l2"
    alpha: float = 0.0001
    l1_ratio: float = 0.15
    max_iter: int | None = 1000
    tol: float = 1e-3
    shuffle: bool = True
    epsilon: float = 0.1
    learning_rate: str = "optimal"
    eta0: float | None = None
    power_t: float = 0.5
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    average: bool | str = "auto"
    order: str = "auto"
    solver: str = "sgd"

    _by_columns = False

    t_: float = field(init=False)
    _streams: list[SGDState] = field(init=False)

    def _refuse_contradictions(self) -> None:
        if self.early_stopping:
            raise ValueError(
                "early_stopping=True stops by the score of held-out samples; this estimator stops by its certificate. "
                "Raise tol or lower max_iter to stop sooner."
            )
        if self.validation_fraction != DEFAULT_FRACTION:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} has no effect, because no samples are held out: this "
                "estimator stops by its certificate. Leave it at its default."
            )
        if not self.shuffle and self.order not in {"auto", "cyclic"}:
            raise ValueError(f"shuffle=False contradicts order={self.order!r}; leave one of them at its default.")
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
            "eta0": self.eta0,
            "power_t": float(self.power_t),
            "patience": int(self.n_iter_no_change),
            "average": None if self.average == "auto" else bool(self.average),
            "seed": self._seed(),
        }

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        assert isinstance(operator, Features)
        return linear_problem(self, operator, task.y, task.s, float(plan.weights.sum()))

    def _keep(self, plan: Plan, solved: Results) -> None:
        self.__dict__.pop("_streams", None)
        super()._keep(plan, solved)
        self.t_ = float(self.n_iter_) * float(np.count_nonzero(plan.tasks[0].s))

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
            point, certificate = complete(problem, Point(*solver.model(problem, state)))
            status = Status.CONVERGED if certificate.relative_gap <= self.tol else Status.MAX_ITER
            solution = Solution(
                point, certificate, status, solver.name, self.tol, state.iterations, seconds_working() - began,
                compiling=seconds_compiling() - compiled,
            )  # fmt: skip
            streams.append(state)
            solved.append(Solved(solution, Function(point.w, point.b, point.alpha)))
        self._keep(Plan(X, y, tasks, s, np.zeros(0), NO_OTHERS), Results(solved))
        self._streams, self.t_ = streams, float(streams[0].t)

    def _stream(self, solver: SGD, problem: Problem, k: int) -> SGDState:
        """The state of a task's stream for the next samples; of a fit, its coefficients and the number of its steps."""
        if hasattr(self, "_streams"):
            return solver.carry_on(problem, self._streams[k])
        if not self.__sklearn_is_fitted__():
            return solver.start(problem, None)
        state = solver.start(problem, Point(np.atleast_2d(self.coef_)[k], float(self.intercept_[k])))
        state.t = int(self.t_)
        return state

    def _prepare(self, X: MatrixLike, y: ArrayLike, *, reset: bool) -> tuple[Matrix | ChunkedMatrix, Array]:
        """Checked parameters and samples of a stream."""
        self._validate_params()
        self._refuse_contradictions()
        return check.check_training_data(self, X, y, reset=reset)
