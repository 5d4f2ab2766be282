"""Pegasos against its formulas in plain NumPy, its bounds, and its own certificate."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import referee
import zoo
from maxmargin import SVC, BoxQP, LinearSVC, Problem, Status, _jit, bounds, minimize
from maxmargin.numerics.sampling import BATCH_ORDERS, ORDERS, draw_batches
from maxmargin.operators import KernelGram, Rows
from maxmargin.operators.vectors import SparseVectors
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, HuberHinge, Logistic, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, L2
from maxmargin.solvers import windows
from maxmargin.solvers.kernels.pegasos_kernel import KernelPegasos
from maxmargin.solvers.rows.newton import Newton
from maxmargin.solvers.rows.pegasos import Pegasos

TEXTBOOK = {"step0": None, "average": "last"}
WEIGHTS = np.random.default_rng(3).uniform(0.2, 2.0, size=23)


def drawn(order, rows, weights, k, T, seed):
    """The batches that a fit visits."""
    batches = np.empty((T, k), dtype=np.int64)
    proportional = order == "independent" or (order == "uniform" and k == 1)
    sums = np.cumsum(weights) if proportional and np.ptp(weights) > 0.0 else np.zeros(0)
    draw_batches(BATCH_ORDERS[order], rows.copy(), sums, rows.size, np.array([seed], dtype=np.uint64), batches)
    return batches


def textbook_iterates(X, y, s, lam_sum, batches, proportional=False, projection=False):
    """``w_1, ..., w_(T+1)`` as printed: inventory 0-10, with sample weights."""
    n, k = np.count_nonzero(s), batches.shape[1]
    lam = lam_sum / s.sum()
    c = np.ones(y.size) if proportional else n * s / s.sum()
    w = np.zeros(X.shape[1])
    iterates = [w]
    for t, A_t in enumerate(batches, start=1):
        A_plus = A_t[y[A_t] * (X[A_t] @ w) < 1.0]
        eta = 1.0 / (lam * t)
        w = (1.0 - eta * lam) * w + eta / k * ((c * y)[A_plus] @ X[A_plus])
        if projection and np.linalg.norm(w) > 0.0:
            w = min(1.0, 1.0 / math.sqrt(lam) / np.linalg.norm(w)) * w
        iterates.append(w)
    return np.array(iterates)


def points(solver, problem, T):
    """The solver's point after every step."""
    state = solver.start(problem, None)
    found = [solver.point(problem, state)]
    for _ in range(T):
        state = solver.advance(problem, state, 1)
        found.append(solver.point(problem, state))
    assert state.iterations == T
    return found


def small(seed=0, n=23, d=4, lam=2.0, s=1.0, layout="dense", intercept=None, loss=None):
    X, y = zoo.blobs(n, d, seed=seed, apart=0.6)
    X[np.abs(X) < 0.3] = 0.0
    s = np.broadcast_to(s, n).astype(float)
    operator = Rows(sp.csr_array(X) if layout == "csr" else X)
    return X, y, s, Problem(operator, y, loss or Hinge(), L2(lam), s, intercept)


def optimal_value(problem):
    solution = minimize(problem, Newton(), tol=1e-9)
    assert solution.status is Status.CONVERGED
    return solution.certificate.primal


# ---- the textbook's iterates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("k", [1, 5, 23])
@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_iterates_are_those_of_the_formula(order, k, projection, layout):
    """Inventory 0-09 and 0-10, in every order: "independent" batches are drawn with replacement, as on the slide."""
    T = 70
    X, y, s, problem = small(s=WEIGHTS, layout=layout, lam=0.3)
    batches = drawn(order, np.arange(23), s, k, T, seed=5)
    by_weight = order == "independent" or (order == "uniform" and k == 1)
    expected = textbook_iterates(X, y, s, 0.3, batches, by_weight, projection)
    solver = Pegasos(batch_size=k, order=order, projection=projection, seed=5, **TEXTBOOK)
    for t, point in enumerate(points(solver, problem, T)):
        np.testing.assert_allclose(point.w, expected[t], rtol=1e-11, atol=1e-11 * np.abs(expected).max())
    norms = np.linalg.norm(expected, axis=1)
    lam = 0.3 / s.sum()
    if projection:
        assert norms.max() <= 1.0 / math.sqrt(lam) * (1.0 + 1e-12)
        free = textbook_iterates(X, y, s, 0.3, batches, by_weight)
        assert np.linalg.norm(free, axis=1).max() > 1.0 / math.sqrt(lam)  # or nothing was tested


@pytest.mark.parametrize("order", BATCH_ORDERS)
@pytest.mark.parametrize("average", ["uniform", "weighted", "suffix", "last"])
@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_four_steps_at_a_time_are_the_same_steps(order, average, intercept):
    """Dense rows take them so, sparse ones in turn."""
    found = []
    for layout in ("dense", "csr"):
        _, _, _, problem = small(s=WEIGHTS, layout=layout, lam=0.3, intercept=intercept)
        solver = Pegasos(order=order, average=average, seed=3, step0="probe" if intercept == "free" else None)
        state = solver.start(problem, None)
        while state.iterations < 1001:
            solver.advance(problem, state, 1001 - state.iterations)
        found.append((state, *(state.iterate.last() if average == "last" else state.mean())))
    (dense, w, h), (sparse, expected, h_expected) = found
    np.testing.assert_allclose(w, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    assert h == pytest.approx(h_expected, rel=1e-8, abs=1e-9)
    np.testing.assert_array_equal(dense.iterate.seen, sparse.iterate.seen)
    np.testing.assert_array_equal(dense.earlier.seen, sparse.earlier.seen)
    assert dense.counters == pytest.approx(sparse.counters)


def test_the_memory_of_large_windows_is_zero():
    seen = windows.unseen(windows.LARGE)
    assert seen.shape == (windows.LARGE, 2)
    assert seen.dtype == np.float32
    assert not seen.any()
    seen[-1] = 1.0  # it may be written to


@pytest.mark.parametrize("projection", [False, True])
def test_averages_are_those_of_the_iterates(projection):
    """Inventory 0-11."""
    T = 70
    X, y, s, problem = small(s=WEIGHTS, lam=0.3)
    w = textbook_iterates(X, y, s, 0.3, drawn("uniform", np.arange(23), s, 2, T, seed=1), projection=projection)
    options = {"batch_size": 2, "order": "uniform", "projection": projection, "seed": 1, "step0": None}
    uniform = points(Pegasos(average="uniform", **options), problem, T)
    weighted = points(Pegasos(average="weighted", **options), problem, T)
    suffix = points(Pegasos(average="suffix", **options), problem, T)
    for t in range(1, T + 1):
        np.testing.assert_allclose(uniform[t].w, w[:t].mean(axis=0), rtol=0, atol=1e-11 * np.abs(w).max())
        growing = np.arange(1, t + 1) @ w[:t] / (t * (t + 1) / 2)
        np.testing.assert_allclose(weighted[t].w, growing, rtol=0, atol=1e-11 * np.abs(w).max())
        power = 2 ** int(math.log2(t))  # the windows end at powers of two
        begin = power // 2
        np.testing.assert_allclose(suffix[t].w, w[begin:t].mean(axis=0), rtol=0, atol=1e-11 * np.abs(w).max())
        assert 0.5 <= (t - begin) / t <= 0.75 or t <= 2


def test_one_sample_update_is_weight_decay():
    """Inventory 1-07: with one sample at a time, ``w <- (1 - lam eta) w + eta y x`` inside the margin."""
    X, y, _, problem = small(lam=4.6)
    lam, w = 0.2, np.zeros(4)
    for t, point in enumerate(points(Pegasos(order="cyclic", **TEXTBOOK), problem, 50)[1:], start=1):
        i, eta = (t - 1) % 23, 1.0 / (lam * t)
        inside = y[i] * (w @ X[i]) < 1.0
        w = (1.0 - lam * eta) * w + (eta * y[i] * X[i] if inside else 0.0)
        np.testing.assert_allclose(point.w, w, rtol=1e-10, atol=1e-12)


def test_closed_form_norm_bound_and_first_step():
    """Inventory 0-10: ``w_(t+1)`` is the mean of the subgradients divided by ``lam``, and ``w_2`` forgets ``w_1``."""
    X, y, _, problem = small(lam=1.0)
    lam, R = 1.0 / 23.0, np.linalg.norm(X, axis=1).max()
    solver = Pegasos(order="cyclic", **TEXTBOOK)
    found = points(solver, problem, 60)
    v = np.zeros(4)
    for t in range(1, 61):
        i = (t - 1) % 23
        if y[i] * (found[t - 1].w @ X[i]) < 1.0:
            v = v + y[i] * X[i]
        np.testing.assert_allclose(found[t].w, v / (lam * t), rtol=1e-10, atol=1e-12)
        assert np.linalg.norm(found[t].w) <= R / lam
    elsewhere = solver.advance(problem, solver.start(problem, minimize(problem, Newton()).point), 1)
    first, second = solver.point(problem, elsewhere).w, found[1].w
    assert np.linalg.norm(first) in (0.0, pytest.approx(np.linalg.norm(second)))  # inside the margin, or not


def test_a_penalised_intercept_is_a_column():
    X, y, s, _ = small(s=WEIGHTS)
    scaled = Problem(Rows(X), y, Hinge(), L2(0.5), s, "penalised", 1.7)
    column = Problem(Rows(np.column_stack([X, np.full(23, 1.7)])), y, Hinge(), L2(0.5), s, None)
    for options in (TEXTBOOK, {"projection": True, **TEXTBOOK}, {}):
        ours, theirs = (points(Pegasos(**options), problem, 90)[-1] for problem in (scaled, column))
        np.testing.assert_allclose(np.append(ours.w, ours.b / 1.7), theirs.w, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=1e-10, atol=1e-11)


def test_weight_two_is_a_sample_twice_and_weight_zero_none():
    X, y, _, _ = small()
    s = np.where(np.arange(23) % 4 == 0, 0.0, np.where(np.arange(23) % 3 == 0, 2.0, 1.0))
    weighted = Problem(Rows(X), y, Hinge(), L2(0.5), s, None)
    copies = np.repeat(np.arange(23), s.astype(int))
    repeated = Problem(Rows(X[copies]), y[copies], Hinge(), L2(0.5), np.ones(copies.size), None)
    solver = Pegasos(batch_size=100, **TEXTBOOK)  # all samples
    for ours, theirs in zip(points(solver, weighted, 40), points(solver, repeated, 40), strict=True):
        np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-10, atol=1e-11)


def test_the_ball_of_any_loss_holds_the_optimum():
    """Inventory 0-06; for the hinge the radius is ``1 / sqrt(lam)``."""
    for loss, described, lam in [
        (Hinge(), ("hinge", 1.0), 1.0),
        (Hinge(), ("hinge", 1.0), 20.0),
        (Hinge(2.0), ("hinge", 2.0), 20.0),
        (HuberHinge(0.5), ("huber hinge", 0.5), 20.0),
    ]:
        X, y, s, problem = small(loss=loss, lam=lam)
        radius = Pegasos(projection=True, step0=None).start(problem, None).setting.radius
        if loss == Hinge():
            assert radius == pytest.approx(1.0 / math.sqrt(lam / s.sum()), rel=1e-14)
        w, _ = referee._clarabel_machine(referee.Machine(y, s, described, ("l2", lam), X=X, intercept=None))
        assert np.linalg.norm(w) <= radius


# ---- kernels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [TEXTBOOK, {"projection": True, **TEXTBOOK}, {"batch_size": 4, "step0": None},
                                     {"batch_size": 4, "order": "independent", "average": "weighted"}, {}])  # fmt: skip
@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
def test_the_linear_kernel_makes_the_steps_of_rows(options, intercept):
    if intercept == "free" and options:
        return
    X, y, s, rows = small(s=WEIGHTS, intercept=intercept)
    kernel = Problem(KernelGram(zoo.KERNELS["linear"][0], X), y, Hinge(), L2(2.0), s, intercept)
    found = points(KernelPegasos(**options), kernel, 60), points(Pegasos(**options), rows, 60)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(X.T @ ours.w, theirs.w, rtol=1e-9, atol=1e-10)
        if intercept != "free":  # the best intercept puts a sample on the margin, where rounding decides on its slope
            np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=1e-9, atol=1e-10)
        assert ours.b == pytest.approx(theirs.b, rel=1e-9, abs=1e-9)


def test_the_expansion_counts_visits_inside_the_margin():
    """The paper's figure 3, with ``y_j`` in the sum."""
    X, y, _, _ = small()
    K = zoo.KERNELS["rbf"][1](X, X)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(2.3), np.ones(23), None)
    lam, T = 0.1, 150
    batches = drawn("uniform", np.arange(23), np.ones(23), 1, T, seed=2)
    counts = np.zeros(23)
    for t, (i,) in enumerate(batches, start=1):
        score = y[i] / (lam * max(t - 1, 1)) * (counts * y) @ K[i]  # w_t; w_1 = 0
        counts[i] += score < 1.0
    point = points(KernelPegasos(order="uniform", seed=2, **TEXTBOOK), problem, T)[-1]
    np.testing.assert_allclose(point.w * y * lam * T, counts, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 40])
def test_a_small_cache_changes_nothing(k):
    X, y = zoo.blobs(150, 2, seed=1, apart=0.4)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.ones(150))
    small_cache, large = (
        minimize(problem, KernelPegasos(batch_size=k, max_memory=m), tol=1e-12, max_iter=600) for m in (0.0, 100.0)
    )
    np.testing.assert_allclose(small_cache.last.w, large.last.w, rtol=1e-9, atol=1e-12)
    assert small_cache.history[-1].counters["passes"] > large.history[-1].counters["passes"]


# ---- orders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 7, 10])
@pytest.mark.parametrize("order", ORDERS)
def test_batches_hold_different_samples(order, k):
    rows = np.array([1, 2, 3, 5, 8, 9, 11, 12, 15, 20])
    batches = drawn(order, rows, np.ones(10), k, 60, seed=0)
    assert all(np.unique(batch).size == k and np.isin(batch, rows).all() for batch in batches)
    visits = batches.ravel()
    if order != "uniform":  # every epoch visits each once
        epochs = visits[: visits.size // 10 * 10].reshape(-1, 10)
        assert (np.sort(epochs, axis=1) == rows).all()
        if order == "cyclic":
            assert (epochs == rows).all()
        else:
            assert len({epoch.tobytes() for epoch in epochs}) == len(epochs)


@pytest.mark.parametrize("k", [3, 20])
def test_independent_batches_repeat_samples(k):
    """Inventory 0-09 and 0-14: drawn with replacement, so that places of a batch know nothing of each other."""
    weights, T = np.array([1.0, 2.0, 3.0, 4.0, 10.0]), 20_000
    batches = drawn("independent", np.arange(5), weights, k, T, seed=2)
    share = weights / weights.sum()
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (batches[:, 0], batches[:, -1]), 1.0 / T)
    assert np.abs(pairs - np.outer(share, share)).max() <= 5.0 * np.sqrt(0.25 / T)
    _, _, _, problem = small(n=8)
    assert Pegasos(batch_size=k, order="independent").start(problem, None).k == k  # also more than there are


@pytest.mark.parametrize(("order", "k"), [("uniform", 1), ("uniform", 3), ("permutation", 3), ("independent", 3)])
def test_frequencies(order, k):
    """In proportion to the weights for single samples, else equal; in a permutation at every place."""
    T, weights = 30_000, np.array([1.0, 2.0, 3.0, 4.0, 10.0])
    batches = drawn(order, np.arange(5), weights, k, T, seed=4)
    by_weight = order == "independent" or (order, k) == ("uniform", 1)
    share = weights / weights.sum() if by_weight else np.full(5, 0.2)
    for place in range(k):
        seen = np.bincount(batches[:, place], minlength=5) / T
        assert np.abs(seen - share).max() <= 5.0 * np.sqrt(0.25 / T)


@pytest.mark.parametrize(("order", "k"), [("uniform", 1), ("uniform", 2), ("permutation", 1), ("cyclic", 4),
                                           ("independent", 3)])  # fmt: skip
def test_the_mean_subgradient_is_the_full_one(order, k):
    """Inventory 0-09: weights enter once, as probabilities or as factors."""
    _, _, s, problem = small(n=8, s=WEIGHTS[:8])
    state = Pegasos(batch_size=k, order=order, **TEXTBOOK).start(problem, None)
    T = 40_000
    share = np.bincount(drawn(order, np.arange(8), s, k, T, seed=0).ravel(), minlength=8) / (T * k)
    np.testing.assert_allclose(share * state.setting.known[:, 1], s / s.sum(), rtol=0, atol=0.02)


# ---- the dual point --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_the_dual_point_is_the_mean_slope_over_the_last_visits(order):
    X, y, s, problem = small(s=WEIGHTS, lam=0.3)
    T = 700
    batches = drawn(order, np.arange(23), s, 1, T, seed=0)
    w = textbook_iterates(X, y, s, 0.3, batches, order == "uniform")
    state = Pegasos(order=order, **TEXTBOOK).start(problem, None)
    while state.iterations < T:
        Pegasos(order=order, **TEXTBOOK).advance(problem, state, T - state.iterations)
    visits, gains = np.zeros(23), np.zeros(23)
    for t, (i,) in enumerate(batches):
        if t >= 256:  # where the window before the present one, from 512, began
            visits[i] += 1.0
            gains[i] += y[i] * (y[i] * (X[i] @ w[t]) < 1.0)
    alpha = s * gains / visits
    np.testing.assert_allclose(state.mean_slopes(s), alpha, rtol=1e-12, atol=1e-12)
    point = Pegasos(order=order, **TEXTBOOK).point(problem, state)
    case = referee.Machine(y, s, ("hinge", 1.0), ("l2", 0.3), X=X, intercept=None)
    value = referee.judge(case, point.w, point.b, point.alpha)
    assert value.infeasibility <= 1e-15
    assert value.dual >= referee.dual(case, alpha)[0] - 1e-9


ORDINARY = {
    "hinge": (Hinge(), zoo.blobs(200, 5, seed=1), ("hinge", 1.0)),
    "huber hinge": (HuberHinge(0.5), zoo.blobs(200, 5, seed=2), ("huber hinge", 0.5)),
    "logistic": (Logistic(1.0), zoo.blobs(200, 5, seed=3), ("logistic", 1.0)),
    "epsilon": (EpsilonInsensitive(0.1), zoo.line(200, 5, seed=4), ("epsilon", 0.1)),
}


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("solver", [Pegasos(), KernelPegasos()], ids=["rows", "kernel"])
def test_certifies_a_gap_of_a_hundredth_that_keeps_falling(solver, name, intercept):
    loss, (X, y), described = ORDINARY[name]
    s = np.random.default_rng(0).uniform(0.5, 1.5, size=200)
    operator = Rows(X) if solver.name == "pegasos" else KernelGram(zoo.KERNELS["rbf"][0], X)
    problem = Problem(operator, y, loss, L2(1.0), s, intercept)
    rough = minimize(problem, solver, tol=1e-2, max_iter=400_000)
    assert rough.status is Status.CONVERGED, rough.message
    X_or_K = {"X": X} if solver.name == "pegasos" else {"K": zoo.KERNELS["rbf"][1](X, X)}
    case = referee.Machine(y, s, described, ("l2", 1.0), intercept=intercept, **X_or_K)
    verdict = referee.judge(case, rough.point.w, rough.point.b, referee.repaired(case, rough.point.alpha))
    assert 0.0 <= verdict.relative_gap <= 1e-2
    gaps = [minimize(problem, solver, tol=0.0, max_iter=T).certificate.relative_gap for T in (2000, 16_000, 128_000)]
    assert all(later < 0.7 * earlier for earlier, later in pairwise(gaps)), gaps


@pytest.mark.parametrize("options", [{"order": "uniform"}, {"order": "cyclic"}, {"average": "uniform"},
                                     {"average": "weighted"}, {"order": "independent", "batch_size": 4},
                                     {"average": "last"}, {"batch_size": 10}, {"step0": None},
                                     {"projection": True}])  # fmt: skip
def test_every_option_certifies_a_gap(options):
    loss, (X, y), _ = ORDINARY["hinge"]
    problem = Problem(Rows(X), y, loss, L2(1.0), np.ones(200), "penalised")
    solution = minimize(problem, Pegasos(**options), tol=3e-2, max_iter=200_000)
    assert solution.status is Status.CONVERGED, solution.message


def test_warm_start_begins_at_the_given_point():
    for solver, operator in ((Pegasos(), Rows), (KernelPegasos(), lambda X: KernelGram(zoo.KERNELS["linear"][0], X))):
        for intercept in ("free", "penalised", None):
            X, y, s, rows = small(s=WEIGHTS, intercept=intercept)
            best = minimize(rows, Newton(), tol=1e-8)
            problem = Problem(operator(X), y, Hinge(), L2(2.0), s, intercept)
            solution = minimize(problem, solver, tol=1e-6, warm=best)
            assert (solution.status, solution.iterations) == (Status.CONVERGED, 0)
            later = minimize(problem, solver, tol=0.0, warm=best, max_iter=200).last
            assert np.isfinite(later.w).all()


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(loss="hinge", solver="pegasos", tol=1e-2),
        SVC(kernel="linear", solver="pegasos", tol=1e-2),
        SVC(kernel="rbf", solver="pegasos_kernel", tol=1e-2),
    ],
)
def test_estimators_take_it_by_name(model):
    X, y = ORDINARY["hinge"][1]
    model.fit(X, y)
    assert model.duality_gap_ <= 1e-2 * model.objective_
    assert model.score(X, y) > 0.8


def test_nothing_overflows():
    X, y = zoo.blobs(60, 3, seed=5, apart=0.2)
    for scale, lam in [(1e6, 1e-12), (1e-6, 1e12), (1e30, 1.0)]:
        problem = Problem(Rows(scale * X), y, Hinge(), L2(lam), np.ones(60), None)
        for options in ({}, TEXTBOOK, {"projection": True, **TEXTBOOK}):
            point = points(Pegasos(**options), problem, 300)[-1]
            assert np.isfinite(point.w).all()
            assert np.isfinite(point.alpha).all()


# ---- cost ------------------------------------------------------------------------------------------------------------


class CountingVectors(NamedTuple):
    """Sparse rows that count what is read of them."""

    data: Any
    indices: Any
    indptr: Any
    read: Any

    def dot(self, i, w):
        return self._counted(i).dot(i, w)

    def add(self, i, step, w):
        self._counted(i).add(i, step, w)

    def _counted(self, i):
        self.read[0] += self.indptr[i + 1] - self.indptr[i]
        return SparseVectors(self.data, self.indices, self.indptr)


@pytest.mark.parametrize("options", [{"average": "uniform", "step0": None}, {"average": "suffix", "step0": None},
                                     {"average": "last", "projection": True, "step0": None}])  # fmt: skip
def test_a_step_costs_as_much_as_its_row(options, monkeypatch):
    """Inventory 0-12: the operations of a step do not depend on the number of features."""
    monkeypatch.setattr(_jit, "PLAIN", True)
    rng, n, T, per_row = np.random.default_rng(0), 30, 400, 3
    read, rescalings = [], []
    for d in (1_000, 100_000):
        columns = rng.choice(1_000, size=(n, per_row))
        X = sp.csr_array((rng.normal(size=n * per_row), (np.repeat(np.arange(n), per_row), columns.ravel())), (n, d))
        problem = Problem(Rows(X), np.where(np.arange(n) % 2, 1.0, -1.0), Hinge(), L2(0.01), np.ones(n), None)
        solver = Pegasos(**options)
        with np.errstate(over="ignore"):
            state = solver.start(problem, None)
            count = np.zeros(1)
            problem.operator.vectors = CountingVectors(*problem.operator.vectors, count)
            solver.advance(problem, state, T)
        assert state.iterations == T
        read.append(count[0])
        rescalings.append(state.counters["rescalings"])
    assert max(read) <= 3 * per_row * T  # a product, and where the slope is not zero one for the norm and a sum
    assert max(rescalings) <= 20


# ---- bounds ----------------------------------------------------------------------------------------------------------


def bounded_problems():
    for seed, lam, n in [(0, 0.3, 40), (1, 3.0, 40), (2, 8.0, 60), (3, 0.05, 30)]:
        X, y = zoo.blobs(n, 3, seed=seed, apart=0.5)
        yield X, Problem(Rows(X), y, Hinge(), L2(lam), np.ones(n), None)


def excess(problem, w, optimum):
    n = problem.y.size
    X = problem.operator.vectors.X
    value = 0.5 * problem.lam * w @ w + np.maximum(0.0, 1.0 - problem.y * (X @ w)).sum()
    return (value - optimum) / n


@pytest.mark.parametrize("projected", [False, True])
def test_the_average_of_full_subgradient_steps_obeys_its_bound(projected):
    """Inventory 0-13: certain if every step uses all samples."""
    for X, problem in bounded_problems():
        n, R, optimum = len(X), np.linalg.norm(X, axis=1).max(), optimal_value(problem)
        solver = Pegasos(batch_size=n, projection=projected, average="uniform", step0=None)
        for T, point in enumerate(points(solver, problem, 200)[1:], start=1):
            limit = bounds.error_after(T, problem.lam / n, R, projected=projected)
            assert -1e-9 <= excess(problem, point.w, optimum) <= limit


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("k", [1, 7])
def test_random_batches_obey_their_bounds(k, projected):
    """Inventory 0-15: in the mean and, with the probability that is asked for, over 50 seeds."""
    for X, problem in bounded_problems():
        R, lam = np.linalg.norm(X, axis=1).max(), problem.lam / len(X)
        optimum, T = optimal_value(problem), 300
        errors = []
        for seed in range(50):
            solver = Pegasos(k, projected, "uniform", "uniform", None, seed)
            errors.append(excess(problem, points_at(solver, problem, T).w, optimum))
        assert np.mean(errors) <= bounds.error_after(T, lam, R, projected=projected)
        for delta in (0.5, 0.1, 0.02):
            failures = np.mean(np.array(errors) > bounds.error_after(T, lam, R, projected=projected, delta=delta))
            assert failures <= delta


@pytest.mark.parametrize("average", ["uniform", "weighted"])
def test_independent_weighted_batches_obey_their_bounds(average):
    """Inventory 0-11, 0-14, 0-15: samples drawn in proportion to their weights, and both averages."""
    for X, problem in bounded_problems():
        n, T = len(X), 300
        s = np.random.default_rng(n).uniform(0.1, 3.0, size=n)
        problem = replace(problem, s=s)
        R, lam, optimum = (
            bounds.largest_row(np.linalg.norm(X, axis=1), s),
            problem.lam / s.sum(),
            optimal_value(problem),
        )
        errors = []
        for seed in range(30):
            w = points_at(Pegasos(4, average=average, order="independent", step0=None, seed=seed), problem, T).w
            losses = np.maximum(0.0, 1.0 - problem.y * (X @ w))
            errors.append(0.5 * lam * w @ w + (s @ losses - optimum) / s.sum())
        assert np.mean(errors) <= bounds.error_after(T, lam, R, point=average)
        limit = bounds.error_after(T, lam, R, point=average, delta=0.1)
        assert np.mean(np.array(errors) > limit) <= 0.1


def test_a_run_that_is_stopped_at_random_is_good_every_other_time():
    """Inventory 0-15: lemma 3, with probability 1/2 at most twice the bound of the mean."""
    rng = np.random.default_rng(0)
    for X, problem in bounded_problems():
        R, lam = np.linalg.norm(X, axis=1).max(), problem.lam / len(X)
        optimum, T, good = optimal_value(problem), 300, []
        limit = bounds.error_after(T, lam, R, delta=0.5, point="random")
        assert limit == pytest.approx(2.0 * bounds.error_after(T, lam, R), rel=1e-14)
        for seed in range(30):
            solver = Pegasos(average="last", order="independent", step0=None, seed=seed)
            w = points_at(solver, problem, int(rng.integers(1, T))).w
            good.append(excess(problem, w, optimum) <= limit)
        assert np.mean(good) >= 0.5


def points_at(solver, problem, T):
    return solver.point(problem, solver.advance(problem, solver.start(problem, None), T))


def test_bounds_are_the_printed_formulas():
    lam, R, T, delta = 0.01, 2.0, 5000, 0.05
    for projected, c in ((False, 4 * R**2), (True, (math.sqrt(lam) + R) ** 2)):
        assert bounds.subgradient_bound(lam, R, projected=projected) == pytest.approx(c, rel=1e-15)
        mean = c * (1 + math.log(T)) / (2 * lam * T)
        assert bounds.error_after(T, lam, R, projected=projected) == pytest.approx(mean, rel=1e-14)
        both = mean / delta, 21 * c * math.log(T / delta) / (lam * T)
        assert bounds.error_after(T, lam, R, projected=projected, delta=delta) == pytest.approx(min(both), rel=1e-14)
    # Corollary 2 is the smaller one if delta is small, but does not hold for small rows or a large lam.
    assert bounds.error_after(T, lam, R, delta=1e-4) < 0.1 * bounds.error_after(T, lam, R) / 1e-4
    for lam, R in ((0.01, 0.9), (0.3, 2.0)):
        assert bounds.error_after(T, lam, R, delta=1e-4) == pytest.approx(bounds.error_after(T, lam, R) / 1e-4)


def test_weights_that_grow_do_without_the_logarithm():
    """``r_(t+1) <= (1 - 2 / t) r_t + 1 / t^2`` gives ``r_(t+1) <= 1 / t``, which is what the bound needs."""
    r = 0.0
    for t in range(1, 200):
        r = max(1.0 - 2.0 / t, 0.0) * r + 1.0 / t**2
        assert r <= (1.0 + 1e-12) / t
    lam, R = 0.01, 2.0
    for T in (1, 10, 10_000):
        assert bounds.error_after(T, lam, R, point="weighted") == pytest.approx(2 * 4 * R**2 / (lam * (T + 1)))
    assert bounds.steps_for(1e-3, lam, R, point="weighted") < 0.5 * bounds.steps_for(1e-3, lam, R)
    weights = np.array([3.0, 1.0, 0.0])
    assert bounds.largest_row([1.0, 2.0, 9.0], weights) == 2.0
    assert bounds.largest_row([1.0, 2.0, 9.0], weights, proportional=False) == 1.5


@pytest.mark.parametrize("delta", [None, 0.5, 1e-3])
@pytest.mark.parametrize("epsilon", [10.0, 0.3, 1e-3])
@pytest.mark.parametrize(("lam", "R"), [(1e-4, 1.0), (0.2, 3.0), (0.5, 0.1)])
def test_steps_are_just_enough(lam, R, epsilon, delta):
    T = bounds.steps_for(epsilon, lam, R, delta=delta)
    assert bounds.error_after(T, lam, R, delta=delta) <= epsilon
    assert T == 1 or bounds.error_after(T - 1, lam, R, delta=delta) > epsilon


@pytest.mark.parametrize(("call", "fragment"), [
    (lambda: bounds.error_after(0, 0.1, 1.0), "T=0 must be at least 1"),
    (lambda: bounds.error_after(5, 0.0, 1.0), "lam=0.0 must be positive"),
    (lambda: bounds.error_after(5, 0.1, -1.0), "R=-1.0 must be at least 0"),
    (lambda: bounds.error_after(5, 0.1, 1.0, delta=1.0), "delta=1.0 must be between 0 and 1"),
    (lambda: bounds.steps_for(0.0, 0.1, 1.0), "epsilon=0.0 must be positive"),
    (lambda: bounds.error_after(5, 0.1, 1.0, point="last"), "point='last' must be one of uniform, weighted, random"),
    (lambda: bounds.step_in_ball(0, 1.0, 1.0), "k=0 must be at least 1"),
    (lambda: bounds.error_in_ball(5, 0.0, 1.0), "X=0.0 must be positive"),
    (lambda: bounds.deviation_over_ball(5, 1.0, 1.0, delta=2.0), "delta=2.0 must be between 0 and 1"),
])  # fmt: skip
def test_bounds_refuse_what_makes_no_sense(call, fragment):
    with pytest.raises(ValueError, match=fragment):
        call()


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_refusals():
    X, y, s, problem = small(intercept="free")
    gram = KernelGram(zoo.KERNELS["rbf"][0], X)
    kernel = Problem(gram, y, Hinge(), L2(1.0), s)
    for solver, refused, fragment in [
        (Pegasos(), kernel, "rows of features"),
        (Pegasos(), Problem(Rows(X), y, Hinge(), L1(1.0), s), "L2 penalty; this problem has L1"),
        (Pegasos(), Problem(Rows(X), y, SquaredHinge(), L2(1.0), s), "those of SquaredHinge are not"),
        (Pegasos(step0=None), problem, "use step0='probe'"),
        (Pegasos(projection=True), problem, "the ball does not bound a free one"),
        (KernelPegasos(), problem, "kernel matrix"),
        (KernelPegasos(), BoxQP.of(kernel), "kernel matrix"),
        (KernelPegasos(), Problem(gram, y, Squared(), L2(1.0), s), "those of Squared are not"),
    ]:
        with pytest.raises(ValueError, match=fragment):
            minimize(refused, solver)


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"average": "mean"}, {"order": "random"}, {"step0": "small"}])
def test_unknown_options_are_refused(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        Pegasos(**options)
