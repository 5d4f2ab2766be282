"""What the kernel machines that predict numbers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.fit import all_or_nothing
from maxmargin.estimators._machinery.kernel_machine import KernelMachine, Plan
from maxmargin.estimators._machinery.task import Task
from maxmargin.protocols import Float


class KernelRegressor(RegressorMixin, KernelMachine):
    """A kernel machine whose scores are the predictions."""

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRegressor:
        """Fit the model and certify it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        with all_or_nothing(self):
            X = self._fit(X, y, sample_weight)
        check.warn_unless_converged(self, X)
        return self

    def predict(self, X: Any) -> Float:
        """Targets of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions.

        """
        check_is_fitted(self)
        return self._scores(check.check_prediction_data(self, X))[:, 0]

    def _plan(self, X: Any, y: Any, sample_weight: Any) -> Plan:
        weights = check.check_sample_weight(self, X, sample_weight)
        n = weights.size
        task = Task("regression", np.arange(n), np.asarray(y, dtype=np.float64))
        return Plan([task], self.C * weights, weights, np.zeros(n, dtype=np.int64))
