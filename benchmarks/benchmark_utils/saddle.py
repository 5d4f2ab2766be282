"""Saddle-SVC against its goals: passes, growth, other methods, peers, ablation. The command line of ``saddle.py``."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import data
from benchmark_utils.peer import version_of
from benchmark_utils.report import aligned, seconds
from benchmark_utils.session import add_options, header, matches, say, show_header
from benchmark_utils.worker import Job, Trial, Worker, fix_threads
from benchmark_utils.workloads import Task

GAP = 1e-3  # between the squares of the distance and of the width of the street, relative
NU, FLIPS, MARGIN, OFFSET = 0.3, 0.05, 0.077, 0.3
BLOCK_ROWS = 2**16  # generated at a time
PEER, PEERS_LADDER = "sklearnex_svc", (1e1, 1e0, 1e-1, 1e-2, 1e-3, 1e-4)
LEGEND = """\
passes: readings of all rows by the solver until the certified relative gap; rows that are left out count less
CPU: seconds of the processor, all threads; a run that was stopped at --timeout gives a lower bound, ">"
"""


@dataclass(frozen=True)
class Run:
    """One solver on one problem."""

    passes: float
    iterations: int
    seconds: float
    cpu: float
    gap: float

    @property
    def reached(self) -> bool:
        """Whether it came to the gap."""
        return self.gap <= GAP

    def cells(self) -> list[str]:
        """Passes, iterations, CPU seconds and gap; lower bounds if it did not come so far."""
        more = "" if self.reached else ">"
        return [f"{more}{self.passes:.0f}", str(self.iterations), f"{more}{seconds(self.cpu)}", f"{self.gap:.1e}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="saddle.py", description=__doc__)
    add_options(parser)
    parser.add_argument("--quick", action="store_true", help="small problems: does everything run?")
    parser.add_argument("--only", default="", metavar="PATTERN", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--largest", type=float, default=1.0, metavar="GB", help="leave out larger matrices (1)")
    options = parser.parse_args(arguments)
    if options.quick:
        options.timeout, options.largest = min(options.timeout, 2.0), 0.01
    fix_threads(options.threads)
    warnings.simplefilter("ignore")  # what does not converge says so in the table
    circumstances = header(options, ["maxmargin", *([PEER] if version_of("scikit-learn-intelex") else [])], [])
    show_header(circumstances)
    results: dict[str, Any] = {"header": circumstances}
    for name, section in SECTIONS.items():
        if matches(name, options.only):
            title, lines = section(options)
            say("")
            print(f"{title}\n{aligned(lines)}\n", flush=True)
            results[name] = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    print(LEGEND)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


# ---- problems --------------------------------------------------------------------------------------------------------


def planted(n: int, d: int, flips: float = 0.0, seed: int = 0, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Gaussian rows of length at most 1 with a street of 0.077 between the classes, beside the origin; wrong labels."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(d)
    normal /= np.linalg.norm(normal)
    X, y, longest = np.empty((n, d), dtype), np.empty(n), 0.0
    for start in range(0, n, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, n))
        rows = rng.standard_normal((block.stop - start, d)) / math.sqrt(d)
        y[block] = np.where(rows @ normal > 0.0, 1.0, -1.0)
        rows += np.outer(0.5 * MARGIN * y[block], normal)
        longest = max(longest, float(np.linalg.norm(rows, axis=1).max()))
        X[block] = rows
    X /= longest
    X += (rng.standard_normal(d) * OFFSET / math.sqrt(d)).astype(dtype)
    return X, np.where(rng.random(n) < flips, -y, y)


def pose(X: Any, y: Any, nu: float | None, threads: int) -> Any:
    """The hard margin, or nu-SVM with the caps ``1 / (nu n)`` of each class's own number of rows."""
    from maxmargin import HullDistance
    from maxmargin.operators import Rows
    from maxmargin.threads import workers_for

    share = [np.mean(y < 0.0), np.mean(y > 0.0)]
    cap = np.ones(y.size) if nu is None else 1.0 / (nu * y.size * np.where(y > 0.0, share[1], share[0]))
    return HullDistance(Rows(X, workers_for(threads)), y, cap)


def synthetic(kind: str, n: int, d: int, options: argparse.Namespace, dtype: Any = np.float64) -> Any:
    """A problem of the kind "hard margin" or "nu-SVM"."""
    hard = kind == "hard margin"
    say(f"{kind}: {n} x {d}")
    return pose(*planted(n, d, 0.0 if hard else FLIPS, dtype=dtype), None if hard else NU, options.threads)


def run(problem: Any, solver: Any, timeout: float) -> Run:
    """Solve; what it took comes from the history, the gap from the certificate."""
    from maxmargin import minimize

    minimize(_small(problem), solver, tol=GAP, max_iter=50, max_time=timeout)  # compiles
    cpu = time.process_time()
    solution = minimize(problem, solver, tol=GAP, max_time=timeout)
    return Run(
        solution.history[-1].counters["passes"],
        solution.iterations,
        solution.seconds,
        time.process_time() - cpu,
        solution.certificate.relative_gap,
    )


def _small(problem: Any) -> Any:
    """A few rows of the same type."""
    X, y = data.few_rows(problem.operator.matrix, problem.y)
    return pose(X, y, None if problem.hard else 0.5, 1)


# ---- the tables ------------------------------------------------------------------------------------------------------

Section = tuple[str, list[list[str]]]


def passes(options: argparse.Namespace) -> Section:
    """The goals in passes, on generated rows and on real ones."""
    from maxmargin.solvers import Saddle

    n, d = (2_000, 20) if options.quick else (100_000, 100)
    lines = [["problem", "passes", "iterations", "CPU", "gap", "goal", "met"]]
    goals = {"nu-SVM": 30, "hard margin": 100}
    for kind, goal in goals.items():
        found = run(synthetic(kind, n, d, options), Saddle(), options.timeout)
        met = found.reached and found.passes < goal
        lines.append([f"{kind}, {n} x {d}", *found.cells(), str(goal), "yes" if met else "no"])
    for name, nu in REAL.items() if options.data else ():
        say(name)
        problem = pose(*data.read_libsvm(name, scale=None)(options.data), nu, options.threads)
        found = run(problem, Saddle(), options.timeout)
        kind = "hard margin" if nu is None else f"nu-SVM, {nu:g}"
        lines.append([f"{kind}, {name}", *found.cells(), "", ""])
    return f"Saddle-SVC to a certified gap of {GAP:g}", lines


REAL: dict[str, float | None] = {"mushrooms": None, "a9a": 0.5, "w8a": 0.7, "rcv1_ccat": 0.2}


def growth(options: argparse.Namespace) -> Section:
    """Time against the number of rows, in float32."""
    from maxmargin.solvers import Saddle

    sizes = (1_000, 4_000) if options.quick else (10_000, 100_000, 1_000_000)
    lines = [["problem", "d", *(f"n={n}: passes, CPU, ns/entry" for n in sizes), "exponent"]]
    for kind in ("nu-SVM", "hard margin"):
        for d in (10,) if options.quick else (10, 100, 1_000):
            cells, times = [], []
            for n in sizes:
                if 4e-9 * n * d > options.largest:
                    cells.append("left out")
                    continue
                found = run(synthetic(kind, n, d, options, np.float32), Saddle(), options.timeout)
                times.append((n, found.cpu))
                passed, _, cpu, _ = found.cells()
                cells.append(f"{passed}, {cpu}, {1e9 * found.cpu / (n * d):.0f}")
            logs = np.log(times)
            exponent = f"{np.polyfit(logs[:, 0], logs[:, 1], 1)[0]:.2f}" if len(times) > 1 else ""
            lines.append([kind, str(d), *cells, exponent])
    return f"Growth with n, to {GAP:g}, float32 (exponent 1: linear in n)", lines


def others(options: argparse.Namespace) -> Section:
    """Gilbert's and Frank-Wolfe's methods, and the rule of the paper."""
    from maxmargin.solvers import FrankWolfe, Gilbert, Saddle

    lines = [["problem", "method", "passes", "iterations", "CPU", "gap", "x passes", "x CPU", "goal"]]
    n, d = (2_000, 20) if options.quick else (100_000, 100)
    for kind in ("hard margin", "nu-SVM"):
        problem = synthetic(kind, n, d, options)
        ours = run(problem, Saddle(), options.timeout)
        lines.append([f"{kind}, {n} x {d}", "saddle", *ours.cells(), "1", "1", ""])
        gamma = paper_gamma(problem)
        for name, solver, goal in (
            ("gilbert", Gilbert(), "20 x passes"),
            ("frank_wolfe", FrankWolfe(), ""),
            ("the paper's rule, block_size=1", Saddle(block_size=1, continuation=False, gamma=gamma), "10 x CPU"),
            ("block_size=1 with continuation", Saddle(block_size=1), "10 x CPU"),
        ):
            say(f"{kind}: {name}")
            found = run(problem, solver, options.timeout)
            more = "" if found.reached else ">"
            ratios = [f"{more}{found.passes / ours.passes:.1f}", f"{more}{found.cpu / ours.cpu:.1f}"]
            lines.append([kind, name, *found.cells(), *ratios, goal])
    return f"Other methods on the same problem, to {GAP:g}", lines


def paper_gamma(problem: Any) -> float:
    """``eps OPT / (2 log n)``: the optimum, which a user does not know, comes from a solution."""
    from maxmargin import minimize
    from maxmargin.solvers import Saddle

    best = -minimize(problem, Saddle(), tol=0.1 * GAP, max_time=60.0).certificate.dual
    return GAP * best / (2.0 * math.log(problem.y.size))


def ablation(options: argparse.Namespace) -> Section:
    """Every option of the practical form switched off, one at a time."""
    from maxmargin.solvers import Saddle

    lines = [["", "hard: passes", "iterations", "CPU", "gap", "nu: passes", "iterations", "CPU", "gap"]]
    n = 2_000 if options.quick else 20_000
    problems = [synthetic("hard margin", n, 50, options), synthetic("nu-SVM", n, 100, options)]
    gammas = [paper_gamma(problem) for problem in problems]
    for name, changes in ABLATION.items():
        say(name)
        cells: list[str] = []
        for problem, gamma in zip(problems, gammas, strict=True):
            solver = replace(Saddle(), **changes)
            if not changes.get("continuation", True):
                solver = replace(solver, gamma=gamma)
            cells += run(problem, solver, options.timeout).cells()
        lines.append([name, *cells])
    return f"What each part is worth: {n} x 50 (hard margin), {n} x 100 (nu-SVM), to {GAP:g}", lines


ABLATION: dict[str, dict[str, Any]] = {
    "saddle": {},
    "without shrinking": {"shrinking": False},
    "without adaptive steps": {"adaptive": False},
    "without continuation (gamma from the known optimum)": {"continuation": False, "gamma": 1.0},
    "without incremental products": {"incremental": False},
    "without logarithms": {"log_domain": False},
    "projection by the paper's loop": {"selection": False},
    "rotated rows": {"hadamard": True},
    "blocks of 10 coordinates": {"block_size": 10},
    "one coordinate at a time": {"block_size": 1},
    "the paper's rule": {"block_size": 1, "continuation": False, "gamma": 1.0},
}


def peers(options: argparse.Namespace) -> Section:
    """The estimator against scikit-learn-intelex's, at the loosest of its tolerances that reaches the gap."""
    lines = [["NuSVC(kernel='linear')", "seconds", "CPU", "gap", "tol", "x seconds", "x CPU"]]
    if not version_of("scikit-learn-intelex"):
        return "NuSVC against scikit-learn-intelex, which is not installed", lines
    for n in (1_000,) if options.quick else (5_000, 20_000, 100_000):
        d = 20 if options.quick else 100
        X, y = planted(n, d, FLIPS)
        before = _fit_ours(X, y, options.threads)
        found, tols = {}, {}
        with tempfile.TemporaryDirectory() as scratch:
            data.save(Path(scratch), X, y)
            for dtype in ("float32", "float64"):
                job = Job(PEER, {"dtype": dtype}, Path(scratch), TASK, options.threads)
                say(f"sklearnex {dtype}: {n} x {d}")
                found[dtype], tols[dtype] = _fit_peer(job, X, y, options.timeout)
        ours = [before, _fit_ours(X, y, options.threads)]  # around the peer: loads change
        mine = [min(times) for times in zip(*((o.seconds, o.cpu) for o in ours), strict=True)]
        first = ours[0]
        lines.append([f"{n} x {d}: saddle", *map(seconds, mine), f"{first.gap:.1e}", f"{GAP:g}", "1", "1"])
        for dtype, theirs in found.items():
            more = "" if theirs.reached else ">"
            took = [theirs.seconds, theirs.cpu]
            times = [f"{more}{seconds(value)}" if value == value else "" for value in took]
            ratios = [f"{more}{a / b:.0f}" if a == a else "" for a, b in zip(took, mine, strict=True)]
            gap = f"{theirs.gap:.1e}" if math.isfinite(theirs.gap) else "stopped"
            lines.append([f"{n} x {d}: sklearnex {dtype}", *times, gap, f"{tols[dtype]:g}", *ratios])
    return f"NuSVC(nu={NU:g}, kernel='linear') from the user's arrays, to {GAP:g} (goal: 50 times)", lines


TASK = Task("nu-svc", kernel="linear", nu=NU)


def _fit_ours(X: Any, y: Any, threads: int) -> Run:
    from maxmargin import NuSVC

    model = NuSVC(nu=NU, kernel="linear", solver="saddle", tol=GAP, n_jobs=threads)
    model.fit(*data.few_rows(X, y))  # compiles
    clock, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    return Run(model.solution_.history[-1].counters["passes"], int(model.n_iter_[0]), clock, cpu, model.duality_gap_)


def _fit_peer(job: Job, X: Any, y: Any, timeout: float) -> tuple[Run, float]:
    """The first of its tolerances that leads to the gap, judged from its dual variables; or the last that ended."""
    worker = Worker(job)
    found, used = Run(0.0, 0, 0.0, 0.0, math.inf), math.nan
    try:
        for tol in PEERS_LADDER:
            trial = worker.fit(tol, timeout)
            found, used = _judged(trial, X, y), tol
            if found.reached or trial.failure:
                break
    finally:
        worker.stop()
    return found, used


def _judged(trial: Trial, X: Any, y: Any) -> Run:
    from maxmargin import HullDistance, Point
    from maxmargin.operators import Rows

    if trial.answer is None:
        return Run(0.0, 0, trial.seconds, math.nan, math.inf)  # killed, and its processor time with it
    problem = HullDistance(Rows(X), y, np.ones(y.size), 0.5 * NU * y.size)
    shares = np.abs(trial.answer.alpha)
    a = np.zeros(y.size)
    for side in problem.sides:  # LIBSVM's relatives divide by the margin at the end
        a[side] = y[side] * problem.total * shares[side] / shares[side].sum()
    a = problem.feasible(a)
    gap = problem.certify(Point(problem.operator.adjoint(a), 0.0, a)).relative_gap
    return Run(0.0, 0, trial.seconds, trial.cpu_seconds, gap)


SECTIONS: dict[str, Callable[[argparse.Namespace], Section]] = {
    "passes": passes,
    "growth": growth,
    "others": others,
    "ablation": ablation,
    "peers": peers,
}
