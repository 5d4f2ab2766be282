"""One door for data that several clients share: each reads its own rows of the files, and nobody reads all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from maxmargin.io.chunks import check_matrix, format_of, map_npy, pieces_of
from maxmargin.io.libsvm import Csr, Lines, check_n_features, csr_of, parse_lines
from maxmargin.io.parquet import ParquetRows
from maxmargin.io.textfile import DataFileError, lines_before_byte, read_part
from maxmargin.protocols import Array
from maxmargin.wording import PathLike

BLOCK_BYTES = 2**22  # of text; a parser needs up to ten times as much beside it

Target: TypeAlias = PathLike | int | None  # a column of a Parquet file, an .npy file, or a column of the samples


@dataclass(frozen=True, eq=False)
class ShardedData:
    """Files whose rows are divided among clients.

    Attributes
    ----------
    paths : list of Path
        The files; their rows follow each other.
    format : {"Parquet", "libsvm", "dense"}
        Of all of them.
    feature_names : list of str or None
        Names of the columns, if the files tell.

    """

    paths: list[Path]
    format: str
    target: Target = None
    n_features: int | None = None
    zero_based: bool = False

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns, if the files tell."""
        return ParquetRows(self.paths, self.target).feature_names if self.format == "Parquet" else None

    def read(self, rank: int, size: int) -> tuple[Array | Csr, Array | None]:
        """The rows and targets of one client.

        Every row belongs to exactly one client, in the order of the files. A client may get none.

        Parameters
        ----------
        rank : int
            Of the client, from 0 on.
        size : int
            Number of clients.

        Returns
        -------
        X : ndarray, memory map or scipy.sparse.csr_array
            Rows. Those of a LIBSVM file have as many columns as this client has seen, unless `n_features` is given.
        y : ndarray or None
            Their targets; None if the data were opened without.

        Raises
        ------
        DataFileError
            A file cannot be read, or does not fit to the others.

        """
        if self.format == "libsvm":
            return _read_lines(self.paths[0], rank, size, self.n_features, self.zero_based)
        if self.format == "Parquet":
            rows = ParquetRows(self.paths, self.target)
            return rows.read(*stretch(rows.n_rows, rank, size))
        return _read_arrays(self.paths, self.target, rank, size)


def open_shards(
    source: PathLike | Sequence[PathLike],
    *,
    target: PathLike | int | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
) -> ShardedData:
    """Name the files of a distributed fit: `DistributedSVC` lets every client read its own part of the rows.

    ==========================  ===============================  ==========================================
    source                      target                           what a client reads
    ==========================  ===============================  ==========================================
    Parquet files               the name of a column             its row groups, and parts of two
    LIBSVM text                 in the file                      the lines that begin in its range of bytes
    ``.npy`` files              an ``.npy`` file, or a column    its rows of the memory map
    ==========================  ===============================  ==========================================

    The files must be visible to every client under the same path.

    Parameters
    ----------
    source : path or sequence of paths
        A file, a directory that holds nothing else, or a list of files of one format.
    target : str, path or int, optional
        Where the targets are, see above.
    n_features : int, optional
        Columns of a LIBSVM file; the largest index of the file unless given.
    zero_based : bool, default=False
        Whether the indices of a LIBSVM file count from 0.

    Returns
    -------
    ShardedData
        What to pass to ``fit``.

    Raises
    ------
    DataFileError
        A file does not exist, or its format cannot be read in parts.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from maxmargin.io import open_shards, write_libsvm
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "four.svm"
    >>> write_libsvm(path, [[2, 0], [0, 1], [1, 0.5], [-1, 0]], [1, -1, 1, -1])
    >>> X, y = open_shards(path).read(rank=1, size=2)
    >>> X.shape, y.tolist()
    ((1, 1), [-1.0])

    """
    given = pieces_of(source)
    pieces = [piece for piece in given if isinstance(piece, Path)]
    if len(pieces) < len(given):
        raise ValueError("source must be a path or a list of paths; arrays are divided by the estimators themselves.")
    kind = format_of(pieces, target, n_features=n_features, zero_based=zero_based)
    if kind == "sparse":
        raise DataFileError(pieces[0], "An .npz file is not read in parts; convert it to LIBSVM or Parquet.")
    check_n_features(n_features)
    if isinstance(target, str | os.PathLike) and kind == "dense":
        target = Path(target).resolve()
    return ShardedData([piece.resolve() for piece in pieces], kind, target, n_features, zero_based)


def stretch(n_rows: int, rank: int, size: int) -> tuple[int, int]:
    """The first and the last row, excluded, of a client: the shares differ by at most one row."""
    return n_rows * rank // size, n_rows * (rank + 1) // size


def _read_lines(path: Path, rank: int, size: int, n_features: int | None, zero_based: bool) -> tuple[Csr, Array]:
    """The rows of the lines of one client, read twice, block by block, so that they are in memory only once."""
    n_rows, n_entries = 0, 0
    for _, block in read_part(path, rank, size, BLOCK_BYTES):
        n_rows, n_entries = n_rows + block.count(b"\n") + 1, n_entries + block.count(b":")
    y, indptr = np.empty(n_rows), np.zeros(n_rows + 1, np.int32 if n_entries < 2**31 else np.int64)
    indices, data = np.empty(n_entries, np.int32), np.empty(n_entries)  # comments may hold colons: room at the end
    row, entry = 0, 0
    for rows in _parsed(path, rank, size, n_features, zero_based):
        some, entries = slice(row, row + rows.y.size), slice(entry, entry + rows.data.size)
        y[some], data[entries], indices[entries] = rows.y, rows.data, rows.indices
        indptr[row + 1 : row + 1 + rows.y.size] = entry + rows.indptr[1:]
        row, entry = some.stop, entries.stop
    columns = n_features or int(indices[:entry].max(initial=-1)) + 1
    return csr_of(data[:entry], indices[:entry], indptr[: row + 1], columns), y[:row]


def _parsed(path: PathLike, rank: int, size: int, n_features: int | None, zero_based: bool) -> Iterator[Lines]:
    for start, block in read_part(path, rank, size, BLOCK_BYTES):
        with lines_before_byte(path, start):
            rows = parse_lines(block, path, n_features, zero_based=zero_based)
        yield rows


def _read_arrays(paths: list[Path], target: Target, rank: int, size: int) -> tuple[Array, Array | None]:
    """The rows of one client: a part of a memory map, unless they are in several files or beside their targets."""
    maps = [map_npy(path) for path in paths]
    for k, (path, array) in enumerate(zip(paths, maps, strict=True)):
        check_matrix(path, k, array.dtype, array.shape, maps[0].shape)
    start, stop = stretch(sum(array.shape[0] for array in maps), rank, size)
    X, y = _rows(maps, start, stop), None
    if isinstance(target, Path):
        labels = map_npy(target)
        if labels.shape != (expected := sum(array.shape[0] for array in maps),):
            raise DataFileError(target, f"The targets have shape {labels.shape}, but there are {expected} rows.")
        y = np.array(labels[start:stop])
    elif isinstance(target, int):
        if not -X.shape[1] <= target < X.shape[1]:
            raise DataFileError(paths[0], f"There is no column {target} for the target among {X.shape[1]}.")
        y, X = np.array(X[:, target]), np.delete(X, target, axis=1)
    return X, y


def _rows(arrays: list[Array], start: int, stop: int) -> Array:
    """Some rows of arrays that follow each other."""
    parts = []
    for array in arrays:
        parts.append(array[max(start, 0) : max(stop, 0)])
        start, stop = start - array.shape[0], stop - array.shape[0]
    used = [part for part in parts if part.shape[0]] or parts[:1]
    return used[0] if len(used) == 1 else np.concatenate(used)
