"""Statements of the seeds that no other file tests: each test names its items of the table in docs/seeds.md."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel

import zoo
from maxmargin import SVC, LinearSVC, Problem, hull_distance, kkt_report, minimize
from maxmargin.estimators._machinery.multiclass import votes
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.losses import Hinge, HuberHinge, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import FISTA, Decomposition, Newton, ProximalGradient


def overlapping(n=60, d=3, seed=1, apart=0.6):
    return zoo.blobs(n, d, seed=seed, apart=apart)


# ---- seed 000 --------------------------------------------------------------------------------------------------------


def test_slacks_turn_the_hinge_into_constraints():
    """Item 0-01: with ``xi_i = max(0, 1 - y_i w.x_i)`` the constrained primal has the value of the hinge's, exactly.

    And no smaller slacks fulfil the constraints, so that both problems are one.
    """
    X, y = overlapping()
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.full(60, 0.7), None)
    for seed in range(5):
        w = np.random.default_rng(seed).normal(size=3)
        xi = np.maximum(0.0, 1.0 - y * (X @ w))
        assert (y * (X @ w) >= 1.0 - xi - 1e-15).all()
        needed = xi > 0.0
        assert (y * (X @ w) < 1.0 - 0.999 * xi)[needed].all()
        value = problem.losses(X @ w) + 0.5 * w @ w
        assert value == pytest.approx(0.5 * w @ w + 0.7 * xi.sum(), rel=1e-13)


def steps_until(problem, solver, accurate, most=20_000):
    """Of a solver, two at a time, until its coefficients are good enough."""
    state = solver.start(problem, None)
    while state.iterations < most:
        state = solver.advance(problem, state, 2)
        if accurate(solver.point(problem, state).w):
            return state.iterations
    raise AssertionError(f"{solver.name} did not get there in {most} steps")


def test_smoothing_tied_to_the_accuracy_takes_steps_like_its_inverse():
    """Item 0-08 with correction E0-9: ``mu = eps``, and accelerated steps need ``O(1 / eps)``, plain ones more."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 30))
    y = np.where(X @ rng.normal(size=30) * 3.0 + 0.3 * rng.normal(size=150) > 0.0, 1.0, -1.0)
    lam, s = 1e-4, np.full(150, 1.0 / 150)
    optimum = minimize(Problem(Rows(X), y, Hinge(), L2(lam), s, None), Newton(), tol=1e-9).certificate.dual
    accuracies = 0.1 / 2.0 ** np.arange(3)

    def steps(solver, eps):
        def accurate(w):
            return np.maximum(0.0, 1.0 - y * (X @ w)).mean() + 0.5 * lam * w @ w - optimum <= eps

        return steps_until(Problem(Rows(X), y, HuberHinge(float(eps)), L2(lam), s, None), solver, accurate)

    fast, slow = ([steps(solver, eps) for eps in accuracies] for solver in (FISTA(), ProximalGradient()))
    of_fast, of_slow = (-np.polyfit(np.log(accuracies), np.log(k), 1)[0] for k in (fast, slow))
    assert of_fast <= 1.3, fast
    assert of_slow >= 1.7, slow


def test_coefficients_are_the_sum_of_support_vectors():
    """Items 0-24 and 4-01: ``w = sum_i a_i y_i x_i`` with ``0 <= a_i <= c`` and, for a free intercept, the sum zero."""
    X, y = overlapping()
    for model in (LinearSVC(loss="hinge", intercept="free", tol=1e-9), SVC(kernel="linear", C=1.0, tol=1e-9)):
        model.fit(X, y)
        a = np.zeros(60)
        a[model.support_] = model.dual_coef_[0]
        np.testing.assert_allclose(model.coef_[0], X.T @ a, atol=1e-6)
        assert (y * a >= 0.0).all()
        assert (y * a <= 1.0 + 1e-12).all()
        assert abs(a.sum()) <= 1e-10


def test_the_primal_in_terms_of_the_dual_variables():
    """Item 0-25: ``-Q a + y beta + s - xi = -e`` with ``s, xi >= 0``, whose value is the optimum."""
    X, y = overlapping()
    c, gamma = 1.5, 0.4
    model = SVC(C=c, gamma=gamma, tol=1e-9).fit(X, y)
    a = np.zeros(60)
    a[model.support_] = np.abs(model.dual_coef_[0])
    Q = np.outer(y, y) * rbf_kernel(X, X, gamma=gamma)
    beta = -float(model.intercept_[0])  # the seed writes f = w.x - beta
    surplus = Q @ a - y * beta - 1.0
    s, xi = np.maximum(surplus, 0.0), np.maximum(-surplus, 0.0)
    np.testing.assert_allclose(-Q @ a + y * beta + s - xi, -np.ones(60), atol=1e-12)
    np.testing.assert_allclose(y * (model.decision_function(X)), 1.0 + s - xi, atol=1e-9)
    assert 0.5 * a @ Q @ a + c * xi.sum() == pytest.approx(model.objective_, rel=1e-7)
    assert np.abs(a * s).max() <= 1e-3
    assert np.abs((c - a) * xi).max() <= 1e-3


def test_a_linear_program_ends_at_a_corner_and_a_quadratic_one_anywhere():
    """Item 0-30: the steepest feasible direction is a corner of its box, the optimum of the dual lies inside."""
    X, y = overlapping(n=20)
    model = SVC(kernel="linear", C=1.0, tol=1e-10).fit(X, y)
    a = np.zeros(20)
    a[model.support_] = np.abs(model.dual_coef_[0])
    inside = (a > 1e-6) & (a < 1.0 - 1e-6)
    assert inside.any()
    Q = np.outer(y, y) * (X @ X.T)
    g = Q @ np.full(20, 0.3) - 1.0
    linear = linprog(g, A_eq=y[None, :], b_eq=[0.0], bounds=(0.0, 1.0), method="highs-ds").x
    between = (linear > 1e-9) & (linear < 1.0 - 1e-9)
    assert between.sum() <= 1  # one for the one equation
    assert inside.sum() > between.sum()


# ---- seed 001 --------------------------------------------------------------------------------------------------------


def test_smooth_losses_have_more_support_vectors_and_their_zeros_are_exact():
    """Item 1-04: "will not create a sparse SVM": sparse they are, beyond the margin, but less than with the hinge."""
    X, y = overlapping(n=200, apart=1.2)
    shares = {}
    for name, loss in {"hinge": Hinge(), "huber": HuberHinge(1.0), "squared": SquaredHinge()}.items():
        solution = minimize(Problem(Rows(X), y, loss, L2(1.0), np.ones(200), None), Newton(), tol=1e-10)
        alpha, margins = solution.point.alpha, y * (X @ solution.point.w)
        if name != "hinge":
            assert (alpha[margins >= 1.0 + 1e-6] == 0.0).all()
            assert (np.abs(alpha[margins < 1.0 - 1e-6]) > 0.0).all()
        shares[name] = np.mean(np.abs(alpha) > 1e-9)
    assert 0.0 < shares["hinge"] <= shares["huber"] < 0.9
    assert shares["hinge"] <= shares["squared"] < 0.9
    model = SVC(kernel="linear", tol=1e-8).fit(X, y)
    report = kkt_report(model, X, y)
    assert report.support_fraction == pytest.approx(model.support_.size / 200)
    assert f"{model.support_.size / 200:.1%} support vectors" in repr(report)


def test_one_dual_variable_alone_cannot_move():
    """Item 1-09 with correction E1-4: with a free intercept the sum forbids it; without one it can, and gains."""
    X, y = overlapping(n=30)
    Q = np.outer(y, y) * (X @ X.T)
    a = np.abs(SVC(kernel="linear", C=1.0, tol=0.3).fit(X, y).solution_.point.alpha)
    assert abs(a @ y) <= 1e-12
    for i, step in itertools.product(range(30), (-0.1, 0.1)):
        moved = a + step * np.eye(30)[i]
        assert abs(moved @ y) == pytest.approx(0.1)

    def dual(b):
        return b.sum() - 0.5 * b @ Q @ b

    b = np.zeros(30)
    for i in range(30):
        before = dual(b)
        b[i] = np.clip(b[i] + (1.0 - Q[i] @ b) / Q[i, i], 0.0, 1.0)
        assert dual(b) >= before
    assert dual(b) > 0.0


# ---- seed 003 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.5, math.inf])
def test_rows_that_are_no_support_vectors_do_not_matter(C):
    """Items 3-25 and 3-27: the fit to the support vectors alone is the same, and of the planets two are enough."""
    X, y = zoo.blobs(80, 2, seed=4, apart=3.0 if math.inf == C else 0.8)
    model = SVC(kernel="linear", C=C, tol=1e-10).fit(X, y)
    kept = model.support_
    assert kept.size < 80
    again = SVC(kernel="linear", C=C, tol=1e-10).fit(X[kept], y[kept])
    np.testing.assert_allclose(again.coef_, model.coef_, atol=2e-4)
    np.testing.assert_allclose(again.intercept_, model.intercept_, atol=2e-4)
    if math.inf == C:
        margins = y * model.decision_function(X)
        np.testing.assert_allclose(margins[kept], 1.0, atol=1e-6)
        assert margins.min() >= 1.0 - 1e-6


def test_subderivatives_of_the_examples():
    """Items 3-29 and 3-30 with correction E3-5: slopes of supporting lines; as printed the second has none at 1."""

    def supports(f, x0, slope):
        xs = np.linspace(-3.0, 5.0, 801)
        return (f(xs) >= f(x0) + slope * (xs - x0) - 1e-12).all()

    def first(x):
        return 0.5 * np.abs(x - 1.0)

    def mended(x):
        return np.where(x < 1.0, 0.5 * x**2, 4.0 * x - 3.5)

    def printed(x):
        return np.where(x < 1.0, 0.5 * x**2, 4.0 * x)

    for f, low, high in ((first, -0.5, 0.5), (mended, 1.0, 4.0)):
        for slope in np.linspace(low, high, 7):
            assert supports(f, 1.0, slope)
        assert not supports(f, 1.0, low - 0.05)
        assert not supports(f, 1.0, high + 0.05)
    assert supports(mended, 0.5, 0.5)
    assert supports(mended, 2.0, 4.0)
    assert printed(np.array(1.0)) > 0.5 * (printed(np.array(0.9)) + printed(np.array(1.1)))  # no chord lies above it
    X, y = overlapping()
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.ones(60), None)
    rng = np.random.default_rng(0)
    for _ in range(50):
        w, v = rng.normal(size=(2, 3))
        g = w - X.T @ problem.slopes(X @ w)
        values = [problem.losses(X @ u) + 0.5 * u @ u for u in (v, w)]
        assert values[0] >= values[1] + g @ (v - w) - 1e-10


# ---- seed 004 --------------------------------------------------------------------------------------------------------


def test_predictions_need_the_support_vectors_only():
    """Item 4-02: ``y(x) = sum_i a_i t_i K(x, x_i) + b``, and what was not kept has no part in it."""
    X, y = overlapping(n=100)
    model = SVC(C=1.0, gamma=0.3, tol=1e-6).fit(X, y)
    new = np.random.default_rng(0).normal(size=(20, 3))
    by_hand = rbf_kernel(new, model.support_vectors_, gamma=0.3) @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(new), by_hand, rtol=1e-10, atol=1e-12)
    assert model.support_vectors_.shape[0] == model.support_.size < 100
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


def test_the_ends_of_c():
    """Item 4-07: ``C -> 0`` ignores the data, and ``C -> inf`` is the hard margin where there is one."""
    X, y = zoo.blobs(60, 2, seed=5, apart=3.5)
    lengths = [np.linalg.norm(SVC(kernel="linear", C=C, tol=1e-9).fit(X, y).coef_) for C in (1e-2, 1e-4, 1e-6)]
    assert lengths[0] > lengths[1] > lengths[2]
    assert lengths[2] <= 1e-6 * 60 * np.linalg.norm(X, axis=1).max()  # |w| <= C sum |x_i|
    hard = SVC(kernel="linear", C=math.inf, tol=1e-10).fit(X, y)
    street = hull_distance(X[y > 0], X[y < 0], tol=1e-10)
    assert 2.0 / np.linalg.norm(hard.coef_) == pytest.approx(street.distance, rel=1e-6)
    large = np.abs(hard.dual_coef_).max() * 1.01  # from the largest multiplier on, the box does not bind
    for C in (large, 100.0 * large):
        soft = SVC(kernel="linear", C=C, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(soft.coef_, hard.coef_, rtol=1e-4)
    tight = SVC(kernel="linear", C=0.5 * large, tol=1e-10).fit(X, y)
    assert np.abs(tight.coef_ - hard.coef_).max() > 1e-3 * np.abs(hard.coef_).max()


def test_a_narrow_kernel_asks_the_nearest_support_vector():
    """Item 4-22: a Gaussian machine weights evidence by distance; for ``gamma -> inf`` one neighbour decides."""
    X, y = overlapping(n=80, d=2, apart=0.8)
    model = SVC(C=1.0, gamma=400.0, tol=1e-6).fit(X, y)
    rng = np.random.default_rng(1)
    new = X[model.support_][rng.integers(model.support_.size, size=60)] + 0.02 * rng.normal(size=(60, 2))
    distances = ((new[:, None, :] - model.support_vectors_[None]) ** 2).sum(axis=2)
    nearest = np.sign(model.dual_coef_[0][distances.argmin(axis=1)])
    kernel_part = model.decision_function(new) - model.intercept_[0]
    assert (np.sign(kernel_part) == nearest).all()
    wide = SVC(C=1.0, gamma=0.01, tol=1e-6).fit(X, y)
    assert (np.sign(wide.decision_function(new) - wide.intercept_[0]) != nearest).any()


def test_votes_of_all_pairs_add_up_and_regions_may_be_ambiguous():
    """Item 4-25: ``K (K - 1) / 2`` votes for each sample; somewhere three classes have one each."""
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]
    model = SVC(kernel="linear", decision_function_shape="ovo", tol=1e-6).fit(X, y)
    grid = np.stack(np.meshgrid(np.linspace(3, 9, 121), np.linspace(0, 6, 121)), axis=-1).reshape(-1, 2)
    pairs = model.decision_function(grid)
    count = np.zeros((grid.shape[0], 3), dtype=int)
    for k, (i, j) in enumerate(itertools.combinations(range(3), 2)):
        count[np.arange(grid.shape[0]), np.where(pairs[:, k] > 0, i, j)] += 1
    assert (count.sum(axis=1) == 3).all()
    np.testing.assert_array_equal(np.rint(votes(pairs, 3)).astype(int), count)
    tied = (count == 1).all(axis=1)
    assert tied.any()
    assert (model.predict(grid[tied]) == 0).all()  # the first of equal votes, as in LIBSVM
    assert (model.predict(grid[~tied]) == count[~tied].argmax(axis=1)).all()


# ---- the second seed, and work that is counted -----------------------------------------------------------------------


def test_the_entropy_needs_the_optimal_value_and_not_a_ratio():
    """Items 2-16 and 2-17 with correction E2-3: ``gamma = eps beta / (2 log n)`` is for a beta up to OPT.

    One class at the origin, the other at 0.01, 0.02 (a thousand times) and 1: with the ratio of the distances for beta,
    the regularised optimum is nearly worthless.
    """
    a, eps = np.concatenate([[0.01], np.full(1000, 0.02), [1.0]]), 0.1
    nearest, log_n = a.min(), math.log(a.size)
    best = nearest**2 / 2.0

    def value_of_regularised_optimum(beta):
        gamma = eps * beta / (2.0 * log_n)
        w = np.linspace(0.0, 1.0, 400_001)
        # min over shares of w a.eta + gamma H(eta), which is -gamma log sum exp(-w a / gamma)
        kinds, counts = np.unique(a, return_counts=True)
        soft = -gamma * np.log((counts * np.exp(-(w[:, None] * (kinds - nearest)) / gamma)).sum(axis=1)) + w * nearest
        found = w[np.argmax(soft - w**2 / 2.0)]
        return found * nearest - found**2 / 2.0  # g(w)

    assert value_of_regularised_optimum(best) >= (1.0 - eps) * best
    assert value_of_regularised_optimum(nearest / a.max()) < 0.5 * best


@pytest.mark.parametrize("block", [4, 16])
def test_a_block_reads_as_many_kernel_rows_as_it_has_variables(block):
    """Item 0-33: the update of ``Q a`` after a block of ``n_B`` variables takes ``n_B n`` kernel values at most."""
    X, y = overlapping(n=300)
    gram = KernelGram(zoo.KERNELS["rbf"][0], X)
    problem, solver = Problem(gram, y, Hinge(), L2(1.0), np.ones(300)), Decomposition(block_size=block)
    state = solver.start(problem, None)
    before = state.counters["kernel_evaluations"]
    for _ in range(5):
        blocks = state.iterations
        state = solver.advance(problem, state, 1)
        read = state.counters["kernel_evaluations"] - before
        before = state.counters["kernel_evaluations"]
        assert read <= (state.iterations - blocks) * block * 300
    assert before > 0
