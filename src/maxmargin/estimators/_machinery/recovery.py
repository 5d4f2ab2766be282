"""What a vector is worth as the answer to a constrained problem: values, gap, and how well it keeps the constraint.

Any vector ``v`` of one number for each row proves a lower bound, whatever the method it came from. With
``m = max_j |a_j.v|``, ``r = d - A w`` and Hoelder's inequality:

* ``|w|_1 >= (d.v - sqrt(eps) |v|) / m`` if ``|A w - d|^2 <= eps``, since ``d.v <= |w|_1 m + |r| |v|``;
* ``|A w - d|^2 >= (d.v - t m)^2 / |v|^2`` if ``|w|_1 <= t`` and ``d.v >= t m``, for the same reason;
* ``|w|_1 + |A w - d|^2 / lam >= k d.v - k^2 lam |v|^2 / 4`` for every ``k`` from 0 to ``1 / m``;
* ``|w|_2 >= d.v / |A^T v|_2`` if ``A w = d``.

If no coefficient may be negative, ``m`` is the largest of the products ``a_j.v``, without their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators import Columns, Rows
from maxmargin.operators.precise import combination, precise_in_seconds, products
from maxmargin.problems.point import Certificate
from maxmargin.problems.rounding import EXACT_FIT
from maxmargin.protocols import Float

PRECISE = 1e-9  # a relative gap that only rounding makes larger than this is computed with twice the digits


@dataclass(frozen=True, eq=False)
class Recovery:
    """The answer to a constrained problem, with its proof.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
        Coefficients.
    problem : str
        What they minimise, and under which constraint.
    certificate : Certificate
        The value of what is minimised, a lower bound on the optimum, and bounds on the rounding errors of both.
    excess : float
        By how much the constraint may be exceeded at most, rounding included: 0 says that it certainly holds. An
        equation, of which no computer can say that, is exceeded by what is left of ``|A w - d|^2``.
    error : float
        ``|A w - d|^2``.
    norm : float
        ``|w|_1``.
    lam : float
        The strength for which these coefficients minimise ``|A w - d|^2 + lam |w|_1`` too. It is minus the slope of
        the error as a function of the norm. NaN for the smallest Euclidean norm.

    """

    w: Float
    problem: str
    certificate: Certificate
    excess: float
    error: float
    norm: float
    lam: float

    @property
    def gap(self) -> float:
        """How far the value may be from the optimum, without rounding errors."""
        return self.certificate.gap

    @property
    def relative_gap(self) -> float:
        """The same with rounding errors, divided by the value."""
        return self.certificate.relative_gap

    def __repr__(self) -> str:
        return (
            f"Recovery({self.problem}: |w|_1 = {self.norm:.6g} with {np.count_nonzero(self.w)} of {self.w.size} "
            f"coefficients, |Aw - d|^2 = {self.error:.6g}, relative gap {self.relative_gap:.1e})"
        )


class Reading(Protocol):
    """How products with the matrix are computed, and how wrong they can be."""

    def residuals(self, w: Float) -> tuple[Float, float]:
        """``d - A w``, and a bound on the norm of its error."""

    def adjoint(self, v: Float) -> tuple[Float, Float]:
        """``A^T v``, and a bound on the error of each entry."""


class PlainReading:
    """Products in float64."""

    def __init__(self, columns: Columns, d: Float) -> None:
        self.columns, self.d = columns, d

    def residuals(self, w: Float) -> tuple[Float, float]:
        """``d - A w``, and a bound on the norm of its error."""
        terms, _ = self.columns.terms()
        size = float(np.abs(w) @ self.columns.column_lengths()) + float(np.linalg.norm(self.d))
        return self.d - self.columns.apply(w), growth(terms + 2) * size

    def adjoint(self, v: Float) -> tuple[Float, Float]:
        """``A^T v``, and a bound on the error of each entry."""
        _, terms = self.columns.terms()
        return self.columns.adjoint(v), growth(terms + 2) * float(np.linalg.norm(v)) * self.columns.column_lengths()


class DoubledReading:
    """Products with twice the digits: ten times the work and more."""

    def __init__(self, columns: Columns, d: Float) -> None:
        self.matrix, self.d = columns.transposed.matrix, d

    def residuals(self, w: Float) -> tuple[Float, float]:
        """``d - A w``, and a bound on the norm of its error."""
        z = combination(self.matrix, w)
        r = self.d - z.high
        lost = (self.d - (r - (r - self.d))) + (-z.high - (r - self.d))
        bound = float(np.linalg.norm(np.abs(lost - z.low) + z.error))
        return r, bound * (1.0 + growth(r.size + 8))

    def adjoint(self, v: Float) -> tuple[Float, Float]:
        """``A^T v``, and a bound on the error of each entry."""
        found = products(self.matrix, v)
        return found.high, found.slack * (1.0 + 4.0 * DOUBLE)


class Proof(NamedTuple):
    """What of a vector of the dual counts: nominal values, and how far they may be from the truth."""

    dv: float
    dv_error: float
    length: float  # not smaller than it is
    product: float  # the largest one with a column
    product_error: float
    image: float  # the norm of all products
    image_error: float

    @classmethod
    def of(cls, reading: Reading, d: Float, v: Float, positive: bool) -> Proof:
        """That of a vector."""
        found, errors = reading.adjoint(v)
        sizes = found if positive else np.abs(found)
        sizes_of_all = float(np.abs(v) @ np.abs(d))
        slack = growth(d.size + found.size + 8)
        image = float(np.linalg.norm(found))
        return cls(
            float(d @ v),
            slack * sizes_of_all,
            float(np.linalg.norm(v)) * (1.0 + slack),
            max(float(sizes.max(initial=0.0)), 0.0),
            max(float((sizes + errors).max(initial=0.0)), 0.0) - max(float(sizes.max(initial=0.0)), 0.0),
            image,
            float(np.linalg.norm(errors)) + slack * image,
        )

    def least_norm(self, eps: float) -> tuple[float, float]:
        """The bound on ``|w|_1`` if the error is at most ``eps``, and its error."""
        return _quotient(self.dv - math.sqrt(eps) * self.length, self.dv_error, self.product, self.product_error)

    def least_error(self, t: float) -> tuple[float, float]:
        """The bound on ``|A w - d|^2`` if ``|w|_1 <= t``, and its error."""
        if self.length == 0.0:
            return 0.0, 0.0
        left = max(self.dv - t * self.product, 0.0) / self.length
        sure = max(self.dv - self.dv_error - t * (self.product + self.product_error) * (1.0 + 8.0 * DOUBLE), 0.0)
        return left**2, left**2 - (sure / self.length) ** 2 * (1.0 - 8.0 * DOUBLE)

    def least_sum(self, lam: float) -> tuple[float, float]:
        """The bound on ``|w|_1 + |A w - d|^2 / lam``, and its error."""
        square = self.length**2
        if square == 0.0 or self.dv <= 0.0:
            return 0.0, 0.0
        most = 1.0 / (self.product + self.product_error) if self.product + self.product_error > 0.0 else math.inf
        k = min(2.0 * self.dv / (lam * square), most * (1.0 - 4.0 * DOUBLE))
        value = k * self.dv - 0.25 * lam * k * k * square
        return value, k * self.dv_error + 16.0 * DOUBLE * k * self.dv

    def least_length(self) -> tuple[float, float]:
        """The bound on ``|w|_2`` if ``A w = d``, and its error."""
        return _quotient(self.dv, self.dv_error, self.image, self.image_error)


def _quotient(a: float, a_error: float, b: float, b_error: float) -> tuple[float, float]:
    """``a / b`` and its error, or 0, which is always true of a norm."""
    if a <= 0.0 or b + b_error <= 0.0:
        return 0.0, 0.0
    sure = max(a - a_error, 0.0) / (b + b_error) * (1.0 - 8.0 * DOUBLE)
    nominal = a / b if b > 0.0 else sure
    return nominal, nominal - sure


class System:
    """Equations ``A w = d`` whose answers are judged."""

    def __init__(self, columns: Columns, d: Float, positive: bool = False) -> None:
        self.columns, self.d, self.positive = columns, d, positive
        self.readings: list[Callable[[Columns, Float], Reading]] = [PlainReading]
        if isinstance(columns.transposed, Rows) and precise_in_seconds(columns.transposed):
            self.readings.append(DoubledReading)

    def within_error(self, w: Float, eps: float, lam: float, proofs: list[Float]) -> Recovery:
        """Of the smallest ``|w|_1`` with ``|A w - d|^2 <= eps``."""
        what = "min |w|_1 subject to " + (f"|Aw - d|^2 <= {eps:.6g}" if eps > 0.0 else "Aw = d")
        return self._judged(
            w, what, lam, proofs, lambda r, e: (_norm(w), 0.0), lambda proof: proof.least_norm(eps),
            lambda r, e: _above(r, e) - eps,
        )  # fmt: skip

    def within_norm(self, w: Float, t: float, lam: float, proofs: list[Float]) -> Recovery:
        """Of the smallest ``|A w - d|^2`` with ``|w|_1 <= t``."""
        return self._judged(
            w, f"min |Aw - d|^2 subject to |w|_1 <= {t:.6g}", lam, proofs, _squared, lambda p: p.least_error(t),
            lambda r, e: _norm(w) * (1.0 + growth(w.size)) - t, least=EXACT_FIT * float(self.d @ self.d),
        )  # fmt: skip

    def weighed(self, w: Float, lam: float, proofs: list[Float]) -> Recovery:
        """Of the smallest ``|w|_1 + |A w - d|^2 / lam``."""

        def value(r: Float, e: float) -> tuple[float, float]:
            square, error = _squared(r, e)
            return _norm(w) + square / lam, error / lam

        return self._judged(
            w, f"min |w|_1 + |Aw - d|^2 / {lam:.6g}", lam, proofs, value, lambda p: p.least_sum(lam), lambda r, e: 0.0
        )

    def shortest(self, w: Float, proofs: list[Float]) -> Recovery:
        """Of the smallest ``|w|_2`` with ``A w = d``."""
        length = float(np.linalg.norm(w))
        return self._judged(
            w, "min |w|_2 subject to Aw = d", math.nan, proofs, lambda r, e: (length, 0.0),
            lambda proof: proof.least_length(), _above,
        )  # fmt: skip

    def _judged(
        self,
        w: Float,
        problem: str,
        lam: float,
        proofs: list[Float],
        value: Callable[[Float, float], tuple[float, float]],
        bound: Callable[[Proof], tuple[float, float]],
        excess: Callable[[Float, float], float],
        least: float = 0.0,
    ) -> Recovery:
        """The answer with the best of its proofs, with twice the digits if only rounding makes its gap large."""
        answer: Recovery | None = None
        for read in self.readings:
            reading = read(self.columns, self.d)
            r, e = reading.residuals(w)
            primal, primal_error = value(r, e)
            primal_error += growth(w.size) * primal
            bounds = [bound(Proof.of(reading, self.d, v, self.positive)) for v in (r, *proofs)]
            dual, dual_error = max(bounds, key=lambda one: one[0] - one[1])
            certificate = Certificate(primal, dual, primal_error, dual_error, 0.0, least)
            over = max(excess(r, e), 0.0)
            if answer is None or certificate.relative_gap <= answer.certificate.relative_gap:
                answer = Recovery(w, problem, certificate, over, float(r @ r), _norm(w), lam)
            if certificate.relative_gap <= PRECISE and over == 0.0:
                break
        assert answer is not None
        return answer


def _norm(w: Float) -> float:
    return float(np.abs(w).sum())


def _above(r: Float, e: float) -> float:
    """No less than the squared norm of residuals that are wrong by ``e``."""
    return (float(np.linalg.norm(r)) + e) ** 2 * (1.0 + growth(r.size + 4))


def _squared(r: Float, e: float) -> tuple[float, float]:
    """The squared norm of residuals that are wrong by ``e``, and the error of that."""
    square = float(r @ r)
    return square, max(_above(r, e) - square, 0.0)
