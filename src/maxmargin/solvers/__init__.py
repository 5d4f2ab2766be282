"""The registry of solvers."""

from __future__ import annotations

from typing import Any

from maxmargin.protocols import Solver
from maxmargin.solvers.blocks import Blocks
from maxmargin.solvers.cocoa import CoCoA
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.decomposition import Decomposition
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.frank_wolfe import FrankWolfe
from maxmargin.solvers.gilbert import Gilbert
from maxmargin.solvers.interior_point import InteriorPoint
from maxmargin.solvers.newton import Newton
from maxmargin.solvers.pegasos import KernelPegasos, Pegasos
from maxmargin.solvers.pivoting import Pivoting
from maxmargin.solvers.saddle import Saddle
from maxmargin.solvers.sgd import SGD
from maxmargin.solvers.smo import SMO
from maxmargin.solvers.smo_simplified import SimplifiedSMO
from maxmargin.solvers.smoothed import Smoothed
from maxmargin.solvers.softmax_newton import SoftmaxNewton
from maxmargin.solvers.subgradient import Subgradient

SOLVERS: dict[str, type[Any]] = {
    Blocks.name: Blocks,
    CoCoA.name: CoCoA,
    CuttingPlane.name: CuttingPlane,
    Decomposition.name: Decomposition,
    DualCoordinate.name: DualCoordinate,
    FrankWolfe.name: FrankWolfe,
    Gilbert.name: Gilbert,
    InteriorPoint.name: InteriorPoint,
    KernelPegasos.name: KernelPegasos,
    Newton.name: Newton,
    Pegasos.name: Pegasos,
    Pivoting.name: Pivoting,
    SGD.name: SGD,
    SMO.name: SMO,
    Saddle.name: Saddle,
    SimplifiedSMO.name: SimplifiedSMO,
    Smoothed.name: Smoothed,
    SoftmaxNewton.name: SoftmaxNewton,
    Subgradient.name: Subgradient,
}

# Which solvers of a `Problem` see the samples as rows of features; the others see them through a kernel matrix.
_OF_ROWS = (
    Blocks,
    CoCoA,
    CuttingPlane,
    DualCoordinate,
    InteriorPoint,
    Newton,
    Pegasos,
    Pivoting,
    SGD,
    Smoothed,
    Subgradient,
)
LINEAR = frozenset(solver.name for solver in _OF_ROWS)

# Which solvers see the samples as rows of features and solve the distance of two hulls, `HullDistance`.
OF_HULLS = frozenset(solver.name for solver in (FrankWolfe, Gilbert, Saddle))

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
    "OF_HULLS",
    "OUT_OF_CORE",
    "SGD",
    "SMO",
    "SOLVERS",
    "Blocks",
    "CoCoA",
    "CuttingPlane",
    "Decomposition",
    "DualCoordinate",
    "FrankWolfe",
    "Gilbert",
    "InteriorPoint",
    "Newton",
    "Pivoting",
    "Saddle",
    "Smoothed",
    "SoftmaxNewton",
    "Subgradient",
    "make_solver",
]
