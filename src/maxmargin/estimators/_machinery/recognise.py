"""What scikit-learn's checks would hand back unchanged, recognised in microseconds: they take a large part of a
millisecond each, longer than many a fit. Whatever is not recognised goes through scikit-learn's own functions.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from maxmargin._jit import compiled
from maxmargin.operators.rows import LARGEST_VALUE, Sparse, sum_of_squares
from maxmargin.protocols import Array, Index

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

Constraints: TypeAlias = dict[str, list[object]]  # of parameters, as scikit-learn writes them
# Parameters of these types alone are remembered: they hold nothing alive.
SIMPLE = {bool, int, float, str, type(None), np.float64, np.int64, np.bool_}
MOST_KNOWN = 4096  # sets of parameters
NUMBERS = (np.int64, np.float64)  # types of labels that are counted as they are
ROOM = 4  # labels are counted in a table of so many times their number, at most

_known: set[tuple[object, ...]] = set()


def validate_parameters(estimator: CertifiedEstimator) -> None:
    """Have scikit-learn validate the parameters, unless it has found the same ones good before."""
    kind = type(estimator)
    try:
        values = parameters_of(cast("Hashable", kind))(vars(estimator))
    except KeyError:  # a model that was stored before there were all of them
        values = (estimator,)
    types = tuple(map(type, values))
    if not SIMPLE.issuperset(types):
        estimator._validate_params()
        return
    key = (kind, values, types)  # 1, 1.0 and True are equal
    if key not in _known:
        estimator._validate_params()
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known.add(key)


@cache
def parameters_of(kind: Hashable) -> itemgetter[tuple[object, ...]]:
    """What takes the parameters of a kind of estimator from its attributes."""
    return itemgetter(*cast("type[CertifiedEstimator]", kind)._parameter_constraints)


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
    kind = y.dtype.kind
    if y.size == 0 or kind not in "iuf" or y.dtype == np.uint64:
        return None
    numbers = y if y.dtype in NUMBERS else y.astype(np.int64 if kind in "iu" else np.float64)
    classes, codes = _whole_classes(numbers, ROOM * y.size + 16)
    if codes.size == 0:
        return _two_classes(y, y.min().item(), y.max().item())
    if classes.size < 2 or (classes.size > 2 and classes.size > 0.5 * y.size):
        return None
    return classes if classes.dtype == y.dtype else classes.astype(y.dtype), codes


@compiled
def _whole_classes(y: Array, room: int) -> tuple[Array, Index]:
    """The labels in order, and which of them each sample has; nothing if some are not whole, or too far apart."""
    n, low, high, count = y.shape[0], y[0], y[0], 0
    for i in range(n):
        low, high = min(low, y[i]), max(high, y[i])
    near = float(high) - float(low) < room and int(low) == low
    number, codes = np.zeros(int(high - low) + 1 if near else 0, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        codes[i] = int(y[i] - low)
        if not 0 <= codes[i] < number.shape[0] or low + codes[i] != y[i]:
            return y[:0], codes[:0]
        count += 1 - number[codes[i]]
        number[codes[i]] = 1
    classes = np.empty(count, dtype=y.dtype)
    count = 0
    for v in range(number.shape[0]):
        if number[v]:
            classes[count], number[v] = low + v, count
            count += 1
    for i in range(n):
        codes[i] = number[codes[i]]
    return classes, codes


def _two_classes(y: Array, low: float, high: float) -> tuple[Array, Index] | None:
    """The same for two numbers that are far from each other."""
    last = y == high
    if not (last | (y == low)).all() or low != np.rint(low) or high != np.rint(high):
        return None
    return np.array([low, high], dtype=y.dtype), last.astype(np.int64)


def _is_small(values: Array) -> bool:
    """Whether all values are finite, and none is so large that its square overflows, by one look at each of them."""
    return sum_of_squares(values) <= LARGEST_VALUE**2
