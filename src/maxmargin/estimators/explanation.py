"""Which solver an estimator will use, and why, in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators._machinery.problems import l1_share
from maxmargin.operators import ChunkedMatrix
from maxmargin.operators.rows import is_sparse
from maxmargin.solvers.choice import Choice, Traits


def explain_solver(estimator: Any, X: Any) -> str:
    """Which solver an estimator would use on some samples, and why. Nothing is fitted.

    Parameters
    ----------
    estimator : estimator of maxmargin
        With its parameters; whether it is fitted makes no difference.
    X : array-like, sparse matrix or chunked matrix of shape (n_samples, n_features)
        The samples; only their number, their features and how many entries are stored matter.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> import numpy as np, maxmargin
    >>> print(maxmargin.explain_solver(maxmargin.LinearSVC(), np.zeros((1000, 20))))
    LinearSVC on 1000 x 20 uses 'newton', because with 20 features its steps are cheap and few, whatever the scales of \
the columns, and 'interior_point' takes over after 150 iterations.

    """
    if not hasattr(estimator, "_choice"):
        raise TypeError(f"{type(estimator).__name__} is no estimator of maxmargin: its solver is not ours to explain.")
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"X has the shape {X.shape}, but samples are a matrix with a row for each of them.")
    choice = estimator._choice(X)
    choice.make()  # refuses a name that no solver has
    return f"{type(estimator).__name__} on {X.shape[0]} x {X.shape[1]} uses {choice}"


def traits_of(estimator: Any, X: Any, **known: Any) -> Traits:
    """What "auto" decides by."""
    n, d = X.shape
    if isinstance(X, ChunkedMatrix):
        entries = X.entries
    else:
        entries = X.nnz if is_sparse(X) else n * d
    l1, in_memory = l1_share(estimator) > 0.0, not isinstance(X, ChunkedMatrix)
    known |= {
        "intercept": getattr(estimator, "fit_intercept", True) and getattr(estimator, "intercept", "auto") is not None,
        "kinked": getattr(estimator, "loss", None) in ("hinge", "epsilon_insensitive"),
    }
    return Traits(n, d, entries, l1, in_memory=in_memory, max_time=estimator.max_time, **known)


def given(estimator: Any) -> Choice:
    """The solver that the user asked for."""
    return Choice(str(estimator.solver), f"solver={estimator.solver!r} was asked for")
