"""Strengths in all parametrisations: round trips, the same minimisers, and the table of the inventory, section 1."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from maxmargin import SVC, Lasso, NuSVC, Ridge, convert_strength
from maxmargin.parts.parametrisations import FORMS, MACHINES

numbers = st.floats(1e-6, 1e6)
names = st.sampled_from(sorted(FORMS))


@settings(max_examples=300, deadline=None)
@given(value=numbers, first=names, last=names, n=st.integers(1, 10**6), total=numbers)
def test_round_trips_come_back(value, first, last, n, total):
    """Inventory 0-03, 2-02: there and back is the same number, and the way does not matter."""
    known = {"n_samples": n, "sum_alpha": total}
    if FORMS[first].family != FORMS[last].family:
        with pytest.raises(ValueError, match="is a parametrisation"):
            convert_strength(value, first, last, **known)
        return
    there = convert_strength(value, first, last, **known)
    assert convert_strength(there, last, first, **known) == pytest.approx(value, rel=1e-12)
    middle = "C" if FORMS[first].family == MACHINES else "penalty"
    around = convert_strength(convert_strength(value, first, middle, **known), middle, last, **known)
    assert around == pytest.approx(there, rel=1e-12)


def objectives(norm, losses, n):
    """What each form minimises, written out."""
    return {
        "C": lambda v: 0.5 * norm + v * losses.sum(),
        "C_mean": lambda v: 0.5 * norm + v / n * losses.sum(),
        "C_perf": lambda v: 0.5 * norm + v / (0.01 * n) * losses.sum(),
        "lambda_mean": lambda v: 0.5 * v * norm + losses.mean(),
        "lambda_sum": lambda v: 0.5 * v * norm + losses.sum(),
        "lambda_square": lambda v: v * norm + losses.sum(),
        "lambda_square_mean": lambda v: v * norm + losses.mean(),
        "penalty": lambda v: losses.sum() + v * norm,
        "penalty_half": lambda v: 0.5 * losses.sum() + v * norm,
        "penalty_mean": lambda v: losses.sum() / (2 * n) + v * norm,
    }


@settings(max_examples=200, deadline=None)
@given(C=numbers, seed=st.integers(0, 10**6), n=st.integers(1, 40), first=names, last=names)
def test_every_form_is_a_multiple_of_every_other_one(C, seed, n, first, last):
    """Inventory 0-03, 2-02, 3-28: the ratio of two objectives is the same at any two points."""
    rng = np.random.default_rng(seed)
    points = [objectives(rng.uniform(0.1, 5.0), rng.uniform(0.1, 2.0, size=n), n) for _ in range(3)]
    if not {first, last} <= set(points[0]) or FORMS[first].family != FORMS[last].family:
        return
    other = convert_strength(C, first, last, n_samples=n)
    ratios = [values[first](C) / values[last](other) for values in points]
    assert max(ratios) == pytest.approx(min(ratios), rel=1e-10)
    if {first, last} == {"C", "lambda_mean"}:
        lam = other if last == "lambda_mean" else C
        assert ratios[0] == pytest.approx(1.0 / lam if first == "C" else lam, rel=1e-10)


def test_nu_and_its_cap_belong_to_one_c():
    """Inventory 2-02, 2-04 and the correction E2-1: the nu of seed 002 is ``2 / (n nu)`` of Schoelkopf's."""
    X, y = zoo.blobs(60, 3, seed=1, apart=0.8)
    soft = SVC(C=2.0, kernel="linear", tol=1e-10).fit(X, y)
    known = {"n_samples": 60, "sum_alpha": float(np.abs(soft.dual_coef_).sum())}
    nu, cap = (convert_strength(2.0, "C", form, **known) for form in ("nu", "nu_cap"))
    assert cap == pytest.approx(2.0 / (60 * nu), rel=1e-12)
    for machine in (NuSVC(nu=nu, kernel="linear", tol=1e-10), NuSVC(cap=cap, kernel="linear", tol=1e-10)):
        machine.fit(X, y)
        np.testing.assert_allclose(machine.decision_function(X), soft.decision_function(X), atol=1e-4)
        assert machine.rho_[0] == pytest.approx(1.0 / 2.0, rel=1e-4)
        total = float(np.abs(machine.dual_coef_).sum())
        assert convert_strength(nu, "nu", "C", n_samples=60, sum_alpha=total) == pytest.approx(2.0, rel=1e-4)
    # C = cap / (2 rho) with the margin of seed 002's problem (2), which is rho / (nu n) of this library's.
    assert cap / (2.0 * machine.rho_[0] / (nu * 60)) == pytest.approx(2.0, rel=1e-4)


def test_least_squares_of_different_books_agree():
    """Inventory 3-08 and section 1: ``lam = 2 n alpha`` for the LASSO, ``alpha`` for ridge."""
    rng = np.random.default_rng(0)
    A, d = rng.normal(size=(30, 4)), rng.normal(size=30)
    lam = 3.0
    lasso = Lasso(alpha=convert_strength(lam, "penalty", "penalty_mean", n_samples=30), fit_intercept=False, tol=1e-12)
    ridge = Ridge(alpha=convert_strength(lam, "penalty", "penalty"), fit_intercept=False, tol=1e-12)
    w = lasso.fit(A, d).coef_
    pull = 2.0 * A.T @ (d - A @ w)
    assert np.abs(pull).max() <= lam * (1.0 + 1e-6)
    np.testing.assert_allclose(pull[w != 0.0], lam * np.sign(w[w != 0.0]), rtol=1e-5)
    expected = np.linalg.solve(A.T @ A + lam * np.eye(4), A.T @ d)
    np.testing.assert_allclose(ridge.fit(A, d).coef_, expected, rtol=1e-8)


@pytest.mark.parametrize(("arguments", "known", "fragment"), [
    ((1.0, "c", "C"), {}, "'c' is no parametrisation; the names are 'C', 'C_mean'"),
    ((1.0, "C", "lambda_mean"), {}, "From 'C' to 'lambda_mean' needs n_samples"),
    ((1.0, "C", "nu_cap"), {"n_samples": 3}, "From 'C' to 'nu_cap' needs sum_alpha"),
    ((0.0, "C", "lambda_sum"), {}, "C=0.0 must be positive and finite"),
    ((math.inf, "C", "lambda_sum"), {}, "C=inf must be positive and finite"),
    ((math.nan, "nu", "nu"), {}, "nu=nan must be positive and finite"),
    ((1.0, "C", "lambda_mean"), {"n_samples": 0}, "n_samples=0 must be positive and finite"),
    ((1.0, "C", "penalty"), {}, "'C' is a parametrisation of machines with a margin, and 'penalty' one of least"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(arguments, known, fragment):
    with pytest.raises(ValueError, match=fragment):
        convert_strength(*arguments, **known)
