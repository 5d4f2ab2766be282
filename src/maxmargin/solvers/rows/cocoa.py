"""Dual coordinate ascent by several clients that talk once in an epoch: CoCoA+."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.numerics.balance import balanced
from maxmargin.numerics.sampling import seeded
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.rows.dual_epochs import Course, dual_epochs
from maxmargin.solvers.rows.dual_problem import DualState
from maxmargin.solvers.solver import Needs, Solver

ROUND_WORK = 1_000_000  # entries visited in a round, about, by a client that is alone: a millisecond or more
MAX_EPOCHS_ALONE = 1000  # in a round, for tiny matrices, whose epochs take no time
REFRESH_AFTER = 50  # rounds; rounding errors of so many do not show
FIRST_STEP = 10.0  # of the intercept, as a multiple of the mean curvature of the dual divided by the number of rows
STEP_FACTOR = 1.5  # by which that step grows while the intercept gets nearer too slowly, and shrinks when it overshot
SHORTEST_STEP, LONGEST_STEP = 1e-150, 1e150  # of the intercept: beyond, its inverse or its square is no number


@dataclass(frozen=True)
class CoCoA(Solver[Problem, "CoCoAState"]):
    """CoCoA+: every client maximises its part of the dual, and the changes are added.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2`` over the rows of several clients, any loss,
    intercept free, penalised or absent.

    Method: with ``w = X^T alpha / lam`` known to all, each of ``K`` clients makes epochs of exact steps over its own
    dual variables on ``-sum_i s_i loss*(-alpha_i / s_i, y_i) - w.v - K |v|^2 / (2 lam)``, where ``v`` is the change of
    its part of ``X^T alpha``. The factor ``K`` makes their sum a lower bound of what all changes together do to the
    dual, however the rows are spread, so that all of them may be added. A single client does plain dual coordinate
    descent.

    Momentum: where changes of different clients cancel, the bound is far below the truth and progress is slow. So a
    round begins not at the last point but at one that lies ahead of it in the direction of the last round, as in
    Nesterov's method, and anew from the last one whenever that led back: two to seven times fewer rounds, as measured.

    Intercept: it could be the coefficient of a column of ones. But if clients have one class each, all their changes of
    it cancel and none of them knows: each would move as far as a single row does, and ``n`` rows would take of the
    order of ``n`` rounds. So with several clients the intercept moves by proximal steps from a centre that all share,
    and their length follows the sum of the dual variables, as it does if the intercept is free.

    Cost: a round reads the rows of a client ``1 + epochs`` times and sends ``d + 6`` numbers; memory ``O(n + d)``.

    Reference: Ma, Smith, Jaggi, Jordan, Richtarik, Takac, "Adding vs. averaging in distributed primal-dual
    optimization", ICML 2015, algorithm 1 with gamma = 1 and sigma' = K (there without intercept and momentum);
    O'Donoghue, Candes, "Adaptive restart for accelerated gradient schemes", 2015.
    """

    epochs: int = 1  # of a client in a round; one that is alone makes more where rows are few
    momentum: bool = True
    seed: int = 0

    name: ClassVar[str] = "cocoa"
    needs: ClassVar[Needs] = Needs("rows", clients=True, l2=True)

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs={self.epochs} must be at least 1: a client without one has nothing to say.")

    def start(self, problem: Problem, warm: Point | None) -> CoCoAState:
        """Zero, or the dual variables of a point."""
        return CoCoAState(problem, warm, self.seed, self.epochs)

    def advance(self, problem: Problem, state: CoCoAState, limit: int) -> CoCoAState:
        """Epochs of every client from where the last round led, whose changes are added."""
        rows, communicator, clients = state.rows, problem.communicator, problem.communicator.size
        losses, conjugates = problem.own_sums(rows.apply(state.w) + state.b, state.alpha)
        ahead = state.alpha + state.momentum * state.last_alpha
        shared_w = state.w + state.momentum * state.last_w
        shared_total = state.total + state.momentum * state.last_total
        alpha, w, total = ahead, shared_w.copy(), shared_total
        if state.momentum > 0.0:
            alpha = np.clip(ahead, *problem.dual_box())
            w += clients / problem.lam * rows.adjoint(alpha - ahead)
            total += clients * float((alpha - ahead).sum())
        course, _, visits, _ = dual_epochs(
            rows.vectors, problem.loss, problem.y, problem.s, clients * (state.q + state.tau), clients / problem.lam,
            clients * state.tau, False, alpha, w, np.array([state.intercept_for(total)]), state.order,
            Course(state.order.size), False, state.random, state.epochs,
        )  # fmt: skip
        last_alpha = alpha - state.alpha
        own = [losses, conjugates, alpha.sum(), visits, course.violation != 0.0, (ahead - alpha) @ last_alpha]
        shared = communicator.allreduce(np.append((w - shared_w) / clients, own))
        losses, conjugates, total, visited, busy, led_back = map(float, shared[-6:])
        w = shared_w + shared[:-6]
        self._estimate(state, losses, conjugates)
        state.last_alpha, state.last_w, state.last_total = last_alpha, w - state.w, total - state.total
        state.alpha, state.w, state.total = alpha, w, total
        moved = self._move_intercept(state)
        state.resting = 0 if busy or moved or state.momentum > 0.0 else state.resting + 1
        if self.momentum and clients > 1:
            self._gather_momentum(state, busy == 0.0 or led_back > 0.0)
        state.iterations += 1
        state.passes += 1.0 + visited / state.samples
        if state.iterations % REFRESH_AFTER == 0:
            state.refresh()
        return state

    def point(self, problem: Problem, state: CoCoAState) -> Point:
        """The coefficients, with the best intercept for them if it is free, and dual variables whose sum fits to it."""
        alpha = state.alpha
        if math.isfinite(state.step):
            alpha = balanced(alpha, problem.communicator, state.ridge * state.b)
        return state.point(alpha)

    def _estimate(self, state: CoCoAState, losses: float, conjugates: float) -> None:
        """Sets: ``primal, dual``, from sums at the beginning of a round."""
        state.primal, state.dual = losses + state.penalty(), -conjugates - state.penalty()
        if state.ridge < math.inf:  # what it may cost to make the sum of the dual variables fit
            state.dual -= (1.0 + abs(state.b)) * abs(state.total - state.ridge * state.b)

    def _move_intercept(self, state: CoCoAState) -> bool:
        """A proximal step, and whether that moved it. Sets: ``b, step, residual``."""
        if math.isinf(state.ridge):
            return False
        before, state.b = state.b, state.intercept_for(state.total)
        residual = state.total - state.ridge * state.b
        if residual * state.residual < 0.0:
            state.step = max(state.step / STEP_FACTOR, SHORTEST_STEP)
        elif abs(residual) > 0.5 * abs(state.residual):
            state.step = min(state.step * STEP_FACTOR, LONGEST_STEP)
        state.residual = residual
        return abs(state.b - before) > 1e-15 * (1.0 + abs(before))

    def _gather_momentum(self, state: CoCoAState, anew: bool) -> None:
        """Nesterov's sequence. Sets: ``inertia, momentum``."""
        before = 1.0 if anew else state.inertia
        state.inertia = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * before**2))
        state.momentum = (before - 1.0) / state.inertia


@dataclass
class CoCoAState(DualState):
    """Dual variables are local; all clients agree about everything else."""

    seed: int
    epochs: int  # of a round
    samples: float = field(init=False)  # of all clients
    q: Float = field(init=False)  # curvature of the dual along each variable, without the intercept
    order: Index = field(init=False)
    random: Array = field(init=False)
    step: float = math.inf  # of the intercept's proximal method; infinite if it follows the dual variables at once
    residual: float = 0.0  # by how much the sum of the dual variables misses what the intercept asks for
    last_alpha: Float = field(init=False)  # by how much the last round changed them, as the following two
    last_w: Float = field(init=False)
    last_total: float = 0.0
    momentum: float = 0.0  # how much of that is made in advance
    inertia: float = 1.0
    resting: int = 0  # rounds in which nothing moved

    def __post_init__(self, warm: Point | None) -> None:
        super().__post_init__(warm)
        problem, rows, communicator = self.problem, self.rows, self.problem.communicator
        squares = rows.squared_lengths()
        own = np.array([squares.sum(), problem.s.sum(), rows.n_samples, rows.entries])
        length, weight, samples, entries = map(float, communicator.allreduce(own))
        self.samples = max(1.0, samples)
        if communicator.size == 1:
            self.epochs = max(self.epochs, int(min(ROUND_WORK / max(1.0, entries), MAX_EPOCHS_ALONE)))
        if self.free or (communicator.size > 1 and self.ridge < math.inf):
            curvature = length / self.samples / problem.lam or 1.0 / (weight / self.samples or 1.0)
            self.step = min(max(FIRST_STEP * curvature / self.samples, SHORTEST_STEP), LONGEST_STEP)
        self.q, self.order = squares / problem.lam, np.flatnonzero(problem.s > 0.0)
        self.random = seeded(self.seed + (communicator.rank << 32))
        self.last_alpha, self.last_w = np.zeros_like(self.alpha), np.zeros_like(self.w)

    @property
    def tau(self) -> float:
        """By how much the intercept follows the sum of the dual variables."""
        return 0.0 if math.isinf(self.ridge) else 1.0 / (self.ridge + 1.0 / self.step)

    def intercept_for(self, total: float) -> float:
        """Where dual variables of this sum draw it."""
        return self.tau * (total + self.b / self.step)

    @property
    def exhausted(self) -> bool:
        """Whether no client has anything left to do."""
        return self.resting >= 2
