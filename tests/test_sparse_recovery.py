"""Constrained least squares and equations (inventory 3-14 to 3-17), against other people's solvers and exact sums."""

import importlib
import itertools
import math
import re
from fractions import Fraction

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.datasets import load_diabetes

from maxmargin import (
    ParetoCurve,
    basis_pursuit,
    best_subset,
    lasso_homotopy,
    lasso_within_norm,
    minimum_norm,
    pareto_curve,
)
from maxmargin.estimators._machinery import recovery
from maxmargin.numerics.subsets import count_of_subsets


def planted(n, d, k=3, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    A, w = rng.normal(size=(n, d)), np.zeros(d)
    w[:k] = np.array([3.0, -2.0, 1.0])[:k]
    return A, A @ w + noise * rng.normal(size=n), w


def by_clarabel(A, d, *, eps=None, t=None):
    """The optimum of either constrained form, with variables ``w, p, q, r``: ``r = A w - d`` and ``w = p - q``."""
    n, m = A.shape
    P = np.zeros((3 * m + n, 3 * m + n))
    cost = np.concatenate([np.zeros(m), np.ones(2 * m), np.zeros(n)])
    split = np.hstack([np.eye(m), -np.eye(m), np.eye(m), np.zeros((m, n))])
    fit = np.hstack([A, np.zeros((n, 2 * m)), -np.eye(n)])
    signs = np.hstack([np.zeros((2 * m, m)), -np.eye(2 * m), np.zeros((2 * m, n))])
    blocks, right = [split, fit, signs], [np.zeros(m), d, np.zeros(2 * m)]
    cones = [clarabel.ZeroConeT(m + n), clarabel.NonnegativeConeT(2 * m)]
    if eps is not None:
        blocks.append(np.vstack([np.zeros((1, 3 * m + n)), np.hstack([np.zeros((n, 3 * m)), -np.eye(n)])]))
        right.append(np.append(math.sqrt(eps), np.zeros(n)))
        cones.append(clarabel.SecondOrderConeT(n + 1))
    else:
        P[3 * m :, 3 * m :] = 2.0 * np.eye(n)
        blocks.append(cost[None])
        right.append([t])
        cones.append(clarabel.NonnegativeConeT(1))
        cost = np.zeros(3 * m + n)
    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(P), cost, sp.csc_matrix(np.vstack(blocks)), np.concatenate(right), cones, chosen
    )
    x = np.array(solver.solve().x)
    return np.abs(x[:m]).sum() if eps is not None else ((A @ x[:m] - d) ** 2).sum()


def exact(A, d, w):
    """``|A w - d|^2`` and ``|w|_1`` as fractions, without any rounding."""
    A, d, w = ([Fraction(float(v)) for v in np.ravel(values)] for values in (A, d, w))
    rows = [A[i * len(w) : (i + 1) * len(w)] for i in range(len(d))]
    left = [sum(map(lambda a, b: a * b, row, w)) - target for row, target in zip(rows, d, strict=True)]
    return sum(r * r for r in left), sum(abs(v) for v in w)


SHAPES = [(12, 30), (30, 12), (20, 20)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("share", [0.6, 0.1, 0.02])
def test_the_smallest_norm_within_an_error(shape, share):
    """3-15: ``min |w|_1`` subject to ``|A w - d|^2 <= eps``, which certainly holds, and the bound that proves it."""
    A, d, _ = planted(*shape)
    eps = share * float(d @ d)
    found = basis_pursuit(A, d, eps)
    error, norm = exact(A, d, found.w)
    assert found.excess == 0.0
    assert error <= eps
    certificate = found.certificate
    assert abs(float(norm) - certificate.primal) <= certificate.primal_error
    assert certificate.dual - certificate.error <= by_clarabel(A, d, eps=eps) * (1.0 + 1e-6)
    assert by_clarabel(A, d, eps=eps) == pytest.approx(found.norm, rel=1e-5)
    assert found.relative_gap <= 1e-9
    assert found.error == pytest.approx(float(error), rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("t", [0.0, 0.5, 3.0])
def test_the_smallest_error_within_a_norm(shape, t):
    """3-16: the LASSO as it was first written."""
    A, d, _ = planted(*shape)
    found = lasso_within_norm(A, d, t)
    error, norm = exact(A, d, found.w)
    assert found.excess == 0.0
    assert norm <= Fraction(t)
    assert abs(float(error) - found.certificate.primal) <= found.certificate.primal_error + 1e-15 * float(error)
    assert by_clarabel(A, d, t=t) == pytest.approx(found.error, rel=1e-5)
    assert found.relative_gap <= 1e-9


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_three_forms_have_the_same_solutions(shape):
    """3-16: for every error there is a norm and a price that lead to the same coefficients, and all are certified."""
    A, d, _ = planted(*shape, seed=1)
    curve = pareto_curve(A, d)
    for eps in np.linspace(0.95, 0.1, 6) * curve.errors[0]:
        first = curve.within_error(eps)
        second, third = curve.within_norm(first.norm), curve.penalised(first.lam)
        np.testing.assert_allclose(second.w, first.w, atol=1e-9)
        np.testing.assert_allclose(third.w, first.w, atol=1e-9)
        for found in (first, second, third):
            assert found.relative_gap <= 1e-9
        assert second.lam == pytest.approx(first.lam, rel=1e-7)
        assert third.certificate.primal == pytest.approx(first.norm + first.error / first.lam, rel=1e-9)
        # The factor 2 of the seed: |2 a_j^T (d - A w)| <= lam, with equality on the support.
        slopes = 2.0 * A.T @ (d - A @ first.w)
        assert np.abs(slopes).max() == pytest.approx(first.lam, rel=1e-7)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_pareto_curve_is_convex_and_its_slope_is_the_price(shape):
    """3-16: norm and error determine each other, and the residual is a monotone function of the price."""
    A, d, _ = planted(*shape, seed=2)
    curve = pareto_curve(A, d)
    assert (np.diff(curve.lambdas) < 0.0).all()
    assert (np.diff(curve.norms) > 0.0).all()
    assert (np.diff(curve.errors) < 0.0).all()
    t = np.linspace(0.0, curve.norms[-1], 201)
    values = curve.error_at(t)
    assert (values[1:-1] <= 0.5 * (values[:-2] + values[2:]) + 1e-9 * values[0]).all()
    np.testing.assert_allclose(curve.norm_at(values[1:-1]), t[1:-1], atol=1e-6)
    np.testing.assert_allclose(curve.error_at(curve.norms), curve.errors, atol=1e-9 * values[0])
    for norm in t[20:180:40]:
        h = 1e-5 * curve.norms[-1]
        slope = (curve.error_at(norm + h) - curve.error_at(norm - h)) / (2.0 * h)
        assert slope == pytest.approx(-curve.within_norm(norm).lam, rel=1e-4, abs=1e-6 * curve.lambdas[0])
        assert curve.within_norm(norm).error == pytest.approx(curve.error_at(norm), abs=1e-9 * values[0])
    assert curve.norm_at(2.0 * curve.errors[0]) == 0.0
    assert curve.error_at(2.0 * curve.norms[-1]) == curve.errors[-1]


@pytest.mark.parametrize("layout", [np.asarray, sp.csc_array, sp.csr_matrix])
@pytest.mark.parametrize("seed", range(3))
def test_equations_with_the_smallest_norms(layout, seed):
    """3-15: the smallest ``|w|_1`` is a basic solution, as of linear programming; the smallest ``|w|_2`` is A^+ d."""
    A, _, w = planted(15, 40, seed=seed)
    A = np.where(np.abs(A) < 0.3, 0.0, A)
    d = A @ w
    found, least = basis_pursuit(layout(A), d), minimum_norm(layout(A), d)
    program = linprog(np.ones(80), A_eq=np.hstack([A, -A]), b_eq=d)
    assert found.norm == pytest.approx(program.fun, rel=1e-9)
    assert np.count_nonzero(found.w) <= 15
    np.testing.assert_allclose(least.w, np.linalg.pinv(A) @ d, atol=1e-12)
    assert np.count_nonzero(least.w) == 40
    assert np.linalg.norm(least.w) < np.linalg.norm(found.w)
    assert found.norm < least.norm
    for one in (found, least):
        assert one.relative_gap <= 1e-9
        assert float(exact(A, d, one.w)[0]) <= one.excess <= 1e-24 * float(d @ d)


def test_equations_with_non_negative_coefficients():
    A, _, _ = planted(10, 30, seed=4)
    d = A @ np.where(np.arange(30) < 3, 2.0, 0.0)
    found = basis_pursuit(A, d, positive=True)
    program = linprog(np.ones(30), A_eq=A, b_eq=d)
    assert found.norm == pytest.approx(program.fun, rel=1e-9)
    assert (found.w >= 0.0).all()
    assert found.relative_gap <= 1e-9
    with pytest.raises(ValueError, match="no solution with w >= 0"):
        basis_pursuit(np.eye(3), [1.0, -1.0, 0.0], positive=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_three_forms_with_non_negative_coefficients(shape):
    A, _, _ = planted(*shape, seed=5)
    d = A @ np.where(np.arange(shape[1]) < 4, 1.5, -0.1) + 0.1
    curve = pareto_curve(A, d, positive=True)
    for share in (0.9, 0.5, 0.1):
        eps = float(curve.errors[-1] + share * (curve.errors[0] - curve.errors[-1]))
        first = curve.within_error(eps)
        for found in (first, curve.within_norm(first.norm), curve.penalised(first.lam)):
            assert (found.w >= 0.0).all()
            assert found.excess == 0.0
            assert found.relative_gap <= 1e-9


def test_impossible_equations_are_refused_with_the_reason():
    A, d = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([1.0, 3.0])
    with pytest.raises(ValueError, match=r"no solution: \|Aw - d\|\^2 is at least 2 for every w\. Allow an error"):
        basis_pursuit(A, d)
    with pytest.raises(ValueError, match=r"No w has \|Aw - d\|\^2 <= eps=1: it is at least 2"):
        basis_pursuit(A, d, 1.0)
    for equations in (A, sp.csr_array(A)):
        with pytest.raises(ValueError, match=r"no solution: \|Aw - d\|\^2 is at least 2 for every w"):
            minimum_norm(equations, d)
    assert basis_pursuit(A, d, 2.5).error <= 2.5
    assert pareto_curve(A, d).norm_at(1.9) == math.inf


def test_shortest_solutions_beyond_the_numbers_are_refused():
    with pytest.raises(ValueError, match="overflow: scale A and d"):
        minimum_norm([[1e-250], [2e-250]], [1e90, 2e90])


def test_large_sparse_equations_are_solved_by_iteration(monkeypatch):
    shortest = importlib.import_module("maxmargin.estimators.minimum_norm")  # the package has a function of this name
    monkeypatch.setattr(shortest, "DENSE", 0)
    A = sp.random_array((40, 90), density=0.2, rng=np.random.default_rng(5), format="csr")
    d = A @ np.ones(90)
    found = minimum_norm(A, d)
    np.testing.assert_allclose(found.w, np.linalg.pinv(A.toarray()) @ d, atol=1e-9)
    assert found.relative_gap <= 1e-9
    with pytest.raises(ValueError, match="no solution"):
        minimum_norm(A.T, np.random.default_rng(6).normal(size=90))
    monkeypatch.setattr(shortest, "STEPS", 0)
    with pytest.raises(ValueError, match="No solution of Aw = d was found up to rounding"):
        minimum_norm(A, d)


def test_more_error_than_there_is_needs_no_coefficients():
    A, d, _ = planted(10, 5)
    found = basis_pursuit(A, d, float(d @ d))
    assert not found.w.any()
    assert found.relative_gap == 0.0
    assert lasso_within_norm(A, d, 1e6).error == pytest.approx(float(((A @ np.linalg.lstsq(A, d)[0] - d) ** 2).sum()))
    zero = basis_pursuit(A, np.zeros(10))
    assert not zero.w.any()
    assert zero.excess == 0.0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(0.01, 1.2))
def test_nasty_systems_are_certified_or_refused(n, m, seed, share):
    """Dependent and equal columns, rows that repeat, zeros: the constraint holds, and the gap is rounding."""
    rng = np.random.default_rng(seed)
    A, d = rng.integers(-2, 3, size=(n, m)).astype(float), rng.integers(-3, 4, size=n).astype(float)
    curve = pareto_curve(A, d)
    eps = share * float(d @ d)
    if eps < curve.errors[-1]:
        with pytest.raises(ValueError, match="it is at least"):
            curve.within_error(eps)
        return
    found = curve.within_error(eps)
    error, _ = exact(A, d, found.w)
    assert error <= eps or found.excess >= float(error) - eps
    assert found.excess <= 1e-12 * max(float(d @ d), 1.0)
    assert found.relative_gap <= 1e-6 or found.norm == 0.0
    t = share * float(curve.norms[-1])
    within = curve.within_norm(t)
    assert exact(A, d, within.w)[1] <= t
    assert within.certificate.gap + within.certificate.error <= 1e-9 * max(float(d @ d), 1.0)


def test_the_values_are_bounded_with_twice_the_digits_where_rounding_decides(monkeypatch):
    A, d, _ = planted(15, 40, seed=7)
    A[:, :20] += 1e4
    precise = basis_pursuit(A, d, 0.05 * float(d @ d))
    monkeypatch.setattr(recovery, "precise_in_seconds", lambda rows: False)
    plain = basis_pursuit(A, d, 0.05 * float(d @ d))
    assert precise.certificate.error < plain.certificate.error


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: basis_pursuit([[1.0]], [1.0], -1.0), "eps must be a finite number of at least 0"),
        (lambda: basis_pursuit([[1.0]], [1.0], np.nan), "eps must be"),
        (lambda: lasso_within_norm([[1.0]], [1.0], np.inf), "t must be"),
        (lambda: pareto_curve([[1.0]], [1.0]).penalised(0.0), "lam must be positive"),
        (lambda: pareto_curve([[1.0]], [1.0]).error_at(-1.0), "norm must be at least 0"),
        (lambda: pareto_curve([[1.0]], [1.0]).norm_at(-1.0), "error must be at least 0"),
        (lambda: pareto_curve([[1e150]], [1.0]), "A has values up to 1.0e"),
        (lambda: pareto_curve([[1.0]], [1e150]), "d has values up to 1.0e"),
        (lambda: minimum_norm([[np.nan]], [1.0]), "NaN"),
        (lambda: pareto_curve(*planted(9, 9)[:2], max_breakpoints=2).error_at(1e3), "because there was a limit of 2"),
        (lambda: basis_pursuit(*planted(9, 9)[:2], max_breakpoints=2), "because there was a limit of 2"),
        (lambda: best_subset(np.ones((3, 70)), np.ones(3)), "Lower max_features, or use lasso_homotopy"),
        (lambda: best_subset(np.ones((99, 40)), np.ones(99)), "40 features have 1.1e[+]12 subsets of at most 40"),
        (lambda: best_subset([[1.0]], [1.0], max_features=0), "max_features must be a whole number"),
        (lambda: best_subset([[1.0], [2.0]], [1.0, 5.0], fit_intercept=False).within_error(0.0), "No subset of at"),
    ],
)
def test_what_is_wrong_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_the_drawing_of_the_curve():
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = pareto_curve(*planted(20, 10)[:2]).plot(plt.figure().subplots())
    assert len(axes.lines) == 2
    plt.close(axes.figure)


def test_reports_are_short():
    A, d, _ = planted(9, 5)
    curve = pareto_curve(A, d)
    assert isinstance(curve, ParetoCurve)
    assert repr(curve).startswith("ParetoCurve(")
    assert "min |w|_1 subject to" in repr(curve.within_error(0.5 * d @ d))


# ---- the best subset -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_best_subset_of_each_size_is_the_best_of_all(fit_intercept, weighted):
    """3-14: ``min |w|_0`` subject to ``|A w - d|^2 <= eps``, by comparing everything."""
    A, d, _ = planted(25, 7, noise=1.0, seed=8)
    s = np.random.default_rng(9).uniform(0.5, 2.0, 25) if weighted else np.ones(25)
    found = best_subset(A, d, sample_weight=s if weighted else None, fit_intercept=fit_intercept)
    assert found.subsets == 2**7 == count_of_subsets(7, 7)
    roots = np.sqrt(s)
    for size in range(8):
        errors = {}
        for support in itertools.combinations(range(7), size):
            columns = np.column_stack([*A[:, list(support)].T, *([np.ones(25)] if fit_intercept else [])] or [d * 0])
            coef = np.linalg.lstsq(roots[:, None] * columns, roots * d, rcond=None)[0]
            errors[support] = float(s @ (d - columns @ coef) ** 2)
        best = min(errors, key=errors.get)
        assert tuple(found.supports[size]) == best
        assert found.errors[size] == pytest.approx(errors[best], rel=1e-9)
        left = d - A @ found.coefs[size] - found.intercepts[size]
        assert found.errors[size] == pytest.approx(float(s @ left**2), rel=1e-9)
        assert found.within_error(found.errors[size] * (1.0 + 1e-9)).size <= size


def test_dependent_columns_are_no_subset_of_their_own():
    A, d, _ = planted(10, 4, seed=10)
    found = best_subset(np.hstack([A, A[:, :2], np.ones((10, 1))]), d)
    assert found.errors.size == 5
    few = best_subset(np.hstack([A, A]), d, max_features=2)
    assert few.subsets == 1 + 8 + 28
    np.testing.assert_allclose(few.errors, found.errors[:3], rtol=1e-9)


def test_no_solution_of_the_lasso_has_a_smaller_error_than_the_best_subset_of_its_size():
    """3-14, 3-15: the convex relaxation against what it relaxes."""
    X, y = load_diabetes(return_X_y=True)
    best = best_subset(X, y)
    path = lasso_homotopy(X, y)
    for alpha in path.alphas:
        coef, intercept = path.at(alpha)
        error = float(((y - X @ coef - intercept) ** 2).sum())
        assert error >= best.errors[np.count_nonzero(coef)] * (1.0 - 1e-12)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9, 1e12])
def test_no_bound_is_claimed_that_columns_of_other_sizes_disprove(scale):
    """The column that counts is the smallest: where rounding hides it, nothing is said to be impossible."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 5))
    d = A[:, 0] + 0.1 * rng.normal(size=40)
    least = float(np.linalg.lstsq(A, d, rcond=None)[1][0])
    A *= [1.0 / scale, 1.0, scale, 1e3, 1.0]
    for solve in (minimum_norm, basis_pursuit):
        with pytest.raises(ValueError, match=r"\|Aw - d\|\^2") as refused:
            solve(A, d)
        claim = re.search(r"is at least ([\d.e+-]+) ", str(refused.value))
        assert (claim is not None) == (scale < 1e6 or (solve is minimum_norm and scale < 1e9))
        assert claim is None or float(claim.group(1)) == pytest.approx(least, rel=1e-5)
