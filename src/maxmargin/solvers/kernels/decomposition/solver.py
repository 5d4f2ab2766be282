"""Block decomposition: its options, and what a round is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers.kernels.decomposition.state import DecompositionState
from maxmargin.solvers.kernels.decomposition.subproblem import refusal
from maxmargin.solvers.kernels.finite_box import with_finite_box
from maxmargin.solvers.solver import AnySolver, Needs, Solver

ROUND_WORK = 60_000_000  # values that are read or computed in a round: about a tenth of a second


@dataclass(frozen=True)
class Decomposition(Solver[Problem | BoxQP, DecompositionState]):
    """Block decomposition.

    Problem: a ``BoxQP``, ``min a^T Q a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem`` whose
    dual has that form: hinge-type and insensitive losses with a kernel.

    Method: the variables of the steepest feasible direction with few non-zero entries, which are those at the two ends
    of the order by the gradient, form, together with the newer half of the last block, a block of ``block_size``
    variables, any number from 2 on. Their kernel rows come from a cache of at most ``max_memory`` MB or are computed
    together by matrix products. The block's own problem is solved by pairs chosen by second-order information, or by
    another solver of such programs (``subsolver``, by its name or itself); then the gradient is updated with all its
    rows at once. Samples that are sure to stay at a bound are left out, and the rows stored without their columns.
    Before anything is claimed, their part of the gradient is computed and checked. Kernel values are float32 and the
    gradient float64: it is recomputed in float64 where the rounding of the former begins to matter, and if that is not
    enough the rows become float64 too.

    Cost: a block is ``O(block_size * active)`` plus ``O(d * active)`` for each missing row.

    ``tol`` is a hint at the relative gap that is wanted: left-out samples are brought back when it seems reached.

    Reference: Joachims, "Making large-scale SVM learning practical", 1998; Fan, Chen, Lin, "Working set selection using
    second order information for training SVMs", 2005; Wen et al., "ThunderSVM", 2018.
    """

    block_size: int = 512
    shrinking: bool = True
    max_memory: float = 1000.0
    tol: float = 1e-3
    subsolver: AnySolver | None = None

    name: ClassVar[str] = "decomposition"
    needs: ClassVar[Needs] = Needs("kernel")

    def __post_init__(self) -> None:
        if self.block_size < 2:
            raise ValueError(
                f"block_size={self.block_size} is too small: where the sum of the variables is fixed none can move "
                "alone, so a block needs at least 2."
            )

    def obstacle(self, problem: Problem | BoxQP) -> str | None:
        """``None``, or why not."""
        return None if self.subsolver is None else refusal(self.subsolver, BoxQP.of(problem))

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> DecompositionState:
        """A feasible point near zero, or near a given one."""
        qp = with_finite_box(BoxQP.of(problem))
        return DecompositionState(
            qp=qp,
            a=qp.near(warm),
            block_size=self.block_size,
            shrinking=self.shrinking,
            max_memory=self.max_memory,
            tol=self.tol,
            subsolver=self.subsolver,
        )

    def advance(self, problem: Problem | BoxQP, state: DecompositionState, limit: int) -> DecompositionState:
        """Steps until the round's work is spent or the wanted gap seems to be reached."""
        state.answer_doubts()
        stop, last = state.work + ROUND_WORK, state.iterations + limit
        while state.work < stop and state.iterations < last and not state.exhausted:
            state.step()
            if state.seems_done() and state.synchronise():
                state.claimed = True
                break
        return state

    def point(self, problem: Problem | BoxQP, state: DecompositionState) -> Point:
        """The variables, and the best multiplier for them as the intercept."""
        return state.qp.point(problem, state.variables(), state.scores())
