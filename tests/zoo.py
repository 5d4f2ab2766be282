"""The zoo: named problems, well-behaved and degenerate, each with the referee's view of it.

``cases()`` yields every case. The library sees the data as dense or CSR, float32 or float64, rows or a kernel; the
referee sees a dense float64 matrix or kernel matrix that scikit-learn computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import pairwise

import referee
from maxmargin.operators import CallableGram, Columns, KernelGram, PrecomputedGram, Rows, kernel_sums
from maxmargin.parts import kernels, losses, penalties
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.classes import ClassesProblem
from maxmargin.problems.crammer_singer import CrammerSingerProblem
from maxmargin.problems.groups import GroupProblem
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.problem import Problem
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.threads import Workers

LOSSES = {
    "hinge": losses.Hinge,
    "squared hinge": losses.SquaredHinge,
    "huber hinge": losses.HuberHinge,
    "logistic": losses.Logistic,
    "squared": losses.Squared,
    "huber": losses.Huber,
    "epsilon": losses.EpsilonInsensitive,
    "squared epsilon": losses.SquaredEpsilonInsensitive,
}
PENALTIES = {"l2": penalties.L2, "l1": penalties.L1, "elastic net": penalties.ElasticNet, "bounded": penalties.Bounded}
KERNELS = {
    "linear": (kernels.Linear(), pairwise.linear_kernel),
    "rbf": (kernels.RBF(0.5), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.5)),
    "polynomial": (
        kernels.Polynomial(3, 0.5, 1.0),
        lambda A, B: pairwise.polynomial_kernel(A, B, degree=3, gamma=0.5, coef0=1.0),
    ),
    "sigmoid": (kernels.Sigmoid(0.5, 0.1), lambda A, B: pairwise.sigmoid_kernel(A, B, gamma=0.5, coef0=0.1)),
    # Most of its diagonal is negative.
    "sigmoid of negative trace": (
        kernels.Sigmoid(0.1, -1.0),
        lambda A, B: pairwise.sigmoid_kernel(A, B, gamma=0.1, coef0=-1.0),
    ),
    "laplacian": (kernels.Laplacian(0.3), lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.3)),
}

# First-order methods need millions of steps where columns or weights have very different sizes; pivoting needs
# thousands where the dual is far from definite.
SLOW = ("dual_coordinate", "blocks", "cocoa", "smo", "block_smo", "decomposition", "pivoting", "saddle", "frank_wolfe")
SLOW += ("kernel_coordinate", "conjugate_gradients", "landweber", "proximal_gradient", "fista", "coordinate_descent")
# Textbook methods with a stopping rule of their own that proves nothing, or that need 1 / tol steps, and stochastic
# ones: on every case only honesty is asked of them.
HONEST_ONLY = ("smo_simplified", "pegasos", "pegasos_kernel", "sgd", "sgd_textbook", "subgradient", "gilbert")
HONEST_ONLY += ("subgradient_textbook",)
# It finishes what others began, and gives up where it begins with singular equations: see test_semismooth.
HONEST_ONLY += ("semismooth_newton",)
# Iterations that are enough to see whether they are honest.
AT_MOST = {"sgd_textbook": 50, "subgradient_textbook": 200}


def kernel_matrix(kernel: Any, X: Any, Z: Any) -> np.ndarray:
    """``k(x_i, z_j)`` for every row of ``X`` and ``Z``, by the library."""
    return kernel_sums(kernel, X, Z, np.eye(Z.shape[0]), np.float64, Workers())


@dataclass(frozen=True)
class Case:
    """A problem and the referee's description of the same problem."""

    name: str
    build: Callable[[], Problem | BoxQP | HullDistance | ClassesProblem | GroupProblem]
    describe: Callable[[], referee.Machine | referee.Box | referee.Hulls | referee.Softmax | referee.Grouped]
    hard_for: tuple[str, ...] = ()  # solvers of which only honesty is asked
    convex: bool = True

    def __str__(self) -> str:
        return self.name


def machine(
    name: str,
    X: Any,
    y: Any,
    *,
    loss: tuple = ("hinge", 1.0),
    penalty: tuple = ("l2", 1.0),
    s: Any = 1.0,
    intercept: str | None = "free",
    scale: float = 1.0,
    kernel: str | None = None,
    layout: str = "dense",
    dtype: type = np.float64,
    hard_for: tuple[str, ...] = (),
    convex: bool = True,
) -> Case:
    """A case from its data: rows if there is no kernel."""
    X = np.asarray(X, dtype=dtype)
    exact = X.astype(np.float64)
    y = np.asarray(y, dtype=np.float64)
    s = np.broadcast_to(np.asarray(s, dtype=np.float64), y.shape).copy()

    def build() -> Problem:
        stored = sp.csr_array(X) if layout == "csr" else X
        if layout in ("columns", "csc"):
            operator: Any = Columns(sp.csc_array(X) if layout == "csc" else np.asfortranarray(X))
        elif kernel is None:
            operator = Rows(stored)
        elif kernel == "precomputed":
            operator = PrecomputedGram(pairwise.rbf_kernel(exact, gamma=0.5))
        elif kernel == "callable":
            operator = CallableGram(lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.5), stored)
        else:
            operator = KernelGram(KERNELS[kernel][0], stored)
        return Problem(
            operator, y, LOSSES[loss[0]](*loss[1:]), PENALTIES[penalty[0]](*penalty[1:]), s, intercept, scale
        )

    def describe() -> referee.Machine:
        if kernel is None:
            return referee.Machine(y, s, loss, penalty, X=exact, intercept=intercept, scale=scale)
        similarity = KERNELS["rbf" if kernel in ("precomputed", "callable") else kernel][1]
        return referee.Machine(y, s, loss, penalty, K=similarity(exact, exact), intercept=intercept, scale=scale)

    return Case(name, build, describe, hard_for, convex)


def program(name: str, X: Any, q: Any, low: Any, high: Any, D: Any = 0.0, sample: Any = None, groups: tuple = (),
            lam: float = 1.0, shift: float = 0.0, kernel: str = "rbf") -> Case:  # fmt: skip
    """A quadratic program; ``groups`` are pairs of members and total."""
    X = np.asarray(X, dtype=np.float64)
    q = np.asarray(q, dtype=np.float64)
    low, high, D = (np.broadcast_to(np.asarray(v, dtype=np.float64), q.shape).copy() for v in (low, high, D))
    sample = np.arange(q.size) if sample is None else np.asarray(sample)
    group = np.zeros(q.size, dtype=np.int64)
    for g, (members, _) in enumerate(groups):
        group[members] = g
    totals = np.array([total for _, total in groups], dtype=np.float64)

    def build() -> BoxQP:
        return BoxQP(KernelGram(KERNELS[kernel][0], X), q, low, high, D, sample, group, totals, lam, shift)

    def describe() -> referee.Box:
        K = KERNELS[kernel][1](X, X) / lam + shift
        return referee.Box(K[np.ix_(sample, sample)], q, low, high, D, groups)

    return Case(name, build, describe)


def hulls(name: str, X: Any, y: Any, *, cap: Any = 1.0, total: float = 1.0, layout: str = "dense",
          dtype: type = np.float64, hard_for: tuple[str, ...] = ()) -> Case:  # fmt: skip
    """The distance of the hulls of two classes, reduced where a cap is below the total."""
    X, y = np.asarray(X, dtype=dtype), np.asarray(y, dtype=np.float64)
    cap = np.broadcast_to(np.asarray(cap, dtype=np.float64), y.shape).copy()

    def build() -> HullDistance:
        return HullDistance(Rows(sp.csr_array(X) if layout == "csr" else X), y, cap, total)

    def describe() -> referee.Hulls:
        return referee.Hulls(X.astype(np.float64), y, cap, total)

    return Case(f"hulls, {name}", build, describe, hard_for)


def softmax(name: str, X: Any, y: Any, *, k: int = 3, lam: float = 1.0, s: Any = 1.0, intercept: str | None = "free",
            scale: float = 1.0, layout: str = "dense", dtype: type = np.float64,
            hard_for: tuple[str, ...] = (), kind: str = "softmax") -> Case:  # fmt: skip
    """Logistic regression of several classes at once, or the machine of Crammer and Singer."""
    X, y = np.asarray(X, dtype=dtype), np.asarray(y, dtype=np.int64)
    s = np.broadcast_to(np.asarray(s, dtype=np.float64), y.shape).copy()

    posed, described = {
        "softmax": (SoftmaxProblem, referee.Softmax),
        "crammer-singer": (CrammerSingerProblem, referee.CrammerSinger),
    }[kind]

    def build() -> ClassesProblem:
        return posed(Rows(sp.csr_array(X) if layout == "csr" else X), y, k, lam, s, intercept, scale)

    def describe() -> referee.Softmax:
        return described(X.astype(np.float64), y, k, lam, s, intercept, scale)

    return Case(f"{kind}, {name}", build, describe, hard_for)


def grouped(name: str, X: Any, Y: Any, groups: Any, prices: Any, *, mu: float = 0.0, s: Any = 1.0, free: bool = True,
            layout: str = "columns", dtype: type = np.float64, hard_for: tuple[str, ...] = ()) -> Case:  # fmt: skip
    """Least squares with norms of groups of coefficients; ``Y`` has a row for each target."""
    X, Y, groups = np.asarray(X, dtype=dtype), np.atleast_2d(np.asarray(Y, dtype=np.float64)), np.asarray(groups)
    s = np.broadcast_to(np.asarray(s, dtype=np.float64), (len(X),)).copy()
    prices = np.broadcast_to(np.asarray(prices, dtype=np.float64), (groups.max() + 1,)).copy()

    def build() -> GroupProblem:
        operator = Columns(sp.csc_array(X) if layout == "csc" else np.asfortranarray(X))
        return GroupProblem(operator, Y, penalties.Groups(prices, mu), groups, s, free)

    def describe() -> referee.Grouped:
        return referee.Grouped(X.astype(np.float64), Y, groups, prices, mu, s, free)

    return Case(f"groups, {name}", build, describe, hard_for)


def blobs(n: int, d: int, seed: int, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussian classes whose centres differ by ``2 apart`` in the first feature."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += apart * y
    return X, y


def line(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A noisy linear target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) + 0.7


def cases():
    """Every case of the zoo."""
    yield from _every_loss()
    yield from _intercepts_and_layouts()
    yield from _degenerate()
    yield from _kernels()
    yield from _programs()
    yield from _hulls()
    yield from _softmax()
    yield from _crammer_singer()
    yield from _groups()


def _every_loss():
    X, y = blobs(40, 4, seed=1)
    R, t = line(40, 4, seed=2)
    weights = np.random.default_rng(3).uniform(0.2, 2.0, size=40)
    for name, parameter in [("hinge", 1.0), ("squared hinge", 1.0), ("huber hinge", 0.5), ("logistic", 1.0)]:
        for kernel in (None, "rbf"):
            if kernel is None or name != "logistic":
                label = f"{name}, {kernel or 'rows'}, weighted"
                yield machine(label, X, y, loss=(name, parameter), s=weights, kernel=kernel, penalty=("l2", 0.7))
    for name, parameter in [("squared", 1.0), ("huber", 0.5), ("epsilon", 0.1), ("squared epsilon", 0.1)]:
        for kernel in (None, "rbf"):
            label = f"{name}, {kernel or 'rows'}, weighted"
            yield machine(label, R, t, loss=(name, parameter), s=weights, kernel=kernel, penalty=("l2", 0.7))
    yield machine("hinge of margin 0 and 2 features", X[:, :2], y, loss=("hinge", 0.0))
    yield machine("squared hinge of margin 2", X, y, loss=("squared hinge", 2.0))
    yield machine("logistic at temperature 0.1", X, y, loss=("logistic", 0.1))


def _intercepts_and_layouts():
    X, y = blobs(60, 5, seed=4)
    R, t = line(30, 3, seed=5)
    X[np.abs(X) < 0.5] = 0.0
    for intercept in ("free", "penalised", None):
        for kernel in (None, "rbf"):
            label = f"intercept {intercept}, {kernel or 'rows'}"
            yield machine(label, X, y, intercept=intercept, scale=2.0, kernel=kernel, s=0.8, penalty=("l2", 0.5))
            yield machine(label + ", epsilon", R, t, loss=("epsilon", 0.2), intercept=intercept, kernel=kernel)
    for loss in (("hinge", 1.0), ("squared hinge", 1.0), ("logistic", 1.0)):
        yield machine(f"CSR, {loss[0]}", X, y, loss=loss, layout="csr")
        yield machine(f"CSR, {loss[0]}, penalised", X, y, loss=loss, layout="csr", intercept="penalised")
    yield machine("float32", X, y, dtype=np.float32)
    yield machine("float32, no intercept", X, y, dtype=np.float32, intercept=None)
    yield machine("CSR float32", X, y, layout="csr", dtype=np.float32)
    yield machine("float32, rbf", X, y, dtype=np.float32, kernel="rbf")
    yield machine("CSR, rbf", X, y, layout="csr", kernel="rbf")
    yield machine("CSR float32, polynomial", X, y, layout="csr", dtype=np.float32, kernel="polynomial")


def _degenerate():
    overlapping, y = blobs(40, 3, seed=6, apart=0.3)
    separable, _ = blobs(40, 3, seed=7, apart=6.0)
    doubled = np.vstack([overlapping, overlapping])
    constant = np.column_stack([overlapping, np.full(40, 3.0)])
    unscaled = overlapping * np.array([1e4, 1.0, 1.0])
    rare = np.where(y > 0, 1.0, 1e-3)
    some = np.where(np.arange(40) % 3 == 0, 0.0, 1.0)
    wide, wide_y = blobs(12, 50, seed=8)
    for kernel in (None, "linear"):

        def both(name, X, y, kernel=kernel, **options):
            return machine(f"{name}, {kernel or 'rows'}", X, y, kernel=kernel, **options)

        yield both("one sample per class", [[1.0, 2.0], [-1.0, 0.5]], [1, -1])
        yield both("one class only", overlapping, np.ones(40))
        yield both("one sample", [[1.0, 2.0]], [1])
        yield both("duplicated rows, same label", doubled, np.tile(y, 2))
        yield both("duplicated rows, opposite label", doubled, np.append(y, -y))
        yield both("zero column", np.column_stack([overlapping, np.zeros(40)]), y)
        yield both("constant feature", constant, y)
        yield both("constant feature, no intercept", constant, y, intercept=None)
        yield both("zero row", np.vstack([overlapping, np.zeros(3)]), np.append(y, 1))
        yield both("zero row, no intercept", np.vstack([overlapping, np.zeros(3)]), np.append(y, 1), intercept=None)
        yield both("tiny C", overlapping, y, s=1e-6)
        yield both("huge C, separable", separable, y, s=1e6)
        yield both("huge C, overlapping", overlapping[:12], y[:12], s=1e6, hard_for=SLOW)
        yield both("columns 1e4 apart", unscaled, y, hard_for=SLOW)
        yield both("columns 1e4 apart, squared hinge", unscaled, y, loss=("squared hinge", 1.0), hard_for=SLOW)
        yield both("weights 1:1000", overlapping, y, s=rare)
        yield both("weights 1:1000, penalised", overlapping, y, s=rare, intercept="penalised")
        yield both("zero weights", overlapping, y, s=some)
        yield both("zero weights, squared hinge", overlapping, y, loss=("squared hinge", 1.0), s=some)
        yield both("zero weights, squared", overlapping, y, loss=("squared", 1.0), s=some)
        yield both("no weight on one class", overlapping, y, s=np.where(y > 0, 1.0, 0.0))
        yield both("no weight at all", overlapping, y, s=0.0)
        yield both("separable", separable, y)
        yield both("overlapping", overlapping, y)
        yield both("single feature", overlapping[:, :1], y)
        yield both("more features than samples", wide, wide_y)
        yield both("points identical", np.ones((9, 2)), np.where(np.arange(9) < 3, 1, -1))
        for name in ("hinge", "squared hinge"):
            yield both(f"points at the origin, {name}", np.zeros((4, 2)), [1, 1, 1, -1], loss=(name, 1.0))
    yield machine("points at the origin, logistic", np.zeros((4, 2)), [1, 1, 1, -1], loss=("logistic", 1.0))
    yield machine("points at the origin, squared", np.zeros((4, 2)), [1, 2, 3, -1], loss=("squared", 1.0))
    yield machine("tiny C, squared hinge", overlapping, y, loss=("squared hinge", 1.0), s=1e-6)
    yield machine("huge C, logistic", overlapping, y, loss=("logistic", 1.0), s=1e6, hard_for=SLOW)
    yield machine("huge C, squared hinge", overlapping, y, loss=("squared hinge", 1.0), s=1e6, hard_for=SLOW)
    yield machine("weights 1:1000, logistic", overlapping, y, loss=("logistic", 1.0), s=rare)
    yield from _bounded()
    yield from _columns()
    yield from _smooth_columns()
    yield machine("large targets", overlapping, 1e3 * y + 1e4, loss=("squared", 1.0))


def _columns():
    """The squared loss with a penalty that has an L1 part, on columns of every kind."""
    X, y = line(40, 12, seed=22)
    X[np.abs(X) < 0.4] = 0.0
    wide, wide_y = line(25, 60, seed=25)
    weights = np.random.default_rng(24).uniform(0.2, 2.0, size=40)
    some = np.where(np.arange(40) % 3 == 0, 0.0, weights)
    nets = {"l1": ("l1", 4.0), "elastic net": ("elastic net", 5.0, 0.6)}
    positive = np.zeros(12), np.full(12, np.inf)
    narrow = np.full(12, -0.2), np.full(12, 0.3)

    def columns(name, X, y, penalty, layout="columns", **options):
        return machine(f"columns, {name}", X, y, loss=("squared", 1.0), penalty=penalty, layout=layout, **options)

    for name, penalty in nets.items():
        for intercept in ("free", None):
            for layout in ("columns", "csc"):
                label = f"{name}, {layout}, intercept {intercept}"
                yield columns(f"{label}, weighted", X, y, penalty, layout, s=weights, intercept=intercept)
                yield columns(f"{label}, wide", wide, wide_y, penalty, layout, intercept=intercept)
        yield columns(f"{name}, zero weights", X, y, penalty, s=some)
        yield columns(f"{name}, float32", X, y, penalty, s=weights, dtype=np.float32)
        yield columns(f"{name}, CSC float32", X, y, penalty, "csc", s=weights, dtype=np.float32)
        yield columns(f"{name}, duplicated columns", np.hstack([X, X]), y, penalty)
        opposite = np.hstack([X, -X])
        yield columns(f"{name}, opposite columns", opposite, y, penalty)
        yield columns(
            f"{name}, constant and zero columns", X * (np.arange(12) % 3 > 0) + (np.arange(12) % 6 == 0), y, penalty
        )
        yield columns(f"{name}, one sample", X[:1], y[:1], penalty, hard_for=("working_set",))
        yield columns(f"{name}, constant target", X, np.full(40, 3.0), penalty, hard_for=("working_set",))
        yield columns(f"{name}, columns 1e4 apart", X * np.where(np.arange(12) == 0, 1e4, 1.0), y, penalty)
        yield columns(f"{name}, huge", X, y, (penalty[0], 1e4, *penalty[2:]))
        yield columns(f"{name}, small", X, y, (penalty[0], 1e-3, *penalty[2:]))
        yield columns(f"{name}, small and wide", wide, wide_y, (penalty[0], 1e-3, *penalty[2:]))
        yield columns(f"{name}, far from the origin", X + 100.0, y, penalty)
        ratio = penalty[2] if len(penalty) > 2 else 1.0
        for layout in ("columns", "csc"):
            yield columns(f"positive {name}, {layout}", X, y, ("bounded", 4.0, ratio, *positive), layout, s=weights)
            yield columns(f"bounded {name}, {layout}", X, y, ("bounded", 1.0, ratio, *narrow), layout, intercept=None)
    for intercept in ("free", None):
        yield columns(f"ridge, intercept {intercept}", X, y, ("l2", 4.0), s=weights, intercept=intercept)
        yield columns(f"ridge, csc, intercept {intercept}", X, y, ("l2", 4.0), "csc", s=some, intercept=intercept)
    yield columns("bounded ridge", X, y, ("bounded", 1.0, 0.0, *narrow))
    yield columns("bounds alone", X, y, ("bounded", 0.0, 1.0, *narrow))


def _smooth_columns():
    """Other losses without kinks with such a penalty, on columns of every kind."""
    X, y = blobs(40, 12, seed=26, apart=0.5)
    X[np.abs(X) < 0.4] = 0.0
    wide, wide_y = blobs(25, 60, seed=27)
    t = line(40, 12, seed=28)[1]
    weights = np.random.default_rng(29).uniform(0.2, 2.0, size=40)
    narrow = np.full(12, -0.2), np.full(12, 0.3)
    nets = {"l1": ("l1", 1.5), "elastic net": ("elastic net", 2.0, 0.6)}

    def columns(name, X, y, loss="logistic", penalty=nets["l1"], layout="columns", **options):
        shape = {"huber hinge": 0.5, "squared epsilon": 0.1}.get(loss, 1.0)
        label = f"{loss} by {layout}, {name}"
        return machine(label, X, y, loss=(loss, shape), penalty=penalty, layout=layout, **options)

    for loss in ("logistic", "squared hinge", "huber hinge", "squared epsilon"):
        targets = t if loss == "squared epsilon" else y
        for intercept in ("free", "penalised", None):
            for layout in ("columns", "csc"):
                options = {"layout": layout, "intercept": intercept, "scale": 2.0}
                yield columns(f"l1, intercept {intercept}", X, targets, loss, s=weights, **options)
            yield columns(f"elastic net, intercept {intercept}", X, targets, loss, nets["elastic net"],
                          intercept=intercept)  # fmt: skip
            yield columns(f"bounded, intercept {intercept}", X, targets, loss, ("bounded", 1.0, 0.3, *narrow),
                          intercept=intercept)  # fmt: skip
        yield columns("bounded ridge", X, targets, loss, ("bounded", 1.0, 0.0, *narrow), "csc")
        yield columns("weak", X, targets, loss, ("l1", 1e-2))
    for loss in ("logistic", "squared hinge"):
        yield columns("wide", wide, wide_y, loss)
        yield columns("weak and wide", wide, wide_y, loss, ("l1", 1e-2), "csc")
        yield columns("weights 1:1000", X, y, loss, s=np.where(y > 0.0, 1.0, 1e-3))
        yield columns("zero weights", X, y, loss, s=np.where(np.arange(40) % 3 == 0, 0.0, weights))
        yield columns("no weight at all", X, y, loss, s=0.0)
        yield columns("strong", X, y, loss, ("l1", 1e3))
        yield columns("float32", X, y, loss, dtype=np.float32)
        yield columns("CSC float32", X, y, loss, layout="csc", dtype=np.float32)
        yield columns("duplicated columns", np.hstack([X, X]), y, loss)
        yield columns("opposite columns", np.hstack([X, -X]), y, loss)
        flat = X * (np.arange(12) % 3 > 0) + (np.arange(12) % 6 == 0)
        yield columns("constant and zero columns", flat, y, loss)
        yield columns("columns 1e4 apart", X * np.where(np.arange(12) == 0, 1e4, 1.0), y, loss)
        yield columns("far from the origin", X + 100.0, y, loss)
        yield columns("one sample, no intercept", X[:1], y[:1], loss, ("l1", 0.1), intercept=None)
        yield columns("separable", X + 5.0 * y[:, None] * (np.arange(12) == 0), y, loss, ("l1", 1e-3))


def _bounded():
    """Elastic nets within bounds; some of the bounds are met, some are not, one fixes a coefficient."""
    X, y = blobs(40, 4, seed=22, apart=0.5)
    R, t = line(40, 4, seed=23)
    inf = np.inf
    low, high = np.array([-0.05, 0.0, -inf, 0.0]), np.array([0.1, inf, 0.05, 0.0])
    positive = np.zeros(4), np.full(4, inf)
    for intercept in ("free", "penalised", None):
        options = {"intercept": intercept, "scale": 2.0}
        label = f"intercept {intercept}"
        for loss in (("hinge", 1.0), ("squared hinge", 1.0), ("logistic", 1.0)):
            yield machine(f"bounded ridge, {loss[0]}, {label}", X, y, loss=loss, **options,
                          penalty=("bounded", 0.7, 0.0, low, high))  # fmt: skip
        yield machine(f"positive ridge, {label}", R, t, loss=("squared", 1.0), **options,
                      penalty=("bounded", 0.7, 0.0, *positive))  # fmt: skip
        yield machine(f"positive lasso, {label}", R, t, loss=("squared", 1.0), **options,
                      penalty=("bounded", 0.7, 1.0, *positive))  # fmt: skip
        yield machine(f"bounded lasso, logistic, {label}", X, y, loss=("logistic", 1.0), **options,
                      penalty=("bounded", 0.7, 1.0, low, high))  # fmt: skip
    yield machine("bounded elastic net, squared epsilon", R, t, loss=("squared epsilon", 0.1),
                  penalty=("bounded", 0.7, 0.4, low, high))  # fmt: skip
    yield machine("nothing but a box", R, t, loss=("squared", 1.0), intercept=None,
                  penalty=("bounded", 0.0, 1.0, np.full(4, -0.3), np.full(4, 0.4)))  # fmt: skip


def _kernels():
    X, y = blobs(50, 3, seed=9, apart=0.7)
    for kernel in ("linear", "rbf", "polynomial", "laplacian", "precomputed", "callable"):
        yield machine(f"kernel {kernel}", X, y, kernel=kernel)
    yield machine("kernel laplacian, CSR", X, y, kernel="laplacian", layout="csr")
    yield machine("kernel callable, other strength", X, y, kernel="callable", penalty=("l2", 0.3))
    yield machine("kernel rbf, huge C", X, y, kernel="rbf", s=1e6)
    yield machine("kernel rbf, tiny C", X, y, kernel="rbf", s=1e-6)
    for kernel in ("sigmoid", "sigmoid of negative trace"):
        for intercept in ("free", None):
            hard_for = ("smo", "block_smo", "decomposition", "kernel_coordinate", "active_set")
            options = {"intercept": intercept, "hard_for": hard_for, "convex": False}
            yield machine(f"kernel {kernel}, intercept {intercept}", X, y, kernel=kernel, **options)


def _programs():
    X, y = blobs(30, 2, seed=10, apart=0.7)
    y[:4] = 1.0  # 17 against 13
    plus, minus = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    low, high = np.where(y > 0, 0.0, -1.0), np.where(y > 0, 1.0, 0.0)
    for name, nu in [("inside", 0.5), ("at its bound", 2 * minus.size / 30), ("small", 0.02)]:
        groups = ((plus, nu * 15), (minus, -nu * 15))
        yield program(f"nu-SVC, nu {name}", X, np.zeros(30), low, high, groups=groups)
    cap = 1 / minus.size  # the sum of 13 of them is not exactly 1
    groups = ((plus, 1.0), (minus, -1.0))
    yield program("reduced hulls, cap at its bound", X, np.zeros(30), cap * low, cap * high, groups=groups)
    yield program("hull distance", X + 3 * y[:, None], np.zeros(30), low, high, groups=groups, kernel="linear")
    everyone = np.arange(30)
    for name, nu in [("nu 0.2", 0.2), ("nu 1", 1.0)]:
        yield program(f"one-class, {name}", X, np.zeros(30), 0.0, 1 / (nu * 30), groups=((everyone, 1.0),))
    R, t = line(25, 2, seed=11)
    twice = np.tile(np.arange(25), 2)
    box = np.repeat([0.0, -1.0], 25), np.repeat([1.0, 0.0], 25)
    q = np.append(t - 0.1, t + 0.1)
    yield program("epsilon-SVR", R, q, *box, sample=twice, groups=((np.arange(50), 0.0),))
    yield program("epsilon-SVR, penalised", R, q, *box, sample=twice, lam=0.5, shift=2.0)
    order = np.random.default_rng(12).permutation(50)
    shuffled = (part[order] for part in (q, *box))
    yield program("epsilon-SVR, shuffled variables", R, *shuffled, sample=twice[order], groups=((np.arange(50), 0.0),))
    yield program("variables for some samples only", X, y[5:20], low[5:20], high[5:20], sample=np.arange(5, 20),
                  groups=((np.arange(15), 0.0),))  # fmt: skip
    yield program("ridge on every variable", X, y, low, high, D=0.3, groups=((everyone, 0.0),), lam=0.4)


def _hulls():
    apart, y = blobs(40, 3, seed=13, apart=6.0)
    near, _ = blobs(40, 3, seed=14, apart=1.0)
    mixed, _ = blobs(40, 3, seed=15, apart=0.2)
    yield hulls("separable", apart, y)
    yield hulls("overlapping", mixed, y)
    yield hulls("reduced, separable", apart, y, cap=0.2)
    yield hulls("reduced, separable by their caps", near, y, cap=0.08)
    yield hulls("reduced, overlapping", mixed, y, cap=0.15)
    yield hulls("touching at a vertex", [[0, 0], [1, 1], [1, -1], [0, 0], [-1, 1], [-1, -1]], [1, 1, 1, -1, -1, -1])
    yield hulls("touching on an edge", [[0, 1], [0, -1], [1, 0], [0, 0], [-1, 1], [-1, -1]], [1, 1, 1, -1, -1, -1])
    yield hulls(
        "touching on an edge, reduced", [[0, 1], [0, -1], [0, 0], [-2, 0]], [1, 1, -1, -1], cap=[0.5, 0.5, 1, 1]
    )
    yield hulls("one row per class", [[1.0, 2.0], [4.0, 6.0]], [1, -1])
    yield hulls("one row against many", np.vstack([apart[y < 0], [[9.0, 0.0, 0.0]]]), np.append(-np.ones(20), 1))
    yield hulls("duplicated rows", np.vstack([apart, apart]), np.tile(y, 2))
    yield hulls("duplicated rows, reduced", np.vstack([near, near]), np.tile(y, 2), cap=0.04)
    yield hulls("duplicated rows, opposite label", np.vstack([near, near]), np.append(y, -y))
    yield hulls("points identical", np.ones((9, 2)), np.where(np.arange(9) < 3, 1, -1))
    yield hulls("points at the origin", np.zeros((4, 2)), [1, 1, 1, -1])
    yield hulls("zero column", np.column_stack([apart, np.zeros(40)]), y)
    yield hulls("constant feature", np.column_stack([apart, np.full(40, 3.0)]), y)
    yield hulls("single feature", apart[:, :1], y)
    yield hulls("more features than samples", *blobs(12, 50, seed=16))
    yield hulls("more features than samples, reduced", *blobs(12, 50, seed=16), cap=0.3)
    some = np.where(np.arange(40) % 3 == 0, 0.0, 1.0)
    yield hulls("caps of zero", apart, y, cap=some)
    yield hulls("caps of zero, reduced", near, y, cap=0.12 * some)
    uneven = np.random.default_rng(17).uniform(0.05, 1.0, size=40)
    yield hulls("uneven caps", apart, y, cap=uneven)
    yield hulls("uneven caps, total 2", apart, y, cap=uneven, total=2.0)
    yield hulls("uneven caps, total 0.1", apart, y, cap=uneven, total=0.1)
    yield hulls("cap at its bound", near, y, cap=1 / 20)
    fewer = np.flatnonzero((y < 0) | (np.arange(40) < 26))  # 13 against 20, and the sum of 13 / 13 is not exactly 1
    yield hulls("cap at its bound, unequal classes", near[fewer], y[fewer], cap=1 / 13)
    yield hulls("columns 1e4 apart", apart * np.array([1.0, 1e4, 1.0]), y, hard_for=SLOW)
    yield hulls("columns 1e4 apart, reduced", near * np.array([1.0, 1e4, 1.0]), y, cap=0.08, hard_for=SLOW)
    yield hulls("far from the origin", apart + 100.0, y)
    yield hulls("tiny numbers", 1e-8 * apart, y)
    sparse = np.where(np.abs(apart) < 0.5, 0.0, apart)
    for cap in (1.0, 0.1):
        yield hulls(f"CSR, caps {cap}", sparse, y, cap=cap, layout="csr")
        yield hulls(f"float32, caps {cap}", sparse, y, cap=cap, dtype=np.float32)
        yield hulls(f"CSR float32, caps {cap}", sparse, y, cap=cap, layout="csr", dtype=np.float32)


def _several(n: int, d: int, k: int, seed: int, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes around points of the axes."""
    y = np.arange(n) % k
    return np.random.default_rng(seed).normal(size=(n, d)) + apart * np.eye(max(d, k))[y][:, :d], y


def _softmax():
    X, y = _several(60, 4, 3, seed=18)
    weights = np.random.default_rng(19).uniform(0.2, 2.0, size=60)
    some = np.where(np.arange(60) % 4 == 0, 0.0, weights)
    for intercept in ("free", "penalised", None):
        yield softmax(f"intercept {intercept}, weighted", X, y, s=weights, intercept=intercept, scale=2.0, lam=0.7)
        yield softmax(f"intercept {intercept}, zero weights", X, y, s=some, intercept=intercept)
        yield softmax(f"intercept {intercept}, no weight at all", X, y, s=0.0, intercept=intercept)
        yield softmax(f"intercept {intercept}, 4 classes, CSR", np.where(np.abs(X) < 0.5, 0.0, X), np.arange(60) % 4,
                      k=4, intercept=intercept, layout="csr")  # fmt: skip
    far, _ = _several(60, 4, 3, seed=20, apart=20.0)
    yield softmax("float32", X, y, dtype=np.float32)
    yield softmax("CSR float32", X, y, layout="csr", dtype=np.float32)
    yield softmax("two classes", X, y % 2, k=2)
    yield softmax("a class of one sample", X, np.append(y[:-1] % 2, 2))
    for intercept in ("penalised", None):
        yield softmax(f"a class of no samples, intercept {intercept}", X, y, k=4, intercept=intercept)
    # With a free intercept the infimum is not attained: that of the class goes to minus infinity.
    yield softmax("a class of no samples", X, y, k=4)
    yield softmax("a class of no weight", X, y, s=np.where(y == 1, 0.0, 1.0))
    # Neither here, and the infimum is 0: no gap is small beside it.
    yield softmax("one class only", X, np.zeros(60), hard_for=("softmax_newton",))
    yield softmax("separable", far, y)
    yield softmax("separable, huge C", far, y, lam=1e-6)
    yield softmax("huge C", X, y, lam=1e-6)
    yield softmax("tiny C", X, y, lam=1e6)
    yield softmax("weights 1:1000", X, y, s=np.where(y == 0, 1e-3, 1.0))
    yield softmax("more features than samples", *_several(12, 50, 3, seed=21))
    yield softmax("more features than samples, no intercept", *_several(12, 50, 3, seed=21), intercept=None)
    yield softmax("duplicated rows", np.vstack([X, X]), np.tile(y, 2))
    yield softmax("duplicated rows, other label", np.vstack([X, X]), np.append(y, (y + 1) % 3))
    yield softmax("zero column", np.column_stack([X, np.zeros(60)]), y)
    yield softmax("constant feature", np.column_stack([X, np.full(60, 3.0)]), y)
    yield softmax("points identical", np.ones((9, 2)), np.arange(9) % 3)
    yield softmax("points at the origin", np.zeros((9, 2)), [0, 0, 0, 0, 1, 1, 1, 2, 2])
    yield softmax("columns 1e4 apart", X * np.array([1e4, 1.0, 1e-2, 1.0]), y)


def _crammer_singer():
    def machine_of(name: str, X: Any, y: Any, **options: Any) -> Case:
        return softmax(name, X, y, kind="crammer-singer", **options)

    X, y = _several(60, 4, 3, seed=18)
    weights = np.random.default_rng(19).uniform(0.2, 2.0, size=60)
    some, slow = np.where(np.arange(60) % 4 == 0, 0.0, weights), ("dual_simplices",)
    for intercept in ("free", "penalised", None):
        yield machine_of(f"intercept {intercept}, weighted", X, y, s=weights, intercept=intercept, scale=2.0, lam=0.7)
        yield machine_of(f"intercept {intercept}, zero weights", X, y, s=some, intercept=intercept)
        yield machine_of(f"intercept {intercept}, no weight at all", X, y, s=0.0, intercept=intercept)
        yield machine_of(f"intercept {intercept}, 4 classes, CSR", np.where(np.abs(X) < 0.5, 0.0, X),
                         np.arange(60) % 4, k=4, intercept=intercept, layout="csr")  # fmt: skip
    far, _ = _several(60, 4, 3, seed=20, apart=20.0)
    yield machine_of("float32", X, y, dtype=np.float32)
    yield machine_of("CSR float32", X, y, layout="csr", dtype=np.float32)
    yield machine_of("two classes", X, y % 2, k=2)
    yield machine_of("a class of one sample", X, np.append(y[:-1] % 2, 2))
    for intercept in ("penalised", None):
        yield machine_of(f"a class of no samples, intercept {intercept}", X, y, k=4, intercept=intercept)
    yield machine_of("one class only", X, np.zeros(60), intercept=None)
    yield machine_of("separable", far, y)
    yield machine_of("separable, huge C", far, y, lam=1e-6, hard_for=slow)
    yield machine_of("huge C", X, y, lam=1e-6, hard_for=slow)
    yield machine_of("tiny C", X, y, lam=1e6)
    yield machine_of("weights 1:1000", X, y, s=np.where(y == 0, 1e-3, 1.0))
    yield machine_of("more features than samples", *_several(12, 50, 3, seed=21))
    yield machine_of("duplicated rows, other label", np.vstack([X, X]), np.append(y, (y + 1) % 3))
    yield machine_of("zero column", np.column_stack([X, np.zeros(60)]), y)
    yield machine_of("constant feature", np.column_stack([X, np.full(60, 3.0)]), y)
    yield machine_of("points identical", np.ones((9, 2)), np.arange(9) % 3)
    yield machine_of("points at the origin", np.zeros((9, 2)), [0, 0, 0, 0, 1, 1, 1, 2, 2])
    yield machine_of("points at the origin, no intercept", np.zeros((9, 2)), np.arange(9) % 3, intercept=None)
    yield machine_of("columns 1e4 apart", X * np.array([1e4, 1.0, 1e-2, 1.0]), y, hard_for=slow)


def _groups():
    """The group LASSO, and several targets with common features."""
    X, t = line(40, 12, seed=60)
    X[np.abs(X) < 0.4] = 0.0
    Y = np.vstack([t, X[:, 0] - X[:, 5], np.random.default_rng(61).normal(size=40)])
    weights = np.random.default_rng(62).uniform(0.2, 2.0, size=40)
    threes, single = np.repeat(np.arange(4), 3), np.arange(12)
    prices = np.array([1.0, 4.0, 0.5, 9.0])
    for free in (True, False):
        label = "intercept free" if free else "no intercept"
        yield grouped(f"{label}, weighted", X, t, threes, prices, s=weights, free=free)
        yield grouped(f"{label}, several targets", X, Y, single, 4.0, s=weights, free=free)
        yield grouped(f"{label}, CSC, with a ridge", X, Y, threes, prices, mu=0.7, free=free, layout="csc")
    yield grouped("wide", *_wide_targets(), np.repeat(np.arange(20), 3), 2.0)
    yield grouped("zero weights", X, t, threes, 2.0, s=np.where(np.arange(40) % 3 == 0, 0.0, weights))
    yield grouped("duplicated columns", np.hstack([X, X]), t, np.tile(threes, 2), 3.0)
    yield grouped("zero and constant columns", X * (single % 3 > 0) + (single % 6 == 0), t, threes, 2.0)
    yield grouped("columns 1e3 apart", X * np.where(single == 0, 1e3, 1.0), t, threes, 2.0)
    yield grouped("float32", X, Y, single, 4.0, dtype=np.float32)
    yield grouped("huge", X, Y, single, 1e4)


def _wide_targets():
    X, t = line(25, 60, seed=63)
    return X, np.vstack([t, X[:, 3] + 0.1 * t])
