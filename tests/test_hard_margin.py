"""The hard margin: separable data, and the proof that data are not."""

import warnings

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, certify
from maxmargin.io import load_model, save_model
from maxmargin.loop.solution import Status


def two_blobs(n=60, apart=0.4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += np.where(y, apart, -apart)
    return X, y


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_separable_data(kernel):
    X, y = two_blobs()
    model = SVC(C=np.inf, kernel=kernel, tol=1e-9).fit(X, y)
    reference = sklearn.svm.SVC(C=1e10, kernel=kernel, gamma=model._gamma, tol=1e-10).fit(X, y)
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(model.decision_function(X), reference.decision_function(X), atol=1e-4)
    margins = np.where(y, 1.0, -1.0) * model.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=1e-9)
    assert certify(model, X, y).relative_gap <= 1.1e-9


def test_the_planets_have_a_street_of_known_width():
    # Two points on a line: the optimum is known.
    model = SVC(C=np.inf, kernel="linear", tol=1e-10).fit([[1.0], [3.5], [4.0]], [0, 1, 1])
    assert model.coef_ == pytest.approx(0.8)
    assert model.intercept_ == pytest.approx(-1.8)
    assert 2.0 / np.linalg.norm(model.coef_) == pytest.approx(2.5)


def test_non_separable_data_end_with_the_proof():
    X, y = two_blobs()
    y[:5] = 1 - y[:5]
    with pytest.warns(ConvergenceWarning, match="the convex hulls of two classes meet.*Use a finite C"):
        model = SVC(C=np.inf, kernel="linear", max_time=30.0).fit(X, y)
    assert model.status_ is Status.NOT_SEPARABLE
    a = model.solution_.point.alpha
    for side in (a[y == 1], -a[y == 0]):  # two convex combinations ...
        assert side.min() >= -1e-12
        assert side.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(a @ X, 0.0, atol=1e-5)  # ... of the same point


def test_the_same_point_in_both_classes():
    X, y = np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    for kernel in ("linear", "rbf"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(C=np.inf, kernel=kernel, max_time=20.0).fit(X, y)
        assert model.status_ is Status.NOT_SEPARABLE


def test_the_gaussian_kernel_separates_any_different_points():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, 2)), rng.integers(0, 2, 40)
    model = SVC(C=np.inf, gamma=5.0, tol=1e-7).fit(X, y)
    assert model.status_ is Status.CONVERGED
    a = model.dual_coef_.ravel()
    K = rbf_kernel(model.support_vectors_, gamma=5.0)
    assert a @ K @ a == pytest.approx(np.abs(a).sum(), rel=1e-6)  # |f|^2 is the sum of the multipliers


def test_several_classes_zero_weights_and_files(tmp_path):
    X, y = load_iris(return_X_y=True)
    weights = np.ones(150)
    weights[::7] = 0.0
    model = SVC(C=np.inf, gamma=1.0, tol=1e-6).fit(X, y, weights)
    used = weights > 0.0
    assert set(model.support_) <= set(np.flatnonzero(used))
    assert (model.predict(X[used]) == y[used]).all()
    save_model(model, tmp_path / "m")
    assert np.array_equal(load_model(tmp_path / "m").decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("options", [{"intercept": None}, {"intercept": "penalised"}, {"loss": "squared_hinge"}])
def test_contradictions_are_refused(options):
    X, y = two_blobs()
    with pytest.raises(ValueError, match="C=inf, the hard margin"):
        SVC(C=np.inf, **options).fit(X, y)
