"""What a solver returns: a point, the certificate that judges it, why it stopped, and how it got there."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

from maxmargin.problems.point import Certificate, Point, Status, estimated_gap

WIDTH, HEIGHT = 480, 160  # of the picture of the gap, in pixels
LEAST_GAP = 1e-17  # that is drawn: a gap of zero has no logarithm
NOTICEABLE = 0.1  # seconds of compiling


@dataclass(frozen=True)
class Record:
    """One line of a fit's history."""

    seconds: float
    iterations: int
    primal: float
    dual: float
    certified: bool  # recomputed from scratch, or the solver's own estimate
    counters: dict[str, float] = field(default_factory=dict)
    error: float = 0.0  # a bound on the rounding errors of both values, if they were recomputed
    least: float = 0.0  # what smaller values count as, where the gap is compared with them

    @property
    def relative_gap(self) -> float:
        """Relative duality gap of this line, its error included."""
        if not self.certified:
            return estimated_gap(self.primal, self.dual, self.least)
        return Certificate(self.primal, self.dual, self.error, least=self.least).relative_gap


@dataclass(frozen=True, repr=False)
class Solution:
    """The best point that was found, what it is worth, and why the search ended."""

    point: Point
    certificate: Certificate
    status: Status
    solver: str
    tol: float
    iterations: int
    seconds: float  # without those of compiling
    history: tuple[Record, ...] = ()
    last: Point | None = None  # the point that was judged last: where a warm start goes on
    compiling: float = 0.0  # seconds in which loops were compiled, or loaded, while this ran
    notes: tuple[str, ...] = ()  # sentences about the course of the fit: where it went on from, what was not written

    def __getstate__(self) -> dict[str, object]:
        # The status by name: skops cannot restore members of an Enum.
        return {**self.__dict__, "status": self.status.name}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.__dict__["status"] = Status[str(state["status"])]

    @property
    def message(self) -> str:
        """The status with its numbers, in one sentence, and what else there is to tell."""
        if self.status is Status.PASSED:  # of a stream, nobody expects the optimum over its last samples
            return " ".join([f"{self.status}: {self.iterations}.", *self.notes])
        asked = f" (asked for {self.tol:.0e})" if self.tol > 0.0 else ""
        ended = (
            f"{self.status}: relative gap {self.certificate.relative_gap:.2e}{asked} "
            f"after {self.iterations} iterations of {self.solver} in {self.seconds:.2f} s{beside(self.compiling)}."
        )
        return " ".join([ended, *self.notes])

    def __repr__(self) -> str:
        return "\n".join(self._lines)

    def _repr_html_(self) -> str:
        """The same lines and the course of the gap, for notebooks."""
        lines = "<br/>".join(escape(line) for line in self._lines)
        return f'<div style="font-family: monospace">{lines}<br/>{_picture(self.history, self.tol)}</div>'

    @property
    def _lines(self) -> list[str]:
        certificate = self.certificate
        return [
            f"Solution: {self.status}",
            f"primal {certificate.primal:.10g}, dual {certificate.dual:.10g}, rounding {certificate.error:.0e}, "
            f"relative gap {certificate.relative_gap:.2e} (asked for {self.tol:.0e})",
            f"{self.solver}, {self.iterations} iterations",
            f"{self.seconds:.3g} seconds{beside(self.compiling)}",
            *self.notes,
        ]


def beside(compiling: float) -> str:
    """A clause about the seconds that went into compiling, if anybody can have noticed them."""
    return f", not counting {compiling:.1f} s of compiling" if compiling >= NOTICEABLE else ""


def _picture(history: tuple[Record, ...], tol: float) -> str:
    """The relative gap over the seconds, on a logarithmic scale, as SVG: a dot for each certificate, dashes for tol."""
    drawn = [(record, max(record.relative_gap, LEAST_GAP)) for record in history if record.relative_gap < math.inf]
    if not drawn:
        return ""
    gaps = [gap for _, gap in drawn] + [max(tol, LEAST_GAP)]
    bottom, top = math.floor(math.log10(min(gaps))), math.ceil(math.log10(max(gaps)) + 1e-9)
    seconds = max(record.seconds for record, _ in drawn) or 1.0

    def across(record: Record) -> float:
        return 50.0 + (WIDTH - 60.0) * record.seconds / seconds

    def down(gap: float) -> float:
        return 10.0 + (HEIGHT - 30.0) * (top - math.log10(gap)) / max(1, top - bottom)

    course = {round(across(record)): f"{across(record):.1f},{down(gap):.1f}" for record, gap in drawn}  # one a pixel
    dots = [(across(record), down(gap)) for record, gap in drawn if record.certified]
    shapes = [
        f'<polyline points="{" ".join(course.values())}" fill="none" stroke="currentColor"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="currentColor"/>' for x, y in dots),
        f'<line x1="50" x2="{WIDTH - 10}" y1="{down(gaps[-1]):.1f}" y2="{down(gaps[-1]):.1f}" stroke="currentColor" '
        'stroke-dasharray="4"/>',
        *(f'<text x="4" y="{down(10.0**e) + 4.0:.1f}">1e{e}</text>' for e in {top, bottom}),
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 4}" text-anchor="end">{seconds:.3g} s</text>',
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-size="11" fill="currentColor" '
        f'role="img"><title>relative duality gap over seconds</title>{"".join(shapes)}</svg>'
    )
