"""How time and memory grow with the samples, with C and with the threads. The command line of ``scaling.py``."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils import data
from benchmark_utils.judge import judge_of
from benchmark_utils.measure import OURS, support_size
from benchmark_utils.report import aligned, seconds
from benchmark_utils.session import add_options, header, quiet_machine, say, show_header
from benchmark_utils.worker import Job, Worker, fix_threads
from benchmark_utils.workloads import Task

GAP = 1e-3
PEER, PEER_SETTING, PEER_TOL = "sklearnex_svc", {"dtype": "float32"}, 1e-3
SIZES = (5_000, 10_000, 20_000, 40_000, 100_000)
WEIGHTS = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5)  # values of C
SAMPLES, FEATURES, GAMMA = 10_000, 50, 0.02
MEMORY_GOAL = 2.5e9
LEGEND = """\
order: p where the seconds grow like n^p (or C^p) since the line before
rows / nSV: kernel evaluations over the n x nSV that a certificate needs
floor: seconds for n x nSV evaluations with a float32 BLAS product and exp, as measured here; x floor: seconds over it
BLAS: share of the seconds that the kernel evaluations would take in such a product
MB: peak of the process, with Python, the libraries and the data"""


@dataclass(frozen=True)
class Fit:
    """One fit, and what it took."""

    size: float  # n, C or threads
    n: int
    solver: str
    seconds: float = math.inf
    cpu_seconds: float = 0.0
    gap: float = math.inf
    n_support: int = 0
    memory: float = 0.0
    evaluations: float = 0.0
    product: float = 0.0  # seconds of BLAS per kernel evaluation
    map: float = 0.0  # seconds of exp per kernel evaluation
    failure: str = ""

    @property
    def floor(self) -> float:
        """Seconds that the kernel values of a certificate take at least."""
        return self.n * self.n_support * (self.product + self.map)

    def row(self, before: Fit | None) -> list[str]:
        """A line of the table."""
        if self.failure:
            return [f"{self.size:g}", self.solver, f"{self.failure} ({self.seconds:.0f} s)", *[""] * 9]
        order = ""
        if before is not None and not before.failure and before.size < self.size:
            order = f"{math.log(self.seconds / before.seconds) / math.log(self.size / before.size):.2f}"
        counted = self.evaluations > 0.0
        return [
            f"{self.size:g}",
            self.solver,
            seconds(self.seconds),
            seconds(self.cpu_seconds),
            order,
            f"{self.gap:.0e}",
            str(self.n_support),
            f"{self.evaluations / (self.n * self.n_support):.2f}" if counted else "",
            seconds(self.floor),
            f"{self.seconds / self.floor:.1f}",
            f"{100 * self.evaluations * self.product / self.seconds:.0f} %" if counted else "",
            f"{self.memory / 1e6:.0f}",
        ]


COLUMNS = ["solver", "seconds", "CPU s", "order", "gap", "nSV", "rows / nSV", "floor", "x floor", "BLAS", "MB"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    circumstances = header(options, [OURS, *([PEER] if options.peer else [])], [])
    show_header(circumstances)
    results: dict[str, list[Fit]] = {}
    with quiet_machine(options.threads):
        for name, study in STUDIES.items():
            if options.only not in (None, name):
                continue
            results[name] = []
            before: dict[str, Fit] = {}
            print(f"\ngrowth with {name}: RBF, d={FEATURES}", flush=True)
            lines = []
            for fit in study(options):
                results[name].append(fit)
                lines.append(fit.row(before.get(fit.solver)))
                before[fit.solver] = fit
                say("  ".join(lines[-1]))
            print(aligned([[name, *COLUMNS], *lines]), flush=True)
    print("\n" + LEGEND, *notes(results), sep="\n")
    if options.json is not None:
        numbers = {name: [asdict(fit) for fit in fits] for name, fits in results.items()}
        options.json.write_text(json.dumps({"header": circumstances, **numbers}, indent=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    description = "How time and memory grow with the samples, with C and with the threads."
    parser = argparse.ArgumentParser(prog="scaling.py", description=description)
    add_options(parser, timeout=300.0)
    parser.add_argument("--only", choices=list(STUDIES), help="one of the three studies")
    parser.add_argument(
        "--largest", type=int, default=SIZES[-1], metavar="N", help="largest number of samples (100000)"
    )
    parser.add_argument(
        "--peer", action="store_true", help="scikit-learn-intelex in float32 as well, at its default tol"
    )
    return parser


def growth_with_samples(options: argparse.Namespace) -> Iterator[Fit]:
    """C=1, n from 5k to 100k."""
    for n in SIZES:
        if n <= options.largest:
            yield from _fits(n, n, 1.0, options)


def growth_with_C(options: argparse.Namespace) -> Iterator[Fit]:
    """n=10k, C from 1 to 1e5."""
    for C in WEIGHTS:
        yield from _fits(C, min(SAMPLES, options.largest), C, options)


def growth_with_threads(options: argparse.Namespace) -> Iterator[Fit]:
    """n=10k, C=1 and 100, one thread and all."""
    for C in (1.0, 100.0):
        for threads in sorted({1, options.threads}):
            fix_threads(threads)
            yield from _fits(threads, min(SAMPLES, options.largest), C, options, threads=threads)
    fix_threads(options.threads)


STUDIES: dict[str, Callable[[argparse.Namespace], Iterator[Fit]]] = {
    "n": growth_with_samples,
    "C": growth_with_C,
    "threads": growth_with_threads,
}


def _fits(size: float, n: int, C: float, options: argparse.Namespace, threads: int | None = None) -> Iterator[Fit]:
    """Ours, and the peer if it is asked for."""
    X, y = data.curved_classes(n, FEATURES)
    task = Task("kernel", C=C, gamma=GAMMA)
    product, mapping = evaluation_seconds(X, options.threads)
    judge = judge_of(X, y, task)
    with tempfile.TemporaryDirectory() as scratch:
        data.save(Path(scratch), X, y)
        for stem, parameters, tol in ((OURS, {}, GAP), (PEER, PEER_SETTING, PEER_TOL))[: 1 + options.peer]:
            worker = Worker(Job(stem, parameters, Path(scratch), task, threads or options.threads))
            try:
                trial = worker.fit(tol, options.timeout)
            finally:
                worker.stop()
            common: dict[str, Any] = {"size": size, "n": n, "solver": OURS if stem == OURS else "sklearnex f32"}
            if trial.answer is None:
                yield Fit(**common, seconds=trial.seconds, failure=trial.failure)
                continue
            yield Fit(
                **common,
                seconds=trial.seconds,
                cpu_seconds=trial.cpu_seconds,
                gap=judge.relative_gap(trial.answer),
                n_support=support_size(trial.answer),
                memory=trial.memory,
                evaluations=(trial.answer.info or {}).get("kernel_evaluations", 0.0),
                product=product,
                map=mapping,
            )


def evaluation_seconds(X: Any, threads: int, rows: int = 512) -> tuple[float, float]:
    """Seconds per kernel evaluation of a float32 product, and of exp if all threads shared it."""
    right = X[:20_000].astype(np.float32)
    left = right[:rows]
    out = np.empty((rows, right.shape[0]), dtype=np.float32)

    def best(step: Callable[[], Any]) -> float:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        return min(times) / out.size

    product = best(lambda: np.matmul(left, right.T, out=out))
    np.multiply(out, -GAMMA, out=out)
    return product, best(lambda: np.exp(out[:, : out.shape[1] // 8])) * 8 / threads


def notes(results: dict[str, list[Fit]]) -> Iterator[str]:
    """Memory against its goal, and the gain from threads."""
    for fit in results.get("n", []):
        if fit.n == SIZES[-1] and fit.solver == OURS and not fit.failure:
            verdict = "under" if fit.memory < MEMORY_GOAL else "above"
            yield f"memory at n=100k: {fit.memory / 1e9:.2f} GB, {verdict} the goal of {MEMORY_GOAL / 1e9:g} GB"
    fits = [fit for fit in results.get("threads", []) if fit.solver == OURS and not fit.failure]
    for one, all_of_them in zip(fits[::2], fits[1::2], strict=False):
        yield f"{all_of_them.size:g} threads: {one.seconds / all_of_them.seconds:.2f}x as fast as one"
