"""What a model must look like: the rules that its attributes are checked by, before writing and after reading.

Compiled code trusts shapes and indices, so nobody sees a model from a file before all of its attributes are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeGuard

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin import estimators
from maxmargin.estimators._machinery.results import realise
from maxmargin.estimators._machinery.selection import Selection
from maxmargin.loop.solution import Record, Solution
from maxmargin.models.format import VERSION, Refusal
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.protocols import Array
from maxmargin.wording import shown

CLASSES: dict[str, type[BaseEstimator]] = {
    name: kind
    for name in estimators.__all__
    if isinstance(kind := getattr(estimators, name), type)
    and issubclass(kind, BaseEstimator)
    and not issubclass(kind, Selection)  # of which users store the best estimator
}

Sizes = dict[str, int]


class _Rule(NamedTuple):
    """What an attribute must be, in words and as a test; the sizes are those of the model at hand."""

    words: str
    holds: Callable[[object, Sizes], bool]


def is_whole(value: object) -> TypeGuard[int]:
    """An int of Python or numpy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def are_sizes(values: Iterable[object]) -> bool:
    """Whole numbers from 0 on."""
    return all(is_whole(size) and size >= 0 for size in values)


def is_nan(value: object) -> bool:
    """A float that is not a number."""
    return isinstance(value, float | np.floating) and math.isnan(value)


def _is_number(value: object) -> TypeGuard[float]:
    return is_whole(value) or (isinstance(value, float | np.floating) and not math.isnan(value))


def _is_array(value: object, kinds: str) -> TypeGuard[Array]:
    """A finite array of one of the kinds of dtype; "O" stands for str objects."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        return False
    if value.dtype.kind == "O":
        return all(type(item) is str for item in value.flat)
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())


def _array(kinds: str, *shape: str) -> _Rule:
    names = {"f": "finite floats", "i": "whole numbers", "O": "str objects"}
    return _Rule(
        f"an array of {names[kinds]} of shape ({', '.join(shape)})",
        lambda value, sizes: _is_array(value, kinds) and value.shape == tuple(sizes[name] for name in shape),
    )


def _is_class_list(value: object, sizes: Sizes) -> bool:
    if not _is_array(value, "biufUO") or value.ndim != 1 or value.size < 2:
        return False
    return bool((value[:-1] < value[1:]).all())


def _is_matrix(value: object, sizes: Sizes) -> bool:
    shape = (sizes["vectors"], sizes["columns"])
    if isinstance(value, sparse.csr_matrix | sparse.csr_array):
        return value.shape == shape and _is_array(value.data, "f")
    return _is_array(value, "f") and value.shape == shape and value.flags.c_contiguous


def _is_shape(value: object, sizes: Sizes) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and are_sizes(value)


def _is_long(value: object, sizes: Sizes) -> TypeGuard[list[object]]:
    return isinstance(value, list) and len(value) == sizes["problems"]


def _is_list(value: object) -> bool:
    return _is_array(value, "f") and value.ndim == 1


def _is_of_targets(value: object, length: int) -> bool:
    return _is_array(value, "f") and value.ndim in (1, 2) and value.shape[-1] == length


def _is_solved(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, Solution) for item in value)


def _are_samples(value: object, sizes: Sizes) -> bool:
    if isinstance(value, sparse.csr_matrix | sparse.csr_array):
        return value.shape[1] == sizes["features"] and _is_array(value.data, "f")
    return _is_array(value, "f") and value.ndim == 2 and value.shape[1] == sizes["features"]


def _are_solutions(value: object, sizes: Sizes) -> bool:
    return _is_long(value, sizes) and all(isinstance(item, Solution) and item.point.alpha is not None for item in value)


def _are_solutions_without_variables(value: object, sizes: Sizes) -> bool:
    return _is_long(value, sizes) and all(isinstance(item, Solution) and item.point.alpha is None for item in value)


def _is_traffic(value: object, sizes: Sizes) -> bool:
    counted = {"rounds", "scalars", "bytes", "seconds"}  # files of before November 2026 do not say what was received
    if not isinstance(value, dict) or value.keys() - {"received"} != counted:
        return False
    return all(_is_array(item, "f") and item.ndim == 1 for item in value.values())


def _are_curves(value: object, sizes: Sizes) -> bool:
    return _is_array(value, "f") and value.shape == (sizes["problems"], 3) and bool((value[:, :2] > 0.0).all())


_NUMBER = _Rule("a number, not NaN", lambda value, sizes: _is_number(value))
_COUNT = _Rule("a whole number from 0 on", lambda value, sizes: is_whole(value) and value >= 0)

# The attributes that sizes are taken from come first.
_SIZED: dict[str, _Rule] = {
    "n_features_in_": _Rule("a whole number from 1 on", lambda value, sizes: is_whole(value) and value >= 1),
    "support_": _Rule("a list of row numbers", lambda value, sizes: _is_array(value, "i") and value.ndim == 1),
}
_SIZE_GIVING = {*_SIZED, "classes_"}
_CERTIFIED: dict[str, _Rule] = {
    "dual_coef_": _array("f", "rows", "support"),
    "intercept_": _array("f", "problems"),
    "solutions_": _Rule("a list of one Solution with dual variables per problem", _are_solutions),
    "solution_": _Rule("a Solution", lambda value, sizes: isinstance(value, Solution)),
    "duality_gap_": _NUMBER,
    "objective_": _NUMBER,
    "dual_objective_": _NUMBER,
}
_CLASSES_RULE = {"classes_": _Rule("a sorted list of at least 2 different labels", _is_class_list)}
_KERNEL_MACHINE: dict[str, _Rule] = {
    "support_vectors_": _Rule("a finite matrix of shape (support, features), dense or CSR", _is_matrix),
    "shape_fit_": _Rule("the two sizes of the training data", _is_shape),
    "fit_status_": _COUNT,
    "_gamma": _NUMBER,
}
_WITHOUT_CLASSES = _SIZED | _CERTIFIED | _KERNEL_MACHINE | {"n_iter_": _COUNT}
_KERNEL_CLASSIFIER: dict[str, _Rule] = {
    **_SIZED,
    **_CLASSES_RULE,
    **_CERTIFIED,
    **_KERNEL_MACHINE,
    "class_weight_": _array("f", "classes"),
    "n_iter_": _array("i", "problems"),
    "_support_codes": _array("i", "support"),
    "_n_support": _array("i", "classes"),
}
_PER_PROBLEM = _array("f", "problems")
_OF_TARGETS: dict[str, _Rule] = {
    "n_features_in_": _SIZED["n_features_in_"],
    **{name: rule for name, rule in _CERTIFIED.items() if name not in ("dual_coef_", "intercept_", "solutions_")},
    "n_iter_": _COUNT,
}
_LEAST_SQUARES = _OF_TARGETS | {
    "coef_": _Rule(
        "finite coefficients for each target", lambda value, sizes: _is_of_targets(value, sizes["features"])
    ),
    "intercept_": _Rule("a number, or one for each target", lambda value, _: _is_number(value) or _is_list(value)),
    "solutions_": _Rule("a list of one Solution per target", lambda value, _: _is_solved(value)),
}
_SPARSE = _LEAST_SQUARES | {
    "n_iter_": _Rule(
        "a whole number, or one for each target",
        lambda value, _: are_sizes(value if isinstance(value, list) else [value]),
    ),
    "dual_gap_": _Rule("a number, or one for each target", lambda value, _: _is_number(value) or _is_list(value)),
}
_GROUPED = _LEAST_SQUARES | {"dual_gap_": _SPARSE["dual_gap_"]}
_SPARSE_CV = _SPARSE | {
    "alpha_": _NUMBER,
    **{
        name: _Rule("an array of finite floats", lambda value, _: _is_array(value, "f"))
        for name in ("alphas_", "mse_path_", "duality_gap_path_", "objective_path_", "dual_objective_path_")
    },
}
_DISTRIBUTED: dict[str, _Rule] = {
    "n_features_in_": _SIZED["n_features_in_"],
    **_CLASSES_RULE,
    **{name: rule for name, rule in _CERTIFIED.items() if name not in ("dual_coef_", "solutions_")},
    "solutions_": _Rule("a list of one Solution per problem", _are_solutions_without_variables),
    "coef_": _array("f", "problems", "features"),
    "n_iter_": _COUNT,
    "shape_fit_": _KERNEL_MACHINE["shape_fit_"],
    "traffic_": _Rule("the rounds, scalars, bytes and seconds of each client", _is_traffic),
}
_DISTRIBUTED_REGRESSION = {name: rule for name, rule in _DISTRIBUTED.items() if name != "classes_"} | {
    "coef_": _array("f", "features"),
    "intercept_": _NUMBER,
}
ATTRIBUTES: dict[str, dict[str, _Rule]] = {
    "SVC": _KERNEL_CLASSIFIER,
    "NuSVC": _KERNEL_CLASSIFIER | {"nu_": _PER_PROBLEM, "rho_": _PER_PROBLEM, "nu_max_": _NUMBER},
    "SVR": _WITHOUT_CLASSES,
    "NuSVR": _WITHOUT_CLASSES | {"epsilon_": _NUMBER},
    "OneClassSVM": _WITHOUT_CLASSES,
    "LinearSVC": _SIZED
    | _CLASSES_RULE
    | _CERTIFIED
    | {"coef_": _array("f", "scores", "features"), "intercept_": _array("f", "scores"), "n_iter_": _COUNT},
    "DistributedSVC": _DISTRIBUTED,
    "DistributedRidge": _DISTRIBUTED_REGRESSION,
    "DistributedLasso": _DISTRIBUTED_REGRESSION,
    "DistributedNuSVC": _DISTRIBUTED | {"nu_": _PER_PROBLEM, "rho_": _PER_PROBLEM, "nu_max_": _NUMBER},
    "LogisticRegression": {
        "n_features_in_": _SIZED["n_features_in_"],
        **_CLASSES_RULE,
        **{name: rule for name, rule in _CERTIFIED.items() if name != "dual_coef_"},
        "coef_": _array("f", "scores", "features"),
        "intercept_": _array("f", "scores"),
        "n_iter_": _array("i", "problems"),
    },
    "LinearSVR": _SIZED | _CERTIFIED | {"coef_": _array("f", "features"), "n_iter_": _COUNT},
    "Ridge": _LEAST_SQUARES | {"solver_": _Rule("a name", lambda value, _: isinstance(value, str))},
    "RidgeCV": _LEAST_SQUARES
    | {
        "alpha_": _Rule("a number, or one for each target", lambda value, _: _is_number(value) or _is_list(value)),
        "best_score_": _Rule("a number, or one for each target", lambda value, _: _is_number(value) or _is_list(value)),
    },
    "LinearRegression": _LEAST_SQUARES
    | {
        "_singular": _Rule(
            "singular values, a matrix that has them, or null",
            lambda value, _: value is None or (_is_array(value, "f") and value.ndim in (1, 2)),
        )
    },
    "ElasticNet": _SPARSE,
    "Lasso": _SPARSE,
    "ElasticNetCV": _SPARSE_CV | {"l1_ratio_": _NUMBER},
    "LassoCV": _SPARSE_CV,
    "SparseSelector": {name: rule for name, rule in _LEAST_SQUARES.items() if name != "n_iter_"}
    | {"alpha_": _NUMBER, "alpha_max_": _NUMBER},
    "RidgeClassifier": _LEAST_SQUARES
    | {
        "classes_": _Rule("a sorted list of labels", lambda value, _: _is_array(value, "biufUO") and value.ndim == 1),
        "intercept_": _Rule("a number for each class", lambda value, _: _is_list(value)),
        "_labels": _Rule("true or false", lambda value, _: isinstance(value, bool)),
        "solver_": _Rule("a name", lambda value, _: isinstance(value, str)),
    },
    "GroupLasso": _GROUPED,
    "MultiTaskLasso": _GROUPED,
    "MultiTaskElasticNet": _GROUPED,
    "KernelRidge": _OF_TARGETS
    | {
        "solutions_": _LEAST_SQUARES["solutions_"],
        "dual_coef_": _Rule(
            "coefficients of the samples", lambda value, _: _is_array(value, "f") and value.ndim in (1, 2)
        ),
        "X_fit_": _Rule("a finite matrix of samples, dense or CSR", _are_samples),
        "_gamma": _NUMBER,
    },
    "SGDClassifier": _SIZED
    | _CLASSES_RULE
    | _CERTIFIED
    | {"coef_": _array("f", "problems", "features"), "n_iter_": _COUNT, "t_": _NUMBER},
    "SGDRegressor": _SIZED | _CERTIFIED | {"coef_": _array("f", "features"), "n_iter_": _COUNT, "t_": _NUMBER},
}
OPTIONAL: dict[str, _Rule] = {
    "feature_names_in_": _array("O", "features"),
    "_coef": _array("f", "problems", "features"),  # of kernel machines with a linear kernel
    "_moments": _Rule(
        "a dictionary of arrays of finite floats",
        lambda value, _: isinstance(value, dict) and all(_is_array(item, "f") for item in value.values()),
    ),
    "shrunken_coef_": _LEAST_SQUARES["coef_"],
    "shrunken_intercept_": _LEAST_SQUARES["intercept_"],
    "cv_results_": _Rule("an array of finite floats", lambda value, _: _is_array(value, "f")),
    "probability_curves_": _Rule("two positive slopes and a shift for each problem", _are_curves),
}

FIELDS: dict[str, dict[str, _Rule]] = {
    "Point": {
        "w": _Rule("a list of finite floats", lambda value, _: _is_array(value, "f") and value.ndim == 1),
        "b": _Rule("a finite float", lambda value, _: _is_number(value) and math.isfinite(value)),
        "alpha": _Rule(
            "a list of finite floats or null",
            lambda value, _: value is None or (_is_array(value, "f") and value.ndim == 1),
        ),
    },
    "Certificate": {
        "primal": _NUMBER,
        "dual": _NUMBER,
        "primal_error": _NUMBER,
        "dual_error": _NUMBER,
        "passes": _NUMBER,
        "least": _NUMBER,
    },
    "Record": {
        "seconds": _NUMBER,
        "iterations": _COUNT,
        # A solver's own estimate may be anything, even NaN.
        "primal": _Rule("a number", lambda value, _: _is_number(value) or is_nan(value)),
        "dual": _Rule("a number", lambda value, _: _is_number(value) or is_nan(value)),
        "certified": _Rule("true or false", lambda value, _: isinstance(value, bool)),
        "counters": _Rule(
            "a dictionary of numbers",
            lambda value, _: (
                isinstance(value, dict)
                and all(isinstance(k, str) and (_is_number(v) or is_nan(v)) for k, v in value.items())
            ),
        ),
        "error": _NUMBER,
        "least": _NUMBER,
    },
    "Solution": {
        "point": _Rule("a Point", lambda value, _: isinstance(value, Point)),
        "certificate": _Rule("a Certificate", lambda value, _: isinstance(value, Certificate)),
        "status": _Rule("a Status", lambda value, _: isinstance(value, Status)),
        "solver": _Rule("a name", lambda value, _: isinstance(value, str)),
        "tol": _NUMBER,
        "iterations": _COUNT,
        "seconds": _NUMBER,
        "last": _Rule("a Point or null", lambda value, _: value is None or isinstance(value, Point)),
        "history": _Rule(
            "a list of Records",
            lambda value, _: isinstance(value, tuple) and all(isinstance(item, Record) for item in value),
        ),
        "compiling": _NUMBER,
        "notes": _Rule(
            "a list of sentences",
            lambda value, _: isinstance(value, tuple) and all(isinstance(item, str) for item in value),
        ),
    },
}

# Fields that files of earlier versions do not have; they have defaults.
LATER_FIELDS = {
    "Certificate": {"primal_error", "dual_error", "least"},
    "Record": {"error", "least"},
    "Solution": {"compiling", "notes"},
}


NOT_STORED = {"_training"}  # what a model remembers of its training samples while it lives


def fitted_attributes(model: BaseEstimator) -> dict[str, object]:
    """What a file holds of a model beside its parameters."""
    parameters = model.get_params(deep=False)
    held = {name: value for name, value in vars(model).items() if name not in parameters and name not in NOT_STORED}
    if sparse.issparse(held.get("coef_")):  # by `sparsify`
        held["coef_"] = held["coef_"].toarray()
    return held


def check_model(model: BaseEstimator) -> None:
    """Refuse a model whose attributes are not those of its class, or do not fit together."""
    name = type(model).__name__
    if isinstance(model, Selection):
        raise Refusal(f"{name} has no file format, the model that it found has: save its best_estimator_.")
    if name not in ATTRIBUTES or CLASSES.get(name) is not type(model):
        raise Refusal(
            f"{type(model).__module__}.{name} has no file format; only {', '.join(ATTRIBUTES)} of maxmargin have one."
        )
    realise(model)
    fitted = fitted_attributes(model)
    if "solutions_" not in fitted:
        raise Refusal(f"This {name} is not fitted, so there is nothing to predict with; call fit first.")
    rules = ATTRIBUTES[name]
    unknown = sorted(fitted.keys() - rules.keys() - OPTIONAL.keys())
    if unknown:
        raise Refusal(
            f"{name} has the attribute {shown(unknown[0])}, for which version {VERSION} of the format has no place; "
            f"remove it with delattr(model, {shown(unknown[0])})."
        )
    sizes: Sizes = {}
    for key, rule in (rules | {key: rule for key, rule in OPTIONAL.items() if key in fitted}).items():
        if not sizes and key not in _SIZE_GIVING:
            sizes = _sizes(model)
        if key not in fitted:
            raise Refusal(f"{name} lacks the attribute {key}, which every fitted one has; fit and save it again.")
        if not rule.holds(fitted[key], sizes):
            raise Refusal(f"The attribute {key} of {name} is not {rule.words}; fit and save the model again.")
    _check_support(model)


def check_fields(kind: str, fields: dict[str, object]) -> None:
    """Refuse a record whose fields are not what its class says."""
    for name, rule in FIELDS[kind].items():
        if name in fields and not rule.holds(fields[name], {}):
            raise Refusal(f"The field {name} of a {kind} is not {rule.words}; fit and save the model again.")


def _sizes(model: BaseEstimator) -> Sizes:
    """The sizes that the shapes of attributes are made of."""
    classes = int(model.classes_.size) if hasattr(model, "classes_") else 0
    pairwise = classes > 2 and getattr(model, "multi_class", "ovr") == "ovo"
    scores = classes * (classes - 1) // 2 if pairwise else classes if classes > 2 else 1
    at_once = getattr(model, "multi_class", "ovr") in ("multinomial", "crammer_singer")
    problems = 1 if at_once else scores
    support = int(model.support_.size) if hasattr(model, "support_") else 0
    sizes = {"features": int(model.n_features_in_), "classes": classes, "support": support}
    stored = getattr(model, "kernel", None) != "precomputed"
    return sizes | {
        "problems": problems,
        "scores": scores,
        "rows": classes - 1 if pairwise and hasattr(model, "_support_codes") else scores,
        "vectors": sizes["support"] if stored else 0,
        "columns": sizes["features"] if stored else 0,
    }


def _check_support(model: BaseEstimator) -> None:
    """Refuse row numbers and class numbers that point outside of the data."""
    if not hasattr(model, "support_"):
        return
    rows = getattr(model, "shape_fit_", (math.inf, model.n_features_in_))
    inside = model.support_.size == 0 or (model.support_.min() >= 0 and model.support_.max() < rows[0])
    if not inside or rows[1] != model.n_features_in_:
        raise Refusal("The row numbers support_ or the sizes shape_fit_ contradict the data; fit and save it again.")
    if hasattr(model, "_support_codes"):
        own = model._support_codes[None, :] == np.arange(model.classes_.size)[:, None]
        if not (np.array_equal(own.sum(axis=1), model._n_support) and own.any(axis=0).all()):
            raise Refusal("n_support_ contradicts the classes of the support vectors; fit and save the model again.")
