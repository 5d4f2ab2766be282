"""What Saddle-DSVC sends over a star of a server and clients: numbers and rounds, counted, for hard margins and nu-SVM.

``python examples/communication.py`` draws the two figures of ``docs/saddle.md`` and prints their numbers: some minutes.
Server and clients are threads of this process; what they send is what they would send over a network.
"""

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, label, plt, save
from maxmargin import Certificate, HullDistance, bounds, minimize
from maxmargin.communicators import Counting, Star, run_in_process
from maxmargin.loop.certificate import certify_point as certify
from maxmargin.operators import Rows, Sharded
from maxmargin.solvers import Gilbert, Saddle

PAPER, PRACTICAL, GILBERT = "the paper's rule", "all coordinates at once", "Gilbert"
COLOURS = {PAPER: ORANGE, PRACTICAL: BLUE, GILBERT: GREEN}
HARD, NU = "hard margin", "nu-SVM"
PER_STEP = 11  # numbers between a client and the server in a step of the paper's rule: seven up, four down
MOST_STEPS = 20_000  # after which a method is given up


@dataclass(frozen=True)
class Setting:
    """Two hulls whose distance is to be found to the accuracy ``eps`` by ``k`` clients, from ``n`` rows of ``d``."""

    kind: str = HARD
    eps: float = 0.1
    d: int = 32
    k: int = 2
    n: int = 1000
    street: float = 0.3  # planted between the classes; rows have length 1 at most

    def rows(self):
        """Gaussian rows in the unit ball, and their classes. The clients get them in the order of one score.

        For nu-SVM a twentieth of the labels is wrong, and no row may have more than ten thirds of an equal share.
        """
        random = np.random.default_rng(self.d)
        X = random.standard_normal((self.n, self.d)) / math.sqrt(self.d)
        normal = random.standard_normal(self.d)
        normal /= np.linalg.norm(normal)
        X, y = X[order := np.argsort(X @ normal)], np.where(X[order] @ normal > 0.0, 1.0, -1.0)
        X += np.outer(0.5 * self.street * y, normal)
        if self.kind == NU:
            y[random.choice(self.n, self.n // 20, replace=False)] *= -1.0
        return X / np.linalg.norm(X, axis=1).max(), y

    def caps(self, y):
        """The largest share of each row in its class."""
        if self.kind == HARD:
            return np.ones(y.size)
        return np.where(y > 0.0, 1.0 / (0.3 * np.sum(y > 0.0)), 1.0 / (0.3 * np.sum(y < 0.0)))

    @property
    def promise(self):
        """``k (d + sqrt(d / eps))``, without what the paper's notation hides."""
        return self.k * (self.d + math.sqrt(self.d / self.eps))

    @property
    def lower_bound(self):
        """``k min(d, 1 / eps)``: nobody can do with less, up to a constant."""
        return bounds.fewest_numbers(self.eps, self.d, self.k)


@dataclass(frozen=True)
class Measured:
    """What it took: iterations, rounds, and what passed between the server and one client, in both directions.

    ``hidden`` is the promise with its factors, and infinite gaps are those of methods that were given up.
    """

    setting: Setting
    iterations: int
    rounds: int
    scalars: int
    gap: float
    hidden: float

    @property
    def total(self):
        """Numbers between the server and all clients."""
        return self.setting.k * self.scalars


def solver_of(method, setting, gamma):
    """The paper's rule with its own projection, the practical form, or Gilbert's."""
    if method == GILBERT:
        return Gilbert()
    return Saddle(block_size=1, continuation=False, gamma=gamma, selection=False) if method == PAPER else Saddle()


def measure(setting, method):
    """Run server and clients, step by step until the gap that the solver knows of is small enough, and count."""
    X, y = setting.rows()
    caps = setting.caps(y)
    optimum = -minimize(HullDistance(Rows(X), y, caps), Saddle(), tol=1e-4).certificate.dual
    gamma = bounds.saddle_gamma(setting.eps, optimum, y.size)
    solver = solver_of(method, setting, gamma)

    def client(communicator, shard):
        counting = Counting(communicator)
        problem = HullDistance(Sharded(Rows(X[shard]), Star(counting)), y[shard], caps[shard])
        state = solver.start(problem, None)
        while Certificate(*state.estimate).relative_gap > setting.eps and state.iterations < MOST_STEPS:
            state = solver.advance(problem, state, 1)
        sent = replace(counting.traffic)
        gap = Certificate(*state.estimate).relative_gap
        return state.iterations, sent, gap, certify(problem, solver.point(problem, state))

    shards = [np.arange(0), *np.array_split(np.arange(y.size), setting.k)]  # the server has no rows
    iterations, traffic, gap, certificate = run_in_process(client, shards, timeout=600.0)[1]
    q = math.sqrt(setting.d) * float(np.abs(X).max())
    steps = setting.d + q * math.sqrt(setting.d / gamma)
    hidden = setting.k * PER_STEP * steps * max(1.0, math.log(1.0 / setting.eps))
    found = certificate.relative_gap if gap <= setting.eps else math.inf
    return Measured(setting, iterations, traffic.rounds, traffic.scalars + traffic.received, found, hidden)


def sweeps(quick, kind):
    """The three axes of the figure: one number changes, the others stay."""
    base = Setting(kind, n=300, d=8) if quick else Setting(kind)
    changes = {
        "eps": (0.3, 0.1) if quick else (0.3, 0.1, 0.03, 0.01),
        "d": (4, 16) if quick else (8, 16, 32, 64, 128),
        "k": (1, 3) if quick else (1, 2, 4, 8),
    }
    return {axis: [replace(base, **{axis: value}) for value in values] for axis, values in changes.items()}


def study(quick=False, progress=lambda text: None):
    """Every measurement, by kind, axis and method; what several axes share is measured once."""
    found, known = {}, {}
    for kind in (HARD, NU):
        for axis, settings in sweeps(quick, kind).items():
            for method in COLOURS:
                progress(f"{kind}, {axis}: {method}")
                for setting in settings:
                    if (setting, method) not in known:
                        known[setting, method] = measure(setting, method)
                found[kind, axis, method] = [known[setting, method] for setting in settings]
    return found


def draw(found):
    """Numbers between the server and all clients, for both problems, and rounds of the first; against eps, d and k."""
    titles = {"eps": r"accuracy $\epsilon$", "d": "features $d$", "k": "clients $k$"}
    figure, grid = plt.subplots(3, 3, figsize=(11, 8.6), sharex="col", sharey="row", layout="constrained")
    for column, axis in enumerate(titles):
        x = [getattr(one.setting, axis) for one in found[HARD, axis, PAPER]]
        for row, (kind, what) in enumerate(((HARD, "total"), (NU, "total"), (HARD, "rounds"))):
            axes = grid[row, column]
            for method, colour in COLOURS.items():
                values = [getattr(one, what) if one.gap < math.inf else math.nan for one in found[kind, axis, method]]
                axes.plot(x, values, color=colour, marker="o", ms=4)
            if what == "total":
                paper = found[kind, axis, PAPER]
                axes.plot(x, [one.hidden for one in paper], color=ORANGE, lw=1, ls="--")
                axes.plot(x, [one.setting.promise for one in paper], color=BLACK, lw=1, ls="--")
                axes.plot(x, [one.setting.lower_bound for one in paper], color=GREY, lw=1, ls=":")
            axes.set(xscale="log", yscale="log")
            axes.grid(color="#eeeeee", lw=0.6)
            axes.minorticks_off()
            axes.set_xticks(x, [f"{value:g}" for value in x])
        grid[2, column].set_xlabel(titles[axis])
        fixed = {"eps": r"\epsilon", "d": "d", "k": "k"}
        rest = [f"${fixed[name]} = {getattr(paper[0].setting, name):g}$" for name in fixed if name != axis]
        grid[0, column].set_title(", ".join(rest))
    grid[0, 0].invert_xaxis()
    for axes, text in zip(grid[:, 0], (f"numbers, {HARD}", f"numbers, {NU}", f"rounds, {HARD}"), strict=True):
        axes.set_ylabel(text)
    name_lines(grid[0, 1], *(found[HARD, "d", method] for method in COLOURS))
    return figure


def name_lines(axes, paper, practical, gilbert):
    """Names beside the lines, above or below, in the panel with most room."""
    middle = len(paper) // 2
    one, x = paper[middle], paper[middle].setting.d
    for value, shift, text, colour in (
        (one.total, 0.4, PAPER, ORANGE),
        (one.hidden, 2.4, r"$11\,k\,(d + q\sqrt{d/\gamma})\,\ln(1/\epsilon)$", ORANGE),
        (practical[middle].total, 0.4, PRACTICAL, BLUE),
        (gilbert[-1].total, 2.2, GILBERT, GREEN),
        (one.setting.promise, 2.2, r"$k\,(d + \sqrt{d/\epsilon})$", BLACK),
        (one.setting.lower_bound, 0.45, r"lower bound $k\,\min(d, 1/\epsilon)$", GREY),
    ):
        label(axes, x, shift * value, text, colour, ha="center")


def draw_star():
    """The server, its clients, and what a step of the paper's rule sends between them."""
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    axes.set(xlim=(-1.75, 1.75), ylim=(-0.98, 0.98), aspect="equal")
    axes.axis("off")
    axes.text(0.0, 0.0, "server\n$w$, $i^*$", ha="center", va="center", bbox={"fc": "white", "ec": BLACK, "pad": 9})
    for k, angle in enumerate(np.deg2rad([150.0, 30.0, 210.0, 330.0])):
        end, side = (
            np.array([1.42 * np.cos(angle), np.sin(angle) * 1.5]),
            np.array([-np.sin(angle), np.cos(angle)]) * 0.03,
        )
        for start, stop, colour in ((0.82 * end, 0.22 * end, ORANGE), (0.22 * end, 0.82 * end, BLUE)):
            shift = side if colour == ORANGE else -side
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", stop + shift, start + shift, arrowprops=arrow)
        text = f"client {k + 1}\nrows, $\\eta_{k + 1}$, $\\xi_{k + 1}$, $Xw$"
        axes.text(*end, text, ha="center", va="center", fontsize=8.5, bbox={"fc": "#f4f4f4", "ec": GREY, "pad": 6})
    axes.text(0.0, 0.88, "up: logarithms, sums and products of both classes, 7 numbers", color=ORANGE, ha="center")
    axes.text(0.0, -0.92, "down: two scales and two products, 4 numbers", color=BLUE, ha="center")
    return figure


def report(found):
    """The numbers of the figure, as text."""
    lines = []
    for (kind, axis, method), ones in found.items():
        lines.append(f"{kind}: {method}, against {axis}")
        lines += [
            f"  eps {one.setting.eps:<5g} d {one.setting.d:<4} k {one.setting.k}: {one.iterations:6} iterations, "
            f"{one.rounds:6} rounds, {one.scalars:7} numbers with a client, {one.total:8} in all; with hidden factors "
            f"{one.hidden:9.0f}, bare {one.setting.promise:5.0f}, lower bound {one.setting.lower_bound:4.0f}; "
            f"gap {one.gap:.1e}"
            for one in ones
        ]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    parser.add_argument("--quick", action="store_true", help="a small study")
    options = parser.parse_args(arguments)
    found = study(options.quick, progress=lambda text: print(text, flush=True))
    save(draw(found), options.figures, "communication")
    save(draw_star(), options.figures, "star")
    print(report(found))
    return found


if __name__ == "__main__":
    main()
