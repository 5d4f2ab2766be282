"""Coordinate descent over columns: one coefficient after another is set to its best value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.balance import balanced
from maxmargin.numerics.sampling import ORDERS, PERMUTATION, UNIFORM, below, seeded, shuffle
from maxmargin.operators import Columns
from maxmargin.operators.column_gram import gram_of
from maxmargin.parts.losses import Squared
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.problems.rounding import conjugate_costs, dual_excess
from maxmargin.protocols import Array, Float, Index, Penalty, Vectors
from maxmargin.solvers.solver import Needs, Solver, State, check_options

GREEDY = "greedy"
MOST_GREEDY = 5000  # columns whose products with each other are stored: 200 MB
ROUND_ENTRIES, FEWEST_SWEEPS = 2**20, 4  # of a round, after which all columns are looked at once
CONSTANT = 1e-13  # of the squares of a column: what is left of them by centring is only rounding


@dataclass(frozen=True)
class CoordinateDescent(Solver[Problem, "CoordinateState"]):
    """Coordinate descent on the primal of least squares, the textbook's; `WorkingSet` is the fast one for the LASSO.

    Problem: ``min 1/2 sum_i s_i (x_i.w + b - y_i)^2 + penalty(w)``, any penalty with a proximal step or none, ``b``
    free or zero; columns in memory, dense or sparse, that are never centred or scaled themselves.

    Method: ``w_j <- argmin_w`` of the whole function, the other coefficients fixed: with the residuals ``r`` and
    ``q_j = sum_i s_i x_ij^2`` that is ``prox(w_j + x_j.(s r) / q_j, 1 / q_j)``, for ridge a division and for LASSO a
    soft threshold. A free intercept always has its best value, by which columns count as centred. The ``order`` is
    "cyclic", a new "permutation" in each sweep, "uniform", where the next column is drawn, or "greedy": always the one
    that lowers the objective most. The objective falls in each step. Each residual changes with one column, and for the
    greedy order all slopes change with one column of ``X^T diag(s) X``.

    Cost: an iteration is as many steps as there are columns. That reads the data once; with the greedy order it takes
    ``d^2`` operations instead, and memory for ``d^2`` products, so that ``d`` must not be large.

    Reference: Fu, "Penalized regressions: the bridge versus the lasso", 1998; Tseng, "Convergence of a block coordinate
    descent method for nondifferentiable minimization", 2001; Straka, NPFL129, lecture 7, 2020, for better orders.
    """

    order: str = "cyclic"
    seed: int = 0

    name: ClassVar[str] = "coordinate_descent"
    needs: ClassVar[Needs] = Needs("columns", squared=True)

    def __post_init__(self) -> None:
        check_options(self, order=(*ORDERS, GREEDY))

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        d = _columns(problem).n_features
        if problem.intercept is not None and not problem.free_intercept:
            return "its intercept is free or zero, not penalised"
        if self.order == GREEDY and d > MOST_GREEDY:
            return f"its greedy order stores the products of all pairs of columns; {d} are more than {MOST_GREEDY}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> CoordinateState:
        """Zero, or the coefficients of a point."""
        columns, s = _columns(problem), cast("Squared", problem.loss).curvature * problem.s
        means, squares, curvatures = _sizes(columns.vectors, s, problem.free_intercept, columns.n_features)
        state = CoordinateState(
            w=np.zeros(columns.n_features) if warm is None else warm.w.astype(np.float64),
            r=problem.y,
            alpha=problem.y,
            v=np.zeros(columns.n_features),
            s=s,
            total=float(s.sum()),
            means=means,
            q=np.where(curvatures > CONSTANT * squares, curvatures, 0.0),
            columns=np.arange(columns.n_features),
            random=seeded(self.seed),
            passes=2.0,
        )
        if self.order == GREEDY:
            gram = gram_of(columns, s, problem.free_intercept)
            gram.add(state.columns)
            state.G = np.empty_like(gram.G[: state.w.size, : state.w.size])
            state.G[np.ix_(gram.W[: gram.size], gram.W[: gram.size])] = gram.G[: gram.size, : gram.size]
        _look(problem, state)
        return state

    def advance(self, problem: Problem, state: CoordinateState, limit: int) -> CoordinateState:
        """Some sweeps, and a look at where they led."""
        columns = _columns(problem)
        sweeps = min(max(math.ceil(ROUND_ENTRIES / max(1, columns.entries)), FEWEST_SWEEPS), limit)
        if state.G is not None:
            moved = _greedy_sweeps(problem.penalty, state.G, state.q, sweeps, state.w, state.v)
        else:
            even = float(state.s[0]) if (state.s == state.s[:1]).all() else 0.0
            moved = _sweeps(
                columns.vectors, problem.penalty, state.s, even, state.total if problem.free_intercept else 0.0,
                state.means, state.q, ORDERS[self.order], sweeps, state.columns, state.random, state.w, state.r,
            )  # fmt: skip
            state.passes += sweeps
        state.iterations += sweeps
        state.still = moved == 0.0 and ORDERS.get(self.order) != UNIFORM  # which may have drawn others
        _look(problem, state)
        return state

    def point(self, problem: Problem, state: CoordinateState) -> Point:
        """The coefficients, with the residuals as dual variables."""
        return Point(state.w.copy(), state.b, state.alpha)


@dataclass(kw_only=True)
class CoordinateState(State):
    """``r = y - X w``, without the intercept."""

    w: Float
    r: Float
    alpha: Float  # s (r - b)
    v: Float  # X^T alpha
    s: Float  # weights, times the curvature of the loss
    total: float  # of them
    means: Float  # of the columns; zero if they do not count as centred
    q: Float  # curvature along each coefficient; zero for a column that is constant
    columns: Index  # in the order of their visits
    random: Array
    G: Float | None = None
    b: float = 0.0
    still: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether no coefficient moved."""
        return self.still


def _columns(problem: Problem) -> Columns:
    assert isinstance(problem.operator, Columns)
    return problem.operator


def _look(problem: Problem, state: CoordinateState) -> None:
    """Residuals, slopes and values from the data. Sets: ``r, b, alpha, v, primal, dual, passes``."""
    columns, s = _columns(problem), state.s
    state.r = problem.y - columns.apply(state.w) if state.w.any() else problem.y.copy()
    state.b = float(s @ state.r) / state.total if problem.free_intercept and state.total > 0.0 else 0.0
    state.alpha = s * (state.r - state.b)
    if problem.free_intercept:
        state.alpha = balanced(state.alpha)  # up to rounding it is
    state.v = columns.beyond(state.alpha, 0.0).v.copy()
    state.passes += 2.0
    factor = 1.0 / max(1.0, dual_excess(problem.penalty, state.v))
    residual = state.r - state.b
    state.primal = 0.5 * float(s @ (residual * residual)) + _cost(problem.penalty, state.w)
    state.dual = -problem.conjugates(factor * state.alpha) - float(conjugate_costs(problem.penalty, factor * state.v))


@compiled
def _sizes(vectors: Vectors, s: Float, centred: bool, d: int) -> tuple[Float, Float, Float]:
    """The weighted mean of each column, the sum of its squares, and the same of the centred column."""
    means, squares, rests, column, total = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(s.shape[0]), 0.0
    for i in range(s.shape[0]):
        total += s[i]
    for j in range(d):
        vectors.add(j, 1.0, column)
        squares[j] = rests[j] = vectors.dot_weighted(j, s, column)
        if centred and total > 0.0:
            means[j] = vectors.dot(j, s) / total
            rests[j] = max(squares[j] - total * means[j] * means[j], 0.0)
        vectors.add(j, -1.0, column)
    return means, squares, rests


@compiled
def _cost(penalty: Penalty, w: Float) -> float:
    total = 0.0
    for j in range(w.shape[0]):
        total += penalty.cost(w[j], j)
    return total


@compiled
def _best(penalty: Penalty, j: int, w: float, slope: float, q: float) -> float:
    """The best value of a coefficient: the function falls by ``slope`` there, and curves by ``q``."""
    return penalty.prox(w + slope / q, 1.0 / q, j) if q > 0.0 else penalty.prox(0.0, 1.0, j)


@compiled
def _sweeps(
    vectors: Vectors, penalty: Penalty, s: Float, even: float, total: float, means: Float, q: Float, order: int,
    sweeps: int, columns: Index, random: Array, w: Float, r: Float,
) -> float:  # fmt: skip
    """Sweeps over all columns; how far coefficients moved in the last one. On entry and exit ``r = y - X w``.

    ``even`` is the weight of all samples, or 0 if it varies; ``total`` is 0 if there is no intercept. Sets: ``w, r``,
    and the order of the columns.
    """
    d, moved = w.shape[0], 0.0
    rest = 0.0  # the weighted sum of r
    if total > 0.0:
        for i in range(s.shape[0]):
            rest += s[i] * r[i]
    for _ in range(sweeps):
        moved = 0.0
        if order == PERMUTATION:
            shuffle(columns, 0, d, random)
        for k in range(d):
            j = columns[below(d, random)] if order == UNIFORM else columns[k]
            slope = even * vectors.dot(j, r) if even > 0.0 else vectors.dot_weighted(j, s, r)
            step = _best(penalty, j, w[j], slope - rest * means[j], q[j]) - w[j]
            if step != 0.0:
                w[j] += step
                vectors.add(j, -step, r)
                rest -= step * total * means[j]
                moved += abs(step)
        if moved == 0.0 and order != UNIFORM:
            break
    return moved


@compiled
def _greedy_sweeps(penalty: Penalty, G: Float, q: Float, sweeps: int, w: Float, v: Float) -> float:
    """Steps on the column that gains most, ``d`` for each sweep; how far coefficients moved. Sets: ``w, v``.

    On entry and exit ``v`` holds the slopes of all columns, which change with ``G``.
    """
    d, moved = w.shape[0], 0.0
    for _ in range(sweeps * d):
        most, best = 0.0, -1
        for j in range(d):
            there = _best(penalty, j, w[j], v[j], q[j])
            step = there - w[j]
            if step != 0.0:
                gain = step * (v[j] - 0.5 * q[j] * step) + penalty.cost(w[j], j) - penalty.cost(there, j)
                gain = max(gain, 0.5 * q[j] * step * step)  # no less, but near the optimum rounding takes it
                if gain > most:
                    most, best = gain, j
        if best < 0:
            break
        step = _best(penalty, best, w[best], v[best], q[best]) - w[best]
        w[best] += step
        moved += abs(step)
        column = G[best]
        for j in range(d):
            v[j] -= step * column[j]
    return moved
