"""Interior point for linear models with few features and a loss that has a kink."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from maxmargin.numerics.cholesky import inverse_of
from maxmargin.operators import Bordered
from maxmargin.parts.penalties import L1, L2, Bounded, ElasticNet, strengths
from maxmargin.problems.box_qp import dual_pieces
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.problems.rounding import conjugate_costs, costs
from maxmargin.protocols import Float
from maxmargin.solvers.rows.interior_point import loops
from maxmargin.solvers.rows.interior_point.loops import Aims, Box, Inside, Step
from maxmargin.solvers.rows.interior_point.shares import Shares
from maxmargin.solvers.solver import Needs, Solver, State

MAX_FEATURES = 1000
KEPT_DISTANCE = 0.005  # share of the way to the nearest bound that a step leaves
CORRECTIONS = 5  # for centrality at most, per step
FIRST_MU = 4.0  # in units of what balances the rewards; with 1, spambase with C = 100 takes a third more steps
LONGER = 0.3  # a correction aims at a step that is longer by this, and must gain a tenth of it
REFINEMENTS = 3  # of each solution of the normal equations
STUCK_STEPS = 20
QUICK = 2**22  # multiplications: with as many a step takes about a millisecond
NEAR, LAST_DIGITS = 1e-3, 1e-12  # relative gaps between which quick steps follow each other: four to six as a rule
NEARLY = 0.1  # of the gap: by how much coefficients that are exactly zero, or at a limit, may cost more


class Direction(NamedTuple):
    """Changes of the coefficients, and of both boxes."""

    theta: Float
    variables: Step
    shares: Step


@dataclass(frozen=True)
class RowsInteriorPoint(Solver[Problem, "InteriorPointState"]):
    """Primal-dual interior point: predictor, corrector and corrections for centrality.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + penalty(w)`` with few features, any intercept, a hinge or an
    epsilon-insensitive loss, plain, squared or smoothed, and an L2 penalty, an L1 penalty, or both, perhaps within
    limits of the coefficients.

    Method: the dual is a quadratic program over a box, ``max reward.p - p.D p / 2 - |X^T alpha|^2 / (2 lam)`` with
    ``0 <= p <= cap`` and ``alpha = sign p``; regression has two ``p`` per sample. With prices ``u, v`` of the two
    bounds, the optimum has ``D p - reward + sign z - u + v = 0``, ``lam w = X^T alpha``, ``p u = 0`` and
    ``(cap - p) v = 0``. A step is Newton's for ``p u = (cap - p) v = mu``, with a ``mu`` that Mehrotra's predictor
    chooses. ``u``, ``v`` and ``p`` are eliminated in turn: ``lam I + X^T diag(h) X`` is left, where ``1 / h`` is
    ``D + u / p + v / (cap - p)``. The scales of the columns and the weights hardly change the number of steps. A
    coefficient with limits or an L1 penalty is the difference of two shares inside of a box of their own, with prices
    of their own: what is left of these replaces ``lam`` on the diagonal.

    Cost: one step is ``O(n d^2 + d^3)`` and some 10 to 30 passes over the data; memory ``O(n + d^2)``.

    Reference: Mehrotra, "On the implementation of a primal-dual interior point method", 1992; Gondzio, "Multiple
    centrality corrections in a primal-dual method for linear programming", 1996; Woodsend, Gondzio, "Hybrid MPI/OpenMP
    parallel linear support vector machine training", 2009, section 3.
    """

    name: ClassVar[str] = "interior_point"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, most_features=MAX_FEATURES)

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem.penalty, (L2, L1, ElasticNet, Bounded)) or problem.lam <= 0.0:
            return f"it needs a penalty on every coefficient; this problem has {type(problem.penalty).__name__}"
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
        shares, (_, ridge) = Shares.of(problem, bordered), strengths(problem.penalty)
        bounded = (box.cap > 0.0) & np.isfinite(box.cap)
        bounds = int(sum(problem.sums(int(np.count_nonzero(box.cap)), int(np.count_nonzero(bounded)))))
        theta, z, alpha = np.zeros(bordered.size), np.zeros(problem.y.size), np.zeros(problem.y.size)
        if warm is not None and bounds > 0:
            theta = bordered.join(warm.w, warm.b)
            z = bordered.apply(theta)
            alpha = problem.feasible(problem.slopes(z) if warm.alpha is None else warm.alpha)
        squares = problem.features.squared_lengths() + problem.penalised_column**2
        state = InteriorPointState(
            bordered=bordered,
            theta=theta,
            box=box,
            inside=Inside(*(np.zeros_like(box.cap) for _ in range(4))),
            shares=shares,
            ridge=np.where(shares.divided, 0.0, bordered.ridge(ridge)),
            curvature=squares / ridge if ridge > 0.0 else np.full(squares.size, np.inf),
            bounds=bounds + shares.bounds,
            z=z,
            alpha=alpha,
            v=np.zeros(bordered.size),
        )
        state.primal = problem.losses(z) + _cost(problem, theta)
        self._keep_better(problem, state, [alpha])
        if bounds == 0:  # no weight, or a single class and a free intercept: zero is the only dual point
            state.stuck = STUCK_STEPS
            return state
        if warm is None:
            total, count = problem.sums(*loops.middle(box, state.inside))
            state.mu = FIRST_MU * (total / count if total > 0.0 else 1.0)
        else:
            np.maximum(box.sign * alpha, 0.0, out=state.inside.p)
            state.mu = max(state.primal - state.dual, 1e-9 * abs(state.primal), 1e-200) / state.bounds
        loops.settle(box, state.inside, z, state.mu)
        state.v = bordered.adjoint(_alpha(box, state.inside.p))
        if shares.bounds:
            shares.begin(state.theta, state.v, state.mu)
            state.z = bordered.apply(state.theta)
        return state

    def advance(self, problem: Problem, state: InteriorPointState, limit: int) -> InteriorPointState:
        """One step; with limits of coefficients or an L1 norm, the last ones at once if they are quick.

        Before these, coefficients show how they were found: a sample of weight 2 has one barrier, its two copies have
        two. The optimum is the same, and on few data its last digits cost a few milliseconds.
        """
        for _ in range(limit):
            if state.exhausted or state.mu < 1e-250:
                state.iterations += 1
                state.stuck = STUCK_STEPS
                return state
            self._step(problem, state)
            quick = state.shares.bounds > 0 and state.bounds * state.theta.size**2 <= QUICK  # the same for all clients
            gap = state.bounds * state.mu / max(abs(state.primal), 1e-250)
            if not quick or state.stuck > 0 or not LAST_DIGITS < gap <= NEAR:
                break
        return state

    def _step(self, problem: Problem, state: InteriorPointState) -> None:
        """Predictor, corrector, corrections for centrality. Sets: all that moves."""
        aims, shared = _no_aims(state.box), _no_aims(state.shares.box)
        h, _ = loops.reactions(state.box, state.inside, aims, state.z)
        solve = self._factorise(state, h)
        mu = _mean_product(problem, state)
        step = self._direction(state, aims, shared, solve)
        lengths = _capped(_longest(problem, state, step))
        reached = _mean_product_after(problem, state, step, *lengths)
        target = mu * max(min(1.0, reached / mu) ** 3, KEPT_DISTANCE)  # no faster than residuals fall
        loops.aim(aims, step.variables, target)
        loops.aim(shared, step.shares, target)
        step = self._direction(state, aims, shared, solve)
        lengths = _longest(problem, state, step)
        for _ in range(CORRECTIONS):
            if min(lengths) >= 1.0:
                break
            longer = _capped((lengths[0] + LONGER, lengths[1] + LONGER))
            loops.recentre(state.box, state.inside, step.variables, *longer, target, aims)
            loops.recentre(state.shares.box, state.shares.inside, step.shares, *longer, target, shared)
            other = self._direction(state, aims, shared, solve)
            others = _longest(problem, state, other)
            if not sum(_capped(others)) >= sum(_capped(lengths)) + 0.1 * LONGER:
                break
            step, lengths = other, others
        self._move(problem, state, step, lengths, mu)

    def point(self, problem: Problem, state: InteriorPointState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables.

        Coefficients that belong at zero or at a limit are brought there, if that costs nothing worth mentioning.
        """
        theta, z = state.theta, state.z
        if state.shares.bounds:
            there = state.shares.rounded(theta)
            z_there = state.bordered.apply(there)
            worth = max(NEARLY * (state.primal - state.dual), LAST_DIGITS * abs(state.primal))
            if problem.losses(z_there) + _cost(problem, there) <= state.primal + worth:
                theta, z = there, z_there
        w, b = state.bordered.split(theta)
        if problem.free_intercept:
            b = problem.best_intercept(z - b)
        return Point(w, b, state.alpha.copy())

    def _factorise(self, state: InteriorPointState, h: Float) -> Callable[[Float], Float]:
        """What solves the equations of a step. Sets: ``stiffness``, and ``along`` of the shares."""
        M, shares = state.bordered.gram(h), state.shares
        flexible, _ = loops.reactions(shares.box, shares.inside, _no_aims(shares.box), -state.v)
        state.stiffness = state.ridge.copy()
        np.divide(1.0, flexible, out=state.stiffness, where=shares.divided)
        shares.along = M.diagonal().copy()
        M[np.diag_indices_from(M)] += state.stiffness
        M[shares.fixed], M[:, shares.fixed] = 0.0, 0.0
        M[shares.fixed, shares.fixed] = 1.0
        return inverse_of(M)

    def _direction(
        self, state: InteriorPointState, aims: Aims, shared: Aims, solve: Callable[[Float], Float]
    ) -> Direction:
        """Newton's direction to the products that are aimed at.

        The changes of the variables are refined with the residual of ``lam w = X^T alpha``. What is added to them must
        not go through the scores: between its bounds a variable moves by up to 1e20 times the rounding of its score.
        """
        bordered, shares = state.bordered, state.shares
        _, pull = loops.reactions(state.box, state.inside, aims, state.z)
        _, shared_pull = loops.reactions(shares.box, shares.inside, shared, -state.v)
        residual = state.v - state.ridge * state.theta
        np.multiply(shared_pull, state.stiffness, out=residual, where=shares.divided)
        residual[shares.fixed] = 0.0

        def missing(alpha: Float, theta: Float) -> Float:
            change = bordered.adjoint(alpha)
            change[shares.fixed] = 0.0
            return change + residual - state.stiffness * theta

        error = missing(pull, np.zeros_like(residual))
        correction = solve(error)
        theta, left = correction, float(error @ correction)
        dp = loops.responses(state.box, state.inside, aims, state.z, bordered.apply(theta))
        enough = 1e-28 * left
        for _ in range(REFINEMENTS):
            error = missing(_alpha(state.box, dp), theta)
            correction = solve(error)
            now = float(error @ correction)
            state.passes += 2.0
            if not enough < now < 0.5 * left:
                break
            theta, left = theta + correction, now
            loops.refine(state.box, state.inside, dp, bordered.apply(correction))
        variables = Step(dp, *loops.prices(state.box, state.inside, aims, dp))
        dv = np.zeros_like(theta)  # that with which the shares add up to the change of the coefficients
        np.multiply(theta - shared_pull, state.stiffness, out=dv, where=shares.divided)
        dq = loops.responses(shares.box, shares.inside, shared, -state.v, -dv)
        return Direction(theta, variables, Step(dq, *loops.prices(shares.box, shares.inside, shared, dq)))

    def _move(
        self, problem: Problem, state: InteriorPointState, step: Direction, lengths: tuple[float, float], mu: float
    ) -> None:
        """Take a step, of one length for the variables and another for the coefficients and prices.

        Sets: ``theta, inside, shares, z, v, primal, alpha, dual, mu`` and the counters.
        """
        state.iterations += 1
        state.passes += 4.0
        t, r = (min(1.0, (1.0 - KEPT_DISTANCE) * length) for length in lengths)
        reached = _mean_product_after(problem, state, step, t, r)
        if not (t > 0.0 and r > 0.0 and np.isfinite(step.theta).all() and math.isfinite(reached)):
            state.stuck = STUCK_STEPS
            return
        state.theta = state.theta + r * step.theta
        loops.shift(state.box, state.inside, step.variables, t, r)
        loops.shift(state.shares.box, state.shares.inside, step.shares, t, r)
        state.shares.join(state.theta)
        state.z = state.bordered.apply(state.theta)
        state.primal = problem.losses(state.z) + _cost(problem, state.theta)
        state.v = state.bordered.adjoint(_alpha(state.box, state.inside.p))
        # Variables that belong on a bound are certified there, if that is better; so most are exactly zero in the end.
        candidates = state.inside.p, loops.rounded(state.box, state.inside, state.curvature)
        self._keep_better(problem, state, [problem.feasible(_alpha(state.box, p)) for p in candidates])
        state.mu = _mean_product(problem, state)
        falls = state.mu < 0.9 * mu and state.mu * state.bounds > 1e-16 * abs(state.primal)
        state.stuck = 0 if falls else state.stuck + 1

    def _keep_better(self, problem: Problem, state: InteriorPointState, candidates: list[Float]) -> None:
        """Sets: ``alpha, dual`` to the candidate with the largest dual value."""
        state.dual = -math.inf
        for alpha in candidates:
            v = state.bordered.adjoint(alpha)[: state.bordered.penalised]
            with np.errstate(over="ignore"):  # of early variables and huge columns: then it is minus infinity
                dual = -problem.conjugates(alpha) - conjugate_costs(problem.penalty, v)
            if dual >= state.dual:
                state.alpha, state.dual = alpha, dual


@dataclass
class InteriorPointState(State):
    """``theta`` are the coefficients of `bordered`; ``z`` are their scores."""

    bordered: Bordered
    theta: Float
    box: Box
    inside: Inside
    shares: Shares
    ridge: Float  # of each coefficient: 0 for a free intercept, and for those that are divided into shares
    curvature: Float  # of the dual along each dual variable, without that of the loss
    bounds: int  # finite ones of the box, of all clients
    z: Float
    alpha: Float  # dual feasible; what is certified
    v: Float  # ``[X h]^T alpha``, for the variables inside of the box
    stiffness: Float = field(default_factory=lambda: np.empty(0))  # what the penalty adds to the diagonal in a step
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


def _longest(problem: Problem, state: InteriorPointState, step: Direction) -> tuple[float, float]:
    """Largest multiples of a step for which the variables and the prices stay positive.

    They are the same where coefficients have shares: then primal and dual variables are on both sides.
    """
    own = np.array(loops.decreases(state.box, state.inside, step.variables))
    shrink, fall = problem.communicator.allgather(own).max(axis=0).tolist()
    if state.shares.bounds:
        shrink = fall = max(shrink, fall, *loops.decreases(state.shares.box, state.shares.inside, step.shares))
    return 1.0 / shrink if shrink > 0.0 else math.inf, 1.0 / fall if fall > 0.0 else math.inf


def _mean_product(problem: Problem, state: InteriorPointState) -> float:
    """Of the room of a variable and the price of its bound."""
    total = problem.sums(loops.complementarity(state.box, state.inside))[0]
    return (total + loops.complementarity(state.shares.box, state.shares.inside)) / state.bounds


def _mean_product_after(problem: Problem, state: InteriorPointState, step: Direction, t: float, r: float) -> float:
    """The same after ``t`` times a step of the variables, and ``r`` times one of the prices."""
    total = problem.sums(loops.complementarity_after(state.box, state.inside, step.variables, t, r))[0]
    shares = state.shares
    return (total + loops.complementarity_after(shares.box, shares.inside, step.shares, t, r)) / state.bounds


def _no_aims(box: Box) -> Aims:
    """Products of zero."""
    return Aims(np.zeros_like(box.cap), np.zeros_like(box.cap))


def _cost(problem: Problem, theta: Float) -> float:
    """The penalty on all coefficients that have one."""
    return costs(problem.penalty, theta[: problem.bordered.penalised])


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
