"""One problem in many forms: what is certified for each must hold for all of them.

Samples lie on a grid, so that moving them and multiplying them by powers of two is exact. No judge is needed: every
certificate says that the optimum is in its interval, so that these must have a point in common.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SVC, SVR, LinearSVC, LogisticRegression, NuSVR, certify

GRID = 2.0**-12
FAR = 2.0**30, 2.0**17  # the first is so far that products of rows have no digit left of what they are about
MACHINES = {
    "SVC, linear": (SVC, {"kernel": "linear"}),
    "SVC, Gaussian": (SVC, {"kernel": "rbf"}),
    "SVC, Laplacian": (SVC, {"kernel": "laplacian", "loss": "squared_hinge"}),
    "hard margin": (SVC, {"kernel": "linear", "C": np.inf}),
    "SVR": (SVR, {"kernel": "linear"}),
    "NuSVR": (NuSVR, {"kernel": "rbf"}),
    "LinearSVC": (LinearSVC, {"intercept": "free"}),
    "LogisticRegression": (LogisticRegression, {"intercept": "free"}),
}
SOLVERS = {"SVC": ("auto", "decomposition", "smo", "active_set"), "SVR": ("auto", "newton", "decomposition")}


def forms(X):
    """The same rows, each with the number by which they were multiplied."""
    yield X, 1.0
    yield sp.csr_matrix(X), 1.0
    yield np.asfortranarray(X) * 2.0**9, 2.0**9
    yield sp.csc_array(X) * 2.0**-7, 2.0**-7
    for offset in FAR:
        assert ((X + offset) - offset == X).all()
        yield X + offset, 1.0
        yield sp.csr_matrix(X + offset), 1.0


def rescaled(params, s):
    """Parameters with which rows that are multiplied by ``s`` have the same problem, and what its value is divided by.

    The coefficients of a linear machine are divided by ``s`` then, and the hard margin is as much wider.
    """
    kernel = params.get("kernel", "linear")
    if kernel != "linear":
        return {**params, "gamma": 0.25 / (s if kernel == "laplacian" else s * s)}, 1.0
    if params.get("C") == np.inf:
        return params, 1.0 / (s * s)
    return {**params, "C": 10.0 / (s * s)}, s * s


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MACHINES)
def test_all_forms_of_a_problem_have_a_common_optimum(name, seed):
    rng = np.random.default_rng(seed)
    X = np.round((rng.normal(size=(40, 3)) + 64.0 * seed * (np.arange(40) % 2)[:, None]) / GRID) * GRID
    noise = 0.0 if name == "hard margin" else 0.5
    targets = np.round((X[:, 0] + noise * rng.normal(size=40)) / GRID) * GRID
    kind, params = MACHINES[name]
    y = targets if kind in (SVR, NuSVR) else (targets > np.median(targets)).astype(int)
    solvers = SOLVERS.get(kind.__name__, ("auto",))
    low, high, at = -np.inf, np.inf, []
    for k, (rows, s) in enumerate(forms(X)):
        chosen, factor = rescaled(params, s)
        model = kind(**chosen, solver=solvers[k % len(solvers)], tol=1e-6, max_time=5.0).fit(rows, y)
        for certificate in (model.solution_.certificate, certify(model, rows, y).certificates[0]):
            low = max(low, (certificate.dual - certificate.dual_error) * factor)
            high = min(high, (certificate.primal + certificate.primal_error) * factor)
            at.append((k, certificate, factor))
    assert low <= high + 1e-15 * abs(high), at
    assert high - low <= 1e-5 * abs(high)  # and some know it well
