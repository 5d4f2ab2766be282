"""The table of the linear machines: each row of workloads against its goal. The command line of ``linear.py``."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmark_utils import report
from benchmark_utils.measure import OURS, Outcome, Plan, as_json
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
from benchmark_utils.workloads import BY_NAME, Workload

ONCE_ABOVE = 15.0  # seconds: slower fits are run once


@dataclass(frozen=True)
class Goal:
    """A row of the table: how many times faster than the best peer we want to be, at some gaps."""

    title: str
    workloads: tuple[str, ...]
    gaps: tuple[float, ...]
    wanted: float
    stretch: float = math.inf


def _covtype(loss: str, scalings: Sequence[str], intercepts: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"covtype-{scaling}-{loss}-{kind}" for scaling in scalings for kind in intercepts)


GOALS = (
    Goal(
        "covtype 581k x 54, squared hinge",
        _covtype("sqhinge", ("standardised", "scaled", "raw"), ("pen", "none")),
        (1e-6,),
        10.0,
        20.0,
    ),
    Goal("covtype scaled, hinge", _covtype("hinge", ("scaled",), ("free", "pen", "none")), (1e-4, 1e-6), 5.0, 10.0),
    Goal("covtype standardised and raw, hinge", _covtype("hinge", ("standardised", "raw"), ("pen",)), (1e-6,), 30.0),
    Goal(
        "sparse, hinge",
        tuple(f"{name}-hinge-none" for name in ("rcv1", "news20", "w8a", "a9a")),
        (1e-3, 1e-6),
        1.0,
        1.5,
    ),
    Goal(
        "sparse, squared hinge",
        tuple(f"{name}-sqhinge-none" for name in ("rcv1", "news20", "w8a", "a9a")),
        (1e-3, 1e-6),
        1.5,
        2.5,
    ),
    Goal(
        "ijcnn1, cod-rna, mnist, hinge", ("ijcnn1-hinge-none", "cod-rna-hinge-none", "mnist-hinge-none"), (1e-6,), 5.0
    ),
    Goal(
        "ijcnn1, cod-rna, mnist, squared hinge",
        ("ijcnn1-sqhinge-none", "cod-rna-sqhinge-none", "mnist-sqhinge-none"),
        (1e-6,),
        5.0,
    ),
)
LEGEND = """\
seconds: median over the repeats; * = a repeat missed the gap; fits of more than 15 s were run once
- 3e-05 = the gap was not reached at any tolerance, this is the best;  >60s = not within the time limit
ratio: seconds of the best peer over ours; "only us" = no peer reached the gap"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    jobs = _jobs(options)
    if not jobs:
        print("No workload of the table has such a name.", file=sys.stderr)
        return 2
    stems, absent = chosen_solvers(options.solver)
    circumstances = header(options, stems, absent)
    show_header(circumstances)
    outcomes: list[Outcome] = []
    with quiet_machine(options.threads):
        for outcome in measure_all(jobs, options.data, stems):
            outcomes.append(outcome)
            print(table([outcome]), end="\n\n", flush=True)  # all of them together follow, but runs are long
    print("=" * 120, table(outcomes), LEGEND, report.notes(outcomes), summary(outcomes), sep="\n\n")
    if options.json is not None:
        results = {"header": circumstances, "workloads": [as_json(outcome) for outcome in outcomes]}
        options.json.write_text(json.dumps(results, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "The linear machines: seconds at equal certified gap, and how far the goals are."
    parser = argparse.ArgumentParser(prog="linear.py", description=description)
    add_options(parser)
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a workload's name, or a pattern")
    parser.add_argument("--solver", default="", metavar="PATTERN", help="peers to compare with; maxmargin always runs")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed fits of each (3)")
    return parser


def _jobs(options: argparse.Namespace) -> list[tuple[Workload, Plan]]:
    plan = Plan((), options.repeats, options.threads, options.timeout, say, ONCE_ABOVE)
    return [
        (BY_NAME[name], replace(plan, targets=goal.gaps))
        for goal in GOALS
        for name in goal.workloads
        if options.data is not None and matches(name, options.only)
    ]


def _goal_of(outcome: Outcome) -> Goal:
    return next(goal for goal in GOALS if outcome.workload.name in goal.workloads)


def verdict(duel: report.Duel, goal: Goal) -> str:
    """The goal, and whether it is met."""
    wanted = f"{goal.wanted:g}x" + (f" ({goal.stretch:g}x)" if math.isfinite(goal.stretch) else "")
    if duel.ratio is None:
        return f"{wanted} {'met' if duel.won else 'missed'}"
    met = "stretch" if duel.ratio >= goal.stretch else ("met" if duel.ratio >= goal.wanted else "missed")
    return f"{wanted} {met}"


def table(outcomes: Sequence[Outcome]) -> str:
    """The rows of the issue, each followed by its workloads."""
    peers = list(dict.fromkeys(e.solver for o in outcomes for e in o.entries if not e.is_ours))
    lines = [["workload", "n x d", "gap", OURS, *peers, "ratio", "goal"]]
    titles: list[tuple[int, str]] = []
    for goal in GOALS:
        members = [outcome for outcome in outcomes if _goal_of(outcome) is goal]
        if members:
            titles.append((len(lines), goal.title))
        for outcome in members:
            for gap in goal.gaps:
                duel, _ = report.duel_of(outcome.entries, gap)
                cells = [
                    report.cell([e for e in outcome.entries if e.solver == solver], gap)[0] for solver in [OURS, *peers]
                ]
                size = "x".join(map(str, outcome.shape))
                lines.append([outcome.workload.name, size, f"{gap:.0e}", *cells, str(duel), verdict(duel, goal)])
    text = report.aligned(lines).splitlines()
    for at, title in reversed(titles):
        text.insert(at, f"\n{title}")
    return "\n".join(text)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Goals met, wins and losses."""
    duels = [(report.duel_of(o.entries, gap)[0], _goal_of(o)) for o in outcomes for gap in _goal_of(o).gaps]
    met = sum(not verdict(duel, goal).endswith("missed") for duel, goal in duels)
    wins, losses = (sum(duel.won is side for duel, _ in duels) for side in (True, False))
    ratios = [math.log(duel.ratio) for duel, _ in duels if duel.ratio]
    mean = f"{math.exp(sum(ratios) / len(ratios)):.2f}" if ratios else "-"
    return f"{met} of {len(duels)} goals met, {wins} wins, {losses} losses, geometric mean {mean} where both finished"
