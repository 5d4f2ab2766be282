"""What a user writes, for `tests/test_types.py`: it is checked by mypy, and never run."""

from typing import Literal, assert_type

import numpy as np
from numpy.typing import NDArray

from maxmargin import (
    SVC,
    SVR,
    Certificate,
    DistributedSVC,
    Lasso,
    LinearSVC,
    LogisticRegression,
    NuSVC,
    OneClassSVM,
    Ridge,
    Solution,
    Status,
    certify,
    explain_solver,
    load_planets,
    svm_path,
)
from maxmargin.io import load_model, read_data, save_model

Numbers = NDArray[np.float64]


def train(X: Numbers, y: NDArray[np.int64], quantities: Numbers) -> float:
    model = SVC(kernel="rbf", C=10.0, gamma="scale").fit(X, y)
    assert_type(model, SVC)
    assert_type(model.decision_function(X), Numbers)
    assert_type(model.solution_, Solution)
    assert_type(model.solution_.certificate, Certificate)
    assert_type(model.status_, Status)
    assert_type(model.duality_gap_, float)
    assert_type(model.score(X, y), float)
    assert_type(model.predict_proba(X), Numbers)
    assert_type(LinearSVC(loss="hinge", multi_class="crammer_singer").fit(X, y).coef_, Numbers)
    assert_type(LogisticRegression(penalty="elasticnet", l1_ratio=0.5).fit(X, y).predict_proba(X), Numbers)
    assert_type(Lasso(0.1).fit(X, quantities).coef_, Numbers)
    assert_type(SVR(loss="squared_epsilon_insensitive").fit(X, quantities).objective_, float)
    assert_type(OneClassSVM(nu=0.1).fit(X), OneClassSVM)
    assert_type(NuSVC(nu=0.1).fit(X, y).objective_, float)
    assert_type(Ridge().fit(X, quantities).solution_, Solution)
    assert_type(explain_solver(model, X, y), str)
    return certify(model, X, y).relative_gap


def of_names(names: Literal["rbf", "linear"], rows: Numbers, labels: Numbers) -> None:
    SVC(kernel=names)
    SVC(kernel=lambda left, right: left @ right.T)
    SVC(kernel="rfb")  # E: "kernel" to "SVC"
    SVC(gamma="scaled")  # E: "gamma" to "SVC"
    SVC(C="1")  # E: "C" to "SVC"
    SVC(intercept="fre")  # E: "intercept" to "SVC"
    SVC(max_time="1")  # E: "max_time" to "SVC"
    SVR(loss="hinge")  # E: "loss" to "SVR"
    LinearSVC(loss="hnge")  # E: "loss" to "LinearSVC"
    LinearSVC(penalty="elasticnet")  # E: "penalty" to "LinearSVC"
    LogisticRegression(multi_class="ovo")  # E: "multi_class" to "LogisticRegression"
    DistributedSVC(engine="spark")  # E: "engine" to "DistributedSVC"
    svm_path(rows, labels, kernel="rfb")  # E: "kernel" to "svm_path"


def of_files(path: str) -> None:
    data = read_data(path)
    save_model(LinearSVC().fit(data.X, data.y), path)
    load_model(path)
    load_planets()
