"""HullDistance: the nearest points of two convex hulls, or of two reduced ones. The hard margin and nu-SVM, linear.

    minimise  1/2 |X^T a|^2  subject to  0 <= y_i a_i <= cap_i,  sum of y_i a_i over each class = total

With ``total = 1`` the rows of each class are mixed to one point of their hull, reduced if ``cap < 1``, and ``X^T a`` is
the difference of the two points. Every direction ``w`` proves a bound: between the hulls there is a street of the width
``street(w) / |w|``, and no two points of them are closer. Primal and dual value are minus half of the squares,

    P(w) = min_t [t^2 |w|^2 / 2 - t street(w)] = -(street(w) / |w|)^2 / 2,    D(a) = -|X^T a|^2 / 2,

so the primal does not depend on the length of ``w``, and both are 0 if the hulls have a point in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin._jit import compiled
from maxmargin.communicators import ALONE
from maxmargin.protocols import Communicator, Features, Float, Index
from maxmargin.quadratic import with_sum
from maxmargin.solution import Certificate, Point

VANISHING = 1e-12  # a distance this small beside the lengths of the rows is rounding: the hulls meet
MAX_FEATURES = 2000  # for the matrix of their size with which a common point is found
CORRECTIONS = 20  # on the way to a common point, at most
MOST_OF_THE_WAY, SHORTEST_STEP = 0.9, 0.1  # to the bound that is met first; below, there is no way


@dataclass(frozen=True, eq=False)
class HullDistance:
    """The distance of the hulls of two classes of rows, each row's share in its class at most ``cap / total``."""

    operator: Features
    y: Float  # -1 or 1
    cap: Float  # rows of cap 0 take no part
    total: float = 1.0

    def __post_init__(self) -> None:
        for side in self.sides:
            reach = float(self.cap[side].sum())
            if not reach >= self.total * (1.0 - 1e-12):
                raise ValueError(
                    f"The caps of a class sum to {reach:g}, which must be at least {self.total:g}: raise them, or add "
                    "rows."
                )

    @property
    def communicator(self) -> Communicator:
        """To the clients that have the other rows, if there are any."""
        return getattr(self.operator, "communicator", ALONE)

    @cached_property
    def sides(self) -> tuple[Index, Index]:
        """The rows of the positive and of the negative class that take part."""
        return np.flatnonzero((self.y > 0.0) & (self.cap > 0.0)), np.flatnonzero((self.y < 0.0) & (self.cap > 0.0))

    @cached_property
    def hard(self) -> bool:
        """Whether every row may be a point of its hull alone."""
        return all(bool((self.cap[side] >= self.total).all()) for side in self.sides)

    @property
    def separable(self) -> bool:
        """Whether directions and points of the hulls are judged independently of each other."""
        return True

    def certify(self, point: Point) -> Certificate:
        """Minus half of the squared width of the street along ``point.w``, and of the distance at ``point.alpha``."""
        if point.alpha is None:
            raise ValueError("The distance of two hulls is certified at two of their points: the point needs alpha.")
        if not (np.isfinite(point.w).all() and np.isfinite(point.alpha).all()):
            return Certificate(math.inf, -math.inf)
        a = self.feasible(point.alpha)
        s, z = self.operator.products(point.w, a)
        dual = -0.5 * float(z @ z)
        if self.vanishes(z):
            dual = 0.0
        return Certificate(self.primal(point.w, s), dual, self.operator.products_passes)

    def primal(self, w: Float, s: Float) -> float:
        """Value of a direction with the scores ``s = X w``."""
        street, length = self.street(s), float(np.linalg.norm(w))
        return -0.5 * (street / length) ** 2 if street > 0.0 and length > 0.0 else 0.0

    def street(self, s: Float) -> float:
        """The smallest value of ``s.a`` over all ``a``: how far the two hulls are apart in scores."""
        return float(sum(_least(self.y[side] * s[side], self.cap[side], self.total)[0] for side in self.sides))

    def extreme(self, s: Float) -> Float:
        """The ``a`` for which ``s.a`` is smallest: a vertex of the reduced hull on either side of the street."""
        a = np.zeros(self.y.size)
        for side in self.sides:
            t = self.y[side] * s[side]
            _, border = _least(t, self.cap[side], self.total)
            a[side] = self.y[side] * _filled(t, self.cap[side], self.total, border)
        return a

    def edges(self, s: Float) -> tuple[float, float]:
        """The scores between which the street lies: of the last row that is used fully or in part, on either side."""
        first, last = (_least(self.y[side] * s[side], self.cap[side], self.total)[1] for side in self.sides)
        return first, -last

    def equal_shares(self) -> Float:
        """The means of both classes, as far as the caps allow."""
        a = np.zeros(self.y.size)
        for side in self.sides:
            a[side] = self.y[side] * self.total / side.size
        return self.feasible(a)

    def feasible(self, alpha: Float) -> Float:
        """``alpha`` clipped to the caps, each class moved to its total."""
        a = np.zeros(self.y.size)
        for side in self.sides:
            cap = self.cap[side]
            shares = np.clip(self.y[side] * alpha[side], 0.0, cap)
            a[side] = self.y[side] * with_sum(shares, np.zeros_like(cap), cap, self.total)
        return a

    @cached_property
    def squared_lengths(self) -> Float:
        """Squared norms of the rows."""
        return self.operator.squared_lengths()

    @property
    def reach(self) -> float:
        """Length of the longest row that takes part."""
        return math.sqrt(max(float(self.squared_lengths[side].max()) for side in self.sides))

    def vanishes(self, z: Float) -> bool:
        """Whether a difference of two points is nothing but rounding."""
        return float(np.linalg.norm(z)) <= VANISHING * self.total * self.reach

    def common_point(self, a: Float) -> tuple[Float | None, float]:
        """Variables near ``a`` whose two points are the same, or ``None``; and the passes over the data that it took.

        Steps towards the smallest change in the sense of ``sum_i change_i^2 / room_i``, where the room is that of ``a``
        between its bounds, and not quite to the first bound that is met. They begin at ``a``, and if that has no room,
        nearer to equal shares. Around points inside of both hulls they end in the proof that nothing separates them.
        """
        passes = 0.0
        if self.operator.n_features <= MAX_FEATURES:
            for start in (a, 0.5 * (a + self.equal_shares())):
                near = start
                for _ in range(CORRECTIONS):
                    change, step, cost = self._towards_a_common_point(near)
                    near, passes = near + step * change, passes + cost
                    if step == 1.0 and self.vanishes(self.operator.adjoint(near)):
                        return near, passes
                    if step < SHORTEST_STEP:
                        break
        return None, passes

    def _towards_a_common_point(self, a: Float) -> tuple[Float, float, float]:
        """The smallest change of ``a`` that makes its points equal, how much of it to take, and the passes it took."""
        share = self.y * a
        room = share * np.maximum(self.cap - share, 0.0)
        d, ones = self.operator.n_features, np.column_stack([self.y > 0.0, self.y < 0.0]).astype(float)
        H = np.zeros((d + 2, d + 2))
        H[:d, :d] = self.operator.weighted_gram(room)
        H[d:, :d] = self.operator.adjoint_each(room[:, None] * ones)
        H[:d, d:] = H[d:, :d].T
        H[d:, d:] = np.diag(room @ ones)
        size = np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
        inverse = np.linalg.pinv(H / np.outer(size, size), rcond=1e-13, hermitian=True)
        excess = np.concatenate([self.operator.adjoint(a), ones.T @ a - self.total * np.array([1.0, -1.0])])
        u = inverse @ (excess / size) / size
        change = -room * (self.operator.apply(u[:d]) + ones @ u[d:])
        move = self.y * change
        distance = np.where(move > 0.0, self.cap - share, share)  # to the bound ahead
        bounded = np.abs(move) > 0.0
        reach = float((distance[bounded] / np.abs(move[bounded])).min(initial=np.inf))
        return change, 1.0 if reach > 1.0 else MOST_OF_THE_WAY * reach, 3.0 + self.operator.gram_passes(room)


@dataclass
class PointPair:
    """Two points of the hulls, ``z = X^T a`` between them, ``p = X z``: the state of methods that look along ``z``."""

    a: Float
    z: Float
    p: Float
    width: float = -math.inf  # of the best street so far
    best_w: Float = None  # type: ignore[assignment]
    best_p: Float = None  # type: ignore[assignment]
    distance: float = math.inf
    iterations: int = 0
    passes: float = 0.0
    next_proof: int = 8  # iterations before a common point is tried for, then after twice as many
    stuck: bool = False
    certificate_passes: float = 2.0

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

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data."""
        return {"passes": self.passes}


@compiled
def _least(t: Float, cap: Float, total: float) -> tuple[float, float]:
    """The smallest ``sum_i b_i t_i`` over ``0 <= b <= cap`` of sum ``total``, and the largest ``t_i`` that it uses.

    The smallest ``t_i`` are used first. They are found by selection, in time proportional to their number.
    """
    order = np.arange(t.shape[0])
    low, high = 0, t.shape[0]
    value, missing, border = 0.0, total, 0.0
    while low < high:
        first, middle, last = t[order[low]], t[order[(low + high) // 2]], t[order[high - 1]]
        border = max(min(first, middle), min(max(first, middle), last))
        # Three parts: smaller than the pivot, equal to it, larger.
        smaller, k, larger = low, low, high
        weight, moment, equal = 0.0, 0.0, 0.0
        while k < larger:
            i = order[k]
            if t[i] < border:
                order[k], order[smaller] = order[smaller], i
                weight += cap[i]
                moment += cap[i] * t[i]
                smaller += 1
                k += 1
            elif t[i] > border:
                larger -= 1
                order[k], order[larger] = order[larger], i
            else:
                equal += cap[i]
                k += 1
        if weight >= missing:
            high = smaller
        elif weight + equal >= missing:
            return value + moment + (missing - weight) * border, border
        else:
            value += moment + equal * border
            missing -= weight + equal
            low = larger
    return value + missing * border, border


@compiled
def _filled(t: Float, cap: Float, total: float, border: float) -> Float:
    """All that is allowed where ``t`` is below the border, and what is missing on it, in the order of the rows."""
    b = np.zeros(t.shape[0])
    missing = total
    for i in range(t.shape[0]):
        if t[i] < border:
            b[i] = min(cap[i], missing)
            missing -= b[i]
    for i in range(t.shape[0]):
        if t[i] == border:
            b[i] = min(cap[i], missing)
            missing -= b[i]
    return b
