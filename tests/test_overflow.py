"""Numbers that leave the range of floats, and kernels that are not positive: no hang, no NaN, no warning of NumPy's."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import (
    SVC,
    SVCCV,
    SVR,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    SGDClassifier,
    SGDRegressor,
    Status,
)
from maxmargin.loop.minimize import minimize
from maxmargin.operators import PrecomputedGram, Rows
from maxmargin.parts.losses import Hinge, SquaredEpsilonInsensitive, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.problem import Problem
from maxmargin.solvers import SMO, make_solver
from maxmargin.solvers.kernels.finite_box import with_finite_box
from maxmargin.solvers.windows import mean_slopes

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
y = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0.0, 1, -1)
target = X @ [1.0, -2.0, 0.5]
SYMMETRIC = rng.standard_normal((40, 40))
SYMMETRIC = SYMMETRIC + SYMMETRIC.T

pytestmark = pytest.mark.timeout(120)


def quietly(model, samples, answers):
    """A fit in which the library may warn that it did not converge, and NumPy may not warn at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(samples, answers)


# Kernels that are not positive


def test_smo_ends_on_a_negative_kernel():
    model = SVC(kernel="precomputed", C=1e-3, tol=1e-14, solver="smo", max_time=1.0)
    quietly(model, -np.eye(2), [0, 1])
    assert model.status_ is Status.NOT_CONVEX
    np.testing.assert_allclose(np.abs(model.dual_coef_), 1e-3)  # at their bounds, where the concave dual is largest


@pytest.mark.parametrize("C", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("kernel", [-np.eye(40), SYMMETRIC, 1e-300 * SYMMETRIC, 1e90 * SYMMETRIC, np.zeros((40, 40))])
@pytest.mark.parametrize("solver", ["smo", "decomposition"])
def test_every_machine_ends_with_finite_coefficients(solver, kernel, C):
    options = {"kernel": "precomputed", "C": C, "solver": solver, "tol": 1e-14, "max_iter": 200}
    for model, answers in [
        (SVC(**options), y),
        (SVC(loss="squared_hinge", **options), y),
        (SVC(loss="squared_hinge", intercept=None, **options), y),
        (SVR(**options), target),
        (SVR(loss="squared_epsilon_insensitive", **options), target),
        (NuSVR(**options), target),
    ]:
        quietly(model, kernel, answers)
        assert np.isfinite(model.dual_coef_).all()
        assert np.isfinite(model.intercept_).all()
        assert not np.isnan([model.objective_, model.dual_objective_]).any()


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("solver", ["smo", "decomposition"])
def test_squared_losses_over_indefinite_kernels(solver, C):
    options = {"C": C, "solver": solver}
    squared, tube = "squared_hinge", "squared_epsilon_insensitive"
    for model, samples, answers in [
        (SVC(kernel="sigmoid", gamma=1.0, coef0=1.0, loss=squared, **options), X, y),
        (SVC(kernel="precomputed", loss=squared, **options), -np.eye(40), y),
        (SVC(kernel="precomputed", loss=squared, **options), SYMMETRIC, y),
        (SVR(kernel="precomputed", loss=tube, **options), SYMMETRIC, target),
    ]:
        quietly(model, samples, answers)
        assert model.status_ is Status.NOT_CONVEX
        assert np.isfinite(model.dual_coef_).all()


def test_a_finite_box_leaves_the_optimum_of_a_positive_kernel_inside():
    gram = PrecomputedGram(np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)))
    for loss in (SquaredHinge(), SquaredEpsilonInsensitive(0.1)):
        problem = Problem(gram, y.astype(float), loss, L2(1.0), np.full(40, 10.0))
        free = BoxQP.of(problem)
        assert not np.isfinite(np.concatenate([free.low, free.high])).all()
        solution, boxed = minimize(free, SMO(), tol=1e-10), with_finite_box(free)
        assert np.isfinite(boxed.low).all()
        assert np.isfinite(boxed.high).all()
        assert (0.51 * boxed.low <= solution.point.alpha).all()  # the bound has a factor of two to spare
        assert (solution.point.alpha <= 0.51 * boxed.high).all()


def test_a_finite_box_stays_as_it_is():
    gram = PrecomputedGram(np.eye(40))
    qp = BoxQP.of(Problem(gram, y.astype(float), Hinge(), L2(1.0), np.ones(40)))
    assert with_finite_box(qp) is qp


@pytest.mark.parametrize("values", [np.full((4, 4), 1e308), np.array([[np.nan] * 4] * 4)])
def test_smo_does_not_step_on_numbers_that_overflow(values):
    problem = Problem(PrecomputedGram(values), np.array([1.0, -1.0] * 2), Hinge(), L2(1.0), np.full(4, 1e12))
    solver = SMO()
    state = solver.start(problem, None)
    for _ in range(20):
        state = solver.advance(problem, state, 1000)
    assert state.exhausted
    assert np.isfinite(state.a).all()
    assert np.isfinite(state.G).all()


# Kernel values and scores


@pytest.mark.parametrize("solver", ["auto", "smo", "pegasos_kernel"])
@pytest.mark.parametrize("samples", [1e50 * X, (1e30 * X).astype(np.float32)])
def test_a_polynomial_kernel_that_overflows_is_refused(samples, solver):
    for model, answers in [(SVC, y), (SVR, target)]:
        with pytest.raises(ValueError, match=r"polynomial kernel overflows.*degree=9.*1e\+\d+.*lower gamma or degree"):
            quietly(model(kernel="poly", degree=9, gamma=1.0, solver=solver), samples, answers)
    with pytest.raises(ValueError, match=r"coef0=1e\+50"):
        quietly(SVC(kernel="poly", degree=9, gamma=1.0, coef0=1e50), X, y)
    with pytest.raises(ValueError, match="polynomial kernel overflows"):  # before a fold has met it
        quietly(SVCCV(kernel="poly", gammas=[1e-200, 0.1]), 1e150 * X, y)


def test_large_polynomial_values_that_do_not_overflow_are_no_reason_to_refuse():
    model = quietly(SVC(kernel="poly", degree=2, gamma=1.0, max_iter=100), 1e49 * X, y)
    assert np.isfinite(model.objective_)


def test_scores_that_overflow_are_refused():
    kernel, linear = SVC(kernel="poly", degree=9).fit(X, y), LinearSVR().fit(X, target)
    linear.coef_ = 1e10 * linear.coef_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="The scores of 40 of the 40 samples overflow: X has values up to"):
            kernel.predict(1e50 * X)
        with pytest.raises(ValueError, match="The scores of 1 of the 2 samples overflow"):
            linear.predict(np.array([X[0], [1e305, -1e305, 1e305]]))


# Columns and weights of any size

COLUMNS = {
    "tiny": np.full(3, 1e-150),
    "huge": np.full(3, 1e95),
    "apart": np.array([1e-150, 1.0, 1e95]),
    "a little apart": np.array([1e-12, 1.0, 1e12]),
}


@pytest.mark.parametrize("C", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("solver", ["smoothed", "saddle", "newton", "interior_point", "sgd", "pegasos"])
def test_unscaled_columns_give_no_warning(solver, columns, C):
    samples, options = COLUMNS[columns] * X, {"solver": solver, "max_iter": 20}
    for model, answers in [
        (LinearSVC(C=C, **options), y),
        (LinearSVC(C=C, loss="hinge", **options), y),
        (LinearSVC(C=C, penalty="l1", **options), y),
        (LinearSVR(C=C, **options), target),
        (LogisticRegression(C=C, **options), y),
        (SGDClassifier(alpha=1.0 / C, **options), y),
        (SGDClassifier(alpha=1.0 / C, penalty="l1", **options), y),
        (SGDRegressor(alpha=1.0 / C, **options), target),
        (NuSVC(kernel="linear", nu=0.3, **options), y),
    ]:
        reason = refusal(model, samples, answers)
        if reason is None:
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.intercept_).all()
            assert not np.isnan(model.objective_)
        else:
            assert "cannot solve this problem" in reason


def refusal(model, samples, answers):
    """``None`` after a fit, or why there was none."""
    try:
        quietly(model, samples, answers)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("solver", ["sgd", "newton", "interior_point", "smoothed"])
@pytest.mark.parametrize(("columns", "size"), [(1.0, 1e90), (1e90, 1e-90)])
def test_targets_far_from_the_columns_give_no_warning(solver, columns, size):
    for C in (1e-12, 1.0, 1e12):
        for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
            model = LinearSVR(C=C, loss=loss, solver=solver, max_iter=20)
            quietly(model, columns * X, size * target)
            assert np.isfinite(model.coef_).all()


def test_slopes_that_single_precision_cannot_hold_are_not_averaged():
    recent = np.array([[np.inf, 1.0], [-np.inf, 1.0], [6.0, 2.0], [0.0, 0.0]], dtype=np.float32)
    mean = mean_slopes(np.full(4, 2.0), recent, np.zeros((4, 2), dtype=np.float32), np.full(4, 7.0))
    np.testing.assert_array_equal(mean, [7.0, 7.0, 6.0, 7.0])


def test_a_step_of_saddle_that_overflows_ends():
    problem = HullDistance(Rows(X), y.astype(float), np.ones(40))
    solver = make_solver("saddle")
    state = solver.start(problem, None)
    state.v = np.full(3, np.nan)
    with np.errstate(all="ignore"):
        solver._step(state)
    assert np.isfinite(solver.point(problem, state).w).all()
