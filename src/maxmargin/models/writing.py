"""Writing a model: a zip archive with one JSON document and one .npy member per array, never any code."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

from maxmargin.loop.solution import Record, Solution
from maxmargin.models.format import (
    CSR_ARRAYS,
    DOCUMENT,
    DTYPE,
    FORMAT,
    MAX_DOCUMENT_BYTES,
    SCALING,
    VERSION,
    Json,
    ModelFileError,
    Refusal,
)
from maxmargin.models.rules import check_fields, check_model, fitted_attributes
from maxmargin.models.scaling import check_scaler, parts_of
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.protocols import Array
from maxmargin.wording import PathLike


def save_model(model: BaseEstimator, path: PathLike) -> None:
    """Store a fitted model in a file that holds data only, no code.

    The file appears complete or not at all: it is written under another name in the same directory and then renamed.

    Parameters
    ----------
    model : estimator
        A fitted estimator of maxmargin, such as `SVC` or `SVR`, or a pipeline of ``StandardScaler`` and one of these.
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
        scaler, model = parts_of(model)
        _refuse_code(model)
        check_model(model)
        if scaler is not None:
            check_scaler(scaler, model)
        writer = _Encoder()
        text = json.dumps(writer.document(model, scaler), allow_nan=False).encode()
        if len(text) > MAX_DOCUMENT_BYTES:
            raise Refusal(
                f"The history of the fit takes {len(text)} bytes, and a file holds at most {MAX_DOCUMENT_BYTES}; "
                f"shorten it with dataclasses.replace(solution, history=()) in solutions_ and solution_."
            )
    except Refusal as refusal:
        raise ModelFileError(path, str(refusal)) from refusal.__cause__
    _write_atomically(path, text, writer.members)


def _refuse_code(model: BaseEstimator) -> None:
    """Refuse what only pickle could store, with the way around it."""
    if callable(getattr(model, "kernel", None)):
        raise Refusal(
            "A callable kernel is code, and a model file holds data only; compute the kernel matrices yourself and fit "
            'with kernel="precomputed".'
        )
    if getattr(model, "callback", None) is not None:
        raise Refusal(
            "The callback is code, and a model file holds data only; call set_params(callback=None) before saving."
        )
    if "_skl_callbacks" in getattr(model, "__dict__", {}):
        raise Refusal("Callbacks are code, and a model file holds data only; call set_callbacks() before saving.")
    if isinstance(getattr(model, "random_state", None), np.random.RandomState):
        raise Refusal(
            "random_state is a RandomState, whose next numbers a model file does not hold; call "
            "set_params(random_state=0), or another int or None, before saving."
        )


class _Encoder:
    """Turns a model into a JSON document and arrays. An object that occurs twice is stored once."""

    def __init__(self) -> None:
        self.members: dict[str, Array] = {}
        self._seen: dict[int, tuple[object, Json]] = {}  # the object too, so that its id stays its own

    def document(self, model: BaseEstimator, scaler: StandardScaler | None) -> dict[str, Json]:
        """Everything but the arrays."""
        parameters = model.get_params(deep=False)
        fitted = fitted_attributes(model)
        scaling = {}
        if scaler is not None:
            parts = {"mean": scaler.mean_ if scaler.with_mean else None, "scale": scaler.scale_}
            scaling = {SCALING: {name: self.encode(value, f"scaling.{name}") for name, value in parts.items()}}
        return {
            "format": FORMAT,
            "version": VERSION,
            "maxmargin": version("maxmargin"),
            "class": type(model).__name__,
            "parameters": {name: self.encode(value, name) for name, value in parameters.items()},
            "fitted": {name: self.encode(value, name) for name, value in fitted.items()},
            **scaling,
        }

    def encode(self, value: object, place: str) -> Json:
        """The JSON of a value; `place` says where it stands and names its arrays."""
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if isinstance(value, np.generic) and type(value.item()) in (bool, int, float, str):
            return {"scalar": value.dtype.str, "value": self.encode(value.item(), place)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if isinstance(value, Status):
            return {"Status": value.name}
        if value is None or (isinstance(value, bool | int | float | str) and type(value) in (bool, int, float, str)):
            return value
        return self._encode_container(value, place)

    def _encode_container(self, value: object, place: str) -> Json:
        kind = type(value).__name__
        if isinstance(value, np.ndarray):
            node = self._encode_array(value, place)
            self._seen[id(value)] = value, node
            return node
        if isinstance(value, Solution | Point | Certificate | Record):
            return self._encode_record(value, place)
        if isinstance(value, sparse.csr_matrix | sparse.csr_array):
            arrays = {name: self.encode(getattr(value, name), f"{place}.{name}") for name in CSR_ARRAYS}
            return {kind: arrays, "shape": list(map(int, value.shape))}
        if isinstance(value, dict) and type(value) is dict:
            pairs = enumerate(value.items())
            return {"dict": [[self.encode(k, place), self.encode(v, f"{place}.{i}")] for i, (k, v) in pairs]}
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            items = [self.encode(item, f"{place}.{k}") for k, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        raise Refusal(
            f"{place} is a {type(value).__module__}.{kind}, and a model file holds numbers, text and arrays only; "
            f"replace it by one of these before saving."
        )

    def _encode_record(self, value: Solution | Point | Certificate | Record, place: str) -> dict[str, Json]:
        kind = type(value).__name__
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        check_fields(kind, fields)
        node: dict[str, Json] = {kind: {name: self.encode(item, f"{place}.{name}") for name, item in fields.items()}}
        if kind != "Solution":
            return node
        self._seen[id(value)] = value, {"same": place}
        return node | {"place": place}

    def _encode_array(self, value: Array, place: str) -> dict[str, Json]:
        name = f"{place}.npy"
        node: dict[str, Json] = {"array": name}
        stored = value
        if value.dtype.kind == "O":
            stored = np.array(value.tolist(), dtype=np.str_)
            node["object"] = True
            if stored.shape != value.shape or not all(map(_same_text, stored.flat, value.flat)):
                raise Refusal(
                    f"{place} holds objects that are not plain text (or text that ends in NUL); use str, int or float."
                )
        if not DTYPE.fullmatch(stored.dtype.str):
            raise Refusal(f"{place} has dtype {value.dtype}, but bool, int, float and str are allowed; convert it.")
        self.members[name] = stored
        return node | {"dtype": stored.dtype.str, "shape": list(stored.shape)}


def _same_text(stored: object, value: object) -> bool:
    return type(value) is str and str(stored) == value


def _write_atomically(path: PathLike, document: bytes, arrays: Mapping[str, Array]) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise ModelFileError(path, "This is a directory or a device, not a file; give the path of a file.")
    with replaced_when_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        _add(archive, DOCUMENT, document)
        for name, array in arrays.items():
            raw = io.BytesIO()
            np.lib.format.write_array(raw, array, version=(1, 0), allow_pickle=False)
            _add(archive, name, raw.getvalue())


@contextmanager
def replaced_when_whole(path: PathLike) -> Iterator[IO[bytes]]:
    """A file that takes its place when all of it is on the disk; until then, and if that fails, the old one stays.

    Raises
    ------
    ModelFileError
        OSError
        The file cannot be written.

    """
    target = Path(os.path.realpath(path))
    temporary = target.parent / f".maxmargin-{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
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
