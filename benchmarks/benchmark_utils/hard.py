"""Problems on which the peers do not finish: does ours end, and with which proof? The command of ``hard_cases.py``."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import data
from benchmark_utils.judge import Judge, judge_of
from benchmark_utils.measure import OURS
from benchmark_utils.peer import load_class, make, settings, version_of
from benchmark_utils.report import aligned, seconds
from benchmark_utils.session import add_options, header, matches, quiet_machine, say, show_header
from benchmark_utils.worker import Job, Trial, Worker
from benchmark_utils.workloads import Task, Workload

GAP = 1e-3
PEERS_TOL = 1e-3  # their default: nobody on these problems has been seen to end sooner with a looser one
GRACE = 1.5  # times its limit, after which ours is killed
STEMS = (OURS, "sklearnex_svc", "sklearn_svc", "libsvm")


def duplicated(copies: int = 5, n: int = 1_000, d: int = 10) -> tuple[Any, Any]:
    """Every row several times, one of the copies with the wrong label."""
    X, y = data.flipped_classes(n, d, flips=0.0)
    return np.repeat(X, copies, axis=0), (y[:, None] * np.where(np.arange(copies) == 0, -1.0, 1.0)).ravel()


def one_large_feature(n: int = 500, seed: int = 0) -> tuple[Any, Any]:
    """One feature in the hundreds whose classes overlap, for a polynomial of it (scikit-learn issue 30353)."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 100.0, n)
    return x[:, None], np.where(x + rng.normal(0.0, 150.0, n) > 200.0, 1.0, -1.0)


def six_samples(seed: int = 0) -> tuple[Any, Any]:
    """Six samples of thirteen features in [0, 1], two pairs of them almost equal (scikit-learn issue 13075)."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((4, 13)) < 0.6, 0.0, rng.random((4, 13)))[[0, 1, 2, 3, 2, 0]]
    X[4:, 9] += 2e-4
    return X, np.array([-1.0, 1.0, 1.0, -1.0, 1.0, -1.0])


def unscaled_regression(n: int = 547, d: int = 22, seed: int = 0) -> tuple[Any, Any]:
    """Columns of expression levels over five orders of magnitude (scikit-learn issue 11079)."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(6.0, 2.0, (n, d))
    return X, X @ rng.dirichlet(np.ones(d)) * rng.lognormal(0.0, 0.3, n)


def _kernel(C: float, gamma: float | str) -> Task:
    return Task("kernel", C=C, gamma=gamma)


def _made(name: str, task: Task, make_data: Callable[[], tuple[Any, Any]]) -> Workload:
    return Workload(name, task, lambda _: make_data())


CASES = (
    _made("40k d=20 C=100, 10 % flips", _kernel(1e2, 0.05), lambda: data.flipped_classes(40_000, 20)),
    _made("10k d=20 C=100, 10 % flips", _kernel(1e2, 0.05), lambda: data.flipped_classes(10_000, 20)),
    _made("10k d=50 C=1e6", _kernel(1e6, 0.02), lambda: data.curved_classes(10_000, 50)),
    _made("2k d=20 C=1e6, 10 % flips", _kernel(1e6, 0.05), lambda: data.flipped_classes(2_000, 20)),
    Workload("covtype 50k unscaled C=10", _kernel(10.0, "scale"), data.read_covtype(50_000, scaled=False), real=True),
    _made("duplicated rows C=1e4", _kernel(1e4, 0.1), duplicated),
    _made("poly on 1 unscaled feature", Task("kernel", kernel="poly", gamma="scale"), one_large_feature),
    _made(
        "poly of degree 4, 1 feature, C=100",
        Task("kernel", kernel="poly", degree=4, gamma=0.96, C=100.0),
        one_large_feature,
    ),
    _made("NuSVC on 6 samples", Task("nu-svc", kernel="poly", gamma=1 / 13, coef0=10.0, nu=2 / 7), six_samples),
    _made("NuSVR 547x22 unscaled", Task("nu-svr", kernel="linear", C=1.0), unscaled_regression),
)
LEGEND = """\
gap: certified relative duality gap, recomputed in float64 from the answer; inf = the answer proves nothing
Ours runs with tol=1e-3 and max_time at the limit, the peers with their default tolerance 1e-3 until they are killed.
memory: peak of the process, with Python, the libraries and the data"""


@dataclass(frozen=True)
class Result:
    """One solver on one case."""

    case: str
    solver: str
    trial: Trial
    gap: float | None

    def row(self) -> list[str]:
        """A line of the table."""
        trial = self.trial
        if trial.failure:
            time = f">{trial.seconds:.0f}" if trial.failure == "timeout" else ""
            ending = "killed: it did not end by itself" if trial.failure == "timeout" else trial.failure[:90]
            return [self.case, self.solver, time, "", "", ending]
        assert self.gap is not None
        assert trial.answer is not None
        ending = (trial.answer.info or {}).get("status", "says nothing")
        return [self.case, self.solver, seconds(trial.seconds), f"{self.gap:.1e}", _megabytes(trial.memory), ending]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    stems = [stem for stem in STEMS if version_of(load_class(stem).distribution)]
    if options.ours:
        stems = [OURS]
    cases = [case for case in CASES if matches(case.name, options.only) and (options.data or not case.real)]
    circumstances = header(options, stems, [])
    show_header(circumstances)
    results: list[Result] = []
    with quiet_machine(options.threads):
        for case in cases:
            for result in run(case, stems, options):
                results.append(result)
                print("  ".join(result.row()), flush=True)
    rows = [["case", "solver", "seconds", "gap", "MB", "how it ended"], *(result.row() for result in results)]
    print("\n" + aligned(rows), LEGEND, summary(results), sep="\n\n")
    if options.json is not None:
        numbers = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
        options.json.write_text(json.dumps({"header": circumstances, "cases": numbers}, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "Problems on which the peers do not finish: status, certified gap, time and memory."
    parser = argparse.ArgumentParser(prog="hard_cases.py", description=description)
    add_options(parser)
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a case's name, or a pattern")
    parser.add_argument("--ours", action="store_true", help="without the peers")
    return parser


def run(case: Workload, stems: Sequence[str], options: argparse.Namespace) -> list[Result]:
    """One fit of every solver that knows the problem."""
    try:
        X, y = case.load(options.data)
    except FileNotFoundError as error:
        print(f"{case.name} is left out: there is no {error.filename}", flush=True)
        return []
    task = case.task.resolved(X)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        data.save(Path(scratch), X, y)
        judge = judge_of(X, y, task)
        for stem in stems:
            for parameters in settings(stem):
                peer = make(stem, parameters)
                name = f"{peer.name} {peer.setting}".strip()
                say(f"{case.name}: {name}")
                job = Job(stem, parameters, Path(scratch), task, options.threads, tame=True)
                refusal = peer.refusal(task)
                trial = Trial(failure=refusal) if refusal else _fit_once(job, options.timeout)
                results.append(Result(case.name, name, trial, _gap(judge, trial)))
    return results


def _fit_once(job: Job, limit: float) -> Trial:
    worker = Worker(job)
    try:
        if job.stem == OURS:
            return worker.fit(GAP, GRACE * limit, time_limit=limit)
        return worker.fit(PEERS_TOL, limit)
    finally:
        worker.stop()


def _gap(judge: Judge, trial: Trial) -> float | None:
    return None if trial.answer is None else judge.relative_gap(trial.answer)


def _megabytes(memory: float) -> str:
    return f"{memory / 1e6:.0f}"


def summary(results: Sequence[Result]) -> str:
    """How many cases each solver ended with the gap, without it, or not at all."""
    lines = []
    for solver in dict.fromkeys(result.solver for result in results):
        own = [result for result in results if result.solver == solver]
        proved = sum(result.gap is not None and result.gap <= GAP * 1.001 for result in own)
        killed = sum(result.trial.failure == "timeout" for result in own)
        lines.append(f"{solver}: {proved} of {len(own)} with a gap of {GAP:g}, {killed} killed at the limit")
    return "\n".join(lines)
