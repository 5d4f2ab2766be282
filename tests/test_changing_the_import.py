"""What breaks users of scikit-learn who only change the import: one test for each way in which it once did."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.preprocessing import scale

from maxmargin import (
    SVC,
    SVR,
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
