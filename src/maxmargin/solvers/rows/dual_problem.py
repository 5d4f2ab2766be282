"""The dual over rows with an L2 penalty, as all methods that ascend on it see it.

    D(alpha) = -sum_i s_i loss*(-alpha_i / s_i, y_i) - |X^T alpha|^2 / (2 lam) - (sum_i alpha_i)^2 / (2 ridge)

The intercept costs ``ridge b^2 / 2`` in the primal problem. So ``ridge`` is infinite if there is none, and zero if the
intercept is free, which means that the dual variables have to add up to zero.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field

import numpy as np

from maxmargin.numerics.sampling import seeded
from maxmargin.operators import Rows
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.rows.dual_epochs import Course, dual_epochs
from maxmargin.solvers.solver import State


@dataclass
class DualState(State):
    """Dual variables, their coefficients ``w = X^T alpha / lam`` and the intercept: zero, or those of a given point.

    If the rows are spread over clients, ``rows`` and ``alpha`` are those of this client.
    """

    problem: Problem
    warm: InitVar[Point | None]
    rows: Rows = field(init=False)
    ridge: float = field(init=False)
    alpha: Float = field(init=False)
    w: Float = field(init=False)
    b: float = field(init=False, default=0.0)
    total: float = field(init=False, default=0.0)  # of the dual variables of all clients when `w` was computed

    def __post_init__(self, warm: Point | None) -> None:
        problem, rows, column = self.problem, self.problem.rows, self.problem.penalised_column
        self.rows, self.ridge = rows, problem.lam / column**2 if column else math.inf
        if problem.free_intercept:
            self.ridge = 0.0
        self.alpha, self.w = np.zeros(rows.n_samples), np.zeros(rows.n_features)
        if warm is not None and warm.alpha is not None:
            self.alpha, self.b = problem.feasible(warm.alpha), warm.b if self.ridge < math.inf else 0.0
            self.refresh()

    @property
    def free(self) -> bool:
        """Whether the intercept is, and with it the multiplier of a constraint."""
        return self.ridge == 0.0

    @property
    def intercept_curvature(self) -> float:
        """What the column of a penalised intercept adds to every inner product of two rows."""
        return 0.0 if self.free else 1.0 / self.ridge

    def refresh(self) -> None:
        """Recompute what is maintained. Sets: ``w, total, passes``."""
        own = np.append(self.rows.adjoint(self.alpha), self.alpha.sum())
        shared = self.problem.communicator.allreduce(own)
        self.w, self.total = shared[:-1] / self.problem.lam, float(shared[-1])
        self.passes += 1.0

    def penalty(self) -> float:
        """``lam |w|^2 / 2 + ridge b^2 / 2``."""
        cost = 0.5 * self.problem.lam * float(self.w @ self.w)
        return cost + 0.5 * self.ridge * self.b**2 if self.b else cost

    def point(self, alpha: Float) -> Point:
        """The coefficients, with the best intercept for them if it is free, and dual variables made feasible."""
        b = self.problem.best_intercept(self.rows.apply(self.w)) if self.free else self.b
        return Point(self.w.copy(), b, self.problem.feasible(alpha))


@dataclass
class AscentState(DualState):
    """Dual variables that are raised one at a time, with the intercept as the coefficient of one more column.

    A penalised intercept is that, and ``b == tau * sum(alpha)``. A free one is the multiplier of ``sum(alpha) == 0`` in
    an augmented Lagrangian, whose penalty ``tau`` acts like a column of height ``sqrt(tau)`` around a centre that moves
    after every epoch; ``tau`` is then the mean curvature of the dual along one variable.

    Between two rounds ``w == X.T @ alpha / lam``.
    """

    seed: int
    tau: float = field(init=False)
    q: Float = field(init=False)  # curvature of the dual along each variable
    order: Index = field(init=False)  # of the rows with a positive weight, as epochs left it
    course: Course = field(init=False)
    random: Array = field(init=False)

    def __post_init__(self, warm: Point | None) -> None:
        super().__post_init__(warm)
        curvatures = self.rows.squared_lengths() / self.problem.lam
        self.tau = self.intercept_curvature
        if self.free:
            self.tau = float(curvatures.mean()) or 1.0 / float(self.problem.s.mean() or 1.0)
        self.q = curvatures + self.tau
        self.order = np.flatnonzero(self.problem.s > 0.0)
        self.course = Course(self.order.size)
        self.random = seeded(self.seed)

    def refresh(self) -> None:
        """Recompute what is maintained. Sets: ``w, total, passes``, and ``b`` unless it is free."""
        super().refresh()
        if not self.free:
            self.b = self.total / self.ridge

    def ascend(self, epochs: int, shrinking: bool) -> float:
        """At most so many epochs; what the last one saw of the gap. Sets: all but ``total, primal, dual``."""
        problem, b = self.problem, np.array([self.b])
        self.course, made, visited, gap = dual_epochs(
            self.rows.vectors, problem.loss, problem.y, problem.s, self.q, 1.0 / problem.lam, self.tau, self.free,
            self.alpha, self.w, b, self.order, self.course, shrinking, self.random, epochs,
        )  # fmt: skip
        self.b = float(b[0])
        self.iterations += made
        self.passes += visited / max(1, self.order.size)
        return gap

    def lagrangian(self) -> float:
        """The dual value, in which the intercept pays for dual variables that do not add up to ``ridge b``."""
        missed = self.b * (float(self.alpha.sum()) - self.ridge * self.b) if self.b else 0.0
        return -self.problem.conjugates(self.alpha) - self.penalty() - missed

    @property
    def exhausted(self) -> bool:
        """Whether no variable moved in an epoch over all rows."""
        return self.course.violation == 0.0
