"""The minimum of a logistic machine over rows with an L2 penalty: Newton's method in 300 digits."""

import time

from exact import RowSpace, arb, arb_mat, column, entries, square, total

MOST_FEATURES = 15
DONE = arb("1e-50")


def applies(problem):
    loss, penalty = getattr(problem, "loss", (None,)), getattr(problem, "penalty", (None,))
    space = getattr(problem, "space", None)
    return (
        loss[0] == "logistic"
        and getattr(problem, "limits", None) is None
        and penalty[0] == "l2"
        and isinstance(space, RowSpace)
        and space.A.ncols() <= MOST_FEATURES
    )


def minimum(problem, w, b, seconds):
    """Coefficients and intercept, from a start."""
    deadline, column_of_ones = time.perf_counter() + seconds, problem.intercept is not None
    rows = [row + [arb(1)] * column_of_ones for row in problem.space.A.tolist()]
    lam = problem.penalty[1]
    ridge = [lam] * len(w)
    if column_of_ones:
        ridge.append(lam / square(problem.scale) if problem.intercept == "penalised" else arb(0))
    theta = [arb(v).mid() for v in w] + [arb(b).mid()] * column_of_ones
    value = _value(problem, theta, len(w))
    while time.perf_counter() < deadline:
        gradient, H = _derivatives(problem, rows, ridge, theta)
        try:
            step = [v.mid() for v in entries(H.solve(column(gradient)))]
        except ZeroDivisionError:
            break
        if abs(total([u * v for u, v in zip(step, gradient, strict=True)])) < DONE * value:
            break
        size = arb(1)
        for _ in range(200):
            trial = [(u - size * v).mid() for u, v in zip(theta, step, strict=True)]
            if (lower := _value(problem, trial, len(w))) < value:
                theta, value = trial, lower
                break
            size /= 2
        else:
            break
    return theta[: len(w)], theta[-1] if column_of_ones else arb(0)


def _value(problem, theta, d):
    f = problem.space.coefficients(theta[:d])
    return problem.primal(f, theta[d] if len(theta) > d else arb(0)).mid()


def _derivatives(problem, rows, ridge, theta):
    """Gradient, and the matrix of second derivatives."""
    A = arb_mat(rows)
    z, g, h = entries(A * column(theta)), [], []
    for v, y, s in zip(z, problem.y, problem.s, strict=True):
        p = 1 / (1 + (y * v).exp())
        g.append(-s * y * p)
        h.append(s * p * (1 - p))
    gradient = entries(A.transpose() * column(g))
    weighted = arb_mat([[h[i] * x for x in row] for i, row in enumerate(rows)])
    H = A.transpose() * weighted
    for j, r in enumerate(ridge):
        H[j, j] = H[j, j] + r
        gradient[j] = (gradient[j] + r * theta[j]).mid()
    return gradient, H.mid()
