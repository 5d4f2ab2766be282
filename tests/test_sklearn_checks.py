"""scikit-learn's own checks of every estimator; none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, LinearSVC

ESTIMATORS = [
    SVC(),
    SVC(kernel="linear"),
    SVC(multi_class="ovr"),
    SVC(kernel="linear", solver="smo"),
    LinearSVC(),
    LinearSVC(loss="hinge", intercept="free"),
]


# Some checks set max_iter to 1 or 2 on purpose; that the fit then warns is right.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: {})
def test_scikit_learn_check(estimator, check):
    check(estimator)
