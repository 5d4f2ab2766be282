"""Judges of least squares, with and without penalties, and through a kernel."""

from __future__ import annotations

import numpy as np
import sklearn.kernel_ridge
import sklearn.linear_model
import sklearn.svm
from sklearn.base import BaseEstimator as Model

from maxmargin.estimators._machinery.check import class_weights
from maxmargin.estimators._machinery.least_squares import LONGER, coefficient_limits, reach_of
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators.certification.fitted import (
    Samples,
    codes_of,
    float_row,
    judged,
    solved_dual,
    targets,
)
from maxmargin.estimators.certification.verdict import Verdict, by_target, judge, verdict_of
from maxmargin.estimators.distributed_lasso import DistributedLasso
from maxmargin.estimators.distributed_ridge import DistributedRidge
from maxmargin.estimators.kernel_ridge import KernelRidge, gram_of_kernel_ridge
from maxmargin.estimators.linear_regression import LinearRegression
from maxmargin.estimators.ridge import Ridge
from maxmargin.estimators.ridge_classifier import RidgeClassifier
from maxmargin.estimators.ridge_cv import RidgeCV
from maxmargin.operators import Columns, rows_of
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, L2, Bounded, Unpenalised
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Intercept, Penalty
from maxmargin.solvers.choice import choose

RIDGE = "sum_i s_i (x_i.w + b - y_i)^2 + alpha |w|^2"


@judge.register(DistributedLasso)
@judge.register(sklearn.linear_model.Lasso)
def _judge_lasso(model: Model, data: Samples) -> Verdict:
    if getattr(model, "positive", False):
        raise ValueError("certify judges Lasso with positive=False; positive=True is another problem.")
    share = data.weights / data.weights.sum()
    penalty = L1(float(model.alpha))
    certificates = [
        judged(model, _least_squares(model, data, y, share, penalty), point) for y, point in targets(model, data)
    ]
    return by_target("sum_i s_i (x_i.w + b - y_i)^2 / (2 sum_i s_i) + alpha |w|_1", certificates)


@judge.register(Ridge)
@judge.register(DistributedRidge)
@judge.register(RidgeCV)
@judge.register(LinearRegression)
@judge.register(sklearn.linear_model.Ridge)
@judge.register(sklearn.linear_model.RidgeCV)
@judge.register(sklearn.linear_model.LinearRegression)
def _judge_ridge(model: Model, data: Samples) -> Verdict:
    certificates = [
        _ridge_certificate(model, data, y, 2.0 * data.weights, k, point)
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
        tasks = binary_tasks(codes, model.classes_, "ovr", s)
    coef, biases = np.atleast_2d(model.coef_), np.broadcast_to(model.intercept_, len(tasks))
    certificates = [
        _ridge_certificate(model, data, task.y, s, k, Point(float_row(coef, k), float(biases[k])))
        for k, task in enumerate(tasks)
    ]
    return verdict_of(RIDGE, tasks, certificates)


def _counted(model: Model, data: Samples) -> Float:
    """What "balanced" counts: scikit-learn's RidgeClassifier leaves the sample weights out there."""
    return data.weights if isinstance(model, RidgeClassifier) else np.ones(data.weights.size)


def _ridge_certificate(model: Model, data: Samples, y: Float, s: Float, k: int, point: Point) -> Certificate:
    """Of least squares with a penalty or without one, and with or without limits of the coefficients.

    With limits the dual variables that follow from the scores prove little, and good ones are found by solving.
    """
    rows = rows_of(data.X)
    intercept: Intercept = "free" if model.fit_intercept else None
    alphas = np.ravel(getattr(model, "alpha_", getattr(model, "alpha", 0.0)))
    alpha = float(alphas[k if alphas.size > 1 else 0])
    d = data.X.shape[1]
    limits = coefficient_limits(d, getattr(model, "positive", False), getattr(model, "bounds", None))
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


def _least_squares(model: Model, data: Samples, y: Float, s: Float, penalty: Penalty) -> Problem:
    return Problem(rows_of(data.X), y, Squared(), penalty, s, "free" if model.fit_intercept else None)
