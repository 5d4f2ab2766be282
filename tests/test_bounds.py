"""What theory promises of every family, against work that is counted."""

import math

import numpy as np
import pytest

import zoo
from maxmargin import BoxQP, HullDistance, Problem, bounds, minimize
from maxmargin.communicators import Counting, Star, run_in_process
from maxmargin.operators import KernelGram, Rows, Sharded
from maxmargin.parts.kernels import Linear
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import CuttingPlane, Decomposition, Gilbert, Saddle


def clouds(n=80, d=5, apart=0.6, seed=0):
    X, y = zoo.blobs(n, d, seed=seed, apart=apart)
    return X / np.linalg.norm(X, axis=1).max(), y


def hulls(n=80, d=6, apart=5.0, seed=1):
    X, y = clouds(n, d, apart, seed)
    return HullDistance(Rows(X), y, np.ones(n))


def iterations_until(problem, solver, done):
    state = solver.start(problem, None)
    while not done(state):
        state = solver.advance(problem, state, 1)
    return state.iterations


@pytest.mark.parametrize("lam", [0.03, 0.003])
def test_planes(lam):
    """0-38, E0-5: ``R^2 / (lam eps)``, without the refinement that needs no more than a part of them."""
    X, y = clouds()
    problem = Problem(Rows(X), y, Hinge(), L2(lam * y.size), np.ones(y.size))
    for epsilon in (0.1, 0.01, 0.001):
        count = iterations_until(problem, CuttingPlane(mixture=1.0), lambda s: s.primal - s.dual <= epsilon * y.size)  # noqa: B023
        assert 0 < count <= bounds.planes_for(epsilon, lam, 1.0)
    halves = bounds.planes_for(1e-3, lam, 1.0) / bounds.planes_for(2e-3, lam, 1.0)
    assert halves == pytest.approx(2.0, rel=0.2)  # 1 / eps
    assert bounds.planes_for(1e-3, lam / 2.0, 1.0) / bounds.planes_for(1e-3, lam, 1.0) == pytest.approx(2.0, rel=0.2)


def steps_on_the_most_promising_pairs(X, y, C, wanted):
    """Steps on the pair with the largest product of room and slope, until the dual objective is as small."""
    K, u, count = X @ X.T, np.zeros(y.size), 0  # u = y alpha
    low, high = np.minimum(y * C, 0.0), np.maximum(y * C, 0.0)
    while 0.5 * u @ K @ u - y @ u > wanted:
        g = K @ u - y
        promise = np.minimum(high - u, C)[:, None]  # room of i to grow, of j to fall
        room = np.minimum(promise, (u - low)[None, :])
        i, j = np.unravel_index(np.argmax(room * (g[None, :] - g[:, None])), room.shape)
        curvature = max(K[i, i] + K[j, j] - 2.0 * K[i, j], 1e-12)
        step = min((g[j] - g[i]) / curvature, room[i, j])
        u[i], u[j], count = u[i] + step, u[j] - step, count + 1
    return count


@pytest.mark.parametrize("C", [0.3, 3.0])
def test_pairs(C):
    """0-37, 0-38: ``n^2 / eps``, proved for one rule of choice; blocks by slope need far fewer."""
    X, y = clouds(n=40)
    problem = Problem(KernelGram(Linear(), X), y, Hinge(), L2(1.0), np.full(y.size, C), "free")
    best = -minimize(problem, Decomposition(), tol=1e-10).certificate.dual
    for epsilon in (1.0, 0.1):
        promised = bounds.pairs_for(epsilon, y.size, C, 1.0)
        assert 0 < steps_on_the_most_promising_pairs(X, y, C, best + epsilon) <= promised

        def near(state, epsilon=epsilon):
            a = state.variables()
            return (
                -BoxQP.of(problem).certify(BoxQP.of(problem).point(problem, a, state.scores())).dual <= best + epsilon
            )

        assert iterations_until(problem, Decomposition(block_size=2), near) <= promised
    ratio = bounds.pairs_for(1e-3, 200, C, 1.0) / bounds.pairs_for(1e-3, 100, C, 1.0)
    assert ratio == pytest.approx(4.0, rel=0.1)


def beta_of(problem):
    """The distance over the sum of the diameters."""
    X, y = problem.operator.matrix, problem.y
    diameters = [np.linalg.norm(A[:, None] - A[None], axis=2).max() for A in (X[y > 0], X[y < 0])]
    distance = math.sqrt(-2.0 * minimize(problem, Saddle(), tol=1e-6).certificate.dual)
    return distance / sum(diameters)


@pytest.mark.parametrize("apart", [4.0, 6.0])
def test_gilbert(apart):
    """2-07: ``1 / (eps beta^2)`` steps."""
    problem = hulls(apart=apart)
    beta = beta_of(problem)
    for epsilon in (0.3, 0.03):
        count = iterations_until(problem, Gilbert(), lambda s: 1.0 - (max(s.width, 0.0) / s.distance) ** 2 <= epsilon)  # noqa: B023
        assert 0 < count <= bounds.gilbert_steps_for(epsilon, beta)


def test_gamma_is_as_large_as_the_lemma_allows():
    """2-16, E2-3: with it the direction of the regularised problem has 1 - eps of the optimum."""
    problem = hulls()
    optimum = -minimize(problem, Saddle(), tol=1e-8).certificate.dual
    assert bounds.saddle_gamma(0.2, optimum, 80) == pytest.approx(0.2 * optimum / (2.0 * math.log(80)))
    gamma = bounds.saddle_gamma(0.2, optimum, 80)
    solver = Saddle(continuation=False, gamma=gamma)
    state = solver.advance(problem, solver.start(problem, None), 1)
    for _ in range(200):
        state = solver.advance(problem, state, 20)
    assert problem.street(problem.operator.apply(state.w)) - 0.5 * state.w @ state.w >= 0.8 * optimum
    with pytest.raises(ValueError, match=r"beta=0\.0 must be positive"):
        bounds.saddle_gamma(0.1, 0.0, 10)


def test_saddle_steps():
    """2-11: ``d + q sqrt(d / gamma)`` steps take the mean error down by a factor."""
    problem, gamma = hulls(n=60, d=6), 3e-3
    q = math.sqrt(6) * np.abs(problem.operator.matrix).max()
    solver = Saddle(continuation=False, gamma=gamma)
    state = solver.start(problem, None)
    while state.iterations < 3000:
        state = solver.advance(problem, state, 1000)
    for epsilon in (1e-2, 1e-4):
        steps = bounds.saddle_steps_for(epsilon, gamma, 6, q, 60)
        errors = []
        for seed in range(4):
            rule = Saddle(block_size=1, continuation=False, gamma=gamma, seed=seed)
            run = rule.start(problem, None)
            while run.iterations < steps:
                run = rule.advance(problem, run, steps - run.iterations)
            errors.append(float((run.w - state.w) @ (run.w - state.w)))
        assert np.mean(errors) <= epsilon
    ratio = bounds.saddle_steps_for(1e-3, 1e-8, 6, q, 60) / bounds.saddle_steps_for(1e-3, 4e-8, 6, q, 60)
    assert 1.8 < ratio < 2.5  # 1 / sqrt(gamma), and a logarithm


@pytest.mark.parametrize("k", [2, 5])
def test_numbers(k):
    """2-09, 2-10, 2-13: what passes between a server and its clients is what the formulas say, number by number."""
    X, y = clouds(120, 6, 6.0, 3)
    promises = {"saddle": bounds.saddle_numbers, "gilbert": bounds.gilbert_numbers}
    for solver, steps in ((Saddle(block_size=1, continuation=False, gamma=1e-3), 30), (Gilbert(), 30)):

        def client(communicator, rows, solver=solver, steps=steps):
            counting = Counting(communicator)
            problem = HullDistance(Sharded(Rows(X[rows]), Star(counting)), y[rows], np.ones(rows.size))
            state = solver.start(problem, None)
            before = counting.traffic.scalars + counting.traffic.received
            while state.iterations < steps:
                state = solver.advance(problem, state, 1)
            return counting.traffic.scalars + counting.traffic.received - before, state.iterations

        shards = [np.arange(0), *np.array_split(np.arange(120), k)]
        passed = [numbers for numbers, _ in run_in_process(client, shards)[1:]]
        assert sum(passed) == promises[solver.name](steps, 6, k)
        assert sum(passed) >= bounds.fewest_numbers(0.5, 6, k)


def test_what_makes_no_sense_is_refused():
    for call, sentence in (
        (lambda: bounds.planes_for(0.0, 1.0, 1.0), "epsilon=0.0 must be positive"),
        (lambda: bounds.pairs_for(0.1, 1, 1.0, 1.0), "n=1 must be at least 2"),
        (lambda: bounds.gilbert_steps_for(0.1, 2.0), "beta=2.0 must be above 0 and at most 1"),
        (lambda: bounds.saddle_steps_for(0.1, -1.0, 2, 1.0, 10), "gamma=-1.0 must be positive"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
