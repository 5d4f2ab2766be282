"""Semismooth Newton for linear models with few features: the solver, its state, coarser levels, and loops."""

from maxmargin.solvers.rows.newton.levels import worth_thinning
from maxmargin.solvers.rows.newton.solver import MAX_FEATURES, Newton

__all__ = ["MAX_FEATURES", "Newton", "worth_thinning"]
