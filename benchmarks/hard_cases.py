"""Problems on which the peers do not finish: ``python benchmarks/hard_cases.py --help``."""

import sys

# The processes that run the solvers import this file again: they must not load more than they need.
if __name__ == "__main__":
    from benchmark_utils.hard import main

    sys.exit(main())
