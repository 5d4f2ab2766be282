"""Clients that are threads of one process: for tests, for teaching, and where no engine is installed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from maxmargin.communicators.gathering import Gathering
from maxmargin.communicators.ordered import ordered_sum
from maxmargin.protocols import Communicator, Float

S = TypeVar("S")
T = TypeVar("T")


class InProcess(Gathering):
    """One of several clients that meet at a barrier."""

    def __init__(self, rank: int, size: int, table: list[Float], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, size
        self._table, self._barrier = table, barrier

    def allgather(self, x: Float) -> Float:
        """The arrays of all clients, stacked."""
        self._table[self.rank] = x
        self._barrier.wait()  # all have brought theirs
        out = np.stack(self._table)
        self._barrier.wait()  # all have taken what they need
        return out

    def gather(self, x: Float) -> Float | None:
        """The same for rank 0 only."""
        everything = self.allgather(x)
        return everything if self.rank == 0 else None

    def allreduce(self, x: Float) -> Float:
        """Their sum, in the order of the ranks."""
        return ordered_sum(self.allgather(x))

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0."""
        out: Float = self.allgather(x)[0]
        return out


def run_in_process(program: Callable[[Communicator, S], T], shards: Sequence[S], timeout: float = 60.0) -> list[T]:
    """Run ``program(communicator, shard)`` in a thread for each shard, and return what they return.

    Parameters
    ----------
    program : callable
        What every client does.
    shards : sequence
        One for each client.
    timeout : float, default=60.0
        Seconds that a client waits for the others in one round.

    Raises
    ------
    Exception
        The first one, by rank, that a client raised; the others are stopped.
    TimeoutError
        If clients waited for one that did not come.

    """
    size = len(shards)
    table = [np.empty(0)] * size
    barrier = threading.Barrier(size, timeout=timeout)
    results: dict[int, T] = {}
    errors: list[BaseException | None] = [None] * size

    def client(rank: int) -> None:
        try:
            results[rank] = program(InProcess(rank, size, table, barrier), shards[rank])
        except BaseException as error:  # handed to the caller below
            errors[rank] = error
            barrier.abort()

    threads = [threading.Thread(target=client, args=(rank,), name=f"client {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raised = [error for error in errors if error is not None]
    own = [error for error in raised if not isinstance(error, threading.BrokenBarrierError)]
    if own:
        raise own[0]
    if raised:
        raise TimeoutError(f"A client waited for the others for more than {timeout:g} seconds in one round.")
    return [results[rank] for rank in range(size)]
