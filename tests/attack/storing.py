"""The same samples in every container, and kernel matrices of every kind."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp


def stored(rng, X, notes):
    """The same numbers in another container; float32 changes them."""
    how = str(rng.choice(list(STORAGES)))
    if how != "dense":
        notes.append(how)
    return STORAGES[how](X)


def _coo_with_duplicates(X):
    rows, columns = np.nonzero(X)
    halves = 0.5 * X[rows, columns]  # add up to the same numbers
    twice = np.concatenate([halves, halves]), (np.tile(rows, 2), np.tile(columns, 2))
    return sp.coo_matrix(twice, shape=X.shape)


def _explicit_zeros(X):
    rows, columns = np.indices(X.shape)
    return sp.csr_matrix((X.ravel(), (rows.ravel(), columns.ravel())), shape=X.shape)


def _every_other(X):
    twice = np.full((2 * len(X), 2 * X.shape[1]), 1e30)
    twice[::2, ::2] = X
    return twice[::2, ::2]


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


def _read_only_csr(X):
    X = sp.csr_matrix(X)
    for array in (X.data, X.indices, X.indptr):
        array.setflags(write=False)
    return X


def _long_indices(X):
    X = sp.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def _disordered(X):
    """Indices of each row backwards."""
    X = sp.csr_matrix(X)
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        X.indices[row], X.data[row] = X.indices[row][::-1].copy(), X.data[row][::-1].copy()
    X.has_sorted_indices = False
    return X


LOSSY = ("float32", "csr of float32", "float32 by columns", "float16", "integers")
STORAGES: dict[str, Callable] = {
    "dense": lambda X: X,
    "read only": _read_only,
    "other bytes": lambda X: X.astype(">f8"),
    "float32 by columns": lambda X: np.asfortranarray(X.astype(np.float32)),
    "float16": lambda X: np.clip(X, -6e4, 6e4).astype(np.float16),
    "integers": lambda X: np.rint(np.clip(X, -1e18, 1e18)).astype(np.int64),
    "read only csr": _read_only_csr,
    "long indices": _long_indices,
    "disordered csr": _disordered,
    "csr array": sp.csr_array,
    "list of lists": sp.lil_matrix,
    "column order": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "coo with duplicates": _coo_with_duplicates,
    "explicit zeros": _explicit_zeros,
    "csr of float32": lambda X: sp.csr_matrix(X.astype(np.float32)),
    "strided view": _every_other,
    "backwards": lambda X: np.ascontiguousarray(X[::-1])[::-1],
}


MATRICES = ("single", "tiny", "gram", "indefinite", "negative", "zero", "huge", "distances", "identity", "asymmetric",
            "nearly symmetric")  # fmt: skip


def given_matrix(rng, X, notes):
    """A kernel matrix, positive or not."""
    n, kind = len(X), str(rng.choice(MATRICES))
    notes.append(f"{kind} matrix")
    Z = rng.normal(size=(n, min(n, 3)))
    gram = Z @ Z.T
    symmetric = rng.normal(size=(n, n))
    return {
        "single": gram.astype(np.float32),
        "tiny": (gram + gram.T) * 10.0 ** rng.choice([-30, -100, -310]),
        "gram": 0.5 * (gram + gram.T) * 10.0 ** rng.integers(-8, 9),
        "indefinite": symmetric + symmetric.T,
        "negative": -(gram + gram.T) if rng.random() < 0.5 else -np.eye(n),
        "zero": np.zeros((n, n)),
        "huge": (gram + gram.T) * 10.0 ** rng.choice([30, 60, 90]),
        "distances": -((Z[:, None] - Z) ** 2).sum(axis=2),
        "identity": np.eye(n),
        "asymmetric": rng.normal(size=(n, n)),
        "nearly symmetric": gram + 1e-9 * rng.normal(size=(n, n)),
    }[kind]
