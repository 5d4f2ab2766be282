"""The machines of the library in balls of 300 digits: what each minimises, written anew, and its exact optimum.

Nothing is imported from the library. A number is an ``arb``, an interval whose rounding is accounted for, so that a
comparison of two of them is a proof.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx

ctx.prec = 1024
UNIT = 2.0**-53
MARGIN_LOSSES = ("hinge", "squared hinge", "huber hinge", "logistic")
UNIT_SLOPES = ("hinge", "huber hinge", "logistic", "epsilon")  # steepness at most 1


def column(values):
    return arb_mat([[arb(v)] for v in values])


def entries(matrix):
    return matrix.entries()


def total(values):
    return sum(values, arb(0))


def square(x):
    """Not ``x**2``, which is not a number for a ball around zero."""
    return x * x


def power(x, degree):
    out = arb(1)
    for _ in range(degree):
        out *= x
    return out


def positive_part(x):
    return x.nonnegative_part()


def least(values):
    out = values[0]
    for value in values[1:]:
        out = out.min(value)
    return out


def upper(x):
    """A float at or above a ball."""
    return math.nextafter(float(x.upper()), math.inf) if x.is_finite() else math.inf


def lower(x):
    """A float at or below a ball."""
    return math.nextafter(float(x.lower()), -math.inf) if x.is_finite() else -math.inf


# ---- functions -------------------------------------------------------------------------------------------------------


@dataclass
class Function:
    """Scores at the samples without the intercept, the squared norm, and how large the terms of the scores are."""

    scores: list
    square: arb
    reach: np.ndarray
    w: list = field(default_factory=list)


class RowSpace:
    """Functions ``w.x`` of rows of features."""

    def __init__(self, X):
        self.X, self.n = np.asarray(X, dtype=np.float64), len(X)
        self.A = arb_mat(self.X.tolist()) if self.X.size else arb_mat(*self.X.shape)
        self.convex, self.dent = True, 0.0

    @cached_property
    def gram(self):
        return self.A * self.A.transpose()

    def coefficients(self, w):
        w = [arb(v) for v in w]
        reach = np.abs(self.X) @ np.abs([float(v) for v in w])
        return Function(entries(self.A * column(w)), total([v * v for v in w]), reach, w)

    def expansion(self, a):
        return self.coefficients(entries(self.A.transpose() * column(a)))


class KernelSpace:
    """Functions ``sum_j a_j k(x_j, .)`` at the samples; a matrix that is not convex proves nothing about the dual."""

    def __init__(self, gram, given=False):
        self.gram, self.n = gram, gram.nrows()
        values = np.array([[float(v) for v in row] for row in gram.tolist()])
        self.sizes = np.abs(values)
        self.finite = bool(np.isfinite(values).all() and self.sizes.max(initial=0.0) < 1e280)
        largest = self.sizes.max(initial=0.0) or 1.0
        smallest = float(np.linalg.eigvalsh(0.5 * (values + values.T) / largest).min()) if self.finite else -math.inf
        self.convex = smallest > -1e-8  # beside the largest entry: what users' own rounding may amount to
        self.dent = max(0.0, -smallest - 1e-14 * self.n) * largest if self.convex else math.inf
        self.dent += 1e-15 * self.n * largest if given else 0.0  # may be as little below zero and not be seen
        self.dent += float(np.abs(values - values.T).max(initial=0.0))  # as little as asymmetry may change

    def expansion(self, a):
        scores = entries(self.gram * column(a))
        sizes = np.abs([float(v) for v in a])
        return Function(scores, total([u * v for u, v in zip(map(arb, a), scores, strict=True)]), self.sizes @ sizes)


def kernel_matrix(name, X, gamma, degree, coef0):
    """Exact kernel values of rows of floats."""
    n, A = len(X), arb_mat(X.tolist())
    M, gamma, coef0 = (A * A.transpose()).tolist(), arb(float(gamma)), arb(float(coef0))
    K = [[arb(0)] * n for _ in range(n)]
    rows = A.tolist()
    for i in range(n):
        for j in range(i + 1):
            if name == "linear":
                value = M[i][j]
            elif name == "rbf":
                value = (-gamma * (M[i][i] + M[j][j] - 2 * M[i][j])).exp()
            elif name == "laplacian":
                value = (-gamma * total([abs(u - v) for u, v in zip(rows[i], rows[j], strict=True)])).exp()
            elif name == "poly":
                value = power(gamma * M[i][j] + coef0, int(degree))
            else:
                value = (gamma * M[i][j] + coef0).tanh()
            K[i][j] = K[j][i] = value
    return arb_mat(K)


# ---- losses ----------------------------------------------------------------------------------------------------------


def loss_of(loss, z, y):
    name, p = loss
    if name == "hinge":
        return positive_part(p - y * z)
    if name == "squared hinge":
        return square(positive_part(p - y * z))
    if name == "huber hinge":
        slack = positive_part(1 - y * z)
        return slack - p / 2 if slack > p else slack * slack / (2 * p)
    if name == "logistic":
        t = -y * z
        return positive_part(t) + (-abs(t)).exp().log1p()
    if name == "squared":
        return square(z - y) / 2
    outside = positive_part(abs(z - y) - p)
    return outside if name == "epsilon" else square(outside)


def slopes(loss, z, y):
    """Derivatives in floats, for the search for an intercept."""
    name, p = loss[0], float(loss[1])
    m = y * z
    if name == "hinge":
        return np.where(m < p, -y, 0.0)
    if name == "squared hinge":
        return -2.0 * y * np.maximum(p - m, 0.0)
    if name == "huber hinge":
        return -y * np.clip((1.0 - m) / p, 0.0, 1.0)
    if name == "logistic":
        return -y * 0.5 * (1.0 - np.tanh(0.5 * m))
    if name == "squared":
        return z - y
    outside = np.sign(z - y) * np.maximum(np.abs(z - y) - p, 0.0)
    return np.sign(outside) if name == "epsilon" else 2.0 * outside


# ---- machines --------------------------------------------------------------------------------------------------------


@dataclass
class Limits:
    """The smallest and the largest value of all coefficients; beyond the squares of ``reach`` nothing is claimed."""

    low: float
    high: float
    reach: list | None = None

    def hold(self, w):
        return all(not (v < self.low or v > self.high) for v in w)

    def within_reach(self, w):
        return self.reach is None or all(square(v) <= end for v, end in zip(w, self.reach, strict=True))


@dataclass
class Machine:
    """``sum_i s_i loss(f(x_i) + b, y_i) + R(f)``; a penalised intercept adds ``R(b / scale)``."""

    space: object
    y: list
    s: list
    loss: tuple  # name, parameter
    penalty: tuple = ("l2", arb(1))  # name, strength, share of the L1 norm
    intercept: str | None = "free"
    scale: arb = field(default_factory=lambda: arb(1))
    limits: Limits | None = None

    def claimed(self, f):
        """Whether the dual value is said to be below that of a function."""
        return self.limits is None or (self.limits.hold(f.w) and self.limits.within_reach(f.w))

    def norm(self, f, b):
        name, lam, *ratio = self.penalty
        if name == "none":
            return arb(0)
        length, w = f.square, f.w
        if self.intercept == "penalised":
            length, w = length + square(b / self.scale), [*w, b / self.scale]
        if name == "l2":
            return lam * length / 2
        lasso = total([abs(v) for v in w])
        return lam * lasso if name == "l1" else lam * (ratio[0] * lasso + (1 - ratio[0]) * length / 2)

    def primal(self, f, b):
        return total(self.losses(f, b)) + self.norm(f, b)

    def losses(self, f, b):
        return [
            s * loss_of(self.loss, z + b, y) if s > 0 else arb(0)
            for s, z, y in zip(self.s, f.scores, self.y, strict=True)
        ]

    def slack(self, f, b):
        """What the rounding of the weights to floats may change: a few units of what is added up."""
        return 16 * UNIT * upper(self.primal(f, b))

    def zero(self):
        nothing = Function([arb(0)] * self.space.n, arb(0), np.zeros(self.space.n), [arb(0)] * self.features)
        return [(nothing, b) for b in {arb(0), self.best_intercept(nothing)}]

    @property
    def features(self):
        return self.space.X.shape[1] if isinstance(self.space, RowSpace) else 0

    def best_intercept(self, f):
        """Of a free intercept: bisection on the slope, in floats, around the middle score."""
        if self.intercept != "free":
            return arb(0)
        centre = sorted(f.scores, key=float)[len(f.scores) // 2].mid()
        z = np.array([float(v - centre) for v in f.scores])
        y, s = np.array([float(v) for v in self.y]), np.array([float(v) for v in self.s])
        high = 2.0 * (1.0 + np.abs(z).max() + np.abs(y).max() + float(self.loss[1]))
        if self.loss[0] == "logistic":
            high += 2000.0
        low = -high
        for _ in range(120):
            middle = 0.5 * (low + high)
            if s @ slopes(self.loss, z + middle, y) > 0.0:
                high = middle
            else:
                low = middle
        return arb(0.5 * (low + high)) - centre

    def program(self):
        """The dual, if it is a quadratic program."""
        name, p = self.loss
        if self.penalty[0] != "l2" or name == "logistic" or self.limits is not None:
            return None
        lam, n = self.penalty[1], self.space.n
        shift = square(self.scale) if self.intercept == "penalised" else arb(0)
        G = self.space.gram
        Q = [[(G[i, j] + shift) / lam for j in range(n)] for i in range(n)]
        curvature = {"squared hinge": 2, "squared epsilon": 2, "squared": 1}.get(name)
        if name == "huber hinge":
            curvature = 1 / p
        q, low, high, D = [], [], [], []
        for side in (1, -1) if name in ("epsilon", "squared epsilon") else (0,):
            for y, s in zip(self.y, self.s, strict=True):
                reach = s if name in UNIT_SLOPES else (None if s > 0 else arb(0))
                both = name == "squared"
                up = both or (side > 0 if side else y > 0)
                q.append(y - side * p if side else y * p if name == "hinge" or name == "squared hinge" else y)
                low.append((None if reach is None else -reach) if both or not up else arb(0))
                high.append(reach if up else arb(0))
                D.append(1 / (curvature * s) if curvature is not None and s > 0 else arb(0))
        sides = len(q) // n
        Q = [row * sides for row in Q] * sides
        group = [0] * len(q) if self.intercept == "free" else [None] * len(q)
        return Program(Q, q, low, high, D, group, [arb(0)] if self.intercept == "free" else [], sides)

    def of_dual(self, a, multipliers):
        """The function that belongs to dual variables."""
        lam = self.penalty[1]
        f = self.space.expansion([v / lam for v in a])
        if self.intercept == "free":
            return f, multipliers[0]
        return f, total(a) * square(self.scale) / lam if self.intercept == "penalised" else arb(0)


@dataclass
class Street:
    """``|f|^2 / 2 - 2 total rho + sum_i s_i max(0, rho - y_i (f(x_i) + b))``: nu-SVC; hard if ``s`` is None."""

    space: object
    y: list
    s: list | None
    total: arb
    used: np.ndarray  # samples that take part

    def primal(self, f, b):
        """Of the best multiple of a function whose margin is 1; the hard margin lets it have its best intercept."""
        used = np.flatnonzero(self.used)
        if self.s is None:
            ups = [f.scores[i] for i in used if self.y[i] > 0]
            downs = [-f.scores[i] for i in used if self.y[i] < 0]
            gain = positive_part((least(ups) + least(downs)) / 2) * 2
        else:
            missing = total([self.s[i] * positive_part(1 - self.y[i] * (f.scores[i] + b)) for i in used])
            gain = positive_part(2 * self.total - missing)
        if not f.square > 0:
            return arb(0)
        return -square(gain) / (2 * f.square)

    def separates(self, f, b):
        """Whether all samples are on their sides for certain, with this or with the best intercept."""
        return bool(self.s is None and self.primal(f, b) < 0)

    def slack(self, f, b):
        """What a division by the margin may change: some units of the terms of each score."""
        used = np.flatnonzero(self.used)
        gain = 2.0 * float(self.total)
        length = float(f.square)
        s = np.array([1.0 if self.s is None else float(self.s[i]) for i in used])
        lost = 16 * UNIT * float(s @ (1.0 + f.reach[used] + abs(float(b)))) if self.s is not None else 0.0
        if self.s is None:
            lost = 16 * UNIT * float((1.0 + f.reach[used] + abs(float(b))).max())
        return gain * lost / length + 16 * UNIT * abs(float(self.primal(f, b))) if length > 0.0 else 0.0

    def zero(self):
        return [(Function([arb(0)] * self.space.n, arb(0), np.zeros(self.space.n)), arb(0))]

    def program(self):
        n = self.space.n
        caps = [self.total if self.s is None else self.s[i].min(self.total) for i in range(n)]
        caps = [cap if used else arb(0) for cap, used in zip(caps, self.used, strict=True)]
        low = [-cap if y < 0 else arb(0) for cap, y in zip(caps, self.y, strict=True)]
        high = [cap if y > 0 else arb(0) for cap, y in zip(caps, self.y, strict=True)]
        group = [0 if y > 0 else 1 for y in self.y]
        zeros = [arb(0)] * n
        return Program(self.space.gram.tolist(), zeros, low, high, zeros, group, [self.total, -self.total], 1)

    def of_dual(self, a, multipliers):
        f, rho = self.space.expansion(a), (multipliers[1] - multipliers[0]) / 2
        b = (multipliers[1] + multipliers[0]) / 2
        if not rho > 0:
            return f, b
        return Function(
            [z / rho for z in f.scores], f.square / square(rho), f.reach / float(rho), [v / rho for v in f.w]
        ), b / rho


@dataclass
class Region:
    """``|f|^2 / 2 - total rho + sum_i s_i max(0, rho - f(x_i))``: the one-class machine; ``b`` is ``-rho``."""

    space: object
    s: list
    total: arb

    def primal(self, f, b):
        outside = [s * positive_part(-b - z) for s, z in zip(self.s, f.scores, strict=True)]
        return f.square / 2 + self.total * b + total(outside)

    def slack(self, f, b):
        lowered = 1.1e-12 * abs(float(b)) * float(total(self.s))  # so that samples on the edge are inside
        return lowered + 16 * UNIT * (abs(float(self.total * b)) + float(f.square))

    def zero(self):
        return [(Function([arb(0)] * self.space.n, arb(0), np.zeros(self.space.n)), arb(0))]

    def program(self):
        n, zeros = self.space.n, [arb(0)] * self.space.n
        return Program(self.space.gram.tolist(), zeros, zeros, self.s, zeros, [0] * n, [self.total], 1)

    def of_dual(self, a, multipliers):
        return self.space.expansion(a), multipliers[0]


@dataclass
class Tube:
    """``|f|^2 / 2 + total epsilon + sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon)`` with the best width: nu-SVR."""

    space: object
    y: list
    s: list
    total: arb

    def primal(self, f, b):
        errors = [abs(y - z - b) for y, z in zip(self.y, f.scores, strict=True)]
        order, above, width = np.argsort([-float(e) for e in errors]), arb(0), arb(0)
        for i in order:
            above += self.s[i]
            if above > self.total:
                width = errors[i]
                break
        missing = [s * positive_part(e - width) for s, e in zip(self.s, errors, strict=True)]
        return f.square / 2 + self.total * width + total(missing)

    def slack(self, f, b):
        return 16 * UNIT * upper(self.primal(f, b))

    def zero(self):
        nothing = Function([arb(0)] * self.space.n, arb(0), np.zeros(self.space.n))
        order = np.argsort([float(y) for y in self.y])
        return [(nothing, self.y[i]) for i in order[:: max(1, len(order) // 8)]]

    def program(self):
        n = self.space.n
        Q = [row * 2 for row in self.space.gram.tolist()] * 2
        zeros = [arb(0)] * n
        low, high = zeros + [-s for s in self.s], self.s + zeros
        half = self.total / 2
        return Program(Q, self.y * 2, low, high, zeros * 2, [0] * n + [1] * n, [half, -half], 2)

    def of_dual(self, a, multipliers):
        return self.space.expansion(a), (multipliers[0] + multipliers[1]) / 2


@dataclass
class Softmax:
    """``|W|^2 / 2 + sum_i s_i (log sum_k exp(z_ik) - z_i,y_i)``; ``f`` is a list of a function per class."""

    space: RowSpace
    y: list  # numbers of classes
    s: list
    intercept: str | None
    scale: arb

    def primal(self, f, b):
        value = total([part.square for part in f]) / 2
        if self.intercept == "penalised":
            value += total([square(v / self.scale) for v in b]) / 2
        for i, (y, s) in enumerate(zip(self.y, self.s, strict=True)):
            z = [part.scores[i] + v for part, v in zip(f, b, strict=True)]
            if s > 0:
                value += s * total([(v - z[y]).exp() for v in z]).log()
        return value

    def slack(self, f, b):
        return 16 * UNIT * upper(self.primal(f, b))

    def zero(self):
        n, k = self.space.n, max(self.y) + 1
        nothing = self.space.coefficients([0.0] * self.space.X.shape[1])
        share = [total([s for s, y in zip(self.s, self.y, strict=True) if y == c]) for c in range(k)]
        best = [v.log() if v > 0 else arb(-1000) for v in share] if self.intercept == "free" and n else [arb(0)] * k
        return [([nothing] * k, [arb(0)] * k), ([nothing] * k, best)]

    def program(self):
        return None


# ---- the exact optimum of a quadratic program ------------------------------------------------------------------------


@dataclass
class Program:
    """``max q.a - a'(Q + D)a / 2`` over ``low <= a <= high`` (None: no bound) with the sums ``totals`` over groups."""

    Q: list
    q: list
    low: list
    high: list
    D: list
    group: list
    totals: list
    sides: int  # variables per sample

    def value(self, a):
        """Exactly, at variables taken as they are."""
        Qa = entries(arb_mat(self.Q) * column(a))
        return total([v * (q - w / 2 - d * v / 2) for v, q, w, d in zip(a, self.q, Qa, self.D, strict=True)])

    def expansion(self, a):
        n = len(a) // self.sides
        return [total(a[i::n]) for i in range(n)]

    def spread(self, alpha):
        """Variables for an expansion over the samples: positive parts to one side, negative parts to the other."""
        if self.sides == 1:
            return list(alpha)
        return [max(v, 0.0) for v in alpha] + [min(v, 0.0) for v in alpha]
