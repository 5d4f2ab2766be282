"""Solvers inside of others and after them, by the protocol alone; and the choices of a pair in SMO."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

import zoo
from maxmargin import SVC, SVR, HullDistance, NuSVC, Problem, Status, minimize
from maxmargin.estimators._machinery.problems import nu_classification
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.kernels import RBF, Linear
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import (
    SMO,
    ActiveSet,
    BlockSMO,
    CuttingPlane,
    Decomposition,
    DualCoordinate,
    KernelCoordinate,
    KernelPegasos,
    Saddle,
    SimplifiedSMO,
    make_solver,
)
from maxmargin.solvers.kernels.smo import SELECTIONS
from maxmargin.solvers.relay import Relay
from test_solvers import assert_honest, optimum

X, LABELS = make_classification(300, 5, n_informative=4, n_redundant=0, flip_y=0.15, random_state=1)
Y = np.where(LABELS > 0, 1.0, -1.0)
NAMES = [
    "hinge, rbf, weighted",
    "squared hinge, rbf, weighted",
    "epsilon, rbf, weighted",
    "intercept penalised, rbf",
    "intercept None, rbf",
    "duplicated rows, opposite label, linear",
    "zero weights, linear",
    "nu-SVC, nu inside",
    "one-class, nu 0.2",
    "epsilon-SVR",
]
CASES = [case for case in zoo.cases() if case.name in NAMES]
some_cases = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
INNER = [ActiveSet(), ActiveSet(changes=1), BlockSMO(), SMO()]


def hinge_problem(C=10.0, kernel=None, intercept="free"):
    return Problem(KernelGram(kernel or RBF(0.3), X), Y, Hinge(), L2(1.0), np.full(Y.size, C), intercept)


def test_the_cases_are_there():
    assert len(CASES) == len(NAMES)


@pytest.mark.parametrize("inner", INNER, ids=["active_set", "one change", "block_smo", "smo"])
@some_cases
def test_any_solver_of_quadratic_programs_solves_the_blocks(case, inner):
    """Item 0-33: "solve by any method". Blocks of eight variables, so that there are many."""
    solution = minimize(case.build(), Decomposition(block_size=8, subsolver=inner, tol=1e-7), tol=1e-7, max_time=20.0)
    assert solution.status is Status.CONVERGED, solution.message
    assert_honest(case.describe(), solution)
    assert solution.certificate.primal == pytest.approx(optimum(case.name), rel=3e-7, abs=1e-9)
    if solution.iterations:
        assert solution.history[-1].counters["inner_iterations"] > 0.0


@pytest.mark.parametrize("inner", [None, *INNER], ids=["pairs", "active_set", "one change", "block_smo", "smo"])
def test_each_block_lowers_the_objective(inner):
    """Items 0-29 and 0-33: strictly, unless the point is optimal; and E0-2, the sign of the linear term of a block."""
    problem, solver = hinge_problem(), Decomposition(block_size=16, subsolver=inner, shrinking=False, tol=1e-9)
    state, values = solver.start(problem, None), []
    for _ in range(40):
        if state.order.violation <= 1e-9:
            break
        state.schedule.tried, state.schedule.patience = state.iterations, 10**9  # blocks only
        state.step()
        a = state.variables()
        values.append(float(state.qp.q @ a - 0.5 * a @ state.qp.scores(a)))
        assert abs(a.sum()) <= 1e-10 * np.abs(a).sum()
    assert len(values) > 5
    assert (np.diff(values) > 0.0).all()


def test_exact_blocks_are_fewer():
    """Where the block's own problem is solved further, no more blocks are needed; all end at the same optimum."""
    found = {}
    for name in (None, "active_set", "block_smo", "smo"):
        options = {"block_size": 32, "subsolver": name}
        model = SVC(C=100.0, gamma=0.3, solver="decomposition", tol=1e-6, solver_options=options).fit(X, Y)
        found[name] = model.n_iter_[0], model.objective_
    blocks, values = zip(*found.values(), strict=True)
    assert max(values) - min(values) <= 2e-6 * max(values)
    assert max(blocks[1:]) <= 1.2 * blocks[0]


def test_names_of_subsolvers_are_checked_before_any_work():
    assert make_solver("decomposition", subsolver="smo") == Decomposition(subsolver=SMO())
    with pytest.raises(ValueError, match="its subsolver 'newton' cannot solve its blocks: it needs the sampl"):
        SVC(solver="decomposition", solver_options={"subsolver": "newton"}).fit(X, Y)
    with pytest.raises(ValueError, match="its subsolver 'smo_simplified' cannot solve its blocks: it needs a classif"):
        SVR(solver="decomposition", solver_options={"subsolver": "smo_simplified"}).fit(X, Y)
    with pytest.raises(ValueError, match="'nonsense' is unknown"):
        SVC(solver="decomposition", solver_options={"subsolver": "nonsense"}).fit(X, Y)
    with pytest.raises(TypeError, match="it needs AnySolver"):
        SVC(solver="decomposition", solver_options={"subsolver": 3}).fit(X, Y)


# The choices of a pair.


@pytest.mark.parametrize("selection", SELECTIONS)
@some_cases
def test_every_choice_of_pairs_leads_to_the_optimum(case, selection):
    """Item 1-14: maximal violating pair, second order, random."""
    for seed, memory in ((0, 200.0), (1, 1e-3)):
        solver = SMO(selection=selection, seed=seed, max_memory=memory)
        solution = minimize(case.build(), solver, tol=1e-6, max_time=20.0)
        assert solution.status is Status.CONVERGED, solution.message
        assert_honest(case.describe(), solution)
        assert solution.certificate.primal == pytest.approx(optimum(case.name), rel=3e-6, abs=1e-9)


def steps_to(gap, solver, problem):
    """Steps until a relative gap, counted a hundred at a time."""
    state, goal = solver.start(problem, None), minimize(problem, ActiveSet(), tol=1e-9).certificate.dual
    while float(state.qp.q @ state.a - 0.5 * state.a @ state.qp.scores(state.a)) < (1.0 - gap) * goal:
        state = solver.advance(problem, state, 100)
    return state.iterations


def test_better_choices_need_fewer_steps():
    """Item 1-14: iteration counts. Second-order information pays where C is large, and random pairs are the worst."""
    problem = hinge_problem(C=100.0)
    steps = {selection: steps_to(1e-4, SMO(selection=selection), problem) for selection in SELECTIONS}
    assert steps["second_order"] < 0.8 * steps["maximal_violation"]
    assert steps["maximal_violation"] < steps["random"]


def test_choices_reach_estimators():
    counts = set()
    for selection in SELECTIONS:
        model = NuSVC(nu=0.3, solver="smo", tol=1e-5, solver_options={"selection": selection}).fit(X, Y)
        assert model.duality_gap_ <= 1e-5
        counts.add(model.n_iter_[0])
    assert len(counts) > 1
    with pytest.raises(ValueError, match="selection='steepest' is unknown; choose one of 'second_order'"):
        SVC(solver="smo", solver_options={"selection": "steepest"}).fit(X, Y)
    one, same, other = (
        SVC(solver="smo", random_state=s, solver_options={"selection": "random"}).fit(X, Y) for s in (1, 1, 2)
    )
    assert one.dual_coef_.tobytes() == same.dual_coef_.tobytes()
    assert one.dual_coef_.tobytes() != other.dual_coef_.tobytes()


# What comes after.


@pytest.mark.parametrize("first", [SMO(), BlockSMO(), Decomposition(), SimplifiedSMO()], ids=lambda s: s.name)
def test_an_exact_method_finishes_for_another_solver_of_kernels(first):
    """Point 7: after some rounds of another solver the relay hands over, and few rounds later the fit is exact."""
    solution = minimize(hinge_problem(), Relay(first, ActiveSet(), patience=1), tol=1e-12)
    assert solution.certificate.gap <= 1e-12 * solution.certificate.primal
    assert solution.solver == "active_set" or solution.solver == first.name == "smo"  # whose first round is long


@pytest.mark.parametrize("first", [KernelCoordinate(), KernelPegasos()], ids=lambda s: s.name)
def test_it_finishes_without_an_intercept_too(first):
    solution = minimize(hinge_problem(intercept=None), Relay(first, ActiveSet(), patience=20), tol=1e-12)
    assert solution.certificate.gap <= 1e-12 * solution.certificate.primal


@pytest.mark.parametrize("first", [DualCoordinate(), CuttingPlane()], ids=lambda s: s.name)
def test_it_finishes_for_families_that_see_rows(first):
    """Their point, with its dual variables, is a start for the same problem through the linear kernel."""
    s, intercept = np.full(Y.size, 1.0), "penalised" if first.name == "dual_coordinate" else None
    rough = minimize(Problem(Rows(X), Y, Hinge(), L2(1.0), s, intercept), first, tol=1e-2)
    problem = hinge_problem(1.0, Linear(), intercept)
    exact = minimize(problem, ActiveSet(), tol=1e-12, warm=rough)
    assert exact.certificate.gap <= max(1e-12 * exact.certificate.primal, exact.certificate.error)
    assert exact.certificate.primal <= rough.certificate.primal + exact.certificate.error
    cold = minimize(problem, ActiveSet(), tol=1e-12)
    assert exact.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-10)


def test_it_finishes_for_the_hulls():
    """Two points of reduced hulls, by Saddle-SVC, are variables of nu-SVM's dual."""
    apart, s = X + 1.5 * Y[:, None], np.ones(Y.size)
    hulls = nu_classification(Rows(apart), Y, s, 0.3)
    assert isinstance(hulls, HullDistance)
    rough = minimize(hulls, Saddle(), tol=1e-2)
    exact = minimize(nu_classification(KernelGram(Linear(), apart), Y, s, 0.3), ActiveSet(), tol=1e-11, warm=rough)
    assert exact.status is Status.CONVERGED
    assert exact.certificate.dual >= rough.certificate.dual - exact.certificate.error
    assert exact.certificate.primal <= rough.certificate.primal + exact.certificate.error
