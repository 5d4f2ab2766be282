"""The smallest case that still shows a finding: fewer rows, columns, parameters and digits."""

import time
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

PLAIN = {"tol": 1e-3, "C": 1.0, "alpha": 1.0, "gamma": 1.0, "epsilon": 0.1}
NEEDED = ("kernel", "n_clients", "loss", "nu", "max_iter", "warm_start")


def reduced(made, finding, worker, max_time, seconds=45.0):
    """A small case with a finding of the same kind, and that finding."""
    deadline, solver = time.perf_counter() + seconds, finding["solver"]
    solvers = ["auto"] if solver == "any" else [solver]

    def shows(candidate):
        for found in worker.run(candidate, max_time, solvers):
            if (found["kind"], found["solver"]) == (finding["kind"], solver):
                return found
        return None

    best = shows(made)
    if best is None or finding["kind"] in ("hang", "slow", "crash"):
        return made, finding
    smaller = True
    while smaller:
        smaller = False
        for candidate in candidates(made):
            if time.perf_counter() > deadline:
                return made, best
            found = shows(candidate)
            if found is not None:
                made, best, smaller = candidate, found, True
                break
    return made, best


def candidates(made):
    """Simpler cases, the greatest simplifications first."""
    if made.before is not None:
        yield replace(made, before=None, params={k: v for k, v in made.params.items() if k != "warm_start"})
    if made.weights is not None:
        yield replace(made, weights=None)
    if sp.issparse(made.X):
        yield replace(made, X=made.X.toarray().astype(np.float64))
    if made.before is None and not sp.issparse(made.X):
        yield from _smaller(made)
        yield from _rounder(made)
    for name, value in made.params.items():
        if name in PLAIN and value != PLAIN[name]:
            yield replace(made, params={**made.params, name: PLAIN[name]})
        if name not in NEEDED:
            yield replace(made, params={k: v for k, v in made.params.items() if k != name})


def _smaller(made):
    n, d = made.X.shape
    square = made.params.get("kernel") == "precomputed"
    size = n // 2
    while size >= 1:
        for start in range(0, n, size):
            keep = np.r_[0:start, start + size : n]
            if keep.size < 2:
                continue
            X = made.X[keep][:, keep] if square else made.X[keep]
            y = None if made.y is None else made.y[keep]
            weights = None if made.weights is None else made.weights[keep]
            yield replace(made, X=X, y=y, weights=weights)
        size //= 2
    for j in range(d if d > 1 and not square else 0):
        yield replace(made, X=np.delete(made.X, j, axis=1))


def _rounder(made):
    """Fewer digits, of all entries at once."""
    for digits in (0, 1, 2):
        for decimals in (True, False):
            X = np.round(made.X, digits) if decimals else _significant(made.X, digits)
            if not np.array_equal(X, made.X) and _digits(X) < _digits(made.X):
                yield replace(made, X=X)
        if made.y is not None and made.y.dtype.kind == "f":
            y = _significant(made.y, digits)
            if not np.array_equal(y, made.y) and _digits(y) < _digits(made.y):
                yield replace(made, y=y)


def _significant(X, digits):
    return np.array([float(f"{v:.{digits}e}") for v in X.ravel()]).reshape(X.shape)


def _digits(X):
    return len(str(X.tolist()))
