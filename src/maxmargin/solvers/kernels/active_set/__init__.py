"""The active-set method: which variables are at a bound, and linear equations for those that are not.

`solver` has the options and the order of events, `state` what is carried along and the method with many changes at
once, `loops` the method with one change at a time and its updated factor. `path` follows the solutions
for all sizes of the box, and `sums_path` for all sums of the groups.
"""

from maxmargin.solvers.kernels.active_set.solver import ActiveSet as ActiveSet
from maxmargin.solvers.kernels.active_set.solver import solved as solved
from maxmargin.solvers.kernels.active_set.state import ActiveSetState as ActiveSetState
