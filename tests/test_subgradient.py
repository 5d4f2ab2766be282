"""Subgradient descent: each rule's steps from its formula, its dual point, and how far it comes."""

import numpy as np
import pytest

import referee
import zoo
from maxmargin import Problem, Status, minimize, trace
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, L2
from maxmargin.solvers import Newton, Subgradient, TextbookSGD, TextbookSubgradient
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


# ---- as textbooks write it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_textbook_steps_are_the_users_own(rule):
    """Inventory 1-05, 3-31: ``w <- w - tau (2 L w - sum_i y_i x_i [y_i x_i.w < 1])``; nothing is cut."""
    X, y = zoo.blobs(50, 4, seed=70, apart=0.5)
    L, step, target = 0.25, 0.3, 5.0
    w = np.zeros(4)
    path = trace(problem_of(X, y, lam=2.0 * L), TextbookSubgradient(rule, step, target), max_iter=60)
    for t, (record, point) in enumerate(path, start=1):
        np.testing.assert_allclose(point.w, w, rtol=1e-9, atol=1e-11)
        assert record.iterations == t - 1
        g = 2.0 * L * w - X.T @ (y * (y * (X @ w) < 1.0))
        eta = {
            "constant": step,
            "inverse_sqrt": step / np.sqrt(t),
            "inverse": step / (2.0 * L * t),
            "polyak": step * (value(X, y, w, 2.0 * L) - target) / (g @ g),
        }[rule]
        w = w - eta * g
    assert t == 61


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_intercepts_of_the_textbook_are_columns(intercept):
    X, y = zoo.blobs(40, 3, seed=71, apart=0.3)
    height = {"free": 1.0, "penalised": 2.0, None: 0.0}[intercept]
    Z, ridge = np.column_stack([X, np.full(40, height)]), LAM * np.array([1, 1, 1, intercept == "penalised"])
    theta, problem = np.zeros(4), problem_of(X, y, intercept)
    solver = TextbookSubgradient("constant", 0.01)
    state = solver.start(problem, None)
    for _ in range(30):
        theta = theta - 0.01 * (ridge * theta - Z.T @ (y * (y * (Z @ theta) < 1.0)))
        state = solver.advance(problem, state, 1)
    np.testing.assert_allclose(state.theta, theta if intercept else theta[:3], rtol=1e-9)
    point = solver.point(problem, state)
    assert intercept == "free" or point.b == pytest.approx(height * theta[3])


def test_a_constant_step_of_the_textbook_does_not_converge():
    """Inventory 3-31 and the correction E3-11: the last point keeps its distance, and diminishing steps do not."""
    X, y = zoo.blobs(200, 4, seed=64, apart=0.5)
    problem = problem_of(X, y, lam=20.0)
    optimum = minimize(problem, Newton(), tol=1e-10).certificate.primal

    def last(rule, step, steps):
        *_, (record, _) = trace(problem, TextbookSubgradient(rule, step, optimum), max_iter=steps, stride=steps)
        return record.primal - optimum

    assert last("constant", 1e-2, 2000) > 0.2 * last("constant", 1e-2, 500)
    assert last("constant", 1e-3, 500) < 0.2 * last("constant", 1e-2, 500)
    assert last("inverse", 1.0, 2000) < 0.2 * last("constant", 1e-2, 2000)
    assert last("polyak", 1.0, 500) < 1e-3 * last("constant", 1e-2, 500)


@pytest.mark.parametrize("order", ["cyclic", "permutation"])
@pytest.mark.parametrize("loss", [Hinge(), Squared(2.0)], ids=["hinge", "squared"])
def test_a_stochastic_step_of_the_textbook(loss, order):
    """Inventory 3-32, 3-36: ``(1 - tau lam / N) w`` and the sample's own slope, with its label (correction E3-6)."""
    X, y = zoo.blobs(12, 3, seed=72, apart=0.3)
    problem, tau = problem_of(X, y, loss=loss), 0.05
    solver = TextbookSGD(order, tau)
    state, seen = solver.start(problem, None), []
    w = np.zeros(3)
    for _ in range(3):
        before = w.copy()
        state = solver.advance(problem, state, 1)
        for i in state.samples:
            slope = -y[i] * (y[i] * (X[i] @ w) < 1.0) if loss == Hinge() else 2.0 * (X[i] @ w - y[i])
            w = (1.0 - tau * LAM / 12) * w - tau * slope * X[i]
        np.testing.assert_allclose(state.theta, w, rtol=1e-10, atol=1e-12)
        assert (w != before).any()
        seen.append(tuple(state.samples))
    assert len(set(seen)) == (1 if order == "cyclic" else 3)


def test_the_textbook_stops_before_numbers_overflow():
    X, y = zoo.blobs(30, 3, seed=73)
    for solver in (TextbookSubgradient("constant", 1e9), TextbookSGD(step=1e9)):
        solution = minimize(problem_of(X, y), solver, max_iter=500)
        assert solution.status in (Status.STALLED, Status.MAX_ITER)
        assert np.isfinite(solution.point.w).all()
        assert np.isfinite(solution.certificate.primal)


def test_refusals_of_the_textbook():
    X, y = zoo.blobs(6, 2, seed=69)
    with pytest.raises(ValueError, match="L2 penalty; this problem has L1"):
        minimize(Problem(Rows(X), y, Hinge(), L1(1.0), np.ones(6)), TextbookSubgradient())
    with pytest.raises(ValueError, match="the squared loss or the hinge; this problem has SquaredHinge"):
        minimize(problem_of(X, y, loss=SquaredHinge()), TextbookSGD())
    with pytest.raises(ValueError, match=r"rule='nonsense' is unknown.*'polyak'"):
        TextbookSubgradient("nonsense")
    with pytest.raises(ValueError, match=r"step=0.0 must be positive"):
        TextbookSubgradient(step=0.0)
    with pytest.raises(ValueError, match="target=nan must be a number"):
        TextbookSubgradient(target=float("nan"))
