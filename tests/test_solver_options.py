"""Options of solvers reach them through every estimator, and are refused by name; traces show a solver's own steps."""

import inspect
import itertools

import numpy as np
import pytest
from sklearn.base import clone

import maxmargin
import maxmargin.io
from maxmargin import LassoCV, LinearSVC, LogisticRegression, Point, Problem, SGDClassifier, explain_solver, trace
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge, Squared
from maxmargin.parts.penalties import L2
from maxmargin.solvers import SOLVERS, CoordinateDescent, Landweber, Pegasos, Subgradient, make_solver

X = np.random.default_rng(0).normal(size=(40, 5))
y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, 1, -1)
WITH_A_SOLVER = [
    kind
    for kind in (getattr(maxmargin, name) for name in maxmargin.__all__)
    if inspect.isclass(kind) and hasattr(kind, "fit") and "solver" in inspect.signature(kind).parameters
]


def test_every_estimator_that_names_a_solver_takes_its_options():
    assert len(WITH_A_SOLVER) == 25
    for kind in WITH_A_SOLVER:
        options = {"seed": 3}
        model = clone(kind(solver="sgd", solver_options=options))
        assert model.get_params()["solver_options"] == options
        assert kind().solver_options is None


@pytest.mark.parametrize("kind", [k for k in WITH_A_SOLVER if "Distributed" not in k.__name__])
def test_a_wrong_name_is_refused_with_the_right_ones_before_any_work(kind):
    with pytest.raises(ValueError, match=r"'pegasos' has no option 'batchsize'; its options are 'batch_size', 'projec"):
        kind(solver="pegasos", solver_options={"batchsize": 4}).fit(X, y)
    with pytest.raises(ValueError, match=r"for a solver that is named, and solver='auto' names none.*'pegasos'"):
        kind(solver="auto", solver_options={"batch_size": 4}).fit(X, y)


def test_values_are_checked_like_those_of_the_solver_itself():
    with pytest.raises(TypeError, match="'batch_size' of solver='pegasos' is '4'; it needs int"):
        LinearSVC(loss="hinge", solver="pegasos", solver_options={"batch_size": "4"}).fit(X, y)
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        LinearSVC(loss="hinge", solver="pegasos", solver_options={"batch_size": 0}).fit(X, y)
    with pytest.raises(ValueError, match="rule='steepest' is unknown; choose one of"):
        LinearSVC(loss="hinge", solver="subgradient", solver_options={"rule": "steepest"}).fit(X, y)
    with pytest.raises(ValueError, match="solver_options"):
        LinearSVC(solver="pegasos", solver_options=4).fit(X, y)
    with pytest.raises(ValueError, match="no solver has all of them"):
        LogisticRegression(solver_options={"nonsense": 4}).fit(X, y)
    with pytest.raises(ValueError, match=r"'order' is unknown|order='x' is unknown"):
        SGDClassifier(solver_options={"order": "x"}).partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="has no option"):
        explain_solver(LinearSVC(solver="newton", solver_options={"seed": 1}), X, y)


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (
            LinearSVC(loss="hinge", intercept=None, max_iter=50, tol=1e-12, solver="pegasos"),
            Pegasos(batch_size=4, projection=True, average="last", order="uniform", step0=None, seed=5),
        ),
        (
            LinearSVC(loss="hinge", intercept=None, max_iter=50, tol=1e-12, solver="subgradient"),
            Subgradient(rule="constant", step=0.01),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_with_options_is_the_run_of_that_solver(model, solver):
    options = {name: getattr(solver, name) for name in solver.options()}
    fitted = clone(model).set_params(solver_options=options).fit(X, y)
    problem = Problem(Rows(X), y.astype(float), Hinge(), L2(1.0), np.ones(40), None)
    alone = maxmargin.minimize(problem, solver, tol=1e-12, max_iter=50)
    assert np.array_equal(fitted.coef_[0], alone.point.w)
    assert not np.array_equal(fitted.coef_[0], clone(model).fit(X, y).coef_[0])


def test_options_reach_the_paths_of_cross_validation():
    target = X @ np.arange(5.0)
    with pytest.raises(ValueError, match="order"):
        LassoCV(alphas=3, cv=2, solver="coordinate_descent", solver_options={"order": "x"}).fit(X, target)
    model = LassoCV(alphas=3, cv=2, solver="coordinate_descent", solver_options={"order": "greedy"}).fit(X, target)
    assert model.duality_gap_path_.max() <= model.tol


def test_all_solvers_are_public_and_have_types_that_can_be_checked():
    for name, kind in SOLVERS.items():
        assert getattr(maxmargin.solvers, kind.__name__) is kind
        assert kind.__name__ in maxmargin.solvers.__all__
        defaults = {option: getattr(kind(), option) for option in kind.options()}
        assert make_solver(name, **defaults) == kind(**defaults)


def test_a_trace_of_landweber_is_the_recursion_of_the_seed():
    A, d = X, X @ np.arange(5.0) + 1.0
    step = 0.5 / np.linalg.norm(A, 2) ** 2
    problem = Problem(Rows(A), d, Squared(), L2(1.0), np.ones(40), None)
    w = np.zeros(5)
    for k, (record, point) in enumerate(trace(problem, Landweber(step=step), max_iter=6)):
        assert record.iterations == k
        assert point.w == pytest.approx(w, abs=1e-12)
        assert record.primal == pytest.approx(0.5 * np.sum((A @ w - d) ** 2) + 0.5 * w @ w, rel=1e-12)
        w = w - step * (A.T @ (A @ w - d) + w)
    assert k == 6


def test_a_trace_has_one_pair_for_each_step_and_ends_with_the_solver():
    problem = Problem(Rows(X), y.astype(float), Hinge(), L2(1.0), np.ones(40), None)
    pairs = list(itertools.islice(trace(problem, Pegasos(), stride=5), 4))
    assert [record.iterations for record, _ in pairs] == [0, 5, 10, 15]
    assert all(record.certified and record.dual <= record.primal for record, _ in pairs)
    # Each point is a copy: later steps leave it alone.
    again = list(itertools.islice(trace(problem, Pegasos(), stride=5), 2))
    assert np.array_equal(again[1][1].w, pairs[1][1].w)
    late = list(itertools.islice(trace(problem, Pegasos(), warm=Point(np.ones(5), 0.0, 0.1 * y)), 1))
    assert late[0][0].primal < pairs[0][0].primal


def test_a_trace_refuses_what_it_cannot_show():
    problem = Problem(Rows(X), y.astype(float), Hinge(), L2(1.0), np.ones(40), None)
    with pytest.raises(ValueError, match="cannot solve this problem: it needs the samples as columns"):
        trace(problem, CoordinateDescent())
    with pytest.raises(ValueError, match="stride=0 must be at least 1"):
        trace(problem, Pegasos(), stride=0)


def test_options_are_stored_with_a_model(tmp_path):
    model = LinearSVC(loss="hinge", solver="pegasos", solver_options={"batch_size": 4, "step0": None}, tol=0.5).fit(
        X, y
    )
    maxmargin.io.save_model(model, tmp_path / "model.mm")
    assert maxmargin.io.load_model(tmp_path / "model.mm").solver_options == {"batch_size": 4, "step0": None}
