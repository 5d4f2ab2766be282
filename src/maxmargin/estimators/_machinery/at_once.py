"""Small fits: all tasks as programs in one piece, solved and judged in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery.check import check_intercept
from maxmargin.estimators._machinery.kernels import make_kernel, training_operator
from maxmargin.estimators._machinery.plan import LOOSEST, Plan, Tasks
from maxmargin.estimators._machinery.results import AtOnce
from maxmargin.loop.at_once import MOST_WORK, Found, solve_programs
from maxmargin.loop.classes_at_once import solve_classes
from maxmargin.loop.rows_at_once import solve_rows
from maxmargin.operators import ChunkedMatrix, Gram
from maxmargin.operators.few import are_few
from maxmargin.operators.gram import POSITIVITY_SAMPLES
from maxmargin.operators.rows import dense64
from maxmargin.operators.stored import Rounding, StoredKernel, StoredRows, few_stored, stored_kernel, stored_rows
from maxmargin.parts.kernels import KERNELS
from maxmargin.problems.box_qp import pieces_of
from maxmargin.problems.point import Point
from maxmargin.problems.programs import Programs
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Float, Index, Intercept, Loss
from maxmargin.solvers.choice import small_enough
from maxmargin.solvers.classes.softmax_newton import SoftmaxNewton
from maxmargin.solvers.kernels.block_smo import BlockSMO
from maxmargin.solvers.rows.newton import Newton
from maxmargin.threads import NO_OTHERS

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator
    from maxmargin.estimators._machinery.kernel_machine import KernelMachine
    from maxmargin.estimators._machinery.linear import LinearMachine
    from maxmargin.estimators.logistic_regression import LogisticRegression

EASY_WORK = 6400.0  # entries that block SMO reads for each row: of easy problems, where Newton's steps take longer
MOST_COLUMNS = 128  # of a matrix of second derivatives that plain loops factorise


def is_wanted(estimator: CertifiedEstimator, plan: Plan) -> bool:
    """Whether the table says that the fit is small, and nothing asks for the loop.

    A clock, somebody who listens, a named solver and a point to start from do, and so do chunks and clients.
    """
    return (
        estimator.solver == "auto"
        and estimator.max_time is None
        and estimator.max_iter in (-1, None)
        and not estimator.verbose
        and not getattr(estimator, "warm_start", False)
        and not plan.listeners.listening
        and isinstance(plan.tasks, Tasks)
        and plan.communicator.size == 1
        and not isinstance(plan.X, ChunkedMatrix)
        and small_enough(*plan.X.shape) is not None
    )


def of_loss(tasks: Tasks, loss: Loss, intercept: Intercept) -> Programs:
    """The duals of problems with a piecewise quadratic loss; of two pieces, that of a single task."""
    variables = pieces_of(loss, tasks.y, tasks.s)
    pieces, size = variables.shape[1], tasks.y.size
    q, D, low, high = variables.reshape(4, -1)
    first = tasks.first if pieces == 1 else pieces * tasks.first
    sample = tasks.numbers if pieces == 1 else np.tile(tasks.numbers, pieces)
    group, totals = np.zeros(pieces * size, dtype=np.int64), np.zeros((len(tasks), int(intercept == "free")))
    return Programs(first, tasks.stretches, sample, q, D, low, high, group, totals)


def of_sums(tasks: Tasks, low: Float, high: Float, group: Index, totals: Float) -> Programs:
    """Programs without a linear term, whose variables are those of the samples, with fixed sums."""
    zeros = np.zeros(low.size)
    variables = tasks.numbers, zeros, zeros, low, high, group
    return Programs(tasks.first, tasks.stretches, *variables, totals, of_losses=False)


class Reading(NamedTuple):
    """What the multipliers of the tasks stand for: an intercept, and a width by which functions may be divided."""

    intercepts: Float
    widths: Float
    divided: bool = False


def intercepts_of_losses(estimator: KernelMachine, found: Found) -> Reading:
    """The intercepts of sums of losses: free ones are multipliers, penalised ones sums of the expansions."""
    intercept, n = getattr(estimator, "intercept", "auto"), len(found.gaps)
    if intercept is None:
        return Reading(np.zeros(n), np.ones(n))
    b = found.expansions.sum(axis=1) if intercept == "penalised" else found.multipliers[:, 0]
    return Reading(b, np.ones(n))


def solve_kernel_machine(estimator: KernelMachine, plan: Plan, programs: Programs) -> AtOnce | None:
    """All tasks of a kernel machine, or ``None`` if the call did not get there."""
    began = seconds_working()
    tasks, penalised = plan.tasks, getattr(estimator, "intercept", None) == "penalised"
    assert isinstance(tasks, Tasks)
    d = plan.X.shape[1]
    if estimator.kernel == "linear":
        rows = dense64(plan.X)[tasks.order] if tasks.sorts else dense64(plan.X)
        if penalised:
            rows = with_column(rows, 1.0)
        samples: StoredRows | StoredKernel
        samples, rounding = stored_rows(np.ascontiguousarray(rows))
    else:
        stored = _stored(estimator, plan, float(penalised))  # which holds the owner of the memory of the values too
        if stored is None:
            return None
        d, samples, rounding = 0, stored[0], stored[1]
    width, few = d + penalised if d else 0, EASY_WORK * tasks.y.size if d else MOST_WORK
    tol = min(estimator.tol, LOOSEST)
    found = solve_programs(samples, rounding, programs, tasks.order, tol, width, few)
    if not found.solved:
        if d and estimator._has_form_of_losses:
            return _by_newton(estimator, plan)
        point = _points(estimator, tasks, programs, found, intercepts_of_losses(estimator, found).intercepts, d)
        plan.starts = [point(k) if found.blocks[k] else None for k in range(len(tasks))]
        return None
    results = _read(estimator, tasks, programs, found, d)
    if results is not None:
        results.seconds = seconds_working() - began
    return results


def _by_newton(estimator: KernelMachine, plan: Plan) -> AtOnce | None:
    """All tasks of a machine with a linear kernel, where pairs of variables take too many steps: a large ``C``, say."""
    if plan.X.shape[1] > MOST_COLUMNS:
        return None
    return solve_linear_machine(estimator, plan, estimator._loss(), check_intercept(estimator, "free"), 1.0)


def _stored(estimator: KernelMachine, plan: Plan, shift: float) -> tuple[StoredKernel, Rounding, Gram | None] | None:
    """The kernel values of all samples, in the order in which those of each task are together.

    ``None`` if they may not be those of a positive semi-definite kernel.
    """
    tasks, X, kernel = plan.tasks, plan.X, estimator.kernel
    assert isinstance(tasks, Tasks)
    if kernel in KERNELS and are_few(X, X):
        ours = make_kernel(estimator)
        if ours.traits.positive:
            return *few_stored(ours, np.asarray(X), tasks.order, shift), None
    if tasks.sorts:
        X = X[tasks.order]
        X = X[:, tasks.order] if kernel == "precomputed" else X
    gram = training_operator(estimator, X, NO_OTHERS)
    stored = stored_kernel(gram, shift) if _is_positive(gram) else None
    return None if stored is None else (*stored, gram)


def _is_positive(gram: Gram) -> bool:
    """Whether the kernel is positive semi-definite on these samples, for certain."""
    known = getattr(getattr(gram, "kernel", None), "traits", None)
    return (known is not None and known.positive) or (gram.n_samples <= POSITIVITY_SAMPLES and gram.positive)


def _read(estimator: KernelMachine, tasks: Tasks, programs: Programs, found: Found, d: int) -> AtOnce | None:
    """What the results stand for; ``None`` where a margin vanishes."""
    reading = estimator._reading(found)
    if reading is None:
        return None
    expansions = found.expansions
    if reading.divided:
        expansions = expansions / reading.widths[:, None]
    point = _points(estimator, tasks, programs, found, reading.intercepts, d)
    coefficients = found.features[:, :d] if estimator._has_form_of_losses else np.empty((0, 0))
    functions = expansions, reading.intercepts, reading.widths, coefficients
    return AtOnce(found, functions, point, BlockSMO.name, estimator.tol)


def _points(
    estimator: KernelMachine, tasks: Tasks, programs: Programs, found: Found, intercepts: Float, d: int
) -> Callable[[int], Point]:
    """What makes the point of each task as its own solver would have left it."""
    as_problems, features = estimator._has_form_of_losses, found.features[:, :d]

    def point(k: int) -> Point:
        beta = found.expansions[k, tasks[k].members]
        if as_problems:
            return Point(features[k] if d else beta, float(intercepts[k]), beta)
        a = found.a[programs.first[k] : programs.first[k + 1]]
        a = a[tasks.places(k)] if tasks.sorts else a.copy()
        return Point(beta, float(found.multipliers[k, 0]), a)

    return point


def with_column(X: Float, value: float) -> Float:
    """Rows with one more column, which is constant."""
    n, d = X.shape
    out = np.empty((n, d + 1))
    out[:, :d], out[:, d] = X, value
    return out


def solve_linear_machine(
    estimator: LinearMachine | KernelMachine, plan: Plan, loss: Loss, intercept: Intercept, scale: float
) -> AtOnce | None:
    """All tasks of a linear machine with an L2 penalty, or ``None`` if the call did not get there."""
    began, tasks, d = seconds_working(), plan.tasks, plan.X.shape[1]
    assert isinstance(tasks, Tasks)
    X, free, penalised = dense64(plan.X), intercept == "free", intercept == "penalised"
    X, column = X[tasks.order] if tasks.sorts else X, scale if penalised else 1.0
    if intercept is not None:
        X = with_column(X, column)
    tol = min(float(estimator.tol), LOOSEST)
    found = solve_rows(X, loss, tasks.stretches, tasks.first, tasks.y, tasks.s, tasks.order, free, tol)
    if not found.solved:
        return None
    b = found.multipliers[:, 0] if free else np.zeros(len(tasks))
    if penalised:
        b = column * found.features[:, d]
    features = np.ascontiguousarray(found.features[:, :d])

    def point(k: int) -> Point:
        return Point(features[k], float(b[k]), found.expansions[k, tasks[k].members])

    functions = found.expansions, b, np.ones(len(tasks)), features
    results = AtOnce(found, functions, point, Newton.name, estimator.tol)
    results.seconds = seconds_working() - began
    return results


def solve_all_classes(estimator: LogisticRegression, plan: Plan, problem: SoftmaxProblem) -> AtOnce | None:
    """One problem of several classes, or ``None`` if the call did not get there."""
    began = seconds_working()
    X, ones = dense64(plan.X), np.ones((problem.y.size, 1))
    tol = min(float(estimator.tol), LOOSEST)
    solution = solve_classes(problem, X if problem.intercept is None else np.hstack([X, ones]), tol)
    if solution is None:
        return None
    point, certificate, steps = solution
    values = np.array([[certificate.primal, certificate.dual, certificate.primal_error, certificate.dual_error]])
    gaps, none = np.array([certificate.relative_gap]), np.empty((0, 0))
    found = Found(True, none, none, none, none, values, gaps, np.array([steps]))
    functions = none, np.zeros(1), np.ones(1), point.w[None, :]
    results = AtOnce(found, functions, lambda k: point, SoftmaxNewton.name, estimator.tol)
    results.seconds = seconds_working() - began
    return results
