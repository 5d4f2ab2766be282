"""The face that scikit-learn's SVC and its accelerated copy share."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmark_utils.peer import Answer
from benchmark_utils.workloads import Task

CACHE_MEGABYTES = 500  # more costs fresh memory, less costs kernel rows


def refusal_of_svc(task: Task) -> str | None:
    """Why an SVC does not solve a task, or ``None``."""
    if task.loss != "hinge":
        return "SVC has the hinge only"
    if task.intercept != "free":
        return "SVC has a free intercept only"
    return None


def fit_svc(SVC: type[Any], X: Any, y: Any, task: Task, tol: float) -> Answer:
    """Fit an SVC and collect its dual variables by sample."""
    kernel = {"kernel": "rbf", "gamma": task.gamma} if task.family == "kernel" else {"kernel": "linear"}
    model = SVC(C=task.C, tol=tol, cache_size=CACHE_MEGABYTES, **kernel).fit(X, y)
    dual = model.dual_coef_
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.asarray(dual.toarray() if hasattr(dual, "toarray") else dual).ravel()
    w = None
    if task.family == "linear":
        w = np.asarray(model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_).ravel()
    return Answer(w, float(np.ravel(model.intercept_)[0]), alpha)
