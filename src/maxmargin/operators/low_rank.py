"""A factor of low rank of a kernel matrix: ``K`` is nearly ``G G^T``, and what is left of it is positive too."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular

from maxmargin.operators.gram import Gram
from maxmargin.operators.tiles import stretches
from maxmargin.protocols import Array, Float, Index
from maxmargin.threads import go_on

BLOCK = 128  # candidates for pivots at a time
EXHAUSTED = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-3}  # of the diagonal: less is left to rounding
AT_A_TIME = 8192  # rows


class LowRank(NamedTuple):
    """``K[:, pivots] = G G[pivots]^T`` up to rounding, so that columns of ``G`` are functions of the pivots alone.

    ``left`` is the diagonal of ``K - G G^T``, which is positive semi-definite if ``K`` is.
    """

    G: Array
    pivots: Index
    left: Float

    @property
    def corner(self) -> Float:
        """The lower triangle ``L`` with ``L L^T = K[pivots, pivots]``."""
        return np.tril(self.G[self.pivots].astype(np.float64))

    def expansion(self, w: Float) -> Float:
        """Coefficients of the pivots whose function has the scores ``G w``: the same function, not one like it."""
        return np.asarray(solve_triangular(self.corner, w, lower=True, trans="T", check_finite=False))


def low_rank(gram: Gram, rank: int, dtype: DTypeLike = np.float64, seed: int = 0) -> LowRank:
    """A factor of up to so many columns: fewer, if these leave nothing but rounding.

    Pivots are drawn with probabilities in proportion to what the pivots before them leave of the diagonal, many at a
    time: those that the others of their block explain too are rejected as often as if they were drawn one by one. The
    trace of what is left is then within a small factor of the best for a somewhat smaller rank, in expectation. Time
    ``O(n k^2)``, in matrix products, and ``n k`` kernel values.

    Reference: Epperly, Tropp, Webber, "Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
    Cholesky", SIAM J. Matrix Anal. Appl. 2025.
    """
    n, rng = gram.n_samples, np.random.default_rng(seed)
    rank = min(rank, n)
    left = np.maximum(gram.diagonal(), 0.0)
    none = EXHAUSTED[np.dtype(dtype)] * left
    G, pivots = np.empty((n, rank), dtype=dtype), np.empty(0, dtype=np.int64)
    while pivots.size < rank:
        go_on()
        chances = np.where(left > none, left, 0.0)
        possible = int(np.count_nonzero(chances))
        if not possible:
            break
        drawn = rng.choice(n, size=min(BLOCK, possible), replace=False, p=chances / chances.sum())
        k = pivots.size
        new, corner = _accepted(gram, G[drawn, :k].astype(np.float64), drawn, left, rng)
        new, corner = new[: rank - k], corner[: rank - k, : rank - k]
        _extend(gram, G, k, drawn[new], corner)
        pivots = np.append(pivots, drawn[new])
        for rows in stretches(n, AT_A_TIME):
            some = G[rows, k : pivots.size].astype(np.float64)
            left[rows] -= np.einsum("ij,ij->i", some, some)
        left[drawn[new]] = 0.0
        left = np.maximum(left, 0.0)
    return LowRank(np.ascontiguousarray(G[:, : pivots.size]), pivots, left)


def _accepted(gram: Gram, explained: Float, drawn: Index, left: Float, rng: np.random.Generator) -> tuple[Index, Float]:
    """Which of the drawn candidates become pivots, and the factor of what earlier pivots leave of their matrix."""
    size = drawn.size
    K = np.empty((size, size))
    gram.write_rows(drawn, gram.columns(drawn, np.float64), 1.0, 0.0, K, np.arange(size))
    K -= explained @ explained.T
    L, accepted, odds = np.zeros((size, size)), np.zeros(size, dtype=bool), rng.random(size)
    for j in range(size):
        pivot = float(K[j, j] - L[j] @ L[j])
        if j and not pivot > odds[j] * left[drawn[j]]:
            continue
        accepted[j] = True
        L[j:, j] = (K[j:, j] - L[j:] @ L[j]) / math.sqrt(max(pivot, 1e-300))
    new = np.flatnonzero(accepted)
    return new, np.tril(L[np.ix_(new, new)])


def _extend(gram: Gram, G: Array, k: int, new: Index, corner: Float) -> None:
    """Sets: the columns of ``G`` that belong to new pivots."""
    columns, width = gram.columns(None, G.dtype), k + new.size
    values = np.empty((new.size, G.shape[0]), dtype=G.dtype)
    gram.write_rows(new, columns, 1.0, 0.0, values, np.arange(new.size))
    known, corner = G[new, :k].copy(), corner.astype(G.dtype)
    for rows in stretches(G.shape[0], AT_A_TIME):
        go_on()
        missing = values[:, rows] - known @ G[rows, :k].T
        G[rows, k:width] = solve_triangular(corner, missing, lower=True, check_finite=False).T
    G[new, k:width] = corner
