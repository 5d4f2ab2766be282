"""Operators: matrices as rows and columns, kernel matrices in blocks, the row cache, the one-variable search."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from maxmargin.numerics.bisection import middle_minimiser
from maxmargin.operators import (
    CallableGram,
    Columns,
    KernelGram,
    PrecomputedGram,
    Rows,
    arena,
    gram,
    row_cache,
    rows,
    tiles,
)
from maxmargin.operators.arena import SMALLEST, memory_for
from maxmargin.operators.row_cache import BATCH, RowCache
from maxmargin.operators.rows import TILE_ROWS
from maxmargin.parts.kernels import RBF, Laplacian, Linear
from maxmargin.threads import Workers
from zoo import kernel_matrix

examples = settings(max_examples=25, deadline=None, derandomize=True, database=None)
entries = st.floats(-100.0, 100.0).map(lambda v: 0.0 if abs(v) < 1e-3 else v)
matrices = hnp.arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 5)), elements=entries)


def random_matrix(n=13, d=6, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[np.abs(X) < 0.5] = 0.0
    return X


def with_int64_indices(X):
    X = sp.csr_array(X)
    return sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)


LAYOUTS = {
    "dense": np.asarray,
    "fortran": np.asfortranarray,
    "csr": sp.csr_array,
    "csr matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "int64 indices": with_int64_indices,
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
rows_and_columns = pytest.mark.parametrize("operator", [Rows, Columns])


@rows_and_columns
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@examples
@given(X=matrices, seed=st.integers(0, 1000))
def test_adjoint_identity(operator, layout, X, seed):
    rng = np.random.default_rng(seed)
    w, alpha = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])
    A = operator(layout(X))
    left, right = A.apply(w) @ alpha, w @ A.adjoint(alpha)
    assert left == pytest.approx(right, abs=1e-13 * (1.0 + np.abs(X).sum()) * np.abs(w).max() * np.abs(alpha).max())


@rows_and_columns
@every_layout
def test_products_equal_those_of_numpy(operator, layout):
    X = random_matrix()
    rng = np.random.default_rng(1)
    w, alpha = rng.normal(size=6), rng.normal(size=13)
    A = operator(layout(X))
    assert (A.n_samples, A.n_features) == (13, 6)
    np.testing.assert_allclose(A.apply(w), X @ w, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(A.adjoint(alpha), X.T @ alpha, rtol=1e-13, atol=1e-14)
    axis = 1 if operator is Rows else 0
    np.testing.assert_allclose(A.squared_lengths(), (X**2).sum(axis=axis), rtol=1e-13)


@rows_and_columns
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_float32_is_accumulated_in_float64(operator, layout):
    X = (1e3 + np.random.default_rng(2).normal(size=(50, 40))).astype(np.float32)
    exact = X.astype(np.float64)
    w, alpha = np.full(40, 1.1), np.full(50, 0.7)
    A = operator(layout(X))
    assert A.apply(w).dtype == A.adjoint(alpha).dtype == np.float64
    np.testing.assert_allclose(A.apply(w), exact @ w, rtol=1e-13)
    np.testing.assert_allclose(A.adjoint(alpha), exact.T @ alpha, rtol=1e-13)
    axis = 1 if operator is Rows else 0
    np.testing.assert_allclose(A.squared_lengths(), (exact**2).sum(axis=axis), rtol=1e-13)


def test_integers_and_other_byte_orders_are_converted():
    X = np.arange(12).reshape(4, 3)
    for converted in (X, X.astype(">f8"), X.astype(np.float16), X.astype(bool), sp.csr_array(X)):
        np.testing.assert_allclose(Rows(converted).apply(np.ones(3)), np.asarray(X.astype(converted.dtype)).sum(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_are_not_copied(dtype):
    X = random_matrix().astype(dtype)
    assert np.shares_memory(Rows(X).vectors.X, X)
    F = np.asfortranarray(X)
    assert np.shares_memory(Columns(F).vectors.X, F)
    for stored, operator in ((sp.csr_array(X), Rows), (sp.csc_array(X), Columns)):
        vectors = operator(stored).vectors
        assert np.shares_memory(vectors.data, stored.data)
        assert np.shares_memory(vectors.indices, stored.indices)
    K = X @ X.T
    assert PrecomputedGram(K).K is K
    assert KernelGram(Linear(), X).X is X


@pytest.mark.parametrize(
    "operator", [Rows, Columns, lambda X: KernelGram(RBF(0.1), X)], ids=["rows", "columns", "gram"]
)
def test_duplicate_entries_are_summed_without_touching_the_users_matrix(operator):
    data, indices, indptr = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 1, 2, 0]), np.array([0, 2, 4])
    X = sp.csr_array((data, indices, indptr), shape=(2, 3))
    dense = X.toarray()
    kept = X.data.copy(), X.indices.copy(), X.indptr.copy()
    A = operator(X)
    if isinstance(A, KernelGram):
        expected = KernelGram(RBF(0.1), dense)
        np.testing.assert_allclose(A.block(np.arange(2)), expected.block(np.arange(2)), rtol=1e-14)
        np.testing.assert_allclose(A.diagonal(), 1.0)
    else:
        np.testing.assert_allclose(A.apply(np.array([1.0, 10.0, 100.0])), dense @ [1.0, 10.0, 100.0])
        np.testing.assert_allclose(A.squared_lengths(), (dense**2).sum(axis=1 if operator is Rows else 0))
    for now, before in zip((X.data, X.indices, X.indptr), kept, strict=True):
        np.testing.assert_array_equal(now, before)


def test_empty_rows_and_columns():
    X = np.zeros((3, 2))
    for stored in (X, sp.csr_array(X)):
        A = Rows(stored)
        np.testing.assert_array_equal(A.apply(np.ones(2)), np.zeros(3))
        np.testing.assert_array_equal(A.adjoint(np.ones(3)), np.zeros(2))
        np.testing.assert_array_equal(A.squared_lengths(), np.zeros(3))


# ---- kernel matrices -------------------------------------------------------------------------------------------------


def grams():
    X = random_matrix(29, 4, 3)
    K = KernelGram(RBF(0.3), X).block(np.arange(29))
    yield "rbf", KernelGram(RBF(0.3), X), K
    yield "rbf csr", KernelGram(RBF(0.3), sp.csr_array(X)), K
    yield "precomputed", PrecomputedGram(K), K
    yield "precomputed csr", PrecomputedGram(sp.csr_array(K)), K
    yield (
        "callable",
        CallableGram(lambda A, B: kernel_matrix(RBF(0.3), A, B), X),
        K,
    )


@pytest.mark.parametrize(("operator", "K"), [case[1:] for case in grams()], ids=[case[0] for case in grams()])
def test_gram_against_its_dense_matrix(operator, K, monkeypatch):
    monkeypatch.setattr(tiles, "TILE_BYTES", 8 * 29 * 4)  # several tiles
    for module in (gram, tiles):
        monkeypatch.setattr(module, "LEFT_VALUES", 29 * 4)
    rows = np.array([3, 0, 17])
    w = np.random.default_rng(4).normal(size=29)
    w[::3] = 0.0
    np.testing.assert_allclose(operator.block(rows), K[rows], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(operator.diagonal(), np.diagonal(K), rtol=1e-13)
    np.testing.assert_allclose(operator.apply(w), K @ w, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(operator.adjoint(w), w)
    assert not np.shares_memory(operator.adjoint(w), w)
    assert operator.passes(w) == pytest.approx(np.count_nonzero(w) / 29)


def test_tiles_of_float32_data_and_of_distances(monkeypatch):
    monkeypatch.setattr(tiles, "WIDEST_TILE", 5)
    X = random_matrix(23, 4, 5)
    for kernel in (RBF(0.3), Laplacian(0.3)):
        expected = KernelGram(kernel, X.astype(np.float32).astype(np.float64)).block(np.arange(23))
        np.testing.assert_allclose(KernelGram(kernel, X.astype(np.float32)).block(np.arange(23)), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("function", "fragment"),
    [(lambda A, B: np.ones((len(A), len(B) + 1)), "shape"), (lambda A, B: np.full((len(A), len(B)), np.nan), "NaN")],
)
def test_a_bad_callable_is_refused_with_the_fact(function, fragment):
    with pytest.raises(ValueError, match=fragment):
        CallableGram(function, np.ones((3, 1))).block(np.array([0]))


# ---- the cache of rows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("n", [1, 479, 481, 1000, 2100])
def test_one_half_of_a_kernel_matrix_is_enough_for_its_product(layout, n):
    X, w = random_matrix(n), np.random.default_rng(1).normal(size=n)
    results = []
    for threads in (1, 2, 3):
        operator = KernelGram(RBF(0.3), layout(X), Workers(threads))
        results.append(operator.tiles.symmetric_sums(operator.columns(None, np.float64), w))
    np.testing.assert_allclose(results[0], kernel_matrix(RBF(0.3), X, X) @ w, rtol=1e-11, atol=1e-11)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("d", "offset"), [(3, 0.0), (60, 0.0), (60, 30.0)])
def test_scores_are_float64_where_they_matter_and_within_their_bound_elsewhere(layout, d, offset):
    X, rng = random_matrix(4000, d) + offset, np.random.default_rng(1)
    w = np.where(rng.random(4000) < 0.3, rng.normal(size=4000), 0.0)
    operator, bounds, asked = KernelGram(RBF(1.0 / d), layout(X)), np.zeros(4000), rng.random(4000) < 0.1

    def matters(samples, scores, error):
        assert not w[samples].any()
        bounds[samples] = np.where(asked[samples], 0.0, error)
        return asked[samples]

    mistakes = np.abs(operator.apply_where(w, matters) - operator.apply(w))
    assert (bounds > 0.0).sum() > 2000
    assert mistakes[bounds == 0.0].max() < 1e-10
    assert (mistakes <= bounds + 1e-10).all()
    assert mistakes.max() > 1e-9  # of float32, or nothing was saved


def cached(n=200, slots=40, lam=1.0, shift=0.0):
    K = KernelGram(RBF(0.3), random_matrix(n, 3, 6)).block(np.arange(n))
    return RowCache(PrecomputedGram(K), slots * 8 * n / 2**20, 1.0 / lam, shift), K / lam + shift


def test_cache_holds_what_was_fetched():
    cache, Q = cached(lam=0.5, shift=2.0)
    cache.fetch(np.array([5, 9, 100]))
    for i in (5, 9, 100):
        np.testing.assert_allclose(cache.rows[cache.slot[i]], Q[i], rtol=1e-14)
    assert cache.evaluations == 3 * 200
    cache.fetch(np.array([9, 5]))
    assert cache.evaluations == 3 * 200  # nothing was missing


class Owner:
    """Something that can be referred to weakly."""


@pytest.mark.skipif(not arena.POSSIBLE, reason="this system cannot take memory back while it is mapped")
def test_memory_is_used_again_but_never_by_two_at_once(monkeypatch):
    monkeypatch.setattr(arena, "_kept", [])
    first, second = Owner(), Owner()
    a, b = (memory_for(owner, SMALLEST, np.float32) for owner in (first, second))
    a[:], b[:] = 1.0, 2.0
    assert (a == 1.0).all()
    where = a.ctypes.data
    del a, first
    third = Owner()
    c = memory_for(third, SMALLEST // 2, np.float64)
    assert c.ctypes.data == where
    c[:] = 3.0
    assert (b == 2.0).all()
    assert memory_for(Owner(), 10, np.float64).size == 10


@pytest.mark.skipif(not arena.POSSIBLE, reason="this system cannot take memory back while it is mapped")
def test_memory_that_is_kept_is_bounded_and_large_enough(monkeypatch):
    monkeypatch.setattr(arena, "_kept", [])
    owners = [Owner() for _ in range(arena.KEPT_BLOCKS + 3)]
    for owner in owners:
        memory_for(owner, SMALLEST, np.uint8)
    del owner, owners
    assert len(arena._kept) == arena.KEPT_BLOCKS
    keeper = Owner()
    assert memory_for(keeper, 3 * SMALLEST, np.uint8).size == 3 * SMALLEST
    assert not arena._kept


def test_cache_refuses_more_rows_than_it_holds():
    """Rows that are stored already would make room for the others, and their slots would be wrong."""
    cache, Q = cached(slots=160)
    rows = np.arange(cache.capacity)
    cache.fetch(rows[-4:])
    np.testing.assert_array_equal(cache.rows[cache.fetch(rows)], Q[rows])
    with pytest.raises(ValueError, match=rf"{cache.capacity + 1} rows were asked for at once"):
        cache.fetch(np.arange(cache.capacity + 1))


def test_cache_opens_more_memory_when_rows_are_wanted_again():
    cache, Q = cached(slots=160)
    before = cache.nbytes
    assert before < 160 * 8 * 200
    for _ in range(12):
        for start in range(0, 120, BATCH):
            rows = np.arange(start, start + BATCH)
            np.testing.assert_array_equal(cache.rows[cache.fetch(rows)], Q[rows])
    assert before < cache.nbytes <= 160 * 8 * 200
    assert (cache.slot[:120] >= 0).all()  # enough for all that are wanted


def test_cache_is_bounded_and_evicts_the_least_recently_used(monkeypatch):
    monkeypatch.setattr(row_cache, "FIRST_SHARE", 1.0)
    cache, Q = cached()
    assert cache.rows.shape[0] == 40
    assert cache.nbytes <= 40 * 8 * 200
    for start in range(0, 200, BATCH):
        cache.clock[0] += 1
        cache.fetch(np.arange(start, start + BATCH))
    stored = np.flatnonzero(cache.slot >= 0)
    np.testing.assert_array_equal(stored, np.arange(160, 200))
    for i in stored:
        assert cache.sample[cache.slot[i]] == i
        np.testing.assert_array_equal(cache.rows[cache.slot[i]], Q[i])
    cache.clock[0] += 1
    cache.used[cache.slot[160]] = cache.clock[0]  # wanted again, so another one must go
    cache.fetch(np.arange(BATCH))
    assert cache.slot[160] >= 0
    assert cache.slot[161] < 0


def test_fetch_keeps_the_wanted_rows_that_are_stored_already():
    cache, Q = cached()
    for start in range(0, 40, BATCH):
        cache.clock[0] += 1
        cache.fetch(np.arange(start, start + BATCH))
    cache.clock[0] += 1
    cache.fetch(np.array([0, 50, 51]))  # 0 is the row that was used longest ago
    for i in (0, 50, 51):
        assert cache.slot[i] >= 0
        np.testing.assert_array_equal(cache.rows[cache.slot[i]], Q[i])


def test_small_problems_fit_whole():
    cache, Q = cached(n=6, slots=1)
    assert cache.rows.shape[0] == 6
    cache.fetch(np.arange(6))
    np.testing.assert_array_equal(cache.rows[cache.slot], Q)


def test_combine_mixes_stored_and_fresh_rows():
    cache, Q = cached(lam=0.5, shift=2.0)
    cache.fetch(np.arange(8))
    weights = np.zeros(200)
    weights[[2, 7, 30, 199]] = [1.0, -2.0, 3.0, 0.5]
    np.testing.assert_allclose(cache.combine(weights), weights @ Q, rtol=1e-12)
    everything = np.random.default_rng(7).normal(size=200)  # more than one stretch
    np.testing.assert_allclose(cache.combine(everything), everything @ Q, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(cache.combine(np.zeros(200)), np.zeros(200))


def test_cache_does_not_scale_the_users_own_matrix():
    K = np.eye(4) + 1.0
    kept = K.copy()
    cache = RowCache(CallableGram(lambda A, B: K[: len(A)], np.arange(4.0)[:, None]), 1.0, scale=0.5, shift=1.0)
    cache.fetch(np.arange(4))
    np.testing.assert_array_equal(K, kept)


# ---- the search in one variable --------------------------------------------------------------------------------------


class Kinks:
    """``sum_i |b - kink_i|``, whose derivative jumps at each kink."""

    def __init__(self, kinks):
        self.kinks = np.asarray(kinks, dtype=np.float64)

    def derivative(self, b):
        return float(np.sign(b - self.kinks).sum())


# Run as plain Python: a class of the tests in a compiled loop would put this file into the key of the disk cache.
middle = middle_minimiser.function


@examples
@given(kinks=hnp.arrays(np.float64, st.integers(1, 9), elements=st.floats(-1e6, 1e6)))
def test_middle_minimiser_is_the_median(kinks):
    scale = float(np.abs(kinks).max())
    assert middle(Kinks(kinks), scale) == pytest.approx(np.median(kinks), abs=1e-15 * (1.0 + scale))


def test_middle_minimiser_looks_beyond_its_scale():
    assert middle(Kinks([1e9]), 1.0) == pytest.approx(1e9)
    assert middle(Kinks([-1e9]), 1.0) == pytest.approx(-1e9)


def test_middle_minimiser_of_a_constant_is_zero():
    assert middle(Kinks([]), 3.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_rows_in_parts_give_the_same_bits_for_any_number_of_threads(layout, monkeypatch):
    monkeypatch.setattr(rows, "PART_WORK", 500)
    monkeypatch.setattr(rows, "TILE_ROWS", 64)
    X, rng = random_matrix(700, 9), np.random.default_rng(2)
    w, alpha, h = rng.normal(size=9), rng.normal(size=700), np.maximum(0.0, rng.normal(size=700))
    one, three = (Rows(layout(X), Workers(count)) for count in (1, 3))
    assert len(one.parts) > 3
    for A in (one, three):
        np.testing.assert_allclose(A.apply(w), X @ w, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(A.adjoint(alpha), X.T @ alpha, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(A.weighted_gram(h), X.T @ (h[:, None] * X), rtol=1e-12, atol=1e-12)
    for product, argument in (("apply", w), ("adjoint", alpha), ("weighted_gram", h)):
        assert np.array_equal(getattr(one, product)(argument), getattr(three, product)(argument))
    some = np.array([3, 3, 699, 0])
    np.testing.assert_array_equal(one.take(some).apply(w), one.apply(w)[some])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_products_with_several_vectors_at_once(store, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(TILE_ROWS + 3, 5)) * (rng.random((TILE_ROWS + 3, 5)) < 0.5)).astype(dtype)
    W, A = rng.normal(size=(3, 6))[:, :5], rng.normal(size=(TILE_ROWS + 3, 3))
    rows, exact = Rows(store(X)), X.astype(np.float64)
    np.testing.assert_allclose(rows.apply_each(W), exact @ W.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(rows.adjoint_each(A), A.T @ exact, rtol=0, atol=1e-10)
    np.testing.assert_allclose(rows.squares_each(A), A.T @ exact**2, rtol=0, atol=1e-10)
