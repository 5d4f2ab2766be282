"""Kernel ridge regression by a Cholesky factor of the kernel matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import LinAlgError

from maxmargin.numerics.balance import balanced
from maxmargin.numerics.cholesky import factorise, solved
from maxmargin.operators import Gram
from maxmargin.parts.losses import Squared
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.solver import Needs, Solver, State

LARGEST = 10_000  # matrix: 800 MB
SHRINKING = 0.5  # of corrections: slower ones are only rounding


@dataclass(frozen=True)
class KernelCholesky(Solver[Problem, "KernelCholeskyState"]):
    """The linear equations of kernel ridge regression, by a factor of the kernel matrix.

    Problem: ``min 1/2 sum_i s_i (f(x_i) + b - y_i)^2 + lam |f|^2 / 2`` over functions of a kernel's space, with any
    intercept.

    Method: with ``f = sum_i w_i k(x_i, .)``, ``(K + lam S^-1) w = y - b``; a free intercept adds the equation
    ``sum_i w_i = 0``, and a penalised one a constant to every entry of ``K``. If the certificate is not good enough,
    the same factor corrects the solution by its residuals, as long as corrections get smaller. Problems of the same
    samples and weights share the factor.

    Cost: one iteration: ``n^2`` kernel values and ``n^3 / 3`` operations; memory ``8 n^2`` bytes. A correction takes
    all kernel values again.

    Reference: Saunders, Gammerman, Vovk, "Ridge regression learning algorithm in dual variables", ICML 1998; Suykens,
    Vandewalle, "Least squares support vector machine classifiers", 1999.
    """

    name: ClassVar[str] = "kernel_cholesky"
    needs: ClassVar[Needs] = Needs("kernel", squared=True)

    def obstacle(self, problem: Problem | BoxQP) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem):
            return "it needs the problem of a function and its losses, not a quadratic program"
        if problem.y.size > LARGEST:
            return f"it factorises the kernel matrix of {problem.y.size} samples, and takes up to {LARGEST}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> KernelCholeskyState:
        """Zero, or a given point."""
        state = KernelCholeskyState(w=np.zeros(problem.y.size))
        if warm is not None and warm.w.size == problem.y.size:
            state.w, state.b = warm.w.copy(), warm.b
        return state

    def advance(self, problem: Problem, state: KernelCholeskyState, limit: int) -> KernelCholeskyState:
        """The solution, or a correction of it."""
        state.iterations += 1
        state.passes += 1.0
        if state.factor is None:
            state.factor = _factor_of(problem)
            state.failed = state.factor is None
            if state.factor is not None:
                state.w, state.b = state.factor.solution(problem.y)
                state.primal = state.dual = 0.0  # the certificate tells
            return state
        f, used = problem.gram.apply(state.w) + state.b + problem.penalised_column**2 * state.w.sum(), problem.s > 0.0
        residual = np.zeros(f.size)
        s = state.factor.s[used]
        residual[used] = (problem.y - f)[used] - problem.lam * state.w[used] / s
        if problem.penalised_column:
            residual[used] += state.b
        step, b = state.factor.solution(residual)
        last, state.correction = state.correction, float(np.linalg.norm(step))
        state.failed = not state.correction < SHRINKING * last or not math.isfinite(state.correction)
        if not state.failed:
            state.w = state.w + step
            state.b = state.b + b if problem.free_intercept else problem.penalised_column**2 * float(state.w.sum())
        return state

    def point(self, problem: Problem, state: KernelCholeskyState) -> Point:
        """The expansion, and the dual variables that it stands for."""
        w = balanced(state.w) if problem.free_intercept else state.w.copy()
        return Point(w, state.b, problem.lam * w)


@dataclass(kw_only=True)
class KernelCholeskyState(State):
    """The expansion and the intercept, and the factor that they came from."""

    w: Float
    b: float = 0.0
    factor: _Factor | None = None
    failed: bool = False
    correction: float = math.inf

    @property
    def exhausted(self) -> bool:
        """Whether the matrix has no factor, or the last correction was no smaller than the one before."""
        return self.failed


class _Factor(NamedTuple):
    """A solution of the equations for any right hand side, and the weights, penalty and intercept that it is for."""

    solve: Callable[[Float], Float]
    s: Float  # weights, times the curvature of the loss
    given: Float  # the weights as they are in the problem
    lam: float
    curvature: float
    column: float
    free: bool
    of_ones: Float

    def serves(self, problem: Problem) -> bool:
        """Whether a problem over the same samples has the same matrix."""
        same = (self.lam, self.curvature, self.column, self.free) == _figures(problem)
        return same and self.given is problem.s

    def solution(self, y: Float) -> tuple[Float, float]:
        """The expansion and the intercept."""
        w, used = np.zeros(self.s.size), self.s > 0.0
        w[used] = self.solve(y[used])
        if not self.free:
            return w, self.column**2 * float(w.sum())
        total = float(self.of_ones.sum())
        b = float(w.sum()) / total if total > 0.0 else 0.0
        w[used] -= b * self.of_ones
        return w, b


_known: WeakKeyDictionary[Gram, _Factor] = WeakKeyDictionary()
_lock = Lock()


def _figures(problem: Problem) -> tuple[float, float, float, bool]:
    curvature = cast("Squared", problem.loss).curvature
    return problem.lam, curvature, problem.penalised_column, problem.free_intercept


def _factor_of(problem: Problem) -> _Factor | None:
    """The factor of a problem's matrix, which is remembered as long as the samples are; ``None`` if there is none."""
    with _lock:
        known = _known.get(problem.gram)
    if known is not None and known.serves(problem):
        return known
    lam, curvature, column, free = _figures(problem)
    s, used = curvature * problem.s, np.flatnonzero(problem.s > 0.0)
    K = problem.gram.block(np.arange(problem.y.size))
    if used.size < s.size:
        K = K[np.ix_(used, used)]
    K += column**2
    np.einsum("ii->i", K)[:] += lam / s[used]
    try:
        factorise(K, problem.gram.workers)
    except LinAlgError:
        return None
    ones = solved(K, np.ones(used.size)) if free else np.empty(0)
    factor = _Factor(lambda g: solved(K, g), s, problem.s, lam, curvature, column, free, ones)
    with _lock:
        _known[problem.gram] = factor
    return factor
