"""One door for data that memory does not hold: `.npy`, `.npz`, Parquet and LIBSVM files, read chunk by chunk."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import cast

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin.io.libsvm import Csr, refuse_target
from maxmargin.io.parquet import parquet_chunks
from maxmargin.io.spill import spill_libsvm
from maxmargin.io.textfile import COMPRESSION_SUFFIXES, DataFileError
from maxmargin.operators import ChunkedMatrix
from maxmargin.operators.chunked import page_in
from maxmargin.operators.rows import Matrix, Sparse, is_sparse
from maxmargin.protocols import Array
from maxmargin.wording import PathLike, Wording, shown

MEMORY = 2**28
_DAMAGE = (
    OSError, ValueError, OverflowError, KeyError, EOFError, SyntaxError, MemoryError, NotImplementedError, TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_MEMBERS = {"format", "shape", "data", "indices", "indptr"}  # of a CSR matrix in an .npz file


@dataclass(frozen=True, eq=False)
class ChunkedData:
    """Samples that are read chunk by chunk, and their targets, which are in memory.

    Attributes
    ----------
    X : ChunkedMatrix
        The samples: linear estimators, their predictions and `certify` take it in the place of an array.
    y : ndarray or None
        The targets; None if the data were opened without.

    """

    X: ChunkedMatrix
    y: Array | None
    _close: Callable[[], object] = lambda: None

    def chunks(self) -> Iterator[tuple[Matrix, Array | None]]:
        """Samples and targets of one chunk after the other, for ``partial_fit``."""
        for some, chunk in zip(self.X.stretches, self.X.chunks(), strict=True):
            yield chunk, None if self.y is None else self.y[some]

    def close(self) -> None:
        """Remove temporary files; that happens, too, when `X` is no longer referenced, and at exit."""
        self._close()

    def __enter__(self) -> ChunkedData:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_chunks(
    source: PathLike | Matrix | Sequence[PathLike | Matrix],
    *,
    target: PathLike | ArrayLike | None = None,
    memory: int = MEMORY,
    n_features: int | None = None,
    zero_based: bool = False,
    directory: PathLike | None = None,
) -> ChunkedData:
    """Open data that memory does not hold.

    ==============================  =======================================  ==========================================
    source                          targets                                  chunks
    ==============================  =======================================  ==========================================
    ``.npy`` files, memory maps     ``target``: an array or a ``.npy`` file  stretches of rows, used in place
    ``.npz`` files of ``save_npz``  the same                                 one file each
    CSR matrices                    the same                                 one matrix each
    Parquet files                   ``target``: the name of a column         row groups, small ones together
    a LIBSVM file                   in the file                              stretches of rows of a binary copy
    ==============================  =======================================  ==========================================

    Several files are given as a list, or as a directory that holds nothing else (but for names that begin with a point
    or an underscore); their rows follow each other in the order of the list, or of the names. Text is parsed once, in
    blocks of whole lines, into a temporary binary copy of 12 bytes per entry, which is what all passes read.

    Parameters
    ----------
    source : path, array, or sequence of paths or matrices
        The samples.
    target : array, path or str, optional
        Where the targets are, see above. Without it `y` is None, which is enough for predictions.
    memory : int, default=2**28
        Bytes for chunks: the one in use and the next. Vectors as long as there are samples come in addition, and
        half a chunk of rows with which "newton" begins.
    n_features : int, optional
        Columns of a LIBSVM file; the largest index of the file unless given.
    zero_based : bool, default=False
        Whether the indices of a LIBSVM file count from 0.
    directory : path, optional
        Where the copy of a LIBSVM file goes; the system's directory for temporary files unless given.

    Returns
    -------
    ChunkedData
        The samples ``X`` and the targets ``y``.

    Raises
    ------
    DataFileError
        A file cannot be read, is damaged, or does not fit to the others.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.io import open_chunks
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> np.save(folder / "X.npy", X)
    >>> data = open_chunks(folder / "X.npy", target=X[:, 0] > 0.3, memory=2**14)
    >>> data.X
    <1000 x 5 matrix of float64 in 5 chunks>
    >>> LinearSVC(tol=1e-6).fit(data.X, data.y).duality_gap_ <= 1e-6
    True

    """
    if memory < 1:
        raise ValueError(f"memory={memory} must be a positive number of bytes.")
    pieces = pieces_of(source)
    kind = format_of(pieces, target, n_features=n_features, zero_based=zero_based, directory=directory)
    files = [piece for piece in pieces if isinstance(piece, Path)]
    if kind == "Parquet":
        return ChunkedData(*parquet_chunks(files, target, memory))
    if kind == "libsvm":
        return ChunkedData(*spill_libsvm(files[0], memory, n_features, zero_based, directory))
    X = _dense(pieces, memory) if kind == "dense" else _sparse(pieces, memory)
    return ChunkedData(X, _targets(target, X.shape[0]))


def pieces_of(source: object) -> list[Path | Matrix]:
    """What was given, as a list."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.exists():
            raise DataFileError(path, "There is no such file; check the path.")
        files = sorted(file for file in path.iterdir() if file.name[0] not in "._") if path.is_dir() else [path]
        if not files:
            raise DataFileError(path, "The directory is empty; give one with data files.")
        return list(files)
    if isinstance(source, Sequence) and len(source):
        return [Path(item) if isinstance(item, str | os.PathLike) else item for item in source]
    if isinstance(source, np.ndarray) or is_sparse(source):
        return [source]
    raise ValueError("source must be a path, an array or sparse matrix, or a list of some of them; see open_chunks.")


def format_of(pieces: Sequence[Path | Matrix], target: object, **of_text: object) -> str:
    """The format of all pieces; refuses options that are for another one."""
    kinds = [_kind_of(piece) for piece in pieces]
    for piece, kind in zip(pieces, kinds, strict=True):
        if kind != kinds[0]:
            name = piece if isinstance(piece, Path) else f"The piece of type {type(piece).__name__}"
            raise ValueError(f"{name} is {kind}, but the first is {kinds[0]}; give pieces of one kind.")
    if kinds[0] == "libsvm":
        if len(pieces) > 1:
            raise ValueError(f"{len(pieces)} LIBSVM files were given; concatenate them into one.")
        assert isinstance(pieces[0], Path)  # text is in files only
        refuse_target(pieces[0], target)
    elif any(value not in (None, False) for value in of_text.values()):
        *names, last = (f"{{{name}}}" for name in of_text)
        sentence = f"{', '.join(names)} and {last} are for LIBSVM files, and this is {{kind}}; remove them."
        raise ValueError(Wording(sentence, kind=kinds[0]))
    return kinds[0]


def is_text(path: PathLike) -> bool:
    """Whether `open_chunks` would take a file for LIBSVM text."""
    return not Path(path).is_dir() and _kind_of(Path(path)) == "libsvm"


def _kind_of(piece: Path | Matrix) -> str:
    if sparse.issparse(piece):
        return "sparse"
    if not isinstance(piece, Path):
        return "dense"
    name = piece.with_suffix("") if piece.suffix.lower() in COMPRESSION_SUFFIXES else piece
    suffix = name.suffix.lower()
    if suffix in (".csv", ".tsv"):
        raise DataFileError(piece, "A CSV file is not read chunk by chunk; convert it to Parquet or LIBSVM first.")
    return {".npy": "dense", ".npz": "sparse", ".parquet": "Parquet", ".pq": "Parquet"}.get(suffix, "libsvm")


def _dense(pieces: list[Path | Matrix], memory: int) -> ChunkedMatrix:
    """Stretches of arrays, which may be memory maps."""
    arrays = [map_npy(piece) if isinstance(piece, Path) else np.asanyarray(piece) for piece in pieces]
    for k, (piece, array) in enumerate(zip(pieces, arrays, strict=True)):
        check_matrix(piece, k, array.dtype, array.shape, arrays[0].shape)
    d = arrays[0].shape[1]
    dtype = np.float32 if all(array.dtype == np.float32 for array in arrays) else np.float64
    step = max(1, memory // 2 // max(1, d * np.dtype(dtype).itemsize))
    views = [array[first : first + step] for array in arrays for first in range(0, array.shape[0], step)]

    def load(k: int) -> Array:
        page_in(views[k])
        return np.asarray(views[k], dtype=dtype)

    return ChunkedMatrix(load, [view.shape[0] for view in views], d, dtype, sum(array.size for array in arrays))


def map_npy(path: Path) -> Array:
    """An array in a file, which is read where it is used."""
    try:
        with path.open("rb") as file:
            if file.read(2) == b"PK":  # numpy would open it
                raise ValueError("it is a zip archive, as .npz files are")
        with np.errstate(over="ignore"):  # of a shape that the file cannot have
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        raise DataFileError(path, f"This is not a whole .npy file ({error}); write it with numpy.save.") from error
    return array


def _sparse(pieces: list[Path | Matrix], memory: int) -> ChunkedMatrix:
    """CSR matrices, in memory or one per file."""
    parts = [piece if isinstance(piece, Path) else cast("Sparse", piece).tocsr() for piece in pieces]
    headers = [_header(part) for part in parts]
    for k, (piece, (shape, entries, kind)) in enumerate(zip(pieces, headers, strict=True)):
        check_matrix(piece, k, kind, shape, headers[0][0])
        size = entries * (kind.itemsize + 4) + 8 * shape[0]
        if isinstance(piece, Path) and size > memory // 2:
            sentence = f"A file is one chunk, and this one takes {size} bytes, more than half of memory={memory};"
            raise DataFileError(piece, f"{sentence} pass memory={2 * size} or write smaller files.")
    dtype = np.float32 if all(kind == np.float32 for _, _, kind in headers) else np.float64

    def load(k: int) -> Matrix:
        part = parts[k]
        return (_load_csr(part) if isinstance(part, Path) else part).astype(dtype, copy=False)

    sizes, entries = [shape[0] for shape, _, _ in headers], sum(count for _, count, _ in headers)
    return ChunkedMatrix(load, sizes, headers[0][0][1], dtype, entries)


def _header(piece: Path | Sparse) -> tuple[tuple[int, ...], int, np.dtype[np.generic]]:
    """Shape, number of entries and their type, of a matrix or of a file, whose entries are not read."""
    if not isinstance(piece, Path):
        piece.check_format(full_check=True)  # an index outside of the matrix would end in foreign memory
        return piece.shape, int(piece.nnz), piece.dtype
    with _archive(piece) as archive, zipfile.ZipFile(piece) as members, members.open("data.npy") as member:
        version = np.lib.format.read_magic(member)
        if version > (2, 0):
            raise ValueError(f"its format is version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        (entries,), _, dtype = read(member)
        return tuple(archive["shape"].tolist()), int(entries), dtype


def _load_csr(path: Path) -> Csr:
    with _archive(path) as archive:
        parts = archive["data"], archive["indices"], archive["indptr"]
        X: Csr = sparse.csr_array(parts, shape=tuple(archive["shape"].tolist()))
        X.check_format(full_check=True)
        return X


@contextmanager
def _archive(path: Path) -> Iterator[NpzFile]:
    """An .npz file that ``scipy.sparse.save_npz`` wrote for a CSR matrix; nothing in it is unpickled."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not _MEMBERS.issubset(getattr(archive, "files", ())):
                raise ValueError(f"it has not got the members {', '.join(sorted(_MEMBERS))}")
            if not all(isinstance(archive[name], np.ndarray) for name in ("format", "shape")):
                raise ValueError("its members are no arrays")  # numpy returns the bytes of such members
            if (form := archive["format"].item()) not in (b"csr", "csr"):
                raise ValueError(f"its matrix is {form!r}")
            yield archive
    except _DAMAGE as error:
        sentence = f"This is not a whole .npz file of a CSR matrix ({error}); write it with scipy.sparse.save_npz."
        raise DataFileError(path, sentence) from error


def check_matrix(
    piece: Path | Matrix, k: int, dtype: np.dtype[np.generic], shape: tuple[int, ...], first: tuple[int, ...]
) -> None:
    """Refuse what is not a matrix of numbers with as many columns as the first."""
    if len(shape) != 2 or 0 in shape:
        sentence = (
            f"The array has shape {shown(str(shape))}, but samples are a matrix with at least one row and one column."
        )
    elif dtype.kind not in "fiub":
        sentence = f"The entries are of type {dtype}, not numbers; convert them to float32 or float64."
    elif shape[1] != first[1]:
        sentence = f"There are {shape[1]} columns, but {first[1]} in the first piece; all need the same columns."
    else:
        return
    raise DataFileError(piece if isinstance(piece, Path) else f"piece {k}", sentence)


def _targets(target: PathLike | ArrayLike | None, n_samples: int) -> Array | None:
    """The targets from an array or an .npy file."""
    if target is None:
        return None
    if isinstance(target, str | os.PathLike):
        target = np.array(map_npy(Path(target)))
    y = np.asarray(target)
    if y.shape != (n_samples,):
        raise ValueError(f"target has shape {y.shape}, but there are {n_samples} rows; pass one target per row.")
    return y
