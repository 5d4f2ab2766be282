"""What optimality looks like: every sample on a corner, the matrix in blocks. ``python examples/optimality.py``."""

import argparse

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREY, ORANGE, RED, plt, save
from maxmargin import SVC, kkt_report

C = 1.0
COLOURS = {"zero": GREY, "free": BLUE, "bound": ORANGE}


def samples(n=110):
    """Two clouds that overlap."""
    rng = np.random.default_rng(4)
    y = np.repeat([-1.0, 1.0], n // 2)
    return rng.normal(size=(n, 2)) + 0.9 * y[:, None], y


def draw_corner(axes, one, title):
    """The dual variable of each sample against its margin: at the optimum all are on three lines."""
    margin = 1.0 - one.slacks + one.surplus
    axes.plot([one.claim.excess.max() * -1.0 + 1.0, 1.0, 1.0, margin.max()], [C, C, 0.0, 0.0], color=BLACK, lw=0.8)
    place = {row: i for i, row in enumerate(one.rows)}
    for name, part in one.partition._asdict().items():
        some = [place[row] for row in part]
        axes.plot(margin[some], one.alpha[some], "o", ms=4, color=COLOURS[name], markeredgecolor="white", mew=0.4)
    for row in one.worst_rows(3 if one.violation > 0.01 else 0):
        axes.plot(margin[place[row]], one.alpha[place[row]], "o", ms=9, color="none", markeredgecolor=RED)
    gap = one.shares.sum()
    axes.set(title=title, xlabel="margin  y f(x)", ylabel="dual variable  a", yticks=[0.0, C], yticklabels=["0", "C"])
    axes.text(0.04, 0.5, f"gap {gap:.1e}", transform=axes.transAxes, fontsize=8.5, color=BLACK)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    X, y = samples()
    rough = kkt_report(SVC(C=C, gamma=0.3, solver="smo", max_iter=25).fit(X, y), X, y)[0]
    exact = kkt_report(SVC(C=C, gamma=0.3, solver="active_set", tol=1e-12).fit(X, y), X, y)[0]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
    draw_corner(axes[0], rough, "25 steps on pairs")
    draw_corner(axes[1], exact, "the optimum")
    exact.plot(axes[2])
    axes[2].set(xticks=[], yticks=[])
    axes[2].set_title(axes[2].get_title(loc="left"), loc="left", fontsize=8.5, fontweight="normal")
    save(figure, options.figures, "optimality")
    return rough, exact


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # so few steps do not converge, and are not meant to
    main()
