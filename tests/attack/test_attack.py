"""A short attack: some hundred nasty problems, and those that were lied about once."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from newer import newer_case
from problems import Case, case, pair
from script import script
from watch import Worker

import maxmargin

SEED, BLOCKS, BLOCK = 27, 16, 15
NEWER, NEWER_BLOCK = 3, 14  # blocks of newer kinds, which are fewer
BRIEFLY = 0.2  # max_time of a fit
OTHERS = 2  # solvers beside "auto"

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(80, 3))
Y = (Z[:, 0] + 0.5 * RNG.normal(size=80) > 0).astype(int)
TARGETS = Z[:, 0] + 0.3 * RNG.normal(size=80)
CLUSTERS = Z + 1e8 * RNG.integers(0, 2, size=(80, 1))
INDEFINITE = np.outer(TARGETS, TARGETS) - np.eye(80)
LINE = 1e8 + np.arange(4.0)[:, None]
EIGHT = np.arange(8.0)[:, None]
PLANETS = maxmargin.load_planets()[:2]

DEFECTS = {
    "Gaussian kernel of sparse rows far away": Case("SVC", {"gamma": 0.5}, sp.csr_matrix(Z + 1e8), Y),
    "bandwidth of sparse rows far away": Case("SVC", {}, sp.csr_matrix(Z + 1e8), Y),
    "Gaussian kernel of two clusters": Case("SVC", {"gamma": 0.5}, CLUSTERS, Y),
    "Laplacian of two clusters": Case("SVC", {"gamma": 0.5, "kernel": "laplacian"}, CLUSTERS, Y),
    "large values of a polynomial": Case("SVC", {"kernel": "poly", "degree": 9}, Z + 10.0, Y),
    "products of rows far away": Case("SVC", {"kernel": "linear", "solver": "decomposition"}, Z + 1e8, Y),
    "products of rows farther away": Case("SVC", {"kernel": "linear", "solver": "decomposition"}, Z + 1e9, Y),
    "nu, rows far away": Case("NuSVC", {"kernel": "linear"}, Z + 1e5, (Z[:, 0] > np.median(Z[:, 0])).astype(int)),
    "nu tube, rows far away": Case("NuSVR", {"kernel": "linear"}, Z + 1e5, TARGETS),
    "hard margin far away": Case("SVC", {"kernel": "linear", "C": np.inf}, LINE, np.array([0, 0, 1, 1])),
    "hard margin of a kernel": Case("SVC", {"C": np.inf, "gamma": 1e-5}, EIGHT, np.arange(8) % 2),
    "function that was certified": Case("SVC", {"solver": "pegasos_kernel", "C": 10.0}, Z, Y),
    "planets": Case("SVC", {"solver": "pegasos_kernel", "kernel": "linear"}, *PLANETS),
    "logistic with weights": Case("LogisticRegression", {}, Z, Y, 10.0 ** np.linspace(-15, 11, 80)),
    "two logistic weights": Case(
        "LogisticRegression",
        {"tol": 1e-10, "C": 1e-5, "intercept": "penalised", "intercept_scaling": 100.0},
        np.ones((2, 1)),
        np.array([1, 0]),
        np.array([1e-13, 4e7]),
    ),
    "negative matrix": Case(
        "SVC", {"kernel": "precomputed", "C": 1e-3, "tol": 1e-14, "solver": "smo"}, -np.eye(2), np.array([0, 1])
    ),
    "indefinite matrix": Case("SVC", {"kernel": "precomputed", "loss": "squared_hinge"}, INDEFINITE, Y),
    "indefinite matrix with smo": Case(
        "SVC", {"kernel": "precomputed", "loss": "squared_hinge", "solver": "smo"}, INDEFINITE, Y
    ),
    "overflow": Case("SVC", {"kernel": "poly", "degree": 9, "gamma": 1.0}, 1e50 * Z, Y),
    "overflow with smo": Case("SVC", {"kernel": "poly", "degree": 9, "gamma": 1.0, "solver": "smo"}, 1e20 * Z, Y),
    "clients of smo": Case("DistributedNuSVC", {"solver": "smo", "n_clients": 2, "nu": 0.3}, Z, Y),
    "pegasos": Case("SGDClassifier", {"solver": "pegasos", "fit_intercept": False, "max_iter": 20}, Z, Y),
    "pegasos without average": Case(
        "SGDClassifier", {"solver": "pegasos", "fit_intercept": False, "average": False, "max_iter": 20}, Z, Y
    ),
    "smoothed": Case("LinearSVC", {"solver": "smoothed", "loss": "hinge", "C": 1e12}, 1e12 * Z, Y),
    "saddle": Case("SVC", {"solver": "saddle", "kernel": "linear", "C": np.inf}, 1e12 * Z, Y),
    "newton far away": Case(
        "LinearSVR",
        {"C": 1e7, "loss": "epsilon_insensitive", "solver": "newton"},
        np.array([[1e11 - 2.0, 1e11], [1e11, 1e11]]),
        np.array([-5.5e6, -1.5e6]),
    ),
}

DEFECTS |= {
    "columns whose squares underflow": Case(
        "LinearRegression", {"solver": "svd"}, np.array([[3e-311], [-5e-311]]), np.array([5e8, -7e6])
    ),
    "columns of small numbers": Case(
        "LinearRegression", {"solver": "conjugate_gradients"}, np.array([[4e-160], [-6e-160]]), np.array([-2.0, 1.0])
    ),
    "residuals below the last digit": Case(
        "SVR",
        {"kernel": "poly", "loss": "squared_epsilon_insensitive", "epsilon": 0.0, "intercept": None},
        np.full((2, 1), 1e8),
        np.array([3.0, 3.0]),
    ),
    "weights whose squares underflow": Case(
        "SGDRegressor",
        {"loss": "epsilon_insensitive", "alpha": 1.0, "max_iter": 50, "solver": "pegasos"},
        np.array([[840.0, 1e8, 1e7, 1e5], [850.0, 1e8, 1e7, 1e5]]),
        np.array([0.09, 1.0]),
        np.array([1e-200, 1e-200]),
    ),
    "huge kernel values": Case(
        "KernelRidge", {"kernel": "linear", "alpha": 1e-3, "solver": "kernel_coordinate"}, 1e90 * Z, TARGETS
    ),
    "hard margin of large numbers": Case(
        "SVC",
        {"tol": 1e-12, "kernel": "linear", "C": np.inf, "solver": "decomposition"},
        np.array([[-858115876071.0, 846770723.0], [2167193915955.0, 881772642.0], [-21665427411.0, 273472928.0]]),
        np.array([1, 1, 0]),
    ),
    "hard margin with weights": Case(
        "DistributedSVC", {"C": np.inf, "n_clients": 2}, Z, (Z[:, 0] > 0).astype(int), 1.0 * (np.arange(80) % 3 > 0)
    ),
    "an intercept whose steps grow without an end": Case(
        "Ridge",
        {"alpha": 1e-300, "solver": "cocoa"},
        np.array([[-1.0], [1.0], [0.0]]),
        np.array([[1e7, -0.7], [1e7, 0.09], [1e7, -0.8]]),
    ),
    "values of pairs of single precision": Case(
        "KernelRidge", {"kernel": pair, "alpha": 0.1, "tol": 1e-14}, Z[:3].astype(np.float32), TARGETS[:3]
    ),
    "a sample that decides alone": Case("RidgeCV", {"alphas": [1e-300]}, 1e90 * Z[:4], TARGETS[:4]),
}


@pytest.fixture(scope="session")
def worker():
    """A process of its own: what hangs there can be ended."""
    watched = Worker()
    yield watched
    watched.stop()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_is_found(worker, block):
    found = []
    for number in range(block * BLOCK, (block + 1) * BLOCK):
        made = case(SEED, number)
        found += [script(made, finding) for finding in worker.run(made, BRIEFLY, OTHERS)]
    assert not found, "\n".join(found)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("block", range(NEWER))
def test_nothing_is_found_in_newer_kinds(worker, block):
    found = []
    for number in range(block * NEWER_BLOCK, (block + 1) * NEWER_BLOCK):
        made = newer_case(SEED, number)
        found += [script(made, finding) for finding in worker.run(made, BRIEFLY, OTHERS)]
    assert not found, "\n".join(found)


def test_a_path_whose_start_rounding_leads_round_in_circles(worker):
    made = newer_case(1, 181)
    keep = np.r_[:9, 18:39]
    made = replace(made, X=made.X.toarray()[keep], y=made.y[keep], weights=None)
    assert not worker.run(made, 1.0)


@pytest.mark.parametrize("name", DEFECTS)
def test_what_was_wrong_once(worker, name):
    made = DEFECTS[name]
    found = worker.run(made, 1.0, [made.params.get("solver", "auto")])
    assert not found, "\n".join(map(str, found))
