"""Stochastic subgradient descent: the solver and its state, the loops of its steps, and the dual points of its path."""

from maxmargin.numerics.sampling import ORDERS
from maxmargin.solvers.rows.sgd.solver import LEARNING_RATES, SGD, SGDState

__all__ = ["LEARNING_RATES", "ORDERS", "SGD", "SGDState"]
