"""The active-set method for kernel machines: exact up to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers.kernels.active_set.face import Program
from maxmargin.solvers.kernels.active_set.state import ActiveSetState, Phase
from maxmargin.solvers.kernels.finite_box import with_finite_box
from maxmargin.solvers.solver import Needs, Solver
from maxmargin.threads import go_on

MEGABYTE = 2.0**20
UNLIMITED = 2**62
STILL, CYCLE = 1e-14, 100  # so little is no gain, relative to the value; so many changes for each variable without one


@dataclass(frozen=True)
class ActiveSet(Solver[Problem | BoxQP, ActiveSetState]):
    """The active-set method.

    Problem: a ``BoxQP``, ``min a^T Q a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem`` whose
    dual has that form.

    Method: each variable is at its lower bound, at its upper bound or free. With the partition known, the free
    variables and the multipliers solve linear equations. With ``changes=1`` it is the method of the textbooks: from a
    basic feasible point go to the minimum over the free variables; whoever meets a bound on the way stays there; at the
    minimum, the variable that violates optimality most becomes free. A Cholesky factor of the free variables' matrix
    is updated at each change, and variables that would make it singular move along the flat direction instead. Without
    a limit on the changes, steps on pairs come first, until the partition is nearly known; then all variables that are
    on the wrong side change it at once, and one at a time only where that leads nowhere. From a warm start the linear
    equations come at once, so that any solver's solution becomes exact.

    Cost: the kernel matrix is stored. A change costs ``O(ns^2 + ns n)`` with ``ns`` free variables, a round of many
    changes ``O(ns^3 / 3 + ns n)``. An iteration is one of either, or a block of pairs before.

    Reference: Scheinberg, "An efficient implementation of an active set method for SVMs", JMLR 2006; Kunisch and Rendl,
    "An infeasible active set method for quadratic problems with simple bounds", SIAM J. Optim. 2003.
    """

    changes: int | None = None
    max_memory: float = 1000.0

    name: ClassVar[str] = "active_set"
    needs: ClassVar[Needs] = Needs("kernel")

    def __post_init__(self) -> None:
        if self.changes not in (None, 1):
            raise ValueError(f"changes={self.changes!r} is neither 1, one at a time, nor None, as many as there are.")

    def obstacle(self, problem: Problem | BoxQP) -> str | None:
        """``None``, or why not."""
        n = problem.gram.n_samples
        if 8.0 * n * n > self.max_memory * MEGABYTE:
            return (
                f"it stores the whole kernel matrix, {8.0 * n * n / MEGABYTE:.0f} megabytes for {n} samples, and may "
                f"use {self.max_memory:g} (cache_size)"
            )
        return None

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> ActiveSetState:
        """A feasible point where few variables are inside of their boxes, or one near a given point."""
        qp = with_finite_box(BoxQP.of(problem))
        K = qp.gram.whole
        if qp.lam != 1.0 or qp.shift:
            K = K / qp.lam + qp.shift
        a = qp.near(warm)
        sizes = np.abs(K.diagonal()[qp.sample]) + qp.D
        program = Program(
            K, qp.sample, qp.q, qp.D, qp.low, qp.high, qp.group, qp.totals, float(sizes.mean()) if sizes.any() else 1.0
        )
        f = K @ qp.expansion(a) if a.any() else np.zeros(K.shape[0])
        phase = Phase.ONE if self.changes == 1 else Phase.ROUGH if warm is None else Phase.MANY
        return ActiveSetState(qp=qp, program=program, a=a, f=f, phase=phase, untried=warm is None)

    def advance(self, problem: Problem | BoxQP, state: ActiveSetState, limit: int) -> ActiveSetState:
        """The next phase, or some changes of the last one."""
        state.untried = False
        if state.phase is Phase.ROUGH:
            state.begin_roughly(limit)
        elif state.phase is Phase.MANY:
            state.change_many()
        elif state.phase is Phase.ONE:
            state.change_one_by_one(limit)
        elif state.phase is Phase.DONE:
            state.look_again()
        state.primal = state.dual = 0.0 if state.phase is Phase.DONE else np.inf
        if state.phase is not Phase.DONE:
            state.dual = -np.inf
        return state

    def point(self, problem: Problem | BoxQP, state: ActiveSetState) -> Point:
        """The variables, and the best multiplier for them as the intercept."""
        return state.qp.point(problem, state.a, state.f[state.qp.sample])


def solved(qp: BoxQP, warm: Point | None = None) -> ActiveSetState:
    """The state at the optimum of a program, as far as float64 can tell: for methods that go on from its partition."""
    solver = ActiveSet(max_memory=np.inf)
    state = solver.start(qp, warm)
    best, seen_at = -np.inf, 0
    while state.phase is not Phase.DONE:
        state = solver.advance(qp, state, UNLIMITED)
        go_on()
        a, f = state.a, state.f[qp.sample]
        value = float(qp.q @ a - 0.5 * (a @ f) - 0.5 * (qp.D @ (a * a)))
        if best == -np.inf or value > best + STILL * abs(best):
            best, seen_at = value, state.changes
        elif state.changes - seen_at > CYCLE * a.size:  # rounding takes what a step seems to gain
            state.phase = Phase.DONE
    return state
