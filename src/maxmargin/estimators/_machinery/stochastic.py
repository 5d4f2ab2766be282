"""What the estimators of stochastic gradient descent share: the objective, the solver, and learning from a stream.

The objective of scikit-learn's estimators is, in this one place,

``1/S sum_i c_i loss(x_i.w + b, y_i) + alpha R(w)``

with the class weight times the sample weight ``c_i``, the sum ``S`` of the sample weights, and ``R(w)`` one of
``|w|^2 / 2``, ``|w|_1`` and ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``. The library minimises ``S`` times that, a
`Problem` with the weights ``c_i`` and a penalty of strength ``alpha S``; ``objective_`` and ``dual_objective_`` are
values of the latter.
"""

from __future__ import annotations

import time
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import FitTasks
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE, CertifiedEstimator
from maxmargin.estimators._machinery.fit import certified_attributes, iteration_counts, solve_tasks
from maxmargin.estimators._machinery.problems import penalty_of
from maxmargin.estimators._machinery.task import Task
from maxmargin.estimators.explanation import given
from maxmargin.loop.certificate import complete
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Rows, rows_of
from maxmargin.operators.rows import scores_of
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
from maxmargin.protocols import Features, Float
from maxmargin.solvers import SGD, make_solver
from maxmargin.solvers.choice import Choice
from maxmargin.solvers.rows.sgd import LEARNING_RATES, ORDERS, SGDState
from maxmargin.threads import Workers

REGRESSION_LOSSES = {"squared_error", "epsilon_insensitive", "squared_epsilon_insensitive"}
CLASSIFICATION_LOSSES = {"hinge", "squared_hinge", "huber_hinge", "log_loss", "perceptron"} | REGRESSION_LOSSES
STOCHASTIC_CONSTRAINTS: dict[str, list[Any]] = {
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


def linear_problem(model: Any, rows: Features, y: Float, s: Float, total: float) -> Problem:
    """What one task of a model minimises; ``total`` is the sum ``S`` of the sample weights."""
    intercept = "free" if model.fit_intercept else None
    loss: Any = {
        "hinge": Hinge(),
        "perceptron": Hinge(0.0),
        "squared_hinge": SquaredHinge(),
        "huber_hinge": HuberHinge(),
        "log_loss": Logistic(),
        "squared_error": Squared(),
        "epsilon_insensitive": EpsilonInsensitive(float(model.epsilon)),
        "squared_epsilon_insensitive": SquaredEpsilonInsensitive(float(model.epsilon)),
    }[model.loss]
    return Problem(rows, y, loss, penalty_of(model, float(model.alpha) * total), s, intercept)  # type: ignore[arg-type]


class StochasticEstimator(CertifiedEstimator):
    """A linear model that is fitted to given samples, or learns from a stream of them."""

    _reads_chunks = True

    tol: float
    solver: str
    coef_: Float
    intercept_: Float
    t_: float
    _streams: list[SGDState]

    def _refuse_contradictions(self: Any) -> None:
        if self.early_stopping:
            raise ValueError(
                "early_stopping=True stops by the score of held-out samples; this estimator stops by its certificate. "
                "Raise tol or lower max_iter to stop sooner."
            )
        if not self.shuffle and self.order not in ("auto", "cyclic"):
            raise ValueError(f"shuffle=False contradicts order={self.order!r}; leave one of them at its default.")

    def _choice(self, X: Any) -> Choice:
        """The solver, which is never chosen by the samples."""
        return given(self)

    def _make_solver(self: Any) -> Any:
        order = ("permutation" if self.shuffle else "cyclic") if self.order == "auto" else self.order
        return make_solver(
            self.solver,
            order=order,
            learning_rate=self.learning_rate,
            eta0=self.eta0,
            power_t=float(self.power_t),
            patience=int(self.n_iter_no_change),
            average=None if self.average == "auto" else bool(self.average),
            seed=self._seed(),
        )

    def _solve(self, X: Any, y: Any, tasks: list[Any], weights: Float, s: Float, workers: Workers) -> None:
        """The empirical problem. Sets: the fitted attributes."""
        check.check_reading(X, self.solver)
        solver, rows, total = self._make_solver(), rows_of(X), float(weights.sum())
        listeners = FitTasks(self, X, y, len(tasks))

        def pose(task: Task) -> Problem:
            return linear_problem(self, rows, task.y, s, total)

        at_once = Workers(1) if isinstance(X, ChunkedMatrix) else workers  # each task would hold chunks of its own
        solutions = solve_tasks(self, tasks, pose, solver, listeners, at_once)
        if hasattr(self, "_streams"):
            del self._streams
        self.t_ = float(iteration_counts(solutions).max()) * float(np.count_nonzero(s))
        self._keep(solutions)
        listeners.end(dict(vars(self)))

    def _learn(self, X: Any, tasks: list[Any], s: Float) -> None:
        """One pass over fresh samples. Sets: the fitted attributes."""
        check.refuse_chunks(X, "partial_fit", "call it with each chunk of the data's chunks()")
        solver = self._make_solver()
        if not isinstance(solver, SGD):
            raise ValueError(f"partial_fit needs solver='sgd', which learns from a stream; got {self.solver!r}.")
        rows, used = Rows(X), float(np.count_nonzero(s))
        streams: list[SGDState] = []
        solutions: list[Solution] = []
        for k, task in enumerate(tasks):
            began = time.perf_counter()
            problem = linear_problem(self, rows, task.y, s, used)
            state = solver.learn(problem, self._stream(solver, problem, k))
            point, certificate = complete(problem, Point(*solver.model(problem, state)))
            status = Status.CONVERGED if certificate.relative_gap <= self.tol else Status.MAX_ITER
            seconds = time.perf_counter() - began
            streams.append(state)
            solutions.append(Solution(point, certificate, status, solver.name, self.tol, state.iterations, seconds))
        self._streams, self.t_ = streams, float(streams[0].t)
        self._keep(solutions)

    def _stream(self, solver: SGD, problem: Problem, k: int) -> SGDState:
        """The state of a task's stream for the next samples; of a fit, its coefficients and the number of its steps."""
        if hasattr(self, "_streams"):
            return solver.carry_on(problem, self._streams[k])
        if not self.__sklearn_is_fitted__():
            return solver.start(problem, None)
        state = solver.start(problem, Point(np.atleast_2d(self.coef_)[k], float(self.intercept_[k])))
        state.t = int(self.t_)
        return state

    def _keep(self, solutions: list[Solution]) -> None:
        """Sets: the fitted attributes."""
        self.coef_ = np.array([solution.point.w for solution in solutions])
        self.intercept_ = np.array([solution.point.b for solution in solutions])
        alpha = np.array([solution.point.alpha for solution in solutions])
        self.support_ = np.flatnonzero(alpha.any(axis=0)).astype(np.int32)
        self.dual_coef_ = alpha[:, self.support_]
        self.n_iter_ = int(iteration_counts(solutions).max())
        for name, value in certified_attributes(solutions).items():
            setattr(self, name, value)

    def _scores(self, X: Any) -> Float:
        return scores_of(X, np.atleast_2d(self.coef_)) + self.intercept_

    def _prepare(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        """Checked parameters and samples."""
        self._validate_params()
        self._refuse_contradictions()
        return check.check_training_data(self, X, y, reset=reset)
