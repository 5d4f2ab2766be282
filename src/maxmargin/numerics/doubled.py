"""Numbers with twice the digits of float64, as unevaluated sums ``high + low``.

The error of a sum or of a product of two numbers is itself a number, and a few operations find it (Dekker, Knuth). Sums
that carry these errors along are as exact as if they were computed with twice the digits and rounded once (Ogita, Rump,
Oishi, "Accurate sum and dot product", 2005).
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin._jit import compiled_exactly, inlined_exactly
from maxmargin.protocols import Array, Float, Index

SPLITTER = 134217729.0  # 2^27 + 1: cuts 53 digits into halves whose products are exact
LOG2_HIGH, LOG2_LOW, LOG2_LAST = 0.6931471803691238, 1.9082149292705877e-10, 1.1612227229362532e-26
SQUARINGS, HALVED = 9, 2.0**-9  # of the exponential function, and what its argument is divided by
TAYLOR_TERMS = 9
VANISHED = 700.0  # the exponential function of minus more than this is taken for zero
DOUBLED = 2.0**-90  # relative error of the functions below; wherever it was measured it is less than a 1000th


@inlined_exactly
def two_sum(a: float, b: float) -> tuple[float, float]:
    """``a + b`` and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inlined_exactly
def two_product(a: float, b: float) -> tuple[float, float]:
    """``a b`` and its rounding error."""
    p, t, u = a * b, SPLITTER * a, SPLITTER * b
    a_high, b_high = t - (t - a), u - (u - b)
    a_low, b_low = a - a_high, b - b_high
    return p, a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


@inlined_exactly
def add_twice(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """The sum of two numbers of two parts each."""
    s, e = two_sum(a, b)
    t, f = two_sum(a_low, b_low)
    s, e = two_sum(s, e + t)
    return two_sum(s, e + f)


@inlined_exactly
def multiply_twice(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """The product of two numbers of two parts each."""
    p, e = two_product(a, b)
    return two_sum(p, e + (a * b_low + a_low * b))


@compiled_exactly
def exp_twice(t: Float, t_low: Float, s: Float, s_low: Float) -> None:
    """``exp(-t - t_low)`` of each ``t >= 0``: a Taylor series for a part of the argument, squared again and again.

    Of the part, the exponential function minus 1 is computed, which keeps its digits. Every operation is a loop over
    all numbers, which becomes vector code. Sets: ``s, s_low``; the arguments are memory to work in.
    """
    size = t.shape[0]
    halvings = np.empty(size)
    for j in range(size):
        vanished = t[j] > VANISHED
        if vanished:  # or there would be infinities times zero
            t[j], t_low[j] = 0.0, 0.0
        k = math.floor(t[j] / (LOG2_HIGH + LOG2_LOW) + 0.5)
        halvings[j] = k if not vanished else -1.0
        r, r_low = add_twice(k * LOG2_HIGH, 0.0, -t[j], -t_low[j])  # the last digits are zeros: the product is exact
        p, e = two_product(k, LOG2_LOW)
        r, r_low = add_twice(r, r_low, p, e + k * LOG2_LAST)
        t[j], t_low[j] = r * HALVED, r_low * HALVED
        s[j], s_low[j] = 1.0, 0.0
    for n in range(TAYLOR_TERMS, 1, -1):  # 1 + r/2 (1 + r/3 (...))
        terms = float(n)
        for j in range(size):
            x, x_low = multiply_twice(s[j], s_low[j], t[j], t_low[j])
            q = x / terms
            p, e = two_product(q, terms)
            s[j], s_low[j] = add_twice(1.0, 0.0, q, ((x - p) - e + x_low) / terms)
    for j in range(size):
        s[j], s_low[j] = multiply_twice(s[j], s_low[j], t[j], t_low[j])
    for _ in range(SQUARINGS):  # from exp(r) - 1 to exp(2 r) - 1
        for j in range(size):
            p, e = multiply_twice(s[j], s_low[j], s[j], s_low[j])
            s[j], s_low[j] = add_twice(2.0 * s[j], 2.0 * s_low[j], p, e)
    for j in range(size):
        x, x_low = add_twice(1.0, 0.0, s[j], s_low[j])
        power = 2.0 ** (-halvings[j]) if halvings[j] >= 0.0 else 0.0
        s[j], s_low[j] = x * power, x_low * power


@compiled_exactly
def products_of_rows(data: Array, indices: Index, indptr: Index, w: Float, w_low: Float, out: Float) -> None:
    """Inner products of sparse rows with ``w + w_low``. Sets: ``out``, their two parts and the sums of the sizes."""
    for i in range(indptr.shape[0] - 1):
        s, c, size = 0.0, 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            x, j = float(data[k]), indices[k]
            p, e = two_product(x, w[j])
            s, t = two_sum(s, p)
            c += t + (e + x * w_low[j])
            size += abs(p)
        out[0, i], out[1, i] = two_sum(s, c)
        out[2, i] = size


@compiled_exactly
def add_rows(data: Array, indices: Index, indptr: Index, weights: Float, out: Float) -> None:
    """Sparse rows times their weights, added up. Sets: ``out``, the two parts of the sums and those of the sizes."""
    for i in range(indptr.shape[0] - 1):
        a = weights[i]
        if a != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                p, e = two_product(float(data[k]), a)
                out[0, j], t = two_sum(out[0, j], p)
                out[1, j] += t + e
                out[2, j] += abs(p)


@compiled_exactly
def sums_of_decay(
    left: Float, right: Float, weights: Float, gamma: float, squared: bool, out: Float, own: Float, back: Float
) -> None:
    """``sum_j weights_j exp(-gamma |left_i - right_j|)`` of Manhattan distances, or of squared Euclidean ones.

    The values serve both sides: with weights ``own`` of the left points, ``back`` gets the sums over these. Sets:
    ``out`` and ``back``, the two parts of the sums, after what is in them already, and those of the sizes.
    """
    size = right.shape[0]
    columns = right.T.copy()
    t, t_low, s, s_low = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for i in range(left.shape[0]):
        t[:], t_low[:] = 0.0, 0.0
        for k in range(left.shape[1]):
            x, column = left[i, k], columns[k]
            if squared:
                for j in range(size):
                    v, v_low = two_sum(x, -column[j])
                    p, e = two_product(v, v)
                    t[j], lost = two_sum(t[j], p)
                    t_low[j] += lost + (e + 2.0 * v * v_low)
            else:
                for j in range(size):
                    v, v_low = two_sum(x, -column[j])
                    t[j], lost = two_sum(t[j], abs(v))
                    t_low[j] += lost + (v_low if v > 0.0 else -v_low)
        for j in range(size):
            p, e = two_product(gamma, t[j])
            t[j], t_low[j] = two_sum(p, e + gamma * t_low[j])
        exp_twice(t, t_low, s, s_low)
        for j in range(size):
            _add_to(out, i, s[j], s_low[j], weights[j], s[j])
        if own.shape[0] > 0:
            for j in range(size):
                _add_to(back, j, s[j], s_low[j], own[i], s[j])


@compiled_exactly
def sums_of_powers(
    left: Float, right: Float, weights: Float, gamma: float, coef0: float, degree: int, out: Float, own: Float,
    back: Float,
) -> None:  # fmt: skip
    """``sum_j weights_j (gamma left_i.right_j + coef0)^degree``. Sets: ``out`` and ``back``, as above."""
    for i in range(left.shape[0]):
        for j in range(right.shape[0]):
            x, z = left[i], right[j]
            s, c, size = 0.0, 0.0, 0.0
            for k in range(x.shape[0]):
                p, e = two_product(x[k], z[k])
                s, t = two_sum(s, p)
                c += t + e
                size += abs(p)
            p, e = two_product(gamma, s)
            s, c = add_twice(p, e + gamma * c, coef0, 0.0)
            size = abs(gamma) * size + abs(coef0)
            v, v_low, most = 1.0, 0.0, 1.0
            for _ in range(degree):
                v, v_low = multiply_twice(v, v_low, s, c)
                most *= size
            _add_to(out, i, v, v_low, weights[j], most)
            if own.shape[0] > 0:
                _add_to(back, j, v, v_low, own[i], most)


@compiled_exactly
def add_parts(out: Float, more: Float) -> None:
    """Sums of two parts each, and their sizes, added to others. Sets: ``out``."""
    for j in range(out.shape[1]):
        out[0, j], t = two_sum(out[0, j], more[0, j])
        out[1, j] += t + more[1, j]
        out[2, j] += more[2, j]


@compiled_exactly
def _add_to(out: Float, i: int, v: float, v_low: float, weight: float, size: float) -> None:
    """Add a weighted value to a sum. Sets: column ``i`` of ``out``."""
    p, e = two_product(v, weight)
    out[0, i], t = two_sum(out[0, i], p)
    out[1, i] += t + (e + v_low * weight)
    out[2, i] += abs(weight) * size
