"""What every estimator of the library shares, whatever it predicts."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from maxmargin.estimators._machinery.callbacks import CallbackSupportMixin
from maxmargin.estimators._machinery.fit import overall_status
from maxmargin.estimators._machinery.task import Task
from maxmargin.loop.solution import Solution
from maxmargin.problems.point import Point, Status

POSITIVE = Interval(Real, 0, None, closed="neither")
FIT_CONSTRAINTS: dict[str, list[Any]] = {
    "tol": [POSITIVE],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "max_time": [POSITIVE, None],
    "verbose": ["verbose"],
    "solver": [str],
    "warm_start": ["boolean"],
    "callback": [callable, None],
}


class CertifiedEstimator(CallbackSupportMixin, BaseEstimator):
    """An estimator whose fit ends with a list of certified solutions."""

    _doc_link_module = "maxmargin"
    _doc_link_template = "https://github.com/maxmargin/maxmargin"

    solutions_: list[Solution]

    def _seed(self) -> int:
        """A seed for the solver: fixed unless the user asks for randomness, so that equal fits give equal bits."""
        random_state = getattr(self, "random_state", None)
        if random_state is None:
            return 0
        if isinstance(random_state, Integral):
            return int(random_state)
        return int(random_state.randint(2**31 - 1))

    def _function(self, task: Task, solution: Solution, pose: Callable[[Task], Any]) -> Point:
        """What a solution of a task stands for; its ``alpha`` is the expansion over the samples."""
        return solution.point

    @property
    def status_(self) -> Status:
        """Why the fit stopped; of several problems, that of the worst one that did not converge."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no status_ before it is fitted.")
        return overall_status(self.solutions_)

    def __sklearn_is_fitted__(self) -> bool:
        # Validation sets n_features_in_, which alone would count as fitted.
        return hasattr(self, "solutions_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = getattr(self, "kernel", None) != "precomputed"
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags
