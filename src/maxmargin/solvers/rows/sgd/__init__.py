"""Stochastic subgradient descent: the solver and its state, the loops of its steps, and the dual points of its path."""

from maxmargin.numerics.sampling import ORDERS
from maxmargin.solvers.rows.sgd.descent import HeldOut
from maxmargin.solvers.rows.sgd.loops import NEVER
from maxmargin.solvers.rows.sgd.solver import LEARNING_RATES, SGD, SGDState

__all__ = ["LEARNING_RATES", "NEVER", "ORDERS", "SGD", "HeldOut", "SGDState"]
