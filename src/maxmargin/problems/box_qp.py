"""BoxQP: the quadratic program behind every hinge-type problem with a kernel.

    minimise  1/2 a^T (K + shift) a + 1/2 sum_v D_v a_v^2 - q^T a
    subject to  low <= a <= high,  sum of a over group g = total_g

The variables are signed, so no labels appear: C-SVC has one group with total 0, a penalised intercept has none and a
``shift``; nu-SVC has one group per class; regression has two variables per sample, one per side of the tube; one-class
has total 1; the hard margin has an infinite box. ``K`` is seen through blocks of rows only.

Its Lagrangian dual, with a multiplier ``b_g`` per group and the function ``f = K a / lam``, is the primal of the user's
problem: ``1/2 |f|^2 + sum_v max_a [a (q_v - f_v - b_g) - D_v a^2 / 2] + sum_g b_g total_g``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.numerics.balance import balanced
from maxmargin.numerics.bisection import middle_minimiser
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators import Gram
from maxmargin.problems.point import UNKNOWN, Certificate, Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.problems.rounding import certificate_of, total_error
from maxmargin.protocols import Float, Index, Loss

BESIDE_ZERO = 2.0**-60  # of the weight: inside of the box, but so near to 0 that `q` is not rounded

GOLDEN_RATIO = 0.5 * (math.sqrt(5.0) - 1.0)
VANISHING = 1e-12  # relative to what is added up: a smaller value is rounding
DISTANCE_ROUNDINGS = 16.0  # of a squared distance, relative to the largest squared length: about what it may be off


@dataclass(frozen=True, eq=False)
class BoxQP:
    """A quadratic program over a box with up to two groups of variables whose sums are fixed."""

    gram: Gram
    q: Float  # linear term
    low: Float
    high: Float
    D: Float  # extra diagonal
    sample: Index  # row of K that belongs to each variable
    group: Index  # 0 or 1; ignored if there are no totals
    totals: Float  # of each group: 0, 1 or 2 of them
    lam: float = 1.0  # K is divided by it
    shift: float = 0.0  # added to every entry of K / lam: a penalised intercept
    of_tube: bool = False  # whether the multipliers are the edges of a tube, the upper one first, which has a width
    of_hulls: bool = False  # whether it is the distance of two hulls, which meet if its value vanishes

    @staticmethod
    def obstacle(problem: Problem) -> str | None:
        """Why a problem is not of this form, or ``None``."""
        if not problem.kernelised:
            return "it needs a kernel matrix; this problem has rows of features"
        if not problem.loss.traits.dual_pieces:
            return f"it needs a loss with a quadratic dual; this problem has {type(problem.loss).__name__}"
        return None

    @classmethod
    def of(cls, problem: Problem | BoxQP) -> BoxQP:
        """The dual of a problem with a kernel and a piecewise quadratic loss; a program is itself."""
        if isinstance(problem, BoxQP):
            return problem
        q, D, low, high = dual_pieces(problem)
        sides, n = q.shape
        return cls(
            gram=problem.gram,
            q=q.ravel(),
            low=low.ravel(),
            high=high.ravel(),
            D=D.ravel(),
            sample=np.tile(np.arange(n), sides),
            group=np.zeros(sides * n, dtype=np.int64),
            totals=np.zeros(1 if problem.free_intercept else 0),
            lam=problem.lam,
            shift=problem.penalised_column**2 / problem.lam,
        )

    @property
    def of_street(self) -> bool:
        """Whether it has one group for each class, and users get its function divided by its margin."""
        return self.totals.size == 2 and not self.of_tube

    def expansion(self, a: Float) -> Float:
        """Coefficients over the samples: the variables of each sample added up."""
        return np.bincount(self.sample, weights=a, minlength=self.gram.n_samples).astype(np.float64, copy=False)

    def values(self, a: Float, fa: Float) -> tuple[float, float, Float]:
        """Primal value, dual value and multipliers at ``a``; ``fa`` is the score that belongs to each variable."""
        quadratic, q = 0.5 * float(a @ fa), self.from_middle
        dual = float(q @ a) - quadratic - 0.5 * float(self.D @ (a * a))
        b = np.zeros(self.totals.size)
        primal = quadratic
        if not b.size:
            primal += _support(q - fa, 0.0, self.low, self.high, self.D)
        for g, total in enumerate(self.totals):
            members = np.flatnonzero(self.group == g)
            r, box = q[members] - fa[members], (self.low[members], self.high[members], self.D[members])
            b[g] = self._rounded(middle_minimiser(_MultiplierSlope(r, *box, float(total)), _largest(r)))
            primal += _support(r, b[g], *box) + b[g] * total
        if self.of_tube and b[0] < b[1]:
            r, box, total = q - fa, (self.low, self.high, self.D), float(self.totals.sum())
            b[:] = self._rounded(middle_minimiser(_MultiplierSlope(r, *box, total), _largest(r)))
            primal = quadratic + _support(r, b[0], *box) + b[0] * total
        return float(primal), dual, b + self.middle

    @cached_property
    def middle(self) -> float:
        """The middle of the linear term, from which it is measured if all variables together sum to zero.

        They do not feel it, and the sums of large targets that are near each other round much less.
        """
        balanced_variables = self.totals.size > 0 and float(self.totals.sum()) == 0.0
        return 0.5 * (float(self.q.min()) + float(self.q.max())) if balanced_variables and self.q.size else 0.0

    @cached_property
    def from_middle(self) -> Float:
        """The linear term, measured from its middle."""
        return self.q - self.middle if self.middle != 0.0 else self.q

    def _rounded(self, b: float) -> float:
        """A multiplier from the middle, as it is once the middle has been added."""
        return (b + self.middle) - self.middle

    def group_value(self, g: int, f: Float, b: float) -> float:
        """What a group of variables with the scores ``f`` adds to the primal value at the multiplier ``b``."""
        members = np.flatnonzero(self.group == g)
        r, box = self.q[members] - f[members], (self.low[members], self.high[members], self.D[members])
        return float(_support(r, b, *box) + b * self.totals[g])

    def scores(self, a: Float) -> Float:
        """The entries of ``(K / lam + shift) a`` that belong to the variables, from scratch."""
        beta = self.expansion(a)
        f = self.gram.apply(beta) / self.lam + self.shift * beta.sum()
        return np.asarray(f[self.sample])

    def judged_scores(self, point: Point) -> Float:
        """The scores that the certificate of a point was made of; computed again if another one was judged last."""
        assert point.alpha is not None
        a = self.feasible(point.alpha)
        judged, f = vars(self).get("_judged", (None, a))
        precise: BoxQP = vars(self).get("_precise", self)  # of `problems.precise`, if it was needed
        return f if judged is not None and np.array_equal(judged, a) else precise.scores(a)

    @property
    def convex(self) -> bool:
        """Whether dual values bound anything: with every kernel that is positive semi-definite."""
        return self.gram.positive

    @property
    def separable(self) -> bool:
        """Whether coefficients and dual variables of a point are judged independently of each other."""
        return False

    @cached_property
    def rounding_level(self) -> float:
        """Below this, values of a program whose sums forbid zero vanish as far as float64 can tell.

        That happens: without a linear term the value is minus half the squared distance of two reduced convex hulls (or
        of one and the origin), and these may touch. The relative gap means nothing then, and solvers would go on for
        ever.
        """
        total = self._sizes_of_totals
        if total == 0.0:
            return 0.0
        squares = self.gram.diagonal()
        if float(self.totals.sum()) == 0.0:  # only differences of samples count then, however long these are
            squares = np.minimum(squares, self._squared_distances + DISTANCE_ROUNDINGS * DOUBLE * squares.max())
        return VANISHING * total * (0.5 * total * _largest(squares) + _largest(self.from_middle))

    @cached_property
    def _squared_distances(self) -> Float:
        """Of all samples from the first one, as the kernel sees them, but for rounding."""
        first, diagonal = self.gram.block(np.zeros(1, dtype=np.int64))[0], self.gram.diagonal()
        return np.asarray(diagonal - 2.0 * first + diagonal[0])

    @cached_property
    def _sizes_of_totals(self) -> float:
        return float(np.abs(self.totals).sum())

    def conclusion(self, certificate: Certificate) -> Status | None:
        """That hulls meet or, of other programs, that rounding errors leave nothing to go on with.

        Values that are wrong by more than such an optimum may be say neither.
        """
        value = max(abs(certificate.primal), abs(certificate.dual))
        known = 0.0 < certificate.error < 0.1 * value and not self.of_hulls  # small as it may be
        vanishes = (self.of_hulls and certificate.dual >= 0.0) or (value < self.rounding_level and not known)
        if not vanishes or 0.0 < self.rounding_level < certificate.error:
            return None
        return Status.NOT_SEPARABLE if self.of_hulls and self._meet(certificate) else Status.STALLED

    def _meet(self, certificate: Certificate) -> bool:
        """Whether two points of the hulls are the same: no farther apart than rounding, which is small beside the data.

        Where distinct samples are independent of each other, hulls have no common point without a common sample.
        """
        spread = float(self._squared_distances.max(initial=0.0)) * float(np.abs(self.totals).max()) ** 2
        indistinct = -certificate.dual <= certificate.dual_error <= VANISHING * spread
        return indistinct and self.gram.may_meet(self.sample[self.high > 0.0], self.sample[self.low < 0.0])

    def fits(self, point: Point) -> bool:
        """Whether a point has as many variables as this program."""
        return point.alpha is not None and point.alpha.size == self.q.size

    def certify(self, point: Point) -> Certificate:
        """Primal and dual value at the variables ``point.alpha``, moved into the feasible set first."""
        if point.alpha is None:
            raise ValueError("A BoxQP is certified at its variables: the point needs alpha.")
        if not np.isfinite(point.alpha).all():
            return UNKNOWN
        a = self.feasible(point.alpha)
        f, slack = self.scores(a), self.rounding(self.expansion(a))
        vars(self)["_judged"] = a, f
        primal, dual, b = self.values(a, f)
        passes = self.gram.passes(self.expansion(a))
        return self.certificate(primal, dual, self.primal_error(a, f, b, slack), self.dual_error(a, f, slack), passes)

    def certificate(
        self, primal: float, dual: float, primal_error: float, dual_error: float, passes: float = 0.0
    ) -> Certificate:
        """Of two values and their errors: without weak duality, or above the value of zero, the dual bounds nothing."""
        if not self.convex or dual - dual_error > self.value_of_zero:
            dual = -math.inf
        return certificate_of(primal, dual, primal_error, dual_error, passes)

    def rounding(self, beta: Float) -> Float:
        """A bound on the error of the score of each variable, for an expansion over the samples."""
        of_kernel = self.gram.rounding(beta) / self.lam
        of_shift = growth(beta.size) * abs(self.shift) * float(np.abs(beta).sum())
        return np.asarray((of_kernel + of_shift)[self.sample])

    def primal_error(self, w: Float, f: Float, b: Float, slack: Float) -> float:
        """Of the primal value at coefficients ``w`` with the scores ``f``, which are wrong by up to ``slack``.

        There are as many coefficients and scores as variables; ``b`` are the multipliers of the groups. A multiplier
        that is the middle itself is exact, as is the intercept that follows from two of them.
        """
        size, terms = np.abs(w), growth(self.q.size)
        quadratic = 0.5 * total_error(size, slack) + terms * 0.5 * float(size @ np.abs(f))
        own = b - self.middle
        offset = own[self.group] if b.size else np.zeros(self.q.size)
        given, missing = self.from_middle - f, self.from_middle - f - offset
        slack = slack + 2.0 * DOUBLE * (np.where(f != 0.0, np.abs(given), 0.0) + np.abs(missing))
        of_intercept = 0.0
        if self.middle != 0.0:
            slack = slack + DOUBLE * (np.abs(self.from_middle) + 2.0 * np.abs(given))
            of_intercept = 4.0 * DOUBLE * float(np.abs(b[own != 0.0]).max(initial=0.0))
        losses = _support_error(missing, slack + of_intercept, self.low, self.high, self.D, terms)
        return quadratic + losses + (terms * float(np.abs(own).max(initial=0.0)) + of_intercept) * self._sizes_of_totals

    def dual_error(self, a: Float, f: Float, slack: Float) -> float:
        """Of the dual value at feasible variables with the scores ``f``, and of sums that are not quite their totals.

        What is missing there can be moved to any variable with room, at the price of its slope.
        """
        size, terms = np.abs(a), growth(self.q.size)
        parts = float(size @ (np.abs(self.from_middle) + 0.5 * np.abs(f) + 0.5 * self.D * size))
        slopes = np.abs(self.from_middle - f - self.D * a) + slack
        error = 0.5 * total_error(size, slack) + terms * parts
        for g, total in enumerate(self.totals):
            members = np.flatnonzero(self.group == g)
            missing = abs(math.fsum(a[members]) - float(total)) + DOUBLE * abs(float(total))
            error += missing * float(slopes[members].max(initial=0.0)) if missing > 0.0 else 0.0
        return error

    @cached_property
    def value_of_zero(self) -> float:
        """Primal value of the function zero, with its best multipliers: no dual value is above it."""
        zeros = np.zeros(self.q.size)
        return self.values(zeros, zeros)[0]

    def feasible(self, a: Float) -> Float:
        """``a`` clipped to its box, each group moved to its total."""
        a = np.asarray(np.clip(a, self.low, self.high), dtype=np.float64)
        for g, total in enumerate(self.totals):
            members = np.flatnonzero(self.group == g)
            for _ in range(2):  # the second time nothing moves but what the first one rounded
                a[members] = with_sum(a[members], self.low[members], self.high[members], float(total))
        return a

    def near(self, warm: Point | None) -> Float:
        """Feasible variables near those of a point of this program, or of the problem behind it.

        Without a point, few of them are not zero: each group is filled up to its sum variable by variable, in an order
        that is spread evenly over the samples.
        """
        if warm is None or warm.alpha is None:
            a = np.zeros_like(self.q)
            for g, total in enumerate(self.totals):
                members = np.flatnonzero(self.group == g)
                members = members[np.argsort(np.arange(members.size) * GOLDEN_RATIO % 1.0)]
                reach = (self.high if total > 0.0 else self.low)[members]
                if total != 0.0:
                    before = np.cumsum(reach) - reach
                    a[members] = np.clip(total - before, np.minimum(reach, 0.0), np.maximum(reach, 0.0))
            return self.feasible(a)
        return self.feasible(warm.alpha if self.fits(warm) else warm.alpha[self.sample])

    def point(self, problem: Problem | BoxQP, a: Float, fa: Float) -> Point:
        """The point of a problem, or of this program, for variables with the scores ``fa``.

        The best multiplier for them is the intercept.
        """
        b = self.values(a, fa)[2]
        if isinstance(problem, BoxQP):  # the very variables that are certified: users get the function of these
            a = self.feasible(a)
            return Point(self.expansion(a) / self.lam, float(b[0]) if b.size else 0.0, a)
        beta = self.expansion(a)
        intercept = float(b[0]) if b.size else self.shift * float(beta.sum())
        if b.size:
            beta = balanced(beta)  # or the certificate would do it, and could not use one product for both values
        return Point(beta / self.lam, intercept, beta)


def _largest(values: Float) -> float:
    """The largest size."""
    return float(np.abs(values).max(initial=0.0))


def with_sum(a: Float, low: Float, high: Float, total: float) -> Float:
    """``a`` moved towards the bounds that its sum needs, zeros only if the others do not suffice.

    What has been moved once stays where it is: the sum of its own rounding errors is no reason to move again.
    """
    excess = math.fsum(a) - total
    if abs(excess) <= 2.0 * DOUBLE * float(np.abs(a).sum()):
        return a
    bound = low if excess > 0.0 else high
    reach = float(bound.sum())
    if (reach > total if excess > 0.0 else reach < total) and abs(reach - total) > 1e-12 * (1.0 + abs(total)):
        raise ValueError(f"No point of the box has the sum {total:g}: it can reach {reach:g} at most.")
    for movable in (a != 0.0, np.ones(a.size, dtype=bool)):
        room = np.where(movable, a - bound, 0.0)
        open_ended = np.isinf(room)
        if open_ended.any():  # an unbounded variable can take its share of anything
            return a - np.where(open_ended, excess / open_ended.sum(), 0.0)
        available = float(np.abs(room).sum())
        if available >= abs(excess):
            return a - room * (abs(excess) / available)
    return bound.copy()


def dual_pieces(problem: Problem) -> tuple[Float, Float, Float, Float]:
    """``q``, ``D``, ``low`` and ``high``: the losses add ``q a - D a^2 / 2`` to the dual, for ``a`` in a box.

    Each has a row for every piece of the loss and a column for every sample, whose dual variable is the sum of its
    pieces: a second piece is the negative part. All of it follows from the derivatives of the conjugate.
    """
    q, D, low, high = pieces_of(problem.loss, problem.y, problem.s)
    return q, D, low, high


def pieces_of(loss: Loss, y: Float, s: Float) -> Float:
    """The same of a loss with targets and weights, in one array."""
    pieces = np.zeros((4, loss.traits.dual_pieces, y.size))
    _fill_pieces(loss, y, s, pieces)
    return pieces


@compiled
def _fill_pieces(loss: Loss, y: Float, s: Float, filled: Float) -> None:
    """Sets: the zeros. A sample without weight has the parabola of weight 1; its box is the point 0."""
    q, D, low, high = filled[0], filled[1], filled[2], filled[3]
    pieces, n = q.shape
    for k in range(pieces):
        for i in range(n):
            least, most = loss.dual_range(y[i])
            least, most = least if k == pieces - 1 else 0.0, most if k == 0 else 0.0
            weight = s[i] if s[i] > 0.0 else 1.0
            a = BESIDE_ZERO * weight * (max(least, -1.0) + min(most, 1.0))
            D[k, i] = loss.dual_curvature(a, y[i], weight)
            q[k, i] = D[k, i] * a - loss.dual_slope(a, y[i], weight)
            if s[i] > 0.0:
                low[k, i], high[k, i] = s[i] * least, s[i] * most


@compiled
def response(r: float, low: float, high: float, D: float) -> float:
    """``argmax a r - D a^2 / 2`` over the box; 0 or the nearest bound to it where every point is optimal."""
    if D > 0.0:
        return min(max(r / D, low), high)
    if r == 0.0:
        return min(max(0.0, low), high)
    return high if r > 0.0 else low


@compiled
def _support(r: Float, b: float, low: Float, high: Float, D: Float) -> float:
    """``sum_v max_a a (r_v - b) - D_v a^2 / 2`` over the box."""
    total = 0.0
    for v in range(r.shape[0]):
        a = response(r[v] - b, low[v], high[v], D[v])
        if a != 0.0:
            total += a * (r[v] - b)
            if D[v] > 0.0:  # the box may be infinite otherwise
                total -= 0.5 * D[v] * a * a
    return total


@compiled
def _support_error(r: Float, slack: Float, low: Float, high: Float, D: Float, summing: float) -> float:
    """How much `_support` can change if each ``r_v`` is wrong by ``slack_v``, and by adding up."""
    total = 0.0
    for v in range(r.shape[0]):
        down, up = response(r[v] - slack[v], low[v], high[v], D[v]), response(r[v] + slack[v], low[v], high[v], D[v])
        steepest = max(abs(down), abs(up))
        if steepest > 0.0:
            total += steepest * (slack[v] + summing * (abs(r[v]) + D[v] * steepest))
    return total


@compiled_methods
class _MultiplierSlope(NamedTuple):
    """The primal value as a function of the multiplier of a group."""

    r: Float
    low: Float
    high: Float
    D: Float
    total: float

    def derivative(self, b: float) -> float:
        moved, size = 0.0, abs(self.total)
        for v in range(self.r.shape[0]):
            a = response(self.r[v] - b, self.low[v], self.high[v], self.D[v])
            if math.isinf(a):  # weighs violations instead, so that infinities of both signs have a balance
                a = 1e12 * (self.r[v] - b)
            moved += a
            size += abs(a)
        return 0.0 if abs(self.total - moved) <= 1e-13 * size else self.total - moved
