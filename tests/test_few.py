"""Predictions for a few samples, in one call, are those for many."""

import numpy as np
import pytest

from maxmargin import SVC, SVR
from maxmargin.estimators._machinery.multiclass import by_other_class, by_pair
from maxmargin.operators import kernel_sums
from maxmargin.operators.few import FEW, are_few, few_sums
from maxmargin.parts.kernels import KERNELS, kernel_of
from maxmargin.threads import Workers


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_few_sums_are_those_of_tiles(name):
    rng = np.random.default_rng(0)
    X, Z, weights = rng.normal(size=(7, 5)), rng.normal(size=(31, 5)), rng.normal(size=(3, 31))
    kernel = kernel_of(name, gamma=0.3, degree=3, coef0=0.5)
    expected = kernel_sums(kernel, X, Z, weights, np.float64, Workers())
    np.testing.assert_allclose(few_sums(kernel, X, Z, weights), expected, rtol=1e-12, atol=1e-13)


def test_differences_do_not_cancel():
    rng = np.random.default_rng(1)
    X, Z, weights = rng.normal(size=(4, 3)), rng.normal(size=(6, 3)), rng.normal(size=(1, 6))
    moved, also = X + 2.0**30, Z + 2.0**30
    exact = np.exp(-0.5 * ((moved[:, None] - also[None]) ** 2).sum(axis=2)) @ weights.T
    np.testing.assert_allclose(few_sums(kernel_of("rbf", gamma=0.5), moved, also, weights), exact, rtol=1e-13)


def test_what_is_few():
    Z = np.zeros((FEW // 10, 10))
    assert are_few(np.zeros((1, 10)), Z)
    assert not are_few(np.zeros((2, 10)), Z)
    assert not are_few(np.zeros((1, 10), dtype=np.float32), Z)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "linear"])
def test_one_row_is_predicted_as_among_many(kernel):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(900, 6))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=900), [-0.5, 0.5])
    model = SVC(kernel=kernel, decision_function_shape="ovo").fit(X, y)
    assert not are_few(X, model.support_vectors_)
    together = model.decision_function(X)
    alone = np.vstack([model.decision_function(X[i : i + 1]) for i in range(40)])
    np.testing.assert_allclose(alone, together[:40], rtol=1e-9, atol=1e-10)
    regression = SVR(kernel=kernel).fit(X, X[:, 0])
    np.testing.assert_allclose(regression.predict(X[:1]), regression.predict(X)[:1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_layouts_of_pairs_are_inverse_to_each_other(n_classes):
    rng = np.random.default_rng(n_classes)
    codes = np.sort(rng.integers(0, n_classes, 40))
    dual_coef = rng.normal(size=(n_classes - 1, 40))
    pairs = by_pair(dual_coef, codes, n_classes)
    assert by_other_class(pairs, codes, n_classes).tolist() == dual_coef.tolist()
    numbers = {pair: k for k, pair in enumerate((i, j) for i in range(n_classes) for j in range(i + 1, n_classes))}
    for (
        i,
        j,
    ), k in numbers.items():  # with class j: row j - 1 if that comes later, else j
        assert pairs[k, codes == i].tolist() == dual_coef[j - 1, codes == i].tolist()
        assert pairs[k, codes == j].tolist() == dual_coef[i, codes == j].tolist()
        assert not pairs[k, (codes != i) & (codes != j)].any()
