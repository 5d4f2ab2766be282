"""Samples that are not arrays of NumPy, and not meant to be: objects for kernels of functions, and other libraries'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config

from maxmargin.protocols import Array

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator


def objects_of(estimator: CertifiedEstimator, X: object) -> Array | None:
    """A column of samples that are no numbers, such as strings, for a kernel that is a function; ``None`` of others."""
    if not callable(getattr(estimator, "kernel", None)) or not isinstance(X, Sequence | np.ndarray):
        return None
    try:
        values = np.asarray(X)
        if values.ndim != 1 or values.dtype.kind not in "OUS":
            return None
    except ValueError:  # samples of several lengths
        pass
    objects = np.empty((len(X), 1), dtype=object)
    for i, sample in enumerate(X):
        objects[i, 0] = sample
    return objects


def as_numpy(X: Any) -> Any:
    """Arrays of other libraries as NumPy's, if scikit-learn is told to dispatch them; all else as it is."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__array_namespace__") or not get_config()["array_api_dispatch"]:
        return X
    return np.from_dlpack(X)


def like(X: Any, result: Array) -> Any:
    """A result as an array of the library and device of the samples, if scikit-learn is told so, and not words."""
    if as_numpy(X) is X or result.dtype.kind not in "biuf":
        return result
    return X.__array_namespace__().asarray(result, device=X.device)
