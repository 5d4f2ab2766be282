"""The linear nu-SVM of several machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.clients import Outcome
from maxmargin.estimators._machinery.distributed_classifier import DISTRIBUTED_CONSTRAINTS, DistributedClassifier
from maxmargin.estimators._machinery.estimator import NU_CONSTRAINT, POSITIVE
from maxmargin.estimators._machinery.names import Pairing
from maxmargin.estimators._machinery.plan import Function, Plan, Task
from maxmargin.estimators._machinery.problems import nu_classification, nu_function, nu_of_cap
from maxmargin.estimators.nu_svc import DEFAULT_NU
from maxmargin.loop.solution import Solution
from maxmargin.protocols import Float, Operator
from maxmargin.solvers.choice import AnyProblem


@dataclass(eq=False, repr=False)
class DistributedNuSVC(DistributedClassifier):
    """Linear nu support vector classifier for rows that are spread over several processes or machines.

    The problem is that of ``NuSVC(kernel="linear")``,

    ``min 1/2 |w|^2 - nu S rho + sum_i c_i max(0, rho - y_i (w.x_i + b))``,

    where ``c_i`` is the class weight times the sample weight and ``S`` their sum. It is solved as the distance of two
    reduced convex hulls, of which the clients move points by Saddle-DSVC. At the end ``w`` and ``b`` are divided by
    the margin ``rho``. `objective_` and `dual_objective_` are minus half of the squared width of the street between
    the hulls, and of their distance, both before the division and times ``(nu S / 2)^2``.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: upper bound on the fraction of margin errors, lower bound on that of support vectors. At most
        `nu_max_`, twice the share of the lighter class in the weights.
    class_weight : dict or "balanced", default=None
        Weights of the classes; "balanced" makes every nu feasible for two classes and for pairs.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Which binary problems are solved for more than two classes, one after the other.
    cap : float, default=None
        Instead of `nu`: the largest coefficient that one sample of weight 1 may have in the convex combination of its
        class, ``cap = 2 / (nu S)``.
    solver : str, default="auto"
        "saddle", or another solver of the distance of two hulls; "auto" is "saddle".
    max_time, callback, engine, topology, n_clients, round_timeout, checkpoint, checkpoint_every, on_failure
        As in `DistributedSVC`.
    tol, verbose
        As in `DistributedSVC`.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    nu_max_ : float
        The largest nu that is feasible in every binary problem.
    nu_, rho_ : ndarray of shape (n_problems,)
        The nu of each binary problem, and the margin by which its function was divided.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, traffic_
        As in `DistributedSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import DistributedNuSVC
    >>> model = DistributedNuSVC(nu=0.3, n_clients=2).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-3, model.nu_max_
    (True, 1.0)

    """

    nu: float = DEFAULT_NU
    _: KW_ONLY
    tol: float = 1e-3
    multi_class: Pairing = "ovo"
    cap: float | None = None
    fit_intercept: bool = field(default=True, init=False)

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **DISTRIBUTED_CONSTRAINTS,
        "nu": NU_CONSTRAINT,
        "cap": [POSITIVE, None],
    }

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        """What one task minimises."""
        nu = self.nu
        if self.cap is not None:
            nu = nu_of_cap(self.cap, float(plan.communicator.allreduce(np.array([task.s.sum()]))[0]))
        return nu_classification(operator, task.y, task.s, nu)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        return nu_function(problem, solution.point)

    def _nus(self, name: Callable[[int], str], sides: Float) -> tuple[Float, float]:
        """The nu of each task, and the largest feasible one."""
        return check.check_nu(self, name, sides)

    def _keep_outcome(self, outcome: Outcome) -> None:
        """Sets: the fitted attributes."""
        super()._keep_outcome(outcome)
        self.nu_, self.nu_max_, self.rho_ = outcome.nus, outcome.largest_nu, outcome.margins

    def _refuse_contradictions(self) -> None:
        super()._refuse_contradictions()
        if self.cap is not None and self.nu != DEFAULT_NU:
            raise ValueError(f"cap={self.cap:g} contradicts nu={self.nu:g}; leave one of them at its default.")
