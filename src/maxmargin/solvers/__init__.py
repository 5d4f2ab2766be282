"""All solvers by their classes, and the registry: one line for each.

They are public: ``minimize(problem, Pegasos(batch_size=4))`` runs one on a posed problem, `maxmargin.trace` shows its
steps, and estimators take the same options as ``solver="pegasos", solver_options={"batch_size": 4}``.
"""

from __future__ import annotations

from collections.abc import Mapping

from maxmargin.solvers.classes.dual_simplices import DualSimplices as DualSimplices
from maxmargin.solvers.classes.softmax_newton import SoftmaxNewton as SoftmaxNewton
from maxmargin.solvers.columns.coordinate_descent import CoordinateDescent as CoordinateDescent
from maxmargin.solvers.columns.group_descent import GroupDescent as GroupDescent
from maxmargin.solvers.columns.homotopy import Homotopy as Homotopy
from maxmargin.solvers.columns.proximal_newton import ProximalNewton as ProximalNewton
from maxmargin.solvers.columns.working_set import WorkingSet as WorkingSet
from maxmargin.solvers.hulls.frank_wolfe import FrankWolfe as FrankWolfe
from maxmargin.solvers.hulls.gilbert import Gilbert as Gilbert
from maxmargin.solvers.hulls.saddle import Saddle as Saddle
from maxmargin.solvers.interior_point import InteriorPoint as InteriorPoint
from maxmargin.solvers.kernels.active_set import ActiveSet as ActiveSet
from maxmargin.solvers.kernels.block_smo import BlockSMO as BlockSMO
from maxmargin.solvers.kernels.decomposition import Decomposition as Decomposition
from maxmargin.solvers.kernels.kernel_cholesky import KernelCholesky as KernelCholesky
from maxmargin.solvers.kernels.kernel_coordinate import KernelCoordinate as KernelCoordinate
from maxmargin.solvers.kernels.pegasos_kernel import KernelPegasos as KernelPegasos
from maxmargin.solvers.kernels.semismooth import SemismoothNewton as SemismoothNewton
from maxmargin.solvers.kernels.smo import SMO as SMO
from maxmargin.solvers.kernels.smo_simplified import SimplifiedSMO as SimplifiedSMO
from maxmargin.solvers.rows.blocks import Blocks as Blocks
from maxmargin.solvers.rows.cholesky import Cholesky as Cholesky
from maxmargin.solvers.rows.cocoa import CoCoA as CoCoA
from maxmargin.solvers.rows.conjugate_gradients import ConjugateGradients as ConjugateGradients
from maxmargin.solvers.rows.cutting_plane import CuttingPlane as CuttingPlane
from maxmargin.solvers.rows.dual_coordinate import DualCoordinate as DualCoordinate
from maxmargin.solvers.rows.fista import FISTA as FISTA
from maxmargin.solvers.rows.landweber import Landweber as Landweber
from maxmargin.solvers.rows.newton import Newton as Newton
from maxmargin.solvers.rows.pegasos import Pegasos as Pegasos
from maxmargin.solvers.rows.pivoting import Pivoting as Pivoting
from maxmargin.solvers.rows.proximal_gradient import ProximalGradient as ProximalGradient
from maxmargin.solvers.rows.sgd import SGD as SGD
from maxmargin.solvers.rows.sgd_textbook import TextbookSGD as TextbookSGD
from maxmargin.solvers.rows.smoothed import Smoothed as Smoothed
from maxmargin.solvers.rows.subgradient import Subgradient as Subgradient
from maxmargin.solvers.rows.subgradient_textbook import TextbookSubgradient as TextbookSubgradient
from maxmargin.solvers.rows.svd import SVD as SVD
from maxmargin.solvers.solver import AnySolver, Needs, Solver, State, is_of_type

# Whatever was imported above, by its name.
SOLVERS: dict[str, type[AnySolver]] = {
    thing.name: thing
    for thing in list(globals().values())
    if isinstance(thing, type) and issubclass(thing, Solver) and thing is not Solver
}


def solver_class(name: str) -> type[AnySolver]:
    """The class of the solver of a name."""
    if name not in SOLVERS:
        raise ValueError(f"solver={name!r} is unknown; choose one of 'auto', {', '.join(map(repr, sorted(SOLVERS)))}.")
    return SOLVERS[name]


def make_solver(name: str, **options: object) -> AnySolver:
    """The solver of a name with its options; one that it does not have, or of a wrong type, is refused.

    Where an option is a solver, its name will do.
    """
    kind = solver_class(name)
    options = with_solvers(kind, options)
    for option, value in options.items():
        if option not in kind.options():
            known = ", ".join(map(repr, kind.options())) or "none"
            raise ValueError(f"solver={name!r} has no option {option!r}; its options are {known}.")
        if not is_of_type(value, kind.types()[option]):
            raise TypeError(f"The option {option!r} of solver={name!r} is {value!r}; it needs {kind.types()[option]}.")
    return kind(**options)


def with_solvers(kind: type[AnySolver], options: Mapping[str, object]) -> dict[str, object]:
    """Options of a kind of solver, with solvers where these are named."""
    return {
        option: make_solver(value) if isinstance(value, str) and "AnySolver" in kind.types().get(option, "") else value
        for option, value in options.items()
    }


def refuse_wrong_options(name: str, options: Mapping[str, object]) -> None:
    """Refuse options that the solver of a name does not have, and those of a solver that nobody named."""
    if name in SOLVERS:
        make_solver(name, **options)
        return
    having = [own for own, kind in sorted(SOLVERS.items()) if set(options) <= set(kind.options())]
    who = f"those with these options are {', '.join(map(repr, having))}" if having else "no solver has all of them"
    raise ValueError(
        f"solver_options={options!r} are for a solver that is named, and solver={name!r} names none of this library; "
        f"{who}."
    )


def solvers_of(problem: object) -> list[str]:
    """The names of all solvers that support a problem, with their default options."""
    return sorted(name for name, kind in SOLVERS.items() if kind().supports(problem) is None)


__all__ = [
    "SOLVERS",
    "AnySolver",
    "Needs",
    "Solver",
    "State",
    "make_solver",
    "refuse_wrong_options",
    "solver_class",
    "solvers_of",
    *(kind.__name__ for kind in SOLVERS.values()),
]
