"""What the functions that take a matrix and targets check: the matrix by columns, finite and not too large."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight, check_X_y

from maxmargin.estimators._machinery.check import QUIETLY
from maxmargin.operators import Matrix
from maxmargin.operators.rows import LARGEST_VALUE, is_sparse
from maxmargin.protocols import Float


@QUIETLY
def check_system(X: Any, y: ArrayLike, names: tuple[str, str] = ("X", "y")) -> tuple[Any, Float]:
    """Finite float64 columns (Fortran order or CSC) and one number for each row."""
    X, y = check_X_y(X, y, accept_sparse="csc", dtype=np.float64, order="F", y_numeric=True, accept_large_sparse=True)
    matrix: Any = sp.csc_array(X) if is_sparse(X) else X
    targets = np.ascontiguousarray(y, dtype=np.float64)
    for name, values in zip(names, (matrix.data if is_sparse(matrix) else matrix, targets), strict=True):
        largest = max(float(np.max(values, initial=0.0)), -float(np.min(values, initial=0.0)))
        if largest > LARGEST_VALUE:
            raise ValueError(
                f"{name} has values up to {largest:.1e}, whose squares overflow; values up to {LARGEST_VALUE:.0e} are "
                f"taken. Divide {name} by a number of that size."
            )
    return matrix, targets


def check_weights(sample_weight: ArrayLike | None, X: Matrix) -> Float:
    """Sample weights from 0 on, not all of them zero."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    total = float(weights.sum())
    if not 0.0 < total < math.inf:
        raise ValueError(f"sample_weight must have a positive and finite sum; its sum is {total:g}.")
    return np.asarray(weights)


def check_number(name: str, value: object, least: float = 0.0) -> float:
    """A finite number of at least some size."""
    number = float(value) if isinstance(value, Real) else math.nan
    if not least <= number < math.inf:
        raise ValueError(f"{name} must be a finite number of at least {least:g}; got {value!r}.")
    return number


def check_count(name: str, value: object, least: int = 1) -> int | None:
    """A whole number of at least some size, or ``None``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (whole and int(value) >= least):  # type: ignore[call-overload]
        raise ValueError(f"{name} must be a whole number of at least {least}, or None; got {value!r}.")
    return None if value is None else int(value)  # type: ignore[call-overload]
