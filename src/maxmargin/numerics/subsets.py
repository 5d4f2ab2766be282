"""The best subset of each size for least squares, by trying all of them."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float, Index

PIVOT = 1e-11  # of the square of a column: what is less than that beside a subset lies in its span


def count_of_subsets(d: int, most: int) -> int:
    """How many subsets of ``d`` things have at most ``most``."""
    return sum(math.comb(d, k) for k in range(min(most, d) + 1))


def best_subsets(G: Float, c: Float, square: float, most: int) -> tuple[Float, Index]:
    """The smallest error for each number of columns, and as bits of a number which columns these are.

    ``G`` holds the products of the columns, ``c`` those with the targets, ``square`` that of the targets. A subset
    with dependent columns is left out: a smaller one is as good.
    """
    d = c.size
    errors, masks = np.full(most + 1, np.inf), np.zeros(most + 1, dtype=np.int64)
    errors[0] = square
    _search(G.astype(np.float64), c.astype(np.float64), square, most, errors, masks, np.empty((most + 1, d, d + 1)))
    return errors, masks


@compiled
def _search(G: Float, c: Float, square: float, most: int, errors: Float, masks: Index, levels: Float) -> None:
    """Depth first: a level holds what the chosen columns leave of the products of those after the last one.

    Each subset then costs a division, and the next level the square of the number of columns that may still follow:
    half of all subsets have none. Sets: ``errors, masks``.
    """
    d = c.shape[0]
    scale = np.empty(d)
    for j in range(d):
        scale[j] = G[j, j]
        for k in range(d):
            levels[0, j, k] = G[j, k]
        levels[0, j, d] = c[j]
    chosen, left, mask, depth, j = np.empty(most + 1, dtype=np.int64), np.empty(most + 1), 0, 0, 0
    left[0] = square
    while True:
        if j == d or depth == most:
            if depth == 0:
                return
            depth -= 1
            j = chosen[depth]
            mask -= 1 << j
            j += 1
            continue
        now = levels[depth]
        pivot = now[j, j]
        if pivot <= PIVOT * scale[j]:
            j += 1
            continue
        slope = now[j, d]
        error = left[depth] - slope * slope / pivot
        if error < errors[depth + 1]:
            errors[depth + 1], masks[depth + 1] = error, mask + (1 << j)
        if depth + 1 == most or j + 1 == d:
            j += 1
            continue
        then = levels[depth + 1]
        for i in range(j + 1, d):
            share = now[j, i] / pivot
            for k in range(i, d):
                then[i, k] = now[i, k] - share * now[j, k]
            then[i, d] = now[i, d] - share * slope
        chosen[depth], left[depth + 1] = j, error
        mask += 1 << j
        depth += 1
        j += 1
