"""The steps of Pegasos on vectors, of which nothing is asked but products and sums: rows of features, or a kernel's."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from maxmargin._jit import compiled, inlined
from maxmargin.numerics.grid import lowest_on_grid
from maxmargin.operators.vectors import DenseVectors, add_four, four_products
from maxmargin.protocols import Array, Float, Index, Loss
from maxmargin.solvers.windows import GAIN, VISITS, Window, unseen

SMALLEST_SCALE = 1e-100  # of `a`; below it all coefficients are multiplied
LARGEST_SHARE = 1e3  # of `c q` against the sum of the iterates: more would cancel against `total`
ALL_PRESENT = np.zeros(0, dtype=np.int64)  # slots, where no vector is ever missing
A, C, H, H_TOTAL, SQ, COUNT, ADDED, FOLDS = range(8)  # places of the scalars of an `Iterate`
Y, FACTOR = range(2)  # columns of what is known of the samples


class Setting(NamedTuple):
    """What stays the same during a round."""

    loss: Loss
    known: Float  # y_i and c_i
    squares: Float  # squared length of every sample, its entry in the column of the intercept included
    lam: float
    t0: float
    kappa: float  # entry in the column of the intercept
    centre: float  # of the intercept
    radius: float  # infinite without projection
    share: float  # of every iterate in their sum, and what of it grows with t
    growth: float


class Iterate(NamedTuple):
    """``w = a v`` for rows. For kernels, ``w = a q`` is an expansion over the samples with the scores ``a v``.

    The sum of the iterates is ``total + c v``, or ``total + c q``. With an intercept, ``a h`` is the coefficient of its
    column and ``h_total + c h`` the sum.
    """

    q: Float  # empty for rows
    v: Float
    total: Float
    seen: Array  # sum of -slope and number of visits of each sample, in float32: a pass is bound by memory
    scalars: Float

    @classmethod
    def at_zero(cls, n: int, width: int, expanded: bool) -> Iterate:
        """The iterate of which everything is zero, and ``a`` is one."""
        scalars = np.zeros(8)
        scalars[A] = 1.0
        return cls(np.zeros(n if expanded else 0), np.zeros(width), np.zeros(width), unseen(n), scalars)

    @property
    def coefficients(self) -> Float:
        """What ``a`` and ``c`` multiply."""
        return self.q if self.q.size else self.v

    def last(self) -> tuple[Float, float]:
        """``w``, and its entry in the column of the intercept."""
        return self.scalars[A] * self.coefficients, float(self.scalars[A] * self.scalars[H])

    def window(self) -> Window:
        """What was gathered since the sums began."""
        c, h_total, scalars = self.scalars[C], self.scalars[H_TOTAL], self.scalars
        return Window(
            self.total + c * self.coefficients, float(h_total + c * scalars[H]), float(scalars[COUNT]), self.seen
        )

    def with_new_sums(self) -> Iterate:
        """The same point, with sums that begin anew. Sets: ``total, scalars``."""
        self.total[:] = 0.0
        self.scalars[[C, COUNT, H_TOTAL]] = 0.0
        # New memory, not zeros over the old: the many short windows of the beginning touch little of it.
        return self._replace(seen=unseen(self.seen.shape[0]))


class Addends(Protocol):
    """What a step asks of the samples: a part of `protocols.Vectors`."""

    def dot(self, i: int, w: Float) -> float:
        """Score of sample ``i``."""

    def add(self, i: int, step: float, w: Float) -> None:
        """Add a multiple of sample ``i``. Sets: ``w``."""


@compiled
def take_steps(
    vectors: Addends, slot: Index, setting: Setting, iterate: Iterate,
    batches: Index, first: int, t: int,
) -> tuple[int, int]:  # fmt: skip
    """Steps on ``batches[first:]``, where ``t`` steps were made before ``batches[0]``.

    Returns the batch and the sample that waits for a slot, or the number of batches and -1. Sets: ``iterate``.
    """
    q, v, total, seen, scalars = iterate
    known, kappa, measured = setting.known, setting.kappa, setting.radius < np.inf
    share, growth = setting.share, setting.growth
    a, c, h, sq, count = scalars[A], scalars[C], scalars[H], scalars[SQ], scalars[COUNT]
    k = batches.shape[1]
    g = np.empty(k)
    done, waiting = first, -1
    while done < batches.shape[0]:
        for j in range(k):
            i = batches[done, j]
            z = a * (vectors.dot(i, v) + kappa * h) + setting.centre
            g[j] = -setting.loss.slope(z, known[i, Y])
            if slot.shape[0] > 0 and g[j] != 0.0 and slot[i] < 0:
                waiting = i
        if waiting >= 0:
            break
        done += 1
        time = setting.t0 + t + done
        weight = share + growth * time
        c += weight * a
        count += weight
        eta, shrink = 1.0 / (setting.lam * time), 1.0 - 1.0 / time
        a *= shrink
        sq *= shrink * shrink
        if a < SMALLEST_SCALE or c > LARGEST_SHARE * a * (count + 1.0):
            _fold(q, v, total, a, c)
            scalars[H_TOTAL] += c * h
            h *= a
            a, c = 1.0, 0.0
            scalars[FOLDS] += 1.0
        for j in range(k):
            i = batches[done - 1, j]
            seen[i, VISITS] += 1.0
            if g[j] == 0.0:
                continue
            seen[i, GAIN] += g[j]
            move = eta * known[i, FACTOR] * g[j] / k
            if measured:
                sq += move * (2.0 * a * (vectors.dot(i, v) + kappa * h) + move * setting.squares[i])
            step = move / a
            vectors.add(i, step, v)
            # The sum of the iterates so far does not change.
            if q.shape[0] > 0:
                q[i] += step
                total[i] -= c * step
            else:
                vectors.add(i, -c * step, total)
            h += step * kappa
            scalars[H_TOTAL] -= c * step * kappa
            scalars[ADDED] += 1.0
        if measured and sq > setting.radius * setting.radius:
            a *= setting.radius / math.sqrt(sq)
            sq = setting.radius * setting.radius
    scalars[A], scalars[C], scalars[H], scalars[SQ], scalars[COUNT] = a, c, h, sq, count
    return done, waiting


@compiled
def take_steps_by_four(vectors: DenseVectors, setting: Setting, iterate: Iterate, batches: Index, t: int) -> None:
    """What `take_steps` does with single samples and without projection, as long as nothing has to be folded.

    A step has to wait for the one before. But four of them need only the products of their rows with the present ``v``
    and with each other, which wait for nothing: how the first steps change the scores of the next follows by a
    multiplication. Sets: ``iterate``.
    """
    X, known = vectors.X, setting.known
    v, total, seen, scalars = iterate.v, iterate.total, iterate.seen, iterate.scalars
    loss, kappa, centre = setting.loss, setting.kappa, setting.centre
    column, lam, share, growth = kappa * kappa, setting.lam, setting.share, setting.growth
    done, steps = 0, batches.shape[0]
    while done < steps:
        a0, c0, h, h_total, count = scalars[A], scalars[C], scalars[H], scalars[H_TOTAL], scalars[COUNT]
        added = 0
        while done + 4 <= steps:
            time = setting.t0 + t + done
            r1, r2, r3, r4 = 1.0 / (time + 1.0), 1.0 / (time + 2.0), 1.0 / (time + 3.0), 1.0 / (time + 4.0)
            a1 = a0 * (1.0 - r1)
            a2 = a1 * (1.0 - r2)
            a3 = a2 * (1.0 - r3)
            a4 = a3 * (1.0 - r4)
            first = share + growth * (time + 1.0)
            c1 = c0 + first * a0
            c2 = c1 + (first + growth) * a1
            c3 = c2 + (first + 2.0 * growth) * a2
            c4 = c3 + (first + 3.0 * growth) * a3
            if a4 < SMALLEST_SCALE or c4 > LARGEST_SHARE * a4 * (count + 1.0):
                break
            i1, i2, i3, i4 = batches[done, 0], batches[done + 1, 0], batches[done + 2, 0], batches[done + 3, 0]
            z1, z2, z3, z4, x12, x13, x14, x23, x24, x34 = four_products(X, i1, i2, i3, i4, v)
            u1, u2 = r1 * known[i1, FACTOR] / (lam * a1), r2 * known[i2, FACTOR] / (lam * a2)
            u3, u4 = r3 * known[i3, FACTOR] / (lam * a3), r4 * known[i4, FACTOR] / (lam * a4)
            base = kappa * h
            g1 = -loss.slope(a0 * (z1 + base) + centre, known[i1, Y])
            z2, z3, z4 = a1 * (z2 + base) + centre, a2 * (z3 + base) + centre, a3 * (z4 + base) + centre
            g2 = -loss.slope(z2 + g1 * (a1 * u1 * (x12 + column)), known[i2, Y])
            z3 += g1 * (a2 * u1 * (x13 + column))
            g3 = -loss.slope(z3 + g2 * (a2 * u2 * (x23 + column)), known[i3, Y])
            z4 += g1 * (a3 * u1 * (x14 + column)) + g2 * (a3 * u2 * (x24 + column))
            g4 = -loss.slope(z4 + g3 * (a3 * u3 * (x34 + column)), known[i4, Y])
            s1, s2, s3, s4 = u1 * g1, u2 * g2, u3 * g3, u4 * g4
            add_four(X, i1, i2, i3, i4, s1, s2, s3, s4, v)
            if first > 0.0:  # the sum of the iterates so far does not change
                add_four(X, i1, i2, i3, i4, -c1 * s1, -c2 * s2, -c3 * s3, -c4 * s4, total)
            h += kappa * ((s1 + s2) + (s3 + s4))
            h_total -= kappa * ((c1 * s1 + c2 * s2) + (c3 * s3 + c4 * s4))
            _note(seen, i1, g1)
            _note(seen, i2, g2)
            _note(seen, i3, g3)
            _note(seen, i4, g4)
            added += int(g1 != 0.0) + int(g2 != 0.0) + int(g3 != 0.0) + int(g4 != 0.0)
            a0, c0 = a4, c4
            count += 4.0 * first + 6.0 * growth
            done += 4
        scalars[A], scalars[C], scalars[H], scalars[H_TOTAL], scalars[COUNT] = a0, c0, h, h_total, count
        scalars[ADDED] += added
        if done < steps:
            take_steps(vectors, ALL_PRESENT, setting, iterate, batches[: done + 1], done, t)
            done += 1


@inlined
def _note(seen: Array, i: int, g: float) -> None:
    """Remember a visit of sample ``i``, where minus the slope was ``g``. Sets: ``seen``."""
    seen[i, GAIN] += g
    seen[i, VISITS] += 1.0


@compiled
def _fold(q: Float, v: Float, total: Float, a: float, c: float) -> None:
    """Multiply all coefficients by ``a`` and add their share to the sum of the iterates. Sets: ``q, v, total``."""
    coefficients = q if q.shape[0] > 0 else v
    for j in range(total.shape[0]):
        total[j] += c * coefficients[j]
    for j in range(q.shape[0]):
        q[j] *= a
    for j in range(v.shape[0]):
        v[j] *= a


def best_offset(vectors: Addends, setting: Setting, iterate: Iterate, batches: Index) -> float:
    """``t_0 = 1 / (lam eta_0)`` for the ``eta_0`` with which steps on the batches end at the lowest value."""
    # A radius so large that nothing is projected; but the norm is measured.
    setting = setting._replace(radius=1e150, share=0.0, growth=0.0)
    unused = {name: np.zeros_like(getattr(iterate, name)) for name in ("q", "total", "seen")}  # only written to

    def value(eta: float) -> float:
        trial = iterate._replace(v=iterate.v.copy(), scalars=iterate.scalars.copy(), **unused)
        tried = setting._replace(t0=1.0 / (setting.lam * eta))
        take_steps(vectors, ALL_PRESENT, tried, trial, batches, 0, 0)
        return _value(vectors, tried, trial, batches)

    size = float(setting.squares[batches].mean()) * float(setting.known[batches, FACTOR].mean())
    first = 1.0 / size if size > 0.0 else 1.0 / setting.lam
    return 1.0 / (setting.lam * lowest_on_grid(value, first, factor=2.0, least_gain=1e-4))


@compiled
def _value(vectors: Addends, setting: Setting, iterate: Iterate, batches: Index) -> float:
    """Objective on some of the samples."""
    scalars, losses = iterate.scalars, 0.0
    for m in range(batches.shape[0]):
        for j in range(batches.shape[1]):
            i = batches[m, j]
            z = scalars[A] * (vectors.dot(i, iterate.v) + setting.kappa * scalars[H]) + setting.centre
            losses += setting.known[i, FACTOR] * setting.loss.value(z, setting.known[i, Y])
    return 0.5 * setting.lam * scalars[SQ] + losses / batches.size
