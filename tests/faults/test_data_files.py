"""Damaged data files: what was written is read whole, or refused in a sentence; never a part of it in silence."""

import bz2
import gzip
import io
import lzma
import random
from contextlib import suppress

import numpy as np
import pytest

from maxmargin.io import open_chunks, read_csv, read_data
from maxmargin.io.archives import BLOCK
from maxmargin.io.textfile import DataFileError, read_bytes

PACKERS = {"gzip": lambda raw: gzip.compress(raw, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress}
LINES = [f"{1 - 2 * (i % 2)} 1:{i} 2:{i * i % 97}\n".encode() for i in range(600)]


def file_of(tmp_path, content):
    path = tmp_path / "data"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack", PACKERS)
def test_streams_one_after_another_are_one_file(tmp_path, pack):
    parts = [b"".join(LINES[start : start + 60]) for start in range(0, 600, 60)]
    path = file_of(tmp_path, b"".join(map(PACKERS[pack], [*parts, b""])))
    assert read_bytes(path) == b"".join(LINES)


@pytest.mark.parametrize("pack", PACKERS)
def test_damage_behind_the_first_stream_is_noticed(tmp_path, pack):
    """1000 of 3000 rows were returned, and nobody was told."""
    first, second = PACKERS[pack](b"".join(LINES[:200])), PACKERS[pack](b"".join(LINES[200:]))
    damaged = [
        first + second[: len(second) // 2],
        first + second[:3],
        first + b"X" + second[1:],
        first + second[:10] + bytes(255 - byte for byte in second[10:40]) + second[40:],
        first + second + b"rubbish",
        first + b"rubbish" + second,
        first + second[:-1],
    ]
    for content in damaged:
        with pytest.raises(DataFileError, match=f"{pack} archive is truncated or corrupt .* copy or download it again"):
            read_data(file_of(tmp_path, content))


def test_padding_of_archives_is_no_damage(tmp_path):
    text = b"".join(LINES)
    for content in (
        gzip.compress(text) + bytes(5),
        gzip.compress(text) + bytes(3 * BLOCK),
        gzip.compress(b"") + bytes(512) + gzip.compress(text),
        lzma.compress(text) + bytes(8),
        lzma.compress(text[:99]) + bytes(4) + lzma.compress(text[99:]),
    ):
        assert read_bytes(file_of(tmp_path, content)) == text
    with pytest.raises(DataFileError, match="6 zeros follow"):
        read_bytes(file_of(tmp_path, lzma.compress(text) + bytes(6)))
    with pytest.raises(DataFileError, match="bzip2 archive is truncated or corrupt"):
        read_bytes(file_of(tmp_path, bz2.compress(text) + bytes(4)))


def test_many_small_members_are_not_copied_again_and_again(tmp_path, monkeypatch):
    """40,000 of them took 8 seconds: the time was that of copying what is left of the file at the end of each."""
    member = gzip.compress(b"1 1:2\n", mtime=0)
    read = []
    path = file_of(tmp_path, member * 3000)
    import maxmargin.io.archives as archives

    class Watched(archives._Gzip):
        def decompress(self, data, max_length, /):
            read.append(len(data))
            return super().decompress(data, max_length)

    monkeypatch.setattr(archives, "ARCHIVES", (archives.ARCHIVES[0]._replace(decompressor=Watched),))
    assert read_bytes(path) == b"1 1:2\n" * 3000
    assert max(read) <= BLOCK  # and not what is left of the file
    assert len(read) <= 3 * 3000


def test_random_damage_is_noticed_or_harmless(tmp_path):
    """Bits flipped, pieces cut out, members repeated: the rows that come back are those that were packed."""
    rng = random.Random(5)
    text = b"".join(LINES)
    for pack in PACKERS.values():
        whole = pack(text[: len(text) // 2]) + pack(text[len(text) // 2 :])
        for _ in range(40):
            content = bytearray(whole)
            for _ in range(rng.randint(1, 3)):
                place = rng.randrange(len(content))
                if rng.random() < 0.5:
                    content[place] ^= 1 << rng.randrange(8)
                else:
                    del content[place : place + rng.randint(1, 200)]
            try:
                found = read_bytes(file_of(tmp_path, bytes(content)))
            except DataFileError:
                continue
            assert found == text or pack is PACKERS["gzip"]  # whose header holds times and names that may change
            assert len(found) == len(text)


SLIPS = [
    ("1.5,1O,3\n1,2,3\n", "'1O' in column 1 of the first row is not a number, but 2 of its 3 cells are", 5),
    ("5.1,?,1.4,0\n4.9,3.0,1.4,1\n", "'?' in column 1 of the first row", 5),
    ("NA,3.5,1.4,yes\n4.9,3.0,1.4,no\n", "'NA' in column 0 of the first row", 1),
    ("?,?,a\n1,2,b\n", "'?' in column 0 of the first row is not a number, but 0 of its 3 cells are", 1),
    ("1;2;x;y;1\n1;2;3;4;0\n", "'x' in column 2 of the first row", 5),
]


@pytest.mark.parametrize(("text", "words", "column"), SLIPS)
def test_a_first_row_with_a_slip_is_no_header(tmp_path, text, words, column):
    """It was taken for a header, and the row was lost."""
    with pytest.raises(DataFileError) as caught:
        read_csv(file_of(tmp_path, text.encode()))
    assert words in str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_headers_stay_headers(tmp_path):
    assert read_csv(file_of(tmp_path, b"a,b\n1,2\n")).feature_names == ["a"]
    assert read_csv(file_of(tmp_path, b"0,1,2,target\n1,2,3,0\n2,3,4,1\n")).feature_names == ["0", "1", "2"]
    assert read_csv(file_of(tmp_path, b"id,1,2,y\n1,2,3,0\n"), target="y").feature_names == ["id", "1", "2"]
    assert read_csv(file_of(tmp_path, b"a,b,c,2020\n1,2,3,0\n")).feature_names == ["a", "b", "c"]


def test_an_npy_file_that_is_a_zip_archive(tmp_path):
    """This was an AttributeError."""
    path = tmp_path / "rows.npy"
    with path.open("wb") as file:
        np.savez(file, a=np.ones((3, 2)))
    with pytest.raises(DataFileError, match=r"not a whole \.npy file \(it is a zip archive.*numpy\.save"):
        open_chunks(path)


@pytest.mark.filterwarnings("ignore:Reading `.npy`")  # of headers that Python 2 might have written
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_random_damage_of_binary_files(tmp_path, kind):
    from scipy import sparse

    rng = random.Random(11)
    stream = io.BytesIO()
    rows = np.arange(60.0).reshape(20, 3)
    if kind == "npy":
        np.save(stream, rows)
    else:
        sparse.save_npz(stream, sparse.csr_matrix(rows))
    whole = stream.getvalue()
    path = tmp_path / f"rows.{kind}"
    for _ in range(150):
        content = bytearray(whole)
        place = rng.randrange(min(len(content), 160) if kind == "npy" else len(content))
        if rng.random() < 0.6:
            content[place] ^= 1 << rng.randrange(8)
        else:
            del content[place : place + rng.randint(1, 100)]
        path.write_bytes(bytes(content))
        with suppress(DataFileError):  # any other exception fails
            X = open_chunks(path).X
            assert sum(chunk.shape[0] for chunk in X.chunks()) == X.shape[0]
