"""Kernel ridge regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.estimator import POSITIVE, CertifiedEstimator
from maxmargin.estimators._machinery.kernel_machine import KERNEL_CONSTRAINTS
from maxmargin.estimators._machinery.kernels import (
    KERNEL_NAMES,
    KernelView,
    bandwidth,
    kernel_scores,
    training_operator,
)
from maxmargin.estimators._machinery.least_squares import ALPHA_CONSTRAINT, strengths_of
from maxmargin.estimators._machinery.names import KernelName
from maxmargin.estimators._machinery.plan import Function, Plan, Task, View
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators._machinery.typed import RegressorMixin
from maxmargin.loop.solution import Solution
from maxmargin.operators import CallableGram, ChunkedMatrix, Gram, Matrix
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index, Operator
from maxmargin.solvers.choice import AnyProblem
from maxmargin.threads import workers_for


@dataclass(eq=False, repr=False)
class KernelRidge(MultiOutputMixin, RegressorMixin, CertifiedEstimator):
    """Kernel ridge regression.

    Minimises

    ``sum_i s_i (y_i - f(x_i))^2 + alpha |f|^2``

    over functions ``f`` of the kernel's space, without an intercept, where ``s_i`` is the sample weight, and proves how
    close it came: `duality_gap_`.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1
        Strength of the penalty, one for all targets or one for each; positive.
    kernel : str or callable, default="linear"
        "linear", "rbf", "poly" (or "polynomial"), "sigmoid", "laplacian" or "precomputed". A callable receives two
        samples and returns their kernel value, as in scikit-learn.
    gamma : float, "scale", "auto" or None, default=None
        Of the kernels "rbf", "poly", "sigmoid" and "laplacian"; None and "auto" are ``1 / n_features``, "scale" is that
        of `SVR`.
    kernel_params : dict, default=None
        Keywords for a callable kernel.
    solver : str, default="auto"
        Name of a solver: "kernel_cholesky" solves the linear equations, "kernel_coordinate" is dual coordinate ascent,
        and others know the squared loss too; `explain_solver` says what "auto" stands for.
    cache_size : float, default=1000
        Megabytes for kernel rows, at most, of solvers that do not store the whole matrix.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Coefficients of the samples.
    X_fit_ : ndarray or sparse matrix of shape (n_samples, n_features)
        The samples of the fit, or the precomputed kernel matrix.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; there is a solution for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import KernelRidge
    >>> model = KernelRidge(kernel="rbf", gamma=10.0, alpha=0.1).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True

    """

    alpha: float | ArrayLike = 1
    _: KW_ONLY
    kernel: KernelName | Literal["polynomial"] | Callable[..., float] = "linear"
    gamma: float | str | None = None
    degree: int = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    tol: float = 1e-6
    cache_size: float = 1000

    _several_targets = True
    _parameter_constraints: ClassVar[Constraints] = {
        **{name: rule for name, rule in KERNEL_CONSTRAINTS.items() if name != "shrinking"},
        "alpha": ALPHA_CONSTRAINT,
        "kernel": [StrOptions({*KERNEL_NAMES, "polynomial"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), POSITIVE, None],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
    }

    def _scores(self, X: Matrix | ChunkedMatrix) -> Float:
        assert not isinstance(X, ChunkedMatrix)  # it is refused where samples are checked
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused
            return check.finite_scores(X, kernel_scores(cast("Any", self._machine()), X, self._rows()))

    def _decoded(self, scores: Float) -> Float:
        return scores if self.dual_coef_.ndim == 2 else scores[:, 0]

    def _refuse_contradictions(self) -> None:
        if self.kernel_params and not callable(self.kernel):
            raise ValueError(
                "kernel_params are the keywords of a callable kernel; the others have gamma, degree, coef0."
            )

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for each target; all share the weights."""
        weights = check.check_sample_weight(self, X, sample_weight)
        s, members = 2.0 * weights, np.arange(weights.size)
        columns = np.atleast_2d(check.check_targets(self, y).T)
        self._alphas = strengths_of(self.alpha, len(columns))
        if not (self._alphas > 0.0).all():
            raise ValueError(
                "alpha must be positive: without a penalty, functions of a kernel's space go through all samples; use "
                "a small alpha, such as 1e-10."
            )
        tasks = [Task(f"target {k}", members, np.ascontiguousarray(t), s) for k, t in enumerate(columns)]
        return Plan(X, y, tasks, weights, np.zeros(weights.size, dtype=np.int64), workers_for(self.n_jobs))

    def _views(self, plan: Plan) -> Sequence[View]:
        """Through the kernel."""
        if self.kernel == "precomputed":
            check.check_kernel_matrix(plan.X)
        gamma = "auto" if self.gamma is None else self.gamma
        seen: Any = _Machine(
            self._kind, gamma, int(self.degree), float(self.coef0), self.n_jobs, float(self.cache_size)
        )
        self._gamma = seen._gamma = bandwidth(seen, plan.X, plan.weights)
        if self._kind == "poly":
            check.check_polynomial(self.degree, self._gamma, self.coef0, plan.X)
        return [KernelView(seen, plan.X, plan.tasks, plan.workers)]

    def _hints(self) -> Mapping[str, object]:
        return {**super()._hints(), "tol": self.tol, "max_memory": self.cache_size}

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises for one target."""
        k = next(k for k, one in enumerate(plan.tasks) if one is task)
        return Problem(operator, task.y, Squared(), L2(2.0 * float(self._alphas[k])), task.s, None)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        return Function(solution.point.w, 0.0, solution.point.w)

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: ``dual_coef_, X_fit_`` and what is known about the quality of the fit."""
        expansions = np.array([one.function.w for one in solved])
        self.dual_coef_ = expansions[0] if plan.y.ndim == 1 else np.ascontiguousarray(expansions.T)
        self.X_fit_ = plan.X
        del self._alphas
        self._keep_certificates([one.solution for one in solved])

    def _kernel_matrix(self, X: Matrix) -> Gram:
        """The kernel matrix of samples, as certificates see it."""
        return gram_of_kernel_ridge(self, X)

    def _rows(self) -> Float:
        """The expansions, a row for each target."""
        return np.ascontiguousarray(np.atleast_2d(self.dual_coef_.T))

    @property
    def _kind(self) -> Any:
        """The kernel as other machines name it; a callable for two matrices of samples."""
        if callable(self.kernel):
            return partial(_of_pairs, pair=self.kernel, keywords=self.kernel_params or {})
        return "poly" if self.kernel == "polynomial" else self.kernel

    def _machine(self) -> _Machine:
        """The fitted model as the functions of kernel machines see it: all samples are support vectors."""
        machine = _Machine(self._kind, "auto", int(self.degree), float(self.coef0), self.n_jobs, float(self.cache_size))
        machine._gamma, machine.support_vectors_ = self._gamma, self.X_fit_
        machine.support_, machine.rows = np.arange(self.dual_coef_.shape[0]), self._rows()
        return machine


class _Machine:
    """The parameters of a kernel as kernel machines have them, and what they know when they are fitted."""

    def __init__(
        self, kernel: Any, gamma: float | str, degree: int, coef0: float, n_jobs: int | None, cache_size: float
    ) -> None:
        self.kernel, self.gamma, self.degree, self.coef0 = kernel, gamma, degree, coef0
        self.n_jobs, self.cache_size = n_jobs, cache_size
        self._gamma = 0.0
        self.support_: Index = np.empty(0, dtype=np.int64)
        self.support_vectors_: Any = None
        self.rows = np.empty((0, 0))

    def _expansions(self) -> Float:
        """Coefficients of the support vectors in each problem."""
        return self.rows


def _of_pairs(A: Matrix, B: Matrix, pair: Callable[..., float], keywords: dict[str, Any]) -> Float:
    """The values of a kernel that takes two samples, for all pairs, not rounded to the type of the samples."""
    same, A = A is B, A.astype(np.float64, copy=False)
    B = A if same else B.astype(np.float64, copy=False)
    return np.asarray(pairwise_kernels(A, B, metric=pair, **keywords), dtype=np.float64)


def gram_of_kernel_ridge(model: Any, X: Matrix) -> Gram:
    """The kernel matrix of the samples that a model was fitted on, ours or scikit-learn's."""
    kind, gamma = model.kernel, model.gamma
    if callable(kind):
        pair, keywords = kind, model.kernel_params or {}
        return CallableGram(partial(_of_pairs, pair=pair, keywords=keywords), X)
    if kind not in (*KERNEL_NAMES, "polynomial"):
        raise ValueError(f"certify judges KernelRidge with one of the kernels {', '.join(KERNEL_NAMES)}; got {kind!r}.")
    machine: Any = _Machine("poly" if kind == "polynomial" else kind, "auto", model.degree, model.coef0, None, 1000.0)
    known = getattr(model, "_gamma", gamma)
    machine._gamma = 1.0 / X.shape[1] if known is None else float(known)
    return training_operator(machine, X)
