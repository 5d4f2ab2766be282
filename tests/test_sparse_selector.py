"""Features that a sparse linear model keeps (inventory 3-14, 3-18): which ones, how many, and in pipelines."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import referee
from maxmargin import LinearRegression, LogisticRegression, SparseSelector, Status, certify, lasso_homotopy
from maxmargin.io import load_model, save_model

DIABETES = load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def two():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200]


@pytest.mark.parametrize("alpha", [2.0, 0.5, 0.05])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.7])
def test_the_features_are_those_of_lasso_and_elastic_net(alpha, l1_ratio):
    """3-18: ``S = {j: w_j != 0}``."""
    X, y = DIABETES
    alpha = alpha if l1_ratio == 1.0 else alpha / 100.0
    selector = SparseSelector(alpha=alpha, l1_ratio=l1_ratio, tol=1e-12).fit(X, y)
    theirs = (Lasso(alpha) if l1_ratio == 1.0 else ElasticNet(alpha, l1_ratio=l1_ratio)).set_params(
        tol=1e-12, max_iter=10**6
    )
    theirs.fit(X, y)
    assert np.array_equal(selector.get_support(), theirs.coef_ != 0.0)
    np.testing.assert_allclose(selector.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_array_equal(selector.transform(X), X[:, theirs.coef_ != 0.0])
    case = referee.Machine(
        y, np.full(y.size, 1.0 / y.size), ("squared", 1.0),
        ("l1", alpha) if l1_ratio == 1.0 else ("elastic net", alpha, l1_ratio), X,
    )  # fmt: skip
    verdict = referee.judge(case, selector.coef_, selector.intercept_, selector.solution_.point.alpha)
    assert selector.objective_ == pytest.approx(verdict.primal, rel=1e-12)
    assert abs(verdict.relative_gap) <= 1e-11


def test_as_many_features_as_asked_for_by_the_exact_path():
    X, y = DIABETES
    path = lasso_homotopy(X, y)
    for most in range(1, 11):
        selector = SparseSelector(max_features=most).fit(X, y)
        assert selector.get_support().sum() <= most
        assert selector.alpha_ == pytest.approx(max(path.with_features(most), 1e-3 * path.alphas[0]), rel=1e-12)
        assert selector.status_ is Status.CONVERGED
    assert SparseSelector(max_features=3).fit(X, y).get_support(indices=True).tolist() == [2, 3, 8]
    assert SparseSelector(max_features=5, alpha=2.0).fit(X, y).alpha_ == 2.0


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_as_many_features_as_asked_for_where_there_is_no_path(loss, two):
    X, y = two
    for most in (1, 4):
        selector = SparseSelector(loss, max_features=most).fit(X, y)
        assert 1 <= selector.get_support().sum() <= most
        assert SparseSelector(loss, alpha=0.99 * selector.alpha_).fit(X, y).get_support().sum() > most
        assert selector.status_ is Status.CONVERGED


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_the_largest_strength_is_where_features_begin_to_count(loss, l1_ratio, two):
    """3-19: ``w = 0`` if and only if ``lam >= 2 |A^T d|_inf``, in the seed's factors."""
    X, y = two
    largest = SparseSelector(loss, l1_ratio=l1_ratio).fit(X, y).alpha_max_
    selectors = [SparseSelector(loss, alpha=share * largest, l1_ratio=l1_ratio, tol=1e-9) for share in (1.001, 0.98)]
    with pytest.warns(UserWarning, match="No features were selected"):
        assert selectors[0].fit_transform(X, y).shape == (200, 0)
    assert selectors[1].fit_transform(X, y).shape[1] >= 1
    if loss == "squared_error" and l1_ratio == 1.0:
        slopes = 2.0 * np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max()
        assert largest * 2 * y.size == pytest.approx(slopes, rel=1e-12)


def test_classes_and_targets():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    selector = SparseSelector("log_loss", alpha=0.05).fit(X, names)
    assert selector.coef_.shape == (3, 4)
    for k in range(3):
        model = LogisticRegression(l1_ratio=1.0, C=1.0 / (0.05 * y.size), tol=1e-6).fit(X, y == k)
        np.testing.assert_allclose(selector.coef_[k], model.coef_[0], atol=1e-2)
    several = SparseSelector(alpha=0.1).fit(DIABETES[0], np.column_stack([DIABETES[1], -DIABETES[1]]))
    assert several.coef_.shape == (2, 10)
    np.testing.assert_allclose(several.coef_[0], -several.coef_[1], atol=1e-6)
    many = SparseSelector(max_features=2).fit(DIABETES[0], np.column_stack([DIABETES[1], DIABETES[0][:, 0]]))
    assert many.get_support().sum() <= 2


def test_every_fit_is_certified(two):
    X, y = two
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    for selector in (SparseSelector(alpha=0.1), SparseSelector("log_loss"), SparseSelector("squared_hinge")):
        selector.fit(X, y, weights)
        verdict = certify(selector, X, y, weights)
        assert verdict.relative_gap <= 1e-6
        assert verdict.primal == pytest.approx(selector.objective_, rel=1e-9)
        selector.coef_ = 1.1 * selector.coef_
        assert certify(selector, X, y, weights).relative_gap > 1e-5


@pytest.mark.parametrize("layout", [sp.csc_array, sp.csr_matrix, np.asfortranarray, lambda X: X.astype(np.float32)])
def test_every_layout_keeps_the_same_features(layout):
    X, y = DIABETES
    X = np.where(np.abs(X) < 0.02, 0.0, X)
    ours = SparseSelector(max_features=4).fit(layout(X), y)
    assert np.array_equal(ours.get_support(), SparseSelector(max_features=4).fit(X, y).get_support())
    assert ours.transform(layout(X)).shape == (442, 4)


def test_weight_two_is_the_same_as_twice():
    X, y = DIABETES
    weights = np.arange(y.size) % 3
    one = SparseSelector(alpha=0.5, tol=1e-12).fit(X, y, weights)
    other = SparseSelector(alpha=0.5, tol=1e-12).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)


def test_names_and_frames():
    pandas = pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    selector = SparseSelector(max_features=4).set_output(transform="pandas").fit(X, y)
    assert selector.get_feature_names_out().tolist() == ["bmi", "bp", "s3", "s5"]
    chosen = selector.transform(X)
    pandas.testing.assert_frame_equal(chosen, X[["bmi", "bp", "s3", "s5"]])
    assert selector.inverse_transform(chosen).shape == X.shape
    polars = pytest.importorskip("polars")
    chosen = selector.set_output(transform="polars").transform(polars.from_pandas(X))
    assert chosen.columns == ["bmi", "bp", "s3", "s5"]


def test_pipelines_searches_and_column_transformers():
    pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(StandardScaler(), SparseSelector(max_features=3), LinearRegression())
    assert pipeline.fit(X, y).named_steps["linearregression"].coef_.shape == (3,)
    search = GridSearchCV(pipeline, {"sparseselector__max_features": [1, 3, 10]}, cv=3).fit(X, y)
    assert search.best_params_["sparseselector__max_features"] > 1
    columns = ColumnTransformer(
        [("few", SparseSelector(max_features=1), ["bmi", "age"]), ("others", "passthrough", ["s5"])]
    ).set_output(transform="pandas")
    assert list(columns.fit_transform(X, y).columns) == ["few__bmi", "others__s5"]


def test_model_files(tmp_path):
    selector = SparseSelector(max_features=4).fit(*DIABETES)
    save_model(selector, tmp_path / "selector.json")
    restored = load_model(tmp_path / "selector.json")
    np.testing.assert_array_equal(restored.transform(DIABETES[0]), selector.transform(DIABETES[0]))


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_targets_that_depend_on_nothing(loss):
    """Of a constant target or constant features nothing is kept."""
    X = np.ones((20, 3))
    y = np.arange(20) % 2 if loss == "log_loss" else np.arange(20.0)
    for selector in (SparseSelector(loss), SparseSelector(loss, max_features=2), SparseSelector(loss, alpha=1e-3)):
        assert not selector.fit(X, y).get_support().any()
        assert selector.alpha_max_ == 0.0
    constant = SparseSelector(max_features=2).fit(np.random.default_rng(0).normal(size=(20, 3)), np.full(20, 7.0))
    assert not constant.get_support().any()
    assert constant.intercept_ == pytest.approx(7.0)


def test_a_fit_without_time_says_so(two):
    with pytest.warns(ConvergenceWarning, match="time limit"):
        selector = SparseSelector("log_loss", alpha=1e-3, max_time=0.0).fit(*two)
    assert selector.status_ is Status.MAX_TIME


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": -1.0}, "alpha"),
        ({"l1_ratio": 0.0}, "l1_ratio"),
        ({"max_features": 0}, "max_features"),
        ({"loss": "hinge"}, "loss"),
        ({"loss": "log_loss", "y": np.zeros(4)}, "at least 2 classes"),
        ({"X": [[1.0], [np.nan], [0.0], [1.0]]}, "NaN"),
        ({"X": [[1e200], [1.0], [0.0], [1.0]]}, "squares overflow"),
        ({"y": ["a", "b", "c", "d"]}, "could not convert"),
        ({"sample_weight": np.zeros(4)}, "zero"),
    ],
)
def test_what_is_wrong_is_said(options, words):
    data = {"X": [[1.0], [2.0], [0.0], [1.0]], "y": [1.0, 2.0, 0.0, 1.5], "sample_weight": None}
    settings = {name: value for name, value in options.items() if name not in data}
    with pytest.raises(ValueError, match=words):
        SparseSelector(**settings).fit(**(data | {k: v for k, v in options.items() if k in data}))
