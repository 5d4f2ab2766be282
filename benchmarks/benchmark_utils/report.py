"""Tables of what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmark_utils.measure import OURS, Entry, Outcome

FAMILIES = {
    ("kernel", "hinge"): "RBF kernel, hinge, free intercept",
    ("nu-svc", "hinge"): "nu-SVC, RBF kernel",
    ("svr", "hinge"): "regression, RBF kernel, epsilon-insensitive loss",
    ("ovo", "hinge"): "RBF kernel, one-vs-one: the gap of the worst pair",
    ("predict", "hinge"): "prediction, RBF kernel: the largest error of a score in the place of the gap",
    ("linear", "hinge"): "linear, hinge",
    ("linear", "squared_hinge"): "linear, squared hinge",
}
LEGEND = """\
seconds: median over the repeats, below it the range; * = a repeat missed the target
- 3e-05 = the target was not reached at any tolerance, this is the best gap;  >60s 3e-05 = nor within the time limit
empty = the library does not solve this problem
ratio: seconds of the best peer / ours, above 1 we are faster; >12 = every peer was cut off or ended short of the gap"""


@dataclass(frozen=True)
class Duel:
    """Ours against the best peer at one target of one workload."""

    ours: float | None
    peer: float | None
    peer_at_least: float | None = None  # if no peer reached the target, and some were cut off

    @property
    def ratio(self) -> float | None:
        """Seconds of the best peer over ours, if both reached the target."""
        return self.peer / self.ours if self.ours and self.peer else None

    @property
    def ratio_at_least(self) -> float | None:
        """A bound on the ratio, if no peer reached the target before it was cut off."""
        return self.peer_at_least / self.ours if self.ours and self.peer_at_least else None

    @property
    def won(self) -> bool | None:
        """Whether we were faster, or the only ones; ``None`` if nobody reached the target."""
        if self.ours is None or self.peer is None:
            return None if self.ours is self.peer else self.peer is None
        return self.peer > self.ours

    def __str__(self) -> str:
        if self.ratio is not None:
            return f"{self.ratio:.2f}"
        if self.ratio_at_least is not None:
            return f">{self.ratio_at_least:.1f}"
        return {True: "only us", False: "lost", None: "nobody"}[self.won]


def tables(outcomes: Sequence[Outcome], targets: Sequence[float]) -> str:
    """One table per family."""
    parts = []
    for (family, loss), title in FAMILIES.items():
        members = [o for o in outcomes if (o.workload.task.family, o.workload.task.loss) == (family, loss)]
        if members:
            parts.append(f"{title}\n{_table(members, targets)}")
    return "\n\n".join([*parts, LEGEND])


def summary(outcomes: Sequence[Outcome], targets: Sequence[float]) -> str:
    """Wins, losses and the geometric mean of the ratios."""
    duels = [duel_of(outcome.entries, target)[0] for outcome in outcomes for target in targets]
    wins, losses = (sum(duel.won is side for duel in duels) for side in (True, False))
    ratios = [duel.ratio for duel in duels if duel.ratio is not None]
    mean = f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "-"
    undecided = len(duels) - wins - losses
    return (
        f"{wins} wins, {losses} losses, {undecided} where nobody reached the target; geometric mean ratio {mean} "
        f"over the {len(ratios)} where both did"
    )


def notes(outcomes: Sequence[Outcome]) -> str:
    """The dual bounds, compilation, and errors."""
    lines = []
    bounds = [(o.reference_gap, o.workload.name) for o in outcomes if o.reference_gap is not None]
    if bounds:
        gap, name = max(bounds)
        lines.append(
            f"answers without dual variables were judged by their primal against a dual bound of {OURS}, whose own gap "
            f"is {gap:.0e} at worst ({name})"
        )
    for family in dict.fromkeys(o.workload.task.family for o in outcomes):
        ours = [e for o in outcomes if o.workload.task.family == family for e in o.entries if e.is_ours]
        compilation = max((e.worker.compile_seconds for e in ours), default=0.0)
        lines.append(f"{OURS}, {family}: {compilation:.1f} s of compilation with an empty cache, not in the table")
    lines.extend(
        f"{o.workload.name}: {e.solver} {e.setting} failed: {e.failure}"
        for o in outcomes
        for e in o.entries
        if e.failure not in ("", "timeout")
    )
    return "\n".join(lines)


def _table(outcomes: Sequence[Outcome], targets: Sequence[float]) -> str:
    solvers = list(dict.fromkeys(e.solver for o in outcomes for e in o.entries))
    rows = [["workload", "n x d", "gap", *solvers, "ratio", "best peer"]]
    for outcome in outcomes:
        for target in targets:
            duel, best = duel_of(outcome.entries, target)
            cells = [cell([e for e in outcome.entries if e.solver == s], target) for s in solvers]
            size = "x".join(map(str, outcome.shape))
            described = "" if best is None else f"{best.solver} {best.setting} tol={best.chosen[target]:.0e}"
            rows.append([outcome.workload.name, size, f"{target:.0e}", *(c[0] for c in cells), str(duel), described])
            rows.append(["", "", "", *(c[1] for c in cells), "", ""])
    return aligned(rows)


def duel_of(entries: Sequence[Entry], target: float, peer_target: float | None = None) -> tuple[Duel, Entry | None]:
    """Ours against the best peer, and that peer, which may have a target of its own."""
    peer_target = target if peer_target is None else peer_target
    peers = [e for e in entries if not e.is_ours]
    ours, peer = fastest((e for e in entries if e.is_ours), target), fastest(peers, peer_target)
    seconds_of_ours = None if ours is None else ours.median(target)
    if peer is not None:
        return Duel(seconds_of_ours, peer.median(peer_target)), peer
    cut_off = [bound for e in peers if (bound := e.at_least(peer_target)) is not None]
    return Duel(seconds_of_ours, None, min(cut_off, default=None)), None


def fastest(entries: Iterable[Entry], target: float) -> Entry | None:
    timed = [(entry.median(target), k, entry) for k, entry in enumerate(entries) if entry.median(target) is not None]
    return min(timed)[2] if timed else None


def cell(entries: Sequence[Entry], target: float) -> tuple[str, str]:
    """The best setting of a solver: median and range, or how far it came."""
    if not entries:
        return "", ""
    best = fastest(entries, target)
    if best is not None:
        times = best.seconds[target]
        missed = "*" if best.missed(target) else ""
        return seconds(best.median(target)) + missed, f"{seconds(min(times))}-{seconds(max(times))}"
    closest = min(entries, key=lambda entry: entry.best_gap)
    late = min((entry.rungs[-1].seconds for entry in entries if entry.failure == "timeout"), default=None)
    if math.isinf(closest.best_gap):
        return ("error" if late is None else f">{late:.0f}s"), ""
    return f"- {closest.best_gap:.0e}" if late is None else f">{late:.0f}s {closest.best_gap:.0e}", ""


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:#.3g}".rstrip(".")


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table for a document; the first row is its head."""
    head, *body = ("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k in (0, len(row) - 1) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
