"""Explicit feature maps before linear machines: the problems of kernels, exactly or nearly, and what models weigh."""

import math
import sys

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

import zoo
from maxmargin import SVC, LinearSVC, certify
from test_docs import ROOT


def linear(**options):
    return LinearSVC(loss="hinge", intercept="free", tol=1e-8, **options)


def weights_of(powers, degree):
    """Square roots of the multinomial coefficients of ``(x.z + 1)^degree``."""
    rest = degree - powers.sum(axis=1)
    parts = np.column_stack([powers, rest])
    return np.sqrt([math.factorial(degree) / math.prod(map(math.factorial, row)) for row in parts.tolist()])


@pytest.mark.parametrize("degree", [2, 3])
def test_weighed_monomials_are_the_polynomial_kernel(degree):
    """Item 4-21: with phi written out, the primal over F features is the problem of the kernel machine."""
    X, y = zoo.blobs(70, 3, seed=1, apart=0.6)
    monomials = PolynomialFeatures(degree).fit(X)
    weights = weights_of(monomials.powers_, degree)
    phi = monomials.transform(X) * weights
    np.testing.assert_allclose(phi @ phi.T, (X @ X.T + 1.0) ** degree, rtol=1e-11, atol=1e-10)
    primal = make_pipeline(monomials, FunctionTransformer(lambda Z: Z * weights), linear()).fit(X, y)
    dual = SVC(kernel="poly", degree=degree, gamma=1.0, coef0=1.0, tol=1e-8).fit(X, y)
    assert primal[-1].objective_ == pytest.approx(dual.objective_, rel=3e-8)
    new = np.random.default_rng(0).normal(size=(30, 3))
    np.testing.assert_allclose(primal.decision_function(new), dual.decision_function(new), atol=2e-3)
    assert certify(primal[-1], phi, y).relative_gap <= 1e-8


def test_random_fourier_features_approach_the_gaussian_kernel():
    X, y = zoo.blobs(80, 3, seed=2, apart=0.6)
    exact = SVC(gamma=0.3, tol=1e-8).fit(X, y).objective_
    errors = []
    for count in (20, 2000):
        found = []
        for seed in range(3):
            features = RBFSampler(gamma=0.3, n_components=count, random_state=seed)
            found.append(make_pipeline(features, linear()).fit(X, y)[-1].objective_)
        errors.append(np.mean(np.abs(np.array(found) / exact - 1.0)))
    assert errors[1] < 0.3 * errors[0]
    assert errors[1] < 0.1


def test_nystroem_features_of_all_samples_are_the_kernel():
    X, y = zoo.blobs(60, 3, seed=3, apart=0.6)
    dual = SVC(gamma=0.3, tol=1e-8).fit(X, y)
    exact = make_pipeline(Nystroem(gamma=0.3, n_components=60, random_state=0), linear()).fit(X, y)
    assert exact[-1].objective_ == pytest.approx(dual.objective_, rel=1e-6)
    np.testing.assert_allclose(exact.decision_function(X), dual.decision_function(X), atol=5e-3)
    some = make_pipeline(Nystroem(gamma=0.3, n_components=15, random_state=0), linear()).fit(X, y)
    assert some[-1].objective_ >= exact[-1].objective_ * (1.0 - 1e-6)  # fewer functions to choose from


def test_the_table_is_what_models_weigh(tmp_path, monkeypatch, capsys):
    """Item 4-21: F numbers whatever n, against s (d + 1); all fits certified."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    sys.modules.pop("primal_dual", None)
    import primal_dual

    found = primal_dual.main(["--quick", "--figures", str(tmp_path)])
    d, F = primal_dual.D, primal_dual.FEATURES
    for n in (200, 600):
        assert found["linear", n].parameters == d + 1
        assert found["polynomial of degree 2", n].parameters == d + d * (d + 1) // 2 + 1
        assert found["random Fourier", n].parameters == F + 1 + (d + 1) * F
        support = (found["Gaussian kernel", n].parameters - 1) / (d + 1)
        assert support == int(support) <= n
    assert found["Gaussian kernel", 600].parameters > 1.5 * found["Gaussian kernel", 200].parameters
    assert found["polynomial of degree 2", 600].accuracy > found["linear", 600].accuracy - 0.05
    assert max(one.gap for one in found.values()) <= 1e-3
    assert "training grows like n^" in capsys.readouterr().out
    assert (tmp_path / "primal_dual.svg").stat().st_size < 100_000
