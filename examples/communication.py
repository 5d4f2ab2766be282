"""What Saddle-DSVC sends: numbers and rounds, counted, against the accuracy, the features and the clients.

``python examples/communication.py`` draws the figure of ``docs/saddle.md`` and prints its numbers: about two minutes.
The clients are threads of this process; what they send is what they would send over a network.
"""

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREY, ORANGE, label, plt, save
from maxmargin import Certificate, HullDistance, minimize
from maxmargin.communicators import Counting, run_in_process
from maxmargin.loop.certificate import certify_point as certify
from maxmargin.operators import Rows, Sharded
from maxmargin.solvers import Saddle

PAPER, PRACTICAL = "the paper's rule", "all coordinates at once"
COLOURS = {PAPER: ORANGE, PRACTICAL: BLUE}
PER_STEP = 7  # numbers that a client sends in a step of the paper's rule: two tops, two sums, three products


@dataclass(frozen=True)
class Setting:
    """A hard margin to be found to the accuracy ``eps`` by ``k`` clients, from ``n`` rows of ``d`` features."""

    eps: float = 0.1
    d: int = 32
    k: int = 2
    n: int = 2000
    street: float = 0.3  # planted between the classes; rows have length 1 at most

    def rows(self):
        """Gaussian rows in the unit ball, and their classes. The clients get them in the order of one score."""
        random = np.random.default_rng(self.d)
        X = random.standard_normal((self.n, self.d)) / math.sqrt(self.d)
        normal = random.standard_normal(self.d)
        normal /= np.linalg.norm(normal)
        X, y = X[order := np.argsort(X @ normal)], np.where(X[order] @ normal > 0.0, 1.0, -1.0)
        X += np.outer(0.5 * self.street * y, normal)
        return X / np.linalg.norm(X, axis=1).max(), y

    @property
    def promise(self):
        """``k (d + sqrt(d / eps))``, without what the paper's notation hides."""
        return self.k * (self.d + math.sqrt(self.d / self.eps))

    @property
    def lower_bound(self):
        """``k min(d, 1 / eps)``: nobody can do with less, up to a constant."""
        return self.k * min(self.d, 1.0 / self.eps)


@dataclass(frozen=True)
class Measured:
    """What it took: iterations, and what one client sent. ``hidden`` is the promise with its factors."""

    setting: Setting
    iterations: int
    rounds: int
    scalars: int
    gap: float
    hidden: float

    @property
    def total(self):
        """Numbers that all clients sent together."""
        return self.setting.k * self.scalars


def measure(setting, method):
    """Run the clients, step by step until the gap that the solver knows of is small enough, and count."""
    X, y = setting.rows()
    optimum = -minimize(HullDistance(Rows(X), y, np.ones(y.size)), Saddle(), tol=1e-4).certificate.dual
    gamma = setting.eps * optimum / (2.0 * math.log(y.size))  # so that its entropy costs no more than eps
    solver = Saddle(block_size=1, continuation=False, gamma=gamma) if method == PAPER else Saddle()

    def client(communicator, shard):
        counting = Counting(communicator)
        problem = HullDistance(Sharded(Rows(X[shard]), counting), y[shard], np.ones(shard.size))
        state = solver.start(problem, None)
        while Certificate(*state.estimate).relative_gap > setting.eps:
            state = solver.advance(problem, state, 1)
        sent = replace(counting.traffic)
        return state.iterations, sent, certify(problem, solver.point(problem, state))

    iterations, traffic, certificate = run_in_process(client, np.array_split(np.arange(y.size), setting.k))[0]
    q = math.sqrt(setting.d) * float(np.abs(X).max())
    steps = setting.d + q * math.sqrt(setting.d / gamma)
    hidden = setting.k * PER_STEP * steps * max(1.0, math.log(1.0 / setting.eps))
    return Measured(setting, iterations, traffic.rounds, traffic.scalars, certificate.relative_gap, hidden)


def sweeps(quick):
    """The three axes of the figure: one number changes, the others stay."""
    base = Setting(n=300, d=8) if quick else Setting()
    changes = {
        "eps": (0.3, 0.1) if quick else (0.3, 0.1, 0.03, 0.01),
        "d": (4, 16) if quick else (8, 16, 32, 64, 128),
        "k": (1, 3) if quick else (1, 2, 4, 8),
    }
    return {axis: [replace(base, **{axis: value}) for value in values] for axis, values in changes.items()}


def study(quick=False, progress=lambda text: None):
    """Every measurement, by axis and method."""
    found = {}
    for axis, settings in sweeps(quick).items():
        for method in COLOURS:
            progress(f"{axis}: {method}")
            found[axis, method] = [measure(setting, method) for setting in settings]
    return found


def draw(found):
    """Above the numbers that all clients send, below the rounds; against eps, d and k."""
    titles = {"eps": r"accuracy $\epsilon$", "d": "features $d$", "k": "clients $k$"}
    figure, grid = plt.subplots(2, 3, figsize=(11, 6.4), sharex="col", sharey="row", layout="constrained")
    for column, axis in enumerate(titles):
        above, below = grid[:, column]
        x = [getattr(one.setting, axis) for one in found[axis, PAPER]]
        for method, colour in COLOURS.items():
            above.plot(x, [one.total for one in found[axis, method]], color=colour, marker="o", ms=4)
            below.plot(x, [one.rounds for one in found[axis, method]], color=colour, marker="o", ms=4)
        paper = found[axis, PAPER]
        above.plot(x, [one.hidden for one in paper], color=ORANGE, lw=1, ls="--")
        above.plot(x, [one.setting.promise for one in paper], color=BLACK, lw=1, ls="--")
        above.plot(x, [one.setting.lower_bound for one in paper], color=GREY, lw=1, ls=":")
        for axes in (above, below):
            axes.set(xscale="log", yscale="log")
            axes.grid(color="#eeeeee", lw=0.6)
            axes.minorticks_off()
            axes.set_xticks(x, [f"{value:g}" for value in x])
        below.set_xlabel(titles[axis])
        fixed = {"eps": r"\epsilon", "d": "d", "k": "k"}
        rest = [f"${fixed[name]} = {getattr(paper[0].setting, name):g}$" for name in fixed if name != axis]
        above.set_title(", ".join(rest))
    grid[0, 0].invert_xaxis()
    grid[0, 0].set_ylabel("numbers sent by all clients")
    grid[1, 0].set_ylabel("rounds")
    name_lines(grid[0, 1], found["d", PAPER], found["d", PRACTICAL])
    return figure


def name_lines(axes, paper, practical):
    """Names beside the lines, above or below, in the panel with most room."""
    middle = len(paper) // 2
    one, x = paper[middle], paper[middle].setting.d
    for value, shift, text, colour in (
        (one.total, 2.2, PAPER, ORANGE),
        (one.hidden, 0.3, r"$7\,k\,(d + q\sqrt{d/\gamma})\,\ln(1/\epsilon)$", ORANGE),
        (practical[middle].total, 2.2, PRACTICAL, BLUE),
        (one.setting.promise, 2.2, r"$k\,(d + \sqrt{d/\epsilon})$", BLACK),
        (one.setting.lower_bound, 0.45, r"lower bound $k\,\min(d, 1/\epsilon)$", GREY),
    ):
        label(axes, x, shift * value, text, colour, ha="center")


def report(found):
    """The numbers of the figure, as text."""
    lines = []
    for (axis, method), ones in found.items():
        lines.append(f"{method}, against {axis}")
        lines += [
            f"  eps {one.setting.eps:<5g} d {one.setting.d:<4} k {one.setting.k}: {one.iterations:6} iterations, "
            f"{one.rounds:6} rounds, {one.scalars:7} numbers per client, {one.total:8} in all; with hidden factors "
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
    print(report(found))
    return found


if __name__ == "__main__":
    main()
