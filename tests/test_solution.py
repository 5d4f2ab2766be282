"""What a solution and a point show of themselves: a few lines, and a picture of the gap for notebooks."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import zoo
from maxmargin import LinearSVC, Point, Problem, Record, Status, minimize
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.point import Certificate
from maxmargin.solvers import DualCoordinate

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def solution():
    X, y = zoo.blobs(300, 5, seed=0, apart=0.5)
    return minimize(Problem(Rows(X), y, Hinge(), L2(1.0), np.ones(300)), DualCoordinate(), tol=1e-6)


def drawn(solution):
    """The picture as a tree, from HTML that has to be well-formed."""
    return ET.fromstring(solution._repr_html_())


def dots(solution):
    return drawn(solution).findall(f".//{SVG}circle")


def test_a_solution_is_four_lines(solution):
    status, values, solver, seconds = repr(solution).splitlines()
    assert status == f"Solution: {solution.status}"
    assert values == (
        f"primal {solution.certificate.primal:.10g}, dual {solution.certificate.dual:.10g}, "
        f"rounding {solution.certificate.error:.0e}, relative gap {solution.certificate.relative_gap:.2e} "
        "(asked for 1e-06)"
    )
    assert solver == f"dual_coordinate, {solution.iterations} iterations"
    assert seconds.endswith(" seconds")


def test_no_array_is_printed():
    w, alpha = np.full(100_000, 0.25), np.zeros(7)
    assert repr(Point(w, 0.5, alpha)) == (
        "Point(w=<array of shape (100000,), norm 79.0569>, b=0.5, alpha=<array of shape (7,), norm 0>)"
    )
    assert repr(Point(np.ones(1), 1e-30)).endswith("b=1e-30, alpha=None)")


def test_the_repr_of_an_estimators_solution_is_short():
    X, y = zoo.blobs(300, 5, seed=0, apart=0.5)
    assert len(repr(LinearSVC().fit(X, y).solution_)) < 400


def test_the_picture_marks_every_certificate_and_the_tolerance(solution):
    root = drawn(solution)
    assert root.tag == "div"
    assert len(dots(solution)) == sum(
        record.certified and record.relative_gap < math.inf for record in solution.history
    )
    (line,) = root.findall(f".//{SVG}line")
    last = dots(solution)[-1]
    assert float(last.get("cy")) >= float(line.get("y1")) - 0.1  # converged: at the tolerance or below
    heights = [float(dot.get("cy")) for dot in dots(solution)]
    assert heights[0] == min(heights)
    for shape in root.iter():
        for key in ("cx", "cy", "x", "y", "x1", "x2", "y1", "y2"):
            assert 0.0 <= float(shape.get(key, 0.0)) <= 480.0


def test_equal_gaps_are_equally_high(solution):
    """On a logarithmic scale, each decade takes the same height."""
    records = [Record(float(k), k, 1.0, 1.0 - 10.0**-k, certified=True) for k in range(1, 6)]
    heights = [float(dot.get("cy")) for dot in dots(replace(solution, history=tuple(records)))]
    np.testing.assert_allclose(np.diff(heights), np.diff(heights)[0], atol=0.11)
    assert np.diff(heights)[0] > 10.0


@pytest.mark.parametrize("gaps", [(), (math.inf,), (0.0,), (0.0, 0.0), (1.0,), (math.nan, 0.5), (1e300, 1e-3)], ids=str)
@pytest.mark.parametrize("tol", [0.0, 1e-6, 1.0])
def test_odd_histories_are_drawn_or_left_out(solution, gaps, tol):
    history = tuple(Record(0.0, k, gap, 0.0 if gap != 1.0 else 0.5, certified=True) for k, gap in enumerate(gaps))
    odd = replace(solution, history=history, tol=tol)
    text = odd._repr_html_()
    drawn(odd)
    assert "nan" not in text
    assert "inf" not in text.split("<svg")[-1]


def test_a_long_history_is_a_short_picture(solution):
    records = tuple(Record(0.01 * k, k, 1.0, 1.0 - 1.0 / (k + 1.0), certified=False) for k in range(100_000))
    assert len(replace(solution, history=records)._repr_html_()) < 10_000


def test_nothing_of_a_solution_is_taken_for_markup(solution):
    evil = replace(solution, solver='<script>alert("x")</script>', status=Status.STALLED)
    assert "<script" not in evil._repr_html_()
    assert '<script>alert("x")</script>, ' in "".join(drawn(evil).itertext())


def test_a_solution_without_a_proof_is_shown_too(solution):
    unknown = replace(solution, certificate=Certificate(math.inf, -math.inf), history=())
    assert "relative gap inf" in repr(unknown)
    drawn(unknown)
