"""A solver on rows that were moved: where these lie far from the origin, its sums would lose their digits there.

A free intercept makes problems blind to a translation: ``w.x + b`` is ``w.(x - m) + (b + w.m)``. Products of rows that
are 1e8 times as far from the origin as they are wide have no digit left of what the problem is about, while those of
the rows' distances from their middle have all of them. Only the solver works with moved rows. Certificates, which are
computed from scratch, are those of the rows as they were given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np

from maxmargin.operators import Gram, KernelGram, Rows, SparseVectors, StoredGram
from maxmargin.operators.precise import combination, products
from maxmargin.operators.rows import Matrix, dense64, is_sparse
from maxmargin.parts.kernels import Linear
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float
from maxmargin.solvers.solver import AnySolver, Solver, State

FAR = 1e3  # times as far from zero as it is wide: a column whose squares lose six digits
LOOKED_AT = 64  # rows that are looked at first

Movable: TypeAlias = Problem | BoxQP | HullDistance


@dataclass(frozen=True)
class Recentred(Solver[Movable, State]):
    """A solver that sees the rows from their middle, wherever they are far from the origin and that changes nothing.

    Problem: whatever the inner one supports.

    Method: that of the inner one. Its points are translated back: the intercept is the only part that differs.

    Cost: that of the inner one, and a copy of the rows if they are moved.
    """

    inner: AnySolver

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the inner one, which does the work."""
        return self.inner.name

    def supports(self, problem: object) -> str | None:
        """``None``, or why the inner one does not."""
        return self.inner.supports(problem)

    def start(self, problem: Movable, warm: Point | None) -> State:
        """The inner one's state, on the moved rows."""
        moved = moved_to_middle(problem)
        here, near = (problem, warm) if moved is None else (moved.problem, moved.there(warm))
        state: State = self.inner.start(here, near)
        return state

    def advance(self, problem: Movable, state: State, limit: int) -> State:
        """One round of the inner one."""
        moved = moved_to_middle(problem)
        after: State = self.inner.advance(problem if moved is None else moved.problem, state, limit)
        return after

    def point(self, problem: Movable, state: State) -> Point:
        """The inner one's point, for the rows as they were given."""
        moved = moved_to_middle(problem)
        if moved is None:
            return self.inner.point(problem, state)
        return moved.back(self.inner.point(moved.problem, state))

    def at_work(self, state: State) -> str:
        """The inner one, or what works in it."""
        return self.inner.at_work(state)


def recentred(solver: AnySolver, problem: object) -> AnySolver:
    """A solver that would see such a problem from the middle of its rows; itself if those cannot be moved."""
    return solver if isinstance(solver, Recentred) or _rows_to_move(problem) is None else Recentred(solver)


@dataclass(frozen=True, eq=False)
class Moved:
    """A problem over rows that were moved."""

    problem: Movable
    rows: Matrix  # as they were given
    middle: Float  # that was subtracted from each of them

    def there(self, point: Point | None) -> Point | None:
        """The same function or variables for the moved rows."""
        return None if point is None else replace(point, b=point.b + self._at_middle(point))

    def back(self, point: Point) -> Point:
        """The same function or variables for the rows as they were given."""
        return replace(point, b=point.b - self._at_middle(point))

    def _at_middle(self, point: Point) -> float:
        """``w.m`` to the last digit; of programs and hulls, whose points are their variables, nobody reads ``b``."""
        if not isinstance(self.problem, Problem) or not np.isfinite(point.w).all():
            return 0.0
        if not self.problem.kernelised:
            return float(products(self.middle[None, :], point.w).high[0])
        v, scale = combination(self.rows, point.w), _linear_scale(self.problem.gram)
        return scale * float(products(self.middle[None, :], v.high, v.low).high[0])


def moved_to_middle(problem: Movable) -> Moved | None:
    """The problem with rows that were moved, remembered by the given one; ``None`` if they are where they should be."""
    known = vars(problem)
    if "_moved" not in known:
        known["_moved"] = _move(problem)
    moved: Moved | None = known["_moved"]
    return moved


def _move(problem: Movable) -> Moved | None:
    X = _rows_to_move(problem)
    if X is None or (middle := far_middle(X)) is None:
        return None
    near = _from(middle, X)
    if isinstance(problem, BoxQP):
        return Moved(replace(problem, gram=_gram_of(problem.gram, near)), X, middle)
    if isinstance(problem, Problem) and problem.kernelised:
        return Moved(replace(problem, operator=_gram_of(problem.gram, near)), X, middle)
    assert isinstance(problem.operator, Rows)
    return Moved(replace(problem, operator=Rows(near, problem.operator.workers)), X, middle)


def _from(middle: Float, X: Matrix) -> Matrix:
    """Rows minus their middle; a sparse column that is far from zero has all of its entries, and keeps them."""
    if not is_sparse(X):
        return X - middle
    near = X.astype(np.float64)
    near.sum_duplicates()
    near.data -= middle[near.indices]
    return near


def far_middle(X: Matrix) -> Float | None:
    """The means of those columns that are far from zero, and 0 for the others; ``None`` if there are none.

    A few rows show that for most matrices.
    """
    some = X[:: max(1, X.shape[0] // LOOKED_AT)]
    if X.shape[0] < 2 or not _are_far(some, 0.5 * FAR).any():
        return None
    far = _are_far(X, FAR)
    return np.where(far, np.asarray(X.mean(axis=0, dtype=np.float64)).ravel(), 0.0) if far.any() else None


def _are_far(X: Matrix, times: float) -> Array:
    """Which columns have a middle so many times as far from zero as they are wide."""
    ends = X.min(axis=0), X.max(axis=0)
    low, high = (dense64(cast("Matrix", end)).ravel() for end in ends)
    width = high - low
    width = np.where(width > 0.0, width, width.max())  # a constant column disturbs if it is large beside the others
    return np.asarray((np.abs(0.5 * low + 0.5 * high) > times * width) & (width > 0.0))


def _rows_to_move(problem: object) -> Matrix | None:
    """The rows of a problem that does not feel a translation."""
    X: object = None
    if isinstance(problem, HullDistance) or (isinstance(problem, Problem) and problem.free_intercept):
        operator = problem.operator
        if (
            isinstance(operator, Rows)
            and isinstance(operator.vectors, SparseVectors)
            and not _may_be_far(operator.vectors)
        ):
            return None
        X = operator.matrix if isinstance(operator, Rows) else _rows_of(operator)
    elif isinstance(problem, BoxQP) and problem.totals.size and float(problem.totals.sum()) == 0.0:
        X = _rows_of(problem.gram)
    return X if (isinstance(X, np.ndarray) or is_sparse(X)) and min(X.shape) > 0 else None


def _may_be_far(rows: SparseVectors) -> bool:
    """Whether a column is far from zero for all that the first and the last row tell: to look at more takes a pass."""
    if rows.indptr.size < 3:
        return False
    first, last = (slice(int(rows.indptr[i]), int(rows.indptr[i + 1])) for i in (0, rows.indptr.size - 2))
    _, a, b = np.intersect1d(rows.indices[first], rows.indices[last], return_indices=True)
    x, z = rows.data[first][a], rows.data[last][b]
    return bool((0.5 * np.abs(x + z) >= FAR * np.abs(x - z)).any())


def _rows_of(operator: object) -> object:
    """The samples behind a linear kernel."""
    gram = operator.gram if isinstance(operator, StoredGram) else operator
    return gram.X if isinstance(gram, KernelGram) and isinstance(gram.kernel, Linear) else None


def _gram_of(gram: Gram, X: Matrix) -> KernelGram:
    return KernelGram(Linear(_linear_scale(gram)), X, gram.workers)


def _linear_scale(gram: Gram) -> float:
    own = gram.gram if isinstance(gram, StoredGram) else gram
    assert isinstance(own, KernelGram)
    assert isinstance(own.kernel, Linear)
    return own.kernel.scale
