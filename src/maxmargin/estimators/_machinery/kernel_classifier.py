"""What the kernel machines that separate classes share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check, multiclass
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.foreign import like
from maxmargin.estimators._machinery.kernel_machine import KERNEL_CONSTRAINTS, KernelMachine
from maxmargin.estimators._machinery.kernels import kernel_scores, make_kernel, single_error
from maxmargin.estimators._machinery.margins import Margins, lengths_in_kernel_space
from maxmargin.estimators._machinery.names import Pairing
from maxmargin.estimators._machinery.plan import Plan
from maxmargin.estimators._machinery.probability import Probabilities, calibrate
from maxmargin.estimators._machinery.results import Results
from maxmargin.estimators._machinery.typed import ClassifierMixin
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.few import are_few, few_pair_sums
from maxmargin.parts.kernels import KERNELS
from maxmargin.protocols import Array, Float, Index
from maxmargin.threads import workers_for

KERNEL_CLASSIFIER_CONSTRAINTS: dict[str, list[object]] = {
    **KERNEL_CONSTRAINTS,
    "probability": ["boolean", StrOptions({"deprecated"})],  # which is what scikit-learn 1.9 calls False
    "class_weight": CLASS_WEIGHT_CONSTRAINT,
    "decision_function_shape": [StrOptions({"ovo", "ovr"})],
    "break_ties": ["boolean"],
    "random_state": ["random_state"],
    "multi_class": [StrOptions({"ovo", "ovr"})],
}


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(Probabilities, ClassifierMixin, KernelMachine, Margins):
    """A kernel machine for two classes, and for more of them by pairs or one against the rest."""

    probability: bool = False
    class_weight: ClassWeight = None
    decision_function_shape: Pairing = "ovr"
    break_ties: bool = False
    random_state: int | np.random.RandomState | None = None
    multi_class: Pairing = "ovo"

    classes_: Array = field(init=False)

    def decision_function(self, X: MatrixLike) -> Float:
        """Scores of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            Positive for the second class of two. For more classes one score per class, unless
            ``decision_function_shape="ovo"``.

        """
        check_is_fitted(self)
        scores = self._scores(check.check_prediction_data(self, X))
        if self.classes_.size == 2:
            return like(X, scores[:, 0])
        if self.multi_class == "ovo" and self.decision_function_shape == "ovr":
            scores = multiclass.votes(scores, self.classes_.size)
        return like(X, scores)

    def _decoded(self, scores: Float) -> Array:
        return np.asarray(self.classes_[self._codes(scores)])

    def _scores_to_decode(self, X: Matrix | ChunkedMatrix) -> Float:
        """Scores in float32 where that cannot change a label, in float64 where it might."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'.")
        assert not isinstance(X, ChunkedMatrix)  # it is refused where samples are checked
        slack = single_error(self, X)
        if slack is None:
            return self._scores(X)
        scores = kernel_scores(self, X, self._expansions(), np.float32) + self.intercept_
        if self.classes_.size == 2 or self._has_pairs:
            distance = np.abs(scores).min(axis=1) if not self.break_ties else np.zeros(len(scores))
        else:
            two = np.partition(scores, -2, axis=1)[:, -2:]
            distance = 0.5 * (two[:, 1] - two[:, 0])
        doubtful = np.flatnonzero(distance <= slack)
        if doubtful.size:
            scores[doubtful] = self._scores(X[doubtful])
        return scores

    @property
    def n_support_(self) -> Array:
        """Number of support vectors of each class."""
        check_is_fitted(self)
        return self._n_support

    @property
    def _class_count(self) -> int:
        return self.classes_.size

    def _codes(self, scores: Float) -> Index:
        """The predicted class of each row of scores."""
        if self.classes_.size == 2:
            return (scores[:, 0] > 0.0).astype(int)
        if self.multi_class == "ovr":
            return np.asarray(scores.argmax(axis=1))
        if self.break_ties:
            return np.asarray(multiclass.votes(scores, self.classes_.size).argmax(axis=1))
        return multiclass.most_votes(scores, self.classes_.size)

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task per binary problem. Sets: ``classes_, class_weight_``."""
        self.classes_, codes = check.check_classes(self, y)
        weights, self.class_weight_, s = check.check_weights(self, X, self.classes_, codes, sample_weight)
        tasks = multiclass.binary_tasks(codes, self.classes_, self.multi_class, s)
        return Plan(X, y, tasks, weights, codes, workers_for(self.n_jobs))

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: what every kernel machine keeps, ``dual_coef_`` in LIBSVM's layout, ``n_support_``, probabilities."""
        super()._keep(plan, solved)
        self.n_iter_ = solved.iterations
        self._support_codes = plan.codes[self.support_]
        if self._has_pairs:
            self.dual_coef_ = multiclass.by_other_class(self._dual_coef, self._support_codes, self.classes_.size)
        calibrate(self, plan, solved)

    def _kernel_sums(self, X: Matrix) -> Float:
        """From LIBSVM's layout itself, if there is little else to do."""
        few = self._has_pairs and self.kernel in KERNELS and are_few(X, self.support_vectors_)
        if not few:
            return super()._kernel_sums(X)
        points = np.asarray(X), np.asarray(self.support_vectors_)
        return few_pair_sums(make_kernel(self), *points, self._dual_coef, self._n_support)

    def _expansions(self) -> Float:
        if self._has_pairs:
            return multiclass.by_pair(self._dual_coef, self._support_codes, self.classes_.size)
        return self._dual_coef

    @property
    def probA_(self) -> Float:
        """Nothing: scikit-learn's parameters of Platt's curve, of which there are none without ``probability=True``."""
        return self._platt("probA_")

    @property
    def probB_(self) -> Float:
        """Nothing, as `probA_`."""
        return self._platt("probB_")

    def _platt(self, name: str) -> Float:
        check_is_fitted(self)
        if hasattr(self, "probability_curves_"):
            raise AttributeError(
                f"{name} belongs to Platt's curve, which has one slope. Those of {type(self).__name__} have two, "
                f"below 0 and above: see probability_curves_."
            )
        return np.empty(0)

    def _lengths(self) -> Float:
        return np.linalg.norm(self._coef, axis=1) if self.kernel == "linear" else lengths_in_kernel_space(self)

    @property
    def _has_pairs(self) -> bool:
        return self.multi_class == "ovo" and self.classes_.size > 2
