"""Damage to files: what disks, networks, hands and malice do to them, from a seed."""

import io
import re
import zipfile

PLACES = 3  # at which a file is damaged, at most


def damaged(rng, content):
    """The content of a file with some damage, and what was done."""
    done = []
    for _ in range(rng.randint(1, PLACES)):
        kind = rng.choice(BLOWS)
        content = kind(rng, content)
        done.append(kind.__name__.strip("_"))
    return content, " ".join(done)


def _flipped(rng, content):
    place = rng.randrange(max(1, len(content)))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :] if content else b""


def _cut(rng, content):
    return content[: rng.randrange(max(1, len(content)))]


def _gap(rng, content):
    start = rng.randrange(max(1, len(content)))
    return content[:start] + content[start + rng.randint(1, max(1, len(content) // 5)) :]


def _repeated(rng, content):
    start = rng.randrange(max(1, len(content)))
    piece = content[start : start + rng.randint(1, max(1, len(content) // 3))]
    return content[: start + len(piece)] + piece * rng.randint(1, 3) + content[start + len(piece) :]


def _noise(rng, content):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.randint(1, 40)) + content[place:]


def _zeros(rng, content):
    """As after a power failure: the length is right, the blocks were never written."""
    start = rng.randrange(max(1, len(content)))
    length = min(rng.choice([1, 16, 512, len(content)]), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def _moved(rng, content):
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[b:] + content[a:b] + content[:a]


def _number(rng, content):
    """Another number in a header, a document or a row: one that promises too much, or is none."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", content))
    if not found:
        return content
    match = rng.choice(found)
    return content[: match.start()] + rng.choice(NUMBERS) + content[match.end() :]


def _sign(rng, content):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(SIGNS) + content[place + rng.randrange(2) :]


def _whole(rng, content):
    return rng.choice([b"", b"\n", b"\0", b"#", b"PK\x03\x04", b"\x93NUMPY", b"{}", rng.randbytes(300)])


NUMBERS = (
    *(b"", b"0", b"-1", b"1", b"00000000000000000001", b"2147483647", b"2147483648", b"4294967296"),
    *(b"9223372036854775807", b"99999999999999999999", b"1e999", b"-1e999", b"1e-999", b"nan", b"inf", b"0x10"),
    *(b"1_000", "\u0661".encode(), b"1.5", b"1e5", b"9" * 400, b"null", b"[]", b'"x"', b"true", b"NaN", b"1,5"),
)
SIGNS = (
    *(b"\n", b"\r", b"\r\n", b",", b";", b"\t", b'"', b"'", b":", b"#", b" ", b"\0", b"\x1a", b"\xef\xbb\xbf", b"\xff"),
    *("\u2028".encode(), "\x85".encode(), b"\x0b", b"\x0c", b"\x1c", b"(", b"{", b"\\", b"?", b"NA", b"qid:1 "),
)
BLOWS = (_flipped, _flipped, _cut, _gap, _repeated, _noise, _zeros, _moved, _number, _number, _sign, _sign, _whole)


def damaged_inside(rng, archive):
    """A zip archive of which one member is damaged, missing or twice there, with checksums that are right."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    k = rng.randrange(len(members))
    name, content = members[k]
    kind = rng.random()
    if kind < 0.8:
        content, done = damaged(rng, content)
        members[k] = name, content
    elif kind < 0.85:
        del members[k]
        done = "missing"
    elif kind < 0.9:
        members[k] = rng.choice([name.upper(), "../" + name, name + "x", "/"]), content
        done = "renamed"
    elif kind < 0.95:
        members.append((name + "2.npy", bytes(rng.choice([0, 100, 10**7]))))
        done = "more"
    else:
        members[k] = name, members[rng.randrange(len(members))][1]
        done = "mixed up"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as file:
        for member, raw in members:
            file.writestr(member, raw)
    return stream.getvalue(), f"{name} {done}"
