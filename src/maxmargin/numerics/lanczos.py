"""The ends of the spectrum of a matrix that is only known by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from maxmargin.protocols import Float

MOST_STEPS = 60
ACCURACY = 1e-8  # of the largest eigenvalue
VANISHING = 1e-12  # of it: what is left of a direction is rounding


class Spectrum(NamedTuple):
    """The smallest and the largest eigenvalue that were seen, and how far away from the latter one is for certain."""

    least: float
    largest: float
    error: float
    products: int

    @property
    def bound(self) -> float:
        """The largest eigenvalue, with its error added."""
        return self.largest + self.error


def ends_of_spectrum(apply: Callable[[Float], Float], start: Float, most_steps: int = MOST_STEPS) -> Spectrum:
    """The ends of the spectrum of a symmetric matrix without negative eigenvalues, by Lanczos' method.

    Only eigenvectors of which ``start`` has a part are seen, so that a random vector sees all, and one of the range of
    a singular matrix no eigenvalue of zero. The true largest eigenvalue is not below ``largest``, nor is the true
    smallest one of the range above ``least``; some eigenvalue is within ``error`` of the largest.
    """
    length = float(np.linalg.norm(start))
    if not 0.0 < length < np.inf:
        return Spectrum(0.0, 0.0, 0.0, 0)
    basis, diagonal, beside = [start / length], np.empty(0), np.empty(0)
    while True:
        v = apply(basis[-1])
        diagonal = np.append(diagonal, float(basis[-1] @ v))
        known = np.array(basis)
        for _ in range(2):  # once more, since what rounding leaves would bring the same eigenvalues again
            v = v - (known @ v) @ known
        rest = float(np.linalg.norm(v))
        values, vectors = eigh_tridiagonal(diagonal, beside)
        least, largest = max(float(values[0]), 0.0), max(float(values[-1]), 0.0)
        error = rest * abs(float(vectors[-1, -1]))
        settled = error <= ACCURACY * largest and diagonal.size >= min(start.size, 8)
        if settled or rest <= VANISHING * largest or diagonal.size >= min(most_steps, start.size):
            return Spectrum(least, largest, error, diagonal.size)
        basis.append(v / rest)
        beside = np.append(beside, rest)
