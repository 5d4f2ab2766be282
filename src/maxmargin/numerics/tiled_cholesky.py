"""A Cholesky factor of a large float32 matrix, made in tiles by several threads.

BLAS is kept to one thread in a fit; here a thread has a tile at a time. The tiles are always the same, and so is the
factor, however many threads there are. Between two tiles a fit can be given up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg.blas import strsm
from scipy.linalg.lapack import spotrf

from maxmargin.protocols import Array
from maxmargin.threads import Workers

TILE = 512  # rows, and columns


def factorise(M: Array, workers: Workers) -> bool:
    """Whether ``M`` is positive definite in float32. Sets: its lower triangle, to that of ``L`` with ``M = L L^T``.

    Column after column of tiles: first all that earlier ones take from it, then its own factor, then the tiles below.
    """
    n = M.shape[0]
    tiles = [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]
    for k, column in enumerate(tiles):
        before = slice(0, column.start)
        _take(M, column, column, before)
        own, failed = spotrf(M[column, column].T, lower=0, clean=0)
        if failed:
            return False
        M[column, column] = own.T

        def below(rows: Iterator[slice], column: slice = column, before: slice = before, own: Array = own) -> None:
            for row in rows:
                _take(M, row, column, before)
                M[row, column] = strsm(1.0, own, M[row, column].T, lower=0, trans_a=1).T

        workers.run(below, tiles[k + 1 :])
    return True


def _take(M: Array, rows: slice, columns: slice, before: slice) -> None:
    """What the columns before take from a tile. Sets: ``M[rows, columns]``."""
    if before.stop:
        M[rows, columns] -= np.asarray(M[rows, before] @ M[columns, before].T)
