"""The attack finds what it is there for: false certificates, wrong exceptions, warnings and hangs."""

import ctypes
import re
import signal
import warnings
from dataclasses import replace

import newton
import numpy as np
import pytest
import scipy.sparse as sp
import watch
from active_set import ActiveSet
from exact import Machine, Region, RowSpace, Street, Tube, arb
from judge import Fit, judge
from problems import Case, case
from reduce import reduced
from script import script
from storing import LOSSY, STORAGES

import attack
import maxmargin
from maxmargin import Status

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = (X[:, 0] + RNG.normal(size=20) > 0).astype(int)
SIGNS = [arb(float(v)) for v in np.where(Y > 0, 1.0, -1.0)]
ONES = [arb(1)] * 20
SEPARATED = (X[:, 0] > np.median(X[:, 0])).astype(int)


def kinds(findings):
    return {finding.kind for finding in findings}


def judged(made, **changes):
    """The kinds of findings if the certificate is changed."""
    model = attack.fitted(made, "auto", 20.0)
    solution = model.solutions_[0]
    status = changes.pop("status", solution.status)
    certificate = replace(solution.certificate, **{name: f(solution.certificate) for name, f in changes.items()})
    model.solutions_ = [replace(solution, certificate=certificate, status=status)]
    model.solution_, model.duality_gap_ = model.solutions_[0], certificate.relative_gap
    verdict = maxmargin.certify(model, made.X, made.y, made.weights)
    return kinds(judge(made, [Fit("auto", model, verdict)]))


CASES = {
    "SVC": Case("SVC", {"gamma": 0.5, "tol": 1e-6}, X, Y),
    "linear": Case("SVC", {"kernel": "linear", "tol": 1e-6}, X, Y),
    "hard": Case("SVC", {"kernel": "linear", "C": np.inf, "tol": 1e-6}, X, SEPARATED),
    "hard rbf": Case("SVC", {"gamma": 0.5, "C": np.inf, "tol": 1e-6}, X, Y),
    "NuSVC": Case("NuSVC", {"gamma": 0.5, "nu": 0.4, "tol": 1e-6}, X, Y),
    "SVR": Case("SVR", {"gamma": 0.5, "tol": 1e-6}, X, X[:, 1]),
    "NuSVR": Case("NuSVR", {"gamma": 0.5, "tol": 1e-6}, X, X[:, 1] ** 2),
    "OneClassSVM": Case("OneClassSVM", {"gamma": 0.5, "tol": 1e-6}, X, None),
    "LinearSVC": Case("LinearSVC", {"tol": 1e-6}, X, Y),
    "LinearSVR": Case("LinearSVR", {"tol": 1e-6}, X, X[:, 1] ** 2),
    "LogisticRegression": Case("LogisticRegression", {"tol": 1e-6}, X, Y),
    "softmax": Case("LogisticRegression", {"tol": 1e-6}, X, np.arange(20) % 3),
    "SGDClassifier": Case("SGDClassifier", {"tol": 1e-6, "alpha": 0.01, "solver": "newton"}, X, Y),
    "elastic net": Case("SGDRegressor", {"penalty": "elasticnet", "solver": "smoothed", "tol": 1e-6}, X, X[:, 1]),
    "weights": Case("LinearSVC", {"tol": 1e-6, "class_weight": "balanced"}, X, Y, np.arange(20.0)),
}
every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_a_true_certificate_is_believed(name):
    assert not judged(CASES[name])


@every_case
def test_a_primal_value_below_that_of_the_function_is_found(name):
    assert "primal too small" in judged(CASES[name], primal=lambda c: c.primal - 1e-5 * abs(c.primal))


@every_case
def test_a_dual_value_above_the_optimum_is_found(name):
    assert "dual too large" in judged(CASES[name], dual=lambda c: c.primal + 1e-3 * abs(c.primal))


def test_a_claim_to_have_converged_is_checked():
    assert judged(CASES["SVC"], status=Status.CONVERGED, primal=lambda c: 1.1 * c.primal) == {"converged with a gap"}


def test_a_false_proof_that_nothing_separates_is_found():
    assert "NOT_SEPARABLE" in judged(CASES["hard"], status=Status.NOT_SEPARABLE)


def test_a_wrong_function_is_found():
    made = CASES["LinearSVC"]
    model = attack.fitted(made, "auto", 20.0)
    model.coef_ = model.coef_ * 1.01
    found = kinds(judge(made, [Fit("auto", model, maxmargin.certify(model, X, Y))]))
    assert "primal too small" in found
    assert "CONVERGED" in found


def test_numbers_that_are_none_are_found():
    made = CASES["LinearSVC"]
    model = attack.fitted(made, "auto", 20.0)
    model.intercept_ = np.array([np.nan])
    assert "not finite" in kinds(judge(made, [Fit("auto", model, ValueError("of no use"))]))


def test_exceptions_and_warnings_are_judged(monkeypatch):
    def attempted(raise_it):
        monkeypatch.setattr(attack, "fitted", lambda *_: raise_it())
        return kinds(attack.attempt(CASES["SVC"], "auto", 1.0)[1])

    def refuse():
        maxmargin.SVC(C=-1.0).fit(X, Y)

    def warn():
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        refuse()

    assert attempted(refuse) == set()
    assert attempted(warn) == {"warning"}
    assert attempted(lambda: {}["a"]) == {"fit: exception"}
    assert attempted(lambda: np.linalg.cholesky(-np.eye(2))) == {"fit: exception"}
    assert attempted(lambda: np.zeros(2) @ np.zeros(3)) == {"fit: exception"}  # not our sentence


def test_a_fit_that_does_not_return_is_found(monkeypatch):
    monkeypatch.setattr(watch, "SOON", 0.01)
    monkeypatch.setattr(watch, "LATE", 0.01)
    monkeypatch.setattr(watch, "LOOKS", 0.001)  # before it has even started
    monkeypatch.setattr(watch, "IDLE", 0.1)
    worker = watch.Worker()
    assert [finding["kind"] for finding in worker.run(CASES["SVC"], 1.0)] == ["hang"]
    assert worker.process is None


class Deadly:
    """What it takes to end the process that reads it."""

    def __init__(self, end, *arguments):
        self.end, self.arguments = end, arguments

    def __reduce__(self):
        return self.end, self.arguments


ENDINGS = {
    "a wrong address": (Deadly(ctypes.string_at, 0), "by SIGSEGV: Fatal Python error"),
    "from outside": (Deadly(signal.raise_signal, signal.SIGKILL), "by SIGKILL: without a word"),
    "an exception": (Deadly(int, "three"), "with exit code 1: .*ValueError"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_crash_says_how_the_process_ended(name):
    """A signal from outside is told from a crash of ours."""
    made, ending = ENDINGS[name]
    worker = watch.Worker()
    (finding,) = worker.run(made, 1.0)
    assert (finding["kind"], worker.process) == ("crash", None)
    assert re.search(ending, finding["true"], re.DOTALL)


PROGRAMS = {
    "hinge": Machine(RowSpace(X), SIGNS, ONES, ("hinge", arb(1))),
    "squared hinge": Machine(RowSpace(X), SIGNS, ONES, ("squared hinge", arb(1)), intercept="penalised"),
    "huber hinge": Machine(RowSpace(X), SIGNS, ONES, ("huber hinge", arb(0.5)), ("l2", arb(0.1)), intercept=None),
    "epsilon": Machine(RowSpace(X), SIGNS, ONES, ("epsilon", arb(0.1))),
    "squared epsilon": Machine(RowSpace(X), SIGNS, ONES, ("squared epsilon", arb(0.1)), scale=arb(10)),
    "squared": Machine(RowSpace(X), SIGNS, ONES, ("squared", arb(1))),
    "street": Street(RowSpace(X), SIGNS, ONES, arb(7), np.ones(20, dtype=bool)),
    "region": Region(RowSpace(X + 3.0), ONES, arb(5)),
    "tube": Tube(RowSpace(X), SIGNS, ONES, arb(5)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_exact_optimum_is_one(name):
    """Its value and that of its variables agree to 60 digits: weak duality proves both."""
    problem = PROGRAMS[name]
    program = problem.program()
    a, multipliers = ActiveSet(program, [0.0] * len(program.q)).solve(20.0)
    f, b = problem.of_dual(program.expansion(a), multipliers)
    value = problem.primal(f, b)
    assert abs(value - program.value(a)) < arb("1e-60") * abs(value)
    if len(program.totals) == 0 or not program.totals[0] > 0:
        assert all(value <= problem.primal(*zero) for zero in problem.zero())


def test_newton_ends_where_the_slope_is_zero():
    problem = Machine(RowSpace(X), SIGNS, ONES, ("logistic", arb(1)))
    w, b = newton.minimum(problem, [0.0] * 3, 0.0, 20.0)
    value = problem.primal(problem.space.coefficients(w), b)
    for j in range(4):
        for h in (1e-12, -1e-12):
            moved = [v + (h if j == i else 0.0) for i, v in enumerate(w)]
            assert problem.primal(problem.space.coefficients(moved), b + (h if j == 3 else 0.0)) > value


def test_a_problem_follows_from_its_number():
    for number in range(30):
        one, same = case(3, number), case(3, number)
        assert one.params == same.params
        dense = [c.X.toarray() if sp.issparse(c.X) else c.X for c in (one, same)]
        np.testing.assert_array_equal(*dense)


@pytest.mark.parametrize("storage", sorted(set(STORAGES) - set(LOSSY)))
def test_storages_hold_the_same_numbers(storage):
    stored = STORAGES[storage](X)
    np.testing.assert_array_equal(stored.toarray() if sp.issparse(stored) else stored, X)


@pytest.mark.parametrize("storage", LOSSY)
def test_storages_of_fewer_digits_hold_nearly_the_same_numbers(storage):
    stored = STORAGES[storage](X)
    dense = stored.toarray() if sp.issparse(stored) else stored
    np.testing.assert_allclose(dense, X, rtol=1e-3, atol=0.5 if storage == "integers" else 1e-7)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_script_makes_the_same_samples(storage):
    made = replace(CASES["SVC"], X=STORAGES[storage](X), notes=[storage])
    text = script(made, {"kind": "lie", "solver": "auto", "claimed": "this", "true": "that"})
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.startswith(("    import", "    from", "    X", "    y", "    model ="))
    ]
    names = {}
    exec("\n".join(lines), names)
    dense = [M.toarray() if sp.issparse(M) else M for M in (names["X"], made.X)]
    np.testing.assert_array_equal(*dense)
    assert names["model"].gamma == 0.5


def test_a_case_is_reduced_to_what_matters():
    class Worker:
        def run(self, made, max_time, solvers):
            shows = made.X.shape[0] >= 3 and "gamma" in made.params
            return [{"kind": "lie", "solver": "auto", "claimed": "", "true": ""}] if shows else []

    made, _ = reduced(CASES["SVC"], {"kind": "lie", "solver": "auto", "claimed": "", "true": ""}, Worker(), 1.0)
    assert made.X.shape == (3, 1)
    assert made.params.keys() == {"gamma"}
