"""Every format that is read: a whole file of it, how it is read, and what may come of a damaged one."""

import bz2
import csv
import gzip
import io
import lzma
import re
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from damage import damaged, damaged_inside
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, HullDistance, Lasso, LinearSVC, minimize
from maxmargin.io import (
    DataFileError,
    ModelFileError,
    load_model,
    open_chunks,
    open_shards,
    read_csv,
    read_data,
    read_libsvm,
    save_model,
    write_libsvm,
)
from maxmargin.operators import Rows
from maxmargin.solvers import Saddle

_KNOWN = re.compile("Reading `.npy`|invalid escape sequence|invalid decimal literal")  # of numpy, about its headers
LONGEST = 600  # characters of a sentence about a file
RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 3))
X[RNG.random(X.shape) < 0.3] = 0.0
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=40) > 0.0, 1.0, -1.0)


class Case(NamedTuple):
    """One damaged file: how to read it, and what is wrong with what came of that."""

    name: str
    content: bytes
    done: str
    read: object  # from a path to what was read
    judge: object  # from what was read, and the content, to complaints


def wrong_with(case, path):
    """What reading a damaged file did that it must not."""
    path.write_bytes(case.content)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            found = case.read(path)
        except (DataFileError, ModelFileError) as error:
            yield from _wrong_sentence(error.sentence, str(path))
        except ValueError as error:
            if case.name.startswith("checkpoint") and "Remove it" in str(error):
                return
            yield f"ValueError: {error}"[:400]
        else:
            yield from case.judge(found, case.content)
    yield from (f"warning: {one.message}"[:300] for one in raised if not _KNOWN.search(str(one.message)))


def _wrong_sentence(sentence, path):
    text = str(sentence)
    begins_well = re.match(r"""[A-Z'"]|\w+(\.\w+)*\.(npy|json) |n_support_""", text)
    if len(text) > LONGEST or not text.endswith(".") or not begins_well or "\n" in text:
        yield f"no sentence: {text[:300]!r}"


# --- text ---


def _as_text(content):
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8")


def rows_of_libsvm(content):
    """What the lines of a LIBSVM file say, read without a line of ours."""
    labels, entries = [], []
    for line in _as_text(content).split("\n"):
        words = line.partition("#")[0].replace("\t", " ").replace("\r", " ").split(" ")
        words = [word for word in words if word]
        if words:
            labels.append(float(words[0]))
            pairs = [word.split(":") for word in words[1:] if not word.startswith("qid:")]
            entries.append({int(index): float(value) for index, value in pairs})
    return labels, entries


def _judge_libsvm(found, content):
    A, y = (found.X, found.y) if hasattr(found, "X") else found
    if not sparse.issparse(A):
        A = sparse.vstack(list(A.chunks())).tocsr()
    labels, entries = rows_of_libsvm(content)
    if y is None or len(labels) != len(y) or A.shape[0] != len(labels):
        yield f"{len(labels)} rows became {A.shape[0]}"
        return
    if not np.array_equal(np.array(labels), np.asarray(y, dtype=float)):
        yield "other labels"
    there = [
        dict(zip((row.indices + 1).tolist(), row.data.tolist(), strict=True)) for row in map(A.__getitem__, _each(A))
    ]
    if there != entries:
        yield "other entries"


def _each(A):
    return ([k] for k in range(A.shape[0]))


def _judge_csv(found, content):
    rows = [row for row in csv.reader(io.StringIO(_as_text(content), newline=""), delimiter=_separator(content)) if row]
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    n = found.X.shape[0]
    if n not in (len(rows), len(rows) - 1):
        yield f"{len(rows)} rows became {n}"
    if n == len(rows) - 1 and sum(map(_is_number, rows[0])) > len(rows[0]) // 2 and found.feature_names is None:
        yield f"the row {rows[0]} was lost"
    if len(found.y) != n or not np.isfinite(found.X).all():
        yield "what is no number"


def _separator(content):
    head = content.split(b"\n")[0]
    return max(";,\t", key=lambda sign: head.count(sign.encode()))


def _is_number(text):
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


# --- binary files ---


def _stack(data):
    (rows,) = data.X.chunks()
    return rows if sparse.issparse(rows) else np.array(rows)


def _judge_npy(found, content):
    if found.size * found.dtype.itemsize > 8 * len(content):
        yield f"{found.shape} from {len(content)} bytes"


def _judge_same(found, content):
    if content.endswith(bytes(200)):  # padding, for all that gzip knows: a whole stream that became zeros is not missed
        return
    if found.shape != X.shape or not np.array_equal(found.toarray() if sparse.issparse(found) else found, X):
        yield "other rows, believed in silence"


def _judge_shape(found, content):
    if found.shape[0] + found.nnz > 1000 * len(content):
        yield f"{found.shape} from {len(content)} bytes"


# --- models ---


def _predictions(path):
    model = load_model(path)
    return np.asarray(model.predict(X), dtype=float)


def _judge_finite(found, content):
    if found.shape != Y.shape or not np.isfinite(found).all():
        yield "predictions that are no numbers"


# --- checkpoints ---

HULLS = HullDistance(Rows(X / np.linalg.norm(X, axis=1).max()), Y, np.full(Y.size, 0.2))


def _resume(path):
    target = path.parent / "fit"
    path.replace(f"{target}.0")
    try:
        return minimize(HULLS, Saddle(), tol=1e-2, max_iter=20_000, checkpoint=target)
    finally:
        for file in path.parent.glob("fit.*"):
            file.unlink()


@cache
def _optimum():
    """Bounds of the optimum, from a fit without checkpoints."""
    certificate = minimize(HULLS, Saddle(), tol=1e-6).certificate
    return certificate.dual, certificate.primal


def _judge_resumed(found, content):
    certificate, (low, high) = found.certificate, _optimum()
    if not (certificate.relative_gap <= 1e-2 and certificate.dual <= high + 1e-9 and certificate.primal >= low - 1e-9):
        yield f"a false certificate: {certificate}, and the optimum is {high}"


# --- all of them ---


class Whole(NamedTuple):
    """An undamaged file."""

    suffix: str
    content: bytes
    read: object
    judge: object
    inside: object = None  # the judge of archives with a damaged member, whose checksum is right


def whole_files(folder):
    """One undamaged file of each format, by name."""
    folder = Path(folder)
    write_libsvm(folder / "data", X, Y)
    text = (folder / "data").read_bytes()
    table = "a,b,c,y\n" + "".join(
        f"{','.join(map(repr, map(float, row)))},{y:g}\n" for row, y in zip(X, Y, strict=True)
    )
    bare = table.partition("\n")[2].replace(",", ";")
    files = {
        "libsvm": Whole("svm", text, read_libsvm, _judge_libsvm),
        "libsvm chunks": Whole("svm", text, lambda path: open_chunks(path, memory=2000), _judge_libsvm),
        "libsvm shards": Whole("svm", text, _of_clients, _judge_libsvm),
        "auto": Whole("txt", text, read_data, lambda found, content: ()),
        "csv": Whole("csv", table.encode(), read_csv, _judge_csv),
        "csv bare": Whole("csv", bare.encode(), read_csv, _judge_csv),
    }
    for name, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        content = pack(text[: len(text) // 2]) + pack(text[len(text) // 2 :])
        files[name] = Whole(f"svm.{name}", content, lambda path: read_libsvm(path)[0], _judge_same)
    np.save(folder / "rows.npy", X)
    files["npy"] = Whole("npy", (folder / "rows.npy").read_bytes(), lambda path: _stack(open_chunks(path)), _judge_npy)
    sparse.save_npz(folder / "rows.npz", sparse.csr_matrix(X))
    files["npz"] = Whole(
        "npz", (folder / "rows.npz").read_bytes(), lambda path: _stack(open_chunks(path)), _judge_same, _judge_shape
    )
    models = {
        "kernel": SVC(probability=True),
        "linear": LinearSVC(),
        "lasso": Lasso(0.01),
        "pipeline": make_pipeline(StandardScaler(), LinearSVC()),
    }
    for name, model in models.items():
        save_model(model.fit(X, Y), folder / name)
        same = _same_as(model.predict(X))
        files[name] = Whole("mm", (folder / name).read_bytes(), _predictions, same, _judge_finite)
    minimize(HULLS, Saddle(), tol=1e-9, max_iter=40, checkpoint=folder / "fit")
    content = (folder / "fit.0").read_bytes()
    files["checkpoint"] = Whole("npz", content, _resume, _judge_resumed, _judge_resumed)
    return files


def _same_as(expected):
    return lambda found, content: () if np.array_equal(found, expected) else ["other predictions, believed in silence"]


def _of_clients(path):
    """The rows that three clients read, together."""
    data = open_shards(path)
    parts = [data.read(rank, 3) for rank in range(3)]
    width = max(A.shape[1] for A, _ in parts)
    for A, _ in parts:
        A.resize(A.shape[0], width)
    return sparse.vstack([A for A, _ in parts]).tocsr(), np.concatenate([y for _, y in parts])


def damaged_case(rng, files):
    """A damaged file of any format."""
    name = rng.choice(sorted(files))
    whole = files[name]
    if whole.inside is not None and rng.random() < 0.5:
        content, done = damaged_inside(rng, whole.content)
        return Case(name, content, done, whole.read, whole.inside), whole.suffix
    content, done = damaged(rng, whole.content)
    return Case(name, content, done, whole.read, whole.judge), whole.suffix
