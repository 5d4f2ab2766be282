"""Pairwise Frank-Wolfe steps for the distance of two hulls: the method of Mitchell, Dem'yanov and Malozemov."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problems.hulls import HullDistance
from maxmargin.protocols import Float
from maxmargin.solvers.hulls.point_pair import PointPair, PointPairSolver
from maxmargin.solvers.solver import Needs

DUST = 1e-14  # of a class: too little weight, or too little room, for a step


@dataclass(frozen=True)
class FrankWolfe(PointPairSolver):
    """Weight moves from the worst row that has some to the best row that can take it.

    Problem: the distance of two hulls, reduced or not: ``min |X^T a|^2 / 2``, see `HullDistance`.

    Method: with ``v = X^T a``, take in each class the row ``j`` below its cap that lies farthest ahead along ``v``, and
    the row ``i`` with some weight that lies farthest behind; in the class where they differ more, move weight from
    ``i`` to ``j``, as much as brings the points nearest to each other. Unlike Gilbert's steps, these reach the optimum
    at a linear rate: a row is left by one step, not by ever smaller shares.

    Cost: one iteration is one step: a pass over the data. Reduced hulls need at least as many as there are rows at caps
    that change.

    Reference: Mitchell, Dem'yanov, Malozemov, "Finding the point of a polyhedron closest to the origin", SIAM J.
    Control 1974; Lacoste-Julien, Jaggi, "On the global linear convergence of Frank-Wolfe variants", NIPS 2015.
    """

    name: ClassVar[str] = "frank_wolfe"
    needs: ClassVar[Needs] = Needs("hulls")

    def first_points(self, problem: HullDistance) -> PointPair:
        """The vertices that face each other across the street between the means."""
        means = problem.operator.apply(problem.operator.adjoint(problem.equal_shares()))
        state = PointPair.at(problem, problem.extreme(means))
        state.passes += 2.0
        return state

    def step(self, problem: HullDistance, state: PointPair) -> None:
        """The best exchange, as far as it gains and there is weight to move."""
        change, slope = _best_exchange(problem, state)
        move = problem.operator.adjoint(change)
        length = float(move @ move)
        room = np.where(problem.y * change > 0.0, problem.cap - problem.y * state.a, problem.y * state.a)
        most = float(room[change != 0.0].min(initial=np.inf))
        step = min(slope / length, most) if length > 0.0 else 0.0
        state.stuck = step <= 0.0
        if not state.stuck:
            state.a, state.v = state.a + step * change, state.v + step * move


def _best_exchange(problem: HullDistance, state: PointPair) -> tuple[Float, float]:
    """The exchange of weight between two rows of a class that gains most, and how much per unit."""
    change, slope = np.zeros(problem.y.size), 0.0
    for side in problem.sides:
        shares = problem.y[side] * state.a[side]
        dust = DUST * problem.total
        takers, givers = side[shares < problem.cap[side] - dust], side[shares > dust]
        if not takers.size or not givers.size:  # equal shares are all that the caps allow
            continue
        into = takers[np.argmin(problem.y[takers] * state.p[takers])]
        out_of = givers[np.argmax(problem.y[givers] * state.p[givers])]
        gain = float(problem.y[into] * (state.p[out_of] - state.p[into]))
        if gain > slope:
            change[:], slope = 0.0, gain
            change[into], change[out_of] = problem.y[into], -problem.y[out_of]
    return change, slope
