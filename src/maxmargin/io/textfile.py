"""Opening data files: plain or compressed text as bytes, and the error that names file, line and column."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from maxmargin.io.archives import kind_of_archive, unpacked
from maxmargin.wording import FileError, PathLike

DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


class DataFileError(FileError):
    """A data file that cannot be read: the path, a sentence, and where it happened, as line and column from 1 on."""


class ColumnsUnknown(DataFileError):
    """No line of a LIBSVM file has an entry, and nobody has told the number of columns."""


def read_bytes(path: PathLike) -> bytes:
    """Read a text file, decompressed and without a byte order mark.

    The first bytes of the file, not its name, tell whether it is plain text, gzip, bzip2 or xz.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    bytes
        Valid UTF-8 without NUL.

    Raises
    ------
    DataFileError
        The file is missing, unreadable, a damaged archive, or not UTF-8 text.

    """
    return next((block for _, block in read_blocks(path, -1)), b"")


def read_blocks(path: PathLike, size: int) -> Iterator[tuple[int, bytes]]:
    """Read a text file block by block: what `read_bytes` reads, without having all of it in memory.

    Parameters
    ----------
    path : path-like
        The file.
    size : int
        About how many bytes a block should have; -1 makes one block of the whole file.

    Yields
    ------
    lines : int
        How many lines come before the block.
    block : bytes
        Whole lines.

    Raises
    ------
    DataFileError
        As `read_bytes`, when the place in question is reached.

    """
    lines = 0
    with _refusing(path), Path(path).open("rb") as raw:
        kind = kind_of_archive(raw.peek(16))
        stream = unpacked(raw, kind) if kind else raw
        while block := _next_block(path, kind.name if kind else "text", stream, size):
            block = block.removeprefix(_BYTE_ORDER_MARK) if lines == 0 else block
            with lines_before(lines):
                _check_text(path, block)
            yield lines, block
            lines += block.count(b"\n")


def read_part(path: PathLike, part: int, parts: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Read the lines that begin in one of several equal parts of a file: each line belongs to exactly one of them.

    Parameters
    ----------
    path : path-like
        The file.
    part, parts : int
        Which part, counted from 0, of how many.
    size : int
        About how many bytes a block should have.

    Yields
    ------
    start : int
        Where in the file the block begins.
    block : bytes
        Whole lines.

    Raises
    ------
    DataFileError
        As `read_bytes`, and for archives, which have to be read from the beginning.

    """
    with _refusing(path), Path(path).open("rb") as file:
        if kind := kind_of_archive(file.peek(16)):
            raise DataFileError(path, f"A {kind.name} archive cannot be read in parts; decompress the file first.")
        length = os.fstat(file.fileno()).st_size
        start, stop = length * part // parts, length * (part + 1) // parts
        if start > 0:  # a line that began before belongs to another part
            file.seek(start - 1)
            start += len(file.readline()) - 1
        while start < stop and (block := file.read(min(size, stop - start))):
            if not block.endswith(b"\n"):
                block += file.readline()
            following = start + len(block)
            block = block.removeprefix(_BYTE_ORDER_MARK) if start == 0 else block
            with lines_before_byte(path, start):
                _check_text(path, block)
            yield start, block
            start = following


@contextmanager
def lines_before_byte(path: PathLike, start: int) -> Iterator[None]:
    """Errors name lines of a block that begins at a byte of the file: count the lines before it too."""
    try:
        yield
    except DataFileError:
        with lines_before(_count_lines(path, start)):
            raise


def _count_lines(path: PathLike, stop: int) -> int:
    count = 0
    with _refusing(path), Path(path).open("rb") as file:
        while stop > 0 and (block := file.read(min(2**20, stop))):
            count, stop = count + block.count(b"\n"), stop - len(block)
    return count


def _next_block(path: PathLike, kind: str, stream: IO[bytes], size: int) -> bytes:
    try:
        return stream.read(size) + stream.readline()
    except _DAMAGE as error:
        sentence = f"The {kind} archive is truncated or corrupt ({error}); copy or download it again."
        raise DataFileError(path, sentence) from error


@contextmanager
def lines_before(count: int) -> Iterator[None]:
    """Errors name lines of a block that comes after so many others: count those too."""
    try:
        yield
    except DataFileError as error:
        if error.line is None:
            raise
        raise DataFileError(error.path, error.sentence, error.line + count, error.column) from None


def write_lines(path: PathLike, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, compressed if the name ends in .gz, .bz2 or .xz."""
    with _create(path) as file:
        file.writelines(line.encode() for line in lines)


def locate(text: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, both counted from 1, the column in characters."""
    start = text.rfind(b"\n", 0, offset) + 1
    return text.count(b"\n", 0, start) + 1, len(text[start:offset].decode(errors="replace")) + 1


@contextmanager
def _refusing(path: PathLike) -> Iterator[None]:
    """Say in a sentence why a file cannot be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataFileError(path, "There is no such file; check the path.") from error
    except IsADirectoryError as error:
        raise DataFileError(path, "This is a directory; give the path of one data file.") from error
    except OSError as error:
        raise DataFileError(path, f"The file cannot be read ({error.strerror or error}); check it.") from error


def _check_text(path: PathLike, text: bytes) -> None:
    nul = text.find(b"\0")
    if nul >= 0:
        sentence = "There is a NUL byte, so this is binary data or UTF-16; save the file as UTF-8 text."
        raise DataFileError(path, sentence, *locate(text, nul))
    if text.isascii():
        return
    try:
        text.decode()
    except UnicodeDecodeError as error:
        sentence = f"The byte 0x{text[error.start]:02x} is not valid UTF-8 here; save the file as UTF-8 text."
        raise DataFileError(path, sentence, *locate(text, error.start)) from None


def _create(path: PathLike) -> IO[bytes]:
    match Path(path).suffix.lower():
        case ".gz":
            # No time stamp: the same data give the same file.
            return cast("IO[bytes]", gzip.GzipFile(path, "wb", mtime=0))
        case ".bz2":
            return bz2.open(path, "wb")
        case ".xz":
            return lzma.open(path, "wb")
        case _:
            return Path(path).open("wb")
