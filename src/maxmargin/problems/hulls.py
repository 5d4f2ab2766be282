"""HullDistance: the nearest points of two convex hulls, or of two reduced ones. The hard margin and nu-SVM, linear.

    minimise  1/2 |X^T a|^2  subject to  0 <= y_i a_i <= cap_i,  sum of y_i a_i over each class = total

With ``total = 1`` the rows of each class are mixed to one point of their hull, reduced if ``cap < 1``. The difference
of the two points is ``v = X^T a``; ``z = X w`` are, as everywhere, scores. Every direction ``w`` proves a bound:
between the hulls there is a street of the width ``street(z) / |w|``, and no two points of them are closer. Primal and
dual value are minus half of the squares,

    P(w) = min_t [t^2 |w|^2 / 2 - t street(z)] = -(street(z) / |w|)^2 / 2,    D(a) = -|v|^2 / 2,

so the primal does not depend on the length of ``w``, and both are 0 if the hulls have a point in common.

The rows may be spread over clients (`Sharded`): ``y``, ``cap``, ``a`` and scores are then those of the rows here, and
all clients call the same methods, which say the same to all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from maxmargin.communicators import ALONE
from maxmargin.numerics.inquiries import NO_GUESS, Guess
from maxmargin.numerics.rounding import growth
from maxmargin.numerics.selection import Least, settled
from maxmargin.operators import Rows, Sharded
from maxmargin.operators.rows import dense64
from maxmargin.problems.point import UNKNOWN, Certificate, ConvexProblem, Point, Status
from maxmargin.problems.rounding import certificate_of
from maxmargin.protocols import Communicator, Features, Float, Index

VANISHING = 1e-12  # a distance this small beside the lengths of the rows is rounding: the hulls meet
MAX_FEATURES = 2000  # for the matrix of their size with which a common point is found
CORRECTIONS = 20  # on the way to a common point, at most
ROWS_AT_ONCE = 256  # that are made dense to prove that two points are the same
MOST_OF_THE_WAY, SHORTEST_STEP = 0.9, 0.1  # to the bound that is met first; below, there is no way


@dataclass(frozen=True, eq=False)
class HullDistance(ConvexProblem):
    """The distance of the hulls of two classes of rows, each row's share in its class at most ``cap / total``."""

    operator: Features
    y: Float  # -1 or 1
    cap: Float  # rows of cap 0 take no part
    total: float = 1.0
    census: Float = field(init=False, repr=False)  # of each class: sum of caps, rows, rows whose cap is below the total

    def __post_init__(self) -> None:
        # What rounds are needed for is no cached_property: before Python 3.12 those hold a lock, in which clients that
        # are threads would wait for each other.
        object.__setattr__(self, "census", self._count())
        for reach in self.census[:, 0].tolist():
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

    def _count(self) -> Float:
        """The census over all clients."""
        caps = [self.cap[side] for side in self.sides]
        return self.communicator.allreduce(
            np.array([[cap.sum(), cap.size, np.count_nonzero(cap < self.total)] for cap in caps], dtype=np.float64)
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows of each class take part."""
        first, second = self.census[:, 1].tolist()
        return int(first), int(second)

    @property
    def total_samples(self) -> int:
        """Rows of all clients."""
        return getattr(self.operator, "total_samples", self.y.size)

    @property
    def hard(self) -> bool:
        """Whether every row may be a point of its hull alone."""
        return not self.census[:, 2].any()

    def conclusion(self, certificate: Certificate) -> Status | None:
        """That the hulls meet, if two of their points are the same."""
        return Status.NOT_SEPARABLE if certificate.dual >= 0.0 else None

    def fits(self, point: Point) -> bool:
        """Whether a point has a direction of the features, and a variable for each row."""
        d, n = self.operator.n_features, self.operator.n_samples
        return point.w.size == d and point.alpha is not None and point.alpha.size == n

    def certify(self, point: Point) -> Certificate:
        """Minus half of the squared width of the street along ``point.w``, and of the distance at ``point.alpha``."""
        if point.alpha is None:
            raise ValueError("The distance of two hulls is certified at two of their points: the point needs alpha.")
        sound = np.isfinite(point.w).all() and np.isfinite(point.alpha).all()
        if self.communicator.allreduce(np.array([float(sound)]))[0] < self.communicator.size:
            return UNKNOWN
        a = self.feasible(point.alpha)
        z, v = self.operator.products(point.w, a)
        passes = self.operator.products_passes
        length, slack = float(np.linalg.norm(v)), float(np.linalg.norm(self.rounding(a)))
        if length <= slack and self.coincide(a):
            return Certificate(0.0, 0.0, passes=passes)  # and no direction has a street
        dual_error = (0.5 * slack + length) * slack + growth(v.size) * length**2
        return certificate_of(
            self.primal(point.w, z), -0.5 * float(v @ v), self.primal_error(point.w, z), dual_error, passes
        )

    def rounding(self, a: Float) -> Float:
        """A bound on the error of each entry of ``X^T a``, and on what it lacks where a sum is not quite its total."""
        return self._relative_rounding(a, self.operator.terms()[1]) * self.operator.column_lengths()

    def _relative_rounding(self, a: Float, terms: int) -> float:
        """The same for a column of length 1 and sums of so many terms."""
        own = np.array([[a[side].sum(), np.abs(a[side]).sum()] for side in self.sides])
        *sums, squares = self.communicator.allreduce(np.append(own, a @ a)).tolist()
        n = self.total_samples
        pairs = zip(sums[::2], sums[1::2], strict=True)
        missing = sum(abs(abs(part) - self.total) + growth(n) * size for part, size in pairs)
        return float((missing / self.total + growth(terms)) * math.sqrt(squares))

    def primal_error(self, w: Float, z: Float) -> float:
        """Of the value of a direction with the scores ``z = X w``: each of them moves the street by its share."""
        length = float(np.linalg.norm(w))
        if length == 0.0:
            return 0.0
        of_scores = growth(self.operator.terms()[0]) * float(np.abs(w) @ self.operator.column_lengths())
        of_sums = growth(self.total_samples) * self.largest(float(np.abs(z).max(initial=0.0)))
        width, slack = max(self.street(z), 0.0) / length, 2.0 * self.total * (of_scores + of_sums) / length
        return (0.5 * slack + width) * slack + growth(w.size) * width**2

    def coincide(self, a: Float) -> bool:
        """Whether the two points of ``a`` are the same but for rounding of the rows' distances from their middle.

        Rows that are far from the origin hide behind their rounding whether two points are equal or only near; their
        distances from each other do not.
        """
        middle = self.operator.adjoint(np.abs(a)) / (2.0 * self.total)
        used = np.flatnonzero(a)
        local = self.operator.rows if isinstance(self.operator, Sharded) else self.operator
        rows, own = cast("Rows", local.take(used)).matrix, np.zeros((2, middle.size))
        for start in range(0, used.size, ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            from_middle = dense64(rows[some]) - middle
            own += np.stack([a[used[some]] @ from_middle, (from_middle**2).sum(axis=0)])
        difference, squares = self.communicator.allreduce(own)
        slack = self._relative_rounding(a, self.total_samples) * math.sqrt(float(squares.sum()))
        return float(np.linalg.norm(difference)) <= slack

    def primal(self, w: Float, z: Float) -> float:
        """Value of a direction with the scores ``z = X w``."""
        street, length = self.street(z), float(np.linalg.norm(w))
        return -0.5 * (street / length) ** 2 if street > 0.0 and length > 0.0 else 0.0

    def street(self, z: Float) -> float:
        """The smallest value of ``z.a`` over all ``a``: how far the two hulls are apart in scores."""
        return float(sum(value for value, _ in settled(self.communicator, self.nearest(z))))

    def edges(self, z: Float) -> tuple[float, float]:
        """The scores between which the street lies: of the last row that is used fully or in part, on either side."""
        (_, first), (_, last) = settled(self.communicator, self.nearest(z))
        return first, -last

    def nearest(self, z: Float, guesses: Sequence[Guess] = (NO_GUESS, NO_GUESS)) -> list[Least]:
        """The rows of both classes that border on the street, as requests for `settled`; perhaps near some guesses."""
        return [
            Least(self.y[side] * z[side], self.cap[side], self.total, self.hard, guess)
            for side, guess in zip(self.sides, guesses, strict=True)
        ]

    def extreme(self, z: Float, borders: Sequence[float] | None = None) -> Float:
        """An ``a`` for which ``z.a`` is smallest: a vertex of the reduced hull on either side of the street.

        The borders of the street are found unless they are known already. Rows on a border share what is missing in
        proportion to their caps: if there are several, it is a point of the face that they span.
        """
        nearest = self.nearest(z)
        if borders is None:
            borders = [border for _, border in settled(self.communicator, nearest)]
        closer = [own.t < at for own, at in zip(nearest, borders, strict=True)]
        on = [own.t == at for own, at in zip(nearest, borders, strict=True)]
        caps = [[own.cap[k].sum(), own.cap[j].sum()] for own, k, j in zip(nearest, closer, on, strict=True)]
        a, sums = np.zeros(self.y.size), self.communicator.allreduce(np.array(caps)).tolist()
        for side, own, k, j, (full, room) in zip(self.sides, nearest, closer, on, sums, strict=True):
            part = min(max(self.total - full, 0.0) / room, 1.0) if room > 0.0 else 0.0
            a[side] = self.y[side] * own.cap * (k + part * j)
        return a

    def equal_shares(self) -> Float:
        """The means of both classes, as far as the caps allow."""
        a = np.zeros(self.y.size)
        for side, size in zip(self.sides, self.sizes, strict=True):
            a[side] = self.y[side] * self.total / size
        return self.feasible(a)

    def feasible(self, alpha: Float) -> Float:
        """``alpha`` clipped to the caps, each class moved to its total; rows without a share last."""
        caps = [np.minimum(self.cap[side], self.total) for side in self.sides]
        shares = [np.clip(self.y[side] * alpha[side], 0.0, cap) for side, cap in zip(self.sides, caps, strict=True)]
        rooms = [cap - share for cap, share in zip(caps, shares, strict=True)]
        used = [np.where(share > 0.0, room, 0.0) for share, room in zip(shares, rooms, strict=True)]
        sums = self.communicator.allreduce(
            np.array(
                [[share.sum(), some.sum(), room.sum()] for share, some, room in zip(shares, used, rooms, strict=True)]
            )
        )
        a = np.zeros(self.y.size)
        for k, (present, among_used, among_all) in enumerate(sums.tolist()):
            missing, share = self.total - present, shares[k]
            if missing < 0.0:
                share = share - share * (-missing / present)
            elif 0.0 < missing <= among_used:
                share = share + used[k] * (missing / among_used)
            elif missing > 0.0:
                share = share + rooms[k] * min(missing / max(among_all, np.finfo(float).tiny), 1.0)
            a[self.sides[k]] = self.y[self.sides[k]] * share
        return a

    def adjoint_and_sums(self, a: Float, sums: Float) -> tuple[Float, Float]:
        """``X^T a``, and the sums over all clients of some numbers, in one round."""
        if not isinstance(self.operator, Sharded):
            return self.operator.adjoint(a), sums
        both = self.communicator.allreduce(np.concatenate([self.operator.rows.adjoint(a), sums]))
        return both[: -sums.size], both[-sums.size :]

    @cached_property
    def squared_lengths(self) -> Float:
        """Squared norms of the rows."""
        return self.operator.squared_lengths()

    @property
    def reach(self) -> float:
        """Length of the longest row that takes part."""
        if "_reach" not in vars(self):
            longest = max(float(self.squared_lengths[side].max(initial=0.0)) for side in self.sides)
            vars(self)["_reach"] = math.sqrt(self.largest(longest))
        return vars(self)["_reach"]

    def largest(self, value: float) -> float:
        """Of the values that the clients have."""
        return float(self.communicator.allgather(np.array([value])).max())

    def vanishes(self, v: Float) -> bool:
        """Whether a difference of two points is nothing but rounding."""
        return float(np.linalg.norm(v)) <= VANISHING * self.total * self.reach

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
                        near = self.feasible(near)
                        if self.coincide(near):
                            return near, passes + 3.0
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
        sums = self.communicator.allreduce(np.concatenate([room @ ones, ones.T @ a]))
        H[d:, d:] = np.diag(sums[:2])
        size = np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
        inverse = np.linalg.pinv(H / np.outer(size, size), rcond=1e-13, hermitian=True)
        excess = np.concatenate([self.operator.adjoint(a), sums[2:] - self.total * np.array([1.0, -1.0])])
        u = inverse @ (excess / size) / size
        change = -room * (self.operator.apply(u[:d]) + ones @ u[d:])
        move = self.y * change
        distance = np.where(move > 0.0, self.cap - share, share)  # to the bound ahead
        bounded = (np.abs(move) >= distance) & (move != 0.0)
        reach = -self.largest(-float((distance[bounded] / np.abs(move[bounded])).min(initial=np.inf)))
        return change, 1.0 if reach > 1.0 else MOST_OF_THE_WAY * reach, 3.0 + self.operator.gram_passes(room)
