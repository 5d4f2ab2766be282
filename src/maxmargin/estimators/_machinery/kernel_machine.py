"""What all kernel machines share: parameters, how samples are seen, support vectors and scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import Reading, intercepts_of_losses, solve_kernel_machine
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE, CertifiedEstimator
from maxmargin.estimators._machinery.kernels import KERNEL_NAMES, KernelView, bandwidth, kernel_scores
from maxmargin.estimators._machinery.names import Approximation, Bandwidth, KernelName
from maxmargin.estimators._machinery.nystroem import NystroemView, among_all, check_approximation
from maxmargin.estimators._machinery.partition import Partition
from maxmargin.estimators._machinery.plan import Function, Plan, RowsView, View, regression_tasks
from maxmargin.estimators._machinery.results import AtOnce, Results, support_of
from maxmargin.estimators._machinery.training import Training
from maxmargin.estimators._machinery.typed import RegressorMixin
from maxmargin.estimators._machinery.updates import added, removed
from maxmargin.loop.at_once import Found
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.precise import linear_coefficients
from maxmargin.operators.rows import Sparse, is_sparse
from maxmargin.problems.problem import Problem
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Array, Float, Loss
from maxmargin.solvers.choice import AnyProblem
from maxmargin.threads import workers_for

APPROXIMATION_CONSTRAINTS: dict[str, list[object]] = {
    "approximation": [StrOptions({"nystroem"}), None],
    "rank": [Interval(Integral, 1, None, closed="left")],
}
KERNEL_CONSTRAINTS: dict[str, list[object]] = {
    **FIT_CONSTRAINTS,
    "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "shrinking": ["boolean"],
    "cache_size": [POSITIVE],
    "n_jobs": [Integral, None],
}


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachine(CertifiedEstimator):
    """An estimator whose functions are expansions over support vectors."""

    tol: float = 1e-4
    kernel: KernelName | Callable[..., Array] = "rbf"
    degree: int = 3
    gamma: Bandwidth | float = "scale"
    coef0: float = 0.0
    shrinking: bool = True
    cache_size: float = 1000

    _has_form_of_rows: ClassVar[bool] = True  # whether its problem can be posed without a kernel, if that is linear
    _has_form_of_losses: ClassVar[bool] = True  # whether its problem is a sum of losses, and not a program
    _leaves_out_negative_weights: ClassVar[bool] = True
    approximation: Approximation | None = field(default=None, init=False)  # of machines that have none
    rank: int = field(default=500, init=False)

    def _views(self, plan: Plan) -> Sequence[View]:
        """Through the kernel; if it is linear, as rows of features where a problem can be posed so."""
        if self.kernel == "precomputed":
            check.check_kernel_matrix(plan.X)
        self._gamma = bandwidth(self, plan.X, plan.weights)
        if self.kernel == "poly":
            check.check_polynomial(self.degree, self._gamma, self.coef0, plan.X)
        if self._is_approximated:
            check_approximation(self, plan.X.shape[0])
            return [NystroemView(self, plan.X, plan.workers)]
        kernel = KernelView(self, plan.X, plan.tasks, plan.workers)
        as_rows = self._has_form_of_rows and self.kernel == "linear"
        return [RowsView(plan.X), kernel] if as_rows else [kernel]

    @property
    def _is_approximated(self) -> bool:
        """Whether functions are combinations of some columns of the kernel."""
        return self.approximation is not None

    def _proven(self, problem: AnyProblem, solution: Solution) -> Solution:
        if self._is_approximated and isinstance(problem, Problem):
            return among_all(problem, solution)
        return solution

    def _at_once(self, plan: Plan) -> Callable[[], AtOnce | None] | None:
        programs = None if self._is_approximated else self._programs(plan)
        return None if programs is None else partial(solve_kernel_machine, self, plan, programs)

    def _loss(self) -> Loss:
        """That of a machine whose problem is a sum of losses."""
        raise NotImplementedError

    def _programs(self, plan: Plan) -> Programs | None:
        """All tasks as quadratic programs in one piece; ``None`` if they are not of that form."""
        return None

    def _reading(self, found: Found) -> Reading | None:
        """What the multipliers of solved programs stand for; ``None`` if that has no meaning."""
        return intercepts_of_losses(self, found)

    def _hints(self) -> Mapping[str, object]:
        return {**super()._hints(), "tol": self.tol, "max_memory": self.cache_size}

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        """The function that was certified. Over a kernel its expansion is ``w``: the dual point may be another one."""
        point = solution.point
        of_rows = isinstance(problem, Problem) and not problem.kernelised and not self._is_approximated
        return Function(point.w, point.b, point.alpha if of_rows else point.w)

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: ``support_, support_vectors_, dual_coef_, intercept_, shape_fit_``, certificates, and ``coef_``.

        Also ``_training``, which is not stored.
        """
        X = plan.X
        expansions, count = solved.expansions(plan.tasks, X.shape[0]), self._class_count
        self.support_, counts, self.__dict__["dual_coef_"] = support_of(expansions, plan.codes, count)
        if count > 1:
            self._n_support = counts
        empty = np.empty((0, 0), dtype=X.dtype)
        self.support_vectors_ = empty if self.kernel == "precomputed" else X[self.support_]
        self.intercept_ = solved.intercepts
        self.shape_fit_ = X.shape
        if self.kernel == "linear":
            # Of rows, the coefficients that were certified: before the optimum they are not the sum over the samples.
            self._coef = solved.coefficients if solved.of_features else self._summed(plan, solved)
        self._training = Training.of(plan)
        solved.keep(self)
        self.fit_status_ = int(not self.duality_gap_ <= self.tol)

    def _summed(self, plan: Plan, solved: Results) -> Float:
        """Coefficients of the features from expansions over rows, which may be far from zero and cancel.

        The expansion that was certified is summed, and the sum divided: to divide its terms would round each of them.
        """
        expansions, margins = solved.undivided(plan.tasks, plan.X.shape[0])
        return linear_coefficients(self.support_vectors_, expansions[:, self.support_]) / margins

    def _keep_certificates(self, solutions: list[Solution]) -> None:
        super()._keep_certificates(solutions)
        self.fit_status_ = int(not self.duality_gap_ <= self.tol)

    def _expansions(self) -> Float:
        """Coefficients of the support vectors in each problem."""
        return self._dual_coef

    @property
    def _dual_coef(self) -> Float:
        """The same in the layout of `dual_coef_`, as an array."""
        return np.asarray(vars(self)["dual_coef_"])

    @property
    def dual_coef_(self) -> Float | Sparse:
        """Coefficients of the support vectors; a sparse matrix if these are one, as in scikit-learn."""
        if "dual_coef_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no dual_coef_ before it is fitted.")
        return self._like_samples(self._dual_coef)

    @dual_coef_.setter
    def dual_coef_(self, value: Float | Sparse) -> None:
        """Set the coefficients, an array or a sparse matrix."""
        self.__dict__["dual_coef_"] = value.toarray() if is_sparse(value) else value

    def _like_samples(self, coefficients: Float) -> Float | Sparse:
        """A sparse matrix of the same type if the support vectors are one; else the array."""
        vectors = self.support_vectors_
        return type(vectors)(coefficients) if is_sparse(vectors) else coefficients

    def _scores(self, X: Matrix | ChunkedMatrix) -> Float:
        """One column per problem."""
        assert not isinstance(X, ChunkedMatrix)  # it is refused where samples are checked
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused
            scores = X @ self._coef.T if self.kernel == "linear" else self._kernel_sums(X)
            return check.finite_scores(X, np.asarray(scores, dtype=np.float64) + self.intercept_)

    def _kernel_sums(self, X: Matrix) -> Float:
        """The scores without the intercepts."""
        return kernel_scores(self, X, self._expansions())

    def add(self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from more samples: the same model as a fit to all of them, with a new certificate.

        The fit starts from the present solution and ends exactly (``solver="active_set"``). What the parameters said
        in terms of the samples, such as ``gamma="scale"``, stays as it was. The training samples are remembered for
        this, by reference: they must not be changed in place.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_new, n_features)
            New samples, or for ``kernel="precomputed"`` their kernel values with the training samples and each other.
        y : array-like of shape (n_new,)
            Their labels or targets; none for `OneClassSVM`.
        sample_weight : array-like of shape (n_new,), default=None
            Their weights.

        Returns
        -------
        self : estimator

        """
        self._warn(added(self, X, y, sample_weight))
        return self

    def remove(self, indices: ArrayLike) -> Self:
        """Forget samples: the same model as a fit to the others, with a new certificate. See `add`.

        Parameters
        ----------
        indices : array-like of int
            Which samples, by their present numbers; the others move up.

        Returns
        -------
        self : estimator

        """
        self._warn(removed(self, indices))
        return self

    def _warn(self, notes: Sequence[str]) -> None:
        for note in notes:
            warnings.warn(note, ConvergenceWarning, stacklevel=3)

    @property
    def partition_(self) -> Partition | list[Partition]:
        """Which samples are support vectors on the margin, which have the largest coefficient they may, which none.

        A `Partition`; a list with one for each problem if there are several.
        """
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no partition_ before it is fitted.")
        if "_training" not in vars(self):
            raise AttributeError(
                "partition_ needs the bounds of the training samples, which are not stored with a model; fit it again."
            )
        parts = []
        for task, solution in zip(self._training.tasks, self.solutions_, strict=True):
            assert solution.point.alpha is not None
            alpha = solution.point.alpha.reshape(-1, task.members.size).sum(axis=0)  # of a tube, both of its sides
            parts.append(Partition.of(task.members, alpha, task.s if self._bounded else np.full(alpha.size, np.inf)))
        return parts if len(parts) > 1 else parts[0]

    @property
    def _bounded(self) -> bool:
        """Whether the weight of a sample bounds its dual variable: not that of squared losses, or of a hard margin."""
        return not str(getattr(self, "loss", "")).startswith("squared")

    @property
    def coef_(self) -> Float | Sparse:
        """Coefficients of the features, one row per problem; for the linear kernel only. They cannot be set."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with the linear kernel; the others have dual_coef_.")
        check_is_fitted(self)
        coefficients = self._coef.view()
        coefficients.flags.writeable = False
        return self._like_samples(coefficients)

    @property
    def n_support_(self) -> Array:
        """Number of support vectors (of each class, if there are classes)."""
        check_is_fitted(self)
        return np.array([self.support_.size], dtype=np.int32)

    @property
    def _class_count(self) -> int:
        """How many classes there are; one if samples have none."""
        return 1


class KernelRegressor(RegressorMixin, KernelMachine):
    """A kernel machine whose scores are the predictions."""

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        weights = check.check_sample_weight(self, X, sample_weight)
        codes = np.zeros(weights.size, dtype=np.int64)
        tasks = regression_tasks(check.check_targets(self, y), check.weight_of_losses(self) * weights)
        return Plan(X, y, tasks, weights, codes, workers_for(self.n_jobs))
