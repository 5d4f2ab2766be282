"""The laws of communication: every engine obeys them, and nothing waits for ever."""

import threading
import time

import numpy as np
import pytest

from maxmargin.communicators import ALONE, Counting, run_in_process


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
    matrix = np.full((3, 4), float(rank))
    assert communicator.allgather(matrix).shape == (size, 3, 4)
    for _ in range(50):  # nobody overtakes anybody
        shard = shard + float(communicator.allreduce(np.array([1.0]))[0])
    return shard


@pytest.mark.parametrize("size", [1, 2, 5])
def test_in_process(size):
    assert run_in_process(laws, list(range(size))) == [rank + 50.0 * size for rank in range(size)]


def test_alone():
    assert laws(ALONE, 0) == 50.0


def test_what_is_sent_is_counted():
    def program(communicator, shard):
        counting = Counting(communicator)
        counting.allreduce(np.zeros(5))
        counting.allgather(np.zeros((2, 3)))
        counting.broadcast(np.zeros(7))
        return counting.traffic

    first, second = run_in_process(program, [None, None])
    assert (first.rounds, first.scalars, first.bytes) == (3, 18, 144)
    assert (second.rounds, second.scalars, second.bytes) == (3, 11, 88)
    assert 0.0 < first.seconds < 60.0


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

    began = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"0\.2 seconds"):
        run_in_process(program, [None, None], timeout=0.2)
    assert time.perf_counter() - began < 10.0
