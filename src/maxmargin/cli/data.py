"""The data of a command: rows from a file, with the columns that a model knows."""

from __future__ import annotations

import argparse
import os
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.cli.kinds import Model, classes_of
from maxmargin.cli.output import CommandError
from maxmargin.io import load_model, open_chunks, read_csv, read_data
from maxmargin.io.chunks import is_text
from maxmargin.io.csv import TARGET_NAMES
from maxmargin.io.textfile import ColumnsUnknown
from maxmargin.models.scaling import parts_of
from maxmargin.operators import ChunkedMatrix
from maxmargin.protocols import Array, Float


class Rows(NamedTuple):
    """Samples for a model; `y` is None if the file has no labels."""

    X: Float | sparse.csr_array[np.float64] | ChunkedMatrix
    y: Array | None
    names: list[str] | None


def read_rows(arguments: argparse.Namespace, n_features: int | None) -> Rows:
    """The rows of a file, in memory or chunk by chunk."""
    if arguments.stream:
        return _open_rows(arguments, n_features)
    data = read_data(
        arguments.data,
        target=arguments.target,
        n_features=n_features,
        format=arguments.format,
        zero_based=arguments.zero_based,
    )
    return Rows(data.X, whole_labels(data.y), data.feature_names)


def _open_rows(arguments: argparse.Namespace, n_features: int | None) -> Rows:
    """Rows that are read chunk by chunk."""
    if arguments.format == "csv":
        raise CommandError("--stream does not read CSV files; convert the data to Parquet or LIBSVM.")
    data = open_chunks(arguments.data, target=arguments.target, n_features=n_features, zero_based=arguments.zero_based)
    return Rows(data.X, None if data.y is None else whole_labels(data.y), data.X.feature_names)


def model_and_rows(arguments: argparse.Namespace) -> tuple[Model, Rows]:
    """A model from a file, and rows with the columns that it was trained on, scaled if it was trained so."""
    scaler, model = parts_of(load_model(arguments.model))
    if not hasattr(model, "predict"):
        raise CommandError(
            f"{arguments.model}: {type(model).__name__} does not predict, and the command line is for models that do; "
            f"in Python, maxmargin.io.load_model reads it."
        )
    model, rows = _rows_of(model, arguments)
    if scaler is not None:
        if isinstance(rows.X, ChunkedMatrix):
            raise CommandError(f"{arguments.model}: The model was trained with --scale, which --stream cannot do.")
        rows = rows._replace(X=scaler.transform(rows.X))
    return model, rows


def weights_of(arguments: argparse.Namespace, n_samples: int) -> Float | None:
    """The weights of the samples, if there is a file with them."""
    path = arguments.weights
    if path is None:
        return None
    try:
        is_binary = str(path).endswith(".npy")
        weights = np.load(path, allow_pickle=False) if is_binary else np.loadtxt(path, ndmin=1, dtype=np.float64)
    except FileNotFoundError:
        raise CommandError(f"{path}: There is no such file; check the path.") from None
    except (ValueError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())[:80]
        raise CommandError(f"{path}: This is no list of weights ({reason}); write a number in each line.") from error
    if weights.shape != (n_samples,):
        raise CommandError(f"{path}: There are {weights.size} weights, but {n_samples} samples; give one for each.")
    return np.asarray(weights, dtype=np.float64)


def _rows_of(model: Model, arguments: argparse.Namespace) -> tuple[Model, Rows]:
    expected = model.n_features_in_
    if arguments.stream:
        return model, _open_rows(arguments, expected if is_text(arguments.data) else None)
    try:
        rows = read_rows(arguments, None)
    except ColumnsUnknown:
        rows = read_rows(arguments, expected)
    found = rows.X.shape[1]
    if isinstance(rows.X, sparse.csr_array) and found < expected:
        X, shape = rows.X, (rows.X.shape[0], expected)  # the last columns are zero in all rows of this file
        rows = rows._replace(X=sparse.csr_array((X.data, X.indices, X.indptr), shape=shape))
    elif found == expected - 1 and arguments.target is None:
        rows = _read_unlabelled(arguments.data, rows)
    rows = _in_the_order_of(model, rows, arguments.data)
    if rows.X.shape[1] != expected:
        raise CommandError(
            f"{arguments.data}: There are {found} features, but the model was trained on {expected}; pass data with "
            f"the same columns."
        )
    return model, dense(rows) if getattr(model, "kernel", "") == "precomputed" else rows


def _read_unlabelled(path: str, labelled: Rows) -> Rows:
    """The rows of a CSV file without a target column, if the name of none of its columns says that it is the target."""
    table = read_csv(path, target=0)
    header = None if table.target_name is None else [table.target_name, *(table.feature_names or [])]
    if table.y.dtype.kind != "f" or (header and any(name.lower() in TARGET_NAMES for name in header)):
        return labelled
    return Rows(np.column_stack([table.y, table.X]), None, header)


def _in_the_order_of(model: Model, rows: Rows, path: str) -> Rows:
    """Columns sorted as in the training data, if both have names."""
    known = getattr(model, "feature_names_in_", None)
    if known is None or rows.names is None or isinstance(rows.X, ChunkedMatrix):
        return rows
    missing = [name for name in known if name not in rows.names]
    if missing:
        raise CommandError(f"{path}: The column {missing[0]!r} of the training data is missing; add it.")
    if len(rows.names) > len(known):
        extra = next(name for name in rows.names if name not in set(known))
        raise CommandError(f"{path}: The column {extra!r} was not in the training data; remove it.")
    return rows._replace(X=rows.X[:, [rows.names.index(name) for name in known]], names=list(known))


def dense(rows: Rows) -> Rows:
    """The same rows as an array, which a precomputed kernel has to be."""
    return rows._replace(X=rows.X.toarray()) if isinstance(rows.X, sparse.csr_array) else rows


def whole_labels(y: Array) -> Array:
    """Labels such as 1.0 as whole numbers, which is how people write them."""
    whole = y.dtype.kind == "f" and bool((np.abs(y) < 2.0**53).all() and (y == np.trunc(y)).all())
    return y.astype(np.int64) if whole else y


def has_known_labels(model: Model, y: Array | None) -> bool:
    """Whether some label of the data is a class of the model, or a number if the model predicts quantities."""
    classes = classes_of(model)
    if y is None or classes is None:
        return y is not None and y.dtype.kind in "fiu"
    if (classes.dtype.kind in "UO") != (y.dtype.kind in "UO"):
        return False
    return bool(np.isin(y, classes.astype(y.dtype)).any())


def check_output(target: Path, *inputs: str) -> None:
    """Find out before any work whether a file can be written, and that it is none of the inputs."""
    if target.is_dir() or (target.exists() and not os.access(target, os.W_OK)):
        raise CommandError(f"{target}: This is a directory or a protected file; give the path of a new file.")
    if target.exists() and any(Path(name).exists() and target.samefile(name) for name in inputs):
        raise CommandError(f"{target}: This file is also an input, which would be lost; give another path.")
    if target.exists() and not target.is_file():  # a device or a pipe
        return
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise CommandError(f"{target}: No file can be written there ({error.strerror}); give another path.") from error


def refuse_to_overwrite_data(target: Path) -> None:
    """Refuse to replace a file that is no model: the arguments were probably mixed up."""
    is_empty = target.is_file() and target.stat().st_size == 0
    if target.exists() and not is_empty and not (target.is_file() and zipfile.is_zipfile(target)):
        raise CommandError(f"{target}: The file exists and is not a model; remove it, or give another path for MODEL.")
