"""Certificates of tiny problems against 300 digits: the optimum lies in [dual - error, primal + error]."""

import warnings

import newton
import numpy as np
import pytest
import scipy.sparse as sp
from active_set import ActiveSet
from exact import arb, total
from posing import questions
from problems import Case

import maxmargin

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(6, 2))
LABELS = np.array([0, 1, 0, 1, 1, 0])
TARGETS = Z[:, 0] + 0.3 * RNG.normal(size=6)
NEGLIGIBLE = arb("1e-40")

MOVED = {
    "as they are": Z,
    "1e4 away": Z + 1e4,
    "1e8 away": Z + 1e8,
    "1e10 away": Z + 1e10,
    "two clusters": Z + 1e8 * LABELS[:, None],
    "scales": Z * [1e-9, 1e7],
    "doubles": np.repeat(Z[:3], 2, axis=0),
    "rank one": np.outer(Z[:, 0], [1.0, 3.0]) + 1e6,
    "huge": Z * 1e12,
    "tiny": Z * 1e-12,
}
STORED = {"dense": np.asarray, "float32": np.float32, "csr": sp.csr_matrix}
MACHINES = {
    "rbf": ("SVC", {"gamma": 0.5}),
    "laplacian": ("SVC", {"kernel": "laplacian", "gamma": 0.5, "C": 10.0}),
    "poly": ("SVC", {"kernel": "poly", "degree": 9, "gamma": 1.0}),
    "cubic": ("SVC", {"kernel": "poly", "gamma": 0.1, "coef0": 1.0, "loss": "squared_hinge"}),
    "rows": ("SVC", {"kernel": "linear", "C": 0.1}),
    "matrix": ("SVC", {"kernel": "linear", "solver": "decomposition"}),
    "without intercept": ("SVC", {"kernel": "linear", "intercept": None, "solver": "decomposition"}),
    "street": ("NuSVC", {"nu": 0.5, "kernel": "linear"}),
    "rbf street": ("NuSVC", {"nu": 0.4, "gamma": 0.5}),
    "hard": ("SVC", {"C": np.inf, "gamma": 0.5}),
    "hulls": ("SVC", {"C": np.inf, "kernel": "linear", "solver": "saddle"}),
    "tube": ("SVR", {"gamma": 0.5}),
    "rows of a tube": ("LinearSVR", {"epsilon": 0.1, "C": 1e3}),
    "squared tube": ("LinearSVR", {"loss": "squared_epsilon_insensitive", "intercept": "free"}),
    "nu tube": ("NuSVR", {"gamma": 0.5}),
    "linear nu tube": ("NuSVR", {"kernel": "linear", "nu": 0.3}),
    "region": ("OneClassSVM", {"nu": 0.5, "gamma": 0.5}),
    "linear region": ("OneClassSVM", {"nu": 0.3, "kernel": "linear"}),
    "linear": ("LinearSVC", {"C": 1e4}),
    "hinge": ("LinearSVC", {"loss": "hinge", "intercept": "free"}),
    "logistic": ("LogisticRegression", {"C": 100.0}),
    "penalised logistic": ("LogisticRegression", {"intercept": "penalised"}),
    "sgd": ("SGDClassifier", {"loss": "huber_hinge", "alpha": 0.01, "solver": "newton"}),
    "ridge": ("SGDRegressor", {"alpha": 0.01, "solver": "newton"}),
}


def optimum(problem):
    """Bounds on the optimal value that agree to 40 digits; of logistic ones, where Newton's method ends."""
    if newton.applies(problem):
        w, b = newton.minimum(problem, [0.0] * problem.features, 0.0, seconds=20.0)
        value = problem.primal(problem.space.coefficients(w), b)
        assert not any(value > problem.primal(*zero) for zero in problem.zero())
        return value, value
    program = problem.program()
    a, multipliers = ActiveSet(program, [0.0] * len(program.q)).solve(seconds=20.0)
    above, below = problem.primal(*problem.of_dual(program.expansion(a), multipliers)), program.value(a)
    size = abs(above) + total([abs(q * v) for q, v in zip(program.q, a, strict=True)])
    tiny = NEGLIGIBLE * (size + 1)
    assert abs(above - below) < tiny, "the reference found no optimum"
    return below - tiny, above + tiny


def check(certificate, problem):
    """Whether the optimum lies in the interval of a certificate."""
    below, above = optimum(problem)
    assert not arb(certificate.dual) - certificate.dual_error > above
    assert not arb(certificate.primal) + certificate.primal_error < below


@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_optimum_is_between_the_values_of_a_certificate(machine, moved, storage):
    name, params = MACHINES[machine]
    tol = 1e-3 if storage == "float32" else 1e-12  # far from the optimum, and as near as can be
    X = STORED[storage](MOVED[moved])
    y = None if name == "OneClassSVM" else TARGETS if "SVR" in name or "Regressor" in name else LABELS
    model = getattr(maxmargin, name)(**params, tol=tol, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except ValueError as refusal:
            assert "overflows" in str(refusal)  # noqa: PT017
            return
    (question,) = questions(Case(name, params, X, y), model)
    check(model.solution_.certificate, question.problem)


@pytest.mark.parametrize("spread", [0, 4, 15])
@pytest.mark.parametrize("name", ["LogisticRegression", "LinearSVC", "SVC"])
def test_weights_far_apart(name, spread):
    weights = 10.0 ** np.linspace(-spread, 0.7 * spread, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(maxmargin, name)(tol=1e-12, max_iter=200).fit(Z, LABELS, sample_weight=weights)
    (question,) = questions(Case(name, {}, Z, LABELS, weights=weights), model)
    check(model.solution_.certificate, question.problem)


def test_a_certificate_that_says_nothing_wrong_says_something():
    """The bound is far below the tolerance where nothing cancels."""
    model = maxmargin.SVC(gamma=0.5, tol=1e-9).fit(Z, LABELS)
    certificate = model.solution_.certificate
    assert certificate.error <= 1e-12 * abs(certificate.primal)
    assert certificate.relative_gap <= 1e-9
