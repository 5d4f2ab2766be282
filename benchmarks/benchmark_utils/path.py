"""Twenty values of C by warm starts, in units of a single fit. The command line of ``path.py``."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import report
from benchmark_utils.session import add_markdown, header, keep, matches, say, show_header
from benchmark_utils.worker import fix_threads
from benchmark_utils.workloads import BY_NAME

VALUES = np.geomspace(0.01, 100.0, 20)
SINGLE = (VALUES[0], VALUES[9], VALUES[-1])
GOAL = 4.0  # single fits
WORKLOADS = tuple(
    f"{data}-{loss}-none"
    for data in ("ijcnn1", "a9a", "rcv1", "covtype-scaled", "covtype-standardised")
    for loss in ("hinge", "sqhinge")
)
LEGEND = """\
single fit: mean of C = 0.01, 0.7 and 100, from nothing; gap 1e-4; medians of the seconds, CPU: of the processor's
in single fits: the ratio of the seconds; on a busy machine that of the processor's is the steadier one"""


@dataclass
class WarmPath:
    """Seconds and processor seconds of every repeat: of a single fit, and of all values one after the other."""

    workload: str
    single: list[list[float]] = field(default_factory=list)
    whole: list[list[float]] = field(default_factory=list)
    worst_gap: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print."""
    parser = argparse.ArgumentParser(prog="path.py", description="A path of 20 values of C by warm starts.")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="real data, DIR/NAME/NAME.train.libsvm.xz"
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a workload's name, or a pattern")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads (2)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds for one fit (60)")
    parser.add_argument("--repeats", type=int, default=2, metavar="N", help="times each is run, in turn (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number to a file")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    fix_threads(options.threads)
    circumstances = header(options, ["maxmargin"], [])
    show_header(circumstances)
    paths = []
    for name in WORKLOADS:
        if matches(name, options.only):
            say(name)
            paths.append(_measure(name, options))
    say("")
    lines = table(paths)
    print(report.aligned(lines), LEGEND, sep="\n\n")
    keep(options, {"header": circumstances, "paths": [asdict(path) for path in paths]}, report.markdown(lines), LEGEND)
    return 0


def _measure(name: str, options: argparse.Namespace) -> WarmPath:
    workload = BY_NAME[name]
    X, y = workload.load(options.data)
    _fit(_model(workload, options), SINGLE[0], X, y)  # compiles
    path = WarmPath(name)
    for _ in range(options.repeats):
        fits = [_fit(_model(workload, options), C, X, y) for C in SINGLE]
        path.single.append([statistics.mean(column) for column in zip(*fits, strict=True)])
        model = _model(workload, options)
        fits = []
        for C in VALUES:
            fits.append(_fit(model, C, X, y))
            path.worst_gap = max(path.worst_gap, model.duality_gap_)
        path.whole.append([sum(column) for column in zip(*fits, strict=True)])
    return path


def table(paths: Sequence[WarmPath]) -> list[list[str]]:
    """A head, and a line for every workload."""
    head = ["workload", "single fit", "CPU", "20 values", "CPU", "in single fits", "CPU", "worst gap", f"goal {GOAL:g}"]
    lines = [head]
    for path in paths:
        single, whole = (
            [statistics.median(column) for column in zip(*runs, strict=True)] for runs in (path.single, path.whole)
        )
        ratios = [long / short for long, short in zip(whole, single, strict=True)]
        lines.append(
            [
                path.workload,
                *(report.seconds(value) for value in (*single, *whole)),
                *(f"{ratio:.1f}" for ratio in ratios),
                f"{path.worst_gap:.0e}",
                "met" if ratios[0] <= GOAL else "missed",
            ]
        )
    return lines


def _model(workload: Any, options: argparse.Namespace) -> Any:
    from maxmargin import LinearSVC

    task = workload.task
    return LinearSVC(
        loss=task.loss, intercept=task.intercept, fit_intercept=False, max_time=options.timeout, warm_start=True
    )


def _fit(model: Any, C: float, X: Any, y: Any) -> list[float]:
    """Seconds, and those of the processor."""
    began, cpu_began = time.perf_counter(), time.process_time()
    model.set_params(C=C).fit(X, y)
    return [time.perf_counter() - began, time.process_time() - cpu_began]
