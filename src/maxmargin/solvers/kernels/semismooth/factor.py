"""A float32 factor of the matrix of some variables, which stays useful while some of them come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import strsm, strsv
from scipy.linalg.lapack import dgetrf, dgetrs

from maxmargin._jit import compiled
from maxmargin.numerics.tiled_cholesky import factorise
from maxmargin.operators.arena import memory_for
from maxmargin.protocols import Array, Float, Index
from maxmargin.threads import Workers

JITTERS = 1e-6, 1e-4  # of the largest diagonal entry: what float32 needs to factorise matrices that are nearly singular
PIECE = 128  # rows or columns, which a thread has at a time
NO_SUM, LEFT, CAME = 0, 1, 2  # kinds of borders: a fixed sum, a variable that left, and one that came


class Matrix(NamedTuple):
    """The matrix of a program as a factor needs it: float32 kernel rows of some samples, and the diagonal beside them.

    ``row`` is where the kernel row of each variable's sample is, or -1.
    """

    rows: Array
    row: Index
    sample: Index
    D: Float
    workers: Workers

    def of(self, members: Index) -> Array:
        """The lower triangle of the matrix of some variables."""
        out = memory_for(None, members.size**2, np.float32).reshape(members.size, members.size)

        def work(parts: Iterator[int]) -> None:
            for first in parts:
                _gather(
                    self.rows, self.row[members[first : first + PIECE]], self.sample[members],
                    out[first : first + PIECE], first,
                )  # fmt: skip

        self.workers.run(work, range(0, members.size, PIECE))
        out[np.diag_indices(members.size)] += self.D[members].astype(np.float32)
        return out

    def between(self, some: Index, others: Index) -> Array:
        """The entries of two sets of variables."""
        out = np.empty((some.size, others.size), dtype=np.float32)
        _gather(self.rows, self.row[some], self.sample[others], out, others.size)
        same = some[:, None] == others[None, :] if self.D.any() else None
        return out if same is None else np.where(same, out + np.float32(1.0) * self.D[some][:, None], out).astype("f4")


class Factor:
    """``U^T U`` of the matrix of the ``members``, bordered by the sums of the groups and by what has changed since.

    A variable that left is held at zero by a multiplier; one that came is a border of its own. With ``W = U^-T B`` for
    the borders ``B`` and their own block ``E``, the solution needs only the small matrix ``E - W^T W`` besides. All of
    that is a preconditioner: the digits come from the residuals, which are computed in float64.
    """

    def __init__(self, matrix: Matrix, members: Index, group: Index, groups: int) -> None:
        self.matrix, self.members, self.group = matrix, members, group
        self.position = np.full(group.size, -1)
        self.position[members] = np.arange(members.size)
        self.regular = self._factorise()
        self.used = [g for g in range(groups) if (group[members] == g).any()]
        self.kinds, self.variables = np.full(len(self.used), NO_SUM), np.array(self.used, dtype=np.int64)
        self.W = np.empty((members.size, 0), dtype=np.float32, order="F")
        self.small = np.zeros((0, 0))
        if self.regular and self.used:
            B = np.zeros((members.size, len(self.used)), dtype=np.float32, order="F")
            for column, g in enumerate(self.used):
                B[group[members] == g, column] = 1.0
            self._append(B, np.zeros((len(self.used), len(self.used))))

    def _factorise(self) -> bool:
        """Whether that is possible. Sets: ``U``."""
        for jitter in JITTERS:
            M = self.matrix.of(self.members)
            M[np.diag_indices_from(M)] += jitter * M.diagonal().max(initial=0.0)
            if factorise(M, self.matrix.workers):
                self.U = M.T
                return True
        return False

    def follow(self, free: Index) -> None:
        """Make the free variables those of the borders. Sets: the borders."""
        is_free = np.zeros(self.position.size, dtype=bool)
        is_free[free] = True
        back = np.where(self.kinds == LEFT, is_free[self.variables], False)
        gone = np.where(self.kinds == CAME, ~is_free[self.variables], False)
        stays = ~(back | gone)
        self.kinds, self.variables = self.kinds[stays], self.variables[stays]
        self.W, self.small = np.asfortranarray(self.W[:, stays]), self.small[np.ix_(stays, stays)]
        known = np.zeros(self.position.size, dtype=bool)
        known[self.variables[self.kinds != NO_SUM]] = True
        left = self.members[~is_free[self.members] & ~known[self.members]]
        came = free[(self.position[free] < 0) & ~known[free]]
        if left.size:
            B = np.zeros((self.members.size, left.size), dtype=np.float32, order="F")
            B[self.position[left], np.arange(left.size)] = 1.0
            self._add(LEFT, left, B, np.zeros((self.kinds.size + left.size, left.size)))
        if came.size:
            own = np.zeros((self.kinds.size + came.size, came.size))
            for border, (kind, v) in enumerate(zip(self.kinds, self.variables, strict=True)):
                if kind == NO_SUM:
                    own[border] = self.group[came] == v
            before = np.flatnonzero(self.kinds == CAME)
            own[before] = self.matrix.between(self.variables[before], came)
            own[self.kinds.size :] = self.matrix.between(came, came)
            self._add(CAME, came, np.asfortranarray(self.matrix.between(came, self.members).T), own)

    def _add(self, kind: int, variables: Index, B: Array, own: Float) -> None:
        """Sets: the borders."""
        self.kinds = np.concatenate([self.kinds, np.full(variables.size, kind)])
        self.variables = np.concatenate([self.variables, variables])
        self._append(B, own)

    def _append(self, B: Array, own: Float) -> None:
        """Borders, with the last columns of their block. Sets: ``W, small``."""
        old, new = self.small.shape[0], B.shape[1]
        added = np.empty(B.shape, dtype=np.float32, order="F")

        def work(parts: Iterator[int]) -> None:
            for first in parts:
                piece = slice(first, first + PIECE)
                added[:, piece] = strsm(1.0, self.U, B[:, piece], lower=0, trans_a=1)

        self.matrix.workers.run(work, range(0, new, PIECE))
        self.W = np.concatenate([self.W, added], axis=1) if old else added
        self.W = np.asfortranarray(self.W)
        small = np.zeros((old + new, old + new))
        small[:old, :old] = self.small
        small[:, old:] = own - (self.W.T @ added).astype(np.float64)
        small[old:, :old] = small[:old, old:].T
        self.small = small

    @property
    def borders(self) -> int:
        """How many there are; the more, the slower it is to go on with this factor."""
        return int(self.kinds.size)

    def prepare(self) -> bool:
        """Whether the small matrix can be solved with. Sets: its factor."""
        if not self.borders:
            return True
        if not np.isfinite(self.small).all():
            return False
        self._lu, self._pivots, failed = dgetrf(self.small)
        return not failed

    def solve(self, r: Float, missing: Float) -> tuple[Float, Float]:
        """About the ``x`` with ``M x + b = r`` over the free variables, and ``b``; group sums of ``x`` are ``missing``.

        Both have an entry for each variable and each group; ``x`` is zero where variables are not free.
        """
        size = max(float(np.abs(r).max(initial=0.0)), float(np.abs(missing).max(initial=0.0)), 1e-300)
        right = (r[self.members] / size).astype(np.float32)
        right[self.position[self.variables[self.kinds == LEFT]]] = 0.0
        t = strsv(self.U, right, lower=0, trans=1)
        x, b, u = np.zeros(r.size), np.zeros(missing.size), np.zeros(0)
        if self.borders:
            g = np.zeros(self.borders)
            sums, came = self.kinds == NO_SUM, self.kinds == CAME
            g[sums], g[came] = missing[self.variables[sums]] / size, r[self.variables[came]] / size
            u = dgetrs(self._lu, self._pivots, g - self.W.T @ t)[0]
            t = t - self.W @ u.astype(np.float32)
            b[self.variables[sums]] = size * u[sums]
        x[self.members] = size * strsv(self.U, t, lower=0).astype(np.float64)
        if self.borders:
            x[self.variables[self.kinds == LEFT]] = 0.0
            x[self.variables[came]] = size * u[came]
        return x, b


@compiled
def _gather(rows: Array, some: Index, samples: Index, out: Array, diagonal: int) -> None:
    """Entries of stored rows up to a diagonal, which the first row meets at this column. Sets: ``out``."""
    for i in range(some.shape[0]):
        source, target = rows[some[i]], out[i]
        for j in range(min(diagonal + i + 1, samples.shape[0])):
            target[j] = source[samples[j]]
