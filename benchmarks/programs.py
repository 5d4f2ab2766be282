"""The quadratic program of a kernel machine: our exact solvers against Clarabel, PIQP and OSQP, with one judge.

``python benchmarks/programs.py [--samples 200 500 1000] [--C 1 1000] [--tol 1e-8]``. Rivals that are not installed are
left out. Every answer is moved into the feasible set and certified with the kernel matrix.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmark_utils.data import flipped_classes
from maxmargin import BoxQP, Point, Problem, minimize
from maxmargin.operators import KernelGram
from maxmargin.parts.kernels import RBF
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import make_solver

OURS = ("interior_point", "active_set", "decomposition", "block_smo")
Answer = tuple[Any, int]  # the variables, and how many steps


def clarabel(K: Any, y: Any, C: float, tol: float) -> Answer:
    """An interior point method for cones."""
    module = importlib.import_module("clarabel")
    n, settings = len(y), module.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    A = sp.vstack([sp.csc_matrix(np.ones((1, n))), sp.eye(n), -sp.eye(n)]).tocsc()
    b = np.concatenate([[0.0], np.where(y > 0, C, 0.0), np.where(y > 0, 0.0, C)])
    cones = [module.ZeroConeT(1), module.NonnegativeConeT(2 * n)]
    found = module.DefaultSolver(sp.triu(sp.csc_matrix(K)).tocsc(), -y, A, b, cones, settings).solve()
    return np.array(found.x), found.iterations


def piqp(K: Any, y: Any, C: float, tol: float) -> Answer:
    """A proximal interior point method."""
    solver = importlib.import_module("piqp").DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = tol
    n, nothing = len(y), np.zeros((0, len(y)))
    low, high = np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)
    solver.setup(K, -y, np.ones((1, n)), np.zeros(1), nothing, x_l=low, x_u=high)
    solver.solve()
    return np.array(solver.result.x), solver.result.info.iter


def osqp(K: Any, y: Any, C: float, tol: float) -> Answer:
    """A splitting method."""
    solver = importlib.import_module("osqp").OSQP()
    n = len(y)
    A = sp.vstack([sp.csc_matrix(np.ones((1, n))), sp.eye(n)]).tocsc()
    low = np.append(0.0, np.where(y > 0, 0.0, -C))
    high = np.append(0.0, np.where(y > 0, C, 0.0))
    P = sp.triu(sp.csc_matrix(K)).tocsc()
    solver.setup(P, -y, A, low, high, verbose=False, eps_abs=tol, eps_rel=tol, max_iter=100_000)
    found = solver.solve()
    return np.array(found.x), found.info.iter


RIVALS: tuple[Callable[..., Answer], ...] = (clarabel, piqp, osqp)


def main() -> int:
    """Print one line for each program and solver."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 1000.0])
    parser.add_argument("--tol", type=float, default=1e-8)
    options = parser.parse_args()
    absent = [rival.__name__ for rival in RIVALS if importlib.util.find_spec(rival.__name__) is None]
    print("not installed: " + ", ".join(absent) if absent else "all rivals are installed")
    print("samples        C  solver            seconds  steps  certified gap")
    for n in options.samples:
        X, labels = flipped_classes(n, 10)
        y, kernel = np.where(labels > 0, 1.0, -1.0), RBF(0.05)
        for C in options.C:

            def posed(X: Any = X, y: Any = y, C: float = C, kernel: Any = kernel) -> Problem:
                return Problem(KernelGram(kernel, X), y, Hinge(), L2(1.0), np.full(y.size, C))

            for name in OURS:
                minimize(posed(), make_solver(name), tol=options.tol, max_time=60.0)  # compiles
                began = time.perf_counter()
                solution = minimize(posed(), make_solver(name), tol=options.tol, max_time=60.0)
                show(n, C, name, time.perf_counter() - began, solution.iterations, solution.certificate.relative_gap)
            for rival in RIVALS:
                if rival.__name__ in absent:
                    continue
                began = time.perf_counter()
                K = KernelGram(kernel, X).block(np.arange(n))
                a, steps = rival(K, y, C, options.tol)
                seconds, qp = time.perf_counter() - began, BoxQP.of(posed())
                a = qp.feasible(a)
                gap = qp.certify(Point(qp.expansion(a), 0.0, a)).relative_gap
                show(n, C, rival.__name__, seconds, steps, gap)
    return 0


def show(n: int, C: float, name: str, seconds: float, steps: int, gap: float) -> None:
    """One line of the table."""
    print(f"{n:7d} {C:8g}  {name:16s} {seconds:8.3f} {steps:6d}  {gap:.1e}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
