"""What the active-set method carries from round to round, and the method with many changes at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from maxmargin.operators.stored import StoredKernel
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.programs import Program as StoredProgram
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.active_set.face import (
    DEPENDENT,
    FREE,
    HIGH,
    LOW,
    Face,
    Program,
    add_rows,
    bring_up_to_date,
    gather,
)
from maxmargin.solvers.kernels.active_set.loops import OPTIMAL, STUCK, admit_all, exchange
from maxmargin.solvers.kernels.block_descent import FIRST_BLOCK, Course, descend, room_for
from maxmargin.solvers.solver import State

PRECISION = 4e-15  # of the slopes, relative to their size: smaller violations are rounding
DRIFT_CHANGES = 10_000  # between two looks at what rounding has done to the updated factor
MOST_DRIFT = 1e-10  # of the largest entry of the matrix; with more the factor is made anew
ROUNDS = 40  # with many changes at once
PATIENCE = 6  # rounds in which the number of changes does not fall; then it will not
JITTER = 2e-11  # of the diagonal, for variables that depend on each other
REFINEMENTS = 3  # of a solution of linear equations
EXCHANGES = 2_000_000  # kernel values times changes that a round is worth, and ...
FEWEST_CHANGES = 16  # ... at least so many changes
ROUGH = 1e-3  # relative gap at which the partition is nearly known
LARGEST_BLOCK, ROUGH_BLOCKS, ROUGH_WORK = 512, 24, 3e7  # of steps on pairs, before the first linear equations


def stored_program(p: Program) -> StoredProgram:
    """The same program, as steps on pairs like it."""
    everything = np.array([0, p.K.shape[0], 0, 0])
    return StoredProgram(everything, p.sample, p.sample, p.q, p.D, p.low, p.high, p.group, p.totals, False)


class Phase(Enum):
    """Where a fit is: the parts follow each other."""

    ROUGH = auto()  # steps on pairs until the partition is nearly known
    MANY = auto()  # many changes at once
    ONE = auto()  # one change at a time
    DONE = auto()


@dataclass(kw_only=True)
class ActiveSetState(State):
    """Variables ``a`` with the scores ``f == K @ qp.expansion(a)``, and where each of them is.

    ``m`` variables are in the face, with a factor of their matrix that is updated; none before it is needed.
    """

    qp: BoxQP
    program: Program
    a: Float
    f: Float
    phase: Phase
    status: Array = None  # type: ignore[assignment]
    face: Face | None = None
    m: int = 0
    changes: int = 0  # of the updated factor
    checked_at: int = 0
    drift: float = 0.0  # the largest that was seen
    idle: int = 0
    attempts: int = 0  # to get more digits, after everything was done
    precision: float = PRECISION  # of the slopes, relative to their size: smaller violations are none
    rounds: int = ROUNDS  # with many changes at once
    dependent: bool = False  # whether free variables depended on each other in a round before

    def __post_init__(self) -> None:
        p = self.program
        self.status = np.where(self.a <= p.low, LOW, np.where(self.a >= p.high, HIGH, FREE)).astype(np.int8)

    @property
    def exhausted(self) -> bool:
        """Whether the partition is that of the optimum, as far as float64 can tell."""
        return self.phase is Phase.DONE and self.attempts > 0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the stored matrix, changes of the updated factor, its drift, and negative curvature that was met.

        The last is relative to the diagonal; less than 0 means that the kernel is not positive semi-definite.
        """
        least = 0.0 if self.face is None else float(self.face.least_curvature[0])
        return {"passes": self.passes, "changes": float(self.changes), "drift": self.drift, "least_curvature": least}

    @property
    def least(self) -> float:
        """Violations up to this are rounding."""
        p = self.program
        return self.precision * max(float(np.abs(p.q).max(initial=0.0)), float(np.abs(self.f).max(initial=0.0)), 1e-300)

    def begin_roughly(self, limit: int) -> None:
        """Steps on pairs, in one compiled call. Sets: ``a, f, status, phase``."""
        p = self.program
        b = np.zeros(max(1, p.totals.size))
        course = descend(
            StoredKernel(p.K), stored_program(p), self.a, self.f, np.zeros(self.a.size, dtype=np.bool_), b, ROUGH,
            Course(0, FIRST_BLOCK, 0, 0.0, np.inf, -np.inf, False), LARGEST_BLOCK, min(limit, ROUGH_BLOCKS), ROUGH_WORK,
            np.zeros(room_for(self.a.size, b.size)), 0.0,
        )  # fmt: skip
        self.iterations += course.blocks
        self.passes += course.blocks * min(1.0, FIRST_BLOCK / max(1, p.K.shape[0]))
        self.__post_init__()
        self.phase = Phase.MANY

    def change_many(self) -> None:
        """Rounds with many changes; where they lead nowhere, all is as it was. Sets: ``a, f, status, phase``."""
        before = self.a.copy(), self.f.copy(), self.status.copy()
        best, patience = self.a.size + 1, PATIENCE
        for _ in range(self.rounds):
            self.iterations += 1
            changes = self._round()
            if changes == 0:
                np.clip(self.a, self.program.low, self.program.high, out=self.a)
                self.phase = Phase.DONE
                return
            patience = PATIENCE if 0 < changes < best else patience - 1
            best = min(best, changes) if changes > 0 else best
            if changes < 0 or patience <= 0:
                break
        self.a, self.f, self.status = before
        self.phase = Phase.ONE

    def _round(self) -> int:
        """The minimum over the free variables; those beyond a bound stay there, those that violate optimality become
        free. Returns how many did; -1 if there is no such minimum. Sets: ``a, f, status``.
        """
        p, a = self.program, self.a
        free = np.flatnonzero(self.status == FREE)
        factor = None if self.dependent else self._factor_of(free)
        if factor is None:  # duplicates, as a rule, which stay: refinement makes up for the jitter
            self.dependent = True
            factor = self._factor_of(free, JITTER)
        if factor is None:
            return -1
        b = self._solve(free, factor)
        if b is None:
            return -1
        e = p.q - self.f[p.sample] - p.D * a
        offset = b[p.group] if b.size else 0.0
        slack = e - offset
        below, above = free[a[free] < p.low[free]], free[a[free] > p.high[free]]
        movable = p.low < p.high
        least = self.least
        entering = np.flatnonzero(
            movable & (((self.status == LOW) & (slack > least)) | ((self.status == HIGH) & (slack < -least)))
        )
        if below.size + above.size:
            out = np.concatenate([below, above])
            bounds = np.concatenate([p.low[below], p.high[above]])
            self._shift(out, bounds - a[out])
            a[out] = bounds
        self.status[below], self.status[above], self.status[entering] = LOW, HIGH, FREE
        return int(below.size + above.size + entering.size)

    def _factor_of(self, free: Index, jitter: float = 0.0) -> Float | None:
        """The factor of the matrix of the free variables; ``None`` if it is singular, as far as float64 can tell."""
        M = np.empty((free.size, free.size))
        gather(self.program, free, M)
        if not free.size:
            return M
        diagonal = M.diagonal().copy()
        if jitter:
            M[np.diag_indices_from(M)] += jitter * diagonal
        factor, failed = dpotrf(M.T, lower=1, overwrite_a=1, clean=0)
        self.passes += free.size / max(1, self.program.K.shape[0])
        regular = not failed and bool((factor.diagonal() ** 2 > DEPENDENT * diagonal).all())
        return cast("Float", factor) if regular else None

    def _solve(self, free: Index, factor: Float) -> Float | None:
        """To the minimum over the free variables, wherever it is; the multipliers. Sets: ``a, f``."""
        p, a = self.program, self.a
        groups = p.totals.size
        members = [np.flatnonzero(p.group[free] == g) for g in range(groups)]
        b, indicators = np.zeros(groups), np.zeros((free.size, groups), order="F")
        used = [g for g in range(groups) if members[g].size]
        for g in used:
            indicators[members[g], g] = 1.0
        Z = dpotrs(factor, indicators, lower=1)[0] if used else indicators
        A = np.array([[Z[members[g], h].sum() for h in used] for g in used]).reshape(len(used), len(used))
        missing = np.array([p.totals[g] - a[p.group == g].sum() for g in range(groups)])
        if any(abs(missing[g]) > 1e-12 * (1.0 + abs(p.totals[g])) for g in set(range(groups)) - set(used)):
            return None
        for _ in range(REFINEMENTS if free.size else 0):
            slope = p.q[free] - self.f[p.sample[free]] - p.D[free] * a[free]
            step = dpotrs(factor, slope, lower=1)[0]
            if used:
                ahead = np.array([step[members[g]].sum() for g in used])
                b[used] = np.linalg.solve(A, ahead - missing[used])
                step = step - Z[:, used] @ b[used]
            self._shift(free, step)
            a[free] += step
            if not np.isfinite(step).all():
                return None
            missing = np.array([p.totals[g] - a[p.group == g].sum() for g in range(groups)])
            if np.abs(step).max() <= 1e-13 * np.abs(a[free]).max():
                break
        for g in set(range(groups)) - set(used):
            b[g] = self._middle(g)
        return b

    def _middle(self, g: int) -> float:
        """A multiplier of a group without free variables."""
        p = self.program
        e = p.q - self.f[p.sample] - p.D * self.a
        mine = (p.group == g) & (p.low < p.high)
        highest = float(e[mine & (self.status == LOW)].max(initial=-np.inf))
        lowest = float(e[mine & (self.status == HIGH)].min(initial=np.inf))
        if not np.isfinite([highest, lowest]).all():
            return highest if np.isfinite(highest) else lowest if np.isfinite(lowest) else 0.0
        return 0.5 * (highest + lowest)

    def _shift(self, variables: Index, change: Float) -> None:
        """Bring the scores up to date. Sets: ``f``."""
        add_rows(self.program.K, self.program.sample[variables], np.ascontiguousarray(change), self.f)
        self.passes += variables.size / max(1, self.program.K.shape[0])

    def change_one_by_one(self, limit: int) -> None:
        """Changes of the updated factor, one at a time. Sets: ``a, f, status, phase``, the face."""
        p = self.program
        face = self.face_of_free()
        share = max(FEWEST_CHANGES, EXCHANGES // max(1, self.a.size + self.m * self.m))
        least = self.least
        worthless = least * float(np.abs(self.a).sum()) / max(1, self.a.size)
        self.m, changes, verdict, self.idle = exchange(
            p, face, self.a, self.f, self.status, self.m, least, worthless, min(limit, share), self.idle
        )
        self.changes += changes
        self.iterations += max(1, changes)
        self.passes += changes * self.m / max(1, p.K.shape[0])
        if self.changes - self.checked_at >= DRIFT_CHANGES or verdict != 0:
            self._check_drift(face)
        if verdict in (OPTIMAL, STUCK):
            self.phase = Phase.DONE

    def face_of_free(self) -> Face:
        """The face of the free variables; if there is none yet, with a fresh factor. Sets: ``face, m, status``."""
        if self.face is not None:
            return self.face
        p, size = self.program, self.a.size
        groups = max(1, p.totals.size)
        self.face = Face(
            R=np.empty((size, size)),
            free=np.empty(size, dtype=np.int64),
            pull=np.empty(size),
            step=np.empty(size),
            column=np.empty(size),
            sums=np.empty((groups, size)),
            moved=np.zeros(size),
            missing=np.zeros(p.totals.size),
            b=np.zeros(groups),
            least_curvature=np.zeros(1),
            barred=np.zeros(size, dtype=np.bool_),
        )
        self._fresh_factor(self.face, np.flatnonzero(self.status == FREE))
        return self.face

    def _fresh_factor(self, face: Face, free: Index) -> None:
        """Sets: ``m`` and the face; where variables depend on each other, some of them go to a bound."""
        factor = self._factor_of(free)
        if factor is None:
            self.m = admit_all(self.program, face, self.a, self.f, self.status, free)
            return
        self.m = free.size
        face.R[: self.m, : self.m] = factor.T
        face.free[: self.m] = free
        bring_up_to_date(self.program, face, self.m, self.a, self.f)

    def _check_drift(self, face: Face) -> None:
        """Compare the updated factor with the matrix; if rounding has spoilt it, make it anew. Sets: ``drift``."""
        self.checked_at = self.changes
        free, R = face.free[: self.m].copy(), np.triu(face.R[: self.m, : self.m])
        M = np.zeros((self.m, self.m))
        gather(self.program, free, M)
        size = float(np.abs(M.diagonal()).max(initial=0.0))
        drift = float(np.abs(np.triu(R.T @ R - M)).max(initial=0.0)) / max(size, 1e-300)
        self.drift = max(self.drift, drift)
        if drift > MOST_DRIFT or drift != drift:
            self._fresh_factor(face, free)

    def look_again(self) -> None:
        """More digits: the scores from scratch, and the linear equations once more. Sets: ``a, f, phase``."""
        self.attempts += 1
        self.iterations += 1
        self.f = self.program.K @ self.qp.expansion(self.a)
        self.passes += 1.0
        before = self.a.copy(), self.f.copy(), self.status.copy()
        changes = self._round()
        if changes != 0:
            self.a, self.f, self.status = before
            if self.face is None and self.attempts == 1:
                self.phase = Phase.ONE
