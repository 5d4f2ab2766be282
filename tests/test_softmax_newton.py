"""The softmax problem and its Newton method: values, feasibility and optimality recomputed in plain NumPy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.sparse import csr_array
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

import referee
from maxmargin import Certificate, Point, Problem, SoftmaxProblem, Status, minimize
from maxmargin.operators import Rows
from maxmargin.parts.losses import Logistic
from maxmargin.parts.penalties import L2
from maxmargin.solvers import Newton, SoftmaxNewton

TOL = 1e-10
INTERCEPTS = ("free", "penalised", None)
every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)


def parts(problem, point):
    theta = point.w.reshape(problem.shape)
    d = problem.operator.n_features
    b = theta[:, d] if problem.intercept is not None else np.zeros(problem.n_classes)
    A = problem.feasible(point.alpha.reshape(-1, problem.n_classes))
    return theta[:, :d], b, A


def assert_certificate_is_true(problem, X, solution):
    W, b, A = parts(problem, solution.point)
    primal, dual, infeasible = referee.softmax_values(
        X, problem.y, problem.n_classes, W, b, A, problem.s, problem.intercept, problem.intercept_scale, problem.lam
    )
    scale = max(abs(primal), abs(dual))
    assert infeasible <= 1e-11 * (1.0 + problem.s.sum())
    assert solution.certificate.primal == pytest.approx(primal, rel=0, abs=1e-11 * scale)
    assert solution.certificate.dual == pytest.approx(dual, rel=0, abs=1e-10 * scale)
    if solution.status is Status.CONVERGED:
        assert primal - dual <= solution.tol * scale * (1.0 + 1e-3) + 1e-10 * scale * (solution.tol < 1e-9)


def random_problem(n=60, d=4, k=4, seed=0, store=np.asarray, **options):
    rng = np.random.default_rng(seed)
    X = store(rng.normal(size=(n, d)))
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    s = rng.uniform(0.0, 2.0, n) * (rng.random(n) > 0.1)
    s[:k] = 1.0
    settings = {"lam": 0.5, "s": s} | options
    return X, SoftmaxProblem(Rows(X), y, k, **settings)


@every_intercept
@pytest.mark.parametrize("max_iter", [0, 1, 2, None])
@pytest.mark.parametrize("seed", range(3))
def test_softmax_certificate_is_true_wherever_a_fit_stops(intercept, max_iter, seed):
    X, problem = random_problem(seed=seed, intercept=intercept, intercept_scale=2.0)
    solution = minimize(problem, SoftmaxNewton(), tol=TOL, max_iter=max_iter)
    assert_certificate_is_true(problem, X, solution)
    assert (solution.status is Status.CONVERGED) == (max_iter is None)


@every_intercept
def test_softmax_optimum_is_the_one_that_scipy_finds(intercept):
    X, problem = random_problem(intercept=intercept, intercept_scale=0.7)
    solution = minimize(problem, SoftmaxNewton(), tol=1e-12)
    onehot, (k, columns) = np.eye(problem.n_classes)[problem.y], problem.shape

    def value(flat):
        theta = flat.reshape(k, columns)
        W, b = theta[:, :4], theta[:, 4:].sum(axis=1)
        loss = -(problem.s * (log_softmax(X @ W.T + b, axis=1) * onehot).sum(axis=1)).sum()
        ridge = 0.25 * (W**2).sum()
        return loss + ridge + (0.25 * (b**2).sum() / 0.49 if intercept == "penalised" else 0.0)

    found = scipy_minimize(value, np.zeros(k * columns), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    assert solution.certificate.dual <= found.fun * (1.0 + 1e-12)
    assert solution.certificate.primal == pytest.approx(found.fun, rel=1e-9)


def test_softmax_of_two_classes_is_the_logistic_loss_with_half_the_penalty():
    """With w_0 = -w_1 the score is 2 w_1.x and the penalty lam |w_1|^2, that is lam/2 |w|^2 / 2 of w = 2 w_1."""
    X, y = load_breast_cancer(return_X_y=True)
    X, s = StandardScaler().fit_transform(X), np.ones(y.size)
    both = minimize(SoftmaxProblem(Rows(X), y.astype(np.int64), 2, 1.0, s), SoftmaxNewton(), tol=1e-12)
    one = minimize(Problem(Rows(X), 2.0 * y - 1.0, Logistic(), L2(0.5), s), Newton(), tol=1e-12)
    assert both.certificate.primal == pytest.approx(one.certificate.primal, rel=1e-11)
    theta = both.point.w.reshape(2, -1)
    np.testing.assert_allclose(theta.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(2.0 * theta[1, :-1], one.point.w, atol=1e-6)


@every_intercept
@pytest.mark.parametrize("seed", range(5))
def test_any_dual_point_becomes_feasible_and_bounds_the_optimum(intercept, seed):
    X, problem = random_problem(seed=seed, intercept=intercept)
    optimum = minimize(problem, SoftmaxNewton(), tol=1e-12).certificate.primal
    rng = np.random.default_rng(seed)
    n, k = X.shape[0], problem.n_classes
    for A in (np.zeros((n, k)), rng.normal(size=(n, k)), 100.0 * rng.normal(size=(n, k))):
        point = Point(np.zeros(math.prod(problem.shape)), 0.0, A.ravel())
        certificate = problem.certify(point)
        W, b, feasible = parts(problem, point)
        values = referee.softmax_values(
            X, problem.y, k, W, b, feasible, problem.s, intercept, problem.intercept_scale, problem.lam
        )
        assert values[2] <= 1e-12 * (1.0 + problem.s.sum())
        assert certificate.dual == pytest.approx(values[1], rel=1e-11)
        assert certificate.dual <= optimum
        np.testing.assert_allclose(problem.feasible(feasible), feasible, rtol=0, atol=1e-13)


def test_dual_variables_that_are_not_given_follow_from_the_scores():
    X, problem = random_problem()
    w = np.random.default_rng(0).normal(size=math.prod(problem.shape))
    theta = w.reshape(problem.shape)
    A = problem.s[:, None] * (np.eye(4)[problem.y] - softmax(X @ theta[:, :4].T + theta[:, 4], axis=1))
    given, derived = problem.certify(Point(w, 0.0, A.ravel())), problem.certify(Point(w, 0.0))
    assert given.dual == pytest.approx(derived.dual, rel=1e-12)
    assert problem.certify(Point(w * np.nan, 0.0)) == Certificate(math.inf, -math.inf)


UNSCALED = np.array([1e4, 1.0, 1e-3, 30.0])


@every_intercept
@pytest.mark.parametrize("strength", [1e-4, 1.0, 1e4])
def test_softmax_newton_does_not_care_about_scales(intercept, strength):
    def store(X):
        return X * UNSCALED + 10.0 * UNSCALED

    X, problem = random_problem(store=store, intercept=intercept, lam=strength)
    solution = minimize(problem, SoftmaxNewton(), tol=1e-8, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert_certificate_is_true(problem, X, solution)


def test_blocks_are_used_where_the_diagonal_is_slow_and_change_nothing():
    X, y = load_wine(return_X_y=True)
    problem = SoftmaxProblem(Rows(X), y, 3, 1e-3, np.ones(y.size))
    solver = SoftmaxNewton()
    state = solver.start(problem, None)
    for _ in range(15):
        state = solver.advance(problem, state, 1)
    assert state.use_blocks
    dense, sparse = (
        minimize(replace(problem, operator=rows), SoftmaxNewton(), tol=1e-9) for rows in (Rows(X), Rows(csr_array(X)))
    )
    assert dense.status is sparse.status is Status.CONVERGED
    assert dense.certificate.primal == pytest.approx(sparse.certificate.primal, rel=2e-9)
    assert dense.iterations <= 60


def test_softmax_newton_resumes_and_repeats_itself():
    _, problem = random_problem(n=200, seed=5)
    whole = minimize(problem, SoftmaxNewton(), tol=TOL)
    part = minimize(problem, SoftmaxNewton(), tol=TOL, max_iter=2)
    rest = minimize(problem, SoftmaxNewton(), tol=TOL, warm=part)
    assert whole.status is rest.status is Status.CONVERGED
    assert rest.history[0].primal == pytest.approx(part.certificate.primal, rel=1e-12)
    assert minimize(problem, SoftmaxNewton(), tol=1e-8, warm=whole).iterations == 0
    again = minimize(problem, SoftmaxNewton(), tol=TOL)
    assert again.point.w.tobytes() == whole.point.w.tobytes()
    assert again.certificate == whole.certificate


def test_softmax_refusals():
    X, problem = random_problem()
    with pytest.raises(ValueError, match="Classes are numbered from 0 to 2; y has values from 0 to 3"):
        SoftmaxProblem(Rows(X), problem.y, 3, 1.0, problem.s)
    with pytest.raises(ValueError, match="it needs a problem of several classes at once"):
        minimize(Problem(Rows(X), np.ones(60), Logistic(), L2(1.0), problem.s), SoftmaxNewton())
    with pytest.raises(ValueError, match="solver='newton' cannot solve this problem"):
        minimize(problem, Newton())


@pytest.mark.parametrize("intercept", ["free", None])
def test_degenerate_softmax_problems_end_honestly(intercept):
    rng = np.random.default_rng(0)
    X, y, s = rng.normal(size=(12, 2)), np.arange(12) % 3, np.ones(12)
    cases = {
        "all points alike": (np.ones((12, 2)), y, s),
        "points at the origin": (np.zeros((12, 2)), y, s),
        "one class only": (X, np.zeros(12, dtype=np.int64), s),
        "a class without weight": (X, y, np.where(y == 1, 0.0, 1.0)),
        "no weight at all": (X, y, np.zeros(12)),
        "huge weights": (X, y, np.full(12, 1e8)),
        "tiny weights": (X, y, np.full(12, 1e-8)),
        "separable": (10.0 * np.eye(3)[y], y, 1e6 * s),
    }
    for name, (rows, labels, weights) in cases.items():
        problem = SoftmaxProblem(Rows(rows), labels, 3, 1.0, weights, intercept)
        solution = minimize(problem, SoftmaxNewton(), tol=1e-8, max_time=5.0)
        certificate = solution.certificate
        assert math.isfinite(certificate.primal), name
        assert certificate.gap >= -1e-9 * abs(certificate.primal), name
        # Without weight on a class the infimum of a free intercept is not attained.
        if not (intercept == "free" and name in ("one class only", "a class without weight")):
            assert solution.status is Status.CONVERGED, (name, solution.message)


def test_hopeless_scales_end_honestly():
    """Rounding of the scores alone makes the gap; the fit must stop by itself, finite and true."""
    X, y = load_wine(return_X_y=True)
    for scale in (1e30, 1e90):
        problem = SoftmaxProblem(Rows(X * scale), y, 3, 1.0, np.ones(y.size))
        solution = minimize(problem, SoftmaxNewton(), tol=1e-8, max_time=20.0)
        assert np.isfinite(solution.point.w).all()
        assert math.isfinite(solution.certificate.primal)
        assert solution.certificate.primal <= y.size * math.log(3.0) * (1.0 + 1e-12)
        assert solution.status in (Status.STALLED, Status.CONVERGED)
