"""maxmargin: support vector machines and regularised linear models that prove their answers."""

from importlib.metadata import version

from maxmargin import bounds as bounds
from maxmargin.datasets import load_planets
from maxmargin.estimators import (
    SVC,
    SVR,
    DistributedNuSVC,
    DistributedSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    SGDClassifier,
    SGDRegressor,
    Verdict,
    certify,
    explain_solver,
)
from maxmargin.hulls import HullDistance
from maxmargin.minimize import minimize
from maxmargin.problem import Problem
from maxmargin.quadratic import BoxQP
from maxmargin.separation import Separation, hull_distance
from maxmargin.softmax import SoftmaxProblem
from maxmargin.solution import Certificate, Point, Record, Solution, Status

__version__ = version("maxmargin")

__all__ = [
    "SVC",
    "SVR",
    "BoxQP",
    "Certificate",
    "DistributedNuSVC",
    "DistributedSVC",
    "HullDistance",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "Point",
    "Problem",
    "Record",
    "SGDClassifier",
    "SGDRegressor",
    "Separation",
    "SoftmaxProblem",
    "Solution",
    "Status",
    "Verdict",
    "certify",
    "explain_solver",
    "hull_distance",
    "load_planets",
    "minimize",
]
