"""The support vector classifier whose parameter is a fraction of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._jit import compiled
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import Reading, of_sums
from maxmargin.estimators._machinery.estimator import NU_CONSTRAINT, POSITIVE
from maxmargin.estimators._machinery.kernel_classifier import KERNEL_CLASSIFIER_CONSTRAINTS, KernelClassifier
from maxmargin.estimators._machinery.plan import Function, Plan, Task, Tasks
from maxmargin.estimators._machinery.problems import SMALLEST_MARGIN, nu_classification, nu_function, nu_of_cap
from maxmargin.estimators._machinery.results import Results
from maxmargin.loop.at_once import Found
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.problems.programs import Programs
from maxmargin.protocols import Array, Float, Index, Operator
from maxmargin.solvers.choice import AnyProblem

DEFAULT_NU = 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class NuSVC(KernelClassifier):
    """Support vector classifier with kernels, controlled by a fraction of the samples.

    Minimises, for every pair of classes (or every class against the rest),

    ``1/2 |f|^2 - nu S rho + sum_i c_i max(0, rho - y_i (f(x_i) + b))``

    over functions ``f`` of the kernel's space, the intercept ``b`` and the margin ``rho``, where ``c_i`` is the class
    weight times the sample weight and ``S`` their sum. By weight, at most the fraction `nu` of the samples lies inside
    the margin, and at least that fraction are support vectors. At the end ``f`` and ``b`` are divided by ``rho``, as in
    LIBSVM: the margins are at -1 and 1, and the problem of `SVC` with ``C = 1 / rho`` has the same solution.
    `objective_` and `dual_objective_` are values of the formula above, before the division; the dual one is
    ``-|f|^2 / 2``.

    Unlike in scikit-learn, class weights have an effect: weight 2 is two copies of each sample of the class.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: upper bound on the fraction of margin errors, lower bound on that of support vectors. At most
        `nu_max_`, twice the share of the lighter class in the weights; a larger one is refused before any kernel value
        is computed. ``class_weight="balanced"`` makes every nu feasible for two classes and for pairs.
    cap : float, default=None
        Instead of `nu`: the largest coefficient that one sample of weight 1 may have in the convex combination of its
        class, ``cap = 2 / (nu S)``. It is the "nu" of the reduced convex hulls, whose distance this problem is; from 1
        on, the margin is hard.
    solver : str, default="auto"
        Name of a solver; "auto" is "decomposition", and with the linear kernel and more than 2000 samples "saddle",
        which solves the same problem as the distance of two reduced hulls, in few passes over the rows and without a
        kernel matrix; "gilbert" and "frank_wolfe" are the classical methods for it. If the reduced hulls meet, they
        end with ``Status.NOT_SEPARABLE`` and a common point of them as the proof: `nu` is too small for any margin.
    probability, decision_function_shape, break_ties, random_state, multi_class
        As in `SVC`.

    Attributes
    ----------
    classes_, class_weight_, support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, fit_status_, \
shape_fit_, n_features_in_, feature_names_in_
        As in scikit-learn. With ``multi_class="ovr"`` and more than two classes, `dual_coef_` has one row per class.
    coef_ : ndarray
        Coefficients, for the linear kernel only.
    nu_max_ : float
        The largest nu that is feasible in every binary problem.
    nu_, rho_ : ndarray of shape (n_problems,)
        The nu of each binary problem, and the margin by which its function was divided.
    margin_, slacks_, partition_, solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, \
probability_curves_
        As in `SVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import NuSVC
    >>> model = NuSVC(nu=0.1, tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6, model.nu_max_
    (True, 1.0)

    The margin ``rho_`` leads to the C-SVM of the same boundary.

    >>> import numpy as np
    >>> from maxmargin import SVC
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 3)), np.repeat([0, 1], 200)
    >>> X[y == 1] += 1.0
    >>> nu = NuSVC(nu=0.6, kernel="linear", solver="saddle", tol=1e-5).fit(X, y)
    >>> soft = SVC(C=1.0 / nu.rho_[0], kernel="linear", tol=1e-5).fit(X, y)
    >>> np.allclose(nu.coef_, soft.coef_, atol=0.01), np.allclose(nu.intercept_, soft.intercept_, atol=0.01)
    (True, True)

    """

    nu: float = DEFAULT_NU
    cap: float | None = None

    _has_form_of_losses = False

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **KERNEL_CLASSIFIER_CONSTRAINTS,
        "nu": NU_CONSTRAINT,
        "cap": [POSITIVE, None],
    }

    def _refuse_contradictions(self) -> None:
        super()._refuse_contradictions()
        if self.cap is not None and self.nu != DEFAULT_NU:
            raise ValueError(f"cap={self.cap:g} contradicts nu={self.nu:g}; leave one of them at its default.")

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task per binary problem. Sets: ``classes_, class_weight_, nu_, nu_max_``."""
        plan = super()._divide(X, y, sample_weight)
        tasks = plan.tasks
        assert isinstance(tasks, Tasks)
        self.nu_, self.nu_max_ = check.check_nu(self, tasks.name, sides_of(tasks.y, tasks.s, tasks.first))
        return plan

    def _programs(self, plan: Plan) -> Programs:
        tasks = plan.tasks
        assert isinstance(tasks, Tasks)
        sides = sides_of(tasks.y, tasks.s, tasks.first)
        total = np.minimum(sides.min(axis=1), 0.5 * self.nu_ * sides.sum(axis=1))
        low, high = np.minimum(own := tasks.y * tasks.s, 0.0), np.maximum(own, 0.0)
        return of_sums(tasks, low, high, (tasks.y < 0.0).astype(np.int64), np.stack([total, -total], axis=1))

    def _reading(self, found: Found) -> Reading | None:
        of_positive, of_negative = found.multipliers.T  # b - rho, b + rho
        rho = 0.5 * (of_negative - of_positive)
        if not (rho > SMALLEST_MARGIN).all():
            return None
        return Reading(0.5 * (of_negative + of_positive) / rho, rho, divided=True)

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        nu = self.nu if self.cap is None else nu_of_cap(self.cap, float(task.s.sum()))
        return nu_classification(operator, task.y, task.s, nu)

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        return nu_function(problem, solution.point)

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: what every kernel classifier keeps, and ``rho_``."""
        super()._keep(plan, solved)
        self.rho_ = solved.widths


@compiled
def sides_of(y: Float, s: Float, first: Index) -> Float:
    """The weights of the positive and the negative samples of each problem."""
    sides = np.zeros((first.shape[0] - 1, 2))
    for k in range(sides.shape[0]):
        for i in range(first[k], first[k + 1]):
            sides[k, 0 if y[i] > 0.0 else 1] += s[i]
    return sides
