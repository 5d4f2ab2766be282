"""Model files: what goes in comes out to the last bit, and nothing else is let in."""

import dataclasses
import io
import json
import math
import os
import pickle
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import (
    SVC,
    SVCCV,
    SVR,
    DistributedLasso,
    DistributedRidge,
    ElasticNet,
    ElasticNetCV,
    GroupLasso,
    KernelRidge,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    MultiTaskElasticNet,
    MultiTaskLasso,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SparseSelector,
    Status,
    estimators,
)
from maxmargin.io import ModelFileError, load_model, save_model
from maxmargin.models.rules import ATTRIBUTES

X, CODES = load_iris(return_X_y=True)
X.setflags(write=False)
NAMES = np.array(["setosa", "versicolor", "virginica"])
SENTENCE = re.compile(r".*model\.mm: \S.* .*\.$")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mm"


@pytest.fixture(scope="module")
def fitted():
    return SVC(C=2.0, tol=1e-6).fit(X, CODES)


def same(one, other):
    """Whether two attributes are equal in type and in every bit."""
    if type(one) is not type(other):
        return False
    if sparse.issparse(one):
        return one.shape == other.shape and all(same(getattr(one, k), getattr(other, k)) for k in CSR)
    if isinstance(one, np.ndarray):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return False
        return one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


CSR = ("data", "indices", "indptr")


def sparse_rows(kind, dtype):
    return kind(np.where(X > 1.0, X, 0.0).astype(dtype))


BINARY = CODES != 2
MODELS = {
    "rbf": (SVC(C=2.0), X, CODES),
    "two classes": (SVC(), X[BINARY], CODES[BINARY]),
    "one against the rest": (SVC(multi_class="ovr"), X, CODES),
    "pair scores": (SVC(decision_function_shape="ovo"), X, CODES),
    "linear kernel": (SVC(kernel="linear"), X, CODES),
    "polynomial": (SVC(kernel="poly", degree=2, coef0=1.0, gamma=0.1), X, CODES),
    "precomputed": (SVC(kernel="precomputed"), X @ X.T, CODES),
    "float32": (SVC(), X.astype(np.float32), CODES),
    "sparse matrix": (SVC(), sparse_rows(sparse.csr_matrix, np.float64), CODES),
    "sparse float32 array": (SVC(kernel="laplacian"), sparse_rows(sparse.csr_array, np.float32), CODES),
    "linear": (LinearSVC(), X, CODES),
    "linear, pairs": (LinearSVC(multi_class="ovo", loss="hinge", intercept="free"), X, CODES),
    "linear, L1": (LinearSVC(penalty="l1"), X, CODES),
    "linear, float32": (LinearSVC(intercept=None), X.astype(np.float32), CODES),
    "str labels": (SVC(), X, NAMES[CODES]),
    "object labels": (LinearSVC(class_weight={"setosa": 2.0, "virginica": 1}), X, NAMES.astype(object)[CODES]),
    "float labels": (SVC(class_weight={0.0: 2.0}), X, CODES.astype(float)),
    "bool labels": (SVC(class_weight="balanced"), X, CODES == 1),
    "small labels": (SVC(random_state=3), X, CODES.astype(np.int8)),
    "numpy parameters": (SVC(C=np.float64(0.1), degree=np.int64(2), gamma=np.float32(0.5)), X, CODES),
    "whole tolerance": (LinearSVC(C=2, tol=1), X, CODES),
    "squared hinge": (SVC(loss="squared_hinge"), X, CODES),
    "nu": (NuSVC(nu=0.2), X, NAMES[CODES]),
    "nu, against the rest": (NuSVC(nu=0.2, multi_class="ovr"), X, CODES),
    "nu, linear": (NuSVC(cap=0.1, kernel="linear"), sparse_rows(sparse.csr_array, np.float64), CODES),
    "regression": (SVR(), X[:, :3], X[:, 3]),
    "regression, linear": (SVR(kernel="linear", loss="squared_epsilon_insensitive"), X[:, :3], X[:, 3]),
    "linear regression": (LinearSVR(epsilon=0.1), X[:, :3], X[:, 3]),
    "linear regression, float32": (LinearSVR(intercept="free"), sparse_rows(sparse.csr_array, np.float32), X[:, 3]),
    "logistic": (LogisticRegression(), X[BINARY], NAMES[CODES[BINARY]]),
    "logistic, all classes": (LogisticRegression(C=2.0, class_weight="balanced"), X, CODES),
    "logistic, no intercept": (LogisticRegression(fit_intercept=False), X.astype(np.float32), CODES),
    "logistic, against the rest": (LogisticRegression(multi_class="ovr"), X, CODES),
    "logistic, elastic net": (LogisticRegression(l1_ratio=0.5), X[BINARY], CODES[BINARY]),
    "nu regression": (NuSVR(nu=0.3), X[:, :3].astype(np.float32), X[:, 3]),
    "nu regression, precomputed": (NuSVR(kernel="precomputed"), X @ X.T, X[:, 3]),
    "groups": (GroupLasso(0.1, groups=[[0, 1], [2]]), X[:, :3], X[:, 3]),
    "groups, two targets": (MultiTaskElasticNet(0.1), X[:, :2].astype(np.float32), X[:, 2:]),
    "several targets": (MultiTaskLasso(0.1), sparse_rows(sparse.csr_array, np.float64), X[:, 2:]),
    "limits": (LinearSVR(bounds=([-1.0, -0.1], 0.5)), X[:, :2], X[:, 3]),
    "ridge": (Ridge(), X[:, :3], X[:, 3]),
    "ridge, two targets": (Ridge(alpha=np.array([1.0, 2.0])), X[:, :2].astype(np.float32), X[:, 2:]),
    "ridge, clients": (DistributedRidge(n_clients=2), X[:, :3], X[:, 3]),
    "LASSO, clients": (DistributedLasso(0.01, n_clients=2), X[:, :3], X[:, 3]),
    "ridge, chosen": (RidgeCV(alpha_per_target=True, store_cv_results=True), X[:, :2], X[:, 2:]),
    "ridge, classes": (RidgeClassifier(), sparse_rows(sparse.csr_array, np.float64), NAMES[CODES]),
    "ridge, two classes": (RidgeClassifier(class_weight="balanced"), X[BINARY], CODES[BINARY]),
    "ridge, kernel": (KernelRidge(kernel="rbf"), X[:, :3], X[:, 3]),
    "ridge, kernel, two targets": (KernelRidge(kernel="poly"), sparse_rows(sparse.csr_array, np.float32), X[:, 2:]),
    "lasso": (Lasso(alpha=0.01, debias=True), X[:, :3], X[:, 3]),
    "lasso, chosen": (LassoCV(alphas=5, cv=3), X[:, :3], X[:, 3]),
    "elastic net, two targets": (
        ElasticNet(alpha=0.01, bounds=(-1, 1)),
        sparse_rows(sparse.csr_array, np.float64),
        X[:, 2:],
    ),
    "elastic net, chosen": (ElasticNetCV(l1_ratio=[0.1, 0.9], alphas=4), X[:, :3], X[:, 3]),
    "selector": (SparseSelector(max_features=2), X[:, :3], X[:, 3]),
    "selector, classes": (SparseSelector("log_loss"), X, NAMES[CODES]),
    "least squares": (LinearRegression(), X[:, :3], X[:, 3]),
    "least squares, sparse": (LinearRegression(fit_intercept=False), sparse_rows(sparse.csr_matrix, float), X[:, 2:]),
    "one class": (OneClassSVM(nu=0.1), sparse_rows(sparse.csr_matrix, np.float32), None),
}


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_keeps_every_bit(name, path):
    model, rows, labels = MODELS[name]
    model.fit(rows, labels)
    save_model(model, path)
    restored = load_model(path)
    assert type(restored) is type(model)
    stored = {key: value for key, value in vars(model).items() if key != "_training"}
    assert vars(restored).keys() == stored.keys()
    for key, value in stored.items():
        assert same(value, vars(restored)[key]), key
    if hasattr(model, "decision_function"):
        assert same(restored.decision_function(rows), model.decision_function(rows))
    what = "predict" if hasattr(model, "predict") else "transform"
    assert same(getattr(restored, what)(rows), getattr(model, what)(rows))
    assert any(restored.solution_ is solution for solution in restored.solutions_)


def test_feature_names_survive(path):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c", "dé"])
    model = SVC().fit(frame, NAMES[CODES])
    save_model(model, path)
    restored = load_model(path)
    assert same(restored.feature_names_in_, model.feature_names_in_)
    assert same(restored.predict(frame), model.predict(frame))


def test_an_unfinished_fit_can_be_resumed_after_loading(path):
    rows = StandardScaler().fit_transform(load_breast_cancer().data)
    labels = load_breast_cancer().target
    model = LinearSVC(tol=1e-10, max_iter=2, warm_start=True, solver="dual_coordinate")
    with pytest.warns(UserWarning, match="iteration limit"):
        model.fit(rows, labels)
    save_model(model, path)
    restored = load_model(path)
    assert restored.status_ is Status.MAX_ITER
    assert same(restored.solutions_, model.solutions_)
    restored.set_params(max_iter=-1, tol=1e-6).fit(rows, labels)
    assert restored.status_ is Status.CONVERGED
    assert restored.solution_.history[0].primal <= model.objective_ * (1 + 1e-12)


def test_infinite_and_undefined_history_survives(fitted, path):
    model = SVC(C=2.0, tol=1e-6).fit(X, CODES)
    odd = dataclasses.replace(fitted.solutions_[0].history[0], primal=math.inf, dual=math.nan)
    solutions = [dataclasses.replace(solution, history=(odd,)) for solution in model.solutions_]
    model.solutions_, model.solution_ = solutions, solutions[1]
    save_model(model, path)
    assert "NaN" not in json.dumps(document_of(path))
    restored = load_model(path)
    assert same(restored.solutions_, model.solutions_)
    assert restored.solution_ is restored.solutions_[1]


def test_a_shared_point_is_restored_wherever_it_occurs(path):
    model = SVC().fit(X, CODES)
    model.solutions_ = [dataclasses.replace(s, point=model.solutions_[0].point) for s in model.solutions_]
    model.solution_ = model.solutions_[2]
    save_model(model, path)
    restored = load_model(path)
    assert same(restored.solutions_, model.solutions_)
    assert restored.solutions_[0].point.w is restored.solutions_[2].point.w


def test_same_model_same_file(fitted, tmp_path):
    save_model(fitted, tmp_path / "a")
    save_model(fitted, tmp_path / "b.anything")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b.anything").read_bytes()


def test_every_exported_estimator_has_a_layout():
    exported = {
        name
        for name in estimators.__all__
        if isinstance(getattr(estimators, name), type) and issubclass(getattr(estimators, name), BaseEstimator)
    } - {"SVCCV", "SVRCV", "LinearSVCCV"}  # of which the best estimator is stored
    assert set(ATTRIBUTES) == exported, "describe the attributes of the new estimator in models/rules.py"


def test_of_a_search_the_best_estimator_is_stored(path):
    search = SVCCV(Cs=[1.0], gammas=[0.1], cv=2).fit(X, CODES)
    with pytest.raises(ModelFileError, match="save its best_estimator_"):
        save_model(search, path)
    save_model(search.best_estimator_, path)
    np.testing.assert_array_equal(load_model(path).predict(X), search.predict(X))


def test_the_file_holds_no_pickle(fitted, path):
    save_model(fitted, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "model.json"
        for name in archive.namelist()[1:]:
            np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
    assert document_of(path)["maxmargin"] == maxmargin.__version__


# --- Refused models ---


class Inheriting(SVC):
    pass


def with_attribute(name, value):
    model = SVC().fit(X, CODES)
    setattr(model, name, value)
    return model


REFUSED = {
    "callable kernel": (lambda: SVC(kernel=lambda A, B: A @ B.T).fit(X, CODES), "kernel is code.*precomputed"),
    "callback": (lambda: SVC(callback=print), r"callback is code.*set_params\(callback=None\)"),
    "callbacks of scikit-learn": (lambda: with_attribute("_skl_callbacks", []), r"set_callbacks\(\)"),
    "random state": (
        lambda: SVC(random_state=np.random.RandomState(0)).fit(X, CODES),
        r"RandomState.*set_params\(random_state=0\)",
    ),
    "not fitted": (SVC, "is not fitted.*call fit first"),
    "subclass": (lambda: Inheriting().fit(X, CODES), "Inheriting has no file format; only SVC"),
    "stranger": (lambda: StandardScaler().fit(X), "StandardScaler has no file format"),
    "no estimator": (lambda: 3, "builtins.int has no file format"),
    "own attribute": (lambda: with_attribute("note", "hello"), r"'note'.*delattr\(model, 'note'\)"),
    "metadata request": (lambda: with_attribute("_metadata_request", object()), "_metadata_request"),
    "exotic parameter": (lambda: with_attribute("C", 1 + 2j), "C is a builtins.complex"),
    "longdouble": (lambda: with_attribute("C", np.longdouble(1)), "C is a numpy.longdouble"),
    "NaN coefficient": (lambda: with_attribute("intercept_", np.array([0, np.nan, 0])), "intercept_.*finite floats"),
    "wrong shape": (lambda: with_attribute("intercept_", np.zeros(2)), "intercept_.*shape"),
    "label with NUL": (
        lambda: SVC().fit(X, np.array(["a", "b", "c\0"], dtype=object)[CODES]),
        "classes_ holds objects that are not plain text",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stored_is_refused_in_a_sentence(name, path, tmp_path):
    make, match = REFUSED[name]
    with pytest.raises(ModelFileError, match=match) as caught:
        save_model(make(), path)
    assert SENTENCE.match(str(caught.value))
    assert list(tmp_path.iterdir()) == []


# --- Writing ---


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(fitted, path, tmp_path, monkeypatch):
    path.write_bytes(b"old")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="No space left"):
        save_model(fitted, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_follow_the_umask_and_links_are_followed(fitted, path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    before = os.umask(0o022)
    try:
        save_model(fitted, link)
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(tmp_path.iterdir()) == [link, path]


def test_only_files_are_replaced(fitted, tmp_path):
    with pytest.raises(ModelFileError, match="directory or a device"):
        save_model(fitted, tmp_path)
    with pytest.raises(ModelFileError, match="directory or a device"):
        save_model(fitted, "/dev/null")
    with pytest.raises(FileNotFoundError):
        save_model(fitted, tmp_path / "missing" / "model.mm")


# --- Malformed files ---


def document_of(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("model.json"))


def members_of(model, path):
    save_model(model, path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)


def npy(array, **options):
    raw = io.BytesIO()
    np.save(raw, array, **options)
    return raw.getvalue()


def edit(change):
    """A damage that changes the document."""

    def damage(members):
        document = json.loads(members["model.json"])
        change(document)
        members["model.json"] = json.dumps(document)

    return damage


def put(value, *keys):
    """A damage that replaces a value deep in the document."""

    def change(document):
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return edit(change)


def drop(*keys):
    def change(document):
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return edit(change)


def replace_array(name, array):
    """A damage that replaces an array and announces it rightly."""

    def damage(members):
        members[f"{name}.npy"] = npy(array)
        put({"array": f"{name}.npy", "dtype": array.dtype.str, "shape": list(array.shape)}, "fitted", name)(members)

    return damage


def member(name, raw):
    return lambda members: members.__setitem__(name, raw)


SOLUTION = ("fitted", "solutions_", 0, "Solution")
POINT = (*SOLUTION, "point", "Point")
INTERCEPT = ("fitted", "intercept_")
BAD_FILES = {
    # The document.
    "document missing": (lambda members: members.pop("model.json"), "model.json is missing"),
    "not JSON": (member("model.json", b"{"), "model.json is not valid"),
    "not UTF-8": (member("model.json", b'{"a": "\xff"}'), "model.json is not valid"),
    "not an object": (member("model.json", b"[]"), "not a model file"),
    "bare NaN": (member("model.json", b'{"a": NaN}'), "NaN is not a JSON number"),
    "key twice": (member("model.json", b'{"a": 1, "a": 2}'), "a key occurs twice"),
    "endless number": (member("model.json", b'{"a": ' + b"9" * 5000 + b"}"), "model.json is not valid"),
    "nested": (member("model.json", b"[" * 100_000 + b"]" * 100_000), "nested too deeply"),
    "other format": (put("other", "format"), "does not say"),
    "newer version": (put(2, "version"), "version '2' of the format.*reads version 1; update"),
    "version true": (put(True, "version"), "version 'True'"),
    "no version": (drop("version"), "version 'None'"),
    "key missing": (drop("maxmargin"), "must have the keys"),
    "key unknown": (put(1, "extra"), "must have the keys"),
    # Classes and parameters.
    "unknown class": (put("os.system", "class"), "'os.system', but only SVC"),
    "unhashable class": (put(["SVC"], "class"), "but only SVC"),
    "other class": (put("LinearSVC", "class"), "LinearSVC has no parameter"),
    "unknown record": (put({"Popen": {}}, "fitted", "solution_"), "'Popen' is not a kind of value"),
    "nameless value": (put({}, "fitted", "solution_"), "'' is not a kind of value"),
    "parameters no object": (put([], "parameters"), "not objects"),
    "unknown parameter": (put(1, "parameters", "evil"), "no parameter 'evil'"),
    "nested parameter": (put(1, "parameters", "kernel__degree"), "no parameter 'kernel__degree'"),
    "wrong parameter": (put("banana", "parameters", "kernel"), "'kernel' parameter of SVC"),
    "parameter NaN": (put({"float": "nan"}, "parameters", "C"), "A parameter is NaN"),
    "parameter infinite": (put({"float": "inf"}, "parameters", "gamma"), "'gamma' parameter of SVC"),
    # Fitted attributes.
    "attribute missing": (drop("fitted", "_gamma"), "lacks the attribute _gamma"),
    "attribute unknown": (put(1, "fitted", "__class__"), "no fitted attribute '__class__'"),
    "attribute is a method": (put(1, "fitted", "predict"), "no fitted attribute 'predict'"),
    "attribute is a parameter": (put(1, "fitted", "C"), "no fitted attribute 'C'"),
    "no classes": (replace_array("classes_", np.arange(1)), "classes_.*at least 2"),
    "classes not sorted": (replace_array("classes_", np.array([2, 1, 0])), "classes_.*sorted"),
    "one class more": (replace_array("classes_", np.arange(4)), "is not an array of finite floats of shape"),
    "gamma NaN": (put({"float": "nan"}, "fitted", "_gamma"), "_gamma.*not NaN"),
    "gamma text": (put("scale", "fitted", "_gamma"), "_gamma.*not NaN"),
    "features negative": (put(-4, "fitted", "n_features_in_"), "n_features_in_"),
    "features false": (put(True, "fitted", "n_features_in_"), "n_features_in_"),
    "fewer features": (put(3, "fitted", "n_features_in_"), "support_vectors_"),
    "shape of the data": (put({"tuple": [150, 3]}, "fitted", "shape_fit_"), "shape_fit_ contradict"),
    "shape no tuple": (put([150, 4], "fitted", "shape_fit_"), "shape_fit_ of SVC is not"),
    "row outside": (put({"tuple": [50, 4]}, "fitted", "shape_fit_"), "support_ or the sizes"),
    "NaN intercept": (replace_array("intercept_", np.array([0, np.nan, 0])), "intercept_.*finite floats"),
    "intercept of integers": (replace_array("intercept_", np.zeros(3, int)), "intercept_.*finite floats"),
    "intercept too short": (replace_array("intercept_", np.zeros(2)), "intercept_.*shape"),
    "counts": (replace_array("_n_support", np.array([1, 2, 3], np.int32)), "n_support_ contradicts"),
    "status unknown": (put({"Status": "__doc__"}, *SOLUTION, "status"), "'__doc__' is not a status"),
    "status unhashable": (put({"Status": []}, *SOLUTION, "status"), "is not a status"),
    "status no status": (put(1, *SOLUTION, "status"), "is not a Status"),
    # Solutions.
    "a solution less": (drop("fitted", "solutions_", 0), "refers to|belongs to no attribute|one Solution"),
    "solution elsewhere": (put({"same": "solutions_.9"}, "fitted", "solution_"), "refers to 'solutions_.9'"),
    "field missing": (drop(*SOLUTION, "tol"), "exactly the keys"),
    "field unknown": (put(1, *SOLUTION, "extra"), "exactly the keys"),
    "record no object": (put([], *SOLUTION[:3], "Solution"), "exactly the keys"),
    "certificate NaN": (put({"float": "nan"}, *SOLUTION, "certificate", "Certificate", "primal"), "primal.*not NaN"),
    "iterations negative": (put(-1, *SOLUTION, "iterations"), "iterations of a Solution"),
    "history no tuple": (put([], *SOLUTION, "history"), "history of a Solution"),
    "history of numbers": (put({"tuple": [1]}, *SOLUTION, "history"), "history of a Solution"),
    "point is a status": (put({"Status": "STALLED"}, *SOLUTION, "point"), "is not a Point"),
    "weights no array": (put([1.0], *POINT, "w"), "w of a Point"),
    "no dual variables": (put(None, *POINT, "alpha"), "belongs to no attribute|dual variables"),
    "counters": (put({"dict": [["a", "b"]]}, *SOLUTION, "history", "tuple", 0, "Record", "counters"), "counters"),
    "dict of triples": (put({"dict": [[1, 2, 3]]}, "parameters", "class_weight"), "pairs"),
    "dict with list as key": (put({"dict": [[[], 1]]}, "parameters", "class_weight"), "neither a number nor text"),
    "dict no list": (put({"dict": 1}, "parameters", "class_weight"), "not written as a list"),
    # Numbers.
    "float unknown": (put({"float": "1"}, "fitted", "_gamma"), "is not inf, -inf or nan"),
    "float with more": (put({"float": "inf", "x": 1}, "fitted", "_gamma"), "exactly the keys"),
    "scalar of objects": (put({"scalar": "|O8", "value": 1}, "parameters", "C"), "not the type of a number"),
    "scalar that does not fit": (put({"scalar": "|i1", "value": 300}, "parameters", "C"), "not a value of type"),
    "scalar from a list": (put({"scalar": "<f8", "value": [1.0]}, "parameters", "C"), "not a value of type"),
    # Arrays.
    "array missing": (lambda members: members.pop("intercept_.npy"), "'intercept_.npy' is missing"),
    "array is the document": (put("model.json", *INTERCEPT, "array"), "'model.json' is missing"),
    "array name no text": (put(3, *INTERCEPT, "array"), "'3' is missing"),
    "object dtype": (put("|O", *INTERCEPT, "dtype"), "dtype '|O'"),
    "structured dtype": (put("f8,f8", *INTERCEPT, "dtype"), "dtype 'f8,f8'"),
    "dtype of no size": (put("<f3", *INTERCEPT, "dtype"), "not the array <f3"),
    "dtype no text": (put(8, *INTERCEPT, "dtype"), "dtype '8'"),
    "shape negative": (put([-3], *INTERCEPT, "shape"), "shape"),
    "shape of text": (put(["3"], *INTERCEPT, "shape"), "shape"),
    "shape huge": (put([2**62, 2**62], *INTERCEPT, "shape"), "the array alone"),
    "shape deep": (put([3, 1, 1, 1], *INTERCEPT, "shape"), "at most 3 sizes"),
    "other shape": (put([1, 3], *INTERCEPT, "shape"), r"it holds float64 of shape \(3,\)"),
    "other dtype": (put("<i8", *INTERCEPT, "dtype"), "it holds float64"),
    "no npy": (member("intercept_.npy", b"x" * 100), "not the array"),
    "empty npy": (member("intercept_.npy", b""), "not the array"),
    "npy too short": (member("intercept_.npy", npy(np.zeros(3))[:-1]), "not the array"),
    "npy too long": (member("intercept_.npy", npy(np.zeros(3)) + b"x"), "its length"),
    "npy far too long": (member("intercept_.npy", npy(np.zeros(3)) + b"x" * 20_000), "the array alone 24"),
    "npy 2.0": (member("intercept_.npy", b"\x93NUMPY\x02\x00" + npy(np.zeros(3))[8:]), "another version"),
    "npy of Python 2": (member("intercept_.npy", npy(np.zeros(3)).replace(b"(3,), ", b"(3L,),")), "not the array"),
    "pickle": (member("intercept_.npy", npy(np.array([1.0, None, "x"]), allow_pickle=True)), "not the array"),
    "pickle alone": (member("intercept_.npy", pickle.dumps(np.zeros(3))), "not the array"),
    # The archive.
    "stray member": (member("evil.npy", npy(np.zeros(3))), "'evil.npy' belongs to no attribute"),
    "path upwards": (member("../evil.npy", npy(np.zeros(3))), "'../evil.npy' is not one"),
    "absolute path": (member("/tmp/evil.npy", npy(np.zeros(3))), "'/tmp/evil.npy' is not one"),
    "backslash": (member("..\\evil.npy", npy(np.zeros(3))), "is not one"),
    "other suffix": (member("evil.py", b""), "'evil.py' is not one"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_malformed_files_are_refused_in_a_sentence(name, fitted, path):
    damage, match = BAD_FILES[name]
    members = members_of(fitted, path)
    damage(members)
    write_members(path, members)
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    assert SENTENCE.match(str(caught.value))


def sparse_model():
    return SVC().fit(sparse_rows(sparse.csr_matrix, np.float64), CODES)


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("indices", lambda a: a + 4),
        ("indices", lambda a: a - 1),
        ("indptr", lambda a: a[::-1]),
        ("indptr", lambda a: a + 1),
        ("indptr", lambda a: np.where(a == a.max(), 2**30, a)),
        ("indptr", lambda a: a[:-1]),
        ("data", lambda a: a[:-1]),
        ("data", lambda a: np.full_like(a, np.nan)),
        ("data", lambda a: np.full(a.shape, "x")),
    ],
)
def test_crafted_sparse_matrices_never_reach_compiled_code(array, change, path):
    members = members_of(sparse_model(), path)
    name = f"support_vectors_.{array}.npy"
    crafted = np.ascontiguousarray(change(np.load(io.BytesIO(members[name]))))
    if array == "indices":
        crafted = crafted.astype(np.int32)
    members[name] = npy(crafted)
    node = {"array": name, "dtype": crafted.dtype.str, "shape": list(crafted.shape)}
    put(node, "fitted", "support_vectors_", "csr_matrix", array)(members)
    write_members(path, members)
    with pytest.raises(ModelFileError, match=r"sparse matrix is inconsistent|support_vectors_"):
        load_model(path)


def test_crafted_shape_of_a_sparse_matrix(path):
    members = members_of(sparse_model(), path)
    for shape in ([60], "60", [60, -4], [60, 2], 7, [2**70, 4]):
        put(shape, "fitted", "support_vectors_", "shape")(members)
        write_members(path, members)
        with pytest.raises(ModelFileError, match=r"sparse matrix is inconsistent|support_vectors_"):
            load_model(path)


def test_members_may_not_occur_twice(fitted, path):
    members = members_of(fitted, path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("intercept_.npy", members["intercept_.npy"])
    with pytest.raises(ModelFileError, match=r"'intercept_\.npy' occurs twice"):
        load_model(path)


def test_unknown_compression_is_refused(fitted, path):
    members = members_of(fitted, path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    with pytest.raises(ModelFileError, match="packed in an unknown way"):
        load_model(path)


def test_bombs_are_refused_before_they_are_unpacked(fitted, path):
    members = members_of(fitted, path)
    with pytest.raises(ModelFileError, match=r"unpacks to \d+ bytes, more than 1000; pass max_bytes"):
        load_model(path, max_bytes=1000)
    put({"array": "intercept_.npy", "dtype": "<f8", "shape": [2**27]}, *INTERCEPT)(members)
    raw = npy(np.zeros(3)) + bytes(2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, raw if name == "intercept_.npy" else content)
    with pytest.raises(ModelFileError, match="the array alone 1073741824"):
        load_model(path)


def test_missing_and_foreign_files(path, tmp_path):
    with pytest.raises(ModelFileError, match="There is no such file"):
        load_model(path)
    with pytest.raises(ModelFileError, match="This is a directory"):
        load_model(tmp_path)
    for content in (b"", b"+1 1:2\n", b"PK\x05\x06" + bytes(18), pickle.dumps(SVC())):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="not a model file"):
            load_model(path)


def test_truncated_files_are_refused(fitted, path):
    save_model(fitted, path)
    raw = path.read_bytes()
    for length in range(0, len(raw), 97):
        path.write_bytes(raw[:length])
        with pytest.raises(ModelFileError):
            load_model(path)


def test_flipped_bits_are_refused_or_harmless(fitted, path):
    save_model(fitted, path)
    raw = path.read_bytes()
    expected = fitted.decision_function(X)
    rng = np.random.default_rng(0)
    refusals = []
    for position in rng.choice(len(raw), 400, replace=False):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:  # what is left are time stamps and the like: nothing that the model is made of
            assert same(load_model(path).decision_function(X), expected)
        except ModelFileError as error:
            refusals.append(str(error))
    assert len(refusals) > 200
    assert all(map(SENTENCE.match, refusals))


def test_older_files_without_a_newer_parameter_take_its_default(fitted, path):
    members = members_of(fitted, path)
    drop("parameters", "break_ties")(members)
    write_members(path, members)
    assert load_model(path).break_ties is False


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(ModelFileError("a/b.mm", "It is bad.")))
    assert (error.path, error.sentence, str(error)) == ("a/b.mm", "It is bad.", "a/b.mm: It is bad.")
    assert isinstance(error, ValueError)


# --- files that earlier code wrote ---

OLD = Path(__file__).parent / "data" / "models"
EXPECTED = json.loads((OLD / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_old_files_are_read_and_predict_the_same(name):
    X = np.array(EXPECTED["X"])
    rows = sparse.csr_array(np.where(np.abs(X) > 0.3, X, 0.0)) if "-sparse-" in name else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of several classes, whose probabilities were other ones
        model = load_model(OLD / f"{name}.mm")
    methods = {"predict": model.predict, "scores": getattr(model, "decision_function", None)}
    methods["probabilities"] = getattr(model, "predict_proba", None)
    for key, expected in EXPECTED["models"][name].items():
        if key == "probabilities" and name == "SVC-sparse-multiclass-probability":
            with pytest.warns(UserWarning, match="are those of an older version and were left out"):
                load_model(OLD / f"{name}.mm")
            continue
        found = methods[key](rows)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        else:
            assert found.tolist() == expected
