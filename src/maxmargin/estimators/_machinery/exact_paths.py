"""What the exact paths of kernel classifiers share: the stored kernel matrix, and what lies between two breakpoints."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.check import check_prediction_data
from maxmargin.estimators._machinery.kernel_classifier import KernelClassifier
from maxmargin.estimators._machinery.kernels import kernel_scores
from maxmargin.estimators._machinery.plan import Task
from maxmargin.operators import Gram, Matrix, MatrixLike
from maxmargin.protocols import Float

ROOM = 64  # breakpoints that one call finds
MEGABYTE = 2.0**20


def begin_path(
    model: KernelClassifier, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None, name: str
) -> tuple[Task, Gram, int]:
    """The only task of a model, its kernel matrix, and how many breakpoints there is memory for.

    Sets: the support vectors of the model, which are all samples.
    """
    plan = model._plan(X, y, sample_weight)
    if len(plan.tasks) != 1:
        raise ValueError(f"{name} is for two classes, and y has {model.classes_.size}; take one path for each pair.")
    n, task, memory = plan.weights.size, plan.tasks[0], model.cache_size * MEGABYTE
    matrix = 8.0 * n * n
    if matrix > memory:
        raise ValueError(
            f"{name} stores the kernel matrix, {matrix / MEGABYTE:.0f} megabytes for {n} samples, and max_memory "
            f"is {model.cache_size:g}."
        )
    gram = cast("Gram", plan.views[-1].of(task))
    if not gram.positive:
        raise ValueError(
            f"The solutions are no path: the kernel matrix is not positive semi-definite, but {gram.flaw}. Use a "
            'positive kernel, such as "rbf".'
        )
    model.support_vectors_, model.support_ = plan.X, np.arange(n, dtype=np.int32)
    return task, gram, int((memory - matrix) / (8.0 * n)) + 4 * ROOM


def between(breakpoints: Float, ends: Float, values: Float) -> Float:
    """What is linear between breakpoints, where it has the rows ``ends``: a row for each of the values."""
    upper = np.clip(np.searchsorted(breakpoints, values), 1, breakpoints.size - 1)
    low, high = breakpoints[upper - 1], breakpoints[upper]
    share = np.where(high > low, (values - low) / np.where(high > low, high - low, 1.0), 1.0)
    share = share.reshape(-1, *[1] * (ends.ndim - 1))
    return np.asarray((1.0 - share) * ends[upper - 1] + share * ends[upper])


def scores_along(model: KernelClassifier, X: MatrixLike, coefficients: Float, intercepts: Float | float) -> Float:
    """Scores of samples by one function, or a column by each of several."""
    rows = cast("Matrix", check_prediction_data(model, X))
    scores = kernel_scores(model, rows, np.atleast_2d(coefficients)) + np.atleast_1d(intercepts)
    return scores[:, 0] if coefficients.ndim == 1 else scores
