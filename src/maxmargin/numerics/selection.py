"""What a class of rows that is spread over clients decides together: its nearest rows, the scale of its shares.

Each request is answered by a few sums, after its rows have been split at a border: below it rows count fully. Several
requests share their rounds. The border is found by selection: every client names some of its keys with its sums up to
each. Between two names nothing is known but that the sums grow, which tells all clients the same narrower bracket. Once
everybody can name all of its keys within the bracket, the border is one of them. So that all rows are looked at only
once, a round with samples comes first, and the names are chosen near to the border that it suggests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.capped_simplex import selected_shift
from maxmargin.protocols import Communicator, Float, Index

NAMES = 128  # keys that a client names per request and round
SAMPLE = 16 * NAMES  # keys among which it chooses; if it has more, it makes a guess first
ROUNDING = 1e-12  # of a sum of caps: less than this is not missing
MOST_ROUNDS = 1000  # of a search; a few dozen are many, and more would not end because something is not a number


Answer = TypeVar("Answer", covariant=True)


class Request(Protocol[Answer]):
    """A question about the rows of one class, of which each client knows its own."""

    def alone(self) -> Answer:
        """The answer of a single client."""

    def search(self) -> Search | None:
        """How the border is found, if one is needed."""

    def summary(self, sums: Sums) -> Float:
        """The numbers of this client: from its sums, if there is a border."""

    def answer(self, summaries: Float, border: float) -> Answer:
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
    values: Float | None = None  # whose sum below the border is wanted too


class Sums(NamedTuple):
    """Of a client: caps below the border, weights on it and beyond at the shift there, and values below."""

    capped: float = 0.0
    free: float = 0.0
    value: float = 0.0


def settled(communicator: Communicator, requests: Sequence[Request[Answer]]) -> list[Answer]:
    """The answers to some requests: one round, and if borders are needed, one to five more for up to a million rows."""
    if communicator.size == 1:
        return [request.alone() for request in requests]
    searches = [request.search() for request in requests]
    searched = iter(borders(communicator, [search for search in searches if search is not None]))
    found = [(math.inf, Sums()) if search is None else next(searched) for search in searches]
    own = [request.summary(sums) for request, (_, sums) in zip(requests, found, strict=True)]
    stacked = communicator.allgather(np.concatenate(own))
    parts = np.split(stacked, np.cumsum([part.size for part in own])[:-1], axis=1)
    return [request.answer(part, border) for request, part, (border, _) in zip(requests, parts, found, strict=True)]


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
        return None if self.hard else Search(self.t, self.cap, None, self.total * (1.0 - ROUNDING), self.cap * self.t)

    def summary(self, sums: Sums) -> Float:
        """The smallest ``t``; or caps below the border, and their moment."""
        return np.array([self.t.min(initial=math.inf)] if self.hard else [sums.capped, sums.value])

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
            return self.answer(self.summary(Sums())[None], math.inf)
        return float(selected_shift(self.logs, self.log_caps))

    def search(self) -> Search | None:
        """The row that is the next to be cut."""
        keys = self.log_caps - self.logs
        return None if self.hard else Search(keys, np.exp(self.log_caps), self.logs, 1.0)

    def summary(self, sums: Sums) -> Float:
        """The sum of the weights beside the largest; or caps below the border, and weights beyond at this shift."""
        if not self.hard:
            return np.array([sums.capped, sums.free])
        top = float(self.logs.max(initial=-math.inf))
        return np.array([top, np.exp(self.logs - top).sum()])

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
        """The search for the scale that belongs to the best ``b``."""
        return Scale(-self.t / self.gamma, self.log_caps, self.hard)

    def alone(self) -> float:
        """From the shift of the best ``b``, below which rows are cut."""
        scale = self.scale
        shift = scale.alone()
        if self.hard:
            return self.gamma * shift
        below = self.log_caps - scale.logs < shift
        caps = np.exp(self.log_caps[below])
        cut = float(caps @ (self.t[below] + self.gamma * self.log_caps[below]))
        return self._value(float(caps.sum()), cut, shift)

    def search(self) -> Search | None:
        """The search for the scale, with the values that are summed on the way."""
        search = self.scale.search()
        return search and replace(search, values=search.caps * (self.t + self.gamma * self.log_caps))

    def summary(self, sums: Sums) -> Float:
        """What the scale needs, and the value of the rows that are cut."""
        return self.scale.summary(sums) if self.hard else np.array(sums)

    def answer(self, summaries: Float, border: float) -> float:
        """The value."""
        shift = self.scale.answer(summaries[:, :2], border)
        if self.hard:
            return self.gamma * shift
        return self._value(float(summaries[:, 0].sum()), float(summaries[:, 2].sum()), shift)

    def _value(self, capped: float, cut: float, shift: float) -> float:
        return cut + (1.0 - capped) * self.gamma * shift if math.isfinite(shift) else cut


def borders(communicator: Communicator, searches: Sequence[Search]) -> list[tuple[float, Sums]]:
    """The border of each search, infinite where the target is not reached, and the sums of this client.

    As many rounds as the hardest one needs.
    """
    brackets = [_Bracket(search) for search in searches]
    for _ in range(MOST_ROUNDS):
        unknown = [bracket for bracket in brackets if not bracket.closed]
        if not unknown:
            break
        messages = communicator.allgather(np.stack([bracket.message() for bracket in unknown]))
        for k, bracket in enumerate(unknown):
            bracket.narrow(messages[:, k])
    return [(bracket.high, Sums(bracket.capped, bracket.free, bracket.value)) for bracket in brackets]


class _Bracket:
    """The border is above `low` and at most `high`; the keys of this client between them are candidates."""

    def __init__(self, search: Search) -> None:
        self.target = search.target
        self.weighted = search.logs is not None
        nothing = np.empty(0)
        logs, values = (nothing if part is None else part for part in (search.logs, search.values))
        self.rows = _Candidates(search.keys, search.caps, logs, values)
        self.high = math.inf
        self.capped, self.value = 0.0, 0.0  # sums over the rows at or below the bracket
        self.free = 0.0  # weights, at the shift `high`, of the rows there or beyond
        self.guess: float | None = None
        self.sums: _SumsBetween | None = None
        self.closed = False

    def message(self) -> Float:
        """Names; caps below the first and up to each; weights from each on, and from `high` on; the sum at each.

        The two numbers before the names are how many there are, and what they are: all candidates (1), some of them
        (0), or a sample with sums that are estimates (-1).
        """
        size = self.rows.keys.size
        step = size // SAMPLE + 1
        kind = 1 if size <= NAMES else -1 if step > 1 and self.guess is None else 0
        rows = self.rows.some(slice(None, None, step)) if kind < 0 else self.rows
        names = np.unique(self.rows.keys[::step] if kind == 0 else rows.keys)
        names = self._chosen(names)
        sums = _sums_between(names, *rows)
        scale = float(step) if kind < 0 else 1.0
        self.sums = sums if kind == 0 else None
        count = names.size
        below = self.capped + scale * np.cumsum(sums.caps)
        equal = scale * sums.equal
        beyond = np.append(scale * sums.weights, self.free)
        steps = np.exp(-np.diff(np.append(names, self.high)))
        for j in range(count - 1, -1, -1):
            beyond[j] += beyond[j + 1] * steps[j]
        out = np.zeros((4, NAMES + 2))
        out[0, :2], out[0, 2 : count + 2] = (count, kind), names
        out[1, 0], out[1, 1 : count + 1] = self.capped, below[:-1] + equal
        out[2, : count + 1] = beyond
        out[3, : count + 1] = below + (beyond if self.weighted else np.append(equal, 0.0))
        return out

    def _chosen(self, names: Float) -> Float:
        """Those nearest to the guess, or from everywhere."""
        if names.size <= NAMES:
            return names
        if self.guess is None:
            return names[np.linspace(0, names.size - 1, NAMES).astype(int)]
        first = min(max(int(np.searchsorted(names, self.guess)) - NAMES // 2, 0), names.size - NAMES)
        return names[first : first + NAMES]

    def narrow(self, messages: Float) -> None:
        """Move both ends to names of which everybody knows on which side of the border they are."""
        named = [message[0, 2 : int(message[0, 0]) + 2] for message in messages]
        trials = np.unique(np.concatenate(named))
        least, most = np.zeros(trials.size), np.zeros(trials.size)
        for message, names in zip(messages, named, strict=True):
            ends = np.append(names, self.high)
            after = np.searchsorted(ends, trials, side="right")  # the first end beyond, of which one always is
            known = message[1, after] + message[2, after] * np.exp(trials - ends[after])
            if message[0, 1] > 0.0:
                least, most = least + known, most + known
            else:
                sums = np.append(0.0, message[3, : ends.size])
                least += np.maximum(known, sums[after])
                most += sums[np.searchsorted(ends, trials) + 1]
        if messages[:, 0, 1].min() < 0.0:
            self.guess = float(trials[min(int(np.searchsorted(0.5 * (least + most), self.target)), trials.size - 1)])
            return
        reached = np.flatnonzero(least >= self.target)
        stop = int(reached[0]) if reached.size else trials.size
        missed = np.flatnonzero(most[:stop] < self.target)
        self._cut(
            float(trials[missed[-1]]) if missed.size else -math.inf,
            float(trials[stop]) if stop < trials.size else self.high,
        )
        self.closed = bool(messages[:, 0, 1].all())
        self.guess = None

    def _cut(self, low: float, high: float) -> None:
        """Decide the rows that are not between the ends; those beyond the names at once, if the ends are within."""
        sums = self.sums
        if sums is not None and sums.first <= low and high <= sums.last:
            self.capped += float(sums.caps[0])
            self.value += sums.value
            self._lower(sums.last, float(sums.weights[-1]))
            self.rows = self.rows.some(sums.inside)
        before, beyond = self.rows.keys <= low, self.rows.keys >= high
        self.capped += float(self.rows.caps[before].sum())
        if self.rows.values.size:
            self.value += float(self.rows.values[before].sum())
        self._lower(high, float(np.exp(self.rows.logs[beyond] + high).sum()) if self.rows.logs.size else 0.0)
        self.rows = self.rows.some(np.flatnonzero(~(before | beyond)))

    def _lower(self, high: float, weights: float) -> None:
        """Move the upper end to `high`; rows between have these weights there."""
        self.free = weights + (self.free * math.exp(high - self.high) if self.free > 0.0 else 0.0)
        self.high = high


class _Candidates(NamedTuple):
    """Rows that may be the border. Logarithms and values are empty if there are none."""

    keys: Float
    caps: Float
    logs: Float
    values: Float

    def some(self, rows: slice | Index) -> _Candidates:
        return _Candidates(*(part[rows] if part.size else part for part in self))


class _SumsBetween(NamedTuple):
    """Sums between names, and the rows from the first name to the last."""

    caps: Float  # before the first, from each to the next, and beyond
    equal: Float  # caps on each name
    weights: Float  # from each to the next, at the shift there
    value: float  # before the first
    inside: Index
    first: float
    last: float


def _sums_between(names: Float, keys: Float, caps: Float, logs: Float, values: Float) -> _SumsBetween:
    if not names.size:
        return _SumsBetween(
            np.zeros(1), np.zeros(0), np.zeros(0), 0.0, np.zeros(0, dtype=np.int64), math.inf, -math.inf
        )
    return _SumsBetween(*_add_between(names, keys, caps, logs, values), float(names[0]), float(names[-1]))


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
def _add_between(
    names: Float, keys: Float, caps: Float, logs: Float, values: Float
) -> tuple[Float, Float, Float, float, Index]:
    """The sums between names: one pass, in which rows before the first and beyond the last cost little."""
    count = names.shape[0]
    first, last = names[0], names[count - 1]
    between, equal, weights = np.zeros(count + 1), np.zeros(count), np.zeros(count)
    inside = np.empty(keys.shape[0], dtype=np.int64)
    size, before, value, beyond, rest = 0, 0.0, 0.0, 0.0, 0.0
    for i in range(keys.shape[0]):
        if keys[i] < first:
            before += caps[i]
            if values.shape[0] > 0:
                value += values[i]
        elif keys[i] >= last:
            beyond += caps[i]
            if keys[i] == last:
                equal[count - 1] += caps[i]
            if logs.shape[0] > 0:
                rest += math.exp(logs[i] + last)
        else:
            inside[size] = i
            size += 1
    between[0], between[count], weights[count - 1] = before, beyond, rest
    for k in range(size):
        i = inside[k]
        low, high = 1, count - 1  # how many names are at most the key
        while low < high:
            middle = (low + high) // 2
            if names[middle] <= keys[i]:
                low = middle + 1
            else:
                high = middle
        between[low] += caps[i]
        if names[low - 1] == keys[i]:
            equal[low - 1] += caps[i]
        if logs.shape[0] > 0:
            weights[low - 1] += math.exp(logs[i] + names[low - 1])
    return between, equal, weights, value, inside[:size].copy()
