"""The workloads: which data, which problem. To add one, add a line to a table below.

A new family of problems gets a value of ``Task.family``, a table here, a class in ``judge.py``, and an answer from the
solvers that know it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark_utils import data

Arrays = tuple[Any, Any]


# Families, by what they minimise over functions f and, unless the task says otherwise, a free intercept b:
#
# linear   1/2 |f|^2 + C sum_i loss(y_i (f(x_i) + b)), without a kernel
# kernel   the same with one
# ovo      the same for every pair of classes
# svr      1/2 |f|^2 + C sum_i max(0, |y_i - f(x_i) - b| - epsilon)
# nu-svc   1/2 |f|^2 - nu rho + mean_i max(0, rho - y_i (f(x_i) + b)), over rho too
# nu-svr   1/2 |f|^2 + C (n nu epsilon + sum_i max(0, |y_i - f(x_i) - b| - epsilon)), over epsilon too
# predict  labels of all rows by a kernel machine that was fitted to the first ``train`` rows, which is not timed


@dataclass(frozen=True)
class Task:
    """The problem that every solver must solve."""

    family: str
    loss: str = "hinge"  # or "squared_hinge", of the linear family only
    C: float = 1.0
    gamma: float | str = 0.0  # of the kernel; "scale" is 1 / (d var(X)), as in scikit-learn
    intercept: str | None = "free"  # "free", "penalised" or None
    kernel: str = "rbf"  # or "poly" or "linear"
    degree: int = 3
    coef0: float = 0.0
    nu: float = 0.5
    epsilon: float = 0.1
    train: int = 0

    def resolved(self, X: Any) -> Task:
        """The task with a number for ``gamma="scale"``."""
        if self.gamma != "scale":
            return self
        variance = X.multiply(X).mean() - X.mean() ** 2 if hasattr(X, "multiply") else X.var()
        return replace(self, gamma=1.0 / (X.shape[1] * float(variance)))


@dataclass(frozen=True)
class Workload:
    """A task on data. ``load`` takes the directory of real data, which synthetic workloads ignore."""

    name: str
    task: Task
    load: Callable[[Path | None], Arrays]
    real: bool = False
    quick: bool = False


LOSSES = {"hinge": "hinge", "sqhinge": "squared_hinge"}
INTERCEPTS = {"free": "free", "pen": "penalised", "none": None}


def _kernel(C: float, gamma: float | str) -> Task:
    return Task("kernel", C=float(C), gamma=gamma)


def _real(name: str, task: Task, read: Callable[[Path], Arrays], quick: bool = False) -> Workload:
    return Workload(name, task, lambda directory: read(directory), real=True, quick=quick)


def _synthetic_kernels() -> list[Workload]:
    return [
        Workload(
            f"rbf-{n // 1000}k-C{C}",
            _kernel(C, 0.02),
            lambda _, n=n: data.curved_classes(n, 50),
            quick=n == 2_000,
        )
        for n in (2_000, 10_000)
        for C in (1, 100)
    ] + [
        Workload("nu-svc-2k", Task("nu-svc", gamma=0.02), lambda _: data.curved_classes(2_000, 50), quick=True),
        Workload("nu-svc-10k", Task("nu-svc", gamma=0.02), lambda _: data.curved_classes(10_000, 50)),
        Workload(
            "predict-d50",
            Task("predict", gamma=0.02, train=10_000),  # 4.9k support vectors
            lambda _: data.curved_classes(20_000, 50),
        ),
    ]


def _synthetic_linear() -> list[Workload]:
    sources = {
        "dense-5k": (lambda _: data.tilted_classes(5_000, 50), True),
        "text-4k": (lambda _: data.bag_of_words(4_000, 8_000, 10), True),
        "dense-100k": (lambda _: data.tilted_classes(100_000, 50), False),
        "text-20k": (lambda _: data.bag_of_words(20_000, 20_000, 20), False),
    }
    return [
        Workload(f"{source}-{loss}-{intercept}", Task("linear", LOSSES[loss], 1.0, intercept=kind), load, quick=quick)
        for source, (load, quick) in sources.items()
        for loss in LOSSES
        for intercept, kind in INTERCEPTS.items()
    ]


def _real_kernels() -> list[Workload]:
    libsvm = data.read_libsvm
    mushrooms, usps = libsvm("mushrooms", dense=True), libsvm("usps", dense=True, labels=(4, 6))
    return [
        _real("heart-rbf", _kernel(1, 1 / 13), libsvm("heart_scale", dense=True), quick=True),
        _real("breast-cancer-rbf", _kernel(1, 0.1), libsvm("breast-cancer", dense=True, scale=(-1, 1)), quick=True),
        _real("mushrooms-C1", _kernel(1, 1 / 112), mushrooms, quick=True),
        _real("mushrooms-C100", _kernel(100, 1 / 112), mushrooms),
        _real("usps-3v5-C1", _kernel(1, 1 / 128), usps, quick=True),
        _real("usps-3v5-C100", _kernel(100, 1 / 128), usps, quick=True),
        _real("a9a-rbf", _kernel(1, 0.05), libsvm("a9a", dense=True)),
        _real("a9a-csr-rbf", _kernel(1, 0.05), libsvm("a9a")),
        _real("w8a-rbf", _kernel(1, 0.05), libsvm("w8a")),
        _real("ijcnn1-rbf", _kernel(32, 2.0), libsvm("ijcnn1", dense=True)),
        _real("mnist-20k-rbf", _kernel(10, 0.02), data.read_mnist(20_000)),
        _real("covtype-100k-rbf", _kernel(10, 1.0), data.read_covtype(100_000, scaled=True)),
        _real("cadata-svr", Task("svr", C=10.0, gamma=1 / 8), data.read_cadata()),
        _real("mnist-20k-ovo", Task("ovo", C=10.0, gamma=0.02), data.read_mnist(20_000, digits=True)),
        _real("predict-d784", Task("predict", C=10.0, gamma=0.035, train=20_000), data.read_mnist(20_000)),  # 5.0k
    ]


def _real_linear() -> list[Workload]:
    libsvm = data.read_libsvm
    sources = {
        "mushrooms": (libsvm("mushrooms"), True),
        "usps-3v5": (libsvm("usps", dense=True, labels=(4, 6)), True),
        "a9a": (libsvm("a9a"), False),
        "w8a": (libsvm("w8a"), False),
        "rcv1": (libsvm("rcv1_ccat"), False),
        "news20": (libsvm("news20", one_against_rest=True), False),
        "ijcnn1": (libsvm("ijcnn1", dense=True), False),
        "cod-rna": (libsvm("cod-rna", dense=True, scale=(0, 1)), False),
        "mnist": (data.read_mnist(60_000), False),
        "covtype-scaled": (libsvm("covtype.binary", dense=True, scale=(0, 1)), False),
        "covtype-standardised": (libsvm("covtype.binary", dense=True, standardised=True), False),
        "covtype-raw": (libsvm("covtype.binary", dense=True), False),
    }
    # Without an intercept all libraries solve the same problem; with one, some sets show what it costs.
    with_intercept = {"a9a", "covtype-scaled", "covtype-standardised", "covtype-raw"}
    return [
        _real(f"{source}-{loss}-{intercept}", Task("linear", LOSSES[loss], 1.0, intercept=kind), read, quick)
        for source, (read, quick) in sources.items()
        for loss in LOSSES
        for intercept, kind in INTERCEPTS.items()
        if kind is None or source in with_intercept
    ]


SYNTHETIC = _synthetic_kernels() + _synthetic_linear()
REAL = _real_kernels() + _real_linear()
BY_NAME = {workload.name: workload for workload in SYNTHETIC + REAL}
