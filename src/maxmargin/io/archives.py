"""Decompressing strictly: every stream of an archive to its end, and nothing behind the last one.

The standard library takes what follows the first stream of a bzip2 or xz file for rubbish if it is damaged, and leaves
it out without a word. Half of the rows would be missing.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK = 2**14  # bytes that are read at once: what is left of a block is copied at the end of each stream in it


class Decompressor(Protocol):
    """What the standard library has for one stream."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def unused_data(self) -> bytes:
        """What was given beyond that."""

    @property
    def needs_input(self) -> bool:
        """Whether there is nothing more to say about what was given so far."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """At most so many bytes of what the data mean."""


class _Gzip:
    """One member of a gzip file, in the manner of the other two."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(out) < max_length
        return out


class ArchiveKind(NamedTuple):
    """One way to pack files."""

    name: str
    magic: re.Pattern[bytes]
    decompressor: Callable[[], Decompressor]
    padding: int  # what may follow the last stream: nothing (0), or zeros, whose number is a multiple of this


ARCHIVES = (
    ArchiveKind("gzip", re.compile(rb"\x1f\x8b"), _Gzip, 1),
    ArchiveKind("bzip2", re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90|$)"), bz2.BZ2Decompressor, 0),
    ArchiveKind("xz", re.compile(rb"\xfd7zXZ\x00"), lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), 4),
)


class _Streams(io.RawIOBase):
    """The contents of all streams of an archive, one after another."""

    def __init__(self, raw: IO[bytes], kind: ArchiveKind) -> None:
        self.raw, self.kind = raw, kind
        self._stream: Decompressor | None = kind.decompressor()
        self._waiting = b""  # read, but not given to the decompressor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        out = b""
        while not out and view.nbytes and self._stream is not None:
            if self._stream.eof:
                self._next_stream()
                continue
            if self._stream.needs_input and not self._waiting:
                self._waiting = self.raw.read(BLOCK)
                if not self._waiting:
                    raise EOFError("it ends before its end marker")
            out = self._stream.decompress(self._waiting, view.nbytes)
            self._waiting = b""
        view[: len(out)] = out
        return len(out)

    def _next_stream(self) -> None:
        """Begin with what follows the end of a stream. Sets: the stream, or None at the end of the file."""
        assert self._stream is not None
        self._waiting = self._stream.unused_data or self.raw.read(BLOCK)
        if self.kind.padding and self._waiting.startswith(b"\0"):
            self._skip_padding()
        self._stream = self.kind.decompressor() if self._waiting else None

    def _skip_padding(self) -> None:
        zeros = 0
        while self._waiting and not (rest := self._waiting.lstrip(b"\0")):
            zeros += len(self._waiting)
            self._waiting = self.raw.read(BLOCK)
        if self._waiting:
            zeros += len(self._waiting) - len(rest)
            self._waiting = rest
        if zeros % self.kind.padding:
            raise ValueError(f"{zeros} zeros follow one of its streams, which is no multiple of {self.kind.padding}")


def kind_of_archive(head: bytes) -> ArchiveKind | None:
    """What the first bytes of a file say that it is; ``None`` if it is not packed."""
    return next((kind for kind in ARCHIVES if kind.magic.match(head)), None)


def unpacked(raw: IO[bytes], kind: ArchiveKind) -> IO[bytes]:
    """The contents of an archive as a stream of bytes."""
    return io.BufferedReader(_Streams(raw, kind), 2**16)
