"""More data, less work: how long until a fixed test error, and what an error consists of, as the sample grows.

``python examples/more_data_less_work.py`` draws the two figures of ``docs/more_data_less_work.md`` and prints their
numbers. The default source is synthetic, so that the risk over all samples that there could be is a formula.
``--data DIR`` takes the covtype file of a folder of LIBSVM files instead, half of which is held out to estimate it.
"""

import argparse
import math
import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from drawing import BLUE, FIGURES, GREEN, GREY, ORANGE, RED, SKY, label, plt, save
from maxmargin import Problem, SGDClassifier, minimize
from maxmargin.io import read_libsvm
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import make_solver

CHUNK = 1000  # rows of a stream at a time
EXACT_MORE = 4
SHADES = [ORANGE, GREEN, BLUE]  # of the targets, from loose to tight


@dataclass(frozen=True)
class Gaussians:
    """Two round normal clouds, ``x = y mean + noise``.

    The margin ``y x.w`` is normal, so the risk of every ``w`` is known exactly, and so is that of the best function.
    """

    name: str = "two normal clouds"
    prefix: str = "more_data"  # of the figures
    d: int = 50
    separation: float = 1.5  # half the distance of the centres, in standard deviations
    lam: float = 1e-3
    targets: tuple[float, ...] = (1e-2, 5e-3, 2.5e-3)

    @property
    def mean(self):
        return np.full(self.d, self.separation / math.sqrt(self.d))

    def draw(self, n, seed):
        random = np.random.default_rng([seed, n])
        y = random.choice([-1.0, 1.0], size=n)
        X = random.standard_normal((n, self.d), dtype=np.float32)
        X += (y[:, None] * self.mean).astype(np.float32)
        return X, y

    def risk(self, w):
        """``E max(0, 1 - y x.w)``."""
        slack, spread = 1.0 - float(w @ self.mean), float(np.linalg.norm(w))
        if spread == 0.0:
            return max(0.0, slack)
        t = slack / spread
        return slack * float(ndtr(t)) + spread * math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)

    @property
    def least_risk(self):
        """Of any function: the best costs 2 for every sample on the wrong side of the boundary and 0 for the others."""
        return 2.0 * float(ndtr(-self.separation))

    @cached_property
    def optimum(self):
        """``argmin lam |w|^2 / 2 + risk(w)``, which by symmetry points to the centre of a cloud."""
        objective = lambda c: 0.5 * self.lam * float(c * c * self.mean @ self.mean) + self.risk(c * self.mean)  # noqa: E731
        return self.mean * minimize_scalar(objective, bounds=(0.0, 100.0), options={"xatol": 1e-10}).x


@dataclass(frozen=True)
class HeldOut:
    """Samples of a file to draw from, and others to estimate the risk."""

    X: np.ndarray  # standardised, with a column of ones
    y: np.ndarray
    name: str
    prefix: str = "held_out"
    held_out: int = 100_000
    lam: float = 1e-3
    targets: tuple[float, ...] = (2e-2, 1e-2, 5e-3)
    least_risk: float = 0.0  # of any function: unknown, so the approximation part is the whole risk of the optimum

    @classmethod
    def read(cls, path):
        X, y = read_libsvm(path)
        X = X.toarray()
        scale = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
        X = np.column_stack([X, np.ones(y.size)]).astype(np.float32)
        order = np.random.default_rng(0).permutation(y.size)
        return cls(X[order], np.where(y == y.max(), 1.0, -1.0)[order], Path(path).name.split(".")[0])

    def draw(self, n, seed):
        chosen = np.random.default_rng([seed, n]).choice(self.y.size - self.held_out, size=n, replace=False)
        return self.X[self.held_out + chosen], self.y[self.held_out + chosen]

    def risk(self, w):
        X, y = self.X[: self.held_out], self.y[: self.held_out]
        return float(np.maximum(0.0, 1.0 - y * (X @ w.astype(np.float32))).mean())

    @cached_property
    def optimum(self):
        """An estimate: the minimiser over all samples that are not held out."""
        return exact_minimiser(pose(self.X[self.held_out :], self.y[self.held_out :], self.lam)).point.w


def pose(X, y, lam):
    """``n`` times ``lam |w|^2 / 2 + mean of the hinge losses``."""
    return Problem(Rows(X), y, Hinge(), L2(lam * y.size), np.ones(y.size), None)


def exact_minimiser(problem):
    return minimize(problem, make_solver("newton"), tol=1e-8)


# A path is a sequence of (processor seconds, rows read, w). What happens between two steps is not counted.


def solver_path(name, X, y, lam):
    """The points of a solver after every epoch or step; of ``pegasos``, whose steps are tiny, after 12 % more steps."""
    problem, solver = pose(X, y, lam), make_solver(name)
    began = time.process_time()
    state = solver.start(problem, None)
    seconds = time.process_time() - began
    while True:
        limit = max(250, state.iterations // 8) if name == "pegasos" else 1
        began = time.process_time()
        state = solver.advance(problem, state, limit)
        seconds += time.process_time() - began
        yield seconds, state.counters["passes"] * y.size, solver.point(problem, state).w


def stream_path(X, y, lam):
    """`partial_fit` on one piece of the data after the other, as often as it takes; nothing looks at all of them."""
    model = SGDClassifier(alpha=lam, fit_intercept=False)
    random, seconds, rows = np.random.default_rng(0), 0.0, 0
    while True:
        for piece in np.array_split(random.permutation(y.size), max(1, y.size // CHUNK)):
            rows += piece.size
            began = time.process_time()
            model.partial_fit(X[piece], y[piece], classes=[-1.0, 1.0])
            seconds += time.process_time() - began
            yield seconds, rows, model.coef_[0]


PATHS = {
    "pegasos": partial(solver_path, "pegasos"),
    "sgd, a stream": stream_path,
    "dual_coordinate": partial(solver_path, "dual_coordinate"),
    "newton": partial(solver_path, "newton"),
}


def arrivals(path, excess, targets, most_rows):
    """For every target, seconds and rows at which the excess risk first is as small; NaN where it never is."""
    found = np.full((len(targets), 2), np.nan)
    for seconds, rows, w in path:
        reached = np.isnan(found[:, 0]) & (excess(w) <= np.asarray(targets))
        found[reached] = seconds, rows
        if rows > most_rows or not np.isnan(found).any():
            break
    return found


@dataclass
class Study:
    """What was measured. Arrays have an axis of repetitions first, then of sizes.

    The cheap exact minimisers are computed for more repetitions than the rest, of which the first are the same samples.
    """

    source: object
    sizes: list
    budget: int  # steps of Pegasos that the split allows
    split_size: int  # samples of the split by steps
    arrivals: dict = field(default_factory=dict)  # method -> (repetition, size, target, seconds or rows)
    estimation: np.ndarray = None  # risk of the exact minimiser on n samples minus that of the optimum
    optimism: np.ndarray = None  # risk of the exact minimiser minus its mean loss on its own samples
    gaps: np.ndarray = None  # certified relative gaps of the exact minimisers
    at_budget: np.ndarray = None  # risk after `budget` steps minus that of the exact minimiser
    one_pass: np.ndarray = None  # risk after one pass over n fresh samples minus that of the optimum
    steps: np.ndarray = None  # at which the split by steps looks
    by_steps: np.ndarray = (
        None  # (repetition, steps): risk minus that of the exact minimiser, with `split_size` samples
    )
    training_steps: np.ndarray = None  # (repetition, size, accuracy): until the training objective is so close
    accuracies: tuple = (1e-2, 3e-3, 1e-3)

    @property
    def approximation(self):
        return self.source.risk(self.source.optimum) - self.source.least_risk

    def smallest_size(self, k):
        """The number of samples with which the exact minimiser's excess risk falls through a target."""
        falling = np.log(np.maximum(np.median(self.estimation, axis=0), 1e-12))[::-1]
        return math.exp(np.interp(math.log(self.source.targets[k]), falling, np.log(self.sizes)[::-1]))


def measure(source, sizes, repetitions, budget, split_size, patience, passes=60, progress=lambda text: None):
    """Everything that the figures show; `EXACT_MORE` times as many repetitions for the exact minimisers.

    A method that is not there after ``patience`` rows and ``passes`` is given up; so is Pegasos after so many steps.
    """
    study = Study(source, list(sizes), budget, split_size)
    best = source.risk(source.optimum)
    excess = lambda w: source.risk(w) - best  # noqa: E731
    for path in PATHS.values():  # compile before the clock runs
        arrivals(path(*source.draw(200, 0), source.lam), excess, [-1.0], 2000)
    shape, exact_shape = (repetitions, len(sizes)), (EXACT_MORE * repetitions, len(sizes))
    study.arrivals = {method: np.full((*shape, len(source.targets), 2), np.nan) for method in PATHS}
    study.estimation, study.optimism, study.gaps = (np.full(exact_shape, np.nan) for _ in range(3))
    study.at_budget, study.one_pass = np.full(shape, np.nan), np.full(shape, np.nan)
    study.training_steps = np.full((*shape, len(study.accuracies)), np.nan)
    study.steps = np.unique(np.geomspace(200, 20 * budget, 25).astype(int))
    study.by_steps = np.full((repetitions, study.steps.size), np.nan)
    for repetition in range(EXACT_MORE * repetitions):
        for j, n in enumerate(sizes):
            X, y = source.draw(n, repetition)
            problem = pose(X, y, source.lam)
            solution = exact_minimiser(problem)
            w, at = solution.point.w, (repetition, j)
            study.gaps[at], study.estimation[at] = solution.certificate.relative_gap, excess(w)
            study.optimism[at] = source.risk(w) - problem.losses(problem.operator.apply(w)) / n
            if repetition < repetitions:
                for method, path in PATHS.items():
                    hits = arrivals(path(X, y, source.lam), excess, source.targets, max(patience, passes * n))
                    study.arrivals[method][at] = hits
                study.at_budget[at] = excess(next(pegasos_at([budget], X, y, source.lam))) - excess(w)
                study.one_pass[at] = excess(next(pegasos_at([n], X, y, source.lam)))
                optimum = solution.certificate.primal / n
                study.training_steps[at] = steps_to(study.accuracies, X, y, source.lam, optimum, patience)
            progress(f"{source.name}: repetition {repetition + 1}, {n} samples")
    for repetition in range(repetitions):
        X, y = source.draw(split_size, repetition)
        study.by_steps[repetition] = [excess(w) for w in pegasos_at(study.steps, X, y, source.lam)]
        study.by_steps[repetition] -= excess(exact_minimiser(pose(X, y, source.lam)).point.w)
    return study


def steps_to(accuracies, X, y, lam, optimum, most_steps):
    """Steps of Pegasos until the training objective, ``lam |w|^2 / 2`` and a mean, is so close to its optimum."""
    found = np.full(len(accuracies), np.nan)
    steps = np.unique(np.geomspace(250, most_steps, 33).astype(int))
    for k, w in zip(steps, pegasos_at(steps, X, y, lam), strict=True):
        value = 0.5 * lam * float(w @ w) + float(np.maximum(0.0, 1.0 - y * (X @ w)).mean())
        found[np.isnan(found) & (value - optimum <= np.asarray(accuracies))] = k
        if not np.isnan(found).any():
            break
    return found


def pegasos_at(steps, X, y, lam):
    """The points of Pegasos after so many steps."""
    problem, solver = pose(X, y, lam), make_solver("pegasos")
    state = solver.start(problem, None)
    for k in steps:
        while state.iterations < k:
            state = solver.advance(problem, state, int(k) - state.iterations)
        yield solver.point(problem, state).w


def draw_times(study):
    """One column per method: rows read and processor time until the targets, against the number of samples."""
    methods, targets = list(PATHS), study.source.targets
    figure, grid = plt.subplots(2, len(methods), figsize=(11, 5.6), sharex=True, sharey="row", layout="constrained")
    for column, method in enumerate(methods):
        for row, (which, unit) in enumerate(((1, 1.0), (0, 1e3))):
            axes = grid[row, column]
            for k in range(len(targets)):
                draw_band(axes, study.sizes, unit * study.arrivals[method][:, :, k, which], SHADES[k])
                if row == 0 and column < 2:
                    draw_law(axes, study, method, k)
            if row == 0 and column > 1:
                axes.plot(study.sizes, study.sizes, color=GREY, lw=0.8, ls=":", zorder=0)
                label(axes, study.sizes[-1], study.sizes[-1] * 0.3, "one pass", GREY, ha="right", va="top")
            axes.set(xscale="log", yscale="log")
            axes.minorticks_off()
            axes.grid(color="#eeeeee", lw=0.6)
        grid[0, column].set_title(method)
        grid[1, column].set_xlabel("training samples n")
    label(grid[1, 0], 0.04, 0.93, "with the upkeep of dual variables", GREY, transform=grid[1, 0].transAxes)
    grid[0, 0].set_ylabel("rows read until the target")
    grid[1, 0].set_ylabel("processor time, ms")
    handles = [plt.Line2D([], [], color=SHADES[k], marker="o", ms=4) for k in range(len(targets))]
    names = [f"{target:g}" for target in targets]
    handles.append(plt.Line2D([], [], color=GREY, lw=1, ls="--"))
    figure.legend(
        handles,
        [*names, "T / (1 - m/n)"],
        ncols=len(handles),
        loc="outside upper center",
        title="excess risk to reach, against the best w that there is",
    )
    return figure


def quantiles(values, shares):
    """Over the repetitions. One that never arrived counts as infinite, so that the lucky ones are not overrated."""
    return np.quantile(np.nan_to_num(values, nan=np.inf), shares, axis=0, method="inverted_cdf")


def draw_band(axes, sizes, values, colour):
    """Median and quartiles, where more than half of the repetitions arrived."""
    low, middle, high = np.where(np.isfinite(bands := quantiles(values, [0.25, 0.5, 0.75])), bands, np.nan)
    axes.fill_between(sizes, low, np.where(np.isnan(high), middle, high), color=colour, alpha=0.2, lw=0)
    axes.plot(sizes, middle, color=colour, marker="o", ms=3.5)


def draw_law(axes, study, method, k):
    """The predicted shape ``T / (1 - m / n)``: ``m`` from the exact minimisers, ``T`` from the largest samples."""
    m = study.smallest_size(k)
    plenty = [j for j, n in enumerate(study.sizes) if n >= 8 * m]
    if plenty:
        T = np.median(quantiles(study.arrivals[method][:, plenty, k, 1], 0.5))
        n = np.geomspace(m * 1.02, study.sizes[-1], 60)
        axes.plot(n, T / (1.0 - m / n), color=GREY, lw=1, ls="--", zorder=0)


def draw_parts(study):
    """The split of the excess risk by steps and by samples, the rates, and the steps to a training accuracy."""
    figure, ((by_steps, by_size), (rates, training)) = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    sizes, mean = np.asarray(study.sizes), partial(np.mean, axis=0)
    of_the_same = study.estimation[: len(study.at_budget)]
    stack(by_size, sizes, study.approximation, mean(of_the_same), mean(study.at_budget))
    by_size.set(xlabel="training samples n")
    by_size.set_title(f"{study.budget:,} steps, more and more samples")
    there = float(np.interp(math.log(study.split_size), np.log(sizes), mean(study.estimation)))
    stack(by_steps, study.steps, study.approximation, np.full(study.steps.size, there), mean(study.by_steps))
    by_steps.set(xlabel="steps of Pegasos", ylabel="risk above the best of all functions")
    by_steps.set_title(f"{study.split_size:,} samples, more and more steps")
    for axes in (by_steps, by_size):
        axes.set_ylim(0.0, 3.0 * study.approximation)
        label(axes, 0.5, 0.17, "approximation", "#555555", transform=axes.transAxes, ha="center", bbox=None)
    label(by_steps, 0.08, 0.45, "optimisation", BLUE, transform=by_steps.transAxes, bbox=None)
    label(by_steps, 0.97, 0.48, "estimation", RED, transform=by_steps.transAxes, ha="right", bbox=None)
    label(by_size, 0.97, 0.48, "optimisation", BLUE, transform=by_size.transAxes, ha="right", bbox=None)
    label(by_size, 0.03, 0.60, "estimation", RED, transform=by_size.transAxes, bbox=None)

    draw_rates(rates, study)
    draw_training(training, study)
    return figure


def draw_rates(axes, study):
    """How fast errors vanish. Dotted: the standard error of a mean loss, and ``c / n`` through the estimation part."""
    sizes, optimism = np.asarray(study.sizes), np.sqrt(np.mean(study.optimism**2, axis=0))
    estimation, one_pass = study.estimation.mean(axis=0), study.one_pass.mean(axis=0)
    for values, colour in ((optimism, GREEN), (one_pass, BLUE), (estimation, RED)):
        axes.plot(sizes, values, color=colour, marker="o", ms=3.5)
    X, y = study.source.draw(100_000, 10**6)
    deviation = np.maximum(0.0, 1.0 - y * (X @ study.source.optimum)).std()
    axes.plot(sizes, deviation / np.sqrt(sizes), color=GREEN, lw=1, ls=":")
    axes.plot(sizes, np.median(estimation * sizes) / sizes, color=RED, lw=1, ls=":")
    place = {"transform": axes.transAxes, "ha": "right"}
    label(axes, 0.97, 0.94, "exact minimiser, risk - training loss", GREEN, **place)
    label(axes, 0.97, 0.87, "Pegasos, one pass over fresh samples", BLUE, **place)
    label(axes, 0.42, 0.1, "exact minimiser", RED, **place)
    axes.set(xscale="log", yscale="log", xlabel="training samples n", ylabel="excess risk")
    axes.set_title("Rates (dotted: $\\sigma/\\sqrt{n}$ and $c/n$)")
    axes.grid(color="#eeeeee", lw=0.6)


def draw_training(axes, study):
    for k, accuracy in enumerate(study.accuracies):
        draw_band(axes, study.sizes, study.training_steps[:, :, k], SHADES[k])
        last = quantiles(study.training_steps[:, -1, k], 0.5)
        label(axes, study.sizes[-1], last * 1.25, f"within {accuracy:g}", SHADES[k], ha="right", va="bottom")
    axes.set(xscale="log", yscale="log", xlabel="training samples n", ylabel="steps of Pegasos")
    axes.set_title("Steps to a fixed training accuracy")
    axes.grid(color="#eeeeee", lw=0.6)


def stack(axes, x, approximation, estimation, optimisation):
    """The parts of the risk on top of each other; the last one may be negative, and then is taken off."""
    floor, exact = np.full(x.size, approximation), approximation + estimation
    total = exact + optimisation
    axes.fill_between(x, 0.0, floor, color="#d9d9d9", lw=0)
    axes.fill_between(x, floor, exact, color=ORANGE, alpha=0.55, lw=0)
    axes.fill_between(x, exact, total, where=total >= exact, color=SKY, alpha=0.55, lw=0, interpolate=True)
    axes.plot(x, exact, color=RED, lw=1.2)
    axes.plot(x, total, color=BLUE)
    axes.set(xscale="log", xlim=(x[0], x[-1]))


def report(study):
    """The numbers of the figures, as text."""
    source, lines = study.source, []
    lines += [f"{source.name}: lam {source.lam:g}, approximation part {study.approximation:.4f}"]
    lines += [f"largest certified relative gap of an exact minimiser: {np.nanmax(study.gaps):.1e}"]
    lines += ["", "median rows read (processor ms) until the excess risk", ""]
    for k, target in enumerate(source.targets):
        lines.append(
            f"  {target:g}; the exact minimiser gets there with {study.smallest_size(k):.0f} samples, if not fewer"
        )
        for method in PATHS:
            seconds, rows = np.moveaxis(quantiles(study.arrivals[method][:, :, k], 0.5), -1, 0)
            cells = [f"{r:9.0f} ({1e3 * t:5.1f})" for t, r in zip(seconds, rows, strict=True)]
            lines.append(f"    {method:16s}" + " ".join(cells))
    rows = {
        "n": study.sizes,
        "estimation": study.estimation.mean(axis=0),
        f"optimisation, {study.budget} steps": study.at_budget.mean(axis=0),
        "one pass": study.one_pass.mean(axis=0),
        "risk - training loss (rms)": np.sqrt((study.optimism**2).mean(axis=0)),
    }
    lines += ["", *(f"{name:32s}" + " ".join(f"{value:9.4g}" for value in values) for name, values in rows.items())]
    for k, accuracy in enumerate(study.accuracies):
        steps = quantiles(study.training_steps[:, :, k], 0.5)
        lines.append(f"{f'steps to training accuracy {accuracy:g}':32s}" + " ".join(f"{value:9.0f}" for value in steps))
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DIR", help="folder of LIBSVM files, for covtype instead of the clouds")
    parser.add_argument("--quick", action="store_true", help="few samples, two repetitions")
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write them")
    options = parser.parse_args(arguments)
    if options.data:
        source = HeldOut.read(Path(options.data) / "covtype.binary" / "covtype.binary.train.libsvm.xz")
        sizes, repetitions = [4000, 16000, 64000, 256000], 3
    else:
        source, sizes, repetitions = Gaussians(), [2000 * 2**k for k in range(8)], 5
    if options.quick:
        study = measure(source, [1000, 5000, 20_000], 2, 1000, 4000, patience=30_000, passes=30)
    else:
        study = measure(source, sizes, repetitions, 4000, 8000, patience=400_000, progress=print)
    print(report(study))
    save(draw_times(study), options.figures, f"{source.prefix}_time")
    save(draw_parts(study), options.figures, f"{source.prefix}_parts")
    return study


if __name__ == "__main__":
    main()
