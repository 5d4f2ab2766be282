"""The compiled loops of Saddle-SVC."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float, Index, Vectors


@compiled
def relative_entropy(shares: Float, logs: Float, before: Float) -> float:
    """``sum_i p_i (log p_i - log q_i)`` for shares ``p`` and those before.

    As both have the same sum, it is also one of ``p_i (u + exp(-u) - 1)`` with ``u = log p_i - log q_i``. These are not
    negative, and do not cancel each other: the entropy of the smallest moves is known to many digits too.
    """
    total = 0.0
    for i in range(shares.shape[0]):
        u = logs[i] - before[i]
        if abs(u) < 1e-2:
            total += shares[i] * (u * u) * (0.5 - u * (1.0 / 6.0 - u * (1.0 / 24.0 - u * (1.0 / 120.0 - u / 720.0))))
        elif shares[i] > 0.0:
            total += shares[i] * (u + math.expm1(-u))
    return total


@compiled
def weights_of(logs: Float, signs: Float, weights: Float) -> tuple[Float, Float]:
    """``exp(logs)`` of the rows of either class beside the largest: logarithms of these, and the sums of the others.

    Sets: the first two rows of ``weights``.
    """
    tops, sums = np.full(2, -np.inf), np.zeros(2)
    for i in range(logs.shape[0]):
        if signs[i] != 0.0:
            k = 0 if signs[i] > 0.0 else 1
            tops[k] = max(tops[k], logs[i])
    for i in range(logs.shape[0]):
        weights[0, i], weights[1, i] = 0.0, 0.0
        if signs[i] != 0.0:
            k = 0 if signs[i] > 0.0 else 1
            weights[k, i] = math.exp(logs[i] - tops[k])
            sums[k] += weights[k, i]
    return tops, sums


@compiled
def products(columns: Vectors, J: Index, A: Float) -> Float:
    """Inner products of each row of ``A`` with some columns."""
    out = np.empty((A.shape[0], J.shape[0]))
    for k in range(J.shape[0]):
        for r in range(A.shape[0]):
            out[r, k] = columns.dot(J[k], A[r])
    return out


@compiled
def add_columns(columns: Vectors, J: Index, steps: Float, z: Float) -> None:
    """``z += sum_k steps_k * column J_k``."""
    for k in range(J.shape[0]):
        columns.add(J[k], steps[k], z)
