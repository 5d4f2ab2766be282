"""Problems whose rows are spread over clients, and Newton's method on them: the serial answer, whoever has the rows."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import referee
from clients import case_of, gathered, run, spread, stretches
from maxmargin.communicators import Counting, run_in_process
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Status
from maxmargin.numerics.bisection import middle_minimiser_of_many
from maxmargin.numerics.sampling import chances
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers.rows.newton import Newton, levels
from maxmargin.solvers.rows.newton import state as newton_state

LOSSES = [("hinge", 1.0), ("squared hinge", 1.0), ("logistic", 1.0), ("epsilon", 0.1)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss[0])
every_intercept = pytest.mark.parametrize("intercept", ["free", "penalised", None])


def assert_equal(one, other):
    """Two certificates, to rounding."""
    scale = max(abs(other.primal), abs(other.dual))
    assert one.primal == pytest.approx(other.primal, abs=1e-12 * scale)
    assert one.dual == pytest.approx(other.dual, abs=1e-12 * scale)


# ---- the problem -----------------------------------------------------------------------------------------------------


@every_loss
@every_intercept
@pytest.mark.parametrize("penalty", [("l2", 0.7), ("l1", 0.7)], ids=lambda p: p[0])
def test_a_certificate_is_that_of_all_rows(loss, intercept, penalty):
    case = case_of(loss, intercept, n=60, penalty=penalty)
    problem, rng = case.build(), np.random.default_rng(1)
    w, alpha = rng.standard_normal(5), rng.standard_normal(60)
    b = 0.0 if intercept is None else 0.4
    serial = problem.certify(Point(w, b, alpha))
    derived = problem.certify(Point(w, b))
    z = problem.operator.apply(w)
    best = problem.best_intercept(z)

    def program(own, mine):
        assert_equal(own.certify(Point(w, b, alpha[mine])), serial)
        assert_equal(own.certify(Point(w, b)), derived)
        np.testing.assert_allclose(own.feasible(alpha[mine]), problem.feasible(alpha)[mine], rtol=1e-12)
        assert own.best_intercept(z[mine]) == pytest.approx(best, rel=1e-12)
        slopes = own.balanced_slopes(z[mine], best)
        np.testing.assert_allclose(slopes, problem.balanced_slopes(z, best)[mine], atol=1e-7)
        assert abs(own.communicator.allreduce(slopes.sum(keepdims=True))[0]) < 1e-11

    for k in (2, 5):
        run(problem, k, program)


def test_a_certificate_costs_three_rounds_and_an_intercept_fewer_than_twenty():
    problem = case_of(("hinge", 1.0), "free").build()

    def program(communicator, mine):
        counting = Counting(communicator)
        own = spread(problem, mine, counting)
        before = counting.traffic.rounds
        own.operator.column_lengths()  # once in a fit
        assert counting.traffic.rounds - before == 1
        own.certify(Point(np.ones(5), 0.0, np.ones(own.y.size)))
        assert counting.traffic.rounds - before == 4
        own.best_intercept(own.operator.apply(np.ones(5)))
        assert counting.traffic.rounds - before < 24

    run_in_process(program, stretches(400, 2))


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9), st.floats(-3.0, 3.0))
def test_a_minimum_is_found_by_bundles_of_derivatives(kinks, tilt):
    """Of a piecewise linear function, where it is a kink or an interval between two."""
    kinks = np.sort(kinks)
    tilt = np.clip(np.round(tilt), 1 - kinks.size, kinks.size - 1)

    def derivatives(points):
        return np.sign(points[:, None] - kinks).sum(axis=1) + tilt

    found = middle_minimiser_of_many(derivatives, float(np.abs(kinks).max()))
    left, right = derivatives(np.array([found - 1e-9, found + 1e-9]))
    assert left <= 0.0 <= right
    flat = [(a, b) for a, b in pairwise(kinks) if a < b and derivatives(np.array([a + b]) / 2) == 0]
    if flat:
        assert found == pytest.approx(0.5 * sum(flat[0]), abs=1e-9)


# ---- Newton's method -------------------------------------------------------------------------------------------------


@every_loss
@every_intercept
def test_the_result_is_that_of_one_client(loss, intercept):
    case = case_of(loss, intercept)
    problem = case.build()
    serial = minimize(problem, Newton(), tol=1e-9)
    assert serial.status is Status.CONVERGED
    for k in (1, 2, 3, 5):
        solutions = run(problem, k, lambda own, mine: minimize(own, Newton(), tol=1e-9))
        point = gathered(solutions)
        verdict = referee.judge(case.describe(), point.w, point.b, point.alpha)
        assert solutions[0].status is Status.CONVERGED
        assert verdict.relative_gap <= 1.01e-9
        assert solutions[0].iterations == serial.iterations
        np.testing.assert_allclose(point.w, serial.point.w, rtol=1e-9, atol=1e-11)
        assert point.b == pytest.approx(serial.point.b, rel=1e-8, abs=1e-9)
        np.testing.assert_allclose(point.alpha, serial.point.alpha, rtol=1e-6, atol=1e-8)


@pytest.fixture
def shortcuts(monkeypatch):
    """As if some thousand rows were many."""
    monkeypatch.setattr(newton_state, "NEAR_ENTRIES", 0)
    monkeypatch.setattr(levels, "COARSE_ENTRIES", 5000)
    monkeypatch.setattr(levels, "COARSE_SAMPLES", 1)


@every_loss
@pytest.mark.parametrize("by_label", [False, True], ids=["mixed", "by label"])
def test_shortcuts_are_taken_by_all_clients_or_none(shortcuts, loss, by_label):
    case = case_of(loss, "free", n=3000, by_label=by_label)
    problem = case.build()
    serial = minimize(problem, Newton(), tol=1e-8)
    assert serial.history[1].counters["rows"] < 1000
    for k in (2, 5):
        solutions = run(problem, k, lambda own, mine: minimize(own, Newton(), tol=1e-8))
        point = gathered(solutions)
        verdict = referee.judge(case.describe(), point.w, point.b, point.alpha)
        assert solutions[0].status is Status.CONVERGED
        assert verdict.relative_gap <= 1.01e-8
        for ours, theirs in zip(serial.history, solutions[0].history, strict=True):
            assert theirs.counters["rows"] == ours.counters["rows"]
            assert theirs.counters["near_steps"] == ours.counters["near_steps"]
        np.testing.assert_allclose(point.w, serial.point.w, rtol=1e-6, atol=1e-9)


def test_a_warm_start_is_at_once_done():
    problem = case_of(("hinge", 1.0), "free").build()
    serial = minimize(problem, Newton(), tol=1e-9)

    def program(own, mine):
        warm = replace(serial.point, alpha=serial.point.alpha[mine])
        assert minimize(own, Newton(), tol=1e-8, warm=warm).iterations == 0
        neighbour = replace(own, s=1.1 * own.s)
        return minimize(neighbour, Newton(), tol=1e-8, warm=warm).status

    assert run(problem, 3, program) == [Status.CONVERGED] * 3


def test_what_a_step_sends():
    """Its products, their combination with all other sums, and a number for each slope: nothing grows with the rows."""
    sent = []
    for n in (400, 4000):
        problem = case_of(("squared hinge", 1.0), "penalised", n=n).build()

        def program(communicator, mine, problem=problem):
            counting = Counting(communicator)
            own, solver = spread(problem, mine, counting), Newton()
            state = solver.start(own, None)
            solver.advance(own, state, 1)
            before = replace(counting.traffic)
            solver.advance(own, state, 1)
            return counting.traffic.rounds - before.rounds, counting.traffic.scalars - before.scalars

        sent += run_in_process(program, stretches(n, 2))
    d = 5
    slopes = sent[0][0] - 2
    assert set(sent) == {(2 + slopes, (d + 1) * (d + 2) // 2 + d + 6 + slopes)}
    assert slopes <= 3


def test_a_chance_belongs_to_a_row_and_not_to_a_client():
    whole = chances(0, 10_000)
    np.testing.assert_array_equal(np.concatenate([chances(0, 17), chances(17, 10_000)]), whole)
    assert whole.min() >= 0.0
    assert whole.max() < 1.0
    counts = np.histogram(whole, bins=10, range=(0.0, 1.0))[0]
    assert np.abs(counts - 1000).max() < 150
    assert abs(np.corrcoef(whole[1:], whole[:-1])[0, 1]) < 0.05


@pytest.mark.parametrize("where", ["round", "certificate"])
def test_clients_answer_ctrl_c_in_the_middle_of_what_they_do(where):
    """Issue 27, B11: half a second later they stop together in the next of their rounds, with the last proven point."""
    problem = case_of(("hinge", 1.0), "free", n=200).build()
    most = 10_000

    def program(communicator, mine):
        counting, interrupts, done = Counting(communicator), Interrupts(), []
        own = spread(problem, mine, counting)

        def chatter():
            """Rounds that would take for ever, if rank 0 heard no Ctrl-C and no half second passed."""
            if counting.rank == 0:
                interrupts.pending, interrupts._since = True, -inf
            for _ in range(most):
                counting.allreduce(np.zeros(3))
                done.append(1)

        class Talkative(Newton):
            def advance(self, problem, state, limit):
                if state.iterations >= 2 and where == "round":
                    chatter()
                return super().advance(problem, state, 1)

        class Slow(Problem):
            def certify(self, point):
                if len(certified) == 1 and where == "certificate":
                    chatter()
                certified.append(1)
                return super().certify(point)

        certified = []
        slow = Slow(own.operator, own.y, own.loss, own.penalty, own.s, own.intercept, own.intercept_scale)
        solution = minimize(slow, Talkative(), tol=1e-12, interrupts=interrupts)
        return solution, len(done)

    found = run_in_process(program, stretches(problem.y.size, 3))
    assert [done for _, done in found] == [0] * 3
    assert [solution.status for solution, _ in found] == [Status.INTERRUPTED] * 3
    assert len({solution.certificate for solution, _ in found}) == 1
    point = gathered([solution for solution, _ in found])
    assert problem.certify(point).primal == pytest.approx(found[0][0].certificate.primal, rel=1e-12)
