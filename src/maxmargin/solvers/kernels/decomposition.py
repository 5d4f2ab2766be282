"""Block decomposition for kernel machines: the fast solver."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods, larger, smaller
from maxmargin.numerics.bisection import middle_minimiser
from maxmargin.operators.row_cache import RowCache
from maxmargin.problems.box_qp import BoxQP, response
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem, balanced
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

FIRST_BLOCK = 64  # small at first, while all violations look alike; doubled after every other block
CHUNK = 64  # variables of a block are scanned in chunks of this size, so that the search for an index is short
FAR = 1e30  # stands for infinity in the block's arithmetic
PADDING = 16  # values between rows of a block: without it rows of 4096 bytes compete for the same cache lines
ROUND_WORK = 60_000_000  # values read or computed per round: about a tenth of a second
STEP_WORK = 200_000  # of every step, whatever its size
EVALUATION_WORK = 3  # a kernel value costs as much as reading so many
INNER_TOLERANCE = 0.1  # of a block, relative to the violation that it was chosen for
STEPS_PER_VARIABLE = 50  # of a block, at most
SHRINK_AGE = 4  # a sample is left out after so many blocks in the middle of the order
SHRINK_SHARE = 0.35  # worth the copying if so many can be left out at once
PRECISE_SAMPLES = 256  # so few samples cost nothing: they are solved to the last digit
DOUBLE_SAMPLES = 1024  # up to here, float64 costs little
ROUNDING = 1e-14  # of the gradient, relative to its size: no step is worth less
ROUNDING_OF_VALUES = 2.0  # of a kernel value, in units of the last place of the largest
DRIFT_SHARE = 0.1  # of the violation: with more rounding in the gradient, it is recomputed
FACE_MISSES = 8  # with more rows missing in the last block, the set of support vectors is not known yet
FACE_PATIENCE = 4  # blocks before all free variables are tried at once; doubles if that gains less
FACE_DROPS = 100  # variables that may leave the face before all are looked at again
FACE_SOLVED = 3000  # variables, over all systems that are solved on one face
FACE_STEPS = 10  # of conjugate gradients between two looks at all variables
DIRECT_VARIABLES = 500  # so few free variables are solved for directly
FACE_ACCURACY = 0.1  # reduction of the residual that is enough for now
WORTHLESS = 1e-12  # relative gain of the dual value
REFRESH_EVERY = 20  # blocks; if needed more often, rounding has the upper hand


@dataclass(frozen=True)
class Decomposition(Solver[Problem | BoxQP, "DecompositionState"]):
    """Block decomposition.

    Problem: a ``BoxQP``, ``min a^T Q a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem`` whose
    dual has that form: hinge-type and insensitive losses with a kernel.

    Method: sort the gradient; the variables at its two ends that can move towards the middle form, together with the
    newer half of the last block, a block of ``block_size`` variables. Their kernel rows come from a cache of at most
    ``max_memory`` MB or are computed together by matrix products. The block's own problem is solved by pairs chosen by
    second-order information; then the gradient is updated with all its rows at once. Samples that stay in the middle
    are left out, and the rows stored without their columns. Before anything is claimed, their part of the gradient is
    computed and checked. Kernel values are float32 and the gradient float64: it is recomputed in float64 where the
    rounding of the former begins to matter, and if that is not enough the rows become float64 too.

    Cost: a block is ``O(block_size * active)`` plus ``O(d * active)`` for each missing row.

    ``tol`` is a hint at the relative gap that is wanted: left-out samples are brought back when it seems reached.

    Reference: Joachims, "Making large-scale SVM learning practical", 1998; Fan, Chen, Lin, "Working set selection using
    second order information for training SVMs", 2005; Wen et al., "ThunderSVM", 2018.
    """

    block_size: int = 512
    shrinking: bool = True
    max_memory: float = 1000.0
    tol: float = 1e-3

    name: ClassVar[str] = "decomposition"
    needs: ClassVar[Needs] = Needs("kernel")

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> DecompositionState:
        """A feasible point near zero, or near a given one."""
        qp = problem if isinstance(problem, BoxQP) else BoxQP.of(problem)
        a = np.zeros_like(qp.q)
        if warm is not None and warm.alpha is not None:
            a = warm.alpha.copy() if warm.alpha.size == a.size else warm.alpha[qp.sample]
        return DecompositionState(qp, self, qp.feasible(a))

    def advance(self, problem: Problem | BoxQP, state: DecompositionState, limit: int) -> DecompositionState:
        """Blocks until the round's work is spent or the wanted gap seems to be reached."""
        state.answer_doubts()
        stop, last = state.work + ROUND_WORK, state.iterations + limit
        while state.work < stop and state.iterations < last and not state.exhausted:
            state.step()
            if state.seems_done() and state.synchronise():
                state.claimed = True
                break
        return state

    def point(self, problem: Problem | BoxQP, state: DecompositionState) -> Point:
        """The variables, and the best multiplier for them as the intercept."""
        qp, a = state.qp, state.variables()
        beta = qp.expansion(a)
        _, _, b = qp.values(a, state.scores())
        if isinstance(problem, BoxQP):
            return Point(beta / qp.lam, float(b[0]) if b.size else 0.0, a.copy())
        intercept = float(b[0]) if b.size else qp.shift * float(beta.sum())
        if qp.totals.size:
            beta = balanced(beta)  # or the certificate would do it, and could not use one product for both values
        return Point(beta / qp.lam, intercept, beta)


@dataclass
class _Active:
    """The variables in play, side by side in memory: scans over them are what a block costs if no row is missing."""

    variable: Index  # their numbers
    column: Index  # of their sample in the cache
    a: Float
    q: Float
    low: Float
    high: Float
    D: Float
    group: Index
    age: Index  # blocks for which they have been in the middle of the order

    @classmethod
    def of(cls, qp: BoxQP, a: Float, column: Index) -> _Active:
        """The variables whose sample has a column."""
        v = np.flatnonzero(column[qp.sample] >= 0)
        age = np.zeros(v.size, dtype=np.int64)
        return cls(v, column[qp.sample[v]], a[v], qp.q[v], qp.low[v], qp.high[v], qp.D[v], qp.group[v], age)


class DecompositionState(State):
    """After every step ``live`` is ``K a`` for the active samples, up to rounding, of which ``drift`` is an estimate.

    ``f`` holds the scores of the samples that are left out, and ``left_out`` lists them by generation: the samples, and
    the expansion to which their scores belong.
    """

    cache: RowCache
    active: _Active
    largest: float  # kernel value
    rounding: float  # of a kernel value
    flat: float  # a pair with less curvature counts as flat
    drift: float  # estimate of the rounding in ``live``
    exact_at: Float  # the variables for which ``live`` was computed in float64
    block_place: Index  # of each variable in the last block's matrix, or -1
    block_matrix: Array
    spare_matrix: Array

    def __init__(self, qp: BoxQP, options: Decomposition, a: Float) -> None:
        n = qp.gram.n_samples
        self.qp, self.options, self.a = qp, options, a
        self.iterations = self.pair_steps = self.refreshes = 0
        self.evaluations = self.hits = self.misses = 0  # past the present cache
        self.work = 0.0
        self.seconds: dict[str, float] = {}  # of each phase
        self.stuck = False
        self.claimed = False  # whether the last round ended with the wanted gap
        self.aim = 0.0 if n <= PRECISE_SAMPLES else 0.9 * options.tol
        self.last_block: Index = np.empty(0, dtype=np.int64)  # variables, the newest at the end
        self.missed = 0  # rows in the last block
        self.refreshed_at, self.refreshed_dual = 0, -math.inf
        self.face_yield = self.block_yield = 0.0  # gain of the dual value for a unit of work
        self.face_tried, self.face_patience = 0, FACE_PATIENCE  # iterations
        self.rest, self.rest_gap = (0.0, 0.0), 0.0  # primal and dual value of the variables that are left out
        self._open_cache(np.float64 if n <= DOUBLE_SAMPLES or not qp.gram.fits_single else np.float32)
        self.left_out: list[tuple[Index, Float]] = []
        self.f = self._sums(qp.expansion(a), np.arange(n), np.float64)
        self.live, self.exact_at = self.f.copy(), a.copy()
        self.take_stock()

    @property
    def exhausted(self) -> bool:
        """Whether no step is worth more than rounding errors."""
        return self.stuck

    @property
    def counters(self) -> dict[str, float]:
        """Kernel values, rows found in the cache and not, pair steps, samples in play, refreshes, memory, seconds."""
        n, evaluations = self.qp.gram.n_samples, float(self.evaluations + self.cache.evaluations)
        return {
            "passes": evaluations / max(1, n * n),
            "kernel_evaluations": evaluations,
            "cache_hits": float(self.hits + self.cache.hits),
            "cache_misses": float(self.misses + self.cache.misses),
            "pair_steps": float(self.pair_steps),
            "active": float(self.cache.columns.size),
            "refreshes": float(self.refreshes),
            "megabytes": self.cache.nbytes / 2**20,
            **{f"seconds_{name}": seconds for name, seconds in self.seconds.items()},
        }

    @property
    def certificate_passes(self) -> float:
        """Share of the kernel matrix that belongs to non-zero variables."""
        return float(np.count_nonzero(self.variables())) / max(1, self.a.size)

    @property
    def relative_gap(self) -> float:
        """The gap by the solver's own account."""
        return Certificate(self.primal, self.dual).relative_gap

    def variables(self) -> Float:
        """All variables."""
        self.a[self.active.variable] = self.active.a
        return self.a

    def scores(self) -> Float:
        """The score of every variable's sample; of those that are left out, the last known."""
        self.f[self.cache.columns] = self.live
        return self.f[self.qp.sample]

    def step(self) -> None:
        """Improve the variables, on a block or on the whole face, and see what that changes. Sets: everything."""
        dual, work = self.dual, self.work
        with self._phase("face"):
            on_the_face = self._face_is_due() and self._descend_face()
        if not on_the_face:
            self._improve_block()
        self.iterations += 1
        self.work += STEP_WORK
        with self._phase("choice"):
            self.take_stock()
        self._remember_yield(on_the_face, (self.dual - dual) / (self.work - work))
        if self.left_out and self.rest_gap > 0.5 * (self.primal - self.dual):  # the multiplier has moved, or more
            self._account_for_others()
            self.take_stock()
            if self.rest_gap > 0.5 * (self.primal - self.dual):
                self.synchronise()
        least = ROUNDING * self.size
        if self.drift > DRIFT_SHARE * max(self.violation, least):
            self._refresh()
        elif self.violation <= least:
            self.synchronise()
            self.stuck = self.violation <= least
        elif self.options.shrinking:
            with self._phase("shrink"):
                self._shrink()

    def _improve_block(self) -> None:
        """Choose a block and solve it. Sets: ``active.a``, ``live``."""
        active, cache = self.active, self.cache
        with self._phase("choice"):
            block = self._choose_block()
            rows, row_of = np.unique(self.qp.sample[active.variable[block]], return_inverse=True)
        misses = cache.misses
        with self._phase("kernel"):
            slots = cache.fetch(rows)
        before = active.a[block]
        with self._phase("block"):
            steps = self._solve_block(block, slots[row_of])
        with self._phase("update"):
            self._move(slots, _added_up(row_of, active.a[block] - before, rows.size))
        self.missed = cache.misses - misses
        self.pair_steps += steps
        self.work += cache.columns.size * (EVALUATION_WORK * self.missed + 16) + steps * block.size
        self.last_block = active.variable[block]

    def _move(self, slots: Index, change: Float) -> None:
        """Add rows to the scores. Sets: ``live, work``."""
        moved = np.flatnonzero(change)
        self.cache.add_rows(slots[moved], change[moved], self.live)
        self.work += moved.size * self.cache.columns.size

    def take_stock(self) -> None:
        """Look at every active variable. Sets: the order ``e``, its ends, ``violation``, ``primal``, ``dual``."""
        t, groups = self.active, self.qp.totals.size
        self.e, self.up, self.down = _order(t.a, self.live, t.column, t.q, t.D, t.low, t.high, t.group, groups)
        self.violation = max(0.0, float((self.up - self.down).max()))
        # The scores may cancel (nu machines), but not the rounding in them.
        self.size = max(float(np.abs(t.q).max(initial=0.0)), self.largest * float(np.sqrt(t.a @ t.a)), 1e-300)
        # A row is wrong by the same amount whenever it is added, so that only the sum of all moves counts.
        moved = self.variables() - self.exact_at
        self.drift = self.rounding * float(np.sqrt(moved @ moved))
        # Where no variable can rise, or none can fall, the other end serves as the multiplier.
        self.middle = np.zeros(self.up.size)
        for g, ends in enumerate(zip(self.up, self.down, strict=True)):
            self.middle[g] = np.mean([end for end in ends if math.isfinite(end)] or [0.0])
        if groups == 0:
            self.middle[:] = 0.0
            self.violation = max(0.0, float(self.up[0]), -float(self.down[0]))
        b = self.middle
        quadratic, linear, support = _values(t.a, self.e, t.q, t.D, t.low, t.high, t.group, b)
        self.primal = quadratic + support + float(b[:groups] @ self.qp.totals) + self.rest[0]
        self.dual = linear - quadratic + self.rest[1]

    def synchronise(self, dtype: Any = None) -> bool:
        """Bring the scores of the left-out samples up to date and those back that may have to move.

        Returns whether the wanted gap, now of the whole problem, is still reached.
        """
        if not self.left_out:
            return self.seems_done()
        with self._phase("others"):
            self._bring_back(self.cache.arena.dtype if dtype is None else dtype)
        self._account_for_others()
        self.take_stock()
        return self.seems_done()

    def _bring_back(self, dtype: Any) -> None:
        """Bring left-out samples up to date. Sets: ``f``, and what is active."""
        qp, beta = self.qp, self.qp.expansion(self.variables())
        for samples, since in self.left_out:
            change = beta - since
            self.f[samples] += self._sums(change, samples, dtype)
            self.work += EVALUATION_WORK * samples.size * np.count_nonzero(change)
        out = np.flatnonzero(self.cache.column < 0)
        others = _Active.of(qp, self.a, _columns_of(out, qp.gram.n_samples))
        e = others.q - others.D * others.a - self.f[out][others.column]
        stays = _in_the_middle(others.a, e, others.low, others.high, others.group, self.up, self.down)
        back = np.unique(qp.sample[others.variable[~stays]])
        if back.size:
            self.f[self.cache.columns] = self.live
            self.cache.widen(back)
            self.live = self.f[self.cache.columns]
            self.active = _Active.of(qp, self.a, self.cache.column)
        self.left_out = [(samples, beta)] if (samples := np.setdiff1d(out, back)).size else []

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Count the seconds of a part of the work."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def seems_done(self) -> bool:
        """Whether the wanted gap is reached as far as the solver can see."""
        return self.relative_gap <= self.aim

    def answer_doubts(self) -> None:
        """After a claim that the loop did not accept: rounding was underestimated, or the loop wants more."""
        if self.claimed:
            with self._phase("float64"):
                self._recompute()
            if self.left_out:  # their scores too, from scratch
                out = np.flatnonzero(self.cache.column < 0)
                self.f[out] = 0.0
                self.left_out = [(out, np.zeros(self.f.size))]
                self.synchronise(np.float64)
            if self.seems_done():
                self.aim *= 0.1
        self.claimed = False

    # ---- parts of a step ---------------------------------------------------------------------------------------------

    def _choose_block(self) -> Index:
        """Steepest feasible descent: both ends of the order, and the newer half of the last block."""
        active = self.active
        size = min(self.options.block_size, active.variable.size)
        if size == active.variable.size:
            return np.arange(size)
        if self.iterations < 16:
            size = min(size, FIRST_BLOCK << (self.iterations // 2))
        position = np.searchsorted(active.variable, self.last_block)
        position = np.minimum(position, active.variable.size - 1)
        kept = position[active.variable[position] == self.last_block][-(size // 2) :]
        rise, fall = _candidates(active.a, self.e, active.low, active.high, active.group, self.middle, kept)
        half = (size - kept.size) // 2
        top = _largest(rise, half)
        fall[top] = 0.0
        bottom = _largest(fall, size - kept.size - top.size)
        return np.concatenate([kept, top, bottom])

    def _solve_block(self, block: Index, slots: Index) -> int:
        """Minimise over the variables of a block by steps on pairs. Sets: ``active.a``. Returns the number of steps."""
        t, number = self.active, self.cache.arena.dtype.type
        groups = max(1, self.qp.totals.size)
        # By group, because pairs are taken within a group; then by column, because memory is read in that order.
        order = np.lexsort((t.column[block], t.group[block])) if groups > 1 else np.argsort(t.column[block])
        block, slots = block[order], slots[order]
        counts = np.bincount(t.group[block], minlength=groups)
        chunks = np.concatenate([[0], np.cumsum(-(-counts // CHUNK))])  # a group fills whole chunks
        place = np.arange(block.size) + np.repeat(CHUNK * chunks[:-1] - np.cumsum(counts) + counts, counts)
        K = self._block_matrix(block, slots, place, int(CHUNK * chunks[-1]))
        g = np.zeros(K.shape[0], dtype=K.dtype)
        g[place] = self.e[block] - self.middle[t.group[block]]
        a, low, high = (_placed(part[block], place, K.shape[0]) for part in (t.a, t.low, t.high))
        closed_up = np.where(a < high, number(0.0), number(-FAR))
        closed_down = np.where(a > low, number(0.0), number(FAR))
        ends = np.empty((2, K.shape[0] // CHUNK), dtype=K.dtype)
        tolerance = number(max(INNER_TOLERANCE * self.violation, 0.5 * ROUNDING * self.size))
        steps = _pair_steps(
            K, g, a, low, high, closed_up, closed_down, np.diagonal(K).copy(), np.empty_like(g),
            np.zeros(K.shape[1], dtype=K.dtype), ends, chunks, self.qp.totals.size, tolerance,
            STEPS_PER_VARIABLE * block.size, number(self.flat), number(FAR),
        )  # fmt: skip
        t.a[block] = a[place]
        return int(steps)

    def _block_matrix(self, block: Index, slots: Index, place: Index, size: int) -> Array:
        """The matrix of a block, with what the last block's matrix already has. Sets: ``block_matrix, block_place``."""
        t, last = self.active, self.block_matrix
        K = self.spare_matrix
        if K.shape[0] != size:
            K = np.empty((size, size + PADDING), dtype=last.dtype)
        K[:] = 0.0
        known = self.block_place[t.variable[block]]
        old, new = np.flatnonzero(known >= 0), np.flatnonzero(known < 0)
        rows, columns, D = self.cache.rows, t.column[block], t.D[block]

        def work(parts: Iterator[Index]) -> None:
            for part in parts:
                _gather(rows, slots, columns, D, place, part, K)

        self.qp.gram.workers.run(work, np.array_split(new, 4) if new.size >= 128 else [new])
        _copy_block(last, known, old, new, place, K)
        self.block_place[self.last_block] = -1
        self.block_place[t.variable[block]] = place
        self.block_matrix, self.spare_matrix = K, last
        return K

    def _shrink(self) -> None:
        """Leave out the samples that have been in the middle for some time, if they are many. Sets: the active ones."""
        t = self.active
        middle = _in_the_middle(t.a, self.e, t.low, t.high, t.group, self.up, self.down)
        t.age = np.where(middle, t.age + 1, 0)
        keep = np.zeros(self.cache.columns.size, dtype=bool)
        keep[t.column[t.age < SHRINK_AGE]] = True
        if keep.sum() >= (1.0 - SHRINK_SHARE) * keep.size:
            return
        self.variables()
        self.f[self.cache.columns] = self.live
        self.left_out.append((self.cache.columns[~keep], self.qp.expansion(self.a)))
        self.cache.narrow(keep)
        self.live = self.f[self.cache.columns]
        age = t.age[keep[t.column]]
        self.active = _Active.of(self.qp, self.a, self.cache.column)
        self.active.age = age
        self._account_for_others()
        self.take_stock()

    def _account_for_others(self) -> None:
        """Sets: ``rest``, what the variables that are left out add to the primal and dual value, and ``rest_gap``."""
        out = _Active.of(self.qp, self.a, _columns_of(np.flatnonzero(self.cache.column < 0), self.qp.gram.n_samples))
        f = self.f[self.qp.sample[out.variable]]
        e = out.q - out.D * out.a - f
        quadratic, linear, support = _values(out.a, e, out.q, out.D, out.low, out.high, out.group, self.middle)
        self.rest = float(quadratic + support), float(linear - quadratic)
        pull = e + out.D * out.a - self.middle[out.group]
        self.rest_gap = float(support - pull @ out.a + 0.5 * (out.D @ out.a**2))

    # ---- the face ----------------------------------------------------------------------------------------------------

    def _face_is_due(self) -> bool:
        """Whether to try all free variables at once: when no rows are missing, and as long as that yields more."""
        if self.missed > FACE_MISSES or self.iterations == 0:
            return False
        return self.face_yield > self.block_yield or self.iterations - self.face_tried >= self.face_patience

    def _remember_yield(self, on_the_face: bool, gained: float) -> None:
        """What a unit of work gained last. Sets: ``face_yield``, ``block_yield`` and when to try the face again."""
        if not on_the_face:
            self.block_yield = gained
            return
        good = gained > max(self.block_yield, 0.0)
        self.face_tried, self.face_yield = self.iterations, gained if good else -math.inf
        self.face_patience = FACE_PATIENCE if good else 2 * self.face_patience

    def _descend_face(self) -> bool:
        """Improve the variables between their bounds, all at once. Returns whether there was anything to do."""
        t = self.active
        free = np.flatnonzero((t.a > t.low) & (t.a < t.high))
        rows, row_of = np.unique(self.qp.sample[t.variable[free]], return_inverse=True)
        if free.size < 2 or rows.size > self.cache.capacity:
            self.face_tried, self.face_patience = self.iterations, 2 * self.face_patience
            return False
        slots = self.cache.fetch(rows)
        if free.size <= DIRECT_VARIABLES:
            self._solve_face(free, slots, row_of)
        else:
            self._conjugate_gradients(free, slots, row_of)
        return True

    def _solve_face(self, free: Index, slots: Index, row_of: Index) -> None:
        """Newton steps, solved directly; a variable that is in the way stops at its bound and leaves the face.

        Few variables may still be badly conditioned, and then steps on pairs take forever. Sets: ``active.a, live``.
        """
        t = self.active
        Q = self.cache.rows[slots[row_of]][:, t.column[free]].astype(np.float64) + np.diag(t.D[free])
        Q[np.diag_indices_from(Q)] += 1e-13 * np.trace(Q) / len(Q) + 1e-300
        a, e, low, high, group = t.a[free], self.e[free], t.low[free], t.high[free], t.group[free]
        inside = np.arange(free.size)
        for _ in range(min(FACE_DROPS, 2 + FACE_SOLVED // free.size)):
            p = self._newton_direction(Q[np.ix_(inside, inside)], e[inside], group[inside])
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(p > 0.0, high[inside] - a[inside], low[inside] - a[inside]) / p
            room[p == 0.0] = math.inf
            length = min(1.0, float(room.min(initial=math.inf)))
            e = e - Q[:, inside] @ (length * p)
            blocked = room <= length
            bound = np.where(p > 0.0, high[inside], low[inside])
            a[inside] = np.where(blocked, bound, np.clip(a[inside] + length * p, low[inside], high[inside]))
            inside = inside[~blocked]
            if length == 1.0 or inside.size < 2:
                break
            self.work += inside.size**2
        self._move(slots, _added_up(row_of, a - t.a[free], slots.size))
        t.a[free] = a

    def _newton_direction(self, Q: Float, e: Float, group: Index) -> Float:
        """The step to the minimum on the face, along which the sums of the groups do not change."""
        sums = np.array([group == g for g in range(self.qp.totals.size)], dtype=np.float64).reshape(-1, len(Q))
        sums = sums[sums.any(axis=1)]
        self.work += len(Q) ** 3 / 10
        try:
            solved = np.linalg.solve(Q, np.column_stack([e, sums.T]))
            multipliers = np.linalg.solve(sums @ solved[:, 1:], sums @ solved[:, 0])
        except np.linalg.LinAlgError:
            return self._along_face(e, group)
        p = self._along_face(solved[:, 0] - solved[:, 1:] @ multipliers, group)
        return p if np.isfinite(p).all() and float(p @ e) > 0.0 else self._along_face(e, group)

    def _conjugate_gradients(self, free: Index, slots: Index, row_of: Index) -> None:
        """Conjugate gradients up to the first bounds that are in the way.

        There the step is projected back, and shortened to the minimum along the way. Sets: ``active.a``, ``live``.
        """
        t, cache = self.active, self.cache
        a, e, low, high = t.a[free], self.e[free], t.low[free], t.high[free]
        column, D, group = t.column[free], t.D[free], t.group[free]

        def product(p: Float) -> Float:
            h = np.zeros(cache.columns.size)
            cache.add_rows(slots, _added_up(row_of, p, slots.size), h)
            self.work += slots.size * cache.columns.size
            return h

        p = r = self._along_face(e, group)
        rho = float(r @ r)
        enough = FACE_ACCURACY**2 * rho
        for _ in range(FACE_STEPS):
            h = product(p)
            curvature = float(p @ (h[column] + D * p))
            moving = np.flatnonzero(p)
            room = float((np.where(p > 0.0, high - a, low - a)[moving] / p[moving]).min(initial=math.inf))
            length = rho / curvature if curvature > self.flat * float(p @ p) else room
            if not (rho > 0.0 and math.isfinite(length)):
                break
            change, blocked = length * p, length >= room
            if blocked:
                change = self._onto_face(a + change, low, high, group, a) - a
                h = product(change)
                slope, curvature = float(e @ change), float(change @ (h[column] + D * change))
                if slope <= 0.0:
                    break
                length = min(1.0, slope / curvature) if curvature > 0.0 else 1.0
                change = change * length
            a = np.clip(a + change, low, high)
            self.live += length * h
            e = e - (length * h[column] + D * change)
            if blocked:
                break
            r, before = self._along_face(e, group), rho
            rho = float(r @ r)
            if rho <= enough:
                break
            p = r + (rho / before) * p
        t.a[free] = a

    def _along_face(self, e: Float, group: Index) -> Float:
        """The part of a direction that keeps the sums of the groups."""
        r = e.copy()
        for g in range(self.qp.totals.size):
            members = group == g
            if members.any():
                r[members] -= r[members].mean()
        return r

    def _onto_face(self, x: Float, low: Float, high: Float, group: Index, a: Float) -> Float:
        """The point of the box nearest to ``x`` where every group has the same sum as at ``a``."""
        x = x.copy()
        for g in range(self.qp.totals.size):
            members = np.flatnonzero(group == g)
            if members.size:
                part = x[members], low[members], high[members]
                scale = float(np.abs(part[0]).max() + np.abs(a[members]).max())
                x[members] -= middle_minimiser(_SumExcess(*part, float(a[members].sum())), scale)
        return np.clip(x, low, high)

    # ---- precision ---------------------------------------------------------------------------------------------------

    def _open_cache(self, dtype: Any) -> None:
        """A cache of rows in a precision, with a column for every sample. Sets: what depends on the precision."""
        qp, options = self.qp, self.options
        if hasattr(self, "cache"):
            self.evaluations += self.cache.evaluations
            self.hits, self.misses = self.hits + self.cache.hits, self.misses + self.cache.misses
        least = min(2 * options.block_size, qp.gram.n_samples)
        self.cache = RowCache(qp.gram, options.max_memory, 1.0 / qp.lam, qp.shift, dtype, least)
        self.active = _Active.of(qp, self.a, self.cache.column)
        self.largest = float(np.abs(qp.gram.diagonal()).max(initial=0.0)) / qp.lam + abs(qp.shift)
        unit = float(np.finfo(dtype).eps)
        self.rounding, self.flat = ROUNDING_OF_VALUES * unit * self.largest, unit * self.largest + 1e-300
        self.block_place = np.full(self.a.size, -1)
        self.block_matrix = self.spare_matrix = np.empty((0, 0), dtype=dtype)

    def _refresh(self) -> None:
        """Get rid of the rounding in the scores; if that was needed too often, go on with rows in float64.

        With float64 rows, a gradient that is all rounding means that nothing is left to gain.
        """
        too_often = self.refreshes > 0 and self.iterations - self.refreshed_at < REFRESH_EVERY
        gained = self.dual - self.refreshed_dual
        self.refreshed_at, self.refreshed_dual = self.iterations, self.dual
        if too_often and self.cache.arena.dtype == np.float32:
            self.variables()
            self._open_cache(np.float64)
            self.left_out, self.rest, self.rest_gap = [], (0.0, 0.0), 0.0
        elif too_often and gained <= WORTHLESS * abs(self.dual):
            self.synchronise()
            self.stuck = True
            return
        with self._phase("float64"):
            self._recompute()

    def _recompute(self) -> None:
        """The scores of the active samples, from scratch in float64. Sets: ``live``, and what depends on it."""
        self.refreshes += 1
        self.live = self._sums(self.qp.expansion(self.variables()), self.cache.columns, np.float64)
        self.exact_at = self.a.copy()
        self.take_stock()

    def _sums(self, beta: Float, samples: Index, dtype: Any) -> Float:
        """``(K / lam + shift) beta`` at some samples."""
        if not beta.any():
            return np.zeros(samples.size)
        gram = self.qp.gram
        self.evaluations += samples.size * int(np.count_nonzero(beta))
        everything = np.array_equal(samples, np.arange(gram.n_samples))
        columns = gram.columns(None if everything else samples, dtype)
        return gram.sums(beta, columns) / self.qp.lam + self.qp.shift * float(beta.sum())


def _added_up(row_of: Index, change: Float, rows: int) -> Float:
    """The change of each row: a sample may have two variables."""
    return np.bincount(row_of, weights=change, minlength=rows).astype(np.float64, copy=False)


def _columns_of(samples: Index, n: int) -> Index:
    """The number of each sample among the given ones, or -1."""
    column = np.full(n, -1)
    column[samples] = np.arange(samples.size)
    return column


def _largest(score: Float, count: int) -> Index:
    """Up to ``count`` places of the largest positive scores."""
    positive = np.flatnonzero(score > 0.0)
    if positive.size <= count:
        return positive
    return positive[np.argpartition(-score[positive], count - 1)[:count]]


def _placed(part: Float, place: Index, size: int) -> Float:
    """Values at their places in a padded array."""
    out = np.zeros(size)
    out[place] = part
    return out


@compiled_methods
class _SumExcess(NamedTuple):
    """The sum of the clipped ``x - b`` against a total, as a function of ``b``."""

    x: Float
    low: Float
    high: Float
    total: float

    def derivative(self, b: float) -> float:
        moved, size = 0.0, abs(self.total)
        for v in range(self.x.shape[0]):
            part = min(max(self.x[v] - b, self.low[v]), self.high[v])
            moved += part
            size += abs(part)
        return 0.0 if abs(self.total - moved) <= 1e-14 * size else self.total - moved


@compiled
def _order(
    a: Float, f: Float, column: Index, q: Float, D: Float, low: Float, high: Float, group: Index, groups: int
) -> tuple[Float, Float, Float]:
    """Minus the gradient, and per group its largest value where a variable may rise and smallest where it may fall."""
    e = np.empty(a.shape[0])
    up, down = np.full(max(groups, 1), -np.inf), np.full(max(groups, 1), np.inf)
    for v in range(a.shape[0]):
        e[v] = q[v] - D[v] * a[v] - f[column[v]]
        g = group[v] if groups > 1 else 0
        if a[v] < high[v] and e[v] > up[g]:
            up[g] = e[v]
        if a[v] > low[v] and e[v] < down[g]:
            down[g] = e[v]
    return e, up, down


@compiled
def _values(
    a: Float, e: Float, q: Float, D: Float, low: Float, high: Float, group: Index, b: Float
) -> tuple[float, float, float]:
    """Half the quadratic form, the linear minus the diagonal part of the dual, and the losses of the primal."""
    quadratic, linear, support = 0.0, 0.0, 0.0
    for v in range(a.shape[0]):
        r = e[v] + D[v] * a[v]  # q - f
        if a[v] != 0.0:
            quadratic += 0.5 * a[v] * (q[v] - r)
            linear += q[v] * a[v] - 0.5 * D[v] * a[v] * a[v]
        r -= b[group[v]]
        best = response(r, low[v], high[v], D[v])
        if best != 0.0:
            support += best * r
            if D[v] > 0.0:
                support -= 0.5 * D[v] * best * best
    return quadratic, linear, support


@compiled
def _candidates(
    a: Float, e: Float, low: Float, high: Float, group: Index, middle: Float, kept: Index
) -> tuple[Float, Float]:
    """By how much each variable would like to rise and to fall; zero for those that cannot or are in the block."""
    rise, fall = np.zeros(a.shape[0]), np.zeros(a.shape[0])
    for v in range(a.shape[0]):
        distance = e[v] - middle[group[v]]
        if a[v] < high[v] and distance > 0.0:
            rise[v] = distance
        if a[v] > low[v] and distance < 0.0:
            fall[v] = -distance
    for v in kept:
        rise[v] = 0.0
        fall[v] = 0.0
    return rise, fall


@compiled
def _in_the_middle(a: Float, e: Float, low: Float, high: Float, group: Index, up: Float, down: Float) -> Array:
    """Whether each variable is at a bound and pushed against it by more than any variable that can move."""
    out = np.empty(a.shape[0], dtype=np.bool_)
    for v in range(a.shape[0]):
        g = group[v] if up.shape[0] > 1 else 0
        stays_low = a[v] <= low[v] and e[v] < min(down[g], up[g])
        stays_high = a[v] >= high[v] and e[v] > max(up[g], down[g])
        out[v] = stays_low or stays_high or low[v] == high[v]
    return out


@compiled
def _gather(rows: Array, slots: Index, columns: Index, D: Float, place: Index, new: Index, K: Array) -> None:
    """The rows of a block's matrix that are new, each variable at its place. Sets: ``K``."""
    for i in new:
        source, target = rows[slots[i]], K[place[i]]
        for j in range(slots.shape[0]):
            target[place[j]] = source[columns[j]]
        target[place[i]] += D[i]


@compiled
def _copy_block(last: Array, known: Index, old: Index, new: Index, place: Index, K: Array) -> None:
    """The other rows, from the last block's matrix and by symmetry. Sets: ``K``.

    Reading a few columns of a stored row would bring most of it from memory.
    """
    for i in old:
        source, target = last[known[i]], K[place[i]]
        for k in old:
            target[place[k]] = source[known[k]]
        for k in new:
            target[place[k]] = K[place[k], place[i]]


@compiled
def _pair_steps(
    K: Array, g: Array, a: Float, low: Float, high: Float, closed_up: Array, closed_down: Array, diagonal: Array,
    gain: Array, nothing: Array, ends: Array, chunks: Index, groups: int, tolerance: Any, limit: int, flat: Any,
    far: Any,
) -> int:  # fmt: skip
    """Steps on pairs (single variables without groups) until the block is optimal. Sets: ``a, g``.

    ``g`` is minus the gradient, in the precision of ``K``; the variables themselves are float64. ``closed_up`` is
    hugely negative where a variable cannot rise and ``closed_down`` hugely positive where it cannot fall, so that the
    scans need no branches. ``nothing`` is a row of zeros; ``gain`` and ``ends`` are memory to work in.
    """
    zero = far - far
    top, bottom = ends[0], ends[1]
    _move(g, nothing, nothing, zero, closed_up, closed_down, top, bottom, far)
    for step in range(limit):
        against = nothing
        if groups == 0:
            i = _worst_single(g, closed_up, closed_down, tolerance)
            if i < 0:
                return step
            change = min(max(np.float64(g[i] / larger(diagonal[i], flat)), low[i] - a[i]), high[i] - a[i])
        else:
            i, group = _first_of_pair(g, closed_up, top, bottom, chunks, groups, tolerance, far)
            if i < 0:
                return step
            first, last = chunks[group], chunks[group + 1]
            j = _best_partner(g, K[i], g[i], diagonal[i], diagonal, closed_down, first, last, flat, gain)
            if j < 0:
                return step
            against = K[j]
            curvature = larger(diagonal[i] + diagonal[j] - (against[i] + against[i]), flat)
            change = min(np.float64((g[i] - g[j]) / curvature), min(high[i] - a[i], a[j] - low[j]))
            a[j] = low[j] if change >= a[j] - low[j] else a[j] - change
            closed_up[j] = zero
            closed_down[j] = zero if a[j] > low[j] else far
        target = a[i] + change
        a[i] = high[i] if change >= high[i] - a[i] else (low[i] if change <= low[i] - a[i] else target)
        closed_up[i] = zero if a[i] < high[i] else -far
        closed_down[i] = zero if a[i] > low[i] else far
        _move(g, K[i], against, g.dtype.type(change), closed_up, closed_down, top, bottom, far)
    return limit


@compiled
def _first_of_pair(
    g: Array, closed_up: Array, top: Array, bottom: Array, chunks: Index, groups: int, tolerance: Any, far: Any
) -> tuple[int, int]:
    """The variable that wants to rise most, in the group whose ends are farthest apart, and the group; or -1."""
    group, chunk, worst = 0, 0, -far
    for k in range(groups):
        highest, lowest, where = -far, far, 0
        for c in range(chunks[k], chunks[k + 1]):
            if top[c] > highest:
                highest, where = top[c], c
            lowest = smaller(lowest, bottom[c])
        if highest - lowest > worst:
            group, chunk, worst = k, where, highest - lowest
    if worst <= tolerance:
        return -1, group
    i = CHUNK * chunk
    for t in range(CHUNK * chunk + 1, CHUNK * chunk + CHUNK):
        if g[t] + closed_up[t] > g[i] + closed_up[i]:
            i = t
    return i, group


@compiled
def _move(
    g: Array, row: Array, against: Array, move: Any, closed_up: Array, closed_down: Array, top: Array, bottom: Array,
    far: Any,
) -> None:  # fmt: skip
    """``g -= move (row - against)`` and, per chunk, its ends. Sets: ``g, top, bottom``."""
    for c in range(top.shape[0]):
        highest, lowest = -far, far
        for t in range(CHUNK * c, CHUNK * c + CHUNK):
            value = g[t] - move * (row[t] - against[t])
            g[t] = value
            highest = larger(highest, value + closed_up[t])
            lowest = smaller(lowest, value + closed_down[t])
        top[c], bottom[c] = highest, lowest


@compiled
def _best_partner(
    g: Array, row: Array, g_i: Any, diagonal_i: Any, diagonal: Array, closed_down: Array, first: int, last: int,
    flat: Any, gain: Array,
) -> int:  # fmt: skip
    """The variable that, moved against the chosen one, lowers the objective most; -1 if none does. Sets: ``gain``."""
    zero = g_i - g_i
    best, where = zero, -1
    for c in range(first, last):
        most = zero
        for t in range(CHUNK * c, CHUNK * c + CHUNK):
            difference = larger(g_i - (g[t] + closed_down[t]), zero)
            curvature = larger(diagonal_i + diagonal[t] - (row[t] + row[t]), flat)
            value = difference * difference / curvature
            gain[t] = value
            most = larger(most, value)
        if most > best:
            best, where = most, c
    if where < 0:
        return -1
    j = CHUNK * where
    for t in range(CHUNK * where + 1, CHUNK * where + CHUNK):
        if gain[t] > gain[j]:
            j = t
    return j


@compiled
def _worst_single(g: Array, closed_up: Array, closed_down: Array, tolerance: Any) -> int:
    """The variable that violates optimality most; -1 if all are optimal."""
    worst, where = tolerance, -1
    for t in range(g.shape[0]):
        amount = larger(g[t] + closed_up[t], -(g[t] + closed_down[t]))
        if amount > worst:
            worst, where = amount, t
    return where
