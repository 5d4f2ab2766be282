"""L1 and elastic-net penalties of LinearSVC and LogisticRegression: scikit-learn's problems, with a certificate."""

import warnings

import numpy as np
import pytest
import sklearn.linear_model
import sklearn.svm
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

import referee
from maxmargin import LinearSVC, LogisticRegression, Status, certify

WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, 200)
C = 0.1


@pytest.fixture(scope="module")
def two():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200, ::2], y[:200]


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def posed(X, y, s, loss, ratio, intercept, scale=1.0):
    """The problem of two classes, for the referee."""
    penalty = ("l1", 1.0) if ratio == 1.0 else ("elastic net", 1.0, ratio)
    return referee.Machine(2.0 * y - 1.0, s, (loss, 1.0), penalty, X, intercept=intercept, scale=scale)


def fitted_by_scikit_learn(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn 1.9 warns of every `penalty`
        return model.set_params(tol=1e-8, max_iter=10**5).fit(*data)


SAME = [
    (LinearSVC, {"penalty": "l1", "dual": False}, {}),
    (LinearSVC, {"penalty": "l1", "dual": False, "fit_intercept": False}, {}),
    (LinearSVC, {"penalty": "l1", "dual": False, "intercept_scaling": 3.0, "class_weight": "balanced"}, {}),
    (LogisticRegression, {"penalty": "l1", "solver": "liblinear", "intercept_scaling": 3.0}, {}),
    (LogisticRegression, {"l1_ratio": 1.0, "class_weight": {0: 2.0}}, {"solver": "saga"}),
    (LogisticRegression, {"l1_ratio": 0.3}, {"solver": "saga"}),
    (LogisticRegression, {"penalty": "elasticnet", "l1_ratio": 0.7, "fit_intercept": False}, {"solver": "saga"}),
]


@pytest.mark.parametrize(("kind", "settings", "only_theirs"), SAME, ids=str)
def test_the_optimum_is_that_of_scikit_learn_and_the_referee_agrees(kind, settings, only_theirs, two):
    X, y = two
    ours = kind(C=C, tol=1e-8, **settings).fit(X, y, WEIGHTS)
    module = sklearn.svm if kind is LinearSVC else sklearn.linear_model
    theirs = getattr(module, kind.__name__)(C=C, **settings, **only_theirs)
    fitted_by_scikit_learn(theirs, X, y, WEIGHTS)
    assert ours.status_ is Status.CONVERGED
    assert ours.solution_.solver == "proximal_newton"

    s = C * WEIGHTS
    if settings.get("class_weight") == "balanced":
        s = s * (WEIGHTS.sum() / (2.0 * np.bincount(y, WEIGHTS)))[y]
    elif "class_weight" in settings:
        s = s * np.where(y == 0, 2.0, 1.0)
    penalised = kind is LinearSVC or settings.get("solver") == "liblinear"
    intercept = ("penalised" if penalised else "free") if settings.get("fit_intercept", True) else None
    loss = "squared hinge" if kind is LinearSVC else "logistic"
    case = posed(X, y, s, loss, settings.get("l1_ratio", 1.0), intercept, settings.get("intercept_scaling", 1.0))
    alpha = referee.repaired(case, ours.solution_.point.alpha)
    verdict = referee.judge(case, ours.coef_[0], ours.intercept_[0], alpha)
    assert verdict.infeasibility <= 1e-12
    assert -1e-12 <= verdict.gap / verdict.primal <= 1e-8 + 1e-12
    assert ours.objective_ == pytest.approx(verdict.primal, rel=1e-12)
    value = referee.primal(case, theirs.coef_[0].astype(float), float(np.ravel(theirs.intercept_)[0]))
    assert value == pytest.approx(ours.objective_, rel=1e-6)
    assert value >= ours.dual_objective_ * (1.0 - 1e-12)
    np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    assert 0 < np.count_nonzero(ours.coef_) < X.shape[1]

    verdicts = [certify(model, X, y, WEIGHTS) for model in (ours, theirs)]
    assert verdicts[0].problem == verdicts[1].problem
    assert verdicts[0].relative_gap <= 1e-8
    assert verdicts[1].relative_gap <= 1e-6
    for model in (ours, theirs):
        model.coef_ = model.coef_ * 0.9
        assert certify(model, X, y, WEIGHTS).relative_gap > 1e-4


@pytest.mark.parametrize(
    "model",
    [LinearSVC("l1", C=C, intercept="free"), LogisticRegression("l1", C=C), LogisticRegression(C=C, l1_ratio=0.5)],
    ids=repr,
)
def test_a_free_intercept_costs_nothing(model, two):
    X, y = two
    first = model.set_params(tol=1e-6).fit(X, y)
    value, coef, b = first.objective_, first.coef_, first.intercept_[0]
    moved = model.fit(X + 5.0, y)
    assert moved.objective_ == pytest.approx(value, rel=2e-6)
    assert moved.intercept_[0] == pytest.approx(b - 5.0 * coef.sum(), abs=0.1)
    assert model.set_params(intercept="penalised").fit(X + 5.0, y).objective_ > value * (1.0 + 1e-4)


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_the_hinge_if_a_solver_is_named(intercept, two):
    X, y = two
    model = LinearSVC("l1", "hinge", intercept=intercept, C=C, tol=1e-2, solver="smoothed").fit(X, y)
    case = posed(X, y, np.full(y.size, C), "hinge", 1.0, intercept)
    alpha = referee.repaired(case, model.solution_.point.alpha)
    assert referee.judge(case, model.coef_[0], model.intercept_[0], alpha).relative_gap <= 1e-2 + 1e-12
    assert certify(model, X, y).relative_gap <= 1e-2


def test_a_strong_penalty_leaves_the_intercept_alone(two):
    X, y = two
    model = LogisticRegression("l1", C=1e-3, tol=1e-8).fit(X, y)
    assert not model.coef_.any()
    assert model.intercept_[0] == pytest.approx(np.log(y.sum() / (y == 0).sum()), abs=1e-3)
    assert model.duality_gap_ <= 1e-8


@pytest.mark.parametrize("model", [LinearSVC(penalty="l1"), LogisticRegression("l1", multi_class="ovr")], ids=repr)
def test_one_against_the_rest(model, three):
    X, y = three
    model.set_params(tol=1e-8).fit(X, y)
    assert model.coef_.shape == (3, 4)
    verdict = certify(model, X, y)
    assert len(verdict.certificates) == 3
    assert verdict.relative_gap <= 1e-8
    for k in range(3):
        single = type(model)(**model.get_params()).fit(X, y == k)
        assert model.solutions_[k].certificate.primal == pytest.approx(single.objective_, rel=2e-8)


def test_storage_and_repeated_samples_do_not_matter(two):
    X, y = two
    repeats = np.random.default_rng(1).integers(0, 4, y.size)
    for model in (LinearSVC("l1", C=C, tol=1e-6), LogisticRegression(C=C, l1_ratio=0.6, tol=1e-6)):
        value = model.fit(X, y, repeats).objective_
        assert model.fit(csr_array(X), y, repeats).objective_ == pytest.approx(value, rel=2e-6)
        assert model.fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats)).objective_ == pytest.approx(
            value, rel=2e-6
        )


def test_columns_as_they_come():
    """Scales from 1e-3 to 1e3: the bound that L1 sets to the dual is met late, and the estimate must not hide that."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LinearSVC(penalty="l1", max_time=60.0).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert certify(model, X, y).relative_gap <= model.tol


def test_a_fit_that_is_cut_short_says_so(two):
    X, y = two
    model = LinearSVC(penalty="l1", max_iter=2, warm_start=True)
    with pytest.warns(UserWarning, match="Stopped at the iteration limit"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert certify(model, X, y).relative_gap == pytest.approx(model.duality_gap_, rel=1e-6)
    assert model.duality_gap_ > model.tol
    model.set_params(max_iter=-1).fit(X, y)
    assert model.status_ is Status.CONVERGED


def test_probabilities_of_a_sparse_machine(two):
    X, y = two
    model = LinearSVC(penalty="l1", probability=True).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearSVC(penalty="l1", dual=True), "dual=True contradicts penalty='l1'"),
        (LinearSVC(penalty="l1", loss="hinge"), "is a linear program, which 'auto' does not choose a solver for"),
        (LinearSVC(penalty="l1", solver="newton"), "L2 penalty; this problem has L1"),
        (LogisticRegression("l1"), "no solver in this version for 3 classes at once; use multi_class='ovr'"),
        (LogisticRegression("l1", multi_class="ovr", dual=True), "dual=True contradicts an L1 norm"),
        (LogisticRegression("l1", multi_class="ovr", solver="newton"), "L2 penalty; this problem has L1"),
        (LogisticRegression("elasticnet", l1_ratio=None), "penalty='elasticnet' needs an l1_ratio between 0 and 1"),
    ],
    ids=repr,
)
def test_refusals(model, message, three):
    with pytest.raises(ValueError, match=message):
        model.fit(*three)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    "model", [LogisticRegression("l2"), LogisticRegression("elasticnet"), LogisticRegression("deprecated")]
)
def test_an_elastic_net_without_an_l1_part_is_the_l2_penalty(model, three):
    X, y = three
    assert model.fit(X, y).objective_ == LogisticRegression().fit(X, y).objective_


def test_certify_refuses_an_l1_norm_of_all_classes_at_once(three):
    X, y = three
    theirs = fitted_by_scikit_learn(sklearn.linear_model.LogisticRegression(l1_ratio=1.0, solver="saga"), X, y)
    with pytest.raises(ValueError, match="at once with the L2 penalty; this one has 3 classes and the penalty"):
        certify(theirs, X, y)
