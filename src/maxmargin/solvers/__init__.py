"""The registry of solvers: one line for each."""

from __future__ import annotations

from typing import Any

from maxmargin.solvers.classes.softmax_newton import SoftmaxNewton as SoftmaxNewton
from maxmargin.solvers.hulls.frank_wolfe import FrankWolfe as FrankWolfe
from maxmargin.solvers.hulls.gilbert import Gilbert as Gilbert
from maxmargin.solvers.hulls.saddle import Saddle as Saddle
from maxmargin.solvers.kernels.decomposition import Decomposition as Decomposition
from maxmargin.solvers.kernels.pegasos_kernel import KernelPegasos as KernelPegasos
from maxmargin.solvers.kernels.smo import SMO as SMO
from maxmargin.solvers.kernels.smo_simplified import SimplifiedSMO as SimplifiedSMO
from maxmargin.solvers.rows.blocks import Blocks as Blocks
from maxmargin.solvers.rows.cocoa import CoCoA as CoCoA
from maxmargin.solvers.rows.cutting_plane import CuttingPlane as CuttingPlane
from maxmargin.solvers.rows.dual_coordinate import DualCoordinate as DualCoordinate
from maxmargin.solvers.rows.interior_point import InteriorPoint as InteriorPoint
from maxmargin.solvers.rows.newton import Newton as Newton
from maxmargin.solvers.rows.pegasos import Pegasos as Pegasos
from maxmargin.solvers.rows.pivoting import Pivoting as Pivoting
from maxmargin.solvers.rows.sgd import SGD as SGD
from maxmargin.solvers.rows.smoothed import Smoothed as Smoothed
from maxmargin.solvers.rows.subgradient import Subgradient as Subgradient
from maxmargin.solvers.solver import AnySolver, Needs, Solver, State

# Whatever was imported above, by its name.
SOLVERS: dict[str, type[Any]] = {
    thing.name: thing
    for thing in list(globals().values())
    if isinstance(thing, type) and issubclass(thing, Solver) and thing is not Solver
}


def _seeing(*samples: str) -> frozenset[str]:
    return frozenset(name for name, solver in SOLVERS.items() if solver.needs.samples in samples)


LINEAR = _seeing("rows", "sweeps")  # which solvers of a `Problem` see rows of features; others see a kernel matrix
OF_HULLS = _seeing("hulls")
OUT_OF_CORE = _seeing("sweeps", "classes")  # which sweep over all rows, so that these need not be in memory


def make_solver(name: str, **options: Any) -> AnySolver:
    """The solver of a name, with those of the options that it has."""
    if name not in SOLVERS:
        raise ValueError(f"solver={name!r} is unknown; choose one of 'auto', {', '.join(map(repr, sorted(SOLVERS)))}.")
    known = SOLVERS[name].__dataclass_fields__
    solver: AnySolver = SOLVERS[name](**{key: value for key, value in options.items() if key in known})
    return solver


__all__ = ["LINEAR", "OF_HULLS", "OUT_OF_CORE", "SOLVERS", "AnySolver", "Needs", "Solver", "State", "make_solver"]
