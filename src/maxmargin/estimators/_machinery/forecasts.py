"""What a planned fit will cost, and a word before the work if that is hours."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.estimators._machinery.plan import ColumnsView, Plan, RowsView, ShardView, Tasks
from maxmargin.operators.rows import is_sparse
from maxmargin.solvers.choice import Traits
from maxmargin.solvers.forecast import HOUR, Forecast, forecast
from maxmargin.wording import Wording

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

FEW_SAMPLES = 20_000  # fits of so few take minutes at most, and the forecast is on the way of every fit
FOLDS = 5  # of probabilities, each a fit to four fifths of the samples
SHARE_OF_TIME = 0.1  # a limit on time that is less than this share of many minutes is worth a word, too
MANY_MINUTES = 600.0


def forecast_of(estimator: CertifiedEstimator, plan: Plan) -> Forecast | None:
    """What a fit is expected to cost whose first problem was posed; ``None`` if its solver approximates the problem."""
    if plan.first is None or getattr(estimator, "approximation", None) is not None:
        return None
    traits = Traits.of(plan.first, clients=plan.communicator.size if plan.communicator.size > 1 else 0)
    if not isinstance(plan.view, RowsView | ColumnsView | ShardView):
        traits = replace(traits, kernelised=True)
    tasks = plan.tasks
    sizes = np.diff(tasks.first).tolist() if isinstance(tasks, Tasks) else [task.members.size for task in tasks]
    if getattr(estimator, "probability", False):
        sizes += [round(0.8 * n) for n in sizes for _ in range(FOLDS)]
    n, d = plan.X.shape
    given = getattr(estimator, "kernel", "") == "precomputed"
    return forecast(
        plan.choice,
        traits,
        sizes,
        0.0 if given else plan.X.nnz / n if is_sparse(plan.X) else float(d),
        C=float(getattr(estimator, "C", 1.0)),
        threads=plan.workers.count,
        cache=2.0**20 * float(getattr(estimator, "cache_size", math.inf)),
    )


def warn_of_hours(estimator: CertifiedEstimator, plan: Plan) -> None:
    """Say before the work that it will take hours, and what would not.

    Warns
    -----
    UserWarning
        The forecast is an hour or more; or many minutes, of which ``max_time`` is a tenth at most.

    """
    expected = forecast_of(estimator, plan)
    if expected is None or expected.seconds < MANY_MINUTES:
        return
    limit = math.inf if estimator.max_time is None else float(estimator.max_time)
    if expected.seconds < HOUR and limit > SHARE_OF_TIME * expected.seconds:
        return
    kernel = getattr(estimator, "kernel", None)
    if kernel is None:
        remedy = "subsample the rows, or raise {tol}"
    else:
        remedy = "subsample the rows, or use a linear machine"
        if hasattr(estimator, "approximation") and kernel != "precomputed":
            remedy += ' or {approximation:"nystroem"}'
    words = f"{{who}} on {{n}} x {{d}} will take {{cost}}, as a rough forecast; {remedy}."
    n, d = plan.X.shape
    warnings.warn(Wording(words, who=type(estimator).__name__, n=n, d=d, cost=expected), UserWarning, stacklevel=6)
