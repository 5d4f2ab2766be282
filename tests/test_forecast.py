"""What a fit will cost: said by `explain_solver`, and before the work if it is hours; counted, never timed."""

import math
import re
import warnings

import numpy as np
import pytest

from maxmargin import SVC, SVR, DistributedSVC, Lasso, LinearSVC, LogisticRegression, NuSVC, explain_solver
from maxmargin.estimators._machinery import fit
from maxmargin.solvers import forecast as module
from maxmargin.solvers.choice import Traits, table
from maxmargin.solvers.forecast import Forecast, forecast

MEASURED = re.findall(r"^([\d,]+) x (\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", module.__doc__, flags=re.MULTILINE)
MANY = 1_500_000


class Begun(Exception):
    """The work would have begun."""


@pytest.fixture
def nothing_is_solved(monkeypatch):
    def begin(*_):
        raise Begun

    monkeypatch.setattr(fit, "solve_in_turn", begin)


def of_kernels(n, d, C=1.0, **options):
    traits = Traits(n, 0, kernelised=True)
    return forecast(table(traits), traits, [n], d, C=C, **options)


def test_the_forecast_is_that_of_the_measurements():
    assert len(MEASURED) == 7
    for rows, d, C, seconds, _, _ in MEASURED:
        expected = of_kernels(int(rows.replace(",", "")), float(d), float(C)).seconds
        assert abs(math.log(expected / float(seconds))) < math.log(2.5), (rows, d, C, expected)


def test_the_forecast_grows_with_the_work():
    one = of_kernels(30_000, 10)
    assert of_kernels(60_000, 10).seconds == pytest.approx(4.0 * one.seconds)
    assert of_kernels(30_000, 10, threads=2).seconds < one.seconds < of_kernels(30_000, 10, C=10.0).seconds
    assert of_kernels(30_000, 10, C=math.inf).seconds == of_kernels(30_000, 10, C=1e7).seconds
    assert of_kernels(30_000, 10, cache=2.0**20).memory < 2**23 < one.memory
    rows = Traits(10**6, 50, 5 * 10**7)
    assert forecast(table(rows), rows, [10**6] * 3, 50.0).seconds == 3.0 * rows.newton_seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than a second"), (7.0, "some seconds"), (400.0, "about 7 minutes"), (9000.0, "about 2.5 hours")],
)
def test_how_long_is_said_roughly(seconds, words):
    assert str(Forecast(seconds, 3e6)) == f"{words} and 3 MB beside the samples"


@pytest.mark.parametrize("kind", [SVC, LinearSVC, LogisticRegression, NuSVC, SVR, Lasso, DistributedSVC])
def test_explanations_of_classes_and_of_several_classes(kind):
    X = np.random.default_rng(0).normal(size=(90, 4))
    for y in (np.arange(90) % 2, np.arange(90) % 3):
        sentence = explain_solver(kind, X, y)
        assert sentence == explain_solver(kind(), X, y)
        assert "It will take less than a second and 1 MB beside the samples, as a rough forecast." in sentence
    assert "'softmax_newton'" in explain_solver(LogisticRegression, X, np.arange(90) % 3)
    with pytest.raises(TypeError, match="is no estimator of maxmargin"):
        explain_solver(dict, X)


def test_hours_are_said_before_the_work(nothing_is_solved):
    """500,000 rows ran for 58 seconds into a gap of 0.999, with no word before."""
    X, y = np.arange(MANY, dtype=np.float64)[:, None], np.arange(MANY) % 2
    words = r"SVC on 1500000 x 1 will take about [\d.]+ hours and 1\d{3} MB beside the samples, as a rough forecast; "
    words += r'subsample the rows, or use a linear machine or approximation="nystroem"\.'
    with pytest.warns(UserWarning, match=words) as caught, pytest.raises(Begun):
        SVC(gamma=1.0, C=10.0).fit(X, y)
    assert caught[0].filename == __file__
    some = slice(500_000)
    with pytest.warns(UserWarning, match=r"will take about \d+ minutes"), pytest.raises(Begun):
        SVC(gamma=1.0, C=3.0, max_time=58.0, n_jobs=1).fit(X[some], y[some])


def test_nothing_is_said_of_minutes(nothing_is_solved):
    X, y = np.arange(MANY, dtype=np.float64)[:, None], np.arange(MANY) % 2
    some = slice(200_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (SVC(gamma=1.0, n_jobs=1), SVC(gamma=1.0, max_time=1.0, n_jobs=1)):
            with pytest.raises(Begun):
                model.fit(X[some], y[some])
        with pytest.raises(Begun):
            LinearSVC(max_time=1e-3).fit(X, y)
