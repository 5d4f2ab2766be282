"""The group LASSO and the LASSO of several targets at once: descent over blocks of a growing set of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.balance import balanced
from maxmargin.operators import Columns
from maxmargin.operators.column_copy import ColumnCopy
from maxmargin.parts.penalties import Groups
from maxmargin.problems.groups import GroupProblem
from maxmargin.problems.point import Point
from maxmargin.problems.rounding import conjugate_costs, dual_excess
from maxmargin.protocols import Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

FEWEST = 50  # groups that are added at a time, or as many as are in the support
INNER_SHARE = 0.1  # of the last gap over all groups: to what the gap on the set is lowered
SWEEPS, MOST_SWEEPS = 10, 1000  # between two looks at that gap, and in an iteration
STILL = 1e-14  # relative
NEWTON_STEPS, ROOT = 50, 1e-15  # for the norm of a group; relative
SINGULAR = 1e-14  # relative to the largest curvature of a group


@dataclass(frozen=True)
class GroupDescent(Solver[GroupProblem, "GroupState"]):
    """Descent over blocks of a growing set of groups.

    Problem: ``min sum_i s_i/2 |Y_i - W x_i - b|^2 + sum_g R_g(|W_g|)`` with the norms of groups of features over all
    targets, ``R_g(r) = lam_g r + mu r^2 / 2``, with or without free intercepts; columns in memory, dense or sparse.

    Method: the problem over a set of groups needs only the products of their columns with each other and with the
    residuals. One group after another is set to its best coefficients, which the eigenvectors of its own products and
    an equation for its norm give. Then those groups are added that violate the optimality conditions most.

    Cost: an iteration is the solution over one set, with two passes over the data for each target; 3 to 10 are made as
    a rule. Memory for the set's columns and for the products of all pairs of them.

    Reference: Yuan, Lin, "Model selection and estimation in regression with grouped variables", 2006; Qin, Scheinberg,
    Goldfarb, "Efficient block-coordinate descent algorithms for the group lasso", 2013.
    """

    name: ClassVar[str] = "group_descent"
    needs: ClassVar[Needs] = Needs("groups")

    def obstacle(self, problem: GroupProblem) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem.operator, Columns):
            return "it needs the samples as columns of features, not as rows, and in memory"
        return None

    def start(self, problem: GroupProblem, warm: Point | None) -> GroupState:
        """Zero, or the coefficients of a point."""
        shape = problem.n_targets, problem.operator.n_features
        W = np.zeros(shape) if warm is None else problem.split(warm.w)[0].copy()
        state = GroupState(W=W, Z=np.zeros_like(problem.Y), A=np.empty_like(problem.Y), V=np.empty(shape))
        state.b = np.zeros(problem.n_targets)
        if W.any():
            state.Z = np.array([problem.operator.apply(row) for row in W])
        _look(problem, state)
        return state

    def advance(self, problem: GroupProblem, state: GroupState, limit: int) -> GroupState:
        """Add what violates the conditions, solve the problem on the set, and look at all groups."""
        before = state.primal
        state.extend(problem)
        if state.copy is not None:
            stop = INNER_SHARE * state.gap * (0.01 if state.idle or state.doubted else 1.0)
            state.doubted = False
            _solve_on_set(problem, state, state.copy, stop)
        _look(problem, state)
        state.iterations += 1
        state.idle = 0 if before - state.primal > STILL * abs(before) or state.violators.size else state.idle + 1
        return state

    def point(self, problem: GroupProblem, state: GroupState) -> Point:
        """The coefficients and intercepts, with the residuals as dual variables."""
        w = np.append(state.W.ravel(), state.b) if problem.free_intercept else state.W.ravel().copy()
        return Point(w, 0.0, state.A.ravel().copy())


@dataclass(kw_only=True)
class GroupState(State):
    """A row for each target: coefficients, scores without intercepts, dual variables, their products with columns."""

    W: Float
    Z: Float
    A: Float
    V: Float
    b: Float = field(default_factory=lambda: np.empty(0))
    gap: float = math.inf
    violators: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    members: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # groups of the set
    copy: ColumnCopy | None = None
    G: Float = field(default_factory=lambda: np.empty((0, 0)))
    order: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # of the columns, by groups
    starts: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # of the groups in that order
    # Eigenvalues and vectors of the products of each group's columns, one group after another; where vectors begin.
    values: Float = field(default_factory=lambda: np.empty(0))
    bases: Float = field(default_factory=lambda: np.empty(0))
    places: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    idle: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the last rounds changed nothing."""
        return self.idle > 2

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the groups of the set."""
        return {"passes": self.passes, "set": float(self.members.size)}

    def extend(self, problem: GroupProblem) -> None:
        """Add the groups that violate the conditions, or have a coefficient. Sets: what is known of the set."""
        used = np.unique(problem.groups[self.W.any(axis=0)])
        members = np.union1d(np.union1d(self.members, used), self.violators)
        if members.size == self.members.size:
            return
        assert isinstance(problem.operator, Columns)
        self.members = members
        self.copy = copy = ColumnCopy(problem.operator, np.flatnonzero(np.isin(problem.groups, members)), 0.0)
        self.G = copy.gram(problem.s, problem.free_intercept)[0]
        own = problem.groups[copy.W]
        self.order = np.argsort(own, kind="stable")
        self.starts = np.append(np.searchsorted(own[self.order], members), copy.W.size)
        sizes = np.diff(self.starts)
        self.places = np.append(0, np.cumsum(sizes * sizes))
        self.values, self.bases = self.G.diagonal()[self.order], np.ones(self.places[-1])
        for k in np.flatnonzero(sizes > 1):
            part = slice(self.starts[k], self.starts[k + 1])
            some = self.order[part]
            values, vectors = np.linalg.eigh(self.G[np.ix_(some, some)])
            self.values[part] = np.maximum(values, 0.0)
            self.bases[self.places[k] : self.places[k + 1]] = vectors.T.ravel()


def _solve_on_set(problem: GroupProblem, state: GroupState, copy: ColumnCopy, stop: float) -> None:
    """Sets: the coefficients of the set and their scores."""
    old, penalty = np.ascontiguousarray(state.W[:, copy.W].T), problem.penalty
    W, V = old.copy(), np.ascontiguousarray(state.V[:, copy.W].T)
    C = V + state.G @ old
    squares = float((state.A * state.A / np.where(problem.s > 0.0, problem.s, 1.0)).sum())
    yy = squares + float(((C + V) * old).sum())
    for _ in range(MOST_SWEEPS // SWEEPS):
        _sweep(
            penalty, state.members, state.order, state.starts, state.places, state.bases, state.values, state.G, W, V,
            SWEEPS,
        )  # fmt: skip
        norms, slopes = (_norms(M, state.order, state.starts) for M in (W, V))
        t = 1.0 / max(1.0, _excess(penalty, slopes, state.members))
        vw, rr = float((V * W).sum()), max(yy - float(((C + V) * W).sum()), 0.0)
        cost, conjugate = _values(penalty, norms, t * slopes, state.members)
        if 0.5 * rr * (1.0 - t) ** 2 + cost - t * vw + conjugate <= stop:
            break
    step = W - old
    state.W[:, copy.W] = W.T
    for k in range(problem.n_targets):
        state.Z[k] += copy.apply(np.ascontiguousarray(step[:, k]))


def _look(problem: GroupProblem, state: GroupState) -> None:
    """Look at all groups. Sets: the residuals, the values, the violators and the passes of the state."""
    residuals = problem.Y - state.Z
    total = float(problem.s.sum())
    if problem.free_intercept and total > 0.0:
        state.b = residuals @ problem.s / total
    state.A = problem.s * (residuals - state.b[:, None])
    if problem.free_intercept:
        state.A = np.array([balanced(row) for row in state.A])
    state.V = np.array([problem.operator.adjoint(row) for row in state.A])
    norms, slopes, penalty = problem.norms(state.W), problem.norms(state.V), problem.penalty
    losses = 0.5 * float((problem.s * (residuals - state.b[:, None]) ** 2).sum())
    t = 1.0 / max(1.0, dual_excess(penalty, slopes))
    product = float((state.V * state.W).sum())
    inside = np.minimum(t * slopes, penalty.prices) if penalty.mu == 0.0 else t * slopes
    gap = losses * (1.0 - t) ** 2 + problem.cost(norms) - t * product + float(conjugate_costs(penalty, inside))
    state.primal, state.gap = losses + problem.cost(norms), max(gap, 0.0)
    state.dual = state.primal - state.gap
    excesses = np.where(norms == 0.0, slopes - penalty.prices, 0.0)
    violators = np.flatnonzero(excesses > 0.0)
    count = max(FEWEST, int(np.count_nonzero(norms)))
    if violators.size > count:
        violators = violators[np.argpartition(-excesses[violators], count)[:count]]
    state.violators = violators
    state.passes += 2.0 * problem.n_targets


@compiled
def _sweep(
    penalty: Groups, members: Index, order: Index, starts: Index, places: Index, bases: Float, values: Float, G: Float,
    W: Float, V: Float, count: int,
) -> None:  # fmt: skip
    """Set one group after another to its best coefficients. Sets: ``W`` and the slopes ``V``, a row for each column."""
    T, steps, best = W.shape[1], np.empty(W.shape), np.empty(W.shape)
    for _ in range(count):
        for k in range(members.shape[0]):
            price = penalty.prices[members[k]]
            own, basis = order[starts[k] : starts[k + 1]], bases[places[k] : places[k + 1]]
            _best_of_group(own, G, basis, values[starts[k] : starts[k + 1]], price, penalty.mu, W, V, best)
            moved = False
            for e in range(starts[k], starts[k + 1]):
                a = order[e]
                for t in range(T):
                    steps[e, t] = best[e - starts[k], t] - W[a, t]
                    moved = moved or steps[e, t] != 0.0
                    W[a, t] = best[e - starts[k], t]
            if moved:
                for e in range(starts[k], starts[k + 1]):
                    row = G[order[e]]
                    for j in range(row.shape[0]):
                        for t in range(T):
                            V[j, t] -= row[j] * steps[e, t]


@compiled
def _best_of_group(
    own: Index, G: Float, basis: Float, values: Float, lam: float, mu: float, W: Float, V: Float, best: Float
) -> None:
    """The coefficients of a group that are best if all others stay. Sets: the first rows of ``best``.

    With ``c`` the slopes at zero they solve ``(G + mu + lam / r) W = c`` for ``r = |W|``, or are zero if
    ``|c| <= lam``. In the basis of eigenvectors that is an equation for ``r``: ``|c / ((values + mu) r + lam)| = 1``.
    """
    size, T = own.shape[0], W.shape[1]
    c, squares, total = np.empty((size, T)), np.zeros(size), 0.0
    for i in range(size):
        for t in range(T):
            slope = V[own[i], t]
            for j in range(size):
                slope += G[own[i], own[j]] * W[own[j], t]
            best[i, t] = slope
    for i in range(size):
        vector = basis[i * size : (i + 1) * size]
        for t in range(T):
            product = 0.0
            for j in range(size):
                product += vector[j] * best[j, t]
            c[i, t] = product
            squares[i] += product * product
        total += squares[i]
    best[:size] = 0.0
    if total <= lam * lam:
        return
    r, least = _norm_of_best(squares, values, lam, mu), SINGULAR * (values[size - 1] + mu)
    for i in range(size):
        curvature, factor = values[i] + mu, 0.0
        if lam > 0.0:
            factor = r / (curvature * r + lam)
        elif curvature > least:
            factor = 1.0 / curvature
        vector = basis[i * size : (i + 1) * size]
        for t in range(T):
            for j in range(size):
                best[j, t] += factor * c[i, t] * vector[j]


@compiled
def _norm_of_best(squares: Float, values: Float, lam: float, mu: float) -> float:
    """The root of the equation of `_best_of_group`, by Newton's method on ``1 / |c / (..)|``, which is nearly a line.

    That function is concave, so all steps from zero lead to the right, and none beyond the root.
    """
    r, least = 0.0, SINGULAR * (values[values.shape[0] - 1] + mu)
    for _ in range(NEWTON_STEPS if lam > 0.0 else 0):
        square, slope = 0.0, 0.0
        for i in range(squares.shape[0]):
            curvature = max(values[i] + mu, least)
            inverse = 1.0 / (curvature * r + lam)
            square += squares[i] * inverse * inverse
            slope += squares[i] * curvature * inverse * inverse * inverse
        if slope <= 0.0:
            break
        step = (math.sqrt(square) - 1.0) * square / slope
        if not step > ROOT * r:
            break
        r += step
    return r


@compiled
def _norms(M: Float, order: Index, starts: Index) -> Float:
    """Norms of the rows of each group together."""
    out = np.zeros(starts.shape[0] - 1)
    for k in range(out.shape[0]):
        square = 0.0
        for e in range(starts[k], starts[k + 1]):
            for t in range(M.shape[1]):
                square += M[order[e], t] * M[order[e], t]
        out[k] = math.sqrt(square)
    return out


@compiled
def _excess(penalty: Groups, norms: Float, members: Index) -> float:
    """As `dual_excess`, of some groups."""
    largest = 0.0
    for k in range(members.shape[0]):
        end = penalty.dual_limits(members[k])[1]
        if norms[k] > 0.0:
            largest = max(largest, norms[k] / end if end > 0.0 else math.inf)
    return largest


@compiled
def _values(penalty: Groups, norms: Float, slopes: Float, members: Index) -> tuple[float, float]:
    """The penalty of some groups, and its conjugate."""
    cost, conjugate = 0.0, 0.0
    for k in range(members.shape[0]):
        j = members[k]
        cost += penalty.cost(norms[k], j)
        conjugate += penalty.conjugate_cost(min(slopes[k], penalty.dual_limits(j)[1]), j)
    return cost, conjugate
