"""What the estimators of least squares with an L1 penalty share: their problem, and what they keep of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from maxmargin.estimators._machinery.least_squares import LEAST_SQUARES_CONSTRAINTS, LeastSquaresRegressor
from maxmargin.estimators._machinery.paths import Chain, sparse_penalty
from maxmargin.estimators._machinery.plan import ColumnsView, Plan, RowsView, Task, View
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.operators.rows import LARGEST_VALUE, is_sparse
from maxmargin.parts.losses import Squared
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Intercept, Operator
from maxmargin.threads import workers_for

SPARSE_CONSTRAINTS: Constraints = {
    **LEAST_SQUARES_CONSTRAINTS,
    "precompute": ["boolean", "array-like", StrOptions({"auto"})],
    "selection": [StrOptions({"cyclic", "random"})],
}
STRENGTH: list[object] = [Interval(Real, 0, LARGEST_VALUE, closed="both")]
RATIO: list[object] = [Interval(Real, 0, 1, closed="both")]
AGREEMENT = 1e-4  # relative: of an entry of a Gram matrix that was passed with what it should be


@dataclass(kw_only=True, eq=False, repr=False)
class SparseLeastSquaresRegressor(LeastSquaresRegressor):
    """Least squares with ``alpha (ratio |w|_1 + (1 - ratio) |w|^2 / 2)``, of one target or of several at once."""

    precompute: bool | str | ArrayLike = False
    selection: str = "cyclic"

    _by_columns = True

    @property
    def _strengths(self) -> tuple[float, float]:
        """``alpha`` and the share of the L1 norm."""
        raise NotImplementedError

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for each target, with weights whose sum is 1."""
        plan = super()._divide(X, y, sample_weight)
        refuse_wrong_gram(self, X, plan.weights)
        s = plan.weights / plan.weights.sum()
        plan.tasks = [Task(task.name, task.members, task.y, s) for task in plan.tasks]
        return plan

    def _views(self, plan: Plan) -> Sequence[View]:
        """As columns first where a penalty or limits make it likely that few of them count; otherwise as rows."""
        alpha, ratio = self._strengths
        if isinstance(plan.X, ChunkedMatrix):
            return [RowsView(plan.X, plan.workers)]
        if alpha * ratio > 0.0 or self._limits(plan.X.shape[1]) is not None:
            return [ColumnsView(plan.X, plan.workers), RowsView(plan.X, plan.workers)]
        return [RowsView(plan.X, plan.workers)]

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises for one target."""
        alpha, ratio = self._strengths
        intercept: Intercept = "free" if self.fit_intercept else None
        if alpha * ratio == 0.0:
            return self._least_squares(operator, task.y, task.s, 0.5 * alpha, intercept)
        limits = self._limits(plan.X.shape[1])
        return Problem(operator, task.y, Squared(), sparse_penalty(alpha, ratio, limits), task.s, intercept)

    def _few_terms(self, n: int, d: int) -> tuple[float, float, tuple[Float, Float] | None, float] | None:
        alpha, ratio = self._strengths
        limits = self._limits(d)
        if (limits is not None and alpha * ratio == 0.0) or not isinstance(self.precompute, (bool, str)):
            return None
        return alpha, ratio, limits, 1.0 / n

    def _solved_at_once(self, X: Any, y: Float) -> Solution | None:
        solution = super()._solved_at_once(X, y)
        alpha, ratio = self._strengths
        if solution is not None or alpha * ratio == 0.0 or self.max_iter not in (None, -1):
            return solution
        if self._few_terms(*X.shape) is None:
            return None
        chain = Chain(
            X, y, np.full(len(y), 1.0 / len(y)), ratio, "free" if self.fit_intercept else None,
            self._limits(X.shape[1]), float(self.tol), workers=workers_for(self.n_jobs),
        )  # fmt: skip
        return chain.solve_one(alpha)

    def _keep_one(self, solution: Solution) -> None:
        super()._keep_one(solution)
        self.dual_gap_: Any = solution.certificate.gap

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: what scikit-learn's estimator of the same name has, and what is known of the quality of the fit."""
        super()._keep(plan, solved)
        gaps = np.array([solution.certificate.gap for solution in self.solutions_])
        self.dual_gap_ = gaps if len(gaps) > 1 else float(gaps[0])
        if len(self.solutions_) > 1:
            self.n_iter_ = [solution.iterations for solution in self.solutions_]
        if self.coef_.ndim == 2 and len(self.coef_) == 1:
            self.coef_ = self.coef_[0]  # as in scikit-learn

    @property
    def sparse_coef_(self) -> sp.csr_array:
        """Coefficients in a sparse array with a row for each target."""
        check_is_fitted(self)
        return sp.csr_array(np.atleast_2d(self.coef_))


def refuse_wrong_gram(estimator: Any, X: Matrix | ChunkedMatrix, weights: Float) -> None:
    """Refuse a Gram matrix that is not that of the samples: as scikit-learn, by its shape and one of its entries.

    Whether there is one makes no difference otherwise: the solver computes those products of columns that it needs.
    """
    given = estimator.precompute
    if isinstance(given, (bool, np.bool_, str)):
        return
    gram, d = check_array(given, dtype=np.float64, input_name="precompute"), X.shape[1]
    if gram.shape != (d, d):
        raise ValueError(
            f"precompute must be True, False or the Gram matrix of the {d} features, of shape {(d, d)}; got an array "
            f"of shape {gram.shape}."
        )
    if isinstance(X, ChunkedMatrix):
        return
    j, k = d // 2, d - 1 - d // 2
    left, right = (
        np.asarray(X[:, [i]].toarray() if is_sparse(X) else X[:, i], dtype=np.float64).ravel() for i in (j, k)
    )
    scale = np.sqrt(weights * (weights.size / weights.sum()))
    known = [float(left @ right), float((scale * left) @ (scale * right))]
    if getattr(estimator, "fit_intercept", False):
        left, right = (scale * (column - weights @ column / weights.sum()) for column in (left, right))
        known.append(float(left @ right))
    slack = AGREEMENT * (float(np.linalg.norm(left) * np.linalg.norm(right)) + 1e-300)
    if min(abs(float(gram[j, k]) - value) for value in known) > slack:
        raise ValueError(
            f"The Gram matrix passed as precompute did not pass validation: its entry ({j}, {k}) is {gram[j, k]:.6g}, "
            f"but the product of these columns is {known[-1]:.6g}. Leave it out: what the solver needs it computes."
        )
