"""CONTRIBUTING's recipes, cut out of the page, as a module outside of the package: through the zoo and the referee."""

import importlib.util
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise
from sklearn.utils.estimator_checks import check_estimator

import referee
import test_kernels
import test_losses
import test_solvers
import zoo
from maxmargin import LinearSVC, Status, minimize
from maxmargin.operators import KernelGram
from maxmargin.parts import kernels
from maxmargin.protocols import Loss
from maxmargin.solvers import SOLVERS, make_solver

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """The code of the page as one module."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(blocks) == 4
    path = tmp_path_factory.mktemp("outside") / "recipes.py"
    path.write_text("\n".join(blocks), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("recipes", path)
    module = sys.modules["recipes"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["recipes"]
        kernels.KERNELS.pop("local_linear", None)


def taking(module, *arguments):
    """Those tests of a module whose arguments begin so: they are about one part each."""
    tests = {name: list(inspect.signature(test).parameters) for name, test in vars(module).items() if callable(test)}
    return [name for name, own in tests.items() if name.startswith("test_") and own[: len(arguments)] == [*arguments]]


def run(problem, description, name):
    """Refused in a sentence, or certified and confirmed by the referee."""
    solver = make_solver(name)
    reason = solver.supports(problem)
    if reason is not None:
        return reason
    solution = minimize(problem, solver, tol=1e-6, max_iter=1_000_000)
    test_solvers.assert_honest(description, solution)
    assert solution.status is Status.CONVERGED, solution.message
    return solution


# ---- the loss --------------------------------------------------------------------------------------------------------


def test_the_loss_is_a_loss(recipes):
    methods = {name for name in vars(Loss) if not name.startswith("_")}
    assert methods <= set(vars(recipes.Absolute))
    assert len(methods) == 8  # the traits, and the seven of which the page speaks


@pytest.mark.parametrize("name", taking(test_losses, "loss"))
def test_the_loss_passes_the_tests_of_losses(recipes, monkeypatch, name):
    monkeypatch.setitem(test_losses.NAMES, recipes.Absolute, "epsilon")  # whose tube has the width zero
    getattr(test_losses, name)(loss=recipes.Absolute(0.0))


@pytest.mark.parametrize("solver", ["newton", "dual_coordinate", "smo", "decomposition", "interior_point"])
def test_the_loss_in_the_zoo(recipes, solver):
    """Over rows and over kernels: the reduction to a box follows from the class."""
    solved = {True: 0, False: 0}  # over kernels, over rows
    for case in zoo.cases():
        description, problem = case.describe(), case.build()
        if not isinstance(description, referee.Machine) or description.loss[0] != "epsilon":
            continue
        problem = replace(problem, loss=recipes.Absolute())
        result = run(problem, replace(description, loss=("epsilon", 0.0)), solver)
        solved[problem.kernelised] += not isinstance(result, str)
    # Over rows, the variables of interior_point need one sign each.
    assert (solved[False] > 0) == (solver in ("newton", "dual_coordinate")), solved
    assert (solved[True] > 0) == (solver in ("smo", "decomposition", "interior_point")), solved


# ---- the kernel ------------------------------------------------------------------------------------------------------


def local_linear(A, B):
    return pairwise.linear_kernel(A, B) * pairwise.rbf_kernel(A, B, gamma=0.4)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", taking(test_kernels, "kernel", "expected"))
def test_the_kernel_passes_the_tests_of_kernels(recipes, name, layout):
    test, kernel = getattr(test_kernels, name), kernels.kernel_of("local_linear", gamma=0.4, degree=3)
    assert kernel == recipes.LocalLinear(0.4)
    more = {"layout": layout} if "layout" in inspect.signature(test).parameters else {}
    test(kernel=kernel, expected=local_linear, **more)


def test_the_kernel_is_within_its_bound(recipes):
    kernel, X = recipes.LocalLinear(0.4), np.random.default_rng(0).normal(size=(60, 3))
    w = np.random.default_rng(1).normal(size=60)
    difference, exact = X[:, None, :].astype(np.longdouble) - X[None], X.astype(np.longdouble)
    K = (exact @ exact.T) * np.exp(-np.longdouble(0.4) * (difference**2).sum(axis=2))
    gram = KernelGram(kernel, X)
    bound = gram.rounding(w)
    assert (np.abs(gram.apply(w) - K @ w) <= bound).all()
    assert (bound <= 1e-11 * np.linalg.norm(X, axis=1) * (np.linalg.norm(X, axis=1) @ np.abs(w))).all()


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("loss", [("hinge", 1.0), ("squared hinge", 1.0), ("epsilon", 0.1)], ids=lambda loss: loss[0])
def test_the_kernel_in_the_zoo(recipes, monkeypatch, intercept, loss):
    monkeypatch.setitem(zoo.KERNELS, "local_linear", (recipes.LocalLinear(0.4), local_linear))
    X, y = zoo.blobs(40, 3, seed=0, apart=0.5)
    case = zoo.machine("toy", X, y, loss=loss, intercept=intercept, kernel="local_linear")
    for solver in ("smo", "decomposition"):
        solution = run(case.build(), case.describe(), solver)
        value = referee.reference_optimum(case.describe())
        assert solution.certificate.primal == pytest.approx(value, rel=2e-6)


# ---- the solver ------------------------------------------------------------------------------------------------------


CASES = {case.name: case for case in zoo.cases()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_solver_in_the_zoo(recipes, case):
    """What `tests/test_solvers.py` does with every solver of the registry."""
    if case.hard_for:
        case = replace(case, hard_for=(*case.hard_for, recipes.Epochs.name))
    test_solvers.test_zoo(recipes.Epochs(), case)


def test_the_solver_by_its_name(recipes, monkeypatch):
    monkeypatch.setitem(SOLVERS, recipes.Epochs.name, recipes.Epochs)
    X, y = zoo.blobs(60, 3, seed=0, apart=0.5)
    model = LinearSVC(solver="epochs", fit_intercept=False, tol=1e-8).fit(X, y)
    assert model.solution_.solver == "epochs"
    assert model.objective_ == pytest.approx(LinearSVC(fit_intercept=False, tol=1e-8).fit(X, y).objective_, rel=1e-7)
    with pytest.raises(ValueError, match="solver='epochs' cannot solve this problem of LinearSVC: it has no intercept"):
        LinearSVC(solver="epochs").fit(X, y)


# ---- the estimator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["newton", "dual_coordinate"])
def test_the_estimator_is_judged_by_the_referee(recipes, solver):
    X, _ = zoo.blobs(80, 3, seed=0)
    y = X @ [1.0, -2.0, 0.5] + 3.0 + np.random.default_rng(0).laplace(size=80)
    model = recipes.MedianRegressor(C=2.0, solver=solver).fit(X, y)
    case = referee.Machine(y, np.full(80, 2.0), ("epsilon", 0.0), ("l2", 1.0), X=X)
    test_solvers.assert_honest(case, model.solution_)
    assert model.solution_.status is Status.CONVERGED
    assert model.solution_.certificate.primal == pytest.approx(referee.reference_optimum(case), rel=2e-6)
    residuals = model.predict(X) - y
    assert abs((residuals > 0).mean() - 0.5) < 0.1  # a median


def test_the_estimator_is_one_of_scikit_learn(recipes):
    check_estimator(recipes.MedianRegressor(), on_skip=None)
