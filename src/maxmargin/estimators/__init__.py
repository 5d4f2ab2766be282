"""The scikit-learn face of the library."""

from maxmargin.estimators._machinery.estimator import CertifiedEstimator
from maxmargin.estimators._machinery.parameters import describe_shared
from maxmargin.estimators._machinery.recovery import Recovery
from maxmargin.estimators.best_subset import BestSubsets, best_subset
from maxmargin.estimators.certification import KKTReport, Verdict, certify, kkt_report
from maxmargin.estimators.distributed_lasso import DistributedLasso
from maxmargin.estimators.distributed_nu_svc import DistributedNuSVC
from maxmargin.estimators.distributed_ridge import DistributedRidge
from maxmargin.estimators.distributed_svc import DistributedSVC
from maxmargin.estimators.elastic_net import ElasticNet
from maxmargin.estimators.elastic_net_cv import ElasticNetCV
from maxmargin.estimators.explanation import explain_solver
from maxmargin.estimators.group_lasso import GroupLasso
from maxmargin.estimators.homotopy_path import HomotopyPath, lasso_homotopy
from maxmargin.estimators.kernel_ridge import KernelRidge
from maxmargin.estimators.lasso import Lasso
from maxmargin.estimators.lasso_cv import LassoCV
from maxmargin.estimators.lasso_path import enet_path, lasso_path
from maxmargin.estimators.leave_one_out import leave_one_out
from maxmargin.estimators.linear_regression import LinearRegression
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.linear_svc_cv import LinearSVCCV
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.logistic_regression import LogisticRegression
from maxmargin.estimators.minimum_norm import minimum_norm
from maxmargin.estimators.multi_task_elastic_net import MultiTaskElasticNet
from maxmargin.estimators.multi_task_lasso import MultiTaskLasso
from maxmargin.estimators.nu_path import NuPath, nu_path
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.pareto import ParetoCurve, basis_pursuit, lasso_within_norm, pareto_curve
from maxmargin.estimators.ridge import Ridge
from maxmargin.estimators.ridge_classifier import RidgeClassifier
from maxmargin.estimators.ridge_cv import RidgeCV
from maxmargin.estimators.separation import Separation, hull_distance
from maxmargin.estimators.sgd_classifier import SGDClassifier
from maxmargin.estimators.sgd_regressor import SGDRegressor
from maxmargin.estimators.sparse_selector import SparseSelector
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.svc_cv import SVCCV
from maxmargin.estimators.svm_path import SVMPath, svm_path
from maxmargin.estimators.svr import SVR
from maxmargin.estimators.svr_cv import SVRCV
from maxmargin.estimators.within_ball import InBall, minimise_in_ball, projected_sgd

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "SVRCV",
    "BestSubsets",
    "DistributedLasso",
    "DistributedNuSVC",
    "DistributedRidge",
    "DistributedSVC",
    "ElasticNet",
    "ElasticNetCV",
    "GroupLasso",
    "HomotopyPath",
    "InBall",
    "KKTReport",
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
    "NuPath",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "ParetoCurve",
    "Recovery",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "SGDClassifier",
    "SGDRegressor",
    "SVMPath",
    "Separation",
    "SparseSelector",
    "Verdict",
    "basis_pursuit",
    "best_subset",
    "certify",
    "enet_path",
    "explain_solver",
    "hull_distance",
    "kkt_report",
    "lasso_homotopy",
    "lasso_path",
    "lasso_within_norm",
    "leave_one_out",
    "minimise_in_ball",
    "minimum_norm",
    "nu_path",
    "pareto_curve",
    "projected_sgd",
    "svm_path",
]

describe_shared(
    {name: kind for name, kind in vars().items() if isinstance(kind, type) and issubclass(kind, CertifiedEstimator)}
)
