"""Cholesky's factor of a large matrix by several threads, with the same bits for any number of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from maxmargin.protocols import Float
from maxmargin.threads import Workers

TILE = 384


def factorise(K: Float, workers: Workers) -> None:
    """The lower factor ``L`` of ``K = L L^T``, tile by tile. Sets: the lower triangle of ``K``.

    Raises
    ------
    scipy.linalg.LinAlgError
        If ``K`` is not positive definite.

    """
    starts = range(0, K.shape[0], TILE)
    for first in starts:
        pivot = slice(first, first + TILE)
        K[pivot, pivot] = cholesky(K[pivot, pivot], lower=True, check_finite=False)
        below = [slice(start, start + TILE) for start in starts if start > first]

        def solve(tiles: Iterator[slice], pivot: slice = pivot) -> None:
            for rows in tiles:
                K[rows, pivot] = solve_triangular(K[pivot, pivot], K[rows, pivot].T, lower=True, check_finite=False).T

        def subtract(tiles: Iterator[slice], pivot: slice = pivot, first: int = first) -> None:
            for rows in tiles:
                done = slice(first + TILE, rows.stop)
                K[rows, done] -= K[rows, pivot] @ K[done, pivot].T

        workers.run(solve, below)
        workers.run(subtract, below[::-1])  # the longest first


def solved(L: Float, b: Float) -> Float:
    """``(L L^T)^-1 b``."""
    half = solve_triangular(L, b, lower=True, check_finite=False)
    return np.asarray(solve_triangular(L, half, lower=True, trans="T", check_finite=False))
