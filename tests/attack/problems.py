"""Nasty problems: each follows from a seed and a number alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from storing import given_matrix, stored

CLASSIFIERS = (
    "SVC", "NuSVC", "LinearSVC", "LogisticRegression", "SGDClassifier", "RidgeClassifier", "DistributedSVC",
    "DistributedNuSVC",
)  # fmt: skip
OF_TARGETS = ("Ridge", "LinearRegression", "KernelRidge")  # one for each sample, or several
REGRESSORS = ("SVR", "NuSVR", "LinearSVR", "SGDRegressor", "RidgeCV", *OF_TARGETS)
ESTIMATORS = {
    "SVC": 6, "NuSVC": 3, "LinearSVC": 4, "SVR": 3, "NuSVR": 2, "LinearSVR": 3, "OneClassSVM": 2,
    "LogisticRegression": 3, "SGDClassifier": 3, "SGDRegressor": 2, "DistributedSVC": 0.6, "DistributedNuSVC": 0.4,
    "Ridge": 2, "LinearRegression": 1.5, "KernelRidge": 2, "RidgeClassifier": 1, "RidgeCV": 0.5,
}  # fmt: skip
LOOSE, TIGHT = (1e-3, 1e-4), (1e-6, 1e-8, 1e-10, 1e-12, 1e-14)


@dataclass
class Case:
    """One problem and the estimator that gets it, without a solver."""

    estimator: str
    params: dict[str, Any]
    X: Any
    y: np.ndarray | None
    weights: np.ndarray | None = None
    before: tuple | None = None  # samples and targets of an earlier fit, for a warm start
    seed: int = 0
    number: int = 0
    notes: list[str] = field(default_factory=list)
    newer: bool = False  # of `newer`
    how: str = "fit"  # or what else is called, see `functions`
    solvers: list[str] | None = None  # beside "auto"; all, or some of all, if None


@np.errstate(all="ignore")
def case(seed, number):
    """The problem of a number."""
    rng = np.random.default_rng([seed, number])
    names, shares = list(ESTIMATORS), np.array(list(ESTIMATORS.values()))
    name = str(rng.choice(names, p=shares / shares.sum()))
    sizes = [1, rng.integers(2, 8), rng.integers(8, 25), rng.integers(25, 61)]
    n = int(rng.choice(sizes, p=[0.02, 0.38, 0.4, 0.2]))
    notes: list[str] = []
    X = points(rng, n, notes)
    y = targets(rng, name, X, notes)
    params = parameters(rng, name, X, y)
    made = Case(name, params, X, y, weights(rng, name, n), None, seed, number, notes)
    if params.get("kernel") == "precomputed":
        made.X = given_matrix(rng, X, notes)
        made.X = stored(rng, made.X, notes) if rng.random() < 0.3 else made.X
    elif name.startswith("Distributed"):
        made.X = X if rng.random() < 0.6 else sp.csr_matrix(X)
    else:
        made.X = stored(rng, X, notes)
    if rng.random() < 0.1:
        made.params = {name: whole(value) for name, value in params.items()}
    if rng.random() < 0.03:
        spoil(rng, made)
    if name in CLASSIFIERS and rng.random() < 0.2:
        rename(rng, made)
    if "warm_start" in params:
        made.before = earlier(rng, made)
    return made


# ---- samples ---------------------------------------------------------------------------------------------------------


def points(rng, n, notes):
    """Rows with two or three defects at most."""
    d = int(rng.integers(1, 11)) if rng.random() < 0.93 else int(rng.integers(11, 80))
    X = rng.normal(size=(n, d))
    chosen = rng.choice(list(DEFECTS), size=int(rng.integers(0, 4)), replace=False)
    for name in chosen:
        X = DEFECTS[name](rng, X)
        notes.append(str(name))
    return np.ascontiguousarray(X, dtype=np.float64)


def _some(rng, n):
    return rng.choice(n, size=max(1, n // 3), replace=False)


def _with_duplicates(rng, X):
    X[_some(rng, len(X))] = X[rng.integers(len(X))]
    return X


def _constant_columns(rng, X):
    X[:, rng.random(X.shape[1]) < 0.5] = rng.choice([0.0, 1.0, 1e6])
    return X


def _zero_rows(rng, X):
    X[_some(rng, len(X))] = 0.0
    return X


def _clusters(rng, X):
    return X + rng.integers(0, 2, size=(len(X), 1)) * 10.0 ** rng.integers(1, 11)


DEFECTS: dict[str, Callable] = {
    "offset": lambda rng, X: X + 10.0 ** rng.integers(1, 13),
    "offsets of columns": lambda rng, X: X + 10.0 ** rng.integers(0, 9, size=X.shape[1]),
    "clusters": _clusters,
    "scale": lambda rng, X: X * 10.0 ** rng.integers(-12, 13),
    "scales": lambda rng, X: X * 10.0 ** rng.integers(-12, 13, size=X.shape[1]),
    "duplicates": _with_duplicates,
    "rank one": lambda rng, X: np.outer(X[:, 0], X[0]),
    "constant columns": _constant_columns,
    "zero rows": _zero_rows,
    "lattice": lambda rng, X: np.rint(X),
    "sparse": lambda rng, X: X * (rng.random(X.shape) < 0.2),
    "tiny differences": lambda rng, X: 1.0 + X * 1e-9,
    "equal rows": lambda rng, X: np.tile(X[0], (len(X), 1)),
    "zero": lambda rng, X: np.zeros_like(X) if rng.random() < 0.3 else X,
    "subnormal": lambda rng, X: X * 10.0 ** rng.choice([-310, -160, -100, -50]),
    "huge": lambda rng, X: X * 10.0 ** rng.choice([30, 100, 150, 200]),
}


def whole(value):
    """A parameter as an int if it is one."""
    return int(value) if type(value) is float and 1.0 <= value <= 1e15 and value == int(value) else value


def spoil(rng, made):
    """Something that has to be refused: one number that is none."""
    wrong = float(rng.choice([np.nan, np.inf, -np.inf]))
    kind = str(rng.choice(["samples", "targets", "weights", "parameter"]))
    made.notes.append(f"{wrong} in {kind}")
    if kind == "samples" and not sp.issparse(made.X) and made.X.dtype.kind == "f":
        made.X = made.X.copy()
        made.X[-1, 0] = wrong
    elif kind == "targets" and made.estimator in REGRESSORS:
        made.y = made.y.copy()
        made.y[(0, *[0] * (made.y.ndim - 1))] = wrong
    elif kind == "weights":
        made.weights = np.ones(made.X.shape[0])
        made.weights[0] = wrong
    else:
        name = str(rng.choice([name for name, value in made.params.items() if type(value) in (int, float)]))
        made.params[name] = float(rng.choice([-1.0, 0.0, np.nan, -np.inf]))


def rename(rng, made):
    """Labels that are not the numbers from 0 on."""
    k = int(made.y.max()) + 1
    names = [np.array(["a", "be", "c", "d"]), np.array([-1.0, 1.0, 2.0, 1e9]), np.array([7, 3, 0, -2])]
    names.append(np.array(["x", "y", "z", "zz"], dtype=object))
    if k == 2:
        names += [np.array([False, True]), np.array([1, -1])]
    chosen = names[rng.integers(len(names))]
    made.y = chosen[made.y]
    if made.estimator != "SGDClassifier" and isinstance(given := made.params.get("class_weight"), dict):
        made.params["class_weight"] = {chosen[c].item() if chosen.dtype != object else chosen[c]: v
                                       for c, v in given.items()}  # fmt: skip
    elif isinstance(made.params.get("class_weight"), dict):
        del made.params["class_weight"]


# ---- targets and weights ---------------------------------------------------------------------------------------------


def targets(rng, name, X, notes):
    """Labels or numbers, noisy ones mostly."""
    if name == "OneClassSVM":
        return None
    first = np.nan_to_num(X[:, 0]) / (np.abs(np.nan_to_num(X[:, 0])).max() or 1.0)
    u = (first - first.mean()) / (first.std() or 1.0)
    if name in REGRESSORS:
        y = u + rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=len(X))
        if rng.random() < 0.4:
            y = y * 10.0 ** rng.integers(-8, 9) + 10.0 ** rng.integers(-3, 9)
            notes.append("scaled targets")
        if rng.random() < 0.08:
            y = np.full(len(X), rng.choice([0.0, 3.0, 0.1, 1e8]))
            notes.append("constant targets")
        if name in OF_TARGETS and rng.random() < 0.2:
            return np.column_stack([y, rng.normal(size=len(X))])
        return y
    k = int(rng.choice([2, 3, 4], p=[0.75, 0.15, 0.1]))
    return labels(rng, u, min(k, len(X)), notes)


def labels(rng, u, k, notes):
    """By the first column, at random, or one sample a class."""
    n, kind = len(u), str(rng.choice(["noisy", "separated", "random", "one each"], p=[0.5, 0.25, 0.15, 0.1]))
    notes.append(f"{kind} labels")
    noise = {"noisy": 0.7, "separated": 0.0, "random": 1e9, "one each": 0.0}[kind]
    order = np.argsort(u + noise * rng.normal(size=n), kind="stable")
    y = np.zeros(n, dtype=int)
    y[order] = np.arange(n) * k // n
    if kind == "one each":
        y[:] = 0
        y[order[: k - 1]] = np.arange(1, k)
    return y


def weights(rng, name, n):
    """None mostly; else far apart, or zero for some."""
    kind = rng.random()
    if kind < 0.7:
        return None
    if kind < 0.8:
        return 10.0 ** rng.uniform(-15, 11, size=n)
    if kind < 0.88:
        return np.where(rng.random(n) < 0.3, 0.0, rng.uniform(0.5, 2.0, size=n))
    if kind < 0.92:  # one sample or two, or tiny, or huge ones
        one = (np.arange(n) < rng.integers(0, 3)).astype(float)
        return one if rng.random() < 0.5 else np.full(n, 10.0 ** rng.choice([-310, -200, -100, 60, 100]))
    return rng.integers(0, 4, size=n).astype(float)


# ---- parameters ------------------------------------------------------------------------------------------------------


def strength(rng):
    if rng.random() < 0.02:
        return float(rng.choice([1e-300, 1e-100, 1e100, 1e300]))
    return float(10.0 ** rng.integers(-12, 13)) if rng.random() < 0.4 else float(10.0 ** rng.integers(-3, 4))


def parameters(rng, name, X, y):
    """What the estimator is asked for."""
    p = {"tol": float(rng.choice(LOOSE if rng.random() < 0.4 else TIGHT))}
    if rng.random() < 0.03:
        p["tol"] = 0.0
    if rng.random() < 0.05 and name != "RidgeCV":
        p["max_iter"] = int(rng.integers(0, 3))
    if name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"):
        p |= kernel_parameters(rng)
        p["shrinking"] = bool(rng.random() < 0.7)
    if name in ("SVC", "SVR", "LinearSVC", "LinearSVR", "LogisticRegression", "DistributedSVC"):
        p["C"] = strength(rng)
    if name.startswith("Nu") or name in ("OneClassSVM", "DistributedNuSVC"):
        p["nu"] = fraction(rng, y if name in CLASSIFIERS else None)
    if name in CLASSIFIERS:
        p |= of_classes(rng, name, y)
    p |= OWN.get(name, lambda rng: {})(rng)
    if name == "DistributedSVC" and p["C"] == np.inf:
        p.pop("intercept", None)
    if rng.random() < 0.12 and not name.startswith("Distributed") and name != "RidgeCV":
        p["warm_start"] = True
    return p


def kernel_parameters(rng):
    kernel = str(rng.choice(["linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed", "callable"],
                            p=[0.28, 0.26, 0.16, 0.06, 0.1, 0.1, 0.04]))  # fmt: skip
    if kernel == "callable":
        return {"kernel": products if rng.random() < 0.6 else tilted}
    p: dict[str, Any] = {"kernel": kernel}
    if kernel not in ("linear", "precomputed"):
        wild = float(10.0 ** rng.integers(-9, 10))
        p["gamma"] = [0.5, "scale", "auto", wild][rng.choice(4, p=[0.3, 0.3, 0.1, 0.3])]
    if kernel in ("poly", "sigmoid"):
        p["coef0"] = float(rng.choice([0.0, 1.0, -1.0, 1e3], p=[0.4, 0.4, 0.1, 0.1]))
    if kernel == "poly":
        p["degree"] = int(rng.integers(0, 10))
    return p


def products(A, B):
    """A kernel that is a Python function."""
    A, B = (M.toarray() if sp.issparse(M) else np.asarray(M) for M in (A, B))
    return np.asarray(A, dtype=np.float64) @ np.asarray(B, dtype=np.float64).T + 1.0


def tilted(A, B):
    """A kernel that is not quite symmetric, as those of users may be."""
    K = products(A, B)
    return K + 1e-9 * (np.asarray(A.sum(axis=1)).reshape(-1, 1) - np.asarray(B.sum(axis=1)).ravel())


def pair(u, v):
    """The same for two samples, as `KernelRidge` takes it."""
    u, v = (np.ravel(x.toarray() if sp.issparse(x) else x).astype(np.float64) for x in (u, v))
    return float(u @ v) + 1.0


def fraction(rng, y):
    """``nu``: at the bound of its classes, just above it, or anything."""
    kind = rng.random()
    if y is not None and kind < 0.3:
        bound = 2.0 * np.bincount(y).min() / len(y)
        return float(min(1.0, bound * (1.0 + rng.choice([0.0, 0.0, 1e-12, 0.1]))))
    if kind < 0.4:
        return 1.0
    return float(rng.choice([1e-9, 1e-3, 0.1, 0.3, 0.5, 0.9]))


def of_classes(rng, name, y):
    p = {}
    if rng.random() < 0.15:
        p["class_weight"] = "balanced"
    elif rng.random() < 0.1:
        p["class_weight"] = {int(c): float(10.0 ** rng.integers(-6, 7)) for c in np.unique(y)}
    if np.unique(y).size > 2 and not name.startswith(("SGD", "Ridge")):
        p["multi_class"] = str(rng.choice(["multinomial", "ovr"] if name == "LogisticRegression" else ["ovo", "ovr"]))
    return p


def _intercepts(rng, scaling):
    kind = str(rng.choice(["auto", "free", "penalised", "none"]))
    p = {} if kind == "auto" else {"intercept": None if kind == "none" else kind}
    if scaling and rng.random() < 0.15:
        p["intercept_scaling"] = float(10.0 ** rng.integers(-3, 7))
    return p


def _svc(rng):
    p = {"loss": str(rng.choice(["hinge", "squared_hinge"], p=[0.7, 0.3])), **_intercepts(rng, False)}
    if rng.random() < 0.06:
        p["probability"] = True
    return {"C": np.inf} if rng.random() < 0.2 else p


def _tube(rng):
    loss = str(rng.choice(["epsilon_insensitive", "squared_epsilon_insensitive"]))
    return {"loss": loss, "epsilon": float(rng.choice([0.0, 0.1, 1e-6, 1e3]))}


def _linear_svc(rng):
    p = {"loss": str(rng.choice(["hinge", "squared_hinge"])), **_intercepts(rng, True)}
    if rng.random() < 0.2:
        p |= {"penalty": "l1", "loss": "squared_hinge"}
    return p


def _logistic(rng):
    p = _intercepts(rng, True)
    if rng.random() < 0.25:
        p["l1_ratio"] = float(rng.choice([0.0, 0.5, 1.0]))
    return p


def _sgd(*losses):
    def own(rng):
        p = {"loss": str(rng.choice(losses)), "alpha": float(10.0 ** rng.integers(-10, 5)), "max_iter": 50}
        p |= {"fit_intercept": bool(rng.random() < 0.8), "average": [True, False, "auto"][rng.integers(3)]}
        p["penalty"] = str(rng.choice(["l2", "l1", "elasticnet"], p=[0.7, 0.15, 0.15]))
        p["learning_rate"] = str(rng.choice(["optimal", "invscaling", "constant", "adaptive"]))
        return p

    return own


def _least_squares(rng):
    """With limits now and then."""
    p: dict[str, Any] = {"fit_intercept": bool(rng.random() < 0.7)}
    kind = rng.random()
    if kind < 0.15:
        p["positive"] = True
    elif kind < 0.25:
        p["bounds"] = (-float(rng.choice([0.0, 1e-3, 1.0, 1e6])), float(rng.choice([0.0, 1e-3, 1.0, np.inf])))
    return p


def _ridge(rng):
    return {"alpha": 0.0 if rng.random() < 0.15 else strength(rng), **_least_squares(rng)}


def _kernel_ridge(rng):
    p = {"alpha": strength(rng), **kernel_parameters(rng)}
    if callable(p["kernel"]):
        p["kernel"] = pair
    return p


def _ridge_cv(rng):
    alphas = [strength(rng) for _ in range(rng.integers(1, 4))]
    return {"alphas": alphas, "fit_intercept": bool(rng.random() < 0.7), "gcv_mode": [None, "svd"][rng.integers(2)]}


def _distributed(rng):
    p = {"loss": str(rng.choice(["hinge", "squared_hinge"])), "n_clients": 2, **_intercepts(rng, True)}
    return p | {"C": np.inf, "loss": "hinge"} if rng.random() < 0.2 else p


OWN: dict[str, Callable] = {
    "SVC": _svc,
    "SVR": lambda rng: {**_tube(rng), **_intercepts(rng, False)},
    "LinearSVC": _linear_svc,
    "LinearSVR": lambda rng: {**_tube(rng), **_intercepts(rng, True)},
    "LogisticRegression": _logistic,
    "SGDClassifier": _sgd("hinge", "squared_hinge", "huber_hinge", "log_loss", "perceptron", "squared_error",
                          "epsilon_insensitive", "squared_epsilon_insensitive"),
    "SGDRegressor": _sgd("squared_error", "epsilon_insensitive", "squared_epsilon_insensitive"),
    "DistributedSVC": _distributed,
    "DistributedNuSVC": lambda rng: {"n_clients": 2},
    "Ridge": _ridge,
    "LinearRegression": _least_squares,
    "KernelRidge": _kernel_ridge,
    "RidgeClassifier": _ridge,
    "RidgeCV": _ridge_cv,
}  # fmt: skip


def earlier(rng, made):
    """Samples of another fit to start from: the same with other targets, fewer of them, or fewer features."""
    X = made.X.tocsr() if sp.issparse(made.X) else made.X
    kind, n = rng.random(), X.shape[0]
    if kind < 0.4 or n < 6:
        return X, made.y
    keep = np.sort(rng.permutation(n)[: n - 2])
    part = X[keep]
    if made.params.get("kernel") == "precomputed":
        part = part[:, keep]
    elif kind < 0.7 and X.shape[1] > 1:
        part = part[:, :-1]
    return part, None if made.y is None else made.y[keep]
