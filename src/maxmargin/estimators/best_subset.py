"""The best subset of features of each size, for problems so small that all subsets can be tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.systems import check_count, check_number, check_system, check_weights
from maxmargin.numerics.subsets import best_subsets, count_of_subsets
from maxmargin.operators.rows import dense64
from maxmargin.protocols import Float, Index

MOST_SUBSETS = 2**26  # some seconds
MOST_FEATURES = 62  # bits of a whole number


@dataclass(frozen=True, eq=False)
class BestSubsets:
    """For each number of features, the subset with the smallest error.

    Attributes
    ----------
    errors : ndarray of shape (n_sizes,)
        The smallest ``sum_i s_i (y_i - w.x_i - b)^2`` with 0, 1, 2, ... features. It ends with the largest size for
        which columns do not depend on each other.
    supports : list of ndarray
        Which features they are.
    coefs : ndarray of shape (n_sizes, n_features)
        Their coefficients.
    intercepts : ndarray of shape (n_sizes,)
        Intercepts.
    subsets : int
        How many subsets were compared.

    """

    errors: Float
    supports: list[Index]
    coefs: Float
    intercepts: Float
    subsets: int

    def within_error(self, eps: float) -> Index:
        """The smallest subset with an error of at most ``eps``: ``min |w|_0`` subject to ``|A w - d|^2 <= eps``."""
        eps = check_number("eps", eps)
        good = np.flatnonzero(self.errors <= eps)
        if not good.size:
            raise ValueError(
                f"No subset of at most {self.errors.size - 1} features has an error of eps={eps:.6g} or less: the "
                f"smallest is {self.errors.min():.10g}. Raise eps to that, or max_features."
            )
        return self.supports[int(good[0])]


def best_subset(
    X: Any,
    y: ArrayLike,
    *,
    max_features: int | None = None,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
) -> BestSubsets:
    """The best subset of each size, found by comparing all of them. It is a reference for small problems only.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Targets.
    max_features : int, optional
        The largest size; all if it is not given. Up to 67 million subsets are compared: those of 26 features, or those
        of at most 5 of 62.
    sample_weight : array-like of shape (n_samples,), optional
        Weight of each sample's squared error.
    fit_intercept : bool, default=True
        Whether there is an intercept, which does not count as a feature.

    Returns
    -------
    BestSubsets
        Errors, subsets and coefficients.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import best_subset
    >>> found = best_subset(*load_diabetes(return_X_y=True))
    >>> found.subsets, found.supports[3].tolist()
    (1024, [2, 3, 8])

    """
    X, y = check_system(X, y)
    d = X.shape[1]
    most = check_count("max_features", max_features)
    most = min(d, X.shape[0], d if most is None else most)
    total = count_of_subsets(d, most)
    if total > MOST_SUBSETS or d > MOST_FEATURES:
        raise ValueError(
            f"{d} features have {total:.3g} subsets of at most {most}, and this search compares each of them: at most "
            f"{MOST_SUBSETS:.3g} subsets, of at most {MOST_FEATURES} features. Lower max_features, or use "
            f"lasso_homotopy, which leads to a good subset of any size."
        )
    s = check_weights(sample_weight, X)
    roots, rows = np.sqrt(s)[:, None], dense64(X)
    means, mean = np.zeros(d), 0.0
    if fit_intercept:
        means, mean = s @ rows / s.sum(), float(s @ y / s.sum())
    rows, targets = roots * (rows - means), roots[:, 0] * (y - mean)
    _, masks = best_subsets(rows.T @ rows, rows.T @ targets, float(targets @ targets), most)
    supports = [np.flatnonzero([(int(mask) >> j) & 1 for j in range(d)]) for mask in masks]
    supports = [support for k, support in enumerate(supports) if support.size == k]
    coefs, errors = np.zeros((len(supports), d)), np.empty(len(supports))
    for k, support in enumerate(supports):
        coefs[k, support] = np.linalg.lstsq(rows[:, support], targets, rcond=None)[0]
        left = targets - rows[:, support] @ coefs[k, support]
        errors[k] = left @ left
    return BestSubsets(errors, supports, coefs, mean - coefs @ means, total)
