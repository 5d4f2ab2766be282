"""Solutions for a list of values of C, each from the one before, as cross-validation needs them: many and not exact."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators.stored import StoredKernel
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.programs import Program as StoredProgram
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.active_set.face import HIGH, LOW, Program
from maxmargin.solvers.kernels.active_set.state import ActiveSetState, Phase
from maxmargin.solvers.kernels.block_descent import FIRST_BLOCK, Course, descend, room_for
from maxmargin.threads import go_on

LARGEST_BLOCK, MOST_BLOCKS = 512, 1_000_000
Pairs: TypeAlias = tuple[Float, Index, Float, Float, Float, int, Float, Float]
FACTORISATIONS = 5.0  # that steps on pairs may cost before the active set is tried
LAST_FACTORISATIONS, LAST_PIECES = 50.0, 20  # that they may cost after it, in pieces between which they can be given up
FACTOR_SHARE, FACTOR_BASE = 1.0 / 30.0, 3e5  # of the cube of free variables: a factorisation in kernel values read
ROUNDS = 15  # of the active set before pairs have to do it after all
SHARE_OF_ENOUGH = 0.1  # of the violation that is enough for pairs: the active set stops there


def along_strengths(qp: BoxQP, K: Float, Cs: Float, enough: float) -> tuple[Float, Float]:
    """The expansions over the samples, one row for each ``C`` of an ascending list, and the multipliers.

    ``qp`` has the box for ``C = 1``, at most one sum, which is zero, and no diagonal; ``K`` is its stored matrix. No
    pair of variables violates optimality by more than ``enough``. Steps on pairs start from the last solution, scaled;
    where they take long, the active set ends them, and goes on from its partition as long as that works.
    """
    a, f = np.zeros(qp.q.size), np.zeros(K.shape[0])
    variables, b = np.empty((Cs.size, a.size)), np.empty(Cs.size)
    pairs = K, qp.sample, qp.q, qp.low, qp.high, qp.totals.size, a, f
    c = 0
    while c < Cs.size:
        go_on()
        c = _pairs_along(*pairs, c, False, Cs, enough, FACTORISATIONS, variables, b)
        if c < Cs.size:
            first = c
            c, solved = _active_set_along(qp, K, a, f, c, Cs, enough, variables, b)
            if not solved:
                c = _pairs_at_last(qp, pairs, c, c == first, Cs, enough, variables, b)
    return expansions(qp, variables), b


def _pairs_at_last(
    qp: BoxQP, pairs: Pairs, c: int, scaled: bool, Cs: Float, enough: float, variables: Float, b: Float
) -> int:
    """Steps on pairs for one value as long as they may take; the next value. Sets: ``variables, b`` and the pairs' own.

    A kernel that is not convex, or values that round more than ``enough``, may have no end: the last point has to do.
    """
    a, f = pairs[-2:]
    for _ in range(LAST_PIECES):
        go_on()
        if _pairs_along(*pairs, c, scaled, Cs[: c + 1], enough, LAST_FACTORISATIONS, variables, b) > c:
            return c + 1
        scaled = True
    variables[c], b[c] = a, _multiplier(qp.q - f[qp.sample], a, Cs[c] * qp.low, Cs[c] * qp.high, qp.totals.size)
    return c + 1


def expansions(qp: BoxQP, variables: Float) -> Float:
    """Coefficients of the samples, from rows of variables."""
    if qp.q.size == qp.gram.n_samples:
        return variables
    return np.array([qp.expansion(a) for a in variables])


def _active_set_along(
    qp: BoxQP, K: Float, a: Float, f: Float, c: int, Cs: Float, enough: float, variables: Float, b: Float
) -> tuple[int, bool]:
    """As far as the active set gets; the first value that is not solved. Sets: ``a, f, variables, b``."""
    size = float(np.abs(qp.q).max(initial=0.0))
    program = Program(K, qp.sample, qp.q, qp.D, qp.low, qp.high, qp.group, qp.totals, float(K.diagonal().mean()))
    state = ActiveSetState(
        qp=qp, program=program._replace(low=Cs[c] * qp.low, high=Cs[c] * qp.high), a=a.copy(), f=f.copy(),
        phase=Phase.MANY, precision=SHARE_OF_ENOUGH * enough / max(size, 1e-300), rounds=ROUNDS,
    )  # fmt: skip
    while True:
        go_on()
        state.change_many()
        if state.phase is not Phase.DONE:
            return c, False
        a[:], f[:] = state.a, state.f
        variables[c], b[c] = a, _multiplier(qp.q - f[qp.sample], a, Cs[c] * qp.low, Cs[c] * qp.high, qp.totals.size)
        c += 1
        if c == Cs.size:
            return c, True
        if not _at_a_bound(a, Cs[c - 1] * qp.low, Cs[c - 1] * qp.high):
            return c, True
        low, high = Cs[c] * qp.low, Cs[c] * qp.high
        ratio = Cs[c] / Cs[c - 1]
        state = replace(
            state, program=program._replace(low=low, high=high), phase=Phase.MANY, f=ratio * state.f,
            a=np.where(state.status == LOW, low, np.where(state.status == HIGH, high, ratio * state.a)),
        )  # fmt: skip


@compiled
def _pairs_along(
    K: Float, sample: Index, q: Float, low: Float, high: Float, groups: int, a: Float, f: Float, c: int, scaled: bool,
    Cs: Float, enough: float, factorisations: float, variables: Float, b: Float,
) -> int:  # fmt: skip
    """Steps on pairs for one ``C`` after the other; the first that is not solved within the budget.

    On entry ``a`` belongs to the value before, or is zero; or to this one already, if it is ``scaled``. Sets: ``a, f,
    variables, b``.
    """
    size = a.shape[0]
    zeros, totals, group = np.zeros(size), np.zeros(groups), np.zeros(size, dtype=np.int64)
    last, multiplier, everything = np.zeros(size, dtype=np.bool_), np.zeros(1), np.array([0, K.shape[0], 0, 0])
    samples, room = StoredKernel(K), np.zeros(room_for(size, 1))
    while c < Cs.shape[0]:
        before = Cs[c - 1] if c > 0 else 0.0
        least, most = Cs[c] * low, Cs[c] * high
        if c > 0 and not scaled:
            if not _at_a_bound(a, before * low, before * high):  # then no larger box changes anything
                variables[c], b[c] = a, b[c - 1]
                c += 1
                continue
            _scale(low, high, a, f, before, Cs[c])
        scaled = False
        free = 0
        for v in range(size):
            if least[v] < a[v] < most[v]:
                free += 1
        budget = factorisations * (FACTOR_SHARE * free**3 + FACTOR_BASE)
        program = StoredProgram(everything, sample, sample, q, zeros, least, most, group, totals, False)
        course = Course(0, FIRST_BLOCK, 0, 0.0, np.inf, -np.inf, False)
        course = descend(
            samples, program, a, f, last, multiplier, -1.0, course, LARGEST_BLOCK, MOST_BLOCKS, budget, room, enough
        )
        if not course.rests:
            return c
        variables[c] = a
        b[c] = _multiplier(_slopes(q, f, sample), a, least, most, groups)
        c += 1
    return c


@compiled
def _slopes(q: Float, f: Float, sample: Index) -> Float:
    e = np.empty(q.shape[0])
    for v in range(q.shape[0]):
        e[v] = q[v] - f[sample[v]]
    return e


@compiled
def _at_a_bound(a: Float, low: Float, high: Float) -> bool:
    """Whether any variable with a part is at a bound."""
    found = False
    for v in range(a.shape[0]):
        found = found or (a[v] != 0.0 and (a[v] <= low[v] or a[v] >= high[v]))
    return found


@compiled
def _scale(low: Float, high: Float, a: Float, f: Float, before: float, C: float) -> None:
    """Grow with the box; what was at a bound is there exactly. Sets: ``a, f``."""
    if before <= 0.0:
        return
    ratio = C / before
    for v in range(a.shape[0]):
        if a[v] >= before * high[v]:
            a[v] = C * high[v]
        elif a[v] <= before * low[v]:
            a[v] = C * low[v]
        else:
            a[v] *= ratio
    for i in range(f.shape[0]):
        f[i] *= ratio


@compiled
def _multiplier(e: Float, a: Float, low: Float, high: Float, groups: int) -> float:
    """As LIBSVM's: the mean slope of the free variables, or the middle of what the others allow."""
    if groups == 0:
        return 0.0
    total, count, highest, lowest = 0.0, 0, -np.inf, np.inf
    for v in range(a.shape[0]):
        if low[v] < a[v] < high[v]:
            total += e[v]
            count += 1
        elif low[v] < high[v] and a[v] <= low[v]:
            highest = max(highest, e[v])
        elif low[v] < high[v]:
            lowest = min(lowest, e[v])
    if count:
        return total / count
    if highest > -np.inf and lowest < np.inf:
        return 0.5 * (highest + lowest)
    return highest if highest > -np.inf else lowest if lowest < np.inf else 0.0
