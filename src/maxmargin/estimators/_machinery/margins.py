"""How wide the margin of a classifier is, and by how much its training samples miss it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from maxmargin.estimators._machinery.kernels import kernel_scores
from maxmargin.estimators._machinery.training import REMEMBERED_SAMPLES, Training

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.kernel_classifier import KernelClassifier
    from maxmargin.operators import Matrix
    from maxmargin.protocols import Float


class Margin(NamedTuple):
    """The distance of two lines from the boundary, and from each other: those on which scores are -1 and 1."""

    half: float
    full: float


class Margins:
    """Gives a classifier `margin_` and `slacks_`. It has to keep its `Training`."""

    _training: Training

    def _lengths(self) -> Float:
        """The norm of each function, in the space of its features."""
        raise NotImplementedError

    def _scores(self, X: Matrix) -> Float:
        """One column per problem."""
        raise NotImplementedError

    @property
    def margin_(self) -> Margin | list[Margin]:
        """Half and full width of the margin, ``1 / |w|`` and ``2 / |w|``; infinite where the function is constant.

        A list with one for each problem if there are several.
        """
        self._refuse_unfitted("margin_")
        with np.errstate(divide="ignore"):
            found = [Margin(half, 2.0 * half) for half in (1.0 / self._lengths()).tolist()]
        return found if len(found) > 1 else found[0]

    @property
    def slacks_(self) -> Float:
        """The slack of each training sample, ``max(0, 1 - y f(x))``.

        Zero is on the right side of the margin or on it, up to 1 inside of it, 1 on the boundary, and more on the wrong
        side. Of several problems there is a row for each, with NaN where a sample takes no part.
        """
        self._refuse_unfitted("slacks_")
        training = vars(self).get("_training")
        if training is None or training.X is None:
            raise AttributeError(
                f"slacks_ needs the training samples, which are remembered up to {REMEMBERED_SAMPLES} of them and not "
                "stored with a model; kkt_report(model, X, y).slacks has them too."
            )
        scores = self._scores(training.X)
        slacks = np.full((len(training.tasks), scores.shape[0]), np.nan)
        for row, task, z in zip(slacks, training.tasks, scores.T, strict=True):
            row[task.members] = np.maximum(1.0 - task.y * z[task.members], 0.0)
        return slacks if len(slacks) > 1 else slacks[0]

    def _refuse_unfitted(self, attribute: str) -> None:
        if not self.__sklearn_is_fitted__():  # type: ignore[attr-defined]
            raise AttributeError(f"{type(self).__name__} has no {attribute} before it is fitted.")


def lengths_in_kernel_space(model: KernelClassifier) -> Float:
    """``sqrt(f . f)`` of each function ``f``, an expansion over the support vectors."""
    expansions, X = model._expansions(), model.support_vectors_
    if model.kernel == "precomputed":
        training = vars(model).get("_training")
        if training is None or training.X is None:
            raise AttributeError(
                "margin_ needs the kernel values of the support vectors with each other, and a precomputed kernel "
                "matrix is not stored with a model; fit it again."
            )
        X = cast("Matrix", training.X)[model.support_]
    scores = kernel_scores(model, X, expansions)
    return np.sqrt(np.maximum((expansions.T * scores).sum(axis=0), 0.0))
