"""L1, elastic nets and bounds with smooth losses: Newton's method with a proximal step on a set of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.numerics.balance import balanced
from maxmargin.operators import Columns
from maxmargin.operators.column_copy import ColumnCopy
from maxmargin.operators.vectors import SparseVectors
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Index
from maxmargin.solvers.columns.proximal_newton.loops import (
    along,
    conjugate_of_penalty,
    curvatures,
    judged,
    respond,
    respond_balanced,
    slopes_of,
)
from maxmargin.solvers.columns.proximal_newton.state import ProximalState, Terms
from maxmargin.solvers.columns.set_loops import worst_of
from maxmargin.solvers.solver import Needs, Solver

FEWEST = 100  # columns that are added at a time, or as many as are in the support
INNER_SHARE = 0.1  # of the last gap over all columns: to what that of the model is lowered
TIGHTER = 1e-3  # after an iteration without progress
LARGE = 400  # columns: then sweeps over sparse ones take less time than the matrix of their products
NEAR, NOT_FAR = 2e-2, 0.05  # relative gaps: then this matrix pays, and if it falls slowly
SLOW = 0.8
TOO_LARGE = 6000  # columns: then it never does, and takes half a gigabyte
HALVINGS = 40
DESCENT = 1e-4  # of what the model promises
ROUNDING = 1e-13
STILL = 1e-12  # relative: a value that falls by less stands still


@dataclass(frozen=True)
class ProximalNewton(Solver[Problem, ProximalState]):
    """Newton's method with a proximal step on a set of columns.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam |w|_1 + mu/2 |w|^2``, perhaps with ``low <= w <= high``, for
    losses without kinks and any intercept; columns in memory, dense or sparse.

    Method: in each iteration the losses are replaced by parabolas, and the support with the columns that violate the
    optimality conditions most is solved for these: by coordinate descent and Newton's method on the matrix of their
    products, or, as long as many sparse columns are far from their optimum, by coordinate descent on the residuals.
    Then the value falls along the line to that point. The parabolas have the curvature of the losses, unless they
    promised too much: then they have that between a score and its reflection, which bounds the logistic loss from above
    everywhere, and come back from there in steps. A free intercept is eliminated: columns are centred, with the
    curvatures for weights, and it takes its best value after each step.

    Cost: an iteration reads the set's columns and their pairs in each row, and all columns whose products bounds from
    earlier ones do not settle; 6 to 30 are made as a rule.

    Reference: Lee, Sun, Saunders, "Proximal Newton-type methods for minimizing composite functions", 2014; Yuan, Ho,
    Lin, "An improved GLMNET for l1-regularized logistic regression", JMLR 13, 2012; Jaakkola, Jordan, "Bayesian
    parameter estimation via variational methods", 2000, for the wider parabola.
    """

    name: ClassVar[str] = "proximal_newton"
    needs: ClassVar[Needs] = Needs("columns")

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if problem.loss.traits.kinked:
            return f"it needs a loss without kinks; this problem has {type(problem.loss).__name__}"
        if Terms.of(problem) is None:
            return f"it needs a penalty with an L1 part, or bounds; this problem has {type(problem.penalty).__name__}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> ProximalState:
        """One step from zero, if that is not the optimum, or the coefficients of a point."""
        operator, terms = problem.operator, Terms.of(problem)
        assert isinstance(operator, Columns)
        assert terms is not None
        n, w, b, z = operator.n_samples, np.zeros(terms.low.size), 0.0, np.zeros(operator.n_samples)
        if warm is not None:
            w[: operator.n_features], b = warm.w, warm.b
            w = np.clip(w, terms.low, terms.high)
            if problem.penalised_column:
                w[-1], b = b / problem.penalised_column, 0.0
            z = operator.apply(w[: operator.n_features])
            z += problem.penalised_column * w[-1] if problem.penalised_column else 0.0
        state = ProximalState(terms=terms, w=w, b=b, z=z, alpha=np.empty(n), h=np.empty(n), v=np.empty(w.size))
        self._look(problem, state)
        # Where the L1 norm is just weak enough for a coefficient, zero is within most tolerances, yet not the answer.
        return state if warm is not None or not state.violators.size else self.advance(problem, state, 1)

    def advance(self, problem: Problem, state: ProximalState, limit: int) -> ProximalState:
        """Minimise a model on the set, go there as far as the value falls, and look at all columns."""
        before, gap = state.primal, state.gap
        W = np.union1d(np.flatnonzero(state.w), state.violators)
        if W.size:
            self._move(problem, state, W)
        self._look(problem, state)
        slow = SLOW * gap < state.gap <= NOT_FAR * abs(state.primal) and state.share == 0.0
        state.precise = slow or state.precise or state.gap <= NEAR * abs(state.primal)
        state.iterations += 1
        state.idle = 0 if before - state.primal > STILL * abs(before) else state.idle + 1
        return state

    def point(self, problem: Problem, state: ProximalState) -> Point:
        """The coefficients, with the dual variables that answer to them."""
        d = state.w.size
        if height := problem.penalised_column:
            return Point(state.w[: d - 1].copy(), height * float(state.w[-1]), state.alpha.copy())
        return Point(state.w.copy(), state.b, state.alpha.copy())

    def _move(self, problem: Problem, state: ProximalState, W: Index) -> None:
        """Go towards the minimiser of the model. Sets: ``w, z, b, copy, share``."""
        operator, terms, copy, centred = problem.operator, state.terms, state.copy, problem.free_intercept
        assert isinstance(operator, Columns)
        if copy is None or not np.array_equal(np.sort(copy.W), W):
            copy = state.copy = ColumnCopy(operator, W, problem.penalised_column)
        if state.share > 0.0:
            curvatures(
                problem.loss, problem.loss.traits.classes, state.z, state.b, problem.y, problem.s, state.alpha,
                state.share, state.h,
            )  # fmt: skip
        rough = isinstance(copy.vectors, SparseVectors) and W.size > LARGE and not state.precise
        if rough or W.size > TOO_LARGE:
            target, means = state.model_by_residuals(copy, centred)
        else:
            far = min(state.gap, abs(state.primal))  # where dual variables are far from feasible the gap says nothing
            target, means = state.model_by_matrix(copy, centred, INNER_SHARE * TIGHTER**state.idle * far)
        w, v = state.w[copy.W], state.v[copy.W]
        dw = target - w
        change_of_b = -float(means @ dw) if centred else 0.0
        dz = copy.apply(dw)
        promised = terms.lam * float(np.abs(target).sum() - np.abs(w).sum()) - float(v @ dw)
        promised += 0.5 * terms.mu * float(target @ target - w @ w)
        t, noise = 1.0, ROUNDING * abs(state.primal)
        for _ in range(HALVINGS):
            change = along(
                problem.loss, state.z + state.b, dz + change_of_b, t, problem.y, problem.s, w, dw, terms.lam, terms.mu
            )
            if change <= DESCENT * t * promised + noise:
                break
            t *= 0.5
        else:
            t = 0.0
        state.w[copy.W] = target if t == 1.0 else w + t * dw
        state.z += t * dz
        state.b += t * change_of_b
        state.adapt(t)

    def _look(self, problem: Problem, state: ProximalState) -> None:
        """Look at all columns. Sets: what answers to the scores, the values, the violators and the passes."""
        operator, terms = problem.operator, state.terms
        assert isinstance(operator, Columns)
        arguments = problem.y, problem.s, state.alpha, state.h
        if problem.free_intercept:
            state.losses, state.b, found = respond_balanced(problem.loss, state.z, state.b, *arguments)
            if not found:
                state.b = problem.best_intercept(state.z)
                state.losses = respond(problem.loss, state.z, state.b, *arguments)[0]
            alpha = state.alpha = balanced(state.alpha)
        else:
            state.losses = respond(problem.loss, state.z, 0.0, *arguments)[0]
            alpha = state.alpha
        beyond, lengths = operator.beyond(alpha, terms.lam), operator.column_lengths()
        v, certain = beyond.v.copy(), beyond.certain
        slopes_of(operator.vectors, np.flatnonzero(certain & (state.w[: v.size] != 0.0)), alpha, v)
        if height := problem.penalised_column:
            v, certain = np.append(v, height * alpha.sum()), np.append(certain, False)
            lengths = np.append(lengths, height * np.sqrt(alpha.size))
        violators, excesses = np.empty(v.size, dtype=np.int64), np.empty(v.size)
        count, cost, excess = judged(
            v, certain, state.w, terms.lam, terms.mu, terms.low, terms.high, lengths, violators, excesses
        )
        state.v = v
        t = 1.0 / excess
        conjugate = conjugate_of_penalty(v, certain, t, terms.lam, terms.mu, terms.low, terms.high)
        state.primal = state.losses + cost
        state.dual = -problem.conjugates(t * alpha) - conjugate
        state.gap = state.primal - state.dual
        state.violators = worst_of(violators[:count], excesses[:count], max(FEWEST, state.support))
        state.passes = operator.read
