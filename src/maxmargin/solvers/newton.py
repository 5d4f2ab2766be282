"""Semismooth Newton for linear models with few features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.bisection import middle_minimiser
from maxmargin.losses import EpsilonInsensitive, Hinge
from maxmargin.operators import Rows
from maxmargin.penalties import L2
from maxmargin.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solution import Point

KINKED = (Hinge, EpsilonInsensitive)  # losses whose derivative jumps
MAX_FEATURES = 1000
FIRST_WIDTH = 2.0  # of the smoothing, relative to the targets; at 1 every row sits on a kink when w = 0
NARROWER = 0.3
INNER_SHARE = 0.01  # of the proximal term that the Newton decrement must fall below before the centre moves
FIRST_DAMPING, MAX_DAMPING = 1e-4, 1e-3  # the last five numbers solved spambase, raw and scaled, with C up to 100


@dataclass(frozen=True)
class Newton:
    """Semismooth Newton on the primal, inside a proximal method on the dual for losses with kinks.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2`` with few features, any loss, any intercept.

    Method: the dual variable that answers to a score ``z_i`` is ``a_i = loss.dual_step(c_i, y_i, s_i, z_i, q_i)``, the
    maximiser of the dual term minus ``q_i (a - c_i)^2 / 2``. For smooth losses ``q = 0`` and ``a_i = -s_i slope_i``.
    For losses with kinks this is the augmented Lagrangian around the centre ``c``. The gradient is
    ``lam w - X^T a``, a generalised Hessian ``lam I + X^T diag(h) X`` with ``h = 1 / (q + loss.dual_curvature)``.
    Newton's direction is followed for a full step if that is good enough, else to the exact minimum along it. When the
    decrement is small against the gap, the centre moves to ``a`` and ``q`` shrinks. Column scales do not matter.

    Cost: one step is ``O(rows that react * d^2 + d^3)``; memory ``O(n + d^2)``.

    Reference: Yin, Li, "A semismooth Newton method for support vector classification and regression", 2019;
    Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm", 1976.
    """

    name: ClassVar[str] = "newton"

    def supports(self, problem: Any) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem) or not isinstance(problem.operator, Rows):
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
        """Zero, or a given point."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        size = rows.n_features + (problem.intercept is not None)
        state = NewtonState(
            theta=np.zeros(size),
            centre=np.zeros(rows.n_samples),
            width=FIRST_WIDTH * max(float(np.abs(problem.y).max(initial=0.0)), 1e-300),
            ridge=_ridge(problem, rows.n_features, size),
            column_squares=np.append(_column_squares(rows.vectors, rows.n_samples, rows.n_features), 1.0)[:size],
        )
        if warm is not None:
            state.theta[: rows.n_features] = warm.w
            state.theta[rows.n_features :] = warm.b
            if warm.alpha is not None:
                state.centre = problem.feasible(warm.alpha)
        self._respond(problem, state)
        return state

    def advance(self, problem: Problem, state: NewtonState, limit: int) -> NewtonState:
        """One Newton step, and a move of the centre if the inner problem is solved well enough."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        kinked = isinstance(problem.loss, KINKED)
        h = _reaction(problem.loss, state.a, problem.y, problem.s, state.q)
        H = _hessian(rows, h, state.ridge)
        reacting = int(np.count_nonzero(h))
        # Columns without reacting rows would otherwise make the steps wild, or the Hessian singular.
        if kinked:
            strength = state.damping * max(reacting, 1) * float((1.0 / state.q).mean())
        else:
            strength = 1e-12 * float(problem.s.sum())
        H[np.diag_indices_from(H)] += strength * state.column_squares
        direction = _solve(H, -state.gradient)
        decrement = -float(state.gradient @ direction)
        if decrement > 0.0:
            self._move(problem, state, direction)
        state.iterations += 1
        state.passes += 3.0
        exact = decrement <= 1e-16 * abs(state.primal)
        if kinked and (exact or decrement <= INNER_SHARE * state.proximity()):
            self._recentre(problem, state, reacting)
        elif exact:
            state.stuck += 1
        return state

    def _recentre(self, problem: Problem, state: NewtonState, reacting: int) -> None:
        """Move the centre to the present dual variables and narrow the smoothing.

        While few rows react, a narrower smoothing would leave the Hessian without information; it is kept unless the
        gap has come to rest (on separable data few rows ever react). Sets: ``centre, width, gap`` and as `_respond`.
        """
        gap = state.primal - state.dual
        if reacting >= 4 * state.theta.size or gap > 0.25 * state.gap:
            state.width *= NARROWER
        state.gap = gap
        state.centre = problem.feasible(state.a)
        self._respond(problem, state)

    def point(self, problem: Problem, state: NewtonState) -> Point:
        """The coefficients, the best intercept for them if it is free, and the dual variables that react to them."""
        d = problem.operator.n_features  # type: ignore[attr-defined]
        w = state.theta[:d].copy()
        b = float(state.theta[d]) if problem.intercept is not None else 0.0
        if problem.intercept == "free":
            b = problem.best_intercept(state.z - b)
        return Point(w, b, state.a.copy())

    def _move(self, problem: Problem, state: NewtonState, direction: Float) -> None:
        """A full step if the slope along the direction falls enough, else to its zero. Sets: as `_respond`."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        dz = _scores(rows, direction)
        line = _Line(
            problem.loss, problem.y, problem.s, state.q, state.centre, state.z, dz,
            float(state.theta @ (state.ridge * direction)), float(direction @ (state.ridge * direction)),
        )  # fmt: skip
        start, end = _slope_along(line, 0.0), _slope_along(line, 1.0)
        t = 1.0 if abs(end) <= 0.5 * abs(start) else middle_minimiser(line, 1.0)
        state.damping = max(0.2 * state.damping, 1e-12) if t >= 1.0 else min(10.0 * state.damping, MAX_DAMPING)
        state.theta = state.theta + t * direction
        self._respond(problem, state)

    def _respond(self, problem: Problem, state: NewtonState) -> None:
        """Sets: ``z, q, a, gradient, primal, dual`` for the present coefficients, centre and width."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        weights = np.where(problem.s > 0.0, problem.s, 1.0)
        state.q = state.width / weights if isinstance(problem.loss, KINKED) else np.zeros_like(weights)
        state.z = _scores(rows, state.theta)
        state.a = _responses(problem.loss, state.centre, problem.y, problem.s, state.z, state.q)
        v = np.append(rows.adjoint(state.a), state.a.sum())[: state.theta.size]
        state.gradient = state.ridge * state.theta - v
        quadratic = state.ridge > 0.0
        norm = 0.5 * float(state.theta @ (state.ridge * state.theta))
        state.primal = problem.losses(state.z) + norm
        conjugate = 0.5 * float((v[quadratic] ** 2 / state.ridge[quadratic]).sum())
        state.dual = -problem.conjugates(state.a) - conjugate


@dataclass
class NewtonState:
    """``theta`` is ``w`` and, if there is one, the intercept; ``z`` are its scores and ``a`` what answers to them."""

    theta: Float
    centre: Float
    width: float
    ridge: Float  # lam for coefficients, lam / scale^2 for a penalised intercept, 0 for a free one
    column_squares: Float  # mean square of each column
    z: Float = None  # type: ignore[assignment]
    q: Float = None  # type: ignore[assignment]
    a: Float = None  # type: ignore[assignment]
    gradient: Float = None  # type: ignore[assignment]
    primal: float = math.inf
    dual: float = -math.inf
    iterations: int = 0
    passes: float = 0.0
    stuck: int = 0
    damping: float = FIRST_DAMPING
    gap: float = math.inf  # when the centre moved last
    certificate_passes: float = 2.0

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value of the present point."""
        return self.primal, self.dual

    def proximity(self) -> float:
        """The proximal term: how far the dual variables are from their centre."""
        return 0.5 * float(self.q @ (self.a - self.centre) ** 2)

    @property
    def exhausted(self) -> bool:
        """Whether Newton's method cannot move any more."""
        return self.stuck >= 3

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the width of the smoothing."""
        return {"passes": self.passes, "smoothing": self.width}


def _ridge(problem: Problem, d: int, size: int) -> Float:
    ridge = np.full(size, problem.lam)
    if problem.intercept is not None:
        ridge[d] = problem.lam / problem.intercept_scale**2 if problem.intercept == "penalised" else 0.0
    return ridge


def _scores(rows: Rows, theta: Float) -> Float:
    """``X w + b`` for ``theta = (w, b)``."""
    d = rows.n_features
    return rows.apply(theta[:d]) + (theta[d] if theta.size > d else 0.0)


def _solve(H: Float, g: Float) -> Float:
    """``H^-1 g`` after scaling the diagonal to one; a growing ridge helps where rounding made ``H`` indefinite."""
    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = H * scale[:, None] * scale
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
        factor = scaled + ridge * np.eye(g.size)
        if _cholesky(factor):
            return scale * _substitute(factor, scale * g)
    return scale * scale * g


@compiled_methods
class _Line(NamedTuple):
    """The smoothed primal along a direction."""

    loss: Any
    y: Float
    s: Float
    q: Float
    centre: Float
    z: Float
    dz: Float
    penalty_slope: float  # at the start
    penalty_curvature: float

    def derivative(self, b: float) -> float:
        total = self.penalty_slope + b * self.penalty_curvature
        size = abs(self.penalty_slope) + abs(b * self.penalty_curvature)
        for i in range(self.z.shape[0]):
            if self.s[i] > 0.0:
                z = self.z[i] + b * self.dz[i]
                a = self.loss.dual_step(self.centre[i], self.y[i], self.s[i], z, self.q[i])
                total -= a * self.dz[i]
                size += abs(a * self.dz[i])
        return 0.0 if abs(total) <= 1e-15 * size else total


@compiled
def _slope_along(line: Any, t: float) -> float:
    return line.derivative(t)


@compiled
def _responses(loss: Any, centre: Float, y: Float, s: Float, z: Float, q: Float) -> Float:
    """The dual variables that answer to the scores."""
    out = np.zeros(z.shape[0])
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            out[i] = loss.dual_step(centre[i], y[i], s[i], z[i], q[i])
    return out


@compiled
def _reaction(loss: Any, a: Float, y: Float, s: Float, q: Float) -> Float:
    """How strongly each dual variable reacts to its score."""
    out = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        if s[i] > 0.0:
            curvature = q[i] + loss.dual_curvature(a[i], y[i], s[i])
            out[i] = 1.0 / curvature if curvature > 0.0 else 0.0
    return out


def _hessian(rows: Rows, h: Float, ridge: Float) -> Float:
    """``diag(ridge) + [X 1]^T diag(h) [X 1]``, where ``ridge`` says whether there is a column of ones."""
    d = rows.n_features
    H = np.zeros((ridge.size, ridge.size))
    H[:d, :d] = rows.weighted_gram(h)
    if ridge.size > d:
        H[d, :d] = H[:d, d] = rows.adjoint(h)
        H[d, d] = h.sum()
    H[np.diag_indices_from(H)] += ridge
    return H


@compiled
def _column_squares(vectors: Any, n: int, d: int) -> Float:
    """Mean square of every column."""
    total = np.zeros(d)
    for i in range(n):
        vectors.add_squares(i, 1.0 / n, total)
    return total


@compiled
def _cholesky(A: Float) -> bool:
    """Cholesky factor in the lower triangle of ``A``; whether ``A`` is positive definite. Sets: ``A``.

    Not LAPACK's: for the few hundred columns of this solver its threads cost a hundred times the arithmetic when the
    machine has other work, and limiting them would be a global setting.
    """
    for i in range(A.shape[0]):
        row = A[i]
        for j in range(i + 1):
            other = A[j]
            total = 0.0
            for k in range(j):
                total += row[k] * other[k]
            if i == j:
                pivot = row[i] - total
                if not pivot > 1e-15:
                    return False
                row[i] = math.sqrt(pivot)
            else:
                row[j] = (row[j] - total) / other[j]
    return True


@compiled
def _substitute(L: Float, g: Float) -> Float:
    """``(L L^T)^-1 g``."""
    x = g.copy()
    n = x.shape[0]
    for i in range(n):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(i):
            x[k] -= L[i, k] * x[i]
    return x
