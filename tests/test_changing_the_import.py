"""What breaks users of scikit-learn who only change the import: one test for each way in which it once did."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

import maxmargin
from maxmargin import (
    SVC,
    SVR,
    Lasso,
    LinearRegression,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    OneClassSVM,
    Ridge,
    RidgeClassifier,
    certify,
)
from maxmargin.io import load_model, save_model


def iris():
    X, y = load_iris(return_X_y=True)
    return X, y


# Sparse in, sparse out


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("make", [SVC, SVR, OneClassSVM])
def test_attributes_of_machines_fitted_to_sparse_samples_are_sparse(make, container):
    X, y = iris()
    arguments = () if make is OneClassSVM else (y,)
    dense, sparse = make(kernel="linear").fit(X, *arguments), make(kernel="linear").fit(container(X), *arguments)
    for name in ("support_vectors_", "dual_coef_", "coef_"):
        attribute = getattr(sparse, name)
        assert isinstance(attribute, container), name
        assert attribute.shape == getattr(dense, name).shape
    np.testing.assert_allclose(sparse.coef_.toarray(), dense.coef_, atol=1e-2)
    score = "predict" if make is SVR else "decision_function"
    np.testing.assert_allclose(getattr(sparse, score)(X), getattr(dense, score)(X), atol=0.02)
    assert certify(sparse, container(X), *arguments).relative_gap <= 1.01e-3


def test_coefficients_of_kernel_machines_cannot_be_set():
    model = SVC(kernel="linear").fit(*iris())
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[0, 0] = 1.0
    with pytest.raises(AttributeError):
        model.coef_ = np.ones(4)


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC, LinearSVR])
def test_coefficients_are_made_sparse_and_dense_again(make, tmp_path):
    X, y = scale(iris()[0]), iris()[1]
    model = make().fit(X, y)
    scores = model.predict(X)
    coefficients = model.coef_.copy()
    assert model.sparsify() is model.sparsify()
    assert sp.issparse(model.coef_)
    np.testing.assert_allclose(model.predict(X), scores, rtol=1e-12)
    np.testing.assert_allclose(model.predict(sp.csr_array(X)), scores, rtol=1e-12)
    assert certify(model, X, y).relative_gap == pytest.approx(certify(model.densify(), X, y).relative_gap)
    np.testing.assert_array_equal(model.coef_, coefficients)
    save_model(model.sparsify(), tmp_path / "model.mm")
    np.testing.assert_allclose(load_model(tmp_path / "model.mm").predict(X), scores, rtol=1e-12)


def test_features_are_selected_by_sparse_coefficients():
    X, y = iris()
    model = LogisticRegression().fit(X, y)
    by_array = SelectFromModel(model, prefit=True).transform(X)
    np.testing.assert_array_equal(SelectFromModel(model.sparsify(), prefit=True).transform(X), by_array)


# Subsets without a class, and weights that are not positive

SUBSETS = {
    "SVC": SVC(),
    "SVC with probabilities": SVC(probability=True),
    "linear SVC, one against the rest": SVC(kernel="linear", multi_class="ovr"),
    "LinearSVC": LinearSVC(),
    "LinearSVC of all classes": LinearSVC(multi_class="crammer_singer"),
    "LogisticRegression": LogisticRegression(),
    "LogisticRegression, one against the rest": LogisticRegression(multi_class="ovr"),
    "RidgeClassifier": RidgeClassifier(),
}


@pytest.mark.parametrize("make", SUBSETS.values(), ids=SUBSETS)
@pytest.mark.parametrize("gone", [0, 1])
def test_a_class_without_weight_is_left_out(make, gone):
    """By sample weights as by a class weight of zero, the classes that are left are fitted, with a proof."""
    X, y = iris()
    weights = (y != gone).astype(float)
    model = clone(make).fit(X, y, weights)
    assert model.classes_.tolist() == [0, 1, 2]
    predicted = model.predict(X)
    assert gone not in predicted
    assert (predicted == y)[y != gone].mean() > 0.9
    assert certify(model, X, y, weights).relative_gap <= 1.01e-3
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(X)
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        np.testing.assert_array_equal(P.argmax(axis=1), predicted)
    by_class = clone(make).set_params(class_weight={0: 1.0, 1: 1.0, 2: 1.0, gone: 0.0}).fit(X, y)
    np.testing.assert_array_equal(by_class.predict(X), predicted)


@pytest.mark.parametrize(("make", "classes"), [(LinearSVC(), 2), (LinearSVC(), 3), (LogisticRegression(), 2)])
def test_the_only_class_with_weight_is_predicted(make, classes):
    X, y = iris()
    X, y = X[y < classes], y[y < classes]
    model = clone(make).fit(X, y, (y == 1).astype(float))
    assert set(model.predict(X)) == {1}


def test_a_machine_of_two_classes_needs_weight_in_two_of_them():
    X, y = iris()
    weights = (y == 1).astype(float)
    with pytest.raises(ValueError, match=r"samples with positive weights belong to the same class.*2 of the 3 have"):
        SVC().fit(X, y, weights)
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        NuSVC().fit(X, y, weights)
    with pytest.raises(ValueError, match="in each of the 3 classes; class 0 has none"):
        SVC(C=np.inf).fit(X, y, (y != 0).astype(float))


@pytest.mark.parametrize("make", [LogisticRegression(), LinearSVC(), SVC()])
def test_bagging_of_few_samples(make):
    X, y = iris()
    model = BaggingClassifier(clone(make), n_estimators=20, max_samples=8, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("make", [SVC, NuSVC, SVR, OneClassSVM])
def test_kernel_machines_leave_out_samples_of_negative_weight(make):
    X, y = iris()
    weights = np.where(np.arange(y.size) % 7 == 0, -0.5, 1.0)
    kept = weights > 0.0
    arguments = [(), ()] if make is OneClassSVM else [(y,), (y[kept],)]
    model = make(gamma=0.2, tol=1e-7).fit(X, *arguments[0], sample_weight=weights)
    by_hand = make(gamma=0.2, tol=1e-7).fit(X[kept], *arguments[1])
    score = "predict" if make is SVR else "decision_function"
    np.testing.assert_allclose(getattr(model, score)(X), getattr(by_hand, score)(X), atol=1e-2)
    assert not np.isin(model.support_, np.flatnonzero(~kept)).any()
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        make().fit(X, *arguments[0], sample_weight=-np.ones(y.size))


@pytest.mark.parametrize("make", [LinearSVC, LogisticRegression, Ridge])
def test_negative_weights_are_counted_where_there_is_no_minimum(make):
    X, y = iris()
    with pytest.raises(ValueError, match=r"`sample_weight`: 2 of 150\..*has no minimum; leave these samples out"):
        make().fit(X, y, np.r_[-1.0, -2.0, np.ones(148)])


# Parameters that scikit-learn takes


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "SVR", "LinearSVC", "LogisticRegression", "Ridge", "Lasso"])
def test_parameters_of_scikit_learn_are_taken(name):
    """With ``probability="deprecated"`` and ``penalty="deprecated"``, which scikit-learn 1.9 has for defaults."""
    X, y = iris()
    theirs = getattr(sklearn.svm, name, None) or getattr(sklearn.linear_model, name)
    model = getattr(maxmargin, name)(**theirs().get_params()).fit(X, y)
    assert model.predict(X).shape == (150,)
    assert not hasattr(model, "predict_proba") or name == "LogisticRegression"


def test_no_penalty_leaves_no_trace_where_there_is_an_optimum():
    X, y = iris()
    model = LogisticRegression(penalty=None, tol=1e-8).fit(X, y == 2)
    problem = certify(model, X, y == 2)
    assert problem.relative_gap <= 1e-8
    z = X @ model.coef_[0] + model.intercept_[0]
    slopes = 1.0 / (1.0 + np.exp(-z)) - (y == 2)  # of the losses alone, whose gradient is zero
    np.testing.assert_allclose(np.append(X.T @ slopes, slopes.sum()), 0.0, atol=1e-6)
    np.testing.assert_array_equal(LogisticRegression(C=np.inf, tol=1e-8).fit(X, y == 2).coef_, model.coef_)
    with pytest.warns(UserWarning, match="Setting penalty=None will ignore the C"):
        LogisticRegression(penalty=None, C=3.0).fit(X, y)


def test_no_penalty_on_separable_classes_ends_without_errors():
    X, y = iris()
    model = LogisticRegression(C=np.inf).fit(X, y == 0)
    assert (model.predict(X) == (y == 0)).all()
    assert model.status_ is maxmargin.Status.CONVERGED


@pytest.mark.parametrize(("penalty", "l1_ratio"), [("l2", 1.0), ("l1", 0.5)])
def test_penalty_counts_where_l1_ratio_contradicts_it(penalty, l1_ratio):
    X, y = iris()
    with pytest.warns(UserWarning, match=f"Inconsistent values: penalty={penalty} with l1_ratio={l1_ratio}"):
        model = LogisticRegression(penalty=penalty, l1_ratio=l1_ratio).fit(X, y == 2)
    np.testing.assert_array_equal(model.coef_, LogisticRegression(penalty=penalty).fit(X, y == 2).coef_)


def test_an_infinite_C_of_a_regression_is_a_very_large_one():
    X, y = make_regression(50, 100, random_state=0)
    model = SVR(C=np.inf).fit(X, y)
    np.testing.assert_allclose(model.predict(X), SVR(C=1e10).fit(X, y).predict(X), rtol=1e-6)
    assert np.abs(model.predict(X) - y).max() <= 0.1 * (1.0 + 1e-3)
    assert certify(model, X, y).relative_gap <= 1.01e-3


def test_gamma_may_be_zero():
    X, y = iris()
    model = SVC(gamma=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), sklearn.svm.SVC(gamma=0).fit(X, y).predict(X))


@pytest.mark.parametrize("make", [SVC, LinearSVC, LogisticRegression, Ridge])
def test_a_tolerance_of_zero_goes_as_far_as_float64_gets(make):
    X, y = iris()
    with pytest.warns(ConvergenceWarning, match="rounding errors or ill conditioning prevent further progress"):
        model = make(tol=0.0).fit(X, y)
    assert model.duality_gap_ <= 1e-9


def test_ties_are_refused_at_predict():
    X, y = iris()
    model = SVC(break_ties=True, decision_function_shape="ovo").fit(X, y)
    assert model.decision_function(X).shape == (150, 3)
    with pytest.raises(ValueError, match="break_ties must be False when decision_function_shape is 'ovo'"):
        model.predict(X)


def test_parameters_of_platts_curve():
    X, y = iris()
    model = SVC().fit(X, y)
    assert model.probA_.size == model.probB_.size == 0
    with pytest.raises(AttributeError, match="see probability_curves_"):
        SVC(probability=True).fit(X, y).probA_  # noqa: B018


@pytest.mark.parametrize("loss", ["squared_hinge", "log"])
@pytest.mark.parametrize("settings", [{"fit_intercept": False}, {"intercept_scaling": 10.0}], ids=str)
def test_the_smallest_C_with_a_coefficient_is_that_of_l1_min_c(loss, settings):
    X, y = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), [0, 1, 1, 1]
    bound = sklearn.svm.l1_min_c(X, y, loss=loss, **settings)
    model = LinearSVC(penalty="l1", **settings)
    if loss == "log":
        model = LogisticRegression(penalty="l1", solver="liblinear", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an intercept at the bound is a matter of rounding
        none = clone(model).set_params(C=bound).fit(X, y)
    some = clone(model).set_params(C=1.01 * bound).fit(X, y)
    assert not none.coef_.any()
    assert not none.intercept_.any()
    assert some.coef_.any() or some.intercept_.any()


# Samples that scikit-learn takes


def count(A, B):
    """How many letters two strings share."""
    return np.array([[sum(min(a.count(c), b.count(c)) for c in "abc") for b in B] for a in A], dtype=float)


@pytest.mark.parametrize("make", [SVC, SVR, NuSVC, OneClassSVM])
def test_kernels_of_strings(make):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), size=rng.integers(1, 9))) for _ in range(40)]
    y = np.array([word.count("a") > word.count("b") for word in words]) * 1.0
    arguments = () if make is OneClassSVM else (y,)
    model = make(kernel=count).fit(words, *arguments)
    by_matrix = make(kernel="precomputed").fit(count(words, words), *arguments)
    np.testing.assert_allclose(model.dual_coef_, by_matrix.dual_coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(words), by_matrix.predict(count(words, words)), atol=1e-9)
    assert set(np.ravel(model.support_vectors_)) <= set(words)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(np.array(words[:5])), model.predict(words[:5]))
    if make is SVC:
        assert cross_val_score(model, words, y, cv=3).mean() > 0.8
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit(words, y[:-1])


@pytest.mark.parametrize("make", [LogisticRegression, Ridge, Lasso, RidgeClassifier, LinearRegression])
def test_models_of_float32_samples_are_what_was_certified(make):
    """Rounded to float32 they would cost more than the certificate says."""
    X, y = iris()
    single = X.astype(np.float32)
    model = make(tol=1e-9).fit(single, y)
    assert model.coef_.dtype == np.float64
    assert certify(model, single, y).primal == pytest.approx(model.objective_, rel=1e-12)


def test_pickles_hold_the_proof_and_little_else():
    X, y = make_classification(200, 200, random_state=0)
    model = LinearSVC(loss="hinge", solver="subgradient", max_iter=200, tol=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    copied = pickle.loads(pickle.dumps(model))
    assert len(copied.solution_.history) <= 10
    assert copied.solution_.history[-1] == model.solution_.history[-1]
    assert certify(copied, X, y).relative_gap == pytest.approx(certify(model, X, y).relative_gap)
