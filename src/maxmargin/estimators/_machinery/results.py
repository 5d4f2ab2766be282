"""What a fit found: the solution of each task, what it stands for, and how good all of them are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from maxmargin._jit import compiled
from maxmargin.estimators._machinery.plan import Function, Task
from maxmargin.loop.at_once import Found
from maxmargin.loop.solution import Record, Solution
from maxmargin.problems.point import Certificate, Point, Status, relative_gap
from maxmargin.protocols import Array, Float, Index

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

DELAYED = "_solutions_to_come"  # the attribute that holds what makes `solutions_` when somebody asks for them


class Solved(NamedTuple):
    """One task, solved and read."""

    solution: Solution
    function: Function


class Results(Sequence[Solved]):
    """The solved tasks of a fit, one after the other."""

    def __init__(self, solved: Sequence[Solved], of_features: bool = True) -> None:
        self._solved = solved
        self.of_features = of_features  # whether what was certified are coefficients of features, and not of samples

    def __len__(self) -> int:
        return len(self._solved)

    @overload
    def __getitem__(self, k: int) -> Solved: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Solved]: ...
    def __getitem__(self, k: int | slice) -> Solved | Sequence[Solved]:
        return self._solved[k]

    def expansions(self, tasks: Sequence[Task], n: int) -> Float:
        """The coefficients over all samples, a row for each task."""
        out = np.zeros((len(self), n))
        for row, task, one in zip(out, tasks, self, strict=True):
            row[task.members] = one.function.alpha
        return out

    def undivided(self, tasks: Sequence[Task], n: int) -> tuple[Float, Float]:
        """The same before they were divided by a margin, and the margins, a row for each task."""
        expansions, margins = self.expansions(tasks, n), np.ones((len(self), 1))
        for k, (task, one) in enumerate(zip(tasks, self, strict=True)):
            if one.function.undivided is not None:
                expansions[k, task.members], margins[k] = one.function.undivided, one.function.width
        return expansions, margins

    @property
    def intercepts(self) -> Float:
        """One for each task."""
        return np.array([one.function.b for one in self])

    @property
    def widths(self) -> Float:
        """Of the margin or the tube of each task."""
        return np.array([one.function.width for one in self])

    @property
    def coefficients(self) -> Float:
        """Of the features, a row for each task."""
        return np.array([one.function.w for one in self])

    @property
    def iterations(self) -> Array:
        """Those of the solver, for each task."""
        return np.array([one.solution.iterations for one in self], dtype=np.int32)

    def keep(self, estimator: CertifiedEstimator) -> None:
        """Sets: what is known about the quality of the fit, and ``n_iter_``."""
        solutions = [one.solution for one in self]
        last = worst(solutions)
        estimator.__dict__.pop(DELAYED, None)
        estimator.solutions_, estimator.solution_ = solutions, last
        estimator.duality_gap_ = last.certificate.relative_gap
        estimator.objective_, estimator.dual_objective_ = last.certificate.primal, last.certificate.dual
        estimator.n_iter_ = max(solution.iterations for solution in solutions)


class AtOnce(Results):
    """The results of one compiled call: arrays, of which solutions are made when they are asked for."""

    def __init__(
        self, found: Found, functions: Sequence[Float], point: Callable[[int], Point], solver: str, tol: float
    ) -> None:
        super().__init__((), of_features=functions[3].size > 0)
        self.found, self.point, self.solver, self.tol = found, point, solver, tol
        self._expansions, self._intercepts, self._widths, self._coefficients = functions
        self.seconds = 0.0
        self._made: list[Solved] | None = None

    def __len__(self) -> int:
        return len(self.found.gaps)

    @overload
    def __getitem__(self, k: int) -> Solved: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Solved]: ...
    def __getitem__(self, k: int | slice) -> Solved | Sequence[Solved]:
        if self._made is None:
            self._made = [self._one(i) for i in range(len(self))]
        return self._made[k]

    def expansions(self, tasks: Sequence[Task], n: int) -> Float:
        """The coefficients over all samples, a row for each task."""
        return self._expansions

    def undivided(self, tasks: Sequence[Task], n: int) -> tuple[Float, Float]:
        """The coefficients as they are, and no margins."""
        return self._expansions, np.ones((len(self), 1))

    @property
    def intercepts(self) -> Float:
        """One for each task."""
        return self._intercepts

    @property
    def widths(self) -> Float:
        """Of the margin or the tube of each task."""
        return self._widths

    @property
    def coefficients(self) -> Float:
        """Of the features, a row for each task."""
        return self._coefficients

    @property
    def iterations(self) -> Array:
        """Those of the solver, for each task."""
        return self.found.blocks.astype(np.int32)

    def keep(self, estimator: CertifiedEstimator) -> None:
        """Sets: the same, but for the solutions, which are made when somebody asks for them."""
        own, found = estimator.__dict__, self.found
        own.pop("solutions_", None)
        own.pop("solution_", None)
        own[DELAYED] = self
        gaps = found.gaps.tolist()
        values = found.values[gaps.index(max(gaps))].tolist()
        own["duality_gap_"], own["objective_"], own["dual_objective_"] = relative_gap(*values), values[0], values[1]
        own["n_iter_"] = max(found.blocks.tolist())

    def _one(self, k: int) -> Solved:
        """A task, with one record for its history: the certificate."""
        primal, dual, *errors = self.found.values[k].tolist()
        certificate, seconds = Certificate(primal, dual, *errors), self.seconds / len(self)
        blocks = int(self.found.blocks[k])
        record = Record(seconds, blocks, primal, dual, certified=True, error=certificate.error)
        point = self.point(k)
        solution = Solution(
            point, certificate, Status.CONVERGED, self.solver, self.tol, blocks, seconds, (record,), last=point
        )
        w = self._coefficients[k] if self._coefficients.size else point.w
        b, width = float(self._intercepts[k]), float(self._widths[k])
        alpha = self._expansions[k] if self._expansions.size else point.alpha
        return Solved(solution, Function(w, b, alpha, width))


@compiled
def support_of(expansions: Float, codes: Index, classes: int) -> tuple[Array, Array, Float]:
    """The samples with coefficients, class by class, how many each class has, and the coefficients."""
    n, used, counts = codes.shape[0], np.zeros(codes.shape[0], dtype=np.bool_), np.zeros(classes, dtype=np.int32)
    for row in expansions:
        for i in range(n):
            used[i] |= row[i] != 0.0
    total = 0
    for i in range(n):
        if used[i]:
            counts[codes[i]] += 1
            total += 1
    support, place = np.empty(total, dtype=np.int32), 0
    for c in range(classes):
        for i in range(n):
            if used[i] and codes[i] == c:
                support[place] = i
                place += 1
    coefficients = np.empty((expansions.shape[0], total))
    for k in range(expansions.shape[0]):
        row, out = expansions[k], coefficients[k]
        for t in range(total):
            out[t] = row[support[t]]
    return support, counts, coefficients


def worst(solutions: Sequence[Solution]) -> Solution:
    """The solution with the largest relative gap."""
    return max(solutions, key=lambda solution: solution.certificate.relative_gap)


class Delayed:
    """An attribute of an estimator that is made from `DELAYED` when somebody looks at it, and an ordinary one then.

    Those of a fit in one compiled call are: to describe its solutions one by one takes longer than to find them.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: CertifiedEstimator | None, owner: type | None = None) -> Any:
        if estimator is None:
            return self
        realise(estimator)
        if self.name not in vars(estimator):
            raise AttributeError(f"{type(estimator).__name__!r} object has no attribute {self.name!r}")
        return vars(estimator)[self.name]

    def __set__(self, estimator: CertifiedEstimator, value: object) -> None:
        estimator.__dict__[self.name] = value

    def __delete__(self, estimator: CertifiedEstimator) -> None:
        self.__get__(estimator)
        del estimator.__dict__[self.name]


def realise(estimator: object) -> None:
    """Sets: ``solutions_`` and ``solution_``, if they were delayed."""
    delayed = vars(estimator).pop(DELAYED, None)
    if delayed is not None:
        solutions = [one.solution for one in delayed]
        vars(estimator).update(solutions_=solutions, solution_=worst(solutions))
