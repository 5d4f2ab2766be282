"""What scikit-learn's checks would hand back unchanged, recognised in microseconds: they take a large part of a
millisecond each, longer than many a fit. Whatever is not recognised goes through scikit-learn's own functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin.operators.rows import LARGEST_VALUE, Sparse, sum_of_squares
from maxmargin.protocols import Array, Index

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

Constraints: TypeAlias = dict[str, list[object]]  # of parameters, as scikit-learn writes them
# Parameters of these types alone are remembered: they hold nothing alive.
SIMPLE = {bool, int, float, str, type(None), np.float64, np.int64, np.bool_}
MOST_KNOWN = 4096  # sets of parameters
ROOM = 4  # labels are counted in a table of so many times their number, at most

_known: set[tuple[object, ...]] = set()


def validate_parameters(estimator: CertifiedEstimator) -> None:
    """Have scikit-learn validate the parameters, unless it has found the same ones good before."""
    kind, own = type(estimator), vars(estimator)
    values = [own.get(name) for name in kind._parameter_constraints]
    types = [type(value) for value in values]
    if not SIMPLE.issuperset(types):
        estimator._validate_params()
        return
    key = (kind, *values, *types)  # 1, 1.0 and True are equal
    if key not in _known:
        estimator._validate_params()
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known.add(key)


def plain_rows(X: object) -> Array | None:
    """``X`` if it is an array of finite float64 rows, none of them too large, in C order; else ``None``."""
    if not isinstance(X, np.ndarray) or type(X) is not np.ndarray or X.dtype != np.float64:
        return None
    return X if X.ndim == 2 and X.flags.c_contiguous and X.size and _is_small(X.reshape(-1)) else None


def plain_columns(X: object) -> Array | Sparse | None:
    """``X`` if its columns are in memory one after another, finite float64 numbers, none too large; else ``None``."""
    if isinstance(X, np.ndarray):
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.f_contiguous
        return X if plain and X.size and _is_small(X.T.reshape(-1)) else None
    if not isinstance(X, (sp.csc_array, sp.csc_matrix)) or X.dtype != np.float64 or not min(X.shape):
        return None
    columns: Any = X
    return columns if columns.has_canonical_format and _is_small(columns.data) else None


def plain_targets(y: object, count: int) -> Array | None:
    """``y`` if it is an array of so many finite numbers; else ``None``."""
    if not isinstance(y, np.ndarray) or type(y) is not np.ndarray or y.shape != (count,):
        return None
    return y if y.dtype.kind in "iu" or (y.dtype == np.float64 and _is_small(y)) else None


def whole_classes(y: Array) -> tuple[Array, Index] | None:
    """The classes and the codes of two or more labels that are whole numbers close to each other, without sorting.

    ``None`` for all others, and for so many classes that scikit-learn asks whether they are targets of a regression.
    """
    if y.dtype.kind not in "iuf" or y.size == 0:
        return None
    low, high = y.min().item(), y.max().item()
    if not high - low < ROOM * y.size + 16:  # nor NaN
        return _two_classes(y, low, high)
    numbers = (y - low).astype(np.int64)
    if (y.dtype.kind == "f" and not (numbers == y - low).all()) or low != np.rint(low):
        return None
    present = np.bincount(numbers) > 0
    classes = np.flatnonzero(present)
    if classes.size < 2 or (classes.size > 2 and classes.size > 0.5 * y.size):
        return None
    return (classes + low).astype(y.dtype), (np.cumsum(present) - 1)[numbers]


def _two_classes(y: Array, low: float, high: float) -> tuple[Array, Index] | None:
    """The same for two numbers that are far from each other."""
    last = y == high
    if not (last | (y == low)).all() or low != np.rint(low) or high != np.rint(high):
        return None
    return np.array([low, high], dtype=y.dtype), last.astype(np.int64)


def _is_small(values: Array) -> bool:
    """Whether all values are finite, and none is so large that its square overflows, by one look at each of them."""
    return sum_of_squares(values) <= LARGEST_VALUE**2
