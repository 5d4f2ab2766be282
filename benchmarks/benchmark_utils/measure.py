"""Seconds at equal certified gap of every solver on one workload."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import data
from benchmark_utils.judge import Judge, judge_of
from benchmark_utils.peer import Answer, make, settings
from benchmark_utils.worker import Job, Worker
from benchmark_utils.workloads import Workload

OURS = "maxmargin"
REFERENCE_TOL = 1e-8
SLACK = 1.0 + 1e-6  # two certificates of one point may differ by rounding
REPEAT_SLACK = 2.0  # parallel libraries do not give equal answers in equal fits
FIRST_TOL = 1e-2  # where the search begins for libraries whose gap follows their tolerance
TIGHTEST_TOL = 1e-9
CLOSE_ENOUGH = 0.4  # a gap of this part of the target or more: a looser tolerance would hardly be faster
AIM = 0.7  # the part of the target that the next tolerance aims at
FAR = 1e3  # a gap of so many targets or more: the next tolerance of a ladder would hardly reach it and is left out
LEAST_LIMIT = 5.0  # seconds that every fit of a peer may take
HOPELESS = 3.0  # times as slow as another peer: more than the noise of one fit


class LeftOut(Exception):
    """A workload that cannot be measured; the message says why."""


@dataclass
class Rung:
    """One fit of the search: the library's tolerance, and what it gave."""

    tol: float
    seconds: float
    gap: float = math.inf
    failure: str = ""
    cpu_seconds: float = 0.0


@dataclass
class Entry:
    """A solver at a setting on a workload."""

    solver: str
    setting: str
    is_ours: bool
    tol_is_the_gap: bool
    gap_follows_tol: bool
    targets: tuple[float, ...]  # the gaps to reach, loose to tight
    ladder: Sequence[float]  # of the tolerances to try
    worker: Worker
    rungs: list[Rung] = field(default_factory=list)
    chosen: dict[float, float] = field(default_factory=dict)  # target gap -> the library's tolerance that reaches it
    seconds: dict[float, list[float]] = field(default_factory=dict)
    cpu_seconds: dict[float, list[float]] = field(default_factory=dict)
    gaps: dict[float, list[float]] = field(default_factory=dict)
    n_support: int = 0  # support vectors of the last answer

    def median(self, target: float) -> float | None:
        """Median seconds at a target, or ``None`` if it was not reached, or not in most of the repeats."""
        gaps = self.gaps.get(target, [])
        hits = sum(gap <= REPEAT_SLACK * target for gap in gaps)
        return statistics.median(self.seconds[target]) if 2 * hits > len(gaps) else None

    def missed(self, target: float) -> bool:
        """Whether a repeat missed the target."""
        return any(gap > REPEAT_SLACK * target for gap in self.gaps.get(target, []))

    def at_least(self, target: float) -> float | None:
        """Seconds that a target takes at least, if the limit ended the search for it."""
        late = [rung.seconds for rung in self.rungs if rung.failure == "timeout"]
        return max(late) if late and self.median(target) is None else None

    @property
    def seconds_found(self) -> float:
        """Seconds that the tightest target took in the search; infinite if it was not reached."""
        tol = self.chosen.get(self.targets[-1])
        return next((rung.seconds for rung in self.rungs if rung.tol == tol), math.inf)

    @property
    def best_gap(self) -> float:
        """The smallest gap that the search saw."""
        return min((rung.gap for rung in self.rungs), default=math.inf)

    @property
    def failure(self) -> str:
        """Why the search ended early, if it did."""
        return self.rungs[-1].failure if self.rungs else ""


@dataclass
class Outcome:
    """Everything that was measured on one workload."""

    workload: Workload
    shape: tuple[int, int]
    entries: list[Entry]
    reference_gap: float | None  # certified gap of the dual bound for answers without dual variables


@dataclass(frozen=True)
class Plan:
    """How to measure."""

    targets: tuple[float, ...]
    repeats: int
    threads: int
    timeout: float
    say: Callable[[str], None]
    once_above: float = math.inf  # seconds: a slower fit is not repeated, its time in the search counts
    patience: float | None = None  # times our own seconds that a fit of a peer may take; ``None``: all that it wants
    peer_gap: float | None = None  # the gap that is enough for a peer, if not ours


def measure(workload: Workload, directory: Path | None, stems: Sequence[str], plan: Plan) -> Outcome:
    """Find the tolerance at which each solver reaches each target, then time these, interleaved; ours is the first."""
    if refusal := make(OURS, {}).refusal(workload.task):
        raise LeftOut(refusal)
    X, y = workload.load(directory)
    workload = replace(workload, task=workload.task.resolved(X))
    judge = judge_of(X, y, workload.task)
    with tempfile.TemporaryDirectory() as scratch:
        data.save(Path(scratch), X, y)
        entries = _entries(workload, Path(scratch), stems, plan)
        try:
            reference_gap = None
            first_tols: dict[float, float] = {}
            for k, entry in enumerate(entries):
                limited = replace(plan, timeout=_limit(entries[:k], plan))
                if k == 1 and workload.task.family == "linear":
                    reference_gap = _set_dual_bound(judge, workload, entries[0], limited)
                plan.say(f"{workload.name}: {entry.solver} {entry.setting}")
                if entry.gap_follows_tol:
                    _search_by_proportion(entry, judge, limited, first_tols)
                    first_tols |= entry.chosen  # libraries with the same rule need about the same tolerance
                else:
                    _search(entry, judge, limited)
                _keep_slow_fits(entry, plan)
            for repeat in range(plan.repeats):
                plan.say(f"{workload.name}: repeat {repeat + 1} of {plan.repeats}")
                _time_once(entries if repeat % 2 == 0 else entries[::-1], judge, plan)
        finally:
            for entry in entries:
                entry.worker.stop()
    return Outcome(workload, X.shape, entries, reference_gap)


def _entries(workload: Workload, scratch: Path, stems: Sequence[str], plan: Plan) -> list[Entry]:
    entries = []
    for stem in stems:
        for parameters in settings(stem):
            peer = make(stem, parameters)
            if peer.refusal(workload.task) is None:
                targets = plan.targets if stem == OURS or plan.peer_gap is None else (plan.peer_gap,)
                ladder = targets if peer.tol_is_the_gap else peer.ladder
                worker = Worker(Job(stem, parameters, scratch, workload.task, plan.threads))
                kind = (stem == OURS, peer.tol_is_the_gap, peer.gap_follows_tol and workload.task.family != "predict")
                entries.append(Entry(peer.name, peer.setting, *kind, targets, ladder, worker))
    return entries


def _limit(before: Sequence[Entry], plan: Plan) -> float:
    """Seconds that a fit may take. A peer that takes longer is beyond every goal, or was beaten by another one."""
    if plan.patience is None or not before:
        return plan.timeout
    ours, *peers = (entry.seconds_found for entry in before)
    hopeless = min(plan.patience * ours, HOPELESS * min(peers, default=math.inf))
    return min(max(LEAST_LIMIT, hopeless), plan.timeout)


def _set_dual_bound(judge: Judge, workload: Workload, ours: Entry, plan: Plan) -> float:
    """Sets: ``judge.dual_bound``, for tasks that some libraries answer without dual variables."""
    plan.say(f"{workload.name}: dual bound")
    trial = ours.worker.fit(REFERENCE_TOL, timeout=2.0 * plan.timeout, time_limit=plan.timeout)
    if trial.answer is None:
        return math.inf
    certificate = judge.certificate(trial.answer)
    judge.dual_bound = certificate.dual
    return certificate.relative_gap


def _search(entry: Entry, judge: Judge, plan: Plan) -> None:
    """Sets: ``entry.chosen``, the loosest tolerance of the ladder that reaches each target.

    While the next target is far, every other tolerance is left out.
    """
    k = 0
    while k < len(entry.ladder):
        tol = entry.ladder[k]
        rung = _try(entry, tol, judge, plan)
        if rung.failure:
            return
        for target in entry.targets:
            meant_for_it = not entry.tol_is_the_gap or tol == target
            if rung.gap <= target * SLACK and meant_for_it:
                entry.chosen.setdefault(target, tol)
        missing = [target for target in entry.targets if target not in entry.chosen]
        if not missing:
            return
        k += 2 if rung.gap > FAR * missing[0] and not entry.tol_is_the_gap else 1


def _search_by_proportion(entry: Entry, judge: Judge, plan: Plan, first_tols: dict[float, float]) -> None:
    """Sets: ``entry.chosen``, a tolerance that just reaches each target: the gap is about proportional to it.

    Ladders would make such libraries work up to ten times more precisely than they must.
    """
    for target in entry.targets:
        known = min(entry.rungs, key=lambda rung: rung.gap, default=None)
        tol = first_tols.get(target) or (FIRST_TOL if known is None else _next_tol(known, target))
        last: Rung | None = None
        while tol >= TIGHTEST_TOL and all(rung.tol != tol for rung in entry.rungs):
            rung = _try(entry, tol, judge, plan)
            if rung.failure:
                return
            if rung.gap <= target * SLACK:
                entry.chosen[target] = max(tol, entry.chosen.get(target, 0.0))
                if rung.gap >= CLOSE_ENOUGH * target or rung.seconds > plan.once_above:
                    break
            elif target in entry.chosen or (last is not None and rung.gap > 0.5 * last.gap):
                break  # a looser one was tried in vain, or a tighter one did not help
            last, tol = rung, _next_tol(rung, target)


def _next_tol(rung: Rung, target: float) -> float:
    """The tolerance at which the gap should be a little below the target, two digits of it."""
    factor = AIM * target / max(rung.gap, 1e-3 * target)
    return float(f"{rung.tol * min(max(factor, 1e-3), 1e2):.1e}")


def _try(entry: Entry, tol: float, judge: Judge, plan: Plan) -> Rung:
    """One fit of a search. Sets: the last of ``entry.rungs``."""
    entry.rungs.append(_fit(entry, tol, judge, plan))
    return entry.rungs[-1]


def _fit(entry: Entry, tol: float, judge: Judge, plan: Plan) -> Rung:
    trial = entry.worker.fit(tol, plan.timeout)
    if trial.answer is None:
        return Rung(tol, trial.seconds, failure=trial.failure)
    if trial.answer.alpha is not None:
        entry.n_support = support_size(trial.answer)
    return Rung(tol, trial.seconds, judge.relative_gap(trial.answer), cpu_seconds=trial.cpu_seconds)


def support_size(answer: Answer) -> int:
    """Number of support vectors of an answer; of all pairs together."""
    return int(np.atleast_2d(answer.alpha).any(axis=0).sum())


def _keep_slow_fits(entry: Entry, plan: Plan) -> None:
    """Let the fits of the search count as the only measurement where they were slow."""
    for target, tol in entry.chosen.items():
        rung = next(rung for rung in entry.rungs if rung.tol == tol)
        if rung.seconds > plan.once_above:
            _record(entry, target, rung)


def _record(entry: Entry, target: float, rung: Rung) -> None:
    entry.seconds.setdefault(target, []).append(rung.seconds)
    entry.cpu_seconds.setdefault(target, []).append(rung.cpu_seconds)
    entry.gaps.setdefault(target, []).append(rung.gap)


def _time_once(entries: list[Entry], judge: Judge, plan: Plan) -> None:
    """One fit of every solver at every target, one after another, so that all see the same state of the machine."""
    for k in range(len(plan.targets)):
        for entry in entries:
            target = entry.targets[k]
            if target not in entry.chosen or entry.seconds.get(target, [0.0])[0] > plan.once_above:
                continue
            rung = _fit(entry, entry.chosen[target], judge, plan)
            if rung.failure:
                entry.rungs.append(rung)
            # A repeat that the limit cuts off counts with the limit: leaving it out would flatter the solver.
            _record(entry, target, rung)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Every number of an outcome, in types that JSON knows; a gap that is infinite becomes null."""
    return {
        "workload": outcome.workload.name,
        "task": asdict(outcome.workload.task),
        "shape": list(outcome.shape),
        "reference_gap": _finite(outcome.reference_gap),
        "solvers": [
            {
                "solver": entry.solver,
                "setting": entry.setting,
                "support_vectors": entry.n_support,
                "compile_seconds": entry.worker.compile_seconds,
                "search": [vars(rung) | {"gap": _finite(rung.gap)} for rung in entry.rungs],
                "targets": [_target_as_json(entry, target) for target in entry.chosen],
            }
            for entry in outcome.entries
        ],
    }


def _target_as_json(entry: Entry, target: float) -> dict[str, Any]:
    return {
        "gap": target,
        "tol": entry.chosen[target],
        "seconds": entry.seconds.get(target, []),
        "cpu_seconds": entry.cpu_seconds.get(target, []),
        "certified_gaps": [_finite(gap) for gap in entry.gaps.get(target, [])],
    }


def _finite(gap: float | None) -> float | None:
    return None if gap is None or math.isinf(gap) else gap
