"""What the distributed regressors share: targets and predictions."""

from __future__ import annotations

from typing import Any

from maxmargin.estimators._machinery.clients import Agreed, Outcome, agreed_targets
from maxmargin.estimators._machinery.distributed import DistributedMachine
from maxmargin.estimators._machinery.linear import LinearRegressor
from maxmargin.protocols import Array, Communicator, Float


class DistributedRegressor(DistributedMachine, LinearRegressor):
    """A linear regressor whose rows are spread over clients."""

    _targets = "targets"
    intercept_: Any

    def _weights_of_errors(self, weights: Float, total: float) -> Float:
        """The weights of the losses, from those of the samples and their sum over all clients."""
        raise NotImplementedError

    def _agree(self, y: Array, weights: Float, communicator: Communicator) -> Agreed:
        return agreed_targets(self, y, weights, communicator)

    def _keep_outcome(self, outcome: Outcome) -> None:
        super()._keep_outcome(outcome)
        self.coef_, self.intercept_ = outcome.coef[0], float(outcome.intercept[0])
