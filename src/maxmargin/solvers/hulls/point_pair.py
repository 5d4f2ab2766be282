"""Two points of two hulls, and what the methods that look along the vector between them have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from maxmargin.numerics.inquiries import NO_GUESS, Guess
from maxmargin.numerics.selection import settled
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.protocols import Float
from maxmargin.solvers.solver import Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 100
REFRESH = 100  # steps until rounding is removed from the difference of the points
FIRST_PROOF = 8  # steps before a common point of the hulls is tried for, then after twice as many


@dataclass
class PointPair(State):
    """Two points of the hulls, the vector ``v = X^T a`` between them, and the scores ``p = X v`` of the rows along it.

    The best direction is the ``v`` so far whose street was widest.
    """

    a: Float
    v: Float
    p: Float
    best_w: Float
    best_p: Float
    width: float = -math.inf  # of the best street so far
    distance: float = math.inf
    next_proof: int = FIRST_PROOF
    borders: tuple[Guess, Guess] = (NO_GUESS, NO_GUESS)  # of the street along ``v``, as `HullDistance.nearest` has them
    stuck: bool = False

    @classmethod
    def at(cls, problem: HullDistance, a: Float) -> PointPair:
        """The state of given variables."""
        v = problem.operator.adjoint(a)
        scores = np.zeros(a.size)
        pair = cls(a, v, scores, v, scores, passes=1.0)
        pair.look(problem)
        return pair

    def look(self, problem: HullDistance) -> None:
        """See how wide the street along ``v`` is; where there is none, try to make the points meet.

        Sets: ``p, passes, distance``, and the best direction.
        """
        self.p = problem.operator.apply(self.v)
        self.passes += 1.0
        self.distance, vanishes = float(np.linalg.norm(self.v)), problem.vanishes(self.v)
        (first, border), (second, other) = settled(problem.communicator, problem.nearest(self.p, self.borders))
        self.borders = self.borders[0].then(border), self.borders[1].then(other)
        width = (first + second) / self.distance if self.distance > 0.0 else 0.0
        if width > self.width:
            self.width, self.best_w, self.best_p = width, self.v, self.p
        due = self.width <= 0.0 and self.iterations >= self.next_proof
        if self.distance > 0.0 and (vanishes or due):
            self.next_proof *= 2
            common, passes = problem.common_point(self.a)
            self.passes += passes
            if common is not None:
                self.a, self.distance = common, 0.0
            else:
                self.stuck |= vanishes

    @property
    def estimate(self) -> tuple[float, float]:
        """Minus half of the squares of the best width and of the distance."""
        return -0.5 * max(self.width, 0.0) ** 2, -0.5 * self.distance**2

    @property
    def exhausted(self) -> bool:
        """Whether the points meet, or nothing can move."""
        return self.stuck or self.distance == 0.0


class PointPairSolver(Solver[HullDistance, PointPair]):
    """Moves two points of the hulls step by step, and looks along the vector between them after each."""

    @abstractmethod
    def first_points(self, problem: HullDistance) -> PointPair:
        """Where to start from if nothing is known."""

    @abstractmethod
    def step(self, problem: HullDistance, state: PointPair) -> None:
        """Move the points. Sets: ``a, v, stuck, passes``."""

    def start(self, problem: HullDistance, warm: Point | None) -> PointPair:
        """The points of a point, or the first ones."""
        if warm is not None and warm.alpha is not None:
            return PointPair.at(problem, problem.feasible(warm.alpha))
        return self.first_points(problem)

    def advance(self, problem: HullDistance, state: PointPair, limit: int) -> PointPair:
        """Some steps."""
        for _ in range(min(max(1, ROUND_WORK // max(1, problem.operator.entries)), MAX_STEPS_PER_ROUND, limit)):
            if state.exhausted:
                break
            state.iterations += 1
            self.step(problem, state)
            if state.iterations % REFRESH == 0:
                state.v = problem.operator.adjoint(state.a)
                state.passes += 1.0
            state.look(problem)
        return state

    def point(self, problem: HullDistance, state: PointPair) -> Point:
        """The best direction at its best length, the middle of its street, and the present points."""
        size = float(np.linalg.norm(state.best_w))
        scale = state.width / size if state.width > 0.0 else 1.0
        first, last = problem.edges(state.best_p)
        return Point(scale * state.best_w, -0.5 * scale * (first + last), state.a)
