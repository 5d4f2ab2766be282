"""Ctrl-C while machine code is made: acted upon between two steps of the compiler, not inside of one.

LLVM calls functions of Python, where an exception is printed and forgotten: the fit went on for a minute, and the code
that was just being made was not stored. Most steps take some milliseconds, the last of a large loop two seconds.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

between_steps: list[Callable[[], None]] = []  # called in any thread; what they raise ends the compilation


class HeldBack:
    """While the main thread is inside, whatever handles Ctrl-C is called between two steps only."""

    def __init__(self) -> None:
        self._depth = 0
        self._handler: Any = None
        self._pending = False

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth += 1
        if self._depth == 1 and callable(handler := signal.getsignal(signal.SIGINT)):
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth == 0 and self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            handler, self._handler = self._handler, None
            self._answer(handler)

    def look(self) -> None:
        """Between two steps: nothing is half done but the code that is being made."""
        if self._pending and threading.current_thread() is threading.main_thread():
            self._answer(self._handler)
        for function in between_steps:
            function()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._pending = True

    def _answer(self, handler: Callable[[int, FrameType | None], object]) -> None:
        if self._pending:
            self._pending = False
            handler(signal.SIGINT, None)


held_back = HeldBack()


def look_between_steps() -> None:
    """Have numba tell when it begins a step. It is told once, before anything is compiled."""
    from numba.core import event

    class Looking(event.Listener):  # type: ignore[misc]
        def on_start(self, event: object) -> None:
            held_back.look()

        def on_end(self, event: object) -> None:
            pass

    event.register("numba:run_pass", Looking())
