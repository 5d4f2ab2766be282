"""Ordinary least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import eigvalsh, svdvals
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery.least_squares import LEAST_SQUARES_CONSTRAINTS, LeastSquaresRegressor
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.estimators._machinery.results import Results
from maxmargin.loop.solution import Solution
from maxmargin.operators import Rows
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Operator
from maxmargin.solvers.rows.cholesky import triangle_of
from maxmargin.solvers.rows.normal_equations import NormalEquations

UNIT = 2.0**-52  # of the largest singular value: smaller ones count as zero


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(LeastSquaresRegressor):
    """Ordinary least squares.

    Minimises

    ``sum_i s_i (y_i - w.x_i - b)^2``

    where ``s_i`` is the sample weight. If several coefficients are equally good, because columns depend on each other
    or samples are fewer than features, those of the least norm are found, as in scikit-learn.

    Without a penalty, a dual point would have to be orthogonal to all columns exactly, which no computed one is. What
    is proven is that no coefficients within a reach are better by more than `duality_gap_`: those with
    ``|w_j| <= 10 |y| / |x_j|``, of centred targets and columns, or four times the largest found if that is more, but at
    most 1e100; ``|x_j|`` counts as a millionth of what it is without centring at least. As the problem is convex,
    those ``k`` times as far away are better by at most ``k`` times as much.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative duality gap at which to stop. Sums of squared errors below a billionth of that of the targets count as
        that: an exact fit is as good as any.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept.
    rank_, singular_
        As in scikit-learn, for dense samples in memory: of the centred and weighted samples.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; there is a solution for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LinearRegression
    >>> model = LinearRegression().fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6, model.rank_
    (True, 10)

    """

    tol: float = 1e-6

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {**LEAST_SQUARES_CONSTRAINTS}

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises for one target."""
        return self._least_squares(operator, task.y, task.s, 0.0, "free" if self.fit_intercept else None)

    def _few_terms(self, n: int, d: int) -> tuple[float, float, tuple[Float, Float] | None, float] | None:
        return None if self.positive or self.bounds is not None else (0.0, 0.0, None, 2.0)

    def _keep_one(self, solution: Solution) -> None:
        self._singular: Float | None = self._factor.reshape(solution.point.w.size, solution.point.w.size)
        super()._keep_one(solution)

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        self._singular = self._spectrum(plan)

    def _spectrum(self, plan: Plan) -> Float | None:
        """The singular values of dense samples, or a matrix whose lower triangle has them, which is cheaper to keep."""
        operator = plan.view.of(plan.tasks[0])
        if not isinstance(operator, Rows) or not isinstance(plan.X, np.ndarray):
            return None
        if (triangle := triangle_of(operator)) is not None:
            return triangle
        problem = self._problem(operator, plan.tasks[0], plan)
        A = NormalEquations.of(problem).matrix() * np.sqrt(plan.weights)[:, None]
        if A.shape[0] >= A.shape[1]:
            return np.asarray(svdvals(A, overwrite_a=True, check_finite=False))
        values = eigvalsh(A @ A.T, overwrite_a=True, check_finite=False)[::-1]  # much cheaper, with half of the digits
        return np.sqrt(np.where(values > len(A) * UNIT * values.max(initial=0.0), values, 0.0))

    @property
    def singular_(self) -> Float:
        """Singular values of the centred and weighted samples."""
        check_is_fitted(self)
        if self._singular is None:
            raise AttributeError("singular_ and rank_ are only available for dense samples in memory.")
        if self._singular.ndim == 2:
            return np.asarray(svdvals(np.tril(self._singular)) / np.sqrt(2.0))  # of weights that are doubled
        return self._singular

    @property
    def rank_(self) -> int:
        """Number of singular values that are not zero but for rounding."""
        largest = float(self.singular_.max(initial=0.0))
        return int(np.count_nonzero(self.singular_ > UNIT * largest))
