"""What the distributed classifiers share: parameters, classes, scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import distributed, engines
from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.clients import Agreed, Outcome, agreed_classes
from maxmargin.estimators._machinery.distributed import DistributedMachine
from maxmargin.estimators._machinery.estimator import CLASS_WEIGHT_CONSTRAINT
from maxmargin.estimators._machinery.linear import LinearClassifier
from maxmargin.estimators._machinery.names import Pairing
from maxmargin.operators import MatrixLike
from maxmargin.protocols import Array, Communicator, Float

DISTRIBUTED_CONSTRAINTS: dict[str, list[object]] = {
    **distributed.DISTRIBUTED_CONSTRAINTS,
    "multi_class": [StrOptions({"ovr", "ovo"})],
    "class_weight": CLASS_WEIGHT_CONSTRAINT,
}


@dataclass(kw_only=True, eq=False, repr=False)
class DistributedClassifier(DistributedMachine, LinearClassifier):
    """A linear classifier whose rows are spread over clients."""

    multi_class: Pairing = "ovr"
    class_weight: ClassWeight = None

    _targets = "labels"

    def decision_function(self, X: MatrixLike) -> Float:
        """Scores of samples.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or Dask array of shape (n_samples,) or (n_samples, n_classes)
            Positive for the second class of two; one score per class otherwise.

        """
        check_is_fitted(self)
        if engines.is_dask(X):
            one = self.classes_.size == 2
            return engines.by_chunks(self.decision_function, X, np.empty(0 if one else (0, self.classes_.size)))
        return super().decision_function(X)

    def _agree(self, y: Array, weights: Float, communicator: Communicator) -> Agreed:
        return agreed_classes(self, y, weights, communicator)

    def _keep_outcome(self, outcome: Outcome) -> None:
        super()._keep_outcome(outcome)
        self.classes_ = outcome.classes
