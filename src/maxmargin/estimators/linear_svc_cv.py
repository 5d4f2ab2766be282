"""The linear support vector classifier that chooses C itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.estimators._machinery.check import ClassWeight, check_classes
from maxmargin.estimators._machinery.names import Hinges, InterceptName
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.selection import (
    SELECTION_CONSTRAINTS,
    Folds,
    Grid,
    Scorer,
    Selection,
    SelectionOfClasses,
    strengths,
)
from maxmargin.estimators.leave_one_out import leave_one_out
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.svc import SVC
from maxmargin.operators import Matrix
from maxmargin.protocols import Array, Float

SHARED = ("loss", "fit_intercept", "intercept_scaling", "class_weight", "intercept", "tol", "n_jobs")


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVCCV(SelectionOfClasses, Selection):
    """Linear support vector classifier whose C is chosen by cross-validation.

    In each fold the fit for one value of C starts from that for the value before. The model of the best value is fitted
    to all samples and certified, as by `LinearSVC`.

    Parameters
    ----------
    Cs : int or array-like, default=12
        Values of C to try; a number stands for so many from 1e-2 to 1e4.
    loss, fit_intercept, intercept_scaling, class_weight, intercept, tol, n_jobs
        As in `LinearSVC`; `tol` is for every fit.
    cv : int, splitter, iterable or "loo", default=None
        Folds as scikit-learn's; None is 5, stratified, or fewer if a class has fewer samples. "loo" leaves out every
        sample once, exactly; it is for two classes and ``intercept="free"`` or None.
    scoring : str or callable, default=None
        What is to be large, of predictions or scores; None is the accuracy.
    rule : {"best", "one_se"}, default="best"
        "one_se" takes the smallest C whose mean score is at most one standard error below the best.

    Attributes
    ----------
    C_, best_params_, best_index_, best_score_, best_estimator_
        The choice, and the fitted `LinearSVC`.
    cv_results_ : dict
        As that of scikit-learn's ``GridSearchCV``; times are shares of the time that all took together.
    classes_, coef_, intercept_, solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, n_iter_
        Of the last fit, as in `LinearSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVCCV(Cs=[0.01, 0.1, 1.0]).fit(X / X.std(axis=0), y)
    >>> model.best_score_ > 0.95, model.duality_gap_ <= 1e-4
    (True, True)

    """

    loss: Hinges = "squared_hinge"
    fit_intercept: bool = True
    intercept_scaling: float = 1
    class_weight: ClassWeight = None
    intercept: InterceptName | None = "auto"
    tol: float = 1e-4

    _parameter_constraints: ClassVar[Constraints] = {
        **SELECTION_CONSTRAINTS,
        **{name: rule for name, rule in LinearSVC._parameter_constraints.items() if name in SHARED},
    }

    def _model(self, **chosen: Any) -> LinearSVC:
        return LinearSVC(**{name: getattr(self, name) for name in SHARED}, **chosen)

    def _candidates(self, X: Matrix, weights: Float) -> Grid:
        return {"C": strengths(self.Cs)}

    def _scored(self, X: Matrix, y: Array, weights: Float, grid: Grid, folds: Folds, score: Scorer) -> Float:
        """Sets: ``classes_``."""
        self.classes_, _ = check_classes(self, y)
        if not folds:
            return self._left_out(X, y, weights, grid["C"], score)
        scores = np.empty((grid["C"].size, len(folds)))
        for k, (train, test) in enumerate(folds):
            model = self._model(warm_start=True)
            for c, C in enumerate(grid["C"].tolist()):
                model.set_params(C=C).fit(X[train], y[train], sample_weight=weights[train])
                known = np.searchsorted(self.classes_, model.predict(X[test]))
                scores[c, k] = score(self.classes_, known, model.decision_function(X[test]), test)
        return scores

    def _left_out(self, X: Matrix, y: Array, weights: Float, Cs: Float, score: Scorer) -> Float:
        """One column: every sample is scored by the exact fit without it."""
        kind = "penalised" if self.intercept == "auto" and self.fit_intercept else self.intercept
        if self.classes_.size != 2 or kind == "penalised":
            raise ValueError(
                'LinearSVCCV(cv="loo") is for two classes and an intercept without a penalty; pass intercept="free", '
                "or another cv."
            )
        scores = np.empty((Cs.size, 1))
        for c, C in enumerate(Cs.tolist()):
            model = SVC(
                C=C, kernel="linear", loss=self.loss, intercept=kind if self.fit_intercept else None,
                class_weight=self.class_weight, tol=self.tol, n_jobs=self.n_jobs,
            ).fit(X, y, sample_weight=weights)  # fmt: skip
            values = leave_one_out(model, X, y, weights)
            scores[c, 0] = score(self.classes_, (values > 0.0).astype(int), values, np.arange(y.size))
        return scores
