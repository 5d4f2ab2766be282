"""Gilbert's algorithm for the distance of two hulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problems.hulls import HullDistance
from maxmargin.solvers.hulls.point_pair import PointPair, PointPairSolver
from maxmargin.solvers.solver import Needs


@dataclass(frozen=True)
class Gilbert(PointPairSolver):
    """The oldest method: towards the vertices that lie farthest ahead.

    Problem: the distance of two hulls, reduced or not: ``min |X^T a|^2 / 2``, see `HullDistance`.

    Method: with ``v = X^T a``, find the vertex of either hull that lies farthest ahead along ``v``, so that ``v.u`` is
    smallest for the difference ``u`` of the two, and move to the point of the segment from ``v`` to ``u`` that is
    nearest to the origin. It is the Frank-Wolfe method with exact line search. The street along ``v`` has the width
    ``v.u / |v|``.

    Cost: one iteration is one step: a pass over the data, and for reduced hulls another one over the rows of a vertex.
    It needs ``O(1 / (eps beta^2))`` of them, where ``beta`` is the ratio of the distance and the diameter.

    Reference: Gilbert, "An iterative procedure for computing the minimum of a quadratic form on a convex set", SIAM J.
    Control 1966; Gaertner, Jaggi, "Coresets for polytope distance", SoCG 2009.
    """

    name: ClassVar[str] = "gilbert"
    needs: ClassVar[Needs] = Needs("hulls", clients=True)

    def first_points(self, problem: HullDistance) -> PointPair:
        """The means of both classes."""
        return PointPair.at(problem, problem.equal_shares())

    def step(self, problem: HullDistance, state: PointPair) -> None:
        """Towards two vertices."""
        vertex = problem.extreme(state.p, [border.at for border in state.borders])
        u = problem.operator.adjoint(vertex)
        state.passes += problem.operator.adjoint_passes(vertex)
        gain, length = float(state.v @ (state.v - u)), float((state.v - u) @ (state.v - u))
        share = min(max(gain / length, 0.0), 1.0) if length > 0.0 else 0.0
        state.stuck = share == 0.0
        state.a = (1.0 - share) * state.a + share * vertex
        state.v = (1.0 - share) * state.v + share * u
