"""What theory promises of Pegasos and of the other families of solvers, before anything is computed.

For ``f(w) = lam |w|^2 / 2 + (1/n) sum_i max(0, 1 - y_i x_i.w)`` with rows of norm at most ``R``, let ``w_avg`` be the
average of ``w_1 = 0, w_2, ..., w_T``, made with the step ``1 / (lam t)``. The subgradients are bounded by ``sqrt(c)``,

    c = (sqrt(lam) + R)^2  with projection onto the ball of radius 1 / sqrt(lam),    c = 4 R^2  without,

and the iterates are those of online gradient descent on strongly convex functions. Hence

    f(w_avg) - f* <= c (1 + ln T) / (2 lam T)               if every step uses all samples;
    E f(w_avg) - f* <= c (1 + ln T) / (2 lam T)             if every batch is drawn uniformly at random;
    f(w_avg) - f* <= c (1 + ln T) / (2 delta lam T)         then with probability 1 - delta, by Markov's inequality;
    f(w_avg) - f* <= 21 c ln(T / delta) / (lam T)           with probability 1 - delta, if R >= 1 and lam <= 1/4.

Two other points have bounds of their own. Where the run is stopped at random, each of ``w_1, ..., w_T`` as likely as
any other, the mean of their errors is all that the proof of the second line bounds, so that it and Markov's inequality
hold for that one iterate: with probability 1/2 it is at most twice as bad (lemma 3). Where ``w_t`` counts in proportion
to ``t`` in the average, the logarithm goes:

    E f(w_avg) - f* <= 2 c / (lam (T + 1)),

since ``E |w_(t+1) - w*|^2 <= c / (lam^2 t)`` by induction, and the sum over ``t`` of ``t`` times the inequality of one
step leaves ``lam / 2 sum t |w_(t+1) - w*|^2 + T c / (2 lam)``.

A problem of this library, ``sum_i s_i loss_i + lam_sum |w|^2 / 2``, is ``sum_i s_i`` times such an ``f`` with
``lam = lam_sum / sum_i s_i``. Any other loss whose slopes are at most 1 in size obeys the same bounds without
projection. Unequal weights leave them as they are if samples are drawn in proportion to their weights, one at a time or
independently of each other; otherwise the norm of row ``i`` counts ``s_i / mean(s)`` times (`largest_row`). A penalised
intercept is one more column.

Reference: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
Mathematical Programming 2011, theorem 1, corollaries 1 and 2, and lemma 3; Lacoste-Julien, Schmidt, Bach, "A simpler
approach to obtaining an O(1/t) convergence rate for the projected stochastic subgradient method", 2012.

The functions ``..._ball`` are about the smallest loss over a ball, ``min L(w)`` with ``|w| <= B``, where ``L`` is the
mean of a loss with slopes of at most 1 over rows of norm at most ``X``. The others count planes, pairs and steps until
an error ``epsilon`` by the same argument: a step that gains ``min(u / (2 p), u^2 / (2 q))`` at least while the error
is ``u`` comes from ``u_0`` to ``q / p`` after ``2 p log(u_0 p / q)`` steps, and on to ``epsilon`` after ``2 q (1 /
epsilon - p / q)``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

POINTS = ("uniform", "weighted", "random")


def subgradient_bound(lam: float, R: float, *, projected: bool = False) -> float:
    """``c``, the largest squared norm of a subgradient on the way.

    Without projection ``|w_t| <= R / lam``, so that ``|lam w_t - v_t| <= 2 R``; with it ``|w_t| <= 1 / sqrt(lam)``.

    >>> subgradient_bound(0.25, 2.0), subgradient_bound(0.25, 2.0, projected=True)
    (16.0, 6.25)
    """
    _check(lam > 0.0, "lam", lam, "positive")
    _check(R >= 0.0, "R", R, "at least 0")
    return (math.sqrt(lam) + R) ** 2 if projected else 4.0 * R**2


def largest_row(norms: ArrayLike, weights: ArrayLike | None = None, *, proportional: bool = True) -> float:
    """``R`` of samples with weights: the largest norm of a row, as often as the row counts.

    Parameters
    ----------
    norms : array-like of shape (n_samples,)
        Norms of the rows, with the column of a penalised intercept.
    weights : array-like of shape (n_samples,), optional
        Weights of the samples; equal ones are the default. Rows without weight do not count.
    proportional : bool
        Whether samples are drawn in proportion to their weights. Otherwise they are visited equally often, and each
        counts its weight divided by the mean weight.

    Returns
    -------
    float
        ``R``.

    Examples
    --------
    >>> largest_row([1.0, 2.0, 9.0], [3.0, 1.0, 0.0])
    2.0
    >>> largest_row([1.0, 2.0, 9.0], [3.0, 1.0, 0.0], proportional=False)
    1.5

    """
    lengths = np.asarray(norms, dtype=np.float64)
    s = np.ones(lengths.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    lengths, s = lengths[s > 0.0], s[s > 0.0]
    return float((lengths if proportional else lengths * s / s.mean()).max(initial=0.0))


def error_after(
    T: int, lam: float, R: float, *, projected: bool = False, delta: float | None = None, point: str = "uniform"
) -> float:
    """How far ``f(w_avg)`` is from the optimum after ``T`` steps, at most.

    Parameters
    ----------
    T : int
        Steps, each on one batch.
    lam : float
        Strength of the penalty against the mean of the losses.
    R : float
        Largest norm of a row.
    projected : bool
        Whether every iterate is projected onto the ball of radius ``1 / sqrt(lam)``.
    delta : float, optional
        Probability with which the bound may fail. ``None`` gives the bound on the expectation, which is certain if
        every step uses all samples. Otherwise the smaller of Markov's bound and, where it holds, corollary 2's.
    point : {"uniform", "weighted", "random"}
        The plain average, the one in which ``w_t`` counts ``t`` times, or one of the iterates, drawn at random.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(error_after(1000, 0.1, 1.0), 4)
    0.1582
    >>> round(error_after(1000, 0.1, 1.0, delta=0.5), 4)  # Markov
    0.3163
    >>> round(error_after(10**6, 0.1, 1.0, delta=1e-3), 4)  # corollary 2
    0.0174
    >>> round(error_after(1000, 0.1, 1.0, point="weighted"), 4)  # no logarithm
    0.0799
    >>> round(error_after(1000, 0.1, 1.0, delta=0.5, point="random"), 4)  # lemma 3
    0.3163

    """
    _check(T >= 1, "T", T, "at least 1")
    _check(point in POINTS, "point", point, f"one of {', '.join(POINTS)}")
    c = subgradient_bound(lam, R, projected=projected)
    of_all = 2.0 / (T + 1) if point == "weighted" else (1.0 + math.log(T)) / (2.0 * T)
    expected = c * of_all / lam
    if delta is None:
        return expected
    _check(0.0 < delta < 1.0, "delta", delta, "between 0 and 1")
    if point == "uniform" and R >= 1.0 and lam <= 0.25 and T >= 3:
        return min(expected / delta, 21.0 * c * math.log(T / delta) / (lam * T))
    return expected / delta


def steps_for(
    epsilon: float, lam: float, R: float, *, projected: bool = False, delta: float | None = None, point: str = "uniform"
) -> int:
    """The fewest steps ``T`` for which `error_after` is at most ``epsilon``.

    It grows like ``c / (lam epsilon)`` but for a logarithm, and does not depend on the number of samples.

    Parameters
    ----------
    epsilon : float
        How far ``f(w_avg)`` may be from the optimum.
    lam, R, projected, delta, point
        As for `error_after`.

    Returns
    -------
    int
        The number of steps.

    Examples
    --------
    >>> steps_for(0.1582, 0.1, 1.0)
    1000
    >>> T = steps_for(1e-3, 1e-4, 1.0, projected=True, delta=0.01)
    >>> error_after(T, 1e-4, 1.0, projected=True, delta=0.01) <= 1e-3
    True

    """
    _check(epsilon > 0.0, "epsilon", epsilon, "positive")

    def enough(T: int) -> bool:
        return error_after(T, lam, R, projected=projected, delta=delta, point=point) <= epsilon

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2  # not enough, or zero
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def step_in_ball(k: int, X: float, B: float) -> float:
    """``B / (X sqrt(k))``, the constant length of ``k`` steps of projected stochastic gradient descent over a ball.

    >>> step_in_ball(100, 2.0, 1.0)
    0.05
    """
    _check(k >= 1, "k", k, "at least 1")
    _check(X > 0.0, "X", X, "positive")
    _check(B >= 0.0, "B", B, "at least 0")
    return B / (X * math.sqrt(k))


def error_in_ball(k: int, X: float, B: float) -> float:
    """``X B / sqrt(k)``: how far the mean of ``k`` iterates is from the smallest loss over a ball, in expectation.

    Each step of length `step_in_ball` goes along the slope at a sample that is drawn at random, and back into the ball.
    From the training samples it holds for the mean over these; with fresh samples, each used once, for the mean over
    all that there could be, where ``B`` may be the norm of whatever point one compares with. The distance to it,
    ``B`` at first, falls in every step by ``2 step`` times the excess, but for ``step^2 X^2``.

    >>> error_in_ball(10_000, 1.0, 3.0)
    0.03
    """
    return X * X * step_in_ball(k, X, B)


def deviation_over_ball(m: int, X: float, B: float, delta: float | None = None) -> float:
    """How far the mean loss of ``m`` samples may be from that of all that there could be, for all ``|w| <= B`` at once.

    Without ``delta`` it is ``2 X B / sqrt(m)``, a bound on the expectation of the largest difference on either side,
    by symmetrisation and contraction. With it, and for a loss that at zero is at most 1, the difference on both sides
    is with probability ``1 - delta`` at most ``2 X B / sqrt(m) + (1 + X B) sqrt(log(2 / delta) / (2 m))``. The excess
    of the minimiser over the ball obeys the first bound as well, in expectation.

    Reference: Bartlett, Mendelson, "Rademacher and Gaussian complexities", JMLR 2002, theorem 8 and lemma 22.

    >>> deviation_over_ball(10_000, 1.0, 3.0), round(deviation_over_ball(10_000, 1.0, 3.0, delta=0.05), 4)
    (0.06, 0.1143)
    """
    expected = 2.0 * error_in_ball(m, X, B)
    if delta is None:
        return expected
    _check(0.0 < delta < 1.0, "delta", delta, "between 0 and 1")
    return expected + (1.0 + X * B) * math.sqrt(math.log(2.0 / delta) / (2.0 * m))


def planes_for(epsilon: float, lam: float, R: float) -> int:
    """The planes with which cutting planes come within ``epsilon`` of the optimum: ``O(R^2 / (lam epsilon))``.

    For ``lam |w|^2 / 2`` and a mean loss of at most 1 at zero, with slopes of at most 1, over rows of norm at most
    ``R``, if there is one slack and every plane touches at the minimiser of the model. The dual of the model gains
    along the line to the new plane, where it rises by the gap ``u`` at first and bends by ``4 R^2 / lam`` at most. A
    plane costs a pass over the data.

    Reference: Teo, Vishwanathan, Smola, Le, "Bundle methods for regularized risk minimization", JMLR 2010, theorem 4.

    >>> planes_for(0.01, 0.1, 1.0), planes_for(0.001, 0.1, 1.0)
    (7920, 79920)
    """
    _check(lam > 0.0, "lam", lam, "positive")
    _check(R >= 0.0, "R", R, "at least 0")
    return _steps(epsilon, 1.0, 1.0, 4.0 * R**2 / lam)


def pairs_for(epsilon: float, n: int, C: float, R: float) -> int:
    """The steps on pairs after which a decomposition is within ``epsilon`` of the dual's optimum: ``O(n^2 / epsilon)``.

    For ``C sum_i hinge_i + |w|^2 / 2`` with a free intercept and rows, in the feature space, of norm at most ``R``.
    The way to the optimum is a sum of fewer than ``n`` moves of two variables, so one of them promises ``u / n`` of
    the error ``u``, and it bends by ``(2 R C)^2`` at most. That is for steps on the pair that promises most, room
    times slope; working sets by slope alone need far fewer as a rule, but their room may be tiny, and no such bound is
    known.

    Reference: Hush, Scovel, "Polynomial-time decomposition algorithms for support vector machines", Machine Learning
    2003.

    >>> pairs_for(1.0, 10, 1.0, 1.0), pairs_for(1.0, 20, 1.0, 1.0)
    (720, 3040)
    """
    _check(n >= 2, "n", n, "at least 2")
    _check(C > 0.0, "C", C, "positive")
    return _steps(epsilon, n * C, float(n), (2.0 * n * R * C) ** 2)


def gilbert_steps_for(epsilon: float, beta: float) -> int:
    """The steps of Gilbert's method to a relative gap ``epsilon`` of the squared distance: ``8 / (epsilon beta^2)``.

    ``beta`` is the distance of the hulls divided by the sum of their diameters, at most 1. The error of ``|v|^2 / 2``
    is at most ``2 / (t + 2)`` of the squared diameter after ``t`` steps, and they cannot all have large gaps from then
    on.

    >>> gilbert_steps_for(0.1, 0.5)
    322
    """
    _check(epsilon > 0.0, "epsilon", epsilon, "positive")
    _check(0.0 < beta <= 1.0, "beta", beta, "above 0 and at most 1")
    return 2 + math.ceil(8.0 / (epsilon * beta**2))


def saddle_gamma(epsilon: float, beta: float, n: int) -> float:
    """``epsilon beta / (2 log n)``: the strength of the entropy that costs no more than ``epsilon`` of the optimum.

    ``beta`` is a lower bound on half of the squared distance of the hulls, for rows in the unit ball, and ``n`` the
    number of rows. It is the paper's formula with the ``beta`` for which its lemma holds (not a ratio of distances).

    >>> round(saddle_gamma(0.1, 0.02, 1000), 6)
    0.000145
    """
    _check(epsilon > 0.0, "epsilon", epsilon, "positive")
    _check(beta > 0.0, "beta", beta, "positive")
    _check(n >= 2, "n", n, "at least 2")
    return epsilon * beta / (2.0 * math.log(n))


def saddle_steps_for(epsilon: float, gamma: float, d: int, q: float, n: int) -> int:
    """The steps of Saddle-SVC, coordinate by coordinate, until ``E |w - w*|^2 <= epsilon``.

    ``w*`` is the direction of the problem with the entropy ``gamma``, of ``n`` rows in the unit ball and ``d``
    features; ``q`` is ``sqrt(d)`` times the largest entry. Each step takes the error down by ``1 - 1 / (d + q sqrt(d /
    gamma))``: with `saddle_gamma` that is the ``d + sqrt(d / epsilon)`` of the theorem, times what its notation hides.

    Reference: Huang, Jin, Li, "SVM via saddle point optimization", SWAT 2018; Zhang, Xiao, "Stochastic primal-dual
    coordinate method", JMLR 2017, theorem 1.

    >>> saddle_steps_for(0.01, 1e-4, 32, 4.0, 1000), saddle_steps_for(0.01, 1e-6, 32, 4.0, 1000)
    (15354, 151440)
    """
    _check(epsilon > 0.0, "epsilon", epsilon, "positive")
    _check(gamma > 0.0, "gamma", gamma, "positive")
    sigma, d_over_tau = math.sqrt(d * gamma) / (2.0 * q), 2.0 * q * math.sqrt(d * gamma)
    entropy, reach = 2.0 * math.log(n), 4.0  # of equal shares against any, and the largest |w*|^2
    first = (d_over_tau + 2.0 * gamma) * entropy + (0.5 / sigma + 1.0) * reach
    share = 1.0 / (d + q * math.sqrt(d / gamma))
    return max(0, math.ceil(math.log(first / (0.25 / sigma + 1.0) / epsilon) / -math.log1p(-share)))


def saddle_numbers(steps: int, d: int, k: int) -> int:
    """The numbers that pass between a server and ``k`` clients in so many steps of Saddle-DSVC, for a hard margin.

    A client sends 7 in a step and receives 4; for a look at the gap, every ``d`` steps, ``d + 3`` go either way.

    >>> saddle_numbers(1000, 10, 1), saddle_numbers(1000, 10, 8)
    (13600, 108800)
    """
    return k * (11 * steps + steps // d * 2 * (d + 3))


def gilbert_numbers(steps: int, d: int, k: int) -> int:
    """The same for Gilbert's method: ``d + 6`` go either way in a step, and ``d`` more in every hundredth.

    >>> gilbert_numbers(1000, 10, 1)
    32200
    """
    return k * 2 * (steps * (d + 6) + steps // 100 * d)


def fewest_numbers(epsilon: float, d: int, k: int) -> float:
    """``k min(d, 1 / epsilon)``: up to a constant, nobody can do with fewer (theorem of the paper).

    >>> fewest_numbers(0.1, 32, 4)
    40.0
    """
    _check(epsilon > 0.0, "epsilon", epsilon, "positive")
    return k * min(float(d), 1.0 / epsilon)


def _steps(epsilon: float, first: float, p: float, q: float) -> int:
    """From the error ``first`` to ``epsilon``, if a step gains ``min(u / (2 p), u^2 / (2 q))`` at the error ``u``."""
    _check(epsilon > 0.0, "epsilon", epsilon, "positive")
    if epsilon >= first:
        return 0
    middle = min(first, max(q / p, epsilon))
    fast = math.ceil(2.0 * p * math.log(first / middle))
    return fast + math.ceil(2.0 * q * (1.0 / epsilon - 1.0 / middle) if middle > epsilon else 0.0)


def _check(right: bool, name: str, value: object, what: str) -> None:
    if not right:
        raise ValueError(f"{name}={value!r} must be {what}.")
