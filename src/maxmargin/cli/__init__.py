"""The command line: train, predict, certify, compile, demo.

Results go to standard output, progress, warnings and errors to standard error. The exit code is 0 after success, 1 if
the tolerance was not reached, 2 for bad usage or bad input, and 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from maxmargin.cli.arguments import parser
from maxmargin.cli.output import (
    BAD_INPUT,
    INTERRUPTED,
    SUCCESS,
    CommandError,
    complain,
    drop_output,
    say,
    warnings_as_lines,
    write,
)
from maxmargin.communicators import ClientLost

__all__ = ["main"]


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
    try:
        with warnings_as_lines():
            arguments = parser().parse_args(argv)
            arguments.words = list(sys.argv[1:] if argv is None else argv)
            code: int = arguments.run(arguments)
    except SystemExit as end:  # --help and --version
        code = end.code if isinstance(end.code, int) else SUCCESS
    except KeyboardInterrupt:
        say("maxmargin: interrupted; nothing was written.")
        code = INTERRUPTED
    except BrokenPipeError:
        drop_output()
        code = SUCCESS
    except (CommandError, ClientLost, ImportError, ValueError, ArithmeticError, OSError, MemoryError) as error:
        complain(error)
        code = BAD_INPUT
    write("")
    return code
