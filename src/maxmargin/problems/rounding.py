"""How wrong rounding can have made the values of a problem: what a certificate adds to primal and dual value.

Nothing here is an estimate. Every bound holds for the worst rounding of every operation, as `numerics.rounding` counts
them, so that the optimum lies in ``[dual - error, primal + error]``. What is needed beside the values costs a few
operations per sample and one pass over the data in a fit, for the norms of the columns:

* Scores ``z = X w`` are wrong by at most ``g |X| |w|``, where ``g`` is the growth of a row's sum. The losses are
  convex, so each changes by at most that times its steepest slope within reach, and by Cauchy's inequality they change
  together by at most ``g ||c|| sum_j |w_j| ||x_j||``: ``c`` holds the slopes times the weights, ``x_j`` are columns.
* Coefficients ``X^T alpha`` are wrong by at most ``g ||alpha|| ||x_j||`` each.
* Dual variables whose sum should be zero miss it by a share of their heavier side. Scaled down by that share they are
  feasible; the conjugates are convex and zero at zero, so that costs at most the same share of them.
* An L1 penalty allows ``X^T alpha`` within limits. Where these may be exceeded, smaller variables are feasible, unless
  a limit is zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_in_place
from maxmargin.numerics.rounding import DOUBLE, growth
from maxmargin.problems.point import Certificate
from maxmargin.protocols import Array, Float, Index, Loss, Penalty

BLOCK = 1024  # samples that are added up by themselves: sums of sums round less
EXACT_FIT = 1e-9  # of the squared targets: a smaller sum of squared errors is as good as none
SCORE_UNITS = 4.0  # roundings between a score and the argument of its loss: the intercept, the target
UNDERFLOW = 1e-280  # sums of squares that are smaller may have lost all digits
CONJUGATE_UNITS = 64.0  # a conjugate's slope is at most this: the logistic one's at the last number below 1, with room


class SampleSums(NamedTuple):
    """Sums over the samples of all clients."""

    losses: float
    conjugates: float
    balance: float  # of the dual variables
    up: float  # of the positive ones
    down: float  # of the negative ones, without their sign
    squares: float  # of the dual variables
    conjugate_sizes: float
    pull: float  # of the dual variables' sizes, times what their conjugates' slopes grow with
    steepness: float  # of the squares of the steepest weighted slopes within reach of the scores' errors
    drift: float  # of these slopes times the errors of the scores
    arguments: float  # of these slopes times the sizes of what the losses' arguments are made of
    of_zero: float = 0.0  # of squared losses at scores of zero

    @property
    def size(self) -> float:
        """Sum of the dual variables' sizes."""
        return self.up + self.down

    @property
    def length(self) -> float:
        """Norm of the dual variables, or more where their squares underflow."""
        return math.sqrt(self.squares) if self.squares > UNDERFLOW else self.size

    def change(self, reach: float) -> float:
        """Of the sum of the losses, at most, if the errors of all scores have the norm ``reach``.

        By Cauchy's inequality, unless squares of slopes underflow: then by the sum of the slopes times their errors.
        """
        return math.sqrt(self.steepness) * reach if self.steepness > UNDERFLOW else self.drift

    @property
    def least(self) -> float:
        """What smaller values of squared losses count as, for the relative gap: a share of that of ``w = 0, b = 0``.

        An exact fit has the optimum 0, and whatever rounding leaves of it would be as far from it as can be. Who asks
        for a relative gap of 1e-6 gets residuals below 1e-7 of the targets then. Other losses are often zero for other
        reasons, and their values, which may be tiny beside that of zero, are compared as they are.
        """
        return EXACT_FIT * self.of_zero


def depth(n_samples: int) -> int:
    """How many terms are added one after another in these sums, at most."""
    return min(n_samples, BLOCK) + -(-n_samples // BLOCK)


_growth, _depth = compiled(growth), compiled(depth)


@compiled
def sample_sums(
    loss: Loss, z: Float, alpha: Float, y: Float, s: Float, errors: Float, b: float, differences: bool
) -> Float:
    """The numbers of `SampleSums` for scores ``z``, to which the intercept ``b`` is still to be added.

    ``errors`` holds the error of each score without the intercept, or one for all. A product of a score and a label is
    exact; ``differences`` tells whether the loss takes differences from targets instead. These are wrong by a share of
    themselves, so that nothing is lost where a function meets a target exactly.
    """
    out = np.zeros(11)
    for start in range(0, z.shape[0], BLOCK):
        stop = min(start + BLOCK, z.shape[0])
        out += _block_sums(loss, z, alpha, y, s, errors, b, differences, start, stop)
    return out


@compiled
def _block_sums(
    loss: Loss,
    z: Float,
    alpha: Float,
    y: Float,
    s: Float,
    errors: Float,
    b: float,
    differences: bool,
    start: int,
    stop: int,
) -> Float:
    """The same for a block of samples; in scalars, so that it can become vector code."""
    losses, conjugates, up, down, squares, sizes = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    pull, steepness, drift, arguments = 0.0, 0.0, 0.0, 0.0
    one_for_all = errors.shape[0] == 1
    for i in range(start, stop):
        if s[i] > 0.0:
            a, v = alpha[i], z[i] + b
            if differences:
                size = (abs(v - y[i]) if v != 0.0 else 0.0) + (abs(v) if z[i] != 0.0 and b != 0.0 else 0.0)
            else:
                size = abs(z[i]) + abs(b)
            conjugate = s[i] * loss.conjugate(-a / s[i], y[i])
            losses += s[i] * loss.value(v, y[i])
            conjugates += conjugate
            up += max(a, 0.0)
            down += max(-a, 0.0)
            squares += a * a
            sizes += abs(conjugate)
            pull += abs(a) * (1.0 + abs(y[i]))
            error = errors[0] if one_for_all else errors[i]
            reach = error + SCORE_UNITS * DOUBLE * size
            if reach > 0.0:
                reach += SCORE_UNITS * DOUBLE * abs(v)  # or the ends might be rounded to the middle
            if differences:
                steepest = s[i] * max(abs(loss.slope(v - reach, y[i])), abs(loss.slope(v + reach, y[i])))
            else:  # losses of classes fall towards the right side of the margin, and ever more slowly
                steepest = s[i] * abs(loss.slope(v - y[i] * reach, y[i]))
            if steepest > 0.0:
                steepness += steepest * steepest
                drift += steepest * error
                arguments += steepest * size
    balance = up - down
    return np.array([losses, conjugates, balance, up, down, squares, sizes, pull, steepness, drift, arguments])


def error_of_losses(sums: SampleSums, from_scores: float, n_samples: int) -> float:
    """Of the sum of the losses, if the errors of the scores change it by at most ``from_scores``."""
    return from_scores + SCORE_UNITS * DOUBLE * sums.arguments + growth(depth(n_samples)) * abs(sums.losses)


def error_of_conjugates(sums: SampleSums, imbalance: float, n_samples: int) -> float:
    """Of the sum of the conjugates, at variables that are scaled down by ``imbalance`` to be feasible."""
    return (imbalance + growth(depth(n_samples))) * sums.conjugate_sizes + CONJUGATE_UNITS * DOUBLE * sums.pull


def imbalance(sums: SampleSums, n_samples: int) -> float:
    """The share of the heavier side of the dual variables by which their sum may be other than zero."""
    heavier = max(sums.up, sums.down)
    return (abs(sums.balance) + growth(depth(n_samples)) * sums.size) / heavier if heavier > 0.0 else 0.0


def error_of_conjugate_penalty(penalty: Penalty, v: Float, errors: Float, conjugates: float) -> float:
    """Of the penalty's conjugate at ``v``, whose entries are wrong by up to ``errors``.

    Where these may exceed a limit, the variables have to shrink, and the sum of the ``conjugates`` with them.
    """
    share, cost, more = _reach_of_conjugate_penalty(penalty, v, np.broadcast_to(errors, v.shape))
    return (share * conjugates if conjugates > 0.0 else 0.0) + more + growth(v.size + 4) * (cost + more)


@compiled
def values_and_errors(
    penalty: Penalty, sums: Float, w: Float, b: float, column: float, v: Float, lengths: Float, certain: Array,
    reach: float, terms: int, n_samples: int, free: bool,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Primal and dual value of coefficients and dual variables, and bounds on their errors.

    ``sums`` are `sample_sums`, ``v = X^T alpha`` consists of so many ``terms``, and is zero where it is ``certain`` to
    cost nothing (nowhere, if that is empty). ``column`` is what that of a penalised intercept holds, or 0.
    """
    d, within = w.shape[0], _growth(_depth(n_samples))
    losses, conjugates, balance, up, down = sums[0], sums[1], sums[2], sums[3], sums[4]
    cost = costs(penalty, w)
    if column != 0.0:
        cost += penalty.cost(b / column, d)
    change = math.sqrt(sums[8]) * reach if sums[8] > UNDERFLOW else sums[9]
    primal_error = change + SCORE_UNITS * DOUBLE * sums[10] + within * abs(losses)
    primal_error += _growth(d) * cost
    heavier = max(up, down)
    share = (abs(balance) + within * (up + down)) / heavier if free and heavier > 0.0 else 0.0
    scale = (_growth(terms) + share) * (math.sqrt(sums[5]) if sums[5] > UNDERFLOW else up + down)
    extra = 1 if column != 0.0 else 0
    products, errors = np.empty(d + extra), np.empty(d + extra)
    for j in range(d):
        products[j] = v[j]
        errors[j] = scale * lengths[j]
    for j in range(certain.shape[0]):
        if certain[j]:
            errors[j] = 0.0
    if extra:
        products[d], errors[d] = column * balance, column * within * (up + down)
    dual = -conjugates - conjugate_costs(penalty, products)
    dual_error = (share + within) * sums[6] + CONJUGATE_UNITS * DOUBLE * sums[7]
    shrunk, conjugate, more = _reach_of_conjugate_penalty(penalty, products, errors)
    if sums[6] > 0.0:
        dual_error += shrunk * sums[6]
    dual_error += more + _growth(d + extra + 4) * (conjugate + more)
    return losses + cost, dual, primal_error, dual_error


def total_error(sizes: Float, errors: Float) -> float:
    """The sum of the errors times some sizes, where those of size zero do not count even if they are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(sizes @ errors)
        if total < math.inf:
            return total
        used = sizes > 0.0
        return float(sizes[used] @ errors[used])


def certificate_of(
    primal: float, dual: float, primal_error: float, dual_error: float, passes: float, least: float = 0.0
) -> Certificate:
    """A certificate; a value that is infinite proves nothing, and has no error."""
    return Certificate(
        float(primal),
        float(dual),
        float(primal_error) if math.isfinite(primal) else 0.0,
        float(dual_error) if math.isfinite(dual) else 0.0,
        passes,
        float(least),
    )


@compiled
def where_felt(certain: Array, w: Float) -> Index:
    """The columns that have a coefficient, or are not certain to cost nothing."""
    some, count = np.empty(w.shape[0], dtype=np.int64), 0
    for j in range(w.shape[0]):
        if w[j] != 0.0 or not certain[j]:
            some[count] = j
            count += 1
    return some[:count]


@compiled_in_place
def weighted_size(w: Float, lengths: Float) -> float:
    """``sum_j |w_j| lengths_j``."""
    total = 0.0
    for j in range(w.shape[0]):
        total += abs(w[j]) * lengths[j]
    return total


@compiled_in_place
def costs(penalty: Penalty, w: Float) -> float:
    """The penalty."""
    total = 0.0
    for j in range(w.shape[0]):
        total += penalty.cost(w[j], j)
    return total


@compiled_in_place
def conjugate_costs(penalty: Penalty, v: Float) -> float:
    """The penalty's conjugate."""
    total = 0.0
    for j in range(v.shape[0]):
        if v[j] != 0.0:  # or it is zero
            total += penalty.conjugate_cost(v[j], j)
    return total


@compiled_in_place
def dual_excess(penalty: Penalty, v: Float) -> float:
    """The largest quotient of an entry of ``v`` and the limit on its side: where it is above 1, ``v`` has no conjugate.

    It is infinite where the limit is zero and the entry is not.
    """
    largest = 0.0
    for j in range(v.shape[0]):
        low, high = penalty.dual_limits(j)
        end, size = (high, v[j]) if v[j] > 0.0 else (-low, -v[j])
        if size > 0.0:
            largest = max(largest, size / end if end > 0.0 else math.inf)
    return largest


@compiled_in_place
def _reach_of_conjugate_penalty(penalty: Penalty, v: Float, errors: Float) -> tuple[float, float, float]:
    """How much may have to be taken from ``v`` to be within the limits, its conjugate, and how much larger that may be.

    The conjugate of each entry grows with the distance from zero, on either side.
    """
    share, cost, more = 0.0, 0.0, 0.0
    for j in range(v.shape[0]):
        if v[j] == 0.0 and errors[j] == 0.0:
            continue
        low, high = penalty.dual_limits(j)
        least, most = v[j] - errors[j], v[j] + errors[j]
        if most > 0.0 and high < math.inf:
            share = max(share, most / high - 1.0 + 4.0 * DOUBLE if high > 0.0 else math.inf)
        if least < 0.0 and low > -math.inf:
            share = max(share, least / low - 1.0 + 4.0 * DOUBLE if low < 0.0 else math.inf)
        own = penalty.conjugate_cost(min(max(v[j], low), high), j)
        ends = penalty.conjugate_cost(max(least, low), j), penalty.conjugate_cost(min(most, high), j)
        cost += own
        more += max(ends[0] - own, ends[1] - own, 0.0)
    return share, cost, more
