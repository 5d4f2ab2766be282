"""What the estimators of least squares share: one or several targets, strengths of the penalty, bounds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.advice import notes_on_convergence
from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS
from maxmargin.estimators._machinery.linear import LinearMachine
from maxmargin.estimators._machinery.plan import ColumnsView, Function, Plan, RowsView, Task, View
from maxmargin.estimators._machinery.recognise import (
    Constraints,
    plain_columns,
    plain_rows,
    plain_targets,
    validate_parameters,
)
from maxmargin.estimators._machinery.results import Results, Solved
from maxmargin.estimators._machinery.typed import RegressorMixin
from maxmargin.loop.few import are_few, few_solutions
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import LARGEST_VALUE
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2, Bounded, Unpenalised
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Features, Float, Intercept, Operator, Penalty
from maxmargin.solvers import SVD, Cholesky, ConjugateGradients
from maxmargin.solvers.choice import CORRECTIONS, AnyProblem, Choice
from maxmargin.threads import workers_for

LONGER, ATTEMPTS = 4.0, 8  # times what was needed, if that is near the end
REACH = 10.0  # times what one column alone would need, at most, to explain all targets
LEAST_SQUARES_CONSTRAINTS: Constraints = {
    **FIT_CONSTRAINTS,
    "max_iter": [Interval(Integral, -1, None, closed="left"), None],
    "fit_intercept": ["boolean"],
    "copy_X": ["boolean"],
    "positive": ["boolean"],
    "bounds": [tuple, list, None],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}
# Names of scikit-learn, and what they stand for here: for the same purpose, and with the same certificate.
SOLVERS_OF_SCIKIT_LEARN = {
    **dict.fromkeys(("lsqr", "sparse_cg", "sag", "saga"), ConjugateGradients.name),
    "lbfgs": "auto",
}


@dataclass(kw_only=True, eq=False, repr=False)
class LeastSquares(LinearMachine):
    """A linear estimator of least squares, of one target or of several at once."""

    max_iter: int | None = None
    copy_X: bool = True
    positive: bool = False
    bounds: tuple[ArrayLike, ArrayLike] | None = None

    _several_targets = True

    def _choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        """The solver, under our name or scikit-learn's."""
        own = SOLVERS_OF_SCIKIT_LEARN.get(self.solver)
        if own == "auto":
            return self._automatic_choice(problem, clients)
        if own is not None:
            return Choice(own, f"it has the place of scikit-learn's solver={self.solver!r}")
        if self.solver == Cholesky.name:  # of columns that depend on each other there is no factor
            return Choice(Cholesky.name, f"solver={self.solver!r} was asked for", ((SVD.name, CORRECTIONS),))
        return super()._choice(problem, clients)

    def _views(self, plan: Plan) -> Sequence[View]:
        """As rows, then as columns; the other way round where coefficients have bounds."""
        if isinstance(plan.X, ChunkedMatrix):
            return [RowsView(plan.X, plan.workers)]
        views: list[View] = [RowsView(plan.X, plan.workers), ColumnsView(plan.X, plan.workers)]
        return views if self._limits(plan.X.shape[1]) is None else views[::-1]

    def _least_squares(self, operator: Operator, y: Float, s: Float, alpha: float, intercept: Intercept) -> Problem:
        """``sum_i s_i/2 (x_i.w + b - y_i)^2 + alpha |w|^2``; without a penalty among coefficients within some reach."""
        features: Any = operator
        if alpha > 0.0:
            limits = self._limits(features.n_features)
            penalty: Penalty = L2(2.0 * alpha) if limits is None else Bounded(2.0 * alpha, 0.0, *limits)
        else:
            penalty = self._unpenalised(reach_of(features, y, intercept))
        return Problem(operator, y, Squared(), penalty, s, intercept)

    def _unpenalised(self, reach: Float) -> Bounded | Unpenalised:
        """No penalty for coefficients within their reach, and within the limits of the user."""
        limits = self._limits(reach.size)
        if limits is None:
            return Unpenalised(reach)
        return Bounded(0.0, 0.0, np.maximum(limits[0], -reach), np.minimum(limits[1], reach))

    def _longer(self, penalty: Penalty, w: Float) -> Bounded | Unpenalised | None:
        """The same with a longer reach, if there is no penalty and coefficients are near the end of theirs."""
        sizes = np.abs(w)
        if isinstance(penalty, Unpenalised):
            beyond = bool((2.0 * sizes > penalty.reach).any())
            return Unpenalised(np.maximum(penalty.reach, LONGER * sizes)) if beyond else None
        if not isinstance(penalty, Bounded) or penalty.lam > 0.0:
            return None
        low, high = self._limits(w.size) or (penalty.low, penalty.high)
        near = ((2.0 * w > penalty.high) & (penalty.high < high)) | ((2.0 * w < penalty.low) & (penalty.low > low))
        if not near.any():
            return None
        reach = np.maximum(np.maximum(penalty.high, -penalty.low), LONGER * sizes)
        return self._unpenalised(reach)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        """What a solution stands for. Notes those that are near the end of their reach. Sets: ``_short``."""
        latest = solution.last or solution.point
        assert isinstance(problem, Problem)
        if problem.lam == 0.0 and self._longer(problem.penalty, latest.w) is not None:
            self.__dict__.setdefault("_short", {})[id(solution)] = problem
        return super()._function(problem, solution)

    def _within_reach(self, plan: Plan, solved: Sequence[Solved]) -> Sequence[Solved]:
        """The solutions, posed again with a longer reach where coefficients are near the end of it."""
        short: dict[int, Problem] = self.__dict__.pop("_short", {})
        if not short:
            return solved
        return [self._reached(plan, short.get(id(one.solution)), one) for one in solved]

    def _reached(self, plan: Plan, problem: Problem | None, one: Solved) -> Solved:
        """One solution, from where it was, until it is well within its reach."""
        for _ in range(ATTEMPTS):
            latest = one.solution.last or one.solution.point
            longer = None if problem is None else self._longer(problem.penalty, latest.w)
            if problem is None or longer is None:
                break
            problem = replace(problem, penalty=longer)
            solution = minimize(problem, plan.solver, tol=self.tol, max_time=self.max_time, warm=latest)
            one = Solved(solution, super()._function(problem, solution))
        return one

    def _keep_functions(self, plan: Plan, solved: Sequence[Solved]) -> None:
        """Sets: ``coef_`` with a row for each target, ``intercept_``, and what is known of the quality of the fit."""
        solved = self._within_reach(plan, solved)
        self.coef_ = np.array([one.function.w for one in solved])
        self.intercept_: Any = np.array([one.function.b for one in solved])
        self._keep_certificates([one.solution for one in solved])


class LeastSquaresRegressor(MultiOutputMixin, RegressorMixin, LeastSquares):
    """A linear estimator of least squares whose scores are the predictions."""

    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> LeastSquaresRegressor:
        """Fit the model to all samples and certify it.

        Parameters
        ----------
        X : array-like, sparse matrix or ChunkedMatrix of shape (n_samples, n_features)
            Samples; those of `maxmargin.io.open_chunks` need not fit into memory.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight of each sample's error: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        if sample_weight is None and self._fit_at_once(X, y):
            return self
        return self._fit(X, y, sample_weight)

    def _fit_at_once(self, X: Any, y: Any) -> bool:
        """Fit samples that need no conversion without the frame of a fit; whatever else there is, leave alone.

        Sets: all attributes of a fit, or none.
        """
        own = vars(self)
        if self.solver != "auto" or self.verbose or self.max_time is not None or own.get("warm_start"):
            return False
        if self.callback is not None or "_skl_callbacks" in own or "_parent_callback_ctx" in own or self.max_iter == 0:
            return False
        samples: Any = plain_rows(X) if are_few(X) else plain_columns(X) if self._by_columns else None
        if samples is None or (targets := plain_targets(y, samples.shape[0])) is None:
            return False
        validate_parameters(self)
        self._refuse_contradictions()
        numbers = targets.astype(np.float64, copy=False)
        solution = self._solved_at_once(samples, numbers)
        if solution is None:
            return False
        self.n_features_in_ = samples.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        self._keep_one(solution)
        for note in notes_on_convergence(self, samples):
            warnings.warn(note, ConvergenceWarning, stacklevel=4)
        return True

    def _solved_at_once(self, X: Any, y: Float) -> Solution | None:
        """The solution for few dense samples, by one compiled call, if it is within the tolerance."""
        terms = self._few_terms(*X.shape) if are_few(X) else None
        if terms is None:
            return None
        alpha, ratio, limits, weight = terms
        s, free = np.full(len(y), weight), bool(self.fit_intercept)
        found = few_solutions(X, y, s, free, np.array([alpha]), ratio, limits, float(self.tol))
        if found is None:
            return None
        self._factor = found.factor
        return found.solution(0)

    def _few_terms(self, n: int, d: int) -> tuple[float, float, tuple[Float, Float] | None, float] | None:
        """Strength, share of the L1 norm, limits and the weight of each sample, for few samples; or ``None``."""
        return None

    def _keep_one(self, solution: Solution) -> None:
        """Sets: the fitted attributes, for one target."""
        self.coef_, self.intercept_ = solution.point.w.copy(), np.float64(solution.point.b)
        self._keep_certificates([solution])
        self.__dict__.pop("_factor", None)

    def _decoded(self, scores: Float) -> Float:
        return scores if np.ndim(self.coef_) > 1 else scores[:, 0]

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for each target; all share the weights."""
        weights = check.check_sample_weight(self, X, sample_weight)
        s, members = 2.0 * weights, np.arange(weights.size)
        columns = np.atleast_2d(check.check_targets(self, y).T)
        names = ["regression"] if y.ndim == 1 else [f"target {k}" for k in range(len(columns))]
        tasks = [Task(name, members, np.ascontiguousarray(t), s) for name, t in zip(names, columns, strict=True)]
        return Plan(X, y, tasks, weights, np.zeros(weights.size, dtype=np.int64), workers_for(self.n_jobs))

    def _keep(self, plan: Plan, solved: Results) -> None:
        self._keep_functions(plan, solved)
        if plan.y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]


def reach_of(features: Features, y: Float, intercept: Intercept) -> Float:
    """How large the coefficients may be among which an unpenalised fit is certified.

    One column alone would need ``|y| / |x_j|`` to explain all targets. Of centred data, if the intercept is free.
    """
    communicator, n = getattr(features, "communicator", None), features.total_samples
    own = np.array([float(y @ y), float(y.sum())])
    square, total = own if communicator is None else communicator.allreduce(own)
    lengths = features.column_lengths()
    if intercept is not None and n > 0:
        square = max(square - total * total / n, 0.0)
        means = features.adjoint(np.ones(y.size)) / n
        centred = np.sqrt(np.maximum(lengths**2 - n * means**2, 0.0))
        lengths = np.maximum(centred, 1e-6 * lengths)
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(REACH * np.sqrt(square) / lengths, LARGEST_VALUE))


def strengths_of(alpha: Any, n_targets: int) -> Float:
    """The strength of the penalty for each target: one number for all, or one for each."""
    values = np.asarray(alpha, dtype=np.float64)
    if values.ndim > 1 or values.size not in (1, n_targets):
        raise ValueError(
            f"alpha must be one number, or one for each of the {n_targets} targets; got an array of shape "
            f"{values.shape}. Number of targets and number of penalties do not correspond: {values.size} != {n_targets}"
        )
    if not ((values >= 0.0) & (values <= LARGEST_VALUE)).all():
        raise ValueError(f"alpha must be a number from 0 to {LARGEST_VALUE:.0e}; got {alpha!r}.")
    return np.broadcast_to(values.ravel(), (n_targets,)) if values.size == 1 else values


ALPHA_CONSTRAINT: list[object] = [Interval(Real, 0, None, closed="left"), np.ndarray, list, tuple]
