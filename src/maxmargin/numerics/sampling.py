"""Random numbers for compiled loops, and the orders in which stochastic methods visit the samples."""

from __future__ import annotations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float, Index

CYCLIC, PERMUTATION, UNIFORM, INDEPENDENT = 0, 1, 2, 3
GAMMA, FIRST, SECOND = (  # the odd numbers of splitmix64
    np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB),
)  # fmt: skip
ORDERS = {"cyclic": CYCLIC, "permutation": PERMUTATION, "uniform": UNIFORM}
BATCH_ORDERS = {**ORDERS, "independent": INDEPENDENT}


def seeded(seed: int) -> Array:
    """The state of a generator, which the loops below change."""
    return np.array([seed], dtype=np.uint64)


def cumulative(weights: Float) -> Float:
    """Cumulative weights for `draw_batches`; none if they are equal, since drawing by them would only take longer."""
    return np.cumsum(weights) if (weights != weights[:1]).any() else np.zeros(0)


@compiled
def draw_batches(order: int, rows: Index, sums: Float, position: int, random: Array, batches: Index) -> int:
    """Fill every row of ``batches`` with members of ``rows``; return the position in the present epoch.

    Cyclic and permuted epochs visit each member once, in the given or in a new random order; a batch may end one epoch
    and begin the next. Uniform batches do not depend on each other. All these batches hold different members. In
    independent batches no member depends on another one, so that some may occur twice. With ``sums``, the cumulative
    weights of the members, these and uniform batches of one draw a member with a probability in proportion to its
    weight; all are equally likely otherwise. Start with ``position = rows.size``. Sets: ``batches, random``, and the
    order of ``rows``.
    """
    n, k = rows.shape[0], batches.shape[1]
    for m in range(batches.shape[0]):
        batch = batches[m]
        if order == INDEPENDENT or (order == UNIFORM and sums.shape[0] > 0):
            for j in range(k):
                if sums.shape[0] > 0:
                    batch[j] = rows[np.searchsorted(sums, _fraction(random) * sums[n - 1], side="right")]
                else:
                    batch[j] = rows[below(n, random)]
        elif order == UNIFORM:
            batch[:] = draw(rows, k, random)
        else:
            for j in range(k):
                if position == n:
                    if order == PERMUTATION:
                        shuffle(rows, 0, n - j, random)  # the last j are in this batch already
                    position = 0
                batch[j] = rows[position]
                position += 1
            if order == PERMUTATION and position < k:  # those left out of the shuffle above get their chance
                shuffle(rows, position, n, random)
    return position


@compiled
def draw(rows: Index, count: int, random: Array) -> Index:
    """Some different members of ``rows``, each as likely as any other: they come first. Sets: ``rows, random``."""
    for k in range(count):
        other = k + below(rows.shape[0] - k, random)
        rows[k], rows[other] = rows[other], rows[k]
    return rows[:count]


@compiled
def shuffle(rows: Index, start: int, stop: int, random: Array) -> None:
    """Fisher-Yates shuffle of ``rows[start:stop]``. Sets: ``rows, random``."""
    for k in range(stop - 1, start, -1):
        j = start + below(k - start + 1, random)
        rows[k], rows[j] = rows[j], rows[k]


@compiled
def below(n: int, random: Array) -> int:
    """A random number of ``0 .. n - 1``. Sets: ``random``."""
    return int(_bits(random) % np.uint64(n))


@compiled
def _fraction(random: Array) -> float:
    """A random number of ``[0, 1)``. Sets: ``random``."""
    return np.float64(_bits(random) >> np.uint64(11)) * 2.0**-53


@compiled
def chances(start: int, stop: int) -> Float:
    """A random number of ``[0, 1)`` for every row number, always the same one."""
    out, random = np.empty(stop - start), np.empty(1, dtype=np.uint64)
    for k in range(stop - start):
        random[0] = np.uint64(start + k)
        out[k] = _fraction(random)
    return out


@compiled
def _bits(random: Array) -> np.uint64:
    """The next 64 bits of a splitmix64 generator. Sets: ``random``."""
    random[0] += GAMMA
    r = random[0]
    r = (r ^ (r >> np.uint64(30))) * FIRST
    r = (r ^ (r >> np.uint64(27))) * SECOND
    return r ^ (r >> np.uint64(31))


def hashes(values: Array, columns: Array, seed: int) -> Array:
    """Hashes of values and their columns, 0 for a 0: splitmix64 with one more multiplication, modulo 2^64."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 is 0
    salt = np.uint64((seed + 1) * int(GAMMA) % 2**64)
    z = bits ^ (columns.astype(np.uint64) * FIRST + salt)
    for shift, odd in ((30, FIRST), (27, SECOND), (31, GAMMA)):
        z = (z ^ (z >> np.uint64(shift))) * odd
    return np.where(bits == 0, np.uint64(0), z ^ (z >> np.uint64(32)))
