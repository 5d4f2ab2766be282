"""LIBSVM (svmlight) data files: ``label index:value index:value ... # comment``, one row per line.

The compiled scan knows only "right" and "wrong". The line where it stops is read again in Python, to say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from maxmargin._jit import compiled
from maxmargin.io.textfile import DECIMAL, NOT_FINITE, ColumnsUnknown, DataFileError, locate, read_bytes, write_lines
from maxmargin.operators.rows import Matrix, is_sparse
from maxmargin.protocols import Array, Float
from maxmargin.wording import PathLike, Wording, shown

Text = npt.NDArray[np.int8]
Csr: TypeAlias = sparse.csr_array[np.float64]

MAX_FEATURES = 2**31 - 1

TAB, NEWLINE, RETURN, SPACE, HASH = 9, 10, 13, 32, 35
PLUS, MINUS, POINT, ZERO, NINE, COLON, UPPER_E, LOWER_E = 43, 45, 46, 48, 57, 58, 69, 101

# A mantissa up to 2**53 and a power of ten up to 22 are both exact doubles, so that one multiplication or division
# rounds once, as float() does.
EXACT_MANTISSA = 2**53
EXACT_POWER = 22
POWERS = np.array([float(f"1e{power}") for power in range(EXACT_POWER + 1)])


class _Rows(NamedTuple):
    """Room for the rows of a file. `late` has one column (slot, start, stop) per number left to float()."""

    y: npt.NDArray[np.float64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.float64]
    late: npt.NDArray[np.int64]


class Lines(NamedTuple):
    """The rows of some lines: labels, and a CSR matrix in three arrays."""

    y: npt.NDArray[np.float64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.float64]


def read_libsvm(
    path: PathLike, n_features: int | None = None, *, zero_based: bool = False
) -> tuple[Csr, npt.NDArray[np.float64]]:
    """Read a LIBSVM data file.

    Parameters
    ----------
    path : path-like
        Plain text or a gzip, bzip2 or xz archive.
    n_features : int or None
        Number of columns of `X`; None takes the largest index of the file.
    zero_based : bool
        Whether indices count from 0 instead of 1.

    Returns
    -------
    X : scipy.sparse.csr_array of float64
        One row per line; an explicit zero stays stored.
    y : ndarray of float64
        The labels.

    Raises
    ------
    DataFileError
        The file cannot be read; the message names the line and the column.

    """
    return parse_libsvm(read_bytes(path), path, n_features, zero_based=zero_based)


def parse_libsvm(
    text: bytes, path: PathLike, n_features: int | None = None, *, zero_based: bool = False
) -> tuple[Csr, npt.NDArray[np.float64]]:
    """Do what `read_libsvm` does with the contents of a file, `path` being its name in messages."""
    check_n_features(n_features)
    rows = parse_lines(text, path, n_features, zero_based=zero_based)
    n_features = count_features(path, rows.y.size, int(rows.indices.max(initial=-1)), n_features)
    # scipy widens the indices to int64 unless indptr is as narrow as they are.
    indptr = rows.indptr.astype(np.int32 if rows.data.size < 2**31 else np.int64)
    return csr_of(rows.data, rows.indices, indptr, n_features), rows.y


def csr_of(data: Float, indices: Array, indptr: Array, n_features: int) -> Csr:
    """The rows that the parser has found, whose indices ascend."""
    X: Csr = sparse.csr_array((data, indices, indptr), shape=(indptr.size - 1, n_features))
    X.has_canonical_format = True
    return X


def check_n_features(n_features: int | None) -> None:
    """Refuse a number of columns that cannot be."""
    if n_features is not None and not 1 <= n_features <= MAX_FEATURES:
        sentence = "{n_features:{n}} must lie between 1 and {limit}; leave it away to infer it."
        raise ValueError(Wording(sentence, n=n_features, limit=MAX_FEATURES))


def refuse_target(path: PathLike, target: object) -> None:
    """Refuse a place of the labels."""
    if target is not None:
        sentence = "{path} is a LIBSVM file, whose labels come first in each line; remove {target}."
        raise ValueError(Wording(sentence, path=path))


def parse_lines(text: bytes, path: PathLike, n_features: int | None = None, *, zero_based: bool = False) -> Lines:
    """Parse whole lines of a file; there may be no rows among them."""
    if not text.endswith(b"\n"):
        text += b"\n"  # the scan relies on a last newline
    first = 0 if zero_based else 1
    rows = _allocate(text)
    count, entries, late, fault = _scan(np.frombuffer(text, np.int8), first, n_features or MAX_FEATURES, rows)
    _convert_late(text, path, rows, late)
    if fault >= 0:
        _raise_fault(text, path, fault, first, n_features)
    return Lines(rows.y[:count], rows.indptr[: count + 1], rows.indices[:entries], rows.data[:entries])


def count_features(path: PathLike, n_rows: int, last: int, n_features: int | None) -> int:
    """The number of columns, given or ``last + 1``; refuses a file without rows or without entries."""
    if n_rows == 0:
        raise DataFileError(path, "The file holds no rows; at least one line with a label is needed.")
    if n_features is None and last < 0:
        sentence = Wording("No line has an index:value pair, so the number of columns is unknown; pass {n_features}.")
        raise ColumnsUnknown(path, sentence)
    return last + 1 if n_features is None else n_features


def write_libsvm(path: PathLike, X: Matrix, y: npt.ArrayLike) -> None:
    """Write a LIBSVM data file that `read_libsvm` turns back into the same bits.

    Parameters
    ----------
    path : path-like
        The file; compressed if its name ends in .gz, .bz2 or .xz.
    X : array or sparse array of shape (n_samples, n_features)
        Finite numbers. Of a dense array only the non-zeros (and negative zeros) are written.
    y : array of shape (n_samples,)
        Finite labels.

    """
    rows = _as_rows(X)
    labels = np.asarray(y, dtype=np.float64)
    if labels.shape != (rows.shape[0],):
        raise ValueError(f"y has shape {labels.shape}, but X has {rows.shape[0]} rows; pass one label per row.")
    for name, values in (("X", rows.data), ("y", labels)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or infinity, which the format cannot carry; remove or impute them.")
    write_lines(path, _lines(rows, labels))


def _as_rows(X: Matrix) -> Csr:
    """Float64 rows with ascending indices; the caller's array is left alone."""
    if is_sparse(X):
        rows: Csr = sparse.csr_array(X).astype(np.float64, copy=False)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows
    dense = np.asarray(X, dtype=np.float64)
    if dense.ndim != 2:
        raise ValueError(f"X has {dense.ndim} dimension(s), but a table has 2; reshape it to (n_samples, n_features).")
    # scipy would drop the negative zeros.
    i, j = np.nonzero((dense != 0) | np.signbit(dense))
    return sparse.csr_array((dense[i, j], (i, j)), shape=dense.shape)


def _lines(X: Csr, y: npt.NDArray[np.float64]) -> Iterator[str]:
    for label, start, stop in zip(y.tolist(), X.indptr[:-1], X.indptr[1:], strict=True):
        pairs = zip(X.indices[start:stop].tolist(), X.data[start:stop].tolist(), strict=True)
        yield " ".join([_shortest(label), *(f"{j + 1}:{_shortest(value)}" for j, value in pairs)]) + "\n"


def _shortest(value: float) -> str:
    return repr(value).removesuffix(".0")


def _allocate(text: bytes) -> _Rows:
    """Room for as many rows as there are newlines and as many entries as there are colons."""
    lines, pairs = text.count(b"\n"), text.count(b":")
    return _Rows(
        y=np.empty(lines),
        indptr=np.zeros(lines + 1, np.int64),
        indices=np.empty(pairs, np.int32),
        data=np.empty(pairs),
        late=np.empty((3, lines + pairs), np.int64),
    )


@compiled
def _scan(text: Text, first: int, limit: int, rows: _Rows) -> tuple[int, int, int, int]:
    """Fill `rows`; return the numbers of rows, entries and late numbers, and the start of the first bad line or -1.

    On entry and exit of a round `i` is the start of a line and `indptr[row] == entry`.
    """
    i, row, entry, late = 0, 0, 0, 0
    while i < text.size:
        line = i
        i = _skip_blanks(text, i)
        if text[i] != NEWLINE and text[i] != HASH:
            stop, value, exact = _scan_number(text, i)
            if stop < 0:
                return row, entry, late, line
            rows.y[row] = value
            if not exact:
                rows.late[0, late], rows.late[1, late], rows.late[2, late] = -1 - row, i, stop
                late += 1
            previous = -1
            i = _skip_blanks(text, stop)
            while text[i] != NEWLINE and text[i] != HASH:
                colon, index, digits = _scan_digits(text, i, 0)
                column = index - first
                if digits == 0 or text[colon] != COLON or column <= previous or column >= limit:
                    return row, entry, late, line
                stop, value, exact = _scan_number(text, colon + 1)
                if stop < 0:
                    return row, entry, late, line
                rows.indices[entry] = column
                rows.data[entry] = value
                if not exact:
                    rows.late[0, late], rows.late[1, late], rows.late[2, late] = entry, colon + 1, stop
                    late += 1
                entry += 1
                previous = column
                i = _skip_blanks(text, stop)
            row += 1
            rows.indptr[row] = entry
        while text[i] != NEWLINE:
            i += 1
        i += 1
    return row, entry, late, -1


@compiled
def _skip_blanks(text: Text, i: int) -> int:
    """Pass spaces, tabs, and a carriage return that ends the line."""
    while text[i] == SPACE or text[i] == TAB or (text[i] == RETURN and text[i + 1] == NEWLINE):
        i += 1
    return i


@compiled
def _scan_digits(text: Text, i: int, number: int) -> tuple[int, int, int]:
    """Append the digits at `i` to `number`: where they end, the number (frozen above 2**53), how many there were."""
    start = i
    while text[i] >= ZERO and text[i] <= NINE:
        if number <= EXACT_MANTISSA:
            number = number * 10 + (int(text[i]) - ZERO)
        i += 1
    return i, number, i - start


@compiled
def _scan_number(text: Text, i: int) -> tuple[int, float, bool]:
    """Read the decimal number at `i`: where it ends (-1 if it is none), its value, and whether the value is final."""
    negative = text[i] == MINUS
    if negative or text[i] == PLUS:
        i += 1
    i, mantissa, digits = _scan_digits(text, i, 0)
    power = 0
    if text[i] == POINT:
        i, mantissa, decimals = _scan_digits(text, i + 1, mantissa)
        digits += decimals
        power = -decimals
    if digits == 0:
        return -1, 0.0, False
    if text[i] == UPPER_E or text[i] == LOWER_E:
        shrink = text[i + 1] == MINUS
        i += 2 if shrink or text[i + 1] == PLUS else 1
        i, shift, digits = _scan_digits(text, i, 0)
        if digits == 0:
            return -1, 0.0, False
        power += -shift if shrink else shift
    end = text[i]
    if end != SPACE and end != NEWLINE and end != TAB and end != RETURN and end != HASH:
        return -1, 0.0, False
    if mantissa > EXACT_MANTISSA or abs(power) > EXACT_POWER or (negative and mantissa == 0):
        return i, 0.0, False
    # The sign goes to the integer: compiled floating-point code may forget the sign of a zero.
    signed = float(-mantissa if negative else mantissa)
    if power < 0:
        return i, signed / POWERS[-power], True
    return i, signed * POWERS[power], True


def _convert_late(text: bytes, path: PathLike, rows: _Rows, count: int) -> None:
    """Convert the numbers that need more than one rounding."""
    slots, starts, stops = rows.late[:, :count]
    places = zip(starts.tolist(), stops.tolist(), strict=True)
    values = np.array([float(text[start:stop]) for start, stop in places], np.float64)
    overflows = np.flatnonzero(np.isinf(values))
    if overflows.size:
        start, stop = int(starts[overflows[0]]), int(stops[overflows[0]])
        token = shown(text[start:stop].decode())
        sentence = f"{token} is beyond the largest double, 1.7976931348623157e308; rescale the data."
        raise DataFileError(path, sentence, *locate(text, start))
    is_label = slots < 0
    rows.y[-1 - slots[is_label]] = values[is_label]
    rows.data[slots[~is_label]] = values[~is_label]


def _raise_fault(text: bytes, path: PathLike, start: int, first: int, n_features: int | None) -> None:
    line = text[start : text.index(b"\n", start)].decode()
    column, sentence = _find_fault(line, first, n_features)
    raise DataFileError(path, sentence, locate(text, start)[0], column)


def _find_fault(line: str, first: int, n_features: int | None) -> tuple[int, str]:
    """Column and description of the first thing wrong in a line that the scan refused."""
    body = line.removesuffix("\r").partition("#")[0]
    if "\r" in body:
        return body.index("\r") + 1, "A carriage return stands inside the line; end every line with LF or CR LF."
    label, *pairs = re.finditer(r"[^ \t]+", body)
    if not DECIMAL.fullmatch(label.group()):
        return label.start() + 1, _label_fault(label.group())
    previous = first - 1
    for pair in pairs:
        index, colon, value = pair.group().partition(":")
        fault = _index_fault(index, colon, previous, first, n_features)
        if fault:
            return pair.start() + 1, fault
        if not DECIMAL.fullmatch(value):
            return pair.start() + len(index) + 2, _value_fault(index, value)
        previous = _whole(index)
    raise AssertionError(f"The scan refused a line in which nothing is wrong: {line!r}.")


def _label_fault(label: str) -> str:
    if NOT_FINITE.fullmatch(label):
        return f"The label {shown(label)} is not finite; remove the line or give it a label such as +1 or -1."
    if ":" in label:
        return f"The line starts with {shown(label)} and has no label; write one, such as +1 or -1, before it."
    if "," in label:
        return f"{shown(label)} is not one decimal number; keep a single label per line, with a decimal point."
    return f"The label {shown(label)} is not a decimal number; write one such as +1, -1 or 2.5."


def _index_fault(index: str, colon: str, previous: int, first: int, n_features: int | None) -> str | None:
    """What is wrong before the value of a pair, or None."""
    if index == "qid" and colon:
        return "Query identifiers (qid:) belong to ranking, which is not supported; remove them from the file."
    if not colon:
        return f"{shown(index)} has no colon; write each feature as index:value, such as 3:0.5, or start comments by #."
    if not re.fullmatch("[0-9]+", index):
        return f"The index {shown(index)} is not a whole number from {first} on; write features as index:value."
    number, last = _whole(index), (n_features or MAX_FEATURES) - 1 + first
    if number < first:
        return Wording("Index 0 occurs, but indices start at 1; pass {zero_based:True} if this file starts at 0.")
    if number > last and n_features is not None:
        sentence = "Index {index} is above {last}, the last for {n_features:{n}}; pass a larger {n_features}."
        return Wording(sentence, index=shown(index), last=last, n=n_features)
    if number > last:
        return f"Index {shown(index)} is above {last}, the largest possible one; renumber or hash the features."
    if number == previous:
        return f"Index {number} occurs twice, but one value per index is allowed; remove one of the two."
    if number < previous:
        return f"Index {number} comes after index {previous}, but indices must ascend; sort the pairs of each line."
    return None


def _value_fault(index: str, value: str) -> str:
    if not value:
        return f"The value of index {_whole(index)} is empty; write a number after the colon or remove the pair."
    if NOT_FINITE.fullmatch(value):
        return f"The value {shown(value)} of index {_whole(index)} is not finite; remove or impute missing values."
    return f"The value {shown(value)} of index {_whole(index)} is not a decimal number; write one such as 0.5 or 1e-3."


def _whole(digits: str) -> int:
    """The number, cut to eleven digits: enough to see that it is too large, and never slow."""
    return int(digits.lstrip("0")[:11] or "0")
