"""Losses: convexity, conjugates, slopes and dual steps against definitions and numeric optima."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import referee
import zoo
from maxmargin import Problem
from maxmargin.operators import PrecomputedGram
from maxmargin.parts.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import dual_pieces

LOSSES = {
    "hinge": Hinge(),
    "hinge of margin 0": Hinge(0.0),
    "squared hinge": SquaredHinge(),
    "squared hinge of margin 2": SquaredHinge(2.0),
    "huber hinge": HuberHinge(),
    "huber hinge, narrow": HuberHinge(1e-3),
    "logistic": Logistic(),
    "logistic, cold": Logistic(0.1),
    "squared": Squared(),
    "huber": Huber(0.3),
    "squared, steep": Squared(3.0),
    "epsilon": EpsilonInsensitive(),
    "absolute": EpsilonInsensitive(0.0),
    "squared epsilon": SquaredEpsilonInsensitive(0.5),
}
NAMES = {cls: name for name, cls in zoo.LOSSES.items()}

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
examples = settings(max_examples=40, deadline=None, derandomize=True, database=None)
score = st.floats(-20.0, 20.0)


def target(loss, number):
    """A target that the loss accepts."""
    if loss.traits.classes:
        return 1.0 if number >= 0 else -1.0
    return number


def in_range(loss, y, fraction):
    """A slope of the loss, or a limit of slopes: ``fraction`` runs over [0, 1]."""
    low, high = loss.dual_range(y)
    low, high = max(low, -30.0), min(high, 30.0)
    return -min(low + fraction * (high - low), high)


@every_loss
@examples
@given(z=score, number=score, fraction=st.floats(0.0, 1.0))
def test_fenchel_young_inequality(loss, z, number, fraction):
    y = target(loss, number)
    u = in_range(loss, y, fraction)
    assert loss.value(z, y) + loss.conjugate(u, y) >= u * z - 1e-12 * (1.0 + abs(u * z) + abs(u * y))


@every_loss
@examples
@given(z=score, number=score)
def test_fenchel_young_is_an_equality_at_the_slope(loss, z, number):
    y = target(loss, number)
    u = loss.slope(z, y)
    total = loss.value(z, y) + loss.conjugate(u, y)
    assert total == pytest.approx(u * z, abs=1e-12 * (1.0 + abs(u * z) + abs(u * y) + loss.value(z, y)))


@every_loss
@settings(examples, max_examples=30)
@given(number=score, fraction=st.floats(0.01, 0.99))
def test_conjugate_is_the_supremum(loss, number, fraction):
    y = target(loss, number)
    u = in_range(loss, y, fraction)
    # The supremum is attained within |u| / curvature of a kink or of the target.
    found = minimize_scalar(lambda z: loss.value(z, y) - u * z, bounds=(-100.0, 100.0), options={"xatol": 1e-10})
    assert loss.conjugate(u, y) == pytest.approx(-found.fun, abs=1e-6 * (1.0 + abs(u) * 10.0))


@every_loss
def test_conjugate_is_infinite_outside_of_its_domain(loss):
    for y in (1.0, -1.0):
        low, high = loss.dual_range(y)
        outside = [-u for u in (low - 0.01, high + 0.01) if math.isfinite(u)]
        for u in outside:
            assert loss.conjugate(u, y) == math.inf
            far = [u * z - loss.value(z, y) for z in (-1e9, 1e9)]
            assert max(far) > 1e6  # and so is the supremum


@every_loss
@examples
@given(z=score, number=score)
def test_slope_lies_between_the_one_sided_differences(loss, z, number):
    y = target(loss, number)
    h = 1e-6
    left = (loss.value(z, y) - loss.value(z - h, y)) / h
    right = (loss.value(z + h, y) - loss.value(z, y)) / h
    rounding = 1e-9 * (1.0 + loss.value(z, y))
    assert left - rounding <= loss.slope(z, y) <= right + rounding


@every_loss
@examples
@given(z=score, number=score)
def test_slope_is_the_derivative_away_from_kinks(loss, z, number):
    y = target(loss, number)
    kinks = [0.0, getattr(loss, "margin", 1.0), 1.0 - getattr(loss, "mu", 0.0), getattr(loss, "epsilon", 0.0)]
    distance = abs(z - y) if not loss.traits.classes else y * z
    assume(all(abs(distance - kink) > 1e-4 for kink in kinks))
    h = 1e-5
    difference = (loss.value(z + h, y) - loss.value(z - h, y)) / (2.0 * h)
    assert loss.slope(z, y) == pytest.approx(difference, abs=1e-7 * (1.0 + loss.value(z, y)))


@pytest.mark.parametrize("of_classes", [loss for loss in LOSSES.values() if loss.traits.classes], ids=str)
@given(z=score, number=score, step=st.floats(0.0, 10.0))
def test_losses_of_classes_fall_ever_more_slowly(of_classes, z, number, step):
    """So the steepest slope within reach of a score is that at one end (`problems.rounding`)."""
    y = target(of_classes, number)
    assert abs(of_classes.slope(z - y * step, y)) >= abs(of_classes.slope(z, y))
    assert y * of_classes.slope(z, y) <= 0.0


@every_loss
@examples
@given(z=score, other=score, number=score)
def test_subgradient_inequality(loss, z, other, number):
    y = target(loss, number)
    linear = loss.value(z, y) + loss.slope(z, y) * (other - z)
    assert loss.value(other, y) >= linear - 1e-12 * (1.0 + abs(linear) + loss.value(z, y))


@every_loss
@examples
@given(z=st.floats(-1e6, 1e6), number=score)
def test_dual_range_holds_every_slope(loss, z, number):
    y = target(loss, number)
    low, high = loss.dual_range(y)
    assert low <= -loss.slope(z, y) <= high


@every_loss
def test_dual_range_is_not_too_wide(loss):
    for y in (1.0, -1.0):
        slopes = sorted(-loss.slope(z, y) for z in (-1e9, 1e9))
        low, high = loss.dual_range(y)
        assert slopes[0] == pytest.approx(low) if math.isfinite(low) else slopes[0] < -1e8
        assert slopes[1] == pytest.approx(high) if math.isfinite(high) else slopes[1] > 1e8


@every_loss
@settings(examples, max_examples=80)
@given(
    number=st.floats(-3.0, 3.0),
    fraction=st.floats(0.0, 1.0),
    log_s=st.floats(-8.0, 6.0),
    z=st.floats(-5.0, 5.0),
    log_q=st.none() | st.floats(-6.0, 6.0),
)
def test_dual_step_is_optimal(loss, number, fraction, log_s, z, log_q):
    y, s = target(loss, number), 10.0**log_s
    q = 0.0 if log_q is None else 10.0**log_q
    low, high = (s * end for end in loss.dual_range(y))
    a = max(low, -3.0 * s) + fraction * (min(high, 3.0 * s) - max(low, -3.0 * s))

    def objective(new):
        return -s * loss.conjugate(-new / s, y) - (new - a) * z - 0.5 * q * (new - a) ** 2

    step = float(loss.dual_step(a, y, s, z, q))
    assert low <= step <= high
    reached = objective(step)
    size = abs(step) + abs(a)
    rounding = 1e-12 * (s + size) * (1.0 + abs(y) + abs(z)) + 1e-12 * q * (step - a) ** 2 + 1e-12 * abs(reached)
    # The objective is concave, so points near and far on either side are enough.
    reach = size + s
    offsets = np.concatenate([10.0 ** np.arange(-7.0, 1.0) * reach, np.linspace(0.0, 2.0, 41) * reach])
    for other in np.clip(np.concatenate([step + offsets, step - offsets, [a]]), low, high):
        assert objective(float(other)) <= reached + rounding


@every_loss
def test_dual_step_leads_to_the_score_of_its_slope(loss):
    """The step is optimal exactly if ``alpha`` is minus a subgradient at the score that it brings about."""
    rng = np.random.default_rng(0)
    n = 2000
    y = np.array([target(loss, number) for number in rng.normal(size=n)])
    s, q, z = 10.0 ** rng.uniform(-2, 2, n), 10.0 ** rng.uniform(-2, 2, n), rng.normal(size=n)
    fraction = rng.uniform(size=n)
    a = np.array([-w * in_range(loss, t, f) for w, t, f in zip(s, y, fraction, strict=True)])
    step = np.array([loss.dual_step(*row) for row in zip(a, y, s, z, q, strict=True)])
    score = z + q * (step - a)
    description = (NAMES[type(loss)], loss[0])
    low, high = referee.slope_interval(description, score, y)
    slope = -step / s
    by_slope = np.maximum(np.maximum(low - slope, slope - high), 0.0)
    low, high = referee.score_interval(description, step, y, s)
    by_score = np.maximum(np.maximum(low - score, score - high), 0.0)
    size = 1.0 + np.abs(z) + q * (np.abs(step) + np.abs(a))
    assert (np.minimum(by_slope / (1.0 + np.abs(slope)), by_score / size) <= 1e-10).all()


@every_loss
@settings(examples, max_examples=40)
@given(number=st.floats(-3.0, 3.0), fraction=st.floats(0.0, 1.0), z=st.floats(-3.0, 3.0), q=st.floats(0.01, 100.0))
def test_dual_step_against_a_numeric_search(loss, number, fraction, z, q):
    y = target(loss, number)
    low, high = loss.dual_range(y)
    a = max(low, -3.0) + fraction * (min(high, 3.0) - max(low, -3.0))

    def cost(new):
        return loss.conjugate(-new, y) + (new - a) * z + 0.5 * q * (new - a) ** 2

    found = minimize_scalar(cost, bounds=(max(low, -1e3), min(high, 1e3)), options={"xatol": 1e-12, "maxiter": 2000})
    assert cost(float(loss.dual_step(a, y, 1.0, z, q))) <= found.fun + 1e-9


@every_loss
@examples
@given(number=st.floats(-3.0, 3.0), z=st.floats(-5.0, 5.0), log_s=st.floats(-3.0, 3.0), q=st.floats(1e-3, 1e3))
def test_dual_step_stays_at_an_optimum(loss, number, z, log_s, q):
    y, s = target(loss, number), 10.0**log_s
    a = -s * loss.slope(z, y)  # optimal for this score, whatever q is
    assert loss.dual_step(a, y, s, z, q) == pytest.approx(a, abs=1e-9 * s)


@every_loss
@examples
@given(number=st.floats(-3.0, 3.0), fraction=st.floats(0.05, 0.95), s=st.floats(0.1, 10.0))
def test_dual_curvature_is_the_second_derivative(loss, number, fraction, s):
    y = target(loss, number)
    a = -s * in_range(loss, y, fraction)
    assume(abs(a) > 0.02 * s)
    h = 1e-3 * s
    left, middle, right = (s * loss.conjugate(-(a + k * h) / s, y) for k in (-1, 0, 1))
    numeric = (left - 2.0 * middle + right) / h**2
    assert loss.dual_curvature(a, y, s) == pytest.approx(numeric, rel=1e-3, abs=1e-6)


@every_loss
@examples
@given(number=st.floats(-3.0, 3.0), fraction=st.floats(0.05, 0.95), s=st.floats(0.1, 10.0))
def test_dual_slope_is_the_first_derivative(loss, number, fraction, s):
    y = target(loss, number)
    a = -s * in_range(loss, y, fraction)
    assume(abs(a) > 0.02 * s)
    h = 1e-4 * s
    left, right = (s * loss.conjugate(-(a + k * h) / s, y) for k in (-1, 1))
    assert loss.dual_slope(a, y, s) == pytest.approx((right - left) / (2.0 * h), rel=1e-4, abs=1e-5)


@every_loss
def test_values_and_duals_agree_with_the_referee(loss):
    rng = np.random.default_rng(0)
    z, s = rng.normal(size=50) * 3, rng.uniform(0.1, 2.0, 50)
    y = np.array([target(loss, number) for number in rng.normal(size=50)])
    description = (NAMES[type(loss)], loss[0])
    values = [loss.value(*pair) for pair in zip(z, y, strict=True)]
    np.testing.assert_allclose(values, referee.loss_values(description, z, y), rtol=1e-12, atol=1e-15)
    alpha = np.array([-weight * loss.slope(*pair) for weight, *pair in zip(s, z, y, strict=True)])
    dual = -sum(w * loss.conjugate(-a / w, t) for w, a, t in zip(s, alpha, y, strict=True))
    value, outside = referee.dual_loss(description, alpha, y, s)
    assert outside == 0.0
    assert value == pytest.approx(dual, rel=1e-12)


@every_loss
def test_declared_classes_are_those_of_the_dual_range(loss):
    """The dual variables of a loss of classes have the sign of their target; those of the others have both signs."""
    signs = [tuple(np.sign(loss.dual_range(y))) for y in (-1.0, 1.0)]
    assert signs == ([(-1.0, 0.0), (0.0, 1.0)] if loss.traits.classes else [(-1.0, 1.0)] * 2)
    assert loss.traits.classes == (NAMES[type(loss)] in referee.CLASSIFICATION)


@every_loss
def test_declared_kinks_are_jumps_of_the_slope(loss):
    """Between two near scores the slope of a smooth loss changes little: those here have a curvature below 1001."""
    z = np.linspace(-3.0, 3.0, 60_001)
    jump = max(np.abs(np.diff([loss.slope(score, y) for score in z])).max() for y in (-1.0, 1.0))
    assert (jump > 0.5) == loss.traits.kinked


@every_loss
def test_declared_pieces_of_the_dual_are_its_conjugate(loss):
    rng = np.random.default_rng(0)
    n = 50
    y = np.array([target(loss, number) for number in rng.normal(size=n)])
    s = 10.0 ** rng.uniform(-3.0, 3.0, n)
    if loss.traits.dual_pieces == 0:
        assert loss.dual_curvature(0.2, 1.0, 1.0) != pytest.approx(loss.dual_curvature(0.5, 1.0, 1.0))
        return
    q, D, low, high = dual_pieces(Problem(PrecomputedGram(np.eye(n)), y, loss, L2(1.0), s))
    assert q.shape == (loss.traits.dual_pieces, n)
    np.testing.assert_array_equal(
        [low.sum(axis=0), high.sum(axis=0)], s * np.transpose([loss.dual_range(t) for t in y])
    )
    for fraction in (0.0, 0.1, 0.7, 1.0):
        a = np.clip(low, -3.0 * s, None) * (1.0 - fraction) + np.clip(high, None, 3.0 * s) * fraction
        a = np.clip(a, low, high)
        for k in range(q.shape[0]):
            expected = [-w * loss.conjugate(-v / w, t) for w, v, t in zip(s, a[k], y, strict=True)]
            np.testing.assert_allclose(q[k] * a[k] - 0.5 * D[k] * a[k] ** 2, expected, rtol=1e-12, atol=1e-12 * s.max())


@examples
@given(z=score, y=st.sampled_from([-1.0, 1.0]), mu=st.floats(1e-3, 5.0))
def test_huber_hinge_is_within_half_mu_of_the_hinge(z, y, mu):
    difference = Hinge().value(z, y) - HuberHinge(mu).value(z, y)
    assert -1e-12 <= difference <= 0.5 * mu * (1.0 + 1e-12) + 1e-12


def test_huber_hinge_reaches_both_ends_of_its_distance_to_the_hinge():
    huber = HuberHinge(0.5)
    assert Hinge().value(2.0, 1.0) - huber.value(2.0, 1.0) == 0.0
    assert Hinge().value(-3.0, 1.0) - huber.value(-3.0, 1.0) == pytest.approx(0.25)


@examples
@given(z=score, other=score, y=st.sampled_from([-1.0, 1.0]), mu=st.floats(1e-2, 5.0))
def test_huber_slope_is_lipschitz(z, other, y, mu):
    huber = HuberHinge(mu)
    assert abs(huber.slope(z, y) - huber.slope(other, y)) <= abs(z - other) / mu * (1.0 + 1e-12) + 1e-12


@examples
@given(t=st.floats(0.0, 1.0), y=st.sampled_from([-1.0, 1.0]), mu=st.floats(1e-2, 5.0))
def test_huber_conjugate_is_that_of_the_hinge_and_a_parabola(t, y, mu):
    difference = HuberHinge(mu).conjugate(-t * y, y) - Hinge().conjugate(-t * y, y)
    assert difference == pytest.approx(0.5 * mu * t**2, abs=1e-14)


@examples
@given(z=score, y=st.sampled_from([-1.0, 1.0]), temperature=st.floats(1e-3, 5.0))
def test_cold_logistic_is_close_to_the_hinge_of_margin_zero(z, y, temperature):
    difference = Logistic(temperature).value(z, y) - Hinge(0.0).value(z, y)
    assert -1e-12 <= difference <= temperature * math.log(2.0) + 1e-12


def test_logistic_does_not_overflow():
    assert Logistic().value(-1e4, 1.0) == pytest.approx(1e4)
    assert Logistic().value(1e4, 1.0) == 0.0
    assert Logistic().slope(-1e4, 1.0) == -1.0
    assert Logistic().conjugate(-1.0, 1.0) == 0.0


def test_logistic_dual_step_when_newton_would_cycle():
    """A bracketed Newton method that accepts steps onto the bracket's ends jumps between them for ever."""
    loss, a, y, s, z, q = Logistic(0.1), 0.061, 1.0, 1.0, 1.0915, 22.55
    t = y * loss.dual_step(a, y, s, z, q)
    residual = 0.1 * (math.log(t) - math.log1p(-t)) + y * z + q * (t - y * a)
    assert abs(residual) <= 1e-10 * q
