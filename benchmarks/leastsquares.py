"""LASSO, elastic net and ridge regression against celer, skglm, scikit-learn, adelie and glum, at equal certified gaps.

``python benchmarks/leastsquares.py [--data DIR] [WORD ...]`` prints a table; with words only the sets that have one of
them. Each library runs at the loosest tolerance of its own with which a judge, in plain NumPy, finds a relative duality
gap of 1e-6: what it says of itself does not count. Fits are timed in turns. Libraries that are not installed are left
out and named. With ``--data`` the wide sets of LIBSVM are compared too: leukemia, colon-cancer, rcv1_ccat, news20.
"""

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_regression
from sklearn.preprocessing import StandardScaler

import maxmargin
from benchmark_utils.data import _read

GAP, PATIENCE = 1e-6, 20.0  # of the judge; seconds for one fit of a peer
Fit = Callable[[float], np.ndarray]  # coefficients at a tolerance


def judged(X: Any, y: np.ndarray, w: np.ndarray, lasso: float, ridge: float) -> float:
    """Relative gap of ``|y - Xw|^2 / (2n) + lasso |w|_1 + ridge/2 |w|^2`` at the scaled residuals."""
    n = len(y)
    r = y - X @ w
    primal = 0.5 * float(r @ r) / n + lasso * float(np.abs(w).sum()) + 0.5 * ridge * float(w @ w)
    v = X.T @ r / n
    if lasso == 0.0:
        dual = float(r @ y) / n - 0.5 * float(r @ r) / n - 0.5 * float(v @ v) / ridge
        return (primal - dual) / primal
    # As a LASSO with sqrt(n ridge) I below the columns: the larger of two gaps.
    share = 1.0 / max(1.0, float(np.abs(v - ridge * w).max()) / lasso)
    dual = share * float(y @ r) / n - 0.5 * share**2 * (float(r @ r) / n + ridge * float(w @ w))
    return (primal - dual) / primal


def of_scikit(package: str, name: str, X: Any, y: np.ndarray, options: dict[str, Any]) -> Fit:
    """A class with scikit-learn's interface."""
    kind = getattr(importlib.import_module(package), name)
    return lambda tol: np.ravel(kind(tol=tol, fit_intercept=False, **options).fit(X, y).coef_)


def of_adelie(X: Any, y: np.ndarray, lasso: float, ridge: float) -> Fit:
    """adelie's group elastic net, with groups of one."""
    ad = importlib.import_module("adelie")
    total = lasso + ridge
    matrix = np.asfortranarray(X) if isinstance(X, np.ndarray) else ad.matrix.sparse(X)

    def fit(tol: float) -> np.ndarray:
        state = ad.grpnet(
            matrix, ad.glm.gaussian(y), lmda_path=[total], alpha=lasso / total, intercept=False, tol=tol,
            early_exit=False, progress_bar=False, max_iters=10**6,
        )  # fmt: skip
        return np.ravel(state.betas.toarray()[-1])

    return fit


def of_glum(X: Any, y: np.ndarray, lasso: float, ridge: float) -> Fit:
    """glum's normal family."""
    glum = importlib.import_module("glum")
    total = lasso + ridge

    def fit(tol: float) -> np.ndarray:
        model = glum.GeneralizedLinearRegressor(
            family="normal",
            alpha=total,
            l1_ratio=lasso / total,
            fit_intercept=False,
            gradient_tol=tol,
            max_iter=10**4,
        )
        return np.ravel(model.fit(X, y).coef_)

    return fit


def libraries(X: Any, y: np.ndarray, lasso: float, ridge: float) -> Iterator[tuple[str, Callable[[], Fit]]]:
    """The libraries that may solve a problem, and how each is made."""
    if lasso == 0.0:
        options: dict[str, Any] = {"alpha": ridge * len(y)}
        for solver in ("cholesky",) if isinstance(X, np.ndarray) else ("lsqr", "sparse_cg"):
            chosen = {**options, "solver": solver}
            yield f"scikit-learn, {solver}", partial(of_scikit, "sklearn.linear_model", "Ridge", X, y, chosen)
    else:
        name = "ElasticNet" if ridge else "Lasso"
        options = {"alpha": lasso + ridge} | ({"l1_ratio": lasso / (lasso + ridge)} if ridge else {})
        for package in ("celer", "skglm"):
            yield package, partial(of_scikit, package, name, X, y, {**options, "max_iter": 1000})
        yield "scikit-learn", partial(of_scikit, "sklearn.linear_model", name, X, y, {**options, "max_iter": 20000})
        yield "adelie", partial(of_adelie, X, y, lasso, ridge)
    yield "glum", partial(of_glum, X, y, lasso, ridge)


def loosest(fit: Fit, gap: Callable[[np.ndarray], float]) -> float | None:
    """The loosest tolerance of a library that the judge accepts, if it is fast enough to be found."""
    for tol in 10.0 ** -np.arange(2, 13):
        began = time.perf_counter()
        try:
            w = fit(tol)
        except Exception as error:  # a library that refuses a problem is left out of its row
            print(f"    {type(error).__name__}: {error}"[:150], file=sys.stderr)
            return None
        if time.perf_counter() - began > PATIENCE:
            return None
        if gap(w) <= GAP:
            return float(tol)
    return None


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The shortest milliseconds of each."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            best[name] = min(best[name], 1e3 * (time.perf_counter() - began))
    return best


def ours(X: Any, y: np.ndarray, lasso: float, ridge: float) -> Fit:
    """The estimator of the problem."""
    if lasso == 0.0:
        return lambda tol: maxmargin.Ridge(ridge * len(y), fit_intercept=False, tol=tol).fit(X, y).coef_
    alpha, ratio = lasso + ridge, lasso / (lasso + ridge)
    return lambda tol: maxmargin.ElasticNet(alpha, l1_ratio=ratio, fit_intercept=False, tol=tol).fit(X, y).coef_


def sets(directory: Path | None) -> Iterator[tuple[str, Callable[[], tuple[Any, np.ndarray]]]]:
    """Names of data, and what makes them: columns in memory one after another."""
    for n, d in ((200, 2000), (1000, 10000), (20000, 100)):
        yield f"made {n}x{d}", partial(_made, n, d)
    yield "rare words 800x60000", _rare
    for name in ("leukemia", "colon-cancer", "rcv1_ccat", "news20") if directory else ():
        yield name, partial(_stored, directory, name)


def _made(n: int, d: int) -> tuple[Any, np.ndarray]:
    X, y = make_regression(n, d, n_informative=min(100, d), noise=5.0, random_state=0)
    return np.asfortranarray(X), y / y.std()


def _rare() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = sp.random(800, 60000, 0.01, format="csc", random_state=0, data_rvs=np.ones)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    y = X[:, :100] @ rng.normal(size=100) + rng.normal(size=800)
    return X, y / y.std()


def _stored(directory: Path, name: str) -> tuple[Any, np.ndarray]:
    X, y = _read(directory, name)
    y = np.where(y == y.max(), 1.0, -1.0) if np.unique(y).size == 2 else y.astype(float)
    if X.shape[0] < 1000:
        return np.asfortranarray(StandardScaler().fit_transform(X.toarray())), y
    return X.tocsc(), y


def problems(X: Any, y: np.ndarray) -> Iterator[tuple[str, float, float]]:
    """What is fitted to each set: names, and the strengths of both penalties."""
    top = float(np.abs(X.T @ y).max()) / len(y)
    for part in (10, 20, 100):
        yield f"LASSO /{part}", top / part, 0.0
    yield "elastic net /20", top / 20, top / 20
    yield "ridge", 0.0, top


def main() -> int:
    """Print the table, and the geometric mean of our ratios to the best of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows with one of these words")
    parser.add_argument("--data", type=Path, help="where NAME/NAME.train.libsvm.xz are")
    parser.add_argument("--repeats", type=int, default=5, help="of each fit (default: 5)")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    ratios, missing = [], set()
    names = ["maxmargin", "celer", "skglm", "scikit-learn", "adelie", "glum"]
    print("| milliseconds | " + " | ".join(names) + " | ratio |\n" + "|---" * (len(names) + 2) + "|")
    for label, make in sets(given.data):
        if given.words and not any(word in label for word in given.words):
            continue
        X, y = make()
        for kind, lasso, ridge in problems(X, y):
            gap = partial(judged, X, y, lasso=lasso, ridge=ridge)
            runs: dict[str, Callable[[], object]] = {"maxmargin": partial(ours(X, y, lasso, ridge), GAP)}
            reached = gap(runs["maxmargin"]()) <= 1.01 * GAP
            for name, factory in libraries(X, y, lasso, ridge):
                try:
                    fit = factory()
                except ImportError:
                    missing.add(name)
                    continue
                tol = loosest(fit, gap)
                if tol is not None:
                    runs[name] = partial(fit, tol)
            best = in_turns(runs, given.repeats)
            columns = [min((t for n, t in best.items() if n.startswith(name)), default=np.nan) for name in names]
            ratio = min(best[n] for n in best if n != "maxmargin") / best["maxmargin"] if len(best) > 1 else np.nan
            ratios.append(ratio if reached else 0.0)
            cells = " | ".join("" if np.isnan(c) else f"{c:.2f}" for c in columns)
            print(f"| {label}, {kind} | {cells} | {ratio:.2f}{'' if reached else ', our gap is larger'} |", flush=True)
    known = [ratio for ratio in ratios if ratio > 0.0]
    if known:
        print(f"\nFaster than the best of the others in {sum(r >= 1.0 for r in known)} of {len(ratios)} rows; the "
              f"geometric mean of the ratios is {np.exp(np.mean(np.log(known))):.2f}.")  # fmt: skip
    if missing:
        print(f"Not installed: {', '.join(sorted(missing))}.")
    return 0 if len(known) == len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
