"""Cutting planes: lower bounds that touch, the quadratic program of their weights, the line search, certificates."""

import numpy as np
import pytest
import scipy.sparse as sp

import referee
import zoo
from maxmargin import Problem, Status, minimize
from maxmargin.numerics.line_search import last_descent
from maxmargin.operators import Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic
from maxmargin.parts.penalties import L1, L2
from maxmargin.solvers.rows import cutting_plane
from maxmargin.solvers.rows.cutting_plane import CuttingPlane

INTERCEPTS = ("free", "penalised", None)


def problem_of(X, y, C=1.0, loss=None, intercept=None, lam=1.0):
    return Problem(Rows(X), y, loss or Hinge(), L2(lam), np.full(y.size, C), intercept, 1.0)


def hinge_risk(X, y, w, C=1.0, free=False):
    """Smallest over the break points, between which the risk is linear in the intercept."""
    z = X @ w
    candidates = y - z if free else [0.0]
    return min(C * np.maximum(0.0, 1.0 - y * (z + b)).sum() for b in candidates)


# ---- the parts -------------------------------------------------------------------------------------------------------


def test_first_iteration():
    """The first plane touches at 0; the model over it and the plane 0 has a closed form, and so has the line search."""
    X, y = zoo.blobs(40, 3, seed=40, apart=0.5)
    problem, solver = problem_of(X, y, 0.1), CuttingPlane()
    state = solver.advance(problem, solver.start(problem, None), 1)
    v = 0.1 * X.T @ y
    np.testing.assert_allclose(state.V, [np.zeros(3), v], atol=1e-14)
    np.testing.assert_allclose(state.h, [0.0, 4.0])
    weight = min(1.0, 4.0 / (v @ v))
    np.testing.assert_allclose(state.beta, [1.0 - weight, weight], atol=1e-12)
    assert state.dual == pytest.approx(4.0 * weight - 0.5 * weight**2 * v @ v)
    state = solver.advance(problem, state, 1)
    target = weight * v
    grid = np.linspace(0.0, 1.0, 100_001)
    values = [
        0.1 * np.maximum(0.0, 1.0 - y * (X @ (t * target))).sum() + 0.5 * t**2 * target @ target for t in grid[::10]
    ]
    assert state.primal <= min(values) + 1e-12
    t = float(state.theta @ target / (target @ target))
    np.testing.assert_allclose(state.theta, t * target, rtol=1e-12)
    np.testing.assert_allclose(state.touching[-1], (t + 0.1 * (1.0 - t)) * target, rtol=1e-12)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_every_plane_is_a_lower_bound_that_touches(intercept):
    X, y = zoo.blobs(50, 3, seed=41, apart=0.4)
    Z = np.column_stack([X, np.ones(50)]) if intercept == "penalised" else X
    problem, solver = problem_of(X, y, intercept=intercept), CuttingPlane()
    state = solver.advance(problem, solver.start(problem, None), 5)
    state = solver.advance(problem, state, 5)
    rng = np.random.default_rng(42)
    free = intercept == "free"
    for t in range(1, state.h.size):
        risk = hinge_risk(Z, y, state.touching[t], free=free)
        assert state.h[t] - state.V[t] @ state.touching[t] == pytest.approx(risk, abs=1e-8)
        for w in rng.normal(size=(20, Z.shape[1])):
            assert state.h[t] - state.V[t] @ w <= hinge_risk(Z, y, w, free=free) + 1e-9


@pytest.mark.parametrize(("loss", "classes"), [(Hinge(), True), (Logistic(), True), (EpsilonInsensitive(0.2), False)])
def test_balanced_slopes_are_a_subgradient_of_the_risk_without_the_intercept(loss, classes):
    X, y = zoo.blobs(41, 3, seed=43) if classes else zoo.line(41, 3, seed=43)
    s = np.random.default_rng(44).uniform(0.5, 2.0, size=41)
    problem = Problem(Rows(X), y, loss, L2(1.0), s)
    for w in np.random.default_rng(45).normal(size=(10, 3)):
        z = X @ w
        b = problem.best_intercept(z)
        alpha = problem.balanced_slopes(z, b)
        assert abs(alpha.sum()) <= 1e-12
        risk = problem.losses(z + b)
        assert risk <= min(problem.losses(z + b + step) for step in (-1e-4, 1e-4)) + 1e-9
        # Fenchel-Young with equality: the plane of alpha touches.
        assert -alpha @ z - problem.conjugates(alpha) == pytest.approx(risk, abs=1e-7)


def test_balanced_slopes_of_one_class_are_zero():
    problem = problem_of(np.ones((5, 1)), np.ones(5), intercept="free")
    assert not problem.balanced_slopes(np.zeros(5), problem.best_intercept(np.zeros(5))).any()


@pytest.mark.parametrize("rank", [2, 5, 30])
def test_the_quadratic_program_of_the_weights_is_solved(rank):
    """The slopes of all weights are at most those of the weights in use."""
    rng = np.random.default_rng(rank)
    for size in (1, 2, 12, 40):
        V, h = rng.normal(size=(size, rank)), rng.normal(size=size)
        beta = np.zeros(size)
        beta[0] = 1.0
        value = cutting_plane._maximise_on_simplex(V @ V.T, h, beta)
        slope = h - V @ (V.T @ beta)
        assert beta.min() >= 0.0
        assert beta.sum() == pytest.approx(1.0, abs=1e-12)
        assert slope.max() - slope @ beta <= 1e-10
        assert value == pytest.approx(h @ beta - 0.5 * (V.T @ beta) @ (V.T @ beta))


def test_equal_planes_do_no_harm():
    V, h = np.ones((6, 2)), np.array([1.0, 2.0, 2.0, 2.0, 0.0, 2.0])
    beta = np.eye(6)[4]
    assert cutting_plane._maximise_on_simplex(V @ V.T, h, beta) == pytest.approx(1.0)
    assert beta[[0, 4]].max() <= 1e-10


def test_line_search_is_exact():
    X, y = zoo.blobs(60, 3, seed=46)
    s, rng = np.ones(60), np.random.default_rng(47)
    grid = np.linspace(0.0, 1.0, 2001)
    for _ in range(20):
        z, dz = X @ rng.normal(size=3), X @ rng.normal(size=3)
        slope, curvature = rng.normal(), rng.uniform(0.0, 5.0)

        def slope_at(t, z=z, dz=dz, slope=slope, curvature=curvature):
            return slope + t * curvature + cutting_plane._slope_along(Hinge(), y, s, z, dz, t)

        t = last_descent(slope_at)

        def value(t, z=z, dz=dz, slope=slope, curvature=curvature):
            return np.maximum(0.0, 1.0 - y * (z + t * dz)).sum() + slope * t + 0.5 * curvature * t**2

        assert 0.0 <= t <= 1.0
        assert value(t) <= min(map(value, grid)) + 1e-9


# ---- the whole -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_both_bounds_are_monotone_and_the_dual_point_is_that_of_the_planes(intercept):
    X, y = zoo.blobs(80, 4, seed=48, apart=0.5)
    problem, solver = problem_of(X, y, intercept=intercept), CuttingPlane()
    state = solver.start(problem, None)
    primal, dual = state.estimate
    for _ in range(40):
        state = solver.advance(problem, state, 1)
        assert state.primal <= primal
        assert state.dual >= dual - 1e-10
        primal, dual = state.estimate
        alpha = solver.point(problem, state).alpha
        v = np.append(X.T @ alpha, alpha.sum())[: state.theta.size]
        np.testing.assert_allclose(v, state.V.T @ state.beta, atol=1e-11)
        assert (y * alpha >= 0.0).all()
        assert (y * alpha <= 1.0 + 1e-12).all()
        if intercept == "free":
            assert abs(alpha.sum()) <= 1e-11
        assert alpha @ y - v @ v / 2.0 == pytest.approx(state.dual, abs=1e-9)  # the hinge's conjugate is linear


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_ordinary_problems_are_certified(C, intercept):
    X, y = zoo.blobs(500, 10, seed=49, apart=0.5)
    solution = minimize(problem_of(X, y, C, intercept=intercept), CuttingPlane(), tol=1e-6, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    case = referee.Machine(y, np.full(500, C), ("hinge", 1.0), ("l2", 1.0), X=X, intercept=intercept)
    alpha = referee.repaired(case, solution.point.alpha)
    verdict = referee.judge(case, solution.point.w, solution.point.b, alpha)
    assert 0.0 <= verdict.relative_gap <= 1e-6
    assert verdict.infeasibility <= 1e-10
    sparse = problem_of(sp.csr_array(X), y, C, intercept=intercept)
    other = minimize(sparse, CuttingPlane(), tol=1e-6, max_time=20.0)
    assert other.status is Status.CONVERGED
    radius = np.sqrt(2.0 * solution.certificate.gap) + np.sqrt(2.0 * other.certificate.gap)  # by strong convexity
    assert np.linalg.norm(solution.point.w - other.point.w) <= radius


def test_planes_that_are_not_used_are_dropped():
    X, y = zoo.blobs(500, 20, seed=49, apart=0.5)
    solution = minimize(problem_of(X, y, 10.0), CuttingPlane(), tol=1e-8, max_time=20.0)
    assert solution.iterations > cutting_plane.KEEP_IDLE
    assert solution.history[-1].counters["planes"] < solution.iterations


def test_the_refinement_needs_fewer_planes():
    """Cutting a tenth of the way beyond the best point, against cutting at the model's minimiser."""
    X, y = zoo.blobs(500, 10, seed=50, apart=0.5)
    problem = problem_of(X, y, 10.0)
    refined, plain = (minimize(problem, CuttingPlane(mixture), tol=1e-4, max_time=20.0) for mixture in (0.1, 1.0))
    assert refined.status is plain.status is Status.CONVERGED
    assert refined.iterations < plain.iterations


def test_warm_start_takes_the_dual_variables_as_the_first_plane():
    X, y = zoo.blobs(100, 4, seed=51)
    problem = problem_of(X, y, intercept="free")
    first = minimize(problem, CuttingPlane(), tol=1e-7)
    state = CuttingPlane().start(problem, first.point)
    np.testing.assert_allclose(state.base, first.point.alpha, atol=1e-12)
    assert minimize(problem, CuttingPlane(), tol=1e-6, warm=first).iterations == 0


def test_refusals_are_sentences():
    X, y = zoo.blobs(6, 2, seed=52)
    with pytest.raises(ValueError, match="L2 penalty; this problem has L1"):
        minimize(Problem(Rows(X), y, Hinge(), L1(1.0), np.ones(6)), CuttingPlane())
    for mixture in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            CuttingPlane(mixture)
