"""Leave-one-out and samples that come and go: equal to fits from nothing, certified, and refused in sentences."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_classification

import referee
from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, Status, leave_one_out
from maxmargin.solvers.kernels.active_set import left_out

examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def two_classes(n=70, seed=0):
    X, y = make_classification(n, 4, n_informative=3, n_redundant=0, flip_y=0.15, random_state=seed)
    return X, np.where(y > 0, 1.0, -1.0)


def targets(X, seed=0):
    return np.sin(X[:, 0]) + 0.2 * np.random.default_rng(seed).normal(size=len(X))


def refits(model, X, y, s=None):
    """Each sample scored by a fit from nothing without it."""
    out = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        weights = None if s is None else s[rest]
        if model.kernel == "precomputed":
            one = model.fit(X[np.ix_(rest, rest)], y[rest], weights)
            row = X[[i]][:, rest]
        else:
            one, row = model.fit(X[rest], y[rest], weights), X[[i]]
        out.append((one.decision_function if hasattr(one, "decision_function") else one.predict)(row)[0])
    return np.array(out)


EXACT = {"gamma": 0.3, "tol": 1e-11, "solver": "active_set"}
MODELS = {
    "C-SVC": SVC(C=5.0, **EXACT),
    "small C": SVC(C=0.1, **EXACT),
    "large C": SVC(C=1e3, **EXACT),
    "no intercept": SVC(C=5.0, intercept=None, **EXACT),
    "squared hinge": SVC(C=5.0, loss="squared_hinge", **EXACT),
    "linear": SVC(C=5.0, kernel="linear", tol=1e-11, solver="active_set"),
    "SVR": SVR(C=5.0, epsilon=0.1, **EXACT),
    "SVR, no tube": SVR(C=5.0, epsilon=0.0, **EXACT),
}


@pytest.mark.parametrize("name", MODELS)
def test_it_equals_refits(name):
    """Item 0-44: a few changes of the partition for each sample, no fit."""
    X, y = two_classes(50)
    model = MODELS[name]
    if isinstance(model, SVR):
        y = targets(X)
    model.fit(X, y)
    scores = leave_one_out(model, X, y)
    np.testing.assert_allclose(scores, refits(model, X, y), atol=1e-6 if "large" not in name else 1e-4)


def test_weights_and_a_kernel_matrix():
    X, y = two_classes(40)
    s = np.random.default_rng(0).uniform(0.2, 3.0, 40)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    model = SVC(C=5.0, kernel="precomputed", tol=1e-11, solver="active_set").fit(K, y, s)
    np.testing.assert_allclose(leave_one_out(model, K, y, s), refits(model, K, y, s), atol=1e-6)


@pytest.mark.parametrize("copies", [1, -1])
def test_duplicates(copies):
    """Bad input: every sample twice, with the same label or with both; margins of twins leave the multiplier free."""
    X, y = two_classes(25)
    X, y = np.vstack([X, X]), np.append(y, copies * y)
    model = SVC(C=2.0, **EXACT).fit(X, y)
    scores, truth = leave_one_out(model, X, y), refits(model, X, y)
    np.testing.assert_allclose(scores, truth, atol=1e-5)


def test_what_is_not_found_is_solved(monkeypatch):
    """Rows that need too many changes are solved anew, from the solution with them."""
    X, y = two_classes(50)
    model = SVC(C=5.0, **EXACT).fit(X, y)
    known = leave_one_out(model, X, y)
    monkeypatch.setattr(left_out, "_leave_out_each", lambda tableau, out: out.fill(np.nan))
    np.testing.assert_allclose(leave_one_out(model, X, y), known, atol=1e-7)


@pytest.mark.parametrize(
    "model",
    [NuSVC(nu=0.4, gamma=0.3, tol=1e-9), NuSVR(nu=0.4, gamma=0.3, tol=1e-9), OneClassSVM(nu=0.3, gamma=0.3, tol=1e-9)],
    ids=lambda m: type(m).__name__,
)
def test_other_machines_are_fitted_again(model):
    X, y = two_classes(30)
    y = targets(X) if isinstance(model, NuSVR) else y
    model.fit(X, y)
    scores = leave_one_out(model, X, y)
    assert scores.shape == (30,)
    i = int(model.support_[0])
    rest = np.arange(30) != i
    again = type(model)(**model.get_params()).fit(X[rest], y[rest])
    expected = (again.predict if isinstance(model, NuSVR) else again.decision_function)(X[[i]])[0]
    assert scores[i] == pytest.approx(expected, abs=1e-6)


def test_several_classes():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    model = SVC(C=2.0, gamma=0.3, tol=1e-8).fit(X, y)
    scores = leave_one_out(model, X, y)
    assert scores.shape == (50, 3)
    assert (scores.argmax(axis=1) == y).mean() > 0.8


def test_balanced_weights_and_bandwidth_stay():
    X, y = two_classes(60)
    model = SVC(class_weight="balanced", tol=1e-10).fit(X, y)
    fixed = SVC(gamma=model._gamma, class_weight=dict(zip(model.classes_, model.class_weight_, strict=True)), tol=1e-10)
    np.testing.assert_allclose(leave_one_out(model, X, y), refits(fixed, X, y), atol=1e-5)


def test_leave_one_out_refuses():
    X, y = two_classes(30)
    with pytest.raises(TypeError, match="is for kernel machines of maxmargin"):
        leave_one_out("model", X, y)
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="was fitted to samples of shape"):
        leave_one_out(model, X[:20], y[:20])


# Samples that come and go.


def judged(model, X, y, C, s=1.0):
    """The referee's gap of a model of the Gaussian kernel."""
    K = np.exp(-model._gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    alpha = np.zeros(len(y))
    coef = model.dual_coef_
    alpha[model.support_] = np.ravel(coef.toarray() if sp.issparse(coef) else coef)
    machine = referee.Machine(y, C * np.broadcast_to(s, y.shape), ("hinge", 1.0), ("l2", 1.0), K=K)
    return referee.judge(machine, alpha, model.intercept_[0], alpha).relative_gap


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_add_and_remove_equal_fits(layout):
    """Item 0-44: incremental and decremental learning is exact."""
    X, y = two_classes(100)
    model = SVC(C=5.0, gamma=0.3, tol=1e-9).fit(layout(X[:60]), y[:60])
    assert model.add(layout(X[60:]), y[60:]) is model
    assert model.status_ is Status.CONVERGED
    assert abs(judged(model, X, y, 5.0)) <= 2e-9
    assert model.solver == "auto"
    assert model.gamma == 0.3
    assert not model.warm_start
    model.remove(np.arange(20))
    assert abs(judged(model, X[20:], y[20:], 5.0)) <= 2e-9
    fresh = SVC(C=5.0, gamma=0.3, tol=1e-9).fit(X[20:], y[20:])
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(model.partition_.order.size, 80)
    model.add(layout(X[:1]), y[:1]).remove(-1)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X), atol=1e-4)


@examples
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=12), st.integers(0, 100))
def test_any_sequence_of_changes(changes, seed):
    X, y = two_classes(60, seed)
    inside = list(range(20))
    model = SVC(C=3.0, gamma=0.3, tol=1e-8).fit(X[inside], y[inside])
    for add, number in changes:
        outside = [i for i in range(60) if i not in inside]
        if add and outside:
            i = outside[number % len(outside)]
            model.add(X[[i]], y[[i]])
            inside.append(i)
        elif len({y[i] for k, i in enumerate(inside) if k != number % len(inside)}) == 2:
            model.remove([number % len(inside)])
            del inside[number % len(inside)]
        assert model.duality_gap_ <= 1e-8
    assert abs(judged(model, X[inside], y[inside], 3.0)) <= 2e-8


@pytest.mark.parametrize(
    "model",
    [
        SVR(C=3.0, epsilon=0.1), NuSVR(C=3.0, nu=0.4), NuSVC(nu=0.3), OneClassSVM(nu=0.3), SVC(kernel="linear"),
        SVC(loss="squared_hinge"), SVC(intercept=None), SVC(class_weight="balanced"),
    ],
    ids=lambda m: str(m)[:30],
)  # fmt: skip
def test_every_machine(model):
    X, y = two_classes(60)
    y = targets(X) if isinstance(model, SVR | NuSVR) else y
    model.set_params(tol=1e-8).fit(X[:50], y[:50])
    scale = model._gamma
    model.add(X[50:], None if isinstance(model, OneClassSVM) else y[50:])
    assert model.duality_gap_ <= 1e-8
    assert model._gamma == scale
    model.remove([3, 7])
    assert model.duality_gap_ <= 1e-8
    assert model.shape_fit_ == (58, 4)


def test_classes_weights_and_kernel_matrices():
    X, y = load_iris(return_X_y=True)
    model = SVC(tol=1e-8).fit(X[::2], y[::2]).add(X[1::2], y[1::2], sample_weight=np.full(75, 2.0))
    assert model.duality_gap_ <= 1e-8
    two = SVC(tol=1e-8).fit(X[:100], y[:100]).add(X[100:], y[100:])  # a third class
    assert two.classes_.size == 3
    assert two.duality_gap_ <= 1e-8
    X, y = two_classes(30)
    K = X @ X.T
    model = SVC(kernel="precomputed", tol=1e-8).fit(K[:20, :20], y[:20]).add(K[20:], y[20:])
    assert model.duality_gap_ <= 1e-8
    fresh = SVC(kernel="precomputed", tol=1e-8).fit(K, y)
    np.testing.assert_allclose(model.decision_function(K), fresh.decision_function(K), atol=1e-3)
    assert model.remove([0]).shape_fit_ == (29, 29)


def test_updates_refuse():
    X, y = two_classes(30)
    y[:29] = 1.0
    y[29] = -1.0
    model = SVC(C=1.0).fit(X, y)
    before = model.dual_coef_.copy()
    with pytest.raises(ValueError, match=r"would leave no sample of class -1\.0"):
        model.remove(29)
    with pytest.raises(ValueError, match="whole numbers of samples"):
        model.remove([30])
    with pytest.raises(ValueError, match="no sample at all"):
        model.remove(np.arange(30))
    with pytest.raises(ValueError, match="y has the shape"):
        model.add(X[:2], y[:1])
    with pytest.raises(ValueError, match="sample_weight has the shape"):
        model.add(X[:2], y[:2], sample_weight=[1.0])
    with pytest.raises(ValueError, match="features"):
        model.add(X[:2, :3], y[:2])
    with pytest.raises(ValueError, match="NaN"):
        model.add(np.full((1, 4), np.nan), [1.0])
    np.testing.assert_array_equal(model.dual_coef_, before)
    assert model.solver == "auto"
    with pytest.raises(ValueError, match="not stored with a model"):
        pickle.loads(pickle.dumps(model)).remove(0)
    X[model.support_[0]] += 1.0
    with pytest.raises(ValueError, match="changed in place"):
        model.remove(0)
