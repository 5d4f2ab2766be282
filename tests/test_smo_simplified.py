"""Textbook SMO: the published runs of its course, the formulas of the lecture, and what its stopping rule is worth."""

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

import referee
import zoo
from maxmargin import SVC, BoxQP, Problem, Status, minimize
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.kernels import RBF, Linear, Polynomial
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import SMO, make_solver
from maxmargin.solvers.kernels import smo_simplified as textbook
from maxmargin.solvers.kernels.smo_simplified import SimplifiedSMO
from zoo import kernel_matrix

STEP_TOL = SimplifiedSMO.step_tol


def machine(X, t, kernel, C=1.0, lam=1.0, intercept="free", loss=None):
    return Problem(KernelGram(kernel, X), t, loss or Hinge(), L2(lam), np.broadcast_to(C, t.shape) * 1.0, intercept)


# ---- the published runs ----------------------------------------------------------------------------------------------


def course_data():
    X, y = make_classification(n_samples=200, n_features=2, n_informative=2, n_redundant=0, random_state=42)
    return train_test_split(X, 2.0 * y - 1.0, test_size=0.5, random_state=42)


def course_run(kernel, C, limit):
    X, _, t, _ = course_data()
    return minimize(machine(X, t, kernel, C), SimplifiedSMO(seed=42), tol=0.0, max_iter=limit)


# Kernel, C, limit on iterations; iterations, support vectors, accuracy on the training and the test data in percent.
PUBLISHED = [
    (Polynomial(1, 1.0, 1.0), 1.0, 1000, 140, 41, 88.0, 83.0),
    (Polynomial(1, 1.0, 1.0), 1.0, 20, 20, 48, 84.0, 86.0),
    (Polynomial(3, 1.0, 1.0), 1.0, 1000, 1000, 39, 91.0, 86.0),
    (Polynomial(3, 1.0, 1.0), 1.0, 20, 20, 70, 85.0, 84.0),
    (Polynomial(3, 1.0, 1.0), 5.0, 20, 20, 78, 87.0, 86.0),
    (Polynomial(4, 0.6, 1.0), 1.0, 20, 20, 55, 84.0, 86.0),
    (RBF(1.0), 1.0, 1000, 483, 53, 92.0, 84.0),
    (RBF(1.0), 1.0, 20, 20, 67, 92.0, 84.0),
    (RBF(0.1), 1.0, 1000, 87, 51, 88.0, 85.0),
]


@pytest.mark.parametrize(("kernel", "C", "limit", "iterations", "vectors", "train", "test"), PUBLISHED)
def test_published_run(kernel, C, limit, iterations, vectors, train, test):
    """The lecture reports the last point, not the one with the smallest gap."""
    solution = course_run(kernel, C, limit)
    last = solution.last
    X, X_test, t, t_test = course_data()
    accuracy = [
        100.0 * np.mean(np.sign(kernel_matrix(kernel, Z, X) @ last.w + last.b) == target)
        for Z, target in ((X, t), (X_test, t_test))
    ]
    assert solution.iterations == iterations
    assert np.count_nonzero(np.abs(last.alpha) > STEP_TOL) == vectors
    assert accuracy == [train, test]
    assert solution.status is (Status.MAX_ITER if iterations == limit else Status.STALLED)


@pytest.mark.parametrize(
    ("parameters", "accuracy"),
    [
        ({"kernel": "poly", "degree": 2, "gamma": 1.0}, 98.06),
        ({"kernel": "poly", "degree": 3, "gamma": 1.0}, 98.20),
        ({"kernel": "poly", "degree": 3, "gamma": 0.02}, 96.95),
        ({"kernel": "rbf", "gamma": 1.0}, 92.23),
        ({"kernel": "rbf", "gamma": 0.05, "C": 3.0}, 98.20),
    ],
)
def test_published_accuracy_on_digits(parameters, accuracy):
    """Five classes, one against one. All samples are scaled before the split, as in the course."""
    X, y = load_digits(n_class=5, return_X_y=True)
    X, X_test, y, y_test = train_test_split(MinMaxScaler().fit_transform(X), y, test_size=0.8, random_state=42)
    model = SVC(solver="smo_simplified", coef0=1.0, tol=1e-12, max_iter=20, random_state=42, **parameters)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert round(100.0 * model.score(X_test, y_test), 2) == accuracy
    assert all(solution.point is solution.last for solution in model.solutions_)  # so this is the lecture's point


def test_partners_are_those_of_the_course():
    """However the passes are divided into rounds, each draws its partners with one call of the seeded generator."""
    X, _, t, _ = course_data()
    problem, solver = machine(X, t, RBF(1.0)), SimplifiedSMO(seed=42)
    state = solver.start(problem, None)
    for limit in (7, 1, 12):
        state = solver.advance(problem, state, limit)
    generator, a, b = np.random.RandomState(42), np.zeros(t.size), 0.0
    for _ in range(20):
        partners = generator.randint(t.size - 1, size=t.size)
        b, _ = textbook._one_pass(state.K, t, state.C, a, b, partners, STEP_TOL)
    assert state.iterations == 20
    assert (state.a.tobytes(), state.b) == (a.tobytes(), b)


# ---- passes without changes prove nothing; the certificate does ------------------------------------------------------


def test_passes_without_changes_are_not_optimality():
    """The published run with the polynomial of degree 1 is "done" half a percent above the optimum."""
    X, _, t, _ = course_data()
    solution = course_run(Polynomial(1, 1.0, 1.0), 1.0, 1000)
    optimum = minimize(machine(X, t, Polynomial(1, 1.0, 1.0)), SMO(), tol=1e-9).certificate.primal
    assert solution.status is Status.STALLED
    assert solution.certificate.relative_gap > 5e-3
    assert solution.certificate.primal > optimum * 1.002
    assert solution.certificate.dual <= optimum


def test_exhausted_after_the_given_number_of_passes_without_changes():
    X, t = np.ones((6, 2)), np.array([1.0, 1.0, -1.0, -1.0, -1.0, -1.0])  # equal points: no pair has a maximum
    for max_passes in (1, 3, 250):
        solution = minimize(machine(X, t, Linear()), SimplifiedSMO(max_passes=max_passes))
        assert (solution.status, solution.iterations) == (Status.STALLED, max_passes)
        assert solution.certificate.relative_gap == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("limit", [1, 20, 1000])
def test_every_certificate_is_the_referees(limit):
    supported = [case for case in zoo.cases() if case.convex and SimplifiedSMO().supports(case.build()) is None]
    assert len(supported) > 30
    for case in supported:
        solution = minimize(case.build(), SimplifiedSMO(), max_iter=limit)
        description, point, certificate = case.describe(), solution.point, solution.certificate
        alpha = referee.repaired(description, point.alpha)
        verdict = referee.judge(description, point.w, point.b, alpha)
        slack = referee.rounding(description, point.w, point.b, alpha) + 1e-10 * abs(verdict.primal)
        assert certificate.primal == pytest.approx(verdict.primal, rel=0, abs=slack), case
        assert certificate.dual == pytest.approx(verdict.dual, rel=0, abs=slack), case
        assert (solution.status is Status.CONVERGED) == (certificate.relative_gap <= solution.tol), case


def test_the_solvers_own_estimate_is_that_of_the_certificate():
    X, t = zoo.blobs(30, 3, seed=28)
    problem, solver = machine(X, t, RBF(0.5), C=np.linspace(0.1, 3.0, 30), lam=0.3), SimplifiedSMO()
    state = solver.advance(problem, solver.start(problem, None), 5)
    certificate = problem.certify(solver.point(problem, state))
    assert state.estimate == pytest.approx((certificate.primal, certificate.dual), rel=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear(), Polynomial(2, 0.5, 1.0)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_converged_run_agrees_with_libsvm(kernel, weighted):
    X, t = zoo.blobs(60, 3, seed=20, apart=0.7)
    C, lam = (np.random.default_rng(21).uniform(0.2, 2.0, size=60), 0.4) if weighted else (np.ones(60), 1.0)
    problem = machine(X, t, kernel, C, lam)
    solution = minimize(problem, SimplifiedSMO(max_passes=500), tol=1e-5, max_time=60.0)
    assert solution.status is Status.CONVERGED, solution.message
    K = kernel_matrix(kernel, X, X) / lam
    peer = sklearn.svm.SVC(kernel="precomputed", C=1.0, tol=1e-6).fit(K, t, sample_weight=C)
    beta = np.zeros(60)
    beta[peer.support_] = peer.dual_coef_[0]
    losses = np.maximum(0.0, 1.0 - t * (K @ beta + peer.intercept_[0]))
    assert solution.certificate.primal == pytest.approx(C @ losses + 0.5 * beta @ K @ beta, rel=1e-3)
    assert solution.point.b == pytest.approx(peer.intercept_[0], abs=1e-2)


def test_warm_start_continues_from_the_variables_and_the_intercept():
    X, t = zoo.blobs(40, 2, seed=22)
    problem, solver = machine(X, t, RBF(0.5), 2.0, lam=0.5), SimplifiedSMO()
    part = minimize(problem, solver, tol=0.0, max_iter=5)
    state = solver.start(problem, part.last)
    np.testing.assert_allclose(state.a, part.last.alpha * t, rtol=0, atol=1e-14)
    assert state.b == part.last.b
    whole = minimize(problem, solver, tol=1e-6, warm=part)
    assert whole.status is Status.CONVERGED
    assert minimize(problem, solver, tol=1e-6, warm=whole).iterations == 0


# ---- the formulas of the lecture -------------------------------------------------------------------------------------


def random_pairs(count=300):
    """Feasible states of a small problem, some variables at their bounds, each with a pair ``i, j``."""
    rng = np.random.default_rng(23)
    X, t = zoo.blobs(8, 2, seed=24, apart=0.3)
    K = kernel_matrix(RBF(0.5), X, X)
    for k in range(count):
        C = np.ones(8) if k % 2 else rng.uniform(0.5, 2.0, size=8)
        share = rng.choice([0.0, 1.0, rng.uniform()], size=8) * C
        plus, minus = share @ (t > 0.0), share @ (t < 0.0)
        a = share * np.where(t > 0.0, min(1.0, minus / max(plus, 1e-9)), min(1.0, plus / max(minus, 1e-9)))
        i, j = rng.choice(8, size=2, replace=False)
        yield K, t, C, a, rng.normal(), i, j


def dual(a, t, K):
    return a.sum() - 0.5 * (a * t) @ K @ (a * t)


def errors(a, b, t, K):
    return K @ (a * t) + b - t


def update(K, t, C, a, b, i, j):
    """The state after trying the pair."""
    new = a.copy()
    E = errors(a, b, t, K)
    new_b, changed = textbook._update_pair(i, j, E[i], K, t, C, new, b, STEP_TOL)
    return new, new_b, changed


def test_error_is_score_minus_target():
    for K, t, _, a, b, i, _ in random_pairs(20):
        assert textbook._error(i, K, t, a, b) == pytest.approx(errors(a, b, t, K)[i], abs=1e-12)


def test_derivatives_are_those_of_the_dual_along_the_pair():
    for K, t, _, a, b, i, j in random_pairs(50):
        E = errors(a, b, t, K)
        slope, curvature = textbook._derivatives(i, j, E[i], E[j], K, t)
        direction = np.zeros(t.size)
        direction[j], direction[i] = 1.0, -t[i] * t[j]
        h = 1e-4
        below, here, above = (dual(a + step * direction, t, K) for step in (-h, 0.0, h))
        assert slope == pytest.approx((above - below) / (2 * h), abs=1e-8)
        assert curvature == pytest.approx((above - 2 * here + below) / h**2, abs=1e-5)


def test_clip_interval_holds_what_keeps_both_in_their_boxes():
    rng = np.random.default_rng(25)
    grid = np.linspace(-0.1, 2.1, 2201)
    for _ in range(200):
        C_i, C_j = rng.uniform(0.5, 2.0, size=2)
        a_i, a_j = rng.choice([0.0, 1.0, rng.uniform()]) * C_i, rng.choice([0.0, 1.0, rng.uniform()]) * C_j
        for same in (True, False):
            partner = a_i - (1.0 if same else -1.0) * (grid - a_j)
            allowed = grid[(grid >= 0.0) & (grid <= C_j) & (partner >= -1e-9) & (partner <= C_i + 1e-9)]
            L, H = textbook._clip_interval(a_i, a_j, C_i, C_j, same)
            assert a_j >= L - 1e-15
            assert a_j <= H + 1e-15
            if allowed.size:
                assert allowed.min() == pytest.approx(L, abs=1.1e-3)
                assert allowed.max() == pytest.approx(H, abs=1.1e-3)
            else:  # narrower than the grid
                assert H - L < 1e-3


def test_a_step_is_the_maximum_over_the_pair():
    changes = 0
    for K, t, C, a, b, i, j in random_pairs():
        new, _, changed = update(K, t, C, a, b, i, j)
        L, H = textbook._clip_interval(a[i], a[j], C[i], C[j], t[i] == t[j])
        changes += changed
        candidates = []
        for a_j in np.linspace(L, H, 201):
            other = a.copy()
            other[j], other[i] = a_j, a[i] - t[i] * t[j] * (a_j - a[j])
            candidates.append(dual(other, t, K))
        assert dual(new, t, K) >= max(candidates) - (1e-13 if changed else 10.0 * STEP_TOL)
        assert dual(new, t, K) >= dual(a, t, K) - 1e-14
        assert (new >= -1e-15).all()
        assert (new <= C + 1e-15).all()
        assert new @ t == pytest.approx(a @ t, abs=1e-14)
        assert changed == (new.tobytes() != a.tobytes())
    assert changes > 100


def test_bias_fulfils_the_kkt_conditions_of_the_pair():
    """Free variables have ``t y = 1``; with both at a bound, ``a = 0`` has ``t y >= 1`` and ``a = C`` has ``t y <= 1``.

    With both free, or both at a bound, one ``b`` serves both, because the pair is at its maximum.
    """
    free_pairs = bound_pairs = 0
    for K, t, C, a, b, i, j in random_pairs():
        new, new_b, changed = update(K, t, C, a, b, i, j)
        if not changed:
            assert new_b == b
            continue
        margins = 1.0 + t * errors(new, new_b, t, K)
        free = [k for k in (i, j) if STEP_TOL < new[k] < C[k] - STEP_TOL]
        for k in free:
            assert margins[k] == pytest.approx(1.0, abs=1e-12)
        if not free:
            bound_pairs += 1
            for k in (i, j):
                assert margins[k] >= 1.0 - 1e-9 if new[k] <= STEP_TOL else margins[k] <= 1.0 + 1e-9
        free_pairs += len(free) == 2
    assert free_pairs > 10
    assert bound_pairs > 10


def test_an_empty_interval_leaves_the_bias_alone():
    """With ``L == H`` the average of ``b_i`` and ``b_j`` would fulfil no KKT condition: the step must be refused."""
    K, t, C = np.eye(2), np.array([1.0, 1.0]), np.ones(2)
    for a in (np.zeros(2), np.ones(2)):
        assert textbook._clip_interval(a[0], a[1], 1.0, 1.0, True) == (a[1], a[1])
        assert update(K, t, C, a, 0.3, 0, 1)[1:] == (0.3, False)


def test_equal_points_are_not_moved():
    K, t, C = np.ones((2, 2)), np.array([1.0, -1.0]), np.ones(2)
    assert update(K, t, C, np.zeros(2), 0.0, 0, 1)[1:] == (0.0, False)


def test_no_pass_lowers_the_dual_or_breaks_the_constraint():
    X, _, t, _ = course_data()
    problem, solver = machine(X, t, Polynomial(3, 1.0, 1.0), 5.0), SimplifiedSMO(seed=42)
    state = solver.start(problem, None)
    for _ in range(100):
        before = state.dual
        state = solver.advance(problem, state, 1)
        assert state.dual >= before - 1e-12
        assert abs(state.a @ t) <= 1e-12


def test_only_violators_are_visited():
    """At the optimum of another solver nothing violates the KKT conditions by more than a loose tolerance."""
    X, t = zoo.blobs(40, 2, seed=26)
    problem = machine(X, t, RBF(0.5))
    optimum = minimize(problem, SMO(), tol=1e-12)
    solver = SimplifiedSMO(step_tol=1e-4)
    state = solver.advance(problem, solver.start(problem, optimum.point), 10)
    assert (state.steps, state.iterations, state.exhausted) == (0, 10, True)


# ---- refusals --------------------------------------------------------------------------------------------------------


def refused():
    X, t = zoo.blobs(6, 2, seed=27)
    kernel = RBF(1.0)
    yield Problem(Rows(X), t, Hinge(), L2(1.0), np.ones(6)), "kernel matrix"
    yield BoxQP.of(machine(X, t, kernel)), "quadratic program"
    # A tuple, as all losses are: it would equal Hinge(1.0) if compared with it.
    yield machine(X, t, kernel, loss=SquaredHinge(1.0)), r"hinge loss with margin 1; this problem has SquaredHinge"
    yield machine(X, t, kernel, loss=Hinge(0.5)), r"Hinge\(margin=0.5\)"
    yield machine(X, t, kernel, intercept=None), "free intercept"
    yield machine(X, t, kernel, intercept="penalised"), "intercept='penalised'"
    yield machine(X, np.ones(6), kernel), "both classes"
    yield machine(X, t, kernel, C=(t > 0.0) * 1.0), "positive weight in both classes"
    yield machine(np.zeros((10_001, 1)), np.where(np.arange(10_001) % 2, 1.0, -1.0), kernel), "10000 samples at most"


@pytest.mark.parametrize("which", range(9))
def test_a_refusal_is_a_sentence(which):
    problem, fragment = list(refused())[which]
    with pytest.raises(ValueError, match=f"solver='smo_simplified' cannot solve this problem: .*{fragment}"):
        minimize(problem, make_solver("smo_simplified"))
