"""LogisticRegression: the problems of scikit-learn's, with a certificate that plain NumPy confirms."""

import inspect

import numpy as np
import pytest
import sklearn.linear_model
from scipy.sparse import csr_array
from scipy.special import entr, expit, log_softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import referee
from maxmargin import LogisticRegression, Status, certify

TOL = 1e-10


@pytest.fixture(scope="module")
def two():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:250], y[:250]


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def binary_values(model, X, y, s, alpha):
    """Primal and dual value of two classes with a free intercept."""
    t = 2.0 * y - 1.0
    w, b = model.coef_[0], model.intercept_[0]
    primal = s @ np.logaddexp(0.0, -t * (X @ w + b)) + 0.5 * w @ w
    p = t * alpha / s
    dual = s @ (entr(p) + entr(1.0 - p)) - 0.5 * ((X.T @ alpha) ** 2).sum()
    return primal, dual, max(np.maximum(-p, 0.0).max(), np.maximum(p - 1.0, 0.0).max(), abs(alpha.sum()))


@pytest.mark.parametrize("settings", [{}, {"dual": True}, {"solver": "newton"}, {"solver": "dual_coordinate"}], ids=str)
def test_two_classes_have_a_true_certificate(settings, two):
    X, y = two
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    model = LogisticRegression(C=0.5, tol=1e-7, **settings).fit(X, y, weights)
    primal, dual, infeasible = binary_values(model, X, y, 0.5 * weights, model.solution_.point.alpha)
    by_coordinates = settings in ({"dual": True}, {"solver": "dual_coordinate"})
    assert model.solution_.solver == ("dual_coordinate" if by_coordinates else "newton")
    assert infeasible <= 1e-9
    assert model.objective_ == pytest.approx(primal, rel=1e-11)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)
    assert model.duality_gap_ <= 1e-7


def test_three_classes_have_a_true_certificate(three):
    X, y = three
    model = LogisticRegression(C=2.0, tol=1e-9, class_weight={0: 1.0, 1: 3.0, 2: 0.5}).fit(X, y)
    s = 2.0 * np.array([1.0, 3.0, 0.5])[y]
    A = model.solution_.point.alpha.reshape(-1, 3)
    primal, dual, _ = referee.softmax_values(X, y, 3, model.coef_, model.intercept_, A, s, "free", 1.0)
    assert model.objective_ == pytest.approx(primal, rel=1e-11)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-8)
    assert model.duality_gap_ <= 1e-9
    np.testing.assert_allclose(A.T @ X, model.coef_, atol=1e-4)
    np.testing.assert_allclose(A, s[:, None] * (np.eye(3)[y] - model.predict_proba(X)), atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("data", ["two", "three"])
def test_agrees_with_scikit_learn(data, C, fit_intercept, request):
    X, y = request.getfixturevalue(data)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    settings = {"C": C, "fit_intercept": fit_intercept}
    ours = LogisticRegression(tol=TOL, **settings).fit(X, y, weights)
    theirs = sklearn.linear_model.LogisticRegression(tol=1e-12, max_iter=10**5, solver="newton-cholesky", **settings)
    theirs.fit(X, y, weights)
    k, s = ours.classes_.size, C * weights
    if k == 2:
        value = s @ np.logaddexp(0.0, -(2.0 * y - 1.0) * theirs.decision_function(X)) + 0.5 * (theirs.coef_**2).sum()
    else:
        logs = log_softmax(theirs.decision_function(X), axis=1)[np.arange(y.size), y]
        value = -s @ logs + 0.5 * (theirs.coef_**2).sum()
    assert value >= ours.dual_objective_ * (1.0 - 1e-13)
    assert value == pytest.approx(ours.objective_, rel=1e-8)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert ours.n_iter_.dtype == np.int32
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_liblinear_means_its_problem(two):
    X, y = two
    settings = {"intercept_scaling": 2.0, "solver": "liblinear"}
    ours = LogisticRegression(tol=TOL, **settings).fit(X, y)
    theirs = sklearn.linear_model.LogisticRegression(tol=1e-10, max_iter=10**5, **settings).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    explicit = LogisticRegression(tol=TOL, intercept="penalised", intercept_scaling=2.0).fit(X, y)
    assert explicit.objective_ == pytest.approx(ours.objective_, rel=1e-12)
    assert LogisticRegression(tol=TOL).fit(X, y).objective_ < ours.objective_


def test_one_against_the_rest_is_a_binary_problem_per_class(three):
    X, y = three
    model = LogisticRegression(multi_class="ovr", tol=1e-9, n_jobs=2).fit(X, y)
    for k in range(3):
        single = LogisticRegression(tol=1e-9).fit(X, y == k)
        assert model.solutions_[k].certificate.primal == pytest.approx(single.objective_, rel=2e-9)
        np.testing.assert_allclose(model.coef_[k], single.coef_[0], atol=1e-4)
    p = expit(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1, keepdims=True), rtol=1e-12)
    assert model.n_iter_.shape == (3,)
    alone = LogisticRegression(multi_class="ovr", tol=1e-9, n_jobs=1).fit(X, y)
    assert alone.coef_.tobytes() == model.coef_.tobytes()


def test_probabilities_of_extreme_scores(two, three):
    for (X, y), settings in ((two, {}), (three, {}), (three, {"multi_class": "ovr"})):
        model = LogisticRegression(C=1e4, **settings).fit(X, y)
        far = 1e4 * X
        p, logs = model.predict_proba(far), model.predict_log_proba(far)
        assert np.isfinite(logs).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        chosen = np.searchsorted(model.classes_, model.predict(far))
        np.testing.assert_array_equal(logs[np.arange(y.size), chosen], logs.max(axis=1))


@pytest.mark.parametrize("multi_class", ["multinomial", "ovr"])
def test_a_weight_of_two_is_the_sample_twice(multi_class, three):
    X, y = three
    weights = np.random.default_rng(1).integers(0, 4, y.size)
    model = LogisticRegression(multi_class=multi_class, class_weight="balanced", tol=TOL)
    weighted = model.fit(X, y, weights).coef_
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).coef_
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_separable_data_with_a_large_C(n_classes, three):
    X, y = three
    X, y = (X[y != 1], y[y != 1]) if n_classes == 2 else (np.r_[X, 30.0 * np.eye(4)[:3]], np.r_[y, 0, 1, 2])
    model = LogisticRegression(C=1e6, tol=1e-8).fit(X, y)
    assert model.status_ is Status.CONVERGED
    if n_classes == 2:
        assert model.score(X, y) == 1.0


def test_names_of_classes_and_many_of_them():
    X, y = load_digits(return_X_y=True)
    names = np.array([f"digit {k}" for k in range(10)])
    model = LogisticRegression(C=0.01, tol=1e-8).fit(X[:600], names[y[:600]])
    assert model.status_ is Status.CONVERGED
    assert model.coef_.shape == (10, 64)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-10)
    assert set(model.predict(X[600:])) <= set(names)


def test_arguments_are_those_of_scikit_learn_and_more():
    ours = inspect.signature(LogisticRegression).parameters
    theirs = inspect.signature(sklearn.linear_model.LogisticRegression).parameters
    assert set(theirs) <= set(ours)
    for name, parameter in ours.items():
        line = next(line for line in LogisticRegression.__doc__.splitlines() if line.strip().startswith(f"{name} : "))
        assert eval(line.split("default=")[1]) == parameter.default, name
        if name in theirs:
            assert parameter.kind == theirs[name].kind, name
            different = ("max_iter", "solver", "penalty", "multi_class")
            assert parameter.default == theirs[name].default or name in different, name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": 0.0}, "The 'C' parameter of LogisticRegression"),
        ({"dual": True}, "dual=True solves problems of two classes, and y has 3"),
        ({"solver": "newton"}, "solver='newton' solves problems of two classes, and y has 3; use multi_class='ovr'"),
        ({"solver": "nonsense", "multi_class": "ovr"}, "solver='nonsense' is unknown"),
        ({"dual": True, "solver": "newton"}, "dual=True contradicts solver='newton'"),
        ({"fit_intercept": False, "intercept": "free"}, "fit_intercept=False contradicts intercept='free'"),
        ({"multi_class": "ovo"}, "The 'multi_class' parameter of LogisticRegression must be a str among"),
    ],
    ids=str,
)
def test_refusals(settings, message, three):
    model = LogisticRegression(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(*three)
    assert not hasattr(model, "coef_")


def test_warm_start_resumes_and_survives_other_problems(two, three):
    X, y = three
    model = LogisticRegression(C=100.0, tol=1e-9, max_iter=2, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="Stopped at the iteration limit"):
        model.fit(X, y)
    cut = model.objective_
    model.set_params(max_iter=-1).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.solution_.history[0].primal <= cut * (1.0 + 1e-12)
    for rows, labels in ((X[:, :2], y), (X[:99], y[:99] % 2), two, (X, y)):
        model.fit(rows, labels)
        fresh = LogisticRegression(C=100.0, tol=1e-9).fit(rows, labels)
        assert model.objective_ == pytest.approx(fresh.objective_, rel=2e-9)


@pytest.mark.parametrize("data", ["two", "three"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_certify_judges_both_libraries(data, fit_intercept, request):
    X, y = request.getfixturevalue(data)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, y.size)
    settings = {"C": 3.0, "fit_intercept": fit_intercept, "class_weight": {0: 2.0}}
    ours = LogisticRegression(tol=1e-9, **settings).fit(X, y, weights)
    verdict = certify(ours, X, y, weights)
    assert verdict.relative_gap <= 1e-9
    assert verdict.primal == pytest.approx(ours.objective_, rel=1e-12)
    theirs = sklearn.linear_model.LogisticRegression(tol=1e-8, max_iter=10**4, **settings).fit(X, y, weights)
    other = certify(theirs, X, y, weights)
    assert other.problem == verdict.problem
    assert other.relative_gap <= 1e-6
    assert max(verdict.dual, other.dual) <= min(verdict.primal, other.primal) * (1.0 + 1e-12)
    for model in (ours, theirs):
        model.coef_ = model.coef_ * 0.9
        assert certify(model, X, y, weights).relative_gap > 1e-4


def test_certify_judges_one_against_the_rest(three):
    X, y = three
    model = LogisticRegression(multi_class="ovr", tol=1e-8).fit(X, y)
    verdict = certify(model, X, y)
    assert len(verdict.certificates) == 3
    assert verdict.relative_gap <= 1e-8


@pytest.mark.parametrize("load", [load_wine, load_iris, load_digits])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_ordinary_data_as_they_come(load, C):
    X, y = load(return_X_y=True)
    model = LogisticRegression(C=C, tol=1e-8, max_time=30.0).fit(X, y)
    assert model.status_ is Status.CONVERGED


@pytest.mark.parametrize(
    "store", [csr_array, lambda X: X.astype(np.float32), lambda X: csr_array(X.astype(np.float32))]
)
def test_storage_does_not_matter(store, three):
    X, y = three
    X = X.astype(np.float32).astype(np.float64)
    dense, other = (LogisticRegression(tol=TOL).fit(rows, y) for rows in (X, store(X)))
    assert dense.objective_ == pytest.approx(other.objective_, rel=1e-10)
    np.testing.assert_allclose(dense.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(dense.predict_proba(X), other.predict_proba(store(X)), atol=1e-5)
