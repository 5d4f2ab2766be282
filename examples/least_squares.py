"""Methods for regularised least squares, drawn by the library's solvers: ``python examples/least_squares.py``.

The problem is ``|Aw - d|^2 + lam r(w)``. Here it is half of that, ``Squared()`` with ``L2(lam)`` or ``L1(lam / 2)``, so
that the step of a solver is the ``tau`` of ``w - tau A^T (Aw - d)``.
"""

import argparse
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, PINK, RED, label, plt, save
from maxmargin import Problem, minimize
from maxmargin.operators import Columns, Rows
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, L2, Unpenalised
from maxmargin.solvers import make_solver

FREE = 50.0  # reach of coefficients without a penalty: far beyond all of them


def posed(penalty, A, d, operator=Rows):
    """Half of ``|Aw - d|^2``, and a penalty."""
    return Problem(operator(A), d, Squared(), penalty, np.ones(d.size), intercept=None)


def path_of(problem, solver, count, start=None, read=lambda state: state.theta):
    """The coefficients after 0, 1, 2, ... iterations of a solver."""
    state = solver.start(problem, None)
    if start is not None:
        state.theta, state.z = start.copy(), problem.operator.apply(start)
    found = [read(state).copy()]
    for _ in range(count):
        state = solver.advance(problem, state, 1)
        found.append(read(state).copy())
    return np.array(found)


# ---- two coefficients, to look at ------------------------------------------------------------------------------------


class Plane(NamedTuple):
    """A least-squares problem of two coefficients: ``|Aw - d|^2`` is smallest at ``best``."""

    A: np.ndarray
    d: np.ndarray
    best: np.ndarray

    @classmethod
    def around(cls, best, singular=(1.0, 0.38), angle=0.5):
        """Ellipses around a point, turned by an angle."""
        c, s = np.cos(angle), np.sin(angle)
        A = np.diag(singular) @ np.array([[c, s], [-s, c]])
        best = np.array(best)
        return cls(A, A @ best, best)

    @property
    def norm(self):
        """``|A|^2``."""
        return float(np.linalg.norm(self.A, 2) ** 2)

    def cost(self, W):
        """``|Aw - d|^2`` of points along the last axis."""
        return ((W @ self.A.T - self.d) ** 2).sum(axis=-1)

    def gradient_step(self, w, tau):
        """``z = w - tau A^T (Aw - d)``."""
        return w - tau * self.A.T @ (self.A @ w - self.d)

    def error_after(self, k, step, start):
        """``w_k - w* = (I - tau A^T A)^k (w_0 - w*)``, for any step, also one that diverges."""
        return np.linalg.matrix_power(np.eye(2) - step * self.A.T @ self.A, k) @ (start - self.best)


def contours(axes, plane, limits, costs, levels):
    x, y = (np.linspace(*ends, 101) for ends in limits)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    axes.contour(x, y, costs(grid), levels=levels, colors=GREY, linewidths=0.6, alpha=0.7)
    axes.set(xlim=limits[0], ylim=limits[1], aspect="equal", xticks=[], yticks=[])
    axes.set_xlabel("$w_1$", labelpad=2)
    axes.set_ylabel("$w_2$", labelpad=7, rotation=0)
    axes.plot(*plane.best, "*", ms=11, color=BLACK, markeredgecolor="white", zorder=6)


def arrow(axes, start, end, colour, width=1.4):
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0}
    )


REGIMES = {"too small": 0.12, "right": None, "too big": 2.06}  # times 1 / |A|^2
STEPS = 14


def regimes():
    """Paths of Landweber's iteration from zero with three steps; the last is refused, so its error is computed."""
    plane = Plane.around((2.7, -0.2), angle=0.8)
    problem = posed(Unpenalised(np.full(2, FREE)), plane.A, plane.d)
    paths = {}
    for name, share in REGIMES.items():
        step = None if share is None else share / plane.norm
        try:
            paths[name] = path_of(problem, make_solver("landweber", step=step), STEPS)
        except ValueError as refusal:
            bound = str(refusal)
            errors = [plane.error_after(k, step, np.zeros(2)) for k in range(STEPS + 1)]
            paths[name] = plane.best + np.array(errors)
    return plane, paths, bound


def draw_landweber():
    plane, paths, _ = regimes()
    figure, all_axes = plt.subplots(1, 4, figsize=(12.0, 3.35), layout="constrained")
    colours = {"too small": ORANGE, "right": GREEN, "too big": RED}
    for axes, (name, path) in zip(all_axes, paths.items(), strict=False):
        contours(axes, plane, ((-1.0, 4.6), (-2.6, 2.6)), plane.cost, [0.02, 0.1, 0.3, 0.7, 1.4, 2.6, 4.5, 7.0])
        axes.plot(*path.T, "-", color=colours[name], lw=1.2)
        axes.plot(*path.T, "o", color=colours[name], ms=4, markeredgecolor="white", markeredgewidth=0.5)
        axes.plot(0.0, 0.0, "s", color=BLACK, ms=5)
        axes.set_title(f"$\\tau$ {name}")
    draw_smaller_steps(all_axes[3])
    figure.get_layout_engine().set(wspace=0.04)
    return figure


def draw_smaller_steps(axes):
    """One coefficient: the steps get smaller as the slope does."""
    a = np.array([[1.0]])
    path = path_of(posed(Unpenalised(np.full(1, FREE)), a, np.array([3.0])), make_solver("landweber", step=0.3), 6)[
        :, 0
    ]
    w = np.linspace(-0.6, 4.6, 200)
    axes.plot(w, (w - 3.0) ** 2, color=BLUE)
    for here, there in pairwise(path):
        axes.plot([here, there], [(here - 3.0) ** 2] * 2, color=ORANGE, lw=1.4)
        axes.plot([there, there], [(here - 3.0) ** 2, (there - 3.0) ** 2], color=GREY, lw=0.8, ls=(0, (2, 2)))
    axes.plot(path, (path - 3.0) ** 2, "o", color=ORANGE, ms=5, markeredgecolor="white")
    label(axes, 1.05, 8.9, "step: $\\tau$ times the slope", ORANGE)
    label(axes, 3.0, 2.1, "smaller slope,\nsmaller step", BLACK, ha="center")
    axes.set(xlim=(-0.6, 4.6), ylim=(-0.4, 11.5), xticks=[0, 3], yticks=[], xlabel="$w$")
    axes.set_xticklabels(["$w_0$", "$w^*$"])
    axes.set_title("Steps fall with the slope")


# ---- majorisers and proximal steps -----------------------------------------------------------------------------------

LINE = {"a": 1.0, "d": 2.2, "lam": 1.6, "tau": 0.3}


def on_a_line(w):
    """``(w - d)^2 + lam |w|``."""
    return (LINE["a"] * w - LINE["d"]) ** 2 + LINE["lam"] * np.abs(w)


def majoriser(w, there):
    """The parabola through ``there`` that lies above the squares, plus the penalty."""
    v = LINE["a"] * (LINE["d"] - LINE["a"] * there)
    squares = (LINE["a"] * there - LINE["d"]) ** 2 + (there - w) ** 2 / LINE["tau"] + 2.0 * v * (there - w)
    return squares + LINE["lam"] * np.abs(w)


def majorised(count=3, start=-1.1):
    """Where proximal gradient descent goes on a line."""
    problem = posed(L1(LINE["lam"] / 2.0), np.array([[LINE["a"]]]), np.array([LINE["d"]]))
    solver = make_solver("proximal_gradient", step=LINE["tau"])
    return path_of(problem, solver, count, np.array([start]))[:, 0]


def draw_majoriser():
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.0, 3.6), layout="constrained")
    w = np.linspace(-2.0, 4.0, 601)

    ends, share = (-1.3, 2.7), 0.4
    between = share * ends[0] + (1.0 - share) * ends[1]
    chord = share * on_a_line(ends[0]) + (1.0 - share) * on_a_line(ends[1])
    left.plot(w, on_a_line(w), color=BLUE)
    left.plot(ends, [on_a_line(end) for end in ends], "o-", color=ORANGE, ms=6, markeredgecolor="white")
    left.plot([between] * 2, [on_a_line(between), chord], color=GREY, ls=(0, (3, 2)), lw=1.2)
    left.plot(between, on_a_line(between), "o", color=BLUE, ms=6, markeredgecolor="white")
    left.plot(between, chord, "o", color=ORANGE, ms=6, markeredgecolor="white")
    label(left, 1.2, 11.4, r"$\alpha f(w_1) + (1 - \alpha) f(w_2)$", ORANGE, ha="left")
    arrow(left, (1.75, 10.9), (between + 0.06, chord + 0.35), GREY, 0.8)
    label(left, between - 0.08, on_a_line(between) - 1.35, r"$f(\alpha w_1 + (1 - \alpha) w_2)$", BLUE, ha="center")
    left.text(ends[0] - 0.12, on_a_line(ends[0]) - 0.25, "$w_1$", ha="right", va="top")
    left.text(ends[1] + 0.1, on_a_line(ends[1]) - 0.1, "$w_2$", ha="left", va="top")
    left.set_title("The chord is above")

    middle.plot(w, on_a_line(w), color=BLUE, lw=2.2)
    path = majorised()
    for k, (colour, there) in enumerate(zip((ORANGE, RED, PINK), path, strict=False)):
        middle.plot(w, majoriser(w, there), color=colour, lw=1.3)
        middle.plot(there, on_a_line(there), "o", color=colour, ms=6.5, markeredgecolor="white", zorder=5)
        middle.plot(path[k + 1], majoriser(path[k + 1], there), "v", color=colour, ms=6, zorder=5)
        middle.text(there - 0.12, on_a_line(there) - 0.55, f"$w_{k}$", color=colour, ha="right", va="top")
        right_branch = w[w > there][np.argmax(majoriser(w[w > there], there) > 14.5 - 1.7 * k)]
        label(middle, right_branch + 0.08, 14.5 - 1.7 * k, f"$g_{k}$", colour, bbox=None)
    label(middle, 3.25, 7.0, "$f$", BLUE, ha="right", bbox=None)
    middle.set_title("Majorisers touch, and lie above")
    for axes in (left, middle):
        axes.set(xlim=(-2.0, 4.0), ylim=(0.0, 17.0), yticks=[], xticks=[0], xlabel="$w$")
    draw_thresholds(right)
    return figure


def draw_thresholds(axes):
    """What a proximal step makes of ``z``, by the methods of the penalties."""
    z = np.linspace(-3.0, 3.0, 601)
    tau, lam = 0.5, 4.0
    soft = [L1(lam / 2.0).prox(float(v), tau, 0) for v in z]
    shrunk = [L2(lam).prox(float(v), tau, 0) for v in z]
    t = lam * tau / 2.0
    axes.axvspan(-t, t, color="#f6f2ea", lw=0, zorder=-2)
    axes.axhline(0.0, color=GREY, lw=0.6)
    axes.plot(z, z, color=GREY, lw=1.0, ls=(0, (4, 2)))
    axes.plot(z, shrunk, color=GREEN)
    axes.plot(z, soft, color=BLUE, lw=2.2)
    label(axes, -2.95, -0.35, r"ridge: $z / (1 + \lambda \tau)$", GREEN, bbox=None)
    label(axes, 2.3, 1.6, "LASSO", BLUE, ha="right", bbox=None)
    axes.text(2.15, -0.55, "$z - \\lambda\\tau/2$", color=BLUE, ha="center")
    axes.text(0.0, -0.55, "0", color=BLUE, ha="center")
    axes.text(-2.15, 0.35, "$z + \\lambda\\tau/2$", color=BLUE, ha="center")
    axes.text(-2.35, -2.75, "$w = z$", color=GREY, ha="left")
    axes.set(xlim=(-3.0, 3.0), ylim=(-3.0, 3.0), xlabel="$z$", ylabel="$w$", yticks=[0], xticks=[-t, 0, t])
    axes.set_xticklabels(["$-\\lambda\\tau/2$", "0", "$\\lambda\\tau/2$"])
    axes.set_title("Shrinking, and soft threshold")


# ---- balls, and descent in turns with shrinkage ----------------------------------------------------------------------

BALLS = (np.array([0.55, 1.0]), 1.0)  # a.w = d


def touching_points():
    """The points of the line ``a.w = d`` that are nearest to zero in the 1-norm and in the 2-norm."""
    a, d = BALLS
    corner = np.zeros(2)
    j = int(np.argmax(np.abs(a)))
    corner[j] = d / a[j]
    return corner, a * d / (a @ a)


def in_turns(penalty, plane, tau, start, count):
    """``w_0, z_0, w_1, z_1, ...``: after the descent of the squares, after the step of the penalty."""
    problem = posed(penalty, plane.A, plane.d)
    path = path_of(problem, make_solver("proximal_gradient", step=tau), count, start)
    return path, np.array([plane.gradient_step(w, tau) for w in path[:-1]])


def draw_geometry():
    figure, all_axes = plt.subplots(1, 4, figsize=(12.0, 3.35), layout="constrained")
    a, d = BALLS
    corner, nearest = touching_points()
    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    circle = np.linalg.norm(nearest) * np.array([np.cos(angle), np.sin(angle)])
    diamond = np.abs(corner).sum() * np.array([[1, 0, -1, 0, 1], [0, 1, 0, -1, 0]])
    for axes, ball, point, colour, title, note in (
        (all_axes[0], diamond, corner, BLUE, r"min $\|w\|_1$ with $Aw = d$", "a corner:\n$w_1 = 0$"),
        (all_axes[1], circle, nearest, GREEN, r"min $\|w\|_2$ with $Aw = d$", "no zero"),
    ):
        x = np.array([-1.6, 1.9])
        axes.axhline(0.0, color=GREY, lw=0.6)
        axes.axvline(0.0, color=GREY, lw=0.6)
        axes.plot(x, (d - a[0] * x) / a[1], color=BLACK, lw=1.3)
        axes.fill(*ball, color=colour, alpha=0.12, lw=0)
        axes.plot(*ball, color=colour)
        axes.plot(*point, "o", ms=8, color=RED, markeredgecolor="white", zorder=5)
        label(axes, point[0] + 0.18, point[1] + 0.42, note, RED, bbox=None)
        label(axes, 1.35, 0.62, "$Aw = d$", BLACK, ha="center", bbox=None)
        axes.set(xlim=(-1.6, 1.9), ylim=(-1.45, 2.05), aspect="equal", xticks=[], yticks=[], title=title)
        axes.set_xlabel("$w_1$", labelpad=2)
        axes.set_ylabel("$w_2$", labelpad=7, rotation=0)
    plane, start = Plane.around((1.9, 0.3), (1.0, 0.75), 0.6), np.array([-0.7, 2.3])
    tau, lam = 0.55 / plane.norm, 0.9
    for axes, penalty, title in (
        (all_axes[2], L2(lam), "Ridge: toward the origin"),
        (all_axes[3], L1(lam / 2.0), "LASSO: toward the axes"),
    ):
        contours(axes, plane, ((-1.4, 2.8), (-1.0, 3.2)), plane.cost, [0.02, 0.1, 0.3, 0.7, 1.4, 2.6, 4.5, 7.0])
        axes.axhline(0.0, color=GREY, lw=0.6)
        axes.axvline(0.0, color=GREY, lw=0.6)
        path, middle = in_turns(penalty, plane, tau, start, 10)
        for w, z, following in zip(path[:-1], middle, path[1:], strict=True):
            arrow(axes, w, z, BLUE)
            arrow(axes, z, following, ORANGE)
        axes.plot(*path[0], "s", color=BLACK, ms=5)
        axes.plot(*path[-1], "o", ms=7, color=RED, markeredgecolor="white", zorder=5)
        axes.set_title(title)
    label(all_axes[2], 0.55, 2.6, "descent", BLUE, bbox=None)
    label(all_axes[2], 0.55, 2.25, "shrinkage", ORANGE, bbox=None)
    return figure


# ---- coordinates, and how much work each method needs ----------------------------------------------------------------


def staircase(sweeps=6):
    """Every point between two steps of cyclic coordinate descent on two coefficients."""
    plane = Plane.around((2.2, 1.6), (1.0, 0.33), -0.75)
    problem = posed(L2(1e-3), np.asfortranarray(plane.A), plane.d, Columns)
    path = path_of(problem, make_solver("coordinate_descent"), sweeps, read=lambda state: state.w)
    corners = [path[0]]
    for before, after in pairwise(path):
        corners += [np.array([after[0], before[1]]), after]
    return plane, np.array(corners)


METHODS = {
    "landweber": ("Landweber", ORANGE),
    "proximal_gradient": ("proximal gradient", ORANGE),
    "fista": ("FISTA", BLUE),
    "coordinate_descent": ("coordinate descent", GREEN),
    "conjugate_gradients": ("conjugate\ngradients", BLACK),
    "working_set": ("working set", BLACK),
    "sgd_textbook": ("SGD, textbook", PINK),
    "sgd": ("SGD, proximal", RED),
}


@dataclass
class Course:
    """The certified gap of a method after so many passes over the data, and how many of its coefficients are zero."""

    passes: list
    gaps: list
    zeros: int


def course_of(penalty, A, d, name, most_passes=1000, **options):
    """Certified gaps after 1, 2, 4, ... iterations."""
    operator = Columns if name in ("coordinate_descent", "working_set") else Rows
    problem = posed(penalty, np.asfortranarray(A) if operator is Columns else A, d, operator)
    course, iterations = Course([], [], 0), 1
    while True:
        solution = minimize(problem, make_solver(name, **options), tol=1e-10, max_iter=iterations)
        course.passes.append(solution.history[-1].counters["passes"])
        course.gaps.append(max(solution.certificate.relative_gap, 1e-10))
        course.zeros = int(np.count_nonzero(solution.point.w == 0.0))
        if solution.certificate.relative_gap <= 1e-10 or course.passes[-1] > most_passes:
            return course
        iterations *= 2


def planted(n, d, support, noise, seed=0, alike=0.0):
    """Columns of length about 1 that are alike, and a target that few of them make, with noise."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 1 + d // 10))
    groups = np.arange(d) % shared.shape[1]
    A = (np.sqrt(1.0 - alike) * rng.normal(size=(n, d)) + np.sqrt(alike) * shared[:, groups]) / np.sqrt(n)
    w = np.zeros(d)
    chosen = rng.choice(d, support, replace=False)
    w[chosen] = rng.choice([-1.0, 1.0], support) * rng.uniform(1.0, 3.0, support)
    return A, A @ w + noise * rng.normal(size=n) / np.sqrt(n), w


def work(quick=False):
    """Gaps against passes, for ridge and for LASSO."""
    A, d, _ = planted(300, 200, 12, 0.5, seed=1, alike=0.5)
    limit = 300 if quick else 1500
    ridge = ("landweber", "fista", "coordinate_descent", "conjugate_gradients", "sgd_textbook")
    lasso = ("proximal_gradient", "fista", "coordinate_descent", "working_set", "sgd_textbook", "sgd")
    lam = 0.1 * np.abs(A.T @ d).max()
    options = {"sgd_textbook": {"power_t": 0.6}}
    return {
        "ridge": {name: course_of(L2(0.05), A, d, name, limit, **options.get(name, {})) for name in ridge},
        "LASSO": {name: course_of(L1(lam), A, d, name, limit, **options.get(name, {})) for name in lasso},
    }


def draw_work(found):
    figure, (left, *others) = plt.subplots(1, 3, figsize=(12.0, 3.8), width_ratios=[0.85, 1, 1], layout="constrained")
    plane, corners = staircase()
    contours(left, plane, ((-0.4, 3.2), (-0.7, 2.9)), plane.cost, [0.01, 0.05, 0.15, 0.4, 0.9, 1.7, 3.0, 5.0])
    left.plot(*corners.T, "-", color=GREEN, lw=1.5)
    left.plot(*corners[1:].T, "o", color=GREEN, ms=4, markeredgecolor="white")
    left.plot(*corners[0], "s", color=BLACK, ms=5)
    left.set_title("One coordinate after another")
    where = {
        "ridge": {"landweber": (150, 1e-6), "fista": (62, 3e-8), "coordinate_descent": (11.5, 5e-6),
                  "conjugate_gradients": (19, 4e-9), "sgd_textbook": (200, 6e-3)},
        "LASSO": {"proximal_gradient": (330, 3e-6), "fista": (100, 3e-8), "coordinate_descent": (15, 2e-7),
                  "working_set": (1.2, 1e-8), "sgd_textbook": (60, 0.5), "sgd": (120, 1e-3)},
    }  # fmt: skip
    for axes, (name, courses) in zip(others, found.items(), strict=True):
        for method, course in courses.items():
            text, colour = METHODS[method]
            axes.loglog(course.passes, course.gaps, "o-", ms=3, color=colour, lw=1.4)
            label(axes, *where[name][method], text, colour)
        axes.set(xlim=(1, 4000), ylim=(1e-10, 3.0), xlabel="passes over the data")
        axes.set_title(f"{name}: certified relative gap")
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write them")
    parser.add_argument("--quick", action="store_true", help="fewer passes, for tests")
    options = parser.parse_args(arguments)
    found = work(options.quick)
    for name, figure in {
        "landweber": draw_landweber(),
        "majoriser": draw_majoriser(),
        "sparse_geometry": draw_geometry(),
        "least_squares_work": draw_work(found),
    }.items():
        save(figure, options.figures, name)
    return found


if __name__ == "__main__":
    main()
