"""The pictures of the lectures, computed, not sketched: ``python examples/pictures.py`` draws them."""

import argparse
from itertools import combinations

import numpy as np
from scipy.optimize import linprog

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, PINK, RED, SKY, label, plt, save
from maxmargin import SVC, LinearSVC, hull_distance

SIDES = {1.0: BLUE, -1.0: RED}
REGIONS = ["#cfe3f2", "#f6d9c6", "#cdebe0", "#e5e5e5"]


def clouds(n=40, apart=1.1, seed=3):
    """Two clouds in the plane."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, 2))
    X[:, 0] += apart * y
    return X, y


def dots(axes, X, y, **style):
    for side, colour in SIDES.items():
        axes.scatter(*X[y == side].T, s=16, color=colour, zorder=3, **style)


def plane(axes, X, room=0.6, points=70):
    """A grid over the samples, for levels of a function."""
    low, high = X.min(axis=0) - room, X.max(axis=0) + room
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    grid = np.meshgrid(np.linspace(low[0], high[0], points), np.linspace(low[1], high[1], points))
    return grid, np.stack(grid, axis=-1).reshape(-1, 2)


# ---- margins ---------------------------------------------------------------------------------------------------------


def kinds_of_support_vectors(model, X, y):
    """Rows on the margin, inside of it on the right side, and on the wrong side."""
    slack = np.zeros(y.size)
    slack[model.support_] = model.slacks_[model.support_]
    support = np.isin(np.arange(y.size), model.support_)
    return support & (slack <= 1e-3), support & (slack > 1e-3) & (slack <= 1.0), slack > 1.0


def draw_margin(axes):
    """Boundary, margins, slacks and the three kinds of support vectors."""
    X, y = clouds()
    model = SVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    grid, points = plane(axes, X)
    levels = model.decision_function(points).reshape(grid[0].shape)
    axes.contour(*grid, levels, levels=[-1, 0, 1], colors=[GREY, BLACK, GREY], linewidths=[0.9, 1.6, 0.9],
                 linestyles=["--", "-", "--"])  # fmt: skip
    dots(axes, X, y)
    w = model.coef_[0]
    kinds = kinds_of_support_vectors(model, X, y)
    for rows, colour in zip(kinds, (BLACK, ORANGE, PINK), strict=True):
        axes.scatter(*X[rows].T, s=70, facecolors="none", edgecolors=colour, linewidths=1.4, zorder=4)
    for i in np.flatnonzero(kinds[1] | kinds[2]):
        step = y[i] * model.slacks_[i] / (w @ w) * w
        axes.plot(*np.array([X[i], X[i] + step]).T, color=GREY, lw=0.8, zorder=1)
    axes.set_title(f"Width {model.margin_.full:.2f} = 2 / |w|, and slacks")
    for k, (text, colour) in enumerate((("on the margin", BLACK), ("inside", ORANGE), ("wrong side", PINK))):
        label(axes, 0.02, 0.16 - 0.06 * k, text, colour, transform=axes.transAxes)
    return model, X, y, kinds


def draw_gaussian(axes):
    """A Gaussian kernel machine: bumps of evidence around support vectors."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2.2, 2.2, size=(90, 2))
    y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - 1.2 + 0.25 * rng.normal(size=90) > 0.0, 1.0, -1.0)
    model = SVC(gamma=1.0, C=5.0, tol=1e-5).fit(X, y)
    grid, points = plane(axes, X, room=0.2)
    f = model.decision_function(points).reshape(grid[0].shape)
    axes.contourf(*grid, f, levels=np.linspace(-2.0, 2.0, 9), cmap="RdBu", alpha=0.35, extend="both")
    axes.contour(*grid, f, levels=[-1, 0, 1], colors=[GREY, BLACK, GREY], linewidths=[0.7, 1.4, 0.7])
    dots(axes, X, y)
    axes.scatter(*model.support_vectors_.T, s=55, facecolors="none", edgecolors=BLACK, linewidths=0.8, zorder=4)
    axes.set_title(f"Gaussian kernel: {model.support_.size} of 90 support vectors")


def draw_hulls(axes, nu=0.35):
    """Hulls and reduced hulls with their nearest points."""
    X, y = clouds(36, apart=3.0, seed=8)
    A, B = X[y > 0], X[y < 0]
    plane(axes, X)
    dots(axes, X, y)
    found = {}
    for cap, colour in ((None, BLACK), (nu, GREEN)):
        street = hull_distance(A, B, tol=1e-8) if cap is None else hull_distance(A, B, nu=cap, tol=1e-8)
        ends = np.array([A.T @ street.eta, B.T @ street.xi])
        axes.plot(*ends.T, color=colour, marker="o", ms=5, zorder=5)
        found[cap] = street, ends
        for side, P in ((1.0, A), (-1.0, B)):
            edge = support_points(P, 1.0 if cap is None else cap)
            axes.fill(
                *edge.T, facecolor=SIDES[side], alpha=0.08 if cap is None else 0.16, edgecolor=SIDES[side], lw=0.8
            )
    label(axes, 0.02, 0.05, f"no row more than {nu:.0%}", GREEN, transform=axes.transAxes)
    axes.set_title("Hulls, reduced hulls, and their distance")
    return A, B, found


def support_points(P, cap, directions=240):
    """The boundary of the combinations of rows in which none has more than a cap."""
    angles, edge = np.linspace(0.0, 2 * np.pi, directions), []
    for u in np.column_stack([np.cos(angles), np.sin(angles)]):
        shares, left = np.zeros(len(P)), 1.0
        for i in np.argsort(-(P @ u)):
            shares[i] = min(cap, left)
            left -= shares[i]
        edge.append(shares @ P)
    return np.array(edge)


# ---- duals -----------------------------------------------------------------------------------------------------------


def best_pair(K, y, C, start):
    """Where two variables go along their line: the best point of it, and that of the box."""
    direction = np.array([1.0, -y[0] * y[1]])
    Q = np.outer(y, y) * K
    t = (direction @ (1.0 - Q @ start)) / (direction @ Q @ direction)
    with np.errstate(divide="ignore"):
        ends = np.sort((np.array([[0.0, 0.0], [C, C]]) - start) / direction, axis=0)
    low, high = ends[0].max(), ends[1].min()
    return start + t * direction, start + np.clip(t, low, high) * direction, direction, (low, high)


def draw_pair(axes, C=1.0):
    """Pairs of equal and of different labels: the line, the box, the optimum and where it is clipped."""
    axes.add_patch(plt.Rectangle((0, 0), C, C, facecolor="#f2f2f2", edgecolor=GREY))
    X, found = np.array([[1.1, 0.2], [-0.2, 1.0]]), []
    for y, start, colour in (((1.0, -1.0), (0.15, 0.5), BLUE), ((1.0, 1.0), (0.8, 0.6), RED)):
        best, inside, direction, (low, high) = best_pair(X @ X.T, np.array(y), C, np.array(start))
        line = np.array([start + low * direction, start + high * direction])
        axes.plot(*line.T, color=colour, lw=1.2)
        axes.plot(*start, "o", color=colour, ms=5)
        axes.plot(*best, "x", color=colour, ms=7)
        axes.annotate("", inside, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.8})
        found.append((best, inside))
    axes.set(xlim=(-0.3, 1.9), ylim=(-0.3, 1.9), xlabel="$a_i$", ylabel="$a_j$", xticks=[0, 1], yticks=[0, 1], aspect=1)
    label(axes, 1.05, 0.1, "labels differ", BLUE)
    label(axes, 0.02, 1.2, "equal labels", RED)
    axes.set_title("A pair moves on its line (cross: without the box)")
    return found


def sorted_violations(n=60, q=10, C=1.0):
    """``y_i grad_i`` in order half way, who may go up or down, and the q that are chosen."""
    X, y = clouds(n, apart=0.7, seed=2)
    Q = np.outer(y, y) * (X @ X.T)
    a = 0.5 * np.abs(SVC(kernel="linear", C=C, tol=1e-4).fit(X, y).solution_.point.alpha)
    v = y * (Q @ a - 1.0)
    order = np.argsort(v)
    up = ((y > 0) & (a < C)) | ((y < 0) & (a > 0))  # y_i a_i may grow
    down = ((y > 0) & (a > 0)) | ((y < 0) & (a < C))
    low = [i for i in order if up[i]][: q // 2]
    high = [i for i in order[::-1] if down[i]][: q // 2]
    return v, order, np.array(low), np.array(high), a


def draw_sorted(axes):
    """The sorted vector with the set B, and what shrinking leaves of it."""
    v, order, low, high, a = sorted_violations()
    places = np.empty(v.size, dtype=int)
    places[order] = np.arange(v.size)
    bound = (a <= 0.0) | (a >= 1.0)
    middle = bound & ~np.isin(np.arange(v.size), np.concatenate([low, high])) & (np.abs(v - np.median(v)) < 0.5)
    axes.bar(places, v, color=np.where(middle, "#d9d9d9", SKY), width=0.85)
    axes.bar(places[low], v[low], color=BLUE, width=0.85)
    axes.bar(places[high], v[high], color=RED, width=0.85)
    label(axes, 0.05, 0.1, "B: may go up", BLUE, transform=axes.transAxes)
    label(axes, 0.95, 0.92, "B: may go down", RED, transform=axes.transAxes, ha="right")
    label(axes, 0.5, 0.55, "grey: rest", GREY, transform=axes.transAxes, ha="center")
    axes.set(xlabel="samples in order", ylabel="$y_i \\nabla_i$", xticks=[])
    axes.set_title("The sorted vector, the set B, what rests")


def corners(Q, g):
    """Over the unit square: the optimum of the linear program and of the quadratic one."""
    linear = linprog(g, bounds=(0.0, 1.0), method="highs-ds").x
    quadratic = np.clip(np.linalg.solve(Q, -g), 0.0, 1.0)  # inside for the numbers below
    return linear, quadratic


def draw_programs(axes):
    """A linear objective ends at a corner, a quadratic one anywhere."""
    Q, g = np.array([[1.0, 0.3], [0.3, 1.2]]), np.array([-0.6, -0.5])
    linear, quadratic = corners(Q, g)
    grid = np.meshgrid(np.linspace(-0.2, 1.2, 80), np.linspace(-0.2, 1.2, 80))
    points = np.stack(grid, axis=-1)
    axes.contour(*grid, points @ g, levels=8, colors=RED, linewidths=0.6)
    axes.contour(*grid, 0.5 * np.einsum("...i,ij,...j", points, Q, points) + points @ g, levels=10, colors=BLUE,
                 linewidths=0.6)  # fmt: skip
    axes.add_patch(plt.Rectangle((0, 0), 1, 1, facecolor="none", edgecolor=BLACK, lw=1.4))
    axes.plot(*linear, "s", color=RED, ms=8)
    axes.plot(*quadratic, "o", color=BLUE, ms=8)
    axes.set(xticks=[], yticks=[], aspect=1)
    axes.set_title("Linear program: a corner; quadratic: anywhere")
    return linear, quadratic


# ---- several classes, neighbours, kinks ------------------------------------------------------------------------------


def three_classes():
    """A pinwheel: the lines between its pairs of classes do not meet in a point."""
    rng, codes = np.random.default_rng(1), np.arange(60) % 3
    angles = 2.0 * np.pi * codes / 3.0 + np.pi / 2.0
    outward = np.column_stack([np.cos(angles), np.sin(angles)])
    along = np.column_stack([np.cos(angles + 1.1), np.sin(angles + 1.1)])
    return 1.5 * outward + rng.uniform(-1.2, 1.2, size=(60, 1)) * along + 0.15 * rng.normal(size=(60, 2)), codes


def regions(strategy):
    """For each point of the plane, the class that all binary machines agree on; 3 where they do not."""
    X, codes = three_classes()
    low, high = X.min(axis=0) - 1.0, X.max(axis=0) + 1.0
    grid = np.meshgrid(np.linspace(low[0], high[0], 110), np.linspace(low[1], high[1], 110))
    points, found = np.stack(grid, axis=-1).reshape(-1, 2), np.full(110**2, 3)
    if strategy == "ovr":
        positive = LinearSVC(loss="hinge", intercept="free", tol=1e-6).fit(X, codes).decision_function(points) > 0.0
        alone = positive.sum(axis=1) == 1
        found[alone] = positive[alone].argmax(axis=1)
    else:
        model = SVC(kernel="linear", decision_function_shape="ovo", tol=1e-6).fit(X, codes)
        pairs, count = model.decision_function(points), np.zeros((110**2, 3))
        for k, (i, j) in enumerate(combinations(range(3), 2)):
            count[np.arange(110**2), np.where(pairs[:, k] > 0, i, j)] += 1
        sure = count.max(axis=1) == 2
        found[sure] = count[sure].argmax(axis=1)
    return X, codes, grid, found.reshape(grid[0].shape)


def draw_regions(axes, strategy, title):
    X, codes, grid, found = regions(strategy)
    axes.contourf(*grid, found, levels=[-0.5, 0.5, 1.5, 2.5, 3.5], colors=REGIONS)
    for c, colour in enumerate((BLUE, RED, GREEN)):
        axes.scatter(*X[codes == c].T, s=14, color=colour)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title)
    return (found == 3).mean()


def draw_line(axes):
    """Evidence by distance: a Gaussian machine on a line beside the nearest neighbour and bins."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0.0, 6.0, size=40))
    y = np.where(np.sin(1.6 * x) + 0.5 * rng.normal(size=40) > 0.0, 1.0, -1.0)
    t = np.linspace(0.0, 6.0, 600)
    f = SVC(gamma=3.0, C=1.0, tol=1e-6).fit(x[:, None], y).decision_function(t[:, None])
    nearest = y[np.abs(t[:, None] - x).argmin(axis=1)]
    bins = np.digitize(x, np.linspace(0.0, 6.0, 13)) - 1
    means = np.array([y[bins == b].mean() if (bins == b).any() else 0.0 for b in range(12)])
    axes.fill_between(t, 0.0, 0.9 * nearest, color="#e5e5e5", lw=0, step="mid")
    axes.stairs(means, np.linspace(0.0, 6.0, 13), color=ORANGE, lw=1.2)
    axes.plot(t, f, color=BLACK)
    axes.scatter(x, 1.15 * y, s=12, color=[SIDES[side] for side in y], clip_on=False)
    axes.axhline(0.0, color=GREY, lw=0.6)
    axes.set(xticks=[], yticks=[-1, 0, 1])
    axes.set_title("Gaussian kernel, bins (orange), nearest neighbour (grey)")
    return [int((np.diff(np.sign(values)) != 0).sum()) for values in (f, nearest)]


def draw_kinks(axes):
    """The two examples of subderivatives, the second one mended so that it is convex."""
    x = np.linspace(-0.6, 2.2, 200)
    second = np.where(x < 1.0, 0.5 * x**2, 4.0 * x - 3.5)
    for f, at, slopes, colour in (
        (0.5 * np.abs(x - 1.0) + 1.6, 1.6, (-0.5, 0.5), BLUE),
        (second, 0.5, (1.0, 4.0), RED),
    ):
        for slope in np.linspace(*slopes, 5):
            axes.plot(x, at + slope * (x - 1.0), color=colour, lw=0.6, alpha=0.5)
        axes.plot(x, f, color=colour)
    axes.set(ylim=(-0.6, 3.2), xticks=[1], yticks=[])
    label(axes, -0.5, 2.75, "|x - 1| / 2: slopes -1/2 to 1/2", BLUE)
    label(axes, -0.5, 0.75, "x²/2, then 4x - 3.5: 1 to 4", RED)
    axes.set_title("Subderivatives at a kink")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write them")
    folder = parser.parse_args(arguments).figures
    size = {"figsize": (12.0, 3.9), "layout": "constrained"}
    figure, (left, middle, right) = plt.subplots(1, 3, **size)
    margin, _, hulls = draw_margin(left), draw_gaussian(middle), draw_hulls(right)
    save(figure, folder, "pictures_margins")
    figure, (left, middle, right) = plt.subplots(1, 3, **size)
    pairs, _, programs = draw_pair(left), draw_sorted(middle), draw_programs(right)
    save(figure, folder, "pictures_duals")
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(10.0, 7.2), layout="constrained")
    unsure = [
        draw_regions(a, "ovr", "One against the rest (grey: none or several)"),
        draw_regions(b, "ovo", "One against one (grey: one vote each)"),
    ]
    flips = draw_line(c)
    draw_kinks(d)
    save(figure, folder, "pictures_classes")
    return {"margin": margin, "hulls": hulls, "pairs": pairs, "programs": programs, "unsure": unsure, "flips": flips}


if __name__ == "__main__":
    main()
