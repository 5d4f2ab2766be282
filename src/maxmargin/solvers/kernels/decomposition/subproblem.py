"""A block as a quadratic program of its own, for any solver of such programs: "solve by any method"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.operators import PrecomputedGram
from maxmargin.operators.row_cache import RowCache
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.decomposition.variables import Active, Order
from maxmargin.solvers.solver import AnySolver

ROUNDS = 200  # of an inner solver on one block, at most
ITERATIONS = 100_000  # of one round, at most


def refusal(subsolver: AnySolver, qp: BoxQP) -> str | None:
    """Why a solver cannot take the blocks of a program; ``None`` if it can."""
    few = np.concatenate([np.flatnonzero(qp.group == g)[:2] for g in range(max(1, qp.totals.size))] or [np.arange(1)])
    few = few if qp.totals.size else np.arange(min(2, qp.q.size))
    own = block_program(qp, few, np.eye(few.size), np.arange(few.size), np.zeros(few.size), qp.q[few])
    reason = subsolver.supports(own)
    return None if reason is None else f"its subsolver {subsolver.name!r} cannot solve its blocks: {reason}"


def block_program(qp: BoxQP, variables: Index, K: Float, sample: Index, a: Float, slope: Float) -> BoxQP:
    """The program over some variables, the others being as they are.

    ``min a_B^T Q_BB a_B / 2 - (q_B - Q_BN a_N)^T a_B``: the linear term has the sign of the whole program's. What
    belongs to the others is read off the present slopes, ``q - Q a`` at the variables ``a``.
    """
    groups = np.unique(qp.group[variables]) if qp.totals.size else np.zeros(0, dtype=np.int64)
    group = np.searchsorted(groups, qp.group[variables]) if groups.size else np.zeros(variables.size, dtype=np.int64)
    totals = np.array([a[group == g].sum() for g in range(groups.size)])
    own = BoxQP(
        PrecomputedGram(K), slope, qp.low[variables], qp.high[variables], qp.D[variables], sample, group, totals
    )
    return replace(own, q=slope + (K @ own.expansion(a))[sample] + own.D * a)


def solve_block(
    subsolver: AnySolver, qp: BoxQP, active: Active, order: Order, cache: RowCache, block: Index, slots: Index,
    row_of: Index, tolerance: float,
) -> int:  # fmt: skip
    """Minimise over the variables of a block by a solver; its iterations, 0 if it gained nothing. Sets: ``active.a``.

    ``slots`` are those of the rows of its samples, and ``row_of`` says which of these belongs to which variable.
    """
    place = np.zeros(slots.size, dtype=np.int64)
    place[row_of] = active.column[block]
    K = cache.rows[slots][:, place].astype(np.float64)
    a = active.a[block]
    own = block_program(qp, active.variable[block], 0.5 * (K + K.T), row_of, a, order.e[block])
    state = subsolver.start(own, Point(own.expansion(a), 0.0, a))
    value, best = _value(own, a), a
    for _ in range(ROUNDS):
        state = subsolver.advance(own, state, ITERATIONS)
        alpha = subsolver.point(own, state).alpha
        assert alpha is not None
        found = own.feasible(alpha)
        if (reached := _value(own, found)) < value:
            value, best = reached, found
        if state.exhausted or _violation(own, best) <= tolerance:
            break
    if best is a:
        return 0
    active.a[block] = best
    return max(1, state.iterations)


def _value(qp: BoxQP, a: Float) -> float:
    return float(a @ (0.5 * qp.scores(a) + 0.5 * qp.D * a - qp.q))


def _violation(qp: BoxQP, a: Float) -> float:
    """By how much two variables of a group, or one that is in none, disagree with their bounds."""
    e = qp.q - qp.scores(a) - qp.D * a
    up, down = np.where(a < qp.high, e, -np.inf), np.where(a > qp.low, e, np.inf)
    if not qp.totals.size:
        return max(0.0, float(up.max()), -float(down.min()))
    groups = [qp.group == g for g in range(qp.totals.size)]
    return max(float(up[g].max() - down[g].min()) for g in groups)
