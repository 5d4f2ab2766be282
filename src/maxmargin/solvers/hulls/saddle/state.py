"""Where Saddle-SVC stands: the rows that take part, their shares, the direction, and the best of all so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.numerics.inquiries import Guess
from maxmargin.numerics.selection import TRIES, Request, SoftLeast, settled
from maxmargin.operators import Columns
from maxmargin.operators.hadamard import RandomisedHadamard
from maxmargin.problems.hulls import HullDistance
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.solver import State

ABSENT = -1e300  # logarithm of the share of a row that takes no part
HALVED = 0.5  # a gap worth a look at all rows
PATIENCE, PATIENCE_WITH_ALL = 50, 4  # steps between two looks at all rows; while all take part, a look is cheap
FIRST_PROOF = 8  # steps before a common point is tried for, then after twice as many


@dataclass
class Block:
    """The coordinates that the next step on a block moves, and what it needs of their columns."""

    columns: Columns
    order: Index  # of all coordinates; the block is drawn to its front
    random: Array
    coordinates: Index = field(init=False)
    signed: Float = field(init=False)  # shares at the last step
    products: Float = field(init=False)  # of the columns of the block with the shares, and with those before

    def __post_init__(self) -> None:
        self.coordinates, self.signed, self.products = self.order[:0], np.zeros(0), np.zeros((2, 0))


@dataclass
class SaddleState(State):
    """The rows that take part, their shares, and the direction.

    On the rows that take part, ``z = X w`` are the scores, ``v = X^T a`` is the difference of the two points, and
    ``p = X v`` are the scores along it. With several clients, ``w, v`` and all numbers are the same for each; what has
    an entry for each row is local.
    """

    game: HullDistance  # with sums of 1
    members: Index
    rotation: RandomisedHadamard | None
    total: float
    active: int  # rows that take part
    block: Block | None  # of coordinates, unless all move at once
    log_caps: Float = field(init=False)
    logs: Float = field(init=False)  # of shares
    w: Float = field(init=False)
    z: Float = field(init=False)
    v: Float = field(init=False)
    p: Float = field(init=False)
    v_before: Float = field(init=False)
    p_before: Float = field(init=False)
    # Of either class, each with its last change: by how much logarithms of shares were shifted, the same of the
    # regularised problem, and the edges in scores of the street between the rows that take part.
    shifts: Float = field(init=False)
    soft_shifts: Float = field(init=False)
    borders: Float = field(init=False)
    best_w: Float = field(init=False)
    best_z: Float = field(init=False)
    best_members: Index = field(init=False)
    best_shares: Float = field(init=False)
    entropy: float = 0.0  # sum of shares and their logarithms
    gamma: float = 0.0
    lipschitz: float = 0.0
    radius: float = 0.0  # of the rows around the middle; for blocks, of the rows within a block
    gap: float = math.inf  # of the present pair, not scaled
    regularised_gap: float = math.inf  # the same with gamma
    width: float = -math.inf  # of the best street
    distance: float = math.inf  # of the best points
    lost: bool = False  # whether the steps have left the range of float64
    inner_width: float = -math.inf  # the same on the rows that take part, since all were looked at
    inner_distance: float = math.inf
    gap_at_look: float = 1.0
    since_look: int = 0
    next_proof: int = FIRST_PROOF
    portion: float = 1.0  # of the data that takes part

    def __post_init__(self) -> None:
        self.rows = self.game.operator
        self.log_caps = _log_caps(self.game)
        self.w = self.v = self.v_before = self.best_w = np.zeros(self.rows.n_features)
        self.logs = self.z = self.p = self.p_before = self.best_z = self.best_shares = np.zeros(self.members.size)
        self.best_members = self.members
        self.shifts = self.soft_shifts = self.borders = np.full((2, 2), math.nan)

    @property
    def a(self) -> Float:
        """Signed shares."""
        return self.game.y * np.exp(self.logs)

    @property
    def tries(self) -> int:
        """Places that clients try at a time: one, as little as they can send, where steps are as small."""
        return TRIES if self.block is None else 1

    def guesses(self, known: Float) -> list[Guess]:
        """Where numbers of both classes may be next."""
        return [Guess(at, change) for at, change in known.T.tolist()]

    @property
    def complete(self) -> bool:
        """Whether all rows take part."""
        return self.game.operator is self.rows

    @property
    def relative_gap(self) -> float:
        """Between the squares of the best width and the best distance."""
        return _relative(self.width, self.distance)

    @property
    def look_is_due(self) -> bool:
        """Whether the gap has halved on the rows that take part, or they have been among themselves for long."""
        tired = self.since_look >= (PATIENCE_WITH_ALL if self.complete else PATIENCE)
        return tired or _relative(self.inner_width, self.inner_distance) <= HALVED * self.gap_at_look

    @property
    def estimate(self) -> tuple[float, float]:
        """Minus half of the squares of the best width and the best distance."""
        return -0.5 * (self.total * max(self.width, 0.0)) ** 2, -0.5 * (self.total * self.distance) ** 2

    @property
    def exhausted(self) -> bool:
        """Whether the hulls have been found to meet, or the steps lead nowhere."""
        return self.lost or self.distance == 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, the present gamma and the rows that take part."""
        return {"passes": self.passes, "gamma": self.gamma, "active": float(self.active)}

    def measure(self, problem: HullDistance) -> None:
        """Both points, what is between them, and how far rows lie from the middle.

        Sets: ``v, p, radius, lipschitz``, the direction between the points as the present and the best one.
        """
        y = problem.y
        means = self.rows.adjoint_each(np.exp(self.logs)[:, None] * np.column_stack([y > 0.0, y < 0.0]))
        self.v, middle = means[0] - means[1], 0.5 * (means[0] + means[1])
        products = self.rows.apply_each(np.stack([self.v, middle]))
        self.p, around = np.ascontiguousarray(products[:, 0]), products[:, 1]
        squares = problem.squared_lengths - 2.0 * around + float(middle @ middle)
        self.radius = math.sqrt(max(problem.largest(float(squares[problem.cap > 0.0].max(initial=0.0))), 0.0))
        if self.block is not None:
            entry = float(np.abs(self.block.columns.vectors[0]).max(initial=0.0))
            self.radius = min(math.sqrt(self.block.coordinates.size) * problem.largest(entry), problem.reach)
        self.radius = self.radius or 1.0
        size = float(np.linalg.norm(self.v))
        spread = max(self._deviations(self.p / size)) if size > 0.0 else 0.0
        self.lipschitz = max(spread, 1e-3 * self.radius)
        self.w = self.best_w = self.v_before = self.v
        self.z = self.best_z = self.p_before = self.p
        self.passes += 3.0

    def _deviations(self, z: Float) -> list[float]:
        """Standard deviation of some scores in each class."""
        game, sizes = self.game, np.array(self.game.sizes)
        own = [z[side] for side in game.sides]
        means = game.communicator.allreduce(np.array([p.sum() for p in own])) / sizes
        squares = [((p - mean) ** 2).sum() for p, mean in zip(own, means, strict=True)]
        return np.sqrt(game.communicator.allreduce(np.array(squares)) / sizes).tolist()

    def judge(self, problem: HullDistance, regularised: bool) -> None:
        """Distance of the present points, width of the street along ``w``, and the gap between them.

        Sets: ``gap`` and, if asked for, that of the problem with ``gamma``: zero once the steps have nothing more to do
        at this one; what is known of the rows that take part, and the best of both if all rows do.
        """
        distance, size = float(np.linalg.norm(self.v)), float(np.linalg.norm(self.w))
        requests: list[Request[Any]] = [*self.game.nearest(self.z, self.guesses(self.borders))]
        if regularised and self.gamma > 0.0:
            t, hard = self.game.y * self.z, self.game.hard
            for side, shift in zip(self.game.sides, self.guesses(self.soft_shifts), strict=True):
                requests.append(SoftLeast(t[side], self.log_caps[side], self.gamma, hard, shift))
        (first, edge), (second, other_edge), *soft = settled(self.game.communicator, requests, self.tries)
        street, self.borders = first + second, moved(self.borders, [edge, other_edge])
        self.soft_shifts = moved(self.soft_shifts, [shift for _, shift in soft]) if soft else self.soft_shifts
        self.regularised_gap = (
            0.5 * (distance**2 + size**2) + self.gamma * self.entropy - sum(value for value, _ in soft)
        )
        width = street / size if size > 0.0 else 0.0
        self.gap = 0.5 * distance**2 + 0.5 * size**2 - street
        self.inner_width, self.inner_distance = max(self.inner_width, width), min(self.inner_distance, distance)
        if distance < self.distance:
            self.distance = distance
            self.best_members, self.best_shares = self.members, np.exp(self.logs)
            if problem.vanishes(problem.total * self.v):
                self.try_to_meet(problem)
        if self.complete and width > self.width:
            self.width, self.best_w, self.best_z = width, self.w, self.z

    def difference(self) -> None:
        """Of the two points. Sets: ``v, entropy``."""
        shares = np.exp(self.logs)
        self.v, sums = self.game.adjoint_and_sums(self.game.y * shares, np.array([shares @ self.logs]))
        self.entropy = float(sums[0])

    def choose(self, problem: HullDistance, members: Index) -> None:
        """Go on with some of the rows. Sets: ``game, members, log_caps, portion``."""
        cap = np.minimum(problem.cap[members] / problem.total, 1.0)
        del self.game  # or there would be two copies for a while
        rows = self.rows.take(members) if self.active < problem.total_samples else self.rows
        self.game = HullDistance(rows, problem.y[members], cap)
        self.members, self.log_caps = members, _log_caps(self.game)
        self.portion = self.game.operator.entries / max(1, self.rows.entries)

    def begin_anew(self) -> None:
        """With other rows or shares. Sets: what follows from ``logs`` and ``w``."""
        self.difference()
        products = self.game.operator.apply_each(np.stack([self.v, self.w]))
        self.p, self.z = np.ascontiguousarray(products[:, 0]), np.ascontiguousarray(products[:, 1])
        self.v_before, self.p_before = self.v, self.p
        self.passes += 2.0 * self.portion

    def try_to_meet(self, problem: HullDistance) -> None:
        """Find a common point of the hulls near the present ones. Sets: the best points, if there is one."""
        self.next_proof = 2 * self.iterations
        a = np.zeros(problem.y.size)
        a[self.members] = problem.total * self.a
        common, passes = problem.common_point(a)
        self.passes += passes
        if common is not None:
            self.distance = 0.0
            self.best_members, self.best_shares = np.arange(problem.y.size), np.abs(common) / problem.total


def moved(before: Float, now: list[float]) -> Float:
    """Numbers of both classes, with how far they have moved."""
    at = np.array(now)
    return np.stack([at, np.abs(at - before[0])])


def _relative(width: float, distance: float) -> float:
    return max(1.0 - (max(width, 0.0) / distance) ** 2, 0.0) if distance > 0.0 else 0.0


def _log_caps(game: HullDistance) -> Float:
    return np.log(np.maximum(game.cap, math.exp(-700.0)))
