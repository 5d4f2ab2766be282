"""BoxQP: the same optimum as the problem it came from, weak duality, feasible points, multipliers, nu and hulls."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import referee
import zoo
from maxmargin import BoxQP, Point, Problem, Status, minimize
from maxmargin.loop.certificate import certify_point as certify
from maxmargin.operators import KernelGram, PrecomputedGram, Rows
from maxmargin.parts.kernels import Linear
from maxmargin.parts.losses import (
    EpsilonInsensitive,
    Hinge,
    HuberHinge,
    Logistic,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import dual_pieces
from maxmargin.solvers import SMO

LOSSES = [
    ("hinge", 1.0),
    ("squared hinge", 1.0),
    ("huber hinge", 0.5),
    ("squared", 2.0),
    ("epsilon", 0.1),
    ("squared epsilon", 0.1),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=[loss[0] for loss in LOSSES])
every_intercept = pytest.mark.parametrize("intercept", ["free", "penalised", None])
examples = settings(max_examples=20, deadline=None, derandomize=True, database=None)

PROGRAMS = {case.name: case for case in zoo.cases() if isinstance(case.describe(), referee.Box)}
every_program = pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS)

PLANETS = np.array([[1.0], [2.3], [2.4], [4.9], [12.8], [143.0]])
KIND = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])


def kernel_machine(loss, intercept, seed=0, n=16):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sign(rng.normal(size=n)) if loss[0] in referee.CLASSIFICATION else rng.normal(size=n) * 2.0
    s = rng.uniform(0.1, 2.0, size=n) * (rng.uniform(size=n) > 0.2)
    return zoo.machine(
        "kernel", X, y, loss=loss, penalty=("l2", 0.6), s=s, intercept=intercept, scale=1.5, kernel="rbf"
    )  # fmt: skip


def described(qp):
    """The referee's view of a program of the library."""
    everything = np.arange(qp.gram.n_samples)
    K = qp.gram.block(everything) / qp.lam + qp.shift
    groups = tuple((np.flatnonzero(qp.group == g), float(total)) for g, total in enumerate(qp.totals))
    return referee.Box(K[np.ix_(qp.sample, qp.sample)], qp.q, qp.low, qp.high, qp.D, groups)


def random_variables(qp, seed, size=1.0):
    return size * np.random.default_rng(seed).normal(size=qp.q.size)


# ---- the dual of a problem -------------------------------------------------------------------------------------------


@every_loss
@every_intercept
def test_program_has_the_optimum_of_its_problem(loss, intercept):
    case = kernel_machine(loss, intercept)
    optimum = referee.reference_optimum(case.describe())
    program = referee.reference_optimum(described(BoxQP.of(case.build())))
    assert program == pytest.approx(optimum, rel=1e-7)


@every_loss
@every_intercept
def test_program_and_problem_have_the_same_dual_value(loss, intercept):
    problem = kernel_machine(loss, intercept).build()
    qp = BoxQP.of(problem)
    alpha = problem.feasible(random_variables(qp, 1)[: problem.y.size])
    if qp.q.size > alpha.size:
        a = np.append(np.maximum(alpha, 0.0), np.minimum(alpha, 0.0))
    else:
        a = alpha
    expected = certify(problem, Point(alpha / problem.lam, 0.0, alpha)).dual
    assert certify(qp, Point(alpha, 0.0, a)).dual == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("problem", "fragment"),
    [
        (Problem(Rows(np.eye(2)), np.array([1.0, -1.0]), Hinge(), L2(1.0), np.ones(2)), "kernel matrix"),
        (Problem(PrecomputedGram(np.eye(2)), np.array([1.0, -1.0]), Logistic(), L2(1.0), np.ones(2)), "Logistic"),
    ],
)
def test_obstacle_says_why(problem, fragment):
    assert fragment in BoxQP.obstacle(problem)


def test_reductions_are_not_rounded():
    """Textbook coefficients, although the program is read off the derivatives of the conjugate beside zero."""
    rng = np.random.default_rng(0)
    y, s = rng.normal(size=200), 10.0 ** rng.uniform(-200.0, 3.0, 200)
    y[0] = 0.3
    s[1] = 0.0
    cases = [
        (Hinge(1.5), np.sign(y), 1.5 * np.sign(y), np.zeros(200)),
        (SquaredHinge(0.7), np.sign(y), 0.7 * np.sign(y), 0.5 / np.where(s > 0.0, s, 1.0)),
        (SquaredEpsilonInsensitive(0.3), y, np.array([y - 0.3, y + 0.3]), 0.5 / np.where(s > 0.0, s, 1.0)),
        (EpsilonInsensitive(0.3), y, np.array([y - 0.3, y + 0.3]), np.zeros(200)),
        (HuberHinge(0.2), np.sign(y), np.sign(y), 0.2 / np.where(s > 0.0, s, 1.0)),
        (Squared(3.0), y, y, 1.0 / (3.0 * np.where(s > 0.0, s, 1.0))),
    ]
    for loss, targets, q, D in cases:
        found = dual_pieces(Problem(PrecomputedGram(np.eye(200)), targets, loss, L2(1.0), s))
        np.testing.assert_allclose(found[0], np.atleast_2d(q), rtol=2e-16, atol=1e-34)
        np.testing.assert_allclose(found[1], np.broadcast_to(D, found[1].shape), rtol=1e-15)
        assert not np.any([found[2][:, 1], found[3][:, 1]])  # no weight, no room


def test_no_obstacle():
    assert all(BoxQP.obstacle(kernel_machine(loss, "free").build()) is None for loss in LOSSES)


# ---- certificates ----------------------------------------------------------------------------------------------------


@every_program
@examples
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_weak_duality_and_referee(case, seed, size):
    qp, description = case.build(), case.describe()
    a = random_variables(qp, seed, size)
    certificate = certify(qp, Point(a, 0.0, a))
    verdict = referee.judge_box(description, referee.repaired(description, a))
    slack = referee.rounding(description, None, None, referee.repaired(description, a))
    tolerance = 1e-10 * max(abs(verdict.primal), abs(verdict.dual)) + 10 * slack
    assert certificate.gap >= -10 * slack
    assert certificate.primal == pytest.approx(verdict.primal, abs=tolerance)
    assert certificate.dual == pytest.approx(verdict.dual, abs=tolerance)
    assert verdict.infeasibility <= 1e-13 * (1.0 + np.abs(description.q).sum())


@every_program
def test_reference_optimum_lies_between_the_values_of_any_point(case):
    qp = case.build()
    optimum = referee.reference_optimum(case.describe())
    for seed in range(5):
        a = random_variables(qp, seed, 0.3)
        certificate = certify(qp, Point(a, 0.0, a))
        assert certificate.dual - 1e-8 <= optimum <= certificate.primal + 1e-8


@every_loss
@every_intercept
def test_certificate_of_a_problem_as_program(loss, intercept):
    qp = BoxQP.of(kernel_machine(loss, intercept).build())
    description = described(qp)
    for seed in range(5):
        a = random_variables(qp, seed)
        verdict = referee.judge_box(description, referee.repaired(description, a))
        certificate = certify(qp, Point(a, 0.0, a))
        assert certificate.primal == pytest.approx(verdict.primal, rel=1e-10)
        assert certificate.dual == pytest.approx(verdict.dual, rel=1e-10)


def test_a_program_is_certified_at_its_variables():
    with pytest.raises(ValueError, match="needs alpha"):
        certify(PROGRAMS["epsilon-SVR"].build(), Point(np.zeros(25), 0.0, None))


def test_variables_that_are_not_numbers_have_no_good_certificate():
    qp = PROGRAMS["nu-SVC, nu inside"].build()
    a = np.full(30, np.nan)
    try:
        certificate = certify(qp, Point(a, 0.0, a))
    except (FloatingPointError, ValueError):
        return
    assert certificate.relative_gap > 0.1


# ---- feasible points -------------------------------------------------------------------------------------------------


@every_program
@examples
@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
def test_feasible_is_feasible_and_idempotent(case, seed, size):
    qp, description = case.build(), case.describe()
    a = qp.feasible(random_variables(qp, seed, size))
    assert referee.judge_box(description, a).infeasibility <= 1e-14 * (1.0 + np.abs(a).sum())
    np.testing.assert_array_equal(qp.feasible(a), a)  # or users get another function than the one that was certified


def one_group(n, high, total, low=0.0):
    return BoxQP(
        PrecomputedGram(np.eye(n)), np.zeros(n), np.full(n, low), np.full(n, high), np.zeros(n),
        np.arange(n), np.zeros(n, dtype=np.int64), np.array([total]),
    )  # fmt: skip


def test_feasible_when_the_box_holds_one_point_only():
    """A cap of 1/n makes every variable 1/n; that n/n is not exactly 1 is rounding, not infeasibility."""
    for n in range(1, 200):
        qp = one_group(n, 1.0 / n, 1.0)
        a = qp.feasible(np.zeros(n))
        np.testing.assert_allclose(qp.feasible(a), 1.0 / n, rtol=1e-14)


def test_feasible_with_an_open_box():
    np.testing.assert_allclose(one_group(4, np.inf, 1.0).feasible(np.zeros(4)), 0.25)
    a = one_group(4, np.inf, 1.0).feasible(np.array([3.0, 1.0, 0.0, 0.0]))
    assert a.sum() == pytest.approx(1.0)
    assert (a >= 0.0).all()


def test_an_impossible_total_is_an_error_with_the_numbers():
    with pytest.raises(ValueError, match=r"sum 5.*reach 3 at most"):
        one_group(3, 1.0, 5.0).feasible(np.zeros(3))


def test_feasible_keeps_the_zeros_of_a_point_that_misses_its_total_by_rounding():
    """Otherwise the certificate of a sparse solution has to read the whole kernel matrix."""
    X, y = zoo.blobs(60, 2, seed=0, apart=3.0)
    qp = BoxQP.of(Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.ones(60)))
    a = minimize(qp, SMO(), tol=1e-9).point.alpha
    support = np.count_nonzero(a)
    assert support < 40
    for nudge in (1.0 + 1e-15, 1.0 - 1e-15):
        nudged = a.copy()
        nudged[np.flatnonzero((a != qp.low) & (a != qp.high))[0]] *= nudge
        assert np.count_nonzero(qp.feasible(nudged)) <= support


# ---- multipliers -----------------------------------------------------------------------------------------------------


@every_program
def test_multipliers_minimise_the_primal(case):
    qp, description = case.build(), case.describe()
    a = qp.feasible(random_variables(qp, 3))
    f = description.Q @ a
    _, _, b = qp.values(a, qp.scores(a))
    np.testing.assert_allclose(qp.scores(a), f, rtol=1e-11, atol=1e-12)
    assert b.size == len(description.groups)
    for g, (members, total) in enumerate(description.groups):
        box = description.low[members], description.high[members], description.D[members]
        r = description.q[members] - f[members]

        def value(multiplier, r=r, box=box, total=total):
            return referee.support(r - multiplier, *box) + multiplier * total

        best = value(b[g])
        assert best == pytest.approx(value(referee.best_multiplier(r, *box, total)), rel=1e-12, abs=1e-12)
        for step in (1e-6, 1e-3, 1.0):
            assert best <= min(value(b[g] - step), value(b[g] + step)) + 1e-12 * (1.0 + abs(best))


def test_the_multiplier_is_the_middle_one():
    y = np.array([1.0, -1.0])
    problem = Problem(PrecomputedGram(np.diag([1.0, 1.0])), y, Hinge(), L2(1.0), np.full(2, 10.0))
    qp = BoxQP.of(problem)
    # Scores 3 and -2: no loss for b in [-2, 1].
    _, _, b = qp.values(np.array([3.0, -2.0]), np.array([3.0, -2.0]))
    assert b[0] == pytest.approx(-0.5, abs=1e-15)


def test_expansion_adds_the_variables_of_a_sample():
    qp = PROGRAMS["epsilon-SVR, shuffled variables"].build()
    a = random_variables(qp, 4)
    expected = np.zeros(25)
    for v, i in enumerate(qp.sample):
        expected[i] += a[v]
    np.testing.assert_allclose(qp.expansion(a), expected, rtol=1e-14)
    np.testing.assert_array_equal(qp.expansion(np.zeros(50)), np.zeros(25))


# ---- any order of the variables --------------------------------------------------------------------------------------


def test_order_of_the_variables_does_not_matter():
    X, y = zoo.blobs(20, 2, seed=1, apart=0.5)
    y[:5] = 1.0
    qp = BoxQP.of(Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.ones(20)))
    first = minimize(qp, SMO(), tol=1e-10)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(20)
        shuffled = replace(qp, q=qp.q[order], low=qp.low[order], high=qp.high[order], sample=qp.sample[order])
        second = minimize(shuffled, SMO(), tol=1e-10)
        assert second.certificate.primal == pytest.approx(first.certificate.primal, rel=1e-9)
        np.testing.assert_allclose(second.point.alpha, first.point.alpha[order], atol=1e-4)
        assert second.point.b == pytest.approx(first.point.b, abs=1e-5)


# ---- nu, hulls and the hard margin: section 1 of the inventory -------------------------------------------------------


def two_groups(X, y, cap, total, kernel):
    plus, minus = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    low, high = np.where(y > 0, 0.0, -cap), np.where(y > 0, cap, 0.0)
    return zoo.program("nu", X, np.zeros(y.size), low, high, groups=((plus, total), (minus, -total)), kernel=kernel)


def test_nu_of_a_c_svm():
    """nu = sum |alpha| / (n C) at the optimum of the C-SVM gives the same dual point, divided by C."""
    X, y = zoo.blobs(30, 2, seed=2, apart=0.5)
    n, C = 30, 0.7
    alpha = minimize(
        Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.full(n, C)), SMO(), tol=1e-12
    ).point.alpha
    nu = np.abs(alpha).sum() / (n * C)
    assert 0.0 < nu < 1.0
    case = two_groups(X, y, 1.0, nu * n / 2, "rbf")
    solution = minimize(case.build(), SMO(), tol=1e-10)
    K = zoo.KERNELS["rbf"][1](X, X)
    assert -solution.certificate.dual == pytest.approx(alpha @ K @ alpha / (2 * C**2), rel=1e-7)
    np.testing.assert_allclose(solution.point.alpha, alpha / C, atol=1e-4)
    # Schoelkopf's property: at most nu n margin errors (a = 1), at least nu n support vectors.
    a = np.abs(solution.point.alpha)
    assert (a >= 1.0 - 1e-12).sum() <= nu * n + 1e-9
    assert (a > 1e-12).sum() >= nu * n - 1e-9


def test_cap_of_the_reduced_hulls():
    """nu_c = 2 / (n nu_S): the same problem with sums of 1, its value scaled by (n nu_S / 2)^2."""
    X, y = zoo.blobs(30, 2, seed=3, apart=0.5)
    n, nu = 30, 0.4
    schoelkopf = minimize(two_groups(X, y, 1.0, nu * n / 2, "rbf").build(), SMO(), tol=1e-10).certificate.dual
    hulls = minimize(two_groups(X, y, 2.0 / (n * nu), 1.0, "rbf").build(), SMO(), tol=1e-10).certificate.dual
    assert schoelkopf == pytest.approx(hulls * (n * nu / 2) ** 2, rel=1e-8)


def test_hull_distance_of_the_planets():
    """Inventory 3-22: distance D = 2.5, value -D^2 / 2, w = 2 (p - q) / D^2 = 0.8."""
    solution = minimize(two_groups(PLANETS, KIND, 1.0, 1.0, "linear").build(), SMO(), tol=1e-10)
    assert solution.certificate.dual == pytest.approx(-(2.5**2) / 2, rel=1e-9)
    difference = float(solution.point.alpha @ PLANETS[:, 0])
    assert 2.0 * difference / 2.5**2 == pytest.approx(0.8, rel=1e-8)


def test_large_c_is_the_hard_margin_of_the_planets():
    problem = Problem(KernelGram(Linear(), PLANETS), KIND, Hinge(), L2(1.0), np.full(6, 100.0))
    solution = minimize(problem, SMO(), tol=1e-10)
    assert solution.point.w @ PLANETS[:, 0] == pytest.approx(0.8, rel=1e-6)
    assert solution.point.b == pytest.approx(-2.92, rel=1e-6)
    assert solution.certificate.primal == pytest.approx(0.32, rel=1e-9)


def test_hard_margin_has_an_infinite_box():
    inf = np.inf
    qp = BoxQP(
        KernelGram(Linear(), PLANETS), KIND, np.where(KIND > 0, 0.0, -inf), np.where(KIND > 0, inf, 0.0), np.zeros(6),
        np.arange(6), np.zeros(6, dtype=np.int64), np.zeros(1),
    )  # fmt: skip
    solution = minimize(qp, SMO(), max_time=2.0)
    assert solution.point.w @ PLANETS[:, 0] == pytest.approx(0.8, rel=1e-6)
    assert solution.point.b == pytest.approx(-2.92, rel=1e-6)
    assert solution.certificate.dual == pytest.approx(0.32, rel=1e-6)
    assert solution.status in (Status.CONVERGED, Status.STALLED)
