"""Dual ascent for the machine of Crammer and Singer, one sample after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.sampling import seeded, shuffle
from maxmargin.operators import Rows
from maxmargin.problems.classes import ClassesProblem
from maxmargin.problems.crammer_singer import CrammerSingerProblem
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Float, Index, Vectors
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 4_000_000  # multiplications per round: a few milliseconds
STEP_WORK = 20  # multiplications that a score costs besides those with the row
LONGEST_REST = 8  # epochs
STILL = 1e-13  # of a variable: smaller changes of it are rounding


@dataclass(frozen=True)
class DualSimplices(Solver[CrammerSingerProblem, "DualSimplicesState"]):
    """Block coordinate ascent on the dual: all variables of one sample at a time, exactly.

    Problem: ``min sum_i s_i max_c (z_ic - z_i,y_i + [c != y_i]) + lam |W|^2 / 2`` with ``z_i = W x_i + b``, any
    intercept.

    Method: the variables of sample ``i`` are ``a_ic <= 0`` for other classes and ``a_i,y <= s_i`` for the own one, with
    the sum zero. With the others fixed and ``q = |x_i|^2 / lam``, the best ones are ``u_c - max(t_c - beta, 0) / q``:
    ``u_c`` are these bounds, ``t_c = z_ic - q a_ic + [c != y_i] + q u_c``, and ``beta`` is the number for which the
    excesses ``max(t_c - beta, 0)`` have the sum ``q s_i``, a projection onto a simplex. Samples are visited in a new
    random order in each epoch; with `shrinking`, one whose variables did not move rests for 1, 2, 4, 8 epochs. A
    penalised intercept is one more column. A free one is the multiplier of ``sum_i a_i = 0`` in an augmented
    Lagrangian, whose penalty makes it a penalised one around the last multiplier.

    Cost: one iteration is an epoch, one product of each visited row with the coefficients of each class and one sum for
    each class whose variable moves; memory ``O((n + d) k)``.

    Reference: Crammer, Singer, "On the algorithmic implementation of multiclass kernel-based vector machines", JMLR
    2001; Keerthi, Sundararajan, Chang, Hsieh, Lin, "A sequential dual method for large scale multi-class linear SVMs",
    KDD 2008.
    """

    shrinking: bool = True
    seed: int = 0

    name: ClassVar[str] = "dual_simplices"
    needs: ClassVar[Needs] = Needs("classes")

    def obstacle(self, problem: ClassesProblem) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, CrammerSingerProblem):
            return f"it needs the hinge of several classes; this is a {type(problem).__name__}"
        if not isinstance(problem.operator, Rows):
            return "it needs the samples as rows of features, and in memory, not in chunks"
        return None

    def start(self, problem: CrammerSingerProblem, warm: Point | None) -> DualSimplicesState:
        """Zero, or the dual variables of a point, and its intercepts if they are free."""
        n, k = problem.y.size, problem.n_classes
        A, b = np.zeros((n, k)), np.zeros(k)
        if warm is not None and warm.alpha is not None:
            A = problem.feasible(warm.alpha.reshape(n, k))
        squares = problem.operator.squared_lengths()
        height = 0.0 if problem.intercept is None else problem.intercept_scale**2
        if problem.free_intercept:
            height = float(squares.mean()) if squares.any() else 1.0
            if warm is not None:
                b = warm.w.reshape(problem.shape)[:, -1].copy()
        state = DualSimplicesState(
            A=A,
            W=problem.operator.adjoint_each(A) / problem.lam,
            b=b if problem.free_intercept else height * A.sum(axis=0) / problem.lam,
            height=height,
            q=(squares + height) / problem.lam,
            samples=np.flatnonzero(problem.s > 0.0),
            losses=np.zeros(n),
            rest=np.zeros((n, 2), dtype=np.int64),
            random=seeded(self.seed),
        )
        state.W = np.ascontiguousarray(state.W)
        return state

    def advance(self, problem: CrammerSingerProblem, state: DualSimplicesState, limit: int) -> DualSimplicesState:
        """Some epochs."""
        rows = problem.operator
        assert isinstance(rows, Rows)
        work = max(1, problem.n_classes * (rows.entries + STEP_WORK * problem.y.size))
        if state.doubted:
            state.rest[:] = 0
            state.doubted = False
        for _ in range(min(limit, max(1, ROUND_WORK // work))):
            shuffle(state.samples, 0, state.samples.size, state.random)
            visited = _epoch(
                rows.vectors, problem.y, problem.s, problem.lam, state.height, state.samples, state.q,
                state.rest if self.shrinking else np.zeros_like(state.rest), state.losses, state.A, state.W, state.b,
            )  # fmt: skip
            if problem.free_intercept:
                state.b += state.height / problem.lam * state.A.sum(axis=0)
            state.iterations += 1
            state.passes += problem.n_classes * visited / max(1, problem.y.size)
        self._estimate(problem, state)
        return state

    def point(self, problem: CrammerSingerProblem, state: DualSimplicesState) -> Point:
        """Copies: the state goes on."""
        theta = state.W if problem.intercept is None else np.column_stack([state.W, state.b])
        return Point(theta.ravel().copy(), 0.0, state.A.ravel().copy())

    def _estimate(self, problem: CrammerSingerProblem, state: DualSimplicesState) -> None:
        """Values with the losses that were found when the samples were visited. Sets: ``primal, dual``."""
        penalty = 0.5 * problem.lam * float((state.W * state.W).sum())
        missing = 0.0
        if problem.free_intercept:
            missing = float(np.abs(state.A.sum(axis=0)) @ np.abs(state.b - state.b.mean()))
        elif problem.intercept is not None:
            penalty += 0.5 * problem.lam * float(state.b @ state.b) / problem.intercept_scale**2
        state.primal = float(problem.s @ state.losses) + penalty
        state.dual = -problem.conjugates(state.A) - penalty - missing


@dataclass(kw_only=True)
class DualSimplicesState(State):
    """After every epoch ``lam W == A^T X``."""

    A: Float
    W: Float
    b: Float
    height: float  # squared entry of the column of an intercept
    q: Float
    samples: Index  # of positive weight, in their present order
    losses: Float  # of each sample, when it was visited last
    rest: Index  # how many epochs each sample will not be visited, and how long its last rest was
    random: Array

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing to learn from."""
        return self.samples.size == 0


@compiled
def _epoch(
    vectors: Vectors, y: Index, s: Float, lam: float, height: float, samples: Index, q: Float, rest: Index,
    losses: Float, A: Float, W: Float, b: Float,
) -> int:  # fmt: skip
    """Visit the samples that do not rest; how many. On entry and exit ``lam W = A^T X``.

    Sets: ``rest, losses, A, W, b``.
    """
    k, visited = A.shape[1], 0
    t, new = np.empty(k), np.empty(k)
    for m in range(samples.shape[0]):
        i = samples[m]
        if rest[i, 0] > 0:
            rest[i, 0] -= 1
            continue
        visited += 1
        own = y[i]
        for c in range(k):
            t[c] = vectors.dot(i, W[c]) + b[c]
        behind = 0.0
        for c in range(k):
            if c != own:
                behind = max(behind, t[c] - t[own] + 1.0)
        losses[i] = behind
        _best_variables(t, own, s[i], q[i], A[i], new)
        moved = False
        for c in range(k):
            change = new[c] - A[i, c]
            if abs(change) > STILL * max(abs(new[c]), abs(A[i, c])):
                moved = True
                A[i, c] = new[c]
                b[c] += change * height / lam
                vectors.add(i, change / lam, W[c])
        rest[i, 1] = 0 if moved else min(max(1, 2 * rest[i, 1]), LONGEST_REST)
        rest[i, 0] = rest[i, 1]
    return visited


@compiled
def _best_variables(t: Float, own: int, s: float, q: float, a: Float, new: Float) -> None:
    """The variables of a sample with the scores ``t`` that are best for the others as they are. Sets: ``t, new``."""
    k = t.shape[0]
    for c in range(k):
        t[c] += (0.0 if c == own else 1.0) - q * a[c]
        new[c] = 0.0
    if not q > 0.0:  # nothing but its intercept says anything of it, or not even that
        best = own
        for c in range(k):
            if t[c] > t[best]:
                best = c
        if best != own:
            new[own], new[best] = s, -s
        return
    t[own] += q * s
    top = t[0]
    for c in range(1, k):
        top = max(top, t[c])
    beta, before = top - q * s, top - q * s - 1.0  # from below: it grows, as those below it are left out
    while beta > before:
        before, total, count = beta, 0.0, 0
        for c in range(k):
            if t[c] > before:
                total += t[c] - top
                count += 1
        beta = max(top + (total - q * s) / count, before)
    rest = 0.0
    for c in range(k):
        if c != own and t[c] > beta:
            new[c] = -(t[c] - beta) / q
            rest -= new[c]
    if rest > s:
        for c in range(k):
            new[c] *= s / rest
        rest = s
    new[own] = rest
