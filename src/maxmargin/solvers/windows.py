"""Sums over parts of the path of a stochastic method: of its coefficients, and of the slopes that the samples had."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from mmap import mmap

import numpy as np

from maxmargin._jit import compiled
from maxmargin.protocols import Array, Float

LARGE = 100_000  # samples from which on the memory of a window is asked of the system
GAIN, VISITS = range(2)  # columns of what a window has seen: side by side, since a random visit waits for memory


@dataclass
class Window:
    """Sums over a part of a path, which lasts from one power of two to the next."""

    total: Float  # of the coefficients
    b_total: float  # of the coefficient of the intercept's column
    count: float  # of the points in both
    seen: Array  # sum of -slope and number of visits of each sample, in float32: a pass is bound by memory

    @classmethod
    def empty(cls, d: int, n: int) -> Window:
        """A part that has not begun, for so many coefficients and samples."""
        return cls(np.zeros(d), 0.0, 0.0, unseen(n))

    def next(self) -> Window:
        """The empty part that follows."""
        return Window.empty(self.total.size, self.seen.shape[0])

    def among_others(self, n: int) -> Window:
        """A copy with the same coefficients, for so many other samples."""
        return replace(self, total=self.total.copy(), seen=unseen(n))

    def with_coefficients_of(self, other: Window) -> Window:
        """Both parts as one, as far as coefficients are concerned."""
        sums = self.total + other.total, self.b_total + other.b_total, self.count + other.count
        return Window(*sums, self.seen)

    def mean(self) -> tuple[Float, float]:
        """The average of the coefficients, and of that of the intercept's column."""
        return self.total / self.count, self.b_total / self.count


def unseen(n: int) -> Array:
    """What a window has seen before it begins: pages that cost nothing until a sample of theirs is visited."""
    if n < LARGE:
        return np.zeros((n, 2), dtype=np.float32)
    return np.frombuffer(mmap(-1, 8 * n), dtype=np.float32).reshape(n, 2)  # `np.zeros` may take, and wipe, old memory


@compiled
def mean_slopes(s: Float, recent: Array, earlier: Array, others: Float) -> Float:
    """``-s_i slope`` in the mean over what two windows saw of each sample.

    For samples that were never visited it is ``others_i``, and where float32 has overflown: targets may be huge.
    """
    out = others.copy()
    for i in range(recent.shape[0]):
        visits = recent[i, VISITS] + earlier[i, VISITS]
        gain = np.float64(recent[i, GAIN]) + earlier[i, GAIN]
        if visits > 0.0 and abs(gain) < math.inf:
            out[i] = s[i] * gain / visits
    return out
