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

KERNEL_MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
NO_CLASSES = ("SVR", "NuSVR", "LinearSVR", "SGDRegressor", "OneClassSVM")
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
    out = []
    for k, (members, y) in enumerate(_tasks(case.estimator, p, data)):
        s = [_weights(p, data)[i] for i in members]
        space = _space(case, p, model, data, members)
        out.append(Question(k, members, _problem(case, p, data, space, [arb(float(v)) for v in y], s)))
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
        return [(everything, np.ones(len(data.X)) if data.y is None else data.y)]
    if data.classes.size == 2:
        return [(everything, np.where(data.codes == 1, 1.0, -1.0))]
    if name.startswith("SGD") or name == "LogisticRegression" or p["multi_class"] == "ovr":
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
        return KernelSpace(arb_mat(X[:, members].tolist()))
    if callable(p["kernel"]):
        values = np.asarray(p["kernel"](X, X), dtype=np.float64)
        return KernelSpace(arb_mat(values.tolist()))
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
    return Machine(space, y, s, kind, _penalty(case, p, data), _intercept(case, p), _scale(p))


# ---- what a model predicts with --------------------------------------------------------------------------------------


def function_of(model, question):
    """The function of problem ``k`` without and its intercept, or lists of both for several classes at once."""
    k, space = question.k, question.problem.space
    if isinstance(question.problem, Softmax):
        return [space.coefficients(w) for w in model.coef_], [arb(float(v)) for v in model.intercept_]
    b = arb(float(np.ravel(model.intercept_)[k]))
    if isinstance(space, RowSpace):
        return space.coefficients([float(v) for v in np.atleast_2d(model.coef_)[k]]), b
    return space.expansion([float(v) for v in expansion_of(model, k, space.n, question.members)]), b


def expansion_of(model, k, n, members):
    """The coefficients over the samples of problem ``k``, from LIBSVM's layout of ``dual_coef_``."""
    alpha = np.zeros(max(int(max(model.support_, default=0)), int(max(members))) + 1)
    classes = getattr(model, "classes_", None)
    if classes is None or classes.size == 2 or model.multi_class == "ovr":
        alpha[model.support_] = model.dual_coef_[k]
        return alpha[members]
    i, j = list(combinations(range(classes.size), 2))[k]
    ends = np.cumsum(model.n_support_)
    first, second = slice(ends[i] - model.n_support_[i], ends[i]), slice(ends[j] - model.n_support_[j], ends[j])
    alpha[model.support_[first]] = model.dual_coef_[j - 1, first]
    alpha[model.support_[second]] = model.dual_coef_[i, second]
    return alpha[members]


def exact_gamma(case, model):
    """What ``gamma`` stands for."""
    p, data = model.get_params(), Data.of(case)
    d = data.X.shape[1]
    if p["gamma"] == "auto":
        return 1 / arb(d)
    if p["gamma"] != "scale":
        return arb(float(p["gamma"]))
    S = total(data.weights) * d
    rows = [[arb(v) for v in row] for row in data.X.tolist()]
    mean = total([w * total(row) for w, row in zip(data.weights, rows, strict=True)]) / S
    spread = total([w * total([square(v - mean) for v in row]) for w, row in zip(data.weights, rows, strict=True)])
    variance = spread / S
    return 1 / (d * variance) if variance > arb("1e-100") else arb(1)
