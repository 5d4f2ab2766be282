"""The support vector classifier that chooses C and gamma itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.estimators._machinery import multiclass
from maxmargin.estimators._machinery.check import ClassWeight, check_classes, check_weights
from maxmargin.estimators._machinery.kernel_classifier import KERNEL_CLASSIFIER_CONSTRAINTS
from maxmargin.estimators._machinery.kernel_selection import KERNEL_SELECTION_CONSTRAINTS, KernelSelection
from maxmargin.estimators._machinery.names import Pairing
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.problems import hinge_problem
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.selection import Scorer, SelectionOfClasses
from maxmargin.estimators.svc import SVC
from maxmargin.operators import PrecomputedGram
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index


@dataclass(kw_only=True, eq=False, repr=False)
class SVCCV(SelectionOfClasses, KernelSelection):
    """Support vector classifier whose C and gamma are chosen by cross-validation.

    Distances are computed once. For each gamma and fold one solution is followed along all values of C, by warm starts
    or, for a hundred values and more, along the exact path. The model of the best candidate is fitted to all samples
    and certified, as by `SVC`.

    Parameters
    ----------
    Cs : int or array-like, default=12
        Values of C to try; a number stands for so many from 1e-2 to 1e4.
    gammas : int or array-like, default=None
        Values of gamma to try, for the kernels that have it; a number stands for so many around the value of "scale",
        None for 6.
    kernel, degree, coef0, class_weight, tol, cache_size, decision_function_shape, break_ties, n_jobs
        As in `SVC`; `tol` is for the last fit. Of samples, `cache_size` must hold three kernel matrices.
    cv : int, splitter, iterable or "loo", default=None
        Folds as scikit-learn's; None is 5, stratified, or fewer if a class has fewer samples. "loo" leaves out every
        sample once, exactly.
    scoring : str or callable, default=None
        What is to be large, of predictions or scores; None is the accuracy.
    rule : {"best", "one_se"}, default="best"
        "one_se" takes the smallest C, and of these the smallest gamma, whose mean score is at most one standard error
        below the best.

    Attributes
    ----------
    C_, gamma_, best_params_, best_index_, best_score_, best_estimator_
        The choice, and the fitted `SVC`.
    cv_results_ : dict
        As that of scikit-learn's ``GridSearchCV``; times are shares of the time that all took together.
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, solution_, solutions_, duality_gap_, \
objective_, dual_objective_, status_, n_iter_
        Of the last fit, as in `SVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVCCV
    >>> model = SVCCV(Cs=[1, 10, 100], gammas=[0.01, 0.1, 1.0]).fit(*load_iris(return_X_y=True))
    >>> model.best_params_, model.duality_gap_ <= 1e-3
    ({'C': 1.0, 'gamma': 0.1}, True)

    """

    class_weight: ClassWeight = None
    decision_function_shape: Pairing = "ovr"
    break_ties: bool = False

    _parameter_constraints: ClassVar[Constraints] = {
        **KERNEL_SELECTION_CONSTRAINTS,
        **{
            name: KERNEL_CLASSIFIER_CONSTRAINTS[name]
            for name in (
                "kernel",
                "degree",
                "coef0",
                "class_weight",
                "cache_size",
                "decision_function_shape",
                "break_ties",
            )
        },
    }

    def _model(self, **chosen: Any) -> SVC:
        return SVC(
            kernel=self.kernel, degree=self.degree, coef0=self.coef0, class_weight=self.class_weight, tol=self.tol,
            cache_size=self.cache_size, decision_function_shape=self.decision_function_shape,
            break_ties=self.break_ties, n_jobs=self.n_jobs, **chosen,
        )  # fmt: skip

    def _tasks(self, y: Array, weights: Float) -> Sequence[Task]:
        """Sets: ``classes_``."""
        self.classes_, codes = check_classes(self, y)
        _, _, s = check_weights(self._model(C=1.0), np.empty((weights.size, 0)), self.classes_, codes, weights)
        return multiclass.binary_tasks(codes, self.classes_, "ovo", s)

    def _task_problem(self, gram: PrecomputedGram, y: Float, s: Float) -> Problem:
        return hinge_problem(gram, y, s, "hinge", "free")

    def _score_all(self, score: Scorer, values: Float, rows: Index) -> Float:
        if self.classes_.size > 2 or score.chosen is not None:
            return super()._score_all(score, values, rows)
        right = (values[:, :, 0] > 0.0) == (score.y[rows] == self.classes_[1])
        return np.asarray(right.mean(axis=1))

    def _score(self, score: Scorer, values: Float, rows: Index) -> float:
        count = self.classes_.size
        if count == 2:
            return score(self.classes_, (values[:, 0] > 0.0).astype(int), values[:, 0], rows)
        codes = multiclass.most_votes(values, count)
        scores = values if score.chosen is None else multiclass.votes(values, count)
        return score(self.classes_, codes, scores, rows)
