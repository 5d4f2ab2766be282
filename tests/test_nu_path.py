"""The path of all nu: optimal at and between breakpoints by the referee, where it ends, degenerate data, refusals."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import referee
from maxmargin import NuSVC, nu_path


def two_classes(n=80, seed=0, weights=None):
    X, y = make_classification(n, 4, n_informative=3, n_redundant=0, flip_y=0.15, weights=weights, random_state=seed)
    return X, np.where(y > 0, 1.0, -1.0)


def kernel_of(X, gamma=0.3):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def gaps(path, K, y, values, s=1.0):
    """Relative gaps by the referee, which knows the program alone."""
    s, out = np.broadcast_to(s, y.shape), []
    plus, minus = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    for nu in values:
        total = 0.5 * nu * s.sum()
        coefficients, _ = path.at(nu)
        a = coefficients * path.rho(nu)
        groups = ((plus, total), (minus, -total))
        box = referee.Box(K, np.zeros(y.size), np.where(y > 0, 0.0, -s), np.where(y > 0, s, 0.0), 0.0 * s, groups)
        verdict = referee.judge(box, a, 0.0, a)
        assert verdict.infeasibility <= 1e-9 * (1.0 + np.abs(a).sum())
        out.append(verdict.gap / max(abs(verdict.primal), abs(verdict.dual)))
    return np.array(out)


def between(path):
    """All breakpoints but the first, and a value between each two of them."""
    nu = path.breakpoints
    return np.concatenate([nu[1:], 0.5 * (nu[1:] + nu[:-1])])


@pytest.mark.parametrize("weights", [None, [0.85], [0.3]])
def test_the_whole_path_is_optimal(weights):
    """Items 0-38 and 0-44 for nu: every breakpoint and every piece is a certified solution."""
    X, y = two_classes(weights=weights)
    path = nu_path(X, y, gamma=0.3)
    assert path.complete
    assert path.nu_min == 0.0
    assert path.nu_max == pytest.approx(2.0 * min((y > 0).mean(), (y < 0).mean()))
    assert (np.diff(path.breakpoints) >= 0.0).all()
    values = between(path)
    assert np.abs(gaps(path, kernel_of(X), y, values)).max() <= 1e-6
    assert path.certificate(float(values[3])).relative_gap <= 1e-8


def test_weights_are_caps():
    X, y = two_classes()
    s = np.random.default_rng(0).uniform(0.3, 2.0, size=80)
    path = nu_path(X, y, gamma=0.3, sample_weight=s)
    assert np.abs(gaps(path, kernel_of(X), y, between(path), s)).max() <= 1e-6


def test_it_agrees_with_refits():
    X, y = two_classes()
    path = nu_path(X, y, gamma=0.3)
    for nu in np.linspace(0.05, 0.95, 5) * path.nu_max:
        model = NuSVC(nu=nu, gamma=0.3, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(path.decision_function(X, nu), model.decision_function(X), atol=1e-6)
        assert path.rho(nu) == pytest.approx(model.rho_[0], rel=1e-6)
        np.testing.assert_array_equal(path.predict(X, nu), model.predict(X))
    two = path.at([0.1, 0.2])
    assert two[0].shape == (2, 80)
    np.testing.assert_array_equal(two[0][1], path.at(0.2)[0])


def test_it_ends_where_the_hulls_meet():
    """A linear kernel does not separate these: below some nu, NuSVC has no margin, and just above it has."""
    X, y = two_classes()
    path = nu_path(X, y, kernel="linear")
    assert not path.complete
    assert path.nu_min > 0.1
    assert path.rho(path.nu_min) <= 1e-6 * path.rho(path.nu_max)
    values = between(path)
    assert np.abs(gaps(path, X @ X.T, y, values[values > 1.01 * path.nu_min])).max() <= 1e-6
    with pytest.raises(ValueError, match="is not on this path, which goes from"):
        path.at(0.9 * path.nu_min)
    with pytest.warns(ConvergenceWarning, match="hulls of two classes meet"):
        meeting = NuSVC(nu=0.9 * path.nu_min, kernel="linear", solver="saddle", max_time=20.0).fit(X, y)
    assert meeting.status_.name == "NOT_SEPARABLE"


def test_twins_and_opposite_twins():
    X, y = two_classes(40)
    same = nu_path(np.vstack([X, X]), np.append(y, y), gamma=0.3)
    values = np.linspace(0.1, 0.9, 7) * same.nu_max
    assert np.abs(gaps(same, kernel_of(np.vstack([X, X])), np.append(y, y), values)).max() <= 1e-8
    opposite = np.vstack([X, X[:5]]), np.append(y, -y[:5])
    path = nu_path(*opposite, gamma=0.3)  # the hulls share points: it ends above 0
    assert path.nu_min > 0.0
    values = np.linspace(path.nu_min, path.nu_max, 9)[1:]
    assert np.abs(gaps(path, kernel_of(opposite[0]), opposite[1], values)).max() <= 1e-6


def test_one_sample_of_a_class():
    X, y = two_classes(30)
    X, y = np.vstack([X[y < 0], X[y > 0][:1]]), np.append(y[y < 0], 1.0)
    path = nu_path(X, y, gamma=0.3)
    assert path.nu_max == pytest.approx(2.0 / y.size)
    assert np.abs(gaps(path, kernel_of(X), y, between(path))).max() <= 1e-8


def test_what_is_no_path_is_refused():
    X, y = two_classes(30)
    with pytest.raises(ValueError, match="nu_path is for two classes, and y has 3"):
        nu_path(*load_iris(return_X_y=True))
    with pytest.raises(ValueError, match="classes"):
        nu_path(X, np.ones(30))
    with pytest.raises(
        ValueError, match="no path: the kernel matrix is not positive semi-definite, but it has a direc"
    ):
        nu_path(X, y, kernel="sigmoid", gamma=0.5)
    with pytest.raises(ValueError, match="nu_path stores the kernel matrix"):
        nu_path(X, y, max_memory=1e-3)
    with pytest.raises(ValueError, match="meet for every nu"):
        nu_path(np.ones((4, 2)), [0, 1, 0, 1])


def test_the_plot_shows_what_nu_is_between():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("matplotlib").use("Agg")
    X, y = two_classes()
    path = nu_path(X, y, gamma=0.3)
    axes = path.plot()
    support, nu, errors = (line.get_ydata() for line in axes[2].lines)
    assert (errors <= nu + 1e-9).all()  # the nu property
    assert (nu <= support + 1e-9).all()
    assert "breakpoints" in repr(path)
    pyplot.close("all")


def test_the_certificate_is_that_of_the_intercept_too():
    weights = np.array([6e-11, 600.0, 26000.0])  # whose intercept has few digits where nu is small
    path = nu_path([[1.0], [-1.0], [0.0]], [0, 1, 0], kernel="linear", sample_weight=weights)
    certificate = path.certificate(path.nu_min)
    (a, b), rho = path.at(path.nu_min), path.rho(path.nu_min)
    margins = np.array([-1.0, 1.0, -1.0]) * ((a @ [1.0, -1.0, 0.0]) * np.array([1.0, -1.0, 0.0]) + b)
    value = 0.5 * (a @ [1.0, -1.0, 0.0]) ** 2 * rho**2 - path.nu_min * weights.sum() * rho
    value += rho * weights @ np.maximum(0.0, 1.0 - margins)
    assert certificate.primal == pytest.approx(value, rel=1e-9)
