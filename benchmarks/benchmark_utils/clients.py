"""The same fit by one process and by several, on MPI and on Dask: seconds, share of communication, memory.

Every client makes its own rows, so that no process ever holds all of them, and works with one thread.
The runs are interleaved, each in processes of its own; the fit alone is timed, after one on a few rows that compiles.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark_utils.report import aligned, seconds

SCRIPT = Path(__file__).resolve().parent.parent / "clients.py"
BLOCK_ROWS = 5_000  # of the same bits, whoever makes them
NU, FLIPS, MARGIN = 0.3, 0.05, 0.077
TOL = {"saddle": 1e-3, "newton": 1e-6}
ENGINES = ("serial", "mpi", "dask")
LEGEND = """\
speed: seconds of the serial fit over those of this one, medians; serial: one process, one thread
talk: share of the seconds that a client spends in collectives, waiting for the others included
memory: peak of a process, less what it has before it makes its rows, over the size of its rows; worst client
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print, or be one of the clients."""
    parser = argparse.ArgumentParser(prog="clients.py", description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_000_000, help="rows of all clients together (1 000 000)")
    parser.add_argument("--features", type=int, default=100, help="(100)")
    parser.add_argument("--clients", type=int, default=2, help="(2)")
    parser.add_argument("--repeats", type=int, default=3, help="(3)")
    parser.add_argument("--solver", default="saddle", choices=tuple(TOL), help="nu-SVM, or squared hinge (saddle)")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--client", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.client:
        return _client(options)
    runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in options.engines}
    for _ in range(options.repeats):
        for engine in options.engines:
            runs[engine].append(_run(engine, options))
    size = f"{options.samples} x {options.features}"
    print(f"{options.solver}, {size}, {options.clients} clients, gap {TOL[options.solver]}")
    base = statistics.median(run["seconds"] for run in runs[options.engines[0]])
    lines = [["engine", "seconds", "speed", "iterations", "gap", "rounds", "scalars", "talk", "memory"]]
    for engine, of_engine in runs.items():
        run = sorted(of_engine, key=lambda run: run["seconds"])[len(of_engine) // 2]
        lines.append([
            engine, seconds(run["seconds"]), f"{base / run['seconds']:.2f}", f"{run['iterations']:.0f}",
            f"{run['gap']:.1e}", f"{run['rounds']:.0f}", f"{run['scalars']:.0f}", f"{run['talk']:.1%}",
            f"{run['memory']:.2f}",
        ])  # fmt: skip
    print(f"{aligned(lines)}\n\n{LEGEND}")
    return 0


def _run(engine: str, options: argparse.Namespace) -> dict[str, float]:
    """One fit in new processes."""
    command = [sys.executable, str(SCRIPT), "--client", engine]
    for name in ("samples", "features", "clients", "solver"):
        command += [f"--{name}", str(getattr(options, name))]
    if engine == "mpi":
        from maxmargin.communicators.mpi import mpirun

        command = [mpirun(), "-n", str(options.clients), "--oversubscribe", *command]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env=os.environ | threads | root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _client(options: argparse.Namespace) -> int:
    """One fit; the first client prints what came out."""
    from maxmargin.communicators import ALONE, MpiCommunicator, run_on_dask

    parts = [(rank, options.clients, vars(options)) for rank in range(options.clients)]
    if options.client == "serial":
        results = [fit(ALONE, (0, 1, vars(options)))]
    elif options.client == "mpi":
        communicator = MpiCommunicator(timeout=600.0)
        results = [fit(communicator, parts[communicator.rank])]
        worst = communicator.allgather(np.array([results[0]["memory"]])).max()
        results[0]["memory"] = float(worst)
        if communicator.rank:
            return 0
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(options.clients, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            results = run_on_dask(client, fit, parts, timeout=600.0)
            results[0]["memory"] = max(result["memory"] for result in results)
    print(json.dumps(results[0]), flush=True)
    return 0


def fit(communicator: Any, part: tuple[int, int, dict[str, Any]]) -> dict[str, float]:
    """What one client does."""
    from maxmargin import minimize
    from maxmargin.communicators import Counting
    from maxmargin.solvers import make_solver

    rank, size, options = part
    solver, tol = make_solver(options["solver"]), TOL[options["solver"]]
    minimize(
        pose(*rows_of(rank, size, 2_000 * size, options["features"]), options["solver"], communicator), solver, tol=tol
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    X, y = rows_of(rank, size, options["samples"], options["features"])
    counting = Counting(communicator)
    problem = pose(X, y, options["solver"], counting)
    solution = minimize(problem, solver, tol=tol)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds": solution.seconds,
        "iterations": float(solution.iterations),
        "gap": solution.certificate.relative_gap,
        "rounds": float(counting.traffic.rounds),
        "scalars": float(counting.traffic.scalars),
        "talk": counting.traffic.seconds / solution.seconds if size > 1 else 0.0,
        "memory": (peak - before) / X.nbytes,
    }


def rows_of(rank: int, size: int, n: int, d: int) -> tuple[Any, Any]:
    """The rows of one client: Gaussian, a street between the classes, some wrong labels."""
    first, last = rank * n // size, (rank + 1) * n // size
    normal = np.random.default_rng(0).standard_normal(d) / math.sqrt(d)
    X, y = np.empty((last - first, d), np.float32), np.empty(last - first)
    for start in range(first - first % BLOCK_ROWS, last, BLOCK_ROWS):
        rng = np.random.default_rng([1, start])
        block = rng.standard_normal((BLOCK_ROWS, d), np.float32) / np.float32(math.sqrt(d))
        signs = np.where(block @ normal > 0.0, 1.0, -1.0)
        block += np.outer(0.5 * MARGIN * signs, normal).astype(np.float32)
        labels = np.where(rng.random(BLOCK_ROWS) < FLIPS, -signs, signs)
        here = slice(max(first, start) - start, min(last, start + BLOCK_ROWS) - start)
        to = slice(max(first, start) - first, min(last, start + BLOCK_ROWS) - first)
        X[to], y[to] = block[here], labels[here]
    return X, y


def pose(X: Any, y: Any, solver: str, communicator: Any) -> Any:
    """nu-SVM for hulls, else the C-SVM with the squared hinge loss, over all clients."""
    from maxmargin import HullDistance, Problem
    from maxmargin.operators import Rows, Sharded
    from maxmargin.parts.losses import SquaredHinge
    from maxmargin.parts.penalties import L2
    from maxmargin.threads import Workers

    rows = Sharded(Rows(X, Workers(1)), communicator)
    if solver != "saddle":
        return Problem(rows, y, SquaredHinge(), L2(1.0), np.ones(y.size), "free")
    positive, negative = communicator.allreduce(np.array([np.sum(y > 0.0), np.sum(y < 0.0)], dtype=np.float64))
    return HullDistance(rows, y, 1.0 / (NU * np.where(y > 0.0, positive, negative)))
