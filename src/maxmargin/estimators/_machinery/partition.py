"""Where the dual variable of each sample is: at zero, at its bound, or between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maxmargin.estimators._machinery.drawing import new_axes
from maxmargin.protocols import Float, Index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AT_THE_BOUND = 1.0 - 1e-9  # of the bound: balancing a sum moves variables by their last digits


class Partition(NamedTuple):
    """The three parts of the samples of one problem, as their numbers: ``I_0``, ``I_s`` and ``I_c`` of the textbooks.

    Samples in `zero` have no part in the function. Those in `free` lie on the margin, and those in `bound` on the
    wrong side of it. Every sample of the problem is in exactly one of them.
    """

    zero: Index
    free: Index
    bound: Index

    @classmethod
    def of(cls, members: Index, alpha: Float, reach: Float) -> Partition:
        """That of dual variables ``alpha`` with the bounds ``-reach`` and ``reach`` on their sizes."""
        size = np.abs(alpha)
        zero, bound = (size == 0.0), (size >= AT_THE_BOUND * reach) & (size > 0.0)
        return cls(members[zero], members[~zero & ~bound], members[bound])

    @property
    def order(self) -> Index:
        """All samples: free ones first, then those at their bound, then the others, as the blocks of the matrix."""
        return np.concatenate([self.free, self.bound, self.zero])

    def blocks(self, Q: Float) -> dict[str, Float]:
        """The blocks of a symmetric matrix with a row for each sample: ``ss, sc, cc, s0, c0, 00``."""
        parts = {"s": self.free, "c": self.bound, "0": self.zero}
        return {f"{a}{b}": Q[np.ix_(parts[a], parts[b])] for a, b in ("ss", "sc", "cc", "s0", "c0", "00")}

    def draw(self, Q: Float, axes: Axes | None = None) -> Axes:
        """The matrix in the order of its blocks, with lines between them; needs matplotlib. Returns the axes."""
        axes = new_axes() if axes is None else axes
        largest = float(np.abs(Q).max(initial=0.0)) or 1.0  # so that zero is white
        drawn = Q[np.ix_(self.order, self.order)]
        axes.imshow(drawn, cmap="RdBu_r", interpolation="none", vmin=-largest, vmax=largest)
        for edge in (self.free.size, self.free.size + self.bound.size):
            axes.axhline(edge - 0.5, color="black", linewidth=0.8)
            axes.axvline(edge - 0.5, color="black", linewidth=0.8)
        axes.set_title(f"free {self.free.size}, at the bound {self.bound.size}, zero {self.zero.size}")
        return axes
