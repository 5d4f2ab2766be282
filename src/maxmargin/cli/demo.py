"""``maxmargin demo``: the first thing a stranger sees."""

from __future__ import annotations

import argparse
import time

import numpy as np

import maxmargin
from maxmargin import SVC, LinearSVC
from maxmargin.cli.output import NOT_CONVERGED, SUCCESS, say, write, write_json
from maxmargin.cli.tables import Line, draw
from maxmargin.protocols import Array, Float

DEMO_TOL = 1e-6


def demo(arguments: argparse.Namespace) -> int:
    """Train and certify on bundled data, beside scikit-learn."""
    from sklearn import svm
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    models = {
        "maxmargin SVC (rbf)": SVC(tol=DEMO_TOL),
        "maxmargin LinearSVC": LinearSVC(tol=DEMO_TOL),
        "scikit-learn SVC (rbf)": svm.SVC(),
    }
    if not arguments.json:
        say("Loading the solvers; the very first run compiles them, which can take half a minute ...")
    rows: list[Line] = []
    paid = 0.0
    for name, model in models.items():
        first, seconds = (_seconds_of(model, X, y) for _ in range(2))
        verdict = maxmargin.certify(model, X, y)
        line = Line(
            verdict.worst,
            model=name,
            problem=verdict.problem,
            iterations=int(np.max(model.n_iter_)),
            first_seconds=first,
            seconds=seconds,
            support_vectors=model.support_.size,
        )
        paid += first - seconds if name.startswith("maxmargin") else 0.0
        rows.append(line)
    proven = all(row.relative_gap <= DEMO_TOL for row in rows[:-1])
    if arguments.json:
        write_json({"command": "demo", "tol": DEMO_TOL, "certified": proven, "models": rows})
    else:
        _tell(X.shape, rows, proven, paid)
    return SUCCESS if proven else NOT_CONVERGED


def _seconds_of(model: SVC | LinearSVC, X: Float, y: Array) -> float:
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def _tell(shape: tuple[int, int], rows: list[Line], proven: bool, paid: float) -> None:
    write(
        f"maxmargin {maxmargin.__version__} on scikit-learn's breast cancer data\n"
        f"({shape[0]} samples, {shape[1]} standardised features)\n\n"
        "Every fit ends with a proof. The primal value is what a model achieves, the\n"
        "dual value is what no model can go below: the optimum lies between the two.\n\n"
    )
    write(draw(("model", "primal", "dual", "relative gap", "seconds", "support vectors"), rows))
    claim = "Both models of maxmargin are proven to be within" if proven else "A model of maxmargin did not come within"
    write(
        f"\nThe seconds are those of a second fit. The first ones of this process took\n"
        f"{max(paid, 0.0):.2f} s more, to load machine code, or to compile it if none was stored.\n"
        f"\n{claim} {DEMO_TOL:g} of the optimum.\n"
        f"scikit-learn's SVC, at its default settings, reports no gap; maxmargin.certify\n"
        f"judges its models too: {rows[-1].relative_gap:.1e}, on the problem of the first row.\n\n"
        "Try next: maxmargin train DATA --tol 1e-6, where DATA is a LIBSVM or CSV file.\n"
    )
