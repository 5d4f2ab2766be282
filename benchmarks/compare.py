"""Seconds of maxmargin and its peers at equal certified gap: ``python benchmarks/compare.py --help``."""

import sys

# The processes that run the solvers import this file again: they must not load more than they need.
if __name__ == "__main__":
    from benchmark_utils.command import main

    sys.exit(main())
