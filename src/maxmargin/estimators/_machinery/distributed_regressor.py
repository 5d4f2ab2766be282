"""What the distributed regressors share: targets and predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from maxmargin.estimators._machinery.clients import Agreed, Outcome, agreed_targets
from maxmargin.estimators._machinery.distributed import DISTRIBUTED_CONSTRAINTS, DistributedMachine
from maxmargin.estimators._machinery.estimator import POSITIVE
from maxmargin.estimators._machinery.linear import LinearRegressor
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.loop.minimize import Callback
from maxmargin.parts.losses import Squared
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Communicator, Float, Intercept, Operator, Penalty


class DistributedRegressor(DistributedMachine, LinearRegressor):
    """A linear regressor whose rows are spread over clients."""

    _targets = "targets"
    intercept_: Any
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **DISTRIBUTED_CONSTRAINTS,
        "alpha": [POSITIVE],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        max_iter: int = -1,
        tol: float = 1e-4,
        solver: str = "auto",
        solver_options: dict[str, object] | None = None,
        random_state: int | np.random.RandomState | None = None,
        max_time: float | None = None,
        verbose: bool | int = 0,
        callback: Callback | None = None,
        engine: str = "auto",
        topology: str = "gather",
        n_clients: int | None = None,
        round_timeout: float = 60.0,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 60.0,
        on_failure: str = "raise",
    ) -> None:
        self._store(locals())

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
