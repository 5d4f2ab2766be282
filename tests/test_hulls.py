"""The distance of two hulls: every solver against a reference, the certificate, the proof that hulls meet, C-SVM."""

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import referee
import zoo
from maxmargin import SVC, BoxQP, HullDistance, Point, Status, hull_distance, minimize
from maxmargin.operators import Rows
from maxmargin.solvers import SOLVERS, Gilbert, Newton, Saddle

TOL = {"saddle": 1e-6, "frank_wolfe": 1e-8, "gilbert": 1e-2}
every_solver = pytest.mark.parametrize(
    "solver", sorted(name for name, solver in SOLVERS.items() if solver.needs.samples == "hulls")
)


def blobs(n, m, d, apart, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) + apart * np.eye(d)[0], rng.standard_normal((m, d))


A2, B2 = blobs(30, 40, 2, 8.0)
CASES = {
    "two clouds": (A2, B2, 1.0),
    "ten dimensions": (*blobs(60, 50, 10, 5.0, seed=1), 1.0),
    "one point each": ([[1.0, 2.0]], [[4.0, 6.0]], 1.0),
    "one point against many": ([[9.0, 0.0]], B2, 1.0),
    "duplicates": (np.repeat(A2, 3, axis=0), np.repeat(B2, 2, axis=0), 1.0),
    "more features than points": (*blobs(4, 5, 12, 1.0, seed=2), 1.0),
    "tiny numbers": (1e-8 * A2, 1e-8 * B2, 1.0),
    "far from the origin": (A2 + 100.0, B2 + 100.0, 1.0),
    "a column of zeros": (np.column_stack([A2, np.zeros(30)]), np.column_stack([B2, np.zeros(40)]), 1.0),
    "capped": (*blobs(40, 30, 3, 3.5, seed=3), 0.1),
    "capped tightly": (*blobs(40, 30, 3, 1.5, seed=3), 0.04),
    "means only": (*blobs(30, 40, 3, 1.5, seed=3), 1 / 30),
    "barely separable": ([[1e-7, 1.0], [1e-7, -1.0]], [[0.0, 2.0], [0.0, -2.0]], 1.0),
}
MEETING = {
    "unequal classes, many at their caps": (*blobs(300, 1200, 8, 0.5, seed=12), 1 / 120),
    "overlapping clouds": (*blobs(40, 30, 3, 0.5, seed=4), 1.0),
    "overlapping, capped": (*blobs(40, 30, 3, 0.2, seed=5), 0.2),
    "a common vertex": ([[0, 0], [1, 1], [1, -1]], [[0, 0], [-1, 1], [-1, -1]], 1.0),
    "a vertex on an edge": ([[0, 1], [0, -1], [1, 0]], [[0, 0], [-1, 1], [-1, -1]], 1.0),
    "the same point": ([[1.0, 2.0]], [[1.0, 2.0]], 1.0),
    "one point twice in both": ([[0.0], [1.0]], [[1.0], [2.0]], 1.0),
    "all zero": (np.zeros((2, 2)), np.zeros((3, 2)), 1.0),
    "a point inside": ([[0.1, 0.2]], B2, 1.0),
}


def described(A, B, nu):
    """The problem as the referee sees it."""
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    y = np.repeat([1.0, -1.0], [len(A), len(B)])
    return referee.Hulls(np.vstack([A, B]), y, np.full(y.size, nu))


def reference(A, B, nu):
    """The distance by Clarabel."""
    return math.sqrt(-2.0 * referee.reference_optimum(described(A, B, nu)))


def judged(found, A, B, nu):
    """Distance and width by the referee, who finds the shares allowed."""
    verdict = referee.judge(described(A, B, nu), found.w, found.b, np.concatenate([found.eta, -found.xi]))
    assert verdict.infeasibility <= 1e-12
    return math.sqrt(-2.0 * verdict.dual), math.sqrt(-2.0 * verdict.primal)


@every_solver
@pytest.mark.parametrize("name", CASES)
def test_distance_and_proof(name, solver):
    A, B, nu = CASES[name]
    provable = 1e-6 if name == "barely separable" else 0.0  # rows of length 1 that are 1e-7 apart
    found = hull_distance(A, B, nu=nu, solver=solver, tol=max(TOL[solver], provable), max_time=20.0)
    assert found.status is Status.CONVERGED, found.solution.message
    distance, width = judged(found, A, B, nu)
    size = max(np.abs(np.asarray(A)).max(), np.abs(np.asarray(B)).max())
    assert found.distance == pytest.approx(distance, rel=1e-9, abs=1e-12 * size)
    assert found.width == pytest.approx(width, rel=1e-9, abs=1e-11 * size)
    assert 1.0 - (width / distance) ** 2 <= 1.01 * found.solution.tol
    truth = reference(A, B, nu)
    assert width <= truth * (1.0 + 1e-4) + 1e-6 * size
    assert truth <= distance * (1.0 + 1e-4) + 1e-6 * size
    assert found.nearest[0] - found.nearest[1] == pytest.approx(A_minus_B(found, A, B), abs=1e-12 * size)


def A_minus_B(found, A, B):
    return np.asarray(A).T @ found.eta - np.asarray(B).T @ found.xi


@pytest.mark.parametrize("solver", ["saddle", "frank_wolfe"])
@pytest.mark.parametrize("name", MEETING)
def test_hulls_that_meet_end_with_a_common_point(name, solver):
    A, B, nu = MEETING[name]
    found = hull_distance(A, B, nu=nu, solver=solver, max_time=20.0)
    assert found.status is Status.NOT_SEPARABLE, found.solution.message
    distance, _ = judged(found, A, B, nu)
    assert distance <= 1e-11 * (1.0 + np.abs(np.asarray(A)).max() + np.abs(np.asarray(B)).max())
    assert found.distance == found.width == 0.0
    assert np.isinf(found.C)


def test_gilbert_proves_it_for_hulls_that_overlap():
    found = hull_distance(*MEETING["overlapping clouds"][:2], solver="gilbert")
    assert found.status is Status.NOT_SEPARABLE


def test_barely_separable_data_are_not_taken_for_meeting():
    A, B = blobs(200, 200, 5, 0.0, seed=6)
    A[:, 0], B[:, 0] = np.abs(A[:, 0]) + 1e-6, -np.abs(B[:, 0])
    found = hull_distance(A, B, max_time=2.0)
    assert found.status is not Status.NOT_SEPARABLE
    assert found.width <= reference(A, B, 1.0) * (1.0 + 1e-3) + 1e-9
    assert found.distance >= 1e-6


@every_solver
@pytest.mark.parametrize("nu", [1.0, 0.05])
def test_sparse_float32_and_dense_agree(solver, nu):
    A, B = blobs(40, 30, 6, 5.0, seed=7)
    A[np.abs(A) < 0.5], B[np.abs(B) < 0.5] = 0.0, 0.0
    A, B = A.astype(np.float32).astype(float), B.astype(np.float32).astype(float)
    options = {"nu": nu, "solver": solver, "tol": 10.0 * TOL[solver], "max_time": 20.0}
    dense = hull_distance(A, B, **options)
    for X, Z in ((sp.csr_matrix(A), sp.csr_matrix(B)), (A.astype(np.float32), B.astype(np.float32))):
        found = hull_distance(X, Z, **options)
        assert found.status is Status.CONVERGED
        assert found.width <= dense.distance * (1.0 + 1e-12)
        assert dense.width <= found.distance * (1.0 + 1e-12)


@pytest.mark.parametrize("nu", [0.03, 0.05])
def test_reduced_hulls_are_a_svm_with_another_c(nu):
    A, B = blobs(50, 60, 4, 3.0, seed=8)
    found = hull_distance(A, B, nu=nu, tol=1e-10, solver="frank_wolfe")
    y = np.repeat([1, 0], [50, 60])
    model = SVC(C=found.C, kernel="linear", tol=1e-10).fit(np.vstack([A, B]), y)
    np.testing.assert_allclose(found.w / found.rho, model.coef_[0], rtol=1e-4)
    assert found.b / found.rho == pytest.approx(model.intercept_[0], rel=1e-3, abs=1e-4)


def test_hard_margin_is_that_of_svc():
    found = hull_distance(A2, B2, tol=1e-8, solver="frank_wolfe")
    y = np.repeat([1, 0], [30, 40])
    model = SVC(C=np.inf, kernel="linear", tol=1e-9).fit(np.vstack([A2, B2]), y)
    np.testing.assert_allclose(found.w / found.rho, model.coef_[0], rtol=1e-5)
    assert 2.0 / np.linalg.norm(model.coef_) == pytest.approx(found.distance, rel=1e-6)


def test_unequal_caps_totals_and_rows_that_take_no_part():
    rng = np.random.default_rng(9)
    A, B = blobs(20, 25, 3, 6.0, seed=9)
    X, y = np.vstack([A, B]), np.repeat([1.0, -1.0], [20, 25])
    cap = rng.uniform(0.1, 1.0, 45)
    cap[::6] = 0.0
    for total in (0.5, 2.0):
        problem = HullDistance(Rows(X), y, cap, total)
        values = [
            minimize(problem, SOLVERS[name](), tol=1e-4, max_time=20.0).certificate
            for name in ("saddle", "frank_wolfe")
        ]
        members = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)]
        box = referee.Box(
            X @ X.T, np.zeros(45), np.where(y > 0, 0, -cap), np.where(y > 0, cap, 0), np.zeros(45),
            ((members[0], total), (members[1], -total)),
        )  # fmt: skip
        truth = referee.reference_optimum(box)
        for certificate in values:
            assert certificate.relative_gap <= 1e-4
            assert certificate.dual * (1.0 + 1e-6) <= truth <= certificate.primal * (1.0 - 1e-6)


def test_a_lying_point_is_caught():
    X, y = np.vstack([A2, B2]), np.repeat([1.0, -1.0], [30, 40])
    problem = HullDistance(Rows(X), y, np.ones(70))
    truth = hull_distance(A2, B2, solver="frank_wolfe")
    honest = np.concatenate([truth.eta, -truth.xi])
    for w, a in (
        (truth.w + np.array([0.0, 3.0]), honest),
        (truth.w, 5.0 * honest),
        (truth.w, np.zeros(70)),
        (-truth.w, honest),
    ):
        certificate = problem.certify(Point(w, 0.0, a))
        assert certificate.dual <= -0.5 * truth.width**2 * (1.0 - 1e-9)  # whatever it was, it was moved into the hulls
        assert certificate.primal >= -0.5 * truth.distance**2 * (1.0 + 1e-9)
    assert problem.certify(Point(np.full(2, np.nan), 0.0, honest)).relative_gap == np.inf
    with pytest.raises(ValueError, match="the point needs alpha"):
        problem.certify(Point(truth.w, 0.0))


@every_solver
def test_warm_start_from_the_solution_is_at_once_done(solver):
    A, B = blobs(40, 30, 3, 5.0, seed=3)
    X, y = np.vstack([A, B]), np.repeat([1.0, -1.0], [40, 30])
    for cap in (1.0, 0.1):
        problem = HullDistance(Rows(X), y, np.full(70, cap))
        tol = 10.0 * TOL[solver]
        first = minimize(problem, SOLVERS[solver](), tol=tol)
        again = minimize(problem, SOLVERS[solver](), tol=1.2 * tol, warm=first)
        assert again.status is Status.CONVERGED
        assert again.iterations <= first.iterations / 2


@every_solver
def test_the_distance_falls_and_bounds_hold_on_the_way(solver):
    A, B = blobs(60, 50, 4, 4.0, seed=11)
    truth = reference(A, B, 1.0)
    found = hull_distance(A, B, solver=solver, tol=1e-6, max_iter=200)
    for record in found.solution.history:
        assert -2.0 * record.primal <= truth**2 * (1.0 + 1e-5)
        assert -2.0 * record.dual >= truth**2 * (1.0 - 1e-5)
    duals = [record.dual for record in found.solution.history]
    assert all(b >= a - 1e-12 for a, b in pairwise(duals))


def test_what_is_refused():
    for A, B, nu, message in (
        (A2, B2[:, :1], 1.0, "same space: A has 2 columns, B has 1"),
        (A2, B2, 0.01, "must be at least 0.0333"),
        (A2, B2, 1.5, "at most 1"),
        (A2[:0], B2, 1.0, "A must be a matrix with at least one row"),
        (A2, B2[0], 1.0, "B must be a matrix"),
        (A2, B2 * np.nan, 1.0, "B must hold finite numbers"),
        (A2, [["a", "b"]], 1.0, "B must hold finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            hull_distance(A, B, nu=nu)
    with pytest.raises(ValueError, match=r"sum to 0\.5, which must be at least 1"):
        HullDistance(Rows(A2), np.repeat([1.0, -1.0], 15), np.full(30, 0.5 / 15))
    qp = BoxQP.of(next(iter(case for case in zoo.cases() if case.name == "hinge, rbf, weighted")).build())
    for solver in (Saddle(), Gilbert()):
        with pytest.raises(ValueError, match="needs the distance of two hulls"):
            minimize(qp, solver)
    problem = HullDistance(Rows(A2), np.repeat([1.0, -1.0], 15), np.ones(30))
    with pytest.raises(ValueError, match="cannot solve"):
        minimize(problem, Newton())


def test_hulls_that_nearly_meet_do_not_take_for_ever(monkeypatch):
    rng = np.random.default_rng(1)
    X = np.where(np.arange(10)[:, None] < 4, 0.0, 1.0 + 1e-9 * rng.normal(size=(10, 20)))[rng.permutation(10)]
    monkeypatch.setattr(sys.modules[hull_distance.__module__], "MOST_ITERATIONS", 300)
    found = hull_distance(X[:4], X[4:], nu=0.3)
    assert (found.status.name, found.solution.iterations) == ("MAX_ITER", 300)
    assert found.width <= found.distance
    assert hull_distance(X[:4], X[4:], nu=0.3, max_iter=500).solution.iterations == 500
