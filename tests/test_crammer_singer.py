"""The machine of Crammer and Singer: its solver in plain NumPy, its estimator against LIBLINEAR and the referee."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits, load_iris
from sklearn.svm import LinearSVC as TheirLinearSVC

import referee
import zoo
from maxmargin import CrammerSingerProblem, LinearSVC, Point, Status, certify, explain_solver, minimize
from maxmargin.io import load_model, save_model
from maxmargin.operators import Rows
from maxmargin.solvers import DualSimplices, SoftmaxNewton
from maxmargin.solvers.classes.dual_simplices import _best_variables

X, CODES = load_iris(return_X_y=True)
X = np.ascontiguousarray(X)


def machine(**options):
    return LinearSVC(multi_class="crammer_singer", **{"tol": 1e-8, **options})


def judged(model, X, y, s, intercept="penalised", scale=1.0):
    """The referee on the coefficients and dual variables of a model of more than two classes."""
    k, codes = model.classes_.size, np.searchsorted(model.classes_, y)
    A = model.solution_.point.alpha.reshape(-1, k)
    W, b = model.coef_, model.intercept_
    return referee.crammer_singer_values(X, codes, k, W, b, A, s, intercept, scale)


@pytest.mark.parametrize("seed", range(20))
def test_the_variables_of_a_sample_are_the_best_ones(seed):
    """Against every pair of variables moved along its line: nothing is left to gain."""
    rng = np.random.default_rng(seed)
    k, s, q, own = int(rng.integers(2, 8)), 1.7, float(rng.uniform(0.1, 3.0)), 1
    scores, a = 2.0 * rng.normal(size=k), np.zeros(k)
    new = np.empty(k)
    _best_variables(scores.copy(), own, s, q, a, new)

    def value(d):
        return d @ scores + 0.5 * q * d @ d + (np.arange(k) != own) @ d

    assert new.sum() == pytest.approx(0.0, abs=1e-14)
    assert new[own] <= s * (1.0 + 1e-15)
    assert (np.delete(new, own) <= 0.0).all()
    upper = np.where(np.arange(k) == own, s, 0.0)
    for i in range(k):
        for j in range(k):
            if i != j:
                e = np.eye(k)[i] - np.eye(k)[j]
                room = upper[i] - new[i]  # upwards for i, downwards for j, which has no lower limit
                best = minimize_scalar(
                    lambda t, e=e: value(new + t * e), bounds=(0.0, max(room, 1e-300)), method="bounded"
                )
                assert value(new) <= min(best.fun, value(new)) + 1e-9


@pytest.mark.parametrize("intercept", ["penalised", None])
def test_it_is_the_model_of_scikit_learn(intercept):
    for y in (CODES, np.array(["a", "b", "c"])[CODES], (CODES > 0).astype(int)):
        ours = machine(fit_intercept=intercept is not None, C=0.7).fit(X, y)
        theirs = TheirLinearSVC(
            multi_class="crammer_singer", tol=1e-9, max_iter=10**6, C=0.7, fit_intercept=intercept is not None
        ).fit(X, y)
        assert ours.coef_.shape == theirs.coef_.shape
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-4)
        assert ours.decision_function(X).shape == theirs.decision_function(X).shape
        assert (ours.predict(X) == theirs.predict(X)).all()
        np.testing.assert_allclose(ours.dual_coef_ @ X[ours.support_], ours.coef_, atol=1e-9)
        assert certify(ours, X, y).relative_gap <= 1e-8
        assert certify(theirs, X, y).relative_gap <= 1e-6


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_weights_scales_and_intercepts_as_the_referee_sees_them(intercept):
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 2.0, size=150)
    model = machine(intercept=intercept, intercept_scaling=3.0, C=0.3, class_weight={0: 2.0, 1: 1.0, 2: 0.5})
    model.fit(X, CODES, sample_weight=weight)
    s = 0.3 * np.array([2.0, 1.0, 0.5])[CODES] * weight
    primal, dual, infeasible = judged(model, X, CODES, s, intercept, 3.0)
    assert model.status_ is Status.CONVERGED
    assert infeasible <= 1e-10
    assert primal == pytest.approx(model.objective_, rel=1e-10)
    assert dual == pytest.approx(model.dual_objective_, rel=1e-9)
    assert primal - dual <= 1.1e-8 * primal


def test_weight_two_is_the_sample_twice_and_storage_does_not_matter():
    twice = np.where(np.arange(150) % 3 == 0, 2, 1)
    once = machine().fit(X, CODES, sample_weight=twice)
    copies = np.repeat(np.arange(150), twice)
    again = machine().fit(X[copies], CODES[copies])
    assert again.objective_ == pytest.approx(once.objective_, rel=2e-8)
    sparse = machine().fit(sp.csr_array(X), CODES, sample_weight=twice)
    assert sparse.objective_ == pytest.approx(once.objective_, rel=2e-8)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), once.decision_function(X), atol=1e-3)
    small = machine(tol=1e-5).fit(X.astype(np.float32), CODES, sample_weight=twice)
    assert small.objective_ == pytest.approx(once.objective_, rel=1e-4)


def test_ten_classes_are_fitted_and_certified():
    digits, y = load_digits(return_X_y=True)
    digits = digits[:600] / 16.0
    model = machine(tol=1e-5).fit(digits, y[:600])
    assert model.status_ is Status.CONVERGED
    primal, dual, infeasible = judged(model, digits, y[:600], np.ones(600))
    assert infeasible <= 1e-9
    assert (primal - dual) / primal <= 1.01e-5
    rest = LinearSVC(loss="hinge", tol=1e-5).fit(digits, y[:600])
    assert (model.predict(digits) == rest.predict(digits)).mean() > 0.9


def test_rest_changes_no_optimum_and_equal_seeds_give_equal_bits():
    values = [machine(shrinking=shrinking, random_state=seed).fit(X, CODES).objective_
              for shrinking, seed in ((True, 0), (False, 0), (True, 5))]  # fmt: skip
    assert values == pytest.approx([values[0]] * 3, rel=3e-8)
    first, second = (machine().fit(X, CODES).coef_.tobytes() for _ in range(2))
    assert first == second
    problem = CrammerSingerProblem(Rows(X), CODES.astype(np.int64), 3, 1.0, np.ones(150))
    solver, plain = DualSimplices(), DualSimplices(shrinking=False)
    states = [one.advance(problem, one.start(problem, None), 1000) for one in (solver, plain)]
    assert states[0].iterations == states[1].iterations
    assert states[0].passes < 0.8 * states[1].passes


def test_warm_start_model_files_and_limits(tmp_path):
    model = machine(warm_start=True, max_iter=3, tol=1e-6)
    with pytest.warns(match="iteration limit"):
        model.fit(X, CODES)
    assert model.status_ is Status.MAX_ITER
    model.set_params(max_iter=-1).fit(X, CODES)
    assert model.duality_gap_ <= 1e-6
    for fitted, y in ((model, CODES), (machine().fit(X, CODES > 0), CODES > 0)):
        save_model(fitted, tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        assert loaded.decision_function(X).tobytes() == fitted.decision_function(X).tobytes()
        assert certify(loaded, X, y).relative_gap <= 1e-6
    assert "uses 'dual_simplices', because all classes are fitted at once" in explain_solver(model, X, CODES)


@pytest.mark.parametrize(("settings", "message"), [
    ({"penalty": "l1"}, "penalty='l1' has no solver in this version for multi_class='crammer_singer'"),
    ({"dual": False}, "dual=False has no solver in this version"),
    ({"probability": True}, "probability=True has no solver in this version"),
    ({"positive": True}, "positive=True and bounds has no solver in this version"),
    ({"solver": "newton"}, "solver='newton' cannot solve this problem of LinearSVC"),
    ({"solver": "softmax_newton"}, "it needs the softmax problem of several classes at once; this is a CrammerSinger"),
    ({"solver": "dual_simplices", "solver_options": {"step": 1}}, "has no option 'step'; its options are 'shrinking'"),
])  # fmt: skip
def test_what_there_is_not_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        machine(**settings).fit(X, CODES)


def test_bad_input_is_refused_before_any_work():
    with pytest.raises(ValueError, match="NaN"):
        machine().fit(np.where(X > 6.0, np.nan, X), CODES)
    with pytest.raises(ValueError, match="class"):
        machine().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Classes are numbered from 0 to 1"):
        CrammerSingerProblem(Rows(X), CODES.astype(np.int64), 2, 1.0, np.ones(150))
    case = next(case for case in zoo.cases() if case.name == "softmax, two classes")
    with pytest.raises(ValueError, match="the hinge of several classes; this is a SoftmaxProblem"):
        minimize(case.build(), DualSimplices())
    with pytest.raises(ValueError, match="this is a CrammerSingerProblem"):
        minimize(CrammerSingerProblem(Rows(X), CODES.astype(np.int64), 3, 1.0, np.ones(150)), SoftmaxNewton())


def test_a_point_without_dual_variables_is_judged_by_its_slopes():
    problem = CrammerSingerProblem(Rows(X), CODES.astype(np.int64), 3, 1.0, np.ones(150), None)
    theta = np.random.default_rng(0).normal(size=12)
    certificate = problem.certify(Point(theta, 0.0))
    A = problem.feasible(problem.slopes(problem.scores(theta.reshape(3, 4))))
    values = referee.crammer_singer_values(X, CODES, 3, theta.reshape(3, 4), np.zeros(3), A, np.ones(150), None, 1.0)
    assert (certificate.primal, certificate.dual) == pytest.approx(values[:2], rel=1e-11)
    assert problem.certify(Point(theta * np.nan, 0.0)).relative_gap == np.inf
