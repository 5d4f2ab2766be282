"""What block decomposition carries from step to step: the variables, their scores, the cached rows, the precision."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.operators.gram import Screened
from maxmargin.operators.row_cache import RowCache
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import estimated_gap
from maxmargin.protocols import Float, Index
from maxmargin.solvers.kernels.decomposition.block import Blocks
from maxmargin.solvers.kernels.decomposition.face import DIRECT_VARIABLES, MISSES, Face, Schedule, added_up
from maxmargin.solvers.kernels.decomposition.left_out import LeftOut
from maxmargin.solvers.kernels.decomposition.subproblem import solve_block
from maxmargin.solvers.kernels.decomposition.variables import Active, Anchor, Order
from maxmargin.solvers.solver import AnySolver, State

STEP_WORK = 200_000  # of every step, whatever its size
EVALUATION_WORK = 3  # a kernel value costs as much as reading so many
SCAN_WORK = 16  # values that are read for each sample in play when a block is chosen
INNER_TOLERANCE = 0.1  # of a block, relative to the violation that it was chosen for
SHRINK_AGE = 4  # a sample is left out after its variables have been settled for so many blocks
SHRINK_SHARE = 0.35  # of the samples in play: if fewer can be left out at once, that is not worth the copying
PRECISE_SAMPLES = 256  # so few samples cost nothing: they are solved to the last digit
DOUBLE_SAMPLES = 1024  # up to here, float64 costs little
OTHERS_SHARE = 0.5  # of the gap: with more of it in the samples that are left out, these are looked at again
ROUNDING = 1e-14  # of the gradient, relative to its size: no step is worth less
ROUNDING_OF_VALUES = 2.0  # of a kernel value, in units of the last place of the largest
DRIFT_SHARE = 0.1  # of the violation: with more rounding in the gradient, it is recomputed
MOST_OF_A_PRODUCT = 0.5  # of a whole product: as much work on what changed is better spent on the product
# Of Newton steps on all free variables: multiplications of a factorisation in the time in which a step on a block reads
# a value, and products with the rows of the free variables; measured with 6,000 of these, C=100 and 10,000.
FACTOR_STEPS, NEWTON_PRODUCTS = 100.0, 38.0
WORTHLESS = 1e-12  # relative gain of the dual value that is no gain
REFRESH_EVERY = 20  # blocks; if the gradient has to be recomputed more often, rounding has the upper hand


class Stopwatch:
    """Counts the seconds of each phase of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count what happens inside as a part of a phase."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - began


@dataclass(kw_only=True)
class DecompositionState(State):
    """After every step ``live`` is ``K a`` for the samples in play, up to rounding, of which ``drift`` is an estimate.

    Samples that are not in play are in ``left_out``.
    """

    qp: BoxQP
    a: Float  # the variables; those in play are up to date in ``active`` only
    block_size: int
    shrinking: bool
    max_memory: float
    tol: float
    subsolver: AnySolver | None = None  # of blocks; pairs if there is none

    cache: RowCache = field(init=False)
    active: Active = field(init=False)  # the variables in play
    blocks: Blocks = field(init=False)
    left_out: LeftOut = field(init=False)
    live: Float = field(init=False)  # scores of the samples in play
    order: Order = field(init=False)
    anchor: Anchor | None = None  # where the dual value is known; nowhere if all scores are newer
    schedule: Schedule = field(default_factory=Schedule)
    watch: Stopwatch = field(default_factory=Stopwatch)

    exhausted: bool = False  # whether no step is worth more than rounding errors
    claimed: bool = False  # whether the last round ended with the wanted gap
    aim: float = 0.0  # the relative gap at which this is claimed
    work: float = 0.0  # values that were read or computed
    missed: int = 0  # rows in the last block
    pair_steps: int = 0
    inner_iterations: int = 0  # of another solver on blocks

    first_gap: float = 0.0  # after the first step
    least_gap: float = math.inf
    ready: bool = False  # for linear equations over all free variables

    largest: float = field(init=False)  # kernel value
    rounding: float = field(init=False)  # of a kernel value
    flat: float = field(init=False)  # a pair with less curvature counts as flat
    size: float = field(init=False)  # of the gradient's parts
    drift: float = field(init=False)
    exact_at: Float = field(init=False)  # the variables for which ``live`` was computed in float64
    refreshes: int = 0
    refreshed_at: int = 0  # iteration
    refreshed_dual: float = -np.inf

    def __post_init__(self) -> None:
        gram = self.qp.gram
        self.aim = 0.0 if gram.n_samples <= PRECISE_SAMPLES else 0.9 * self.tol
        single = gram.n_samples > DOUBLE_SAMPLES and gram.fits_single
        self.cache = self._open_cache(np.float32 if single else np.float64)
        self.live = self._sums(self.qp.expansion(self.a), np.arange(gram.n_samples), np.float64)
        self.left_out, self.exact_at = LeftOut(self.qp, self.live.copy()), self.a.copy()
        self.take_stock()

    @property
    def counters(self) -> dict[str, float]:
        """Kernel values, rows found in the cache and not, pair steps, samples in play, refreshes, memory, seconds."""
        n, cache = self.qp.gram.n_samples, self.cache
        return {
            "passes": cache.evaluations / max(1, n * n),
            "kernel_evaluations": float(cache.evaluations),
            "cache_hits": float(cache.hits),
            "cache_misses": float(cache.misses),
            "pair_steps": float(self.pair_steps),
            "inner_iterations": float(self.inner_iterations),
            "active": float(cache.columns.size),
            "refreshes": float(self.refreshes),
            "megabytes": cache.nbytes / 2**20,
            **{f"seconds_{phase}": seconds for phase, seconds in self.watch.seconds.items()},
        }

    @property
    def effort(self) -> float:
        """All work so far, in passes; most of it is with stored rows in the end."""
        return self.work / (EVALUATION_WORK * max(1, self.qp.gram.n_samples) ** 2)

    @property
    def certificate_passes(self) -> float:
        """Share of the kernel matrix that belongs to non-zero variables."""
        return float(np.count_nonzero(self.variables())) / max(1, self.a.size)

    @property
    def relative_gap(self) -> float:
        """The gap by the solver's own account."""
        return estimated_gap(self.primal, self.dual)

    def seems_done(self) -> bool:
        """Whether the wanted gap is reached as far as the solver can see."""
        return self.relative_gap <= self.aim

    def variables(self) -> Float:
        """All variables."""
        a = self.a.copy()
        a[self.active.variable] = self.active.a
        return a

    def scores(self) -> Float:
        """The score of every variable's sample; of those that are left out, the last known."""
        f = self.left_out.f.copy()
        f[self.cache.columns] = self.live
        return f[self.qp.sample]

    # ---- a step ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Improve the variables, on a block or on the whole face, and see what that changes. Sets: everything."""
        dual, work = self.dual, self.work
        on_the_face = self.schedule.due(self.iterations, self.missed) and self._step_on_face()
        if not on_the_face:
            self._step_on_block()
        self.iterations += 1
        self.work += STEP_WORK
        with self.watch("choice"):
            self.take_stock()
        self.schedule.remember(on_the_face, self.iterations, (self.dual - dual) / (self.work - work))
        self._see_if_ready()
        if self._others_matter():
            self.synchronise()
        least = ROUNDING * self.size
        if self.drift > DRIFT_SHARE * max(self.order.violation, least):
            self._refresh()
        elif self.order.violation <= least:
            self.synchronise()
            self.exhausted = self.order.violation <= least
        elif self.shrinking:
            with self.watch("shrink"):
                self._shrink()

    def _see_if_ready(self) -> None:
        """Whether Newton steps on all free variables would take less work than what is left. Sets: ``ready``.

        The logarithm of the gap falls at an even pace, so that what is left follows from what was done. Before most
        rows are known, the free variables change too much.
        """
        self.least_gap = min(self.least_gap, self.primal - self.dual)  # some steps on the face raise it for a while
        gap, wanted = self.least_gap, self.aim * abs(self.dual)
        self.first_gap = self.first_gap or gap
        free = int((self.active.rises & self.active.falls).sum())
        if self.missed > MISSES or free <= DIRECT_VARIABLES or not 0.0 < wanted < gap < self.first_gap < math.inf:
            self.ready = False
            return
        newton = free**3 / FACTOR_STEPS + NEWTON_PRODUCTS * free * self.a.size
        self.ready = newton * math.log(self.first_gap / gap) < self.work * math.log(gap / wanted)

    def _step_on_block(self) -> None:
        """Choose a block and solve it. Sets: ``active.a``, ``live``."""
        active, cache, misses = self.active, self.cache, self.cache.misses
        with self.watch("choice"):
            block = self.blocks.choose(active, self.order, self.iterations)
            rows, row_of = np.unique(self.qp.sample[active.variable[block]], return_inverse=True)
        with self.watch("kernel"):
            slots = cache.fetch(rows)
        before = active.a[block]
        with self.watch("block"):
            tolerance = max(INNER_TOLERANCE * self.order.violation, 0.5 * ROUNDING * self.size)
            steps = 0
            if self.subsolver is not None:
                steps = solve_block(self.subsolver, self.qp, active, self.order, cache, block, slots, row_of, tolerance)
                self.inner_iterations += steps
                self.blocks.last = active.variable[block]
            if steps == 0:
                steps = self.blocks.solve(active, self.order, cache, block, slots[row_of], tolerance, self.flat)
                self.pair_steps += steps
        with self.watch("update"):
            change = added_up(row_of, active.a[block] - before, rows.size)
            moved = np.flatnonzero(change)
            cache.add_rows(slots[moved], change[moved], self.live)
        self.missed = cache.misses - misses
        self.work += cache.columns.size * (EVALUATION_WORK * self.missed + SCAN_WORK + moved.size) + steps * block.size

    def _step_on_face(self) -> bool:
        """Improve all free variables at once; whether there was anything to do. Sets: ``active.a``, ``live``."""
        with self.watch("face"):
            face = Face.of(self.qp, self.active, self.order.e, self.cache)
            if face is None:
                self.schedule.postpone(self.iterations)
                return False
            face.improve(self.flat)
            self.active.a[face.free] = face.a
            self.live += face.moved
            self.work += face.work
            return True

    def take_stock(self) -> None:
        """Look at every variable in play. Sets: ``order, anchor, size, drift, primal, dual``."""
        t = self.active
        self.order = t.order(self.live)
        e, b = self.order.e, self.order.middle
        # The scores may cancel (nu machines), but not the rounding in them.
        self.size = max(float(np.abs(t.q).max(initial=0.0)), self.largest * float(np.sqrt(t.a @ t.a)), 1e-300)
        # A row is wrong by the same amount whenever it is added, so that only the sum of all moves counts.
        moved = self.variables() - self.exact_at
        self.drift = self.rounding * float(np.sqrt(moved @ moved))
        if self.anchor is None or not self.left_out:  # all scores are up to date
            self.anchor = Anchor(t.a.copy(), e, t.dual(e) + self.left_out.dual)
        self.dual = self.anchor.dual_at(t.a, e)
        self.left_out.account(b)  # the gap is that of one multiplier for all, those in play or not
        self.primal = self.dual + t.gap(e, b) + self.left_out.gap

    # ---- samples that are left out -----------------------------------------------------------------------------------

    def synchronise(self, dtype: DTypeLike | None = None) -> bool:
        """Bring the scores of the left-out samples up to date and those back that may have to move.

        Returns whether the wanted gap, now of the whole problem, is still reached.
        """
        if self.left_out:
            with self.watch("others"):
                self._bring_back(self.cache.arena.dtype if dtype is None else dtype)
            self.take_stock()
        return self.seems_done()

    def _bring_back(self, dtype: DTypeLike) -> None:
        """Bring left-out samples up to date. Sets: their scores, ``anchor``, and what is in play."""
        self.a, self.anchor = self.variables(), None
        beta = self.qp.expansion(self.a)
        screened = self._screened(beta) if dtype == np.float32 else None
        for samples, since in self.left_out.generations:
            change = beta - since
            if screened is not None:
                known = beta[samples] == 0.0
                scores = screened.scores[samples[known]] / self.qp.lam + self.qp.shift * float(beta.sum())
                self.left_out.f[samples[known]], samples = scores, samples[~known]
            self.left_out.f[samples] += self._sums(change, samples, dtype)
            self.work += EVALUATION_WORK * samples.size * np.count_nonzero(change)
        back = self.left_out.release(self.a, beta, self.order)
        if back.size:
            self.left_out.f[self.cache.columns] = self.live
            self.cache.widen(back)
            self.live = self.left_out.f[self.cache.columns]
            self.active = Active.of(self.qp, self.a, self.cache.column)

    def _screened(self, beta: Float) -> Screened | None:
        """All scores of samples without a coefficient, if that costs little more than what has changed in them.

        The certificate needs them next if the fit is at its end, and then they are there.
        """
        changed = sum(samples.size * np.count_nonzero(beta - since) for samples, since in self.left_out.generations)
        support = int(np.count_nonzero(beta))
        if not self.seems_done() or changed < MOST_OF_A_PRODUCT * support * (beta.size - support):
            return None
        return self.qp.gram.screened(beta)

    def _shrink(self) -> None:
        """Leave out the samples that have been settled for some time, if they are many. Sets: what is in play."""
        t, cache = self.active, self.cache
        t.age = np.where(t.settled(self.order, self.order.e), t.age + 1, 0)
        keep = np.zeros(cache.columns.size, dtype=bool)
        keep[t.column[t.age < SHRINK_AGE]] = True
        if keep.sum() >= (1.0 - SHRINK_SHARE) * keep.size:
            return
        self.a = self.variables()
        self.left_out.f[cache.columns] = self.live
        self.left_out.add(cache.columns[~keep], self.a, self.qp.expansion(self.a))
        stays = keep[t.column]
        age, self.anchor = t.age[stays], Anchor(t.a[stays], self.order.e[stays], self.dual)
        cache.narrow(keep)
        self.live = self.left_out.f[cache.columns]
        self.active = Active.of(self.qp, self.a, cache.column)
        self.active.age = age
        self.take_stock()

    def _others_matter(self) -> bool:
        """Whether most of the gap seems to be in the samples that are left out."""
        return bool(self.left_out) and self.left_out.gap > OTHERS_SHARE * (self.primal - self.dual)

    def answer_doubts(self) -> None:
        """After a claim that the loop did not accept: rounding was underestimated, or the loop wants more."""
        if self.claimed:
            self._recompute()
            if self.left_out:
                self.left_out.forget_scores()
                self.synchronise(np.float64)
            if self.seems_done():
                self.aim *= 0.1
        self.claimed = False

    # ---- precision ---------------------------------------------------------------------------------------------------

    def _open_cache(self, dtype: DTypeLike) -> RowCache:
        """A cache of rows in a precision, with a column for every sample. Sets: what depends on the precision."""
        qp = self.qp
        least = min(2 * self.block_size, qp.gram.n_samples)
        cache = RowCache(qp.gram, self.max_memory, 1.0 / qp.lam, qp.shift, dtype, least)
        self.active = Active.of(qp, self.a, cache.column)
        self.blocks = Blocks(self.a.size, self.block_size, dtype)
        self.largest = float(np.abs(qp.gram.diagonal()).max(initial=0.0)) / qp.lam + abs(qp.shift)
        unit = float(np.finfo(cache.arena.dtype).eps)
        self.rounding, self.flat = ROUNDING_OF_VALUES * unit * self.largest, unit * self.largest + 1e-300
        return cache

    def _refresh(self) -> None:
        """Get rid of the rounding in the scores; if that was needed too often, go on with rows in float64.

        With float64 rows, a gradient that is all rounding means that nothing is left to gain.
        """
        too_often = self.refreshes > 0 and self.iterations - self.refreshed_at < REFRESH_EVERY
        gained = self.dual - self.refreshed_dual
        self.refreshed_at, self.refreshed_dual = self.iterations, self.dual
        if too_often and self.cache.arena.dtype == np.float32:
            self.a = self.variables()
            past, self.cache = self.cache, self._open_cache(np.float64)
            self.cache.evaluations, self.cache.hits, self.cache.misses = past.evaluations, past.hits, past.misses
            self.left_out.clear()
        elif too_often and gained <= WORTHLESS * abs(self.dual):
            self.synchronise()
            self.exhausted = True
            return
        self._recompute()

    def _recompute(self) -> None:
        """The scores of the samples in play, from scratch in float64. Sets: ``live``, and what depends on it."""
        with self.watch("float64"):
            self.refreshes += 1
            self.exact_at = self.variables()
            self.live = self._sums(self.qp.expansion(self.exact_at), self.cache.columns, np.float64)
            self.take_stock()

    def _sums(self, beta: Float, samples: Index, dtype: DTypeLike) -> Float:
        """``(K / lam + shift) beta`` at some samples."""
        if not beta.any():
            return np.zeros(samples.size)
        gram = self.qp.gram
        self.cache.evaluations += samples.size * int(np.count_nonzero(beta))
        everything = np.array_equal(samples, np.arange(gram.n_samples))
        columns = gram.columns(None if everything else samples, dtype)
        return gram.sums(beta, columns) / self.qp.lam + self.qp.shift * float(beta.sum())
