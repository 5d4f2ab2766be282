"""Products with a Gaussian kernel matrix whose rounding is bounded by the values themselves.

The usual bound takes every kernel value for 1. Where it alone stands between a gap and its tolerance, and twice the
digits would take too long, the sizes ``|K| |w|`` are computed too, in float32: most values are far below 1, and errors
are relative to them.
"""

from __future__ import annotations

import numpy as np

from maxmargin.numerics.rounding import roundings
from maxmargin.operators.differences import Measuring
from maxmargin.operators.gram import NO_SINGLE_VALUE, SECOND_ORDER, Gram, KernelGram, is_moderate
from maxmargin.operators.wrapped import WrappedGram, evaluated
from maxmargin.parts.kernels import RBF
from maxmargin.protocols import Float


class MeasuredGram(WrappedGram):
    """The same matrix with a closer bound on the rounding of its products, which takes a product in float32."""

    @staticmethod
    def can(gram: Gram) -> bool:
        """Whether the values are those of a Gaussian kernel that float32 can hold, and none is measured twice."""
        own = evaluated(gram)
        if not (isinstance(own, KernelGram) and isinstance(own.kernel, RBF) and own.fits_single):
            return False
        largest = float(own.doubles.sq.max(initial=0.0))
        return not Measuring.of(own.kernel, own.doubles).cancels(largest, largest)

    def within(self, w: Float) -> Float:
        """As the matrix itself."""
        return self.gram.within(w)

    def rounding(self, w: Float) -> Float:
        """A bound on the error of each entry of ``apply(w)``.

        A squared distance is wrong by a part for each of its two points, in proportion to their squared lengths.
        """
        gram, size = self.gram, np.abs(w)
        assert isinstance(gram, KernelGram)
        if not is_moderate(w) or not is_moderate(size * gram.doubles.sq):
            return gram.rounding(w)
        sq, singles = gram.doubles.sq, gram.singles
        sums, longer = gram.tiles.sums(singles, np.stack([size, size * sq]), singles)
        single = Measuring.of(gram.kernel, singles)
        largest = float(singles.sq.max(initial=0.0))
        relative = single.as_sums(singles.sq.astype(np.float64), largest, singles.rows_per_tile)
        nothing = NO_SINGLE_VALUE * float(size.sum())
        sums, longer = (1.0 + relative) * sums + nothing, (1.0 + relative) * longer + nothing * (1.0 + largest)
        measuring = Measuring.of(gram.kernel, gram.doubles)
        own = roundings(gram.kernel.roundings(sq, 0.0, 0.0) + gram.depth(w))
        own = own + measuring.cancelled(sq, 0.0)
        each = measuring.cancelled(np.ones(1), 0.0)[0]  # for a squared length of 1, and more than for one of 0
        bound = SECOND_ORDER * (own * sums + each * longer) + 1e-300 * (1.0 + size.sum())
        return np.where(np.isnan(bound), np.inf, bound)
