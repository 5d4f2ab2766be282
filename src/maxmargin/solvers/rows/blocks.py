"""Coordinate ascent on the dual, with Newton's method on blocks of rows: for rows that nearly repeat each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin._jit import compiled
from maxmargin.operators import Rows
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Loss
from maxmargin.solvers.rows.dual_problem import AscentState
from maxmargin.solvers.solver import Needs, Solver

EPOCHS = 10  # between two blocks; twice or half as many are no better on rcv1
BLOCK = 400  # rows; 300 to 500 are best on rcv1, and 1000 take twice as long
MOST_STEPS = 15  # of Newton's method in a block; 60 are no better on rcv1
BLOCK_SHARE = 1e-3  # a block is done when its largest error of a score has fallen to this share of the first one
RIDGE = 1e-9  # share of the diagonal that is added to it, because equal rows would make the matrix singular
SHORTEST = 1e-9  # part of Newton's step that is tried before the block is left as it is


@dataclass(frozen=True)
class Blocks(Solver[Problem, "BlocksState"]):
    """Coordinate ascent on the dual, and Newton's method on the rows that are most wrong.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss, any intercept, any number of features.
    It pays where coordinate ascent crawls because few rows nearly repeat each other and have different targets (rare
    features, scaled up): such a pair needs dual variables of ``1 / |x_i - x_j|^2``, in steps of ``1 / |x_i|^2``.

    Method: after some epochs of coordinate ascent most rows are right up to little, and the errors ``|step| q_i`` of
    their scores are largest where it crawls. The dual is maximised over a block of the worst rows, from the matrix of
    their inner products alone, by two kinds of steps in turn. Coordinate ascent decides which of them rest at a bound
    or a kink. Newton's step with ``Q + diag(loss.dual_curvature)`` moves all the others together; it is projected onto
    the bounds, and shortened until the dual rises. A free intercept is the multiplier of an augmented Lagrangian, as in
    ``dual_coordinate``.

    Cost: one iteration is one epoch; with ten of them come three passes over the data and a block, some ``m^3 / 3``
    multiplications for its ``m = 400`` rows; memory ``O(n + d + m^2)``.

    Reference: Moré, Toraldo, "On the solution of large quadratic programming problems with bound constraints", 1991
    (there with projected gradients and conjugate gradients); Bertsekas, "Projected Newton methods for optimization
    problems with simple constraints", 1982; Joachims, "Making large-scale SVM learning practical", 1998, section 11.2
    (blocks of the worst rows).
    """

    seed: int = 0

    name: ClassVar[str] = "blocks"
    needs: ClassVar[Needs] = Needs("rows", l2=True)

    def start(self, problem: Problem, warm: Point | None) -> BlocksState:
        """Zero, or the dual variables of a point."""
        state = BlocksState(problem, warm, self.seed)
        self._estimate(problem, state)
        return state

    def advance(self, problem: Problem, state: BlocksState, limit: int) -> BlocksState:
        """A block of the worst rows, then epochs."""
        self._improve_block(problem, state)
        state.refresh()
        state.course = state.course._replace(spent=math.inf)  # the block may have touched any row: all are visited
        state.ascend(min(EPOCHS, limit), shrinking=True)
        state.refresh()
        self._estimate(problem, state)
        return state

    def point(self, problem: Problem, state: BlocksState) -> Point:
        """The coefficients, with the best intercept for them if it is free and dual variables whose sum is zero."""
        return state.point(state.alpha)

    def _improve_block(self, problem: Problem, state: BlocksState) -> None:
        """Maximise the dual over the worst rows. Sets: ``alpha, b``."""
        errors = _errors(problem.loss, state.alpha, problem.y, problem.s, state.z, state.q)
        some = np.argsort(-errors, kind="stable")[:BLOCK]
        some = np.sort(some[errors[some] > 0.0])
        if some.size == 0:
            return
        Q = _inner_products(state.rows, some) / problem.lam + state.tau
        block = Block(problem.loss, problem.y[some], problem.s[some], Q, state.alpha[some], state.z[some])
        enough = BLOCK_SHARE * float(errors[some].max())
        for _ in range(MOST_STEPS):
            if block.visit() <= enough or not block.step():
                break
            state.steps += 1
        state.b += state.tau * float(block.alpha.sum() - state.alpha[some].sum())
        state.alpha[some] = block.alpha

    def _estimate(self, problem: Problem, state: BlocksState) -> None:
        """Sets: ``z, primal, dual, passes``."""
        state.z = state.rows.apply(state.w) + state.b
        state.passes += 1.0
        state.primal = problem.losses(state.z) + state.penalty()
        state.dual = state.lagrangian()


@dataclass
class BlocksState(AscentState):
    """Between two rounds ``z`` are the scores, with the intercept."""

    z: Float = field(default_factory=lambda: np.zeros(0))
    steps: int = 0  # of Newton's method

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and steps of Newton's method."""
        return {"passes": self.passes, "newton_steps": float(self.steps)}


@dataclass
class Block:
    """The dual over a few rows, while the others keep their variables."""

    loss: Loss
    y: Float
    s: Float
    Q: Float
    alpha: Float
    z: Float

    def visit(self) -> float:
        """Coordinate ascent, once over all rows; by how much the worst score was wrong. Sets: ``alpha, z``."""
        return float(_visit(self.loss, self.y, self.s, self.Q, self.alpha, self.z))

    def step(self) -> bool:
        """Newton's step for all rows that do not rest, and whether the dual rose. Sets: ``alpha, z``."""
        slopes, curvatures = _slopes(self.loss, self.alpha, self.y, self.s, self.z)
        some = np.flatnonzero(np.isfinite(curvatures))
        H = self.Q[np.ix_(some, some)]
        H[np.diag_indices_from(H)] += curvatures[some] + RIDGE * H.diagonal()
        step = np.zeros_like(self.alpha)
        try:
            step[some] = cho_solve(cho_factor(H, lower=True, check_finite=False), slopes[some], check_finite=False)
        except LinAlgError:
            return False
        t = 1.0
        while t > SHORTEST:
            alpha, rise = _projected(self.loss, self.alpha, t * step, self.y, self.s)
            change = alpha - self.alpha
            dz = self.Q @ change
            if rise - float(change @ (self.z + 0.5 * dz)) > 0.0:
                self.alpha, self.z = alpha, self.z + dz
                return True
            t *= 0.3
        return False


def _inner_products(rows: Rows, some: Index) -> Float:
    """The inner products of some rows with each other."""
    X = rows.matrix[some].astype(np.float64, copy=False)
    products = X @ X.T
    return np.asarray(products.toarray() if is_sparse(products) else products)


@compiled
def _errors(loss: Loss, alpha: Float, y: Float, s: Float, z: Float, q: Float) -> Float:
    """By how much each score is wrong, as seen from the step of its dual variable."""
    out = np.zeros(z.shape[0])
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            out[i] = q[i] * abs(loss.dual_step(alpha[i], y[i], s[i], z[i], q[i]) - alpha[i])
    return out


@compiled
def _visit(loss: Loss, y: Float, s: Float, Q: Float, alpha: Float, z: Float) -> float:
    largest = 0.0
    for k in range(z.shape[0]):
        step = loss.dual_step(alpha[k], y[k], s[k], z[k], Q[k, k]) - alpha[k]
        if step != 0.0:
            alpha[k] += step
            for j in range(z.shape[0]):
                z[j] += step * Q[k, j]
            largest = max(largest, abs(step) * Q[k, k])
    return largest


@compiled
def _slopes(loss: Loss, alpha: Float, y: Float, s: Float, z: Float) -> tuple[Float, Float]:
    """First derivatives of the dual, and the curvatures of its conjugates; these are infinite for rows that rest."""
    slopes, curvatures = np.zeros(z.shape[0]), np.empty(z.shape[0])
    for k in range(z.shape[0]):
        curvatures[k] = loss.dual_curvature(alpha[k], y[k], s[k])
        if curvatures[k] < math.inf:
            slopes[k] = -loss.dual_slope(alpha[k], y[k], s[k]) - z[k]
    return slopes, curvatures


@compiled
def _projected(loss: Loss, alpha: Float, step: Float, y: Float, s: Float) -> tuple[Float, float]:
    """Dual variables after a step that ends at a bound, or at zero, where there may be a kink; the conjugates' fall."""
    out, fall = alpha.copy(), 0.0
    for k in range(alpha.shape[0]):
        if step[k] != 0.0:
            low, high = loss.dual_range(y[k])
            low, high = low * s[k], high * s[k]
            if alpha[k] > 0.0:
                low = max(low, 0.0)
            elif alpha[k] < 0.0:
                high = min(high, 0.0)
            out[k] = min(max(alpha[k] + step[k], low), high)
            fall += s[k] * (loss.conjugate(-alpha[k] / s[k], y[k]) - loss.conjugate(-out[k] / s[k], y[k]))
    return out, fall
