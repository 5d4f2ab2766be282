"""Rows far from the origin: solvers see them from their middle, certificates as they were given."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.svm import LinearSVC as TheirLinearSVC

from maxmargin import (
    SVC,
    SVR,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVR,
    OneClassSVM,
    Problem,
    Status,
    certify,
    minimize,
)
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.solvers import Newton
from maxmargin.solvers.recentred import Recentred, far_middle, moved_to_middle, recentred

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(80, 3))
CLASSES = (Z[:, 0] + 0.5 * RNG.normal(size=80) > 0).astype(int)
TARGETS = Z[:, 0] + 0.3 * RNG.normal(size=80)
LINE, HALVES = 1e8 + np.arange(4.0)[:, None], np.array([0, 0, 1, 1])

MACHINES = {
    "auto": (SVC(kernel="linear"), CLASSES),
    "pairs": (SVC(kernel="linear", solver="smo"), CLASSES),
    "blocks of pairs": (SVC(kernel="linear", solver="decomposition"), CLASSES),
    "squares": (SVC(kernel="linear", solver="decomposition", loss="squared_hinge"), CLASSES),
    "each against the rest": (
        SVC(kernel="linear", solver="decomposition", multi_class="ovr"),
        np.digitize(TARGETS, [-0.4, 0.4]),
    ),
    "tube": (SVR(kernel="linear", solver="decomposition"), TARGETS),
    "nu tube": (NuSVR(kernel="linear"), TARGETS),
    "rows": (LinearSVC(loss="hinge", intercept="free", solver="newton"), CLASSES),
    "rows of a tube": (LinearSVR(intercept="free"), TARGETS),
    "logistic": (LogisticRegression(intercept="free"), CLASSES),
}


@pytest.mark.parametrize("offset", [1e8, -1e9])
@pytest.mark.parametrize("name", MACHINES)
def test_an_offset_changes_nothing_but_the_last_digits(name, offset):
    """Issue 27, A3: linear machines at 1e8 and 1e9 end at the optimum of the same rows without the offset."""
    model, y = MACHINES[name]
    far = Z + offset
    near = model.set_params(tol=1e-3).fit(far - offset, y).objective_
    model.fit(far, y)
    verdict = certify(model, far, y)
    assert model.status_ is Status.CONVERGED
    assert verdict.relative_gap <= 2e-3
    assert model.objective_ == pytest.approx(near, rel=2e-3)
    scores = (model.predict if y is TARGETS else model.decision_function)(far)
    assert np.ptp(scores) > 0.5  # a function of the rows, not of their offset
    by_hand = (far - offset) @ model.coef_.reshape(-1, 3).T + (offset * model.coef_.reshape(-1, 3).sum(axis=1))
    np.testing.assert_allclose(scores.reshape(80, -1), by_hand + model.intercept_, atol=1e-5)


@pytest.mark.parametrize("solver", ["auto", "decomposition", "block_smo", "active_set", "saddle", "gilbert"])
@pytest.mark.parametrize("rows", ["line", "eight"])
def test_hard_margins_far_away_are_found(solver, rows):
    """Issue 27, A5: hulls 1e8 away that are apart are told apart, and every sample is on its side."""
    X, y = (LINE, HALVES) if rows == "line" else (1e8 + Z[:4], HALVES)
    model = SVC(kernel="linear", C=math.inf, solver=solver).fit(X, y)
    assert model.status_ is Status.CONVERGED
    np.testing.assert_array_equal(model.predict(X), y)
    if rows == "line":
        assert model.solution_.certificate.primal == pytest.approx(-0.5, rel=1e-3)


def test_a_warm_start_goes_on_where_the_fit_ended():
    model = SVC(kernel="linear", solver="decomposition", tol=1e-5, warm_start=True)
    first = model.fit(Z + 1e6, CLASSES).solution_.iterations
    again = model.fit(Z + 1e6, CLASSES).solution_
    assert again.status is Status.CONVERGED
    assert again.iterations <= 1 < first
    rows = LinearSVC(loss="hinge", intercept="free", solver="newton", tol=1e-5, warm_start=True).fit(Z + 1e6, CLASSES)
    assert rows.fit(Z + 1e6, CLASSES).solution_.iterations <= 1


def test_only_what_feels_no_translation_is_moved():
    y, s = np.where(CLASSES > 0, 1.0, -1.0), np.ones(80)
    free, tied, near = (
        Problem(Rows(Z + offset), y, Hinge(), L2(1.0), s, intercept)
        for offset, intercept in ((1e6, "free"), (1e6, "penalised"), (1.0, "free"))
    )
    assert moved_to_middle(free) is moved_to_middle(free)
    assert np.abs(moved_to_middle(free).problem.operator.matrix).max() < 10.0
    assert moved_to_middle(near) is None
    assert moved_to_middle(tied) is None
    assert isinstance(recentred(Newton(), free), Recentred)
    assert recentred(Newton(), tied) == Newton()
    with pytest.warns(UserWarning, match="one-class|OneClassSVM"):  # it feels where the origin is
        assert OneClassSVM(kernel="linear", nu=0.5, tol=1e-12, max_iter=0).fit(Z + 1e6).objective_ < -1e12


def test_only_columns_that_are_far_are_moved():
    X = np.column_stack([Z[:, 0], 1e5 + Z[:, 1], np.zeros(80), np.full(80, 7e6)])
    np.testing.assert_array_equal(far_middle(X) != 0.0, [False, True, False, True])
    X[41, 1] = -1e9  # a row that is not among the first that are looked at
    assert far_middle(X) is None  # and beside that no constant is large
    assert far_middle(Z) is None
    assert far_middle(np.column_stack([Z, np.ones(80)])) is None  # a column of ones is no reason for a copy
    assert far_middle(np.full((80, 2), 3.0)) is None


@pytest.mark.parametrize("solver", ["newton", "decomposition"])
def test_sparse_rows_are_moved_where_they_have_all_entries(solver):
    """A column that is far from zero has no zeros, and others stay as they are."""
    X = csr_array(np.column_stack([Z + 1e8, np.where(Z[:, 0] > 1.0, Z[:, 1], 0.0)]))
    np.testing.assert_array_equal(far_middle(X) != 0.0, [True, True, True, False])
    sparse, dense = (SVC(kernel="linear", solver=solver).fit(rows, CLASSES) for rows in (X, X.toarray()))
    assert sparse.status_ is dense.status_ is Status.CONVERGED
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-3)
    assert certify(sparse, X, CLASSES).relative_gap <= 2e-3


def test_models_of_others_and_probabilities_far_from_the_origin():
    """`certify` finds dual variables for a model that has none, and folds are solved, where the rows are seen from."""
    near = LinearSVC(intercept="free", loss="hinge", tol=1e-6).fit(Z, CLASSES)
    w, b = near.coef_[0], near.intercept_[0]
    theirs = TheirLinearSVC(loss="hinge", intercept_scaling=1e9)
    theirs.classes_, theirs.coef_, theirs.intercept_ = np.array([0, 1]), near.coef_, near.intercept_ - 1e8 * w.sum()
    theirs.n_features_in_ = 3
    assert certify(theirs, Z + 1e8, CLASSES).certificates[0].dual > 0.0
    model = SVC(kernel="linear", probability=True).fit(Z + 1e8, CLASSES)
    sure = model.predict_proba(Z + 1e8)[:, 1]
    assert np.corrcoef(sure, Z @ w + b)[0, 1] > 0.9


def test_the_name_of_the_solver_is_that_of_the_one_at_work():
    problem = Problem(Rows(Z + 1e6), np.where(CLASSES > 0, 1.0, -1.0), Hinge(), L2(1.0), np.ones(80))
    solution = minimize(problem, Recentred(Newton()), tol=1e-6)
    assert (solution.solver, solution.status) == ("newton", Status.CONVERGED)
    alone = minimize(problem, Newton(), tol=1e-6, max_iter=solution.iterations)
    assert solution.certificate.relative_gap <= 1e-6 <= alone.certificate.relative_gap
