"""The registry of solvers and the one table behind ``solver="auto"``."""

from __future__ import annotations

from typing import Any

from maxmargin.protocols import Solver
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.smo import SMO

SOLVERS: dict[str, type[Any]] = {
    DualCoordinate.name: DualCoordinate,
    SMO.name: SMO,
}

# Which solvers see the samples as rows of features; the others see them through a kernel matrix.
LINEAR = frozenset({DualCoordinate.name})


def automatic(*, kernelised: bool) -> str:
    """Name of the solver that ``solver="auto"`` stands for.

    ==============================  ===================
    samples are seen through        solver
    ==============================  ===================
    a kernel                        ``smo``
    a linear kernel, or rows        ``dual_coordinate``
    ==============================  ===================
    """
    return SMO.name if kernelised else DualCoordinate.name


def make_solver(name: str, **options: Any) -> Solver:
    """The solver of a name, with those of the options that it has."""
    if name not in SOLVERS:
        raise ValueError(f"solver={name!r} is unknown; choose one of 'auto', {', '.join(map(repr, sorted(SOLVERS)))}.")
    known = SOLVERS[name].__dataclass_fields__
    solver: Solver = SOLVERS[name](**{key: value for key, value in options.items() if key in known})
    return solver


__all__ = ["LINEAR", "SMO", "SOLVERS", "DualCoordinate", "automatic", "make_solver"]
