"""A chain of problems that differ in their penalty: each is solved from where the last one ended.

What `minimize` does for one problem takes some tenths of a millisecond beside the work of the solver. A path of a
hundred problems, most of which need a round or two, is faster if the solver keeps its state: it may have a method
``follow`` that makes the state for another penalty from that of the last one. Every solution has a certificate as
always; whoever is not within the tolerance soon is handed to `minimize`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from maxmargin._jit import seconds_compiling, seconds_working
from maxmargin.loop.certificate import complete
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.minimize import UNLIMITED, minimize
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certifiable, Certificate, Point, Status, estimated_gap
from maxmargin.solvers.solver import AnySolver
from maxmargin.threads import one_blas_thread

MOST_ROUNDS = 30  # of a problem, before it is handed on
STOPPED = (Status.INTERRUPTED, Status.MAX_TIME)


def follow(
    problems: Iterator[Certifiable],
    solver: AnySolver,
    *,
    tol: float,
    max_iter: int | None = None,
    deadline: float = math.inf,
    warm: Point | None = None,
    verbose: int = 0,
) -> Iterator[Solution]:
    """Solve problems one after another, in the order in which they come.

    Parameters
    ----------
    problems : iterator of Problem
        They differ in their penalty only.
    solver : AnySolver
        How to make progress.
    tol : float
        Stop each when its certified relative duality gap is at most this.
    max_iter : int, optional
        Limit on the solver's iterations for each problem.
    deadline : float, optional
        When all of them have to be done, on the clock of `seconds_working`; those that are left then are only started.
    warm : Point, optional
        Where to start the first.
    verbose : int
        1 shows a progress line for each.

    Yields
    ------
    Solution
        One for each problem.

    """
    keeps, state, over = hasattr(solver, "follow") and not verbose and max_iter is None, None, False
    with one_blas_thread, Interrupts() as interrupts:
        for problem in problems:
            solution = None
            if keeps and not over and deadline == math.inf and not interrupts.pending:
                began, compiled = seconds_working(), seconds_compiling()
                state = solver.start(problem, warm) if state is None else solver.follow(problem, state)  # type: ignore[attr-defined]
                found = _solved(problem, solver, state, tol, interrupts)
                if found is not None:
                    seconds, compiling = seconds_working() - began, seconds_compiling() - compiled
                    solution = _solution(solver, state, tol, seconds, compiling, *found)
            if solution is None:
                if state is not None:
                    warm = solver.point(problem, state)
                left = None if deadline == math.inf else max(0.0, deadline - seconds_working())
                solution = minimize(
                    problem, solver, tol=tol, max_iter=0 if over else max_iter, max_time=left, warm=warm,
                    verbose=verbose, interrupts=interrupts,
                )  # fmt: skip
                state, over = None, over or solution.status in STOPPED
            warm = solution.last or solution.point
            yield solution


def _solved(
    problem: Certifiable, solver: AnySolver, state: Any, tol: float, interrupts: Interrupts
) -> tuple[Point, Certificate] | None:
    """A point within the tolerance, if there is one after a few rounds."""
    tries = 0
    for _ in range(MOST_ROUNDS):
        if estimated_gap(*state.estimate) <= tol:
            point, certificate = complete(problem, solver.point(problem, state), tol)
            if certificate.relative_gap <= tol:
                return point, certificate
            state.doubted, tries = True, tries + 1
            if tries > 2 or certificate.lost_in_rounding:
                return None
        if state.exhausted or interrupts.pending:
            return None
        state = solver.advance(problem, state, UNLIMITED)
    return None


def _solution(
    solver: AnySolver, state: Any, tol: float, seconds: float, compiling: float, point: Point, own: Certificate
) -> Solution:
    """What every fit returns."""
    counters = dict(state.counters)
    record = Record(seconds, state.iterations, own.primal, own.dual, True, counters, own.error, own.least)
    name = solver.at_work(state)
    return Solution(point, own, Status.CONVERGED, name, tol, state.iterations, seconds, (record,), point, compiling)
