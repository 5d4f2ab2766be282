"""Linear regression with an L1 penalty of several machines."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from maxmargin.estimators._machinery.distributed import DISTRIBUTED_CONSTRAINTS
from maxmargin.estimators._machinery.distributed_regressor import DistributedRegressor
from maxmargin.estimators._machinery.estimator import POSITIVE
from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.loop.minimize import Callback
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Operator


class DistributedLasso(DistributedRegressor):
    """Linear regression with an L1 penalty for rows that are spread over several processes or machines.

    The problem is that of scikit-learn's `Lasso`: minimise

    ``sum_i s_i (y_i - w.x_i - b)^2 / (2 sum_i s_i) + alpha |w|_1``

    where ``s_i`` is the sample weight. Every client keeps its rows and sends ``d`` numbers in each step, which is a
    proximal one. The result does not depend on how the rows are spread, up to rounding.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, positive; above some largest value all coefficients are exactly zero.
    fit_intercept : bool, default=True
        Whether there is an intercept, which has no penalty.
    max_iter : int, default=-1
        Limit on the solver's iterations; -1 for none.
    solver_options : dict, default=None
        Options of a named solver; wrong ones are refused, and the right ones listed.
    random_state, max_time, verbose, callback, engine, topology, n_clients, round_timeout
        As in `DistributedSVC`.
    checkpoint, checkpoint_every, on_failure
        As in `DistributedSVC`.
    tol, solver
        As in `DistributedSVC`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients.
    intercept_ : float
        Intercept.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, traffic_
        As in `DistributedSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import DistributedLasso
    >>> model = DistributedLasso(0.1, tol=1e-6, n_clients=3).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6, int((model.coef_ != 0.0).sum())
    (True, 7)

    """

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
        return weights / total

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> Problem:
        """What the fit minimises."""
        penalty = L1(float(self.alpha))
        return Problem(operator, task.y, Squared(), penalty, task.s, "free" if self.fit_intercept else None)
