"""A model whose columns are standardised first: a pipeline of scikit-learn's ``StandardScaler`` and the model."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin.models.format import Refusal
from maxmargin.protocols import Float


def parts_of(model: BaseEstimator) -> tuple[StandardScaler | None, BaseEstimator]:
    """The scaler of a pipeline, if it is one, and the model behind it."""
    if not isinstance(model, Pipeline):
        return None, model
    steps = [step for _, step in model.steps]
    if len(steps) != 2 or type(steps[0]) is not StandardScaler:
        raise Refusal(
            "Of pipelines, a model file holds only those of a StandardScaler and one model; save the model alone, and "
            "transform the samples yourself."
        )
    return steps[0], steps[1]


def check_scaler(scaler: StandardScaler, model: BaseEstimator) -> None:
    """Refuse a scaler that is not fitted, or not to the columns of the model."""
    columns = int(model.n_features_in_)
    for name in ("mean_", "scale_"):
        values = getattr(scaler, name, None)
        if name == "mean_" and not scaler.with_mean:
            continue
        if not _are_numbers(values, columns) or (name == "scale_" and not all(value > 0.0 for value in values)):
            raise Refusal(
                f"The attribute {name} of the StandardScaler is not {columns} finite numbers, one for each feature; "
                f"fit and save the pipeline again."
            )


def _are_numbers(values: object, count: int) -> TypeGuard[Float]:
    if not isinstance(values, np.ndarray) or values.shape != (count,) or values.dtype.kind != "f":
        return False
    return bool(np.isfinite(values).all())


def scaled_model(parts: dict[str, object], model: BaseEstimator) -> Pipeline:
    """A pipeline that standardises columns as a file says, checked."""
    mean, scale = parts["mean"], parts["scale"]
    scaler = StandardScaler(with_mean=mean is not None)
    scaler.mean_, scaler.scale_ = mean, scale
    check_scaler(scaler, model)
    scaler.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        scaler.feature_names_in_ = model.feature_names_in_
    return make_pipeline(scaler, model)
