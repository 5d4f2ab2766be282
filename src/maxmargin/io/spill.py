"""A LIBSVM file larger than memory: parsed once, block by block, into a binary copy that is read ever after."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from maxmargin.io.libsvm import Csr, check_n_features, count_features, csr_of, parse_lines
from maxmargin.io.textfile import lines_before, read_blocks
from maxmargin.operators import ChunkedMatrix
from maxmargin.operators.chunked import page_in
from maxmargin.protocols import Array, Float
from maxmargin.wording import PathLike

ENTRY_BYTES = 12  # a float64 and an int32
PARSER_SHARE = 16  # a parser needs up to ten bytes per byte of text beside it


def spill_libsvm(
    path: PathLike, memory: int, n_features: int | None, zero_based: bool, directory: PathLike | None
) -> tuple[ChunkedMatrix, Float, Callable[[], object]]:
    """The rows and labels of a file, and the function that gives the copy up.

    Where the system knows files without a name, the copy has none: it is gone with the last who reads it, and with the
    process, even if that is killed.
    """
    check_n_features(n_features)
    copy = ExitStack()
    try:
        data, indices = (copy.enter_context(_file_without_name(directory)) for _ in range(2))
        y, indptr, last = _copy(path, data, indices, max(1, memory // PARSER_SHARE), n_features, zero_based)
        n_features = count_features(path, y.size, last, n_features)
    except BaseException:
        copy.close()
        raise
    bounds = _cut(indptr, max(1, memory // 2 // ENTRY_BYTES))

    def load(k: int) -> Csr:
        start, stop = int(indptr[bounds[k]]), int(indptr[bounds[k + 1]])
        local = (indptr[bounds[k] : bounds[k + 1] + 1] - start).astype(np.int32)
        values, columns = _map(data, np.float64, start, stop), _map(indices, np.int32, start, stop)
        return csr_of(values, columns, local, n_features)

    X = ChunkedMatrix(load, np.diff(bounds).tolist(), n_features, np.float64, int(indptr[-1]))
    return X, y, weakref.finalize(X, copy.close)


def _file_without_name(directory: PathLike | None) -> IO[bytes]:
    return TemporaryFile(prefix="maxmargin-", dir=directory)


def _copy(
    path: PathLike, data: IO[bytes], indices: IO[bytes], size: int, n_features: int | None, zero_based: bool
) -> tuple[Float, Array, int]:
    """Parse the file, and write its entries. Returns the labels, where each row begins, and the last column."""
    labels, lengths, last = [], [], -1
    for lines, block in read_blocks(path, size):
        with lines_before(lines):
            rows = parse_lines(block, path, n_features, zero_based=zero_based)
        data.write(rows.data.tobytes())
        indices.write(rows.indices.tobytes())
        labels.append(rows.y.copy())
        lengths.append(np.diff(rows.indptr))
        last = max(last, int(rows.indices.max(initial=-1)))
    data.flush()
    indices.flush()
    lengths = [np.zeros(1, dtype=np.int64), *lengths]
    return np.concatenate([np.empty(0), *labels]), np.cumsum(np.concatenate(lengths)), last


def _cut(indptr: Array, entries: int) -> list[int]:
    """Bounds of stretches of rows with at most so many entries, or of one row."""
    bounds = [0]
    while bounds[-1] < indptr.size - 1:
        reach = int(np.searchsorted(indptr, indptr[bounds[-1]] + entries, side="right")) - 1
        bounds.append(max(reach, bounds[-1] + 1))
    return bounds


def _map(file: IO[bytes], dtype: type[np.float64] | type[np.int32], start: int, stop: int) -> Array:
    if start == stop:
        return np.empty(0, dtype=dtype)
    values = np.memmap(file, dtype, "r", start * np.dtype(dtype).itemsize, stop - start)
    page_in(values)
    return values
