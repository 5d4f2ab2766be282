"""What a class of rows that is spread over clients decides together: its nearest rows, the scale of its shares.

Each request is answered by a few sums, after its rows have been split at a border: below it rows count fully. Several
requests share their rounds. The border is found by selection: every client names some of its keys with its sums up to
each. Between two names nothing is known but that the sums grow, which tells all clients the same narrower bracket. Once
everybody can name all of its keys within the bracket, the border is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from maxmargin._jit import compiled
from maxmargin.capped_simplex import selected_shift
from maxmargin.protocols import Communicator, Float

NAMES = 128  # keys that a client names per request and round
SAMPLE = 16 * NAMES  # keys among which it chooses
ROUNDING = 1e-12  # of a sum of caps: less than this is not missing


class Request(Protocol):
    """A question about the rows of one class, of which each client knows its own."""

    def alone(self) -> Any:
        """The answer of a single client."""

    def search(self) -> Search | None:
        """How the border is found, if one is needed."""

    def summary(self, border: float) -> Float:
        """The sums of this client."""

    def answer(self, summaries: Float, border: float) -> Any:
        """What follows from the sums of all clients, one in each row."""


@dataclass(frozen=True)
class Search:
    """Rows whose keys are at most ``v`` count with their cap, others with ``exp(log + v)``, if there are logarithms.

    The border is the smallest key at which the sum reaches the target.
    """

    keys: Float
    caps: Float
    logs: Float | None  # none: rows beyond the border do not count
    target: float


def settled(communicator: Communicator, requests: Sequence[Request]) -> list[Any]:
    """The answers to some requests: one round, and if borders are needed, one for each factor of 50 in the rows."""
    if communicator.size == 1:
        return [request.alone() for request in requests]
    searches = [request.search() for request in requests]
    found = iter(borders(communicator, [search for search in searches if search is not None]))
    at = [math.inf if search is None else next(found) for search in searches]
    own = [request.summary(border) for request, border in zip(requests, at, strict=True)]
    stacked = communicator.allgather(np.concatenate(own))
    parts = np.split(stacked, np.cumsum([part.size for part in own])[:-1], axis=1)
    return [request.answer(part, border) for request, part, border in zip(requests, parts, at, strict=True)]


@dataclass(frozen=True)
class Least:
    """The smallest ``sum_i b_i t_i`` over ``0 <= b <= cap`` of sum ``total``, and the largest ``t_i`` that it uses."""

    t: Float
    cap: Float
    total: float
    hard: bool  # no cap is below the total

    def alone(self) -> tuple[float, float]:
        """By selection in time proportional to the number of rows."""
        value, border = least(self.t, self.cap, self.total)
        return float(value), float(border)

    def search(self) -> Search | None:
        """The row with which the total is reached."""
        return None if self.hard else Search(self.t, self.cap, None, self.total * (1.0 - ROUNDING))

    def summary(self, border: float) -> Float:
        """The smallest ``t``; or caps below the border, and their moment."""
        if self.hard:
            return np.array([self.t.min(initial=math.inf)])
        below = self.t < border
        return np.array([self.cap[below].sum(), self.cap[below] @ self.t[below]])

    def answer(self, summaries: Float, border: float) -> tuple[float, float]:
        """Value and border."""
        if self.hard:
            first = float(summaries.min())
            return self.total * first, first
        weight, moment = summaries.sum(axis=0).tolist()
        return moment + (self.total - weight) * border, border


@dataclass(frozen=True)
class Scale:
    """The ``shift`` for which ``sum_i min(cap_i, exp(logs_i + shift)) = 1``."""

    logs: Float
    log_caps: Float
    hard: bool  # every cap is 1

    def alone(self) -> float:
        """By selection, or by the sum."""
        if self.hard:
            return self.answer(self.summary(math.inf)[None], math.inf)
        return float(selected_shift(self.logs, self.log_caps))

    def search(self) -> Search | None:
        """The row that is the next to be cut."""
        keys = self.log_caps - self.logs
        return None if self.hard else Search(keys, np.exp(self.log_caps), self.logs, 1.0)

    def summary(self, border: float) -> Float:
        """The sum of the weights beside the largest; or caps below the border, and weights beyond at this shift."""
        if self.hard:
            top = float(self.logs.max(initial=-math.inf))
            return np.array([top, np.exp(self.logs - top).sum()])
        below = self.log_caps - self.logs < border
        rest = np.exp(np.minimum(self.logs[~below] + border, self.log_caps[~below])).sum()
        return np.array([np.exp(self.log_caps[below]).sum(), rest])

    def answer(self, summaries: Float, border: float) -> float:
        """The shift; infinite if all caps are needed."""
        if self.hard:
            top = float(summaries[:, 0].max())
            return -(top + math.log(float(summaries[:, 1] @ np.exp(summaries[:, 0] - top))))
        capped, free = summaries.sum(axis=0).tolist()
        return border + math.log((1.0 - capped) / free) if free > 0.0 and capped < 1.0 else border


@dataclass(frozen=True)
class SoftLeast:
    """The smallest ``sum_i b_i (t_i + gamma log b_i)`` over ``0 <= b <= cap`` of sum 1."""

    t: Float
    log_caps: Float
    gamma: float
    hard: bool

    @property
    def scale(self) -> Scale:
        """Of the best ``b``."""
        return Scale(-self.t / self.gamma, self.log_caps, self.hard)

    def alone(self) -> float:
        """From the shift of the best ``b``, below which rows are cut."""
        scale = self.scale
        shift = scale.alone()
        return self.gamma * shift if self.hard else self._value(*self._cut(scale, shift), shift)

    def search(self) -> Search | None:
        """That of the scale."""
        return self.scale.search()

    def summary(self, border: float) -> Float:
        """What the scale needs, and the value of the rows that are cut."""
        scale = self.scale
        sums = scale.summary(border)
        return sums if self.hard else np.append(sums, self._cut(scale, border)[1])

    def answer(self, summaries: Float, border: float) -> float:
        """The value."""
        shift = self.scale.answer(summaries[:, :2], border)
        if self.hard:
            return self.gamma * shift
        return self._value(float(summaries[:, 0].sum()), float(summaries[:, 2].sum()), shift)

    def _cut(self, scale: Scale, border: float) -> tuple[float, float]:
        """Caps of the rows that are cut, and their part of the value."""
        below = self.log_caps - scale.logs < border
        caps = np.exp(self.log_caps[below])
        return float(caps.sum()), float(caps @ (self.t[below] + self.gamma * self.log_caps[below]))

    def _value(self, capped: float, cut: float, shift: float) -> float:
        return cut + (1.0 - capped) * self.gamma * shift if math.isfinite(shift) else cut


@dataclass(frozen=True)
class Sums:
    """Sums of some numbers over all clients."""

    values: Float

    def alone(self) -> Float:
        """The numbers."""
        return self.values

    def search(self) -> None:
        """There is no border."""

    def summary(self, border: float) -> Float:
        """The numbers."""
        return self.values

    def answer(self, summaries: Float, border: float) -> Float:
        """Their sums."""
        return summaries.sum(axis=0)


def borders(communicator: Communicator, searches: Sequence[Search]) -> list[float]:
    """The border of each search; infinite where the target is not reached. As many rounds as the hardest one needs."""
    brackets = [_Bracket(search) for search in searches]
    while unknown := [bracket for bracket in brackets if not bracket.closed]:
        messages = communicator.allgather(np.stack([bracket.message() for bracket in unknown]))
        for k, bracket in enumerate(unknown):
            bracket.narrow(messages[:, k])
    return [bracket.high for bracket in brackets]


class _Bracket:
    """The border is above `low` and at most `high`; the keys of this client between them are candidates."""

    def __init__(self, search: Search) -> None:
        self.target = search.target
        self.weighted = search.logs is not None
        self.keys, self.caps = search.keys, search.caps
        self.logs = self.keys[:0] if search.logs is None else search.logs
        self.high = math.inf
        self.capped = 0.0  # caps of the rows at or below the bracket
        self.free = 0.0  # weights, at the shift `high`, of the rows there or beyond
        self.closed = False

    def message(self) -> Float:
        """Names; caps below the first and up to each; weights from each on, and from `high` on; and the sum
        at each of them.

        The two numbers before the names are how many there are, and whether all candidates are named.
        """
        complete = self.keys.size <= NAMES
        some = self.keys if complete else self.keys[:: self.keys.size // SAMPLE + 1]
        names = np.unique(some)
        if names.size > NAMES:
            names = names[np.linspace(0, names.size - 1, NAMES).astype(int)]
        count = names.size
        caps, equal, weights = _sums_between(names, self.keys, self.caps, self.logs)
        below = self.capped + np.cumsum(caps)
        beyond = np.append(weights, self.free)
        steps = np.exp(-np.diff(np.append(names, self.high)))
        for j in range(count - 1, -1, -1):
            beyond[j] += beyond[j + 1] * steps[j]
        out = np.zeros((4, NAMES + 2))
        out[0, :2], out[0, 2 : count + 2] = (count, complete), names
        out[1, 0], out[1, 1 : count + 1] = self.capped, below[:-1] + equal
        out[2, : count + 1] = beyond
        out[3, : count + 1] = below + (beyond if self.weighted else np.append(equal, 0.0))
        return out

    def narrow(self, messages: Float) -> None:
        """Move both ends to names of which everybody knows on which side of the border they are."""
        counts = messages[:, 0, 0].astype(int).tolist()
        self.closed = bool(messages[:, 0, 1].all())
        named = [message[0, 2 : count + 2] for message, count in zip(messages, counts, strict=True)]
        trials = np.unique(np.concatenate(named))
        least, most = np.zeros(trials.size), np.zeros(trials.size)
        for message, names in zip(messages, named, strict=True):
            ends = np.append(names, self.high)
            after = np.searchsorted(ends, trials, side="right")  # the first end beyond, of which one always is
            known = message[1, after] + message[2, after] * np.exp(trials - ends[after])
            if message[0, 1]:
                least, most = least + known, most + known
            else:
                sums = np.append(0.0, message[3, : ends.size])
                least += np.maximum(known, sums[after])
                most += sums[np.searchsorted(ends, trials) + 1]
        reached = np.flatnonzero(least >= self.target)
        stop = int(reached[0]) if reached.size else trials.size
        missed = np.flatnonzero(most[:stop] < self.target)
        self._cut(
            float(trials[missed[-1]]) if missed.size else -math.inf,
            float(trials[stop]) if stop < trials.size else self.high,
        )

    def _cut(self, low: float, high: float) -> None:
        """Decide the rows that are not between the ends."""
        before, beyond = self.keys <= low, self.keys >= high
        self.capped += float(self.caps[before].sum())
        if self.weighted:
            self.free = self.free * math.exp(high - self.high) if self.free > 0.0 else 0.0
            self.free += float(np.exp(self.logs[beyond] + high).sum())
        stays = ~(before | beyond)
        self.keys, self.caps = self.keys[stays], self.caps[stays]
        self.logs = self.logs[stays] if self.weighted else self.logs
        self.high = high


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


@compiled
def _sums_between(names: Float, keys: Float, caps: Float, logs: Float) -> tuple[Float, Float, Float]:
    """Caps before, between and beyond the names; caps on each; weights from each to the next, at the shift there."""
    count = names.shape[0]
    between, equal, weights = np.zeros(count + 1), np.zeros(count), np.zeros(count)
    for i in range(keys.shape[0]):
        low, high = 0, count  # how many names are at most the key
        while low < high:
            middle = (low + high) // 2
            if names[middle] <= keys[i]:
                low = middle + 1
            else:
                high = middle
        between[low] += caps[i]
        if low > 0:
            if names[low - 1] == keys[i]:
                equal[low - 1] += caps[i]
            if logs.shape[0] > 0:
                weights[low - 1] += math.exp(logs[i] + names[low - 1])
    return between, equal, weights
