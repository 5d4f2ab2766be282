"""How much slower the solver that "auto" stands for is than the best one. The command line of ``regret.py``."""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmark_utils import data, report
from benchmark_utils.robustness import BINARY, DENSE_ABOVE, LOSSES, compile_for, standardised
from benchmark_utils.session import add_markdown, header, keep, matches, say, show_header
from benchmark_utils.worker import fix_threads

CANDIDATES = ("newton", "interior_point", "dual_coordinate", "smoothed")
GAPS = (1e-3, 1e-6)
REPEATED_BELOW = 1.0  # seconds: short fits are run three times, and the fastest counts
LEAST_LIMIT, HOPELESS = 2.0, 20.0  # seconds that every fit may take, and times the fastest solver so far
LEGEND = f"""\
seconds to the gap; inf = not within {HOPELESS:g} times the seconds of a faster solver, or not at all
regret: seconds of "auto" over those of the fastest"""


@dataclass(frozen=True)
class Race:
    """Seconds of every solver on one problem; infinite where the gap was not reached in time."""

    data: str
    form: str
    n: int
    d: int
    density: float
    loss: str
    gap: float
    seconds: dict[str, float] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)  # the solver that each name stood for

    @property
    def best(self) -> str:
        """The fastest candidate."""
        return min(CANDIDATES, key=lambda name: self.seconds[name])

    @property
    def regret(self) -> float:
        """Seconds of "auto" over those of the fastest candidate."""
        return self.seconds["auto"] / self.seconds[self.best]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print."""
    parser = argparse.ArgumentParser(
        prog="regret.py", description='Seconds of solver="auto" against those of every solver, at equal certified gap.'
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="real data, DIR/NAME/NAME.train.libsvm.xz"
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a data set's name, or a pattern")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of every solver (2)")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds for one fit (10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number to a file")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    fix_threads(options.threads)
    circumstances = header(options, ["maxmargin"], [])
    show_header(circumstances)
    races = list(_races(options))
    say("")
    tables = (summary(races), table(races))
    print(*map(report.aligned, tables), LEGEND, sep="\n\n")
    results = {"header": circumstances, "races": [asdict(race) for race in races]}
    keep(options, results, *map(report.markdown, tables), LEGEND)
    return 0


def _races(options: argparse.Namespace) -> Iterator[Race]:
    compile_for(CANDIDATES)
    for name in BINARY:
        if not matches(name, options.only):
            continue
        X, y = data.read_libsvm(name)(options.data)
        density = X.nnz / (X.shape[0] * X.shape[1])
        if density > DENSE_ABOVE:
            X = X.toarray()
        for form, Z in (("raw", X), ("standardised", standardised(X))):
            for loss in LOSSES:
                for gap in GAPS:
                    say(f"{name} {form} {loss} {gap:g}")
                    race = Race(name, form, *X.shape, density, loss, gap)
                    for solver in ("auto", *CANDIDATES):
                        limit = max(LEAST_LIMIT, HOPELESS * min(race.seconds.values(), default=math.inf))
                        limit = min(limit, options.timeout)
                        race.seconds[solver], race.used[solver] = _seconds(Z, y, loss, gap, solver, limit)
                    yield race


def _seconds(X: Any, y: Any, loss: str, gap: float, solver: str, limit: float) -> tuple[float, str]:
    """Of the fastest of some fits, and the solver that was used."""
    from maxmargin import LinearSVC

    best, used = math.inf, solver
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LinearSVC(loss=loss, tol=gap, max_time=limit, solver=solver)
            began = time.perf_counter()
            try:
                model.fit(X, y)
            except ValueError:  # a solver that does not do so many features
                return math.inf, used
            taken = time.perf_counter() - began
        used = model.solution_.solver
        if model.duality_gap_ <= gap:
            best = min(best, taken)
        if taken > REPEATED_BELOW:
            break
    return best, used


def table(races: Sequence[Race]) -> list[list[str]]:
    """A head, and a line for every problem."""
    head = ["data", "form", "n x d", "density", "loss", "gap", *CANDIDATES, "auto", "chosen", "regret"]
    lines = [
        [
            race.data, race.form, f"{race.n} x {race.d}", f"{race.density:.2g}", race.loss, f"{race.gap:g}",
            *(report.seconds(race.seconds[name]) for name in (*CANDIDATES, "auto")),
            race.used["auto"], f"{race.regret:.2f}",
        ]
        for race in races
    ]  # fmt: skip
    return [head, *lines]


def summary(races: Sequence[Race]) -> list[list[str]]:
    """Regret of "auto", and of always taking the same solver."""
    lines = [["always", "reached", "geometric mean of the regret", "worst"]]
    for name in ("auto", *CANDIDATES):
        reached = [race for race in races if math.isfinite(race.seconds[name])]
        regrets = [race.seconds[name] / race.seconds[race.best] for race in reached]
        if regrets:
            mean = math.exp(sum(map(math.log, regrets)) / len(regrets))
            lines.append([name, f"{len(reached)} of {len(races)}", f"{mean:.2f}", f"{max(regrets):.1f}"])
    return lines
