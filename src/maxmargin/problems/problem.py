"""The problem: operator, loss, penalty, sample weights and intercept, with its primal and dual value.

    P(w, b)  = sum_i s_i loss((X w)_i + b, y_i) + penalty(w)
    D(alpha) = -sum_i s_i loss*(-alpha_i / s_i, y_i) - penalty*(X^T alpha)

``alpha`` is signed, ``alpha_i = -s_i slope_i`` at the optimum. A free intercept adds the constraint
``sum_i alpha_i = 0``. A penalised one is the coefficient ``b / scale`` of a column that holds ``scale`` everywhere.
With a kernel, ``w`` is an expansion over the samples, ``X w`` becomes ``K w`` and ``|w|^2`` becomes ``w^T K w``.
If the rows are spread over clients, whatever has an entry for each sample is local, and sums are those of all clients.

This is the only normalisation inside the library: ``C``, ``alpha``, ``nu`` and ``1/n`` belong to the estimators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from maxmargin.communicators import ALONE
from maxmargin.numerics.balance import balanced
from maxmargin.numerics.bisection import middle_minimiser, middle_minimiser_of_many
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators import Bordered, Chunks, Columns, Gram, Rows, Sharded
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2, Bounded, Unpenalised, restricted, strengths
from maxmargin.problems.losses_of_samples import (
    SLOPE_ROUNDING,
    InterceptSlope,
    box_of_duals,
    clipped,
    intercept_slopes,
    may_cost,
    sum_of_conjugates,
    sum_of_losses,
    weighted_slopes,
)
from maxmargin.problems.point import UNKNOWN, Certificate, ConvexProblem, Point, Status
from maxmargin.problems.rounding import (
    SampleSums,
    certificate_of,
    costs,
    depth,
    dual_excess,
    error_of_conjugate_penalty,
    error_of_conjugates,
    error_of_losses,
    sample_sums,
    total_error,
    values_and_errors,
    weighted_size,
    where_felt,
)
from maxmargin.protocols import (
    Array,
    Communicator,
    Features,
    Float,
    Index,
    Intercept,
    LocalRows,
    Loss,
    Operator,
    Penalty,
)

MATRICES = (Rows, Columns, Chunks, Sharded)
NOWHERE = np.empty(0, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Problem(ConvexProblem):
    """Minimise ``sum_i s_i loss(z_i, y_i) + penalty(w)``, where ``z = X w + b``."""

    operator: Operator
    y: Float
    loss: Loss
    penalty: Penalty
    s: Float
    intercept: Intercept = "free"
    intercept_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kernelised and not isinstance(self.penalty, L2):
            raise ValueError(
                f"A kernel needs an L2 penalty, the norm of its function space; got {type(self.penalty).__name__}."
            )
        if isinstance(self.penalty, Bounded):
            _check_bounds(self.penalty, cast("Features", self.operator).n_features)

    @property
    def lam(self) -> float:
        """Strength of the penalty."""
        return float(self.penalty.lam)

    @property
    def kernelised(self) -> bool:
        """Whether the operator is a kernel matrix."""
        return not isinstance(self.operator, MATRICES)

    @property
    def features(self) -> LocalRows | Sharded:
        """The operator of a problem over rows of features."""
        if isinstance(self.operator, (Rows, Chunks, Sharded)):
            return self.operator
        raise TypeError(f"{type(self.operator).__name__} has no rows of features.")

    @property
    def rows(self) -> Rows:
        """The rows of features in memory, those of this client if they are spread over several."""
        rows = self.operator.rows if isinstance(self.operator, Sharded) else self.operator
        assert isinstance(rows, Rows)
        return rows

    @property
    def gram(self) -> Gram:
        """The operator of a problem over a kernel."""
        return cast("Gram", self.operator)

    @property
    def free_intercept(self) -> bool:
        """Whether there is an intercept without a penalty, which balances the dual variables."""
        return self.intercept == "free"

    @property
    def penalised_column(self) -> float:
        """What the column of a penalised intercept holds everywhere; 0 if there is no such column."""
        return self.intercept_scale if self.intercept == "penalised" else 0.0

    @property
    def column(self) -> float:
        """What the column of an intercept of either kind holds; 0 if there is none."""
        return 1.0 if self.free_intercept else self.penalised_column

    @property
    def bordered(self) -> Bordered:
        """The rows, with a column for the intercept if there is one."""
        return Bordered(self.features, self.column, free=self.free_intercept)

    @property
    def penalised(self) -> Bordered:
        """The rows, with a column for a penalised intercept; a free one is left to `missing_intercept`."""
        return Bordered(self.features, self.penalised_column)

    @property
    def communicator(self) -> Communicator:
        """To the clients that have the other samples, if there are any."""
        return getattr(self.operator, "communicator", ALONE)

    @property
    def total_samples(self) -> int:
        """Samples of all clients."""
        return getattr(self.operator, "total_samples", self.y.size)

    @property
    def convex(self) -> bool:
        """Whether dual values bound anything: with every kernel that is positive semi-definite, and over rows."""
        return not self.kernelised or self.gram.positive

    def conclusion(self, certificate: Certificate) -> Status | None:
        """Nothing as a rule: every problem of this kind has an optimum, and its gap says how far away that is.

        Coefficients beyond the reach of a problem without a penalty say that this has to be posed with a longer one.
        """
        beyond = isinstance(self.penalty, Unpenalised) and certificate.primal == math.inf > -certificate.dual
        return Status.STALLED if beyond else None

    def fits(self, point: Point) -> bool:
        """Whether a point has as many coefficients and dual variables as this problem."""
        if isinstance(self.operator, MATRICES) and point.w.size != self.operator.n_features:
            return False
        if isinstance(self.operator, Columns) and point.alpha is None:
            return True
        return point.alpha is not None and point.alpha.size == self.operator.n_samples

    def certify(self, point: Point) -> Certificate:
        """Primal and dual value at a point, recomputed from the data."""
        if not (np.isfinite(point.w).all() and math.isfinite(point.b)):
            return UNKNOWN
        if not isinstance(self.operator, MATRICES):
            return self._certify_expansion(point)
        if isinstance(self.operator, Columns):
            return self._certify_columns(point, self.operator)
        if point.alpha is None:
            return self.completed(point)[1]
        alpha = self.feasible(point.alpha)
        z, v = self.operator.products(point.w, alpha)
        return self._certificate(point, z, alpha, v, self.operator.products_passes)

    def _certify_columns(self, point: Point, columns: Columns) -> Certificate:
        """The certificate over columns, of which those need not be read whose products certainly cost nothing."""
        before = columns.read
        z = columns.apply(point.w)
        alpha = self.slopes(z + point.b) if point.alpha is None else point.alpha
        alpha = clipped(self.loss, alpha, self.y, self.s)
        if self.free_intercept:
            alpha = balanced(alpha)
        found = columns.beyond(alpha, strengths(self.penalty)[0])
        read = columns.read - before + np.count_nonzero(point.w) / max(1, point.w.size)
        some = where_felt(found.certain, point.w)  # all other columns cost nothing, certainly
        penalty, w, v, lengths = (
            restricted(self.penalty, some),
            point.w[some],
            found.v[some],
            columns.column_lengths()[some],
        )
        border = np.full(1 if self.penalised_column else 0, self.penalised_column * alpha.sum())
        excess = dual_excess(penalty, np.append(v, border) if border.size else v)
        if excess > 1.0:
            share = max(0.0, 1.0 / excess - 1e-14)
            alpha, v = alpha * share, v * share
        return self._certificate_of(
            penalty, w, point.b, z, alpha, v, lengths, columns.terms(), read, found.certain[some]
        )

    def completed(self, point: Point) -> tuple[Point, Certificate]:
        """Coefficients over rows with the dual variables that the slopes there suggest, and the certificate of both."""
        if not (np.isfinite(point.w).all() and math.isfinite(point.b)):
            return replace(point, alpha=np.zeros(self.y.size)), UNKNOWN
        z = self.operator.apply(point.w)
        alpha = self.feasible(self.slopes(z + point.b))
        certificate = self._certificate(point, z, alpha, self.operator.adjoint(alpha), 2.0)
        if certificate.primal < certificate.least and certificate.dual - certificate.dual_error < 0.0:
            # What rounding left of an exact fit proves less than dual variables of zero do.
            certificate = replace(certificate, dual=0.0, dual_error=0.0)
            alpha = np.zeros_like(alpha)
        return replace(point, alpha=alpha), certificate

    def _certificate(self, point: Point, z: Float, alpha: Float, v: Float, passes: float) -> Certificate:
        """From the scores ``z = X w``, a dual feasible point, and ``v = X^T alpha``."""
        rows = cast("Features", self.operator)
        return self._certificate_of(
            self.penalty, point.w, point.b, z, alpha, v, rows.column_lengths(), rows.terms(), passes, NOWHERE
        )

    def _certificate_of(
        self, penalty: Penalty, w: Float, b: float, z: Float, alpha: Float, v: Float, lengths: Float,
        terms: tuple[int, int], passes: float, certain: Array,
    ) -> Certificate:  # fmt: skip
        """The same from what there is for each column that is felt.

        Where that is ``certain`` to cost nothing, ``v`` is zero, and no error makes it cost more.
        """
        of_scores, of_coefficients = terms
        reach = growth(of_scores) * weighted_size(w, lengths)
        sums = self._sample_sums(z, alpha, np.array([reach]), b)
        primal, dual, primal_error, dual_error = values_and_errors(
            penalty, np.array(sums), w, b, self.penalised_column, v, lengths, certain, reach, of_coefficients,
            self.total_samples, self.free_intercept,
        )  # fmt: skip
        return certificate_of(primal, dual, primal_error, dual_error, passes, sums.least)

    def _certify_expansion(self, point: Point) -> Certificate:
        """The certificate of a function over a kernel."""
        n, z, errors = self.y.size, self._scores(point), self.gram.rounding(point.w)
        alpha = self.feasible(self.slopes(z + point.b) if point.alpha is None else point.alpha)
        sums = self._sample_sums(z, alpha, errors, point.b)
        own, penalty = np.abs(point.w), self._penalty(point, z)
        primal_error = error_of_losses(sums, sums.drift, n) + growth(depth(n)) * abs(penalty)
        primal_error += 0.5 * self.lam * (total_error(own, errors) + growth(n) * float(own @ np.abs(z)))
        passes = self.operator.passes(point.w)
        if not np.array_equal(alpha, self.lam * point.w):  # or these scores serve both values
            z, errors = self.gram.within(alpha) / self.lam, self.gram.rounding(alpha) / self.lam
            passes += self.operator.passes(alpha)
        conjugate, error = self._conjugate_penalty(alpha, z, errors, sums)
        dual = -sums.conjugates - conjugate
        if not self.convex or dual - error > self.value_of_zero:
            dual = -math.inf  # without weak duality, the dual value bounds nothing
        return certificate_of(sums.losses + penalty, dual, primal_error, error, passes, sums.least)

    def _sample_sums(self, z: Float, alpha: Float, errors: Float, b: float) -> SampleSums:
        differences = not self.loss.traits.classes
        own = sample_sums(self.loss, z, alpha, self.y, self.s, errors, b, differences)
        if isinstance(self.loss, Squared):
            own = np.append(own, 0.5 * self.loss.curvature * float(self.s @ (self.y * self.y)))
        return SampleSums(*self.sums(*own))

    @cached_property
    def value_of_zero(self) -> float:
        """Primal value of the function zero, with its best intercept: no dual value is above it."""
        return self.losses(np.full(self.y.size, self.missing_intercept(np.zeros(self.y.size))))

    def _scores(self, point: Point) -> Float:
        """The scores without the intercept, in float64 wherever they count: a loss that is zero for certain adds zero.

        So the primal value is what it would be with float64 everywhere.
        """
        if point.alpha is None:
            return self.operator.apply(point.w)

        def matters(samples: Index, scores: Float, error: Float) -> Array:
            return may_cost(self.loss, scores + point.b, error, self.y[samples], self.s[samples])

        return self.gram.apply_where(point.w, matters)

    def losses(self, z: Float) -> float:
        """``sum_i s_i loss(z_i, y_i)``."""
        return self.sums(sum_of_losses(self.loss, z, self.y, self.s))[0]

    def conjugates(self, alpha: Float) -> float:
        """``sum_i s_i loss*(-alpha_i / s_i, y_i)``."""
        return self.sums(sum_of_conjugates(self.loss, alpha, self.y, self.s))[0]

    def own_sums(self, z: Float, alpha: Float) -> tuple[float, float]:
        """`losses` and `conjugates` of our own samples only, for whoever sends them with something else."""
        return sum_of_losses(self.loss, z, self.y, self.s), sum_of_conjugates(self.loss, alpha, self.y, self.s)

    def slopes(self, z: Float) -> Float:
        """``-s_i slope(z_i, y_i)``: the dual variables that the scores suggest."""
        return weighted_slopes(self.loss, z, self.y, self.s)

    def dual_box(self) -> tuple[Float, Float]:
        """Smallest and largest value of each dual variable."""
        return box_of_duals(self.loss, self.y, self.s)

    def feasible(self, alpha: Float) -> Float:
        """A dual feasible point near ``alpha``.

        It is clipped to its box, balanced if the intercept is free, and scaled into the domain of the penalty's
        conjugate if that is bounded; both keep zeros and stay inside the box, which always contains zero.
        """
        alpha = clipped(self.loss, alpha, self.y, self.s)
        if self.free_intercept:
            alpha = balanced(alpha, self.communicator)
        if strengths(self.penalty)[1] == 0.0:  # or there are no limits
            slack = 1e-14  # the next product rounds differently, by more if large columns cancel
            while (excess := dual_excess(self.penalty, self.dual_coefficients(alpha))) > 1.0:
                alpha = alpha * max(0.0, 1.0 / excess - slack)
                slack *= 100.0
        return alpha

    def best_intercept(self, z: Float) -> float:
        """Free intercept that minimises the primal for scores ``z = X w``; the middle one if there are several."""
        losses, scale = InterceptSlope(self.loss, z, self.y, self.s), sum(self.largest(z, self.y))
        if self.communicator.size == 1:
            return middle_minimiser(losses, scale)

        def derivatives(points: Float) -> Float:
            total, size = self.communicator.allreduce(intercept_slopes(losses, points))
            return np.where(np.abs(total) <= SLOPE_ROUNDING * size, 0.0, total)

        return middle_minimiser_of_many(derivatives, scale)

    def missing_intercept(self, z: Float) -> float:
        """What is still to be added to scores of the `penalised` part: the best free intercept, or 0."""
        return self.best_intercept(z) if self.free_intercept else 0.0

    def answers(self, z: Float, b: float) -> Float:
        """Dual feasible variables that answer to scores of the `penalised` part and their missing intercept."""
        return self.balanced_slopes(z, b) if self.free_intercept else self.slopes(z + b)

    def balanced_slopes(self, z: Float, b: float) -> Float:
        """A subgradient for scores ``z = X w`` and their best free intercept: dual variables whose sum is zero.

        At a kink the slopes a little below and above the intercept are mixed, which only samples at the kink feel.
        """
        nearby = 1e-11 * sum((abs(b), *self.largest(z, self.y)))
        below, above = self.slopes(z + (b - nearby)), self.slopes(z + (b + nearby))
        up, down = self.sums(below.sum(), above.sum())
        if up > 0.0 > down:
            return balanced(below + up / (up - down) * (above - below), self.communicator)
        return balanced(self.slopes(z + b), self.communicator)

    def largest(self, *arrays: Float) -> list[float]:
        """The largest absolute value in each array of an entry for every sample."""
        own = np.array([np.abs(array).max(initial=0.0) for array in arrays])
        return [float(value) for value in self.communicator.allgather(own).max(axis=0)]

    def sums(self, *own: float) -> list[float]:
        """Sums over the samples of all clients, from those over our own."""
        return [float(total) for total in self.communicator.allreduce(np.array(own, dtype=np.float64))]

    def _penalty(self, point: Point, z: Float) -> float:
        if self.kernelised:
            cost = 0.5 * self.lam * float(point.w @ z)
        else:
            cost = costs(self.penalty, point.w)
        if column := self.penalised_column:
            cost += self.penalty.cost(point.b / column, point.w.size)
        return cost

    def _conjugate_penalty(self, alpha: Float, z: Float, errors: Float, sums: SampleSums) -> tuple[float, float]:
        """``penalty*(alpha)`` of a kernel, for the scores ``z = K alpha / lam``, and the error of the dual value.

        Scaled down by a share ``t``, to be balanced, the variables change the quadratic form by at most ``t`` times the
        sum of ``|alpha_i z_i|``, and that of the errors divided by the unit of rounding bounds what is of second order.
        """
        n, sizes = alpha.size, np.abs(alpha)
        heavier = max(sums.up, sums.down) if self.free_intercept else 0.0
        share = (abs(math.fsum(alpha)) / heavier + 2.0 * DOUBLE) * (1.0 + 2.0 * growth(n)) if heavier > 0.0 else 0.0
        products, spread = float(sizes @ np.abs(z)), total_error(sizes, errors)
        error = (0.5 * growth(n) + share) * products + (0.5 + share + share * share / DOUBLE) * spread
        error += error_of_conjugates(sums, share, n)
        conjugate = 0.5 * float(alpha @ z)
        if column := self.penalised_column:
            of_column = np.array([column * sums.balance]), np.array([column * growth(depth(n)) * sums.size])
            conjugate += self.penalty.conjugate_cost(float(of_column[0][0]), 0)
            error += error_of_conjugate_penalty(self.penalty, *of_column, sums.conjugate_sizes)
        return conjugate, error

    def dual_coefficients(self, alpha: Float) -> Float:
        """``X^T alpha``, with the column of a penalised intercept."""
        v = self.operator.adjoint(alpha)
        return np.append(v, column * self.sums(alpha.sum())[0]) if (column := self.penalised_column) else v


def _check_bounds(penalty: Bounded, n_features: int) -> None:
    low, high = penalty.low, penalty.high
    if low.shape != (n_features,) or high.shape != (n_features,):
        raise ValueError(
            f"Each of the {n_features} coefficients needs a bound below and above; got arrays of shape {low.shape} and "
            f"{high.shape}."
        )
    if not ((low <= 0.0) & (high >= 0.0)).all():
        j = int(np.argmin((low <= 0.0) & (high >= 0.0)))
        raise ValueError(f"Bounds have to include 0; those of coefficient {j} are {low[j]:g} and {high[j]:g}.")
