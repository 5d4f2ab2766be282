"""What a solver returns: a point, the certificate that judges it, why it stopped, and how it got there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxmargin.problems.point import Certificate, Point, Status


@dataclass(frozen=True)
class Record:
    """One line of a fit's history."""

    seconds: float
    iterations: int
    primal: float
    dual: float
    certified: bool  # recomputed from scratch, or the solver's own estimate
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def relative_gap(self) -> float:
        """Relative duality gap of this line."""
        return Certificate(self.primal, self.dual).relative_gap


@dataclass(frozen=True)
class Solution:
    """The best point that was found, what it is worth, and why the search ended."""

    point: Point
    certificate: Certificate
    status: Status
    solver: str
    tol: float
    iterations: int
    seconds: float
    history: tuple[Record, ...] = ()
    last: Point | None = None  # the point that was judged last: where a warm start goes on

    def __getstate__(self) -> dict[str, Any]:
        # The status by name: skops cannot restore members of an Enum.
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["status"] = Status[state["status"]]

    @property
    def message(self) -> str:
        """The status with its numbers, in one sentence."""
        return (
            f"{self.status}: relative gap {self.certificate.relative_gap:.2e} (asked for {self.tol:.0e}) "
            f"after {self.iterations} iterations of {self.solver} in {self.seconds:.2f} s."
        )
