"""scikit-learn's own checks of every estimator; none is expected to fail but those that pose infeasible problems."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVR, LinearSVC, LinearSVR, LogisticRegression, NuSVC, NuSVR, OneClassSVM

ESTIMATORS = [
    SVC(),
    SVC(kernel="linear"),
    SVC(multi_class="ovr"),
    SVC(kernel="linear", solver="smo"),
    SVC(loss="squared_hinge"),
    SVC(probability=True),
    NuSVC(),
    NuSVC(nu=0.3),
    SVR(),
    SVR(kernel="linear", loss="squared_epsilon_insensitive"),
    NuSVR(),
    OneClassSVM(),
    LinearSVC(),
    LinearSVC(loss="hinge", intercept="free"),
    LinearSVC(probability=True),
    LinearSVR(),
    LinearSVR(loss="squared_epsilon_insensitive", intercept="free"),
    LogisticRegression(),
    LogisticRegression(multi_class="ovr", intercept="penalised"),
]


# NuSVC has no solution for a nu that a class is too light for, and says so. Two kinds of checks leave it none: one fits
# 3 samples of a class against 10 of another (scikit-learn's NuSVC refuses these data too), the other sets class weights
# that differ by a factor of 10 million.
INFEASIBLE = {
    0.5: ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    0.3: (),
}


def infeasible(estimator):
    if not isinstance(estimator, NuSVC):
        return {}
    return dict.fromkeys(
        (*INFEASIBLE[estimator.nu], "check_class_weight_classifiers"), "The specified nu is infeasible"
    )


# Some checks set max_iter to 1 or 2 on purpose; that the fit then warns is right.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=infeasible)
def test_scikit_learn_check(estimator, check):
    check(estimator)
