"""One door for data files: LIBSVM or CSV, told apart by the name or by the first line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from maxmargin.io.csv import parse_csv
from maxmargin.io.libsvm import Csr, parse_libsvm, refuse_target
from maxmargin.io.textfile import COMPRESSION_SUFFIXES, DataFileError, read_bytes
from maxmargin.protocols import Array, Float
from maxmargin.wording import PathLike, Wording

Format = Literal["auto", "libsvm", "csv"]

# .txt is absent on purpose: both formats use it, so the first line decides.
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, targets, and the names of the columns where the file gives them."""

    X: Float | Csr
    y: Array
    feature_names: list[str] | None


def read_data(
    path: PathLike,
    *,
    target: str | int | None = None,
    n_features: int | None = None,
    format: Format = "auto",
    zero_based: bool = False,
) -> Dataset:
    """Read a LIBSVM or CSV data file.

    Parameters
    ----------
    path : path-like
        Plain text or a gzip, bzip2 or xz archive.
    target : str, int or None
        Target column of a CSV file, see `read_csv`.
    n_features : int or None
        Number of columns of a LIBSVM file, see `read_libsvm`.
    format : {"auto", "libsvm", "csv"}
        "auto" goes by the suffix (.csv, .tsv, .libsvm, .svm, .svmlight, before any .gz, .bz2 or .xz). For .txt and
        all others the first line that is neither blank nor a comment decides: LIBSVM if it is ``label index:value ...``
        or a lone number, CSV if it holds a comma, a semicolon or a tab.
    zero_based : bool
        Whether the indices of a LIBSVM file count from 0 instead of 1.

    Returns
    -------
    Dataset
        Sparse rows from LIBSVM, dense rows from CSV.

    Raises
    ------
    DataFileError
        The file cannot be read; the message names the line and the column.

    """
    if format not in {"auto", "libsvm", "csv"}:
        raise ValueError(f'format={format!r} is unknown; pass "auto", "libsvm" or "csv".')
    text = read_bytes(path)
    kind = format if format != "auto" else _format_of_name(path) or _format_of_text(text, path)
    if kind == "csv":
        if n_features is not None:
            sentence = "{path} is a CSV file, whose columns are counted; remove {n_features}."
            raise ValueError(Wording(sentence, path=path))
        if zero_based:
            raise ValueError(Wording("{path} is a CSV file, which has no indices; remove {zero_based}.", path=path))
        table = parse_csv(text, path, target)
        return Dataset(table.X, table.y, table.feature_names)
    refuse_target(path, target)
    X, y = parse_libsvm(text, path, n_features, zero_based=zero_based)
    return Dataset(X, y, None)


def _format_of_name(path: PathLike) -> Format | None:
    name = PurePath(path)
    if name.suffix.lower() in COMPRESSION_SUFFIXES:
        name = name.with_suffix("")
    return _SUFFIXES.get(name.suffix.lower())


def _format_of_text(text: bytes, path: PathLike) -> Format:
    match = re.search(rb"^[ \t\r]*[^#\s].*", text, re.MULTILINE)
    if match is None:
        raise DataFileError(path, "The file holds no rows; at least one is needed.")
    line = match.group().strip()
    first, *others = line.partition(b"#")[0].split(maxsplit=2)
    if re.match(rb"([0-9]+|qid):", others[0] if others else first):
        return "libsvm"
    if not others and re.fullmatch(rb"[-+.0-9eE]+", first):
        return "libsvm"
    if re.search(rb"[,;\t]", line):
        return "csv"
    sentence = Wording(
        'The first row is neither "label index:value ..." nor separated by comma, semicolon or tab; pass {format}.'
    )
    number = text.count(b"\n", 0, match.start()) + 1
    raise DataFileError(path, sentence, number, 1)
