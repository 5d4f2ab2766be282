"""Exact solutions on a growing set of columns."""

from maxmargin.solvers.columns.working_set.solver import WorkingSet

__all__ = ["WorkingSet"]
