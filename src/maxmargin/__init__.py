"""maxmargin: support vector machines and regularised linear models that prove their answers."""

from importlib.metadata import version

from maxmargin import bounds as bounds
from maxmargin.datasets import load_planets
from maxmargin.estimators import (
    SVC,
    SVR,
    DistributedLasso,
    DistributedNuSVC,
    DistributedRidge,
    DistributedSVC,
    KernelRidge,
    LinearRegression,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    Verdict,
    certify,
    explain_solver,
)
from maxmargin.estimators.separation import Separation, hull_distance
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.problems.softmax import SoftmaxProblem

__version__ = version("maxmargin")

__all__ = [
    "SVC",
    "SVR",
    "BoxQP",
    "Certificate",
    "DistributedLasso",
    "DistributedNuSVC",
    "DistributedRidge",
    "DistributedSVC",
    "HullDistance",
    "KernelRidge",
    "LinearRegression",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "Point",
    "Problem",
    "Record",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
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
