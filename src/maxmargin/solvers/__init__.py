"""The registry of solvers."""

from __future__ import annotations

from typing import Any

from maxmargin.protocols import Solver
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.decomposition import Decomposition
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.interior_point import InteriorPoint
from maxmargin.solvers.newton import Newton
from maxmargin.solvers.pegasos import KernelPegasos, Pegasos
from maxmargin.solvers.sgd import SGD
from maxmargin.solvers.smo import SMO
from maxmargin.solvers.smo_simplified import SimplifiedSMO
from maxmargin.solvers.smoothed import Smoothed
from maxmargin.solvers.softmax_newton import SoftmaxNewton
from maxmargin.solvers.subgradient import Subgradient

SOLVERS: dict[str, type[Any]] = {
    CuttingPlane.name: CuttingPlane,
    Decomposition.name: Decomposition,
    DualCoordinate.name: DualCoordinate,
    InteriorPoint.name: InteriorPoint,
    KernelPegasos.name: KernelPegasos,
    Newton.name: Newton,
    Pegasos.name: Pegasos,
    SGD.name: SGD,
    SMO.name: SMO,
    SimplifiedSMO.name: SimplifiedSMO,
    Smoothed.name: Smoothed,
    SoftmaxNewton.name: SoftmaxNewton,
    Subgradient.name: Subgradient,
}

# Which solvers of a `Problem` see the samples as rows of features; the others see them through a kernel matrix.
LINEAR = frozenset(
    solver.name for solver in (CuttingPlane, DualCoordinate, InteriorPoint, Newton, Pegasos, SGD, Smoothed, Subgradient)
)

# Which solvers sweep over all rows, so that these need not be in memory; the others visit single rows in any order.
OUT_OF_CORE = frozenset(
    solver.name for solver in (CuttingPlane, InteriorPoint, Newton, Smoothed, SoftmaxNewton, Subgradient)
)


def make_solver(name: str, **options: Any) -> Solver:
    """The solver of a name, with those of the options that it has."""
    if name not in SOLVERS:
        raise ValueError(f"solver={name!r} is unknown; choose one of 'auto', {', '.join(map(repr, sorted(SOLVERS)))}.")
    known = SOLVERS[name].__dataclass_fields__
    solver: Solver = SOLVERS[name](**{key: value for key, value in options.items() if key in known})
    return solver


__all__ = [
    "LINEAR",
    "OUT_OF_CORE",
    "SGD",
    "SMO",
    "SOLVERS",
    "CuttingPlane",
    "Decomposition",
    "DualCoordinate",
    "InteriorPoint",
    "Newton",
    "Smoothed",
    "SoftmaxNewton",
    "Subgradient",
    "make_solver",
]
