"""Gradient descent, proximal steps, coordinate descent and stochastic gradients for regularised least squares.

The seed (003, 004) writes ``|Aw - d|^2 + lam r(w)`` and steps ``w - tau A^T (Aw - d)``. Here that is ``Squared()``,
which has the half, with ``L2(lam)`` or ``L1(lam / 2)``, and ``tau`` is the step of a solver.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import sklearn.linear_model
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from scipy.sparse import csc_array, csr_array
from scipy.special import expit, log_softmax

import referee
import zoo
from clients import run
from maxmargin import Problem, Ridge, Status, minimize
from maxmargin.communicators.counting import Counting
from maxmargin.numerics.lanczos import ends_of_spectrum
from maxmargin.operators import Columns, Rows, Sharded
from maxmargin.parts import losses
from maxmargin.parts.losses import Hinge, Logistic, Squared
from maxmargin.parts.penalties import L1, L2, Bounded, ElasticNet, Unpenalised
from maxmargin.solvers import SGD, SOLVERS, make_solver, solvers_of
from maxmargin.solvers.columns.coordinate_descent import CoordinateDescent
from maxmargin.solvers.rows.fista import FISTA
from maxmargin.solvers.rows.landweber import Landweber
from maxmargin.solvers.rows.proximal_gradient import ProximalGradient
from maxmargin.solvers.rows.sgd_textbook import TextbookSGD

RNG = np.random.default_rng(0)
A = RNG.normal(size=(40, 6)) @ np.diag([1.0, 0.8, 0.6, 0.5, 0.4, 0.3])
D = A @ np.array([1.5, -2.0, 0.0, 0.0, 3.0, 0.0]) + 0.1 * RNG.normal(size=40)
SINGULAR = np.linalg.svd(A, compute_uv=False)
NORM = SINGULAR[0] ** 2
REACH = Unpenalised(np.full(6, 20.0))
LAM = 2.0
examples = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def posed(penalty, A=A, d=D, s=None, intercept=None, loss=None, operator=Rows):
    """Least squares in the seed's scaling, without an intercept."""
    weights = np.ones(d.size) if s is None else s
    return Problem(operator(A), d, Squared() if loss is None else loss, penalty, weights, intercept)


def iterates(problem, solver, count, read=lambda state: state.theta):
    """The first coefficients, from zero on, one iteration after another."""
    state = solver.start(problem, None)
    found = [read(state)]
    for _ in range(count):
        state = solver.advance(problem, state, 1)
        found.append(read(state))
    return np.array(found)


def cost(w, lam=0.0, norm=1, A=A, d=D):
    """``|Aw - d|^2 + lam r(w)``, seed items 3-01 and 3-02."""
    return float(((A @ w - d) ** 2).sum() + lam * (np.abs(w) ** norm).sum())


def gradient(f, w, h=1e-6):
    """By differences."""
    return np.array([(f(w + h * e) - f(w - h * e)) / (2.0 * h) for e in np.eye(w.size)])


# ---- gradient descent (3-01 to 3-06) ---------------------------------------------------------------------------------


def test_the_error_is_the_squared_norm_and_its_gradient_that_of_differences():
    """Seed items 3-01 and 3-03: ``e^2 = |Aw - d|^2`` and ``2 A^T (Aw - d)``."""
    w = RNG.normal(size=6)
    problem = posed(REACH)
    assert 2.0 * problem.losses(A @ w) == pytest.approx(sum((x @ w - t) ** 2 for x, t in zip(A, D, strict=True)))
    numeric = gradient(cost, w)
    np.testing.assert_allclose(2.0 * A.T @ (A @ w - D), numeric, rtol=1e-6)
    np.testing.assert_allclose(-2.0 * problem.operator.adjoint(problem.slopes(A @ w)), numeric, rtol=1e-6)
    path = iterates(problem, Landweber(step=0.5 / NORM), 2)
    np.testing.assert_allclose((path[2] - path[1]) * NORM / 0.5, -0.5 * gradient(cost, path[1]), rtol=1e-5)


@pytest.mark.parametrize("share", [0.05, 1.0, 1.9, 1.99])
def test_descent_within_the_bound_on_the_step(share):
    """Seed items 3-04 and 3-05: the cost falls in every step, and the limit is the least-squares solution."""
    problem = posed(REACH)
    path = iterates(problem, Landweber(step=share / NORM), 60)
    costs = [cost(w) for w in path]
    assert np.all(np.diff(costs) < 0.0)
    solution = minimize(problem, Landweber(step=share / NORM), tol=1e-9, max_iter=200_000)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.point.w, np.linalg.solve(A.T @ A, A.T @ D), atol=1e-6)


def test_a_step_outside_of_the_bound_is_refused_and_would_diverge():
    """Seed items 3-04 and 3-05."""
    problem = posed(REACH)
    with pytest.raises(ValueError, match=r"step=.* is outside of its bound.* needs 0 < step < 2 / .* = ([\d.]+)") as no:
        minimize(problem, Landweber(step=2.1 / NORM))
    assert f"{2.0 / NORM:.6g}" in str(no.value)
    w = np.zeros(6)
    for _ in range(3000):
        w = w - 2.1 / NORM * A.T @ (A @ w - D)
    assert np.linalg.norm(w) > 1e100
    with pytest.raises(ValueError, match="outside of its bound"):
        minimize(posed(L1(1.0)), ProximalGradient(step=2.1 / NORM))
    with pytest.raises(ValueError, match="outside of its bound"):  # ridge adds to the norm
        minimize(posed(L2(NORM)), Landweber(step=1.1 / NORM))
    for bad in (0.0, -1.0, math.inf, math.nan):
        for kind in (Landweber, ProximalGradient, TextbookSGD):
            with pytest.raises(ValueError, match="is no step"):
                kind(step=bad)
    for kind in (Landweber, ProximalGradient, FISTA):
        with pytest.raises(ValueError, match="has to be a length"):
            kind(shortest_step=-1.0)


@pytest.mark.parametrize("lam", [0.0, LAM])
@pytest.mark.parametrize("share", [0.3, 1.0, 1.9])
def test_the_recursion_of_the_error(lam, share):
    """Seed item 3-06: ``w_k - w* = (I - tau H)^k (w_0 - w*)`` with ``H = A^T A + lam I``."""
    H = A.T @ A + lam * np.eye(6)
    best, step = np.linalg.solve(H, A.T @ D), share / np.linalg.norm(H, 2)
    path = iterates(posed(L2(lam) if lam else REACH), Landweber(step=step), 25)
    for k, w in enumerate(path):
        expected = best + np.linalg.matrix_power(np.eye(6) - step * H, k) @ (0.0 - best)
        np.testing.assert_allclose(w, expected, atol=1e-12)


@pytest.mark.parametrize("lam", [0.0, LAM])
def test_the_best_fixed_step_and_its_rate(lam):
    """Seed item 3-06: ``2 / (smax^2 + smin^2)``, which is also the best on a grid."""
    problem = posed(L2(lam) if lam else REACH)
    state = Landweber().start(problem, None)
    high, low = SINGULAR[0] ** 2 + lam, SINGULAR[-1] ** 2 + lam
    assert state.step == pytest.approx(2.0 / (high + low), rel=1e-6)
    assert state.rate == pytest.approx((high - low) / (high + low), rel=1e-5)
    grid = np.linspace(0.01, 2.0, 500) / high
    rates = np.maximum(np.abs(1.0 - grid * high), np.abs(1.0 - grid * low))
    assert state.rate <= rates.min() + 1e-6
    errors = np.linalg.norm(
        iterates(problem, Landweber(), 60) - np.linalg.solve(A.T @ A + lam * np.eye(6), A.T @ D), axis=1
    )
    assert np.all(errors[1:] <= (state.rate + 1e-6) * errors[:-1])


def test_a_matrix_without_full_rank_leads_to_the_solution_of_least_norm():
    """Seed item 3-05 with correction E3-8: from zero, the limit is ``A^+ d``."""
    for X in (np.column_stack([A, A[:, 0] - 2.0 * A[:, 1]]), A[:4]):
        d = D[: len(X)]
        problem = posed(Unpenalised(np.full(X.shape[1], 20.0)), X, d)
        solution = minimize(problem, Landweber(), tol=1e-8)
        assert solution.status is Status.CONVERGED
        np.testing.assert_allclose(solution.point.w, np.linalg.pinv(X) @ d, atol=1e-5)


def test_ridge_in_batches_has_the_right_sign():
    """Seed item 3-36 with correction E3-3: ``w - tau A^T (Aw - d) - lam tau w``; the printed sign explodes."""
    step = 1.0 / (NORM + LAM)
    path = iterates(posed(L2(LAM)), Landweber(step=step), 300)
    np.testing.assert_allclose(path[2], path[1] - step * A.T @ (A @ path[1] - D) - LAM * step * path[1], rtol=1e-12)
    np.testing.assert_allclose(path[-1], np.linalg.solve(A.T @ A + LAM * np.eye(6), A.T @ D), rtol=1e-9)
    w = np.ones(6)
    for _ in range(200):
        w = w + step * A.T @ (A @ w - D) - LAM * step * w
    assert np.linalg.norm(w) > 1e20


def test_intercepts_weights_and_sparse_rows_of_landweber():
    s = RNG.uniform(0.2, 2.0, size=40)
    for intercept in ("free", "penalised", None):
        for layout in (np.array, csr_array):
            problem = Problem(Rows(layout(A + 3.0)), D + 5.0, Squared(), L2(LAM), s, intercept, 2.0)
            solution = minimize(problem, Landweber(), tol=1e-8)
            assert solution.status is Status.CONVERGED
            case = referee.Machine(D + 5.0, s, ("squared", 1.0), ("l2", LAM), A + 3.0, intercept=intercept, scale=2.0)
            assert solution.certificate.primal == pytest.approx(referee.reference_optimum(case), rel=1e-7)


def test_the_ends_of_a_spectrum():
    """The norm that bounds the step (3-05), also where some directions have none of it."""
    for n in (1, 3, 40, 150):
        B = RNG.normal(size=(n, n + 5))
        spectrum = ends_of_spectrum(lambda v, B=B: B.T @ (B @ v), B.T @ (B @ RNG.normal(size=n + 5)))
        values = np.linalg.svd(B, compute_uv=False) ** 2
        assert spectrum.largest == pytest.approx(values[0], rel=1e-6)
        assert values[-1] * (1.0 - 1e-6) <= spectrum.least <= spectrum.largest
        if n <= 3:
            assert spectrum.least == pytest.approx(values[-1], rel=1e-4)
    assert ends_of_spectrum(lambda v: 0.0 * v, np.ones(4)).bound == 0.0
    assert ends_of_spectrum(lambda v: v, np.zeros(4)).products == 0


# ---- convexity (3-07) ------------------------------------------------------------------------------------------------


@examples
@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.99))
def test_chords_lie_above_and_second_derivatives_are_not_negative(seed, share):
    """Seed item 3-07, for least squares and with both penalties."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, 6)) * 10.0 ** rng.uniform(-2, 2)
    for lam, norm in ((0.0, 1), (3.0, 1), (3.0, 2)):
        between = cost(share * first + (1.0 - share) * second, lam, norm)
        chord = share * cost(first, lam, norm) + (1.0 - share) * cost(second, lam, norm)
        assert between <= chord * (1.0 + 1e-12)
    assert np.linalg.eigvalsh(2.0 * A.T @ A).min() >= 0.0
    assert cost(first + second) + cost(first - second) - 2.0 * cost(first) == pytest.approx(
        2.0 * float(((A @ second) ** 2).sum()), rel=1e-6
    )


# ---- proximal gradient descent (3-08 to 3-13, 3-19, 3-20) ------------------------------------------------------------

SEPARABLE = {
    "none": Unpenalised(np.full(6, 20.0)),
    "ridge": L2(0.7),
    "lasso": L1(0.7),
    "elastic net": ElasticNet(0.7, 0.4),
    "box": Bounded(0.3, 0.5, np.full(6, -0.5), np.full(6, 1.0)),
}
every_penalty = pytest.mark.parametrize("penalty", SEPARABLE.values(), ids=SEPARABLE)


def prox(penalty, z, step):
    """All coordinates."""
    return np.array([penalty.prox(float(v), step, j) for j, v in enumerate(z)])


def costs(penalty, w):
    """The penalty of all coordinates."""
    return sum(penalty.cost(float(v), j) for j, v in enumerate(w))


@every_penalty
@examples
@given(seed=st.integers(0, 10**6), step=st.floats(1e-3, 1e3))
def test_proximal_maps_are_firmly_nonexpansive(penalty, seed, step):
    """Seed item 3-08."""
    first, second = np.random.default_rng(seed).normal(size=(2, 6)) * 3.0
    moved = prox(penalty, first, step) - prox(penalty, second, step)
    assert moved @ moved <= moved @ (first - second) + 1e-12


@every_penalty
def test_a_separable_penalty_is_as_many_scalar_minimisations(penalty):
    """Seed item 3-12: the minimum over the vector, by a method that does not know of it."""
    z, step = RNG.normal(size=6), 0.8
    found = prox(penalty, z, step)

    def objective(w):
        return costs(penalty, w) + float((w - z) @ (w - z)) / (2.0 * step)

    at = objective(found)
    assert np.isfinite(at)
    for _ in range(200):
        assert objective(found + RNG.normal(size=6) * 10.0 ** RNG.uniform(-4, 0)) >= at - 1e-12
    box = list(zip(penalty.low, penalty.high, strict=True)) if isinstance(penalty, Bounded) else None
    best = scipy_minimize(objective, 0.1 * z, method="Powell", bounds=box, options={"xtol": 1e-9, "ftol": 1e-12})
    assert at <= best.fun + 1e-9


@every_penalty
@examples
@given(seed=st.integers(0, 10**6))
def test_the_majoriser_touches_and_lies_above(penalty, seed):
    """Seed item 3-09 with correction E3-7, and 3-10, in the seed's scaling.

    ``g_k(w) = |d - A w_k|^2 + |w_k - w|^2 / tau + 2 v_k^T (w_k - w) + lam r(w)`` with ``v_k = A^T (d - A w_k)``; after
    completing the square, ``tau g_k(w)`` and ``|z_k - w|^2 + tau lam r(w)`` differ by a constant, where
    ``z_k = w_k + tau v_k``; so both are smallest at the same point.
    """
    rng = np.random.default_rng(seed)
    tau = rng.uniform(0.1, 0.999) / NORM
    there = prox(penalty, rng.normal(size=6), 1.0)
    v = A.T @ (D - A @ there)
    z = there + tau * v

    def majoriser(w):
        return cost(there) + (there - w) @ (there - w) / tau + 2.0 * v @ (there - w) + 2.0 * costs(penalty, w)

    def whole(w):
        return cost(w) + 2.0 * costs(penalty, w)

    assert majoriser(there) == pytest.approx(whole(there), rel=1e-12)
    others = [prox(penalty, 2.0 * rng.normal(size=6), 1e-3) for _ in range(10)]
    constant = tau * majoriser(there) - (z - there) @ (z - there) - 2.0 * tau * costs(penalty, there)
    best = prox(penalty, z, tau)
    for w in others:
        assert majoriser(w) >= whole(w) - 1e-9 * abs(whole(w))
        square = (z - w) @ (z - w) + 2.0 * tau * costs(penalty, w)
        assert tau * majoriser(w) == pytest.approx(square + constant, rel=1e-9, abs=1e-9)
        assert majoriser(best) <= majoriser(w) + 1e-9
    assert whole(best) <= majoriser(best) + 1e-9 <= whole(there) + 2e-9


@every_penalty
def test_steps_of_the_solver_are_those_of_the_algorithm_and_descend(penalty):
    """Seed items 3-09 and 3-11: ``z_k``, then the scalar minimisations; the objective never rises."""
    problem, solver = posed(penalty), ProximalGradient()
    state = solver.start(problem, None)
    values = []
    for _ in range(30):
        before = state.theta
        state = solver.advance(problem, state, 1)
        tau = state.counters["step"]
        z = before - tau * A.T @ (A @ before - D)
        np.testing.assert_allclose(state.theta, prox(penalty, z, tau), atol=1e-12)
        values.append(0.5 * cost(state.theta) + costs(penalty, state.theta))
    assert tau == pytest.approx(1.0 / NORM, rel=1e-5)
    assert np.all(np.diff(values) <= 1e-12 * values[0])


@pytest.mark.parametrize("share", [0.9, 1.9, 1.99])
def test_longer_steps_than_the_majoriser_allows_still_converge(share):
    """Correction E3-7: ``tau < 1 / |A|^2`` is enough for a majoriser, and ``tau < 2 / |A|^2`` for convergence."""
    solution = minimize(posed(L1(1.0)), ProximalGradient(step=share / NORM), tol=1e-9)
    assert solution.status is Status.CONVERGED
    assert solution.history[-1].counters["step"] == pytest.approx(share / NORM)


@pytest.mark.parametrize("kind", [ProximalGradient, FISTA, Landweber])
def test_a_short_step_is_no_certificate(kind):
    """Seed item 3-11: the seed's rule stops the method, and the certificate says that it was too early."""
    unscaled = A * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.02])
    penalty = L2(1e-6) if kind is Landweber else L1(1e-6)
    problem = posed(penalty, unscaled)
    stopped = minimize(problem, kind(shortest_step=1e-3), tol=1e-8)
    assert stopped.status is Status.STALLED
    assert stopped.certificate.relative_gap > 1e-5
    full = minimize(problem, SOLVERS["smoothed"](), tol=1e-8)
    assert np.linalg.norm(full.point.w - stopped.point.w) > 1e-2  # though the last step was shorter than 1e-3
    assert stopped.iterations < 5000
    never = minimize(problem, kind(shortest_step=0.0), tol=1e-8, max_iter=stopped.iterations + 50)
    assert never.iterations > stopped.iterations


def test_ridge_shrinks_toward_the_origin():
    """Seed item 3-13: ``w = z / (1 + lam tau)``, whose fixed point solves ``(A^T A + lam I) w = A^T d``."""
    tau, z = 0.9 / NORM, RNG.normal(size=6)
    np.testing.assert_allclose(prox(L2(LAM), z, tau), z / (1.0 + LAM * tau), rtol=1e-15)
    solution = minimize(posed(L2(LAM)), ProximalGradient(), tol=1e-12)
    w = solution.point.w
    np.testing.assert_allclose(A.T @ A @ w + LAM * w, A.T @ D, atol=1e-4)
    best = np.linalg.solve(A.T @ A + LAM * np.eye(6), A.T @ D)
    np.testing.assert_allclose((best - tau * A.T @ (A @ best - D)) / (1.0 + LAM * tau), best, atol=1e-15)


@pytest.mark.parametrize("kind", [ProximalGradient, FISTA])
def test_ista_ends_at_the_conditions_of_optimality(kind):
    """Seed item 3-19: ``|2 a_j^T (d - Aw)| <= lam``, with equality and the sign of ``w_j`` on the support.

    The step is the soft threshold ``sign(z) (|z| - lam tau / 2)_+``, and ``w = 0`` if and only if
    ``lam >= 2 |A^T d|_inf``.
    """
    lam = 8.0
    z = np.linspace(-3.0, 3.0, 61)
    expected = np.sign(z) * np.maximum(np.abs(z) - lam * 0.2 / 2.0, 0.0)
    np.testing.assert_allclose([L1(lam / 2.0).prox(float(v), 0.2, 0) for v in z], expected, atol=1e-15)
    solution = minimize(posed(L1(lam / 2.0)), kind(), tol=1e-12)
    w = solution.point.w
    slopes = 2.0 * A.T @ (D - A @ w)
    assert np.all(np.abs(slopes) <= lam * (1.0 + 1e-5))
    support = w != 0.0
    assert 0 < support.sum() < 6
    np.testing.assert_allclose(slopes[support], lam * np.sign(w[support]), rtol=1e-4)
    largest = 2.0 * np.abs(A.T @ D).max()
    nothing = minimize(posed(L1(largest / 2.0)), kind(), tol=1e-9)
    assert not nothing.point.w.any()
    assert minimize(posed(L1(0.999 * largest / 2.0)), kind(), tol=1e-9).point.w.any()


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared hinge", "huber hinge", "squared epsilon"])
def test_every_smooth_loss_with_every_penalty(loss, intercept):
    """Seed item 3-02: smooth plus proximal, against reference solvers that know neither."""
    y = D if loss.startswith("squared e") or loss == "squared" else np.sign(D + 0.1)
    s, X = RNG.uniform(0.2, 2.0, size=40), A + 1.0
    for penalty in (("l2", 0.7), ("l1", 1.5), ("elastic net", 1.5, 0.6)):
        case = zoo.machine("own", X, y, loss=(loss, 0.5), penalty=penalty, s=s, intercept=intercept, scale=2.0)
        optimum = referee.reference_optimum(case.describe())
        for kind in (ProximalGradient, FISTA):
            solution = minimize(case.build(), kind(), tol=1e-7)
            assert solution.status is Status.CONVERGED
            assert solution.certificate.primal == pytest.approx(optimum, rel=2e-7)


def test_momentum_needs_fewer_steps_and_restarts_help_it():
    """The accelerated method on an ill-conditioned LASSO."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 120)) @ np.diag(np.geomspace(1.0, 0.02, 120))
    problem = posed(L1(0.05), X, X @ (rng.normal(size=120) * (rng.random(120) < 0.1)) + 0.01 * rng.normal(size=80))
    steps = [
        minimize(problem, solver, tol=1e-7, max_iter=200_000).iterations
        for solver in (ProximalGradient(), FISTA(restart=False), FISTA())
    ]
    assert steps[0] > steps[1] > 5 * steps[2]


@pytest.mark.parametrize("kind", [ProximalGradient, FISTA, Landweber])
def test_clients_send_a_gradient_in_each_step(kind):
    """As many numbers as there are features, and a few sums."""
    problem = posed(L2(1.0), intercept="free")

    def program(own, mine):
        counting = Counting(own.operator.communicator)
        own = replace(own, operator=Sharded(own.operator.rows, counting))
        state = kind().start(own, None)
        before = replace(counting.traffic)
        kind().advance(own, state, 1)
        return counting.traffic.scalars - before.scalars, counting.traffic.rounds - before.rounds

    for scalars, rounds in run(problem, 2, program):
        assert 6 <= scalars <= 6 + 12
        assert rounds <= 8


def test_kinks_are_refused_in_a_sentence():
    problem = posed(L2(1.0), d=np.sign(D), loss=Hinge())
    for kind in (ProximalGradient, FISTA):
        with pytest.raises(ValueError, match="it needs a smooth loss; Hinge has a kink"):
            minimize(problem, kind())
    with pytest.raises(ValueError, match="it needs the squared loss; this problem has Logistic"):
        minimize(posed(L2(1.0), d=np.sign(D), loss=Logistic()), Landweber())
    with pytest.raises(ValueError, match="it needs an L2 penalty or none; this problem has L1"):
        minimize(posed(L1(1.0)), Landweber())
    assert "landweber" not in solvers_of(problem)


@pytest.mark.parametrize("kind", [Landweber, ProximalGradient, FISTA])
def test_nothing_to_learn_from(kind):
    """No features, rows of zeros, one sample, targets that are constant."""
    for X, d in (
        (np.zeros((5, 0)), np.arange(5.0)),
        (np.zeros((5, 2)), np.arange(5.0)),
        (np.ones((1, 2)), np.array([3.0])),
        (A, np.full(40, 2.0)),
        (np.ones((5, 1)), np.arange(5.0)),
    ):
        for intercept in ("free", None):
            solution = minimize(posed(L2(1.0), X, d, intercept=intercept), kind(), tol=1e-6)
            assert solution.status is Status.CONVERGED


# ---- coordinate descent (4-11) ---------------------------------------------------------------------------------------

ORDERS = ("cyclic", "permutation", "uniform", "greedy")
CD_PENALTIES = {**SEPARABLE, "lasso, strong": L1(6.0), "positive": Bounded(1.0, 1.0, np.zeros(6), np.full(6, math.inf))}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("penalty", CD_PENALTIES.values(), ids=CD_PENALTIES)
def test_coordinate_descent_never_rises_and_ends_at_the_optimum(order, penalty):
    """Seed item 4-11: each coefficient is set to its best value; better orders choose the largest decrease."""
    s = RNG.uniform(0.2, 2.0, size=40)
    for layout in (np.asfortranarray, csc_array):
        problem = posed(penalty, layout(A + 1.0), D, s, "free", operator=Columns)
        path = iterates(problem, CoordinateDescent(order=order), 12, lambda state: (*state.w, state.primal))
        assert np.all(np.diff(path[:, -1]) <= 1e-12 * path[0, -1])
        solution = minimize(problem, CoordinateDescent(order=order), tol=1e-9)
        assert solution.status is Status.CONVERGED
        rows = Problem(Rows(A + 1.0), D, Squared(), penalty, s, "free")
        other = minimize(rows, FISTA(), tol=1e-9)
        assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-8)


def test_each_coefficient_is_the_argmin_of_the_others():
    """Seed item 4-11: one cyclic sweep by hand, for ridge and for LASSO."""
    for penalty, best in (
        (L2(LAM), lambda g, q: g / (q + LAM)),
        (L1(LAM), lambda g, q: np.sign(g) * max(abs(g) - LAM, 0.0) / q),
    ):
        problem = posed(penalty, np.asfortranarray(A), operator=Columns)
        path = iterates(problem, CoordinateDescent(), 3, lambda state: state.w.copy())
        w = np.zeros(6)
        for sweep in range(1, 4):
            for j in range(6):
                rest = D - A @ w + A[:, j] * w[j]
                w[j] = best(A[:, j] @ rest, A[:, j] @ A[:, j])
            np.testing.assert_allclose(path[sweep], w, atol=1e-12)


def test_the_greedy_order_gains_more_in_as_many_steps():
    """Seed item 4-11."""
    rng = np.random.default_rng(5)
    X = np.asfortranarray(rng.normal(size=(200, 100)))
    d = X[:, :5] @ rng.normal(size=5) + 0.1 * rng.normal(size=200)
    problem = posed(L1(20.0), X, d, operator=Columns)
    after = {
        order: iterates(problem, CoordinateDescent(order=order), 1, lambda state: state.primal)[1] for order in ORDERS
    }
    assert after["greedy"] == min(after.values())
    optimum = minimize(problem, CoordinateDescent(), tol=1e-12).certificate.primal
    assert after["greedy"] - optimum < 0.1 * (after["cyclic"] - optimum)


def test_coordinate_descent_refuses_what_it_cannot_do():
    wide = Columns(csc_array((3, 5001)))
    problem = Problem(wide, np.zeros(3), Squared(), L1(1.0), np.ones(3), None)
    with pytest.raises(ValueError, match="greedy order stores the products of all pairs of columns; 5001 are more"):
        minimize(problem, CoordinateDescent(order="greedy"))
    assert minimize(problem, CoordinateDescent()).status is Status.CONVERGED
    with pytest.raises(ValueError, match=r"order='best' is unknown; choose one of 'cyclic', .*'greedy'"):
        CoordinateDescent(order="best")
    columns = Columns(np.asfortranarray(A))
    with pytest.raises(ValueError, match="free or zero, not penalised"):
        minimize(Problem(columns, D, Squared(), L1(1.0), np.ones(40), "penalised"), CoordinateDescent())
    with pytest.raises(ValueError, match="squared loss"):
        minimize(Problem(columns, np.sign(D), Logistic(), L1(1.0), np.ones(40), None), CoordinateDescent())


def test_constant_and_zero_columns_do_no_harm():
    X = np.column_stack([A, np.full(40, 7.0), np.zeros(40), A[:, 0]])
    for order in ORDERS:
        for penalty in (L1(1.0), L2(1.0), ElasticNet(1.0, 0.5)):
            problem = posed(penalty, np.asfortranarray(X), intercept="free", operator=Columns)
            solution = minimize(problem, CoordinateDescent(order=order), tol=1e-8)
            assert solution.status is Status.CONVERGED
            assert solution.point.w[6] == solution.point.w[7] == 0.0


def test_ridge_by_every_method_of_this_family():
    """The estimator, by the solvers' names, against scikit-learn."""
    theirs = sklearn.linear_model.Ridge(alpha=LAM, tol=1e-10).fit(A + 2.0, D)
    for name in ("landweber", "proximal_gradient", "fista", "coordinate_descent"):
        ours = Ridge(LAM, solver=name, tol=1e-9).fit(A + 2.0, D)
        assert ours.solver_ == name
        assert ours.duality_gap_ <= 1e-9
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-3)


# ---- stochastic gradients (3-36, 3-37) -------------------------------------------------------------------------------


def test_a_step_of_the_textbook_for_ridge():
    """Seed item 3-36: ``w + tau (d - x^T w) x - (tau lam / N) w``, in the order of the samples."""
    tau = 0.3 / float((A**2).sum(axis=1).max())
    path = iterates(posed(L2(LAM)), TextbookSGD("cyclic", step=tau), 2)
    w = np.zeros(6)
    for epoch in (1, 2):
        for x, d in zip(A, D, strict=True):
            w = w + tau * (d - x @ w) * x - tau * LAM / 40 * w
        np.testing.assert_allclose(path[epoch], w, atol=1e-13)


def test_a_step_of_the_textbook_for_lasso_has_the_corrected_factor():
    """Seed item 3-37 with correction E3-4: ``w + tau (d - x^T w) x - (lam tau / (2N)) sign(w)``.

    Half a step ``tau`` along the gradient of ``(d - x^T w)^2 + lam / N |w|_1``; its mean over all samples is the step
    of the whole function by ``tau / 2N``.
    """
    tau = 0.3 / float((A**2).sum(axis=1).max())
    start = np.array([1.0, -1.0, 0.5, -0.5, 2.0, 0.1])
    moves = []
    for i in range(40):
        s = np.zeros(40)
        s[i] = 1.0
        problem = posed(L1(LAM / 2.0 / 40), s=s)
        solver = TextbookSGD("cyclic", step=tau)
        state = solver.start(problem, None)
        state.theta = start.copy()
        moves.append(solver.advance(problem, state, 1).theta - start)
        expected = tau * (D[i] - A[i] @ start) * A[i] - LAM * tau / (2 * 40) * np.sign(start)
        np.testing.assert_allclose(moves[-1], expected, atol=1e-14)
    whole = gradient(lambda w: cost(w, LAM), start)
    np.testing.assert_allclose(np.mean(moves, axis=0), -tau / 2.0 * whole / 40, atol=1e-9)


def test_no_coefficient_of_the_textbook_is_zero_and_proximal_steps_find_the_zeros():
    """Seed item 3-37: "0 popular" is a subgradient that no step ever meets."""
    lam = 8.0
    problem = posed(L1(lam / 2.0))
    exact = minimize(problem, FISTA(), tol=1e-12).point.w
    textbook = minimize(problem, TextbookSGD(power_t=0.7), tol=1e-9, max_iter=5000)
    proximal = minimize(problem, SGD(), tol=1e-9, max_iter=5000)
    assert np.count_nonzero(exact == 0.0) >= 2
    assert np.count_nonzero(textbook.point.w) == 6
    np.testing.assert_array_equal(proximal.point.w == 0.0, exact == 0.0)
    np.testing.assert_allclose(textbook.point.w, exact, atol=0.05)
    assert textbook.status is not Status.CONVERGED  # and says so


@pytest.mark.parametrize("order", ["cyclic", "permutation", "uniform"])
def test_the_textbook_comes_near_ridge_in_every_order(order):
    """Seed item 3-36: a constant step comes to a neighbourhood, a falling one nearer."""
    problem = posed(L2(LAM), intercept="free")
    optimum = minimize(problem, Landweber(), tol=1e-12).certificate.primal
    constant, falling = (
        minimize(problem, TextbookSGD(order, power_t=power), tol=1e-12, max_iter=2000).certificate.primal / optimum
        - 1.0
        for power in (0.0, 0.8)
    )
    assert falling < 1e-3
    assert constant < 1.0
    assert falling < constant


def test_steps_that_are_far_too_long_end_the_fit():
    solution = minimize(posed(L2(1.0)), TextbookSGD(step=100.0), tol=1e-6)
    assert solution.status is Status.STALLED
    assert np.isfinite(solution.point.w).all()
    with pytest.raises(ValueError, match="L1, L2 or elastic net"):
        minimize(posed(REACH), TextbookSGD())
    with pytest.raises(ValueError, match="must not be negative"):
        TextbookSGD(power_t=-1.0)
    with pytest.raises(ValueError, match="squared loss or the hinge; this problem has Logistic"):
        minimize(posed(L2(1.0), d=np.sign(D), loss=Logistic()), TextbookSGD())


# ---- losses as likelihoods (4-08 to 4-10) ----------------------------------------------------------------------------


def test_losses_are_likelihoods():
    """Seed items 4-08 and 4-09: the mean squared error is a Gaussian's, the logistic loss a softmax of two classes.

    ``MSE = -log N(t; y, 1)`` up to constants, and ``sigma-NLL(t, y) = softmax-NLL(t, [y, 0])``.
    """
    t, y = RNG.normal(size=20), RNG.normal(size=20)
    density = np.exp(-0.5 * (t - y) ** 2) / math.sqrt(2.0 * math.pi)
    ours = np.array([Squared().value(float(z), float(v)) for z, v in zip(y, t, strict=True)])
    np.testing.assert_allclose(ours, -np.log(density) - 0.5 * math.log(2.0 * math.pi), atol=1e-12)
    for label in (0, 1):  # correction E4-3: with its sign, and t in {0, 1}
        likelihood = -(label * np.log(expit(y)) + (1 - label) * np.log(1.0 - expit(y)))
        of_two = -log_softmax(np.column_stack([y, np.zeros(20)]), axis=1)[:, 1 - label]
        logistic = [Logistic().value(float(z), 2.0 * label - 1.0) for z in y]
        np.testing.assert_allclose(likelihood, of_two, atol=1e-12)
        np.testing.assert_allclose(logistic, likelihood, atol=1e-12)


def test_losses_of_labels_minus_one_and_one():
    """Seed item 4-10 with correction E4-2: ``(ty - 1)^2 / 2``, ``-log sigma(ty)`` and ``max(0, 1 - ty)``."""
    for t in (-1.0, 1.0):
        for y in np.linspace(-3.0, 3.0, 25):
            assert Squared().value(y, t) == pytest.approx(0.5 * (t * y - 1.0) ** 2)
            assert Logistic().value(y, t) == pytest.approx(-math.log(expit(t * y)))
            assert Hinge().value(y, t) == pytest.approx(max(0.0, 1.0 - t * y))


@pytest.mark.parametrize("name", ["Squared", "Logistic", "SquaredHinge", "HuberHinge", "SquaredEpsilonInsensitive"])
def test_slopes_of_the_losses_are_those_of_differences(name):
    """Seed item 4-08: one interface, and its gradients."""
    loss = getattr(losses, name)()
    for y in (-1.0, 1.0):
        for z in np.linspace(-2.93, 2.93, 31):
            numeric = (loss.value(z + 1e-6, y) - loss.value(z - 1e-6, y)) / 2e-6
            assert loss.slope(z, y) == pytest.approx(numeric, abs=1e-5)


def test_options_of_these_solvers_reach_them():
    assert make_solver("landweber", step=0.1, shortest_step=1e-3) == Landweber(0.1, 1e-3)
    assert make_solver("coordinate_descent", order="greedy", seed=3) == CoordinateDescent("greedy", 3)
