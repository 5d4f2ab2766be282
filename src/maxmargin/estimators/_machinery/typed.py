"""What is taken from scikit-learn, which has no types, with types: or else nothing that comes of it would have any."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from maxmargin.operators import MatrixLike

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    Method = TypeVar("Method")

    class ClassifierMixin:
        """A classifier."""

        def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
            """The share of right predictions."""

    class RegressorMixin:
        """A regressor."""

        def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
            """The coefficient of determination."""

    def available_if(check: Callable[..., object]) -> Callable[[Method], Method]:
        """A method that only some objects have."""

else:
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.utils.metaestimators import available_if as available_if
