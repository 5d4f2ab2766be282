"""Who is told how a fit proceeds: scikit-learn's callback protocol (1.9 and later), and the user's own callable.

The task tree of a fit is: fit -> binary problem -> round of the solver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from maxmargin.loop.solution import Record
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.protocols import Array

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

if TYPE_CHECKING:  # scikit-learn has no types, and what it decorates would have none either
    Method = TypeVar("Method")

    class CallbackSupportMixin:
        """Has running callbacks."""

        def _init_callback_context(self, **_: object) -> Any: ...

    def with_callbacks(method: Method) -> Method:
        """Manages them."""
        return method

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn before 1.9

        class CallbackSupportMixin:
            """Without the protocol there is nothing to support."""

            def _init_callback_context(self, **_: object) -> None:
                return None

        def with_callbacks(method: Callable[..., object]) -> Callable[..., object]:
            """Without the protocol there is nothing to manage; a frame as deep as with it, for the warnings."""

            @functools.wraps(method)
            def call(*arguments: object, **options: object) -> object:
                return method(*arguments, **options)

            return call


__all__ = ["NOBODY", "CallbackSupportMixin", "FitTasks", "Listeners", "with_callbacks"]


class Listeners:
    """Tells a callable how a fit proceeds, if there is one."""

    def __init__(self, callback: Callable[[Record], object] | None = None) -> None:
        self.callback = callback
        self.listening = callback is not None  # whether anybody wants to hear of the rounds

    def begin_problem(self, name: str) -> None:
        """A binary problem starts."""

    def after_round(self, record: Record) -> bool:
        """A round has ended; whether somebody wants the fit to stop."""
        return bool(self.callback(record)) if self.callback is not None else False

    def end_problem(self) -> None:
        """A binary problem has ended."""

    def end(self, attributes: dict[str, object]) -> None:
        """The fit has ended with these attributes."""


NOBODY = Listeners()


class FitTasks(Listeners):
    """Tells scikit-learn's callbacks, and the user's own callable, how a fit proceeds."""

    def __init__(
        self, estimator: CertifiedEstimator, X: Matrix | ChunkedMatrix, y: Array | None, n_problems: int
    ) -> None:
        super().__init__(estimator.callback)
        self.estimator, self.X, self.y = estimator, X, y
        self.listened_to = bool(getattr(estimator, "_skl_callbacks", ()))
        self.listening = self.listened_to or self.listening
        self.root = estimator._init_callback_context(max_subtasks=n_problems)
        self.problem: Any = None
        if self.root is not None:
            self.root.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def begin_problem(self, name: str) -> None:
        """A binary problem starts."""
        if self.listened_to:
            self.problem = self.root.subcontext(task_name=name, max_subtasks=None)
            self.problem.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)

    def after_round(self, record: Record) -> bool:
        """A round has ended; whether somebody wants the fit to stop."""
        stop = super().after_round(record)
        if self.listened_to:
            task = self.problem.subcontext(task_name="round")
            task.call_on_fit_task_begin(estimator=self.estimator)
            stop |= bool(task.call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y))
        return stop

    def end_problem(self) -> None:
        """A binary problem has ended."""
        if self.listened_to:
            self.problem.call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y)

    def end(self, attributes: dict[str, object]) -> None:
        """The fit has ended with these attributes."""
        if self.root is not None:
            self.root.call_on_fit_task_end(
                estimator=self.estimator, X=self.X, y=self.y, reconstruction_attributes=attributes
            )
