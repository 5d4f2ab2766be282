"""Mercer kernels of vectors, as functions of one measurement of a pair and of two squared norms.

The measurement ``m`` is the inner product or, if the traits of the kernel say so, the Manhattan distance. A kernel is
one class: its name, its traits and, as fields, those parameters of an estimator that it takes. Precomputed matrices and
Python callables are not kernels of vectors: see ``operators.gram``.

The same methods serve both precisions: with float32 fields and arguments everything is computed in float32, so no
float64 literal may meet an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar, cast

import numpy as np

from maxmargin._jit import by_precision, compiled, compiled_methods, larger, smaller
from maxmargin.protocols import Float, Kernel, KernelTraits

Class = TypeVar("Class", bound=type[Kernel])
KERNELS: dict[str, type[Kernel]] = {}  # by the names under which users choose them
EXP_ROUNDINGS = 8.0  # of `exp_of_negative`, which is off by 4.5 at most wherever it was measured


def named(name: str) -> Callable[[Class], Class]:
    """Mark a class as the kernel of a name."""

    def register(cls: Class) -> Class:
        KERNELS[name] = cls
        return compiled_methods(cls)

    return register


@cache
def parameters_of(name: str) -> tuple[str, ...]:
    """The parameters of a kernel, which are the fields of its tuple."""
    fields: tuple[str, ...] = KERNELS[name]._fields  # type: ignore[attr-defined]
    return fields


def kernel_of(name: str, **known: float) -> Kernel:
    """The kernel of a name, with those of the known parameters that it has."""
    return KERNELS[name](**{parameter: known[parameter] for parameter in parameters_of(name) if parameter in known})


@named("linear")
class Linear(NamedTuple):
    """``scale x.z``."""

    scale: float = 1.0

    @property
    def traits(self) -> KernelTraits:
        return KernelTraits(positive=True)

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return self.scale * m

    def magnitude(self, sq: Float) -> Float:
        return np.sqrt(abs(self.scale) * sq)

    def roundings(self, sq: Float, largest: float, terms: float) -> Float:
        return np.full_like(sq, terms + 2.0)


@named("rbf")
class RBF(NamedTuple):
    """``exp(-gamma |x - z|^2)``."""

    gamma: float = 1.0

    @property
    def traits(self) -> KernelTraits:
        return KernelTraits(positive=True, of_differences=True, steepness=2.0 * self.gamma)

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return exp_of_negative(self.gamma * (m + m - sq_left - sq_right))

    def magnitude(self, sq: Float) -> Float:
        return np.ones_like(sq)

    def roundings(self, sq: Float, largest: float, terms: float) -> Float:
        return np.full_like(sq, roundings_of_decay(terms))


@named("poly")
class Polynomial(NamedTuple):
    """``(gamma x.z + coef0)^degree``."""

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 0.0

    @property
    def traits(self) -> KernelTraits:
        return KernelTraits(positive=self.gamma >= 0.0 and self.coef0 >= 0.0)

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        base = self.gamma * m + self.coef0
        if self.degree == 3:  # the usual degrees without a power function, which would not become vector code
            return base * base * base
        if self.degree == 2:
            return base * base
        return base**self.degree

    def magnitude(self, sq: Float) -> Float:
        return np.asarray((abs(self.gamma) * sq + abs(self.coef0)) ** (0.5 * self.degree))

    def roundings(self, sq: Float, largest: float, terms: float) -> Float:
        return np.full_like(sq, self.degree * (terms + 4.0) + 4.0)


@named("sigmoid")
class Sigmoid(NamedTuple):
    """``tanh(gamma x.z + coef0)``: not positive semi-definite for most parameters."""

    gamma: float = 1.0
    coef0: float = 0.0

    @property
    def traits(self) -> KernelTraits:
        return KernelTraits()

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return math.tanh(self.gamma * m + self.coef0)

    def magnitude(self, sq: Float) -> Float:
        return np.ones_like(sq)

    def roundings(self, sq: Float, largest: float, terms: float) -> Float:
        size, other = abs(self.gamma) * sq + abs(self.coef0), abs(self.gamma) * largest + abs(self.coef0)
        return np.asarray((terms + 4.0) * np.sqrt(size) * np.sqrt(other) + 8.0)


@named("laplacian")
class Laplacian(NamedTuple):
    """``exp(-gamma |x - z|_1)``."""

    gamma: float = 1.0

    @property
    def traits(self) -> KernelTraits:
        return KernelTraits(positive=True, by_distance=True, of_differences=True, steepness=self.gamma)

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        return exp_of_negative(-self.gamma * m)

    def magnitude(self, sq: Float) -> Float:
        return np.ones_like(sq)

    def roundings(self, sq: Float, largest: float, terms: float) -> Float:
        return np.full_like(sq, roundings_of_decay(terms))


def in_precision(kernel: Kernel, dtype: type[np.float32 | np.float64]) -> Kernel:
    """The kernel with its real parameters in a precision."""
    parameters = cast("tuple[float, ...]", kernel)
    return type(kernel)(*(dtype(p) if isinstance(p, (float, np.floating)) else p for p in parameters))


@compiled
def roundings_of_decay(terms: float) -> float:
    """Of ``exp(-t)`` for a ``t`` that is a positive sum of at most twice so many terms.

    A relative error of ``t`` changes the value by ``t exp(-t) < 0.37`` times as much.
    """
    return 0.75 * terms + 4.0 + EXP_ROUNDINGS


@compiled
def _exp_double(x: float) -> float:
    """``exp(min(x, 0))`` within ``EXP_ROUNDINGS``, in a form that compilers turn into vector instructions.

    ``x = k log 2 + r`` with ``|r| <= log(2) / 2``: a Taylor polynomial of degree 12 for ``r``, evaluated as a tree so
    that few operations wait for each other, and the exponent bits for ``k``. They are read off the sum of ``k`` and a
    large number, because not every processor converts vectors of float64 to integers.
    Rounding makes the squared distance of two equal points slightly negative: hence the minimum with 0.
    The maximum in ``r`` changes nothing. It keeps compilers, which may reorder sums, from adding up the two halves of
    log 2, which would cost two digits.
    """
    x = smaller(larger(x, -708.0), 0.0)  # below this, the result is no longer a normal number
    k = np.floor(x * 1.4426950408889634 + 0.5)
    r = larger(x - k * 0.6931471803691238, -1.0) - k * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    p01, p23 = 1.0 + r, 0.5 + r * (1.0 / 6.0)
    p45, p67 = 1.0 / 24.0 + r * (1.0 / 120.0), 1.0 / 720.0 + r * (1.0 / 5040.0)
    p89, pab = 1.0 / 40320.0 + r * (1.0 / 362880.0), 1.0 / 3628800.0 + r * (1.0 / 39916800.0)
    p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * ((p89 + r2 * pab) + r4 * (1.0 / 479001600.0)))
    bits = np.float64(k + 6755399441055744.0).view(np.int64)
    power = np.int64((bits + np.int64(1023)) << np.int64(52))
    return p * power.view(np.float64)


@compiled
def _exp_single(x: np.float32) -> np.float32:
    """``exp(min(x, 0))`` within ``EXP_ROUNDINGS`` in float32: as above, with a polynomial of degree 6 for ``r``."""
    x = smaller(larger(x, np.float32(-87.0)), np.float32(0.0))
    k = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = larger(x - k * np.float32(0.693359375), np.float32(-1.0)) + k * np.float32(2.1219444e-4)
    r2 = r * r
    p01, p23 = np.float32(1.0) + r, np.float32(0.5) + r * np.float32(1.0 / 6.0)
    p45 = np.float32(1.0 / 24.0) + r * np.float32(1.0 / 120.0)
    p = (p01 + r2 * p23) + (r2 * r2) * (p45 + r2 * np.float32(1.0 / 720.0))
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23))
    return p * power.view(np.float32)


exp_of_negative = by_precision(_exp_double, _exp_single)
