"""Probabilities of the linear classifiers whose losses say what scores mean: logistic ones, and the modified Huber."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_expit, log_softmax

from maxmargin.estimators._machinery.typed import available_if
from maxmargin.operators import MatrixLike
from maxmargin.protocols import Float

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.linear import LinearClassifier


def _has_probabilities(estimator: LinearClassifier) -> bool:
    loss = getattr(estimator, "loss", "log_loss")
    if loss in ("log_loss", "modified_huber"):
        return True
    raise AttributeError(
        f"probability estimates are not available for loss={loss!r}: {type(estimator).__name__} has them with "
        f"loss='log_loss' and loss='modified_huber'; set it and call fit."
    )


class LogisticProbabilities:
    """A linear classifier that knows probabilities, if its loss is the logistic one or the modified Huber loss."""

    @property
    def _all_at_once(self) -> bool:
        """Whether one problem has more than two classes."""
        return False

    @available_if(_has_probabilities)
    def predict_proba(self, X: MatrixLike) -> Float:
        """Probabilities of the classes by the model of the loss.

        With ``loss="modified_huber"`` that of a class is ``(clip(score, -1, 1) + 1) / 2``, divided by the sum over the
        classes if these are more than two; where all of them vanish, they are equal. Otherwise they are the logistic
        function of the score of two classes, the softmax of the scores of more that were fitted
        at once, and otherwise the logistic functions of the scores, divided by their sum.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.

        """
        if getattr(self, "loss", "log_loss") == "modified_huber":
            return _clipped_scores(self.decision_function(X))  # type: ignore[attr-defined]
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: MatrixLike) -> Float:
        """Logarithms of the probabilities of `predict_proba`.

        Those of the logistic model are computed without them, and finite where these underflow. Those of the modified
        Huber loss are infinite where these vanish.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms in the order of `classes_`.

        """
        if getattr(self, "loss", "log_loss") == "modified_huber":
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(self.predict_proba(X)))
        scores = self.decision_function(X)  # type: ignore[attr-defined]
        if scores.ndim == 1:
            return np.asarray(log_expit(np.column_stack([-scores, scores])))
        return np.asarray(log_softmax(scores if self._all_at_once else log_expit(scores), axis=1))


def _clipped_scores(scores: Float) -> Float:
    """Probabilities by the modified Huber loss."""
    p = 0.5 * (np.clip(scores, -1.0, 1.0) + 1.0)
    if p.ndim == 1:
        return np.column_stack([1.0 - p, p])
    p[p.sum(axis=1) == 0.0] = 1.0
    return np.asarray(p / p.sum(axis=1, keepdims=True))
