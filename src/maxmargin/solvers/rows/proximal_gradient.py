"""Proximal gradient descent (ISTA): a gradient step of the losses, then the proximal step of the penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from maxmargin.numerics.lanczos import MOST_STEPS
from maxmargin.operators import Centred
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.proximal_steps import ProximalMethod, ProximalState, spectrum_of
from maxmargin.solvers.solver import Needs


@dataclass(frozen=True)
class ProximalGradient(ProximalMethod):
    """Proximal gradient descent, the textbook's method for ridge and LASSO; `FISTA` is the faster one.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + penalty(w)``, any smooth loss, any penalty with a proximal step, any
    intercept.

    Method: around ``w_k`` the losses are below their tangent plus ``|w - w_k|^2 / (2 step)``, a majoriser that is
    smallest, together with the penalty, at ``prox(w_k - step gradient)``: for an L2 penalty
    ``(w_k - step gradient) / (1 + step lam)``, which shrinks toward the origin, and for an L1 penalty the soft
    threshold ``step lam``. With the curvature ``h`` of a loss, ``step = 1 / |A^T diag(s h) A|`` makes it a majoriser;
    the norm is that of Lanczos' method, and each step checks it where it leads. The objective falls in each step. An
    own ``step`` up to twice as long is taken as it is, since the method still converges, and refused beyond.
    ``shortest_step`` is the textbook's rule to stop: when ``|w_{k+1} - w_k|`` is shorter than that. It bounds the
    gradient, not the distance to the optimum; the certificate says how near that is.

    Cost: one iteration is two passes over the data, and finding the step up to 120; memory ``O(n + d)``. Clients send
    ``d`` numbers in each. It takes ``O(1 / eps)`` iterations, or as many as the condition number for some digits.

    Reference: Daubechies, Defrise, De Mol, "An iterative thresholding algorithm for linear inverse problems with a
    sparsity constraint", 2004; Combettes, Wajs, "Signal recovery by proximal forward-backward splitting", 2005,
    theorem 3.4; Van Veen, "Proximal gradient descent algorithms", 2019.
    """

    step: float | None = None
    shortest_step: float = 0.0

    name: ClassVar[str] = "proximal_gradient"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True)

    def __post_init__(self) -> None:
        if self.step is not None and not 0.0 < self.step < math.inf:
            raise ValueError(f"step={self.step!r} is no step; give a positive number, or None for the best.")
        if not 0.0 <= self.shortest_step < math.inf:
            raise ValueError(f"shortest_step={self.shortest_step!r} has to be a length: 0 to stop by the gap alone.")

    def first_curvature(self, columns: Centred, h: Float) -> tuple[float, float]:
        """The norm of the matrix that bounds all curvatures, or what an own step stands for."""
        spectrum = spectrum_of(columns, h, MOST_STEPS)
        if self.step is None:
            return spectrum.bound, 2.0 * spectrum.products
        if self.step * spectrum.largest >= 2.0:
            raise ValueError(
                f"step={self.step:g} is outside of its bound: proximal gradient descent on these data needs "
                f"0 < step < 2 / |A^T S A| = {2.0 / spectrum.largest:.6g}; leave step=None for half of it."
            )
        return 1.0 / self.step, 2.0 * spectrum.products

    def move(self, problem: Problem, state: ProximalState) -> None:
        """Down the majoriser of the present point."""
        self.arrive(state, *self.descend(problem, state, state.theta, state.z, checked=self.step is None))
