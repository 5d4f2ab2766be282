"""The path of all C: optimal at and between breakpoints by the referee, degenerate data, what is refused."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_classification

import referee
from maxmargin import SVC, svm_path

examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def two_classes(n=100, seed=0, weights=None, flip=0.15):
    X, y = make_classification(n, 4, n_informative=3, n_redundant=0, flip_y=flip, weights=weights, random_state=seed)
    return X, np.where(y > 0, 1.0, -1.0)


def kernel_of(X, gamma=0.3):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def gaps(path, K, y, values, s=1.0, intercept="free"):
    """Relative gaps by the referee, at some values of C."""
    out = []
    for C in values:
        a, b = path.at(C)
        machine = referee.Machine(
            y, C * np.broadcast_to(s, y.shape), ("hinge", 1.0), ("l2", 1.0), K=K, intercept=intercept
        )
        verdict = referee.judge(machine, a, b, a)
        assert verdict.infeasibility <= 1e-10 * (1.0 + np.abs(a).sum())
        out.append(verdict.gap / max(abs(verdict.primal), abs(verdict.dual)))
    return np.array(out)


def between(path):
    """All breakpoints, and a value between each two of them."""
    C = path.breakpoints[1:]
    return np.concatenate([C, 0.5 * (C[1:] + C[:-1]), [0.3 * C[0]]])


@pytest.mark.parametrize("weights", [None, [0.9], [0.2]])
def test_the_whole_path_is_optimal(weights):
    """Items 0-38 and 0-44: every breakpoint and every piece is a certified solution."""
    X, y = two_classes(weights=weights)
    path = svm_path(X, y, 1e3, gamma=0.3)
    assert path.complete
    assert path.C_max == 1e3
    assert (np.diff(path.breakpoints) >= 0.0).all()
    assert np.abs(gaps(path, kernel_of(X), y, between(path))).max() <= 1e-9
    for C, certificate in zip(path.breakpoints[1:], path.certificates[1:], strict=True):
        assert certificate.relative_gap <= 1e-7, C


def test_it_agrees_with_refits():
    X, y = two_classes()
    path = svm_path(X, y, 100.0, gamma=0.3)
    for C in np.geomspace(1e-2, 100.0, 6):
        model = SVC(C=C, gamma=0.3, tol=1e-10, solver="active_set").fit(X, y)
        np.testing.assert_allclose(path.decision_function(X, C), model.decision_function(X), atol=1e-6)
        np.testing.assert_array_equal(path.predict(X, C), model.predict(X))


def test_several_values_at_once():
    X, y = two_classes()
    path, values = svm_path(X, y, 10.0), np.array([0.0, 0.1, 3.0, 10.0])
    a, b = path.at(values)
    assert a.shape == (4, 100)
    for k, C in enumerate(values):
        one, intercept = path.at(float(C))
        np.testing.assert_array_equal(a[k], one)
        assert b[k] == intercept
    assert path.decision_function(X[:5], values).shape == (5, 4)
    assert not a[0].any()


def test_weights_and_classes():
    X, y = two_classes(60)
    s = np.random.default_rng(0).uniform(0.1, 3.0, 60)
    path = svm_path(X, y, 50.0, gamma=0.3, sample_weight=s, class_weight={-1.0: 2.0})
    both = s * np.where(y < 0.0, 2.0, 1.0)
    assert np.abs(gaps(path, kernel_of(X), y, between(path), both)).max() <= 1e-9


@pytest.mark.parametrize("intercept", [None, "penalised"])
def test_other_intercepts(intercept):
    X, y = two_classes(60)
    path = svm_path(X, y, 50.0, gamma=0.3, intercept=intercept)
    for C in np.geomspace(1e-2, 50.0, 9):
        assert path.certificate(C).relative_gap <= 1e-8


@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed"])
def test_kernels(kernel):
    X, y = two_classes(60)
    data = kernel_of(X) if kernel == "precomputed" else X
    path = svm_path(data, y, 10.0, kernel=kernel, gamma=0.5, degree=2)
    for C in np.geomspace(1e-3, 10.0, 9):
        certificate = path.certificate(C)
        assert certificate.gap <= 1e-8 * certificate.primal
    assert path.decision_function(data[:3], 1.0).shape == (3,)


def twins(n, seed):
    X, y = two_classes(n, seed)
    return np.vstack([X, X[: n // 2]]), np.append(y, y[: n // 2])


def opposites(n, seed):
    X, y = two_classes(n, seed)
    return np.vstack([X, X[: n // 2]]), np.append(y, -y[: n // 2])


def unequal(n, seed):
    X, _ = two_classes(n, seed)
    return X, np.where(np.arange(n) < 3, 1.0, -1.0)


@pytest.mark.parametrize("data", [twins, opposites, unequal], ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", [0, 1])
def test_degenerate_data(data, seed):
    """Bad input: duplicates, duplicates with opposite labels, a class of three."""
    X, y = data(40, seed)
    path = svm_path(X, y, 100.0, gamma=0.3)
    assert path.complete
    assert path.breakpoints.size < 40 * X.shape[0]
    assert np.abs(gaps(path, kernel_of(X), y, np.geomspace(1e-3, 100.0, 20))).max() <= 1e-8


@examples
@given(st.integers(0, 10**6), st.integers(4, 30), st.integers(1, 4), st.floats(0.02, 5.0))
def test_any_data(seed, n, d, gamma):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)).round(1), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    path = svm_path(X, y, 100.0, gamma=gamma)
    values = np.geomspace(1e-4, path.C_max, 9)
    assert np.abs(gaps(path, kernel_of(X, gamma), y, values)).max() <= 1e-7


def test_two_samples():
    path = svm_path([[0.0], [1.0]], [0, 1], 100.0, gamma=1.0)
    assert path.complete
    assert (
        np.abs(gaps(path, kernel_of(np.array([[0.0], [1.0]]), 1.0), np.array([-1.0, 1.0]), [0.1, 1.0, 100.0])).max()
        <= 1e-12
    )


@pytest.mark.parametrize("C", [1e-12, 1e12])
def test_extreme_ends(C):
    X, y = two_classes(50)
    path = svm_path(X, y, C, gamma=0.3)
    certificate = path.certificate(C)
    assert certificate.gap <= max(1e-6 * certificate.primal, certificate.error)


def test_what_is_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="svm_path is for two classes, and y has 3"):
        svm_path(X, y)
    with pytest.raises(ValueError, match="class"):
        svm_path(X[:50], y[:50])  # one class
    with pytest.raises(ValueError, match="is not a positive number"):
        svm_path(X[:100], y[:100], -1.0)
    with pytest.raises(ValueError, match="sums can be held up to 1e"):
        svm_path(X[:100], y[:100], 1e300)
    with pytest.raises(ValueError, match="and max_memory is"):
        svm_path(X[:100], y[:100], max_memory=0.01)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        svm_path(np.array([[0.0, 1.0], [1.0, 0.0]]), [0, 1], kernel="precomputed")
    path = svm_path(X[:100], y[:100], 1.0)
    with pytest.raises(ValueError, match="is not on this path"):
        path.at(2.0)


def test_a_path_without_room_ends_early(monkeypatch):
    X, y = two_classes(100)
    whole = svm_path(X, y, 100.0, gamma=0.3)
    for module in ("svm_path", "_machinery.exact_paths"):
        monkeypatch.setattr(sys.modules[f"maxmargin.estimators.{module}"], "ROOM", 5)
    part = svm_path(X, y, 100.0, gamma=0.3, max_memory=8.0 * 100 * 100 / 2**20)
    assert not part.complete
    assert part.C_max < 100.0
    np.testing.assert_allclose(part.at(part.C_max)[0], whole.at(part.C_max)[0], atol=1e-9)


def test_it_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y = two_classes(50)
    with pyplot.rc_context({"axes.titlelocation": "center"}):
        axes = svm_path(X, y, 10.0).plot()
    assert [ax.get_title() for ax in axes] == ["coefficients", "margin", "training error", "support vectors"]
    assert all(ax.lines for ax in axes)
    pyplot.close(axes[0].figure)
    assert "breakpoints" in repr(svm_path(X, y, 1.0))
