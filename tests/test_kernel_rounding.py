"""Kernel matrices and rounding: what they compute is within the bound that they state, wherever the samples lie."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from maxmargin import SVC
from maxmargin.operators import CallableGram, KernelGram, PrecomputedGram, SharedRows, StoredGram, tiles
from maxmargin.operators.differences import CANCELLED, Measuring
from maxmargin.parts.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid

LONG = np.longdouble
pytestmark = pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="no numbers of more than 53 bits on this system")
examples = settings(deadline=None, derandomize=True, database=None)
LAYOUTS = {"dense": np.asarray, "csr": sp.csr_matrix}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def exact(kernel, X, Z=None):
    """Kernel values in numbers of 64 bits, from differences where the kernel depends on them."""
    X, Z = (np.asarray(A.toarray() if sp.issparse(A) else A).astype(LONG) for A in (X, X if Z is None else Z))
    if isinstance(kernel, (RBF, Laplacian)):
        difference = np.abs(X[:, None, :] - Z[None, :, :])
        t = (difference**2).sum(axis=2) if isinstance(kernel, RBF) else difference.sum(axis=2)
        return np.exp(-LONG(kernel.gamma) * t)
    products = (X[:, None, :] * Z[None, :, :]).sum(axis=2)
    if isinstance(kernel, Linear):
        return LONG(kernel.scale) * products
    argument = LONG(kernel.gamma) * products + LONG(kernel.coef0)
    return np.tanh(argument) if isinstance(kernel, Sigmoid) else argument ** int(kernel.degree)


def mistakes(gram, K, w):
    """How far ``apply`` is from the truth, and its bound."""
    with np.errstate(all="raise"):
        bound = gram.rounding(w)
    assert bound.shape == (gram.n_samples,)
    assert bound.dtype == np.float64
    assert not np.isnan(bound).any()
    return np.abs(gram.apply(w).astype(LONG) - K @ w.astype(LONG)), bound


def clusters(n, d, apart, seed=0):
    """Samples near two points, in random order."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + apart * (rng.random(n) < 0.5)[:, None]


@pytest.mark.parametrize("tilt", [0.0, 1e-12, 1e-7])
def test_what_a_callable_kernel_lacks_in_symmetry_is_within_its_bound(tilt):
    """The product with a vector is that of the matrix, and of its transpose."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(30, 2)), rng.normal(size=30)
    gram = CallableGram(lambda A, B: A @ B.T + 1.0 + tilt * (A.sum(axis=1)[:, None] - B.sum(axis=1)), X)
    K = gram.between(np.arange(30), np.arange(30))
    middle, bound = 0.5 * (K + K.T) @ w, gram.rounding(w)
    assert (np.abs(gram.apply(w) - middle) <= bound).all()
    assert (bound <= 100.0 * tilt * np.abs(w).sum() + 1e-12).all()


kernels = st.one_of(
    st.builds(Linear, st.floats(1e-3, 1e3)),
    st.builds(RBF, st.floats(-6, 6).map(lambda e: 10.0**e)),
    st.builds(Laplacian, st.floats(-6, 6).map(lambda e: 10.0**e)),
    st.builds(Polynomial, st.integers(1, 9), st.floats(1e-3, 10.0), st.sampled_from([0.0, 1.0, -2.0])),
    st.builds(Sigmoid, st.floats(1e-3, 10.0), st.floats(-1.0, 1.0)),
)


@settings(examples, max_examples=250)
@given(
    kernel=kernels,
    n=st.integers(1, 40),
    d=st.integers(1, 12),
    scale=st.integers(-6, 9),
    offset=st.sampled_from([0.0, 1.0, 1e4, 1e9]),
    apart=st.sampled_from([0.0, 10.0, 1e8]),
    share=st.sampled_from([0.3, 1.0]),
    layout=st.sampled_from(list(LAYOUTS.values())),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 2**32 - 1),
)
def test_products_are_within_their_bound(kernel, n, d, scale, offset, apart, share, layout, dtype, seed):
    rng = np.random.default_rng(seed)
    X = (10.0**scale * ((clusters(n, d, apart, seed) + offset) * (rng.random((n, d)) < share))).astype(dtype)
    w = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3, n) * (rng.random(n) < 0.8)
    mistake, bound = mistakes(KernelGram(kernel, layout(X)), exact(kernel, X), w)
    assert (mistake <= bound * (1.0 + 1e-3)).all()


@every_layout
@pytest.mark.parametrize(
    "kernel", [Linear(2.0), RBF(0.3), Laplacian(0.3), Polynomial(3, 0.3, 1.0), Sigmoid(0.3, -0.2)], ids=str
)
def test_the_bound_is_small_for_usual_samples(kernel, layout):
    X = np.random.default_rng(0).normal(size=(200, 10))
    w = np.random.default_rng(1).normal(size=200)
    mistake, bound = mistakes(KernelGram(kernel, layout(X)), exact(kernel, X), w)
    sizes = Measuring.of(kernel, KernelGram(kernel, layout(X)).columns(None, np.float64)).magnitude((X**2).sum(axis=1))
    assert (mistake <= bound).all()
    assert (bound <= 1e-11 * sizes * (sizes @ np.abs(w))).all()
    assert (np.abs(exact(kernel, X)) <= np.outer(sizes, sizes) * (1.0 + 1e-12)).all()


def test_a_bound_beyond_all_numbers_is_infinite():
    w = np.ones(4)
    for X in (np.full((4, 2), 1e200), sp.csr_array(np.full((4, 2), 1e200)), np.diag([1e200, 1.0, 0.0, 1e160])):
        for kernel in (Linear(), Polynomial(9, 1.0, 1.0), RBF(1.0), Laplacian(1e10), Sigmoid(1e300, 0.0)):
            with np.errstate(all="raise"):
                bound = KernelGram(kernel, X).rounding(w)
            assert not np.isnan(bound).any()
            if isinstance(kernel, (Linear, Polynomial)):
                assert np.isinf(bound).any()
    with np.errstate(all="raise"):
        assert np.isinf(KernelGram(Linear(), np.ones((2, 1))).rounding(np.array([1e308, 1e308]))).all()


def test_points_beyond_the_squares_of_all_numbers_are_similar_to_their_neighbours():
    X = np.array([[1e200, 1.0], [1e200, 2.0], [-1e200, 0.0], [0.0, 0.0]])
    for layout in LAYOUTS.values():
        K = KernelGram(RBF(0.5), layout(X)).block(np.arange(4))
        np.testing.assert_allclose(K, exact(RBF(0.5), X).astype(np.float64), rtol=1e-14, atol=1e-300)


def test_nothing_is_added_up_without_error():
    gram = KernelGram(RBF(1.0), clusters(9, 2, 1e8))
    assert not gram.rounding(np.zeros(9)).any()


def test_given_matrices_are_added_up_within_their_bound():
    X = np.random.default_rng(0).normal(size=(150, 4))
    w = np.random.default_rng(1).normal(size=150) * 10.0 ** np.random.default_rng(2).uniform(-8, 8, 150)
    K = zoo.kernel_matrix(Polynomial(3, 1.0, 1.0), X, X)
    K = 0.5 * (K + K.T)
    grams = (PrecomputedGram(K), PrecomputedGram(sp.csr_array(K)), CallableGram(lambda A, B: K[: len(A)], X[:, :1]))
    for gram in grams[:2]:
        mistake, bound = mistakes(gram, K.astype(LONG), w)
        assert (mistake <= bound).all()
        assert bound.max() <= 1e-12 * np.sqrt(np.diagonal(K)).max() * (np.sqrt(np.diagonal(K)) @ np.abs(w))
    np.testing.assert_array_equal(grams[2].rounding(w).shape, (150,))


def test_kept_rows_are_added_up_within_their_bound():
    X = np.random.default_rng(0).normal(size=(1100, 4))
    w = np.random.default_rng(1).normal(size=1100)
    gram = KernelGram(RBF(0.3), X)
    np.testing.assert_array_equal(StoredGram(gram).rounding(w), gram.rounding(w))
    K = exact(RBF(0.3), X)
    mistake, bound = mistakes(SharedRows(gram, 100.0, 1e9), K, w)
    assert (mistake <= bound).all()
    single = SharedRows(gram, 100.0, 1.0)
    single.apply(w)  # everything is stored from now on
    mistake, bound = mistakes(single, K, w)  # not of the values that are stored
    assert mistake.max() > 1e-8
    assert (mistake <= bound).all()


# ---- values that cancel ----------------------------------------------------------------------------------------------


FAR = {"one offset": lambda n, d: clusters(n, d, 0.0) + 1e8, "two clusters": lambda n, d: clusters(n, d, 1e8)}


@every_layout
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [RBF(0.5), Laplacian(0.5)], ids=str)
@pytest.mark.parametrize("make", FAR.values(), ids=FAR)
def test_values_of_points_far_away_are_right_to_the_last_digits(make, kernel, layout, dtype, monkeypatch):
    monkeypatch.setattr(tiles, "TILE_BYTES", 8 * 90 * 16)  # several tiles
    X = make(300, 3).astype(dtype)
    if dtype == np.float32:
        X += 16.0 * np.arange(300).astype(dtype)[:, None] % 64  # float32 numbers near 1e8 are 8 apart
    K, gram = exact(kernel, X), KernelGram(kernel, layout(X))
    np.testing.assert_allclose(gram.block(np.arange(300)), K.astype(np.float64), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(
        zoo.kernel_matrix(kernel, layout(X[:40]), layout(X[40:])), K[:40, 40:].astype(float), 1e-12, 1e-300
    )
    w = np.random.default_rng(3).normal(size=300)
    points = gram.columns(None, np.float64)
    np.testing.assert_allclose(gram.apply(w), (K @ w).astype(np.float64), rtol=0, atol=1e-12)
    np.testing.assert_allclose(gram.tiles.symmetric_sums(points, w), (K @ w).astype(np.float64), rtol=0, atol=1e-12)
    mistake, bound = mistakes(gram, K, w)
    assert (mistake <= bound).all()
    assert bound.max() <= 1.1 * CANCELLED * np.abs(w).sum()


def test_only_pairs_that_cancel_and_count_are_measured_again(monkeypatch):
    """Usual samples pay nothing. Two that are far away pay for their own values only, as the others are too far."""
    moved = []

    def watched(measuring, left, samples, columns, stretch, m):
        expected = m - 0.5 * (left.sq[samples][:, None] + columns.sq[stretch][None, :])
        original(measuring, left, samples, columns, stretch, m)
        rows, others = np.nonzero(np.abs(m - expected) > 1e-12 * np.abs(expected))
        moved.extend(zip(samples[rows], others + stretch.start, strict=True))

    original = tiles.sum_differences
    monkeypatch.setattr(tiles, "sum_differences", watched)
    X = np.random.default_rng(0).normal(size=(100, 3))
    KernelGram(RBF(0.5), X).block(np.arange(100))
    KernelGram(RBF(0.5), sp.csr_array(X)).block(np.arange(100))
    assert moved == []
    X[7] = X[8] = [1e7, 1e7 / 3, 0.1]
    X[8] += 0.3
    K = KernelGram(RBF(0.5), sp.csr_array(X)).block(np.arange(100))
    assert {(7, 8), (8, 7)} <= set(moved) <= {(7, 7), (7, 8), (8, 7), (8, 8)}
    np.testing.assert_allclose(K, exact(RBF(0.5), X).astype(np.float64), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("make", FAR.values(), ids=FAR)
def test_rows_in_float32_are_not_used_where_they_would_be_garbage(make):
    for kernel in (RBF(0.5), Laplacian(0.5)):
        assert not KernelGram(kernel, sp.csr_array(make(50, 3))).fits_single
        assert KernelGram(kernel, sp.csr_array(make(50, 3) * 1e-9)).fits_single
    X = make(50, 3)
    assert KernelGram(RBF(0.5), X).fits_single == KernelGram(Laplacian(0.5), X).fits_single == (np.ptp(X) < 100.0)
    assert not KernelGram(Sigmoid(1.0, 0.0), X).fits_single
    assert KernelGram(RBF(0.05), np.random.default_rng(0).normal(size=(50, 784))).fits_single


Z = np.random.default_rng(0).normal(size=(80, 3))
Y = np.where(Z[:, 0] + 0.7 * np.random.default_rng(1).normal(size=80) > 0.0, 1, -1)
SAMPLES = {
    "offset csr": sp.csr_matrix(Z + 1e8),
    "offset dense": Z + 1e8,
    "clusters dense": Z + 1e8 * (np.arange(80) % 2)[:, None],
    "clusters csr": sp.csr_matrix(Z + 1e8 * (np.arange(80) % 2)[:, None]),
    "offset float32": sp.csr_matrix((np.round(4 * Z) + 1e7).astype(np.float32)),
}


def _dense(values):
    return values.toarray() if sp.issparse(values) else values


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("X", SAMPLES.values(), ids=SAMPLES)
def test_fits_far_from_the_origin_are_those_of_the_true_kernel_matrix(X, kernel):
    model = SVC(kernel=kernel, gamma=0.5, tol=1e-8).fit(X, Y)
    K = exact((RBF if kernel == "rbf" else Laplacian)(0.5), X)
    expected = SVC(kernel="precomputed", tol=1e-8).fit(K.astype(np.float64), Y)
    certificate = model.solution_.certificate
    assert certificate.primal == pytest.approx(expected.solution_.certificate.primal, rel=1e-6)
    assert certificate.dual == pytest.approx(expected.solution_.certificate.dual, rel=1e-6)
    scores = (K[:, model.support_] @ np.ravel(_dense(model.dual_coef_)).astype(LONG) + model.intercept_[0]).astype(
        np.float64
    )
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0.0, 1, -1))


def test_what_is_remembered_of_a_product_changes_no_bit_of_it(monkeypatch):
    """The certificate asks for the product that the solver asked for last, and gets what it would have computed."""
    monkeypatch.setattr("maxmargin.operators.gram.SCREENED_VALUES", 0)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    first, second = (np.where(np.arange(60) % 3 == k, rng.normal(size=60), 0.0) for k in range(2))

    def matters(samples, scores, errors):
        return samples % 5 == 0

    for w in (first, second):
        fresh, used = KernelGram(RBF(0.5), X), KernelGram(RBF(0.5), X)
        used.screened(second)
        used.screened(first)
        assert used.screened(w).scores.tobytes() == fresh.screened(w).scores.tobytes()
        expected = KernelGram(RBF(0.5), X).apply_where(w, matters)
        assert used.apply_where(w, matters).tobytes() == expected.tobytes()
        errors = used.screened(w).errors
        assert (np.abs(used.screened(w).scores - fresh.apply(w)) <= errors).all()
        assert np.isinf(errors[w != 0.0]).all()
        assert np.isfinite(errors[w == 0.0]).all()


def test_the_second_product_with_the_same_coefficients_is_free(monkeypatch):
    """Issue 27, C15: the matrix remembers its last float32 product, so the certificate does not repeat the solver's."""
    monkeypatch.setattr("maxmargin.operators.gram.SCREENED_VALUES", 0)
    calls, sums = [], tiles.Tiles.sums

    def counted(self, left, weights, columns):
        calls.append(columns.dtype)
        return sums(self, left, weights, columns)

    monkeypatch.setattr(tiles.Tiles, "sums", counted)
    rng = np.random.default_rng(5)
    gram, w = KernelGram(RBF(0.5), rng.normal(size=(60, 4))), np.where(np.arange(60) % 3 == 0, rng.normal(size=60), 0.0)
    solver, certificate = gram.screened(w), gram.apply_where(w.copy(), lambda samples, scores, errors: errors < 0.0)
    assert calls == [np.float32]
    assert np.array_equal(solver.scores[w == 0.0], certificate[w == 0.0])
    gram.screened(2.0 * w)
    assert len(calls) == 2
