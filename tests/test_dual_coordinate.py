"""Dual coordinate descent: every option leads to the optimum that the referee certifies."""

import numpy as np
import pytest
import scipy.sparse as sp

import zoo
from maxmargin import Problem, Status, minimize
from maxmargin.operators import Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic, Squared, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import Blocks, DualCoordinate
from maxmargin.solvers.relay import Relay
from maxmargin.solvers.rows.dual_coordinate import clipped_conjugate_gradients
from test_solvers import CASES, assert_honest

TOL = 1e-6
OPTIONS = {
    "default": {},
    "without shrinking": {"shrinking": False},
    "without faces": {"faces": False},
}
SOME = [
    "hinge, rows, weighted",
    "squared hinge, rows, weighted",
    "logistic, rows, weighted",
    "epsilon, rows, weighted",
    "intercept penalised, rows",
    "intercept None, rows",
    "duplicated rows, opposite label, rows",
    "zero weights, rows",
]


def words(n=3000, d=2000, seed=0, dtype=np.float64):
    """Sparse rows of unit length and noisy labels."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.01, format="csr", random_state=rng, dtype=np.float64)
    X.data += 0.5
    X = (sp.diags(1.0 / np.sqrt(np.maximum(np.asarray(X.multiply(X).sum(axis=1)).ravel(), 1e-12))) @ X).tocsr()
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return X.astype(dtype), y


def problem_of(X, y, loss, intercept=None, C=10.0):
    return Problem(Rows(X), y, loss, L2(1.0), np.full(y.size, C), intercept)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", SOME)
def test_every_option_reaches_the_optimum(name, options):
    case = CASES[name]
    problem, solver = case.build(), DualCoordinate(**options)
    minimize(problem, solver, max_iter=1)  # compiles
    solution = minimize(problem, solver, tol=TOL, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert_honest(case.describe(), solution)


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared hinge"])
def test_options_agree_on_sparse_rows(loss, intercept):
    problem = problem_of(*words(), loss, intercept)
    values = []
    for options in OPTIONS.values():
        solution = minimize(problem, DualCoordinate(**options), tol=TOL, max_time=60.0)
        assert solution.status is Status.CONVERGED, solution.message
        values.append(solution.certificate.primal)
    assert values == pytest.approx(np.full(len(values), min(values)), rel=2.0 * TOL)


def test_shrinking_visits_fewer_rows():
    problem = problem_of(*words(), Hinge())
    with_it, without = (
        minimize(problem, DualCoordinate(shrinking=flag, faces=False), tol=TOL) for flag in (True, False)
    )
    assert with_it.history[-1].counters["passes"] < 0.7 * without.history[-1].counters["passes"]
    assert with_it.history[-1].counters["active"] < without.history[-1].counters["active"] == 3000


@pytest.mark.parametrize("intercept", [None, "penalised", "free"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic(), Squared(), EpsilonInsensitive()], ids=repr)
def test_no_face_lowers_the_dual_value(loss, intercept):
    """Nor does an epoch, whose steps are exact; with a free intercept, it is the augmented Lagrangian that rises."""
    solver, crossed = DualCoordinate(), 0
    X, y = words(n=400, d=2000)
    problem = problem_of(X, y, loss, intercept, C=100.0)
    state = solver.start(problem, None)
    for _ in range(30):
        before, height = state.alpha.copy(), state.height
        if state.passes > 0.0:
            solver._cross_face(problem, state)
        crossed += not np.array_equal(state.alpha, before)
        assert state.height >= height - 1e-12 * abs(height)
        np.testing.assert_allclose(state.w, X.T @ state.alpha, atol=1e-9 * np.abs(state.alpha).sum())
        np.testing.assert_allclose(state.alpha, problem.feasible(state.alpha) if intercept != "free" else state.alpha)
        state = solver.advance(problem, state, 5)
    assert crossed > 0


@pytest.mark.parametrize("tau", [0.0, 2.0])
def test_conjugate_gradients_stop_at_walls_or_at_the_lowest_point(tau):
    X, y = words(n=300, d=500)
    H = 0.5 * X.toarray() @ X.toarray().T + tau + 0.3 * np.eye(y.size)
    vectors, c, zero = Rows(X).vectors, np.full(y.size, 0.3), np.zeros(y.size)

    def value(p):
        return 0.5 * p @ H @ p - y @ p

    for wall in (np.inf, 1.0, 1e-3):
        p, low, high = zero, zero - wall, zero + wall
        for _ in range(12):  # each reduces the residual to a tenth, or ends where a wall does harm
            r = y - H @ p
            better, visited = clipped_conjugate_gradients(
                vectors, r, c, H.diagonal().copy(), 0.5, tau, p, low, high, X.shape[1], 1e6
            )
            assert value(better) <= value(p) + 1e-12 * abs(value(p))
            assert np.abs(better).max() <= wall
            assert visited % y.size == 0
            p = better
        assert value(p) < 0.0
        if wall == np.inf:
            np.testing.assert_allclose(p, np.linalg.solve(H, y), atol=1e-9)


def test_faces_save_most_of_the_work_of_a_hard_problem():
    problem = problem_of(*words(d=500), Hinge(), C=1e3)
    with_them, without = (minimize(problem, DualCoordinate(faces=flag), tol=1e-8) for flag in (True, False))
    assert with_them.history[-1].counters["passes"] < 0.5 * without.history[-1].counters["passes"]


def test_a_face_that_would_lower_the_dual_is_left_alone(monkeypatch):
    import maxmargin.solvers.rows.dual_coordinate as module

    X, y = words(n=400)
    problem, solver = problem_of(X, y, SquaredHinge()), DualCoordinate()
    calls = []

    def spoil(*arguments):
        calls.append(1)
        return -1e3 * arguments[6], 0

    monkeypatch.setattr(module, "FACES_AFTER", 0.0)
    monkeypatch.setattr(module, "clipped_conjugate_gradients", spoil)
    solution = minimize(problem, solver, tol=1e-9)
    assert solution.status is Status.CONVERGED
    state = solver.start(problem, None)
    for _ in range(60):
        state = solver.advance(problem, state, 1)
    assert len(calls) > 1
    assert state.waiting > 1
    assert state.dual == pytest.approx(solution.certificate.dual, rel=1e-3)


@pytest.mark.parametrize("relayed", [False, True], ids=["alone", "in a relay"])
def test_all_rows_are_visited_after_a_point_that_was_not_good_enough(relayed):
    problem, alone = problem_of(*words(), Hinge()), DualCoordinate()
    solver = Relay(alone, Blocks(), patience=1000) if relayed else alone
    state = solver.start(problem, None)
    own = state.inner if relayed else state
    for _ in range(3):  # without doubts, all rows are visited again after five epochs' worth of work
        state = solver.advance(problem, state, 1)
    assert own.course.active < 3000
    assert own.course.violation == np.inf
    state.doubted, passes = True, own.passes
    state = solver.advance(problem, state, 1)
    assert own.passes >= passes + 1.0
    assert own.course.violation < np.inf
    assert not state.doubted


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_float32_is_used_as_it_is(dense):
    X, y = words(n=500, d=200, dtype=np.float32)
    X = X.toarray() if dense else X
    problem = problem_of(X, y, Hinge())
    stored = problem.operator.vectors[0]
    assert np.shares_memory(stored, X if dense else X.data)
    solution = minimize(problem, DualCoordinate(), tol=TOL)
    same = problem_of(X.astype(np.float64), y, Hinge())
    certificate = same.certify(solution.point)
    assert certificate.relative_gap <= 1.001 * TOL
    assert certificate.primal == pytest.approx(solution.certificate.primal, rel=1e-12)


@pytest.mark.parametrize("intercept", [None, "free"])
def test_checkpoints_change_nothing(tmp_path, intercept):
    """They are written when the clock says so; asking for a point used to bring back all rows."""
    problem = problem_of(*words(), Hinge(), intercept)
    quiet = minimize(problem, DualCoordinate(), tol=TOL)
    noted = minimize(problem, DualCoordinate(), tol=TOL, checkpoint=tmp_path / "fit", checkpoint_every=0.0)
    assert quiet.iterations == noted.iterations
    np.testing.assert_array_equal(quiet.point.alpha, noted.point.alpha)


def test_equal_seeds_give_equal_bits():
    problem = problem_of(*words(n=800), Hinge())
    first, second = (minimize(problem, DualCoordinate(seed=3), tol=TOL).point.alpha for _ in range(2))
    assert np.array_equal(first, second)


def test_zoo_has_what_is_used_here():
    assert set(SOME) <= {case.name for case in zoo.cases()}
