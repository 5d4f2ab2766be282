"""What every client of a distributed fit does: read its rows, agree with the others, solve the problems of all rows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from maxmargin.communicators import Counting, Star
from maxmargin.communicators.agreement import Refused, allgather_texts, refused_together
from maxmargin.communicators.counting import Engine
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import Listeners
from maxmargin.estimators._machinery.extremes import refuse_extreme_weights
from maxmargin.estimators._machinery.fit import choose_solver, solve_in_turn
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import Plan, ShardView, Task, regression_task
from maxmargin.loop.checkpoint import Checkpoints
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.solution import Solution
from maxmargin.operators import Matrix, MatrixLike, Rows, Sharded
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Communicator, Float, Index
from maxmargin.solvers.choice import AnyProblem
from maxmargin.solvers.solver import AnySolver
from maxmargin.threads import NO_OTHERS
from maxmargin.wording import Wording

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.distributed import DistributedMachine
    from maxmargin.estimators._machinery.distributed_classifier import DistributedClassifier
    from maxmargin.estimators._machinery.distributed_regressor import DistributedRegressor

COPIED = 0.125  # of its rows, that saddle may copy: with the vectors a client needs a fifth more than its rows


class Outcome(NamedTuple):
    """What a fit has found: the same for every client. The dual variables stay where their rows are."""

    n_features: int
    n_samples: int  # of all clients
    classes: Array  # none of a regression
    coef: Float
    intercept: Float
    margins: Float  # by which the functions were divided
    nus: Float
    largest_nu: float
    solutions: list[Solution]
    traffic: Float  # of each client: rounds, scalars, bytes, numbers received, seconds


class Agreed(NamedTuple):
    """What all clients are going to solve; the targets and weights of the tasks are those of one client."""

    tasks: list[Task]
    classes: Array
    codes: Index  # the class of each row
    sides: Float  # of each task, the weights of the positive and of the negative samples of all clients


@dataclass(frozen=True)
class Held:
    """Rows that are in memory, checked, with targets and weights."""

    X: Matrix
    y: Array
    weights: Float

    def read(self, rank: int, size: int) -> tuple[Matrix, Array, Float]:
        """All of them, whoever asks."""
        return self.X, self.y, self.weights


Block: TypeAlias = tuple[MatrixLike, Array, ArrayLike | None]  # rows, targets and weights


class Readable(Protocol):
    """Rows that each client reads for itself."""

    def read(self, rank: int, size: int) -> tuple[Matrix, Array | None] | tuple[Matrix, Array, Float]:
        """The rows of one of the clients, their targets, and their weights if there are any."""


Shard: TypeAlias = Readable | list[Block]


class Client:
    """One client's part in the fit of an estimator.

    Calling it with a communicator and a shard is the program that an engine runs. A shard has the method ``read(rank,
    size)``, or is a list of blocks of rows with their targets and weights. A refusal that all clients share is
    returned instead of raised, so that engines do not take it for the failure of one of them.

    Parameters
    ----------
    estimator : DistributedMachine
        What to fit.
    attempt : int
        How often it is tried. After the first time the rows may be spread in another way.
    interrupts : Interrupts, optional
        Of a main thread that is not a client itself.

    """

    def __init__(self, estimator: DistributedMachine, attempt: int = 1, interrupts: Interrupts | None = None) -> None:
        self.estimator, self.attempt, self.interrupts = estimator, attempt, interrupts

    def __call__(self, communicator: Communicator, shard: Shard) -> Outcome | Refused:
        """Solve, together with all others."""
        try:
            counting = Counting(cast("Engine", communicator))
            return self._fit(counting, Star(counting) if self.estimator.topology == "star" else counting, shard)
        except Refused as refusal:
            return refusal

    def _fit(self, counting: Counting, communicator: Communicator, shard: Shard) -> Outcome:
        """Agree on what is to be solved, solve it, and tell what all clients know."""
        estimator = self.estimator
        with refused_together(communicator):
            X, y, weights = _checked_rows(estimator, shard, communicator)
        X = _with_common_columns(X, communicator)
        tasks, classes, codes, sides = estimator._agree(y, weights, communicator)
        rows, first = Sharded(Rows(X), communicator), communicator.rank == 0
        plan = Plan(
            X,
            y,
            tasks,
            weights,
            codes,
            NO_OTHERS,
            views=[ShardView(rows)],
            hints={"seed": estimator._seed(), "copied": COPIED, **(estimator.solver_options or {})},
            listeners=Listeners(estimator.callback if first else None),
            communicator=communicator,
            interrupts=self.interrupts if first and self.interrupts else Interrupts(),
            checkpoint=partial(self._checkpoint, communicator, len(tasks) > 1),
        )
        with _shared_refusals():
            nus, largest_nu = estimator._nus(lambda k: tasks[k].name, sides)
            choose_solver(estimator, plan)
        solved = solve_in_turn(estimator, plan)
        own = np.array([*counting.traffic.counters.values(), counting.traffic.seconds])
        return Outcome(
            n_features=rows.n_features,
            n_samples=rows.total_samples,
            classes=classes,
            coef=np.array([one.function.w for one in solved]),
            intercept=np.array([one.function.b for one in solved]),
            margins=np.array([one.function.width for one in solved]),
            nus=nus,
            largest_nu=largest_nu,
            solutions=[_without_local_variables(one.solution) for one in solved],
            traffic=counting.inner.allgather(own),
        )

    def _checkpoint(
        self, communicator: Communicator, several: bool, k: int, problem: AnyProblem, solver: AnySolver
    ) -> str | None:
        """The file to go on from and to write to; another one if that of a lost attempt is for other rows."""
        if self.estimator.checkpoint is None:
            return None
        path = f"{os.path.abspath(self.estimator.checkpoint)}{f'.{k}' if several else ''}"
        with _shared_refusals():
            try:
                Checkpoints(path, problem, solver, communicator).latest()
            except ValueError:
                if self.attempt == 1:
                    raise
                return f"{path}.{self.attempt}"
        return path


def agreed_classes(estimator: DistributedClassifier, y: Array, weights: Float, communicator: Communicator) -> Agreed:
    """The binary problems of a classification."""
    classes, codes = _common_classes(estimator, y, communicator)
    s = _weights_of_losses(estimator, classes, codes, weights, communicator)
    with refused_together(communicator):
        refuse_extreme_weights(estimator, [s])
    tasks = [_on_all_rows(task, s.size) for task in binary_tasks(codes, classes, estimator.multi_class, s)]
    sides = communicator.allreduce(np.array([[t.s[t.y > 0.0].sum(), t.s[t.y < 0.0].sum()] for t in tasks]))
    return Agreed(tasks, classes, codes, sides)


def agreed_targets(estimator: DistributedRegressor, y: Array, weights: Float, communicator: Communicator) -> Agreed:
    """The only problem of a regression."""
    with refused_together(communicator):
        targets = check.check_targets(estimator, y)
    count, total = communicator.allreduce(np.array([float(y.size), weights.sum()])).tolist()
    if count == 0.0:
        raise Refused("There are no samples; at least one is needed.")
    if total == 0.0:
        raise Refused("No sample has a positive weight; at least one is needed.")
    task = regression_task(targets, estimator._weights_of_errors(weights, total))
    return Agreed([task], np.empty(0), np.zeros(y.size, dtype=np.int64), np.zeros((1, 2)))


def _on_all_rows(task: Task, n: int) -> Task:
    """The same over all rows: those that take no part have weight zero, which is cheaper than a copy of the others."""
    y, s = np.ones(n), np.zeros(n)
    y[task.members], s[task.members] = task.y, task.s
    return Task(task.name, np.arange(n), y, s)


@contextmanager
def _shared_refusals() -> Iterator[None]:
    """What is refused on the ground of numbers that all clients share, all refuse."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from error


def _checked_rows(
    estimator: DistributedMachine, shard: Shard, communicator: Communicator
) -> tuple[Matrix, Array, Float]:
    """The rows of this client, which may be none, their targets and weights."""
    if isinstance(shard, Held):
        return shard.read(communicator.rank, communicator.size)
    X, y, *weights = _joined(shard) if isinstance(shard, list) else shard.read(communicator.rank, communicator.size)
    return check.check_shard(estimator, X, y, weights[0] if weights else None)


def _joined(blocks: list[Block]) -> Block:
    """Blocks of rows, targets and weights, put together."""
    if len(blocks) == 1:
        return blocks[0]
    X, y, weights = zip(*blocks, strict=True)
    matrix = sp.vstack(X, format="csr") if is_sparse(X[0]) else np.concatenate([np.asarray(block) for block in X])
    return matrix, np.concatenate(y), None if weights[0] is None else np.concatenate(weights)


def _with_common_columns(X: Matrix, communicator: Communicator) -> Matrix:
    """Sparse rows with as many columns as anybody has seen; dense ones must have equally many."""
    figures = communicator.allgather(np.array([float(X.shape[1]), float(is_sparse(X))]))
    columns, are_sparse = figures.T
    if are_sparse.all():
        if (width := int(columns.max())) == 0:
            raise Refused(Wording("No row has an entry, so the number of columns is unknown; pass {n_features}."))
        if is_sparse(X) and X.shape[1] < width:
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    elif np.unique(columns).size > 1:
        widths = ", ".join(f"{width:.0f}" for width in columns)
        raise Refused(f"The clients have rows of {widths} columns, in the order of their ranks; all need the same.")
    return X


def _common_classes(estimator: DistributedClassifier, y: Array, communicator: Communicator) -> tuple[Array, Index]:
    """The classes of all clients, and for every row of this one the index of its own."""
    with refused_together(communicator):
        own = np.unique(y)
        text = json.dumps([own.dtype.str, own.tolist()]) if own.size else ""
    said = [json.loads(text) for text in allgather_texts(communicator, text) if text]
    if not said:
        raise Refused("There are no samples; at least one of each class is needed.")
    kinds = {np.dtype(kind).kind in "biuf" for kind, _ in said}
    if len(kinds) > 1:
        raise Refused("Some clients have numbers for labels and others have texts; use one or the other.")
    with _shared_refusals():
        every = np.concatenate([np.array(labels, dtype=kind) for kind, labels in said])
        classes, _ = check.check_classes(estimator, every)
    return classes, np.searchsorted(classes, y) if y.size else np.empty(0, dtype=np.int64)


def _weights_of_losses(
    estimator: DistributedClassifier, classes: Array, codes: Index, weights: Float, communicator: Communicator
) -> Float:
    """``C`` times class weight times sample weight for every row of this client."""
    totals = communicator.allreduce(np.bincount(codes, weights, classes.size).astype(np.float64))
    with _shared_refusals():
        return check.weights_of_classes(estimator, classes, totals)[codes] * weights


def _without_local_variables(solution: Solution) -> Solution:
    return replace(solution, point=Point(solution.point.w, solution.point.b), last=None)
