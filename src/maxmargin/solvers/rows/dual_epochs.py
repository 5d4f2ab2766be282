"""Epochs of dual coordinate ascent: the loop that methods of one and of many clients share."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled_in_place, prefetch
from maxmargin.numerics.sampling import shuffle
from maxmargin.protocols import Array, Float, Index, Loss, Vectors

PATIENCE = 5.0  # epochs' worth of work on the active rows before all of them are visited again
AHEAD = 4  # rows from the present one to the one that is brought from memory: epochs take 0.5 to 0.7 of the time


class Course(NamedTuple):
    """What one epoch leaves to the next."""

    active: int
    reach: float = math.inf  # by how much scores were wrong in the last epoch, as a root of the mean square
    spent: float = math.inf  # rows visited since the last epoch over all rows
    violation: float = math.inf  # the largest error of a score, if the last epoch was over all rows


@compiled_in_place
def dual_epochs(
    vectors: Vectors, loss: Loss, y: Float, s: Float, q: Float, inv_lam: float, tau: float, free: bool,
    alpha: Float, w: Float, b: Float, order: Index, course: Course, shrinking: bool, random: Array,
    epochs: int,
) -> tuple[Course, int, int, float]:  # fmt: skip
    """Epochs over ``order[:active]`` or over all of it; how many, rows visited, what the last one saw of the gap.

    A row that rests adds nothing to the gap ``sum_i s_i (loss(z_i) + loss*(-alpha_i / s_i)) + alpha_i z_i``.
    Sets: ``alpha, w, b, order, random``.
    """
    n = order.shape[0]
    active, reach, spent, violation = course
    made, visited, gap = 0, 0, 0.0
    while made < epochs:
        made += 1
        full = spent >= PATIENCE * n or active == 0
        if full:
            active, spent = n, 0.0
        largest, squares, movers, gap = 0.0, 0.0, 0, 0.0
        shuffle(order, 0, active, random)
        k = 0
        while k < active:
            i = order[k]
            if k + AHEAD < active:
                ahead = order[k + AHEAD]
                vectors.approach(ahead)
                for values in (alpha, q, y, s):
                    prefetch(values, ahead)
            visited += 1
            z = vectors.dot(i, w) + b[0]
            a = loss.dual_step(alpha[i], y[i], s[i], z, q[i])
            step = a - alpha[i]
            moved = abs(step) * q[i]
            gap += s[i] * (loss.value(z, y[i]) + loss.conjugate(-alpha[i] / s[i], y[i])) + alpha[i] * z
            if step != 0.0:
                alpha[i] = a
                vectors.add(i, step * inv_lam, w)
                b[0] += step * tau
            if moved > 1e-15 * (abs(y[i]) + abs(z)):  # less is rounding
                largest = max(largest, moved)
                squares += moved * moved
                movers += 1
            elif (
                shrinking
                and loss.dual_step(a, y[i], s[i], z - reach, q[i]) == a
                and loss.dual_step(a, y[i], s[i], z + reach, q[i]) == a
            ):  # the last active row takes its place and is visited next
                active -= 1
                order[k], order[active] = order[active], i
                continue
            k += 1
        spent += active
        reach = math.sqrt(squares / max(1, movers))
        if free:  # the multiplier step of the augmented Lagrangian
            shift = tau * np.sum(alpha)
            b[0] += shift
            reach = max(reach, abs(shift))
            if abs(shift) > 1e-15 * (1.0 + abs(b[0])):
                largest = max(largest, abs(shift))
        violation = largest if full else math.inf
        if violation == 0.0:
            break
    return Course(active, reach, spent, violation), made, visited, gap
