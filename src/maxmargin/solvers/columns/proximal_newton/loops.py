"""Loops over samples and columns of Newton's method with a proximal step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.protocols import Array, Float, Index, Loss, Vectors
from maxmargin.solvers.columns.set_loops import newton_step, sweep

STEPS_OF_INTERCEPT = 12
FEW_SWEEPS, MANY_SWEEPS = 4, 20  # with Newton's method, and without
GRADIENTS, PRECISE = 100, 1e-2  # steps, and to what they lower the norm
BALANCED = 1e-13  # of the sum of all slopes: what of it is rounding


@compiled
def respond(loss: Loss, z: Float, b: float, y: Float, s: Float, alpha: Float, h: Float) -> tuple[float, float, float]:
    """Dual variables that answer to the scores, and how strongly. Sets: ``alpha, h``.

    Returns the losses, the sum of the variables and the sum of their sizes.
    """
    losses, total, size = 0.0, 0.0, 0.0
    for i in range(z.shape[0]):
        alpha[i], h[i] = 0.0, 0.0
        if s[i] > 0.0:
            score = z[i] + b
            a = -s[i] * loss.slope(score, y[i])
            curvature = loss.dual_curvature(a, y[i], s[i])
            alpha[i] = a
            h[i] = 1.0 / curvature if 0.0 < curvature < math.inf else 0.0
            losses += s[i] * loss.value(score, y[i])
            total += a
            size += abs(a)
    return losses, total, size


@compiled
def respond_balanced(
    loss: Loss, z: Float, b: float, y: Float, s: Float, alpha: Float, h: Float
) -> tuple[float, float, bool]:
    """The same with the best free intercept near ``b``, by Newton's method. Sets: ``alpha, h``.

    Returns the losses, the intercept, and whether it was found.
    """
    low, high = -math.inf, math.inf
    losses = 0.0
    for _ in range(STEPS_OF_INTERCEPT):
        losses, total, size = respond(loss, z, b, y, s, alpha, h)
        if abs(total) <= BALANCED * size:
            return losses, b, True
        if total > 0.0:  # the slope is minus that: the best one is above
            low = b
        else:
            high = b
        curvature = 0.0
        for i in range(h.shape[0]):
            curvature += h[i]
        if curvature <= 0.0:
            return losses, b, False
        following = b + total / curvature
        if not low < following < high:
            following = 0.5 * (low + high)
        if not (-math.inf < following < math.inf) or following == b:
            return losses, b, following == b
        b = following
    return losses, b, False


@compiled
def along(
    loss: Loss, z: Float, dz: Float, t: float, y: Float, s: Float, w: Float, dw: Float, lam: float, mu: float
) -> float:
    """How much the losses and the penalty change with a step ``t``, summed sample by sample."""
    change = 0.0
    for i in range(z.shape[0]):
        if s[i] > 0.0 and dz[i] != 0.0:
            change += s[i] * (loss.value(z[i] + t * dz[i], y[i]) - loss.value(z[i], y[i]))
    for a in range(w.shape[0]):
        new = w[a] + t * dw[a]
        change += lam * (abs(new) - abs(w[a])) + 0.5 * mu * (new * new - w[a] * w[a])
    return change


@compiled
def curvatures(
    loss: Loss, classes: bool, z: Float, b: float, y: Float, s: Float, alpha: Float, share: float, h: Float
) -> None:
    """The curvature of the losses, and a share of what it is over a wider range. Sets: ``h``.

    That is the one between a score and its reflection at the middle of the loss, which for the logistic loss makes a
    parabola that is nowhere below it.
    """
    for i in range(z.shape[0]):
        h[i] = 0.0
        if s[i] > 0.0:
            own = loss.dual_curvature(alpha[i], y[i], s[i])
            h[i] = 1.0 / own if 0.0 < own < math.inf else 0.0
            if share > 0.0:
                middle = 0.0 if classes else y[i]
                away = z[i] + b - middle
                if abs(away) > 1e-3:
                    slopes = loss.slope(middle + away, y[i]) - loss.slope(middle - away, y[i])
                    h[i] += share * max(s[i] * slopes / (2.0 * away) - h[i], 0.0)


@compiled_methods
class ResidualModel(NamedTuple):
    """The quadratic model by its residuals, which a change of one coefficient costs twice the entries of its column."""

    vectors: Vectors
    means: Float
    curvatures: Float
    h: Float
    R: Float  # the dual variables of the model
    sums: Float  # of R; of h if columns are centred, or 0

    def slope_of(self, a: int) -> float:
        """The negative slope of a coefficient."""
        return self.vectors.dot(a, self.R) - self.means[a] * self.sums[0]

    def curvature_of(self, a: int) -> float:
        """The second derivative."""
        return self.curvatures[a]

    def move(self, a: int, step: float) -> None:
        """Change a coefficient."""
        self.vectors.add_weighted(a, -step, self.h, self.R)
        self.sums[0] -= step * self.sums[1] * self.means[a]

    def turn(self, some: Index, size: int, steps: Float, work: Float) -> float:
        """The curvature along steps of some coefficients. Sets: ``work``, what they change, and the sum of that."""
        n = self.R.shape[0]
        change, shift, total = work[:n], 0.0, 0.0
        change[:] = 0.0
        for i in range(size):
            if steps[i] != 0.0:
                self.vectors.add(some[i], steps[i], change)
                shift += steps[i] * self.means[some[i]]
        for i in range(n):
            total += self.h[i] * change[i] * change[i]
            change[i] *= self.h[i]
        work[n] = self.sums[1] * shift
        return total - self.sums[1] * shift * shift

    def accept(self, work: Float) -> None:
        """Make the steps of the last `turn`."""
        for i in range(self.R.shape[0]):
            self.R[i] -= work[i]
        self.sums[0] -= work[self.R.shape[0]]


@compiled
def conjugate_gradients(
    model: ResidualModel, w: Float, lam: float, mu: float, S: Index, size: int, d: Float, work: Float
) -> None:
    """The step of Newton's method on the support, roughly. Sets: ``d``."""
    r, p, q = np.empty(size), np.empty(size), np.empty(size)
    n, rho, least = model.R.shape[0], 0.0, 0.0
    for i in range(size):
        a = S[i]
        d[i] = 0.0
        r[i] = model.slope_of(a) - mu * w[a] - math.copysign(lam, w[a])
        p[i] = r[i] / (model.curvatures[a] + mu)
        rho += r[i] * p[i]
    least = PRECISE * PRECISE * rho
    for _ in range(GRADIENTS):
        if not rho > least:
            break
        curvature = model.turn(S, size, p, work)
        for i in range(size):
            curvature += mu * p[i] * p[i]
        if not curvature > 0.0:
            break
        t, before, rho = rho / curvature, rho, 0.0
        for i in range(size):
            q[i] = model.vectors.dot(S[i], work[:n]) - model.means[S[i]] * work[n] + mu * p[i]
            d[i] += t * p[i]
            r[i] -= t * q[i]
            q[i] = r[i] / (model.curvatures[S[i]] + mu)
            rho += r[i] * q[i]
        for i in range(size):
            p[i] = q[i] + rho / before * p[i]


@compiled
def solve_roughly(
    model: ResidualModel, w: Float, lam: float, mu: float, low: Float, high: Float, precise: bool
) -> None:
    """Sweep over all coefficients, or sweep less and go towards the best of the support. Sets: ``w``, the model."""
    m, n = w.shape[0], model.R.shape[0]
    S, d, steps, targets, work = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m), np.empty(m), np.empty(n + 1)
    for k in range(2 if precise else 1):
        for _ in range(FEW_SWEEPS if precise else MANY_SWEEPS):
            sweep(model, w, lam, mu, low, high, False)
        if k == 0 and precise:
            size = 0
            for a in range(m):
                if w[a] != 0.0 and low[a] < w[a] < high[a]:
                    S[size] = a
                    size += 1
            conjugate_gradients(model, w, lam, mu, S, size, d, work)
            newton_step(model, w, lam, mu, low, high, S, size, d, steps, targets, work)


@compiled
def slopes_of(vectors: Vectors, some: Index, alpha: Float, v: Float) -> None:
    """The products of some columns with the dual variables. Sets: ``v`` there."""
    for j in some:
        v[j] = vectors.dot(j, alpha)


@compiled
def judged(
    v: Float, certain: Array, w: Float, lam: float, mu: float, low: Float, high: Float, lengths: Float,
    violators: Index, excesses: Float,
) -> tuple[int, float, float]:  # fmt: skip
    """Columns whose coefficient is zero and wants to change, how many, and the penalty.

    Third is by what the dual variables have to be divided to be feasible. Sets: ``violators, excesses``.
    """
    cost, excess, count = 0.0, 1.0, 0
    for j in range(v.shape[0]):
        cost += lam * abs(w[j]) + 0.5 * mu * w[j] * w[j]
        beyond = abs(v[j]) - lam
        if certain[j] or beyond <= 0.0:
            continue
        end = high[j] if v[j] > 0.0 else -low[j]
        if mu == 0.0 and end == math.inf:
            excess = max(excess, abs(v[j]) / lam if lam > 0.0 else math.inf)
        if w[j] == 0.0 and end > 0.0:
            violators[count], excesses[count] = j, beyond / lengths[j]
            count += 1
    return count, cost, excess


@compiled
def conjugate_of_penalty(v: Float, certain: Array, t: float, lam: float, mu: float, low: Float, high: Float) -> float:
    """The conjugate of the penalty at ``t v``."""
    total = 0.0
    for j in range(v.shape[0]):
        beyond = t * abs(v[j]) - lam
        if beyond > 0.0 and not certain[j]:
            end = high[j] if v[j] > 0.0 else -low[j]
            if mu > 0.0:
                end = min(end, beyond / mu)
            if end < math.inf:  # or rounding is left of a product that was scaled to the limit
                total += end * (beyond - 0.5 * mu * end)
    return total
