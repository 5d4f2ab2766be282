"""The solvers of hulls in NuSVC and in SVC of a hard margin: the problem of the kernel matrix, and its proof."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import referee
from maxmargin import SVC, SVR, DistributedNuSVC, NuSVC, OneClassSVM, certify, explain_solver
from maxmargin.io import load_model, save_model
from maxmargin.loop.solution import Status
from maxmargin.solvers import SOLVERS

TOL = {"saddle": 1e-5, "frank_wolfe": 1e-6, "gilbert": 1e-3}
every_solver = pytest.mark.parametrize(
    "solver", sorted(name for name, solver in SOLVERS.items() if solver.needs.samples == "hulls")
)


def clouds(n=150, d=4, apart=1.5, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((classes, d))[y], y


def unfold(model, n):
    """The dual variables of the samples of a model of two classes."""
    alpha = np.zeros(n)
    coef = model.dual_coef_
    alpha[model.support_] = np.ravel(coef.toarray() if hasattr(coef, "toarray") else coef)
    return alpha


def box(X, y, cap, total):
    sides = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    low, high = np.where(y > 0, 0.0, -cap), np.where(y > 0, cap, 0.0)
    groups = (sides[0], total), (sides[1], -total)
    return referee.Box(X @ X.T, np.zeros(y.size), low, high, np.zeros(y.size), groups)


def verdict(model, X, y, cap, total, rho):
    """Primal value by the formula of the docstring at what the model predicts, dual value, and feasibility."""
    a = rho * unfold(model, y.size)
    assert (y * a).min() >= 0.0
    assert (y * a - cap).max() <= 1e-12 * cap.max()
    for sign in (-1.0, 1.0):
        assert (y * a)[y == sign].sum() == pytest.approx(total, rel=1e-10)
    w, z = rho * model.coef_[0], rho * model.decision_function(X)
    primal = w @ w / 2 - 2.0 * total * rho + cap @ np.maximum(0.0, rho - y * z)
    return primal, -((a @ X) ** 2).sum() / 2


@every_solver
@pytest.mark.parametrize("parameters", [{"nu": 0.5}, {"nu": 0.68}, {"cap": 0.02}])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, np.float32])
def test_nu_svc_solves_the_problem_of_its_docstring(parameters, store, solver):
    X, y = clouds()
    X, y = np.asarray(X, dtype=np.float32).astype(float), np.where(y == 1, 1.0, -1.0)
    weights = np.random.default_rng(1).integers(0, 4, y.size).astype(float)
    model = NuSVC(kernel="linear", solver=solver, tol=TOL[solver], class_weight={-1.0: 0.7}, **parameters)
    model.fit(store(X), y, sample_weight=weights)
    assert model.status_ is Status.CONVERGED
    s, rho = weights * np.where(y < 0, 0.7, 1.0), model.rho_[0]
    total = model.nu_[0] * s.sum() / 2
    assert parameters.get("nu", 2 / (0.02 * s.sum())) == pytest.approx(model.nu_[0])
    primal, dual = verdict(model, X, y, s, total, rho)
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)
    assert primal - dual <= 1.001 * TOL[solver] * abs(dual)
    truth = referee.reference_optimum(box(X, y, s, total))
    assert dual <= truth + 1e-6 * abs(truth)
    assert truth <= primal + 1e-6 * abs(truth)
    judged = certify(model, store(X), y, weights)
    assert (judged.primal, judged.dual) == pytest.approx((primal, dual), rel=1e-6)


@every_solver
def test_hard_margin_solves_the_problem_of_its_docstring(solver):
    X, y = clouds(d=6, apart=6.0, seed=2)
    y = np.where(y == 1, 1.0, -1.0)
    weights = np.where(np.arange(y.size) % 5 == 0, 0.0, 3.0)
    model = SVC(C=np.inf, kernel="linear", solver=solver, tol=TOL[solver]).fit(X, y, weights)
    assert model.status_ is Status.CONVERGED
    used = weights > 0.0
    assert set(model.support_) <= set(np.flatnonzero(used))
    margins = (y * model.decision_function(X))[used]
    assert margins.min() == pytest.approx(1.0, abs=1e-9)
    rho = 2.0 / np.abs(model.dual_coef_).sum()
    primal, dual = verdict(model, X, y, used.astype(float), 1.0, rho)
    assert (model.objective_, model.dual_objective_) == pytest.approx((primal, dual), rel=1e-9)
    truth = referee.reference_optimum(box(X[used], y[used], np.ones(used.sum()), 1.0))
    assert dual - 1e-6 * abs(truth) <= truth <= primal + 1e-6 * abs(truth)
    assert certify(model, X, y, weights).relative_gap == pytest.approx(model.duality_gap_, abs=1e-9)


@every_solver
@pytest.mark.parametrize("model", [NuSVC(nu=0.605, kernel="linear"), SVC(C=np.inf, kernel="linear")])
def test_the_certified_intervals_meet_those_of_the_kernel_matrix(model, solver):
    X, y = clouds(apart=1.0 if isinstance(model, NuSVC) else 6.0, seed=3)
    ours = model.set_params(solver=solver, tol=TOL[solver]).fit(X, y)
    values, scores = (ours.dual_objective_, ours.objective_), ours.decision_function(X)
    theirs = model.set_params(solver="decomposition", tol=1e-8).fit(X, y)
    assert values[0] <= theirs.objective_ * (1.0 - 1e-9)
    assert theirs.dual_objective_ * (1.0 + 1e-9) <= values[1]
    np.testing.assert_allclose(scores, theirs.decision_function(X), atol=0.1 if solver == "gilbert" else 0.01)
    if isinstance(model, NuSVC):
        assert theirs.rho_[0] > 0.0


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_several_classes_and_files(strategy, tmp_path):
    X, y = clouds(n=240, apart=3.0, classes=3, seed=4)  # half of nu n is no whole number, or intercepts were not unique
    names = np.array(["a", "b", "c"])[y]
    ours = NuSVC(nu=0.303, kernel="linear", solver="saddle", tol=1e-5, multi_class=strategy).fit(X, names)
    theirs = NuSVC(nu=0.303, kernel="linear", tol=1e-8, multi_class=strategy).fit(X, names)
    assert ours.coef_.shape == theirs.coef_.shape == (3, 4)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.01)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.01)
    np.testing.assert_allclose(ours.rho_, theirs.rho_, rtol=0.01)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99
    save_model(ours, tmp_path / "m")
    assert np.array_equal(load_model(tmp_path / "m").decision_function(X), ours.decision_function(X))


def test_from_nu_to_c_and_back():
    """`C = 1 / rho`, and the nu of a C-SVM is the mean of its variables over C."""
    X, y = clouds(n=300, apart=1.0, seed=5)
    nu = NuSVC(nu=0.5, kernel="linear", solver="saddle", tol=1e-6).fit(X, y)
    C = 1.0 / nu.rho_[0]
    soft = SVC(C=C, kernel="linear", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(nu.decision_function(X), soft.decision_function(X), atol=5e-3)
    assert np.abs(soft.dual_coef_).sum() / (C * y.size) == pytest.approx(0.5, abs=1e-3)


@every_solver
def test_overlapping_hulls_end_with_a_common_point(solver):
    X, y = clouds(apart=0.3, seed=6)
    cases = (NuSVC(nu=0.05, kernel="linear"), "Raise nu"), (SVC(C=np.inf, kernel="linear"), "Use a finite C")
    for model, advice in cases:
        with pytest.warns(ConvergenceWarning, match=f"the convex hulls of two classes meet.*{advice}"):
            model.set_params(solver=solver, max_time=20.0).fit(X, y)
        assert model.status_ is Status.NOT_SEPARABLE
        assert model.objective_ == model.dual_objective_ == 0.0
        a = model.solution_.point.alpha
        assert a[y == 1].min() >= 0.0
        assert a[y == 0].max() <= 0.0
        assert a[y == 1].sum() == pytest.approx(-a[y == 0].sum())
        assert np.abs(a @ X).max() <= 1e-11 * np.abs(a).sum()
        assert np.isfinite(model.decision_function(X)).all()


def test_a_stalled_search_is_no_proof():
    """Barely separable: stopped early, the bounds are true and nothing else is claimed."""
    X, y = clouds(n=400, apart=0.0, seed=7)
    X[:, 0] = np.where(y == 1, np.abs(X[:, 0]) + 1e-4, -np.abs(X[:, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(C=np.inf, kernel="linear", solver="saddle", max_iter=200).fit(X, y)
    assert model.status_ is not Status.NOT_SEPARABLE
    assert model.dual_objective_ <= -0.5e-8 <= 0.0  # at least the planted street of 1e-4
    assert model.dual_objective_ <= model.objective_


def test_warm_start_and_probabilities():
    X, y = clouds(n=300, apart=1.0, seed=8)
    model = NuSVC(nu=0.6, kernel="linear", solver="saddle", tol=1e-4, warm_start=True, probability=True).fit(X, y)
    first = model.n_iter_[0]
    assert model.fit(X, y).n_iter_[0] <= 0.5 * first
    theirs = NuSVC(nu=0.6, kernel="linear", tol=1e-4, probability=True).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=0.05)
    assert "uses 'saddle', because solver='saddle' was asked for." in explain_solver(model, X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NuSVC(solver="saddle"), "NuSVC: it needs .* hard margin or nu machine with a linear kernel"),
        (SVC(C=np.inf, kernel="poly", solver="gilbert"), "SVC: .* linear kernel .* can 'active_set', 'block_smo'"),
        (SVC(kernel="linear", C=2.5, solver="saddle"), "SVC: it needs the distance of two hulls .*'newton'"),
        (
            SVC(solver="saddle"),
            "SVC: it needs the distance of two hulls .*; 'auto' can, and so can 'active_set'",
        ),
        (SVR(kernel="linear", solver="frank_wolfe"), "SVR: it needs the distance of two hulls .*'decomposition'"),
        (OneClassSVM(solver="saddle"), "OneClassSVM: it needs the distance of two hulls .*'decomposition'"),
    ],
)
def test_what_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*clouds())


@pytest.mark.parametrize("n_clients", [None, 1, 3])
@pytest.mark.parametrize("solver", sorted(name for name, kind in SOLVERS.items() if kind.needs.samples != "hulls"))
def test_a_solver_that_does_not_know_hulls_is_refused_by_clients_too(solver, n_clients):
    X, y = clouds(30, 3)
    with pytest.raises(ValueError, match=f"solver='{solver}' cannot solve this problem of DistributedNuSVC.*'saddle'"):
        DistributedNuSVC(solver=solver, n_clients=n_clients).fit(X, y)
