"""The linear machines against their goals: ``python benchmarks/linear.py --help``."""

import sys

# The processes that run the solvers import this file again: they must not load more than they need.
if __name__ == "__main__":
    from benchmark_utils.linear_table import main

    sys.exit(main())
