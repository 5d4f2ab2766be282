"""The loop for logistic regression of few classes on few rows: steps in one compiled call, then the certificate."""

from __future__ import annotations

import numpy as np

from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Float
from maxmargin.solvers.classes.softmax_steps import newton_on_classes

SAFETY, DOUBTED = 0.9, 0.1  # of the wanted gap: the first aim, and each further one that of the last
ATTEMPTS = 3
MOST_STEPS = 60  # of Newton: then something is wrong, and the loop knows more


def solve_classes(problem: SoftmaxProblem, rows: Float, tol: float) -> tuple[Point, Certificate, int] | None:
    """A point within the tolerance, its certificate and the steps it took; ``None`` if they do not get there.

    ``rows`` are those of the problem, with the column of an intercept if there is one.
    """
    theta, ridge, aim, steps = np.zeros(problem.shape), problem.ridge, SAFETY * tol, 0
    for _ in range(ATTEMPTS):
        taken = newton_on_classes(rows, problem.y, problem.s, theta, ridge, aim, MOST_STEPS)
        steps += taken
        if taken == MOST_STEPS:
            return None
        Z = np.dot(rows, theta.T)
        point = Point(theta.ravel(), 0.0, problem.slopes(Z).ravel())
        certificate = problem.certify(point)
        if certificate.relative_gap <= tol:
            return point, certificate, steps
        aim *= DOUBTED
    return None
