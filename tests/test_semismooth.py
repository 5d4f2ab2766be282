"""Semismooth Newton: it finishes what others began, or leaves everything as it was; and the factor behind it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification

import zoo
from maxmargin import SVC, SVR, Problem, Status, certify, explain_solver, minimize
from maxmargin.numerics import tiled_cholesky
from maxmargin.operators import KernelGram
from maxmargin.operators.measured import MeasuredGram
from maxmargin.operators.precise import PreciseGram
from maxmargin.parts.kernels import RBF
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import BoxQP
from maxmargin.solvers import Decomposition, SemismoothNewton
from maxmargin.solvers.kernels.semismooth.factor import Factor, Matrix
from maxmargin.solvers.relay import Relay
from maxmargin.threads import Workers
from test_solvers import assert_honest

KERNEL_CASES = [case for case in zoo.cases() if case.convex and SemismoothNewton().supports(case.build()) is None]


def flips(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    y = np.where(X[:, 0] + np.sin(2.0 * X[:, 1]) > 0.0, 1.0, -1.0)
    return X, np.where(rng.random(n) < 0.1, -y, y)


def test_it_finishes_or_leaves_the_point_as_it_was():
    """From where decomposition got to: every case ends at the optimum, or no worse than it began."""
    finished = 0
    for case in KERNEL_CASES:
        problem = case.build()
        rough = minimize(problem, Decomposition(tol=0.01), tol=0.01, max_iter=40)
        fine = minimize(problem, SemismoothNewton(tol=1e-9), tol=1e-9, warm=rough)
        assert_honest(case.describe(), fine)
        lowest = rough.certificate.dual - 1e-6 * abs(rough.certificate.dual) - fine.certificate.error
        assert fine.certificate.dual >= lowest, case.name
        finished += fine.status is Status.CONVERGED
    assert finished >= 0.8 * len(KERNEL_CASES)


def test_large_penalties_end_with_few_rounds():
    """Hundreds of free variables and C=1e4: steps on pairs need thousands of blocks for the same gap."""
    X, y = flips(600)
    problem = Problem(KernelGram(RBF(0.1), X), y, Hinge(), L2(1.0), np.full(y.size, 1e4), "free")
    rough = minimize(problem, Decomposition(tol=0.5), tol=0.5)
    fine = minimize(problem, SemismoothNewton(tol=1e-8), tol=1e-8, warm=rough)
    assert fine.status is Status.CONVERGED, fine.message
    assert fine.iterations <= 20
    exact = SVC(C=1e4, gamma=0.1, solver="active_set", tol=1e-9).fit(X, y)
    assert fine.certificate.primal == pytest.approx(exact.objective_, rel=2e-8)


def test_auto_hands_over_once_that_is_faster_and_certifies_it():
    X, y = flips(2600)
    model = SVC(C=1e4, gamma=0.1, tol=1e-6).fit(X, y)
    assert model.status_ is Status.CONVERGED, model.solution_.message
    assert model.solution_.solver == "semismooth_newton"
    assert "'semismooth_newton' takes over once that is faster" in explain_solver(SVC(), X, y)
    again = certify(model, X, y)
    assert again.relative_gap <= 1e-6
    easy = SVC(C=0.1, gamma=0.1, tol=1e-3).fit(X, y)  # steps on pairs are done before
    assert easy.solution_.solver == "decomposition"
    named = SVC(C=1e4, gamma=0.1, tol=1e-4, solver="decomposition").fit(X, y)
    assert named.solution_.solver == "decomposition"


def test_who_can_do_nothing_hands_back():
    """No room for the rows, or nothing but equal samples: the solver before it goes on to the end."""
    X, y = flips(300)
    problem = Problem(KernelGram(RBF(0.3), X), y, Hinge(), L2(1.0), np.full(y.size, 10.0), "free")
    no_room = Relay(Decomposition(tol=1e-7), SemismoothNewton(max_memory=1e-3), patience=2)
    solution = minimize(problem, no_room, tol=1e-7)
    assert solution.status is Status.CONVERGED
    assert solution.solver == "decomposition"
    same = BoxQP(
        KernelGram(RBF(0.3), np.ones((4, 2))), q=np.array([1.0, 1.0, -1.0, -1.0]), low=np.array([0.0, 0.0, -1.0, -1.0]),
        high=np.array([1.0, 1.0, 0.0, 0.0]), D=np.zeros(4), sample=np.arange(4), group=np.zeros(4, dtype=np.int64),
        totals=np.zeros(1), lam=1.0, shift=0.0,
    )  # fmt: skip
    chain = Relay(Decomposition(tol=1e-9), Relay(SemismoothNewton(), Decomposition(tol=1e-9), patience=60), patience=1)
    assert minimize(same, chain, tol=1e-9).status is Status.CONVERGED


def test_a_tube_and_a_named_solver():
    """From zero both sides of a tube are free at once, which has no minimum: decomposition goes on by itself."""
    X, _ = flips(200)
    target = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    model = SVR(C=100.0, gamma=0.2, epsilon=0.01, tol=1e-7, solver="semismooth_newton").fit(X, target)
    assert model.status_ is Status.CONVERGED
    assert model.objective_ == pytest.approx(SVR(C=100.0, gamma=0.2, epsilon=0.01, tol=1e-9).fit(X, target).objective_)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_factor_follows_variables_that_come_and_go(seed):
    """The bordered system is solved to float32's digits, whichever variables left, came, or left again."""
    rng = np.random.default_rng(seed)
    n = 30
    X = rng.normal(size=(n, 8))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    D, group = rng.choice([0.0, 0.5]) * rng.random(n), rng.integers(0, 2, n)
    matrix = Matrix(K.astype(np.float32), np.arange(n), np.arange(n), D, Workers())
    free = np.sort(rng.choice(n, 18, replace=False))
    factor = Factor(matrix, free, group, 2)
    assert factor.regular
    for _ in range(3):
        free = np.sort(rng.choice(n, rng.integers(8, 25), replace=False))
        factor.follow(free)
        if not all((group[free] == g).any() for g in factor.used):
            continue
        assert factor.prepare()
        r, missing = np.zeros(n), rng.normal(size=2)
        r[free] = rng.normal(size=free.size)
        x, b = factor.solve(r, missing)
        M = (K + np.diag(D))[np.ix_(free, free)]
        np.testing.assert_allclose(M @ x[free] + b[group[free]], r[free], atol=2e-3 * (1.0 + np.abs(x).max()))
        for g in factor.used:
            np.testing.assert_allclose(x[free][group[free] == g].sum(), missing[g], atol=1e-3 * (1.0 + np.abs(x).max()))
        assert not x[np.setdiff1d(np.arange(n), free)].any()


@pytest.mark.parametrize("n", [1, 37, 1100])
def test_tiles_make_the_same_factor_as_one_piece(n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n + 5)) / np.sqrt(n)
    M = (A @ A.T + np.eye(n)).astype(np.float32)
    factors = []
    for count in (1, 2):
        L = M.copy()
        assert tiled_cholesky.factorise(L, Workers(count))
        factors.append(np.tril(L))
    np.testing.assert_array_equal(factors[0], factors[1])
    np.testing.assert_allclose(factors[0] @ factors[0].T, M, atol=2e-5)
    assert not tiled_cholesky.factorise(M - np.float32(10.0) * np.eye(n, dtype=np.float32), Workers())


@given(st.integers(0, 10_000), st.floats(1e-3, 3.0), st.integers(2, 900))
@settings(max_examples=15, deadline=None)
def test_the_closer_bound_holds(seed, gamma, n):
    """Against products with twice the digits; and it is not larger than the usual bound."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, 6)), rng.normal(size=n) * (rng.random(n) < 0.8)
    gram = KernelGram(RBF(gamma), X)
    assert MeasuredGram.can(gram)
    scores, closer = MeasuredGram(gram).apply(w), MeasuredGram(gram).rounding(w)
    truth = PreciseGram(gram)
    exact = truth.apply(w)
    assert (np.abs(scores - exact) <= closer + truth.rounding(w)).all()
    assert (closer <= 1.01 * gram.rounding(w) + 1e-290).all()
    half = gram.within(w)
    support = np.flatnonzero(w)
    assert (np.abs(half - exact)[support] <= closer[support] + truth.rounding(w)[support]).all()


def test_a_certificate_that_rounding_blurs_is_measured():
    """Large C and many samples on the margin: the usual bound hides the gap, the closer one does not."""
    X, labels = make_classification(3000, 6, n_informative=6, n_redundant=0, class_sep=0.3, random_state=0)
    y = np.where(labels > 0, 1.0, -1.0)
    gram = KernelGram(RBF(1.0), X)
    assert not PreciseGram.can(gram)
    assert MeasuredGram.can(gram)
    problem = Problem(gram, y, Hinge(), L2(1.0), np.full(y.size, 1e6), "free")
    solution = minimize(problem, Decomposition(tol=1e-7), tol=1e-3)
    usual, closer = problem.certify(solution.point), MeasuredGram(gram).rounding(solution.point.w)
    assert closer.max() < 0.5 * gram.rounding(solution.point.w).max()
    assert solution.certificate.error <= usual.error
