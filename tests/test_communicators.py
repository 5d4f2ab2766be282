"""The laws of communication: every engine obeys them, and nothing waits for ever."""

import threading

import numpy as np
import pytest

from maxmargin.communicators import ALONE, ClientLost, Counting, Star, run_in_process, supervise
from maxmargin.communicators.ordered import ordered_sum
from maxmargin.threads import GivenUp


def laws(communicator, shard):
    """What a client checks; run on every engine."""
    rank, size = communicator.rank, communicator.size
    x = np.array([rank + 0.1, 3.0**rank])
    stacked = communicator.allgather(x)
    assert stacked.shape == (size, 2)
    np.testing.assert_array_equal(stacked[:, 0], np.arange(size) + 0.1)
    total = np.array([0.1, 1.0])
    for other in range(1, size):
        total += np.array([other + 0.1, 3.0**other])
    np.testing.assert_array_equal(communicator.allreduce(x), total)
    np.testing.assert_array_equal(communicator.broadcast(x), [0.1, 1.0])
    np.testing.assert_array_equal(
        communicator.combined(x, lambda stacked: stacked.max(axis=0)[:1], 1), [size - 1 + 0.1]
    )
    matrix = np.full((3, 4), float(rank))
    assert communicator.allgather(matrix).shape == (size, 3, 4)
    many = [np.random.default_rng(other).normal(size=(4001, 5)) for other in range(size)]
    mine = communicator.allreduce(many[rank])  # the same bits whatever the size of the message
    np.testing.assert_array_equal(mine, ordered_sum(np.stack(many)))
    mine += rank  # a result belongs to its client alone
    np.testing.assert_array_equal(
        communicator.allgather(mine.T), [ordered_sum(many).T + other for other in range(size)]
    )
    for _ in range(50):  # nobody overtakes anybody
        shard = shard + float(communicator.allreduce(np.array([1.0]))[0])
    return shard


@pytest.mark.parametrize("size", [1, 2, 5])
def test_in_process(size):
    assert run_in_process(laws, list(range(size))) == [rank + 50.0 * size for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_star_obeys_the_same_laws(size):
    def program(communicator, shard):
        return laws(Star(communicator), shard)

    assert run_in_process(program, list(range(size))) == [rank + 50.0 * size for rank in range(size)]


def test_alone():
    assert laws(ALONE, 0) == 50.0


@pytest.mark.parametrize("star", [False, True])
def test_what_may_be_given_up_is_the_same_until_it_is(star):
    """With the number that says whether it is too late, which nobody counts or sees."""

    def program(communicator, shard):
        counting = Counting(communicator)
        around = Star(counting) if star else counting
        with around.given_up_if(lambda: False):
            return laws(around, shard), counting.traffic.scalars

    def plainly(communicator, shard):
        counting = Counting(communicator)
        return laws(Star(counting) if star else counting, shard), counting.traffic.scalars

    for size in (1, 3):
        assert run_in_process(program, list(range(size))) == run_in_process(plainly, list(range(size)))


@pytest.mark.parametrize("star", [False, True])
@pytest.mark.parametrize("collective", ["allreduce", "allgather", "broadcast"])
def test_clients_give_up_in_the_same_round_when_rank_0_wants_to(collective, star):
    def program(communicator, shard):
        counting, rounds = Counting(communicator), []
        counting = Star(counting) if star else counting
        late = (lambda: len(rounds) >= 7) if communicator.rank == 0 else lambda: len(rounds) >= 3  # which counts not

        def talk():
            for k in range(100):
                getattr(counting, collective)(np.full((2, 2), float(k)))
                rounds.append(k)

        with pytest.raises(GivenUp), counting.given_up_if(late):
            talk()
        return [len(rounds), *counting.allgather(np.array([1.0])).ravel()]  # nothing is to be given up here

    assert run_in_process(program, [None] * 3) == [[7, 1.0, 1.0, 1.0]] * 3


def test_what_is_sent_is_counted():
    def program(communicator, shard):
        counting = Counting(communicator)
        counting.allreduce(np.zeros(5))
        counting.allgather(np.zeros((2, 3)))
        counting.broadcast(np.zeros(7))
        return counting.traffic

    first, second = run_in_process(program, [None, None])
    assert (first.rounds, first.scalars, first.bytes, first.received) == (3, 18, 144, 22)
    assert (second.rounds, second.scalars, second.bytes, second.received) == (3, 11, 88, 29)
    assert 0.0 < first.seconds < 60.0


@pytest.mark.parametrize("k", [2, 6])
def test_what_a_client_receives_from_a_server_does_not_grow_with_the_clients(k):
    """2-06: k clients who gather are handed k times what one sends, k^2 together; over a star it is k."""

    def program(communicator, star):
        counting = Counting(communicator)
        around = Star(counting) if star else counting
        around.allreduce(np.zeros(5))
        around.combined(np.zeros(7), lambda stacked: stacked.sum(axis=0)[:4], 4)
        return counting.traffic.rounds, counting.traffic.scalars, counting.traffic.received

    assert run_in_process(program, [False] * k) == [(2, 12, 12 * k)] * k
    server, *clients = run_in_process(program, [True] * k)
    assert clients == [(4, 12, 9)] * (k - 1)
    assert server == (4, 12 + 9 * (k - 1), 12 * k)


def test_an_error_of_one_client_stops_all():
    def program(communicator, shard):
        if communicator.rank == 1:
            raise ArithmeticError("one fails")
        communicator.allreduce(np.zeros(1))

    before = threading.active_count()
    with pytest.raises(ArithmeticError, match="one fails"):
        run_in_process(program, [None] * 3)
    assert threading.active_count() == before


def test_nobody_waits_for_ever():
    def program(communicator, shard):
        if communicator.rank == 0:
            communicator.allreduce(np.zeros(1))

    with pytest.raises(TimeoutError, match=r"0\.2 seconds"):
        run_in_process(program, [None, None], timeout=0.2)


def test_a_lost_client_means_another_attempt():
    faults = [ClientLost("gone"), TimeoutError("late")]

    def run():
        if faults:
            raise faults.pop(0)
        return "done"

    with pytest.warns(RuntimeWarning) as caught:
        assert supervise(run, attempts=3) == "done"
    assert [str(warning.message) for warning in caught] == [
        "Attempt 1 of 3 failed, and the next one starts: gone",
        "Attempt 2 of 3 failed, and the next one starts: late",
    ]


def test_attempts_end():
    def run():
        raise ClientLost("gone")

    with pytest.warns(RuntimeWarning, match="Attempt 1 of 2"), pytest.raises(ClientLost, match="gone"):
        supervise(run, attempts=2)
    with pytest.raises(ValueError, match="at least 1"):
        supervise(run, attempts=0)


def test_an_error_of_the_program_is_not_tried_again():
    calls = []

    def run():
        calls.append(1)
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        supervise(run, attempts=3)
    assert len(calls) == 1
