"""Penalties: conjugates and proximal maps against definitions and numeric optima."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from maxmargin.parts.penalties import L1, L2, ElasticNet

PENALTIES = {
    "l2": L2(0.7),
    "l1": L1(0.7),
    "elastic net": ElasticNet(0.7, 0.3),
    "elastic net without l1": ElasticNet(1.5, 0.0),
}
every_penalty = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
examples = settings(max_examples=50, deadline=None, derandomize=True, database=None)
number = st.floats(-20.0, 20.0)
steps = st.floats(1e-3, 1e3)


def in_domain(penalty, v):
    return max(min(v, penalty.dual_limit()), -penalty.dual_limit())


@every_penalty
@examples
@given(w=number, v=number)
def test_fenchel_young_inequality(penalty, w, v):
    v = in_domain(penalty, v)
    assert penalty.cost(w) + penalty.conjugate_cost(v) >= v * w - 1e-12 * (1.0 + abs(v * w))


@every_penalty
@settings(examples, max_examples=40)
@given(v=number)
def test_conjugate_is_the_supremum(penalty, v):
    v = in_domain(penalty, v)
    found = minimize_scalar(lambda w: penalty.cost(w) - v * w, bounds=(-200.0, 200.0), options={"xatol": 1e-11})
    assert penalty.conjugate_cost(v) == pytest.approx(-found.fun, abs=1e-6 * (1.0 + v * v))


@every_penalty
def test_conjugate_is_finite_up_to_the_dual_limit_and_no_further(penalty):
    limit = penalty.dual_limit()
    if math.isinf(limit):
        assert math.isfinite(penalty.conjugate_cost(1e6))
    else:
        assert math.isfinite(penalty.conjugate_cost(limit))
        assert math.isfinite(penalty.conjugate_cost(-limit))
        assert penalty.conjugate_cost(np.nextafter(limit, math.inf)) == math.inf


@every_penalty
@examples
@given(v=number, step=steps)
def test_prox_is_the_argmin(penalty, v, step):
    w = penalty.prox(v, step)

    def objective(other):
        return penalty.cost(other) + (other - v) ** 2 / (2.0 * step)

    offsets = 10.0 ** np.arange(-6.0, 2.0)
    for other in (*(w + offsets), *(w - offsets), 0.0, v):
        assert objective(w) <= objective(other) * (1.0 + 1e-12) + 1e-15


@every_penalty
@examples
@given(v=number, step=steps)
def test_moreau_identity(penalty, v, step):
    """``v = prox_{step f}(v) + step prox_{f* / step}(v / step)``, the second one found numerically."""
    limit = min(penalty.dual_limit(), 1e5)
    found = minimize_scalar(
        lambda u: penalty.conjugate_cost(u) / step + 0.5 * (u - v / step) ** 2,
        bounds=(-limit, limit),
        options={"xatol": 1e-12, "maxiter": 2000},
    )
    u = (v - penalty.prox(v, step)) / step
    assert u == pytest.approx(found.x, abs=1e-5 * (1.0 + abs(v) / step))
    assert abs(u) <= penalty.dual_limit() * (1.0 + 1e-9) + 1e-12


@every_penalty
@examples
@given(v=number, other=number, step=steps)
def test_prox_is_firmly_nonexpansive(penalty, v, other, step):
    difference = penalty.prox(v, step) - penalty.prox(other, step)
    assert difference**2 <= difference * (v - other) + 1e-12 * (1.0 + (v - other) ** 2)


@every_penalty
@examples
@given(v=number, step=steps)
def test_prox_and_its_residual_are_a_fenchel_pair(penalty, v, step):
    w = penalty.prox(v, step)
    u = in_domain(penalty, (v - w) / step)
    total = penalty.cost(w) + penalty.conjugate_cost(u)
    assert total == pytest.approx(u * w, abs=1e-10 * (1.0 + abs(u * w) + abs(u) + v * v / step * 1e-3))


def test_elastic_net_lies_between_its_ends():
    for w in (-2.0, 0.3):
        assert ElasticNet(0.7, 0.0).cost(w) == pytest.approx(L2(0.7).cost(w))
        mixed = 0.25 * L1(0.7).cost(w) + 0.75 * L2(0.7).cost(w)
        assert ElasticNet(0.7, 0.25).cost(w) == pytest.approx(mixed)


def test_soft_threshold_is_exactly_zero_inside():
    for v in (-0.5, 0.0, 0.5):
        assert L1(1.0).prox(v, 0.5) == 0.0
    assert L1(1.0).prox(2.0, 0.5) == 1.5
    assert L1(1.0).prox(-2.0, 0.5) == -1.5
