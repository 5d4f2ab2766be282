"""Penalties: conjugates and proximal maps against definitions and numeric optima."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from maxmargin.operators import Rows
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, L2, Bounded, ElasticNet, Groups, strengths
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem


def bounded(lam, ratio, low, high):
    return Bounded(lam, ratio, np.array([low]), np.array([high]))


PENALTIES = {
    "l2": L2(0.7),
    "l1": L1(0.7),
    "elastic net": ElasticNet(0.7, 0.3),
    "elastic net without l1": ElasticNet(1.5, 0.0),
    "ridge in a box": bounded(0.7, 0.0, -1.5, 0.4),
    "positive ridge": bounded(0.7, 0.0, 0.0, math.inf),
    "positive l1": bounded(0.7, 1.0, 0.0, math.inf),
    "l1 in a box": bounded(0.7, 1.0, -0.3, 2.0),
    "elastic net below a bound": bounded(0.7, 0.4, -math.inf, 0.6),
    "box": bounded(0.0, 1.0, -1.0, 2.0),
    "positive": bounded(0.0, 0.0, 0.0, math.inf),
    "fixed at zero": bounded(0.7, 0.4, 0.0, 0.0),
    "norm of a group": Groups(np.array([1.4])),
    "norm of a group with ridge": Groups(np.array([1.0]), 0.4),
    "nothing": bounded(0.0, 1.0, -math.inf, math.inf),
}
every_penalty = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
examples = settings(max_examples=50, deadline=None, derandomize=True, database=None)
number = st.floats(-20.0, 20.0)
steps = st.floats(1e-3, 1e3)


def in_domain(penalty, v):
    low, high = penalty.dual_limits(0)
    return max(min(v, high), low)


def in_box(penalty, w, j=0):
    return min(max(w, penalty.low[j]), penalty.high[j]) if isinstance(penalty, Bounded) else w


@every_penalty
@examples
@given(w=number, v=number)
def test_fenchel_young_inequality(penalty, w, v):
    v, w = in_domain(penalty, v), in_box(penalty, w)
    assert penalty.cost(w, 0) + penalty.conjugate_cost(v, 0) >= v * w - 1e-12 * (1.0 + abs(v * w))


@every_penalty
@settings(examples, max_examples=40)
@given(v=number)
def test_conjugate_is_the_supremum(penalty, v):
    v = in_domain(penalty, v)
    ends = in_box(penalty, -200.0), in_box(penalty, 200.0)
    found = minimize_scalar(lambda w: penalty.cost(w, 0) - v * w, bounds=ends, options={"xatol": 1e-11})
    largest = max(-found.fun, *(v * end - penalty.cost(end, 0) for end in ends))
    assert penalty.conjugate_cost(v, 0) == pytest.approx(largest, abs=1e-6 * (1.0 + v * v))


@every_penalty
def test_conjugate_is_finite_up_to_the_dual_limits_and_no_further(penalty):
    for limit, outwards in zip(penalty.dual_limits(0), (-math.inf, math.inf), strict=True):
        if math.isinf(limit):
            assert math.isfinite(penalty.conjugate_cost(math.copysign(1e6, limit), 0))
        else:
            assert penalty.conjugate_cost(limit, 0) == 0.0
            assert penalty.conjugate_cost(np.nextafter(limit, outwards), 0) == math.inf


@every_penalty
def test_zero_costs_nothing(penalty):
    assert penalty.cost(0.0, 0) == penalty.conjugate_cost(0.0, 0) == penalty.prox(0.0, 1.0, 0) == 0.0


@every_penalty
@examples
@given(v=number, step=steps)
def test_prox_is_the_argmin(penalty, v, step):
    w = penalty.prox(v, step, 0)

    def objective(other):
        return penalty.cost(other, 0) + (other - v) ** 2 / (2.0 * step)

    assert math.isfinite(objective(w))
    offsets = 10.0 ** np.arange(-6.0, 2.0)
    for other in (*(w + offsets), *(w - offsets), 0.0, v, in_box(penalty, v)):
        assert objective(w) <= objective(other) * (1.0 + 1e-12) + 1e-15


@every_penalty
@examples
@given(v=number, step=steps)
def test_moreau_identity(penalty, v, step):
    """``v = prox_{step f}(v) + step prox_{f* / step}(v / step)``, the second one found numerically."""
    low, high = (min(max(limit, -1e5), 1e5) for limit in penalty.dual_limits(0))
    found = minimize_scalar(
        lambda u: penalty.conjugate_cost(u, 0) / step + 0.5 * (u - v / step) ** 2,
        bounds=(low, high),
        options={"xatol": 1e-12, "maxiter": 2000},
    )
    u = (v - penalty.prox(v, step, 0)) / step
    assert u == pytest.approx(found.x, abs=1e-5 * (1.0 + abs(v) / step))
    assert low * (1.0 + 1e-9) - 1e-12 <= u <= high * (1.0 + 1e-9) + 1e-12


@every_penalty
@examples
@given(v=number, other=number, step=steps)
def test_prox_is_firmly_nonexpansive(penalty, v, other, step):
    difference = penalty.prox(v, step, 0) - penalty.prox(other, step, 0)
    assert difference**2 <= difference * (v - other) + 1e-12 * (1.0 + (v - other) ** 2)


@every_penalty
@examples
@given(v=number, step=steps)
def test_prox_and_its_residual_are_a_fenchel_pair(penalty, v, step):
    w = penalty.prox(v, step, 0)
    u = in_domain(penalty, (v - w) / step)
    total = penalty.cost(w, 0) + penalty.conjugate_cost(u, 0)
    assert total == pytest.approx(u * w, abs=1e-10 * (1.0 + abs(u * w) + abs(u) + v * v / step * 1e-3))


def least_value(penalty, x, y):
    """The exact minimum of ``sum_i (x_i w - y_i)^2 / 2 + penalty(w)``."""
    x, y = [Fraction(v) for v in x], [Fraction(v) for v in y]
    l1, l2 = (Fraction(v) for v in strengths(penalty))
    pull, curvature = sum(a * b for a, b in zip(x, y, strict=True)), sum(a * a for a in x) + l2
    w = max(abs(pull) - l1, 0) / curvature * (1 if pull > 0 else -1)
    low, high = (penalty.low[0], penalty.high[0]) if isinstance(penalty, Bounded) else (-math.inf, math.inf)
    w = min(max(w, low), high)
    w = w if isinstance(w, Fraction) else Fraction(w)
    return sum((a * w - b) ** 2 for a, b in zip(x, y, strict=True)) / 2 + l1 * abs(w) + l2 * w * w / 2


@pytest.mark.parametrize(
    "penalty", {k: p for k, p in PENALTIES.items() if not isinstance(p, Groups)}.values(), ids=repr
)
@settings(examples, max_examples=200)
@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 1e4, 1e8]), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_the_exact_optimum_is_within_the_bounds_on_rounding(penalty, seed, offset, scale):
    """As near to the optimum as numbers go, where sums of large columns cancel."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=6) + offset, scale * rng.normal(size=6) + offset * rng.integers(2)
    ridge = strengths(penalty)[1]
    w = penalty.prox(float(x @ y) / float(x @ x), 1.0 / float(x @ x), 0)
    w = in_box(penalty, w * (1.0 + 1e-16 * rng.integers(-2, 3)))
    problem = Problem(Rows(x[:, None]), y, Squared(), penalty, np.ones(6), None)
    certificate = problem.certify(Point(np.array([w]), 0.0, y - x * w))
    exact = least_value(penalty, x, y)
    assert Fraction(certificate.primal) + Fraction(certificate.primal_error) >= exact
    if math.isfinite(certificate.dual_error):
        assert Fraction(certificate.dual) - Fraction(certificate.dual_error) <= exact
    if ridge > 0.0:
        assert certificate.dual_error <= 1e-12 * (1.0 + offset) ** 2 * (1.0 + scale) ** 2 * (1.0 + 6.0 / ridge)


def test_elastic_net_lies_between_its_ends():
    for w in (-2.0, 0.3):
        assert ElasticNet(0.7, 0.0).cost(w, 0) == pytest.approx(L2(0.7).cost(w, 0))
        mixed = 0.25 * L1(0.7).cost(w, 0) + 0.75 * L2(0.7).cost(w, 0)
        assert ElasticNet(0.7, 0.25).cost(w, 0) == pytest.approx(mixed)


def test_soft_threshold_is_exactly_zero_inside():
    for v in (-0.5, 0.0, 0.5):
        assert L1(1.0).prox(v, 0.5, 0) == 0.0
    assert L1(1.0).prox(2.0, 0.5, 0) == 1.5
    assert L1(1.0).prox(-2.0, 0.5, 0) == -1.5


@examples
@given(v=number, step=steps, ratio=st.sampled_from([0.0, 0.3, 1.0]))
def test_without_bounds_it_is_what_it_is_without_a_box(v, step, ratio):
    """Infinite bounds, and the coefficient after the last bound: the column of a penalised intercept."""
    free = {0.0: L2(0.7), 1.0: L1(0.7)}.get(ratio, ElasticNet(0.7, ratio))
    box = Bounded(0.7, ratio, np.array([-math.inf, 0.0]), np.array([math.inf, 1.0]))
    assert strengths(box) == strengths(free)
    for j in (0, 2):
        u = in_domain(free, v)
        assert box.dual_limits(j) == free.dual_limits(j)
        assert box.cost(v, j) == pytest.approx(free.cost(v, j), rel=1e-15)
        assert box.conjugate_cost(u, j) == pytest.approx(free.conjugate_cost(u, j), rel=1e-14)
        assert box.prox(v, step, j) == pytest.approx(free.prox(v, step, j), rel=1e-15)
    assert box.cost(-1e-9, 1) == box.cost(1.0 + 1e-9, 1) == math.inf


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ([0.0], [1.0], "Each of the 2 coefficients needs a bound below and above"),
        ([0.0, 0.5], [1.0, 1.0], "Bounds have to include 0; those of coefficient 1 are 0.5 and 1"),
        ([0.0, 0.0], [1.0, -1.0], "Bounds have to include 0; those of coefficient 1 are 0 and -1"),
        ([math.nan, 0.0], [1.0, 1.0], "Bounds have to include 0; those of coefficient 0 are nan and 1"),
    ],
)
def test_bounds_that_make_no_sense(low, high, words):
    with pytest.raises(ValueError, match=words):
        Problem(Rows(np.eye(2)), np.ones(2), Squared(), Bounded(1.0, 0.0, np.array(low), np.array(high)), np.ones(2))
