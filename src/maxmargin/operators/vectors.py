"""The rows of a matrix as compiled loops see them: `DenseVectors` or `SparseVectors`.

Loops call ``dot``, ``add`` and ``squared_length`` on either, so that each is written once. Results are accumulated in
float64 whatever the matrix holds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled_methods, inlined, larger, prefetch
from maxmargin.protocols import Array, Float, Index

CACHE_LINE = 64  # bytes
BLOCK = 128  # dense vectors whose sum is added to others


@compiled_methods
class DenseVectors(NamedTuple):
    """The rows of a C-contiguous matrix."""

    X: Array

    def dot(self, i: int, w: Float) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            total += x[k] * w[k]
        return total

    def dot_weighted(self, i: int, s: Float, w: Float) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            total += x[k] * (s[k] * w[k])
        return total

    def dot_shrunk(self, i: int, level: float, w: Float) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            total += x[k] * math.copysign(larger(abs(w[k]) - level, 0.0), w[k])
        return total

    def add(self, i: int, step: float, w: Float) -> None:
        x = self.X[i]
        for k in range(x.shape[0]):
            w[k] += step * x[k]

    def multiply(self, start: int, stop: int, w: Float, out: Float) -> None:
        for i in range(start, stop):
            out[i] = self.dot(i, w)

    def add_each(self, some: Index, weights: Float, w: Float) -> None:
        # Sums of sums: the bound on their rounding errors grows with the longest of them.
        own = np.empty(w.shape[0])
        for first in range(0, some.shape[0], BLOCK):
            stop = min(first + BLOCK, some.shape[0])
            whole = stop - (stop - first) % 4
            own[:] = 0.0
            for n in range(first, whole, 4):
                i, j, k, m = some[n], some[n + 1], some[n + 2], some[n + 3]
                add_four(self.X, i, j, k, m, weights[i], weights[j], weights[k], weights[m], own)
            for n in range(whole, stop):
                self.add(some[n], weights[some[n]], own)
            for c in range(w.shape[0]):
                w[c] += own[c]

    def add_squares(self, i: int, weight: float, w: Float) -> None:
        x = self.X[i]
        for k in range(x.shape[0]):
            w[k] += weight * x[k] * x[k]

    def beyond(self, i: int, limits: Float) -> bool:
        x = self.X[i]
        found = False
        for k in range(x.shape[0]):
            found |= abs(x[k]) > limits[k]
        return found

    def approach(self, i: int) -> None:
        x = self.X[i]
        for k in range(0, x.shape[0], CACHE_LINE // x.itemsize):
            prefetch(x, k)

    def squared_length(self, i: int) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            v = np.float64(x[k])
            total += v * v
        return total

    def add_weighted(self, i: int, step: float, weights: Float, w: Float) -> None:
        x = self.X[i]
        for k in range(x.shape[0]):
            w[k] += step * weights[k] * x[k]

    def weighted_square(self, i: int, weights: Float) -> float:
        x = self.X[i]
        total = 0.0
        for k in range(x.shape[0]):
            v = np.float64(x[k])
            total += weights[k] * v * v
        return total

    def differences(self, i: int, others: DenseVectors, j: int) -> tuple[float, float]:
        """Manhattan distance and squared Euclidean distance of vector ``i`` to vector ``j`` of others."""
        x, z = self.X[i], others.X[j]
        distance, square = 0.0, 0.0
        for k in range(x.shape[0]):
            v = np.float64(x[k]) - np.float64(z[k])
            distance += abs(v)
            square += v * v
        return distance, square


@compiled_methods
class SparseVectors(NamedTuple):
    """The rows of a CSR matrix."""

    data: Array
    indices: Array  # unsigned, as indptr is: a signed one might be negative, and every access would have to look
    indptr: Array

    def dot(self, i: int, w: Float) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[k] * w[self.indices[k]]
        return total

    def dot_weighted(self, i: int, s: Float, w: Float) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            j = self.indices[k]
            total += self.data[k] * (s[j] * w[j])
        return total

    def dot_shrunk(self, i: int, level: float, w: Float) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            v = w[self.indices[k]]
            total += self.data[k] * math.copysign(larger(abs(v) - level, 0.0), v)
        return total

    def add(self, i: int, step: float, w: Float) -> None:
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += step * self.data[k]

    def multiply(self, start: int, stop: int, w: Float, out: Float) -> None:
        k = self.indptr[start]
        for i in range(start, stop):  # faster than `dot` for each of many short rows
            total, end = 0.0, self.indptr[i + 1]
            while k < end:
                total += self.data[k] * w[self.indices[k]]
                k += np.uint64(1)
            out[i] = total

    def add_each(self, some: Index, weights: Float, w: Float) -> None:
        for i in some:
            self.add(i, weights[i], w)

    def add_squares(self, i: int, weight: float, w: Float) -> None:
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += weight * self.data[k] * self.data[k]

    def beyond(self, i: int, limits: Float) -> bool:
        found = False
        for k in range(self.indptr[i], self.indptr[i + 1]):
            found |= abs(self.data[k]) > limits[self.indices[k]]
        return found

    def approach(self, i: int) -> None:
        k, stop = self.indptr[i], self.indptr[i + 1]
        while k < stop:  # several times faster than a range with a step, which is divided by it
            prefetch(self.data, k)
            prefetch(self.indices, k)
            k += np.uint64(CACHE_LINE // self.data.itemsize)

    def squared_length(self, i: int) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            v = np.float64(self.data[k])
            total += v * v
        return total

    def add_weighted(self, i: int, step: float, weights: Float, w: Float) -> None:
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += step * weights[self.indices[k]] * self.data[k]

    def weighted_square(self, i: int, weights: Float) -> float:
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            v = np.float64(self.data[k])
            total += weights[self.indices[k]] * v * v
        return total

    def differences(self, i: int, others: SparseVectors, j: int) -> tuple[float, float]:
        """Manhattan distance and squared Euclidean distance of vector ``i`` to vector ``j`` of others."""
        a, b, one = self.indptr[i], others.indptr[j], np.uint64(1)
        end, others_end = self.indptr[i + 1], others.indptr[j + 1]
        distance, square = 0.0, 0.0
        while a < end or b < others_end:
            ours = b == others_end or (a < end and self.indices[a] <= others.indices[b])
            theirs = a == end or (b < others_end and others.indices[b] <= self.indices[a])
            v = 0.0
            if ours:
                v += np.float64(self.data[a])
                a += one
            if theirs:
                v -= np.float64(others.data[b])
                b += one
            distance += abs(v)
            square += v * v
        return distance, square


@inlined
def four_products(X: Array, i: int, j: int, k: int, m: int, w: Float) -> tuple[float, ...]:
    """Inner products of four rows of ``X`` with ``w`` and then with each other: none of the sums waits for another."""
    xi, xj, xk, xm = X[i], X[j], X[k], X[m]
    iw, jw, kw, mw, ij, ik, im, jk, jm, km = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for e in range(w.shape[0]):
        v, a, b, c, d = w[e], np.float64(xi[e]), np.float64(xj[e]), np.float64(xk[e]), np.float64(xm[e])
        iw += a * v
        jw += b * v
        kw += c * v
        mw += d * v
        ij += a * b
        ik += a * c
        im += a * d
        jk += b * c
        jm += b * d
        km += c * d
    return iw, jw, kw, mw, ij, ik, im, jk, jm, km


@inlined
def add_four(X: Array, i: int, j: int, k: int, m: int, si: float, sj: float, sk: float, sm: float, w: Float) -> None:
    """Add multiples of four rows of ``X``. Sets: ``w``."""
    xi, xj, xk, xm = X[i], X[j], X[k], X[m]
    for e in range(w.shape[0]):
        w[e] += (si * xi[e] + sj * xj[e]) + (sk * xk[e] + sm * xm[e])
