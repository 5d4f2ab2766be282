"""Data: generated, or read from a directory. Matrices are float64, in C order or CSR; binary labels are -1 and 1."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

MANY_CLASSES = 20  # more different targets than this are a regression


def curved_classes(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian points with a curved border between the classes and some overlap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    score = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + X[:, 3:8].sum(axis=1)
    return X, _signs(score + rng.standard_normal(n))


def flipped_classes(n: int, d: int, flips: float = 0.1, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian points with a smooth border between the classes and a share of wrong labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = _signs(X[:, 0] + X[:, 1] * X[:, 2] + np.sin(3.0 * X[:, 3]))
    return X, np.where(rng.random(n) < flips, -y, y)


def tilted_classes(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Correlated columns, a plane between the classes that misses the origin, and overlap."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(d) + 0.5 * rng.standard_normal((d, d)) / np.sqrt(d)
    X = rng.standard_normal((n, d)) @ mixing
    score = X @ rng.standard_normal(d)
    return X, _signs(score / score.std() + 0.7 * rng.standard_normal(n) + 0.3)


def bag_of_words(n: int, d: int, words: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of unit length with about ``words`` positive entries whose columns follow Zipf's law."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(10, d + 10)
    columns = rng.choice(d, size=(n, words), p=popularity / popularity.sum()).ravel()
    rows = np.repeat(np.arange(n), words)
    rarity = -np.log(popularity / popularity.sum())
    X = sp.csr_matrix((rarity[columns] * rng.uniform(0.5, 1.5, columns.size), (rows, columns)), shape=(n, d))
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
    X = (sp.diags(1.0 / lengths) @ X).tocsr()
    X.sum_duplicates()
    score = X @ rng.standard_normal(d)
    return X, _signs(score / score.std() + 0.5 * rng.standard_normal(n))


def read_libsvm(
    name: str,
    *,
    dense: bool = False,
    scale: tuple[float, float] | None = None,
    standardised: bool = False,
    labels: tuple[int, int] | None = None,
    one_against_rest: bool = False,
) -> Callable[[Path], tuple[Any, Any]]:
    """A reader of ``<name>/<name>.train.libsvm.xz``: as rows, scaled, with two labels, or the last against the rest."""

    def read(directory: Path) -> tuple[Any, Any]:
        X, y = _read(directory, name)
        if labels is not None:
            kept = np.isin(y, labels)
            X, y = X[kept], y[kept]
        elif np.unique(y).size > 2 and not one_against_rest:
            raise ValueError(f"{name} has more than two classes: choose two labels, or one against the rest.")
        if dense:
            X = X.toarray()
        if scale is not None:
            X = _scaled(X, *scale)
        if standardised:
            spread = X.std(axis=0)
            X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return X, np.where(y == y.max(), 1.0, -1.0)

    return read


def read_mnist(n: int, *, digits: bool = False) -> Callable[[Path], tuple[Any, Any]]:
    """A reader of the first ``n`` images of ``mnist/mnist.train.npz``: ten digits, or odd against even."""

    def read(directory: Path) -> tuple[Any, Any]:
        with np.load(directory / "mnist" / "mnist.train.npz") as file:
            X, y = file["X"][:n] / 255.0, file["y"][:n].astype(int)
        return X, y.astype(float) if digits else np.where(y % 2 == 1, 1.0, -1.0)

    return read


def read_covtype(n: int, *, scaled: bool, seed: int = 0) -> Callable[[Path], tuple[Any, Any]]:
    """A reader of ``n`` random rows of covtype.binary, as they are or with columns scaled to [0, 1]."""

    def read(directory: Path) -> tuple[Any, Any]:
        X, y = read_libsvm("covtype.binary", dense=True, scale=(0, 1) if scaled else None)(directory)
        rows = np.sort(np.random.default_rng(seed).choice(len(y), n, replace=False))
        return X[rows], y[rows]

    return read


def read_cadata() -> Callable[[Path], tuple[Any, Any]]:
    """A reader of cadata (California housing) with standardised columns and target."""

    def read(directory: Path) -> tuple[Any, Any]:
        X, y = _read(directory, "cadata")
        return tuple((v - v.mean(axis=0)) / v.std(axis=0) for v in (X.toarray(), y))

    return read


def save(directory: Path, X: Any, y: Any) -> None:
    """Write the arrays so that other processes can map them."""
    if sp.issparse(X):
        X.sum_duplicates()
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape} if sp.issparse(X) else {"X": X}
    for name, values in {**parts, "y": y}.items():
        np.save(directory / f"{name}.npy", values)


def load(directory: Path) -> tuple[Any, Any]:
    """The arrays that ``save`` wrote, in memory that is shared until somebody writes to it."""

    def array(name: str) -> Any:
        mapped = np.asarray(np.load(directory / f"{name}.npy", mmap_mode="c"))
        mapped.sum()  # brings the pages into memory before anything is timed
        return mapped

    if (directory / "X.npy").exists():
        return array("X"), array("y")
    X = sp.csr_matrix((array("data"), array("indices"), array("indptr")), shape=tuple(array("shape")))
    X.has_canonical_format = True
    return X, array("y")


def few_rows(X: Any, y: Any, per_class: int = 100) -> tuple[Any, Any]:
    """A small part of the data for warming up: some of every class, or the first rows of a regression."""
    labels = np.unique(y)
    if labels.size > MANY_CLASSES:
        return X[: 2 * per_class], y[: 2 * per_class]
    rows = np.sort(np.concatenate([np.flatnonzero(y == label)[:per_class] for label in labels]))
    return X[rows], y[rows]


def tame_rows(X: Any, y: Any, n: int = 200) -> tuple[Any, Any]:
    """Harmless data of the same kind, for warming up where even a few of the real rows would never end."""
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (n, X.shape[1]))
    ranks = np.argsort(np.argsort(rows[:, 0]))  # classes and targets follow the first feature
    labels = np.unique(y)
    return rows, rows[:, 0] if labels.size > MANY_CLASSES else labels[ranks * labels.size // n]


@lru_cache(maxsize=1)  # many workloads in a row are of one set, and reading the largest takes longer than a fit
def _read(directory: Path, name: str) -> tuple[Any, Any]:
    from sklearn.datasets import load_svmlight_file  # here, because the processes that fit may not need it

    with lzma.open(directory / name / f"{name}.train.libsvm.xz") as file:
        return load_svmlight_file(file)


def _signs(score: Any) -> Any:
    return np.where(score > 0.0, 1.0, -1.0)


def _scaled(X: Any, low: float, high: float) -> Any:
    smallest, largest = X.min(axis=0), X.max(axis=0)
    return low + (high - low) * (X - smallest) / np.where(largest > smallest, largest - smallest, 1.0)
