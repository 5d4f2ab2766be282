"""Data that several clients read: every row belongs to exactly one of them, whatever the file looks like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.io import DataFileError, open_shards, read_libsvm, write_libsvm
from maxmargin.io import shards as module

X = np.random.default_rng(0).normal(size=(57, 4)).round(3)
Y = np.arange(57) % 3


def union(data, size):
    """All clients' rows and labels, dense."""
    parts = [data.read(rank, size) for rank in range(size)]
    d = max(part.shape[1] for part, _ in parts)
    for part, _ in parts:
        if sparse.issparse(part):
            part.resize(part.shape[0], d)
    stacked = [part.toarray() if sparse.issparse(part) else part for part, _ in parts]
    return np.concatenate(stacked), np.concatenate([y for _, y in parts if y.size] or [np.empty(0)])


line = st.one_of(
    st.tuples(st.integers(-1, 1), st.lists(st.integers(1, 30), unique=True, max_size=5)).map(
        lambda row: " ".join([str(row[0]), *(f"{j}:{j / 4}" for j in sorted(row[1]))])
    ),
    st.just("+1 2:3 # a comment with 1:2"),
    st.just("# nothing but a comment"),
    st.just(""),
)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(line, min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    final=st.booleans(),
    mark=st.booleans(),
    size=st.integers(1, 20),
    block=st.sampled_from([1, 7, 2**22]),
)
def test_every_line_is_read_by_exactly_one_client(tmp_path_factory, lines, end, final, mark, size, block):
    path = tmp_path_factory.getbasetemp() / "any.svm"
    text = end.join(lines) + (end if final else "")
    path.write_bytes(text.encode("utf-8-sig" if mark else "utf-8"))
    before, module.BLOCK_BYTES = module.BLOCK_BYTES, block
    try:
        rows, labels = union(open_shards(path, n_features=30), size)
    finally:
        module.BLOCK_BYTES = before
    if not any(item and item[0] != "#" for item in lines):
        assert rows.shape == (0, 30)
        return
    expected, expected_labels = read_libsvm(path, n_features=30)
    np.testing.assert_array_equal(rows, expected.toarray())
    np.testing.assert_array_equal(labels, expected_labels)


def test_clients_read_about_equally_many_bytes(tmp_path):
    write_libsvm(tmp_path / "data.svm", X, Y)
    counts = [open_shards(tmp_path / "data.svm").read(rank, 4)[1].size for rank in range(4)]
    assert sum(counts) == 57
    assert max(counts) - min(counts) <= 2


@pytest.mark.parametrize("size", [1, 3, 10])
def test_errors_name_the_line_of_the_file(tmp_path, size):
    path = tmp_path / "bad.svm"
    path.write_text("+1 1:1\n" * 40 + "-1 1:x\n" + "+1 1:1\n" * 9)
    messages = []
    for rank in range(size):
        try:
            open_shards(path).read(rank, size)
        except DataFileError as error:
            messages.append(str(error))
    assert len(messages) == 1
    assert messages[0].startswith(f"{path}:41:6: ")


def test_archives_are_refused(tmp_path):
    write_libsvm(tmp_path / "data.svm.gz", X, Y)
    with pytest.raises(DataFileError, match="A gzip archive cannot be read in parts; decompress"):
        open_shards(tmp_path / "data.svm.gz").read(0, 2)


@pytest.mark.parametrize("size", [1, 2, 5, 70])
@pytest.mark.parametrize("group", [3, 10, 100])
@pytest.mark.parametrize("labels", [Y, np.array(["a", "b", "c"])[Y]], ids=["numbers", "strings"])
def test_parquet(tmp_path, monkeypatch, size, group, labels):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("maxmargin.io.parquet.BATCH_ROWS", 4)
    columns = {f"x{j}": X[:, j] for j in range(4)}
    for k, some in enumerate((slice(0, 30), slice(30, 57))):
        table = pa.table({**{name: values[some] for name, values in columns.items()}, "label": labels[some]})
        pq.write_table(table, tmp_path / f"{k}.parquet", row_group_size=group)
    data = open_shards(tmp_path, target="label")
    assert data.feature_names == list(columns)
    rows, found = union(data, size)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(found, labels)
    sizes = [data.read(rank, size)[0].shape[0] for rank in range(size)]
    assert max(sizes) - min(sizes) <= 1


def test_parquet_clients_read_their_row_groups_only(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": X[:40, 0], "y": Y[:40]}), tmp_path / "t.parquet", row_group_size=10)
    asked = []
    iter_batches = pq.ParquetFile.iter_batches

    def noting(self, *arguments, row_groups, **options):
        asked.append(row_groups)
        return iter_batches(self, *arguments, row_groups=row_groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noting)
    open_shards(tmp_path / "t.parquet", target="y").read(1, 4)
    assert asked == [[1]]


@pytest.mark.parametrize("size", [1, 2, 5, 70])
def test_npy(tmp_path, size):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "labels.npy", Y)
    rows, labels = union(open_shards(tmp_path / "X.npy", target=tmp_path / "labels.npy"), size)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, Y)
    np.save(tmp_path / "both0.npy", np.column_stack([Y, X])[:20])
    np.save(tmp_path / "both1.npy", np.column_stack([Y, X])[20:])
    rows, labels = union(open_shards([tmp_path / "both0.npy", tmp_path / "both1.npy"], target=0), size)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, Y)


def test_rows_of_a_memory_map_are_not_copied(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    part, _ = open_shards(tmp_path / "X.npy", target=tmp_path / "y.npy").read(1, 2)
    assert isinstance(part, np.memmap)
    assert part.shape == (29, 4)


@pytest.mark.parametrize(
    ("name", "settings_", "message"),
    [
        ("data.svm", {"target": "y"}, "whose labels come first in each line; remove target"),
        ("X.npy", {"n_features": 3}, "n_features and zero_based are for LIBSVM files"),
        ("data.csv", {}, "A CSV file is not read chunk by chunk"),
        ("data.npz", {}, "An .npz file is not read in parts"),
        ("missing.svm", {}, "There is no such file"),
    ],
)
def test_what_cannot_be_divided_is_refused(tmp_path, name, settings_, message):
    if name != "missing.svm":
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=message):
        open_shards(tmp_path / name, **settings_)


def test_targets_must_fit_to_the_rows(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y[:5])
    with pytest.raises(DataFileError, match=r"The targets have shape \(5,\), but there are 57 rows"):
        open_shards(tmp_path / "X.npy", target=tmp_path / "y.npy").read(0, 1)
    with pytest.raises(DataFileError, match="There is no column 9 for the target among 4"):
        open_shards(tmp_path / "X.npy", target=9).read(0, 1)
