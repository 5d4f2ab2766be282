"""Proximal points of the dual by block pivoting: for fewer samples that react than features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError

from maxmargin._jit import compiled, compiled_methods
from maxmargin.numerics.bisection import middle_minimiser
from maxmargin.numerics.cholesky import factorise, solved
from maxmargin.operators import Rows
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Loss
from maxmargin.solvers.rows.dual_problem import DualState
from maxmargin.solvers.solver import Needs, Solver
from maxmargin.threads import go_on

MOST_REACTING = 10_000  # rows, for a matrix of their inner products: 0.8 GB, and a factor of the same size
BLOCK = 500  # rows of the matrix of inner products that are computed or copied at once
FIRST_RHO = 1e-3  # the first rho is this share of the mean curvature of the dual along one variable, or more
FIRST_WIDTH = 2.0  # at first, a score has to change at least that much to take a dual variable across its range
SHORTER = 5.0  # rho is multiplied by this after a stage in vain
LONGER = 0.1  # and by this after one that settled; every stage in vain replaces the factor by its square root
MOST_PIVOTS = 20  # after so many, a stage is in vain
TOLERATED = 1.5  # times the fewest unsettled rows so far: more, and the stage is in vain
AGREEMENT = 0.01  # of the rows that react may be unsettled at the end of a stage that has raised the dual
MOST_FAILURES = 8  # stages in vain, one after the other, after which the solver gives up
NOTHING = 1e-9  # share of the largest dual variable: one that changes by less has settled


@dataclass(frozen=True)
class Pivoting(Solver[Problem, "PivotingState"]):
    """Block pivoting inside a proximal method on the dual.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|^2 / 2``, any loss, any intercept, any number of features.
    It pays where the dual is badly conditioned along many samples at once (else see ``blocks``), some thousand of them.

    Method: a stage looks for the maximiser of the dual minus ``rho |alpha - centre|^2 / 2``. In it
    ``alpha_i = loss.dual_step(centre_i, y_i, s_i, z_i, rho)`` answers to the score ``z_i``: rows inside of their range
    react, the others rest at a bound. A pivot solves for all that react together, a linear system with
    ``Q + diag(rho + loss.dual_curvature)``; then some rows turn out to rest and others to react. These steps of a
    semismooth Newton method are taken in full, as in block principal pivoting: values get worse on the way, but after a
    few pivots the rows settle. Then the centre moves, and ``rho`` falls. If they do not settle, ``rho`` grows.

    Cost: a pivot is three passes over the data and ``m^3 / 3`` multiplications for ``m`` rows that react; memory
    ``O(m^2)``. It gives up if more than 10 000 react: begin near the solution, as ``solver="auto"`` does.

    Reference: Portugal, Júdice, Vicente, "A comparison of block pivoting and interior-point algorithms for linear least
    squares problems with nonnegative variables", 1994; Rockafellar, "Augmented Lagrangians and applications of the
    proximal point algorithm", 1976.
    """

    name: ClassVar[str] = "pivoting"
    needs: ClassVar[Needs] = Needs("rows", l2=True)

    def start(self, problem: Problem, warm: Point | None) -> PivotingState:
        """Around zero, or the dual variables of a point."""
        return PivotingState(problem, warm)

    def advance(self, problem: Problem, state: PivotingState, limit: int) -> PivotingState:
        """One pivot; before it, a new stage if the last one is over."""
        if state.settled:
            state.centre, state.height, state.failures = problem.feasible(state.alpha), state.dual, 0
            state.rho *= state.fall
            state.begin_stage()
        elif state.in_vain:
            state.failures += 1
            state.rho *= SHORTER
            state.fall = math.sqrt(state.fall)
            state.begin_stage()
        if state.reacting <= MOST_REACTING:
            self._pivot(problem, state)
        state.iterations += 1
        return state

    def point(self, problem: Problem, state: PivotingState) -> Point:
        """The coefficients of the last pivot, their best intercept if it is free, and the variables that answer."""
        return state.point(state.alpha)

    def _pivot(self, problem: Problem, state: PivotingState) -> None:
        """Solve for the rows that react, and see which ones do then. Sets: all but ``centre, rho``."""
        reacting = np.flatnonzero(state.h)
        state.pivots += 1
        L = state.products.among(reacting)
        for part in (L[rows] for rows in _stretches(reacting.size)):
            part /= problem.lam
            part += state.intercept_curvature
        L[np.diag_indices_from(L)] += 1.0 / state.h[reacting]
        try:
            factorise(L, state.rows.workers)
        except LinAlgError:
            state.pivots = MOST_PIVOTS
            return
        alpha = state.alpha.copy()
        rest = _resting_scores(problem.loss, alpha, state.centre, problem.y, problem.s, state.rho, reacting)
        change = solved(L, rest - state.scores(alpha)[1][reacting])
        go_on()
        if state.free and reacting.size:  # the intercept is the multiplier of a sum of zero
            per_unit = solved(L, np.ones(reacting.size))
            change -= (change.sum() + alpha.sum()) / per_unit.sum() * per_unit
        alpha[reacting] += change
        state.w, z = state.scores(alpha)
        if state.free:  # and balances what answers, too
            answers = _Balance(problem.loss, state.centre, problem.y, problem.s, z, state.rho)
            state.b = middle_minimiser(answers, float(np.abs(z).max() + np.abs(problem.y).max()))
            z += state.b
        else:
            state.b = state.intercept_curvature * float(alpha.sum())
        state.alpha = _answers(problem.loss, state.centre, problem.y, problem.s, z, state.rho)
        state.h = _reactions(problem.loss, state.alpha, problem.y, problem.s, state.rho)
        differ = np.abs(state.alpha - alpha) > NOTHING * np.abs(state.alpha).max(initial=0.0)
        state.unsettled = int(np.count_nonzero(differ))
        state.fewest = min(state.fewest, state.unsettled)
        state.passes += 5.0
        self._estimate(problem, state, z)
        nearly = state.unsettled <= AGREEMENT * reacting.size and state.dual > state.height
        state.settled = nearly or state.unsettled == 0

    def _estimate(self, problem: Problem, state: PivotingState, z: Float) -> None:
        """Sets: ``primal, dual``."""
        alpha = problem.feasible(state.alpha)
        v, total = state.rows.adjoint(alpha), float(alpha.sum())
        state.primal = problem.losses(z) + state.penalty()
        conjugate = 0.5 * (float(v @ v) / problem.lam + state.intercept_curvature * total**2)
        state.dual = -problem.conjugates(alpha) - conjugate


@dataclass
class PivotingState(DualState):
    """Dual variables that answer to the scores of ``w``, and how strongly."""

    products: InnerProducts = field(init=False)
    centre: Float = field(init=False)
    rho: float = field(init=False)
    h: Float = field(init=False)  # how strongly each dual variable reacts to its score
    height: float = -math.inf  # dual value of the centre
    fall: float = LONGER  # of rho, after a stage
    settled: bool = False  # the rows of this stage
    unsettled: int = 0  # rows after the last pivot
    fewest: int = 0  # unsettled rows in this stage
    pivots: int = 0  # of this stage
    failures: int = 0

    def __post_init__(self, warm: Point | None) -> None:
        super().__post_init__(warm)
        self.products, self.centre = InnerProducts(self.rows), self.alpha
        curvature = float(self.rows.squared_lengths().mean()) / self.problem.lam + self.intercept_curvature
        weight = float(self.problem.s.mean())
        self.rho = max(FIRST_RHO * curvature, FIRST_WIDTH / weight if weight > 0.0 else 1.0)
        self.begin_stage()

    def begin_stage(self) -> None:
        """Around the centre. Sets: ``alpha, h, fewest, unsettled, pivots, settled``."""
        self.alpha, self.pivots, self.settled, self.unsettled = self.centre, 0, False, 0
        self.fewest = self.problem.y.size
        self.h = _reactions(self.problem.loss, self.alpha, self.problem.y, self.problem.s, self.rho)

    def scores(self, alpha: Float) -> tuple[Float, Float]:
        """``w = X^T alpha / lam`` and its scores, with a penalised intercept."""
        w = self.rows.adjoint(alpha) / self.problem.lam
        return w, self.rows.apply(w) + self.intercept_curvature * float(alpha.sum())

    @property
    def reacting(self) -> int:
        """Number of rows that react."""
        return int(np.count_nonzero(self.h))

    @property
    def in_vain(self) -> bool:
        """Whether a stage with a larger ``rho`` should be tried instead."""
        wild = self.pivots > 1 and self.unsettled > TOLERATED * self.fewest
        return wild or self.pivots >= MOST_PIVOTS or self.reacting > MOST_REACTING

    @property
    def exhausted(self) -> bool:
        """Whether several stages were in vain, or too many rows react at the beginning."""
        return self.failures >= MOST_FAILURES or (self.reacting > MOST_REACTING and self.pivots == 0)

    @property
    def keeps_its_point(self) -> bool:
        """It does: a pivot changes the variables at its end, when its linear system is solved."""
        return True

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, rows that react, and how strongly the centre attracts."""
        return {"passes": self.passes, "reacting": float(self.reacting), "rho": self.rho}


@dataclass
class InnerProducts:
    """Inner products of rows with each other, kept for those who ask for nearly the same ones again."""

    rows: Rows
    members: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    matrix: Float = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        self.place = np.full(self.rows.n_samples, -1)  # of every row among the members

    def among(self, some: Index) -> Float:
        """A new matrix of the inner products of some rows."""
        missing = np.count_nonzero(self.place[some] < 0)
        if missing + self.members.size > MOST_REACTING:
            self.place[self.members] = -1
            self.members, self.matrix = self.members[:0], self.matrix[:0, :0]
        self._extend(some[self.place[some] < 0])
        at = self.place[some]
        out = np.empty((at.size, at.size))
        for rows in _stretches(at.size):
            out[rows] = self.matrix[np.ix_(at[rows], at)]
        return out

    def _extend(self, new: Index) -> None:
        """Sets: ``members, matrix, place``."""
        known = self.members.size
        self.members = np.concatenate([self.members, new])
        size = self.members.size
        self.place[new] = np.arange(known, size)
        before, self.matrix = self.matrix, np.empty((size, size))
        for rows in _stretches(known):
            self.matrix[rows, :known] = before[rows]
        X = self.rows.matrix[self.members].astype(np.float64, copy=False)
        for some in _stretches(size, known):
            products = X[some] @ X.T
            self.matrix[some] = products.toarray() if sp.issparse(products) else products
        self.matrix[:known, known:] = self.matrix[known:, :known].T


def _stretches(size: int, start: int = 0) -> Iterator[slice]:
    """``start .. size`` in slices of rows, before each of which the fit may end: a pivot can take half a minute."""
    for first in range(start, size, BLOCK):
        go_on()
        yield slice(first, min(first + BLOCK, size))


@compiled_methods
class _Balance(NamedTuple):
    """What answers to the scores in sum, as the derivative of a convex function of the intercept."""

    loss: Loss
    centre: Float
    y: Float
    s: Float
    z: Float
    rho: float

    def derivative(self, b: float) -> float:
        total, size = 0.0, 0.0
        for i in range(self.z.shape[0]):
            if self.s[i] > 0.0:
                a = self.loss.dual_step(self.centre[i], self.y[i], self.s[i], self.z[i] + b, self.rho)
                total -= a
                size += abs(a)
        return 0.0 if abs(total) <= 1e-13 * size else total


@compiled
def _answers(loss: Loss, centre: Float, y: Float, s: Float, z: Float, rho: float) -> Float:
    """The dual variables that answer to the scores."""
    a = np.zeros(z.shape[0])
    for i in range(z.shape[0]):
        if s[i] > 0.0:
            a[i] = loss.dual_step(centre[i], y[i], s[i], z[i], rho)
    return a


@compiled
def _reactions(loss: Loss, a: Float, y: Float, s: Float, rho: float) -> Float:
    """How strongly the dual variables react to their scores."""
    h = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        if s[i] > 0.0:
            h[i] = 1.0 / (rho + loss.dual_curvature(a[i], y[i], s[i]))
    return h


@compiled
def _resting_scores(loss: Loss, a: Float, centre: Float, y: Float, s: Float, rho: float, some: Index) -> Float:
    """The scores at which some dual variables would stay where they are."""
    out = np.empty(some.shape[0])
    for k in range(some.shape[0]):
        i = some[k]
        out[k] = -loss.dual_slope(a[i], y[i], s[i]) - rho * (a[i] - centre[i])
    return out
