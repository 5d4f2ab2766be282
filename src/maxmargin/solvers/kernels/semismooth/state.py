"""What semismooth Newton carries from round to round, and a round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.operators.row_cache import RowCache
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import estimated_gap
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.kernels.semismooth.factor import Factor, Matrix
from maxmargin.solvers.solver import State
from maxmargin.threads import go_on

LOW, HIGH, FREE = 0, 1, 2  # where a variable is
MEGABYTE = 2.0**20
SPARE_ROWS = 1.1  # times the rows of the start, for variables that become free later
MOST_BORDERS = 8  # times as many members as borders at least: with more, a new factor is cheaper
FEW_BORDERS = 64
ROUNDS, PATIENCE = 40, 6  # altogether, and those in which the number of changes may not fall
STEPS = 25  # of conjugate gradients in a round
ACCURACY = 1e-2  # reduction of the residual in a round: the partition changes anyway
SINGLE_ROUNDING = 1.2e-7  # of a stored kernel value, relative to the largest
SUM_ROUNDING = 1e-12  # of a fixed sum without free variables
REFRESHES = 5  # of the scores, without a change of the partition
SHARE = 0.5  # of the tolerance at which the gap is claimed to be reached


@dataclass(kw_only=True)
class SemismoothState(State):
    """Variables ``a``, perhaps beyond their bounds a little, with the scores ``f`` of all samples.

    ``f`` is ``(K / lam + shift) @ qp.expansion(a)``, but for rounding of about ``drift``.
    """

    qp: BoxQP
    a: Float
    max_memory: float
    tol: float

    f: Float = field(init=False)
    b: Float = field(init=False)  # multipliers of the groups
    status: Array = field(init=False)
    cache: RowCache | None = None
    factor: Factor | None = None
    first: tuple[Float, Float] = field(init=False)  # where the fit began, to return to
    drift: float = 0.0
    moved: float = 0.0  # squares of all steps since the scores were computed from scratch, added up
    best: int = 0  # the fewest changes in a round
    patience: int = PATIENCE
    rounds: int = 0
    refreshes: int = 0
    exhausted: bool = False
    largest: float = 0.0  # kernel value

    def __post_init__(self) -> None:
        qp = self.qp
        self.largest = float(np.abs(qp.gram.diagonal()).max(initial=0.0)) / qp.lam + abs(qp.shift)
        self.f = self._scores()
        self.first = self.a.copy(), self.f.copy()
        self.best = self.a.size + 1
        self.b = qp.values(self.a, self.f[qp.sample])[2]
        self.status = np.where(self.a <= qp.low, LOW, np.where(self.a >= qp.high, HIGH, FREE)).astype(np.int8)
        self._free_whoever_wants(self._slack(), 0.0)
        self.exhausted = not self._open_cache()

    def _open_cache(self) -> bool:
        """Whether there is room, and float32 is enough. Sets: ``cache``."""
        qp, n = self.qp, self.qp.gram.n_samples
        needed = np.unique(qp.sample[(self.status == FREE) | (self.a != 0.0)]).size
        rows = min(n, int(SPARE_ROWS * needed) + FEW_BORDERS)
        members = int((self.status == FREE).sum())
        enough = 4.0 * (rows * n + members**2) <= self.max_memory * MEGABYTE
        if not (enough and qp.gram.fits_single and np.isfinite(qp.low).all() and np.isfinite(qp.high).all()):
            return False
        megabytes = 4.0 * rows * n / MEGABYTE
        self.cache = RowCache(qp.gram, megabytes, 1.0 / qp.lam, qp.shift, np.float32, rows)
        return True

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the kernel matrix, rounds, free variables, and how often scores were computed from scratch."""
        evaluated = 0.0 if self.cache is None else self.cache.evaluations / max(1, self.qp.gram.n_samples) ** 2
        free = float((self.status == FREE).sum())
        return {"passes": self.passes + evaluated, "free": free, "refreshes": float(self.refreshes)}

    @property
    def certificate_passes(self) -> float:
        """Share of the kernel matrix that belongs to non-zero variables."""
        return float(np.count_nonzero(self.a)) / max(1, self.a.size)

    # ---- a round -----------------------------------------------------------------------------------------------------

    def round(self) -> None:
        """The minimum over the free variables, and a new guess of which these are. Sets: everything."""
        qp = self.qp
        if self.doubted:  # a claim: rounding was underestimated
            self.tol, self.doubted = 0.1 * self.tol, False
        self.iterations, self.rounds = self.iterations + 1, self.rounds + 1
        free = np.flatnonzero(self.status == FREE)
        if not self._minimise_over(free):
            self._give_up()
            return
        slack = self._slack()
        below, above = free[self.a[free] <= qp.low[free]], free[self.a[free] >= qp.high[free]]
        entering = self._free_whoever_wants(slack, self.drift)  # none of those that just leave
        self.status[below], self.status[above] = LOW, HIGH
        out = np.concatenate([below, above])
        if out.size:
            self._move(out, np.clip(self.a[out], qp.low[out], qp.high[out]) - self.a[out])
        changes = out.size + entering
        if changes == 0:
            self._settle()
            return
        self.refreshes = 0
        self.patience = PATIENCE if changes < self.best else self.patience - 1
        self.best = min(self.best, changes)
        if self.patience <= 0 or self.rounds >= ROUNDS:
            self._give_up()

    def _settle(self) -> None:
        """The partition did not change: claim the gap, or get more digits. Sets: ``f, primal, dual, exhausted``."""
        if self.drift > 0.0:
            self._refresh()
        self.refreshes += 1
        a = self.qp.feasible(self.a)
        self.primal, self.dual, _ = self.qp.values(a, self.f[self.qp.sample])
        if estimated_gap(self.primal, self.dual) <= SHARE * self.tol:
            return
        self.primal, self.dual = np.inf, -np.inf
        self.exhausted = self.refreshes > REFRESHES

    def _give_up(self) -> None:
        """Sets: everything as it was in the beginning."""
        self.a, self.f = self.first
        self.exhausted = True

    def _free_whoever_wants(self, slack: Float, least: float) -> int:
        """Variables at a bound whose slope points inside become free; how many. Sets: ``status``."""
        movable = self.qp.low < self.qp.high
        wants = ((self.status == LOW) & (slack > least)) | ((self.status == HIGH) & (slack < -least))
        entering = np.flatnonzero(movable & wants)
        self.status[entering] = FREE
        return int(entering.size)

    def _slack(self) -> Float:
        """Minus the gradient of every variable, with the multipliers."""
        qp = self.qp
        offset = self.b[qp.group] if self.b.size else 0.0
        return np.asarray(qp.q - self.f[qp.sample] - qp.D * self.a - offset)

    def _minimise_over(self, free: Index) -> bool:
        """To the minimum over the free variables, about; whether there is such a minimum. Sets: ``a, b, f, drift``.

        Conjugate gradients in the space where the sums stay, after one step that corrects these.
        """
        qp, totals = self.qp, self.qp.totals
        factor = self._factor_for(free)
        if factor is None:
            return False
        missing = totals - np.bincount(qp.group, weights=self.a, minlength=totals.size)[: totals.size]
        unmovable = np.setdiff1d(np.arange(totals.size), factor.used)
        if (np.abs(missing[unmovable]) > SUM_ROUNDING * (1.0 + np.abs(totals[unmovable]))).any():
            return False
        r = np.zeros(self.a.size)
        r[free] = self._slack()[free]
        step = self._solved(factor, free, r, missing)
        r[free] -= self._move(free, step[free])[free]
        p, rz, enough = np.zeros(r.size), np.inf, ACCURACY**2 * float(step @ step)
        for _ in range(STEPS):
            z = self._solved(factor, free, r, np.zeros(totals.size))
            before, rz = rz, float(r @ z)
            if not rz > 0.0 or float(z @ z) <= enough:
                break
            go_on()
            p = z + (rz / before) * p
            samples, h = self._product(free, p[free])
            curvature = float(p @ h)
            if not curvature > 0.0:
                return False
            length = rz / curvature
            self.a[free] += length * p[free]
            self.f += length * samples
            self._drifts(length * p[free])
            r[free] -= length * h[free]
        if unmovable.size:
            self.b[unmovable] = qp.values(qp.feasible(self.a), self.f[qp.sample])[2][unmovable]
        return bool(np.isfinite(self.a).all())

    def _solved(self, factor: Factor, free: Index, r: Float, missing: Float) -> Float:
        """A step for the residuals ``r`` by which the sums change as they should. Sets: ``b``, and ``r`` for it.

        What multipliers take from all residuals of a group would drown the rest of them in float32.
        """
        step, b = factor.solve(r, missing)
        for g in factor.used:
            members = free[self.qp.group[free] == g]
            step[members] += (missing[g] - step[members].sum()) / members.size
            self.b[g] += b[g]
            r[members] -= b[g]
        return step

    def _factor_for(self, free: Index) -> Factor | None:
        """A factor for the free variables; ``None`` if there is none. Sets: ``cache, factor``."""
        assert self.cache is not None
        samples = np.unique(self.qp.sample[free])
        if samples.size > self.cache.capacity or not free.size:
            return None
        slots = np.full(self.qp.gram.n_samples, -1)
        slots[samples] = self.cache.fetch(samples)
        matrix = Matrix(self.cache.rows, slots[self.qp.sample], self.qp.sample, self.qp.D, self.qp.gram.workers)
        go_on()
        if self.factor is not None:
            self.factor.matrix = matrix
            self.factor.follow(free)
        if self.factor is None or self.factor.borders > max(FEW_BORDERS, free.size // MOST_BORDERS):
            self.factor = None
            self.factor = Factor(matrix, free, self.qp.group, self.qp.totals.size)
        usable = self.factor.regular and self.factor.prepare()
        return self.factor if usable else None

    # ---- scores ------------------------------------------------------------------------------------------------------

    def _product(self, variables: Index, change: Float) -> tuple[Float, Float]:
        """What a change of some variables adds to the scores of all samples, and takes from the slopes of variables."""
        assert self.cache is not None
        qp = self.qp
        weights = np.bincount(qp.sample[variables], weights=change, minlength=qp.gram.n_samples).astype(np.float64)
        moving = np.flatnonzero(weights)
        missing = moving[self.cache.slot[moving] < 0]
        if missing.size:
            self.cache.fetch(missing)
        samples = np.zeros(qp.gram.n_samples)
        self.cache.add_rows(self.cache.slot[moving], weights[moving], samples)
        own = np.zeros(self.a.size)
        own[variables] = change
        return samples, samples[qp.sample] + qp.D * own

    def _move(self, variables: Index, change: Float) -> Float:
        """A change of some variables, and what it takes from all slopes. Sets: ``a, f, drift``."""
        samples, h = self._product(variables, change)
        self.a[variables] += change
        self.f += samples
        self._drifts(change)
        return h

    def _drifts(self, change: Float) -> None:
        """Sets: ``drift``, about as far as float32 rows can have led the scores astray."""
        self.moved += float(change @ change)
        self.drift = SINGLE_ROUNDING * self.largest * self.moved**0.5

    def _refresh(self) -> None:
        """Sets: ``f``, from scratch."""
        self.f, self.drift, self.moved = self._scores(), 0.0, 0.0

    def _scores(self) -> Float:
        qp, beta = self.qp, self.qp.expansion(self.a)
        if not beta.any():
            return np.zeros(qp.gram.n_samples)
        self.passes += float(np.count_nonzero(beta)) / max(1, beta.size)
        return np.asarray(qp.gram.apply(beta) / qp.lam + qp.shift * float(beta.sum()))
