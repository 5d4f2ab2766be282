"""What a class of rows that is spread over clients decides together: its nearest rows, the scale of its shares.

Each request is answered by a few sums, after its rows have been split at a border that the clients find by inquiries.
Several requests share their rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.capped_simplex import excess, selected_shift
from maxmargin.numerics.inquiries import (
    NO_GUESS,
    ROUNDING,
    Answer,
    Guess,
    Inquiry,
    Nearest,
    Normaliser,
    Shift,
    Smallest,
    Soft,
    soft_value,
)
from maxmargin.protocols import Communicator, Float

TRIES = 8  # places in a round


class Request(Protocol[Answer]):
    """A question about the rows of one class, of which each client knows its own."""

    def alone(self) -> Answer:
        """The answer of a single client."""

    def inquiry(self, tries: int) -> Inquiry[Answer]:
        """How several clients find it, who try so many places in a round."""


def settled(communicator: Communicator, requests: Sequence[Request[Answer]], tries: int = TRIES) -> list[Answer]:
    """The answers to some requests: one round if no row is capped, otherwise as many as the hardest search needs.

    Several tries at a time save rounds; a single one is the least to send.
    """
    if communicator.size == 1:
        return [request.alone() for request in requests]
    inquiries = [request.inquiry(tries) for request in requests]
    while unknown := [inquiry for inquiry in inquiries if not inquiry.closed]:
        messages = [inquiry.message() for inquiry in unknown]
        cuts = np.cumsum([message.size for message in messages])[:-1]

        def merged(stacked: Float, unknown: list[Inquiry[Answer]] = unknown, cuts: Float = cuts) -> Float:
            parts = np.split(stacked, cuts, axis=1)
            return np.concatenate([inquiry.merged(part) for inquiry, part in zip(unknown, parts, strict=True)])

        own = np.concatenate(messages)
        heard = communicator.combined(own, merged, own.size)
        for inquiry, part in zip(unknown, np.split(heard, cuts), strict=True):
            inquiry.hear(part)
    return [inquiry.answer() for inquiry in inquiries]


def looped(communicator: Communicator, logs: Sequence[Float], log_caps: Sequence[Float]) -> list[float]:
    """The shifts of `Scale` for some classes, by the loop of Saddle-SVC: cut, scale the others up, until none is cut.

    After a round for the sums of the weights, a client sends two numbers for each class and round, what it has cut and
    what is left, and is told by what the others are to be scaled. At least one row is cut in each round but the last,
    so that there are no more of them than rows at their caps.
    """
    shifts = settled(communicator, [Scale(own, caps, True) for own, caps in zip(logs, log_caps, strict=True)])
    before = [-math.inf] * len(shifts)
    while True:
        cut = [excess(*four) for four in zip(logs, log_caps, shifts, before, strict=True)]
        steps = communicator.combined(np.array(cut), _scaled_up, len(cut)).tolist()
        if not any(steps):
            return shifts
        before, shifts = shifts, [shift + step for shift, step in zip(shifts, steps, strict=True)]


def _scaled_up(cut: Float) -> Float:
    """Logarithms of the factors by which those below the caps of each class become what is missing."""
    above, free = cut.sum(axis=0).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0.0, np.log1p(above / free), 0.0)


@dataclass(frozen=True)
class Least:
    """The smallest ``sum_i b_i t_i`` over ``0 <= b <= cap`` of sum ``total``, and the largest ``t_i`` that it uses."""

    t: Float
    cap: Float
    total: float
    hard: bool  # no cap is below the total
    guess: Guess = NO_GUESS  # where the last of these may be

    def alone(self) -> tuple[float, float]:
        """By selection in time proportional to the number of rows."""
        value, border = least(self.t, self.cap, self.total)
        return float(value), float(border)

    def inquiry(self, tries: int) -> Inquiry[tuple[float, float]]:
        """For the smallest ``t``; or for the row with which the total is reached."""
        if self.hard:
            return Smallest(self.t, self.total)
        return Nearest(self.t, self.cap, self.total, self.guess, tries)


@dataclass(frozen=True)
class Scale:
    """The ``shift`` for which ``sum_i min(cap_i, exp(logs_i + shift)) = 1``."""

    logs: Float
    log_caps: Float
    hard: bool  # every cap is 1
    guess: Guess = NO_GUESS

    def alone(self) -> float:
        """By selection, or by the sum."""
        return normaliser(self.logs) if self.hard else float(selected_shift(self.logs, self.log_caps))

    def inquiry(self, tries: int) -> Inquiry[float]:
        """For the sum of the weights; or for the row that is the next to be cut."""
        if self.hard:
            return Normaliser(self.logs)
        return Shift(self.logs, self.log_caps, None, self.guess, tries)


@dataclass(frozen=True)
class SoftLeast:
    """The smallest ``sum_i b_i (t_i + gamma log b_i)`` over ``0 <= b <= cap`` of sum 1, and the best ``b``'s shift."""

    t: Float
    log_caps: Float
    gamma: float
    hard: bool
    guess: Guess = NO_GUESS

    def alone(self) -> tuple[float, float]:
        """From the shift of the best ``b``, below which rows are cut."""
        logs = -self.t / self.gamma
        shift = Scale(logs, self.log_caps, self.hard).alone()
        if self.hard:
            return self.gamma * shift, shift
        below = self.log_caps - logs < shift
        caps = np.exp(self.log_caps[below])
        cut = float(caps @ (self.t[below] + self.gamma * self.log_caps[below]))
        return soft_value(float(caps.sum()), cut, self.gamma, shift), shift

    def inquiry(self, tries: int) -> Inquiry[tuple[float, float]]:
        """For the scale, with the values that are summed on the way."""
        logs = -self.t / self.gamma
        if self.hard:
            return Soft(Normaliser(logs), self.gamma)
        values = np.exp(self.log_caps) * (self.t + self.gamma * self.log_caps)
        return Soft(Shift(logs, self.log_caps, values, self.guess, tries), self.gamma)


def normaliser(logs: Float) -> float:
    """``-log sum exp(logs)``."""
    top = float(logs.max())
    return -(top + math.log(float(np.exp(logs - top).sum())))


@compiled
def least(t: Float, cap: Float, total: float) -> tuple[float, float]:
    """The smallest ``sum_i b_i t_i`` over ``0 <= b <= cap`` of sum ``total``, and the largest ``t_i`` that it uses.

    The smallest ``t_i`` are used first. They are found by selection, in time proportional to their number.
    """
    order = np.arange(t.shape[0])
    low, high = 0, t.shape[0]
    value, missing, border, rounding = 0.0, total, 0.0, ROUNDING * total
    while low < high:
        first, middle, last = t[order[low]], t[order[(low + high) // 2]], t[order[high - 1]]
        border = max(min(first, middle), min(max(first, middle), last))
        # Three parts: smaller than the pivot, equal to it, larger.
        smaller, k, larger = low, low, high
        weight, moment, equal = 0.0, 0.0, 0.0
        while k < larger:
            i = order[k]
            if t[i] < border:
                order[k], order[smaller] = order[smaller], i
                weight += cap[i]
                moment += cap[i] * t[i]
                smaller += 1
                k += 1
            elif t[i] > border:
                larger -= 1
                order[k], order[larger] = order[larger], i
            else:
                equal += cap[i]
                k += 1
        if weight >= missing - rounding:
            high = smaller
        elif weight + equal >= missing - rounding:
            return value + moment + (missing - weight) * border, border
        else:
            value += moment + equal * border
            missing -= weight + equal
            low = larger
    return value + missing * border, border
