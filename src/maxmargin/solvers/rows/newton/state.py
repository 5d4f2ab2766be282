"""Where Newton's method stands: coefficients, the dual variables that answer to them, and sums over the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from maxmargin.numerics.cholesky import inverse_of
from maxmargin.operators import Bordered
from maxmargin.operators.sharded import sum_of_symmetric
from maxmargin.problems.point import estimated_gap
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.rows.newton.levels import part_of
from maxmargin.solvers.rows.newton.loops import answer, may_react, pull
from maxmargin.solvers.solver import State

FIRST_WIDTH = 2.0  # of the smoothing, relative to the targets; at 1 every row sits on a kink when w = 0
FIRST_DAMPING = 1e-4  # as the widths of the solver, tuned on spambase, raw and scaled, with C up to 100
LARGEST_DAMPING = 1e300  # of the Hessian: more would not be a number
MAX_UPDATES = 10  # of a matrix of products, before rounding would show
NEAR = 8.0  # widths of the smoothing: how far from reacting a row may be, to be looked at in every step
NEAR_ENTRIES = 200_000  # of a matrix of which it is worth looking at some rows only
NEAR_SHARE = 1 / 3  # of the rows, at most
OUTLYING = 10.0  # times the root mean square of a column


@dataclass
class NewtonState(State):
    """``theta`` are the coefficients of ``B = [X h]``; ``z`` are its scores and ``a`` what answers to them.

    Whatever has an entry for each row is local, as is ``products``; all other numbers are shared by all clients.
    """

    problem: Problem  # on the rows of the present level
    theta: Float
    centre: Float
    width: float
    ridge: Float  # of each coefficient: 0 for a free intercept
    scales: Scales  # of the columns of the present level
    z: Float
    a: Float
    h: Float  # how strongly each dual variable reacts to its score
    v: Float  # B^T a; few of the dual variables change in a step
    mean_weight: float  # of all rows of the level, where none counts as 1
    fixed: Float  # B^T a of rows that are left out
    multiplied: Float  # the weights of `products`; few of them change in a step
    products: Float  # B^T diag(multiplied) B of our own rows
    gram: Callable[[], Float]  # B^T diag(h) B of our own rows
    gradient: Float
    all_samples: int = 0  # of the last level
    updates: int = 0  # of `products`
    finer: list[Problem] = field(default_factory=list)  # with more rows; the last one is next
    proximity: float = 0.0  # the proximal term: how far the dual variables are from their centre
    reacting: int = 0  # rows whose dual variables would follow their scores
    anew: bool = True  # whether `v` is to be computed from all dual variables, not from their changes
    unshared_passes: float = 0.0  # over our own rows, of which the others do not know yet
    near_steps: int = 0  # on some
    first_step: int = 0  # of this level
    stuck: int = 0
    solved: bool = False  # well enough for the centre to move
    damping: float = FIRST_DAMPING
    gap: float = math.inf  # when the centre moved last

    @property
    def bordered(self) -> Bordered:
        """The samples of the present level, with a column for the intercept."""
        return self.problem.bordered

    @property
    def samples(self) -> int:
        """Rows of the present level, those of all clients."""
        return self.problem.features.total_samples

    @property
    def kinked(self) -> bool:
        """Whether the loss needs smoothing."""
        return self.problem.loss.traits.kinked

    @property
    def share(self) -> float:
        """Cost of a pass over this level, in passes over all rows."""
        return self.samples / max(1, self.all_samples)

    @property
    def relative_gap(self) -> float:
        """The relative gap on the rows of the present level, by the solver's own account."""
        return estimated_gap(self.primal, self.dual)

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value of the present point; nothing is known about all rows before the last level."""
        return (math.inf, -math.inf) if self.finer else (self.primal, self.dual)

    @property
    def exhausted(self) -> bool:
        """Whether Newton's method cannot move any more."""
        return self.stuck >= 3

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data, width of the smoothing, rows of the present level, and steps on some of them."""
        return {
            "passes": self.passes * self.share,
            "smoothing": self.width,
            "rows": float(self.samples),
            "near_steps": float(self.near_steps),
        }

    def score(self) -> None:
        """Sets: ``z``, from the coefficients."""
        self.z = self.bordered.apply(self.theta)
        self.passes += 1.0

    def respond(self) -> None:
        """Sets: ``a, h, gram, gradient, primal, dual, proximity`` for the present scores, centre and width."""
        problem, bordered = self.problem, self.bordered
        rows = bordered.own
        width, kept = self.width if self.kinked else 0.0, 0.0 if self.anew else 1.0
        sums, change = np.zeros((len(rows.parts), 4)), np.empty(self.z.size)

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                first, last = rows.parts[k].start, rows.parts[k].stop
                sums[k] = answer(
                    problem.loss, self.centre, problem.y, problem.s, self.z, width, kept, first, last,
                    self.a, self.h, change,
                )  # fmt: skip

        rows.workers.run(work, range(len(rows.parts)))
        self.anew = False
        v, self.gram = rows.adjoint_and_gram(change, self.h, bordered.height)
        passes = self.unshared_passes + rows.adjoint_passes(change)
        own = [*sums.sum(axis=0), passes * rows.n_samples]
        shared = problem.communicator.allreduce(np.append(bordered.with_border(v, change.sum()), own))
        losses, conjugates, self.proximity, reacting, read = map(float, shared[-5:])
        self.reacting = int(reacting)
        self.passes, self.unshared_passes = self.passes + read / max(1, self.samples), 0.0
        self.v = self.v + shared[:-5]
        v = self.v + self.fixed
        self.gradient = self.ridge * self.theta - v
        quadratic = self.ridge > 0.0
        self.primal = losses + 0.5 * float(self.theta @ (self.ridge * self.theta))
        self.dual = -conjugates - 0.5 * float((v[quadratic] ** 2 / self.ridge[quadratic]).sum())

    def near_rows(self) -> Index | None:
        """Rows whose dual variables would change if their scores changed a little; ``None`` if that does not pay."""
        if not self.kinked or self.problem.features.entries < NEAR_ENTRIES:
            return None
        problem, width = self.problem, self.width
        near = may_react(problem.loss, self.centre, problem.y, problem.s, self.z, width, NEAR * width, self.a)
        rows = np.flatnonzero(near | self.scales.outlying)
        total, crowded = problem.sums(rows.size, rows.size > problem.features.room)
        return rows if total <= NEAR_SHARE * self.samples and not crowded else None

    def narrowed(self, near: Index) -> NewtonState:
        """The problem of some rows, while the others answer as they do now."""
        none = np.zeros(near.size)
        inner = replace(
            self,
            problem=part_of(self.problem, near),
            centre=self.centre[near],
            z=self.z[near],
            a=none,
            h=none.copy(),
            multiplied=none.copy(),
            v=np.zeros_like(self.v),
            anew=True,
            fixed=np.zeros_like(self.v),
            iterations=0,
            passes=0.0,
            unshared_passes=0.0,
        )
        inner.respond()
        inner.fixed = self.v - inner.v
        inner.gradient = self.gradient
        return inner

    def direction(self) -> Float:
        """Newton's."""
        return inverse_of(self.damped_hessian())(-self.gradient)

    def pull(self, dz: Float, t: float) -> float:
        """``sum_i a_i dz_i`` for the dual variables that would answer to the scores ``z + t dz``."""
        problem, rows = self.problem, self.bordered.own
        width = self.width if self.kinked else 0.0
        sums = np.zeros(len(rows.parts))

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                first, last = rows.parts[k].start, rows.parts[k].stop
                sums[k] = pull(problem.loss, self.centre, problem.y, problem.s, self.z, dz, t, width, first, last)

        rows.workers.run(work, range(len(rows.parts)))
        return problem.sums(sums.sum())[0]

    def damped_hessian(self) -> Float:
        """``diag(ridge) + B^T diag(h) B``, and some more on the diagonal.

        Columns without reacting rows would otherwise make the steps wild, or the Hessian singular.
        """
        H = self._products()
        if self.kinked:
            strength = self.damping * max(1, self.reacting) * self.mean_weight / self.width
        else:
            strength = 1e-12 * self.mean_weight * self.samples
        with np.errstate(over="ignore"):  # squares of large features, over the width that small targets have
            H[np.diag_indices_from(H)] += np.minimum(self.ridge + strength * self.scales.squares, LARGEST_DAMPING)
        return H

    def _products(self) -> Float:
        """``B^T diag(h) B``, from that of the last step where most of our rows react as they did then."""
        bordered, change = self.bordered, self.h - self.multiplied
        rows, height = bordered.own, bordered.height
        cost, update_cost = rows.gram_passes(self.h), rows.gram_passes(change)
        if 4.0 * update_cost < cost and self.updates < MAX_UPDATES:
            more, less = np.maximum(change, 0.0), np.maximum(-change, 0.0)
            self.products = self.products + rows.weighted_gram(more, height) - rows.weighted_gram(less, height)
            self.updates, cost = self.updates + 1, update_cost
        else:
            self.products, self.updates = self.gram(), 0
        self.unshared_passes += cost
        self.multiplied = self.h.copy()
        return sum_of_symmetric(self.products, bordered.communicator)


@dataclass
class Scales:
    """How large the entries of the columns are. Read from the rows when somebody asks: a good start needs no step.

    Not with ``cached_property``: before Python 3.12 it has one lock for all, and clients that are threads would wait
    for it while they wait for each other.
    """

    bordered: Bordered
    samples: int  # of all clients
    _squares: Float | None = None
    _outlying: Array | None = None

    @property
    def squares(self) -> Float:
        """Mean square of each column, and of that of the intercept."""
        if self._squares is None:
            weights = np.full(self.bordered.own.n_samples, 1.0 / max(1, self.samples))
            self._squares = self.bordered.column_squares(weights)
        return self._squares

    @property
    def outlying(self) -> Array:
        """Whether each row is far out in some column."""
        if self._outlying is None:
            own = self.bordered.own
            self._outlying = own.beyond(OUTLYING * np.sqrt(self.squares[: own.n_features]))
        return self._outlying


def first_state(problem: Problem) -> NewtonState:
    """Zero coefficients and dual variables."""
    rows, bordered = problem.features, problem.bordered
    n, size, total = rows.n_samples, bordered.size, rows.total_samples
    weight = problem.sums(np.where(problem.s > 0.0, problem.s, 1.0).sum())[0]
    return NewtonState(
        problem=problem,
        theta=np.zeros(size),
        centre=np.zeros(n),
        width=first_width(problem),
        ridge=bordered.ridge(problem.lam),
        scales=Scales(bordered, total),
        z=np.zeros(n),
        a=np.zeros(n),
        h=np.zeros(n),
        v=np.zeros(size),
        mean_weight=weight / max(1, total),
        fixed=np.zeros(size),
        multiplied=np.zeros(n),
        products=np.zeros((size, size)),
        gram=lambda: np.zeros((size, size)),
        gradient=np.zeros(size),
    )


def first_width(problem: Problem) -> float:
    """The width of the smoothing at the beginning, which follows the size of the targets."""
    return FIRST_WIDTH * max(problem.largest(problem.y)[0], 1e-300)
