"""The one loop: every solver is run, stopped, judged and recorded here.

A solver only makes progress. When to stop (gap, iterations, time, Ctrl-C, callback, no more progress), which point to
keep, and what the history says are decided in this file, once. A solver may suggest that it is finished; only the
certificate concludes.

If the rows of a problem are spread over clients, every client runs this loop, in lock step: clock, Ctrl-C and callback
are those of rank 0, whom the others hear once per round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from os import PathLike
from typing import Any

import numpy as np

from maxmargin._jit import seconds_compiling, seconds_working
from maxmargin.communicators import ALONE
from maxmargin.loop.certificate import NotANumber, complete
from maxmargin.loop.checkpoint import Checkpoints, arrays_of, point_of
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.progress import ProgressLine
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certifiable, Certificate, Point, Status, estimated_gap
from maxmargin.protocols import Array, Communicator
from maxmargin.solvers.solver import AnySolver, Resumable, State
from maxmargin.threads import GivenUp, given_up_if, one_blas_thread

Callback = Callable[[Record], object]

# A fit is stalled when the best gap has not fallen by a tenth while the work grew fivefold. First-order methods have
# long plateaus: "doubled" gave up on a9a at 1.4e-6 on its way to 1e-6.
STALL_FACTOR = 0.9
STALL_ROUNDS = 200
STALL_GROWTH = 4
HISTORY_LENGTH = 1024
ENDED = (Status.CONVERGED, Status.STALLED, Status.NOT_SEPARABLE, Status.NOT_CONVEX)  # nothing is left to go on with
UNLIMITED = 2**62
SHARE_OF_PASSES, SHARE_OF_EFFORT = 0.1, 0.05  # that certificates may take before a solver claims to be done
UNMEASURED = 2.0  # times the pace of the fastest round: a certificate that has to be given up is lost
GRACE = 0.5  # seconds after the time limit for what is going on then; later it is given up
ANSWER = 0.3  # the same after Ctrl-C: the piece that is under way then and what follows take a tenth or so
REMEMBERED: dict[str, Callable[[float], float]] = {  # of the loop, by checkpoints
    "rounds": int,
    "passes": float,
    "judged_at": int,
    "progress_gap": float,
    "progress_round": int,
}


def minimize(
    problem: Certifiable,
    solver: AnySolver,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callback | None = None,
    warm: Solution | Point | None = None,
    verbose: int = 0,
    interrupts: Interrupts | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
) -> Solution:
    """Solve a problem and prove how well.

    Parameters
    ----------
    problem : Problem or BoxQP
        What to solve.
    solver : AnySolver
        How to make progress.
    tol : float
        Stop when the certified relative duality gap is at most this.
    max_iter : int, optional
        Limit on the solver's iterations (epochs, pair steps, ...).
    max_time : float, optional
        Limit in seconds, certification included, but not what it takes to compile loops that are used for the first
        time. Whatever goes on for half a second longer is given up, and the last certified point is returned.
    callback : callable, optional
        Called with a `Record` after every round; the fit stops if it returns a true value.
    warm : Solution or Point, optional
        Where to start.
    verbose : int
        1 shows a progress line on standard error.
    interrupts : Interrupts, optional
        Of a fit of several problems, so that Ctrl-C between two of them is noticed too.
    checkpoint : path, optional
        Where to go on from if the fit was killed or stopped: each client has a file of this name with its rank behind
        it, and goes on if there is one. `warm` counts only if there is none. A fit that ends by itself removes it.
    checkpoint_every : float
        Seconds between two checkpoints.

    Returns
    -------
    Solution
        The best certified point with its certificate, a status and the history.

    Raises
    ------
    ValueError
        If the solver does not support the problem; the message says why. If a checkpoint is not whole, or belongs to
        another fit.

    """
    reason = solver.supports(problem)
    if reason is not None:
        raise ValueError(f"solver={solver.name!r} cannot solve this problem: {reason}.")
    communicator = getattr(problem, "communicator", ALONE)
    own_terms = np.array([float(callback is not None), math.inf if max_time is None else max_time])
    listening, max_time = communicator.broadcast(own_terms).tolist()  # those of rank 0: all have to stop together
    run = _Run(problem, solver, tol, max_time, communicator, can_give_up=checkpoint is None)
    checkpoints = None if checkpoint is None else Checkpoints(checkpoint, problem, solver, communicator, run.notes)
    start = (warm.last or warm.point) if isinstance(warm, Solution) else warm
    listener, line = interrupts or Interrupts(), ProgressLine(verbose, solver.name, tol)
    quietly = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # certificates tell of what is no number
    with quietly, one_blas_thread, listener as interrupts, line:
        saved = None if checkpoints is None else checkpoints.latest()
        if saved is None:
            with run.nothing_yet(interrupts):
                state = solver.start(problem, start)
            status = None if state.untried else run.judge(state, interrupts)
        else:
            state, status = run.resume(saved)
        saved_at = 0.0
        while status is None:
            limit = UNLIMITED if max_iter is None else max_iter - state.iterations
            if limit <= 0:
                status = run.judge(state, interrupts) or Status.MAX_ITER
                break
            try:
                with run.round_in_time(state, interrupts):
                    state = solver.advance(problem, state, limit)
                status = run.look(state, interrupts)
            except GivenUp:
                status = run.break_off(state, interrupts)
            line.show(run.history[-1], run.compiling)
            if _is_asked_to_stop(callback, run.history[-1], listening, communicator) and status is None:
                status = run.judge(state, interrupts) or Status.CALLBACK
            if checkpoints is not None and status is None and run.seconds - saved_at >= checkpoint_every:
                checkpoints.save(run.saved(state))
                saved_at = run.seconds
        if checkpoints is not None:
            if status in ENDED:
                checkpoints.remove()
            else:
                checkpoints.save(run.saved(state))
    interrupts.kept = True
    return run.solution(status, state)


def _is_asked_to_stop(callback: Callback | None, record: Record, listening: float, communicator: Communicator) -> bool:
    """Whether the callback of rank 0, if there is one, wants the fit to end."""
    stop = callback is not None and bool(callback(record))
    return bool(communicator.broadcast(np.array([float(stop)]))[0]) if listening else stop


def best_parts(one: tuple[Point, Certificate], other: tuple[Point, Certificate]) -> tuple[Point, Certificate]:
    """The better coefficients and the better dual variables of two points, with what is known of them."""
    (early, before), (late, after) = one, other
    lower = before.primal + before.primal_error < after.primal + after.primal_error
    higher = before.dual - before.dual_error > after.dual - after.dual_error
    coefficients, primal, variables, dual = early if lower else late, before if lower else after, late, after
    if higher:
        variables, dual = early, before
    if coefficients is variables:
        return one if lower else (late, after)
    errors = primal.primal_error, dual.dual_error
    parts = Certificate(primal.primal, dual.dual, *errors, passes=after.passes, least=after.least)
    return Point(coefficients.w, coefficients.b, variables.alpha), parts


class _Run:
    """What the loop remembers: the best certified point, the history, and what certificates cost."""

    def __init__(
        self,
        problem: Certifiable,
        solver: AnySolver,
        tol: float,
        max_time: float,
        communicator: Communicator,
        can_give_up: bool,
    ) -> None:
        self.problem, self.solver, self.tol, self.max_time = problem, solver, tol, max_time
        self.communicator = communicator
        self.can_give_up = can_give_up  # what takes too long: a checkpoint needs a whole state
        self.compiled, self.began = seconds_compiling(), seconds_working()
        self.seconds = 0.0  # since the fit began, as all clients know it
        self.best: tuple[Point, Certificate] | None = None
        self.last: Point | None = None  # judged, though not the best perhaps
        self.history: list[Record] = []
        self.notes: list[str] = []  # that people should read
        self.rounds = 0
        self.passes = 0.0  # spent on certificates
        self.seconds_per_pass = 0.0  # as all clients know it; 0 if nobody does
        self.measured = 0.0  # the same, of the last certificate
        self.fastest = math.inf  # the same, of any round: part of a round may be other work
        self.round_began, self.round_passes = 0.0, 0.0
        self.judged_at = -1  # iterations of the state that was judged last
        self.progress_gap, self.progress_round = math.inf, 0

    def look(self, state: State, interrupts: Interrupts) -> Status | None:
        """Decide after a round whether to go on. Certifies if there is reason to."""
        self.rounds += 1
        own = np.array([self._seconds(), self._pace(state), float(interrupts.pending)])
        self.seconds, self.seconds_per_pass, pending = self.communicator.broadcast(own).tolist()
        if pending:
            return self._stop_in_time(state, interrupts, Status.INTERRUPTED, patience=ANSWER)
        if self.seconds + self._reserve(state) >= self.max_time:
            left = self.max_time - self.seconds
            if self.measured == 0.0 and left > 0.5 * self.max_time and not state.exhausted:
                return self.judge(state, interrupts)  # what a certificate takes was a guess so far
            return self._stop_in_time(state, interrupts, Status.MAX_TIME, patience=max(2.0 * left, GRACE))
        if self.best is None or self._claims_to_be_done(state) or self._check_is_due(state):
            status = self.judge(state, interrupts)
            if status is not None:
                return status
            assert self.best is not None
            if state.exhausted or (self.best[1].dual == -math.inf and self._claims_to_be_done(state)):
                return self._without_progress(state)
        else:
            self._record(state, *state.estimate)
        return self.judge(state, interrupts) or self._without_progress(state) if self._is_stalled() else None

    def _without_progress(self, state: State) -> Status:
        """Why there is nothing to go on with, where no certificate says so."""
        assert self.best is not None
        no_bound = self.best[1].dual == -math.inf and not self.problem.convex
        return Status.NOT_CONVEX if no_bound else state.at_rest if state.exhausted else Status.STALLED

    def judge(self, state: State, interrupts: Interrupts) -> Status | None:
        """Certify the solver's point and keep it if it is the best; the status if the fit may end with it.

        What the problem concludes counts more than the tolerance only if it is a proof.
        """
        if self.judged_at == state.iterations:
            return None
        began = self._seconds()
        point = self.solver.point(self.problem, state)
        if self.best is None:  # whatever happens, there will be something to return
            point = point.or_zero()
        try:
            with self._certificate_in_time(interrupts):
                point, certificate = complete(self.problem, point, self.tol)
        except (KeyboardInterrupt, GivenUp):
            if self.best is None:
                raise
            return self._told_to_stop(interrupts)
        except NotANumber:  # the solver has lost its way, and will not find back
            if self.best is None:
                raise
            self._record(state, math.inf, -math.inf)
            return self._without_progress(state)
        self.judged_at, self.last = state.iterations, point
        self.passes += certificate.passes
        if certificate.passes > 0.0 and self.rounds > 0:  # the one at the start also prepares what later ones use
            self.measured = (self._seconds() - began) / certificate.passes
        if self.best is not None and self.problem.separable:
            point, certificate = best_parts(self.best, (point, certificate))
        if self.best is None or (certificate.rank <= self.best[1].rank and math.isfinite(certificate.primal)):
            self.best = point, certificate
        self._record(state, certificate.primal, certificate.dual, certificate.error)
        status = self.problem.conclusion(certificate)
        if certificate.relative_gap <= self.tol and status is not Status.NOT_SEPARABLE:
            status = Status.CONVERGED
        elif status is None and certificate.lost_in_rounding:
            status = Status.STALLED  # a smaller gap would prove no more
        state.doubted = status is None
        return status

    def solution(self, status: Status, state: State) -> Solution:
        """The best point with everything known about it."""
        assert self.best is not None
        point, certificate = self.best
        return Solution(
            point=point,
            certificate=certificate,
            status=status,
            solver=self.solver.at_work(state),
            tol=self.tol,
            iterations=state.iterations,
            seconds=self._seconds(),
            history=tuple(self.history),
            last=self.last,
            compiling=self.compiling,
            notes=tuple(self.notes),
        )

    def saved(self, state: State) -> dict[str, Array]:
        """What a checkpoint holds: the state of the solver, or its point, and what the loop remembers."""
        assert self.best is not None
        point, _ = self.best
        arrays = {"best_" + name: value for name, value in arrays_of(point).items()}
        numbers = [getattr(self, name) for name in REMEMBERED]
        arrays["remembered"] = np.array(numbers)
        if isinstance(self.solver, Resumable):
            state_of = self.solver.saved(state)
        else:
            state_of = arrays_of(self.solver.point(self.problem, state))
        arrays["iterations"] = np.array(state.iterations)
        return arrays | {"solver_" + name: value for name, value in state_of.items()}

    def resume(self, saved: dict[str, Array]) -> tuple[Any, Status | None]:
        """The state of a checkpoint, and the status if it is good enough already."""
        parts = {name.removeprefix("solver_"): value for name, value in saved.items() if name.startswith("solver_")}
        remembered = saved["remembered"].tolist()
        best = {name.removeprefix("best_"): value for name, value in saved.items() if name.startswith("best_")}
        point, certificate = complete(self.problem, point_of(best), self.tol)  # no file is believed
        self.best = point, certificate
        if isinstance(self.solver, Resumable):
            for (name, kind), number in zip(REMEMBERED.items(), remembered, strict=True):
                setattr(self, name, kind(number))
            state = self.solver.restored(self.problem, parts)
        else:
            state = self.solver.start(self.problem, point_of(parts))
        self.notes.append(f"It went on from a checkpoint after {int(saved['iterations'])} iterations.")
        self._record(state, certificate.primal, certificate.dual, certificate.error)
        return state, Status.CONVERGED if certificate.relative_gap <= self.tol else None

    @contextmanager
    def round_in_time(self, state: State, interrupts: Interrupts) -> Iterator[None]:
        """Give a round up if it goes on for long after Ctrl-C or the time limit; at once if nothing is lost by that."""
        self.round_began, self.round_passes = self._seconds(), state.counters["passes"]
        grace = 0.0 if state.keeps_its_point else ANSWER
        limit = self.max_time - self._reserve(state) if state.keeps_its_point else self.max_time + GRACE
        if not self.can_give_up:
            yield
            return
        with self._given_up_if(lambda: interrupts.waiting >= grace or self._seconds() >= limit):
            yield

    def _given_up_if(self, late: Callable[[], bool]) -> AbstractContextManager[None]:
        """As `given_up_if`; clients do so together, in their rounds, if their communicator can tell them."""
        if self.communicator.size == 1:
            return given_up_if(late)
        together = getattr(self.communicator, "given_up_if", None)
        return nullcontext() if together is None else together(late)

    @contextmanager
    def nothing_yet(self, interrupts: Interrupts) -> Iterator[None]:
        """Before there is anything to return, Ctrl-C ends a fit as it ends any other program.

        But if an earlier problem of the same fit was solved, or had been stopped, this one is started all the same.
        """
        if interrupts.pending or interrupts.kept or self.communicator.size > 1:
            yield
            return
        try:
            with interrupts.immediate(), given_up_if(lambda: interrupts.waiting >= ANSWER):
                yield
        except GivenUp:
            raise KeyboardInterrupt from None

    def break_off(self, state: State, interrupts: Interrupts) -> Status:
        """End after a round that was given up, whose state counts only if it has kept its point."""
        status = self._told_to_stop(interrupts)
        if state.keeps_its_point or self.best is None:
            return self._stop_in_time(state, interrupts, status, GRACE)
        self._record(state, math.inf, -math.inf)
        return status

    @contextmanager
    def _certificate_in_time(self, interrupts: Interrupts) -> Iterator[None]:
        """Give a certificate up if it takes long after Ctrl-C, or much longer than the time that it was given.

        Without any certified point there is nothing to return instead.
        """
        if self.best is None:
            with self.nothing_yet(interrupts):
                yield
            return
        limit = self.max_time + max(GRACE, self.max_time - self._seconds())
        at_once = interrupts.immediate() if self.communicator.size == 1 else nullcontext()
        with at_once, self._given_up_if(lambda: interrupts.waiting >= ANSWER or self._seconds() >= limit):
            yield

    def _told_to_stop(self, interrupts: Interrupts) -> Status:
        """Why something was given up, as rank 0 knows."""
        by_user = self.communicator.broadcast(np.array([float(interrupts.pending)]))[0]
        return Status.INTERRUPTED if by_user else Status.MAX_TIME

    def _stop_in_time(self, state: State, interrupts: Interrupts, status: Status, patience: float) -> Status:
        """Judge the last point too, unless that would take longer than the user should wait: who is alone can try."""
        if self.communicator.size == 1 or self.best is None or self._reserve(state) <= patience:
            return self.judge(state, interrupts) or status
        self._record(state, *state.estimate)
        return status

    def _claims_to_be_done(self, state: State) -> bool:
        if state.exhausted or estimated_gap(*state.estimate, self.least) <= self.tol:
            return True
        return self.problem.conclusion(Certificate(*state.estimate)) is not None

    def _check_is_due(self, state: State) -> bool:
        """At rounds 1, 2, 4, 8, ..., as long as certificates, this one included, stay a small share of the work."""
        power_of_two = self.rounds & (self.rounds - 1) == 0
        affordable = max(SHARE_OF_PASSES * state.counters["passes"], SHARE_OF_EFFORT * state.effort)
        return power_of_two and self.passes + state.certificate_passes <= affordable

    def _is_stalled(self) -> bool:
        last = Certificate(self.history[-1].primal, self.history[-1].dual)
        gap = last.gap if estimated_gap(last.primal, last.dual) < math.inf else math.inf
        if gap < STALL_FACTOR * self.progress_gap:
            self.progress_gap, self.progress_round = gap, self.rounds
        return self.rounds - self.progress_round > max(STALL_ROUNDS, STALL_GROWTH * self.progress_round)

    def _record(self, state: State, primal: float, dual: float, error: float | None = None) -> None:
        """A line of the history: of a certificate with its error, or of the solver's own estimate."""
        if len(self.history) >= HISTORY_LENGTH:  # thin out: a long fit is drawn well enough by every other line
            self.history = self.history[::2]
        counters = dict(state.counters)
        if traffic := getattr(self.communicator, "traffic", None):
            counters |= traffic.counters
        certified = error is not None
        values = primal, dual, certified, counters, error or 0.0, self.least
        self.history.append(Record(self._seconds(), state.iterations, *values))

    @property
    def least(self) -> float:
        """What smaller values than this count as: the certificates of the problem know it."""
        return self.best[1].least if self.best is not None else 0.0

    def _seconds(self) -> float:
        return seconds_working() - self.began

    @property
    def compiling(self) -> float:
        """Seconds that were spent in compiling since the fit began."""
        return seconds_compiling() - self.compiled

    def _pace(self, state: State) -> float:
        """Seconds that a pass takes: those of the last certificate or, before there is one, of the fastest round.

        Rounds also do other work, some of them hardly anything else. Sets: ``fastest``.
        """
        passes = state.counters["passes"] - self.round_passes
        if passes > 0.0:
            self.fastest = min(self.fastest, (self._seconds() - self.round_began) / passes)
        return self.measured or (UNMEASURED * self.fastest if math.isfinite(self.fastest) else 0.0)

    def _reserve(self, state: State) -> float:
        """Seconds that a certificate of the present point would take."""
        return self.seconds_per_pass * state.certificate_passes
