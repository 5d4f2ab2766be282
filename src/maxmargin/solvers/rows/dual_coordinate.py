"""Dual coordinate descent for linear models with an L2 penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Loss, Vectors
from maxmargin.solvers.rows.dual_problem import AscentState
from maxmargin.solvers.solver import Needs, Solver

ROUND_WORK = 1_000_000  # entries visited in a round, about: a millisecond or more
ROUND_SHARE = 0.1  # of the work so far, in one round: a late round is long, and a fit not much longer than it must be
LONGEST_ROUND = 10.0  # epochs' worth of work: whether a fit has stalled is told from its rounds
MAX_EPOCHS_PER_ROUND = 20_000  # for tiny matrices, whose epochs take no time
# Passes were counted on 12 problems of 3000 made sparse rows, three seeds each, at a gap of 1e-6 and in rounds as short
# as those of large matrices. The ratios are geometric means; single fits differ by a factor of up to 2.
FACES_AFTER = 8.0  # epochs' worth of work: easy problems are solved before it pays; 4 and 16 take 1.01 and 1.05 times
FACE_SHARE = 0.2  # of the work so far, in one face at most; 0.1 and 0.4 take 1.02 and 1.00 times as many passes
EPOCHS_BETWEEN = 5  # two runs of conjugate gradients; 2 and 10 take 1.19 and 1.07 times as many passes
FACE_ACCURACY = 0.1  # conjugate gradients stop when the norm of the slopes in a face has fallen to this share
REFRESH_AFTER = 20.0  # epochs' worth of work; rounding errors of so many do not show


@dataclass(frozen=True)
class DualCoordinate(Solver[Problem, "DualCoordinateState"]):
    """Dual coordinate descent.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss, intercept free, penalised or absent.

    Method: maximise the dual over one variable at a time, in random order. With ``w = X^T alpha / lam`` at hand, one
    step needs only ``x_i.w``; ``loss.dual_step`` solves it exactly. A penalised intercept is one more column. A free
    one is the multiplier of ``sum_i alpha_i = 0``: an augmented Lagrangian with penalty ``tau`` treats it as a column
    of height ``sqrt(tau)`` around a centre that moves after every epoch.

    Shrinking: a variable at a bound is left out if it would stay there even if its score changed by as much as scores
    were wrong in the epoch before, as a root of the mean square. All rows are visited again when the others have cost
    five epochs' worth of work, and after every point that was judged.

    Faces: after eight epochs' worth of work, rounds begin with conjugate gradients for the variables that are inside
    their box, as if it had no walls. They go on as long as their point, clipped to the box, raises the dual value: a
    wall changes few variables, so what clipping costs follows from their rows alone. Epochs then find the next face.

    Cost: one epoch reads the active rows once, each while the one before is worked on; a step of conjugate gradients
    reads those of the face twice. Memory ``O(n + d)``, and a copy of the rows of a face.

    Reference: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale linear SVM",
    ICML 2008, algorithm 3 (there for the hinge and squared hinge without a free intercept). More, Toraldo, "On the
    solution of large quadratic programming problems with bound constraints", SIAM J. Optim. 1 (1991), algorithm GPCG
    (here with epochs for the gradient projections).
    """

    shrinking: bool = True
    faces: bool = True
    seed: int = 0

    name: ClassVar[str] = "dual_coordinate"
    needs: ClassVar[Needs] = Needs("rows", l2=True)

    def start(self, problem: Problem, warm: Point | None) -> DualCoordinateState:
        """Zero, or the dual variables of a point."""
        return DualCoordinateState(problem, warm, self.seed)

    def advance(self, problem: Problem, state: DualCoordinateState, limit: int) -> DualCoordinateState:
        """Perhaps conjugate gradients in a face; then epochs over the active rows, and now and then over all."""
        if state.doubted:  # rows that were left out are to blame if a point was not as good as it seemed
            state.course, state.doubted = state.course._replace(spent=math.inf), False
        in_face = self.faces and state.passes >= FACES_AFTER and state.rest == 0
        state.rest = max(0, state.rest - 1)
        if in_face:
            self._cross_face(problem, state)
            work = EPOCHS_BETWEEN * state.active_share
        else:
            work = min(ROUND_SHARE * state.passes, LONGEST_ROUND)
        work = max(ROUND_WORK / max(1, state.rows.entries), work)
        epochs = int(min(max(1.0, work / max(state.active_share, 1e-9)), MAX_EPOCHS_PER_ROUND, limit))
        gap = state.ascend(epochs, self.shrinking)
        if state.passes >= state.refreshed_at + REFRESH_AFTER:
            state.refresh()
            state.refreshed_at = state.passes
        state.dual = state.lagrangian()
        state.primal = state.dual + gap
        return state

    def point(self, problem: Problem, state: DualCoordinateState) -> Point:
        """The coefficients, with the best intercept for them if it is free and dual variables whose sum is zero."""
        return state.point(state.alpha)

    def _cross_face(self, problem: Problem, state: DualCoordinateState) -> None:
        """Conjugate gradients for the variables inside their box. Sets: ``alpha, w, b, dual, passes, rest, waiting``.

        Their point is kept only if the dual rises, which a loss that is not quadratic does not promise. After one in
        vain the next attempt has to wait twice as long.
        """
        before, height, rows = (state.alpha, state.w, state.b, state.dual), state.height, state.rows
        active = np.sort(state.order[: state.course.active])
        face, r, c, low, high = face_of(
            rows.vectors, problem.loss, problem.y, problem.s, state.alpha, state.w, state.b, active
        )
        packed = rows.take(face)  # side by side, rows are read twice as fast
        target, visited = clipped_conjugate_gradients(
            packed.vectors, r, c, state.q[face] + c, 1.0 / problem.lam, state.tau, state.alpha[face], low, high,
            rows.n_features, min(FACE_SHARE * state.passes, LONGEST_ROUND) * state.order.size,
        )  # fmt: skip
        change = target - state.alpha[face]
        state.alpha, state.w = state.alpha.copy(), state.w + packed.adjoint(change) / problem.lam
        state.alpha[face] = target
        state.b += state.tau * float(change.sum())
        state.passes += (active.size + visited) / max(1, state.order.size)
        state.dual = state.lagrangian()
        if state.height >= height:
            state.waiting = 1
        else:
            state.alpha, state.w, state.b, state.dual = before
            state.rest, state.waiting = state.waiting, 2 * state.waiting


@dataclass
class DualCoordinateState(AscentState):
    """How far epochs and faces are."""

    refreshed_at: float = 0.0  # passes when `w` was computed last
    rest: int = 0  # rounds until conjugate gradients may be tried again
    waiting: int = 1  # rounds to rest after an attempt in vain

    @property
    def active_share(self) -> float:
        """Share of the rows that are not shrunk away."""
        return self.course.active / max(1, self.order.size)

    @property
    def height(self) -> float:
        """What the steps of an epoch raise: the dual value, or for a free intercept the augmented Lagrangian."""
        return self.dual + 0.5 * self.tau * float(self.alpha.sum()) ** 2 if self.free else self.dual

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and rows that are not shrunk away."""
        return {"passes": self.passes, "active": float(self.course.active)}


@compiled
def face_of(
    vectors: Vectors, loss: Loss, y: Float, s: Float, alpha: Float, w: Float, b: float, rows: Index
) -> tuple[Index, Float, Float, Float, Float]:
    """Those rows whose variables are inside their box, with their slopes downwards, curvatures and walls.

    A loss whose curvature is infinite at zero has a wall there.
    """
    n = rows.shape[0]
    face, r, c, low, high = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    m = 0
    for i in rows:
        c[m] = loss.dual_curvature(alpha[i], y[i], s[i])
        if c[m] < math.inf:
            least, most = loss.dual_range(y[i])
            if loss.dual_curvature(0.0, y[i], s[i]) == math.inf:
                least, most = (max(least, 0.0), most) if alpha[i] > 0.0 else (least, min(most, 0.0))
            face[m], low[m], high[m] = i, s[i] * least, s[i] * most
            r[m] = -(vectors.dot(i, w) + b + loss.dual_slope(alpha[i], y[i], s[i]))
            m += 1
    return face[:m], r[:m], c[:m], low[:m], high[:m]


@compiled
def clipped_conjugate_gradients(
    vectors: Vectors, r: Float, c: Float, scale: Float, inv_lam: float, tau: float,
    alpha: Float, low: Float, high: Float, n_features: int, budget: float,
) -> tuple[Float, int]:  # fmt: skip
    """Dual variables from ``low`` to ``high`` that are better than ``alpha``, and how often a row was visited for them.

    Conjugate gradients minimise ``p.H p / 2 - p.r`` over changes ``p``, with ``H = X X^T / lam + tau + diag(c)`` and
    the diagonal ``scale``, as long as the clipped ``alpha + p`` gets better. If ``e`` is what is clipped, and ``r`` the
    residual at ``p``, the value at ``p - e`` is that at ``p`` plus ``r.e + e.H e / 2``. Sets: ``r``.
    """
    m, visited, value, least, last = r.shape[0], 0, 0.0, 0.0, math.inf
    best, p, direction, e, change = alpha.copy(), np.zeros(m), np.zeros(m), np.empty(m), np.empty(n_features)
    size = float(np.sum(r * r / scale))
    first = size
    while size > FACE_ACCURACY**2 * first and visited < budget:
        for k in range(m):
            direction[k] = r[k] / scale[k] + size / last * direction[k]
        bend = _bend(vectors, c, inv_lam, tau, direction, change)
        total = np.sum(direction)
        step = size / bend
        value -= 0.5 * step * size
        last, size, slope = size, 0.0, 0.0
        for k in range(m):
            p[k] += step * direction[k]
            r[k] -= step * (inv_lam * vectors.dot(k, change) + tau * total + c[k] * direction[k])
            size += r[k] * r[k] / scale[k]
            e[k] = alpha[k] + p[k] - min(max(alpha[k] + p[k], low[k]), high[k])
            slope += r[k] * e[k]
        visited += m
        clipped = value + slope + 0.5 * _bend(vectors, c, inv_lam, tau, e, change)
        if not clipped < least:
            break
        least = clipped
        for k in range(m):
            best[k] = min(max(alpha[k] + p[k], low[k]), high[k])
    return best, visited


@compiled
def _bend(vectors: Vectors, c: Float, inv_lam: float, tau: float, p: Float, change: Float) -> float:
    """``p.H p``, from the rows where ``p`` is not zero. Sets: ``change`` to ``X^T p``."""
    change[:] = 0.0
    total, bend = 0.0, 0.0
    for k in range(p.shape[0]):
        if p[k] != 0.0:
            vectors.add(k, p[k], change)
            total += p[k]
            bend += c[k] * p[k] * p[k]
    for j in range(change.shape[0]):
        bend += inv_lam * change[j] * change[j]
    return bend + tau * total * total
