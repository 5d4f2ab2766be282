"""The table of the kernel machines: each row of workloads against its goals. The command line of ``kernels.py``."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmark_utils import report
from benchmark_utils.measure import Entry, Outcome, Plan, as_json
from benchmark_utils.peer import load_class, version_of
from benchmark_utils.session import add_options, header, matches, measure_all, quiet_machine, say, show_header
from benchmark_utils.workloads import BY_NAME, Workload

GAP = 1e-3
TIGHT_GAP = 1e-6
ONCE_ABOVE = 15.0  # seconds: slower fits are run once
STEMS = ("maxmargin", "sklearnex_svc", "sklearn_svc", "libsvm")
INTELEX, LIBSVM = ("sklearnex SVC",), ("sklearn SVC", "LIBSVM")


@dataclass(frozen=True)
class Goal:
    """A row of the table: how many times faster than the peers, at their best settings, we want to be."""

    title: str
    workloads: tuple[str, ...]
    intelex: float
    stretch: float
    libsvm: float
    tight: bool = False  # cheap enough to show a small gap as well


GOALS = (
    Goal(
        "RBF, C=1: n=10k d=50; mushrooms; usps 3 against 5",
        ("rbf-10k-C1", "mushrooms-C1", "usps-3v5-C1"),
        3,
        5,
        10,
        True,
    ),
    Goal("the same, C=100", ("rbf-10k-C100", "mushrooms-C100", "usps-3v5-C100"), 4, 8, 10, True),
    Goal("mnist 20k x 784, C=10, even against odd", ("mnist-20k-rbf",), 1.5, 2.5, 12),
    Goal("a9a; w8a; ijcnn1", ("a9a-rbf", "a9a-csr-rbf", "w8a-rbf", "ijcnn1-rbf"), 3, 5, 10),
    Goal("covtype 100k rows, scaled, C=10", ("covtype-100k-rbf",), 3, 6, 15),
    Goal("nu-SVC n=10k d=50; SVR on cadata", ("nu-svc-10k", "cadata-svr"), 3, math.inf, 8),
    Goal("mnist 10 classes one-vs-one, 20k rows", ("mnist-20k-ovo",), 3, math.inf, 10),
    Goal("20k predictions against 5k support vectors", ("predict-d50", "predict-d784"), 3, math.inf, 25),
)
QUICK = ("rbf-10k-C1", "mushrooms-C1", "usps-3v5-C1", "usps-3v5-C100", "predict-d50")
COLUMNS = {
    "sklearnex f32": ("sklearnex SVC", "float32"),
    "sklearnex f64": ("sklearnex SVC", "float64"),
    "sklearn": ("sklearn SVC", ""),
    "LIBSVM": ("LIBSVM", ""),
}
LEGEND = """\
seconds: median over the repeats; * = a repeat missed the gap; fits of more than 15 s were run once
gap: certified relative duality gap, of the worst pair for one-vs-one; for predictions the largest error of a score
- 3e-05 = the gap was not reached at any tolerance, this is the best;  >60s = not within the time limit
/ sklearnex: seconds of scikit-learn-intelex in its better precision over ours; / LIBSVM: of the faster of scikit-learn
and LIBSVM (which converts the data, as its users must) over ours; > = a bound, because that peer did not finish"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    jobs = _jobs(options)
    if not jobs:
        print("No workload of the table has such a name, or it needs --data.", file=sys.stderr)
        return 2
    stems = [stem for stem in STEMS if version_of(load_class(stem).distribution)]
    absent = [load_class(stem).distribution for stem in STEMS if stem not in stems]
    circumstances = header(options, stems, absent)
    show_header(circumstances)
    outcomes: list[Outcome] = []
    with quiet_machine(options.threads):
        for outcome in measure_all(jobs, options.data, stems):
            outcomes.append(outcome)
            print(table([outcome]), end="\n\n", flush=True)  # all of them together follow, but runs are long
    print("=" * 120, table(outcomes), LEGEND, notes(outcomes), summary(outcomes), sep="\n\n")
    if options.json is not None:
        results = {"header": circumstances, "workloads": [as_json(outcome) for outcome in outcomes]}
        options.json.write_text(json.dumps(results, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "The kernel machines: seconds at equal certified gap, and how far the goals are."
    parser = argparse.ArgumentParser(prog="kernels.py", description=description)
    add_options(parser)
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a workload's name, or a pattern")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed fits of each (3)")
    parser.add_argument("--quick", action="store_true", help="five cheap workloads, one gap")
    return parser


def _jobs(options: argparse.Namespace) -> list[tuple[Workload, Plan]]:
    """The workloads of the table that can be run, each with its gaps."""
    plan = Plan((GAP,), options.repeats, options.threads, options.timeout, say, ONCE_ABOVE)
    jobs = []
    for goal in GOALS:
        for name in goal.workloads:
            workload = BY_NAME[name]
            if not matches(name, options.only) or (workload.real and options.data is None):
                continue
            if options.quick and name not in QUICK:
                continue
            gaps = (GAP, TIGHT_GAP) if goal.tight and not options.quick else (GAP,)
            jobs.append((workload, replace(plan, targets=gaps)))
    return jobs


@dataclass(frozen=True)
class Comparison:
    """Seconds of the best of some peers over ours at one gap; a bound if that peer did not finish."""

    ours: float | None
    peer: float | None
    is_bound: bool = False

    @property
    def ratio(self) -> float | None:
        return self.peer / self.ours if self.ours and self.peer else None

    def reaches(self, goal: float) -> bool | None:
        """Whether a goal is met; ``None`` if a bound does not tell."""
        if self.ours is None:
            return False
        if self.ratio is None:
            return True  # they never reach this gap
        return True if self.ratio >= goal else (None if self.is_bound else False)

    def __str__(self) -> str:
        if self.ratio is None:
            return "lost" if self.ours is None else "only us"
        return f"{'>' if self.is_bound else ''}{self.ratio:.3g}x"


def compare(entries: Sequence[Entry], solvers: Sequence[str], gap: float) -> Comparison:
    """Ours against the best of some peers."""
    ours = report.fastest((e for e in entries if e.is_ours), gap)
    peers = [e for e in entries if e.solver in solvers]
    best = report.fastest(peers, gap)
    own = None if ours is None else ours.median(gap)
    if best is not None:
        return Comparison(own, best.median(gap))
    bounds = [bound for e in peers if (bound := e.at_least(gap)) is not None]
    return Comparison(own, min(bounds), is_bound=True) if bounds else Comparison(own, None)


def verdict(comparison: Comparison, goal: float, stretch: float = math.inf) -> str:
    """The goal, and whether it is met."""
    wanted = f"{goal:g}x" + (f" ({stretch:g}x)" if math.isfinite(stretch) else "")
    if math.isfinite(stretch) and comparison.reaches(stretch):
        return f"{wanted} stretch"
    return f"{wanted} " + {True: "met", False: "missed", None: "open"}[comparison.reaches(goal)]


def table(outcomes: Sequence[Outcome]) -> str:
    """The rows of the issue, each followed by its workloads."""
    by_name = {outcome.workload.name: outcome for outcome in outcomes}
    lines = [["workload", "n x d", "gap", "maxmargin", *COLUMNS, "/ sklearnex", "goal", "/ LIBSVM", "goal"]]
    titles: list[tuple[int, str]] = []
    for goal in GOALS:
        members = [by_name[name] for name in goal.workloads if name in by_name]
        if members:
            titles.append((len(lines), goal.title))
        for outcome in members:
            lines.extend(_lines(outcome, goal))
    text = report.aligned(lines).splitlines()
    for at, title in reversed(titles):
        text.insert(at, f"\n{title}")
    return "\n".join(text)


def _lines(outcome: Outcome, goal: Goal) -> list[list[str]]:
    lines = []
    for gap in (GAP, TIGHT_GAP) if any(TIGHT_GAP in e.chosen for e in outcome.entries) else (GAP,):
        cells = [report.cell([e for e in outcome.entries if e.is_ours], gap)[0]]
        for solver, setting in COLUMNS.values():
            cells.append(
                report.cell([e for e in outcome.entries if (e.solver, e.setting) == (solver, setting)], gap)[0]
            )
        intelex, libsvm = (compare(outcome.entries, solvers, gap) for solvers in (INTELEX, LIBSVM))
        goals = (verdict(intelex, goal.intelex, goal.stretch), verdict(libsvm, goal.libsvm)) if gap == GAP else ("", "")
        size = "x".join(map(str, outcome.shape))
        lines.append([outcome.workload.name, size, f"{gap:.0e}", *cells, str(intelex), goals[0], str(libsvm), goals[1]])
    return lines


def notes(outcomes: Sequence[Outcome]) -> str:
    """Support vectors, tolerances, compilation and errors."""
    lines = ["support vectors; the tolerance that reached the gap, and its CPU seconds, less noisy than the clock:"]
    for outcome in outcomes:
        parts = [
            f"{entry.solver} {entry.setting}".strip()
            + f" {entry.n_support}"
            + (f" ({_details(entry)})" if entry.cpu_seconds.get(GAP) else "")
            for entry in outcome.entries
        ]
        lines.append(f"  {outcome.workload.name}: {', '.join(parts)}")
    return "\n".join(lines) + "\n" + report.notes(outcomes)


def _details(entry: Entry) -> str:
    cpu = f"{report.seconds(statistics.median(entry.cpu_seconds[GAP]))} s"
    return f"tol {entry.chosen[GAP]:.2g}, {cpu}" if entry.gap_follows_tol else cpu


def summary(outcomes: Sequence[Outcome]) -> str:
    """Goals met, wins and losses, and the geometric means of the ratios."""
    by_name = {outcome.workload.name: outcome for outcome in outcomes}
    lines = []
    for label, solvers, wanted in (
        ("scikit-learn-intelex", INTELEX, lambda goal: goal.intelex),
        ("scikit-learn and LIBSVM", LIBSVM, lambda goal: goal.libsvm),
    ):
        pairs = [(goal, by_name[name]) for goal in GOALS for name in goal.workloads if name in by_name]
        duels = [(compare(outcome.entries, solvers, GAP), wanted(goal)) for goal, outcome in pairs]
        met = sum(duel.reaches(goal) is True for duel, goal in duels)
        wins = sum(duel.reaches(1.0) is True for duel, _ in duels)
        losses = sum(duel.reaches(1.0) is False for duel, _ in duels)
        ratios = [math.log(duel.ratio) for duel, _ in duels if duel.ratio]
        mean = f"{math.exp(sum(ratios) / len(ratios)):.2f}x" if ratios else "-"
        lines.append(
            f"against {label}: {met} of {len(duels)} goals met, {wins} wins, {losses} losses, "
            f"geometric mean {mean} (bounds as they are)"
        )
    return "\n".join(lines)
