"""The middle of every fit, on one machine or on many: pose the problems, choose a solver, minimise, read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery.at_once import is_wanted
from maxmargin.estimators._machinery.forecasts import FEW_SAMPLES, warn_of_hours
from maxmargin.estimators._machinery.plan import LOOSEST, Plan, RowsView
from maxmargin.estimators._machinery.results import Results, Solved
from maxmargin.loop.minimize import minimize
from maxmargin.operators import ChunkedMatrix
from maxmargin.problems.point import Point, Status
from maxmargin.solvers import solvers_of
from maxmargin.solvers.recentred import recentred
from maxmargin.threads import NO_OTHERS, one_blas_thread

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

STOPPED_BY_THE_USER = (Status.INTERRUPTED, Status.CALLBACK)


@dataclass(eq=False)
class all_or_nothing:
    """A fit that is refused leaves the estimator as it was.

    BLAS has one thread from the first to the last line: its sums depend on how many there are, and beside another fit
    there is only one.
    """

    estimator: CertifiedEstimator
    before: dict[str, object] = field(default_factory=dict)

    def __enter__(self) -> None:
        self.before.update(vars(self.estimator))
        one_blas_thread.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        one_blas_thread.__exit__()
        if kind is None:
            return
        own = self.estimator.__dict__
        for name in set(own) - set(self.before):
            if not name.startswith(("_callback", "_skl_")):  # these belong to scikit-learn's running callbacks
                del own[name]
        own.update(self.before)


def choose_solver(estimator: CertifiedEstimator, plan: Plan) -> None:
    """Pose the first problem and choose a solver for it. Sets: ``view, choice, solver, first`` of the plan.

    The samples may be seen in several ways: the first in which the solver supports the problem counts. Nobody else
    decides which solver may solve what.
    """
    able: set[str] = set()
    reasons: list[str] = []
    for view in plan.views:
        plan.view = view
        problem = estimator._problem(view.of(plan.tasks[0]), plan.tasks[0], plan)
        plan.choice = estimator._choice(problem)
        if plan.starts:
            plan.choice = plan.choice.after_the_first()
        plan.solver = plan.choice.make(plan.hints)
        reason = plan.solver.supports(problem)
        if reason is None:
            plan.first, plan.solver = problem, recentred(plan.solver, problem)
            return
        reasons.append(reason)
        able.update(solvers_of(problem))
    who = ", ".join(map(repr, sorted(able))) or "no other solver"
    others = f"{who} can" if estimator.solver == "auto" else f"'auto' can, and so can {who}"
    if isinstance(plan.X, ChunkedMatrix):
        others += ", or partial_fit of SGDClassifier or SGDRegressor with each chunk"
    raise ValueError(
        f"solver={plan.choice.name!r} cannot solve this problem of {type(estimator).__name__}: {reasons[-1]}; {others}."
    )


def solve(estimator: CertifiedEstimator, plan: Plan) -> Results:
    """Solve the tasks: those of a small fit in one compiled call, if that converges, and all others in the loop."""
    at_once = estimator._at_once(plan) if is_wanted(estimator, plan) else None
    found = at_once() if at_once is not None else None
    if found is not None:
        plan.first = None  # if somebody posed it, it is solved
        return found
    choose_solver(estimator, plan)
    if plan.X.shape[0] > FEW_SAMPLES:
        warn_of_hours(estimator, plan)
    return solve_in_turn(estimator, plan)


def solve_in_turn(estimator: CertifiedEstimator, plan: Plan) -> Results:
    """Solve the tasks, several at a time if there are threads for them, and read what was found.

    ``max_time`` is shared: each task may use what the earlier ones left, divided by the number of tasks to come. Once
    the user stopped one, the others are only started, so that every part of the model is defined.
    """
    tol = min(estimator.tol, LOOSEST) if plan.tol is None else plan.tol
    deadline = None if estimator.max_time is None else seconds_working() + estimator.max_time
    earlier = plan.starts or estimator._earlier_solutions(plan)  # as many as there are tasks, or ``None`` for each
    solved: dict[int, Solved] = {}
    stopped: list[Status] = []
    listeners, listening, first = plan.listeners, plan.listeners.listening, plan.communicator.rank == 0
    # Somebody may expect one problem after another, and each problem of chunks would hold chunks of its own; to wake
    # a thread takes longer than small ones.
    one_by_one = listening or plan.communicator.size > 1 or isinstance(plan.X, ChunkedMatrix) or plan.is_small
    at_once = NO_OTHERS if one_by_one else plan.workers

    def work(numbers: Iterator[int]) -> None:
        for k in numbers:
            if listening:
                listeners.begin_problem(plan.tasks[k].name)
            problem = plan.pose(estimator, k)
            warm, left = earlier[k], None
            if deadline is not None:
                turns = math.ceil((len(earlier) - len(solved)) / at_once.count)
                left = max(0.0, deadline - seconds_working()) / turns
            solution = minimize(
                problem,
                plan.solver,
                tol=tol,
                max_iter=0 if stopped else None if estimator.max_iter in (-1, None) else int(estimator.max_iter),
                max_time=left,
                callback=listeners.after_round if listening else None,
                warm=warm
                if warm is not None and problem.fits(warm if isinstance(warm, Point) else warm.point)
                else None,
                verbose=int(estimator.verbose) if first else 0,
                interrupts=interrupts,
                checkpoint=plan.checkpoint(k, problem, plan.solver),
                checkpoint_every=getattr(estimator, "checkpoint_every", 60.0),
            )
            if stopped and solution.status is not Status.CONVERGED:
                solution = replace(solution, status=stopped[0])
            if solution.status in STOPPED_BY_THE_USER:
                stopped.append(solution.status)
            solution = estimator._proven(problem, solution)
            solved[k] = Solved(solution, estimator._function(problem, solution))
            if listening:
                listeners.end_problem()

    with plan.interrupts as interrupts:
        at_once.run(work, range(len(earlier)))
    return Results([solved[k] for k in range(len(earlier))], isinstance(plan.view, RowsView))
