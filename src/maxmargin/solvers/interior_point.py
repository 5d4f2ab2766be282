"""Interior point under one name: over rows of few features, or over a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers.kernels.interior_point import KernelInteriorPoint
from maxmargin.solvers.rows.interior_point import RowsInteriorPoint
from maxmargin.solvers.solver import AnySolver, Needs, Solver, State


@dataclass(frozen=True)
class InteriorPoint(Solver[Problem | BoxQP, State]):
    """Primal-dual interior point: predictor and corrector.

    Problem: a hinge or an epsilon-insensitive loss, plain, squared or smoothed, with an L2 penalty on rows with few
    features; or a ``BoxQP`` over a kernel matrix, or a problem whose dual has that form.

    Method: the dual is a quadratic program over a box. Steps of Newton's method follow the points where all products
    of the room to a bound and the price of that bound are equal. They are found by a matrix of the size of the
    features (``solvers/rows/interior_point``) or of the samples, or of the ``rank`` of a factor of the kernel matrix
    (``solvers/kernels/interior_point``), whichever the problem shows.

    Cost: a step is ``O(n d^2)`` for rows, ``O(n^3)`` for a kernel matrix, ``O(n k^2)`` for a factor of rank ``k``. An
    iteration is a step: 10 to 40 of them as a rule, nearly whatever ``C`` is.

    Reference: Mehrotra, "On the implementation of a primal-dual interior point method", 1992; Fine, Scheinberg,
    "Efficient SVM training using low-rank kernel representations", JMLR 2001.
    """

    rank: int | None = None
    max_memory: float = 1000.0

    name: ClassVar[str] = "interior_point"
    needs: ClassVar[Needs] = replace(RowsInteriorPoint.needs, or_kernel=True)
    finishers: ClassVar[tuple[str, ...]] = ("active_set", "decomposition")

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 1:
            raise ValueError(f"rank={self.rank} must be at least 1, the number of columns of the factor.")

    def supports(self, problem: object) -> str | None:
        """``None``, or the reason why not."""
        reason = self._for(problem).supports(problem)
        if reason is None and self.rank is not None and not _over_kernel(problem):
            return f"rank={self.rank} is that of a factor of a kernel matrix; this problem has rows of features"
        return reason

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> State:
        """That of the form that suits the problem."""
        return self._for(problem).start(problem, warm)

    def advance(self, problem: Problem | BoxQP, state: State, limit: int) -> State:
        """One step."""
        return self._for(problem).advance(problem, state, limit)

    def point(self, problem: Problem | BoxQP, state: State) -> Point:
        """The point that a state stands for."""
        return self._for(problem).point(problem, state)

    def _for(self, problem: object) -> AnySolver:
        """The form of the method for a problem."""
        return KernelInteriorPoint(self.rank, self.max_memory) if _over_kernel(problem) else RowsInteriorPoint()


def _over_kernel(problem: object) -> bool:
    """Whether samples are seen through a kernel matrix."""
    return isinstance(problem, BoxQP) or (isinstance(problem, Problem) and problem.kernelised)
