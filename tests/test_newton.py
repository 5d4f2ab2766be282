"""Newton's shortcuts on large matrices: few rows first, near rows only, sums by what changed. Here on small ones."""

import numpy as np
import pytest

import referee
import zoo
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Status
from maxmargin.numerics.line_search import step_to_zero
from maxmargin.solvers.rows.newton import Newton
from maxmargin.solvers.rows.newton import solver as newton
from maxmargin.solvers.rows.newton import state as newton_state

LOSSES = [("hinge", 1.0), ("epsilon", 0.1), ("squared hinge", 1.0), ("logistic", 1.0)]


def _columns(n=3000):
    """Some have a few non-zeros alone, which are large once all are standardised; and a noisy target."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((n, 4)), rng.random((n, 6)) < [0.3, 0.1, 0.03, 0.01, 0.003, 0.001]])
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
    return X, X @ rng.standard_normal(10) + rng.standard_normal(n)


def rare_columns(loss, **options):
    """A problem with rare columns."""
    X, y = _columns()
    y = y if loss[0] == "epsilon" else np.sign(y)
    return zoo.machine("rare columns", X, y, loss=loss, s=0.5, **options)


@pytest.fixture
def shortcuts(monkeypatch):
    """As if some thousand rows were many."""
    monkeypatch.setattr(newton_state, "NEAR_ENTRIES", 0)
    monkeypatch.setattr(newton, "is_large", lambda problem: problem.operator.n_samples > 1000)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss[0])
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_shortcuts_lead_to_the_same_optimum(shortcuts, loss, intercept, layout):
    case = rare_columns(loss, intercept=intercept, layout=layout)
    solution = minimize(case.build(), Newton(), tol=1e-8)
    verdict = referee.judge(case.describe(), solution.point.w, solution.point.b, solution.point.alpha)
    assert solution.status is Status.CONVERGED
    assert verdict.relative_gap <= 1.01e-8
    assert verdict.primal == pytest.approx(
        minimize(case.build(), Newton(multilevel=False), tol=1e-8).certificate.primal
    )
    taken = solution.history[-1].counters["near_steps"]
    assert taken > 0 if loss[0] in ("hinge", "epsilon") else taken == 0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss[0])
def test_what_is_kept_by_changes_is_what_a_sum_over_all_rows_gives(shortcuts, loss):
    problem = rare_columns(loss).build()
    solver = Newton()
    state = solver.start(problem, None)
    for _ in range(40):
        state = solver.advance(problem, state, 1000)
        v = state.bordered.adjoint(state.a)
        np.testing.assert_allclose(state.v, v, atol=1e-9 * np.abs(v).max())
        np.testing.assert_allclose(
            state.products, state.bordered.gram(state.multiplied), atol=1e-9 * state.products.max()
        )
    assert state.updates > 0 or loss[0] != "squared hinge"


def test_a_step_on_near_rows_that_goes_too_far_is_taken_back(shortcuts, monkeypatch):
    for module in (newton, newton_state):
        monkeypatch.setattr(module, "NEAR", 1e-6)  # everything that moves, moves too far
    case = rare_columns(("hinge", 1.0))
    solution = minimize(case.build(), Newton(), tol=1e-8)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.relative_gap <= 1e-8


def test_a_neighbouring_weight_is_a_good_beginning(shortcuts):
    weights, (X, y) = np.geomspace(0.1, 10.0, 10), _columns()
    cases = [zoo.machine(f"weight {s}", X, np.sign(y), s=s) for s in weights]
    cold = [minimize(case.build(), Newton(), tol=1e-7) for case in cases]
    warm = [cold[0]]
    for case in cases[1:]:
        warm.append(minimize(case.build(), Newton(), tol=1e-7, warm=warm[-1]))
    for fresh, resumed in zip(cold, warm, strict=True):
        assert resumed.status is Status.CONVERGED
        assert resumed.certificate.primal == pytest.approx(fresh.certificate.primal, rel=2e-7)
    assert sum(solution.iterations for solution in warm[1:]) < 0.5 * sum(solution.iterations for solution in cold[1:])


def test_a_full_step_across_the_valley_is_not_taken():
    # Half of the slope on the other side used to be good enough, whatever had happened on the way: where few rows
    # react, the function can have risen. On a part of covtype it went from 3e5 to 2e7.
    t = step_to_zero(lambda t: -1.0 + 1.4 * min(t / 0.02, 1.0), -1.0)
    assert 0.0 < t < 0.02
    assert step_to_zero(lambda t: -1.0 + 0.8 * t, -1.0) == 1.0
