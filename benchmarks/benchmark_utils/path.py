"""Twenty values of C by warm starts, in units of a single fit. The command line of ``path.py``."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import report
from benchmark_utils.session import header, matches, say, show_header
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
    options = parser.parse_args(arguments)
    fix_threads(options.threads)
    show_header(header(options, ["maxmargin"], []))
    lines = [["workload", "single fit", "20 values", "in single fits", "worst gap", f"goal {GOAL:g}"]]
    for name in WORKLOADS:
        if matches(name, options.only):
            say(name)
            lines.append(_line(name, options))
    say("")
    print(report.aligned(lines))
    print("single fit: mean of C = 0.01, 0.7 and 100, from nothing; gap 1e-4; medians")
    return 0


def _line(name: str, options: argparse.Namespace) -> list[str]:
    workload = BY_NAME[name]
    X, y = workload.load(options.data)
    _fit(_model(workload, options), SINGLE[0], X, y)  # compiles
    single, whole, worst = [], [], 0.0
    for _ in range(options.repeats):
        single.append(statistics.mean(_fit(_model(workload, options), C, X, y) for C in SINGLE))
        model = _model(workload, options)
        seconds = 0.0
        for C in VALUES:
            seconds += _fit(model, C, X, y)
            worst = max(worst, model.duality_gap_)
        whole.append(seconds)
    ratio = statistics.median(whole) / statistics.median(single)
    return [
        name,
        report.seconds(statistics.median(single)),
        report.seconds(statistics.median(whole)),
        f"{ratio:.1f}",
        f"{worst:.0e}",
        "met" if ratio <= GOAL else "missed",
    ]


def _model(workload: Any, options: argparse.Namespace) -> Any:
    from maxmargin import LinearSVC

    task = workload.task
    return LinearSVC(
        loss=task.loss, intercept=task.intercept, fit_intercept=False, max_time=options.timeout, warm_start=True
    )


def _fit(model: Any, C: float, X: Any, y: Any) -> float:
    began = time.perf_counter()
    model.set_params(C=C).fit(X, y)
    return time.perf_counter() - began
