"""The complexity table of the lecture, measured: exponents of counted work beside what is claimed.

``python examples/complexity.py`` prints the table of ``docs/exact.md`` and draws its figure, in about two minutes.
Nothing is timed: iterations of a method are counted until its error is small enough, and operations (multiplications)
follow from what an iteration reads. Each axis changes one number and leaves the others; an exponent is the slope of a
line through the logarithms.
"""

import argparse
import math
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from drawing import BLACK, BLUE, FIGURES, GREEN, GREY, ORANGE, PINK, RED, SKY, label, plt, save
from maxmargin import HullDistance, Problem, minimize
from maxmargin.loop.certificate import certify_point
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.kernels import RBF, Linear
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import SMO, ActiveSet, CuttingPlane, InteriorPoint, Newton, Pegasos, Saddle

FINER = 1.15  # factor between two looks at a method that takes many steps
SEEDS = 3  # of methods that draw random numbers; the median counts


@dataclass(frozen=True)
class Setting:
    """A problem and an accuracy. Kernels count relative errors, means of losses absolute ones."""

    n: int = 400
    s: int = 10  # non-zeros of a row
    d: int = 100
    R: float = 1.0  # length of a row
    lam: float = 1e-2  # of the mean of the losses
    C: float = 10.0  # of kernel machines
    k: int = 10  # rank of the kernel matrix
    eps: float = 1e-2

    def sparse_rows(self):
        """Rows with few entries, and labels of which a tenth is wrong."""
        random = np.random.default_rng(1)
        columns = np.argsort(random.random((self.n, self.d)), axis=1)[:, : self.s]
        values = random.choice([-1.0, 1.0], (self.n, self.s)) * (self.R / math.sqrt(self.s))
        X = sp.csr_array((values.ravel(), (np.repeat(np.arange(self.n), self.s), columns.ravel())), (self.n, self.d))
        return X, labels(X @ random.standard_normal(self.d), random)

    def of_means(self):
        """``lam |w|^2 / 2`` and the mean of the hinges, and its smallest value."""
        X, y = self.sparse_rows()
        problem = Problem(Rows(X), y, Hinge(), L2(self.lam), np.full(self.n, 1.0 / self.n), None)
        return problem, minimize(problem, Newton(), tol=1e-6).certificate.dual

    def of_kernel(self, low_rank=False):
        """A kernel machine, with a Gaussian kernel or one of rank ``k``, and its largest dual value."""
        random = np.random.default_rng(2)
        X = random.standard_normal((self.n, self.k if low_rank else 3))
        y = labels(X[:, 0] + np.sin(3.0 * X[:, 1]), random)
        gram = KernelGram(Linear() if low_rank else RBF(1.0), X)
        problem = Problem(gram, y, Hinge(), L2(1.0), np.full(self.n, self.C))
        return problem, minimize(problem, ActiveSet(), tol=1e-9).certificate.dual

    def hulls(self):
        """Two classes in the unit ball with a street between them."""
        random = np.random.default_rng(3)
        X, normal = random.standard_normal((self.n, self.d)) / math.sqrt(self.d), random.standard_normal(self.d)
        normal /= np.linalg.norm(normal)
        y = np.where(X @ normal > 0.0, 1.0, -1.0)
        X += np.outer(0.15 * y, normal)
        return HullDistance(Rows(X / np.linalg.norm(X, axis=1).max()), y, np.ones(self.n))


def labels(scores, random):
    """Signs of scores, a tenth of them wrong."""
    return np.where((scores > np.median(scores)) ^ (random.random(scores.size) < 0.1), 1.0, -1.0)


@dataclass(frozen=True)
class Work:
    """Until the accuracy is reached: iterations, multiplications, kernel values, and free support vectors."""

    iterations: float
    operations: float
    kernel_values: float = 0.0
    free: float = 0.0


# --- One function for each family -------------------------------------------------------------------------------------


def interior_point(setting):
    """A step is a factorisation of rank ``k``: ``n k^2`` multiplications."""
    problem, best = setting.of_kernel(low_rank=True)
    solver = InteriorPoint(rank=setting.k)
    state = solver.start(problem, None)
    while dual_value(state.qp, state.a) < best - setting.eps * abs(best) and not state.exhausted:
        state = solver.advance(problem, state, 1)
    return Work(state.iterations, state.iterations * setting.n * setting.k**2, setting.n * setting.k)


def active_set(setting):
    """A change solves two triangles with ``ns`` rows and prices all samples: ``2 ns^2 + ns n`` multiplications."""
    problem, _ = setting.of_kernel()
    solver, operations, free = ActiveSet(changes=1), 0.0, 0.0
    state = solver.start(problem, None)
    while not state.exhausted:
        before = state.changes
        state = solver.advance(problem, state, 10)
        operations += (state.changes - before) * (2.0 * state.m**2 + state.m * setting.n)
        free += (state.changes - before) * state.m
    return Work(state.changes, operations, setting.n**2, free / state.changes)


def decomposition(setting):
    """A step moves a pair and reads two rows: ``2 n`` multiplications."""
    problem, best = setting.of_kernel()
    solver = SMO(shrinking=False)
    state, step = solver.start(problem, None), 1
    while dual_value(state.qp, state.a) < best - setting.eps * abs(best) and not state.exhausted:
        step = max(1, int((FINER - 1.0) * state.iterations))
        state = solver.advance(problem, state, step)
    return Work(state.iterations, 2.0 * setting.n * state.iterations, state.cache.evaluations)


def cutting_plane(setting):
    """A plane reads all rows three times: ``3 n s`` multiplications. As it was published, without refinements."""
    problem, best = setting.of_means()
    solver = CuttingPlane(mixture=1.0)
    state = solver.start(problem, None)
    while state.primal > best + setting.eps:
        state = solver.advance(problem, state, 1)
    return Work(state.iterations, 3.0 * state.iterations * setting.n * setting.s)


def pegasos(setting):
    """A step reads one row: ``2 s`` multiplications. The average of all iterates counts, the median of some seeds."""
    problem, best = setting.of_means()
    found = []
    for seed in range(SEEDS):
        solver = Pegasos(order="uniform", average="uniform", step0=None, seed=seed)
        state = solver.start(problem, None)
        while mean_value(problem, solver.point(problem, state)) > best + setting.eps:
            state = solver.advance(problem, state, max(1, int((FINER - 1.0) * state.iterations)))
        found.append(state.iterations)
    return Work(float(np.median(found)), 2.0 * setting.s * float(np.median(found)))


def saddle(setting):
    """A step of the published rule updates one coordinate for all rows: ``4 n`` multiplications."""
    problem = setting.hulls()
    optimum = -minimize(problem, Saddle(), tol=1e-4).certificate.dual
    gamma = setting.eps * optimum / (2.0 * math.log(setting.n))
    solver = Saddle(block_size=1, continuation=False, gamma=gamma)
    state = solver.start(problem, None)
    while certify_point(problem, solver.point(problem, state)).relative_gap > setting.eps:
        state = solver.advance(problem, state, max(setting.d, int((FINER - 1.0) * state.iterations)))
    return Work(state.iterations, 4.0 * setting.n * state.iterations)


def dual_value(qp, a):
    """That of feasible variables."""
    return float(a @ (qp.q - 0.5 * qp.scores(a) - 0.5 * qp.D * a))


def mean_value(problem, point):
    """The primal value."""
    return problem.losses(problem.operator.apply(point.w)) + 0.5 * problem.lam * float(point.w @ point.w)


# --- The table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """A method, what the lecture and its correction claim of its operations, and what is changed to see."""

    count: object
    claimed: str
    corrected: str
    base: Setting
    axes: dict = field(default_factory=dict)
    quick: dict = field(default_factory=dict)
    colour: str = BLACK


DECADES = (1e-2, 1e-3, 1e-4, 1e-5)
FAMILIES = {
    "interior point": Family(
        interior_point, "n log(1/eps) steps of k^2 n; k^2 n in practice", "tens of steps, whatever n, C and eps are",
        Setting(n=800, k=20, eps=1e-6),
        {"n": (400, 800, 1600, 3200), "k": (5, 10, 20, 40), "C": (1.0, 1e1, 1e2, 1e3), "eps": (1e-2, 1e-4, 1e-6, 1e-8)},
        {"n": (100, 300), "C": (1.0, 1e3)}, BLUE,
    ),
    "active set": Family(
        active_set, "exponential; ns n^2 in practice", "the same: about n changes, each with ns n", Setting(n=400),
        {"n": (100, 200, 400, 800), "C": (1.0, 1e1, 1e2, 1e3)}, {"n": (60, 120), "C": (1.0, 1e2)}, ORANGE,
    ),
    "decomposition": Family(
        decomposition, "n^2 / eps", "linear convergence in the end: log(1/eps), but it grows with C", Setting(eps=1e-3),
        {"n": (200, 400, 800, 1600), "C": (1.0, 1e1, 1e2, 1e3), "eps": (1e-2, 1e-3, 1e-4, 1e-6)},
        {"n": (60, 120), "eps": (1e-2, 1e-4)}, GREEN,
    ),
    "cutting plane": Family(
        cutting_plane, "R n s / eps", "R^2 n s / (lam eps)", Setting(n=2000, eps=1e-3, lam=1e-4),
        {"n": (1000, 2000, 4000, 8000), "s": (5, 10, 20, 40), "R": (0.5, 1.0, 2.0, 4.0), "lam": DECADES,
         "eps": (1e-1, 1e-2, 1e-3, 1e-4)},
        {"n": (200, 400), "lam": (1e-1, 1e-2)}, RED,
    ),
    "Pegasos": Family(
        pegasos, "R s / eps, with probability", "R^2 s / (lam eps), up to logarithms", Setting(n=2000, lam=1e-2),
        {"n": (1000, 2000, 4000, 8000), "s": (5, 10, 20, 40), "R": (0.5, 1.0, 2.0, 4.0), "lam": (1e-1, 1e-2, 1e-3),
         "eps": (1e-1, 3e-2, 1e-2, 3e-3)},
        {"n": (200, 400), "lam": (1e-1, 1e-2)}, PINK,
    ),
    "Saddle": Family(
        saddle, "n d + n sqrt(d / eps) (seed 002)", "the same, up to logarithms", Setting(n=500, d=16, eps=0.1),
        {"n": (250, 500, 1000, 2000), "d": (8, 16, 32, 64), "eps": (0.3, 0.1, 0.03, 0.01)},
        {"n": (60, 120), "eps": (0.3, 0.1)}, SKY,
    ),
}  # fmt: skip
FALLING = ("eps", "lam")  # as these fall, the work grows: exponents are those of their inverses


def exponent(values, counts):
    """The slope of the line through the logarithms."""
    return float(np.polyfit(np.log(values), np.log(np.maximum(counts, 1.0)), 1)[0])


def study(quick=False, progress=lambda text: None, names=None):
    """Every measurement, or those of some families: for each of these and each axis, the values and the work."""
    found = {}
    for name in names or FAMILIES:
        family = FAMILIES[name]
        base = replace(family.base, n=min(family.base.n, 100)) if quick else family.base
        for axis, values in (family.quick if quick else family.axes).items():
            progress(f"{name}: {axis}")
            found[name, axis] = values, [family.count(replace(base, **{axis: value})) for value in values]
    return found


def exponents(found, what="operations"):
    """Those of a count, by family and axis."""
    table = {}
    for (name, axis), (values, works) in found.items():
        along = 1.0 / np.asarray(values) if axis in FALLING else np.asarray(values)
        table[name, axis] = exponent(along, [getattr(work, what) for work in works])
    return table


def as_table(found):
    """The table for people, in Markdown."""
    axes = ("n", "k", "d", "s", "R", "C", "lam", "eps")
    operations = exponents(found)
    head = [f"1/{axis}" if axis in FALLING else axis for axis in axes]
    lines = ["| method | " + " | ".join(head) + " | claimed | corrected |", "|---|" + "---|" * (len(axes) + 2)]
    for name, family in FAMILIES.items():
        cells = [f"{operations[name, axis]:.2f}" if (name, axis) in operations else "" for axis in axes]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {family.claimed} | {family.corrected} |")
    return "\n".join(lines)


def as_costs(found):
    """What one iteration of each family costs (items 0-36 and 0-37), where ``n`` grows."""
    lines = ["| method | iterations, n^ | operations of one, n^ | kernel values, n^ |", "|---|---|---|---|"]
    for name in FAMILIES:
        values, works = found[name, "n"]
        each = exponent(values, [work.operations / work.iterations for work in works])
        kernel = f"{exponent(values, [w.kernel_values for w in works]):.2f}" if works[0].kernel_values else ""
        count = exponent(values, [work.iterations for work in works])
        lines.append(f"| {name} | {count:.2f} | {each:.2f} | {kernel} |")
    values, works = found["active set", "n"]
    lines.append(f"\nFree support vectors of the active set: n^{exponent(values, [w.free for w in works]):.2f}.")
    free = [w.free for w in found["active set", "C"][1]]
    each = [w.operations / w.iterations for w in found["active set", "C"][1]]
    lines.append(f"One change with n samples, as C grows: ns^{exponent(free, each):.2f}.")
    return "\n".join(lines)


def draw(found):
    """Operations against the samples, the accuracy and the strength of the losses."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), sharey=True, layout="constrained")
    titles = {"n": "samples n", "eps": r"accuracy 1/$\epsilon$", "C": r"C, or $1/\lambda$"}
    for panel, (axis, title) in zip(axes, titles.items(), strict=True):
        ends = {}
        for name, family in FAMILIES.items():
            key = (name, "lam") if axis == "C" and (name, "lam") in found else (name, axis)
            if key in found:
                values, works = found[key]
                along = 1.0 / np.asarray(values) if key[1] in FALLING else np.asarray(values)
                counts = [work.operations for work in works]
                panel.plot(along, counts, "o-", ms=3.5, color=family.colour)
                ends[name] = along[-1], counts[-1], f"{name} {exponent(along, counts):.1f}"
        panel.set(title=title, xscale="log", yscale="log")
        left, right = panel.get_xlim()
        panel.set_xlim(left, right * (right / left) ** 0.6)
        panel.tick_params(color=GREY)
        for (name, (x, _, text)), y in zip(ends.items(), apart([end[1] for end in ends.values()]), strict=True):
            label(panel, x * (right / left) ** 0.03, y, text, FAMILIES[name].colour, fontsize=7.5)
    axes[0].set_ylabel("multiplications")
    return figure


def apart(heights, distance=0.2):
    """Heights on a logarithmic axis, moved up where labels would overlap."""
    moved, last = np.log10(heights), -math.inf
    for i in np.argsort(moved, kind="stable"):
        last = moved[i] = max(moved[i], last + distance)
    return 10.0**moved


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", default=FIGURES, metavar="DIR", help="where to write it")
    parser.add_argument("--quick", action="store_true", help="small problems, for tests")
    options = parser.parse_args(arguments)
    found = study(
        options.quick, progress=(lambda text: None) if options.quick else (lambda text: print(text, flush=True))
    )
    save(draw(found), options.figures, "complexity")
    print(as_table(found), as_costs(found), sep="\n\n")
    return found


if __name__ == "__main__":
    main()
