"""Approximated kernel machines on covtype: seconds, and the gap to the true kernel problem, for several ranks.

``python benchmarks/nystroem.py --data DIR [--rows 100000] [--ranks 100 250 500 1000 2000 4000] [--C 1] [--gamma 1]``
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import maxmargin
from benchmark_utils.data import read_covtype


def main() -> int:
    """Print one line for each rank."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with covtype.binary")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[100, 250, 500, 1000, 2000, 4000])
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-3, help="among the functions of a rank")
    options = parser.parse_args()
    X, y = read_covtype(options.rows, scaled=True)(options.data)
    few = np.linspace(0, len(y) - 1, 600).astype(int)
    settings = {"C": options.C, "gamma": options.gamma, "tol": options.tol, "approximation": "nystroem"}
    for rank in options.ranks[:1] + [1100] * (max(options.ranks) > 1000):  # compile what will be used
        maxmargin.SVC(**settings, rank=min(rank, 500), solver="auto" if rank <= 1000 else "dual_coordinate").fit(
            X[few], y[few]
        )
    print(f"covtype, {len(y)} rows, C={options.C:g}, gamma={options.gamma:g}, tol={options.tol:g} within a rank")
    print("rank  seconds  primal        dual          gap to the kernel problem  training error  predictions/s  solver")
    for rank in options.ranks:
        began = time.perf_counter()
        model = maxmargin.SVC(**settings, rank=rank, cache_size=8.0 * rank * len(y) / 2**20 + 100.0).fit(X, y)
        seconds, began = time.perf_counter() - began, time.perf_counter()
        wrong = float(np.mean(model.predict(X) != y))
        speed = len(y) / (time.perf_counter() - began)
        print(
            f"{rank:4d} {seconds:8.1f}  {model.objective_:12.2f}  {model.dual_objective_:12.2f}  "
            f"{model.duality_gap_:12.2e}  {wrong:25.4f}  {speed:13.0f}  {model.solution_.solver}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
