"""CoCoA+: certified for any number of clients, however the rows are spread; alone it is dual coordinate descent."""

from dataclasses import replace

import numpy as np
import pytest

import referee
from clients import case_of, gathered, run, spread, stretches
from maxmargin.communicators import Counting, run_in_process
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Status
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L1, L2
from maxmargin.problems.problem import Problem
from maxmargin.solvers.rows import cocoa
from maxmargin.solvers.rows.cocoa import CoCoA
from maxmargin.solvers.rows.dual_coordinate import DualCoordinate

LOSSES = [("hinge", 1.0), ("squared hinge", 1.0), ("logistic", 1.0), ("epsilon", 0.1)]
EVEN = (1.0,) * 5  # columns of one scale, as first-order methods like them
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss[0])
every_intercept = pytest.mark.parametrize("intercept", ["free", "penalised", None])


@pytest.fixture
def one_epoch(monkeypatch):
    """A round is one epoch, however few the rows are."""
    monkeypatch.setattr(cocoa, "ROUND_WORK", 0)


@every_loss
@every_intercept
def test_the_gap_is_certified_for_any_number_of_clients(loss, intercept):
    case = case_of(loss, intercept, n=200, scales=EVEN)
    problem = case.build()
    optimum = minimize(problem, DualCoordinate(), tol=1e-8).certificate
    for k in (1, 2, 3, 5):
        solutions = run(problem, k, lambda own, mine: minimize(own, CoCoA(), tol=1e-3))
        point = gathered(solutions)
        verdict = referee.judge(case.describe(), point.w, point.b, point.alpha)
        assert solutions[0].status is Status.CONVERGED
        assert verdict.relative_gap <= 1.01e-3
        assert verdict.primal == pytest.approx(optimum.primal, rel=1.1e-3)


def test_a_small_gap_takes_more_rounds_and_no_more_than_that():
    problem = case_of(("hinge", 1.0), "penalised", scales=EVEN).build()
    for solution in run(problem, 2, lambda own, mine: minimize(own, CoCoA(), tol=1e-6, max_iter=2000)):
        assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("intercept", ["penalised", None])
def test_alone_it_is_dual_coordinate_descent(one_epoch, intercept):
    problem = case_of(("hinge", 1.0), intercept).build()
    ours = minimize(problem, CoCoA(seed=3), tol=1e-12, max_iter=7)
    theirs = minimize(problem, DualCoordinate(seed=3, shrinking=False, faces=False), tol=1e-12, max_iter=7)
    assert ours.iterations == theirs.iterations == 7
    np.testing.assert_allclose(ours.last.alpha, theirs.last.alpha, atol=1e-10)
    np.testing.assert_allclose(ours.last.w, theirs.last.w, atol=1e-10)


@pytest.mark.parametrize("k", [2, 5])
@every_loss
def test_added_changes_never_lower_the_dual(one_epoch, loss, k):
    """Not even by clients that have one class each and know nothing of the other."""
    problem, solver = case_of(loss, None).build(), CoCoA(momentum=False)

    def program(own, mine):
        state, duals = solver.start(own, None), []
        for _ in range(40):
            state = solver.advance(own, state, 1)
            duals.append(state.dual)
            v = own.operator.adjoint(state.alpha) / own.lam
            np.testing.assert_allclose(state.w, v, atol=1e-10 * np.abs(v).max())
        return duals

    for duals in run(problem, k, program):
        assert np.diff(duals).min() >= -1e-12 * np.abs(duals).max()
        assert duals[-1] > duals[0]


@pytest.mark.parametrize("intercept", ["free", "penalised"])
@pytest.mark.parametrize("by_label", [False, True], ids=["mixed", "by label"])
def test_one_class_for_each_client_takes_about_as_many_rounds_as_a_mixture(one_epoch, intercept, by_label):
    """With the intercept as a column of ones, the gap of these shards was above one half after hundreds of rounds."""
    problem = case_of(("hinge", 1.0), intercept, n=4000, by_label=by_label, scales=EVEN).build()
    for k in (2, 4):
        solutions = run(problem, k, lambda own, mine: minimize(own, CoCoA(), tol=1e-3))
        assert solutions[0].status is Status.CONVERGED
        assert solutions[0].iterations <= 250
        gaps = [record.relative_gap for record in solutions[0].history if record.certified]
        assert gaps[-1] < 0.1 * max(gaps)


def test_momentum_saves_rounds(one_epoch):
    problem = case_of(("squared hinge", 1.0), "penalised", n=600, scales=EVEN).build()
    rounds = [
        run(problem, 3, lambda own, mine, m=momentum: minimize(own, CoCoA(momentum=m), tol=1e-2))[0].iterations
        for momentum in (True, False)
    ]
    assert rounds[0] < 0.5 * rounds[1]


def test_what_a_round_sends():
    problem = case_of(("hinge", 1.0), "penalised").build()

    def program(communicator, mine):
        counting = Counting(communicator)
        own, solver = spread(problem, mine, counting), CoCoA()
        state = solver.start(own, None)
        before = replace(counting.traffic)
        for _ in range(3):
            state = solver.advance(own, state, 1)
        assert counting.traffic.rounds - before.rounds == 3
        assert counting.traffic.scalars - before.scalars == 3 * (own.operator.n_features + 6)

    run_in_process(program, stretches(400, 3))


def test_a_fit_goes_on_from_a_point():
    problem = case_of(("hinge", 1.0), "penalised").build()
    optimum = minimize(problem, DualCoordinate(), tol=1e-9)

    def program(own, mine):
        warm = replace(optimum.point, alpha=optimum.point.alpha[mine])
        return minimize(own, CoCoA(), tol=1e-8, warm=warm)

    for solution in run(problem, 3, program):
        assert (solution.status, solution.iterations) == (Status.CONVERGED, 0)


def test_nothing_left_to_do_is_noticed():
    """Two clients with a point each, whose optimum is reached to the last bit."""
    problem = Problem(Rows(np.eye(2)), np.array([1.0, -1.0]), Hinge(), L2(1.0), np.full(2, 10.0), None)
    for solution in run(problem, 2, lambda own, mine: minimize(own, CoCoA(), tol=0.0)):
        assert solution.certificate.gap == 0.0
        assert solution.status is Status.STALLED  # no proof can say more


def test_refusals_are_sentences():
    problem = case_of(("hinge", 1.0), None).build()
    assert "L2 penalty; this problem has L1" in CoCoA().supports(replace(problem, penalty=L1(1.0)))
    with pytest.raises(ValueError, match="epochs=0 must be at least 1"):
        CoCoA(epochs=0)
