"""Dwarf planets and planets on a line: least squares against the widest street. ``python examples/planets.py``."""

import argparse

import numpy as np

from drawing import BLACK, BLUE, FIGURES, ORANGE, RED, label, plt, save
from maxmargin import SVC, load_planets


def boundaries():
    """Where least squares and the widest street put the boundary, in 10^6 m, and half the width of the street."""
    X, y, _ = load_planets()
    slope, shift = np.linalg.lstsq(np.column_stack([X, np.ones(y.size)]), y, rcond=None)[0]
    model = SVC(kernel="linear", C=np.inf, tol=1e-9).fit(X, y)
    w, b = float(model.coef_[0, 0]), float(model.intercept_[0])
    return -float(shift) / float(slope), -b / w, 1.0 / abs(w)


def draw_planets():
    X, y, names = load_planets()
    least_squares, street, half_width = boundaries()
    figure, axes = plt.subplots(figsize=(9, 2.5), layout="constrained")
    axes.axvspan(street - half_width, street + half_width, color=BLUE, alpha=0.12, lw=0)
    axes.axvline(street, color=BLUE)
    axes.axvline(least_squares, color=RED, ls=(0, (4, 2)))
    for x, side, name in zip(X[:, 0], y, names, strict=True):
        colour = ORANGE if side < 0 else BLACK
        axes.plot(x, 0.0, "o", ms=9, color=colour, markeredgecolor="white")
        offset, ha = {"Eris": (-0.42, "right"), "Pluto": (0.42, "center")}.get(name, (0.42, "center"))
        axes.text(x, offset, name, color=colour, ha=ha, va="center")
    label(axes, 1.03 * (street + half_width), -0.82, f"widest street: {street:.2f}", BLUE)
    label(axes, least_squares * 1.04, -0.82, f"least squares: {least_squares:.2f}", RED)
    axes.plot([4.9, 12.8], [0.68, 0.68], color=RED, lw=1)
    axes.text(8.4, 0.9, "dwarfs, says least squares", color=RED, ha="center", va="center", fontsize=8.5)
    axes.set(xscale="log", xlim=(0.8, 200), ylim=(-1.15, 1.15), yticks=[], xlabel="diameter, 10$^6$ m")
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.spines["left"].set_visible(False)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    save(draw_planets(), options.figures, "planets")
    return boundaries()


if __name__ == "__main__":
    main()
