"""Checkpoints: what a fit needs to go on after it was killed, in one file for each client.

A file is a plain ``.npz`` archive of numbers, and nothing in it is ever unpickled. It is written beside its place and
then moved there, so that it is whole or absent. Clients write the same checkpoints but not at the same moment; each
keeps the one before too, so that there is always one that all have.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import fields
from typing import Any

import numpy as np

from maxmargin.protocols import Array, Communicator, Operator

NUMBER, CHECKSUM = "number", "checksum"


class Checkpoints:
    """The checkpoints of one client: ``path.rank``, and ``path.rank.before`` until the next one."""

    def __init__(self, path: str | os.PathLike[str], problem: Any, solver: Any, communicator: Communicator) -> None:
        self.path = f"{os.fspath(path)}.{communicator.rank}"
        folder = os.path.dirname(self.path) or "."
        if not os.path.isdir(folder):
            raise ValueError(
                f"The folder {folder} of the checkpoint does not exist; create it, or choose another path."
            )
        self.communicator = communicator
        self.number = 0
        rows = getattr(problem, "operator", None)
        self.fingerprint = {
            "rank": np.array(communicator.rank),
            "size": np.array(communicator.size),
            "n_samples": np.array(getattr(rows, "n_samples", 0)),
            "n_features": np.array(getattr(rows, "n_features", 0)),
            "digest": _digest(_described(problem, solver)),
        }

    @property
    def paths(self) -> tuple[str, str]:
        """Of the last one, and of the one before."""
        return self.path, f"{self.path}.before"

    def save(self, arrays: dict[str, Array]) -> None:
        """Write the next checkpoint; the last one becomes the one before."""
        self.number += 1
        content = {**arrays, **self.fingerprint, NUMBER: np.array(self.number)}
        unfinished = f"{self.path}.new"
        with open(unfinished, "wb") as file:
            np.savez(file, allow_pickle=False, **content, **{CHECKSUM: _digest(content)})
            file.flush()
            os.fsync(file.fileno())
        last, before = self.paths
        if os.path.exists(last):
            os.replace(last, before)
        os.replace(unfinished, last)

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
        return found[self.number] if common else None

    def remove(self) -> None:
        """Remove the files: the fit has ended."""
        for path in self.paths:
            if os.path.exists(path):
                os.remove(path)

    def _read(self, path: str) -> dict[str, Array]:
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive)
            checksum = arrays.pop(CHECKSUM)
            if not np.array_equal(checksum, _digest(arrays)):
                raise ValueError("its checksum is another one")
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
            raise ValueError(
                f"{path} is not a whole checkpoint ({error}): it was cut short or changed. Remove it to start anew."
            ) from error
        for name, expected in self.fingerprint.items():
            if name not in arrays or not np.array_equal(arrays[name], expected):
                here = f"{name} is {arrays.get(name)} there and {expected} here"
                what = "its labels, bounds or options are other ones" if name == "digest" else here
                raise ValueError(f"{path} is a checkpoint of another fit: {what}. Remove it, or choose another path.")
        return arrays


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


def _digest(arrays: dict[str, Array]) -> Array:
    """A hash of arrays with their names, types and shapes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {arrays[name].shape}".encode())
        total.update(array.tobytes())
    return np.frombuffer(total.digest(), dtype=np.uint8)
