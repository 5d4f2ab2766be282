"""What a distributed fit sends, counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from maxmargin.protocols import Communicator, Float


@dataclass
class Traffic:
    """What one client has sent: rounds in which all took part, numbers, bytes, and seconds spent in them."""

    rounds: int = 0
    scalars: int = 0
    bytes: int = 0
    seconds: float = 0.0  # waiting for the others included

    @property
    def counters(self) -> dict[str, float]:
        """For the history of a fit."""
        return {"rounds": float(self.rounds), "scalars": float(self.scalars), "bytes": float(self.bytes)}


@dataclass
class Counting:
    """A communicator that keeps account of what its client sends."""

    inner: Communicator
    traffic: Traffic = field(default_factory=Traffic)

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
        return self._counted(self.inner.allgather, x, sends=True)

    def allreduce(self, x: Float) -> Float:
        """Their sum."""
        return self._counted(self.inner.allreduce, x, sends=True)

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0, who alone sends something."""
        return self._counted(self.inner.broadcast, x, sends=self.rank == 0)

    def _counted(self, collective: Callable[[Float], Float], x: Float, sends: bool) -> Float:
        began = time.perf_counter()
        out = collective(x)
        self.traffic.seconds += time.perf_counter() - began
        self.traffic.rounds += 1
        if sends:
            self.traffic.scalars += x.size
            self.traffic.bytes += x.nbytes
        return out
