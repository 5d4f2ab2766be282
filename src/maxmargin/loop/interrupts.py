"""Ctrl-C while a fit runs: remembered during a round, acted upon after it."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from maxmargin._jit.interrupts import between_steps
from maxmargin.threads import go_on

between_steps.append(go_on)  # what is compiled for a fit is given up with it


class Interrupts:
    """Take note of Ctrl-C instead of raising, so that a solver is never stopped half way through an update.

    A second Ctrl-C raises ``KeyboardInterrupt`` at once. Only Python's own handler is replaced, only in the main
    thread, and it is put back at the end.
    """

    def __init__(self) -> None:
        self.pending = False
        self.kept = False  # whether there is something to return: a solution of one of several problems
        self._since = math.inf
        self._raise = False
        self._previous: Any = None
        self._depth = 0  # an outer user, such as a fit of many problems, may hand it to inner ones

    def __enter__(self) -> Interrupts:
        self._depth += 1
        if self._depth > 1:
            return self
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0 and self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    @contextmanager
    def immediate(self) -> Iterator[None]:
        """While nothing can be left half done, such as in a certificate, let Ctrl-C raise: in the main thread."""
        self._raise = threading.current_thread() is threading.main_thread()
        try:
            yield
        finally:
            self._raise = False

    @property
    def waiting(self) -> float:
        """For how many seconds somebody has been waiting for an answer to Ctrl-C; negative if nobody has."""
        return time.perf_counter() - self._since if self.pending else -math.inf

    def _note(self, number: int, frame: FrameType | None) -> None:
        again = self.pending
        self._since, self.pending = min(self._since, time.perf_counter()), True
        if again or self._raise:
            raise KeyboardInterrupt
