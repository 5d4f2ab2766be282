"""The active-set method: textbook, updated factor, partition, degeneracy; the zoo is in test_solvers.py too."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import referee
import zoo
from maxmargin import SVC, SVR, BoxQP, NuSVC, NuSVR, OneClassSVM, Point, Problem, Status, minimize
from maxmargin.numerics.updated_cholesky import append_row, delete_row, pivot_of, solve_both, solve_two
from maxmargin.operators import KernelGram, PrecomputedGram
from maxmargin.parts.kernels import RBF, Linear
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import SMO, ActiveSet, BlockSMO, Decomposition
from maxmargin.solvers.kernels.active_set import loops, state
from test_solvers import assert_honest, done

examples = settings(max_examples=25, deadline=None, derandomize=True, database=None)
CASES = [case for case in zoo.cases() if ActiveSet().supports(case.build()) is None]


def overlapping(n=120, seed=0):
    X, y = make_classification(n, 4, n_informative=3, n_redundant=0, flip_y=0.2, random_state=seed)
    return X, np.where(y > 0, 1.0, -1.0)


def kernel_of(X, gamma=0.3):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def problem_of(X, y, C=10.0, kernel=None):
    return Problem(KernelGram(kernel or RBF(0.3), X), y, Hinge(), L2(1.0), np.full(y.size, float(C)))


# The method as the first seed prints it, in one page.


def textbook(Q, y, c, sign=1.0, of_beta=1.0, most=500):
    """Items 0-40 to 0-43. ``sign=1`` has the slacks corrected as in E0-1, ``sign=-1`` as they are printed.

    ``of_beta=-1`` reads beta as in the KKT conditions of the slides, 1 as the multiplier of the system of step 1.

    Starts, as in E0-12, from two samples of opposite labels. Returns the variables and the changes, or None for these
    if it did not stop.
    """
    n = y.size
    a, free, at_c = np.zeros(n), [int(np.argmax(y)), int(np.argmin(y))], np.zeros(n, dtype=bool)
    beta = 0.0
    for change in range(most):
        ns = len(free)
        while free:  # step 1
            K = np.block([[Q[np.ix_(free, free)], y[free, None]], [y[None, free], np.zeros((1, 1))]])
            K[:ns, :ns] += 1e-12 * np.eye(ns)
            r = np.append(1.0 - c * Q[np.ix_(free, at_c)].sum(axis=1), -c * y[at_c].sum())
            solved = np.linalg.lstsq(K, r)[0]
            target, beta = solved[:ns], solved[ns]
            p = target - a[free]
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(p > 0, (c - a[free]) / p, np.where(p < 0, -a[free] / p, np.inf))
            k = int(np.argmin(room))
            if room[k] >= 1.0:
                a[free] = target
                break
            a[free] += room[k] * p
            i = free.pop(k)
            at_c[i], a[i] = p[k] > 0, c if p[k] > 0 else 0.0
            ns -= 1
        slack = sign * (Q @ a + of_beta * beta * y - 1.0)  # step 2: s_0, and xi_c is its negative
        zero = np.setdiff1d(np.flatnonzero(~at_c), free)
        s0 = slack[zero].min(initial=np.inf)
        xi = (-slack[at_c]).min(initial=np.inf)
        if min(s0, xi) >= -1e-10:
            return a, change
        if s0 <= xi:
            free.append(int(zero[np.argmin(slack[zero])]))
        else:
            i = int(np.flatnonzero(at_c)[np.argmin(-slack[at_c])])
            at_c[i] = False
            free.append(i)
    return a, None


def objective(Q, a):
    return float(a.sum() - 0.5 * a @ Q @ a)


def test_the_textbook_with_the_printed_signs_never_stops():
    """Items 0-42, 0-43; E0-1: with the signs corrected it is the optimum, with those of the slides it never ends.

    E0-2: the reduced problem has ``-e``; E0-3: free variables are those between their bounds, and only these.
    """
    X, y = overlapping(60, seed=4)
    Q = kernel_of(X) * np.outer(y, y)
    a, changes = textbook(Q, y, 2.0)
    fit = minimize(problem_of(X, y, C=2.0), ActiveSet(), tol=1e-11)
    assert changes is not None
    assert objective(Q, a) == pytest.approx(fit.certificate.dual, rel=1e-11)
    for of_beta in (1.0, -1.0):
        printed, changes = textbook(Q, y, 2.0, sign=-1.0, of_beta=of_beta)
        assert changes is None
        assert objective(Q, printed) < 0.1 * fit.certificate.dual


@pytest.mark.parametrize("changes", [1, None])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_zoo(case, changes):
    """Item 0-42, and E0-12: singular matrices, duplicates, no start inside, both with one change and with many."""
    problem = case.build()
    solution = minimize(problem, ActiveSet(changes=changes), tol=1e-9, max_time=10.0)
    assert_honest(case.describe(), solution, case.convex)
    if case.convex and not case.hard_for:
        certificate = solution.certificate
        rounded = certificate.gap <= max(certificate.error, 1e-9 * abs(certificate.primal))
        assert done(solution) or rounded, solution.message


@pytest.mark.parametrize("changes", [1, None])
def test_the_gap_is_that_of_float64(changes):
    """Item 0-38: "very accurate solutions"."""
    X, y = overlapping(200)
    for C in (0.1, 10.0, 1e3):
        solution = minimize(problem_of(X, y, C), ActiveSet(changes=changes), tol=1e-12)
        assert solution.certificate.gap <= 1e-12 * solution.certificate.primal, solution.message


@examples
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=60), st.integers(0, 10**6))
def test_the_updated_factor_is_that_of_the_matrix(changes, seed):
    """Items 0-36 and 0-44: rows are appended and deleted in any order."""
    A = np.random.default_rng(seed).normal(size=(30, 40))
    M, R, rows = A @ A.T, np.empty((30, 30)), []
    for add, number in changes:
        outside = [i for i in range(30) if i not in rows]
        if (add or not rows) and outside:
            i = outside[number % len(outside)]
            column = M[[*rows, i], i].copy()
            pivot = pivot_of(R, len(rows), column, M[i, i])
            append_row(R, len(rows), column, pivot)
            rows.append(i)
        else:
            q = number % len(rows)
            delete_row(R, len(rows), q)
            del rows[q]
        m, part = len(rows), np.triu(R[: len(rows), : len(rows)])
        np.testing.assert_allclose(part.T @ part, M[np.ix_(rows, rows)], atol=1e-9)
        b = np.ones(m)
        solve_both(R, m, b)
        np.testing.assert_allclose(M[np.ix_(rows, rows)] @ b, np.ones(m), atol=1e-6)
        one, other = np.ones(m), np.arange(m, dtype=float)
        solve_two(R, m, one, other)
        np.testing.assert_allclose(one, b, atol=1e-9)
        np.testing.assert_allclose(M[np.ix_(rows, rows)] @ other, np.arange(m), atol=1e-5)


def test_the_factor_drifts_little_in_ten_thousand_changes():
    """Item 0-44: after 10^4 updates the factor is that of a fresh factorisation, up to rounding."""
    A = np.random.default_rng(0).normal(size=(60, 80))
    M, R, rows, rng = A @ A.T, np.empty((60, 60)), list(range(30)), np.random.default_rng(1)
    R[:30, :30] = np.linalg.cholesky(M[:30, :30]).T
    for change in range(10_000):
        if (change % 2 == 0 and len(rows) < 60) or not rows:
            i = int(rng.choice(np.setdiff1d(np.arange(60), rows)))
            column = np.append(M[rows, i], 0.0)
            append_row(R, len(rows), column, pivot_of(R, len(rows), column, M[i, i]))
            rows.append(i)
        else:
            q = int(rng.integers(len(rows)))
            delete_row(R, len(rows), q)
            del rows[q]
    part = np.triu(R[: len(rows), : len(rows)])
    assert np.abs(part.T @ part - M[np.ix_(rows, rows)]).max() <= 1e-10 * M.diagonal().max()


def test_a_factor_that_drifted_is_made_anew(monkeypatch):
    monkeypatch.setattr(state, "DRIFT_CHANGES", 5)
    monkeypatch.setattr(state, "MOST_DRIFT", -1.0)
    X, y = overlapping(100)
    solution = minimize(problem_of(X, y), ActiveSet(changes=1), tol=1e-10)
    assert solution.status is Status.CONVERGED
    assert solution.history[-1].counters["drift"] >= 0.0


def test_one_change_at_a_time_lowers_the_objective():
    """Item 0-42: feasible after each change, and the objective never rises."""
    X, y = overlapping(80)
    problem, solver = problem_of(X, y), ActiveSet(changes=1)
    progress, values = solver.start(problem, None), []
    while not progress.exhausted:
        progress = solver.advance(problem, progress, 1)
        qp, a = progress.qp, progress.a
        values.append(float(qp.q @ a - 0.5 * a @ qp.scores(a)))
        assert (qp.low <= a).all()
        assert (a <= qp.high).all()
        assert abs(a.sum()) <= 1e-12 * np.abs(a).sum()
    assert (np.diff(values) >= -1e-9 * abs(values[-1])).all()


def test_partial_pricing_finds_the_same_optimum_with_fewer_looks(monkeypatch):
    """Item 0-45: promising candidates are priced again before all variables are."""
    X, y = overlapping(300)
    found = minimize(problem_of(X, y), ActiveSet(changes=1), tol=1e-11)
    assert found.certificate.gap <= 1e-11 * found.certificate.primal
    assert loops.CANDIDATES > 1
    changes = found.history[-1].counters["changes"]
    assert found.history[-1].counters["passes"] < changes * 300 / 2  # a full price of each would take more


@pytest.mark.parametrize("other", [SMO(), BlockSMO(), Decomposition()], ids=lambda s: s.name)
def test_another_solvers_answer_is_polished(other):
    """A warm start from a rough solution ends exact, in a few rounds."""
    X, y = overlapping(200)
    problem = problem_of(X, y, 10.0)
    rough = minimize(problem, other, tol=1e-3)
    exact = minimize(problem, ActiveSet(), tol=1e-12, warm=rough)
    assert exact.certificate.gap <= 1e-12 * exact.certificate.primal
    assert exact.iterations <= 30


def machines():
    X, y = overlapping(90)
    rng = np.random.default_rng(0)
    t = np.sin(X[:, 0]) + 0.1 * rng.normal(size=90)
    weights = rng.uniform(0.2, 3.0, size=90)
    yield "C-SVC", SVC(C=5.0), X, y, None
    yield "weighted", SVC(C=5.0, class_weight={-1.0: 3.0}), X, y, weights
    yield "linear", SVC(C=5.0, kernel="linear"), X, y, None
    yield "squared hinge", SVC(C=5.0, loss="squared_hinge"), X, y, None
    yield "no intercept", SVC(C=5.0, intercept=None), X, y, None
    yield "penalised", SVC(C=5.0, intercept="penalised"), X, y, None
    yield "three classes", SVC(C=5.0), X, np.digitize(X[:, 0], [-1.0, 1.0]), None
    yield "nu-SVC", NuSVC(nu=0.4), X, y, weights
    yield "epsilon-SVR", SVR(C=5.0, epsilon=0.1), X, t, weights
    yield "nu-SVR", NuSVR(C=5.0, nu=0.4), X, t, None
    yield "one-class", OneClassSVM(nu=0.3), X, None, weights


@pytest.mark.parametrize(("model", "X", "y", "s"), [m[1:] for m in machines()], ids=[m[0] for m in machines()])
def test_every_machine(model, X, y, s):
    """The same optimum as the usual solver's; item 0-40: the partition covers each sample once."""
    usual = model.set_params(tol=1e-9).fit(X, y, s) if y is not None else model.set_params(tol=1e-9).fit(X, None, s)
    expected = sum(solution.certificate.primal for solution in usual.solutions_)
    model.set_params(solver="active_set", tol=1e-9).fit(X, y, s)
    assert sum(s.certificate.primal for s in model.solutions_) == pytest.approx(expected, rel=1e-8)
    assert model.duality_gap_ <= 1e-9
    parts = model.partition_
    for part in parts if isinstance(parts, list) else [parts]:
        together = np.concatenate(part)
        assert np.unique(together).size == together.size
    everything = np.unique(np.concatenate([np.concatenate(p) for p in (parts if isinstance(parts, list) else [parts])]))
    np.testing.assert_array_equal(everything, np.arange(90))


def test_the_partition_and_its_blocks():
    """Items 0-40 and 0-41: zero, free and bound, with the slacks that belong to them, and the blocks of Q."""
    X, y = overlapping(150)
    model = SVC(C=2.0, gamma=0.3, solver="active_set", tol=1e-10).fit(X, y)
    part, margin = model.partition_, y * model.decision_function(X)
    assert (margin[part.zero] >= 1.0 - 1e-9).all()
    assert (margin[part.bound] <= 1.0 + 1e-9).all()
    np.testing.assert_allclose(margin[part.free], 1.0, atol=1e-9)
    np.testing.assert_array_equal(np.sort(np.concatenate([part.free, part.bound])), np.sort(model.support_))
    Q = kernel_of(X) * np.outer(y, y)
    blocks = part.blocks(Q)
    assert blocks["ss"].shape == (part.free.size,) * 2
    assert blocks["c0"].shape == (part.bound.size, part.zero.size)
    np.linalg.cholesky(blocks["ss"])
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with pyplot.rc_context({"axes.titlelocation": "center"}):
        axes = part.draw(Q)
    assert f"free {part.free.size}" in axes.get_title()
    pyplot.close(axes.figure)


def test_a_model_without_its_training_says_so():
    import pickle

    X, y = overlapping(30)
    model = SVC().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    with pytest.raises(AttributeError, match="not stored with a model"):
        _ = again.partition_
    with pytest.raises(AttributeError, match="before it is fitted"):
        _ = SVC().partition_


@pytest.mark.parametrize("changes", [1, None])
@pytest.mark.parametrize("C", [1e-12, 1.0, 1e12])
def test_identical_rows_with_opposite_labels(C, changes):
    """Bad input: a singular matrix that no ridge mends, and penalties of any size."""
    X, y = overlapping(40)
    X, y = np.vstack([X, X[:10], X[:10]]), np.concatenate([y, -y[:10], y[:10]])
    problem = problem_of(X, y, C)
    solution = minimize(problem, ActiveSet(changes=changes), tol=1e-6, max_time=10.0)
    tol = 1e-6 if C < 1e12 else 1e-2  # scores of 20 samples are differences of numbers near 1e12
    assert solution.certificate.gap <= max(tol * abs(solution.certificate.primal), solution.certificate.error)
    assert solution.status is not Status.MAX_TIME
    machine = referee.Machine(y, np.full(y.size, C), ("hinge", 1.0), ("l2", 1.0), K=kernel_of(X))
    verdict = referee.judge(machine, solution.point.w, solution.point.b, solution.point.alpha)
    assert verdict.primal == pytest.approx(solution.certificate.primal, rel=tol)


def test_an_indefinite_kernel_is_named():
    """Bad input: no certificate, and the status says why."""
    rng = np.random.default_rng(0)
    K = rng.normal(size=(40, 40))
    K, y = 0.5 * (K + K.T), np.where(np.arange(40) % 2, 1.0, -1.0)
    with pytest.warns(ConvergenceWarning, match="not positive semi-definite"):
        model = SVC(kernel="precomputed", solver="active_set").fit(K, y)
    assert model.status_ is Status.NOT_CONVEX
    assert model.dual_objective_ == -np.inf
    problem = Problem(PrecomputedGram(K), y, Hinge(), L2(1.0), np.ones(40))
    solution = minimize(problem, ActiveSet(changes=1))
    assert solution.status is Status.NOT_CONVEX
    assert solution.history[-1].counters["least_curvature"] < 0.0


def test_a_linear_kernel_has_more_support_vectors_than_features():
    """E0-12: the matrix of the free variables alone is singular then."""
    X, y = overlapping(100)
    problem = Problem(KernelGram(Linear(), X), y, Hinge(), L2(1.0), np.full(100, 1.0))
    for changes in (1, None):
        solution = minimize(problem, ActiveSet(changes=changes), tol=1e-10)
        assert solution.certificate.gap <= 1e-10 * solution.certificate.primal


def test_a_program_of_its_own():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(20, 12))
    qp = BoxQP(
        PrecomputedGram(A @ A.T), rng.normal(size=20), -rng.uniform(size=20), rng.uniform(size=20), np.zeros(20),
        np.arange(20), np.arange(20) % 2, np.array([0.3, -0.2]),
    )  # fmt: skip
    for changes in (1, None):
        solution = minimize(qp, ActiveSet(changes=changes), tol=1e-10)
        assert solution.certificate.gap <= 1e-10 * abs(solution.certificate.primal)


def test_memory_and_options_are_refused_in_sentences():
    X, y = overlapping(60)
    with pytest.raises(ValueError, match="it stores the whole kernel matrix"):
        minimize(problem_of(X, y), ActiveSet(max_memory=0.01))
    with pytest.raises(ValueError, match="neither 1, one at a time, nor None"):
        ActiveSet(changes=2)


def test_equal_fits_give_equal_bits():
    X, y = overlapping(150)
    first, second = (minimize(problem_of(X, y), ActiveSet(), tol=1e-9) for _ in range(2))
    np.testing.assert_array_equal(first.point.alpha, second.point.alpha)


def test_a_warm_start_from_far_away_is_no_problem():
    X, y = overlapping(100)
    problem = problem_of(X, y)
    far = Point(np.zeros(100), 0.0, 1e3 * np.random.default_rng(0).normal(size=100))
    for changes in (1, None):
        solution = minimize(problem, ActiveSet(changes=changes), tol=1e-10, warm=far)
        assert solution.certificate.gap <= 1e-10 * solution.certificate.primal
