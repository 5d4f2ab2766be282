"""Ridge regression of class labels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.least_squares import LEAST_SQUARES_CONSTRAINTS, LeastSquares, strengths_of
from maxmargin.estimators._machinery.linear import LinearClassifier
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.results import Results
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Operator
from maxmargin.threads import workers_for


@dataclass(eq=False, repr=False)
class RidgeClassifier(LeastSquares, LinearClassifier):
    """Ridge regression of class labels: the squared error as a loss for classification.

    Labels become -1 and 1, and

    ``sum_i C_i (y_i - w.x_i - b)^2 + alpha |w|^2``

    is minimised, where ``C_i`` is sample weight times class weight; more than two classes are fitted each against the
    rest. Targets may also be a matrix of zeros and ones, with several labels for each sample.

    The squared error also punishes samples that are far on the right side: least squares takes Mercury and the
    Earth for dwarf planets because Jupiter is so large (`load_planets`), which no support vector machine does.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty; 0 is for none.
    fit_intercept : bool, default=True
        Whether there is an intercept, which has no penalty.
    class_weight : dict, "balanced" or None, default=None
        Factor for each class; "balanced" gives all classes the same total weight.
    solver : str, default="auto"
        Name of a solver, as in `Ridge`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solver_ : str
        The solver that made the last steps.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVC`.

    Examples
    --------
    >>> from maxmargin import RidgeClassifier, load_planets
    >>> X, y, names = load_planets()
    >>> model = RidgeClassifier(alpha=0.0).fit(X, y)
    >>> print(f"{model.coef_[0, 0]:.7f} {model.intercept_[0]:.6f} {-model.intercept_[0] / model.coef_[0, 0]:.3f}")
    0.0096669 -0.268096 27.733
    >>> [names[i] for i in range(6) if model.predict(X)[i] != y[i]]
    ['Mercury', 'Earth']

    """

    alpha: float = 1.0
    _: KW_ONLY
    class_weight: ClassWeight = None

    _several_targets = True
    _parameter_constraints: ClassVar[Constraints] = {
        **LEAST_SQUARES_CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "class_weight": CLASS_WEIGHT_CONSTRAINT,
    }

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for two classes, else one for each of them; all share the weights. Sets: ``classes_``."""
        strengths_of(self.alpha, 1)
        self._labels = type_of_target(y) == "multilabel-indicator"
        if self._labels:
            return self._divide_labels(X, y, sample_weight)
        y = column_or_1d(y, warn=True)
        self.classes_, codes = check.check_classes(self, y)
        weights, _, s = check.check_weights(self, X, self.classes_, codes, sample_weight)
        s, everyone = 2.0 * s, np.arange(codes.size)
        tasks = [Task(t.name, everyone, t.y, s) for t in binary_tasks(codes, self.classes_, "ovr", s)]
        return Plan(X, y, tasks, weights, codes, workers_for(self.n_jobs))

    def _divide_labels(self, X: Matrix | ChunkedMatrix, Y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task for each of several labels, of which a sample can have any."""
        if self.class_weight is not None:
            raise ValueError("class_weight is for classes of which a sample has one; leave it at None for labels.")
        Y = Y.toarray() if is_sparse(Y) else np.asarray(Y)
        self.classes_, weights = np.arange(Y.shape[1]), check.check_sample_weight(self, X, sample_weight)
        s, everyone = 2.0 * weights, np.arange(weights.size)
        signs = np.where(Y > 0, 1.0, -1.0)
        tasks = [Task(f"label {k}", everyone, np.ascontiguousarray(signs[:, k]), s) for k in range(Y.shape[1])]
        return Plan(X, Y, tasks, weights, np.zeros(weights.size, dtype=np.int64), workers_for(self.n_jobs))

    def decision_function(self, X: MatrixLike) -> Float:
        """Scores of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive for the second class of two; one score per class, or per label, otherwise.

        """
        check_is_fitted(self)
        return self._scores(check.check_prediction_data(self, X)) if self._labels else super().decision_function(X)

    def _decoded(self, scores: Float) -> Array:
        """Classes, or whether a sample has each label."""
        return (scores > 0.0).astype(int) if self._labels else super()._decoded(scores)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What one binary problem minimises."""
        return self._least_squares(operator, task.y, task.s, self.alpha, "free" if self.fit_intercept else None)

    def _keep(self, plan: Plan, solved: Results) -> None:
        self._keep_functions(plan, solved)
        self.solver_ = self.solution_.solver
