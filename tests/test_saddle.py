"""Saddle-SVC: the paper's rule step by step, the projection, the rotation, and what each option is worth."""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import HullDistance, Status, minimize
from maxmargin.communicators import ALONE
from maxmargin.numerics.capped_simplex import selected_shift
from maxmargin.numerics.sampling import below
from maxmargin.numerics.selection import looped
from maxmargin.operators import Rows
from maxmargin.operators.hadamard import RandomisedHadamard
from maxmargin.solvers import Saddle
from maxmargin.solvers.hulls.saddle import solver as saddle


def problem_of(n=120, d=6, apart=5.0, cap=1.0, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((n, d))
    X[:, 0] += np.where(y > 0, apart, 0.0)
    X /= np.linalg.norm(X, axis=1).max()
    return HullDistance(Rows(sp.csr_array(X) if sparse else X), y, np.full(n, cap))


def looped_shift(logs, log_caps):
    return looped(ALONE, [logs], [log_caps])[0]


def capped(weights, nu):
    """The paper's second step, round by round: cut, then scale the others up, until nothing is above the cap."""
    while (weights > nu * (1.0 + 1e-14)).any():
        above = weights >= nu
        excess = (weights[above] - nu).sum()
        weights = np.where(above, nu, weights * (1.0 + excess / weights[~above].sum()))
    return weights


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("nu", [1.0, 0.05])
def test_steps_are_those_of_the_paper(nu, sparse):
    """Inventory 2-19 to 2-25, written down literally: columns of A and B are points, weights are not logarithms."""
    gamma, seed = 1e-3, 3
    problem = problem_of(cap=nu, sparse=sparse)
    X = problem.operator.matrix.toarray() if sparse else problem.operator.matrix
    A, B = X[problem.y > 0].T, X[problem.y < 0].T
    d = len(A)
    q = math.sqrt(d) * np.abs(X).max()
    tau, sigma = math.sqrt(d / gamma) / (2 * q), math.sqrt(d * gamma) / (2 * q)
    theta = 1 - 1 / (d + q * math.sqrt(d) / math.sqrt(gamma))
    w = np.zeros(d)
    eta, xi = np.full(A.shape[1], 1 / A.shape[1]), np.full(B.shape[1], 1 / B.shape[1])
    eta_before, xi_before = eta, xi
    random = np.array([seed], dtype=np.uint64)
    order = np.arange(d)
    solver = Saddle(block_size=1, continuation=False, gamma=gamma, seed=seed)
    state = solver.start(problem, None)
    for _ in range(60):
        k = below(d, random)
        order[0], order[k] = order[k], order[0]
        i = order[0]
        delta = A[i] @ (eta + theta * (eta - eta_before)) - B[i] @ (xi + theta * (xi - xi_before))
        w_next = w.copy()
        w_next[i] = (w[i] + sigma * delta) / (sigma + 1)
        u = w + d * (w_next - w)
        eta_before, xi_before = eta, xi
        # argmin (1/d) u.A eta + (gamma/d) H(eta) + (1/tau) V(eta), by its stationarity
        eta = np.exp((d / tau * np.log(eta) - A.T @ u) / (gamma + d / tau))
        xi = np.exp((d / tau * np.log(xi) + B.T @ u) / (gamma + d / tau))
        eta, xi = capped(eta / eta.sum(), nu), capped(xi / xi.sum(), nu)
        w = w_next
        state = solver.advance(problem, state, 1)
        np.testing.assert_allclose(state.w, w, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(state.a[problem.y > 0], eta, rtol=1e-8)
        np.testing.assert_allclose(-state.a[problem.y < 0], xi, rtol=1e-8)
        np.testing.assert_allclose(state.z, X @ w, atol=1e-13)
    assert state.iterations == 60
    if nu < 1.0:
        assert np.isclose(eta, nu).any()  # the caps were needed


def test_the_paper_s_rule_comes_to_the_accuracy_of_its_gamma():
    """The lemma: at gamma = eps OPT / (2 log n), the direction has 1 - eps of the optimum."""
    problem = problem_of()
    best = -minimize(problem, Saddle(), tol=1e-6, max_time=20.0).certificate.dual
    eps = 0.1
    gamma = eps * best / (2.0 * math.log(problem.y.size))
    solver = Saddle(block_size=1, continuation=False, gamma=gamma)
    state = solver.start(problem, None)
    while state.iterations < 20_000:
        state = solver.advance(problem, state, 1000)
    g = problem.street(state.z) - 0.5 * float(state.w @ state.w)
    assert g >= (1.0 - eps) * best


weights = st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=40)


@settings(max_examples=200, deadline=None)
@given(weights, st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_the_projection_satisfies_its_optimality_conditions(logs, slack, seed):
    """``eta_i = min(cap_i, c weight_i)`` of sum 1: the Lagrange conditions of the smallest relative entropy."""
    logs = np.array(logs)
    caps = np.random.default_rng(seed).uniform(0.1, 1.0, logs.size)
    caps *= (1.0 + 3.0 * slack) / caps.sum()
    for shift_of in (selected_shift, looped_shift):
        shift = shift_of(logs, np.log(caps))
        eta = np.minimum(caps, np.exp(np.minimum(logs + shift, 700.0)))
        assert eta.sum() == pytest.approx(1.0, abs=1e-9)
        free = eta < caps * (1.0 - 1e-12)
        if free.any():
            multipliers = np.log(np.maximum(eta[free], 1e-300)) - logs[free]
            used = eta[free] > 1e-290
            assert np.ptp(multipliers[used]) <= 1e-9 if used.any() else True
            assert (np.log(caps[~free]) - logs[~free] <= shift + 1e-9).all()


def test_selection_is_exact_for_peaked_weights_and_the_loop_agrees():
    rng = np.random.default_rng(0)
    for spread in (1.0, 30.0, 2000.0):
        logs, caps = spread * rng.standard_normal(500), np.full(500, 1 / 150)
        shift = selected_shift(logs, np.log(caps))
        assert np.minimum(caps, np.exp(np.minimum(logs + shift, 0.0))).sum() == pytest.approx(1.0, abs=1e-12)
        if spread <= 30.0:
            assert looped_shift(logs, np.log(caps)) == pytest.approx(shift, rel=1e-12, abs=1e-12)
    assert selected_shift(np.zeros(4), np.log(np.full(4, 0.25 - 1e-17))) >= math.log(0.25) - 1e-12


@pytest.mark.parametrize("d", [1, 2, 7, 64, 100])
def test_the_rotation_keeps_inner_products_and_finds_its_way_back(d):
    rng = np.random.default_rng(d)
    X, w = rng.standard_normal((30, d)), rng.standard_normal(d)
    H = RandomisedHadamard(d, seed=1)
    Z = H.apply(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-12 * d)
    np.testing.assert_allclose(Z @ H.apply(w[None])[0], X @ w, atol=1e-12 * d)
    np.testing.assert_allclose(H.inverse(H.apply(w[None])[0]), w, atol=1e-13 * d)
    u = rng.standard_normal(H.size)
    np.testing.assert_allclose(Z @ u, X @ H.inverse(u), atol=1e-12 * d)


def test_the_rotation_spreads_entries():
    X = np.eye(64)[:20]  # one entry of 1 each
    assert np.abs(RandomisedHadamard(64).apply(X)).max() == pytest.approx(1 / 8)
    X = np.random.default_rng(2).standard_normal((500, 64)) ** 5
    X /= np.linalg.norm(X, axis=1)[:, None]
    assert np.abs(RandomisedHadamard(64).apply(X)).max() <= math.sqrt(4.0 * math.log(500 * 64) / 64)


OPTIONS = {
    "default": {},
    "short steps": {"adaptive": False},
    "fixed gamma": {"continuation": False, "gamma": 2e-5},
    "all rows": {"shrinking": False},
    "products anew": {"incremental": False},
    "weights, not logarithms": {"log_domain": False},
    "the paper's loop": {"selection": False},
    "rotated": {"hadamard": True},
    "blocks of 1": {"block_size": 1},
    "blocks of 4": {"block_size": 4},
    "blocks of 1, rotated": {"block_size": 1, "hadamard": True},
    "blocks of 4, products anew": {"block_size": 4, "incremental": False},
}


@pytest.mark.parametrize("cap", [1.0, 0.05])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_leads_to_the_same_distance(name, cap):
    problem = problem_of(cap=cap)
    best = -minimize(problem, Saddle(), tol=1e-4, max_time=20.0).certificate.dual
    solution = minimize(problem, Saddle(**OPTIONS[name]), tol=2e-2, max_iter=60_000, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert -solution.certificate.primal <= best * (1.0 + 1e-9)
    assert -solution.certificate.dual >= best * (1.0 - 1e-4)


def test_equal_seeds_give_equal_bits():
    problem = problem_of()
    for options in ({}, {"block_size": 2}):
        first, again = (minimize(problem, Saddle(**options), tol=1e-2, max_iter=2000) for _ in range(2))
        assert np.array_equal(first.point.w, again.point.w)
        assert np.array_equal(first.point.alpha, again.point.alpha)
    other = minimize(problem, Saddle(block_size=2, seed=1), tol=1e-2, max_iter=2000)
    assert not np.array_equal(other.point.w, again.point.w)


def passes(problem, solver, tol):
    solution = minimize(problem, solver, tol=tol, max_iter=20_000, max_time=30.0)
    assert solution.status is Status.CONVERGED
    return solution.history[-1].counters["passes"]


def test_what_makes_it_fast():
    """The ablation: adaptive steps, continuation and shrinking each save passes over the data."""
    problem = problem_of(n=4000, d=20, apart=6.0, seed=5)
    default = passes(problem, Saddle(), 1e-2)
    gamma = 1e-2 * -minimize(problem, Saddle(), tol=1e-2).certificate.dual / (2.0 * math.log(4000))
    assert passes(problem, Saddle(adaptive=False), 1e-2) > 2.0 * default
    assert passes(problem, Saddle(continuation=False, gamma=gamma), 1e-2) > 1.2 * default
    assert passes(problem, Saddle(shrinking=False), 1e-2) > 2.0 * default


def test_rows_come_back_that_were_left_out(monkeypatch):
    """Leave out far too many, and the answer is the same."""
    problem = problem_of(n=2000, d=20, apart=6.0, seed=6)
    monkeypatch.setattr(saddle, "BAND", 0.0)
    monkeypatch.setattr(saddle, "LEFT_OUT", -2.0)
    solution = minimize(problem, Saddle(), tol=1e-3, max_time=30.0)
    active = [record.counters["active"] for record in solution.history]
    assert solution.status is Status.CONVERGED
    assert any(later > earlier for earlier, later in pairwise(active))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size=0 must be at least 1"),
        ({"continuation": False}, "continuation=False needs a gamma"),
        ({"gamma": -1.0}, "gamma=-1.0 must be positive"),
    ],
)
def test_contradictions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Saddle(**options)


def test_sparse_rows_are_not_rotated():
    with pytest.raises(ValueError, match="a rotation would make these sparse rows dense"):
        minimize(problem_of(sparse=True), Saddle(hadamard=True))


@pytest.mark.parametrize("seed", [18, 24, 32])
def test_rows_that_come_back_take_part_even_if_they_are_many(seed):
    """Less than half of the rows were enough for a while; then more were needed, and they never came."""
    X = np.random.default_rng(seed).uniform(size=(16, 10))
    y, cap = np.where(np.arange(16) < 6, 1.0, -1.0), np.where(np.arange(16) < 11, 1.0, 0.0)
    solution = minimize(HullDistance(Rows(X), y, cap, 2.0), Saddle(), tol=1e-3, max_iter=1000)
    assert solution.status is Status.CONVERGED
