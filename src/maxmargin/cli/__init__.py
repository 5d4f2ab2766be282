"""The command line: train, predict, certify, compile, demo.

Results go to standard output, progress, warnings and errors to standard error. The exit code is 0 after success, 1 if
the tolerance was not reached, 2 for bad usage or bad input, and 130 after Ctrl-C.
"""

# Nothing of ours and nothing slow is imported here: Ctrl-C has to be answered from the first moment on.
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

__all__ = ["main"]

INTERRUPTED = 130
NOTHING_WRITTEN = "maxmargin: interrupted; nothing was written."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process unless given.

    Returns
    -------
    int
        The exit code: 0 success, 1 tolerance not reached, 2 bad usage or input, 130 interrupted.

    """
    is_program = argv is None and _leave_when_interrupted()
    from maxmargin.cli.command import run

    code = run(sys.argv[1:] if argv is None else argv, _raise_interrupts if is_program else lambda: None)
    if is_program:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said and done, but for what Python clears away
    return code


def _leave_when_interrupted() -> bool:
    """Answer Ctrl-C from now on, unless this job is in the background, or its starter has a handler of its own."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, _leave)
    except ValueError:  # this is not the main thread
        return False
    return True


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave at once. While modules are imported, an exception may be caught by any of them, or shown as a traceback."""
    try:
        os.write(2, f"{NOTHING_WRITTEN}\n".encode())
    finally:
        os._exit(INTERRUPTED)


def _raise_interrupts() -> None:
    """From now on there is something to be kept, or cleared away."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
