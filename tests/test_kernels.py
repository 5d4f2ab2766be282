"""Kernels: symmetry, positive semi-definiteness, dense = sparse = scikit-learn."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise

from maxmargin.operators import KernelGram
from maxmargin.operators.tiles import _map
from maxmargin.parts.kernels import (
    EXP_ROUNDINGS,
    RBF,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
    _exp_double,
    exp_of_negative,
    in_precision,
    kernel_of,
    parameters_of,
)
from maxmargin.parts.kernels import KERNELS as REGISTRY
from zoo import kernel_matrix

KERNELS = {
    "linear": (Linear(2.0), lambda A, B: 2.0 * pairwise.linear_kernel(A, B)),
    "rbf": (RBF(0.4), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.4)),
    "polynomial": (Polynomial(3, 0.3, 1.0), lambda A, B: pairwise.polynomial_kernel(A, B, 3, gamma=0.3, coef0=1.0)),
    "sigmoid": (Sigmoid(0.3, -0.2), lambda A, B: pairwise.sigmoid_kernel(A, B, gamma=0.3, coef0=-0.2)),
    "laplacian": (Laplacian(0.4), lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.4)),
}
every_kernel = pytest.mark.parametrize(("kernel", "expected"), KERNELS.values(), ids=KERNELS)
examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def points(n, d, seed):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[np.abs(X) < 0.4] = 0.0
    return X


def whole(gram):
    return gram.block(np.arange(gram.n_samples))


@every_kernel
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array], ids=lambda f: f.__name__)
def test_equals_scikit_learn(kernel, expected, layout):
    X, Z = points(23, 6, 0), points(11, 6, 1)
    np.testing.assert_allclose(whole(KernelGram(kernel, layout(X))), expected(X, X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(kernel_matrix(kernel, layout(X), layout(Z)), expected(X, Z), rtol=1e-12, atol=1e-13)


@every_kernel
def test_dense_and_sparse_may_be_mixed(kernel, expected):
    X, Z = points(8, 6, 0), points(5, 6, 1)
    np.testing.assert_allclose(kernel_matrix(kernel, sp.csr_array(X), Z), expected(X, Z), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(kernel_matrix(kernel, X, sp.csr_array(Z)), expected(X, Z), rtol=1e-12, atol=1e-13)


@every_kernel
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_float32_data_are_only_rounded_once(kernel, expected, layout):
    X = points(17, 5, 2).astype(np.float32)
    exact = X.astype(np.float64)
    K = whole(KernelGram(kernel, layout(X)))
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, expected(exact, exact), rtol=1e-12, atol=1e-13)


@every_kernel
@examples
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), d=st.integers(1, 5), scale=st.floats(1e-3, 1e3))
def test_symmetric_and_positive_semi_definite(kernel, expected, seed, n, d, scale):
    K = whole(KernelGram(kernel, scale * points(n, d, seed)))
    largest = np.abs(K).max(initial=0.0)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * largest)
    if kernel.traits.positive:
        # RBF: the distances of far points cancel, |x|^2 + |z|^2 - 2 x.z.
        cancelled = 1e-15 * scale**2 * d * 10 if isinstance(kernel, RBF) else 0.0
        assert np.linalg.eigvalsh(K).min() >= -n * (1e-13 * largest + cancelled)


@every_kernel
def test_diagonal_is_that_of_the_block(kernel, expected):
    for X in (points(19, 4, 3), sp.csr_array(points(19, 4, 3))):
        gram = KernelGram(kernel, X)
        np.testing.assert_allclose(gram.diagonal(), np.diagonal(whole(gram)), rtol=1e-12, atol=1e-13)


def test_every_kernel_with_a_name_is_tested():
    assert set(REGISTRY.values()) == {type(kernel) for kernel, _ in KERNELS.values()}


def test_a_kernel_takes_the_parameters_that_it_has():
    known = {"degree": 2, "gamma": 0.5, "coef0": 1.5}
    made = {name: kernel_of(name, **known) for name in REGISTRY}
    assert made == {
        "linear": Linear(), "rbf": RBF(0.5), "poly": Polynomial(2, 0.5, 1.5), "sigmoid": Sigmoid(0.5, 1.5),
        "laplacian": Laplacian(0.5),
    }  # fmt: skip
    assert list(parameters_of("poly")) == ["degree", "gamma", "coef0"]


@every_kernel
def test_declared_kernels_of_differences_do_not_notice_a_translation(kernel, expected):
    X = points(12, 4, 5)
    moved = np.abs(expected(X, X) - expected(X + 1.0, X + 1.0)).max() > 1e-9
    assert moved != kernel.traits.of_differences


@pytest.mark.parametrize("kernel", [Polynomial(2, 1.0, -1.0), Polynomial(3, -1.0)])
def test_polynomials_are_positive_for_some_parameters_only(kernel):
    assert not kernel.traits.positive
    X = np.array([[0.1], [1.0]])
    assert KernelGram(kernel, X).positive == (np.linalg.eigvalsh(whole(KernelGram(kernel, X))).min() >= -1e-9)


def test_sigmoid_is_not_positive_semi_definite_for_every_parameter():
    K = whole(KernelGram(Sigmoid(0.3, -0.2), points(19, 4, 3)))
    assert np.linalg.eigvalsh(K).min() < -1e-3


def test_rbf_of_equal_points_is_one_however_long_they_are():
    X = np.tile(points(1, 5, 4), (3, 1)) * 1e8
    np.testing.assert_allclose(np.diagonal(whole(KernelGram(RBF(1.0), X))), 1.0)
    assert (whole(KernelGram(RBF(1.0), X)) <= 1.0).all()


def test_far_points_have_no_similarity_left():
    X = np.array([[0.0], [1e6]])
    for kernel in (RBF(1.0), Laplacian(1.0)):
        K = whole(KernelGram(kernel, X))
        assert 0.0 <= K[0, 1] < 1e-300


def test_exp_of_negative_is_within_its_promise():
    """In the loop that uses it: compilers that reorder its sums made it a hundred times less precise far from 0."""
    rng = np.random.default_rng(0)
    for dtype, least in ((np.float64, -708.0), (np.float32, -87.0)):
        halves = -(rng.integers(0, int(-least / 0.7), 3000) + 0.5) * math.log(2.0)  # where the polynomial is worst
        x = np.concatenate([least * rng.random(9000), halves, -rng.random(3000), -(10.0 ** rng.uniform(-18, 0, 3000))])
        x = x.astype(dtype)
        values = (x / 2)[None, :]
        _map(in_precision(RBF(1.0), dtype), values, np.zeros(1, dtype), np.zeros(x.size, dtype))
        expected = np.array([math.exp(v) for v in x])
        assert (np.abs(values[0] / expected - 1.0)).max() <= (EXP_ROUNDINGS + 1.0) * np.finfo(dtype).eps / 2


def test_exp_of_negative_at_the_ends():
    assert exp_of_negative(0.0) == 1.0
    assert exp_of_negative(-0.0) == 1.0
    for x in (-708.5, -745.2, -1e4, -1e300, -math.inf):
        assert 0.0 <= exp_of_negative(x) <= 1e-307


def test_exp_of_negative_without_the_compiler():
    for x in np.linspace(-708.0, 0.0, 1001):
        assert _exp_double.function(float(x)) == pytest.approx(math.exp(x), rel=(EXP_ROUNDINGS + 1.0) * 2.0**-53)
