"""Samples of several small problems, stored as compiled loops like them: as all their kernel values, or as rows.

A problem over some of the samples names them by a ``stretch``: ``(first, count, second, count)`` are two runs of
consecutive samples, the second of which may be empty. Its scores are in the order of these runs. For pairs of classes
the samples are sorted by class, and nothing has to be copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_in_place, compiled_methods
from maxmargin.numerics.rounding import DOUBLE, roundings
from maxmargin.operators.differences import CANCELLED, UNDERFLOW, Measuring
from maxmargin.operators.few import few_values_of
from maxmargin.operators.given import GivenGram
from maxmargin.operators.gram import Gram, KernelGram
from maxmargin.parts.kernels import Linear
from maxmargin.protocols import Float, Index, Kernel

RUN_LENGTH = 8  # samples beside each other: copying them at once takes less time than one by one
UNDERFLOW_DOUBLE = UNDERFLOW[DOUBLE]


class Rounding(NamedTuple):
    """What bounds the errors of scores: values are at most products of magnitudes, and wrong by some shares of these.

    A share belongs to each row. Values that are given, and not quite symmetric, are wrong by ``asymmetry`` as well.
    """

    magnitudes: Float
    shares: Float
    asymmetry: float
    times: float  # 2 where coefficients of features are another sum of the same products


@compiled_methods
class StoredKernel(NamedTuple):
    """All kernel values of some samples."""

    K: Float

    def own_similarity(self, i: int) -> float:
        """``k(x_i, x_i)``."""
        return self.K[i, i]

    def copy_block(self, members: Index, place: Index, Q: Float) -> None:
        """``Q[place[i], place[j]] = k(members[i], members[j])``. Sets: ``Q``."""
        runs = _runs(members, place)
        for i in range(members.shape[0]):
            row, at = self.K[members[i]], place[i]
            target = Q[at]
            if runs.shape[0] * RUN_LENGTH <= members.shape[0]:
                for r in range(runs.shape[0]):
                    _copy(row[runs[r, 0] :], target[runs[r, 1] : runs[r, 1] + runs[r, 2]])
            else:  # single entries come from far away: one half of them is enough
                for j in range(i + 1):
                    value = row[members[j]]
                    target[place[j]] = value
                    Q[place[j], at] = value

    def add_scores(self, members: Index, weights: Float, stretch: Index, f: Float) -> None:
        """Add the products of the rows of a stretch with ``sum_i weights[i] phi(x_i)``. Sets: ``f``."""
        _add_rows(self.K, members, weights, stretch, f)

    def add_features(self, members: Index, weights: Float, w: Float) -> None:
        """Nothing: there are no features. Sets: ``w``, if there are."""


@compiled_methods
class StoredRows(NamedTuple):
    """Rows of features, and the same as columns: the linear kernel without its matrix."""

    X: Float
    columns: Float
    squares: Float  # of the lengths of the rows

    def own_similarity(self, i: int) -> float:
        """``x_i . x_i``."""
        return self.squares[i]

    def copy_block(self, members: Index, place: Index, Q: Float) -> None:
        """``Q[place[i], place[j]] = x_members[i] . x_members[j]``. Sets: ``Q``."""
        some = self.X[members]
        products = np.dot(some, some.T)
        for i in range(members.shape[0]):
            row, target = products[i], Q[place[i]]
            for j in range(members.shape[0]):
                target[place[j]] = row[j]
        for i in range(members.shape[0]):
            Q[place[i], place[i]] = self.squares[members[i]]

    def add_scores(self, members: Index, weights: Float, stretch: Index, f: Float) -> None:
        """Add the products of the rows of a stretch with ``sum_i weights[i] x_i``. Sets: ``f``."""
        w = np.zeros(self.X.shape[1])
        _add_to(w, self.X, members, weights)
        _add_rows(self.columns, np.arange(w.shape[0]), w, stretch, f)

    def add_features(self, members: Index, weights: Float, w: Float) -> None:
        """``w += sum_i weights[i] x_i``. Sets: ``w``."""
        _add_to(w, self.X, members, weights)


def few_stored(kernel: Kernel, X: Float, order: Index, shift: float = 0.0) -> tuple[StoredKernel, Rounding]:
    """The same as `stored_kernel` of few dense rows, taken in some order, in one compiled call."""
    traits = kernel.traits
    K, magnitudes, shares = _few_stored(
        kernel, X, order, shift, traits.by_distance, traits.of_differences, traits.steepness, CANCELLED
    )
    return StoredKernel(K), Rounding(magnitudes, shares, 0.0, 2.0 if isinstance(kernel, Linear) else 1.0)


@compiled
def _few_stored(
    kernel: Kernel, samples: Float, order: Index, shift: float, by_distance: bool, of_differences: bool,
    steepness: float, cancelled: float,
) -> tuple[Float, Float, Float]:  # fmt: skip
    """Kernel values, and what `Measuring.magnitude` and `Measuring.error` say of them."""
    X, squares = np.empty((order.shape[0], samples.shape[1])), np.empty(order.shape[0])
    for i in range(X.shape[0]):
        X[i] = samples[order[i]]
    K, terms = few_values_of(kernel, X, by_distance, of_differences), float(X.shape[1])
    for i in range(X.shape[0]):
        row = X[i]
        squares[i] = UNDERFLOW_DOUBLE * terms
        for k in range(row.shape[0]):
            squares[i] += row[k] * row[k]
    squares *= 1.0 + (terms + 8.0) * DOUBLE  # or they would be rounded down
    largest = squares.max() if X.shape[0] else 0.0
    own = kernel.roundings(squares, largest, terms)
    magnitudes, shares = kernel.magnitude(squares), np.empty(X.shape[0])
    for i in range(X.shape[0]):
        lost = 0.0 if by_distance else (terms + 7.0) * DOUBLE * (squares[i] + largest)
        shares[i] = 1.001 * (own[i] * DOUBLE + min(steepness * lost, cancelled))
        if not own[i] * DOUBLE < 1e-4:
            shares[i] = np.inf
    if shift != 0.0:
        K += shift
        magnitudes = np.sqrt(magnitudes * magnitudes + shift)
    return K, magnitudes, shares


def stored_kernel(gram: Gram, shift: float = 0.0) -> tuple[StoredKernel, Rounding] | None:
    """All values of a kernel with a constant added, and what `Gram.rounding` is made of; ``None`` for other kinds."""
    K = gram.whole
    if isinstance(gram, KernelGram):
        points = gram.columns(None, np.float64)
        measuring, largest = Measuring.of(gram.kernel, points), float(points.sq.max(initial=0.0))
        magnitudes, shares = measuring.magnitude(points.sq), measuring.error(points.sq, largest)
        rounding = Rounding(magnitudes, shares, 0.0, 2.0 if isinstance(gram.kernel, Linear) else 1.0)
    elif isinstance(gram, GivenGram):
        sizes = np.maximum(K.diagonal(), 0.0)
        rounding = Rounding(np.sqrt(sizes), np.zeros(sizes.size), float(gram._asymmetry), 1.0)
    else:
        return None
    if shift:
        K, rounding = K + shift, rounding._replace(magnitudes=np.sqrt(rounding.magnitudes**2 + shift))
    return StoredKernel(K), rounding


def stored_rows(X: Float) -> tuple[StoredRows, Rounding]:
    """Dense rows, and what bounds the errors of their scores."""
    squares = np.einsum("ij,ij->i", X, X)
    share = float(roundings(X.shape[1] + 8.0))
    lengths = np.sqrt(squares) * (1.0 + share) + 1e-150
    return StoredRows(X, np.ascontiguousarray(X.T), squares), Rounding(lengths, np.full(squares.size, share), 0.0, 2.0)


@compiled
def _runs(members: Index, place: Index) -> Index:
    """Where members beside each other go to places beside each other: the first ones, and how many they are."""
    runs, count = np.empty((members.shape[0], 3), dtype=np.int64), 0
    for i in range(members.shape[0]):
        if i and members[i] == members[i - 1] + 1 and place[i] == place[i - 1] + 1:
            runs[count - 1, 2] += 1
        else:
            runs[count, 0], runs[count, 1], runs[count, 2] = members[i], place[i], 1
            count += 1
    return runs[:count]


@compiled_in_place
def _copy(source: Float, target: Float) -> None:
    for k in range(target.shape[0]):
        target[k] = source[k]


@compiled
def _add_rows(rows: Float, members: Index, weights: Float, stretch: Index, f: Float) -> None:
    """Add some rows, of which only the entries of a stretch count. Sets: ``f``."""
    start, count, second = stretch[0], stretch[1], stretch[2]
    left, right = f[:count], f[count:]
    whole, used = members.shape[0] // 4 * 4, members.shape[0]
    for s in range(0, whole, 4):
        a, b, c, d = rows[members[s]], rows[members[s + 1]], rows[members[s + 2]], rows[members[s + 3]]
        u, v, w, x = weights[s], weights[s + 1], weights[s + 2], weights[s + 3]
        _add_four(left, a[start:], u, b[start:], v, c[start:], w, d[start:], x)
        if right.shape[0]:
            _add_four(right, a[second:], u, b[second:], v, c[second:], w, d[second:], x)
    for s in range(whole, used):
        row = rows[members[s]]
        _add_one(left, row[start:], weights[s])
        if right.shape[0]:
            _add_one(right, row[second:], weights[s])


@compiled
def _add_to(w: Float, X: Float, members: Index, weights: Float) -> None:
    """Sets: ``w``, as above."""
    whole = members.shape[0] // 4 * 4
    for s in range(0, whole, 4):
        _add_four(
            w, X[members[s]], weights[s], X[members[s + 1]], weights[s + 1],
            X[members[s + 2]], weights[s + 2], X[members[s + 3]], weights[s + 3],
        )  # fmt: skip
    for s in range(whole, members.shape[0]):
        _add_one(w, X[members[s]], weights[s])


@compiled_in_place
def _add_four(f: Float, a: Float, u: float, b: Float, v: float, c: Float, w: float, d: Float, x: float) -> None:
    for k in range(f.shape[0]):
        f[k] += (u * a[k] + v * b[k]) + (w * c[k] + x * d[k])


@compiled_in_place
def _add_one(f: Float, a: Float, u: float) -> None:
    for k in range(f.shape[0]):
        f[k] += u * a[k]
