"""The progress line of ``verbose=1``: gap, rate and the time that is probably left, on standard error."""

from __future__ import annotations

import math
import shutil
import sys
import time
from types import TracebackType

from maxmargin.loop.solution import Record, beside


class ProgressLine:
    """One line that rewrites itself a few times a second; silent unless asked for."""

    def __init__(self, verbose: int, name: str, tol: float, seconds_between: float = 0.2) -> None:
        self.shown = bool(verbose)
        self.name, self.tol, self.seconds_between = name, tol, seconds_between
        self.last = -math.inf
        self.width = 0
        self.record: Record | None = None
        self.compiling = 0.0  # seconds of it so far

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shown and self.record is not None:
            self._write(self.text(self.record), "\n")

    def show(self, record: Record, compiling: float = 0.0) -> None:
        """Rewrite the line if it is old enough."""
        self.record, self.compiling = record, compiling
        if self.shown and time.perf_counter() - self.last >= self.seconds_between:
            self.last = time.perf_counter()
            self._write(
                self.text(record)[: shutil.get_terminal_size().columns - 1]
            )  # a line that wraps is not rewritten

    def text(self, record: Record) -> str:
        """What the line says about a record."""
        rate = record.iterations / record.seconds if record.seconds > 0.0 else 0.0
        phases = {key: value for key, value in record.counters.items() if key.startswith("seconds_")}
        plain = {key: value for key, value in record.counters.items() if key not in phases}
        counters = "".join(f", {value:.3g} {key.replace('_', ' ')}" for key, value in plain.items())
        total = sum(phases.values())
        if total > 0.0:
            shares = (f"{key.removeprefix('seconds_')} {value / total:.0%}" for key, value in phases.items())
            counters += f"; time: {', '.join(shares)}"
        return (
            f"{self.name}: {record.iterations} iterations ({rate:.3g}/s), relative gap {record.relative_gap:.2e}"
            f" -> {self.tol:.0e}, {record.seconds:.1f} s{beside(self.compiling)}{self._time_left(record)}{counters}"
        )

    def _time_left(self, record: Record) -> str:
        """Seconds left if the logarithm of the gap keeps falling at its average pace."""
        gap = record.relative_gap
        if not self.tol < gap < 1.0 or record.seconds <= 0.0 or self.tol <= 0.0:
            return ""
        return f", about {record.seconds * math.log(gap / self.tol) / -math.log(gap):.1f} s left"

    def _write(self, text: str, end: str = "") -> None:
        """Write to standard error, as long as that is possible: nobody loses a fit because a terminal was closed."""
        try:
            sys.stderr.write("\r" + text.ljust(self.width) + end)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # there is none, no room in it, or it is closed
            self.shown = False
        self.width = len(text)
