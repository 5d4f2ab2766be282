"""Block pivoting: right where coordinate descent crawls, honest where it cannot begin."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests import clocks, referee

from maxmargin import Problem, Status, minimize
from maxmargin.numerics.cholesky import TILE, factorise, solved
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import DualCoordinate, Pivoting
from maxmargin.solvers.relay import Relay
from maxmargin.solvers.rows import pivoting
from maxmargin.threads import Workers


def rare_features(n=300, d=1500, seed=0):
    """Documents of words with frequencies like 1 / rank, every column scaled to unit variance."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 0.5 / np.arange(1, d + 1) ** 0.8) * rng.random((n, d))
    X = X / np.maximum(X.std(axis=0), 1e-9)
    y = np.where(X[:, :50] @ rng.normal(size=50) + 2.0 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return sp.csr_array(X), y


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared"])
@pytest.mark.parametrize("C", [0.01, 100.0])
def test_badly_conditioned_rows(loss, intercept, C):
    X, y = rare_features()
    problem = Problem(Rows(X), y, loss, L2(1.0), np.full(y.size, C), intercept)
    solution = minimize(problem, Pivoting(), tol=1e-9)
    assert solution.status is Status.CONVERGED
    name = "hinge" if isinstance(loss, Hinge) else "squared hinge"
    machine = referee.Machine(y, problem.s, (name, 1.0), ("l2", 1.0), X=X.toarray(), intercept=intercept, scale=1.0)
    verdict = referee.judge(machine, solution.point.w, solution.point.b, problem.feasible(solution.point.alpha))
    assert verdict.infeasibility <= 1e-12
    assert verdict.gap <= 1.01e-9 * abs(verdict.primal)
    assert solution.certificate.primal == pytest.approx(verdict.primal)


@pytest.mark.parametrize("solver", [Pivoting(), Relay(Pivoting(), DualCoordinate(), 10**6)], ids=["alone", "relay"])
def test_the_time_limit_is_seen_within_a_pivot(solver, monkeypatch):
    """A pivot of thousands of rows takes half a minute. Here the clock moves whenever somebody looks at it."""
    X, y = rare_features(n=900, d=1500)
    problem = Problem(Rows(X), y, SquaredHinge(), L2(1.0), np.full(y.size, 100.0), "penalised")
    whole = minimize(problem, solver, tol=1e-9)
    assert whole.status is Status.CONVERGED
    monkeypatch.setattr(pivoting, "BLOCK", 20)
    clock = clocks.put(monkeypatch, 0.01)
    solution = minimize(problem, solver, tol=1e-9, max_time=0.5)
    assert solution.status is Status.MAX_TIME
    assert clock.now <= 1.5
    assert solution.iterations < whole.iterations
    assert np.isfinite(solution.certificate.gap)


def test_the_first_goes_on_if_too_many_rows_react(monkeypatch):
    monkeypatch.setattr(pivoting, "MOST_REACTING", 10)
    X, y = rare_features(n=200, d=300)
    problem = Problem(Rows(X), y, SquaredHinge(), L2(1.0), np.ones(y.size), "penalised")
    alone = minimize(problem, Pivoting(), tol=1e-9)
    assert alone.status is Status.STALLED
    relay = minimize(problem, Relay(DualCoordinate(), Pivoting(), 2), tol=1e-6)
    assert relay.status is Status.CONVERGED
    assert "reacting" not in relay.history[-1].counters


def test_inner_products_are_kept_and_forgotten(monkeypatch):
    monkeypatch.setattr(pivoting, "MOST_REACTING", 60)
    monkeypatch.setattr(pivoting, "BLOCK", 7)
    X, _ = rare_features(n=100, d=50)
    dense = X.toarray()
    for rows in (Rows(X), Rows(dense), Rows(dense.astype(np.float32))):
        products, rng = pivoting.InnerProducts(rows), np.random.default_rng(0)
        for size in (5, 20, 40, 60, 3):
            some = np.sort(rng.permutation(100)[:size])
            exact = np.asarray(rows.matrix.todense() if sp.issparse(rows.matrix) else rows.matrix, dtype=float)
            np.testing.assert_allclose(products.among(some), exact[some] @ exact[some].T, rtol=1e-13, atol=1e-12)
            assert products.members.size <= 60


@pytest.mark.parametrize("n", [0, 1, TILE, 2 * TILE + 5])
def test_factor_of_several_threads(n):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, n))
    K = A @ A.T + n * np.eye(n)
    factors = [K.copy() for _ in range(2)]
    for L, threads in zip(factors, (1, 3), strict=True):
        factorise(L, Workers(threads))
    np.testing.assert_array_equal(np.tril(factors[0]), np.tril(factors[1]))
    np.testing.assert_allclose(np.tril(factors[0]) @ np.tril(factors[0]).T, K, atol=1e-9 * max(n, 1))
    b = rng.normal(size=n)
    np.testing.assert_allclose(K @ solved(factors[0], b), b, atol=1e-9)
