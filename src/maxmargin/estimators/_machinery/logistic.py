"""Probabilities of the linear classifiers whose scores are those of a logistic model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_expit, log_softmax

from maxmargin.estimators._machinery.typed import available_if
from maxmargin.operators import MatrixLike
from maxmargin.protocols import Float

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.linear import LinearClassifier


def _is_logistic(estimator: LinearClassifier) -> bool:
    loss = getattr(estimator, "loss", "log_loss")
    if loss == "log_loss":
        return True
    raise AttributeError(
        f"{type(estimator).__name__} has probabilities with loss='log_loss' only, and this one has {loss!r}; set it "
        f"and call fit."
    )


class LogisticProbabilities:
    """A linear classifier that knows probabilities, if its loss is the logistic one."""

    @property
    def _all_at_once(self) -> bool:
        """Whether one problem has more than two classes."""
        return False

    @available_if(_is_logistic)
    def predict_proba(self, X: MatrixLike) -> Float:
        """Probabilities of the classes by the logistic model.

        They are the logistic function of the score of two classes, the softmax of the scores of more that were fitted
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
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(_is_logistic)
    def predict_log_proba(self, X: MatrixLike) -> Float:
        """Logarithms of the probabilities of `predict_proba`, computed without them: finite where these underflow.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms in the order of `classes_`.

        """
        scores = self.decision_function(X)  # type: ignore[attr-defined]
        if scores.ndim == 1:
            return np.asarray(log_expit(np.column_stack([-scores, scores])))
        return np.asarray(log_softmax(scores if self._all_at_once else log_expit(scores), axis=1))
