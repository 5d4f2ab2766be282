"""Accelerated proximal gradient descent (FISTA), with backtracking and adaptive restart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from maxmargin.operators import Centred
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.proximal_steps import ProximalMethod, ProximalState, spectrum_of
from maxmargin.solvers.solver import Needs

FIRST_LOOK = 8  # products with the data that guess the curvature
RELAX = 0.7  # of the curvature, at every restart
LEAST = 1e-100


@dataclass(frozen=True)
class FISTA(ProximalMethod):
    """Proximal gradient descent with momentum.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + penalty(w)``, any smooth loss, any penalty with a proximal step, any
    intercept. `Smoothed` is the same idea for losses with kinks as well, in the metric of the columns' sizes.

    Method: a proximal step from ``w_k + (t_k - 1) / t_{k+1} (w_k - w_{k-1})`` with
    ``t_{k+1} = (1 + sqrt(1 + 4 t_k^2)) / 2``. The curvature of the majoriser begins with a guess, is doubled until the
    losses lie below it where the step leads, and gets a chance to fall at every restart: the momentum is dropped
    whenever it points uphill (``restart``), which finds out what strong convexity there is. ``shortest_step`` is the
    textbook's rule to stop, which proves nothing.

    Cost: one iteration is two passes over the data, one more per backtracking; memory ``O(n + d)``. Clients send ``d``
    numbers in each. It takes ``O(1 / sqrt(eps))`` iterations, or about the root of the condition number for some
    digits.

    Reference: Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems", 2009,
    section 4; O'Donoghue, Candes, "Adaptive restart for accelerated gradient schemes", 2015, the gradient scheme.
    """

    restart: bool = True
    shortest_step: float = 0.0

    name: ClassVar[str] = "fista"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True)

    def __post_init__(self) -> None:
        if not 0.0 <= self.shortest_step < math.inf:
            raise ValueError(f"shortest_step={self.shortest_step!r} has to be a length: 0 to stop by the gap alone.")

    def first_curvature(self, columns: Centred, h: Float) -> tuple[float, float]:
        """A guess from below."""
        spectrum = spectrum_of(columns, h, FIRST_LOOK)
        return spectrum.largest, 2.0 * spectrum.products

    def move(self, problem: Problem, state: ProximalState) -> None:
        """Down the majoriser of a point ahead."""
        origin = state.theta + state.momentum * (state.theta - state.before)
        z_origin = state.z + state.momentum * (state.z - state.z_before)
        theta, z = self.descend(problem, state, origin, z_origin, checked=True)
        uphill = float((state.metric * (theta - origin)) @ (theta - state.theta)) < 0.0
        self.arrive(state, theta, z)
        if uphill and self.restart:
            state.momentum, state.t = 0.0, 1.0
            state.L = max(RELAX * state.L, LEAST)
        else:
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            state.momentum, state.t = (state.t - 1.0) / following, following
