"""Subgradient descent for linear models with an L2 penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 50
RULES = ("constant", "inverse_sqrt", "inverse", "polyak")


@dataclass(frozen=True)
class Subgradient(Solver[Problem, "SubgradientState"]):
    """Descent along subgradients of the whole sum.

    Problem: ``min P(w) = sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss. A penalised intercept is one more
    column; a free one is minimised out, which leaves a function of ``w`` that is as strongly convex.

    Method: ``w <- w - eta (lam w - X^T alpha)`` with ``alpha_i = -s_i slope_i``. Step rules, with the distance
    ``D = sqrt(2 P(0) / lam)`` in which the optimum lies and the length ``G`` of the first subgradient:

    ================  ============================  ================================================================
    ``constant``      ``step D / G``                comes to a neighbourhood of the optimum and no closer
    ``inverse_sqrt``  ``step D / (G sqrt(t))``      ``O(1 / sqrt(t))`` without strong convexity
    ``inverse``       ``1 / (lam t)``               ``O(log t / t)``
    ``polyak``        ``(P(w) - best D) / |g|^2``   the best dual value stands for the unknown optimum
    ================  ============================  ================================================================

    No step is longer than ``1 / lam``, so that with ``A <- A + eta lam (alpha - A)`` always ``lam w = X^T A`` and ``A``
    is an average of dual points: the dual point of the method. For ``inverse`` it is the plain mean of all ``alpha`` so
    far. Where ``|w| > D``, both are scaled back; without that, losses with unbounded slopes would let the steps grow
    without limit. The best ``w`` and the best ``A`` are kept, as neither value is monotone.

    Cost: one iteration is one step, two passes over the data; memory ``O(n + d)``.

    Reference: Shor, "Minimization methods for non-differentiable functions", 1985; Polyak, "Minimization of unsmooth
    functionals", 1969; Shalev-Shwartz, Singer, Srebro, "Pegasos", ICML 2007, for the rule ``inverse``.
    """

    rule: str = "polyak"
    step: float = 1.0

    name: ClassVar[str] = "subgradient"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, l2=True)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule={self.rule!r} is unknown; choose one of {', '.join(map(repr, RULES))}.")
        if not 0.0 < self.step < math.inf:
            raise ValueError(f"step={self.step} must be positive and finite.")

    def start(self, problem: Problem, warm: Point | None) -> SubgradientState:
        """Zero, or the dual variables of a point."""
        bordered = problem.penalised
        A = np.zeros(problem.y.size)
        if warm is not None and warm.alpha is not None:
            A = problem.feasible(warm.alpha)
        theta = bordered.adjoint(A) / problem.lam
        at_zero, _ = _value_and_slopes(problem, np.zeros_like(theta))
        state = SubgradientState(
            A=A, theta=theta, radius=math.sqrt(2.0 * at_zero / problem.lam),
            alpha=A, g=np.zeros_like(theta), best_theta=theta, best_A=A,
        )  # fmt: skip
        self._look(problem, state)
        length = float(np.linalg.norm(state.g))
        state.first_step = state.radius / length if length > 0.0 else 0.0
        if warm is not None:  # its coefficients may be better than those that belong to its dual variables
            theta = bordered.join(warm.w, warm.b)
            value, _ = _value_and_slopes(problem, theta)
            if value < state.primal:
                state.primal, state.best_theta = value, theta
        return state

    def advance(self, problem: Problem, state: SubgradientState, limit: int) -> SubgradientState:
        """Some steps."""
        entries = max(1, problem.features.entries)
        for _ in range(min(max(ROUND_WORK // entries, 1), MAX_STEPS_PER_ROUND, limit)):
            share = min(problem.lam * self._step_length(problem, state), 1.0)
            theta = state.theta - share / problem.lam * state.g
            length = float(np.linalg.norm(theta))
            shrink = state.radius / length if length > state.radius else 1.0
            state.theta, state.A = shrink * theta, shrink * (state.A + share * (state.alpha - state.A))
            state.iterations += 1
            self._look(problem, state)
            if state.exhausted:
                break
        return state

    def point(self, problem: Problem, state: SubgradientState) -> Point:
        """The best coefficients and the best dual variables so far."""
        w, b = problem.penalised.split(state.best_theta)
        return Point(w, b + problem.missing_intercept(problem.operator.apply(w)), state.best_A.copy())

    def _step_length(self, problem: Problem, state: SubgradientState) -> float:
        """``eta`` of the next step."""
        length = float(state.g @ state.g)
        if length == 0.0:  # the optimum: alpha is its proof, and the longest step makes it the dual point
            return 1.0 / problem.lam
        if self.rule == "inverse":
            return 1.0 / (problem.lam * (state.iterations + 1))
        if self.rule == "polyak":
            return max(state.value - state.dual, 0.0) / length
        eta = self.step * state.first_step
        return eta if self.rule == "constant" else eta / math.sqrt(state.iterations + 1)

    def _look(self, problem: Problem, state: SubgradientState) -> None:
        """Value and subgradient at the present point, and the dual value of ``A``.

        Sets: ``value, alpha, g, optimal, passes``; ``primal, best_theta`` and ``dual, best_A`` if they are the best so
        far.
        """
        state.value, state.alpha = _value_and_slopes(problem, state.theta)
        state.g = problem.lam * state.theta - problem.penalised.adjoint(state.alpha)
        state.passes += 2.0
        dual = -problem.conjugates(state.A) - 0.5 * problem.lam * float(state.theta @ state.theta)
        if state.value < state.primal:
            state.primal, state.best_theta = state.value, state.theta
        if dual > state.dual:
            state.dual, state.best_A = dual, state.A
        known = np.array_equal(state.A, state.alpha)
        state.optimal = not state.g.any() and not problem.sums(not known)[0]


@dataclass
class SubgradientState(State):
    """After every step ``lam theta == X.T @ A``, with the column of a penalised intercept."""

    A: Float
    theta: Float
    radius: float  # of the ball that holds the optimum
    alpha: Float  # minus a subgradient of the losses at theta
    g: Float
    best_theta: Float
    best_A: Float
    value: float = math.inf  # of the primal at theta
    first_step: float = 0.0  # of the rules that are not given by the problem
    optimal: bool = False  # whether the subgradient is zero and the dual point knows it

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to do."""
        return self.optimal


def _value_and_slopes(problem: Problem, theta: Float) -> tuple[float, Float]:
    """Primal value at ``theta`` with the best intercept if it is free, and minus a subgradient of the losses there."""
    z = problem.penalised.apply(theta)
    b = problem.missing_intercept(z)
    return problem.losses(z + b) + 0.5 * problem.lam * float(theta @ theta), problem.answers(z, b)
