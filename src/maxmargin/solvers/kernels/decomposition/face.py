"""The face: all variables between their bounds, moved at once, where steps on blocks would take forever."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled_methods
from maxmargin.numerics.bisection import middle_minimiser
from maxmargin.operators.row_cache import RowCache
from maxmargin.problems.box_qp import BoxQP
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.decomposition.variables import Active

MISSES = 8  # with more rows missing in the last block, the set of support vectors is not known yet
PATIENCE = 4  # blocks before the face is tried again; this doubles whenever it gains less than a block
DROPS = 100  # variables that may leave the face before all variables are looked at again
SOLVED = 3000  # variables, over all systems that are solved on one face
STEPS = 10  # of conjugate gradients between two looks at all variables
DIRECT_VARIABLES = 500  # so few free variables are solved for directly
ACCURACY = 0.1  # reduction of the residual that is enough until all variables are looked at again
JITTER = 1e-13  # of the mean of the diagonal, added to it so that a singular system has a solution


@dataclass
class Schedule:
    """When to try the face: when no rows are missing, and as long as a unit of work gains more there than on a block.

    A yield is the gain of the dual value for a unit of work.
    """

    face_yield: float = 0.0
    block_yield: float = 0.0
    tried: int = 0  # iteration
    patience: int = PATIENCE  # iterations

    def due(self, iterations: int, missed: int) -> bool:
        """Whether to try the face now; ``missed`` rows were missing in the last block."""
        if missed > MISSES or iterations == 0:
            return False
        return self.face_yield > self.block_yield or iterations - self.tried >= self.patience

    def postpone(self, iterations: int) -> None:
        """There was nothing to do."""
        self.tried, self.patience = iterations, 2 * self.patience

    def remember(self, on_the_face: bool, iterations: int, gained: float) -> None:
        """What a unit of work gained in the last step."""
        if not on_the_face:
            self.block_yield = gained
            return
        good = gained > max(self.block_yield, 0.0)
        self.tried, self.face_yield = iterations, gained if good else -math.inf
        self.patience = PATIENCE if good else 2 * self.patience


class Face:
    """The free variables with their kernel rows. Steps keep the sums of the groups and stay in the box.

    Always ``e`` is minus the gradient at ``a``, and ``moved`` what the steps so far add to the scores in play.
    """

    def __init__(self, active: Active, e: Float, cache: RowCache, free: Index, slots: Index, row_of: Index) -> None:
        self.cache, self.slots, self.row_of, self.free, self.groups = cache, slots, row_of, free, active.groups
        self.a, self.low, self.high = active.a[free], active.low[free], active.high[free]
        self.column, self.D, self.group = active.column[free], active.D[free], active.group[free]
        self.e = e[free]
        self.moved = np.zeros(cache.columns.size)
        self.work = 0.0  # values that were read or computed

    @classmethod
    def of(cls, qp: BoxQP, active: Active, e: Float, cache: RowCache) -> Face | None:
        """The face of the present point, or ``None`` if there is nothing to do or no room for its rows."""
        free = np.flatnonzero(active.rises & active.falls)
        rows, row_of = np.unique(qp.sample[active.variable[free]], return_inverse=True)
        if free.size < 2 or rows.size > cache.capacity:
            return None
        return cls(active, e, cache, free, cache.fetch(rows), row_of)

    def improve(self, flat: float) -> None:
        """Go to the minimum on the face, or towards it up to the first bounds. Sets: ``a, moved, work``.

        A direction whose curvature is below ``flat`` counts as flat.
        """
        if self.free.size <= DIRECT_VARIABLES:
            self.solve()
        else:
            self.conjugate_gradients(flat)

    def solve(self) -> None:
        """Newton steps, solved directly; a variable that is in the way stops at its bound and leaves the face.

        Few variables may still be badly conditioned, and then steps on pairs take forever. Sets: ``a, moved, work``.
        """
        Q = self.cache.rows[self.slots[self.row_of]][:, self.column].astype(np.float64) + np.diag(self.D)
        Q[np.diag_indices_from(Q)] += JITTER * np.trace(Q) / len(Q) + 1e-300
        a, e, low, high = self.a.copy(), self.e, self.low, self.high
        inside = np.arange(a.size)
        for _ in range(min(DROPS, 2 + SOLVED // a.size)):
            p = self._newton_direction(Q[np.ix_(inside, inside)], e[inside], self.group[inside])
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(p > 0.0, high[inside] - a[inside], low[inside] - a[inside]) / p
            room[p == 0.0] = math.inf
            length = min(1.0, float(room.min(initial=math.inf)))
            e = e - Q[:, inside] @ (length * p)
            blocked = room <= length
            bound = np.where(p > 0.0, high[inside], low[inside])
            a[inside] = np.where(blocked, bound, np.clip(a[inside] + length * p, low[inside], high[inside]))
            inside = inside[~blocked]
            if length == 1.0 or inside.size < 2:
                break
            self.work += inside.size**2
        self.moved += self._product(a - self.a)
        self.a = a

    def _newton_direction(self, Q: Float, e: Float, group: Index) -> Float:
        """The step to the minimum on the face; the steepest one if rounding spoils it."""
        sums = np.array([group == g for g in range(self.groups)], dtype=np.float64).reshape(-1, len(Q))
        sums = sums[sums.any(axis=1)]
        self.work += len(Q) ** 3 / 10
        steepest = _keeping_sums(e, group, self.groups)
        try:
            solved = np.linalg.solve(Q, np.column_stack([e, sums.T]))
            multipliers = np.linalg.solve(sums @ solved[:, 1:], sums @ solved[:, 0])
        except np.linalg.LinAlgError:
            return steepest
        p = _keeping_sums(solved[:, 0] - solved[:, 1:] @ multipliers, group, self.groups)
        return p if np.isfinite(p).all() and float(p @ e) > 0.0 else steepest

    def conjugate_gradients(self, flat: float) -> None:
        """Conjugate gradients up to the first bounds that are in the way.

        There the step is projected back, and shortened to the minimum along the way. Sets: ``a, e, moved, work``.
        """
        p = r = _keeping_sums(self.e, self.group, self.groups)
        rho = float(r @ r)
        enough = ACCURACY**2 * rho
        for _ in range(STEPS):
            h = self._product(p)
            curvature, moving = self._curvature(p, h), np.flatnonzero(p)
            to_bound = np.where(p > 0.0, self.high - self.a, self.low - self.a)
            room = float((to_bound[moving] / p[moving]).min(initial=math.inf))
            length = rho / curvature if curvature > flat * float(p @ p) else room
            if not (rho > 0.0 and math.isfinite(length)):
                break
            if length >= room:
                self._step_to_bounds(length * p)
                break
            self._step(length * p, length * h)
            r, before = _keeping_sums(self.e, self.group, self.groups), rho
            rho = float(r @ r)
            if rho <= enough:
                break
            p = r + (rho / before) * p

    def _step_to_bounds(self, change: Float) -> None:
        """A step that leaves the box, projected back and shortened to the minimum on the way. Sets: as `_step`."""
        change = self._nearest(self.a + change) - self.a
        h = self._product(change)
        slope, curvature = float(self.e @ change), self._curvature(change, h)
        if slope > 0.0:
            length = min(1.0, slope / curvature) if curvature > 0.0 else 1.0
            self._step(length * change, length * h)

    def _step(self, change: Float, h: Float) -> None:
        """Sets: ``a, e, moved``."""
        self.a = np.clip(self.a + change, self.low, self.high)
        self.moved += h
        self.e = self.e - (h[self.column] + self.D * change)

    def _product(self, p: Float) -> Float:
        """What a change of the variables adds to the scores in play."""
        h, weights = np.zeros(self.cache.columns.size), added_up(self.row_of, p, self.slots.size)
        moving = np.flatnonzero(weights)
        self.cache.add_rows(self.slots[moving], weights[moving], h)
        self.work += moving.size * h.size
        return h

    def _curvature(self, p: Float, h: Float) -> float:
        return float(p @ (h[self.column] + self.D * p))

    def _nearest(self, x: Float) -> Float:
        """The point of the box nearest to ``x`` where every group has the same sum as now."""
        x = x.copy()
        for g in range(self.groups):
            members = np.flatnonzero(self.group == g)
            if members.size:
                part, a = (x[members], self.low[members], self.high[members]), self.a[members]
                scale = float(np.abs(part[0]).max() + np.abs(a).max())
                x[members] -= middle_minimiser(_SumExcess(*part, float(a.sum())), scale)
        return np.clip(x, self.low, self.high)


def added_up(row_of: Index, change: Float, rows: int) -> Float:
    """The change of each row: a sample may have two variables."""
    return np.bincount(row_of, weights=change, minlength=rows).astype(np.float64, copy=False)


def _keeping_sums(e: Float, group: Index, groups: int) -> Float:
    """The part of a direction that keeps the sums of the groups."""
    r = e.copy()
    for g in range(groups):
        members = group == g
        if members.any():
            r[members] -= r[members].mean()
    return r


@compiled_methods
class _SumExcess(NamedTuple):
    """The sum of the clipped ``x - b`` against a total, as a function of ``b``."""

    x: Float
    low: Float
    high: Float
    total: float

    def derivative(self, b: float) -> float:
        moved, size = 0.0, abs(self.total)
        for v in range(self.x.shape[0]):
            part = min(max(self.x[v] - b, self.low[v]), self.high[v])
            moved += part
            size += abs(part)
        return 0.0 if abs(self.total - moved) <= 1e-14 * size else self.total - moved
