"""What a model says about one of its problems, as variables in a box, which optimality conditions speak of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.estimators._machinery.plan import Task
from maxmargin.operators import Gram
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import BoxQP, dual_pieces
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index, Operator, Penalty

NEARLY = 1e-6  # of a sum


@dataclass(frozen=True, eq=False)
class Claim:
    """A function ``x.w + b``, or an expansion over the samples, and the variables that are to prove it.

    One side has a variable for each sample, two sides of a tube have two. Those of the first class, and of the upper
    side of a tube, lie in ``[0, reach]``, the others in ``[-reach, 0]``: `sign` says which. The loss of a variable is
    that of ``excess = sign (q - z)`` where this is positive, divided by the curvature `D` if it is a square.
    """

    task: Task
    operator: Operator
    penalty: Penalty
    w: Float
    b: float
    a: Float
    sign: Float
    reach: Float
    q: Float
    D: Float
    sums: tuple[tuple[Array, float], ...] = ()  # variables whose sum is fixed, and this sum
    column: float = 0.0  # of a penalised intercept: what it is multiplied with
    tube: bool = False  # whether the excess is measured from a tube, not from a margin

    @property
    def row(self) -> Index:
        """The row of the data that belongs to each variable."""
        return np.tile(self.task.members, self.a.size // self.task.members.size)

    def by_sample(self, values: Float) -> Float:
        """One row for each side of the samples."""
        return values.reshape(-1, self.task.members.size)

    @cached_property
    def excess(self) -> Float:
        """By how much each sample misses its margin, or leaves its tube, by the function that the model has."""
        z = self.operator.apply(self.w) + self.b
        return self.sign * (self.q - np.tile(z, self.a.size // z.size))

    @cached_property
    def distance(self) -> float:
        """How far the function is from what its variables make of the samples, by the norm of the function's space.

        With other penalties than L2 the coefficients are compared with those that would be the best from there.
        """
        alpha = self.by_sample(self.a).sum(axis=0)
        if isinstance(self.operator, Gram):
            apart = self.w - alpha / self.penalty.lam
            return float(np.sqrt(max(float(apart @ self.operator.apply(apart)), 0.0))) if apart.any() else 0.0
        w, v = self.w, self.operator.adjoint(alpha)
        if self.column:
            w, v = np.append(w, self.b / self.column), np.append(v, self.column * alpha.sum())
        if isinstance(self.penalty, L2):
            return float(np.linalg.norm(w - v / self.penalty.lam))
        best = [self.penalty.prox(float(x), 1.0, j) for j, x in enumerate(w + v)]
        return float(np.linalg.norm(w - best))


def claim_of_losses(task: Task, problem: Problem, point: Point) -> Claim:
    """Of a machine that minimises losses, or their squares; variables that it did not keep follow from its slopes."""
    point = point if point.alpha is not None else problem.completed(point)[0]
    assert point.alpha is not None
    q, D, low, high = (part.ravel() for part in dual_pieces(problem))
    tube, alpha = q.size > task.y.size, point.alpha
    a = np.concatenate([np.maximum(alpha, 0.0), np.minimum(alpha, 0.0)]) if tube else alpha
    return Claim(
        task, problem.operator, problem.penalty, point.w, point.b, a,
        sign=np.repeat([1.0, -1.0], task.y.size) if tube else np.where(task.y > 0.0, 1.0, -1.0),
        reach=np.maximum(high, -low), q=q, D=D,
        sums=((np.ones(a.size, dtype=bool), 0.0),) if problem.free_intercept else (),
        column=problem.penalised_column, tube=tube,
    )  # fmt: skip


def claim_of_street(
    task: Task, problem: BoxQP | HullDistance, w: Float, b: float, alpha: Float, *, hard: bool = False
) -> Claim:
    """Of a function between two hulls that was divided by its margin: what it was before."""
    sign = np.where(task.y > 0.0, 1.0, -1.0)
    total = problem.total if isinstance(problem, HullDistance) else float(problem.totals[0])
    margin = 2.0 * total / float(np.abs(alpha).sum())
    return Claim(
        task, problem.operator if isinstance(problem, HullDistance) else problem.gram, L2(1.0),
        margin * w, margin * b, margin * alpha, sign=sign,
        reach=np.where(task.s > 0.0, np.inf, 0.0) if hard else task.s, q=margin * sign, D=np.zeros(alpha.size),
        sums=((sign > 0.0, total), (sign < 0.0, -total)),
    )  # fmt: skip


def claim_of_tube(
    task: Task, operator: Operator, alpha: Float, b: float, both: Float, epsilon: float, nu: float
) -> Claim:
    """Of a regression that found the width of its tube; ``both`` are variables of its sides with the sums they need.

    Where the expansion itself nearly has these sums, it is taken as it is.
    """
    s, n, total = np.tile(task.s, 2), task.y.size, 0.5 * nu * float(task.s.sum())
    upper, own = np.arange(2 * n) < n, np.concatenate([np.maximum(alpha, 0.0), np.minimum(alpha, 0.0)])
    missing = max(abs(float(own[upper].sum()) - total), abs(float(own[~upper].sum()) + total))
    return Claim(
        task, operator, L2(1.0), alpha, b, own if missing <= NEARLY * total else both, sign=np.where(upper, 1.0, -1.0),
        reach=s, q=np.tile(task.y, 2) - np.where(upper, epsilon, -epsilon), D=np.zeros(2 * n),
        sums=((upper, total), (~upper, -total)), tube=True,
    )  # fmt: skip


def claim_of_one_class(task: Task, operator: Operator, alpha: Float, b: float, nu: float) -> Claim:
    """Of a function that is to be at least ``-b`` on its samples."""
    zeros, everyone = np.zeros(alpha.size), np.ones(alpha.size, dtype=bool)
    total = nu * float(task.s.sum())
    return Claim(
        task, operator, L2(1.0), alpha, b, alpha, sign=np.ones(alpha.size), reach=task.s, q=zeros, D=zeros,
        sums=((everyone, total),),
    )  # fmt: skip
