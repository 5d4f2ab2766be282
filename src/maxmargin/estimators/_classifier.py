"""What all support vector classifiers share."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._estimator import FIT_CONSTRAINTS, POSITIVE, CertifiedEstimator
from maxmargin.estimators._probability import Probabilities
from maxmargin.protocols import Array

CLASS_WEIGHT_CONSTRAINT: list[Any] = [StrOptions({"balanced"}), dict, None]
INTERCEPT_CONSTRAINT: list[Any] = [StrOptions({"auto", "free", "penalised"}), None]
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    **FIT_CONSTRAINTS,
    "C": [POSITIVE],
    "class_weight": CLASS_WEIGHT_CONSTRAINT,
    "random_state": ["random_state"],
    "intercept": INTERCEPT_CONSTRAINT,
}


class Classifier(Probabilities, ClassifierMixin, CertifiedEstimator):
    """A certified estimator of classes."""

    classes_: Array
