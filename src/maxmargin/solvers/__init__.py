"""The registry of solvers and the one table behind ``solver="auto"``."""

from __future__ import annotations

from typing import Any

from maxmargin.protocols import Solver
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.decomposition import Decomposition
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.interior_point import InteriorPoint
from maxmargin.solvers.newton import MAX_FEATURES, Newton
from maxmargin.solvers.pegasos import KernelPegasos, Pegasos
from maxmargin.solvers.relay import Relay
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

# Up to this many features a Newton step is cheap, and its indifference to column scales decides.
FEW_FEATURES = 256
NEWTON_STEPS = 100  # then something is wrong: kinks by the thousand, or columns that nearly depend on each other


def automatic(*, kernelised: bool, n_features: int, in_memory: bool = True) -> str:
    """Name of the solver that ``solver="auto"`` stands for.

    ==================================================  ======================================
    samples                                             solver
    ==================================================  ======================================
    seen through a kernel other than the linear one     ``decomposition``
    rows of at most 256 features                        ``newton``, after 100 steps ``interior_point``
    rows of more features                               ``dual_coordinate``
    rows of at most 1000 features, read in chunks       ``newton``, after 100 steps ``interior_point``
    rows of more features, read in chunks               ``smoothed``
    ==================================================  ======================================

    Newton's steps are few: where reading is what takes the time, it is worth its work on more features.
    """
    if kernelised:
        return Decomposition.name
    if not in_memory:
        return Newton.name if n_features <= MAX_FEATURES else Smoothed.name
    return Newton.name if n_features <= FEW_FEATURES else DualCoordinate.name


def make_automatic(name: str, **options: Any) -> Solver:
    """The solver that ``automatic`` named, with the one that takes over where it is not done in time."""
    solver = make_solver(name, **options)
    return Relay(solver, InteriorPoint(), NEWTON_STEPS) if name == Newton.name else solver


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
    "automatic",
    "make_automatic",
    "make_solver",
]
