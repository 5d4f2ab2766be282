"""The only validation: what users pass is checked and brought into shape here, once, before any work is spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_outlier_detector, is_regressor
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    _check_y,
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from maxmargin.estimators._machinery.foreign import as_numpy, objects_of
from maxmargin.estimators._machinery.problems import nu_of_cap
from maxmargin.estimators._machinery.recognise import plain_columns, plain_rows, plain_targets, whole_classes
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import LARGEST_VALUE, asymmetry, is_sparse, squared_lengths, vectors_of
from maxmargin.protocols import Array, Float, Intercept

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

ClassWeight: TypeAlias = dict[int, float] | dict[str, float] | str | None
ROWS: dict[str, Any] = {
    "dtype": [np.float64, np.float32],
    "order": "C",
    "accept_sparse": "csr",
    "accept_large_sparse": True,
}
QUIETLY = np.errstate(invalid="ignore")  # scikit-learn adds up the numbers, infinities too, before it refuses these
COLUMNS: dict[str, Any] = {**ROWS, "order": None, "accept_sparse": ["csc", "csr"]}  # whatever is there is kept
# scikit-learn before 1.9 lets weights pass that are all zero.
ALL_ZERO: dict[str, Any] = (
    {"allow_all_zero_weights": True} if "allow_all_zero_weights" in signature(_check_sample_weight).parameters else {}
)
WITHOUT_PENALTY = 1e10  # what an infinite C stands for, but for hard margins
NU_SLACK = 1e-9  # relative: what rounding of a feasible nu may amount to


def check_training_data(
    estimator: CertifiedEstimator, X: MatrixLike, y: ArrayLike | None, *, reset: bool = True
) -> tuple[Matrix | ChunkedMatrix, Array]:
    """Finite float32 or float64 rows (C order or CSR) and one-dimensional targets; a detector of outliers has none.

    Without ``reset`` the features must be those of earlier samples. An estimator that looks at columns says so by
    ``_by_columns``, and gets its samples in the order in which they are.
    """
    if isinstance(X, ChunkedMatrix):
        check_chunks(estimator, X, reset=reset)
        return X, _check_targets(estimator, X, y)
    rows = plain_rows(X) if reset else None
    targets = None if rows is None else plain_targets(y, rows.shape[0])
    if rows is not None and targets is None and y is None and is_outlier_detector(estimator):
        targets = np.empty(0)
    if rows is not None and targets is not None:
        estimator.n_features_in_ = rows.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return rows, targets
    columns = plain_columns(X) if reset and estimator._by_columns else None
    if columns is not None and (targets := plain_targets(y, columns.shape[0])) is not None:
        estimator.n_features_in_ = columns.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return columns, targets
    X, y = as_numpy(X), as_numpy(y)
    if (objects := objects_of(estimator, X)) is not None:
        check_consistent_length(objects, *(() if y is None else (y,)))
        numeric = is_regressor(estimator)
        return objects, np.empty(0) if y is None else _check_y(y, y_numeric=numeric, estimator=estimator)
    with np.errstate(invalid="ignore"):
        if is_outlier_detector(estimator):
            rows, targets = validate_data(estimator, X, **ROWS), np.empty(0)
        else:
            how = COLUMNS if estimator._by_columns else ROWS
            what = {"y_numeric": is_regressor(estimator), "multi_output": estimator._several_targets}
            rows, targets = validate_data(estimator, X, y, reset=reset, **what, **how)
    refuse_huge_values(estimator, rows)
    return rows, targets


@QUIETLY
def check_shard(
    estimator: CertifiedEstimator, X: MatrixLike, y: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[Matrix, Array, Float]:
    """Rows, labels or targets, and sample weights of one client, which may have none."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} needs targets y; the data may have been opened without a target.")
    rows = check_array(X, **ROWS, ensure_min_samples=0, ensure_min_features=0, input_name="X", estimator=estimator)
    refuse_huge_values(estimator, rows)
    labels: Array = column_or_1d(y)
    check_consistent_length(rows, labels)
    if labels.size:
        numeric = is_regressor(estimator)
        labels = _check_y(labels, multi_output=False, y_numeric=numeric, estimator=estimator)
        if not numeric:
            check_classification_targets(labels)
    weights = np.ones(labels.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (labels.size,) or not ((weights >= 0.0) & (weights <= LARGEST_VALUE)).all():
        raise ValueError(f"sample_weight must hold a number from 0 to {LARGEST_VALUE:.0e} for each sample.")
    return rows, labels, weights


def refuse_huge_values(estimator: object, X: Matrix) -> None:
    """Refuse numbers whose squares overflow."""
    if min(X.shape) == 0 or float(np.finfo(X.dtype).max) <= LARGEST_VALUE:  # float32 holds no such values
        return
    values = X.data if is_sparse(X) else X.ravel(order="K")
    with np.errstate(over="ignore"):
        if values @ values <= LARGEST_VALUE**2:  # one look at each of them is enough for nearly everybody
            return
    largest = float(largest_of_columns(X).max())
    if largest > LARGEST_VALUE:
        raise ValueError(
            f"X has values up to {largest:.1e}, whose squares overflow; {type(estimator).__name__} takes values up to "
            f"{LARGEST_VALUE:.0e}. Scale the columns, for example with StandardScaler."
        )


def largest_of_columns(X: Matrix) -> Float:
    """Largest absolute values, without a copy of a dense matrix, which may be a file."""
    if not is_sparse(X):
        return np.asarray(np.maximum(X.max(axis=0), -X.min(axis=0)), dtype=np.float64)
    rows, largest = X.tocsr(), np.zeros(X.shape[1])
    np.maximum.at(largest, rows.indices, np.abs(rows.data))
    return largest


def check_chunks(estimator: BaseEstimator, X: ChunkedMatrix, *, reset: bool = False) -> None:
    """Refuse values that are not finite or too large, and columns that are not those of the fit, unless ``reset``."""
    name = type(estimator).__name__
    if type(estimator).__module__.startswith("maxmargin") and not getattr(estimator, "_reads_chunks", False):
        raise ValueError(
            f"{name} needs its samples in memory, and X is read chunk by chunk; use a linear estimator, such as "
            f"LinearSVC, LinearSVR or LogisticRegression, or load a part of the samples."
        )
    _check_n_features(estimator, X, reset=reset)
    if X.feature_names is not None:
        if reset:
            estimator.feature_names_in_ = np.array(X.feature_names, dtype=object)
        elif hasattr(estimator, "feature_names_in_") and list(estimator.feature_names_in_) != X.feature_names:
            raise ValueError(f"The columns {X.feature_names} are not those of the fit, {estimator.feature_names_in_}.")
    if not (X.column_squares <= LARGEST_VALUE**2).all():
        _refuse_wrong_entry(name, X)


def _refuse_wrong_entry(name: str, X: ChunkedMatrix) -> None:
    """Say which entry is the first that is not finite or too large."""
    for some, chunk in zip(X.stretches, X.chunks(), strict=True):
        values = chunk.data if is_sparse(chunk) else chunk.ravel()
        wrong = np.flatnonzero(~(np.abs(values) <= LARGEST_VALUE))
        if not wrong.size:
            continue
        first = int(wrong[0])
        if is_sparse(chunk):
            row, column = int(np.searchsorted(chunk.indptr, first, side="right")) - 1, int(chunk.indices[first])
        else:
            row, column = divmod(first, X.shape[1])
        label = f" ({X.feature_names[column]})" if X.feature_names else ""
        kind = "NaN" if np.isnan(values[first]) else "infinity" if np.isinf(values[first]) else f"{values[first]:.1e}"
        raise ValueError(
            f"X has {kind} in row {some.start + row}, column {column}{label}, both counted from 0; {name} takes finite "
            f"values up to {LARGEST_VALUE:.0e}. Remove or impute missing values, and scale large ones."
        )


def _check_targets(estimator: CertifiedEstimator, X: ChunkedMatrix, y: ArrayLike | None) -> Array:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} needs targets y; the data may have been opened without a target.")
    several, numeric = estimator._several_targets, is_regressor(estimator)
    targets: Array = _check_y(y, multi_output=several, y_numeric=numeric, estimator=estimator)
    check_consistent_length(X, targets)
    return targets


def check_targets(estimator: CertifiedEstimator, y: Matrix) -> Float:
    """Targets as numbers whose squares do not overflow, one or several for each sample."""
    targets = np.asarray(y.toarray() if is_sparse(y) else y, dtype=np.float64)
    if targets.size and float(np.abs(targets).max()) > LARGEST_VALUE:
        raise ValueError(
            f"y has values up to {float(np.abs(targets).max()):.1e}, whose squares overflow; "
            f"{type(estimator).__name__} takes values up to {LARGEST_VALUE:.0e}. Divide y by a common number."
        )
    if targets.size and 0.0 < float(np.abs(targets).max()) < 1.0 / LARGEST_VALUE:
        raise ValueError(
            f"y has no value above {float(np.abs(targets).max()):.1e}, and squares of such numbers underflow; "
            f"{type(estimator).__name__} takes values from {1.0 / LARGEST_VALUE:.0e} on. Multiply y by a common number."
        )
    return targets


def refuse_chunks(X: Matrix | ChunkedMatrix, what: str, remedy: str) -> Matrix:
    """Refuse what needs single rows if the matrix is read chunk by chunk, or return it."""
    if isinstance(X, ChunkedMatrix):
        raise ValueError(f"{what} needs the samples in memory, and X is read chunk by chunk; {remedy}.")
    return X


def check_prediction_data(estimator: CertifiedEstimator, X: MatrixLike) -> Matrix | ChunkedMatrix:
    """Rows of the kind that the estimator was fitted on."""
    if isinstance(X, ChunkedMatrix):
        check_chunks(estimator, X)
        return X
    rows, own = plain_rows(X), vars(estimator)
    if rows is not None and rows.shape[1] == own.get("n_features_in_") and "feature_names_in_" not in own:
        return rows
    X = as_numpy(X)
    if (objects := objects_of(estimator, X)) is not None:
        return objects
    with np.errstate(invalid="ignore"):
        return validate_data(estimator, X, reset=False, **ROWS)


def check_classes(estimator: object, y: Array) -> tuple[Array, Array]:
    """The classes and, for every sample, the index of its own."""
    if (known := whole_classes(y)) is not None:
        return known
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise ValueError(
            f"{type(estimator).__name__} separates at least 2 classes, but y has 1 class, {classes.tolist()[0]!r}. "
            f"Pass samples of a second class."
        )
    return classes, codes


def check_stream_classes(estimator: object, y: Array, classes: ArrayLike | None) -> tuple[Array, Array]:
    """The classes of a stream, which its first call names, and for every sample the index of its own."""
    known = getattr(estimator, "classes_", None)
    if known is None and classes is None:
        raise ValueError(
            "The first call of partial_fit needs classes: all labels that will ever occur, since the first samples may "
            "not show all of them."
        )
    if known is None:
        known, _ = check_classes(estimator, np.asarray(classes))
    elif classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(
            f"classes={np.unique(classes).tolist()} is not the same as in the first call of partial_fit, "
            f"{known.tolist()}; leave it out after the first call."
        )
    if known.size == 2:  # ten times as fast as a search
        codes = (y == known[1]).view(np.int8)
    else:
        codes = np.minimum(np.searchsorted(known, y), known.size - 1)
    unknown = known[codes] != y
    if unknown.any():
        check_classification_targets(y)  # where all labels are known, there is nothing to check
        raise ValueError(
            f"y has the label {y[unknown].tolist()[0]!r}, which is not one of the classes {known.tolist()} that were "
            f"named in the first call; name all of them there."
        )
    return known, codes


def check_weights(
    estimator: CertifiedEstimator,
    X: Matrix | ChunkedMatrix,
    names: Array,
    codes: Array,
    sample_weight: ArrayLike | None,
) -> tuple[Float, Float, Float]:
    """The sample weights, the class weights, and the weight of each sample's loss: both, times ``C`` if it exists.

    A class may have no weight at all, as in a subset that another class of scikit-learn draws by weights.
    """
    weights = check_sample_weight(estimator, X, sample_weight)
    if sample_weight is None and estimator.class_weight is None:
        return weights, np.ones(names.size), np.full(weights.size, weight_of_losses(estimator))
    per_class = _checked(estimator, class_weights(estimator.class_weight, names, codes, weights))
    of_samples = per_class[codes] * weights
    estimator._refuse_empty_classes(np.bincount(codes, of_samples, names.size))
    return weights, per_class, weight_of_losses(estimator) * of_samples


def weights_of_classes(estimator: CertifiedEstimator, names: Array, totals: Float) -> Float:
    """``C`` times the weight of each class, from the sums of its sample weights."""
    refuse_empty_classes(estimator, names, totals)
    per_class = class_weights(estimator.class_weight, names, np.arange(names.size), totals)
    return weight_of_losses(estimator) * _checked(estimator, per_class)


def refuse_empty_classes(estimator: object, names: Array, totals: Array) -> None:
    """Refuse classes without a sample that counts."""
    present = np.flatnonzero(totals)
    if present.size < names.size:
        missing = names.tolist()[np.setdiff1d(np.arange(names.size), present)[0]]
        raise ValueError(
            f"{type(estimator).__name__} needs a sample of positive weight in each of the {names.size} classes; class "
            f"{missing!r} has none. Leave its samples out, or give one of them a positive sample_weight."
        )


def _checked(estimator: CertifiedEstimator, per_class: Float) -> Float:
    if not np.isfinite(per_class).all() or (per_class < 0.0).any():
        raise ValueError(f"class_weight must be finite and at least 0 for each class; got {estimator.class_weight!r}.")
    if not per_class.any():
        raise ValueError(f"class_weight must be positive for some class; got {estimator.class_weight!r}.")
    return per_class


def weight_of_losses(model: object) -> float:
    """``C``, or 1 of machines that have none and of hard margins.

    Where an infinite ``C``, or no penalty, would leave problems without an optimum, it is so large that no trace of the
    penalty is seen if there is one.
    """
    C = float(getattr(model, "C", 1.0))
    if hasattr(model, "C") and getattr(model, "penalty", "") is None:
        C = math.inf
    if math.isfinite(C):
        return C
    return 1.0 if getattr(model, "_has_hard_margin", False) else WITHOUT_PENALTY


def check_sample_weight(estimator: object, X: Matrix | ChunkedMatrix, sample_weight: ArrayLike | None) -> Float:
    """Sample weights from 0 on, not all of them zero.

    Kernel machines leave out samples of negative weight, as LIBSVM does; a sum with negative losses has no minimum.
    """
    if sample_weight is None:
        return np.ones(X.shape[0])
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, **ALL_ZERO)
    if (count := np.count_nonzero(weights < 0.0)) and not getattr(estimator, "_leaves_out_negative_weights", False):
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {count} of {weights.size}. A sum with negative losses "
            f"has no minimum; leave these samples out of {type(estimator).__name__}, or give them the weight 0."
        )
    weights = np.maximum(weights, 0.0) if count else weights
    largest = float(weights.max(initial=0.0))
    if largest > LARGEST_VALUE:
        raise ValueError(f"sample_weight has values above {LARGEST_VALUE:.0e}; divide all weights by a common number.")
    if largest == 0.0:
        raise ValueError(
            f"Invalid input - all samples have zero or negative weights: {type(estimator).__name__} needs one of "
            f"positive weight."
        )
    return weights


def class_weights(class_weight: ClassWeight, names: Array, codes: Array, weights: Float) -> Float:
    """The weight of each class; "balanced" counts a sample as often as its weight says."""
    values = class_weight.values() if isinstance(class_weight, dict) else ()
    if not all(isinstance(value, Real) for value in values):
        raise ValueError(f"class_weight must map each class to a positive number; got {class_weight!r}.")
    if class_weight is None:
        return np.ones(names.size)
    per_class = compute_class_weight(class_weight, classes=names, y=names[codes], sample_weight=weights)
    return np.asarray(per_class, dtype=np.float64)


def check_nu(estimator: CertifiedEstimator, name: Callable[[int], str], sides: Float) -> tuple[Float, float]:
    """The nu of each binary problem, and the largest that is feasible in all of them.

    A nu is feasible if each class can carry half of ``nu S``; ``sides`` are the weights of the positive and the
    negative samples of each problem, and ``S`` is their sum.
    """
    totals = sides.sum(axis=1)
    bounds = 2.0 * sides.min(axis=1) / np.where(totals > 0.0, totals, 1.0)
    nus = np.full(totals.size, float(estimator.nu)) if estimator.cap is None else nu_of_cap(estimator.cap, totals)
    for k, (nu, bound, total) in enumerate(zip(nus.tolist(), bounds.tolist(), totals.tolist(), strict=True)):
        if nu <= bound * (1.0 + NU_SLACK):
            continue
        given, limit = f"nu={nu:.6g}", f"nu must be at most {bound:.10g}"
        if estimator.cap is not None:
            given = f"cap={estimator.cap:.6g}, which is {given},"
            limit = f"cap must be at least {nu_of_cap(bound, total):.10g}"
        raise ValueError(
            f"The specified nu is infeasible for {name(k)}: {given} needs a weight of {0.5 * nu * total:.6g} in "
            f"each class, but the lighter one has {0.5 * bound * total:.6g}; {limit}. Change it, or give the "
            f"lighter class a larger class_weight."
        )
    return nus, float(bounds.min())


def check_kernel_matrix(K: Matrix) -> None:
    """A precomputed training kernel must be square and symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"A precomputed kernel must be a square matrix of shape (n_samples, n_samples) when fitting; "
            f"got {K.shape[0]} x {K.shape[1]}."
        )
    values = K.data if is_sparse(K) else K
    largest = asymmetry(K)
    if largest > 1e-6 * max(1.0, -float(values.min(initial=0.0)), float(values.max(initial=0.0))):
        raise ValueError(
            f"A precomputed kernel must be symmetric, but entries differ from their mirror images by up to "
            f"{largest:.3g}. Use (K + K.T) / 2 if that is what you mean."
        )


def check_polynomial(degree: int, gamma: float, coef0: float, X: Matrix) -> None:
    """The polynomial kernel must not overflow: no pair of samples has a larger value than the largest bound on one."""
    base = gamma * float(squared_lengths(vectors_of(X), X.shape[0]).max()) + abs(coef0)
    exponent = degree * math.log10(base) if base > 0.0 else 0.0
    if not exponent <= 2.0 * math.log10(LARGEST_VALUE):
        raise ValueError(
            f"The polynomial kernel overflows: with degree={degree}, gamma={gamma:.3g} and coef0={coef0:.3g} its "
            f"values on these samples go up to 1e{exponent:+.0f}, and sums of them need at most 1e+200. Scale the "
            f"columns, for example with StandardScaler, or lower gamma or degree."
        )


def finite_scores(X: Matrix | ChunkedMatrix, scores: Float) -> Float:
    """The scores of samples, refused if they overflow."""
    wrong = np.count_nonzero(~np.isfinite(scores).all(axis=1))
    if wrong:
        largest = math.sqrt(X.column_squares.max()) if isinstance(X, ChunkedMatrix) else largest_of_columns(X).max()
        raise ValueError(
            f"The scores of {wrong} of the {scores.shape[0]} samples overflow: X has values up to "
            f"{float(largest):.1e}; scale its columns as those of the fit."
        )
    return scores


def check_intercept(estimator: CertifiedEstimator, of_fit_intercept: Intercept) -> Intercept:
    """The kind of intercept: the explicit choice, or what scikit-learn's estimator of the same name has."""
    if estimator.intercept == "auto":
        return of_fit_intercept if getattr(estimator, "fit_intercept", True) else None
    if not getattr(estimator, "fit_intercept", True) and estimator.intercept is not None:
        raise ValueError(
            f"fit_intercept=False contradicts intercept={estimator.intercept!r}; leave one of them at its default."
        )
    return estimator.intercept
