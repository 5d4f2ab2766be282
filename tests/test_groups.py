"""Penalties on norms of groups: the group LASSO, several targets at once, and their certificate."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model

from maxmargin import (
    GroupLasso,
    GroupProblem,
    MultiTaskElasticNet,
    MultiTaskLasso,
    Point,
    Status,
    certify,
    minimize,
)
from maxmargin.operators import Columns, Rows
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, ElasticNet, Groups
from maxmargin.problems.problem import Problem
from maxmargin.solvers import GroupDescent, Smoothed

RNG = np.random.default_rng(0)
N, D, T = 60, 24, 3
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7) + 0.3
TRUE = np.zeros((D, T))
TRUE[:6] = RNG.normal(size=(6, T))
Y = X @ TRUE + 0.5 * RNG.normal(size=(N, T)) + 2.0
WEIGHTS = RNG.uniform(0.2, 2.0, N)
SIZES = np.repeat(np.arange(8), 3)


def referee(X, Y, s, groups, lam, mu, W, b, A, free):
    """Primal and dual value of least squares with norms of groups, in plain NumPy; ``Y`` has a column per target.

    Returns by how much the dual variables are infeasible too.
    """
    members = [np.flatnonzero(groups == g) for g in range(lam.size)]
    R = Y - X @ W.T - b
    norms = np.array([np.linalg.norm(W[:, some]) for some in members])
    primal = 0.5 * (s[:, None] * R**2).sum() + lam @ norms + 0.5 * mu * (W**2).sum()
    V = A @ X
    slopes = np.array([np.linalg.norm(V[:, some]) for some in members])
    over = np.maximum(slopes - lam, 0.0)
    conjugate = (over**2).sum() / (2.0 * mu) if mu > 0.0 else 0.0
    used = s > 0.0
    dual = (A * Y.T).sum() - 0.5 * (A[:, used] ** 2 / s[used]).sum() - conjugate
    missing = max(0.0 if mu > 0.0 else over.max(), np.abs(A.sum(axis=1)).max() if free else 0.0)
    return primal, dual, missing


def problem_of(X, Y, s, groups, lam, weights, mu, free, layout=np.asfortranarray):
    return GroupProblem(Columns(layout(X)), np.ascontiguousarray(Y.T), Groups(lam * weights, mu), groups, s, free)


CASES = {
    "several targets": (X, Y, np.ones(N), np.arange(D), 5.0, np.ones(D), 0.0),
    "groups": (X, Y[:, :1], np.ones(N), SIZES, 5.0, np.sqrt(np.full(8, 3.0)), 0.0),
    "groups, several targets, weights, ridge": (X, Y, WEIGHTS, SIZES, 4.0, np.linspace(0.5, 2.0, 8), 0.7),
    "wide": (X[:15], Y[:15], np.ones(15), np.arange(D), 0.5, np.ones(D), 0.0),
    "zero weights": (X, Y, np.where(np.arange(N) % 3 == 0, 0.0, WEIGHTS), SIZES, 2.0, np.ones(8), 0.0),
    "a group without a price": (X, Y, WEIGHTS, SIZES, 2.0, np.r_[0.0, np.ones(7)], 1e-3),
    "duplicated columns": (np.hstack([X, X]), Y, np.ones(N), np.tile(SIZES, 2), 5.0, np.ones(8), 0.0),
    "zero and constant columns": (X * (np.arange(D) % 3 > 0) + (np.arange(D) % 6 == 0), Y, WEIGHTS, SIZES, 3.0,
                                  np.ones(8), 0.0),
    "only the strongest": (X, Y, np.ones(N), np.arange(D), 1e4, np.ones(D), 0.0),
    "ridge alone": (X, Y, np.ones(N), np.arange(D), 0.0, np.ones(D), 3.0),
    "columns 1e3 apart": (X * np.where(np.arange(D) == 0, 1e3, 1.0), Y, np.ones(N), SIZES, 3.0, np.ones(8), 0.0),
    "constant targets": (X, np.ones((N, 2)), np.ones(N), np.arange(D), 1.0, np.ones(D), 0.0),
    "one sample": (X[:1], Y[:1], np.ones(1), np.arange(D), 0.1, np.ones(D), 0.0),
}  # fmt: skip


@pytest.mark.parametrize("free", [True, False], ids=["free intercept", "no intercept"])
@pytest.mark.parametrize("layout", [np.asfortranarray, sp.csc_array], ids=["dense", "CSC"])
@pytest.mark.parametrize("name", CASES)
def test_the_certificate_is_the_referees(name, layout, free):
    X, Y, s, groups, lam, weights, mu = CASES[name]
    problem = problem_of(X, Y, s, groups, lam, weights, mu, free, layout)
    solution = minimize(problem, GroupDescent(), tol=1e-8, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    W, b = problem.split(solution.point.w)
    A = problem.feasible(solution.point.alpha.reshape(Y.T.shape))[0]
    primal, dual, missing = referee(X, Y, s, groups, lam * weights, mu, W, b, A, free)
    certificate, scale = solution.certificate, max(solution.certificate.primal, solution.certificate.least, 1e-9)
    assert certificate.primal == pytest.approx(primal, abs=1e-11 * scale + certificate.error)
    assert certificate.dual == pytest.approx(dual, abs=1e-11 * scale + certificate.error)
    assert missing <= 1e-12 * (1.0 + np.abs(A).sum())
    assert primal - dual <= 1e-8 * scale + certificate.error
    again = minimize(problem, GroupDescent(), tol=1e-7, warm=solution)
    assert (again.status, again.iterations) == (Status.CONVERGED, 0)


@pytest.mark.parametrize("free", [True, False])
def test_any_point_is_judged_as_by_the_referee(free):
    problem = problem_of(X, Y, WEIGHTS, SIZES, 4.0, np.ones(8), 0.7, free)
    best = minimize(problem, GroupDescent(), tol=1e-10).certificate
    for size in (0.0, 0.1, 10.0):
        point = Point(size * RNG.normal(size=T * (D + free)), 0.0, size * RNG.normal(size=T * N))
        W, b = problem.split(point.w)
        A = problem.feasible(point.alpha.reshape(T, N))[0]
        primal, dual, _ = referee(X, Y, WEIGHTS, SIZES, np.full(8, 4.0), 0.7, W, b, A, free)
        certificate = problem.certify(point)
        assert certificate.primal == pytest.approx(primal, rel=1e-11)
        assert certificate.dual == pytest.approx(dual, rel=1e-11, abs=1e-9)
        assert certificate.dual <= best.primal * (1.0 + 1e-12)
        assert certificate.primal >= best.dual * (1.0 - 1e-12)


def test_a_point_that_is_not_finite_proves_nothing():
    problem = problem_of(X, Y, WEIGHTS, SIZES, 4.0, np.ones(8), 0.7, True)
    assert problem.certify(Point(np.full(T * (D + 1), np.nan), 0.0, np.zeros(T * N))).relative_gap == math.inf


@pytest.mark.parametrize("mu", [0.0, 2.0])
def test_single_features_and_one_target_are_the_lasso(mu):
    """Against the problem that is posed coefficient by coefficient, and its own solver."""
    y = Y[:, 0].copy()
    found = minimize(
        problem_of(X, Y[:, :1], WEIGHTS, np.arange(D), 6.0, np.ones(D), mu, True), GroupDescent(), tol=1e-9
    )
    penalty = ElasticNet(6.0 + mu, 6.0 / (6.0 + mu)) if mu else L1(6.0)
    other = minimize(Problem(Rows(X), y, Squared(), penalty, WEIGHTS), Smoothed(), tol=1e-9)
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-9)
    np.testing.assert_allclose(found.point.w[:D], other.point.w, atol=1e-4)


def test_orthonormal_columns_have_a_closed_form():
    """Each group is shortened by its price, or vanishes."""
    Q = np.linalg.qr(RNG.normal(size=(N, 6)))[0]
    Y = 3.0 * RNG.normal(size=(N, 2))
    groups = np.array([0, 0, 1, 1, 1, 2])
    found = minimize(problem_of(Q, Y, np.ones(N), groups, 1.5, np.ones(3), 0.5, False), GroupDescent(), tol=1e-12)
    target = Y.T @ Q
    for g in range(3):
        norm = np.linalg.norm(target[:, groups == g])
        expected = max(norm - 1.5, 0.0) / norm / 1.5 * target[:, groups == g]
        np.testing.assert_allclose(found.point.w.reshape(2, 6)[:, groups == g], expected, atol=1e-7)


def test_the_strength_at_which_everything_vanishes():
    centred = Y - Y.mean(axis=0)
    most = np.linalg.norm((X - X.mean(axis=0)).T @ centred, axis=1).max() / N
    assert not MultiTaskLasso(most * 1.001).fit(X, Y).coef_.any()
    assert MultiTaskLasso(most * 0.99).fit(X, Y).coef_.any(axis=0).sum() == 1


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
def test_the_answer_is_that_of_scikit_learn(alpha, fit_intercept):
    for ours, theirs in (
        (MultiTaskLasso(alpha), sklearn.linear_model.MultiTaskLasso(alpha)),
        (MultiTaskElasticNet(alpha, l1_ratio=0.4), sklearn.linear_model.MultiTaskElasticNet(alpha, l1_ratio=0.4)),
    ):
        ours.set_params(tol=1e-10, fit_intercept=fit_intercept).fit(X, Y)
        theirs.set_params(tol=1e-14, max_iter=100_000, fit_intercept=fit_intercept).fit(X, Y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-5)
        np.testing.assert_array_equal(ours.coef_.any(axis=0), theirs.coef_.any(axis=0))
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
        assert ours.coef_.shape == theirs.coef_.shape == (T, D)
        for model in (ours, theirs):
            assert certify(model, X, Y).relative_gap <= 1e-9
        ours.coef_ = 0.9 * ours.coef_
        assert certify(ours, X, Y).relative_gap > 1e-4


def test_groups_may_be_told_in_three_ways():
    y = Y[:, 0]
    by_size = GroupLasso(0.2, groups=3, tol=1e-9).fit(X, y)
    by_label = GroupLasso(0.2, groups=[f"group {k}" for k in SIZES], tol=1e-9).fit(X, y)
    by_lists = GroupLasso(0.2, groups=[list(range(3 * k, 3 * k + 3)) for k in range(8)], tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(by_size.coef_, by_label.coef_)
    np.testing.assert_array_equal(by_size.coef_, by_lists.coef_)
    used = by_size.coef_.reshape(8, 3) != 0.0
    np.testing.assert_array_equal(used.any(axis=1), used.all(axis=1))
    assert 0 < used.any(axis=1).sum() < 8
    uneven = GroupLasso(0.2, groups=[[0, 5], [1], [2, 3, 4], list(range(6, D))], weights=[1.0, 1.0, 2.0, 0.5]).fit(X, y)
    assert uneven.status_ is Status.CONVERGED
    assert certify(uneven, X, y).relative_gap <= uneven.tol


def test_weights_storage_and_warm_starts_do_not_matter():
    repeats = RNG.integers(0, 3, N)
    model = GroupLasso(0.1, groups=3, tol=1e-9)
    value = model.fit(X, Y, repeats).objective_
    assert model.coef_.shape == (T, D)
    assert model.fit(np.repeat(X, repeats, axis=0), np.repeat(Y, repeats, axis=0)).objective_ == pytest.approx(value)
    for stored in (sp.csr_array(X), sp.csc_array(X), np.asfortranarray(X), X.astype(np.float32)):
        assert model.fit(stored, Y, repeats).objective_ == pytest.approx(value, rel=1e-6)
    model.set_params(warm_start=True).fit(X, Y, repeats)
    assert model.fit(X, Y, repeats).n_iter_ == 0
    y = Y[:, 0]
    short = GroupLasso(1e-4, tol=1e-14, max_iter=1)
    with pytest.warns(UserWarning, match="iteration limit"):
        short.fit(X, y)
    assert certify(short, X, y).relative_gap == pytest.approx(short.duality_gap_, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (MultiTaskLasso(), Y[:, 0], "needs a column for each"),
        (MultiTaskLasso(alpha=0.0), Y, "alpha"),
        (GroupLasso(groups=5), Y, "divide the 24 features evenly"),
        (GroupLasso(groups=[0, 1]), Y, "a label for each of the 24 features"),
        (GroupLasso(groups=[[0, 1], [1, 2]]), Y, "in exactly one list"),
        (GroupLasso(groups=3, weights=[1.0]), Y, "for each of the 8 groups"),
        (GroupLasso(groups=3, weights=-np.ones(8)), Y, "a finite number from 0 on"),
        (GroupLasso(solver="newton"), Y, "group_descent"),
    ],
    ids=repr,
)
def test_refusals(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_a_problem_refuses_groups_that_are_none():
    with pytest.raises(ValueError, match="needs the number of its group, from 0 to 7"):
        problem_of(X, Y, WEIGHTS, np.arange(D), 1.0, np.ones(8), 0.0, True)
    rows = GroupProblem(Rows(X), Y.T.copy(), Groups(np.ones(8)), SIZES, WEIGHTS)
    with pytest.raises(ValueError, match="as columns of features"):
        minimize(rows, GroupDescent())
