"""A single client: what every serial fit is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from maxmargin.protocols import Float


@dataclass(frozen=True)
class Alone:
    """One client, which hears nothing but itself."""

    rank: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def allgather(self, x: Float) -> Float:
        """``x``, stacked on nothing."""
        return x[None]

    def allreduce(self, x: Float) -> Float:
        """``x``."""
        return x

    def broadcast(self, x: Float) -> Float:
        """``x``."""
        return x

    def combined(self, x: Float, rule: Callable[[Float], Float], size: int) -> Float:
        """What the rule makes of ``x``."""
        return rule(x[None])


ALONE = Alone()
