"""What all kernel machines share: parameters, the course of a fit, support vectors and scores."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import FitTasks
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE, CertifiedEstimator
from maxmargin.estimators._machinery.fit import certified_attributes, iteration_counts, solve_tasks
from maxmargin.estimators._machinery.kernels import (
    KERNEL_NAMES,
    bandwidth,
    kernel_scores,
    shared_operator,
    task_operator,
)
from maxmargin.estimators._machinery.task import Task
from maxmargin.estimators.explanation import given, traits_of
from maxmargin.loop.solution import Solution
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float
from maxmargin.solvers import LINEAR, OF_HULLS
from maxmargin.solvers.choice import Choice, choose
from maxmargin.threads import workers_for

KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    **FIT_CONSTRAINTS,
    "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "shrinking": ["boolean"],
    "cache_size": [POSITIVE],
    "n_jobs": [Integral, None],
}
NU_CONSTRAINT: list[Any] = [Interval(Real, 0.0, 1.0, closed="right")]

Pose = Callable[[Task], Problem | BoxQP | HullDistance]


class Plan(NamedTuple):
    """What a fit is about to do."""

    tasks: list[Any]  # of type Task
    s: Float  # weight of each sample's loss
    weights: Float  # the sample weights alone
    codes: Array  # class of each sample; zeros if there are none


class KernelMachine(CertifiedEstimator):
    """An estimator whose functions are expansions over support vectors."""

    _solvers_of_rows: ClassVar[frozenset[str]] = frozenset()  # which see rows of features if the kernel is linear

    def _choice(self, X: Any) -> Choice:
        """The solver for some samples. With a linear kernel it sees rows of features if the problem can be posed so."""
        if self.solver != "auto":
            return given(self)
        as_rows = self.kernel == "linear" and self._solvers_of_rows == LINEAR
        return choose(traits_of(self, X, kernelised=not as_rows))

    def _plan(self, X: Any, y: Any, sample_weight: Any) -> Plan:
        """The problems to solve."""
        raise NotImplementedError

    def _problem(self, operator: Any, y: Float, s: Float) -> Problem | BoxQP | HullDistance:
        """What one task minimises."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Fit, and return the samples as they were used. Sets: the fitted attributes."""
        self._validate_params()
        self._refuse_contradictions()
        X, y = check.check_training_data(self, X, y)
        if self.kernel == "precomputed":
            check.check_kernel_matrix(self, X)
        plan = self._plan(X, y, sample_weight)
        self._gamma = bandwidth(self, X, plan.weights)
        solver = self._choice(X).make(
            tol=self.tol, shrinking=self.shrinking, max_memory=self.cache_size, seed=self._seed()
        )
        as_rows = self.kernel == "linear" and solver.name in self._solvers_of_rows
        if solver.name in OF_HULLS and not as_rows:
            check.refuse_solver_of_hulls(self)

        workers = workers_for(self.n_jobs)
        shared = None
        if sum(task.members.size == X.shape[0] for task in plan.tasks) > 1:
            shared = shared_operator(self, X, len(plan.tasks), as_rows=as_rows, workers=workers)

        def pose(task: Task) -> Problem | BoxQP | HullDistance:
            operator = shared if task.members.size == X.shape[0] else None
            operator = operator or task_operator(self, X, task, as_rows=as_rows, workers=workers)
            return self._problem(operator, task.y, plan.s[task.members])

        listeners = FitTasks(self, X, y, len(plan.tasks))
        solutions = solve_tasks(self, plan.tasks, pose, solver, listeners, workers)
        functions = [self._function(*pair, pose) for pair in zip(plan.tasks, solutions, strict=True)]
        self._keep_functions(X, plan, functions)
        if self.kernel == "linear":
            # Of rows, the coefficients that were certified: before the optimum they are not the sum over the samples.
            w = [function.w for function in functions] if as_rows else self._expansions() @ self.support_vectors_
            self._coef = np.asarray(w)
        self._keep_certificates(solutions)
        listeners.end(dict(vars(self)))
        return X

    def _refuse_contradictions(self) -> None:
        """Refuse parameters that exclude each other."""

    def _keep_functions(self, X: Any, plan: Plan, functions: list[Point]) -> None:
        """Sets: ``support_, support_vectors_, dual_coef_, intercept_, shape_fit_``."""
        expansions = np.zeros((len(functions), X.shape[0]))
        for expansion, task, function in zip(expansions, plan.tasks, functions, strict=True):
            expansion[task.members] = function.alpha
        used = np.flatnonzero(expansions.any(axis=0))
        self.support_ = used[np.argsort(plan.codes[used], kind="stable")].astype(np.int32)
        empty = np.empty((0, 0), dtype=X.dtype)
        self.support_vectors_ = empty if self.kernel == "precomputed" else X[self.support_]
        self.dual_coef_ = expansions[:, self.support_]
        self.intercept_ = np.array([function.b for function in functions])
        self.shape_fit_ = X.shape

    def _keep_certificates(self, solutions: list[Solution]) -> None:
        """Sets: what is known about the quality of the fit."""
        self.n_iter_: Any = int(iteration_counts(solutions).max())
        for name, value in certified_attributes(solutions).items():
            setattr(self, name, value)
        self.fit_status_ = int(not all(s.certificate.relative_gap <= self.tol for s in solutions))

    def _expansions(self) -> Float:
        """Coefficients of the support vectors in each problem."""
        return self.dual_coef_

    def _scores(self, X: Any) -> Float:
        """One column per problem."""
        if self.kernel == "linear":
            scores = X @ self._coef.T
        else:
            scores = kernel_scores(self, X, self._expansions())
        return np.asarray(scores, dtype=np.float64) + self.intercept_

    @property
    def coef_(self) -> Float:
        """Coefficients of the features, one row per problem; for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with the linear kernel; the others have dual_coef_.")
        check_is_fitted(self)
        return self._coef

    @property
    def n_support_(self) -> Array:
        """Number of support vectors (of each class, if there are classes)."""
        check_is_fitted(self)
        return np.array([self.support_.size], dtype=np.int32)
