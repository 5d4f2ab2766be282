"""One solver after another: the second takes over, and the count of both is kept."""

import numpy as np
import pytest

from maxmargin import Problem, Status, minimize
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.kernels import RBF
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import SMO, DualCoordinate, Newton
from maxmargin.solvers.relay import Relay


def unscaled(n=200):
    """Coordinate descent crawls here; Newton does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * np.logspace(0, 4, 5)
    y = np.where(X @ np.logspace(0, -4, 5) + rng.normal(size=n) > 0.0, 1.0, -1.0)
    return Problem(Rows(X), y, Hinge(), L2(1.0), np.ones(n))


def test_the_second_takes_over_where_the_first_is_too_slow():
    alone = minimize(unscaled(), DualCoordinate(), tol=1e-8, max_iter=2_000)
    assert alone.status is Status.MAX_ITER
    solution = minimize(unscaled(), Relay(DualCoordinate(), Newton(), patience=500), tol=1e-8)
    assert solution.status is Status.CONVERGED
    assert solution.solver == "newton"  # the one that finished
    iterations = [record.iterations for record in solution.history]
    passes = [record.counters["passes"] for record in solution.history]
    assert iterations == sorted(iterations)
    assert passes == sorted(passes)
    assert solution.iterations > 500


def test_the_first_alone_if_it_is_done_in_time():
    plain, relay = (minimize(unscaled(), s, tol=1e-8) for s in (Newton(), Relay(Newton(), DualCoordinate())))
    assert relay.iterations == plain.iterations
    assert np.array_equal(relay.point.w, plain.point.w)


@pytest.mark.parametrize("second", [DualCoordinate(), Newton()])
def test_nobody_takes_over_who_does_not_support_the_problem(second):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.sign(rng.normal(size=60))
    problem = Problem(KernelGram(RBF(1.0), X), y, Hinge(), L2(1.0), np.ones(60))
    solution = minimize(problem, Relay(SMO(), second, patience=1), tol=1e-6)
    assert solution.status is Status.CONVERGED
