"""Probabilities: never at odds with the prediction, and from scores of samples that the model had not seen."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as TheirSVC

from maxmargin import SVC, LinearSVC, NuSVC, certify
from maxmargin.estimators._machinery import probability as _probability
from maxmargin.estimators._machinery.curves import SMALLEST_SLOPE, best_curves, probabilities
from maxmargin.estimators._machinery.fit import choose_solver, solve
from maxmargin.estimators._machinery.probability import (
    FOLDS,
    MANY_COPIES,
    folds,
    led_by,
    row_keys,
)
from maxmargin.io import ModelFileError, load_model, save_model
from maxmargin.operators import KernelGram, SharedRows
from maxmargin.parts.kernels import RBF

MODELS = [
    SVC(),
    SVC(C=100.0, kernel="poly", coef0=1.0),
    SVC(multi_class="ovr"),
    SVC(break_ties=True),
    SVC(decision_function_shape="ovo", loss="squared_hinge"),
    SVC(kernel="linear"),
    SVC(kernel="linear", solver="smo", class_weight="balanced"),
    NuSVC(nu=0.1),
    NuSVC(cap=0.2, multi_class="ovr"),
    LinearSVC(),
    LinearSVC(multi_class="ovo", loss="hinge", intercept="free"),
    LinearSVC(dual=True, class_weight="balanced"),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=str)


def fitted(model, X, y, sample_weight=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).set_params(probability=True).fit(X, y, sample_weight)


def blobs(n_classes, n=120, seed=0, n_features=3):
    """Classes that overlap, of different sizes."""
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.geometric(0.5, n) - 1, n_classes - 1)
    y[:n_classes] = np.arange(n_classes)
    return rng.normal(size=(n, n_features)) + 1.2 * y[:, None], y


def assert_consistent(model, X):
    p = model.predict_proba(X)
    assert p.shape == (X.shape[0], model.classes_.size)
    assert (p > 0.0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(model.predict_log_proba(X), np.log(p))


# Consistency


@each_model
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_probabilities_agree_with_predictions(model, n_classes):
    X, y = blobs(n_classes)
    weights = np.random.default_rng(1).integers(0, 3, y.size) + (np.arange(y.size) < n_classes)
    model = fitted(model, X, y, weights)
    assert (model.probability_curves_[:, :2] > 0.0).all()
    assert_consistent(model, X)
    assert_consistent(model, np.random.default_rng(2).normal(0.0, 10.0, (500, 3)))
    assert_consistent(model, np.zeros((1, 3)))


@each_model
def test_dense_and_sparse_have_the_same_probabilities(model):
    X, y = blobs(3)
    X[np.abs(X) < 0.5] = 0.0
    one, other = fitted(model, X, y), fitted(model, sparse.csr_array(X), y)
    assert_consistent(other, sparse.csr_array(X))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-2, atol=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 30),
    n_classes=st.integers(2, 4),
    digits=st.integers(0, 2),
    number=st.integers(0, len(MODELS) - 1),
)
def test_small_random_data(seed, n, n_classes, digits, number):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(max(n, n_classes), 2)).round(digits)  # with ties
    y = rng.integers(0, n_classes, X.shape[0])
    y[:n_classes] = np.arange(n_classes)
    model = MODELS[number]
    if isinstance(model, NuSVC):
        model = NuSVC(nu=0.01, multi_class=model.multi_class)
    model = fitted(model, X, y)
    assert_consistent(model, X)
    assert_consistent(model, rng.normal(size=(20, 2)).round(digits))


def test_scores_of_exactly_zero_and_next_to_it():
    model = fitted(SVC(kernel="linear"), np.array([[-1.0], [1.0]] * 5), np.array([0, 1] * 5))
    model._coef, model.intercept_ = np.array([[1.0]]), np.array([0.0])
    X = np.array([[0.0], [5e-324], [-5e-324], [1e-300], [1e300], [-1e300]])
    assert_consistent(model, X)
    np.testing.assert_array_equal(model.predict_proba(X[:1]), [[0.5, 0.5]])


def test_ties_between_pairs():
    """Three classes that beat each other in a circle: the first is predicted whatever the scores are."""
    model = fitted(SVC(), *load_iris(return_X_y=True))
    for scores in ([[1.0, -5.0, 2.0]], [[0.1, -0.1, 9.0]], [[0.0, 0.0, 0.0]], [[-1e-9, 1e-9, -1e-9]]):
        scores = np.array(scores)
        model._scores = lambda X, scores=scores: scores
        assert_consistent(model, np.zeros((1, 4)))
        for break_ties in (False, True):
            model.break_ties = break_ties
            assert_consistent(model, np.zeros((1, 4)))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(2, 6))
def test_led_by_is_the_nearest_point(seed, n_classes):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), 3)
    codes = rng.integers(0, n_classes, 3)
    led = led_by(p.copy(), codes)
    np.testing.assert_array_equal(led.argmax(axis=1), codes)
    np.testing.assert_allclose(led.sum(axis=1), 1.0, rtol=1e-14)
    for _ in range(20):  # the way to any other feasible point leads away from p
        other = rng.dirichlet(np.ones(n_classes), 3)
        best = other.argmax(axis=1)
        other[np.arange(3), best], other[np.arange(3), codes] = other[np.arange(3), codes], other.max(axis=1)
        assert (((led - p) * (other - led)).sum(axis=1) >= -1e-12).all()


def test_monotone_in_the_score():
    X, y = blobs(2)
    for model in (SVC(C=10.0), LinearSVC(), NuSVC(nu=0.1)):
        model = fitted(model, X, y)
        grid = np.random.default_rng(0).normal(0.0, 3.0, (2000, 3))
        order = np.argsort(model.decision_function(grid))
        p = model.predict_proba(grid)[order]
        assert (np.diff(p[:, 1]) >= 0.0).all()
        assert (np.diff(p[:, 0]) <= 0.0).all()


# The curves


def scores_of(curve, f):
    return curve[0] * np.minimum(f, 0.0) + curve[1] * np.maximum(f, 0.0) + curve[2]


def objective(curve, f, positive, weights):
    """Recomputed from its definition."""
    up, down = (max(weights[own].sum(), own.sum()) for own in (positive, ~positive))
    targets = np.where(positive, (up + 1.0) / (up + 2.0), 1.0 / (down + 2.0))
    z = scores_of(curve, f)
    return weights @ (targets * np.logaddexp(0.0, -z) + (1.0 - targets) * np.logaddexp(0.0, z)) / weights.sum()


@pytest.mark.parametrize(("n_classes", "pairs"), [(2, True), (4, False), (4, True)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("seed", range(3))
def test_curves_are_those_of_another_optimiser(n_classes, pairs, scale, seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(60) % n_classes)
    problems = list(combinations(range(n_classes), 2)) if pairs else [(c, -1) for c in range(n_classes)]
    problems = [(1, 0)] if n_classes == 2 else problems
    scores = scale * rng.normal(size=(60, len(problems))) * rng.lognormal(size=(60, 1))
    weights = rng.uniform(0.1, 3.0, 60)
    curves = best_curves(scores, codes, weights, n_classes, pairs)
    assert curves.shape == (len(problems), 3)
    for (i, j), curve, f in zip(problems, curves, scores.T, strict=True):
        own = (codes == i) | (codes == j) if pairs else np.ones(60, dtype=bool)
        unit = np.array([scale, scale, 1.0])
        theirs = scipy_minimize(
            lambda t, own=own, i=i, f=f, unit=unit: objective(t / unit, f[own], codes[own] == i, weights[own]),
            np.array([1.0, 1.0, 0.0]),
            bounds=[(SMALLEST_SLOPE, None), (SMALLEST_SLOPE, None), (None, None)],
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        assert objective(curve, f[own], codes[own] == i, weights[own]) <= theirs.fun + 2e-6


def test_separable_scores_have_finite_slopes():
    codes = np.repeat([0, 1], 50)
    scores = np.where(codes == 1, 1.0, -1.0)[:, None]
    (curve,) = best_curves(scores, codes, np.ones(100), 2, True)
    np.testing.assert_allclose(scores_of(curve, np.array([-1.0, 1.0])), [-np.log(51.0), np.log(51.0)], rtol=1e-6)


def test_scores_that_mislead_have_the_smallest_slope():
    codes = np.repeat([0, 1], 50)
    scores = np.where(codes == 1, -2.0, 2.0)[:, None]
    (curve,) = best_curves(scores, codes, np.ones(100), 2, True)
    np.testing.assert_allclose(curve[:2], SMALLEST_SLOPE / 2.0)


def test_a_side_without_scores_has_the_slope_of_the_other():
    codes = np.array([0, 1, 0, 0, 1, 0])
    scores = np.array([[-1.0], [-0.1], [-2.0], [-1.0], [-1.0], [0.0]])
    (curve,) = best_curves(scores, codes, np.ones(6), 2, True)
    assert curve[0] == curve[1] > 0.0
    np.testing.assert_array_equal(best_curves(0.0 * scores, codes, np.ones(6), 2, True)[0, :2], 1.0)


def test_coupled_probabilities_solve_their_problem():
    """Wu, Lin, Weng: the minimum of ``sum_ij (r_ji p_i - r_ij p_j)^2`` over the simplex, by another optimiser."""
    rng = np.random.default_rng(0)
    curves, scores = np.tile([1.0, 1.0, 0.0], (6, 1)), 2.0 * rng.normal(size=(5, 6))
    found = probabilities(curves, scores, 4, True)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    pairs = list(combinations(range(4), 2))
    for p, row in zip(found, 1.0 / (1.0 + np.exp(-scores)), strict=True):

        def value(p, row=row):
            return sum(((1.0 - r) * p[i] - r * p[j]) ** 2 for (i, j), r in zip(pairs, row, strict=True))

        theirs = scipy_minimize(
            value, np.full(4, 0.25), bounds=[(0.0, 1.0)] * 4, method="SLSQP", options={"ftol": 1e-14},
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0},
        )  # fmt: skip
        np.testing.assert_allclose(p, theirs.x, atol=1e-5)
    np.testing.assert_allclose(
        probabilities(curves[:1], scores[:, :1], 2, True)[:, 1], 1.0 / (1.0 + np.exp(-scores[:, 0]))
    )


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits], ids=["iris", "wine", "digits"])
def test_log_loss_is_not_above_that_of_libsvm(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours, theirs = [], []
    for seed in range(1 if load is load_digits else 4):
        parts = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        for kind, losses in ((SVC, ours), (TheirSVC, theirs)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                model = kind(probability=True, random_state=0).fit(parts[0], parts[2])
            losses.append(log_loss(parts[3], model.predict_proba(parts[1])))
    assert np.mean(ours) <= 1.03 * np.mean(theirs)


def test_small_weights_do_not_blur_the_targets():
    X, y = blobs(2)
    unit = fitted(LinearSVC(C=1.0), X, y)
    small = fitted(LinearSVC(C=120.0), X, y, np.full(y.size, 1.0 / 120.0))
    np.testing.assert_allclose(unit.probability_curves_, small.probability_curves_, rtol=1e-6)


# The folds


def samples_of(X, codes, weights=None):
    weights = np.ones(len(codes)) if weights is None else weights
    return X, np.asarray(codes), np.asarray(weights, dtype=float)


def test_folds_are_stratified_and_seeded():
    X, y = blobs(3, n=200)
    fold = folds(*samples_of(X, y), seed=0)
    for code in range(3):
        counts = np.bincount(fold[y == code], minlength=FOLDS)
        assert np.ptp(counts) <= 1
    np.testing.assert_array_equal(fold, folds(*samples_of(X, y), seed=0))
    assert (fold != folds(*samples_of(X, y), seed=1)).any()


def test_folds_depend_on_values_only():
    X, y = blobs(3, n=200)
    X[np.abs(X) < 0.4] = 0.0
    X = X.astype(np.float32)
    fold = folds(*samples_of(X, y), seed=5)
    order = np.random.default_rng(0).permutation(200)
    np.testing.assert_array_equal(folds(*samples_of(X[order], y[order]), seed=5), fold[order])
    np.testing.assert_array_equal(folds(*samples_of(X.astype(float), y), seed=5), fold)
    np.testing.assert_array_equal(folds(*samples_of(sparse.csr_array(X), y), seed=5), fold)
    np.testing.assert_array_equal(row_keys(-0.0 * X, 3), row_keys(0.0 * X, 3))


def test_copies_share_a_fold_unless_there_are_many():
    X, y = blobs(2, n=50)
    fold = folds(*samples_of(np.repeat(X, 3, axis=0), np.repeat(y, 3)), seed=0)
    np.testing.assert_array_equal(fold, np.repeat(folds(*samples_of(X, y, np.full(50, 3.0)), seed=0), 3))
    few = np.repeat(np.eye(2), 5 * MANY_COPIES, axis=0)
    codes = np.arange(10 * MANY_COPIES) % 2
    fold = folds(*samples_of(few, codes), seed=0)
    for row in (0, 1):
        for code in (0, 1):
            assert np.ptp(np.bincount(fold[(few[:, row] == 1) & (codes == code)], minlength=FOLDS)) <= 1


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), n_classes=st.integers(2, 4), values=st.integers(1, 50))
def test_every_class_is_left_in_every_training_part(seed, n, n_classes, values):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, max(n, n_classes))
    y[:n_classes] = np.arange(n_classes)
    weights = rng.integers(0, 2, y.size)
    weights[:n_classes] = 1
    fold = folds(*samples_of(rng.integers(0, values, (y.size, 1)).astype(float), y, weights), seed=0)
    assert (fold[weights == 0] == -1).all()
    for k in range(FOLDS):
        assert np.unique(y[(fold != k) & (weights > 0)]).size == n_classes


@pytest.mark.parametrize("model", [SVC(), SVC(kernel="linear"), NuSVC(nu=0.3), LinearSVC()], ids=str)
def test_two_samples(model):
    X = np.array([[-1.0, 0.5], [2.0, 1.0]])
    model = fitted(model, X, ["no", "yes"])
    assert_consistent(model, X)
    assert model.predict_proba(X)[0, 0] == pytest.approx(2.0 / 3.0, rel=1e-3)  # Platt's target for one sample


@pytest.mark.parametrize("model", [SVC(), NuSVC(nu=0.5), LinearSVC()], ids=str)
def test_weights_are_copies(model):
    X, y = blobs(2, n=60, n_features=2)
    weights = np.random.default_rng(0).integers(1, 4, 60)
    if isinstance(model, NuSVC):
        model.set_params(nu=0.2)
    model.set_params(tol=1e-8)
    weighted = fitted(model, X, y, weights)
    copies = fitted(model, np.repeat(X, weights, axis=0), np.repeat(y, weights))
    # Problems without a fold are solved to a gap of one percent only.
    np.testing.assert_allclose(weighted.probability_curves_, copies.probability_curves_, rtol=0.05)


def exact_scores(model, X, y, fold):
    """What the folds approximate: fits from scratch."""
    scores = np.empty(y.size)
    for k in range(FOLDS):
        part = clone(model).set_params(probability=False, tol=1e-8, gamma=model._gamma)
        scores[fold == k] = part.fit(X[fold != k], y[fold != k]).decision_function(X[fold == k])
    return scores


@pytest.mark.parametrize("n", [200, 1500])
@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_scores_are_those_of_models_without_the_sample(n, C):
    X, y = make_classification(n, 8, n_informative=5, flip_y=0.1, random_state=0)
    model = fitted(SVC(C=C), X, y)
    plan = model._plan(X, y, None)
    choose_solver(model, plan)
    fold = folds(X, y, np.ones(n), 0)
    scores, scored = _probability.unseen_scores(model, plan, solve(model, plan), fold)
    assert scored.all()
    exact = exact_scores(model, X, y, fold)
    assert np.sqrt(np.mean((scores[:, 0] - exact) ** 2)) < 0.1 * np.sqrt(np.mean(exact**2))
    assert np.abs(model.decision_function(X) - scores[:, 0]).mean() > 0.05  # and not training scores


def test_noise_is_recognised_as_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 5)), rng.permutation(np.arange(400) % 2)
    model = fitted(SVC(C=1e4, gamma=1.0), X, y)
    assert model.score(X, y) == 1.0
    new, labels = rng.normal(size=(2000, 5)), np.arange(2000) % 2
    assert log_loss(labels, model.predict_proba(new)) == pytest.approx(np.log(2.0), abs=0.02)
    model.probability_curves_ = best_curves(model._scores(X), y, np.ones(400), 2, True)
    assert log_loss(labels, model.predict_proba(new)) > np.log(2.0) + 0.2  # what training scores would have given


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits], ids=["cancer", "digits"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_log_loss_against_calibration_by_cross_validation(load, multi_class):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X, new, y, labels = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    ours = log_loss(labels, fitted(SVC(multi_class=multi_class), X, y).predict_proba(new))
    theirs = CalibratedClassifierCV(TheirSVC(), ensemble=False).fit(X, y)
    assert ours <= 1.05 * log_loss(labels, theirs.predict_proba(new))


def test_probabilities_are_calibrated():
    """On data whose probabilities are known."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    truth = 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))
    y = rng.uniform(size=4000) < truth
    for model, error in ((LinearSVC(), 0.02), (SVC(kernel="linear"), 0.02), (SVC(), 0.1), (NuSVC(nu=0.5), 0.1)):
        assert np.abs(fitted(model, X, y).predict_proba(X)[:, 1] - truth).mean() < error


# The estimator


@each_model
def test_equal_fits_give_equal_bits(model):
    X, y = blobs(3)
    one, other = fitted(model, X, y), fitted(model, X, y)
    np.testing.assert_array_equal(one.probability_curves_, other.probability_curves_)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    seeded = fitted(clone(model).set_params(random_state=np.random.RandomState(3)), X, y)
    again = fitted(clone(model).set_params(random_state=np.random.RandomState(3)), X, y)
    np.testing.assert_array_equal(seeded.probability_curves_, again.probability_curves_)


@each_model
def test_the_rest_of_the_model_is_that_of_a_plain_fit(model):
    X, y = blobs(3)
    plain, model = clone(model).fit(X, y), fitted(model, X, y)
    assert model.solutions_
    assert plain.solutions_  # made when somebody asks
    assert vars(model).keys() - vars(plain).keys() == {"probability_curves_"}
    for name in ("dual_coef_", "intercept_", "support_", "n_iter_", "duality_gap_", "objective_", "dual_objective_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(plain, name))
    assert certify(model, X, y).relative_gap == certify(plain, X, y).relative_gap


def test_only_after_a_fit_with_probability():
    X, y = blobs(2)
    for model in (SVC(), NuSVC(nu=0.1), LinearSVC()):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError) as caught:
            _ = model.predict_proba
        assert "only if it is fitted with probability=True" in str(caught.value.__cause__)
        model.fit(X, y).set_params(probability=True)
        with pytest.raises(AttributeError) as caught:
            _ = model.predict_log_proba
        assert "was fitted without" in str(caught.value.__cause__)
        assert_consistent(model.fit(X, y), X)
        assert not hasattr(model.set_params(probability=False).fit(X, y), "predict_proba")
        assert "probability_curves_" not in vars(model)
        fresh = clone(model).set_params(probability=True)
        with pytest.raises(NotFittedError):
            fresh.predict_proba(X)


def test_precomputed_and_callable_kernels():
    X, y = blobs(3)

    def kernel(A, B):
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    named = fitted(SVC(gamma=0.5, tol=1e-8), X, y)
    called = fitted(SVC(kernel=kernel, tol=1e-8), X, y)
    given = fitted(SVC(kernel="precomputed"), kernel(X, X), y)
    np.testing.assert_allclose(named.probability_curves_, called.probability_curves_, rtol=1e-2)
    assert_consistent(called, X)
    assert_consistent(given, kernel(X, X))


def test_indefinite_kernel():
    X, y = blobs(2, n=400)
    assert_consistent(fitted(SVC(kernel="sigmoid", gamma=0.5, coef0=1.0), X, y), X)


@pytest.mark.parametrize("gap", [5.0, 0.5])
def test_hard_margin(gap):
    """Separable or not."""
    X, y = blobs(2)
    assert_consistent(fitted(SVC(C=np.inf, kernel="linear"), X + gap * y[:, None], y), X)
    assert_consistent(fitted(SVC(C=np.inf), X, y), X)


def test_nu_that_is_only_just_feasible():
    X, y = blobs(2, n=61)
    largest = 2.0 * np.bincount(y).min() / y.size
    assert_consistent(fitted(NuSVC(nu=largest), X, y), X)
    assert_consistent(fitted(NuSVC(cap=2.0 / (largest * y.size)), X, y), X)


def test_max_time_leaves_nothing_for_the_folds(monkeypatch):
    X, y = blobs(2)
    done = []

    def slow(*arguments):
        done.append(solve(*arguments))
        return done[-1]

    monkeypatch.setattr("maxmargin.estimators._machinery.estimator.solve", slow)
    monkeypatch.setattr("time.perf_counter", lambda: 1000.0 * len(done))
    with pytest.warns(ConvergenceWarning, match="max_time was used up.*scores of the training samples") as caught:
        model = SVC(max_time=500.0, probability=True).fit(X, y)
    monkeypatch.undo()
    assert len(done) == 1
    assert {warning.filename for warning in caught} == {__file__}
    assert_consistent(model, X)


def test_folds_after_which_the_time_is_up_are_left_out(monkeypatch):
    X, y = blobs(2)
    solve, done = _probability.solve_in_turn, []

    def slow(*arguments):
        done.append(solve(*arguments))
        return done[-1]

    for make in (SVC, LinearSVC):
        done.clear()
        monkeypatch.setattr(_probability, "solve_in_turn", slow)
        monkeypatch.setattr("time.perf_counter", lambda: 1000.0 * len(done))
        with pytest.warns(ConvergenceWarning, match="max_time was used up before .* rest on 2 of 3 folds") as caught:
            model = make(max_time=1500.0, probability=True).fit(X, y)
        monkeypatch.undo()
        assert len(done) == 2
        assert {warning.filename for warning in caught} == {__file__}
        assert_consistent(model, X)


def test_few_scores_are_enough_where_there_was_no_time_for_folds():
    codes, among = np.repeat([0, 1, 2], [5000, 1500, 10]), np.arange(6510) % 2 == 0
    kept = _probability.thinned(codes, among)
    assert np.bincount(codes[kept]).tolist() == [834, 750, 5]
    assert among[kept].all()


def test_a_fit_that_is_stopped_has_no_folds():
    X, y = make_classification(3000, 20, flip_y=0.3, random_state=0)
    records = []
    with pytest.warns(ConvergenceWarning) as caught:
        SVC(C=1e3, tol=1e-12, probability=True, callback=lambda record: records.append(record) or True).fit(X, y)
    assert any("the fit was stopped before all folds were solved" in str(warning.message) for warning in caught)
    assert len(records) == 1


def test_the_callback_hears_of_the_problem_for_all_samples_only():
    X, y = blobs(3)
    plain, calibrated = [], []
    SVC(callback=plain.append).fit(X, y)
    SVC(callback=calibrated.append, probability=True).fit(X, y)
    assert [record.primal for record in plain] == [record.primal for record in calibrated]


def test_scikit_learn_callbacks_see_the_probabilities():
    callback = pytest.importorskip("sklearn.callback")
    X, y = blobs(2)
    for model in (SVC(probability=True), LinearSVC(probability=True)):
        monitor = callback.ScoringMonitor(scoring="neg_log_loss")
        model.set_callbacks(monitor).fit(X, y)
        assert model.predict_proba(X).shape == (120, 2)


def test_shared_rows():
    X = np.random.default_rng(0).normal(size=(1100, 4))
    gram = KernelGram(RBF(0.3), X)
    K = gram.block(np.arange(1100))
    w = np.random.default_rng(1).normal(size=(2, 1100)) * (np.arange(1100) % 3 == 0)
    some = np.arange(5, 600)
    for megabytes in (1e-3, 1.0, 100.0):  # no room for one row, for some, for all
        for total, dtype, accuracy in ((1.0, np.float32, 1e-5), (1e9, np.float64, 1e-12)):
            rows = SharedRows(gram, megabytes, total)
            assert rows.dtype == dtype
            np.testing.assert_allclose(rows.sums(w[0], rows.columns(None, None)), K @ w[0], atol=accuracy * 100)
            np.testing.assert_allclose(rows.many_sums(w, some), w @ K[:, some], atol=accuracy * 100)
            out = np.zeros((400, some.size), dtype=dtype)
            rows.write_rows(np.arange(300, 700), some, 2.0, 1.0, out, np.arange(400)[::-1])
            np.testing.assert_allclose(out[::-1], 2.0 * K[300:700, some] + 1.0, atol=accuracy)
            assert rows.positive
            np.testing.assert_array_equal(rows.diagonal(), gram.diagonal())


@pytest.mark.parametrize("model", MODELS[:3] + MODELS[-3:], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_files_keep_the_slopes(model, n_classes, tmp_path):
    X, y = blobs(n_classes)
    model = fitted(model, X, y)
    save_model(model, tmp_path / "model.mm")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mm").predict_proba(X), model.predict_proba(X))
    curves = model.probability_curves_
    for wrong in (-curves, np.ones(3), np.full_like(curves, np.nan), [1.0, 1.0]):
        broken = clone(model)
        vars(broken).update(vars(model), probability_curves_=wrong)
        with pytest.raises(ModelFileError, match="probability_curves_"):
            save_model(broken, tmp_path / "broken.mm")
