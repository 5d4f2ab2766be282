"""Judges of linear machines: hinges, tubes, logistic losses and streets between hulls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import sklearn.kernel_ridge
import sklearn.linear_model
import sklearn.svm
from sklearn.base import BaseEstimator as Model
from sklearn.base import is_classifier

from maxmargin.estimators._machinery.check import class_weights, weight_of_losses
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import Task, regression_task
from maxmargin.estimators._machinery.problems import (
    hard_margin,
    l1_share,
    logistic_problem,
    nu_classification,
    penalty_of,
    softmax_problem,
    street_certificate,
    tube_problem,
)
from maxmargin.estimators._machinery.stochastic import CLASSIFICATION_LOSSES, StochasticEstimator, linear_problem
from maxmargin.estimators.certification.claims import claim_of_losses
from maxmargin.estimators.certification.fitted import (
    DUAL_BOUND_SECONDS,
    Samples,
    codes_of,
    dual_bound,
    float_row,
    intercept_of,
    judged,
    kept_dual,
    norm_formula,
    smooth_certificate_of,
)
from maxmargin.estimators.certification.verdict import Verdict, judge, verdict_of
from maxmargin.estimators.distributed_nu_svc import DistributedNuSVC
from maxmargin.estimators.distributed_svc import DistributedSVC
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.logistic_regression import LogisticRegression
from maxmargin.estimators.sgd_classifier import SGDClassifier
from maxmargin.estimators.sgd_regressor import SGDRegressor
from maxmargin.loop.minimize import minimize
from maxmargin.operators import rows_of
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.crammer_singer import CrammerSingerProblem
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Features, Float
from maxmargin.solvers import DualSimplices, Saddle, SoftmaxNewton
from maxmargin.solvers.choice import choose

HULL_BOUND_TOL = 1e-6
Pose = Callable[[int, Task, Features], BoxQP | HullDistance]  # from the number of a task, the task and its rows
KINDS = {"free": "", "penalised": " (intercept penalised)", None: " (no intercept)"}


@judge.register(LinearSVC)
@judge.register(DistributedSVC)
@judge.register(sklearn.svm.LinearSVC)
def _judge_linear_svc(model: Model, data: Samples) -> Verdict:
    if model.multi_class == "crammer_singer":
        return _judge_all_classes(model, data)
    codes = codes_of(model, data)
    C = 1.0 if np.isinf(model.C) else model.C
    s = C * class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights
    if np.isinf(model.C):
        return _judge_streets(model, data, codes, s, lambda k, task, rows: hard_margin(rows, task.y, task.s))
    loss = Hinge() if model.loss == "hinge" else SquaredHinge()
    scale = float(model.intercept_scaling)
    intercept = intercept_of(model, "penalised")
    tasks = binary_tasks(codes, model.classes_, model.multi_class, s)
    certificates, claims = [], []
    biases = np.broadcast_to(model.intercept_, len(tasks))
    for k, task in enumerate(tasks):
        rows = rows_of(data.X if task.members.size == data.X.shape[0] else data.in_memory[task.members])
        problem = Problem(rows, task.y, loss, penalty_of(model, data.X.shape[1]), task.s, intercept, scale)
        point = Point(np.asarray(model.coef_[k], dtype=np.float64), float(biases[k]), kept_dual(model, k, task))
        if point.alpha is None and (model.loss == "hinge" or not isinstance(problem.penalty, L2)):
            point = Point(point.w, point.b, dual_bound(problem, point))
        certificates.append(judged(model, problem, point))
        claims.append(partial(claim_of_losses, task, problem, point))
    power = "" if model.loss == "hinge" else "^2"
    formula = f"{norm_formula(model)} + sum_i C_i max(0, 1 - y_i (w.x_i + b)){power}{KINDS[intercept]}"
    return verdict_of(formula, tasks, certificates, claims)


def _judge_all_classes(model: Model, data: Samples) -> Verdict:
    """The machine of Crammer and Singer; of two classes, only the difference of their scores is kept."""
    codes, k = codes_of(model, data), model.classes_.size
    s = model.C * class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights
    intercept, W = intercept_of(model, "penalised"), np.asarray(model.coef_, dtype=np.float64)
    b = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), W.shape[0])
    theta = np.column_stack([W, b]) if intercept is not None else W
    if k == 2:
        theta = np.vstack([-0.5 * theta, 0.5 * theta])
    task = Task("all classes", np.arange(codes.size), codes.astype(np.float64), s)
    scale = float(model.intercept_scaling)
    problem = CrammerSingerProblem(rows_of(data.X), codes, k, 1.0, s, intercept, scale)
    certificate = smooth_certificate_of(model, 0, problem, Point(theta.ravel(), 0.0), DualSimplices())
    formula = "1/2 |W|^2 + sum_i C_i max_k (w_k.x_i + b_k - w_y.x_i - b_y + [k != y])"
    return verdict_of(formula + KINDS[intercept], [task], [certificate])


@judge.register(DistributedNuSVC)
def _judge_distributed_nu_svc(model: Model, data: Samples) -> Verdict:
    codes = codes_of(model, data)
    s = class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights

    def pose(k: int, task: Task, rows: Features) -> BoxQP | HullDistance:
        return nu_classification(rows, task.y, task.s, model.nu_[k])

    return _judge_streets(model, data, codes, s, pose)


def _judge_streets(model: Model, data: Samples, codes: Array, s: Float, pose: Pose) -> Verdict:
    """Of linear functions that were divided by their margins; good dual variables are found by solving."""
    tasks = binary_tasks(codes, model.classes_, model.multi_class, s)
    certificates = []
    for k, task in enumerate(tasks):
        rows = rows_of(data.X if task.members.size == data.X.shape[0] else data.in_memory[task.members])
        problem, w, b = pose(k, task, rows), float_row(model.coef_, k), float(model.intercept_[k])
        assert isinstance(problem, HullDistance)  # as the operator has rows
        missing = float(problem.cap @ np.maximum(1.0 - problem.y * (rows.apply(w) + b), 0.0))
        rho = max(2.0 * problem.total - missing, 0.0) / (float(w @ w) or 1.0)  # the best one for this direction
        a = minimize(problem, Saddle(), tol=HULL_BOUND_TOL, max_time=DUAL_BOUND_SECONDS).point.alpha
        assert a is not None
        certificates.append(street_certificate(problem, rho * w, rho * b, rho, a))
    return verdict_of("1/2 |w|^2 - nu S rho + sum_i s_i max(0, rho - y_i (w.x_i + b))", tasks, certificates)


@judge.register(LinearSVR)
@judge.register(sklearn.svm.LinearSVR)
def _judge_linear_svr(model: Model, data: Samples) -> Verdict:
    y, s, intercept = data.y.astype(np.float64), model.C * data.weights, intercept_of(model, "penalised")
    task, scale = regression_task(y, s), float(model.intercept_scaling)
    penalty = penalty_of(model, data.X.shape[1])
    problem = tube_problem(rows_of(data.X), y, s, model.loss, model.epsilon, intercept, scale, penalty)
    w, b = np.asarray(model.coef_, dtype=np.float64), float(np.ravel(model.intercept_)[0])
    point = Point(w, b, kept_dual(model, 0, task))
    if point.alpha is None and (model.loss == "epsilon_insensitive" or not isinstance(penalty, L2)):
        point = Point(w, b, dual_bound(problem, point))
    power = "" if model.loss == "epsilon_insensitive" else "^2"
    formula = f"{norm_formula(model)} + sum_i C_i max(0, |y_i - w.x_i - b| - epsilon){power}{KINDS[intercept]}"
    claim = partial(claim_of_losses, task, problem, point)
    return verdict_of(formula, [task], [judged(model, problem, point)], [claim])


@judge.register(LogisticRegression)
@judge.register(sklearn.linear_model.LogisticRegression)
def _judge_logistic_regression(model: Model, data: Samples) -> Verdict:
    """Of two classes, each class against the rest, or all at once."""
    all_at_once = model.classes_.size > 2 and getattr(model, "multi_class", "multinomial") != "ovr"
    if all_at_once and l1_share(model) > 0.0:
        raise ValueError(
            f"certify judges LogisticRegression of more than two classes at once with the L2 penalty; this one has "
            f"{model.classes_.size} classes and the penalty {norm_formula(model)}."
        )
    codes, C = codes_of(model, data), weight_of_losses(model)
    s = C * class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights
    intercept = intercept_of(model, "penalised" if model.solver == "liblinear" else "free")
    rows, scale = rows_of(data.X), float(model.intercept_scaling)
    W = np.asarray(model.coef_, dtype=np.float64)
    b = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), W.shape[0])
    if all_at_once:
        tasks = [Task("all classes", np.arange(codes.size), codes.astype(np.float64), s)]
        theta = np.column_stack([W, b]) if intercept is not None else W
        problem = softmax_problem(rows, codes, model.classes_.size, s, intercept, scale)
        certificates = [smooth_certificate_of(model, 0, problem, Point(theta.ravel(), 0.0), SoftmaxNewton())]
        formula = "1/2 |W|^2 + sum_i C_i (log sum_k exp(w_k.x_i + b_k) - w_y.x_i - b_y)"
    else:
        tasks = list(binary_tasks(codes, model.classes_, "ovr", s))
        penalty = penalty_of(model, data.X.shape[1])
        problems = [logistic_problem(rows, task.y, s, penalty, intercept, scale) for task in tasks]
        solver = choose(problems[0]).make()
        certificates = [
            smooth_certificate_of(model, k, problems[k], Point(W[k], float(b[k])), solver) for k in range(len(W))
        ]
        formula = f"{norm_formula(model)} + sum_i C_i log(1 + exp(-y_i (w.x_i + b)))"
    return verdict_of(formula + KINDS[intercept], tasks, certificates)


@judge.register(SGDClassifier)
@judge.register(SGDRegressor)
@judge.register(sklearn.linear_model.SGDClassifier)
@judge.register(sklearn.linear_model.SGDRegressor)
def _judge_sgd(model: Model, data: Samples) -> Verdict:
    """The penalty of ours counts as often as the sample weights say, that of scikit-learn's once per row."""
    if model.loss not in CLASSIFICATION_LOSSES or model.penalty is None or model.alpha == 0.0:
        raise ValueError(
            f"certify judges {type(model).__name__} with a penalty and one of the losses "
            f"{', '.join(sorted(CLASSIFICATION_LOSSES))}; this one has loss={model.loss!r}, penalty={model.penalty!r} "
            f"and alpha={model.alpha!r}."
        )
    if is_classifier(model):
        codes = codes_of(model, data)
        s = class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights
        tasks = list(binary_tasks(codes, model.classes_, "ovr", s))
    else:
        s = data.weights
        tasks = [regression_task(data.y, s)]
    rows, n = rows_of(data.X), data.y.size
    total = float(data.weights.sum()) if isinstance(model, StochasticEstimator) else float(n)
    certificates = []
    for k, task in enumerate(tasks):
        problem = linear_problem(model, rows, task.y, s, total)
        alpha = model.solutions_[k].point.alpha if isinstance(model, StochasticEstimator) else None
        if alpha is not None and alpha.size != n:
            alpha = None  # of the last samples of a stream: of no use for these
        point = Point(np.atleast_2d(model.coef_)[k].astype(np.float64), float(model.intercept_[k]), alpha)
        if alpha is None and problem.loss.traits.kinked and model.penalty == "l2":
            point = Point(point.w, point.b, dual_bound(problem, point))
        certificates.append(judged(model, problem, point))
    size = "sum_i s_i" if isinstance(model, StochasticEstimator) else "n"
    return verdict_of(f"sum_i c_i loss(y_i, x_i.w + b) + alpha {size} R(w)", tasks, certificates)
