"""The face that the kernel machines of scikit-learn, of its accelerated copy and of maxmargin share."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmark_utils.peer import Answer
from benchmark_utils.workloads import Task

CACHE_MEGABYTES = 500  # of the peers: more costs fresh memory, less costs kernel rows
CLASSES = {
    "kernel": "SVC",
    "linear": "SVC",
    "ovo": "SVC",
    "predict": "SVC",
    "nu-svc": "NuSVC",
    "svr": "SVR",
    "nu-svr": "NuSVR",
}
PREDICT_TOL = 1e-3  # of the fit before predictions are timed


def refusal_of_svc(task: Task) -> str | None:
    """Why an SVC does not solve a task, or ``None``."""
    if task.loss != "hinge":
        return "SVC has the hinge only"
    if task.intercept != "free":
        return "SVC has a free intercept only"
    return None


def parameters(task: Task) -> dict[str, Any]:
    """The parameters of the estimator that solves a task."""
    if task.family == "linear" or task.kernel == "linear":
        chosen: dict[str, Any] = {"kernel": "linear"}
    else:
        chosen = {"kernel": task.kernel, "gamma": task.gamma, "degree": task.degree, "coef0": task.coef0}
    if task.family != "nu-svc":
        chosen["C"] = task.C
    if task.family.startswith("nu-"):
        chosen["nu"] = task.nu
    if task.family == "svr":
        chosen["epsilon"] = task.epsilon
    return chosen


def fit_svc(library: Any, X: Any, y: Any, task: Task, **more: Any) -> tuple[Any, Answer]:
    """Fit the estimator of a library that solves a task; the model, and its dual variables by sample."""
    model = getattr(library, CLASSES[task.family])(**parameters(task), **more).fit(X, y)
    dual = _dense(model.dual_coef_)
    alpha = np.zeros((dual.shape[0], X.shape[0]))
    alpha[:, model.support_] = dual
    b = np.ravel(model.intercept_)
    if task.family == "ovo":
        return model, Answer(None, b, alpha)
    w = _dense(model.coef_).ravel() if task.family == "linear" else None
    return model, Answer(w, float(b[0]), alpha[0])


class Prediction:
    """Predictions of a fitted model: the scores are computed once, the labels as often as they are timed."""

    def __init__(self, library: Any, X: Any, y: Any, task: Task, **more: Any) -> None:
        self.model, answer = fit_svc(library, X[: task.train], y[: task.train], task, **more)
        self.answer = answer._replace(w=self.model.decision_function(X))

    def __call__(self, X: Any) -> Answer:
        """The timed part; scores and dual variables were kept, for the judge."""
        return self.answer._replace(info={"labels": self.model.predict(X)})


def _dense(array: Any) -> Any:
    return np.atleast_2d(np.asarray(array.toarray() if hasattr(array, "toarray") else array, dtype=np.float64))
