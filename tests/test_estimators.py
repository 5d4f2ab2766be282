"""SVC and LinearSVC: the same problems and the same attributes as scikit-learn's, with a certificate that is true.

Objectives are recomputed here in plain NumPy from the fitted attributes, in scikit-learn's layout of them.
"""

import functools
import inspect
import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import clocks
from maxmargin import SVC, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM, Record, Solution, Status
from maxmargin.loop.minimize import GRACE

TOL = 1e-6


@functools.cache
def data(name):
    X, y = {
        "iris": load_iris,
        "wine": load_wine,
        "cancer": load_breast_cancer,
        "digits": load_digits,
    }[name](return_X_y=True)
    if name == "digits":
        return X[:300] / 16.0, y[:300]
    return (X if name == "iris" else scale(X)), y


def gamma_of(X):
    return 1.0 / (X.shape[1] * X.var())


def gram(kernel, A, B, gamma):
    if kernel == "linear":
        return A @ B.T
    if kernel == "poly":
        return (gamma * (A @ B.T)) ** 3
    if kernel == "sigmoid":
        return np.tanh(gamma * (A @ B.T))
    return np.exp(-gamma * ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def parts(model, y, strategy="ovo"):
    """Members, signs, expansion and intercept of each binary problem, from the fitted attributes."""
    classes = np.unique(y)
    codes = np.searchsorted(classes, y)
    row = np.zeros((model.dual_coef_.shape[0], y.size))
    row[:, model.support_] = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    everything = np.arange(y.size)
    if classes.size == 2:
        return [(everything, np.where(codes == 1, 1.0, -1.0), row[0], model.intercept_[0])]
    if strategy == "ovr":
        return [(everything, np.where(codes == k, 1.0, -1.0), row[k], model.intercept_[k]) for k in range(classes.size)]
    found = []
    for k, (i, j) in enumerate(itertools.combinations(range(classes.size), 2)):
        members = np.flatnonzero((codes == i) | (codes == j))
        beta = np.where(codes[members] == i, row[j - 1, members], row[i, members])
        found.append((members, np.where(codes[members] == i, 1.0, -1.0), beta, model.intercept_[k]))
    return found


def values(K, signs, beta, b, s):
    """Primal and dual value of a support vector machine at an expansion."""
    f = K @ beta
    primal = 0.5 * beta @ f + s @ np.maximum(0.0, 1.0 - signs * (f + b))
    return primal, signs @ beta - 0.5 * beta @ f


def assert_certified(model, K, y, s, strategy="ovo"):
    """The reported numbers are those of the fitted attributes, whose dual variables are feasible."""
    problems = parts(model, y, strategy)
    assert len(problems) == len(model.solutions_)
    for (members, signs, beta, b), solution in zip(problems, model.solutions_, strict=True):
        primal, dual = values(K[np.ix_(members, members)], signs, beta, b, s[members])
        certificate = solution.certificate
        # Of rows of features, coefficients are judged apart from dual variables, whose sum they are up to the gap.
        exact = 1e-9 if solution.solver in ("decomposition", "smo", "smo_simplified") else solution.tol
        assert certificate.primal == pytest.approx(primal, rel=exact)
        assert certificate.dual == pytest.approx(dual, rel=2e-6)
        assert certificate.relative_gap <= solution.tol
        assert solution.status is Status.CONVERGED
        assert ((signs * beta >= 0.0) & (signs * beta <= s[members] * (1.0 + 1e-12))).all()
        assert abs(beta.sum()) <= 1e-6 * np.abs(beta).sum()


def assert_no_worse(model, reference, K, y, s):
    """The reference lies above our lower bound, and we are not above it."""
    for k, (members, signs, beta, b) in enumerate(parts(reference, y)):
        theirs, _ = values(K[np.ix_(members, members)], signs, beta, b, s[members])
        ours = model.solutions_[k].certificate
        assert theirs >= ours.dual - 1e-12 * abs(ours.dual)
        assert ours.primal <= theirs * (1.0 + 1e-5)
        assert theirs <= ours.primal * (1.0 + 1e-5)


# The same objective as scikit-learn


@pytest.mark.parametrize("name", ["iris", "wine", "cancer", "digits"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_svc_solves_the_problem_of_scikit_learn(name, kernel):
    X, y = data(name)
    model = SVC(kernel=kernel, tol=TOL).fit(X, y)
    reference = sklearn.svm.SVC(kernel=kernel, tol=1e-8).fit(X, y)
    K, s = gram(kernel, X, X, gamma_of(X)), np.ones(y.size)
    assert model.duality_gap_ <= TOL
    assert_certified(model, K, y, s)
    assert_no_worse(model, reference, K, y, s)
    np.testing.assert_allclose(model.decision_function(X), reference.decision_function(X), atol=2e-3)
    assert (model.predict(X) == reference.predict(X)).mean() >= 0.995


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_one_against_the_rest_solves_one_binary_problem_per_class(name, kernel):
    X, y = data(name)
    model = SVC(kernel=kernel, tol=TOL, multi_class="ovr").fit(X, y)
    K, s = gram(kernel, X, X, gamma_of(X)), np.ones(y.size)
    assert_certified(model, K, y, s, "ovr")
    scores = model.decision_function(X)
    assert scores.shape == (y.size, np.unique(y).size)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    for k in (0, 2):
        reference = sklearn.svm.SVC(kernel=kernel, tol=1e-8).fit(X, y == k)
        ((members, signs, beta, b),) = parts(reference, y == k)
        theirs, _ = values(K, signs, beta, b, s[members])
        assert model.solutions_[k].certificate.dual <= theirs * (1.0 + 1e-12)
        assert model.solutions_[k].certificate.primal == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("name", ["iris", "wine", "cancer"])
def test_a_sigmoid_kernel_ends_with_an_honest_status(name):
    """It is not positive semi-definite: a certificate that other points contradict must not be called one."""
    X, y = data(name)
    K, s = gram("sigmoid", X, X, gamma_of(X)), np.ones(y.size)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SVC(kernel="sigmoid", tol=TOL, max_time=5.0).fit(X, y)
    assert isinstance(model.status_, Status)
    assert len(caught) == (model.status_ is not Status.CONVERGED)
    reference = sklearn.svm.SVC(kernel="sigmoid", tol=1e-8).fit(X, y)
    for solution, (members, signs, beta, b) in zip(model.solutions_, parts(reference, y), strict=True):
        if solution.status is Status.CONVERGED:
            theirs, _ = values(K[np.ix_(members, members)], signs, beta, b, s[members])
            assert theirs >= solution.certificate.dual * (1.0 - 1e-9)


def test_an_indefinite_kernel_is_not_certified():
    """``[[1, 2], [2, 1]]`` has the eigenvalue -1. At zero the primal value is 20, so no lower bound exceeds that."""
    K, y = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([0, 1])
    try:
        model = SVC(kernel="precomputed", C=10.0, max_time=5.0).fit(K, y)
    except (ValueError, ConvergenceWarning):
        return
    assert model.status_ is not Status.CONVERGED or model.dual_objective_ <= 20.0


def test_precomputed_and_callable_kernels_are_the_kernel():
    X, y = data("wine")
    K = gram("rbf", X, X, gamma_of(X))
    named = SVC(tol=TOL).fit(X, y)
    precomputed = SVC(kernel="precomputed", tol=TOL).fit(K, y)
    called = SVC(kernel=lambda A, B: gram("rbf", A, B, gamma_of(X)), tol=TOL).fit(X, y)
    assert_certified(precomputed, K, y, np.ones(y.size))
    assert_certified(called, K, y, np.ones(y.size))
    for model, rows in ((precomputed, K), (called, X)):
        for ours, theirs in zip(model.solutions_, named.solutions_, strict=True):
            assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=2e-6)
        np.testing.assert_allclose(model.decision_function(rows[:40]), named.decision_function(X[:40]), atol=2e-3)
        np.testing.assert_array_equal(model.predict(rows), named.predict(X))
    assert precomputed.support_vectors_.shape == (0, 0)
    np.testing.assert_array_equal(called.support_vectors_, X[called.support_])


def test_a_kernel_that_is_always_the_same_is_solved():
    """Degree 0 makes every pair equal: nothing but the intercept can be learnt."""
    X, y = data("cancer")
    model = SVC(kernel="poly", degree=0, tol=TOL).fit(X, y)
    assert model.objective_ == pytest.approx(2.0 * min((y == 0).sum(), (y == 1).sum()), rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("store", [sp.csr_matrix, sp.csr_array, sp.csc_matrix])
def test_sparse_equals_dense(kernel, store):
    X, y = data("digits")
    dense = SVC(kernel=kernel, tol=TOL).fit(X, y)
    sparse = SVC(kernel=kernel, tol=TOL).fit(store(X), y)
    for ours, theirs in zip(sparse.solutions_, dense.solutions_, strict=True):
        assert ours.certificate.relative_gap <= TOL
        assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=3e-6)
    np.testing.assert_allclose(sparse.decision_function(store(X)), dense.decision_function(X), atol=2e-3)
    np.testing.assert_allclose(sparse.decision_function(X), sparse.decision_function(store(X)), atol=1e-12)
    assert sp.issparse(sparse.support_vectors_)
    assert isinstance(sparse.support_vectors_, sp.csr_matrix if store is not sp.csr_array else sp.csr_array)


def test_sparse_linear_equals_dense():
    X, y = data("digits")
    dense = LinearSVC(tol=TOL).fit(X, y)
    for store in (sp.csr_matrix, sp.csr_array):
        sparse = LinearSVC(tol=TOL).fit(store(X), y)
        assert sparse.duality_gap_ <= TOL
        np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=2e-3)
        np.testing.assert_array_equal(sparse.predict(store(X)), dense.predict(X))


@pytest.mark.parametrize("make", [SVC, functools.partial(SVC, kernel="linear"), LinearSVC])
def test_float32_is_solved_as_well_as_float64(make):
    X, y = data("wine")
    single, double = (
        make(tol=TOL).fit(X.astype(np.float32), y),
        make(tol=TOL).fit(X.astype(np.float32).astype(float), y),
    )
    assert single.duality_gap_ <= TOL
    for ours, theirs in zip(single.solutions_, double.solutions_, strict=True):
        assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=3e-6)
    assert single.decision_function(X.astype(np.float32)).dtype == np.float64


def test_integers_and_fortran_order_are_converted():
    X, y = data("iris")
    tenths = np.round(10.0 * X).astype(np.int64)
    expected = SVC(tol=TOL).fit(tenths.astype(float), y).decision_function(X)
    np.testing.assert_array_equal(SVC(tol=TOL).fit(tenths, y).decision_function(X), expected)
    np.testing.assert_array_equal(SVC(tol=TOL).fit(np.asfortranarray(tenths, float), y).decision_function(X), expected)


# LinearSVC and its intercepts


def linear_objective(X, y, w, b, s, loss, intercept, scaling=1.0):
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    norm = w @ w + ((b / scaling) ** 2 if intercept == "penalised" else 0.0)
    return 0.5 * norm + s @ (slack if loss == "hinge" else slack**2)


@pytest.mark.parametrize("name", ["iris", "wine", "cancer"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_svc_with_penalised_intercept_solves_the_problem_of_liblinear(name, loss):
    X, y = data(name)
    X = scale(X)
    model = LinearSVC(loss=loss, tol=TOL).fit(X, y)
    reference = sklearn.svm.LinearSVC(loss=loss, tol=1e-9, max_iter=1_000_000, random_state=0).fit(X, y)
    assert model.duality_gap_ <= TOL
    s = np.ones(y.size)
    for k, solution in enumerate(model.solutions_):
        signs = np.where(y == (k if np.unique(y).size > 2 else 1), 1.0, -1.0)
        ours = linear_objective(X, signs, model.coef_[k], model.intercept_[k], s, loss, "penalised")
        theirs = linear_objective(X, signs, reference.coef_[k], reference.intercept_[k], s, loss, "penalised")
        assert solution.certificate.primal == pytest.approx(ours, rel=1e-9)
        assert solution.certificate.dual <= theirs * (1.0 + 1e-12)
        assert ours <= theirs * (1.0 + TOL)
        assert theirs <= ours * (1.0 + 1e-4)  # LIBLINEAR's own stopping rule is not the gap
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=0.02)
    assert model.coef_.shape == reference.coef_.shape
    assert model.intercept_.shape == reference.intercept_.shape


@pytest.mark.parametrize("name", ["iris", "cancer"])
def test_linear_svc_with_free_intercept_is_svc(name):
    X, y = data(name)
    linear = LinearSVC(loss="hinge", intercept="free", multi_class="ovo", tol=TOL).fit(X, y)
    kernel = SVC(kernel="linear", solver="smo", tol=TOL).fit(X, y)
    for ours, theirs in zip(linear.solutions_, kernel.solutions_, strict=True):
        assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=2 * TOL)
        assert ours.certificate.dual <= theirs.certificate.primal
        assert theirs.certificate.dual <= ours.certificate.primal
    np.testing.assert_allclose(linear.coef_, kernel.coef_, atol=5e-3)


def test_without_intercept():
    X, y = data("cancer")
    signs = 2.0 * y - 1.0
    for model in (
        LinearSVC(loss="hinge", intercept=None, tol=TOL),
        LinearSVC(loss="hinge", fit_intercept=False, tol=TOL),
        SVC(kernel="linear", intercept=None, tol=TOL),
        SVC(kernel="linear", intercept=None, solver="smo", tol=TOL),
    ):
        model.fit(X, y)
        assert model.duality_gap_ <= TOL
        assert model.intercept_ == 0.0
        value = linear_objective(X, signs, model.coef_[0], 0.0, np.ones(y.size), "hinge", None)
        assert model.objective_ == pytest.approx(value, rel=1e-9)
    reference = sklearn.svm.LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6).fit(X, y)
    theirs = linear_objective(X, signs, reference.coef_[0], 0.0, np.ones(y.size), "hinge", None)
    assert model.dual_objective_ <= theirs * (1.0 + 1e-12)
    assert theirs <= model.objective_ * (1.0 + 1e-4)


def test_intercept_scaling_is_the_height_of_the_column():
    X, y = data("cancer")
    model = LinearSVC(intercept_scaling=3.0, tol=TOL).fit(X, y)
    by_hand = LinearSVC(intercept=None, tol=TOL).fit(np.c_[X, np.full(y.size, 3.0)], y)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=2 * TOL)
    assert model.intercept_[0] == pytest.approx(3.0 * by_hand.coef_[0, -1], abs=1e-3)


def test_a_penalised_intercept_of_svc_is_a_constant_added_to_the_kernel():
    X, y = data("cancer")
    K = gram("rbf", X, X, gamma_of(X))
    model = SVC(intercept="penalised", tol=TOL).fit(X, y)
    shifted = SVC(kernel="precomputed", intercept=None, tol=TOL).fit(K + 1.0, y)
    assert model.objective_ == pytest.approx(shifted.objective_, rel=2 * TOL)
    np.testing.assert_allclose(model.decision_function(X), shifted.decision_function(K + 1.0), atol=2e-3)


# Weights


@pytest.mark.parametrize("class_weight", [{0: 1.0, 1: 5.0, 2: 0.3}, {1: 4.0}, "balanced", None])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_of_svc_are_those_of_scikit_learn(class_weight, weighted, kernel):
    X, y = data("wine")
    weights = np.random.default_rng(0).uniform(0.1, 3.0, y.size) if weighted else np.ones(y.size)
    model = SVC(kernel=kernel, gamma=0.05, class_weight=class_weight, C=0.7, tol=TOL).fit(X, y, weights)
    if class_weight == "balanced":  # a sample counts as often as its weight says, so that weight 2 and two copies agree
        totals = np.bincount(y, weights=weights)
        per_class = weights.sum() / (3 * totals)
    else:
        per_class = np.array([(class_weight or {}).get(k, 1.0) for k in range(3)])
    np.testing.assert_allclose(model.class_weight_, per_class)
    reference = sklearn.svm.SVC(kernel=kernel, gamma=0.05, class_weight=dict(enumerate(per_class)), C=0.7, tol=1e-8)
    reference.fit(X, y, weights)
    np.testing.assert_allclose(model.class_weight_, reference.class_weight_)
    K, s = gram(kernel, X, X, 0.05), 0.7 * per_class[y] * weights
    assert_certified(model, K, y, s)
    assert_no_worse(model, reference, K, y, s)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_of_linear_svc_are_those_of_scikit_learn(loss):
    X, y = data("cancer")
    weights = np.random.default_rng(0).uniform(0.1, 3.0, y.size)
    settings = {"loss": loss, "class_weight": {0: 2.0, 1: 0.5}, "C": 0.3}
    model = LinearSVC(tol=TOL, **settings).fit(X, y, weights)
    reference = sklearn.svm.LinearSVC(tol=1e-9, max_iter=10**6, random_state=0, **settings).fit(X, y, weights)
    s, signs = 0.3 * np.array([2.0, 0.5])[y] * weights, 2.0 * y - 1.0
    ours = linear_objective(X, signs, model.coef_[0], model.intercept_[0], s, loss, "penalised")
    theirs = linear_objective(X, signs, reference.coef_[0], reference.intercept_[0], s, loss, "penalised")
    assert model.objective_ == pytest.approx(ours, rel=1e-9)
    assert model.dual_objective_ <= theirs * (1.0 + 1e-12)
    assert ours <= theirs * (1.0 + TOL)
    assert theirs <= ours * (1.0 + 1e-4)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("make", [SVC, functools.partial(SVC, kernel="linear"), LinearSVC])
def test_weight_k_is_k_copies(make, class_weight):
    """Also in what gamma="scale" means."""
    X, y = data("wine")
    k = np.random.default_rng(1).integers(0, 4, y.size)
    weighted = make(class_weight=class_weight, tol=1e-8).fit(X, y, k)
    copied = make(class_weight=class_weight, tol=1e-8).fit(np.repeat(X, k, axis=0), np.repeat(y, k))
    for ours, theirs in zip(weighted.solutions_, copied.solutions_, strict=True):
        assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=1e-7)
    np.testing.assert_allclose(weighted.decision_function(X), copied.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("make", [SVC, LinearSVC])
def test_one_number_as_weight_is_a_factor_of_C(make):
    X, y = data("cancer")
    assert make(tol=TOL).fit(X, y, 2.0).objective_ == pytest.approx(make(tol=TOL, C=2.0).fit(X, y).objective_, rel=2e-6)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix, sp.csc_array], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_gamma_scale_is_one_over_the_variance_wherever_the_data_are(offset, dtype, layout):
    """The variance of timestamps, 1e8 or so, must not drown in its own rounding."""
    rng = np.random.default_rng(0)
    X = (100.0 * rng.normal(size=(50, 3)) * (rng.random((50, 3)) < 0.7) + offset).astype(dtype)
    y, weights = np.arange(50) % 2, rng.integers(0, 4, 50)
    times = np.repeat(np.arange(50), weights)
    for sample_weight, counted in ((None, X), (weights, X[times])):
        model = SVC(max_time=5.0).fit(layout(X), y, sample_weight)
        assert model._gamma == pytest.approx(1.0 / (3.0 * float(counted.astype(np.longdouble).var())), rel=1e-12)
    copied = SVC(max_time=5.0).fit(layout(X[times]), y[times])
    assert model._gamma == pytest.approx(copied._gamma, rel=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("value", [1.0, 0.1, 1e8 / 3.0])
def test_gamma_scale_of_one_number_everywhere_is_1(value, layout):
    """The mean of equal numbers is rounded, and the squares of that are no variance."""
    for n, weights in ((10, None), (30, np.linspace(0.1, 3.0, 30)), (7, np.arange(7) + 0.3)):
        model = SVC(max_time=5.0).fit(layout(np.full((n, 3), value)), np.arange(n) % 2, weights)
        assert model._gamma == 1.0


# Fitted attributes


LEARNT = ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_")


def test_attributes_have_the_shapes_types_and_signs_of_scikit_learn():
    for name, kernel in itertools.product(("cancer", "iris", "digits"), ("rbf", "linear")):
        X, y = data(name)
        ours = SVC(kernel=kernel, tol=1e-8).fit(X, y)
        theirs = sklearn.svm.SVC(kernel=kernel, tol=1e-8).fit(X, y)
        for attribute in (*LEARNT, "classes_", "class_weight_", "n_iter_"):
            a, b = getattr(ours, attribute), getattr(theirs, attribute)
            assert type(a) is type(b), attribute
            assert a.dtype == b.dtype, attribute
            assert a.ndim == b.ndim, attribute
        assert ours.shape_fit_ == theirs.shape_fit_
        assert ours.fit_status_ == theirs.fit_status_ == 0
        assert ours.n_features_in_ == theirs.n_features_in_
        assert not hasattr(ours, "feature_names_in_")
        assert ours.n_iter_.shape == theirs.n_iter_.shape
        np.testing.assert_array_equal(ours.classes_, theirs.classes_)
        np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
        np.testing.assert_array_equal(ours.n_support_, np.bincount(y[ours.support_]))
        assert (np.diff(y[ours.support_]) >= 0).all()
        assert ours.dual_coef_.shape == (max(1, np.unique(y).size - 1), ours.support_.size)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-3)
        shared, mine, other = np.intersect1d(ours.support_, theirs.support_, return_indices=True)
        assert shared.size >= 0.9 * max(ours.support_.size, theirs.support_.size)
        if kernel == "rbf":  # its Gram matrix is regular, so the dual solution is unique
            np.testing.assert_allclose(ours.dual_coef_[:, mine], theirs.dual_coef_[:, other], atol=2e-3)
        if kernel == "linear":
            assert ours.coef_.shape == theirs.coef_.shape
            np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
        else:
            assert not hasattr(ours, "coef_")


def test_attributes_of_linear_svc():
    for name in ("cancer", "iris"):
        X, y = data(name)
        ours = LinearSVC(tol=1e-8).fit(scale(X), y)
        theirs = sklearn.svm.LinearSVC(tol=1e-8, max_iter=10**6).fit(scale(X), y)
        for attribute in ("coef_", "intercept_", "classes_"):
            a, b = getattr(ours, attribute), getattr(theirs, attribute)
            assert (type(a), a.dtype, a.shape) == (type(b), b.dtype, b.shape)
        assert type(ours.n_iter_) is int
        assert ours.n_features_in_ == theirs.n_features_in_
        signs = [np.where(y == k, 1.0, -1.0) for k in ([1] if name == "cancer" else [0, 1, 2])]
        assert ours.dual_coef_.shape == (len(signs), ours.support_.size)
        for k, y_k in enumerate(signs):
            assert (y_k[ours.support_] * ours.dual_coef_[k] >= 0.0).all()
        np.testing.assert_allclose(ours.dual_coef_ @ scale(X)[ours.support_], ours.coef_, atol=1e-9)
        np.testing.assert_allclose(ours.dual_coef_.sum(axis=1), ours.intercept_, atol=1e-9)


@pytest.mark.parametrize("solver", ["newton", "dual_coordinate"])
def test_iterations_are_counted_not_assumed(solver):
    """A limit of ``n_iter_`` is not felt. One orthogonal sample per class is solved in a few; nothing moves then."""
    X, y = data("wine")
    free = LinearSVC(solver=solver, tol=TOL).fit(X, y)
    bounded = LinearSVC(solver=solver, tol=TOL, max_iter=free.n_iter_).fit(X, y)
    np.testing.assert_array_equal(free.coef_, bounded.coef_)
    tiny = LinearSVC(solver=solver, loss="hinge", intercept=None, tol=TOL).fit(np.eye(2), [0, 1])
    assert 1 <= tiny.n_iter_ <= 100


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("name", ["iris", "digits"])
def test_decision_function_is_that_of_scikit_learn(name, shape):
    X, y = data(name)
    ours = SVC(tol=1e-8, decision_function_shape=shape).fit(X, y).decision_function(X)
    theirs = sklearn.svm.SVC(tol=1e-8, decision_function_shape=shape).fit(X, y).decision_function(X)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def three_sectors():
    """Three classes around the origin, in the middle of which each wins one of the three duels."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0.0, 2.0 * np.pi, 90)
    X = np.c_[np.cos(angle), np.sin(angle)] * rng.uniform(0.5, 2.0, (90, 1))
    grid = np.stack(np.meshgrid(np.linspace(-0.4, 0.4, 41), np.linspace(-0.4, 0.4, 41)), axis=-1).reshape(-1, 2)
    return X, (angle // (2.0 * np.pi / 3.0)).astype(int), grid


def test_ties_are_broken_by_scores_if_wanted():
    X, y, grid = three_sectors()
    first, broken = SVC(tol=1e-8).fit(X, y), SVC(tol=1e-8, break_ties=True).fit(X, y)
    scores = broken.decision_function(grid)
    np.testing.assert_array_equal(broken.predict(grid), scores.argmax(axis=1))
    tied = np.round(scores).astype(int).min(axis=1) == 1  # every class has one vote
    assert 0 < tied.sum() < grid.shape[0]
    assert (first.predict(grid)[tied] == 0).all()
    assert len(set(broken.predict(grid)[tied])) > 1
    sure = np.abs(SVC(tol=1e-8, decision_function_shape="ovo").fit(X, y).decision_function(grid)).min(axis=1) > 1e-4
    for model, ties in ((first, False), (broken, True)):
        theirs = sklearn.svm.SVC(tol=1e-8, break_ties=ties).fit(X, y).predict(grid)
        np.testing.assert_array_equal(model.predict(grid)[sure], theirs[sure])


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(),
        LinearSVC(multi_class="ovo"),
        SVC(multi_class="ovr"),
        SVC(break_ties=True),
        SVC(kernel="linear", multi_class="ovr"),
    ],
    ids=str,
)
def test_predict_is_argmax(model):
    X, y, grid = three_sectors()
    names = np.array(["left", "middle", "right"])
    model.fit(X, names[y])
    np.testing.assert_array_equal(model.predict(grid), model.classes_[model.decision_function(grid).argmax(axis=1)])
    assert model.score(X, names[y]) > 0.6


@pytest.mark.parametrize("make", [SVC, LinearSVC])
def test_two_classes_are_told_apart_by_the_sign(make):
    X, y = data("cancer")
    model = make().fit(X, np.array(["no", "yes"])[y])
    scores = model.decision_function(X)
    assert scores.shape == y.shape
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0.0, "yes", "no"))


# The constructor


@pytest.mark.parametrize(
    ("ours", "theirs", "different"),
    [(SVC, sklearn.svm.SVC, {"probability", "cache_size", "tol"}), (LinearSVC, sklearn.svm.LinearSVC, {"max_iter"})],
)
def test_arguments_are_those_of_scikit_learn_and_more(ours, theirs, different):
    mine, other = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert set(other) <= set(mine)
    for name, parameter in other.items():
        if name not in different:
            assert mine[name].default == parameter.default, name
        assert mine[name].kind == parameter.kind, name
        assert f"{name} : " in ours.__doc__
    for name in set(mine) - set(other):
        assert mine[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"{name} : " in ours.__doc__


def test_documented_defaults_are_true():
    for model in (SVC, LinearSVC):
        for name, parameter in inspect.signature(model).parameters.items():
            line = next(line for line in model.__doc__.splitlines() if line.strip().startswith(f"{name} : "))
            documented = eval(line.split("default=")[1])
            assert documented == parameter.default, name


# Certificates


@pytest.mark.parametrize("model", [SVC(tol=1e-5), LinearSVC(tol=1e-5)], ids=str)
@pytest.mark.parametrize("name", ["iris", "cancer"])
def test_certified_attributes_agree_with_each_other(model, name):
    X, y = data(name)
    model.fit(X, y)
    assert all(isinstance(solution, Solution) for solution in model.solutions_)
    assert len(model.solutions_) == (1 if name == "cancer" else 3)
    worst = max(model.solutions_, key=lambda s: s.certificate.relative_gap)
    assert model.solution_ is worst
    assert model.duality_gap_ == worst.certificate.relative_gap
    gap = model.objective_ - model.dual_objective_ + worst.certificate.error
    assert model.duality_gap_ == pytest.approx(gap / model.objective_, abs=1e-15)
    assert (model.objective_, model.dual_objective_) == (worst.certificate.primal, worst.certificate.dual)
    assert model.status_ is worst.status is Status.CONVERGED
    assert "relative gap" in worst.message
    np.testing.assert_array_equal(model.intercept_, [s.point.b for s in model.solutions_])
    assert np.max(model.n_iter_) == max(s.iterations for s in model.solutions_)
    for solution in model.solutions_:
        assert solution.tol == model.tol
        certified = [record for record in solution.history if record.certified]
        assert min(record.relative_gap for record in certified) == solution.certificate.relative_gap
        assert [r.seconds for r in solution.history] == sorted(r.seconds for r in solution.history)


@pytest.mark.parametrize("solver", ["newton", "dual_coordinate", "smo"])
@pytest.mark.parametrize("max_iter", [-1, 1, 4])
def test_what_predicts_is_what_was_certified(solver, max_iter):
    """Converged or not, the scores of SVC(kernel="linear") belong to the certified primal value."""
    X, y = data("cancer")
    model = SVC(kernel="linear", C=100.0, tol=1e-4, solver=solver, max_iter=max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    slack = np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * model.decision_function(X))
    assert model.objective_ == pytest.approx(0.5 * (model.coef_**2).sum() + 100.0 * slack.sum(), rel=1e-7)


@pytest.mark.parametrize("model", [SVC(), SVC(kernel="linear"), LinearSVC()], ids=str)
def test_a_fit_that_is_cut_short_is_honest(model):
    X, y = data("cancer")
    model.set_params(max_iter=3, tol=1e-9, C=100.0)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.duality_gap_ > 1e-9
    best = SVC(kernel=getattr(model, "kernel", "linear"), C=100.0, tol=TOL)
    if isinstance(model, LinearSVC):
        best = LinearSVC(C=100.0, tol=TOL)
    best.fit(X, y)
    assert model.dual_objective_ <= best.objective_ * (1.0 + 1e-12)
    assert model.objective_ >= best.dual_objective_ * (1.0 - 1e-12)
    assert np.max(model.n_iter_) <= 3
    assert getattr(model, "fit_status_", 1) == 1


# Warm start, limits, callbacks, randomness


@pytest.mark.parametrize("model", [SVC(C=100.0), LinearSVC(C=100.0)], ids=str)
def test_warm_start_resumes_a_fit_that_max_iter_cut(model):
    X, y = data("cancer")
    cold = model.set_params(tol=1e-7).fit(X, y)
    needed, coefficients = int(np.max(cold.n_iter_)), cold.decision_function(X)
    model.set_params(warm_start=True, max_iter=max(1, needed // 2))
    del model.solutions_
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    cut = model.duality_gap_
    model.set_params(max_iter=-1).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.duality_gap_ <= 1e-7 < cut
    np.testing.assert_allclose(model.decision_function(X), coefficients, atol=2e-3)
    # Once it has converged, there is nothing left to do.
    assert np.max(model.fit(X, y).n_iter_) == 0


def test_a_chain_of_short_fits_arrives():
    X, y = data("wine")
    model = SVC(C=10.0, tol=1e-7, warm_start=True, max_iter=20, solver="smo")
    gaps = []
    for _ in range(200):
        try:
            model.fit(X, y)
        except ConvergenceWarning:
            gaps.append(model.duality_gap_)
        else:
            break
    assert model.status_ is Status.CONVERGED
    assert len(gaps) > 2
    assert gaps[-1] < gaps[0]


def test_without_warm_start_a_fit_does_not_remember():
    X, y = data("wine")
    model = SVC(tol=TOL)
    first = model.fit(X, y).decision_function(X)
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), first)
    assert (model.n_iter_ > 0).all()


def test_warm_start_survives_other_data():
    X, y = data("iris")
    model = SVC(warm_start=True, tol=TOL).fit(X, y)
    for rows, labels in ((X[50:], y[50:]), (X[::2], y[::2]), (X, y[::-1]), (X, (y == 1))):
        model.fit(rows, labels)
        fresh = SVC(tol=TOL).fit(rows, labels)
        assert model.duality_gap_ <= TOL
        # Which of several problems has the largest gap is chance.
        values = ([one.certificate.primal for one in fitted.solutions_] for fitted in (model, fresh))
        np.testing.assert_allclose(*values, rtol=1e-3)
        assert model.score(rows, labels) == pytest.approx(fresh.score(rows, labels), abs=0.02)


@functools.cache
def hard():
    """Pure noise with a large C: no solver is done within a second."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(2000, 20)), rng.integers(0, 2, 2000), rng.integers(0, 3, 2000)


slow_svc = functools.partial(SVC, kernel="linear", solver="smo", C=1e3)
slow_linear_svc = functools.partial(LinearSVC, solver="dual_coordinate", loss="hinge", C=1e5)


@pytest.mark.parametrize("strategy", ["binary", "ovo", "ovr"])
@pytest.mark.parametrize("make", [slow_svc, slow_linear_svc])
def test_max_time_is_kept_and_the_fit_can_be_resumed(make, strategy, monkeypatch):
    X, y, y3 = hard()
    if strategy != "binary":
        y = y3
    model = make(tol=1e-9, max_time=1.0, multi_class=strategy if strategy != "binary" else "ovr", warm_start=True)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        clone(model).set_params(max_iter=1, max_time=None).fit(X, y)  # compiling reads the clock, too
    clock = clocks.put(monkeypatch, 0.0002 if make is slow_svc else 0.005)  # it looks at the clock between rows
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.fit(X, y)
    assert clock.now < 1.0 + 2.0 * GRACE  # of a round, and of its certificate
    assert model.status_ is Status.MAX_TIME
    assert sum(solution.seconds for solution in model.solutions_) >= 0.5
    assert 1e-9 < model.duality_gap_ <= 2.0
    assert len(model.solutions_) == (1 if strategy == "binary" else 3)
    before = model.dual_objective_
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.fit(X, y)
    if strategy == "binary":
        assert model.dual_objective_ > before


@pytest.mark.parametrize("make", [slow_svc, slow_linear_svc])
def test_a_callback_sees_the_records_and_stops_the_fit(make):
    X, y = hard()[:2]
    records = []

    def callback(record):
        records.append(record)
        return len(records) >= 3

    model = make(tol=1e-9, callback=callback, max_time=20.0)
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(X, y)
    assert model.status_ is Status.CALLBACK
    assert len(records) == 3
    assert all(isinstance(record, Record) for record in records)
    assert records[-1].iterations == np.max(model.n_iter_)
    assert 0.0 < model.duality_gap_ <= 2.0


@pytest.mark.parametrize("make", [SVC, LinearSVC])
def test_a_callback_sees_every_round_of_a_fit_that_converges(make):
    """Also the last one, which may be the only one."""
    X, y = data("cancer")
    records = []
    model = make(callback=records.append).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert records
    assert records[-1].iterations == np.max(model.n_iter_)
    assert records[-1].relative_gap == model.duality_gap_


def test_a_callback_that_stops_one_problem_stops_all_of_them():
    X, _, y = hard()
    model = slow_svc(tol=1e-9, callback=lambda record: True, max_time=20.0)
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(X, y)
    assert [s.iterations > 0 for s in model.solutions_] == [True, False, False]
    assert model.predict(X).shape == y.shape
    assert model.status_ is Status.CALLBACK  # the reason, not what followed from it


def test_the_warning_points_at_the_line_that_called_fit():
    X, y = data("cancer")
    with pytest.warns(ConvergenceWarning) as caught:
        SVC(max_iter=1).fit(X, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("model", [LinearSVC(), LinearSVC(solver="dual_coordinate"), SVC()], ids=str)
def test_the_same_seed_gives_the_same_bits(model):
    X, y = data("wine")
    seeds = (None, None, 0, 7, 7, np.random.RandomState(3), np.random.RandomState(3))
    fits = [model.set_params(random_state=seed).fit(X, y).decision_function(X) for seed in seeds]
    for i, j in ((0, 1), (3, 4), (5, 6)):
        np.testing.assert_array_equal(fits[i], fits[j])


def test_another_seed_gives_another_order():
    X, y = data("cancer")
    a, b = (LinearSVC(solver="dual_coordinate", random_state=k).fit(X, y).coef_ for k in (0, 1))
    assert not np.array_equal(a, b)
    np.testing.assert_allclose(a, b, atol=0.05)


def test_shrinking_and_a_small_cache_do_not_change_the_result():
    X, y = data("digits")
    expected = SVC(tol=1e-8).fit(X, y)
    for model in (SVC(tol=1e-8, shrinking=False), SVC(tol=1e-8, cache_size=1e-3)):
        model.fit(X, y)
        assert model.duality_gap_ <= 1e-8
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_default_fits_of_unscaled_data_reach_their_tolerance(kernel):
    """The first thing that many users do."""
    for load in (load_iris, load_wine, load_breast_cancer):
        model = SVC(kernel=kernel, max_time=30.0).fit(*load(return_X_y=True))
        assert model.duality_gap_ <= 1e-3


@pytest.mark.parametrize("solver", ["auto", "smo", "decomposition"])
@pytest.mark.parametrize("tol", [0.5, 1.0, 100.0])
def test_a_loose_tolerance_is_not_met_by_the_function_zero(solver, tol):
    X, y = load_iris(return_X_y=True)
    model = SVC(tol=tol, solver=solver).fit(X, y)
    assert model.duality_gap_ <= 0.1
    assert model.support_.size > 0
    assert all(np.abs(row).sum() > 0.0 for row in model.dual_coef_)
    assert SVR(tol=tol).fit(X, X[:, 0]).duality_gap_ <= 0.1


@pytest.mark.parametrize("kind", [SVC, SVR, NuSVC, NuSVR, OneClassSVM])
def test_kernel_machines_prove_four_digits_by_default(kind):
    X, y = load_iris(return_X_y=True)
    assert kind(**({"nu": 0.1} if kind is NuSVC else {})).fit(X, y).duality_gap_ <= 1e-4
