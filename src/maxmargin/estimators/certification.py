"""A neutral referee: how well did a fitted model, ours or scikit-learn's, solve the problem it claims to solve?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import sklearn.kernel_ridge
import sklearn.linear_model
import sklearn.svm
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator as Model
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from maxmargin.estimators._machinery.check import QUIETLY, check_chunks, class_weights
from maxmargin.estimators._machinery.fitted import (
    DUAL_BOUND_SECONDS,
    Samples,
    best_tube,
    certified_dual,
    check_fitted_size,
    codes_of,
    dual_bound,
    float_row,
    intercept_of,
    judged,
    kept_dual,
    norm_formula,
    only_task,
    smooth_certificate_of,
    solved_dual,
    street_certificate_of,
    targets,
    tasks_with_variables,
)
from maxmargin.estimators._machinery.kernels import task_operator, training_operator
from maxmargin.estimators._machinery.least_squares import LONGER, coefficient_limits, reach_of
from maxmargin.estimators._machinery.multiclass import binary_tasks
from maxmargin.estimators._machinery.plan import Task, regression_task
from maxmargin.estimators._machinery.problems import (
    both_sides,
    certificate_at,
    hard_margin,
    hinge_problem,
    l1_share,
    logistic_problem,
    nu_classification,
    nu_regression,
    one_class,
    penalty_of,
    softmax_problem,
    street_certificate,
    tube_problem,
)
from maxmargin.estimators._machinery.stochastic import CLASSIFICATION_LOSSES, StochasticEstimator, linear_problem
from maxmargin.estimators.distributed_nu_svc import DistributedNuSVC
from maxmargin.estimators.distributed_svc import DistributedSVC
from maxmargin.estimators.kernel_ridge import KernelRidge, gram_of_kernel_ridge
from maxmargin.estimators.linear_regression import LinearRegression
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.logistic_regression import LogisticRegression
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.ridge import Ridge
from maxmargin.estimators.ridge_classifier import RidgeClassifier
from maxmargin.estimators.ridge_cv import RidgeCV
from maxmargin.estimators.sgd_classifier import SGDClassifier
from maxmargin.estimators.sgd_regressor import SGDRegressor
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svr import SVR
from maxmargin.loop.minimize import minimize
from maxmargin.operators import ChunkedMatrix, Columns, Matrix, MatrixLike, rows_of
from maxmargin.parts.losses import Hinge, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, L2, Bounded, Unpenalised
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Features, Float, Intercept, Penalty
from maxmargin.solvers import Saddle, SoftmaxNewton
from maxmargin.solvers.choice import choose

HULL_BOUND_TOL = 1e-6
Pose = Callable[[int, Task, Features], BoxQP | HullDistance]  # from the number of a task, the task and its rows

RIDGE = "sum_i s_i (x_i.w + b - y_i)^2 + alpha |w|^2"
KINDS = {"free": "", "penalised": " (intercept penalised)", None: " (no intercept)"}


@dataclass(frozen=True)
class Verdict:
    """The certificates of a model, one per problem that it solved."""

    problem: str
    names: tuple[str, ...]
    certificates: tuple[Certificate, ...]

    @property
    def worst(self) -> Certificate:
        """The certificate with the largest relative gap."""
        return max(self.certificates, key=lambda certificate: certificate.relative_gap)

    @property
    def primal(self) -> float:
        """Primal value of the worst certificate."""
        return self.worst.primal

    @property
    def dual(self) -> float:
        """Dual value of the worst certificate."""
        return self.worst.dual

    @property
    def gap(self) -> float:
        """Duality gap of the worst certificate."""
        return self.worst.gap

    @property
    def relative_gap(self) -> float:
        """Relative duality gap of the worst certificate."""
        return self.worst.relative_gap

    def __str__(self) -> str:
        worst = self.worst
        return (
            f"{self.problem}: primal {worst.primal:.10g}, dual {worst.dual:.10g}, relative gap {worst.relative_gap:.2e}"
            + (f" (the worst of {len(self.certificates)} problems)" if len(self.certificates) > 1 else "")
        )


def certify(model: Model, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Verdict:
    """Judge a fitted model: primal value, dual value and gap of the problem that it claims to have solved.

    Everything is recomputed from coefficients, dual variables and the data of the fit; no report of the model is used.

    Parameters
    ----------
    model : estimator
        A fitted ``SVC``, ``NuSVC``, ``LinearSVC``, ``SVR``, ``NuSVR``, ``LinearSVR``, ``LogisticRegression``,
        ``OneClassSVM``, ``SGDClassifier`` or ``SGDRegressor`` of maxmargin or of scikit-learn, scikit-learn's
        ``Lasso`` or ``Ridge``, or our ``DistributedSVC`` or ``DistributedNuSVC``.
    X, y : array-like
        The training data, in the same order as in the fit; a one-class model has no ``y``.
    sample_weight : array-like, optional
        The weights of the fit, if there were any.

    Returns
    -------
    Verdict
        One certificate per binary problem (or target), and the worst of them.

    Notes
    -----
    scikit-learn's ``LinearSVC``, ``LinearSVR``, ``SGDClassifier`` and ``SGDRegressor`` keep no dual variables, and our
    distributed models leave them with the clients. With smooth losses and the L2 penalty they follow from the scores.
    With the others they do not, so the dual bound is computed by `DualCoordinate` or, for an L1 norm, by `Smoothed`,
    which is generous to the model; of hulls, by `Saddle`. That of scikit-learn's ``LogisticRegression`` is computed by
    solving, too: far from the optimum, variables that follow from the scores prove little. Its ``NuSVR`` does not tell
    the width of its tube; the best one is taken.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import maxmargin
    >>> X, y = load_iris(return_X_y=True)
    >>> verdict = maxmargin.certify(SVC().fit(X, y), X, y)
    >>> bool(verdict.relative_gap < 1e-2)
    True

    """
    check_is_fitted(model)
    rows: Matrix | ChunkedMatrix
    if isinstance(X, ChunkedMatrix):
        check_chunks(model, rows := X)
    else:
        rows = QUIETLY(check_array)(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    if is_outlier_detector(model):
        y = np.ones(rows.shape[0])
    elif y is None:
        raise ValueError(f"certify needs the targets y that {type(model).__name__} was fitted on.")
    y = np.asarray(y)
    check_consistent_length(rows, y)
    check_fitted_size(model, rows.shape[0])
    return _judge(model, Samples(rows, y, _check_sample_weight(sample_weight, rows, dtype=np.float64)))


@singledispatch
def _judge(model: Model, data: Samples) -> Verdict:
    raise TypeError(
        f"certify does not know the problem that {type(model).__name__} solves; it judges SVC, NuSVC, "
        f"LinearSVC, SVR, NuSVR, LinearSVR, LogisticRegression, OneClassSVM, SGDClassifier and SGDRegressor of "
        f"maxmargin and of scikit-learn, scikit-learn's Lasso and Ridge, and our DistributedSVC and DistributedNuSVC."
    )


@_judge.register(SVC)
@_judge.register(sklearn.svm.SVC)
def _judge_svc(model: Model, data: Samples) -> Verdict:
    codes = codes_of(model, data)
    if np.isinf(model.C):
        return _judge_hard_margin(model, data, codes)
    s = model.C * np.asarray(model.class_weight_)[codes] * data.weights
    loss, intercept, as_rows = getattr(model, "loss", "hinge"), intercept_of(model, "free"), model.kernel == "linear"
    certificates: list[Certificate] = []
    tasks = binary_tasks(codes, model.classes_, getattr(model, "multi_class", "ovo"), s)
    for task, alpha, b in tasks_with_variables(model, tasks, data.X.shape[0]):
        operator = task_operator(model, data.in_memory, task, as_rows=as_rows)
        problem = hinge_problem(operator, task.y, task.s, loss, intercept)
        w = float_row(model.coef_, len(certificates)) if as_rows else alpha
        certificates.append(judged(model, problem, Point(w, b, certified_dual(model, len(certificates), alpha))))
    power = "" if loss == "hinge" else "^2"
    return _verdict(f"1/2 |f|^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b)){power}", tasks, certificates)


def _judge_hard_margin(model: Model, data: Samples, codes: Array) -> Verdict:
    certificates: list[Certificate] = []
    tasks = binary_tasks(codes, model.classes_, model.multi_class, data.weights)
    for task, alpha, b in tasks_with_variables(model, tasks, data.X.shape[0]):
        operator = task_operator(model, data.in_memory, task, as_rows=model.kernel == "linear")
        problem = hard_margin(operator, task.y, task.s)
        certificates.append(street_certificate_of(model, len(certificates), problem, alpha, b))
    return _verdict("1/2 |f|^2 - 2 rho with y_i (f(x_i) + b) >= rho", tasks, certificates)


@_judge.register(NuSVC)
@_judge.register(sklearn.svm.NuSVC)
def _judge_nu_svc(model: Model, data: Samples) -> Verdict:
    codes = codes_of(model, data)
    s = data.weights.copy()
    if isinstance(model, NuSVC):  # scikit-learn's ignores class weights
        s *= model.class_weight_[codes]
    tasks = binary_tasks(codes, model.classes_, getattr(model, "multi_class", "ovo"), s)
    nus = getattr(model, "nu_", np.full(len(tasks), model.nu))
    certificates: list[Certificate] = []
    for nu, (task, alpha, b) in zip(nus, tasks_with_variables(model, tasks, data.X.shape[0]), strict=True):
        operator = task_operator(model, data.in_memory, task, as_rows=model.kernel == "linear")
        problem = nu_classification(operator, task.y, task.s, nu)
        certificates.append(street_certificate_of(model, len(certificates), problem, alpha, b))
    return _verdict("1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - y_i (f(x_i) + b))", tasks, certificates)


@_judge.register(SVR)
@_judge.register(sklearn.svm.SVR)
def _judge_svr(model: Model, data: Samples) -> Verdict:
    task, alpha, b = only_task(model, data)
    loss, as_rows = getattr(model, "loss", "epsilon_insensitive"), model.kernel == "linear"
    operator = task_operator(model, data.in_memory, task, as_rows=as_rows)
    s, intercept = model.C * data.weights, intercept_of(model, "free")
    problem = tube_problem(operator, task.y, s, loss, model.epsilon, intercept)
    w = float_row(model.coef_, 0) if as_rows else alpha
    power = "" if loss == "epsilon_insensitive" else "^2"
    formula = f"1/2 |f|^2 + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon){power}"
    return _verdict(formula, [task], [judged(model, problem, Point(w, b, certified_dual(model, 0, alpha)))])


@_judge.register(NuSVR)
@_judge.register(sklearn.svm.NuSVR)
def _judge_nu_svr(model: Model, data: Samples) -> Verdict:
    task, alpha, b = only_task(model, data)
    gram, s = training_operator(model, data.in_memory), model.C * data.weights
    qp = nu_regression(gram, task.y, s, model.nu)
    epsilon = getattr(model, "epsilon_", None)
    if epsilon is None:  # scikit-learn's does not tell its tube: the best one
        epsilon = best_tube(np.abs(task.y - gram.apply(alpha) - b), s, model.nu)
    certificate = certificate_at(qp, alpha, np.array([b + epsilon, b - epsilon]), both_sides(qp, alpha), model.tol)
    formula = "1/2 |f|^2 + nu epsilon sum_i C_i + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon)"
    return _verdict(formula, [task], [certificate])


@_judge.register(OneClassSVM)
@_judge.register(sklearn.svm.OneClassSVM)
def _judge_one_class(model: Model, data: Samples) -> Verdict:
    task, alpha, b = only_task(model, data)
    qp = one_class(training_operator(model, data.in_memory), data.weights, model.nu)
    certificate = certificate_at(qp, alpha, np.array([b]), alpha, model.tol)
    return _verdict("1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - f(x_i))", [task], [certificate])


@_judge.register(LinearSVC)
@_judge.register(DistributedSVC)
@_judge.register(sklearn.svm.LinearSVC)
def _judge_linear_svc(model: Model, data: Samples) -> Verdict:
    if model.multi_class == "crammer_singer":
        raise ValueError("certify judges LinearSVC with multi_class='ovr'; 'crammer_singer' is another problem.")
    codes = codes_of(model, data)
    s = model.C * class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights
    if np.isinf(model.C):
        return _judge_streets(model, data, codes, s, lambda k, task, rows: hard_margin(rows, task.y, task.s))
    loss = Hinge() if model.loss == "hinge" else SquaredHinge()
    scale = float(model.intercept_scaling)
    intercept = intercept_of(model, "penalised")
    tasks = binary_tasks(codes, model.classes_, model.multi_class, s)
    certificates = []
    biases = np.broadcast_to(model.intercept_, len(tasks))
    for k, task in enumerate(tasks):
        rows = rows_of(data.X if task.members.size == data.X.shape[0] else data.in_memory[task.members])
        problem = Problem(rows, task.y, loss, penalty_of(model), task.s, intercept, scale)
        point = Point(np.asarray(model.coef_[k], dtype=np.float64), float(biases[k]), kept_dual(model, k, task))
        if point.alpha is None and (model.loss == "hinge" or l1_share(model) > 0.0):
            point = Point(point.w, point.b, dual_bound(problem, point))
        certificates.append(judged(model, problem, point))
    power = "" if model.loss == "hinge" else "^2"
    formula = f"{norm_formula(model)} + sum_i C_i max(0, 1 - y_i (w.x_i + b)){power}{KINDS[intercept]}"
    return _verdict(formula, tasks, certificates)


@_judge.register(DistributedNuSVC)
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
    return _verdict("1/2 |w|^2 - nu S rho + sum_i s_i max(0, rho - y_i (w.x_i + b))", tasks, certificates)


@_judge.register(LinearSVR)
@_judge.register(sklearn.svm.LinearSVR)
def _judge_linear_svr(model: Model, data: Samples) -> Verdict:
    y, s, intercept = data.y.astype(np.float64), model.C * data.weights, intercept_of(model, "penalised")
    task, scale = regression_task(y, s), float(model.intercept_scaling)
    problem = tube_problem(rows_of(data.X), y, s, model.loss, model.epsilon, intercept, scale)
    w, b = np.asarray(model.coef_, dtype=np.float64), float(np.ravel(model.intercept_)[0])
    point = Point(w, b, kept_dual(model, 0, task))
    if point.alpha is None and model.loss == "epsilon_insensitive":
        point = Point(w, b, dual_bound(problem, point))
    power = "" if model.loss == "epsilon_insensitive" else "^2"
    formula = f"1/2 |w|^2 + sum_i C_i max(0, |y_i - w.x_i - b| - epsilon){power}{KINDS[intercept]}"
    return _verdict(formula, [task], [judged(model, problem, point)])


@_judge.register(LogisticRegression)
@_judge.register(sklearn.linear_model.LogisticRegression)
def _judge_logistic_regression(model: Model, data: Samples) -> Verdict:
    """Of two classes, each class against the rest, or all at once."""
    all_at_once = model.classes_.size > 2 and getattr(model, "multi_class", "multinomial") != "ovr"
    if getattr(model, "penalty", "l2") is None or np.isinf(model.C):
        raise ValueError("certify judges LogisticRegression with a penalty and a finite C; this one has no penalty.")
    if all_at_once and l1_share(model) > 0.0:
        raise ValueError(
            f"certify judges LogisticRegression of more than two classes at once with the L2 penalty; this one has "
            f"{model.classes_.size} classes and the penalty {norm_formula(model)}."
        )
    codes = codes_of(model, data)
    s = model.C * class_weights(model.class_weight, model.classes_, codes, data.weights)[codes] * data.weights
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
        tasks = binary_tasks(codes, model.classes_, "ovr", s)
        problems = [logistic_problem(rows, task.y, s, penalty_of(model), intercept, scale) for task in tasks]
        solver = choose(problems[0]).make()
        certificates = [
            smooth_certificate_of(model, k, problems[k], Point(W[k], float(b[k])), solver) for k in range(len(W))
        ]
        formula = f"{norm_formula(model)} + sum_i C_i log(1 + exp(-y_i (w.x_i + b)))"
    return _verdict(formula + KINDS[intercept], tasks, certificates)


@_judge.register(SGDClassifier)
@_judge.register(SGDRegressor)
@_judge.register(sklearn.linear_model.SGDClassifier)
@_judge.register(sklearn.linear_model.SGDRegressor)
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
        tasks = binary_tasks(codes, model.classes_, "ovr", s)
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
    return _verdict(f"sum_i c_i loss(y_i, x_i.w + b) + alpha {size} R(w)", tasks, certificates)


@_judge.register(sklearn.linear_model.Lasso)
def _judge_lasso(model: Model, data: Samples) -> Verdict:
    if model.positive:
        raise ValueError("certify judges Lasso with positive=False; positive=True is another problem.")
    share = data.weights / data.weights.sum()
    penalty = L1(float(model.alpha))
    certificates = [
        judged(model, _least_squares(model, data, y, share, penalty), point) for y, point in targets(model, data)
    ]
    return _named("sum_i s_i (x_i.w + b - y_i)^2 / (2 sum_i s_i) + alpha |w|_1", certificates)


@_judge.register(Ridge)
@_judge.register(RidgeCV)
@_judge.register(LinearRegression)
@_judge.register(sklearn.linear_model.Ridge)
@_judge.register(sklearn.linear_model.RidgeCV)
@_judge.register(sklearn.linear_model.LinearRegression)
def _judge_ridge(model: Model, data: Samples) -> Verdict:
    certificates = [
        _ridge_certificate(model, data, y, 2.0 * data.weights, k, point)
        for k, (y, point) in enumerate(targets(model, data))
    ]
    return _named(RIDGE, certificates)


@_judge.register(RidgeClassifier)
@_judge.register(sklearn.linear_model.RidgeClassifier)
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
    return _verdict(RIDGE, tasks, certificates)


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


@_judge.register(KernelRidge)
@_judge.register(sklearn.kernel_ridge.KernelRidge)
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
    return _named("sum_i s_i (f(x_i) - y_i)^2 + alpha |f|^2", certificates)


def _least_squares(model: Model, data: Samples, y: Float, s: Float, penalty: Penalty) -> Problem:
    return Problem(rows_of(data.X), y, Squared(), penalty, s, "free" if model.fit_intercept else None)


def _verdict(problem: str, tasks: Sequence[Task], certificates: list[Certificate]) -> Verdict:
    return Verdict(problem, tuple(task.name for task in tasks), tuple(certificates))


def _named(problem: str, certificates: list[Certificate]) -> Verdict:
    return Verdict(problem, tuple(f"target {k}" for k in range(len(certificates))), tuple(certificates))
