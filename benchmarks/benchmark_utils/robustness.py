"""How often a linear classifier ends with the gap that was asked for. The command line of ``robustness.py``."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmark_utils import data, report
from benchmark_utils.judge import Judge, judge_of
from benchmark_utils.peer import Answer
from benchmark_utils.session import add_markdown, header, keep, matches, say, show_header
from benchmark_utils.worker import fix_threads
from benchmark_utils.workloads import Task

GAP = 1e-6
LOSSES = ("hinge", "squared_hinge")
LIMIT = 60.0  # seconds
DENSE_ABOVE = 0.05  # share of entries that are not zero: such a set is stored as a dense array, as its users would
BINARY = (
    "heart_scale", "sonar_scale", "ionosphere_scale", "breast-cancer", "australian", "diabetes", "german.numer",
    "splice", "a1a", "w1a", "svmguide1", "spambase", "madelon", "mushrooms", "phishing", "colon-cancer", "leukemia",
    "svmlight_example1", "a9a", "w8a", "ijcnn1", "cod-rna", "rcv1_ccat", "covtype.binary",
)  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """One fit, judged without our own certificate."""

    data: str
    form: str
    C: float
    loss: str
    solver: str
    gap: float
    seconds: float
    status: str
    peer_gap: float
    peer_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print."""
    parser = argparse.ArgumentParser(
        prog="robustness.py", description="LinearSVC beside scikit-learn's, at a gap of 1e-6."
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="real data, DIR/NAME/NAME.train.libsvm.xz"
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a data set's name, or a pattern")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of every solver (2)")
    parser.add_argument("--solver", default="auto", metavar="NAME", help="our solver (auto)")
    parser.add_argument("--no-peer", action="store_true", help="leave scikit-learn's LinearSVC out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number to a file")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    options.timeout = LIMIT
    fix_threads(options.threads)
    circumstances = header(options, ["maxmargin", "sklearn_linear_svc"], [])
    show_header(circumstances)
    fits = []
    for fit in _fits(options):
        fits.append(fit)
        if fit.gap > GAP or fit.seconds > LIMIT:
            print(f"missed: {_described(fit)}", flush=True)
    say("")
    if not fits:
        print("No data set has such a name.", file=sys.stderr)
        return 2
    lines = table(fits)
    print(report.aligned(lines), summary(fits), sep="\n\n")
    results = {"header": circumstances, "fits": [asdict(fit) for fit in fits]}
    keep(options, results, report.markdown(lines), summary(fits))
    return 0


def _fits(options: argparse.Namespace) -> Iterator[Fit]:
    from maxmargin import LinearSVC

    compile_for([options.solver])
    for name in BINARY:
        if not matches(name, options.only):
            continue
        X, y = data.read_libsvm(name)(options.data)
        if X.nnz > DENSE_ABOVE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        for form, Z in (("raw", X), ("standardised", standardised(X))):
            for C in (0.01, 1.0, 100.0):
                for loss in LOSSES:
                    say(f"{name} {form} C={C:g} {loss}")
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model = LinearSVC(C=C, loss=loss, tol=GAP, max_time=LIMIT, solver=options.solver)
                        began = time.perf_counter()
                        model.fit(Z, y)
                        seconds = time.perf_counter() - began
                        judge = judge_of(Z, y, Task("linear", loss=loss, C=C, intercept="penalised"))
                        point = model.solution_.point
                        verdict = judge.certificate(Answer(point.w, point.b, point.alpha))
                        judge.dual_bound = verdict.dual
                        peer_gap, peer_seconds = np.nan, np.nan
                        if not options.no_peer:
                            peer_gap, peer_seconds = _peer(Z, y, judge)
                    used = model.solution_.solver
                    yield Fit(
                        name,
                        form,
                        C,
                        loss,
                        used,
                        verdict.relative_gap,
                        seconds,
                        str(model.status_.name),
                        peer_gap,
                        peer_seconds,
                    )


def compile_for(solvers: Sequence[str]) -> None:
    """Fit something small with every solver, so that no time contains a compilation."""
    from maxmargin import LinearSVC

    X, y = data.tilted_classes(300, 10)
    for rows in (X, sp.csr_matrix(X)):
        for loss in LOSSES:
            for solver in solvers:
                LinearSVC(loss=loss, tol=GAP, max_time=LIMIT, solver=solver).fit(rows, y)


def _peer(X: Any, y: Any, judge: Judge) -> tuple[float, float]:
    """Gap and seconds of scikit-learn's LinearSVC at its defaults, in a process that is killed after the limit."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=_fit_peer, args=(there, X, y, judge.task.C, judge.task.loss)
    )
    child.start()
    there.close()
    try:
        w, b, seconds = here.recv() if here.poll(LIMIT) else (None, 0.0, LIMIT)
    except EOFError:  # it has refused the data, and said why on standard error
        w, b, seconds = None, 0.0, np.nan
    child.kill()
    child.join()
    return np.inf if w is None else judge.relative_gap(Answer(w, b)), seconds


def _fit_peer(connection: Any, X: Any, y: Any, C: float, loss: str) -> None:
    from sklearn.svm import LinearSVC

    if sp.issparse(X):  # it refuses long integers
        X = sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    began = time.perf_counter()
    peer = LinearSVC(C=C, loss=loss, random_state=0).fit(X, y)
    connection.send((peer.coef_[0], float(peer.intercept_[0]), time.perf_counter() - began))


def standardised(X: Any) -> Any:
    """Columns with variance 1, and mean 0 where that does not make a sparse matrix dense."""
    if isinstance(X, np.ndarray):
        spread = X.std(axis=0)
        return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    mean = np.asarray(X.mean(axis=0)).ravel()
    spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))
    return X.multiply(1.0 / np.where(spread > 0.0, spread, 1.0)).tocsr()


def _described(fit: Fit) -> str:
    return f"{fit.data} {fit.form} C={fit.C:g} {fit.loss}: gap {fit.gap:.1e} after {fit.seconds:.2f} s, {fit.status}"


def table(fits: Sequence[Fit]) -> list[list[str]]:
    """A head, and a line for every data set and form."""
    columns = ["reached", "median s", "worst s", "worst gap"]
    lines = [["data", "form", *columns, *(f"LinearSVC {column}" for column in columns)]]
    for key in dict.fromkeys((fit.data, fit.form) for fit in fits):
        some = [fit for fit in fits if (fit.data, fit.form) == key]
        lines.append([*key, *_cells([(f.gap, f.seconds) for f in some]), *_peer_cells(some)])
    return lines


def _cells(pairs: Sequence[tuple[float, float]]) -> list[str]:
    reached = sum(gap <= GAP and seconds <= LIMIT for gap, seconds in pairs)
    times = [seconds for _, seconds in pairs]
    worst_gap = max(gap for gap, _ in pairs)
    return [f"{reached} of {len(pairs)}", f"{statistics.median(times):.3g}", f"{max(times):.3g}", f"{worst_gap:.1e}"]


def _peer_cells(fits: Sequence[Fit]) -> list[str]:
    return [""] * 4 if np.isnan(fits[0].peer_gap) else _cells([(f.peer_gap, f.peer_seconds) for f in fits])


def summary(fits: Sequence[Fit]) -> str:
    """The counts of all."""
    reached, median, worst, _ = _cells([(f.gap, f.seconds) for f in fits])
    text = f"maxmargin: {reached} certified at {GAP:g}, median {median} s, worst {worst} s"
    if not np.isnan(fits[0].peer_gap):
        peer = _cells([(f.peer_gap, f.peer_seconds) for f in fits])
        text += f"\nLinearSVC at its defaults: {peer[0]} within {GAP:g}, median {peer[1]} s, worst {peer[2]} s"
        text += f"\nfits were stopped after {LIMIT:g} s; an infinite gap is that of LinearSVC killed then"
    return text
