"""Block decomposition: shrinking, precision, the cache and the face steps; the zoo is in test_solvers.py."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification

import referee
import zoo
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Status
from maxmargin.operators import KernelGram, gram
from maxmargin.operators.gram import StoredGram
from maxmargin.operators.row_cache import RowCache
from maxmargin.parts import losses, penalties
from maxmargin.parts.kernels import RBF, Linear, Polynomial
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers.kernels import block_loops as loops
from maxmargin.solvers.kernels.decomposition import Decomposition, DecompositionState, state
from maxmargin.solvers.kernels.decomposition.variables import Active
from maxmargin.threads import Workers

KERNEL_CASES = [
    case
    for case in zoo.cases()
    if "decomposition" not in case.hard_for and Decomposition().supports(case.build()) is None
]


def noisy(n=1500, d=8, seed=0, flip=0.1):
    X, y = make_classification(n, d, n_informative=d - 2, flip_y=flip, class_sep=0.7, random_state=seed)
    return X, np.where(y > 0, 1.0, -1.0)


def problem_of(X, y, C=1.0, kernel=None, workers=1, **options):
    gram = KernelGram(kernel or RBF(0.1), X, Workers(workers))
    return Problem(gram, y, losses.Hinge(), penalties.L2(1.0), np.full(y.size, float(C)), **options)


def referees_gap(X, y, C, gamma, solution):
    sq = (X**2).sum(axis=1)
    K = np.exp(-gamma * np.maximum(sq[:, None] + sq - 2.0 * X @ X.T, 0.0))
    machine = referee.Machine(y, np.full(y.size, C), ("hinge", 1.0), ("l2", 1.0), K=K)
    alpha = solution.point.alpha
    return referee.judge(machine, alpha, solution.point.b, alpha).relative_gap


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_the_certificate_is_the_referees_with_float32_rows(C, layout):
    X, y = noisy()
    solution = minimize(problem_of(layout(X), y, C), Decomposition(), tol=1e-6, max_time=60.0)
    assert solution.status is Status.CONVERGED
    assert solution.history[-1].counters["megabytes"] > 0.0
    certificate = solution.certificate
    assert referees_gap(X, y, C, 0.1, solution) == pytest.approx(certificate.gap / certificate.primal, abs=1e-9)


@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_the_estimate_of_rounding_covers_it(C):
    X, y = noisy(3000)
    problem = problem_of(X, y, C)
    progress = Decomposition(shrinking=False).start(problem, None)
    while progress.relative_gap > 0.05:
        progress.step()
    assert progress.cache.arena.dtype == np.float32
    exact = problem.operator.apply(progress.qp.expansion(progress.variables()))
    assert 0.0 < np.abs(progress.live - exact).max() < 2.0 * progress.drift
    assert progress.drift < 100.0 * np.abs(progress.live - exact).max()


def test_screening_does_not_change_the_certificate(monkeypatch):
    X, y = noisy(4000)
    problem = problem_of(X, y, 1.0)
    solution = minimize(problem, Decomposition(), tol=1e-3, max_time=60.0)
    monkeypatch.setattr(KernelGram, "apply_where", lambda self, w, matters: self.apply(w))
    plain = problem.certify(solution.point)
    assert solution.certificate.primal == pytest.approx(plain.primal, rel=1e-13)
    assert solution.certificate.dual == pytest.approx(plain.dual, rel=1e-13)
    assert np.count_nonzero(solution.point.alpha) * np.sum(solution.point.alpha == 0.0) > gram.SCREENED_VALUES


def test_with_and_without_shrinking_the_optimum_is_the_same():
    X, y = noisy(3000)
    problem = problem_of(X, y, 10.0)
    shrunk, plain = (minimize(problem, Decomposition(shrinking=s), tol=1e-7, max_time=60.0) for s in (True, False))
    assert shrunk.status is plain.status is Status.CONVERGED
    assert shrunk.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-7)
    assert min(r.counters["active"] for r in shrunk.history) < y.size
    assert all(r.counters["active"] == y.size for r in plain.history)


def leave_out_all_at_bounds(monkeypatch):
    """Leave out whatever is at a bound for a moment: that is wrong again and again, and the result must not show it."""
    honest, shrink = loops.settled, DecompositionState._shrink

    def hasty_shrink(self):
        monkeypatch.setattr(loops, "settled", lambda a, e, low, high, *_: (a <= low) | (a >= high))
        shrink(self)
        monkeypatch.setattr(loops, "settled", honest)

    monkeypatch.setattr(DecompositionState, "_shrink", hasty_shrink)
    monkeypatch.setattr(state, "SHRINK_AGE", 2)


def programs_that_shrink():
    """Of one group, of two and of none; lines and parabolas as losses; finite and infinite boxes; in float64."""
    X, y = noisy(1000)
    t = np.tanh(X[:, 0]) + 0.2 * y
    n, gram = y.size, KernelGram(RBF(0.1), X)
    zeros, everyone, groups = np.zeros(n), np.arange(n), np.where(y > 0.0, 0, 1)

    def machine(loss, target=y, C=1.0, intercept="free"):
        return BoxQP.of(Problem(gram, target, loss, penalties.L2(1.0), np.full(n, C), intercept))

    yield "C-SVC", machine(losses.Hinge(), C=10.0)
    yield "C-SVC without an intercept", machine(losses.Hinge(), intercept=None)
    yield "C-SVC, squared hinge", machine(losses.SquaredHinge())
    yield "C-SVC, Huber hinge", machine(losses.HuberHinge())
    yield "SVR", machine(losses.EpsilonInsensitive(0.1), t)
    yield "SVR, squared", machine(losses.SquaredEpsilonInsensitive(0.1), t)
    yield "nu-SVC", BoxQP(gram, zeros, -1.0 * groups, 1.0 - groups, zeros, everyone, groups, np.array([0.2, -0.2]) * n)
    yield "one-class", BoxQP(gram, zeros, zeros, np.ones(n), zeros, everyone, 0 * everyone, np.array([0.2]) * n)


def gap_at_one_multiplier(qp, a, f, b):
    """The duality gap at the scores ``f`` that belong to the variables, with the same multipliers for all of them."""
    r = qp.q - f - (b[qp.group] if qp.totals.size else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(qp.D > 0.0, np.clip(r / qp.D, qp.low, qp.high), np.where(r > 0.0, qp.high, qp.low))
        support = np.where((best == 0.0) | (r == 0.0), 0.0, best * r - np.where(qp.D > 0.0, 0.5 * qp.D * best**2, 0.0))
    return support.sum() - r @ a + 0.5 * (qp.D @ a**2)


@pytest.mark.parametrize("hasty", [False, True])
@pytest.mark.parametrize("qp", [pytest.param(qp, id=name) for name, qp in programs_that_shrink()])
def test_the_estimate_is_that_of_one_multiplier_for_all_samples(qp, hasty, monkeypatch):
    """After every step and every shrinking. Only the gap of the samples that are left out may be that of old scores."""
    take_stock, K = DecompositionState.take_stock, qp.gram.block(np.arange(qp.gram.n_samples))
    kept, left_out = [], []

    def checked(self):
        before = self.left_out.known
        take_stock(self)
        a, b, f = self.variables(), self.order.middle, self.scores()
        exact = (K @ qp.expansion(a))[qp.sample]
        dual, scale = qp.q @ a - 0.5 * (a @ exact) - 0.5 * (qp.D @ a**2), abs(self.primal)
        assert self.dual == pytest.approx(dual, abs=1e-10 * scale)
        assert self.primal - self.dual == pytest.approx(gap_at_one_multiplier(qp, a, f, b), abs=1e-10 * scale)
        if self.left_out:
            kept.append(self.left_out.known is before)
            left_out.append(self.left_out.gap)

    monkeypatch.setattr(DecompositionState, "take_stock", checked)
    monkeypatch.setattr(state, "SHRINK_SHARE", 0.1)  # so that this happens often
    monkeypatch.setattr(state, "OTHERS_SHARE", 0.9)  # and lasts
    if hasty:
        leave_out_all_at_bounds(monkeypatch)
    progress = Decomposition(block_size=64, tol=1e-6).start(qp, None)
    while not (progress.exhausted or progress.seems_done() or progress.iterations == 100):
        progress.step()
    if hasty:
        assert max(left_out) > 0.0
    else:
        assert sum(kept) > len(kept) / 2 > 0  # mostly without a look at the variables that are left out
    progress.synchronise()
    a, b = progress.variables(), progress.order.middle
    certificate, scale = qp.certify(Point(a, 0.0, a)), abs(progress.primal)
    gap = gap_at_one_multiplier(qp, a, qp.scores(a), b)
    assert progress.dual == pytest.approx(certificate.dual, abs=1e-10 * scale)
    assert progress.primal - progress.dual == pytest.approx(gap, abs=1e-10 * scale)
    assert certificate.primal <= progress.primal + 1e-10 * scale  # which has the best multiplier


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("seed", range(20))
def test_the_gap_is_known_up_to_the_next_kink(groups, seed):
    """For lines and parabolas, boxes that are infinite or points, and multipliers right at a kink."""
    rng = np.random.default_rng(seed)
    n, b = 12, rng.integers(-2, 3, size=max(1, groups)) / 2.0 if groups else np.zeros(1)
    low, high = -rng.integers(0, 3, size=n) / 2.0, rng.integers(0, 3, size=n) / 2.0
    group, D = rng.integers(0, max(1, groups), size=n), np.where(rng.random(n) < 0.5, 0.0, 0.5)
    f, q = np.zeros(n), np.where(rng.random(n) < 0.8, rng.standard_normal(n), rng.integers(-2, 3, size=n) / 2.0)
    high[(D > 0.0) & (rng.random(n) < 0.3)] = np.inf
    high[(D == 0.0) & (q <= b[group]) & (rng.random(n) < 0.3)] = np.inf
    a = np.clip(rng.standard_normal(n), low, high)
    qp = BoxQP(KernelGram(RBF(0.5), np.eye(n)), q, low, high, D, np.arange(n), group, np.zeros(groups))
    near = Active.of(qp, a, np.arange(n)).gap_near(q - D * a, b)
    assert near.at(b) == pytest.approx(gap_at_one_multiplier(qp, a, f, b), abs=1e-12)
    for g in range(groups):
        for direction, room in ((1.0, near.rise[g]), (-1.0, near.fall[g])):
            for share in (0.3, 0.999):
                other = b.copy()
                other[g] += direction * share * min(room, 3.0)
                assert near.reaches(other)
                assert near.at(other) == pytest.approx(gap_at_one_multiplier(qp, a, f, other), abs=1e-12)
            other[g] = b[g] + direction * (room + 1e-9)
            assert math.isinf(room) or not near.reaches(other)


def test_samples_that_were_left_out_by_mistake_come_back(monkeypatch):
    back = []
    leave_out_all_at_bounds(monkeypatch)
    widen = RowCache.widen
    monkeypatch.setattr(RowCache, "widen", lambda self, samples: (back.append(samples.size), widen(self, samples)))
    X, y = noisy(2000)
    solution = minimize(problem_of(X, y, 1.0), Decomposition(), tol=1e-6, max_time=60.0)
    assert solution.status is Status.CONVERGED
    assert referees_gap(X, y, 1.0, 0.1, solution) <= 1.01e-6
    assert sum(back) > 0


def test_float32_rows_reach_gaps_far_below_their_precision():
    X, y = noisy(2000, flip=0.2)
    solution = minimize(problem_of(X, y, 100.0), Decomposition(tol=1e-10), tol=1e-10, max_time=120.0)
    assert solution.certificate.relative_gap <= 1e-10
    assert solution.history[-1].counters["refreshes"] >= 1


def test_duplicates_with_a_large_C():
    X, y = noisy(400)
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)
    solution = minimize(problem_of(X, y, 1e4), Decomposition(), tol=1e-4, max_time=60.0)
    assert solution.certificate.relative_gap <= 1e-4


def test_an_offset_of_the_data_changes_nothing():
    X, y = noisy(1500)
    near, far = (minimize(problem_of(Z, y, 1.0), Decomposition(), tol=1e-6) for Z in (X, X + 1e6))
    assert near.status is far.status is Status.CONVERGED
    assert far.certificate.primal == pytest.approx(near.certificate.primal, rel=1e-5)


def test_values_beyond_float32_use_float64():
    X, y = noisy(1200, 4)
    problem = problem_of(1e8 * X, y, 1e-60, kernel=Polynomial(3, 1.0, 0.0))
    assert not problem.operator.fits_single
    solution = minimize(problem, Decomposition(), tol=1e-3, max_time=20.0)
    assert np.isfinite(solution.certificate.primal)


@pytest.mark.parametrize("megabytes", [0.1, 2.0, 1000.0])
def test_the_cache_is_bounded_and_changes_nothing(megabytes):
    X, y = noisy(2000)
    solution = minimize(problem_of(X, y, 10.0), Decomposition(block_size=128, max_memory=megabytes), tol=1e-5)
    assert solution.status is Status.CONVERGED
    least = 2 * 128 * y.size * 4 / 2**20  # two blocks
    assert solution.history[-1].counters["megabytes"] <= max(megabytes, least) + 0.01


def test_equal_bits_for_any_number_of_threads():
    X, y = noisy(3000)
    one, three = (minimize(problem_of(X, y, 10.0, workers=w), Decomposition(), tol=1e-5) for w in (1, 3))
    assert np.array_equal(one.point.alpha, three.point.alpha)
    assert one.certificate == three.certificate


def test_history_tells_what_the_time_went_into():
    X, y = noisy(2000)
    counters = minimize(problem_of(X, y, 10.0), Decomposition(), tol=1e-5).history[-1].counters
    assert counters["kernel_evaluations"] > 0
    assert counters["cache_hits"] > 0
    assert counters["pair_steps"] > 0
    assert counters["passes"] == pytest.approx(counters["kernel_evaluations"] / y.size**2)
    assert {"seconds_kernel", "seconds_block", "seconds_update", "seconds_choice"} <= set(counters)


def random_program(groups, seed):
    """A program of few variables, and a feasible point at which some of them are at their bounds."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 9))
    a = rng.integers(0, 3, size=n) / 2.0 + np.where(rng.random(n) < 0.3, 0.25, 0.0)
    low, high = np.zeros(n), np.where(rng.random(n) < 0.1, a, np.maximum(a, 1.0))  # some cannot move at all
    group = rng.integers(0, max(1, groups), size=n)
    totals = np.array([a[group == g].sum() for g in range(groups)])
    gram = KernelGram(RBF(0.5), rng.standard_normal((n, 2)))
    q = np.round(3.0 * rng.standard_normal(n), int(rng.integers(0, 4)))
    return BoxQP(gram, q, low, high, np.zeros(n), np.arange(n), group, totals), a


def steepest_value(qp, a, size, allowed):
    """Of ``e^T d``, over every ``d`` of -1, 0 and 1 that is feasible and has few entries, all of them allowed."""
    d = np.array(list(itertools.product((-1, 0, 1), repeat=a.size)))
    feasible = (np.count_nonzero(d, axis=1) <= size) & ~d[:, ~allowed].any(axis=1)
    feasible &= ~((d > 0) & (a >= qp.high)).any(axis=1) & ~((d < 0) & (a <= qp.low)).any(axis=1)
    for g in range(qp.totals.size):
        feasible &= d[:, qp.group == g].sum(axis=1) == 0
    return (d[feasible] @ (qp.q - qp.scores(a))).max()


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("seed", range(100))
def test_the_working_set_is_that_of_the_steepest_feasible_direction(groups, seed):
    """Inventory 0-31, against brute force over all directions."""
    qp, a = random_program(groups, seed)
    for size in (2, 3, 4, 5):
        started = Decomposition(block_size=size).start(qp, Point(a, 0.0, a))
        block = started.blocks.choose(started.active, started.order, iterations=16)  # past the first, small blocks
        assert block.size == np.unique(block).size <= size
        everybody, chosen = np.ones(a.size, dtype=bool), np.isin(np.arange(a.size), block)
        best = steepest_value(qp, a, size, everybody)
        assert steepest_value(qp, a, size, chosen) == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_worst_pair_is_in_every_block(size):
    """Also beside what is kept of the last block."""
    X, y = noisy(300)
    progress = Decomposition(block_size=size).start(problem_of(X, y), None)
    for _ in range(50):
        e, active = progress.order.e, progress.active
        block = progress.blocks.choose(active, progress.order, progress.iterations)
        up, down = block[active.rises[block]], block[active.falls[block]]
        assert e[up].max() == e[active.rises].max()
        assert e[down].min() == e[active.falls].min()
        progress._step_on_block()
        progress.iterations += 1
        progress.take_stock()


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
def test_blocks_of_any_size_reach_the_optimum(case, size):
    solution = minimize(case.build(), Decomposition(block_size=size), tol=1e-6, max_time=60.0)
    assert solution.status is Status.CONVERGED, solution.message
    value, certificate = referee.reference_optimum(case.describe()), solution.certificate
    accuracy = 1e-7 * max(abs(value), abs(certificate.primal)) + 1e-9
    assert certificate.dual - accuracy <= value <= certificate.primal + accuracy


@pytest.mark.parametrize("size", [-3, 0, 1])
def test_a_block_of_less_than_two_is_refused(size):
    with pytest.raises(ValueError, match=rf"block_size={size} is too small.*at least 2"):
        Decomposition(block_size=size)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_narrowed_and_widened_rows_are_those_of_the_kernel(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 30))
    X = rng.standard_normal((n, 3))
    gram = KernelGram(RBF(0.3), X)
    K = 0.5 * gram.block(np.arange(n)) + 2.0
    cache = RowCache(gram, 1.0, 0.5, 2.0, np.float64, least_rows=4)
    cache.arena = cache.arena[: 6 * n].copy()
    cache.rows = cache._rows()
    cache.sample, cache.used = np.full(len(cache.rows), -1), np.arange(-len(cache.rows), 0)
    active = np.arange(n)
    for _ in range(12):
        wanted = rng.choice(n, size=min(3, n), replace=False)
        slots = cache.fetch(wanted)
        np.testing.assert_allclose(cache.rows[slots], K[np.ix_(wanted, cache.columns)], rtol=1e-12)
        assert np.array_equal(np.sort(cache.columns), np.sort(active))
        stored = np.flatnonzero(cache.slot >= 0)
        np.testing.assert_allclose(cache.rows[cache.slot[stored]], K[np.ix_(stored, cache.columns)], rtol=1e-12)
        if rng.random() < 0.5 and active.size > 2:
            keep = rng.random(cache.columns.size) < 0.7
            keep[0] = True
            active = cache.columns[keep]
            cache.narrow(keep)
        elif active.size < n:
            missing = np.setdiff1d(np.arange(n), active)
            added = rng.choice(missing, size=int(rng.integers(1, missing.size + 1)), replace=False)
            cache.widen(added)
            active = np.concatenate([active, added])
        weights = np.where(rng.random(n) < 0.3, rng.standard_normal(n), 0.0)
        np.testing.assert_allclose(cache.combine(weights), weights @ K[:, cache.columns], rtol=1e-10, atol=1e-12)


def test_a_stored_matrix_gives_the_same_answers():
    X, y = noisy(1200)
    gram = KernelGram(RBF(0.1), X)
    plain, stored = (
        minimize(
            Problem(g, y, losses.Hinge(), penalties.L2(1.0), np.ones(y.size)), Decomposition(), tol=1e-7, max_time=60.0
        )
        for g in (gram, StoredGram(gram))
    )
    assert plain.status is stored.status is Status.CONVERGED
    assert stored.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-7)


def test_a_few_samples_are_solved_to_the_last_digit():
    X, y = noisy(100)
    certificate = minimize(problem_of(X, y), Decomposition(), tol=1e-1).certificate
    assert certificate.gap < 1e-12 * certificate.primal


def test_warm_start_needs_less():
    X, y = noisy(2000)
    problem = problem_of(X, y, 10.0)
    cold = minimize(problem, Decomposition(), tol=1e-4)
    warm = minimize(problem, Decomposition(), tol=1e-4, warm=Point(cold.point.w, cold.point.b, cold.point.alpha))
    assert warm.iterations < cold.iterations


def test_the_linear_kernel_and_more_features_than_samples():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 500)), np.where(rng.random(60) < 0.5, 1.0, -1.0)
    solution = minimize(problem_of(X, y, 1.0, kernel=Linear()), Decomposition(), tol=1e-8)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("n", [1000, 2500])
def test_left_out_samples_are_checked_in_the_precision_that_the_gap_needs(n):
    """With a large C, float32 scores of the samples that are left out would hide violations."""
    X, y = make_classification(n, 8, n_informative=5, flip_y=0.1, random_state=0)
    y = np.where(y > 0, 1.0, -1.0)
    problem = problem_of(X, y, 1e4, kernel=RBF(1.0 / (8.0 * X.var())))
    solution = minimize(problem, Decomposition(tol=1e-8), tol=1e-8)
    assert solution.status is Status.CONVERGED
