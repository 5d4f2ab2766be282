"""Dual coordinate descent for linear models with an L2 penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators import Rows
from maxmargin.penalties import L2
from maxmargin.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.sampling import shuffle
from maxmargin.solution import Point

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_EPOCHS_PER_ROUND = 20_000
FULL_EVERY = 10  # epochs
FIRST_EPOCHS = 2  # of large problems; later rounds are longer, by as many as there were


@dataclass(frozen=True)
class DualCoordinate:
    """Dual coordinate descent.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss, intercept free, penalised or absent.

    Method: maximise the dual over one variable at a time, in a new random order every epoch. With
    ``w = X^T alpha / lam`` at hand, one step needs only ``x_i.w``; ``loss.dual_step`` solves it exactly. A penalised
    intercept is one more column. A free one is the multiplier of ``sum_i alpha_i = 0``: an augmented Lagrangian with
    penalty ``tau`` treats it as a column of height ``sqrt(tau)`` around a centre that moves after every full epoch.
    A variable at a bound is skipped until the next full epoch if it would stay there even if its score changed by as
    much as any variable called for in the epoch before. A full epoch ends every round.

    Cost: one epoch reads the active rows once; memory ``O(n + d)``.

    Reference: Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale linear SVM",
    ICML 2008, algorithm 3 (there for the hinge and squared hinge without a free intercept).
    """

    shrinking: bool = True
    seed: int = 0

    name: ClassVar[str] = "dual_coordinate"

    def supports(self, problem: Any) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem) or not isinstance(problem.operator, Rows):
            return "it needs the samples as rows of features, not a kernel, and in memory, not in chunks"
        if not isinstance(problem.penalty, L2):
            return f"it needs an L2 penalty; this problem has {type(problem.penalty).__name__}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> DualCoordinateState:
        """Zero, or the dual variables of a point."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        n = rows.n_samples
        sq = rows.squared_lengths()
        if problem.intercept == "free":
            tau = float(sq.mean()) / problem.lam or 1.0 / float(problem.s.mean() or 1.0)
        else:
            tau = problem.intercept_scale**2 / problem.lam if problem.intercept == "penalised" else 0.0
        state = DualCoordinateState(
            alpha=np.zeros(n),
            w=np.zeros(rows.n_features),
            b=0.0,
            tau=tau,
            q=sq / problem.lam + tau,
            order=np.flatnonzero(problem.s > 0.0),
            random=np.array([self.seed], dtype=np.uint64),
        )
        if warm is not None and warm.alpha is not None:
            state.alpha = problem.feasible(warm.alpha)
            state.b = warm.b if problem.intercept == "free" else 0.0
            self._refresh(problem, state)
        return state

    def advance(self, problem: Problem, state: DualCoordinateState, limit: int) -> DualCoordinateState:
        """Epochs over the active rows, then one over all of them."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        free = problem.intercept == "free"
        entries = max(1, rows.vectors[0].size)
        planned = max(ROUND_WORK // entries, min(FULL_EVERY, max(FIRST_EPOCHS, state.iterations)))
        epochs, visited, state.active, state.b, state.violation, state.reach, losses, conjugates = _round(
            rows.vectors, problem.loss, problem.y, problem.s, state.q, 1.0 / problem.lam, state.tau, free,
            state.alpha, state.w, state.b, state.order, state.active, state.reach, self.shrinking, state.random,
            min(planned, MAX_EPOCHS_PER_ROUND, limit),
        )  # fmt: skip
        state.iterations += epochs
        state.passes += visited / max(1, state.order.size)
        if not free:
            self._refresh(problem, state)
        penalty = 0.5 * problem.lam * float(state.w @ state.w)
        if problem.intercept == "penalised":
            penalty += 0.5 * state.b**2 / state.tau
        state.primal, state.dual = losses + penalty, -conjugates - penalty
        return state

    def point(self, problem: Problem, state: DualCoordinateState) -> Point:
        """The coefficients, with the best intercept for them if it is free and dual variables whose sum is zero."""
        if problem.intercept != "free":
            return Point(state.w.copy(), state.b, state.alpha.copy())
        b = problem.best_intercept(problem.operator.apply(state.w))
        return Point(state.w.copy(), b, problem.feasible(state.alpha))

    def _refresh(self, problem: Problem, state: DualCoordinateState) -> None:
        """Recompute what was maintained. Sets: ``w``, ``b`` of a penalised intercept, ``passes``."""
        state.w = problem.operator.adjoint(state.alpha) / problem.lam
        if problem.intercept != "free":
            state.b = state.tau * float(state.alpha.sum())
        state.passes += 1.0


@dataclass
class DualCoordinateState:
    """On entry and exit of a round ``w == X.T @ alpha / lam``."""

    alpha: Float
    w: Float
    b: float
    tau: float
    q: Float  # curvature of the dual along each variable
    order: Index
    random: Array
    active: int = 0
    reach: float = math.inf  # by how much the scores of the last epoch were wrong, at most
    iterations: int = 0
    passes: float = 0.0
    violation: float = math.inf
    primal: float = math.inf
    dual: float = -math.inf
    certificate_passes: float = field(default=2.0, init=False)

    def __post_init__(self) -> None:
        self.active = self.order.size

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value as seen during the last full epoch."""
        return self.primal, self.dual

    @property
    def exhausted(self) -> bool:
        """Whether no variable moved in a full epoch."""
        return self.violation == 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and rows that are not shrunk away."""
        return {"passes": self.passes, "active": float(self.active)}


@compiled
def _round(
    vectors: Any, loss: Any, y: Float, s: Float, q: Float, inv_lam: float, tau: float, free: bool,
    alpha: Float, w: Float, b: float, order: Index, active: int, reach: float, shrinking: bool, random: Array,
    epochs: int,
) -> tuple[int, int, int, float, float, float, float, float]:  # fmt: skip
    """Epochs over ``order[:active]``, every tenth and the last over everything.

    Sets: ``alpha, w, order, random``.
    """
    visited, made = 0, 0
    violation, losses, conjugates = 0.0, 0.0, 0.0
    for epoch in range(epochs):
        full = epoch == epochs - 1 or epoch % FULL_EVERY == FULL_EVERY - 1 or active == 0
        if full:
            active = order.shape[0]
            losses, conjugates = 0.0, 0.0
        made += 1
        violation = 0.0
        shuffle(order, 0, active, random)
        k = 0
        while k < active:
            i = order[k]
            visited += 1
            z = vectors.dot(i, w) + b
            a = loss.dual_step(alpha[i], y[i], s[i], z, q[i])
            step = a - alpha[i]
            moved = abs(step) * q[i]
            if full:
                losses += s[i] * loss.value(z, y[i])
                conjugates += s[i] * loss.conjugate(-a / s[i], y[i])
            if step != 0.0:
                alpha[i] = a
                vectors.add(i, step * inv_lam, w)
                b += step * tau
            if moved > 1e-15 * (abs(y[i]) + abs(z)):  # less is rounding
                violation = max(violation, moved)
            elif (
                shrinking
                and loss.dual_step(a, y[i], s[i], z - reach, q[i]) == a
                and loss.dual_step(a, y[i], s[i], z + reach, q[i]) == a
            ):  # the last active row takes its place and is visited next
                active -= 1
                order[k], order[active] = order[active], i
                continue
            k += 1
        reach = violation
        if full:
            if free:  # the multiplier step of the augmented Lagrangian
                shift = tau * np.sum(alpha)
                b += shift
                reach = max(reach, abs(shift))
                if abs(shift) > 1e-15 * (1.0 + abs(b)):
                    violation = max(violation, abs(shift))
            if violation == 0.0:
                break
    return made, visited, active, b, violation, reach, losses, conjugates
