"""LASSO and elastic net: closed forms, optimality conditions, other people's answers, and what is refused."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as peers
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from maxmargin import ElasticNet, Lasso, LinearRegression, Problem, Status, certify, explain_solver, minimize
from maxmargin.io import open_chunks
from maxmargin.loop.few import few_solutions
from maxmargin.operators import Columns
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, Bounded
from maxmargin.solvers import WorkingSet
from maxmargin.solvers.columns.working_set.residual_state import ResidualState

FREE = 1e300  # a bound that is never felt


def data(n=60, d=150, seed=0, shift=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + shift
    w = np.where(np.arange(d) < 6, rng.normal(size=d), 0.0)
    return X, X @ w + 0.5 * rng.normal(size=n), rng.uniform(0.1, 2.0, size=n)


WIDE, TALL, LARGE = data(), data(80, 7), data(300, 300)


def largest_slope(X, y, s=None):
    s = np.full(len(y), 1.0 / len(y)) if s is None else s / s.sum()
    return np.abs((X - s @ X).T @ (s * (y - s @ y))).max()


def gap(X, y, w, b, alpha, ratio=1.0, s=None, low=None, high=None):
    """Relative duality gap by plain numpy: of the L1 problem with ``sqrt(mu) I`` below, slopes scaled down to fit."""
    s = np.full(len(y), 1.0 / len(y)) if s is None else s / s.sum()
    lam, mu, d = alpha * ratio, alpha * (1.0 - ratio), X.shape[1]
    low, high = (np.full(d, -np.inf) if low is None else low), (np.full(d, np.inf) if high is None else high)
    r = y - X @ w - b
    primal = 0.5 * s @ r**2 + lam * np.abs(w).sum() + 0.5 * mu * w @ w
    v = X.T @ (s * r) - mu * w
    end = np.where(v > 0.0, high, -low)
    t = 1.0 / max(1.0, (np.abs(v[end == np.inf]) / lam).max(initial=0.0))
    beyond = np.maximum(t * np.abs(v) - lam, 0.0)
    dual = (
        t * (s * r) @ y
        - 0.5 * t * t * (s @ r**2 + mu * w @ w)
        - (np.where(beyond > 0.0, end, 0.0) * beyond)[np.isfinite(end)].sum()
    )
    return (primal - dual) / primal


def optimal(model, X, y, s=None, tol=1e-7):
    """Converged, certified, and by the referee's account too."""
    assert model.status_ is Status.CONVERGED
    assert model.duality_gap_ <= model.tol
    X, w = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float), model.coef_
    ratio, alpha = model.l1_ratio, model.alpha
    low, high = model._limits(w.size) or (None, None)
    assert gap(X, y, w, model.intercept_, alpha, ratio, s, low, high) <= tol
    share = np.full(len(y), 1.0 / len(y)) if s is None else s / s.sum()
    r = y - X @ w - model.intercept_
    value = 0.5 * share @ r**2 + alpha * ratio * np.abs(w).sum() + 0.5 * alpha * (1 - ratio) * w @ w
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    if model.fit_intercept:
        assert abs(share @ r) <= 1e-9 * np.abs(y).max()
    assert certify(model, X, y, s).relative_gap <= tol


# ---- closed forms (seed items 3-10, 3-19) ----------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("ratio", [1.0, 0.4])
def test_of_orthonormal_columns_the_solution_is_the_soft_threshold(alpha, ratio):
    A, d = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 8)))[0], np.random.default_rng(1).normal(size=40)
    model = ElasticNet(alpha, l1_ratio=ratio, fit_intercept=False, tol=1e-12).fit(A * np.sqrt(40), d)
    z = A.T @ d / np.sqrt(40)
    expected = np.sign(z) * np.maximum(np.abs(z) - alpha * ratio, 0.0) / (1.0 + alpha * (1.0 - ratio))
    np.testing.assert_allclose(model.coef_, expected, atol=1e-7)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize(("X", "y", "s"), [WIDE, TALL, LARGE], ids=["wide", "tall", "large"])
def test_zero_is_optimal_exactly_from_the_largest_slope_on(X, y, s, free):
    """``w = 0`` if and only if ``lam >= ||A^T d||_inf`` (seed item 3-19), exactly zero and certified."""
    if not free:
        X, y = X - X.mean(axis=0), y - y.mean()
    top = largest_slope(X, y)
    for stored in (X, np.asfortranarray(X), sp.csc_array(X), sp.csr_array(X)):
        for factor in (1.0, 1.0 + 1e-12, 2.0, 1e6):
            model = Lasso(factor * top, fit_intercept=free, tol=1e-9).fit(stored, y)
            assert not model.coef_.any()
            assert model.status_ is Status.CONVERGED
        assert np.count_nonzero(Lasso(0.99 * top, fit_intercept=free, tol=1e-9).fit(stored, y).coef_) == 1


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.booleans(), st.sampled_from([1e-3, 0.1, 1.0]))
def test_whole_numbers_of_any_shape_and_rank(n, d, rank, free, alpha):
    """Duplicates, columns of zeros and constants among them."""
    rng = np.random.default_rng(100 * n + 10 * d + rank)
    X = rng.integers(-2, 3, (n, rank)) @ rng.integers(-2, 3, (rank, d))
    y, s = rng.integers(-5, 6, n).astype(float), rng.integers(0, 3, n).astype(float)
    s[0] = 1.0
    model = ElasticNet(alpha, l1_ratio=float(rng.choice([0.3, 1.0])), fit_intercept=free, tol=1e-7).fit(X, y, s)
    w, b, ratio = model.coef_, model.intercept_, model.l1_ratio
    share = s / s.sum()
    v = X.T @ (share * (y - X @ w - b)) - alpha * (1 - ratio) * w
    value = 0.5 * share @ (y - X @ w - b) ** 2 + alpha * ratio * np.abs(w).sum() + 0.5 * alpha * (1 - ratio) * w @ w
    assert model.status_ is Status.CONVERGED
    assert (np.abs(v) <= alpha * ratio + 1e-3 * (1.0 + np.abs(v).max())).all()
    assert model.objective_ == pytest.approx(value, rel=1e-9, abs=1e-12)


# ---- optimality conditions and other people's answers ----------------------------------------------------------------


@pytest.mark.parametrize("free", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "no weights"])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize(("X", "y", "s"), [WIDE, TALL, LARGE], ids=["wide", "tall", "large"])
def test_optimal_and_equal_to_scikit_learn(X, y, s, ratio, weighted, free):
    s = s if weighted else None
    for part in (3.0, 30.0):
        alpha = largest_slope(X, y, s) / part
        model = ElasticNet(alpha, l1_ratio=ratio, fit_intercept=free, tol=1e-10).fit(X, y, s)
        optimal(model, X, y, s)
        theirs = peers.ElasticNet(alpha, l1_ratio=ratio, fit_intercept=free, tol=1e-14, max_iter=100_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(X, y, s)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=2e-5)
        np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=2e-5)
        np.testing.assert_allclose(model.dual_gap_, model.solution_.certificate.gap)
        assert (model.sparse_coef_.toarray()[0] == model.coef_).all()


@pytest.mark.parametrize(("X", "y", "s"), [WIDE, TALL, LARGE], ids=["wide", "tall", "large"])
def test_the_answer_does_not_depend_on_how_samples_are_stored(X, y, s):
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    alpha = largest_slope(X, y) / 10.0
    reference = Lasso(alpha, tol=1e-11).fit(X, y).coef_
    stored = [np.asfortranarray(X), X.tolist(), sp.csc_matrix(X), sp.csr_array(X), sp.coo_array(X)]
    stored.append(sp.csc_array((X_ := sp.csc_array(X)).data.size and X_))
    for samples in stored:
        np.testing.assert_allclose(Lasso(alpha, tol=1e-11).fit(samples, y).coef_, reference, atol=1e-6)
    single = X.astype(np.float32)
    double = Lasso(alpha, tol=1e-9).fit(single.astype(float), y).coef_
    np.testing.assert_allclose(Lasso(alpha, tol=1e-9).fit(single, y).coef_, double, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 50), st.booleans())
def test_weight_2_is_the_row_twice(seed, wide):
    X, y, _ = data(8, 12 if wide else 3, seed)
    s = np.random.default_rng(seed).integers(0, 3, 8)
    s[:2] = 1, 2
    model = ElasticNet(0.05, l1_ratio=0.9, tol=1e-12)
    weighted = model.fit(X, y, s).predict(X)
    np.testing.assert_allclose(model.fit(X.repeat(s, axis=0), y.repeat(s)).predict(X), weighted, atol=1e-5)


@pytest.mark.parametrize(("X", "y", "s"), [WIDE, TALL, LARGE], ids=["wide", "tall", "large"])
@pytest.mark.parametrize("bounds", [(0.0, np.inf), (-0.1, 0.1), (-np.inf, 0.05), (0.0, 0.0)])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_bounds(X, y, s, bounds, ratio):
    model = ElasticNet(largest_slope(X, y) / 30.0, l1_ratio=ratio, bounds=bounds, tol=1e-9).fit(X, y, s)
    assert ((model.coef_ >= bounds[0]) & (model.coef_ <= bounds[1])).all()
    optimal(model, X, y, s)
    if bounds == (0.0, np.inf):
        positive = ElasticNet(model.alpha, l1_ratio=ratio, positive=True, tol=1e-9).fit(X, y, s)
        np.testing.assert_array_equal(positive.coef_, model.coef_)


def test_bounds_without_an_l1_part_and_without_a_penalty():
    X, y, _ = TALL
    for model in (ElasticNet(0.1, l1_ratio=0.0, positive=True, tol=1e-9), Lasso(0.0, bounds=(-0.2, 0.3), tol=1e-9)):
        model.fit(X, y)
        assert model.status_ is Status.CONVERGED
        assert certify(model, X, y).relative_gap <= 1e-7
    np.testing.assert_allclose(model.coef_, LinearRegression(bounds=(-0.2, 0.3), tol=1e-9).fit(X, y).coef_, atol=1e-5)


def test_without_a_penalty_it_is_least_squares():
    for X, y, s in (TALL, WIDE):
        model = Lasso(0.0, tol=1e-7).fit(X, y, s)
        np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y, s).coef_, atol=1e-6)
        assert model.status_ is Status.CONVERGED
    ridge = ElasticNet(0.1, l1_ratio=0.0, tol=1e-10).fit(*TALL)
    theirs = peers.Ridge(0.1 * TALL[2].sum(), tol=1e-12).fit(*TALL)
    np.testing.assert_allclose(ridge.coef_, theirs.coef_, atol=1e-8)


def test_several_targets():
    X, y, s = WIDE
    Y = np.column_stack([y, -(y**2), np.zeros_like(y)])
    model = Lasso(0.1, tol=1e-9).fit(X, Y, s)
    assert model.coef_.shape == (3, 150)
    assert model.dual_gap_.shape == (3,)
    assert len(model.n_iter_) == 3
    for k in range(3):
        one = Lasso(0.1, tol=1e-9).fit(X, Y[:, k], s)
        np.testing.assert_allclose(model.coef_[k], one.coef_, atol=1e-6)
    assert certify(model, X, Y, s).relative_gap <= 1e-7
    assert Lasso(0.1).fit(X, y[:, None]).coef_.shape == (150,)


# ---- what is odd -----------------------------------------------------------------------------------------------------


def test_odd_samples():
    X, y, _ = WIDE
    twins = np.repeat(X[:, :4], 3, axis=1)
    optimal(Lasso(0.05, tol=1e-9).fit(twins, y), twins, y)
    with_constants = np.column_stack([X[:, :5], np.zeros(60), np.ones(60), np.full(60, -7.0)])
    model = Lasso(0.05, tol=1e-9).fit(with_constants, y)
    optimal(model, with_constants, y)
    assert not model.coef_[5:].any()
    one = Lasso(0.1).fit([[1.0, 2.0]], [3.0])
    assert not one.coef_.any()
    assert one.intercept_ == 3.0
    np.testing.assert_allclose(Lasso(0.1, fit_intercept=False, tol=1e-10).fit([[2.0]], [3.0]).coef_, (6.0 - 0.1) / 4.0)
    same = Lasso(0.1).fit(X, np.full(60, 4.2))
    assert not same.coef_.any()
    assert same.intercept_ == pytest.approx(4.2)
    whole = np.random.default_rng(0).integers(0, 2, (50, 8))
    t = whole[:, 0] - 2 * whole[:, 1]
    optimal(Lasso(0.01, tol=1e-9).fit(whole, t), whole, t)
    np.testing.assert_allclose(
        Lasso(0.01, tol=1e-9).fit(whole.astype(bool), t).coef_, Lasso(0.01, tol=1e-9).fit(whole, t).coef_
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"alpha": np.inf}, "alpha"),
        ({"tol": -1.0}, "tol"),
        ({"selection": "greedy"}, "selection"),
        ({"bounds": (1.0, 2.0)}, "at most 0"),
        ({"bounds": (np.zeros(3), 1.0)}, "7 numbers"),
        ({"precompute": np.eye(3)}, "precompute must be"),
        ({"precompute": np.eye(7)}, "did not pass validation"),
        ({"solver": "newton"}, "cannot solve"),
    ],
)
def test_what_is_refused(options, words):
    X, y, _ = TALL
    with pytest.raises(ValueError, match=words):
        Lasso(**options).fit(X, y)
    with pytest.raises(ValueError, match="l1_ratio"):
        ElasticNet(l1_ratio=1.5).fit(X, y)
    for wrong in (
        X[:, 0],
        np.where(X > 2.0, np.nan, X),
        np.asfortranarray(np.where(X > 2.0, np.inf, X)),
        X[:0],
        X[:, :0],
    ):
        with pytest.raises(ValueError, match=r"2D array|NaN|infinity|0 sample|0 feature"):
            Lasso().fit(wrong, y[: len(wrong)])


def test_a_gram_matrix_is_accepted_and_changes_nothing():
    X, y, _ = TALL
    centred = X - X.mean(axis=0)
    reference = Lasso(0.1).fit(X, y).coef_
    for passed in (True, "auto", X.T @ X, centred.T @ centred):
        np.testing.assert_allclose(Lasso(0.1, precompute=passed).fit(X, y).coef_, reference, atol=1e-6)


def test_limits_leave_an_honest_gap():
    X, y, _ = LARGE
    alpha = largest_slope(X, y) / 100.0
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model = Lasso(alpha, max_iter=1, tol=1e-12).fit(X, y)
    assert gap(X, y, model.coef_, model.intercept_, alpha) >= 0.0
    assert model.status_ is Status.MAX_ITER
    assert model.solution_.certificate.relative_gap > 1e-12
    model.set_params(max_iter=None, warm_start=True, tol=1e-9).fit(X, y)
    optimal(model, X, y)
    again = model.fit(X, y)
    assert again.n_iter_ == 0
    assert "working_set" in str(explain_solver(model, X, y))


def test_samples_in_chunks(tmp_path):
    X, y, _ = data(200, 12)
    np.save(tmp_path / "X.npy", X)
    chunks = open_chunks(tmp_path / "X.npy", target=y, memory=2**13).X
    for ratio in (1.0, 0.5):
        alpha = largest_slope(X, y) / 5.0
        model = ElasticNet(alpha, l1_ratio=ratio, tol=1e-8).fit(chunks, y)
        np.testing.assert_allclose(model.coef_, ElasticNet(alpha, l1_ratio=ratio, tol=1e-10).fit(X, y).coef_, atol=1e-4)


# ---- debiasing (seed item 3-18) --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_debiased_coefficients_are_least_squares_on_the_support(stored):
    """``A_L^T (A_L w - d) = 0``, and no larger residuals than those of the LASSO."""
    X, y, s = WIDE
    model = Lasso(0.1, debias=True, tol=1e-9).fit(stored(X), y, s)
    L = np.flatnonzero(model.coef_)
    np.testing.assert_array_equal(L, np.flatnonzero(model.shrunken_coef_))
    r = y - X @ model.coef_ - model.intercept_
    assert np.abs(X[:, L].T @ (s * r)).max() <= 1e-6 * np.abs(X.T @ (s * y)).max()
    shrunken = y - X @ model.shrunken_coef_ - model.shrunken_intercept_
    assert s @ r**2 < s @ shrunken**2
    assert certify(model, X, y, s).relative_gap <= 1e-7  # of the LASSO
    np.testing.assert_allclose(model.shrunken_coef_, Lasso(0.1, tol=1e-9).fit(X, y, s).coef_, atol=1e-6)
    assert not hasattr(model.set_params(debias=False).fit(X, y), "shrunken_coef_")
    empty = Lasso(1e6, debias=True).fit(X, y)
    assert not empty.coef_.any()
    assert empty.intercept_ == pytest.approx(y.mean())


# ---- solvers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [True, False])
def test_few_features_are_judged_as_all_others(free):
    """The compiled call agrees with the general certificate, values and errors."""
    X, y, s = TALL
    share = s / s.sum()
    for ratio, alpha in ((1.0, 0.05), (0.5, 0.05), (0.0, 0.05)):
        found = few_solutions(X, y, share, free, np.array([alpha]), ratio, None, 1e-8)
        own = found.certificate(0)
        low = np.full(7, -np.inf)
        operator = Columns(np.asfortranarray(X))
        problem = Problem(operator, y, Squared(), Bounded(alpha, ratio, low, -low), share, "free" if free else None)
        other = problem.certify(found.solution(0).point)
        assert own.primal == pytest.approx(other.primal, rel=1e-12)
        assert own.dual == pytest.approx(other.dual, rel=1e-12)
        assert own.primal_error == pytest.approx(other.primal_error, rel=0.5)
        assert own.dual_error == pytest.approx(other.dual_error, rel=0.5)
        assert own.least == pytest.approx(other.least)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("part", [3.0, 30.0, 300.0])
def test_short_columns_are_solved_by_their_residuals(part, free):
    """With as many coefficients as there are samples, and constants among the columns."""
    rng = np.random.default_rng(0)
    X = sp.random(60, 900, 0.05, format="csc", random_state=0, data_rvs=lambda k: np.ones(k))
    X = sp.csc_array(sp.hstack([X, np.ones((60, 1)), np.zeros((60, 2))]))
    y, n = X[:, :10] @ rng.normal(size=10) + rng.normal(size=60), 60
    dense = X.toarray()
    alpha = largest_slope(dense, y) / part
    problem = Problem(Columns(X), y, Squared(), L1(alpha), np.full(n, 1.0 / n), "free" if free else None)
    solver = WorkingSet()
    assert isinstance(solver.start(problem, None), ResidualState)
    solution = minimize(problem, solver, tol=1e-9)
    assert solution.status is Status.CONVERGED
    assert gap(dense, y, solution.point.w, solution.point.b, alpha) <= 1e-8
    same = minimize(
        Problem(Columns(dense), y, Squared(), L1(alpha), problem.s, problem.intercept), solver, tol=1e-9
    ).certificate
    assert solution.certificate.primal == pytest.approx(same.primal, rel=1e-8)


def test_any_number_of_threads_gives_the_same_bits():
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(400, 6000)))
    y = X[:, :20] @ rng.normal(size=20) + rng.normal(size=400)
    alpha = largest_slope(X, y) / 20.0
    one, two = (Lasso(alpha, n_jobs=k, tol=1e-8).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.objective_ == two.objective_


def test_certify_judges_other_peoples_models():
    X, y = load_diabetes(return_X_y=True)
    for theirs in (peers.Lasso(0.1), peers.Lasso(0.1, positive=True), peers.ElasticNet(0.1), peers.LassoCV(cv=3)):
        verdict = certify(theirs.fit(X, y), X, y)
        assert 0.0 <= verdict.relative_gap <= 1e-2
        assert "alpha" in verdict.problem
    skglm = pytest.importorskip("skglm")
    model = skglm.Lasso(0.1, tol=1e-8).fit(X, y)
    assert certify(model, X, y).relative_gap <= 1e-6


def test_several_targets_at_once_give_the_same_bits():
    """Tasks side by side know nothing of each other's products."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(300, 4000)))
    Y = X[:, :5] @ rng.normal(size=(5, 6)) + rng.normal(size=(300, 6))
    one, two = (Lasso(0.2, n_jobs=k, tol=1e-8).fit(X, Y) for k in (1, 4))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.status_ is Status.CONVERGED
