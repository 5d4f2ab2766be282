"""Interior point over a kernel matrix: few steps whatever C is, and factors of low rank whose error is certified."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import referee
import zoo
from maxmargin import SVC, Problem, Status, explain_solver, minimize
from maxmargin.operators import CallableGram, KernelGram, PrecomputedGram, Rows
from maxmargin.operators.low_rank import low_rank
from maxmargin.parts.kernels import RBF, Linear, Sigmoid
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import ActiveSet, InteriorPoint, make_solver
from maxmargin.solvers.kernels.interior_point.matrices import OfLowRank, Whole

X, y = zoo.blobs(150, 4, seed=3, apart=0.6)


def posed(C, kernel, X=X, y=y):
    return Problem(KernelGram(kernel, X), y, Hinge(), L2(1.0), np.full(y.size, float(C)))


@pytest.mark.parametrize("kernel", [RBF(0.2), Linear()], ids=["rbf", "linear"])
def test_it_takes_few_steps_whatever_C_is(kernel):
    """Seed 0-37, the interior point's row of the table: the number of steps hardly depends on C."""
    twins = np.vstack([X, X[:20]]), np.append(y, -y[:20])  # identical rows with opposite labels
    for some in ((X, y), twins):
        for C in (1e-12, 1e-3, 1.0, 1e3, 1e6, 1e8):
            solution = minimize(posed(C, kernel, *some), InteriorPoint(), tol=1e-6)
            assert solution.status is Status.CONVERGED, (C, solution.message)
            assert solution.iterations <= 30


def test_it_is_exact_to_the_last_digits():
    problem = posed(100.0, RBF(0.2))
    ours, theirs = (minimize(problem, solver, tol=1e-11) for solver in (InteriorPoint(), ActiveSet()))
    assert ours.status is theirs.status is Status.CONVERGED
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=1e-11)
    at_zero = ours.point.alpha == 0.0
    assert at_zero.sum() >= 0.8 * (theirs.point.alpha == 0.0).sum()  # and most of what is zero is exactly zero


@pytest.mark.parametrize("rank", [1, 10, 60])
def test_the_error_of_a_factor_is_in_the_certificate(rank):
    """Alone it stops with the true gap, which the referee confirms; a larger rank leaves less of it."""
    problem, alone = posed(10.0, RBF(0.2)), InteriorPoint(rank=rank)
    solution = minimize(problem, alone, tol=1e-9)
    assert solution.status is Status.STALLED
    described = referee.Machine(
        y, problem.s, ("hinge", 1.0), ("l2", 1.0), K=zoo.kernel_matrix(RBF(0.2), X, X), intercept="free"
    )
    verdict = referee.judge(described, solution.point.w, solution.point.b, solution.point.alpha)
    assert verdict.relative_gap == pytest.approx(solution.certificate.relative_gap, rel=1e-6)
    best = minimize(problem, ActiveSet(), tol=1e-10).certificate
    assert solution.certificate.dual <= best.primal + 1e-9
    assert solution.certificate.primal > best.primal + 1e-6


def test_larger_ranks_leave_smaller_gaps_and_the_finisher_none():
    problem = posed(10.0, RBF(0.2))
    gaps = [minimize(problem, InteriorPoint(rank=k), tol=1e-9).certificate.relative_gap for k in (2, 20, 100)]
    assert all(later < earlier for earlier, later in pairwise(gaps))
    model = SVC(C=10.0, gamma=0.2, tol=1e-9, solver="interior_point", solver_options={"rank": 20}).fit(X, y)
    assert model.duality_gap_ <= 1e-9
    assert model.solution_.solver == "active_set"
    assert "'active_set' takes over" in explain_solver(SVC(solver="interior_point"), X, y)


def test_a_factor_explains_its_pivots_and_knows_what_it_leaves():
    K = zoo.kernel_matrix(RBF(0.5), X, X)
    called = CallableGram(lambda A, B: zoo.kernel_matrix(RBF(0.5), A, B), X)
    for gram in (KernelGram(RBF(0.5), X), PrecomputedGram(K), called):
        found = low_rank(gram, 30)
        left = K - found.G @ found.G.T
        assert found.G.shape == (150, 30)
        assert np.unique(found.pivots).size == 30
        assert np.abs(left[:, found.pivots]).max() < 1e-12
        np.testing.assert_allclose(left.diagonal(), found.left, atol=1e-12)
        assert np.linalg.eigvalsh(left)[0] > -1e-12
        # Less than a few times the best factor of half the rank.
        assert found.left.sum() <= 3.0 * np.linalg.eigvalsh(K)[:-15].sum()
        w = np.random.default_rng(0).normal(size=30)
        np.testing.assert_allclose(K[:, found.pivots] @ found.expansion(w), found.G @ w, atol=1e-9)


def test_a_factor_ends_where_nothing_is_left():
    copies = np.repeat(X[:6], 20, axis=0)
    assert low_rank(KernelGram(RBF(0.5), copies), 50).G.shape == (120, 6)
    assert low_rank(KernelGram(Linear(), X), 50).G.shape == (150, 4)
    assert low_rank(PrecomputedGram(np.zeros((5, 5))), 3).G.shape == (5, 0)
    single = low_rank(KernelGram(RBF(0.5), X), 100, np.float32)
    assert single.G.dtype == np.float32
    left = zoo.kernel_matrix(RBF(0.5), X, X) - single.G.astype(float) @ single.G.T
    np.testing.assert_allclose(left.diagonal(), single.left, atol=1e-5)


@pytest.mark.parametrize("spread", [1.0, 1e6, 1e12])
def test_both_matrices_solve_with_diagonals_of_any_spread(spread):
    found = low_rank(KernelGram(RBF(0.2), X), 25)
    of_rank = OfLowRank(found, 2.0, 0.3)
    whole = Whole(found.G @ found.G.T / 2.0 + 0.3 + np.diag(found.left) / 2.0)
    rng = np.random.default_rng(0)
    s, r = spread ** rng.uniform(-0.5, 0.5, size=150), rng.normal(size=150)
    for matrix in (of_rank, whole):
        x = matrix.solver(s)(r)
        missing = np.linalg.norm(r - x - s * whole.times(s * x))
        assert missing <= 1e-12 * max(np.linalg.norm(r), 1e-4 * np.linalg.norm(s * whole.times(s * x)), 1e-3 * spread)


def test_an_indefinite_kernel_is_refused_with_its_negative_curvature():
    problem = posed(1.0, Sigmoid(0.5, 0.1))
    K = zoo.kernel_matrix(Sigmoid(0.5, 0.1), X, X)
    least = np.linalg.eigvalsh(K)[0]
    assert least < 0.0
    reason = InteriorPoint().supports(problem)
    assert f"a direction of negative curvature, {least:.2g}" in reason
    with pytest.raises(ValueError, match="negative curvature"):
        SVC(kernel="sigmoid", gamma=0.5, coef0=0.1, solver="interior_point").fit(X, y)
    skew = PrecomputedGram(K + np.triu(np.ones_like(K)))
    assert "not symmetric" in InteriorPoint().supports(Problem(skew, y, Hinge(), L2(1.0), np.ones(150)))


def test_ranks_are_checked_and_belong_to_kernels():
    with pytest.raises(ValueError, match="rank=0 must be at least 1"):
        make_solver("interior_point", rank=0)
    rows = Problem(Rows(X), y, Hinge(), L2(1.0), np.ones(150))
    assert "rank=5 is that of a factor of a kernel matrix" in InteriorPoint(rank=5).supports(rows)
    assert InteriorPoint().supports(rows) is None
    problem = posed(1.0, RBF(0.2))
    assert "with a rank, such as 43, it needs a factor only" in InteriorPoint(max_memory=0.1).supports(problem)
    assert "rank 60 needs 0 megabytes" in InteriorPoint(rank=60, max_memory=0.1).supports(problem)
    assert InteriorPoint(rank=43, max_memory=0.1).supports(problem) is None
    wide = minimize(posed(1.0, RBF(0.2)), InteriorPoint(rank=10_000), tol=1e-9)  # more than there are: the whole matrix
    assert wide.status is Status.CONVERGED


@pytest.mark.parametrize("kernel", ["sigmoid", lambda A, B: -(A @ B.T)], ids=["sigmoid", "made by the user"])
def test_a_fit_with_an_indefinite_kernel_names_the_negative_curvature(kernel):
    """No certificate is claimed, and the warning says how negative the matrix is."""
    model = SVC(kernel=kernel, gamma=0.5, coef0=0.1, max_time=20.0)
    with pytest.warns(ConvergenceWarning, match=r"it has a direction of negative curvature, -[\d.e+]+, where its"):
        model.fit(X, y)
    assert model.status_ is Status.NOT_CONVEX
    assert model.dual_objective_ == -np.inf
