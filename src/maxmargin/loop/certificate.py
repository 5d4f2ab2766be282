"""The judge: primal value, dual value and gap at a point, recomputed from scratch.

Solvers maintain gradients, scores and coefficients that drift; nothing they maintain is used here.
"""

from __future__ import annotations

import math

from maxmargin.problems.point import Certifiable, Certificate, Point
from maxmargin.problems.precise import certify_precisely
from maxmargin.problems.problem import Problem


class NotANumber(ValueError, FloatingPointError):
    """A point whose values cannot be computed, because its coefficients overflowed."""


def certify_point(problem: Certifiable, point: Point, tol: float = math.inf) -> Certificate:
    """Judge a point of a problem: once more with twice the digits if only rounding seems to miss the tolerance.

    Raises
    ------
    NotANumber
        If a value is NaN: a point with non-finite coefficients has no certificate.

    """
    certificate = _a_number(problem.certify(point))
    if not certificate.blurred(tol) or problem.conclusion(certificate) is not None:
        return certificate
    precise = certify_precisely(problem, point)
    better = precise is not None and precise.error < certificate.error and precise.relative_gap < math.inf
    return _a_number(precise) if precise is not None and better else certificate


def complete(problem: Certifiable, point: Point, tol: float = math.inf) -> tuple[Point, Certificate]:
    """A point and its judgement, with the dual variables that the slopes at its coefficients suggest if it has none.

    As `certify_point`, with one product less than if such dual variables were found first.
    """
    if point.alpha is not None or not isinstance(problem, Problem) or problem.kernelised:
        return point, certify_point(problem, point, tol)
    point, certificate = problem.completed(point)
    return point, certify_point(problem, point, tol) if certificate.blurred(tol) else _a_number(certificate)


def _a_number(certificate: Certificate) -> Certificate:
    if certificate.primal != certificate.primal or certificate.dual != certificate.dual:
        raise NotANumber(
            "The primal or dual value is not a number: the coefficients overflowed. Scale the columns of X to a "
            "common range, or lower C."
        )
    return certificate
