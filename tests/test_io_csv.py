"""CSV files: separators, headers, targets, quotes, and one error per defect with its place."""

import csv
import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from maxmargin.io import csv as table_module
from maxmargin.io.csv import parse_csv, read_csv
from maxmargin.io.data import read_data
from maxmargin.io.textfile import DataFileError

finite = st.floats(allow_nan=False, allow_infinity=False)
examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


READABLE = [
    # text, target, X, y, feature names, target name
    ("1,2,3\n4,5,6\n", None, [[1, 2], [4, 5]], [3, 6], None, None),
    ("1;2;3\r\n4;5;6", None, [[1, 2], [4, 5]], [3, 6], None, None),
    ("1\t2\t3\n\n4\t5\t6\n  \n", None, [[1, 2], [4, 5]], [3, 6], None, None),
    ("1,2\r3,4\r", None, [[1], [3]], [2, 4], None, None),
    (" 1 , +2.5e1,.5 \n", None, [[1, 25]], [0.5], None, None),
    ("\n1,2,3\n", 0, [[2, 3]], [1], None, None),
    ("\ufeffa,b,c\n1,2,3\n", None, [[1, 2]], [3], ["a", "b"], "c"),
    ("a,Label,c\n1,2,3\n", None, [[1, 3]], [2], ["a", "c"], "Label"),
    ("y,label,c\n1,2,3\n", None, [[1, 2]], [3], ["y", "label"], "c"),
    ("a,b,c\n1,2,3\n", "b", [[1, 3]], [2], ["a", "c"], "b"),
    ("a,b,c\n1,2,3\n", 0, [[2, 3]], [1], ["b", "c"], "a"),
    ('"a ""x"", y",b\n1,2\n', None, [[1]], [2], ['a "x", y'], "b"),
    ('"a\nb";c\n1;2\n', None, [[1]], [2], ["a\nb"], "c"),
    ('"1","2"\n3,"4"\n', None, [[1], [3]], [2, 4], None, None),
    ("5.1,3.5,setosa\n4.9,3.0,virginica\n", None, [[5.1, 3.5], [4.9, 3]], ["setosa", "virginica"], None, None),
    ('a,class\n1," x, y "\n2,1\n', None, [[1], [2]], ["x, y", "1"], ["a"], "class"),
    ("0,1,target\n5,6,7\n8,9,7\n", None, [[5, 6], [8, 9]], [7, 7], ["0", "1"], "target"),
    ("1,2,y\n3,4,n\n", None, [[1, 2], [3, 4]], ["y", "n"], None, None),
    ("1,2,y\n", None, [[1, 2]], ["y"], None, None),
    ("target,0\n1,5\n", None, [[5]], [1], ["0"], "target"),
    (",a,b\n0,1,2\n", None, [[0, 1]], [2], ["", "a"], "b"),
]


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize(("text", "target", "X", "y", "names", "target_name"), READABLE)
def test_readable(write, monkeypatch, careful, text, target, X, y, names, target_name):
    if careful:
        monkeypatch.setattr(table_module, "_read_quickly", lambda content, layout: None)
    table = read_csv(write(text), target)
    assert table.X.dtype == np.float64
    assert table.X.flags.c_contiguous
    np.testing.assert_array_equal(table.X, X)
    assert table.y.dtype.kind == ("U" if isinstance(y[0], str) else "f")
    assert table.y.tolist() == y
    assert (table.feature_names, table.target_name) == (names, target_name)


def test_clean_tables_take_the_quick_path(write, monkeypatch):
    monkeypatch.setattr(table_module, "_read_carefully", lambda content, layout: pytest.fail("slow path"))
    assert read_csv(write("a,b\n1,2\n3,4\n")).X.tolist() == [[1], [3]]
    assert read_csv(write('"a","b"\n1,no\n3,yes\n')).y.tolist() == ["no", "yes"]


MALFORMED = [
    # text, target, line, column, words
    ("a,b,c\n1,2,3\n4,x,6\n", None, 3, 3, "'x' in column 'b' is not a number"),
    ("1,2,3\n4,five,6\n", None, 2, 3, "'five' in column 1 is not a number"),
    ("a,b\n1,2\n\n,4\n", None, 4, 1, "The cell of column 'a' is empty"),
    ("1,,3\n", None, 1, 3, "The cell of column 1 is empty"),
    ("1,nan,3\n", None, 1, 3, "'nan' in column 1 is not finite; remove or impute"),
    ("a,b,c\n1,2,3\n1, -Inf,3\n", None, 3, 3, "'-Inf' in column 'b' is not finite"),
    ("a,b,c\n1,1e999,3\n", None, 2, 3, "'1e999' in column 'b' is beyond the largest double"),
    ("a;b\n1,5;2\n", None, 2, 1, "'1,5' in column 'a' is not a number with a decimal point; replace the decimal comma"),
    ("a,b\n1_0,2\n", None, 2, 1, "is not a number"),
    ("a,b\n0x1,2\n", None, 2, 1, "is not a number"),
    ("a,b\n1,2\n3,\n", None, 3, 3, "The target, column 'b', is empty"),
    ("a,b\n1,2\n3,NaN\n", None, 3, 3, "The target 'NaN' in column 'b' is not finite"),
    ("a,b\n1,2\n3,1e999\n", None, 3, 3, "is not finite"),
    ("a,b,c\n1,2\n", None, 2, 4, "The row has 2 cell(s), but the first one has 3; column 'c' is missing"),
    ("1,2,3\n4,5,6,7\n", None, 2, 7, "The row has 4 cell(s), but the first one has 3; remove"),
    ("a,b\n1,2,3\n1,2,3\n", None, 2, 5, "The row has 3 cell(s)"),
    (",,\n", None, 1, 1, "The cell of column 0 is empty"),
    ('a,b,c\n"1,1",2,3\n', None, 2, 1, "'1,1' in column 'a'"),
    ('a,b,c\n"1","2",x\n1,"z",3\n', None, 3, 3, "'z' in column 'b'"),
    ('a,b,c\n1,"2\n3",3\n', None, 2, 3, "in column 'b' is not a number"),
    ('a,b,c\n"1\n",q,3\n', None, 3, 3, "'q' in column 'b'"),
    ('a,b\n"1"2,3\n', None, 2, 1, "The quotes are wrong here"),
    ('a,b\n1,2\n"1,3\n', None, 3, 1, "The quotes are wrong here"),
    ("a,b\n1,2\n", "c", 1, 1, "No column is named 'c'; pass one of 'a', 'b'"),
    ("1,2\n3,4\n", "c", 1, 1, "There is no header, so target='c' names nothing; pass a position from 0 to 1"),
    ("1,2\n3,4\n", "2", 1, 1, "There is no header"),
    ("\n1,2\n3,4\n", 2, 2, 1, "target=2 is no column; pass a position from 0 to 1"),
    ("1,2\n3,4\n", -1, 1, 1, "target=-1 is no column"),
    ("a,b,a\n1,2,3\n", None, 1, None, "2 columns are named 'a'"),
    ("1 2 3\n", None, 1, 1, "The row has 1 cell"),
    ("", None, None, None, "The file holds no rows"),
    ("\n \r\n", None, None, None, "The file holds no rows"),
    ("a,b\n\n", None, None, None, "There is a header but no row"),
    (b"a,b\n1,\0\n", None, 2, 3, "NUL byte"),
    (b"a,b\n1,\xff\n", None, 2, 3, "0xff is not valid UTF-8"),
    ("a,b\n\u00e9\u00e9,\u00e9,1\n", None, 2, 6, "The row has 3 cell(s)"),
]


@pytest.mark.parametrize(("text", "target", "line", "column", "words"), MALFORMED)
def test_malformed(write, text, target, line, column, words):
    path = write(text)
    with pytest.raises(DataFileError) as caught:
        read_csv(path, target)
    message = str(caught.value)
    place = "".join(f":{part}" for part in (line, column) if part is not None)
    assert message.startswith(f"{path}{place}: ")
    assert words in message
    assert message.endswith(".")
    assert (caught.value.line, caught.value.column) == (line, column)


def test_missing_file(tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        read_csv(tmp_path / "absent.csv")


tables = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6), elements=finite)


@examples
@given(tables, st.sampled_from(",;\t"), st.booleans(), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_round_trip_keeps_the_bits(table, separator, header, quoting):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, quoting=quoting)
    if header:
        writer.writerow([f"x{j}" for j in range(table.shape[1])])
    writer.writerows([[repr(value) for value in row] for row in table.tolist()])
    read = parse_csv(stream.getvalue().encode(), "data")
    assert np.column_stack([read.X, read.y]).view(np.int64).tolist() == table.view(np.int64).tolist()


@examples
@given(st.text(alphabet='12.,;"\n\rab -e', max_size=30))
def test_every_text_is_read_or_refused(text):
    try:
        table = parse_csv(text.encode(), "data")
    except DataFileError:
        return
    assert table.X.shape[0] == table.y.shape[0] > 0
    assert np.isfinite(table.X).all()


@examples
@given(st.lists(st.lists(st.sampled_from(["1", " 2.5", "x", "", "nan", "-3e2"]), min_size=2, max_size=3), max_size=5))
def test_both_paths_agree(rows):
    content = "\n".join(",".join(row) for row in rows)
    try:
        layout = table_module._detect_layout(content, "data", None)
    except DataFileError:
        return
    quick = table_module._read_quickly(content, layout)
    if quick is not None:
        careful = table_module._read_carefully(content, layout)
        assert quick.X.tolist() == careful.X.tolist()
        assert quick.labels == careful.labels
        assert quick.codes.tolist() == careful.codes.tolist()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"a,b\n1,2\n"),
        ("a.TSV.gz", gzip.compress(b"a\tb\n1\t2\n", mtime=0)),
        ("a.csv.xz", lzma.compress(b"a,b\n1,2\n")),
        ("a.txt", b"\na;b\n1;2\n"),
        ("a", b"a,b # c\n1,2\n"),
        ("a.dat", b"a#1,b\n1,2\n"),
    ],
)
def test_read_data_csv(write, name, content):
    data = read_data(write(content, name))
    assert data.X.tolist() == [[1]]
    assert data.y.tolist() == [2]
    assert data.feature_names in (["a"], ["a#1"])


def test_read_data_options_of_csv(write):
    path = write("a,b\n1,2\n", "a.unknown")
    assert read_data(path, target="a", format="csv").X.tolist() == [[2]]
    with pytest.raises(ValueError, match="is a CSV file, whose columns are counted; remove n_features"):
        read_data(path, n_features=3)
