"""``positive=`` and ``bounds=`` of the linear machines: the optimum within limits, its proof, and what is refused."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csc_array, csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import referee
from maxmargin import LinearSVC, LinearSVR, LogisticRegression, Status, certify, explain_solver

WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, 200)
LIMITS = [{"positive": True}, {"bounds": (-0.1, 0.05)}, {"bounds": (np.r_[-0.1, 0.0, np.full(13, -np.inf)], np.inf)}]


@pytest.fixture(scope="module")
def two():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200, ::2], y[:200]


@pytest.fixture(scope="module")
def targets():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200] / y.std()


def ends(settings, d):
    low, high = settings.get("bounds", (0.0, np.inf))
    return np.broadcast_to(low, d).astype(float), np.broadcast_to(high, d).astype(float)


def judged(model, X, y, loss, ratio, intercept):
    """The referee's verdict on a fit with ``C = 0.1`` and `WEIGHTS`."""
    penalty = ("bounded", 1.0, ratio, *ends(model.get_params() if model.bounds is not None else {}, X.shape[1]))
    case = referee.Machine(y, 0.1 * WEIGHTS, loss, penalty, X, intercept=intercept)
    alpha = referee.repaired(case, model.solution_.point.alpha)
    coef, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    return referee.judge(case, coef, b, alpha)


MODELS = [
    (LinearSVC, {}, ("squared hinge", 1.0), 0.0),
    (LinearSVC, {"penalty": "l1"}, ("squared hinge", 1.0), 1.0),
    (LinearSVC, {"loss": "hinge"}, ("hinge", 1.0), 0.0),
    (LogisticRegression, {"l1_ratio": 0.4}, ("logistic", 1.0), 0.4),
    (LogisticRegression, {}, ("logistic", 1.0), 0.0),
]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize(("kind", "settings", "loss", "ratio"), MODELS, ids=str)
def test_classifiers_within_limits(kind, settings, loss, ratio, intercept, limits, two):
    X, y = two
    tol = 1e-6
    model = kind(C=0.1, tol=tol, intercept=intercept, **settings, **limits).fit(X, y, WEIGHTS)
    assert model.status_ is Status.CONVERGED
    low, high = ends(limits, X.shape[1])
    assert ((low <= model.coef_) & (model.coef_ <= high)).all()
    verdict = judged(model, X, 2.0 * y - 1.0, loss, ratio, intercept)
    assert verdict.infeasibility <= 1e-12
    assert -1e-12 <= verdict.relative_gap <= tol + 1e-12
    assert model.objective_ == pytest.approx(verdict.primal, rel=1e-12)
    again = certify(model, X, y, WEIGHTS)
    assert again.relative_gap <= tol
    assert "within limits" in again.problem
    free = kind(C=0.1, tol=1e-6, intercept=intercept, **settings).fit(X, y, WEIGHTS)
    assert model.objective_ >= free.dual_objective_


@pytest.mark.parametrize("limits", LIMITS[:2], ids=str)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression_within_limits(loss, limits, targets):
    X, y = targets
    model = LinearSVR(C=0.1, epsilon=0.2, loss=loss, tol=1e-6, intercept="free", **limits).fit(X, y, WEIGHTS)
    low, high = ends(limits, X.shape[1])
    assert ((low <= model.coef_) & (model.coef_ <= high)).all()
    name = "epsilon" if loss == "epsilon_insensitive" else "squared epsilon"
    verdict = judged(model, X, y, (name, 0.2), 0.0, "free")
    assert -1e-12 <= verdict.relative_gap <= 1e-6 + 1e-12
    assert certify(model, X, y, WEIGHTS).relative_gap <= 1e-6


def test_the_optimum_is_that_of_scipy(two):
    """L-BFGS-B knows bounds."""
    X, y = two
    signs = 2.0 * y - 1.0

    def value(w):
        z = signs * (X @ w)
        gradient = w - X.T @ (signs / (1.0 + np.exp(z)))
        return 0.5 * w @ w + np.logaddexp(0.0, -z).sum(), gradient

    theirs = minimize(value, np.zeros(15), jac=True, bounds=[(-0.2, 0.1)] * 15, options={"ftol": 1e-15, "gtol": 1e-10})
    ours = LogisticRegression(bounds=(-0.2, 0.1), fit_intercept=False, tol=1e-10).fit(X, y)
    assert ours.objective_ == pytest.approx(theirs.fun, rel=1e-9)
    np.testing.assert_allclose(ours.coef_[0], theirs.x, atol=1e-5)


def test_limits_that_do_not_bind_change_nothing(two):
    X, y = two
    free = LinearSVC(tol=1e-10).fit(X, y)
    wide = LinearSVC(tol=1e-10, bounds=(-100.0, 100.0)).fit(X, y)
    np.testing.assert_allclose(wide.coef_, free.coef_, atol=1e-5)
    closed = LinearSVC(tol=1e-10, bounds=(0.0, 0.0)).fit(X, y)
    assert not closed.coef_.any()
    assert closed.status_ is Status.CONVERGED


def test_storage_and_classes(two):
    X, y = two
    model = LogisticRegression(positive=True, tol=1e-8)
    value = model.fit(X, y).objective_
    for layout in (csr_array, csc_array, np.asfortranarray):
        assert model.fit(layout(X), y).objective_ == pytest.approx(value, rel=2e-8)
    X, y = load_iris(return_X_y=True)
    several = LinearSVC(positive=True, tol=1e-6).fit(X, y)
    assert (several.coef_ >= 0.0).all()
    threads = [LinearSVC(penalty="l1", n_jobs=n).fit(X, y).coef_.tobytes() for n in (1, 2)]
    assert threads[0] == threads[1]


def test_auto_says_who_solves_it(two):
    X, y = two
    assert "'proximal_newton'" in str(explain_solver(LinearSVC(positive=True), X, y))
    assert LinearSVC(loss="hinge", positive=True).fit(X, y).solution_.solver == "interior_point"
    assert LinearSVC(positive=True, solver="smoothed").fit(X, y).solution_.solver == "smoothed"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearSVC(bounds=(0.5, 1.0)), "lower end of at most 0 and an upper one of at least 0"),
        (LinearSVC(bounds=(np.zeros(3), 1.0)), "a pair of numbers or of arrays of 4 numbers"),
        (LinearSVR(positive=True, dual=True), "dual=True contradicts positive=True and bounds"),
        (LogisticRegression(positive=True, dual=True, multi_class="ovr"), "dual=True contradicts positive=True"),
        (LogisticRegression(positive=True), "3 classes at once; use multi_class='ovr'"),
        (LinearSVC(positive=True, solver="newton"), "L2 penalty; this problem has Bounded"),
        (LinearSVC(loss="hinge", positive=True, solver="proximal_newton"), "cannot solve this problem of LinearSVC"),
    ],
    ids=repr,
)
def test_refusals(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*load_iris(return_X_y=True))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    "model",
    [LinearSVR(positive=True), LinearSVC(loss="hinge", bounds=(-0.05, 0.3))],
    ids=str,
)
def test_few_data_are_solved_to_the_last_digits(model):
    """Two copies have two barriers, a weight of 2 has one: paths to the optimum differ, and models must not."""
    rng = np.random.default_rng(3)
    X, weights = rng.normal(size=(30, 8)), rng.integers(0, 4, size=30)
    y = np.sign(X[:, 0] + rng.normal(size=30)) if isinstance(model, LinearSVC) else X[:, 0] + rng.normal(size=30)
    weighted = clone(model).set_params(solver="interior_point").fit(X, y, weights)
    copied = clone(weighted).fit(X.repeat(weights, axis=0), y.repeat(weights))
    gaps = [found.solution_.certificate.relative_gap for found in (weighted, copied)]
    assert max(gaps) <= 1e-11 < weighted.tol
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-8)
    with pytest.warns(ConvergenceWarning):
        early = clone(weighted).set_params(tol=1e-11, max_iter=weighted.n_iter_ - 2).fit(X, y, weights)
    assert early.n_iter_ == weighted.n_iter_ - 2  # max_iter counts each of the steps
