"""The exact path of solutions, from one breakpoint to the next."""

from maxmargin.solvers.columns.homotopy.path import PathState
from maxmargin.solvers.columns.homotopy.solver import Homotopy

__all__ = ["Homotopy", "PathState"]
