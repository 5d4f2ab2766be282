"""The losses of the library, drawn from their own methods: ``python examples/losses.py`` writes the figure."""

import argparse

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, PINK, RED, label, plt, save
from maxmargin.parts.losses import (
    EpsilonInsensitive,
    Hinge,
    HuberHinge,
    Logistic,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)

CLASSIFICATION = {
    "hinge": (Hinge(), RED),
    "squared hinge": (SquaredHinge(), BLUE),
    "Huber hinge": (HuberHinge(), ORANGE),
    "logistic": (Logistic(), GREEN),
    "least squares": (Squared(), PINK),
}
REGRESSION = {
    "least squares": (Squared(), PINK),
    "insensitive": (EpsilonInsensitive(0.5), RED),
    "insensitive, squared": (SquaredEpsilonInsensitive(0.5), BLUE),
}


def misclassification(z, y):
    """The ideal loss: 1 on the wrong side, 0 on the right one; no convex function, hence none of the library."""
    return float(y * z <= 0.0)


def values(loss, z, y=1.0):
    """The loss at scores, by its own method."""
    return np.array([loss.value(float(score), y) for score in z])


def dual_terms(loss, a, y=1.0):
    """``-loss*(-a)``, what a sample of weight 1 adds to the dual; infinite values are left out."""
    terms = np.array([-loss.conjugate(float(-variable), y) for variable in a])
    return np.where(np.isfinite(terms), terms, np.nan)


def draw_losses():
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11.5, 4.3), width_ratios=[1.5, 1.0, 1.0], layout="constrained"
    )
    draw_classification(left)
    draw_regression(middle)
    draw_duals(right)
    return figure


def draw_classification(axes):
    m = np.linspace(-2.2, 3.0, 521)
    for start, stop, shade, text in (
        (-2.2, 0.0, "#f0e4e0", "wrong side"),
        (0.0, 1.0, "#f6f2ea", "too close"),
        (1.0, 3.0, "#ffffff", "easy: should cost nothing"),
    ):
        axes.axvspan(start, stop, color=shade, lw=0, zorder=-2)
        axes.text(stop - 0.06, 4.28, text, ha="right", va="center", color=GREY, fontsize=8.5)
    ideal = np.array([misclassification(score, 1.0) for score in m])
    axes.step(m, ideal, where="mid", color=BLACK, ls=(0, (4, 2)), lw=1.3)
    for loss, colour in CLASSIFICATION.values():
        axes.plot(m, values(loss, m), color=colour)
    along = {"rotation": -43, "rotation_mode": "anchor", "ha": "center", "bbox": None}
    label(axes, -1.62, 2.72, "hinge", RED, va="bottom", **along)
    label(axes, -1.45, 2.12, "Huber hinge", ORANGE, va="top", **along)
    label(axes, -0.78, 3.6, "squared hinge", BLUE)
    label(axes, -2.12, 1.78, "logistic", GREEN, va="top")
    label(axes, 2.62, 1.62, "least\nsquares", PINK, ha="right")
    label(axes, -2.12, 0.88, "misclassification", BLACK, va="top")
    axes.set(xlim=(-2.2, 3.0), ylim=(-0.06, 4.5), xlabel="margin  y z", ylabel="loss of a sample")
    axes.set_title("Classification")


def draw_regression(axes):
    r = np.linspace(-2.5, 2.5, 501)
    axes.axvspan(-0.5, 0.5, color="#f6f2ea", lw=0, zorder=-2)
    axes.text(0.0, 2.86, "tube", ha="center", color=GREY, fontsize=8.5)
    for loss, colour in REGRESSION.values():
        axes.plot(r, values(loss, r, 0.0), color=colour)
    label(axes, 0.0, 0.3, "least\nsquares", PINK, ha="center", va="bottom", bbox=None)
    label(axes, 1.9, 2.6, "insensitive,\nsquared", BLUE, ha="right", va="top")
    label(axes, 1.38, 0.62, "insensitive", RED, va="top")
    axes.set(xlim=(-2.5, 2.5), ylim=(-0.04, 3.0), xlabel="error  z - y")
    axes.set_title("Regression, epsilon = 1/2")


def draw_duals(axes):
    a = np.linspace(-0.4, 2.4, 701)
    for loss, colour in CLASSIFICATION.values():
        axes.plot(a, dual_terms(loss, a), color=colour)
    label(axes, 0.92, 0.96, "hinge", RED, ha="right", va="bottom")
    label(axes, 1.06, 0.68, "Huber\nhinge", ORANGE, va="center")
    label(axes, 0.5, 0.74, "logistic", GREEN, ha="center", va="bottom")
    label(axes, 1.85, 1.05, "squared hinge", BLUE, ha="center", va="bottom")
    label(axes, 1.72, 0.2, "least\nsquares", PINK, ha="right", va="center")
    axes.axhline(0.0, color=GREY, lw=0.6, zorder=-1)
    axes.set(xlim=(-0.4, 2.4), ylim=(-0.5, 1.25), xlabel="dual variable  y a", ylabel="term in the dual")
    axes.set_title("The same, in the dual")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    return save(draw_losses(), options.figures, "losses")


if __name__ == "__main__":
    main()
