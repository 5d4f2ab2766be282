"""The judge of sparse selectors: the model behind the features that they keep."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator as Model

from maxmargin.estimators.certification.fitted import Samples, judged
from maxmargin.estimators.certification.verdict import Verdict, judge, verdict_of
from maxmargin.estimators.sparse_selector import SparseSelector, problem_of_selector, tasks_of_selector
from maxmargin.operators import rows_of
from maxmargin.problems.point import Point


@judge.register(SparseSelector)
def _judge_selector(model: Model, data: Samples) -> Verdict:
    """With the dual variables that the fit kept."""
    assert isinstance(model, SparseSelector)
    tasks, rows = tasks_of_selector(model, data.y, data.weights / data.weights.sum()), rows_of(data.X)
    W, b = np.atleast_2d(model.coef_).astype(np.float64), np.broadcast_to(model.intercept_, len(tasks))
    certificates = []
    for k, task in enumerate(tasks):
        problem = problem_of_selector(model, rows, task, float(model.alpha_))
        point = Point(np.ascontiguousarray(W[k]), float(b[k]), model.solutions_[k].point.alpha)
        certificates.append(judged(model, problem, point))
    formula = "sum_i s_i loss(y_i, x_i.w + b) / sum_i s_i + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2)"
    return verdict_of(formula, tasks, certificates)
