"""More data, less work, continued: work against the accuracy that is asked for, and against the difficulty.

``python examples/accuracy_and_margin.py`` draws the second figure of ``docs/more_data_less_work.md`` and prints its
numbers. The source is that of ``more_data_less_work.py``; for the second study the direction that tells the classes
apart is squeezed, so that the same error needs a longer ``w``: a smaller margin.
"""

import argparse
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from drawing import BLUE, FIGURES, GREEN, GREY, ORANGE, RED, label, plt, save
from more_data_less_work import PATHS, Gaussians, arrivals, quantiles

COLOURS = dict(zip(PATHS, (BLUE, GREEN, RED, ORANGE), strict=True))
ACCURACIES = (0.16, 0.08, 0.04, 0.02, 0.01, 0.005)
MARGINS = (1.0, 0.5, 0.25, 0.125)


@dataclass(frozen=True)
class Squeezed(Gaussians):
    """The same clouds, ``margin`` times as long in the direction of the centres: so is the margin of every ``w``.

    The errors that can be reached stay the same, and so does ``lam |w|^2`` at the optimum.
    """

    margin: float = 1.0

    @property
    def strength(self):
        """``lam`` for a ``w`` that is ``1 / margin`` times as long."""
        return self.lam * self.margin**2

    def draw(self, n, seed):
        X, y = super().draw(n, seed)
        along = (self.mean / self.separation).astype(np.float32)
        return X + np.outer((self.margin - 1.0) * (X @ along), along).astype(np.float32), y

    def risk(self, w):
        """The margin is normal as before; what is along the centres counts ``margin`` times."""
        along = float(w @ self.mean) / self.separation
        slack = 1.0 - self.margin * self.separation * along
        spread = math.sqrt(max(float(w @ w) + (self.margin**2 - 1.0) * along**2, 0.0))
        if spread == 0.0:
            return max(0.0, slack)
        t = slack / spread
        return slack * float(ndtr(t)) + spread * math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)

    @cached_property
    def optimum(self):
        """``argmin strength |w|^2 / 2 + risk(w)``."""

        def objective(c):
            return 0.5 * self.strength * float(c * c * self.mean @ self.mean) + self.risk(c * self.mean)

        return self.mean * minimize_scalar(objective, bounds=(0.0, 100.0 / self.margin), options={"xatol": 1e-10}).x


def study(source, targets, n, repetitions, patience):
    """For every method: rows read and processor seconds until each excess risk; NaN where it never came."""
    best, found = source.risk(source.optimum), {}
    for method, path in PATHS.items():
        hits = []
        for repetition in range(repetitions):
            X, y = source.draw(n, repetition)
            hits.append(arrivals(path(X, y, source.strength), lambda w: source.risk(w) - best, targets, patience))
        found[method] = np.array(hits)  # (repetition, target, seconds or rows)
    return found


def measure(n, repetitions, patience, target=0.02, margins=MARGINS, accuracies=ACCURACIES):
    """Both studies: medians of seconds and rows by method, against the accuracy and against the margin."""
    study(Squeezed(), [-1.0], n, 1, 5 * n)  # compile before the clock runs
    accuracy = study(Squeezed(), accuracies, n, repetitions, patience)
    by_accuracy = {method: quantiles(hits, 0.5) for method, hits in accuracy.items()}
    columns = [study(Squeezed(margin=margin), [target], n, repetitions, patience) for margin in margins]
    by_margin = {method: np.array([quantiles(one[method], 0.5)[0] for one in columns]) for method in PATHS}
    return by_accuracy, by_margin


def draw(by_accuracy, by_margin, target, margins=MARGINS, accuracies=ACCURACIES):
    """Above rows, below seconds; on the left against the accuracy, on the right against the margin."""
    figure, grid = plt.subplots(2, 2, figsize=(9, 6.4), sharex="col", sharey="row", layout="constrained")
    for column, (x, found) in enumerate(((accuracies, by_accuracy), (margins, by_margin))):
        for row, which in enumerate((1, 0)):
            axes = grid[row, column]
            for method, values in found.items():
                axes.plot(
                    x, np.where(np.isfinite(values), values, np.nan)[:, which], color=COLOURS[method], marker="o", ms=4
                )
            axes.set(xscale="log", yscale="log")
            axes.minorticks_off()
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.grid(color="#eeeeee", lw=0.6)
    for column, (x, power) in enumerate(((accuracies, 1.0), (margins, 2.0))):
        start = next(iter((by_accuracy, by_margin)[column].values()))[0, 1]
        grid[0, column].plot(x, start * (x[0] / np.array(x)) ** power, color=GREY, lw=0.8, ls=":")
        label(grid[0, column], x[1], 0.45 * start, ("1 / accuracy", "1 / margin$^2$")[column], GREY, ha="center")
        grid[0, column].invert_xaxis()
    grid[0, 0].set_title("Target accuracy")
    grid[0, 1].set_title(f"Difficulty, to an excess risk of {target:g}")
    grid[1, 0].set_xlabel("excess risk to reach")
    grid[1, 1].set_xlabel("margin, against that of the first study")
    grid[0, 0].set_ylabel("rows read")
    grid[1, 0].set_ylabel("processor seconds")
    handles = [plt.Line2D([], [], color=colour, marker="o", ms=4) for colour in COLOURS.values()]
    figure.legend(handles, list(COLOURS), ncols=4, loc="outside upper center")
    return figure


def report(by_accuracy, by_margin, margins=MARGINS, accuracies=ACCURACIES):
    """The numbers of the figure, as text."""
    lines = []
    for title, x, found in (("excess risk", accuracies, by_accuracy), ("margin", margins, by_margin)):
        lines += ["", f"{title:16s}" + " ".join(f"{value:17g}" for value in x)]
        for method, values in found.items():
            lines.append(f"{method:16s}" + " ".join(f"{rows:9.0f} ({1e3 * s:5.1f})" for s, rows in values))
    return "\n".join(["median rows read (processor ms)", *lines])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples, one repetition")
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    n, repetitions, patience, target = (4000, 1, 60_000, 0.04) if options.quick else (32_000, 3, 600_000, 0.02)
    by_accuracy, by_margin = measure(n, repetitions, patience, target)
    print(report(by_accuracy, by_margin))
    save(draw(by_accuracy, by_margin, target), options.figures, "more_data_accuracy")
    return by_accuracy, by_margin


if __name__ == "__main__":
    main()
