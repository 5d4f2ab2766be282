"""Judges of machines that see their samples through a kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import sklearn.kernel_ridge
import sklearn.linear_model
import sklearn.svm
from sklearn.base import BaseEstimator as Model

from maxmargin.estimators._machinery.check import weight_of_losses
from maxmargin.estimators._machinery.kernels import task_operator, training_operator
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import regression_task
from maxmargin.estimators._machinery.problems import (
    both_sides,
    certificate_at,
    hard_margin,
    hinge_problem,
    nu_classification,
    nu_regression,
    one_class,
    tube_problem,
)
from maxmargin.estimators.certification.claims import (
    Claim,
    claim_of_losses,
    claim_of_one_class,
    claim_of_street,
    claim_of_tube,
)
from maxmargin.estimators.certification.fitted import (
    Samples,
    best_tube,
    certified_dual,
    codes_of,
    float_row,
    intercept_of,
    judged,
    only_task,
    street_certificate_of,
    tasks_with_variables,
)
from maxmargin.estimators.certification.verdict import Verdict, judge, verdict_of
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svr import SVR
from maxmargin.problems.point import Certificate, Point
from maxmargin.protocols import Array


@judge.register(SVC)
@judge.register(sklearn.svm.SVC)
def _judge_svc(model: Model, data: Samples) -> Verdict:
    codes = codes_of(model, data)
    if np.isinf(model.C):
        return _judge_hard_margin(model, data, codes)
    s = model.C * np.asarray(model.class_weight_)[codes] * data.weights
    loss, intercept, as_rows = getattr(model, "loss", "hinge"), intercept_of(model, "free"), model.kernel == "linear"
    certificates: list[Certificate] = []
    claims: list[Callable[[], Claim]] = []
    tasks = binary_tasks(codes, model.classes_, getattr(model, "multi_class", "ovo"), s)
    for task, alpha, b in tasks_with_variables(model, tasks, data.X.shape[0]):
        operator = task_operator(model, data.in_memory, task, as_rows=as_rows)
        problem = hinge_problem(operator, task.y, task.s, loss, intercept)
        w = float_row(model.coef_, len(claims)) if as_rows else alpha
        point = Point(w, b, certified_dual(model, len(claims), alpha))
        certificates.append(judged(model, problem, point))
        claims.append(partial(claim_of_losses, task, problem, point))
    power = "" if loss == "hinge" else "^2"
    return verdict_of(f"1/2 |f|^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b)){power}", tasks, certificates, claims)


def _judge_hard_margin(model: Model, data: Samples, codes: Array) -> Verdict:
    certificates: list[Certificate] = []
    claims: list[Callable[[], Claim]] = []
    tasks, as_rows = binary_tasks(codes, model.classes_, model.multi_class, data.weights), model.kernel == "linear"
    for task, alpha, b in tasks_with_variables(model, tasks, data.X.shape[0]):
        operator = task_operator(model, data.in_memory, task, as_rows=as_rows)
        problem = hard_margin(operator, task.y, task.s)
        certificates.append(street_certificate_of(model, len(claims), problem, alpha, b))
        w = float_row(model.coef_, len(claims)) if as_rows else alpha
        claims.append(partial(claim_of_street, task, problem, w, b, alpha, hard=True))
    return verdict_of("1/2 |f|^2 - 2 rho with y_i (f(x_i) + b) >= rho", tasks, certificates, claims)


@judge.register(NuSVC)
@judge.register(sklearn.svm.NuSVC)
def _judge_nu_svc(model: Model, data: Samples) -> Verdict:
    codes = codes_of(model, data)
    s = data.weights.copy()
    if isinstance(model, NuSVC):  # scikit-learn's ignores class weights
        s *= model.class_weight_[codes]
    tasks = binary_tasks(codes, model.classes_, getattr(model, "multi_class", "ovo"), s)
    nus = getattr(model, "nu_", np.full(len(tasks), model.nu))
    certificates: list[Certificate] = []
    claims: list[Callable[[], Claim]] = []
    as_rows = model.kernel == "linear"
    for nu, (task, alpha, b) in zip(nus, tasks_with_variables(model, tasks, data.X.shape[0]), strict=True):
        operator = task_operator(model, data.in_memory, task, as_rows=as_rows)
        problem = nu_classification(operator, task.y, task.s, nu)
        certificates.append(street_certificate_of(model, len(claims), problem, alpha, b))
        w = float_row(model.coef_, len(claims)) if as_rows else alpha
        claims.append(partial(claim_of_street, task, problem, w, b, alpha))
    formula = "1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - y_i (f(x_i) + b))"
    return verdict_of(formula, tasks, certificates, claims)


@judge.register(SVR)
@judge.register(sklearn.svm.SVR)
def _judge_svr(model: Model, data: Samples) -> Verdict:
    task, alpha, b = only_task(model, data)
    loss, as_rows = getattr(model, "loss", "epsilon_insensitive"), model.kernel == "linear"
    operator = task_operator(model, data.in_memory, task, as_rows=as_rows)
    s, intercept = weight_of_losses(model) * data.weights, intercept_of(model, "free")
    problem = tube_problem(operator, task.y, s, loss, model.epsilon, intercept)
    w = float_row(model.coef_, 0) if as_rows else alpha
    power = "" if loss == "epsilon_insensitive" else "^2"
    formula = f"1/2 |f|^2 + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon){power}"
    point = Point(w, b, certified_dual(model, 0, alpha))
    return verdict_of(
        formula, [task], [judged(model, problem, point)], [partial(claim_of_losses, task, problem, point)]
    )


@judge.register(NuSVR)
@judge.register(sklearn.svm.NuSVR)
def _judge_nu_svr(model: Model, data: Samples) -> Verdict:
    task, alpha, b = only_task(model, data)
    gram, s = training_operator(model, data.in_memory), model.C * data.weights
    qp = nu_regression(gram, task.y, s, model.nu)
    epsilon = getattr(model, "epsilon_", None)
    if epsilon is None:  # scikit-learn's does not tell its tube: the best one
        epsilon = best_tube(np.abs(task.y - gram.apply(alpha) - b), s, model.nu)
    a = both_sides(qp, alpha)
    certificate = certificate_at(qp, alpha, np.array([b + epsilon, b - epsilon]), a, model.tol)
    formula = "1/2 |f|^2 + nu epsilon sum_i C_i + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon)"
    task = regression_task(task.y, s)
    claim = partial(claim_of_tube, task, gram, alpha, b, a, epsilon, model.nu)
    return verdict_of(formula, [task], [certificate], [claim])


@judge.register(OneClassSVM)
@judge.register(sklearn.svm.OneClassSVM)
def _judge_one_class(model: Model, data: Samples) -> Verdict:
    task, alpha, b = only_task(model, data)
    gram = training_operator(model, data.in_memory)
    qp = one_class(gram, data.weights, model.nu)
    certificate = certificate_at(qp, alpha, np.array([b]), alpha, model.tol)
    claim = partial(claim_of_one_class, task, gram, alpha, b, model.nu)
    return verdict_of("1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - f(x_i))", [task], [certificate], [claim])
