"""What the files of models share: their names, their limits, and the error for those that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import sparse

from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certificate, Point
from maxmargin.wording import FileError

FORMAT = "maxmargin model"
VERSION = 1
MAX_DOCUMENT_BYTES = 2**28
# What a file may promise to unpack to, unless its reader allows more: so many bytes, and so many times its own size.
# Deflate can promise a thousandfold; documents of long histories shrink to a twentieth, coefficients hardly at all.
FREE_BYTES, MAX_RATIO = 2**28, 100
FREE_DOCUMENT_BYTES = 2**20
LONGEST_SENTENCE = 600  # of an error about a file: whatever else it quotes belongs to the file

DOCUMENT = "model.json"
DTYPE = re.compile(r"[<>|][biufU][0-9]{1,9}")
CSR_ARRAYS = ("data", "indices", "indptr")
SPARSE: dict[str, Callable[..., sparse.csr_matrix[np.float64] | sparse.csr_array[np.float64]]] = {
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
}
RECORDS: dict[str, Callable[..., Solution | Point | Certificate | Record]] = {
    "Solution": Solution,
    "Point": Point,
    "Certificate": Certificate,
    "Record": Record,
}

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


SCALING = "scaling"  # the part of a document that a model has if its columns are standardised first


class ModelFileError(FileError):
    """A model that cannot be stored, or a model file that cannot be read: the path and a sentence."""


class Refusal(Exception):
    """What is wrong, before the name of the file is known."""
