"""What is recognised in microseconds is what scikit-learn's own checks would have handed back."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.utils.multiclass import check_classification_targets

from maxmargin import SVC, LinearSVC, LinearSVR
from maxmargin.estimators._machinery import recognise
from maxmargin.estimators._machinery.check import check_classes, check_training_data


def test_plain_rows_are_handed_back_themselves():
    X = np.arange(6.0).reshape(3, 2)
    assert recognise.plain_rows(X) is X


@pytest.mark.parametrize(
    "X",
    [
        np.asfortranarray(np.arange(6.0).reshape(3, 2)),
        np.arange(6).reshape(3, 2),
        np.arange(6.0),
        np.empty((0, 2)),
        np.empty((2, 0)),
        np.array([[1.0, np.nan]]),
        np.array([[1.0, np.inf]]),
        np.array([[1.0, 1e101]]),
        np.matrix([[1.0, 2.0]]),
        [[1.0, 2.0]],
        None,
    ],
)
def test_all_else_goes_through_scikit_learn(X):
    assert recognise.plain_rows(X) is None


@pytest.mark.parametrize("y", [np.array([1.0, np.nan]), np.array([True, False]), np.array(["a", "b"]), [1, 2], None])
def test_other_targets_are_not_recognised(y):
    assert recognise.plain_targets(y, 2) is None


def test_targets_must_be_as_many_as_rows():
    assert recognise.plain_targets(np.zeros(3), 2) is None
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        check_training_data(LinearSVR(), np.eye(2), np.zeros(3))


@settings(deadline=None)  # the first one compiles
@given(
    hnp.arrays(
        st.sampled_from([np.int64, np.int8, np.uint8, np.float64]),
        st.integers(1, 30),
        elements=st.one_of(st.integers(0, 5), st.integers(0, 120)),
    )
)
def test_classes_are_those_of_a_search(y):
    classes, codes = np.unique(y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_classification_targets(y)
    found = recognise.whole_classes(y)
    if found is not None:
        assert found[0].tolist() == classes.tolist()
        assert found[0].dtype == classes.dtype
        assert found[1].tolist() == codes.tolist()
    else:  # far apart, or as many as the targets of a regression
        assert classes.size == 1 or classes.size > 0.5 * y.size or np.ptp(classes.astype(float)) >= 4 * y.size


@pytest.mark.parametrize(
    "y", [[-1, 1], [-(2**62), 2**62], [1e300, -1e300], [0.0, 7.0], [3, 5], [np.iinfo(np.int64).min, 0]]
)
def test_two_labels_far_from_each_other(y):
    y = np.array(y * 3)
    classes, codes = recognise.whole_classes(y)
    assert (classes.tolist(), codes.tolist()) == tuple(map(np.ndarray.tolist, np.unique(y, return_inverse=True)))


@pytest.mark.parametrize("y", [np.array([0.5, 1.0, 0.5]), np.array([0.0, 0.25, 1.0])])
def test_numbers_that_are_no_labels_are_refused(y):
    with pytest.raises(ValueError, match="Unknown label type"):
        check_classes(SVC(), y)


def test_known_parameters_are_validated_once(monkeypatch):
    model, X, y = LinearSVC(C=1.25), np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    calls = []
    monkeypatch.setattr(LinearSVC, "_validate_params", lambda self: calls.append(self.C))
    recognise.validate_parameters(model)
    recognise.validate_parameters(model)
    recognise.validate_parameters(model.set_params(C=2.5))
    assert calls == [1.25, 2.5]
    model.set_params(C=1.25).fit(X, y)


def test_equal_numbers_of_other_types_are_not_the_same_parameter():
    model = LinearSVC(intercept_scaling=1, fit_intercept=True)
    recognise.validate_parameters(model)
    with pytest.raises(ValueError, match="fit_intercept"):
        recognise.validate_parameters(model.set_params(fit_intercept=1.0))


def test_what_was_refused_is_not_known():
    for _ in range(2):
        with pytest.raises(ValueError, match="'C' parameter"):
            recognise.validate_parameters(LinearSVC(C=-7.5))


def test_names_of_features_are_forgotten_with_their_data_frame():
    X, y = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]}), np.array([0, 0, 1, 1])
    model = LinearSVC().fit(X, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X.to_numpy())
    model.fit(np.ascontiguousarray(X.to_numpy()), y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
