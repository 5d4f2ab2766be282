"""Gilbert's algorithm for the distance of two hulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.solvers.hulls.point_pair import PointPair
from maxmargin.solvers.solver import Needs, Solver

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 100
REFRESH = 100  # steps until rounding is removed from the difference of the points


@dataclass(frozen=True)
class Gilbert(Solver[HullDistance, "PointPair"]):
    """The oldest method: towards the vertices that lie farthest ahead.

    Problem: the distance of two hulls, reduced or not: ``min |X^T a|^2 / 2``, see `HullDistance`.

    Method: with ``z = X^T a``, find the vertex pair ``v`` of the hulls for which ``z.v`` is smallest, and move to the
    point of the segment from ``z`` to ``v`` that is nearest to the origin. It is the Frank-Wolfe method with exact line
    search. The street along ``z`` has the width ``z.v / |z|``.

    Cost: one iteration is one step: a pass over the data, and for reduced hulls another one over the rows of a vertex.
    It needs ``O(1 / (eps beta^2))`` of them, where ``beta`` is the ratio of the distance and the diameter.

    Reference: Gilbert, "An iterative procedure for computing the minimum of a quadratic form on a convex set", SIAM J.
    Control 1966; Gaertner, Jaggi, "Coresets for polytope distance", SoCG 2009.
    """

    name: ClassVar[str] = "gilbert"
    needs: ClassVar[Needs] = Needs("hulls", clients=True)

    def start(self, problem: HullDistance, warm: Point | None) -> PointPair:
        """The means of both classes, or the points of a point."""
        given = warm is not None and warm.alpha is not None
        return PointPair.at(problem, problem.feasible(warm.alpha) if given else problem.equal_shares())  # type: ignore[union-attr, arg-type]

    def advance(self, problem: HullDistance, state: PointPair, limit: int) -> PointPair:
        """Some steps."""
        for _ in range(min(max(1, ROUND_WORK // max(1, problem.operator.entries)), MAX_STEPS_PER_ROUND, limit)):
            if state.exhausted:
                break
            state.iterations += 1
            vertex = problem.extreme(state.p)
            v = problem.operator.adjoint(vertex)
            state.passes += problem.operator.adjoint_passes(vertex)
            gain, length = float(state.z @ (state.z - v)), float((state.z - v) @ (state.z - v))
            step = min(max(gain / length, 0.0), 1.0) if length > 0.0 else 0.0
            state.stuck = step == 0.0
            state.a = (1.0 - step) * state.a + step * vertex
            state.z = (1.0 - step) * state.z + step * v
            if state.iterations % REFRESH == 0:
                state.z = problem.operator.adjoint(state.a)
                state.passes += 1.0
            state.look(problem)
        return state

    def point(self, problem: HullDistance, state: PointPair) -> Point:
        """The best direction and the present points."""
        return state.point(problem)
