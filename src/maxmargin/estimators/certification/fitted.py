"""What a fitted model, ours or scikit-learn's, says about its own solution: classes, intercept, dual variables.

A model that kept no dual variables gets good ones by solving, which is generous to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator as Model
from sklearn.base import is_outlier_detector

from maxmargin.estimators._machinery.check import refuse_chunks
from maxmargin.estimators._machinery.multiclass import by_pair
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.problems import certificate_at, l1_share, limits_of, street_certificate
from maxmargin.loop.certificate import certify_point
from maxmargin.loop.minimize import minimize
from maxmargin.numerics.selection import least
from maxmargin.operators import ChunkedMatrix, Matrix, Rows
from maxmargin.operators.rows import is_sparse
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.classes import ClassesProblem
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Certifiable, Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Intercept
from maxmargin.solvers import DualCoordinate
from maxmargin.solvers.choice import choose
from maxmargin.solvers.recentred import recentred
from maxmargin.solvers.solver import AnySolver

DUAL_BOUND_TOL = 1e-8
DUAL_BOUND_SECONDS = 60.0


@dataclass(frozen=True)
class Samples:
    """What a model was fitted on."""

    X: Matrix | ChunkedMatrix
    y: Array
    weights: Float  # of the samples

    @property
    def in_memory(self) -> Matrix:
        """The rows, of which single ones are needed."""
        return refuse_chunks(self.X, "The certificate of this model", "load the samples")


def targets(model: Model, data: Samples) -> Iterator[tuple[Float, Point]]:
    """Each target with the coefficients that were fitted to it."""
    y = data.y.astype(np.float64).reshape(data.X.shape[0], -1)
    certified = "shrunken_" if hasattr(model, "shrunken_coef_") else ""  # what was certified before it was debiased
    coef = np.asarray(getattr(model, certified + "coef_"), dtype=np.float64).reshape(y.shape[1], -1)
    biases = np.broadcast_to(np.ravel(getattr(model, certified + "intercept_")), y.shape[1])
    for k in range(y.shape[1]):
        yield np.ascontiguousarray(y[:, k]), Point(coef[k], float(biases[k]))


def check_fitted_size(model: Model, n: int) -> None:
    """Refuse samples that cannot be those of the fit, because they are more or fewer."""
    fitted_on = getattr(model, "shape_fit_", None)
    if fitted_on is not None and fitted_on[0] != n:
        raise ValueError(f"certify needs the data that the model was fitted on: {fitted_on[0]} samples, not {n}.")


def judged(model: Model, problem: Certifiable, point: Point) -> Certificate:
    """The certificate of a point, with as many digits as the tolerance of the fit needs."""
    return certify_point(problem, point, float(getattr(model, "tol", math.inf)))


def codes_of(model: Model, data: Samples) -> Array:
    """For every sample the index of its class."""
    codes = np.searchsorted(model.classes_, data.y)
    codes = np.minimum(codes, model.classes_.size - 1)
    unknown = model.classes_[codes] != data.y
    if unknown.any():
        raise ValueError(
            f"y has the label {data.y[unknown].tolist()[0]!r}, which is not one of the model's classes "
            f"{model.classes_.tolist()!r}; pass the labels of the fit."
        )
    return codes


def intercept_of(model: Model, automatic: Intercept) -> Intercept:
    """The kind of intercept of a fitted model; scikit-learn's have no choice."""
    chosen: Intercept | Literal["auto"] = getattr(model, "intercept", "auto")
    if chosen != "auto":
        return chosen
    return automatic if getattr(model, "fit_intercept", True) else None


def norm_formula(model: Model) -> str:
    """The penalty of a linear model, as a formula."""
    r = l1_share(model)
    norm = {0.0: "1/2 |w|^2", 1.0: "|w|_1"}.get(r, f"{r:g} |w|_1 + {1.0 - r:g}/2 |w|^2")
    return norm if limits_of(model, int(np.shape(model.coef_)[-1])) is None else f"{norm} within limits of w"


def tasks_with_variables(model: Model, tasks: Sequence[Task], n: int) -> Iterator[tuple[Task, Float, float]]:
    """Each binary task with its dual variables and intercept, from the layout of ``dual_coef_``."""
    dual_coef = model.dual_coef_.toarray() if is_sparse(model.dual_coef_) else np.asarray(model.dual_coef_)
    if getattr(model, "multi_class", "ovo") == "ovo" and model.classes_.size > 2:
        codes = np.repeat(np.arange(model.classes_.size), model.n_support_)
        dual_coef = by_pair(dual_coef, codes, model.classes_.size)
    for k, task in enumerate(tasks):
        alpha = np.zeros(n)
        alpha[model.support_] = dual_coef[k]
        yield task, alpha[task.members], float(model.intercept_[k])


def only_task(model: Model, data: Samples) -> tuple[Task, Float, float]:
    """The one task of a model without classes, with its dual variables and intercept."""
    n = data.X.shape[0]
    dual_coef = model.dual_coef_.toarray() if is_sparse(model.dual_coef_) else np.asarray(model.dual_coef_)
    alpha = np.zeros(n)
    alpha[model.support_] = dual_coef[0]
    name = "one class" if is_outlier_detector(model) else "regression"
    task = Task(name, np.arange(n), data.y.astype(np.float64), data.weights)
    return task, alpha, float(model.intercept_[0])


def best_tube(errors: Float, s: Float, nu: float) -> float:
    """The ``epsilon`` that minimises ``nu S epsilon + sum_i s_i max(0, errors_i - epsilon)``: a weighted quantile."""
    return -float(least(-errors, s, nu * float(s.sum()))[1])


def float_row(matrix: Matrix, k: int) -> Float:
    """Row ``k`` of a dense or sparse matrix."""
    dense = matrix.toarray() if is_sparse(matrix) else matrix
    return np.asarray(dense[k], dtype=np.float64)


def kept_dual(model: Model, k: int, task: Task) -> Float | None:
    """The dual variables of a linear model, if it kept them."""
    if not hasattr(model, "dual_coef_"):
        return None
    alpha = np.zeros(int(max(model.support_.max(initial=-1), task.members.max(initial=-1))) + 1)
    alpha[model.support_] = model.dual_coef_[k]
    return alpha[task.members]


def certified_dual(model: Model, k: int, expansion: Float) -> Float:
    """The dual variables of problem ``k`` of a kernel machine.

    Ours keep those that were certified, which need not be the coefficients of the function; others have only these.
    """
    alpha = model.solutions_[k].point.alpha if hasattr(model, "solutions_") else None
    return expansion if alpha is None or alpha.size != expansion.size else np.asarray(alpha)


def dual_bound(problem: Problem, point: Point) -> Float:
    """Good dual variables for a problem, found by solving it."""
    slopes = problem.slopes(problem.operator.apply(point.w) + point.b)
    in_memory = isinstance(problem.operator, Rows) and isinstance(problem.penalty, L2)
    solver = DualCoordinate() if in_memory else choose(problem).make()
    return solved_dual(problem, Point(point.w, point.b, slopes), solver)


def solved_dual(problem: Problem | ClassesProblem, start: Point, solver: AnySolver) -> Float:
    """Dual variables of a solution, found by going on from a point."""
    seeing = recentred(solver, problem)
    solution = minimize(problem, seeing, tol=DUAL_BOUND_TOL, max_time=DUAL_BOUND_SECONDS, warm=start)
    assert solution.point.alpha is not None
    return solution.point.alpha


def street_certificate_of(model: Model, k: int, problem: BoxQP | HullDistance, alpha: Float, b: float) -> Certificate:
    """Of a function that was divided by its margin at the end; the sum of its variables tells by how much.

    A function without a margin was not divided. Its multiple zero, whose value is zero, is as good then.
    """
    totals = problem.totals if isinstance(problem, BoxQP) else np.full(2, problem.total)
    rho = float(np.abs(totals).sum() / np.abs(alpha).sum())
    if isinstance(problem, HullDistance):
        found = street_certificate(problem, rho * float_row(model.coef_, k), rho * b, rho, rho * alpha)
    else:
        found = certificate_at(problem, rho * alpha, np.array([rho * b - rho, rho * b + rho]), rho * alpha, model.tol)
    return found if found.primal <= 0.0 else replace(found, primal=0.0, primal_error=0.0)


def smooth_certificate_of(
    model: Model, k: int, problem: Problem | ClassesProblem, point: Point, solver: AnySolver
) -> Certificate:
    """The certificate of problem ``k`` with the dual variables that the model kept, or good ones."""
    alpha = model.solutions_[k].point.alpha if hasattr(model, "solutions_") else None
    size = problem.s.size * (problem.n_classes if isinstance(problem, ClassesProblem) else 1)
    if alpha is None or alpha.size != size:
        alpha = solved_dual(problem, point, solver)
    return judged(model, problem, Point(point.w, point.b, alpha))
