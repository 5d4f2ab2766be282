"""Newton's method with a proximal step on a set of columns."""

from maxmargin.solvers.columns.proximal_newton.solver import ProximalNewton

__all__ = ["ProximalNewton"]
