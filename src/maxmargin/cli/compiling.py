"""``maxmargin compile``: machine code for the common fits, made ahead of them: for images of containers, and for CI."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from maxmargin import (
    SVC,
    SVR,
    ElasticNet,
    KernelRidge,
    Lasso,
    LinearRegression,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Ridge,
    RidgeClassifier,
)
from maxmargin._jit import seconds_compiling
from maxmargin.cli.output import SUCCESS, write, write_json
from maxmargin.operators import Matrix
from maxmargin.protocols import Array, Float

FEW, MANY = 90, 2100  # samples: one compiled call, and the loop


class Model(Protocol):
    """An estimator."""

    def fit(self, X: Matrix, y: Array, /) -> object:
        """Fit samples."""

    def predict(self, X: Matrix, /) -> object:
        """What is predicted of samples."""


def compile_all(arguments: argparse.Namespace) -> int:
    """Fit and predict on made-up samples with every common estimator, so that all of its loops are stored."""
    fits, began, own = common_fits(), time.perf_counter(), seconds_compiling()
    show = sys.stderr.isatty() and not arguments.json
    for number, (name, fit) in enumerate(fits, 1):
        if show:
            sys.stderr.write(f"\r{number} of {len(fits)}: {name}, {time.perf_counter() - began:.0f} s".ljust(79))
            sys.stderr.flush()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # the samples mean nothing
            fit()
    if show:
        sys.stderr.write("\r" + " " * 79 + "\r")
    seconds = seconds_compiling() - own
    if arguments.json:
        write_json({"command": "compile", "fits": [name for name, _ in fits], "seconds": seconds})
    else:
        write(
            f"Machine code for {len(fits)} kinds of fits is stored; making or loading it took {seconds:.1f} s.\n"
            "Processes on processors of this kind, with this version of maxmargin, load it from now on.\n"
        )
    return SUCCESS


def common_fits() -> list[tuple[str, Callable[[], object]]]:
    """What people fit most, each with a name: small and large samples, dense and sparse, and predictions of both."""
    (few, y), (many, of_many) = _samples(FEW), _samples(MANY)
    of_classes: list[Model] = [
        SVC(), SVC(kernel="linear"), SVC(kernel="poly"), SVC(probability=True), NuSVC(nu=0.1),
        LinearSVC(), LinearSVC(loss="hinge"), LogisticRegression(), RidgeClassifier(),
    ]  # fmt: skip
    of_numbers: list[Model] = [
        SVR(), SVR(kernel="linear"), NuSVR(), OneClassSVM(), LinearSVR(), KernelRidge(kernel="rbf"), Ridge(),
        LinearRegression(), Lasso(alpha=0.1), ElasticNet(alpha=0.1),
    ]  # fmt: skip
    in_the_loop: list[Model] = [
        SVC(), NuSVC(nu=0.1), LinearSVC(max_iter=100), LinearSVC(loss="hinge", max_iter=100),
        LogisticRegression(max_iter=100),
    ]  # fmt: skip
    of_sparse: list[Model] = [SVC(), LinearSVC(), LogisticRegression()]
    cases: list[tuple[str, Model, Matrix, Array]] = []  # labels are whole numbers, as most are
    cases += [("two classes", model, few, np.minimum(y, 1)) for model in of_classes]
    cases += [("three classes", model, few, y) for model in of_classes]
    cases += [("numbers", model, few, y + 0.5) for model in of_numbers]
    cases += [("many samples", model, many, np.minimum(of_many, 1)) for model in in_the_loop]
    cases += [("many samples", SVR(), many, of_many + 0.5)]
    cases += [("sparse samples", model, sp.csr_array(few), np.minimum(y, 1)) for model in of_sparse]
    return [(f"{model}, {what}", partial(_fit_and_predict, model, X, y)) for what, model, X, y in cases]


def _samples(n: int) -> tuple[Float, Array]:
    """Three classes that overlap."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 5)) + y[:, None], y


def _fit_and_predict(model: Model, X: Matrix, y: Array) -> None:
    """One row and all of them."""
    model.fit(X, y)
    model.predict(X[:1])
    model.predict(X)
