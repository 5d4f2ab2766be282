"""Judges of least squares with a penalty on groups of coefficients."""

from __future__ import annotations

import numpy as np
import sklearn.linear_model
from sklearn.base import BaseEstimator as Model

from maxmargin.estimators._machinery.grouped import group_problem
from maxmargin.estimators.certification.fitted import Samples, judged
from maxmargin.estimators.certification.verdict import Verdict, judge
from maxmargin.estimators.group_lasso import GroupLasso
from maxmargin.estimators.multi_task_elastic_net import MultiTaskElasticNet
from maxmargin.estimators.multi_task_lasso import MultiTaskLasso
from maxmargin.operators import Columns
from maxmargin.problems.point import Point

FORMULA = "sum_i s_i |Y_i - W x_i - b|^2 / (2 sum_i s_i) + alpha (r sum_g c_g |W_g| + (1 - r)/2 |W|^2)"


@judge.register(GroupLasso)
@judge.register(MultiTaskLasso)
@judge.register(MultiTaskElasticNet)
@judge.register(sklearn.linear_model.MultiTaskLasso)
@judge.register(sklearn.linear_model.MultiTaskElasticNet)
def _judge_groups(model: Model, data: Samples) -> Verdict:
    Y = np.ascontiguousarray(data.y.astype(np.float64).reshape(data.X.shape[0], -1).T)
    W = np.asarray(model.coef_, dtype=np.float64).reshape(len(Y), -1)
    problem = group_problem(model, Columns(data.in_memory), Y, data.weights / data.weights.sum())
    b = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(Y))
    w = np.append(W.ravel(), b) if problem.free_intercept else W.ravel()
    alpha = model.solution_.point.alpha if hasattr(model, "solution_") else None
    if alpha is not None and alpha.size != Y.size:
        alpha = None
    return Verdict(FORMULA, ("all targets",), (judged(model, problem, Point(w, 0.0, alpha)),))
