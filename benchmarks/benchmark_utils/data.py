"""Data: generated, or read from a directory. Labels are -1 and 1; matrices are float64, in C order or CSR."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file


def curved_classes(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian points with a curved border between the classes and some overlap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    score = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + X[:, 3:8].sum(axis=1)
    return X, _signs(score + rng.standard_normal(n))


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
    name: str, *, dense: bool = False, scale: tuple[float, float] | None = None, labels: tuple[int, int] | None = None
) -> Callable[[Path], tuple[Any, Any]]:
    """A reader of ``<name>/<name>.train.libsvm.xz``: as rows, scaled to a range, restricted to two labels."""

    def read(directory: Path) -> tuple[Any, Any]:
        with lzma.open(directory / name / f"{name}.train.libsvm.xz") as file:
            X, y = load_svmlight_file(file)
        if labels is not None:
            kept = np.isin(y, labels)
            X, y = X[kept], y[kept]
        if dense:
            X = X.toarray()
        if scale is not None:
            X = _scaled(X, *scale)
        return X, np.where(y == y.max(), 1.0, -1.0)

    return read


def read_mnist(n: int) -> Callable[[Path], tuple[Any, Any]]:
    """A reader of the first ``n`` digits of ``mnist/mnist.train.npz``: odd against even."""

    def read(directory: Path) -> tuple[Any, Any]:
        with np.load(directory / "mnist" / "mnist.train.npz") as file:
            X, y = file["X"][:n] / 255.0, file["y"][:n].astype(int)
        return X, np.where(y % 2 == 1, 1.0, -1.0)

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
    """A small part of the data with both classes, for warming up."""
    rows = np.sort(np.concatenate([np.flatnonzero(y == label)[:per_class] for label in (-1.0, 1.0)]))
    return X[rows], y[rows]


def _signs(score: Any) -> Any:
    return np.where(score > 0.0, 1.0, -1.0)


def _scaled(X: Any, low: float, high: float) -> Any:
    smallest, largest = X.min(axis=0), X.max(axis=0)
    return low + (high - low) * (X - smallest) / np.where(largest > smallest, largest - smallest, 1.0)
