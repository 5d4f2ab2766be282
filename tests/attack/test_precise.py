"""Twice the digits: sums and kernel values against 300 digits, and the fits that would be given up without them."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from exact import KernelSpace, RowSpace, arb, kernel_matrix
from posing import questions
from problems import Case
from test_rounding import check

import maxmargin
from maxmargin import Point, Problem, Status
from maxmargin.loop.certificate import certify_point
from maxmargin.numerics.doubled import DOUBLED, VANISHED, exp_twice, two_product, two_sum
from maxmargin.operators import CallableGram, Columns, KernelGram, PrecomputedGram, Rows, StoredGram
from maxmargin.operators.precise import PreciseGram, combination, linear_coefficients, products
from maxmargin.parts.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.precise import certify_precisely, precise
from maxmargin.threads import Workers

RNG = np.random.default_rng(3)
n, d = 12, 4
Z = RNG.normal(size=(n, d))
LABELS = (Z[:, 0] + RNG.normal(size=n) > 0).astype(int)
WEIGHTS = RNG.normal(size=n) * 10.0 ** RNG.uniform(-3, 3, n) * (np.arange(n) % 4 > 0)
LAYOUTS = {"dense": np.asarray, "csr": sp.csr_matrix, "float32": np.float32}
MOVED = {"near": Z, "far": Z + 1e8, "tiny": 1e-6 * Z, "scales": Z * [1e-4, 1.0, 1e3, 1e6], "lattice": np.rint(3 * Z)}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
every_place = pytest.mark.parametrize("X", MOVED.values(), ids=MOVED)


def dense(X):
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def assert_within(values, errors, exact):
    """Each value is within its error, and no error is infinite."""
    assert np.isfinite(errors).all()
    for value, error, true in zip(values, errors, exact, strict=True):
        assert not abs(arb(float(value)) - true) > arb(float(error))


def test_errors_of_sums_and_products_are_found():
    for a, b in product([1.0, -3.1, 1e-9, 7e12, 0.1], repeat=2):
        (s, e), (p, f) = two_sum(a, b), two_product(a, b)
        assert arb(s) + arb(e) == arb(a) + arb(b)
        assert arb(p) + arb(f) == arb(a) * arb(b)
        assert (s, p) == (a + b, a * b)


def test_the_exponential_function_has_twice_the_digits():
    drawn = [0.0, 1e-300, 0.34657, 0.34658, *RNG.uniform(0, 600, 500), *10.0 ** RNG.uniform(-20, 2, 500)]
    lows = [t * float(RNG.uniform(-1, 1)) * 2.0**-54 for t in drawn]
    highs, rests = np.empty(len(drawn)), np.empty(len(drawn))
    exp_twice(np.array(drawn), np.array(lows), highs, rests)
    for t, low, high, rest in zip(map(float, drawn), lows, highs.tolist(), rests.tolist(), strict=True):
        exact = (-(arb(t) + arb(low))).exp()
        assert abs(arb(high) + arb(rest) - exact) < exact * 1e-3 * DOUBLED
    for far in (VANISHED * 1.001, 1e18, 1e300, np.inf):
        exp_twice(np.full(1, far), np.zeros(1), highs, rests)
        assert (highs[0], rests[0]) == (0.0, 0.0)


@every_layout
@every_place
def test_products_and_combinations_of_rows(X, layout):
    X, w = layout(X), RNG.normal(size=d)
    space = RowSpace(dense(X))
    found = products(X, w)
    exact = [sum((arb(a) * arb(b) for a, b in zip(row, w.tolist(), strict=True)), arb(0)) for row in dense(X).tolist()]
    assert_within(found.high, found.slack, exact)
    assert (found.slack <= 2.0**-52 * np.abs(found.high) + 1e-25 * np.abs(dense(X)).max()).all()
    found, exact = combination(X, WEIGHTS), space.expansion(WEIGHTS.tolist()).w
    assert_within(found.high, found.slack, exact)
    assert_within(linear_coefficients(X, WEIGHTS[None])[0], found.slack, exact)


@every_layout
@every_place
@pytest.mark.parametrize("kernel", [Linear(2.0), RBF(0.5), Laplacian(0.3), Polynomial(3, 0.1, 1.0), Polynomial(9, 2.0)])
def test_products_of_kernel_matrices(X, kernel, layout):
    if isinstance(kernel, RBF | Laplacian):  # values that are neither all 0 nor all 1
        spread = float(np.median(np.abs(X - X[0]).sum(axis=1)))
        kernel = kernel._replace(gamma=kernel.gamma / spread ** (2 if isinstance(kernel, RBF) else 1))
    X = layout(X)
    if isinstance(kernel, Linear):
        exact = [kernel.scale * value for value in RowSpace(dense(X)).expansion(WEIGHTS.tolist()).scores]
    else:
        name = {RBF: "rbf", Laplacian: "laplacian", Polynomial: "poly"}[type(kernel)]
        K = kernel_matrix(name, dense(X), kernel.gamma, getattr(kernel, "degree", 0), getattr(kernel, "coef0", 0.0))
        exact = KernelSpace(K).expansion(WEIGHTS.tolist()).scores
    for gram in (KernelGram(kernel, X), StoredGram(KernelGram(kernel, X))):
        found = PreciseGram(gram)
        values, errors = found.apply(WEIGHTS), found.rounding(WEIGHTS)
        assert_within(values, errors, exact)
        assert (errors <= gram.rounding(WEIGHTS)).all()
        if not isinstance(kernel, Linear):  # whose coefficients users get rounded
            assert (errors <= 2.0**-52 * np.abs(values) + 1e-20 * gram.rounding(WEIGHTS).max()).all()


def test_matrices_that_users_give():
    K = 1e6 * Z @ Z.T
    K = 0.5 * (K + K.T)
    exact = [sum((arb(a) * arb(b) for a, b in zip(row, WEIGHTS.tolist(), strict=True)), arb(0)) for row in K.tolist()]
    for gram in (PrecomputedGram(K), PrecomputedGram(sp.csr_matrix(K)), CallableGram(lambda A, B: 1e6 * A @ B.T, Z)):
        found = PreciseGram(gram)
        if isinstance(gram, PrecomputedGram):
            assert_within(found.apply(WEIGHTS), found.rounding(WEIGHTS), exact)
        assert (found.rounding(WEIGHTS) <= 0.5 * gram.rounding(WEIGHTS)).all()


def test_what_takes_too_long_or_is_not_known_keeps_its_usual_certificate():
    many = np.zeros((20_000, 50))
    for gram in (KernelGram(Laplacian(1.0), many), KernelGram(Sigmoid(1.0), Z)):
        problem = Problem(gram, np.ones(gram.n_samples), Hinge(), L2(1.0), np.ones(gram.n_samples))
        assert precise(problem) is None
        assert certify_precisely(problem, Point(np.zeros(gram.n_samples), 0.0)) is None


@every_place
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_columns_have_the_certificates_of_rows(X, intercept):
    """But for the rounding of rows about their middle, which columns do without."""
    point = Point(RNG.normal(size=d), 0.3, RNG.normal(size=n))
    for layout in (np.asarray, sp.csr_matrix):
        by_rows, by_columns = (
            Problem(operator(layout(X)), 2.0 * LABELS - 1.0, Hinge(), L2(1.0), np.ones(n), intercept)
            for operator in (Rows, Columns)
        )
        one, other = (certify_precisely(problem, point) for problem in (by_rows, by_columns))
        assert abs(one.primal - other.primal) <= one.primal_error + other.primal_error
        assert abs(one.dual - other.dual) <= one.dual_error + other.dual_error
        assert one.error < 1e-9 * max(abs(one.primal), abs(one.dual))
        assert other.primal_error <= 2.0 * one.primal_error


@pytest.mark.parametrize("X", [1e300 * Z, np.where(Z > 0, 1e200, 1.0)])
def test_what_overflows_proves_nothing(X):
    problem = Problem(Rows(X), 2.0 * LABELS - 1.0, Hinge(), L2(1.0), np.ones(n))
    certificate = certify_point(problem, Point(np.full(d, 1e-150), 0.0), tol=1e-300)
    assert not certificate.relative_gap <= 1.0


# Fits whose usual bound is above their tolerance: they were given up as if nothing better could be had.
BLURRED = {
    "squared hinge": ("LinearSVC", {"C": 1e8}, "scales"),
    "hinge": ("LinearSVC", {"C": 1e6, "loss": "hinge", "intercept": "free", "tol": 1e-8}, "scales"),
    "far hinge": ("LinearSVC", {"C": 1e3, "loss": "hinge", "intercept": "free", "tol": 1e-7}, "1e3 away"),
    "logistic": ("LogisticRegression", {"C": 1e6}, "scales"),
    "rows": ("SVC", {"kernel": "linear", "C": 1e6, "tol": 1e-8}, "scales"),
    "linear": ("SVC", {"kernel": "linear", "solver": "smo", "C": 10.0, "tol": 1e-7}, "1e3 away"),
    "rbf": ("SVC", {"C": 1e6, "gamma": 0.01}, "near"),
    "laplacian": ("SVC", {"C": 1e6, "kernel": "laplacian", "gamma": 1e-4}, "near"),
    "poly": ("SVC", {"C": 1e4, "kernel": "poly", "coef0": 1.0, "gamma": 0.5}, "near"),
    "tube": ("SVR", {"C": 1e6, "gamma": 0.01}, "near"),
    "nu": ("NuSVC", {"nu": 0.4, "tol": 1e-12, "gamma": 0.1}, "near"),
    "region": ("OneClassSVM", {"nu": 0.4, "tol": 1e-13, "gamma": 0.1}, "near"),
}


@pytest.mark.parametrize("name", BLURRED)
def test_fits_end_as_converged_where_only_a_loose_bound_forbade_it(name):
    estimator, params, place = BLURRED[name]
    X = Z + 1e3 if place == "1e3 away" else MOVED[place]
    y = None if estimator == "OneClassSVM" else Z[:, 0] + 0.1 * LABELS if estimator == "SVR" else LABELS
    model = getattr(maxmargin, estimator)(**{"tol": 1e-9, "max_time": 30, **params}).fit(X, y)
    assert model.status_ is Status.CONVERGED, model.solution_
    (question,) = questions(Case(estimator, params, X, y), model)
    check(model.solution_.certificate, question.problem)
    verdict = maxmargin.certify(model, X, y)
    assert verdict.relative_gap <= max(model.tol, 1e-11)  # one-class models lower their offset by a 1e-12th
    check(verdict.worst, question.problem)


@pytest.mark.parametrize("kernel", [RBF(0.4), Laplacian(0.3), Polynomial(3, 0.5, 1.0)], ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("n", [1, 40, 300])
def test_a_value_of_two_support_vectors_serves_both(kernel, n, monkeypatch):
    """And samples whose loss is zero for certain keep the usual sums, with the usual bound."""
    rng = np.random.default_rng(n)
    X, w = rng.normal(size=(n, 6)), rng.normal(size=n) * (rng.random(n) < 0.6)
    gram = KernelGram(kernel, X)
    whole, part = PreciseGram(gram), PreciseGram(gram)
    z, errors = whole.apply(w), whole.rounding(w)
    assert (np.abs(z - gram.apply(w)) <= errors + gram.rounding(w)).all()
    sums = [math.fsum(row) for row in (w * gram.block(np.arange(n))).tolist()]
    np.testing.assert_allclose(z, sums, rtol=1e-9, atol=1e-9)
    asked = []

    def matters(samples, scores, bound):
        asked.extend(samples.tolist())
        return samples % 2 == 0

    some = part.apply_where(w, matters)
    np.testing.assert_array_equal(np.sort(asked), np.flatnonzero(w == 0.0))
    precise = (w != 0.0) | (np.arange(n) % 2 == 0)
    np.testing.assert_array_equal(some[precise], z[precise])
    assert (np.abs(some - z) <= part.rounding(w) + errors).all()
    np.testing.assert_array_equal(part.rounding(w)[~precise], gram.rounding(w)[~precise])
    np.testing.assert_array_equal(part.apply(w), z)  # whoever wants all of them gets them
    monkeypatch.setattr("maxmargin.operators.precise.SHARED_STEPS", 0.0)
    for threads in (1, 3):
        assert PreciseGram(KernelGram(kernel, X, Workers(threads))).apply(w).tobytes() == z.tobytes()
