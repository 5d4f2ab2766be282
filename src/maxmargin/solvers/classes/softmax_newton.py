"""Newton's method with conjugate gradients for logistic regression of several classes at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.numerics.bisection import middle_minimiser
from maxmargin.numerics.cholesky import inverse_of
from maxmargin.problems.classes import ClassesProblem
from maxmargin.problems.point import Point
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

MAX_BLOCK = 1000  # columns of a matrix that is factorised
MAX_PRODUCTS = 250  # per step
LOOSEST, TIGHTEST = 0.3, 1e-4  # accuracy of a direction, relative, in the norm of the preconditioner
SMALL_STEP = 1e-3  # of the scores: Newton's model is as good as exact, and slopes along the step may be rounding


@dataclass(frozen=True)
class SoftmaxNewton(Solver[SoftmaxProblem, "SoftmaxNewtonState"]):
    """Newton's method on the primal, with directions by preconditioned conjugate gradients.

    Problem: ``min sum_i s_i (log sum_c exp(z_ic) - z_i,y_i) + lam |W|^2 / 2`` with ``z_i = W x_i + b``, any intercept.

    Method: the gradient is ``lam W - A^T X`` with ``a_i = s_i (onehot(y_i) - p_i)``, the Hessian maps a direction ``V``
    to ``lam V + R^T X`` with ``r_i = s_i (diag(p_i) - p_i p_i^T) V x_i``. Conjugate gradients stop at an accuracy that
    tightens with the square root of the Newton decrement. They are preconditioned by the diagonal of the Hessian, and
    by Cholesky factors of its diagonal blocks, one per class, from the first step on that cost more than these: then
    neither scales nor correlations of the columns matter. All directions have the sum zero over the classes, as the
    solution has. A full step is taken if the slope along it falls by half, else one to the exact minimum.

    Cost: one product with the Hessian reads the data twice, for ``O(nnz k)`` operations; a step takes up to 250 of
    them, and factors ``O(n k d^2 + k d^3)``. Memory ``O((n + d) k)``, with factors ``O(k d^2)`` more.

    Reference: Nocedal, Wright, "Numerical Optimization", 2nd edition, algorithm 7.1 (line search Newton-CG); Boehning,
    "Multinomial logistic regression algorithm", 1992 (the Hessian).
    """

    name: ClassVar[str] = "softmax_newton"
    needs: ClassVar[Needs] = Needs("classes")

    def obstacle(self, problem: ClassesProblem) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, SoftmaxProblem):
            return f"it needs the softmax problem of several classes at once; this is a {type(problem).__name__}"
        return None

    def start(self, problem: SoftmaxProblem, warm: Point | None) -> SoftmaxNewtonState:
        """Zero, or a given point."""
        theta = np.zeros(problem.shape)
        if warm is not None:
            theta += warm.w.reshape(problem.shape)
            theta -= theta.mean(axis=0)  # changes no probability and never raises the penalty
        state = SoftmaxNewtonState(theta, problem.ridge)
        state.respond(problem)
        return state

    def advance(self, problem: SoftmaxProblem, state: SoftmaxNewtonState, limit: int) -> SoftmaxNewtonState:
        """One Newton step."""
        hessian = _Hessian(problem, state)
        precondition = hessian.blocks() if state.use_blocks else hessian.diagonal()
        direction, products = _conjugate_gradients(hessian.product, precondition, state.gradient, abs(state.primal))
        state.iterations += 1
        state.passes += 2.0 * products + 3.0
        state.use_blocks |= products > state.ridge.size and state.ridge.size <= MAX_BLOCK
        decrement = -float((state.gradient * direction).sum())
        gap = state.primal - state.dual
        if decrement > 0.0 and math.isfinite(decrement):
            state.move(problem, direction)
        # On columns of very different sizes the primal comes to rest long before the gap, |gradient|^2 / (2 lam).
        if not decrement > 1e-16 * abs(state.primal) and not state.primal - state.dual < 0.5 * gap:
            state.stuck += 1
        return state

    def point(self, problem: SoftmaxProblem, state: SoftmaxNewtonState) -> Point:
        """The coefficients and intercepts, and the dual variables that answer to them."""
        return Point(state.theta.ravel().copy(), 0.0, state.A.ravel().copy())


@dataclass
class SoftmaxNewtonState(State):
    """``theta`` is ``[W b]``, ``Z`` are its scores and ``A`` what answers to them."""

    theta: Float
    ridge: Float
    Z: Float = field(init=False)
    A: Float = field(init=False)
    gradient: Float = field(init=False)
    stuck: int = 0
    use_blocks: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether Newton's method cannot move any more."""
        return self.stuck >= 3

    def respond(self, problem: SoftmaxProblem) -> None:
        """Sets: ``Z, A, gradient, primal, dual`` for the present coefficients."""
        self.Z = problem.scores(self.theta)
        self.A = problem.slopes(self.Z)
        self.gradient = self.ridge * self.theta - problem.coefficients(self.A)
        self.primal = problem.losses(self.Z) + 0.5 * float((self.ridge * self.theta**2).sum())
        penalised = self.ridge > 0.0
        # With these dual variables the gap is |gradient|^2 / (2 lam), up to what balancing them costs.
        self.dual = self.primal - 0.5 * float((self.gradient[:, penalised] ** 2 / self.ridge[penalised]).sum())

    def move(self, problem: SoftmaxProblem, direction: Float) -> None:
        """A full step if it is small or the slope along it falls by half, else to the slope's zero.

        Sets: as `respond`.
        """
        before = self.theta
        penalty, dZ = self.ridge * direction, problem.scores(direction)
        t = 1.0
        if np.abs(dZ).max(initial=0.0) > SMALL_STEP:
            line = _Line(
                problem.y, problem.s, self.Z, dZ, float((before * penalty).sum()), float((direction * penalty).sum())
            )
            start, end = _slope_along(line, 0.0), _slope_along(line, 1.0)
            if abs(end) > 0.5 * abs(start):
                t = middle_minimiser(line, 1.0)
        self.theta = before + t * direction
        self.respond(problem)
        if not math.isfinite(self.primal):  # the scores overflowed
            self.theta, self.stuck = before, self.stuck + 1
            self.respond(problem)


class _Hessian:
    """The Hessian at a state: products with it, and two approximations that are easy to invert."""

    def __init__(self, problem: SoftmaxProblem, state: SoftmaxNewtonState) -> None:
        self.problem, self.ridge = problem, state.ridge
        s = problem.s[:, None]
        own = (np.arange(s.size), problem.y)
        self.Q = -state.A  # s_i p_i
        self.Q[own] += problem.s
        self.P = self.Q / np.where(s > 0.0, s, 1.0)
        self.h = self.Q * (1.0 - self.P)
        self.h[own] = self.P[own] * state.A[own]  # keeps its digits where the own class is almost certain

    def product(self, V: Float) -> Float:
        """``H V``."""
        U = self.problem.scores(V)
        U -= (self.P * U).sum(axis=1, keepdims=True)
        U *= self.Q
        return self.ridge * V + self.problem.coefficients(U)

    def diagonal(self) -> Callable[[Float], Float]:
        """Division by the diagonal."""
        squares = self.problem.operator.squares_each(self.h)
        if self.problem.intercept is not None:
            squares = np.column_stack([squares, self._floor(self.h.sum(axis=0))])
        diagonal = squares + self.ridge
        return lambda R: R / diagonal

    def blocks(self) -> Callable[[Float], Float]:
        """Solution with the blocks of the classes on the diagonal, each scaled to a unit diagonal."""
        inverses = []
        for h in np.ascontiguousarray(self.h.T):
            B = self.problem.operator.weighted_gram(h, float(self.problem.intercept is not None))
            if self.problem.intercept is not None:
                B[-1, -1] = self._floor(B[-1, -1])
            B[np.diag_indices_from(B)] += self.ridge
            inverses.append(inverse_of(B))
        return lambda R: np.array([inverse(r) for r, inverse in zip(R, inverses, strict=True)])

    def _floor(self, curvature: Float) -> Float:
        """The curvature of a free intercept may underflow; a little of the weight keeps it invertible."""
        return np.maximum(curvature, 1e-12 * float(self.problem.s.sum()) + 1e-300)


def _conjugate_gradients(
    product: Callable[[Float], Float], precondition: Callable[[Float], Float], gradient: Float, value: float
) -> tuple[Float, int]:
    """A direction that solves ``H d = -gradient`` roughly, and the number of products; ``value`` is the objective."""

    def solved(R: Float) -> Float:
        Y = precondition(R)
        return Y - Y.mean(axis=0)  # over the classes: along the rest the Hessian has nothing but the penalty

    D, R = np.zeros_like(gradient), -gradient
    V = Y = solved(R)
    size = float((R * Y).sum())
    if not size > 0.0:  # the gradient is rounding
        return D, 0
    accuracy = min(max(math.sqrt(size / value) if value > 0.0 else 0.0, TIGHTEST), LOOSEST)
    target = accuracy**2 * size
    made = 0
    while made < MAX_PRODUCTS and size > target:
        HV = product(V)
        made += 1
        curvature = float((V * HV).sum())
        if not curvature > 0.0:
            return (D if made > 1 else Y), made
        D += (size / curvature) * V
        R = R - (size / curvature) * HV
        Y = solved(R)
        last, size = size, float((R * Y).sum())
        V = Y + (size / last) * V
    return D, made


@compiled_methods
class _Line(NamedTuple):
    """The primal along a direction."""

    y: Index
    s: Float
    Z: Float
    dZ: Float
    penalty_slope: float  # at the start
    penalty_curvature: float

    def derivative(self, b: float) -> float:
        total = self.penalty_slope + b * self.penalty_curvature
        size = abs(self.penalty_slope) + abs(b * self.penalty_curvature)
        k = self.Z.shape[1]
        for i in range(self.Z.shape[0]):
            if self.s[i] > 0.0:
                z, dz, y = self.Z[i], self.dZ[i], self.y[i]
                top = 0.0
                for c in range(k):
                    top = max(top, z[c] - z[y] + b * (dz[c] - dz[y]))
                weight, slope, spread = math.exp(-top), 0.0, 0.0
                for c in range(k):
                    if c != y:
                        e = math.exp(z[c] - z[y] + b * (dz[c] - dz[y]) - top)
                        weight += e
                        slope += e * (dz[c] - dz[y])
                        spread += e * abs(dz[c] - dz[y])
                total += self.s[i] * slope / weight
                size += self.s[i] * spread / weight
        return 0.0 if abs(total) <= 1e-15 * size else total


@compiled
def _slope_along(line: _Line, t: float) -> float:
    return line.derivative(t)
