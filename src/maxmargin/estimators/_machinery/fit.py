"""From tasks to solutions: pose each problem, minimise, within one budget of time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.estimators._machinery.callbacks import FitTasks
from maxmargin.estimators._machinery.check import check_limit
from maxmargin.estimators._machinery.problems import first_point, rounding_level
from maxmargin.estimators._machinery.task import Task
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Certifiable, Status
from maxmargin.problems.problem import Problem
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Features
from maxmargin.solvers.solver import AnySolver
from maxmargin.threads import Workers, one_blas_thread

STOPPED_BY_THE_USER = (Status.INTERRUPTED, Status.CALLBACK)


def solve_tasks(
    estimator: Any,
    tasks: Sequence[Task],
    pose: Callable[[Any], Problem | BoxQP | HullDistance | SoftmaxProblem],
    solver: AnySolver,
    listeners: FitTasks,
    workers: Workers,
) -> list[Solution]:
    """Solve the tasks, several at a time if there are threads for them and nobody listens.

    ``max_time`` is shared: each task may use what the earlier ones left, divided by the number of tasks to come. Once
    the user stopped one, the others are only started, so that every part of the model is defined.
    """
    earlier = _earlier_solutions(estimator, len(tasks))
    deadline = None if estimator.max_time is None else time.perf_counter() + estimator.max_time
    solutions: dict[int, Solution] = {}
    stopped: list[Status] = []
    if listeners.listening or estimator.verbose:
        at_once = Workers(1)  # callbacks expect one problem after another
    else:
        at_once = workers

    def solve(k: int, interrupts: Interrupts) -> Solution:
        turns = math.ceil((len(tasks) - len(solutions)) / at_once.count)
        left = None if deadline is None else max(0.0, deadline - time.perf_counter()) / turns
        problem = pose(tasks[k])
        solution = minimize(
            problem,
            solver,
            tol=estimator.tol,
            max_iter=0 if stopped else check_limit(estimator.max_iter),
            max_time=left,
            callback=_stopping_rule(problem, listeners),
            warm=earlier[k] if _fits(earlier[k], problem) else first_point(problem),
            verbose=int(estimator.verbose),
            interrupts=interrupts,
        )
        if solution.status is Status.CALLBACK and not listeners.asked_to_stop:
            solution = replace(solution, status=Status.STALLED)
        if stopped and solution.status is not Status.CONVERGED:
            solution = replace(solution, status=stopped[0])
        if solution.status in STOPPED_BY_THE_USER:
            stopped.append(solution.status)
        return solution

    with Interrupts() as interrupts:

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                listeners.begin_problem(tasks[k].name)
                solutions[k] = solve(k, interrupts)
                listeners.end_problem()

        at_once.run(work, range(len(tasks)))
    return [solutions[k] for k in range(len(tasks))]


def _stopping_rule(problem: Certifiable, listeners: FitTasks) -> Callable[[Record], bool]:
    """Stop when somebody wants to, or when the value of the problem is lost in rounding errors."""
    level = rounding_level(problem)

    def stop(record: Record) -> bool:
        return listeners.after_round(record) or max(abs(record.primal), abs(record.dual)) < level

    return stop


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """A fit that is refused leaves the estimator as it was.

    BLAS has one thread from the first to the last line: its sums depend on how many there are, and beside another fit
    there is only one.
    """
    before = dict(vars(estimator))
    try:
        with one_blas_thread():
            yield
    except BaseException:
        for name in set(vars(estimator)) - set(before):
            if not name.startswith(("_callback", "_skl_")):  # these belong to scikit-learn's running callbacks
                delattr(estimator, name)
        vars(estimator).update(before)
        raise


def _earlier_solutions(estimator: Any, count: int) -> Sequence[Solution | None]:
    """Solutions of the last fit to start from, if there are as many as there will be."""
    earlier = getattr(estimator, "solutions_", None) if estimator.warm_start else None
    return earlier if earlier is not None and len(earlier) == count else [None] * count


def _fits(solution: Solution | None, problem: Problem | BoxQP | HullDistance | SoftmaxProblem) -> bool:
    """Whether a solution has as many variables as a problem, and coefficients if the problem has rows of features."""
    if solution is None or solution.point.alpha is None:
        return False
    w, alpha = solution.point.w, solution.point.alpha
    if isinstance(problem, BoxQP):
        return alpha.size == problem.q.size
    if isinstance(problem, SoftmaxProblem):
        return w.size == math.prod(problem.shape) and alpha.size == problem.y.size * problem.n_classes
    if isinstance(problem.operator, Features) and w.size != problem.operator.n_features:
        return False
    return alpha.size == problem.operator.n_samples


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
