"""Interior point for linear models with few features and a loss that has a kink."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.numerics.cholesky import inverse_of
from maxmargin.operators import Bordered
from maxmargin.problems.box_qp import dual_pieces
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.rows.interior_point import loops
from maxmargin.solvers.rows.interior_point.loops import Aims, Box, Inside, Step
from maxmargin.solvers.solver import Needs, Solver, State

MAX_FEATURES = 1000
KEPT_DISTANCE = 0.005  # share of the way to the nearest bound that a step leaves
CORRECTIONS = 5  # for centrality at most, per step
FIRST_MU = 4.0  # in units of what balances the rewards; with 1, spambase with C = 100 takes a third more steps
LONGER = 0.3  # a correction aims at a step that is longer by this, and must gain a tenth of it
REFINEMENTS = 3  # of each solution of the normal equations
STUCK_STEPS = 20


@dataclass(frozen=True)
class RowsInteriorPoint(Solver[Problem, "InteriorPointState"]):
    """Primal-dual interior point: predictor, corrector and corrections for centrality.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2`` with few features, any intercept, and a hinge or an
    epsilon-insensitive loss, plain, squared or smoothed.

    Method: the dual is a quadratic program over a box, ``max reward.p - p.D p / 2 - |X^T alpha|^2 / (2 lam)`` with
    ``0 <= p <= cap`` and ``alpha = sign p``; regression has two ``p`` per sample. With prices ``u, v`` of the two
    bounds, the optimum has ``D p - reward + sign z - u + v = 0``, ``lam w = X^T alpha``, ``p u = 0`` and
    ``(cap - p) v = 0``. A step is Newton's for ``p u = (cap - p) v = mu``, with a ``mu`` that Mehrotra's predictor
    chooses. ``u``, ``v`` and ``p`` are eliminated in turn: ``lam I + X^T diag(h) X`` is left, where ``1 / h`` is
    ``D + u / p + v / (cap - p)``. The scales of the columns and the weights hardly change the number of steps.

    Cost: one step is ``O(n d^2 + d^3)`` and some 10 to 30 passes over the data; memory ``O(n + d^2)``.

    Reference: Mehrotra, "On the implementation of a primal-dual interior point method", 1992; Gondzio, "Multiple
    centrality corrections in a primal-dual method for linear programming", 1996; Woodsend, Gondzio, "Hybrid MPI/OpenMP
    parallel linear support vector machine training", 2009, section 3.
    """

    name: ClassVar[str] = "interior_point"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, l2=True, most_features=MAX_FEATURES)

    def supports(self, problem: object) -> str | None:
        """``None``, or why not."""
        if (reason := super().supports(problem)) is not None:
            return reason
        assert isinstance(problem, Problem)
        traits = problem.loss.traits
        if traits.dual_pieces != (1 if traits.classes else 2):  # every variable has to have one sign
            return (
                "it needs a loss whose dual is a quadratic program over a box, a hinge or an epsilon-insensitive one; "
                f"this problem has {type(problem.loss).__name__}"
            )
        return None

    def start(self, problem: Problem, warm: Point | None) -> InteriorPointState:
        """The middle of the box, or a given point pulled inside."""
        bordered, box = problem.bordered, _box(problem)
        bounded = (box.cap > 0.0) & np.isfinite(box.cap)
        bounds = int(sum(problem.sums(int(np.count_nonzero(box.cap)), int(np.count_nonzero(bounded)))))
        theta, z, alpha = np.zeros(bordered.size), np.zeros(problem.y.size), np.zeros(problem.y.size)
        if warm is not None and bounds > 0:
            theta = bordered.join(warm.w, warm.b)
            z = bordered.apply(theta)
            alpha = problem.feasible(problem.slopes(z) if warm.alpha is None else warm.alpha)
        state = InteriorPointState(
            bordered=bordered,
            theta=theta,
            box=box,
            inside=Inside(*(np.zeros_like(box.cap) for _ in range(4))),
            ridge=bordered.ridge(problem.lam),
            curvature=(problem.features.squared_lengths() + problem.penalised_column**2) / problem.lam,
            bounds=bounds,
            z=z,
            alpha=alpha,
            residual=np.zeros(bordered.size),
        )
        state.primal = problem.losses(z) + 0.5 * float(theta @ (state.ridge * theta))
        self._keep_better(problem, state, [alpha])
        if bounds == 0:  # no weight, or a single class and a free intercept: zero is the only dual point
            state.stuck = STUCK_STEPS
            return state
        if warm is None:
            total, count = problem.sums(*loops.middle(box, state.inside))
            state.mu = FIRST_MU * (total / count if total > 0.0 else 1.0)
        else:
            np.maximum(box.sign * alpha, 0.0, out=state.inside.p)
            state.mu = max(state.primal - state.dual, 1e-9 * abs(state.primal), 1e-200) / bounds
        loops.settle(box, state.inside, z, state.mu)
        state.residual = bordered.adjoint(_alpha(box, state.inside.p)) - state.ridge * theta
        return state

    def advance(self, problem: Problem, state: InteriorPointState, limit: int) -> InteriorPointState:
        """One step: predictor, corrector, corrections for centrality."""
        if state.exhausted or state.mu < 1e-250:
            state.iterations += 1
            state.stuck = STUCK_STEPS
            return state
        box, inside = state.box, state.inside
        aims = Aims(np.zeros_like(box.cap), np.zeros_like(box.cap))
        h, _ = loops.reactions(box, inside, aims, state.z)
        M = state.bordered.gram(h)
        M[np.diag_indices_from(M)] += state.ridge
        solve = inverse_of(M)
        mu = _mean_product(problem, state)
        step = self._direction(state, aims, solve)
        lengths = _capped(_longest(problem, state, step))
        reached = problem.sums(loops.complementarity_after(box, inside, step, *lengths))[0] / state.bounds
        target = mu * max(min(1.0, reached / mu) ** 3, KEPT_DISTANCE)  # no faster than residuals fall
        loops.aim(aims, step, target)
        step = self._direction(state, aims, solve)
        lengths = _longest(problem, state, step)
        for _ in range(CORRECTIONS):
            if min(lengths) >= 1.0:
                break
            loops.recentre(box, inside, step, *_capped((lengths[0] + LONGER, lengths[1] + LONGER)), target, aims)
            other = self._direction(state, aims, solve)
            others = _longest(problem, state, other)
            if not sum(_capped(others)) >= sum(_capped(lengths)) + 0.1 * LONGER:
                break
            step, lengths = other, others
        self._move(problem, state, step, lengths, mu)
        return state

    def point(self, problem: Problem, state: InteriorPointState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables."""
        w, b = state.bordered.split(state.theta)
        if problem.free_intercept:
            b = problem.best_intercept(state.z - b)
        return Point(w, b, state.alpha.copy())

    def _direction(self, state: InteriorPointState, aims: Aims, solve: Callable[[Float], Float]) -> Step:
        """Newton's direction to the products that are aimed at.

        The changes of the variables are refined with the residual of ``lam w = X^T alpha``. What is added to them must
        not go through the scores: between its bounds a variable moves by up to 1e20 times the rounding of its score.
        """
        bordered = state.bordered
        _, pull = loops.reactions(state.box, state.inside, aims, state.z)
        error = bordered.adjoint(pull) + state.residual
        correction = solve(error)
        theta, left = correction, float(error @ correction)
        dp = loops.responses(state.box, state.inside, aims, state.z, bordered.apply(theta))
        enough = 1e-28 * left
        for _ in range(REFINEMENTS):
            error = bordered.adjoint(_alpha(state.box, dp)) + state.residual - state.ridge * theta
            correction = solve(error)
            now = float(error @ correction)
            state.passes += 2.0
            if not enough < now < 0.5 * left:
                break
            theta, left = theta + correction, now
            loops.refine(state.box, state.inside, dp, bordered.apply(correction))
        return Step(theta, dp, *loops.prices(state.box, state.inside, aims, dp))

    def _move(
        self, problem: Problem, state: InteriorPointState, step: Step, lengths: tuple[float, float], mu: float
    ) -> None:
        """Take a step, of one length for the variables and another for the coefficients and prices.

        Sets: ``theta, inside, z, residual, primal, alpha, dual, mu`` and the counters.
        """
        state.iterations += 1
        state.passes += 4.0
        t, r = (min(1.0, (1.0 - KEPT_DISTANCE) * length) for length in lengths)
        reached = problem.sums(loops.complementarity_after(state.box, state.inside, step, t, r))[0]
        if not (t > 0.0 and r > 0.0 and np.isfinite(step.theta).all() and math.isfinite(reached)):
            state.stuck = STUCK_STEPS
            return
        state.theta = state.theta + r * step.theta
        loops.shift(state.box, state.inside, step, t, r)
        state.z = state.bordered.apply(state.theta)
        state.primal = problem.losses(state.z) + 0.5 * float(state.theta @ (state.ridge * state.theta))
        state.residual = state.bordered.adjoint(_alpha(state.box, state.inside.p)) - state.ridge * state.theta
        # Variables that belong on a bound are certified there, if that is better; so most are exactly zero in the end.
        candidates = state.inside.p, loops.rounded(state.box, state.inside, state.curvature)
        self._keep_better(problem, state, [problem.feasible(_alpha(state.box, p)) for p in candidates])
        state.mu = _mean_product(problem, state)
        falls = state.mu < 0.9 * mu and state.mu * state.bounds > 1e-16 * abs(state.primal)
        state.stuck = 0 if falls else state.stuck + 1

    def _keep_better(self, problem: Problem, state: InteriorPointState, candidates: list[Float]) -> None:
        """Sets: ``alpha, dual`` to the candidate with the largest dual value."""
        state.dual = -math.inf
        quadratic = state.ridge > 0.0
        for alpha in candidates:
            v = state.bordered.adjoint(alpha)[quadratic]
            with np.errstate(over="ignore"):  # of early variables and huge columns: then it is minus infinity
                dual = -problem.conjugates(alpha) - 0.5 * float((v**2 / state.ridge[quadratic]).sum())
            if dual >= state.dual:
                state.alpha, state.dual = alpha, dual


@dataclass
class InteriorPointState(State):
    """``theta`` are the coefficients of `bordered`; ``z`` are their scores."""

    bordered: Bordered
    theta: Float
    box: Box
    inside: Inside
    ridge: Float  # of each coefficient: 0 for a free intercept
    curvature: Float  # of the dual along each dual variable, without that of the loss
    bounds: int  # finite ones of the box, of all clients
    z: Float
    alpha: Float  # dual feasible; what is certified
    residual: Float  # of ``lam theta = [X h]^T alpha``, for the variables inside of the box
    mu: float = math.inf
    stuck: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether steps no longer help."""
        return self.stuck >= STUCK_STEPS

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the mean product of a variable's room and the price of its bound."""
        return {"passes": self.passes, "mu": self.mu}


def _capped(lengths: tuple[float, float]) -> tuple[float, float]:
    """Lengths of a step, at most that of a full one."""
    return min(lengths[0], 1.0), min(lengths[1], 1.0)


def _longest(problem: Problem, state: InteriorPointState, step: Step) -> tuple[float, float]:
    """Largest multiples of a step for which the variables and the prices stay positive."""
    own = np.array(loops.decreases(state.box, state.inside, step))
    shrink, fall = problem.communicator.allgather(own).max(axis=0).tolist()
    return 1.0 / shrink if shrink > 0.0 else math.inf, 1.0 / fall if fall > 0.0 else math.inf


def _mean_product(problem: Problem, state: InteriorPointState) -> float:
    """Of the room of a variable and the price of its bound."""
    return problem.sums(loops.complementarity(state.box, state.inside))[0] / state.bounds


def _box(problem: Problem) -> Box:
    """The dual of the losses. Samples without weight, and all if only zero is feasible, have a cap of zero."""
    q, D, low, high = dual_pieces(problem)
    sign = np.where(low < 0.0, -1.0, 1.0)
    cap = np.where(low < 0.0, -low, high)
    sides = problem.sums(bool((sign * cap > 0.0).any()), bool((sign * cap < 0.0).any()))
    if problem.free_intercept and not all(sides):
        cap[:] = 0.0
    return Box(sign, sign * q, D, cap)


def _alpha(box: Box, p: Float) -> Float:
    """The dual variables of the samples."""
    return np.asarray((box.sign * p).sum(axis=0))
