"""Every solver of the registry on every problem of the zoo: certified by the referee, or refused in a sentence."""

import math
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

import referee
import zoo
from maxmargin import BoxQP, GroupProblem, HullDistance, Point, Problem, Status, minimize
from maxmargin.operators import Columns, KernelGram, Rows
from maxmargin.parts.losses import Hinge, Logistic, Squared, SquaredHinge
from maxmargin.parts.penalties import L1, L2
from maxmargin.solvers import SMO, SOLVERS, Decomposition, DualCoordinate, make_solver

TOL = 1e-6
CASES = {case.name: case for case in zoo.cases()}
every_solver = pytest.mark.parametrize("solver", [cls() for cls in SOLVERS.values()], ids=SOLVERS)
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)

# A few of the zoo for what is slower or costs a second fit.
SOME = [
    "hinge, rows, weighted",
    "squared hinge, rows, weighted",
    "logistic, rows, weighted",
    "intercept penalised, rows",
    "intercept None, rows",
    "duplicated rows, opposite label, rows",
    "weights 1:1000, rows",
    "zero weights, rows",
    "hinge, rbf, weighted",
    "epsilon, rbf, weighted",
    "intercept penalised, rbf",
    "intercept None, rbf",
    "duplicated rows, opposite label, linear",
    "nu-SVC, nu inside",
    "one-class, nu 0.2",
    "epsilon-SVR",
    "hulls, separable",
    "hulls, overlapping",
    "hulls, reduced, separable by their caps",
    "hulls, duplicated rows, reduced",
    "hulls, uneven caps, total 2",
    "softmax, intercept free, weighted",
    "softmax, intercept penalised, weighted",
    "softmax, intercept None, weighted",
    "softmax, intercept free, zero weights",
    "softmax, a class of one sample",
    "crammer-singer, intercept free, weighted",
    "crammer-singer, intercept penalised, weighted",
    "crammer-singer, intercept None, zero weights",
    "groups, intercept free, weighted",
    "groups, no intercept, several targets",
    "groups, wide",
]
some_cases = pytest.mark.parametrize("case", [CASES[name] for name in SOME], ids=SOME)


@cache
def optimum(name):
    return referee.reference_optimum(CASES[name].describe())


def verdict_on(description, point):
    """What the referee says about a point, and how much of it may be rounding."""
    alpha = referee.repaired(description, point.alpha)
    verdict = referee.judge(description, point.w, point.b, alpha)
    return verdict, referee.rounding(description, point.w, point.b, alpha)


def assert_honest(description, solution, convex=True):
    """The certificate is the referee's, and the status is what it allows."""
    certificate = solution.certificate
    verdict, slack = verdict_on(description, solution.point)
    scale = max(abs(verdict.primal), abs(verdict.dual))
    assert certificate.primal == pytest.approx(verdict.primal, rel=0, abs=1e-10 * scale + slack)
    if not convex:  # no weak duality: nothing bounds the optimum from below
        assert certificate.dual == -math.inf
        assert solution.status is not Status.CONVERGED
        return
    assert certificate.dual == pytest.approx(verdict.dual, rel=0, abs=1e-10 * scale + slack)
    assert verdict.infeasibility <= 1e-12 * (1.0 + np.abs(solution.point.alpha).sum())
    if done(solution):
        assert abs(verdict.gap) <= solution.tol * scale + slack
    else:
        assert verdict.gap + certificate.error > solution.tol * scale - slack


def done(solution):
    """Whether the fit ended with a proof: of the gap, or of a common point of two hulls, which is one of no gap."""
    if solution.status is Status.NOT_SEPARABLE:
        assert solution.certificate.primal == solution.certificate.dual == 0.0
        return True
    return solution.status is Status.CONVERGED


def lost_in_rounding(solution):
    """Whether the gap is small enough, and only the bound on rounding, nearly so, is in the way: losses times 1e6."""
    certificate = solution.certificate
    scale = max(abs(certificate.primal), abs(certificate.dual))
    small = abs(certificate.gap) <= solution.tol * scale and certificate.error <= 2.0 * solution.tol * scale
    return solution.status is Status.STALLED and small


@every_solver
@every_case
def test_zoo(solver, case):
    problem, description = case.build(), case.describe()
    reason = solver.supports(problem)
    if reason is not None:
        with pytest.raises(ValueError, match="cannot solve this problem") as refused:
            minimize(problem, solver)
        assert str(refused.value) == f"solver={solver.name!r} cannot solve this problem: {reason}."
        return
    hard = solver.name in case.hard_for + zoo.HONEST_ONLY
    minimize(problem, solver, max_iter=1)  # compiles
    limit = zoo.AT_MOST.get(solver.name)
    solution = minimize(problem, solver, tol=TOL, max_time=0.5 if hard else 10.0, max_iter=limit)
    assert_honest(description, solution, case.convex)
    if not hard:
        assert done(solution) or lost_in_rounding(solution), solution.message
    if case.convex:
        value = optimum(case.name)
        certificate = solution.certificate
        # On the ill-conditioned cases the reference itself is off by more.
        accuracy = (1e-6 if hard or case.hard_for else 1e-7) * max(abs(value), abs(certificate.primal)) + 1e-9
        assert certificate.dual - accuracy <= value <= certificate.primal + accuracy


OWN = [
    name for name in CASES if name.startswith(("hulls, ", "softmax, ", "crammer-singer, ", "groups, "))
]  # problems with certificates of their own


def sizes_of(problem):
    """How many coefficients, with intercepts, and how many dual variables a point of a problem has."""
    if isinstance(problem, HullDistance):
        return problem.operator.n_features, problem.y.size
    if isinstance(problem, GroupProblem):
        return problem.n_targets * (problem.operator.n_features + problem.free_intercept), problem.Y.size
    return math.prod(problem.shape), problem.n_classes * problem.y.size


@pytest.mark.parametrize("name", OWN)
def test_any_point_is_judged_as_by_the_referee(name):
    """Whatever a solver might come up with: zero, noise, shares that are not allowed."""
    problem, description = CASES[name].build(), CASES[name].describe()
    rng = np.random.default_rng(0)
    width, size = sizes_of(problem)
    for w_scale, alpha_scale in ((0.0, 0.0), (1.0, 0.1), (1.0, 1.0), (0.1, 30.0)):
        point = Point(w_scale * rng.normal(size=width), 0.0, alpha_scale * rng.normal(size=size))
        verdict, slack = verdict_on(description, point)
        certificate = problem.certify(point)
        scale = max(abs(verdict.primal), abs(verdict.dual))
        assert certificate.primal == pytest.approx(verdict.primal, rel=0, abs=1e-12 * scale + slack)
        assert certificate.dual == pytest.approx(verdict.dual, rel=0, abs=1e-12 * scale + slack)
        assert verdict.infeasibility <= 1e-13 * (1.0 + np.abs(point.alpha).sum())
        assert verdict.dual <= verdict.primal + slack
        value = optimum(name)
        assert certificate.dual - slack <= value + 1e-7 * abs(value) + 1e-9
        assert certificate.primal + slack >= value - 1e-7 * abs(value) - 1e-9


@every_case
def test_some_solver_supports_every_problem(case):
    problem = case.build()
    assert any(cls().supports(problem) is None for cls in SOLVERS.values())


def solvers_of(problem):
    found = [cls() for cls in SOLVERS.values() if cls().supports(problem) is None]
    assert found
    return found


def reliable_solvers_of(problem):
    return [solver for solver in solvers_of(problem) if solver.name not in zoo.HONEST_ONLY]


@some_cases
def test_warm_start_from_the_solution_is_at_once_done(case):
    problem = case.build()
    for solver in reliable_solvers_of(problem):
        cold = minimize(problem, solver, tol=1e-7, max_time=20.0)
        assert done(cold)
        for warm in (cold, cold.point):
            again = minimize(problem, solver, tol=TOL, warm=warm, max_time=20.0)
            assert done(again)
            assert again.iterations <= cold.iterations
            assert len(again.history) <= len(cold.history)
            assert again.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-6)
            assert_honest(case.describe(), again)


@some_cases
def test_an_unfinished_fit_can_be_resumed(case):
    problem = case.build()
    for solver in reliable_solvers_of(problem):
        part = minimize(problem, solver, tol=1e-12, max_iter=1)
        assert_honest(case.describe(), part)
        whole = minimize(problem, solver, tol=TOL, warm=part, max_time=20.0)
        assert done(whole)
        assert_honest(case.describe(), whole)


def test_warm_start_crosses_from_rows_to_a_kernel_and_back():
    X, y = zoo.blobs(40, 3, seed=0, apart=0.5)
    s = np.ones(40)
    rows = Problem(Rows(X), y, Hinge(), L2(0.5), s)
    kernel = Problem(KernelGram(zoo.KERNELS["linear"][0], X), y, Hinge(), L2(0.5), s)
    first = minimize(rows, DualCoordinate(), tol=1e-9)
    second = minimize(kernel, SMO(), tol=TOL, warm=first)
    assert (second.status, second.iterations) == (Status.CONVERGED, 0)
    third = minimize(rows, DualCoordinate(), tol=TOL, warm=second)
    assert (third.status, third.iterations) == (Status.CONVERGED, 0)


def same_bits(first, second):
    return (
        first.point.w.tobytes() == second.point.w.tobytes()
        and first.point.alpha.tobytes() == second.point.alpha.tobytes()
        and first.point.b == second.point.b
        and first.certificate == second.certificate
        and first.iterations == second.iterations
        and [r.primal for r in first.history] == [r.primal for r in second.history]
    )


@some_cases
def test_equal_fits_give_equal_bits(case):
    for solver in solvers_of(case.build()):
        first, second = (minimize(case.build(), solver, tol=1e-9, max_iter=2000) for _ in range(2))
        assert same_bits(first, second)


@some_cases
def test_every_option_leads_to_the_same_optimum(case):
    """Shrinking and the seed change the path, not the optimum."""
    problem = case.build()
    for solver in reliable_solvers_of(problem):
        known = {field.name for field in fields(solver)}
        variants = [replace(solver, shrinking=False)] if "shrinking" in known else []
        variants += [replace(solver, seed=7)] if "seed" in known else []
        variants += [replace(solver, max_memory=1e-3)] if "max_memory" in known else []
        for variant in variants:
            if "stores the whole kernel matrix" in (variant.supports(problem) or ""):
                continue  # which is refused before any work is spent
            solution = minimize(problem, variant, tol=1e-7, max_time=20.0)
            assert done(solution)
            assert_honest(case.describe(), solution)
            assert solution.certificate.primal == pytest.approx(optimum(case.name), rel=3e-7, abs=1e-9)


def test_the_seed_changes_the_path():
    problem = CASES["hinge, rows, weighted"].build()
    first, second = (minimize(problem, DualCoordinate(seed=seed), tol=1e-12, max_iter=2) for seed in (0, 1))
    assert first.point.alpha.tobytes() != second.point.alpha.tobytes()


def test_shrinking_is_used_and_undone():
    X, y = zoo.blobs(600, 2, seed=1, apart=1.0)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.full(600, 10.0))
    solution = minimize(problem, SMO(), tol=1e-9)
    plain = minimize(problem, SMO(shrinking=False), tol=1e-9)
    assert solution.status is plain.status is Status.CONVERGED
    assert solution.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-9)
    state, active = SMO().start(problem, None), []
    for _ in range(40):
        state = SMO().advance(problem, state, 50)
        active.append(state.counters["active"])
    assert min(active) < 600


@pytest.mark.parametrize("name", SOLVERS)
def test_to_ask_for_a_point_changes_nothing_that_follows(name):
    solver = SOLVERS[name]()
    problem = next(problem for case in CASES.values() if solver.supports(problem := case.build()) is None)
    asked, silent = (solver.start(problem, None) for _ in range(2))
    for _ in range(2):
        asked, silent = (solver.advance(problem, state, 3) for state in (asked, silent))
        first, second = solver.point(problem, asked), solver.point(problem, asked)
        assert first.w.tobytes() == second.w.tobytes()
    last, expected = solver.point(problem, asked), solver.point(problem, silent)
    assert (last.w.tobytes(), last.b, asked.iterations) == (expected.w.tobytes(), expected.b, silent.iterations)
    assert (last.alpha is None) == (expected.alpha is None)
    assert last.alpha is None or last.alpha.tobytes() == expected.alpha.tobytes()


@pytest.mark.parametrize("solver", [SMO(), Decomposition(block_size=64)], ids=["smo", "decomposition"])
def test_the_point_of_a_kernel_solver_leaves_its_state_as_it_is(solver):
    """Also where samples are left out, whose scores are not up to date."""
    X, y = zoo.blobs(600, 2, seed=1, apart=1.0)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.full(600, 10.0))
    state = solver.start(problem, None)
    while state.counters["active"] == 600:
        state = solver.advance(problem, state, 1)

    def picture():
        arrays = {key: value.tobytes() for key, value in vars(state).items() if isinstance(value, np.ndarray)}
        return arrays, state.counters["active"], state.estimate, state.iterations

    before = picture()
    first, second = solver.point(problem, state), solver.point(problem, state)
    assert picture() == before
    assert first.alpha.tobytes() == second.alpha.tobytes()
    assert first.b == second.b


def test_smo_with_a_cache_that_is_too_small():
    X, y = zoo.blobs(120, 2, seed=2, apart=0.5)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.ones(120))
    small, large = minimize(problem, SMO(max_memory=0.0)), minimize(problem, SMO())
    assert small.status is large.status is Status.CONVERGED
    assert small.certificate.primal == pytest.approx(large.certificate.primal, rel=2e-6)
    evaluations = [s.history[-1].counters["kernel_evaluations"] for s in (small, large)]
    assert evaluations[0] > evaluations[1]
    assert evaluations[1] <= 120**2


def test_iterations_are_those_that_were_made():
    """Without shrinking one epoch is one pass over the data, and a fit of a tiny problem ends after a few."""
    problem = CASES["overlapping, rows"].build()
    solution = minimize(problem, DualCoordinate(shrinking=False), tol=TOL)
    assert solution.status is Status.CONVERGED
    assert solution.iterations <= solution.history[-1].counters["passes"] + 1.0


@pytest.mark.parametrize("limit", [1, 2, 7, 50])
def test_max_iter_is_exact(limit):
    for name in (
        "hinge, rows, weighted",
        "hinge, rbf, weighted",
        "epsilon-SVR",
        "hulls, separable",
        "softmax, intercept free, weighted",
        "crammer-singer, intercept free, weighted",
    ):
        problem = CASES[name].build()
        for solver in solvers_of(problem):
            solution = minimize(problem, solver, tol=1e-14, max_iter=limit)
            if solution.status is Status.MAX_ITER:
                assert solution.iterations == limit
            assert solution.iterations <= limit
            assert_honest(CASES[name].describe(), solution)


# ---- refusals and the registry ---------------------------------------------------------------------------------------


def refused_problems():
    X, y = zoo.blobs(6, 2, seed=3)
    s = np.ones(6)
    gram = KernelGram(zoo.KERNELS["rbf"][0], X)
    yield "dual_coordinate", Problem(Rows(X), y, Hinge(), L1(1.0), s), "L2 penalty; this problem has L1"
    yield "dual_coordinate", Problem(gram, y, Hinge(), L2(1.0), s), "rows"
    yield "dual_coordinate", Problem(Columns(X), y, Hinge(), L2(1.0), s), "rows"
    yield "dual_coordinate", BoxQP.of(Problem(gram, y, Hinge(), L2(1.0), s)), "rows"
    yield "smo", Problem(Rows(X), y, SquaredHinge(), L2(1.0), s), "kernel matrix"
    yield "smo", Problem(gram, y, Logistic(), L2(1.0), s), "Logistic"


@pytest.mark.parametrize("which", range(6))
def test_a_refusal_is_a_sentence(which):
    name, problem, fragment = list(refused_problems())[which]
    solver = make_solver(name)
    assert fragment in solver.supports(problem)
    with pytest.raises(ValueError, match=fragment):
        minimize(problem, solver)


def test_registry_names_its_solvers():
    for name, cls in SOLVERS.items():
        assert cls.name == name
        assert make_solver(name) == cls()


def test_solvers_support_what_they_say_they_need():
    for view, seen in (("rows", ("rows", "sweeps")), ("rbf", ("kernel",))):
        hinge = CASES[f"intercept free, {view}"].build()
        problems = [hinge, replace(hinge, loss=Squared()), replace(hinge, loss=Squared(), intercept="none")]
        for cls in SOLVERS.values():
            able = cls.needs.samples in seen or (cls.needs.or_kernel and "kernel" in seen)
            assert any(cls().supports(problem) is None for problem in problems) == able, cls


def test_make_solver_refuses_options_that_do_not_exist():
    assert make_solver("dual_coordinate", seed=3) == DualCoordinate(seed=3)
    assert make_solver("smo", max_memory=7.0) == SMO(max_memory=7.0)
    with pytest.raises(ValueError, match=r"solver='smo' has no option 'step'; its options are .*'max_memory'"):
        make_solver("smo", step=3)
    with pytest.raises(ValueError, match=r"'nonsense' is unknown.*'dual_coordinate'"):
        make_solver("nonsense")
