"""Ridge regression and least squares: closed forms, other people's answers, and what is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.kernel_ridge
import sklearn.linear_model as peers
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

import clients
from maxmargin import (
    KernelRidge,
    LinearRegression,
    Problem,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    Status,
    certify,
    explain_solver,
    load_planets,
    minimize,
)
from maxmargin.io import open_chunks
from maxmargin.operators import Chunks, Rows
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2, Unpenalised
from maxmargin.solvers import SVD, Cholesky, ConjugateGradients, KernelCoordinate

RNG = np.random.default_rng(0)
DIRECT = [Cholesky(), SVD(), ConjugateGradients()]
every_solver = pytest.mark.parametrize("solver", DIRECT, ids=lambda solver: solver.name)


def data(n=60, d=5, seed=0, shift=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + shift
    return X, X @ rng.normal(size=d) + rng.normal(size=n), rng.uniform(0.1, 2.0, size=n)


TALL, WIDE = data(60, 5), data(20, 40)
both_shapes = pytest.mark.parametrize(("X", "y", "s"), [TALL, WIDE], ids=["tall", "wide"])


def close(one, other, tolerance=1e-8):
    assert np.shape(one) == np.shape(other)
    scale = np.abs(other).max(initial=0.0) + 1e-300
    assert np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0) <= tolerance * scale


def certified(model):
    assert model.status_ is Status.CONVERGED
    assert model.duality_gap_ <= model.tol


# ---- closed forms (seed items 3-02, 3-05, 3-13) ----------------------------------------------------------------------


@every_solver
@both_shapes
def test_the_solution_is_the_fixed_point_of_descent_and_shrinkage(solver, X, y, s):
    """``(A^T A + lam I) w = A^T d``, and ``w`` is what is left of a step of descent that shrinks to the origin."""
    lam = 0.7
    w = minimize(Problem(Rows(X), y, Squared(), L2(lam), np.ones(y.size), None), solver, tol=1e-13).point.w
    close((X.T @ X + lam * np.eye(X.shape[1])) @ w, X.T @ y)
    tau = 0.3 / np.linalg.norm(X, 2) ** 2
    z = w - tau * X.T @ (X @ w - y)
    close(z / (1.0 + lam * tau), w)
    assert np.linalg.norm(z) > np.linalg.norm(w)


@every_solver
def test_without_a_penalty_the_limit_of_descent_is_found(solver):
    """``(A^T A)^-1 A^T d``, and for columns that depend on each other the solution of least norm."""
    X, y, _ = TALL
    reach = Unpenalised(np.full(5, 1e3))
    w = minimize(Problem(Rows(X), y, Squared(), reach, np.ones(60), None), solver, tol=1e-8).point.w
    close(w, np.linalg.solve(X.T @ X, X.T @ y))
    if solver.name == "cholesky":
        return
    A = X[:, [0, 1, 2, 0, 1]]
    w = minimize(Problem(Rows(A), y, Squared(), reach, np.ones(60), None), solver, tol=1e-8).point.w
    close(w, np.linalg.pinv(A) @ y)


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.booleans(), st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
def test_any_shape_and_rank(n, d, rank, free, alpha):
    """The closed form by pseudo-inverses, for whole numbers that depend on each other in any way."""
    rng = np.random.default_rng(100 * n + 10 * d + rank)
    X = (rng.integers(-2, 3, (n, rank)) @ rng.integers(-2, 3, (rank, d))).astype(float)
    y, s = rng.integers(-5, 6, n).astype(float), rng.integers(0, 3, n).astype(float)
    s[0] = 1.0
    model = Ridge(alpha, fit_intercept=free, tol=1e-6).fit(X, y, s)
    certified(model)
    centre, middle = ((s @ X) / s.sum(), s @ y / s.sum()) if free else (np.zeros(d), 0.0)
    A, t = np.sqrt(s)[:, None] * (X - centre), np.sqrt(s) * (y - middle)
    w = np.linalg.pinv(A, rcond=1e-10) @ t if alpha == 0.0 else np.linalg.solve(A.T @ A + alpha * np.eye(d), A.T @ t)
    np.testing.assert_allclose(model.coef_, w, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, middle - centre @ w, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 50), st.booleans())
def test_weight_2_is_the_row_twice(seed, wide):
    X, y, _ = data(8, 12 if wide else 3, seed)
    s = np.random.default_rng(seed).integers(0, 3, 8)
    s[:2] = 1, 2
    for model in (Ridge(0.3), LinearRegression(), KernelRidge(kernel="rbf", alpha=0.1)):
        weighted = model.fit(X, y, s).predict(X)
        np.testing.assert_allclose(model.fit(X.repeat(s, axis=0), y.repeat(s)).predict(X), weighted, atol=1e-8)


def test_the_optimum_is_within_the_certificate():
    """Also without a penalty, where the reach of the coefficients is stated."""
    for X, y, s in (TALL, WIDE, data(40, 3, shift=1e4)):
        for model, alpha in ((Ridge(1e-3), 1e-3), (LinearRegression(), 0.0)):
            certificate = model.fit(X, y, s).solution_.certificate
            w = np.linalg.lstsq(
                np.vstack([np.sqrt(s)[:, None] * (X - s @ X / s.sum()), np.sqrt(alpha) * np.eye(X.shape[1])]),
                np.append(np.sqrt(s) * (y - s @ y / s.sum()), np.zeros(X.shape[1])),
                rcond=1e-12,
            )[0]
            best = s @ (y - s @ y / s.sum() - (X - s @ X / s.sum()) @ w) ** 2 + alpha * w @ w
            assert certificate.dual - certificate.error <= best + 1e-13 * (y @ y)
            assert certificate.primal + certificate.error >= best - 1e-13 * (y @ y)


# ---- rank and reach --------------------------------------------------------------------------------------------------


def test_columns_that_nearly_depend_on_each_other_reach_further():
    X = np.column_stack([np.arange(50.0), np.arange(50.0) + 1e-2 * RNG.normal(size=50)])
    y = X @ [3e3, -3e3] + RNG.normal(size=50)
    model = LinearRegression().fit(X, y)
    certified(model)
    close(model.coef_, np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0], 1e-7)
    assert certify(model, X, y).relative_gap <= 1e-5  # from the coefficients alone, whose residuals are rounded


@both_shapes
def test_singular_values_are_those_of_scikit_learn(X, y, s):
    X = X.copy()
    X[:, 1] = X[:, 0]
    ours, theirs = LinearRegression().fit(X, y, s), peers.LinearRegression().fit(X, y, s)
    assert ours.rank_ == theirs.rank_
    close(ours.singular_, theirs.singular_, 1e-6)
    close(ours.coef_, theirs.coef_)
    sparse = LinearRegression().fit(sp.csr_array(X), y, s)
    close(sparse.coef_, theirs.coef_)
    assert not hasattr(sparse, "rank_")


def test_the_table_prefers_equations_where_they_are_few():
    X, y, _ = TALL
    assert "uses 'cholesky', because its optimum solves 6 linear equations" in explain_solver(Ridge(), X, y)
    text = sp.random(3000, 50000, 0.001, format="csr", random_state=0)
    assert "uses 'conjugate_gradients'" in explain_solver(Ridge(), text, np.ones(3000))
    assert "uses 'kernel_cholesky'" in explain_solver(KernelRidge(), X, y)
    assert Ridge(alpha=0.0).fit(X[:, [0, 0]], y).solver_ == "svd"


# ---- agreement with scikit-learn -------------------------------------------------------------------------------------


@both_shapes
@pytest.mark.parametrize("alpha", [0.0, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csc_array, np.asfortranarray])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_agrees_with_scikit_learn(X, y, s, alpha, layout, fit_intercept):
    Y = np.column_stack([y, np.cos(y)])
    for targets in (y, y[:, None], Y):
        for weights in (None, s, 3.0):
            ours = Ridge(alpha, fit_intercept=fit_intercept, tol=1e-6).fit(layout(X), targets, weights)
            theirs = peers.Ridge(alpha or 1e-12, fit_intercept=fit_intercept, solver="svd").fit(X, targets, weights)
            certified(ours)
            close(ours.coef_, theirs.coef_)
            np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8, atol=1e-9)
            close(ours.predict(layout(X)), theirs.predict(X))
            assert certify(ours, layout(X), targets, weights).relative_gap <= 1e-6


def test_each_target_has_its_own_strength():
    X, y, s = TALL
    Y = np.column_stack([y, y**2, np.sin(y)])
    ours, theirs = (kind(alpha=[1.0, 0.1, 10.0]).fit(X, Y, s) for kind in (Ridge, peers.Ridge))
    close(ours.coef_, theirs.coef_)
    assert certify(ours, X, Y, s).relative_gap <= 1e-10 >= certify(theirs, X, Y, s).relative_gap
    with pytest.raises(ValueError, match="do not correspond: 2 != 3"):
        Ridge(alpha=[1.0, 2.0]).fit(X, Y)


@pytest.mark.parametrize("solver", ["cholesky", "svd", "lsqr", "sparse_cg", "sag", "saga", "lbfgs", "newton"])
def test_solvers_agree(solver):
    X, y, s = TALL
    model = Ridge(tol=1e-11, solver=solver).fit(X, y, s)
    certified(model)
    close(model.coef_, peers.Ridge().fit(X, y, s).coef_, 1e-6)


@both_shapes
@pytest.mark.parametrize("options", [{"positive": True}, {"bounds": (-0.3, 0.2)}, {"bounds": ([-1] * 2, [0] * 2)}])
@pytest.mark.parametrize("model", [Ridge(tol=1e-9), LinearRegression(tol=1e-7)], ids=["ridge", "least squares"])
def test_limits_of_coefficients(X, y, s, options, model):
    X = X[:, :2] if "bounds" in options and np.size(options["bounds"][0]) == 2 else X[:, :4]
    low, high = (0.0, np.inf) if "positive" in options else options["bounds"]
    model.set_params(**{"positive": False, "bounds": None} | options).fit(X, y, s)
    certified(model)
    assert (model.coef_ >= low).all()
    assert (model.coef_ <= high).all()
    gradient = (X - s @ X / s.sum()).T @ (s * (y - model.predict(X))) - getattr(model, "alpha", 0.0) * model.coef_
    free = (model.coef_ > np.asarray(low)) & (model.coef_ < np.asarray(high))
    assert (np.abs(gradient[free]) <= 1e-3).all()
    assert (gradient[model.coef_ == low] <= 1e-3).all()
    assert certify(model, X, y, s).relative_gap <= 1e-6


def test_positive_coefficients_agree_with_scikit_learn():
    X, y, s = TALL
    close(
        LinearRegression(positive=True, tol=1e-10).fit(X, y, s).coef_,
        peers.LinearRegression(positive=True).fit(X, y, s).coef_,
    )
    theirs = peers.Ridge(positive=True, tol=1e-10).fit(X, y, s)
    close(Ridge(positive=True, tol=1e-10).fit(X, y, s).coef_, theirs.coef_, 1e-6)
    assert certify(theirs, X, y, s).relative_gap <= 1e-6


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "polynomial", "callable", "precomputed"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_kernel_ridge_agrees_with_scikit_learn(kernel, layout):
    X, y, s = TALL
    Y = np.column_stack([y, np.cos(y)])
    options = {"kernel": kernel, "gamma": 0.3, "alpha": np.array([0.1, 2.0])}
    if kernel == "callable":
        options |= {"kernel": lambda a, b, power: float(1.0 + a @ b) ** power, "kernel_params": {"power": 2}}
        layout = np.asarray
    if kernel == "precomputed":
        X, layout = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2)), np.asarray
    tol = 1e-8 if kernel == "callable" else 1e-9  # whose values may be wrong by more
    ours = KernelRidge(**options, tol=tol).fit(layout(X), Y, s)
    theirs = sklearn.kernel_ridge.KernelRidge(**options).fit(X, Y, s)
    certified(ours)
    close(ours.dual_coef_, theirs.dual_coef_, 1e-7)
    close(ours.predict(layout(X)), theirs.predict(X))
    assert certify(ours, layout(X), Y, s).relative_gap <= tol >= certify(theirs, X, Y, s).relative_gap
    one = KernelRidge(**(options | {"alpha": 0.1})).fit(layout(X), y)
    close(one.predict(layout(X)), sklearn.kernel_ridge.KernelRidge(**(options | {"alpha": 0.1})).fit(X, y).predict(X))


@pytest.mark.parametrize("order", ["permutation", "uniform", "cyclic"])
def test_dual_coordinate_descent_of_kernel_ridge_is_monotone(order):
    """Seed item 4-11."""
    X, y, _ = TALL
    model, duals = KernelRidge(kernel="rbf", alpha=0.5, tol=1e-10), []
    problem = Problem(model.fit(X, y)._kernel_matrix(X), y, Squared(), L2(1.0), np.full(60, 2.0), None)
    solution = minimize(
        problem, KernelCoordinate(order=order), tol=1e-10, callback=lambda record: duals.append(record.dual) or False
    )
    assert solution.status is Status.CONVERGED
    assert (np.diff(duals) >= -1e-12 * abs(duals[-1])).all()
    close(solution.point.w, model.dual_coef_, 1e-4)
    assert KernelRidge(kernel="rbf", solver="kernel_coordinate").fit(X, y).status_ is Status.CONVERGED


# ---- classes ---------------------------------------------------------------------------------------------------------


def test_least_squares_fails_on_the_planets():
    """Seed item 3-21: Jupiter draws the boundary to itself, and Mercury and the Earth become dwarfs."""
    X, y, names = load_planets()
    model = RidgeClassifier(alpha=0.0).fit(X, y)
    np.testing.assert_allclose([model.coef_[0, 0], model.intercept_[0]], [0.0096667, -0.268096], atol=5e-7)
    assert -model.intercept_[0] / model.coef_[0, 0] == pytest.approx(27.733, abs=5e-4)
    assert [name for name, wrong in zip(names, model.predict(X) != y, strict=True) if wrong] == ["Mercury", "Earth"]
    assert model.objective_ == pytest.approx(4.501628, abs=5e-7)
    certified(model)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_ridge_classifier_agrees_with_scikit_learn(classes, class_weight):
    X, y, s = TALL
    codes = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    ours, theirs = (k(class_weight=class_weight).fit(X, codes) for k in (RidgeClassifier, peers.RidgeClassifier))
    close(ours.coef_, np.atleast_2d(theirs.coef_))
    close(ours.decision_function(X), theirs.decision_function(X))
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert certify(theirs.fit(X, codes, s), X, codes, s).relative_gap <= 1e-9
    assert certify(ours.fit(X, codes, s), X, codes, s).relative_gap <= 1e-9


def test_several_labels():
    X, y, s = TALL
    Y = np.column_stack([y > 0, y > 1, np.sin(y) > 0]).astype(int)
    ours, theirs = (kind().fit(X, Y, s) for kind in (RidgeClassifier, peers.RidgeClassifier))
    close(ours.coef_, theirs.coef_)
    close(ours.decision_function(X), theirs.decision_function(X))
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert certify(ours, X, Y, s).relative_gap <= 1e-9
    with pytest.raises(ValueError, match="class_weight is for classes of which a sample has one"):
        RidgeClassifier(class_weight="balanced").fit(X, Y)


# ---- cross-validation ------------------------------------------------------------------------------------------------


@both_shapes
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("gcv_mode", [None, "svd"])
def test_samples_are_really_left_out(X, y, s, fit_intercept, gcv_mode):
    alphas = [0.1, 10.0]
    model = RidgeCV(alphas, fit_intercept=fit_intercept, gcv_mode=gcv_mode, store_cv_results=True).fit(X, y, s)
    for k, alpha in enumerate(alphas):
        for i in range(0, y.size, 7):
            rest = np.arange(y.size) != i
            fitted = Ridge(alpha, fit_intercept=fit_intercept).fit(X[rest], y[rest], s[rest])
            assert model.cv_results_[i, k] == pytest.approx(s[i] * (y[i] - fitted.predict(X[[i]])[0]) ** 2, rel=1e-7)
    assert model.best_score_ == pytest.approx(-model.cv_results_.mean(axis=0).min())
    assert model.alpha_ == alphas[model.cv_results_.mean(axis=0).argmin()]


def test_samples_that_nearly_are_fitted_exactly_are_left_out_too():
    """With fewer samples than features and a tiny strength, 1 - h_i is tiny, and must not be a difference from 1."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(10, 50)), 100.0 * rng.normal(size=10)
    model = RidgeCV([1e-7], gcv_mode="eigen", store_cv_results=True).fit(X, y)
    for i in range(10):
        rest = np.arange(10) != i
        fitted = Ridge(1e-7, tol=1e-12).fit(X[rest], y[rest])
        assert model.cv_results_[i, 0] == pytest.approx((y[i] - fitted.predict(X[[i]])[0]) ** 2, rel=1e-5)


def test_a_strength_that_is_lost_in_rounding_leaves_the_shortest_of_all_exact_fits():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(30, 60)) * np.linspace(0.5, 2.0, 60), rng.normal(size=30)
    shortest = np.linalg.pinv(X) @ y
    model = Ridge(1e-16, solver="conjugate_gradients", fit_intercept=False, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, shortest, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"scoring": "r2"}, {"alpha_per_target": True}, {"cv": 3}, {"scoring": "neg_mean_absolute_error"}]
)
def test_ridge_cv_agrees_with_scikit_learn(options):
    X, y, s = TALL
    options = {"alphas": [0.01, 1.0, 30.0]} | options
    for targets in (y, np.column_stack([y, np.sin(9 * y)])):
        for weights in (None, s):
            stored = {} if "cv" in options else {"store_cv_results": True}
            ours, theirs = (k(**options, **stored).fit(X, targets, weights) for k in (RidgeCV, peers.RidgeCV))
            assert (ours.alpha_ == theirs.alpha_).all() if np.ndim(ours.alpha_) else ours.alpha_ == theirs.alpha_
            close(ours.best_score_, theirs.best_score_)
            close(ours.coef_, theirs.coef_)
            if stored:
                close(ours.cv_results_, theirs.cv_results_)
            certified(ours)
            assert certify(theirs, X, targets, weights).relative_gap <= 1e-9


# ---- new data (seed item 3-02) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 100.0, 1e5])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_recursion_equals_the_batch(shift, layout):
    X, y, s = data(500, 6, shift=shift if layout is np.asarray else 0.0)
    Y = np.column_stack([y, np.sin(y)])
    for targets in (y, Y):
        stream = Ridge(0.5, tol=1e-6)
        for first in range(0, 500, 37):
            some = slice(first, first + 37)
            stream.partial_fit(layout(X[some]), targets[some], s[some])
        certified(stream)
        batch = Ridge(0.5, tol=1e-9 if shift < 1e5 else 1e-4).fit(X, targets, s)
        close(stream.coef_, batch.coef_, 1e-9)
        close(stream.predict(X), batch.predict(X), 1e-9)
        for one, all_at_once in zip(stream.solutions_, batch.solutions_, strict=True):
            mine, theirs = one.certificate, all_at_once.certificate
            assert mine.dual - mine.error <= theirs.primal + theirs.error
            assert theirs.dual - theirs.error <= mine.primal + mine.error
            assert mine.primal == pytest.approx(theirs.primal, rel=1e-9)
        assert certify(stream, X, targets, s).relative_gap <= 1e-6


def test_a_single_sample_at_a_time():
    X, y, _ = data(30, 3)
    stream = Ridge(0.1)
    for x, t in zip(X, y, strict=True):
        stream.partial_fit(x[None], [t])
    close(stream.coef_, Ridge(0.1).fit(X, y).coef_)
    assert stream.status_ is Status.CONVERGED


def test_a_stream_is_honest_about_rounding():
    X, y, _ = data(100, 3, shift=1e7)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model = Ridge(fit_intercept=False, tol=1e-9).partial_fit(X, y)
    assert model.status_ is Status.STALLED


def test_partial_fit_after_fit_begins_anew_and_says_so():
    X, y, _ = TALL
    model = Ridge().fit(X[:10], y[:10])
    with pytest.warns(UserWarning, match="fit keeps no sums to go on from"):
        model.partial_fit(X[10:30], y[10:30])
    close(model.partial_fit(X[30:], y[30:]).coef_, Ridge().fit(X[10:], y[10:]).coef_)


def test_what_partial_fit_refuses():
    X, y, _ = TALL
    stream = Ridge().partial_fit(X, y)
    before = stream.coef_.copy()
    with pytest.raises(ValueError, match="1 features"):
        stream.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="2 targets, but earlier samples had 1"):
        stream.partial_fit(X, np.column_stack([y, y]))
    assert (stream.coef_ == before).all()
    assert not hasattr(Ridge(positive=True), "partial_fit")
    with pytest.raises(ValueError, match="positive alpha"):
        Ridge(alpha=0.0).partial_fit(X, y)
    assert not hasattr(stream.fit(X, y), "_moments")


# ---- chunks and clients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [Ridge(0.3, tol=1e-10), LinearRegression(tol=1e-8), Ridge(0.3, solver="lsqr", tol=1e-10)]
)
def test_chunks_are_enough(model, tmp_path):
    X, y, s = data(300, 4)
    np.save(tmp_path / "rows.npy", X)
    with open_chunks(tmp_path / "rows.npy", memory=2**12) as opened:
        chunks = opened.X
        assert len(chunks.stretches) > 3
        model.fit(chunks, y, s)
        assert certify(model, chunks, y, s).relative_gap <= 1e-8
    certified(model)
    alpha = getattr(model, "alpha", 0.0)
    close(model.coef_, (peers.Ridge(alpha) if alpha else peers.LinearRegression()).fit(X, y, s).coef_, 1e-6)


@every_solver
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("lam", [0.5, 0.0])
def test_clients_find_what_one_machine_finds(solver, intercept, lam):
    X, y, s = data(100, 4)
    if lam == 0.0 and intercept == "penalised":
        return
    penalty = L2(lam) if lam else Unpenalised(np.full(4, 100.0))
    problem = Problem(Rows(X), y, Squared(), penalty, s, intercept, 2.0)
    alone = minimize(problem, solver, tol=1e-9)
    together = clients.run(problem, 3, lambda problem, mine: minimize(problem, solver, tol=1e-9))
    point = clients.gathered(together)
    assert together[0].status is Status.CONVERGED
    close(point.w, alone.point.w, 1e-6)
    assert problem.certify(point).relative_gap <= 1e-9


# ---- what is put in --------------------------------------------------------------------------------------------------

MODELS = [Ridge(), Ridge(alpha=0.0), LinearRegression(), KernelRidge(kernel="rbf"), RidgeCV()]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("kind", [int, bool, np.float32, np.int8])
def test_any_numbers(model, kind):
    X = RNG.integers(0, 3, (30, 4)).astype(kind)
    y = X.astype(float) @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=30)
    as_given, as_floats = model.fit(X, y).predict(X), model.fit(X.astype(float), y).predict(X.astype(float))
    np.testing.assert_allclose(as_given, as_floats, atol=1e-4)
    certified(model)


DEGENERATE = {
    "one sample": (np.array([[1.0, 2.0]]), np.array([3.0])),
    "constant targets": (RNG.normal(size=(20, 3)), np.full(20, 7.0)),
    "targets of zero": (RNG.normal(size=(20, 3)), np.zeros(20)),
    "constant column": (np.column_stack([np.ones(20), RNG.normal(size=20)]), RNG.normal(size=20)),
    "columns twice": (np.repeat(RNG.normal(size=(20, 2)), 2, axis=1), RNG.normal(size=20)),
    "columns of zeros": (np.zeros((20, 2)), RNG.normal(size=20)),
    "exact": (np.vander(np.arange(5.0), 5), np.arange(5.0) ** 2),
    "columns 1e6 apart": (RNG.normal(size=(30, 3)) * [1e6, 1.0, 1e-3], RNG.normal(size=30)),
    "tiny numbers": (1e-6 * RNG.normal(size=(30, 3)), 1e-6 * RNG.normal(size=30)),
}


@pytest.mark.parametrize("model", [Ridge(), Ridge(alpha=1e-10), Ridge(0.0), LinearRegression()], ids=repr)
@pytest.mark.parametrize(("X", "y"), DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_samples_converge_without_a_warning(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    certified(model)
    assert certify(model, X, y).relative_gap <= model.tol
    if model.alpha if isinstance(model, Ridge) else False:
        return
    A = X - X.mean(axis=0)
    expected = A @ np.linalg.lstsq(A, y - y.mean(), rcond=1e-12)[0] + y.mean()
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6 * (np.abs(y).max() + 1e-300))


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "1", None, [1.0, 2.0], [[1.0]], 1e200])
@pytest.mark.parametrize("kind", [Ridge, KernelRidge, RidgeClassifier])
def test_strengths_that_are_none(kind, alpha):
    X, y, _ = TALL
    with pytest.raises(ValueError, match="alpha"):
        kind(alpha=alpha).fit(X, y > y.mean() if kind is RidgeClassifier else y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Ridge(solver="saga", positive=True), "'conjugate_gradients' cannot solve this problem of Ridge"),
        (Ridge(solver="nonsense"), "is unknown"),
        (Ridge(solver="decomposition"), "cannot solve this problem of Ridge"),
        (Ridge(bounds=(1.0, 2.0)), "lower end of at most 0"),
        (Ridge(bounds=(0.0,)), "pair of numbers or of arrays of 5 numbers"),
        (Ridge(bounds=([0.0, 0.0], 1.0)), "pair of numbers or of arrays of 5 numbers"),
        (LinearRegression(bounds=(-1.0, np.nan)), "upper one of at least 0"),
        (KernelRidge(alpha=0.0), "alpha must be positive"),
        (KernelRidge(kernel_params={"a": 1}), "keywords of a callable kernel"),
        (RidgeCV(alphas=[0.0, 1.0]), r"alphas\[0\] == 0.0, must be > 0.0"),
        (RidgeCV(alphas=[1.0, -1.0], cv=3), r"alphas\[1\] == -1.0, must be >= 0.0"),
        (RidgeCV(cv=3, store_cv_results=True), "incompatible"),
        (RidgeCV(cv=3, alpha_per_target=True), "incompatible"),
    ],
)
def test_what_is_refused(model, message):
    X, y, _ = TALL
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_values_that_are_refused():
    X, y, s = TALL
    for wrong in (np.nan, np.inf, 1e200):
        for A, t in ((np.where(X > 2, wrong, X), y), (X, np.where(y > 0, wrong, y))):
            with pytest.raises(ValueError, match=r"NaN|infinity|overflow"):
                LinearRegression().fit(A, t)
    with pytest.raises(ValueError, match="0 feature"):
        Ridge().fit(np.empty((3, 0)), y[:3])
    with pytest.raises(ValueError, match="zero"):
        Ridge().fit(X, y, 0.0 * s)


def test_a_lie_is_found():
    X, y = load_diabetes(return_X_y=True)
    model = peers.Ridge().fit(X, y)
    assert certify(model, X, y).relative_gap <= 1e-9
    model.coef_ = model.coef_ * 1.01
    assert certify(model, X, y).relative_gap >= 1e-5


def test_a_matrix_in_chunks_takes_two_sweeps_for_the_equations_and_the_certificate():
    X, y, _ = data(300, 4)
    from maxmargin.operators import ChunkedMatrix

    chunks = ChunkedMatrix(lambda k: X[100 * k : 100 * k + 100], [100, 100, 100], 4, np.float64, X.size)
    problem = Problem(Chunks(chunks), y, Squared(), L2(1.0), np.ones(300), "free")
    chunks.column_squares  # noqa: B018  (as the check for values that are not finite)
    before = chunks.sweeps
    solution = minimize(problem, Cholesky(), tol=1e-9)
    assert solution.status is Status.CONVERGED
    assert chunks.sweeps - before <= 5  # means, equations, scores and coefficients
