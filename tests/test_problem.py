"""Problem: certificates against the referee, weak duality, feasible points, intercepts, scalings."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import referee
import zoo
from maxmargin import Certificate, Point, Problem, minimize
from maxmargin.loop.certificate import certify_point as certify
from maxmargin.operators import Columns, KernelGram, PrecomputedGram, Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, L2, Bounded, ElasticNet
from maxmargin.solvers import SMO, DualCoordinate

LOSSES = [
    ("hinge", 1.0),
    ("squared hinge", 1.0),
    ("huber hinge", 0.5),
    ("logistic", 1.0),
    ("squared", 2.0),
    ("epsilon", 0.1),
    ("squared epsilon", 0.1),
]
LOW, HIGH = np.array([-1e6, 0.0, -math.inf]), np.array([1e6, math.inf, 0.0])
PENALTIES = [
    ("l2", 0.7),
    ("l1", 0.7),
    ("elastic net", 0.7, 0.4),
    ("bounded", 0.7, 0.4, LOW, HIGH),
    ("bounded", 0.7, 1.0, LOW, HIGH),
]
INTERCEPTS = ["free", "penalised", None]

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=[loss[0] for loss in LOSSES])
every_intercept = pytest.mark.parametrize("intercept", INTERCEPTS)
examples = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def pose(loss, penalty, intercept, seed, *, kernel=None, n=14, d=3, offset=0.0, lam=None):
    """A random problem of the zoo's kind, some of whose samples have no weight."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + offset
    y = np.sign(rng.normal(size=n)) if loss[0] in referee.CLASSIFICATION else rng.normal(size=n) * 2.0
    s = rng.uniform(0.1, 2.0, size=n) * (rng.uniform(size=n) > 0.2)
    penalty = penalty if lam is None else (penalty[0], lam, *penalty[2:])
    return zoo.machine(
        "random", X, y, loss=loss, penalty=penalty, s=s, intercept=intercept, scale=1.5, kernel=kernel
    )  # fmt: skip


def random_point(problem, seed, size=1.0):
    rng = np.random.default_rng(seed + 1)
    w = rng.normal(size=problem.operator.n_features if not problem.kernelised else problem.operator.n_samples)
    if isinstance(problem.penalty, Bounded):
        w = np.clip(w, problem.penalty.low, problem.penalty.high)
    b = 0.0 if problem.intercept is None else float(rng.normal())
    return Point(size * w, size * b, size * rng.normal(size=problem.operator.n_samples))


def assert_equals_the_referee(case, certificate, point, alpha):
    description = case.describe()
    verdict = referee.judge(description, point.w, point.b, alpha)
    slack = referee.rounding(description, point.w, point.b, alpha)
    tolerance = 1e-10 * max(abs(verdict.primal), abs(verdict.dual)) + slack
    assert certificate.primal == pytest.approx(verdict.primal, abs=tolerance)
    assert certificate.dual == pytest.approx(verdict.dual, abs=tolerance)
    assert verdict.infeasibility <= 1e-12 * (1.0 + np.abs(alpha).sum())


@every_loss
@every_intercept
@examples
@given(penalty=st.sampled_from(PENALTIES), seed=st.integers(0, 10**6), size=st.sampled_from([1e-3, 1.0, 30.0]))
def test_weak_duality_and_referee(loss, intercept, penalty, seed, size):
    case = pose(loss, penalty, intercept, seed)
    problem = case.build()
    point = random_point(problem, seed, size)
    certificate = certify(problem, point)
    description = case.describe()
    alpha = referee.repaired(description, point.alpha)
    assert certificate.gap >= -referee.rounding(description, point.w, point.b, alpha)
    assert_equals_the_referee(case, certificate, point, alpha)


@every_loss
@every_intercept
def test_weak_duality_and_referee_with_a_kernel(loss, intercept):
    for seed in range(8):
        case = pose(loss, PENALTIES[0], intercept, seed, kernel="rbf")
        problem = case.build()
        point = random_point(problem, seed)
        certificate = certify(problem, point)
        assert certificate.gap >= 0.0
        assert_equals_the_referee(case, certificate, point, referee.repaired(case.describe(), point.alpha))


@every_loss
def test_dual_variables_follow_from_the_scores_if_none_are_given(loss):
    case = pose(loss, PENALTIES[0], "free", 3)
    problem, description = case.build(), case.describe()
    point = random_point(problem, 3)
    low, high = referee.slope_interval(loss, description.X @ point.w + point.b, description.y)
    np.testing.assert_array_equal(low, high)  # no kinks at random scores
    alpha = referee.repaired(description, -description.s * low)
    certificate = certify(problem, Point(point.w, point.b, None))
    assert_equals_the_referee(case, certificate, point, alpha)


@pytest.mark.parametrize("layout", [sp.csr_array, sp.csc_array, np.asfortranarray], ids=["csr", "csc", "fortran"])
def test_every_layout_has_the_same_certificate(layout):
    case = pose(("hinge", 1.0), PENALTIES[0], "free", 5)
    dense = case.build()
    point = random_point(dense, 5)
    expected = certify(dense, point)
    X = layout(case.describe().X)
    for operator in (Rows(X), Columns(X)):
        certificate = certify(Problem(operator, dense.y, dense.loss, dense.penalty, dense.s), point)
        assert certificate.primal == pytest.approx(expected.primal, rel=1e-13)
        assert certificate.dual == pytest.approx(expected.dual, rel=1e-13)


# ---- feasible points -------------------------------------------------------------------------------------------------


@every_loss
@every_intercept
@examples
@given(penalty=st.sampled_from(PENALTIES), seed=st.integers(0, 10**6), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_feasible_is_feasible_idempotent_and_keeps_zeros(loss, intercept, penalty, seed, size):
    case = pose(loss, penalty, intercept, seed)
    problem = case.build()
    alpha = size * np.random.default_rng(seed).normal(size=14)
    alpha[::4] = 0.0
    feasible = problem.feasible(alpha)
    value, infeasibility = referee.dual(case.describe(), feasible)
    assert np.isfinite(value)
    assert infeasibility <= 1e-14 * (1.0 + np.abs(feasible).sum())
    assert (feasible[::4] == 0.0).all()
    np.testing.assert_allclose(problem.feasible(feasible), feasible, rtol=1e-11, atol=0)


@every_intercept
def test_feasible_leaves_a_feasible_point_alone(intercept):
    problem = pose(("hinge", 1.0), PENALTIES[0], intercept, 1).build()
    low, high = problem.dual_box()
    alpha = 0.5 * (low + high)
    alpha *= np.where(alpha > 0, -alpha[alpha < 0].sum() / alpha[alpha > 0].sum(), 1.0) if intercept == "free" else 1.0
    alpha = np.clip(alpha, low, high)
    np.testing.assert_allclose(problem.feasible(alpha), alpha, rtol=1e-13)


@pytest.mark.parametrize("intercept", ["free", None])
def test_dual_value_of_l1_is_finite_even_if_the_columns_have_a_large_mean(intercept):
    """Sums that cancel round differently after scaling: a margin of a few units in the last place is not enough."""
    for seed in range(100):
        case = pose(("hinge", 1.0), ("l1", 0.01), intercept, seed, n=50, d=4, offset=1e4)
        problem = case.build()
        assert np.isfinite(certify(problem, random_point(problem, seed)).dual)


# ---- the free intercept ----------------------------------------------------------------------------------------------


@every_loss
def test_best_intercept_is_a_minimiser(loss):
    for seed in range(10):
        case = pose(loss, PENALTIES[0], "free", seed)
        problem, description = case.build(), case.describe()
        w = np.random.default_rng(seed).normal(size=3)
        b = problem.best_intercept(description.X @ w)
        best = referee.primal(description, w, b)
        for step in (1e-8, 1e-4, 1e-2, 1.0, 10.0):
            for other in (b - step, b + step):
                assert best <= referee.primal(description, w, other) * (1.0 + 1e-14)


def test_best_intercept_is_the_middle_one():
    def best(z, y, loss=Hinge(), s=None):  # noqa: B008
        y = np.asarray(y, dtype=float)
        s = np.ones(y.size) if s is None else np.asarray(s, dtype=float)
        problem = Problem(Rows(np.zeros((y.size, 1))), y, loss, L2(1.0), s)
        return problem.best_intercept(np.asarray(z, dtype=float))

    assert best([-3.0, 2.0], [-1, 1]) == pytest.approx(0.5, abs=1e-15)  # no loss for b in [-1, 2]
    assert best([-1e8, 1e8], [-1, 1]) == pytest.approx(0.0, abs=1e-7)
    assert best([0.0, 0.0], [-1, 1]) == pytest.approx(0.0, abs=1e-15)  # the loss is 2 for b in [-1, 1]
    assert best([0.0] * 4, [0, 1, 5, 9], EpsilonInsensitive(0.0)) == pytest.approx(3.0, abs=1e-14)  # a median
    assert best([0.0] * 4, [0, 1, 5, 9], Squared()) == pytest.approx(3.75, abs=1e-14)  # the mean
    assert best([0.0] * 3, [0, 1, 5], Squared(), [1, 1, 0]) == pytest.approx(0.5, abs=1e-14)
    assert best([0.0] * 4, [1, 1, 1, -1], Logistic()) == pytest.approx(np.log(3.0), abs=1e-12)
    assert best([0.0] * 4, [1, 1, 1, -1], SquaredHinge()) == pytest.approx(0.5, abs=1e-14)


# ---- what must not be certified --------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("part", ["w", "b", "alpha"])
def test_a_point_that_is_not_a_number_has_no_good_certificate(loss, part):
    problem = pose(loss, PENALTIES[0], "free", 2).build()
    w, b, alpha = np.zeros(3), 0.0, np.zeros(14)
    point = {"w": Point(w * np.nan, b, alpha), "b": Point(w, np.nan, alpha), "alpha": Point(w, b, alpha * np.nan)}[part]
    try:
        certificate = certify(problem, point)
    except FloatingPointError:
        return
    assert certificate.relative_gap > 0.1


def test_a_pair_below_its_own_dual_is_not_optimal():
    """An indefinite "kernel" has no weak duality: a primal value far below the dual value proves nothing."""
    y = np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(PrecomputedGram(-np.eye(4)), y, Hinge(), L2(1.0), np.ones(4))
    certificate = certify(problem, Point(np.full(4, 100.0), 0.0, np.zeros(4)))
    assert certificate.primal < -1.0
    assert not certificate.relative_gap <= 1e-6
    assert not Certificate(-5.0, 1.0).relative_gap <= 1e-6
    assert Certificate(1.0, 1.0 + 1e-15, 1e-15, 1e-15).relative_gap <= 1e-6  # bounded rounding explains it
    assert not Certificate(1.0, 1.0 + 1e-15).relative_gap <= 1e-6  # and nothing explains this


@pytest.mark.parametrize("penalty", [L1(1.0), ElasticNet(1.0, 0.5)])
def test_kernels_need_an_l2_penalty(penalty):
    with pytest.raises(ValueError, match=f"A kernel needs an L2 penalty.*{type(penalty).__name__}"):
        Problem(PrecomputedGram(np.eye(2)), np.array([1.0, -1.0]), Hinge(), penalty, np.ones(2))


def test_coefficients_outside_of_their_bounds_prove_nothing():
    problem = pose(("squared", 1.0), PENALTIES[3], "free", 0).build()
    certificate = certify(problem, Point(np.array([0.0, -1e-300, 0.0]), 0.0, np.zeros(14)))
    assert certificate.primal == math.inf
    assert not certificate.relative_gap <= 1.0


# ---- the referee itself ----------------------------------------------------------------------------------------------


@every_loss
@every_intercept
def test_reference_optimum_lies_between_the_values_of_any_pair(loss, intercept):
    for penalty in PENALTIES:
        case = pose(loss, penalty, intercept, 4)
        problem, description = case.build(), case.describe()
        optimum = referee.reference_optimum(description)
        for seed in range(5):
            certificate = certify(problem, random_point(problem, seed, 0.3))
            slack = 1e-8 * (1.0 + abs(optimum))
            assert certificate.dual - slack <= optimum <= certificate.primal + slack


@every_loss
@every_intercept
def test_kkt_conditions_hold_at_the_optimum_and_nowhere_else(loss, intercept):
    case = pose(loss, PENALTIES[0], intercept, 6)
    description = case.describe()
    point = minimize(case.build(), DualCoordinate(), tol=1e-13, max_time=5.0).point
    assert referee.kkt_violation(description, point.w, point.b, point.alpha) <= 1e-5
    assert referee.kkt_violation(description, point.w + 0.1, point.b, point.alpha) >= 1e-2
    assert referee.kkt_violation(description, point.w, point.b, 0.9 * point.alpha) >= 1e-3


# ---- scalings: section 1 of the inventory ----------------------------------------------------------------------------


def scaled_forms(C, n):
    """Weight of each loss, strength of the penalty, and the factor of the objective relative to the C-form."""
    yield "lambda-mean", 1.0 / n, 1.0 / (n * C), 1.0 / (n * C)
    yield "lambda-sum", 1.0, 1.0 / C, 1.0 / C
    yield "lambda |w|^2", 1.0, 2.0 * (1.0 / (2.0 * C)), 1.0 / C
    yield "mean of C_r = n C", n * C / n, 1.0, 1.0


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared hinge"])
def test_every_scaling_is_the_same_problem(loss):
    X, y = zoo.blobs(20, 3, seed=0, apart=0.5)
    C, n = 0.3, 20
    form = Problem(Rows(X), y, loss, L2(1.0), np.full(n, C))
    solution = minimize(form, DualCoordinate(), tol=1e-12)
    for name, s, lam, factor in scaled_forms(C, n):
        scaled = Problem(Rows(X), y, loss, L2(lam), np.full(n, s))
        point = Point(solution.point.w, solution.point.b, factor * solution.point.alpha)
        certificate = certify(scaled, point)
        expected = Certificate(factor * solution.certificate.primal, factor * solution.certificate.dual)
        assert certificate.primal == pytest.approx(expected.primal, rel=1e-13), name
        assert certificate.dual == pytest.approx(expected.dual, rel=1e-13), name
        assert certificate.relative_gap <= 1e-11, name


def test_optimum_lies_in_the_pegasos_ball():
    """Inventory 0-06: |w*| <= 1 / sqrt(lambda) for the lambda-mean form without intercept."""
    X, y = zoo.blobs(30, 3, seed=1, apart=0.5)
    for lam in (1e-3, 1e-1, 10.0):
        problem = Problem(Rows(X), y, Hinge(), L2(lam), np.full(30, 1 / 30), None)
        w = minimize(problem, DualCoordinate(), tol=1e-9).point.w
        assert np.linalg.norm(w) <= 1.0 / np.sqrt(lam)


def test_penalised_intercept_is_a_constant_column():
    X, y = zoo.blobs(20, 3, seed=2, apart=0.5)
    s = np.full(20, 0.5)
    for scale in (0.5, 3.0):
        inside = minimize(Problem(Rows(X), y, Hinge(), L2(1.0), s, "penalised", scale), DualCoordinate(), tol=1e-12)
        wider = np.column_stack([X, np.full(20, scale)])
        outside = minimize(Problem(Rows(wider), y, Hinge(), L2(1.0), s, None), DualCoordinate(), tol=1e-12)
        assert inside.certificate.primal == pytest.approx(outside.certificate.primal, rel=1e-11)
        assert inside.point.b == pytest.approx(scale * outside.point.w[-1], abs=1e-6)


def test_a_large_scale_frees_the_penalised_intercept():
    X, y = zoo.blobs(20, 2, seed=3, apart=0.5)
    free = minimize(Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.ones(20)), SMO(), tol=1e-10)
    gram, s = KernelGram(zoo.KERNELS["rbf"][0], X), np.ones(20)
    previous = np.inf
    for scale in (1.0, 10.0, 100.0):
        solution = minimize(Problem(gram, y, Hinge(), L2(1.0), s, "penalised", scale), SMO(), tol=1e-10)
        excess = solution.certificate.primal - free.certificate.primal
        assert -1e-8 <= excess <= previous
        previous = excess
    assert previous <= 1e-3


def test_lasso_is_zero_from_its_largest_lambda_on():
    rng = np.random.default_rng(4)
    A, d = rng.normal(size=(15, 4)), rng.normal(size=15)
    largest = 2.0 * np.abs(A.T @ d).max()  # for |A w - d|^2 + lam |w|_1
    zero = Point(np.zeros(4), 0.0)
    for factor, optimal in ((1.0 + 1e-9, True), (2.0, True), (0.9, False)):
        problem = Problem(Rows(A), d, Squared(2.0), L1(factor * largest), np.ones(15), None)
        assert (certify(problem, zero).relative_gap <= 1e-8) == optimal
        mean = Problem(Rows(A), d, Squared(), L1(factor * largest / 30), np.full(15, 1 / 15), None)  # lam = 2 n alpha
        assert certify(mean, zero).primal == pytest.approx(certify(problem, zero).primal / 30)
        assert certify(mean, zero).dual == pytest.approx(certify(problem, zero).dual / 30)


def test_ridge_has_its_closed_form():
    rng = np.random.default_rng(5)
    A, d, lam = rng.normal(size=(15, 4)), rng.normal(size=15), 0.8
    problem = Problem(Rows(A), d, Squared(2.0), L2(2.0 * lam), np.ones(15), None)  # |A w - d|^2 + lam |w|^2
    w = minimize(problem, DualCoordinate(), tol=1e-13).point.w
    np.testing.assert_allclose(w, np.linalg.solve(A.T @ A + lam * np.eye(4), A.T @ d), rtol=1e-6)
