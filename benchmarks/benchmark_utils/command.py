"""The command line of ``compare.py``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmark_utils import report
from benchmark_utils.measure import Outcome, Plan, as_json
from benchmark_utils.peer import load_class
from benchmark_utils.session import (
    add_options,
    chosen_solvers,
    header,
    matches,
    measure_all,
    quiet_machine,
    say,
    show_header,
)
from benchmark_utils.workloads import REAL, SYNTHETIC, Workload

TARGETS = (1e-3, 1e-6)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    workloads = _chosen_workloads(options)
    stems, absent = chosen_solvers(options.solver)
    if options.list:
        _list(workloads, stems, absent)
        return 0
    if not workloads:
        print("No workload has such a name; --list shows them.", file=sys.stderr)
        return 2
    circumstances = header(options, stems, absent)
    show_header(circumstances)
    plan = Plan(TARGETS, options.repeats, options.threads, options.timeout, say)
    outcomes: list[Outcome] = []
    with quiet_machine(options.threads):
        outcomes.extend(measure_all([(workload, plan) for workload in workloads], options.data, stems))
    print(report.tables(outcomes, TARGETS), report.notes(outcomes), report.summary(outcomes, TARGETS), sep="\n\n")
    if options.json is not None:
        results = {"header": circumstances, "workloads": [as_json(outcome) for outcome in outcomes]}
        options.json.write_text(json.dumps(results, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "Seconds of maxmargin and its peers at equal certified relative duality gap."
    parser = argparse.ArgumentParser(prog="compare.py", description=description)
    add_options(parser)
    parser.add_argument("--workload", default="", metavar="PATTERN", help="part of a name, or a pattern such as a9a-*")
    parser.add_argument("--solver", default="", metavar="PATTERN", help="peers to compare with; maxmargin always runs")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed fits of each (3)")
    parser.add_argument("--quick", action="store_true", help="small workloads only")
    parser.add_argument("--list", action="store_true", help="show workloads and solvers, and stop")
    return parser


def _chosen_workloads(options: argparse.Namespace) -> list[Workload]:
    """With ``--data`` the real workloads, without it the synthetic ones."""
    known = SYNTHETIC if options.data is None else REAL
    return [w for w in known if matches(w.name, options.workload) and (w.quick or not options.quick)]


def _list(workloads: Sequence[Workload], stems: Sequence[str], absent: Sequence[str]) -> None:
    for workload in workloads:
        task = workload.task
        gamma = f" gamma={task.gamma:g}" if task.gamma else ""
        quick = "  (quick)" if workload.quick else ""
        print(f"{workload.name:28} {task.family}, {task.loss}, C={task.C:g}{gamma}, intercept {task.intercept}{quick}")
    print("solvers:", ", ".join(load_class(stem).name for stem in stems))
    print("not installed:", ", ".join(absent) or "none")
