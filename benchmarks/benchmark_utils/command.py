"""The command line of ``compare.py``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmark_utils import report
from benchmark_utils.measure import OURS, Outcome, Plan, as_json, measure
from benchmark_utils.peer import load_class, solver_files, version_of
from benchmark_utils.worker import fix_threads
from benchmark_utils.workloads import REAL, SYNTHETIC, Workload

TARGETS = (1e-3, 1e-6)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    workloads = _chosen_workloads(options)
    stems, absent = _chosen_solvers(options.solver)
    if options.list:
        _list(workloads, stems, absent)
        return 0
    if not workloads:
        print("No workload has such a name; --list shows them.", file=sys.stderr)
        return 2
    header = _header(options, stems, absent)
    print("\n".join(f"{key}: {value}" for key, value in header.items()), end="\n\n", flush=True)
    outcomes = _measure_all(workloads, stems, options)
    print(report.tables(outcomes, TARGETS), report.notes(outcomes), report.summary(outcomes, TARGETS), sep="\n\n")
    if options.json is not None:
        results = {"header": header, "workloads": [as_json(outcome) for outcome in outcomes]}
        options.json.write_text(json.dumps(results, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "Seconds of maxmargin and its peers at equal certified relative duality gap."
    parser = argparse.ArgumentParser(prog="compare.py", description=description)
    parser.add_argument("--data", type=Path, metavar="DIR", help="real data, DIR/NAME/NAME.train.libsvm.xz")
    parser.add_argument("--workload", default="", metavar="PATTERN", help="part of a name, or a pattern such as a9a-*")
    parser.add_argument("--solver", default="", metavar="PATTERN", help="peers to compare with; maxmargin always runs")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed fits of each (3)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of every solver (2)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="limit of every fit (60)")
    parser.add_argument("--quick", action="store_true", help="small workloads only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number to a file")
    parser.add_argument("--list", action="store_true", help="show workloads and solvers, and stop")
    return parser


def _chosen_workloads(options: argparse.Namespace) -> list[Workload]:
    """With ``--data`` the real workloads, without it the synthetic ones."""
    known = SYNTHETIC if options.data is None else REAL
    return [w for w in known if _matches(w.name, options.workload) and (w.quick or not options.quick)]


def _chosen_solvers(pattern: str) -> tuple[list[str], list[str]]:
    """Files of the installed solvers, and names of the others."""
    stems, absent = [], []
    for stem in solver_files():
        solver = load_class(stem)
        if stem != OURS and not _matches(solver.name, pattern):
            continue
        if version_of(solver.distribution):
            stems.append(stem)
        else:
            absent.append(f"{solver.name} ({solver.distribution})")
    return stems, absent


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatch(name.lower(), pattern.lower()) or pattern.lower() in name.lower()


def _list(workloads: Sequence[Workload], stems: Sequence[str], absent: Sequence[str]) -> None:
    for workload in workloads:
        task = workload.task
        gamma = f" gamma={task.gamma:g}" if task.gamma else ""
        quick = "  (quick)" if workload.quick else ""
        print(f"{workload.name:28} {task.family}, {task.loss}, C={task.C:g}{gamma}, intercept {task.intercept}{quick}")
    print("solvers:", ", ".join(load_class(stem).name for stem in stems))
    print("not installed:", ", ".join(absent) or "none")


def _header(options: argparse.Namespace, stems: Sequence[str], absent: Sequence[str]) -> dict[str, Any]:
    distributions = dict.fromkeys(load_class(stem).distribution for stem in stems)
    versions = {"Python": platform.python_version()} | {
        name: version_of(name) for name in [*distributions, "numpy", "scipy", "numba"]
    }
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "machine": f"{_processor()}, {os.cpu_count()} processors, {platform.system()}",
        "load at the start": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "threads of every solver": options.threads,
        "limit of every fit": f"{options.timeout:g} s",
        "repeats": f"{options.repeats}, interleaved",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "not installed": ", ".join(absent) or "none",
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found.group(1).strip() if found else platform.processor()


def _measure_all(workloads: Sequence[Workload], stems: Sequence[str], options: argparse.Namespace) -> list[Outcome]:
    fix_threads(options.threads)
    plan = Plan(TARGETS, options.repeats, options.threads, options.timeout, _say)
    outcomes = []
    # An empty cache of compiled code: what the first fit of a new user costs is measured, and reported apart.
    with tempfile.TemporaryDirectory() as cache, threadpool_limits(options.threads):
        os.environ["NUMBA_CACHE_DIR"] = cache
        try:
            for workload in workloads:
                try:
                    outcomes.append(measure(workload, options.data, stems, plan))
                except FileNotFoundError as error:
                    print(f"{workload.name} is left out: there is no {error.filename}\n", flush=True)
        except KeyboardInterrupt:
            _say("interrupted: the workloads so far follow")
            print(file=sys.stderr)
    _say("")
    return outcomes


def _say(text: str) -> None:
    """Progress, on one line of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
