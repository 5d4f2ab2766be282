"""What all linear machines share: parameters, the course of a fit, coefficients and scores."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import FitTasks
from maxmargin.estimators._machinery.classifier import INTERCEPT_CONSTRAINT
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE, CertifiedEstimator
from maxmargin.estimators._machinery.fit import certified_attributes, iteration_counts, solve_tasks
from maxmargin.estimators._machinery.problems import l1_share
from maxmargin.estimators._machinery.task import Task
from maxmargin.estimators.explanation import given, traits_of
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Rows, rows_of
from maxmargin.operators.rows import scores_of
from maxmargin.problems.problem import Problem
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Float, LocalRows
from maxmargin.solvers import DualCoordinate, Newton
from maxmargin.solvers.choice import Choice, choose
from maxmargin.threads import Workers, workers_for

LINEAR_CONSTRAINTS: dict[str, list[Any]] = {
    **FIT_CONSTRAINTS,
    "C": [POSITIVE],
    "dual": ["boolean", StrOptions({"auto"})],
    "fit_intercept": ["boolean"],
    "intercept_scaling": [Interval(Real, 0, 1e100, closed="right")],
    "random_state": ["random_state"],
    "intercept": INTERCEPT_CONSTRAINT,
    "shrinking": ["boolean"],
    "n_jobs": [Integral, None],
}


class LinearMachine(CertifiedEstimator):
    """An estimator whose functions are coefficients of the features."""

    _reads_chunks = True

    def _problem(self, operator: LocalRows, y: Float, s: Float) -> Problem | SoftmaxProblem:
        """What one task minimises."""
        raise NotImplementedError

    def _choice(self, X: Any) -> Choice:
        """The solver for some samples."""
        if self.solver != "auto":
            return given(self)
        if self.dual == "auto" or l1_share(self) > 0.0:
            return choose(traits_of(self, X))
        return Choice(DualCoordinate.name if self.dual else Newton.name, f"dual={self.dual} was asked for")

    def _refuse_contradictions(self) -> None:
        """Refuse parameters that exclude each other."""
        primal = ("newton", "smoothed", "cutting_plane", "subgradient")
        if (self.dual is False and self.solver == "dual_coordinate") or (self.dual is True and self.solver in primal):
            raise ValueError(f"dual={self.dual} contradicts solver={self.solver!r}; leave one of them at its default.")

    def _solve(self, X: Any, tasks: Sequence[Task], s: Float, listeners: FitTasks) -> list[Solution]:
        """The solutions of the tasks, for losses of the weights ``s``."""
        choice = self._choice(X)
        check.check_reading(X, choice.name)
        solver = choice.make(shrinking=getattr(self, "shrinking", True), seed=self._seed())
        workers = workers_for(self.n_jobs)
        rows = rows_of(X, workers)

        def pose(task: Task) -> Problem | SoftmaxProblem:
            operator = rows if task.members.size == X.shape[0] else Rows(X[task.members], workers)
            return self._problem(operator, task.y, s[task.members])

        at_once = Workers(1) if isinstance(X, ChunkedMatrix) else workers  # each task would hold chunks of its own
        return solve_tasks(self, tasks, pose, solver, listeners, at_once)

    def _keep_functions(self, n_samples: int, tasks: Sequence[Task], solutions: list[Solution]) -> None:
        """Sets: ``coef_, intercept_, support_, dual_coef_, n_iter_`` and what is known about the quality of the fit."""
        self.coef_ = np.array([solution.point.w for solution in solutions])
        self.intercept_ = np.array([solution.point.b for solution in solutions])
        alpha = np.zeros((len(tasks), n_samples))
        for k, (task, solution) in enumerate(zip(tasks, solutions, strict=True)):
            alpha[k, task.members] = solution.point.alpha
        self.support_ = np.flatnonzero(alpha.any(axis=0)).astype(np.int32)
        self.dual_coef_ = alpha[:, self.support_]
        self.n_iter_: Any = int(iteration_counts(solutions).max())
        for name, value in certified_attributes(solutions).items():
            setattr(self, name, value)

    def _scores(self, X: Any) -> Float:
        """One column per problem."""
        return scores_of(X, np.atleast_2d(self.coef_)) + self.intercept_
