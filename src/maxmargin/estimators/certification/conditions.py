"""How far a fitted support vector machine is from its optimality conditions, row by row: `kkt_report`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator as Model

from maxmargin.estimators._machinery.partition import Partition
from maxmargin.estimators.certification.claims import Claim
from maxmargin.estimators.certification.verdict import Verdict, certify
from maxmargin.operators import Gram, MatrixLike
from maxmargin.protocols import Array, Float, Index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 5  # rows
NEARLY = 1e-9  # of the largest value a variable may have: nearer to it, it is there
MOST_DRAWN = 4000  # samples whose matrix can be a picture


class Residual(NamedTuple):
    """By how much a condition is missed at worst, and in which row of the data; no row if it has no rows."""

    value: float
    row: int | None = None


@dataclass(frozen=True, eq=False)
class Conditions:
    """The optimality conditions of one problem.

    Arrays have a number for each sample of the problem, in the order of `rows`; those of a regression have two rows of
    numbers, one for the upper side of the tube and one for the lower.

    Attributes
    ----------
    name : str
        Of the problem.
    rows : ndarray of shape (n,)
        The row of each sample in the data.
    alpha, reach : ndarray
        The dual variables, and the most that each of them may be: "C".
    slacks, surplus : ndarray
        By how much a sample misses its margin, or leaves its tube (xi), and by how much it is beyond (s). One of the
        two is zero.
    shares : ndarray
        What each sample adds to the duality gap: ``alpha s + (C - alpha) xi``. They are zero at an optimum, and their
        sum is the gap, up to what sums and coefficients miss.

    """

    claim: Claim

    @property
    def name(self) -> str:
        """Of the problem."""
        return self.claim.task.name

    @property
    def rows(self) -> Index:
        """The row of each sample in the data."""
        return self.claim.task.members

    @property
    def alpha(self) -> Float:
        """The dual variables, without signs."""
        return self._shaped(self._alpha)

    @property
    def reach(self) -> Float:
        """The most that each variable may be."""
        return self._shaped(self.claim.reach)

    @property
    def slacks(self) -> Float:
        """By how much each sample misses its margin, or leaves its tube."""
        return self._shaped(np.maximum(self.claim.excess, 0.0))

    @property
    def surplus(self) -> Float:
        """By how much each sample is beyond its margin, or within its tube."""
        return self._shaped(np.maximum(-self.claim.excess, 0.0))

    @property
    def shares(self) -> Float:
        """What each sample adds to the duality gap."""
        return self._shaped(self._lower + np.where(self._hard, 0.0, self._upper))

    @cached_property
    def residuals(self) -> dict[str, Residual]:
        """The worst of each condition, by its formula."""
        claim, outside = self.claim, np.maximum(-self._alpha, self._alpha - self.claim.reach)
        upper = "xi = 0" if self._hard.any() else "(C - a) xi = 0" if not claim.D.any() else "(xi - D a)^2 / 2 D = 0"
        found = {"a s = 0": self._worst(self._lower), upper: self._worst(self._upper)}
        found["0 <= a <= C"] = self._worst(np.maximum(outside, 0.0))
        missing = [abs(float(claim.a[some].sum()) - total) for some, total in claim.sums]
        if missing:
            found["sum a y = 0" if len(missing) == 1 and not claim.sums[0][1] else "sums of a"] = Residual(max(missing))
        found["w = sum a y x"] = Residual(claim.distance)
        return found

    @cached_property
    def violation(self) -> float:
        """The least tolerance with which all of this holds: a > 0 has no surplus, a < C no slack, as margins go.

        With the best intercept it is half of ``m - M``, the difference at which LIBSVM stops.
        """
        x, a, top = self.claim.excess - self.claim.D * self._alpha, self._alpha, self.claim.reach
        rises, falls = a < (1.0 - NEARLY) * top, (a > 0.0) & (top > 0.0)
        return max(float(x[rises].max(initial=0.0)), float(-x[falls].min(initial=0.0)))

    @property
    def partition(self) -> Partition:
        """Which samples have no part in the function, which lie on the margin, and which are at their bound."""
        claim = self.claim
        alpha = claim.by_sample(claim.a).sum(axis=0)
        reach = claim.by_sample(np.where(claim.D > 0.0, np.inf, claim.reach)).max(axis=0)
        return Partition.of(self.rows, alpha, reach)

    @property
    def meaning(self) -> dict[str, int]:
        """How many samples have which kind of slack."""
        xi = self.claim.by_sample(np.maximum(self.claim.excess, 0.0)).max(axis=0)
        tiny = NEARLY * (float(np.abs(self.claim.q).max(initial=0.0)) + float(xi.max(initial=0.0)))
        if self.claim.tube:
            return {"within the tube": int((xi <= tiny).sum()), "outside": int((xi > tiny).sum())}
        if not self.claim.q.any():
            return {"inliers": int((xi <= tiny).sum()), "outliers": int((xi > tiny).sum())}
        margin = float(np.abs(self.claim.q[0]))
        return {
            "beyond the margin or on it": int((xi <= tiny).sum()),
            "inside the margin, on the right side": int(((xi > tiny) & (xi < margin)).sum()),
            "on the boundary": int(((xi > tiny) & (xi == margin)).sum()),
            "on the wrong side": int(((xi > tiny) & (xi > margin)).sum()),
        }

    def worst_rows(self, count: int = SHOWN) -> Index:
        """Those rows of the data that add most to the gap, or miss a hard margin, the worst first."""
        share = self.claim.by_sample(self._lower + self._upper).sum(axis=0)
        order = np.argsort(-share, kind="stable")[:count]
        return self.rows[order[share[order] > 0.0]]

    @cached_property
    def Q(self) -> Float:
        """The matrix of the dual problem, ``y_i y_j K_ij``; of regressions and one class it is ``K``."""
        n, operator = self.rows.size, self.claim.operator
        if n > MOST_DRAWN:
            raise ValueError(f"The matrix of {n} samples is no picture; {MOST_DRAWN} are the most that are drawn.")
        K = operator.whole if isinstance(operator, Gram) else _products(self.claim, n)
        if self.claim.tube or not self.claim.q.any():
            return K
        return K * np.outer(self.claim.sign, self.claim.sign)

    def plot(self, axes: Axes | None = None) -> Axes:
        """The blocks of the matrix Q: free, bound and zero samples in turn; needs matplotlib. Returns the axes."""
        place = np.zeros(int(self.rows.max(initial=-1)) + 1, dtype=np.int64)
        place[self.rows] = np.arange(self.rows.size)
        zero, free, bound = (place[part] for part in self.partition)
        drawn: Axes = Partition(zero, free, bound).draw(self.Q, axes)
        return drawn

    @property
    def _alpha(self) -> Float:
        return np.asarray(self.claim.sign * self.claim.a + 0.0)  # no zero has a sign

    @property
    def _hard(self) -> Array:
        """Where no slack is allowed."""
        return np.isinf(self.claim.reach) & (self.claim.D == 0.0)

    @cached_property
    def _lower(self) -> Float:
        return np.clip(self._alpha, 0.0, self.claim.reach) * np.maximum(-self.claim.excess, 0.0)

    @cached_property
    def _upper(self) -> Float:
        """Of a hard margin the slack itself; of squared losses what a variable misses of its share of the slack."""
        claim, xi = self.claim, np.maximum(self.claim.excess, 0.0)
        a, curved = np.clip(self._alpha, 0.0, claim.reach), claim.D > 0.0
        room = np.where(np.isinf(claim.reach), 1.0, claim.reach - a)
        D = np.where(curved, claim.D, 1.0)
        return np.where(curved & (claim.reach > 0.0), (xi - D * a) ** 2 / (2.0 * D), room * xi)

    def _worst(self, amounts: Float) -> Residual:
        v = int(np.argmax(amounts))
        return Residual(float(amounts[v]), int(self.claim.row[v]) if amounts[v] > 0.0 else None)

    def _shaped(self, values: Float) -> Float:
        return self.claim.by_sample(values) if self.claim.tube else values


def _products(claim: Claim, n: int) -> Float:
    """Inner products of all rows."""
    return np.column_stack([claim.operator.apply(claim.operator.adjoint(row)) for row in np.eye(n)])


@dataclass(frozen=True, eq=False)
class KKTReport:
    """The optimality conditions of a fitted model, one `Conditions` for each problem that it solved.

    It prints itself, in notebooks as a table. ``report[k]`` is the ``k``-th problem; the properties below are those of
    the worst.
    """

    model: str
    verdict: Verdict
    problems: tuple[Conditions, ...]

    def __getitem__(self, k: int) -> Conditions:
        return self.problems[k]

    def __len__(self) -> int:
        return len(self.problems)

    @property
    def violation(self) -> float:
        """The least tolerance with which the conditions of all problems hold."""
        return max(one.violation for one in self.problems)

    @property
    def relative_gap(self) -> float:
        """Relative duality gap of the worst problem."""
        return self.verdict.relative_gap

    @property
    def residuals(self) -> dict[str, Residual]:
        """The worst of each condition over all problems."""
        found: dict[str, Residual] = {}
        for one in self.problems:
            for formula, residual in one.residuals.items():
                if formula not in found or residual.value > found[formula].value:
                    found[formula] = residual
        return found

    @property
    def partition(self) -> Partition | list[Partition]:
        """Which samples are zero, free and bound; a list for several problems."""
        parts = [one.partition for one in self.problems]
        return parts if len(parts) > 1 else parts[0]

    @property
    def slacks(self) -> Float | list[Float]:
        """By how much samples miss their margins, or leave their tubes; a list for several problems."""
        slacks = [one.slacks for one in self.problems]
        return slacks if len(slacks) > 1 else slacks[0]

    @property
    def support_fraction(self) -> float:
        """The share of the samples of the worst problem that are support vectors.

        Those beyond the margin are none, whatever the loss. The hinge has the fewest, since only samples exactly on the
        margin are between zero and their bound; smooth losses have all samples that are less than 1 ahead.
        """
        zero, free, bound = (part.size for part in self._worst.partition)
        return (free + bound) / max(1, zero + free + bound)

    def worst_rows(self, count: int = SHOWN) -> Index:
        """The rows of the data that miss the conditions of the worst problem most, the worst first."""
        return self._worst.worst_rows(count)

    @property
    def _worst(self) -> Conditions:
        gaps = [certificate.relative_gap for certificate in self.verdict.certificates]
        return self.problems[int(np.argmax(gaps))]

    def _lines(self) -> Iterator[tuple[str, str]]:
        """What there is to say, as pairs of a name and a text."""
        worst = self.verdict.worst
        yield "problem", self.verdict.problem
        yield "duality gap", f"{worst.gap:.2e}, relative {worst.relative_gap:.2e}"
        for formula, (value, row) in self.residuals.items():
            yield formula, f"{value:.2e}" + ("" if row is None else f"   row {row}")
        yield "largest violation", f"{self.violation:.2e}"
        one = self._worst
        zero, free, bound = (part.size for part in one.partition)
        share = f"{(free + bound) / max(1, zero + free + bound):.1%} support vectors"
        yield "samples", f"{zero} with a = 0, {free} with 0 < a < C, {bound} with a = C: {share}"
        yield "slacks", ", ".join(f"{count} {meaning}" for meaning, count in one.meaning.items() if count)

    def _table(self) -> list[list[str]]:
        """The worst rows of the worst problem."""
        one = self._worst
        place = {int(row): i for i, row in enumerate(one.rows)}
        columns = [np.atleast_2d(part) for part in (one.alpha, one.reach, one.slacks, one.surplus, one.shares)]
        table = []
        for row in one.worst_rows().tolist():
            side = int(np.argmax(columns[-1][:, place[row]]))
            table.append([str(row), *(f"{part[side, place[row]]:.4g}" for part in columns)])
        return table

    def __repr__(self) -> str:
        title = f"KKT conditions of {self.model}" + (
            f", the worst of {len(self)} problems ({self._worst.name})" if len(self) > 1 else ""
        )
        lines = [title, *(f"  {name:22s} {text}" for name, text in self._lines())]
        if table := self._table():
            lines.append("  worst rows" + "".join(f"{name:>12s}" for name in HEAD))
            lines.extend(" " * 12 + "".join(f"{cell:>12s}" for cell in cells) for cells in table)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._lines())
        head = "".join(f"<th>{escape(name)}</th>" for name in HEAD)
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" for cells in self._table())
        rows = f"<table><tr>{head}</tr>{body}</table>" if body else ""
        return f"<div><b>KKT conditions of {escape(self.model)}</b><table>{facts}</table>{rows}</div>"


HEAD = ("row", "a", "C", "xi", "s", "gap")


def kkt_report(
    model: Model, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> KKTReport:
    """Look at the optimality conditions of a fitted support vector machine, row by row.

    A point is optimal where each variable ``0 <= a <= C`` agrees with its sample: ``a = 0`` or no surplus beyond the
    margin, ``a = C`` or no slack; the sums that an intercept asks for hold; and the function is the one that the
    variables make of the samples. What the rows miss of that adds up to the duality gap.

    Parameters
    ----------
    model : estimator
        A fitted `SVC`, `NuSVC`, `SVR`, `NuSVR`, `OneClassSVM`, `LinearSVC` or `LinearSVR`, ours or scikit-learn's. Of a
        search, its best model.
    X, y : array-like
        The training data, in the same order as in the fit; a one-class model has no ``y``.
    sample_weight : array-like, optional
        The weights of the fit, if there were any.

    Returns
    -------
    KKTReport
        It prints the residuals, the worst rows and the partition of the samples; ``report[0].plot()`` draws the blocks
        of the matrix.

    Notes
    -----
    Machines that divide by their margin, nu or hard, are seen before the division, as their formula has them: slacks
    are measured from the margin ``rho``. Linear models that keep no dual variables get good ones: see `certify`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import SVC, kkt_report
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.std(axis=0)
    >>> report = kkt_report(SVC(tol=1e-8).fit(X, y), X, y)
    >>> report.violation < 1e-3
    True
    >>> {formula: residual.value < 1e-5 for formula, residual in report.residuals.items()}
    {'a s = 0': True, '(C - a) xi = 0': True, '0 <= a <= C': True, 'sum a y = 0': True, 'w = sum a y x': True}

    """
    verdict = certify(model, X, y, sample_weight)
    if not verdict.claims:
        raise TypeError(
            f"kkt_report is for support vector machines with a margin or a tube; {type(model).__name__} minimises "
            f"{verdict.problem}. certify(model, X, y) has its duality gap."
        )
    name = type(getattr(model, "best_estimator_", model)).__name__
    return KKTReport(name, verdict, tuple(Conditions(claim()) for claim in verdict.claims))
