"""Saddle-DSVC: any number of clients takes the steps of one, for a price that is known."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import HullDistance, Status, minimize
from maxmargin.communicators import Counting, Star, run_in_process
from maxmargin.loop.interrupts import Interrupts
from maxmargin.operators import Rows, Sharded
from maxmargin.solvers import FrankWolfe, Gilbert, Saddle

N, D = 150, 6


def data_of(n=N, d=D, apart=5.0, seed=0, sorted_by_label=True):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    if sorted_by_label:
        y = np.sort(y)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.8)
    X[:, 0] += np.where(y > 0, apart, 0.0)
    return X / np.linalg.norm(X, axis=1).max(), y


def cuts_of(size, n=N):
    """One row for the first client, and no row for the last of five."""
    if size == 5:
        return [1, n // 3, n - 20, n]
    return [1, n // 2][: size - 1]


def problem_of(X, y, cap, sparse, communicator=None, total=1.0):
    rows = Rows(sp.csr_array(X) if sparse else X)
    operator = rows if communicator is None else Sharded(rows, communicator)
    return HullDistance(operator, y, cap, total)


def shards_of(X, y, cap, size):
    cuts = cuts_of(size, len(y))
    return list(zip(np.split(X, cuts), np.split(y, cuts), np.split(cap, cuts), strict=True))


def stepped(problem, solver, iterations):
    state = solver.start(problem, None)
    while state.iterations < iterations:
        state = solver.advance(problem, state, iterations - state.iterations)
    return state, solver.point(problem, state), problem.certify(solver.point(problem, state))


@pytest.mark.parametrize("block_size", [None, 1, 4])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("cap", [1.0, 0.05])
def test_clients_take_the_steps_of_one(cap, sparse, block_size):
    X, y = data_of()
    caps, solver, iterations = np.full(N, cap), Saddle(block_size=block_size, seed=3), 20
    serial, point, certificate = stepped(problem_of(X, y, caps, sparse), solver, iterations)
    for size in (1, 2, 3, 5):

        def program(communicator, shard):
            return stepped(problem_of(*shard, sparse, communicator), solver, iterations)

        everybody = run_in_process(program, shards_of(X, y, caps, size))
        for state, found, judged in everybody:
            np.testing.assert_array_equal(state.w, everybody[0][0].w)  # bit for bit
            np.testing.assert_allclose(state.w, serial.w, rtol=0, atol=1e-12 * np.linalg.norm(serial.w))
            np.testing.assert_allclose(found.w, point.w, rtol=0, atol=1e-11 * np.linalg.norm(point.w))
            assert found.b == pytest.approx(point.b, rel=1e-11, abs=1e-11)
            assert judged.primal == pytest.approx(certificate.primal, rel=1e-11)
            assert judged.dual == pytest.approx(certificate.dual, rel=1e-11)
            assert state.gamma == pytest.approx(serial.gamma, rel=1e-11)
            assert state.passes == pytest.approx(serial.passes)
        alpha = np.concatenate([found.alpha for _, found, _ in everybody])
        np.testing.assert_allclose(alpha, point.alpha, rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", [{}, {"hadamard": True}, {"incremental": False}, {"log_domain": False}])
@pytest.mark.parametrize("cap", [1.0, 0.01])
def test_fits_end_alike(cap, options):
    """With shrinking at work: rows leave and come back in agreement."""
    X, y = data_of(n=1500, d=10, apart=6.0, seed=5, sorted_by_label=False)
    caps = np.full(1500, cap)
    serial = minimize(problem_of(X, y, caps, False), Saddle(**options), tol=1e-3, max_time=60.0)

    def program(communicator, shard):
        return minimize(problem_of(*shard, False, Counting(communicator)), Saddle(**options), tol=1e-3, max_time=60.0)

    everybody = run_in_process(program, shards_of(X, y, caps, 3))
    assert serial.status is Status.CONVERGED
    for found in everybody:
        assert found.status is Status.CONVERGED
        assert found.iterations == serial.iterations
        np.testing.assert_allclose(found.point.w, serial.point.w, rtol=0, atol=1e-8 * np.linalg.norm(serial.point.w))
        counters = found.history[-1].counters
        assert counters["rounds"] > found.iterations
        assert counters["bytes"] == 8 * counters["scalars"]
    if not options and cap == 1.0:
        assert counters["active"] < 750  # shrinking was at work


def test_hulls_that_meet_are_proved_to_meet_together():
    X, y = data_of(apart=0.3, seed=4)
    caps = np.full(N, 1.0)

    def program(communicator, shard):
        return minimize(problem_of(*shard, False, communicator), Saddle(), max_time=60.0)

    for found in run_in_process(program, shards_of(X, y, caps, 3)):
        assert (found.certificate.primal, found.certificate.dual) == (0.0, 0.0)


@pytest.mark.parametrize("cap", [1.0, 0.0501])
def test_gilbert_takes_the_steps_of_one(cap):
    X, y = data_of()
    caps = np.full(N, cap)
    serial = stepped(problem_of(X, y, caps, False), Gilbert(), 30)[0]

    def program(communicator, shard):
        return stepped(problem_of(*shard, False, communicator), Gilbert(), 30)[0]

    for state in run_in_process(program, shards_of(X, y, caps, 3)):
        np.testing.assert_allclose(state.v, serial.v, rtol=0, atol=1e-12)


def test_what_is_asked_of_the_problem_is_what_one_client_says():
    X, y = data_of(seed=8)
    rng = np.random.default_rng(0)
    caps, total = rng.uniform(0.05, 0.2, N), 1.5
    s, alpha = rng.standard_normal(N), rng.standard_normal(N)
    serial = problem_of(X, y, caps, False, total=total)
    cuts = cuts_of(5)
    shards = list(zip(shards_of(X, y, caps, 5), np.split(s, cuts), np.split(alpha, cuts), strict=True))

    def program(communicator, shard):
        rows, s, alpha = shard
        problem = problem_of(*rows, False, communicator, total)
        return (
            (problem.street(s), *problem.edges(s), problem.reach, *problem.sizes),
            (problem.extreme(s), problem.feasible(alpha), problem.feasible(0.01 * alpha), problem.equal_shares()),
        )

    everybody = run_in_process(program, shards)
    for numbers, _ in everybody:
        np.testing.assert_allclose(
            numbers, (serial.street(s), *serial.edges(s), serial.reach, *serial.sizes), rtol=1e-12
        )
    expected = serial.extreme(s), serial.feasible(alpha), serial.feasible(0.01 * alpha), serial.equal_shares()
    for k, truth in enumerate(expected):
        np.testing.assert_allclose(np.concatenate([arrays[k] for _, arrays in everybody]), truth, atol=1e-14)
        assert (y * truth)[y > 0].sum() == pytest.approx(total)
    with pytest.raises(ValueError, match="caps of a class sum to"):
        run_in_process(lambda c, shard: problem_of(*shard[0], False, c, total=40.0), shards)


def test_the_price_of_a_step():
    """Hard margin: a block is one round of 4 + 3 B numbers; all coordinates are three rounds of d + 12."""
    X, y = data_of()
    caps = np.full(N, 1.0)

    def program(communicator, shard):
        prices = []
        for solver in (Saddle(block_size=1), Saddle(block_size=2), Saddle(adaptive=False, shrinking=False)):
            counting = Counting(communicator)
            problem = problem_of(*shard, False, counting)
            state = solver.start(problem, None)
            began = counting.traffic.rounds, counting.traffic.scalars
            while state.iterations < 2:  # blocks look at the gap after three steps at the earliest
                state = solver.advance(problem, state, 1)
            rounds, scalars = counting.traffic.rounds - began[0], counting.traffic.scalars - began[1]
            prices.append((rounds / 2, scalars / 2))
        return prices

    for prices in run_in_process(program, shards_of(X, y, caps, 3)):
        assert prices == [(1, 7), (1, 10), (3, D + 12)]


@pytest.mark.parametrize("selection", [True, False])
@pytest.mark.parametrize("cap", [1.0, 0.01])
def test_the_price_of_the_theorem(cap, selection):
    """2-06, 2-13, 2-25, 2-27: O(k) numbers a step over a star, and the trajectory of one client.

    A server without rows, and clients. Every client sends and receives as many numbers, however many clients and rows
    there are: with caps about 10 and 8 for each round of the projection; and the server k times as many.
    """
    X, y = data_of(n=1200, d=12, apart=6.0)
    caps, steps = np.full(1200, cap), 36
    solver = Saddle(block_size=1, continuation=False, gamma=1e-4, seed=3, selection=selection)
    serial = stepped(problem_of(X, y, caps, False), solver, steps)[0]

    def program(communicator, rows):
        counting = Counting(communicator)
        problem = problem_of(X[rows], y[rows], caps[rows], False, Star(counting))
        state = solver.start(problem, None)
        before = replace(counting.traffic)
        while state.iterations < steps:
            state = solver.advance(problem, state, 1)
        after = counting.traffic
        return state.w, np.array([after.scalars - before.scalars, after.received - before.received]) / steps

    prices = {}
    for k in (2, 5):
        shards = [np.arange(0), *np.array_split(np.arange(1200), k)]
        (_, of_server), *clients = run_in_process(program, shards)
        for w, price in clients:
            np.testing.assert_allclose(w, serial.w, rtol=0, atol=1e-12 * np.linalg.norm(serial.w))
            np.testing.assert_array_equal(price, clients[0][1])
        sent, received = prices[k] = clients[0][1]
        looks = (13 + 6 * (1 if cap == 1.0 else 8)) / 12  # the difference of the points and the streets, once an epoch
        assert sent <= (7 if cap == 1.0 else 10 + 8 * 2) + looks
        assert received <= sent
        assert of_server == pytest.approx([sent + k * received, (k + 1) * sent])  # it gathers from itself too
    assert prices[2] == pytest.approx(prices[5], rel=0.05)


@pytest.mark.parametrize("block_size", [None, 1])
def test_fits_over_a_star_are_those_of_clients_who_gather(block_size):
    """2-06: bit for bit, and the result is in the server."""
    X, y = data_of(n=400, d=5, apart=6.0, seed=5)
    caps, solver = np.full(400, 0.02), Saddle(block_size=block_size)

    def program(around):
        def client(communicator, shard):
            solution = minimize(problem_of(*shard, False, around(Counting(communicator))), solver, max_iter=60)
            return solution.point.w, solution.certificate, solution.history[-1].counters["received"]

        return run_in_process(client, shards_of(X, y, caps, 3))

    gathered, star = program(lambda communicator: communicator), program(Star)
    for (w, certificate, much), (same, too, little) in zip(gathered[1:], star[1:], strict=True):
        np.testing.assert_array_equal(w, same)
        assert certificate == too
        assert little < 0.5 * much
    np.testing.assert_array_equal(star[0][0], gathered[0][0])


def test_a_look_at_the_gap_is_paid_for_once_per_epoch():
    X, y = data_of()
    caps = np.full(N, 1.0)

    def program(communicator, shard):
        counting = Counting(communicator)
        problem = problem_of(*shard, False, counting)
        solver = Saddle(block_size=1)
        state = solver.start(problem, None)
        began = counting.traffic.rounds, counting.traffic.scalars
        while state.iterations < 10 * D:
            state = solver.advance(problem, state, 1)
        return counting.traffic.rounds - began[0], counting.traffic.scalars - began[1]

    for rounds, scalars in run_in_process(program, shards_of(X, y, caps, 2)):
        assert rounds == 10 * (D + 2)  # the difference of the points, and the streets
        assert scalars == 10 * (7 * D + (D + 1) + 6)


def test_clock_interrupts_and_callbacks_are_those_of_the_first():
    X, y = data_of()
    caps = np.full(N, 1.0)

    def timed(communicator, shard):
        return minimize(problem_of(*shard, False, communicator), Saddle(), tol=0.0, max_time=0.3).status

    def asked(communicator, shard):
        stop = (lambda record: record.iterations > 20) if communicator.rank == 0 else None
        solution = minimize(problem_of(*shard, False, communicator), Saddle(), tol=0.0, callback=stop)
        return solution.status, solution.iterations

    def interrupted(communicator, shard):
        interrupts = Interrupts()
        interrupts.pending = communicator.rank == 0
        return minimize(problem_of(*shard, False, communicator), Saddle(), tol=0.0, interrupts=interrupts).status

    shards = shards_of(X, y, caps, 3)
    assert set(run_in_process(interrupted, shards)) == {Status.INTERRUPTED}
    assert set(run_in_process(timed, shards)) == {Status.MAX_TIME}
    answers = run_in_process(asked, shards)
    assert answers[0][0] is Status.CALLBACK
    assert len(set(answers)) == 1


def test_what_needs_all_rows_in_one_place_is_refused():
    X, y = data_of()
    shards = shards_of(X, y, np.full(N, 1.0), 2)
    with pytest.raises(ValueError, match="cannot solve this problem"):
        run_in_process(lambda c, shard: minimize(problem_of(*shard, False, c), FrankWolfe()), shards)
