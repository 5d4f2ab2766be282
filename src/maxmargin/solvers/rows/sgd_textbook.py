"""Stochastic gradient descent for ridge, LASSO and SVM as textbooks write it, penalties by their (sub)gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.sampling import ORDERS, PERMUTATION, UNIFORM, below, seeded, shuffle
from maxmargin.parts.losses import Hinge, Squared
from maxmargin.parts.penalties import L1, L2, ElasticNet, strengths
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index, Loss, Vectors
from maxmargin.solvers.solver import Needs, Solver, State, check_options

ROUND_WORK = 2_000_000  # multiplications per round: a few milliseconds
LARGEST = 1e100  # entry of the coefficients; beyond it they are about to overflow


@dataclass(frozen=True)
class TextbookSGD(Solver[Problem, "TextbookSGDState"]):
    """Stochastic gradient descent, a reference to read and to compare with; `SGD` is the one to use.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + penalty(w)`` with the squared loss ``(z - y)^2 / 2`` or the hinge,
    an L2, L1 or elastic net penalty, and any intercept.

    Method: the penalty is shared out among the ``m`` samples of positive weight. One step goes along the gradient of
    what one of them adds,

    ``w <- w - step (s_i slope_i x_i + (l2 / m) w + (l1 / m) sign(w))``,

    where ``slope_i`` is ``x_i.w + b - y_i``, or for the hinge ``-y_i`` inside the margin and else 0. So L2 multiplies
    ``w`` by ``1 - step l2 / m``, and L1 moves each coefficient toward zero. The latter rarely hits zero, since a step
    leads beyond it and the next one back: coefficients of a LASSO found like this are small, and none of them is zero,
    where the proximal steps of `SGD` leave zeros. The ``order`` is "cyclic", a new "permutation" in each epoch, or
    "uniform", where each sample is drawn. The length of a step is
    ``step / (1 + epochs)^power_t``; a constant one (``power_t=0``) comes to a neighbourhood of the optimum and no
    closer. ``step=None`` is ``1 / max_i (s_i |x_i|^2 + l2 / m)``, with which no step leads past the sample's own
    optimum of a squared loss.

    Cost: one iteration is one epoch; each of its steps touches every coefficient, so that it takes ``O(m d)`` also
    where rows are sparse.

    Reference: Robbins, Monro, "A stochastic approximation method", 1951; Van Veen, "Stochastic gradient descent", 2019,
    with the factors put right: for ``sum_i (x_i.w - y_i)^2 + lam |w|_1`` and its ``step / 2`` times the gradient, the
    last term is ``lam step / (2 m) sign(w)``, and the hinge has the slope ``-y_i x_i``.
    """

    order: str = "permutation"
    step: float | None = None
    power_t: float = 0.0
    seed: int = 0

    name: ClassVar[str] = "sgd_textbook"
    needs: ClassVar[Needs] = Needs("rows")

    def __post_init__(self) -> None:
        check_options(self, order=ORDERS)
        if self.step is not None and not 0.0 < self.step < math.inf:
            raise ValueError(f"step={self.step!r} is no step; give a positive number, or None for one that is safe.")
        if not 0.0 <= self.power_t < math.inf:
            raise ValueError(f"power_t={self.power_t!r} must not be negative: steps would grow.")

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem.loss, (Squared, Hinge)):
            return f"it needs the squared loss or the hinge; this problem has {type(problem.loss).__name__}"
        if not isinstance(problem.penalty, (L1, L2, ElasticNet)):
            return f"it needs an L1, L2 or elastic net penalty; this problem has {type(problem.penalty).__name__}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> TextbookSGDState:
        """Zero, or a given point; and the length of the first steps."""
        bordered, s = problem.bordered, problem.s
        samples = np.flatnonzero(s > 0.0)
        share = np.array(strengths(problem.penalty)) / max(1, samples.size)
        curvature = problem.loss.curvature if isinstance(problem.loss, Squared) else 1.0
        squares = curvature * s * (problem.rows.squared_lengths() + problem.column**2)
        largest = float(squares.max(initial=0.0)) + float(share[1])
        return TextbookSGDState(
            theta=np.zeros(bordered.size) if warm is None else bordered.join(warm.w, warm.b),
            penalised=bordered.penalised,
            s=s,
            samples=samples,
            share=share,
            random=seeded(self.seed),
            step=self.step or (1.0 / largest if largest > 0.0 else 1.0),
            passes=1.0,
        )

    def advance(self, problem: Problem, state: TextbookSGDState, limit: int) -> TextbookSGDState:
        """Some epochs."""
        epochs = min(max(ROUND_WORK // max(1, state.samples.size * state.theta.size), 1), limit)
        theta = state.theta.copy()
        l1, l2 = state.share.tolist()
        _epochs(
            problem.rows.vectors, problem.loss, problem.y, state.s, problem.column, state.penalised, l1, l2, state.step,
            float(self.power_t), ORDERS[self.order], state.iterations, epochs, state.samples, state.random, theta,
        )  # fmt: skip
        state.iterations += epochs
        state.passes += float(epochs)
        state.wild = not float(np.abs(theta).max(initial=0.0)) <= LARGEST  # true for NaN
        if not state.wild:
            state.theta = theta
        return state

    def point(self, problem: Problem, state: TextbookSGDState) -> Point:
        """Where the path has come to, with the best intercept if it is free; the residuals are the dual variables."""
        w, b = problem.bordered.split(state.theta)
        z = problem.operator.apply(w)
        b = problem.best_intercept(z) if problem.free_intercept else b
        return Point(w, b, problem.feasible(problem.slopes(z + b)))


@dataclass(kw_only=True)
class TextbookSGDState(State):
    """The coefficients, the last of which is that of an intercept."""

    theta: Float
    penalised: int  # how many of them have a penalty
    s: Float  # weights
    samples: Index
    share: Float  # of each sample, of the strengths of L1 and L2
    random: Array
    step: float
    wild: bool = False  # steps are far too long

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing to learn from, or the next coefficients would overflow."""
        return self.wild or self.samples.size == 0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and the length of the first steps."""
        return {"passes": self.passes, "step": self.step}

    @property
    def certificate_passes(self) -> float:
        """Of the point and of its certificate."""
        return 4.0


@compiled
def _epochs(
    vectors: Vectors, loss: Loss, y: Float, s: Float, height: float, penalised: int, l1: float, l2: float, first: float,
    power: float, order: int, done: int, epochs: int, samples: Index, random: Array, theta: Float,
) -> None:  # fmt: skip
    """Epochs of single steps. Sets: ``theta``, and the order of the samples."""
    m, d = samples.shape[0], theta.shape[0]
    w = theta[: d - 1] if height != 0.0 else theta
    for epoch in range(done, done + epochs):
        step = first / (1.0 + epoch) ** power
        if order == PERMUTATION:
            shuffle(samples, 0, m, random)
        for k in range(m):
            i = samples[below(m, random)] if order == UNIFORM else samples[k]
            z = vectors.dot(i, w)
            if height != 0.0:
                z += height * theta[d - 1]
            slope = loss.slope(z, y[i])
            for j in range(penalised):
                sign = 1.0 if theta[j] > 0.0 else (-1.0 if theta[j] < 0.0 else 0.0)
                theta[j] -= step * (l2 * theta[j] + l1 * sign)
            vectors.add(i, -step * s[i] * slope, w)
            if height != 0.0:
                theta[d - 1] -= step * s[i] * slope * height
