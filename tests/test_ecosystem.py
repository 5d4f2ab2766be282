"""The estimators inside scikit-learn's machinery: data frames, searches, pipelines, persistence, routing, callbacks."""

import functools
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import skops.io
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils import estimator_html_repr, get_tags

from maxmargin import SVC, LinearSVC, Solution, Status

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
BOTH = pytest.mark.parametrize("make", [SVC, LinearSVC])


@functools.cache
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@functools.cache
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def slow(make, **settings):
    """An estimator whose fit takes many rounds."""
    if make is SVC:
        return SVC(kernel="linear", solver="smo", C=1e4, tol=1e-10, max_time=20.0, **settings)
    return LinearSVC(loss="hinge", solver="dual_coordinate", C=1e5, tol=1e-10, max_time=20.0, **settings)


# Data frames


@BOTH
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_and_their_column_names(make, frame):
    X, y = iris()
    table = frame({name: X[:, k] for k, name in enumerate(NAMES)})
    model = make().fit(table, y)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == 4
    plain = make().fit(X, y)
    assert not hasattr(plain, "feature_names_in_")
    np.testing.assert_array_equal(model.decision_function(table), plain.decision_function(X))
    np.testing.assert_array_equal(model.predict(table), plain.predict(X))
    series = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    np.testing.assert_array_equal(make().fit(table, series, pd.Series(np.ones(150))).predict(table), plain.predict(X))


@BOTH
def test_wrong_column_names_are_noticed(make):
    X, y = iris()
    table = pd.DataFrame(X, columns=NAMES)
    model = make().fit(table, y)
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        model.predict(table.rename(columns={"sepal length": "length"}))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(table[NAMES[::-1]])
    with pytest.warns(UserWarning, match=f"X does not have valid feature names, but {make.__name__} was fitted with"):
        model.predict(X)
    with pytest.warns(UserWarning, match=f"X has feature names, but {make.__name__} was fitted without"):
        make().fit(X, y).predict(table)


@BOTH
def test_labels_of_a_data_frame_column(make):
    X, y = iris()
    labels = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y], dtype="category")
    model = make().fit(X, labels)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.score(X, labels) > 0.9


# Searches, pipelines, copies


@BOTH
def test_grid_search_over_a_pipeline(make):
    X, y = cancer()
    pipeline = Pipeline([("scale", StandardScaler()), ("svm", make())])
    search = GridSearchCV(pipeline, {"svm__C": [1e-6, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"svm__C": 1.0}
    assert search.best_estimator_["svm"].status_ is Status.CONVERGED
    assert search.score(X, y) > 0.97


def test_grid_search_splits_a_precomputed_kernel_both_ways():
    X, y = iris()
    by_hand = cross_val_score(SVC(kernel="precomputed", C=0.5), X @ X.T, y, cv=3)
    np.testing.assert_array_equal(by_hand, cross_val_score(SVC(kernel="linear", solver="smo", C=0.5), X, y, cv=3))


@BOTH
def test_clone_copies_the_parameters_only(make):
    X, y = iris()
    model = make(C=3.0, tol=1e-5, random_state=4, callback=print, max_time=9.0).set_params(callback=None).fit(X, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]
    np.testing.assert_array_equal(copy.fit(X, y).decision_function(X), model.decision_function(X))


@BOTH
def test_fit_leaves_the_parameters_and_the_data_alone(make):
    X, y = cancer()
    weights = np.linspace(0.5, 2.0, y.size)
    copies = X.copy(), y.copy(), weights.copy()
    for array in (X, y, weights):
        array.flags.writeable = False
    try:
        model = make(class_weight={0: 2.0})
        before = dict(model.get_params())
        assert model.fit(X, y, weights) is model
        assert model.get_params() == before
    finally:
        X.flags.writeable = y.flags.writeable = True
    for array, copy in zip((X, y, weights), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# Persistence


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
@BOTH
def test_pickle_keeps_the_model_and_its_certificate(make, store):
    X, y = iris()
    model = make().fit(store(X), y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(store(X)), model.decision_function(store(X)))
    assert copy.duality_gap_ == model.duality_gap_
    assert copy.status_ is model.status_
    assert isinstance(copy.solution_, Solution)
    assert copy.set_params(warm_start=True).fit(store(X), y).status_ is Status.CONVERGED


@BOTH
def test_skops_asks_to_trust_types_of_maxmargin_only(make):
    """A user who loads a model from skops has to trust nothing but these classes of ours, all plain data."""
    X, y = iris()
    model = make().fit(X, y)
    stored = skops.io.dumps(model)
    untrusted = skops.io.get_untrusted_types(data=stored)
    assert untrusted
    assert [name for name in untrusted if not name.startswith("maxmargin.")] == []
    copy = skops.io.loads(stored, trusted=untrusted)
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy.duality_gap_ == model.duality_gap_
    assert copy.status_ is model.status_


# Metadata routing


@BOTH
def test_sample_weights_are_routed_through_a_pipeline(make):
    X, y = cancer()
    weights = np.where(y == 1, 10.0, 0.1)
    direct = make().fit(X, y, weights)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), make().set_fit_request(sample_weight=True)
        ).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(pipeline.decision_function(X), direct.decision_function(X), atol=1e-6)
        assert np.abs(direct.decision_function(X) - make().fit(X, y).decision_function(X)).max() > 0.1
        ignoring = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), make())
        with pytest.raises(ValueError, match=r"sample_weight.*not explicitly set as requested or not requested"):
            ignoring.fit(X, y, sample_weight=weights)


@BOTH
def test_sample_weights_are_routed_through_a_search(make):
    X, y = cancer()
    weights = np.where(y == 1, 10.0, 0.1)
    with config_context(enable_metadata_routing=True):
        model = make().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"C": [1.0]}, cv=2).fit(X, y, sample_weight=weights)
    direct = make().fit(X, y, weights)
    np.testing.assert_array_equal(search.decision_function(X), direct.decision_function(X))


# Representation and tags


@BOTH
def test_the_representation_links_to_the_documentation(make):
    page = estimator_html_repr(make(C=2.0))
    assert make._doc_link_template in page
    assert "https://" in page
    assert repr(make(C=2.0)) == f"{make.__name__}(C=2.0)"


def test_tags():
    for model in (SVC(), LinearSVC(), SVC(kernel=np.dot)):
        tags = get_tags(model)
        assert tags.estimator_type == "classifier"
        assert tags.input_tags.sparse
        assert not tags.input_tags.pairwise
        assert not tags.input_tags.allow_nan
        assert tags.classifier_tags.multi_class
        assert not tags.classifier_tags.multi_label
        assert not tags.non_deterministic
        assert tags.target_tags.required
    assert get_tags(SVC(kernel="precomputed")).input_tags.pairwise


def test_set_output_is_for_transformers():
    assert not hasattr(SVC(), "set_output")
    assert not hasattr(LinearSVC(), "set_output")


# scikit-learn's callbacks


class Recorder:
    """A callback of scikit-learn that notes the tasks, and stops the fit after some rounds if wanted."""

    def __init__(self, stop_after=None):
        self.stop_after, self.begun, self.ended, self.set_up, self.torn_down = stop_after, [], [], 0, 0

    def setup(self, estimator, context):
        self.set_up += 1

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return self.stop_after is not None and self.ended.count("round") >= self.stop_after


@BOTH
def test_tasks_are_fit_problem_and_round(make):
    X, y = iris()
    recorder = Recorder()
    make(multi_class="ovo").set_callbacks(recorder).fit(X, y)
    assert (recorder.set_up, recorder.torn_down) == (1, 1)
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert recorder.begun[0] == recorder.ended[-1] == "fit"
    problems = [name for name in recorder.begun if name not in ("fit", "round")]
    assert problems == ["0 against 1", "0 against 2", "1 against 2"]


@BOTH
def test_a_callback_of_scikit_learn_stops_the_fit(make):
    X, y = cancer()
    recorder = Recorder(stop_after=2)
    model = slow(make).set_callbacks(recorder)
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(X, y)
    assert model.status_ is Status.CALLBACK
    assert recorder.ended.count("round") == 2
    assert recorder.torn_down == 1
    assert 0.0 < model.duality_gap_ <= 2.0


@BOTH
def test_callbacks_are_torn_down_when_fit_fails(make):
    X, y = cancer()

    def fail(record):
        raise RuntimeError("the user's own")

    recorder = Recorder()
    model = slow(make, callback=fail).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="the user's own"):
        model.fit(X, y)
    assert recorder.torn_down == recorder.set_up == 1


@BOTH
@pytest.mark.parametrize("place", ["alone", "pipeline", "search"])
def test_progress_bar_and_scoring_monitor(make, place):
    X, y = iris()
    monitor = ScoringMonitor(scoring="accuracy")
    model = make().set_callbacks(monitor)
    if place == "pipeline":
        model = make_pipeline(StandardScaler(), model)
    if place == "search":
        model = GridSearchCV(model, {"C": [0.5, 1.0]}, cv=2)
    model.set_callbacks(ProgressBar(), *([monitor] if place == "alone" else []))
    model.fit(X, y)
    assert model.score(X, y) > 0.9
    rows = [row for log in monitor.get_logs(select="all") for row in log.data if row["estimator_name"] == make.__name__]
    scores = [row["accuracy"] for row in rows if row["task_name"] == "fit"]
    assert len(scores) == (5 if place == "search" else 1)
    assert min(scores) > 0.85
    if place == "alone":
        assert scores == [model.score(X, y)]


# Calibration, threads, silence


@BOTH
def test_probabilities_by_calibration(make):
    X, y = cancer()
    model = CalibratedClassifierCV(make(), ensemble=False, cv=3).fit(X, y)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert ((probability[:, 1] > 0.5) == y).mean() > 0.97


@BOTH
def test_joblib_threads(make):
    X, y = cancer()
    serial = cross_val_score(make(), X, y, cv=4)
    with joblib.parallel_config("threading", n_jobs=2):
        np.testing.assert_array_equal(cross_val_score(make(), X, y, cv=4), serial)


@pytest.mark.parametrize("solver", ["smo", "newton", "dual_coordinate"])
def test_eight_threads_give_the_bits_of_eight_serial_fits(solver):
    X, y = cancer()
    parts = [(X[k::8], y[k::8]) for k in range(8)]

    def fit(part):
        model = SVC(tol=1e-6) if solver == "smo" else LinearSVC(tol=1e-6, solver=solver)
        return model.fit(*part).decision_function(X)

    serial = [fit(part) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        for ours, theirs in zip(pool.map(fit, parts), serial, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@BOTH
def test_silence_is_the_default(make, capfd):
    X, y = iris()
    model = make().fit(X, y)
    model.predict(X)
    assert capfd.readouterr() == ("", "")


@BOTH
def test_verbose_writes_to_standard_error_only(make, capfd):
    X, y = iris()
    make(verbose=1, tol=1e-6).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.rstrip("\n").split("\n")
    assert len(lines) == 3  # one per binary problem
    assert all("iterations" in line and "relative gap" in line and "-> 1e-06" in line for line in lines)
