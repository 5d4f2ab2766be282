"""The smallest mean loss over a ball: against Clarabel, its certificate, and the bounds of projected steps."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize as scipy_minimize

import zoo
from maxmargin import bounds, minimise_in_ball, projected_sgd
from maxmargin.estimators.within_ball import LIPSCHITZ, LOSSES


def mean_loss(name, X, y, w):
    m = y * (X @ w)
    return {
        "hinge": np.maximum(0.0, 1.0 - m),
        "squared_hinge": np.maximum(0.0, 1.0 - m) ** 2,
        "huber_hinge": np.where(m >= 1, 0.0, np.where(m <= 0, 0.5 - m, (1 - m) ** 2 / 2)),
        "logistic": np.logaddexp(0.0, -m),
    }[name].mean()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("radius", [0.05, 0.7, 3.0])
def test_the_minimum_over_the_ball(name, radius):
    """Inventory 0-17: ``min 1/m sum loss`` over ``|w| <= B``, and nothing in the ball is better."""
    X, y = zoo.blobs(80, 3, seed=1, apart=0.5)
    found = minimise_in_ball(X, y, radius, loss=name, tol=1e-7)
    assert np.linalg.norm(found.w) <= radius
    value = mean_loss(name, X, y, found.w)
    assert found.certificate.primal == pytest.approx(value, rel=1e-12)
    assert 0.0 <= found.excess + 1e-15 <= 1e-6 * mean_loss(name, X, y, np.zeros(3))
    constraint = {"type": "ineq", "fun": lambda w: radius**2 - w @ w}
    options = {"ftol": 1e-12, "maxiter": 500}
    theirs = scipy_minimize(lambda w: mean_loss(name, X, y, w), np.full(3, 1e-3), constraints=constraint,
                            method="SLSQP", options=options)  # fmt: skip
    assert found.certificate.dual <= theirs.fun + 1e-8
    rng = np.random.default_rng(0)
    for _ in range(200):
        w = rng.normal(size=3)
        w *= radius * rng.random() / np.linalg.norm(w)
        assert mean_loss(name, X, y, w) >= found.certificate.dual - 1e-12


def test_a_ball_that_does_not_bind_and_one_that_is_a_point():
    X, y = zoo.blobs(40, 3, seed=2, apart=4.0)
    wide = minimise_in_ball(X, y, 100.0)
    assert wide.certificate.primal <= 1e-6
    point = minimise_in_ball(X, y, 0.0)
    assert not point.w.any()
    assert point.certificate.primal == pytest.approx(1.0)
    assert point.excess == 0.0
    sparse = minimise_in_ball(sp.csr_array(X), y, 0.2)
    np.testing.assert_allclose(sparse.w, minimise_in_ball(X, y, 0.2).w, atol=1e-5)


@pytest.mark.parametrize("name", LIPSCHITZ)
@pytest.mark.parametrize("order", ["fresh", "independent"])
def test_steps_are_those_of_the_formula(name, order):
    X, y = zoo.blobs(60, 3, seed=3, apart=0.3)
    B, k, seed = 0.4, 60, 5
    longest = np.linalg.norm(X, axis=1).max()
    eta = B / (longest * np.sqrt(k))
    assert bounds.step_in_ball(k, longest, B) == pytest.approx(eta, rel=1e-14)
    visited = np.arange(k) if order == "fresh" else np.random.default_rng(seed).integers(60, size=k)
    for step in (None, 0.4):
        w, passed, slope = np.zeros(3), [], LOSSES[name].slope
        for i in visited:
            passed.append(w)
            w = w - (step or eta) * slope(X[i] @ w, y[i]) * X[i]
            w = w * min(1.0, B / max(np.linalg.norm(w), 1e-300))
        found = projected_sgd(X, y, B, order=order, loss=name, seed=seed, step=step)
        np.testing.assert_allclose(found.w, np.mean(passed, axis=0), rtol=1e-10)
    assert max(map(np.linalg.norm, passed)) == pytest.approx(B)  # long steps are projected
    assert found.certificate.primal == pytest.approx(mean_loss(name, X, y, found.w), rel=1e-12)
    assert found.certificate.dual <= minimise_in_ball(X, y, B, loss=name).certificate.primal


def test_long_runs_keep_their_digits():
    X, y = zoo.blobs(20, 2, seed=4, apart=0.2)
    found = projected_sgd(X, y, 1e-3, steps=200_000, step=10.0)
    assert np.isfinite(found.w).all()
    assert np.linalg.norm(found.w) <= 1e-3


def test_the_bound_of_projected_steps_on_the_samples():
    """Inventory 0-18: the mean excess over the ball is at most ``X B / sqrt(k)``, with slope -1/2 or better."""
    X, y = zoo.blobs(200, 4, seed=5, apart=0.5)
    longest = np.linalg.norm(X, axis=1).max()
    for B in (0.3, 2.0):
        optimum = minimise_in_ball(X, y, B).certificate.dual
        excess = []
        for k in (100, 1600, 25_600):
            values = [mean_loss("hinge", X, y, projected_sgd(X, y, B, steps=k, seed=s).w) for s in range(10)]
            excess.append(np.mean(values) - optimum)
            assert -1e-9 <= excess[-1] <= bounds.error_in_ball(k, longest, B)
        assert excess[2] <= excess[0] / np.sqrt(25_600 / 100) * 1.5


def test_one_pass_over_fresh_samples_minimises_the_mean_over_all():
    """Inventory 0-17, 0-20: stochastic approximation, of a world of 4000 samples from which fresh ones are drawn."""
    world, labels = zoo.blobs(4000, 4, seed=6, apart=0.5)
    longest, rng = np.linalg.norm(world, axis=1).max(), np.random.default_rng(0)
    B = 1.0
    best = minimise_in_ball(world, labels, B).certificate.dual
    means = []
    for k in (100, 1600, 25_600):
        risks = []
        for _ in range(8):
            drawn = rng.integers(4000, size=k)
            w = projected_sgd(world[drawn], labels[drawn], B, order="fresh").w
            risks.append(mean_loss("hinge", world, labels, w))
        means.append(np.mean(risks) - best)
        assert means[-1] <= bounds.error_in_ball(k, longest, B)
    assert means[2] <= means[0] / np.sqrt(25_600 / 100) * 1.5


def test_the_deviation_over_the_whole_ball():
    """Inventory 0-19: of the mean over few samples from that over all, for every w of a ball at once: slope -1/2."""
    world, labels = zoo.blobs(4000, 2, seed=7, apart=0.5)
    longest, rng, B = np.linalg.norm(world, axis=1).max(), np.random.default_rng(1), 2.0
    angles, lengths = np.meshgrid(np.linspace(0.0, 2 * np.pi, 24, endpoint=False), np.linspace(0.0, B, 9))
    ball = np.column_stack([(lengths * np.cos(angles)).ravel(), (lengths * np.sin(angles)).ravel()])
    losses = np.maximum(0.0, 1.0 - labels[:, None] * (world @ ball.T))
    risk, sizes, largest = losses.mean(axis=0), (50, 400, 3200), []
    for m in sizes:
        over = [np.abs(losses[rng.integers(4000, size=m)].mean(axis=0) - risk).max() for _ in range(40)]
        largest.append(np.mean(over))
        assert largest[-1] <= bounds.deviation_over_ball(m, longest, B)
        assert np.mean(np.array(over) > bounds.deviation_over_ball(m, longest, B, delta=0.1)) <= 0.1
    slope = np.polyfit(np.log(sizes), np.log(largest), 1)[0]
    assert -0.65 <= slope <= -0.35


@pytest.mark.parametrize(("call", "fragment"), [
    (lambda X, y: minimise_in_ball(X, np.arange(6.0), 1.0), "labels -1 and 1 only"),
    (lambda X, y: minimise_in_ball(X, y, -1.0), "radius must be a finite number of at least 0"),
    (lambda X, y: minimise_in_ball(X, y, 1e300), r"radius=1e\+300 must be 0, or from 1e-100"),
    (lambda X, y: minimise_in_ball(X, y, 1.0, loss="ramp"), "loss='ramp' is unknown"),
    (lambda X, y: minimise_in_ball(X * np.nan, y, 1.0), "NaN"),
    (lambda X, y: projected_sgd(X, y, 1.0, loss="squared_hinge"), "no bound on its slopes"),
    (lambda X, y: projected_sgd(X, y, 1.0, order="cyclic"), "order='cyclic' is unknown"),
    (lambda X, y: projected_sgd(X, y, 1.0, order="fresh", steps=7), "at most the 6 fresh samples"),
    (lambda X, y: projected_sgd(X, y, 1.0, steps=0), "steps=0 must be at least 1"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(call, fragment):
    X, y = zoo.blobs(6, 2, seed=8)
    with pytest.raises(ValueError, match=fragment):
        call(X, y)
