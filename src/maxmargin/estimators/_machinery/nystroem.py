"""Kernel machines whose functions are combinations of a few columns of the kernel, judged among all functions.

Columns of a factor of low rank are features: a linear problem over them is the problem of the kernel among the
functions of the pivots alone, norm included. So its primal value is exact, and any dual variables, taken with the whole
kernel, bound the optimum among all functions. Nothing is approximated in the certificate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.estimators._machinery.kernels import members_of, training_operator
from maxmargin.estimators._machinery.plan import Function, Task
from maxmargin.loop.certificate import certify_point
from maxmargin.loop.solution import Solution
from maxmargin.operators import Gram, Rows
from maxmargin.operators.low_rank import LowRank, low_rank
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.problems.problem import Problem

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.kernel_machine import KernelMachine
    from maxmargin.operators import Matrix
    from maxmargin.threads import Workers

MEGABYTE = 2.0**20
WORTH = 0.02  # of the gap: shorter dual variables that gain less are not worth another product with the kernel matrix


class FactorRows(Rows):
    """The rows of a factor of the kernel matrix as features, and what they stand for."""

    def __init__(self, gram: Gram, found: LowRank, workers: Workers) -> None:
        super().__init__(found.G, workers)
        self.gram, self.found = gram, found


class NystroemView:
    """Samples as rows of a factor of their kernel matrix."""

    def __init__(self, estimator: KernelMachine, X: Matrix, workers: Workers) -> None:
        self.estimator, self.X, self.workers = estimator, X, workers

    def of(self, task: Task) -> FactorRows:
        """The samples of a task; float32 where float64 would take more than half of what may be used."""
        gram = training_operator(self.estimator, members_of(self.estimator, self.X, task), self.workers)
        if not gram.positive:
            raise ValueError(
                f"approximation={self.estimator.approximation!r} needs a kernel matrix that is positive semi-definite, "
                f"but {gram.flaw}; use another kernel, such as 'rbf'."
            )
        rank, limit = min(self.estimator.rank, gram.n_samples), 0.5 * self.estimator.cache_size
        large = 8.0 * rank * gram.n_samples / MEGABYTE > limit
        found = low_rank(gram, rank, np.float32 if large else np.float64, self.estimator._seed())
        return FactorRows(gram, found, self.workers)


def check_approximation(estimator: KernelMachine, n: int) -> None:
    """Refuse what an approximation cannot be combined with, and ranks that samples or memory do not allow."""
    rank, needed = estimator.rank, 4.0 * estimator.rank * n / MEGABYTE
    excluded = {
        "kernel='linear', which has features of its own": estimator.kernel == "linear",
        "C=inf, the hard margin": np.isinf(getattr(estimator, "C", 1.0)),
        "probability=True; calibrate the fitted model on other samples": getattr(estimator, "probability", False),
        "warm_start=True: each fit draws its own functions": getattr(estimator, "warm_start", False),
    }
    for what, given in excluded.items():
        if given:
            raise ValueError(f"approximation={estimator.approximation!r} cannot be combined with {what}.")
    if rank > n:
        raise ValueError(
            f"rank={rank} is more than the {n} samples, whose functions are all that matter; lower rank, or leave out "
            "approximation."
        )
    if needed > estimator.cache_size:
        raise ValueError(
            f"The factor of rank {rank} for {n} samples needs {needed:.0f} megabytes, and cache_size is "
            f"{estimator.cache_size:g}; raise it, or lower rank."
        )


def function_of(rows: FactorRows, point: Point) -> Function:
    """The function of coefficients of the factor's columns, as an expansion over the pivots."""
    w = np.zeros(rows.n_samples)
    w[rows.found.pivots] = rows.found.expansion(point.w)
    return Function(w, point.b, w)


def among_all(problem: Problem, solution: Solution) -> Solution:
    """A solution over the columns of a factor as one of the problem of the whole kernel, with its certificate there."""
    rows = problem.operator
    assert isinstance(rows, FactorRows)
    of_kernel, function = replace(problem, operator=rows.gram), function_of(rows, solution.point)
    alpha = np.zeros(rows.n_samples) if solution.point.alpha is None else solution.point.alpha
    point, certificate = _shortened(of_kernel, Point(function.w, function.b, of_kernel.feasible(alpha)))
    status = solution.status
    if status is Status.CONVERGED and certificate.relative_gap > solution.tol:
        status = Status.LOW_RANK
    return replace(solution, point=point, last=point, certificate=certificate, status=status)


def _shortened(problem: Problem, point: Point) -> tuple[Point, Certificate]:
    """The certificate, with shorter dual variables if these are better.

    What the factor does not see makes the dual value fall with the square of their length.
    """
    assert point.alpha is not None
    certificate = certify_point(problem, point)
    given = -problem.conjugates(point.alpha)
    spent = 2.0 * (given - certificate.dual)  # alpha^T K alpha / lam
    share = min(1.0, max(0.0, given / spent)) if 0.0 < spent < np.inf else 1.0
    if not 0.5 * spent * (1.0 - share) ** 2 > WORTH * certificate.gap:
        return point, certificate
    shorter = replace(point, alpha=share * np.asarray(point.alpha, dtype=np.float64))
    again = certify_point(problem, shorter)
    return (shorter, again) if again.relative_gap < certificate.relative_gap else (point, certificate)
