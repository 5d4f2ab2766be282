"""Sequential minimal optimisation as textbooks teach it: random partners, the whole kernel matrix, no heuristics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators import Gram
from maxmargin.parts.losses import Hinge
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 4_000_000  # kernel values read per round: a few milliseconds
MAX_PASSES_PER_ROUND = 100
MAX_SAMPLES = 10_000  # their kernel matrix takes 800 MB


@dataclass(frozen=True)
class SimplifiedSMO(Solver[Problem, "SimplifiedSMOState"]):
    """Simplified sequential minimal optimisation, a reference to read and to compare with; `SMO` is the fast one.

    Problem: ``max L(a) = sum_i a_i - sum_ij a_i a_j t_i t_j K_ij / 2`` with ``0 <= a_i <= C_i`` and
    ``sum_i a_i t_i = 0``: the dual of ``min sum_i C_i max(0, 1 - t_i y(x_i)) + lam |w|^2 / 2`` with a free intercept,
    where ``y(x_i) = sum_j a_j t_j K_ij + b``. Here ``K`` is the kernel matrix divided by ``lam``.

    Method: go through the samples. Where ``a_i`` violates the KKT conditions by more than ``step_tol``, draw a partner
    ``j`` and maximise ``L`` over the pair: with ``a_i`` tied to ``a_j`` by the constraint, ``L`` is a parabola in
    ``a_j``, whose vertex is one Newton step away, clipped to the interval ``[L, H]`` where both stay in their boxes.
    Then ``b`` is set so that the pair fulfils the KKT conditions. Changes of ``a_j`` below ``step_tol``, which does not
    depend on the scale of ``a``, are not made. After ``max_passes`` passes without a change the method gives up. That
    is no proof of optimality, since other partners might have made a change: the certificate is.

    Cost: one iteration is one pass over the samples, ``O(n^2)`` with ``O(n)`` per error ``E_i`` and ``E_j``; memory
    ``O(n^2)`` for the kernel matrix.

    Reference: Straka, "Soft-margin SVM, SMO", NPFL129, lecture 7, 2020, algorithm parts I and II; after Platt,
    "Sequential minimal optimization", MSR-TR-98-14, 1998.
    """

    step_tol: float = 1e-7
    max_passes: int = 10
    seed: int = 0

    name: ClassVar[str] = "smo_simplified"
    needs: ClassVar[Needs] = Needs("kernel")

    def supports(self, problem: object) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem):
            return "it needs a classification problem with labels; this is a quadratic program"
        if not problem.kernelised:
            return "it needs a kernel matrix; this problem has rows of features"
        if not isinstance(problem.loss, Hinge) or problem.loss.margin != 1.0:
            return f"it needs the hinge loss with margin 1; this problem has {problem.loss}"
        if not problem.free_intercept:
            return f"it needs a free intercept; this problem has intercept={problem.intercept!r}"
        if np.unique(problem.y[problem.s > 0.0]).size < 2:
            return "it needs samples of positive weight in both classes; no pair of equal labels can leave zero"
        if problem.y.size > MAX_SAMPLES:
            return f"it stores the whole kernel matrix, so it takes {MAX_SAMPLES} samples at most; use solver='smo'"
        return None

    def start(self, problem: Problem, warm: Point | None) -> SimplifiedSMOState:
        """Zero, or the dual variables and the intercept of a point."""
        gram, t = problem.gram, problem.y
        state = SimplifiedSMOState(
            gram=gram,
            K=gram.block(np.arange(t.size)) / problem.lam,
            t=t,
            C=problem.s,
            a=np.zeros(t.size),
            b=0.0,
            random=np.random.RandomState(self.seed),
        )
        if warm is not None and warm.alpha is not None:
            state.a, state.b = problem.feasible(warm.alpha) * t, warm.b
        return state

    def advance(self, problem: Problem, state: SimplifiedSMOState, limit: int) -> SimplifiedSMOState:
        """Passes over the samples, until too many of them in a row changed nothing."""
        n = state.t.size
        for _ in range(min(limit, MAX_PASSES_PER_ROUND, max(1, ROUND_WORK // n**2))):
            partners = state.random.randint(n - 1, size=n)
            state.b, changed = _one_pass(state.K, state.t, state.C, state.a, state.b, partners, self.step_tol)
            state.iterations += 1
            state.steps += changed
            state.unchanged = 0 if changed else state.unchanged + 1
            if state.unchanged >= self.max_passes:
                state.exhausted = True
                break
        state.take_stock()
        return state

    def point(self, problem: Problem, state: SimplifiedSMOState) -> Point:
        """The variables and the intercept as they are."""
        alpha = np.clip(state.a, 0.0, state.C) * state.t  # a_i, found by subtraction, may be outside by its rounding
        return Point(alpha / problem.lam, state.b, alpha)


@dataclass
class SimplifiedSMOState(State):
    """The lecture's variables, and what is counted."""

    gram: Gram
    K: Float
    t: Float
    C: Float
    a: Float
    b: float
    random: np.random.RandomState
    steps: int = 0  # pairs that were changed
    unchanged: int = 0  # passes without a change since the last one with
    exhausted: bool = False

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the kernel matrix, the first to evaluate it; pairs that were changed."""
        return {"passes": 1.0 + self.iterations, "steps": float(self.steps)}

    @property
    def certificate_passes(self) -> float:
        """Share of the kernel matrix that belongs to non-zero variables."""
        return self.gram.passes(self.a)

    def take_stock(self) -> None:
        """Sets: ``primal, dual``."""
        at = self.a * self.t
        f = self.K @ at
        losses = np.maximum(0.0, 1.0 - self.t * (f + self.b))
        self.primal = float(self.C @ losses + 0.5 * at @ f)
        self.dual = float(self.a.sum() - 0.5 * at @ f)


@compiled
def _one_pass(K: Float, t: Float, C: Float, a: Float, b: float, partners: Index, tol: float) -> tuple[float, int]:
    """Visit every sample once; return ``b`` and the number of pairs that changed. Sets: ``a``.

    On entry and exit ``sum_k a_k t_k == 0``. ``partners[i]`` is one of ``n - 1`` numbers: those from ``i`` on stand for
    the next sample, so that ``j != i``.
    """
    changed = 0
    for i in range(t.shape[0]):
        E_i = _error(i, K, t, a, b)
        if (a[i] < C[i] - tol and t[i] * E_i < -tol) or (a[i] > tol and t[i] * E_i > tol):
            j = partners[i] + 1 if partners[i] >= i else partners[i]
            b, success = _update_pair(i, j, E_i, K, t, C, a, b, tol)
            if success:
                changed += 1
    return b, changed


@compiled
def _update_pair(
    i: int, j: int, E_i: float, K: Float, t: Float, C: Float, a: Float, b: float, tol: float
) -> tuple[float, bool]:
    """Maximise over ``a_i`` and ``a_j``; return ``b``, and whether the pair changed. Sets: ``a``."""
    E_j = _error(j, K, t, a, b)
    slope, curvature = _derivatives(i, j, E_i, E_j, K, t)
    if not curvature <= -tol:  # no maximum: equal points, a kernel that is not positive, or numbers that overflow
        return b, False
    L, H = _clip_interval(a[i], a[j], C[i], C[j], t[i] == t[j])
    a_j = min(max(a[j] - slope / curvature, L), H)
    if not abs(a_j - a[j]) >= tol:  # so if L == H, where the average of b_i and b_j would not fulfil the conditions
        return b, False
    a_i = a[i] - t[i] * t[j] * (a_j - a[j])

    b_i = b - E_i - t[i] * (a_i - a[i]) * K[i, i] - t[j] * (a_j - a[j]) * K[j, i]  # makes E_i zero
    b_j = b - E_j - t[i] * (a_i - a[i]) * K[i, j] - t[j] * (a_j - a[j]) * K[j, j]  # makes E_j zero
    a[i], a[j] = a_i, a_j
    if tol < a_i < C[i] - tol:
        return b_i, True
    if tol < a_j < C[j] - tol:
        return b_j, True
    return 0.5 * (b_i + b_j), True


@compiled
def _error(i: int, K: Float, t: Float, a: Float, b: float) -> float:
    """``E_i = y(x_i) - t_i``, from scratch."""
    y = b
    for k in range(t.shape[0]):
        y += a[k] * t[k] * K[i, k]
    return y - t[i]


@compiled
def _derivatives(i: int, j: int, E_i: float, E_j: float, K: Float, t: Float) -> tuple[float, float]:
    """First and second derivative of the dual value in ``a_j``, where ``a_i`` moves so that ``sum_k a_k t_k`` stays."""
    return t[j] * (E_i - E_j), 2.0 * K[i, j] - K[i, i] - K[j, j]


@compiled
def _clip_interval(a_i: float, a_j: float, C_i: float, C_j: float, same_label: bool) -> tuple[float, float]:
    """The values of ``a_j`` for which both variables of the pair are in their boxes."""
    if same_label:
        return max(0.0, a_i + a_j - C_i), min(C_j, a_i + a_j)
    return max(0.0, a_j - a_i), min(C_j, C_i + a_j - a_i)
