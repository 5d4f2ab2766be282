"""What the commands share: options, solvers, the header, and the state of the machine while they measure."""

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmark_utils.measure import OURS, LeftOut, Outcome, Plan, measure
from benchmark_utils.peer import load_class, solver_files, version_of
from benchmark_utils.worker import fix_threads
from benchmark_utils.workloads import Workload


def add_options(parser: argparse.ArgumentParser, *, timeout: float = 60.0) -> None:
    """Add the options of every command."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="real data, DIR/NAME/NAME.train.libsvm.xz")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of every solver (2)")
    parser.add_argument(
        "--timeout", type=float, default=timeout, metavar="SECONDS", help=f"limit of every fit ({timeout:g})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number to a file")


def add_markdown(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that ``keep`` their tables for documents."""
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a file, for documents")


def keep(options: argparse.Namespace, results: dict[str, Any], *parts: str) -> None:
    """Write the files that were asked for: every number, and the parts of a document below the circumstances."""
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))
    if options.markdown is not None:
        circumstances = [f"- {key}: {value}" for key, value in results.get("header", {}).items()]
        options.markdown.write_text("\n\n".join(["\n".join(circumstances), *parts]).strip() + "\n")


def chosen_solvers(pattern: str, among: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Files of the installed solvers, and names of the others."""
    stems, absent = [], []
    for stem in among or solver_files():
        solver = load_class(stem)
        if stem != OURS and not matches(solver.name, pattern):
            continue
        if version_of(solver.distribution):
            stems.append(stem)
        else:
            absent.append(f"{solver.name} ({solver.distribution})")
    return stems, absent


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern, or a part of a name, fits."""
    return fnmatch.fnmatch(name.lower(), pattern.lower()) or pattern.lower() in name.lower()


def header(options: argparse.Namespace, stems: Sequence[str], absent: Sequence[str]) -> dict[str, Any]:
    """The circumstances of a run."""
    distributions = dict.fromkeys(load_class(stem).distribution for stem in stems)
    versions = {"Python": platform.python_version()} | {
        name: version_of(name) for name in [*distributions, "numpy", "scipy", "numba"]
    }
    repeats = {"repeats": f"{options.repeats}, interleaved"} if hasattr(options, "repeats") else {}
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "machine": f"{_processor()}, {os.cpu_count()} processors, {platform.system()}",
        "load at the start": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "threads of every solver": options.threads,
        "limit of every fit": f"{options.timeout:g} s",
        **repeats,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "not installed": ", ".join(absent) or "none",
    }


def show_header(entries: dict[str, Any]) -> None:
    """Print the circumstances."""
    print("\n".join(f"{key}: {value}" for key, value in entries.items()), end="\n\n", flush=True)


@contextmanager
def quiet_machine(threads: int) -> Iterator[None]:
    """While it lasts: a number of threads, and an empty cache of compiled code, so that what the first fit of a new
    user costs is measured, and reported apart.
    """
    fix_threads(threads)
    with tempfile.TemporaryDirectory() as cache, threadpool_limits(threads):
        os.environ["NUMBA_CACHE_DIR"] = cache
        try:
            yield
        except KeyboardInterrupt:
            say("interrupted: what was measured so far follows")
            print(file=sys.stderr)
    say("")


def measure_all(jobs: Sequence[tuple[Workload, Plan]], data: Path | None, stems: Sequence[str]) -> Iterator[Outcome]:
    """Measure workloads, one after another; those without data or without a solver of ours are left out."""
    for workload, plan in jobs:
        try:
            yield measure(workload, data, stems, plan)
        except FileNotFoundError as error:
            print(f"{workload.name} is left out: there is no {error.filename}\n", flush=True)
        except LeftOut as error:
            print(f"{workload.name} is left out: {error}\n", flush=True)


def say(text: str) -> None:
    """Progress, on one line of the terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found.group(1).strip() if found else platform.processor()
