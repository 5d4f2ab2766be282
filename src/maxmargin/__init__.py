"""maxmargin: support vector machines and regularised linear models that prove their answers."""

from importlib.metadata import version

from maxmargin import bounds as bounds
from maxmargin import solvers as solvers
from maxmargin.datasets import load_planets
from maxmargin.estimators import (
    SVC,
    SVCCV,
    SVR,
    SVRCV,
    DistributedLasso,
    DistributedNuSVC,
    DistributedRidge,
    DistributedSVC,
    ElasticNet,
    ElasticNetCV,
    GroupLasso,
    KernelRidge,
    Lasso,
    LassoCV,
    LinearRegression,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    MultiTaskElasticNet,
    MultiTaskLasso,
    NuSVC,
    NuSVR,
    OneClassSVM,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    SparseSelector,
    SVMPath,
    Verdict,
    certify,
    enet_path,
    explain_solver,
    lasso_path,
    leave_one_out,
    svm_path,
)
from maxmargin.estimators._machinery.recovery import Recovery
from maxmargin.estimators.best_subset import BestSubsets, best_subset
from maxmargin.estimators.homotopy_path import HomotopyPath, lasso_homotopy
from maxmargin.estimators.minimum_norm import minimum_norm
from maxmargin.estimators.pareto import ParetoCurve, basis_pursuit, lasso_within_norm, pareto_curve
from maxmargin.estimators.separation import Separation, hull_distance
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Record, Solution
from maxmargin.loop.trace import trace
from maxmargin.parts.parametrisations import convert_strength
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.groups import GroupProblem
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
    "BestSubsets",
    "BoxQP",
    "Certificate",
    "DistributedLasso",
    "DistributedNuSVC",
    "DistributedRidge",
    "DistributedSVC",
    "ElasticNet",
    "ElasticNetCV",
    "GroupLasso",
    "GroupProblem",
    "HomotopyPath",
    "HullDistance",
    "KernelRidge",
    "Lasso",
    "LassoCV",
    "LinearRegression",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LogisticRegression",
    "MultiTaskElasticNet",
    "MultiTaskLasso",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "ParetoCurve",
    "Point",
    "Problem",
    "Record",
    "Recovery",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "SGDClassifier",
    "SGDRegressor",
    "SVMPath",
    "Separation",
    "SoftmaxProblem",
    "Solution",
    "SparseSelector",
    "Status",
    "Verdict",
    "basis_pursuit",
    "best_subset",
    "certify",
    "convert_strength",
    "enet_path",
    "explain_solver",
    "hull_distance",
    "lasso_homotopy",
    "lasso_path",
    "lasso_within_norm",
    "leave_one_out",
    "load_planets",
    "minimize",
    "minimum_norm",
    "pareto_curve",
    "svm_path",
    "trace",
]
