"""Seconds at equal certified gap of every solver on one workload."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark_utils import data
from benchmark_utils.judge import Judge
from benchmark_utils.peer import make, settings
from benchmark_utils.worker import Job, Worker
from benchmark_utils.workloads import Workload

OURS = "maxmargin"
REFERENCE_TOL = 1e-8
SLACK = 1.0 + 1e-6  # two certificates of one point may differ by rounding
REPEAT_SLACK = 2.0  # parallel libraries do not give equal answers in equal fits


@dataclass
class Rung:
    """One fit of the search: the library's tolerance, and what it gave."""

    tol: float
    seconds: float
    gap: float = math.inf
    failure: str = ""


@dataclass
class Entry:
    """A solver at a setting on a workload."""

    solver: str
    setting: str
    is_ours: bool
    tol_is_the_gap: bool
    ladder: Sequence[float]  # of the tolerances to try
    worker: Worker
    rungs: list[Rung] = field(default_factory=list)
    chosen: dict[float, float] = field(default_factory=dict)  # target gap -> the library's tolerance that reaches it
    seconds: dict[float, list[float]] = field(default_factory=dict)
    cpu_seconds: dict[float, list[float]] = field(default_factory=dict)
    gaps: dict[float, list[float]] = field(default_factory=dict)

    def median(self, target: float) -> float | None:
        """Median seconds at a target, or ``None`` if it was not reached, or not in most of the repeats."""
        gaps = self.gaps.get(target, [])
        hits = sum(gap <= REPEAT_SLACK * target for gap in gaps)
        return statistics.median(self.seconds[target]) if 2 * hits > len(gaps) else None

    def missed(self, target: float) -> bool:
        """Whether a repeat missed the target."""
        return any(gap > REPEAT_SLACK * target for gap in self.gaps.get(target, []))

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


def measure(workload: Workload, directory: Path | None, stems: Sequence[str], plan: Plan) -> Outcome:
    """Find the tolerance at which each solver reaches each target, then time these, interleaved."""
    X, y = workload.load(directory)
    judge = Judge(X, y, workload.task)
    with tempfile.TemporaryDirectory() as scratch:
        data.save(Path(scratch), X, y)
        entries = _entries(workload, Path(scratch), stems, plan)
        try:
            reference_gap = _set_dual_bound(judge, workload, entries, plan)
            for entry in entries:
                plan.say(f"{workload.name}: {entry.solver} {entry.setting}")
                _search(entry, judge, plan)
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
                ladder = plan.targets if peer.tol_is_the_gap else peer.ladder
                worker = Worker(Job(stem, parameters, scratch, workload.task, plan.threads))
                entries.append(Entry(peer.name, peer.setting, stem == OURS, peer.tol_is_the_gap, ladder, worker))
    return entries


def _set_dual_bound(judge: Judge, workload: Workload, entries: Sequence[Entry], plan: Plan) -> float | None:
    """Sets: ``judge.dual_bound``, for tasks that some libraries answer without dual variables."""
    if workload.task.family == "kernel":
        return None
    plan.say(f"{workload.name}: dual bound")
    ours = next(entry.worker for entry in entries if entry.is_ours)
    trial = ours.fit(REFERENCE_TOL, timeout=4.0 * plan.timeout, time_limit=2.0 * plan.timeout)
    if trial.answer is None:
        return math.inf
    certificate = judge.certificate(trial.answer)
    judge.dual_bound = certificate.dual
    return certificate.relative_gap


def _search(entry: Entry, judge: Judge, plan: Plan) -> None:
    """Sets: ``entry.chosen``, the loosest tolerance of the library that reaches each target."""
    for tol in entry.ladder:
        trial = entry.worker.fit(tol, plan.timeout)
        if trial.answer is None:
            entry.rungs.append(Rung(tol, trial.seconds, failure=trial.failure))
            return
        gap = judge.relative_gap(trial.answer)
        entry.rungs.append(Rung(tol, trial.seconds, gap))
        for target in plan.targets:
            meant_for_it = not entry.tol_is_the_gap or tol == target
            if gap <= target * SLACK and meant_for_it:
                entry.chosen.setdefault(target, tol)
        if len(entry.chosen) == len(plan.targets):
            return


def _time_once(entries: list[Entry], judge: Judge, plan: Plan) -> None:
    """One fit of every solver at every target, one after another, so that all see the same state of the machine."""
    for target in plan.targets:
        for entry in entries:
            if target not in entry.chosen:
                continue
            trial = entry.worker.fit(entry.chosen[target], plan.timeout)
            if trial.failure:
                entry.rungs.append(Rung(entry.chosen[target], trial.seconds, failure=trial.failure))
            # A repeat that the limit cuts off counts with the limit: leaving it out would flatter the solver.
            entry.seconds.setdefault(target, []).append(trial.seconds)
            entry.cpu_seconds.setdefault(target, []).append(trial.cpu_seconds)
            gap = math.inf if trial.answer is None else judge.relative_gap(trial.answer)
            entry.gaps.setdefault(target, []).append(gap)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Every number of an outcome, in types that JSON knows; a gap that is infinite becomes null."""
    return {
        "workload": outcome.workload.name,
        "task": vars(outcome.workload.task),
        "shape": list(outcome.shape),
        "reference_gap": _finite(outcome.reference_gap),
        "solvers": [
            {
                "solver": entry.solver,
                "setting": entry.setting,
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
