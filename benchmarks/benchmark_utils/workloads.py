"""The workloads: which data, which problem. To add one, add a line to a table below.

Later families (nu-SVC, regression, multiclass, LASSO, prediction) get a value of ``Task.family``, a table here, a
branch in ``judge.py``, and an answer from the solvers that know them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark_utils import data

Arrays = tuple[Any, Any]


@dataclass(frozen=True)
class Task:
    """The problem that every solver must solve: ``1/2 |f|^2 + C sum_i loss(y_i (f(x_i) + b))``."""

    family: str  # "kernel" (RBF) or "linear"
    loss: str  # "hinge" or "squared_hinge"
    C: float
    gamma: float = 0.0  # of the RBF kernel
    intercept: str | None = "free"  # "free", "penalised" or None


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


def _kernel(C: float, gamma: float) -> Task:
    return Task("kernel", "hinge", C, gamma)


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
    return [
        _real("heart-rbf", _kernel(1.0, 1 / 13), libsvm("heart_scale", dense=True), quick=True),
        _real("breast-cancer-rbf", _kernel(1.0, 0.1), libsvm("breast-cancer", dense=True, scale=(-1, 1)), quick=True),
        _real("mushrooms-rbf", _kernel(1.0, 1 / 112), libsvm("mushrooms", dense=True), quick=True),
        _real("usps-3v5-rbf", _kernel(10.0, 1 / 128), libsvm("usps", dense=True, labels=(4, 6)), quick=True),
        _real("a9a-rbf", _kernel(1.0, 0.05), libsvm("a9a", dense=True)),
        _real("a9a-csr-rbf", _kernel(1.0, 0.05), libsvm("a9a")),
        _real("w8a-rbf", _kernel(1.0, 0.05), libsvm("w8a")),
        _real("ijcnn1-rbf", _kernel(32.0, 2.0), libsvm("ijcnn1", dense=True)),
        _real("mnist-20k-rbf", _kernel(10.0, 0.02), data.read_mnist(20_000)),
    ]


def _real_linear() -> list[Workload]:
    libsvm = data.read_libsvm
    sources = {
        "mushrooms": (libsvm("mushrooms"), True),
        "usps-3v5": (libsvm("usps", dense=True, labels=(4, 6)), True),
        "a9a": (libsvm("a9a"), False),
        "w8a": (libsvm("w8a"), False),
        "rcv1": (libsvm("rcv1_ccat"), False),
        "cod-rna": (libsvm("cod-rna", dense=True, scale=(0, 1)), False),
        "covtype": (libsvm("covtype.binary", dense=True, scale=(0, 1)), False),
    }
    # Without an intercept all libraries solve the same problem; with one, two sets show what it costs.
    with_intercept = {"a9a", "covtype"}
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
