"""The exact path of the LASSO (inventory 3-14 to 3-19): every point of it is a solution, and has its certificate."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.datasets import load_diabetes
from sklearn.linear_model import lars_path

import referee
from maxmargin import Point, Problem, Status, lasso_homotopy, minimize
from maxmargin.numerics.growing_cholesky import append_row, remove_row, solve_in_place
from maxmargin.operators import Columns
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, Bounded
from maxmargin.solvers import make_solver

RNG = np.random.default_rng(0)
DIABETES = load_diabetes(return_X_y=True)


def planted(n, d, k=4, seed=0, noise=0.5):
    """Samples of a model with few coefficients."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), np.zeros(d)
    w[rng.choice(d, min(k, d), replace=False)] = rng.normal(size=min(k, d)) * 3.0
    return X, X @ w + noise * rng.normal(size=n)


def violation(X, y, coef, intercept, alpha, weights=None, ridge=0.0, positive=False, fit_intercept=True):
    """How far a point is from the optimality conditions, relative to the largest slope at zero."""
    X = X.toarray() if sp.issparse(X) else X
    s = np.full(y.size, 1.0 / y.size) if weights is None else weights / weights.sum()
    residuals = s * (y - X @ coef - intercept)
    slopes = X.T @ residuals - ridge * coef
    scale = max(float(np.abs(X.T @ (s * (y - (s @ y if fit_intercept else 0.0)))).max(initial=0.0)), 1e-300)
    worst = abs(residuals.sum()) if fit_intercept else 0.0
    worst = max(worst, (slopes if positive else np.abs(slopes)).max(initial=0.0) - alpha)
    used = coef != 0.0
    return max(worst, np.abs(slopes[used] - alpha * np.sign(coef[used])).max(initial=0.0)) / scale


def points_of(path):
    """All breakpoints, and strengths between them."""
    return np.concatenate([path.alphas, 0.5 * (path.alphas[1:] + path.alphas[:-1])])


@pytest.mark.parametrize("shape", [(60, 12), (30, 80), (25, 25)], ids=str)
def test_the_path_is_that_of_scikit_learn(shape):
    """3-15, 3-16: breakpoints and coefficients of LARS in its LASSO form."""
    X, y = planted(*shape)
    X, y = X - X.mean(axis=0), y - y.mean()
    path = lasso_homotopy(X, y, fit_intercept=False)
    alphas, _, coefs = lars_path(X, y, method="lasso")
    np.testing.assert_allclose(path.alphas, alphas, atol=1e-12 * alphas[0])
    np.testing.assert_allclose(path.coefs.toarray(), coefs.T, atol=1e-8)
    assert path.ending == "nothing is left of the penalty"


@pytest.mark.parametrize("layout", [np.asfortranarray, sp.csc_array, sp.csr_matrix, np.ascontiguousarray])
@pytest.mark.parametrize("options", [{}, {"positive": True}, {"ridge": 0.05}, {"fit_intercept": False}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_point_of_the_path_is_a_solution_with_a_certificate(layout, options, weighted):
    """3-19: the conditions of optimality, at breakpoints and between them, by the referee's formulas."""
    X, y = planted(40, 15, seed=1)
    X = np.where(np.abs(X) < 0.5, 0.0, X) + (0.0 if layout in (sp.csc_array, sp.csr_matrix) else 3.0)
    weights = np.random.default_rng(2).uniform(0.0, 2.0, 40) * (np.arange(40) % 5 > 0) if weighted else None
    path = lasso_homotopy(layout(X), y, sample_weight=weights, **options)
    for alpha in points_of(path):
        coef, intercept = path.at(alpha)
        assert violation(X, y, coef, intercept, alpha, weights, **options) <= 1e-12
        certificate = path.certificate(alpha)
        if alpha > 0.0:
            assert certificate.relative_gap <= 1e-8 * max(1.0, path.alphas[0] / alpha * 1e-3)
    s = np.full(40, 1.0 / 40) if weights is None else weights / weights.sum()
    alpha, ridge = float(path.alphas[3]), options.get("ridge", 0.0)
    coef, intercept = path.at(alpha)
    value = 0.5 * s @ (y - X @ coef - intercept) ** 2 + alpha * np.abs(coef).sum() + 0.5 * ridge * coef @ coef
    assert path.certificate(alpha).primal == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_random_strengths_agree_with_single_certified_fits(seed):
    X, y = planted(50, 70, seed=seed)
    path = lasso_homotopy(X, y)
    for alpha in np.random.default_rng(seed).uniform(0.02, 1.0, 3) * path.alphas[0]:
        coef, intercept = path.at(alpha)
        problem = Problem(Columns(X), y, Squared(), L1(alpha), np.full(50, 1.0 / 50))
        single = minimize(problem, make_solver("working_set"), tol=1e-12)
        np.testing.assert_allclose(single.point.w, coef, atol=1e-6)
        assert single.point.b == pytest.approx(intercept, abs=1e-6)
        case = referee.Machine(y, problem.s, ("squared", 1.0), ("l1", alpha), X)
        dual = referee.repaired(case, problem.s * (y - X @ coef - intercept))
        verdict = referee.judge(case, coef, intercept, dual)
        assert abs(verdict.relative_gap) <= 1e-11
        assert path.certificate(alpha).primal == pytest.approx(verdict.primal, rel=1e-12)


small = st.integers(1, 7)


@settings(max_examples=150, deadline=None)
@given(small, small, st.integers(0, 2**32 - 1), st.sampled_from(["few values", "copies", "bits"]), st.booleans(),
       st.booleans(), st.sampled_from([0.0, 0.0, 0.5]))  # fmt: skip
@example(3, 5, 269, "bits", False, False, 0.0)
def test_ties_duplicates_and_dependent_columns(n, d, seed, kind, fit_intercept, positive, ridge):
    """Columns that arrive together, equal each other, or depend on each other: each point is optimal all the same."""
    rng = np.random.default_rng(seed)
    if kind == "few values":
        X = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif kind == "bits":
        X = rng.integers(0, 2, size=(n, d)).astype(float)
    else:
        X = rng.normal(size=(n, d))[:, rng.integers(0, d, size=d)] * rng.choice([1.0, -1.0, 2.0], size=d)
    y = rng.integers(-3, 4, size=n).astype(float)
    options = {"fit_intercept": fit_intercept, "positive": positive, "ridge": ridge}
    path = lasso_homotopy(X, y, **options)
    assert path.ending == "nothing is left of the penalty"
    assert (np.diff(path.alphas) < 0.0).all()
    scale = max(float(np.abs(X).max() * np.abs(y).max()), 1.0)
    for alpha in points_of(path):
        coef, intercept = path.at(alpha)
        largest = np.abs(X.T @ (y - (y.mean() if fit_intercept else 0.0))).max() / n
        if largest > 1e-12 * scale:
            assert violation(X, y, coef, intercept, alpha, **options) <= 1e-9
        else:
            assert not coef.any()
        assert not positive or (coef >= 0.0).all()


@pytest.mark.parametrize("distance", [1e-4, 1e-7, 1e-8, 1e-9, 1e-12])
@pytest.mark.parametrize("positive", [False, True])
def test_columns_that_nearly_repeat_each_other(distance, positive):
    """Copies with noise: every point has a small gap, or the path ends and says that rounding would decide."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(30, 30)), rng.normal(size=30)
        path = lasso_homotopy(np.hstack([X, X + distance * rng.normal(size=X.shape)]), y, positive=positive)
        assert path.ending == "nothing is left of the penalty" or path.alphas[-1] < 1e-4 * path.alphas[0]
        for alpha in path.alphas[path.alphas > 1e-3 * path.alphas[0]]:
            assert path.certificate(alpha).relative_gap <= 1e-6


def test_powers_of_a_number():
    """Columns so nearly dependent that the normal equations have lost all digits: the factor keeps them."""
    x = np.random.default_rng(0).random(40)
    path = lasso_homotopy(np.vander(x, 12), np.sin(9.0 * x))
    assert path.alphas[-1] < 1e-5 * path.alphas[0]
    for alpha in path.alphas[path.alphas > 1e-5 * path.alphas[0]]:
        assert path.certificate(alpha).relative_gap <= 1e-6


def test_the_end_of_the_path_is_least_squares():
    """3-05, E3-8: of full rank the solution, else one with the smallest sum of sizes; non-negative: that of NNLS."""
    X, y = DIABETES
    coef, intercept = lasso_homotopy(X, y).at(0.0)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(y.size)]), y, rcond=None)[0]
    np.testing.assert_allclose(np.append(coef, intercept), expected, rtol=1e-9)
    twice = lasso_homotopy(np.hstack([X, -X, X]), y)
    assert np.abs(twice.at(0.0)[0]).sum() == pytest.approx(np.abs(coef).sum(), rel=1e-10)
    np.testing.assert_allclose(
        lasso_homotopy(X, y, positive=True, fit_intercept=False).at(0.0)[0], nnls(X, y)[0], atol=1e-8
    )


def test_the_path_stops_where_it_is_told():
    X, y = planted(40, 60, seed=3)
    whole = lasso_homotopy(X, y)
    alpha = 0.3 * whole.alphas[0]
    part = lasso_homotopy(X, y, alpha_min=alpha)
    assert part.alphas[-1] == alpha
    np.testing.assert_allclose(part.at(alpha)[0], whole.at(alpha)[0], atol=1e-12)
    with pytest.raises(ValueError, match=r"at least .* because alpha_min was reached"):
        part.at(0.5 * alpha)
    few = lasso_homotopy(X, y, max_features=5)
    assert few.support_sizes.max() == 5
    assert few.ending == "a feature more than 5 would enter"
    assert few.alphas[-1] == pytest.approx(whole.with_features(5), rel=1e-12)
    assert np.count_nonzero(whole.at(0.999 * whole.with_features(5))[0]) == 6
    assert lasso_homotopy(X, y, max_breakpoints=3).alphas.size == 4
    assert lasso_homotopy(X, y, max_time=0.0).ending == "there was a time limit"


def test_breakpoints_tell_what_enters_and_leaves():
    path = lasso_homotopy(*DIABETES)
    support = set()
    for k, (alpha, entering, leaving) in enumerate(path.breakpoints()):
        assert alpha == path.alphas[k]
        support = (support - set(leaving.tolist())) | set(entering.tolist())
        below = 0.5 * (alpha + path.alphas[min(k + 1, path.alphas.size - 1)])
        if below < alpha:
            assert support == set(np.flatnonzero(path.at(below)[0]).tolist())
    assert sum(leaving.size for _, _, leaving in path.breakpoints()) == 1  # the feature 6 leaves and comes back


def test_many_strengths_at_once_are_those_one_by_one():
    path = lasso_homotopy(*DIABETES)
    alphas = [0.1, 5.0, 0.0, 1.0, float(path.alphas[2])]
    coefs, intercepts = path.at(alphas)
    for alpha, coef, intercept in zip(alphas, coefs, intercepts, strict=True):
        assert np.array_equal(coef, path.at(alpha)[0])
        assert intercept == path.at(alpha)[1]
    assert not coefs[1].any()
    assert intercepts[1] == pytest.approx(DIABETES[1].mean())


def test_a_path_of_elastic_nets_is_that_of_a_longer_matrix():
    """With rows ``sqrt(ridge) I`` and targets of zero below, the ridge is part of the squares."""
    X, y = planted(30, 20, seed=4)
    ridge = 0.3
    longer = np.vstack([X, np.sqrt(30 * ridge) * np.eye(20)])
    ours = lasso_homotopy(X, y, ridge=ridge, fit_intercept=False)
    theirs = lasso_homotopy(longer, np.append(y, np.zeros(20)), fit_intercept=False)
    np.testing.assert_allclose(ours.alphas, theirs.alphas * 50 / 30, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(ours.coefs.toarray(), theirs.coefs.toarray(), atol=1e-9)


def test_equal_paths_have_equal_bits_for_any_number_of_threads():
    X, y = planted(200, 3000, seed=5)
    one, two = (lasso_homotopy(X, y, max_features=20, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one.alphas, two.alphas)
    assert np.array_equal(one.coefs.toarray(), two.coefs.toarray())


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((5, 1)), np.arange(5.0)),  # a constant column
        (np.arange(6.0).reshape(3, 2), np.full(3, 2.0)),  # constant targets
        (np.array([[2.0, 1.0]]), np.array([3.0])),  # one sample
        (np.zeros((4, 3)), np.arange(4.0)),
    ],
    ids=["constant column", "constant targets", "one sample", "zeros"],
)
def test_where_nothing_depends_on_the_features_no_feature_counts(X, y):
    path = lasso_homotopy(X, y)
    coef, intercept = path.at(0.0)
    assert not coef.any()
    assert intercept == pytest.approx(y.mean())
    assert path.certificate(0.1).relative_gap <= 1e-12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": [[1.0, np.nan], [0.0, 1.0]]}, "NaN"),
        ({"y": [1.0, np.inf]}, "infinity"),
        ({"X": np.empty((2, 0))}, "0 feature"),
        ({"X": [[1e200], [1.0]]}, "overflow"),
        ({"y": [1e200, 1.0]}, "y has values up to 1.0e[+]200"),
        ({"ridge": -1.0}, "ridge must be a finite number"),
        ({"alpha_min": np.nan}, "alpha_min must be a finite number"),
        ({"max_features": 0}, "max_features must be a whole number of at least 1"),
        ({"max_breakpoints": 2.5}, "max_breakpoints must be a whole number"),
        ({"max_time": -1.0}, "max_time must be a finite number"),
        ({"sample_weight": [0.0, 0.0]}, "at least one non-zero"),
        ({"sample_weight": [-1.0, 2.0]}, "[Nn]egative"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(change, words):
    with pytest.raises(ValueError, match=words):
        lasso_homotopy(**{"X": [[1.0, 2.0], [0.0, 1.0]], "y": [1.0, 2.0], **change})


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, [[1.0]]])
def test_strengths_that_are_not_on_the_path_are_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number"):
        lasso_homotopy(*DIABETES).at(alpha)


@pytest.mark.parametrize("factor", [1e-80, 1e-8, 1e8, 1e80])
def test_units_do_not_matter(factor):
    X, y = planted(30, 10, seed=6)
    path, scaled = lasso_homotopy(X, y), lasso_homotopy(X * factor, y)
    np.testing.assert_allclose(scaled.alphas, path.alphas * factor, rtol=1e-9, atol=1e-12 * factor)
    np.testing.assert_allclose(scaled.coefs.toarray() * factor, path.coefs.toarray(), atol=1e-9)


def test_integers_and_booleans_are_numbers():
    X = RNG.integers(0, 2, size=(20, 4))
    y = RNG.integers(0, 5, size=20)
    paths = [lasso_homotopy(kind(X), y) for kind in (lambda A: A, lambda A: A.astype(bool), lambda A: A.astype(float))]
    assert np.array_equal(paths[0].coefs.toarray(), paths[2].coefs.toarray())
    assert np.array_equal(paths[1].coefs.toarray(), paths[2].coefs.toarray())


def test_the_solver_stops_at_its_strength_and_refuses_what_has_no_path():
    X, y = planted(40, 30, seed=7)
    s = np.ones(40)
    solution = minimize(Problem(Columns(X), y, Squared(), L1(3.0), s), make_solver("homotopy"), tol=1e-12)
    assert solution.status is Status.CONVERGED
    early = minimize(Problem(Columns(X), y, Squared(), L1(3.0), s), make_solver("homotopy"), tol=1e-12, max_iter=2)
    assert early.status is Status.MAX_ITER
    assert early.certificate.relative_gap < 1.0
    boxed = Bounded(1.0, 1.0, np.full(30, -1.0), np.full(30, 1.0))
    reason = make_solver("homotopy").supports(Problem(Columns(X), y, Squared(), boxed, s))
    assert "one sign only" in reason
    assert minimize(
        Problem(Columns(X), y, Squared(), L1(1e6), s), make_solver("homotopy"), warm=Point(np.zeros(30), 0.0)
    ).status is Status.CONVERGED  # fmt: skip


def test_the_drawing_has_a_line_for_each_feature():
    axes = pytest.importorskip("matplotlib.axes")
    import matplotlib.pyplot as plt

    path = lasso_homotopy(*DIABETES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = path.plot(names=[f"f{j}" for j in range(10)])
    assert isinstance(drawn, axes.Axes)
    assert len(drawn.lines) == path.alphas.size + 10
    plt.close(drawn.figure)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_factor_follows_the_rows_that_come_and_go(n, seed):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n + 3, n))
    G, L, rows = B.T @ B, np.zeros((n, n)), []
    for j in range(n):
        assert append_row(L, len(rows), G[j, rows], G[j, j]) > 0.0
        rows.append(j)
        if rng.random() < 0.4:
            gone = int(rng.integers(len(rows)))
            remove_row(L, len(rows), gone)
            rows.pop(gone)
        k = len(rows)
        lower = np.tril(L[:k, :k])
        np.testing.assert_allclose(lower @ lower.T, G[np.ix_(rows, rows)], atol=1e-10 * np.abs(G).max())
        b = rng.normal(size=k)
        x = b.copy()
        solve_in_place(L, k, x)
        np.testing.assert_allclose(G[np.ix_(rows, rows)] @ x, b, atol=1e-6)
