"""What every client of a distributed fit does: read its rows, agree with the others, solve the problems of all rows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxmargin.communicators import Counting
from maxmargin.communicators.agreement import Refused, allgather_texts, refused_together
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.fit import STOPPED_BY_THE_USER
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.problems import not_separable, widest_street
from maxmargin.loop.checkpoint import Checkpoints
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Solution
from maxmargin.operators import Rows, Sharded
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Communicator, Float, Index
from maxmargin.solvers.choice import Choice
from maxmargin.solvers.solver import AnySolver
from maxmargin.wording import Wording

SMALLEST_MARGIN = 1e-12  # reduced hulls that overlap have none


class Outcome(NamedTuple):
    """What a fit has found: the same for every client. The dual variables stay where their rows are."""

    n_features: int
    n_samples: int  # of all clients
    classes: Array
    coef: Float
    intercept: Float
    margins: Float  # by which the functions were divided
    nus: Float
    largest_nu: float
    solutions: list[Solution]
    traffic: Float  # of each client: rounds, scalars, bytes, seconds


@dataclass(frozen=True)
class Held:
    """Rows that are in memory, checked, with targets and weights."""

    X: Any
    y: Array
    weights: Float

    def read(self, rank: int, size: int) -> tuple[Any, Array, Float]:
        """All of them, whoever asks."""
        return self.X, self.y, self.weights


class Client:
    """One client's part in the fit of an estimator.

    Calling it with a communicator and a shard is the program that an engine runs. A shard has the method ``read(rank,
    size)``, or is a list of blocks of rows with their targets and weights. A refusal that all clients share is
    returned instead of raised, so that engines do not take it for the failure of one of them.

    Parameters
    ----------
    estimator : DistributedClassifier
        What to fit.
    attempt : int
        How often it is tried. After the first time the rows may be spread in another way.
    interrupts : Interrupts, optional
        Of a main thread that is not a client itself.

    """

    def __init__(self, estimator: Any, attempt: int = 1, interrupts: Interrupts | None = None) -> None:
        self.estimator, self.attempt, self.interrupts = estimator, attempt, interrupts

    def __call__(self, communicator: Communicator, shard: Any) -> Outcome | Refused:
        """Solve, together with all others."""
        try:
            return self._fit(Counting(communicator), shard)
        except Refused as refusal:
            return refusal

    def _fit(self, communicator: Counting, shard: Any) -> Outcome:
        """Agree on what is to be solved, solve it, and tell what all clients know."""
        estimator = self.estimator
        with refused_together(communicator):
            X, y, weights = _checked_rows(estimator, shard, communicator)
        X = _with_common_columns(X, communicator)
        classes, codes = _common_classes(estimator, y, communicator)
        s = _weights_of_losses(estimator, classes, codes, weights, communicator)
        rows = Sharded(Rows(X), communicator)
        tasks = [_Task(t.name, *_on_all_rows(t, s)) for t in binary_tasks(codes, classes, estimator.multi_class)]
        sides = communicator.allreduce(np.array([[t.s[t.y > 0.0].sum(), t.s[t.y < 0.0].sum()] for t in tasks]))
        with _shared_refusals():
            nus, largest_nu = estimator._nus([t.name for t in tasks], sides)
            choice: Choice = estimator._choice(rows)
            solver = choice.make(seed=estimator._seed())
            problems = [
                estimator._problem(rows, t.y, t.s, min(0.5 * nu * float(side.sum()), *side.tolist()))
                for t, nu, side in zip(tasks, nus, sides, strict=True)
            ]
        solutions = self._solve(problems, solver, communicator)
        functions = [_function(*pair) for pair in zip(problems, solutions, strict=True)]
        traffic = communicator.traffic
        own = np.array([traffic.rounds, traffic.scalars, traffic.bytes, traffic.seconds], dtype=np.float64)
        return Outcome(
            n_features=rows.n_features,
            n_samples=rows.total_samples,
            classes=classes,
            coef=np.array([w for w, _, _ in functions]),
            intercept=np.array([b for _, b, _ in functions]),
            margins=np.array([rho for _, _, rho in functions]),
            nus=nus,
            largest_nu=largest_nu,
            solutions=[_without_local_variables(solution) for solution in solutions],
            traffic=communicator.inner.allgather(own),
        )

    def _solve(self, problems: Sequence[Any], solver: AnySolver, communicator: Counting) -> list[Solution]:
        """One problem after the other, each with its share of the time that is left."""
        estimator, first = self.estimator, communicator.rank == 0
        deadline = None if estimator.max_time is None else time.perf_counter() + estimator.max_time
        solutions: list[Solution] = []
        stopped: Status | None = None
        for k, problem in enumerate(problems):
            with _shared_refusals():
                self._refuse_unsupported(problem, solver)
                checkpoint = self._checkpoint(problem, solver, f".{k}" if len(problems) > 1 else "")
            left = None if deadline is None else max(0.0, deadline - time.perf_counter()) / (len(problems) - k)
            solution = minimize(
                problem,
                solver,
                tol=estimator.tol,
                max_iter=0 if stopped else check.check_limit(estimator.max_iter),
                max_time=left,
                callback=estimator.callback if first else None,
                verbose=int(estimator.verbose) if first else 0,
                interrupts=self.interrupts if first else None,
                checkpoint=checkpoint,
                checkpoint_every=estimator.checkpoint_every,
            )
            if isinstance(problem, HullDistance) and solution.certificate.dual >= 0.0:
                solution = not_separable(solution)
            if stopped and solution.status is not Status.CONVERGED:
                solution = replace(solution, status=stopped)
            if solution.status in STOPPED_BY_THE_USER:
                stopped = solution.status
            solutions.append(solution)
        return solutions

    def _refuse_unsupported(self, problem: Any, solver: AnySolver) -> None:
        reason = solver.supports(problem)
        if reason is not None:
            name = type(self.estimator).__name__
            raise ValueError(f"solver={solver.name!r} cannot solve this problem of {name}: {reason}; 'auto' can.")

    def _checkpoint(self, problem: Any, solver: AnySolver, suffix: str) -> str | None:
        """The file to go on from and to write to; another one if that of a lost attempt is for other rows."""
        if self.estimator.checkpoint is None:
            return None
        path = f"{os.path.abspath(self.estimator.checkpoint)}{suffix}"
        try:
            Checkpoints(path, problem, solver, problem.communicator).latest()
        except ValueError:
            if self.attempt == 1:
                raise
            return f"{path}.{self.attempt}"
        return path


class _Task(NamedTuple):
    """A binary problem over all rows; those that take no part have weight zero, which is cheaper than a copy."""

    name: str
    y: Float
    s: Float


def _on_all_rows(task: Any, s: Float) -> tuple[Float, Float]:
    y, weights = np.ones(s.size), np.zeros(s.size)
    y[task.members], weights[task.members] = task.y, s[task.members]
    return y, weights


@contextmanager
def _shared_refusals() -> Iterator[None]:
    """What is refused on the ground of numbers that all clients share, all refuse."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from error


def _checked_rows(estimator: Any, shard: Any, communicator: Communicator) -> tuple[Any, Array, Float]:
    """The rows of this client, which may be none, their targets and weights."""
    if isinstance(shard, Held):
        return shard.read(communicator.rank, communicator.size)
    X, y, *weights = _joined(shard) if isinstance(shard, list) else shard.read(communicator.rank, communicator.size)
    return check.check_shard(estimator, X, y, weights[0] if weights else None)


def _joined(blocks: list[Any]) -> tuple[Any, ...]:
    """Blocks of rows, targets and weights, put together."""
    if len(blocks) == 1:
        return tuple(blocks[0])
    X, y, weights = zip(*blocks, strict=True)
    matrix = sp.vstack(X, format="csr") if is_sparse(X[0]) else np.concatenate([np.asarray(block) for block in X])
    return matrix, np.concatenate(y), None if weights[0] is None else np.concatenate(weights)


def _with_common_columns(X: Any, communicator: Communicator) -> Any:
    """Sparse rows with as many columns as anybody has seen; dense ones must have equally many."""
    figures = communicator.allgather(np.array([float(X.shape[1]), float(is_sparse(X))]))
    columns, are_sparse = figures.T
    if are_sparse.all():
        if (width := int(columns.max())) == 0:
            raise Refused(Wording("No row has an entry, so the number of columns is unknown; pass {n_features}."))
        if X.shape[1] < width:
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    elif np.unique(columns).size > 1:
        widths = ", ".join(f"{width:.0f}" for width in columns)
        raise Refused(f"The clients have rows of {widths} columns, in the order of their ranks; all need the same.")
    return X


def _common_classes(estimator: Any, y: Array, communicator: Communicator) -> tuple[Array, Index]:
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
    estimator: Any, classes: Array, codes: Index, weights: Float, communicator: Communicator
) -> Float:
    """``C`` times class weight times sample weight for every row of this client."""
    totals = communicator.allreduce(np.bincount(codes, weights, classes.size).astype(np.float64))
    with _shared_refusals():
        return check.weights_of_classes(estimator, classes, totals)[codes] * weights


def _function(problem: Problem | HullDistance, solution: Solution) -> tuple[Float, float, float]:
    """Coefficients and intercept; of hulls those of the street between them, whose edges then score -1 and 1."""
    point = solution.point
    if isinstance(problem, Problem):
        return point.w, point.b, 1.0
    rho, b = widest_street(problem, point)
    divisor = rho if rho > SMALLEST_MARGIN else 1.0
    return point.w / divisor, b / divisor, rho


def _without_local_variables(solution: Solution) -> Solution:
    return replace(solution, point=Point(solution.point.w, solution.point.b), last=None)
