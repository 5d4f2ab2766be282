"""maxmargin: support vector machines and regularised linear models that prove their answers."""

from importlib.metadata import version

from maxmargin import bounds as bounds
from maxmargin.datasets import load_planets
from maxmargin.estimators import (
    SVC,
    SVCCV,
    SVR,
    SVRCV,
    DistributedNuSVC,
    DistributedSVC,
    KernelRidge,
    LinearRegression,
    LinearSVC,
    LinearSVCCV,
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
    SVMPath,
    Verdict,
    certify,
    explain_solver,
    leave_one_out,
    svm_path,
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
    "SVCCV",
    "SVR",
    "SVRCV",
    "BoxQP",
    "Certificate",
    "DistributedNuSVC",
    "DistributedSVC",
    "HullDistance",
    "KernelRidge",
    "LinearRegression",
    "LinearSVC",
    "LinearSVCCV",
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
    "SVMPath",
    "Separation",
    "SoftmaxProblem",
    "Solution",
    "Status",
    "Verdict",
    "certify",
    "explain_solver",
    "hull_distance",
    "leave_one_out",
    "load_planets",
    "minimize",
    "svm_path",
]
