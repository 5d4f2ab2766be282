"""The one-class support vector machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import Reading, of_sums
from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.estimator import NU_CONSTRAINT
from maxmargin.estimators._machinery.kernel_machine import KERNEL_CONSTRAINTS, KernelMachine
from maxmargin.estimators._machinery.plan import Function, Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import multipliers, one_class
from maxmargin.loop.at_once import Found
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Gram, Matrix, MatrixLike
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Array, Float, Operator
from maxmargin.solvers.choice import AnyProblem
from maxmargin.threads import workers_for

ON_THE_EDGE = 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassSVM(OutlierMixin, KernelMachine):
    """One-class support vector machine: a region that holds most of the samples.

    Minimises

    ``1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - f(x_i))``

    over functions ``f`` of the kernel's space and the threshold ``rho``, where ``s_i`` is the sample weight and ``S``
    their sum. By weight, at most the fraction `nu` of the samples is outside (``f < rho``), and at least that fraction
    are support vectors. The dual value is ``-|f|^2 / 2``.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: upper bound on the fraction of outliers, lower bound on that of support vectors.
    solver : str, default="auto"
        Name of a solver; "auto" is "decomposition".

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, offset_, n_iter_, fit_status_, shape_fit_, \
n_features_in_, feature_names_in_
        As in scikit-learn; `offset_` is ``rho`` and `intercept_` is ``-rho``.
    coef_ : ndarray of shape (1, n_features)
        Coefficients, for the linear kernel only.
    partition_ : Partition
        The samples whose dual variable is zero, free and at its bound.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; the solution is that of the quadratic program.

    Examples
    --------
    >>> from maxmargin import OneClassSVM
    >>> model = OneClassSVM(gamma="auto").fit([[0], [0.44], [0.45], [0.46], [1]])
    >>> model.predict([[0], [0.44], [0.45], [0.46], [1]])
    array([-1,  1,  1,  1, -1])

    """

    nu: float = 0.5

    _has_form_of_rows = False
    _has_form_of_losses = False
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {**KERNEL_CONSTRAINTS, "nu": NU_CONSTRAINT}

    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> OneClassSVM:
        """Fit the model and certify it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` the kernel matrix.
        y : ignored
            For the sake of pipelines.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : OneClassSVM
            The fitted estimator.

        """
        return self._fit(X, None, sample_weight)

    def score_samples(self, X: MatrixLike) -> Float:
        """Values of the function, before the threshold is subtracted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The larger, the more like the training samples.

        """
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: MatrixLike) -> Float:
        """Values of the function minus the threshold: negative for outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores.

        """
        check_is_fitted(self)
        return self._scores(check.check_prediction_data(self, X))[:, 0]

    def _decoded(self, scores: Float) -> Array:
        """1 for samples inside, -1 for outliers."""
        return np.where(scores[:, 0] >= 0.0, 1, -1)

    @property
    def offset_(self) -> Float:
        """The threshold, ``-intercept_``."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("OneClassSVM has no offset_ before it is fitted.")
        return -self.intercept_

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        weights = check.check_sample_weight(self, X, sample_weight)
        n = weights.size
        tasks = Tasks.alone("one class", np.ones(n), weights)
        return Plan(X, None, tasks, weights, np.zeros(n, dtype=np.int64), workers_for(self.n_jobs))

    def _programs(self, plan: Plan) -> Programs:
        tasks = plan.tasks
        assert isinstance(tasks, Tasks)
        n, total = tasks.s.size, self.nu * float(tasks.s.sum())
        return of_sums(tasks, np.zeros(n), tasks.s, np.zeros(n, dtype=np.int64), np.array([[total]]))

    def _reading(self, found: Found) -> Reading:
        b = found.multipliers[:, 0]
        return Reading(b + ON_THE_EDGE * np.abs(b), np.ones(1))

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> BoxQP:
        assert isinstance(operator, Gram)
        return one_class(operator, task.s, self.nu)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        """The expansion over the samples and minus the threshold, which is lowered by a rounding error.

        The support vectors that define the threshold lie on it; so they count as inside, whatever order they are in.
        """
        b = float(multipliers(problem, solution.point)[0])
        return Function(solution.point.w, b + ON_THE_EDGE * abs(b), solution.point.w)
