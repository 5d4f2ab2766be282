"""Gradient descent with a fixed step for least squares: Landweber's iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.numerics.lanczos import Spectrum, ends_of_spectrum
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.normal_equations import NormalEquations, rounds_at_once
from maxmargin.solvers.solver import Needs, Solver, State

BOLDEST = 1.9  # times the inverse of the largest curvature; the bound is 2
STUCK = 20  # iterations without a smaller gradient: only rounding is left, or the step is too long


@dataclass(frozen=True)
class Landweber(Solver[Problem, "LandweberState"]):
    """Landweber's iteration, the simplest method for least squares: to read, and to compare with.

    Problem: ``min 1/2 sum_i s_i (x_i.w + b - y_i)^2 + lam |w|^2 / 2`` with any intercept, or without a penalty
    (`Unpenalised`): then the solution of least norm, if it starts at zero.

    Method: ``w <- w - step (A^T S (A w - t) + lam w)``, where rows and targets are centred if the intercept is free.
    The error follows ``w_k - w* = (I - step H)^k (w_0 - w*)`` with ``H = A^T S A + lam I``, so that it vanishes if and
    only if ``0 < step < 2 / |H|``; an own ``step`` outside of that is refused. The best fixed one is
    ``2 / (h_max + h_min)`` with the ends of the spectrum of ``H`` on the rows' span: errors shrink by the factor
    ``(h_max - h_min) / (h_max + h_min)`` in each step, the ``rate`` among the counters. It is taken if none is given,
    but no more than ``1.9 / h_max``: near the bound, errors along the largest curvature would change their sign in
    each step and hardly shrink. Lanczos' method finds both ends, and what the gradients show of ``H`` on the way checks
    them. ``shortest_step`` is the textbook's rule to stop: when a step is shorter than that. It proves nothing; the
    certificate says how near the optimum is.

    Cost: one iteration is two passes over the data, and finding the step up to 120; memory ``O(n + d)``. Clients send
    ``d`` numbers in each. It takes ``h_max / h_min`` iterations for some digits, where `conjugate_gradients` takes the
    root of that.

    Reference: Landweber, "An iteration formula for Fredholm integral equations of the first kind", 1951; Van Veen,
    "Gradient descent solutions to least-square problems", 2019.
    """

    step: float | None = None
    shortest_step: float = 0.0

    name: ClassVar[str] = "landweber"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, linear=True)

    def __post_init__(self) -> None:
        if self.step is not None and not 0.0 < self.step < math.inf:
            raise ValueError(f"step={self.step!r} is no step; give a positive number, or None for the best one.")
        if not 0.0 <= self.shortest_step < math.inf:
            raise ValueError(f"shortest_step={self.shortest_step!r} has to be a length: 0 to stop by the gap alone.")

    def start(self, problem: Problem, warm: Point | None) -> LandweberState:
        """Zero, or a given point; and the length of the steps."""
        equations = NormalEquations.of(problem)
        spectrum = spectrum_of(equations)
        if self.step is not None and self.step * spectrum.largest >= 2.0:
            raise ValueError(
                f"step={self.step:g} is outside of its bound: gradient descent on these data needs 0 < step < 2 / "
                f"|A^T S A + lam I| = {2.0 / spectrum.largest:.6g}; leave step=None for the best fixed one."
            )
        state = LandweberState(
            equations=equations,
            theta=np.zeros(equations.bordered.size) if warm is None else equations.theta(warm),
            residual=equations.t,
            gradient=np.zeros(equations.bordered.size),
            least=spectrum.least,
            largest=spectrum.bound,
            passes=2.0 * spectrum.products + 2.0,
        )
        state.step = self.step or state.best_step
        state.look()
        return state

    def advance(self, problem: Problem, state: LandweberState, limit: int) -> LandweberState:
        """Some steps."""
        for _ in range(min(limit, rounds_at_once(problem.features.entries))):
            before, length = state.gradient, state.length
            state.theta = state.theta + state.step * before
            state.iterations += 1
            state.passes += 2.0
            state.look()
            if state.length > length > 0.0 and self.step is None:
                state.learn(float(before @ (before - state.gradient)) / (state.step * length * length))
            state.done = state.step * length < self.shortest_step
            if state.exhausted:
                break
        return state

    def point(self, problem: Problem, state: LandweberState) -> Point:
        """The coefficients; their dual variables, the weighted residuals, are found with the certificate."""
        point = state.equations.point(state.theta)
        if not state.iterations:
            return Point(point.w, point.b, problem.feasible(state.equations.s * state.residual))
        return point


@dataclass(kw_only=True)
class LandweberState(State):
    """``residual = t - A theta`` and ``gradient = A^T S residual - lam theta``, the direction of descent."""

    equations: NormalEquations
    theta: Float
    residual: Float
    gradient: Float
    least: float  # eigenvalue of H on the span of the rows
    largest: float
    step: float = 0.0
    length: float = math.inf  # of the gradient
    shortest: float = math.inf  # so far
    stuck: int = 0
    done: bool = False  # by the rule of the last step

    @property
    def best_step(self) -> float:
        """The fixed step for which errors shrink fastest, with a distance from the bound."""
        return min(2.0 / (self.largest + self.least), BOLDEST / self.largest) if self.largest > 0.0 else 1.0

    @property
    def rate(self) -> float:
        """The factor by which errors shrink in each step, at least."""
        return max(abs(1.0 - self.step * self.largest), abs(1.0 - self.step * self.least))

    @property
    def exhausted(self) -> bool:
        """Whether the last step was short enough for the rule, or steps no longer help."""
        return self.done or self.stuck > STUCK or self.length == 0.0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, the step, and the factor by which errors shrink."""
        return {"passes": self.passes, "step": self.step, "rate": self.rate}

    def look(self) -> None:
        """Residuals and gradient from the data, and both values. Sets: all of these, and ``stuck``."""
        e = self.equations
        self.residual = e.t - e.apply(self.theta) if self.theta.any() else e.t
        self.gradient = e.adjoint(e.s * self.residual) - e.lam * self.theta
        self.primal = e.value(self.residual, self.theta)
        self.dual = self.primal - e.gap(self.gradient, self.theta)
        self.length = float(np.linalg.norm(self.gradient))
        self.stuck = 0 if self.length < self.shortest else self.stuck + 1
        self.shortest = min(self.length, self.shortest)

    def learn(self, curvature: float) -> None:
        """Take shorter steps if there is a direction that is more curved than was known. Sets: ``largest, step``."""
        if curvature > self.largest:
            self.largest = curvature
            self.step = self.best_step


def spectrum_of(equations: NormalEquations) -> Spectrum:
    """The ends of the spectrum of ``H = A^T S A + lam I`` on the span of the rows; clients find the same."""

    def apply(v: Float) -> Float:
        return np.asarray(equations.adjoint(equations.s * equations.apply(v)) + equations.lam * v)

    direction = np.random.default_rng(0).normal(size=equations.bordered.size)
    spectrum = ends_of_spectrum(apply, apply(direction) - equations.lam * direction)
    return spectrum if spectrum.products else Spectrum(equations.lam, equations.lam, 0.0, 1)
