"""What each estimator claims to minimise for given floats, and the function that a fitted model predicts with.

Written from the docstrings and docs/linear.md; nothing but public attributes of a model is read, except ``_gamma``,
the number that ``gamma="scale"`` stood for, which `exact_gamma` checks.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from exact import (
    KernelSpace,
    Limits,
    Machine,
    Region,
    RowSpace,
    Softmax,
    Street,
    Tube,
    arb,
    arb_mat,
    kernel_matrix,
    square,
    total,
)
from newer_exact import CrammerSinger, Grouped

KERNEL_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "KernelRidge")
LEAST_SQUARES = ("Ridge", "RidgeCV", "RidgeClassifier", "LinearRegression", "KernelRidge")
NO_CLASSES = ("SVR", "NuSVR", "LinearSVR", "SGDRegressor", "OneClassSVM", "Ridge", "RidgeCV", "LinearRegression",
              "KernelRidge", "Lasso", "ElasticNet", "DistributedLasso", "GroupLasso", "MultiTaskLasso",
              "MultiTaskElasticNet")  # fmt: skip
SPARSE = ("Lasso", "ElasticNet", "DistributedLasso")
GROUPED = ("GroupLasso", "MultiTaskLasso", "MultiTaskElasticNet")
LOSSES = {
    "hinge": ("hinge", arb(1)),
    "perceptron": ("hinge", arb(0)),
    "squared_hinge": ("squared hinge", arb(1)),
    "huber_hinge": ("huber hinge", arb(0.5)),
    "log_loss": ("logistic", arb(1)),
    "squared_error": ("squared", arb(1)),
}
TUBES = {"epsilon_insensitive": "epsilon", "squared_epsilon_insensitive": "squared epsilon"}


@dataclass
class Data:
    """Samples as float64 numbers, weights, and classes as numbers."""

    X: np.ndarray
    y: np.ndarray | None
    weights: list
    classes: np.ndarray | None
    codes: np.ndarray | None

    @classmethod
    def of(cls, case):
        X = case.X.toarray() if sp.issparse(case.X) else np.asarray(case.X)
        weights = [arb(1)] * len(X) if case.weights is None else [arb(float(v)) for v in case.weights]
        if case.estimator in NO_CLASSES:
            y = None if case.y is None else np.asarray(case.y, dtype=np.float64)
            return cls(X.astype(np.float64), y, weights, None, None)
        classes, codes = np.unique(case.y, return_inverse=True)
        return cls(X.astype(np.float64), None, weights, classes, codes)

    def of_classes(self, class_weight):
        """Exact class weights."""
        k = self.classes.size
        if class_weight is None:
            return [arb(1)] * k
        if isinstance(class_weight, dict):
            return [arb(float(class_weight.get(c, 1.0))) for c in self.classes.tolist()]
        sums = [total([w for w, code in zip(self.weights, self.codes, strict=True) if code == c]) for c in range(k)]
        return [total(self.weights) / (k * v) for v in sums]


@dataclass
class Question:
    """A problem that a model claims to have solved, and the number of its solution."""

    k: int
    members: np.ndarray
    problem: object


def questions(case, model):
    """All problems of a case. The model is asked for nothing but what its ``gamma`` stands for."""
    p, data = model.get_params(), Data.of(case)
    if case.estimator == "LogisticRegression" and data.classes.size > 2 and p["multi_class"] == "multinomial":
        s = _weights(p, data)
        problem = Softmax(RowSpace(data.X), data.codes.tolist(), s, _intercept(case, p), _scale(p))
        return [Question(0, np.arange(len(s)), problem)]
    if p.get("multi_class") == "crammer_singer":
        codes, s, k = data.codes.tolist(), _weights(p, data), data.classes.size
        problem = CrammerSinger(RowSpace(data.X), codes, s, k, _intercept(case, p), _scale(p))
        return [Question(0, np.arange(len(s)), problem)]
    if case.estimator in GROUPED:
        return [Question(0, np.arange(len(data.weights)), _grouped(p, data))]
    out = []
    for k, (members, y) in enumerate(_tasks(case.estimator, p, data)):
        s = [_weights(p, data)[i] for i in members]
        space = _space(case, p, model, data, members)
        labels = [arb(float(v)) for v in y]
        if case.estimator in SPARSE:
            problem = _sparse(p, space, labels, _shares(data))
        elif case.estimator in LEAST_SQUARES:
            problem = _least_squares(case, p, data, space, labels, s, _alpha(model, p, k))
        else:
            problem = _problem(case, p, data, space, labels, s)
        out.append(Question(k, members, problem))
    return out


def _weights(p, data):
    C = p.get("C", 1.0)
    C = arb(1) if np.isinf(C) else arb(float(C))
    per_class = [arb(1)] if data.classes is None else data.of_classes(p.get("class_weight"))
    codes = [0] * len(data.weights) if data.classes is None else data.codes
    return [C * per_class[c] * w for c, w in zip(codes, data.weights, strict=True)]


def _tasks(name, p, data):
    everything = np.arange(len(data.X))
    if data.classes is None:
        return [(everything, y) for y in (np.ones((1, len(data.X))) if data.y is None else np.atleast_2d(data.y.T))]
    if data.classes.size == 2:
        return [(everything, np.where(data.codes == 1, 1.0, -1.0))]
    if name.startswith(("SGD", "Ridge")) or name == "LogisticRegression" or p["multi_class"] == "ovr":
        return [(everything, np.where(data.codes == c, 1.0, -1.0)) for c in range(data.classes.size)]
    tasks = []
    for i, j in combinations(range(data.classes.size), 2):
        some = np.flatnonzero((data.codes == i) | (data.codes == j))
        tasks.append((some, np.where(data.codes[some] == i, 1.0, -1.0)))
    return tasks


def _space(case, p, model, data, members):
    X = data.X[members]
    if case.estimator not in KERNEL_MACHINES or p["kernel"] == "linear":
        return RowSpace(X)
    if p["kernel"] == "precomputed":
        return KernelSpace(arb_mat(X[:, members].tolist()), given=True)
    if callable(p["kernel"]) and case.estimator == "KernelRidge":  # takes two samples
        return KernelSpace(arb_mat([[p["kernel"](u, v) for v in X] for u in X]), given=True)
    if callable(p["kernel"]):
        values = np.asarray(p["kernel"](X, X), dtype=np.float64)
        return KernelSpace(arb_mat(values.tolist()), given=True)
    return KernelSpace(kernel_matrix(p["kernel"], X, model._gamma, p["degree"], p["coef0"]))


def _intercept(case, p):
    penalised = case.estimator in ("LinearSVC", "LinearSVR", "DistributedSVC") or p.get("solver") == "liblinear"
    if p.get("intercept", "auto") != "auto":
        return p["intercept"]
    return ("penalised" if penalised else "free") if p.get("fit_intercept", True) else None


def _scale(p):
    return arb(float(p.get("intercept_scaling", 1.0)))


def _penalty(case, p, data):
    lam = arb(float(p["alpha"])) * total(data.weights) if case.estimator.startswith("SGD") else arb(1)
    kind, share = p.get("penalty", "l2"), p.get("l1_ratio") or 0.0
    if kind not in ("l1", "l2"):
        kind = {0.0: "l2", 1.0: "l1"}.get(float(share), "elastic net")
    return (kind, lam, arb(float(share))) if kind == "elastic net" else (kind, lam)


def _alpha(model, p, k):
    """The strength of the penalty."""
    values = np.ravel(model.alpha_ if "alphas" in p else p.get("alpha", 0.0))
    return arb(float(values[k if values.size > 1 else 0]))


def _least_squares(case, p, data, space, y, s, alpha):
    """``sum_i s_i (y_i - f(x_i) - b)^2 + alpha |f|^2``, with limits of the coefficients perhaps."""
    s, intercept = [2 * v for v in s], "free" if p.get("fit_intercept", False) else None
    if alpha > 0:
        problem = Machine(space, y, s, ("squared", arb(1)), ("l2", 2 * alpha), intercept)
    else:
        problem = Machine(space, y, s, ("squared", arb(1)), ("none", arb(0)), intercept)
    if alpha > 0 and not p.get("positive") and p.get("bounds") is None:
        return problem
    low, high = p.get("bounds") or (-np.inf, np.inf)
    problem.limits = Limits(max(low, 0.0) if p.get("positive") else low, high)
    if not alpha > 0:
        problem.limits.reach = _reach(data.X, y, intercept)
    return problem


def _shares(data):
    whole = total(data.weights)
    return [w / whole for w in data.weights]


def _sparse(p, space, y, s):
    """``sum_i s_i (y_i - f(x_i) - b)^2 / 2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)``."""
    penalty = ("elastic net", arb(float(p["alpha"])), arb(float(p.get("l1_ratio", 1.0))))
    low, high = p.get("bounds") or (-np.inf, np.inf)
    limits = Limits(max(low, 0.0) if p.get("positive") else low, high)
    return Machine(space, y, s, ("squared", arb(1)), penalty, "free" if p["fit_intercept"] else None, limits=limits)


def _grouped(p, data):
    """One problem for all targets."""
    Y = [[arb(float(v)) for v in column] for column in np.atleast_2d(data.y.T)]
    d, groups, alpha, share = data.X.shape[1], p.get("groups"), arb(float(p["alpha"])), arb(float(p.get("l1_ratio", 1)))
    size = 1 if groups is None else groups
    labels = np.arange(d) // size if isinstance(size, int) else np.array(size)
    members = [np.flatnonzero(labels == g).tolist() for g in np.unique(labels)]
    weights = p.get("weights")
    if weights is None:  # and 1 for a feature of several targets
        weights = [arb(len(some)).sqrt() for some in members]
    strengths = [alpha * share * arb(v) for v in weights]
    intercept = "free" if p["fit_intercept"] else None
    return Grouped(RowSpace(data.X), Y, _shares(data), members, strengths, alpha * (1 - share), intercept)


def _reach(X, y, intercept):
    """The coefficients about which something is proven without a penalty: of centred targets and columns."""
    columns, n = [[arb(v) for v in column] for column in X.T.tolist()], len(y)
    least = [arb("1e-12") * total([square(v) for v in column]) for column in columns]
    if intercept is not None:
        columns = [[v - total(column) / n for v in column] for column in columns]
        y = [v - total(y) / n for v in y]
    length = total([square(v) for v in y])
    sizes = [total([square(v) for v in column]).max(end) for column, end in zip(columns, least, strict=True)]
    return [(100 * length / size).min(arb("1e200")) for size in sizes]  # squared


def _problem(case, p, data, space, y, s):
    name = case.estimator
    if name == "OneClassSVM":
        return Region(space, s, arb(float(p["nu"])) * total(s))
    if name == "NuSVR":
        return Tube(space, y, s, arb(float(p["nu"])) * total(s))
    if name in ("NuSVC", "DistributedNuSVC"):
        sides = [total([v for v, t in zip(s, y, strict=True) if t * sign > 0]) for sign in (1, -1)]
        half = 1 / arb(float(p["cap"])) if p["cap"] is not None else arb(float(p["nu"])) * total(s) / 2
        return Street(space, y, s, half.min(sides[0]).min(sides[1]), np.array([v > 0 for v in s]))
    if np.isinf(p.get("C", 1.0)):
        return Street(space, y, None, arb(1), np.array([v > 0 for v in s]))
    loss = p.get(
        "loss", "log_loss" if name == "LogisticRegression" else "epsilon_insensitive" if "SVR" in name else "hinge"
    )
    kind = (TUBES[loss], arb(float(p["epsilon"]))) if loss in TUBES else LOSSES[loss]
    machine = Machine(space, y, s, kind, _penalty(case, p, data), _intercept(case, p), _scale(p))
    if p.get("positive") or p.get("bounds") is not None:
        low, high = p["bounds"] or (-np.inf, np.inf)
        machine.limits = Limits(max(low, 0.0) if p["positive"] else low, high)
    return machine


# ---- what a model predicts with --------------------------------------------------------------------------------------


def dense(model, name):
    """An attribute as an array: models of sparse samples have sparse ones."""
    values = getattr(model, name)
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def function_of(model, question):
    """The function of problem ``k`` without and its intercept, or lists of both for several classes at once."""
    k, space = question.k, question.problem.space
    if isinstance(question.problem, Softmax):
        return [space.coefficients(w) for w in dense(model, "coef_")], [arb(float(v)) for v in model.intercept_]
    if isinstance(question.problem, CrammerSinger):
        W, b = np.atleast_2d(dense(model, "coef_")), np.ravel(model.intercept_)
        if question.problem.k == 2:  # their difference
            W, b = np.concatenate([-0.5 * W, 0.5 * W]), np.concatenate([-0.5 * b, 0.5 * b])
        return [space.coefficients(w) for w in W], [arb(float(v)) for v in b]
    if isinstance(question.problem, Grouped):
        biases = np.broadcast_to(np.ravel(model.intercept_), len(question.problem.Y))
        return [space.coefficients(w) for w in np.atleast_2d(dense(model, "coef_"))], [arb(float(v)) for v in biases]
    biases = np.ravel(getattr(model, "intercept_", 0.0))
    b = arb(float(biases[k if biases.size > 1 else 0]))
    if isinstance(space, RowSpace) and hasattr(model, "coef_"):
        return space.coefficients([float(v) for v in np.atleast_2d(dense(model, "coef_"))[k]]), b
    alpha = expansion_of(model, k, space.n, question.members)
    f = space.expansion([float(v) for v in alpha])
    if isinstance(space, RowSpace):  # scores are sums over the samples
        f.reach = np.abs(space.X) @ (np.abs(space.X.T) @ np.abs(alpha))
    return f, b


def expansion_of(model, k, n, members):
    """The coefficients over the samples of problem ``k``, from LIBSVM's layout of ``dual_coef_``."""
    if not hasattr(model, "support_"):
        return np.atleast_2d(dense(model, "dual_coef_").T)[k][members]
    variables = dense(model, "dual_coef_")
    alpha = np.zeros(max(int(max(model.support_, default=0)), int(max(members))) + 1)
    classes = getattr(model, "classes_", None)
    if classes is None or classes.size == 2 or model.multi_class == "ovr":
        alpha[model.support_] = variables[k]
        return alpha[members]
    i, j = list(combinations(range(classes.size), 2))[k]
    ends = np.cumsum(model.n_support_)
    first, second = slice(ends[i] - model.n_support_[i], ends[i]), slice(ends[j] - model.n_support_[j], ends[j])
    alpha[model.support_[first]] = variables[j - 1, first]
    alpha[model.support_[second]] = variables[i, second]
    return alpha[members]


def exact_gamma(case, model):
    """What ``gamma`` stands for."""
    p, data = model.get_params(), Data.of(case)
    d = data.X.shape[1]
    if p["gamma"] in ("auto", None):
        return 1 / arb(d)
    if p["gamma"] != "scale":
        return arb(float(p["gamma"]))
    S = total(data.weights) * d
    rows = [[arb(v) for v in row] for row in data.X.tolist()]
    mean = total([w * total(row) for w, row in zip(data.weights, rows, strict=True)]) / S
    spread = total([w * total([square(v - mean) for v in row]) for w, row in zip(data.weights, rows, strict=True)])
    variance = spread / S
    if variance > 0 and variance < arb("1e-290"):
        return None  # float64 can hardly hold it
    return 1 / (d * variance) if variance > 0 else arb(1)
