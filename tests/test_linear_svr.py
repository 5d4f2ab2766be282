"""LinearSVR: the problem of scikit-learn's, a certificate that plain NumPy confirms, and the house's options."""

import inspect

import numpy as np
import pytest
import sklearn.svm
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import SVR, LinearSVR, Status, certify

TOL = 1e-10
LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")
every_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def curve():
    X, y = load_diabetes(return_X_y=True)
    return X[:200] * 20.0, y[:200] / 50.0


def values(model, X, y, weights=1.0):
    """Primal and dual value of a fitted model, and by how much its dual variables leave their feasible set."""
    s = model.C * np.broadcast_to(weights, y.shape)
    X = np.asarray(X, dtype=np.float64)
    alpha = np.zeros(y.size)
    alpha[model.support_] = model.dual_coef_[0]
    b, scale = model.intercept_[0], model.intercept_scaling
    slack = np.maximum(np.abs(y - X @ model.coef_ - b) - model.epsilon, 0.0)
    linear = y @ alpha - model.epsilon * np.abs(alpha).sum()
    infeasible = 0.0
    if model.loss == "epsilon_insensitive":
        primal, dual = s @ slack, linear
        infeasible = np.maximum(np.abs(alpha) - s, 0.0).max()
    else:
        primal, dual = s @ slack**2, linear - 0.25 * (alpha**2 / s).sum()
    primal += 0.5 * model.coef_ @ model.coef_
    dual -= 0.5 * np.sum((X.T @ alpha) ** 2)
    if not model.fit_intercept or model.intercept is None:
        assert b == 0.0
    elif model.intercept == "free":
        infeasible = max(infeasible, abs(alpha.sum()))
    else:
        primal, dual = primal + 0.5 * (b / scale) ** 2, dual - 0.5 * (scale * alpha.sum()) ** 2
    return primal, dual, infeasible


@every_loss
@pytest.mark.parametrize("intercept", ["auto", "free", "penalised", None])
@pytest.mark.parametrize("solver", ["newton", "dual_coordinate"])
def test_certificate_is_the_textbook_formula(loss, intercept, solver, curve):
    X, y = curve
    model = LinearSVR(
        loss=loss, intercept=intercept, solver=solver, C=0.7, epsilon=0.3, intercept_scaling=3.0, tol=1e-7
    ).fit(X, y)
    primal, dual, infeasible = values(model, X, y)
    assert model.status_ is Status.CONVERGED
    assert infeasible <= 1e-10
    assert model.objective_ == pytest.approx(primal, rel=1e-11)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-11)
    assert primal - dual <= 1e-7 * primal + 1e-12


@every_loss
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_agrees_with_scikit_learn(loss, epsilon, fit_intercept, curve):
    X, y = curve
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    settings = {"loss": loss, "epsilon": epsilon, "C": 0.3, "fit_intercept": fit_intercept}
    ours = LinearSVR(tol=TOL, **settings).fit(X, y, weights)
    dual = "auto" if loss == "epsilon_insensitive" else False
    theirs = sklearn.svm.LinearSVR(tol=1e-11, max_iter=10**7, dual=dual, random_state=0, **settings)
    theirs.fit(X, y, weights)
    theirs.intercept, theirs.support_, theirs.dual_coef_ = "auto", ours.support_, ours.dual_coef_
    theirs.intercept_ = np.atleast_1d(theirs.intercept_)
    value, _, _ = values(theirs, X, y, weights)
    assert value >= ours.dual_objective_ * (1.0 - 1e-13)
    assert value == pytest.approx(ours.objective_, rel=1e-8)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == (1,)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3)


@every_loss
def test_a_free_intercept_is_that_of_svr(loss, curve):
    X, y = curve
    linear = LinearSVR(loss=loss, epsilon=0.2, intercept="free", tol=TOL).fit(X, y)
    kernel = SVR(kernel="linear", loss=loss, epsilon=0.2, tol=TOL).fit(X, y)
    assert linear.objective_ == pytest.approx(kernel.objective_, rel=2e-10)
    penalised = LinearSVR(loss=loss, epsilon=0.2, tol=TOL).fit(X, y)
    assert linear.objective_ < penalised.objective_ * (1.0 - 1e-4), "the two problems must differ"


def test_a_penalised_intercept_is_one_more_column(curve):
    X, y = curve
    model = LinearSVR(intercept_scaling=3.0, tol=TOL).fit(X, y)
    by_hand = LinearSVR(fit_intercept=False, tol=TOL).fit(np.c_[X, np.full(y.size, 3.0)], y)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=2e-10)
    np.testing.assert_allclose(model.predict(X), by_hand.predict(np.c_[X, np.full(y.size, 3.0)]), atol=1e-4)


@every_loss
def test_a_weight_of_two_is_the_sample_twice(loss, curve):
    X, y = curve
    weights = np.random.default_rng(1).integers(0, 4, y.size)
    weighted = LinearSVR(loss=loss, tol=TOL).fit(X, y, weights)
    repeated = LinearSVR(loss=loss, tol=TOL).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-10)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)


@every_loss
def test_storage_does_not_matter(loss, curve):
    X, y = curve
    single = X.astype(np.float32)
    dense = LinearSVR(loss=loss, tol=TOL).fit(single.astype(np.float64), y)
    for rows in (single, csr_array(single), csr_array(single.astype(np.float64))):
        model = LinearSVR(loss=loss, tol=TOL).fit(rows, y)
        primal, dual, _ = values(model, single, y)
        assert model.objective_ == pytest.approx(primal, rel=1e-11)
        assert model.dual_objective_ == pytest.approx(dual, rel=1e-11)
        assert model.objective_ == pytest.approx(dense.objective_, rel=2e-10)


def test_arguments_are_those_of_scikit_learn_and_more():
    ours, theirs = inspect.signature(LinearSVR).parameters, inspect.signature(sklearn.svm.LinearSVR).parameters
    assert set(theirs) <= set(ours)
    for name, parameter in ours.items():
        line = next(line for line in LinearSVR.__doc__.splitlines() if line.strip().startswith(f"{name} : "))
        assert eval(line.split("default=")[1]) == parameter.default, name
        if name in theirs:
            assert parameter.kind == theirs[name].kind, name
            assert parameter.default == theirs[name].default or name == "max_iter", name


def test_dual_chooses_the_solver(curve):
    X, y = curve
    models = [LinearSVR(dual=dual, tol=1e-8).fit(X, y) for dual in ("auto", False, True)]
    assert [model.solution_.solver for model in models] == ["newton", "newton", "dual_coordinate"]
    assert models[1].objective_ == pytest.approx(models[2].objective_, rel=1e-7)
    assert LinearSVR().fit(np.c_[X, np.zeros((y.size, 1200))], y).solution_.solver == "dual_coordinate"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dual": True, "solver": "newton"}, "dual=True contradicts solver='newton'"),
        ({"fit_intercept": False, "intercept": "free"}, "fit_intercept=False contradicts intercept='free'"),
        ({"loss": "hinge"}, "The 'loss' parameter of LinearSVR must be a str among"),
        ({"epsilon": -1.0}, "The 'epsilon' parameter of LinearSVR must be a float in the range"),
        ({"C": np.inf}, "The 'C' parameter of LinearSVR must be a float in the range"),
        ({"solver": "smo"}, "solver='smo' cannot solve this problem"),
    ],
)
def test_refusals(settings, message, curve):
    model = LinearSVR(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(*curve)
    assert not hasattr(model, "coef_")


def test_a_fit_that_max_iter_cut_is_honest_and_can_be_resumed(curve):
    X, y = curve
    model = LinearSVR(solver="dual_coordinate", C=100.0, tol=1e-6, max_iter=2, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="Stopped at the iteration limit"):
        model.fit(X, y)
    primal, dual, _ = values(model, X, y)
    assert model.duality_gap_ == pytest.approx((primal - dual) / primal, rel=1e-9)
    cut = model.objective_
    model.set_params(max_iter=-1, solver="newton").fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.solution_.history[0].primal <= cut * (1.0 + 1e-12)


def test_warm_start_survives_other_features(curve):
    X, y = curve
    model = LinearSVR(warm_start=True, tol=TOL).fit(X, y)
    model.fit(X[:, :3], y)
    assert model.objective_ == pytest.approx(LinearSVR(tol=TOL).fit(X[:, :3], y).objective_, rel=2e-10)


def test_max_time_and_callback_stop_a_fit(curve):
    X, y = curve
    records = []
    model = LinearSVR(solver="dual_coordinate", C=1e4, tol=1e-12, callback=lambda r: records.append(r) or True)
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(X, y)
    assert len(records) == 1
    assert model.status_ is Status.CALLBACK


@every_loss
@pytest.mark.parametrize("library", [maxmargin, sklearn.svm])
def test_certify_judges_both_libraries(loss, library, curve):
    X, y = curve
    weights = np.random.default_rng(2).uniform(0.5, 2.0, y.size)
    settings = {"loss": loss, "epsilon": 0.1, "intercept_scaling": 2.0, "tol": 1e-9, "max_iter": 10**6}
    model = library.LinearSVR(**settings).fit(X, y, weights)
    verdict = certify(model, X, y, weights)
    assert "intercept penalised" in verdict.problem
    assert verdict.relative_gap <= 1e-6
    residual = np.maximum(np.abs(y - X @ model.coef_ - model.intercept_[0]) - 0.1, 0.0)
    loss_sum = weights @ (residual if loss == "epsilon_insensitive" else residual**2)
    norm = 0.5 * model.coef_ @ model.coef_ + 0.5 * (model.intercept_[0] / 2.0) ** 2
    assert verdict.primal == pytest.approx(loss_sum + norm, rel=1e-11)
    model.coef_ = model.coef_ * 0.9
    assert certify(model, X, y, weights).relative_gap > 1e-4
