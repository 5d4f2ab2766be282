"""What the distributed regressors share: targets and predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import engines
from maxmargin.estimators._machinery.clients import Agreed, Outcome, agreed_targets
from maxmargin.estimators._machinery.distributed import DistributedMachine
from maxmargin.estimators._machinery.linear import LinearRegressor
from maxmargin.operators import MatrixLike
from maxmargin.protocols import Array, Communicator, Float


class DistributedRegressor(DistributedMachine, LinearRegressor):
    """A linear regressor whose rows are spread over clients."""

    _targets = "targets"
    intercept_: Any

    def predict(self, X: MatrixLike) -> Float:
        """Targets of samples.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or Dask array of shape (n_samples,)
            Predictions.

        """
        check_is_fitted(self)
        if engines.is_dask(X):
            predictions: Float = engines.by_chunks(self.predict, X, np.empty(0))
            return predictions
        return super().predict(X)

    def _weights_of_errors(self, weights: Float, total: float) -> Float:
        """The weights of the losses, from those of the samples and their sum over all clients."""
        raise NotImplementedError

    def _agree(self, y: Array, weights: Float, communicator: Communicator) -> Agreed:
        return agreed_targets(self, y, weights, communicator)

    def _keep_outcome(self, outcome: Outcome) -> None:
        super()._keep_outcome(outcome)
        self.coef_, self.intercept_ = outcome.coef[0], float(outcome.intercept[0])
