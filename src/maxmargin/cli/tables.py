"""Tables and numbers for people."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence

from maxmargin.cli.output import is_closed, write
from maxmargin.problems.point import Certificate

MOST_ROWS = 10

FORMATS: dict[str, Callable[[object], str]] = {
    "status": lambda value: str(value).lower().replace("_", " "),
    "primal": "{:.10g}".format,
    "dual": "{:.10g}".format,
    "gap": "{:.2e}".format,
    "relative gap": "{:.2e}".format,
    "seconds": "{:.3f}".format,
}


class Line(dict[str, object]):
    """One problem in a report, by the names of its columns."""

    def __init__(self, certificate: Certificate, **columns: object) -> None:
        super().__init__(columns, **numbers(certificate))
        self.relative_gap = certificate.relative_gap


def numbers(certificate: Certificate) -> dict[str, float]:
    """What a certificate says."""
    return {
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
    }


def label_text(label: object) -> str:
    """A label as people write it."""
    return repr(label).removesuffix(".0") if isinstance(label, float) else str(label)


def write_worst(columns: Sequence[str], problems: Sequence[Line]) -> None:
    """Write a table of the problems with the largest gaps."""
    worst_first = sorted(problems, key=lambda problem: -problem.relative_gap)
    write(draw(columns, worst_first[:MOST_ROWS]))
    if len(problems) > MOST_ROWS:
        write(f"... and {len(problems) - MOST_ROWS} more\n")


def draw(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
    """A table, drawn by rich if it is installed."""
    keys = {"problem": "name"}
    cells = [
        [FORMATS.get(column, str)(row[keys.get(column, column.replace(" ", "_"))]) for column in columns]
        for row in rows
    ]
    try:
        return _draw_richly(columns, cells)
    except ImportError:
        return _draw_plainly(columns, cells)


def _draw_richly(columns: Sequence[str], cells: list[list[str]]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for k, column in enumerate(columns):
        # Numbers are never broken; a long name, in the first column, is.
        table.add_column(column.replace(" ", "\n"), justify="right" if k else "left", no_wrap=k > 0, vertical="bottom")
    for row in cells:
        table.add_row(*map(Text, row))  # as Text, so that brackets in labels are not taken for markup
    console = Console(file=io.StringIO(), force_terminal=not is_closed() and sys.stdout.isatty())
    if not console.is_terminal:  # a file or a pipe has room for everything
        console.width = 10_000
    console.width = max(console.width, console.measure(table).minimum)
    with console.capture() as capture:
        console.print(table)
    return str(capture.get())


def _draw_plainly(columns: Sequence[str], cells: list[list[str]]) -> str:
    words = [column.split(" ") for column in columns]
    height = max(map(len, words))
    heads = [list(line) for line in zip(*([""] * (height - len(word)) + word for word in words), strict=True)]
    widths = [max(map(len, column)) for column in zip(*heads, *cells, strict=True)]
    lines = []
    for first, *others in (*heads, ["-" * width for width in widths], *cells):
        right = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *right]) + "\n")
    return "".join(lines)
