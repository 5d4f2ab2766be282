"""Samples that are added to a fitted kernel machine, or taken away: the old solution with its new optimum around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.advice import notes_on_convergence
from maxmargin.estimators._machinery.fit import all_or_nothing, choose_solver, solve
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.training import REMEMBERED_SAMPLES, Training
from maxmargin.loop.solution import Solution
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers import ActiveSet

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.kernel_machine import KernelMachine

KEPT = ("gamma", "class_weight", "solver", "warm_start")  # parameters that an update sets for as long as it takes


def added(model: KernelMachine, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None) -> list[str]:
    """Fit to more samples, from the solution without them. Returns notes for warnings. Sets: the fitted attributes."""
    training = _training_of(model, "add")
    n = training.weights.size
    given = model.kernel == "precomputed"
    if given:
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != n + X.shape[0]:
            raise ValueError(
                f"The added rows of a precomputed kernel matrix have {X.shape[-1]} columns, and need one for each of "
                f"the {n} samples of the model and for each of the {X.shape[0]} new ones."
            )
    else:
        X = check.check_prediction_data(model, X)
    count = X.shape[0]
    weights = np.ones(count) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (count,):
        raise ValueError(f"sample_weight has the shape {weights.shape}, and there are {count} samples to add.")
    targets = np.asarray(y)
    if training.y is not None and targets.shape != (count,):
        raise ValueError(f"y has the shape {targets.shape}, and there are {count} samples to add.")
    old = training.X
    together = _bordered(old, X) if given else _stacked(old, X)
    labels = None if training.y is None else np.concatenate([np.asarray(training.y), targets])
    origin = np.append(np.arange(n), np.full(count, -1))
    return _fitted_again(model, training, together, labels, np.append(training.weights, weights), origin)


def removed(model: KernelMachine, indices: ArrayLike) -> list[str]:
    """Fit to fewer samples, from the solution with them. Returns notes for warnings. Sets: the fitted attributes."""
    training = _training_of(model, "remove")
    n, out = training.weights.size, np.atleast_1d(np.asarray(indices))
    if out.dtype.kind not in "iu" or out.ndim != 1 or not ((out >= -n) & (out < n)).all():
        raise ValueError(f"indices must be whole numbers of samples, from 0 to {n - 1}; got {indices!r}.")
    rest = np.delete(np.arange(n), out)
    if not rest.size:
        raise ValueError("remove would leave no sample at all.")
    labels = None if training.y is None else np.asarray(training.y)[rest]
    if labels is not None and hasattr(model, "classes_"):
        gone = np.setdiff1d(model.classes_, labels)
        if gone.size:
            raise ValueError(
                f"remove would leave no sample of class {gone.tolist()[0]!r}; keep one, or fit a model of the others."
            )
    assert training.X is not None
    X = training.X[rest]
    return _fitted_again(
        model, training, X[:, rest] if model.kernel == "precomputed" else X, labels, training.weights[rest], rest
    )


def _training_of(model: KernelMachine, what: str) -> Training:
    """What the model was fitted to, if it is known and still the same."""
    check_is_fitted(model)
    if model.approximation is not None:
        raise ValueError(
            f"{what} is exact, and approximation={model.approximation!r} is not; fit without it, or fit it again."
        )
    training: Training | None = vars(model).get("_training")
    if training is None:
        raise ValueError(f"{what} needs the training samples, which are not stored with a model; fit it again.")
    if training.X is None:
        raise ValueError(
            f"{what} needs the training samples, and a model remembers at most {REMEMBERED_SAMPLES}; fit it again."
        )
    if model.kernel != "precomputed" and not _same(training.X[model.support_], model.support_vectors_):
        raise ValueError("The training samples were changed in place since the fit; fit the model again.")
    return training


def _fitted_again(model: KernelMachine, training: Training, X: Any, y: Any, weights: Float, origin: Index) -> list[str]:
    """A fit that starts from the old solution, with everything that was read from the old samples as it was.

    ``origin`` has the number that each sample had, or -1. Sets: the fitted attributes.
    """
    parameters = {name: getattr(model, name) for name in KEPT if hasattr(model, name)}
    names = vars(model).get("feature_names_in_")
    with all_or_nothing(model):
        try:
            if model.kernel != "precomputed":
                model.gamma = model._gamma
            if parameters.get("class_weight") == "balanced":
                model.class_weight = dict(zip(model.classes_.tolist(), model.class_weight_.tolist(), strict=True))
            model.solver, model.warm_start = ActiveSet.name, True
            plan = model._plan(X, y, weights)
            model.solutions_ = _moved(model.solutions_, training.tasks, plan.tasks, origin)
            plan.views = plan.views[-1:]  # through the kernel, whatever else there is
            choose_solver(model, plan)
            model._keep(plan, solve(model, plan))
        finally:
            model.__dict__.update(parameters)
        if names is not None:
            model.feature_names_in_ = names
    return [*notes_on_convergence(model, plan.X), *plan.notes]


def _moved(
    solutions: Sequence[Solution], before: Sequence[Task], after: Sequence[Task], origin: Index
) -> list[Solution]:
    """Solutions whose points have a variable for each new sample: zero if it was not there."""
    earlier = {task.name: (task, solution) for task, solution in zip(before, solutions, strict=True)}
    if any(task.name not in earlier for task in after):
        return []  # another class: nothing to start from
    moved = []
    for task in after:
        old, solution = earlier[task.name]
        known = np.full(int(max(old.members.max(initial=0), origin.max(initial=0))) + 2, -1)
        known[old.members] = np.arange(old.members.size)
        place = known[origin[task.members]]  # the last entry of `known` is -1: of samples that were not there
        assert solution.point.alpha is not None
        sides = solution.point.alpha.reshape(-1, old.members.size)
        alpha = np.where(place >= 0, sides[:, place], 0.0)
        point = Point(alpha.sum(axis=0), solution.point.b, alpha.ravel())
        moved.append(replace(solution, point=point, last=None))
    return moved


def _stacked(old: Any, new: Any) -> Any:
    if is_sparse(old) or is_sparse(new):
        return sp.vstack([sp.csr_array(old), sp.csr_array(new)], format="csr")
    return np.vstack([old, new])


def _bordered(K: Any, rows: Array) -> Array:
    """A symmetric matrix with more rows, and the same columns."""
    n = K.shape[0]
    dense = K.toarray() if is_sparse(K) else K
    return np.block([[dense, rows[:, :n].T], [rows]])


def _same(some: Any, others: Any) -> bool:
    if is_sparse(some) != is_sparse(others):
        return False
    return (some != others).nnz == 0 if is_sparse(some) else np.array_equal(some, others)
