"""Curves from scores to probabilities: one for each binary problem, and how those of several become one.

The curve of a binary problem is ``1 / (1 + exp(-z))`` with ``z = A min(f, 0) + B max(f, 0) + C`` at the score ``f``: a
slope for scores below 0, one for those above, neither negative, and a shift. They are those under which the labels are
most likely, with Platt's smoothed targets. Of pairs of classes, the probabilities of the classes are those that fit the
probabilities of all pairs best in the sense of Wu, Lin and Weng; of classes against the rest, those of the curves
divided by their sum.

References: Platt, "Probabilistic outputs for support vector machines", 1999; Lin, Lin, Weng, "A note on Platt's
probabilistic outputs", 2007; Wu, Lin, Weng, "Probability estimates for multi-class classification by pairwise
coupling", JMLR 5, 2004, second approach.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float, Index

SMALLEST_SLOPE = 1e-6  # relative to the size of the scores
SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)  # has a logarithm
CERTAIN = 1e-7  # no class of a pair is less likely: LIBSVM's number
NEWTON_STEPS, NEWTON_ACCURACY, HALVINGS = 200, 1e-11, 60
TILE = 2**20  # numbers of the systems of equations that are solved at a time


def best_curves(scores: Float, codes: Index, weights: Float, n_classes: int, pairs: bool) -> Float:
    """The curve of each problem, ``A, B, C``, from scores of samples that their models had not seen."""
    if n_classes == 2:
        return _best_curve(scores[:, 0], codes == 1, weights)[None]
    curves = np.empty((scores.shape[1], 3))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2) if pairs else ((c, -1) for c in range(n_classes))):
        own = (codes == i) | (codes == j) if pairs else slice(None)
        curves[k] = _best_curve(scores[own, k], codes[own] == i, weights[own])
    return curves


def probabilities(curves: Float, scores: Float, n_classes: int, pairs: bool) -> Float:
    """Of the classes, a row for each sample, from the scores of all problems."""
    A, B, C = curves.T
    p = _sigmoid(np.minimum(scores, 0.0) * A + np.maximum(scores, 0.0) * B + C)
    if n_classes == 2:
        return np.column_stack([1.0 - p[:, 0], p[:, 0]])
    if not pairs:
        p = np.maximum(p, SMALLEST_PROBABILITY)
        return np.asarray(p / p.sum(axis=1, keepdims=True))
    out, step = np.empty((scores.shape[0], n_classes)), max(1, TILE // (n_classes + 1) ** 2)
    for start in range(0, scores.shape[0], step):
        out[start : start + step] = _coupled(p[start : start + step], n_classes)
    return out


def _sigmoid(z: Float) -> Float:
    e = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0.0, 1.0, e) / (1.0 + e))


def _coupled(r: Float, k: int) -> Float:
    """The ``p`` that minimises ``sum_ij (r_ji p_i - r_ij p_j)^2`` among those of the sum 1: linear equations."""
    r = np.clip(r, CERTAIN, 1.0 - CERTAIN)
    M, right = np.zeros((r.shape[0], k + 1, k + 1)), np.zeros((r.shape[0], k + 1, 1))
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        own = r[:, pair]
        M[:, i, i] += (1.0 - own) ** 2
        M[:, j, j] += own**2
        M[:, i, j] -= own * (1.0 - own)
        M[:, j, i] -= own * (1.0 - own)
    M[:, :k, k] = M[:, k, :k] = right[:, k] = 1.0
    p = np.maximum(np.linalg.solve(M, right)[:, :k, 0], SMALLEST_PROBABILITY)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _best_curve(f: Float, positive: Array, weights: Float) -> Float:
    """Of one problem. A side without scores has the slope of the other, or 1."""
    sides = np.array([np.minimum(f, 0.0), np.maximum(f, 0.0)])
    total = np.maximum((sides != 0.0) @ weights, np.finfo(np.float64).tiny)
    sizes = np.abs(sides) @ weights / total
    known = sizes > 0.0
    features = np.where(known[:, None], sides / np.where(known, sizes, 1.0)[:, None], 0.0)
    targets = smoothed_targets(positive, weights)
    t = np.array([1.0, 1.0, 0.0])
    _minimise(features[0], features[1], targets, weights / weights.sum(), known, t)
    slopes = np.where(known, t[:2] / np.where(known, sizes, 1.0), 0.0)
    slopes = np.where(known, slopes, slopes.max() if known.any() else 1.0)
    return np.array([slopes[0], slopes[1], t[2]])


def smoothed_targets(positive: Array, weights: Float) -> Float:
    """Platt's: the labels, if each of the two classes had been seen as the other once more.

    A class counts by the weights of its samples, but by their number at least: weights that sum to 1 are common.
    """
    up, down = (max(float(weights[own].sum()), float(own.sum())) for own in (positive, ~positive))
    return np.where(positive, (up + 1.0) / (up + 2.0), 1.0 / (down + 2.0))


@compiled
def _value(below: Float, above: Float, targets: Float, weights: Float, t: Float) -> float:
    """The mean logarithmic loss."""
    total = 0.0
    for i in range(below.shape[0]):
        z = t[0] * below[i] + t[1] * above[i] + t[2]
        total += weights[i] * (max(z, 0.0) + math.log1p(math.exp(-abs(z))) - targets[i] * z)
    return total


@compiled
def _minimise(below: Float, above: Float, targets: Float, weights: Float, known: Array, t: Float) -> None:
    """Projected Newton steps with backtracking; no slope falls below `SMALLEST_SLOPE`. Sets: ``t``."""
    value, g, H, new = _value(below, above, targets, weights, t), np.empty(3), np.empty((3, 3)), np.empty(3)
    for _ in range(NEWTON_STEPS):
        _derivatives(below, above, targets, weights, t, g, H)
        largest = abs(g[2])
        for j in range(2):
            if not known[j] or (t[j] <= SMALLEST_SLOPE and g[j] >= 0.0):
                H[j, :], H[:, j] = 0.0, 0.0
                H[j, j], g[j] = 1.0, 0.0
            largest = max(largest, abs(g[j]))
        if largest <= NEWTON_ACCURACY:
            return
        step, length, found = np.linalg.solve(H, g), 1.0, value
        for _ in range(HALVINGS):
            descent = 0.0
            for j in range(3):
                new[j] = t[j] - length * step[j]
                if j < 2 and known[j]:
                    new[j] = max(new[j], SMALLEST_SLOPE)
                descent += g[j] * (new[j] - t[j])
            found = _value(below, above, targets, weights, new)
            if found <= value + 1e-4 * descent:
                break
            length *= 0.5
        if not found < value:  # as far as float64 can tell
            return
        t[:], value = new, found


@compiled
def _derivatives(below: Float, above: Float, targets: Float, weights: Float, t: Float, g: Float, H: Float) -> None:
    """Sets: the gradient ``g`` and the matrix ``H`` of second derivatives, made definite by a trace of its own."""
    g[:] = 0.0
    H[:] = 0.0
    for i in range(below.shape[0]):
        z = t[0] * below[i] + t[1] * above[i] + t[2]
        e = math.exp(-abs(z))
        p = (1.0 if z >= 0.0 else e) / (1.0 + e)
        slope, curvature = weights[i] * (p - targets[i]), weights[i] * e / ((1.0 + e) * (1.0 + e))
        a, b = below[i], above[i]  # one of the two is zero
        g[0] += slope * a
        g[1] += slope * b
        g[2] += slope
        H[0, 0] += curvature * a * a
        H[1, 1] += curvature * b * b
        H[2, 2] += curvature
        H[0, 2] += curvature * a
        H[1, 2] += curvature * b
    H[2, 0], H[2, 1] = H[0, 2], H[1, 2]
    more = 1e-12 * (H[0, 0] + H[1, 1] + H[2, 2]) + 1e-300
    for j in range(3):
        H[j, j] += more
