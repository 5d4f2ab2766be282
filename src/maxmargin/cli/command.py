"""One command, from its words to its exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxmargin.cli import INTERRUPTED, NOTHING_WRITTEN
from maxmargin.cli.arguments import parser
from maxmargin.cli.output import (
    BAD_INPUT,
    SUCCESS,
    CommandError,
    complain,
    drop_output,
    say,
    warnings_as_lines,
    write,
)
from maxmargin.communicators import ClientLost


def run(words: Sequence[str], begin: Callable[[], None]) -> int:
    """Run a command; the exit code.

    Parameters
    ----------
    words : sequence of str
        Command and options.
    begin : callable
        Called when everything is imported and understood, and before anything is done.

    """
    try:
        with warnings_as_lines():
            arguments = parser(words).parse_args(words)
            arguments.words = list(words)
            begin()
            code: int = arguments.run(arguments)
    except SystemExit as end:  # --help and --version
        code = end.code if isinstance(end.code, int) else SUCCESS
    except KeyboardInterrupt:
        say(NOTHING_WRITTEN)
        code = INTERRUPTED
    except BrokenPipeError:
        drop_output()
        code = SUCCESS
    except (CommandError, ClientLost, ImportError, ValueError, ArithmeticError, OSError, MemoryError) as error:
        complain(error)
        code = BAD_INPUT
    write("")
    return code
