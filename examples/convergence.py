"""Step rules, smoothing and balls: how stochastic methods converge. ``python examples/convergence.py`` draws it."""

import argparse

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, RED, label, plt, save
from maxmargin import Problem, bounds, minimise_in_ball, minimize, projected_sgd
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge, HuberHinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import FISTA, Newton, ProximalGradient, TextbookSubgradient

RULES = {"constant": (5e-3, RED), "inverse_sqrt": (2e-2, ORANGE), "inverse": (1.0, BLUE), "polyak": (1.0, GREEN)}
RADIUS = 1.0


def clouds(n, d, seed, apart=0.5):
    """Two round normal clouds."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += apart * y
    return X, y


def value(X, y, w, lam):
    """The mean hinge and its penalty."""
    return np.maximum(0.0, 1.0 - y * (X @ w)).mean() + 0.5 * lam * w @ w


def rules(steps=2000):
    """The last point of each rule of the textbook, above the optimum, by steps."""
    X, y = clouds(400, 5, seed=1)
    problem = Problem(Rows(X), y, Hinge(), L2(4.0), np.ones(400), None)
    optimum = minimize(problem, Newton(), tol=1e-10).certificate.primal
    marks, found = np.unique(np.geomspace(1, steps, 40).astype(int)), {}
    for rule, (step, _) in RULES.items():
        solver = TextbookSubgradient(rule, step, optimum if rule == "polyak" else 0.0)
        state, above = solver.start(problem, None), []
        for k in marks:
            while state.iterations < k:
                before = state.iterations
                state = solver.advance(problem, state, int(k) - before)
                if state.iterations == before:
                    break
            above.append(max(state.value - optimum, 1e-12) / optimum)
        found[rule] = np.array(above)
    return marks, found


def smoothing(halvings=4):
    """Steps until the hinge is within eps of its optimum, on the hinge smoothed with ``mu = eps``."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 30))
    y = np.where(X @ rng.normal(size=30) * 3.0 + 0.3 * rng.normal(size=150) > 0.0, 1.0, -1.0)
    lam, s = 1e-4, np.full(150, 1.0 / 150)
    optimum = minimize(Problem(Rows(X), y, Hinge(), L2(lam), s, None), Newton(), tol=1e-9).certificate.dual
    accuracies, found = 0.1 / 2.0 ** np.arange(halvings), {}
    for solver in (FISTA(), ProximalGradient()):
        counts = []
        for eps in accuracies:
            problem = Problem(Rows(X), y, HuberHinge(float(eps)), L2(lam), s, None)
            state = solver.start(problem, None)
            while value(X, y, solver.point(problem, state).w, lam) - optimum > eps:
                state = solver.advance(problem, state, 2)
            counts.append(state.iterations)
        found[solver.name] = np.array(counts)
    return accuracies, found


def balls(sizes, repetitions=10):
    """Excess over the ball of one pass over fresh samples, and the largest deviation over the ball, by samples."""
    world, labels = clouds(8000, 2, seed=6)
    best = minimise_in_ball(world, labels, RADIUS).certificate.dual
    angles, lengths = np.meshgrid(np.linspace(0.0, 2 * np.pi, 24, endpoint=False), np.linspace(0.0, RADIUS, 9))
    ball = np.column_stack([(lengths * np.cos(angles)).ravel(), (lengths * np.sin(angles)).ravel()])
    losses = np.maximum(0.0, 1.0 - labels[:, None] * (world @ ball.T))
    longest, rng = float(np.linalg.norm(world, axis=1).max()), np.random.default_rng(0)
    excess, deviation = np.zeros((len(sizes), repetitions)), np.zeros((len(sizes), repetitions))
    for i, m in enumerate(sizes):
        for j in range(repetitions):
            drawn = rng.integers(8000, size=m)
            w = projected_sgd(world[drawn], labels[drawn], RADIUS, order="fresh").w
            excess[i, j] = value(world, labels, w, 0.0) - best
            deviation[i, j] = np.abs(losses[drawn].mean(axis=0) - losses.mean(axis=0)).max()
    return longest, excess.mean(axis=1), deviation.mean(axis=1)


def draw(of_rules, of_smoothing, sizes, of_balls):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 3.6), layout="constrained")
    marks, found = of_rules
    for rule, above in found.items():
        left.plot(marks, above, color=RULES[rule][1])
        label(left, marks[-1], above[-1], rule, RULES[rule][1], ha="right", va="bottom")
    left.set(xscale="log", yscale="log", xlabel="steps", ylabel="above the optimum, relative", title="Four step rules")
    accuracies, counts = of_smoothing
    for name, colour in (("fista", BLUE), ("proximal_gradient", RED)):
        middle.plot(1.0 / accuracies, counts[name], color=colour, marker="o", ms=3.5)
        label(middle, 1.0 / accuracies[-1], counts[name][-1] * 1.2, name, colour, ha="right", va="bottom")
    ends = np.array([1.0 / accuracies[0], 1.0 / accuracies[-1]])
    middle.plot(ends, counts["fista"][0] * ends / ends[0], color=GREY, lw=1, ls=":")
    middle.set(xscale="log", yscale="log", xlabel="1 / eps", ylabel="steps", title="Smoothed hinge, mu = eps")
    longest, excess, deviation = of_balls
    for values, limit, colour, name in (
        (excess, [bounds.error_in_ball(m, longest, RADIUS) for m in sizes], BLUE, "excess of one pass"),
        (deviation, [bounds.deviation_over_ball(m, longest, RADIUS) for m in sizes], RED, "deviation over the ball"),
    ):
        right.plot(sizes, values, color=colour, marker="o", ms=3.5)
        right.plot(sizes, limit, color=colour, lw=1, ls=":")
        label(right, sizes[0], values[0] * 0.75, name, colour, va="top")
    label(right, sizes[-1], bounds.error_in_ball(sizes[0], longest, RADIUS), "dotted: bounds", BLACK, ha="right")
    right.set(xscale="log", yscale="log", xlabel="fresh samples", title="Over a ball")
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few steps and samples")
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write them")
    options = parser.parse_args(arguments)
    sizes = [100, 1600] if options.quick else [50, 200, 800, 3200, 12_800]
    of_rules = rules(200 if options.quick else 2000)
    of_smoothing, of_balls = smoothing(2 if options.quick else 4), balls(sizes, 3 if options.quick else 20)
    return (of_rules, of_smoothing, sizes, of_balls), save(
        draw(of_rules, of_smoothing, sizes, of_balls), options.figures, "convergence"
    )


if __name__ == "__main__":
    (of_rules, of_smoothing, _, of_balls), _ = main()
    print({rule: f"{above[-1]:.1e}" for rule, above in of_rules[1].items()})
    print(of_smoothing)
    print(of_balls)
