"""Which solver an estimator will use, and why, in a sentence."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from maxmargin.estimators._machinery.at_once import is_wanted
from maxmargin.estimators._machinery.estimator import CertifiedEstimator
from maxmargin.estimators._machinery.fit import choose_solver
from maxmargin.estimators._machinery.forecasts import forecast_of
from maxmargin.solvers.choice import Choice, small_enough
from maxmargin.solvers.forecast import Forecast


def explain_solver(estimator: Any, X: Any, y: Any = None) -> str:
    """Which solver an estimator would use on some samples, why, and about what it will cost. Nothing is fitted.

    Parameters
    ----------
    estimator : estimator of maxmargin, or its class
        With its parameters, those of the class by default; whether it is fitted makes no difference.
    X : array-like, sparse matrix or chunked matrix of shape (n_samples, n_features)
        The samples.
    y : array-like of shape (n_samples,), default=None
        Their targets. Without them two classes are assumed; if more would make a difference, the answer says so.

    Returns
    -------
    str
        Some sentences. What is said of time is a forecast from the work of typical data; a fit stops earlier or later.

    Examples
    --------
    >>> import numpy as np, maxmargin
    >>> print(maxmargin.explain_solver(maxmargin.LinearSVC(), np.zeros((1000, 20))))
    LinearSVC on 1000 x 20 uses 'newton', because with 20 features its steps are cheap and few, whatever the scales of \
the columns, and 'interior_point' takes over after 150 iterations. Before that, one compiled call tries to solve all \
its problems, because up to 2000 samples with 1048576 entries are few. It will take less than a second and 1 MB \
beside the samples, as a rough forecast.

    """
    if isinstance(estimator, type) and issubclass(estimator, CertifiedEstimator):
        estimator = estimator()
    if not isinstance(estimator, CertifiedEstimator):
        raise TypeError(f"{type(estimator).__name__} is no estimator of maxmargin: its solver is not ours to explain.")
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"X has the shape {X.shape}, but samples are a matrix with a row for each of them.")
    n = X.shape[0]
    choice, small, cost = _choice_for(estimator, X, np.arange(n) % 2 if y is None else y)
    sentence = f"{type(estimator).__name__} on {n} x {X.shape[1]} uses {choice}"
    if y is None and is_classifier(estimator) and n >= 3:
        of_more, _, _ = _choice_for(estimator, X, np.arange(n) % 3)
        if of_more != choice:
            sentence += f" With more than two classes, which only y can tell, it uses {of_more}"
    if small is not None:
        sentence += f" Before that, one compiled call tries to solve all its problems, because {small}."
    return sentence if cost is None else f"{sentence} It will take {cost}, as a rough forecast."


def _choice_for(estimator: CertifiedEstimator, X: Any, y: Any) -> tuple[Choice, str | None, Forecast | None]:
    """The choice for a problem that is posed as a fit would pose it, by a copy of the estimator.

    And why one compiled call is tried first, if it is; and what the fit will cost.
    """
    sketch = copy.copy(estimator)
    sketch.random_state = None  # a generator of the user's is not to be drawn from
    plan = sketch._plan(X, y, None)
    choose_solver(sketch, plan)
    at_once = is_wanted(sketch, plan) and sketch._at_once(plan) is not None
    return plan.choice, small_enough(*plan.X.shape) if at_once else None, forecast_of(sketch, plan)
