"""Paths of the LASSO and of the elastic net, and strengths chosen by cross-validation."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as peers
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from maxmargin import ElasticNet, ElasticNetCV, Lasso, LassoCV, Status, certify, enet_path, lasso_path
from test_lasso import LARGE, TALL, WIDE, gap

SHAPES = pytest.mark.parametrize(("X", "y", "s"), [WIDE, TALL, LARGE], ids=["wide", "tall", "large"])


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*arguments, **options)


@SHAPES
@pytest.mark.parametrize("stored", [np.asarray, np.asfortranarray, sp.csc_array])
def test_a_path_is_that_of_scikit_learn_with_a_certificate_each(X, y, s, stored):
    X, y = X - X.mean(axis=0), y - y.mean()
    path = lasso_path(stored(X), y, eps=1e-2, alphas=30, tol=1e-9)
    alphas, coefs, gaps = path
    theirs = quietly(peers.lasso_path, X, y, eps=1e-2, alphas=30, tol=1e-13, max_iter=100_000)
    np.testing.assert_allclose(alphas, theirs[0])
    np.testing.assert_allclose(coefs, theirs[1], atol=1e-4)
    assert coefs.shape == (X.shape[1], 30)
    for alpha, w, own, certificate in zip(alphas, coefs.T, gaps, path.certificates, strict=True):
        assert certificate.relative_gap <= 1e-9
        assert gap(X, y, w, 0.0, alpha) <= 1e-8
        assert own == certificate.gap
        assert certificate.primal == pytest.approx(0.5 * ((y - X @ w) ** 2).mean() + alpha * np.abs(w).sum(), rel=1e-10)
    assert not coefs[:, 0].any()


@SHAPES
def test_a_path_is_the_same_as_single_fits(X, y, s):
    path = enet_path(X, y, l1_ratio=0.7, alphas=[0.5, 0.05, 0.2], tol=1e-10, fit_intercept=True, sample_weight=s)
    np.testing.assert_array_equal(path[0], [0.5, 0.2, 0.05])
    for k, alpha in enumerate(path[0]):
        model = ElasticNet(alpha, l1_ratio=0.7, tol=1e-10).fit(X, y, s)
        np.testing.assert_allclose(path[1][:, k], model.coef_, atol=1e-5)
        assert path.intercepts[k] == pytest.approx(model.intercept_, abs=1e-4)
        assert path.solutions[k].status is Status.CONVERGED


def test_paths_with_bounds_starts_and_strengths_without_an_l1_part():
    X, y, _ = TALL
    path = lasso_path(X, y, positive=True, alphas=20, tol=1e-8)
    assert (path[1] >= 0.0).all()
    assert path[0][0] == pytest.approx((X.T @ y).max() / len(y))
    for alpha, w in zip(path[0], path[1].T, strict=True):
        assert gap(X, y, w, 0.0, alpha, low=np.zeros(7), high=np.full(7, np.inf)) <= 1e-7
    limited = lasso_path(X, y, bounds=(-0.1, 0.1), alphas=5, tol=1e-8)
    assert np.abs(limited[1]).max() <= 0.1
    started = lasso_path(X, y, alphas=[0.1], coef_init=np.ones(7), tol=1e-10, return_n_iter=True, solver="working_set")
    np.testing.assert_allclose(started[1][:, 0], Lasso(0.1, fit_intercept=False, tol=1e-10).fit(X, y).coef_, atol=1e-6)
    assert len(started) == 4
    mixed = enet_path(X, y, alphas=[0.1, 0.0], tol=1e-8)
    np.testing.assert_allclose(mixed[1][:, 1], np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-6)
    ridge = enet_path(X, y, l1_ratio=0.0, alphas=[0.3], tol=1e-9)
    np.testing.assert_allclose(ridge[1][:, 0], np.linalg.solve(X.T @ X / 80 + 0.3 * np.eye(7), X.T @ y / 80), atol=1e-7)
    constant = lasso_path(X, np.zeros(80), alphas=4)
    assert not constant[1].any()


def test_what_paths_refuse():
    X, y, _ = TALL
    for options, words in (
        ({"alphas": [-1.0]}, "must be >= 0.0"),
        ({"alphas": []}, "at least one"),
        ({"alphas": 0}, "at least 1"),
        ({"coef_init": np.zeros(3)}, "coef_init must hold"),
        ({"precompute": np.eye(7)}, "did not pass validation"),
        ({"tol": -1.0}, "tol"),
    ):
        with pytest.raises(ValueError, match=words):
            lasso_path(X, y, **options)
    with pytest.raises(ValueError, match="l1_ratio=0"):
        enet_path(X, y, l1_ratio=0.0)
    with pytest.raises(ValueError, match="several targets"):
        lasso_path(X, np.column_stack([y, y]), positive=True)
    with pytest.raises(ValueError, match="l1_ratio positive"):
        enet_path(X, np.column_stack([y, y]), l1_ratio=0.0)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_a_path_of_several_targets_is_that_of_scikit_learn(stored):
    """3-15: the strengths of one path for all targets, whose coefficients leave zero together."""
    X, y, _ = TALL
    Y = np.column_stack([y, X[:, 0] - y, X[:, 1]])
    path = enet_path(stored(X), Y, l1_ratio=0.7, alphas=8, eps=0.02, tol=1e-10, return_n_iter=True)
    alphas, coefs, gaps, iterations = path
    theirs = peers.enet_path(X, Y, l1_ratio=0.7, alphas=alphas, tol=1e-12, max_iter=100000)
    assert coefs.shape == (3, X.shape[1], 8)
    assert not coefs[..., 0].any()
    np.testing.assert_allclose(coefs, theirs[1], atol=1e-6)
    assert all(certificate.relative_gap <= 1e-10 for certificate in path.certificates)
    assert len(gaps) == len(iterations) == 8


def test_a_path_that_runs_out_of_time_is_whole_and_honest():
    X, y, _ = LARGE
    path = lasso_path(X, y, alphas=10, max_time=1e-9, tol=1e-10)
    assert path[1].shape == (300, 10)
    assert path.solutions[-1].status is not Status.CONVERGED
    for alpha, w, certificate in zip(path[0], path[1].T, path.certificates, strict=True):
        value = 0.5 * ((y - X @ w) ** 2).mean() + alpha * np.abs(w).sum()
        assert certificate.primal == pytest.approx(value, rel=1e-9)


@SHAPES
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_validation_is_that_of_scikit_learn(X, y, s, weighted):
    given = {"sample_weight": s} if weighted else {}
    ours = LassoCV(alphas=12, eps=1e-2, cv=4, tol=1e-9).fit(X, y, **given)
    theirs = quietly(peers.LassoCV(alphas=12, eps=1e-2, cv=4, tol=1e-12, max_iter=100_000).fit, X, y, **given)
    assert ours.alpha_ == pytest.approx(theirs.alpha_)
    np.testing.assert_allclose(ours.alphas_, theirs.alphas_)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-3)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.duality_gap_path_.shape == ours.objective_path_.shape == (12, 4)
    assert (ours.duality_gap_path_ <= 1e-9).all()
    assert (ours.objective_path_ >= ours.dual_objective_path_ - 1e-9).all()
    assert certify(ours, X, y, **given).relative_gap <= 1e-7


def test_the_share_of_the_l1_norm_is_chosen_too():
    X, y = load_diabetes(return_X_y=True)
    ours = ElasticNetCV(l1_ratio=[0.2, 0.9, 1.0], alphas=20, tol=1e-8).fit(X, y)
    theirs = quietly(peers.ElasticNetCV(l1_ratio=[0.2, 0.9, 1.0], alphas=20, tol=1e-10, max_iter=50_000).fit, X, y)
    assert (ours.l1_ratio_, ours.alpha_) == pytest.approx((theirs.l1_ratio_, theirs.alpha_))
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
    assert ours.mse_path_.shape == ours.duality_gap_path_.shape == (3, 20, 5)
    assert ours.alphas_.shape == (3, 20)
    given = ElasticNetCV(l1_ratio=[0.5, 0.0], alphas=[0.1, 0.0, 1.0], cv=KFold(3)).fit(X, y)
    np.testing.assert_array_equal(given.alphas_, [1.0, 0.1, 0.0])
    assert given.mse_path_.shape == (2, 3, 3)


def test_any_number_of_threads_chooses_the_same_bits():
    X, y, _ = WIDE
    one, two = (LassoCV(alphas=8, n_jobs=k).fit(sp.csr_array(X), y) for k in (1, 2))
    np.testing.assert_array_equal(one.mse_path_, two.mse_path_)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_folds_without_weight_are_refused():
    X, y, _ = TALL
    s = np.zeros(80)
    s[:10] = 1.0
    with pytest.raises(ValueError, match="training samples is zero"):
        LassoCV(cv=KFold(8), alphas=3).fit(X, y, s)
    with pytest.raises(ValueError, match="l1_ratio"):
        ElasticNetCV(l1_ratio=[0.5, 2.0]).fit(X, y)
