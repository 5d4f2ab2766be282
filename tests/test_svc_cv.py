"""Cross-validation along C: the scores of GridSearchCV, leave-one-out, rules, scorers, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import balanced_accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from maxmargin import SVC, SVCCV, SVR, SVRCV, LinearSVCCV, Status, certify, leave_one_out
from maxmargin.estimators._machinery import kernel_selection
from maxmargin.operators import PrecomputedGram
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.problem import Problem
from maxmargin.solvers.kernels import strengths
from maxmargin.threads import GivenUp, given_up_if

CS, GAMMAS = np.geomspace(1e-2, 1e4, 7), np.geomspace(1e-3, 1.0, 4)


def two_classes(n=150, seed=0):
    X, y = make_classification(n, 5, n_informative=4, n_redundant=0, flip_y=0.15, random_state=seed)
    return X, np.where(y > 0, "yes", "no")


def target(X, seed=0):
    return np.sin(X[:, 0]) + 0.2 * np.random.default_rng(seed).normal(size=len(X))


def by_params(search):
    names = sorted(search.best_params_)
    return {
        tuple(round(float(np.log10(p[name])), 6) for name in names): s
        for p, s in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    }


def assert_same_scores(ours, theirs, within):
    one, other = by_params(ours), by_params(theirs)
    assert one.keys() == other.keys()
    assert max(abs(one[key] - other[key]) for key in one) <= within


def test_the_scores_are_those_of_a_grid_search():
    """Item 0-38 in use: one fit is followed along C, and the scores are those of a fit for each candidate."""
    X, y = two_classes()
    folds = StratifiedKFold(4)
    ours = SVCCV(CS, GAMMAS, cv=folds, tol=1e-6).fit(X, y)
    theirs = GridSearchCV(sklearn.svm.SVC(), {"C": CS, "gamma": GAMMAS}, cv=folds).fit(X, y)
    assert_same_scores(ours, theirs, 0.01)
    assert list(ours.cv_results_["params"]) == list(theirs.cv_results_["params"])
    assert set(theirs.cv_results_) <= set(ours.cv_results_)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=0.01)
    assert ours.status_ is Status.CONVERGED
    assert ours.duality_gap_ <= 1e-6
    assert certify(ours, X, y).relative_gap <= 1e-6
    again = SVC(C=ours.C_, gamma=ours.gamma_, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), again.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), again.decision_function(X))


@pytest.mark.parametrize("kernel", ["linear", "poly", "laplacian", "precomputed"])
def test_kernels(kernel):
    X, y = two_classes(80)
    data, folds = (X @ X.T if kernel == "precomputed" else X), KFold(3)
    gammas = None if kernel in ("linear", "precomputed") else [0.05, 0.2]
    ours = SVCCV([0.01, 0.1, 1.0], gammas, kernel=kernel, degree=2, coef0=1.0, cv=folds).fit(data, y)
    if kernel != "laplacian":
        grid = {"C": [0.01, 0.1, 1.0]} | ({"gamma": gammas} if gammas else {})
        theirs = GridSearchCV(sklearn.svm.SVC(kernel=kernel, degree=2, coef0=1.0), grid, cv=folds).fit(data, y)
        assert_same_scores(ours, theirs, 0.02)
    assert ours.best_score_ > 0.6


def test_several_classes_weights_and_sparse_rows():
    X, y = load_iris(return_X_y=True)
    s = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = SVCCV(CS[1:4], GAMMAS[1:], cv=folds, class_weight={0: 2.0}).fit(sp.csr_array(X), y, s)
    theirs = GridSearchCV(sklearn.svm.SVC(class_weight={0: 2.0}), {"C": CS[1:4], "gamma": GAMMAS[1:]}, cv=folds)
    assert_same_scores(ours, theirs.fit(X, y, sample_weight=s), 0.02)
    assert ours.decision_function(X).shape == (150, 3)


@pytest.mark.parametrize("scoring", ["roc_auc", "f1_macro", make_scorer(balanced_accuracy_score)])
def test_any_scorer(scoring):
    X, y = two_classes(100)
    folds = StratifiedKFold(3)
    ours = SVCCV(CS[2:5], GAMMAS[1:3], cv=folds, scoring=scoring).fit(X, y)
    grid = {"C": CS[2:5], "gamma": GAMMAS[1:3]}
    theirs = GridSearchCV(sklearn.svm.SVC(), grid, cv=folds, scoring=scoring).fit(X, y)
    assert_same_scores(ours, theirs, 0.02)


def test_leave_one_out_is_exact():
    X, y = two_classes(60)
    ours = SVCCV([0.5, 5.0], [0.1, 0.3], cv="loo").fit(X, y)
    for params, score in zip(ours.cv_results_["params"], ours.cv_results_["mean_test_score"], strict=True):
        scores = leave_one_out(SVC(**params, tol=1e-8).fit(X, y), X, y)
        assert score == pytest.approx(np.mean((scores > 0.0) == (y == "yes")), abs=0.02)
    X, y = load_iris(return_X_y=True)
    assert SVCCV([1.0], [0.3], cv="loo").fit(X[::2], y[::2]).best_score_ > 0.9


def test_the_exact_path_gives_the_same_scores():
    """Item 0-44: from a hundred values of C on, one path takes less time than so many fits."""
    X, y = two_classes(60)
    many = np.geomspace(1e-2, 1e3, kernel_selection.MANY_STRENGTHS)
    path = SVCCV(many, [0.1], cv=3).fit(X, y)
    fits = SVCCV(many[:-1], [0.1], cv=3).fit(X, y)
    difference = path.cv_results_["mean_test_score"][:-1] - fits.cv_results_["mean_test_score"]
    assert np.abs(difference).max() <= 0.02


def test_one_standard_error():
    X, y = two_classes(120)
    best, simple = (SVCCV(CS, GAMMAS, cv=5, rule=rule).fit(X, y) for rule in ("best", "one_se"))
    k = simple.cv_results_["std_test_score"][best.best_index_] / np.sqrt(4)
    assert simple.C_ <= best.C_
    assert simple.best_score_ >= best.best_score_ - k
    results = zip(best.cv_results_["params"], best.cv_results_["mean_test_score"], strict=True)
    smaller = [score for params, score in results if params["C"] < simple.C_]
    assert all(score < best.best_score_ - k for score in smaller)
    assert SVCCV([0.1, 1.0, 10.0], [0.1], cv="loo", rule="one_se").fit(X[:50], y[:50]).C_ <= 10.0


def test_regression():
    X, _ = two_classes(100)
    t, folds = target(X), KFold(4)
    ours = SVRCV(CS[1:5], GAMMAS, epsilon=0.1, cv=folds, tol=1e-6).fit(X, t)
    theirs = GridSearchCV(sklearn.svm.SVR(epsilon=0.1), {"C": CS[1:5], "gamma": GAMMAS}, cv=folds).fit(X, t)
    assert_same_scores(ours, theirs, 0.01)
    assert ours.duality_gap_ <= 1e-6
    loo = SVRCV([1.0], [0.1], epsilon=0.1, cv="loo").fit(X, t)
    scores = leave_one_out(SVR(C=1.0, gamma=0.1, tol=1e-9).fit(X, t), X, t)
    r2 = 1.0 - ((t - scores) ** 2).sum() / ((t - t.mean()) ** 2).sum()
    assert loo.best_score_ == pytest.approx(r2, abs=1e-3)
    one = SVRCV([1.0], [0.1], scoring="neg_mean_absolute_error").fit(X, t)
    assert one.best_score_ < 0.0


def test_linear():
    X, y = two_classes(150)
    ours = LinearSVCCV([0.01, 0.1, 1.0], loss="hinge", intercept="free", cv=StratifiedKFold(4), tol=1e-6).fit(X, y)
    grid = {"C": [0.01, 0.1, 1.0]}
    theirs = GridSearchCV(sklearn.svm.SVC(kernel="linear"), grid, cv=StratifiedKFold(4)).fit(X, y)
    assert_same_scores(ours, theirs, 0.01)
    assert ours.coef_.shape == (1, 5)
    loo = LinearSVCCV([0.1, 1.0], loss="hinge", intercept="free", cv="loo").fit(X[:60], y[:60])
    scores = leave_one_out(SVC(C=loo.C_, kernel="linear", tol=1e-8).fit(X[:60], y[:60]), X[:60], y[:60])
    assert loo.best_score_ == pytest.approx(np.mean((scores > 0.0) == (y[:60] == "yes")), abs=0.02)
    with pytest.raises(ValueError, match="is for two classes"):
        LinearSVCCV(cv="loo").fit(X, y)


def test_many_threads_change_no_bit():
    X, y = two_classes(100)
    one, two = (SVCCV(CS, GAMMAS, cv=3, n_jobs=k).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


@pytest.mark.parametrize("factorisations", [1e-9, 1e18])
def test_pairs_and_the_active_set_agree_along_the_strengths(monkeypatch, factorisations):
    """Without a budget the active set does it all, with an endless one the pairs do."""
    monkeypatch.setattr(strengths, "FACTORISATIONS", factorisations)
    X, y = two_classes(80)
    K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    signs = np.where(y == "yes", 1.0, -1.0)
    qp = BoxQP.of(Problem(PrecomputedGram(K), signs, Hinge(), L2(1.0), np.ones(80)))
    alpha, b = strengths.along_strengths(qp, K, CS, 1e-6)
    for k, C in enumerate(CS):
        exact = SVC(C=C, kernel="precomputed", tol=1e-10).fit(K, signs)
        np.testing.assert_allclose(alpha[k] @ K + b[k], exact.decision_function(K), atol=1e-3)
        assert np.abs(alpha[k]).max() <= C
        assert abs(alpha[k].sum()) <= 1e-9 * np.abs(alpha[k]).sum()


def test_defaults_and_small_classes():
    X, y = two_classes(60)
    model = SVCCV().fit(X, y)
    assert len(model.cv_results_["params"]) == 12 * 6
    few = SVCCV(Cs=2, gammas=1).fit(X[:12], np.array([0] * 9 + [1] * 3))
    assert "split2_test_score" in few.cv_results_
    assert "split3_test_score" not in few.cv_results_


def test_what_is_refused():
    X, y = two_classes(40)
    with pytest.raises(ValueError, match="gammas has no meaning"):
        SVCCV(kernel="linear", gammas=[1.0]).fit(X, y)
    with pytest.raises(ValueError, match="must hold positive numbers"):
        SVCCV(Cs=[-1.0]).fit(X, y)
    with pytest.raises(ValueError, match="is no number of values"):
        SVCCV(Cs=0).fit(X, y)
    with pytest.raises(ValueError, match="cache_size is"):
        SVCCV(cache_size=1e-3).fit(X, y)
    with pytest.raises(ValueError, match="needs the spread of scores"):
        SVCCV(cv="loo", rule="one_se", scoring="roc_auc").fit(X, y)
    with pytest.raises(ValueError, match="separates at least 2 classes"):
        SVCCV().fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="rule"):
        SVCCV(rule="worst").fit(X, y)


def test_the_surface_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y = two_classes(60)
    axes = SVCCV(CS, GAMMAS, cv=3).fit(X, y).plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("C", "gamma")
    pyplot.close(axes.figure)
    axes = LinearSVCCV(Cs=3, cv=3).fit(X, y).plot()
    assert axes.get_ylabel() == "mean score"
    pyplot.close(axes.figure)


def noisy(K, Z):
    """A program of the hinge over a matrix."""
    y = np.where(Z[:, 0] > 0.3, 1.0, -1.0)
    return BoxQP.of(Problem(PrecomputedGram(K), y, Hinge(), L2(1.0), np.ones(y.size), "free"))


@pytest.mark.parametrize("kind", ["indefinite", "large values"])
def test_folds_without_an_end_are_left_as_they_are(kind, monkeypatch):
    """Issue 27, B9: no loop without a bound, also where values round more than what would be enough."""
    rng = np.random.default_rng(3)
    Z, G = rng.normal(size=(38, 3)), rng.normal(size=(38, 38))
    K = 1e12 * Z @ Z.T if kind == "large values" else G + G.T
    monkeypatch.setattr(strengths, "LAST_PIECES", 3)
    expansions, b = strengths.along_strengths(noisy(K, Z), K, np.array([1e-3, 1.0, 1e3, 1e6]), 1e-3)
    assert np.isfinite(expansions).all()
    assert np.isfinite(b).all()


def test_folds_can_be_given_up_between_the_pieces_of_a_value(monkeypatch):
    pieces, Z = [], np.random.default_rng(3).normal(size=(38, 3))

    def without_progress(*arguments):
        pieces.append(1)
        return arguments[8]

    monkeypatch.setattr(strengths, "_pairs_along", without_progress)
    monkeypatch.setattr(strengths, "_active_set_along", lambda *arguments: (arguments[4], False))
    qp, Cs = noisy(Z @ Z.T, Z), np.array([1.0, 2.0])
    strengths.along_strengths(qp, qp.gram.K, Cs, 1e-3)
    assert len(pieces) == (1 + strengths.LAST_PIECES) * Cs.size
    pieces.clear()
    with pytest.raises(GivenUp), given_up_if(lambda: len(pieces) >= 3):
        strengths.along_strengths(qp, qp.gram.K, Cs, 1e-3)
    assert len(pieces) == 3
