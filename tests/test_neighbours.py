"""Our estimators in the packages around scikit-learn, for `make test-ecosystem`; who is not installed is left out."""

import importlib

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    SVC,
    SVR,
    ElasticNet,
    Lasso,
    LinearRegression,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    Ridge,
    RidgeClassifier,
)
from maxmargin.io import register_eli5, register_onnx_converters

pytestmark = pytest.mark.filterwarnings("ignore")  # what others do is not ours to mend
X, Y = load_iris(return_X_y=True)


def package(name):
    return pytest.importorskip(name)


def test_without_the_packages_the_sentence_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match="needs the package skl2onnx: pip install skl2onnx"):
        register_onnx_converters()
    with pytest.raises(ImportError, match="needs the package eli5"):
        register_eli5()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC, RidgeClassifier, SVC, NuSVC])
def test_onnx_has_the_labels_and_the_scores_of_classifiers(make, classes):
    skl2onnx, onnxruntime = package("skl2onnx"), package("onnxruntime")
    assert make.__name__ in register_onnx_converters()
    x, y = X[classes > Y].astype(np.float32), Y[classes > Y]
    model = make_pipeline(StandardScaler(), make()).fit(x, y)
    stored = skl2onnx.to_onnx(model, x[:1]).SerializeToString()
    session = onnxruntime.InferenceSession(stored, providers=["CPUExecutionProvider"])
    labels, scores = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_array_equal(labels, model.predict(x))
    if make is LogisticRegression:
        P = np.array([list(row.values()) for row in scores])
        np.testing.assert_allclose(P, model.predict_proba(x), atol=1e-5)
    else:
        size = np.abs(scores[:, -1]) if classes == 2 else scores  # of two classes onnx has other signs (its #990)
        expected = model.decision_function(x)
        np.testing.assert_allclose(size, np.abs(expected) if classes == 2 else expected, atol=1e-4)


@pytest.mark.parametrize("make", [LinearRegression, Ridge, Lasso, ElasticNet, LinearSVR, SVR, NuSVR])
def test_onnx_has_the_predictions_of_regressors(make):
    skl2onnx, onnxruntime = package("skl2onnx"), package("onnxruntime")
    register_onnx_converters()
    x = X.astype(np.float32)
    model = make_pipeline(StandardScaler(), make()).fit(x, Y)
    stored = skl2onnx.to_onnx(model, x[:1]).SerializeToString()
    session = onnxruntime.InferenceSession(stored, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found[:, 0], model.predict(x), atol=1e-4)


def test_onnx_refuses_what_scikit_learns_class_cannot_be():
    skl2onnx = package("skl2onnx")
    register_onnx_converters()
    with pytest.raises(ValueError, match="with multi_class='ovo' only; this one has 'ovr'"):
        skl2onnx.to_onnx(SVC(multi_class="ovr").fit(X, Y), X[:1].astype(np.float32))


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC, Ridge, Lasso])
def test_eli5_explains_weights_and_predictions(make):
    eli5 = package("eli5")
    assert make.__name__ in register_eli5()
    model = make().fit(X, Y)
    explained = eli5.explain_weights(model, feature_names=["a", "b", "c", "d"])
    assert explained.error is None
    weights = explained.targets[0].feature_weights
    found = {one.feature: one.weight for one in [*weights.pos, *weights.neg]}
    coefficients = np.atleast_2d(model.coef_)[0]
    for name, value in zip("abcd", coefficients, strict=True):
        if value:
            assert found[name] == pytest.approx(value)
    assert eli5.explain_prediction(model, X[0]).error is None


@pytest.mark.parametrize("make", [SVC, LinearSVC, LogisticRegression, Ridge, SVR])
def test_array_api_in_array_api_out(make, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    xp = package("array_api_strict")
    plain = make().fit(X, Y)
    try:
        context = sklearn.config_context(array_api_dispatch=True)
        context.__enter__()
    except RuntimeError as error:  # scipy was imported before
        pytest.skip(str(error))
    try:
        x, y = xp.asarray(X), xp.asarray(Y)
        model = make().fit(x, y)
        for method in ("predict", "decision_function"):
            if hasattr(model, method):
                found = getattr(model, method)(x)
                assert isinstance(found, type(x))
                np.testing.assert_allclose(np.from_dlpack(found), getattr(plain, method)(X), atol=1e-12)
    finally:
        context.__exit__(None, None, None)


def test_imbalanced_learn():
    package("imblearn")
    from imblearn.ensemble import BalancedBaggingClassifier
    from imblearn.over_sampling import SMOTE, SVMSMOTE
    from imblearn.pipeline import make_pipeline as with_sampling

    assert with_sampling(SMOTE(random_state=0), SVC()).fit(X, Y).score(X, Y) > 0.9
    assert SVMSMOTE(random_state=0, svm_estimator=SVC()).fit_resample(X[:80], Y[:80])[0].shape[0] > 80
    assert BalancedBaggingClassifier(SVC(), random_state=0).fit(X, Y).score(X, Y) > 0.9


def test_shap():
    shap = package("shap")
    model = LogisticRegression().fit(X, Y == 2)
    values = shap.LinearExplainer(model, X).shap_values(X[:5])
    np.testing.assert_allclose(values, (X[:5] - X.mean(axis=0)) * model.coef_[0], atol=0.2)
    assert shap.KernelExplainer(SVC(probability=True).fit(X, Y).predict_proba, X[:10]).shap_values(X[:1]).size == 12


def test_optuna():
    optuna = package("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def value(trial):
        return cross_val_score(SVC(C=trial.suggest_float("C", 0.1, 10.0, log=True)), X, Y).mean()

    study = optuna.create_study(direction="maximize")
    study.optimize(value, n_trials=3)
    assert study.best_value > 0.9


def test_dask_ml():
    wrappers = package("dask_ml.wrappers")
    import dask.array

    model = wrappers.ParallelPostFit(SVC()).fit(X, Y)
    np.testing.assert_array_equal(model.predict(dask.array.from_array(X, chunks=50)), SVC().fit(X, Y).predict(X))


def test_mlxtend():
    selection, classifiers = package("mlxtend.feature_selection"), package("mlxtend.classifier")
    assert len(selection.SequentialFeatureSelector(LinearSVC(), k_features=2, cv=2).fit(X, Y).k_feature_idx_) == 2
    assert classifiers.EnsembleVoteClassifier([SVC(), LinearSVC()]).fit(X, Y).predict(X).shape == (150,)


def test_sklearnex_leaves_ours_alone():
    package("sklearnex").patch_sklearn(verbose=False)
    try:
        assert clone(SVC()).fit(X, Y).duality_gap_ <= 1e-3
    finally:
        package("sklearnex").unpatch_sklearn()


def test_cloudpickle_of_a_kernel_without_a_name():
    pickling = package("cloudpickle")
    model = SVC(kernel=lambda A, B: A @ B.T).fit(X, Y)
    np.testing.assert_array_equal(pickling.loads(pickling.dumps(model)).predict(X), model.predict(X))
