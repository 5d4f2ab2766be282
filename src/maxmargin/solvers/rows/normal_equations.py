"""Least squares without its intercept: what the direct and the iterative solvers of a squared loss have in common.

With weights ``s`` (times the curvature of the loss), a squared loss and an L2 penalty, or none, the best free intercept
for coefficients ``w`` is ``b = mean(y) - mean(x).w``, so that centred rows and targets need none. A penalised intercept
is one coefficient more. What is left is

    min  1/2 sum_i s_i (a_i.theta - t_i)^2 + lam/2 |theta|^2,     (A^T S A + lam I) theta = A^T S t

with the rows ``a_i`` of a matrix ``A`` that is never formed: sparse rows are centred implicitly.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, cast

import numpy as np

from maxmargin.operators import Bordered, DenseVectors, Rows
from maxmargin.operators.sharded import sum_of_symmetric
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import Unpenalised
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.solver import Solver, State

SHRINKING = 0.5  # of corrections: slower ones are only rounding
CENTRED_ENTRIES = 2**18  # of a dense matrix: up to here a centred copy costs nothing, and saves digits


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Products with ``A``, and matrices of products, for one problem of least squares.

    ``A`` has the rows of this client; sums are those of all clients.
    """

    problem: Problem
    bordered: Bordered  # the rows, with the column of a penalised intercept
    s: Float  # weights, times the curvature of the loss
    total: float  # of the weights
    mean_x: Float | None  # of the rows, if the intercept is free
    mean_y: float

    @classmethod
    def of(cls, problem: Problem) -> NormalEquations:
        """Those of a problem; a free intercept costs one pass over the data."""
        bordered, s = problem.penalised, cast("Squared", problem.loss).curvature * problem.s
        if not problem.free_intercept:
            return cls(problem, bordered, s, 0.0, None, 0.0)
        total, moment = problem.sums(float(s.sum()), float(s @ problem.y))
        if total <= 0.0:
            return cls(problem, bordered, s, 0.0, np.zeros(bordered.size), 0.0)
        small = small_matrix(problem)
        sums = bordered.adjoint(s) if small is None else s @ small
        return cls(problem, bordered, s, total, sums / total, moment / total)

    @property
    def lam(self) -> float:
        """Strength of the penalty."""
        return self.problem.lam

    @cached_property
    def t(self) -> Float:
        """The centred targets."""
        return self.problem.y - self.mean_y

    def apply(self, theta: Float) -> Float:
        """``A theta`` for our own rows."""
        z = self.bordered.apply(theta)
        return z if self.mean_x is None else z - float(self.mean_x @ theta)

    def adjoint(self, a: Float) -> Float:
        """``A^T a``."""
        if self.in_hand is not None:
            return np.asarray(a @ self.in_hand)
        if self.mean_x is None:
            return self.bordered.adjoint(a)
        own = np.append(self.bordered.own.adjoint(a), a.sum())
        v = self.bordered.communicator.allreduce(own)
        return np.asarray(v[:-1] - v[-1] * self.mean_x)

    def point(self, theta: Float) -> Point:
        """Coefficients and intercept; the certificate finds the dual variables, which are the weighted residuals."""
        if self.mean_x is None:
            return Point(*self.bordered.split(theta))
        return Point(theta.copy(), self.mean_y - float(self.mean_x @ theta))

    def theta(self, warm: Point) -> Float:
        """The coefficients of a point."""
        return self.bordered.join(warm.w, warm.b)

    @cached_property
    def in_hand(self) -> Float | None:
        """The matrix ``A`` itself, if it is dense, in memory, and small."""
        return None if small_matrix(self.problem) is None else self.matrix()

    def matrix(self) -> Float:
        """The matrix ``A`` of rows in memory, as a dense float64 array of its own, or that of the problem."""
        X = self.problem.rows.matrix
        X = np.asarray(X, dtype=np.float64) if isinstance(X, np.ndarray) else X.toarray().astype(np.float64)
        if self.mean_x is not None:
            return np.asarray(X - self.mean_x)
        return np.column_stack([X, np.full(len(X), self.bordered.height)]) if self.bordered.height else X

    @cached_property
    def uniform(self) -> float:
        """The weight of all samples, if it is the same; else 0."""
        s = self.s
        return float(s[0]) if s.size and s[0] > 0.0 and (s == s[0]).all() else 0.0

    def gram(self) -> Float:
        """``A^T S A``, a matrix of the size of the coefficients."""
        if (A := self.in_hand) is not None:
            if self.uniform:
                return np.asarray(self.uniform * (A.T @ A))
            A = A * np.sqrt(self.s)[:, None]
            return np.asarray(A.T @ A)
        own = self.bordered.own.weighted_gram(self.s, self.bordered.height)
        G = sum_of_symmetric(own, self.bordered.communicator)
        if self.mean_x is not None:
            G -= self.total * np.outer(self.mean_x, self.mean_x)
        return G

    def gram_and_moments(self) -> tuple[Float, Float]:
        """``A^T S A`` and ``A^T S t``; from one reading of the data where it comes in chunks."""
        if isinstance(self.problem.operator, Rows):
            return self.gram(), self.adjoint(self.s * self.t)
        own, height = self.bordered.own, self.bordered.height
        v, gram = own.adjoint_and_gram(self.s * self.t, self.s, height)
        G = sum_of_symmetric(gram(), self.bordered.communicator)
        v = self.bordered.communicator.allreduce(self.bordered.with_border(v, float(self.s @ self.t)))
        if self.mean_x is not None:  # centred targets have the sum zero
            G -= self.total * np.outer(self.mean_x, self.mean_x)
        return G, v

    def row_gram(self) -> Float:
        """``A A^T`` of rows in memory, a matrix of the size of the samples."""
        if (A := self.in_hand) is not None:
            return np.asarray(A @ A.T)
        K = self.problem.rows.row_gram()
        if self.mean_x is not None:
            of_mean = self.problem.rows.apply(self.mean_x)
            K += float(self.mean_x @ self.mean_x) - of_mean[:, None] - of_mean
        elif self.bordered.height:
            K += self.bordered.height**2
        return K

    def value(self, residual: Float, theta: Float) -> float:
        """The objective, from the residuals ``t - A theta``."""
        own = 0.5 * float(self.s @ (residual * residual))
        return self.problem.sums(own)[0] + 0.5 * self.lam * float(theta @ theta)

    def gap(self, gradient: Float, theta: Float) -> float:
        """What the dual value of the weighted residuals misses, from ``gradient = A^T S (t - A theta) - lam theta``.

        The dual point is ``S (t - A theta)``. Its sum is zero, and ``P - D`` is ``|gradient|^2 / (2 lam)``.
        """
        if self.lam > 0.0:
            return 0.5 * float(gradient @ gradient) / self.lam
        reach = cast("Unpenalised", self.problem.penalty).reach
        return float(reach @ np.abs(gradient)) - float(theta @ gradient)


def small_matrix(problem: Problem) -> Float | None:
    """The rows of a problem, if they are dense, in memory, and few."""
    rows = problem.operator
    if not isinstance(rows, Rows) or not isinstance(rows.vectors, DenseVectors) or rows.entries > CENTRED_ENTRIES:
        return None
    X = rows.vectors.X
    return np.asarray(X, dtype=np.float64)


def rounds_at_once(entries: int) -> int:
    """How many iterations of two products make a round of about a millisecond."""
    return max(1, math.ceil(2**18 / max(1, entries)))


class Factor(Protocol):
    """Something that solves the equations, but for rounding errors."""

    first: Float  # its solution

    def correction(self, residual: Float, theta: Float) -> Float:
        """What is missing from ``theta``, by the residuals ``t - A theta``."""


@dataclass(kw_only=True)
class DirectState(State):
    """Coefficients, and the factor that they came from."""

    theta: Float
    equations: NormalEquations | None = None
    factor: Factor | None = None
    failed: bool = False  # there is no factor that could be trusted
    correction: float = math.inf  # size of the last one
    alpha: Float | None = None  # residuals, times the weights, of coefficients that had a correction added to them

    @property
    def exhausted(self) -> bool:
        """Whether there is no factor, or the last correction was no smaller than the one before."""
        return self.failed


class DirectSolver(Solver[Problem, DirectState]):
    """A factorisation, and refinement: what the factor makes of the residuals of its own solution is added to that."""

    @abstractmethod
    def factor(self, equations: NormalEquations) -> Factor | None:
        """The factor of a problem, or ``None`` if rounding could have spoilt it."""

    def start(self, problem: Problem, warm: Point | None) -> DirectState:
        """Zero, or a given point; small problems are solved at once."""
        state = DirectState(theta=np.zeros(problem.penalised.size))
        if warm is not None:
            state.theta = problem.penalised.join(warm.w, warm.b)
            state.equations = NormalEquations.of(problem)
        elif problem.features.entries <= CENTRED_ENTRIES and isinstance(problem.operator, Rows):
            self.advance(problem, state, 1)
        return state

    def advance(self, problem: Problem, state: DirectState, limit: int) -> DirectState:
        """The solution, or a correction of it."""
        state.iterations += 1
        if state.factor is None:
            state.equations = state.equations or NormalEquations.of(problem)
            state.factor = self.factor(state.equations)
            state.failed = state.factor is None
            state.passes += 2.0
            if state.factor is not None:
                state.theta = state.factor.first
                state.primal = state.dual = 0.0  # the certificate tells
            return state
        e = state.equations
        assert e is not None
        residual = e.t - e.apply(state.theta)
        step = state.factor.correction(residual, state.theta)
        if np.isfinite(step).all():
            state.alpha = e.s * (residual - e.apply(step))
        state.passes += 3.0
        last, state.correction = state.correction, float(np.linalg.norm(step))
        state.failed = not state.correction < SHRINKING * last or not np.isfinite(state.correction)
        if not state.failed:
            state.theta = state.theta + step
        return state

    def point(self, problem: Problem, state: DirectState) -> Point:
        """The coefficients; their dual variables are found with the certificate.

        Once there was a correction, it gives better ones: a residual has the rounding errors of its large score, and
        the score of a small correction hardly any.
        """
        if state.equations is None:
            return Point(state.theta[: problem.features.n_features].copy(), 0.0, np.zeros(problem.y.size))
        return replace(state.equations.point(state.theta), alpha=state.alpha)
