"""One solver after another on the same problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxmargin.problems.point import Point
from maxmargin.solvers.solver import AnySolver, Solver, State

NEVER = 2**62  # iterations


@dataclass(frozen=True)
class Relay(Solver[Any, "RelayState"]):
    """A solver, and another that takes over if the first is not done in time.

    Problem: whatever the first supports; the second takes over if it supports it too.

    Method: the first works for ``patience`` iterations (``None``: as long as it wants), or until it cannot go on, or
    until it says that it is ready for the second. This starts from the first one's point; if it can do nothing from
    there, the first goes on for twice as many iterations, or to its end. ``minimize`` keeps the best certified point of
    either.

    Cost: that of the parts.
    """

    first: AnySolver
    second: AnySolver
    patience: int | None = 100

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the first: the second is its insurance."""
        return self.first.name

    def supports(self, problem: object) -> str | None:
        """``None``, or why the first does not."""
        return self.first.supports(problem)

    def start(self, problem: Any, warm: Point | None) -> RelayState:
        """The first solver's state."""
        state = RelayState(
            self.first, self.first.start(problem, warm), patience=NEVER if self.patience is None else self.patience
        )
        state.relief = self.second.supports(problem) is None
        return state

    def advance(self, problem: Any, state: RelayState, limit: int) -> RelayState:
        """One round of the solver whose turn it is."""
        ready = state.inner.ready and not state.refused
        if state.relief and (state.iterations >= state.patience or state.inner.exhausted or ready):
            second = self.second.start(problem, self.first.point(problem, state.inner))
            if not second.exhausted:
                state = RelayState(self.second, second, state.iterations, state.passes)
            elif state.inner.exhausted:
                state.relief = False
            else:
                state.patience *= 2
                state.refused = True
        state.inner.doubted, state.doubted = state.doubted, False
        state.inner = state.solver.advance(problem, state.inner, limit)
        state.follow()
        return state

    def point(self, problem: Any, state: RelayState) -> Point:
        """The point of the solver whose turn it is."""
        return state.solver.point(problem, state.inner)

    def at_work(self, state: RelayState) -> str:
        """The solver whose turn it is."""
        return state.solver.at_work(state.inner)


@dataclass
class RelayState(State):
    """Whose turn it is, its own state, and what was spent before."""

    solver: AnySolver
    inner: State
    earlier_iterations: int = 0
    earlier_passes: float = 0.0
    patience: int = 0  # iterations of the first
    relief: bool = False  # whether another can take over
    refused: bool = False  # whether it could do nothing when the first was ready

    def __post_init__(self) -> None:
        self.follow()

    def follow(self) -> None:
        """Sets: the iterations of both, the passes, and whether the start is worth a certificate."""
        self.untried = self.inner.untried
        self.iterations = self.earlier_iterations + self.inner.iterations
        self.passes = self.earlier_passes + self.inner.counters["passes"]

    @property
    def estimate(self) -> tuple[float, float]:
        """The values that the solver whose turn it is knows."""
        return self.inner.estimate

    @property
    def exhausted(self) -> bool:
        """Whether the present one cannot make further progress and nobody takes over."""
        return self.inner.exhausted and not self.relief

    @property
    def counters(self) -> dict[str, float]:
        """What the solver whose turn it is counts, and the passes of all."""
        return {**self.inner.counters, "passes": self.passes}

    @property
    def effort(self) -> float:
        """All work so far, in passes."""
        return self.earlier_passes + self.inner.effort

    @property
    def certificate_passes(self) -> float:
        """What a certificate of its point would cost."""
        return self.inner.certificate_passes

    @property
    def keeps_its_point(self) -> bool:
        """Whether the present one does in a round that is given up."""
        return self.inner.keeps_its_point
