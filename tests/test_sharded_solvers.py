"""Every solver of the registry on rows that are spread over clients: the serial answer, or refused in a sentence."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import referee
import zoo
from clients import case_of, gathered, run
from maxmargin import DistributedSVC, SoftmaxProblem, Status, minimize
from maxmargin.communicators import run_in_process
from maxmargin.operators import Rows, Sharded
from maxmargin.solvers import SOLVERS
from test_solvers import assert_honest

TOL = 1e-6
NAMES = (
    "hinge, rows, weighted",
    "squared hinge, rows, weighted",
    "logistic, rows, weighted",
    "epsilon, rows, weighted",
    "intercept penalised, rows",
    "intercept None, rows, epsilon",
    "CSR, hinge, penalised",
    "one class only, rows",
    "zero weights, rows",
    "more features than samples, rows",
    "points at the origin, hinge, rows",
)
ZOO = {case.name: case for case in zoo.cases()}
SPREAD = [  # sorted by their targets: each client sees one class
    case_of(("hinge", 1.0), "free", n=90),
    case_of(("epsilon", 0.1), "penalised", n=90),
    case_of(("hinge", 1.0), "free", n=90, penalty=("l1", 0.7)),
]
CASES = [*(ZOO[name] for name in NAMES), *SPREAD]
every_solver = pytest.mark.parametrize("name", SOLVERS)
NEW = ("smoothed", "interior_point", "subgradient", "cutting_plane")  # summed over the rows of one client at first


def limit_of(name):
    """Iterations: enough to converge, and few for methods that take too many."""
    return 60 if name in zoo.HONEST_ONLY else 5000


@cache
def serial(name, number):
    return minimize(CASES[number].build(), SOLVERS[name](), tol=TOL, max_iter=limit_of(name))


@every_solver
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case) for case in CASES])
def test_the_answer_is_that_of_one_client_or_a_refusal(name, k, number):
    case, solver = CASES[number], SOLVERS[name]()
    problem = case.build()
    reasons = run(problem, k, lambda own, mine: solver.supports(own))
    assert len(set(reasons)) == 1  # all or none
    if reasons[0] is not None:
        assert solver.supports(problem) is not None or f"spread over {k} clients" in reasons[0]
        return
    solutions = run(problem, k, lambda own, mine: minimize(own, solver, tol=TOL, max_iter=limit_of(name)))
    whole = replace(solutions[0], point=gathered(solutions))
    assert_honest(case.describe(), whole)
    alone = serial(name, number)
    if name == "cocoa":  # another method with each number of clients, and slow on some: both may be right only so far
        distance = whole.certificate.gap + alone.certificate.gap
    else:
        assert whole.status is alone.status
        distance = 2.0 * TOL * max(abs(alone.certificate.primal), abs(alone.certificate.dual))
    assert abs(whole.certificate.primal - alone.certificate.primal) <= distance + 1e-12


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("case", SPREAD[:2], ids=["hinge, free", "epsilon, penalised"])
def test_the_steps_are_those_of_one_client(name, case):
    """Not only the answer: the same iterations, to rounding."""
    problem, solver = case.build(), SOLVERS[name]()
    alone = minimize(problem, solver, tol=1e-14, max_iter=8)
    for k in (2, 3):
        solutions = run(problem, k, lambda own, mine: minimize(own, solver, tol=1e-14, max_iter=8))
        point = gathered(solutions)
        assert solutions[0].iterations == alone.iterations
        np.testing.assert_allclose(point.w, alone.point.w, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(point.alpha, alone.point.alpha, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", NEW)
def test_a_warm_start_is_that_of_all_rows(name):
    case = SPREAD[0]
    problem, solver = case.build(), SOLVERS[name]()
    best = minimize(problem, SOLVERS["newton"](), tol=1e-9).point

    def program(own, mine):
        return minimize(own, solver, tol=TOL, warm=replace(best, alpha=best.alpha[mine]))

    solutions = run(problem, 3, program)
    assert solutions[0].status is Status.CONVERGED
    assert_honest(case.describe(), replace(solutions[0], point=gathered(solutions)))


@pytest.mark.parametrize("name", NEW)
def test_the_estimator_converges_to_the_optimum_of_all_rows(name):
    """`smoothed` called itself converged at 553.490, where the optimum is 553.604; the others broke down."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 10))
    y = np.sign(X @ rng.standard_normal(10) + 2.0 * rng.standard_normal(2000))
    tol = 1e-2 if name == "subgradient" else 1e-6
    model = DistributedSVC("hinge", C=0.7, solver=name, tol=tol, n_clients=2).fit(X, y)
    case = referee.Machine(y, np.full(2000, 0.7), ("hinge", 1.0), ("l2", 1.0), X=X, intercept="penalised", scale=1.0)
    best = minimize(
        zoo.machine("all", X, y, s=0.7, intercept="penalised").build(), SOLVERS["newton"](), tol=1e-9
    ).certificate
    value = referee.primal(case, model.coef_[0], model.intercept_[0])
    assert model.status_ is Status.CONVERGED
    assert model.solutions_[0].certificate.primal == pytest.approx(value, rel=1e-9)
    assert best.dual <= value <= best.primal * (1.0 + 1.01 * tol)


def test_softmax_is_refused_over_clients():
    """Its sums are those of one client."""
    X, y = np.eye(6), np.arange(6) % 3

    def program(communicator, mine):
        rows = Sharded(Rows(X[mine]), communicator)
        return SOLVERS["softmax_newton"]().supports(SoftmaxProblem(rows, y[mine], 3, 1.0, np.ones(3)))

    for reason in run_in_process(program, [slice(0, 3), slice(3, 6)]):
        assert "spread over 2 clients" in reason
