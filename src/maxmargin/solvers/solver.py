"""What a solver is: options, what it needs of a problem, and how it makes progress.

A solver has no loop, no stopping rule and no printing: `loop.minimize` runs all of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np

from maxmargin.operators import Chunks, Columns, Rows, Sharded
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2, Unpenalised
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.classes import ClassesProblem
from maxmargin.problems.groups import GroupProblem
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array

# How the samples of a `Problem` have to be seen, and which other problems there are, with what is said if they are not.
SEEN: dict[str, tuple[tuple[type, ...], str]] = {
    "rows": ((Rows,), "it needs the samples as rows of features, not a kernel, and in memory, not in chunks"),
    "sweeps": ((Rows, Chunks), "it needs the samples as rows of features, not a kernel"),
    "columns": ((Columns,), "it needs the samples as columns of features, not as rows or a kernel, and in memory"),
}
OTHER_PROBLEMS: dict[str, tuple[type, str]] = {
    "hulls": (
        HullDistance,
        "it needs the distance of two hulls (HullDistance), of a hard margin or nu machine with a linear kernel "
        "or none",
    ),
    "classes": (ClassesProblem, "it needs a problem of several classes at once"),
    "groups": (GroupProblem, "it needs coefficients in groups (GroupProblem)"),
}
ProblemT = TypeVar("ProblemT", contravariant=True)
StateT = TypeVar("StateT", bound="State")


@dataclass(frozen=True)
class Needs:
    """What a solver asks of a problem. This is the only place that decides who may solve what.

    ``samples`` says how the method looks at the samples:

    ===========  =====================================================================================
    ``rows``     single rows of features in any order, so that they have to be in memory
    ``sweeps``   rows of features from beginning to end, so that they may be read chunk by chunk
    ``columns``  columns of features in any order, so that they have to be in memory
    ``kernel``   a kernel matrix and a loss whose dual is a quadratic program, or such a program itself
    ``hulls``    rows of two classes whose hulls are to be separated: `HullDistance`
    ``classes``  rows of several classes at once: `SoftmaxProblem`, `CrammerSingerProblem`
    ``groups``   columns in groups, perhaps with several targets at once: `GroupProblem`
    ===========  =====================================================================================
    """

    samples: Literal["rows", "sweeps", "columns", "kernel", "hulls", "classes", "groups"]
    clients: bool = False  # whether the rows may be spread over several clients
    l2: bool = False  # whether the penalty has to be L2
    squared: bool = False  # whether the loss has to be the squared one
    linear: bool = False  # whether the optimum has to solve linear equations: the squared loss, and L2 or no penalty
    most_features: int | None = None  # for methods that factorise a matrix of their size
    or_kernel: bool = False  # whether a kernel matrix will do as well

    def unmet(self, problem: object) -> str | None:
        """``None``, or the first need that a problem does not meet, as the end of a sentence."""
        over_kernel = isinstance(problem, BoxQP) or (isinstance(problem, Problem) and problem.kernelised)
        if self.samples == "kernel" or (self.or_kernel and over_kernel):
            reason = _unmet_kernel(problem)
        elif self.samples in SEEN:
            reason = _unmet_view(problem, *SEEN[self.samples])
        else:
            kind, sentence = OTHER_PROBLEMS[self.samples]
            reason = None if isinstance(problem, kind) else sentence
        if reason is not None:
            return reason
        communicator = getattr(getattr(problem, "operator", None), "communicator", None)
        if not self.clients and communicator is not None and communicator.size > 1:
            return f"it needs all rows in one place; those of this problem are spread over {communicator.size} clients"
        if isinstance(problem, Problem):
            if (self.squared or self.linear) and not isinstance(problem.loss, Squared):
                return f"it needs the squared loss; this problem has {type(problem.loss).__name__}"
            if self.samples in SEEN and not over_kernel:
                return self._unmet_form(problem)
        return None

    def _unmet_form(self, problem: Problem) -> str | None:
        if self.l2 and not isinstance(problem.penalty, L2):
            return f"it needs an L2 penalty; this problem has {type(problem.penalty).__name__}"
        if self.linear and not isinstance(problem.penalty, L2 | Unpenalised):
            return f"it needs an L2 penalty or none; this problem has {type(problem.penalty).__name__}"
        d = problem.operator.n_features  # type: ignore[attr-defined]
        if self.most_features is not None and d > self.most_features:
            return (
                f"it factorises a matrix of the size of the features; this problem has {d}, more than "
                f"{self.most_features}"
            )
        return None


def _unmet_kernel(problem: object) -> str | None:
    if isinstance(problem, Problem):
        return BoxQP.obstacle(problem)
    return None if isinstance(problem, BoxQP) else "it needs a kernel matrix; this problem has rows of features"


def _unmet_view(problem: object, seen: tuple[type, ...], sentence: str) -> str | None:
    if isinstance(problem, Problem):
        operator = problem.operator
        if isinstance(operator.rows if isinstance(operator, Sharded) else operator, seen):
            return None
    return sentence


@dataclass(kw_only=True)
class State:
    """What a solver carries from round to round, as far as the loop looks at it."""

    iterations: int = 0  # so far, in the unit that the solver documents
    passes: float = 0.0  # over the data
    primal: float = math.inf  # value of the present point by the solver's own account; infinite if it is not known
    dual: float = -math.inf
    untried: bool = False  # whether it is a start far from the optimum, and the first round is short: no certificate
    doubted: bool = False  # set by the loop if the last point was not good enough; a solver that cares takes it back

    @property
    def estimate(self) -> tuple[float, float]:
        """The solver's own primal and dual value; infinite where it does not know."""
        return self.primal, self.dual

    @property
    def exhausted(self) -> bool:
        """Whether the solver cannot make further progress."""
        return False

    @property
    def ready(self) -> bool:
        """Whether a method for the last digits would be faster from here, by the solver's own account."""
        return False

    @property
    def at_rest(self) -> Status:
        """Why a solver that is exhausted cannot go on."""
        return Status.STALLED

    @property
    def counters(self) -> dict[str, float]:
        """What the solver counts: ``passes`` over the data always."""
        return {"passes": self.passes}

    @property
    def effort(self) -> float:
        """All work so far, in passes: more than these where rows are stored and read again and again."""
        return self.counters["passes"]

    @property
    def certificate_passes(self) -> float:
        """Passes over the data that a certificate of the present point would take."""
        return 2.0

    @property
    def keeps_its_point(self) -> bool:
        """Whether a round that is given up half way leaves the point as it was, so that it may still be judged."""
        return False


class Solver(ABC, Generic[ProblemT, StateT]):
    """How to make progress on a problem. A subclass is a frozen dataclass of options."""

    name: ClassVar[str]  # under which users choose it
    needs: ClassVar[Needs]
    finishers: ClassVar[tuple[str, ...]] = ()  # who go on from its point where it cannot, the first that supports that

    def supports(self, problem: object) -> str | None:
        """``None``, or the reason why not, as the end of a sentence."""
        return self.needs.unmet(problem) or self.obstacle(cast("ProblemT", problem))

    def obstacle(self, problem: ProblemT) -> str | None:
        """What stands in the way of a problem that meets the needs; ``None`` if nothing does."""
        return None

    @classmethod
    @cache
    def options(cls) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]

    @classmethod
    @cache
    def types(cls) -> dict[str, str]:
        """The types of its options as they are written, such as ``"int | str"``."""
        return {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]

    @classmethod
    def with_hints(cls, hints: Mapping[str, object]) -> Self:
        """The solver with those of the hints that are options of it."""
        options = cls.options()
        return cls(**{name: value for name, value in hints.items() if name in options})

    @abstractmethod
    def start(self, problem: ProblemT, warm: Point | None) -> StateT:
        """The first state, near a given point if there is one."""

    @abstractmethod
    def advance(self, problem: ProblemT, state: StateT, limit: int) -> StateT:
        """The state after one round of at most ``limit`` iterations: some milliseconds of compiled work.

        How much a round does must not depend on the clock, so that equal fits give equal bits.
        """

    @abstractmethod
    def point(self, problem: ProblemT, state: StateT) -> Point:
        """The point that a state stands for. The state stays as it is."""

    def at_work(self, state: StateT) -> str:
        """The name of the method that made the last steps."""
        return self.name


def check_options(solver: object, **known: Iterable[object]) -> None:
    """Refuse an option of a solver that is none of the known ones."""
    for option, choices in known.items():
        if (value := getattr(solver, option)) not in choices:
            raise ValueError(f"{option}={value!r} is unknown; choose one of {', '.join(map(repr, choices))}.")


def is_of_type(value: object, types: str) -> bool:
    """Whether an option has one of the types that a solver writes, such as ``"float | None"``."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "int": Integral, "float": Real, "str": str, "bool": (bool, np.bool_), "None": type(None),
        "HeldOut": tuple,
        "AnySolver": Solver,
    }  # fmt: skip
    names = types.split(" | ")
    if isinstance(value, (bool, np.bool_)):
        return "bool" in names
    return any(isinstance(value, kinds[name]) for name in names)


AnySolver: TypeAlias = Solver[Any, Any]


@runtime_checkable
class Resumable(Protocol):
    """A solver whose state can be put into a checkpoint. Others go on from the point of their state."""

    def saved(self, state: Any) -> dict[str, Array]:
        """The state as arrays of numbers."""

    def restored(self, problem: Any, saved: dict[str, Array]) -> Any:
        """The state again: the fit goes on as if nothing had happened."""
