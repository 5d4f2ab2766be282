"""LASSO, elastic net and their relatives within bounds: exact solutions on a growing set of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.numerics.balance import balanced
from maxmargin.operators import Columns
from maxmargin.operators.column_gram import TALL, gram_of
from maxmargin.operators.column_set import ColumnSet
from maxmargin.operators.vectors import SparseVectors
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index
from maxmargin.solvers.columns.set_loops import SUPPORT, judged, nearly, residuals, worst_of
from maxmargin.solvers.columns.working_set.residual_state import ResidualState
from maxmargin.solvers.columns.working_set.state import SetState, Terms
from maxmargin.solvers.solver import Needs, Solver

FIRST = 50  # columns that tell whether those of the set will be short
FEW_COLUMNS = 100  # of many samples: all are in the set at once
FIRST_GAP = 1e-6  # of the loss at zero: to what it is lowered first if nothing is known of it
DOUBTED = 0.01  # times less, after a certificate that was not good enough
SHORT = 64  # entries of a column: to go through them takes less time than through the products with all others
SLOW = 0.9  # of the last gap: rounds that lower it less count as idle
NONE = np.empty(0, dtype=np.int64)
NEARLY = 0.97  # of the strength of the penalty: columns whose slope is beyond may be needed for the next one


@dataclass(frozen=True)
class WorkingSet(Solver[Problem, SetState]):
    """Exact solutions on a growing set of columns.

    Problem: ``min 1/2 sum_i h_i (x_i.w + b - y_i)^2 + lam |w|_1 + mu/2 |w|^2``, perhaps with ``low <= w <= high``;
    ``b`` is free or zero; columns in memory, dense or sparse, that are never centred or scaled themselves.

    Method: the problem over a set of columns is solved by sweeps of coordinate descent and by Newton's method on the
    support, whose factor stays as long as the support does. Then those columns are added that violate the optimality
    conditions most. Which they are is known without the products of most columns with the residual: bounds from
    earlier products are enough.

    Cost: an iteration is the solution of the problem over one set; 3 to 10 are made as a rule, with 2 to 8 passes over
    the data in the whole fit. Memory for the set's columns and for the products of all pairs of them.

    Reference: Massias, Gramfort, Salmon, "Celer: a fast solver for the lasso with dual extrapolation", ICML 2018, for
    the working set; Ndiaye, Fercoq, Gramfort, Salmon, "Gap safe screening rules for sparsity enforcing penalties",
    JMLR 18, 2017, for bounds; Hale, Yin, Zhang, "Fixed-point continuation", 2008, for Newton's method on the support.
    """

    name: ClassVar[str] = "working_set"
    needs: ClassVar[Needs] = Needs("columns", squared=True)

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if problem.penalised_column:
            return "its intercept is free or zero, not penalised"
        if Terms.of(problem) is None:
            return f"it needs a penalty with an L1 part; this problem has {type(problem.penalty).__name__}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> SetState:
        """Zero, or the coefficients of a point."""
        operator, terms = problem.operator, Terms.of(problem)
        assert isinstance(operator, Columns)
        assert terms is not None
        alpha, b, loss = self._residuals(problem, terms, NONE, np.empty(0))
        c = operator.first_products(alpha)
        free, h = problem.free_intercept, terms.h
        if are_short(operator, c, terms.lam):
            some = ColumnSet(operator, h, free)
            state: SetState = ResidualState(terms=terms, gram=some, c=c, alpha=alpha, b=b, loss=loss, y=problem.y)
        else:
            state = SetState(terms=terms, gram=gram_of(operator, h, free), c=c, alpha=alpha, b=b, loss=loss)
        state.yy = 2.0 * loss
        gram = state.gram
        if warm is not None and warm.w.any():
            state.add(np.flatnonzero(warm.w))
            state.put(warm.w[gram.W[: gram.size]])
        elif gram.size:
            state.put(np.zeros(gram.size))
        self._look(problem, state)
        return state

    def follow(self, problem: Problem, state: SetState) -> SetState:
        """The state for another penalty, a little weaker perhaps, on the same samples, weights and targets.

        Columns that will probably be needed for it are added at once. Sets: the state.
        """
        operator, terms, earlier = problem.operator, Terms.of(problem, state.terms), state.terms.lam
        assert isinstance(operator, Columns)
        assert terms is not None
        if terms.mu != state.terms.mu:
            state.memory[SUPPORT] = 0  # the factor has the other one on its diagonal
        state.terms, state.iterations, state.idle, state.doubted = terms, 0, 0, False
        estimate = operator.beyond(state.alpha, earlier).estimate
        near, excesses = np.empty(estimate.size, dtype=np.int64), np.empty(estimate.size)
        count = nearly(
            estimate,
            NEARLY * terms.lam,
            state.gram.place,
            terms.low,
            terms.high,
            operator.column_lengths(),
            near,
            excesses,
        )
        near = worst_of(near[:count], excesses[:count], max(state.fewest, 2 * state.support))
        if near.size:
            state.add(near)
        state.violators, state.gap = near[:0], np.inf
        state.primal, state.dual = np.inf, -np.inf
        return state

    def advance(self, problem: Problem, state: SetState, limit: int) -> SetState:
        """Add what violates the conditions, solve the problem on the set, and look at all columns."""
        if state.violators.size:
            state.add(state.violators)
            state.violators = state.violators[:0]
        if state.gram.size:
            share = DOUBTED if state.doubted else 1.0
            state.doubted = False
            known = state.gap if state.gap < np.inf else FIRST_GAP * state.yy
            state.solve(share * state.inner_share * known)
        before = state.gap
        self._look(problem, state)
        state.iterations += 1
        state.idle = state.idle + 1 if not state.violators.size and state.gap >= SLOW * before else 0
        return state

    def point(self, problem: Problem, state: SetState) -> Point:
        """The coefficients of the set, with the residuals as dual variables."""
        w = np.zeros(state.c.size)
        w[state.gram.W[: state.w.size]] = state.w
        return Point(w, state.b, state.alpha)

    def _residuals(self, problem: Problem, terms: Terms, W: Index, w: Float) -> tuple[Float, float, float]:
        operator = problem.operator
        assert isinstance(operator, Columns)
        centred = problem.free_intercept
        alpha, b, loss = residuals(operator.vectors, W[: w.size], w, problem.y, terms.h, centred)
        return (balanced(alpha) if centred else alpha), b, loss

    def _look(self, problem: Problem, state: SetState) -> None:
        """Look at all columns. Sets: the residuals, the values, the violators and the passes of the state."""
        operator, terms = problem.operator, state.terms
        assert isinstance(operator, Columns)
        if state.w.size:
            state.alpha, state.b, state.loss = self._residuals(problem, terms, state.gram.W, state.w)
        v, certain, _ = operator.beyond(state.alpha, terms.lam)
        violators, excesses = np.empty(v.size, dtype=np.int64), np.empty(v.size)
        count, state.primal, state.gap = judged(
            state.w, state.slopes, v, certain, state.gram.place, state.loss, terms.lam, terms.mu, terms.low, terms.high,
            violators, excesses, operator.column_lengths(),
        )  # fmt: skip
        state.dual = state.primal - state.gap
        state.violators = worst_of(violators[:count], excesses[:count], max(state.fewest, state.support))
        few = state.gram.size < operator.n_features <= FEW_COLUMNS
        if count and few and operator.n_samples >= TALL:  # to read them once is enough
            state.violators = np.arange(operator.n_features)
        state.passes = operator.read


def are_short(operator: Columns, c: Float, lam: float) -> bool:
    """Whether those columns that are needed first are sparse and short."""
    if not isinstance(operator.vectors, SparseVectors):
        return False
    first = worst_of(np.flatnonzero(np.abs(c) > lam), np.abs(c)[np.abs(c) > lam], FIRST)
    indptr = operator.vectors.indptr.view(np.int64)
    return bool(first.size) and float((indptr[first + 1] - indptr[first]).mean()) <= SHORT
