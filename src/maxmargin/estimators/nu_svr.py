"""Support vector regression that finds the width of its tube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.estimators._machinery.at_once import Reading
from maxmargin.estimators._machinery.estimator import NU_CONSTRAINT, POSITIVE
from maxmargin.estimators._machinery.kernel_machine import KERNEL_CONSTRAINTS, KernelRegressor
from maxmargin.estimators._machinery.plan import Function, Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import multipliers, nu_regression
from maxmargin.estimators._machinery.results import Results
from maxmargin.loop.at_once import Found
from maxmargin.loop.solution import Solution
from maxmargin.operators import Gram
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Operator
from maxmargin.solvers.choice import AnyProblem


@dataclass(kw_only=True, eq=False, repr=False)
class NuSVR(KernelRegressor):
    """Support vector regression with kernels that finds the width of its tube.

    Minimises

    ``1/2 |f|^2 + C (nu S epsilon + sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon))``

    over functions ``f`` of the kernel's space, the intercept ``b`` and half the width of the tube, ``epsilon``, where
    ``s_i`` are the sample weights and ``S`` their sum. By weight, at most the fraction `nu` of the samples lies outside
    of the tube, and at least that fraction are support vectors. `SVR` with the `epsilon_` that was found has the same
    solution.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: upper bound on the fraction of errors, lower bound on that of support vectors.
    C : float, default=1.0
        Weight of the losses against the norm.
    solver : str, default="auto"
        Name of a solver; "auto" is "decomposition".

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, fit_status_, shape_fit_, n_features_in_, \
feature_names_in_
        As in scikit-learn.
    coef_ : ndarray of shape (1, n_features)
        Coefficients, for the linear kernel only.
    epsilon_ : float
        Half the width of the tube that was found.
    partition_ : Partition
        The samples whose dual variable is zero, free and at its bound.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVR`; the solution is that of the quadratic program.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import NuSVR
    >>> model = NuSVR(C=100.0, tol=1e-6).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6, round(model.epsilon_)
    (True, 27)

    """

    nu: float = 0.5
    C: float = 1.0

    _has_form_of_rows = False
    _has_form_of_losses = False
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **KERNEL_CONSTRAINTS,
        "nu": NU_CONSTRAINT,
        "C": [POSITIVE],
    }

    def _programs(self, plan: Plan) -> Programs:
        tasks = plan.tasks
        assert isinstance(tasks, Tasks)
        y, s, n, none = tasks.y, tasks.s, tasks.s.size, np.zeros(tasks.s.size)
        total = 0.5 * self.nu * float(s.sum())
        return Programs(
            first=2 * tasks.first,
            stretches=tasks.stretches,
            sample=np.tile(tasks.order, 2),
            q=np.tile(y, 2),
            D=np.zeros(2 * n),
            low=np.concatenate([none, -s]),
            high=np.concatenate([s, none]),
            group=np.repeat([0, 1], n),
            totals=np.array([[total, -total]]),
            of_losses=False,
            of_tube=True,
        )

    def _reading(self, found: Found) -> Reading:
        above, below = found.multipliers.T  # b + epsilon, b - epsilon
        above = np.maximum(above, below)
        return Reading(0.5 * (above + below), 0.5 * (above - below))

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> BoxQP:
        assert isinstance(operator, Gram)
        return nu_regression(operator, task.y, task.s, self.nu)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        """The expansion over the samples, the intercept, and half the width of the tube."""
        above, below = map(float, multipliers(problem, solution.point))  # b + epsilon, b - epsilon
        above, w = max(above, below), solution.point.w
        return Function(w, 0.5 * (above + below), w, 0.5 * (above - below))

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: what every kernel machine keeps, and ``epsilon_``."""
        super()._keep(plan, solved)
        self.epsilon_ = float(solved.widths[0])
