"""Interior point over a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.operators.low_rank import low_rank
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float
from maxmargin.solvers.kernels.interior_point.matrices import KernelMatrix, OfLowRank, Whole
from maxmargin.solvers.kernels.interior_point.steps import Aims, Inside
from maxmargin.solvers.solver import Needs, Solver, State

MEGABYTE = 2.0**20
RANK = 500  # that is suggested
STUCK_STEPS = 10
NO_GAP = 1e-14  # relative: the mean product of rooms and prices cannot fall further
WORTH = 100.0  # times the gap: so much may variables that are exactly at a bound cost
ENOUGH = 1e-6  # relative gap of a problem that stands for another one


@dataclass(frozen=True)
class KernelInteriorPoint(Solver[Problem | BoxQP, "KernelInteriorPointState"]):
    """Primal-dual interior point on the dual, over a kernel matrix or its factor of low rank.

    Problem: a ``BoxQP``, ``min a^T (K + D) a / 2 - q^T a`` over a box with fixed sums over groups, or a ``Problem``
    whose dual has that form. ``K`` has to be positive semi-definite.

    Method: a step is Newton's for the conditions of optimality with all products of the room to a bound and the price
    of that bound equal to ``mu``, which Mehrotra's predictor chooses. Prices and variables are eliminated; with
    ``d = D + price_low / below + price_high / above`` and ``s = d^(-1/2)``, ``1 + S K S`` is left, whose eigenvalues
    are at least 1 whatever ``C`` is. It is factorised, or, with a factor ``G`` of a smaller rank, the matrix
    ``1 + G^T S^2 G`` of Sherman, Morrison and Woodbury. What the factor of ``K`` leaves out is not hidden: points are
    certified with ``K``.

    Cost: a step is ``n^3 / 3`` operations, or ``n k^2`` with rank ``k``; memory ``16 n^2`` bytes, or ``8 n k``. An
    iteration is a step: 10 to 40 of them, nearly whatever ``C`` is.

    Reference: Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 1992; Fine,
    Scheinberg, "Efficient SVM training using low-rank kernel representations", JMLR 2001.
    """

    rank: int | None = None
    max_memory: float = 1000.0

    name: ClassVar[str] = "interior_point"
    needs: ClassVar[Needs] = Needs("kernel")

    def obstacle(self, problem: Problem | BoxQP) -> str | None:
        """``None``, or why not."""
        gram = problem.gram
        if not gram.positive:
            return f"it needs a kernel matrix that is positive semi-definite, but {gram.flaw}"
        n = gram.n_samples
        most = int(self.max_memory * MEGABYTE / (16.0 * max(1, n)))  # columns of two matrices, or of a factor with room
        if most >= n or (self.rank is not None and most >= self.rank):
            return None
        needed = 16.0 * n * min(n, self.rank or n) / MEGABYTE
        if self.rank is not None:
            return (
                f"a factor of rank {self.rank} needs {needed:.0f} megabytes, and it may use {self.max_memory:g} "
                "(cache_size)"
            )
        return (
            f"it stores the whole kernel matrix twice, {needed:.0f} megabytes for {n} samples, and may use "
            f"{self.max_memory:g} (cache_size); with a rank, such as {min(RANK, max(1, most))}, it needs a factor only"
        )

    def start(self, problem: Problem | BoxQP, warm: Point | None) -> KernelInteriorPointState:
        """A point with room to all bounds, or a given one pulled inside."""
        qp = BoxQP.of(problem)
        k = None if self.rank is None or self.rank >= qp.gram.n_samples else self.rank
        matrix: KernelMatrix
        if k is None:
            K = qp.gram.whole
            matrix = Whole(K / qp.lam + qp.shift if qp.lam != 1.0 or qp.shift else K)
        else:
            matrix = OfLowRank(low_rank(qp.gram, k), qp.lam, qp.shift)
        a = qp.near(warm)
        inside = Inside(qp, matrix, a, warm is not None)
        f = matrix.times(qp.expansion(a))[qp.sample]
        passes = 1.0 if k is None else k / qp.gram.n_samples
        return KernelInteriorPointState(qp=qp, inside=inside, a=a, fa=f, passes=passes, untried=warm is None)

    def advance(
        self, problem: Problem | BoxQP, state: KernelInteriorPointState, limit: int
    ) -> KernelInteriorPointState:
        """One step: predictor and corrector."""
        state.untried = False
        state.iterations += 1
        inside = state.inside
        mu, d = inside.product, inside.stiffness()
        s = np.sqrt(np.bincount(inside.sample, 1.0 / d, state.qp.gram.n_samples))
        solve = inside.matrix.solver(s) if inside.movable.size else None
        state.passes += 5.0 * inside.matrix.passes
        predicted = None if solve is None else inside.step(Aims(0.0, 0.0), solve, s, d)
        if solve is None or predicted is None:
            everything = inside.everything(inside.a)
            self._keep(state, everything, everything)
            state.stuck = STUCK_STEPS
            return state
        # The factor belongs to the point before the step, and so does what is certified.
        self._keep(state, inside.everything(inside.a), inside.rounded(solve, s, d))
        step = predicted
        if inside.bounds:
            t = inside.longest(predicted)
            left = max(inside.product_after(predicted, t), 0.0) / mu if mu > 0.0 else 0.0
            aim = left**3 * mu
            neglected = np.where(np.isfinite(inside.low), predicted.a * predicted.price_low, 0.0)
            above = np.where(np.isfinite(inside.high), predicted.a * predicted.price_high, 0.0)
            corrected = inside.step(Aims(aim - neglected, aim + above), solve, s, d)
            step = predicted if corrected is None else corrected
        inside.move(step, inside.longest(step))
        self._take_stock(state)
        return state

    def point(self, problem: Problem | BoxQP, state: KernelInteriorPointState) -> Point:
        """The variables, and the best multiplier for them as the intercept."""
        return state.qp.point(problem, state.a, state.fa)

    def _keep(self, state: KernelInteriorPointState, plain: Float, rounded: Float) -> None:
        """Sets: ``a, a_gap, fa, primal, dual``, unless what there was is better.

        Variables that belong on a bound are certified there, if that is little worse: so most are exact in the end.
        """
        found, other = (self._judged(state.qp, state.inside, a) for a in (plain, rounded))
        found = other if other[0] <= WORTH * found[0] else found
        if found[0] < state.a_gap or state.a_gap == np.inf:
            state.a_gap, state.primal, state.dual, state.a, state.fa = found

    def _take_stock(self, state: KernelInteriorPointState) -> None:
        """Whether there was progress. Sets: ``stuck, least_mu, least_infeasibility``."""
        mu, infeasibility = state.inside.product, state.inside.infeasibility
        better = mu < 0.9 * state.least_mu or infeasibility < 0.9 * state.least_infeasibility
        state.least_mu, state.least_infeasibility = (
            min(mu, state.least_mu),
            min(infeasibility, state.least_infeasibility),
        )
        value = max(abs(state.primal), abs(state.dual))
        done = mu * state.inside.bounds <= NO_GAP * value and infeasibility <= NO_GAP
        good = state.inside.matrix.left_out > 0.0 and state.a_gap <= ENOUGH  # of another problem
        state.stuck = STUCK_STEPS if done or good else 0 if better else state.stuck + 1

    def _judged(self, qp: BoxQP, inside: Inside, a: Float) -> tuple[float, float, float, Float, Float]:
        """The relative gap, the values, the feasible variables and their scores, as far as the matrix tells."""
        a = qp.feasible(a)
        f = inside.matrix.times(qp.expansion(a))[qp.sample]
        primal, dual, _ = qp.values(a, f)
        return Certificate(primal, dual).relative_gap, primal, dual, a, f


@dataclass(kw_only=True)
class KernelInteriorPointState(State):
    """A point inside of the box, and the feasible variables ``a`` that it stands for, with their scores ``fa``."""

    qp: BoxQP
    inside: Inside
    a: Float
    fa: Float
    a_gap: float = np.inf  # the relative gap there, as far as the matrix tells
    stuck: int = 0
    least_mu: float = np.inf
    least_infeasibility: float = np.inf

    @property
    def exhausted(self) -> bool:
        """Whether steps no longer help."""
        return self.stuck >= STUCK_STEPS

    @property
    def estimate(self) -> tuple[float, float]:
        """Both values; those of a factor that leaves something out are the values of another problem."""
        return (self.primal, self.dual) if self.inside.matrix.left_out == 0.0 else (np.inf, -np.inf)

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the kernel matrix, the mean product of room and price, the trace that its factor leaves out."""
        return {"passes": self.passes, "mu": self.inside.product, "left_out": self.inside.matrix.left_out}

    @property
    def certificate_passes(self) -> float:
        """Share of the kernel matrix that belongs to non-zero variables."""
        return float(np.count_nonzero(self.a)) / max(1, self.a.size)
