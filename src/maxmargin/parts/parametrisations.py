"""One machine under many names: what `C`, lambda, nu and their relatives are in terms of each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class Form(NamedTuple):
    """How to get to the first form of the same family and back, for ``n`` samples and ``a = sum_i alpha_i``."""

    family: str
    to_first: Callable[[float, float, float], float]
    from_first: Callable[[float, float, float], float]
    wants: str = ""  # which of "n" and "a" it needs


MACHINES, SQUARES = "of machines with a margin", "of least squares"
FORMS = {
    "C": Form(MACHINES, lambda v, n, a: v, lambda C, n, a: C),
    "C_mean": Form(MACHINES, lambda v, n, a: v / n, lambda C, n, a: n * C, "n"),
    "C_perf": Form(MACHINES, lambda v, n, a: v / (0.01 * n), lambda C, n, a: 0.01 * n * C, "n"),
    "lambda_mean": Form(MACHINES, lambda v, n, a: 1.0 / (n * v), lambda C, n, a: 1.0 / (n * C), "n"),
    "lambda_sum": Form(MACHINES, lambda v, n, a: 1.0 / v, lambda C, n, a: 1.0 / C),
    "lambda_square": Form(MACHINES, lambda v, n, a: 0.5 / v, lambda C, n, a: 0.5 / C),
    "lambda_square_mean": Form(MACHINES, lambda v, n, a: 0.5 / (n * v), lambda C, n, a: 0.5 / (n * C), "n"),
    "nu": Form(MACHINES, lambda v, n, a: a / (n * v), lambda C, n, a: a / (n * C), "na"),
    "nu_cap": Form(MACHINES, lambda v, n, a: 0.5 * a * v, lambda C, n, a: 2.0 * C / a, "a"),
    "penalty": Form(SQUARES, lambda v, n, a: v, lambda p, n, a: p),
    "penalty_half": Form(SQUARES, lambda v, n, a: 2.0 * v, lambda p, n, a: 0.5 * p),
    "penalty_mean": Form(SQUARES, lambda v, n, a: 2.0 * n * v, lambda p, n, a: p / (2.0 * n), "n"),
}


def convert_strength(
    value: float, given: str, wanted: str, *, n_samples: float | None = None, sum_alpha: float | None = None
) -> float:
    """The strength in another parametrisation with which a problem has the same solution.

    Machines with a margin, where ``loss_i`` is any loss of ``y_i f_i`` (or of a residual) for sample ``i`` of ``n``:

    ======================  =========================================================  ================================
    name                    what is minimised with the value ``v``                     who writes so
    ======================  =========================================================  ================================
    ``C``                   ``1/2 |w|^2 + v sum_i loss_i``                             LIBSVM, LIBLINEAR, scikit-learn
    ``C_mean``              ``1/2 |w|^2 + v/n sum_i loss_i``                           ReHLine
    ``C_perf``              ``C_perf = 0.01 C n``                                      SVM-perf
    ``lambda_mean``         ``v/2 |w|^2 + 1/n sum_i loss_i``                           Pegasos; ``alpha`` of SGD
    ``lambda_sum``          ``v/2 |w|^2 + sum_i loss_i``                               primal text books
    ``lambda_square``       ``v |w|^2 + sum_i loss_i``                                 "soft SVM" from least squares
    ``lambda_square_mean``  ``v |w|^2 + 1/n sum_i loss_i``                             learning theory
    ``nu``                  ``1/2 |w|^2 - v rho + 1/n sum_i max(0, rho - y_i f_i)``    Schoelkopf, `NuSVC`
    ``nu_cap``              ``1/2 |w|^2 - rho + v/2 sum_i max(0, rho - y_i f_i)``      Saddle-SVC, ``NuSVC(cap=...)``
    ======================  =========================================================  ================================

    and least squares with any penalty ``r``: ``penalty`` is ``|A w - d|^2 + v r(w)`` (`Ridge`), ``penalty_half`` is
    ``1/2 |A w - d|^2 + v r(w)``, ``penalty_mean`` is ``1/(2n) |A w - d|^2 + v r(w)`` (`Lasso`, `ElasticNet`).

    Parameters
    ----------
    value : float
        The strength as it is given; positive, and infinite only where that means something.
    given, wanted : str
        Names of parametrisations, both of the first or both of the second list.
    n_samples : float, optional
        Number of samples, or the sum of their weights; where the formulas differ in it.
    sum_alpha : float, optional
        To or from ``nu`` and ``nu_cap``: the sum of the dual variables of the solution for ``C``, which is
        ``np.abs(model.dual_coef_).sum()`` of `SVC` and of `NuSVC` alike. Which nu belongs to a C depends on the data.

    Returns
    -------
    float
        The strength as it is wanted.

    Raises
    ------
    ValueError
        For names that are unknown or of different lists, values that are not positive, and what is missing.

    Examples
    --------
    Every form is a multiple of every other one, at any point, so that they have the same minimisers:

    >>> import numpy as np
    >>> from maxmargin import convert_strength
    >>> rng = np.random.default_rng(0)
    >>> n, C, w = 50, 0.3, rng.normal(size=3)
    >>> norm, loss = w @ w, np.maximum(0.0, 1.0 - rng.normal(size=(n, 3)) @ w)
    >>> def strength(wanted):
    ...     return convert_strength(C, "C", wanted, n_samples=n)
    >>> values = [
    ...     0.5 * norm + C * loss.sum(),
    ...     0.5 * norm + strength("C_mean") / n * loss.sum(),
    ...     C * (strength("lambda_sum") / 2 * norm + loss.sum()),
    ...     C * (strength("lambda_square") * norm + loss.sum()),
    ...     n * C * (strength("lambda_mean") / 2 * norm + loss.mean()),
    ...     n * C * (strength("lambda_square_mean") * norm + loss.mean()),
    ... ]
    >>> bool(np.ptp(values) <= 1e-12 * values[0])
    True

    The solution of `NuSVC` divided by its margin solves the problem of `SVC` for one ``C``:

    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import NuSVC, SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[50:], y[50:]
    >>> nu = NuSVC(nu=0.3, tol=1e-9).fit(X, y)
    >>> total = float(np.abs(nu.dual_coef_).sum())
    >>> C = convert_strength(0.3, "nu", "C", n_samples=100, sum_alpha=total)
    >>> soft = SVC(C=C, tol=1e-9).fit(X, y)
    >>> bool(np.abs(soft.decision_function(X) - nu.decision_function(X)).max() < 1e-3)
    True
    >>> cap = convert_strength(0.3, "nu", "nu_cap", n_samples=100, sum_alpha=total)
    >>> round(cap, 12) == round(2 / (100 * 0.3), 12)
    True

    """
    for name in (given, wanted):
        if name not in FORMS:
            raise ValueError(f"{name!r} is no parametrisation; the names are {', '.join(map(repr, FORMS))}.")
    first, last = FORMS[given], FORMS[wanted]
    if first.family != last.family:
        raise ValueError(f"{given!r} is a parametrisation {first.family}, and {wanted!r} one {last.family}.")
    if not 0.0 < value < math.inf:
        raise ValueError(f"{given}={value!r} must be positive and finite.")
    known = {"n": ("n_samples", n_samples), "a": ("sum_alpha", sum_alpha)}
    for key in "na":
        name, number = known[key]
        if given != wanted and key in first.wants + last.wants and number is None:
            raise ValueError(f"From {given!r} to {wanted!r} needs {name}.")
        if number is not None and not 0.0 < number < math.inf:
            raise ValueError(f"{name}={number!r} must be positive and finite.")
    if given == wanted:
        return float(value)
    n, a = (math.nan if number is None else float(number) for _, number in known.values())
    return last.from_first(first.to_first(float(value), n, a), n, a)
