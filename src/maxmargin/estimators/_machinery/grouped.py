"""What the estimators with a penalty on groups of coefficients share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.least_squares import LEAST_SQUARES_CONSTRAINTS, LeastSquaresRegressor
from maxmargin.estimators._machinery.plan import ColumnsView, Function, Plan, Task, View
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Solved
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Columns, Matrix
from maxmargin.parts.penalties import Groups
from maxmargin.problems.groups import GroupProblem
from maxmargin.protocols import Array, Float, Index, Operator
from maxmargin.solvers.choice import AnyProblem
from maxmargin.threads import workers_for

GROUP_CONSTRAINTS: Constraints = {
    name: rule for name, rule in LEAST_SQUARES_CONSTRAINTS.items() if name not in ("positive", "bounds", "n_jobs")
}


@dataclass(eq=False, repr=False)
class GroupedLeastSquares(LeastSquaresRegressor):
    """Least squares with a penalty on the norms of groups of coefficients, of all targets in one problem."""

    alpha: float = 1.0
    positive: bool = field(default=False, init=False)
    bounds: None = field(default=None, init=False)
    n_jobs: None = field(default=None, init=False)

    _reads_chunks = False
    _by_columns = True

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for all targets."""
        weights = check.check_sample_weight(self, X, sample_weight)
        Y = np.ascontiguousarray(np.atleast_2d(check.check_targets(self, y).T))
        task = Task("all targets", np.arange(weights.size), Y, weights / weights.sum())
        return Plan(X, y, [task], weights, np.zeros(weights.size, dtype=np.int64), workers_for(None))

    def _views(self, plan: Plan) -> Sequence[View]:
        return [ColumnsView(plan.X, plan.workers)]

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> GroupProblem:
        """What the fit minimises."""
        assert isinstance(operator, Columns)
        return group_problem(self, operator, task.y, task.s)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        return Function(solution.point.w, 0.0, solution.point.alpha)

    def _keep(self, plan: Plan, solved: Sequence[Solved]) -> None:
        """Sets: ``coef_``, ``intercept_``, and what is known of the quality of the fit."""
        T, d, w = plan.tasks[0].y.shape[0], plan.X.shape[1], solved[0].function.w
        self.coef_ = w[: T * d].reshape(T, d).copy()
        self.intercept_ = w[T * d :].copy() if self.fit_intercept else np.zeros(T)
        self._keep_certificates([one.solution for one in solved])
        self.dual_gap_ = self.solution_.certificate.gap  # in units of what is minimised, as scikit-learn has it
        if plan.y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskLeastSquares(GroupedLeastSquares):
    """Each feature by itself is a group, of its coefficients for all targets."""

    selection: str = "cyclic"

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for all targets; scikit-learn refuses a single one that is given as a vector, and so do we."""
        if y.ndim == 1:
            raise ValueError(
                f"{type(self).__name__} is for several targets: y has one dimension, and needs a column for each. "
                f"For mono-task outputs, use GroupLasso, or reshape y with y.reshape(-1, 1)."
            )
        return super()._divide(X, y, sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        return tags


def group_problem(model: Any, operator: Columns, Y: Float, s: Float) -> GroupProblem:
    """``sum_i s_i/2 |Y_i - W x_i - b|^2 + alpha (r sum_g weight_g |W_g| + (1 - r)/2 |W|^2)`` of a model."""
    groups, weights = groups_of(getattr(model, "groups", None), getattr(model, "weights", None), operator.n_features)
    ratio = float(getattr(model, "l1_ratio", 1.0))
    penalty = Groups(float(model.alpha) * ratio * weights, float(model.alpha) * (1.0 - ratio))
    return GroupProblem(operator, Y, penalty, groups, s, bool(model.fit_intercept))


def groups_of(groups: Any, weights: Any, d: int) -> tuple[Index, Float]:
    """The number of the group of each of ``d`` features, and the weight of each group.

    Each feature by itself if there are no groups; a number of features, one after another, makes groups of so many;
    otherwise there is a label for each feature, or a list of features for each group. A group weighs the root of its
    size unless there are weights.
    """
    if groups is None:
        numbers = np.arange(d)
    elif isinstance(groups, (int, np.integer)):
        if groups < 1 or d % groups:
            raise ValueError(f"groups={groups!r} must be the size of every group, and divide the {d} features evenly.")
        numbers = np.arange(d) // groups
    elif all(np.ndim(some) == 1 for some in groups):
        numbers = _numbers_of_lists(groups, d)
    else:
        labels = np.asarray(groups)
        if labels.shape != (d,):
            raise ValueError(
                f"groups must be a size, a label for each of the {d} features or a list of features for each group; "
                f"got an array of shape {labels.shape}."
            )
        numbers = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(numbers, minlength=1)
    if weights is None:
        return numbers, np.sqrt(counts) if groups is not None else np.ones(d)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != counts.shape or not ((given >= 0.0) & (given < np.inf)).all():
        raise ValueError(f"weights must hold a finite number from 0 on for each of the {counts.size} groups.")
    return numbers, given


def _numbers_of_lists(groups: Any, d: int) -> Index:
    """The number of the list in which each feature is."""
    members = [np.asarray(some, dtype=np.int64) for some in groups]
    everyone = np.concatenate(members) if members else np.empty(0, dtype=np.int64)
    if everyone.size != d or not np.array_equal(np.sort(everyone), np.arange(d)):
        raise ValueError(f"groups must have each of the features 0 to {d - 1} in exactly one list.")
    numbers = np.empty(d, dtype=np.int64)
    for k, some in enumerate(members):
        numbers[some] = k
    return numbers
