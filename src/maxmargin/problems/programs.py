"""Several quadratic programs in one piece, and their certificates in compiled code.

A fit of ten classes has 45 programs over a few hundred samples each. To pose, to judge and to record them one by one
takes longer than to solve them; so their variables are laid out one after the other, for one compiled call. What is
computed here is what `BoxQP` computes: primal value, dual value, and bounds on the rounding errors of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators.stored import Rounding
from maxmargin.problems.box_qp import response
from maxmargin.protocols import Float, Index

MOST_KINKS = 100  # between good multipliers and the best ones

_growth = compiled(growth)


class Program(NamedTuple):
    """One quadratic program, as in `BoxQP` with ``lam = 1`` and the shift in the kernel, over a stretch of samples."""

    stretch: Index  # of the samples: first, count, second, count
    sample: Index  # of each variable, in the order of the stretch
    row: Index  # the same among all samples
    q: Float
    D: Float
    low: Float
    high: Float
    group: Index
    totals: Float
    of_tube: bool  # as in `BoxQP`


class Programs(NamedTuple):
    """Programs one after the other, whose variables begin at ``first`` and end where those of the next one begin.

    All have as many groups.
    """

    first: Index
    stretches: Index  # (programs, 4)
    sample: Index  # of each variable, in the order of its stretch
    q: Float
    D: Float
    low: Float
    high: Float
    group: Index
    totals: Float  # (programs, groups)
    of_losses: bool = True  # whether they are duals of sums of losses, whose intercept is judged as it is
    of_tube: bool = False


class Values(NamedTuple):
    """Primal and dual value of a program, and bounds on what rounding did to them."""

    primal: float
    dual: float
    primal_error: float
    dual_error: float


@compiled
def program_of(programs: Programs, k: int) -> Program:
    """One of them."""
    some = slice(programs.first[k], programs.first[k + 1])
    stretch, sample = programs.stretches[k], programs.sample[some]
    row = np.empty(sample.shape[0], dtype=np.int64)
    for v in range(sample.shape[0]):
        row[v] = sample[v] + (stretch[0] if sample[v] < stretch[1] else stretch[2] - stretch[1])
    return Program(
        stretch, sample, row, programs.q[some], programs.D[some], programs.low[some], programs.high[some],
        programs.group[some], programs.totals[k], programs.of_tube,
    )  # fmt: skip


@compiled
def gap_of(program: Program, a: Float, e: Float, b: Float) -> float:
    """The duality gap at variables with minus the gradient ``e``, and multipliers: zero where these answer."""
    gap, several = 0.0, b.shape[0] > 1
    for v in range(a.shape[0]):
        r = e[v] + program.D[v] * a[v] - (b[program.group[v]] if several else b[0])
        best = response(r, program.low[v], program.high[v], program.D[v])
        if best != a[v]:
            gap += (best - a[v]) * r
            if program.D[v] > 0.0:  # the box may be infinite otherwise
                gap -= 0.5 * program.D[v] * (best - a[v]) * (best + a[v])
    return gap


@compiled
def best_multipliers(program: Program, a: Float, e: Float, b: Float) -> tuple[float, float]:
    """The gap at good multipliers, and by how much variables of a group disagree about theirs. Sets: ``b``.

    They are the middle of what the variables of a group allow, or the mean of those that are free: whichever has the
    smaller gap. Where no variable can rise, or none can fall, that is the nearest multiplier. Without groups, ``b``
    is one zero.
    """
    groups, parts = program.totals.shape[0], b.shape[0]
    up, down = np.full(parts, -np.inf), np.full(parts, np.inf)
    sums, counts = np.zeros(parts), np.zeros(parts)
    for v in range(a.shape[0]):
        g = program.group[v] if parts > 1 else 0
        rises, falls = a[v] < program.high[v], a[v] > program.low[v]
        if rises and e[v] > up[g]:
            up[g] = e[v]
        if falls and e[v] < down[g]:
            down[g] = e[v]
        if rises and falls:
            sums[g] += e[v]
            counts[g] += 1.0
    violation = 0.0
    if groups == 0:
        b[0] = 0.0
        return gap_of(program, a, e, b), max(up[0], -down[0], 0.0)
    means, different = np.empty(parts), False
    for g in range(parts):
        violation = max(violation, up[g] - down[g])
        b[g] = 0.5 * (up[g] + down[g])
        if up[g] == -np.inf:
            b[g] = down[g] if down[g] < np.inf else 0.0
        elif down[g] == np.inf:
            b[g] = up[g]
        means[g] = sums[g] / counts[g] if counts[g] > 0.0 else b[g]
        different = different or means[g] != b[g]
    gap = gap_of(program, a, e, b)
    if different:
        other = gap_of(program, a, e, means)
        if other < gap:
            gap = other
            b[:] = means
    return gap, violation


@compiled
def settle(program: Program, a: Float, e: Float, b: Float) -> bool:
    """Whether good multipliers became the best ones within some steps; not with diagonal terms. Sets: ``b``.

    The primal value is convex and piecewise linear in each, with a kink where a variable would turn. From a good one,
    the next kink downhill is taken until none is lower.
    """
    if program.D.any():
        return False
    for g in range(program.totals.shape[0]):
        for _ in range(MOST_KINKS):
            left, right, size, up, down = program.totals[g], program.totals[g], 0.0, np.inf, -np.inf
            for v in range(a.shape[0]):
                if b.shape[0] > 1 and program.group[v] != g:
                    continue
                r, low, high = e[v] - b[g], program.low[v], program.high[v]
                left -= high if r >= 0.0 else low  # of the slope a little below, and a little above
                right -= high if r > 0.0 else low
                size += max(abs(high), abs(low))
                if low < high and r > 0.0:
                    up = min(up, e[v])
                elif low < high and r < 0.0:
                    down = max(down, e[v])
            if right < -1e-13 * size and up < np.inf:
                b[g] = up
            elif left > 1e-13 * size and down > -np.inf:
                b[g] = down
            else:
                break
        else:
            return False
    return not program.of_tube or b[0] >= b[1]


@compiled
def tidy(program: Program, a: Float) -> None:
    """Variables of two sides of a tube cancel, and sums have their totals as nearly as float64 allows. Sets: ``a``."""
    m, groups = a.shape[0], program.totals.shape[0]
    if groups < 2 and m == 2 * (program.stretch[1] + program.stretch[3]):
        half = m // 2
        for v in range(half):
            both = min(a[v], -a[v + half])
            if both > 0.0:
                a[v] -= both
                a[v + half] += both
    for g in range(groups):
        for _ in range(2):  # the second time nothing is left but what the first one rounded
            excess, room, freest = -program.totals[g], 0.0, -1
            for v in range(m):
                if groups < 2 or program.group[v] == g:
                    excess += a[v]
                    own = min(a[v] - program.low[v], program.high[v] - a[v])
                    if own > room:
                        room, freest = own, v
            if freest >= 0 and abs(excess) < room:
                a[freest] -= excess


@compiled
def error_of_scores(program: Program, rounding: Rounding, beta: Float) -> Float:
    """As `Gram.rounding`: a bound on the error of each score of an expansion ``beta`` over the stretch."""
    n, count, total, plain = beta.shape[0], 0, 0.0, 0.0
    start, split, second = program.stretch[0], program.stretch[1], program.stretch[2] - program.stretch[1]
    for i in range(n):
        if beta[i] != 0.0:
            count += 1
            plain += abs(beta[i])
            total += abs(beta[i]) * rounding.magnitudes[i + (start if i < split else second)]
    out, sums = np.empty(n), _growth(count + 8.0)
    for i in range(n):
        at = i + (start if i < split else second)
        share = rounding.shares[at] + sums
        out[i] = rounding.times * 1.000001 * share * rounding.magnitudes[at] * total
        out[i] += 0.5 * rounding.asymmetry * plain + 1e-300 * (1.0 + plain)
    return out


@compiled
def values_of(program: Program, a: Float, f: Float, slack: Float, b: Float) -> Values:
    """Primal and dual value at variables and multipliers, with the scores ``f`` that are wrong by up to ``slack``.

    As `BoxQP.values`, `BoxQP.primal_error` and `BoxQP.dual_error`.
    """
    m, groups = a.shape[0], program.totals.shape[0]
    quadratic, linear, bent, losses = 0.0, 0.0, 0.0, 0.0
    spread, products, of_losses, parts = 0.0, 0.0, 0.0, 0.0
    sums, sizes, steepest = np.zeros(b.shape[0]), np.zeros(b.shape[0]), np.zeros(b.shape[0])
    terms = _growth(float(m))
    for v in range(m):
        g = program.group[v] if groups > 1 else 0
        fa, own, size, D, q = f[program.sample[v]], slack[program.sample[v]], abs(a[v]), program.D[v], program.q[v]
        low, high = program.low[v], program.high[v]
        quadratic += a[v] * fa
        linear += q * a[v]
        bent += D * a[v] * a[v]
        spread += size * own
        products += size * abs(fa)
        parts += size * (abs(q) + 0.5 * abs(fa) + 0.5 * D * size)
        sums[g] += a[v]
        sizes[g] += size
        steepest[g] = max(steepest[g], abs(q - fa - D * a[v]) + own)
        r = q - fa - b[g]
        best = response(r, low, high, D)
        if best != 0.0:
            losses += best * r
            if D > 0.0:  # the box may be infinite otherwise
                losses -= 0.5 * D * best * best
        reach = own + 2.0 * DOUBLE * ((abs(q - fa) if fa != 0.0 else 0.0) + abs(r))
        most = max(abs(response(r - reach, low, high, D)), abs(response(r + reach, low, high, D)))
        if most > 0.0:
            of_losses += most * (reach + terms * (abs(r) + D * most))
    primal, offset, missing = 0.5 * quadratic + losses, 0.0, 0.0
    for g in range(groups):
        total = program.totals[g]
        primal += b[g] * total
        offset += abs(b[g] * total)
        missing += (abs(sums[g] - total) + terms * (sizes[g] + abs(total))) * steepest[g]
    primal_error = 0.5 * spread + 0.5 * terms * products + of_losses + terms * offset
    return Values(primal, linear - 0.5 * quadratic - 0.5 * bent, primal_error, 0.5 * spread + terms * parts + missing)
