"""The judge of the benchmarks against the referee. They share no code, neither with each other nor with the library."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import referee

FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))
judges = pytest.importorskip("benchmark_utils.judge")
Answer, Task = judges.Answer, judges.Task

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) + 1.0
Y = np.sign(X[:, 0] - 1.0 + 0.5 * RNG.normal(size=60))
TARGETS = X[:, 0] + 0.3 * RNG.normal(size=60)
every_layout = pytest.mark.parametrize("layout", [np.asarray, np.float32, sp.csr_array], ids=["64", "32", "csr"])


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(judges, "BLOCK", 70)
    monkeypatch.setattr(judges, "SQUARE", 10)


def values(task, data):
    """The kernel matrix by its definition."""
    products = data @ data.T
    if task.kernel == "linear":
        return products
    if task.kernel == "poly":
        return (task.gamma * products + task.coef0) ** task.degree
    return np.exp(-task.gamma * ((data[:, None] - data) ** 2).sum(axis=2))


def agree(verdict, expected, rel=1e-9):
    assert verdict.primal == pytest.approx(expected.primal, rel=rel)
    assert verdict.dual == pytest.approx(expected.dual, rel=rel)


@every_layout
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("given", [True, False])
def test_linear_answers(layout, loss, intercept, given):
    data = np.asarray(X, dtype=np.float32).astype(float)
    case = referee.Machine(Y, np.full(60, 0.7), (loss.replace("_", " "), 1.0), ("l2", 1.0), X=data, intercept=intercept)
    w, b, alpha = RNG.normal(size=4), 0.3 if intercept else 0.0, RNG.normal(size=60)
    slopes = -0.7 * referee.slope_interval(case.loss, data @ w + b, Y)[0]
    judge = judges.judge_of(layout(data), Y, Task("linear", loss=loss, C=0.7, intercept=intercept))
    feasible = referee.repaired(case, alpha if given else slopes)
    verdict = judge.certificate(Answer(w, b, alpha if given else None))
    agree(verdict, referee.judge(case, w, b, feasible))
    judge.dual_bound = verdict.dual + 0.1
    other = judge.certificate(Answer(w, b, alpha if given else None))
    assert other.dual == (verdict.dual if given else verdict.dual + 0.1)


@every_layout
@pytest.mark.parametrize("family", ["kernel", "svr"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_kernel_answers(layout, family, kernel):
    task = Task(family, C=0.7, kernel=kernel, gamma=0.3, coef0=1.0)
    data = np.asarray(X, dtype=np.float32).astype(float)
    y, loss = (TARGETS, ("epsilon", task.epsilon)) if family == "svr" else (Y, ("hinge", 1.0))
    case = referee.Machine(y, np.full(60, 0.7), loss, ("l2", 1.0), K=values(task, data))
    alpha = np.where(RNG.random(60) < 0.5, 0.3 * RNG.normal(size=60), 0.0)
    verdict = judges.judge_of(layout(data), y, task).certificate(Answer(None, 0.2, alpha))
    agree(verdict, referee.judge(case, alpha, 0.2, referee.repaired(case, alpha)))


def nu_case(task, y):
    n, K = y.size, values(task, X)
    if task.family == "nu-svc":
        plus, minus = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
        low, high = np.where(y > 0, 0.0, -1.0 / n), np.where(y > 0, 1.0 / n, 0.0)
        groups = ((plus, 0.5 * task.nu), (minus, -0.5 * task.nu))
        return referee.Box(K, np.zeros(n), low, high, np.zeros(n), groups)
    total, zeros, caps = 0.5 * task.C * task.nu * n, np.zeros(n), np.full(n, task.C)
    groups = ((np.arange(n), total), (np.arange(n, 2 * n), -total))
    low, high = np.append(zeros, -caps), np.append(caps, zeros)
    return referee.Box(np.tile(K, (2, 2)), np.tile(y, 2), low, high, np.zeros(2 * n), groups)


@pytest.mark.parametrize("nu", [0.2, 0.37, 0.5])
@pytest.mark.parametrize("family", ["nu-svc", "nu-svr"])
def test_nu_answers(family, nu):
    """At a feasible point, the two agree on both values; and at the optimum of LIBSVM the gap is small."""
    from sklearn.svm import NuSVC, NuSVR

    task = Task(family, C=1.0, gamma=0.3, nu=nu)
    y = Y if family == "nu-svc" else TARGETS
    model = (NuSVC if family == "nu-svc" else NuSVR)(nu=nu, gamma=0.3, tol=1e-8).fit(X, y)
    alpha = np.zeros(60)
    alpha[model.support_] = model.dual_coef_[0]
    verdict = judges.judge_of(X, y, task).certificate(Answer(None, 0.0, alpha))
    assert verdict.relative_gap < 1e-5  # LIBSVM's tolerance is not relative to these small values
    case = nu_case(task, y)
    if family == "nu-svc":
        a = alpha / np.abs(alpha).sum() * nu
    else:
        free = 1.0 - np.abs(alpha)
        a = np.append(np.maximum(alpha, 0), np.minimum(alpha, 0))
        a += np.append(free, -free) * (0.5 * nu * 60 - 0.5 * np.abs(alpha).sum()) / free.sum()
    agree(verdict, referee.judge_box(case, referee.repaired(case, a)), rel=1e-6)
    rough = judges.judge_of(X, y, task).certificate(
        Answer(None, 0.0, alpha + 0.01 * RNG.normal(size=60) * (alpha != 0))
    )
    optimum = referee.reference_optimum(case)
    assert rough.dual <= optimum + 1e-7 <= rough.primal + 2e-7


def test_pairs_are_judged_by_the_worst():
    from sklearn.svm import SVC

    labels = np.digitize(X[:, 0], [0.5, 1.5])
    model = SVC(gamma=0.3, tol=1e-8).fit(X, labels)
    alpha = np.zeros((2, 60))
    alpha[:, model.support_] = model.dual_coef_
    judge = judges.judge_of(X, labels, Task("ovo", gamma=0.3))
    assert judge.relative_gap(Answer(None, model.intercept_, alpha)) < 1e-5
    assert judge.relative_gap(Answer(None, model.intercept_ + np.eye(3)[2], alpha)) > 1e-3


def test_predictions_are_judged_by_their_largest_error():
    task = Task("predict", gamma=0.3, train=40)
    alpha = RNG.normal(size=40)
    scores = values(task, X)[:, :40] @ alpha + 0.1
    judge, off = judges.judge_of(X, Y, task), scores.copy()
    off[7] += 1e-3 * np.abs(scores).max()
    answer = Answer(scores, 0.1, alpha, {"labels": np.sign(scores)})
    assert judge.relative_gap(answer) < 1e-12
    assert judge.relative_gap(answer._replace(w=off)) == pytest.approx(1e-3, rel=1e-6)
    assert judge.relative_gap(answer._replace(info={"labels": -np.sign(scores)})) == np.inf


def test_an_answer_that_is_no_number_has_no_gap():
    judge = judges.judge_of(X, Y, Task("linear"))
    assert judge.relative_gap(Answer(np.full(4, np.nan), 0.0, np.zeros(60))) == np.inf
    assert judge.relative_gap(Answer(np.zeros(4), np.inf, np.zeros(60))) == np.inf


def test_a_lie_about_the_optimum_is_no_proof():
    """A bound above the primal value is a mistake of somebody: it must not become a gap of zero."""
    judge = judges.judge_of(X, Y, replace(Task("linear"), intercept=None))
    judge.dual_bound = 1e6
    assert judge.relative_gap(Answer(np.zeros(4), 0.0, None)) == np.inf


def test_the_judge_shares_no_code_with_the_library():
    code = "import sys, benchmark_utils.judge; print(any(name.startswith('maxmargin') for name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
