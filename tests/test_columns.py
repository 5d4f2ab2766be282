"""Samples seen as columns: problems over them, their traits and certificates, and what a fit takes without a copy."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import Lasso, LinearSVR, Point, Problem, certify
from maxmargin.estimators._machinery.check import check_training_data
from maxmargin.estimators._machinery.plan import ColumnsView, regression_task
from maxmargin.numerics.rounding import growth
from maxmargin.operators import Columns, Rows
from maxmargin.operators.column_gram import ColumnGram
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L1, L2, ElasticNet
from maxmargin.solvers import Needs
from maxmargin.solvers.choice import Traits
from maxmargin.threads import Workers

RNG = np.random.default_rng(0)
X, Y, S = RNG.normal(size=(30, 8)), RNG.normal(size=30), RNG.uniform(0.5, 2.0, 30)


class ByColumns(LinearSVR):
    """An estimator that looks at columns."""

    _by_columns = True


@pytest.mark.parametrize("penalty", [L2(0.7), L1(0.7), ElasticNet(0.7, 0.3)], ids=repr)
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_a_certificate_does_not_depend_on_how_the_samples_are_seen(penalty, intercept):
    point = Point(RNG.normal(size=8), 0.3, RNG.normal(size=30))
    by_rows, by_columns = (
        Problem(operator, Y, Squared(), penalty, S, intercept).certify(point) for operator in (Rows(X), Columns(X))
    )
    assert by_columns.primal == pytest.approx(by_rows.primal, rel=1e-13)
    assert by_columns.dual == pytest.approx(by_rows.dual, rel=1e-13)


def test_traits_of_columns():
    rows, columns = (Traits.of(Problem(operator, Y, Squared(), L1(), S)) for operator in (Rows(X), Columns(X)))
    assert (rows.columns, columns.columns) == (False, True)
    assert (columns.n_samples, columns.n_features, columns.entries) == (30, 8, 240)


def test_who_needs_columns_takes_nothing_else():
    needs = Needs("columns")
    assert needs.unmet(Problem(Columns(X), Y, Squared(), L1(), S)) is None
    assert "columns of features" in needs.unmet(Problem(Rows(X), Y, Squared(), L1(), S))
    assert "rows" in Needs("sweeps").unmet(Problem(Columns(X), Y, Squared(), L1(), S))


@pytest.mark.parametrize(
    "stored", [np.asfortranarray(X), X, np.asfortranarray(X, dtype=np.float32)], ids=["columns", "rows", "float32"]
)
def test_a_fit_takes_dense_columns_and_rows_as_they_are(stored):
    taken, _ = check_training_data(ByColumns(), stored, Y)
    assert np.shares_memory(taken, stored)
    operator = ColumnsView(taken).of(regression_task(Y, S))
    np.testing.assert_allclose(operator.apply(np.ones(8)), X.sum(axis=1), rtol=1e-5)
    if stored.flags.f_contiguous:
        assert np.shares_memory(operator.vectors.X, stored)


@pytest.mark.parametrize("layout", [sp.csc_array, sp.csr_array])
def test_a_fit_takes_sparse_columns_as_they_are(layout):
    stored = layout(np.where(np.abs(X) < 0.5, 0.0, X))
    taken, _ = check_training_data(ByColumns(), stored, Y)
    assert taken.format == stored.format
    assert np.shares_memory(taken.data, stored.data)
    view = ColumnsView(taken)
    np.testing.assert_allclose(view.of(regression_task(Y, S)).adjoint(Y), stored.T @ Y, rtol=1e-12)
    part = view.of(regression_task(Y[:20], S[:20]))
    np.testing.assert_allclose(part.adjoint(Y[:20]), stored[:20].T @ Y[:20], rtol=1e-12)


def test_columns_that_are_separated_know_nothing_yet():
    columns = Columns(X)
    columns.first_products(Y)
    other = columns.separate()
    assert other.read == 0.0
    np.testing.assert_allclose(other.beyond(Y, 1.0).v, X.T @ Y)
    np.testing.assert_allclose(columns.first_products(Y), other.first_products(Y))


@pytest.mark.parametrize("centred", [False, True])
def test_few_long_columns_are_read_by_stretches_of_samples(centred):
    """Products of columns and combinations of them, whatever was added before; and a fit that adds all at once."""
    rng = np.random.default_rng(0)
    X, h = rng.normal(size=(33_001, 19)) + 3.0, rng.random(33_001)
    columns = Columns(np.asfortranarray(X), Workers(2))
    gram = ColumnGram(columns, h, centred)
    for some in (np.array([4, 1]), np.arange(19)):
        gram.add(some)
    means = h @ X[:, gram.W[:19]] / h.sum() if centred else 0.0
    Z = X[:, gram.W[:19]] - means
    np.testing.assert_allclose(gram.G[:19, :19], Z.T @ (h[:, None] * Z), rtol=1e-11)
    w = rng.normal(size=19)
    bound = growth(columns.terms()[0]) * (np.abs(X) @ np.abs(w)) + growth(19) * (np.abs(X) @ np.abs(w))
    assert (np.abs(columns.apply(w) - X @ w) <= bound).all()
    y = X @ np.where(np.arange(19) < 5, w, 0.0) + rng.normal(size=len(X))
    model = Lasso(alpha=0.01, fit_intercept=centred, tol=1e-10).fit(X, y)
    assert model.n_iter_ <= 2
    assert certify(model, X, y).relative_gap <= 1e-9
