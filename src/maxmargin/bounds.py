"""What theory promises of Pegasos, before anything is computed.

For ``f(w) = lam |w|^2 / 2 + (1/n) sum_i max(0, 1 - y_i x_i.w)`` with rows of norm at most ``R``, let ``w_avg`` be the
average of ``w_1 = 0, w_2, ..., w_T``, made with the step ``1 / (lam t)``. The subgradients are bounded by ``sqrt(c)``,

    c = (sqrt(lam) + R)^2  with projection onto the ball of radius 1 / sqrt(lam),    c = 4 R^2  without,

and the iterates are those of online gradient descent on strongly convex functions. Hence

    f(w_avg) - f* <= c (1 + ln T) / (2 lam T)               if every step uses all samples;
    E f(w_avg) - f* <= c (1 + ln T) / (2 lam T)             if every batch is drawn uniformly at random;
    f(w_avg) - f* <= c (1 + ln T) / (2 delta lam T)         then with probability 1 - delta, by Markov's inequality;
    f(w_avg) - f* <= 21 c ln(T / delta) / (lam T)           with probability 1 - delta, if R >= 1 and lam <= 1/4.

A problem of this library, ``sum_i s_i loss_i + lam_sum |w|^2 / 2``, is ``sum_i s_i`` times such an ``f`` with
``lam = lam_sum / sum_i s_i``. Any other loss whose slopes are at most 1 in size obeys the same bounds without
projection. Unequal weights leave them as they are if samples are drawn in proportion to their weights, one at a time;
otherwise the norm of row ``i`` counts ``s_i / mean(s)`` times. A penalised intercept is one more column.

Reference: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
Mathematical Programming 2011, theorem 1 and corollaries 1 and 2.
"""

from __future__ import annotations

import math


def subgradient_bound(lam: float, R: float, *, projected: bool = False) -> float:
    """``c``, the largest squared norm of a subgradient on the way.

    Without projection ``|w_t| <= R / lam``, so that ``|lam w_t - v_t| <= 2 R``; with it ``|w_t| <= 1 / sqrt(lam)``.

    >>> subgradient_bound(0.25, 2.0), subgradient_bound(0.25, 2.0, projected=True)
    (16.0, 6.25)
    """
    _check(lam > 0.0, "lam", lam, "positive")
    _check(R >= 0.0, "R", R, "at least 0")
    return (math.sqrt(lam) + R) ** 2 if projected else 4.0 * R**2


def error_after(T: int, lam: float, R: float, *, projected: bool = False, delta: float | None = None) -> float:
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

    """
    _check(T >= 1, "T", T, "at least 1")
    c = subgradient_bound(lam, R, projected=projected)
    expected = c * (1.0 + math.log(T)) / (2.0 * lam * T)
    if delta is None:
        return expected
    _check(0.0 < delta < 1.0, "delta", delta, "between 0 and 1")
    if R >= 1.0 and lam <= 0.25 and T >= 3:
        return min(expected / delta, 21.0 * c * math.log(T / delta) / (lam * T))
    return expected / delta


def steps_for(epsilon: float, lam: float, R: float, *, projected: bool = False, delta: float | None = None) -> int:
    """The fewest steps ``T`` for which `error_after` is at most ``epsilon``.

    It grows like ``c / (lam epsilon)`` but for a logarithm, and does not depend on the number of samples.

    Parameters
    ----------
    epsilon : float
        How far ``f(w_avg)`` may be from the optimum.
    lam, R, projected, delta
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
        return error_after(T, lam, R, projected=projected, delta=delta) <= epsilon

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2  # not enough, or zero
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _check(right: bool, name: str, value: float, what: str) -> None:
    if not right:
        raise ValueError(f"{name}={value!r} must be {what}.")
