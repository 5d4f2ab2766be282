"""Cholesky's factor: of a large matrix by several threads, and of one that rounding may have made indefinite."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from maxmargin.protocols import Float
from maxmargin.threads import Workers

TILE = 384
RIDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)  # on a unit diagonal
LEAST_PIVOT = 3e-8  # of the factor: its square is about the rounding of a unit diagonal


def inverse_of(H: Float) -> Callable[[Float], Float]:
    """The map ``g -> H^-1 g``, after scaling the diagonal to one; a ridge grows until the factorisation works."""
    if not np.isfinite(H.diagonal()).all():
        return lambda g: np.full_like(g, np.nan)  # the caller will see it
    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = (H * scale[:, None] * scale).T  # symmetric, and in Fortran's order without a copy
    for ridge in RIDGES:
        damped = scaled.copy(order="F")
        damped[np.diag_indices_from(damped)] += ridge
        try:
            factor = cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        if factor[0].diagonal().min(initial=1.0) > LEAST_PIVOT:
            return lambda g: np.asarray(scale * cho_solve(factor, scale * g, check_finite=False))
    return lambda g: scale * scale * g  # not a number somewhere: the caller will see it


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
