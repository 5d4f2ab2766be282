"""The steps of stochastic subgradient descent: the samples to come, and two ways to walk over them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.numerics.sampling import CYCLIC, PERMUTATION, UNIFORM, below, shuffle
from maxmargin.operators.vectors import DenseVectors, add_four, four_products
from maxmargin.protocols import Array, Float, Index, Loss, Vectors
from maxmargin.solvers.windows import GAIN, VISITS

NEVER = 2**62
PASSIVE = {"pa1": 1, "pa2": 2}  # rules whose step depends on the loss of the sample
SMALLEST_SCALE = 1e-9
STRETCH = 512  # steps that are prepared at a time: what is known of them stays in the nearest caches


class Recipe(NamedTuple):
    """What is the same in every step of a round."""

    eta0: float
    decay: float
    power: float
    l1: float  # strengths per sample
    l2: float
    height: float  # of the column whose coefficient is the intercept; 0 if there is none
    l1_b: float
    l2_b: float
    draw: int
    snapshot: int  # steps between two additions to the average
    passive: int  # 0, or the number of a rule of `PASSIVE`, whose aggressiveness is ``eta0``
    start: int  # the step from which on every point counts in the average; `NEVER` if there are snapshots instead
    growing: bool  # whether points count by the third power of their number


class Stretch(NamedTuple):
    """Some steps to come: what is known of them beforehand, and the slopes that they will find."""

    samples: Index
    y: Float
    s: Float
    eta: Float
    unit: Float  # what a slope of -1 adds to ``theta``, as a multiple of the row
    scale: Float  # before each step, and after the last
    level: Float  # likewise
    slopes: Float
    scores: Float
    mass: Float  # the scales of the averaged points before each step, summed since the average was last brought up

    @classmethod
    def empty(cls) -> Stretch:
        """Room for the steps of a stretch."""
        numbers = [np.zeros(STRETCH + 1) for _ in cls._fields[1:]]
        return cls(np.empty(STRETCH, dtype=np.int64), *numbers)


@compiled_methods
class InTurn(NamedTuple):
    """One step after the other, as the method is written."""

    vectors: Vectors

    def walk(
        self, loss: Loss, recipe: Recipe, stretch: Stretch, first: int, count: int, theta: Float, beta: float,
        left: int, total: Float, lag: Float,
    ) -> tuple[float, int, float, float]:  # fmt: skip
        """Steps of a stretch from ``first`` on, the next snapshot after ``left`` of them.

        Returns the next ``beta`` and ``left``, and the sum of ``beta`` over the snapshots and their number. If every
        point counts in the average, with a weight, their sum is that of their weights and scales times the last
        ``theta``, but for what each of the steps came too late for: that is in ``lag``.

        Sets: ``theta, stretch.slopes, stretch.scores, total, lag``.
        """
        vectors, samples, y, s, eta = self.vectors, stretch.samples, stretch.y, stretch.s, stretch.eta
        unit, scale, level, slopes = stretch.unit, stretch.scale, stretch.level, stretch.slopes
        h, beta_total, points, exact = recipe.height, 0.0, 0.0, lag.shape[0] > 0
        for k in range(first, count):
            i = samples[k]
            inner = vectors.dot_shrunk(i, level[k], theta) if recipe.l1 > 0.0 else vectors.dot(i, theta)
            z = scale[k] * inner + h * beta
            g = loss.slope(z, y[k])
            if recipe.passive > 0:
                g *= _aggression(recipe, loss.value(z, y[k]), vectors.squared_length(i)) / eta[k]
            elif is_unbounded(loss):
                implicit = -loss.dual_step(0.0, y[k], s[k], z, eta[k] * (vectors.squared_length(i) + h * h)) / s[k]
                g = implicit if abs(g) > 2.0 * abs(implicit) else g
            slopes[k], stretch.scores[k] = g, z
            if g != 0.0:
                vectors.add(i, -unit[k] * g, theta)
                if exact and stretch.mass[k] > 0.0:
                    vectors.add(i, -unit[k] * g * stretch.mass[k], lag)
            moved = beta - eta[k] * s[k] * g * h
            beta = _shrunk(moved, eta[k] * recipe.l1_b) / (1.0 + eta[k] * recipe.l2_b)
            left -= 1
            if left == 0:
                for j in range(theta.shape[0]):
                    total[j] += scale[k + 1] * _shrunk(theta[j], level[k + 1])
                beta_total += beta
                points += 1.0
                left = recipe.snapshot
            if exact and stretch.mass[k + 1] > stretch.mass[k]:
                weight = (stretch.mass[k + 1] - stretch.mass[k]) / scale[k + 1]
                beta_total += weight * beta
                points += weight
        return beta, left, beta_total, points


@compiled_methods
class FourAhead(NamedTuple):
    """The same steps on dense rows, for losses of bounded slope and a penalty without L1 part and intercept.

    A step has to wait for the one before, which is a chain of about thirty instructions. But four of them need only
    the products of their rows with the present ``theta`` and with each other, and these wait for nothing: how the
    first steps change the scores of the next follows by a multiplication.
    """

    vectors: DenseVectors

    def walk(
        self, loss: Loss, recipe: Recipe, stretch: Stretch, first: int, count: int, theta: Float, beta: float,
        left: int, total: Float, lag: Float,
    ) -> tuple[float, int, float, float]:  # fmt: skip
        """As `InTurn.walk`, with ``first`` zero and snapshots only; one may have to wait for the others of its four."""
        X, samples, y = self.vectors.X, stretch.samples, stretch.y
        unit, scale, slopes, scores = stretch.unit, stretch.scale, stretch.slopes, stretch.scores
        h, beta_total, points = recipe.height, 0.0, 0.0
        for group in range(count // 4):
            k = 4 * group
            i0, i1, i2, i3 = samples[k], samples[k + 1], samples[k + 2], samples[k + 3]
            a0, a1, a2, a3 = scale[k], scale[k + 1], scale[k + 2], scale[k + 3]
            u0, u1, u2, u3 = unit[k], unit[k + 1], unit[k + 2], unit[k + 3]
            b0, b1, b2, b3 = h * a0 * u0, h * a1 * u1, h * a2 * u2, h * a3 * u3  # what a slope of -1 adds to beta
            z0, z1, z2, z3, x01, x02, x03, x12, x13, x23 = four_products(X, i0, i1, i2, i3, theta)
            z0, z1, z2, z3 = a0 * z0 + h * beta, a1 * z1 + h * beta, a2 * z2 + h * beta, a3 * z3 + h * beta
            g0 = loss.slope(z0, y[k])
            z1 -= g0 * (a1 * u0 * x01 + h * b0)
            g1 = loss.slope(z1, y[k + 1])
            z2 -= g0 * (a2 * u0 * x02 + h * b0)
            z2 -= g1 * (a2 * u1 * x12 + h * b1)
            g2 = loss.slope(z2, y[k + 2])
            z3 -= g0 * (a3 * u0 * x03 + h * b0) + g1 * (a3 * u1 * x13 + h * b1)
            z3 -= g2 * (a3 * u2 * x23 + h * b2)
            g3 = loss.slope(z3, y[k + 3])
            add_four(X, i0, i1, i2, i3, -u0 * g0, -u1 * g1, -u2 * g2, -u3 * g3, theta)
            slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3] = g0, g1, g2, g3
            scores[k], scores[k + 1], scores[k + 2], scores[k + 3] = z0, z1, z2, z3
            beta -= (b0 * g0 + b1 * g1) + (b2 * g2 + b3 * g3)
            left -= 4
            if left <= 0:
                for j in range(theta.shape[0]):
                    total[j] += scale[k + 4] * theta[j]
                beta_total += beta
                points += 1.0
                left = recipe.snapshot
        beta, left, beta_rest, rest = InTurn(self.vectors).walk(
            loss, recipe, stretch, count - count % 4, count, theta, beta, left, total, lag
        )
        return beta, left, beta_total + beta_rest, points + rest


@compiled
def walk_epochs(
    walker: InTurn | FourAhead, loss: Loss, y: Float, s: Float, recipe: Recipe, order: Index, random: Array,
    epochs: int, t: int, theta: Float, scale: float, level: float, beta: float, total: Float, seen: Array,
    stretch: Stretch, watched: bool,
) -> tuple[int, float, float, float, float, float, float]:  # fmt: skip
    """Steps over the samples of ``order``; the coefficients are ``scale * shrunk(theta, level)`` before and after.

    The last number is the sum of the losses that the steps found, if it is asked for. Sets: ``order, random, theta,
    total, seen, stretch``.
    """
    m = order.shape[0]
    beta_total, points, left, losses = 0.0, 0.0, recipe.snapshot - t % recipe.snapshot, 0.0
    lag, mass = np.zeros(theta.shape[0] if recipe.start < NEVER else 0), 0.0
    for _ in range(epochs):
        if recipe.draw == PERMUTATION:
            shuffle(order, 0, m, random)
        done = 0
        while done < m:
            count = _prepare(recipe, y, s, order, done, random, t, scale, level, stretch)
            if recipe.start < NEVER:
                mass = _add_up(recipe, stretch, t, count, mass)
            if recipe.draw != CYCLIC:
                for k in range(count):
                    walker.vectors.approach(stretch.samples[k])
            beta, left, more, new = walker.walk(loss, recipe, stretch, 0, count, theta, beta, left, total, lag)
            beta_total += more
            points += new
            if seen.shape[0] > 0:
                _record(stretch, count, seen)
            for k in range(count if watched else 0):
                losses += stretch.s[k] * loss.value(stretch.scores[k], stretch.y[k])
            t += count
            done += count
            scale, level = stretch.scale[count], stretch.level[count]
            if scale < SMALLEST_SCALE:
                mass = _bring_up(theta, mass, lag, total)
                for j in range(theta.shape[0]):
                    theta[j] *= scale
                level *= scale
                scale = 1.0
        mass = _bring_up(theta, mass, lag, total)
    return t, scale, level, beta, beta_total, points, losses


@compiled
def _add_up(recipe: Recipe, stretch: Stretch, t: int, count: int, mass: float) -> float:
    """Sums of the scales of the points that count in the average. Sets: ``stretch.mass``."""
    for k in range(count):
        stretch.mass[k] = mass
        number = t + k + 1.0
        if number >= recipe.start:
            mass += (number * number * number if recipe.growing else 1.0) * stretch.scale[k + 1]
    stretch.mass[count] = mass
    return mass


@compiled
def _bring_up(theta: Float, mass: float, lag: Float, total: Float) -> float:
    """Add what is missing in the sum of the points, and begin anew. Sets: ``total, lag``."""
    for j in range(lag.shape[0]):
        total[j] += mass * theta[j] - lag[j]
        lag[j] = 0.0
    return 0.0


@compiled
def _aggression(recipe: Recipe, loss: float, squared_length: float) -> float:
    """The step of a passive-aggressive rule, as a multiple of the slope."""
    if recipe.passive == 1:
        return min(recipe.eta0, loss / squared_length) if squared_length > 0.0 else 0.0
    return loss / (squared_length + 0.5 / recipe.eta0)


@compiled
def _record(stretch: Stretch, count: int, seen: Array) -> None:
    """Sets: ``seen``."""
    samples, slopes = stretch.samples, stretch.slopes
    for k in range(count):
        seen[samples[k], GAIN] -= slopes[k]
        seen[samples[k], VISITS] += 1.0


@compiled
def _prepare(
    recipe: Recipe, y: Float, s: Float, order: Index, first: int, random: Array, t: int, scale: float, level: float,
    stretch: Stretch,
) -> int:  # fmt: skip
    """Draw the samples of the next steps and follow the schedule until the scale is too small; return their number.

    Nothing here waits for a step, so that memory and divisions are not waited for there. Sets: ``random, stretch``.
    """
    samples, eta, unit, scales, levels = stretch.samples, stretch.eta, stretch.unit, stretch.scale, stretch.level
    targets, weights = stretch.y, stretch.s
    m = order.shape[0]
    count = min(STRETCH, m - first)
    if recipe.power == 1.0:
        for k in range(count):
            eta[k] = recipe.eta0 / (1.0 + recipe.decay * (t + k))
    else:
        for k in range(count):
            eta[k] = recipe.eta0 / (1.0 + recipe.decay * (t + k)) ** recipe.power
    inverse = 1.0 / scale
    for k in range(count):
        unit[k] = inverse
        inverse *= 1.0 + eta[k] * recipe.l2
        if inverse > 1.0 / SMALLEST_SCALE:
            count = k + 1
            break
    for k in range(count):
        scales[k] = 1.0 / unit[k]
    scales[count] = 1.0 / inverse
    for k in range(count if recipe.l1 > 0.0 else 0):  # without an L1 part they stay zero
        levels[k], levels[k + 1] = level, level + eta[k] * recipe.l1 * unit[k]
        level = levels[k + 1]
    if recipe.draw == CYCLIC and m == y.shape[0]:  # all of them lie side by side
        next_y, next_s = y[first : first + count], s[first : first + count]
        for k in range(count):
            samples[k], targets[k], weights[k] = first + k, next_y[k], next_s[k]
    else:
        for k in range(count):
            i = order[below(m, random)] if recipe.draw == UNIFORM else order[first + k]
            samples[k], targets[k], weights[k] = i, y[i], s[i]
    for k in range(count):
        unit[k] *= eta[k] * weights[k]
    return count


@compiled
def is_unbounded(loss: Loss) -> bool:
    """Whether there is no bound on the slopes."""
    low, high = loss.dual_range(1.0)
    return math.isinf(high - low)


@compiled
def _shrunk(v: float, level: float) -> float:
    """``v`` moved towards zero by ``level``."""
    return math.copysign(max(abs(v) - level, 0.0), v)
