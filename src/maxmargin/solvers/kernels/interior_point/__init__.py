"""Interior point over a kernel matrix, whole or as a factor of low rank: the solver, its matrices and its steps."""

from maxmargin.solvers.kernels.interior_point.solver import KernelInteriorPoint

__all__ = ["KernelInteriorPoint"]
