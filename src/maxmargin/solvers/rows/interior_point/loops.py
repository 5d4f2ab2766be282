"""A point inside of a box and steps from there: loops over the variables.

They serve two boxes: that of the dual variables, whose ``z`` are the scores of the samples, and that of coefficients
with limits or an L1 penalty, which are differences of two shares and have ``-X^T alpha`` in the place of scores.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float

SPREAD = 10.0  # products of room and price may differ from their mean by this factor


class Box(NamedTuple):
    """The dual in variables ``0 <= p <= cap``, of which every sample has one row per side of its loss.

    Or the penalty, ``D p^2 / 2 - reward p``, in the shares of the coefficients, one row per sign.
    """

    sign: Float  # of the share of p in the dual variable of its sample, or in its coefficient
    reward: Float
    D: Float
    cap: Float  # 0 for variables that are left out


class Inside(NamedTuple):
    """A point inside of the box. ``room`` is ``cap - p``, kept beside ``p`` because the difference would round."""

    p: Float
    room: Float
    price_zero: Float
    price_cap: Float


class Aims(NamedTuple):
    """What the products ``p price_zero`` and ``room price_cap`` should become, to first order."""

    zero: Float
    cap: Float


class Step(NamedTuple):
    """Changes of the variables and the prices."""

    p: Float
    price_zero: Float
    price_cap: Float


@compiled
def middle(box: Box, inside: Inside) -> tuple[float, int]:
    """The middle of a box of dual variables. Sets: ``inside.p``. Returns the sum of the rewards there, and how many."""
    total, count = 0.0, 0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            cap, reward = box.cap[side, i], abs(box.reward[side, i])
            if cap > 0.0:
                p = 0.5 * cap if cap < math.inf else reward / box.D[side, i]
                inside.p[side, i] = p
                total += p * reward
                count += 1
    return total, count


@compiled
def settle(box: Box, inside: Inside, z: Float, mu: float) -> None:
    """Pull variables inside of their box as far as ``mu`` demands, and set prices. Sets: ``inside``."""
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            cap, D = box.cap[side, i], box.D[side, i]
            if cap <= 0.0:
                continue
            p = inside.p[side, i]
            g = D * p - box.reward[side, i] + box.sign[side, i] * z[i]
            least = mu / (abs(g) + 4.0 * mu / cap + math.sqrt(D * mu))
            p = max(p, least)
            room = max(cap - p, least)
            if cap < math.inf:
                p = cap - room if p > room else p
                inside.price_cap[side, i] = max(-g, mu / room)
            inside.p[side, i] = p
            inside.room[side, i] = room
            inside.price_zero[side, i] = max(g, mu / p)


@compiled
def reactions(box: Box, inside: Inside, aims: Aims, z: Float) -> tuple[Float, Float]:
    """How much the dual variable of every sample falls with its score, and how much it rises if that stays."""
    h, pull = np.zeros(z.shape[0]), np.zeros(z.shape[0])
    for side in range(box.cap.shape[0]):
        for i in range(z.shape[0]):
            if box.cap[side, i] > 0.0:
                p, room, sign = inside.p[side, i], inside.room[side, i], box.sign[side, i]
                stiffness = box.D[side, i] + inside.price_zero[side, i] / p + inside.price_cap[side, i] / room
                force = box.reward[side, i] - box.D[side, i] * p - sign * z[i]
                force += aims.zero[side, i] / p - aims.cap[side, i] / room
                h[i] += 1.0 / stiffness
                pull[i] += sign * force / stiffness
    return h, pull


@compiled
def responses(box: Box, inside: Inside, aims: Aims, z: Float, dz: Float) -> Float:
    """Changes of the variables that go with a change of the scores."""
    dp = np.zeros_like(box.cap)
    for side in range(box.cap.shape[0]):
        for i in range(z.shape[0]):
            if box.cap[side, i] > 0.0:
                p, room = inside.p[side, i], inside.room[side, i]
                force = box.reward[side, i] - box.D[side, i] * p - box.sign[side, i] * (z[i] + dz[i])
                force += aims.zero[side, i] / p - aims.cap[side, i] / room
                stiffness = box.D[side, i] + inside.price_zero[side, i] / p + inside.price_cap[side, i] / room
                dp[side, i] = force / stiffness
    return dp


@compiled
def refine(box: Box, inside: Inside, dp: Float, dz: Float) -> None:
    """Let the variables follow a further change of the scores. Sets: ``dp``."""
    for side in range(box.cap.shape[0]):
        for i in range(dz.shape[0]):
            if box.cap[side, i] > 0.0:
                p, room = inside.p[side, i], inside.room[side, i]
                stiffness = box.D[side, i] + inside.price_zero[side, i] / p + inside.price_cap[side, i] / room
                dp[side, i] -= box.sign[side, i] * dz[i] / stiffness


@compiled
def prices(box: Box, inside: Inside, aims: Aims, dp: Float) -> tuple[Float, Float]:
    """Changes of both prices that go with changes of the variables."""
    du, dv = np.zeros_like(dp), np.zeros_like(dp)
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                u, v = inside.price_zero[side, i], inside.price_cap[side, i]
                du[side, i] = (aims.zero[side, i] - u * dp[side, i]) / inside.p[side, i] - u
                if box.cap[side, i] < math.inf:
                    dv[side, i] = (aims.cap[side, i] + v * dp[side, i]) / inside.room[side, i] - v
    return du, dv


@compiled
def decreases(box: Box, inside: Inside, step: Step) -> tuple[float, float]:
    """The largest relative decrease of the variables and of the prices in a step."""
    shrink, fall = 0.0, 0.0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                shrink = max(shrink, -step.p[side, i] / inside.p[side, i])
                fall = max(fall, -step.price_zero[side, i] / inside.price_zero[side, i])
                if box.cap[side, i] < math.inf:
                    shrink = max(shrink, step.p[side, i] / inside.room[side, i])
                    fall = max(fall, -step.price_cap[side, i] / inside.price_cap[side, i])
    return shrink, fall


@compiled
def complementarity(box: Box, inside: Inside) -> float:
    """Sum of the products of room and price."""
    total = 0.0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                total += inside.p[side, i] * inside.price_zero[side, i]
                if box.cap[side, i] < math.inf:
                    total += inside.room[side, i] * inside.price_cap[side, i]
    return total


@compiled
def complementarity_after(box: Box, inside: Inside, step: Step, t: float, r: float) -> float:
    """Sum of the products of room and price after ``t`` times a step."""
    total = 0.0
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                dp = t * step.p[side, i]
                total += (inside.p[side, i] + dp) * (inside.price_zero[side, i] + r * step.price_zero[side, i])
                if box.cap[side, i] < math.inf:
                    total += (inside.room[side, i] - dp) * (inside.price_cap[side, i] + r * step.price_cap[side, i])
    return total


@compiled
def aim(aims: Aims, step: Step, target: float) -> None:
    """Aim at one product for all, minus what the predictor neglected. Sets: ``aims``."""
    for side in range(aims.zero.shape[0]):
        for i in range(aims.zero.shape[1]):
            aims.zero[side, i] = target - step.p[side, i] * step.price_zero[side, i]
            aims.cap[side, i] = target + step.p[side, i] * step.price_cap[side, i]


@compiled
def recentre(box: Box, inside: Inside, step: Step, t: float, r: float, target: float, aims: Aims) -> None:
    """Aim closer to the target with those products that ``t`` times a step would bring far from it. Sets: ``aims``."""
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                p = inside.p[side, i] + t * step.p[side, i]
                product = p * (inside.price_zero[side, i] + r * step.price_zero[side, i])
                wanted = min(max(product, target / SPREAD), target * SPREAD)
                aims.zero[side, i] += max(wanted - product, -SPREAD * target)
                if box.cap[side, i] < math.inf:
                    room = inside.room[side, i] - t * step.p[side, i]
                    product = room * (inside.price_cap[side, i] + r * step.price_cap[side, i])
                    wanted = min(max(product, target / SPREAD), target * SPREAD)
                    aims.cap[side, i] += max(wanted - product, -SPREAD * target)


@compiled
def rounded(box: Box, inside: Inside, curvature: Float) -> Float:
    """The variables, with those on a bound that the maximum along them alone would bring there."""
    out = inside.p.copy()
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            if box.cap[side, i] > 0.0:
                pressure = inside.price_zero[side, i] - inside.price_cap[side, i]
                stiffness = box.D[side, i] + curvature[i]
                if pressure > stiffness * inside.p[side, i]:
                    out[side, i] = 0.0
                elif -pressure > stiffness * inside.room[side, i]:
                    out[side, i] = box.cap[side, i]
    return out


@compiled
def shift(box: Box, inside: Inside, step: Step, t: float, r: float) -> None:
    """Take ``t`` times a step. Sets: ``inside``."""
    for side in range(box.cap.shape[0]):
        for i in range(box.cap.shape[1]):
            cap = box.cap[side, i]
            if cap > 0.0:
                inside.p[side, i] += t * step.p[side, i]
                inside.price_zero[side, i] += r * step.price_zero[side, i]
                if cap < math.inf:
                    inside.room[side, i] -= t * step.p[side, i]
                    inside.price_cap[side, i] += r * step.price_cap[side, i]
                    # The larger of the two may round; the smaller one counts.
                    if inside.p[side, i] < inside.room[side, i]:
                        inside.room[side, i] = cap - inside.p[side, i]
                    else:
                        inside.p[side, i] = cap - inside.room[side, i]
