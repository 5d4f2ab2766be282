"""Optimality for people: `kkt_report`, `margin_` and `slacks_`."""

import copy
import pickle

import numpy as np
import pytest
import sklearn.svm as peers
from sklearn.datasets import make_classification

from maxmargin import (
    SVC,
    SVR,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    certify,
    kkt_report,
    load_planets,
)

RNG = np.random.default_rng(0)
X, LABELS = make_classification(90, 4, n_informative=3, n_redundant=0, flip_y=0.2, random_state=0)
Y = np.where(LABELS > 0, 1.0, -1.0)
T = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=90)
WEIGHTS = RNG.uniform(0.2, 3.0, size=90)
APART, THREE = X + 3.0 * Y[:, None], np.digitize(X[:, 0], [-1.0, 1.0])
MACHINES = [
    (SVC(C=5.0), X, Y, WEIGHTS),
    (SVC(C=5.0, kernel="linear"), X, Y, None),
    (SVC(C=5.0, loss="squared_hinge"), X, Y, WEIGHTS),
    (SVC(C=5.0, intercept=None), X, Y, None),
    (SVC(C=5.0, intercept="penalised"), X, Y, None),
    (SVC(C=5.0, multi_class="ovr", class_weight={0: 2.0}), X, THREE, None),
    (SVC(C=5.0), X, THREE, WEIGHTS),
    (SVC(C=np.inf), APART, Y, None),
    (SVC(C=np.inf, kernel="linear"), APART, Y, np.where(WEIGHTS < 0.5, 0.0, 1.0)),
    (NuSVC(nu=0.4), X, Y, WEIGHTS),
    (NuSVC(nu=0.95, class_weight="balanced", kernel="linear"), X, Y, None),
    (SVR(C=5.0), X, T, WEIGHTS),
    (SVR(C=5.0, kernel="linear"), X, T, None),
    (SVR(C=5.0, loss="squared_epsilon_insensitive"), X, T, WEIGHTS),
    (NuSVR(C=5.0, nu=0.4), X, T, WEIGHTS),
    (OneClassSVM(nu=0.3), X, None, WEIGHTS),
    (LinearSVC(), X, Y, WEIGHTS),
    (LinearSVC(loss="hinge"), X, THREE, None),
    (LinearSVR(), X, T, None),
    (peers.SVC(C=5.0), X, Y, WEIGHTS),
    (peers.NuSVC(nu=0.4), X, Y, None),
    (peers.SVR(), X, T, None),
    (peers.NuSVR(), X, T, None),
    (peers.OneClassSVM(nu=0.3), X, None, None),
    (peers.LinearSVC(), X, Y, None),
]
NAMES = [f"{type(m).__module__.split('.')[0]} {type(m).__name__} {number}" for number, (m, *_) in enumerate(MACHINES)]


def fitted(model, data, y, s, **parameters):
    model = copy.deepcopy(model).set_params(**parameters)
    return model.fit(data, sample_weight=s) if y is None else model.fit(data, y, sample_weight=s)


@pytest.mark.parametrize(("model", "data", "y", "s"), MACHINES, ids=NAMES)
@pytest.mark.parametrize("tol", [1e-2, 1e-8])
def test_what_the_rows_miss_adds_up_to_the_gap(model, data, y, s, tol):
    """Items 0-39 and 0-40: complementarity, box, equality and stationarity are zero at the optimum, and only there."""
    model = fitted(model, data, y, s, tol=tol)
    report = kkt_report(model, data, y, s)
    for conditions, certificate in zip(report.problems, certify(model, data, y, s).certificates, strict=True):
        found = conditions.residuals
        size = max(abs(certificate.primal), abs(certificate.dual))
        assert found["0 <= a <= C"].value <= 1e-9 * float(conditions.alpha.max())
        assert all(residual.value <= 1e-7 * size for name, residual in found.items() if name.startswith("sum"))
        rest = 0.5 * found["w = sum a y x"].value ** 2
        assert conditions.shares.sum() + rest == pytest.approx(certificate.gap, rel=1e-6, abs=1e-9 * size)
        rows = np.concatenate(conditions.partition)
        np.testing.assert_array_equal(np.sort(rows), np.sort(conditions.rows))
        if certificate.relative_gap <= 1e-8:
            assert conditions.shares.max() <= 1e-7 * size
            assert conditions.violation <= 1e-2


def test_the_report_is_what_numpy_says():
    """Items 0-39, 0-40 and 4-12, by their formulas; with the midpoint as intercept, violation is ``(m - M) / 2``."""
    model = SVC(C=2.0, gamma=0.3, tol=1e-3).fit(X, Y)
    a = np.zeros(90)
    a[model.support_] = model.dual_coef_[0] * Y[model.support_]
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    slopes = Y - K @ (a * Y)
    rises, falls = np.where(Y > 0, a < 2.0, a > 0.0), np.where(Y > 0, a > 0.0, a < 2.0)
    m, M = slopes[rises].max(), slopes[falls].min()
    model.intercept_ = np.array([0.5 * (m + M)])
    report = kkt_report(model, X, Y)
    margin = Y * (K @ (a * Y) + model.intercept_[0])
    xi, surplus = np.maximum(1.0 - margin, 0.0), np.maximum(margin - 1.0, 0.0)
    assert report.violation == pytest.approx(0.5 * (m - M), rel=1e-9)
    assert report.residuals["a s = 0"].value == pytest.approx((a * surplus).max(), rel=1e-9)
    assert report.residuals["(C - a) xi = 0"].value == pytest.approx(((2.0 - a) * xi).max(), rel=1e-9)
    assert report.residuals["(C - a) xi = 0"].row == np.argmax((2.0 - a) * xi)
    assert report.residuals["sum a y = 0"].value == pytest.approx(abs(a @ Y), abs=1e-14)
    np.testing.assert_allclose(report.slacks, xi, atol=1e-12)
    np.testing.assert_allclose(report[0].surplus, surplus, atol=1e-12)
    np.testing.assert_allclose(report[0].alpha, a)
    np.testing.assert_array_equal(report[0].reach, 2.0)
    zero, free, bound = report.partition
    np.testing.assert_array_equal(zero, np.flatnonzero(a == 0.0))
    np.testing.assert_array_equal(bound, np.flatnonzero(a == 2.0))
    np.testing.assert_array_equal(free, np.flatnonzero((a > 0.0) & (a < 2.0)))
    assert report.worst_rows(1)[0] == np.argmax(a * surplus + (2.0 - a) * xi)


@pytest.mark.parametrize("kind", [SVC, peers.SVC])
def test_a_model_that_is_not_optimal_is_seen_to_be_so(kind):
    model = kind(C=2.0, tol=1e-8).fit(X, Y)
    assert kkt_report(model, X, Y).violation < 1e-5
    moved = copy.deepcopy(model)
    moved.intercept_ = moved.intercept_ + 0.25
    assert kkt_report(moved, X, Y).violation == pytest.approx(0.25, abs=1e-4)
    report = kkt_report(model, X, np.where(np.arange(90) == 7, -Y, Y))  # another label: its variable has a wrong sign
    assert report.residuals["0 <= a <= C"].row in (7, None)
    assert report.relative_gap > 1e-3
    beyond = kind(C=2.0, tol=1e-8).fit(X, Y).set_params(C=1.0)
    assert kkt_report(beyond, X, Y).residuals["0 <= a <= C"].value == pytest.approx(1.0)


def test_reports_are_for_people():
    """The table in a terminal and in a notebook; what slacks mean (item 4-04)."""
    model = SVC(C=5.0).fit(X, THREE)
    report = kkt_report(model, X, THREE)
    assert len(report) == 3
    text = repr(report)
    for word in (
        "KKT conditions of SVC, the worst of 3 problems",
        "duality gap",
        "with 0 < a < C",
        "worst rows",
        "row ",
    ):
        assert word in text
    html = report._repr_html_()
    assert html.count("<tr>") == html.count("</tr>") > 8
    assert "0 &lt;= a &lt;= C" in html
    assert isinstance(report.partition, list)
    assert len(report.slacks) == 3
    binary = kkt_report(SVC(C=5.0).fit(X, Y), X, Y)
    counts = binary[0].meaning
    assert sum(counts.values()) == 90
    assert counts["on the wrong side"] == (binary.slacks > 1.0).sum()
    assert kkt_report(SVR().fit(X, T), X, T)[0].slacks.shape == (2, 90)
    assert set(kkt_report(SVR().fit(X, T), X, T)[0].meaning) == {"within the tube", "outside"}
    assert set(kkt_report(OneClassSVM().fit(X), X)[0].meaning) == {"inliers", "outliers"}


def test_a_report_draws_the_blocks_of_the_matrix():
    """Item 0-41: free, bound and zero samples, with lines between them."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    for model in (SVC(C=2.0, gamma=0.3), LinearSVC(), SVC(C=2.0).fit(X, THREE)):
        y = THREE if hasattr(model, "classes_") else Y
        one = kkt_report(model.fit(X, y), X, y)[0]
        with pyplot.rc_context({"axes.titlelocation": "center"}):
            axes = one.plot()
        drawn = np.asarray(axes.images[0].get_array())
        place = {row: i for i, row in enumerate(one.rows)}
        order = [place[row] for row in one.partition.order]
        np.testing.assert_array_equal(drawn, one.Q[np.ix_(order, order)])
        np.testing.assert_allclose(one.Q, one.Q.T, atol=1e-12)
        pyplot.close(axes.figure)
    with pytest.raises(ValueError, match="is no picture"):
        _ = kkt_report(LinearSVC().fit(*large(5000)), *large(5000))[0].Q


def large(n):
    data = np.random.default_rng(1).normal(size=(n, 2))
    return data, np.where(data[:, 0] > 0.0, 1.0, -1.0)


def test_models_without_a_margin_are_refused():
    with pytest.raises(TypeError, match="is for support vector machines with a margin or a tube; LogisticRegression"):
        kkt_report(LogisticRegression().fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="needs the targets"):
        kkt_report(SVC().fit(X, Y), X)


def test_the_margin_of_the_planets():
    """Items 3-25, 3-26, correction E3-2: half the distance of Pluto and Mercury, the two samples on which it rests."""
    diameters, y, names = load_planets()
    for model in (
        SVC(C=np.inf, kernel="linear"),
        SVC(C=1e3, kernel="linear", tol=1e-9),
        NuSVC(nu=0.1, kernel="linear"),
    ):
        margin = model.fit(diameters, y).margin_
        assert margin.half == pytest.approx(1.25, rel=1e-6)
        assert margin.full == pytest.approx(2.5, rel=1e-6)
    assert {names[i] for i in model.support_} == {"Pluto", "Mercury"}
    without = SVC(C=np.inf, kernel="linear").fit(diameters[model.support_], y[model.support_])
    np.testing.assert_allclose(without.coef_, model.coef_, rtol=1e-9)


def test_margins_are_lengths_in_the_space_of_the_kernel():
    """Item 2-05: ``2 rho / |w|`` of a nu machine is the full width after its division by rho."""
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    model = SVC(C=2.0, gamma=0.3).fit(X, Y)
    beta = model.dual_coef_[0]
    length = np.sqrt(beta @ K[np.ix_(model.support_, model.support_)] @ beta)
    assert model.margin_.half == pytest.approx(1.0 / length, rel=1e-9)
    assert model.margin_.full == pytest.approx(2.0 / length, rel=1e-9)
    given = SVC(C=2.0, kernel="precomputed").fit(K, Y)
    assert given.margin_.half == pytest.approx(model.margin_.half, rel=1e-2)
    with pytest.raises(AttributeError, match="precomputed kernel matrix is not stored"):
        _ = pickle.loads(pickle.dumps(given)).margin_
    assert pickle.loads(pickle.dumps(model)).margin_ == pytest.approx(model.margin_)
    nu = NuSVC(nu=0.4, gamma=0.3, tol=1e-9).fit(X, Y)
    assert nu.margin_.full == pytest.approx(
        2.0 * nu.rho_[0] / np.sqrt(2.0 * nu.objective_ + 2.0 * _rho_terms(nu)), rel=1e-6
    )
    linear = LinearSVC(C=0.1).fit(X, THREE)
    np.testing.assert_allclose([m.half for m in linear.margin_], 1.0 / np.linalg.norm(linear.coef_, axis=1))


def _rho_terms(model):
    """``nu S rho - sum_i max(0, rho - y f)``: what the objective of a nu machine is short of half its squared norm."""
    rho = model.rho_[0]
    return model.nu * Y.size * rho - rho * model.slacks_.sum()


@pytest.mark.parametrize("model", [SVC(C=2.0), NuSVC(nu=0.4), LinearSVC(), SVC(kernel="linear")], ids=str)
def test_slacks(model):
    """Item 4-04: zero, or the distance of the target from the score, which is ``1 - y f`` where that is positive."""
    model.fit(X, Y)
    margin = Y * model.decision_function(X)
    np.testing.assert_allclose(model.slacks_, np.where(margin < 1.0, np.abs(Y - Y * margin), 0.0), atol=1e-12)
    model.fit(X, THREE)
    pairs = isinstance(model, (SVC, NuSVC))
    assert model.slacks_.shape == (3, 90)
    taking_part = np.isfinite(model.slacks_).sum(axis=1)
    counts = np.bincount(THREE)
    np.testing.assert_array_equal(
        taking_part, [counts[[0, 1]].sum(), counts[[0, 2]].sum(), counts[[1, 2]].sum()] if pairs else 90
    )


def test_slacks_say_what_they_need(monkeypatch):
    from maxmargin.estimators._machinery import training

    for model in (SVC(), LinearSVC()):
        with pytest.raises(AttributeError, match="before it is fitted"):
            _ = model.slacks_
        with pytest.raises(AttributeError, match="before it is fitted"):
            _ = model.margin_
        with pytest.raises(AttributeError, match="not stored with a model"):
            _ = pickle.loads(pickle.dumps(model.fit(X, Y))).slacks_
    monkeypatch.setattr(training, "REMEMBERED_SAMPLES", 50)
    with pytest.raises(AttributeError, match=r"kkt_report\(model, X, y\)\.slacks"):
        _ = LinearSVC().fit(X, Y).slacks_


def test_a_constant_function_has_an_infinite_margin():
    model = SVC(C=1.0).fit(np.zeros((4, 2)), [0, 0, 1, 1])
    assert model.margin_ == (np.inf, np.inf)
    np.testing.assert_allclose(model.slacks_, 1.0)
