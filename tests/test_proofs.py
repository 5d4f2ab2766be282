"""Certificates that hold in exact arithmetic: their errors, what they claim, and that `certify` says the same."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier

import clients
from maxmargin import (
    SVC,
    SVR,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Point,
    Problem,
    Record,
    SGDClassifier,
    SGDRegressor,
    Status,
    certify,
    minimize,
)
from maxmargin.loop.certificate import complete
from maxmargin.loop.minimize import best_parts
from maxmargin.numerics.rounding import growth
from maxmargin.operators import PrecomputedGram, Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic, Squared, SquaredEpsilonInsensitive
from maxmargin.parts.penalties import L2
from maxmargin.problems.point import Certificate, estimated_gap
from maxmargin.solvers import DualCoordinate

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(80, 3))
CLASSES = (Z[:, 0] + 0.5 * RNG.normal(size=80) > 0).astype(int)
TARGETS = Z[:, 0] + 0.3 * RNG.normal(size=80)
THREE = np.digitize(Z[:, 0], [-0.4, 0.4])


# ---- what a certificate says -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e100, 1e100), max_size=60))
def test_no_order_of_a_sum_is_worse_than_its_bound(terms):
    exact, sizes = sum(map(Fraction, terms), Fraction(0)), sum(abs(Fraction(t)) for t in terms)
    for order in (terms, sorted(terms), sorted(terms, key=abs, reverse=True)):
        total = 0.0
        for term in order:
            total += term
        assert abs(Fraction(total) - exact) <= Fraction(growth(len(terms))) * sizes


def test_the_error_counts_as_gap():
    assert Certificate(2.0, 1.0, 0.25, 0.25).relative_gap == 0.75
    assert Certificate(1.0, 1.0, 1e-13, 1e-13).relative_gap == pytest.approx(2e-13)
    assert Certificate(0.0, 0.0).relative_gap == 0.0
    assert Certificate(0.0, 0.0, 1e-30).relative_gap == math.inf  # nothing is known of the sign even
    assert Certificate(1.0, 1.5, 0.3, 0.3).relative_gap == pytest.approx(0.1 / 1.5)
    assert Certificate(1.0, 1.5, 0.1, 0.1).relative_gap == math.inf  # a contradiction proves nothing
    assert Certificate(1.0, 1.0 + 1e-10, 1e-12, 1e-12).relative_gap == math.inf  # however small it is
    assert Certificate(1.0, 1.0 + 1e-10).relative_gap == math.inf  # or if no error is known
    assert Certificate(0.0, 1e-300).relative_gap == math.inf


def test_a_solver_may_contradict_itself_a_little_but_proves_nothing_by_that():
    assert estimated_gap(2.0, 1.0) == 0.5
    assert estimated_gap(1.0, 1.0 + 1e-10) == 0.0
    assert estimated_gap(1.0, 1.0 + 1e-8) == math.inf
    assert estimated_gap(0.0, 1e-10, least=1.0) == 0.0
    assert estimated_gap(math.inf, -math.inf) == math.inf
    record = Record(0.0, 1, 1.0, 1.0 + 1e-10, certified=False)
    assert (record.relative_gap, replace(record, certified=True).relative_gap) == (0.0, math.inf)


def test_a_gap_beside_an_optimum_of_zero_is_measured_by_the_least_value():
    assert Certificate(1e-30, 0.0, 1e-30, least=1e-9).relative_gap == pytest.approx(2e-21)
    assert Certificate(1e-30, -1e-12, 1e-30, 1e-12, least=1e-9).relative_gap == pytest.approx(2e-3)
    assert Certificate(2.0, 1.0, least=1e-9).relative_gap == 0.5  # no other gap looks smaller
    assert Certificate(0.0, 1e-12, 1e-13, least=1e-9).relative_gap == math.inf  # and a contradiction still is one


EXACT_FITS = {
    "constant targets": (np.ones((20, 1)), np.full(20, 3.0), "free"),
    "targets of zero": (np.ones((20, 1)), np.zeros(20), None),
    "a line through all points": (np.arange(20.0)[:, None], 2.0 * np.arange(20.0) + 5.0, "free"),
}


@pytest.mark.parametrize(("X", "y", "intercept"), EXACT_FITS.values(), ids=EXACT_FITS)
def test_an_exact_fit_has_converged(X, y, intercept):
    problem = Problem(Rows(X), y, Squared(), L2(1e-20), np.ones(20), intercept)
    b = float(y[0]) if intercept else 0.0
    exact = Point(np.array([2.0]), 5.0) if y[0] != y[-1] else Point(np.zeros(1), b)
    point, certificate = complete(problem, exact)
    assert certificate.relative_gap <= 1e-12
    assert certificate.least == pytest.approx(0.5e-9 * (y @ y))
    assert certificate.relative_gap == problem.certify(point).relative_gap
    assert certificate.dual - certificate.dual_error <= 1e-17 <= certificate.primal + certificate.primal_error + 1e-17
    rough = complete(problem, Point(exact.w, exact.b + 1e-3))[1]
    assert rough.relative_gap > 1e-6 or not y.any()


ZERO_OPTIMA = {
    "nu tube": NuSVR(),
    "linear nu tube": NuSVR(kernel="linear", nu=0.37),
    "tube without width": SVR(epsilon=0.0),
    "squared tube without width": SVR(epsilon=0.0, loss="squared_epsilon_insensitive"),
    "linear tube": LinearSVR(intercept="free"),
    "squared linear tube": LinearSVR(intercept="free", loss="squared_epsilon_insensitive"),
    "tube that just holds zero": LinearSVR(epsilon=0.1),
}


@pytest.mark.parametrize("value", [0.1, 3.0, 1e8, -1.0 / 3.0])
@pytest.mark.parametrize("name", ZERO_OPTIMA)
def test_constant_targets_are_met_exactly(name, value):
    """The optimum is 0, and no rounding is in the way of knowing it."""
    if name == "tube that just holds zero" and value != 0.1:
        pytest.skip("it would need an intercept without a penalty")
    y = np.full(80, value)
    model = clone(ZERO_OPTIMA[name]).fit(Z, y)
    assert model.status_ is Status.CONVERGED
    assert (model.objective_, model.dual_objective_, model.solution_.certificate.error) == (0.0, 0.0, 0.0)
    assert certify(model, Z, y).relative_gap == 0.0
    np.testing.assert_array_equal(model.predict(Z), y if name != "tube that just holds zero" else 0.0)


def test_a_nu_tube_does_not_feel_where_its_targets_are():
    """Targets are measured from their middle, so that no sum of theirs is large."""
    near, far = (NuSVR(tol=1e-7).fit(Z, np.round(TARGETS, 3) + offset) for offset in (0.0, 2.0**20))
    assert far.status_ is Status.CONVERGED
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-6)
    assert far.solution_.certificate.error < 1e-7 * near.objective_
    assert certify(far, Z, np.round(TARGETS, 3) + 2.0**20).relative_gap <= 1e-6


def test_weights_whose_products_cannot_be_held_are_refused():
    with pytest.raises(ValueError, match=r"weight 1\.0e-200 in SVC: the product of C, sample_weight"):
        SVC(C=1e-200).fit(Z, CLASSES)
    with pytest.raises(ValueError, match=r"weight 1\.0e\+300"):
        LinearSVC(C=1e300).fit(Z, CLASSES)
    with pytest.raises(ValueError, match="squares of such numbers underflow"):
        LinearSVR().fit(Z, 1e-200 * TARGETS)
    some = np.where(np.arange(80) < 10, 0.0, 1.0)  # zero is none
    assert SVC().fit(Z, CLASSES, some).status_ is Status.CONVERGED


def test_a_start_that_is_no_number_is_replaced():
    class Broken(DualCoordinate):
        def point(self, problem, state):
            return Point(np.full(3, np.nan), 0.0, state.alpha)

    problem = Problem(Rows(Z), np.where(CLASSES > 0, 1.0, -1.0), Hinge(), L2(1.0), np.ones(80))
    solution = minimize(problem, Broken(), max_iter=3)
    assert (solution.point.w == 0.0).all()
    assert solution.certificate.primal == 80.0


def test_whole_numbers_are_parameters_as_any_others():
    one, same = (SVC(C=C, gamma=gamma).fit(Z, CLASSES) for C, gamma in ((10, 1), (10.0, 1.0)))
    np.testing.assert_array_equal(one.dual_coef_, same.dual_coef_)
    assert one.solution_.certificate == same.solution_.certificate


def test_only_squared_losses_have_a_least_value():
    s = np.full(20, 1e-200)
    for loss in (Hinge(), Logistic(), EpsilonInsensitive(), SquaredEpsilonInsensitive()):
        problem = Problem(Rows(np.ones((20, 1))), np.ones(20), loss, L2(1.0), s)
        assert problem.certify(Point(np.zeros(1), 0.0)).least == 0.0
    whole = Problem(Rows(np.ones((20, 1))), np.arange(20.0), Squared(2.0), L2(1.0), np.full(20, 0.5))
    zero, expected = Point(np.zeros(1), 0.0), 0.5e-9 * (whole.y @ whole.y)
    of_clients = clients.run(whole, 3, lambda problem, mine: problem.certify(zero).least)
    assert [whole.certify(zero).least, *of_clients] == [pytest.approx(expected)] * 4


def test_values_keep_their_errors_when_the_better_halves_of_two_points_are_joined():
    early = Point(np.zeros(1), 0.0, np.zeros(1)), Certificate(5.0, 3.0, 0.5, 0.1)
    late = Point(np.ones(1), 1.0, np.ones(1)), Certificate(5.2, 3.2, 0.1, 0.9)
    point, certificate = best_parts(early, late)
    assert (point.b, point.alpha[0]) == (1.0, 0.0)  # 5.3 is surely reached, and 2.9 surely a bound
    assert certificate == Certificate(5.2, 3.0, 0.1, 0.1)


def test_a_gap_below_its_error_ends_the_fit():
    problem = Problem(Rows(Z), np.where(CLASSES > 0, 1.0, -1.0), Hinge(), L2(1.0), np.ones(80))
    solution = minimize(problem, DualCoordinate(), tol=1e-300)
    assert solution.status is Status.STALLED
    assert solution.certificate.gap <= solution.certificate.error <= 1e-10 * solution.certificate.primal


# ---- the examples of those who tried to break it ---------------------------------------------------------------------


def interval(certificate):
    return certificate.dual - certificate.error, certificate.primal + certificate.error


def assert_no_lie(certificate, optimum, slack):
    low, high = interval(certificate)
    assert low <= optimum + slack
    assert high >= optimum - slack


@pytest.mark.parametrize("offset", [10.0, 1e3, 1e5, 1e8, 1e9])
@pytest.mark.parametrize("solver", ["decomposition", "smo", "newton"])
def test_offsets_are_no_lies(offset, solver):
    """A free intercept makes the problem that of the rows without the offset, but for their rounding."""
    optimum = SVC(kernel="linear", tol=1e-9).fit((Z + offset) - offset, CLASSES).objective_
    model = SVC(kernel="linear", solver=solver, max_time=2).fit(Z + offset, CLASSES)
    assert_no_lie(model.solution_.certificate, optimum, 1e-8 * optimum)


def test_a_dual_value_is_never_above_that_of_zero():
    model = SVC(kernel="poly", degree=9, max_time=2).fit(Z + 10, CLASSES)
    zero = 2.0 * min(CLASSES.sum(), 80 - CLASSES.sum())
    low, _ = interval(model.solution_.certificate)
    assert low <= zero


@pytest.mark.parametrize(("estimator", "y"), [(NuSVC(nu=0.3), CLASSES), (NuSVR(nu=0.3), TARGETS)])
def test_linear_nu_machines_far_from_the_origin(estimator, y):
    near = estimator.__class__(nu=0.3, kernel="linear", tol=1e-9).fit((Z + 1e5) - 1e5, y).objective_
    far = estimator.__class__(nu=0.3, kernel="linear", tol=1e-9, max_time=2).fit(Z + 1e5, y)
    assert_no_lie(far.solution_.certificate, near, 1e-7 * abs(near))


def test_hulls_that_are_apart_are_not_said_to_meet():
    X, y = 1e8 + np.arange(4.0)[:, None], [0, 0, 1, 1]
    for solver in ("auto", "decomposition", "saddle", "gilbert", "frank_wolfe"):
        model = SVC(kernel="linear", C=math.inf, solver=solver, max_time=2).fit(X, y)
        assert model.status_ is not Status.NOT_SEPARABLE
    rows = np.random.default_rng(1).normal(size=(8, 2))
    for gamma in (1.0, 1e-3, 1e-6, 1e-9):  # distinct points are independent of each other under this kernel
        for X in (rows, csr_matrix(rows)):
            model = SVC(C=math.inf, gamma=gamma, max_time=2).fit(X, np.arange(8) % 2)
            assert model.status_ is not Status.NOT_SEPARABLE


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix])
def test_hulls_with_a_common_sample_meet(kernel, storage):
    X, y = np.vstack([Z, Z[:3]]), np.append(CLASSES, 1 - CLASSES[:3])
    model = SVC(kernel=kernel, C=math.inf).fit(storage(X), y)
    assert model.status_ is Status.NOT_SEPARABLE


def test_a_kernel_that_is_not_positive_proves_no_common_point():
    """Its values are 1 and -1 but for what float64 cannot hold, and with that functions separate the classes."""
    X = np.array([[-0.5], [0.3], [1.0]])
    assert SVC(kernel="sigmoid", gamma=1e3, C=np.inf).fit(X, [0, 0, 1]).status_ is not Status.NOT_SEPARABLE
    same = np.array([[-0.5], [0.3], [0.3]])
    assert SVC(kernel="sigmoid", gamma=1e3, C=np.inf).fit(same, [0, 0, 1]).status_ is Status.NOT_SEPARABLE


def test_weights_of_very_different_sizes():
    weights = 10.0 ** np.linspace(-15, 11, 80)
    for intercept in ("free", "penalised", None):
        model = LogisticRegression(intercept=intercept, max_time=2).fit(Z, CLASSES, sample_weight=weights)
        low, high = interval(model.solution_.certificate)
        assert low <= high


def test_a_small_logistic_variable_keeps_its_digits_at_a_large_weight():
    model = SGDClassifier(loss="log_loss", class_weight={0: 0.01, 1: 1e6}, solver="cutting_plane", tol=1e-9, max_time=2)
    X, y = np.zeros((2, 1)), np.array([0, 1])  # only the intercept counts, which is free
    certificate = model.fit(X, y).solution_.certificate
    share = 0.01 / 1000000.01
    optimum = -0.01 * math.log(share) - 1e6 * math.log1p(-share)
    low, high = interval(certificate)
    assert low <= optimum * (1.0 + 1e-14)
    assert high >= optimum * (1.0 - 1e-14)


def test_bounds_hold_for_matrices_that_are_not_positive():
    K = np.array([[0.0, 3.0, -1e6], [3.0, 0.0, 2.0], [-1e6, 2.0, 0.0]])
    gram, w = PrecomputedGram(K), np.array([1.0, -2.0, 1.0 / 3.0])
    exact = [sum(Fraction(k) * Fraction(v) for k, v in zip(row, w, strict=True)) for row in K]
    for found, true, bound in zip(gram.apply(w), exact, gram.rounding(w), strict=True):
        assert abs(Fraction(float(found)) - true) <= Fraction(float(bound))
        assert bound <= 1e-8


# ---- certify says the same -------------------------------------------------------------------------------------------

SAME = [
    *(SVC(kernel=kernel) for kernel in ("linear", "rbf", "poly", "laplacian")),
    SVC(loss="squared_hinge"),
    SVC(intercept=None),
    SVC(intercept="penalised"),
    SVC(kernel="linear", intercept="penalised", loss="squared_hinge"),
    SVC(multi_class="ovr"),
    *(NuSVC(nu=0.2, kernel=kernel) for kernel in ("linear", "rbf")),
    *(LinearSVC(loss=loss) for loss in ("hinge", "squared_hinge")),
    LinearSVC(penalty="l1"),
    LinearSVC(intercept="free", multi_class="ovo"),
    LogisticRegression(),
    LogisticRegression(l1_ratio=1.0, multi_class="ovr"),
    SGDClassifier(tol=1e-3),
    *(SVR(kernel=kernel) for kernel in ("linear", "rbf")),
    SVR(loss="squared_epsilon_insensitive"),
    *(NuSVR(nu=0.3, kernel=kernel) for kernel in ("linear", "rbf")),
    LinearSVR(),
    LinearSVR(loss="squared_epsilon_insensitive"),
    SGDRegressor(tol=1e-3),
    *(OneClassSVM(nu=0.3, kernel=kernel) for kernel in ("linear", "rbf")),
]


@pytest.mark.parametrize("model", SAME, ids=str)
@pytest.mark.parametrize("storage", [np.asarray, csr_matrix])
def test_certify_gives_the_three_numbers_of_the_fit(model, storage):
    X = storage(Z)
    for y in (CLASSES, THREE) if is_classifier(model) else (TARGETS,):
        model.fit(X, y)
        verdict = certify(model, X, y)
        assert len(verdict.certificates) == len(model.solutions_)
        for judged, solution in zip(verdict.certificates, model.solutions_, strict=True):
            claimed = solution.certificate
            slack = judged.error + claimed.error
            assert judged.primal == pytest.approx(claimed.primal, rel=1e-9, abs=slack)
            assert judged.dual == pytest.approx(claimed.dual, rel=1e-9, abs=slack)
            if abs(claimed.primal) > claimed.error:  # otherwise zero is as good, and has no error
                assert judged.error <= 10.0 * claimed.error + 1e-14 * abs(claimed.primal)
                # One call for small fits bounds the products of pairs of rows, not those with the coefficients.
                looser = 1000.0 if getattr(model, "kernel", "") == "linear" else 10.0
                assert claimed.error <= looser * judged.error + 1e-14 * abs(claimed.primal)
