"""Epochs of stochastic subgradient steps until the objective that they find no longer falls, in one compiled call."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float, Index, Loss, Vectors
from maxmargin.solvers.rows.sgd.loops import NEVER, FourAhead, InTurn, Recipe, Stretch, walk_epochs

# Numbers of a path, in one array: the next sample's number, the representation of the coefficients, the averages of the
# coefficient of the intercept, and what the rule remembers.
NUMBERS = 10
STEPS, SCALE, LEVEL, BETA, MEAN_BETA, COUNT, BEST, IDLE, SETTLED, MEASURE = range(NUMBERS)
RECENT = (
    3.0  # the average weighs points by this power of their number, so that half of it is the last sixth of the path
)
FORGOTTEN = 0.25  # of what the samples' slopes were before the last power of two of epochs


class Rule(NamedTuple):
    """When the objective no longer falls: if it is not below its best by ``tol`` in so many epochs in a row."""

    tol: float  # infinite and negative if nobody looks
    patience: int
    weight: float  # of all samples: what the objective is divided by


class HeldOut(NamedTuple):
    """Samples whose score is looked at instead of the objective: accuracy, or the coefficient of determination."""

    samples: Index
    weights: Float
    classes: bool


NOBODY = HeldOut(np.empty(0, dtype=np.int64), np.empty(0), False)


@compiled
def descend(
    walker: InTurn | FourAhead, loss: Loss, y: Float, s: Float, recipe: Recipe, rule: Rule, held: HeldOut,
    order: Index, random: Array, first: int, epochs: int, numbers: Float, theta: Float, total: Float, mean: Float,
    seen: Array, stretch: Stretch,
) -> int:  # fmt: skip
    """Epochs from number ``first`` on, until the rule says that it is enough; returns how many were made.

    The average is ``mean``, with weights that grow along the path, or the sum ``total`` over `COUNT` points if every
    one from some step on counts the same. Sets: ``order, random, numbers, theta, total, mean, seen, stretch``.
    """
    t, scale, level, beta = int(numbers[STEPS]), numbers[SCALE], numbers[LEVEL], numbers[BETA]
    watched, exact = rule.tol > -math.inf, recipe.start < NEVER and not recipe.growing
    own, made = total if exact else np.zeros(theta.shape[0]), 0
    for epoch in range(first, first + epochs):
        if epoch > 0 and (epoch & (epoch - 1)) == 0:
            level, scale = _begin_anew(recipe, theta, scale, level, seen)
        before = t
        if not exact:
            own[:] = 0.0
        t, scale, level, beta, beta_total, count, losses = walk_epochs(
            walker, loss, y, s, recipe, order, random, 1, t, theta, scale, level, beta, own, seen, stretch, watched
        )
        made += 1
        if exact:
            numbers[MEAN_BETA] += beta_total
            numbers[COUNT] += count
        elif count > 0:
            share = 1.0 - (before / t) ** (1.0 + RECENT) if numbers[COUNT] > 0.0 else 1.0
            for j in range(theta.shape[0]):
                mean[j] += share * (own[j] / count - mean[j])
            numbers[MEAN_BETA] += share * (beta_total / count - numbers[MEAN_BETA])
            numbers[COUNT] += count
        if watched:
            if held.samples.shape[0] > 0:
                measure = -_score(walker.vectors, held, y, recipe.height, numbers, theta, scale, level, beta, mean)
            else:
                measure = (losses + order.shape[0] * _penalty(recipe, theta, scale, level)) / rule.weight
            numbers[IDLE] = numbers[IDLE] + 1.0 if measure > numbers[BEST] - rule.tol else 0.0
            numbers[BEST] = min(numbers[BEST], measure)
            if numbers[IDLE] >= rule.patience:
                numbers[SETTLED] = 1.0
                break
    numbers[STEPS], numbers[SCALE], numbers[LEVEL], numbers[BETA] = t, scale, level, beta
    return made


@compiled
def _begin_anew(recipe: Recipe, theta: Float, scale: float, level: float, seen: Array) -> tuple[float, float]:
    """At a power of two of epochs: thresholds begin anew, and slopes of long ago count less. Sets: ``theta, seen``.

    A coefficient that has to leave zero late would otherwise have to make up for all that the penalty has held back
    since the beginning.
    """
    for i in range(seen.shape[0]):
        seen[i, 0] *= np.float32(FORGOTTEN)
        seen[i, 1] *= np.float32(FORGOTTEN)
    if recipe.l1 > 0.0:
        for j in range(theta.shape[0]):
            theta[j] = scale * math.copysign(max(abs(theta[j]) - level, 0.0), theta[j])
        return 0.0, 1.0
    return level, scale


@compiled
def _penalty(recipe: Recipe, theta: Float, scale: float, level: float) -> float:
    """The penalty of the present coefficients, per sample."""
    total = 0.0
    for j in range(theta.shape[0]):
        w = scale * max(abs(theta[j]) - level, 0.0)
        total += recipe.l1 * w + 0.5 * recipe.l2 * w * w
    return total


@compiled
def _score(
    vectors: Vectors, held: HeldOut, y: Float, height: float, numbers: Float, theta: Float, scale: float,
    level: float, beta: float, mean: Float,
) -> float:  # fmt: skip
    """Of the samples that are held out, with the average if there is one, or with the present coefficients."""
    w, b = mean, height * numbers[MEAN_BETA]
    if mean.shape[0] == 0 or numbers[COUNT] == 0.0:
        w, b = np.empty(theta.shape[0]), height * beta
        for j in range(theta.shape[0]):
            w[j] = scale * math.copysign(max(abs(theta[j]) - level, 0.0), theta[j])
    total, good, middle, spread, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(held.samples.shape[0]):
        i = held.samples[k]
        z = vectors.dot(i, w) + b
        total += held.weights[k]
        middle += held.weights[k] * y[i]
        squares += held.weights[k] * (z - y[i]) ** 2
        good += held.weights[k] if (z > 0.0) == (y[i] > 0.0) else 0.0
    if held.classes:
        return good / total
    for k in range(held.samples.shape[0]):
        spread += held.weights[k] * (y[held.samples[k]] - middle / total) ** 2
    return 1.0 - squares / spread if spread > 0.0 else -squares


@compiled
def mean_objective(
    vectors: Vectors, loss: Loss, y: Float, s: Float, recipe: Recipe, samples: Index, w: Float, b: float
) -> float:
    """Mean loss over some samples, and the penalty per sample."""
    total = 0.0
    for i in samples:
        total += s[i] * loss.value(vectors.dot(i, w) + b, y[i])
    return total / max(1, samples.shape[0]) + _penalty(recipe, w, 1.0, 0.0)
