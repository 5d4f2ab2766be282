"""The commands, and how their words are understood."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import maxmargin
from maxmargin.cli.output import CommandError

EPILOG = """\
examples:
  maxmargin demo
  maxmargin train heart_scale heart.mm --C 10 --tol 1e-6 && maxmargin predict heart_scale heart.mm
  maxmargin train abalone --regression --scale --cv 5

Exit codes: 0 success, 1 the tolerance was not reached (a model is still written),
2 bad usage or input, 130 interrupted (train writes the best model so far).
"""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong usage as an error of ours instead of printing the usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help.")


COMMANDS = {
    "train": "Train a model, certify it, and write it to a file.",
    "predict": "Predict the labels of samples.",
    "certify": "Recompute primal value, dual value and gap of a model on its training data.",
    "info": "Tell what a model file holds.",
    "completion": "Print what makes a shell complete commands and options.",
    "compile": "Make the machine code of all common fits now, so that no first fit waits for it.",
    "demo": "Train and certify on bundled data, beside scikit-learn.",
}


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """All commands, with the options of the one that is called: they are those of estimators, whose import takes long.

    Without words, all commands have their options.
    """
    parser = _Parser(
        prog="maxmargin",
        description="Support vector machines that prove their answers: every fit ends with a certified duality gap.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"maxmargin {maxmargin.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    called = COMMANDS if words is None else [next((word for word in words if not word.startswith("-")), "")]
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.add_argument("--json", action="store_true", help="one JSON object instead of a table; null: not finite")
        if name in called:
            import_module("maxmargin.cli.options").ADD[name](command)
    return parser
