"""What `ProximalNewton` carries from round to round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dpotrf

from maxmargin.operators.column_copy import ColumnCopy
from maxmargin.parts.penalties import L1, Bounded, ElasticNet, strengths
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index
from maxmargin.solvers.columns.proximal_newton.loops import ResidualModel, solve_roughly
from maxmargin.solvers.columns.quadratic import GramHeld
from maxmargin.solvers.columns.set_loops import FACTOR, MEMORY, SUPPORT, USABLE, solve_on_set
from maxmargin.solvers.solver import State
from maxmargin.threads import go_on

SWEEPS = 4  # of all coefficients, where nothing is known of them yet
FLOOR = 1e-10  # of the mean curvature: what is added to each, as columns may depend on each other
CYCLES = 2  # of sweeps and Newton's method for one model: the next one is worth more

SHORT, VERY_SHORT = 0.5, 0.05  # steps: the model was too narrow, or of no use
WIDER, NARROWER = 4.0, 0.5  # the share of the wide curvature after short steps, and after full ones
LEAST_WIDE, NO_LONGER_WIDE = 0.1, 1e-3


class Terms(NamedTuple):
    """The penalty in numbers: ``lam |w|_1 + mu/2 |w|^2`` over ``low <= w <= high``, with that of an intercept."""

    lam: float
    mu: float
    low: Float
    high: Float

    @classmethod
    def of(cls, problem: Problem) -> Self | None:
        """Those of a problem whose penalty has an L1 part or bounds."""
        penalty, d = problem.penalty, problem.operator.n_features  # type: ignore[attr-defined]
        if not isinstance(penalty, (L1, ElasticNet, Bounded)):
            return None
        low, high = np.full(d + 1, -np.inf), np.full(d + 1, np.inf)
        if isinstance(penalty, Bounded):
            low[:d], high[:d] = penalty.low, penalty.high
        size = d + 1 if problem.penalised_column else d
        return cls(*strengths(penalty), low[:size], high[:size])


@dataclass(kw_only=True)
class ProximalState(State):
    """``w`` has the coefficient of a penalised intercept at its end; ``z`` are the scores without a free one."""

    terms: Terms
    w: Float
    b: float
    z: Float
    alpha: Float
    h: Float
    v: Float
    losses: float = 0.0
    gap: float = np.inf  # over all columns
    violators: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    copy: ColumnCopy | None = None
    share: float = 0.0  # of the curvature over a wider range
    precise: bool = False  # whether rough models lead no further
    idle: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the last rounds changed nothing."""
        return self.idle > 2

    @property
    def support(self) -> int:
        """Coefficients that are not zero."""
        return int(np.count_nonzero(self.w))

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, and the size of the set and of the support."""
        size = 0 if self.copy is None else self.copy.W.size
        return {"passes": self.passes, "set": float(size), "support": float(self.support), "wide": self.share}

    def adapt(self, step: float) -> None:
        """Have wider parabolas after a short step, narrower ones after a full one. Sets: ``share``."""
        if step == 1.0:
            self.share = NARROWER * self.share if self.share > NO_LONGER_WIDE else 0.0
        elif step < VERY_SHORT:
            self.share = 1.0
        elif step < SHORT:
            self.share = min(1.0, max(WIDER * self.share, LEAST_WIDE))

    def model_by_matrix(self, copy: ColumnCopy, centred: bool, stop: float) -> tuple[Float, Float]:
        """Coefficients of the set that minimise the quadratic model, and means of the columns, from their products."""
        W, terms, m = copy.W, self.terms, copy.W.size
        G, means = copy.gram(self.h, centred)
        G.flat[:: m + 1] += FLOOR * (G.diagonal().mean() or 1.0)
        w, v = self.w[W].copy(), self.v[W].copy()
        c = v + G @ w
        yy = max(float((c + v) @ w) + 2.0 * self.losses, 0.0)
        b, steps, targets, work = np.empty((4, m))
        S, of_factor = np.empty((2, m), dtype=np.int64)
        A, memory = np.empty(m * m), np.zeros(MEMORY, dtype=np.int64)
        held, slopes = GramHeld(G, v), np.empty(m)
        while True:
            what, _, _ = solve_on_set(
                held, w, slopes, c, terms.lam, terms.mu, terms.low[W], terms.high[W], yy, stop, SWEEPS, CYCLES,
                bool(w.any()), A, b, steps, targets, work, S, of_factor, memory,
            )  # fmt: skip
            if what != FACTOR:
                return w, means
            go_on()
            size = int(memory[SUPPORT])
            _, info = dpotrf(A[: size * size].reshape(size, size).T, lower=0, clean=0, overwrite_a=1)
            memory[USABLE] = size if info == 0 else info - 1

    def model_by_residuals(self, copy: ColumnCopy, centred: bool) -> tuple[Float, Float]:
        """The same roughly, by coordinate descent and, if it has to be precise, conjugate gradients."""
        W, terms = copy.W, self.terms
        means, curvatures = copy.means_and_curvatures(self.h, centred)
        curvatures += FLOOR * (curvatures.mean() or 1.0)
        w, total = self.w[W], float(self.h.sum()) if centred else 0.0
        sums = np.array([float(self.alpha.sum()), total])
        model = ResidualModel(copy.vectors, means, curvatures, self.h, self.alpha.copy(), sums)
        solve_roughly(model, w, terms.lam, terms.mu, terms.low[W], terms.high[W], self.precise)
        return w, means
