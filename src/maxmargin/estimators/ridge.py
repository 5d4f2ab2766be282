"""Ridge regression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.advice import notes_on_convergence
from maxmargin.estimators._machinery.fit import all_or_nothing
from maxmargin.estimators._machinery.least_squares import (
    ALPHA_CONSTRAINT,
    LEAST_SQUARES_CONSTRAINTS,
    LeastSquaresRegressor,
    strengths_of,
)
from maxmargin.estimators._machinery.moments import Moments
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.estimators._machinery.recognise import validate_parameters
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators._machinery.typed import available_if
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import LARGEST_VALUE
from maxmargin.problems.point import Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Intercept, Operator


def _without_limits(model: Ridge) -> bool:
    """Whether sums over the samples are enough."""
    if model.positive or model.bounds is not None:
        raise AttributeError(
            "partial_fit is for coefficients without limits: leave positive and bounds at their defaults."
        )
    return True


def copied(arrays: dict[str, Float]) -> dict[str, Float]:
    """Copies, so that a call that fails leaves the model as it was."""
    return {name: array.copy() for name, array in arrays.items()}


@dataclass(eq=False, repr=False)
class Ridge(LeastSquaresRegressor):
    """Ridge regression.

    Minimises

    ``sum_i s_i (y_i - w.x_i - b)^2 + alpha |w|^2``

    where ``s_i`` is the sample weight, and proves how close it came: `duality_gap_`. The intercept has no penalty.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Strength of the penalty, one for all targets or one for each. With 0 the fit is that of `LinearRegression`.
    solver : str, default="auto"
        Name of a solver; what "auto" stands for depends on the samples: `explain_solver` says. "cholesky", "svd" and
        "conjugate_gradients" are for this problem; scikit-learn's "lsqr", "sparse_cg", "sag" and "saga" stand for the
        last of them, and its "lbfgs" for "auto".

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept.
    solver_ : str
        The solver that made the last steps.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; there is a solution for each target.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import Ridge
    >>> model = Ridge(alpha=0.1, tol=1e-8).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-8
    True

    """

    alpha: float | ArrayLike = 1.0

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **LEAST_SQUARES_CONSTRAINTS,
        "alpha": ALPHA_CONSTRAINT,
    }

    @available_if(_without_limits)
    def partial_fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Adapt the model to more samples: it is then that of all samples that were ever passed here.

        Only sums over the samples are kept, a matrix of the size of the features. They are enough for the best
        coefficients and for their certificate, which is about all samples; the result is that of `fit`, up to rounding.
        `fit` keeps no sums: after it, the first call begins anew, and warns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            More samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight of each sample's error.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        begins_anew = self.__sklearn_is_fitted__() and "_moments" not in vars(self)
        with all_or_nothing(self):
            self._adapt(X, y, sample_weight)
        if begins_anew:
            warnings.warn(
                "fit keeps no sums to go on from, so that partial_fit has begun anew, with these samples only: pass "
                "the samples of fit to partial_fit, too.",
                UserWarning,
                stacklevel=2,
            )
        for note in notes_on_convergence(self, np.empty((0, 0))):
            warnings.warn(note, ConvergenceWarning, stacklevel=2)
        return self

    def _adapt(self, X: MatrixLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        """Add to the sums, and solve. Sets: the fitted attributes."""
        began, kept = seconds_working(), vars(self).get("_moments")
        validate_parameters(self)
        X, y = check.check_training_data(self, X, y, reset=kept is None)
        X = check.refuse_chunks(X, "partial_fit", "call it with each of its chunks()")
        weights, targets = check.check_sample_weight(self, X, sample_weight), check.check_targets(self, y)
        Y = targets.reshape(len(targets), -1)
        moments = Moments.nothing(X.shape[1], Y.shape[1]) if kept is None else Moments(**copied(kept))
        if moments.q.size != Y.shape[1]:
            raise ValueError(f"y has {Y.shape[1]} targets, but earlier samples had {moments.q.size}.")
        alphas = strengths_of(self.alpha, Y.shape[1])
        if not (alphas > 0.0).all():
            raise ValueError("partial_fit needs a positive alpha, by which its certificate divides.")
        moments.add(X, Y, weights, self.fit_intercept)
        found = [moments.coefficients(alpha, k) for k, alpha in enumerate(alphas.tolist())]
        solutions = []
        for k, (alpha, (w, b)) in enumerate(zip(alphas.tolist(), found, strict=True)):
            certificate = moments.certificate(w, alpha, k)
            status = Status.CONVERGED if certificate.relative_gap <= self.tol else Status.STALLED
            solutions.append(
                Solution(Point(w, b), certificate, status, "moments", self.tol, 1, seconds_working() - began)
            )
        self.coef_, self.intercept_ = np.array([w for w, _ in found]), np.array([b for _, b in found])
        if targets.ndim == 1:
            self.intercept_ = self.intercept_[0]
        if len(found) == 1:
            self.coef_ = self.coef_[0]
        self._moments, self.solver_ = vars(moments), "moments"
        self._keep_certificates(solutions)

    def _few_terms(self, n: int, d: int) -> tuple[float, float, tuple[Float, Float] | None, float] | None:
        if self.positive or self.bounds is not None or not isinstance(self.alpha, (float, int)):
            return None
        if not 0.0 <= self.alpha <= LARGEST_VALUE:
            return None
        return 2.0 * float(self.alpha), 0.0, None, 2.0

    def _keep_one(self, solution: Solution) -> None:
        super()._keep_one(solution)
        self.__dict__.pop("_moments", None)
        self.solver_ = solution.solver

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        plan = super()._divide(X, y, sample_weight)
        self._alphas = strengths_of(self.alpha, len(plan.tasks))
        return plan

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises for one target."""
        k = next(k for k, one in enumerate(plan.tasks) if one is task)
        intercept: Intercept = "free" if self.fit_intercept else None
        return self._least_squares(operator, task.y, task.s, float(self._alphas[k]), intercept)

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        del self._alphas
        self.__dict__.pop("_moments", None)
        if self.coef_.ndim == 2 and len(self.coef_) == 1:
            self.coef_ = self.coef_[0]  # as in scikit-learn
        self.solver_ = self.solution_.solver
