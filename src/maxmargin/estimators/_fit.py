"""From binary tasks to solutions: pose each problem, choose the solver, minimise, within one budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.estimators._callbacks import FitTasks
from maxmargin.estimators._check import check_limit
from maxmargin.estimators._multiclass import BinaryTask
from maxmargin.interrupts import Interrupts
from maxmargin.minimize import minimize
from maxmargin.problem import Problem
from maxmargin.protocols import Solver
from maxmargin.solution import Solution, Status

STOPPED_BY_THE_USER = (Status.INTERRUPTED, Status.CALLBACK)


def solve_tasks(
    estimator: Any,
    tasks: list[BinaryTask],
    pose: Callable[[BinaryTask], Problem],
    solver: Solver,
    listeners: FitTasks,
) -> list[Solution]:
    """Solve the tasks one after another.

    ``max_time`` is shared: each task may use what the earlier ones left, divided by the number of tasks to come. Once
    the user stopped one, the others are only started, so that every part of the model is defined.
    """
    earlier = _earlier_solutions(estimator, tasks)
    deadline = None if estimator.max_time is None else time.perf_counter() + estimator.max_time
    solutions: list[Solution] = []
    stopped: Status | None = None
    with Interrupts() as interrupts:
        for k, task in enumerate(tasks):
            left = None if deadline is None else max(0.0, deadline - time.perf_counter()) / (len(tasks) - k)
            listeners.begin_problem(task.name)
            solution = minimize(
                pose(task),
                solver,
                tol=estimator.tol,
                max_iter=0 if stopped else check_limit(estimator.max_iter),
                max_time=left,
                callback=listeners.after_round,
                warm=earlier[k],
                verbose=int(estimator.verbose),
                interrupts=interrupts,
            )
            listeners.end_problem()
            if stopped is not None and solution.status is not Status.CONVERGED:
                solution = replace(solution, status=stopped)
            if solution.status in STOPPED_BY_THE_USER:
                stopped = solution.status
            solutions.append(solution)
    return solutions


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """A fit that is refused leaves the estimator as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        for name in set(vars(estimator)) - set(before):
            if not name.startswith(("_callback", "_skl_")):  # these belong to scikit-learn's running callbacks
                delattr(estimator, name)
        vars(estimator).update(before)
        raise


def _earlier_solutions(estimator: Any, tasks: list[BinaryTask]) -> list[Solution | None]:
    """Solutions of the last fit to start from, where they fit."""
    earlier = getattr(estimator, "solutions_", None) if estimator.warm_start else None
    if earlier is None or len(earlier) != len(tasks):
        return [None] * len(tasks)
    sizes = [np.size(solution.point.alpha) for solution in earlier]
    return [s if size == task.members.size else None for s, size, task in zip(earlier, sizes, tasks, strict=True)]


def worst(solutions: list[Solution]) -> Solution:
    """The solution with the largest relative gap."""
    return max(solutions, key=lambda solution: solution.certificate.relative_gap)


def certified_attributes(solutions: list[Solution]) -> dict[str, Any]:
    """The attributes that every fitted estimator has beside scikit-learn's."""
    last = worst(solutions)
    return {
        "solutions_": solutions,
        "solution_": last,
        "duality_gap_": last.certificate.relative_gap,
        "objective_": last.certificate.primal,
        "dual_objective_": last.certificate.dual,
    }


def overall_status(solutions: list[Solution]) -> Status:
    """The status of the worst problem that did not converge, if there is one."""
    unfinished = [solution for solution in solutions if solution.status is not Status.CONVERGED]
    return worst(unfinished).status if unfinished else Status.CONVERGED


def iteration_counts(solutions: list[Solution]) -> np.ndarray[Any, Any]:
    """Iterations of each binary problem."""
    return np.array([solution.iterations for solution in solutions], dtype=np.int32)
