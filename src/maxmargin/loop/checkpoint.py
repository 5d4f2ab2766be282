"""Checkpoints: what a fit needs to go on after it was killed, in one file for each client.

A file is a plain ``.npz`` archive of numbers, and nothing in it is ever unpickled. It is written beside its place, and
moved there when all clients have written theirs, so that it is whole or absent. They are moved at almost the same
moment; each client keeps the one before too, so that there is always one that all have. What some client has beyond
that belongs to a course of the fit that nobody goes on with, and is dropped.
"""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
import zlib
from contextlib import suppress
from dataclasses import fields
from tokenize import TokenError
from typing import Any

import numpy as np

from maxmargin.communicators.agreement import allgather_texts
from maxmargin.operators.gram import Gram
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Communicator, Float, Operator
from maxmargin.wording import shown

NUMBER, CHECKSUM, ROWS = "number", "checksum", "rows"
LOOKED_AT = 8  # columns of a kernel matrix, each of which sees all samples
DAMAGE = (
    OSError, EOFError, KeyError, ValueError, OverflowError, SyntaxError, MemoryError, NotImplementedError, TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
SAME_ROWS = 1e-6  # relative to each sum: other processors round otherwise, and other rows are far away


class Checkpoints:
    """The checkpoints of one client: ``path.rank``, and ``path.rank.before`` until the next one."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        problem: Any,
        solver: object,
        communicator: Communicator,
        notes: list[str] | None = None,
    ) -> None:
        self.path = f"{os.fspath(path)}.{communicator.rank}"
        folder = os.path.dirname(self.path) or "."
        if not os.path.isdir(folder):
            raise ValueError(
                f"The folder {folder} of the checkpoint does not exist; create it, or choose another path."
            )
        self.communicator = communicator
        self.number = 0
        self.notes = [] if notes is None else notes
        rows = getattr(problem, "operator", None)
        self.fingerprint = {
            "rank": np.array(communicator.rank),
            "size": np.array(communicator.size),
            "n_samples": np.array(getattr(rows, "n_samples", 0)),
            "n_features": np.array(getattr(rows, "n_features", 0)),
            "digest": digest(_described(problem, solver)),
            ROWS: _sums_of_rows(problem),
        }

    @property
    def paths(self) -> tuple[str, str]:
        """Of the last one, and of the one before."""
        return self.path, f"{self.path}.before"

    def save(self, arrays: dict[str, Array]) -> None:
        """Write the next checkpoint; the last one becomes the one before. All clients do, or none with a warning."""
        content = {**arrays, **self.fingerprint, NUMBER: np.array(self.number + 1)}
        reason = next(filter(None, allgather_texts(self.communicator, self._written(content))), "")
        if not reason:
            self.number += 1
            last, before = self.paths
            if os.path.exists(last):
                os.replace(last, before)
            os.replace(self._unfinished, last)
        else:
            _remove(self._unfinished)
            note = f"A checkpoint could not be written ({reason})."
            if note not in self.notes:
                self.notes.append(note)
                warnings.warn(f"{note} The fit goes on without it.", stacklevel=3)

    @property
    def _unfinished(self) -> str:
        return f"{self.path}.new"

    def _written(self, content: dict[str, Array]) -> str:
        """Write a file beside its place; why that failed, if it did."""
        try:
            with open(self._unfinished, "wb") as file:
                np.savez(file, allow_pickle=False, **content, **{CHECKSUM: digest(content)})
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return f"{error.strerror or error}: {self._unfinished}"
        return ""

    def latest(self) -> dict[str, Array] | None:
        """The newest checkpoint that all clients have; ``None`` if there is none.

        Raises
        ------
        ValueError
            If a file of some client is not whole, or belongs to another fit.

        """
        found: dict[int, dict[str, Array]] = {}
        error: ValueError | None = None
        for path in self.paths:
            if os.path.exists(path):
                try:
                    arrays = self._read(path)
                    found[int(arrays[NUMBER])] = arrays
                except ValueError as reason:
                    error = reason
        numbers = [*sorted(found), 0, 0][:2] if error is None else [-1, -1]
        everybody = self.communicator.allgather(np.array(numbers, dtype=np.float64)).astype(int)
        if error is not None:
            raise error
        wrong = np.flatnonzero(everybody[:, 0] < 0).tolist()
        if wrong:
            raise ValueError(f"The checkpoint of client {wrong[0]} does not belong to this fit or is not whole.")
        common = set.intersection(*({number for number in row if number > 0} for row in everybody.tolist()))
        self.number = max(common, default=0)
        if not common:
            if (everybody > 0).any():
                self.notes.append("Some clients had a checkpoint, but there was none that all had: the fit began anew.")
            return None
        last, before = self.paths
        if self.number < max(found):  # others do not have the last one
            os.replace(before, last)
        return found[self.number]

    def remove(self) -> None:
        """Remove the files: the fit has ended."""
        for path in (*self.paths, self._unfinished):
            _remove(path)

    def _read(self, path: str) -> dict[str, Array]:
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive)
            if strange := next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None):
                raise ValueError(f"{shown(strange)} is no array")  # numpy returns the bytes of such members
            checksum = arrays.pop(CHECKSUM)
            if not np.array_equal(checksum, digest(arrays)):
                raise ValueError("its checksum is another one")
        except DAMAGE as error:
            raise ValueError(
                f"{path} is not a whole checkpoint ({error}): it was cut short or changed. Remove it to start anew."
            ) from error
        for name, expected in self.fingerprint.items():
            there = arrays.get(name)
            if there is None or not (_same_sums(there, expected) if name == ROWS else np.array_equal(there, expected)):
                what = {
                    "digest": "its labels, weights, bounds or options are other ones",
                    ROWS: "its rows are other ones",
                }.get(name, f"{name} is {there} there and {expected} here")
                raise ValueError(f"{path} is a checkpoint of another fit: {what}. Remove it, or choose another path.")
        return arrays


def arrays_of(point: Point) -> dict[str, Array]:
    """A point as arrays."""
    dual = {} if point.alpha is None else {"alpha": point.alpha}
    return {"w": point.w, "b": np.array(point.b), **dual}


def point_of(arrays: dict[str, Array]) -> Point:
    """A point from its arrays."""
    return Point(arrays["w"], float(arrays["b"]), arrays.get("alpha"))


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path)


def _sums_of_rows(problem: Any) -> Float:
    """Sums over the rows of this client, each row times a random number: other rows, or another order, have others."""
    rng = np.random.default_rng(0)
    sums = [np.zeros(0)]
    for part in fields(problem):
        operator = getattr(problem, part.name)
        if isinstance(operator, Operator):
            weights = rng.standard_normal(operator.n_samples)
            if isinstance(operator, Gram):
                some = rng.integers(operator.n_samples, size=min(LOOKED_AT, operator.n_samples))
                sums.append(operator.block(some) @ weights)
            else:
                sums.append(getattr(operator, "rows", operator).adjoint(weights))
    return np.concatenate(sums)


def _same_sums(there: Array, here: Float) -> bool:
    return there.shape == here.shape and bool(np.allclose(there, here, rtol=SAME_ROWS, atol=0.0, equal_nan=True))


def _described(problem: Any, solver: Any) -> dict[str, Array]:
    """What tells problems and solvers apart, but for the rows."""
    parts = {"solver": np.array(repr(solver))}
    for part in fields(problem):
        value = getattr(problem, part.name)
        if isinstance(value, np.ndarray):
            parts[part.name] = value
        elif not isinstance(value, Operator):
            parts[part.name] = np.array(repr(value))
    return parts


def digest(arrays: dict[str, Array]) -> Array:
    """A hash of arrays with their names, types and shapes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {arrays[name].shape}".encode())
        total.update(array.tobytes())
    return np.frombuffer(total.digest(), dtype=np.uint8)
