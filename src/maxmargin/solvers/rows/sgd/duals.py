"""The values of a point of the path, and the dual points that certify it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.parts.penalties import strengths
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Loss, Vectors

GOLDEN_STEPS, BRACKET_STEPS, FALSI_STEPS = 5, 20, 8


class Candidate(NamedTuple):
    """A dual feasible point, its product ``X^T alpha`` (with the column of a penalised intercept), and its value."""

    alpha: Float
    product: Float
    value: float


def penalty_at(problem: Problem, w: Float, b: float) -> float:
    """The penalty of coefficients and intercept."""
    l1, l2 = strengths(problem.penalty)
    if column := problem.penalised_column:
        w = np.append(w, b / column)
    return l1 * float(np.abs(w).sum()) + 0.5 * l2 * float(w @ w)


def mean_value(problem: Problem, samples: Index, w: Float, b: float) -> float:
    """Mean loss over some samples, and the penalty per sample."""
    total = _loss_over(problem.rows.vectors, problem.loss, problem.y, problem.s, samples, w, b)
    return total / max(1, samples.size) + penalty_at(problem, w, b) / max(1, int(np.count_nonzero(problem.s)))


def candidate(problem: Problem, alpha: Float) -> Candidate:
    """A dual feasible point near ``alpha``."""
    alpha = problem.feasible(alpha)
    product = problem.dual_coefficients(alpha)
    return Candidate(alpha, product, -problem.conjugates(alpha) - _conjugate(problem, product))


def _conjugate(problem: Problem, v: Float) -> float:
    """``penalty*(v)`` in its domain."""
    l1, l2 = strengths(problem.penalty)
    return 0.5 * float((np.maximum(np.abs(v) - l1, 0.0) ** 2).sum()) / l2 if l2 > 0.0 else 0.0


def best_between(problem: Problem, first: Candidate, second: Candidate) -> Candidate:
    """The point of the largest dual value between two, by golden section."""
    alpha, step = np.zeros_like(first.alpha), second.product - first.product

    def value(share: float) -> float:
        conjugates = _mix(problem.loss, problem.y, problem.s, first.alpha, second.alpha, share, alpha)
        return -conjugates - _conjugate(problem, first.product + share * step)

    values = {0.0: first.value, 1.0: second.value}
    left, right, golden = 0.0, 1.0, 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(GOLDEN_STEPS):
        inner = right - golden * (right - left), left + golden * (right - left)
        for share in inner:
            if share not in values:
                values[share] = value(share)
        left, right = (left, inner[1]) if values[inner[0]] >= values[inner[1]] else (inner[0], right)
    share = max(values, key=lambda share: values[share])
    return Candidate(alpha, first.product + share * step, value(share))


def balancing_intercept(problem: Problem, z: Float, b: float) -> float:
    """A free intercept near ``b`` at which the slopes nearly balance, by regula falsi.

    `Problem.best_intercept` is exact, but takes a hundred times a sum over the samples, as long as some epochs.
    """

    def pull(b: float) -> float:
        return _sum_of_slopes(problem.loss, z, b, problem.y, problem.s)  # falls as b grows

    ends, pulls = [b, b], [pull(b), 0.0]
    step = math.copysign(1e-3 * (1.0 + abs(b)), pulls[0])
    for _ in range(BRACKET_STEPS):
        if pulls[0] == 0.0:
            return b
        ends[1] = ends[0] + step
        pulls[1] = pull(ends[1])
        if pulls[1] * pulls[0] <= 0.0:
            break
        ends[0], pulls[0], step = ends[1], pulls[1], 4.0 * step
    for _ in range(FALSI_STEPS):
        if pulls[0] == pulls[1] or ends[0] == ends[1]:
            break
        b = ends[0] - pulls[0] * (ends[1] - ends[0]) / (pulls[1] - pulls[0])
        found = pull(b)
        if found * pulls[1] <= 0.0:
            ends[0], pulls[0] = ends[1], pulls[1]
        else:
            pulls[0] *= 0.5  # Illinois: an end that stays must not hold the others back
        ends[1], pulls[1] = b, found
    return ends[1] if abs(pulls[1]) <= abs(pulls[0]) else ends[0]


@compiled
def _sum_of_slopes(loss: Loss, z: Float, b: float, y: Float, s: Float) -> float:
    total = 0.0
    for i in range(z.shape[0]):
        total -= s[i] * loss.slope(z[i] + b, y[i])
    return total


@compiled
def _mix(loss: Loss, y: Float, s: Float, first: Float, second: Float, share: float, out: Float) -> float:
    """``sum_i s_i loss*(-alpha_i / s_i, y_i)`` for ``alpha`` between two dual feasible points. Sets: ``out`` to it."""
    total = 0.0
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            low, high = loss.dual_range(y[i])  # which rounding must not leave
            a = min(max(first[i] / s[i] + share * (second[i] / s[i] - first[i] / s[i]), low), high)
            out[i] = s[i] * a
            total += s[i] * loss.conjugate(-a, y[i])
    return total


@compiled
def _loss_over(vectors: Vectors, loss: Loss, y: Float, s: Float, samples: Index, w: Float, b: float) -> float:
    total = 0.0
    for k in range(samples.shape[0]):
        i = samples[k]
        total += s[i] * loss.value(vectors.dot(i, w) + b, y[i])
    return total
