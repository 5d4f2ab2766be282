"""Subgradient descent for linear models as textbooks write it: the user's steps, nothing held back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.solver import Needs, Solver, State, check_options

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
MAX_STEPS_PER_ROUND = 50
RULES = ("constant", "inverse_sqrt", "inverse", "polyak")
LARGEST = 1e100  # entry of the coefficients; beyond it they are about to overflow


@dataclass(frozen=True)
class TextbookSubgradient(Solver[Problem, "TextbookSubgradientState"]):
    """Subgradient descent, a reference to read and to compare with; `Subgradient` is the one to use.

    Problem: ``min P(w) = sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss, any intercept. A free one is a
    coefficient without a penalty.

    Method: ``w <- w - eta g`` with ``g = lam w + sum_i s_i slope_i x_i``, from zero, and nothing else: no step is cut,
    no point projected, and the point is the last one, not the best. Step rules, with the user's own ``step``:

    ================  ===========================  =================================================================
    ``constant``      ``step``                     comes to a neighbourhood of the optimum and no closer
    ``inverse_sqrt``  ``step / sqrt(t)``           ``O(1 / sqrt(t))``
    ``inverse``       ``step / (lam t)``           ``O(log t / t)`` for ``step = 1``
    ``polyak``        ``step (P(w) - f) / |g|^2``  ``f`` is the optimal value, taken for known: ``target``
    ================  ===========================  =================================================================

    A soft SVM that is written as ``sum_i (1 - y_i x_i.w)_+ + L |w|^2`` is this problem with ``lam = 2 L``. The dual
    point is what the slopes at the point say; it proves little, as last points of such methods do.

    Cost: one iteration is one step, two passes over the data; memory ``O(n + d)``.

    Reference: Shor, "Minimization methods for non-differentiable functions", 1985; Polyak, "Minimization of unsmooth
    functionals", 1969; Van Veen, "Stochastic gradient descent", 2019, with the sign of the labels put right.
    """

    rule: str = "inverse"
    step: float = 1.0
    target: float = 0.0

    name: ClassVar[str] = "subgradient_textbook"
    needs: ClassVar[Needs] = Needs("rows", l2=True)

    def __post_init__(self) -> None:
        check_options(self, rule=RULES)
        if not 0.0 < self.step < math.inf:
            raise ValueError(f"step={self.step!r} must be positive and finite.")
        if not math.isfinite(self.target):
            raise ValueError(f"target={self.target!r} must be a number: the optimal value, or a bound from below.")

    def start(self, problem: Problem, warm: Point | None) -> TextbookSubgradientState:
        """Zero, or the coefficients of a point."""
        bordered = problem.bordered
        theta = np.zeros(bordered.size) if warm is None else bordered.join(warm.w, warm.b)
        state = TextbookSubgradientState(theta=theta, ridge=bordered.ridge(problem.lam), g=np.zeros(bordered.size))
        self._look(problem, state)
        return state

    def advance(self, problem: Problem, state: TextbookSubgradientState, limit: int) -> TextbookSubgradientState:
        """Some steps."""
        entries = max(1, problem.features.entries)
        for _ in range(min(max(ROUND_WORK // entries, 1), MAX_STEPS_PER_ROUND, limit)):
            if state.exhausted:
                break
            theta = state.theta - self._step_length(problem, state) * state.g
            state.wild = not float(np.abs(theta).max(initial=0.0)) <= LARGEST  # true for NaN
            if state.wild:
                break
            state.theta = theta
            state.iterations += 1
            self._look(problem, state)
        return state

    def point(self, problem: Problem, state: TextbookSubgradientState) -> Point:
        """The last coefficients, with the best intercept if it is free, and what the slopes say there."""
        w, b = problem.bordered.split(state.theta)
        z = problem.operator.apply(w)
        b = problem.best_intercept(z) if problem.free_intercept else b
        return Point(w, b, problem.feasible(problem.slopes(z + b)))

    def _step_length(self, problem: Problem, state: TextbookSubgradientState) -> float:
        """``eta`` of the next step."""
        t = state.iterations + 1
        if self.rule == "polyak":
            return self.step * max(state.value - self.target, 0.0) / float(state.g @ state.g)
        if self.rule == "inverse":
            return self.step / (problem.lam * t)
        return self.step / math.sqrt(t) if self.rule == "inverse_sqrt" else self.step

    def _look(self, problem: Problem, state: TextbookSubgradientState) -> None:
        """Sets: ``value, g, passes``."""
        z = problem.bordered.apply(state.theta)
        state.g = state.ridge * state.theta - problem.bordered.adjoint(problem.slopes(z))
        state.value = problem.losses(z) + 0.5 * float(state.ridge @ (state.theta * state.theta))
        state.passes += 2.0


@dataclass(kw_only=True)
class TextbookSubgradientState(State):
    """The coefficients, the last of which is that of an intercept."""

    theta: Float
    ridge: Float
    g: Float
    value: float = math.inf
    wild: bool = False  # steps are far too long

    @property
    def exhausted(self) -> bool:
        """Whether the subgradient is zero, or the next coefficients would overflow."""
        return self.wild or not self.g.any()

    @property
    def certificate_passes(self) -> float:
        """Of the point and of its certificate."""
        return 4.0
