"""What a kernel machine predicts with is the function that was certified, whatever the solver's dual point is."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, certify, load_planets

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
y = np.where(X[:, 0] + 0.5 * rng.standard_normal(80) > 0.0, 1, -1)
target = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(80)
GAUSSIAN = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
GAMMA = 0.5

KERNELS = {
    "linear": lambda A, B: A @ B.T,
    "rbf": lambda A, B: np.exp(-GAMMA * ((A[:, None] - B) ** 2).sum(axis=2)),
    "poly": lambda A, B: (GAMMA * A @ B.T) ** 3,
    "laplacian": lambda A, B: np.exp(-GAMMA * np.abs(A[:, None] - B).sum(axis=2)),
}


def fitted(model, samples, answers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(samples, answers)


def squared_norm_and_scores(model, samples):
    """Of the function that a model predicts with, in plain NumPy."""
    alpha = model.dual_coef_[0]
    if model.kernel == "precomputed":
        between, within = samples[:, model.support_], samples[np.ix_(model.support_, model.support_)]
    else:
        kernel = KERNELS[model.kernel]
        between = kernel(samples, model.support_vectors_)
        within = kernel(model.support_vectors_, model.support_vectors_)
    return float(alpha @ within @ alpha), between @ alpha + model.intercept_[0]


def assert_certified_as_predicted(model, samples, answers, primal):
    assert model.objective_ == pytest.approx(primal, rel=1e-8)
    verdict = certify(model, samples, answers)
    assert verdict.primal == pytest.approx(model.objective_, rel=1e-8)
    assert verdict.dual == pytest.approx(model.dual_objective_, rel=1e-8)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"])
@pytest.mark.parametrize("solver", ["pegasos_kernel", "smo_simplified", "smo", "decomposition"])
def test_a_classifier_keeps_the_certified_function(solver, kernel, C):
    samples = GAUSSIAN if kernel == "precomputed" else X
    model = fitted(SVC(kernel=kernel, gamma=GAMMA, C=C, solver=solver, max_iter=200), samples, y)
    square, scores = squared_norm_and_scores(model, samples)
    assert_certified_as_predicted(model, samples, y, 0.5 * square + C * np.maximum(0.0, 1.0 - y * scores).sum())


@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"])
@pytest.mark.parametrize("solver", ["pegasos_kernel", "smo", "decomposition"])
def test_a_regressor_keeps_the_certified_function(solver, kernel):
    samples = GAUSSIAN if kernel == "precomputed" else X
    model = fitted(SVR(kernel=kernel, gamma=GAMMA, C=10.0, solver=solver, max_iter=200), samples, target)
    square, scores = squared_norm_and_scores(model, samples)
    losses = np.maximum(0.0, np.abs(target - scores) - 0.1).sum()
    assert_certified_as_predicted(model, samples, target, 0.5 * square + 10.0 * losses)


def test_pairs_of_classes_are_judged_with_their_own_dual_points():
    classes = np.digitize(X[:, 0], [-0.4, 0.4])
    model = fitted(SVC(solver="pegasos_kernel", max_iter=300), X, classes)
    verdict = certify(model, X, classes)
    for certificate, solution in zip(verdict.certificates, model.solutions_, strict=True):
        assert certificate.primal == pytest.approx(solution.certificate.primal, rel=1e-8)
        assert certificate.dual == pytest.approx(solution.certificate.dual, rel=1e-8)


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_pegasos_keeps_its_best_point_of_the_planets(kernel, C):
    # Early dual points were so bad that the zero function, with the dual value 0, seemed to be nearer to the optimum.
    planets, kinds, _ = load_planets()
    model = fitted(SVC(kernel=kernel, C=C, solver="pegasos_kernel", max_iter=2000), planets, kinds)
    lowest = min(record.primal for record in model.solution_.history if record.certified)
    assert model.objective_ == pytest.approx(lowest, rel=1e-9)
    assert model.objective_ < 0.9 * 6.0 * C
    assert model.dual_objective_ > 0.0
    assert model.support_.size > 0
