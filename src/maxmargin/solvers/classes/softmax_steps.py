"""Compiled steps of Newton's method for a few classes on few rows: the whole method in one call.

`SoftmaxNewton` needs no matrix of second derivatives. Here there is one, for all coefficients of all classes, which is
small enough to be factorised by plain loops.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.small_factors import factorise_small, solve_small
from maxmargin.protocols import Float, Index

ENOUGH = 0.5  # of the slope at the beginning of a line: with less of it, steps of Newton's do not get longer
HALVINGS = 30


@compiled
def newton_on_classes(X: Float, y: Index, s: Float, theta: Float, ridge: Float, aim: float, most_steps: int) -> int:
    """Steps until the relative gap seems to be at most ``aim``; how many. Sets: ``theta``, a row for each class.

    Columns of ``X`` without a ridge are those of free intercepts.
    """
    classes, d = theta.shape
    P, Z = np.empty((X.shape[0], classes)), np.dot(X, theta.T)
    for step in range(most_steps):
        losses = _probabilities(Z, y, s, P)
        gradient, gap, penalty = np.dot(P.T, X), 0.0, 0.0  # of P less the labels
        for i in range(y.shape[0]):
            for j in range(d):
                gradient[y[i], j] -= s[i] * X[i, j]
        for c in range(classes):
            for j in range(d):
                gradient[c, j] += ridge[j] * theta[c, j]
                penalty += 0.5 * ridge[j] * theta[c, j] * theta[c, j]
                gap += 0.5 * gradient[c, j] ** 2 / ridge[j] if ridge[j] > 0.0 else abs(gradient[c, j])
        if gap <= aim * (losses + penalty):
            return step
        H = _second_derivatives(X, s, P, ridge)
        factorise_small(H)
        direction = -solve_small(H, gradient.copy().reshape(classes * d)).reshape((classes, d))
        start, linear, square = 0.0, 0.0, 0.0
        for c in range(classes):
            for j in range(d):
                start += gradient[c, j] * direction[c, j]
                linear += ridge[j] * theta[c, j] * direction[c, j]
                square += ridge[j] * direction[c, j] * direction[c, j]
        if not start < 0.0:
            return most_steps
        t = _step_length(Z, np.dot(X, direction.T), y, s, P, start, linear, square)
        theta += t * direction
        Z = np.dot(X, theta.T)
    return most_steps


@compiled
def _probabilities(Z: Float, y: Index, s: Float, P: Float) -> float:
    """The sum of the losses. Sets: ``P``, the probabilities times the weights."""
    total, classes = 0.0, Z.shape[1]
    for i in range(Z.shape[0]):
        top, rest = Z[i, 0], 0.0
        for c in range(1, classes):
            top = max(top, Z[i, c])
        for c in range(classes):
            P[i, c] = math.exp(Z[i, c] - top)
            rest += P[i, c]
        for c in range(classes):
            P[i, c] *= s[i] / rest
        total += s[i] * (math.log(rest) + top - Z[i, y[i]])
    return total


@compiled
def _second_derivatives(X: Float, s: Float, P: Float, ridge: Float) -> Float:
    """For all coefficients. What moves the free intercepts of all classes together has none, and gets some."""
    n, d = X.shape
    classes = P.shape[1]
    H, weighted = np.zeros((classes * d, classes * d)), np.empty((n, d))
    for c in range(classes):
        for e in range(c + 1):
            for i in range(n):
                weight = 0.0
                if s[i] > 0.0:
                    weight = P[i, c] * ((1.0 if c == e else 0.0) - P[i, e] / s[i])
                for j in range(d):
                    weighted[i, j] = weight * X[i, j]
            block = np.dot(weighted.T, X)
            for j in range(d):
                if c == e:
                    block[j, j] += ridge[j]
                if ridge[j] == 0.0:
                    block[j, j] += 1.0
                for k in range(d):
                    H[c * d + j, e * d + k] = block[j, k]
    return H


@compiled
def _slope_along(Z: Float, dZ: Float, y: Index, s: Float, P: Float, t: float, linear: float, square: float) -> float:
    """``t`` steps along a line. Sets: ``P``."""
    _probabilities(Z + t * dZ, y, s, P)
    total = linear + t * square
    for i in range(Z.shape[0]):
        total -= s[i] * dZ[i, y[i]]
        for c in range(Z.shape[1]):
            total += P[i, c] * dZ[i, c]
    return total


@compiled
def _step_length(
    Z: Float, dZ: Float, y: Index, s: Float, P: Float, start: float, linear: float, square: float
) -> float:
    """A full step if the slope along it falls by half; else to where it has."""
    end = _slope_along(Z, dZ, y, s, P, 1.0, linear, square)
    if not abs(end) > ENOUGH * abs(start):
        return 1.0
    low, high, below, above, t = 0.0, 1.0, start, end, 1.0
    if end < 0.0:
        return 1.0
    for _ in range(HALVINGS):
        t = low - below * (high - low) / (above - below)
        t = min(max(t, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        slope = _slope_along(Z, dZ, y, s, P, t, linear, square)
        if abs(slope) <= ENOUGH * abs(start):
            break
        if slope > 0.0:
            high, above = t, slope
        else:
            low, below = t, slope
    return t
