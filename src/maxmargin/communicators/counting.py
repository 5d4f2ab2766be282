"""What the clients of a distributed fit send and receive, counted; and how they give up together what takes too long.

None of them could do that alone, since the others would wait for it. So while something may be given up, every array
has one number more, in which rank 0 says whether it is too late. All hear that in the same round, and all stop there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol as Role

import numpy as np

from maxmargin.protocols import Communicator, Float
from maxmargin.threads import GivenUp


class Engine(Communicator, Role):
    """A communicator that can also gather at rank 0, and knows the price of its sums."""

    def gather(self, x: Float) -> Float | None:
        """The arrays of all clients, stacked, for rank 0; nothing for the others."""

    def handed_by_sums(self, numbers: int) -> int:
        """How many numbers this client is handed for the sum of arrays of so many."""


@dataclass
class Traffic:
    """What one client has sent: rounds in which all took part, numbers, bytes; numbers received; seconds it took.

    A client is handed its own part as well where all gather from each other: ``k`` times what it sends. The server of a
    `Star` receives what all send, and sends its answer once to each of the others. The number that says whether it is
    too late is not among them.
    """

    rounds: int = 0
    scalars: int = 0
    bytes: int = 0
    received: int = 0
    seconds: float = 0.0  # waiting for the others included

    @property
    def counters(self) -> dict[str, float]:
        """For the history of a fit."""
        names = ("rounds", "scalars", "bytes", "received")
        return {name: float(getattr(self, name)) for name in names}


@dataclass
class Counting:
    """A communicator that keeps account of what its client sends and receives."""

    inner: Engine
    traffic: Traffic = field(default_factory=Traffic)
    _late: Callable[[], bool] | None = field(default=None, repr=False)

    @property
    def rank(self) -> int:
        """The rank of this client."""
        return self.inner.rank

    @property
    def size(self) -> int:
        """Number of clients."""
        return self.inner.size

    def allgather(self, x: Float) -> Float:
        """The arrays of all clients."""
        with self._counted(x, copies=1, received=self.size * x.size):
            return self._unless_late(self.inner.allgather, x)

    def gather(self, x: Float) -> Float | None:
        """The arrays of all clients for rank 0."""
        with self._counted(x, copies=1, received=self.size * x.size if self.rank == 0 else 0):
            return self.inner.gather(x)

    def allreduce(self, x: Float) -> Float:
        """Their sum."""
        with self._counted(x, copies=1, received=self.inner.handed_by_sums(x.size)):
            return self._unless_late(self.inner.allreduce, x)

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0, who alone sends something: a copy to each of the others."""
        first = self.rank == 0
        with self._counted(x, copies=(self.size - 1) * first, received=0 if first else x.size):
            return self._unless_late(self.inner.broadcast, x)

    def combined(self, x: Float, rule: Callable[[Float], Float], size: int) -> Float:
        """What a rule makes of the arrays of all clients, which each of them gathers."""
        return rule(self.allgather(x))

    @contextmanager
    def given_up_if(self, late: Callable[[], bool]) -> Iterator[None]:
        """Let `GivenUp` end what all clients are at, in one of its rounds, once it is too late as rank 0 sees it."""
        outer, self._late = self._late, late
        try:
            yield
        finally:
            self._late = outer

    def _unless_late(self, collective: Callable[[Float], Float], x: Float) -> Float:
        """What clients make of an array together, unless rank 0 says that it is too late."""
        if self._late is None:
            return collective(x)
        out = collective(np.append(np.ravel(x), float(self.rank == 0 and self._late())))
        if np.ravel(out)[x.size] != 0.0:  # that of rank 0, or the sum of all
            raise GivenUp
        return np.ascontiguousarray(out[..., :-1]).reshape((*out.shape[:-1], *x.shape))

    @contextmanager
    def _counted(self, x: Float, copies: int, received: int) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.traffic.seconds += time.perf_counter() - began
        self.traffic.rounds += 1
        self.traffic.scalars += copies * x.size
        self.traffic.bytes += copies * x.nbytes
        self.traffic.received += received
