"""Judges of least squares, with and without penalties, and through a kernel."""

from __future__ import annotations

import numpy as np
import sklearn.kernel_ridge
import sklearn.linear_model
import sklearn.svm
from sklearn.base import BaseEstimator as Model

from maxmargin.estimators._machinery.check import class_weights
from maxmargin.estimators._machinery.least_squares import LONGER, reach_of
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.paths import sparse_penalty
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.problems import limits_of
from maxmargin.estimators.certification.fitted import (
    Samples,
    codes_of,
    float_row,
    judged,
    solved_dual,
    targets,
)
from maxmargin.estimators.certification.verdict import Verdict, by_target, judge, judge_named, verdict_of
from maxmargin.estimators.distributed_lasso import DistributedLasso
from maxmargin.estimators.distributed_ridge import DistributedRidge
from maxmargin.estimators.elastic_net import ElasticNet
from maxmargin.estimators.elastic_net_cv import ElasticNetCV
from maxmargin.estimators.kernel_ridge import KernelRidge, gram_of_kernel_ridge
from maxmargin.estimators.lasso_cv import LassoCV
from maxmargin.estimators.linear_regression import LinearRegression
from maxmargin.estimators.ridge import Ridge
from maxmargin.estimators.ridge_classifier import RidgeClassifier
from maxmargin.estimators.ridge_cv import RidgeCV
from maxmargin.operators import Columns, rows_of
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2, Bounded, Unpenalised
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Intercept, Penalty
from maxmargin.solvers.choice import choose

RIDGE = "sum_i s_i (x_i.w + b - y_i)^2 + alpha |w|^2"


@judge.register(ElasticNet)  # and Lasso
@judge.register(LassoCV)
@judge.register(DistributedLasso)
@judge.register(ElasticNetCV)
@judge.register(sklearn.linear_model.ElasticNet)  # Lasso too, and celer's estimators of these names
@judge.register(sklearn.linear_model.LassoCV)
@judge.register(sklearn.linear_model.ElasticNetCV)
@judge_named("skglm.estimators.Lasso")
@judge_named("skglm.estimators.ElasticNet")
def _judge_sparse(model: Model, data: Samples) -> Verdict:
    if getattr(model, "weights", None) is not None:
        raise ValueError(f"certify judges {type(model).__name__} with weights=None; weights pose another problem.")
    share = data.weights / data.weights.sum()
    alpha = float(getattr(model, "alpha_", getattr(model, "alpha", 0.0)))
    ratio = float(getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0)))
    certificates = []
    for k, (y, point) in enumerate(targets(model, data)):
        if alpha * ratio == 0.0:
            certificates.append(_ridge_certificate(model, data, y, share, 0.5 * alpha, point))
            continue
        limits = limits_of(model, data.X.shape[1])
        problem = Problem(
            rows_of(data.X), y, Squared(), sparse_penalty(alpha, ratio, limits), share,
            "free" if model.fit_intercept else None,
        )  # fmt: skip
        w = point.w if limits is None else np.clip(point.w, *limits)
        certificates.append(judged(model, problem, Point(w, point.b, _own_variables(model, k, share.size))))
    formula = {0.0: "alpha |w|^2 / 2", 1.0: "alpha |w|_1"}.get(
        ratio, "alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)"
    )
    return by_target(f"sum_i s_i (x_i.w + b - y_i)^2 / (2 sum_i s_i) + {formula}", certificates)


def _own_variables(model: Model, k: int, n: int) -> Float | None:
    """The dual variables of a target that a model kept; others follow from its errors."""
    alpha = model.solutions_[k].point.alpha if hasattr(model, "solutions_") else None
    return alpha if alpha is not None and alpha.size == n else None


@judge.register(Ridge)
@judge.register(DistributedRidge)
@judge.register(RidgeCV)
@judge.register(LinearRegression)
@judge.register(sklearn.linear_model.Ridge)
@judge.register(sklearn.linear_model.RidgeCV)
@judge.register(sklearn.linear_model.LinearRegression)
def _judge_ridge(model: Model, data: Samples) -> Verdict:
    certificates = [
        _ridge_certificate(model, data, y, 2.0 * data.weights, _alpha(model, k), point)
        for k, (y, point) in enumerate(targets(model, data))
    ]
    return by_target(RIDGE, certificates)


@judge.register(RidgeClassifier)
@judge.register(sklearn.linear_model.RidgeClassifier)
def _judge_ridge_classifier(model: Model, data: Samples) -> Verdict:
    if data.y.ndim > 1:  # several labels for each sample
        s, signs = 2.0 * data.weights, np.where(data.y > 0, 1.0, -1.0)
        tasks = [Task(f"label {k}", np.arange(s.size), np.ascontiguousarray(y), s) for k, y in enumerate(signs.T)]
    else:
        codes = codes_of(model, data)
        per_class = class_weights(model.class_weight, model.classes_, codes, _counted(model, data))
        s = 2.0 * per_class[codes] * data.weights
        tasks = list(binary_tasks(codes, model.classes_, "ovr", s))
    coef, biases = np.atleast_2d(model.coef_), np.broadcast_to(model.intercept_, len(tasks))
    certificates = [
        _ridge_certificate(model, data, task.y, s, _alpha(model, k), Point(float_row(coef, k), float(biases[k])))
        for k, task in enumerate(tasks)
    ]
    return verdict_of(RIDGE, tasks, certificates)


def _counted(model: Model, data: Samples) -> Float:
    """What "balanced" counts: scikit-learn's RidgeClassifier leaves the sample weights out there."""
    return data.weights if isinstance(model, RidgeClassifier) else np.ones(data.weights.size)


def _alpha(model: Model, k: int) -> float:
    """The strength of the penalty of a target."""
    alphas = np.ravel(getattr(model, "alpha_", getattr(model, "alpha", 0.0)))
    return float(alphas[k if alphas.size > 1 else 0])


def _ridge_certificate(model: Model, data: Samples, y: Float, s: Float, alpha: float, point: Point) -> Certificate:
    """Of least squares with a penalty or without one, and with or without limits of the coefficients.

    With limits the dual variables that follow from the scores prove little, and good ones are found by solving.
    """
    rows = rows_of(data.X)
    intercept: Intercept = "free" if model.fit_intercept else None
    d = data.X.shape[1]
    limits = limits_of(model, d)
    reach = np.maximum(reach_of(rows, y, intercept), LONGER * np.abs(point.w)) if alpha == 0.0 else np.full(d, np.inf)
    if limits is None:
        penalty: Penalty = L2(2.0 * alpha) if alpha > 0.0 else Unpenalised(reach)
        return judged(model, Problem(rows, y, Squared(), penalty, s, intercept), point)
    penalty = Bounded(2.0 * alpha, 0.0, np.maximum(limits[0], -reach), np.minimum(limits[1], reach))
    problem = Problem(Columns(data.in_memory), y, Squared(), penalty, s, intercept)
    kept = np.clip(point.w, penalty.low, penalty.high)
    return judged(
        model, problem, Point(kept, point.b, solved_dual(problem, Point(kept, point.b), choose(problem).make()))
    )


@judge.register(KernelRidge)
@judge.register(sklearn.kernel_ridge.KernelRidge)
def _judge_kernel_ridge(model: Model, data: Samples) -> Verdict:
    alphas = np.ravel(model.alpha)
    gram, s = gram_of_kernel_ridge(model, data.in_memory), 2.0 * data.weights
    Y = data.y.astype(np.float64).reshape(data.X.shape[0], -1)
    W = np.asarray(model.dual_coef_, dtype=np.float64).reshape(Y.shape)
    certificates = []
    for k in range(Y.shape[1]):
        lam, w = 2.0 * float(alphas[k if alphas.size > 1 else 0]), np.ascontiguousarray(W[:, k])
        problem = Problem(gram, np.ascontiguousarray(Y[:, k]), Squared(), L2(lam), s, None)
        certificates.append(judged(model, problem, Point(w, 0.0, lam * w)))
    return by_target("sum_i s_i (f(x_i) - y_i)^2 + alpha |f|^2", certificates)
