"""Stochastic gradient descent for ridge, order by order: ``python examples/stochastic.py`` draws the figure."""

import argparse

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, RED, label, plt, save
from least_squares import path_of, planted, posed
from maxmargin import minimize
from maxmargin.parts.penalties import L2
from maxmargin.solvers import make_solver

LAM, SEEDS = 0.5, 15
ORDERS = {"uniform": RED, "cyclic": ORANGE, "permutation": BLUE}


def objective(A, d, W):
    """Half of ``|Aw - d|^2 + lam |w|^2``, for rows of coefficients."""
    return 0.5 * ((W @ A.T - d) ** 2).sum(axis=-1) + 0.5 * LAM * (W**2).sum(axis=-1)


def courses(epochs=64, seeds=SEEDS):
    """For constant and for falling steps, and each order: how far the objective is above its optimum, by epochs."""
    A, d, _ = planted(200, 20, 20, 1.0, seed=2)
    A, d = A * np.sqrt(200 / 20), d * np.sqrt(200 / 20)
    problem = posed(L2(LAM), A, d)
    optimum = minimize(problem, make_solver("cholesky"), tol=1e-12).certificate.primal
    found = {}
    for power in (0.0, 1.0):
        for order in ORDERS:
            above = []
            for seed in range(seeds):
                solver = make_solver("sgd_textbook", order=order, power_t=power, seed=seed)
                shuffled = np.random.default_rng(seed).permutation(d.size)  # or the cyclic order is always the same
                path = path_of(posed(L2(LAM), A[shuffled], d[shuffled]), solver, epochs)
                above.append(objective(A, d, path) / optimum - 1.0)
            found[power, order] = np.median(above, axis=0)
    return found


def walk(epochs=3, step=0.06):
    """Single steps of the textbook on two coefficients, in cyclic order, and those of the whole gradient."""
    rng = np.random.default_rng(6)
    A = rng.normal(size=(20, 2)) @ np.array([[1.0, 0.5], [0.0, 0.7]])
    d = A @ np.array([1.6, 1.1]) + 0.7 * rng.normal(size=20)
    w, single = np.zeros(2), [np.zeros(2)]
    for _ in range(epochs):
        for x, target in zip(A, d, strict=True):
            w = w + step * (target - x @ w) * x - step * LAM / 20 * w
            single.append(w)
    whole = path_of(posed(L2(LAM), A, d), make_solver("landweber", step=1.0 / np.linalg.norm(A, 2) ** 2), 12)
    return A, d, np.array(single), whole


def draw_stochastic():
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 3.7), layout="constrained")
    A, d, single, whole = walk()
    x, y = np.linspace(-0.4, 2.6, 121), np.linspace(-0.5, 2.1, 121)
    costs = objective(A, d, np.stack(np.meshgrid(x, y), axis=-1))
    left.contour(x, y, costs, levels=costs.min() + np.geomspace(0.1, 60.0, 9), colors=GREY, linewidths=0.6, alpha=0.7)
    left.plot(*single.T, color=ORANGE, lw=1.0)
    left.plot(*single.T, "o", color=ORANGE, ms=2.5)
    left.plot(*whole.T, "o-", color=GREEN, ms=4, lw=1.4, markeredgecolor="white", markeredgewidth=0.5)
    left.plot(0.0, 0.0, "s", color=BLACK, ms=5)
    best = np.linalg.solve(A.T @ A + LAM * np.eye(2), A.T @ d)
    left.plot(*best, "*", color=BLACK, ms=11, markeredgecolor="white", zorder=5)
    label(left, 0.25, 1.75, "one sample at a time", ORANGE)
    label(left, 0.72, 0.1, "all samples", GREEN)
    left.set(xticks=[], yticks=[], xlabel="$w_1$", title="Cheap steps are noisy")
    found = courses()
    for axes, power, title in ((middle, 0.0, "Constant step"), (right, 1.0, "Step / (1 + epochs)")):
        for order, colour in ORDERS.items():
            above = found[power, order][1:]
            axes.loglog(np.arange(1, above.size + 1), above, color=colour)
            if power > 0.0:
                label(axes, above.size * 1.08, above[-1], order, colour, bbox=None)
        axes.set(xlabel="epochs", xlim=(1, 260), ylim=(1e-6, 0.3), title=f"{title}: above the optimum")
    label(middle, 2.0, 1.3e-2, "every order comes to a neighbourhood,\nand no closer", BLACK)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    options = parser.parse_args(arguments)
    return save(draw_stochastic(), options.figures, "stochastic")


if __name__ == "__main__":
    main()
