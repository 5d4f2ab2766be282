"""Semismooth Newton: its options, and what a round is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers.kernels.finite_box import with_finite_box
from maxmargin.solvers.kernels.semismooth.state import SemismoothState
from maxmargin.solvers.solver import Needs, Solver


@dataclass(frozen=True)
class SemismoothNewton(Solver[Problem | BoxQP, SemismoothState]):
    """Semismooth Newton, also known as the primal-dual active-set method.

    Problem: a ``BoxQP``, ``min a^T Q a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem`` whose
    dual has that form.

    Method: each variable is at its lower bound, at its upper bound or free. The free ones and the multipliers of the
    sums solve linear equations, whatever the bounds say; then all that are beyond a bound go there, and all at a bound
    whose slope points inside become free. Where that ends, the partition is the optimal one. The equations are solved
    by conjugate gradients with a float32 Cholesky factor as preconditioner; variables that come and go become borders
    of it, until these are so many that a new factor is cheaper. Products use float32 kernel rows, and once nothing
    changes the scores are computed again in float64 and corrected, until the gap is the wanted one.

    It is a finisher: from a point whose partition is nearly right it needs a few rounds, whatever C is and however
    small the gap. Far from it, or where the matrix is nearly singular, it may go round in circles; it sees that and
    leaves everything as it was.

    Cost: rows of the free variables are stored (``max_memory`` MB with the factor). The factor takes ``m^3 / 3``
    operations for ``m`` free variables, a round ``O(m n)`` and a triangular solution for each change.

    Reference: Hintermueller, Ito, Kunisch, "The primal-dual active set strategy as a semismooth Newton method", SIAM
    J. Optim. 2002; Gould, Hribar, Nocedal, "On the solution of equality constrained quadratic programming problems",
    SIAM J. Sci. Comput. 2001.
    """

    max_memory: float = 1000.0
    tol: float = 1e-6

    name: ClassVar[str] = "semismooth_newton"
    needs: ClassVar[Needs] = Needs("kernel")
    finishers: ClassVar[tuple[str, ...]] = ("decomposition",)

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> SemismoothState:
        """The partition of a point, or that of a feasible one where few variables are inside of their boxes."""
        qp = with_finite_box(BoxQP.of(problem))
        return SemismoothState(qp=qp, a=qp.near(warm), max_memory=self.max_memory, tol=self.tol)

    def advance(self, problem: Problem | BoxQP, state: SemismoothState, limit: int) -> SemismoothState:
        """Up to some rounds of the method."""
        state.round()
        return state

    def point(self, problem: Problem | BoxQP, state: SemismoothState) -> Point:
        """The variables, moved into the feasible set, and the best multiplier for them as the intercept."""
        return state.qp.point(problem, state.qp.feasible(state.a), state.f[state.qp.sample])
