"""Semismooth Newton for linear models with few features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin._jit import compiled
from maxmargin.losses import EpsilonInsensitive, Hinge
from maxmargin.penalties import L2
from maxmargin.problem import Problem
from maxmargin.protocols import Features, Float
from maxmargin.solution import Certificate, Point

KINKED = (Hinge, EpsilonInsensitive)  # losses whose derivative jumps
MAX_FEATURES = 1000
FIRST_WIDTH = 2.0  # of the smoothing, relative to the targets; at 1 every row sits on a kink when w = 0
NARROWER = 0.3
INNER_SHARE = 0.01  # of the proximal term that the Newton decrement must fall below before the centre moves
FIRST_DAMPING, MAX_DAMPING = 1e-4, 1e-3  # the last five numbers solved spambase, raw and scaled, with C up to 100
FLAT_ENOUGH = 0.03  # of the slope along a direction at its beginning
SEARCH_LIMIT = 60  # slopes computed along a direction
COARSER = 12  # times fewer rows
COARSE_ENTRIES = 2_000_000  # of a matrix that is worth solving on fewer rows first
COARSE_GAP = 1e-2  # relative, on fewer rows: about what they differ from all rows
COARSE_STEPS = 30  # on fewer rows, at most
EXACT_EVERY = 20  # steps after which the scores are computed anew


@dataclass(frozen=True)
class Newton:
    """Semismooth Newton on the primal, inside a proximal method on the dual for losses with kinks.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2`` with few features, any loss, any intercept.

    Method: the dual variable that answers to a score ``z_i`` is ``a_i = loss.dual_step(c_i, y_i, s_i, z_i, q_i)``, the
    maximiser of the dual term minus ``q_i (a - c_i)^2 / 2``. For smooth losses ``q = 0`` and ``a_i = -s_i slope_i``.
    For losses with kinks this is the augmented Lagrangian around the centre ``c``. The gradient is
    ``lam w - X^T a``, a generalised Hessian ``lam I + X^T diag(h) X`` with ``h = 1 / (q + loss.dual_curvature)``.
    Newton's direction is followed for a full step if that is good enough, else to the minimum along it. When the
    decrement is small against the gap, the centre moves to ``a`` and ``q`` shrinks. Column scales do not matter.
    Large problems with smooth losses are solved roughly on a twelfth of their rows first.

    Cost: one step is ``O(rows that react * d^2 + d^3)``; memory ``O(n + d^2)``.

    Reference: Yin, Li, "A semismooth Newton method for support vector classification and regression", 2019;
    Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm", 1976.
    """

    multilevel: bool = True

    name: ClassVar[str] = "newton"

    def supports(self, problem: Any) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem) or not isinstance(problem.operator, Features):
            return "it needs the samples as rows of features, not a kernel"
        if not isinstance(problem.penalty, L2):
            return f"it needs an L2 penalty; this problem has {type(problem.penalty).__name__}"
        if problem.operator.n_features > MAX_FEATURES:
            return (
                f"it factorises a matrix of the size of the features; this problem has {problem.operator.n_features}, "
                f"more than {MAX_FEATURES}"
            )
        return None

    def start(self, problem: Problem, warm: Point | None) -> NewtonState:
        """Zero on the fewest rows, or a given point on all."""
        levels = [problem]
        while warm is None and self.multilevel and _is_large(levels[-1]):
            levels.append(_thinned(levels[-1]))
        state = _first_state(levels.pop())
        state.finer = levels
        if warm is not None:
            d = problem.operator.n_features  # type: ignore[attr-defined]
            state.theta[:d] = warm.w
            state.theta[d:] = warm.b
            if warm.alpha is not None:
                state.centre = problem.feasible(warm.alpha)
        state.score()
        state.respond()
        return state

    def advance(self, problem: Problem, state: NewtonState, limit: int) -> NewtonState:
        """One Newton step, then a move of the centre or to more rows if the inner problem is solved well enough."""
        direction = _solve(state.damped_hessian(), -state.gradient)
        decrement = -float(state.gradient @ direction)
        if decrement > 0.0:
            self._move(state, direction)
        state.iterations += 1
        exact = decrement <= 1e-16 * abs(state.primal)
        if state.kinked and (exact or decrement <= INNER_SHARE * state.proximity):
            self._recentre(state)
        elif exact:
            state.stuck += 1
        enough = state.stuck or state.iterations >= state.first_step + COARSE_STEPS or state.relative_gap <= COARSE_GAP
        if state.finer and enough:
            return self._refine(state)
        return state

    def point(self, problem: Problem, state: NewtonState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables that react to them."""
        d = problem.operator.n_features  # type: ignore[attr-defined]
        w = state.theta[:d].copy()
        b = float(state.theta[d]) if problem.intercept is not None else 0.0
        if state.finer:  # the dual variables of a few rows are no point for all of them
            return Point(w, b, None)
        if problem.intercept == "free":
            b = problem.best_intercept(state.z - b)
        return Point(w, b, state.a.copy())

    def _recentre(self, state: NewtonState) -> None:
        """Move the centre to the present dual variables and narrow the smoothing.

        While few rows react, a narrower smoothing would leave the Hessian without information; it is kept unless the
        gap has come to rest (on separable data few rows ever react). Sets: ``centre, width, gap`` and as `respond`.
        """
        gap = state.primal - state.dual
        if np.count_nonzero(state.h) >= 4 * state.theta.size or gap > 0.25 * state.gap:
            state.width *= NARROWER
        state.gap = gap
        state.centre = state.problem.feasible(state.a)
        state.respond()

    def _refine(self, state: NewtonState) -> NewtonState:
        """The same coefficients on more rows."""
        finer, passes = _first_state(state.finer[-1]), state.passes * state.share
        finer.finer, finer.theta, finer.damping = state.finer[:-1], state.theta, state.damping
        finer.iterations = finer.first_step = state.iterations
        finer.passes = passes / finer.share
        finer.score()
        finer.respond()
        return finer

    def _move(self, state: NewtonState, direction: Float) -> None:
        """A full step if the slope along the direction falls enough, else to its zero. Sets: as `respond`."""
        dz = _scores(state.rows, direction)
        slope = float(state.theta @ (state.ridge * direction))
        curvature = float(direction @ (state.ridge * direction))

        def slope_at(t: float) -> float:
            return slope + t * curvature - state.pull(dz, t)

        t = _zero_of(slope_at)
        state.damping = max(0.2 * state.damping, 1e-12) if t >= 1.0 else min(10.0 * state.damping, MAX_DAMPING)
        state.theta = state.theta + t * direction
        state.z = state.z + t * dz
        state.passes += 1.0
        if state.iterations % EXACT_EVERY == EXACT_EVERY - 1:
            state.score()
        state.respond()


@dataclass
class NewtonState:
    """``theta`` is ``w`` and, if there is one, the intercept; ``z`` are its scores and ``a`` what answers to them."""

    problem: Problem  # on the rows of the present level
    theta: Float
    centre: Float
    width: float
    ridge: Float  # lam for coefficients, lam / scale^2 for a penalised intercept, 0 for a free one
    column_squares: Float  # mean square of each column
    z: Float
    a: Float
    h: Float  # how strongly each dual variable reacts to its score
    finer: list[Problem] = field(default_factory=list)  # with more rows; the last one is next
    gram: Callable[[], Float] = None  # type: ignore[assignment]  # [X 1]^T diag(h) [X 1]
    gradient: Float = None  # type: ignore[assignment]
    primal: float = math.inf
    dual: float = -math.inf
    proximity: float = 0.0  # the proximal term: how far the dual variables are from their centre
    iterations: int = 0
    first_step: int = 0  # of this level
    passes: float = 0.0
    stuck: int = 0
    damping: float = FIRST_DAMPING
    gap: float = math.inf  # when the centre moved last
    certificate_passes: float = 2.0

    @property
    def rows(self) -> Features:
        """The samples of the present level."""
        return self.problem.operator  # type: ignore[return-value]

    @property
    def kinked(self) -> bool:
        """Whether the loss needs smoothing."""
        return isinstance(self.problem.loss, KINKED)

    @property
    def share(self) -> float:
        """Cost of a pass over this level, in passes over all rows."""
        return self.rows.n_samples / max(1, (self.finer[0] if self.finer else self.problem).operator.n_samples)

    @property
    def relative_gap(self) -> float:
        """Of the present level."""
        return Certificate(self.primal, self.dual).relative_gap

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value of the present point; nothing is known about all rows before the last level."""
        return (math.inf, -math.inf) if self.finer else (self.primal, self.dual)

    @property
    def exhausted(self) -> bool:
        """Whether Newton's method cannot move any more."""
        return self.stuck >= 3

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, the width of the smoothing, and the rows of the present level."""
        return {"passes": self.passes * self.share, "smoothing": self.width, "rows": float(self.rows.n_samples)}

    def score(self) -> None:
        """Sets: ``z``, from the coefficients."""
        self.z = _scores(self.rows, self.theta)
        self.passes += 1.0

    def respond(self) -> None:
        """Sets: ``a, h, gram, gradient, primal, dual, proximity`` for the present scores, centre and width."""
        problem, rows = self.problem, self.rows
        width = self.width if self.kinked else 0.0
        sums = np.zeros((len(rows.parts), 3))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                first, last = rows.parts[k].start, rows.parts[k].stop
                sums[k] = _answer(
                    problem.loss, self.centre, problem.y, problem.s, self.z, width, first, last, self.a, self.h
                )

        rows.workers.run(work, range(len(rows.parts)))
        losses, conjugates, self.proximity = sums.sum(axis=0)
        v, self.gram = rows.adjoint_and_gram(self.a, self.h, self.theta.size - rows.n_features)
        v = np.append(v, self.a.sum())[: self.theta.size]
        self.passes += 1.0
        self.gradient = self.ridge * self.theta - v
        quadratic = self.ridge > 0.0
        self.primal = float(losses) + 0.5 * float(self.theta @ (self.ridge * self.theta))
        self.dual = -float(conjugates) - 0.5 * float((v[quadratic] ** 2 / self.ridge[quadratic]).sum())

    def pull(self, dz: Float, t: float) -> float:
        """``sum_i a_i dz_i`` for the dual variables that would answer to the scores ``z + t dz``."""
        problem, rows = self.problem, self.rows
        width = self.width if self.kinked else 0.0
        sums = np.zeros(len(rows.parts))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                first, last = rows.parts[k].start, rows.parts[k].stop
                sums[k] = _pull(problem.loss, self.centre, problem.y, problem.s, self.z, dz, t, width, first, last)

        rows.workers.run(work, range(len(rows.parts)))
        return float(sums.sum())

    def damped_hessian(self) -> Float:
        """``diag(ridge) + [X 1]^T diag(h) [X 1]``, and some more on the diagonal.

        Columns without reacting rows would otherwise make the steps wild, or the Hessian singular.
        """
        H, s = self.gram(), self.problem.s
        if self.kinked:
            reacting = max(1, int(np.count_nonzero(self.h)))
            strength = self.damping * reacting * float(np.where(s > 0.0, s, 1.0).mean()) / self.width
        else:
            strength = 1e-12 * float(s.sum())
        H[np.diag_indices_from(H)] += self.ridge + strength * self.column_squares
        self.passes += self.rows.gram_passes(self.h)
        return H


def _is_large(problem: Problem) -> bool:
    """Whether a twelfth of the rows says much about all of them, and is much cheaper."""
    rows: Features = problem.operator  # type: ignore[assignment]
    worth_it = rows.entries >= COARSE_ENTRIES and rows.n_samples >= 50 * COARSER * rows.n_features
    # With kinks the dual variables matter as much as the coefficients, and fewer rows say little about those.
    return worth_it and not isinstance(problem.loss, KINKED)


def _thinned(problem: Problem) -> Problem:
    """A twelfth of the rows, or what fits into memory, chosen at random; their weights add up to that of all."""
    rows: Features = problem.operator  # type: ignore[assignment]
    count = min(rows.n_samples // COARSER, rows.room)
    some = np.sort(np.random.default_rng(0).permutation(rows.n_samples)[:count])
    y, s = problem.y[some], problem.s[some]
    return replace(problem, operator=rows.take(some), y=y, s=s * (float(problem.s.sum()) / (float(s.sum()) or 1.0)))


def _first_state(problem: Problem) -> NewtonState:
    """Zero coefficients and dual variables."""
    rows: Features = problem.operator  # type: ignore[assignment]
    n, d = rows.n_samples, rows.n_features
    size = d + (problem.intercept is not None)
    ridge = np.full(size, problem.lam)
    if problem.intercept is not None:
        ridge[d] = problem.lam / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    return NewtonState(
        problem=problem,
        theta=np.zeros(size),
        centre=np.zeros(n),
        width=FIRST_WIDTH * max(float(np.abs(problem.y).max(initial=0.0)), 1e-300),
        ridge=ridge,
        column_squares=np.append(rows.column_squares(np.full(n, 1.0 / max(1, n))), 1.0)[:size],
        z=np.zeros(n),
        a=np.zeros(n),
        h=np.zeros(n),
    )


def _scores(rows: Features, theta: Float) -> Float:
    """``X w + b`` for ``theta = (w, b)``."""
    d = rows.n_features
    return rows.apply(theta[:d]) + (theta[d] if theta.size > d else 0.0)


def _solve(H: Float, g: Float) -> Float:
    """``H^-1 g`` after scaling the diagonal to one; a growing ridge helps where rounding made ``H`` indefinite."""
    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = H * scale[:, None] * scale
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        try:
            factor = cho_factor(scaled + ridge * np.eye(g.size), lower=True, check_finite=False)
        except LinAlgError:
            continue
        if factor[0].diagonal().min(initial=1.0) > 3e-8:  # a pivot of 1e-15
            return np.asarray(scale * cho_solve(factor, scale * g, check_finite=False))
    return scale * scale * g


def _zero_of(slope_at: Any) -> float:
    """Where a slope that rises from below zero vanishes, nearly; 1 if that is good enough.

    The Illinois form of false position: two ends around the zero, where an end that stays counts half.
    """
    start, end = slope_at(0.0), slope_at(1.0)
    if abs(end) <= 0.5 * abs(start):
        return 1.0
    enough = FLAT_ENOUGH * abs(start)
    left, at_left, right, at_right = 0.0, start, 1.0, end
    for _ in range(SEARCH_LIMIT):
        if at_right >= 0.0:
            break
        left, at_left = right, at_right
        right *= 4.0
        at_right = slope_at(right)
    side = 0
    for _ in range(SEARCH_LIMIT):
        if not at_right > at_left:
            break
        t = (left * at_right - right * at_left) / (at_right - at_left)
        if not left < t < right:
            t = 0.5 * (left + right)
        slope = slope_at(t)
        if abs(slope) <= enough or not left < t < right:
            return t
        if slope < 0.0:
            left, at_left = t, slope
            at_right *= 0.5 if side == -1 else 1.0
            side = -1
        else:
            right, at_right = t, slope
            at_left *= 0.5 if side == 1 else 1.0
            side = 1
    return left if left > 0.0 else right


@compiled
def _answer(
    loss: Any, centre: Float, y: Float, s: Float, z: Float, width: float, start: int, stop: int, a: Float, h: Float
) -> tuple[float, float, float]:
    """The dual variables that answer to the scores, and how strongly. Sets: ``a, h`` of some rows.

    Returns their losses, their conjugates and their proximal term.
    """
    losses, conjugates, proximity = 0.0, 0.0, 0.0
    for i in range(start, stop):
        a[i] = 0.0
        h[i] = 0.0
        if s[i] > 0.0:
            q = width / s[i]
            a[i] = loss.dual_step(centre[i], y[i], s[i], z[i], q)
            curvature = q + loss.dual_curvature(a[i], y[i], s[i])
            h[i] = 1.0 / curvature if curvature > 0.0 else 0.0
            losses += s[i] * loss.value(z[i], y[i])
            conjugates += s[i] * loss.conjugate(-a[i] / s[i], y[i])
            proximity += 0.5 * q * (a[i] - centre[i]) ** 2
    return losses, conjugates, proximity


@compiled
def _pull(
    loss: Any, centre: Float, y: Float, s: Float, z: Float, dz: Float, t: float, width: float, start: int, stop: int
) -> float:
    """``sum_i a_i dz_i`` over some rows, where ``a`` answers to the scores ``z + t dz``."""
    total = 0.0
    for i in range(start, stop):
        if s[i] > 0.0:
            total += loss.dual_step(centre[i], y[i], s[i], z[i] + t * dz[i], width / s[i]) * dz[i]
    return total
