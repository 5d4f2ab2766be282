"""Nasty problems of the newer kinds. They have numbers of their own, so that those of `problems` keep their meaning."""

from collections.abc import Callable

import numpy as np
from problems import (
    TIGHT,
    Case,
    kernel_parameters,
    labels,
    points,
    spoil,
    strength,
    targets,
    weights,
)
from storing import stored

STREAM = 2  # of random numbers
UNWEIGHTED = ("minimise_in_ball", "projected_sgd", "hull_distance", "pareto_curve", "basis_pursuit", "minimum_norm")


@np.errstate(all="ignore")
def newer_case(seed, number):
    """The problem of a number."""
    rng = np.random.default_rng([seed, number, STREAM])
    kinds, shares = list(KINDS), np.array([share for share, _ in KINDS.values()])
    kind = str(rng.choice(kinds, p=shares / shares.sum()))
    n, notes = int(rng.choice([rng.integers(2, 8), rng.integers(8, 25), rng.integers(25, 61)], p=[0.4, 0.4, 0.2])), []
    X = points(rng, n, notes)
    made = KINDS[kind][1](rng, X, notes)
    made.notes, made.seed, made.number, made.newer = [kind, *notes], seed, number, True
    if made.how not in UNWEIGHTED:
        made.weights = weights(rng, made.estimator, n)
    made.X = X if made.how == "update" or made.estimator.startswith("Distributed") else stored(rng, X, made.notes)
    if rng.random() < 0.03 and any(type(value) in (int, float) for value in made.params.values()):
        spoil(rng, made)
    return made


def _tol(rng):
    return float(rng.choice([1e-3, *TIGHT]))


def _some_labels(rng, X, notes, most):
    u = np.nan_to_num(X[:, 0])
    return labels(rng, (u - u.mean()) / (np.abs(u).max() or 1.0), min(int(rng.integers(2, most + 1)), len(X)), notes)


def _limits(rng):
    if rng.random() < 0.4:
        return {"positive": True}
    return {"bounds": (-float(rng.choice([0.0, 1e-9, 1e-3, 1.0, 1e6])), float(rng.choice([1e-9, 1e-3, 1.0, np.inf])))}


def _intercept(rng, kinds):
    kind = str(rng.choice(["auto", "none", *kinds]))
    return {} if kind == "auto" else {"intercept": None if kind == "none" else kind}


# ---- estimators ------------------------------------------------------------------------------------------------------


def _crammer_singer(rng, X, notes):
    p = {"multi_class": "crammer_singer", "C": strength(rng), "tol": _tol(rng)}
    p |= _intercept(rng, ["free", "penalised"])
    if rng.random() < 0.2:
        p["intercept_scaling"] = float(10.0 ** rng.integers(-3, 5))
    if rng.random() < 0.2:
        p["class_weight"] = "balanced"
    return Case("LinearSVC", p, None, _some_labels(rng, X, notes, 6))


def _nystroem(rng, X, notes):
    name = str(rng.choice(["SVC", "SVR"]))
    p = {"approximation": "nystroem", "rank": int(rng.choice([1, 2, 5, 500])), "C": strength(rng), "tol": _tol(rng)}
    p |= kernel_parameters(rng)
    if p["kernel"] == "precomputed":
        p["kernel"] = "rbf"
    if name == "SVC":
        p["loss"] = str(rng.choice(["hinge", "squared_hinge"]))
        return Case(name, p, None, _some_labels(rng, X, notes, 3))
    return Case(name, p, None, targets(rng, "SVR", X, notes))


def _far(rng, X, notes):
    """Kernel machines of strengths at which nothing but the last digits of the matrix decides."""
    name = str(rng.choice(["SVC", "SVR"]))
    p = {"C": float(10.0 ** rng.integers(6, 13)), "tol": _tol(rng), **kernel_parameters(rng)}
    if p["kernel"] == "precomputed":
        p["kernel"] = "linear"
    y = _some_labels(rng, X, notes, 2) if name == "SVC" else targets(rng, "SVR", X, notes)
    if name == "SVC":
        p["loss"] = str(rng.choice(["hinge", "squared_hinge"]))
    return Case(name, p | _intercept(rng, ["free", "penalised"]), None, y, solvers=["interior_point", "active_set"])


def _limited(rng, X, notes):
    name = str(rng.choice(["LinearSVC", "LinearSVR", "LogisticRegression"]))
    p = {"C": strength(rng), "tol": _tol(rng), **_limits(rng), **_intercept(rng, ["free", "penalised"])}
    if name == "LinearSVC":
        p["loss"] = str(rng.choice(["hinge", "squared_hinge"]))
        if p["loss"] == "squared_hinge" and rng.random() < 0.3:
            p["penalty"] = "l1"
    if name == "LinearSVR":
        p |= {"loss": str(rng.choice(["epsilon_insensitive", "squared_epsilon_insensitive"])), "epsilon": 0.1}
        return Case(name, p, None, targets(rng, "SVR", X, notes))
    return Case(name, p, None, _some_labels(rng, X, notes, 2))


def _sparse(rng, X, notes):
    name = str(rng.choice(["Lasso", "ElasticNet", "DistributedLasso"], p=[0.5, 0.4, 0.1]))
    p = {"alpha": strength(rng), "tol": _tol(rng), "fit_intercept": bool(rng.random() < 0.7)}
    if name == "ElasticNet":
        p["l1_ratio"] = float(rng.choice([0.0, 1e-9, 0.1, 0.5, 0.9, 1.0]))
    if name == "DistributedLasso":
        p["n_clients"] = 2
    elif rng.random() < 0.25:
        p |= _limits(rng)
    return Case(
        name, p, None, targets(rng, "SVR", X, notes) if rng.random() < 0.8 else _two_targets(rng, X, notes, name)
    )


def _two_targets(rng, X, notes, name):
    y = targets(rng, "SVR", X, notes)
    return y if name.startswith("Distributed") else np.column_stack([y, rng.normal(size=len(X)) * np.abs(y).max()])


def _groups(rng, X, notes):
    name = str(rng.choice(["GroupLasso", "MultiTaskLasso", "MultiTaskElasticNet"], p=[0.5, 0.25, 0.25]))
    p = {"alpha": strength(rng), "tol": _tol(rng), "fit_intercept": bool(rng.random() < 0.7)}
    if name != "MultiTaskLasso":
        p["l1_ratio"] = float(rng.choice([0.0, 1e-9, 0.1, 0.5, 1.0]))
    if name == "GroupLasso":
        d = X.shape[1]
        p["groups"] = [None, 1, d, rng.integers(0, 3, size=d).tolist()][rng.integers(4)]
        if rng.random() < 0.3 and p["groups"] != 1 and p["groups"] is not None:
            count = 1 if isinstance(p["groups"], int) else len(set(p["groups"]))
            p["weights"] = (10.0 ** rng.integers(-6, 4, size=count)).tolist()
        if rng.random() < 0.6:
            return Case(name, p, None, targets(rng, "SVR", X, notes))
    return Case(name, p, None, _two_targets(rng, X, notes, name))


def _selected(rng, X, notes):
    """The model that cross-validation chose, as one of its own class."""
    name = str(rng.choice(["SVC", "SVR", "LinearSVC"]))
    p = {"Cs": [strength(rng), 1.0], "tol": _tol(rng), "cv": [None, "loo"][rng.integers(2)]}
    if name != "LinearSVC":
        p |= {"gammas": [float(10.0 ** rng.integers(-6, 7))], "kernel": str(rng.choice(["rbf", "poly", "linear"]))}
    y = targets(rng, "SVR", X, notes) if name == "SVR" else _some_labels(rng, X, notes, 3)
    return Case(name, p, None, y, how="selected", solvers=[])


def _updated(rng, X, notes):
    """Fitted to some samples, then to all of them, or with some twice that are forgotten."""
    name = str(rng.choice(["SVC", "NuSVC", "SVR", "OneClassSVM"]))
    p = {"tol": _tol(rng), "kernel": str(rng.choice(["linear", "rbf", "poly", "laplacian"]))}
    p |= {"gamma": float(10.0 ** rng.integers(-4, 5))}
    p |= {"C": strength(rng)} if name in ("SVC", "SVR") else {"nu": float(rng.choice([1e-3, 0.1, 0.3, 0.5]))}
    y = targets(rng, "SVR", X, notes) if name == "SVR" else None
    if name in ("SVC", "NuSVC"):
        y = _some_labels(rng, X, notes, 2)
    return Case(name, p, None, y, how="update", solvers=[])


# ---- functions -------------------------------------------------------------------------------------------------------


def _path(how, name):
    def make(rng, X, notes):
        p = kernel_parameters(rng)
        if p["kernel"] == "precomputed":
            p["kernel"] = "rbf"
        if name == "SVC":
            p |= {"C_max": strength(rng), **_intercept(rng, ["free", "penalised"])}
        y = _some_labels(rng, X, notes, 2) if rng.random() < 0.95 else np.zeros(len(X), dtype=int)
        return Case(name, p, None, y, how=how, solvers=[])

    return make


def _without(rng, X, notes):
    made = _updated(rng, X, notes)
    made.how = "leave_one_out"
    return made


def _ball(rng, X, notes):
    p = {"radius": strength(rng), "loss": str(rng.choice(["hinge", "squared_hinge", "huber_hinge", "logistic"]))}
    if rng.random() < 0.4 and p["loss"] != "squared_hinge":
        p["order"] = str(rng.choice(["fresh", "independent"]))
    else:
        p["tol"] = _tol(rng)
    return Case("LinearSVC", p, None, 2.0 * _some_labels(rng, X, notes, 2) - 1.0, how="ball", solvers=[])


def _hulls(rng, X, notes):
    p = {"tol": _tol(rng), "solver": str(rng.choice(["saddle", "gilbert", "frank_wolfe"]))}
    y = _some_labels(rng, X, notes, 2)
    least = 1.0 / min(np.bincount(y)) if np.unique(y).size > 1 else 1.0
    p["nu"] = float(rng.choice([least, min(1.0, 1.5 * least), 1.0]))
    return Case("SVC", p, None, y, how="hull_distance", solvers=[])


def _recovery(rng, X, notes):
    how = str(rng.choice(["lasso_homotopy", "pareto_curve", "basis_pursuit", "minimum_norm", "best_subset"]))
    p = {"max_time": 1.0} if how in ("lasso_homotopy", "pareto_curve", "basis_pursuit") else {}
    return Case("Lasso", p, None, targets(rng, "SVR", X, notes), how=how, solvers=[])


KINDS: dict[str, tuple[float, Callable]] = {
    "Crammer and Singer": (3, _crammer_singer), "Nystroem": (3, _nystroem), "far": (2, _far), "limits": (2.5, _limited),
    "L1": (3, _sparse), "groups": (2.5, _groups), "selected": (1, _selected), "updated": (2, _updated),
    "path of C": (2, _path("svm_path", "SVC")), "path of nu": (2, _path("nu_path", "NuSVC")), "left out": (1, _without),
    "ball": (2, _ball), "hulls": (2, _hulls), "recovery": (1.5, _recovery),
}  # fmt: skip
