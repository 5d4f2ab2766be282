"""All LASSO solutions at once: the exact path, the Pareto curve, and the best subsets that they approximate.

``python examples/sparse_paths.py`` writes the figure.
"""

import argparse

import numpy as np
from sklearn.datasets import load_diabetes

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, PINK, RED, SKY, label, plt, save
from maxmargin import best_subset, lasso_homotopy, pareto_curve

COLOURS = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK, GREY, "#7a5195", "#a05a2c")
PRICE = 0.25  # of the largest: where the tangent is drawn


def planted(n=40, d=100, seed=0):
    """Equations of a model with three coefficients, and noise."""
    rng = np.random.default_rng(seed)
    A, w = rng.normal(size=(n, d)) / np.sqrt(n), np.zeros(d)
    w[:3] = 3.0, -2.0, 1.0
    return A, A @ w + 0.05 * rng.normal(size=n), w


def draw_path(axes, path, names):
    """Coefficients against the sum of their sizes: straight lines between breakpoints."""
    path.plot(axes)
    for line, name, colour in zip(axes.lines[-len(names) :], names, COLOURS, strict=True):
        line.set(color=colour, linewidth=1.4)
        end = line.get_ydata()[-1]
        if abs(end) > 250.0:
            label(axes, path.norms[-1] * 1.01, end - (35.0 if name == "s2" else 0.0), name, colour)
    axes.axhline(0.0, color=GREY, lw=0.6, zorder=-1)
    axes.set(xlim=(0.0, path.norms[-1] * 1.1), xlabel="|w|₁", ylabel="coefficients (diabetes)")
    axes.set_title("The path: linear between breakpoints")


def draw_curve(axes, curve):
    """The smallest error for every norm, with a tangent whose slope is the price."""
    t = np.linspace(0.0, 1.12 * curve.norms[-1], 300)
    values = curve.error_at(t)
    axes.fill_between(t, 0.0, values, color="#f0e4e0", lw=0)
    curve.plot(axes)
    for line in axes.lines:
        line.set_color(BLUE)
    found = curve.penalised(PRICE * curve.lambdas[0])
    tangent = found.error - found.lam * (t - found.norm)
    axes.plot(t, np.where((tangent > 0.0) & (tangent < values[0]), tangent, np.nan), color=RED, lw=1.2)
    axes.plot([found.norm], [found.error], "o", color=RED)
    label(axes, found.norm + 0.25, found.error, "slope  -λ", RED)
    label(axes, 0.35, 0.08 * values[0], "no w is here", GREY, bbox=None)
    axes.set(xlim=(0.0, t[-1]), ylim=(0.0, 1.03 * values[0]), xlabel="|w|₁", ylabel="|Aw - d|²")
    axes.set_title("The curve of all compromises")


def draw_subsets(axes, best, path, y):
    """The smallest errors with so many features, and those of the LASSO and of its support without the penalty."""
    X, total = load_diabetes().data, float(((y - y.mean()) ** 2).sum())
    sizes, shrunken, refitted = [], [], []
    for k in range(1, 11):
        coef, intercept = path.at(path.with_features(k))
        support = np.flatnonzero(coef)
        columns = np.column_stack([X[:, support], np.ones(y.size)])
        sizes.append(support.size)
        shrunken.append(((y - X @ coef - intercept) ** 2).sum() / total)
        refitted.append(((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2).sum() / total)
    axes.plot(range(11), best.errors / total, "o-", color=GREEN)
    axes.plot(sizes, shrunken, "o-", color=BLUE)
    axes.plot(sizes, refitted, "o-", color=ORANGE, ms=4)
    label(axes, 2.4, 0.615, "LASSO", BLUE)
    label(axes, 5.2, 0.535, "its features, fitted again", ORANGE)
    label(axes, 1.2, 0.475, "best subsets", GREEN)
    axes.set(xlim=(0.6, 10.2), ylim=(0.46, 0.72), xlabel="features", ylabel="share of the variance that is left")
    axes.set_title("What it approximates")
    return np.array(refitted) * total


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    data = load_diabetes()
    path, best = lasso_homotopy(data.data, data.target), best_subset(data.data, data.target)
    A, d, _ = planted()
    curve = pareto_curve(A, d)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.5, 4.0), layout="constrained")
    draw_path(left, path, data.feature_names)
    draw_curve(middle, curve)
    refitted = draw_subsets(right, best, path, data.target)
    save(figure, options.figures, "sparse_paths")
    return path, curve, best, refitted


if __name__ == "__main__":
    main()
