"""LASSO against ridge on a planted sparse model: ``python examples/lasso_ridge.py`` draws and prints the table."""

import argparse
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, label, plt, save
from least_squares import planted, posed
from maxmargin import minimize
from maxmargin.operators import Columns, Rows
from maxmargin.parts.penalties import L1, L2
from maxmargin.solvers import make_solver

NOISE, ALIKE, SUPPORT = 1.0, 0.9, 8


class Fit(NamedTuple):
    """A model of the planted one, at the strength of the penalty that predicts best."""

    name: str
    w: np.ndarray
    lam: float
    right: int  # features that are in both
    wrong: int  # features that should not be there
    model_error: float  # |w - w*|^2 as a share of |w*|^2
    prediction_error: float  # the same of A'w and A'w*, for new rows A'


@dataclass
class Comparison:
    """Everything about the planted model."""

    truth: np.ndarray
    lasso: list  # a Fit for each strength
    ridge: list
    best: list  # those of the table


def debiased(A, d, w):
    """Least squares on the features that LASSO selected."""
    chosen, out = w != 0.0, np.zeros_like(w)
    out[chosen] = np.linalg.lstsq(A[:, chosen], d, rcond=None)[0]
    return out


def compare(n=150, d=160):
    """LASSO and ridge of every strength, and the table of their best ones."""
    A, target, truth = planted(n, d, SUPPORT, NOISE, seed=4, alike=ALIKE)
    fresh, _, _ = planted(2000, d, SUPPORT, NOISE, seed=5, alike=ALIKE)

    def share(error, whole):
        return float(error @ error) / float(whole @ whole)

    def judged(name, w, lam):
        right, wrong = np.count_nonzero(w[truth != 0.0]), np.count_nonzero(w[truth == 0.0])
        predicted = share(fresh @ (w - truth), fresh @ truth)
        return Fit(name, w, lam, right, wrong, share(w - truth, truth), predicted)

    def solved(penalty, operator, solver):
        X = np.asfortranarray(A) if operator is Columns else A
        return minimize(posed(penalty, X, target, operator), make_solver(solver), tol=1e-8).point.w

    largest = 2.0 * np.abs(A.T @ target).max()
    strengths = largest * np.geomspace(1.0, 1e-3, 31)
    lasso = [judged("LASSO", solved(L1(lam / 2.0), Columns, "working_set"), lam) for lam in strengths]
    ridge = [judged("ridge", solved(L2(lam), Rows, "cholesky"), lam) for lam in largest * np.geomspace(30.0, 1e-4, 41)]
    best_lasso, best_ridge = (min(fits, key=lambda fit: fit.prediction_error) for fits in (lasso, ridge))
    after = min(
        (judged("LASSO, debiased", debiased(A, target, f.w), f.lam) for f in lasso), key=lambda f: f.prediction_error
    )
    nothing = judged("least norm", np.linalg.pinv(A) @ target, 0.0)
    return Comparison(truth, lasso, ridge, [best_lasso, after, best_ridge, nothing])


def draw_comparison(found):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.0, 3.8), width_ratios=[1.35, 1.0], layout="constrained")
    lasso, after, ridge, _ = found.best
    j = np.arange(found.truth.size)
    left.axhline(0.0, color=GREY, lw=0.6)
    left.vlines(np.flatnonzero(found.truth), 0.0, found.truth[found.truth != 0.0], color=BLACK, lw=5, alpha=0.18)
    left.plot(j, ridge.w, "o", color=ORANGE, ms=3)
    for fit, marker, colour, size in ((lasso, "s", BLUE, 5), (after, "D", GREEN, 4.5)):
        chosen = np.flatnonzero(fit.w)
        left.plot(chosen, fit.w[chosen], marker, color=colour, ms=size, markeredgecolor="white", markeredgewidth=0.6)
    handles = [
        plt.Line2D([], [], color=BLACK, lw=5, alpha=0.18, label="planted"),
        plt.Line2D([], [], color=BLUE, marker="s", lw=0, label="LASSO"),
        plt.Line2D([], [], color=GREEN, marker="D", ms=4.5, lw=0, label="LASSO, debiased"),
        plt.Line2D([], [], color=ORANGE, marker="o", ms=3, lw=0, label="ridge"),
    ]
    left.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, fontsize=8.5)
    left.set(xlim=(-2, found.truth.size + 1), ylabel="coefficient", xticks=[])
    left.set_title(f"{SUPPORT} of {found.truth.size} features make the target")
    for fits, colour in ((found.lasso, BLUE), (found.ridge, ORANGE)):
        lam = [fit.lam for fit in fits]
        right.loglog(lam, [fit.model_error for fit in fits], color=colour)
        right.loglog(lam, [fit.prediction_error for fit in fits], color=colour, ls=(0, (4, 2)))
    label(right, 3e-3, 0.78, "ridge: model", ORANGE)
    label(right, 7.5e-4, 0.12, "ridge: prediction", ORANGE)
    label(right, 0.019, 0.19, "LASSO: model", BLUE, ha="left")
    label(right, 0.9, 0.012, "LASSO: prediction", BLUE, ha="left")
    right.set(xlabel="$\\lambda$", ylim=(2e-3, 3.0))
    right.set_title("Error of the model, and of predictions")
    return figure


def table_of(found):
    """The comparison as a table for the page."""
    lines = ["| | features found | false ones | model error | prediction error |", "|---|---|---|---|---|"]
    for fit in found.best:
        shown = f"{100 * fit.model_error:.1f} % | {100 * fit.prediction_error:.2f} %"
        lines.append(f"| {fit.name} | {fit.right} of {SUPPORT} | {fit.wrong} | {shown} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    found = compare()
    save(draw_comparison(found), options.figures, "lasso_ridge")
    print(table_of(found))
    return found


if __name__ == "__main__":
    main()
