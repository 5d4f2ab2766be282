"""What all support vector classifiers share."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from maxmargin.estimators._machinery.estimator import CertifiedEstimator
from maxmargin.estimators._machinery.probability import Probabilities
from maxmargin.protocols import Array

CLASS_WEIGHT_CONSTRAINT: list[Any] = [StrOptions({"balanced"}), dict, None]
INTERCEPT_CONSTRAINT: list[Any] = [StrOptions({"auto", "free", "penalised"}), None]


class Classifier(Probabilities, ClassifierMixin, CertifiedEstimator):
    """A certified estimator of classes."""

    classes_: Array
