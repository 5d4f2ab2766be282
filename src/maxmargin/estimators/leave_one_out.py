"""The scores of all samples by the models that were fitted without them, from one fit."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery.kernel_machine import KernelMachine
from maxmargin.estimators._machinery.plan import Plan
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svr import SVR
from maxmargin.operators import Gram, MatrixLike
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.protocols import Float
from maxmargin.solvers.kernels.active_set import solved
from maxmargin.solvers.kernels.active_set.left_out import slopes_without
from maxmargin.solvers.kernels.active_set.state import ActiveSetState
from maxmargin.threads import go_on, one_blas_thread


def leave_one_out(model: Any, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Float:
    """For each sample, its score by the model that was fitted without it.

    A sample without a part in the model has the score that it has. Of an `SVC` of two classes and of an `SVR` the
    others are found from the one solution, exactly and in about the time of a few fits; other kernel machines are
    fitted again for each of their support vectors. What the parameters of the model say in terms of the samples, such
    as ``gamma="scale"`` and balanced class weights, stays as it is with all of them.

    Parameters
    ----------
    model : SVC, SVR, NuSVC, NuSVR or OneClassSVM
        Fitted to these samples.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The training samples, or for ``kernel="precomputed"`` the kernel matrix.
    y : array-like of shape (n_samples,)
        Their labels or targets; ignored by `OneClassSVM`.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights of the fit.

    Returns
    -------
    ndarray of shape (n_samples,) or (n_samples, n_scores)
        What ``decision_function`` (of regressors ``predict``) of those models tells of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import SVC, leave_one_out
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.std(axis=0)
    >>> scores = leave_one_out(SVC().fit(X, y), X, y)
    >>> print(f"{np.mean((scores > 0.0) == y):.3f}")
    0.967

    """
    if not isinstance(model, KernelMachine):
        raise TypeError(f"leave_one_out is for kernel machines of maxmargin; {type(model).__name__} is none.")
    check_is_fitted(model)
    if model.approximation is not None:
        raise ValueError(
            f"leave_one_out is exact, and approximation={model.approximation!r} is not; fit a model without it."
        )
    sketch = copy.copy(model)
    sketch.gamma = model._gamma if model.kernel != "precomputed" else model.gamma
    if getattr(model, "class_weight", None) == "balanced":
        sketch.class_weight = dict(zip(model.classes_.tolist(), model.class_weight_.tolist(), strict=True))
    sketch.callback = None
    plan = sketch._plan(X, y, sample_weight)
    if plan.X.shape != model.shape_fit_:
        raise ValueError(
            f"X has the shape {plan.X.shape}, but the model was fitted to samples of shape {model.shape_fit_}: pass "
            "those."
        )
    if isinstance(model, SVC | SVR) and len(plan.tasks) == 1 and not getattr(model, "_hard", False):
        with one_blas_thread:
            return _from_one_solution(sketch, plan)
    return _by_refits(sketch, plan, X, y)


def scores_without(qp: BoxQP, state: ActiveSetState) -> Float:
    """The score of each sample in the solution without it, for a program with at most one sum that is fixed."""
    slopes = slopes_without(state)
    n = qp.gram.n_samples
    scores = np.full(n, np.nan)
    known = ~np.isnan(slopes)
    scores[qp.sample[known]] = (qp.q - slopes)[known]
    for i in np.flatnonzero(np.isnan(scores)).tolist():
        go_on()
        scores[i] = _score_without(qp, state, i)
    return scores


def _from_one_solution(model: KernelMachine, plan: Plan) -> Float:
    gram = cast("Gram", plan.views[-1].of(plan.tasks[0]))
    qp = BoxQP.of(cast("Any", model._problem(gram, plan.tasks[0], plan)))
    earlier = model.solutions_[0].point
    state = solved(qp, earlier if earlier.alpha is not None and earlier.alpha.size == plan.weights.size else None)
    state.face_of_free()
    return scores_without(qp, state)


def _score_without(qp: BoxQP, state: ActiveSetState, i: int) -> float:
    """By solving the program without a sample."""
    mine = qp.sample == i
    locked = replace(qp, low=np.where(mine, 0.0, qp.low), high=np.where(mine, 0.0, qp.high))
    alpha = np.where(mine, 0.0, state.a)
    point = Point(qp.expansion(alpha), 0.0, alpha)
    again = solved(locked, point if locked.totals.size == 0 or alpha.any() else None)
    f = again.f[qp.sample]
    b = locked.values(again.a, f)[2]
    return float(f[mine][0] + (b[0] if b.size else 0.0))


def _by_refits(model: KernelMachine, plan: Plan, X: Any, y: Any) -> Float:
    """One fit for each sample with a part in the model."""
    X, weights = plan.X, plan.weights
    name = "decision_function" if hasattr(model, "decision_function") else "predict"
    scores = np.array(getattr(model, name)(X), dtype=np.float64)
    labels = None if plan.y is None else np.asarray(y)
    for i in model.support_.tolist():
        go_on()
        rest = np.delete(np.arange(weights.size), i)
        one, some, row = clone(model), X[rest], X[[i]]
        if model.kernel == "precomputed":
            some, row = some[:, rest], row[:, rest]
        if labels is None:
            one.fit(some, None, sample_weight=weights[rest])
        else:
            one.fit(some, labels[rest], sample_weight=weights[rest])
        scores[i] = getattr(one, name)(row)[0]
    return scores
