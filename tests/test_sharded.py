"""Rows spread over clients: every product is that of all rows in one place."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import Problem
from maxmargin.communicators import Counting, run_in_process
from maxmargin.operators import Bordered, Rows, Sharded
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.protocols import Features

N, D = 23, 4
BOUNDS = [(0, 9), (9, 9), (9, 10), (10, 23)]  # one client has no row, one has a single one


@pytest.mark.parametrize("sparse", [False, True])
def test_products_are_those_of_all_rows(sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.7)
    w, a, h = rng.standard_normal(D), rng.standard_normal(N), rng.random(N)
    A, W, limits = rng.standard_normal((N, 3)), rng.standard_normal((2, D)), np.full(D, 0.8)
    whole = Rows(sp.csr_array(X) if sparse else X)

    def program(communicator, some):
        mine = slice(*some)
        operator = Sharded(Rows(sp.csr_array(X[mine]) if sparse else X[mine]), communicator)
        assert isinstance(operator, Features)
        assert (operator.n_samples, operator.total_samples) == (some[1] - some[0], N)
        assert operator.entries == whole.entries

        def same(sharded, serial):
            np.testing.assert_allclose(sharded, serial, rtol=1e-13, atol=1e-14)

        same(operator.apply(w), whole.apply(w)[mine])
        same(operator.squared_lengths(), whole.squared_lengths()[mine])
        assert np.array_equal(operator.beyond(limits), whole.beyond(limits)[mine])
        same(operator.apply_each(W), whole.apply_each(W)[mine])
        same(operator.adjoint(a[mine]), whole.adjoint(a))
        for product, expected in zip(operator.products(w, a[mine]), whole.products(w, a), strict=True):
            same(product, expected[mine] if expected.size == N else expected)
        same(operator.column_squares(h[mine]), whole.column_squares(h))
        same(operator.weighted_gram(h[mine]), whole.weighted_gram(h))
        same(operator.weighted_gram(h[mine], 2.0), whole.weighted_gram(h, 2.0))
        same(operator.adjoint_each(A[mine]), whole.adjoint_each(A))
        part = operator.take(np.arange(0, operator.n_samples, 2))
        assert part.total_samples == sum(len(range(0, stop - start, 2)) for start, stop in BOUNDS)
        same(part.apply(w), operator.apply(w)[::2])
        return operator.adjoint(a[mine])

    sums = run_in_process(program, BOUNDS)
    assert all(np.array_equal(sums[0], other) for other in sums)  # bit for bit


@pytest.mark.parametrize(("height", "free"), [(1.0, True), (2.5, False), (0.0, False)])
def test_a_border_is_one_more_column_of_all_rows(height, free):
    rng = np.random.default_rng(1)
    X, a, h, w = rng.standard_normal((N, D)), rng.standard_normal(N), rng.random(N), rng.standard_normal(D)
    B = np.column_stack([X, np.full(N, height)]) if height else X
    b = 0.7 if height else 0.0

    def program(communicator, some):
        mine, counting = slice(*some), Counting(communicator)
        bordered = Bordered(Sharded(Rows(X[mine]), counting), height, free)
        before = counting.traffic.rounds
        theta = bordered.join(w, 0.7)  # what has no column is dropped
        np.testing.assert_allclose(bordered.apply(theta), X[mine] @ w + b, rtol=1e-13, atol=1e-14)
        assert np.array_equal(bordered.split(theta)[0], w)
        assert bordered.split(theta)[1] == pytest.approx(b)
        ridge = bordered.ridge(3.0)
        assert bordered.size == ridge.size == B.shape[1]
        assert bordered.penalised == np.count_nonzero(ridge) == B.shape[1] - free
        assert counting.traffic.rounds == before
        sums = bordered.adjoint(a[mine]), bordered.gram(h[mine]), bordered.column_squares(h[mine])
        assert counting.traffic.rounds == before + 3
        for ours, theirs in zip(sums, (B.T @ a, B.T @ (h[:, None] * B), h @ B**2), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
        return np.concatenate([np.ravel(part) for part in sums])

    everybody = run_in_process(program, BOUNDS)
    assert all(np.array_equal(everybody[0], other) for other in everybody)  # bit for bit


def test_a_sum_is_one_round():
    def program(communicator, X):
        counting = Counting(communicator)
        operator = Sharded(Rows(X), counting)
        assert (counting.traffic.rounds, counting.traffic.scalars) == (1, 6)
        operator.apply(np.ones(D))
        assert counting.traffic.rounds == 1
        operator.adjoint(np.ones(len(X)))
        assert (counting.traffic.rounds, counting.traffic.scalars) == (2, 6 + D)
        problem = Problem(operator, np.ones(len(X)), Hinge(), L2(1.0), np.ones(len(X)))
        assert not problem.kernelised
        assert problem.communicator is counting

    run_in_process(program, [np.ones((2, D)), np.ones((3, D))])


def test_unequal_numbers_of_features_are_refused():
    with pytest.raises(ValueError, match="rows of 4, 3 features"):
        run_in_process(lambda communicator, d: Sharded(Rows(np.ones((2, d))), communicator), [4, 3])
