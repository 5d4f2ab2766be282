"""Sequential minimal optimisation for kernel machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin._jit import compiled, inlined
from maxmargin.numerics.sampling import below, seeded
from maxmargin.operators.row_cache import BATCH, RowCache
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.finite_box import with_finite_box
from maxmargin.solvers.solver import Needs, Solver, State, check_options

ROUND_WORK = 20_000_000  # gradient entries that are updated in a round: tens of milliseconds
STEP_WORK = 1000  # entries that could be updated in the time that a step takes for few variables too
LEAST_STEPS = 100  # of a round, however many variables there are
ROUND_EVALUATIONS = 5_000_000  # kernel values that are computed in a round, for the end of which Ctrl-C waits
SHRINK_EVERY = 1000  # steps
TIGHTEN = 0.1  # factor on the inner tolerance once the whole problem meets it
PRECISION = 1e-14  # of the gradient, relative to its size: no step is worth less
DONE, MISSING, SPENT, LOST = 0, 1, 2, 3  # why the compiled loop came back: see `_pair_steps`
FLAT = 1e-12  # of the two diagonal entries: a pair with less curvature counts as flat
SECOND_ORDER, MAXIMAL_VIOLATION, RANDOM = 0, 1, 2
SELECTIONS = {"second_order": SECOND_ORDER, "maximal_violation": MAXIMAL_VIOLATION, "random": RANDOM}


@dataclass(frozen=True)
class SMO(Solver[Problem | BoxQP, "SMOState"]):
    """Sequential minimal optimisation.

    Problem: a ``BoxQP``, ``min a^T Q a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem`` whose
    dual has that form: hinge-type and insensitive losses with a kernel.

    Method: choose the variable ``i`` that violates optimality most and, in its group, the partner ``j`` with which
    the objective falls most by second-order information; move both along the constraint, to the minimum or to the
    nearest bound. Without groups one variable moves alone. Other choices are the partner that violates optimality most
    (``selection="maximal_violation"``), and any pair, or variable, that violates it by more than the inner tolerance,
    each as likely as any other (``"random"``, from ``seed``). Variables at a bound that are sure to stay there are left
    out (shrinking); once the rest is optimal to the inner tolerance, their gradient is brought up to date, all are
    checked, and the tolerance is tightened.

    Cost: one step is ``O(active)`` plus at most two kernel rows, ``O(n d)`` each, from a cache of ``max_memory`` MB.

    Reference: Fan, Chen, Lin, "Working set selection using second order information for training SVMs", JMLR 2005,
    WSS 3 and, of maximal violation, WSS 1; Keerthi, Gilbert, "Convergence of a generalized SMO algorithm for SVM
    classifier design", 2002, of any violating pair; Chang, Lin, "LIBSVM", 2013, sections 4 and 5.
    """

    shrinking: bool = True
    max_memory: float = 200.0
    selection: str = "second_order"
    seed: int = 0

    name: ClassVar[str] = "smo"
    needs: ClassVar[Needs] = Needs("kernel")

    def __post_init__(self) -> None:
        check_options(self, selection=SELECTIONS)

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> SMOState:
        """A feasible point near zero, or near a given one."""
        qp = with_finite_box(BoxQP.of(problem))
        a, cache = qp.near(warm), RowCache(qp.gram, self.max_memory, 1.0 / qp.lam, qp.shift)
        f, diagonal = cache.combine(qp.expansion(a)), qp.gram.diagonal() / qp.lam + qp.shift
        state = SMOState(
            qp=qp,
            a=a,
            G=f[qp.sample] + qp.D * a - qp.q,
            Qvv=diagonal[qp.sample] + qp.D,
            cache=cache,
            order=np.arange(a.size),
            active=a.size,
            selection=SELECTIONS[self.selection],
            random=seeded(self.seed),
        )
        state.checkpoint()
        state.tolerance = TIGHTEN * state.violation
        return state

    def advance(self, problem: Problem | BoxQP, state: SMOState, limit: int) -> SMOState:
        """Steps until the round's work is spent, with as many checks of the whole problem as come up."""
        budget = min(limit, max(LEAST_STEPS, ROUND_WORK // (state.a.size + STEP_WORK)))
        evaluations = state.cache.evaluations
        state.primal, state.dual = math.inf, -math.inf
        while budget > 0 and not state.exhausted and state.cache.evaluations - evaluations <= ROUND_EVALUATIONS:
            reason, wanted, steps = state.step(budget, self.shrinking)
            budget -= max(steps, int(reason == DONE))
            if reason == MISSING:
                state.cache.fetch(state.worth_fetching(wanted))
            elif reason == LOST:
                state.exhausted = True
            elif reason == DONE:
                state.synchronise()
                state.checkpoint()
                if state.violation <= state.tolerance:
                    state.exhausted = state.tolerance <= PRECISION * state.size
                    state.tolerance = max(TIGHTEN * state.violation, 0.5 * PRECISION * state.size)
            if reason != MISSING and not state.is_finite:
                state.go_back()
        return state

    def point(self, problem: Problem | BoxQP, state: SMOState) -> Point:
        """The variables, and the best multiplier for them as the intercept."""
        return state.qp.point(problem, state.a, state.gradient() + state.qp.q - state.qp.D * state.a)


@dataclass
class SMOState(State):
    """On exit of a round ``G == Q a - q`` for the active variables; after ``synchronise`` for all of them."""

    qp: BoxQP
    a: Float
    G: Float
    Qvv: Float
    cache: RowCache
    order: Index  # variables, the first ``active`` of them in play
    active: int
    selection: int
    random: Array
    tolerance: float = math.inf
    violation: float = math.inf
    size: float = 1.0  # of the entries of the gradient
    exhausted: bool = False
    since_shrink: int = 0  # steps
    a_synced: Float = field(init=False)  # variables, and their gradient, when all were active for the last time
    G_synced: Float = field(init=False)

    def __post_init__(self) -> None:
        self.a_synced, self.G_synced = self.a.copy(), self.G.copy()

    @property
    def counters(self) -> dict[str, float]:
        """Kernel evaluations, and the same in passes over the kernel matrix; variables that are not shrunk away."""
        n = self.qp.gram.n_samples
        return {
            "passes": self.cache.evaluations / max(1, n * n),
            "kernel_evaluations": float(self.cache.evaluations),
            "active": float(self.active),
        }

    @property
    def certificate_passes(self) -> float:
        """Share of the kernel matrix that belongs to non-zero variables."""
        return self.qp.gram.passes(self.qp.expansion(self.a))

    @property
    def is_finite(self) -> bool:
        """Whether the gradient has not overflown: no step would lead anywhere."""
        return bool(np.isfinite(self.G).all())

    def go_back(self) -> None:
        """To the last variables with a finite gradient, and no further. Sets: as `synchronise`, and ``exhausted``."""
        self.a, self.G = self.a_synced.copy(), self.G_synced.copy()
        self.active, self.exhausted = self.a.size, True
        self.order.sort()

    def step(self, budget: int, shrinking: bool) -> tuple[int, int, int]:
        """Run the compiled loop until it is done, lacks a kernel row, or has spent its budget."""
        qp, cache = self.qp, self.cache
        if shrinking and self.since_shrink >= min(self.a.size, SHRINK_EVERY):
            self.since_shrink = 0
            self.active = _shrink(self.G, self.a, qp.low, qp.high, qp.group, qp.totals.size, self.order, self.active)
        if shrinking:
            budget = min(budget, min(self.a.size, SHRINK_EVERY) - self.since_shrink)
        reason, wanted, steps = _pair_steps(
            self.G, self.a, qp.low, qp.high, self.Qvv, qp.D, qp.sample, qp.group, qp.totals.size,
            self.order, self.active, cache.rows, cache.slot, cache.used, cache.clock, self.tolerance, budget,
            self.selection, self.random,
        )  # fmt: skip
        self.iterations += steps
        self.since_shrink += steps
        return reason, wanted, steps

    def worth_fetching(self, wanted: int) -> Index:
        """The missing sample, and those of the worst violators that are missing too: they will be wanted next."""
        qp, members = self.qp, self.order[: self.active]
        up = np.where(self.a[members] < qp.high[members], self.G[members], np.inf)
        down = np.where(self.a[members] > qp.low[members], -self.G[members], np.inf)
        half = min(BATCH // 2, members.size)
        likely = np.concatenate([np.argpartition(up, half - 1)[:half], np.argpartition(down, half - 1)[:half]])
        samples = np.unique(qp.sample[members[likely]])
        samples = samples[(self.cache.slot[samples] < 0) & (samples != wanted)]
        return np.append(samples, wanted)

    def gradient(self) -> Float:
        """The gradient of all variables: that of those that were left out is brought up to date."""
        if self.active == self.a.size:
            return self.G
        qp, out, moved, G = self.qp, self.order[self.active :], self.a - self.a_synced, self.G.copy()
        f = self.cache.combine(qp.expansion(moved))
        G[out] = self.G_synced[out] + f[qp.sample[out]] + qp.D[out] * moved[out]
        return G

    def synchronise(self) -> None:
        """Let all variables be active again. Sets: ``G, order, active`` and what the next time begins with."""
        self.G, self.active = self.gradient(), self.a.size
        self.order.sort()
        if self.is_finite:
            self.a_synced, self.G_synced = self.a.copy(), self.G.copy()

    def checkpoint(self) -> None:
        """Take stock of the whole problem. Sets: ``violation, size, primal, dual``."""
        qp = self.qp
        self.primal, self.dual, _ = qp.values(self.a, self.G + qp.q - qp.D * self.a)
        self.size = max(float(np.abs(self.G + qp.q).max(initial=0.0)), float(np.abs(qp.q).max(initial=0.0)), 1e-300)
        self.violation = float(_violation(self.G, self.a, qp.low, qp.high, qp.group, qp.totals.size))


@compiled
def _pair_steps(
    G: Float, a: Float, low: Float, high: Float, Qvv: Float, D: Float, sample: Index, group: Index, groups: int,
    order: Index, active: int, rows: Float, slot: Index, used: Index, clock: Index, tolerance: float, budget: int,
    selection: int, random: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """Steps on pairs of active variables. Sets: ``G, a, random`` and the cache's ``used, clock``.

    Returns why they ended, a sample, and their number. ``DONE``: no variable violates optimality by more than the
    tolerance. ``MISSING``: the row of the sample is not in the cache. ``SPENT``: so were the steps. ``LOST``: the next
    step is not finite, as numbers have overflown or the program has no minimum; it was not made.
    """
    for steps in range(budget):
        i, violation = _most_violating(G, a, low, high, group, groups, order, active)
        if violation <= tolerance:
            return DONE, -1, steps
        before = random[0]  # where a row is missing, the same pair is wanted again
        if selection == RANDOM:
            i = _some_violating(G, a, low, high, group, groups, order, active, tolerance, random)
        if slot[sample[i]] < 0:
            random[0] = before
            return MISSING, sample[i], steps
        row_i = rows[slot[sample[i]]]
        clock[0] += 1
        used[slot[sample[i]]] = clock[0]
        if groups == 0:
            target = a[i] - G[i] / max(Qvv[i], FLAT * abs(Qvv[i]) + 1e-300)
            delta = min(max(target, low[i]), high[i]) - a[i]
            if not abs(delta) < math.inf:
                return LOST, -1, steps
            a[i] = low[i] if target <= low[i] else (high[i] if target >= high[i] else a[i] + delta)
            for k in range(active):
                v = order[k]
                G[v] += delta * row_i[sample[v]]
            G[i] += delta * D[i]
            continue
        if selection == SECOND_ORDER:
            j = _best_partner(i, row_i, G, a, low, Qvv, sample, group, order, active)
        else:
            j = _partner(i, G, a, low, group, order, active, tolerance, selection, random)
        if j < 0:
            return LOST, -1, steps
        if slot[sample[j]] < 0:
            random[0] = before
            return MISSING, sample[j], steps
        row_j = rows[slot[sample[j]]]
        used[slot[sample[j]]] = clock[0]
        delta = (G[j] - G[i]) / _curvature(Qvv[i], Qvv[j], row_i[sample[j]])
        room_i, room_j = high[i] - a[i], a[j] - low[j]
        delta = math.inf if math.isnan(delta) else min(delta, room_i, room_j)
        if not delta < math.inf:
            return LOST, -1, steps
        a[i] = high[i] if delta >= room_i else a[i] + delta
        a[j] = low[j] if delta >= room_j else a[j] - delta
        for k in range(active):
            v = order[k]
            G[v] += delta * (row_i[sample[v]] - row_j[sample[v]])
        G[i] += delta * D[i]
        G[j] -= delta * D[j]
    return SPENT, -1, budget


@inlined
def _curvature(first: float, second: float, between: float) -> float:
    """Of the objective along a pair; positive, also where rounding or an indefinite kernel leaves nothing of it."""
    return max(first + second - 2.0 * between, FLAT * (abs(first) + abs(second)) + 1e-300)


@compiled
def _most_violating(
    G: Float, a: Float, low: Float, high: Float, group: Index, groups: int, order: Index, active: int
) -> tuple[int, float]:
    """The variable to move first and by how much optimality is violated in its group (or by it alone)."""
    if groups == 0:
        best, worst = -1, 0.0
        for k in range(active):
            v = order[k]
            amount = abs(G[v]) if (a[v] < high[v] if G[v] < 0.0 else a[v] > low[v]) else 0.0
            if amount > worst:
                best, worst = v, amount
        return best, worst
    first, largest = -1, 0.0
    for g in range(groups):
        candidate, up, down = -1, -math.inf, math.inf
        for k in range(active):
            v = order[k]
            if group[v] == g:
                if a[v] < high[v] and -G[v] > up:
                    candidate, up = v, -G[v]
                if a[v] > low[v]:
                    down = min(down, -G[v])
        if up - down > largest:
            first, largest = candidate, up - down
    return first, largest


@compiled
def _best_partner(
    i: int, row: Float, G: Float, a: Float, low: Float, Qvv: Float, sample: Index, group: Index, order: Index,
    active: int,
) -> int:  # fmt: skip
    """The variable that may go down and, moved against ``i``, lowers the objective most."""
    best, most = -1, -1.0
    for k in range(active):
        v = order[k]
        difference = G[v] - G[i]
        if difference > 0.0 and a[v] > low[v] and group[v] == group[i]:
            gain = difference * difference / _curvature(Qvv[i], Qvv[v], row[sample[v]])
            if gain > most:
                best, most = v, gain
    return best


@compiled
def _partner(
    i: int, G: Float, a: Float, low: Float, group: Index, order: Index, active: int, tolerance: float, selection: int,
    random: Array,
) -> int:  # fmt: skip
    """The variable that wants to go down most, or any with which ``i`` violates optimality. Sets: ``random``."""
    best, most, count = -1, 0.0, 0
    for k in range(active):
        v = order[k]
        difference = G[v] - G[i]
        if difference > most and a[v] > low[v] and group[v] == group[i]:
            if selection == MAXIMAL_VIOLATION:
                best, most = v, difference
            elif difference > tolerance:
                count += 1
                if below(count, random) == 0:
                    best = v
    return best


@compiled
def _some_violating(
    G: Float, a: Float, low: Float, high: Float, group: Index, groups: int, order: Index, active: int,
    tolerance: float, random: Array,
) -> int:  # fmt: skip
    """Any variable that violates optimality alone or, upwards, with another of its group. Sets: ``random``."""
    ends, count, chosen = np.zeros(max(groups, 1)), 0, -1
    for g in range(groups):
        ends[g] = _limits(G, a, low, high, group, g, order, active)[1]
    for k in range(active):
        v = order[k]
        if groups == 0:
            violates = abs(G[v]) > tolerance and (a[v] < high[v] if G[v] < 0.0 else a[v] > low[v])
        else:
            violates = a[v] < high[v] and -G[v] - ends[group[v]] > tolerance
        if violates:
            count += 1
            if below(count, random) == 0:
                chosen = v
    return chosen


@compiled
def _limits(
    G: Float, a: Float, low: Float, high: Float, group: Index, g: int, order: Index, active: int
) -> tuple[float, float]:
    """Largest ``-G`` among the variables of a group that may go up, and smallest among those that may go down."""
    up, down = -math.inf, math.inf
    for k in range(active):
        v = order[k]
        if group[v] == g:
            if a[v] < high[v]:
                up = max(up, -G[v])
            if a[v] > low[v]:
                down = min(down, -G[v])
    return up, down


@compiled
def _violation(G: Float, a: Float, low: Float, high: Float, group: Index, groups: int) -> float:
    """By how much the whole point violates optimality."""
    everything = np.arange(a.shape[0])
    return max(_most_violating(G, a, low, high, group, groups, everything, a.shape[0])[1], 0.0)


@compiled
def _shrink(G: Float, a: Float, low: Float, high: Float, group: Index, groups: int, order: Index, active: int) -> int:
    """Move the variables that are sure to stay at their bound behind the active ones. Sets: ``order``."""
    up, down = np.zeros(max(groups, 1)), np.zeros(max(groups, 1))
    for g in range(groups):
        up[g], down[g] = _limits(G, a, low, high, group, g, order, active)
    if groups == 0:  # the multiplier is zero: compare with the largest violation instead
        worst = _most_violating(G, a, low, high, group, groups, order, active)[1]
        up[0], down[0] = worst, -worst
    kept, dropped = 0, np.empty(active, dtype=np.int64)
    for k in range(active):
        v = order[k]
        g = group[v] if groups > 0 else 0
        stays_high = a[v] >= high[v] and -G[v] > up[g]
        stays_low = a[v] <= low[v] and -G[v] < down[g]
        if stays_high or stays_low:
            dropped[k - kept] = v
        else:
            order[kept] = v
            kept += 1
    order[kept:active] = dropped[: active - kept]
    return kept
