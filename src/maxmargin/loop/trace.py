"""Watching a solver: every step with the point it leads to and what that point is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from maxmargin._jit import seconds_working
from maxmargin.loop.certificate import complete
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certifiable, Point
from maxmargin.solvers.solver import AnySolver
from maxmargin.threads import one_blas_thread


def trace(
    problem: Certifiable,
    solver: AnySolver,
    *,
    max_iter: int | None = None,
    stride: int = 1,
    warm: Solution | Point | None = None,
) -> Iterator[tuple[Record, Point]]:
    """Let a solver make one step at a time, and judge every point on the way.

    Unlike `minimize` it has no tolerance and keeps no best point: it is for tables, pictures and lessons, where the
    path counts. Every step costs a certificate. The first pair is the start.

    Parameters
    ----------
    problem : Problem, BoxQP, HullDistance or another one
        What to solve.
    solver : AnySolver
        How to make progress, for example ``maxmargin.solvers.Pegasos(batch_size=4)``.
    max_iter : int, optional
        After how many iterations of the solver to end; it ends in any case when the solver says that it is done.
    stride : int
        Iterations from one pair to the next. A solver whose rounds cannot be divided makes a whole one.
    warm : Solution or Point, optional
        Where to start.

    Yields
    ------
    tuple of Record and Point
        Iterations, certified values and counters, and the point itself. The seconds are those of the solver alone.

    Raises
    ------
    ValueError
        If the solver does not support the problem, or ``stride`` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import Problem, trace
    >>> from maxmargin.operators import Rows
    >>> from maxmargin.parts.losses import Hinge
    >>> from maxmargin.parts.penalties import L2
    >>> from maxmargin.solvers import DualCoordinate
    >>> X, y = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.5]]), np.array([1.0, 1.0, -1.0])
    >>> problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.ones(3), None)
    >>> gaps = [record.relative_gap for record, point in trace(problem, DualCoordinate(), max_iter=20)]
    >>> gaps[0] > 0.9, gaps[-1] < 1e-9
    (True, True)

    """
    reason = solver.supports(problem)
    if reason is not None:
        raise ValueError(f"solver={solver.name!r} cannot solve this problem: {reason}.")
    if stride < 1:
        raise ValueError(f"stride={stride} must be at least 1.")
    return _steps(problem, solver, max_iter, stride, warm)


def _steps(
    problem: Certifiable, solver: AnySolver, max_iter: int | None, stride: int, warm: Solution | Point | None
) -> Iterator[tuple[Record, Point]]:
    """The start, and the points after each step."""
    start = (warm.last or warm.point) if isinstance(warm, Solution) else warm
    began = seconds_working()
    with _alone():
        state = solver.start(problem, start)
    spent = seconds_working() - began
    while True:
        with _alone():
            point, certificate = complete(problem, solver.point(problem, state))
        values = certificate.primal, certificate.dual, True, dict(state.counters), certificate.error, certificate.least
        yield Record(spent, state.iterations, *values), point
        left = stride if max_iter is None else min(stride, max_iter - state.iterations)
        if left <= 0 or state.exhausted:
            return
        state.doubted = True
        began, before = seconds_working(), state.iterations
        with _alone():
            state = solver.advance(problem, state, left)
        spent += seconds_working() - began
        if state.iterations == before:
            return


@contextmanager
def _alone() -> Iterator[None]:
    """As a fit computes, for one step: between two of them the caller's own code runs."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"), one_blas_thread:
        yield
