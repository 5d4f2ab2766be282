"""Ridge and LASSO over clients: the optimum of all rows, however these are spread (seed item 3-02)."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.base import clone
from sklearn.datasets import load_diabetes

import referee
from maxmargin import DistributedLasso, DistributedRidge, Ridge, Status, certify, explain_solver
from maxmargin.io import load_model, open_shards, save_model, write_libsvm

X, Y = load_diabetes(return_X_y=True)
X = 10.0 * X
WEIGHTS = np.random.default_rng(0).uniform(0.0, 2.0, Y.size)
ORDER = np.argsort(Y)
clients = pytest.mark.parametrize("n_clients", [1, 2, 5])
both = pytest.mark.parametrize("kind", [DistributedRidge, DistributedLasso])


def machine(model, s):
    """The problem, for the referee."""
    intercept = "free" if model.fit_intercept else None
    if isinstance(model, DistributedRidge):
        return referee.Machine(Y, 2.0 * s, ("squared", 1.0), ("l2", 2.0 * model.alpha), X, intercept=intercept)
    return referee.Machine(Y, s / s.sum(), ("squared", 1.0), ("l1", model.alpha), X, intercept=intercept)


@clients
@both
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_is_the_optimum_of_all_rows(kind, n_clients, fit_intercept):
    model = kind(0.5, fit_intercept=fit_intercept, tol=1e-8, n_clients=n_clients).fit(X, Y, WEIGHTS)
    case = machine(model, WEIGHTS)
    assert model.status_ is Status.CONVERGED
    value, best = referee.primal(case, model.coef_, model.intercept_), referee.reference_optimum(case)
    assert model.objective_ == pytest.approx(value, rel=1e-10)
    assert value == pytest.approx(best, rel=2e-8)
    assert model.dual_objective_ <= best * (1.0 + 1e-8)
    assert certify(model, X, Y, WEIGHTS).relative_gap <= 1e-7
    assert model.traffic_["rounds"].shape == (n_clients,)


@clients
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, np.float32])
def test_it_is_the_model_of_scikit_learn(n_clients, store):
    data, y = store(X[ORDER]), Y[ORDER]  # each client sees other targets
    ridge = DistributedRidge(2.0, tol=1e-9, n_clients=n_clients).fit(data, y)
    theirs = sklearn.linear_model.Ridge(2.0, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(ridge.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ridge.predict(data), theirs.predict(X[ORDER]), atol=1e-2)
    lasso = DistributedLasso(2.0, tol=1e-9, n_clients=n_clients).fit(data, y)
    theirs = sklearn.linear_model.Lasso(2.0, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(lasso.coef_, theirs.coef_, atol=1e-2)
    np.testing.assert_array_equal(lasso.coef_ == 0.0, theirs.coef_ == 0.0)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (DistributedRidge, ("cholesky", "conjugate_gradients", "landweber", "fista", "newton")),
        (DistributedLasso, ("smoothed", "proximal_gradient", "fista")),
    ],
)
def test_every_solver_that_is_named(kind, names):
    values = []
    for name in names:
        model = kind(0.5, tol=1e-7, solver=name, n_clients=3).fit(X, Y)
        assert model.solution_.solver == name
        assert model.duality_gap_ <= 1e-7
        values.append(model.objective_)
    np.testing.assert_allclose(values, values[0], rtol=3e-7)


def test_what_is_sent():
    """Products of the features once; or a gradient in each step, whatever the number of rows."""
    few, many = (DistributedRidge(1.0, solver="cholesky", n_clients=2).fit(X[:n], Y[:n]) for n in (100, 442))
    assert few.traffic_["scalars"].max() == pytest.approx(many.traffic_["scalars"].max(), abs=40)
    steps = DistributedLasso(1.0, solver="fista", tol=1e-6, n_clients=2).fit(X, Y)
    per_step = steps.traffic_["scalars"].max() / steps.n_iter_
    assert 10 <= per_step <= 40
    assert "newton" not in explain_solver(DistributedLasso(n_clients=2), X, Y)


def test_files_are_read_by_the_clients(tmp_path):
    write_libsvm(tmp_path / "diabetes.svm", X, Y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    serial = Ridge(1.0, tol=1e-9).fit(X, Y)
    for data in (
        open_shards(tmp_path / "diabetes.svm"),
        open_shards(tmp_path / "X.npy", target=tmp_path / "y.npy"),
    ):
        model = DistributedRidge(1.0, tol=1e-9, n_clients=3).fit(data)
        np.testing.assert_allclose(model.coef_, serial.coef_, atol=1e-4)
        assert model.shape_fit_ == (442, 10)
    with pytest.raises(ValueError, match="hold their own targets and no weights"):
        DistributedRidge(n_clients=2).fit(open_shards(tmp_path / "diabetes.svm"), Y)


@both
def test_more_clients_than_samples_and_nothing_to_learn(kind):
    model = kind(0.1, n_clients=5).fit(X[:3], Y[:3])
    assert model.duality_gap_ <= 1e-4
    constant = kind(0.1, n_clients=2).fit(X[:20], np.full(20, 7.0))
    np.testing.assert_allclose(constant.predict(X[:2]), 7.0)
    with pytest.raises(ValueError, match="needs one of positive weight"):
        kind(n_clients=2).fit(X, Y, np.zeros(Y.size))
    with pytest.raises(ValueError, match=r"y has values up to 1\.0e\+200, whose squares overflow"):
        kind(n_clients=2).fit(X[:5], np.array([1.0, 2.0, 3.0, 4.0, 1e200]))
    with pytest.raises(ValueError, match="The 'alpha' parameter"):
        kind(0.0).fit(X, Y)
    with pytest.raises(ValueError, match="The 'engine' parameter"):
        kind(engine="ray").fit(X, Y)
    with pytest.raises(ValueError, match="cannot solve this problem"):
        kind(solver="working_set", n_clients=2).fit(X, Y)


def test_a_strong_penalty_leaves_nothing():
    largest = np.abs(X.T @ (Y - Y.mean())).max() / Y.size
    assert not DistributedLasso(1.001 * largest, tol=1e-9, n_clients=3).fit(X, Y).coef_.any()
    assert DistributedLasso(0.98 * largest, tol=1e-9, n_clients=3).fit(X, Y).coef_.any()


@both
def test_models_are_saved_and_cloned(kind, tmp_path):
    model = clone(kind(0.3, n_clients=2)).fit(X, Y)
    save_model(model, tmp_path / "model.mm")
    again = load_model(tmp_path / "model.mm")
    assert type(again) is kind
    assert again.coef_.tobytes() == model.coef_.tobytes()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert certify(again, X, Y).relative_gap <= 1e-4
