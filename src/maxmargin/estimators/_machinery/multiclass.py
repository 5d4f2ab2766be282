"""Many classes as binary problems, one against one or one against the rest, and back."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np

from maxmargin._jit import compiled
from maxmargin.estimators._machinery.plan import Tasks
from maxmargin.protocols import Array, Float, Index


def binary_tasks(codes: Array, names: Array, strategy: str, s: Float) -> Tasks:
    """The binary problems of a strategy, with targets +1 and -1 and the weights ``s`` of the losses.

    Two classes are one problem with the second class as the positive one. Otherwise "ovo" has one problem per pair
    ``i < j`` with class ``i`` positive, in lexicographic order, and "ovr" one per class, which is positive.
    """
    k = names.size
    if k == 2:
        return Tasks.alone(f"{names[1]} against {names[0]}", 2.0 * codes - 1.0, s)
    if strategy == "ovr":
        return Tasks(lambda i: f"{names[i]} against the rest", *_against_the_rest(codes, k, s))

    def of_pair(p: int) -> str:
        i, j = next(islice(combinations(range(k), 2), p, None))
        return f"{names[i]} against {names[j]}"

    return Tasks(of_pair, *_pairs(codes, k, s), sorts=True)


@compiled
def _against_the_rest(codes: Index, k: int, s: Float) -> tuple[Index, Index, Index, Float, Float, Index]:
    """The samples as they are, and stretches, beginnings, targets, weights and numbers of a problem for each class."""
    n = codes.shape[0]
    stretches, first = np.zeros((k, 4), dtype=np.int64), np.empty(k + 1, dtype=np.int64)
    y, weights, numbers = np.empty(n * k), np.empty(n * k), np.empty(n * k, dtype=np.int64)
    for c in range(k):
        stretches[c, 1], first[c] = n, n * c
        for i in range(n):
            y[n * c + i] = 1.0 if codes[i] == c else -1.0
            weights[n * c + i], numbers[n * c + i] = s[i], i
    first[k] = n * k
    return numbers[:n].copy(), stretches, first, y, weights, numbers


@compiled
def _pairs(codes: Index, k: int, s: Float) -> tuple[Index, Index, Index, Float, Float, Index]:
    """The samples sorted by class, and stretches, beginnings, targets weights and numbers of all pairs of classes."""
    n, pairs = codes.shape[0], k * (k - 1) // 2
    begin = np.zeros(k + 1, dtype=np.int64)
    for i in range(n):
        begin[codes[i] + 1] += 1
    for c in range(k):
        begin[c + 1] += begin[c]
    order, to = np.empty(n, dtype=np.int64), begin.copy()
    for i in range(n):
        order[to[codes[i]]] = i
        to[codes[i]] += 1
    stretches, first = np.empty((pairs, 4), dtype=np.int64), np.zeros(pairs + 1, dtype=np.int64)
    y, weights, numbers = np.empty(n * (k - 1)), np.empty(n * (k - 1)), np.empty(n * (k - 1), dtype=np.int64)
    pair, at = 0, 0
    for i in range(k):
        for j in range(i + 1, k):
            ni, nj = begin[i + 1] - begin[i], begin[j + 1] - begin[j]
            stretches[pair, 0], stretches[pair, 1], stretches[pair, 2], stretches[pair, 3] = begin[i], ni, begin[j], nj
            for t in range(ni):
                y[at + t], weights[at + t] = 1.0, s[order[begin[i] + t]]
            at += ni
            for t in range(nj):
                y[at + t], weights[at + t] = -1.0, s[order[begin[j] + t]]
            at += nj
            for t in range(ni + nj):
                numbers[at - ni - nj + t] = t
            pair += 1
            first[pair] = at
    return order, stretches, first, y, weights, numbers


def votes(pair_scores: Float, n_classes: int) -> Float:
    """One score per class from the scores of all pairs: the votes, and within equal votes the sum of the scores.

    The sums are squeezed into (-1/3, 1/3), so they decide between classes with the same number of votes only.
    """
    n = pair_scores.shape[0]
    count, confidence = np.zeros((n, n_classes)), np.zeros((n, n_classes))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        score = pair_scores[:, k]
        count[:, i] += score > 0.0
        count[:, j] += score <= 0.0
        confidence[:, i] += score
        confidence[:, j] -= score
    return count + confidence / (3.0 * (np.abs(confidence) + 1.0))


def most_votes(pair_scores: Float, n_classes: int) -> Index:
    """The class with the most votes; of several, the first, as LIBSVM does."""
    return _most_votes(np.asarray(pair_scores), n_classes)


@compiled
def _most_votes(scores: Float, k: int) -> Index:
    out, count = np.empty(scores.shape[0], dtype=np.int64), np.empty(k, dtype=np.int64)
    for row in range(scores.shape[0]):
        count[:] = 0
        pair = 0
        for i in range(k):
            for j in range(i + 1, k):
                count[i if scores[row, pair] > 0.0 else j] += 1
                pair += 1
        best = 0
        for c in range(1, k):
            if count[c] > count[best]:
                best = c
        out[row] = best
    return out


def by_other_class(expansions: Float, codes: Array, n_classes: int) -> Float:
    """Pairwise coefficients in LIBSVM's layout: for a support vector of class c, row k is its pair with class k.

    Rows from c on stand for the next class, because a class has no pair with itself.
    """
    return _by_other_class(expansions, np.asarray(codes, dtype=np.int64), n_classes)


@compiled
def _by_other_class(expansions: Float, codes: Index, k: int) -> Float:
    out = np.empty((k - 1, codes.shape[0]))
    for row in range(k - 1):
        for t in range(codes.shape[0]):
            other = row + 1 if row >= codes[t] else row
            i, j = min(codes[t], other), max(codes[t], other)
            out[row, t] = expansions[i * k - i * (i + 1) // 2 + j - i - 1, t]
    return out


def by_pair(dual_coef: Float, codes: Array, n_classes: int) -> Float:
    """The inverse of `by_other_class`."""
    return _by_pair(np.asarray(dual_coef, dtype=np.float64), np.asarray(codes, dtype=np.int64), n_classes)


@compiled
def _by_pair(dual_coef: Float, codes: Index, k: int) -> Float:
    out = np.zeros((k * (k - 1) // 2, codes.shape[0]))
    for row in range(k - 1):
        for t in range(codes.shape[0]):
            other = row + 1 if row >= codes[t] else row
            i, j = min(codes[t], other), max(codes[t], other)
            out[i * k - i * (i + 1) // 2 + j - i - 1, t] = dual_coef[row, t]
    return out
