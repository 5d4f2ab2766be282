"""The loop for small problems: all of a fit's are solved and judged in one compiled call.

It keeps the rules of `minimize`. A solver says how far it thinks it has come, and only the certificate, which is
computed from scratch with bounds on its rounding errors, concludes. What differs is what is left out: clocks,
callbacks, a history, and proofs of anything but a small gap. If one of the problems asks for more than that, or for
too much work, the call says so and nothing of it is used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin._jit import compiled
from maxmargin.operators.stored import Rounding
from maxmargin.problems.programs import (
    Program,
    Programs,
    best_multipliers,
    error_of_scores,
    program_of,
    settle,
    tidy,
    values_of,
)
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.block_descent import FIRST_BLOCK, Course, descend, room_for

SAFETY, DOUBTED = 0.9, 0.25  # of the wanted gap: the first aim, and each further one that of the last
ATTEMPTS = 5
SURELY = 1.0 - 1e-12  # of the tolerance: who forms the gap in another order finds it within
LARGEST_BLOCK = 1024
PRECISE_SAMPLES = 64  # so few cost nothing: they are solved to the last digit
FIRST_BLOCKS, HOPELESS = 32, 0.1  # of a problem: with a relative gap above this, the others would take longer
MOST_BLOCKS = 96  # of a problem: the others need steps on all free variables at once
MOST_WORK = 4e8  # kernel values that are read in one call: some tenths of a second
STRIDE = 0.6180339887498949  # of the samples that a start fills, so that they are spread evenly


class Found(NamedTuple):
    """Solutions of several programs."""

    solved: bool  # whether all of them converged; if not, the points up to the first that did not are starts for others
    a: Float  # the variables of one program after the other
    expansions: Float  # (programs, samples), by the numbers of the samples in the order that was given
    multipliers: Float  # (programs, groups)
    features: Float  # (programs, features): coefficients, if there are features
    values: Float  # (programs, 4): primal and dual value, and the error of each
    gaps: Float  # relative, with the errors
    blocks: Index


def solve_programs(
    samples: Any,
    rounding: Rounding,
    programs: Programs,
    order: Index,
    tol: float,
    d: int,
    most_work: float = MOST_WORK,
) -> Found:
    """Solve all of them to a certified relative gap of ``tol``.

    ``order`` holds the number of each sample of the stretches, and ``d`` is the number of features, if there are any.
    """
    count, groups = programs.stretches.shape[0], programs.totals.shape[1]
    expansions, features = np.zeros((count, order.size)), np.zeros((count, d))
    multipliers, values, gaps = np.zeros((count, max(1, groups))), np.empty((count, 4)), np.full(count, math.inf)
    a, blocks = np.zeros(programs.q.size), np.zeros(count, dtype=np.int64)
    solved = _solve_all(
        samples,
        rounding,
        tuple(programs),
        order,
        tol,
        most_work,
        a,
        expansions,
        multipliers,
        features,
        values,
        gaps,
        blocks,
    )
    return Found(solved, a, expansions, multipliers, features, values, gaps, blocks)


@compiled
def _solve_all(
    samples: Any, rounding: Rounding, parts: Any, order: Index, tol: float, most_work: float, a: Float,
    expansions: Float, multipliers: Float, features: Float, values: Float, gaps: Float, blocks: Index,
) -> bool:  # fmt: skip
    """Sets: all from ``a`` on. Whether all were solved; the first that was not ends it.

    The programs come as an ordinary tuple, since numba takes microseconds to look at one with names.
    """
    programs, work, most = Programs(*parts), 0.0, 0
    for k in range(blocks.shape[0]):
        most = max(most, programs.first[k + 1] - programs.first[k])
    room = np.zeros(room_for(most, multipliers.shape[1]))
    for k in range(blocks.shape[0]):
        program, own = program_of(programs, k), a[programs.first[k] : programs.first[k + 1]]
        course, beta = _solve_one(
            samples,
            rounding,
            program,
            own,
            multipliers[k],
            features[k],
            values[k],
            tol,
            most_work - work,
            room,
            programs.of_losses,
        )
        gaps[k] = relative_gap_of(values[k])
        blocks[k] = course.blocks
        work += course.work
        stretch = program.stretch
        for i in range(beta.shape[0]):
            at = i + (stretch[0] if i < stretch[1] else stretch[2] - stretch[1])
            expansions[k, order[at]] = beta[i]
        if not gaps[k] <= tol * SURELY:
            return False
    return True


@compiled
def _solve_one(
    samples: Any, rounding: Rounding, program: Program, a: Float, b: Float, w: Float, values: Float, tol: float,
    most_work: float, room: Float, of_losses: bool,
) -> tuple[Course, Float]:  # fmt: skip
    """One program: its course, and its expansion over the stretch. Sets: ``a, b, w, values``."""
    size = program.stretch[1] + program.stretch[3]
    sure, last, beta = False, np.zeros(a.shape[0], dtype=np.bool_), np.zeros(size)
    fill(program, a)
    f = _scores(samples, program, a, beta)
    course, aim = (
        Course(0, FIRST_BLOCK, 0, 0.0, np.inf, -np.inf, False),
        SAFETY * tol if size > PRECISE_SAMPLES else 0.0,
    )
    most_blocks = FIRST_BLOCKS
    for _ in range(ATTEMPTS):
        course = descend(samples, program, a, f, last, b, aim, course, LARGEST_BLOCK, most_blocks, most_work, room, 0.0)
        near = course.primal - course.dual <= HOPELESS * max(abs(course.primal), abs(course.dual))
        if course.blocks >= most_blocks and near and most_blocks < MOST_BLOCKS:
            most_blocks = MOST_BLOCKS
            continue
        tidy(program, a)
        f = _scores(samples, program, a, beta)
        e = np.empty(a.shape[0])
        for v in range(a.shape[0]):
            e[v] = program.q[v] - program.D[v] * a[v] - f[program.sample[v]]
        best_multipliers(program, a, e, b)
        sure = of_losses or settle(program, a, e, b)
        found = values_of(program, a, f, error_of_scores(program, rounding, beta), b)
        values[0], values[1], values[2], values[3] = found.primal, found.dual, found.primal_error, found.dual_error
        if sure and relative_gap_of(values) <= tol * SURELY:
            break
        if course.rests or course.blocks >= most_blocks or course.work >= most_work:
            break
        aim *= DOUBTED
    if not sure:
        values[:] = np.nan
    w[:] = 0.0
    members, weights = _used(program, beta)
    samples.add_features(members, weights, w)
    return course, beta


@compiled
def relative_gap_of(values: Float) -> float:
    """As `Certificate.relative_gap`, of primal and dual value and the error of each; infinite if nothing is proved."""
    primal, dual = values[0], values[1]
    scale, sure = max(abs(primal), abs(dual)), primal - dual + values[2] + values[3]
    if not (sure < np.inf and sure >= 0.0):
        return np.inf
    if scale == 0.0:
        return 0.0 if sure == 0.0 else np.inf
    return sure / scale


@compiled
def fill(program: Program, a: Float) -> None:
    """A feasible point near zero: each group is filled up to its sum, variable by variable. Sets: ``a``.

    They are taken in an order that is spread evenly over the samples, and is the same for groups of the same size: the
    two sides of a tube begin as each other's mirror image, which is the function zero.
    """
    a[:] = 0.0
    groups = program.totals.shape[0]
    for g in range(groups):
        members = np.flatnonzero(program.group == g) if groups > 1 else np.arange(a.shape[0])
        m, missing = members.shape[0], program.totals[g]
        step = max(1, int(STRIDE * m))
        while _common_divisor(step, m) > 1:
            step += 1
        for t in range(m):
            v = members[t * step % m]
            if missing == 0.0:
                break
            a[v] = min(missing, program.high[v]) if missing > 0.0 else max(missing, program.low[v])
            missing -= a[v]


@compiled
def _common_divisor(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@compiled
def _scores(samples: Any, program: Program, a: Float, beta: Float) -> Float:
    """The score of each sample of the stretch, from scratch. Sets: ``beta``, the expansion."""
    f = np.zeros(beta.shape[0])
    beta[:] = 0.0
    for v in range(a.shape[0]):
        beta[program.sample[v]] += a[v]
    members, weights = _used(program, beta)
    samples.add_scores(members, weights, program.stretch, f)
    return f


@compiled
def _used(program: Program, beta: Float) -> tuple[Index, Float]:
    """The samples whose coefficients are not zero, by their numbers among all, and these."""
    members, weights, count = np.empty(beta.shape[0], dtype=np.int64), np.empty(beta.shape[0]), 0
    for i in range(beta.shape[0]):
        if beta[i] != 0.0:
            stretch = program.stretch
            members[count] = i + (stretch[0] if i < stretch[1] else stretch[2] - stretch[1])
            weights[count] = beta[i]
            count += 1
    return members[:count], weights[:count]
