"""Parquet files, read in row groups by pyarrow (``pip install maxmargin[parquet]``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maxmargin.io.textfile import DataFileError
from maxmargin.operators import ChunkedMatrix
from maxmargin.protocols import Array

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, Schema, Table
    from pyarrow.parquet import FileMetaData, ParquetFile

CHUNK_SHARE = 4  # of the memory: two chunks, and for each as much again while it is converted
BATCH_ROWS = 8192


class _Groups(NamedTuple):
    """Consecutive row groups of a file."""

    path: Path
    metadata: FileMetaData
    numbers: list[int]
    rows: int


def parquet_chunks(paths: list[Path], target: object, memory: int) -> tuple[ChunkedMatrix, Array | None]:
    """The columns of the files but for the target, and the target."""
    files = [_opened(path) for path in paths]
    features, dtype = _columns(paths, files, target)
    row_bytes = len(features) * dtype.itemsize
    chunks = [g for path, file in zip(paths, files, strict=True) for g in _groups(path, file, row_bytes, memory)]
    if not chunks:
        raise DataFileError(paths[0], "The file holds no rows; at least one is needed.")

    def load(k: int) -> Array:
        table = _read(chunks[k], features)
        X = np.empty((table.num_rows, len(features)), dtype=dtype)
        _fill(X, table)
        return X

    def column_of(chunk: _Groups) -> Array:
        return _labels(chunk.path, target, _read(chunk, [target]).column(0))

    sizes = [chunk.rows for chunk in chunks]
    X = ChunkedMatrix(load, sizes, len(features), dtype, sum(sizes) * len(features), features)
    return X, None if target is None else np.concatenate([column_of(chunk) for chunk in chunks])


class ParquetRows:
    """The rows of some files, any stretch of which can be read without the others."""

    def __init__(self, paths: list[Path], target: object) -> None:
        files = [_opened(path) for path in paths]
        self.feature_names, self.dtype = _columns(paths, files, target)
        self.n_rows = sum(file.metadata.num_rows for file in files)
        self._files, self._target = list(zip(paths, files, strict=True)), target

    def read(self, start: int, stop: int) -> tuple[Array, Array | None]:
        """Some rows, and their targets if there is a column of them."""
        X = np.empty((stop - start, len(self.feature_names)), dtype=self.dtype)
        labels = []
        columns = self.feature_names if self._target is None else [*self.feature_names, self._target]
        before = 0
        for path, file in self._files:
            for first, table in _batches(path, file, columns, before, start, stop):
                _fill(X[first - start : first - start + table.num_rows], table)
                if self._target is not None:
                    labels.append(_labels(path, self._target, table.column(len(self.feature_names))))
            before += file.metadata.num_rows
        if self._target is None:
            return X, None
        return X, np.concatenate(labels) if labels else np.empty(0)


def _columns(paths: list[Path], files: list[ParquetFile], target: object) -> tuple[list[str], np.dtype[np.floating]]:
    """The names of the features of some files, and the type that holds all of them."""
    pa, _ = _pyarrow()
    schema = files[0].schema_arrow
    for path, file in zip(paths, files, strict=True):
        if file.schema_arrow.names != schema.names:
            raise DataFileError(
                path, f"The columns are {file.schema_arrow.names}, but those of the first file {schema.names}."
            )
    features = _features(paths[0], schema, target)
    single = all(pa.types.is_float32(file.schema_arrow.field(name).type) for file in files for name in features)
    return features, np.dtype(np.float32 if single else np.float64)


def _fill(X: Array, table: Table) -> None:
    """Sets: ``X``, from the first columns of a table."""
    for j in range(X.shape[1]):
        X[:, j] = table.column(j).cast(str(X.dtype.name), safe=False).to_numpy()


def _labels(path: Path, target: object, column: ChunkedArray) -> Array:
    if column.null_count:
        raise DataFileError(path, f"The target {target!r} has {column.null_count} missing values; drop them.")
    values = column.to_numpy()
    return values if values.dtype != object else np.array(values.tolist())


def _batches(
    path: Path, file: ParquetFile, columns: Sequence[object], before: int, start: int, stop: int
) -> Iterator[tuple[int, Table]]:
    """The rows from ``start`` to ``stop`` in tables of a few thousand, each with the number of its first row.

    The rows of the file are counted from ``before`` on. Row groups without any of the wanted rows are not read.
    """
    pa, _ = _pyarrow()
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        first, before = before, before + rows
        if first >= stop or before <= start:
            continue
        try:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[number], columns=columns, use_threads=False):
                head, tail = max(start - first, 0), min(stop - first, batch.num_rows)
                if head < tail:
                    yield first + head, pa.Table.from_batches([batch.slice(head, tail - head)])
                first += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise DataFileError(path, f"The file cannot be read ({error}); write it again.") from error


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files are read by pyarrow; install it with: pip install 'maxmargin[parquet]'."
        ) from error
    return pyarrow, pyarrow.parquet


def _opened(path: Path) -> ParquetFile:
    pa, pq = _pyarrow()
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DataFileError(path, f"This is not a whole Parquet file ({error}); write it again.") from error


def _read(chunk: _Groups, columns: Sequence[object]) -> Table:
    """Some columns of row groups. The file is opened each time: readers cannot be shared by threads."""
    pa, pq = _pyarrow()
    try:
        with pq.ParquetFile(chunk.path, metadata=chunk.metadata) as file:
            return file.read_row_groups(chunk.numbers, columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise DataFileError(chunk.path, f"The file cannot be read ({error}); write it again.") from error


def _features(path: Path, schema: Schema, target: object) -> list[str]:
    """The names of the columns but for the target, all of them numbers."""
    types = _pyarrow()[0].types
    if target is not None and target not in schema.names:
        raise DataFileError(path, f"There is no column {target!r} for the target; choose one of {schema.names}.")
    names = [name for name in schema.names if name != target]
    if not names:
        raise DataFileError(path, "There is no column beside the target; at least one feature is needed.")
    for name in names:
        kind = schema.field(name).type
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if not numeric:
            raise DataFileError(path, f"The column {name!r} holds {kind}, not numbers; encode or drop it.")
    return names


def _groups(path: Path, file: ParquetFile, row_bytes: int, memory: int) -> list[_Groups]:
    """Row groups of a file, put together as long as they are small."""
    limit = memory // CHUNK_SHARE
    out: list[_Groups] = []
    for number in range(file.num_row_groups):
        rows = file.metadata.row_group(number).num_rows
        if rows * row_bytes > limit:
            sentence = f"Row group {number} takes {rows * row_bytes} bytes, more than a quarter of memory={memory};"
            remedy = f"pass memory={CHUNK_SHARE * rows * row_bytes} or write smaller groups (row_group_size)."
            raise DataFileError(path, f"{sentence} {remedy}")
        if out and (out[-1].rows + rows) * row_bytes <= limit:
            out[-1] = out[-1]._replace(numbers=[*out[-1].numbers, number], rows=out[-1].rows + rows)
        elif rows:
            out.append(_Groups(path, file.metadata, [number], rows))
    return out
