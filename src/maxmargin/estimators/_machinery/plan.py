"""The record of a fit: what was checked and planned. Every later step reads it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

import numpy as np

from maxmargin._jit import seconds_working
from maxmargin.communicators import ALONE
from maxmargin.estimators._machinery.callbacks import NOBODY, Listeners
from maxmargin.loop.interrupts import Interrupts
from maxmargin.operators import Columns, Rows, Sharded, rows_of
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Communicator, Features, Float, Index, Operator
from maxmargin.solvers.choice import AnyProblem, Choice
from maxmargin.solvers.solver import AnySolver
from maxmargin.threads import Workers

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator
    from maxmargin.estimators._machinery.results import Results

SMALL = 2**20  # numbers
LOOSEST = 0.1  # relative gap that a fit may end with: one of 1 is met by the function zero


@dataclass(frozen=True)
class Task:
    """One problem of a fit: which samples take part, what they should score, and the weights of their losses."""

    name: str
    members: Index
    y: Float
    s: Float


class Tasks(Sequence[Task]):
    """The problems of a fit in one piece, for calls that solve all of them; a `Task` is cut out when it is asked for.

    ``order`` has the samples in an order in which those of each task are two runs, or one: ``stretches`` says where
    they begin and how many they are. Targets and weights of one task after the other are in ``y`` and ``s``, and those
    of task ``k`` begin at ``first[k]``.
    """

    def __init__(
        self,
        name: Callable[[int], str],
        order: Index,
        stretches: Index,
        first: Index,
        y: Float,
        s: Float,
        numbers: Index,
        *,
        sorts: bool = False,
    ) -> None:
        self.name, self.order, self.stretches, self.first, self.y, self.s = name, order, stretches, first, y, s
        self.numbers = numbers  # of the samples in their tasks
        self.sorts = sorts  # whether the samples are in another order than they were given
        self._made: dict[int, Task] = {}

    @classmethod
    def alone(cls, name: str, y: Float, s: Float) -> Tasks:
        """One task of all samples."""
        n = s.size
        everyone = np.arange(n)
        return cls(lambda k: name, everyone, np.array([[0, n, 0, 0]]), np.array([0, n]), y, s, everyone)

    def __len__(self) -> int:
        return len(self.stretches)

    @overload
    def __getitem__(self, k: int) -> Task: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Task]: ...
    def __getitem__(self, k: int | slice) -> Task | Sequence[Task]:
        if isinstance(k, slice):
            return [self[i] for i in range(len(self))[k]]
        if not -len(self) <= k < len(self):
            raise IndexError(k)
        k %= len(self)
        if k not in self._made:
            members, own = self._members(k), slice(self.first[k], self.first[k + 1])
            y, s = self.y[own], self.s[own]
            if self.sorts:
                places = self.places(k)
                members, y, s = members[places], y[places], s[places]
            self._made[k] = Task(self.name(k), members, y, s)
        return self._made[k]

    def places(self, k: int) -> Index:
        """Where the samples of a task are in its runs, in the order in which they were given: so a `Task` has them."""
        return np.argsort(self._members(k))

    def _members(self, k: int) -> Index:
        """The samples of a task, one run after the other."""
        start, count, second, more = self.stretches[k].tolist()
        if count + more == self.order.size:
            return self.order
        return np.concatenate([self.order[start : start + count], self.order[second : second + more]])


class Function(NamedTuple):
    """What a solution stands for: ``w.x + b``, or an expansion over the samples, and a width that was found with it."""

    w: Float
    b: float
    alpha: Float | None
    width: float = 1.0  # the margin by which the function was divided, 0 if it has none, or half the width of a tube
    undivided: Float | None = None  # the expansion before it was divided by its margin


class View(Protocol):
    """One way to see the samples of a fit: as rows of features, or through a kernel."""

    def of(self, task: Task) -> Operator:
        """The samples of a task."""


class RowsView:
    """Samples as rows of features; tasks of all samples share them."""

    def __init__(self, X: Any, workers: Workers | None = None) -> None:
        self.X, self.workers = X, workers

    @cached_property
    def shared(self) -> Features:
        """All samples: columns in memory would be copied, so nobody does that who does not need rows."""
        return rows_of(self.X, self.workers)

    def of(self, task: Task) -> Features:
        """The samples of a task."""
        return self.shared if task.members.size == self.X.shape[0] else Rows(self.X[task.members], self.workers)


class ColumnsView:
    """Samples as columns of features; tasks of all samples share them, but not what is known of their products.

    Tasks may be solved side by side, and their results must not depend on which of them was the first.
    """

    def __init__(self, X: Any, workers: Workers | None = None) -> None:
        self.X, self.workers = X, workers

    @cached_property
    def shared(self) -> Columns:
        """All samples; columns may have to be copied, so nobody else asks."""
        return Columns(self.X, self.workers)

    def of(self, task: Task) -> Columns:
        """The samples of a task."""
        if task.members.size == self.X.shape[0]:
            return self.shared.separate()
        return Columns(self.X[task.members], self.workers)


class ShardView:
    """The rows of this client and, through its communicator, those of all others."""

    def __init__(self, rows: Sharded) -> None:
        self.rows = rows

    def of(self, task: Task) -> Sharded:
        """All rows: those that take no part in a task have weight zero, which is cheaper than a copy."""
        return self.rows


@dataclass
class Plan:
    """One fit, from the checked samples to the chosen solver."""

    X: Any
    y: Any  # as it was given
    tasks: Sequence[Task]
    weights: Float  # the sample weights alone
    codes: Array  # class of each sample; zeros if there are none
    workers: Workers
    views: Sequence[View] = ()  # the ways to see the samples, the first that suits the solver counts
    hints: Mapping[str, object] = field(default_factory=dict)  # options for whichever solver has them
    listeners: Listeners = NOBODY
    notes: list[str] = field(default_factory=list)  # warnings for when the fit has ended
    began: float = field(default_factory=seconds_working)
    tol: float | None = None  # the gap at which to end, if that is not the estimator's `tol`
    shortcut: Callable[[Plan], Results] | None = None  # what solves the tasks, if that is not `solve`
    # Of a client of a distributed fit:
    communicator: Communicator = ALONE
    interrupts: Interrupts = field(default_factory=Interrupts)
    checkpoint: Callable[[int, AnyProblem, AnySolver], str | None] = lambda k, problem, solver: None
    starts: Sequence[Point | None] = ()  # points of the tasks that another method reached and could not finish
    # Set when the first problem was posed:
    view: View = None  # type: ignore[assignment]
    choice: Choice = None  # type: ignore[assignment]
    solver: AnySolver = None  # type: ignore[assignment]
    first: AnyProblem | None = None  # until it is solved

    @property
    def weights_of_losses(self) -> Sequence[Float]:
        """Those of all tasks, in one array or in several."""
        return (self.tasks.s,) if isinstance(self.tasks, Tasks) else [task.s for task in self.tasks]

    @property
    def is_posed(self) -> bool:
        """Whether a solver was chosen for the first problem."""
        chosen: object = self.solver
        return chosen is not None

    @property
    def is_small(self) -> bool:
        """Whether reading the samples of all tasks, or the kernel values of all their pairs, takes less than 1 ms."""
        d = self.X.shape[1]
        return sum(task.members.size * (task.members.size + d) for task in self.tasks) < SMALL

    def pose(self, estimator: CertifiedEstimator, k: int) -> AnyProblem:
        """What a task minimises, as the solver wants to see it; the first one was posed to choose the solver."""
        if k == 0 and self.first is not None:
            problem, self.first = self.first, None
            return problem
        return estimator._problem(self.view.of(self.tasks[k]), self.tasks[k], self)


def regression_task(y: Any, s: Float) -> Task:
    """The only task of a regression."""
    return regression_tasks(y, s)[0]


def regression_tasks(y: Any, s: Float) -> Tasks:
    """The same as all tasks of a fit."""
    return Tasks.alone("regression", np.asarray(y, dtype=np.float64), s)
