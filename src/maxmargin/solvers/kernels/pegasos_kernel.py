"""Pegasos for kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled_methods
from maxmargin.operators.row_cache import BATCH, RowCache
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.pegasos_steps import ADDED, A, H, Iterate, best_offset, take_steps
from maxmargin.solvers.rows.pegasos import STEP_WORK, Pegasos, PegasosState
from maxmargin.solvers.solver import Needs

PROBED_SAMPLES = 250  # on which the first step is tried: their kernel matrix is small
FETCHED = 64  # kernel rows at a time


@dataclass(frozen=True)
class KernelPegasos(Pegasos):
    """Pegasos for kernels: the same steps on an expansion over the samples.

    Problem: ``f(w) = lam |w|^2 / 2 + sum_i p_i loss(<w, phi(x_i)> + b, y_i)`` as for `Pegasos`, where
    ``<phi(x_i), phi(x_j)> = K_ij``.

    Method: as `Pegasos`, which never needs ``w`` itself: with ``w = sum_j q_j phi(x_j)``, a step changes ``q_i`` for
    those samples of the batch whose slope is not zero. The scores ``K q`` of all samples are kept, so that a sample of
    slope zero costs nothing and another one row of ``K``, from a cache of ``max_memory`` MB. With ``k = 1``, the hinge
    and the textbook's step, ``q_i`` is ``y_i`` times the number of visits that found sample ``i`` inside the margin,
    divided by ``lam t``.

    Cost: one iteration is one step, ``O(n)`` for each sample of the batch that is inside the margin, plus ``O(n d)`` if
    its row is not in the cache; memory ``O(n)`` and the cache.

    Reference: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 2011, figure 3 (which prints ``y_i`` for ``y_j`` in the sum).
    """

    max_memory: float = 200.0

    name: ClassVar[str] = "pegasos_kernel"
    needs: ClassVar[Needs] = Needs("kernel")

    def supports(self, problem: object) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem, Problem) or not problem.kernelised:
            return "it needs a problem of losses with a kernel matrix"
        return self.obstacle(problem)

    def start(self, problem: Problem, warm: Point | None) -> PegasosState:
        """Zero, or the dual variables of a point."""
        state = super().start(problem, warm)
        state.cache = RowCache(problem.gram, self.max_memory, least_rows=max(4 * BATCH, state.k))
        return state

    def _squares_and_width(self, problem: Problem) -> tuple[Float, int]:
        return problem.gram.diagonal(), problem.gram.n_samples

    def _visit_work(self, problem: Problem) -> float:
        return STEP_WORK + problem.operator.n_samples

    def _run(self, problem: Problem, state: PegasosState, batches: Index) -> None:
        """Steps, interrupted to fetch kernel rows. Sets: ``iterate, passes``."""
        cache, scalars, n = state.cache, state.iterate.scalars, problem.y.size
        assert cache is not None
        added, evaluations, done = scalars[ADDED], cache.evaluations, 0
        vectors = GramVectors(cache.rows, cache.slot)
        while done < batches.shape[0]:
            done, waiting = take_steps(
                vectors, cache.slot, state.setting, state.iterate, batches, done, state.iterations
            )
            if waiting >= 0:
                cache.fetch(self._wanted(problem, state, cache, waiting, batches[done : done + FETCHED]))
        state.passes += (scalars[ADDED] - added) / n + (cache.evaluations - evaluations) / n**2

    def _wanted(self, problem: Problem, state: PegasosState, cache: RowCache, waiting: int, batches: Index) -> Index:
        """Samples of the first batch that need their row, and those of the next ones that would need it now."""
        scalars, setting = state.iterate.scalars, state.setting
        z = scalars[A] * (state.iterate.v + setting.kappa * scalars[H]) + setting.centre
        inside = problem.slopes(z) != 0.0
        now, soon = batches[0], np.unique(batches[1:])
        now = np.union1d(now[inside[now]], waiting)  # in doubt the loop knows: on the margin, rounding decides
        soon = soon[inside[soon] & (cache.slot[soon] < 0) & ~np.isin(soon, now)]
        return np.concatenate([now, soon[: max(0, min(FETCHED, cache.capacity) - now.size)]])

    def _probe(self, problem: Problem, state: PegasosState) -> float:
        """On the kernel matrix of a few samples, whose scores begin where they are now."""
        gram, batches = problem.gram, self._probe_batches(problem, state, PROBED_SAMPLES)
        some, local = np.unique(batches, return_inverse=True)
        K = np.empty((some.size, some.size))
        gram.write_rows(some, gram.columns(some, np.float64), 1.0, 0.0, K, np.arange(some.size))
        setting = state.setting._replace(known=state.setting.known[some], squares=state.setting.squares[some])
        q, v, total, seen, scalars = state.iterate
        part = Iterate(q[some], v[some], total[some], seen[some], scalars)
        batches = local.reshape(batches.shape).astype(np.int64)
        return best_offset(GramVectors(K, np.arange(some.size)), setting, part, batches)


@compiled_methods
class GramVectors(NamedTuple):
    """The samples as a kernel sees them, where the vector ``w`` stands for the scores of all samples."""

    stored: Array  # rows of the kernel matrix
    slot: Index  # of each sample

    def dot(self, i: int, w: Float) -> float:
        """Score of sample ``i``."""
        return w[i]

    def add(self, i: int, step: float, w: Float) -> None:
        """Scores after ``step`` times sample ``i`` was added to the expansion."""
        row = self.stored[self.slot[i]]
        for j in range(w.shape[0]):
            w[j] += step * row[j]
