"""What all support vector classifiers share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._callbacks import CallbackSupportMixin
from maxmargin.estimators._fit import overall_status
from maxmargin.protocols import Array, Float
from maxmargin.solution import Solution, Status

POSITIVE = Interval(Real, 0, None, closed="neither")
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "C": [POSITIVE],
    "tol": [POSITIVE],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "max_time": [POSITIVE, None],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "intercept": [StrOptions({"auto", "free", "penalised"}), None],
    "solver": [str],
    "warm_start": ["boolean"],
    "callback": [callable, None],
}


class Classifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """What all support vector classifiers share: decoding of scores, and the shape of a fit."""

    _doc_link_module = "maxmargin"
    _doc_link_template = "https://github.com/maxmargin/maxmargin"

    classes_: Array
    solutions_: list[Solution]

    def _scores(self, X: Any) -> Float:
        """One column per binary problem."""
        raise NotImplementedError

    def _seed(self) -> int:
        """A seed for the solver: fixed unless the user asks for randomness, so that equal fits give equal bits."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(self.random_state.randint(2**31 - 1))

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
