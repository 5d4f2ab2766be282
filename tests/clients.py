"""Problems spread over clients in threads, for tests of what distributed solvers do."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

import zoo
from maxmargin.communicators import run_in_process
from maxmargin.operators import Rows, Sharded
from maxmargin.problems.point import Point


def stretches(n, k):
    """Consecutive rows for each of ``k`` clients; the last but one has very few, or none."""
    bounds = np.linspace(0, n, k + 1).astype(int)
    if k > 2:
        bounds[-2] = bounds[-3] + (k == 3)
    return [slice(a, b) for a, b in pairwise(bounds)]


def spread(problem, mine, communicator):
    """What one client sees of a problem."""
    operator = Sharded(Rows(problem.operator.matrix[mine]), communicator)
    return replace(problem, operator=operator, y=problem.y[mine], s=problem.s[mine])


def run(problem, k, program):
    """``program(problem of the client, its rows)`` for each of ``k`` clients."""
    return run_in_process(
        lambda communicator, mine: program(spread(problem, mine, communicator), mine),
        stretches(problem.y.size, k),
    )


def gathered(solutions):
    """The point of all clients, who agree about everything but their own dual variables."""
    first = solutions[0].point
    for other in solutions[1:]:
        assert np.array_equal(first.w, other.point.w)
        assert first.b == other.point.b
        assert solutions[0].certificate == other.certificate
        assert solutions[0].status is other.status
    return Point(first.w, first.b, np.concatenate([solution.point.alpha for solution in solutions]))


def case_of(loss, intercept, n=400, d=5, by_label=True, seed=0, scales=(3.0, 1.0, 1.0, 0.3, 0.1), **options):
    """A noisy problem with weights of which some are zero, sorted by its targets so that clients see one class each."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * scales[:d]
    y = X @ rng.standard_normal(d) + rng.standard_normal(n) + 0.3
    y = y if loss[0] == "epsilon" else np.sign(y)
    s = rng.uniform(0.1, 2.0, size=n) * (rng.random(n) < 0.9)
    order = np.argsort(y, kind="stable") if by_label else np.arange(n)
    options = {"scale": 2.0, "penalty": ("l2", 0.7), **options}
    return zoo.machine("spread", X[order], y[order], loss=loss, s=s[order], intercept=intercept, **options)
