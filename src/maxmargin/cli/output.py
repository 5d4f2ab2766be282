"""What the command line says, and where: results, sentences about errors, warnings."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping

import numpy as np

from maxmargin.communicators.launcher import launched_rank
from maxmargin.wording import in_python, told

SUCCESS, NOT_CONVERGED, BAD_INPUT = 0, 1, 2  # and INTERRUPTED

SILENCE = 2.0  # seconds that the first of several ranks has for its last words

# The parameters of estimators and readers that are options, under which name.
OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        *("kernel", "loss", "C", "gamma", "degree", "coef0", "class_weight", "intercept", "multi_class"),
        *("nu", "epsilon", "probability"),
        *("solver", "tol", "max_iter", "max_time", "cache_size", "verbose"),
        *("engine", "topology", "round_timeout", "checkpoint", "checkpoint_every", "on_failure"),
        *("format", "target", "zero_based", "stream", "scheduler"),
    )
} | {"random_state": "--seed", "n_clients": "--clients", "n_features": "--features"}


class CommandError(Exception):
    """Something the user has to change: one sentence."""


def option(name: str, value: str = "") -> str:
    """What the command line calls a parameter of the library, with its value."""
    if name == "warm_start":
        return "a longer run"
    if name not in OPTIONS:
        return in_python(name, value)
    return f"{OPTIONS[name]} {value}" if value not in ("", "True") else OPTIONS[name]


def write(text: str, needed: bool = False) -> None:
    """Write to standard output; a reader that has gone away is no error. Of several ranks, the first one writes.

    If it is closed or full, what is written is lost, and nothing else: unless it is needed, because the command was
    called for this alone, the work goes on.

    Raises
    ------
    CommandError
        What is needed cannot be written.

    """
    if launched_rank() > 0:
        return
    if is_closed():
        if needed:
            raise CommandError("Standard output is closed; open it, or name a file to write to.")
        return
    try:
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except (OSError, ValueError) as error:  # no room, or closed
        drop_output()
        reason = getattr(error, "strerror", None) or error
        if needed:
            raise CommandError(f"Standard output: {reason}; name a file to write to.") from error
        say(f"maxmargin: warning: standard output: {reason}; the rest of the report is lost.")


def is_closed() -> bool:
    """Whether there is no standard output, as after ``>&-`` in a shell."""
    return sys.stdout is None or sys.stdout.closed


def is_terminal() -> bool:
    """Whether somebody may be looking at standard error."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def drop_output() -> None:
    """Send the rest of standard output, also what is left at exit, to nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_json(report: Mapping[str, object], needed: bool = False) -> None:
    """Write one object; numbers that are not finite become null."""
    write(json.dumps(plain(report), allow_nan=False, indent=2, ensure_ascii=False) + "\n", needed)


def plain(value: object) -> object:
    """What JSON can hold; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """Write a line to standard error, if that is open."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def complain(error: Exception) -> None:
    """Say what went wrong. If it did so for the first rank too, the launcher ends the others while they wait."""
    rank = launched_rank()
    if rank > 0:
        time.sleep(SILENCE)
    say(f"maxmargin: error{f' of rank {rank}' if rank else ''}: {sentence(error)}")


def sentence(problem: BaseException) -> str:
    """What is wrong, in one line and with options in the place of parameters."""
    if isinstance(problem, MemoryError):
        return "There is not enough memory; use fewer rows, sparse data, or a smaller --cache-size."
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.filename}: {problem.strerror}." if problem.filename else f"{problem.strerror}."
    return " ".join(told(problem, option).split())


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings for users as lines, and those for programmers not at all."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if launched_rank() == 0:
            say(f"maxmargin: warning: {message if isinstance(message, str) else sentence(message)}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they are checked here
        warnings.showwarning = show
        yield
