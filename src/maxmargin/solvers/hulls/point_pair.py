"""Two points of two hulls: the state of methods that look along the vector between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.protocols import Float
from maxmargin.solvers.solver import State


@dataclass
class PointPair(State):
    """Two points of the hulls, ``z = X^T a`` between them, ``p = X z``: the state of methods that look along ``z``."""

    a: Float
    z: Float
    p: Float
    width: float = -math.inf  # of the best street so far
    best_w: Float = None  # type: ignore[assignment]
    best_p: Float = None  # type: ignore[assignment]
    distance: float = math.inf
    next_proof: int = 8  # iterations before a common point is tried for, then after twice as many
    stuck: bool = False

    @classmethod
    def at(cls, problem: HullDistance, a: Float) -> PointPair:
        """The state of given variables."""
        z = problem.operator.adjoint(a)
        pair = cls(a, z, z, best_w=z)
        pair.passes = 1.0
        pair.look(problem)
        return pair

    def look(self, problem: HullDistance) -> None:
        """See how wide the street along ``z`` is; where there is none, try to make the points meet.

        Sets: ``p, passes, distance``, and the best direction.
        """
        self.p = problem.operator.apply(self.z)
        self.passes += 1.0
        self.distance = 0.0 if problem.vanishes(self.z) else float(np.linalg.norm(self.z))
        width = problem.street(self.p) / self.distance if self.distance > 0.0 else 0.0
        if width > self.width:
            self.width, self.best_w, self.best_p = width, self.z, self.p
        if self.width <= 0.0 and self.iterations >= self.next_proof and self.distance > 0.0:
            self.next_proof *= 2
            common, passes = problem.common_point(self.a)
            self.passes += passes
            if common is not None:
                self.a, self.distance = common, 0.0

    def point(self, problem: HullDistance) -> Point:
        """The best direction at its best length, the middle of its street, and the points."""
        size = float(np.linalg.norm(self.best_w))
        scale = self.width / size if self.width > 0.0 else 1.0
        first, last = problem.edges(self.best_p)
        return Point(scale * self.best_w, -0.5 * scale * (first + last), self.a)

    @property
    def estimate(self) -> tuple[float, float]:
        """Minus half of the squares of the best width and of the distance."""
        return -0.5 * max(self.width, 0.0) ** 2, -0.5 * self.distance**2

    @property
    def exhausted(self) -> bool:
        """Whether the points meet, or nothing can move."""
        return self.stuck or self.distance == 0.0
