"""Approximated kernel machines: exact certificates of functions of a few columns, against all functions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin
import maxmargin.io
import referee
import zoo
from maxmargin import SVC, SVR, Status, certify, leave_one_out

X, y = zoo.blobs(400, 4, seed=5, apart=0.6)


def approximated(**parameters):
    return SVC(**{"C": 10.0, "gamma": 0.2, "tol": 1e-6, "approximation": "nystroem", "rank": 20, **parameters})


@pytest.mark.parametrize("solver", ["auto", "dual_coordinate", "interior_point"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_certificate_is_that_of_the_whole_kernel(solver, loss):
    model = approximated(loss=loss, solver=solver).fit(X, y)
    assert model.status_ is Status.LOW_RANK
    assert model.support_.size <= 20
    described = referee.Machine(
        y, np.full(400, 10.0), (loss.replace("_", " "), 1.0), ("l2", 1.0), K=rbf_kernel(X, gamma=0.2), intercept="free"
    )
    w, solution = np.zeros(400), model.solution_
    w[model.support_] = model.dual_coef_[0]
    verdict = referee.judge(described, w, model.intercept_[0], solution.point.alpha)
    assert model.objective_ == pytest.approx(verdict.primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(verdict.dual, rel=1e-9)
    assert verdict.infeasibility <= 1e-9
    best = SVC(C=10.0, gamma=0.2, loss=loss, tol=1e-9).fit(X, y).objective_
    assert model.dual_objective_ <= best * (1.0 + 1e-8)
    assert model.objective_ >= best * (1.0 - 1e-8)
    again = certify(model, X, y)
    assert again.relative_gap == pytest.approx(model.duality_gap_, rel=1e-6)


def test_the_function_is_the_best_of_its_columns():
    """Among functions of the pivots: a linear problem with as many features."""
    model = approximated(rank=8, tol=1e-8).fit(X, y)
    K, pivots = rbf_kernel(X, gamma=0.2), model.support_
    L = np.linalg.cholesky(K[np.ix_(pivots, pivots)])
    G = np.linalg.solve(L, K[pivots]).T
    linear = SVC(C=10.0, kernel="linear", tol=1e-8).fit(G, y)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(G), atol=1e-2)


def test_gaps_fall_with_the_rank_until_the_tolerance_is_met():
    gaps = [approximated(rank=k, tol=1e-5).fit(X, y).duality_gap_ for k in (5, 30, 100)]
    assert gaps[0] > gaps[1] > gaps[2]
    whole = approximated(rank=400, gamma=2.0, tol=1e-4).fit(X, y)
    assert whole.status_ is Status.CONVERGED
    assert whole.duality_gap_ <= 1e-4


def test_regression_several_classes_weights_and_given_matrices():
    R, t = load_diabetes(return_X_y=True)
    regressor = SVR(C=100.0, gamma=5.0, approximation="nystroem", rank=60).fit(R, t)
    best = SVR(C=100.0, gamma=5.0, tol=1e-6).fit(R, t).objective_
    assert regressor.dual_objective_ <= best <= regressor.objective_ * (1.0 + 1e-6)
    flowers, k = load_iris(return_X_y=True)
    several = approximated(class_weight="balanced", rank=30).fit(flowers, k, np.linspace(0.5, 1.5, 150))
    assert len(several.solutions_) == 3
    assert certify(several, flowers, k, np.linspace(0.5, 1.5, 150)).relative_gap == pytest.approx(several.duality_gap_)
    by_value, by_name = (
        approximated(kernel=kernel).fit(given, y)
        for kernel, given in (("precomputed", rbf_kernel(X, gamma=0.2)), ("rbf", X))
    )
    assert by_value.objective_ == pytest.approx(by_name.objective_, rel=1e-6)
    assert by_value.predict(rbf_kernel(X[:7], X, gamma=0.2)).shape == (7,)


def test_equal_fits_give_equal_bits_and_models_are_stored(tmp_path):
    model, other = approximated().fit(X, y), approximated().fit(X, y)
    assert np.array_equal(model.dual_coef_, other.dual_coef_)
    assert not np.array_equal(model.support_, approximated(random_state=3).fit(X, y).support_)
    maxmargin.io.save_model(model, tmp_path / "model.mm")
    stored = maxmargin.io.load_model(tmp_path / "model.mm")
    assert (stored.approximation, stored.rank, stored.status_) == ("nystroem", 20, Status.LOW_RANK)
    assert np.array_equal(stored.decision_function(X), model.decision_function(X))
    assert certify(stored, X, y).relative_gap == pytest.approx(model.duality_gap_, rel=1e-6)


def test_little_memory_makes_a_factor_of_float32_with_a_true_certificate():
    model = approximated(cache_size=0.1).fit(X, y)
    assert certify(model, X, y).relative_gap == pytest.approx(model.duality_gap_, rel=1e-6)
    assert model.objective_ == pytest.approx(approximated().fit(X, y).objective_, rel=1e-3)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"rank": 0}, "'rank' parameter of SVC must be an int in the range"),
        ({"rank": 401}, "rank=401 is more than the 400 samples"),
        ({"approximation": "fourier"}, "'approximation' parameter"),
        ({"kernel": "linear"}, "cannot be combined with kernel='linear', which has features of its own"),
        ({"C": np.inf}, "cannot be combined with C=inf"),
        ({"probability": True}, "cannot be combined with probability=True"),
        ({"warm_start": True}, "cannot be combined with warm_start=True"),
        ({"cache_size": 0.01}, "The factor of rank 20 for 400 samples needs 0 megabytes, and cache_size is 0.01"),
        ({"solver": "active_set"}, "it needs a kernel matrix; this problem has rows of features"),
    ],
)
def test_what_cannot_be_is_refused(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        approximated(**parameters).fit(X, y)


def test_exact_methods_refuse_an_approximation():
    model = approximated().fit(X, y)
    for method in (
        lambda: leave_one_out(model, X, y),
        lambda: model.remove([0]),
        lambda: model.add(X[:2], y[:2]),
    ):
        with pytest.raises(ValueError, match="is exact, and approximation='nystroem' is not"):
            method()
    assert clone(model).rank == 20


def test_an_indefinite_kernel_is_refused_with_its_curvature():
    with pytest.raises(
        ValueError, match="needs a kernel matrix that is positive semi-definite, but it has a direction"
    ):
        approximated(kernel="sigmoid", gamma=0.5, coef0=0.1).fit(X, y)
