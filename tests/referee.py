"""The referee: primal and dual value, gap and KKT violation of every problem, in plain NumPy.

It shares no code with the library and imports nothing from it. Formulas are in textbook form: classification losses
have unsigned dual variables ``a = y alpha``, regression losses have ``alpha = p - n``. Duals are written out per loss
instead of going through conjugates, intercepts of kernels and of rows are treated separately, and the reference optima
come from other people's solvers.
"""

from dataclasses import dataclass, replace

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import entr, expit, log_softmax

CLASSIFICATION = ("hinge", "squared hinge", "huber hinge", "logistic")


@dataclass(frozen=True)
class Machine:
    """``sum_i s_i loss(z_i, y_i) + penalty(w)`` with ``z = X w + b``, or ``z = K w + b`` and ``w^T K w``."""

    y: np.ndarray
    s: np.ndarray
    loss: tuple  # name, parameter
    penalty: tuple  # name, lam, ratio of the L1 part, bounds below and above
    X: np.ndarray | None = None
    K: np.ndarray | None = None
    intercept: str | None = "free"
    scale: float = 1.0

    @property
    def lam(self):
        return self.penalty[1]


@dataclass(frozen=True)
class Box:
    """``min a^T Q a / 2 + sum_v D_v a_v^2 / 2 - q^T a`` over ``low <= a <= high`` with fixed sums over groups."""

    Q: np.ndarray
    q: np.ndarray
    low: np.ndarray
    high: np.ndarray
    D: np.ndarray
    groups: tuple = ()  # of pairs: indices of the members, total


@dataclass(frozen=True)
class Hulls:
    """``min |X^T a|^2 / 2`` over ``0 <= y_i a_i <= cap_i`` where ``y_i a_i`` have the sum ``total`` in either class."""

    X: np.ndarray
    y: np.ndarray
    cap: np.ndarray
    total: float = 1.0

    @property
    def sides(self):
        return [np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)]


@dataclass(frozen=True)
class Softmax:
    """``sum_i s_i (log sum_c exp(z_ic) - z_i,y_i) + lam |W|^2 / 2`` with ``z_i = W x_i + b``, ``k`` classes."""

    X: np.ndarray
    y: np.ndarray  # numbers of classes
    k: int
    lam: float
    s: np.ndarray
    intercept: str | None = "free"
    scale: float = 1.0

    def split(self, w):
        """Coefficients and intercepts of a point, whose ``w`` is ``[W b]``, raveled."""
        if self.intercept is None:
            return w.reshape(self.k, -1), np.zeros(self.k)
        theta = w.reshape(self.k, -1)
        return theta[:, :-1], theta[:, -1]


@dataclass(frozen=True)
class CrammerSinger(Softmax):
    """``sum_i s_i max_c (z_ic - z_i,y_i + [c != y_i]) + lam |W|^2 / 2`` with ``z_i = W x_i + b``, ``k`` classes."""


@dataclass(frozen=True)
class Grouped:
    """``sum_i s_i/2 |Y_i - W x_i - b|^2 + sum_g prices_g |W_g| + mu/2 |W|^2``; ``Y`` has a row for each target."""

    X: np.ndarray
    Y: np.ndarray
    groups: np.ndarray  # number of the group of each feature
    prices: np.ndarray
    mu: float
    s: np.ndarray
    free: bool = True

    def split(self, w):
        """Coefficients, a row for each target, and intercepts."""
        T, d = len(self.Y), self.X.shape[1]
        return w[: T * d].reshape(T, d), w[T * d :] if self.free else np.zeros(T)

    def norms(self, W):
        """The norm of each group."""
        return np.array([np.linalg.norm(W[:, self.groups == g]) for g in range(self.prices.size)])


@dataclass(frozen=True)
class Verdict:
    """What the referee says about a point; the dual value means nothing unless ``infeasibility`` is 0 or rounding."""

    primal: float
    dual: float
    infeasibility: float

    @property
    def gap(self):
        return self.primal - self.dual

    @property
    def relative_gap(self):
        largest = max(abs(self.primal), abs(self.dual))
        return self.gap / largest if largest > 0 else 0.0


# ---- losses ----------------------------------------------------------------------------------------------------------


def loss_values(loss, z, y):
    """The loss of every sample."""
    name, p = loss
    if name == "hinge":
        return np.where(y * z < p, p - y * z, 0.0)
    if name == "squared hinge":
        return np.where(y * z < p, (p - y * z) ** 2, 0.0)
    if name == "huber hinge":  # inventory 0-07
        m = y * z
        return np.where(m >= 1, 0.0, np.where(m <= 1 - p, 1 - m - p / 2, (1 - m) ** 2 / (2 * p)))
    if name == "logistic":
        return p * np.logaddexp(0.0, -y * z / p)
    if name == "squared":
        return p / 2 * (z - y) ** 2
    if name == "huber":
        r = np.abs(z - y)
        return np.where(r <= p, r**2 / 2, p * (r - p / 2))
    tube = np.where(np.abs(z - y) > p, np.abs(z - y) - p, 0.0)
    return tube if name == "epsilon" else tube**2


def dual_loss(loss, alpha, y, s):
    """What the losses contribute to the dual, and by how much ``alpha`` leaves its domain."""
    name, p = loss
    outside = np.abs(alpha[s == 0]).max(initial=0.0)  # a sample without weight has no dual variable
    alpha, y, s = alpha[s > 0], y[s > 0], s[s > 0]
    a = y * alpha if name in CLASSIFICATION else np.abs(alpha)
    if name in CLASSIFICATION:
        outside = max(outside, (-a).max(initial=0.0))
    if name in ("hinge", "huber hinge", "logistic", "epsilon"):
        outside = max(outside, (a - s).max(initial=0.0))
    if name == "huber":
        outside = max(outside, (a - p * s).max(initial=0.0))
    if name == "hinge":
        value = p * a.sum()
    elif name == "squared hinge":
        value = (p * a - a**2 / (4 * s)).sum()
    elif name == "huber hinge":
        value = (a - p * a**2 / (2 * s)).sum()
    elif name == "logistic":
        t = np.clip(a / s, 0.0, 1.0)
        value = (p * s * (entr(t) + entr(1 - t))).sum()
    elif name == "squared":
        value = (y * alpha - alpha**2 / (2 * p * s)).sum()
    elif name == "huber":
        value = (y * alpha - alpha**2 / (2 * s)).sum()
    elif name == "epsilon":
        value = (y * alpha).sum() - p * a.sum()
    else:
        value = (y * alpha).sum() - p * a.sum() - (a**2 / (4 * s)).sum()
    return float(value), float(outside)


def slope_interval(loss, z, y):
    """Ends of the subdifferential of every sample's loss."""
    name, p = loss
    if name == "hinge":
        t_low = np.where(y * z <= p, 1.0, 0.0)
        t_high = np.where(y * z < p, 1.0, 0.0)
        return np.minimum(-y * t_low, -y * t_high), np.maximum(-y * t_low, -y * t_high)
    if name == "epsilon":
        e = z - y
        return np.where(e > p, 1.0, np.where(e <= -p, -1.0, 0.0)), np.where(e >= p, 1.0, np.where(e < -p, -1.0, 0.0))
    if name == "squared hinge":
        g = -2 * y * np.maximum(p - y * z, 0)
    elif name == "huber hinge":
        g = -y * np.clip((1 - y * z) / p, 0, 1)
    elif name == "logistic":
        g = -y * expit(-y * z / p)
    elif name == "squared":
        g = p * (z - y)
    elif name == "huber":
        g = np.clip(z - y, -p, p)
    else:
        g = 2 * np.sign(z - y) * np.maximum(np.abs(z - y) - p, 0)
    return g, g


def score_interval(loss, alpha, y, s):
    """Ends of the interval of scores at which ``alpha_i`` is ``-s_i`` times a subgradient. Needs ``s > 0``."""
    name, p = loss
    inf = np.inf
    t = alpha / s
    if name in CLASSIFICATION:
        t = y * t
        if name == "hinge":
            low, high = np.where(t >= 1, -inf, p), np.where(t <= 0, inf, p)
        elif name == "squared hinge":
            low, high = p - t / 2, np.where(t <= 0, inf, p - t / 2)
        elif name == "huber hinge":
            low, high = np.where(t >= 1, -inf, 1 - p * t), np.where(t <= 0, inf, 1 - p * t)
        else:
            with np.errstate(divide="ignore"):
                low = high = -p * (np.log(t) - np.log1p(-t))
        return np.where(y > 0, low, -high), np.where(y > 0, high, -low)
    if name == "squared":
        return y - t / p, y - t / p
    if name == "huber":
        return np.where(t >= p, -inf, y - t), np.where(t <= -p, inf, y - t)
    extra = t / 2 if name == "squared epsilon" else 0.0
    low = np.where(t < 0, y + p, y - p) - extra
    high = np.where(t > 0, y - p, y + p) - extra
    if name == "epsilon":
        low, high = np.where(t >= 1, -inf, low), np.where(t <= -1, inf, high)
    return low, high


# ---- the regularised problem -----------------------------------------------------------------------------------------


def primal(case, w, b):
    """Primal value."""
    z, regulariser = _scores_and_regulariser(case, w, b)
    return float(case.s @ loss_values(case.loss, z, case.y) + regulariser)


def _scores_and_regulariser(case, w, b):
    lam = case.lam
    if case.K is not None:
        z = case.K @ w + b
        regulariser = lam / 2 * w @ case.K @ w
        if case.intercept == "penalised":
            regulariser += lam / 2 * (b / case.scale) ** 2
        return z, regulariser
    z = case.X @ w + b
    if case.intercept == "penalised":
        w = np.append(w, b / case.scale)
    lasso, ridge = _strengths(case)
    low, high = _box(case)
    inside = np.all((low <= w) & (w <= high))
    return z, (lasso * np.abs(w).sum() + ridge * (w @ w) / 2 if inside else np.inf)


def _correlations(case, alpha):
    """``X^T alpha`` with the row of a penalised intercept."""
    v = case.X.T @ alpha
    return np.append(v, case.scale * alpha.sum()) if case.intercept == "penalised" else v


def dual(case, alpha):
    """Dual value, and by how much ``alpha`` violates the constraints of the dual."""
    value, outside = dual_loss(case.loss, alpha, case.y, case.s)
    lam = case.lam
    if case.intercept == "free":
        outside = max(outside, abs(float(alpha.sum())))
    if case.K is not None:
        value -= alpha @ case.K @ alpha / (2 * lam)
        if case.intercept == "penalised":
            value -= (case.scale * alpha.sum()) ** 2 / (2 * lam)
        return float(value), outside
    v, (lasso, ridge), (low, high) = _correlations(case, alpha), _strengths(case), _box(case)
    excess = np.maximum(np.abs(v) - lasso, 0.0)
    if ridge > 0:
        at = np.clip(np.sign(v) * excess / ridge, low, high)
    else:
        end = np.where(v > 0, high, low)
        outside = max(outside, excess[np.isinf(end)].max(initial=0.0))
        at = np.where((excess > 0) & np.isfinite(end), end, 0.0)
    value -= (v * at - lasso * np.abs(at) - ridge * at**2 / 2).sum()
    return float(value), float(outside)


def _box(case):
    """Bounds of all penalised coefficients; an intercept has none."""
    d = case.X.shape[1] + (case.intercept == "penalised")
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if case.penalty[0] == "bounded":
        low[: case.X.shape[1]], high[: case.X.shape[1]] = case.penalty[3:]
    return low, high


def _strengths(case):
    """Factors of ``|w|`` and of ``w^2 / 2``."""
    norm, lam, *ratio = case.penalty
    share = {"l2": 0.0, "l1": 1.0}[norm] if norm in ("l2", "l1") else ratio[0]
    return lam * share, lam * (1 - share)


def bounds(case):
    """Box of the dual variables."""
    unit = case.loss[0] in ("hinge", "huber hinge", "logistic", "epsilon")
    reach = case.s if unit else np.where(case.s > 0, np.inf, 0.0)
    if case.loss[0] == "huber":
        reach = case.loss[1] * case.s
    if case.loss[0] in CLASSIFICATION:
        return np.where(case.y > 0, 0.0, -reach), np.where(case.y > 0, reach, 0.0)
    return -reach, reach


def repaired(case, alpha):
    """The feasible point that is certified for ``alpha``: clipped, the heavier side scaled down, all scaled down."""
    if isinstance(case, Box):
        return _repaired_box(case, alpha)
    if isinstance(case, Hulls):
        return _repaired_hulls(case, alpha)
    if isinstance(case, Softmax):
        return _repaired_softmax(case, alpha.reshape(-1, case.k))
    if isinstance(case, Grouped):
        return _repaired_groups(case, alpha.reshape(case.Y.shape))
    low, high = bounds(case)
    alpha = np.minimum(np.maximum(alpha, low), high)
    if case.intercept == "free":
        up, down = np.maximum(alpha, 0), np.maximum(-alpha, 0)
        lighter = min(up.sum(), down.sum())
        if lighter > 0:
            alpha = up * (lighter / up.sum()) - down * (lighter / down.sum())
        else:
            alpha = np.zeros_like(alpha)
    lasso, ridge = (0.0, case.lam) if case.K is not None else _strengths(case)
    if ridge == 0:
        v, (low, high) = _correlations(case, alpha), _box(case)
        limited = np.isinf(np.where(v > 0, high, low))
        largest = np.abs(v[limited]).max(initial=0.0)
        if largest > lasso:
            alpha = alpha * (lasso / largest)
    return alpha


def judge(case, w, b, alpha):
    """Values at a primal and a dual point, taken as they are."""
    if isinstance(case, Box):
        return judge_box(case, alpha)
    if isinstance(case, Hulls):
        return judge_hulls(case, w, alpha)
    if isinstance(case, Softmax):
        W, b = case.split(w)
        of_case = crammer_singer_values if isinstance(case, CrammerSinger) else softmax_values
        values = of_case(case.X, case.y, case.k, W, b, alpha, case.s, case.intercept, case.scale, case.lam)
        return Verdict(*values)
    if isinstance(case, Grouped):
        return _judge_groups(case, w, alpha)
    value, outside = dual(case, alpha)
    return Verdict(primal(case, w, b), value, outside)


def rounding(case, w, b, alpha):
    """How much of the values of ``judge`` can be rounding: a unit of the terms that were added."""
    unit = np.finfo(float).eps
    if isinstance(case, Box):
        a = np.abs(alpha)
        f = np.abs(case.Q) @ a
        return unit * float(a @ f + np.abs(case.q) @ a + case.D @ a**2 + _reach(case) @ (f + np.abs(case.q)))
    if isinstance(case, Hulls):
        length = np.linalg.norm(w)
        street = 2.0 * case.total * (np.abs(case.X) @ np.abs(w)).max() / length if length > 0 else 0.0
        between = np.abs(case.X).T @ np.abs(alpha)
        return unit * float(street**2 + between @ between)
    if isinstance(case, Softmax):
        return _rounding_softmax(case, w, alpha, unit)
    if isinstance(case, Grouped):
        W, b = case.split(w)
        z = np.abs(W) @ np.abs(case.X).T + np.abs(b)[:, None]
        v = case.norms(np.abs(alpha) @ np.abs(case.X))
        losses = case.s @ ((np.abs(case.Y) + z) ** 2).sum(axis=0) + (np.abs(alpha) * (1.0 + np.abs(case.Y))).sum()
        return unit * float(losses + case.prices @ case.norms(W) + (v @ v / case.mu if case.mu > 0.0 else 0.0))
    X = case.X if case.K is None else case.K
    z = np.abs(X) @ np.abs(w) + abs(b)
    slope = 1 + np.abs(slope_interval(case.loss, X @ w + b, case.y)[0])
    size = case.s @ (slope * (1 + np.abs(case.y) + z)) + np.abs(alpha) @ (1 + np.abs(case.y))
    size += abs(_scores_and_regulariser(case, w, b)[1])
    if case.K is not None:
        size += case.lam * np.abs(w) @ np.abs(X) @ np.abs(w) + np.abs(alpha) @ np.abs(X) @ np.abs(alpha) / case.lam
    else:
        v, ridge, ends = (
            np.abs(X).T @ np.abs(alpha),
            _strengths(case)[1],
            np.abs(_box(case))[:, : X.shape[1]].max(axis=0),
        )
        at = np.minimum(v / ridge, ends) if ridge > 0 else np.where(np.isfinite(ends), ends, 0.0)
        size += v @ at
    return unit * float(size)


def _reach(case):
    ends = np.maximum(np.abs(case.low), np.abs(case.high))
    return np.where(np.isfinite(ends), ends, 0.0)


def kkt_violation(case, w, b, alpha):
    """Largest violation of the optimality conditions; 0 at an optimal pair.

    Each sample is allowed the smaller of two distances: of its dual variable (per unit of weight) to the subgradients
    at its score, and of its score to those at which its dual variable is a subgradient. The first alone jumps at
    kinks, the second at bounds.
    """
    z, _ = _scores_and_regulariser(case, w, b)
    worst = abs(float(alpha.sum())) if case.intercept == "free" else 0.0
    used = case.s > 0
    t = -alpha[used] / case.s[used]
    low, high = slope_interval(case.loss, z[used], case.y[used])
    by_dual = np.maximum(np.maximum(low - t, t - high), 0)
    low, high = score_interval(case.loss, alpha[used], case.y[used], case.s[used])
    by_score = np.maximum(np.maximum(low - z[used], z[used] - high), 0)
    worst = max(worst, np.minimum(by_dual, by_score).max(initial=0.0))
    return max(worst, _stationarity(case, w, b, alpha))


def _stationarity(case, w, b, alpha):
    """Distance of ``X^T alpha`` to the subgradients of the penalty at ``w``."""
    lam = case.lam
    if case.K is not None:
        worst = np.abs(case.K @ (lam * w - alpha)).max()
        if case.intercept == "penalised":
            worst = max(worst, abs(lam * b / case.scale - case.scale * alpha.sum()))
        return float(worst)
    if case.intercept == "penalised":
        w = np.append(w, b / case.scale)
    l1, l2 = _strengths(case)
    low, high = _box(case)
    v = _correlations(case, alpha) - l2 * w
    # At a bound the pull may go on outwards.
    least = np.where(w <= low, -np.inf, l1 * np.where(w > 0, 1, -1))
    most = np.where(w >= high, np.inf, l1 * np.where(w < 0, -1, 1))
    return float(np.maximum(np.maximum(least - v, v - most), 0).max(initial=0.0))


# ---- the quadratic program -------------------------------------------------------------------------------------------


def _repaired_box(case, a):
    a = np.minimum(np.maximum(a, case.low), case.high)
    for members, total in case.groups:
        a[members] = _with_total(a[members], case.low[members], case.high[members], total)
    return a


def _with_total(part, low, high, total):
    """All moved by the same share of their way to the bound; zeros stay where the others suffice."""
    excess = part.sum() - total
    end = low if excess > 0 else high
    for moving in (part != 0, np.full(part.size, True)):
        way = np.where(moving, end - part, 0.0)
        if np.isinf(way).any():
            return part - np.where(np.isinf(way), excess / np.isinf(way).sum(), 0.0)
        if 0 < abs(excess) <= np.abs(way).sum():
            return part + way * (abs(excess) / np.abs(way).sum())
    return part if excess == 0 else end.copy()


def judge_box(case, a):
    """Value of the Lagrangian dual ("primal" of the machine) and of the program, negated ("dual"), at ``a``."""
    f = case.Q @ a
    outside = max(float((case.low - a).max()), float((a - case.high).max()), 0.0)
    for members, total in case.groups:
        outside = max(outside, abs(float(a[members].sum() - total)))
    value = case.q @ a - a @ f / 2 - case.D @ a**2 / 2
    upper = a @ f / 2
    everything = [(np.arange(a.size), None)] if not case.groups else case.groups
    for members, total in everything:
        r, low, high, D = case.q[members] - f[members], case.low[members], case.high[members], case.D[members]
        b = 0.0 if total is None else best_multiplier(r, low, high, D, total)
        upper += support(r - b, low, high, D) + (0.0 if total is None else b * total)
    return Verdict(float(upper), float(value), outside)


def support(r, low, high, D):
    """``sum_v max a r_v - D_v a^2 / 2`` over ``low_v <= a <= high_v``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.where(D > 0, np.clip(r / D, low, high), np.where(r > 0, high, np.where(r < 0, low, 0.0)))
        terms = np.where(a == 0, 0.0, a * r - D * a * a / 2)
    return float(terms.sum())


def best_multiplier(r, low, high, D, total):
    """Minimiser of the convex, piecewise quadratic ``b -> support(r - b) + b total``, from its breakpoints."""
    ends = np.concatenate([r - D * low, r - D * high])
    ends = np.unique(ends[np.isfinite(ends)])
    values = np.array([support(r - b, low, high, D) + b * total for b in ends])
    if not (D > 0).any():
        return float(ends[values.argmin()])
    # Between two breakpoints the function is a parabola through three of its values; its vertex may be lower.
    best, lowest = float(ends[values.argmin()]), values.min()
    reach = 1.0 + np.abs(ends).max()
    for left, right in zip([ends[0] - reach, *ends], [*ends, ends[-1] + reach], strict=True):
        x = np.array([left, (left + right) / 2, right])
        v = [support(r - b, low, high, D) + b * total for b in x]
        curvature = v[0] - 2 * v[1] + v[2]
        if curvature > 0:
            b = x[1] + (right - left) / 4 * (v[0] - v[2]) / curvature
            if left <= b <= right:
                value = support(r - b, low, high, D) + b * total
                if value < lowest:
                    best, lowest = float(b), value
    return best


# ---- the distance of two hulls ---------------------------------------------------------------------------------------


def _repaired_hulls(case, a):
    high = np.where(case.y > 0, np.minimum(case.cap, case.total), 0.0)
    low = np.where(case.y < 0, -np.minimum(case.cap, case.total), 0.0)
    groups = tuple((side, case.y[side[0]] * case.total) for side in case.sides)
    return _repaired_box(Box(None, None, low, high, None, groups), a)


def judge_hulls(case, w, a):
    """Minus half of the squared width of the street along ``w``, and of the squared distance of the points of ``a``."""
    street, outside = 0.0, 0.0
    for side in case.sides:
        t = case.y[side] * (case.X[side] @ w)
        order = np.argsort(t, kind="stable")  # the rows nearest to the street have all that their caps allow
        filled = np.minimum(np.cumsum(case.cap[side][order]), case.total)
        street += t[order] @ np.diff(filled, prepend=0.0)
        shares = case.y[side] * a[side]
        outside = max(outside, (-shares).max(), (shares - case.cap[side]).max(), abs(shares.sum() - case.total))
    length = np.linalg.norm(w)
    width = street / length if street > 0 and length > 0 else 0.0
    between = case.X.T @ a
    return Verdict(float(-(width**2) / 2), float(-between @ between / 2), float(outside))


# ---- reference optima ------------------------------------------------------------------------------------------------


def reference_optimum(case):
    """Optimal value by a solver that is not ours: Clarabel, and SciPy for logistic losses. Small problems only."""
    if isinstance(case, Box):
        return _clarabel_box(case)
    if isinstance(case, Hulls):
        return _clarabel_hulls(case)
    if isinstance(case, CrammerSinger):
        return _clarabel_crammer_singer(case)
    if isinstance(case, Softmax):
        return _scipy_softmax(case)
    if isinstance(case, Grouped):
        return _clarabel_groups(case)
    if case.K is not None:  # an explicit feature map: K = F F^T
        values, vectors = np.linalg.eigh(case.K)
        case = replace(case, K=None, X=vectors * np.sqrt(np.maximum(values, 0)))
    w, b = (_scipy_logistic if case.loss[0] == "logistic" else _clarabel_machine)(case)
    return primal(case, w, b)


def _design(case):
    """Matrix of all coefficients of the score, and which of them are penalised."""
    X, penalised = case.X, np.ones(case.X.shape[1])
    if case.intercept is not None:
        X = np.column_stack([X, np.full(len(X), case.scale if case.intercept == "penalised" else 1.0)])
        penalised = np.append(penalised, float(case.intercept == "penalised"))
    return X, penalised


def _split(case, coefficients):
    if case.intercept is None:
        return coefficients, 0.0
    return coefficients[:-1], float(coefficients[-1] * (case.scale if case.intercept == "penalised" else 1.0))


def _clarabel_machine(case):
    """Coefficients ``c = u - v``, scores ``X c``, slacks ``e`` and ``r``; every loss is a quadratic of its slacks."""
    X, penalised = _design(case)
    l1, l2 = _strengths(case)
    name, p = case.loss
    n, d = X.shape
    s, y = case.s, case.y
    # Variables: c (d), t (d) with t >= |c|, e (n) for the quadratic and r (n) for the linear part of the loss.
    factor = {"squared hinge": 2.0, "huber hinge": 1 / p if p else 0.0, "squared": p, "squared epsilon": 2.0}
    factor["huber"] = 1.0
    curvature = factor[name] * s if name in factor else np.zeros(n)
    linear = s * {"hinge": 1.0, "huber hinge": 1.0, "epsilon": 1.0, "huber": p}.get(name, 0.0)
    P = sp.diags(np.concatenate([l2 * penalised, np.zeros(d), curvature, np.zeros(n)])).tocsc()
    q = np.concatenate([np.zeros(d), l1 * penalised, np.zeros(n), linear])
    identity = sp.identity
    rows, right = [], []

    def at_most(c=None, t=None, e=None, r=None, bound=None, m=n):
        parts = zip([c, t, e, r], [d, d, n, n], strict=True)
        rows.append(sp.hstack([sp.csc_matrix((m, k) if part is None else part) for part, k in parts]))
        right.append(np.broadcast_to(bound, m).astype(float))

    use_e, use_r = name in factor, name in ("hinge", "huber hinge", "epsilon", "huber")
    minus = -identity(n)
    if name in CLASSIFICATION:
        margin = p if name != "huber hinge" else 1.0
        at_most(c=-y[:, None] * X, e=minus if use_e else None, r=minus if use_r else None, bound=np.full(n, -margin))
    elif name == "squared":
        at_most(c=X, e=minus, bound=y)  # exactly: the first cone below
    else:
        tube = 0.0 if name == "huber" else p
        for sign in (1, -1):
            at_most(c=sign * X, e=minus if use_e else None, r=minus if use_r else None, bound=sign * y + tube)
    if name != "squared":
        at_most(e=minus, bound=0.0)
    at_most(r=minus, bound=0.0)
    at_most(c=identity(d), t=-identity(d), bound=0.0, m=d)
    at_most(c=-identity(d), t=-identity(d), bound=0.0, m=d)
    for sign, ends in zip((-1, 1), _box(case), strict=True):
        some = np.flatnonzero(np.isfinite(ends))
        at_most(c=sign * identity(d).tocsr()[some], bound=sign * ends[some], m=some.size)
    A, h = sp.vstack(rows).tocsc(), np.concatenate(right)
    exact = n if name == "squared" else 0
    cones = [clarabel.ZeroConeT(exact), clarabel.NonnegativeConeT(h.size - exact)]
    return _split(case, _clarabel(P, q, A, h, cones)[:d])


def _clarabel_box(case):
    n = case.q.size
    P = sp.csc_matrix(np.triu((case.Q + case.Q.T) / 2 + np.diag(case.D)))
    equal = np.zeros((len(case.groups), n))
    for row, (members, _) in zip(equal, case.groups, strict=True):
        row[members] = 1.0
    above, below = np.isfinite(case.high), np.isfinite(case.low)
    A = np.vstack([equal, np.eye(n)[above], -np.eye(n)[below]])
    h = np.concatenate([[total for _, total in case.groups], case.high[above], -case.low[below]])
    cones = [clarabel.ZeroConeT(len(case.groups)), clarabel.NonnegativeConeT(int(above.sum() + below.sum()))]
    a = _clarabel(P, -case.q, sp.csc_matrix(A), h, cones)
    return float(case.q @ a - a @ case.Q @ a / 2 - case.D @ a**2 / 2)


def _clarabel_hulls(case):
    """First in units of the longest row, then of the distance that this gives, for an accuracy relative to it."""
    longest = np.linalg.norm(case.X, axis=1).max() or 1.0
    distance = _distance(case, longest)
    if distance > 1e-7 * longest:
        distance = _distance(case, distance)
    return -(distance**2) / 2


def _distance(case, unit):
    """Over shares and, as variables of their own, the difference of the two points."""
    n, d = case.X.shape
    P = sp.diags(np.append(np.zeros(n), np.ones(d))).tocsc()
    equal = np.zeros((d + 2, n + d))
    equal[:d] = np.column_stack([case.X.T * case.y / unit, -np.eye(d)])
    for row, side in zip(equal[d:], case.sides, strict=True):
        row[side] = 1.0
    box = np.column_stack([np.vstack([-np.eye(n), np.eye(n)]), np.zeros((2 * n, d))])
    h = np.concatenate([np.zeros(d), [case.total] * 2, np.zeros(n), np.minimum(case.cap, case.total)])
    cones = [clarabel.ZeroConeT(d + 2), clarabel.NonnegativeConeT(2 * n)]
    found = _clarabel(P, np.zeros(n + d), sp.csc_matrix(np.vstack([equal, box])), h, cones)
    return unit * float(np.linalg.norm(found[n:]))


def _clarabel(P, q, A, h, cones):
    for tolerance in (1e-11, 1e-9, 1e-8):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        result = clarabel.DefaultSolver(P, q, A, h, cones, settings).solve()
        if str(result.status) == "Solved":
            return np.asarray(result.x)
    raise RuntimeError(f"The reference solver failed: {result.status}.")


def _scipy_logistic(case):
    X, penalised = _design(case)
    l1, l2 = _strengths(case)
    T, s, y = case.loss[1], case.s, case.y

    def smooth(c):
        m = y * (X @ c) / T
        g = -s * y * expit(-m)
        value = T * s @ np.logaddexp(0, -m) + l2 / 2 * penalised @ c**2
        return value, X.T @ g + l2 * penalised * c

    def hessian(c):
        t = expit(y * (X @ c) / T)
        return (X.T * (s * t * (1 - t) / T)) @ X + np.diag(l2 * penalised)

    d = X.shape[1]
    low, high = _box(case)
    if case.intercept == "free":
        low, high = np.append(low, -np.inf), np.append(high, np.inf)
    if l1 == 0.0 and case.penalty[0] != "bounded":
        result = minimize(smooth, np.zeros(d), jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-9})
        return _split(case, result.x)

    def parts(u):  # positive and negative parts make |c| smooth
        value, g = smooth(u[:d] - u[d:])
        return value + l1 * (penalised @ u[:d] + penalised @ u[d:]), np.append(g, -g) + l1 * np.tile(penalised, 2)

    options = {"maxiter": 20000, "maxfun": 200000, "ftol": 1e-15, "gtol": 1e-10}
    both = [(0, end) for end in high] + [(0, -end) for end in low]
    result = minimize(parts, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=both, options=options)
    return _split(case, result.x[:d] - result.x[d:])


# ---- several classes at once -----------------------------------------------------------------------------------------


def softmax_values(X, y, k, W, b, A, s, intercept, scale, lam=1.0):
    """Primal value, dual value and infeasibility of a softmax problem of ``k`` classes, straight from the formulas."""
    X, onehot = np.asarray(X, dtype=np.float64), np.eye(k)[y]
    primal = -(s * (log_softmax(X @ W.T + b, axis=1) * onehot).sum(axis=1)).sum() + 0.5 * lam * (W**2).sum()
    used = s > 0.0
    p = onehot[used] - A[used] / s[used, None]
    infeasible = max((-p).max(initial=0.0), np.abs(A.sum(axis=1)).max(), np.abs(A[~used]).max(initial=0.0))
    dual = s[used] @ entr(np.maximum(p, 0.0)).sum(axis=1) - ((A.T @ X) ** 2).sum() / (2.0 * lam)
    if intercept == "free":
        infeasible = max(infeasible, np.abs(A.sum(axis=0)).max())
    elif intercept == "penalised":
        primal += 0.5 * lam * (b**2).sum() / scale**2
        dual -= ((scale * A.sum(axis=0)) ** 2).sum() / (2.0 * lam)
    return primal, dual, infeasible


def crammer_singer_values(X, y, k, W, b, A, s, intercept, scale, lam=1.0):
    """The same for the hinge of several classes."""
    X, rows = np.asarray(X, dtype=np.float64), np.arange(len(y))
    Z = X @ W.T + b + (np.arange(k) != y[:, None])
    primal = s @ (Z.max(axis=1) - Z[rows, y]) + 0.5 * lam * (W**2).sum()
    other = np.where(np.arange(k) != y[:, None], A, 0.0)
    infeasible = max(other.max(initial=0.0), (A[rows, y] - s).max(initial=0.0), np.abs(A.sum(axis=1)).max(initial=0.0))
    dual = -other.sum() - ((A.T @ X) ** 2).sum() / (2.0 * lam)
    if intercept == "free":
        infeasible = max(infeasible, np.abs(A.sum(axis=0)).max())
    elif intercept == "penalised":
        primal += 0.5 * lam * (b**2).sum() / scale**2
        dual -= ((scale * A.sum(axis=0)) ** 2).sum() / (2.0 * lam)
    return primal, dual, infeasible


def _clarabel_crammer_singer(case):
    """Coefficients of all classes, and a slack for each sample of positive weight."""
    X, penalised = _design(case)
    used = np.flatnonzero(case.s > 0)
    X, y, s, k = X[used], case.y[used], case.s[used], case.k
    n, d = X.shape
    P = np.diag(np.append(case.lam * np.tile(penalised, k), np.zeros(n)))
    rows, limits = [], []
    for i in range(n):
        for c in range(k):  # the own class says that the slack is not negative
            row = np.zeros(k * d + n)
            row[c * d : (c + 1) * d] += X[i]
            row[y[i] * d : (y[i] + 1) * d] -= X[i]
            row[k * d + i] = -1.0
            rows.append(row)
            limits.append(-float(c != y[i]))
    if not rows:
        return 0.0
    cones = [clarabel.NonnegativeConeT(len(rows))]
    q = np.append(np.zeros(k * d), s)
    x = _clarabel(sp.csc_matrix(np.triu(P)), q, sp.csc_matrix(np.array(rows)), np.array(limits), cones)
    theta = x[: k * d].reshape(k, d)
    Z = X @ theta.T + (np.arange(k) != y[:, None])
    return float(s @ (Z.max(axis=1) - Z[np.arange(n), y]) + case.lam / 2 * (penalised * theta**2).sum())


def _repaired_softmax(case, A):
    """Probabilities cut at zero and scaled to the sum 1; if the intercept is free, mixed with the same ones for all.

    The mixture has the smallest share with which every class can have its part of the weight. In terms of
    ``a_i = s_i (onehot_i - p_i)``, which has more digits than ``p_i`` where a class is almost certain.
    """
    others = np.eye(case.k)[case.y] == 0.0
    weight = np.bincount(case.y, weights=case.s, minlength=case.k)
    others &= (weight > 0.0) | (case.intercept != "free")  # a class without weight has no part of it

    def in_simplex(Q):  # from the other classes' probabilities times the weights
        Q = np.where(others & (case.s[:, None] > 0.0), np.maximum(Q, 0.0), 0.0)
        total = Q.sum(axis=1, keepdims=True)
        Q = Q * np.minimum(case.s[:, None] / np.where(total > 0.0, total, 1.0), 1.0)
        repaired = -Q
        repaired[np.arange(case.y.size), case.y] = Q.sum(axis=1)
        return repaired

    A = in_simplex(-A)
    missing = A.sum(axis=0)
    if case.intercept == "free" and (missing < 0.0).any():
        share = (-missing[missing < 0.0] / (weight - missing)[missing < 0.0]).max()
        common = (share * weight + (1.0 - share) * missing) / weight.sum()
        A = in_simplex(case.s[:, None] * common - (1.0 - share) * A)
    return A


def _rounding_softmax(case, w, A, unit):
    W, b = case.split(w)
    Z = np.abs(case.X) @ np.abs(W).T + np.abs(b)
    # An entropy has steep ends: a rounded probability changes it by 40 units at most.
    size = case.s @ (40.0 + 2.0 * Z.max(axis=1)) + case.lam * ((W**2).sum() + (b**2).sum() / case.scale**2)
    V = np.abs(A).T @ np.column_stack([np.abs(case.X), np.full(len(A), case.scale)])
    return unit * float(size * case.k + (V**2).sum() / case.lam)


def _scipy_softmax(case):
    X, penalised = _design(case)
    k, d = case.k, X.shape[1]
    onehot, ridge = np.eye(k)[case.y], case.lam * np.tile(penalised, k)

    def value(c):
        logs = log_softmax(X @ c.reshape(k, d).T, axis=1)
        g = (case.s[:, None] * (np.exp(logs) - onehot)).T @ X
        return -case.s @ (logs * onehot).sum(axis=1) + ridge @ c**2 / 2, g.ravel() + ridge * c

    def hessian(c):
        P = np.exp(log_softmax(X @ c.reshape(k, d).T, axis=1))
        inner = P[:, :, None] * np.eye(k) - P[:, :, None] * P[:, None, :]
        return np.einsum("i,icd,ij,il->cjdl", case.s, inner, X, X).reshape(k * d, k * d) + np.diag(ridge)

    options = {"gtol": 1e-9, "maxiter": 2000}
    result = minimize(value, np.zeros(k * d), jac=True, hess=hessian, method="trust-exact", options=options)
    return float(result.fun)


def _balanced_row(a):
    up, down = np.maximum(a, 0.0), np.maximum(-a, 0.0)
    lighter = min(up.sum(), down.sum())
    return up * (lighter / up.sum()) - down * (lighter / down.sum()) if lighter > 0.0 else np.zeros_like(a)


def _repaired_groups(case, A):
    """The variables of each target balanced, and all of them scaled into the domain of the norms' conjugates."""
    A = np.where(case.s > 0.0, A, 0.0)
    if case.free:
        A = np.array([_balanced_row(a) for a in A])
    if case.mu == 0.0:
        norms = case.norms(A @ case.X)
        with np.errstate(divide="ignore"):
            A = A / max(1.0, float(np.where(norms > 0.0, norms / case.prices, 0.0).max(initial=0.0)))
    return A


def _judge_groups(case, w, A):
    W, b = case.split(w)
    residuals = case.Y - W @ case.X.T - b[:, None]
    primal = 0.5 * (case.s * residuals**2).sum() + case.prices @ case.norms(W) + 0.5 * case.mu * (W**2).sum()
    over = np.maximum(case.norms(A @ case.X) - case.prices, 0.0)
    used = case.s > 0.0
    dual = (A * case.Y).sum() - 0.5 * (A[:, used] ** 2 / case.s[used]).sum()
    dual -= (over**2).sum() / (2.0 * case.mu) if case.mu > 0.0 else 0.0
    outside = 0.0 if case.mu > 0.0 else over.max(initial=0.0)
    imbalance = np.abs(A.sum(axis=1)).max() if case.free else 0.0
    return Verdict(float(primal), float(dual), float(max(outside, imbalance, np.abs(A[:, ~used]).max(initial=0.0))))


def _clarabel_groups(case):
    """Coefficients, intercepts and a bound on the norm of each group, which lies in a cone with its coefficients."""
    T, d, k = len(case.Y), case.X.shape[1], case.prices.size
    design = np.column_stack([case.X, np.ones(len(case.X))]) if case.free else case.X
    m = T * design.shape[1]
    H = design.T @ (case.s[:, None] * design)
    H[np.arange(d), np.arange(d)] += case.mu
    P = sp.block_diag([sp.kron(sp.eye(T), H), sp.csc_matrix((k, k))], format="csc")
    q = np.append(-((case.s * case.Y) @ design).ravel(), case.prices)
    rows, cones = [], []
    for g in range(k):
        members = np.flatnonzero(case.groups == g)
        block = np.zeros((1 + T * members.size, m + k))
        block[0, m + g] = -1.0
        at = (np.arange(T)[:, None] * design.shape[1] + members).ravel()
        block[1 + np.arange(at.size), at] = -1.0
        rows.append(block)
        cones.append(clarabel.SecondOrderConeT(len(block)))
    A = np.vstack(rows)
    found = _clarabel(sp.triu(P, format="csc"), q, sp.csc_matrix(A), np.zeros(len(A)), cones)
    theta = found[:m].reshape(T, -1)
    w = np.append(theta[:, :d].ravel(), theta[:, d]) if case.free else theta.ravel()
    return _judge_groups(case, w, np.zeros(case.Y.shape)).primal
