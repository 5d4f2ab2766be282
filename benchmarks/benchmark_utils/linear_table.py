"""The table of the linear machines: each row of workloads against its goal. The command line of ``linear.py``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmark_utils import report
from benchmark_utils.measure import HOPELESS, LEAST_LIMIT, OURS, Outcome, Plan, as_json
from benchmark_utils.session import (
    add_markdown,
    add_options,
    chosen_solvers,
    header,
    keep,
    matches,
    measure_all,
    quiet_machine,
    say,
    show_header,
)
from benchmark_utils.workloads import BY_NAME

ONCE_ABOVE = 5.0  # seconds: slower fits are run once
BEYOND = 1.5  # a peer that takes so many times what a goal asks for is cut off
# The kernel machines solve some of these problems too, but none in less than minutes. The fast ones come first, because
# they shorten the limit of the others.
PEERS = (
    "liblinear_multicore",
    "liblinear",
    "sklearn_linear_svc",
    "cyanure",
    "lightning",
    "snapml",
    "skglm",
    "sklearn_sgd",
)


@dataclass(frozen=True)
class Goal:
    """A row of the table: how many times faster than the best peer we want to be, at some gaps."""

    title: str
    workloads: tuple[str, ...]
    gaps: tuple[float, ...]
    wanted: float
    stretch: float = math.inf
    peers: tuple[str, ...] = PEERS
    peer_gap: float | None = None  # the gap that is enough for a peer, if not ours

    @property
    def patience(self) -> float:
        """Times our own seconds after which a fit of a peer is cut off."""
        return BEYOND * (self.stretch if math.isfinite(self.stretch) else self.wanted)


def _covtype(loss: str, scalings: Sequence[str], intercepts: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"covtype-{scaling}-{loss}-{kind}" for scaling in scalings for kind in intercepts)


GOALS = (
    Goal(
        "covtype 581k x 54, squared hinge",
        _covtype("sqhinge", ("standardised", "scaled", "raw"), ("none",)),
        (1e-6,),
        10.0,
        20.0,
    ),
    Goal("covtype scaled, hinge", _covtype("hinge", ("scaled",), ("free", "pen", "none")), (1e-4, 1e-6), 5.0, 10.0),
    Goal(
        "covtype standardised and raw, hinge: ours to 1e-6, LinearSVC to within 5 %",
        _covtype("hinge", ("standardised", "raw"), ("free", "pen", "none")),
        (1e-6,),
        30.0,
        peers=("sklearn_linear_svc_passes",),
        peer_gap=0.05,
    ),
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
LEGEND = f"""\
seconds: median over the repeats; * = a repeat missed the gap; fits of more than {ONCE_ABOVE:g} s were run once
- 3e-05 = the gap was not reached at any tolerance, this is the best;  >12s 3e-05 = nor before the fit was cut off:
  after {BEYOND:g} times the (stretch) goal times our seconds at the smallest gap, or {HOPELESS:g} times those of
  another peer, but not before {LEAST_LIMIT:g} s
ratio: seconds of the best peer over ours; >12 = all peers were cut off or ended short of the gap; "only us" = all ended
goal: wanted (stretch); "open" = the peers were cut off before it was clear"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    used = dict.fromkeys(stem for goal in GOALS for stem in goal.peers)
    stems, absent = chosen_solvers(options.solver, [OURS, *used])
    circumstances = header(options, stems, absent)
    show_header(circumstances)
    outcomes: list[Outcome] = []
    with quiet_machine(options.threads):
        for outcome in _outcomes(options, stems):
            outcomes.append(outcome)
            print(table([outcome]), end="\n\n", flush=True)  # all of them together follow, but runs are long
    if not outcomes:
        print("No workload of the table has such a name, or --data is missing.", file=sys.stderr)
        return 2
    remarks = (LEGEND, report.notes(outcomes), summary(outcomes))
    print("=" * 120, table(outcomes), *remarks, sep="\n\n")
    tables = [f"**{goal.title}**\n\n{report.markdown(_lines(goal, outcomes))}" for goal in _goals_of(outcomes)]
    results = {"header": circumstances, "workloads": [as_json(outcome) for outcome in outcomes]}
    keep(options, results, *tables, *remarks)
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "The linear machines: seconds at equal certified gap, and how far the goals are."
    parser = argparse.ArgumentParser(prog="linear.py", description=description)
    add_options(parser, timeout=120.0)
    add_markdown(parser)
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a workload's name, or a pattern")
    parser.add_argument("--solver", default="", metavar="PATTERN", help="peers to compare with; maxmargin always runs")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed fits of each (3)")
    return parser


def _outcomes(options: argparse.Namespace, stems: Sequence[str]) -> Iterator[Outcome]:
    for goal in GOALS:
        plan = Plan(
            goal.gaps,
            options.repeats,
            options.threads,
            options.timeout,
            say,
            ONCE_ABOVE,
            goal.patience,
            goal.peer_gap,
        )
        chosen = (name for name in goal.workloads if options.data is not None and matches(name, options.only))
        jobs = [(BY_NAME[name], plan) for name in chosen]
        yield from measure_all(jobs, options.data, [OURS, *(stem for stem in goal.peers if stem in stems)])


def _goals_of(outcomes: Sequence[Outcome]) -> list[Goal]:
    names = {outcome.workload.name for outcome in outcomes}
    return [goal for goal in GOALS if names.intersection(goal.workloads)]


def _members(goal: Goal, outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.workload.name in goal.workloads]


def verdict(duel: report.Duel, goal: Goal) -> str:
    """The goal, and whether it is met."""
    wanted = f"{goal.wanted:g}x" + (f" ({goal.stretch:g}x)" if math.isfinite(goal.stretch) else "")
    bound = duel.ratio_at_least if duel.ratio is None else duel.ratio
    if bound is None:
        return f"{wanted} {'met' if duel.won else 'missed'}"
    if bound < goal.wanted:
        return f"{wanted} {'open' if duel.ratio is None else 'missed'}"
    return f"{wanted} {'stretch' if bound >= goal.stretch else 'met'}"


def table(outcomes: Sequence[Outcome]) -> str:
    """The rows of the issue, each followed by its workloads."""
    return "\n\n".join(f"{goal.title}\n{report.aligned(_lines(goal, outcomes))}" for goal in _goals_of(outcomes))


def _lines(goal: Goal, outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A head, and a line for every workload of a goal at every gap."""
    members = _members(goal, outcomes)
    peers = list(dict.fromkeys(e.solver for o in members for e in o.entries if not e.is_ours))
    lines = [["workload", "n x d", "gap", OURS, *peers, "ratio", "goal"]]
    for outcome in members:
        for gap in goal.gaps:
            duel, _ = report.duel_of(outcome.entries, gap, goal.peer_gap)
            cells = [
                report.cell([e for e in outcome.entries if e.solver == solver], target)[0]
                for solver, target in [(OURS, gap), *((peer, goal.peer_gap or gap) for peer in peers)]
            ]
            size = "x".join(map(str, outcome.shape))
            lines.append([outcome.workload.name, size, f"{gap:.0e}", *cells, str(duel), verdict(duel, goal)])
    return lines


def summary(outcomes: Sequence[Outcome]) -> str:
    """Goals met, wins and losses."""
    duels = [
        (report.duel_of(outcome.entries, gap, goal.peer_gap)[0], goal)
        for goal in _goals_of(outcomes)
        for outcome in _members(goal, outcomes)
        for gap in goal.gaps
    ]
    met = sum(verdict(duel, goal).endswith(("met", "stretch")) for duel, goal in duels)
    wins, losses = (sum(duel.won is side for duel, _ in duels) for side in (True, False))
    ratios = [math.log(duel.ratio) for duel, _ in duels if duel.ratio]
    mean = f"{math.exp(sum(ratios) / len(ratios)):.2f}" if ratios else "-"
    return f"{met} of {len(duels)} goals met, {wins} wins, {losses} losses, geometric mean {mean} where both finished"
