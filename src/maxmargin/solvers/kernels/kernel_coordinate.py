"""Dual coordinate ascent through a kernel: one sample after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.sampling import ORDERS
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Loss
from maxmargin.solvers.solver import Needs, Solver, State, check_options

STORED = 4000  # samples whose kernel matrix is kept: 128 MB
BLOCK_VALUES = 2**20  # kernel values at a time, of larger ones


@dataclass(frozen=True)
class KernelCoordinate(Solver[Problem, "KernelCoordinateState"]):
    """Dual coordinate ascent through a kernel, as the seed has it for linear regression.

    Problem: ``min sum_i s_i loss(f(x_i) + b, y_i) + lam |f|^2 / 2`` over functions of a kernel's space, any loss with a
    quadratic dual, a penalised intercept or none.

    Method: with ``f = sum_i alpha_i k(x_i, .) / lam``, one dual variable after another is set to its best value, the
    others fixed; for the squared loss that is ``alpha_i += (y_i - f(x_i) - alpha_i / s_i) / (K_ii / lam + 1 / s_i)``.
    The ``order`` is "cyclic", a new "permutation" in each epoch, or "uniform", with replacement.

    Cost: an iteration is an epoch, ``n^2`` operations, and as many kernel values if more than 4000 samples do not let
    the matrix be kept; memory ``O(n^2)``, or ``O(n)`` and a block of rows.

    Reference: Straka, "Kernel methods, SVM", lecture 7 of NPFL129, 2020 (coordinate descent, kernel linear regression);
    Shalev-Shwartz, Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR 2013.
    """

    name: ClassVar[str] = "kernel_coordinate"
    needs: ClassVar[Needs] = Needs("kernel")
    order: str = "permutation"
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self, order=ORDERS)

    def obstacle(self, problem: Problem | BoxQP) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem):
            return "it needs the problem of a function and its losses, not a quadratic program"
        if problem.free_intercept:
            return "it has no free intercept, which would tie all dual variables together"
        return None

    def start(self, problem: Problem, warm: Point | None) -> KernelCoordinateState:
        """Zero, or the dual variables of a point."""
        n = problem.y.size
        alpha = np.zeros(n)
        if warm is not None and warm.alpha is not None:
            alpha = problem.feasible(warm.alpha)
        state = KernelCoordinateState(alpha=alpha, f=np.zeros(n), rng=np.random.default_rng(self.seed))
        if n <= STORED:
            state.K = problem.gram.block(np.arange(n))
        if alpha.any():
            state.f = _function(problem, alpha)
        return state

    def advance(self, problem: Problem, state: KernelCoordinateState, limit: int) -> KernelCoordinateState:
        """One epoch."""
        n, shift = problem.y.size, problem.penalised_column**2
        if state.doubted:
            state.f, state.doubted = _function(problem, state.alpha), False
        order = self._visits(state.rng, n)
        step = n if state.K is not None else max(1, BLOCK_VALUES // max(1, n))
        moved = 0.0
        for first in range(0, n, step):
            some = order[first : first + step]
            rows, place = (state.K, some) if state.K is not None else (problem.gram.block(some), np.arange(some.size))
            moved += _epoch(
                rows, some, place, shift, problem.loss, problem.y, problem.s, problem.lam, state.alpha, state.f
            )
        state.iterations += 1
        state.passes += 1.0
        state.still = moved == 0.0
        z = state.f
        quadratic = 0.5 * float(state.alpha @ z)
        state.primal = problem.losses(z) + quadratic
        state.dual = -problem.conjugates(state.alpha) - quadratic
        return state

    def _visits(self, rng: np.random.Generator, n: int) -> Index:
        """The samples of an epoch, in their order."""
        if self.order == "cyclic":
            return np.arange(n)
        return rng.permutation(n) if self.order == "permutation" else rng.integers(0, n, n)

    def point(self, problem: Problem, state: KernelCoordinateState) -> Point:
        """The function of the dual variables."""
        w = state.alpha / problem.lam
        return Point(w, problem.penalised_column**2 * float(w.sum()), state.alpha.copy())


@dataclass(kw_only=True)
class KernelCoordinateState(State):
    """Dual variables, and the scores of their function."""

    alpha: Float
    f: Float
    rng: np.random.Generator
    K: Float | None = None
    still: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether no variable moved."""
        return self.still


def _function(problem: Problem, alpha: Float) -> Float:
    """The scores of all samples, with a penalised intercept."""
    return np.asarray((problem.gram.apply(alpha) + problem.penalised_column**2 * alpha.sum()) / problem.lam)


@compiled
def _epoch(
    rows: Float, some: Index, place: Index, shift: float, loss: Loss, y: Float, s: Float, lam: float, alpha: Float,
    f: Float,
) -> float:  # fmt: skip
    """Visit some samples, whose kernel values are given by rows. On entry and exit ``lam f = (K + shift) alpha``."""
    moved = 0.0
    for k in range(some.shape[0]):
        i, row = some[k], rows[place[k]]
        if s[i] > 0.0:
            q = (row[i] + shift) / lam
            step = loss.dual_step(alpha[i], y[i], s[i], f[i], q) - alpha[i]
            if step != 0.0:
                for j in range(f.shape[0]):
                    f[j] += step / lam * (row[j] + shift)
                alpha[i] += step
                moved += abs(step)
    return moved
