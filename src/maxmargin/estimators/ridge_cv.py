"""Ridge regression whose strength is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import GridSearchCV
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery.check import refuse_chunks
from maxmargin.estimators._machinery.least_squares import (
    ALPHA_CONSTRAINT,
    LEAST_SQUARES_CONSTRAINTS,
    LeastSquaresRegressor,
    strengths_of,
)
from maxmargin.estimators._machinery.paths import checked_strengths
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators._machinery.spectrum import Spectrum
from maxmargin.estimators._machinery.typed import RegressorMixin
from maxmargin.estimators.ridge import Ridge
from maxmargin.operators import ChunkedMatrix, Matrix, Rows
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Intercept, Operator


@dataclass(eq=False, repr=False)
class RidgeCV(LeastSquaresRegressor):
    """Ridge regression whose strength is chosen by cross-validation.

    By default every sample is left out once, which takes no fit of its own: one decomposition of the samples tells
    the errors for all strengths. The model of the best strength is fitted to all samples and certified, as by `Ridge`.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Strengths to try; positive unless `cv` is given.
    fit_intercept : bool, default=True
        Whether there is an intercept, which has no penalty.
    scoring : str or callable, default=None
        What is to be large. None is minus the mean squared error if samples are left out one by one, the errors
        weighted as the samples are, and otherwise the coefficient of determination.
    cv : int, splitter or iterable, default=None
        None leaves out one sample at a time; anything else is for scikit-learn's ``GridSearchCV``.
    gcv_mode : {"auto", "svd", "eigen"}, default=None
        "svd" decomposes the samples; "eigen", as "auto" and None, the products of their features, or of the samples if
        these are fewer, which is faster.
    store_cv_results : bool, default=False
        Whether to keep the weighted squared errors of samples that are left out, or with `scoring` what is predicted.
    alpha_per_target : bool, default=False
        Whether each target has its own strength.
    tol : float, default=1e-4
        Relative duality gap at which the last fit stops.
    max_time : float, default=None
        Limit in seconds of the last fit; the best point so far is kept.
    verbose : int, default=0
        Whether to show a progress line of the last fit on standard error.
    callback : callable, default=None
        Called with a `Record` after every round of the last fit; a true value stops it.
    n_jobs : int, default=None
        Threads; None is as many as BLAS may use, -1 all processors. The result is the same bits for any number.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_targets,)
        The best strength.
    best_score_ : float or ndarray of shape (n_targets,)
        Its score.
    cv_results_ : ndarray of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        See `store_cv_results`.
    coef_, intercept_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, n_iter_
        Of the last fit, as in `Ridge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import RidgeCV
    >>> model = RidgeCV(alphas=[1e-3, 1e-2, 1e-1, 1]).fit(*load_diabetes(return_X_y=True))
    >>> model.alpha_, model.duality_gap_ <= 1e-4
    (0.01, True)

    """

    alphas: ArrayLike = (0.1, 1.0, 10.0)
    _: KW_ONLY
    scoring: str | Callable[..., float] | None = None
    cv: object = None
    gcv_mode: str | None = None
    store_cv_results: bool = False
    alpha_per_target: bool = False
    # What other models of least squares have is no parameter here.
    max_iter: int = field(default=-1, init=False)
    solver: str = field(default="auto", init=False)
    solver_options: None = field(default=None, init=False)
    warm_start: bool = field(default=False, init=False)
    random_state: None = field(default=None, init=False)
    copy_X: bool = field(default=True, init=False)
    positive: bool = field(default=False, init=False)
    bounds: None = field(default=None, init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        **{
            name: rule
            for name, rule in LEAST_SQUARES_CONSTRAINTS.items()
            if name in ("fit_intercept", "tol", "max_time", "verbose", "callback", "n_jobs")
        },
        "alphas": ALPHA_CONSTRAINT,
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "cv": ["cv_object"],
        "gcv_mode": [StrOptions({"auto", "svd", "eigen"}), None],
        "store_cv_results": ["boolean"],
        "alpha_per_target": ["boolean"],
    }
    _reads_chunks = False

    def _refuse_contradictions(self) -> None:
        if self.cv is not None and self.store_cv_results:
            raise ValueError(
                "cv!=None and store_cv_results=True are incompatible: only samples left out one by one are."
            )
        if self.cv is not None and self.alpha_per_target:
            raise ValueError("cv!=None and alpha_per_target=True are incompatible; leave cv at None.")

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for each target, and the strength of its penalty. Sets: ``alpha_, best_score_, cv_results_``."""
        plan = super()._divide(X, y, sample_weight)
        alphas = checked_strengths(self.alphas, positive=self.cv is None)
        if self.cv is not None:
            self._choose_by_search(X, y, sample_weight, alphas)
        else:
            self._choose_by_leaving_out(plan, alphas, sample_weight)
        self._alphas = strengths_of(self.alpha_, len(plan.tasks))
        return plan

    def _choose_by_search(self, X: Any, y: Array, sample_weight: ArrayLike | None, alphas: Float) -> None:
        model = Ridge(fit_intercept=self.fit_intercept, tol=self.tol, n_jobs=self.n_jobs)
        search = GridSearchCV(model, {"alpha": alphas.tolist()}, cv=self.cv, scoring=self.scoring, refit=False)
        given = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
        search.fit(X, y, **given)
        self.alpha_, self.best_score_ = search.best_params_["alpha"], float(search.best_score_)

    def _choose_by_leaving_out(self, plan: Plan, alphas: Float, sample_weight: ArrayLike | None) -> None:
        """Sets: ``alpha_, best_score_`` and perhaps ``cv_results_``."""
        rows = Rows(refuse_chunks(plan.X, "Leaving out samples", "use Ridge"), plan.workers)
        intercept: Intercept = "free" if self.fit_intercept else None
        Y = np.column_stack([task.y for task in plan.tasks])
        spectrum = Spectrum(
            Problem(rows, Y[:, 0], Squared(), L2(1.0), plan.weights, intercept), of_rows=self.gcv_mode == "svd"
        )
        T = Y - (plan.weights @ Y) / plan.weights.sum() if self.fit_intercept else Y
        scores, kept = [], []
        for alpha in alphas.tolist():
            errors = spectrum.left_out(T, alpha)
            shown, score = self._score_of(errors, Y, spectrum.root, sample_weight)
            scores.append(score)
            if self.store_cv_results:
                kept.append(shown[:, 0] if plan.y.ndim == 1 else shown)
        several = self.alpha_per_target and len(plan.tasks) > 1
        best = np.argmax(scores, axis=0)
        table = np.asarray(scores)
        self.alpha_ = alphas[best] if several else float(alphas[best])
        self.best_score_ = np.take_along_axis(table, best[None], 0)[0] if several else float(table[best])
        if self.store_cv_results:
            self.cv_results_ = np.stack(kept, axis=-1)

    @np.errstate(all="ignore")  # what is infinite is not chosen
    def _score_of(self, errors: Float, Y: Float, root: Float, sample_weight: ArrayLike | None) -> tuple[Float, Any]:
        """What is kept of errors of samples that were left out, and their score, one or one for each target."""
        per_target = self.alpha_per_target and Y.shape[1] > 1
        if self.scoring is None:
            squares = errors**2
            return squares, -squares.mean(axis=0) if per_target else float(-squares.mean())
        predicted = Y - np.where(root[:, None] > 0.0, errors / root[:, None], 0.0)
        scorer = check_scoring(self, scoring=self.scoring)
        given = {} if sample_weight is None else {"sample_weight": np.broadcast_to(sample_weight, len(Y))}
        if per_target:
            scores = [scorer(_Known(), predicted[:, k], Y[:, k], **given) for k in range(Y.shape[1])]
            return predicted, np.array(scores)
        one = Y.shape[1] == 1
        return predicted, float(scorer(_Known(), predicted[:, 0] if one else predicted, Y[:, 0] if one else Y, **given))

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the last fit minimises for one target."""
        k = next(k for k, one in enumerate(plan.tasks) if one is task)
        intercept: Intercept = "free" if self.fit_intercept else None
        return self._least_squares(operator, task.y, task.s, float(self._alphas[k]), intercept)

    def _keep(self, plan: Plan, solved: Results) -> None:
        super()._keep(plan, solved)
        del self._alphas
        if self.coef_.ndim == 2 and len(self.coef_) == 1:
            self.coef_ = self.coef_[0]  # as in scikit-learn


class _Known(RegressorMixin, BaseEstimator):
    """What has already been predicted, for scorers."""

    def fit(self, X: Float, y: Float) -> _Known:
        """Nothing to learn."""
        return self

    def predict(self, X: Float) -> Float:
        """The same."""
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True
