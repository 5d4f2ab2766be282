"""The randomised Hadamard transform: a rotation that spreads every row evenly over its entries."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators.rows import TILE_ROWS
from maxmargin.protocols import Array, Float


class RandomisedHadamard:
    """``x -> W D x``: random signs ``D``, zeros up to a power of two, Hadamard matrix ``W`` over its root.

    Lengths and inner products stay as they are, and no entry of a unit vector is much larger than
    ``sqrt(2 log(n d) / d)``, for all of ``n`` vectors at once with high probability.
    """

    def __init__(self, n_features: int, seed: int = 0) -> None:
        self.n_features = n_features
        self.size = 1 << max(0, n_features - 1).bit_length()
        self.signs = np.random.default_rng(seed).choice([-1.0, 1.0], n_features)

    def apply(self, X: Array) -> Float:
        """The rows of a dense matrix, transformed."""
        out = np.zeros((X.shape[0], self.size))
        for start in range(0, X.shape[0], TILE_ROWS):
            some = slice(start, start + TILE_ROWS)
            out[some, : self.n_features] = X[some] * (self.signs / math.sqrt(self.size))
        _hadamard_rows(out)
        return out

    def inverse(self, w: Float) -> Float:
        """The vector whose inner products with rows are those of ``w`` with the transformed rows."""
        v = w[None, :] / math.sqrt(self.size)
        _hadamard_rows(v)
        return self.signs * v[0, : self.n_features]


@compiled
def _hadamard_rows(X: Float) -> None:
    """Every row times the Hadamard matrix of its length, a power of two. Sets: ``X``."""
    for i in range(X.shape[0]):
        x = X[i]
        half = 1
        while half < x.shape[0]:
            for start in range(0, x.shape[0], 2 * half):
                for k in range(start, start + half):
                    x[k], x[k + half] = x[k] + x[k + half], x[k] - x[k + half]
            half *= 2
