"""Subgradient descent: each rule's steps from its formula, its dual point, and how far it comes."""

import numpy as np
import pytest

import referee
import zoo
from maxmargin import Problem, Status, minimize
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L1, L2
from maxmargin.solvers import Newton, Subgradient
from maxmargin.solvers.rows.subgradient import RULES

INTERCEPTS = ("free", "penalised", None)
LAM = 0.5


def problem_of(X, y, intercept=None, loss=None, lam=LAM):
    return Problem(Rows(X), y, loss or Hinge(), L2(lam), np.ones(y.size), intercept, 2.0)


def value(X, y, w, lam=LAM):
    return np.maximum(0.0, 1.0 - y * (X @ w)).sum() + lam / 2.0 * w @ w


def subgradient(X, y, w, lam=LAM):
    """Inventory 0-05, here with the sum instead of the mean of the losses."""
    return lam * w - X.T @ (y * (y * (X @ w) < 1.0))


@pytest.mark.parametrize("rule", RULES)
def test_steps_are_those_of_the_formula(rule):
    X, y = zoo.blobs(50, 4, seed=60, apart=0.5)
    problem, solver = problem_of(X, y), Subgradient(rule, step=0.01 if rule in ("constant", "inverse_sqrt") else 1.0)
    state = solver.start(problem, None)
    w, A, best_dual, best = np.zeros(4), np.zeros(50), 0.0, value(X, y, np.zeros(4))
    D, G = np.sqrt(2.0 * 50.0 / LAM), np.linalg.norm(subgradient(X, y, w))
    for t in range(1, 60):
        g = subgradient(X, y, w)
        alpha = y * (y * (X @ w) < 1.0)
        eta = {
            "constant": 0.01 * D / G,
            "inverse_sqrt": 0.01 * D / (G * np.sqrt(t)),
            "inverse": 1.0 / (LAM * t),
            "polyak": (value(X, y, w) - best_dual) / (g @ g),
        }[rule]
        eta = min(eta, 1.0 / LAM)
        w, A = w - eta * g, (1.0 - LAM * eta) * A + LAM * eta * alpha
        shrink = min(1.0, D / np.linalg.norm(w))  # inventory 0-06
        w, A = shrink * w, shrink * A
        best_dual = max(best_dual, y @ A - (X.T @ A) @ (X.T @ A) / (2.0 * LAM))
        best = min(best, value(X, y, w))
        state = solver.advance(problem, state, 1)
        np.testing.assert_allclose(state.theta, w, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.A, A, rtol=1e-8, atol=1e-10)
        assert state.estimate == pytest.approx((best, best_dual), rel=1e-9)


def test_the_dual_point_of_the_inverse_rule_is_the_mean_of_all_slopes():
    """If the ball that holds the optimum is never left."""
    X, y = zoo.blobs(50, 4, seed=61, apart=0.5)
    problem, solver = problem_of(X, y, lam=20.0), Subgradient("inverse")
    state, seen = solver.start(problem, None), []
    for _ in range(30):
        seen.append(y * (y * (X @ state.theta) < 1.0))
        state = solver.advance(problem, state, 1)
    np.testing.assert_allclose(state.A, np.mean(seen, axis=0), atol=1e-12)
    np.testing.assert_allclose(state.theta, X.T @ state.A / 20.0, rtol=1e-10)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("rule", RULES)
def test_the_dual_point_belongs_to_the_coefficients_and_is_feasible(rule, intercept):
    X, y = zoo.blobs(60, 3, seed=62, apart=0.4)
    y[:10] = 1.0
    problem, solver = problem_of(X, y, intercept), Subgradient(rule)
    state = solver.start(problem, None)
    Z = np.column_stack([X, np.full(60, 2.0)]) if intercept == "penalised" else X
    for _ in range(20):
        state = solver.advance(problem, state, 3)
        np.testing.assert_allclose(LAM * state.theta, Z.T @ state.A, rtol=1e-9, atol=1e-10)
        assert (y * state.A >= -1e-12).all()
        assert (y * state.A <= 1.0 + 1e-12).all()
        assert intercept != "free" or abs(state.A.sum()) <= 1e-10


def test_the_subgradient_is_the_gradient_away_from_kinks():
    X, y = zoo.blobs(50, 4, seed=63, apart=0.5)
    problem, solver = problem_of(X, y), Subgradient()
    state = solver.advance(problem, solver.start(problem, None), 7)
    h = 1e-7
    assert np.abs(1.0 - y * (X @ state.theta)).min() > 1e-5
    numeric = [(value(X, y, state.theta + h * e) - value(X, y, state.theta - h * e)) / (2.0 * h) for e in np.eye(4)]
    np.testing.assert_allclose(state.g, numeric, rtol=1e-5, atol=1e-5)


# ---- how far each rule comes -----------------------------------------------------------------------------------------


def fitted(problem, rule, steps, step=1.0):
    return minimize(problem, Subgradient(rule, step), tol=1e-12, max_iter=steps)


def test_a_constant_step_only_reaches_a_neighbourhood():
    """Inventory 3-31: a smaller step reaches a smaller one, more steps do not help, and ``1 / (lam t)`` goes on."""
    X, y = zoo.blobs(200, 4, seed=64, apart=0.5)
    problem = problem_of(X, y, lam=20.0)
    optimum = minimize(problem, Newton(), tol=1e-10).certificate.primal

    def excess(rule, steps, step=1.0):
        return fitted(problem, rule, steps, step).history[-1].primal - optimum

    coarse, fine = (excess("constant", 300, step) for step in (0.5, 0.05))
    assert excess("constant", 600, 0.5) >= 0.5 * coarse
    assert fine < 0.2 * coarse
    assert excess("inverse", 600) < 0.2 * coarse


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_bound_of_the_inverse_rule(intercept):
    """Strongly convex: the best value is within ``G^2 (1 + log t) / (2 lam t)`` of the optimum."""
    X, y = zoo.blobs(100, 4, seed=65, apart=0.5)
    problem = problem_of(X, y, intercept, lam=10.0)
    optimum = minimize(problem, Newton(), tol=1e-10).certificate.primal
    solver, state, G = Subgradient("inverse"), Subgradient("inverse").start(problem, None), 0.0
    for t in range(1, 1001):
        G = max(G, np.linalg.norm(state.g))
        state = solver.advance(problem, state, 1)
        assert optimum - 1e-9 * optimum <= state.primal
        assert state.dual <= optimum + 1e-9 * optimum
        if t in (10, 100, 1000):
            assert state.primal - optimum <= G**2 * (1.0 + np.log(t)) / (2.0 * 10.0 * t)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_ends_honestly(rule, intercept):
    X, y = zoo.blobs(80, 3, seed=66, apart=0.5)
    problem = problem_of(X, y, intercept)
    solution = minimize(problem, Subgradient(rule), tol=1e-12, max_iter=300)
    assert solution.status in (Status.MAX_ITER, Status.STALLED)
    case = referee.Machine(y, np.ones(80), ("hinge", 1.0), ("l2", LAM), X=X, intercept=intercept, scale=2.0)
    verdict = referee.judge(case, solution.point.w, solution.point.b, referee.repaired(case, solution.point.alpha))
    assert solution.certificate.primal == pytest.approx(verdict.primal, rel=1e-11)
    assert solution.certificate.dual == pytest.approx(verdict.dual, rel=1e-11)
    assert verdict.dual <= referee.reference_optimum(case) * (1.0 + 1e-8) <= verdict.primal * (1.0 + 1e-7)


def test_steps_that_would_overflow_are_held():
    X, y = zoo.blobs(30, 3, seed=67)
    problem = problem_of(1e8 * X, y, loss=SquaredHinge())
    for rule in RULES:
        solution = minimize(problem, Subgradient(rule, step=1e6), max_iter=50)
        assert np.isfinite(solution.point.w).all()
        assert np.isfinite(solution.certificate.primal)


def test_a_loose_tolerance_is_certified():
    X, y = zoo.blobs(200, 4, seed=68, apart=0.5)
    solution = minimize(problem_of(X, y, lam=20.0), Subgradient(), tol=1e-2, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message


def test_refusals_are_sentences():
    X, y = zoo.blobs(6, 2, seed=69)
    with pytest.raises(ValueError, match="L2 penalty; this problem has L1"):
        minimize(Problem(Rows(X), y, Hinge(), L1(1.0), np.ones(6)), Subgradient())
    with pytest.raises(ValueError, match=r"rule='nonsense' is unknown.*'polyak'"):
        Subgradient("nonsense")
    with pytest.raises(ValueError, match="positive and finite"):
        Subgradient("constant", step=0.0)
