"""Block SMO on a kernel matrix that is stored whole: for few samples, whose fits are one compiled call each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.operators.stored import StoredKernel
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.problems.programs import Program
from maxmargin.protocols import Array, Float
from maxmargin.solvers.kernels.block_descent import FIRST_BLOCK, Course, descend, room_for
from maxmargin.solvers.kernels.finite_box import with_finite_box
from maxmargin.solvers.solver import Needs, Solver, State

MOST_SAMPLES = 2000  # a matrix of 32 MB
ROUND_BLOCKS = 64
ROUND_WORK = 3e7  # kernel values that are read in a round: some tens of milliseconds
PRECISE_SAMPLES = 64  # so few cost nothing: they are solved to the last digit
SAFETY = 0.9  # of the wanted gap, by our own account
DOUBTED = 0.25  # of it, where it was reached and was not good enough


@dataclass(frozen=True)
class BlockSMO(Solver[Problem | BoxQP, "BlockSMOState"]):
    """Block SMO on a stored kernel matrix.

    Problem: a ``BoxQP``, ``min a^T Q a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem`` whose
    dual has that form, with at most 2000 samples.

    Method: the free variables of the last block, half of a block at most, and those that violate optimality most form
    a block of 64 variables. Its own problem is solved by pairs chosen by second-order information, and the scores of
    all samples are brought up to date. After every twelve blocks their size doubles, up to ``block_size``. A round is
    one compiled call, and most fits are one round. The gap is known in each block, since it takes one look at the
    variables.

    Cost: a block reads ``O(n * block_size)`` kernel values, all of which are stored: ``8 n^2`` bytes.

    ``tol`` is a hint at the relative gap that is wanted.

    Reference: Joachims, "Making large-scale SVM learning practical", 1998; Fan, Chen, Lin, "Working set selection using
    second order information for training SVMs", 2005.
    """

    block_size: int = 512
    tol: float = 1e-3

    name: ClassVar[str] = "block_smo"
    needs: ClassVar[Needs] = Needs("kernel")

    def __post_init__(self) -> None:
        if self.block_size < 2:
            raise ValueError(f"block_size={self.block_size} is too small: a block needs at least 2 variables.")

    def obstacle(self, problem: Problem | BoxQP) -> str | None:
        """``None``, or why not."""
        n = problem.gram.n_samples
        if n > MOST_SAMPLES:
            return f"it stores the whole kernel matrix; this problem has {n} samples, more than {MOST_SAMPLES}"
        return None

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> BlockSMOState:
        """A feasible point near zero, or near a given one."""
        qp = with_finite_box(BoxQP.of(problem))
        K = qp.gram.whole
        if qp.lam != 1.0 or qp.shift:
            K = K / qp.lam + qp.shift
        a = qp.near(warm)
        f = K @ qp.expansion(a) if a.any() else np.zeros(K.shape[0])
        aim = SAFETY * self.tol if K.shape[0] > PRECISE_SAMPLES else 0.0
        size = min(FIRST_BLOCK, self.block_size)
        return BlockSMOState(qp=qp, K=K, a=a, f=f, size=size, aim=aim, untried=warm is None)

    def advance(self, problem: Problem | BoxQP, state: BlockSMOState, limit: int) -> BlockSMOState:
        """Blocks until the round's work is spent or the wanted gap seems to be reached."""
        if state.reaches(state.aim):  # and yet somebody wants more
            state.aim, state.doubted = DOUBTED * state.aim, False
            state.f = state.K @ state.qp.expansion(state.a)
        course = Course(state.iterations, state.size, state.steps, 0.0, state.primal, state.dual, False)
        blocks, state.size, state.steps, _, state.primal, state.dual, state.exhausted = descend(
            StoredKernel(state.K), state.program, state.a, state.f, state.last, state.b, state.aim, course,
            self.block_size, state.iterations + min(limit, ROUND_BLOCKS), ROUND_WORK, state.room, 0.0,
        )  # fmt: skip
        state.passes += (blocks - state.iterations) * min(1.0, state.size / max(1, state.K.shape[0]))
        state.iterations, state.untried = blocks, False
        return state

    def point(self, problem: Problem | BoxQP, state: BlockSMOState) -> Point:
        """The variables, and the best multiplier for them as the intercept."""
        return state.qp.point(problem, state.a, state.f[state.qp.sample])


@dataclass
class BlockSMOState(State):
    """On entry and exit of a round ``f == K @ qp.expansion(a)``, but for rounding."""

    qp: BoxQP
    K: Float  # with the divisor and the shift of the program
    a: Float
    f: Float
    size: int  # of the next block
    aim: float  # relative gap
    steps: int = 0
    exhausted: bool = False
    last: Array = field(init=False)  # whether each variable was in the last block
    b: Float = field(init=False)  # multipliers
    program: Program = field(init=False)
    room: Float = field(init=False)

    def __post_init__(self) -> None:
        qp, n = self.qp, self.K.shape[0]
        self.last = np.zeros(self.a.size, dtype=np.bool_)
        self.b = np.zeros(max(1, qp.totals.size))
        self.room = np.zeros(room_for(self.a.size, self.b.size))
        everything = np.array([0, n, 0, 0])
        self.program = Program(
            everything, qp.sample, qp.sample, qp.q, qp.D, qp.low, qp.high, qp.group, qp.totals, qp.of_tube
        )

    def reaches(self, gap: float) -> bool:
        """Whether the relative gap is at most this, by our own account."""
        size = max(abs(self.primal), abs(self.dual))
        return size < math.inf and self.primal - self.dual <= gap * size

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the stored matrix, and steps on pairs."""
        return {"passes": self.passes, "pair_steps": float(self.steps)}
