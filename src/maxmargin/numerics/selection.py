"""What a class of rows that is spread over clients decides together: its nearest rows, the scale of its shares.

Each request is answered by a few sums, after its rows have been split at a border: below it rows count fully. Several
requests share their rounds. In every round all clients try the same places: each adds up its rows on both sides of
them and names the first and the last in between, a few numbers however many rows there are. The sums tell all clients
the same next places: that where the border would be if no row lay in between, as the paper's loop of projections has
it, and others on the way there. If no row lies in between, the answer is exact. A place that was right a step before
is a good first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.capped_simplex import excess, selected_shift
from maxmargin.protocols import Communicator, Float

ROUNDING = 1e-12  # of a sum of caps: less than this is not missing
MOST_ROUNDS = 1000  # of a search; a few are usual, and more would not end because something is not a number

LADDER = np.array([-4.0, -1.0, -0.25, 0.0, 0.25, 1.0, 4.0])  # places around a guess, in units of its last change
TRIES = 8  # places in a round

Answer = TypeVar("Answer", covariant=True)


class Guess(NamedTuple):
    """Where an answer may be: where it was, and how far it has moved before."""

    at: float = math.nan
    change: float = 0.0

    @property
    def known(self) -> bool:
        """Whether it is a number."""
        return math.isfinite(self.at)

    def then(self, at: float) -> Guess:
        """The next one."""
        return Guess(at, abs(at - self.at) if self.known else 0.0)


NO_GUESS = Guess()


class Inquiry(Protocol[Answer]):
    """What clients tell each other, round by round, until all know the answer."""

    @property
    def closed(self) -> bool:
        """Whether the answer is known."""

    def message(self) -> Float:
        """The numbers of this client."""

    def merged(self, messages: Float) -> Float:
        """What the messages of all clients, one in each row, amount to: as many numbers as one of them."""

    def hear(self, merged: Float) -> None:
        """Go on from that."""

    def answer(self) -> Answer:
        """What was asked for."""


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
            return _Smallest(self.t, self.total)
        return _Nearest(self, tries)


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
            return _Normaliser(self.logs)
        return _Shift(self.logs, self.log_caps, None, self.guess, tries)


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
        return _soft_value(float(caps.sum()), cut, self.gamma, shift), shift

    def inquiry(self, tries: int) -> Inquiry[tuple[float, float]]:
        """For the scale, with the values that are summed on the way."""
        logs = -self.t / self.gamma
        if self.hard:
            return _Soft(_Normaliser(logs), self.gamma)
        values = np.exp(self.log_caps) * (self.t + self.gamma * self.log_caps)
        return _Soft(_Shift(logs, self.log_caps, values, self.guess, tries), self.gamma)


def _soft_value(capped: float, cut: float, gamma: float, shift: float) -> float:
    return cut + (1.0 - capped) * gamma * shift if math.isfinite(shift) else cut


def normaliser(logs: Float) -> float:
    """``-log sum exp(logs)``."""
    top = float(logs.max())
    return -(top + math.log(float(np.exp(logs - top).sum())))


class _Smallest:
    """The smallest number of all."""

    def __init__(self, t: Float, total: float) -> None:
        self.total, self.first, self.closed = total, float(t.min(initial=math.inf)), False

    def message(self) -> Float:
        return np.array([self.first])

    def merged(self, messages: Float) -> Float:
        return messages.min(axis=0)

    def hear(self, merged: Float) -> None:
        self.first, self.closed = float(merged[0]), True

    def answer(self) -> tuple[float, float]:
        return self.total * self.first, self.first


class _Normaliser:
    """Minus the logarithm of the sum of all weights, which clients name beside their largest."""

    def __init__(self, logs: Float) -> None:
        self.top = float(logs.max(initial=-math.inf))
        self.weight = float(np.exp(logs - self.top).sum()) if logs.size else 0.0
        self.capped, self.value, self.closed = 0.0, 0.0, False

    def message(self) -> Float:
        return np.array([self.top, self.weight])

    def merged(self, messages: Float) -> Float:
        top = messages[:, 0].max()
        return np.array([top, messages[:, 1] @ np.exp(messages[:, 0] - top)])

    def hear(self, merged: Float) -> None:
        (self.top, self.weight), self.closed = merged.tolist(), True

    def answer(self) -> float:
        return -(self.top + math.log(self.weight))


class _Soft:
    """The value that belongs to a shift."""

    def __init__(self, scale: _Shift | _Normaliser, gamma: float) -> None:
        self.scale, self.gamma = scale, gamma
        self.message, self.merged, self.hear = scale.message, scale.merged, scale.hear

    @property
    def closed(self) -> bool:
        return self.scale.closed

    def answer(self) -> tuple[float, float]:
        shift = self.scale.answer()
        return _soft_value(self.scale.capped, self.scale.value, self.gamma, shift), shift


class _Search:
    """The border among the keys of all clients, of which this one keeps those of its rows that are undecided.

    The trials divide the keys into cells, the last of which has no trial behind it. A message has the sums up to each
    trial, the weights beyond it if there are any, and of each cell the largest key and minus the smallest. The border
    is in the first cell whose trial reaches it; the keys there lie between `first` and `last`, two of them.
    """

    def __init__(self, keys: Float, parts: Float, logs: Float | None, tries: int) -> None:
        self.keys, self.parts, self.tries = keys, parts, tries
        self.weighted, self.logs = logs is not None, np.empty(0) if logs is None else logs
        self.trials = np.array([-math.inf])
        self.below = np.zeros(len(parts))  # sums over the rows of this client that are decided to lie below the border
        self.beyond, self.high = 0.0, math.inf  # weights, at the shift `high`, of those beyond
        self.first, self.last = -math.inf, math.inf
        self.rounds, self.closed = 0, False

    def message(self) -> Float:
        sums, weights, highest, lowest = _add_up(self.keys, self.parts, self.logs, self.trials)
        self.sums = self.below[:, None] + np.cumsum(sums, axis=1)[:, :-1]
        if self.weighted:
            weights = np.append(weights[1:-1], weights[-1] + self._faded(self.trials[-1]))
            for j in range(self.trials.size - 2, -1, -1):
                weights[j] += weights[j + 1] * math.exp(self.trials[j] - self.trials[j + 1])
            self.sums = np.vstack([self.sums, weights])
        return np.concatenate([self.sums.ravel(), highest, -lowest])

    def _faded(self, x: float) -> float:
        return self.beyond * math.exp(x - self.high) if self.beyond > 0.0 else 0.0

    def merged(self, messages: Float) -> Float:
        size = self.sums.size
        return np.concatenate([messages[:, :size].sum(axis=0), messages[:, size:].max(axis=0)])

    def narrow(self, merged: Float, target: float) -> tuple[Float | None, Float | None]:
        """Decide all rows outside of the cell of the border. The sums at the trials before and behind it."""
        sums, count = merged[: self.sums.size].reshape(self.sums.shape), self.trials.size
        highest, lowest = merged[self.sums.size :].reshape(2, count + 1)
        enough = (sums[0] + sums[-1] if self.weighted else sums[0]) >= target
        cell = int(np.argmax(enough)) if enough.any() else count
        self.first, self.last = -float(lowest[cell]), float(highest[cell])
        stays = np.searchsorted(self.trials, self.keys) == cell
        before, behind = self.trials[cell - 1] if cell > 0 else -math.inf, None
        if cell > 0:
            self.below = self.sums[: len(self.parts), cell - 1].copy()
        if cell < count:
            behind = np.append(sums[:, cell], self.trials[cell])
            if self.weighted:
                self.beyond, self.high = float(self.sums[-1, cell]), float(self.trials[cell])
        self.keys, self.parts = self.keys[stays], self.parts[:, stays]
        self.logs = self.logs[stays] if self.weighted else self.logs
        self.rounds += 1
        return np.append(sums[:, cell - 1], before) if cell > 0 else None, behind

    def go_on_at(self, trial: float) -> None:
        """Try a place next, and others evenly; a single one is halfway in every third round, so that there are few."""
        width = self.last - self.first
        if not math.isfinite(trial) or (self.tries == 1 and self.rounds % 3 == 0):
            trial = self.first + 0.5 * width
        evenly = self.first + width * np.arange(self.tries - 1) / max(1, self.tries - 1)
        self.trials = np.unique(np.append(evenly, trial))

    def start_at(self, guess: Guess) -> None:
        """Try a guess first, and places around it."""
        around = LADDER * guess.change if self.tries > 1 and 0.0 < guess.change < math.inf else np.zeros(1)
        self.trials = np.unique(guess.at + around)


class _Nearest(_Search):
    """The smallest key at which the caps reach a target; between two places their sum is taken to grow evenly."""

    def __init__(self, request: Least, tries: int) -> None:
        t, cap = request.t, request.cap
        super().__init__(t, np.stack([cap, cap * t]), None, tries)
        self.total, self.target = request.total, request.total * (1.0 - ROUNDING)
        self.short, self.moment, self.enough = 0.0, 0.0, math.inf  # caps and moment below `first`, caps up to `last`
        if request.guess.known:
            self.start_at(request.guess)

    def hear(self, merged: Float) -> None:
        before, behind = self.narrow(merged, self.target)
        if before is not None:
            self.short, self.moment = before[:2].tolist()
        if behind is not None:
            self.enough = float(behind[0])
        self.closed = not self.first < self.last or self.rounds >= MOST_ROUNDS
        width, missing = self.last - self.first, self.target - self.short
        self.go_on_at(
            self.first + (width * missing / (self.enough - self.short) if self.enough < math.inf else math.inf)
        )
        inside = self.trials[self.trials < self.last]  # about which all is known
        self.trials = inside if inside.size else np.array([self.first])

    def answer(self) -> tuple[float, float]:
        return self.moment + (self.total - self.short) * self.last, self.last


class _Shift(_Search):
    """The shift at which the rows cut at their caps and the weights of the others have the sum 1.

    A row is cut from the shift ``log_cap - log`` on, its key. As long as no key is passed, the others are scaled by one
    factor: this is the step of the paper's loop, and of Newton's method for a concave function. Without a guess the
    first trial is the shift at which the weights alone have the sum 1.
    """

    def __init__(self, logs: Float, log_caps: Float, values: Float | None, guess: Guess, tries: int) -> None:
        caps = np.exp(log_caps)
        super().__init__(log_caps - logs, np.stack([caps] if values is None else [caps, values]), logs, tries)
        self.opening = None if guess.known else _Normaliser(logs)
        if guess.known:
            self.start_at(guess)
        self.capped, self.value, self.shift = 0.0, 0.0, math.nan

    def message(self) -> Float:
        return super().message() if self.opening is None else self.opening.message()

    def merged(self, messages: Float) -> Float:
        return super().merged(messages) if self.opening is None else self.opening.merged(messages)

    def hear(self, merged: Float) -> None:
        if self.opening is not None:
            self.opening.hear(merged)
            self.trials, self.opening = np.array([self.opening.answer()]), None
            return
        before, behind = self.narrow(merged, 1.0)
        shift = -math.inf
        for sums, from_below in ((before, True), (behind, False)):
            if sums is not None:
                capped, value, free, x = sums[0], sums[len(self.parts) - 1], sums[-2], sums[-1]
                step = math.log((1.0 - capped) / free) if capped < 1.0 and free > 0.0 else math.inf
                shift = x + step if capped < 1.0 else -math.inf
                self.capped, self.value, self.shift = float(capped), float(value), float(shift)
                if self.shift <= self.first if from_below else self.shift >= self.last:
                    self.closed = True
                    return
        if self.first < self.last and self.rounds < MOST_ROUNDS:
            self.go_on_at(self.shift if self.first < self.shift < self.last else math.inf)
        elif before is None and self.rounds < MOST_ROUNDS:  # what the only key counts for below it is not known yet
            self.trials = np.array([math.nextafter(self.last, -math.inf)])
        else:  # rounding: the border is that key
            self.shift, self.closed = self.last, True

    def answer(self) -> float:
        return self.shift


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
def _add_up(keys: Float, parts: Float, logs: Float, trials: Float) -> tuple[Float, Float, Float, Float]:
    """Of the keys up to the first trial, from each to the next, and beyond: sums, weights at the trial before, ends."""
    count = trials.shape[0]
    sums, weights = np.zeros((parts.shape[0], count + 1)), np.zeros(count + 1)
    highest, lowest = np.full(count + 1, -np.inf), np.full(count + 1, np.inf)
    for i in range(keys.shape[0]):
        low, high = 0, count  # how many trials are below the key
        while low < high:
            middle = (low + high) // 2
            if trials[middle] < keys[i]:
                low = middle + 1
            else:
                high = middle
        for part in range(parts.shape[0]):
            sums[part, low] += parts[part, i]
        if logs.shape[0] > 0 and low > 0:
            weights[low] += math.exp(logs[i] + trials[low - 1])
        highest[low] = max(highest[low], keys[i])
        lowest[low] = min(lowest[low], keys[i])
    return sums, weights, highest, lowest
