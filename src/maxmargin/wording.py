"""Sentences for users: they name parameters as Python spells them, or as whoever shows them does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

PathLike = str | os.PathLike[str]

Spelling = Callable[[str, str], str]  # from the name of a parameter and its value, or "", to the words for them


def in_python(name: str, value: str) -> str:
    """``name`` or ``name=value``."""
    return f"{name}={value}" if value else name


class Wording(str):
    """A sentence with placeholders for parameters: ``{tol}``, or ``{tol:0.1}`` for one with a value.

    As a text it has the names of Python. Everything else in braces is replaced by the fact of that name.

    Examples
    --------
    >>> from maxmargin.wording import Wording
    >>> sentence = Wording("{count} rows are above {limit:5}; raise {limit}.", count=7)
    >>> print(sentence)
    7 rows are above limit=5; raise limit.
    >>> sentence.told(lambda name, value: f"--{name} {value}".strip())
    '7 rows are above --limit 5; raise --limit.'

    """

    template: str
    facts: dict[str, object]

    def __new__(cls, template: str, **facts: object) -> Wording:
        """Make a sentence of a template and the facts in it."""
        wording = super().__new__(cls, template.format_map(_Names(facts, in_python)))
        wording.template, wording.facts = template, facts
        return wording

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, object]]:
        return (self.template,), self.facts

    def told(self, spell: Spelling) -> str:
        """The sentence with other names for the parameters."""
        return self.template.format_map(_Names(self.facts, spell))


class _Names(dict[str, object]):
    """What the placeholders of a template stand for: facts, and parameters where there is no fact."""

    def __init__(self, facts: dict[str, object], spell: Spelling) -> None:
        super().__init__(facts)
        self.spell = spell

    def __missing__(self, name: str) -> _Parameter:
        return _Parameter(name, self.spell)


class _Parameter(NamedTuple):
    """Formatted with its value as the format."""

    name: str
    spell: Spelling

    def __format__(self, value: str) -> str:
        return self.spell(self.name, value)


def told(problem: BaseException, spell: Spelling) -> str:
    """The text of an error or a warning with other names for the parameters in its sentence.

    The sentence must be among the arguments of the error, and these must be enough to make the same error again.
    """
    if not any(isinstance(argument, Wording) for argument in problem.args):
        return str(problem)
    return str(type(problem)(*(part.told(spell) if isinstance(part, Wording) else part for part in problem.args)))


def template_of(problem: BaseException) -> str:
    """The text of an error as a template, which can be sent to others who make a `Wording` of it."""
    text = told(problem, lambda name, value: f"\0{name}:{value}\0".replace(":\0", "\0"))
    pieces = text.replace("{", "{{").replace("}", "}}").split("\0")
    return "".join(f"{{{piece}}}" if k % 2 else piece for k, piece in enumerate(pieces))


def shown(token: str) -> str:
    """A piece of a file in quotes, shortened for a message."""
    return repr(token if len(token) <= 40 else f"{token[:37]}...")


class FileError(ValueError):
    """A file that cannot be read or written.

    Parameters
    ----------
    path : path-like
        The file.
    sentence : str
        The fact, the bound and the remedy.
    line, column : int or None
        Where it happened, both counted from 1 in characters; None where a position makes no sense.

    """

    def __init__(self, path: PathLike, sentence: str, line: int | None = None, column: int | None = None) -> None:
        # All arguments go to the base class so that the error survives the trip between processes.
        super().__init__(path, sentence, line, column)
        self.path = os.fspath(path)
        self.sentence = sentence
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        return f"{':'.join(place)}: {self.sentence}"
