"""What the distributed regressors share: targets and predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from maxmargin.estimators._machinery.clients import Agreed, Outcome, agreed_targets
from maxmargin.estimators._machinery.distributed import DISTRIBUTED_CONSTRAINTS, DistributedMachine
from maxmargin.estimators._machinery.estimator import POSITIVE
from maxmargin.estimators._machinery.linear import LinearRegressor
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.parts.losses import Squared
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Communicator, Float, Intercept, Operator, Penalty


@dataclass(eq=False, repr=False)
class DistributedRegressor(DistributedMachine, LinearRegressor):
    """A linear regressor whose rows are spread over clients."""

    alpha: float = 1.0
    intercept_: Any = field(init=False)

    _targets = "targets"
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **DISTRIBUTED_CONSTRAINTS,
        "alpha": [POSITIVE],
        "fit_intercept": ["boolean"],
    }

    def _weights_of_errors(self, weights: Float, total: float) -> Float:
        """The weights of the losses, from those of the samples and their sum over all clients."""
        raise NotImplementedError

    def _penalty(self) -> Penalty:
        """That of the coefficients."""
        raise NotImplementedError

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises."""
        intercept: Intercept = "free" if self.fit_intercept else None
        return Problem(operator, task.y, Squared(), self._penalty(), task.s, intercept)

    def _agree(self, y: Array, weights: Float, communicator: Communicator) -> Agreed:
        return agreed_targets(self, y, weights, communicator)

    def _keep_outcome(self, outcome: Outcome) -> None:
        super()._keep_outcome(outcome)
        self.coef_, self.intercept_ = outcome.coef[0], float(outcome.intercept[0])
