"""What each kernel machine minimises, and how its dual variables are read.

The nu machines are quadratic programs over the signed variables ``a`` with fixed sums. Their multipliers hold what the
user asks for:

==============  =====================================  ===========================
machine         sums                                   multipliers
==============  =====================================  ===========================
nu-SVC          ``+-nu S / 2`` over each class         ``b - rho`` and ``b + rho``
hard margin     ``+-1`` over each class                ``b - rho`` and ``b + rho``
nu-SVR          ``+-C nu S / 2`` over each side        ``b + epsilon, b - epsilon``
one-class SVM   ``nu S``                               ``-rho``
==============  =====================================  ===========================

``S`` is the sum of the sample weights ``s``, which are the bounds of the variables too: weight 2 is two copies.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from maxmargin.communicators import ALONE
from maxmargin.estimators._machinery.plan import Function
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.operators import Gram
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, Logistic, SquaredEpsilonInsensitive, SquaredHinge
from maxmargin.parts.penalties import L1, L2, Bounded, ElasticNet
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.precise import precise
from maxmargin.problems.problem import Problem
from maxmargin.problems.softmax import SoftmaxProblem
from maxmargin.protocols import Communicator, Features, Float, Index, Intercept, LocalRows, Operator, Penalty
from maxmargin.solvers.choice import AnyProblem

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.linear import LinearMachine

Number = TypeVar("Number", float, Float)
SAME_VALUE = 1e-14  # relative: two multipliers whose values differ by less are equally good
SMALLEST_MARGIN = 1e-200  # hulls that overlap have none


def l1_share(model: LinearMachine) -> float:
    """``r`` in the penalty ``r |w|_1 + (1 - r)/2 |w|^2`` of a linear model: what `penalty` says, else `l1_ratio`."""
    penalty = getattr(model, "penalty", "l2")
    if penalty in ("l2", "l1"):
        return float(penalty == "l1")
    return float(model.l1_ratio or 0.0)


def limits_of(model: LinearMachine, d: int) -> tuple[Float, Float] | None:
    """The smallest and the largest value of each coefficient, if a model has limits."""
    return coefficient_limits(d, getattr(model, "positive", False), getattr(model, "bounds", None))


def coefficient_limits(d: int, positive: bool, bounds: Any) -> tuple[Float, Float] | None:
    """The smallest and the largest value of each of ``d`` coefficients; ``None`` if there are no limits."""
    if not positive and bounds is None:
        return None
    low, high = np.full(d, 0.0 if positive else -np.inf), np.full(d, np.inf)
    if bounds is not None:
        try:
            given = [np.broadcast_to(np.asarray(end, dtype=np.float64), (d,)) for end in bounds]
            least, most = given
        except (TypeError, ValueError):
            raise ValueError(
                f"bounds must be a pair of numbers or of arrays of {d} numbers, the smallest and the largest value of "
                f"each coefficient; got {bounds!r}."
            ) from None
        if not ((least <= 0.0) & (most >= 0.0)).all():
            raise ValueError("bounds must have a lower end of at most 0 and an upper one of at least 0 everywhere.")
        low, high = np.maximum(low, least), np.minimum(high, most)
    return low, high


def penalty_of(model: LinearMachine, d: int, strength: float = 1.0) -> Penalty:
    """The penalty of a linear model on its ``d`` coefficients."""
    r, limits = l1_share(model), limits_of(model, d)
    if limits is not None:
        return Bounded(strength, r, *limits)
    if r in (0.0, 1.0):
        return L1(strength) if r else L2(strength)
    return ElasticNet(strength, r)


def hinge_problem(operator: Operator, y: Float, s: Float, loss: str, intercept: Intercept) -> Problem:
    """``1/2 |f|^2 + sum_i s_i max(0, 1 - y_i (f(x_i) + b))``, or the same with squares."""
    return Problem(operator, y, Hinge() if loss == "hinge" else SquaredHinge(), L2(1.0), s, intercept)


def tube_problem(
    operator: Operator, y: Float, s: Float, loss: str, epsilon: float, intercept: Intercept, scale: float = 1.0,
    penalty: Penalty | None = None,
) -> Problem:  # fmt: skip
    """``1/2 |f|^2 + sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon)``, or the same with squares.

    A penalised intercept adds ``b^2 / (2 scale^2)``.
    """
    kind = EpsilonInsensitive if loss == "epsilon_insensitive" else SquaredEpsilonInsensitive
    return Problem(operator, y, kind(float(epsilon)), penalty or L2(1.0), s, intercept, scale)


def logistic_problem(
    operator: Operator, y: Float, s: Float, penalty: Penalty, intercept: Intercept, scale: float
) -> Problem:
    """``R(w) + sum_i s_i log(1 + exp(-y_i (w.x_i + b)))``; a penalised intercept adds ``R(b / scale)``."""
    return Problem(operator, y, Logistic(), penalty, s, intercept, scale)


def softmax_problem(
    rows: LocalRows, codes: Index, n_classes: int, s: Float, intercept: Intercept, scale: float
) -> SoftmaxProblem:
    """The same for several classes at once: ``1/2 |W|^2 - sum_i s_i log p_i`` with ``p_i`` of the class of sample i."""
    return SoftmaxProblem(rows, codes, n_classes, 1.0, s, intercept, scale)


def nu_classification(operator: Operator, y: Float, s: Float, nu: float) -> BoxQP | HullDistance:
    """``1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - y_i (f(x_i) + b))``: of a kernel as its dual, of rows as hulls.

    For ``f(x) = w.x`` the best ``rho`` and ``b`` leave ``1/2 |w|^2 - street(w)``, and the best multiple of ``w`` leaves
    minus half of the squared distance of two reduced hulls, blown up by ``nu S / 2``.
    """
    positive = y > 0.0
    communicator: Communicator = getattr(operator, "communicator", ALONE)
    sides = communicator.allreduce(np.array([s[positive].sum(), s[~positive].sum()]))
    total = min(0.5 * nu * float(sides.sum()), *sides.tolist())
    if not isinstance(operator, Gram):
        return HullDistance(cast("Features", operator), y, s, total)
    return _without_linear_term(
        operator,
        low=np.where(positive, 0.0, -s),
        high=np.where(positive, s, 0.0),
        group=np.where(positive, 0, 1),
        totals=np.array([total, -total]),
    )


def hard_margin(operator: Operator, y: Float, s: Float) -> BoxQP | HullDistance:
    """``1/2 |f|^2 - 2 rho`` with ``y_i (f(x_i) + b) >= rho`` for all i: the hard margin, as the distance of two hulls.

    The variables are two convex combinations, one of each class, as close to each other as possible. If they meet,
    they prove that no function separates the classes. Samples of weight zero take no part.
    """
    positive, used = y > 0.0, s > 0.0
    if not isinstance(operator, Gram):
        return HullDistance(cast("Features", operator), y, used.astype(np.float64))
    return _without_linear_term(
        operator,
        low=np.where(used & ~positive, -1.0, 0.0),
        high=np.where(used & positive, 1.0, 0.0),
        group=np.where(positive, 0, 1),
        totals=np.array([1.0, -1.0]),
        of_hulls=True,
    )


def widest_street(problem: BoxQP | HullDistance, point: Point) -> tuple[float, float]:
    """Half the width ``rho`` of the street between two hulls, in the direction of a point, and the middle ``-b``."""
    if isinstance(problem, HullDistance):
        first, last = problem.edges(problem.operator.apply(point.w))
    else:
        f = problem.judged_scores(point)
        first, last = float(f[problem.high > 0.0].min()), float(f[problem.low < 0.0].max())
    return 0.5 * (first - last), -0.5 * (first + last)


def divided(point: Point, b: float, rho: float) -> Function:
    """The function of a point with the intercept ``b``, divided by a margin if there is one."""
    assert point.alpha is not None
    if rho <= SMALLEST_MARGIN:
        return Function(point.w, b, point.alpha, 0.0)
    return Function(point.w / rho, b / rho, point.alpha / rho, rho, point.alpha)


def hard_margin_function(problem: BoxQP | HullDistance, point: Point) -> Function:
    """The function of the widest street between two hulls, scaled so that its edges score -1 and 1."""
    rho, b = widest_street(problem, point)
    return divided(point, b, rho)


def nu_function(problem: AnyProblem, point: Point) -> Function:
    """The function of nu-SVM, divided by its margin if there is one: reduced hulls that overlap have none."""
    if isinstance(problem, HullDistance):
        return hard_margin_function(problem, point)
    of_positive, of_negative = map(float, multipliers(problem, point))  # b - rho, b + rho
    return divided(point, 0.5 * (of_negative + of_positive), 0.5 * (of_negative - of_positive))


def nu_regression(gram: Gram, y: Float, s: Float, nu: float) -> BoxQP:
    """``1/2 |f|^2 + nu S epsilon + sum_i s_i max(0, |y_i - f(x_i) - b| - epsilon)``, as its dual."""
    n, total = y.size, 0.5 * nu * float(s.sum())
    return BoxQP(
        gram=gram,
        q=np.tile(y, 2),
        low=np.concatenate([np.zeros(n), -s]),
        high=np.concatenate([s, np.zeros(n)]),
        D=np.zeros(2 * n),
        sample=np.tile(np.arange(n), 2),
        group=np.repeat([0, 1], n),
        totals=np.array([total, -total]),
        of_tube=True,
    )


def one_class(gram: Gram, s: Float, nu: float) -> BoxQP:
    """``1/2 |f|^2 - nu S rho + sum_i s_i max(0, rho - f(x_i))``, as its dual."""
    group = np.zeros(s.size, dtype=np.int64)
    return _without_linear_term(gram, np.zeros(s.size), s, group, np.array([nu * float(s.sum())]))


def _without_linear_term(
    gram: Gram, low: Float, high: Float, group: Index, totals: Float, of_hulls: bool = False
) -> BoxQP:
    zeros, sample = np.zeros(low.size), np.arange(low.size)
    return BoxQP(gram, zeros, low, high, D=zeros, sample=sample, group=group, totals=totals, of_hulls=of_hulls)


def nu_of_cap(cap: float, total: Number) -> Number:
    """``2 / (cap S)``: the nu whose convex combinations give no sample more than ``cap`` of its class; its own inverse.

    ``cap`` is the nu of the reduced hulls, where the variables of a class sum to 1 (Saddle-SVC, equation 6).
    """
    return 2.0 / (cap * total)


def multipliers(qp: AnyProblem, point: Point) -> Float:
    """The best multiplier of each group at a point.

    If a group is at its bounds altogether, every multiplier on one side of the scores is optimal: the nearest is taken,
    unless variables that are too small to be seen in the sum make it a worse one than the certificate was made of.
    """
    assert isinstance(qp, BoxQP)
    assert point.alpha is not None
    f = qp.judged_scores(point)
    _, _, b = qp.values(qp.feasible(point.alpha), f)
    for g, total in enumerate(qp.totals):
        members = (qp.group == g) & (qp.low < qp.high)
        r = (qp.q - f)[members]
        nearest = b[g]
        if total >= qp.high[members].sum() * (1.0 - 1e-12):
            nearest = r.min()
        elif total <= qp.low[members].sum() * (1.0 - 1e-12):
            nearest = r.max()
        least, value = qp.group_value(g, f, b[g]), qp.group_value(g, f, nearest)
        if value <= least + SAME_VALUE * abs(least):
            b[g] = nearest
    return b


def certificate_at(qp: BoxQP, w: Float, b: Float, a: Float, tol: float = math.inf) -> Certificate:
    """Primal value at the expansion ``w`` with the multipliers ``b``, and dual value at ``a``; needs ``D = 0``.

    It is computed again with twice the digits if only rounding seems to miss the tolerance.
    """
    certificate = _certificate_at(qp, w, b, a)
    again = precise(qp) if certificate.blurred(tol) else None
    return _certificate_at(again, w, b, a) if isinstance(again, BoxQP) else certificate


def _certificate_at(qp: BoxQP, w: Float, b: Float, a: Float) -> Certificate:
    a = qp.feasible(a)
    dual_f, dual_slack = qp.scores(a), qp.rounding(qp.expansion(a))
    f, slack = qp.gram.apply(w)[qp.sample], qp.rounding(w)
    own = b - qp.middle
    r, shares = qp.from_middle - f - own[qp.group], np.bincount(qp.sample)[qp.sample]
    losses = float(np.where(r > 0.0, qp.high, qp.low) @ r) + float(own @ qp.totals)
    primal, primal_error = 0.5 * float(w[qp.sample] / shares @ f) + losses, qp.primal_error(w[qp.sample], f, b, slack)
    dual, dual_error = float(qp.from_middle @ a) - 0.5 * float(a @ dual_f), qp.dual_error(a, dual_f, dual_slack)
    return qp.certificate(primal, dual, primal_error, dual_error)


def street_certificate(problem: HullDistance, w: Float, b: float, rho: float, a: Float) -> Certificate:
    """The formula of nu-SVM at coefficients, an intercept and a margin, and the dual value at ``a``, from rows."""
    z = problem.operator.apply(w)
    missing = np.maximum(rho - problem.y * (z + b), 0.0)
    primal = 0.5 * float(w @ w) - 2.0 * problem.total * rho + float(problem.cap @ missing)
    certified = problem.certify(Point(w, b, a))
    reach = growth(problem.operator.terms()[0]) * float(np.abs(w) @ problem.operator.column_lengths())
    sizes = np.abs(z) + abs(b) + abs(rho)
    near = missing + reach + 4.0 * DOUBLE * sizes > 0.0
    error = float(problem.cap @ np.where(near, reach + (4.0 * DOUBLE + growth(z.size)) * sizes, 0.0))
    error += growth(w.size) * (0.5 * float(w @ w) + 2.0 * problem.total * abs(rho))
    return Certificate(primal, certified.dual, error, certified.dual_error)


def both_sides(qp: BoxQP, alpha: Float) -> Float:
    """The variables of both sides of the tube that belong to the expansion ``alpha`` of a nu-regression.

    Where the sums ask for more than ``|alpha|``, both variables of a sample move apart, which changes nothing else.
    """
    a = np.concatenate([np.maximum(alpha, 0.0), np.minimum(alpha, 0.0)])
    room = np.maximum(qp.high[: alpha.size] - np.abs(alpha), 0.0)
    missing = float(qp.totals[0]) - float(a[: alpha.size].sum())
    if missing > 0.0 and room.any():
        extra = room * (missing / float(room.sum()))
        a += np.concatenate([extra, -extra])
    return a
