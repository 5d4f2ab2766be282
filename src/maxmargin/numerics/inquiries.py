"""What clients tell each other, round by round, about rows of one class, until all know where a border is.

The border splits the rows: below it they count fully. In every round all clients try the same places: each adds up its
rows on both sides of them and names the first and the last in between, a few numbers however many rows there are. The
sums tell all clients the same next places: that where the border would be if no row lay in between, as the paper's loop
of projections has it, and others on the way there. If no row lies in between, the answer is exact. A place that was
right a step before is a good first one.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Float

ROUNDING = 1e-12  # of a sum of caps: less than this is not missing
MOST_ROUNDS = 1000  # of a search; a few are usual, and more would not end because something is not a number

LADDER = np.array([-4.0, -1.0, -0.25, 0.0, 0.25, 1.0, 4.0])  # places around a guess, in units of its last change

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


def soft_value(capped: float, cut: float, gamma: float, shift: float) -> float:
    """The regularised value from what is cut at the caps, and the rest at the shift."""
    return cut + (1.0 - capped) * gamma * shift if math.isfinite(shift) else cut


class Smallest:
    """The smallest number of all."""

    def __init__(self, t: Float, total: float) -> None:
        self.total, self.first, self.closed = total, float(t.min(initial=math.inf)), False

    def message(self) -> Float:
        """The smallest number here."""
        return np.array([self.first])

    def merged(self, messages: Float) -> Float:
        """The smallest of all."""
        return messages.min(axis=0)

    def hear(self, merged: Float) -> None:
        """That is all."""
        self.first, self.closed = float(merged[0]), True

    def answer(self) -> tuple[float, float]:
        """What the total costs there, and the border."""
        return self.total * self.first, self.first


class Normaliser:
    """Minus the logarithm of the sum of all weights, which clients name beside their largest."""

    def __init__(self, logs: Float) -> None:
        self.top = float(logs.max(initial=-math.inf))
        self.weight = float(np.exp(logs - self.top).sum()) if logs.size else 0.0
        self.capped, self.value, self.closed = 0.0, 0.0, False

    def message(self) -> Float:
        """The largest logarithm, and the sum of the weights beside it."""
        return np.array([self.top, self.weight])

    def merged(self, messages: Float) -> Float:
        """The same of all clients."""
        top = messages[:, 0].max()
        return np.array([top, messages[:, 1] @ np.exp(messages[:, 0] - top)])

    def hear(self, merged: Float) -> None:
        """That is all."""
        (self.top, self.weight), self.closed = merged.tolist(), True

    def answer(self) -> float:
        """The shift."""
        return -(self.top + math.log(self.weight))


class Soft:
    """The value that belongs to a shift."""

    def __init__(self, scale: Shift | Normaliser, gamma: float) -> None:
        self.scale, self.gamma = scale, gamma
        self.message, self.merged, self.hear = scale.message, scale.merged, scale.hear

    @property
    def closed(self) -> bool:
        """Whether the shift is known."""
        return self.scale.closed

    def answer(self) -> tuple[float, float]:
        """The value, and the shift."""
        shift = self.scale.answer()
        return soft_value(self.scale.capped, self.scale.value, self.gamma, shift), shift


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
        """Sums over the clients, and the outermost of their keys."""
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


class Nearest(_Search):
    """The smallest key at which the caps reach a target; between two places their sum is taken to grow evenly."""

    def __init__(self, t: Float, cap: Float, total: float, guess: Guess, tries: int) -> None:
        super().__init__(t, np.stack([cap, cap * t]), None, tries)
        self.total, self.target = total, total * (1.0 - ROUNDING)
        self.short, self.moment, self.enough = 0.0, 0.0, math.inf  # caps and moment below `first`, caps up to `last`
        if guess.known:
            self.start_at(guess)

    def hear(self, merged: Float) -> None:
        """Choose the cell of the border, and what to try there."""
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
        """The value, and the border."""
        return self.moment + (self.total - self.short) * self.last, self.last


class Shift(_Search):
    """The shift at which the rows cut at their caps and the weights of the others have the sum 1.

    A row is cut from the shift ``log_cap - log`` on, its key. As long as no key is passed, the others are scaled by one
    factor: this is the step of the paper's loop, and of Newton's method for a concave function. Without a guess the
    first trial is the shift at which the weights alone have the sum 1.
    """

    def __init__(self, logs: Float, log_caps: Float, values: Float | None, guess: Guess, tries: int) -> None:
        caps = np.exp(log_caps)
        super().__init__(log_caps - logs, np.stack([caps] if values is None else [caps, values]), logs, tries)
        self.opening = None if guess.known else Normaliser(logs)
        if guess.known:
            self.start_at(guess)
        self.capped, self.value, self.shift = 0.0, 0.0, math.nan

    def message(self) -> Float:
        """Of the opening, or of the search."""
        return super().message() if self.opening is None else self.opening.message()

    def merged(self, messages: Float) -> Float:
        """Of the opening, or of the search."""
        return super().merged(messages) if self.opening is None else self.opening.merged(messages)

    def hear(self, merged: Float) -> None:
        """See whether the shift from either end of its cell meets no key."""
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
        """The shift."""
        return self.shift


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
