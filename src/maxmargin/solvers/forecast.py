"""What a fit will cost, from work that can be counted before it begins: in orders of magnitude.

Kernel machines were measured by their CPU seconds in one thread, on Gaussian rows of which a fifth have a wrong label,
to the default gap:

====================  =======  ==========  ==================  ====================
samples x features    C        seconds     matrices of values  nanoseconds a value
====================  =======  ==========  ==================  ====================
12,000 x 10           1        0.44        1.08                2.9
48,000 x 10           1        12.1        1.08                4.8
12,000 x 100          1        1.06        1.25                5.8
50,000 x 54           1        10.1        1.20                3.4
100,000 x 54          1        37.5        1.22                3.0
12,000 x 10           100      5.1         2.05                17
24,000 x 10           100      16.7        4.15                7.0
====================  =======  ==========  ==================  ====================

A fit computes about as many values as its kernel matrix has, whatever the size of the cache; a larger C, with labels
that contradict each other, costs another factor. Separable classes take less, by a factor of up to ten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxmargin.solvers.choice import CONJUGATE_STEPS, PASSES, READ, Choice, Traits, small_enough
from maxmargin.solvers.columns.group_descent import GroupDescent
from maxmargin.solvers.columns.proximal_newton import ProximalNewton
from maxmargin.solvers.columns.working_set import WorkingSet
from maxmargin.solvers.interior_point import InteriorPoint
from maxmargin.solvers.kernels.kernel_cholesky import KernelCholesky
from maxmargin.solvers.rows.cholesky import Cholesky
from maxmargin.solvers.rows.newton import Newton

MATRICES = 1.2  # of kernel values, for C up to 1
VALUE, ENTRY = 2.4e-9, 3e-11  # seconds of a thread for a kernel value, and for each entry of a row in it
HARDER = 0.45  # the seconds grow with this power of C: by a factor of eight from 1 to 100
LARGEST_C = 1e6  # beyond that nothing changes: the margin is hard
FACTOR_STEPS = 25  # of interior point, a factor each
MULTIPLIED = 1e10  # in a second of a thread, by BLAS
SHARE = 0.8  # threads help as much as this power of their number says
HOUR = 3600.0


@dataclass(frozen=True)
class Forecast:
    """Seconds, and the bytes that are needed beside the samples."""

    seconds: float
    memory: float

    def __str__(self) -> str:
        return f"{_spoken(self.seconds)} and {math.ceil(self.memory / 2**20)} MB beside the samples"


def _spoken(seconds: float) -> str:
    if seconds < 1.0:
        return "less than a second"
    if seconds < 60.0:
        return "some seconds"
    if seconds < HOUR:
        return f"about {math.ceil(seconds / 60.0)} minutes"
    return f"about {seconds / HOUR:.2g} hours"


def forecast(
    choice: Choice,
    traits: Traits,
    sizes: list[int],
    row_length: float,
    *,
    C: float = 1.0,
    threads: int = 1,
    cache: float = math.inf,
) -> Forecast:
    """What a fit is expected to cost.

    Parameters
    ----------
    choice : Choice
        The solver.
    traits : Traits
        Of the first of its problems.
    sizes : list of int
        The samples of each problem.
    row_length : float
        Entries of a row, on average; 0 if kernel values are given.
    C : float, default=1.0
        Weight of the losses of a kernel machine.
    threads : int, default=1
        That may be used.
    cache : float, default=inf
        Bytes for kernel values, at most.

    """
    speed = threads**SHARE
    if traits.kernelised:
        return _of_kernels(choice, sizes, row_length, min(max(C, 1.0), LARGEST_C), speed, cache)
    return _of_rows(choice, traits, len(sizes), speed)


def _of_kernels(choice: Choice, sizes: list[int], row_length: float, C: float, speed: float, cache: float) -> Forecast:
    pairs, largest = sum(float(n) ** 2 for n in sizes), float(max(sizes))
    seconds = MATRICES * pairs * (VALUE + ENTRY * row_length)
    memory = min(8.0 * largest**2, cache) + 100.0 * largest
    if choice.name in (KernelCholesky.name, InteriorPoint.name):
        factors = 1 if choice.name == KernelCholesky.name else FACTOR_STEPS
        seconds += factors * sum(float(n) ** 3 for n in sizes) / 6.0 / MULTIPLIED
        memory = 16.0 * largest**2
    elif small_enough(int(largest), 1) is None:
        seconds *= C**HARDER
    return Forecast(seconds / speed, memory)


def _of_rows(choice: Choice, traits: Traits, problems: int, speed: float) -> Forecast:
    """Of what sweeps over rows or columns: passes over the data, and products of features."""
    d = float(traits.n_features)
    vectors = 100.0 * (traits.n_samples + d)
    if traits.clients and choice.name == Newton.name:
        return Forecast(problems * traits.shared_newton_seconds, vectors / traits.clients + 8.0 * d**2)
    if traits.clients:
        return Forecast(problems * traits.cocoa_seconds, vectors / traits.clients)
    if choice.name == Newton.name:
        return Forecast(problems * traits.newton_seconds / speed, vectors + 16.0 * d**2)
    if choice.name == Cholesky.name:
        return Forecast(traits.factor_seconds / speed, vectors + 16.0 * float(traits.equations) ** 2)
    if choice.name == InteriorPoint.name:
        products = FACTOR_STEPS * traits.entries * traits.row_length / MULTIPLIED
        return Forecast(problems * products / speed, vectors + 16.0 * d**2)
    by_columns = choice.name in (WorkingSet.name, ProximalNewton.name, GroupDescent.name)
    passes = 2.0 * CONJUGATE_STEPS if traits.linear_equations else 4.0 * PASSES
    return Forecast(problems * passes * traits.entries / READ / speed, vectors + 12.0 * traits.entries * by_columns)
