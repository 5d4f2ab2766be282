"""A quadratic program as compiled loops see it, its free variables with the factor of their matrix, and its scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, inlined
from maxmargin.protocols import Array, Float, Index

LOW, HIGH, FREE = 0, 1, 2  # where a variable is
DEPENDENT = 1e-11  # of a diagonal entry: a row of which less is left depends on the others


class Program(NamedTuple):
    """``min a^T Q a / 2 - q^T a`` over a box with fixed sums of groups, as loops see it; ``K`` is stored."""

    K: Float
    sample: Index
    q: Float
    D: Float
    low: Float
    high: Float
    group: Index
    totals: Float
    ridge: float


class Face(NamedTuple):
    """The free variables with the factor of their matrix, in the order of its rows, and memory to work in."""

    R: Float
    free: Index
    pull: Float  # minus the gradient by each free variable
    step: Float
    column: Float
    sums: Float  # M^-1 times the indicator of each group
    moved: Float  # of every variable, since the scores were last brought up to date
    missing: Float  # from each sum, by rounding
    b: Float  # multipliers
    least_curvature: Float  # one number: the most negative one of a direction that was met, relative to the diagonal
    barred: Array  # variables that depend on the free ones and cannot enter until one of these has left


@inlined
def entry(p: Program, u: int, v: int) -> float:
    """``M[u, v]``."""
    value = p.K[p.sample[u], p.sample[v]]
    if u == v:
        value += p.D[u]
    if p.totals.shape[0] > 0 and p.group[u] == p.group[v]:
        value += p.ridge
    return value


@compiled
def gather(p: Program, members: Index, M: Float) -> None:
    """The upper triangle of the matrix of some variables. Sets: ``M``."""
    for i in range(members.shape[0]):
        u, row = members[i], M[i]
        source = p.K[p.sample[u]]
        for j in range(i, members.shape[0]):
            row[j] = source[p.sample[members[j]]]
        row[i] += p.D[u]
        if p.totals.shape[0] > 0:
            for j in range(i, members.shape[0]):
                if p.group[u] == p.group[members[j]]:
                    row[j] += p.ridge


@compiled
def add_rows(K: Float, rows: Index, weights: Float, f: Float) -> None:
    """Rows of a stored matrix times their weights, four at a time. Sets: ``f``."""
    k, count = 0, rows.shape[0]
    while k + 4 <= count:
        r0, r1, r2, r3 = K[rows[k]], K[rows[k + 1]], K[rows[k + 2]], K[rows[k + 3]]
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for t in range(f.shape[0]):
            f[t] += (w0 * r0[t] + w1 * r1[t]) + (w2 * r2[t] + w3 * r3[t])
        k += 4
    while k < count:
        r0, w0 = K[rows[k]], weights[k]
        for t in range(f.shape[0]):
            f[t] += w0 * r0[t]
        k += 1


@compiled
def bring_up_to_date(p: Program, face: Face, m: int, a: Float, f: Float) -> None:
    """The scores and slopes at the present variables. Sets: ``f``, ``moved``, ``missing``, ``pull`` of the face."""
    rows = np.flatnonzero(face.moved)
    add_rows(p.K, p.sample[rows], face.moved[rows], f)
    face.moved[:] = 0.0
    face.missing[:] = p.totals
    for v in range(a.shape[0]):
        if p.totals.shape[0] > 0:
            face.missing[p.group[v]] -= a[v]
    for i in range(m):
        v = face.free[i]
        face.pull[i] = p.q[v] - f[p.sample[v]] - p.D[v] * a[v]
