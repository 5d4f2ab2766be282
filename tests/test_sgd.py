"""Stochastic gradient descent: its path step by step against plain NumPy, its quality, and the two estimators."""

import inspect
import math
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import scale

import referee
import zoo
from maxmargin import Problem, SGDClassifier, SGDRegressor, Status, _jit, certify, minimize
from maxmargin.io import load_model, save_model
from maxmargin.numerics.grid import lowest_on_grid
from maxmargin.operators import Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, HuberHinge, Logistic, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, L2, ElasticNet
from maxmargin.solvers import SGD, SOLVERS, Newton, Pegasos

# ---- the path, step by step ------------------------------------------------------------------------------------------


class SplitMix:
    """The generator of the solver, from its definition."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        r = self.state
        r = ((r ^ (r >> 30)) * 0xBF58476D1CE4E5B9) & mask
        r = ((r ^ (r >> 27)) * 0x94D049BB133111EB) & mask
        return (r ^ (r >> 31)) % count

    def visits(self, order, samples, epochs):
        """The samples of some epochs, one after the other."""
        samples = list(samples)
        for _ in range(epochs):
            if order == "permutation":
                for k in range(len(samples) - 1, 0, -1):
                    j = self.below(k + 1)
                    samples[k], samples[j] = samples[j], samples[k]
            for i in samples:
                yield samples[self.below(len(samples))] if order == "uniform" else i


def hinge_slope(z, y):
    return -y if y * z < 1.0 else 0.0


def logistic_slope(z, y):
    return -y / (1.0 + math.exp(y * z))


def squared_slope(z, y):
    return z - y


def walk(X, y, s, slope, visits, eta, l1, l2, height=1.0):
    """Every point of the path, with Tsuruoka's cumulative penalty as printed: ``u`` could have been, ``q`` was paid."""
    w, beta, u, q = np.zeros(X.shape[1]), 0.0, 0.0, np.zeros(X.shape[1])
    path = []
    for t, i in enumerate(visits):
        g = s[i] * slope(X[i] @ w + height * beta, y[i])
        w = w - eta(t) * g * X[i]
        u += eta(t) * l1
        paid = np.where(w > 0.0, np.maximum(0.0, w - (u + q)), np.where(w < 0.0, np.minimum(0.0, w + (u - q)), w))
        q += paid - w
        shrink = 1.0 + eta(t) * l2
        w, u, q = paid / shrink, u / shrink, q / shrink
        beta -= eta(t) * g * height
        path.append((w, height * beta))
    return path


def small(seed=0, n=7, d=3):
    X, y = zoo.blobs(n, d, seed, apart=0.4)
    return X, y, np.random.default_rng(seed).uniform(0.5, 1.5, n)


@pytest.mark.parametrize("order", ["cyclic", "permutation", "uniform"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_the_orders_visit_what_they_should(order, layout):
    X, y, s = small()
    s[2] = 0.0  # never visited
    problem = Problem(Rows(layout(X)), y, Hinge(), L2(0.7), s)
    solver = SGD(order=order, learning_rate="constant", eta0=0.3, average=False, seed=5)
    used = np.flatnonzero(s)
    visits = list(SplitMix(5).visits(order, used, 1))
    path = walk(X, y, s, hinge_slope, visits, lambda t: 0.3, 0.0, 0.7 / used.size)
    state = solver.advance(problem, solver.start(problem, None), 1)
    w, b = solver.model(problem, state)
    np.testing.assert_allclose(w, path[-1][0], rtol=1e-12)
    assert b == pytest.approx(path[-1][1], rel=1e-12)
    np.testing.assert_array_equal(state.recent.seen[:, 1], np.bincount(visits, minlength=y.size))
    if order != "uniform":
        np.testing.assert_array_equal(state.recent.seen[:, 1], s > 0.0)


@pytest.mark.parametrize(
    ("rate", "eta"),
    [
        ("optimal", lambda t, lam: 0.4 / (1.0 + lam * 0.4 * t)),
        ("invscaling", lambda t, lam: 0.4 / (1.0 + t) ** 0.3),
        ("constant", lambda t, lam: 0.4),
        ("adaptive", lambda t, lam: 0.4),  # as long as there is progress
    ],
)
@pytest.mark.parametrize(("penalty", "ratio"), [(L2(2.0), 0.0), (L1(2.0), 1.0), (ElasticNet(2.0, 0.3), 0.3)])
def test_every_schedule_and_penalty_follows_its_formula(rate, eta, penalty, ratio):
    X, y, s = small(1, n=9, d=4)
    problem = Problem(Rows(X), y, Logistic(), penalty, s)
    solver = SGD(order="cyclic", learning_rate=rate, eta0=0.4, power_t=0.3, average=False)
    per_sample = 2.0 / 9
    path = walk(
        X, y, s, logistic_slope, range(9), lambda t: eta(t, per_sample), per_sample * ratio, per_sample * (1.0 - ratio)
    )
    state = solver.advance(problem, solver.start(problem, None), 1)
    w, b = solver.model(problem, state)
    np.testing.assert_allclose(w, path[-1][0], rtol=1e-11, atol=1e-15)
    assert b == pytest.approx(path[-1][1], rel=1e-11)
    assert state.t == 9


def test_intercepts_are_columns():
    X, y, s = small(2)
    for intercept, height in (("free", 1.0), (None, 0.0)):
        problem = Problem(Rows(X), y, Squared(), L2(1.0), s, intercept)
        solver = SGD(order="cyclic", learning_rate="constant", eta0=0.05, average=False)
        path = walk(X, y, s, squared_slope, range(7), lambda t: 0.05, 0.0, 1.0 / 7, height)
        w, b = solver.model(problem, solver.advance(problem, solver.start(problem, None), 1))
        np.testing.assert_allclose(w, path[-1][0], rtol=1e-12)
        assert b == pytest.approx(path[-1][1], rel=1e-12)
    penalised = Problem(Rows(X), y, Squared(), ElasticNet(1.0, 0.2), s, "penalised", 2.0)
    column = Problem(Rows(np.c_[X, np.full(7, 2.0)]), y, Squared(), L2(1.0), s, None)
    ridge = Problem(Rows(X), y, Squared(), L2(1.0), s, "penalised", 2.0)
    w, b = solver.model(ridge, solver.advance(ridge, solver.start(ridge, None), 1))
    by_hand, _ = solver.model(column, solver.advance(column, solver.start(column, None), 1))
    np.testing.assert_allclose(np.append(w, b / 2.0), by_hand, rtol=1e-12)
    assert minimize(penalised, SGD(), max_iter=3, tol=1e-12).certificate.gap > 0.0


def test_the_average_is_that_of_every_sixteenth_step_since_half_of_the_epochs():
    X, y, s = small(3, n=32)
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), s)
    solver = SGD(order="cyclic", learning_rate="constant", eta0=0.1)
    path = walk(X, y, s, hinge_slope, list(range(32)) * 5, lambda t: 0.1, 0.0, 1.0 / 32)
    state = solver.start(problem, None)
    while state.iterations < 5:
        state = solver.advance(problem, state, 5 - state.iterations)
    w, b = solver.model(problem, state)
    taken = [path[t - 1] for t in range(1, 161) if t % 16 == 0 and t > 2 * 32]  # from the end of epoch 2 on
    np.testing.assert_allclose(w, np.mean([p[0] for p in taken], axis=0), rtol=1e-12)
    assert b == pytest.approx(np.mean([p[1] for p in taken]), rel=1e-12)


def test_a_step_that_would_overshoot_is_the_implicit_one():
    X, y, s = np.array([[3.0, 4.0]]), np.array([2.0]), np.ones(1)
    problem = Problem(Rows(X), y, Squared(), L1(1e-300), s, None)
    solver = SGD(learning_rate="constant", eta0=1.0, average=False)
    w, _ = solver.model(problem, solver.advance(problem, solver.start(problem, None), 1))
    # argmin (x.w - 2)^2 / 2 + |w|^2 / 2 has x.w = 2 * 25 / 26
    np.testing.assert_allclose(w, X[0] * 2.0 / 26.0, rtol=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), HuberHinge(0.5), Logistic(), EpsilonInsensitive()], ids=str)
@pytest.mark.parametrize("order", ["cyclic", "permutation", "uniform"])
@pytest.mark.parametrize("intercept", ["free", None])
def test_four_steps_ahead_are_the_same_steps(loss, order, intercept):
    """Dense rows are walked four at a time, sparse ones in turn; more samples than a stretch, and a rest."""
    X, y, s = small(6, n=1203, d=5)
    solver, found = SGD(order=order, eta0=0.3, seed=2), []
    for layout in (np.asarray, sp.csr_array):
        problem = Problem(Rows(layout(X)), y, loss, L2(0.05 * 1203), s, intercept)
        state = solver.start(problem, None)
        while state.iterations < 3:
            solver.advance(problem, state, 3 - state.iterations)
        found.append(state)
    dense, sparse = found
    np.testing.assert_allclose(dense.coefficients(), sparse.coefficients(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(dense.recent.seen, sparse.recent.seen, rtol=1e-5, atol=1e-6)
    assert dense.beta == pytest.approx(sparse.beta, rel=1e-9, abs=1e-11)
    assert dense.recent.seen[:, 1].sum() == 1203


def test_a_scale_that_becomes_too_small_is_folded_in_the_middle_of_a_stretch():
    X, y, s = small(7, n=40)
    problem = Problem(Rows(X), y, Hinge(), L2(40.0), s)
    solver = SGD(order="cyclic", learning_rate="constant", eta0=9.0, average=False)  # the scale falls to a tenth
    w, b = solver.model(problem, solver.advance(problem, solver.start(problem, None), 1))
    path = walk(X, y, s, hinge_slope, range(40), lambda t: 9.0, 0.0, 1.0)
    np.testing.assert_allclose(w, path[-1][0], rtol=1e-9)
    assert b == pytest.approx(path[-1][1], rel=1e-9)


def test_a_stream_keeps_no_slopes_and_still_has_a_point():
    X, y, s = small(8, n=50)
    problem = Problem(Rows(X), y, Logistic(), L2(1.0), s)
    solver = SGD()
    state = solver.learn(problem, solver.start(problem, None))
    assert state.recent.seen.size == 0
    point = solver.point(problem, state)
    assert math.isfinite(problem.certify(point).gap)


def test_a_stream_in_pieces_is_the_stream():
    X, y, s = small(4, n=12)
    solver = SGD(order="cyclic", eta0=0.2, average=False)
    whole = Problem(Rows(X), y, Logistic(), L2(0.1 * 12), s)
    state = solver.advance(whole, solver.start(whole, None), 1)
    expected, b = solver.model(whole, state)
    pieces = None
    for rows in (slice(0, 5), slice(5, 6), slice(6, 12)):
        part = Problem(Rows(X[rows]), y[rows], Logistic(), L2(0.1 * y[rows].size), s[rows])
        pieces = solver.start(part, None) if pieces is None else solver.carry_on(part, pieces)
        pieces = solver.advance(part, pieces, 1)
    found = solver.model(part, pieces)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    assert found[1] == pytest.approx(b, rel=1e-12)


class Touched(np.ndarray):
    """Coefficients that count how many entries of theirs are read or written one by one, and refuse sums over all."""

    entries = 0

    def __getitem__(self, i):
        Touched.entries += 1
        return float(np.asarray(self)[i])

    def __setitem__(self, i, value):
        Touched.entries += 1
        np.asarray(self)[i] = value

    def __array_ufunc__(self, *arguments, **options):
        raise AssertionError("a step touched all coefficients")


def test_a_step_touches_the_nonzeros_only(monkeypatch):
    """The loop as plain Python, with coefficients that count."""
    monkeypatch.setattr(_jit, "PLAIN", True)
    rng = np.random.default_rng(0)
    n, d = 200, 10_000
    X = sp.csr_array((rng.normal(size=5 * n), rng.integers(0, d, 5 * n), np.arange(0, 5 * n + 1, 5)), shape=(n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    for penalty in (L2(1.0), L1(1.0)):
        problem = Problem(Rows(X), y, Hinge(), penalty, np.ones(n))
        solver = SGD(eta0=0.1)
        state = solver.start(problem, None)
        state.theta, Touched.entries = state.theta.view(Touched), 0
        with np.errstate(over="ignore"):  # random numbers are products modulo 2^64
            solver._run(problem, state, solver._recipe(problem, state), 1)
        assert 5 * n <= Touched.entries <= 10 * 5 * n


# ---- quality ---------------------------------------------------------------------------------------------------------

CLASSES, REGRESSION = zoo.blobs(300, 5, seed=11, apart=0.8), zoo.line(300, 5, seed=12)
PENALTIES = {"l2": ("l2", 15.0), "l1": ("l1", 15.0), "elastic net": ("elastic net", 15.0, 0.4)}
PAIRS = [("hinge", 1.0), ("squared hinge", 1.0), ("huber hinge", 0.5), ("logistic", 1.0)]
TARGETS = [("squared", 1.0), ("epsilon", 0.1), ("squared epsilon", 0.1)]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", PAIRS + TARGETS, ids=lambda loss: loss[0])
def test_every_loss_and_penalty_comes_near_the_optimum(loss, penalty):
    X, y = CLASSES if loss in PAIRS else REGRESSION
    case = zoo.machine("", X, y, loss=loss, penalty=PENALTIES[penalty])
    optimum = referee.reference_optimum(case.describe())
    solution = minimize(case.build(), SGD(), tol=1e-3, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.certificate.dual <= optimum * (1.0 + 1e-7)
    assert optimum * (1.0 - 1e-7) <= solution.certificate.primal <= optimum * (1.0 + 1.1e-3)


@pytest.mark.parametrize("order", ["cyclic", "uniform"])
@pytest.mark.parametrize("rate", ["optimal", "invscaling", "adaptive"])
def test_other_orders_and_schedules_lead_there_too(order, rate):
    X, y = CLASSES
    problem = Problem(Rows(X), y, Logistic(), L2(15.0), np.ones(300))
    optimum = minimize(problem, Newton(), tol=1e-9).certificate.primal
    solution = minimize(problem, SGD(order=order, learning_rate=rate), tol=1e-3, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.certificate.primal == pytest.approx(optimum, rel=1.1e-3)


def test_l1_gives_exact_zeros():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 30))
    y = X[:, :3] @ np.array([2.0, -1.5, 1.0]) + 0.3 * rng.normal(size=400)
    problem = Problem(Rows(X), y, Squared(), L1(60.0), np.ones(400))
    solution = minimize(problem, SGD(), tol=1e-3, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert set(np.flatnonzero(solution.point.w)) >= {0, 1, 2}
    assert np.count_nonzero(solution.point.w) <= 8


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic(), Squared(), EpsilonInsensitive()])
@pytest.mark.parametrize("eta0", [None, 1e3, 1e300])
@pytest.mark.parametrize("penalty", [L2(1.0), L1(1.0)])
def test_unscaled_columns_and_absurd_steps_end_honestly(loss, eta0, penalty):
    X, y = zoo.blobs(50, 3, seed=5)
    X = X * np.array([1e8, 1.0, 1e-3])
    problem = Problem(Rows(X), y, loss, penalty, np.ones(50))
    start = minimize(problem, SGD(), max_iter=0).certificate
    with np.errstate(over="ignore", invalid="ignore"):
        solution = minimize(problem, SGD(eta0=eta0), tol=1e-9, max_iter=300)
    assert np.isfinite(solution.point.w).all()
    assert math.isfinite(solution.certificate.primal)
    assert math.isfinite(solution.certificate.dual)
    assert solution.certificate.relative_gap <= start.relative_gap * (1.0 + 1e-14)
    assert solution.status is not Status.CONVERGED or solution.certificate.relative_gap <= 1e-9


def test_options_are_checked():
    for option, value in (("order", "sorted"), ("learning_rate", "fast"), ("eta0", 0.0), ("eta0", math.inf)):
        with pytest.raises(ValueError, match=option):
            SGD(**{option: value})


# ---- the estimators --------------------------------------------------------------------------------------------------


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return scale(X), scale(y)


def objective(model, X, y, weights, alpha, ratio):
    """``1/S sum_i c_i log(1 + exp(-y_i z_i)) + alpha R(w)`` for labels 0 and 1."""
    w = model.coef_[0]
    z = X @ w + model.intercept_[0]
    losses = np.logaddexp(0.0, -np.where(y == 1, z, -z))
    return weights @ losses / weights.sum() + alpha * (ratio * np.abs(w).sum() + 0.5 * (1.0 - ratio) * w @ w)


@pytest.mark.parametrize(("penalty", "ratio"), [("l2", 0.0), ("l1", 1.0), ("elasticnet", 0.15)])
def test_the_objective_is_the_documented_one(penalty, ratio):
    X, y = cancer()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, y.size)
    model = SGDClassifier("log_loss", penalty=penalty, alpha=0.05, stop="gap", tol=5e-3).fit(
        X, y, sample_weight=weights
    )
    value = objective(model, X, y, weights, 0.05, ratio)
    assert model.status_ is Status.CONVERGED
    assert model.objective_ / weights.sum() == pytest.approx(value, rel=1e-9)
    verdict = certify(model, X, y, sample_weight=weights)
    assert (verdict.primal, verdict.dual) == pytest.approx((model.objective_, model.dual_objective_), rel=1e-9)
    if penalty == "l2":
        exact = clone(model).set_params(solver="newton", tol=1e-9).fit(X, y, sample_weight=weights)
        assert value == pytest.approx(objective(exact, X, y, weights, 0.05, ratio), rel=5.1e-3)
        assert exact.solution_.solver == "newton"


def test_weights_and_copies_are_the_same_problem():
    X, y = diabetes()
    twice = np.arange(y.size) % 2 + 1
    weighted = SGDRegressor(alpha=0.1, solver="newton", tol=1e-9).fit(X, y, sample_weight=twice)
    copied = SGDRegressor(alpha=0.1, solver="newton", tol=1e-9).fit(np.repeat(X, twice, axis=0), np.repeat(y, twice))
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared_error", "epsilon_insensitive", "squared_epsilon_insensitive"])
def test_the_regressor_comes_near_the_optimum(loss):
    X, y = diabetes()
    model = SGDRegressor(loss, alpha=0.1, stop="gap").fit(X, y)
    exact = SGDRegressor(loss, alpha=0.1, solver="newton", tol=1e-8).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert exact.objective_ * (1.0 - 1e-7) <= model.objective_ <= exact.objective_ * (1.0 + 1.1e-3)
    assert model.coef_.shape == (10,)
    assert model.intercept_.shape == (1,)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_[0], rtol=1e-12)


def test_several_classes_and_their_probabilities():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = SGDClassifier("log_loss", alpha=0.02, tol=1e-2).fit(scale(X), names)
    assert model.coef_.shape == (3, 4)
    assert model.score(scale(X), names) > 0.8
    scores = model.decision_function(scale(X))
    sigmoid = 1.0 / (1.0 + np.exp(-scores))
    np.testing.assert_allclose(model.predict_proba(scale(X)), sigmoid / sigmoid.sum(axis=1)[:, None], rtol=1e-12)
    np.testing.assert_array_equal(model.predict(scale(X)), model.classes_[scores.argmax(axis=1)])
    two = SGDClassifier("log_loss", alpha=0.02, tol=1e-2).fit(scale(X), y == 1)
    p = two.predict_proba(scale(X))
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-two.decision_function(scale(X)))), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert not hasattr(SGDClassifier(), "predict_proba")


def test_threads_do_not_change_the_bits():
    X, y = load_iris(return_X_y=True)
    one, two = (SGDClassifier(alpha=0.05, tol=1e-2, n_jobs=jobs).fit(scale(X), y) for jobs in (1, 2))
    assert one.coef_.tobytes() == two.coef_.tobytes()


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_partial_fit_over_chunks_is_about_as_good_as_fit(layout):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(6000, 10))
    y = np.where(X @ rng.normal(size=10) + rng.normal(size=6000) > 0.3, "yes", "no")
    fitted = SGDClassifier("log_loss", alpha=1e-2, solver="newton").fit(X, y)
    stream = SGDClassifier("log_loss", alpha=1e-2)
    for rows in np.array_split(np.arange(6000), 20):
        stream.partial_fit(layout(X[rows]), y[rows], classes=["no", "yes"])
    assert stream.t_ == 6001
    assert stream.n_iter_ == 20
    labels = (y == "yes").astype(int)
    best, found = (objective(model, X, labels, np.ones(6000), 1e-2, 0.0) for model in (fitted, stream))
    assert found <= 1.01 * best
    assert certify(stream, X, y).primal == pytest.approx(6000 * found, rel=1e-9)
    # The certificate it has is that of the last samples alone.
    assert stream.objective_ == pytest.approx(300 * objective(stream, X[-300:], labels[-300:], np.ones(300), 1e-2, 0.0))


def test_the_regressor_learns_from_a_stream_row_by_row():
    X, y = zoo.line(2000, 4, seed=3)
    model = SGDRegressor(alpha=1e-3)
    for i in range(200):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    model.partial_fit(X[200:], y[200:])
    assert model.t_ == 2001
    assert model.score(X, y) > SGDRegressor(alpha=1e-3, solver="newton").fit(X, y).score(X, y) - 1e-3


def test_a_fit_can_be_followed_by_a_stream_and_the_other_way_round():
    X, y = cancer()
    model = SGDClassifier(alpha=1e-2, tol=1e-2).fit(X, y)
    steps, before = model.t_, model.coef_.copy()
    model.partial_fit(X[:50], y[:50])
    assert model.t_ == steps + 50
    assert 0.0 < np.abs(model.coef_ - before).max() < np.abs(before).max()
    model.fit(X, y)
    assert model.coef_.tobytes() == before.tobytes()


def test_streams_are_refused_in_sentences():
    X, y = cancer()
    with pytest.raises(ValueError, match="needs classes"):
        SGDClassifier().partial_fit(X, y)
    model = SGDClassifier().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"not the same as in the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="label 7, which is not one of the classes"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="30 features"):
        model.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="'balanced' is not supported for partial_fit"):
        SGDClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="partial_fit needs solver='sgd'"):
        SGDClassifier(solver="newton").partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "quantile"}, "loss"),
        ({"penalty": "elasticnet", "l1_ratio": None}, "l1_ratio must be set"),
        ({"early_stopping": True, "stop": "gap"}, "stops by its certificate"),
        ({"tol": None, "stop": "gap"}, "a certified gap is never zero"),
        ({"learning_rate": "pa1", "loss": "log_loss"}, "only works with loss 'hinge'"),
        ({"shuffle": False, "order": "uniform"}, "contradicts"),
        ({"alpha": 0.0}, "alpha"),
        ({"penalty": "l1", "solver": "newton"}, "L2 penalty; this problem has L1"),
    ],
)
def test_parameters_are_refused_in_sentences(parameters, message):
    X, y = cancer()
    with pytest.raises(ValueError, match=message):
        SGDClassifier(**parameters).fit(X, y)


def test_a_fit_that_ends_early_says_so_and_can_be_resumed():
    X, y = cancer()
    model = SGDClassifier(alpha=1e-2, max_iter=2, warm_start=True, stop="gap")
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.n_iter_ == 2
    gap = model.duality_gap_
    model.set_params(max_iter=1000, tol=5e-3).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.duality_gap_ < gap


def test_class_weights_count():
    X, y = cancer()
    heavy = {0: 10.0, 1: 1.0}
    model = SGDClassifier("log_loss", alpha=0.1, class_weight=heavy, stop="gap", tol=5e-3).fit(X, y)
    w, z = model.coef_[0], model.decision_function(X)
    losses = np.where(y == 0, 10.0, 1.0) @ np.logaddexp(0.0, -np.where(y == 1, z, -z))
    assert model.objective_ == pytest.approx(losses + 0.1 * y.size * 0.5 * w @ w, rel=1e-9)
    stream = SGDClassifier(
        "log_loss", alpha=0.1, class_weight=heavy, learning_rate="constant", eta0=0.01, average=False
    )
    stream.partial_fit(X[:5], y[:5], classes=[0, 1])
    expected = walk(
        X, 2.0 * y - 1.0, np.where(y == 0, 10.0, 1.0), logistic_slope, SplitMix(0).visits("permutation", range(5), 1),
        lambda t: 0.01, 0.0, 0.1,
    )[-1]  # fmt: skip
    np.testing.assert_allclose(stream.coef_[0], expected[0], rtol=1e-11)


def test_scikit_learns_models_are_judged_by_the_same_objective():
    X, y = cancer()
    model = sklearn.linear_model.SGDClassifier(alpha=0.05, random_state=0, average=True).fit(X, y)
    verdict = certify(model, X, y)
    w, z = model.coef_[0], (2 * y - 1) * model.decision_function(X)
    assert verdict.primal == pytest.approx(np.maximum(0.0, 1.0 - z).sum() + 0.05 * y.size * 0.5 * w @ w, rel=1e-9)
    ours = SGDClassifier(alpha=0.05, stop="gap").fit(X, y)
    assert ours.dual_objective_ <= verdict.primal
    assert verdict.dual <= ours.objective_
    with pytest.raises(ValueError, match="penalty=None"):
        certify(sklearn.linear_model.SGDClassifier(penalty=None).fit(X, y), X, y)


@pytest.mark.parametrize(
    ("ours", "theirs", "different"),
    [
        (SGDClassifier, sklearn.linear_model.SGDClassifier, {"eta0", "average"}),
        (SGDRegressor, sklearn.linear_model.SGDRegressor, {"eta0", "average", "learning_rate", "power_t"}),
    ],
)
def test_arguments_are_those_of_scikit_learn_and_more(ours, theirs, different):
    mine, other = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert set(other) <= set(mine)
    for name, parameter in mine.items():
        if name in other and name not in different:
            assert parameter.default == other[name].default, name
        line = next(line for line in ours.__doc__.splitlines() if line.strip().startswith(f"{name} : "))
        if "default=" in line:  # the list of losses is longer than a line
            assert eval(line.split("default=")[1]) == parameter.default, name


@pytest.mark.parametrize("model", [SGDClassifier(alpha=0.1, tol=1e-2), SGDRegressor(alpha=0.1, tol=1e-2)], ids=str)
def test_models_can_be_stored(model, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = clone(model).fit(scale(X), y)
    save_model(model, tmp_path / "model.mm")
    restored = load_model(tmp_path / "model.mm")
    np.testing.assert_array_equal(restored.predict(scale(X)), model.predict(scale(X)))
    assert restored.duality_gap_ == model.duality_gap_
    restored.partial_fit(scale(X), y)
    assert restored.t_ == model.t_ + y.size


@pytest.mark.parametrize(("first", "expected"), [(1.0, 64.0), (1024.0, 64.0), (64.0, 64.0)])
def test_the_grid_is_searched_upwards_and_then_downwards(first, expected):
    tried = []

    def value(x):
        tried.append(x)
        return 1.0 + math.log2(x / 50.0) ** 2

    assert lowest_on_grid(value, first, 4.0) == expected
    assert len(tried) == len(set(tried))
    assert lowest_on_grid(lambda x: math.inf, 3.0, 4.0) == 3.0  # nothing to choose from
    assert lowest_on_grid(lambda x: 1.0 / x, 1.0, 2.0, least_gain=0.6) == 1.0  # half is not enough


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_samples_that_are_held_out_are_not_learnt_from(kind):
    X, y = cancer() if kind is SGDClassifier else diabetes()
    options = {"learning_rate": "constant", "eta0": 0.01, "shuffle": False, "tol": None, "max_iter": 5}
    model = kind(early_stopping=True, validation_fraction=0.3, random_state=0, **options).fit(X, y)
    splitter = StratifiedShuffleSplit if kind is SGDClassifier else ShuffleSplit
    rest = np.sort(next(splitter(test_size=0.3, random_state=0).split(X, y))[0])
    alone = kind(random_state=0, **options).fit(X[rest], y[rest])
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-12)
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-12)
    stopped = kind(early_stopping=True, random_state=0).fit(X, y)
    assert stopped.status_ is Status.SETTLED
    assert stopped.n_iter_ >= 5
    with pytest.raises(ValueError, match="early_stopping should be False"):
        kind(early_stopping=True).partial_fit(X, y)


# ---- the rule of the objective, as scikit-learn has it ---------------------------------------------------------------


def test_a_fit_stops_when_the_objective_no_longer_falls():
    """Counted from the walk in plain NumPy: the mean objective that the steps of an epoch find before they are made."""
    X, y, s = small(9, n=40)
    s[:] = 1.0
    problem = Problem(Rows(X), y, Logistic(), L2(0.4), s)
    tol, patience, eta = 1e-3, 3, 0.5
    state = (solver := SGD(order="cyclic", learning_rate="constant", eta0=eta, settle=tol, patience=patience)).start(
        problem, None
    )
    while not state.exhausted:
        state = solver.advance(problem, state, 1000)
    path = walk(X, y, s, logistic_slope, list(range(40)) * state.iterations, lambda t: eta, 0.0, 0.01)
    before = [(np.zeros(X.shape[1]), 0.0), *path]
    best, idle, epoch = math.inf, 0, 0
    while idle < patience:
        steps = range(40 * epoch, 40 * (epoch + 1))
        losses = [math.log1p(math.exp(-y[t % 40] * (X[t % 40] @ before[t][0] + before[t][1]))) for t in steps]
        end = before[40 * (epoch + 1)][0]
        value = np.mean(losses) + 0.005 * end @ end
        idle, best, epoch = (idle + 1 if value > best - tol else 0), min(best, value), epoch + 1
    assert state.iterations == epoch
    assert state.at_rest is Status.SETTLED


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_default_fits_end_silently_with_their_true_gap(kind, layout):
    X, y = cancer() if kind is SGDClassifier else diabetes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind().fit(layout(X), y)
    assert model.status_ is Status.SETTLED
    assert model.n_iter_ < 1000
    assert model.t_ == model.n_iter_ * y.size + 1
    verdict = certify(model, X, y)
    assert (verdict.primal, verdict.dual) == pytest.approx((model.objective_, model.dual_objective_), rel=1e-9)
    by_loop = kind(max_time=60.0).fit(layout(X), y)  # through the loop, which looks at the clock
    np.testing.assert_array_equal(by_loop.coef_, model.coef_)
    assert by_loop.duality_gap_ == model.duality_gap_
    exact = kind(solver="newton", tol=1e-8).fit(X, y)
    assert model.dual_objective_ <= exact.objective_ <= model.objective_ * (1.0 + 1e-8)


def test_tol_says_by_how_much_the_objective_has_to_fall():
    X, y = cancer()
    loose, tight = (SGDClassifier(tol=tol).fit(X, y).n_iter_ for tol in (0.1, 0.0))
    assert 5 < loose < tight < 1000
    with pytest.warns(ConvergenceWarning, match="Maximum number of iteration reached before convergence"):
        SGDClassifier(max_iter=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = SGDClassifier(tol=None, max_iter=7).fit(X, y)
    assert (asked.n_iter_, asked.status_) == (7, Status.PASSED)
    gap = SGDClassifier(alpha=0.01, stop="gap", tol=1e-2).fit(X, y)
    assert gap.duality_gap_ <= 1e-2


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("average", ["auto", False, 10])
def test_two_passes_of_a_stream_are_a_fit_of_two_epochs(kind, average):
    X, y = cancer() if kind is SGDClassifier else diabetes()
    options = {"average": average, "shuffle": False}
    fitted, stream = kind(max_iter=2, tol=None, **options).fit(X, y), kind(**options)
    for _ in range(2):
        stream.partial_fit(X, y, **({"classes": [0, 1]} if kind is SGDClassifier else {}))
    np.testing.assert_allclose(stream.coef_, fitted.coef_, rtol=1e-9)
    assert stream.t_ == fitted.t_
    assert "gap" not in stream.solution_.message
    assert "limit" not in stream.solution_.message


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("average", "weight"), [(True, lambda t: 1.0), (10, lambda t: t >= 10), ("auto", lambda t: t**3)]
)
def test_averages_count_the_points_that_they_should(layout, average, weight):
    X, y, _ = small(10, n=30)
    options = {"learning_rate": "constant", "eta0": 0.1, "shuffle": False, "tol": None, "alpha": 0.5}
    model = SGDClassifier("log_loss", average=average, max_iter=1, **options).fit(layout(X), y)
    path = walk(X, y, np.ones(30), logistic_slope, range(30), lambda t: 0.1, 0.0, 0.5)
    weights = np.array([float(weight(t)) for t in range(1, 31)])
    np.testing.assert_allclose(model.coef_[0], weights @ [w for w, _ in path] / weights.sum(), rtol=1e-10)
    assert model.intercept_[0] == pytest.approx(weights @ [b for _, b in path] / weights.sum(), rel=1e-10)


@pytest.mark.parametrize("rate", ["pa1", "pa2"])
@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_passive_aggressive_steps_follow_their_formulas(kind, rate):
    """Crammer et al., "Online passive-aggressive algorithms", JMLR 2006, figure 1, with an intercept beside."""
    X, y, _ = small(11, n=30)
    loss = "hinge" if kind is SGDClassifier else "epsilon_insensitive"
    options = {"penalty": None, "shuffle": False, "tol": None, "max_iter": 2, "average": False}
    model = kind(loss, learning_rate=rate, eta0=0.7, **options).fit(X, y)
    w, b = np.zeros(X.shape[1]), 0.0
    for i in list(range(30)) * 2:
        z, square = X[i] @ w + b, X[i] @ X[i]
        cost = max(0.0, 1.0 - y[i] * z) if kind is SGDClassifier else max(0.0, abs(y[i] - z) - 0.1)
        tau = min(0.7, cost / square) if rate == "pa1" else cost / (square + 0.5 / 0.7)
        sign = y[i] if kind is SGDClassifier else math.copysign(1.0, y[i] - z)
        w, b = w + sign * tau * X[i], b + sign * tau
    np.testing.assert_allclose(np.ravel(model.coef_), w, rtol=1e-10)
    assert model.intercept_[0] == pytest.approx(b, rel=1e-10)


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_losses_of_huber_are_those_of_the_formulas(kind):
    X, y = cancer() if kind is SGDClassifier else diabetes()
    name = "modified_huber" if kind is SGDClassifier else "huber"
    model = kind(name, alpha=0.05, epsilon=0.3).fit(X, y)
    z = X @ np.ravel(model.coef_) + model.intercept_[0]
    if kind is SGDClassifier:
        m = np.where(y == 1, z, -z)
        losses = np.where(m >= -1.0, np.maximum(0.0, 1.0 - m) ** 2, -4.0 * m)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p[:, 1], (np.clip(z, -1.0, 1.0) + 1.0) / 2.0, atol=1e-12)
    else:
        r = np.abs(z - y)
        losses = np.where(r <= 0.3, r * r / 2.0, 0.3 * (r - 0.15))
    w = np.ravel(model.coef_)
    assert model.objective_ == pytest.approx(losses.sum() + 0.05 * y.size * 0.5 * w @ w, rel=1e-9)
    exact = clone(model).set_params(solver="newton", tol=1e-8).fit(X, y)
    assert model.dual_objective_ <= exact.objective_ <= model.objective_ * (1.0 + 1e-8)
    assert exact.duality_gap_ <= 1e-8
    assert kind.loss_functions["huber"][1] == 0.1


def test_without_a_penalty_the_bound_is_among_coefficients_of_some_size():
    X, y = diabetes()
    model = SGDRegressor(penalty=None, tol=1e-6).fit(X, y)
    best = np.linalg.lstsq(np.c_[X, np.ones(y.size)], y, rcond=None)[1][0] / 2.0
    assert model.dual_objective_ <= best <= model.objective_ <= 1.05 * best
    with pytest.raises(ValueError, match="alpha must be > 0"):
        SGDRegressor(alpha=0.0).fit(X, y)
    constant = SGDRegressor(alpha=0.0, learning_rate="constant", eta0=1e-3).fit(X, y)
    assert constant.objective_ <= 1.1 * best


def test_fits_start_where_they_are_told():
    X, y = load_iris(return_X_y=True)
    options = {"tol": None, "max_iter": 3, "shuffle": False, "learning_rate": "constant", "eta0": 0.01}
    first = SGDClassifier(warm_start=True, **options).fit(X, y)
    given = SGDClassifier(**options).fit(X, y, coef_init=first.coef_, intercept_init=first.intercept_)
    assert not np.array_equal(given.coef_, first.coef_)
    np.testing.assert_array_equal(first.fit(X, y).coef_, given.coef_)
    for wrong in ({"coef_init": np.zeros((2, 4))}, {"intercept_init": np.zeros(2)}):
        with pytest.raises(ValueError, match="does not match dataset"):
            SGDClassifier().fit(X, y, **wrong)


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_models_of_float32_samples_are_float32_and_certified_as_they_are(kind):
    X, y = cancer() if kind is SGDClassifier else diabetes()
    X = X.astype(np.float32)
    model = kind(alpha=0.01).fit(X, y)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    verdict = certify(model, X, y)
    assert verdict.primal == pytest.approx(model.objective_, rel=1e-12)


def test_a_pass_over_wide_rows_in_chunks_averages_too():
    """Where a snapshot of all coefficients takes longer than a chunk, the average is kept without any."""
    rng = np.random.default_rng(5)
    X = sp.random_array((400, 5000), density=0.002, format="csr", rng=rng)
    y = np.where(np.ravel(X[:, :2500].sum(axis=1) - X[:, 2500:].sum(axis=1)) > 0.0, 1, 0)
    stream, last = SGDClassifier(), SGDClassifier(average=False)
    for rows in np.array_split(np.arange(400), 8):
        for model in (stream, last):
            model.partial_fit(X[rows], y[rows], classes=[0, 1])
    assert np.abs(stream.coef_ - last.coef_).max() > 0.0


@pytest.mark.parametrize("average", ["auto", True, False])
@pytest.mark.parametrize(("model", "loss"), [(SGDClassifier, "hinge"), (SGDRegressor, "epsilon_insensitive")])
def test_pegasos_solves_the_problem_for_every_average(model, loss, average):
    X, y = zoo.blobs(60, 3, seed=0) if model is SGDClassifier else zoo.line(60, 3, seed=0)
    options = {"alpha": 0.1, "loss": loss, "average": average, "solver": "pegasos"}
    for order in ({"order": "uniform"}, {"order": "cyclic"}, {"shuffle": False}, {}):
        fitted = model(max_iter=-1, max_time=60.0, tol=1e-2, **options, **order).fit(X, y)
        assert fitted.duality_gap_ <= 1e-2
        assert certify(fitted, X, y).relative_gap == pytest.approx(fitted.duality_gap_)


def test_averages_are_hints_in_the_words_of_pegasos():
    solvers = [Pegasos.with_hints({"average": average}) for average in (None, True, False, "uniform")]
    assert [solver.average for solver in solvers] == ["suffix", "suffix", "last", "uniform"]


@pytest.mark.parametrize(
    ("solver", "parameter", "value"),
    [
        ("pegasos", "learning_rate", "constant"),
        ("pegasos", "eta0", 0.1),
        ("pegasos", "power_t", 0.25),
        ("pegasos", "n_iter_no_change", 9),
        ("newton", "average", False),
        ("newton", "order", "uniform"),
        ("dual_coordinate", "shuffle", False),
    ],
)
def test_parameters_that_a_solver_would_ignore_are_refused(solver, parameter, value):
    X, y = zoo.blobs(20, 3, seed=0)
    for model in (SGDClassifier, SGDRegressor):
        message = f"{parameter}={value!r} has no effect on solver='{solver}'"
        with pytest.raises(ValueError, match=f"{message}.*leave it at its default, or use solver='sgd'"):
            model(solver=solver, **{parameter: value}).fit(X, y)


@pytest.mark.parametrize("model", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("solver", [*SOLVERS, "auto", "nonsense"])
def test_every_name_of_a_solver_fits_or_is_refused_in_a_sentence(model, solver):
    X, y = zoo.blobs(40, 3, seed=0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = model(solver=solver, max_iter=20).fit(X, y)
    except ValueError as error:
        assert re.search("cannot solve this problem of .*'auto' can|'nonsense' is unknown", str(error))  # noqa: PT017
    else:
        assert np.isfinite(fitted.coef_).all()
