"""Newton's method with a proximal step: its parts, large supports, and answers that others give too."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import LogisticRegression, Point, Problem, Status, minimize
from maxmargin.operators import Columns, Rows
from maxmargin.operators.column_copy import ColumnCopy
from maxmargin.parts.losses import Logistic, SquaredHinge
from maxmargin.parts.penalties import L1, ElasticNet
from maxmargin.solvers import ProximalNewton, Smoothed
from maxmargin.solvers.columns.proximal_newton import solver as module

RNG = np.random.default_rng(0)


def sparse_problem(n=300, d=900, C=30.0, loss=None, penalty=None, intercept="free", layout="csc"):
    r = np.random.default_rng(1)
    X = sp.random(n, d, 0.05, format="csc", random_state=2, data_rvs=r.standard_normal)
    y = np.where(X @ r.normal(size=d) + r.normal(size=n) > 0.0, 1.0, -1.0)
    operator = Columns(X if layout == "csc" else X.toarray(order="F")) if layout != "rows" else Rows(sp.csr_array(X))
    return Problem(operator, y, loss or Logistic(), penalty or L1(1.0), np.full(n, C), intercept)


@pytest.mark.parametrize("layout", [np.asfortranarray, sp.csc_array])
@pytest.mark.parametrize("centred", [True, False])
def test_products_of_copied_columns(layout, centred):
    X = RNG.normal(size=(40, 9)) * (RNG.random((40, 9)) < 0.6)
    h = np.where(np.arange(40) % 5 == 0, 0.0, RNG.uniform(0.1, 2.0, 40))
    copy = ColumnCopy(Columns(layout(X)), np.array([1, 4, 7, 9]), 3.0)
    A = np.column_stack([X, np.full(40, 3.0)])[:, copy.W]
    G, means = copy.gram(h, centred)
    expected = h @ A / h.sum() if centred else np.zeros(4)
    centred_columns = A - expected
    np.testing.assert_allclose(means, expected, atol=1e-13)
    np.testing.assert_allclose(G, centred_columns.T @ (h[:, None] * centred_columns), atol=1e-12)
    means, diagonal = copy.means_and_curvatures(h, centred)
    np.testing.assert_allclose(diagonal, G.diagonal(), atol=1e-12)
    np.testing.assert_allclose(copy.apply(np.array([1.0, 0.0, -2.0, 0.5])), A @ [1.0, 0.0, -2.0, 0.5], atol=1e-13)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=["logistic", "squared hinge"])
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_every_way_to_solve_a_model_leads_to_the_same_optimum(loss, intercept, monkeypatch):
    """By the matrix, by residuals first, by conjugate gradients to the end, and by accelerated descent over rows."""
    problem = sparse_problem(loss=loss, intercept=intercept)
    dense = sparse_problem(loss=loss, intercept=intercept, layout="dense")
    values = [minimize(problem, ProximalNewton(), tol=1e-9)]
    monkeypatch.setattr(module, "LARGE", 20)
    values.append(minimize(sparse_problem(loss=loss, intercept=intercept), ProximalNewton(), tol=1e-9))
    monkeypatch.setattr(module, "TOO_LARGE", 20)
    rough = 1e-9 if isinstance(loss, Logistic) else 1e-5
    values.append(minimize(sparse_problem(loss=loss, intercept=intercept), ProximalNewton(), tol=rough))
    values.append(minimize(dense, ProximalNewton(), tol=rough))
    rows = sparse_problem(loss=loss, intercept=intercept, layout="rows")
    values.append(minimize(rows, Smoothed(), tol=1e-5))
    for found in values:
        assert found.status is Status.CONVERGED
        assert found.certificate.primal == pytest.approx(values[0].certificate.primal, rel=2.0 * found.tol)
    assert np.count_nonzero(values[0].point.w) > 60


def test_a_start_near_the_answer_takes_fewer_iterations():
    problem = sparse_problem(penalty=ElasticNet(1.0, 0.5))
    cold = minimize(problem, ProximalNewton(), tol=1e-8)
    warm = minimize(
        problem, ProximalNewton(), tol=1e-8, warm=Point(0.99 * cold.point.w, cold.point.b, cold.point.alpha)
    )
    assert warm.status is Status.CONVERGED
    assert warm.iterations < cold.iterations


def test_the_path_from_nothing_to_all():
    """At the smallest strength for which all coefficients are zero, they are, and just below it one is not."""
    problem = sparse_problem()
    zero = minimize(sparse_problem(penalty=L1(1e9)), ProximalNewton(), tol=1e-12)
    assert not zero.point.w.any()
    most = float(np.abs(problem.operator.adjoint(zero.point.alpha)).max())
    assert not minimize(sparse_problem(penalty=L1(most * 1.0001)), ProximalNewton(), tol=1e-12).point.w.any()
    some = minimize(sparse_problem(penalty=L1(most * 0.999)), ProximalNewton(), tol=1e-12).point.w
    assert 1 <= np.count_nonzero(some) <= 3


def test_many_weights_from_an_estimator_without_a_copy_of_columns():
    X = sp.random(500, 200, 0.1, format="csc", random_state=0)
    y = (X.sum(axis=1).A1 if hasattr(X.sum(axis=1), "A1") else np.ravel(X.sum(axis=1))) > 10.0
    model = LogisticRegression(C=10.0, l1_ratio=1.0, tol=1e-8).fit(X, y)
    assert model.solution_.solver == "proximal_newton"
    assert model.status_ is Status.CONVERGED
    before = X.copy()
    assert (before != X).nnz == 0
