"""Block decomposition for kernel machines: the fast solver.

It is told in the order of these modules: `solver` has the options, `state` what is carried from step to step, `block`
the choice and the solution of a block, `face` the steps on all free variables, `left_out` the samples that are not in
play, `variables` those that are, and `loops` what is compiled.
"""

from maxmargin.solvers.kernels.decomposition.solver import Decomposition as Decomposition
from maxmargin.solvers.kernels.decomposition.state import DecompositionState as DecompositionState
