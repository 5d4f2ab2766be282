"""Reading a model: nothing in a file is executed, and only what the writer can have written is accepted.

The document may only name the classes and kinds of values listed in `format` and `rules`, every array must be what the
document announces, and the restored model is checked attribute by attribute before anybody sees it.
"""

from __future__ import annotations

import io
import json
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable
from importlib.metadata import version
from tokenize import TokenError
from typing import NoReturn

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.models.format import (
    CSR_ARRAYS,
    DOCUMENT,
    DTYPE,
    FORMAT,
    FREE_BYTES,
    FREE_DOCUMENT_BYTES,
    LONGEST_SENTENCE,
    MAX_DOCUMENT_BYTES,
    MAX_RATIO,
    RECORDS,
    SCALING,
    SPARSE,
    VERSION,
    Json,
    ModelFileError,
    Refusal,
)
from maxmargin.models.rules import (
    ATTRIBUTES,
    CLASSES,
    FIELDS,
    LATER_FIELDS,
    OPTIONAL,
    are_sizes,
    check_fields,
    check_model,
    is_nan,
    is_whole,
)
from maxmargin.models.scaling import scaled_model
from maxmargin.problems.point import Status
from maxmargin.protocols import Array
from maxmargin.wording import PathLike, shown

_MEMBER_NAME = re.compile(r"[A-Za-z0-9_.]{1,200}\.npy")
SLOPES = "probability_slopes_"  # of files before there were curves with a shift
_LONGEST_HEADER = 10_000
_UNZIP_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, OverflowError)

Node = dict[str, Json]


def load_model(path: PathLike, *, max_bytes: int | None = None) -> BaseEstimator:
    """Restore a model from a file written by `save_model`.

    Nothing in the file is executed, so files from strangers are safe to load: the worst they can hold is a bad model.

    Parameters
    ----------
    path : path-like
        The file.
    max_bytes : int, optional
        Refuse a file that would unpack to more than this; unless told 256 MiB and a hundred times the size of the file.

    Returns
    -------
    estimator
        The fitted model, or the pipeline with a ``StandardScaler`` in front; predictions, scores and attributes are
        the same to the last bit.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, of an unknown version, too large, or not consistent.

    """
    try:
        with _open_archive(path) as archive:
            members = _members(archive, max_bytes)
            document = _parse(_unpack(archive, members[DOCUMENT]))
            return _Decoder(archive, members).model(document)
    except Refusal as refusal:
        raise ModelFileError(path, _shortened(str(refusal))) from refusal.__cause__
    except RecursionError as error:
        raise ModelFileError(path, "The document is nested too deeply for a model; save the model again.") from error


def _shortened(sentence: str) -> str:
    """The beginning and the end, which holds the remedy, of a sentence that quotes too much of a file."""
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    return f"{sentence[: LONGEST_SENTENCE // 2]} ... {sentence[-LONGEST_SENTENCE // 4 :]}"


def _open_archive(path: PathLike) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise Refusal("There is no such file; check the path.") from error
    except IsADirectoryError as error:
        raise Refusal("This is a directory; give the path of one model file.") from error
    except PermissionError as error:
        raise Refusal(f"The file cannot be read ({error.strerror}); check its permissions.") from error
    except _UNZIP_FAULTS as error:
        raise Refusal(
            "This is not a model file, or only the beginning of one: its table of contents is missing or damaged; "
            "copy it again, or make it with maxmargin.io.save_model."
        ) from error


def _members(archive: zipfile.ZipFile, max_bytes: int | None) -> dict[str, zipfile.ZipInfo]:
    """The members by name, if each has a harmless name and all together are small enough."""
    members: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.orig_filename
        if name in members:
            raise Refusal(f"The member {shown(name)} occurs twice, but each may occur once; save the model again.")
        if name != DOCUMENT and not _MEMBER_NAME.fullmatch(name):
            raise Refusal(f"The member name {shown(name)} is not one that a model file has; save the model again.")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refusal(f"The member {shown(name)} is encrypted or packed in an unknown way; save the model again.")
        members[name] = entry
    if DOCUMENT not in members:
        raise Refusal(f"The member {DOCUMENT} is missing, so this is not a model file; check the path.")
    # A parsed document takes many times its length.
    document = members[DOCUMENT]
    longest = min(MAX_DOCUMENT_BYTES, FREE_DOCUMENT_BYTES + MAX_RATIO * document.compress_size)
    if document.file_size > longest:
        raise Refusal(
            f"{DOCUMENT} has {document.file_size} bytes, more than {longest}, the most allowed for its packed size; "
            f"save the model again."
        )
    total = sum(entry.file_size for entry in members.values())
    if max_bytes is None:
        max_bytes = FREE_BYTES + MAX_RATIO * sum(entry.compress_size for entry in members.values())
    if total > max_bytes:
        raise Refusal(f"The file unpacks to {total} bytes, more than {max_bytes}; pass max_bytes if you trust it.")
    return members


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, never more than announced."""
    try:
        with archive.open(entry) as stream:
            raw = stream.read(entry.file_size)
    except _UNZIP_FAULTS as error:
        raise Refusal(f"The member {shown(entry.filename)} is damaged ({error}); copy the file again.") from error
    if len(raw) != entry.file_size:
        raise Refusal(f"The member {shown(entry.filename)} is shorter than announced; copy the file again.")
    return raw


def _parse(raw: bytes) -> Node:
    """The document, if it is strict JSON of the version that this code knows."""
    try:
        document = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except ValueError as error:
        raise Refusal(f"{DOCUMENT} is not valid ({error}); save the model again.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Refusal(f'{DOCUMENT} does not say "format": "{FORMAT}", so this is not a model file; check the path.')
    found = document.get("version")
    if not is_whole(found) or found != VERSION:
        raise Refusal(
            f"The file has version {shown(str(found))} of the format, but maxmargin {version('maxmargin')} reads "
            f"version {VERSION}; update maxmargin, or save the model with this one."
        )
    expected = {"format", "version", "maxmargin", "class", "parameters", "fitted"}
    if document.keys() - {SCALING} != expected:
        raise Refusal(f"{DOCUMENT} must have the keys {', '.join(sorted(expected))}; save the model again.")
    return document


def _unique(pairs: list[tuple[str, Json]]) -> Node:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


class _Decoder:
    """Turns a document and arrays back into a model, and refuses everything that the encoder cannot have written."""

    def __init__(self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> None:
        self.archive = archive
        self.members = members
        self._arrays: dict[str, Array] = {}
        self._records: dict[str, object] = {}  # by the place where they stand
        self._decoders: dict[str, Callable[[Node], object]] = {
            "array": self._decode_array,
            "scalar": self._decode_scalar,
            "float": self._decode_float,
            "Status": self._decode_status,
            "same": self._decode_same,
            "dict": self._decode_dict,
            "tuple": lambda node: tuple(map(self.decode, _items(node, "tuple"))),
            **dict.fromkeys(RECORDS, self._decode_record),
            **dict.fromkeys(SPARSE, self._decode_sparse),
        }

    def model(self, document: Node) -> BaseEstimator:
        """The estimator of a document."""
        name = document["class"]
        if not isinstance(name, str) or name not in ATTRIBUTES or name not in CLASSES:
            raise Refusal(
                f"The file holds a {shown(str(name))}, but only {', '.join(ATTRIBUTES)} can be restored; update "
                f"maxmargin, or save one of these."
            )
        if not isinstance(document["parameters"], dict) or not isinstance(document["fitted"], dict):
            raise Refusal(f"The parameters and attributes in {DOCUMENT} are not objects; save the model again.")
        model = self._build(name, {key: self.decode(node) for key, node in document["parameters"].items()})
        for key, node in document["fitted"].items():
            if key == SLOPES and "classes_" in ATTRIBUTES[name]:
                self._take_slopes(model, self.decode(node))
                continue
            if key in vars(model) or (key not in ATTRIBUTES[name] and key not in OPTIONAL):
                raise Refusal(f"{name} has no fitted attribute {shown(key)}; update maxmargin, or save it again.")
            setattr(model, key, self.decode(node))
        scaling = None
        if SCALING in document:
            parts = _expect_keys(document[SCALING], {"mean", "scale"})
            scaling = {name: self.decode(node) for name, node in parts.items()}
        unused = sorted(self.members.keys() - self._arrays.keys() - {DOCUMENT})
        if unused:
            raise Refusal(f"The member {shown(unused[0])} belongs to no attribute; save the model again.")
        check_model(model)
        return model if scaling is None else scaled_model(scaling, model)

    @staticmethod
    def _take_slopes(model: BaseEstimator, slopes: object) -> None:
        """What files before curves of probabilities have: of two classes the same curve without a shift."""
        of_two = len(getattr(model, "classes_", ())) == 2
        if of_two and isinstance(slopes, np.ndarray) and slopes.shape == (2,) and slopes.dtype == np.float64:
            model.__dict__["probability_curves_"] = np.array([[*slopes.tolist(), 0.0]])
            return
        warnings.warn(
            "The probabilities of several classes in this file are those of an older version and were left out; "
            "classes and scores are as they were. Fit the model again to have probabilities.",
            UserWarning,
            stacklevel=2,
        )

    def _build(self, name: str, parameters: dict[str, object]) -> BaseEstimator:
        """An estimator with checked parameters; one that the file does not have keeps its default."""
        model = CLASSES[name]()
        unknown = sorted(parameters.keys() - model.get_params(deep=False).keys())
        if unknown:
            raise Refusal(f"{name} has no parameter {shown(unknown[0])}; update maxmargin, or save the model again.")
        if any(is_nan(value) for value in parameters.values()):
            raise Refusal("A parameter is NaN, but each must be a number; save the model again.")
        model.set_params(**parameters)
        try:
            model._validate_params()
        except ValueError as error:
            raise Refusal(f"{error} Save the model again.") from error
        return model

    def decode(self, node: Json) -> object:
        """The value of a piece of JSON."""
        if isinstance(node, list):
            return list(map(self.decode, node))
        if not isinstance(node, dict):
            return node
        tag = next(iter(node), "")
        if tag not in self._decoders:
            raise Refusal(f"{shown(tag)} is not a kind of value that a model file holds; save the model again.")
        return self._decoders[tag](node)

    def _decode_array(self, node: Node) -> Array:
        _expect_keys(node, {"array", "dtype", "shape"}, {"object"})
        name, dtype, shape = node["array"], node["dtype"], node["shape"]
        if not isinstance(name, str) or name not in self.members or name == DOCUMENT:
            raise Refusal(f"The array {shown(str(name))} is missing in the file; copy or save it again.")
        if name not in self._arrays:
            if not isinstance(dtype, str) or not DTYPE.fullmatch(dtype):
                raise Refusal(f"{name} has dtype {shown(str(dtype))}, but bool, int, float or str are allowed.")
            if not isinstance(shape, list) or len(shape) > 3 or not are_sizes(shape):
                raise Refusal(f"{name} has the shape {shown(str(shape))}, but at most 3 sizes from 0 on are allowed.")
            array = self._load(name, dtype, tuple(map(_size, shape)))
            if node.get("object", False) is True and array.dtype.kind == "U":
                array = array.astype(object)
            self._arrays[name] = array
        return self._arrays[name]

    def _load(self, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
        """An array of the announced dtype and shape, read by numpy after its header was compared with these."""
        try:
            expected = np.dtype(dtype)
            size = expected.itemsize * math.prod(shape)
            if not size < self.members[name].file_size <= size + _LONGEST_HEADER:
                raise ValueError(f"it has {self.members[name].file_size} bytes, the array alone {size}")
            stream = io.BytesIO(_unpack(self.archive, self.members[name]))
            with warnings.catch_warnings(action="error"):
                if np.lib.format.read_magic(stream) != (1, 0):
                    raise ValueError("it has another version than 1.0")
                header = np.lib.format.read_array_header_1_0(stream, max_header_size=_LONGEST_HEADER)
            if (header[0], header[2]) != (shape, expected):
                raise ValueError(f"it holds {header[2]} of shape {header[0]}")
            if len(stream.getbuffer()) - stream.tell() != size:
                raise ValueError("its length is not that of the array")
            stream.seek(0)
            array: Array = np.load(stream, allow_pickle=False)
        except (ValueError, TypeError, EOFError, OSError, UserWarning, SyntaxError, MemoryError, TokenError) as error:
            raise Refusal(
                f"The member {name} is not the array {dtype} of shape {shape} that {DOCUMENT} announces ({error}); "
                f"copy or save the file again."
            ) from error
        return array

    def _decode_sparse(self, node: Node) -> object:
        kind = next(iter(node))
        _expect_keys(node, {kind, "shape"})
        parts, shape = _expect_keys(node[kind], set(CSR_ARRAYS)), node["shape"]
        arrays = tuple(self.decode(parts[name]) for name in CSR_ARRAYS)
        try:
            matrix = SPARSE[kind](arrays, shape=tuple(map(_size, shape if isinstance(shape, list) else [])))
            matrix.check_format(full_check=True)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise Refusal(f"A sparse matrix is inconsistent ({error}); copy or save the file again.") from error
        return matrix

    def _decode_record(self, node: Node) -> object:
        kind = next(iter(node))
        _expect_keys(node, {kind}, {"place"})
        later = LATER_FIELDS.get(kind, set())
        parts = _expect_keys(node[kind], set(FIELDS[kind]) - later, later)
        fields = {name: self.decode(item) for name, item in parts.items()}
        check_fields(kind, fields)
        record = RECORDS[kind](**fields)
        if "place" in node:
            self._records[str(node["place"])] = record
        return record

    def _decode_dict(self, node: Node) -> dict[object, object]:
        pairs = [pair for pair in _items(node, "dict") if isinstance(pair, list) and len(pair) == 2]
        if len(pairs) < len(_items(node, "dict")):
            raise Refusal("A dictionary is not written as pairs of a key and a value; save the model again.")
        decoded = [(self.decode(key), self.decode(value)) for key, value in pairs]
        if not all(isinstance(key, bool | int | float | str | np.generic) for key, _ in decoded):
            raise Refusal("A key of a dictionary is neither a number nor text; save the model again.")
        return dict(decoded)

    def _decode_same(self, node: Node) -> object:
        _expect_keys(node, {"same"})
        if str(node["same"]) not in self._records:
            raise Refusal(f"The file refers to {shown(str(node['same']))}, which it does not hold; save it again.")
        return self._records[str(node["same"])]

    def _decode_status(self, node: Node) -> Status:
        _expect_keys(node, {"Status"})
        if str(node["Status"]) not in Status.__members__:
            raise Refusal(f"{shown(str(node['Status']))} is not a status; update maxmargin, or save the model again.")
        return Status[str(node["Status"])]

    def _decode_float(self, node: Node) -> float:
        _expect_keys(node, {"float"})
        if node["float"] not in ("inf", "-inf", "nan"):
            raise Refusal(f"{shown(str(node['float']))} is not inf, -inf or nan; save the model again.")
        return float(node["float"])

    def _decode_scalar(self, node: Node) -> object:
        _expect_keys(node, {"scalar", "value"})
        value = self.decode(node["value"])
        if not isinstance(node["scalar"], str) or not DTYPE.fullmatch(node["scalar"]):
            raise Refusal(f"{shown(str(node['scalar']))} is not the type of a number; save the model again.")
        try:
            scalar = np.array(value, dtype=node["scalar"])[()]
            exact = isinstance(value, bool | int | float | str) and (scalar == value or is_nan(value))
        except (ValueError, TypeError, OverflowError, MemoryError):
            exact = False
        if not exact:
            raise Refusal(f"{shown(str(value))} is not a value of type {node['scalar']}; save the model again.")
        return scalar


def _items(node: Node, tag: str) -> list[Json]:
    items = _expect_keys(node, {tag})[tag]
    if not isinstance(items, list):
        raise Refusal(f"A {tag} is not written as a list; save the model again.")
    return items


def _expect_keys(node: object, required: set[str], optional: Iterable[str] = ()) -> Node:
    if not isinstance(node, dict) or not required <= node.keys() <= required | set(optional):
        raise Refusal(f"A value must have exactly the keys {', '.join(sorted(required))}; save the model again.")
    return node


def _size(value: Json) -> int:
    if not is_whole(value):
        raise TypeError(f"{value!r} is not a size")
    return int(value)
