"""Interior point for linear models with few features and a loss that has a kink."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin._jit import compiled
from maxmargin.problems.box_qp import dual_pieces
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Features, Float
from maxmargin.solvers.solver import Needs, Solver, State

MAX_FEATURES = 1000
KEPT_DISTANCE = 0.005  # share of the way to the nearest bound that a step leaves
CORRECTIONS = 5  # for centrality at most, per step
FIRST_MU = 4.0  # in units of what balances the rewards; with 1, spambase with C = 100 takes a third more steps
LONGER = 0.3  # a correction aims at a step that is longer by this, and must gain a tenth of it
SPREAD = 10.0  # products of room and price may differ from their mean by this factor
REFINEMENTS = 3  # of each solution of the normal equations
STUCK_STEPS = 20


@dataclass(frozen=True)
class InteriorPoint(Solver[Problem, "InteriorPointState"]):
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
    needs: ClassVar[Needs] = Needs("sweeps", l2=True, most_features=MAX_FEATURES)

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
        rows: Features = problem.operator  # type: ignore[assignment]
        d = rows.n_features
        box = _box(problem)
        shift = problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
        state = InteriorPointState(
            theta=np.zeros(d + (problem.intercept is not None)),
            box=box,
            inside=_Inside(*(np.zeros_like(box.cap) for _ in range(4))),
            ridge=_ridge(problem, d),
            curvature=(rows.squared_lengths() + shift) / problem.lam,
            bounds=int(np.count_nonzero(box.cap)) + int(np.count_nonzero((box.cap > 0.0) & np.isfinite(box.cap))),
            z=np.zeros(rows.n_samples),
            alpha=np.zeros(rows.n_samples),
        )
        if warm is not None and state.bounds > 0:
            state.theta[:d] = warm.w
            state.theta[d:] = warm.b
            state.z = _scores(rows, state.theta)
            state.alpha = problem.feasible(problem.slopes(state.z) if warm.alpha is None else warm.alpha)
        state.primal = problem.losses(state.z) + 0.5 * float(state.theta @ (state.ridge * state.theta))
        self._keep_better(problem, state, [state.alpha])
        if state.bounds == 0:  # no weight, or a single class and a free intercept: zero is the only dual point
            state.stuck = STUCK_STEPS
            return state
        if warm is None:
            state.mu = FIRST_MU * _middle(box, state.inside)
        else:
            np.maximum(box.sign * state.alpha, 0.0, out=state.inside.p)
            state.mu = max(state.primal - state.dual, 1e-9 * abs(state.primal), 1e-200) / state.bounds
        _settle(box, state.inside, state.z, state.mu)
        state.residual = _adjoint(rows, _alpha(box, state.inside.p), state.ridge.size) - state.ridge * state.theta
        return state

    def advance(self, problem: Problem, state: InteriorPointState, limit: int) -> InteriorPointState:
        """One step: predictor, corrector, corrections for centrality."""
        rows: Features = problem.operator  # type: ignore[assignment]
        if state.exhausted or state.mu < 1e-250:
            state.iterations += 1
            state.stuck = STUCK_STEPS
            return state
        box, inside = state.box, state.inside
        aims = _Aims(np.zeros_like(box.cap), np.zeros_like(box.cap))
        h, _ = _reactions(box, inside, aims, state.z)
        solve = _inverse(_normal_matrix(rows, h, state.ridge))
        mu = _complementarity(box, inside) / state.bounds
        step = self._direction(rows, state, aims, solve)
        reached = _complementarity_after(box, inside, step, *_capped(_longest(box, inside, step))) / state.bounds
        target = mu * max(min(1.0, reached / mu) ** 3, KEPT_DISTANCE)  # no faster than residuals fall
        _aim(aims, step, target)
        step = self._direction(rows, state, aims, solve)
        lengths = _longest(box, inside, step)
        for _ in range(CORRECTIONS):
            if min(lengths) >= 1.0:
                break
            _recentre(box, inside, step, *_capped((lengths[0] + LONGER, lengths[1] + LONGER)), target, aims)
            other = self._direction(rows, state, aims, solve)
            others = _longest(box, inside, other)
            if not sum(_capped(others)) >= sum(_capped(lengths)) + 0.1 * LONGER:
                break
            step, lengths = other, others
        self._move(problem, state, step, lengths, mu)
        return state

    def point(self, problem: Problem, state: InteriorPointState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables."""
        d = problem.operator.n_features  # type: ignore[attr-defined]
        b = float(state.theta[d]) if problem.intercept is not None else 0.0
        if problem.intercept == "free":
            b = problem.best_intercept(state.z - b)
        return Point(state.theta[:d].copy(), b, state.alpha.copy())

    def _direction(
        self, rows: Features, state: InteriorPointState, aims: _Aims, solve: Callable[[Float], Float]
    ) -> _Step:
        """Newton's direction to the products that are aimed at.

        The changes of the variables are refined with the residual of ``lam w = X^T alpha``. What is added to them must
        not go through the scores: between its bounds a variable moves by up to 1e20 times the rounding of its score.
        """
        size = state.ridge.size
        _, pull = _reactions(state.box, state.inside, aims, state.z)
        error = _adjoint(rows, pull, size) + state.residual
        correction = solve(error)
        theta, left = correction, float(error @ correction)
        dp = _responses(state.box, state.inside, aims, state.z, _scores(rows, theta))
        enough = 1e-28 * left
        for _ in range(REFINEMENTS):
            error = _adjoint(rows, _alpha(state.box, dp), size) + state.residual - state.ridge * theta
            correction = solve(error)
            now = float(error @ correction)
            state.passes += 2.0
            if not enough < now < 0.5 * left:
                break
            theta, left = theta + correction, now
            _refine(state.box, state.inside, dp, _scores(rows, correction))
        return _Step(theta, dp, *_prices(state.box, state.inside, aims, dp))

    def _move(
        self, problem: Problem, state: InteriorPointState, step: _Step, lengths: tuple[float, float], mu: float
    ) -> None:
        """Take a step, of one length for the variables and another for the coefficients and prices.

        Sets: ``theta, inside, z, residual, primal, alpha, dual, mu`` and the counters.
        """
        rows: Features = problem.operator  # type: ignore[assignment]
        state.iterations += 1
        state.passes += 4.0
        t, r = (min(1.0, (1.0 - KEPT_DISTANCE) * length) for length in lengths)
        reached = _complementarity_after(state.box, state.inside, step, t, r)
        if not (t > 0.0 and r > 0.0 and np.isfinite(step.theta).all() and math.isfinite(reached)):
            state.stuck = STUCK_STEPS
            return
        state.theta = state.theta + r * step.theta
        _shift(state.box, state.inside, step, t, r)
        state.z = _scores(rows, state.theta)
        state.primal = problem.losses(state.z) + 0.5 * float(state.theta @ (state.ridge * state.theta))
        state.residual = _adjoint(rows, _alpha(state.box, state.inside.p), state.ridge.size) - state.ridge * state.theta
        # Variables that belong on a bound are certified there, if that is better; so most are exactly zero in the end.
        candidates = state.inside.p, _rounded(state.box, state.inside, state.curvature)
        self._keep_better(problem, state, [problem.feasible(_alpha(state.box, p)) for p in candidates])
        state.mu = _complementarity(state.box, state.inside) / state.bounds
        falls = state.mu < 0.9 * mu and state.mu * state.bounds > 1e-16 * abs(state.primal)
        state.stuck = 0 if falls else state.stuck + 1

    def _keep_better(self, problem: Problem, state: InteriorPointState, candidates: list[Float]) -> None:
        """Sets: ``alpha, dual`` to the candidate with the largest dual value."""
        state.dual = -math.inf
        quadratic = state.ridge > 0.0
        for alpha in candidates:
            v = _adjoint(problem.operator, alpha, state.ridge.size)[quadratic]  # type: ignore[arg-type]
            dual = -problem.conjugates(alpha) - 0.5 * float((v**2 / state.ridge[quadratic]).sum())
            if dual >= state.dual:
                state.alpha, state.dual = alpha, dual


@dataclass
class InteriorPointState(State):
    """``theta`` is ``w`` and, if there is one, the intercept; ``z`` are its scores."""

    theta: Float
    box: _Box
    inside: _Inside
    ridge: Float  # lam for coefficients, lam / scale^2 for a penalised intercept, 0 for a free one
    curvature: Float  # of the dual along each dual variable, without that of the loss
    bounds: int  # finite ones of the box
    z: Float
    alpha: Float  # dual feasible; what is certified
    residual: Float = None  # type: ignore[assignment]
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


class _Box(NamedTuple):
    """The dual in variables ``0 <= p <= cap``, of which every sample has one row per side of its loss."""

    sign: Float  # of the share of p in the dual variable of its sample
    reward: Float
    D: Float
    cap: Float  # 0 for variables that are left out


class _Inside(NamedTuple):
    """A point inside of the box. ``room`` is ``cap - p``, kept beside ``p`` because the difference would round."""

    p: Float
    room: Float
    price_zero: Float
    price_cap: Float


class _Aims(NamedTuple):
    """What the products ``p price_zero`` and ``room price_cap`` should become, to first order."""

    zero: Float
    cap: Float


class _Step(NamedTuple):
    """Changes of the coefficients, the variables and the prices."""

    theta: Float
    p: Float
    price_zero: Float
    price_cap: Float


def _capped(lengths: tuple[float, float]) -> tuple[float, float]:
    """Lengths of a step, at most that of a full one."""
    return min(lengths[0], 1.0), min(lengths[1], 1.0)


def _box(problem: Problem) -> _Box:
    """The dual of the losses. Samples without weight, and all if only zero is feasible, have a cap of zero."""
    q, D, low, high = dual_pieces(problem)
    sign = np.where(low < 0.0, -1.0, 1.0)
    cap = np.where(low < 0.0, -low, high)
    if problem.intercept == "free" and not ((sign * cap > 0.0).any() and (sign * cap < 0.0).any()):
        cap[:] = 0.0
    return _Box(sign, sign * q, D, cap)


def _ridge(problem: Problem, d: int) -> Float:
    if problem.intercept is None:
        return np.full(d, problem.lam)
    return np.append(
        np.full(d, problem.lam), problem.lam / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    )


def _scores(rows: Features, theta: Float) -> Float:
    """``X w + b`` for ``theta = (w, b)``."""
    d = rows.n_features
    return rows.apply(theta[:d]) + (theta[d] if theta.size > d else 0.0)


def _adjoint(rows: Features, alpha: Float, size: int) -> Float:
    """``[X 1]^T alpha``, without the last entry if there is no intercept."""
    return np.append(rows.adjoint(alpha), alpha.sum())[:size]


def _alpha(box: _Box, p: Float) -> Float:
    """The dual variables of the samples."""
    return np.asarray((box.sign * p).sum(axis=0))


def _normal_matrix(rows: Features, h: Float, ridge: Float) -> Float:
    """``diag(ridge) + [X 1]^T diag(h) [X 1]``, where ``ridge`` says whether there is a column of ones."""
    M = rows.bordered_gram(h, ridge.size - rows.n_features)
    M[np.diag_indices_from(M)] += ridge
    return M


def _inverse(M: Float) -> Callable[[Float], Float]:
    """The map ``g -> M^-1 g``, with the diagonal scaled to one and a ridge that grows until the factorisation works."""
    scale = 1.0 / np.sqrt(np.maximum(M.diagonal(), 1e-300))
    scaled = M * scale[:, None] * scale
    diagonal = scaled.diagonal().copy()
    for exponent in range(-15, 3):
        scaled[np.diag_indices_from(scaled)] = diagonal + 10.0**exponent
        try:
            factor = cho_factor(scaled, lower=True, check_finite=False)
        except LinAlgError:
            continue
        return lambda g: scale * cho_solve(factor, scale * g, check_finite=False)
    return lambda g: scale * scale * g  # not a number somewhere: the caller will see it


@compiled
def _middle(box: Any, inside: Any) -> float:
    """The middle of the box, and the product of room and price that goes with it. Sets: ``inside.p``."""
    total, count = 0.0, 0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            cap, reward = box.cap[side, i], abs(box.reward[side, i])
            if cap > 0.0:
                p = 0.5 * cap if math.isfinite(cap) else reward / box.D[side, i]
                inside.p[side, i] = p
                total += p * reward
                count += 1
    return total / count if total > 0.0 else 1.0


@compiled
def _settle(box: Any, inside: Any, z: Any, mu: float) -> None:
    """Pull variables inside of their box as far as ``mu`` demands, and set prices. Sets: ``inside``."""
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            cap, D = box.cap[side, i], box.D[side, i]
            if cap <= 0.0:
                continue
            p = inside.p[side, i]
            g = D * p - box.reward[side, i] + box.sign[side, i] * z[i]
            least = mu / (abs(g) + 4.0 * mu / cap + math.sqrt(D * mu))
            p = max(p, least)
            room = max(cap - p, least)
            if math.isfinite(cap):
                p = cap - room if p > room else p
                inside.price_cap[side, i] = max(-g, mu / room)
            inside.p[side, i] = p
            inside.room[side, i] = room
            inside.price_zero[side, i] = max(g, mu / p)


@compiled
def _reactions(box: Any, inside: Any, aims: Any, z: Any) -> Any:
    """How much the dual variable of every sample falls with its score, and how much it rises if that stays."""
    h, pull = np.zeros(z.shape[0]), np.zeros(z.shape[0])
    for side in range(box.cap.shape[0]):
        for i in range(z.shape[0]):
            if box.cap[side, i] > 0.0:
                p, room, sign = inside.p[side, i], inside.room[side, i], box.sign[side, i]
                stiffness = box.D[side, i] + inside.price_zero[side, i] / p + inside.price_cap[side, i] / room
                force = box.reward[side, i] - box.D[side, i] * p - sign * z[i]
                force += aims.zero[side, i] / p - aims.cap[side, i] / room
                h[i] += 1.0 / stiffness
                pull[i] += sign * force / stiffness
    return h, pull


@compiled
def _responses(box: Any, inside: Any, aims: Any, z: Any, dz: Any) -> Any:
    """Changes of the variables that go with a change of the scores."""
    dp = np.zeros_like(box.cap)
    for side in range(box.cap.shape[0]):
        for i in range(z.shape[0]):
            if box.cap[side, i] > 0.0:
                p, room = inside.p[side, i], inside.room[side, i]
                force = box.reward[side, i] - box.D[side, i] * p - box.sign[side, i] * (z[i] + dz[i])
                force += aims.zero[side, i] / p - aims.cap[side, i] / room
                stiffness = box.D[side, i] + inside.price_zero[side, i] / p + inside.price_cap[side, i] / room
                dp[side, i] = force / stiffness
    return dp


@compiled
def _refine(box: Any, inside: Any, dp: Any, dz: Any) -> None:
    """Let the variables follow a further change of the scores. Sets: ``dp``."""
    for side in range(box.cap.shape[0]):
        for i in range(dz.shape[0]):
            if box.cap[side, i] > 0.0:
                p, room = inside.p[side, i], inside.room[side, i]
                stiffness = box.D[side, i] + inside.price_zero[side, i] / p + inside.price_cap[side, i] / room
                dp[side, i] -= box.sign[side, i] * dz[i] / stiffness


@compiled
def _prices(box: Any, inside: Any, aims: Any, dp: Any) -> Any:
    """Changes of both prices that go with changes of the variables."""
    du, dv = np.zeros_like(dp), np.zeros_like(dp)
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                u, v = inside.price_zero[side, i], inside.price_cap[side, i]
                du[side, i] = (aims.zero[side, i] - u * dp[side, i]) / inside.p[side, i] - u
                if math.isfinite(box.cap[side, i]):
                    dv[side, i] = (aims.cap[side, i] + v * dp[side, i]) / inside.room[side, i] - v
    return du, dv


@compiled
def _longest(box: Any, inside: Any, step: Any) -> tuple[float, float]:
    """Largest multiples of a step for which the variables and the prices stay positive."""
    shrink, fall = 0.0, 0.0  # the largest relative decrease of variables and of prices
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                shrink = max(shrink, -step.p[side, i] / inside.p[side, i])
                fall = max(fall, -step.price_zero[side, i] / inside.price_zero[side, i])
                if math.isfinite(box.cap[side, i]):
                    shrink = max(shrink, step.p[side, i] / inside.room[side, i])
                    fall = max(fall, -step.price_cap[side, i] / inside.price_cap[side, i])
    return 1.0 / shrink if shrink > 0.0 else math.inf, 1.0 / fall if fall > 0.0 else math.inf


@compiled
def _complementarity(box: Any, inside: Any) -> float:
    """Sum of the products of room and price."""
    total = 0.0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                total += inside.p[side, i] * inside.price_zero[side, i]
                if math.isfinite(box.cap[side, i]):
                    total += inside.room[side, i] * inside.price_cap[side, i]
    return total


@compiled
def _complementarity_after(box: Any, inside: Any, step: Any, t: float, r: float) -> float:
    """Sum of the products of room and price after ``t`` times a step."""
    total = 0.0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                dp = t * step.p[side, i]
                total += (inside.p[side, i] + dp) * (inside.price_zero[side, i] + r * step.price_zero[side, i])
                if math.isfinite(box.cap[side, i]):
                    total += (inside.room[side, i] - dp) * (inside.price_cap[side, i] + r * step.price_cap[side, i])
    return total


@compiled
def _aim(aims: Any, step: Any, target: float) -> None:
    """Aim at one product for all, minus what the predictor neglected. Sets: ``aims``."""
    for side in range(aims.zero.shape[0]):
        for i in range(aims.zero.shape[1]):
            aims.zero[side, i] = target - step.p[side, i] * step.price_zero[side, i]
            aims.cap[side, i] = target + step.p[side, i] * step.price_cap[side, i]


@compiled
def _recentre(box: Any, inside: Any, step: Any, t: float, r: float, target: float, aims: Any) -> None:
    """Aim closer to the target with those products that ``t`` times a step would bring far from it. Sets: ``aims``."""
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                p = inside.p[side, i] + t * step.p[side, i]
                product = p * (inside.price_zero[side, i] + r * step.price_zero[side, i])
                wanted = min(max(product, target / SPREAD), target * SPREAD)
                aims.zero[side, i] += max(wanted - product, -SPREAD * target)
                if math.isfinite(box.cap[side, i]):
                    room = inside.room[side, i] - t * step.p[side, i]
                    product = room * (inside.price_cap[side, i] + r * step.price_cap[side, i])
                    wanted = min(max(product, target / SPREAD), target * SPREAD)
                    aims.cap[side, i] += max(wanted - product, -SPREAD * target)


@compiled
def _rounded(box: Any, inside: Any, curvature: Any) -> Any:
    """The variables, with those on a bound that the maximum along them alone would bring there."""
    out = inside.p.copy()
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                pressure = inside.price_zero[side, i] - inside.price_cap[side, i]
                stiffness = box.D[side, i] + curvature[i]
                if pressure > stiffness * inside.p[side, i]:
                    out[side, i] = 0.0
                elif -pressure > stiffness * inside.room[side, i]:
                    out[side, i] = box.cap[side, i]
    return out


@compiled
def _shift(box: Any, inside: Any, step: Any, t: float, r: float) -> None:
    """Take ``t`` times a step. Sets: ``inside``."""
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            cap = box.cap[side, i]
            if cap > 0.0:
                inside.p[side, i] += t * step.p[side, i]
                inside.price_zero[side, i] += r * step.price_zero[side, i]
                if math.isfinite(cap):
                    inside.room[side, i] -= t * step.p[side, i]
                    inside.price_cap[side, i] += r * step.price_cap[side, i]
                    # The larger of the two may round; the smaller one counts.
                    if inside.p[side, i] < inside.room[side, i]:
                        inside.room[side, i] = cap - inside.p[side, i]
                    else:
                        inside.p[side, i] = cap - inside.room[side, i]
