"""What engines have in common that hand the arrays of all clients to each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from maxmargin.protocols import Float


class Gathering(ABC):
    """One of several clients who can all gather, and of whom rank 0 can be the server of a `Star`."""

    rank: int
    size: int
    sums_elsewhere = False  # whether sums are not formed by each client

    @abstractmethod
    def allgather(self, x: Float) -> Float:
        """The arrays of all clients, stacked."""

    @abstractmethod
    def gather(self, x: Float) -> Float | None:
        """The arrays of all clients, stacked, for rank 0; nothing for the others."""

    def combined(self, x: Float, rule: Callable[[Float], Float], size: int) -> Float:
        """What a rule makes of the arrays of all clients, which each of them applies itself."""
        return rule(self.allgather(x))

    def handed_by_sums(self, numbers: int) -> int:
        """How many numbers this client is handed for the sum of arrays of so many."""
        return numbers if self.sums_elsewhere else self.size * numbers
