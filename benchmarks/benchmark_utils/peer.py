"""What a solver of the suite is, for benchopt and for ``compare.py``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from benchmark_utils.data import few_rows
from benchmark_utils.workloads import Task

SOLVERS = Path(__file__).parent.parent / "solvers"
LADDER = tuple(10.0**-k for k in range(1, 9))
FOLDERS = Path(os.environ.get("MAXMARGIN_PEERS", Path(sys.prefix) / "peers"))

# Solvers are benchopt's if benchopt runs them and plain objects otherwise, so that compare.py works without benchopt
# and its processes load nothing that they do not measure.
_Base: Any = sys.modules["benchopt"].BaseSolver if "benchopt" in sys.modules else object


class Answer(NamedTuple):
    """What a solver returns: coefficients ``w`` or signed dual variables ``alpha``, or both, and the intercept.

    One-vs-one: ``alpha`` in the layout of scikit-learn's ``dual_coef_``, but over all samples, and one ``b`` per pair.
    Predictions: ``w`` are the scores.
    """

    w: Any
    b: Any
    alpha: Any = None
    info: dict[str, Any] | None = None  # what it says of itself, for reports; the labels of predictions


class Peer(_Base):
    """A library at one setting. Subclasses import it inside ``fit``: the first fit, which is not timed, pays."""

    name = ""
    distribution = ""  # on PyPI
    parameters: ClassVar[dict[str, list[Any]]] = {}  # settings to try: each combination is measured, the best counts
    ladder = LADDER  # of its own tolerances, loose to tight
    sampling_strategy = "tolerance"
    tol_is_the_gap = False  # whether tol=1e-3 promises a relative duality gap of 1e-3
    gap_follows_tol = False  # whether a ten times smaller tol makes the gap about ten times smaller
    threads = 1  # for libraries that take the number as an argument
    time_limit: float | None = None  # for libraries that can stop themselves

    def __init_subclass__(cls) -> None:
        cls.requirements = [f"pip::{cls.distribution}"]  # for ``benchopt install``

    def refusal(self, task: Task) -> str | None:
        """Why this setting does not solve a task, or ``None``."""
        raise NotImplementedError

    def prepare(self, X: Any, y: Any, task: Task) -> None:
        """Fit the model whose predictions will be timed; called for the family "predict" only, and not timed."""

    def fit(self, X: Any, y: Any, task: Task, tol: float) -> Answer:
        """Solve a task at the library's own tolerance ``tol``. Everything in here is timed, conversions too."""
        raise NotImplementedError

    @property
    def setting(self) -> str:
        """The values of the parameters."""
        return " ".join(str(getattr(self, key)) for key in self.parameters)

    # What benchopt calls.

    def skip(self, X: Any, y: Any, task: Task) -> tuple[bool, str | None]:
        if folder_of(self.distribution).exists() or not version_of(self.distribution):
            return True, f"{self.distribution} is not installed beside the others"
        reason = self.refusal(task)
        return reason is not None, reason

    def set_objective(self, X: Any, y: Any, task: Task) -> None:
        self.X, self.y, self.task = X, y, task

    def warm_up(self) -> None:
        for X, y in (few_rows(self.X, self.y), (self.X, self.y)):
            if self.task.family == "predict":
                self.prepare(X, y, self.task)
            if y is not self.y:
                self.fit(X, y, self.task, self.ladder[0])

    def get_next(self, tol: float) -> float:
        return min(tol / 10.0, self.ladder[0])  # benchopt starts at infinity

    def run(self, tol: float) -> None:
        self.answer = self.fit(self.X, self.y, self.task, min(tol, self.ladder[0]))

    def get_result(self) -> dict[str, Any]:
        return self.answer._asdict()


def folder_of(distribution: str) -> Path:
    """Where ``pip install --target`` put a distribution that cannot be installed beside the others; may not exist."""
    return FOLDERS / distribution


def version_of(distribution: str) -> str | None:
    """Version of a distribution that is installed or has a folder of its own, or ``None``."""
    places = [str(folder_of(distribution)), *sys.path]
    return next((d.version for d in importlib.metadata.distributions(name=distribution, path=places)), None)


def solver_files() -> list[str]:
    """Names of the files that hold a solver, ours first."""
    return sorted((path.stem for path in SOLVERS.glob("*.py")), key=lambda stem: (stem != "maxmargin", stem))


def load_class(stem: str) -> type[Peer]:
    """The solver class of a file; by path, because the file may be called like the library that it wraps."""
    spec = importlib.util.spec_from_file_location(f"benchmark_solver_{stem}", SOLVERS / f"{stem}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Solver


def make(stem: str, parameters: dict[str, Any]) -> Peer:
    """A solver at a setting."""
    peer = load_class(stem)()
    for key, value in parameters.items():
        setattr(peer, key, value)
    return peer


def settings(stem: str) -> Iterator[dict[str, Any]]:
    """Every combination of a solver's parameters."""
    parameters = load_class(stem).parameters
    for values in itertools.product(*parameters.values()):
        yield dict(zip(parameters, values, strict=True))
