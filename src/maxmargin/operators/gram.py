"""The kernel matrix, evaluated in blocks of rows and never stored whole unless the user gave it.

The blocks are float64 whatever the data are, because certificates are made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from maxmargin._jit import compiled
from maxmargin.kernels import MEASURED_BY_DISTANCE, RBF, Laplacian, Linear, Polynomial
from maxmargin.operators.rows import Matrix, is_sparse, squared_lengths, vectors_of
from maxmargin.protocols import Array, Float, Index, Kernel

# Kernel values per block: 2 M float64 are 16 MB, small enough to be reused from a processor's cache or near it.
BLOCK_VALUES = 2_000_000
TILE_ROWS = 4096
POSITIVITY_SAMPLES = 1500


class Gram(Protocol):
    """A symmetric kernel matrix ``K`` as an operator on expansions ``beta`` over the samples."""

    n_samples: int

    @property
    def positive(self) -> bool:
        """Whether the matrix is positive semi-definite, as far as can be known: certificates rest on it."""

    def block(self, rows: Index) -> Float:
        """``K[rows, :]``."""

    def diagonal(self) -> Float:
        """``K[i, i]`` for every ``i``."""

    def apply(self, w: Float) -> Float:
        """``K w``."""

    def adjoint(self, alpha: Float) -> Float:
        """``alpha``: it is already the expansion of ``sum_i alpha_i phi(x_i)``."""

    def passes(self, w: Float) -> float:
        """Cost of ``apply(w)`` in units of the whole matrix."""


class _BlockedGram:
    """What every kernel matrix that can produce blocks of rows can do."""

    n_samples: int

    def block(self, rows: Index) -> Float:
        raise NotImplementedError

    @cached_property
    def positive(self) -> bool:
        """Whether the matrix is symmetric and positive semi-definite.

        Tested by a Cholesky factorisation on up to ``POSITIVITY_SAMPLES`` samples, spread evenly.
        """
        rows = np.unique(np.linspace(0, self.n_samples - 1, min(self.n_samples, POSITIVITY_SAMPLES)).astype(np.int64))
        K = np.vstack([self.block(rows[start : start + 256])[:, rows] for start in range(0, rows.size, 256)])
        size = float(np.abs(K).max(initial=0.0))
        if float(np.abs(K - K.T).max(initial=0.0)) > 1e-8 * size:
            return False
        try:
            np.linalg.cholesky(0.5 * (K + K.T) + 1e-10 * (size + 1e-300) * np.eye(rows.size))
        except np.linalg.LinAlgError:
            return False
        return True

    def apply(self, w: Float) -> Float:
        """``K w`` from the rows where ``w`` is not zero; ``K`` is symmetric."""
        support = np.flatnonzero(w)
        out = np.zeros(self.n_samples)
        step = max(1, BLOCK_VALUES // max(1, self.n_samples))
        for start in range(0, support.size, step):
            rows = support[start : start + step]
            out += w[rows] @ self.block(rows)
        return out

    def adjoint(self, alpha: Float) -> Float:
        """The expansion of ``sum_i alpha_i phi(x_i)``."""
        return alpha.copy()

    def passes(self, w: Float) -> float:
        """Share of the rows that ``apply`` has to evaluate."""
        return float(np.count_nonzero(w)) / max(1, self.n_samples)


class KernelGram(_BlockedGram):
    """Kernel matrix of the rows of ``X``."""

    def __init__(self, kernel: Kernel, X: Matrix) -> None:
        self.kernel = kernel
        self.X = X.tocsr() if is_sparse(X) else X
        self.n_samples = X.shape[0]
        self.sq = squared_lengths(vectors_of(X), X.shape[0])

    @cached_property
    def positive(self) -> bool:
        """Known for most kernels, tested for the others."""
        if isinstance(self.kernel, (Linear, RBF, Laplacian)):
            return True
        if isinstance(self.kernel, Polynomial) and self.kernel.coef0 >= 0.0 and self.kernel.gamma >= 0.0:
            return True
        return super().positive

    def block(self, rows: Index) -> Float:
        """``K[rows, :]``."""
        return _kernel_block(self.kernel, _dense64(self.X[rows]), self.sq[rows], self.X, self.sq)

    def diagonal(self) -> Float:
        """``k(x_i, x_i)``."""
        own = self.sq if not isinstance(self.kernel, MEASURED_BY_DISTANCE) else np.zeros(self.n_samples)
        values = own.copy()
        _map_diagonal(self.kernel, values, self.sq)
        return values


class PrecomputedGram(_BlockedGram):
    """A kernel matrix that the user computed."""

    def __init__(self, K: Array) -> None:
        self.K = K
        self.n_samples = K.shape[0]

    def block(self, rows: Index) -> Float:
        """``K[rows, :]``."""
        return _dense64(self.K[rows])

    def diagonal(self) -> Float:
        """``K[i, i]``."""
        return np.asarray(self.K.diagonal(), dtype=np.float64)


class CallableGram(_BlockedGram):
    """A kernel matrix from a Python function ``kernel(A, B)`` that returns one row per row of ``A``."""

    def __init__(self, function: Callable[[Any, Any], Any], X: Matrix) -> None:
        self.function = function
        self.X = X
        self.n_samples = X.shape[0]

    def block(self, rows: Index) -> Float:
        """``K[rows, :]``."""
        return checked_values(self.function(self.X[rows], self.X), (len(rows), self.n_samples))

    def diagonal(self) -> Float:
        """``k(x_i, x_i)``, one call per stretch of rows."""
        out = np.empty(self.n_samples)
        step = max(1, int(BLOCK_VALUES**0.5))
        for start in range(0, self.n_samples, step):
            part = self.X[start : start + step]
            out[start : start + step] = checked_values(self.function(part, part), (part.shape[0],) * 2).diagonal()
        return out


def checked_values(values: Any, shape: tuple[int, int]) -> Float:
    """What a user's kernel returned, if it is a finite matrix of the right shape."""
    given = values
    try:
        values = np.asarray(values.toarray() if is_sparse(values) else values)
        if np.iscomplexobj(values):
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"The callable kernel returned {type(given).__name__} with values that are not real numbers; it must "
            f"return a matrix of real numbers of shape {shape}."
        ) from None
    if values.shape != shape:
        raise ValueError(
            f"The callable kernel returned an array of shape {values.shape} for {shape[0]} and {shape[1]} samples; "
            f"it must return one of shape {shape}, row i for sample i of its first argument."
        )
    if not np.isfinite(values).all():
        raise ValueError("The callable kernel returned NaN or infinity; a kernel must be finite for every pair.")
    return values


def cross_gram(kernel: Kernel, X: Matrix, Z: Matrix) -> Float:
    """``k(x_i, z_j)`` for every row of ``X`` and ``Z``."""
    X = X.tocsr() if is_sparse(X) else X
    return _kernel_block(
        kernel,
        _dense64(X),
        squared_lengths(vectors_of(X), X.shape[0]),
        Z.tocsr() if is_sparse(Z) else Z,
        squared_lengths(vectors_of(Z), Z.shape[0]),
    )


def _kernel_block(kernel: Kernel, left: Float, sq_left: Float, X: Matrix, sq: Float) -> Float:
    """Kernel values of the dense rows ``left`` with the rows of ``X``."""
    out = np.empty((left.shape[0], X.shape[0]))
    if isinstance(kernel, MEASURED_BY_DISTANCE):
        for start in range(0, X.shape[0], TILE_ROWS):
            tile = _dense64(X[start : start + TILE_ROWS])
            out[:, start : start + tile.shape[0]] = cdist(left, tile, "cityblock")
    elif is_sparse(X):
        out[:] = (X.astype(np.float64, copy=False) @ left.T).T
    else:  # tiles keep the cast of float32 data small
        step = max(1, X.shape[0]) if X.dtype == np.float64 else TILE_ROWS
        for start in range(0, X.shape[0], step):
            tile = X[start : start + step].astype(np.float64, copy=False)
            np.matmul(left, tile.T, out=out[:, start : start + step])
    _map_block(kernel, out, sq_left, sq)
    return out


def _dense64(X: Matrix) -> Float:
    return np.ascontiguousarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


@compiled
def _map_block(kernel: Any, block: Float, sq_left: Float, sq_right: Float) -> None:
    """Turn measurements into kernel values in place."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = kernel.similarity(block[i, j], sq_left[i], sq_right[j])


@compiled
def _map_diagonal(kernel: Any, values: Float, sq: Float) -> None:
    """Turn the measurements of each point with itself into kernel values in place."""
    for i in range(values.shape[0]):
        values[i] = kernel.similarity(values[i], sq[i], sq[i])
