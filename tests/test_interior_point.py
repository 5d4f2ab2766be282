"""The interior point method: optimal on hard data, in few steps, whatever the scales and the weights."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import referee
import zoo
from maxmargin import Point, Problem, Status, minimize
from maxmargin.operators import Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic, Squared
from maxmargin.parts.penalties import L2, Bounded
from maxmargin.solvers import DualCoordinate, InteriorPoint, Newton

TOL = 1e-6
FEW = 40  # steps
LOSSES = [("hinge", 1.0), ("squared hinge", 1.0), ("huber hinge", 0.5), ("epsilon", 0.1), ("squared epsilon", 0.1)]


def hard_data(name):
    """Samples and labels on which coordinate methods crawl."""
    rng = np.random.default_rng(20)
    X, y = zoo.blobs(300, 8, seed=21, apart=0.5)
    if name == "columns 1e-4 to 1e6":
        return X * np.logspace(-4, 6, 8), y
    if name == "columns 1e-4 to 1e6, far from the origin":
        return (X + 10.0 * rng.normal(size=8)) * np.logspace(-4, 6, 8), y
    if name == "duplicates with opposite labels":
        return np.vstack([X, X]), np.append(y, -y)
    if name == "duplicated columns and a constant one":
        return np.column_stack([X, X, np.full(300, 1e3)]), y
    if name == "separable":
        return zoo.blobs(300, 8, seed=22, apart=8.0)
    if name == "more features than samples":
        return zoo.blobs(40, 120, seed=23)
    if name == "few values":
        return np.round(X), y
    raise ValueError(name)


HARD = [
    "columns 1e-4 to 1e6",
    "columns 1e-4 to 1e6, far from the origin",
    "duplicates with opposite labels",
    "duplicated columns and a constant one",
    "separable",
    "more features than samples",
    "few values",
]


def judged(case, point):
    """The referee's verdict on what is certified for a point."""
    return referee.judge(case, point.w, point.b, referee.repaired(case, point.alpha))


LIMITED = [
    ("hinge, positive", ("bounded", 0.7, 0.0, np.zeros(8), np.full(8, np.inf))),
    ("hinge, elastic net between limits", ("bounded", 0.7, 0.5, np.full(8, -0.05), np.full(8, 0.1))),
    ("hinge, elastic net", ("elastic net", 4.0, 0.7)),
    ("epsilon, positive", ("bounded", 0.7, 0.0, np.zeros(8), np.full(8, np.inf))),
    ("epsilon, l1", ("l1", 5.0)),
    ("hinge, some limits", ("bounded", 0.7, 0.0, np.r_[np.zeros(4), np.full(4, -np.inf)], np.full(8, np.inf))),
]


def assert_optimal(case, solution, tol=TOL):
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.iterations <= FEW
    verdict = judged(case, solution.point)
    slack = referee.rounding(case, solution.point.w, solution.point.b, solution.point.alpha)
    assert abs(verdict.gap) <= tol * max(abs(verdict.primal), abs(verdict.dual)) + slack
    assert verdict.infeasibility <= 1e-12 * (1.0 + np.abs(solution.point.alpha).sum())


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6, 1e8])
@pytest.mark.parametrize("name", HARD)
def test_hard_data_are_solved_in_few_steps(name, C):
    X, y = hard_data(name)
    case = zoo.machine(name, X, y, s=C)
    assert_optimal(case.describe(), minimize(case.build(), InteriorPoint(), tol=TOL))


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("loss", LOSSES, ids=[name for name, _ in LOSSES])
def test_every_loss_with_every_intercept(loss, intercept):
    X, y = zoo.line(80, 4, seed=24) if "epsilon" in loss[0] else zoo.blobs(80, 4, seed=24, apart=0.5)
    s = np.random.default_rng(25).uniform(0.0, 3.0, size=80)
    s[::7] = 0.0
    X = X * [1.0, 1e3, 1e-2, 5.0]
    case = zoo.machine("", X, y, loss=loss, s=s, intercept=intercept, scale=3.0, penalty=("l2", 0.3))
    solution = minimize(case.build(), InteriorPoint(), tol=1e-8)
    assert_optimal(case.describe(), solution, tol=1e-8)
    assert not solution.point.alpha[s == 0.0].any()
    best = referee.reference_optimum(case.describe())
    assert solution.certificate.primal == pytest.approx(best, rel=1e-6)
    assert solution.certificate.dual == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("name", [name for name, _ in LIMITED])
def test_limits_and_norms_of_coefficients(name, intercept):
    """Coefficients within limits, or with an L1 norm; those at a limit are exactly there."""
    X, y = zoo.line(80, 8, seed=34) if name.startswith("epsilon") else zoo.blobs(80, 8, seed=34, apart=0.5)
    loss = ("epsilon", 0.1) if name.startswith("epsilon") else ("hinge", 1.0)
    case = zoo.machine("", X, y, loss=loss, s=2.0, intercept=intercept, scale=3.0, penalty=dict(LIMITED)[name])
    solution = minimize(case.build(), InteriorPoint(), tol=1e-8)
    assert_optimal(case.describe(), solution, tol=1e-8)
    assert solution.iterations <= 25
    w = solution.point.w
    assert ((w == 0.0) | (np.abs(w) > 1e-9)).all()
    if "positive" in name:
        assert (w >= 0.0).all()
        assert (w == 0.0).any()
    again = minimize(case.build(), InteriorPoint(), tol=1e-8, warm=solution)
    assert again.status is Status.CONVERGED


def test_a_coefficient_without_room_stays_at_zero():
    X, y = zoo.blobs(60, 4, seed=35, apart=0.5)
    low, high = np.array([0.0, -np.inf, -1.0, 0.0]), np.array([0.0, np.inf, 0.0, 0.0])
    closed = Problem(Rows(X), y, Hinge(), Bounded(1.0, 0.0, low, high), np.ones(60))
    solution = minimize(closed, InteriorPoint(), tol=1e-8)
    assert solution.status is Status.CONVERGED
    assert not solution.point.w[[0, 3]].any()
    without = Problem(Rows(X[:, 1:3]), y, Hinge(), Bounded(1.0, 0.0, low[1:3], high[1:3]), np.ones(60))
    other = minimize(without, InteriorPoint(), tol=1e-8)
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_regression_far_from_the_origin(C):
    """Targets like prices: large, with a large mean, columns of all sizes."""
    X, y = zoo.line(200, 5, seed=26)
    X = X * np.logspace(-3, 4, 5) + 10.0
    case = zoo.machine("", X, 1e4 * y + 2e5, loss=("epsilon", 10.0), s=C)
    assert_optimal(case.describe(), minimize(case.build(), InteriorPoint(), tol=TOL))


def test_steps_depend_on_neither_the_weights_nor_the_scales():
    X, y = zoo.blobs(400, 6, seed=27, apart=0.4)
    steps = []
    for columns in (np.ones(6), np.logspace(-4, 6, 6)):
        for C in (1e-4, 1.0, 1e4, 1e8):
            problem = Problem(Rows(X * columns), y, Hinge(), L2(1.0), np.full(400, C))
            steps.append(minimize(problem, InteriorPoint(), tol=TOL).iterations)
    assert max(steps) <= 35, steps


def test_dense_and_sparse_agree():
    X, y = zoo.blobs(120, 10, seed=28, apart=0.5)
    X[np.abs(X) < 0.7] = 0.0
    points = []
    for stored in (X, sp.csr_array(X), X.astype(np.float32).astype(np.float64)):
        problem = Problem(Rows(stored), y, Hinge(), L2(1.0), np.full(120, 5.0))
        solution = minimize(problem, InteriorPoint(), tol=1e-10)
        assert solution.status is Status.CONVERGED
        points.append(solution.point)
    np.testing.assert_allclose(points[1].w, points[0].w, atol=1e-5)
    assert points[1].b == pytest.approx(points[0].b, abs=1e-5)
    np.testing.assert_allclose(points[2].w, points[0].w, atol=1e-4)


def test_a_weight_of_two_is_two_copies():
    X, y = zoo.blobs(50, 3, seed=29, apart=0.5)
    twice = np.where(np.arange(50) % 3 == 0, 2.0, 1.0)
    weighted = Problem(Rows(X), y, Hinge(), L2(1.0), twice)
    copies = np.append(np.arange(50), np.flatnonzero(twice == 2.0))
    copied = Problem(Rows(X[copies]), y[copies], Hinge(), L2(1.0), np.ones(copies.size))
    first, second = (minimize(problem, InteriorPoint(), tol=1e-9) for problem in (weighted, copied))
    assert first.certificate.primal == pytest.approx(second.certificate.primal, rel=3e-9)
    np.testing.assert_allclose(first.point.w, second.point.w, atol=1e-4)


def test_samples_without_weight_are_left_out():
    X, y = zoo.blobs(60, 3, seed=30, apart=0.5)
    s = np.where(np.arange(60) < 40, 1.5, 0.0)
    with_them, without = (
        minimize(Problem(Rows(X[:n]), y[:n], Hinge(), L2(1.0), s[:n]), InteriorPoint(), tol=1e-9) for n in (60, 40)
    )
    assert with_them.iterations == without.iterations
    np.testing.assert_allclose(with_them.point.w, without.point.w, rtol=1e-9)


def test_agrees_with_newton():
    X, y = zoo.blobs(200, 5, seed=31, apart=0.4)
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.full(200, 10.0))
    ours, theirs = (minimize(problem, solver, tol=1e-9) for solver in (InteriorPoint(), Newton()))
    assert ours.status is theirs.status is Status.CONVERGED
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=3e-9)
    np.testing.assert_allclose(ours.point.w, theirs.point.w, atol=1e-4)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive()], ids=["hinge", "epsilon"])
def test_warm_start(loss):
    """From another solver's optimum nothing is left to do, near an optimum little, and far away no more than usual."""
    X, y = zoo.blobs(150, 4, seed=32, apart=0.5)
    s = np.ones(150)
    problem = Problem(Rows(X), y, loss, L2(1.0), s)
    cold = minimize(problem, InteriorPoint(), tol=TOL)
    for other in (DualCoordinate(), Newton()):
        optimum = minimize(problem, other, tol=1e-9)
        again = minimize(problem, InteriorPoint(), tol=TOL, warm=optimum)
        assert (again.status, again.iterations) == (Status.CONVERGED, 0)
    near = minimize(Problem(Rows(X), y, loss, L2(1.0), 1.05 * s), InteriorPoint(), tol=TOL, warm=cold)
    assert near.status is Status.CONVERGED
    assert near.iterations <= cold.iterations
    for w in (np.full(4, 1e6), np.full(4, -1e-6)):
        for alpha in (None, np.zeros(150), 2.0 * y):
            far = minimize(problem, InteriorPoint(), tol=TOL, warm=Point(w, 100.0, alpha))
            assert far.status is Status.CONVERGED
            assert far.iterations <= FEW


@pytest.mark.parametrize("tol", [1e-12, 0.0])
def test_what_cannot_be_reached_ends_honestly(tol):
    """Below rounding the method ends by itself, with a gap that is true."""
    X, y = hard_data("columns 1e-4 to 1e6, far from the origin")
    case = zoo.machine("", X, y, s=1e8)
    solution = minimize(case.build(), InteriorPoint(), tol=tol)
    assert solution.status in (Status.CONVERGED, Status.STALLED)
    assert solution.iterations <= 2 * FEW
    verdict = judged(case.describe(), solution.point)
    slack = referee.rounding(case.describe(), solution.point.w, solution.point.b, solution.point.alpha)
    assert solution.certificate.gap == pytest.approx(verdict.gap, abs=1e-10 * abs(verdict.primal) + slack)


def test_every_estimate_is_a_bound():
    """Round after round, the optimum lies between the values that the method believes in."""
    X, y = hard_data("few values")
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.full(300, 100.0))
    optimum = minimize(problem, Newton(), tol=1e-9).certificate
    records = []
    minimize(problem, InteriorPoint(), tol=1e-8, callback=records.append)
    for record in records:
        assert record.dual <= optimum.primal * (1.0 + 1e-9)
        assert record.primal >= optimum.dual * (1.0 - 1e-9)
    mus = [record.counters["mu"] for record in records]
    assert mus == sorted(mus, reverse=True)


def test_refusals_are_sentences():
    X, y = zoo.blobs(6, 2, seed=33)
    s = np.ones(6)
    for loss in (Logistic(), Squared()):
        assert type(loss).__name__ in InteriorPoint().supports(Problem(Rows(X), y, loss, L2(1.0), s))
    wide = Problem(Rows(np.ones((6, 1001))), y, Hinge(), L2(1.0), s)
    with pytest.raises(ValueError, match="size of the features; this problem has 1001, more than 1000"):
        minimize(wide, InteriorPoint())


def test_one_class_has_its_answer_at_once():
    X, _ = zoo.blobs(10, 2, seed=34)
    problem = Problem(Rows(X), np.ones(10), Hinge(), L2(1.0), np.ones(10))
    for warm in (None, Point(np.ones(2), 0.0, np.ones(10))):
        solution = minimize(problem, InteriorPoint(), warm=warm)
        assert (solution.status, solution.iterations) == (Status.CONVERGED, 0)
        assert solution.certificate.primal == 0.0
        assert math.isfinite(solution.point.b)
