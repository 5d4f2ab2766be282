"""One pass of stochastic gradients against reading the data once. The command line of ``streaming.py``."""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils.report import aligned, markdown
from benchmark_utils.session import add_markdown, keep
from benchmark_utils.worker import fix_threads

FEATURES, ALPHA, ETA = 20, 1e-4, 0.01
BLOCK_ROWS = 2**18  # of the file, at a time
GOALS = {"memory": 2.0, "file": 3.0}
LEGEND = """\
read: one thread adds up all entries, or reads the file into one buffer, block by block
x read: seconds over those of reading, the median of the repeats; CPU seconds for memory, the clock for the file
loop: the compiled steps alone; minimize: with the start, the looks at the point and its certificates
partial_fit, fit: estimators from the user's arrays, checks, labels and certificate included"""

Action = Callable[[], Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="streaming.py", description="One pass of SGD and Pegasos over 2M x 20 float32."
    )
    parser.add_argument("--samples", type=int, default=2_000_000, metavar="N", help="rows in memory (2 000 000)")
    parser.add_argument(
        "--memory",
        type=float,
        default=100.0,
        metavar="MB",
        help="allowed memory; the file is four times as large (100)",
    )
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="timed runs of each, interleaved (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number to a file")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    fix_threads(1)
    warnings.simplefilter("ignore")  # one pass does not converge
    results = {"memory": _in_memory(options.samples, options.repeats)}
    with tempfile.TemporaryDirectory() as folder:
        results["file"] = _from_file(Path(folder) / "rows.npy", options.memory, options.repeats)
    print(LEGEND)
    keep(options, results, *(markdown(_lines(row, taken)) for row, taken in results.items()), LEGEND)
    return 0


def _in_memory(n: int, repeats: int) -> dict[str, list[list[float]]]:
    from sklearn.linear_model import SGDClassifier as Peer

    from maxmargin import Problem, SGDClassifier, minimize
    from maxmargin.operators import Rows
    from maxmargin.parts.losses import Hinge
    from maxmargin.parts.penalties import L2
    from maxmargin.solvers import SGD, Pegasos

    X, y = _samples(n, seed=0)
    problem = Problem(Rows(X), y.astype(np.float64), Hinge(), L2(ALPHA * n), np.ones(n))

    def sgd(order: str) -> Action:
        solver = SGD(order=order, eta0=ETA)
        state = solver.start(problem, None)
        return lambda: solver.learn(problem, state)

    def pegasos(order: str) -> Action:
        solver = Pegasos(order=order)
        state = solver.start(problem, None)

        def steps() -> None:
            end = state.iterations + n
            while state.iterations < end:
                solver.advance(problem, state, end - state.iterations)

        return steps

    actions: dict[str, Action] = {"read": _adder(X)}
    for order in ("cyclic", "permutation", "uniform"):
        actions[f"SGD loop, {order}"] = sgd(order)
        actions[f"Pegasos loop, {order}"] = pegasos(order)
    actions |= {
        "SGD minimize, cyclic": lambda: minimize(problem, SGD(order="cyclic"), tol=0.0, max_iter=1),
        "Pegasos minimize, cyclic": lambda: minimize(problem, Pegasos(order="cyclic"), tol=0.0, max_iter=n),
        "SGDClassifier.partial_fit, cyclic": lambda: SGDClassifier(shuffle=False).partial_fit(X, y, classes=[-1, 1]),
        "SGDClassifier.fit(max_iter=1), cyclic": lambda: SGDClassifier(shuffle=False, max_iter=1).fit(X, y),
        "scikit-learn partial_fit, cyclic": lambda: Peer(shuffle=False).partial_fit(X, y, classes=[-1, 1]),
        "scikit-learn partial_fit, permutation": lambda: Peer().partial_fit(X, y, classes=[-1, 1]),
    }
    print(f"in memory: {n} x {FEATURES} float32, {X.nbytes / 1e6:.0f} MB, one thread")
    return _table("memory", actions, repeats)


def _from_file(path: Path, memory: float, repeats: int) -> dict[str, list[list[float]]]:
    from sklearn.linear_model import SGDClassifier as Peer

    from maxmargin import SGDClassifier

    n = int(4e6 * memory / (4 * FEATURES))
    _write(path, n)
    y = _samples(n, seed=1, labels_only=True)[1]

    def blocks() -> Any:
        for start in range(0, n, BLOCK_ROWS):
            X = np.load(path, mmap_mode="r")  # anew: a mapping would keep its pages
            yield X[start : start + BLOCK_ROWS], y[start : start + BLOCK_ROWS]
            _drop_pages(path)

    def read() -> None:
        buffer = bytearray(BLOCK_ROWS * FEATURES * 4)
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def stream(make: Callable[[], Any]) -> Action:
        def learn() -> None:
            model = make()
            for X, targets in blocks():
                model.partial_fit(X, targets, classes=[-1, 1] if not hasattr(model, "t_") else None)

        return learn

    actions = {
        "read": read,
        "SGDClassifier.partial_fit, block by block": stream(lambda: SGDClassifier(shuffle=False)),
        "scikit-learn partial_fit, block by block": stream(lambda: Peer(shuffle=False)),
    }
    for action in actions.values():  # compile before the memory is limited
        action()
    allowed = _limit_memory(memory)
    print(
        f"\nfrom a memory-mapped file: {n} x {FEATURES} float32, {path.stat().st_size / 1e6:.0f} MB\n"
        f"enforced: {allowed}; the pages of a block are dropped from the system's cache once it was read, so that "
        f"every run reads the file from the disk (or from what caches it outside of this system)"
    )
    return _table("file", actions, repeats, before=lambda: _drop_pages(path))


def _table(row: str, actions: dict[str, Action], repeats: int, before: Action = lambda: None) -> dict[str, Any]:
    """Run all in turn, several times, and print the medians."""
    for action in actions.values():
        action()  # compiles
    taken: dict[str, list[list[float]]] = {name: [] for name in actions}
    for repeat in range(repeats):
        for name in list(actions)[:: 1 if repeat % 2 == 0 else -1]:
            before()
            clock, cpu = time.perf_counter(), time.process_time()
            actions[name]()
            taken[name].append([time.perf_counter() - clock, time.process_time() - cpu])
    print(aligned(_lines(row, taken)), flush=True)
    return taken


def _lines(row: str, taken: dict[str, list[list[float]]]) -> list[list[str]]:
    """A head, and the medians of every action."""
    kind = 1 if row == "memory" else 0
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in taken.items()}
    lines = [
        [name, *(f"{1e3 * value:.0f}" for value in values), f"{values[kind] / medians['read'][kind]:.1f}"]
        for name, values in medians.items()
    ]
    return [[row, "ms", "CPU ms", f"x read (goal {GOALS[row]:g})"], *lines]


def _samples(n: int, seed: int, labels_only: bool = False) -> tuple[Any, Any]:
    """Two overlapping classes; the labels alone do not depend on the rows."""
    rng = np.random.default_rng(seed)
    if labels_only:
        return None, np.where(rng.random(n) < 0.5, 1, -1)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    return X, np.where(X @ rng.normal(size=FEATURES) + 3.0 * rng.normal(size=n) > 0.0, 1, -1)


def _adder(X: Any) -> Action:
    """The yardstick: one compiled loop over all entries."""
    import numba

    @numba.njit(fastmath=True)
    def total(entries: Any) -> float:
        out = 0.0
        for k in range(entries.shape[0]):
            out += entries[k]
        return out

    return lambda: total(X.ravel())


def _write(path: Path, n: int) -> None:
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, FEATURES))
    rng = np.random.default_rng(1)
    for start in range(0, n, BLOCK_ROWS):
        X[start : start + BLOCK_ROWS] = rng.standard_normal(X[start : start + BLOCK_ROWS].shape, dtype=np.float32)
    X.flush()


def _drop_pages(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _limit_memory(memory: float) -> str:
    """Allow so many MB beside what the process has allocated already."""
    used = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    limit = 1024 * used + int(1e6 * memory)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return f"RLIMIT_DATA, {memory:g} MB of new memory beside what libraries and compiled code hold"
