"""LIBSVM files: exact values, one error per defect with its place, compression, round trips."""

import bz2
import gzip
import lzma
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from maxmargin import _jit
from maxmargin.io.data import read_data
from maxmargin.io.libsvm import parse_libsvm, read_libsvm, write_libsvm
from maxmargin.io.textfile import DataFileError, read_bytes

SMALL = b"+1 1:0.5 3:-2e-3 # first\r\n\n  \t\n# a comment 7:8\n-1\t2:1.25\t \n1e0 # no features\n2.5 1:.5 2:5. 3:+1E+2"
SMALL_X = np.array([[0.5, 0, -2e-3], [0, 1.25, 0], [0, 0, 0], [0.5, 5, 100]])
SMALL_Y = np.array([1, -1, 1, 2.5])

finite = st.floats(allow_nan=False, allow_infinity=False)
examples = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def bits(values):
    return np.asarray(values, dtype=np.float64).view(np.int64).tolist()


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.libsvm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_file


@pytest.fixture(params=["compiled", "plain"])
def mode(request, monkeypatch):
    monkeypatch.setattr(_jit, "PLAIN", request.param == "plain")


@pytest.mark.usefixtures("mode")
def test_small_file(write):
    X, y = read_libsvm(write(SMALL))
    assert isinstance(X, sparse.csr_array)
    assert (X.dtype, X.indices.dtype, X.indptr.dtype, y.dtype) == (np.float64, np.int32, np.int32, np.float64)
    assert X.has_canonical_format
    np.testing.assert_array_equal(X.toarray(), SMALL_X)
    np.testing.assert_array_equal(y, SMALL_Y)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, lambda raw: raw])
@pytest.mark.parametrize("name", ["data", "data.gz", "data.libsvm"])
def test_magic_bytes_decide_the_compression(write, pack, name):
    X, y = read_libsvm(write(pack(SMALL), name))
    np.testing.assert_array_equal(X.toarray(), SMALL_X)
    np.testing.assert_array_equal(y, SMALL_Y)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:20] + b"junk" + raw[24:]])
def test_damaged_archive(write, pack, damage):
    path = write(damage(pack(SMALL * 50)))
    with pytest.raises(DataFileError, match="archive is truncated or corrupt") as caught:
        read_bytes(path)
    assert (caught.value.path, caught.value.line, caught.value.column) == (str(path), None, None)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        read_libsvm(tmp_path / "absent.libsvm")
    with pytest.raises(DataFileError, match="is a directory"):
        read_libsvm(str(tmp_path))


MALFORMED = [
    # text, n_features, line, column, words
    (b"+1 0:1", None, 1, 4, "indices start at 1; pass zero_based=True"),
    (b"+1 1:1\n-1 2:1 000:3", None, 2, 8, "indices start at 1"),
    (b"1 3:1 2:1", None, 1, 7, "Index 2 comes after index 3, but indices must ascend; sort"),
    (b"1 3:1 3:1", None, 1, 7, "Index 3 occurs twice"),
    (b"1 3:1\n\n1 1:1 11:2 12:3", 10, 3, 7, "Index '11' is above 10, the last for n_features=10"),
    (b"1 2147483648:1", None, 1, 3, "above 2147483647, the largest possible one"),
    (b"1 1:1 99999999999999999999999:1", None, 1, 7, "above 2147483647"),
    (b"1 1:1 " + b"9" * 6000 + b":1", None, 1, 7, "above 2147483647"),
    (b"1 " + b"9" * 6000 + b":1", 5, 1, 3, "pass a larger n_features"),
    (b"1 3", None, 1, 3, "'3' has no colon; write each feature as index:value"),
    (b"1 3:1 word", None, 1, 7, "'word' has no colon"),
    (b"1 3 :1", None, 1, 3, "'3' has no colon"),
    (b"1 :1", None, 1, 3, "The index '' is not a whole number from 1 on"),
    (b"1 -3:1", None, 1, 3, "The index '-3' is not a whole number"),
    (b"1 +3:1", None, 1, 3, "not a whole number"),
    (b"1 1.0:1", None, 1, 3, "not a whole number"),
    (b"1 a:1", None, 1, 3, "not a whole number"),
    ("1 \u0663:1".encode(), None, 1, 3, "not a whole number"),
    (b"1 3:", None, 1, 5, "The value of index 3 is empty"),
    (b"1 3: 4", None, 1, 5, "The value of index 3 is empty"),
    (b"1 3:# 4", None, 1, 5, "The value of index 3 is empty"),
    (b"1\t1:2\t3:nan", None, 1, 9, "The value 'nan' of index 3 is not finite; remove or impute"),
    (b"1 3:-Inf", None, 1, 5, "is not finite"),
    (b"1 3:INFINITY", None, 1, 5, "is not finite"),
    (b"1 3:abc", None, 1, 5, "'abc' of index 3 is not a decimal number"),
    (b"1 3:1:2", None, 1, 5, "'1:2' of index 3 is not"),
    (b"1 3:1,5", None, 1, 5, "is not a decimal number"),
    (b"1 3:1_0", None, 1, 5, "is not a decimal number"),
    (b"1 3:0x10", None, 1, 5, "is not a decimal number"),
    (b"1 3:1e", None, 1, 5, "is not a decimal number"),
    (b"1 3:1e+", None, 1, 5, "is not a decimal number"),
    (b"1 3:.", None, 1, 5, "is not a decimal number"),
    (b"1 3:-", None, 1, 5, "is not a decimal number"),
    (b"1 3:--1", None, 1, 5, "is not a decimal number"),
    (b"1 3:1\x0c", None, 1, 5, "is not a decimal number"),
    (b"1 1:1 3:1e999 4:x", None, 1, 9, "'1e999' is beyond the largest double"),
    (b"-1e400 1:1", None, 1, 1, "'-1e400' is beyond the largest double"),
    (b"1 1:1\n 1:1 2:2", None, 2, 2, "starts with '1:1' and has no label"),
    (b"yes 1:1", None, 1, 1, "The label 'yes' is not a decimal number"),
    (b"1,2 1:1", None, 1, 1, "keep a single label per line"),
    (b"nan 1:1", None, 1, 1, "The label 'nan' is not finite"),
    (b"1 qid:3 1:1", None, 1, 3, "Query identifiers"),
    (b"1 1:1\n1 1:\0", None, 2, 5, "NUL byte"),
    ("1 1:1\n".encode("utf-16-le"), None, 1, 2, "NUL byte, so this is binary data or UTF-16"),
    (b"1 1:1 # \xc3\xa9t\xe9\n", None, 1, 11, "0xe9 is not valid UTF-8"),
    (b"1 1:1\r-1 1:2\r", None, 1, 6, "carriage return"),
    (b"1 1:1\n1 1:1 \r# comment\r\n", None, 2, 7, "carriage return"),
    (b"1 " + b"x" * 100, None, 1, 3, "'" + "x" * 37 + "...'"),
]


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(("text", "n_features", "line", "column", "words"), MALFORMED)
def test_malformed(write, text, n_features, line, column, words):
    path = write(text)
    with pytest.raises(DataFileError) as caught:
        read_libsvm(path, n_features)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}:{column}: ")
    assert words in message
    assert message.endswith(".")
    assert (caught.value.path, caught.value.line, caught.value.column) == (str(path), line, column)


@pytest.mark.parametrize("text", [b"", b"\n \r\n", b"# nothing\n", gzip.compress(b"", mtime=0)])
def test_no_rows(write, text):
    with pytest.raises(DataFileError, match=r"data\.libsvm: The file holds no rows"):
        read_libsvm(write(text))


def test_rows_without_features_need_n_features(write):
    path = write(b"1\n-1\n")
    with pytest.raises(DataFileError, match="pass n_features"):
        read_libsvm(path)
    X, y = read_libsvm(path, 3)
    assert X.shape == (2, 3)
    assert y.tolist() == [1, -1]


def test_n_features_and_zero_based(write):
    path = write(b"1 0:5 2:7\n")
    X, _ = read_libsvm(path, 4, zero_based=True)
    np.testing.assert_array_equal(X.toarray(), [[5, 0, 7, 0]])
    with pytest.raises(DataFileError, match="Index '2' is above 1, the last for n_features=2"):
        read_libsvm(path, 2, zero_based=True)
    for bad in (0, -1, 2**31):
        with pytest.raises(ValueError, match="must lie between 1 and 2147483647"):
            read_libsvm(path, bad)


def test_largest_index_leading_zeros_and_byte_order_mark(write):
    X, _ = read_libsvm(write(b"\xef\xbb\xbf1 0001:5 2147483647:1\n"))
    assert X.shape == (1, 2**31 - 1)
    assert X.indices.tolist() == [0, 2**31 - 2]


def test_error_survives_pickling():
    error = DataFileError("a.libsvm", "It is wrong.", 3, 4)
    assert str(error) == "a.libsvm:3:4: It is wrong."
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.line, copy.column) == (str(error), 3, 4)


HARD_DECIMALS = [
    "0",
    "-0",
    "+0",
    "-0.0",
    "0e999",
    "-0e-999",
    "1e22",
    "1e23",
    "-1e-22",
    "1e-23",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9007199254740993e1",
    "0.1",
    "0.30000000000000004",
    "2.2250738585072011e-308",
    "2.2250738585072014e-308",
    "5e-324",
    "2e-324",
    "1.7976931348623157e308",
    "123456789012345678901234567890",
    "0.000000000000000000000000000001",
    "1.00000000000000000000000",
    "8.5e-22",
    "179769313486231580793728971405301e-20",
    "6.02214076E+23",
    "00012.50",
    "1e-400",
    "4503599627370497.5",
]


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("token", HARD_DECIMALS)
def test_decimals_are_those_of_float(token):
    X, y = parse_libsvm(f"{token} 1:{token}".encode(), "data")
    assert bits(y) == bits(X.data) == bits([float(token)])


@examples
@given(st.lists(st.from_regex(r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True)))
def test_any_decimal_is_that_of_float(tokens):
    tokens = [token for token in ["1", *tokens] if abs(float(token)) < np.inf]
    line = "1 " + " ".join(f"{j}:{token}" for j, token in enumerate(tokens, start=1))
    X, _ = parse_libsvm(line.encode(), "data")
    assert bits(X.data) == bits([float(token) for token in tokens])


@examples
@given(st.text(alphabet="+-.:#eE0123 \t\r\nxqidn", max_size=30))
def test_every_text_is_read_or_refused(text):
    """The scan and the search for the fault agree on what is wrong."""
    try:
        X, y = parse_libsvm(text.encode(), "data", 9)
    except DataFileError:
        return
    assert X.shape == (y.size, 9)
    assert np.isfinite(X.data).all()


tables = hnp.array_shapes(min_dims=2, max_dims=2, max_side=6).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float64, shape, elements=finite | st.just(0.0)), hnp.arrays(np.float64, shape[0], elements=finite)
    )
)


@examples
@given(tables, st.sampled_from(["plain", "plain.gz", "plain.bz2", "plain.xz"]))
def test_round_trip_keeps_the_bits(tmp_path_factory, table, name):
    X, y = table
    path = tmp_path_factory.getbasetemp() / name
    write_libsvm(path, X, y)
    X_read, y_read = read_libsvm(path, X.shape[1])
    dense = np.zeros_like(X)
    i = np.repeat(np.arange(X.shape[0]), np.diff(X_read.indptr))
    dense[i, X_read.indices] = X_read.data  # toarray() adds, which would lose negative zeros
    assert bits(dense) == bits(X)
    assert bits(y_read) == bits(y)


@examples
@given(tables)
def test_agrees_with_scikit_learn(tmp_path_factory, table):
    # Their writer rounds to 16 digits, which takes the largest doubles to infinity.
    X, y = (np.clip(part, -1e300, 1e300) for part in table)
    path = tmp_path_factory.getbasetemp() / "sklearn"
    dump_svmlight_file(X, y, str(path), zero_based=False, comment="from: 1:2")
    X_read, y_read = read_libsvm(path, X.shape[1])
    X_theirs, y_theirs = load_svmlight_file(str(path), n_features=X.shape[1], zero_based=False)
    assert bits(X_read.data) == bits(X_theirs.data)
    assert X_read.indices.tolist() == X_theirs.indices.tolist()
    assert X_read.indptr.tolist() == X_theirs.indptr.tolist()
    assert bits(y_read) == bits(y_theirs)


def test_sparse_round_trip_keeps_the_caller_intact(tmp_path):
    unsorted = sparse.csr_array(
        (np.array([1.0, 0.0, 3.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    before = unsorted.indices.copy()
    write_libsvm(tmp_path / "a", unsorted, [1, 2])
    assert (tmp_path / "a").read_bytes() == b"1 1:0 3:1\n2 2:7\n"
    np.testing.assert_array_equal(unsorted.indices, before)
    write_libsvm(tmp_path / "b", sparse.coo_array(np.array([[0, 2], [3, 0]], dtype=np.float32)), [0.1, -1])
    assert (tmp_path / "b").read_bytes() == b"0.1 2:2\n-1 1:3\n"


def test_compressed_files_are_reproducible(tmp_path):
    for name in ("a.gz", "b.gz"):
        write_libsvm(tmp_path / name, [[1.0]], [1])
    header = (tmp_path / "a.gz").read_bytes()
    assert struct.unpack("<I", header[4:8]) == (0,)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[np.nan]], [1], "X holds NaN or infinity"),
        ([[1.0]], [np.inf], "y holds NaN or infinity"),
        ([[1.0]], [1, 2], r"y has shape \(2,\), but X has 1 rows"),
        ([1.0], [1], "X has 1 dimension"),
    ],
)
def test_write_refuses(tmp_path, X, y, words):
    with pytest.raises(ValueError, match=words):
        write_libsvm(tmp_path / "a", X, y)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.libsvm", b"1 1:2"),
        ("a.svm.gz", gzip.compress(b"1 1:2", mtime=0)),
        ("a.SVMLIGHT.xz", lzma.compress(b"1 1:2")),
        ("a.txt", b"# one, two\n\n1\t1:2"),
        ("a", b"1 # label only, first\n1 1:2"),
    ],
)
def test_read_data_libsvm(write, name, content):
    data = read_data(write(content, name))
    assert isinstance(data.X, sparse.csr_array)
    assert data.X.toarray()[-1].tolist() == [2]
    assert data.feature_names is None


def test_read_data_options_of_libsvm(write):
    path = write(b"1 1:2", "a.unknown")
    assert read_data(path, n_features=4, format="libsvm").X.shape == (1, 4)
    with pytest.raises(ValueError, match="is a LIBSVM file, whose labels come first in each line; remove target"):
        read_data(path, target=0)
    zero_based = read_data(write(b"1 0:2 1:3", "zero.libsvm"), zero_based=True)
    assert zero_based.X.toarray().tolist() == [[2, 3]]
    with pytest.raises(ValueError, match="is a CSV file, which has no indices; remove zero_based"):
        read_data(write(b"1,2\n3,4", "a.csv"), zero_based=True)
    with pytest.raises(ValueError, match="format='arff' is unknown"):
        read_data(path, format="arff")
    with pytest.raises(DataFileError, match=r"a\.txt:2:1: The first row is neither"):
        read_data(write(b"\nhello world", "a.txt"))
    with pytest.raises(DataFileError, match="holds no rows"):
        read_data(write(b"# \n", "a.txt"))
