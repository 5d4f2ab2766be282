"""What the methods that ascend on the dual over rows share: where they begin, the intercept, and their points."""

import math
from dataclasses import replace

import numpy as np
import pytest

from clients import case_of
from maxmargin import Point, minimize
from maxmargin.solvers import Blocks, CoCoA, DualCoordinate, Pivoting
from maxmargin.solvers.rows.dual_problem import AscentState, DualState

SOLVERS = [DualCoordinate(), Blocks(), CoCoA(), Pivoting()]
every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
every_intercept = pytest.mark.parametrize("intercept", ["free", "penalised", None])


@every_solver
@every_intercept
def test_whoever_asks_for_a_point_changes_nothing(solver, intercept):
    problem = case_of(("hinge", 1.0), intercept, n=200).build()

    def after_some_rounds(asked):
        state = solver.start(problem, None)
        for _ in range(10):
            state = solver.advance(problem, state, 3)
            if asked:
                solver.point(problem, state)
        return solver.point(problem, state)

    quiet, asked = after_some_rounds(False), after_some_rounds(True)
    assert quiet.b == asked.b
    np.testing.assert_array_equal(quiet.w, asked.w)
    np.testing.assert_array_equal(quiet.alpha, asked.alpha)


@every_solver
@every_intercept
def test_a_point_is_kept_where_a_solver_begins(solver, intercept):
    problem = case_of(("squared hinge", 1.0), intercept, n=200).build()
    optimum = minimize(problem, DualCoordinate(), tol=1e-10)
    point = solver.point(problem, solver.start(problem, optimum.point))
    assert problem.certify(point).relative_gap <= 1e-9
    without = solver.point(problem, solver.start(problem, replace(optimum.point, alpha=None)))
    assert not without.w.any()  # coefficients alone are no dual variables, and these determine all coefficients
    assert not without.alpha.any()


@pytest.mark.parametrize(("intercept", "ridge"), [("free", 0.0), ("penalised", 0.5), (None, math.inf)])
def test_the_intercept_by_what_it_costs(intercept, ridge):
    problem = replace(case_of(("hinge", 1.0), intercept).build(), intercept_scale=2.0)
    lam, rng = problem.lam, np.random.default_rng(0)
    alpha = problem.feasible(rng.normal(size=problem.y.size))
    state = DualState(problem, Point(np.zeros(problem.operator.n_features), 3.0, alpha))
    assert state.ridge == pytest.approx(ridge * lam / 2.0)
    assert state.b == (0.0 if intercept is None else 3.0)
    w = problem.operator.adjoint(alpha) / lam
    np.testing.assert_allclose(state.w, w)
    cost = 0.5 * lam * float(w @ w) + (0.5 * (lam / 4.0) * 9.0 if intercept == "penalised" else 0.0)
    assert state.penalty() == pytest.approx(cost)


@every_intercept
def test_the_lagrangian_of_feasible_variables_is_the_dual_value(intercept):
    problem = case_of(("logistic", 1.0), intercept).build()
    alpha = problem.feasible(np.random.default_rng(0).normal(size=problem.y.size))
    state = AscentState(problem, Point(np.zeros(problem.operator.n_features), 3.0, alpha), 0)
    assert state.lagrangian() == pytest.approx(problem.certify(state.point(alpha)).dual)
