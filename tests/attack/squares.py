"""The minimum of squared errors without a penalty, as rational numbers: normal equations, solved exactly."""

from exact import RowSpace, arb
from flint import fmpq, fmpq_mat

MOST_COLUMNS = 12


def applies(problem):
    """Whether there is neither a penalty nor a limit but the reach, and little to solve."""
    loss, penalty = getattr(problem, "loss", (None,)), getattr(problem, "penalty", (None,))
    return (
        loss[0] == "squared"
        and penalty[0] == "none"
        and isinstance(problem.space, RowSpace)
        and problem.space.X.shape[1] <= MOST_COLUMNS
    )


def minimum(problem):
    """One of the best functions and its intercept: coefficients that could be anything are zero."""
    rows = [[_rational(v) for v in row] for row in problem.space.X.tolist()]
    if problem.intercept == "free":
        rows = [[*row, fmpq(1)] for row in rows]
    s, y, d = [_of_ball(v) for v in problem.s], [_of_ball(v) for v in problem.y], len(rows[0])
    table = [[fmpq(0)] * (d + 1) for _ in range(d)]
    for row, weight, target in zip(rows, s, y, strict=True):
        for j in range(d):
            part = weight * row[j]
            for k in range(d):
                table[j][k] += part * row[k]
            table[j][d] += part * target
    solved, rank = fmpq_mat(table).rref()
    w = [arb(0)] * d
    for i in range(rank):
        pivot = next(j for j in range(d) if solved[i, j] != 0)
        w[pivot] = arb(solved[i, d])
    b = w.pop() if problem.intercept == "free" else arb(0)
    return problem.space.coefficients(w), b


def _rational(x):
    return fmpq(*float(x).as_integer_ratio())


def _of_ball(x):
    """The middle of a ball."""
    mantissa, exponent = x.mid().man_exp()
    exponent = int(exponent)
    return fmpq(mantissa) * (fmpq(2) ** exponent)
