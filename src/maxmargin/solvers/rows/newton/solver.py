"""Semismooth Newton for linear models with few features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.numerics.line_search import step_to_zero
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index
from maxmargin.solvers.rows.newton.levels import is_large, thinned
from maxmargin.solvers.rows.newton.state import NEAR, NewtonState, first_state, first_width
from maxmargin.solvers.solver import Needs, Solver

MAX_FEATURES = 1000
NARROWER = 0.3  # this and the next three solved spambase, raw and scaled, with C up to 100
LEAST_WIDTH = 1e-30  # of the first: where rounding keeps the gap from closing, nothing is gained by narrowing for ever
WARM_WIDTH = 0.003  # of the first, from a point like that of a neighbouring C; a wider one would forget it
INNER_SHARE = 0.01  # of the proximal term that the Newton decrement must fall below before the centre moves
MAX_DAMPING = 1e-3
COARSE_GAP = 1e-2  # relative, on fewer rows: about what they differ from all rows
COARSE_WIDTH = 0.1  # of the first: at a narrower one, fewer rows say little
FEW_SAMPLES = 50  # per feature: these say little at any width but the first
COARSE_STEPS = 30  # on fewer rows, at most
EXACT_EVERY = 20  # steps after which the scores are computed anew
NEAR_STEPS = 20  # on near rows, before the others are looked at again


@dataclass(frozen=True)
class Newton(Solver[Problem, NewtonState]):
    """Semismooth Newton on the primal, inside a proximal method on the dual for losses with kinks.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2`` with few features, any loss, any intercept.

    Method: the dual variable that answers to a score ``z_i`` is ``a_i = loss.dual_step(c_i, y_i, s_i, z_i, q_i)``, the
    maximiser of the dual term minus ``q_i (a - c_i)^2 / 2``. For smooth losses ``q = 0`` and ``a_i = -s_i slope_i``.
    For losses with kinks this is the augmented Lagrangian around the centre ``c``. The gradient is
    ``lam w - X^T a``, a generalised Hessian ``lam I + X^T diag(h) X`` with ``h = 1 / (q + loss.dual_curvature)``.
    Newton's direction is followed for a full step if that is good enough, else to the minimum along it. When the
    decrement is small against the gap, the centre moves to ``a`` and ``q`` shrinks. Column scales do not matter.

    Large problems are solved roughly on a twelfth of their rows first. Sums over rows are updated by what changed since
    the last step. With kinks, most rows are at a bound and stay there: while they are a majority, a step on all rows is
    preceded by several on those that are near a kink or have an extreme entry (a rare column moves those alone).

    Rows of several clients: all make the same steps. A step sends the products ``d (d + 1) / 2`` in one round, their
    combination ``d`` and all other sums in another, and one number for each slope along the direction.

    Cost: one step is ``O(n d + rows that react * d^2 + d^3)``; memory ``O(n + d^2)`` and up to a third of the rows.

    Reference: Yin, Li, "A semismooth Newton method for support vector classification and regression", 2019;
    Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm", 1976.
    """

    multilevel: bool = True

    name: ClassVar[str] = "newton"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, l2=True, most_features=MAX_FEATURES)

    def start(self, problem: Problem, warm: Point | None) -> NewtonState:
        """Zero on the fewest rows, or a given point on all."""
        levels = [problem]
        while warm is None and self.multilevel and is_large(levels[-1]):
            levels.append(thinned(levels[-1]))
        state = first_state(levels.pop())
        state.finer, state.all_samples = levels, problem.features.total_samples
        if warm is not None:
            state.theta = problem.bordered.join(warm.w, warm.b)
            if warm.alpha is not None:
                state.centre = problem.feasible(warm.alpha)
        state.score()
        if warm is not None and state.kinked and _is_close(problem, state):
            state.width *= WARM_WIDTH
        state.respond()
        return state

    def advance(self, problem: Problem, state: NewtonState, limit: int) -> NewtonState:
        """One Newton step on all rows, before it several on few if that pays.

        If the inner problem was solved well enough before, the centre moves; after the step perhaps to more rows.
        """
        if state.solved:
            self._recentre(state)
        near = state.near_rows()
        if near is not None:
            self._advance_near(state, near)
        direction = state.direction()
        decrement = -float(state.gradient @ direction)
        exact = decrement <= 1e-16 * abs(state.primal)
        state.solved = state.kinked and (exact or decrement <= INNER_SHARE * state.proximity)
        if decrement > 0.0 and not (state.solved and near is not None):
            self._move(state, direction)
        state.iterations += 1
        if exact and not state.kinked:
            state.stuck += 1
        narrow = 1.0 if state.samples < FEW_SAMPLES * state.theta.size else COARSE_WIDTH
        enough = (
            state.stuck
            or state.iterations >= state.first_step + COARSE_STEPS
            or state.relative_gap <= COARSE_GAP
            or (state.solved and state.width <= narrow * first_width(state.problem))
        )
        if state.finer and enough:
            return self._refine(state)
        return state

    def point(self, problem: Problem, state: NewtonState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables that react to them."""
        w, b = problem.bordered.split(state.theta)
        if state.finer:  # the dual variables of a few rows say nothing about all of them
            return Point(w, b, np.zeros(problem.y.size))
        if problem.free_intercept:
            return Point(w, problem.best_intercept(state.z - b), problem.feasible(state.a))
        return Point(w, b, state.a.copy())

    def _recentre(self, state: NewtonState) -> None:
        """Move the centre to the present dual variables and narrow the smoothing.

        While few rows react, a narrower smoothing would leave the Hessian without information; it is kept unless the
        gap has come to rest (on separable data few rows ever react). Sets: ``centre, width, gap`` and as `respond`.
        """
        gap = state.primal - state.dual
        if state.reacting >= 4 * state.theta.size or gap > 0.25 * state.gap:
            state.width = max(NARROWER * state.width, LEAST_WIDTH * first_width(state.problem))
        state.gap = gap
        state.centre = state.problem.feasible(state.a)
        state.respond()

    def _refine(self, state: NewtonState) -> NewtonState:
        """The same coefficients on more rows."""
        finer, passes = first_state(state.finer[-1]), state.passes * state.share
        finer.finer, finer.theta, finer.damping = state.finer[:-1], state.theta, state.damping
        finer.iterations = finer.first_step = state.iterations
        finer.all_samples = state.all_samples
        finer.passes = passes / finer.share
        finer.score()
        if finer.kinked:
            finer.width = NARROWER * state.width if state.solved else state.width
            finer.centre = 0.5 * np.add(*finer.problem.dual_box())
            finer.respond()  # from the middle: rows far from their kinks go all the way
            finer.centre = finer.problem.feasible(finer.a)
        finer.respond()
        return finer

    def _advance_near(self, state: NewtonState, near: Index) -> None:
        """Newton steps that look at some rows only, as if the others answered as they do now. Sets: as `respond`.

        They end when the inner problem is solved or rows have moved so far that others might answer differently. What
        others do in truth is seen afterwards, so that a wrong guess costs time and nothing else.
        """
        inner, usual = state.narrowed(near), ~state.scales.outlying[near]
        others = state.proximity - inner.proximity
        solved = False
        while inner.iterations < NEAR_STEPS:
            theta, direction = inner.theta, inner.direction()
            decrement = -float(inner.gradient @ direction)
            if solved or not decrement > 0.0:
                break
            solved = decrement <= INNER_SHARE * (inner.proximity + others)
            self._move(inner, direction)
            if inner.problem.largest((inner.z - state.z[near])[usual])[0] > NEAR * state.width:
                inner.theta = theta
                break
            inner.iterations += 1
        state.damping = inner.damping
        state.passes += inner.passes * inner.samples / state.samples
        state.unshared_passes += inner.unshared_passes * near.size / max(1, state.z.size)
        if inner.iterations:
            state.theta, state.near_steps = inner.theta, state.near_steps + inner.iterations
            state.score()
            state.respond()

    def _move(self, state: NewtonState, direction: Float) -> None:
        """A full step if the slope along the direction falls enough, else to its zero. Sets: as `respond`."""
        dz = state.bordered.apply(direction)
        slope = float(state.theta @ (state.ridge * direction)) - float(state.fixed @ direction)
        curvature = float(direction @ (state.ridge * direction))

        def slope_at(t: float) -> float:
            return slope + t * curvature - state.pull(dz, t)

        t = step_to_zero(slope_at, float(state.gradient @ direction))
        state.damping = max(0.2 * state.damping, 1e-12) if t >= 1.0 else min(10.0 * state.damping, MAX_DAMPING)
        state.theta = state.theta + t * direction
        state.z = state.z + t * dz
        state.passes += 1.0
        if state.iterations % EXACT_EVERY == EXACT_EVERY - 1:
            state.score()
            state.v, state.anew = np.zeros_like(state.v), True
        state.respond()


def _is_close(problem: Problem, state: NewtonState) -> bool:
    """Whether a given point is much better than none; its gap is not computed but guessed from ``lam w = X^T c``."""
    penalty = 0.5 * float(state.theta @ (state.ridge * state.theta))
    primal, dual = problem.losses(state.z) + penalty, -problem.conjugates(state.centre) - penalty
    return primal - dual < 0.5 * abs(primal)
