"""The referee for fitted models: its numbers are recomputed here from the models' coefficients in plain NumPy."""

import numpy as np
import pytest
import sklearn.svm
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, Perceptron, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import certify


@pytest.fixture(scope="module")
def binary():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200]


@pytest.fixture(scope="module")
def three_classes():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def hinge_values(K, alpha, b, y, C):
    """Primal and dual value of the textbook C-SVM."""
    f = K @ alpha
    primal = 0.5 * alpha @ f + C * np.maximum(0.0, 1.0 - y * (f + b)).sum()
    return primal, y @ alpha - 0.5 * alpha @ f


@pytest.mark.parametrize("model", [sklearn.svm.SVC(C=2.0), maxmargin.SVC(C=2.0)], ids=["sklearn", "maxmargin"])
def test_svc_certificate_is_the_textbook_formula(model, binary):
    X, y = binary
    model.fit(X, y)
    alpha = np.zeros(y.size)
    alpha[model.support_] = model.dual_coef_[0]
    primal, dual = hinge_values(rbf_kernel(X, gamma=model._gamma), alpha, model.intercept_[0], 2.0 * y - 1.0, 2.0)
    verdict = certify(model, X, y)
    assert verdict.primal == pytest.approx(primal, rel=1e-9)
    assert verdict.dual == pytest.approx(dual, rel=1e-9)
    assert 0.0 <= verdict.relative_gap <= 1e-2


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_scikit_learn_svc_and_ours_bracket_the_same_optimum(kernel, three_classes):
    X, y = three_classes
    theirs = certify(sklearn.svm.SVC(kernel=kernel, tol=1e-8, class_weight="balanced").fit(X, y), X, y)
    ours = certify(maxmargin.SVC(kernel=kernel, tol=1e-8, class_weight="balanced").fit(X, y), X, y)
    assert theirs.names == ours.names
    for a, b in zip(theirs.certificates, ours.certificates, strict=True):
        assert max(a.dual, b.dual) <= min(a.primal, b.primal) * (1.0 + 1e-12)
        assert a.primal == pytest.approx(b.primal, rel=1e-5)


def test_sample_weights_are_part_of_the_problem(binary):
    X, y = binary
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    for model in (sklearn.svm.SVC(tol=1e-9), maxmargin.SVC(tol=1e-9), maxmargin.LinearSVC(tol=1e-9)):
        model.fit(X, y, sample_weight=weights)
        assert certify(model, X, y, sample_weight=weights).relative_gap <= 1e-6
        assert certify(model, X, y).relative_gap > 1e-4


def test_nu_svc_matches_its_hull_distance(binary):
    X, y = binary
    model = sklearn.svm.NuSVC(nu=0.2, tol=1e-9).fit(X, y)
    verdict = certify(model, X, y)
    assert verdict.relative_gap <= 1e-5
    # The dual is -|f|^2 / 2 for variables that sum to nu n / 2 in each class.
    a = np.zeros(y.size)
    a[model.support_] = model.dual_coef_[0]
    a *= 0.2 * y.size / np.abs(a).sum()
    assert verdict.dual == pytest.approx(-0.5 * a @ rbf_kernel(X, gamma=model._gamma) @ a, rel=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_svc_of_scikit_learn_has_a_penalised_intercept(loss, binary):
    X, y = binary
    theirs = sklearn.svm.LinearSVC(loss=loss, tol=1e-10, max_iter=1_000_000).fit(X, y)
    verdict = certify(theirs, X, y)
    assert "intercept penalised" in verdict.problem
    assert verdict.relative_gap <= 1e-5
    same = maxmargin.LinearSVC(loss=loss, tol=1e-9).fit(X, y)
    assert certify(same, X, y).primal == pytest.approx(verdict.primal, rel=1e-6)
    free = certify(maxmargin.LinearSVC(loss=loss, tol=1e-9, intercept="free").fit(X, y), X, y)
    assert free.primal < verdict.primal * (1.0 - 1e-6), "the two problems must differ"


def test_l1_linear_svc(three_classes):
    X, y = three_classes
    model = sklearn.svm.LinearSVC(penalty="l1", dual=False, tol=1e-9, max_iter=100_000).fit(X, y)
    verdict = certify(model, X, y)
    assert verdict.problem.startswith("|w|_1")
    assert verdict.relative_gap <= 1e-4


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_lasso_gap_is_the_one_scikit_learn_computes(fit_intercept):
    X, y = load_diabetes(return_X_y=True)
    model = Lasso(alpha=0.5, fit_intercept=fit_intercept).fit(X, y)
    verdict = certify(model, X, y)
    residual = y - model.predict(X)
    assert verdict.primal == pytest.approx(0.5 * (residual**2).mean() + 0.5 * np.abs(model.coef_).sum())
    assert verdict.gap == pytest.approx(model.dual_gap_, rel=1e-4, abs=1e-8)


def test_ridge_with_weights_and_several_targets():
    X, y = load_diabetes(return_X_y=True)
    targets = np.column_stack([y, np.sqrt(y)])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    model = Ridge(alpha=[0.3, 2.0]).fit(X, targets, sample_weight=weights)
    verdict = certify(model, X, targets, sample_weight=weights)
    assert len(verdict.certificates) == 2
    assert verdict.relative_gap <= 2e-12
    residual = targets[:, 1] - model.predict(X)[:, 1]
    expected = (weights * residual**2).sum() + 2.0 * (model.coef_[1] ** 2).sum()
    assert verdict.certificates[1].primal == pytest.approx(expected)


@pytest.mark.parametrize("name", ["SVR", "NuSVR", "OneClassSVM"])
@pytest.mark.parametrize("weighted", [False, True])
def test_models_without_classes_of_scikit_learn_and_ours(name, weighted):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150] * 10.0, y[:150] / 50.0
    weights = np.random.default_rng(0).uniform(0.5, 2.0, y.size) if weighted else None
    verdicts = []
    for library in (sklearn.svm, maxmargin):
        model = getattr(library, name)(tol=1e-9, gamma=0.2).fit(X, y, sample_weight=weights)
        verdicts.append(certify(model, X, y, sample_weight=weights))
    theirs, ours = verdicts
    assert theirs.names == ours.names
    assert theirs.problem == ours.problem
    assert ours.relative_gap <= 1e-8
    assert theirs.relative_gap <= 1e-6
    assert theirs.primal == pytest.approx(ours.primal, rel=1e-6)


def test_the_tube_of_scikit_learns_nu_svr_is_the_best_one():
    X, y = load_diabetes(return_X_y=True)
    model = sklearn.svm.NuSVR(nu=0.3, C=5.0).fit(X, y)
    verdict = certify(model, X, y)
    alpha = np.zeros(y.size)
    alpha[model.support_] = model.dual_coef_[0]
    error = np.abs(y - model.predict(X))
    values = [0.3 * y.size * e + np.maximum(0.0, error - e).sum() for e in error]
    expected = 0.5 * alpha @ rbf_kernel(X, gamma=model._gamma) @ alpha + 5.0 * min(values)
    assert verdict.primal == pytest.approx(expected, rel=1e-9)


def test_a_spoiled_model_is_found_out(binary):
    X, y = binary
    model = maxmargin.SVC(tol=1e-6).fit(X, y)
    assert certify(model, X, y).relative_gap <= 1e-6
    model.dual_coef_ = model.dual_coef_ * 0.9
    assert certify(model, X, y).relative_gap > 1e-3


def test_sparse_data_gives_the_same_verdict(binary):
    X, y = binary
    for model in (maxmargin.SVC(), maxmargin.LinearSVC(loss="hinge")):
        dense, sparse = certify(model.fit(X, y), X, y), certify(model.fit(csr_array(X), y), csr_array(X), y)
        assert sparse.primal == pytest.approx(dense.primal, rel=1e-9)


def test_what_cannot_be_judged_is_refused(binary):
    X, y = binary
    with pytest.raises(TypeError, match="does not know the problem that Perceptron solves"):
        certify(Perceptron().fit(X, y), X, y)
    model = maxmargin.SVC().fit(X, y)
    with pytest.raises(ValueError, match="fitted on: 200 samples, not 199"):
        certify(model, X[1:], y[1:])
    with pytest.raises(ValueError, match="not one of the model's classes"):
        certify(model, X, y + 7)
    with pytest.raises(ValueError, match="certify needs the targets y that SVC was fitted on"):
        certify(model, X)
    weighted = Lasso().fit(X, y)
    weighted.weights = np.ones(X.shape[1])  # as celer's has
    with pytest.raises(ValueError, match="weights pose another problem"):
        certify(weighted, X, y)


def test_a_model_without_support_vectors_predicts():
    """Stopped at the start: no support vectors at all."""
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning):
        model = maxmargin.SVC(max_iter=0).fit(X[:100], y[:100])
    assert model.support_.size == 0
    assert set(model.predict(X)) <= {0, 1}


def test_of_a_pipeline_the_last_step_is_judged_on_what_the_others_make():
    X, y = load_iris(return_X_y=True)
    scaled = StandardScaler().fit_transform(X)
    whole = certify(make_pipeline(StandardScaler(), maxmargin.SVC()).fit(X, y), X, y)
    assert whole == certify(maxmargin.SVC().fit(scaled, y), scaled, y)
    assert certify(make_pipeline(maxmargin.LinearSVC()).fit(X, y), X, y) == certify(
        maxmargin.LinearSVC().fit(X, y), X, y
    )
    search = GridSearchCV(make_pipeline(StandardScaler(), sklearn.svm.SVC()), {"svc__C": [1.0, 10.0]}, cv=2).fit(X, y)
    assert certify(search, X, y).relative_gap < 1e-2
