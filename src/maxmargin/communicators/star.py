"""A server, and clients who talk to nobody but the server: the topology of Saddle-DSVC."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from maxmargin.communicators.counting import Traffic
from maxmargin.communicators.ordered import ordered_sum
from maxmargin.protocols import Float


class Gatherer(Protocol):
    """What a star is made of: one collective towards rank 0, and one from there."""

    @property
    def rank(self) -> int:
        """Of this client; the server is 0."""

    @property
    def size(self) -> int:
        """Number of clients."""

    def gather(self, x: Float) -> Float | None:
        """The arrays of all clients, stacked, for rank 0; nothing for the others."""

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0."""


class Star:
    """A communicator whose clients send all they have to say to the server, rank 0, and hear from it what follows.

    Sums and whatever else is made of the messages of all clients is made by the server, once, and sent to everybody: a
    client sends its own numbers and receives as many as there are in the answer, however many clients there are. All
    clients gathering from each other instead are handed ``k`` times as many, ``k^2`` together. It takes two rounds, up
    and down, where gathering takes one.

    The server may have rows, and then is a client of itself; with none it is the server of the paper.

    Parameters
    ----------
    inner : Gatherer
        The engine's communicator, or one that counts what passes.

    """

    def __init__(self, inner: Gatherer) -> None:
        self.inner = inner
        self.rank, self.size = inner.rank, inner.size

    @property
    def traffic(self) -> Traffic | None:
        """What this client has sent and received, if it is counted."""
        return getattr(self.inner, "traffic", None)

    @property
    def given_up_if(self) -> Callable[[Callable[[], bool]], AbstractContextManager[None]] | None:
        """How clients give up together what takes too long: the server's answers say so."""
        return getattr(self.inner, "given_up_if", None)

    def combined(self, x: Float, rule: Callable[[Float], Float], size: int) -> Float:
        """What a rule makes of the arrays of all clients: the server applies it, and tells the others."""
        stacked = self.inner.gather(x)
        return self.inner.broadcast(np.empty(size, x.dtype) if stacked is None else rule(stacked))

    def allgather(self, x: Float) -> Float:
        """The arrays of all clients, stacked by the server."""
        return self.combined(x, np.ravel, self.size * x.size).reshape(self.size, *x.shape)

    def allreduce(self, x: Float) -> Float:
        """Their sum, in the order of the ranks."""
        return self.combined(x, lambda stacked: ordered_sum(stacked).ravel(), x.size).reshape(x.shape)

    def broadcast(self, x: Float) -> Float:
        """The array of the server."""
        return self.inner.broadcast(x)
