"""Blocks of the worst rows: right where few rows make coordinate descent crawl."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import referee
from maxmargin import LinearSVC, Problem, Status, explain_solver, minimize
from maxmargin.operators import Rows
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import Blocks, DualCoordinate, choice
from maxmargin.solvers.rows import blocks


def near_repetitions(n=500, d=2000, pairs=10, seed=0):
    """Long sparse rows, of which a few are repeated with the other label and hardly another difference."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.05, 10.0 * rng.normal(size=(n, d)), 0.0)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X[:pairs] = X[pairs : 2 * pairs] + 0.1 * (X[pairs : 2 * pairs] != 0.0) * rng.normal(size=(pairs, d))
    y[:pairs] = -y[pairs : 2 * pairs]
    return sp.csr_array(X), y


@pytest.mark.parametrize("size", [100, 1000], ids=["few rows", "all rows"])
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared"])
def test_rows_that_nearly_repeat_each_other(loss, intercept, size, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", size)
    X, y = near_repetitions()
    problem = Problem(Rows(X), y, loss, L2(1.0), np.full(y.size, 100.0), intercept)
    slow = minimize(problem, DualCoordinate(faces=False), tol=1e-6, max_iter=1000)
    assert slow.status is Status.MAX_ITER
    solution = minimize(problem, Blocks(), tol=1e-6, max_iter=1000)
    assert solution.status is Status.CONVERGED
    assert solution.history[-1].counters["newton_steps"] > 0
    name = "hinge" if isinstance(loss, Hinge) else "squared hinge"
    machine = referee.Machine(y, problem.s, (name, 1.0), ("l2", 1.0), X=X.toarray(), intercept=intercept, scale=1.0)
    verdict = referee.judge(machine, solution.point.w, solution.point.b, problem.feasible(solution.point.alpha))
    assert verdict.infeasibility <= 1e-12
    assert verdict.gap <= 1.01e-6 * abs(verdict.primal)
    assert solution.certificate.primal == pytest.approx(verdict.primal)


def test_auto_hands_over_to_it(monkeypatch):
    monkeypatch.setattr(choice, "EPOCHS", 20)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10)) @ rng.normal(size=(10, 1200)) + 0.01 * rng.normal(size=(200, 1200))
    y = np.where(rng.normal(size=200) > 0.0, 1.0, -1.0)  # only the noise tells the classes apart
    slow = LinearSVC(C=100.0, tol=1e-8, solver="dual_coordinate", max_iter=20)
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        slow.fit(X, y)
    model = LinearSVC(C=100.0, tol=1e-8)
    assert "'blocks' takes over after 20 iterations, and 'pivoting'" in explain_solver(model, X)
    model.fit(X, y)
    assert model.duality_gap_ <= 1e-8
    assert model.solution_.history[-1].counters["newton_steps"] > 0


def test_auto_knows_who_follows(monkeypatch):
    monkeypatch.setattr(choice, "EPOCHS", 2)
    monkeypatch.setattr(choice, "BLOCK_EPOCHS", 10)
    monkeypatch.setattr(blocks, "BLOCK", 10)
    X, y = near_repetitions()
    model = LinearSVC(C=100.0, tol=1e-8).fit(X, y)
    assert model.duality_gap_ <= 1e-8
    used = [set(record.counters) - {"passes"} for record in model.solution_.history]
    assert used[0] == {"active"}
    assert {"newton_steps"} in used
    assert used[-1] == {"reacting", "rho"}
    iterations = [record.iterations for record in model.solution_.history]
    assert iterations == sorted(iterations)


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), EpsilonInsensitive(0.1)], ids=["hinge", "logistic", "tube"])
def test_a_block_only_rises_and_knows_its_scores(loss):
    X, y = near_repetitions(60, 100)
    s, Q = np.full(60, 10.0), (X @ X.T).toarray() + 1.0
    block = blocks.Block(loss, y, s, Q, np.zeros(60), np.zeros(60))

    def height():
        conjugates = sum(loss.conjugate(-a / 10.0, t) for a, t in zip(block.alpha, y, strict=True))
        return -10.0 * conjugates - 0.5 * block.alpha @ Q @ block.alpha

    heights = [height()]
    for _ in range(20):
        block.visit()
        heights.append(height())
        block.step()
        heights.append(height())
    rounding = 1e-12 * (1.0 + abs(heights[-1]))
    assert (np.diff(heights) >= -rounding).all()
    assert block.visit() <= 1e-3
    np.testing.assert_allclose(block.z, Q @ block.alpha, atol=1e-6)


def test_equal_rows_go_to_their_bounds_at_once():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 50)), 2, axis=0)
    y = np.tile([1.0, -1.0], 20)
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.full(40, 1e3), None)
    solution = minimize(problem, Blocks(), tol=1e-9)
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= blocks.EPOCHS
    np.testing.assert_allclose(np.abs(solution.point.alpha), 1e3)
