"""Interior point for linear models with few features and a loss that has a kink: the solver and its loops."""

from maxmargin.solvers.rows.interior_point.solver import RowsInteriorPoint

__all__ = ["RowsInteriorPoint"]
