"""Comma, semicolon or tab separated tables of numbers with one target column.

numpy reads a clean table. Whatever it refuses, and every table with quotes, is read by the standard library's reader,
which knows the place of each cell.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maxmargin.io.textfile import DECIMAL, NOT_FINITE, DataFileError, read_bytes
from maxmargin.protocols import Array
from maxmargin.wording import PathLike, Wording, shown

TARGET_NAMES = ("target", "label", "class", "y")
MISSING = ("?", "na", "n/a", "null", "none", "-", ".")  # in small letters, as people write where there is no number
MOST_SLIPS = 2  # cells of a first row of numbers that are mistakes; a header would name more columns

_FIRST_RECORD = re.compile(r'(?:[ \t]*[\r\n])*((?:"[^"]*"|[^"\r\n])*)')


@dataclass(frozen=True, eq=False)
class Table:
    """The contents of a CSV file: `y` holds float64 if every label is a number, text otherwise."""

    X: npt.NDArray[np.float64]
    y: Array
    feature_names: list[str] | None
    target_name: str | None


@dataclass(frozen=True)
class _Layout:
    """What the first record says about a file."""

    path: PathLike
    separator: str
    n_columns: int
    target: int
    header: list[str] | None
    first_line: int

    def name(self, column: int) -> str:
        """The words for a column in a message."""
        return f"column {column}" if self.header is None else f"column {shown(self.header[column])}"


class _Record(NamedTuple):
    """One row: its cells without surrounding blanks, its raw text, and the line where it starts."""

    cells: list[str]
    raw: str
    line: int


class _Columns(NamedTuple):
    """Features, distinct labels, and for each row the number of its label."""

    X: npt.NDArray[np.float64]
    labels: list[str]
    codes: npt.NDArray[np.intp]


def read_csv(path: PathLike, target: str | int | None = None) -> Table:
    """Read a table of numbers with one target column.

    The separator is a tab if the first non-blank line holds one outside quotes, else a semicolon if it holds one,
    else a comma. That line is a header if a cell outside the target column is neither empty nor a number, if `target`
    is a name, or if it has the only target that is not a number. Blank lines are skipped. If `target` is no name, a
    first line of numbers with one or two other cells, or whose other cells are signs of missing values, is refused: it
    may be data with a mistake.

    Parameters
    ----------
    path : path-like
        Plain text or a gzip, bzip2 or xz archive.
    target : str, int or None
        Name or position (from 0) of the target column. None takes the column named "target", "label", "class" or "y",
        in any case, if the header has exactly one of them, otherwise the last column.

    Returns
    -------
    Table
        Features, targets and names.

    Raises
    ------
    DataFileError
        The file cannot be read; the message names the line, the column and the column's name.

    """
    return parse_csv(read_bytes(path), path, target)


def parse_csv(text: bytes, path: PathLike, target: str | int | None = None) -> Table:
    """Do what `read_csv` does with the contents of a file, `path` being its name in messages."""
    content = text.decode()
    layout = _detect_layout(content, path, target)
    columns = _read_quickly(content, layout) or _read_carefully(content, layout)
    if layout.header is None and _first_label_is_a_name(columns):
        layout = replace(layout, header=next(_records(content, path, layout.separator)).cells)
        _check_header(layout)
        columns = _read_quickly(content, layout) or _read_carefully(content, layout)
    y: Array
    if all(DECIMAL.fullmatch(label) for label in columns.labels):
        y = np.array([float(label) for label in columns.labels])[columns.codes]
    else:
        y = np.array(columns.labels)[columns.codes]
    if layout.header is None:
        return Table(columns.X, y, None, None)
    names = layout.header[: layout.target] + layout.header[layout.target + 1 :]
    return Table(columns.X, y, names, layout.header[layout.target])


def _detect_layout(content: str, path: PathLike, target: str | int | None) -> _Layout:
    separator = _detect_separator(content)
    first = next(_records(content, path, separator), None)
    if first is None:
        raise DataFileError(path, "The file holds no rows; at least one row of numbers is needed.")
    if len(first.cells) < 2:
        sentence = (
            "The row has 1 cell, but a feature and a target are needed; separate them by comma, semicolon or tab."
        )
        raise DataFileError(path, sentence, first.line, 1)
    position, has_header = _find_target(first, path, target)
    header = first.cells if has_header else None
    layout = _Layout(path, separator, len(first.cells), position, header, first.line)
    _check_header(layout)
    return layout


def _detect_separator(content: str) -> str:
    first = _FIRST_RECORD.match(content)
    unquoted = re.sub('"[^"]*"', "", first.group(1)) if first else ""
    return next((separator for separator in "\t;" if separator in unquoted), ",")


def _find_target(first: _Record, path: PathLike, target: str | int | None) -> tuple[int, bool]:
    """Position of the target column, and whether the first record is a header."""
    cells, last = first.cells, len(first.cells) - 1
    sentence: str
    if isinstance(target, str):
        if all(_is_number(cell) for cell in cells):
            sentence = Wording(
                "There is no header, so {target:{name!r}} names nothing; pass a position from 0 to {last}.",
                name=target,
                last=last,
            )
        elif target not in cells:
            sentence = f"No column is named {target!r}; pass one of {', '.join(map(shown, cells[:20]))}."
        else:
            return cells.index(target), True
        raise DataFileError(path, sentence, first.line, 1)
    if target is not None and not 0 <= target <= last:
        sentence = f"target={target} is no column; pass a position from 0 to {last} or a name."
        raise DataFileError(path, sentence, first.line, 1)
    position = last if target is None else int(target)
    odd = [i for i, cell in enumerate(cells) if i != position and cell and not _is_number(cell)]
    has_header = bool(odd)
    named = [i for i, cell in enumerate(cells) if cell.lower() in TARGET_NAMES]
    if target is None and has_header and len(named) == 1:
        position = named[0]
        odd = [i for i in odd if i != position]
    _refuse_slips(first, odd, path)
    return position, has_header


def _refuse_slips(first: _Record, odd: list[int], path: PathLike) -> None:
    """A row of data whose mistake makes it look like a header would be lost."""
    numbers = sum(map(_is_number, first.cells))
    missing = all(first.cells[i].lower() in MISSING for i in odd)
    if odd and (missing or (0 < len(odd) <= MOST_SLIPS and numbers > 0)):
        cell = shown(first.cells[odd[0]])
        sentence = Wording(
            "{cell} in column {column} of the first row is not a number, but {numbers} of its {count} cells are; "
            "correct it if this is a row of data, or name all columns, or pass the name of the target as {target}.",
            cell=cell, column=odd[0], numbers=numbers, count=len(first.cells),
        )  # fmt: skip
        line, column = _place(first, odd[0], _detect_separator(first.raw))
        raise DataFileError(path, sentence, line, column)


def _check_header(layout: _Layout) -> None:
    if layout.header is None:
        return
    name, count = Counter(layout.header).most_common(1)[0]
    if count > 1:
        raise DataFileError(
            layout.path,
            f"{count} columns are named {shown(name)}, but names must differ; rename all but one.",
            layout.first_line,
        )


def _first_label_is_a_name(columns: _Columns) -> bool:
    first, *others = columns.labels
    if not others or DECIMAL.fullmatch(first) or not all(DECIMAL.fullmatch(label) for label in others):
        return False
    return int(np.count_nonzero(columns.codes == 0)) == 1


def _is_number(cell: str) -> bool:
    """Whether the cell is meant as a number, finite or not."""
    return bool(DECIMAL.fullmatch(cell) or NOT_FINITE.fullmatch(cell))


def _is_label(cell: str) -> bool:
    """Whether the cell can be a target: any text but none, NaN and infinity."""
    return bool(cell) and not NOT_FINITE.fullmatch(cell) and not (DECIMAL.fullmatch(cell) and math.isinf(float(cell)))


def _read_quickly(content: str, layout: _Layout) -> _Columns | None:
    """Let numpy read a clean table; None if it is not one."""
    stream = io.StringIO(content, newline="")
    if layout.header is not None:
        next(_records(stream, layout.path, layout.separator))
    start = stream.tell()
    # numpy reads "1"2 as 12, so quotes are left to the strict reader; it warns of a table without rows.
    if content.find('"', start) >= 0 or not re.compile(r"\S").search(content, start):
        return None
    codes: dict[str, int] = {}

    def encode(cell: str) -> float:
        return codes.setdefault(cell.strip(), len(codes))

    try:
        table = np.loadtxt(
            stream, delimiter=layout.separator, comments=None, converters={layout.target: encode}, ndmin=2
        )
    except ValueError:
        return None
    if table.shape[1] != layout.n_columns or not np.isfinite(table).all() or not all(map(_is_label, codes)):
        return None
    X = np.ascontiguousarray(np.delete(table, layout.target, axis=1))
    return _Columns(X, list(codes), table[:, layout.target].astype(np.intp))


def _read_carefully(content: str, layout: _Layout) -> _Columns:
    """Read record by record and raise at the first bad cell."""
    values: list[list[float]] = []
    labels: dict[str, int] = {}
    codes: list[int] = []
    records = _records(content, layout.path, layout.separator)
    if layout.header is not None:
        next(records)
    for record in records:
        _check_record(record, layout)
        codes.append(labels.setdefault(record.cells.pop(layout.target), len(labels)))
        values.append([float(cell) for cell in record.cells])
    if not values:
        raise DataFileError(layout.path, "There is a header but no row; at least one row of numbers is needed.")
    return _Columns(np.array(values), list(labels), np.array(codes, np.intp))


def _records(content: str | io.StringIO, path: PathLike, separator: str) -> Iterator[_Record]:
    """Yield the records that are not blank."""
    raw: list[str] = []
    stream = io.StringIO(content, newline="") if isinstance(content, str) else content

    def remember() -> Iterator[str]:
        for line in stream:
            raw.append(line)
            yield line

    reader = csv.reader(remember(), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        raw.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            sentence = f"The quotes are wrong here ({error}); close each quoted cell and double the quotes inside it."
            raise DataFileError(path, sentence, line, 1) from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells) or len(cells) > 1:
            yield _Record([cell.strip() for cell in cells], "".join(raw), line)


def _check_record(record: _Record, layout: _Layout) -> None:
    n_cells = len(record.cells)
    if n_cells != layout.n_columns:
        line, column = _place(record, min(n_cells, layout.n_columns), layout.separator)
        sentence = f"The row has {n_cells} cell(s), but the first one has {layout.n_columns}"
        if n_cells < layout.n_columns:
            sentence += f"; {layout.name(n_cells)} is missing, add it."
        else:
            sentence += "; remove the cells at the end, or quote a cell that contains the separator."
        raise DataFileError(layout.path, sentence, line, column)
    for k, cell in enumerate(record.cells):
        fault = _label_fault(cell) if k == layout.target else _feature_fault(cell)
        if fault:
            line, column = _place(record, k, layout.separator)
            raise DataFileError(layout.path, Wording(fault, name=layout.name(k), cell=shown(cell)), line, column)


def _feature_fault(cell: str) -> str | None:
    """What is wrong with the cell of a feature, as a template."""
    if DECIMAL.fullmatch(cell):
        return (
            "{cell} in {name} is beyond the largest double, 1.7976931348623157e308; rescale it."
            if math.isinf(float(cell))
            else None
        )
    if not cell:
        return "The cell of {name} is empty, but every feature needs a number; fill it in or remove the row."
    if NOT_FINITE.fullmatch(cell):
        return "{cell} in {name} is not finite; remove or impute missing values."
    if DECIMAL.fullmatch(cell.replace(",", ".", 1)):
        return "{cell} in {name} is not a number with a decimal point; replace the decimal comma."
    return "{cell} in {name} is not a number; encode text as numbers, or pass {target} if this is the target column."


def _label_fault(cell: str) -> str | None:
    """What is wrong with the cell of the target, as a template."""
    if _is_label(cell):
        return None
    if not cell:
        return "The target, {name}, is empty; fill it in or remove the row."
    return "The target {cell} in {name} is not finite; remove the row or give it a label."


def _place(record: _Record, k: int, separator: str) -> tuple[int, int]:
    """Line and column where cell `k` starts, or where the record ends if it has no such cell."""
    quoted, start = False, len(record.raw.rstrip("\r\n"))
    if k == 0:
        start = 0
    else:
        for i, character in enumerate(record.raw):
            quoted ^= character == '"'
            k -= character == separator and not quoted
            if k == 0:
                start = i + 1
                break
    before = re.split(r"\r\n|\r|\n", record.raw[:start])
    return record.line + len(before) - 1, len(before[-1]) + 1
