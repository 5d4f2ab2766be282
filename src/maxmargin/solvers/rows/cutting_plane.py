"""Optimised cutting planes for linear models with an L2 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.line_search import last_descent
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Loss
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_CUTS_PER_ROUND = 5
KEEP_IDLE = 50  # iterations that a plane survives without being used


@dataclass(frozen=True)
class CuttingPlane(Solver[Problem, "CuttingPlaneState"]):
    """Cutting planes with one slack, the best point so far and an exact line search.

    Problem: ``min R(w) + lam |w|^2 / 2`` with the risk ``R(w) = sum_i s_i loss(x_i.w + b, y_i)``, any loss. A penalised
    intercept is one more column; a free one is minimised out, ``R(w) = min_b ...``, which is convex in ``w`` too.

    Method: any dual point ``alpha`` gives a plane ``R(w) >= h - v.w`` with ``v = X^T alpha`` and
    ``h = -sum_i s_i loss*(-alpha_i / s_i)``, tight where ``alpha`` is minus a subgradient. The model, the largest of
    the planes plus the penalty, is minimised exactly through its dual, a quadratic program over the weights ``beta`` of
    the planes. The best point moves on the line to the model's minimiser as far as the primal falls, and the next plane
    touches at a point that is the share ``mixture`` of the way further (1 is the method without this refinement).
    ``sum_t beta_t alpha_t`` is the dual point; it is feasible, as all ``alpha_t`` are, and at least as good as the
    model's minimum. The ``alpha_t`` are not stored: from the point where a plane touches its ``alpha_t`` is computed
    again, bit by bit, when a certificate is asked for. Planes that were not used for long are dropped.

    Cost: one iteration is one plane: three passes over the data, 40 evaluations of the losses along the line, two
    searches for the intercept if it is free, and a quadratic program with as many variables as planes. A certificate
    takes one pass for each plane in use. Memory ``O(n + d planes)``. Over clients, every slope along the line is a
    round with one number.

    Reference: Joachims, "Training linear SVMs in linear time", KDD 2006; Franc, Sonnenburg, "Optimized cutting plane
    algorithm for support vector machines", ICML 2008, algorithm 2.
    """

    mixture: float = 0.1

    name: ClassVar[str] = "cutting_plane"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, l2=True)

    def __post_init__(self) -> None:
        if not 0.0 < self.mixture <= 1.0:
            raise ValueError(f"mixture={self.mixture} must be above 0 and at most 1.")

    def start(self, problem: Problem, warm: Point | None) -> CuttingPlaneState:
        """Zero, or a given point and the plane of its dual variables."""
        bordered = problem.penalised
        theta, base = np.zeros(bordered.size), np.zeros(problem.y.size)
        if warm is not None:
            theta = bordered.join(warm.w, warm.b)
            base = base if warm.alpha is None else problem.feasible(warm.alpha)
        v = bordered.adjoint(base)
        z = bordered.apply(theta)
        state = CuttingPlaneState(
            theta=theta,
            z=z + problem.missing_intercept(z),
            base=base,
            touching=np.zeros((1, bordered.size)),
            intercepts=np.zeros(1),
            V=v[None, :],
            h=np.array([-problem.conjugates(base)]),
            G=np.array([[float(v @ v) / problem.lam]]),
            beta=np.ones(1),
            idle=np.zeros(1, dtype=np.int64),
        )
        state.primal = problem.losses(state.z) + 0.5 * problem.lam * float(theta @ theta)
        return state

    def advance(self, problem: Problem, state: CuttingPlaneState, limit: int) -> CuttingPlaneState:
        """Some planes, each followed by a minimisation of the model."""
        entries = max(1, problem.features.entries)
        for _ in range(min(max(ROUND_WORK // entries, 1), MAX_CUTS_PER_ROUND, limit)):
            before = state.primal, state.dual
            target = state.V.T @ state.beta / problem.lam
            self._move(problem, state, target)
            self._cut(problem, state, (1.0 - self.mixture) * state.theta + self.mixture * target)
            heights = state.h - state.V @ target
            if heights[-1] <= heights[:-1].max():  # possible with a free intercept: the line search leaves it out
                self._cut(problem, state, target)
            state.dual = _maximise_on_simplex(state.G, state.h, state.beta)
            self._drop_idle(state)
            state.iterations += 1
            gained = before[0] - state.primal + abs(state.dual - before[1])
            state.stuck = state.stuck + 1 if gained <= 1e-15 * abs(state.primal) else 0
            if state.exhausted:
                break
        return state

    def point(self, problem: Problem, state: CuttingPlaneState) -> Point:
        """The best point, and the mixture of the planes' dual variables, each computed again where it touches."""
        alpha = state.beta[0] * state.base
        bordered = problem.penalised
        for t in state.used():
            alpha += state.beta[t] * problem.answers(bordered.apply(state.touching[t]), float(state.intercepts[t]))
        w, b = bordered.split(state.theta)
        return Point(w, b + problem.missing_intercept(problem.operator.apply(w)), alpha)

    def _move(self, problem: Problem, state: CuttingPlaneState, target: Float) -> None:
        """Go from the best point towards the model's minimiser as far as the primal falls.

        Sets: ``theta, z, primal, passes``.
        """
        z = problem.penalised.apply(target)
        z = z + problem.missing_intercept(z)
        state.passes += 1.0
        move, dz = target - state.theta, z - state.z
        slope, curvature = problem.lam * float(state.theta @ move), problem.lam * float(move @ move)

        def slope_at(t: float) -> float:
            losses = _slope_along(problem.loss, problem.y, problem.s, state.z, dz, t)
            return slope + t * curvature + problem.sums(losses)[0]

        t = last_descent(slope_at)
        theta, z = state.theta + t * move, state.z + t * dz
        primal = problem.losses(z) + 0.5 * problem.lam * float(theta @ theta)
        if primal <= state.primal:
            state.theta, state.z, state.primal = theta, z, primal

    def _cut(self, problem: Problem, state: CuttingPlaneState, touching: Float) -> None:
        """Add the plane that touches at a point. Sets: ``touching, intercepts, V, h, G, beta, idle, passes``."""
        bordered = problem.penalised
        z = bordered.apply(touching)
        b = problem.missing_intercept(z)
        alpha = problem.answers(z, b)
        v = bordered.adjoint(alpha)
        state.passes += 2.0
        products = state.V @ v / problem.lam
        state.touching, state.intercepts = np.vstack([state.touching, touching]), np.append(state.intercepts, b)
        state.V = np.vstack([state.V, v])
        state.h = np.append(state.h, -problem.conjugates(alpha))
        state.G = np.block([[state.G, products[:, None]], [products, np.array([v @ v / problem.lam])]])
        state.beta, state.idle = np.append(state.beta, 0.0), np.append(state.idle, 0)

    def _drop_idle(self, state: CuttingPlaneState) -> None:
        """Drop planes that were not used for long; the first has no point of its own and stays. Sets: as `_cut`."""
        state.idle = np.where(state.beta > 0.0, 0, state.idle + 1)
        kept = state.idle <= KEEP_IDLE
        kept[0] = True
        if not kept.all():
            state.touching, state.intercepts = state.touching[kept], state.intercepts[kept]
            state.V, state.h = state.V[kept], state.h[kept]
            state.G, state.beta, state.idle = state.G[np.ix_(kept, kept)], state.beta[kept], state.idle[kept]


@dataclass
class CuttingPlaneState(State):
    """Plane ``t`` is ``h_t - V_t.theta``; ``G = V V^T / lam``. ``z`` are the scores of ``theta`` with the intercept."""

    theta: Float  # the best point: w and the coefficient of a penalised intercept
    z: Float
    base: Float  # dual variables of the first plane
    touching: Float  # where each of the others touches
    intercepts: Float  # the free intercepts there
    V: Float
    h: Float
    G: Float
    beta: Float
    idle: Index  # iterations since each plane was last used
    stuck: int = 0

    def used(self) -> Index:
        """The planes of positive weight, without the first."""
        return 1 + np.flatnonzero(self.beta[1:])

    @property
    def certificate_passes(self) -> float:
        """One for each plane, and two for the certificate."""
        return 2.0 + self.used().size

    @property
    def exhausted(self) -> bool:
        """Whether new planes have stopped to change anything."""
        return self.stuck >= 5

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and planes in the model."""
        return {"passes": self.passes, "planes": float(self.h.size)}


def _maximise_on_simplex(G: Float, h: Float, beta: Float) -> float:
    """Maximise ``h.beta - beta.G beta / 2`` over ``beta >= 0`` with sum 1, by an active set. Returns the maximum.

    ``beta`` is feasible on entry and exit. The variable of the largest slope joins the face; the maximiser on the face
    is found directly, and where it lies outside, the step ends at the boundary and the face shrinks. When rounding
    prevents a gain, the search is over. Sets: ``beta``.
    """
    value = -np.inf
    for _ in range(10 * h.size):
        slope = h - G @ beta
        level = float(slope @ beta)
        reached = float(h @ beta + slope @ beta) / 2.0
        if reached <= value:
            break
        value = reached
        best = beta.copy()
        ridge = 1e-14 * abs(value) + 1e-20 * float(np.abs(h).max()) + 1e-300
        face = beta > 0.0
        face[np.argmax(slope)] = True
        while True:
            members = np.flatnonzero(face)
            goal = _maximise_on_face(G[np.ix_(members, members)], h[members] - level, ridge)
            here = beta[members]
            outside = goal <= 0.0
            if not outside.any():
                beta[members] = goal
                break
            ratios = np.where(outside, here / np.maximum(here - goal, 1e-300), np.inf)
            first = int(np.argmin(ratios))
            beta[members] = np.maximum(here + ratios[first] * (goal - here), 0.0)
            beta[members[first]] = 0.0
            face[members[first]] = False
        beta /= beta.sum()
    beta[:] = best
    return value


def _maximise_on_face(G: Float, h: Float, ridge: float) -> Float:
    """Maximiser of ``h.x - x.G x / 2`` with sum 1.

    The diagonal is scaled to 1: with large weights of the samples, planes differ by ten orders of magnitude. The ridge
    decides between planes that are parallel.
    """
    m = h.size
    if m == 1:
        return np.ones(1)
    scale = 1.0 / np.sqrt(G.diagonal() + ridge)
    K = np.zeros((m + 1, m + 1))
    K[:m, :m] = G * scale[:, None] * scale
    K[np.diag_indices(m)] = 1.0 + 1e-14
    K[m, :m] = K[:m, m] = scale / scale.max()
    return scale * np.linalg.solve(K, np.append(h * scale, 1.0 / scale.max()))[:m]


@compiled
def _slope_along(loss: Loss, y: Float, s: Float, z: Float, dz: Float, t: float) -> float:
    """Slope of the losses in ``t`` at the scores ``z + t dz``."""
    total = 0.0
    for i in range(z.shape[0]):
        total += s[i] * loss.slope(z[i] + t * dz[i], y[i]) * dz[i]
    return total
