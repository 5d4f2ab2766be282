"""Accelerated descent on the smoothed loss: the formulas, the first steps, the rate, and certificates at the end."""

import numpy as np
import pytest
import scipy.sparse as sp

import referee
import zoo
from maxmargin import Problem, Status, minimize
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, SquaredHinge
from maxmargin.parts.penalties import L1, L2, ElasticNet
from maxmargin.solvers import Newton
from maxmargin.solvers.rows import smoothed
from maxmargin.solvers.rows.smoothed import Smoothed

INTERCEPTS = ("free", "penalised", None)


def hinge(z, y):
    return np.maximum(0.0, 1.0 - y * z)


def huber(z, y, mu):
    """Inventory 0-07."""
    m = y * z
    return np.where(m >= 1.0, 0.0, np.where(m <= 1.0 - mu, 1.0 - m - mu / 2.0, (1.0 - m) ** 2 / (2.0 * mu)))


def problem_of(X, y, C=1.0, loss=None, penalty=None, intercept=None):
    return Problem(Rows(X), y, loss or Hinge(), penalty or L2(1.0), np.full(y.size, C), intercept, 1.0)


# ---- the smoothed loss -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 5.0])
def test_the_smoothed_hinge_is_the_huber_hinge(mu):
    rng = np.random.default_rng(0)
    z, y = (
        np.append(rng.normal(size=300) * 3.0, [1.0, -1.0, 1.0 - mu]),
        np.append(rng.choice([-1.0, 1.0], 300), [1] * 3),
    )
    s = rng.uniform(0.1, 3.0, size=z.size)
    a, value = smoothed._respond(Hinge(), np.zeros(z.size), y, s, z, mu / s)
    np.testing.assert_allclose(value, s * huber(z, y, mu), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(a, s * y * np.clip((1.0 - y * z) / mu, 0.0, 1.0), rtol=1e-12)
    below = s * hinge(z, y) - value
    assert below.min() >= -1e-12
    assert below.max() <= (mu / 2.0 * s).max() + 1e-12
    total = float(s @ hinge(z, y))
    assert total - mu / 2.0 * s.sum() <= value.sum() <= total + 1e-12


@pytest.mark.parametrize(("loss", "classes"), [(Hinge(), True), (EpsilonInsensitive(0.2), False)])
def test_around_any_centre_the_answer_is_minus_the_gradient_and_the_value_is_a_lower_bound(loss, classes):
    rng = np.random.default_rng(1)
    y = rng.choice([-1.0, 1.0], 200) if classes else rng.normal(size=200)
    s, z, q = rng.uniform(0.1, 3.0, size=200), rng.normal(size=200) * 2.0, rng.uniform(0.1, 2.0, size=200)
    centre = s * rng.uniform(size=200) * (y if classes else 1.0)
    a, value = smoothed._respond(loss, centre, y, s, z, q)
    h = 1e-6
    above, below = (smoothed._respond(loss, centre, y, s, z + step, q)[1] for step in (h, -h))
    np.testing.assert_allclose((above - below) / (2.0 * h), -a, atol=1e-5)
    assert (value <= s * np.array([loss.value(*pair) for pair in zip(z, y, strict=True)]) + 1e-12).all()


# ---- the first steps -------------------------------------------------------------------------------------------------


def fista(value, slope, X, metric, lam, L, steps):
    """Textbook FISTA with backtracking and restart in a diagonal metric; yields the point after each step."""
    w = before = np.zeros(X.shape[1])
    t = 1.0
    momentum = 0.0
    for _ in range(steps):
        v = w + momentum * (w - before)
        g = X.T @ slope(X @ v)
        while True:
            new = (v - g / (L * metric)) / (1.0 + lam / (L * metric))
            move = new - v
            bound = value(X @ v) + g @ move + L / 2.0 * move @ (metric * move)
            if value(X @ new) <= bound + 1e-13 * abs(bound):
                break
            L *= 2.0
        uphill = (v - new) @ (metric * (new - w)) > 0.0
        w, before = new, w
        if uphill:
            t, momentum, L = 1.0, 0.0, L * smoothed.RELAX
        else:
            following = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
            momentum, t = (t - 1.0) / following, following
        yield w


def test_steps_on_a_smooth_loss_are_those_of_fista():
    X, y = zoo.blobs(60, 5, seed=30, apart=0.5)
    X *= np.array([1.0, 10.0, 0.1, 3.0, 1.0])
    problem, solver = problem_of(X, y, 0.7, loss=SquaredHinge(), penalty=L2(0.3)), Smoothed()
    state = solver.start(problem, None)
    metric = 0.7 * (X**2).sum(axis=0)
    points = fista(lambda z: 0.7 * (hinge(z, y) ** 2).sum(), lambda z: -1.4 * y * hinge(z, y), X, metric, 0.3, 1.0, 12)
    for w in points:
        state = solver.advance(problem, state, 1)
        np.testing.assert_allclose(state.theta, w, rtol=1e-9, atol=1e-12)
    assert (state.iterations, state.width) == (12, 0.0)


def test_first_steps_on_the_hinge_are_those_on_the_huber_hinge():
    X, y = zoo.blobs(60, 4, seed=31, apart=0.5)
    problem, solver = problem_of(X, y, 2.0), Smoothed()
    state = solver.start(problem, None)
    mu = state.width
    assert mu == pytest.approx(2.0 * (X**2).sum(axis=1).mean())
    points = fista(
        lambda z: 2.0 * huber(z, y, mu).sum(), lambda z: -2.0 * y * np.clip((1.0 - y * z) / mu, 0.0, 1.0),
        X, 2.0 * (X**2).sum(axis=0), 1.0, 1.0 / mu, 100,
    )  # fmt: skip
    compared = 0
    for w in points:
        state = solver.advance(problem, state, 1)
        np.testing.assert_allclose(state.theta, w, rtol=1e-9, atol=1e-12)
        compared += 1
        if state.recentred:  # from here on the smoothing has another centre
            break
    assert compared >= 2
    assert state.recentred == compared
    assert state.centre is state.a


# ---- the rate --------------------------------------------------------------------------------------------------------


def test_the_accelerated_rate():
    """``O(1 / k^2)`` with nearly no strong convexity, where plain descent is far behind (erratum E0-9)."""
    rng = np.random.default_rng(32)
    X = rng.normal(size=(200, 40)) @ np.diag(np.logspace(0, -2.5, 40)) @ np.linalg.qr(rng.normal(size=(40, 40)))[0]
    y = np.where(X @ rng.normal(size=40) + 0.1 * rng.normal(size=200) > 0.0, 1.0, -1.0)
    problem, solver = problem_of(X, y, loss=SquaredHinge(), penalty=L2(1e-6)), Smoothed()
    best = minimize(problem, Newton(), tol=1e-9)

    def excess(w):
        return (hinge(X @ w, y) ** 2).sum() + 0.5e-6 * w @ w - best.certificate.dual

    metric = (X**2).sum(axis=0)
    state, k = solver.start(problem, None), 150
    largest = 0.0
    for _ in range(k):
        state = solver.advance(problem, state, 1)
        largest = max(largest, state.L)
    distance = best.point.w @ (metric * best.point.w)
    assert excess(state.theta) <= 2.0 * largest * distance / (k + 1) ** 2
    w = np.zeros(40)
    for _ in range(k):
        w = (w + X.T @ (2.0 * y * hinge(X @ w, y)) / (largest * metric)) / (1.0 + 1e-6 / (largest * metric))
    assert excess(state.theta) <= 0.1 * excess(w)


# ---- certificates ----------------------------------------------------------------------------------------------------


def judged(problem, X, y, C, solution, loss=("hinge", 1.0), penalty=("l2", 1.0)):
    case = referee.Machine(y, np.full(y.size, C), loss, penalty, X=X, intercept=problem.intercept)
    alpha = referee.repaired(case, solution.point.alpha)
    verdict = referee.judge(case, solution.point.w, solution.point.b, alpha)
    assert verdict.infeasibility <= 1e-10 * (1.0 + np.abs(alpha).sum())
    return verdict


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_ordinary_problems_are_certified(C, intercept):
    X, y = zoo.blobs(500, 10, seed=33, apart=0.5)
    problem = problem_of(X, y, C, intercept=intercept)
    solution = minimize(problem, Smoothed(), tol=1e-6, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    verdict = judged(problem, X, y, C, solution)
    assert 0.0 <= verdict.relative_gap <= 1e-6
    sparse = minimize(problem_of(sp.csr_array(X), y, C, intercept=intercept), Smoothed(), tol=1e-6, max_time=20.0)
    assert sparse.status is Status.CONVERGED
    radius = np.sqrt(2.0 * solution.certificate.gap) + np.sqrt(2.0 * sparse.certificate.gap)  # by strong convexity
    assert np.linalg.norm(solution.point.w - sparse.point.w) <= radius


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize(
    ("loss", "penalty"),
    [(Hinge(), L1(3.0)), (SquaredHinge(), L1(3.0)), (Hinge(), ElasticNet(2.0, 0.5))],
    ids=["hinge, L1", "squared hinge, L1", "hinge, elastic net"],
)
def test_other_penalties_are_certified(loss, penalty, intercept):
    X, y = zoo.blobs(200, 8, seed=34, apart=0.5)
    problem = problem_of(X, y, loss=loss, penalty=penalty, intercept=intercept)
    solution = minimize(problem, Smoothed(), tol=1e-6, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    name = ("hinge" if isinstance(loss, Hinge) else "squared hinge", 1.0)
    norm = ("l1", 3.0) if isinstance(penalty, L1) else ("elastic net", 2.0, 0.5)
    verdict = judged(problem, X, y, 1.0, solution, name, norm)
    assert -1e-12 <= verdict.relative_gap <= 1e-6 + 1e-12


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_column_scales_and_large_means_are_taken_care_of(intercept):
    X, y = zoo.blobs(300, 5, seed=35, apart=0.5)
    X = X * np.array([1e3, 1.0, 1e-3, 1.0, 1.0]) + (np.array([1e3, 5.0, 0.0, -20.0, 1.0]) if intercept == "free" else 0)
    problem = problem_of(X, y, intercept=intercept)
    solution = minimize(problem, Smoothed(), tol=1e-6, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert judged(problem, X, y, 1.0, solution).relative_gap <= 1e-6


def test_the_smoothing_stays_far_wider_than_the_tolerance():
    """With centre 0 the gap would not fall below ``mu / 2 sum a^2 / s``; the moving centre removes that."""
    X, y = zoo.blobs(500, 10, seed=33, apart=0.5)
    problem = problem_of(X, y)
    solution = minimize(problem, Smoothed(), tol=1e-6)
    mu, a = solution.history[-1].counters["smoothing"], solution.point.alpha
    assert mu / 2.0 * a @ a >= 100.0 * solution.certificate.gap


def test_a_kernel_is_refused():
    X, y = zoo.blobs(6, 2, seed=36)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.ones(6))
    with pytest.raises(ValueError, match="rows of features, not a kernel"):
        minimize(problem, Smoothed())
