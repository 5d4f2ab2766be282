"""Model files without pickle: a zip archive with one JSON document and one .npy member per array.

Nothing in a file is ever executed. The document may only name the classes listed here, every array must be what the
document announces, and the restored model is checked attribute by attribute before anybody sees it, because compiled
code trusts shapes and indices.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import re
import secrets
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin import estimators
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.wording import PathLike, shown

FORMAT = "maxmargin model"
VERSION = 1
MAX_BYTES = 2**33
MAX_DOCUMENT_BYTES = 2**28

_DOCUMENT = "model.json"
_MEMBER_NAME = re.compile(r"[A-Za-z0-9_.]{1,200}\.npy")
_DTYPE = re.compile(r"[<>|][biufU][0-9]{1,9}")
_LONGEST_HEADER = 10_000
_UNZIP_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, OverflowError)

_CLASSES: dict[str, type[Any]] = {
    name: kind
    for name in estimators.__all__
    if isinstance(kind := getattr(estimators, name), type) and issubclass(kind, BaseEstimator)
}
_RECORDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Solution, Point, Certificate, Record)}
_SPARSE: dict[str, Callable[..., Any]] = {"csr_matrix": sparse.csr_matrix, "csr_array": sparse.csr_array}
_CSR_ARRAYS = ("data", "indices", "indptr")


class ModelFileError(ValueError):
    """A model that cannot be stored, or a model file that cannot be read.

    Parameters
    ----------
    path : path-like
        The file.
    sentence : str
        The fact, the bound and the remedy.

    """

    def __init__(self, path: PathLike, sentence: str) -> None:
        # All arguments go to the base class so that the error survives the trip between processes.
        super().__init__(path, sentence)
        self.path = os.fspath(path)
        self.sentence = sentence

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


class _Refusal(Exception):
    """What is wrong, before the name of the file is known."""


def save_model(model: Any, path: PathLike) -> None:
    """Store a fitted model in a file that holds data only, no code.

    The file appears complete or not at all: it is written under another name in the same directory and then renamed.

    Parameters
    ----------
    model : estimator
        A fitted estimator of maxmargin, such as `SVC` or `SVR`.
    path : path-like
        Where to; any suffix, ".mm" is the custom.

    Raises
    ------
    ModelFileError
        The model is not one of ours, not fitted, or holds something that is not data: a callable kernel, a callback,
        or a ``RandomState``.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.io import load_model, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(model, Path(directory) / "iris.mm")
    ...     same = load_model(Path(directory) / "iris.mm")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True

    """
    try:
        _refuse_code(model)
        check_model(model)
        writer = _Encoder()
        text = json.dumps(writer.document(model), allow_nan=False).encode()
        if len(text) > MAX_DOCUMENT_BYTES:
            raise _Refusal(
                f"The history of the fit takes {len(text)} bytes, and a file holds at most {MAX_DOCUMENT_BYTES}; "
                f"shorten it with dataclasses.replace(solution, history=()) in solutions_ and solution_."
            )
    except _Refusal as refusal:
        raise ModelFileError(path, str(refusal)) from refusal.__cause__
    _write_atomically(path, text, writer.members)


def load_model(path: PathLike, *, max_bytes: int = MAX_BYTES) -> Any:
    """Restore a model from a file written by `save_model`.

    Nothing in the file is executed, so files from strangers are safe to load: the worst they can hold is a bad model.

    Parameters
    ----------
    path : path-like
        The file.
    max_bytes : int
        Refuse a file that would unpack to more than this; 8 GiB unless told.

    Returns
    -------
    estimator
        The fitted model; predictions, scores and attributes are the same to the last bit.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, of an unknown version, too large, or not consistent.

    """
    try:
        with _open_archive(path) as archive:
            members = _members(archive, max_bytes)
            document = _parse(_unpack(archive, members[_DOCUMENT]))
            return _Decoder(archive, members).model(document)
    except _Refusal as refusal:
        raise ModelFileError(path, str(refusal)) from refusal.__cause__
    except RecursionError as error:
        raise ModelFileError(path, "The document is nested too deeply for a model; save the model again.") from error


# --- What a model must look like -------------------------------------------------------------------------------------

Sizes = dict[str, int]


class _Rule(NamedTuple):
    """What an attribute must be, in words and as a test; the sizes are those of the model at hand."""

    words: str
    holds: Callable[[Any, Sizes], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _are_sizes(values: Iterable[Any]) -> bool:
    return all(_is_whole(size) and size >= 0 for size in values)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float | np.floating) and not math.isnan(value))


def _is_array(value: Any, kinds: str) -> bool:
    """A finite array of one of the kinds of dtype; "O" stands for str objects."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        return False
    if value.dtype.kind == "O":
        return all(type(item) is str for item in value.flat)
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())


def _array(kinds: str, *shape: str) -> _Rule:
    names = {"f": "finite floats", "i": "whole numbers", "O": "str objects"}
    return _Rule(
        f"an array of {names[kinds]} of shape ({', '.join(shape)})",
        lambda value, sizes: _is_array(value, kinds) and value.shape == tuple(sizes[name] for name in shape),
    )


def _is_class_list(value: Any, sizes: Sizes) -> bool:
    if not _is_array(value, "biufUO") or value.ndim != 1 or value.size < 2:
        return False
    return bool((value[:-1] < value[1:]).all())


def _is_matrix(value: Any, sizes: Sizes) -> bool:
    shape = (sizes["vectors"], sizes["columns"])
    if type(value).__name__ in _SPARSE:
        return value.shape == shape and _is_array(value.data, "f")
    return _is_array(value, "f") and value.shape == shape and value.flags.c_contiguous


def _is_shape(value: Any, sizes: Sizes) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and _are_sizes(value)


def _are_solutions(value: Any, sizes: Sizes) -> bool:
    right = isinstance(value, list) and len(value) == sizes["problems"]
    return right and all(isinstance(item, Solution) and item.point.alpha is not None for item in value)


def _are_solutions_without_variables(value: Any, sizes: Sizes) -> bool:
    right = isinstance(value, list) and len(value) == sizes["problems"]
    return right and all(isinstance(item, Solution) and item.point.alpha is None for item in value)


def _is_traffic(value: Any, sizes: Sizes) -> bool:
    right = isinstance(value, dict) and value.keys() == {"rounds", "scalars", "bytes", "seconds"}
    return right and all(_is_array(item, "f") and item.ndim == 1 for item in value.values())


def _are_slopes(value: Any, sizes: Sizes) -> bool:
    return _is_array(value, "f") and value.shape == (sizes["slopes"],) and bool((value > 0.0).all())


_NUMBER = _Rule("a number, not NaN", lambda value, sizes: _is_number(value))
_COUNT = _Rule("a whole number from 0 on", lambda value, sizes: _is_whole(value) and value >= 0)

# The attributes that sizes are taken from come first.
_SIZED: dict[str, _Rule] = {
    "n_features_in_": _Rule("a whole number from 1 on", lambda value, sizes: _is_whole(value) and value >= 1),
    "support_": _Rule("a list of row numbers", lambda value, sizes: _is_array(value, "i") and value.ndim == 1),
}
_SIZE_GIVING = {*_SIZED, "classes_"}
_CERTIFIED: dict[str, _Rule] = {
    "dual_coef_": _array("f", "rows", "support"),
    "intercept_": _array("f", "problems"),
    "solutions_": _Rule("a list of one Solution with dual variables per problem", _are_solutions),
    "solution_": _Rule("a Solution", lambda value, sizes: isinstance(value, Solution)),
    "duality_gap_": _NUMBER,
    "objective_": _NUMBER,
    "dual_objective_": _NUMBER,
}
_CLASSES_RULE = {"classes_": _Rule("a sorted list of at least 2 different labels", _is_class_list)}
_KERNEL_MACHINE: dict[str, _Rule] = {
    "support_vectors_": _Rule("a finite matrix of shape (support, features), dense or CSR", _is_matrix),
    "shape_fit_": _Rule("the two sizes of the training data", _is_shape),
    "fit_status_": _COUNT,
    "_gamma": _NUMBER,
}
_WITHOUT_CLASSES = _SIZED | _CERTIFIED | _KERNEL_MACHINE | {"n_iter_": _COUNT}
_KERNEL_CLASSIFIER: dict[str, _Rule] = {
    **_SIZED,
    **_CLASSES_RULE,
    **_CERTIFIED,
    **_KERNEL_MACHINE,
    "class_weight_": _array("f", "classes"),
    "n_iter_": _array("i", "problems"),
    "_support_codes": _array("i", "support"),
    "_n_support": _array("i", "classes"),
}
_PER_PROBLEM = _array("f", "problems")
_DISTRIBUTED: dict[str, _Rule] = {
    "n_features_in_": _SIZED["n_features_in_"],
    **_CLASSES_RULE,
    **{name: rule for name, rule in _CERTIFIED.items() if name not in ("dual_coef_", "solutions_")},
    "solutions_": _Rule("a list of one Solution per problem", _are_solutions_without_variables),
    "coef_": _array("f", "problems", "features"),
    "n_iter_": _COUNT,
    "shape_fit_": _KERNEL_MACHINE["shape_fit_"],
    "traffic_": _Rule("the rounds, scalars, bytes and seconds of each client", _is_traffic),
}
_ATTRIBUTES: dict[str, dict[str, _Rule]] = {
    "SVC": _KERNEL_CLASSIFIER,
    "NuSVC": _KERNEL_CLASSIFIER | {"nu_": _PER_PROBLEM, "rho_": _PER_PROBLEM, "nu_max_": _NUMBER},
    "SVR": _WITHOUT_CLASSES,
    "NuSVR": _WITHOUT_CLASSES | {"epsilon_": _NUMBER},
    "OneClassSVM": _WITHOUT_CLASSES,
    "LinearSVC": _SIZED
    | _CLASSES_RULE
    | _CERTIFIED
    | {"coef_": _array("f", "problems", "features"), "n_iter_": _COUNT},
    "DistributedSVC": _DISTRIBUTED,
    "DistributedNuSVC": _DISTRIBUTED | {"nu_": _PER_PROBLEM, "rho_": _PER_PROBLEM, "nu_max_": _NUMBER},
    "LogisticRegression": {
        "n_features_in_": _SIZED["n_features_in_"],
        **_CLASSES_RULE,
        **{name: rule for name, rule in _CERTIFIED.items() if name != "dual_coef_"},
        "coef_": _array("f", "scores", "features"),
        "intercept_": _array("f", "scores"),
        "n_iter_": _array("i", "problems"),
    },
    "LinearSVR": _SIZED | _CERTIFIED | {"coef_": _array("f", "features"), "n_iter_": _COUNT},
    "SGDClassifier": _SIZED
    | _CLASSES_RULE
    | _CERTIFIED
    | {"coef_": _array("f", "problems", "features"), "n_iter_": _COUNT, "t_": _NUMBER},
    "SGDRegressor": _SIZED | _CERTIFIED | {"coef_": _array("f", "features"), "n_iter_": _COUNT, "t_": _NUMBER},
}
_OPTIONAL: dict[str, _Rule] = {
    "feature_names_in_": _array("O", "features"),
    "_coef": _array("f", "problems", "features"),  # of kernel machines with a linear kernel
    "probability_slopes_": _Rule("a list of positive numbers, 1 or 2 of them", _are_slopes),
}

_FIELDS: dict[str, dict[str, _Rule]] = {
    "Point": {
        "w": _Rule("a list of finite floats", lambda value, _: _is_array(value, "f") and value.ndim == 1),
        "b": _Rule("a finite float", lambda value, _: _is_number(value) and math.isfinite(value)),
        "alpha": _Rule(
            "a list of finite floats or null",
            lambda value, _: value is None or (_is_array(value, "f") and value.ndim == 1),
        ),
    },
    "Certificate": {"primal": _NUMBER, "dual": _NUMBER, "passes": _NUMBER},
    "Record": {
        "seconds": _NUMBER,
        "iterations": _COUNT,
        # A solver's own estimate may be anything, even NaN.
        "primal": _Rule("a number", lambda value, _: _is_number(value) or _is_nan(value)),
        "dual": _Rule("a number", lambda value, _: _is_number(value) or _is_nan(value)),
        "certified": _Rule("true or false", lambda value, _: isinstance(value, bool)),
        "counters": _Rule(
            "a dictionary of numbers",
            lambda value, _: (
                isinstance(value, dict)
                and all(isinstance(k, str) and (_is_number(v) or _is_nan(v)) for k, v in value.items())
            ),
        ),
    },
    "Solution": {
        "point": _Rule("a Point", lambda value, _: isinstance(value, Point)),
        "certificate": _Rule("a Certificate", lambda value, _: isinstance(value, Certificate)),
        "status": _Rule("a Status", lambda value, _: isinstance(value, Status)),
        "solver": _Rule("a name", lambda value, _: isinstance(value, str)),
        "tol": _NUMBER,
        "iterations": _COUNT,
        "seconds": _NUMBER,
        "last": _Rule("a Point or null", lambda value, _: value is None or isinstance(value, Point)),
        "history": _Rule(
            "a list of Records",
            lambda value, _: isinstance(value, tuple) and all(isinstance(item, Record) for item in value),
        ),
    },
}


def check_model(model: Any) -> None:
    """Refuse a model whose attributes are not those of its class, or do not fit together."""
    name = type(model).__name__
    if name not in _ATTRIBUTES or _CLASSES.get(name) is not type(model):
        raise _Refusal(
            f"{type(model).__module__}.{name} has no file format; only {', '.join(_ATTRIBUTES)} of maxmargin have one."
        )
    fitted = {key: value for key, value in vars(model).items() if key not in model.get_params(deep=False)}
    if "solutions_" not in fitted:
        raise _Refusal(f"This {name} is not fitted, so there is nothing to predict with; call fit first.")
    rules = _ATTRIBUTES[name]
    unknown = sorted(fitted.keys() - rules.keys() - _OPTIONAL.keys())
    if unknown:
        raise _Refusal(
            f"{name} has the attribute {shown(unknown[0])}, for which version {VERSION} of the format has no place; "
            f"remove it with delattr(model, {shown(unknown[0])})."
        )
    sizes: Sizes = {}
    for key, rule in (rules | {key: rule for key, rule in _OPTIONAL.items() if key in fitted}).items():
        if not sizes and key not in _SIZE_GIVING:
            sizes = _sizes(model)
        if key not in fitted:
            raise _Refusal(f"{name} lacks the attribute {key}, which every fitted one has; fit and save it again.")
        if not rule.holds(fitted[key], sizes):
            raise _Refusal(f"The attribute {key} of {name} is not {rule.words}; fit and save the model again.")
    _check_support(model)


def _check_fields(kind: str, fields: dict[str, Any]) -> None:
    for name, rule in _FIELDS[kind].items():
        if not rule.holds(fields[name], {}):
            raise _Refusal(f"The field {name} of a {kind} is not {rule.words}; fit and save the model again.")


def _sizes(model: Any) -> Sizes:
    """The sizes that the shapes of attributes are made of."""
    classes = int(model.classes_.size) if hasattr(model, "classes_") else 0
    pairwise = classes > 2 and getattr(model, "multi_class", "ovr") == "ovo"
    scores = classes * (classes - 1) // 2 if pairwise else classes if classes > 2 else 1
    problems = 1 if classes > 2 and getattr(model, "multi_class", "ovr") == "multinomial" else scores
    support = int(model.support_.size) if hasattr(model, "support_") else 0
    sizes = {"features": int(model.n_features_in_), "classes": classes, "support": support}
    stored = getattr(model, "kernel", None) != "precomputed"
    return sizes | {
        "problems": problems,
        "scores": scores,
        "rows": classes - 1 if pairwise and hasattr(model, "_support_codes") else problems,
        "slopes": 2 if pairwise or classes == 2 else min(classes, 1),
        "vectors": sizes["support"] if stored else 0,
        "columns": sizes["features"] if stored else 0,
    }


def _check_support(model: Any) -> None:
    """Refuse row numbers and class numbers that point outside of the data."""
    if not hasattr(model, "support_"):
        return
    rows = getattr(model, "shape_fit_", (math.inf, model.n_features_in_))
    inside = model.support_.size == 0 or (model.support_.min() >= 0 and model.support_.max() < rows[0])
    if not inside or rows[1] != model.n_features_in_:
        raise _Refusal("The row numbers support_ or the sizes shape_fit_ contradict the data; fit and save it again.")
    if hasattr(model, "_support_codes"):
        own = model._support_codes[None, :] == np.arange(model.classes_.size)[:, None]
        if not (np.array_equal(own.sum(axis=1), model._n_support) and own.any(axis=0).all()):
            raise _Refusal("n_support_ contradicts the classes of the support vectors; fit and save the model again.")


def _refuse_code(model: Any) -> None:
    """Refuse what only pickle could store, with the way around it."""
    if callable(getattr(model, "kernel", None)):
        raise _Refusal(
            "A callable kernel is code, and a model file holds data only; compute the kernel matrices yourself and fit "
            'with kernel="precomputed".'
        )
    if getattr(model, "callback", None) is not None:
        raise _Refusal(
            "The callback is code, and a model file holds data only; call set_params(callback=None) before saving."
        )
    if "_skl_callbacks" in getattr(model, "__dict__", {}):
        raise _Refusal("Callbacks are code, and a model file holds data only; call set_callbacks() before saving.")
    if isinstance(getattr(model, "random_state", None), np.random.RandomState):
        raise _Refusal(
            "random_state is a RandomState, whose next numbers a model file does not hold; call "
            "set_params(random_state=0), or another int or None, before saving."
        )


# --- Writing ---------------------------------------------------------------------------------------------------------


class _Encoder:
    """Turns a model into a JSON document and arrays. An object that occurs twice is stored once."""

    def __init__(self) -> None:
        self.members: dict[str, np.ndarray[Any, Any]] = {}
        self._seen: dict[int, tuple[Any, Any]] = {}  # the object too, so that its id stays its own

    def document(self, model: Any) -> dict[str, Any]:
        """Everything but the arrays."""
        parameters = model.get_params(deep=False)
        fitted = {name: value for name, value in vars(model).items() if name not in parameters}
        return {
            "format": FORMAT,
            "version": VERSION,
            "maxmargin": version("maxmargin"),
            "class": type(model).__name__,
            "parameters": {name: self.encode(value, name) for name, value in parameters.items()},
            "fitted": {name: self.encode(value, name) for name, value in fitted.items()},
        }

    def encode(self, value: Any, place: str) -> Any:
        """The JSON of a value; `place` says where it stands and names its arrays."""
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if isinstance(value, np.generic) and type(value.item()) in (bool, int, float, str):
            return {"scalar": value.dtype.str, "value": self.encode(value.item(), place)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if isinstance(value, Status):
            return {"Status": value.name}
        if value is None or type(value) in (bool, int, float, str):
            return value
        return self._encode_container(value, place)

    def _encode_container(self, value: Any, place: str) -> Any:
        kind = type(value).__name__
        if isinstance(value, np.ndarray):
            node = self._encode_array(value, place)
            self._seen[id(value)] = value, node
            return node
        if _RECORDS.get(kind) is type(value):
            return self._encode_record(value, place)
        if kind in _SPARSE:
            arrays = {name: self.encode(getattr(value, name), f"{place}.{name}") for name in _CSR_ARRAYS}
            return {kind: arrays, "shape": list(map(int, value.shape))}
        if type(value) is dict:
            pairs = enumerate(value.items())
            return {"dict": [[self.encode(k, place), self.encode(v, f"{place}.{i}")] for i, (k, v) in pairs]}
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{place}.{k}") for k, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        raise _Refusal(
            f"{place} is a {type(value).__module__}.{kind}, and a model file holds numbers, text and arrays only; "
            f"replace it by one of these before saving."
        )

    def _encode_record(self, value: Any, place: str) -> dict[str, Any]:
        kind = type(value).__name__
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        _check_fields(kind, fields)
        node: dict[str, Any] = {kind: {name: self.encode(item, f"{place}.{name}") for name, item in fields.items()}}
        if kind != "Solution":
            return node
        self._seen[id(value)] = value, {"same": place}
        return node | {"place": place}

    def _encode_array(self, value: np.ndarray[Any, Any], place: str) -> dict[str, Any]:
        node: dict[str, Any] = {"array": f"{place}.npy"}
        stored = value
        if value.dtype.kind == "O":
            stored = np.array(value.tolist(), dtype=np.str_)
            node["object"] = True
            if stored.shape != value.shape or not all(map(_same_text, stored.flat, value.flat)):
                raise _Refusal(
                    f"{place} holds objects that are not plain text (or text that ends in NUL); use str, int or float."
                )
        if not _DTYPE.fullmatch(stored.dtype.str):
            raise _Refusal(f"{place} has dtype {value.dtype}, but bool, int, float and str are allowed; convert it.")
        self.members[node["array"]] = stored
        return node | {"dtype": stored.dtype.str, "shape": list(stored.shape)}


def _same_text(stored: Any, value: Any) -> bool:
    return type(value) is str and str(stored) == value


def _write_atomically(path: PathLike, document: bytes, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    target = Path(os.path.realpath(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise ModelFileError(path, "This is a directory or a device, not a file; give the path of a file.")
    temporary = target.parent / f".maxmargin-{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                _add(archive, _DOCUMENT, document)
                for name, array in arrays.items():
                    raw = io.BytesIO()
                    np.lib.format.write_array(raw, array, version=(1, 0), allow_pickle=False)
                    _add(archive, name, raw.getvalue())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, name: str, raw: bytes) -> None:
    entry = zipfile.ZipInfo(name)  # dated 1980: the same model gives the same file
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, raw, compresslevel=1)


# --- Reading ---------------------------------------------------------------------------------------------------------


def _open_archive(path: PathLike) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise _Refusal("There is no such file; check the path.") from error
    except IsADirectoryError as error:
        raise _Refusal("This is a directory; give the path of one model file.") from error
    except PermissionError as error:
        raise _Refusal(f"The file cannot be read ({error.strerror}); check its permissions.") from error
    except _UNZIP_FAULTS as error:
        raise _Refusal(
            "This is not a model file, or only the beginning of one: its table of contents is missing or damaged; "
            "copy it again, or make it with maxmargin.io.save_model."
        ) from error


def _members(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, if each has a harmless name and all together are small enough."""
    members: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.orig_filename
        if name in members:
            raise _Refusal(f"The member {shown(name)} occurs twice, but each may occur once; save the model again.")
        if name != _DOCUMENT and not _MEMBER_NAME.fullmatch(name):
            raise _Refusal(f"The member name {shown(name)} is not one that a model file has; save the model again.")
        if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _Refusal(f"The member {shown(name)} is encrypted or packed in an unknown way; save the model again.")
        members[name] = entry
    if _DOCUMENT not in members:
        raise _Refusal(f"The member {_DOCUMENT} is missing, so this is not a model file; check the path.")
    if members[_DOCUMENT].file_size > MAX_DOCUMENT_BYTES:
        raise _Refusal(f"{_DOCUMENT} has more than {MAX_DOCUMENT_BYTES} bytes, the most allowed; save the model again.")
    total = sum(entry.file_size for entry in members.values())
    if total > max_bytes:
        raise _Refusal(f"The file unpacks to {total} bytes, more than {max_bytes}; pass max_bytes if you trust it.")
    return members


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, never more than announced."""
    try:
        with archive.open(entry) as stream:
            raw = stream.read(entry.file_size)
    except _UNZIP_FAULTS as error:
        raise _Refusal(f"The member {shown(entry.filename)} is damaged ({error}); copy the file again.") from error
    if len(raw) != entry.file_size:
        raise _Refusal(f"The member {shown(entry.filename)} is shorter than announced; copy the file again.")
    return raw


def _parse(raw: bytes) -> dict[str, Any]:
    """The document, if it is strict JSON of the version that this code knows."""
    try:
        document = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except ValueError as error:
        raise _Refusal(f"{_DOCUMENT} is not valid ({error}); save the model again.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _Refusal(f'{_DOCUMENT} does not say "format": "{FORMAT}", so this is not a model file; check the path.')
    found = document.get("version")
    if not _is_whole(found) or found != VERSION:
        raise _Refusal(
            f"The file has version {shown(str(found))} of the format, but maxmargin {version('maxmargin')} reads "
            f"version {VERSION}; update maxmargin, or save the model with this one."
        )
    expected = {"format", "version", "maxmargin", "class", "parameters", "fitted"}
    if document.keys() != expected:
        raise _Refusal(f"{_DOCUMENT} must have the keys {', '.join(sorted(expected))}; save the model again.")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._records: dict[str, Any] = {}  # by the place where they stand
        self._decoders: dict[str, Callable[[dict[str, Any]], Any]] = {
            "array": self._decode_array,
            "scalar": self._decode_scalar,
            "float": self._decode_float,
            "Status": self._decode_status,
            "same": self._decode_same,
            "dict": self._decode_dict,
            "tuple": lambda node: tuple(map(self.decode, _items(node, "tuple"))),
            **dict.fromkeys(_RECORDS, self._decode_record),
            **dict.fromkeys(_SPARSE, self._decode_sparse),
        }

    def model(self, document: dict[str, Any]) -> Any:
        """The estimator of a document."""
        name = document["class"]
        if not isinstance(name, str) or name not in _ATTRIBUTES or name not in _CLASSES:
            raise _Refusal(
                f"The file holds a {shown(str(name))}, but only {', '.join(_ATTRIBUTES)} can be restored; update "
                f"maxmargin, or save one of these."
            )
        if not isinstance(document["parameters"], dict) or not isinstance(document["fitted"], dict):
            raise _Refusal(f"The parameters and attributes in {_DOCUMENT} are not objects; save the model again.")
        model = self._build(name, {key: self.decode(node) for key, node in document["parameters"].items()})
        for key, node in document["fitted"].items():
            if key in vars(model) or (key not in _ATTRIBUTES[name] and key not in _OPTIONAL):
                raise _Refusal(f"{name} has no fitted attribute {shown(key)}; update maxmargin, or save it again.")
            setattr(model, key, self.decode(node))
        unused = sorted(self.members.keys() - self._arrays.keys() - {_DOCUMENT})
        if unused:
            raise _Refusal(f"The member {shown(unused[0])} belongs to no attribute; save the model again.")
        check_model(model)
        return model

    def _build(self, name: str, parameters: dict[str, Any]) -> Any:
        """An estimator with checked parameters; one that the file does not have keeps its default."""
        model = _CLASSES[name]()
        unknown = sorted(parameters.keys() - model.get_params(deep=False).keys())
        if unknown:
            raise _Refusal(f"{name} has no parameter {shown(unknown[0])}; update maxmargin, or save the model again.")
        if any(_is_nan(value) for value in parameters.values()):
            raise _Refusal("A parameter is NaN, but each must be a number; save the model again.")
        model.set_params(**parameters)
        try:
            model._validate_params()
        except ValueError as error:
            raise _Refusal(f"{error} Save the model again.") from error
        return model

    def decode(self, node: Any) -> Any:
        """The value of a piece of JSON."""
        if isinstance(node, list):
            return list(map(self.decode, node))
        if not isinstance(node, dict):
            return node
        tag = next(iter(node), "")
        if tag not in self._decoders:
            raise _Refusal(f"{shown(tag)} is not a kind of value that a model file holds; save the model again.")
        return self._decoders[tag](node)

    def _decode_array(self, node: dict[str, Any]) -> np.ndarray[Any, Any]:
        _expect_keys(node, {"array", "dtype", "shape"}, {"object"})
        name, dtype, shape = node["array"], node["dtype"], node["shape"]
        if not isinstance(name, str) or name not in self.members or name == _DOCUMENT:
            raise _Refusal(f"The array {shown(str(name))} is missing in the file; copy or save it again.")
        if name not in self._arrays:
            if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
                raise _Refusal(f"{name} has dtype {shown(str(dtype))}, but bool, int, float or str are allowed.")
            if not isinstance(shape, list) or len(shape) > 2 or not _are_sizes(shape):
                raise _Refusal(f"{name} has the shape {shown(str(shape))}, but at most 2 sizes from 0 on are allowed.")
            array = self._load(name, dtype, tuple(shape))
            if node.get("object", False) is True and array.dtype.kind == "U":
                array = array.astype(object)
            self._arrays[name] = array
        return self._arrays[name]

    def _load(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
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
            array: np.ndarray[Any, Any] = np.load(stream, allow_pickle=False)
        except (ValueError, TypeError, EOFError, OSError, UserWarning, SyntaxError, MemoryError) as error:
            raise _Refusal(
                f"The member {name} is not the array {dtype} of shape {shape} that {_DOCUMENT} announces ({error}); "
                f"copy or save the file again."
            ) from error
        return array

    def _decode_sparse(self, node: dict[str, Any]) -> Any:
        kind = next(iter(node))
        _expect_keys(node, {kind, "shape"})
        _expect_keys(node[kind], set(_CSR_ARRAYS))
        arrays = tuple(self.decode(node[kind][name]) for name in _CSR_ARRAYS)
        try:
            matrix = _SPARSE[kind](arrays, shape=tuple(node["shape"]))
            matrix.check_format(full_check=True)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise _Refusal(f"A sparse matrix is inconsistent ({error}); copy or save the file again.") from error
        return matrix

    def _decode_record(self, node: dict[str, Any]) -> Any:
        kind = next(iter(node))
        _expect_keys(node, {kind}, {"place"})
        _expect_keys(node[kind], set(_FIELDS[kind]))
        fields = {name: self.decode(item) for name, item in node[kind].items()}
        _check_fields(kind, fields)
        record = _RECORDS[kind](**fields)
        if "place" in node:
            self._records[str(node["place"])] = record
        return record

    def _decode_dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        pairs = _items(node, "dict")
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise _Refusal("A dictionary is not written as pairs of a key and a value; save the model again.")
        decoded = [(self.decode(key), self.decode(value)) for key, value in pairs]
        if not all(isinstance(key, bool | int | float | str | np.generic) for key, _ in decoded):
            raise _Refusal("A key of a dictionary is neither a number nor text; save the model again.")
        return dict(decoded)

    def _decode_same(self, node: dict[str, Any]) -> Any:
        _expect_keys(node, {"same"})
        if str(node["same"]) not in self._records:
            raise _Refusal(f"The file refers to {shown(str(node['same']))}, which it does not hold; save it again.")
        return self._records[str(node["same"])]

    def _decode_status(self, node: dict[str, Any]) -> Status:
        _expect_keys(node, {"Status"})
        if str(node["Status"]) not in Status.__members__:
            raise _Refusal(f"{shown(str(node['Status']))} is not a status; update maxmargin, or save the model again.")
        return Status[str(node["Status"])]

    def _decode_float(self, node: dict[str, Any]) -> float:
        _expect_keys(node, {"float"})
        if node["float"] not in ("inf", "-inf", "nan"):
            raise _Refusal(f"{shown(str(node['float']))} is not inf, -inf or nan; save the model again.")
        return float(node["float"])

    def _decode_scalar(self, node: dict[str, Any]) -> Any:
        _expect_keys(node, {"scalar", "value"})
        value = self.decode(node["value"])
        if not isinstance(node["scalar"], str) or not _DTYPE.fullmatch(node["scalar"]):
            raise _Refusal(f"{shown(str(node['scalar']))} is not the type of a number; save the model again.")
        try:
            scalar = np.array(value, dtype=node["scalar"])[()]
            exact = isinstance(value, bool | int | float | str) and (scalar == value or _is_nan(value))
        except (ValueError, TypeError, OverflowError, MemoryError):
            exact = False
        if not exact:
            raise _Refusal(f"{shown(str(value))} is not a value of type {node['scalar']}; save the model again.")
        return scalar


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and math.isnan(value)


def _items(node: dict[str, Any], tag: str) -> list[Any]:
    _expect_keys(node, {tag})
    if not isinstance(node[tag], list):
        raise _Refusal(f"A {tag} is not written as a list; save the model again.")
    return node[tag]


def _expect_keys(node: Any, required: set[str], optional: Iterable[str] = ()) -> None:
    if not isinstance(node, dict) or not required <= node.keys() <= required | set(optional):
        raise _Refusal(f"A value must have exactly the keys {', '.join(sorted(required))}; save the model again.")
